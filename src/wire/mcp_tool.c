/* mcp_tool.c: every capability that an agent may call, as a tool: listed with schemas and hints, called through the one door. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_error.h"
#include "wire/mcp_home.h"
#include "wire/mcp_schema.h"

#include <stdio.h>

#define PAGE 250 /* all of them, for now: not every client turns the page */
#define SESSION_PROPERTY                                                                                                                   \
  "\"session_id\":{\"type\":\"string\",\"maxLength\":39,\"description\":\"A session of yours, from session_begin. If omitted, the "        \
  "session "                                                                                                                               \
  "of this connection.\"}"

/* ---- names ---- */

/* Dots are refused or rewritten by several clients. */
static void tool_name(const char *capability, char out[PD_MCP_NAME_SIZE])
{
  snprintf(out, PD_MCP_NAME_SIZE, "%s", capability);
  for (char *c = out; *c; c++)
    if (*c == '.') *c = '_';
}

/* One that the caller may call, whatever it may need for that. */
static bool is_offered(const pd_mcp_turn *turn, const pd_capability_info *info)
{
  return info->permission != PD_PERMIT_OPERATOR && pd_mcp_fits(turn->mcp, info->name) && pd_mcp_sees(turn, info->name);
}

/* Either spelling. One that is not the caller's is as if it were not there, but the audit knows that it was tried. */
static bool find_tool(const pd_mcp_turn *turn, const char *name, pd_capability_info *out)
{
  if (!pd_capability_find_tool(name, out)) return false;
  bool is_theirs = is_offered(turn, out);
  if (!is_theirs) pd_mcp_audit(turn, out->name, (pd_bytes){0}, "PermissionDenied");
  return is_theirs;
}

/* ---- the list ---- */

static void write_hints(pd_json_writer *w, const pd_capability_info *info)
{
  pd_json_key(w, "annotations");
  pd_json_open(w, '{');
  pd_json_put_text(w, "title", info->name);
  pd_json_put_bool(w, "readOnlyHint", !info->handling->has_effects);
  pd_json_put_bool(w, "destructiveHint", info->handling->is_destructive);
  pd_json_put_bool(w, "idempotentHint", info->handling->is_idempotent);
  pd_json_put_bool(w, "openWorldHint", false);
  pd_json_close(w, '}');
}

static pd_code write_description(pd_json_writer *w, const pd_capability_info *info, pd_json document)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_buf_printf(&text, w->err, "%s ", info->summary));
  TRY(pd_json_decode(pd_json_member(document, "when_to_use"), &text, w->err));
  if (info->permission == PD_PERMIT_APPROVAL) TRY(pd_buf_printf(&text, w->err, " A person has to approve it."));
  pd_json_put_bytes(w, "description", pd_buf_bytes(&text));
  return w->code;
}

static pd_code write_tool(pd_json_writer *w, const pd_capability_info *info)
{
  char name[PD_MCP_NAME_SIZE];
  pd_json document;
  TRY(pd_json_parse(pd_text(info->document), &document, w->err));
  tool_name(info->name, name);
  pd_json_open(w, '{');
  pd_json_put_text(w, "name", name);
  pd_json_put_text(w, "title", info->name);
  TRY(write_description(w, info, document));
  pd_json_key(w, "inputSchema");
  pd_json inputs = pd_json_member(document, "inputs");
  bool has_own = pd_json_member(pd_json_member(inputs, "properties"), "session_id").kind != PD_JSON_NONE;
  pd_mcp_schema_write(w, inputs, info->handling->session && !has_own ? SESSION_PROPERTY : NULL);
  pd_json_key(w, "outputSchema");
  pd_mcp_schema_write(w, pd_json_member(document, "outputs"), NULL);
  write_hints(w, info);
  pd_json_close(w, '}');
  return w->code;
}

/* A cursor is the name of the last tool of the page, in base64. */
static pd_code read_cursor(pd_mcp_turn *turn, pd_bytes cursor, char out[PD_MCP_NAME_SIZE])
{
  CLEANUP(pd_buf_done) pd_buf name = {.size_max = PD_MCP_NAME_SIZE - 1};
  out[0] = 0;
  if (!cursor.data) return PD_OK;
  if (pd_base64_decode(cursor, &name, NULL) || !name.size || memchr(name.data, 0, name.size)) return pd_mcp_refuse_cursor(turn);
  memcpy(out, name.data, name.size);
  out[name.size] = 0;
  return PD_OK;
}

