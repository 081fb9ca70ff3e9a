/*
 * bundle_refs.c: what becomes of the refs of a bundle. The rules are looked at twice: before the commits are taken in, so that a refusal
 * leaves nothing behind, and again when all refs move in one append (D4).
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle.h"
#include "engine/erase.h"
#include "engine/retired.h"

#include <stdio.h>
#include <stdlib.h>

#define LATE_TRIES 16 /* each is lost to an erasure (erase_late.c) */

/* ---- ancestors ---- */

static bool has_bit(const uint8_t *bits, uint64_t n)
{
  return bits[n / 8] & 1u << n % 8;
}

static void set_bit(uint8_t *bits, uint64_t n)
{
  bits[n / 8] |= (uint8_t)(1u << n % 8);
}

typedef struct oldest {
  pd_store *s;
  const pd_id *id;
  uint64_t seq;
} oldest;

static pd_code take_oldest(void *ctx, uint64_t seq, bool *out_stop, pd_error *err)
{
  oldest *o = ctx;
  (void)out_stop;
  (void)err;
  if (seq < o->seq) o->seq = seq; /* another id may begin alike: that only makes the walk longer */
  return PD_OK;
}

/* Parents have smaller numbers: one walk down, looking only at records that were met as parents. */
static pd_code walk_down(pd_store *s, const pd_id *id, uint64_t from, uint64_t to, uint8_t *bits, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  set_bit(bits, from - to);
  for (uint64_t seq = from; seq >= to && !*out; seq--) {
    pd_rec rec;
    if (!has_bit(bits, seq - to)) continue;
    pd_code code = pd_record_walk(s, seq, &scratch, &rec, err);
    if (code == PD_RETIRED) continue; /* nothing is known of what was before */
    TRY(code);
    *out = pd_id_equal(&rec.commit, id);
    for (size_t i = 0; i < rec.parent_count; i++)
      if (rec.is_grafted)
        *out |= pd_id_equal(&rec.parent_ids[i], id);
      else if (rec.parent_seqs[i] >= to)
        set_bit(bits, rec.parent_seqs[i] - to);
  }
  return PD_OK;
}

pd_code pd_is_ancestor(pd_store *s, const pd_id *id, uint64_t from, bool *out, pd_error *err)
{
  pd_id root = pd_commit_root_id();
  oldest o = {.s = s, .id = id, .seq = UINT64_MAX};
  uint32_t prefix = pd_id_prefix(id);
  *out = pd_id_equal(id, &root);
  if (*out) return PD_OK;
  TRY(pd_index_search(s, prefix, prefix, take_oldest, &o, err));
  if (o.seq > from) return PD_OK;
  uint8_t *bits = calloc((from - o.seq) / 8 + 1, 1);
  if (!bits) return pd_error_memory(err, "a walk through history");
  pd_code code = walk_down(s, id, from, o.seq, bits, out, err);
  free(bits);
  return code;
}

/* ---- before the commits are here ---- */

static pd_code meet_parent(pd_importer *im, uint64_t child, uint64_t coded, const pd_id *id, uint8_t *bits, bool *out, pd_error *err)
{
  if (!coded || *out) return PD_OK; /* the root commit was looked at before */
  if (coded & 1) {
    set_bit(bits, child - (coded + 1) / 2);
    return PD_OK;
  }
  return pd_is_ancestor(im->s, id, im->bases[coded / 2 - 1].seq, out, err);
}

static size_t first_edge(const pd_importer *im, uint64_t child)
{
  size_t low = 0, high = im->more_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (im->more[mid].child < child)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

/* Is it a parent of a graft? Then that is all that can be known. */
static bool is_gone_parent(const pd_importer *im, uint64_t child, const pd_id *id)
{
  size_t low = 0, high = im->gone_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (im->gone[mid].child < child)
      low = mid + 1;
    else
      high = mid;
  }
  for (; low < im->gone_count && im->gone[low].child == child; low++)
    if (pd_id_equal(&im->gone[low].id, id)) return true;
  return false;
}

