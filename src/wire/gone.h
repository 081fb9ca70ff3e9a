/*
 * gone.h: notices that a client has left while libmicrohttpd does not look: the connection of an answer that waits, or of a stream that has
 * nothing to say, is suspended. One thread for all of them.
 *
 * Over TCP who has closed its end for writing and who is gone look the same, until something is sent: then who is gone resets the
 * connection. A client may do the former and read on, so it is not cut off: who has a stream is sent a word at once.
 */
#ifndef PD_WIRE_GONE_H
#define PD_WIRE_GONE_H

#include <perdure/perdure.h>

typedef struct pd_gone pd_gone;

PD_MUST_USE pd_code pd_gone_new(pd_gone **out, pd_error *err);
/* Nobody is watched over any more. Takes NULL. */
void pd_gone_free(pd_gone *gone);

/* One socket that is watched over. Zero-initialise; it must stay where it is until it is forgotten. */
typedef struct pd_leaver pd_leaver;
struct pd_leaver {
  /* Under the lock of `gone`: they must not call pd_gone_*. Either may be NULL. */
  void (*half)(void *ctx); /* at most once: the other side sends nothing more; it may be gone */
  void (*left)(void *ctx); /* at most once, and then nothing follows: it is gone */
  void *ctx;
  int fd;          /* < 0: none; then nothing is noticed */
  uint64_t number; /* 0: not watched over */
  bool is_half;
};

/* From now on. Without memory for it, nothing is noticed. */
void pd_gone_watch(pd_gone *gone, pd_leaver *leaver);
/* When it returns `left` does not run, and will not. Before the socket is closed. Takes one that is not watched over. */
void pd_gone_forget(pd_gone *gone, pd_leaver *leaver);

#endif
