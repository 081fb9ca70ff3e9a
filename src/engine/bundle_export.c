/*
 * bundle_export.c: from a store to a bundle. The log is read once to learn which commits there are and how they hang together; those
 * that are wanted are then written line by line, so that the importer seldom has to go back.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/bundle.h"

#include <stdlib.h>

#define TICK_EVERY 64
#define NONE UINT32_MAX

/* A commit of the log. Parents are before their children. */
typedef struct knot {
  uint64_t seq;
  uint32_t parent;           /* link of the first parent; NONE: the root commit */
  uint32_t more, more_count; /* further parents, in exporter.more */
  uint32_t child, sibling;   /* those it is the first parent of */
  uint32_t place;            /* where it comes in the bundle */
  bool is_wanted, is_known, is_out, is_meta, is_whole;
} knot;

/* A piece of a value that is in the bundle already: by id, open addressing. */
typedef struct sent {
  pd_id id;
  uint64_t number; /* plus 1 */
} sent;

typedef struct exporter {
  pd_store *s;
  const pd_export_options *options;
  pd_export_report report;
  pd_bundle_head head;
  pd_bundle_out out;
  uint64_t tail;
  knot *links;
  size_t link_count, link_capacity;
  uint32_t *more;
  size_t more_count, more_capacity;
  uint32_t *order;
  size_t order_count;
  size_t base_capacity, ref_capacity;
  pd_commit *since;
  sent *sent;
  size_t sent_count, sent_size, piece_count;
  pd_buf metas;
} exporter;

static void exporter_done(exporter *ex)
{
  pd_bundle_head_done(&ex->head);
  pd_bundle_out_done(&ex->out);
  pd_buf_done(&ex->metas);
  free(ex->links);
  free(ex->more);
  free(ex->order);
  free(ex->since);
  free(ex->sent);
}

static pd_code tick(const exporter *ex, uint64_t done, pd_error *err)
{
  const pd_export_options *o = ex->options;
  if (!o->progress || (done % TICK_EVERY && done < ex->head.commit_count)) return PD_OK;
  return o->progress(o->ctx, done, ex->head.commit_count) ? PD_OK : pd_error_set(err, PD_INVALID, "the export was given up");
}

/* ---- what there is ---- */

static uint32_t link_at(const exporter *ex, uint64_t seq)
{
  size_t low = 0, high = ex->link_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (ex->links[mid].seq < seq)
      low = mid + 1;
    else
      high = mid;
  }
  return low < ex->link_count && ex->links[low].seq == seq ? (uint32_t)low : NONE;
}

/* A parent that is gone makes its child unfit to travel; whether that matters turns out later. */
static pd_code take_link(exporter *ex, const pd_rec *rec, pd_error *err)
{
  if (rec->kind != PD_RECORD_COMMIT) return PD_OK;
  if (ex->link_count >= NONE - 1) return pd_error_set(err, PD_LIMIT, "too many commits for one bundle");
  TRY(pd_array_grow(&ex->links, ex->link_count, &ex->link_capacity, sizeof *ex->links, "a bundle", err));
  knot l = {
    .seq = rec->seq, .parent = NONE, .child = NONE, .sibling = NONE, .more = (uint32_t)ex->more_count, .is_whole = !rec->has_dropped};
  l.is_meta = pd_bytes_equal(rec->ref, pd_text(PD_META_REF));
  for (size_t i = 0; i < rec->parent_count; i++) {
    uint32_t parent = rec->parent_seqs[i] ? link_at(ex, rec->parent_seqs[i]) : NONE;
    if (rec->parent_seqs[i] && parent == NONE) l.is_whole = false;
    if (!i) l.parent = parent;
    if (!i) continue;
    TRY(pd_array_grow(&ex->more, ex->more_count, &ex->more_capacity, sizeof *ex->more, "a bundle", err));
    ex->more[ex->more_count++] = parent;
    l.more_count++;
  }
  ex->links[ex->link_count++] = l;
  return PD_OK;
}

