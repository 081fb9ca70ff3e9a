/* gc_plan.c: what gc keeps and where it cuts the log (gc.h). */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/gc.h"
#include "engine/retired.h"

#include <stdlib.h>

#define KEEP_LAST_DEFAULT 100
#define REDO_MAX 1000
#define DAY_MS ((int64_t)86400 * 1000)
#define TAIL_MIN 64   /* records behind the last that is wanted, kept whole with it… */
#define TAIL_SHARE 16 /* …and so many more for each that is wanted */
#define SLACK 8       /* records that are kept whole though nobody wants them: cheaper than one more tree */

void pd_gc_run_done(pd_gc_run *run)
{
  free(run->wants);
  pd_map64_done(&run->old_points);
  pd_points_done(&run->next);
  pd_map64_done(&run->live);
  pd_id_map_done(&run->blobs);
}

/* ---- what is wanted ---- */

static pd_code want(pd_gc_run *run, uint64_t seq, unsigned why, pd_error *err)
{
  if (!seq || pd_is_retired(run->s, seq)) return PD_OK; /* the root commit needs nothing; what is gone is gone */
  TRY(pd_array_grow(&run->wants, run->want_count, &run->want_capacity, sizeof *run->wants, "a gc", err));
  run->wants[run->want_count++] = (pd_want){seq, why};
  return PD_OK;
}

static int compare_wants(const void *a, const void *b)
{
  const pd_want *x = a, *y = b;
  return (x->seq > y->seq) - (x->seq < y->seq);
}

static void sort_wants(pd_gc_run *run)
{
  if (run->want_count) qsort(run->wants, run->want_count, sizeof *run->wants, compare_wants);
  size_t unique = 0;
  for (size_t i = 0; i < run->want_count; i++) {
    if (unique && run->wants[unique - 1].seq == run->wants[i].seq)
      run->wants[unique - 1].why |= run->wants[i].why;
    else
      run->wants[unique++] = run->wants[i];
  }
  run->want_count = unique;
}

bool pd_gc_wants(const pd_gc_run *run, uint64_t seq)
{
  pd_want key = {.seq = seq};
  return run->want_count && bsearch(&key, run->wants, run->want_count, sizeof key, compare_wants);
}

/* Along first parents, until history ends, is retired, or `count` commits were wanted. */
static pd_code want_line(pd_gc_run *run, uint64_t seq, uint64_t stop, uint64_t count, unsigned why, pd_error *err)
{
  for (uint64_t i = 0; i < count && seq && seq != stop && !pd_is_retired(run->s, seq); i++) {
    TRY(want(run, seq, why, err));
    TRY(pd_parent_of(run->s, seq, &seq, err));
  }
  return PD_OK;
}

static pd_code want_mark(void *ctx, const char *kind, const char *name, uint64_t seq, pd_error *err)
{
  (void)kind;
  (void)name;
  return want(ctx, seq, PD_KEEP_MARK, err);
}

/* Is `name` on a list of keep_refs? */
static bool is_listed(const char *list, const char *name)
{
  for (const char *at = list; *at;) {
    size_t size = strcspn(at, " ");
    if (size && strncmp(name, at, size) == 0 && (at[size - 1] == '/' || !name[size])) return true;
    at += size;
    at += strspn(at, " ");
  }
  return false;
}

static pd_code whole_refs(pd_gc_run *run, pd_buf *out, pd_error *err)
{
  pd_error why;
  const char *list = run->policy->keep_refs;
  pd_code code = list ? PD_NOT_FOUND : pd_meta_get_locked(run->s, "setting", PD_SETTING_GC_KEEP_REFS, out, &why);
  if (code && code != PD_NOT_FOUND) {
    *err = why;
    return code;
  }
  if (!list) list = PD_GC_KEEP_REFS;
  if (code) TRY(pd_buf_append(out, list, strlen(list), err));
  return pd_buf_byte(out, 0, err);
}

