/*
 * perdure.c: `perdure:STORE-URI`: each save is a commit of the ref PD_SNAPSHOT_REF in the agent's own store, in pieces (pieces.h).
 *
 *  R1  Only pieces that differ from the ref's head are written, found by comparing ids: nothing is remembered between two saves.
 *  R2  A commit is made on the very head that was compared with; if another process was faster, compared again.
 *  R3  A ref without the piece `snapshot` has no snapshot yet; with other keys in it than `epoch`, it is somebody else's.
 *  R4  The key `epoch` of the ref is who may commit to it; by R2 it holds for the very head that the commit is made on. The epochs
 *      themselves are counted on a ref of their own, and it has to be the last one there, too: the snapshots' ref may be deleted, undone
 *      or reset, and then the epoch that is found in it is that of somebody who was taken over since.
 *  R5  The key `mark` says which save the snapshot is (storage_plugin.h, S11); by R2 it is that of the snapshot that is replaced.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/names.h"
#include "storage/builtin.h"
#include "storage/pieces.h"
#include "storage/seal.h"

#include <perdure/backend.h>
#include <stdio.h>
#include <stdlib.h>

#define STORES_MAX 16
#define CACHE_SIZE_MAX ((size_t)16 * 1024 * 1024) /* a store */
#define REASON "tick "
#define EPOCH_REF "agent-epoch"
#define EPOCH_KEY "epoch"
#define EPOCH_TEXT 24
#define MARK_KEY "mark"
#define MARK_TEXT 80

typedef struct open_store {
  char agent[PD_NAME_SIZE_MAX + 1];
  pd_store *store;
  uint64_t used; /* when it was last used */
} open_store;

typedef struct perdure_storage {
  char *uri;
  open_store stores[STORES_MAX];
  uint64_t clock;
} perdure_storage;

static void close_storage(void *handle)
{
  perdure_storage *s = handle;
  for (size_t i = 0; i < STORES_MAX; i++) pd_store_close(s->stores[i].store, NULL);
  free(s->uri);
  free(s);
}

static pd_code open_storage(const char *argument, void **out, pd_error *err)
{
  const pd_backend_ops *ops;
  const char *rest;
  TRY(pd_backend_find(argument, &ops, &rest, err));
  perdure_storage *s = calloc(1, sizeof *s);
  if (s) s->uri = strdup(argument);
  if (!s || !s->uri) {
    free(s);
    return pd_error_memory(err, "a storage");
  }
  *out = s;
  return PD_OK;
}

/* The agent's store, kept open; the one that was not used for the longest time makes room. */
static pd_code store_of(perdure_storage *s, const char *agent, bool must_exist, pd_store **out, pd_error *err)
{
  open_store *slot = &s->stores[0];
  for (size_t i = 0; i < STORES_MAX; i++) {
    open_store *at = &s->stores[i];
    if (at->store && strcmp(at->agent, agent) == 0) {
      at->used = ++s->clock;
      *out = at->store;
      return PD_OK;
    }
    if (slot->store && (!at->store || at->used < slot->used)) slot = at;
  }
  pd_options options = {.must_exist = must_exist, .cache_size_max = CACHE_SIZE_MAX};
  pd_store *store;
  TRY(pd_store_open(s->uri, agent, &options, &store, err));
  pd_store_close(slot->store, NULL); /* nothing is buffered in it */
  *slot = (open_store){.store = store, .used = ++s->clock};
  snprintf(slot->agent, sizeof slot->agent, "%s", agent);
  *out = store;
  return PD_OK;
}

static pd_code no_snapshot(const char *uri, const char *agent, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "no snapshot of agent '%s' in %.300s", agent, uri);
}

/* ---- saving -------------------------------------------------------------------------------------------------------- */

typedef struct old_piece {
  size_t key_at, key_size; /* in `keys` */
  pd_id id;
} old_piece;

typedef struct old_pieces {
  pd_buf keys;
  old_piece *items;
  size_t count, capacity;
} old_pieces;

