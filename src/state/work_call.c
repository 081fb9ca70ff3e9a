/*
 * work_call.c: the capabilities work.create, get, list, claim, update, complete, fail, cancel and prune: items on the ref `state` of the
 * agent's own store, under the keys that a StateStore of type perdure has there. Each operation is one commit on condition of the versions
 * that were read, and is done again if another process was faster (R3).
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/close.h"
#include "base/error.h"
#include "leased/leased.h"
#include "state/call.h"
#include "state/home.h"
#include "state/quota.h"
#include "state/run.h"
#include "state/work.h"

#define WORK_REF "state"

/* ---- the place ---- */

typedef struct home_place {
  pd_frame *frame;
  pd_edit *edit; /* NULL: there is nothing yet */
} home_place;

static void home_place_done(home_place *h)
{
  pd_edit_abort(h->edit);
  h->edit = NULL;
}

static pd_code get(void *ctx, const char *key, pd_buf *out, pd_error *err)
{
  home_place *h = ctx;
  return h->edit ? pd_edit_get(h->edit, pd_text(key), out, NULL, err) : PD_NOT_FOUND;
}

static pd_code scan(void *ctx, const char *prefix, pd_work_scan_visit visit, void *visit_ctx, pd_error *err)
{
  home_place *h = ctx;
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  if (!h->edit) return PD_OK;
  TRY(pd_edit_iter(h->edit, &(pd_scan){.prefix = pd_text(prefix)}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) TRY(visit(visit_ctx, entry.key, value, err));
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code stage(home_place *h, const pd_statestore_change *change, pd_error *err)
{
  pd_entry entry;
  pd_error why;
  pd_code code = pd_edit_get(h->edit, change->key, NULL, &entry, &why);
  if (code && code != PD_NOT_FOUND) return pd_error_set(err, code, "%s", why.message);
  uint64_t version = code ? 0 : entry.version;
  return change->value.data ? pd_edit_put(h->edit, change->key, change->value, version, err)
                            : pd_edit_delete(h->edit, change->key, version, err);
}

/* Staged only: perform commits. */
static pd_code write_changes(void *ctx, const pd_statestore_change *changes, size_t count, pd_error *err)
{
  home_place *h = ctx;
  for (size_t i = 0; i < count; i++) TRY(stage(h, &changes[i], err));
  return PD_OK;
}

static pd_work_place place_of(home_place *h)
{
  const pd_config *config = &h->frame->home->config;
  uint64_t keep_ms = config->work_keep_ms ? config->work_keep_ms : PD_WORK_KEEP_ALL;
  return (pd_work_place){get, write_changes, h, h->frame->now_ms, config->work_keep, keep_ms, scan};
}

/* Without making anything: neither a store nor a ref. */
static pd_code begin_to_read(pd_frame *frame, home_place *out, pd_error *err)
{
  pd_store *store;
  pd_error why;
  pd_ref ref;
  out->frame = frame;
  pd_code code = pd_frame_own(frame, false, &store, &why);
  if (!code) code = pd_ref_get(store, WORK_REF, &ref, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  pd_note note = pd_frame_note(frame);
  note.ref = WORK_REF;
  return code ? pd_error_set(err, code, "%s", why.message) : pd_edit_begin(store, &note, &out->edit, err);
}

/* What is wrong with an argument is wrong with an input here. */
static pd_code as_input(pd_code code, pd_error *err)
{
  if (code == PD_INVALID && !err->name) err->name = "InvalidInput";
  return code;
}

typedef struct performance {
  pd_frame *frame;
  pd_work_op *op;
} performance;

static pd_code perform_once(void *ctx, pd_edit *edit, pd_error *err)
{
  const performance *p = ctx;
  home_place h = {.frame = p->frame, .edit = edit};
  pd_work_place place = place_of(&h);
  return pd_work_op_do(&place, p->op, err);
}

static pd_code too_much(pd_frame *frame, pd_error *err)
{
  uint64_t used = err->actual, limit = err->expected;
  pd_frame_detail_number(frame, "used", used);
  pd_frame_detail_number(frame, "limit", limit);
  return pd_error_set(err, PD_QUOTA, "the work items of agent '%s' have %llu of %llu bytes; this does not fit", frame->agent,
                      (unsigned long long)used, (unsigned long long)limit);
}

static pd_code perform(pd_frame *frame, pd_work_op *op, pd_error *err)
{
  pd_store *store;
  performance p = {frame, op};
  pd_ack ack;
  TRY(as_input(pd_work_op_check(op, err), err));
  TRY(pd_frame_own(frame, true, &store, err));
  bool brings_bytes = op->verb == PD_WORK_DO_CREATE || op->value.size; /* a full store must not keep work from being claimed or cancelled */
  if (brings_bytes) TRY(pd_quota_room(frame, op->verb != PD_WORK_DO_CREATE, err));
  pd_note note = pd_frame_last_note(frame);
  note.ref = WORK_REF;
  note.bytes_max = brings_bytes ? frame->home->config.persistent_quota_bytes : 0;
  pd_code code = pd_leased_update(store, &note, perform_once, &p, NULL, &ack, err);
  if (code == PD_QUOTA && !err->name) return too_much(frame, err);
  TRY(code);
  if (ack.durability != PD_NOTHING) pd_frame_commit(frame, &ack);
  return PD_OK;
}

/* ---- what goes in and out ---- */

typedef struct words {
  char id[PD_WORK_ID_SIZE_MAX + 1], token[PD_WORK_ID_SIZE_MAX + 1], owner[PD_WORK_OWNER_SIZE_MAX + 1];
  char title[PD_WORK_TEXT_SIZE_MAX + 1], reason[PD_WORK_TEXT_SIZE_MAX + 1];
  pd_buf item; /* afterwards */
} words;

static void words_done(words *w)
{
  pd_buf_done(&w->item);
}

static const char *word(const pd_frame *frame, const char *name, char *out, size_t size)
{
  return pd_in_string(frame, name, out, size) ? out : NULL;
}

static uint64_t lease_of(const pd_frame *frame)
{
  return (uint64_t)pd_in_int(frame, "lease_ms", (int64_t)frame->home->config.work_lease_ms);
}

/* Tokens are for who claimed. */
static pd_code put_item(pd_frame *frame, const char *key, pd_bytes json, bool has_token, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf shown = {0};
  pd_json object;
  pd_json_change hide = {"token", {NULL, 0}};
  TRY(pd_json_parse(json, &object, err));
  TRY(pd_json_change_members(object, &hide, has_token ? 0 : 1, &shown, err));
  if (key) pd_json_key(&frame->out, key);
  pd_json_raw(&frame->out, pd_buf_bytes(&shown));
  return frame->out.code;
}

/* Do an operation on the item that the input names, and answer with it. */
static pd_code move(pd_frame *frame, pd_work_op op, pd_error *err)
{
  CLEANUP(words_done) words w = {0};
  op.id = word(frame, "run_id", w.id, sizeof w.id);
  op.out = &w.item;
  TRY(perform(frame, &op, err));
  return put_item(frame, "run", pd_buf_bytes(&w.item), false, err);
}

/* ---- the capabilities ---- */

pd_code pd_cap_work_create(pd_frame *frame, pd_error *err)
{
  CLEANUP(words_done) words w = {0};
  pd_work_item item;
  pd_work_op op = {
    .verb = PD_WORK_DO_CREATE,
    .id = word(frame, "run_id", w.id, sizeof w.id),
    .title = word(frame, "title", w.title, sizeof w.title),
    .value = pd_in(frame, "input").raw,
    .attempts_max = (uint64_t)pd_in_int(frame, "attempts_max", 0),
    .out = &w.item,
  };
  TRY(perform(frame, &op, err));
  TRY(pd_work_parse(pd_buf_bytes(&w.item), &item, err));
  pd_json_put_text(&frame->out, "run_id", item.id);
  return put_item(frame, "run", pd_buf_bytes(&w.item), false, err);
}

pd_code pd_cap_work_get(pd_frame *frame, pd_error *err)
{
  CLEANUP(words_done) words w = {0};
  CLEANUP(home_place_done) home_place h = {0};
  word(frame, "run_id", w.id, sizeof w.id);
  TRY(begin_to_read(frame, &h, err));
  pd_work_place place = place_of(&h);
  TRY(as_input(pd_work_read(&place, w.id, &w.item, err), err));
  return put_item(frame, "run", pd_buf_bytes(&w.item), false, err);
}

typedef struct listing {
  pd_frame *frame;
  uint64_t limit, count;
  bool has_more;
  pd_code code;
  pd_error *err;
} listing;

static bool list_item(void *ctx, const pd_work_item *item, pd_bytes json)
{
  listing *l = ctx;
  (void)item;
  l->has_more = l->count == l->limit;
  if (l->has_more) return false;
  l->count++;
  l->code = put_item(l->frame, NULL, json, false, l->err);
  return !l->code;
}

static unsigned statuses_of(pd_bytes name)
{
  if (!name.data || pd_bytes_equal(name, pd_text("live"))) return 1u << PD_WORK_PENDING | 1u << PD_WORK_INVESTIGATING;
  for (unsigned i = 0; i < PD_WORK_STATUS_COUNT; i++)
    if (pd_bytes_equal(name, pd_text(pd_work_status_name((pd_work_status)i)))) return 1u << i;
  return 0; /* all */
}

pd_code pd_cap_work_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(home_place_done) home_place h = {0};
  pd_work_query query = {.statuses = statuses_of(pd_in_text(frame, "status")), .newest_first = pd_in_bool(frame, "newest_first", false)};
  listing l = {.frame = frame, .limit = (uint64_t)pd_in_int(frame, "limit", 100), .err = err};
  uint64_t unreadable = 0;
  TRY(begin_to_read(frame, &h, err));
  pd_work_place place = place_of(&h);
  pd_json_key(&frame->out, "runs");
  pd_json_open(&frame->out, '[');
  TRY(pd_work_each(&place, &query, list_item, &l, &unreadable, err));
  TRY(l.code);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", l.count);
  pd_json_put_bool(&frame->out, "has_more", l.has_more);
  pd_json_put_number(&frame->out, "unreadable", unreadable);
  return frame->out.code;
}

/* Who works; several processes of one agent name themselves. */
static const char *owner_of(const pd_frame *frame, words *w)
{
  const char *given = word(frame, "owner", w->owner, sizeof w->owner);
  return given ? given : frame->agent;
}

pd_code pd_cap_work_claim(pd_frame *frame, pd_error *err)
{
  CLEANUP(words_done) words w = {0};
  const char *owner = owner_of(frame, &w);
  pd_work_op resume = {.verb = PD_WORK_DO_RESUME, .owner = owner};
  pd_work_op claim = {
    .verb = PD_WORK_DO_CLAIM,
    .id = word(frame, "run_id", w.id, sizeof w.id),
    .owner = owner,
    .lease_ms = lease_of(frame),
    .out = &w.item,
  };
  if (pd_in_bool(frame, "resume", false)) TRY(perform(frame, &resume, err));
  pd_error why = {0};
  pd_code code = perform(frame, &claim, &why);
  bool is_none = code == PD_NOT_FOUND && !claim.id;
  if (code && !is_none) *err = why;
  if (code && !is_none) return code;
  pd_json_put_bool(&frame->out, "claimed", !is_none);
  pd_json_put_number(&frame->out, "resumed", resume.count);
  if (!is_none) return put_item(frame, "run", pd_buf_bytes(&w.item), true, err);
  pd_json_key(&frame->out, "run");
  pd_json_null(&frame->out);
  return frame->out.code;
}

pd_code pd_cap_work_update(pd_frame *frame, pd_error *err)
{
  words w = {0};
  bool gives_back = pd_in_bool(frame, "give_back", false);
  pd_json progress = pd_in(frame, "progress");
  const char *reason = word(frame, "reason", w.reason, sizeof w.reason);
  if (gives_back && progress.kind != PD_JSON_NONE)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "work.update: field 'progress' does not go with give_back: note it before");
  if (!gives_back && reason)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "work.update: field 'reason' goes with give_back alone");
  return move(frame,
              (pd_work_op){
                .verb = gives_back ? PD_WORK_DO_GIVE_BACK : PD_WORK_DO_UPDATE,
                .token = word(frame, "token", w.token, sizeof w.token),
                .reason = reason,
                .value = progress.raw,
                .lease_ms = lease_of(frame),
              },
              err);
}

