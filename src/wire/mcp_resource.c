/* mcp_resource.c: state as resources: state://persistent/{key}, state://shared/{key}, state://threads/{id}, state://commits/{id}. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/uri.h"
#include "wire/mcp_home.h"

#include <stdio.h>

static const struct {
  const char *prefix, *name, *about, *variable;
  const char *capability; /* that tells the same */
} kinds[] = {
  [PD_MCP_PERSISTENT] = {"state://persistent/", "persistent", "A value of your persistent state.", "key", "state.persistent.get"},
  [PD_MCP_SHARED] = {"state://shared/", "shared", "A value that all agents see.", "key", "state.shared.get"},
  [PD_MCP_THREAD] = {"state://threads/", "threads", "A thread of yours: its version, state and last messages.", "id", "threads.load"},
  [PD_MCP_COMMIT] = {"state://commits/", "commits", "A commit of your store, or of the shared one: parents, changes, who, when and why.",
                     "id", PD_MCP_COMMITS},
};

/* ---- who may ---- */

static pd_ctx who_is(const pd_mcp_turn *turn)
{
  return (pd_ctx){.home = turn->mcp->home, .agent = turn->peer->agent, .is_remote = turn->peer->is_http, .token = turn->peer->token};
}

bool pd_mcp_is_narrow(const pd_mcp_turn *turn)
{
  return turn->peer->token && turn->peer->token->prefixes[0][0];
}

bool pd_mcp_sees(const pd_mcp_turn *turn, const char *capability)
{
  pd_ctx who = who_is(turn);
  return pd_authorise_any(&who, capability, true);
}

pd_code pd_mcp_may_read(pd_mcp_turn *turn, const char *capability, pd_bytes key, pd_grant *out, pd_error *err)
{
  pd_ctx who = who_is(turn);
  return pd_authorise_read(&who, capability, NULL, key, out, err);
}

void pd_mcp_audit(const pd_mcp_turn *turn, const char *capability, pd_bytes subject, const char *outcome)
{
  pd_access access = {
    .capability = capability,
    .agent = turn->peer->agent,
    .token = turn->peer->token ? turn->peer->token->id : NULL,
    .subject = subject,
    .outcome = outcome,
  };
  pd_audit_access(turn->mcp->home, &access);
}

pd_code pd_mcp_home_admit(pd_mcp_turn *turn, const char *uri, pd_error *err)
{
  CLEANUP(pd_mcp_topic_done) pd_mcp_topic topic = {0};
  if (!*uri) { /* that there are other keys than before */
    TRY(pd_mcp_may_read(turn, "state.persistent.list", (pd_bytes){0}, NULL, err));
    return pd_mcp_may_read(turn, "state.shared.list", (pd_bytes){0}, NULL, err);
  }
  TRY(pd_mcp_topic_parse(uri, &topic, err));
  if (topic.kind == PD_MCP_COMMIT) return PD_OK; /* it never changes, so nothing is ever told */
  bool has_key = topic.kind != PD_MCP_THREAD;
  const char *like = kinds[topic.kind].capability;
  pd_code code = pd_mcp_may_read(turn, like, has_key ? pd_buf_bytes(&topic.rest) : (pd_bytes){0}, NULL, err);
  pd_mcp_audit(turn, like, pd_buf_bytes(&topic.rest), code ? pd_error_name(err) : "ok");
  return code;
}

/* ---- URIs ---- */

void pd_mcp_topic_done(pd_mcp_topic *topic)
{
  pd_buf_done(&topic->rest);
}

pd_code pd_mcp_topic_parse(const char *uri, pd_mcp_topic *out, pd_error *err)
{
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    size_t size = strlen(kinds[i].prefix);
    if (strncmp(uri, kinds[i].prefix, size) != 0) continue;
    *out = (pd_mcp_topic){.kind = (pd_mcp_topic_kind)i, .rest = {.size_max = PD_KEY_SIZE_MAX}};
    pd_code code = pd_uri_unescape(pd_text(uri + size), &out->rest, err);
    if (!code) code = pd_key_check(pd_buf_bytes(&out->rest), err);
    if (code) pd_mcp_topic_done(out);
    return code;
  }
  return pd_error_set(err, PD_NOT_FOUND, "there is no resource %.200s", uri);
}

void pd_mcp_uri_write(pd_json_writer *w, pd_mcp_topic_kind kind, pd_bytes rest)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_code code = pd_buf_printf(&text, w->err, "%s", kinds[kind].prefix);
  if (!code) code = pd_uri_escape(rest, "/:@", &text, w->err); /* a slash reads better as it is */
  if (code)
    w->code = code;
  else
    pd_json_put_bytes(w, "uri", pd_buf_bytes(&text));
}