static void old_pieces_done(old_pieces *old)
{
  pd_buf_done(&old->keys);
  free(old->items);
}

static pd_bytes old_key(const old_pieces *old, size_t index)
{
  return (pd_bytes){old->keys.data + old->items[index].key_at, old->items[index].key_size};
}

static bool is_piece_key(pd_bytes key)
{
  for (int kind = 0; kind < PD_PIECE_KINDS; kind++) {
    pd_bytes prefix = pd_text(pd_piece_prefix(kind));
    bool is_whole = kind == PD_PIECE_SNAPSHOT || kind == PD_PIECE_WINDOW;
    if (is_whole ? pd_bytes_equal(key, prefix) : pd_bytes_starts(key, prefix)) return true;
  }
  return false;
}

static void iter_done(pd_iter **iter)
{
  pd_iter_close(*iter);
}

static void view_done(pd_view **view)
{
  pd_view_close(*view);
}

/* A commit of the snapshot's ref. It most likely is the head, whose tree is in memory. */
static pd_code view_at(pd_store *store, const pd_commit *commit, pd_view **out, pd_error *err)
{
  CLEANUP(view_done) pd_view *view = NULL;
  bool is_open = !pd_view_open(store, PD_SNAPSHOT_REF, &view, NULL);
  if (!is_open || pd_view_commit(view).seq != commit->seq) return pd_view_open_commit(store, commit, out, err);
  *out = view;
  view = NULL;
  return PD_OK;
}

