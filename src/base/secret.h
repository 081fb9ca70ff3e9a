/* secret.h: memory for keys and passphrases: never swapped, never in a core dump, not seen by a child process, wiped when done. */
#ifndef PD_BASE_SECRET_H
#define PD_BASE_SECRET_H

#include <perdure/perdure.h>

/* Pages of its own. Zero-initialise; pd_secret_done wipes, frees and takes {0}. */
typedef struct pd_secret {
  uint8_t *data;
  size_t size;   /* bytes that may be used; zeros at first */
  size_t mapped; /* whole pages */
} pd_secret;

/* PD_STORAGE if the system lets this process lock no memory (`ulimit -l`): a key is kept in no other. */
PD_MUST_USE pd_code pd_secret_new(pd_secret *out, size_t size, pd_error *err);
void pd_secret_done(pd_secret *secret);

#endif
