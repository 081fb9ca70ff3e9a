/* stream.c: see <perdure/stream.h>. The callbacks run without the lock; the bag needs none. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "engine/upload.h"

#define WINDOW_SIZE ((size_t)1 << 20)

/* ---- put ---- */

typedef struct inflow {
  pd_store *s;
  pd_bytes key;
  pd_stream_read read;
  void *ctx;
  pd_buf window;  /* bytes that are not cut yet */
  uint64_t total; /* read so far */
  bool is_end;
  pd_hash whole;
  pd_upload *upload;
} inflow;

static void inflow_done(inflow *f)
{
  pd_buf_done(&f->window);
  pd_upload_free(f->upload);
}

static pd_code check_total(const inflow *f, pd_error *err)
{
  if (f->total <= f->s->value_size_max) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the value of key '%.*s' has more than %zu bytes, the limit",
                      (int)(f->key.size < 200 ? f->key.size : 200), (const char *)f->key.data, f->s->value_size_max);
}

/* Until the window is full or the value at its end. */
static pd_code fill(inflow *f, pd_error *err)
{
  while (!f->is_end && f->window.size < WINDOW_SIZE) {
    size_t got = 0, room = WINDOW_SIZE - f->window.size;
    uint8_t *to = f->window.data + f->window.size;
    TRY(f->read(f->ctx, to, room, &got, err));
    if (got > room) return pd_error_set(err, PD_INVALID, "the reader of a stream gave %zu bytes where %zu had room", got, room);
    f->is_end = !got;
    f->total += got;
    TRY(check_total(f, err));
    pd_hash_add(&f->whole, to, got);
    f->window.size += got;
  }
  return PD_OK;
}

static pd_code upload_rest(inflow *f, pd_pieces *out, pd_error *err)
{
  for (;;) {
    size_t used;
    TRY(pd_upload_add(f->upload, pd_buf_bytes(&f->window), f->is_end, &used, err));
    memmove(f->window.data, f->window.data + used, f->window.size - used);
    f->window.size -= used;
    if (f->is_end) return pd_upload_end(f->upload, out, err);
    TRY(fill(f, err));
  }
}

/* So that nobody sends a gigabyte to be told that it was in vain. The commit looks again. */
static pd_code check_early(pd_store *s, pd_bytes key, uint64_t expect_version, const pd_note *note, pd_error *err)
{
  pd_entry entry = {.version = 0};
  pd_error why = {.code = PD_OK};
  if (s->is_read_only) return pd_error_set(err, PD_READ_ONLY, "the store of agent '%s' is open read-only", s->agent);
  TRY(pd_note_check(note, err));
  pd_ref ref;
  if (note && note->ref) TRY(pd_ref_get(s, note->ref, &ref, err));
  if (expect_version == PD_ANY_VERSION) return PD_OK;
  pd_code code = pd_get(s, note ? note->ref : NULL, key, NULL, &entry, &why);
  if (code && code != PD_NOT_FOUND) {
    if (err) *err = why;
    return code;
  }
  if (entry.version == expect_version) return PD_OK;
  return pd_error_conflict(err, expect_version, entry.version, "key '%.*s' is at version %llu, expected %llu",
                           (int)(key.size < 200 ? key.size : 200), (const char *)key.data, (unsigned long long)entry.version,
                           (unsigned long long)expect_version);
}

pd_code pd_put_stream(pd_store *store, pd_bytes key, pd_stream_read read, void *ctx, uint64_t expect_version, const pd_note *note,
                      pd_ack *out, pd_error *err)
{
  CLEANUP(inflow_done) inflow f = {.s = store, .key = key, .read = read, .ctx = ctx};
  TRY(pd_key_check(key, err));
  TRY(check_early(store, key, expect_version, note, err));
  TRY(pd_buf_reserve(&f.window, WINDOW_SIZE, err));
  pd_hash_init(&f.whole);
  TRY(fill(&f, err));
  const char *ref = note ? note->ref : NULL;
  pd_change_in change = {.key = key, .expect_version = expect_version};
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .ref = ref, .note = note, .changes = &change, .change_count = 1};
  pd_pieces pieces;
  if (f.is_end) {
    change.value = pd_buf_bytes(&f.window);
  } else {
    TRY(pd_upload_new(store, ref, key, &f.upload, err));
    TRY(upload_rest(&f, &pieces, err));
    change.pieces = &pieces;
  }
  change.value_id = pd_hash_end(&f.whole);
  return pd_write(store, &intent, out, err);
}

/* ---- get ---- */

/* What is to be streamed: the pieces of a list, or for small values their bytes. */
typedef struct source {
  bool is_chunked;
  pd_id list_id;
  pd_entry entry;
  pd_buf bytes;
} source;

static void source_done(source *src)
{
  pd_buf_done(&src->bytes);
}

static pd_code locate(pd_store *s, const char *at, pd_bytes key, uint64_t version, source *out, pd_error *err)
{
  pd_code code = version ? pd_get_version(s, at, key, version, NULL, &out->entry, err) : pd_get(s, at, key, NULL, &out->entry, err);
  if (code) return code;
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  pd_rec_change ch;
  pd_store_lock(s);
  code = pd_version_step(s, key, out->entry.seq, &scratch, &rec, &ch, err);
  out->is_chunked = !code && ch.is_chunked && !ch.is_erased;
  if (out->is_chunked)
    out->list_id = ch.list_id;
  else if (!code)
    code = pd_change_value(s, &ch, &out->bytes, err);
  pd_store_unlock(s);
  return code;
}

/* The bytes of one value that is not in pieces, compared with its id. */
static pd_code hand_over(const source *src, pd_stream_write write, void *ctx, pd_error *err)
{
  pd_id got = pd_sha256(pd_buf_bytes(&src->bytes));
  if (!pd_id_equal(&got, &src->entry.value_id)) return pd_error_set(err, PD_CORRUPT, "a value does not match its id");
  return src->bytes.size ? write(ctx, pd_buf_bytes(&src->bytes), err) : PD_OK;
}

static pd_code get_stream(pd_store *s, const char *at, pd_bytes key, uint64_t version, pd_stream_write write, void *ctx,
                          pd_entry *out_entry, pd_error *err)
{
  CLEANUP(source_done) source src = {0};
  TRY(locate(s, at, key, version, &src, err));
  if (out_entry) *out_entry = src.entry;
  if (!src.is_chunked) return hand_over(&src, write, ctx, err);
  pd_error why = {.code = PD_OK};
  pd_code code = pd_pieces_stream(s, &src.list_id, &src.entry.value_id, src.entry.size, write, ctx, &why);
  if (code == PD_CORRUPT) { /* did it go while it was being read? */
    CLEANUP(source_done) source again = {0};
    TRY(locate(s, at, key, version, &again, err));
  }
  if (code && err) *err = why;
  return code;
}

pd_code pd_get_stream(pd_store *store, const char *at, pd_bytes key, pd_stream_write write, void *ctx, pd_entry *out_entry, pd_error *err)
{
  return get_stream(store, at, key, 0, write, ctx, out_entry, err);
}

pd_code pd_get_version_stream(pd_store *store, const char *at, pd_bytes key, uint64_t version, pd_stream_write write, void *ctx,
                              pd_entry *out_entry, pd_error *err)
{
  if (!version) return pd_error_set(err, PD_NOT_FOUND, "versions are numbered from 1");
  return get_stream(store, at, key, version, write, ctx, out_entry, err);
}