static pd_code walk_bundle(pd_importer *im, uint64_t from, const pd_id *id, uint8_t *bits, bool *out, pd_error *err)
{
  set_bit(bits, from);
  for (uint64_t i = from + 1; i-- > 0 && !*out;) {
    if (!has_bit(bits, i)) continue;
    const pd_bundle_note *note = &im->notes[i];
    *out = pd_id_equal(&note->id, id) || (note->is_graft && is_gone_parent(im, i, id));
    if (note->is_graft) continue;
    TRY(meet_parent(im, i, note->parent, id, bits, out, err));
    for (size_t e = note->has_more_parents ? first_edge(im, i) : im->more_count; e < im->more_count && im->more[e].child == i; e++)
      TRY(meet_parent(im, i, im->more[e].parent, id, bits, out, err));
  }
  return PD_OK;
}

/* Is `id` an ancestor of what the ref of the bundle points at? */
static pd_code leads_to(pd_importer *im, const pd_bundle_ref *ref, const pd_id *id, bool *out, pd_error *err)
{
  pd_id root = pd_commit_root_id();
  *out = pd_id_equal(id, &root);
  if (*out || !ref->place) return PD_OK;
  if (!(ref->place & 1)) return pd_is_ancestor(im->s, id, im->bases[ref->place / 2 - 1].seq, out, err);
  uint64_t from = (ref->place - 1) / 2;
  uint8_t *bits = calloc(from / 8 + 1, 1);
  if (!bits) return pd_error_memory(err, "a bundle");
  pd_code code = walk_bundle(im, from, id, bits, out, err);
  free(bits);
  return code;
}

/* ---- the rules ---- */

static pd_code name_here(const pd_importer *im, const pd_bundle_ref *ref, char out[PD_REF_SIZE_MAX + 1], pd_error *err)
{
  const char *as = im->options->as;
  int size = snprintf(out, PD_REF_SIZE_MAX + 1, "%s%s%s", as ? as : "", as ? "/" : "", ref->name);
  if (size < 0 || size > PD_REF_SIZE_MAX) return pd_error_set(err, PD_LIMIT, "ref name '%.32s…/%.32s…' is too long", as, ref->name);
  return pd_ref_check(out, err);
}

static pd_code diverged(const pd_head *head, const char *name, const pd_bundle_ref *ref, pd_error *err)
{
  char here[PD_ID_HEX_SIZE], there[PD_ID_HEX_SIZE];
  return pd_error_conflict(err, 0, 0, "ref '%s' has diverged: it is at %.12s here and at %.12s in the bundle", name,
                           pd_id_hex(&head->commit.id, here), pd_id_hex(&ref->commit, there));
}

/* Is the ref here ahead of the bundle? */
static pd_code is_ahead(pd_importer *im, const pd_bundle_ref *ref, const pd_head *head, bool *out, pd_error *err)
{
  *out = false;
  if (!head->commit.seq) return PD_OK;
  return pd_is_ancestor(im->s, &ref->commit, head->commit.seq, out, err);
}

static pd_code decide(pd_importer *im, const pd_bundle_ref *ref, const char *name, pd_import_fate *out, pd_error *err)
{
  const pd_ref_slot *slot = pd_slot_find(im->s, name);
  bool is_forward, is_behind = false;
  *out = PD_IMPORT_CREATED;
  if (!slot || slot->seen.is_deleted) return PD_OK;
  *out = PD_IMPORT_SAME;
  if (pd_id_equal(&slot->seen.commit.id, &ref->commit)) return PD_OK;
  TRY(leads_to(im, ref, &slot->seen.commit.id, &is_forward, err));
  *out = is_forward ? PD_IMPORT_FORWARDED : PD_IMPORT_REPLACED;
  if (is_forward) return PD_OK;
  if (!im->options->as) TRY(is_ahead(im, ref, &slot->seen, &is_behind, err));
  if (is_behind) *out = PD_IMPORT_SAME;
  if (is_behind || (im->options->as && strcmp(name, im->s->current) != 0)) return PD_OK;
  return diverged(&slot->seen, name, ref, err);
}

static pd_code decide_all(pd_importer *im, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1];
  for (size_t i = 0; i < im->head.ref_count; i++) {
    TRY(name_here(im, &im->head.refs[i], name, err));
    TRY(decide(im, &im->head.refs[i], name, &im->fates[i], err));
  }
  return PD_OK;
}

pd_code pd_import_plan_refs(pd_importer *im, pd_error *err)
{
  im->fates = calloc(im->head.ref_count + 1, sizeof *im->fates);
  if (!im->fates) return pd_error_memory(err, "a bundle");
  pd_store_lock(im->s);
  pd_code code = pd_refresh(im->s, err);
  if (!code) code = pd_settle(im->s, err);
  if (!code) code = decide_all(im, err);
  pd_store_unlock(im->s);
  return code;
}