static pd_code read_old(pd_view *view, old_pieces *out, pd_error *err)
{
  CLEANUP(iter_done) pd_iter *iter = NULL;
  pd_scan scan = {.keys_only = true};
  pd_entry entry;
  pd_code code;
  TRY(pd_view_scan(view, &scan, &iter, err));
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    if (!is_piece_key(entry.key)) continue;
    TRY(pd_array_grow(&out->items, out->count, &out->capacity, sizeof *out->items, "the pieces of a snapshot", err));
    out->items[out->count++] = (old_piece){out->keys.size, entry.key.size, entry.value_id};
    TRY(pd_buf_append(&out->keys, entry.key.data, entry.key.size, err));
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* Give the entries of a list the numbers under which most of them are there already (P1). */
static pd_code number_list(pd_pieces *now, pd_piece_kind kind, const old_pieces *old, pd_error *err)
{
  pd_bytes prefix = pd_text(pd_piece_prefix(kind));
  size_t begin = 0, count = 0;
  while (begin < old->count && !pd_bytes_starts(old_key(old, begin), prefix)) begin++;
  while (begin + count < old->count && pd_bytes_starts(old_key(old, begin + count), prefix)) count++;
  if (!count) return PD_OK;
  pd_id *ids = calloc(count, sizeof *ids);
  if (!ids) return pd_error_memory(err, "the ids of a snapshot's pieces");
  for (size_t i = 0; i < count; i++) ids[i] = old->items[begin + i].id;
  pd_bytes key = old_key(old, begin);
  uint64_t first = 0;
  for (size_t i = prefix.size; i < key.size; i++) first = first * 10 + (((const uint8_t *)key.data)[i] - (unsigned)'0');
  now->first[kind] = first + pd_pieces_shift(ids, count, now->items + now->begin[kind], now->size[kind]);
  free(ids);
  if (now->first[kind] > PD_SNAPSHOT_NUMBER_MAX) now->first[kind] = 0; /* also if somebody put a key there that is no number */
  return PD_OK;
}

/* R1: both are in the order of their keys. */
static pd_code stage(pd_edit *edit, const pd_pieces *now, const old_pieces *old, pd_error *err)
{
  char text[PD_PIECE_KEY_MAX];
  size_t i = 0, o = 0;
  while (i < now->count || o < old->count) {
    pd_bytes key = i < now->count ? pd_pieces_key(now, i, text) : (pd_bytes){NULL, 0};
    int order = i == now->count ? 1 : o == old->count ? -1 : pd_bytes_compare(key, old_key(old, o));
    if (order > 0) {
      TRY(pd_edit_delete(edit, old_key(old, o), PD_ANY_VERSION, err));
    } else if (order < 0 || !pd_id_equal(&now->items[i].id, &old->items[o].id)) {
      TRY(pd_edit_put(edit, key, pd_pieces_value(now, i), PD_ANY_VERSION, err));
    }
    i += order <= 0;
    o += order >= 0;
  }
  return PD_OK;
}

static pd_code ensure_ref(pd_store *store, const char *name, const char *reason, pd_commit *out_head, pd_error *err)
{
  pd_ref ref;
  pd_note note = {.reason = reason};
  pd_code code = pd_ref_get(store, name, &ref, NULL);
  if (code == PD_NOT_FOUND) {
    code = pd_fork(store, name, "root", &note, NULL, err);
    if (code && code != PD_EXISTS) return code;
  }
  TRY(pd_ref_get(store, name, &ref, err));
  *out_head = ref.commit;
  return PD_OK;
}

static pd_code ensure_snapshots(pd_store *store, pd_commit *out_head, pd_error *err)
{
  return ensure_ref(store, PD_SNAPSHOT_REF, "for the agent's snapshots", out_head, err);
}

/* The epoch at a point; 0 if there is none. */
static pd_code read_epoch(pd_view *view, uint64_t *out, uint64_t *out_version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {.size_max = EPOCH_TEXT};
  pd_entry entry = {0};
  pd_code code = pd_view_get(view, pd_text(EPOCH_KEY), &value, &entry, err);
  *out = 0;
  if (out_version) *out_version = code == PD_OK ? entry.version : 0;
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  pd_json number;
  if (pd_json_parse(pd_buf_bytes(&value), &number, NULL) == PD_OK && pd_json_u64(number, out)) return PD_OK;
  pd_commit commit = pd_view_commit(view);
  char hex[PD_ID_HEX_SIZE];
  return pd_error_set(err, PD_CORRUPT, "the key '" EPOCH_KEY "' at commit %.12s holds no epoch", pd_id_hex(&commit.id, hex));
}

/* Of the ref that counts them; 0 if there is none. */
static pd_code last_epoch(pd_store *store, uint64_t *out, pd_error *err)
{
  CLEANUP(view_done) pd_view *view = NULL;
  pd_code code = pd_view_open(store, EPOCH_REF, &view, err);
  *out = 0;
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  return read_epoch(view, out, NULL, err);
}

/* Of a commit with a snapshot. */
static pd_code epoch_at(pd_store *store, const pd_commit *commit, uint64_t *out, uint64_t *out_version, pd_error *err)
{
  CLEANUP(view_done) pd_view *view = NULL;
  TRY(view_at(store, commit, &view, err));
  return read_epoch(view, out, out_version, err);
}

/* R5. The mark at a point; zeros if there is none. */
static pd_code read_mark(pd_view *view, pd_storage_mark *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {.size_max = MARK_TEXT};
  unsigned long long epoch, save, token;
  *out = (pd_storage_mark){0};
  pd_code code = pd_view_get(view, pd_text(MARK_KEY), &value, NULL, err);
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  TRY(pd_buf_byte(&value, 0, err));
  if (sscanf((const char *)value.data, "\"%llu %llu %llx\"", &epoch, &save, &token) != 3) {
    pd_commit commit = pd_view_commit(view);
    char hex[PD_ID_HEX_SIZE];
    return pd_error_set(err, PD_CORRUPT, "the key '" MARK_KEY "' at commit %.12s holds no mark", pd_id_hex(&commit.id, hex));
  }
  *out = (pd_storage_mark){epoch, save, token};
  return PD_OK;
}

static pd_code put_mark(pd_edit *edit, const pd_storage_mark *mark, pd_error *err)
{
  char text[MARK_TEXT];
  snprintf(text, sizeof text, "\"%llu %llu %llx\"", (unsigned long long)mark->epoch, (unsigned long long)mark->save,
           (unsigned long long)mark->token);
  return pd_edit_put(edit, pd_text(MARK_KEY), pd_text(text), PD_ANY_VERSION, err);
}

/* What is saved, after and instead of what. */
typedef struct saving {
  pd_pieces now;
  const pd_storage_mark *last, *next;
  char reason[64];
  bool is_there, is_over; /* it is stored already; trying again does not help */
} saving;

static void saving_done(saving *s)
{
  pd_pieces_done(&s->now);
}

/* R4. The head to commit to, if the save's epoch holds the agent; 0: in any case, and made if need be. */
static pd_code head_for(pd_store *store, saving *s, pd_commit *out, pd_error *err)
{
  pd_ref ref;
  uint64_t holds = 0, last = 0, epoch = s->next->epoch;
  if (!epoch) return ensure_snapshots(store, out, err);
  pd_code code = pd_ref_get(store, PD_SNAPSHOT_REF, &ref, err);
  if (!code) code = epoch_at(store, &ref.commit, &holds, NULL, err);
  if (!code || code == PD_NOT_FOUND) code = last_epoch(store, &last, err);
  if (code && code != PD_NOT_FOUND) return code;
  if (holds != epoch || last != epoch) {
    s->is_over = true;
    return pd_epoch_conflict(epoch, last != epoch ? last : holds, err);
  }
  *out = ref.commit;
  return PD_OK;
}

/* R5 */
static pd_code check_mark(pd_view *view, saving *s, pd_error *err)
{
  pd_storage_mark now;
  if (!s->last) return PD_OK;
  TRY(read_mark(view, &now, err));
  s->is_there = pd_mark_is(&now, s->next);
  if (s->is_there || pd_mark_is(&now, s->last)) return PD_OK;
  s->is_over = true;
  return pd_mark_conflict(s->next, &now, err);
}

static pd_code save_once(pd_store *store, saving *s, pd_error *err)
{
  CLEANUP(old_pieces_done) old_pieces old = {0};
  CLEANUP(view_done) pd_view *view = NULL;
  pd_commit head;
  pd_edit *edit = NULL;
  TRY(head_for(store, s, &head, err));
  TRY(view_at(store, &head, &view, err));
  TRY(check_mark(view, s, err));
  if (s->is_there) return PD_OK;
  TRY(read_old(view, &old, err));
  for (int kind = 0; pd_piece_is_list(kind); kind++) TRY(number_list(&s->now, kind, &old, err));
  pd_note note = {.ref = PD_SNAPSHOT_REF, .reason = s->reason, .expect_head = &head.id};
  TRY(pd_edit_begin(store, &note, &edit, err));
  pd_code code = stage(edit, &s->now, &old, err);
  if (!code) code = put_mark(edit, s->next, err);
  if (!code) code = pd_edit_commit(edit, NULL, err);
  if (code) pd_edit_abort(edit);
  return code;
}

static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  pd_store *store;
  pd_snapshot facts;
  pd_snapshot_parts parts;
  CLEANUP(saving_done) saving s = {.last = last, .next = next};
  TRY(pd_snapshot_split(snapshot, agent, &parts, &facts, err)); /* storage.c has checked it */
  TRY(pd_pieces_make(&parts, &s.now, err));
  TRY(store_of(handle, agent, false, &store, err));
  snprintf(s.reason, sizeof s.reason, REASON "%llu", (unsigned long long)facts.tick_index);
  pd_code code = PD_CONFLICT;
  while (code == PD_CONFLICT && !s.is_over) { /* lost to another's commit, which is on the disk then */
    memset(s.now.first, 0, sizeof s.now.first);
    code = save_once(store, &s, err); /* R2 */
  }
  return code;
}

