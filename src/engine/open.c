/*
 * open.c: opening and closing, and following the log. Opening reads the last record, the keyframe it names, and the records
 * after that. The same code then takes in what other processes append.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/disk_wait.h"
#include "base/error.h"
#include "base/names.h"
#include "base/sha256.h"
#include "engine/place.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define CACHE_SIZE_DEFAULT ((size_t)64 << 20)
#define CACHE_SIZE_MIN ((size_t)1 << 20)
#define VALUE_SIZE_DEFAULT ((size_t)64 << 20)
#define VALUE_SIZE_LIMIT ((size_t)PD_CHUNKED_SIZE_MAX)
#define MAIN_REF "main"
#define YIELDS_MAX 100 /* who waits is awake by then, unless the machine is busy: then it needs this processor, perhaps */
#define YIELD_NAP_NS 50000
#define RELOAD_TRIES 5
#define CLOSE_KEYFRAME_RECORDS 1024              /* a shorter tail is not worth a keyframe at close… */
#define CLOSE_KEYFRAME_BYTES ((uint64_t)1 << 20) /* …unless it is large */

void pd_store_lock(pd_store *s)
{
  if (pthread_mutex_trylock(&s->lock) == 0) return;
  __atomic_add_fetch(&s->lock_waiters, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&s->lock);
  __atomic_sub_fetch(&s->lock_waiters, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&s->lock_turns, 1, __ATOMIC_RELAXED);
}

void pd_store_unlock(pd_store *s)
{
  pthread_mutex_unlock(&s->lock);
}

void pd_store_wait(pd_store *s)
{
  s->sleepers++;
  pthread_cond_wait(&s->changed, &s->lock);
  s->sleepers--;
  if (s->waking) __atomic_sub_fetch(&s->waking, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&s->lock_turns, 1, __ATOMIC_RELAXED);
}

void pd_store_wake(pd_store *s)
{
  __atomic_store_n(&s->waking, s->sleepers, __ATOMIC_RELAXED);
  pthread_cond_broadcast(&s->changed);
}

static bool is_wanted(const pd_store *s)
{
  return __atomic_load_n(&s->lock_waiters, __ATOMIC_RELAXED) || __atomic_load_n(&s->waking, __ATOMIC_RELAXED);
}

/* A mutex is not fair: whoever unlocks and locks again has it before the one that it woke is awake. Those that wait hold nothing that this
 * thread needs, and the lock is free: one of them gets it, however busy the machine is. */
void pd_store_yield(pd_store *s)
{
  if (!is_wanted(s)) return;
  unsigned turns = __atomic_load_n(&s->lock_turns, __ATOMIC_RELAXED);
  pd_store_unlock(s);
  for (int i = 0; is_wanted(s); i++) {
    if (__atomic_load_n(&s->lock_turns, __ATOMIC_RELAXED) != turns) break;
    if (i < YIELDS_MAX)
      sched_yield();
    else
      nanosleep(&(struct timespec){.tv_nsec = YIELD_NAP_NS}, NULL);
  }
  pd_store_lock(s);
}

void pd_store_lock_to_read(pd_store *s)
{
  pd_store_lock(s);
  pd_store_yield(s);
}

const char *pd_version(void)
{
  return "0.1.0";
}

/* ---- blobs and nodes ---- */

