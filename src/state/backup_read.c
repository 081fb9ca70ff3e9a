/* backup_read.c: a backup read from anywhere (U2), every byte checked before it is used (U1). */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "state/backup.h"
#include "state/call.h"
#include "state/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOLD_CHUNKS 64                                             /* between two words about how far it is: 4 MiB */
#define CHUNK_SPAN (PD_BACKUP_CHUNK_BYTES + PD_BACKUP_CHUNK_EXTRA) /* in the file */
#define NO_CHUNK UINT64_MAX

static pd_code damaged(const pd_backup_in *in, pd_error *err, const char *what)
{
  return pd_error_named(err, PD_DECRYPT, "DecryptionFailed", "the backup %s is damaged: %s", in->head.id, what);
}

static pd_code read_at(const pd_backup_in *in, uint64_t at, void *data, size_t size, size_t *out_size, pd_error *err)
{
  uint8_t *next = data;
  *out_size = 0;
  while (*out_size < size) {
    ssize_t n = pread(in->fd, next + *out_size, size - *out_size, (off_t)(at + *out_size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_file_refused(err, "read", in->path);
    if (!n) break;
    *out_size += (size_t)n;
  }
  return PD_OK;
}

pd_code pd_backup_in_open(pd_backup_in *in, const char *path, pd_error *err)
{
  struct stat is;
  uint8_t bytes[PD_BACKUP_HEAD_BYTES];
  size_t size;
  *in = (pd_backup_in){.fd = -1, .held = NO_CHUNK};
  if (strlen(path) >= sizeof in->path) return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", path);
  strcpy(in->path, path);
  in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (in->fd < 0 && errno == ELOOP) return pd_error_set(err, PD_STORAGE, "%.300s is a symbolic link", path);
  if (in->fd < 0 && errno == ENOENT) return pd_error_set(err, PD_NOT_FOUND, "there is no file %.300s", path);
  if (in->fd < 0 || fstat(in->fd, &is) != 0) return pd_file_refused(err, "read", path);
  if (!S_ISREG(is.st_mode)) return pd_error_set(err, PD_STORAGE, "%.300s is no regular file", path);
  TRY(read_at(in, 0, bytes, sizeof bytes, &size, err));
  TRY(pd_backup_head_decode((pd_bytes){bytes, size}, &in->head, err));
  in->file_size = (uint64_t)is.st_size;
  return PD_OK;
}

void pd_backup_in_done(pd_backup_in *in)
{
  pd_fd_done(&in->fd);
  pd_gcm_done(&in->gcm);
  pd_backup_manifest_done(&in->manifest);
  free(in->box);
  if (in->plain) explicit_bzero(in->plain, PD_BACKUP_CHUNK_BYTES);
  free(in->plain);
}

/* ---- chunks ---- */

/* How many chunks a file of this size has, and how much they hold; the last one says with its flag whether that is all of them. */
static pd_code measure(pd_backup_in *in, pd_error *err)
{
  uint64_t rest = in->file_size < PD_BACKUP_HEAD_BYTES ? 0 : in->file_size - PD_BACKUP_HEAD_BYTES;
  in->chunk_count = (rest + CHUNK_SPAN - 1) / CHUNK_SPAN;
  uint64_t extra = in->chunk_count * PD_BACKUP_CHUNK_EXTRA;
  if (!in->chunk_count || (rest % CHUNK_SPAN && rest % CHUNK_SPAN <= PD_BACKUP_CHUNK_EXTRA)) return damaged(in, err, "it is cut off");
  in->stream_size = rest - extra;
  return PD_OK;
}

static pd_code load_chunk(pd_backup_in *in, uint64_t number, pd_error *err)
{
  uint8_t nonce[PD_NONCE_BYTES], aad[PD_ID_SIZE + 12];
  size_t got;
  if (in->held == number) return PD_OK;
  bool is_last = number == in->chunk_count - 1;
  uint64_t before = number * PD_BACKUP_CHUNK_BYTES;
  size_t size = is_last ? (size_t)(in->stream_size - before) : PD_BACKUP_CHUNK_BYTES;
  in->held = NO_CHUNK;
  TRY(read_at(in, PD_BACKUP_HEAD_BYTES + number * CHUNK_SPAN, in->box, size + PD_BACKUP_CHUNK_EXTRA, &got, err));
  if (got != size + PD_BACKUP_CHUNK_EXTRA) return damaged(in, err, "it is cut off");
  const uint8_t *from = in->box;
  uint32_t said = pd_le32_take(&from), size_and_flag = (uint32_t)size | (is_last ? PD_BACKUP_LAST_FLAG : 0);
  if (said != size_and_flag && is_last && !(said & PD_BACKUP_LAST_FLAG)) return damaged(in, err, "it is cut off");
  if (said != size_and_flag) return damaged(in, err, "a chunk has another size than it should");
  pd_backup_chunk_bind(&in->head, number, size_and_flag, nonce, aad);
  pd_code code = pd_gcm_open(&in->gcm, nonce, (pd_bytes){aad, sizeof aad}, (pd_bytes){from, size}, from + size, in->plain, err);
  if (code == PD_DECRYPT) {
    pd_error_named(err, PD_DECRYPT, "DecryptionFailed",
                   "the backup %s is damaged: chunk %llu of %llu does not match its tag (the key is right)", in->head.id,
                   (unsigned long long)number + 1, (unsigned long long)in->chunk_count);
  }
  TRY(code);
  in->held = number;
  return PD_OK;
}

/* The stream's bytes from `at` on. */
static pd_code read_stream(pd_backup_in *in, uint64_t at, void *data, size_t size, pd_error *err)
{
  uint8_t *next = data;
  if (at > in->stream_size || size > in->stream_size - at) return damaged(in, err, "something lies behind its end");
  while (size) {
    size_t from = (size_t)(at % PD_BACKUP_CHUNK_BYTES), some = PD_BACKUP_CHUNK_BYTES - from;
    if (some > size) some = size;
    TRY(load_chunk(in, at / PD_BACKUP_CHUNK_BYTES, err));
    memcpy(next, in->plain + from, some);
    next += some;
    at += some;
    size -= some;
  }
  return PD_OK;
}

pd_code pd_backup_in_verify(pd_backup_in *in, pd_error *err)
{
  in->held = NO_CHUNK;
  for (uint64_t i = 0; i < in->chunk_count; i++) {
    if (in->frame && i % TOLD_CHUNKS == 0) TRY(pd_frame_progress(in->frame, i, in->chunk_count, err));
    TRY(load_chunk(in, i, err));
  }
  return in->frame ? pd_frame_progress(in->frame, in->chunk_count, in->chunk_count, err) : PD_OK;
}

/* ---- with a key ---- */

static pd_code read_manifest(pd_backup_in *in, pd_error *err)
{
  uint8_t trailer[PD_BACKUP_TRAILER_BYTES];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (in->stream_size < sizeof trailer) return damaged(in, err, "it is cut off");
  uint64_t end = in->stream_size - sizeof trailer;
  TRY(read_stream(in, end, trailer, sizeof trailer, err));
  const uint8_t *from = trailer;
  uint64_t at = pd_le64_take(&from), size = pd_le64_take(&from);
  if (memcmp(from, "PDBKPEND", 8) != 0 || at > end || size != end - at || size > PD_BACKUP_MANIFEST_MAX)
    return damaged(in, err, "its trailer is malformed");
  TRY(pd_buf_reserve(&text, (size_t)size + 1, err));
  TRY(read_stream(in, at, text.data, (size_t)size, err));
  text.size = (size_t)size;
  pd_code code = pd_backup_manifest_decode(pd_buf_bytes(&text), at, &in->manifest, err);
  return code == PD_CORRUPT ? damaged(in, err, "its manifest is malformed") : code;
}

pd_code pd_backup_in_unlock(pd_backup_in *in, const uint8_t master[PD_KEY_BYTES], pd_error *err)
{
  uint8_t commitment[PD_KEY_BYTES];
  TRY(pd_backup_commit_to(&in->head, master, commitment, err));
  if (!pd_same_secret(commitment, in->head.commitment, sizeof commitment))
    return pd_error_named(err, PD_DECRYPT, "DecryptionFailed", "wrong key: the backup %s was made with another master key", in->head.id);
  TRY(pd_backup_chunk_gcm(&in->head, master, &in->gcm, err));
  in->box = malloc(CHUNK_SPAN);
  in->plain = malloc(PD_BACKUP_CHUNK_BYTES);
  if (!in->box || !in->plain) return pd_error_memory(err, "a backup");
  TRY(measure(in, err));
  return read_manifest(in, err);
}

pd_code pd_backup_in_unlock_by(pd_backup_in *in, pd_home *home, pd_error *err)
{
  CLEANUP(pd_secret_done) pd_secret key = {0};
  TRY(pd_secret_new(&key, PD_KEY_BYTES, err));
  pd_code code = pd_vault_use(home, in->head.wrapped.id, key.data, err);
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_DECRYPT, "DecryptionFailed",
                          "wrong key: the backup %s was made with a master key that this vault does not have; "
                          "import it with the passphrase of its home",
                          in->head.id);
  TRY(code);
  return pd_backup_in_unlock(in, key.data, err);
}

/* ---- bundles ---- */

static pd_code read_range(void *ctx, uint64_t at, void *data, size_t size, pd_error *err)
{
  const pd_backup_range *range = ctx;
  return read_stream(range->in, range->at + at, data, size, err);
}

pd_source pd_backup_bundle(pd_backup_in *in, const pd_backup_store *store, pd_backup_range *range)
{
  *range = (pd_backup_range){in, store->at};
  return (pd_source){read_range, store->size, range};
}
