/* snapshot.c: state.snapshot.create, list and load. What a snapshot holds; its file is snapshot_file.c's, its heads snapshot_heads.c's. */
#include "state/snapshot.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/activity.h"
#include "state/alert.h"
#include "state/health.h"
#include "state/moment.h"
#include "state/pending.h"
#include "state/resources.h"
#include "state/run.h"
#include "state/session.h"

#include <stdio.h>
#include <unistd.h>

#define ALERTS_MAX 100
#define PENDING_MAX 1000

static void close_folder(int *folder)
{
  if (*folder >= 0) close(*folder);
}

/* ---- what is in it ---- */

/* Keys, bytes and versions at one commit. */
typedef struct tally {
  uint64_t keys, bytes, versions;
} tally;

static void view_done(pd_view **view)
{
  pd_view_close(*view);
}

static pd_code count_keys(pd_store *store, const pd_commit *commit, tally *out, pd_error *err)
{
  CLEANUP(view_done) pd_view *view = NULL;
  pd_iter *iter;
  pd_entry entry;
  pd_scan scan = {.keys_only = true};
  pd_code code;
  *out = (tally){0};
  TRY(pd_view_open_commit(store, commit, &view, err));
  TRY(pd_view_scan(view, &scan, &iter, err));
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    out->keys++;
    out->bytes += entry.size;
    out->versions += entry.version;
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* Of the store while it is open. What cannot be counted is not readable, which is no failure of the snapshot. */
static void count_head(pd_store *store, pd_lease *lease, pd_head *head)
{
  tally is;
  pd_stats stats = {0};
  head->is_counted = count_keys(store, &head->commit, &is, &lease->why) == PD_OK && pd_store_stats(store, &stats, &lease->why) == PD_OK;
  if (!head->is_counted) return;
  head->keys = is.keys;
  head->bytes = is.bytes;
  head->versions = is.versions;
  head->records = stats.records;
  head->disk_bytes = stats.disk_bytes;
}

static void write_store(pd_json_writer *w, const pd_lease *lease, const pd_head *head, tally *totals)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "name", lease->name);
  pd_json_put_text(w, "kind", pd_store_kind(lease->name));
  pd_json_put_bool(w, "is_readable", head->is_counted);
  if (head->is_known) {
    pd_json_put_id(w, "commit", &head->commit.id);
    pd_json_put_id(w, "tree", &head->commit.tree);
    pd_json_put_number(w, "seq", head->commit.seq);
    pd_json_put_time(w, "updated_at", head->updated_ms);
  }
  if (head->is_counted) {
    pd_json_put_number(w, "keys", head->keys);
    pd_json_put_number(w, "bytes", head->bytes);
    pd_json_put_number(w, "versions", head->versions);
    pd_json_put_number(w, "records", head->records);
    pd_json_put_number(w, "disk_bytes", head->disk_bytes);
  }
  pd_json_close(w, '}');
  totals->keys += head->keys;
  totals->bytes += head->bytes;
  totals->versions += head->versions;
}

static void write_state(pd_json_writer *w, pd_heads *heads)
{
  tally totals = {0};
  pd_json_key(w, "state");
  pd_json_open(w, '{');
  pd_json_put_bool(w, "at_one_instant", heads->is_one_instant);
  pd_json_put_number(w, "tries", heads->tries);
  pd_json_key(w, "stores");
  pd_json_open(w, '[');
  for (size_t i = 0; i < heads->leases.count; i++) write_store(w, &heads->leases.items[i], &heads->items[i], &totals);
  pd_json_close(w, ']');
  pd_json_key(w, "totals");
  pd_json_open(w, '{');
  pd_json_put_number(w, "stores", heads->leases.count);
  pd_json_put_number(w, "keys", totals.keys);
  pd_json_put_number(w, "bytes", totals.bytes);
  pd_json_put_number(w, "versions", totals.versions);
  pd_json_close(w, '}');
  pd_json_close(w, '}');
}

static void count_session(void *ctx, const pd_session_info *info)
{
  (void)info;
  ++*(uint64_t *)ctx;
}

