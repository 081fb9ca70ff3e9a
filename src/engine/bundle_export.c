/*
 * bundle_export.c: from a store to a bundle. The log is read once to learn which commits there are and how they hang together; those
 * that are wanted are then written line by line, so that the importer seldom has to go back.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle_out.h"
#include "engine/erase.h"
#include "engine/retired.h"

#include <stdlib.h>

#define KNOWN_AT_ONCE 256
#define TICK_EVERY 64

static void exporter_done(pd_exporter *ex)
{
  pd_bundle_head_done(&ex->head);
  pd_bundle_out_done(&ex->out);
  pd_buf_done(&ex->metas);
  free(ex->links);
  free(ex->more);
  free(ex->order);
  free(ex->since);
  pd_id_map_done(&ex->sent);
  pd_gc_pause_end(ex->pause);
}

static pd_code tick(const pd_exporter *ex, uint64_t done, pd_error *err)
{
  const pd_export_options *o = ex->options;
  if (!o->progress || (done % TICK_EVERY && done < ex->head.commit_count)) return PD_OK;
  return o->progress(o->ctx, done, ex->head.commit_count) ? PD_OK : pd_error_set(err, PD_INVALID, "the export was given up");
}

/* ---- what there is ---- */

static uint32_t link_at(const pd_exporter *ex, uint64_t seq)
{
  size_t low = 0, high = ex->link_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (ex->links[mid].seq < seq)
      low = mid + 1;
    else
      high = mid;
  }
  return low < ex->link_count && ex->links[low].seq == seq ? (uint32_t)low : PD_KNOT_NONE;
}

/* Are all its parents here? */
static bool has_parents(const pd_exporter *ex, const pd_rec *rec)
{
  bool has = !rec->is_grafted;
  for (size_t i = 0; i < rec->parent_count; i++) has = has && (!rec->parent_seqs[i] || link_at(ex, rec->parent_seqs[i]) != PD_KNOT_NONE);
  return has;
}

static pd_code take_parents(pd_exporter *ex, const pd_rec *rec, pd_knot *l, pd_error *err)
{
  for (size_t i = 0; i < rec->parent_count; i++) {
    uint32_t parent = rec->parent_seqs[i] ? link_at(ex, rec->parent_seqs[i]) : PD_KNOT_NONE;
    if (!i) l->parent = parent;
    if (!i) continue;
    TRY(pd_array_grow(&ex->more, ex->more_count, &ex->more_capacity, sizeof *ex->more, "a bundle", err));
    ex->more[ex->more_count++] = parent;
    l->more_count++;
  }
  return PD_OK;
}

/* Before the cut, only kept points are commits still; and a part of a graft's tree is none. */
static pd_code take_link(pd_exporter *ex, const pd_rec *rec, pd_error *err)
{
  if (rec->kind != PD_RECORD_COMMIT || pd_rec_is_part(rec) || pd_is_retired(ex->s, rec->seq)) return PD_OK;
  if (ex->link_count >= PD_KNOT_NONE - 1) return pd_error_set(err, PD_LIMIT, "too many commits for one bundle");
  TRY(pd_array_grow(&ex->links, ex->link_count, &ex->link_capacity, sizeof *ex->links, "a bundle", err));
  pd_knot l = {.seq = rec->seq,
               .parent = PD_KNOT_NONE,
               .child = PD_KNOT_NONE,
               .sibling = PD_KNOT_NONE,
               .more = (uint32_t)ex->more_count,
               .is_whole = !rec->has_dropped};
  l.is_meta = pd_bytes_equal(rec->ref, pd_text(PD_META_REF));
  l.is_graft = !has_parents(ex, rec);
  if (!l.is_graft) TRY(take_parents(ex, rec, &l, err));
  ex->links[ex->link_count++] = l;
  return PD_OK;
}

static pd_code take_links(pd_exporter *ex, const pd_taken *t, pd_error *err)
{
  for (size_t i = 0; i < t->count; i++) {
    pd_rec rec;
    if (!pd_taken_at(t, i).size) continue; /* retired */
    TRY(pd_rec_decode(t->first + i, pd_taken_at(t, i), &rec, err));
    TRY(take_link(ex, &rec, err));
  }
  return PD_OK;
}

