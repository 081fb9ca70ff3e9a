/*
 * memory.c: the backend `memory:` (private to one handle) and `memory:NAME` (shared by the handles of this process).
 *
 * Place: a backend (backend.h). Claims no PD_BACKEND_LASTS: nothing survives the last handle.
 * Invariants:
 *  M1  A record or blob is a block that never changes and counts its holders: the store while it is in, and each reader that copies or
 *      visits it unlocked. So a redaction or a sweep takes nothing from under a reader.
 *  M2  `tail` is stored last: who reads it finds the records up to it.
 *  M3  A blob counts as put at the moment in `put_at`; a mark ends a moment, so what is put later is past it.
 *  M4  A shared store is in `shared` exactly while it has a handle. A gc_lock counts as one.
 */
#include "backend/builtin.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct block {
  size_t holder_count; /* atomic */
  size_t size;
  uint8_t data[];
} block;

typedef struct blob {
  pd_id id;
  block *data; /* NULL: a free slot */
  uint64_t put_at;
} blob;

typedef struct memory_handle memory_handle;

typedef struct memory_gc_lock {
  struct memory_gc_lock *next; /* of the store */
  struct memory_store *store;
  int64_t end_ms; /* INT64_MAX: it is exclusive */
} memory_gc_lock;

typedef struct memory_store {
  struct memory_store *next; /* in `shared` */
  char *name;                /* NULL: private */
  char *store;
  size_t handle_count; /* under shared_lock */
  pthread_mutex_t lock;
  pthread_cond_t unclaimed;
  pthread_cond_t appended;
  const memory_handle *claimed_by;
  block **records;
  size_t record_capacity;
  uint64_t tail; /* atomic for log_tail_hint */
  blob *blobs;   /* open addressing, capacity a power of two, at most half full */
  size_t blob_count, blob_capacity;
  uint64_t moment; /* how many marks were given, and one */
  uint64_t log_bytes, bag_bytes;
  memory_gc_lock *gc_locks;
} memory_store;

struct memory_handle {
  pd_backend base;
  memory_store *store;
  unsigned flags;
};

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static memory_store *shared;

static pd_code block_new(pd_bytes from, block **out, pd_error *err)
{
  block *b = malloc(sizeof *b + from.size);
  if (!b) return pd_error_memory(err, "a record or blob in memory");
  b->holder_count = 1;
  b->size = from.size;
  if (from.size) memcpy(b->data, from.data, from.size);
  *out = b;
  return PD_OK;
}

static block *block_hold(block *b)
{
  if (b) __atomic_add_fetch(&b->holder_count, 1, __ATOMIC_RELAXED);
  return b;
}

static void block_drop(block *b)
{
  if (b && __atomic_sub_fetch(&b->holder_count, 1, __ATOMIC_ACQ_REL) == 0) free(b);
}

static void store_free(memory_store *s)
{
  if (!s) return;
  for (uint64_t i = 0; i < s->tail; i++) block_drop(s->records[i]);
  for (size_t i = 0; i < s->blob_capacity; i++) block_drop(s->blobs[i].data);
  free(s->records);
  free(s->blobs);
  free(s->name);
  free(s->store);
  pthread_cond_destroy(&s->appended);
  pthread_cond_destroy(&s->unclaimed);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static memory_store *store_new(const char *name, const char *store)
{
  memory_store *s = calloc(1, sizeof *s);
  pthread_condattr_t forward; /* who waits must not care when somebody sets the clock */
  if (!s) return NULL;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->unclaimed, NULL);
  pthread_condattr_init(&forward);
  pthread_condattr_setclock(&forward, CLOCK_MONOTONIC);
  pthread_cond_init(&s->appended, &forward);
  pthread_condattr_destroy(&forward);
  s->moment = 1;
  s->store = strdup(store);
  if (*name) s->name = strdup(name);
  if (s->store && (s->name || !*name)) return s;
  store_free(s);
  return NULL;
}

/* Under shared_lock. */
static memory_store *store_find(const char *name, const char *store)
{
  if (!*name) return NULL;
  for (memory_store *s = shared; s; s = s->next) {
    if (strcmp(s->name, name) == 0 && strcmp(s->store, store) == 0) return s;
  }
  return NULL;
}