pd_code pd_load_blob(pd_store *s, const pd_id *id, const char *what, pd_buf *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_buf_clear(out);
  pd_code code = s->ops->bag_get(s->backend, id, out, err);
  if (code == PD_NOT_FOUND) return pd_missing_error(s, what, id, err);
  if (code) return code;
  pd_id got = pd_sha256(pd_buf_bytes(out));
  if (pd_id_equal(&got, id)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%s does not match its id %.16s…", what, pd_id_hex(id, hex));
}

pd_code pd_load_node(void *ctx, const pd_id *blob_id, pd_node **out, pd_error *err)
{
  pd_store *s = ctx;
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  s->misses++;
  TRY(pd_load_blob(s, blob_id, "a tree node", &blob, err));
  return pd_node_decode(&s->tree.pool, pd_buf_bytes(&blob), blob_id, out, err);
}

/* ---- following the log ---- */

/* The frame of a keyframe record that another process wrote: its catalog names the run. */
static pd_code learn_frame(pd_store *s, const pd_rec *rec, pd_error *err)
{
  if (s->frame_count && s->frames[s->frame_count - 1].covers >= rec->covers) return PD_OK;
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {0};
  pd_error why;
  pd_code code = pd_load_blob(s, &rec->catalog, "a keyframe's catalog", &blob, &why);
  if (code == PD_RETIRED) return PD_OK; /* it was before a cut that we shall read of */
  if (!code) code = pd_catalog_decode(pd_buf_bytes(&blob), &catalog, &why);
  if (code == PD_CORRUPT && s->is_mending) return PD_OK;
  if (code && err) *err = why;
  if (code) return code;
  pd_catalog_frame frame = {rec->seq, rec->covers, rec->catalog, catalog.run};
  pd_frame_add(s, &frame);
  s->catalog_size = blob.size;
  s->catalog_slots = s->slot_count;
  return PD_OK;
}

/* The tree after the record; *out_root NULL (E5) if gc took nodes of the one before, which this handle had not moved on from. */
static pd_code follow_tree(pd_store *s, pd_node *root, const pd_rec *rec, pd_node **out_root, pd_error *err)
{
  pd_error why;
  pd_code code = pd_apply_record(&s->tree, root, rec, out_root, &why);
  if (code && code != PD_RETIRED && err) *err = why;
  if (code) *out_root = NULL;
  return code == PD_RETIRED ? PD_OK : code;
}

static pd_code follow_ref(pd_store *s, const pd_rec *rec, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1] = {0};
  memcpy(name, rec->ref.data, rec->ref.size);
  TRY(pd_ref_check_any(name, err));
  pd_ref_slot *slot;
  TRY(pd_slot_make(s, name, &slot, err));
  pd_head head = slot->seen;
  head.root = NULL;
  bool is_next = rec->kind == PD_RECORD_COMMIT && slot->seen.root && pd_rec_base(rec) == slot->seen.commit.seq;
  if (is_next) TRY(follow_tree(s, slot->seen.root, rec, &head.root, err));
  bool can_count = is_next && head.root && head.has_bytes;
  if (can_count && pd_head_recount(s, slot->seen.root, head.root, &head.bytes, NULL)) can_count = false; /* it is counted when needed */
  pd_head_move(&head, rec);
  head.has_bytes |= can_count;
  if (rec->kind == PD_RECORD_SWITCH) {
    memcpy(s->current, name, sizeof s->current);
    if (slot->seen.root) head.root = pd_node_ref(slot->seen.root);
  } else if (rec->kind == PD_RECORD_COMMIT) {
    head.has_blob = false;
  } else {
    pd_head_share_root(s, &head);
  }
  pd_head_copy(s, &slot->seen, &head);
  pd_head_copy(s, &slot->tip, &head);
  pd_node_unref(&s->tree.pool, head.root);
  pd_version_follow(s, slot, rec);
  return PD_OK;
}

