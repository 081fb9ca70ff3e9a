/* far_home.h: what is done to a home as a whole, on the server's side (/v1/home/…). */
#ifndef PD_CMD_FAR_HOME_H
#define PD_CMD_FAR_HOME_H

#include "cli.h"
#include "passphrase.h"

/* As pd_doctor. */
PD_MUST_USE pd_code far_doctor(const cli_session *cli, void (*visit)(void *ctx, const pd_diagnosis *diagnosis), void *ctx,
                               pd_severity *out_worst, pd_error *err);

/* As pd_home_agents. */
PD_MUST_USE pd_code far_agents(const cli_session *cli, void (*visit)(void *ctx, const char *agent), void *ctx, pd_error *err);

/* The settings in force there. Zero-initialise. */
typedef struct far_config {
  pd_config_info *infos;
  size_t count, capacity;
  pd_buf texts;   /* of all of them: the infos point into it */
  pd_buf notices; /* one after the other, each with its NUL */
} far_config;

PD_MUST_USE pd_code far_config_load(const cli_session *cli, far_config *out, pd_error *err);
void far_config_done(far_config *config);

/* The home's public key; with `makes` a new one is made first. As pd_sign_key_make and pd_sign_key_open. */
PD_MUST_USE pd_code far_key(const cli_session *cli, bool makes, pd_public_key *out, pd_error *err);
/* As pd_sign_head, with the home's key. */
PD_MUST_USE pd_code far_sign(const cli_session *cli, const char *at, bool keep, pd_buf *out, pd_error *err);

/* "init", "unlock", "lock", "rotate", "learn" (with a path on the server's machine). `pass`, `fresh`, `flag` ("new_key", "keep_key") and
 * `path` may be NULL. PD_DENIED, and nothing is sent, if somebody could listen on the way. */
PD_MUST_USE pd_code far_vault(const cli_session *cli, const char *verb, const passphrase *pass, const passphrase *fresh, const char *flag,
                              const char *path, pd_error *err);

#endif