/* ---- templates ---- */

pd_code pd_mcp_home_templates(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  char template[64];
  (void)out_cursor; /* they fit on one page */
  if (cursor.data) return pd_mcp_refuse_cursor(turn);
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    if (!pd_mcp_sees(turn, kinds[i].capability) || (i == PD_MCP_COMMIT && pd_mcp_is_narrow(turn))) continue;
    snprintf(template, sizeof template, "%s{%s}", kinds[i].prefix, kinds[i].variable);
    pd_json_open(&turn->w, '{');
    pd_json_put_text(&turn->w, "uriTemplate", template);
    pd_json_put_text(&turn->w, "name", kinds[i].name);
    pd_json_put_text(&turn->w, "description", kinds[i].about);
    pd_json_put_text(&turn->w, "mimeType", "application/json");
    pd_json_close(&turn->w, '}');
  }
  return turn->w.code;
}

/* ---- reading ---- */

pd_code pd_mcp_not_found(pd_mcp_turn *turn, const char *uri)
{
  CLEANUP(pd_buf_done) pd_buf data = {0};
  pd_json_writer w = {.out = &data};
  pd_json_put_text(&w, "uri", uri);
  return pd_mcp_refuse_with(turn, turn->is_modern ? PD_MCP_INVALID_PARAMS : PD_MCP_RESOURCE_NOT_FOUND,
                            w.code ? (pd_bytes){0} : pd_buf_bytes(&data), "resource not found: %.300s", uri);
}

void pd_mcp_content_write(pd_mcp_turn *turn, const char *uri, pd_bytes json)
{
  pd_json_open(&turn->w, '{');
  pd_json_put_text(&turn->w, "uri", uri);
  pd_json_put_text(&turn->w, "mimeType", "application/json");
  pd_json_put_bytes(&turn->w, "text", json);
  pd_json_close(&turn->w, '}');
}

static pd_code read_value(pd_mcp_turn *turn, const char *uri, const pd_mcp_topic *topic)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json_writer w = {.out = &input, .err = &turn->err};
  pd_json json;
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", pd_buf_bytes(&topic->rest));
  pd_json_close(&w, '}');
  TRY(w.code);
  const char *capability = topic->kind == PD_MCP_SHARED ? "state.shared.get" : "state.persistent.get";
  pd_code code = pd_mcp_call(turn, &who, capability, pd_buf_bytes(&input), &answer, &turn->err);
  if (code == PD_DENIED || code == PD_APPROVAL || code == PD_ERASED || code == PD_INVALID)
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  TRY(pd_json_parse(pd_buf_bytes(&answer), &json, &turn->err));
  pd_json found = pd_json_member(json, "found"), version = pd_json_member(json, "version");
  uint64_t number = 0;
  bool is_there = found.kind == PD_JSON_BOOL ? pd_json_true(found) : pd_json_u64(version, &number) && number > 0;
  if (!is_there) return pd_mcp_not_found(turn, uri);
  pd_mcp_content_write(turn, uri, pd_json_member(json, "value").raw);
  return turn->w.code;
}

/* ---- threads ---- */

static pd_code read_thread(pd_mcp_turn *turn, const char *uri, const char *id)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json_writer w = {.out = &input, .err = &turn->err};
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "thread_id", id);
  pd_json_close(&w, '}');
  TRY(w.code);
  pd_code code = pd_mcp_call(turn, &who, "threads.load", pd_buf_bytes(&input), &answer, &turn->err);
  if (code == PD_NOT_FOUND || code == PD_INVALID || code == PD_LIMIT) return pd_mcp_not_found(turn, uri);
  if (code == PD_DENIED || code == PD_APPROVAL) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  pd_mcp_content_write(turn, uri, pd_buf_bytes(&answer));
  return turn->w.code;
}

pd_code pd_mcp_home_read(pd_mcp_turn *turn, const char *uri)
{
  CLEANUP(pd_mcp_topic_done) pd_mcp_topic topic = {0};
  pd_code code = pd_mcp_topic_parse(uri, &topic, &turn->err);
  if (code == PD_NO_MEMORY) return code;
  if (code) return pd_mcp_not_found(turn, uri);
  if (topic.kind == PD_MCP_PERSISTENT || topic.kind == PD_MCP_SHARED) return read_value(turn, uri, &topic);
  topic.rest.size_max = 0;
  TRY(pd_buf_byte(&topic.rest, 0, &turn->err));
  const char *id = (const char *)topic.rest.data;
  return topic.kind == PD_MCP_COMMIT ? pd_mcp_commit_read(turn, uri, id) : read_thread(turn, uri, id);
}
