/* sign.h: signed heads as a part of `verify`. */
#ifndef PD_CMD_SIGN_H
#define PD_CMD_SIGN_H

#include "cli.h"

/* Zero-initialise; sign_options fills the first half, sign_verify the second. */
typedef struct sign_report {
  bool is_wanted; /* --key was given */
  pd_public_key key;
  bool has_head; /* --head was given */
  pd_signed_head head;
  pd_code head_code; /* what is wrong with it, before any store is asked */
  pd_error head_error;
  uint64_t heads, retired, findings;
} sign_report;

/* --key and --head, read and checked as far as it can be done without a store. */
PD_MUST_USE pd_code sign_options(const args_parsed *args, sign_report *out, pd_error *err);
/* Nothing if no key was given. */
PD_MUST_USE pd_code sign_verify(cli_session *cli, sign_report *report, void (*finding)(void *ctx, const char *what), void *ctx,
                                pd_error *err);
void sign_report_print(out_stream *o, const sign_report *report);
void sign_report_json(pd_json_writer *w, const sign_report *report);

#endif