/* Under shared_lock. */
static pd_code store_take(const char *name, const char *store, unsigned flags, memory_store **out, pd_error *err)
{
  memory_store *s = store_find(name, store);
  if (!s && !(flags & PD_BACKEND_CREATE)) return pd_error_set(err, PD_NOT_FOUND, "no store '%s' in memory:%.100s", store, name);
  if (!s) {
    s = store_new(name, store);
    if (!s) return pd_error_memory(err, "a memory store");
    if (s->name) s->next = shared, shared = s;
  }
  s->handle_count++;
  *out = s;
  return PD_OK;
}

static pd_code memory_open(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  memory_handle *h = calloc(1, sizeof *h);
  if (!h) return pd_error_memory(err, "a memory store");
  h->base.ops = &pd_memory_ops;
  h->flags = flags & PD_BACKEND_OPEN_READ_ONLY ? PD_BACKEND_READ_ONLY : 0;
  if (h->flags & PD_BACKEND_READ_ONLY) flags &= ~PD_BACKEND_CREATE;
  pthread_mutex_lock(&shared_lock);
  pd_code code = store_take(rest, store, flags, &h->store, err);
  pthread_mutex_unlock(&shared_lock);
  if (code != PD_OK) {
    free(h);
    return code;
  }
  *out = &h->base;
  return PD_OK;
}

static void memory_release(pd_backend *b)
{
  memory_handle *h = (memory_handle *)b;
  pthread_mutex_lock(&h->store->lock);
  if (h->store->claimed_by == h) {
    h->store->claimed_by = NULL;
    pthread_cond_broadcast(&h->store->unclaimed);
  }
  pthread_mutex_unlock(&h->store->lock);
}

static void store_let(memory_store *s)
{
  pthread_mutex_lock(&shared_lock);
  bool is_last = --s->handle_count == 0;
  if (is_last && s->name) {
    memory_store **link = &shared;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
  }
  pthread_mutex_unlock(&shared_lock);
  if (is_last) store_free(s);
}

static void memory_close(pd_backend *b)
{
  if (!b) return;
  memory_handle *h = (memory_handle *)b;
  memory_release(b);
  store_let(h->store);
  free(h);
}

static unsigned memory_flags(const pd_backend *b)
{
  return ((const memory_handle *)b)->flags;
}

/* Lock for writing: waits for another handle's claim to end. */
static pd_code write_begin(memory_handle *h, pd_error *err)
{
  if (h->flags & PD_BACKEND_READ_ONLY) return pd_error_set(err, PD_READ_ONLY, "store '%s' was opened read-only", h->store->store);
  pthread_mutex_lock(&h->store->lock);
  while (h->store->claimed_by && h->store->claimed_by != h) pthread_cond_wait(&h->store->unclaimed, &h->store->lock);
  return PD_OK;
}

static pd_code records_reserve(memory_store *s, size_t more, pd_error *err)
{
  size_t need = (size_t)s->tail + more;
  if (need <= s->record_capacity) return PD_OK;
  size_t capacity = s->record_capacity ? s->record_capacity : 64;
  while (capacity < need) capacity *= 2;
  block **records = reallocarray(s->records, capacity, sizeof *records);
  if (!records) return pd_error_memory(err, "a log in memory");
  s->records = records;
  s->record_capacity = capacity;
  return PD_OK;
}

/* All or none. */
static pd_code make_blocks(const pd_bytes *records, size_t count, block **out, pd_error *err)
{
  for (size_t i = 0; i < count; i++) {
    pd_code code = block_new(records[i], &out[i], err);
    if (code == PD_OK) continue;
    while (i > 0) block_drop(out[--i]);
    return code;
  }
  return PD_OK;
}