static pd_code write_agent(pd_json_writer *w, pd_home *home, const char *name, int64_t now_ms, pd_error *err)
{
  uint64_t sessions = 0;
  int64_t last_ms = pd_activity_latest(home, name);
  TRY(pd_session_each(home, name, count_session, &sessions, err));
  bool is_recent = last_ms && now_ms - last_ms < (int64_t)home->config.session_idle_ms;
  pd_json_open(w, '{');
  pd_json_put_text(w, "name", name);
  pd_json_put_bool(w, "is_active", sessions || is_recent);
  pd_json_put_number(w, "sessions", sessions); /* of this process */
  pd_json_put_time(w, "last_activity", last_ms);
  pd_json_close(w, '}');
  return PD_OK;
}

/* Agents that have a store, or were active without writing anything. */
typedef struct roll {
  pd_json_writer *w;
  pd_home *home;
  const pd_heads *heads;
  int64_t now_ms;
  pd_error *err;
  pd_code code;
} roll;

static void call_without_store(void *ctx, const char *agent, int64_t last_ms)
{
  roll *r = ctx;
  (void)last_ms;
  for (size_t i = 0; i < r->heads->leases.count; i++)
    if (strcmp(r->heads->leases.items[i].name, agent) == 0) return;
  if (r->code == PD_OK) r->code = write_agent(r->w, r->home, agent, r->now_ms, r->err);
}

static pd_code write_agents(pd_json_writer *w, pd_home *home, const pd_heads *heads, int64_t now_ms, pd_error *err)
{
  roll r = {w, home, heads, now_ms, err, PD_OK};
  pd_json_key(w, "agents");
  pd_json_open(w, '[');
  for (size_t i = 0; i < heads->leases.count; i++)
    if (strcmp(pd_store_kind(heads->leases.items[i].name), "agent") == 0)
      TRY(write_agent(w, home, heads->leases.items[i].name, now_ms, err));
  TRY(pd_activity_each(home, call_without_store, &r, err));
  pd_json_close(w, ']');
  return r.code;
}

typedef struct pending_list {
  pd_json_writer *w;
  uint64_t count;
} pending_list;

/* What waits, and for whom; what the call is about stays between agent and operator (N4). */
static void take_pending(void *ctx, const pd_pending *item)
{
  pending_list *list = ctx;
  if (list->count++ < PENDING_MAX) pd_pending_write(list->w, item);
}

static pd_code write_approvals(pd_json_writer *w, pd_home *home, int64_t now_ms, pd_error *err)
{
  pending_list list = {.w = w};
  pd_json_key(w, "approvals");
  pd_json_open(w, '{');
  pd_json_key(w, "pending");
  pd_json_open(w, '[');
  TRY(pd_pending_each(home, NULL, now_ms, take_pending, &list, err));
  pd_json_close(w, ']');
  pd_json_put_number(w, "count", list.count);
  pd_json_close(w, '}');
  return PD_OK;
}