/* ---- epochs -------------------------------------------------------------------------------------------------------- */

static pd_code put_epoch(pd_store *store, const char *ref, const pd_id *head, uint64_t version, uint64_t epoch, pd_error *err)
{
  char text[EPOCH_TEXT], reason[48];
  snprintf(text, sizeof text, "%llu", (unsigned long long)epoch);
  snprintf(reason, sizeof reason, "claimed by epoch %llu", (unsigned long long)epoch);
  pd_note note = {.ref = ref, .reason = reason, .expect_head = head};
  return pd_put_if(store, pd_text(EPOCH_KEY), pd_text(text), version, &note, NULL, err);
}

/* The next number. */
static pd_code count_epoch(pd_store *store, uint64_t *out, pd_error *err)
{
  pd_code code = PD_CONFLICT;
  while (code == PD_CONFLICT) {
    pd_commit head;
    uint64_t last, version;
    TRY(ensure_ref(store, EPOCH_REF, "counts who claimed the agent", &head, err));
    TRY(epoch_at(store, &head, &last, &version, err));
    uint64_t next = pd_epoch_after(last);
    code = put_epoch(store, EPOCH_REF, &head.id, version, next, err);
    if (!code) *out = next;
  }
  return code;
}

/* From the moment that the snapshots' ref says so nobody else commits to it. If a later claim was there first, that one holds. */
static pd_code claim(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  pd_store *store;
  uint64_t mine, holds, version;
  TRY(store_of(handle, agent, false, &store, err));
  TRY(count_epoch(store, &mine, err));
  pd_code code = PD_CONFLICT;
  while (code == PD_CONFLICT) {
    pd_commit head;
    TRY(ensure_snapshots(store, &head, err));
    TRY(epoch_at(store, &head, &holds, &version, err));
    code = holds < mine ? put_epoch(store, PD_SNAPSHOT_REF, &head.id, version, mine, err) : PD_OK;
  }
  if (!code) *out = mine;
  return code;
}

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out, pd_error *err)
{
  pd_store *store;
  pd_ref ref;
  *out = 0;
  pd_code code = store_of(handle, agent, true, &store, err);
  if (!code) code = pd_ref_get(store, EPOCH_REF, &ref, err);
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  return last_epoch(store, out, err);
}