/* ---- moving ---- */

static pd_commit commit_of(const pd_importer *im, const pd_bundle_ref *ref)
{
  if (!(ref->place & 1)) return pd_import_parent(im, 0, ref->place);
  const pd_bundle_note *note = &im->notes[(ref->place - 1) / 2];
  return (pd_commit){note->id, note->tree, note->seq};
}

static pd_code stage_ref(pd_importer *im, size_t index, const pd_note *note, pd_error *err)
{
  const pd_bundle_ref *ref = &im->head.refs[index];
  char name[PD_REF_SIZE_MAX + 1];
  if (im->fates[index] == PD_IMPORT_SAME) return PD_OK;
  TRY(name_here(im, ref, name, err));
  pd_commit target = commit_of(im, ref);
  pd_intent intent = {
    .kind = im->fates[index] == PD_IMPORT_CREATED ? PD_RECORD_FORK : PD_RECORD_RESET, .ref = name, .note = note, .target = &target};
  return pd_stage(im->s, &intent, NULL, NULL, err);
}

/* What the bundle knows and the store does not. */
typedef struct metas {
  pd_change_in *changes; /* keys and values point into im->meta, or… */
  size_t *joined_at;     /* …into `joined`; SIZE_MAX: not */
  pd_buf joined;
  size_t count;
} metas;

static void metas_done(metas *m)
{
  free(m->changes);
  free(m->joined_at);
  pd_buf_done(&m->joined);
}

static pd_code metas_init(metas *m, uint64_t count, pd_error *err)
{
  m->changes = calloc(count + 1, sizeof *m->changes);
  m->joined_at = calloc(count + 1, sizeof *m->joined_at);
  return m->changes && m->joined_at ? PD_OK : pd_error_memory(err, "a bundle");
}

/* Of what is here already, only an erasure may have more to it (erase_ledger.c, Y3). */
static pd_code meet_meta(pd_store *s, metas *m, pd_bytes key, pd_bytes value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf both = {0};
  bool is_more;
  TRY(pd_erase_ledger_meet(s, key, value, &both, &is_more, err));
  if (!is_more) return PD_OK;
  m->joined_at[m->count] = m->joined.size;
  m->changes[m->count++] = (pd_change_in){.key = key, .value.size = both.size, .expect_version = PD_ANY_VERSION};
  return pd_buf_append(&m->joined, both.data, both.size, err);
}

static pd_code add_meta(pd_store *s, metas *m, pd_node *root, pd_bytes key, pd_bytes value, pd_error *err)
{
  pd_node *leaf = NULL;
  size_t index;
  pd_id id = pd_value_id(value);
  if (root) TRY(pd_tree_find(&s->tree, root, key, &leaf, &index, err));
  if (leaf) return memcmp(pd_node_value_id(leaf, index), id.bytes, PD_ID_SIZE) == 0 ? PD_OK : meet_meta(s, m, key, value, err);
  m->joined_at[m->count] = SIZE_MAX;
  m->changes[m->count++] = (pd_change_in){.key = key, .value = value, .value_id = id, .expect_version = PD_ANY_VERSION};
  return PD_OK;
}

static pd_code new_metas(pd_importer *im, metas *m, pd_error *err)
{
  pd_store *s = im->s;
  pd_cursor c = pd_cursor_of(pd_buf_bytes(&im->meta));
  pd_ref_slot *slot = pd_slot_find(s, PD_META_REF);
  pd_node *root = NULL;
  bool is_others = strcmp(im->head.store, s->agent) != 0;
  if (slot && !slot->tip.is_deleted) TRY(pd_head_root(s, &slot->tip, &root, err));
  for (uint64_t i = 0; i < im->head.meta_count; i++) {
    pd_bytes key = pd_take_sized(&c, PD_KEY_SIZE_MAX), value = pd_take_sized(&c, PD_BUNDLE_META_SIZE_MAX);
    if (is_others && pd_bytes_starts(key, pd_text(PD_ERASED_KIND "/key/"))) continue; /* Y4 */
    TRY(add_meta(s, m, root, key, value, err));
  }
  for (size_t i = 0; i < m->count; i++) {
    if (m->joined_at[i] == SIZE_MAX) continue;
    m->changes[i].value.data = m->joined.data + m->joined_at[i];
    m->changes[i].value_id = pd_value_id(m->changes[i].value);
  }
  return PD_OK;
}

