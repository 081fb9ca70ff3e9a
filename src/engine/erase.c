/*
 * erase.c: taking the bytes of a key's values out of history. Ids stay: commits and the audit chain still verify.
 *
 * First through the log, newest first: which records wrote the key on the line. Then the record that says so (G4), then the bytes: of the
 * records, and of the bag those blobs that nothing else needs.
 */
#include "engine/erase.h"
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/names.h"
#include "engine/retired.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK_RECORDS 4096
#define PLAN_TRIES 64 /* each is lost to a gc, another erasure, or a ref that was moved */

void pd_eraser_reset(pd_eraser *e)
{
  pd_map64_done(&e->line);
  pd_map64_done(&e->held);
  for (size_t i = 0; i < e->doomed.size; i++) e->doomed.slots[i].value = 0; /* who needs them is asked again */
  e->count = e->holder_count = 0;
  pd_erase_report was = *e->report; /* what was deleted stays so; blobs of an earlier try stay doomed: gc may leave them for us */
  *e->report = (pd_erase_report){.refs = was.refs, .has_commit = was.has_commit, .commit = was.commit};
}

void pd_eraser_done(pd_eraser *e)
{
  pd_map64_done(&e->line);
  pd_map64_done(&e->held);
  pd_id_map_done(&e->doomed);
  pd_id_map_done(&e->lists);
  free(e->holders);
  free(e->victims);
  free(e->left);
}

