/* backup_head.c: the header of a backup, and the keys that follow from it. */
#include "base/base.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/backup.h"

#include <ctype.h>
#include <stdio.h>
#include <time.h>

#define MAGIC "PDBACKUP"
#define MAGIC_SIZE 8
#define LABEL_COMMIT "perdure backup 1 commitment"
#define LABEL_CHUNKS "perdure backup 1 chunks"
#define TIME_MS_MAX ((int64_t)253402300799999) /* the year 9999 */

void pd_backup_id_text(int64_t time_ms, unsigned n, char out[PD_BACKUP_ID_SIZE])
{
  struct tm at;
  time_t seconds = (time_t)(time_ms / 1000);
  gmtime_r(&seconds, &at);
  size_t size = strftime(out, PD_BACKUP_ID_SIZE, "bkp-%Y%m%dT%H%M%SZ", &at);
  if (n > 1) snprintf(out + size, PD_BACKUP_ID_SIZE - size, "-%u", n);
}

void pd_backup_scope(const pd_backup_head *head, char out[PD_NAME_SIZE_MAX + 8])
{
  snprintf(out, PD_NAME_SIZE_MAX + 8, "%s%s", *head->agent ? "agent:" : "full", head->agent);
}

void pd_backup_head_encode(pd_backup_head *head, uint8_t out[PD_BACKUP_HEAD_BYTES])
{
  uint8_t *to = out;
  memset(out, 0, PD_BACKUP_HEAD_BYTES);
  pd_raw_put(&to, MAGIC, MAGIC_SIZE);
  pd_le32_put(&to, PD_BACKUP_FORMAT);
  pd_le32_put(&to, PD_BACKUP_HEAD_BYTES);
  pd_raw_put(&to, head->uid, sizeof head->uid);
  pd_le64_put(&to, head->sequence);
  pd_le64_put(&to, (uint64_t)head->created_ms);
  memcpy(to, head->id, strlen(head->id));
  to += PD_BACKUP_ID_SIZE;
  memcpy(to, head->agent, strlen(head->agent));
  to += PD_NAME_SIZE_MAX;
  pd_keyslot_encode(&head->kdf, &head->wrapped, to);
  to += PD_KEYSLOT_BYTES;
  pd_raw_put(&to, head->commitment, sizeof head->commitment);
  pd_id sum = pd_sha256((pd_bytes){out, (size_t)(to - out)});
  pd_raw_put(&to, sum.bytes, PD_ID_SIZE);
  head->hash = pd_sha256((pd_bytes){out, PD_BACKUP_HEAD_BYTES});
}

/* A text in a field of `size` bytes that ends with zeros. */
static bool take_text(const uint8_t **from, char *out, size_t size)
{
  size_t length = strnlen((const char *)*from, size);
  memcpy(out, *from, length);
  out[length] = 0;
  for (size_t i = length; i < size; i++)
    if ((*from)[i]) return false;
  *from += size;
  return true;
}

static bool is_id(const char *id)
{
  if (strncmp(id, "bkp-", 4) != 0 || !id[4]) return false;
  for (const char *c = id; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '-') return false;
  return true;
}

static pd_code check_head(const pd_backup_head *head, pd_error *err)
{
  bool is_right = is_id(head->id) && (!*head->agent || pd_agent_check(head->agent, NULL) == PD_OK) && head->created_ms >= 0 &&
                  head->created_ms <= TIME_MS_MAX && pd_kdf_check(&head->kdf, NULL) == PD_OK;
  return is_right ? PD_OK : pd_error_set(err, PD_CORRUPT, "the backup's header is malformed");
}

pd_code pd_backup_head_decode(pd_bytes bytes, pd_backup_head *out, pd_error *err)
{
  pd_backup_head head;
  const uint8_t *from = bytes.data;
  if (!bytes.size || memcmp(from, MAGIC, bytes.size < MAGIC_SIZE ? bytes.size : MAGIC_SIZE) != 0)
    return pd_error_set(err, PD_FORMAT, "this is no backup of perdure");
  if (bytes.size < MAGIC_SIZE + 8) return pd_error_set(err, PD_CORRUPT, "the backup is cut off");
  from += MAGIC_SIZE;
  uint32_t format = pd_le32_take(&from), size = pd_le32_take(&from);
  bool is_whole = bytes.size >= PD_BACKUP_HEAD_BYTES;
  pd_id sum = is_whole ? pd_sha256((pd_bytes){bytes.data, PD_BACKUP_HEAD_BYTES - PD_ID_SIZE}) : (pd_id){{0}};
  bool is_right = is_whole && memcmp(sum.bytes, (const uint8_t *)bytes.data + PD_BACKUP_HEAD_BYTES - PD_ID_SIZE, PD_ID_SIZE) == 0;
  if (format != PD_BACKUP_FORMAT && (is_right || !is_whole || size != PD_BACKUP_HEAD_BYTES))
    return pd_error_set(err, PD_FORMAT, "the backup is of format %u, this perdure knows format %d", format, PD_BACKUP_FORMAT);
  if (!is_whole) return pd_error_set(err, PD_CORRUPT, "the backup is cut off");
  if (!is_right || size != PD_BACKUP_HEAD_BYTES)
    return pd_error_set(err, PD_CORRUPT, "the backup's header is damaged: it does not match its checksum");
  pd_raw_take(&from, head.uid, sizeof head.uid);
  head.sequence = pd_le64_take(&from);
  head.created_ms = (int64_t)pd_le64_take(&from);
  if (!take_text(&from, head.id, PD_BACKUP_ID_SIZE - 1) || *from++ || !take_text(&from, head.agent, PD_NAME_SIZE_MAX))
    return pd_error_set(err, PD_CORRUPT, "the backup's header is malformed");
  pd_keyslot_decode(from, &head.kdf, &head.wrapped);
  from += PD_KEYSLOT_BYTES;
  pd_raw_take(&from, head.commitment, sizeof head.commitment);
  head.hash = pd_sha256((pd_bytes){bytes.data, PD_BACKUP_HEAD_BYTES});
  TRY(check_head(&head, err));
  *out = head;
  return PD_OK;
}

/* ---- keys ---- */

static pd_bytes salt_of(const pd_backup_head *head)
{
  return (pd_bytes){head->uid, sizeof head->uid};
}

pd_code pd_backup_commit_to(const pd_backup_head *head, const uint8_t master[PD_KEY_BYTES], uint8_t out[PD_KEY_BYTES], pd_error *err)
{
  return pd_hkdf(master, salt_of(head), LABEL_COMMIT, out, err);
}

pd_code pd_backup_chunk_gcm(const pd_backup_head *head, const uint8_t master[PD_KEY_BYTES], pd_gcm *out, pd_error *err)
{
  CLEANUP(pd_secret_done) pd_secret key = {0};
  TRY(pd_secret_new(&key, PD_KEY_BYTES, err));
  TRY(pd_hkdf(master, salt_of(head), LABEL_CHUNKS, key.data, err));
  return pd_gcm_new(out, key.data, err);
}

void pd_backup_chunk_bind(const pd_backup_head *head, uint64_t number, uint32_t size_and_flag, uint8_t out_nonce[PD_NONCE_BYTES],
                          uint8_t out_aad[PD_ID_SIZE + 12])
{
  pd_le32_put(&out_nonce, 0);
  pd_le64_put(&out_nonce, number);
  pd_raw_put(&out_aad, head->hash.bytes, PD_ID_SIZE);
  pd_le64_put(&out_aad, number);
  pd_le32_put(&out_aad, size_and_flag);
}