static pd_code append_locked(memory_store *s, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  if (seq <= s->tail) return pd_error_conflict(err, seq, s->tail + 1, "record %llu of '%s' is taken", (unsigned long long)seq, s->store);
  if (seq > s->tail + 1) {
    return pd_error_set(err, PD_INVALID, "record %llu of '%s' would leave a gap after %llu", (unsigned long long)seq, s->store,
                        (unsigned long long)s->tail);
  }
  TRY(records_reserve(s, count, err));
  TRY(make_blocks(records, count, s->records + s->tail, err));
  for (size_t i = 0; i < count; i++) s->log_bytes += records[i].size;
  __atomic_store_n(&s->tail, s->tail + count, __ATOMIC_RELEASE);
  pthread_cond_broadcast(&s->appended);
  return PD_OK;
}

static pd_code memory_log_append(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  memory_handle *h = (memory_handle *)b;
  if (!seq || !count) return pd_error_set(err, PD_INVALID, "an append needs a number from 1 and at least one record");
  TRY(write_begin(h, err));
  pd_code code = append_locked(h->store, seq, records, count, err);
  pthread_mutex_unlock(&h->store->lock);
  return code;
}

static pd_code memory_log_read(pd_backend *b, uint64_t from, uint64_t to, pd_log_visit visit, void *ctx, pd_error *err)
{
  memory_store *s = ((memory_handle *)b)->store;
  if (!from) return pd_error_set(err, PD_INVALID, "records are numbered from 1");
  for (uint64_t seq = from; seq <= to; seq++) {
    pthread_mutex_lock(&s->lock);
    bool is_there = seq <= s->tail;
    block *record = is_there ? block_hold(s->records[seq - 1]) : NULL;
    pthread_mutex_unlock(&s->lock);
    if (!is_there) break;
    pd_code code = visit(ctx, seq, (pd_bytes){record->data, record->size}, err);
    block_drop(record);
    TRY(code);
  }
  return PD_OK;
}

static uint64_t memory_log_tail_hint(pd_backend *b)
{
  return __atomic_load_n(&((memory_handle *)b)->store->tail, __ATOMIC_ACQUIRE);
}

static pd_code memory_log_tail(pd_backend *b, uint64_t *out_seq, pd_error *err)
{
  (void)err;
  *out_seq = memory_log_tail_hint(b);
  return PD_OK;
}

/* The slot that holds `id`, or the free one where it belongs. The table is never full. */
static blob *slot_of(blob *blobs, size_t capacity, const pd_id *id)
{
  uint64_t hash;
  memcpy(&hash, id->bytes, sizeof hash);
  for (size_t i = (size_t)hash & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
    if (!blobs[i].data || pd_id_equal(&blobs[i].id, id)) return &blobs[i];
  }
}

static pd_code blobs_reserve(memory_store *s, size_t more, pd_error *err)
{
  size_t capacity = s->blob_capacity ? s->blob_capacity : 64;
  while (capacity / 2 < s->blob_count + more) capacity *= 2;
  if (capacity == s->blob_capacity) return PD_OK;
  blob *blobs = calloc(capacity, sizeof *blobs);
  if (!blobs) return pd_error_memory(err, "a bag in memory");
  for (size_t i = 0; i < s->blob_capacity; i++) {
    if (s->blobs[i].data) *slot_of(blobs, capacity, &s->blobs[i].id) = s->blobs[i];
  }
  free(s->blobs);
  s->blobs = blobs;
  s->blob_capacity = capacity;
  return PD_OK;
}

static pd_code put_locked(memory_store *s, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err)
{
  TRY(blobs_reserve(s, count, err));
  for (size_t i = 0; i < count; i++) {
    blob *slot = slot_of(s->blobs, s->blob_capacity, &ids[i]);
    slot->put_at = s->moment;
    if (slot->data) continue;
    TRY(block_new(blobs[i], &slot->data, err)); /* what went in before stays: whole blobs under their ids do no harm */
    slot->id = ids[i];
    s->blob_count++;
    s->bag_bytes += blobs[i].size;
  }
  return PD_OK;
}

static pd_code memory_bag_put(pd_backend *b, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err)
{
  memory_handle *h = (memory_handle *)b;
  TRY(write_begin(h, err));
  pd_code code = put_locked(h->store, ids, blobs, count, err);
  pthread_mutex_unlock(&h->store->lock);
  return code;
}