static pd_code tick(pd_eraser *e, uint64_t steps, pd_error *err)
{
  e->done = e->done + steps < e->total ? e->done + steps : e->total;
  if (!e->options->progress || e->options->progress(e->options->ctx, e->done, e->total)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the erasure was given up");
}

/* ---- where it begins ---- */

/* The line of the ref: its head, and the record that wrote the key, to which no parents may lead any more since gc cut between the two. */
static pd_code start_line(pd_eraser *e, pd_ref_slot *own, pd_error *err)
{
  pd_entry entry;
  pd_error why;
  if (!own->seen.commit.seq) return PD_OK;
  TRY(pd_map64_add(&e->line, own->seen.commit.seq, NULL, NULL, err));
  pd_code code = pd_get_at_head(e->s, &own->seen, e->key, NULL, &entry, &why);
  if (!code && entry.seq) return pd_map64_add(&e->line, entry.seq, NULL, NULL, err);
  if (code && code != PD_NOT_FOUND && err) *err = why;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code start_locked(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_settle(s, err));
  TRY(pd_retention_ready(s, err));
  pd_ref_slot *own;
  TRY(pd_slot_get(s, e->ref, &own, err));
  const pd_ref_slot *meta = pd_slot_find(s, PD_META_REF);
  pd_eraser_reset(e);
  e->epoch = s->retention.epoch;
  e->meta_seq = meta ? meta->seen.commit.seq : 0;
  e->last_seq = s->log_seq;
  e->total = 2 * e->last_seq;
  e->done = 0;
  TRY(start_line(e, own, err));
  return pd_eraser_hold(e, 0, err);
}

static pd_code start(pd_eraser *e, pd_error *err)
{
  pd_store_lock(e->s);
  pd_code code = start_locked(e, err);
  pd_store_unlock(e->s);
  return code;
}

/* ---- first pass: who wrote the key ---- */

/* An erasure that was cut off wrote down the list of the pieces before their record lost it. */
static void recall_list(pd_eraser *e, pd_victim *v)
{
  CLEANUP(pd_buf_done) pd_buf note = {0};
  CLEANUP(pd_buf_done) pd_buf hex = {0};
  char name[PD_ID_HEX_SIZE];
  pd_json json;
  v->is_chunked = false;
  if (pd_meta_get(e->s, PD_ERASED_KIND, pd_id_hex(&v->value_id, name), &note, NULL, NULL)) return;
  if (pd_json_parse(pd_buf_bytes(&note), &json, NULL) || pd_json_decode(pd_json_member(json, "list"), &hex, NULL)) return;
  if (pd_buf_byte(&hex, 0, NULL)) return;
  v->is_chunked = pd_id_parse((const char *)hex.data, &v->list_id);
}

static pd_code doom(void *ctx, const pd_id *id, pd_error *err)
{
  pd_eraser *e = ctx;
  return pd_id_map_add(&e->doomed, id, NULL, NULL, err);
}

static pd_code doom_list(void *ctx, const pd_id *id, pd_error *err)
{
  pd_eraser *e = ctx;
  TRY(pd_id_map_add(&e->lists, id, NULL, NULL, err));
  return doom(e, id, err);
}

static pd_code doom_piece(void *ctx, const pd_chunk *chunk, pd_error *err)
{
  return doom(ctx, &chunk->id, err);
}

static pd_code doom_blobs(pd_eraser *e, const pd_victim *v, pd_error *err)
{
  pd_error why;
  if (!v->is_in_bag) return PD_OK;
  if (!v->is_chunked) return doom(e, &v->value_id, err);
  pd_pieces_walk walk = {.list = doom_list, .chunk = doom_piece, .ctx = e};
  pd_code code = pd_pieces_walk_over(e->s, &v->list_id, NULL, &walk, &why);
  if (v->was_erased && (code == PD_CORRUPT || code == PD_RETIRED)) return PD_OK; /* some went already */
  if (code && err) *err = why;
  return code;
}

pd_code pd_eraser_add(pd_eraser *e, const pd_rec *rec, const pd_rec_change *ch, pd_error *err)
{
  TRY(pd_array_grow(&e->victims, e->count, &e->capacity, sizeof *e->victims, "an erasure", err));
  e->victims[e->count++] = (pd_victim){.seq = rec->seq,
                                       .value_id = pd_rec_value_id(ch),
                                       .list_id = ch->list_id,
                                       .size = ch->size,
                                       .made_ms = pd_rec_made_ms(rec),
                                       .is_in_bag = ch->is_in_bag,
                                       .is_chunked = ch->is_chunked,
                                       .was_erased = ch->is_erased};
  return PD_OK;
}

static pd_code take_victim(pd_eraser *e, const pd_rec *rec, const pd_rec_change *ch, pd_error *err)
{
  if (e->only_seq && rec->seq != e->only_seq) return PD_OK;
  if (pd_eraser_holds(e, rec->seq)) return PD_OK;
  TRY(pd_eraser_add(e, rec, ch, err));
  pd_victim *v = &e->victims[e->count - 1];
  if (ch->is_erased && ch->is_chunked) recall_list(e, v);
  e->report->versions += !ch->is_erased;
  e->report->bytes += ch->is_erased ? 0 : ch->size;
  return doom_blobs(e, v, err);
}

/* Whoever is on the line has parents on it; and the record that wrote the key before, where gc left a gap. */
static pd_code look_for_key(pd_eraser *e, const pd_rec *rec, pd_error *err)
{
  if (rec->kind != PD_RECORD_COMMIT || pd_bytes_equal(rec->ref, pd_text(PD_META_REF))) return PD_OK;
  bool is_on_line = pd_map64_find(&e->line, rec->seq) != NULL;
  if (!is_on_line && !e->options->everywhere) return PD_OK;
  for (size_t i = 0; i < rec->parent_count; i++)
    if (rec->parent_seqs[i] && !rec->is_grafted) TRY(pd_map64_add(&e->line, rec->parent_seqs[i], NULL, NULL, err));
  if (rec->is_grafted && rec->base_seq) TRY(pd_map64_add(&e->line, rec->base_seq, NULL, NULL, err));
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    if (!pd_bytes_equal(ch.key, e->key)) continue;
    if (ch.prev_seq) TRY(pd_map64_add(&e->line, ch.prev_seq, NULL, NULL, err));
    if (!ch.is_delete) TRY(take_victim(e, rec, &ch, err));
  }
  return PD_OK;
}

static pd_code find_victims(pd_eraser *e, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  uint64_t count = CHUNK_RECORDS;
  for (uint64_t last = e->last_seq; last; last -= t.count) {
    TRY(pd_take_before(e->s, last, &count, &t, err));
    for (size_t i = t.count; i-- > 0;) {
      pd_rec rec;
      pd_bytes bytes = pd_taken_at(&t, i);
      if (!bytes.size) continue;
      TRY(pd_rec_decode(t.first + i, bytes, &rec, err));
      TRY(look_for_key(e, &rec, err));
    }
    TRY(tick(e, t.count, err));
  }
  for (size_t i = 0; i < e->count / 2; i++) {
    pd_victim swap = e->victims[i];
    e->victims[i] = e->victims[e->count - 1 - i];
    e->victims[e->count - 1 - i] = swap;
  }
  return PD_OK;
}

static pd_victim *find_victim(const pd_eraser *e, uint64_t seq)
{
  size_t low = 0, high = e->count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (e->victims[mid].seq < seq)
      low = mid + 1;
    else
      high = mid;
  }
  return low < e->count && e->victims[low].seq == seq ? &e->victims[low] : NULL;
}

/* ---- second pass: who else needs the blobs; and, if it is no dry run, the records lose their bytes ---- */

typedef struct spare {
  pd_eraser *e;
  bool has_spared;
} spare;

