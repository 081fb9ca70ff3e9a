/*
 * pulse.h: is a pool alive? A job is put into it now and then; it lives if that was run since the last time, or anything else was: one
 * that has much to do is not dead.
 */
#ifndef PD_WIRE_PULSE_H
#define PD_WIRE_PULSE_H

#include "wire/pool.h"

#include <stdatomic.h>

typedef struct pd_pulse {
  pd_job job; /* first: the pool's */
  pd_pool *pool;
  atomic_bool is_out; /* the job waits, or runs */
  bool is_refused;    /* the pool had no room for it */
  uint64_t taken;     /* by the pool, at the last time */
} pd_pulse;

/* It must last as long as the pool's threads. */
void pd_pulse_init(pd_pulse *pulse, pd_pool *pool);
/* Did the pool do anything since the last time? True at first. */
bool pd_pulse_take(pd_pulse *pulse);

#endif
