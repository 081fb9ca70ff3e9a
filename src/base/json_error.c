/* json_error.c: see json_error.h. */
#include "base/json_error.h"

#include "base/buf.h"

#include <stdio.h>

void pd_json_error_begin(pd_json_writer *w, const pd_error *err)
{
  pd_json_key(w, "error");
  pd_json_open(w, '{');
  pd_json_put_text(w, "code", pd_error_name(err));
  pd_json_put_text(w, "message", err->message);
  pd_json_key(w, "details");
  pd_json_open(w, '{');
  pd_json_put_text(w, "class", pd_class_name(pd_code_class(err->code)));
  pd_json_put_text(w, "kind", pd_code_name(err->code));
  if (err->code == PD_CONFLICT) {
    pd_json_put_number(w, "expected", err->expected);
    pd_json_put_number(w, "actual", err->actual);
  }
}

void pd_json_error_end(pd_json_writer *w, const pd_error *err, const pd_recovery *recovery)
{
  pd_json_close(w, '}');
  pd_json_key(w, "recovery");
  pd_json_open(w, '[');
  for (const pd_recovery *r = recovery ? recovery : pd_error_recovery(err); r->action; r++) {
    pd_json_open(w, '{');
    pd_json_put_text(w, "action", r->action);
    pd_json_put_text(w, "hint", r->hint);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
  pd_json_close(w, '}');
}

void pd_json_rpc_begin(pd_json_writer *w, pd_bytes id)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "jsonrpc", "2.0");
  pd_json_key(w, "id");
  pd_json_raw(w, id.size ? id : pd_text("null"));
}

void pd_json_rpc_error(pd_json_writer *w, pd_bytes id, int64_t code, const char *message, pd_bytes data)
{
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)code);
  pd_json_rpc_begin(w, id);
  pd_json_key(w, "error");
  pd_json_open(w, '{');
  pd_json_key(w, "code");
  pd_json_raw(w, pd_text(number));
  pd_json_put_text(w, "message", message);
  if (data.size) {
    pd_json_key(w, "data");
    pd_json_open(w, '{');
    pd_json_raw(w, data);
    pd_json_close(w, '}');
  }
  pd_json_close(w, '}');
  pd_json_close(w, '}');
}
