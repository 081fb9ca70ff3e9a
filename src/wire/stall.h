/*
 * stall.h: is a write waiting while none finishes? Counted, not guessed: each write that is handed to another thread is counted in when it
 * begins to wait and out when it is answered. What a supervisor asks (GET /healthz) is whether anything has moved for a while.
 */
#ifndef PD_WIRE_STALL_H
#define PD_WIRE_STALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PD_STALL_MS 10000

/* Zeroed: nothing waits. */
typedef struct pd_stall {
  atomic_size_t waiting;
  _Atomic int64_t moved_ms; /* when a write finished last, or the first began to wait */
} pd_stall;

/* Times are monotonic milliseconds. */
void pd_stall_begin(pd_stall *stall, int64_t now_ms);
void pd_stall_end(pd_stall *stall, int64_t now_ms);
/* For how long at least one write has waited without any finishing; 0: none waits. */
int64_t pd_stall_ms(const pd_stall *stall, int64_t now_ms);

#endif
