/* spawn.c: see spawn.h. */
#include "base/spawn.h"

#include <signal.h>

int pd_spawn(pthread_t *out, size_t stack_size, void *(*run)(void *ctx), void *ctx)
{
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t id;
  int failed = pthread_attr_init(&attributes);
  if (failed) return failed;
  pthread_attr_setstacksize(&attributes, stack_size);
  if (!out) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread begins with its maker's mask */
  failed = pthread_create(out ? out : &id, &attributes, run, ctx);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failed;
}
