/* backup_write.c: a backup on its way into the folder: a draft that nobody else touches, sealed chunk by chunk, then named. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "state/backup.h"
#include "state/last_id.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#define DRAFT_END ".part"
#define ID_TRIES_MAX 1000

/* ---- drafts ---- */

pd_code pd_backup_draft(const char *folder, const char *id, char *out_draft, char *out_path, int *out_fd, pd_error *err)
{
  if (snprintf(out_path, PD_BACKUP_PATH_SIZE, "%s/%s.pdb", folder, id) >= PD_BACKUP_PATH_SIZE ||
      snprintf(out_draft, PD_BACKUP_PATH_SIZE, "%s/%s" DRAFT_END, folder, id) >= PD_BACKUP_PATH_SIZE)
    return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", folder);
  *out_fd = open(out_draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (*out_fd < 0) return errno == EEXIST ? pd_error_set(err, PD_EXISTS, "%s is taken", id) : pd_file_refused(err, "make", out_draft);
  (void)!flock(*out_fd, LOCK_EX | LOCK_NB); /* so that nobody sweeps it away */
  if (access(out_path, F_OK) != 0) return PD_OK;
  unlink(out_draft);
  pd_fd_done(out_fd);
  return pd_error_set(err, PD_EXISTS, "%s is taken", id);
}

static void sweep_one(const char *folder, const char *name)
{
  char path[PD_BACKUP_PATH_SIZE];
  size_t size = strlen(name);
  if (size < sizeof DRAFT_END || strcmp(name + size - (sizeof DRAFT_END - 1), DRAFT_END) != 0) return;
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return;
  CLEANUP(pd_fd_done) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path);
}

void pd_backup_sweep_drafts(const char *folder)
{
  DIR *dir = opendir(folder);
  const struct dirent *entry;
  while (dir && (entry = readdir(dir))) sweep_one(folder, entry->d_name);
  if (dir) closedir(dir);
}

static pd_code reserve_id(pd_backup_out *out, const char *folder, pd_error *err)
{
  CLEANUP(pd_last_id_done) pd_last_id last = {.fd = -1};
  char stamp[PD_LAST_STAMP_SIZE];
  pd_code code = pd_last_id_open(folder, &last, err);
  pd_backup_id_text(out->head.created_ms, 1, out->head.id);
  snprintf(stamp, sizeof stamp, "%s", out->head.id + strlen("bkp-"));
  unsigned n = pd_last_id_next(&last, stamp);
  if (!code) code = PD_EXISTS;
  for (unsigned i = 0; code == PD_EXISTS && i < ID_TRIES_MAX; i++, n++) {
    pd_backup_id_text(out->head.created_ms, n, out->head.id);
    code = pd_backup_draft(folder, out->head.id, out->draft, out->path, &out->fd, err);
    if (!code) TRY(pd_last_id_keep(&last, stamp, n, err)); /* else pd_backup_out_done removes the draft */
  }
  if (code) out->draft[0] = 0; /* it is another's, or none */
  return code;
}

/* ---- the stream ---- */

static pd_code put(pd_backup_out *out, const void *data, size_t size, pd_error *err)
{
  out->file_size += size;
  return pd_fd_write(out->fd, data, size, out->draft, err);
}

pd_code pd_backup_out_begin(pd_backup_out *out, const char *folder, const uint8_t master[PD_KEY_BYTES], pd_error *err)
{
  uint8_t bytes[PD_BACKUP_HEAD_BYTES];
  out->fd = -1;
  TRY(pd_random_bytes(out->head.uid, sizeof out->head.uid, err));
  TRY(pd_backup_commit_to(&out->head, master, out->head.commitment, err));
  TRY(pd_backup_chunk_gcm(&out->head, master, &out->gcm, err));
  TRY(pd_buf_reserve(&out->chunk, PD_BACKUP_CHUNK_BYTES + PD_BACKUP_CHUNK_EXTRA, err));
  pd_backup_sweep_drafts(folder);
  TRY(reserve_id(out, folder, err));
  pd_backup_head_encode(&out->head, bytes);
  return put(out, bytes, sizeof bytes, err);
}

static pd_code seal_chunk(pd_backup_out *out, bool is_last, pd_error *err)
{
  uint8_t nonce[PD_NONCE_BYTES], aad[PD_ID_SIZE + 12], start[4], tag[PD_TAG_BYTES], *to = start;
  uint32_t size_and_flag = (uint32_t)out->chunk.size | (is_last ? PD_BACKUP_LAST_FLAG : 0);
  pd_backup_chunk_bind(&out->head, out->number++, size_and_flag, nonce, aad);
  TRY(pd_gcm_seal(&out->gcm, nonce, (pd_bytes){aad, sizeof aad}, pd_buf_bytes(&out->chunk), out->chunk.data, tag, err));
  pd_le32_put(&to, size_and_flag);
  TRY(put(out, start, sizeof start, err));
  TRY(put(out, out->chunk.data, out->chunk.size, err));
  pd_buf_clear(&out->chunk);
  return put(out, tag, sizeof tag, err);
}

pd_code pd_backup_out_add(void *ctx, const void *data, size_t size, pd_error *err)
{
  pd_backup_out *out = ctx;
  const uint8_t *next = data;
  out->stream_size += size;
  while (size) {
    if (out->chunk.size == PD_BACKUP_CHUNK_BYTES) TRY(seal_chunk(out, false, err)); /* more follows: it is not the last (U2) */
    size_t room = PD_BACKUP_CHUNK_BYTES - out->chunk.size, some = size < room ? size : room;
    TRY(pd_buf_append(&out->chunk, next, some, err));
    next += some;
    size -= some;
  }
  return PD_OK;
}

static pd_code add_end(pd_backup_out *out, const pd_backup_manifest *manifest, pd_error *err)
{
  uint8_t trailer[PD_BACKUP_TRAILER_BYTES], *to = trailer;
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = PD_BACKUP_MANIFEST_MAX};
  TRY(pd_backup_manifest_encode(manifest, &text, err));
  pd_le64_put(&to, out->stream_size);
  pd_le64_put(&to, text.size);
  pd_raw_put(&to, "PDBKPEND", 8);
  TRY(pd_backup_out_add(out, text.data, text.size, err));
  TRY(pd_backup_out_add(out, trailer, sizeof trailer, err));
  return seal_chunk(out, true, err);
}

pd_code pd_backup_out_end(pd_backup_out *out, const pd_backup_manifest *manifest, pd_error *err)
{
  TRY(add_end(out, manifest, err));
  if (fsync(out->fd) != 0) return pd_file_refused(err, "write", out->draft);
  if (rename(out->draft, out->path) != 0) return pd_file_refused(err, "make", out->path);
  out->draft[0] = 0;
  return pd_folder_sync(out->path, err);
}

void pd_backup_out_done(pd_backup_out *out)
{
  if (out->fd >= 0 && out->draft[0]) unlink(out->draft);
  pd_fd_done(&out->fd);
  pd_gcm_done(&out->gcm);
  if (out->chunk.data) explicit_bzero(out->chunk.data, out->chunk.capacity);
  pd_buf_done(&out->chunk);
}
