/*
 * commit.c: the write path. An intent is staged on the tips (E2): its edits are applied to the tree in memory, its record is
 * encoded behind those already pending. flush.c appends the batch.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"

#include <stdlib.h>

/* Working space for one commit. */
typedef struct plan {
  pd_rec_change *changes;
  pd_tree_edit *edits;
  size_t count;
  uint64_t added_bytes, removed_bytes; /* of values at the head */
  uint64_t previous_version;           /* of the key that was planned last */
  pd_rec_change one_change;            /* the common case allocates nothing */
  pd_tree_edit one_edit;
} plan;

static void plan_done(pd_store *s, plan *p)
{
  for (size_t i = 0; i < p->count; i++) pd_cell_unref(&s->tree.pool, p->edits[i].cell);
  if (p->changes != &p->one_change) free(p->changes);
  if (p->edits != &p->one_edit) free(p->edits);
}

static pd_code plan_init(plan *p, size_t count, pd_error *err)
{
  memset(p, 0, sizeof *p);
  p->changes = &p->one_change;
  p->edits = &p->one_edit;
  if (count <= 1) return PD_OK;
  p->changes = calloc(count, sizeof *p->changes);
  p->edits = calloc(count, sizeof *p->edits);
  return p->changes && p->edits ? PD_OK : pd_error_memory(err, "a commit");
}

static pd_code check_version(const pd_change_in *in, uint64_t version, pd_error *err)
{
  if (in->expect_version != PD_ANY_VERSION && in->expect_version != version)
    return pd_error_conflict(err, in->expect_version, version, "key '%.*s' is at version %llu, expected %llu",
                             (int)(in->key.size < 200 ? in->key.size : 200), (const char *)in->key.data, (unsigned long long)version,
                             (unsigned long long)in->expect_version);
  if (in->is_delete && in->must_exist && !version)
    return pd_error_set(err, PD_NOT_FOUND, "there is no key '%.*s'", (int)(in->key.size < 200 ? in->key.size : 200),
                        (const char *)in->key.data);
  return PD_OK;
}

static uint64_t last_retention(const pd_batch *batch)
{
  for (size_t i = batch->count; i-- > 0;)
    if (batch->staged[i].is_retention) return batch->staged[i].seq;
  return 0;
}

/* The last record behind which somebody may sweep the bag (upload.h U3), as the next record would follow it. */
static uint64_t last_sweep(const pd_store *s)
{
  uint64_t seq = last_retention(&s->pending);
  if (!seq) seq = last_retention(&s->inflight);
  return seq > s->retention.epoch ? seq : s->retention.epoch;
}

/* What a value in pieces rests on must still hold (upload.h, U2 and U3). */
static pd_code check_pieces(pd_store *s, const pd_change_in *in, const pd_rider *old, pd_error *err)
{
  pd_pieces *p = in->pieces;
  TRY(pd_retention_ready(s, err));
  bool may_be_swept = last_sweep(s) > p->since_seq;
  bool has_lost_basis = p->basis_seq && (!old || old->seq != p->basis_seq);
  p->is_stale = may_be_swept || has_lost_basis;
  if (!p->is_stale) return PD_OK;
  return pd_error_set(err, PD_CONFLICT, "gc ran while the value of key '%.*s' was being put",
                      (int)(in->key.size < 200 ? in->key.size : 200), (const char *)in->key.data);
}

/* `number` of the change: its name in a record that is redacted from birth, because values of it were erased elsewhere (R4). */
static void place_value(const pd_change_in *in, size_t number, pd_rec_change *ch)
{
  ch->is_erased = in->is_erased;
  ch->is_chunked = in->pieces != NULL;
  ch->is_in_bag = ch->is_chunked || (!in->is_delete && !in->is_erased && in->value.size > PD_INLINE_SIZE_MAX);
  ch->pos = ch->is_chunked ? PD_POS_CHUNKED : ch->is_in_bag ? PD_POS_BAG : (uint32_t)number;
  ch->size = (uint32_t)(in->pieces ? in->pieces->size : in->value.size);
  if (in->pieces) ch->list_id = in->pieces->list_id;
}

