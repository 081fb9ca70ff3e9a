/*
 * vault.h: the inside of a vault; include/perdure/vault.h is its manual.
 *
 * V1  Keys are in `secret` alone, and only while the vault is unlocked. Whoever is given one by pd_vault_use gives secret memory for it.
 * V2  vault.json is changed under a lock on .vault.lock, from what is in the file then, and replaced as a whole.
 * V3  A key that was in the file once stays in it: backups made with it stay readable.
 * V4  The file ends with the SHA-256 of what is before it. So damage is told from a wrong passphrase, which the commitment tells.
 */
#ifndef PD_STATE_VAULT_H
#define PD_STATE_VAULT_H

#include "state/home.h"
#include "state/keyslot.h"

#include <perdure/vault.h>

#define PD_VAULT_FORMAT 1
#define PD_VAULT_FILE_SIZE_MAX ((size_t)64 * 1024)

typedef struct pd_vault_file {
  pd_kdf kdf;
  pd_wrapped keys[PD_VAULT_KEYS_MAX]; /* the last of its own is the one for new backups */
  size_t key_count;
  size_t current;
} pd_vault_file;

/* vault_file.c: as text. PD_CORRUPT for anything that was not written by encode; PD_FORMAT for a newer format. */
PD_MUST_USE pd_code pd_vault_encode(const pd_vault_file *file, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_vault_decode(pd_bytes text, pd_vault_file *out, pd_error *err);

/* ---- for backups ---- */

/* pd_error.actual of a PD_LOCKED: it is not locked, there is none. Answers say it as details.vault. */
#define PD_VAULT_MISSING 1

/* The key for a new backup, into secret memory, and the slot that opens it elsewhere. PD_LOCKED named VaultLocked. Counts as a use. */
PD_MUST_USE pd_code pd_vault_use_current(pd_home *home, uint8_t out_key[PD_KEY_BYTES], pd_kdf *out_kdf, pd_wrapped *out_wrapped,
                                         pd_error *err);
/* The key of that id. PD_LOCKED; PD_NOT_FOUND if the vault has no such key. */
PD_MUST_USE pd_code pd_vault_use(pd_home *home, const uint8_t id[PD_KEY_ID_BYTES], uint8_t out_key[PD_KEY_BYTES], pd_error *err);
/* Take in the master key of another vault, from its slot and with its passphrase. PD_LOCKED (this vault must be unlocked), PD_DECRYPT for
 * a wrong passphrase, PD_CORRUPT for a damaged slot, PD_LIMIT. No error if the key is here already. */
PD_MUST_USE pd_code pd_vault_adopt(pd_home *home, const pd_kdf *kdf, const pd_wrapped *wrapped, pd_bytes passphrase, pd_error *err);

#endif