static pd_code want_all(pd_gc_run *run, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf whole = {0};
  pd_store *s = run->s;
  TRY(whole_refs(run, &whole, err));
  run->has_whole = false;
  uint64_t last = run->policy->keep_last ? run->policy->keep_last : KEEP_LAST_DEFAULT;
  for (size_t i = 0; i < s->slot_count; i++) {
    const pd_head *head = &s->slots[i]->seen;
    if (head->is_deleted) continue;
    TRY(want(run, head->commit.seq, PD_KEEP_HEAD, err));
    if (head->redo_seq) TRY(want_line(run, head->redo_seq, head->commit.seq, REDO_MAX, PD_KEEP_HEAD, err));
    if (strcmp(s->slots[i]->name, PD_META_REF) == 0) continue;
    bool is_import = pd_ref_is_import(s->slots[i]->name); /* bundle.h D7: tags may come yet that name any commit of it */
    bool is_whole = is_import || is_listed((const char *)whole.data, s->slots[i]->name);
    run->has_whole |= is_whole;
    TRY(want_line(run, head->commit.seq, 0, is_whole ? UINT64_MAX : last, is_whole ? PD_KEEP_REFS : PD_KEEP_LAST, err));
  }
  TRY(pd_kept_points(s, want_mark, run, err));
  sort_wants(run);
  return PD_OK;
}

/* ---- the cut ---- */

/* The lowest record from which on about half of what is kept whole is wanted: few trees have to be saved for those before it. A ref that
 * is kept whole may have very many points before the cut, each with nodes of its own: then more records are kept in vain instead. */
static uint64_t choose_cut(const pd_gc_run *run, uint64_t limit)
{
  uint64_t share = run->has_whole ? 16 : 2;
  uint64_t cut = limit, wanted = 0;
  uint64_t newest = run->want_count ? run->wants[run->want_count - 1].seq : 0;
  if (limit - 1 > newest + TAIL_MIN + TAIL_SHARE * run->want_count) newest = limit - 1; /* else what nobody wants is cheaper than trees */
  for (size_t i = run->want_count; i-- > 0;) {
    uint64_t seq = run->wants[i].seq;
    wanted++;
    if (seq < limit && newest - seq <= share * wanted + SLACK) cut = seq;
  }
  return cut;
}

static void set_age(pd_gc_run *run)
{
  int64_t now = run->s->now_ms(run->s->now_ctx);
  uint64_t days = run->policy->keep_days;
  run->young_ms = !days ? INT64_MAX : days > (uint64_t)(now / DAY_MS) ? 0 : now - (int64_t)days * DAY_MS;
}

static pd_code copy_old_points(pd_gc_run *run, pd_error *err)
{
  const pd_points *state = &run->s->retention.state;
  pd_map64_done(&run->old_points);
  for (size_t i = 0; i < state->count; i++) TRY(pd_map64_add(&run->old_points, state->points[i].commit.seq, NULL, NULL, err));
  return PD_OK;
}

static pd_code plan_locked(pd_gc_run *run, pd_error *err)
{
  pd_store *s = run->s;
  set_age(run);
  TRY(pd_refresh(s, err));
  TRY(pd_settle(s, err));
  TRY(pd_retention_ready(s, err));
  run->plan_seq = s->log_seq;
  run->epoch = s->retention.epoch;
  run->old_cut = s->retention.state.cut ? s->retention.state.cut : 1;
  run->want_count = 0;
  TRY(copy_old_points(run, err));
  TRY(want_all(run, err));
  /* a keyframe must stand behind the cut; a dry run supposes one */
  uint64_t limit = run->is_dry ? s->log_seq + 1 : s->frame_count ? s->frames[s->frame_count - 1].covers + 1 : 1;
  run->cut = choose_cut(run, limit);
  if (run->cut < run->cut_min) run->cut = run->cut_min < limit ? run->cut_min : limit;
  if (run->policy->keep_days) {
    uint64_t seq;
    TRY(pd_last_before(s, run->young_ms - 1, &seq, err));
    if (seq + 1 < run->cut) run->cut = seq + 1;
  }
  if (run->cut < run->old_cut) run->cut = run->old_cut;
  return PD_OK;
}