pd_code pd_mcp_home_tools(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  pd_capability_info info;
  char after[PD_MCP_NAME_SIZE], last[PD_MCP_NAME_SIZE] = "";
  size_t count = 0, max = turn->mcp->page_count ? turn->mcp->page_count : PAGE;
  TRY(read_cursor(turn, cursor, after));
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    if (strcmp(info.name, after) <= 0 || !is_offered(turn, &info)) continue;
    if (count++ == max) return pd_base64_encode(pd_text(last), out_cursor, &turn->err);
    TRY(write_tool(&turn->w, &info));
    snprintf(last, sizeof last, "%s", info.name);
  }
  return PD_OK;
}

/* ---- calling ---- */

/* The arguments without session_id, which is the envelope's. */
static pd_code take_session(pd_json arguments, pd_buf *input, char out_session[PD_SESSION_ID_SIZE], pd_error *err)
{
  pd_json key, value;
  pd_json_writer w = {.out = input, .err = err};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_walk walk = pd_json_walk_begin(arguments);
  pd_json_open(&w, '{');
  while (pd_json_walk_next(&walk, &key, &value)) {
    CLEANUP(pd_buf_done) pd_buf name = {0};
    if (pd_json_is(key, "session_id") && !text.size) {
      if (value.kind != PD_JSON_STRING || pd_json_decode(value, &text, NULL) || !text.size || text.size >= PD_SESSION_ID_SIZE)
        return pd_error_set(err, PD_INVALID, "session_id is not the id of a session");
      continue;
    }
    TRY(pd_json_decode(key, &name, err));
    TRY(pd_buf_byte(&name, 0, err));
    pd_json_key(&w, (const char *)name.data);
    pd_json_value(&w, value);
  }
  pd_json_close(&w, '}');
  if (text.size) memcpy(out_session, text.data, text.size);
  out_session[text.size] = 0;
  return w.code;
}

/* Who only waits has nothing to tell. */
static bool report(void *ctx, uint64_t done, uint64_t total)
{
  pd_mcp_turn *turn = ctx;
  if (total) pd_mcp_progress(turn, done, total);
  if (pd_mcp_is_cancelled(turn)) return false;
  return total || turn->peer->wait || !atomic_load(&turn->mcp->is_hurrying); /* who waits without a thread is told by its pd_wait */
}

/* Who can put nothing into a session needs none begun for it: an auditor makes nothing. */
static bool may_begin(const pd_mcp_turn *turn)
{
  return pd_mcp_sees(turn, "session.begin") || pd_mcp_sees(turn, "state.session.set");
}

/* Call in the session of this connection; if that one has idled away, in a new one. */
static pd_code call_in_session(pd_mcp_turn *turn, const char *capability, pd_json arguments, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  char session[PD_SESSION_ID_SIZE] = "";
  TRY(take_session(arguments, &input, session, err));
  bool is_given = *session;
  if (!is_given && may_begin(turn)) TRY(pd_mcp_state_session(turn, false, session, err));
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  if (!is_given || pd_session_is_alive(who.home, who.agent, session)) who.session = session; /* another is not recorded as one */
  pd_code code = pd_mcp_call(turn, &who, capability, pd_buf_bytes(&input), out, err);
  if (code != PD_SESSION || is_given || !may_begin(turn)) return code;
  TRY(pd_mcp_state_session(turn, true, session, err));
  return pd_mcp_call(turn, &who, capability, pd_buf_bytes(&input), out, err);
}

static pd_code call_door(pd_mcp_turn *turn, const char *capability, pd_json arguments, pd_buf *out, pd_error *err)
{
  pd_capability_info info;
  TRY(pd_capability_find(capability, &info, err));
  if (info.handling->session) return call_in_session(turn, capability, arguments, out, err);
  char session[PD_SESSION_ID_SIZE];
  pd_mcp_state_session_look(turn, session); /* whoever waits for messages keeps it, and its subscriptions, alive */
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent, .progress = report, .progress_ctx = turn};
  if (*session) who.session = session;
  pd_wait none = {.is_over = true};
  if (turn->peer->wait) who.wait = turn->is_batch || turn->has_state ? &none : turn->peer->wait; /* a state is good once: M3 */
  pd_code code = pd_mcp_call(turn, &who, capability, arguments.raw, out, err);
  turn->is_waiting = !code && who.wait && who.wait->is_waiting;
  return code;
}