static pd_code follow_record(pd_store *s, uint64_t seq, pd_bytes bytes, pd_error *err)
{
  pd_rec rec;
  if (seq != s->log_seq + 1) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)s->log_seq + 1);
  s->retention.must_reload |= !bytes.size;
  if (!bytes.size) return pd_retired_error(s, seq, err);
  TRY(pd_rec_decode(seq, bytes, &rec, err));
  s->retention.must_reload |= rec.has_dropped || pd_is_retention_record(&rec);
  if (rec.has_dropped) return pd_retired_error(s, seq, err);
  pd_id audit = pd_rec_audit(&rec, &s->seen_audit);
  if (!pd_id_equal(&audit, &rec.audit))
    return pd_error_set(err, PD_CORRUPT, "record %llu does not continue the audit chain", (unsigned long long)seq);
  TRY(pd_index_reserve(s, 1, err));
  if (rec.kind == PD_RECORD_KEYFRAME)
    TRY(learn_frame(s, &rec, err));
  else
    TRY(follow_ref(s, &rec, err));
  if (rec.kind == PD_RECORD_COMMIT) pd_run_add(s, &rec.commit, seq);
  if (pd_is_erasure_record(&rec)) pd_past_forget(s);
  s->retention.has_erased |= pd_is_erasure_record(&rec);
  if (pd_is_gc_setting_record(&rec)) pd_auto_gc_start(s);
  s->log_seq = s->tip_seq = seq;
  pd_see(s, seq);
  s->seen_audit = s->tip_audit = rec.audit;
  pd_time_note(s, s->seen_time_ms, seq, rec.time_ms);
  s->seen_time_ms = s->tip_time_ms = rec.time_ms;
  s->tail_bytes += bytes.size;
  return PD_OK;
}

/* One go; *out_count 0 at the end of the log. */
static pd_code catch_up_some(pd_store *s, size_t *out_count, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  TRY(pd_take_records(s, s->log_seq + 1, UINT64_MAX, &t, err));
  for (size_t i = 0; i < t.count; i++) TRY(follow_record(s, t.first + i, pd_taken_at(&t, i), err));
  *out_count = t.count;
  return PD_OK;
}

static pd_code follow_log(pd_store *s, pd_error *err)
{
  for (size_t count = 1; count;) TRY(catch_up_some(s, &count, err));
  return PD_OK;
}

static pd_code reload(pd_store *s, pd_error *err);

pd_code pd_catch_up(pd_store *s, pd_error *err)
{
  pd_error why;
  TRY(pd_disk_may_read(err));
  pd_code code = s->retention.must_reload ? PD_OK : follow_log(s, &why);
  if (s->retention.must_reload) return reload(s, err); /* G3, also if what it met on the way was retired already */
  if (code && err) *err = why;
  return code;
}

static bool has_staged(const pd_store *s)
{
  return s->pending.count || s->inflight.count;
}

/* A flusher between two batches holds nothing back: that is_flushing is set does not matter here. */
pd_code pd_refresh(pd_store *s, pd_error *err)
{
  if (s->retention.must_reload && !s->is_mending) return pd_catch_up(s, err);
  if (s->is_mending || s->is_claimed || has_staged(s)) return PD_OK;
  if (s->ops->log_tail_hint(s->backend) == s->log_seq) return PD_OK;
  return pd_catch_up(s, err);
}

/* A batch of this handle's own may be staged or on its way: then what is at the end of the log is that, or another's commit in front of it,
 * and appending tells which. To go on without waiting would be to read a past that another has overwritten. Whoever staged the batch may
 * not be there yet to flush it (pd_put_later), so the first thread that finds no flush in progress flushes. */
static pd_code refresh_up_to(pd_store *s, uint64_t tail, pd_error *err)
{
  TRY(pd_disk_may_read(err));
  s->followers++;
  while (s->log_seq < tail && has_staged(s)) {
    if (s->is_flushing)
      pd_store_wait(s);
    else
      pd_flush_batch(s);
  }
  s->followers--;
  return s->log_seq < tail ? pd_catch_up(s, err) : pd_refresh(s, err);
}

pd_code pd_refresh_to_read(pd_store *s, pd_error *err)
{
  pd_disk_may_look();
  if (s->retention.must_reload || s->is_mending || s->is_claimed) return pd_refresh(s, err);
  uint64_t tail = s->ops->log_tail_hint(s->backend);
  return tail == s->log_seq ? PD_OK : refresh_up_to(s, tail, err);
}

void pd_see(pd_store *s, uint64_t seq)
{
  s->seen_seq = seq;
  __atomic_fetch_add(&s->published, 1, __ATOMIC_RELEASE);
}