/* ---- what the part behind the cut names before it ---- */

static pd_code want_named(pd_gc_run *run, const pd_rec *rec, pd_error *err)
{
  if (rec->kind == PD_RECORD_COMMIT) {
    for (size_t i = 0; i < rec->parent_count; i++)
      if (rec->parent_seqs[i] < run->cut) TRY(want(run, rec->parent_seqs[i], PD_KEEP_BASE, err));
    if (rec->is_grafted && rec->base_seq < run->cut) TRY(want(run, pd_rec_base(rec), PD_KEEP_BASE, err));
  } else if (rec->kind != PD_RECORD_KEYFRAME && rec->kind != PD_RECORD_SWITCH && rec->target_seq < run->cut) {
    TRY(want(run, rec->target_seq, PD_KEEP_BASE, err));
  }
  return PD_OK;
}

/* The refs as they stood after record cut - 1: in a store of its own, of which only refs and numbers are used. */
typedef struct at_cut {
  pd_store *refs;
  pd_id audit;
  int64_t time_ms;
} at_cut;

static void at_cut_done(at_cut *a)
{
  for (size_t i = 0; a->refs && i < a->refs->slot_count; i++) free(a->refs->slots[i]);
  if (a->refs) free(a->refs->slots);
  free(a->refs);
}

static pd_code start_refs(pd_gc_run *run, at_cut *a, uint64_t *out_from, pd_error *err)
{
  pd_store *s = run->s;
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog base = {0};
  pd_catalog_frame frame = {0};
  pd_store_lock(s);
  for (size_t i = 0; i < s->frame_count && s->frames[i].covers < run->cut; i++) frame = s->frames[i];
  pd_store_unlock(s);
  strcpy(a->refs->current, "main");
  *out_from = 1;
  if (!frame.seq) return PD_OK;
  TRY(pd_load_blob(s, &frame.catalog, "a keyframe's catalog", &blob, err));
  TRY(pd_catalog_decode(pd_buf_bytes(&blob), &base, err));
  for (size_t i = 0; i < base.ref_count; i++) {
    const pd_catalog_ref *ref = &base.refs[i];
    pd_ref_slot *slot;
    TRY(pd_slot_make(a->refs, ref->name, &slot, err));
    slot->seen = (pd_head){.commit = ref->commit,
                           .is_deleted = ref->is_deleted,
                           .last_seq = ref->last_seq,
                           .redo_seq = ref->redo_seq,
                           .updated_ms = ref->updated_ms};
  }
  memcpy(a->refs->current, base.current, sizeof base.current);
  a->audit = base.audit;
  a->time_ms = base.time_ms;
  *out_from = base.covers + 1;
  return PD_OK;
}

static pd_code move_ref(at_cut *a, const pd_rec *rec, pd_error *err)
{
  a->audit = rec->audit;
  a->time_ms = rec->time_ms;
  if (rec->kind == PD_RECORD_KEYFRAME) return PD_OK;
  char name[PD_REF_SIZE_MAX + 1] = {0};
  pd_ref_slot *slot;
  memcpy(name, rec->ref.data, rec->ref.size);
  TRY(pd_slot_make(a->refs, name, &slot, err));
  if (rec->kind == PD_RECORD_SWITCH) memcpy(a->refs->current, name, sizeof name);
  pd_head_move(&slot->seen, rec);
  return PD_OK;
}