static pd_code read_links(exporter *ex, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  for (uint64_t seq = 1; seq <= ex->tail;) {
    TRY(pd_take_records(ex->s, seq, ex->tail, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    for (size_t i = 0; i < t.count; i++, seq++) {
      pd_rec rec;
      if (!pd_taken_at(&t, i).size) continue; /* retired */
      TRY(pd_rec_decode(seq, pd_taken_at(&t, i), &rec, err));
      TRY(take_link(ex, &rec, err));
    }
  }
  return PD_OK;
}

/* ---- what is wanted ---- */

static pd_code add_ref(exporter *ex, const char *name, const pd_commit *commit, pd_error *err)
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

static pd_code choose_refs(exporter *ex, pd_error *err)
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

/* With the lock held: the moment that the bundle is of. */
static pd_code choose_moment(exporter *ex, pd_error *err)
{
  pd_store *s = ex->s;
  TRY(pd_refresh(s, err));
  TRY(pd_settle(s, err));
  ex->tail = ex->head.tail = s->log_seq;
  ex->head.audit = s->seen_audit;
  ex->head.made_ms = s->now_ms(s->now_ctx);
  if (ex->head.made_ms < 0) ex->head.made_ms = 0;
  strcpy(ex->head.store, s->agent);
  strcpy(ex->head.current, s->current);
  TRY(choose_refs(ex, err));
  ex->since = calloc(ex->options->since_count + 1, sizeof *ex->since);
  if (!ex->since) return pd_error_memory(err, "a bundle");
  for (size_t i = 0; i < ex->options->since_count; i++) TRY(pd_resolve_locked(s, ex->options->since[i], &ex->since[i], err));
  return PD_OK;
}

/* Give every ancestor what its children have: children come after their parents, so one walk back is enough. */
static void spread(exporter *ex, knot *l, uint32_t parent)
{
  if (parent == NONE) return;
  ex->links[parent].is_wanted |= l->is_wanted;
  ex->links[parent].is_known |= l->is_known;
}

static void mark_ancestors(exporter *ex)
{
  for (size_t i = ex->link_count; i-- > 0;) {
    knot *l = &ex->links[i];
    spread(ex, l, l->parent);
    for (uint32_t k = 0; k < l->more_count; k++) spread(ex, l, ex->more[l->more + k]);
  }
}

static bool is_usable(const exporter *ex, uint32_t parent)
{
  return parent == NONE || ex->links[parent].is_wanted || ex->links[parent].is_known;
}

/* --all: what no ref leads to comes along as far as it is whole. */
static void want_the_rest(exporter *ex)
{
  for (size_t i = 0; i < ex->link_count; i++) {
    knot *l = &ex->links[i];
    bool is_wanted = l->is_whole && !l->is_meta && is_usable(ex, l->parent);
    for (uint32_t k = 0; k < l->more_count; k++) is_wanted &= is_usable(ex, ex->more[l->more + k]);
    l->is_wanted |= is_wanted;
  }
}

static pd_code retired(const exporter *ex, const knot *l, pd_error *err)
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

static pd_code mark_seq(exporter *ex, uint64_t seq, bool is_known, pd_error *err)
{
  if (!seq) return PD_OK;
  uint32_t l = link_at(ex, seq);
  if (l == NONE) return pd_error_set(err, PD_RETIRED, "the commit of record %llu was removed by retention", (unsigned long long)seq);
  ex->links[l].is_known |= is_known;
  ex->links[l].is_wanted |= !is_known;
  return PD_OK;
}

static pd_code choose_commits(exporter *ex, pd_error *err)
{
  for (size_t i = 0; i < ex->head.ref_count; i++) TRY(mark_seq(ex, ex->head.refs[i].place, false, err));
  for (size_t i = 0; i < ex->options->since_count; i++) TRY(mark_seq(ex, ex->since[i].seq, true, err));
  mark_ancestors(ex);
  if (ex->options->is_all) want_the_rest(ex);
  for (size_t i = 0; i < ex->link_count; i++) {
    knot *l = &ex->links[i];
    if (l->is_known) l->is_wanted = false;
    if (l->is_wanted && !l->is_whole) return retired(ex, l, err);
    if (l->is_wanted) ex->head.commit_count++;
  }
  return PD_OK;
}

/* ---- in which order ---- */

static bool is_ready(const exporter *ex, const knot *l)
{
  if (l->is_out || !l->is_wanted) return false;
  for (uint32_t k = 0; k < l->more_count; k++) {
    uint32_t parent = ex->more[l->more + k];
    if (parent != NONE && ex->links[parent].is_wanted && !ex->links[parent].is_out) return false;
  }
  return true;
}

/* Follow one line as far as it goes. */
static void order_line(exporter *ex, uint32_t at)
{
  while (at != NONE) {
    knot *l = &ex->links[at];
    l->is_out = true;
    l->place = (uint32_t)ex->order_count;
    ex->order[ex->order_count++] = at;
    uint32_t next = l->child;
    while (next != NONE && !is_ready(ex, &ex->links[next])) next = ex->links[next].sibling;
    at = next;
  }
}

static pd_code choose_order(exporter *ex, pd_error *err)
{
  ex->order = malloc((ex->head.commit_count + 1) * sizeof *ex->order);
  if (!ex->order) return pd_error_memory(err, "a bundle");
  for (size_t i = ex->link_count; i-- > 0;) {
    knot *l = &ex->links[i];
    if (!l->is_wanted || l->parent == NONE) continue;
    l->sibling = ex->links[l->parent].child;
    ex->links[l->parent].child = (uint32_t)i;
  }
  for (size_t i = 0; i < ex->link_count; i++)
    if (ex->links[i].is_wanted && !ex->links[i].is_out) order_line(ex, (uint32_t)i); /* its parents are out: they come before it */
  return PD_OK;
}

/* ---- names for commits that stay behind ---- */

static pd_code add_base(exporter *ex, knot *l, pd_error *err)
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

static pd_code add_base_at(exporter *ex, uint32_t at, pd_error *err)
{
  return at == NONE || ex->links[at].is_wanted ? PD_OK : add_base(ex, &ex->links[at], err);
}

static pd_code choose_bases(exporter *ex, pd_error *err)
{
  for (size_t i = 0; i < ex->order_count; i++) {
    const knot *l = &ex->links[ex->order[i]];
    TRY(add_base_at(ex, l->parent, err));
    for (uint32_t k = 0; k < l->more_count; k++) TRY(add_base_at(ex, ex->more[l->more + k], err));
  }
  for (size_t i = 0; i < ex->head.ref_count; i++) {
    pd_bundle_ref *ref = &ex->head.refs[i];
    uint32_t at = ref->place ? link_at(ex, ref->place) : NONE;
    TRY(add_base_at(ex, at, err));
    if (at == NONE)
      ref->place = 0;
    else
      ref->place = ex->links[at].is_wanted ? 2 * (uint64_t)ex->links[at].place + 1 : 2 * ((uint64_t)ex->links[at].place + 1);
  }
  return PD_OK;
}

static uint64_t coded(const exporter *ex, const knot *child, uint32_t parent)
{
  if (parent == NONE) return 0;
  const knot *p = &ex->links[parent];
  return p->is_wanted ? 2 * (uint64_t)(child->place - p->place) - 1 : 2 * ((uint64_t)p->place + 1);
}

/* ---- values ---- */

static size_t sent_slot(const exporter *ex, const pd_id *id)
{
  size_t mask = ex->sent_size - 1, at = pd_id_prefix(id) & mask;
  while (ex->sent[at].number && !pd_id_equal(&ex->sent[at].id, id)) at = (at + 1) & mask;
  return at;
}

static pd_code grow_sent(exporter *ex, pd_error *err)
{
  if (ex->sent_count * 2 < ex->sent_size) return PD_OK;
  size_t old_size = ex->sent_size;
  sent *old = ex->sent, *grown = calloc(old_size ? old_size * 2 : 1024, sizeof *grown);
  if (!grown) return pd_error_memory(err, "a bundle");
  ex->sent = grown;
  ex->sent_size = old_size ? old_size * 2 : 1024;
  for (size_t i = 0; i < old_size; i++)
    if (old[i].number) ex->sent[sent_slot(ex, &old[i].id)] = old[i];
  free(old);
  return PD_OK;
}

/* A piece, unless it was sent before. */
static pd_code write_piece(exporter *ex, const pd_id *id, pd_buf *scratch, pd_error *err)
{
  TRY(grow_sent(ex, err));
  sent *slot = &ex->sent[sent_slot(ex, id)];
  if (slot->number) return pd_bundle_add_number(&ex->out, slot->number, err);
  TRY(pd_load_blob(ex->s, id, "a value", scratch, err));
  *slot = (sent){*id, ++ex->piece_count};
  ex->sent_count++;
  TRY(pd_bundle_add_number(&ex->out, 0, err));
  return pd_bundle_add_sized(&ex->out, pd_buf_bytes(scratch), err);
}

static pd_code take_chunk(void *ctx, const pd_chunk *chunk, pd_error *err)
{
  return pd_buf_append(ctx, &chunk->id, sizeof chunk->id, err);
}

static pd_code write_chunks(exporter *ex, const pd_rec_change *ch, pd_buf *scratch, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf ids = {0};
  uint64_t size = ch->size;
  pd_pieces_walk walk = {.chunk = take_chunk, .ctx = &ids};
  TRY(pd_pieces_walk_over(ex->s, &ch->list_id, &size, &walk, err));
  TRY(pd_bundle_add_number(&ex->out, ids.size / PD_ID_SIZE, err));
  for (size_t at = 0; at < ids.size; at += PD_ID_SIZE) TRY(write_piece(ex, (const pd_id *)(const void *)(ids.data + at), scratch, err));
  return PD_OK;
}

static pd_code write_value(exporter *ex, const pd_rec_change *ch, pd_buf *scratch, pd_error *err)
{
  TRY(pd_bundle_add_number(&ex->out, ch->size, err));
  if (ch->is_erased) return pd_bundle_add(&ex->out, ch->value_id.bytes, PD_ID_SIZE, err);
  ex->report.value_bytes += ch->size;
  if (!ch->is_in_bag) return pd_bundle_add(&ex->out, ch->value.data, ch->value.size, err);
  if (ch->is_chunked) return write_chunks(ex, ch, scratch, err);
  TRY(pd_bundle_add_number(&ex->out, 1, err));
  return write_piece(ex, &ch->value_id, scratch, err);
}

static pd_code write_change(exporter *ex, const pd_rec_change *ch, pd_buf *scratch, pd_error *err)
{
  uint8_t flags = ch->is_delete ? PD_BUNDLE_DELETE : ch->is_erased ? PD_BUNDLE_ERASED : ch->is_in_bag ? PD_BUNDLE_PIECES : 0;
  TRY(pd_bundle_add(&ex->out, &flags, 1, err));
  TRY(pd_bundle_add_sized(&ex->out, ch->key, err));
  ex->report.changes++;
  return ch->is_delete ? PD_OK : write_value(ex, ch, scratch, err);
}

/* ---- items ---- */

static pd_code write_commit(exporter *ex, const knot *l, const pd_rec *rec, pd_buf *scratch, pd_error *err)
{
  static const uint8_t kind = PD_BUNDLE_COMMIT;
  TRY(pd_bundle_add(&ex->out, &kind, 1, err));
  TRY(pd_bundle_add(&ex->out, rec->commit.bytes, PD_ID_SIZE, err));
  TRY(pd_bundle_add(&ex->out, rec->tree.bytes, PD_ID_SIZE, err));
  TRY(pd_bundle_add_number(&ex->out, 1 + l->more_count, err));
  TRY(pd_bundle_add_number(&ex->out, coded(ex, l, l->parent), err));
  for (uint32_t k = 0; k < l->more_count; k++) TRY(pd_bundle_add_number(&ex->out, coded(ex, l, ex->more[l->more + k]), err));
  TRY(pd_bundle_add_number(&ex->out, (uint64_t)pd_rec_made_ms(rec), err));
  TRY(pd_bundle_add_sized(&ex->out, rec->is_imported ? rec->origin : pd_text(ex->head.store), err));
  TRY(pd_bundle_add_sized(&ex->out, rec->author, err));
  TRY(pd_bundle_add_sized(&ex->out, rec->run, err));
  TRY(pd_bundle_add_sized(&ex->out, rec->reason, err));
  TRY(pd_bundle_add_number(&ex->out, rec->change_count, err));
  pd_cursor c = pd_rec_changes(rec);
  uint64_t bytes_before = ex->report.value_bytes;
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    TRY(write_change(ex, &ch, scratch, err));
  }
  if (ex->report.value_bytes - bytes_before > PD_BUNDLE_COMMIT_MAX)
    return pd_error_set(err, PD_LIMIT, "the commit of record %llu holds over %zu bytes of values: too much for a bundle",
                        (unsigned long long)rec->seq, PD_BUNDLE_COMMIT_MAX);
  return PD_OK;
}

/* A copy of the record, so that the lock is not held while the file is written. */
static pd_code fetch_record(exporter *ex, uint64_t seq, pd_buf *copy, pd_rec *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_buf_clear(copy);
  pd_store_lock(ex->s);
  pd_code code = pd_record_walk(ex->s, seq, &scratch, out, err);
  if (!code) code = pd_buf_append(copy, out->bytes.data, out->bytes.size, err);
  pd_store_unlock(ex->s);
  TRY(code);
  return pd_rec_decode_checked(seq, pd_buf_bytes(copy), out, err);
}

static pd_code write_commits(exporter *ex, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf copy = {0};
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  for (size_t i = 0; i < ex->order_count; i++) {
    const knot *l = &ex->links[ex->order[i]];
    pd_rec rec;
    TRY(fetch_record(ex, l->seq, &copy, &rec, err));
    if (rec.kind != PD_RECORD_COMMIT || rec.has_dropped) return retired(ex, l, err);
    TRY(write_commit(ex, l, &rec, &scratch, err));
    TRY(tick(ex, i + 1, err));
  }
  return PD_OK;
}

static pd_code collect_metas(exporter *ex, pd_error *err)
{
  pd_iter *iter;
  pd_entry entry;
  pd_bytes value;
  static const uint8_t kind = PD_BUNDLE_META;
  pd_store_lock(ex->s);
  const pd_ref_slot *slot = pd_slot_find(ex->s, PD_META_REF);
  bool has_meta = slot && !slot->seen.is_deleted;
  pd_store_unlock(ex->s);
  if (!ex->options->is_all || !has_meta) return PD_OK;
  TRY(pd_iter_open(ex->s, PD_META_REF, NULL, &iter, err));
  pd_code code;
  while (!(code = pd_iter_next(iter, &entry, &value, err))) {
    if (!pd_bundle_is_portable(entry.key) || value.size > PD_INLINE_SIZE_MAX) continue;
    code = pd_buf_byte(&ex->metas, kind, err);
    if (!code) code = pd_add_sized(&ex->metas, entry.key, err);
    if (!code) code = pd_add_sized(&ex->metas, value, err);
    if (code) break;
    ex->head.meta_count++;
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code write_bundle(exporter *ex, int fd, pd_error *err)
{
  static const uint8_t end = PD_BUNDLE_END;
  CLEANUP(pd_buf_done) pd_buf head = {0};
  TRY(pd_bundle_head_encode(&ex->head, &head, err));
  TRY(pd_bundle_out_begin(&ex->out, fd, pd_buf_bytes(&head), err));
  TRY(write_commits(ex, err));
  TRY(pd_bundle_add(&ex->out, ex->metas.data, ex->metas.size, err));
  TRY(pd_bundle_add(&ex->out, &end, 1, err));
  TRY(pd_bundle_add_number(&ex->out, ex->order_count, err));
  TRY(pd_bundle_add_number(&ex->out, ex->report.changes, err));
  return pd_bundle_out_end(&ex->out, err);
}

static pd_code run_export(exporter *ex, int fd, pd_error *err)
{
  pd_store_lock(ex->s);
  pd_code code = choose_moment(ex, err);
  pd_store_unlock(ex->s);
  TRY(code);
  TRY(read_links(ex, err));
  TRY(choose_commits(ex, err));
  TRY(choose_order(ex, err));
  TRY(choose_bases(ex, err));
  TRY(collect_metas(ex, err));
  return write_bundle(ex, fd, err);
}

pd_code pd_export(pd_store *store, int fd, const pd_export_options *options, pd_export_report *out, pd_error *err)
{
  static const pd_export_options defaults;
  CLEANUP(exporter_done) exporter ex = {.s = store, .options = options ? options : &defaults};
  TRY(run_export(&ex, fd, err));
  ex.report.commits = ex.order_count;
  ex.report.refs = ex.head.ref_count;
  ex.report.metas = ex.head.meta_count;
  ex.report.needs = ex.head.base_count;
  ex.report.file_bytes = ex.out.written;
  if (out) *out = ex.report;
  return PD_OK;
}