pd_store_mark pd_store_newest(pd_store *s)
{
  return (pd_store_mark){__atomic_load_n(&s->published, __ATOMIC_ACQUIRE), s->ops->log_tail_hint(s->backend)};
}

bool pd_is_newest(pd_store *s)
{
  uint64_t tail;
  if (s->retention.must_reload) return false;
  return s->is_mending || s->is_claimed || (s->ops->log_tail(s->backend, &tail, NULL) == PD_OK && tail == s->log_seq);
}

pd_code pd_refresh_exactly(pd_store *s, pd_error *err)
{
  uint64_t tail;
  if (s->retention.must_reload || s->is_mending || s->is_claimed) return pd_refresh(s, err);
  TRY(s->ops->log_tail(s->backend, &tail, err));
  return tail == s->log_seq ? PD_OK : refresh_up_to(s, tail, err);
}

/* ---- opening ---- */

static pd_code adopt_ref(pd_store *s, const pd_catalog_ref *ref, pd_error *err)
{
  pd_ref_slot *slot;
  TRY(pd_slot_make(s, ref->name, &slot, err));
  pd_head head = {.commit = ref->commit,
                  .root_blob = ref->root_blob,
                  .has_blob = !ref->is_deleted && pd_catalog_has_root(ref),
                  .is_deleted = ref->is_deleted,
                  .last_seq = ref->last_seq,
                  .redo_seq = ref->redo_seq,
                  .updated_ms = ref->updated_ms};
  slot->seen = slot->tip = head;
  return PD_OK;
}

static pd_code adopt_keyframe(pd_store *s, const pd_rec *rec, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  CLEANUP(pd_catalog_done) pd_catalog catalog = {0};
  TRY(pd_load_blob(s, &rec->catalog, "a keyframe's catalog", &blob, err));
  TRY(pd_catalog_decode(pd_buf_bytes(&blob), &catalog, err));
  if (catalog.covers != rec->covers)
    return pd_error_set(err, PD_CORRUPT, "keyframe %llu covers another record than it says", (unsigned long long)rec->seq);
  for (size_t i = 0; i < catalog.ref_count; i++) TRY(adopt_ref(s, &catalog.refs[i], err));
  TRY(pd_index_reserve(s, catalog.frame_count + 1, err));
  for (size_t i = 0; i < catalog.frame_count; i++) pd_frame_add(s, &catalog.frames[i]);
  pd_catalog_frame frame = {rec->seq, rec->covers, rec->catalog, catalog.run};
  pd_frame_add(s, &frame);
  s->catalog_size = blob.size;
  s->catalog_slots = s->slot_count;
  memcpy(s->current, catalog.current, sizeof s->current);
  s->log_seq = s->tip_seq = catalog.covers;
  pd_see(s, catalog.covers);
  s->seen_audit = s->tip_audit = catalog.audit;
  s->seen_time_ms = s->tip_time_ms = catalog.time_ms;
  pd_version_adopt(s, rec);
  return PD_OK;
}

/* The keyframe at `seq`; for repair, the newest from there back that can be read, if any. */
static pd_code adopt_last_keyframe(pd_store *s, uint64_t seq, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  for (pd_rec rec; seq; seq = rec.keyframe_seq) {
    pd_error why;
    TRY(pd_record_at(s, seq, &scratch, &rec, err));
    if (rec.kind != PD_RECORD_KEYFRAME) return pd_error_set(err, PD_CORRUPT, "record %llu is no keyframe", (unsigned long long)seq);
    pd_code code = adopt_keyframe(s, &rec, &why);
    if (code == PD_CORRUPT && s->is_mending) continue;
    if (code && err) *err = why;
    return code;
  }
  return PD_OK;
}

static pd_code read_state(pd_store *s, uint64_t tail, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  strcpy(s->current, MAIN_REF);
  if (tail) {
    TRY(pd_record_at(s, tail, &scratch, &rec, err));
    TRY(adopt_last_keyframe(s, rec.kind == PD_RECORD_KEYFRAME ? tail : rec.keyframe_seq, err));
  }
  s->retention.is_stale = true;
  TRY(follow_log(s, err));
  if (s->log_seq < tail) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)s->log_seq + 1);
  return PD_OK;
}