/* ---- answering ---- */

static void write_answer(pd_json_writer *w, pd_bytes answer)
{
  pd_json_key(w, "content");
  pd_json_open(w, '[');
  pd_mcp_text_block(w, answer);
  pd_json_close(w, ']');
  pd_json_key(w, "structuredContent");
  pd_json_raw(w, answer);
  pd_json_put_bool(w, "isError", false);
}

/* What a person does who wants it to go on. */
static void write_how(pd_json_writer *w, pd_bytes answer)
{
  CLEANUP(pd_buf_done) pd_buf id = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json json;
  if (pd_json_parse(answer, &json, NULL)) return;
  pd_json details = pd_json_member(pd_json_member(json, "error"), "details");
  if (pd_json_decode(pd_json_member(details, "approval_id"), &id, NULL)) return;
  if (pd_buf_printf(&text, NULL, "To approve: perdure approvals approve %.*s", (int)id.size, (const char *)id.data)) return;
  pd_mcp_text_block(w, pd_buf_bytes(&text));
}

/* The error's JSON is the text: code, message and recovery are what a model can act on. No structuredContent: that is what the output
 * schema describes, and an error is not. */
static void write_failure(pd_json_writer *w, pd_code code, const pd_error *err, pd_bytes answer)
{
  pd_json_key(w, "content");
  pd_json_open(w, '[');
  pd_mcp_text_block(w, answer.size ? answer : pd_text(err->message));
  if (code == PD_APPROVAL) write_how(w, answer);
  pd_json_close(w, ']');
  pd_json_put_bool(w, "isError", true);
}

static void tell_log(pd_mcp_turn *turn, const char *capability, pd_code code, const pd_error *err)
{
  char line[PD_ERROR_MESSAGE_MAX + PD_MCP_NAME_SIZE + 32];
  snprintf(line, sizeof line, "%s: %s", capability, code ? err->message : "ok");
  pd_mcp_level level = !code ? PD_MCP_DEBUG : pd_code_class(code) == PD_CLASS_HOST ? PD_MCP_ERROR : PD_MCP_INFO;
  pd_mcp_log(turn, level, "perdure", pd_text(line));
}

/* An error that did not come through the door has no JSON yet. */
static pd_code shape_error(pd_error *err, pd_buf *out, pd_error *own)
{
  pd_json_writer w = {.out = out, .err = own};
  if (err->code == PD_INVALID) err->name = "InvalidInput"; /* as the door calls it */
  pd_buf_clear(out);
  pd_json_open(&w, '{');
  pd_json_error_begin(&w, err);
  pd_json_error_end(&w, err, NULL);
  pd_json_close(&w, '}');
  return w.code;
}

pd_code pd_mcp_home_call(pd_mcp_turn *turn, const char *name, pd_json arguments)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_capability_info info;
  pd_error err = {0};
  if (!find_tool(turn, name, &info)) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "there is no tool %.*s", PD_MCP_NAME_SIZE, name);
  if (turn->has_state) pd_mcp_approve_settle(turn);
  pd_code code = call_door(turn, info.name, arguments, &answer, &err);
  if (turn->is_waiting) return PD_OK;
  tell_log(turn, info.name, code, &err);
  if (code && !answer.size) TRY(shape_error(&err, &answer, &turn->err));
  if (!code) {
    write_answer(&turn->w, pd_buf_bytes(&answer));
    return turn->w.code;
  }
  if (code == PD_APPROVAL && !turn->has_state && pd_mcp_approve_ask(turn, info.name, pd_buf_bytes(&answer))) {
    pd_json_writer otherwise = {.out = &turn->otherwise};
    write_failure(&otherwise, code, &err, pd_buf_bytes(&answer));
    return PD_OK;
  }
  write_failure(&turn->w, code, &err, pd_buf_bytes(&answer));
  return turn->w.code;
}