/* Which version it is, and which it follows. */
static void place_version(const pd_store *s, const pd_ref_slot *slot, const pd_change_in *in, const pd_rider *old, int64_t now_ms,
                          pd_rec_change *ch)
{
  bool is_next = !in->version || in->is_delete || (in->is_linked && old);
  ch->prev_seq = is_next && old ? old->seq : 0;
  ch->created_ms = is_next && old ? old->created_ms : in->version > 1 ? in->created_ms : now_ms;
  uint64_t number = in->version ? in->version : in->number;
  ch->version = in->is_delete ? old->version : pd_version_imported(s, slot, is_next && old ? old->version : 0, number);
  ch->is_carried = !is_next && in->version > 1;
}

/* Compare one edit with the tree and add what it does to the plan. */
static pd_code plan_change(pd_store *s, plan *p, const pd_ref_slot *slot, pd_node *root, const pd_change_in *in, int64_t now_ms,
                           pd_error *err)
{
  pd_node *leaf;
  size_t index;
  TRY(pd_tree_find(&s->tree, root, in->key, &leaf, &index, err));
  const pd_rider *old = leaf ? &leaf->riders[index] : NULL;
  TRY(check_version(in, old ? old->version : 0, err));
  if (in->is_delete && !old) return PD_OK;
  if (in->pieces) TRY(check_pieces(s, in, old, err));
  pd_rec_change *ch = &p->changes[p->count];
  *ch = (pd_rec_change){.key = in->key, .is_delete = in->is_delete, .value = in->value, .value_id = in->value_id};
  place_version(s, slot, in, old, now_ms, ch);
  p->previous_version = old ? old->version : 0;
  place_value(in, p->count, ch);
  pd_tree_edit *edit = &p->edits[p->count];
  *edit = (pd_tree_edit){.key = in->key, .is_delete = in->is_delete, .value_id = in->value_id};
  edit->rider =
    (pd_rider){.seq = s->tip_seq + 1, .version = ch->version, .created_ms = ch->created_ms, .updated_ms = now_ms, .size = ch->size};
  bool has_bytes = !in->is_delete && !in->pieces && !in->is_erased && !in->is_cold;
  edit->has_value = has_bytes && in->value.size <= PD_EMBED_SIZE_MAX;
  edit->value = in->value;
  if (has_bytes && !edit->has_value && in->value.size <= PD_CELL_SIZE_MAX) TRY(pd_cell_new(&s->tree.pool, in->value, &edit->cell, err));
  p->added_bytes += in->is_delete ? 0 : ch->size;
  p->removed_bytes += old ? old->size : 0;
  p->count++;
  return PD_OK;
}

static pd_code check_bytes(const pd_intent *intent, const pd_head *head, uint64_t added, uint64_t removed, pd_error *err)
{
  uint64_t limit = intent->note ? intent->note->bytes_max : 0;
  if (!limit || added <= removed || head->bytes - removed + added <= limit) return PD_OK;
  pd_error_set(err, PD_QUOTA, "the values have %llu bytes; with %llu more they would exceed the limit of %llu",
               (unsigned long long)head->bytes, (unsigned long long)(added - removed), (unsigned long long)limit);
  if (err) err->expected = limit, err->actual = head->bytes;
  return PD_QUOTA;
}

/* ---- the record ---- */

static pd_bytes text_or_empty(const char *text)
{
  return text ? pd_text(text) : (pd_bytes){NULL, 0};
}

/* The log's times do not go back, so that a time can be searched for; but for this: a clock that was far ahead once would date all that
 * comes after it, and who asks for the state of a moment would not see it. So when the clock is more than a day behind the last record, and
 * not behind the time from which the log jumped ahead, that jump was wrong, and times go back once (back_seq). A clock that is behind all
 * of the log is itself wrong. */
int64_t pd_time_next(pd_store *s)
{
  int64_t now = s->now_ms(s->now_ctx);
  if (now < 0) now = 0;
  bool was_ahead = s->has_jump && now >= s->jump_ms && s->tip_time_ms - now > PD_JUMP_MS;
  return now > s->tip_time_ms || was_ahead ? now : s->tip_time_ms;
}