static pd_code memory_bag_get(pd_backend *b, const pd_id *id, pd_buf *out, pd_error *err)
{
  memory_store *s = ((memory_handle *)b)->store;
  pthread_mutex_lock(&s->lock);
  block *found = s->blob_capacity ? block_hold(slot_of(s->blobs, s->blob_capacity, id)->data) : NULL;
  pthread_mutex_unlock(&s->lock);
  char hex[PD_ID_HEX_SIZE];
  if (!found) return pd_error_set(err, PD_NOT_FOUND, "no blob %s in '%s'", pd_id_hex(id, hex), s->store);
  pd_code code = pd_buf_append(out, found->data, found->size, err);
  block_drop(found);
  return code;
}

static pd_code memory_log_claim(pd_backend *b, pd_error *err)
{
  memory_handle *h = (memory_handle *)b;
  memory_store *s = h->store;
  if (h->flags & PD_BACKEND_READ_ONLY) return pd_error_set(err, PD_READ_ONLY, "store '%s' was opened read-only", s->store);
  pthread_mutex_lock(&s->lock);
  while (s->claimed_by) pthread_cond_wait(&s->unclaimed, &s->lock);
  s->claimed_by = h;
  pthread_mutex_unlock(&s->lock);
  return PD_OK;
}

/* ---- taking away, and waiting ------------------------------------------------------------------------------------- */

static pd_code redact_locked(memory_store *s, uint64_t seq, block **fresh, size_t count, pd_error *err)
{
  if (seq > s->tail || count > s->tail - seq + 1) {
    return pd_error_set(err, PD_INVALID, "record %llu of '%s' cannot be redacted, the log ends at %llu",
                        (unsigned long long)(seq + count - 1), s->store, (unsigned long long)s->tail);
  }
  for (size_t i = 0; i < count; i++) {
    block **slot = &s->records[seq - 1 + i], *old = *slot;
    s->log_bytes += fresh[i]->size - old->size;
    *slot = fresh[i];
    fresh[i] = old;
  }
  return PD_OK;
}

static pd_code memory_log_redact(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  memory_handle *h = (memory_handle *)b;
  if (!seq || !count) return pd_error_set(err, PD_INVALID, "a redaction needs a number from 1 and at least one record");
  block **fresh = calloc(count, sizeof *fresh);
  if (!fresh) return pd_error_memory(err, "a redaction");
  pd_code code = make_blocks(records, count, fresh, err);
  if (code == PD_OK) {
    code = write_begin(h, err);
    if (code == PD_OK) {
      code = redact_locked(h->store, seq, fresh, count, err);
      pthread_mutex_unlock(&h->store->lock);
    }
    for (size_t i = 0; i < count; i++) block_drop(fresh[i]); /* the old ones if it worked, else the new */
  }
  free(fresh);
  return code;
}

static bool is_block(const block *b, pd_bytes bytes)
{
  return b->size == bytes.size && (!bytes.size || memcmp(b->data, bytes.data, bytes.size) == 0);
}

static pd_code swap_locked(memory_store *s, const pd_log_swap *swaps, block **fresh, size_t count, pd_error *err)
{
  for (size_t i = 0; i < count; i++) {
    if (!swaps[i].seq || swaps[i].seq > s->tail || (i && swaps[i].seq <= swaps[i - 1].seq))
      return pd_error_set(err, PD_INVALID, "record %llu of '%s' cannot be redacted now, the log ends at %llu",
                          (unsigned long long)swaps[i].seq, s->store, (unsigned long long)s->tail);
    if (!is_block(s->records[swaps[i].seq - 1], swaps[i].was))
      return pd_error_set(err, PD_CONFLICT, "record %llu of '%s' was redacted by somebody else", (unsigned long long)swaps[i].seq,
                          s->store);
  }
  for (size_t i = 0; i < count; i++) {
    block **slot = &s->records[swaps[i].seq - 1], *old = *slot;
    s->log_bytes += fresh[i]->size - old->size;
    *slot = fresh[i];
    fresh[i] = old;
  }
  return PD_OK;
}

