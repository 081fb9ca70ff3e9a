/* engine_care.c: settings, messages, proofs, and care: see engine.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_report.h"
#include "engine.h"

#include <stdio.h>

/* ---- settings ---- */

static bool each_setting(engine_answer *a, bool (*visit)(void *ctx, const char *name, pd_bytes value), void *ctx)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a->json, "settings")); pd_json_walk_next(&walk, NULL, &item);)
    if (!visit(ctx, engine_text(a, item, "name"), engine_bytes(a, item, "value"))) return false;
  return true;
}

static bool keep_value(void *ctx, const char *name, pd_bytes value)
{
  (void)name;
  *(pd_bytes *)ctx = value;
  return false;
}

pd_code engine_setting_get(cli_session *cli, const char *name, pd_buf *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  pd_bytes value = {"", 0};
  if (!cli->is_remote) return pd_setting_get(cli->store, name, out, err);
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "name", name);
  TRY(engine_ask(cli, &a, "store.settings", err));
  (void)each_setting(&a, keep_value, &value);
  pd_buf_clear(out);
  return pd_buf_append(out, value.data, value.size, err);
}

pd_code engine_setting_list(cli_session *cli, bool (*visit)(void *ctx, const char *name, pd_bytes value), void *ctx, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_setting_list(cli->store, NULL, visit, ctx, err);
  engine_begin(cli, &a, err);
  TRY(engine_ask(cli, &a, "store.settings", err));
  (void)each_setting(&a, visit, ctx);
  return PD_OK;
}

pd_code engine_setting_set(cli_session *cli, const char *name, pd_bytes value, const pd_note *note, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_setting_set(cli->store, name, value, note, err);
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "name", name);
  pd_json_put_bytes(&a.w, "value", value);
  engine_put_note(&a, note);
  return engine_ask(cli, &a, "store.setting", err);
}

pd_code engine_setting_delete(cli_session *cli, const char *name, const pd_note *note, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_setting_delete(cli->store, name, note, err);
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "name", name);
  pd_json_put_bool(&a.w, "delete", true);
  engine_put_note(&a, note);
  return engine_ask(cli, &a, "store.setting", err);
}

/* ---- messages ---- */

static pd_message message_of(engine_answer *a, pd_json item)
{
  return (pd_message){
    .id = engine_text(a, item, "id"),
    .agent = engine_text(a, item, "agent"),
    .session = engine_text(a, item, "session"),
    .submission = engine_text(a, item, "submission"),
    .parent = engine_text(a, item, "parent"),
    .commit = engine_id(item, "commit"),
    .seq = engine_number(item, "seq"),
    .link_seq = engine_number(item, "link_seq"),
    .time_ms = (int64_t)engine_number(item, "time_ms"),
    .author = engine_text(a, item, "author"),
    .reason = engine_text(a, item, "reason"),
  };
}

/* One page. */
static bool each_message(engine_answer *a, pd_message_visit visit, void *ctx)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a->json, "messages")); pd_json_walk_next(&walk, NULL, &item);) {
    pd_message message = message_of(a, item);
    if (!visit(ctx, &message)) return false;
  }
  return true;
}

/* Pages of store.messages: `field` is "after" or "before", and "next_" before it in the answer. */
static pd_code each_page(cli_session *cli, const char *field, const char *from, const char *session, pd_message_visit visit, void *ctx,
                         pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  char at[PD_MESSAGE_ID_SIZE_MAX + 1], next[16];
  bool goes_on = true;
  snprintf(at, sizeof at, "%s", from);
  snprintf(next, sizeof next, "next_%s", field);
  while (goes_on) {
    engine_begin(cli, &a, err);
    if (*at) pd_json_put_text(&a.w, field, at);
    if (session) pd_json_put_text(&a.w, "session", session);
    TRY(engine_ask(cli, &a, "store.messages", err));
    goes_on = each_message(&a, visit, ctx) && pd_json_member(a.json, next).kind == PD_JSON_STRING;
    if (goes_on) snprintf(at, sizeof at, "%s", engine_text(&a, a.json, next));
  }
  return PD_OK;
}

pd_code engine_message_get(cli_session *cli, const char *id, pd_message_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_message_get(cli->store, id, visit, ctx, err);
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "message", id);
  TRY(engine_ask(cli, &a, "store.messages", err));
  (void)each_message(&a, visit, ctx);
  return PD_OK;
}

pd_code engine_message_list(cli_session *cli, const char *session, pd_message_visit visit, void *ctx, pd_error *err)
{
  if (!cli->is_remote) return pd_message_list(cli->store, session, visit, ctx, err);
  return each_page(cli, "after", "", session, visit, ctx, err);
}