void pd_time_note(pd_store *s, int64_t before_ms, uint64_t seq, int64_t time_ms)
{
  if (time_ms < before_ms) s->back_seq = seq;
  if (!before_ms || time_ms - before_ms <= PD_JUMP_MS) return;
  s->has_jump = true;
  s->jump_ms = before_ms;
}

static void start_record(pd_store *s, const pd_intent *intent, const pd_ref_slot *slot, pd_rec *rec)
{
  const pd_note *note = intent->note;
  *rec = (pd_rec){.seq = s->tip_seq + 1, .kind = intent->kind, .time_ms = pd_time_next(s)};
  rec->keyframe_seq = s->frame_count ? s->frames[s->frame_count - 1].seq : 0;
  rec->author = pd_text(note && note->author ? note->author : s->author);
  rec->run = text_or_empty(note ? note->run : NULL);
  rec->reason = text_or_empty(note ? note->reason : NULL);
  if (intent->origin) {
    rec->is_imported = true;
    rec->made_ms = intent->origin->made_ms;
    rec->origin = intent->origin->store;
  }
  if (!slot) return;
  rec->ref = pd_text(slot->name);
  rec->ref_prev_seq = slot->tip.last_seq;
}

/* Room for one more staged record, so that nothing can fail once its bytes are there. */
static pd_code reserve_staged(pd_batch *batch, pd_error *err)
{
  return pd_array_grow(&batch->staged, batch->count, &batch->capacity, sizeof *batch->staged, "a batch", err);
}

/* R, or what erasure writes like it? */
static bool is_retention(const pd_intent *intent, const pd_ref_slot *slot)
{
  if (!slot || intent->kind != PD_RECORD_COMMIT || strcmp(slot->name, PD_META_REF) != 0) return false;
  for (size_t i = 0; i < intent->change_count; i++)
    if (pd_bytes_equal(intent->changes[i].key, pd_text(PD_RETENTION_KEY))) return true;
  return false;
}

static void push_staged(pd_store *s, const pd_rec *rec, pd_ref_slot *slot, const pd_head *head, size_t record_at, pd_ticket *ticket,
                        const pd_catalog_frame *frame)
{
  pd_staged *st = &s->pending.staged[s->pending.count++];
  *st = (pd_staged){.ticket = ticket,
                    .slot = slot,
                    .seq = rec->seq,
                    .kind = rec->kind,
                    .record_at = record_at,
                    .record_size = s->pending.bytes.size - record_at,
                    .audit = rec->audit,
                    .time_ms = rec->time_ms};
  if (slot) {
    pd_head_copy(s, &st->head, head);
    pd_head_copy(s, &slot->tip, head);
  }
  if (frame) st->frame = *frame;
  pd_time_note(s, s->tip_time_ms, rec->seq, rec->time_ms);
  s->tip_seq = rec->seq;
  s->tip_audit = rec->audit;
  s->tip_time_ms = rec->time_ms;
}

static void fill_ack(const pd_store *s, const pd_rec *rec, uint64_t version, pd_ack *out)
{
  if (!out) return;
  *out = (pd_ack){
    .commit = rec->commit, .tree = rec->tree, .seq = rec->seq, .version = version, .durability = s->is_buffered ? PD_BUFFERED : PD_SYNCED};
}

/* ---- commits ---- */

static pd_code stage_blobs(pd_store *s, const plan *p, pd_error *err)
{
  for (size_t i = 0; i < p->count; i++)
    if (p->changes[i].is_in_bag && !p->changes[i].is_chunked)
      TRY(pd_batch_blob(&s->pending, &p->changes[i].value_id, p->changes[i].value, err));
  return PD_OK;
}

static bool is_update_of_one(const plan *p)
{
  return p->count == 1 && !p->edits[0].is_delete && p->changes[0].prev_seq;
}

