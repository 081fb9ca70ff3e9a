/*
 * vault.h: the vault of a home: the master key that its backups are encrypted with. Included by perdure.h.
 *
 *     pd_vault_init(home, passphrase, NULL, &err);
 *     pd_vault_unlock(home, passphrase, &err);      // in this process, until pd_vault_lock, idleness, or the home closes
 *     pd_call(&ctx, "state.backup.create", pd_text("{}"), &out, &err);
 *     pd_vault_lock(home);
 *
 * The master key is random. FOLDER/vault.json holds it encrypted under a key that Argon2id makes from the passphrase. Without the
 * passphrase nothing opens it: there is no other way in, and nobody to ask. The vault is locked by default: keys are in the memory
 * of a process only between unlock and lock, in pages that are locked into memory, left out of core dumps, and wiped.
 *
 * Passphrases are bytes, 1 to PD_PASSPHRASE_SIZE_MAX of them, and borrowed until return; wipe them yourself. A new one needs
 * PD_PASSPHRASE_SIZE_MIN. All functions need a home with a folder (PD_UNSUPPORTED), may be called by several threads, and are audited
 * under the names vault.init, vault.unlock, vault.lock and vault.rotate; the passphrase never is.
 */
#ifndef PERDURE_VAULT_H
#define PERDURE_VAULT_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pd_home pd_home; /* state.h */

#define PD_PASSPHRASE_SIZE_MIN 8
#define PD_PASSPHRASE_SIZE_MAX 1024
#define PD_VAULT_KEYS_MAX 64 /* master keys of one vault: its own, those it had before, those of imported backups */

/* What a guess of the passphrase costs (Argon2id). 0: the default. The defaults leave room in the 64 MB that a backup may take. */
typedef struct pd_vault_options {
  uint32_t memory_kib; /* 8 x lanes to 1048576; default 32768 */
  uint32_t passes;     /* 1 to 64; default 4 */
  uint32_t lanes;      /* 1 to 16; default 1 */
} pd_vault_options;

/* Make the vault; it stays locked. `options` may be NULL. PD_EXISTS; PD_INVALID for a passphrase that is too short or too long. */
PD_API PD_MUST_USE pd_code pd_vault_init(pd_home *home, pd_bytes passphrase, const pd_vault_options *options, pd_error *err);

/* Unlock it in this process. PD_NOT_FOUND: there is no vault. PD_DECRYPT: the passphrase is wrong. PD_CORRUPT: the file is damaged,
 * whatever the passphrase. PD_FORMAT: of a newer perdure. PD_STORAGE: no memory can be locked. */
PD_API PD_MUST_USE pd_code pd_vault_unlock(pd_home *home, pd_bytes passphrase, pd_error *err);

/* Wipe the keys. No error if it is locked. */
PD_API void pd_vault_lock(pd_home *home);

typedef struct pd_vault_state {
  bool exists;
  bool is_unlocked;    /* in this process */
  int64_t locks_at_ms; /* when it locks itself unless it is used; 0: never, or it is locked */
  uint32_t key_count;  /* master keys in it */
  uint32_t memory_kib, passes, lanes;
} pd_vault_state;

/* Locks it if it was idle for too long (setting vault.idle). PD_CORRUPT, PD_FORMAT, PD_STORAGE for a file that cannot be read. A home
 * without a folder has no vault. */
PD_API PD_MUST_USE pd_code pd_vault_status(pd_home *home, pd_vault_state *out, pd_error *err);

typedef struct pd_vault_rotation {
  pd_bytes new_passphrase;         /* empty: it stays */
  bool makes_new_key;              /* new backups get a new master key; old ones stay readable. A new passphrase makes one anyway */
  bool keeps_key;                  /* not even a new passphrase: who has the old one and an old backup then reads new backups, too */
  const pd_vault_options *options; /* of the new passphrase; NULL: as they were */
} pd_vault_rotation;

/* Change the passphrase, the master key, or both: a new passphrase comes with a new master key, so that the old one opens no backup that
 * is made from then on. Backups that were made before can be read here as ever; in another home they are
 * opened with the passphrase of their time. Errors as pd_vault_unlock; PD_LIMIT: too many keys. If it was unlocked in this process it
 * stays so; other processes have to unlock it again after a change of the passphrase. */
PD_API PD_MUST_USE pd_code pd_vault_rotate(pd_home *home, pd_bytes passphrase, const pd_vault_rotation *rotation, pd_error *err);

/* Take in the master key of another home's vault, by a backup of it: a file that state.backup.export wrote there, and the passphrase of its
 * time. Its backups can then be imported and restored here. This vault must be unlocked (PD_LOCKED). PD_DECRYPT: the passphrase is
 * wrong, or the file is no whole backup; the message tells which. PD_LIMIT: too many keys. No error if the key is here already. */
PD_API PD_MUST_USE pd_code pd_vault_learn(pd_home *home, const char *path, pd_bytes passphrase, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