pd_code pd_cap_work_complete(pd_frame *frame, pd_error *err)
{
  words w = {0};
  const char *token = word(frame, "token", w.token, sizeof w.token);
  return move(frame, (pd_work_op){.verb = PD_WORK_DO_COMPLETE, .token = token, .value = pd_in(frame, "result").raw}, err);
}

pd_code pd_cap_work_fail(pd_frame *frame, pd_error *err)
{
  words w = {0};
  const char *token = word(frame, "token", w.token, sizeof w.token);
  return move(frame, (pd_work_op){.verb = PD_WORK_DO_FAIL, .token = token, .value = pd_in(frame, "error").raw}, err);
}

pd_code pd_cap_work_cancel(pd_frame *frame, pd_error *err)
{
  words w = {0};
  const char *reason = word(frame, "reason", w.reason, sizeof w.reason);
  return move(frame, (pd_work_op){.verb = PD_WORK_DO_CANCEL, .reason = reason}, err);
}

/* ---- prune ---- */

typedef struct pruning {
  const pd_work_op *op;
  pd_buf ids; /* JSON strings, each with a comma behind it */
  pd_code code;
} pruning;

static void pruning_done(pruning *p)
{
  pd_buf_done(&p->ids);
}

static bool note_pruned(void *ctx, const pd_work_item *item, pd_bytes json)
{
  pruning *p = ctx;
  (void)json;
  if (!p->op->count) pd_buf_clear(&p->ids); /* the first one: an attempt before this one was in vain */
  if (!p->code) p->code = pd_buf_printf(&p->ids, NULL, "\"%s\",", item->id);
  return !p->code;
}