/* In a buffered store nobody needs the tree before: an update of one key then changes the nodes themselves (N2). */
static bool apply_in_place(pd_store *s, const plan *p, const pd_ref_slot *slot, pd_node *root)
{
  if (!s->is_buffered || !is_update_of_one(p) || slot->seen.root != root || slot->tip.root != root) return false;
  return pd_tree_set_in_place(&s->tree, root, 2, &p->edits[0]); /* its two owners: seen and tip */
}

/* The parents are the head and what is merged into it. */
static pd_id commit_id_of(const pd_intent *intent, const pd_id *head, const pd_id *tree)
{
  pd_id parents[PD_PARENT_COUNT_MAX] = {*head};
  if (intent->graft) return pd_commit_id(tree, intent->graft->parents, intent->graft->count);
  for (size_t i = 0; i < intent->merged_count; i++) parents[i + 1] = intent->merged[i].id;
  return pd_commit_id(tree, parents, intent->merged_count + 1);
}

static pd_code apply_plan(pd_store *s, plan *p, pd_rec *rec, const pd_intent *intent, const pd_ref_slot *slot, pd_node *root, pd_head *head,
                          size_t record_at, pd_error *err)
{
  rec->change_count = p->count;
  for (size_t i = 0; i < p->count; i++) rec->is_redacted |= p->changes[i].is_erased;
  TRY(pd_rec_encode(rec, p->changes, &s->pending.bytes, err));
  TRY(pd_rec_reserve(&s->pending.bytes, err)); /* so that sealing, after the tree was changed, cannot fail */
  for (size_t i = 0; i < p->count; i++) p->edits[i].rider.pos = p->changes[i].pos;
  pd_node *made = root;
  if (apply_in_place(s, p, slot, root))
    pd_node_ref(made);
  else if (is_update_of_one(p))
    TRY(pd_tree_set(&s->tree, root, &p->edits[0], &made, err));
  else
    TRY(pd_tree_apply(&s->tree, root, p->edits, p->count, &made, err));
  rec->tree = made->id;
  rec->commit = commit_id_of(intent, &head->commit.id, &rec->tree);
  rec->target_seq = rec->seq;
  pd_rec_seal(rec, p->changes, &s->tip_audit, &s->pending.bytes, record_at);
  bool has_bytes = head->has_bytes;
  pd_head_move(head, rec);
  head->has_bytes = has_bytes;
  head->bytes = head->bytes - p->removed_bytes + p->added_bytes;
  head->root = made; /* the borrowed old one stays with the slot */
  head->has_blob = false;
  return PD_OK;
}

static void graft(const pd_graft *g, uint64_t base_seq, pd_rec *rec)
{
  rec->is_grafted = true;
  rec->base_seq = base_seq;
  rec->parent_count = g->count;
  rec->parent_seqs[0] = PD_SEQ_GONE;
  memcpy(rec->parent_ids, g->parents, (g->count ? g->count : 1) * sizeof *g->parents);
}