/* Know nothing, as before an open. */
static void forget_state(pd_store *s)
{
  pd_past_forget(s);
  for (size_t i = 0; i < s->slot_count; i++) {
    pd_head_done(s, &s->slots[i]->seen);
    pd_head_done(s, &s->slots[i]->tip);
    s->slots[i]->seen = s->slots[i]->tip = (pd_head){.is_deleted = true};
  }
  pd_line_forget(s);
  pd_index_reset(s);
  pd_retention_done(s);
  s->log_seq = s->tip_seq = 0;
  pd_see(s, 0);
  s->seen_audit = s->tip_audit = (pd_id){{0}};
  s->seen_time_ms = s->tip_time_ms = 0;
  pd_version_forget(s);
}

/* The state as the log gives it now. A gc may sweep the keyframe that is being read: then there is a newer one. */
static pd_code read_anew(pd_store *s, pd_error *err)
{
  pd_error why = {.code = PD_OK};
  pd_code code = PD_RETIRED;
  for (int tries = 0; code == PD_RETIRED && tries < RELOAD_TRIES; tries++) {
    uint64_t tail;
    TRY(s->ops->log_tail(s->backend, &tail, err));
    forget_state(s);
    code = read_state(s, tail, &why);
  }
  if (code && err) *err = why;
  s->retention.must_reload = code != PD_OK;
  return code;
}

/* G3: begin again as an open does. Fails as a whole: nothing can be read or staged before it succeeded. */
static pd_code reload(pd_store *s, pd_error *err)
{
  s->retention.has_changed = true;
  s->retention.reload_count++;
  return read_anew(s, err);
}

/* The first record of a new store: `main` at the root commit. Somebody else may be first. */
static pd_code found_store(pd_store *s, bool must_exist, pd_error *err)
{
  if (s->is_read_only || must_exist) return pd_error_set(err, PD_NOT_FOUND, "the store of agent '%s' is empty", s->agent);
  bool is_buffered = s->is_buffered;
  s->is_buffered = false;
  pd_intent intent = {.kind = PD_RECORD_FORK, .ref = MAIN_REF, .at = "root"};
  pd_code code = pd_write(s, &intent, NULL, err);
  s->is_buffered = is_buffered;
  return code == PD_EXISTS ? PD_OK : code;
}

static pd_code set_options(pd_store *s, const char *agent, const pd_options *o, pd_error *err)
{
  TRY(pd_agent_check(agent, err));
  strcpy(s->agent, agent);
  const char *author = o->author ? o->author : agent;
  if (strnlen(author, PD_NOTE_SIZE_MAX + 1) > PD_NOTE_SIZE_MAX || !pd_utf8_check(pd_text(author)))
    return pd_error_set(err, PD_INVALID, "the author is not valid UTF-8 of at most %d bytes", PD_NOTE_SIZE_MAX);
  strcpy(s->author, author);
  s->is_read_only = o->is_read_only;
  s->flush_ms = o->flush_ms;
  s->is_buffered = o->flush_ms > 0;
  s->cache_size_max = o->cache_size_max ? o->cache_size_max : CACHE_SIZE_DEFAULT;
  if (s->cache_size_max < CACHE_SIZE_MIN) s->cache_size_max = CACHE_SIZE_MIN;
  if (s->tree.pool.spare_bytes_max) s->tree.pool.spare_bytes_max = s->cache_size_max / 4; /* what a large batch frees and needs again */
  s->value_size_max = o->value_size_max ? o->value_size_max : VALUE_SIZE_DEFAULT;
  if (s->value_size_max > VALUE_SIZE_LIMIT)
    return pd_error_set(err, PD_INVALID, "value_size_max is %zu, at most %zu is possible", s->value_size_max, VALUE_SIZE_LIMIT);
  s->now_ms = o->now_ms ? o->now_ms : pd_clock_now_ms;
  s->now_ctx = o->now_ctx;
  return PD_OK;
}