/* Which alerts there are; their texts are their agents' own (N4). */
static pd_code write_alerts(pd_json_writer *w, pd_home *home, pd_error *err)
{
  CLEANUP(pd_journal_done) pd_journal_list list = {0};
  pd_alert_totals totals;
  pd_alert_query query = {.since_ms = -1, .only_open = true, .limit = ALERTS_MAX};
  TRY(pd_alert_read(home, &query, &list, &totals, err));
  pd_json_key(w, "alerts");
  pd_json_open(w, '{');
  pd_json_put_number(w, "unacknowledged", totals.open);
  pd_json_key(w, "by_severity");
  pd_json_open(w, '{');
  pd_alert_write_totals(w, &totals);
  pd_json_close(w, '}');
  pd_json_key(w, "newest");
  pd_json_open(w, '[');
  for (size_t i = 0; i < list.count; i++) {
    pd_json json;
    TRY(pd_json_parse((pd_bytes){list.items[i].text, list.items[i].size}, &json, err));
    pd_json_open(w, '{');
    pd_json_put_text(w, "alert_id", list.items[i].id);
    if (strcmp(list.items[i].owner, PD_JOURNAL_ALL) != 0) pd_json_put_text(w, "agent", list.items[i].owner);
    pd_json_put_text(w, "severity", pd_alert_severity_name(pd_alert_severity_of(json)));
    pd_json_put_time(w, "timestamp", list.items[i].time_ms);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
  pd_json_close(w, '}');
  return PD_OK;
}

static pd_code write_health(pd_json_writer *w, pd_home *home, pd_error *err)
{
  CLEANUP(pd_health_done) pd_health health = {0};
  TRY(pd_health_look(home, &health, err));
  pd_json_key(w, "resources");
  pd_json_open(w, '{');
  pd_resources_write(w);
  pd_json_key(w, "disk");
  pd_json_open(w, '{');
  pd_json_put_number(w, "total_bytes", health.disk_total_bytes);
  pd_json_put_number(w, "free_bytes", health.disk_free_bytes);
  pd_json_close(w, '}');
  pd_json_close(w, '}');
  pd_json_key(w, "health");
  pd_json_open(w, '{');
  pd_health_write(w, home, &health, NULL);
  pd_json_close(w, '}');
  return PD_OK;
}

static pd_code write_snapshot(pd_frame *frame, const char *id, pd_heads *heads, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "snapshot_id", id);
  pd_json_put_time(&w, "timestamp", frame->now_ms);
  pd_json_put_number(&w, "format", 1);
  pd_json_put_text(&w, "created_by", *frame->agent ? frame->agent : "operator");
  pd_json_put_bool(&w, "by_operator", frame->ctx->is_operator);
  TRY(write_agents(&w, frame->home, heads, frame->now_ms, err));
  TRY(write_approvals(&w, frame->home, frame->now_ms, err));
  TRY(write_alerts(&w, frame->home, err));
  TRY(write_health(&w, frame->home, err));
  write_state(&w, heads);
  pd_json_close(&w, '}');
  return w.code;
}

/* ---- create ---- */

typedef struct keeping {
  const char *id;
  int folder;
  const pd_note *note;
} keeping;

/* Tag it first: retention may take what is not tagged while it is being counted. */
static pd_code keep_head(void *ctx, pd_store *store, pd_lease *lease, pd_head *head, pd_error *err)
{
  const keeping *k = ctx;
  TRY(pd_head_tag(store, head, k->id, k->note, err));
  pd_head_untag(store, k->folder, k->note); /* of snapshots that went, and of those that were not finished */
  count_head(store, lease, head);
  return PD_OK;
}

/* N6 */
static bool is_of_caller(const pd_frame *frame, const pd_snapshot_info *info)
{
  return info->is_operators ? frame->ctx->is_operator : !frame->ctx->is_operator && strcmp(info->maker, frame->agent) == 0;
}

/* Remove the caller's oldest beyond snapshot.keep, never the new one, wherever a clock that went back has put it; and the tags of all that
 * are gone. It is no failure of the new one if that fails now: the next one tries again. Returns how many went. */
static uint64_t prune(pd_frame *frame, int folder, const char *new_id, const pd_note *note, pd_heads *heads)
{
  CLEANUP(pd_snapshot_list_done) pd_snapshot_list list = {0};
  uint64_t removed = 0, kept = 1;
  if (pd_snapshot_list_read(folder, &list, NULL) == PD_OK)
    for (size_t i = 0; i < list.count; i++) {
      if (!is_of_caller(frame, &list.items[i]) || strcmp(list.items[i].id, new_id) == 0) continue;
      if (kept++ < frame->home->config.snapshot_keep) continue;
      char name[PD_SNAPSHOT_ID_SIZE + 8];
      snprintf(name, sizeof name, "%s.json", list.items[i].id);
      if (unlinkat(folder, name, 0) == 0) removed++;
    }
  pd_snapshot_clean(folder);
  if (removed) pd_heads_untag(heads, folder, note);
  return removed;
}

static pd_code create(pd_frame *frame, int folder, const char *id, int file, pd_heads *heads, uint64_t *out_size, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = PD_SNAPSHOT_SIZE_MAX};
  pd_note note = {.author = *frame->agent ? frame->agent : "operator", .run = frame->ctx->session, .reason = frame->capability->name};
  keeping k = {id, folder, &note};
  pd_code code = pd_heads_read(frame, keep_head, &k, heads, err);
  if (code == PD_OK) code = write_snapshot(frame, id, heads, &text, err);
  if (code)
    pd_snapshot_abandon(folder, id, file);
  else
    code = pd_snapshot_finish(folder, id, file, pd_buf_bytes(&text), out_size, err);
  if (code) pd_heads_untag(heads, folder, &note);
  return code;
}