static pd_code swap_blocks(memory_handle *h, const pd_log_swap *swaps, const pd_bytes *now, block **fresh, size_t count, pd_error *err)
{
  TRY(make_blocks(now, count, fresh, err));
  pd_code code = write_begin(h, err);
  if (code == PD_OK) {
    code = swap_locked(h->store, swaps, fresh, count, err);
    pthread_mutex_unlock(&h->store->lock);
  }
  for (size_t i = 0; i < count; i++) block_drop(fresh[i]); /* the old ones if it worked, else the new */
  return code;
}

static pd_code memory_log_swap(pd_backend *b, const pd_log_swap *swaps, size_t count, pd_error *err)
{
  if (!count) return pd_error_set(err, PD_INVALID, "a redaction needs at least one record");
  block **fresh = calloc(count, sizeof *fresh);
  pd_bytes *now = calloc(count, sizeof *now);
  pd_code code = fresh && now ? PD_OK : pd_error_memory(err, "a redaction");
  for (size_t i = 0; !code && i < count; i++) now[i] = swaps[i].now;
  if (!code) code = swap_blocks((memory_handle *)b, swaps, now, fresh, count, err);
  free(fresh);
  free(now);
  return code;
}

static pd_code memory_bag_mark(pd_backend *b, uint64_t *out_mark, pd_error *err)
{
  memory_handle *h = (memory_handle *)b;
  TRY(write_begin(h, err));
  *out_mark = h->store->moment++;
  pthread_mutex_unlock(&h->store->lock);
  return PD_OK;
}

/* What stays moves to a new table: taking entries out of this one would tear the chains that pass them. */
static pd_code sweep_locked(memory_store *s, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id), void *ctx, uint64_t *out_bytes,
                            pd_error *err)
{
  if (mark >= s->moment) return pd_error_set(err, PD_INVALID, "'%s' never gave the mark %llu", s->store, (unsigned long long)mark);
  blob *left = calloc(s->blob_capacity ? s->blob_capacity : 1, sizeof *left);
  if (!left) return pd_error_memory(err, "a bag in memory");
  uint64_t bytes = 0;
  for (size_t i = 0; i < s->blob_capacity; i++) {
    const blob *each = &s->blobs[i];
    if (!each->data) continue;
    if (each->put_at > mark || keep(ctx, &each->id)) {
      *slot_of(left, s->blob_capacity, &each->id) = *each;
      continue;
    }
    bytes += each->data->size;
    s->blob_count--;
    block_drop(each->data);
  }
  free(s->blobs);
  s->blobs = left;
  s->bag_bytes -= bytes;
  *out_bytes = bytes;
  return PD_OK;
}

static pd_code memory_bag_sweep(pd_backend *b, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id), void *ctx, uint64_t *out_bytes,
                                pd_error *err)
{
  memory_handle *h = (memory_handle *)b;
  TRY(write_begin(h, err));
  pd_code code = sweep_locked(h->store, mark, keep, ctx, out_bytes, err);
  pthread_mutex_unlock(&h->store->lock);
  return code;
}

/* There are no files, and blocks are freed when they are taken away. */
static pd_code memory_compact(pd_backend *b, pd_error *err)
{
  memory_handle *h = (memory_handle *)b;
  TRY(write_begin(h, err));
  pthread_mutex_unlock(&h->store->lock);
  return PD_OK;
}

static pd_code memory_log_wait(pd_backend *b, uint64_t after, uint32_t timeout_ms, pd_error *err)
{
  memory_store *s = ((memory_handle *)b)->store;
  struct timespec end;
  (void)err;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += timeout_ms / 1000 + (end.tv_nsec + (long)(timeout_ms % 1000) * 1000000) / 1000000000;
  end.tv_nsec = (end.tv_nsec + (long)(timeout_ms % 1000) * 1000000) % 1000000000;
  pthread_mutex_lock(&s->lock);
  while (s->tail <= after && pthread_cond_timedwait(&s->appended, &s->lock, &end) != ETIMEDOUT) continue;
  pthread_mutex_unlock(&s->lock);
  return PD_OK;
}

