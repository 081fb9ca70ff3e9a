/* log.c: reading the log as history: of a line, of the whole store, of a ref, of a key. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

#define POINT_READS 32 /* then whole segments are loaded: long walks are cheaper so */

/* A record as visitors see it; owns what the decoded one only borrows. */
typedef struct shown {
  pd_record record;
  pd_change *changes;
  pd_id parents[PD_PARENT_COUNT_MAX];
  pd_buf texts; /* ref, author, run, reason, each with a NUL */
} shown;

static void shown_done(shown *sh)
{
  free(sh->changes);
  pd_buf_done(&sh->texts);
}

static pd_code copy_texts(shown *sh, const pd_rec *rec, pd_error *err)
{
  pd_bytes parts[] = {rec->ref, rec->author, rec->run, rec->reason};
  const char **slots[] = {&sh->record.ref, &sh->record.author, &sh->record.run, &sh->record.reason};
  size_t at[COUNT_OF(parts)];
  for (size_t i = 0; i < COUNT_OF(parts); i++) {
    at[i] = sh->texts.size;
    TRY(pd_buf_append(&sh->texts, parts[i].data, parts[i].size, err));
    TRY(pd_buf_byte(&sh->texts, 0, err));
  }
  for (size_t i = 0; i < COUNT_OF(parts); i++) *slots[i] = (const char *)sh->texts.data + at[i];
  return PD_OK;
}

/* Keys of the changes stay borrowed from the record. */
static pd_code copy_changes(shown *sh, const pd_rec *rec, pd_error *err)
{
  sh->changes = malloc((rec->change_count + 1) * sizeof *sh->changes);
  if (!sh->changes) return pd_error_memory(err, "a record");
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    sh->changes[i] = (pd_change){ch.key, ch.is_delete, pd_rec_value_id(&ch), ch.version, ch.size, pd_rec_is_new(&ch)};
  }
  sh->record.changes = sh->changes;
  sh->record.change_count = rec->change_count;
  return PD_OK;
}

/* `rec` is borrowed from `scratch` or a segment: parents are looked up last, and only their ids are kept. */
static pd_code show(pd_store *s, const pd_rec *rec, pd_buf *keep, shown *sh, pd_error *err)
{
  pd_rec own;
  pd_buf_clear(keep);
  TRY(pd_buf_append(keep, rec->bytes.data, rec->bytes.size, err)); /* looking up parents may move the segment */
  TRY(pd_rec_decode_checked(rec->seq, pd_buf_bytes(keep), &own, err));
  sh->record = (pd_record){.seq = own.seq,
                           .kind = own.kind,
                           .commit = {own.commit, own.tree, own.target_seq},
                           .time_ms = own.time_ms,
                           .audit = own.audit,
                           .parents = sh->parents,
                           .parent_count = own.parent_count};
  TRY(copy_texts(sh, &own, err));
  if (own.kind == PD_RECORD_COMMIT) TRY(copy_changes(sh, &own, err));
  const pd_point *point = pd_point_at(s, own.seq);
  for (size_t i = 0; i < own.parent_count; i++) {
    pd_commit parent;
    if (point) sh->parents[i] = point->parents[i]; /* their records may be gone */
    if (own.is_grafted) sh->parents[i] = own.parent_ids[i];
    if (point || own.is_grafted) continue;
    TRY(pd_commit_at(s, own.parent_seqs[i], &parent, err));
    sh->parents[i] = parent.id;
  }
  return PD_OK;
}

static pd_code visit_record(pd_store *s, const pd_rec *rec, pd_record_visit visit, void *ctx, bool *out_goes_on, pd_error *err)
{
  CLEANUP(shown_done) shown sh = {0};
  CLEANUP(pd_buf_done) pd_buf keep = {0};
  TRY(show(s, rec, &keep, &sh, err));
  *out_goes_on = visit(ctx, &sh.record);
  return PD_OK;
}

static bool changes_key(const pd_rec *rec, pd_bytes key)
{
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    if (pd_bytes_equal(ch.key, key)) return true;
  }
  return false;
}