static pd_work_prune_options prune_of(const pd_frame *frame)
{
  const pd_config *config = &frame->home->config;
  bool is_asked = pd_in(frame, "keep").kind != PD_JSON_NONE || pd_in(frame, "older_than_ms").kind != PD_JSON_NONE;
  uint64_t keep_ms = config->work_keep_ms ? config->work_keep_ms : PD_WORK_KEEP_ALL;
  return (pd_work_prune_options){
    .keep_count = is_asked ? (uint64_t)pd_in_int(frame, "keep", -1) : config->work_keep,
    .keep_ms = is_asked ? (uint64_t)pd_in_int(frame, "older_than_ms", -1) : keep_ms,
    .is_dry_run = pd_in_bool(frame, "dry_run", false),
  };
}

pd_code pd_cap_work_prune(pd_frame *frame, pd_error *err)
{
  CLEANUP(pruning_done) pruning p = {0};
  pd_work_op op = {.verb = PD_WORK_DO_PRUNE, .prune = prune_of(frame), .visit = note_pruned, .visit_ctx = &p};
  p.op = &op;
  CLEANUP(home_place_done) home_place h = {0};
  TRY(begin_to_read(frame, &h, err));
  if (h.edit) TRY(perform(frame, &op, err));
  if (p.code) return pd_error_memory(err, "the ids of work items");
  pd_json_put_number(&frame->out, "pruned", op.count);
  pd_json_put_bool(&frame->out, "dry_run", op.prune.is_dry_run);
  pd_json_key(&frame->out, "run_ids");
  pd_json_open(&frame->out, '[');
  if (p.ids.size) pd_json_raw(&frame->out, (pd_bytes){p.ids.data, p.ids.size - 1});
  pd_json_close(&frame->out, ']');
  return frame->out.code;
}