static pd_code open_backend(pd_store *s, const char *uri, const pd_options *o, pd_error *err)
{
  const char *rest;
  char place[PD_PLACE_SIZE];
  if (!uri) return pd_error_set(err, PD_INVALID, "the store's URI is missing");
  if (!o->joint) { /* a joint commit is of stores that are in the home (PLC-1) */
    pd_error why = {0};
    pd_code code = pd_store_placed(uri, s->agent, place, &why);
    if (code == PD_OK) uri = place;
    if (code && code != PD_NOT_FOUND && err) *err = why;
    if (code && code != PD_NOT_FOUND) return code;
  }
  TRY(pd_backend_find(uri, &s->ops, &rest, err));
  if (s->is_buffered && !s->ops->log_claim)
    return pd_error_set(
      err, PD_UNSUPPORTED,
      "a store of '%s' cannot be buffered by who opens it: nothing keeps other writers out while commits wait; open it with "
      "flush_ms 0 (a server buffers its own stores: store.flush in its perdure.toml)",
      s->ops->scheme);
  unsigned flags = o->is_read_only ? PD_BACKEND_OPEN_READ_ONLY : o->must_exist ? 0 : PD_BACKEND_CREATE;
  s->is_in_joint = o->joint != NULL;
  if (o->joint)
    TRY(pd_joint_backend(o->joint, uri, s->agent, flags, &s->backend, err));
  else {
    pd_code code = s->ops->open(rest, s->agent, flags, &s->backend, err);
    bool is_placed_since = code == PD_CONFLICT && uri != place && pd_store_placed(uri, s->agent, place, NULL) == PD_OK; /* PLC-3 */
    if (is_placed_since) return open_backend(s, uri, o, err);
    TRY(code);
  }
  if (s->ops->flags(s->backend) & PD_BACKEND_READ_ONLY) s->is_read_only = true;
  return PD_OK;
}

static pd_code choose_ref(pd_store *s, const char *name, pd_error *err)
{
  if (!name) name = s->current;
  TRY(pd_ref_check(name, err));
  strcpy(s->ref, name);
  pd_ref_slot *slot;
  return pd_slot_get(s, name, &slot, err);
}

static pd_code open_store(pd_store *s, const char *uri, const char *agent, const pd_options *o, pd_error *err)
{
  TRY(set_options(s, agent, o, err));
  TRY(open_backend(s, uri, o, err));
  pd_error why;
  pd_code code = read_anew(s, &why);
  if (s->is_mending) {
    if (code == PD_CORRUPT) s->trouble = why;
    if (!code || code == PD_CORRUPT) return PD_OK;
  }
  if (code && err) *err = why;
  if (code) return code;
  if (!s->log_seq) TRY(found_store(s, o->must_exist && !o->joint, err));
  return choose_ref(s, o->ref, err);
}

static void free_store(pd_store *s)
{
  pd_batch_clear(s, &s->pending);
  pd_batch_clear(s, &s->inflight);
  pd_batch *batches[] = {&s->pending, &s->inflight};
  for (size_t i = 0; i < COUNT_OF(batches); i++) {
    pd_buf_done(&batches[i]->bytes);
    free(batches[i]->staged);
    free(batches[i]->blobs);
  }
  pd_segments_trim(s, 0);
  free(s->segments);
  for (size_t i = 0; i < PD_PAST_COUNT; i++) pd_node_unref(&s->tree.pool, s->pasts[i].root);
  for (size_t i = 0; i < s->slot_count; i++) {
    pd_head_done(s, &s->slots[i]->seen);
    pd_head_done(s, &s->slots[i]->tip);
    free(s->slots[i]);
  }
  free(s->slots);
  pd_line_forget(s);
  pd_index_done(s);
  pd_retention_done(s);
  pd_buf_done(&s->evict_hand);
  pd_tree_done(&s->tree);
  if (s->backend) s->ops->close(s->backend);
  pthread_cond_destroy(&s->changed);
  pthread_cond_destroy(&s->work);
  pthread_mutex_destroy(&s->lock);
  for (size_t i = 0; i < PD_TURN_COUNT; i++) pthread_mutex_destroy(&s->turns[i]);
  free(s);
}

