/* mcp_turn.c: what a provider's function does with its turn: refuse, ask, keep, tell. */
#include "wire/mcp_turn.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_inside.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- refusing ---- */

static pd_code refuse(pd_mcp_turn *turn, int code, pd_bytes data, const char *message)
{
  turn->refused = code;
  pd_buf_clear(&turn->refusal);
  if (data.size && pd_buf_append(&turn->refusal, data.data, data.size, NULL)) pd_buf_clear(&turn->refusal);
  return pd_error_set(&turn->err, PD_INVALID, "%s", message);
}

pd_code pd_mcp_refuse(pd_mcp_turn *turn, int code, const char *fmt, ...)
{
  char message[PD_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return refuse(turn, code, (pd_bytes){0}, message);
}

pd_code pd_mcp_refuse_with(pd_mcp_turn *turn, int code, pd_bytes data, const char *fmt, ...)
{
  char message[PD_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return refuse(turn, code, data, message);
}

pd_code pd_mcp_refuse_cursor(pd_mcp_turn *turn)
{
  return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.cursor is none that this server gave");
}

pd_code pd_mcp_refuse_client(pd_mcp_turn *turn, const char *capability)
{
  char data[128];
  snprintf(data, sizeof data, "\"requiredCapabilities\":{\"%s\":{}}", capability);
  turn->status = turn->is_modern ? 400 : 0;
  return pd_mcp_refuse_with(turn, turn->is_modern ? PD_MCP_MISSING_CAPABILITY : PD_MCP_INVALID_PARAMS, pd_text(data),
                            "this needs a client that can do: %s", capability);
}

pd_code pd_mcp_refuse_version(pd_mcp_turn *turn, pd_bytes requested)
{
  CLEANUP(pd_buf_done) pd_buf data = {0};
  pd_json_writer w = {.out = &data};
  pd_json_key(&w, "supported");
  pd_json_open(&w, '[');
  pd_json_text(&w, pd_text(PD_MCP_MODERN));
  for (size_t i = 0; pd_mcp_revision_at(i); i++) pd_json_text(&w, pd_text(pd_mcp_revision_at(i)));
  pd_json_close(&w, ']');
  pd_json_put_bytes(&w, "requested", requested);
  turn->status = 400;
  return pd_mcp_refuse_with(turn, PD_MCP_UNSUPPORTED_VERSION, w.code ? (pd_bytes){0} : pd_buf_bytes(&data),
                            "the protocol version %.*s is not supported here", (int)(requested.size < 64 ? requested.size : 64),
                            (const char *)requested.data);
}

/* ---- asking ---- */

pd_code pd_mcp_ask(pd_mcp_turn *turn, const char *name, const char *method, const char *params)
{
  pd_json_writer *w = &turn->ask_w;
  pd_json_key(w, name);
  pd_json_open(w, '{');
  pd_json_put_text(w, "method", method);
  pd_json_key(w, "params");
  pd_json_raw(w, pd_text(params));
  pd_json_close(w, '}');
  turn->ask_count++;
  return w->code;
}

pd_code pd_mcp_keep(pd_mcp_turn *turn, pd_bytes bytes)
{
  pd_buf_clear(&turn->kept);
  return pd_buf_append(&turn->kept, bytes.data, bytes.size, &turn->err);
}

pd_json pd_mcp_answer(const pd_mcp_turn *turn, const char *name)
{
  return pd_json_member(turn->inputs, name);
}

/* ---- telling ---- */

static void notify(pd_mcp_turn *turn, const pd_buf *text, const pd_json_writer *w)
{
  if (!w->code && !pd_mcp_is_cancelled(turn)) pd_mcp_exchange_send(turn->exchange, pd_buf_bytes(text), 200, false);
}

static void notification(pd_json_writer *w, const char *method)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "jsonrpc", "2.0");
  pd_json_put_text(w, "method", method);
  pd_json_key(w, "params");
  pd_json_open(w, '{');
}

void pd_mcp_progress(pd_mcp_turn *turn, uint64_t done, uint64_t total)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  if (turn->progress_token.kind == PD_JSON_NONE) return;
  notification(&w, "notifications/progress");
  pd_json_key(&w, "progressToken");
  pd_json_value(&w, turn->progress_token);
  pd_json_put_number(&w, "progress", done);
  if (total) pd_json_put_number(&w, "total", total);
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  notify(turn, &text, &w);
}

void pd_mcp_log(pd_mcp_turn *turn, pd_mcp_level level, const char *logger, pd_bytes data)
{
  static const char *const names[] = {"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  if (turn->level == PD_MCP_SILENT || level < turn->level) return;
  notification(&w, "notifications/message");
  pd_json_put_text(&w, "level", names[level]);
  pd_json_put_text(&w, "logger", logger);
  pd_json_put_bytes(&w, "data", data);
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  notify(turn, &text, &w);
}

bool pd_mcp_is_cancelled(const pd_mcp_turn *turn)
{
  return atomic_load(&turn->exchange->is_cancelled);
}

void pd_mcp_text_block(pd_json_writer *w, pd_bytes text)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "type", "text");
  pd_json_put_bytes(w, "text", text);
  pd_json_close(w, '}');
}

pd_code pd_mcp_call(pd_mcp_turn *turn, const pd_ctx *who, const char *capability, pd_bytes input, pd_buf *out, pd_error *err)
{
  const pd_mcp_gate *gate = &turn->peer->gate;
  pd_ctx caller = *who;
  caller.token = turn->peer->token;
  return gate->call ? gate->call(gate->ctx, &caller, capability, input, out, err) : pd_call(&caller, capability, input, out, err);
}