pd_code pd_cap_state_snapshot_create(pd_frame *frame, pd_error *err)
{
  CLEANUP(close_folder) int folder = -1;
  CLEANUP(pd_heads_done) pd_heads heads = {0};
  char id[PD_SNAPSHOT_ID_SIZE];
  int file = -1;
  uint64_t size = 0;
  pd_note note = {.author = "perdure", .reason = "snapshot.keep"};
  TRY(pd_snapshot_folder(frame->home, true, &folder, err));
  TRY(pd_snapshot_reserve(folder, frame->now_ms, id, &file, err));
  TRY(create(frame, folder, id, file, &heads, &size, err));
  uint64_t removed = prune(frame, folder, id, &note, &heads);
  pd_json_put_text(&frame->out, "snapshot_id", id);
  pd_out_time(frame, "timestamp", frame->now_ms);
  pd_json_put_number(&frame->out, "size_bytes", size);
  pd_json_put_bool(&frame->out, "at_one_instant", heads.is_one_instant);
  pd_json_put_number(&frame->out, "removed_count", removed);
  return PD_OK;
}

/* ---- list, load ---- */

pd_code pd_cap_state_snapshot_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(close_folder) int folder = -1;
  CLEANUP(pd_snapshot_list_done) pd_snapshot_list list = {0};
  TRY(pd_snapshot_folder(frame->home, false, &folder, err));
  TRY(pd_snapshot_list_read(folder, &list, err));
  pd_json_writer *w = &frame->out;
  pd_json_key(w, "snapshots");
  pd_json_open(w, '[');
  for (size_t i = 0; i < list.count; i++) {
    pd_json_open(w, '{');
    pd_json_put_text(w, "snapshot_id", list.items[i].id);
    pd_json_put_time(w, "timestamp", list.items[i].time_ms);
    pd_json_put_number(w, "size_bytes", list.items[i].size);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
  pd_json_put_number(w, "count", list.count);
  pd_json_key(w, "skipped");
  pd_json_open(w, '[');
  for (size_t i = 0; i < list.skip_count; i++) {
    pd_json_open(w, '{');
    pd_json_put_text(w, "file", list.skips[i].file);
    pd_json_put_text(w, "reason", list.skips[i].why);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
  return PD_OK;
}

pd_code pd_snapshot_load(pd_frame *frame, char out_id[PD_SNAPSHOT_ID_SIZE], pd_buf *out, pd_json *out_json, pd_error *err)
{
  CLEANUP(close_folder) int folder = -1;
  pd_bytes given = pd_in_text(frame, "snapshot_id");
  pd_error why = {0};
  TRY(pd_snapshot_folder(frame->home, false, &folder, err));
  bool is_id = pd_in_string(frame, "snapshot_id", out_id, PD_SNAPSHOT_ID_SIZE) && pd_snapshot_id_check(out_id);
  pd_code code = is_id && folder >= 0 ? pd_snapshot_read(folder, out_id, out, &why) : PD_NOT_FOUND;
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "SnapshotNotFound", "there is no snapshot '%.*s'", (int)given.size, (const char *)given.data);
  if (code == PD_NO_MEMORY) return pd_error_memory(err, "a snapshot");
  if (code) return pd_error_named(err, code, "IoError", "the snapshot %s cannot be used: %s", out_id, why.message);
  return pd_json_parse(pd_buf_bytes(out), out_json, err);
}

pd_code pd_cap_state_snapshot_load(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char id[PD_SNAPSHOT_ID_SIZE];
  pd_json json;
  TRY(pd_snapshot_load(frame, id, &text, &json, err));
  pd_json_key(&frame->out, "snapshot");
  if (!frame->ctx->is_operator) return pd_snapshot_write_for(&frame->out, json, frame->agent);
  pd_json_value(&frame->out, json);
  return PD_OK;
}