typedef struct line_of_messages {
  pd_message_visit visit;
  void *ctx;
  char parent[PD_MESSAGE_ID_SIZE_MAX + 1];
  uint64_t below; /* one that was linked at this record or later is of another line */
  bool goes_on;
} line_of_messages;

static bool visit_in_line(void *ctx, const pd_message *message)
{
  line_of_messages *line = ctx;
  line->goes_on = message->link_seq < line->below && line->visit(line->ctx, message) && *message->parent;
  line->below = message->link_seq;
  snprintf(line->parent, sizeof line->parent, "%s", message->parent);
  return line->goes_on;
}

/* A parent that was unlinked ends it, and so does one that was linked again later. */
pd_code engine_message_ancestors(cli_session *cli, const char *id, pd_message_visit visit, void *ctx, pd_error *err)
{
  line_of_messages line = {.visit = visit, .ctx = ctx, .below = UINT64_MAX};
  char at[PD_MESSAGE_ID_SIZE_MAX + 1];
  pd_error why;
  if (cli->is_remote) return each_page(cli, "before", id, NULL, visit_in_line, &line, err);
  TRY(pd_message_get(cli->store, id, visit_in_line, &line, err));
  while (line.goes_on) {
    snprintf(at, sizeof at, "%s", line.parent);
    line.goes_on = false;
    pd_code code = pd_message_get(cli->store, at, visit_in_line, &line, &why);
    if (code == PD_NOT_FOUND) return PD_OK;
    if (code && err) *err = why;
    TRY(code);
  }
  return PD_OK;
}

pd_code engine_message_link(cli_session *cli, const pd_message *message, const char *at, const pd_note *note, pd_commit *out,
                            pd_message_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) {
    TRY(pd_message_link(cli->store, message, at, note, out, err));
    return visit ? pd_message_get(cli->store, message->id, visit, ctx, err) : PD_OK;
  }
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "message", message->id);
  if (at) pd_json_put_text(&a.w, "at", at);
  if (message->session) pd_json_put_text(&a.w, "session", message->session);
  if (message->submission) pd_json_put_text(&a.w, "submission", message->submission);
  if (message->parent) pd_json_put_text(&a.w, "parent", message->parent);
  engine_put_note(&a, note);
  TRY(engine_ask(cli, &a, "store.message", err));
  *out = engine_commit(pd_json_member(a.json, "linked"));
  pd_message linked = message_of(&a, pd_json_member(a.json, "message"));
  if (visit) (void)visit(ctx, &linked);
  return PD_OK;
}

pd_code engine_message_unlink(cli_session *cli, const char *id, const pd_note *note, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_message_unlink(cli->store, id, note, err);
  engine_begin(cli, &a, err);
  pd_json_put_text(&a.w, "message", id);
  pd_json_put_bool(&a.w, "delete", true);
  engine_put_note(&a, note);
  return engine_ask(cli, &a, "store.message", err);
}

/* ---- proofs ---- */

pd_code engine_prove(cli_session *cli, const char *at, pd_bytes key, bool has_value, const char *descends, pd_buf *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote && descends) return pd_prove_descent(cli->store, descends, at, out, err);
  if (!cli->is_remote) return pd_prove(cli->store, at, key, has_value, out, err);
  engine_begin(cli, &a, err);
  if (at) pd_json_put_text(&a.w, "at", at);
  if (descends) pd_json_put_text(&a.w, "descends", descends);
  if (!descends) pd_json_put_bytes(&a.w, "key", key);
  if (!has_value) pd_json_put_bool(&a.w, "value", false);
  TRY(engine_ask(cli, &a, "store.prove", err));
  pd_bytes proof = engine_base64(&a, a.json, "base64");
  return pd_buf_append(out, proof.data, proof.size, err);
}

/* ---- care ---- */

static void put_number(engine_answer *a, const char *name, uint64_t number)
{
  if (number) pd_json_put_number(&a->w, name, number);
}

static void put_flag(engine_answer *a, const char *name, bool is_set)
{
  if (is_set) pd_json_put_bool(&a->w, name, true);
}