/* Who pages names the last record that was shown: if the ref was moved by it, all later ones can be left out. */
static pd_code skip_to(pd_store *s, const pd_log_query *q, uint64_t *out_seq, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  if (pd_is_retired(s, q->before)) return PD_OK;
  TRY(pd_record_at(s, q->before, &scratch, &rec, err));
  if (pd_bytes_equal(rec.ref, pd_text(q->ref))) *out_seq = q->before;
  return PD_OK;
}

static pd_code no_such_ref(const pd_store *s, const char *name, pd_error *err)
{
  if (s->retention.state.cut > 1) return pd_error_set(err, PD_NOT_FOUND, "there is no ref '%s' in the history that gc has left", name);
  return pd_error_set(err, PD_NOT_FOUND, "there never was a ref '%s'", name);
}

/* Where the page begins: at its cursor, not at the head. */
static pd_code first_record(pd_store *s, const pd_log_query *q, uint64_t *out_seq, pd_error *err)
{
  if (q->whole_store) {
    *out_seq = q->before && q->before <= s->seen_seq ? q->before - 1 : s->seen_seq;
  } else if (q->ref) {
    pd_ref_slot *slot = pd_slot_find(s, q->ref);
    if (!slot || !slot->seen.last_seq || pd_is_forgotten(&slot->seen, s->retention.state.cut)) return no_such_ref(s, q->ref, err);
    *out_seq = slot->seen.last_seq;
    if (q->before && q->before < *out_seq) TRY(skip_to(s, q, out_seq, err));
  } else {
    pd_commit commit;
    TRY(pd_resolve_to_read(s, q->at, &commit, err));
    *out_seq = commit.seq;
    if (pd_is_retired(s, *out_seq)) return pd_retired_error(s, *out_seq, err);
    if (q->before) TRY(pd_line_before(s, out_seq, q->before, err));
  }
  return PD_OK;
}

/* The record itself, or what gc left instead of it: 0, or of the whole store the point before it. */
static uint64_t left_record(const pd_store *s, const pd_log_query *q, uint64_t seq)
{
  if (!pd_is_retired(s, seq)) return seq;
  const pd_point *point = q->whole_store ? pd_points_before(&s->retention.state, seq) : NULL;
  return point ? point->commit.seq : 0;
}

/* Let others in. Meanwhile gc may have retired the rest. */
static pd_code rest(pd_store *s, const pd_log_query *q, uint64_t *seq, pd_error *err)
{
  pd_store_yield(s);
  TRY(pd_segment_bring(s, *seq, err));
  TRY(pd_retention_ready(s, err));
  *seq = left_record(s, q, *seq);
  return PD_OK;
}

/* 0 at the end: the beginning of history, or where gc retired what was before. */
static uint64_t next_record(const pd_store *s, const pd_log_query *q, const pd_rec *rec)
{
  return left_record(s, q, q->whole_store ? rec->seq - 1 : q->ref ? rec->ref_prev_seq : rec->parent_seqs[0]);
}

static pd_code log_locked(pd_store *s, const pd_log_query *q, pd_record_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  uint64_t seq = 0, shown_count = 0, steps = 0;
  bool goes_on = true;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_retention_ready(s, err));
  TRY(first_record(s, q, &seq, err));
  seq = left_record(s, q, seq); /* 0: a ref whose last mover is before the cut, or a page that ends there */
  while (seq && goes_on && !(q->limit && shown_count == q->limit)) {
    pd_rec rec;
    bool walks = steps >= POINT_READS - 1;
    if (steps % PD_YIELD_STEPS == PD_YIELD_STEPS - 1 || (walks && !pd_segment_loaded(s, seq))) TRY(rest(s, q, &seq, err));
    if (!seq) break;
    steps++;
    TRY(!walks ? pd_record_at(s, seq, &scratch, &rec, err) : pd_record_walk(s, seq, &scratch, &rec, err));
    uint64_t next = next_record(s, q, &rec);
    bool is_wanted = !pd_rec_is_part(&rec) && (!q->before || seq < q->before) && (!q->key.size || changes_key(&rec, q->key));
    if (is_wanted) {
      TRY(visit_record(s, &rec, visit, ctx, &goes_on, err));
      shown_count++;
    }
    seq = next;
  }
  return PD_OK;
}

pd_code pd_log(pd_store *store, const pd_log_query *query, pd_record_visit visit, void *ctx, pd_error *err)
{
  static const pd_log_query all;
  if (query && query->key.size) TRY(pd_key_check(query->key, err));
  pd_store_lock_to_read(store);
  pd_code code = log_locked(store, query ? query : &all, visit, ctx, err);
  pd_store_unlock(store);
  return code;
}