static pd_code stage_planned(pd_store *s, const pd_intent *intent, pd_ref_slot *slot, pd_node *root, plan *p, pd_ticket *ticket,
                             pd_ack *out, pd_error *err)
{
  pd_rec rec;
  start_record(s, intent, slot, &rec);
  if (intent->merged_count >= PD_PARENT_COUNT_MAX)
    return pd_error_set(err, PD_LIMIT, "a commit has at most %d parents", PD_PARENT_COUNT_MAX);
  rec.parent_count = intent->merged_count + 1;
  rec.parent_seqs[0] = slot->tip.commit.seq;
  if (intent->graft) graft(intent->graft, slot->tip.commit.seq, &rec);
  for (size_t i = 0; i < intent->merged_count; i++) rec.parent_seqs[i + 1] = intent->merged[i].seq;
  for (size_t i = 0; i < intent->change_count; i++) TRY(plan_change(s, p, slot, root, &intent->changes[i], pd_rec_made_ms(&rec), err));
  TRY(check_bytes(intent, &slot->tip, p->added_bytes, p->removed_bytes, err));
  size_t record_at = s->pending.bytes.size, blobs_before = s->pending.blob_count;
  pd_head head = slot->tip;
  pd_code code = reserve_staged(&s->pending, err);
  if (!code) code = pd_index_reserve(s, s->pending.count + s->inflight.count + 1, err);
  if (!code) code = stage_blobs(s, p, err);
  if (!code) code = apply_plan(s, p, &rec, intent, slot, root, &head, record_at, err);
  if (code) {
    s->pending.bytes.size = record_at;
    while (s->pending.blob_count > blobs_before) pd_buf_done(&s->pending.blobs[--s->pending.blob_count].bytes);
    return code;
  }
  for (size_t i = 0; i < p->count; i++) {
    s->auto_gc.bytes += p->changes[i].size;
    pd_version_given(s, slot, &p->changes[i]);
  }
  push_staged(s, &rec, slot, &head, record_at, ticket, NULL);
  s->pending.staged[s->pending.count - 1].is_retention = is_retention(intent, slot);
  pd_node_unref(&s->tree.pool, head.root);
  fill_ack(s, &rec, p->count == 1 ? p->changes[0].version : 0, out);
  if (out && p->count == 1) out->previous_version = p->previous_version;
  return PD_OK;
}

static pd_code stage_commit(pd_store *s, const pd_intent *intent, pd_ref_slot *slot, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  pd_node *root;
  TRY(pd_head_root(s, &slot->tip, &root, err));
  if (!slot->seen.root && slot->seen.commit.seq == slot->tip.commit.seq) slot->seen.root = pd_node_ref(root);
  plan p;
  pd_code code = plan_init(&p, intent->change_count, err);
  if (!code) code = stage_planned(s, intent, slot, root, &p, ticket, out, err);
  plan_done(s, &p);
  return code;
}

/* ---- what gc retired (G9) ---- */

static pd_code refuse_retired(const pd_store *s, const char *what, const pd_ref_slot *slot, uint64_t seq, pd_error *err)
{
  pd_error why;
  if (!pd_is_retired(s, seq)) return PD_OK;
  (void)!pd_retired_error(s, seq, &why);
  return pd_error_set(err, PD_RETIRED, "%s on ref '%s' is refused: %s", what, slot->name, why.message);
}

bool pd_intent_points_back(const pd_intent *intent)
{
  return intent->merged_count || intent->kept || (intent->kind != PD_RECORD_COMMIT && intent->kind != PD_RECORD_KEYFRAME);
}

static pd_code check_commit_parents(pd_store *s, const pd_intent *intent, const pd_ref_slot *slot, pd_error *err)
{
  if (pd_intent_points_back(intent)) TRY(pd_retention_ready(s, err));
  for (size_t i = 0; i < intent->merged_count; i++) TRY(refuse_retired(s, "a merge", slot, intent->merged[i].seq, err));
  if (intent->kept) TRY(refuse_retired(s, "a mark", slot, intent->kept->seq, err));
  return refuse_retired(s, "a commit", slot, slot->tip.commit.seq, err); /* a head is always kept: this one was damaged before */
}

/* Deleting a ref, or switching to it, keeps nothing: that must go on with one that cannot be read. */
static pd_code check_target(pd_store *s, const pd_rec *rec, const pd_ref_slot *slot, pd_error *err)
{
  if (rec->kind == PD_RECORD_REF_DELETE || rec->kind == PD_RECORD_SWITCH) return PD_OK;
  TRY(pd_retention_ready(s, err));
  return refuse_retired(s, pd_record_kind_name(rec->kind), slot, rec->target_seq, err);
}

/* ---- moves of refs ---- */

static pd_code undo_target(pd_store *s, const pd_intent *intent, const pd_head *head, uint64_t *out_seq, pd_error *err)
{
  uint64_t seq = head->commit.seq, left = intent->count;
  TRY(pd_line_back(s, &seq, &left, false, err));
  if (left)
    return pd_error_set(err, PD_NOT_FOUND, "cannot undo %llu commits: there are only %llu", (unsigned long long)intent->count,
                        (unsigned long long)(intent->count - left));
  *out_seq = seq;
  return PD_OK;
}