pd_code engine_gc(cli_session *cli, const pd_gc_policy *policy, pd_gc_report *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_gc(cli->store, policy, out, err);
  engine_begin(cli, &a, err);
  put_number(&a, "keep_last", policy->keep_last);
  put_number(&a, "keep_days", policy->keep_days);
  put_number(&a, "keep_versions", policy->keep_versions);
  if (policy->keep_refs) pd_json_put_text(&a.w, "keep_refs", policy->keep_refs);
  put_flag(&a, "dry_run", policy->is_dry);
  if (policy->author) pd_json_put_text(&a.w, "author", policy->author);
  TRY(engine_ask(cli, &a, "store.gc", err));
  return pd_bind_read(a.json, pd_gc_members, pd_gc_member_count, PD_BIND_LOOSE, out, err);
}

pd_code engine_gc_auto(cli_session *cli, bool *out_did, bool *out_is_auto, pd_gc_report *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) {
    pd_gc_info info;
    TRY(pd_gc_auto(cli->store, out_did, out, err));
    TRY(pd_gc_status(cli->store, &info, err));
    *out_is_auto = info.is_auto;
    return PD_OK;
  }
  engine_begin(cli, &a, err);
  put_flag(&a, "auto", true);
  TRY(engine_ask(cli, &a, "store.gc", err));
  *out_did = engine_flag(a.json, "ran");
  *out_is_auto = engine_flag(a.json, "is_auto");
  return pd_bind_read(a.json, pd_gc_members, pd_gc_member_count, PD_BIND_LOOSE, out, err);
}

pd_code engine_erase(cli_session *cli, pd_bytes key, const pd_erase_options *options, pd_erase_report *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  if (!cli->is_remote) return pd_erase(cli->store, key, options, out, err);
  engine_begin(cli, &a, err);
  pd_json_put_bytes(&a.w, "key", key);
  put_flag(&a, "everywhere", options->everywhere);
  put_number(&a, "version", options->version);
  put_flag(&a, "spare_marks", options->spares_marks);
  put_flag(&a, "lazy", options->is_lazy);
  put_flag(&a, "dry_run", options->is_dry);
  engine_put_note(&a, options->note);
  TRY(engine_ask(cli, &a, "store.erase", err));
  *out = (pd_erase_report){0};
  return pd_bind_read(a.json, pd_erase_members, pd_erase_member_count, PD_BIND_LOOSE, out, err);
}

pd_code engine_du(cli_session *cli, const char *at, pd_bytes prefix, unsigned depth, bool (*visit)(void *ctx, const pd_du_row *row),
                  void *ctx, pd_du *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  pd_json item;
  if (!cli->is_remote) return pd_du_store(cli->store, at, prefix, depth, visit, ctx, out, err);
  engine_begin(cli, &a, err);
  if (at) pd_json_put_text(&a.w, "at", at);
  if (prefix.size) pd_json_put_bytes(&a.w, "prefix", prefix);
  put_number(&a, "depth", depth < PD_KEY_SIZE_MAX ? depth : PD_KEY_SIZE_MAX);
  TRY(engine_ask(cli, &a, "store.du", err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a.json, "rows")); pd_json_walk_next(&walk, NULL, &item);) {
    pd_du_row row = {.prefix = engine_bytes(&a, item, "prefix"),
                     .is_ref = engine_flag(item, "is_ref"),
                     .keys = engine_number(item, "keys"),
                     .bytes = engine_number(item, "bytes")};
    if (!visit(ctx, &row)) break;
  }
  return pd_bind_read(a.json, pd_du_members, pd_du_member_count, PD_BIND_LOOSE, out, err);
}

static pd_code repair_there(cli_session *cli, const pd_repair_options *options, pd_repair_report *out, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  pd_json item;
  engine_begin(cli, &a, err);
  put_flag(&a, "dry_run", options->is_dry_run);
  put_flag(&a, "keep_going", options->keep_going);
  TRY(engine_ask(cli, &a, "store.repair", err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a.json, "details")); pd_json_walk_next(&walk, NULL, &item);) {
    pd_repair_finding finding = {.can_mend = engine_flag(item, "can_mend"), .what = engine_text(&a, item, "what")};
    options->finding(options->ctx, &finding);
  }
  TRY(pd_bind_read(a.json, pd_repair_members, pd_repair_member_count, PD_BIND_LOOSE, out, err));
  return out->findings ? pd_error_set(err, PD_CORRUPT, "damage cannot be repaired") : PD_OK; /* as pd_repair; for nobody's eyes */
}

pd_code engine_repair(cli_session *cli, const pd_repair_options *options, pd_repair_report *out, pd_error *err)
{
  if (cli->is_remote) return repair_there(cli, options, out, err);
  pd_code code = pd_repair(cli->uri, cli->agent, options, out, err);
  return code == PD_NOT_FOUND ? cli_no_store(cli, err) : code;
}
