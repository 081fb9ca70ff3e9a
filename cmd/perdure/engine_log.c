/* engine_log.c: records, versions of keys and blame: see engine.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_MAX 1000 /* of store.log and store.history */

/* ---- log, here ---- */

static bool stop_at_first(void *ctx, const pd_record *record)
{
  (void)record;
  *(bool *)ctx = true;
  return false;
}

/* A word that no commit has as a key and that is a ref: its commits are meant (`log thread/trip`). */
static pd_code take_ref(engine_log *log, const char *word, pd_error *err)
{
  pd_store *store = log->cli->store;
  pd_log_query *query = &log->query;
  pd_ref ref;
  bool is_key = false;
  if (pd_ref_check(word, NULL) || pd_ref_get(store, word, &ref, NULL)) return PD_OK;
  TRY(pd_log(store, &(pd_log_query){.key = query->key, .limit = 1}, stop_at_first, &is_key, err));
  if (is_key) return PD_OK;
  query->key = (pd_bytes){0};
  query->at = word;
  log->is_ref = true;
  return PD_OK;
}

static pd_code begin_here(engine_log *log, pd_error *err)
{
  pd_store *store = log->cli->store;
  if (log->or_ref) TRY(take_ref(log, log->query.key.data, err));
  if (log->wants_names) TRY(names_load(store, &log->names, err));
  TRY(pd_resolve(store, "root", &log->root, err));
  if (log->is_one || log->query.at) TRY(pd_resolve(store, log->query.at, &log->start, err));
  return pd_gc_status(store, &log->gc, err);
}

/* ---- log, of a server ---- */

static pd_code ask_page(engine_log *log, uint64_t count, uint64_t before, pd_error *err)
{
  engine_answer *a = &log->answer;
  const pd_log_query *q = &log->query;
  uint64_t left = q->limit - count;
  engine_begin(log->cli, a, err);
  if (q->at) pd_json_put_text(&a->w, "at", q->at);
  if (q->ref) pd_json_put_text(&a->w, "ref", q->ref);
  if (q->whole_store) pd_json_put_bool(&a->w, "all", true);
  if (q->key.size) pd_json_put_bytes(&a->w, "key", q->key);
  if (log->or_ref) pd_json_put_bool(&a->w, "or_ref", true);
  if (log->is_one) pd_json_put_bool(&a->w, "one", true);
  if (log->wants_values) pd_json_put_bool(&a->w, "values", true);
  if (log->wants_names && !count) pd_json_put_bool(&a->w, "refs", true);
  if (before) pd_json_put_number(&a->w, "before", before);
  pd_json_put_number(&a->w, "limit", q->limit && left < PAGE_MAX ? left : PAGE_MAX);
  return engine_ask(log->cli, a, "store.log", err);
}

static pd_code begin_there(engine_log *log, pd_error *err)
{
  engine_answer *a = &log->answer;
  TRY(ask_page(log, 0, log->query.before, err));
  TRY(engine_take_names(a, &log->names, err));
  log->root = engine_commit(pd_json_member(a->json, "root"));
  log->start = engine_commit(pd_json_member(a->json, "start"));
  log->gc = (pd_gc_info){.cut = engine_number(a->json, "cut"), .retired_ms = (int64_t)engine_number(a->json, "retired_ms")};
  snprintf(log->gc.by, sizeof log->gc.by, "%s", engine_text(a, a->json, "retired_by"));
  log->is_ref = engine_flag(a->json, "is_ref");
  log->values = pd_json_walk_begin(pd_json_member(a->json, "values"));
  return PD_OK;
}

pd_code engine_log_begin(engine_log *log, pd_error *err)
{
  return log->cli->is_remote ? begin_there(log, err) : begin_here(log, err);
}

void engine_log_done(engine_log *log)
{
  names_done(&log->names);
  engine_answer_done(&log->answer);
}

/* What of a record is a list. */
typedef struct record_parts {
  pd_change *changes;
  size_t change_count, change_capacity;
  pd_id *parents;
  size_t parent_count, parent_capacity;
} record_parts;