static pd_code stage_metas(pd_importer *im, const pd_note *note, pd_error *err)
{
  CLEANUP(metas_done) metas m = {0};
  pd_ref_slot *slot = pd_slot_find(im->s, PD_META_REF);
  pd_commit root = {pd_commit_root_id(), pd_tree_empty_id(), 0};
  pd_intent fork = {.kind = PD_RECORD_FORK, .ref = PD_META_REF, .note = note, .target = &root};
  TRY(metas_init(&m, im->head.meta_count, err));
  TRY(new_metas(im, &m, err));
  if (m.count && (!slot || slot->tip.is_deleted)) TRY(pd_stage(im->s, &fork, NULL, NULL, err));
  pd_intent commit = {.kind = PD_RECORD_COMMIT, .ref = PD_META_REF, .note = note, .changes = m.changes, .change_count = m.count};
  if (m.count) TRY(pd_stage(im->s, &commit, NULL, NULL, err));
  im->report.metas_added = m.count;
  return PD_OK;
}

static pd_code stage_refs(void *ctx, pd_error *err)
{
  pd_importer *im = ctx;
  char reason[PD_NAME_SIZE_MAX + 32];
  snprintf(reason, sizeof reason, "import from '%s'", im->head.store);
  pd_note note = {.reason = reason};
  TRY(pd_import_is_late(im, &im->is_late, err));
  if (im->is_late) return pd_error_set(err, PD_CONFLICT, "keys are being erased: import again once that is done");
  TRY(decide_all(im, err)); /* others may have moved them meanwhile */
  im->report.refs_moved = 0;
  for (size_t i = 0; i < im->head.ref_count; i++) {
    TRY(stage_ref(im, i, &note, err));
    im->report.refs_moved += im->fates[i] != PD_IMPORT_SAME;
  }
  if (im->head.meta_count) TRY(stage_metas(im, &note, err));
  TRY(pd_import_lines_end(im->s, im->lines, err));
  return pd_import_stage_clean(im->s, err);
}

pd_code pd_import_move_refs(pd_importer *im, pd_error *err)
{
  pd_error why = {.code = PD_OK};
  pd_code code = PD_CONFLICT;
  im->is_late = true;
  for (int tries = 0; im->is_late && tries < LATE_TRIES; tries++) {
    im->is_late = false;
    code = pd_write_many(im->s, stage_refs, im, &why);
    if (im->is_late) TRY(pd_import_forget_late(im, err));
  }
  if (code && err) *err = why;
  return code;
}

/* ---- a ref by itself ---- */

typedef struct forward {
  pd_store *s;
  const char *ref, *at;
  const pd_note *note;
  bool has_moved;
} forward;

static pd_code stage_forward(void *ctx, pd_error *err)
{
  forward *f = ctx;
  pd_commit target;
  bool is_forward, is_ahead_of;
  const pd_ref_slot *slot = pd_slot_find(f->s, f->ref);
  bool is_there = slot && !slot->seen.is_deleted;
  TRY(pd_resolve_locked(f->s, f->at, &target, err));
  f->has_moved = !is_there || !pd_id_equal(&slot->seen.commit.id, &target.id);
  if (!f->has_moved) return PD_OK;
  if (is_there) {
    const pd_bundle_ref to = {.commit = target.id};
    TRY(pd_is_ancestor(f->s, &slot->seen.commit.id, target.seq, &is_forward, err));
    TRY(pd_is_ancestor(f->s, &target.id, slot->seen.commit.seq, &is_ahead_of, err));
    f->has_moved = is_forward;
    if (!is_forward) return is_ahead_of ? PD_OK : diverged(&slot->seen, f->ref, &to, err);
  }
  pd_intent intent = {.kind = is_there ? PD_RECORD_RESET : PD_RECORD_FORK, .ref = f->ref, .note = f->note, .target = &target};
  return pd_stage(f->s, &intent, NULL, NULL, err);
}

pd_code pd_forward(pd_store *store, const char *ref, const char *at, const pd_note *note, bool *out_moved, pd_error *err)
{
  forward f = {.s = store, .ref = ref, .at = at, .note = note};
  TRY(pd_ref_check(ref, err));
  TRY(pd_write_many(store, stage_forward, &f, err));
  if (out_moved) *out_moved = f.has_moved;
  return PD_OK;
}
