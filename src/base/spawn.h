/* spawn.h: starting a thread: with a small stack, and without the signals, which are the program's. */
#ifndef PD_BASE_SPAWN_H
#define PD_BASE_SPAWN_H

#include <pthread.h>
#include <stddef.h>

/* 0, or an errno. `out` NULL: nobody waits for its end. */
int pd_spawn(pthread_t *out, size_t stack_size, void *(*run)(void *ctx), void *ctx);

#endif
