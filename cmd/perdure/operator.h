/* operator.h: what the operator's commands (audit, approvals, policy) share: one call in a home that is there. */
#ifndef PD_CMD_OPERATOR_H
#define PD_CMD_OPERATOR_H

#include "cli.h"

/* Call a capability as the operator. `out` owns the answer, `answer` is its parsed view. A missing home is a storage failure (exit 4) with
 * a hint. */
PD_MUST_USE pd_code operator_call(cli_session *cli, const char *capability, pd_bytes input, pd_buf *out, pd_json *answer, pd_error *err);
/* The whole answer on one line: what --json prints. */
PD_MUST_USE pd_code operator_print(cli_session *cli, const pd_buf *out);
/* A member that is a string, decoded, so that a terminal can bear it; "-" if it is absent or null. */
void operator_text(out_stream *o, pd_json object, const char *key);
/* The same, filled with blanks up to `width`. */
void operator_column(out_stream *o, pd_json object, const char *key, size_t width);

#endif