static void parts_done(record_parts *parts)
{
  free(parts->changes);
  free(parts->parents);
}

static pd_record_kind kind_of(pd_json object)
{
  pd_json name = pd_json_member(object, "kind");
  for (int kind = PD_RECORD_COMMIT; kind <= PD_RECORD_KEYFRAME; kind++)
    if (pd_json_is(name, pd_record_kind_name((pd_record_kind)kind))) return (pd_record_kind)kind;
  return PD_RECORD_COMMIT;
}

static pd_code take_changes(engine_answer *a, pd_json list, record_parts *parts, pd_error *err)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);) {
    TRY(pd_array_grow(&parts->changes, parts->change_count, &parts->change_capacity, sizeof *parts->changes, "a record", err));
    parts->changes[parts->change_count++] = (pd_change){
      .key = engine_bytes(a, item, "key"),
      .is_delete = engine_flag(item, "is_delete"),
      .is_new = engine_flag(item, "is_new"),
      .value_id = engine_id(item, "value_id"),
      .version = engine_number(item, "version"),
      .size = engine_number(item, "size"),
    };
  }
  return PD_OK;
}

static pd_code take_parents(pd_json list, record_parts *parts, pd_error *err)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(list); pd_json_walk_next(&walk, NULL, &item);) {
    char hex[PD_ID_HEX_SIZE] = "";
    TRY(pd_array_grow(&parts->parents, parts->parent_count, &parts->parent_capacity, sizeof *parts->parents, "a record", err));
    if (item.raw.size == PD_ID_HEX_SIZE + 1) memcpy(hex, (const char *)item.raw.data + 1, PD_ID_HEX_SIZE - 1);
    if (!pd_id_parse(hex, &parts->parents[parts->parent_count++]))
      return pd_error_set(err, PD_STORAGE, "the server's answer has no id where one belongs");
  }
  return PD_OK;
}

static pd_code take_record(engine_answer *a, pd_json item, record_parts *parts, pd_record *out, pd_error *err)
{
  parts->change_count = parts->parent_count = 0;
  TRY(take_changes(a, pd_json_member(item, "changes"), parts, err));
  TRY(take_parents(pd_json_member(item, "parents"), parts, err));
  *out = (pd_record){
    .seq = engine_number(item, "seq"),
    .kind = kind_of(item),
    .ref = engine_text(a, item, "ref"),
    .commit = engine_commit(item),
    .parents = parts->parents,
    .parent_count = parts->parent_count,
    .author = engine_text(a, item, "author"),
    .run = engine_text(a, item, "run"),
    .reason = engine_text(a, item, "reason"),
    .time_ms = (int64_t)engine_number(item, "time_ms"),
    .changes = parts->changes,
    .change_count = parts->change_count,
    .audit = engine_id(item, "audit"),
  };
  return PD_OK;
}

static pd_code visit_page(engine_log *log, uint64_t *count, bool *out_stops, pd_record_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(parts_done) record_parts parts = {0};
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(log->answer.json, "records"));
  while (!*out_stops && pd_json_walk_next(&walk, NULL, &item)) {
    pd_record record;
    TRY(take_record(&log->answer, item, &parts, &record, err));
    ++*count;
    *out_stops = !visit(ctx, &record) || *count == log->query.limit;
  }
  return PD_OK;
}

pd_code engine_log_visit(engine_log *log, pd_record_visit visit, void *ctx, pd_error *err)
{
  char start[PD_ID_HEX_SIZE];
  uint64_t count = 0, before;
  bool stops = false;
  if (!log->cli->is_remote && log->is_one) return pd_show(log->cli->store, pd_id_hex(&log->start.id, start), visit, ctx, err);
  if (!log->cli->is_remote) return pd_log(log->cli->store, &log->query, visit, ctx, err);
  TRY(visit_page(log, &count, &stops, visit, ctx, err));
  if (!log->query.ref && !log->query.whole_store && !log->is_ref) log->query.at = pd_id_hex(&log->start.id, start); /* it does not move */
  while (!stops && (before = engine_number(log->answer.json, "next_before"))) {
    TRY(ask_page(log, count, before, err));
    TRY(visit_page(log, &count, &stops, visit, ctx, err));
  }
  return PD_OK;
}