/* The commits from the redo tip back to the head, then `count` steps forward along them. */
static pd_code redo_target(pd_store *s, const pd_intent *intent, const pd_head *head, uint64_t *out_seq, pd_error *err)
{
  if (!head->redo_seq) return pd_error_set(err, PD_NOT_FOUND, "there is nothing to redo");
  bool is_found;
  uint64_t distance;
  TRY(pd_line_count(s, head->redo_seq, head->commit.seq, false, &is_found, &distance, err));
  if (!is_found) return pd_error_set(err, PD_CORRUPT, "the commit to redo is no descendant of the head");
  if (intent->count > distance)
    return pd_error_set(err, PD_NOT_FOUND, "cannot redo %llu commits: there are only %llu", (unsigned long long)intent->count,
                        (unsigned long long)distance);
  uint64_t seq = head->redo_seq, back = distance - intent->count;
  TRY(pd_line_back(s, &seq, &back, false, err));
  *out_seq = seq;
  return PD_OK;
}

static pd_code move_target(pd_store *s, const pd_intent *intent, const pd_head *head, pd_rec *rec, pd_error *err)
{
  pd_commit commit = head->commit;
  uint64_t seq = 0;
  if (intent->target) {
    commit = *intent->target;
  } else if (intent->kind == PD_RECORD_FORK || intent->kind == PD_RECORD_RESET) {
    TRY(pd_resolve_locked(s, intent->at, &commit, err));
  } else if (intent->kind == PD_RECORD_UNDO || intent->kind == PD_RECORD_REDO) {
    TRY(intent->kind == PD_RECORD_UNDO ? undo_target(s, intent, head, &seq, err) : redo_target(s, intent, head, &seq, err));
    TRY(pd_commit_at(s, seq, &commit, err));
  }
  rec->commit = commit.id;
  rec->tree = commit.tree;
  rec->target_seq = commit.seq;
  return PD_OK;
}

/* A record without changes. */
static pd_code encode_plain(pd_store *s, pd_rec *rec, size_t *out_record_at, pd_error *err)
{
  TRY(reserve_staged(&s->pending, err));
  size_t record_at = s->pending.bytes.size;
  pd_code code = pd_rec_encode(rec, NULL, &s->pending.bytes, err);
  if (!code) code = pd_rec_reserve(&s->pending.bytes, err);
  if (code)
    s->pending.bytes.size = record_at;
  else
    pd_rec_seal(rec, NULL, &s->tip_audit, &s->pending.bytes, record_at);
  *out_record_at = record_at;
  return code;
}

static pd_code stage_move(pd_store *s, const pd_intent *intent, pd_ref_slot *slot, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  pd_rec rec;
  pd_head head = slot->tip;
  start_record(s, intent, slot, &rec);
  TRY(move_target(s, intent, &head, &rec, err));
  TRY(check_target(s, &rec, slot, err));
  size_t record_at;
  TRY(encode_plain(s, &rec, &record_at, err));
  pd_head_move(&head, &rec);
  if (rec.kind == PD_RECORD_SWITCH && head.root)
    pd_node_ref(head.root);
  else if (rec.kind != PD_RECORD_SWITCH)
    pd_head_share_root(s, &head);
  push_staged(s, &rec, slot, &head, record_at, ticket, NULL);
  pd_version_moved(s, slot, &rec);
  pd_node_unref(&s->tree.pool, head.root);
  fill_ack(s, &rec, 0, out);
  return PD_OK;
}

static pd_code stage_keyframe(pd_store *s, const pd_intent *intent, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  if (s->frame_count && s->frames[s->frame_count - 1].covers >= intent->frame->covers)
    return pd_error_set(err, PD_EXISTS, "another process wrote a newer keyframe");
  pd_rec rec;
  start_record(s, intent, NULL, &rec);
  rec.catalog = intent->frame->catalog;
  rec.covers = intent->frame->covers;
  char versions[PD_VERSION_NOTE_SIZE];
  pd_version_note(s, versions);
  rec.reason = pd_text(versions);
  TRY(pd_index_reserve(s, s->pending.count + s->inflight.count + 1, err));
  size_t record_at;
  TRY(encode_plain(s, &rec, &record_at, err));
  pd_catalog_frame frame = *intent->frame;
  frame.seq = rec.seq;
  push_staged(s, &rec, NULL, NULL, record_at, ticket, &frame);
  fill_ack(s, &rec, 0, out);
  return PD_OK;
}

