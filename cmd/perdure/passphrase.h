/* passphrase.h: where passphrases come from: a file descriptor, a file, a credential, or a person at a terminal; never an argument. */
#ifndef PD_CMD_PASSPHRASE_H
#define PD_CMD_PASSPHRASE_H

#include "base/secret.h"
#include "cli.h"

#define PASSPHRASE_CREDENTIAL "perdure-vault" /* in $CREDENTIALS_DIRECTORY, as systemd makes it */

#define PASSPHRASE_OPTIONS                                                                                                                 \
  {"passphrase-fd", 0, "N", "read the passphrase from this file descriptor: one line"},                                                    \
  {                                                                                                                                        \
    "passphrase-file", 0, "FILE", "read it from this file, which only you may read"                                                        \
  }

typedef struct passphrase {
  pd_secret memory;
  pd_bytes text; /* in memory */
} passphrase;

/* By --PREFIXpassphrase-fd, --PREFIXpassphrase-file, with an empty prefix the credential, else a prompt on the terminal without echo,
 * `is_new`: asked twice. `what` is for the prompt: "Passphrase". PD_INVALID if there is none of these; a file that others may read. */
PD_MUST_USE pd_code passphrase_read(const args_parsed *args, const char *prefix, const char *what, bool is_new, passphrase *out,
                                    pd_error *err);
/* Was one named on the command line or by a credential? Then nobody need be asked. */
bool passphrase_is_given(const args_parsed *args, const char *prefix);
void passphrase_done(passphrase *pass);

#endif