static pd_code spare_blob(void *ctx, const pd_id *id, pd_error *err)
{
  spare *sp = ctx;
  (void)err;
  uint32_t *is_needed = pd_id_map_find(&sp->e->doomed, id);
  if (!is_needed || *is_needed) return PD_OK;
  *is_needed = 1;
  sp->has_spared = true;
  return PD_OK;
}

static pd_code spare_others(pd_eraser *e, const pd_rec *rec, pd_error *err)
{
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; e->doomed.count && i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    if (!ch.is_in_bag || ch.is_erased || (pd_bytes_equal(ch.key, e->key) && find_victim(e, rec->seq))) continue;
    spare sp = {.e = e};
    TRY(ch.is_chunked ? pd_chunks_visit(e->s, &ch.list_id, spare_blob, &sp, err) : spare_blob(&sp, &ch.value_id, err));
    if (!sp.has_spared) continue;
    e->report->held_keys++;
    if (!e->report->held_by[0])
      snprintf(e->report->held_by, sizeof e->report->held_by, "key '%.*s'", (int)(ch.key.size < 200 ? ch.key.size : 200),
               (const char *)ch.key.data);
  }
  return PD_OK;
}

static pd_redaction choose(void *ctx, const pd_rec *rec, const pd_rec_change *ch)
{
  const pd_eraser *e = ctx;
  (void)rec;
  return pd_bytes_equal(ch->key, e->key) ? PD_REDACT_ERASE : PD_REDACT_KEEP;
}

/* The records from the first to the last victim of what was taken. */
static pd_code redact_some(pd_eraser *e, const pd_taken *t, size_t first, size_t last, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf bytes = {0};
  size_t count = last - first + 1, *ends = calloc(count, sizeof *ends);
  pd_code code = ends ? PD_OK : pd_error_memory(err, "an erasure");
  for (size_t i = 0; !code && i < count; i++) {
    pd_bytes old = pd_taken_at(t, first + i);
    pd_rec rec;
    bool has_changed;
    if (!find_victim(e, t->first + first + i)) {
      code = pd_buf_append(&bytes, old.data, old.size, err);
    } else {
      code = pd_rec_decode(t->first + first + i, old, &rec, err);
      if (!code) code = pd_rec_redact(&rec, choose, e, true, &bytes, &has_changed, err);
    }
    ends[i] = bytes.size;
  }
  if (!code) code = pd_log_replace(e->s, t, first, count, &bytes, ends, err);
  free(ends);
  return code;
}

/* What of the records that were taken is to go, goes. */
static pd_code pass_over(pd_eraser *e, const pd_taken *t, bool may_write, pd_error *err)
{
  size_t first = SIZE_MAX, last = 0;
  for (size_t i = 0; i < t->count; i++) {
    pd_rec rec;
    pd_bytes bytes = pd_taken_at(t, i);
    if (!bytes.size) continue;
    TRY(pd_rec_decode(t->first + i, bytes, &rec, err));
    if (rec.kind == PD_RECORD_COMMIT) TRY(spare_others(e, &rec, err));
    const pd_victim *v = find_victim(e, t->first + i);
    if (!v || v->was_erased) continue;
    if (first == SIZE_MAX) first = i;
    last = i;
  }
  return may_write && first != SIZE_MAX ? redact_some(e, t, first, last, err) : PD_OK;
}

static pd_code second_pass(pd_eraser *e, bool may_write, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  for (uint64_t seq = 1; seq <= e->last_seq; seq += t.count) {
    pd_code code = PD_CONFLICT;
    for (int tries = 0; code == PD_CONFLICT && tries < PLAN_TRIES; tries++) { /* X2 */
      uint64_t held_keys = e->report->held_keys;
      TRY(pd_take_records(e->s, seq, e->last_seq, &t, err));
      if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
      code = pass_over(e, &t, may_write, err);
      if (code == PD_CONFLICT) e->report->held_keys = held_keys;
    }
    TRY(code);
    TRY(tick(e, t.count, err));
  }
  return PD_OK;
}

/* ---- the record that says so ---- */