/* ---- loading ------------------------------------------------------------------------------------------------------- */

typedef struct reader {
  pd_view *view;
  pd_iter *iter; /* over the pieces of `kind` */
  pd_piece_kind kind;
} reader;

static void reader_done(reader *r)
{
  pd_iter_close(r->iter);
}

static pd_code next_piece(void *ctx, pd_piece_kind kind, pd_bytes *out_name, pd_bytes *out_value, pd_error *err)
{
  reader *r = ctx;
  pd_entry entry;
  pd_bytes prefix = pd_text(pd_piece_prefix(kind));
  if (!r->iter || r->kind != kind) {
    pd_scan scan = {.prefix = prefix};
    pd_iter_close(r->iter);
    r->iter = NULL;
    r->kind = kind;
    TRY(pd_view_scan(r->view, &scan, &r->iter, err));
  }
  TRY(pd_iter_next(r->iter, &entry, out_value, err));
  *out_name = (pd_bytes){(const uint8_t *)entry.key.data + prefix.size, entry.key.size - prefix.size};
  return PD_OK;
}

/* R3 */
static pd_code check_empty(const char *uri, pd_view *view, const char *agent, pd_error *err)
{
  CLEANUP(iter_done) pd_iter *iter = NULL;
  pd_scan scan = {.keys_only = true};
  pd_entry entry;
  TRY(pd_view_scan(view, &scan, &iter, err));
  pd_code code;
  do code = pd_iter_next(iter, &entry, NULL, err);
  while (!code && pd_bytes_equal(entry.key, pd_text(EPOCH_KEY)));
  if (code == PD_NOT_FOUND) return no_snapshot(uri, agent, err);
  if (code) return code;
  return pd_error_set(err, PD_CORRUPT, "the ref '%s' of agent '%s' in %.200s has keys, but no snapshot", PD_SNAPSHOT_REF, agent, uri);
}