/* No gc retires anything while gc is paused. Without a pause (gc_lock.c) what is not found later fails the export. */
static pd_code read_links(pd_exporter *ex, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  for (uint64_t seq = 1; seq <= ex->tail;) {
    TRY(pd_take_records(ex->s, seq, ex->tail, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    pd_store_lock(ex->s);
    pd_code code = pd_retention_ready(ex->s, err);
    if (!code) code = take_links(ex, &t, err);
    pd_store_unlock(ex->s);
    TRY(code);
    seq += t.count;
  }
  return PD_OK;
}

/* ---- what is wanted ---- */

static pd_code add_ref(pd_exporter *ex, const char *name, const pd_commit *commit, pd_error *err)
{
  pd_bundle_head *h = &ex->head;
  if (h->ref_count == PD_BUNDLE_REF_MAX) return pd_error_set(err, PD_LIMIT, "a bundle holds at most %d refs", PD_BUNDLE_REF_MAX);
  TRY(pd_array_grow(&h->refs, h->ref_count, &ex->ref_capacity, sizeof *h->refs, "a bundle", err));
  pd_bundle_ref *ref = &h->refs[h->ref_count++];
  memset(ref, 0, sizeof *ref);
  strncpy(ref->name, name, PD_REF_SIZE_MAX);
  ref->commit = commit->id;
  ref->place = commit->seq; /* for now */
  return PD_OK;
}

static int compare_refs(const void *a, const void *b)
{
  return strcmp(((const pd_bundle_ref *)a)->name, ((const pd_bundle_ref *)b)->name);
}

static pd_code choose_refs(pd_exporter *ex, pd_error *err)
{
  const pd_export_options *o = ex->options;
  pd_bundle_head *h = &ex->head;
  for (size_t i = 0; o->is_all && i < ex->s->slot_count; i++) {
    const pd_ref_slot *slot = ex->s->slots[i];
    if (!slot->seen.is_deleted && !pd_ref_is_hidden(slot->name)) TRY(add_ref(ex, slot->name, &slot->seen.commit, err));
  }
  for (size_t i = 0; !o->is_all && i < (o->ref_count ? o->ref_count : 1); i++) {
    pd_ref_slot *slot;
    if (o->ref_count) TRY(pd_ref_check(o->refs[i], err));
    TRY(pd_slot_get(ex->s, o->ref_count ? o->refs[i] : NULL, &slot, err));
    TRY(add_ref(ex, slot->name, &slot->seen.commit, err));
  }
  if (h->ref_count) qsort(h->refs, h->ref_count, sizeof *h->refs, compare_refs);
  size_t unique = 0; /* a ref may have been named twice */
  for (size_t i = 0; i < h->ref_count; i++)
    if (!unique || compare_refs(&h->refs[unique - 1], &h->refs[i]) != 0) h->refs[unique++] = h->refs[i];
  h->ref_count = unique;
  return PD_OK;
}

/* With the lock held, but for moments: what is looked for may lie far back, and others wait. The moment of the bundle is chosen already. */
static pd_code choose_since(pd_exporter *ex, pd_error *err)
{
  const pd_export_options *o = ex->options;
  ex->since = calloc(o->since_count + o->known_count + 1, sizeof *ex->since);
  if (!ex->since) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < o->since_count; i++) TRY(pd_resolve_locked(ex->s, o->since[i], &ex->since[ex->since_count++], err));
  for (size_t i = 0; i < o->known_count; i++) {
    bool is_found = false;
    if (i % KNOWN_AT_ONCE == KNOWN_AT_ONCE - 1) {
      pd_store_unlock(ex->s);
      pd_store_lock(ex->s);
    }
    TRY(pd_import_find(ex->s, &o->known[i], &ex->since[ex->since_count], &is_found, err));
    ex->since_count += is_found;
  }
  return PD_OK;
}

/* With the lock held: the moment that the bundle is of. */
static pd_code choose_moment(pd_exporter *ex, pd_error *err)
{
  pd_store *s = ex->s;
  TRY(pd_refresh_to_read(s, err));
  if (s->is_buffered) TRY(pd_settle(s, err)); /* a moment that is in the log as a whole */
  ex->tail = ex->head.tail = s->log_seq;
  ex->head.audit = s->seen_audit;
  ex->head.made_ms = s->now_ms(s->now_ctx);
  if (ex->head.made_ms < 0) ex->head.made_ms = 0;
  strcpy(ex->head.store, s->agent);
  strcpy(ex->head.current, s->current);
  TRY(choose_refs(ex, err));
  return choose_since(ex, err);
}

/* Give every ancestor what its children have: children come after their parents, so one walk back is enough. */
static void spread(pd_exporter *ex, pd_knot *l, uint32_t parent)
{
  if (parent == PD_KNOT_NONE) return;
  ex->links[parent].is_wanted |= l->is_wanted;
  ex->links[parent].is_known |= l->is_known;
}

static void mark_ancestors(pd_exporter *ex)
{
  for (size_t i = ex->link_count; i-- > 0;) {
    pd_knot *l = &ex->links[i];
    spread(ex, l, l->parent);
    for (uint32_t k = 0; k < l->more_count; k++) spread(ex, l, ex->more[l->more + k]);
  }
}

static bool is_usable(const pd_exporter *ex, uint32_t parent)
{
  return parent == PD_KNOT_NONE || ex->links[parent].is_wanted || ex->links[parent].is_known;
}

/* --all: what no ref leads to comes along as far as it is whole. */
static void want_the_rest(pd_exporter *ex)
{
  for (size_t i = 0; i < ex->link_count; i++) {
    pd_knot *l = &ex->links[i];
    bool is_wanted = l->is_whole && !l->is_meta && is_usable(ex, l->parent);
    for (uint32_t k = 0; k < l->more_count; k++) is_wanted &= is_usable(ex, ex->more[l->more + k]);
    l->is_wanted |= is_wanted;
  }
}

static pd_code retired(const pd_exporter *ex, const pd_knot *l, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_commit commit;
  pd_store_lock(ex->s);
  pd_code code = pd_commit_at(ex->s, l->seq, &commit, err);
  pd_store_unlock(ex->s);
  TRY(code);
  return pd_error_set(err, PD_RETIRED, "commit %.12s or its parent was removed by retention; export what came since then (--since)",
                      pd_id_hex(&commit.id, hex));
}

static pd_code mark_seq(pd_exporter *ex, uint64_t seq, bool is_known, pd_error *err)
{
  if (!seq) return PD_OK;
  uint32_t l = link_at(ex, seq);
  if (l == PD_KNOT_NONE)
    return pd_error_set(err, PD_RETIRED, "the commit of record %llu was removed by retention", (unsigned long long)seq);
  ex->links[l].is_known |= is_known;
  ex->links[l].is_wanted |= !is_known;
  return PD_OK;
}

static pd_code choose_commits(pd_exporter *ex, pd_error *err)
{
  for (size_t i = 0; i < ex->head.ref_count; i++) TRY(mark_seq(ex, ex->head.refs[i].place, false, err));
  for (size_t i = 0; i < ex->since_count; i++) {
    bool is_gone = ex->since[i].seq && link_at(ex, ex->since[i].seq) == PD_KNOT_NONE;
    if (is_gone && i >= ex->options->since_count) continue; /* retention has taken what is only said to be known */
    TRY(mark_seq(ex, ex->since[i].seq, true, err));
  }
  mark_ancestors(ex);
  if (ex->options->is_all) want_the_rest(ex);
  for (size_t i = 0; i < ex->link_count; i++) {
    pd_knot *l = &ex->links[i];
    if (l->is_known) l->is_wanted = false;
    if (l->is_wanted && !l->is_whole) return retired(ex, l, err);
    if (l->is_wanted) ex->head.commit_count++;
  }
  return PD_OK;
}

/* ---- in which order ---- */

static bool is_ready(const pd_exporter *ex, const pd_knot *l)
{
  if (l->is_out || !l->is_wanted) return false;
  for (uint32_t k = 0; k < l->more_count; k++) {
    uint32_t parent = ex->more[l->more + k];
    if (parent != PD_KNOT_NONE && ex->links[parent].is_wanted && !ex->links[parent].is_out) return false;
  }
  return true;
}

/* Follow one line as far as it goes. */
static void order_line(pd_exporter *ex, uint32_t at)
{
  while (at != PD_KNOT_NONE) {
    pd_knot *l = &ex->links[at];
    l->is_out = true;
    l->place = (uint32_t)ex->order_count;
    ex->order[ex->order_count++] = at;
    uint32_t next = l->child;
    while (next != PD_KNOT_NONE && !is_ready(ex, &ex->links[next])) next = ex->links[next].sibling;
    at = next;
  }
}

static pd_code choose_order(pd_exporter *ex, pd_error *err)
{
  ex->order = malloc((ex->head.commit_count + 1) * sizeof *ex->order);
  if (!ex->order) return pd_error_memory(err, "a bundle");
  for (size_t i = ex->link_count; i-- > 0;) {
    pd_knot *l = &ex->links[i];
    if (!l->is_wanted || l->parent == PD_KNOT_NONE) continue;
    l->sibling = ex->links[l->parent].child;
    ex->links[l->parent].child = (uint32_t)i;
  }
  for (size_t i = 0; i < ex->link_count; i++)
    if (ex->links[i].is_wanted && !ex->links[i].is_out) order_line(ex, (uint32_t)i); /* its parents are out: they come before it */
  return PD_OK;
}

/* ---- names for commits that stay behind ---- */

static pd_code add_base(pd_exporter *ex, pd_knot *l, pd_error *err)
{
  pd_bundle_head *h = &ex->head;
  if (l->is_out) return PD_OK; /* it has its number */
  if (h->base_count == PD_BUNDLE_BASE_MAX) return pd_error_set(err, PD_LIMIT, "the bundle builds on too many commits");
  TRY(pd_array_grow(&h->bases, h->base_count, &ex->base_capacity, sizeof *h->bases, "a bundle", err));
  pd_commit commit;
  pd_store_lock(ex->s);
  pd_code code = pd_commit_at(ex->s, l->seq, &commit, err);
  pd_store_unlock(ex->s);
  TRY(code);
  l->is_out = true;
  l->place = (uint32_t)h->base_count;
  h->bases[h->base_count++] = commit.id;
  return PD_OK;
}

static pd_code add_base_at(pd_exporter *ex, uint32_t at, pd_error *err)
{
  return at == PD_KNOT_NONE || ex->links[at].is_wanted ? PD_OK : add_base(ex, &ex->links[at], err);
}

static pd_code choose_bases(pd_exporter *ex, pd_error *err)
{
  for (size_t i = 0; i < ex->order_count; i++) {
    const pd_knot *l = &ex->links[ex->order[i]];
    TRY(add_base_at(ex, l->parent, err));
    for (uint32_t k = 0; k < l->more_count; k++) TRY(add_base_at(ex, ex->more[l->more + k], err));
  }
  for (size_t i = 0; i < ex->head.ref_count; i++) {
    pd_bundle_ref *ref = &ex->head.refs[i];
    uint32_t at = ref->place ? link_at(ex, ref->place) : PD_KNOT_NONE;
    TRY(add_base_at(ex, at, err));
    if (at == PD_KNOT_NONE)
      ref->place = 0;
    else
      ref->place = ex->links[at].is_wanted ? 2 * (uint64_t)ex->links[at].place + 1 : 2 * ((uint64_t)ex->links[at].place + 1);
  }
  return PD_OK;
}

static pd_code write_commits(pd_exporter *ex, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf copy = {0};
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  for (size_t i = 0; i < ex->order_count; i++) {
    const pd_knot *l = &ex->links[ex->order[i]];
    pd_rec rec;
    if (l->is_graft) {
      TRY(pd_export_graft(ex, l, err));
    } else {
      TRY(pd_export_fetch(ex, l->seq, &copy, &rec, err));
      if (rec.kind != PD_RECORD_COMMIT || rec.has_dropped) return retired(ex, l, err);
      TRY(pd_export_commit(ex, l, &rec, &scratch, err));
    }
    TRY(tick(ex, i + 1, err));
  }
  return PD_OK;
}

static pd_code collect_metas(pd_exporter *ex, pd_error *err)
{
  pd_iter *iter;
  pd_entry entry;
  pd_bytes value;
  static const uint8_t kind = PD_BUNDLE_META;
  CLEANUP(pd_buf_done) pd_buf settled = {0};
  pd_store_lock(ex->s);
  const pd_ref_slot *slot = pd_slot_find(ex->s, PD_META_REF);
  bool has_meta = slot && !slot->seen.is_deleted;
  pd_store_unlock(ex->s);
  if (!ex->options->is_all || !has_meta) return PD_OK;
  TRY(pd_iter_open(ex->s, PD_META_REF, NULL, &iter, err));
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, &value, err))) {
    if (!pd_bundle_is_portable(entry.key) || value.size > PD_BUNDLE_META_SIZE_MAX) continue;
    code = pd_buf_byte(&ex->metas, kind, err);
    if (!code) code = pd_add_sized(&ex->metas, entry.key, err);
    if (!code) code = pd_erase_ledger_export(ex->s, &entry, &value, &settled, err);
    if (!code) code = pd_add_sized(&ex->metas, value, err);
    if (!code && ++ex->head.meta_count > PD_BUNDLE_META_MAX)
      code =
        pd_error_set(err, PD_LIMIT, "more than %d tags, pins, links and erasures: a bundle cannot hold them; run gc", PD_BUNDLE_META_MAX);
    if (code) break;
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static bool has_grafts(const pd_exporter *ex)
{
  for (size_t i = 0; i < ex->order_count; i++)
    if (ex->links[ex->order[i]].is_graft) return true;
  return false;
}

static pd_code write_bundle(pd_exporter *ex, const pd_sink *sink, pd_error *err)
{
  static const uint8_t end = PD_BUNDLE_END;
  CLEANUP(pd_buf_done) pd_buf head = {0};
  TRY(pd_bundle_head_encode(&ex->head, &head, err));
  uint8_t format = ex->has_numbers ? PD_BUNDLE_FORMAT : has_grafts(ex) ? PD_BUNDLE_FORMAT_GRAFTS : PD_BUNDLE_FORMAT_WHOLE;
  TRY(pd_bundle_out_begin(&ex->out, sink, format, pd_buf_bytes(&head), err));
  TRY(write_commits(ex, err));
  TRY(pd_bundle_add(&ex->out, ex->metas.data, ex->metas.size, err));
  TRY(pd_bundle_add(&ex->out, &end, 1, err));
  TRY(pd_bundle_add_number(&ex->out, ex->order_count, err));
  TRY(pd_bundle_add_number(&ex->out, ex->report.changes, err));
  return pd_bundle_out_end(&ex->out, err);
}

static pd_code run_export(pd_exporter *ex, const pd_sink *sink, pd_error *err)
{
  TRY(pd_gc_pause_begin(ex->s, &ex->pause, err)); /* before the moment is chosen */
  pd_store_lock(ex->s);
  pd_code code = choose_moment(ex, err);
  ex->has_numbers = !pd_version_is_natural(ex->s);
  pd_store_unlock(ex->s);
  TRY(code);
  TRY(read_links(ex, err));
  TRY(choose_commits(ex, err));
  TRY(choose_order(ex, err));
  TRY(choose_bases(ex, err));
  TRY(collect_metas(ex, err));
  return write_bundle(ex, sink, err);
}

pd_code pd_export(pd_store *store, int fd, const pd_export_options *options, pd_export_report *out, pd_error *err)
{
  pd_sink sink = pd_bundle_file_sink(&fd);
  return pd_export_to(store, &sink, options, out, err);
}

pd_code pd_export_to(pd_store *store, const pd_sink *sink, const pd_export_options *options, pd_export_report *out, pd_error *err)
{
  static const pd_export_options defaults;
  CLEANUP(exporter_done) pd_exporter ex = {.s = store, .options = options ? options : &defaults};
  TRY(run_export(&ex, sink, err));
  ex.report.commits = ex.order_count;
  ex.report.refs = ex.head.ref_count;
  ex.report.metas = ex.head.meta_count;
  ex.report.needs = ex.head.base_count;
  ex.report.file_bytes = ex.out.written;
  if (out) *out = ex.report;
  return PD_OK;
}
