/*
 * fuzz_backup.c: what comes from outside in a backup's world: its header (first byte 0), the vault file (1), the manifest (2), a restore
 * that is decided (3). Checksums are made right, or nothing would get past them.
 */
#include "base/buf.h"
#include "base/sha256.h"
#include "fuzz/fuzz.h"
#include "state/backup.h"
#include "state/restore.h"
#include "state/vault.h"

#define SUM_START ",\"sum\":\""

static void check_head(pd_bytes bytes)
{
  pd_backup_head head, again;
  uint8_t encoded[PD_BACKUP_HEAD_BYTES], copy[PD_BACKUP_HEAD_BYTES] = {0};
  pd_error err = {0};
  pd_code code = pd_backup_head_decode(bytes, &head, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT || code == PD_FORMAT);
  memcpy(copy, bytes.data, bytes.size < sizeof copy ? bytes.size : sizeof copy);
  pd_id sum = pd_sha256((pd_bytes){copy, sizeof copy - PD_ID_SIZE});
  memcpy(copy + sizeof copy - PD_ID_SIZE, sum.bytes, PD_ID_SIZE);
  code = pd_backup_head_decode((pd_bytes){copy, sizeof copy}, &head, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT || code == PD_FORMAT);
  if (code) return;
  again = head;
  pd_backup_head_encode(&again, encoded); /* one text for each meaning */
  FUZZ_REQUIRE(memcmp(encoded, copy, sizeof copy) == 0 && pd_id_equal(&head.hash, &again.hash));
}

static void check_vault(pd_bytes bytes)
{
  pd_vault_file file;
  char hex[PD_ID_HEX_SIZE];
  pd_buf text = {0}, again = {0};
  pd_code code = pd_vault_decode(bytes, &file, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT || code == PD_FORMAT);
  pd_id sum = pd_sha256(bytes);
  if (pd_buf_append(&text, bytes.data, bytes.size, NULL) || pd_buf_printf(&text, NULL, SUM_START "%s\"}\n", pd_id_hex(&sum, hex))) abort();
  code = pd_vault_decode(pd_buf_bytes(&text), &file, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT || code == PD_FORMAT);
  if (code == PD_OK) {
    FUZZ_REQUIRE(file.key_count <= PD_VAULT_KEYS_MAX && file.current < file.key_count && pd_kdf_check(&file.kdf, NULL) == PD_OK);
    if (pd_vault_encode(&file, &again, NULL)) abort();
    FUZZ_REQUIRE(pd_vault_decode(pd_buf_bytes(&again), &file, NULL) == PD_OK);
  }
  pd_buf_done(&text);
  pd_buf_done(&again);
}

static void check_manifest(pd_bytes bytes)
{
  pd_backup_manifest manifest = {0};
  uint64_t size = 1 << 20;
  pd_code code = pd_backup_manifest_decode(bytes, size, &manifest, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT || code == PD_LIMIT);
  for (size_t i = 0; code == PD_OK && i < manifest.count; i++) {
    const pd_backup_store *store = &manifest.stores[i];
    FUZZ_REQUIRE(store->at <= size && store->size <= size - store->at && pd_agent_check(store->name, NULL) == PD_OK);
  }
  pd_backup_manifest_done(&manifest);
}

static void check_plan(pd_bytes bytes)
{
  pd_restore_plan plan = {0};
  pd_code code = pd_restore_plan_decode(bytes, &plan, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT);
  for (size_t i = 0; code == PD_OK && i < plan.count; i++) FUZZ_REQUIRE(pd_agent_check(plan.stores[i].name, NULL) == PD_OK);
  pd_restore_plan_done(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static void (*const checks[])(pd_bytes) = {check_head, check_vault, check_manifest, check_plan};
  if (size) checks[data[0] % 4]((pd_bytes){data + 1, size - 1});
  return 0;
}