/* The snapshot of a commit: all of its pieces are of one moment, whatever is saved meanwhile. */
static pd_code load_from(const char *uri, pd_view *view, const char *agent, pd_storage_take take, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf frame = {0}, window = {0}, document = {.size_max = 2 * PD_SNAPSHOT_SIZE_MAX};
  CLEANUP(reader_done) reader r = {.view = view};
  pd_code code = pd_view_get(view, pd_text(pd_piece_prefix(PD_PIECE_SNAPSHOT)), &frame, NULL, err);
  if (code == PD_NOT_FOUND) return check_empty(uri, view, agent, err);
  if (code) return code;
  code = pd_view_get(view, pd_text(pd_piece_prefix(PD_PIECE_WINDOW)), &window, NULL, err);
  if (code == PD_NOT_FOUND) return pd_error_set(err, PD_CORRUPT, "the snapshot of agent '%s' has no piece 'window'", agent);
  if (code) return code;
  TRY(pd_pieces_join(pd_buf_bytes(&frame), pd_buf_bytes(&window), next_piece, &r, &document, err));
  return take(ctx, pd_buf_bytes(&document), err);
}

/* The store and the head of the ref. PD_NOT_FOUND speaks of the snapshot: nothing is made. */
static pd_code find_head(perdure_storage *s, const char *agent, pd_store **out, pd_ref *out_ref, pd_error *err)
{
  pd_code code = store_of(s, agent, true, out, err);
  if (!code) code = pd_ref_get(*out, PD_SNAPSHOT_REF, out_ref, err);
  return code == PD_NOT_FOUND ? no_snapshot(s->uri, agent, err) : code;
}

static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  perdure_storage *s = handle;
  CLEANUP(view_done) pd_view *view = NULL;
  pd_store *store;
  pd_ref ref;
  TRY(find_head(handle, agent, &store, &ref, err));
  TRY(view_at(store, &ref.commit, &view, err));
  TRY(read_mark(view, out_mark, err));
  return load_from(s->uri, view, agent, take, ctx, err);
}

static pd_code take_whole(void *ctx, pd_bytes document, pd_error *err)
{
  return pd_buf_append(ctx, document.data, document.size, err);
}

pd_code pd_storage_load_store(pd_store *store, const char *agent_id, pd_buf *out, pd_error *err)
{
  static const char where[] = "its own store";
  CLEANUP(view_done) pd_view *view = NULL;
  pd_buf_clear(out);
  pd_code code = pd_view_open(store, PD_SNAPSHOT_REF, &view, err);
  if (code == PD_NOT_FOUND) return no_snapshot(where, agent_id, err);
  TRY(code);
  return load_from(where, view, agent_id, take_whole, out, err);
}

/* Is there something stored: not only a ref that a claim made, or a crash left without its first commit. */
static pd_code has_snapshot(perdure_storage *s, const char *agent, bool *out, pd_error *err)
{
  CLEANUP(view_done) pd_view *view = NULL;
  pd_store *store;
  pd_ref ref;
  *out = false;
  pd_code code = find_head(s, agent, &store, &ref, err);
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  TRY(view_at(store, &ref.commit, &view, err));
  code = check_empty(s->uri, view, agent, err);
  *out = code == PD_CORRUPT; /* it has keys */
  return code == PD_CORRUPT || code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code remove_ref(void *handle, const char *agent, pd_error *err)
{
  perdure_storage *s = handle;
  pd_store *store;
  pd_ref ref;
  pd_note note = {.reason = "snapshot deleted"};
  bool is_there;
  uint64_t epoch;
  TRY(has_snapshot(handle, agent, &is_there, err));
  if (!is_there) return no_snapshot(s->uri, agent, err);
  TRY(find_head(handle, agent, &store, &ref, err));
  TRY(last_epoch(store, &epoch, err));
  if (epoch) TRY(count_epoch(store, &epoch, err)); /* whoever held it does not any more */
  pd_code code = pd_ref_delete(store, PD_SNAPSHOT_REF, &note, err);
  return code == PD_NOT_FOUND ? no_snapshot(s->uri, agent, err) : code;
}

/* ---- all of them --------------------------------------------------------------------------------------------------- */

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  perdure_storage *s = handle;
  CLEANUP(pd_names_done) pd_names all = {0};
  pd_code code = pd_home_agents(s->uri, pd_names_take, &all, err);
  if (code == PD_NOT_FOUND) return PD_OK; /* no home yet */
  TRY(code);
  TRY(pd_names_check(&all, "a list of agents", err));
  for (size_t i = 0; i < all.count; i++) {
    bool is_there;
    TRY(has_snapshot(s, all.items[i], &is_there, err));
    if (is_there) TRY(visit(ctx, all.items[i], err));
  }
  return PD_OK;
}