/* With the lock: what is retired may change else. */
static pd_code survey_some(pd_gc_run *run, at_cut *a, const pd_taken *t, pd_error *err)
{
  for (size_t i = 0; i < t->count; i++) {
    pd_rec rec;
    TRY(pd_gc_decode(run->s, t->first + i, pd_taken_at(t, i), &rec, err));
    TRY(rec.seq < run->cut ? move_ref(a, &rec, err) : want_named(run, &rec, err));
  }
  return PD_OK;
}

static pd_code want_heads_at_cut(pd_gc_run *run, const at_cut *a, pd_error *err)
{
  for (size_t i = 0; i < a->refs->slot_count; i++) {
    const pd_head *head = &a->refs->slots[i]->seen;
    if (!head->is_deleted) TRY(want(run, head->commit.seq, PD_KEEP_BASE, err));
  }
  return PD_OK;
}

/* Records from the keyframe before the cut up to the present: first what moved the refs, then what names commits before the cut. */
static pd_code survey(pd_gc_run *run, at_cut *a, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  uint64_t seq;
  TRY(start_refs(run, a, &seq, err));
  for (; seq <= run->plan_seq; seq += t.count) {
    TRY(pd_take_records(run->s, seq, run->plan_seq, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    pd_store_lock(run->s);
    pd_code code = survey_some(run, a, &t, err);
    pd_store_unlock(run->s);
    if (code) return code;
  }
  pd_store_lock(run->s);
  pd_code code = want_heads_at_cut(run, a, err);
  pd_store_unlock(run->s);
  sort_wants(run);
  return code;
}

/* ---- points ---- */

static pd_code fill_parents(pd_gc_run *run, pd_point *p, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_store *s = run->s;
  const pd_point *old = pd_point_at(s, p->commit.seq);
  pd_rec rec;
  if (old) {
    p->parent_count = old->parent_count;
    memcpy(p->parents, old->parents, sizeof p->parents);
    memcpy(p->parent_seqs, old->parent_seqs, sizeof p->parent_seqs);
    return PD_OK;
  }
  TRY(pd_record_at(s, p->commit.seq, &scratch, &rec, err));
  p->parent_count = rec.parent_count;
  memcpy(p->parent_seqs, rec.parent_seqs, sizeof p->parent_seqs);
  for (size_t i = 0; i < p->parent_count; i++) {
    pd_commit parent;
    if (rec.is_grafted) p->parents[i] = rec.parent_ids[i];
    if (rec.is_grafted) continue;
    TRY(pd_commit_at(s, p->parent_seqs[i], &parent, err));
    p->parents[i] = parent.id;
  }
  return PD_OK;
}

static pd_code save_point(pd_gc_run *run, pd_point *p, pd_error *err)
{
  pd_store *s = run->s;
  pd_node *root = NULL;
  pd_store_lock(s);
  pd_code code = pd_settle(s, err);
  if (!code) code = pd_commit_at(s, p->commit.seq, &p->commit, err);
  if (!code) code = fill_parents(run, p, err);
  if (!code) code = pd_tree_of(s, p->commit.seq, &root, err);
  if (!code && run->is_dry) code = pd_gc_look_at(run, root, err);
  pd_store_unlock(s);
  if (!code && !run->is_dry) code = pd_tree_save(s, root, err);
  pd_store_lock(s);
  if (!code) p->root_blob = root->blob_id;
  pd_node_unref(&s->tree.pool, root);
  pd_cache_trim(s);
  pd_store_unlock(s);
  return code;
}

static pd_code put_blob(pd_store *s, pd_buf *blob, pd_id *out_id, pd_error *err)
{
  pd_bytes bytes = pd_buf_bytes(blob);
  *out_id = pd_value_id(bytes);
  return s->ops->bag_put(s->backend, out_id, &bytes, 1, err);
}

/* The blob of the empty tree: of refs that are at the root commit. */
static pd_code empty_root(pd_store *s, pd_id *out_blob, pd_error *err)
{
  pd_node *root;
  pd_store_lock(s);
  pd_code code = pd_tree_empty(&s->tree, &root, err);
  pd_store_unlock(s);
  if (code) return code;
  code = pd_tree_save(s, root, err);
  pd_store_lock(s);
  if (!code) *out_blob = root->blob_id;
  pd_node_unref(&s->tree.pool, root);
  pd_store_unlock(s);
  return code;
}

static pd_code describe_ref(pd_gc_run *run, const pd_ref_slot *slot, pd_catalog_ref *out, pd_error *err)
{
  const pd_head *head = &slot->seen;
  const pd_point *p = pd_points_find(&run->next, head->commit.seq);
  memcpy(out->name, slot->name, sizeof out->name);
  out->is_deleted = head->is_deleted;
  out->commit = head->commit;
  out->last_seq = head->last_seq;
  out->redo_seq = head->redo_seq;
  out->updated_ms = head->updated_ms;
  if (p) out->root_blob = p->root_blob;
  bool is_at_root = !head->is_deleted && !head->commit.seq; /* else it is at what was retired: nothing is known of its tree */
  return is_at_root ? empty_root(run->s, &out->root_blob, err) : PD_OK;
}

/* The catalog of the cut, and the list of the commits before it that can still be found by id. */
static pd_code save_cut(pd_gc_run *run, const at_cut *a, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {.covers = run->cut - 1, .audit = a->audit, .time_ms = a->time_ms};
  pd_points *next = &run->next;
  pd_run_entry *entries = calloc(next->count + 1, sizeof *entries);
  catalog.refs = calloc(a->refs->slot_count + 1, sizeof *catalog.refs);
  if (!entries || !catalog.refs) {
    free(entries);
    return pd_error_memory(err, "a gc");
  }
  for (size_t i = 0; i < next->count; i++)
    entries[i] = (pd_run_entry){pd_id_prefix(&next->points[i].commit.id), next->points[i].commit.seq};
  pd_code code = pd_run_encode(entries, next->count, 0, &blob, err);
  free(entries);
  if (code) return code;
  TRY(put_blob(run->s, &blob, &next->run, err));
  catalog.run = next->run;
  memcpy(catalog.current, a->refs->current, sizeof catalog.current);
  for (size_t i = 0; i < a->refs->slot_count; i++) {
    if (pd_is_forgotten(&a->refs->slots[i]->seen, run->old_cut)) continue; /* later: keyframes behind this cut may list them still */
    TRY(describe_ref(run, a->refs->slots[i], &catalog.refs[catalog.ref_count], err));
    catalog.ref_count++;
  }
  pd_buf_clear(&blob);
  TRY(pd_catalog_encode(&catalog, &blob, err));
  next->audit = a->audit;
  next->cut_time_ms = a->time_ms;
  return put_blob(run->s, &blob, &next->catalog, err);
}

pd_code pd_gc_points(pd_gc_run *run, pd_error *err)
{
  CLEANUP(at_cut_done) at_cut a = {.refs = calloc(1, sizeof *a.refs)};
  if (!a.refs) return pd_error_memory(err, "a gc");
  pd_points_done(&run->next);
  run->next = (pd_points){.cut = run->cut};
  if (run->cut <= 1) return PD_OK;
  TRY(survey(run, &a, err));
  for (size_t i = 0; i < run->want_count && run->wants[i].seq < run->cut; i++) {
    pd_point *p;
    TRY(pd_points_add(&run->next, &p, err));
    p->commit.seq = run->wants[i].seq;
    TRY(save_point(run, p, err));
    TRY(pd_gc_tick(run, 1, err));
  }
  return run->is_dry ? PD_OK : save_cut(run, &a, err);
}

pd_code pd_gc_plan(pd_gc_run *run, pd_error *err)
{
  pd_store_lock(run->s);
  pd_code code = plan_locked(run, err);
  pd_store_unlock(run->s);
  return code;
}
