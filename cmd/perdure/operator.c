/* operator.c: see operator.h. */
#include "operator.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "far.h"
#include "fields.h"

#include <stdio.h>

static pd_code open_home(cli_session *cli, pd_home **out, pd_error *err)
{
  pd_home_options options = {.must_exist = true};
  pd_code code = pd_home_open(cli->uri, &options, out, err);
  if (code != PD_NOT_FOUND) return code;
  cli->exit_code = CLI_EXIT_STORAGE;
  snprintf(cli->hint, sizeof cli->hint, "make one with: perdure init");
  return pd_error_set(err, PD_NOT_FOUND, "there is no home at %s", cli->uri);
}

pd_code operator_call(cli_session *cli, const char *capability, pd_bytes input, pd_buf *out, pd_json *answer, pd_error *err)
{
  pd_home *home;
  if (cli->is_remote) {
    pd_code answered = far_call(&(cli_session){.uri = cli->uri}, NULL, true, capability, input, out, err); /* no agent's */
    if (answered) return answer_failed(cli, out, answered);
    return pd_json_parse(pd_buf_bytes(out), answer, err);
  }
  TRY(open_home(cli, &home, err));
  pd_ctx ctx = {.home = home, .is_operator = true};
  pd_code code = pd_call(&ctx, capability, input, out, err);
  pd_code closed = pd_home_close(home, code ? NULL : err);
  if (code) return answer_failed(cli, out, code);
  TRY(closed);
  return pd_json_parse(pd_buf_bytes(out), answer, err);
}

pd_code operator_print(cli_session *cli, const pd_buf *out)
{
  out_bytes(&cli->out, pd_buf_bytes(out));
  out_text(&cli->out, "\n");
  return PD_OK;
}

static size_t print_text(out_stream *o, pd_json object, const char *key)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json value = pd_json_member(object, key);
  bool is_text = value.kind == PD_JSON_STRING && pd_json_decode(value, &text, NULL) == PD_OK && text.size;
  pd_bytes shown = is_text ? pd_buf_bytes(&text) : value.kind == PD_JSON_NUMBER ? value.raw : pd_text("-");
  out_safe(o, shown);
  return shown.size;
}

void operator_text(out_stream *o, pd_json object, const char *key)
{
  print_text(o, object, key);
}

void operator_column(out_stream *o, pd_json object, const char *key, size_t width)
{
  size_t size = print_text(o, object, key);
  out_printf(o, "%*s", size < width ? (int)(width - size + 1) : 1, "");
}