static pd_code gc_lock_locked(memory_store *s, memory_gc_lock *lock, pd_error *err)
{
  int64_t now = pd_clock_monotonic_ms();
  bool is_exclusive = lock->end_ms == INT64_MAX;
  for (const memory_gc_lock *l = s->gc_locks; l; l = l->next)
    if (is_exclusive ? l->end_ms > now : l->end_ms == INT64_MAX) return pd_error_set(err, PD_CONFLICT, "store '%s' is locked", s->store);
  lock->next = s->gc_locks;
  s->gc_locks = lock;
  return PD_OK;
}

static pd_code memory_gc_lock_take(pd_backend *b, uint32_t shared_ms, void **out_lock, pd_error *err)
{
  const memory_handle *h = (const memory_handle *)b;
  memory_store *s = h->store;
  if (!shared_ms && h->flags & PD_BACKEND_READ_ONLY) return pd_error_set(err, PD_READ_ONLY, "store '%s' is open read-only", s->store);
  memory_gc_lock *lock = calloc(1, sizeof *lock);
  if (!lock) return pd_error_memory(err, "a lock");
  *lock = (memory_gc_lock){.store = s, .end_ms = shared_ms ? pd_clock_monotonic_ms() + shared_ms : INT64_MAX};
  pthread_mutex_lock(&shared_lock);
  s->handle_count++;
  pthread_mutex_unlock(&shared_lock);
  pthread_mutex_lock(&s->lock);
  pd_code code = gc_lock_locked(s, lock, err);
  pthread_mutex_unlock(&s->lock);
  if (code) {
    store_let(s);
    free(lock);
  } else {
    *out_lock = lock;
  }
  return code;
}

static void memory_gc_unlock(void *ctx)
{
  memory_gc_lock *lock = ctx;
  if (!lock) return;
  pthread_mutex_lock(&lock->store->lock);
  memory_gc_lock **link = &lock->store->gc_locks;
  while (*link != lock) link = &(*link)->next;
  *link = lock->next;
  pthread_mutex_unlock(&lock->store->lock);
  store_let(lock->store);
  free(lock);
}

static pd_code memory_usage(pd_backend *b, pd_backend_usage *out, pd_error *err)
{
  (void)err;
  memory_store *s = ((memory_handle *)b)->store;
  pthread_mutex_lock(&s->lock);
  *out = (pd_backend_usage){.log_bytes = s->log_bytes, .bag_bytes = s->bag_bytes, .bag_count = s->blob_count};
  pthread_mutex_unlock(&s->lock);
  return PD_OK;
}

/* Names are copied out first: the visitor may open what it is told of. */
static pd_code memory_stores(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf names = {0};
  pd_code code = PD_OK;
  pthread_mutex_lock(&shared_lock);
  for (memory_store *s = shared; s && code == PD_OK; s = s->next) {
    if (strcmp(s->name, rest) == 0) code = pd_buf_append(&names, s->store, strlen(s->store) + 1, err);
  }
  pthread_mutex_unlock(&shared_lock);
  TRY(code);
  for (size_t i = 0; i < names.size; i += strlen((char *)names.data + i) + 1) visit(ctx, (char *)names.data + i);
  return PD_OK;
}

const pd_backend_ops pd_memory_ops = {
  .abi = PD_BACKEND_ABI,
  .scheme = "memory",
  .open = memory_open,
  .close = memory_close,
  .flags = memory_flags,
  .log_append = memory_log_append,
  .log_read = memory_log_read,
  .log_tail = memory_log_tail,
  .log_tail_hint = memory_log_tail_hint,
  .bag_put = memory_bag_put,
  .bag_get = memory_bag_get,
  .log_claim = memory_log_claim,
  .log_release = memory_release,
  .usage = memory_usage,
  .log_redact = memory_log_redact,
  .log_swap = memory_log_swap,
  .bag_mark = memory_bag_mark,
  .bag_sweep = memory_bag_sweep,
  .compact = memory_compact,
  .log_wait = memory_log_wait,
  .stores = memory_stores,
  .gc_lock = memory_gc_lock_take,
  .gc_unlock = memory_gc_unlock,
};