static pd_code make_store(const char *uri, const char *agent, const pd_options *options, bool is_mending, pd_store **out, pd_error *err)
{
  pd_store *s = calloc(1, sizeof *s);
  if (!s) return pd_error_memory(err, "a store");
  s->is_mending = is_mending;
  pthread_mutex_init(&s->lock, NULL);
  for (size_t i = 0; i < PD_TURN_COUNT; i++) pthread_mutex_init(&s->turns[i], NULL);
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&s->changed, &attr);
  pthread_cond_init(&s->work, &attr);
  pthread_condattr_destroy(&attr);
  pd_tree_init(&s->tree, pd_load_node, s);
  pd_code code = open_store(s, uri, agent, options, err);
  if (code) {
    free_store(s);
    return code;
  }
  pd_auto_gc_start(s);
  *out = s;
  return PD_OK;
}

pd_code pd_store_open(const char *uri, const char *agent, const pd_options *options, pd_store **out, pd_error *err)
{
  static const pd_options defaults;
  return make_store(uri, agent, options ? options : &defaults, false, out, err);
}

pd_code pd_store_open_mending(const char *uri, const char *agent, bool is_read_only, pd_store **out, pd_error *err)
{
  pd_options options = {.is_read_only = is_read_only, .must_exist = true};
  return make_store(uri, agent, &options, true, out, err);
}

/* ---- closing ---- */

pd_code pd_store_flush(pd_store *store, pd_error *err)
{
  pd_store_lock(store);
  pd_code code = pd_settle(store, err);
  pd_store_unlock(store);
  return code;
}

pd_code pd_store_writable(pd_store *store, pd_error *err)
{
  if (store->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", store->agent);
  return store->ops->health ? store->ops->health(store->backend, err) : PD_OK;
}

static bool closes_with_keyframe(pd_store *s)
{
  uint64_t covered = s->frame_count ? s->frames[s->frame_count - 1].covers : 0;
  bool is_long = s->log_seq - covered >= CLOSE_KEYFRAME_RECORDS || s->tail_bytes >= CLOSE_KEYFRAME_BYTES;
  return !s->is_read_only && s->commits && is_long && pd_keyframe_is_worth(s);
}

pd_code pd_store_close(pd_store *store, pd_error *err)
{
  if (!store) return PD_OK;
  pd_auto_gc_stop(store);
  pd_keeper_stop(store);
  pd_code code = pd_store_flush(store, err);
  /* derived data: the store is whole without it, so a failure is not the caller's */
  if (!code && closes_with_keyframe(store)) (void)!pd_keyframe_write(store, NULL);
  free_store(store);
  return code;
}

const char *pd_store_ref(pd_store *store)
{
  return store->ref;
}

/* ---- homes ---- */

static void take_name(void *ctx, const char *name)
{
  if (pd_agent_check(name, NULL) == PD_OK) pd_names_add(ctx, name); /* else a foreign file */
}

pd_code pd_home_agents(const char *uri, void (*visit)(void *ctx, const char *agent), void *ctx, pd_error *err)
{
  const pd_backend_ops *ops;
  const char *rest;
  TRY(pd_backend_find(uri, &ops, &rest, err));
  if (!ops->stores) return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot list its stores", ops->scheme);
  CLEANUP(pd_names_done) pd_names names = {0};
  TRY(ops->stores(rest, take_name, &names, err));
  TRY(pd_places_each(uri, take_name, &names, err));
  TRY(pd_names_check(&names, "a list of agents", err));
  pd_names_sort(&names);
  for (size_t i = 0; i < names.count; i++) visit(ctx, names.items[i]);
  return PD_OK;
}