/* Another ref may have been pointed at what is to go. */
static pd_code check_moves(pd_store *s, void *ctx, pd_error *err)
{
  const pd_eraser *e = ctx;
  CLEANUP(pd_taken_done) pd_taken t = {0};
  TRY(pd_retention_ready(s, err));
  const pd_ref_slot *meta = pd_slot_find(s, PD_META_REF);
  if (s->retention.epoch != e->epoch) return pd_error_set(err, PD_CONFLICT, "a gc or another erasure came first: try again");
  if (e->options->spares_marks && meta && meta->tip.commit.seq != e->meta_seq)
    return pd_error_set(err, PD_CONFLICT, "tags, pins or links changed during the erasure: try again");
  for (uint64_t seq = e->last_seq + 1; seq <= s->log_seq; seq += t.count) {
    TRY(pd_take_records(s, seq, s->log_seq, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    for (size_t i = 0; i < t.count; i++) {
      pd_rec rec;
      TRY(pd_rec_decode(seq + i, pd_taken_at(&t, i), &rec, err));
      if (rec.kind != PD_RECORD_COMMIT && rec.kind != PD_RECORD_KEYFRAME && rec.kind != PD_RECORD_SWITCH)
        return pd_error_set(err, PD_CONFLICT, "refs were moved during the erasure: try again");
    }
  }
  return PD_OK;
}

/* The present state of retention, with one more erasure. Its points are borrowed. */
static pd_code next_state(pd_eraser *e, pd_points *out, pd_error *err)
{
  pd_store *s = e->s;
  CLEANUP(pd_buf_done) pd_buf copy = {0};
  const pd_note *note = e->options->note;
  pd_store_lock(s);
  s->retention.state.cut = s->retention.state.cut ? s->retention.state.cut : 1;
  pd_code code = pd_points_encode(&s->retention.state, &copy, err);
  int64_t now = s->now_ms(s->now_ctx);
  pd_store_unlock(s);
  if (!code) code = pd_points_decode(pd_buf_bytes(&copy), out, err);
  if (code) return code;
  out->erasures++;
  out->retired_ms = now > 0 ? now : 1;
  pd_points_set_by(out, note && note->author ? note->author : s->author);
  return PD_OK;
}

static pd_code say_so(pd_eraser *e, pd_error *err)
{
  CLEANUP(pd_points_done) pd_points state = {0};
  CLEANUP(pd_erase_notes_done) pd_erase_notes n = {0};
  TRY(next_state(e, &state, err));
  pd_store_lock(e->s);
  pd_erase_moment moment = pd_erase_moment_now(e->s);
  pd_store_unlock(e->s);
  TRY(pd_erase_notes_add(e, false, &moment, state.by, &n, err));
  pd_erase_notes_end(&n);
  const char *author = e->options->note ? e->options->note->author : NULL;
  return pd_retention_write(e->s, &state, n.changes, n.count, author, check_moves, e, err);
}

/* ---- the key itself ---- */

void pd_eraser_deleted(pd_eraser *e, const char *ref, const pd_ack *ack)
{
  if (strcmp(ref, e->ref) != 0) return;
  e->report->has_commit = true;
  e->report->commit = ack->commit;
}

static pd_code delete_on(pd_eraser *e, const char *ref, pd_error *err)
{
  pd_error why;
  pd_note note = e->options->note ? *e->options->note : (pd_note){0};
  note.ref = ref;
  note.expect_head = NULL;
  bool has;
  TRY(pd_has(e->s, ref, e->key, &has, err));
  if (!has) return PD_OK;
  e->report->refs++;
  if (e->options->is_dry) return PD_OK;
  pd_ack ack;
  pd_code code = pd_delete(e->s, e->key, PD_ANY_VERSION, &note, &ack, &why);
  if (!code) pd_eraser_deleted(e, ref, &ack);
  if (code == PD_NOT_FOUND) return PD_OK; /* somebody else did */
  if (code && err) *err = why;
  return code;
}

static pd_code delete_key(pd_eraser *e, pd_error *err)
{
  if (e->only_seq) return PD_OK;
  if (!e->options->everywhere) return delete_on(e, e->ref, err);
  CLEANUP(pd_names_done) pd_names names = {0};
  TRY(pd_ref_list(e->s, pd_names_take_ref, &names, err));
  TRY(pd_names_check(&names, "an erasure", err));
  for (size_t i = 0; i < names.count; i++) TRY(delete_on(e, names.items[i], err));
  return PD_OK;
}

/* ---- all together ---- */

static bool keeps_blob(void *ctx, const pd_id *id)
{
  const pd_eraser *e = ctx;
  const uint32_t *is_needed = pd_id_map_find(&e->doomed, id);
  return !is_needed || *is_needed;
}

static bool keeps_blob_or_list(void *ctx, const pd_id *id)
{
  const pd_eraser *e = ctx;
  return keeps_blob(ctx, id) || pd_id_map_find(&e->lists, id);
}

static pd_code take_away(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  uint64_t bytes;
  pd_store_lock(s);
  e->last_seq = s->log_seq; /* who else needs the blobs: up to R */
  pd_store_unlock(s);
  TRY(second_pass(e, true, err));
  if (e->lists.count) TRY(s->ops->bag_sweep(s->backend, e->mark, keeps_blob_or_list, e, &bytes, err));
  if (e->doomed.count) TRY(s->ops->bag_sweep(s->backend, e->mark, keeps_blob, e, &bytes, err));
  if (s->ops->compact) TRY(s->ops->compact(s->backend, err));
  return PD_OK;
}

pd_code pd_eraser_nothing(const pd_eraser *e, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "key '%.*s' has no value to erase %s%s", (int)(e->key.size < 200 ? e->key.size : 200),
                      (const char *)e->key.data, e->options->everywhere ? "in this store" : "on the line of ref ",
                      e->options->everywhere ? "" : e->ref);
}

static pd_code run_eraser(pd_eraser *e, pd_error *err)
{
  pd_store *s = e->s;
  pd_code code = PD_CONFLICT;
  pd_erase_report found = {0}; /* by an earlier try: if gc took it since, it is erased all the same, but for blobs that gc may have left */
  if (!e->options->is_dry) TRY(pd_retention_prepare(s, err));
  if (!e->options->is_dry) TRY(s->ops->bag_mark(s->backend, &e->mark, err));
  for (int tries = 0; code == PD_CONFLICT && tries < PLAN_TRIES; tries++) {
    TRY(start(e, err));
    TRY(find_victims(e, err));
    if (!e->count && !found.versions) return pd_eraser_nothing(e, err);
    if (e->count) found = *e->report;
    e->report->versions = found.versions;
    e->report->bytes = found.bytes;
    TRY(delete_key(e, err)); /* only once there is something: a key that never was stays untouched */
    if (e->options->is_dry) return second_pass(e, false, err);
    code = say_so(e, err);
    if (!code) code = take_away(e, err);
  }
  pd_store_lock(s);
  pd_past_forget(s);
  pd_store_unlock(s);
  return code;
}

static pd_code choose_version(pd_eraser *e, pd_error *err)
{
  pd_entry entry, now;
  if (!e->options->version) return PD_OK;
  if (e->options->everywhere) return pd_error_set(err, PD_INVALID, "one version is erased on one line of history, not everywhere");
  TRY(pd_get(e->s, e->ref, e->key, NULL, &now, err));
  TRY(pd_get_version(e->s, e->ref, e->key, e->options->version, NULL, &entry, err));
  if (now.version == e->options->version)
    return pd_error_set(err, PD_INVALID, "version %llu of key '%.*s' is the present one: change or delete it first, or erase the key",
                        (unsigned long long)now.version, (int)(e->key.size < 200 ? e->key.size : 200), (const char *)e->key.data);
  e->only_seq = entry.seq;
  return PD_OK;
}

static pd_code check_erase(const pd_store *s, const pd_erase_options *o, pd_error *err)
{
  if (!s->ops->log_redact || !s->ops->bag_mark || !s->ops->bag_sweep)
    return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot erase", s->ops->scheme);
  if (s->is_read_only && !o->is_dry) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  if (o->left_of && !o->is_lazy) return pd_error_set(err, PD_INVALID, "left_of goes with is_lazy: other erasures have `everywhere`");
  if (o->expect_version && (!o->is_lazy || o->everywhere))
    return pd_error_set(err, PD_INVALID, "expect_version goes with is_lazy, on one ref");
  return o->note && o->note->ref ? pd_ref_check(o->note->ref, err) : PD_OK;
}

static uint64_t disk_bytes(pd_store *s)
{
  pd_backend_usage usage = {0};
  return s->ops->usage && !s->ops->usage(s->backend, &usage, NULL) ? usage.disk_bytes : 0;
}

pd_code pd_erase(pd_store *store, pd_bytes key, const pd_erase_options *options, pd_erase_report *out, pd_error *err)
{
  static const pd_erase_options defaults;
  pd_erase_report report = {0};
  CLEANUP(pd_eraser_done) pd_eraser e = {.s = store, .key = key, .options = options ? options : &defaults, .report = &report};
  TRY(pd_key_check(key, err));
  TRY(check_erase(store, e.options, err));
  const char *ref = e.options->note && e.options->note->ref ? e.options->note->ref : store->ref;
  memcpy(e.ref, ref, strlen(ref) + 1);
  uint64_t before = e.options->is_lazy ? 0 : disk_bytes(store);
  TRY(choose_version(&e, err));
  TRY(e.options->is_lazy ? pd_erase_lazily(&e, err) : run_eraser(&e, err));
  report.disk_before = before;
  report.disk_after = e.options->is_lazy ? 0 : disk_bytes(store);
  if (out) *out = report;
  return PD_OK;
}