/* ---- the door ---- */

static pd_code find_target_slot(pd_store *s, const pd_intent *intent, pd_ref_slot **out, pd_error *err)
{
  const char *name = intent->ref && *intent->ref ? intent->ref : s->ref;
  if (intent->kind == PD_RECORD_FORK) {
    TRY(pd_ref_check_any(name, err));
    TRY(pd_slot_make(s, name, out, err));
    if (!(*out)->tip.is_deleted) return pd_error_set(err, PD_EXISTS, "there is a ref '%s' already", name);
    return PD_OK;
  }
  *out = pd_slot_find(s, name);
  if (!*out || (*out)->tip.is_deleted) return pd_error_set(err, PD_NOT_FOUND, "there is no ref '%s'", name);
  if (intent->kind == PD_RECORD_REF_DELETE && strcmp(name, s->current) == 0)
    return pd_error_set(err, PD_INVALID, "'%s' is the current ref and cannot be deleted; switch to another first", name);
  return PD_OK;
}

static pd_code check_head(const pd_intent *intent, const char *name, const pd_head *head, pd_error *err)
{
  const pd_id *expect = intent->note ? intent->note->expect_head : NULL;
  if (!expect || intent->kind == PD_RECORD_FORK || pd_id_equal(expect, &head->commit.id)) return PD_OK;
  char is[PD_ID_HEX_SIZE], wanted[PD_ID_HEX_SIZE];
  return pd_error_conflict(err, 0, 0, "ref '%s' is at commit %.12s, expected %.12s", name, pd_id_hex(&head->commit.id, is),
                           pd_id_hex(expect, wanted));
}

pd_code pd_check_seen(pd_store *s, const pd_intent *intent, pd_error *err)
{
  const char *name = intent->ref && *intent->ref ? intent->ref : s->ref;
  pd_ref_slot *slot = pd_slot_find(s, name);
  pd_node *root;
  uint64_t added = 0, removed = 0;
  if (!slot || slot->seen.is_deleted) return pd_error_set(err, PD_NOT_FOUND, "there is no ref '%s'", name);
  TRY(check_head(intent, name, &slot->seen, err));
  TRY(pd_head_root(s, &slot->seen, &root, err));
  for (size_t i = 0; i < intent->change_count; i++) {
    const pd_change_in *in = &intent->changes[i];
    pd_node *leaf;
    size_t index;
    TRY(pd_tree_find(&s->tree, root, in->key, &leaf, &index, err));
    const pd_rider *old = leaf ? &leaf->riders[index] : NULL;
    TRY(check_version(in, old ? old->version : 0, err));
    added += in->is_delete ? 0 : in->pieces ? in->pieces->size : in->value.size;
    removed += old ? old->size : 0;
  }
  return slot->seen.has_bytes ? check_bytes(intent, &slot->seen, added, removed, err) : PD_OK;
}

pd_code pd_stage(pd_store *s, const pd_intent *intent, pd_ticket *ticket, pd_ack *out, pd_error *err)
{
  pd_ref_slot *slot;
  if (intent->guard) TRY(intent->guard(s, intent->guard_ctx, err));
  if (intent->kind == PD_RECORD_KEYFRAME) return stage_keyframe(s, intent, ticket, out, err);
  TRY(find_target_slot(s, intent, &slot, err));
  TRY(check_head(intent, slot->name, &slot->tip, err));
  if (intent->kind != PD_RECORD_COMMIT) return stage_move(s, intent, slot, ticket, out, err);
  TRY(check_commit_parents(s, intent, slot, err));
  return stage_commit(s, intent, slot, ticket, out, err);
}