static pd_code show_locked(pd_store *s, const char *at, pd_record_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_commit commit;
  pd_rec rec;
  bool goes_on;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_resolve_to_read(s, at, &commit, err));
  if (!commit.seq) { /* the root commit has no record of its own */
    pd_record root = {.kind = PD_RECORD_COMMIT, .ref = "", .commit = commit, .author = "", .run = "", .reason = ""};
    visit(ctx, &root);
    return PD_OK;
  }
  TRY(pd_record_at(s, commit.seq, &scratch, &rec, err));
  return visit_record(s, &rec, visit, ctx, &goes_on, err);
}

pd_code pd_show(pd_store *store, const char *at, pd_record_visit visit, void *ctx, pd_error *err)
{
  pd_store_lock_to_read(store);
  pd_code code = show_locked(store, at, visit, ctx, err);
  pd_store_unlock(store);
  return code;
}

/* ---- versions of a key ---- */

typedef struct history_query {
  pd_bytes key;
  uint64_t limit;
  bool has_values;
  bool (*visit)(void *ctx, const pd_version_info *version);
  void *ctx;
} history_query;

static pd_code add_value(pd_store *s, const pd_rec_change *ch, pd_buf *value, pd_version_info *info, pd_error *err)
{
  info->is_erased = ch->is_erased;
  if (ch->is_erased) return PD_OK;
  TRY(pd_change_value(s, ch, value, err));
  info->value = pd_buf_bytes(value);
  return PD_OK;
}

static pd_code history_locked(pd_store *s, const char *at, const history_query *q, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_bytes key = q->key;
  pd_entry entry;
  TRY(pd_get_locked(s, at, key, NULL, &entry, err));
  uint64_t count = 0;
  bool goes_on = true;
  for (uint64_t seq = entry.seq; seq && goes_on && !(q->limit && count == q->limit); count++) {
    CLEANUP(shown_done) shown sh = {0};
    pd_rec rec;
    pd_rec_change ch;
    pd_error why;
    if (count % PD_YIELD_STEPS == PD_YIELD_STEPS - 1) pd_store_yield(s);
    pd_code code = pd_version_step(s, key, seq, &scratch, &rec, &ch, &why);
    if (code == PD_RETIRED && count) return PD_OK; /* older versions were retired: a normal end */
    if (code && err) *err = why;
    if (code) return code;
    TRY(copy_texts(&sh, &rec, err));
    pd_version_info info = {.commit = *pd_rec_maker(&rec), .author = sh.record.author, .run = sh.record.run, .reason = sh.record.reason};
    info.entry = (pd_entry){.key = key,
                            .value_id = pd_rec_value_id(&ch),
                            .version = ch.version,
                            .size = ch.size,
                            .seq = seq,
                            .created_ms = entry.created_ms,
                            .updated_ms = pd_rec_made_ms(&rec)};
    if (q->has_values) TRY(add_value(s, &ch, &value, &info, err));
    goes_on = q->visit(q->ctx, &info);
    seq = ch.prev_seq;
  }
  return PD_OK;
}

static pd_code history_of(pd_store *store, const char *at, const history_query *q, pd_error *err)
{
  TRY(pd_key_check(q->key, err));
  pd_store_lock_to_read(store);
  pd_code code = history_locked(store, at, q, err);
  if (q->has_values) pd_cache_trim(store);
  pd_store_unlock(store);
  return code;
}

pd_code pd_history(pd_store *store, const char *at, pd_bytes key, uint64_t limit, bool (*visit)(void *ctx, const pd_version_info *version),
                   void *ctx, pd_error *err)
{
  history_query q = {.key = key, .limit = limit, .visit = visit, .ctx = ctx};
  return history_of(store, at, &q, err);
}

pd_code pd_history_values(pd_store *store, const char *at, pd_bytes key, uint64_t limit,
                          bool (*visit)(void *ctx, const pd_version_info *version), void *ctx, pd_error *err)
{
  history_query q = {.key = key, .limit = limit, .has_values = true, .visit = visit, .ctx = ctx};
  return history_of(store, at, &q, err);
}