static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  perdure_storage *s = handle;
  pd_stats stats = {.is_durable = strncmp(s->uri, "sqlite:", 7) == 0};
  bool is_known = stats.is_durable || strncmp(s->uri, "memory:", 7) == 0;
  for (size_t i = 0; i < STORES_MAX; i++) {
    if (!s->stores[i].store) continue;
    TRY(pd_store_stats(s->stores[i].store, &stats, err));
    is_known = true;
    break;
  }
  out->lasting = !is_known ? PD_LASTS_UNKNOWN : stats.is_durable ? PD_LASTS_POWER : PD_LASTS_MEMORY;
  snprintf(out->detail, sizeof out->detail, "%s",
           !is_known          ? "known once the first store is open"
           : stats.is_durable ? "each save is a commit that is synced before the save returns"
                              : "the store is in the memory of this process");
  return PD_OK;
}

/* ---- ticks --------------------------------------------------------------------------------------------------------- */

typedef struct tick_walk {
  pd_storage_tick_visit visit; /* or find one: */
  void *ctx;
  uint64_t wanted;
  bool is_found;
  pd_commit commit;
} tick_walk;

static bool tick_of(const pd_record *record, uint64_t *out)
{
  unsigned long long tick;
  char behind;
  if (record->kind != PD_RECORD_COMMIT || sscanf(record->reason, REASON "%llu%c", &tick, &behind) != 1) return false;
  *out = tick;
  return true;
}

static bool visit_record(void *ctx, const pd_record *record)
{
  tick_walk *w = ctx;
  uint64_t tick;
  char hex[PD_ID_HEX_SIZE];
  if (!tick_of(record, &tick)) return true;
  if (w->visit) {
    pd_storage_tick told = {tick, record->time_ms, pd_id_hex(&record->commit.id, hex)};
    return w->visit(w->ctx, &told);
  }
  if (tick != w->wanted) return true;
  w->is_found = true;
  w->commit = record->commit;
  return false;
}

static pd_code ticks(void *handle, const char *agent, pd_storage_tick_visit visit, void *ctx, pd_error *err)
{
  pd_store *store;
  pd_ref ref;
  tick_walk walk = {.visit = visit, .ctx = ctx};
  pd_log_query query = {.at = PD_SNAPSHOT_REF};
  TRY(find_head(handle, agent, &store, &ref, err));
  return pd_log(store, &query, visit_record, &walk, err);
}

static pd_code load_tick(void *handle, const char *agent, uint64_t tick_index, pd_storage_take take, void *ctx, pd_error *err)
{
  perdure_storage *s = handle;
  CLEANUP(view_done) pd_view *view = NULL;
  pd_store *store;
  pd_ref ref;
  tick_walk walk = {.wanted = tick_index};
  pd_log_query query = {.at = PD_SNAPSHOT_REF};
  TRY(find_head(handle, agent, &store, &ref, err));
  TRY(pd_log(store, &query, visit_record, &walk, err));
  if (!walk.is_found) {
    return pd_error_set(err, PD_NOT_FOUND, "agent '%s' has no snapshot of tick %llu", agent, (unsigned long long)tick_index);
  }
  TRY(pd_view_open_commit(store, &walk.commit, &view, err));
  return load_from(s->uri, view, agent, take, ctx, err);
}

const pd_storage_ops pd_storage_perdure = {
  .abi = PD_STORAGE_ABI,
  .name = "perdure",
  .open = open_storage,
  .close = close_storage,
  .remove = remove_ref,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
  .ticks = ticks,
  .load_tick = load_tick,
  .save_next = save_next,
  .load_marked = load_marked,
};