pd_code engine_log_value(engine_log *log, pd_bytes key, pd_buf *out, pd_error *err)
{
  char start[PD_ID_HEX_SIZE];
  pd_json item;
  if (!log->cli->is_remote) return pd_get(log->cli->store, pd_id_hex(&log->start.id, start), key, out, NULL, err);
  if (!pd_json_walk_next(&log->values, NULL, &item)) return pd_error_set(err, PD_STORAGE, "the server's answer has too few values");
  pd_bytes value = engine_base64(&log->answer, item, "base64");
  pd_buf_clear(out);
  return pd_buf_append(out, value.data, value.size, err);
}

/* ---- the versions of a key ---- */

static bool visit_versions(engine_answer *a, uint64_t limit, uint64_t *count, bool (*visit)(void *, const pd_version_info *), void *ctx)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a->json, "versions")); pd_json_walk_next(&walk, NULL, &item);) {
    pd_version_info version = {
      .commit = engine_id(item, "commit"),
      .author = engine_text(a, item, "author"),
      .run = engine_text(a, item, "run"),
      .reason = engine_text(a, item, "reason"),
    };
    engine_entry(item, &version.entry);
    if (!visit(ctx, &version) || ++*count == limit) return false;
  }
  return true;
}

pd_code engine_history(cli_session *cli, const char *at, pd_bytes key, uint64_t limit, bool (*visit)(void *, const pd_version_info *),
                       void *ctx, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  char next[PD_ID_HEX_SIZE] = "";
  uint64_t count = 0;
  if (!cli->is_remote) return pd_history(cli->store, at, key, limit, visit, ctx, err);
  do {
    uint64_t left = limit - count;
    engine_begin(cli, &a, err);
    pd_json_put_bytes(&a.w, "key", key);
    if (*next || at) pd_json_put_text(&a.w, "at", *next ? next : at);
    pd_json_put_number(&a.w, "limit", limit && left < PAGE_MAX ? left : PAGE_MAX);
    TRY(engine_ask(cli, &a, "store.history", err));
    snprintf(next, sizeof next, "%s", engine_text(&a, a.json, "next_at"));
  } while (visit_versions(&a, limit, &count, visit, ctx) && *next);
  return PD_OK;
}

/* ---- blame ---- */

static bool visit_lines(engine_answer *a, uint64_t *count, bool (*visit)(void *, const pd_blame_line *), void *ctx)
{
  pd_json item;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a->json, "lines")); pd_json_walk_next(&walk, NULL, &item); ++*count) {
    pd_blame_line line = {
      .path = engine_bytes(a, item, "path"),
      .value = engine_base64(a, item, "base64"),
      .is_known = engine_flag(item, "is_known"),
      .commit = engine_id(item, "commit"),
      .seq = engine_number(item, "seq"),
      .version = engine_number(item, "version"),
      .time_ms = (int64_t)engine_number(item, "time_ms"),
      .author = engine_text(a, item, "author"),
      .run = engine_text(a, item, "run"),
      .reason = engine_text(a, item, "reason"),
    };
    if (!visit(ctx, &line)) return false;
  }
  return engine_flag(a->json, "has_more");
}

pd_code engine_blame(cli_session *cli, const char *at, pd_bytes key, bool (*visit)(void *, const pd_blame_line *), void *ctx, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  char commit[PD_ID_HEX_SIZE];
  uint64_t count = 0;
  if (!cli->is_remote) return pd_blame(cli->store, at, key, visit, ctx, err);
  do {
    engine_begin(cli, &a, err);
    pd_json_put_bytes(&a.w, "key", key);
    if (at) pd_json_put_text(&a.w, "at", at);
    pd_json_put_number(&a.w, "skip", count);
    TRY(engine_ask(cli, &a, "store.blame", err));
    pd_id id = engine_id(a.json, "commit");
    at = pd_id_hex(&id, commit); /* all pages are of one moment */
  } while (visit_lines(&a, &count, visit, ctx));
  return PD_OK;
}
