/* start.h: starting a thread of the server: with a small stack, and without the signals, which are the main thread's. */
#ifndef PD_WIRE_START_H
#define PD_WIRE_START_H

#include <pthread.h>
#include <stddef.h>

/* 0, or an errno. `out` NULL: nobody waits for its end. */
int pd_spawn(pthread_t *out, size_t stack_size, void *(*run)(void *ctx), void *ctx);

#endif
