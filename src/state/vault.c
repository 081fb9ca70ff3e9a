/* vault.c: the vault of a home: making, unlocking, locking and rotating it. Invariants V1 to V4 are in vault.h. */
#include "state/vault.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/secret.h"
#include "state/call.h"
#include "state/run.h"
#include "state/tiers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define PATH_SIZE 4096

/* What the secret memory holds while the vault is unlocked. */
typedef struct keyring {
  uint8_t wrap[PD_KEY_BYTES];                    /* made from the passphrase */
  uint8_t keys[PD_VAULT_KEYS_MAX][PD_KEY_BYTES]; /* as in the file */
} keyring;

struct pd_vault {
  pd_home *home;
  pthread_mutex_t lock;
  pd_secret secret;   /* a keyring; {0} while locked */
  pd_vault_file file; /* as it was read last while unlocked */
  int64_t used_ms;
};

pd_code pd_vault_new(pd_home *home, pd_vault **out, pd_error *err)
{
  pd_vault *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a vault");
  made->home = home;
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_vault_free(pd_vault *vault)
{
  if (!vault) return;
  pd_secret_done(&vault->secret);
  pthread_mutex_destroy(&vault->lock);
  free(vault);
}

static keyring *ring_of(pd_secret *secret)
{
  return (keyring *)(void *)secret->data;
}

static void vault_release(pd_vault **vault)
{
  pthread_mutex_unlock(&(*vault)->lock);
}

static pd_vault *vault_hold(pd_home *home)
{
  pthread_mutex_lock(&home->vault->lock);
  return home->vault;
}

static pd_code told(pd_home *home, const char *capability, const pd_error *err, pd_code code)
{
  pd_audit_entry entry = {.time_ms = pd_home_now(home),
                          .agent = "",
                          .session = "",
                          .capability = capability,
                          .outcome = code ? pd_error_name(err) : "ok",
                          .approval = "",
                          .is_operator = true,
                          .permission = PD_PERMIT_OPERATOR};
  pd_audit_add(home, &entry);
  return code;
}

/* ---- the file ---- */

static pd_code vault_path(pd_home *home, const char *name, char out[PATH_SIZE], pd_error *err)
{
  if (!home->folder) return pd_error_set(err, PD_UNSUPPORTED, "a vault needs a folder, and the home '%s' has none", home->uri);
  if (snprintf(out, PATH_SIZE, "%s/%s", home->folder, name) < PATH_SIZE) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", home->folder);
}

static pd_code read_file(pd_home *home, pd_vault_file *out, pd_error *err)
{
  char path[PATH_SIZE];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(vault_path(home, "vault.json", path, err));
  pd_code code = pd_file_read(path, PD_VAULT_FILE_SIZE_MAX, &text, err);
  if (code == PD_NOT_FOUND)
    return pd_error_set(err, PD_NOT_FOUND, "there is no vault in %s yet; make one with: perdure vault init", home->folder);
  if (code == PD_LIMIT) return pd_error_set(err, PD_CORRUPT, "the vault file %s is damaged: it is too long", path);
  TRY(code);
  return pd_vault_decode(pd_buf_bytes(&text), out, err);
}

static pd_code write_file(pd_home *home, const pd_vault_file *file, bool must_be_new, pd_error *err)
{
  char path[PATH_SIZE];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(vault_path(home, "vault.json", path, err));
  TRY(pd_vault_encode(file, &text, err));
  pd_code code = pd_file_write(path, pd_buf_bytes(&text), must_be_new, err);
  return code == PD_EXISTS ? pd_error_set(err, PD_EXISTS, "there is a vault already: %s", path) : code;
}

/* V2: closing the file gives the lock up. */
static pd_code lock_file(pd_home *home, int *out, pd_error *err)
{
  char path[PATH_SIZE];
  TRY(vault_path(home, ".vault.lock", path, err)); /* no store's name begins with a dot; agent 'vault' has vault.lock */
  *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (*out < 0) return pd_file_refused(err, "open", path);
  while (flock(*out, LOCK_EX) != 0)
    if (errno != EINTR) return pd_file_refused(err, "lock", path);
  return PD_OK;
}

/* ---- keys ---- */

static pd_code open_keys(const pd_vault_file *file, keyring *ring, pd_error *err)
{
  for (size_t i = 0; i < file->key_count; i++) TRY(pd_unwrap(&file->kdf, ring->wrap, &file->keys[i], ring->keys[i], err));
  return PD_OK;
}

static pd_code wrap_keys(pd_vault_file *file, const keyring *ring, pd_error *err)
{
  for (size_t i = 0; i < file->key_count; i++) TRY(pd_wrap(&file->kdf, ring->wrap, ring->keys[i], &file->keys[i], err));
  return PD_OK;
}

/* A new master key, the current one from now on; not wrapped yet. */
static pd_code add_key(pd_vault_file *file, keyring *ring, int64_t now_ms, pd_error *err)
{
  if (file->key_count == PD_VAULT_KEYS_MAX)
    return pd_error_set(err, PD_LIMIT, "the vault has %d master keys, and none may go: backups need them", PD_VAULT_KEYS_MAX);
  pd_wrapped *key = &file->keys[file->key_count];
  key->made_ms = now_ms;
  TRY(pd_random_bytes(key->id, sizeof key->id, err));
  TRY(pd_random_bytes(ring->keys[file->key_count], PD_KEY_BYTES, err));
  file->current = file->key_count++;
  return PD_OK;
}

static pd_code check_passphrase(pd_bytes passphrase, size_t size_min, pd_error *err)
{
  if (passphrase.size >= size_min && passphrase.size <= PD_PASSPHRASE_SIZE_MAX) return PD_OK;
  return pd_error_set(err, PD_INVALID, "a passphrase has %zu to %d bytes, not %zu", size_min, PD_PASSPHRASE_SIZE_MAX, passphrase.size);
}

static void set_cost(pd_kdf *kdf, const pd_vault_options *options)
{
  *kdf = (pd_kdf){.memory_kib = PD_KDF_MEMORY_KIB, .passes = PD_KDF_PASSES, .lanes = PD_KDF_LANES};
  if (options && options->memory_kib) kdf->memory_kib = options->memory_kib;
  if (options && options->passes) kdf->passes = options->passes;
  if (options && options->lanes) kdf->lanes = options->lanes;
}

/* ---- init ---- */

static pd_code init_vault(pd_home *home, pd_bytes passphrase, const pd_vault_options *options, pd_error *err)
{
  CLEANUP(pd_secret_done) pd_secret secret = {0};
  pd_vault_file file = {0};
  TRY(check_passphrase(passphrase, PD_PASSPHRASE_SIZE_MIN, err));
  set_cost(&file.kdf, options);
  TRY(pd_kdf_check(&file.kdf, err));
  TRY(pd_secret_new(&secret, sizeof(keyring), err));
  keyring *ring = ring_of(&secret);
  TRY(pd_kdf_make(&file.kdf, passphrase, ring->wrap, err));
  TRY(add_key(&file, ring, pd_home_now(home), err));
  TRY(wrap_keys(&file, ring, err));
  return write_file(home, &file, true, err);
}

pd_code pd_vault_init(pd_home *home, pd_bytes passphrase, const pd_vault_options *options, pd_error *err)
{
  pd_error own;
  if (!err) err = &own;
  return told(home, "vault.init", err, init_vault(home, passphrase, options, err));
}

/* ---- unlock, lock ---- */

static pd_code open_vault(pd_home *home, pd_bytes passphrase, pd_vault_file *out_file, pd_secret *out_secret, pd_error *err)
{
  TRY(check_passphrase(passphrase, 1, err));
  TRY(read_file(home, out_file, err));
  TRY(pd_secret_new(out_secret, sizeof(keyring), err));
  TRY(pd_kdf_open(&out_file->kdf, passphrase, ring_of(out_secret)->wrap, err));
  return open_keys(out_file, ring_of(out_secret), err);
}

/* The vault is unlocked with these from now on; takes the secret over. */
static void install(pd_vault *vault, const pd_vault_file *file, pd_secret *secret)
{
  pd_secret_done(&vault->secret);
  vault->secret = *secret;
  vault->file = *file;
  vault->used_ms = pd_home_now(vault->home);
  *secret = (pd_secret){0};
}

static pd_code unlock(pd_home *home, pd_bytes passphrase, pd_error *err)
{
  pd_vault_file file;
  CLEANUP(pd_secret_done) pd_secret secret = {0};
  TRY(open_vault(home, passphrase, &file, &secret, err));
  CLEANUP(vault_release) pd_vault *vault = vault_hold(home);
  install(vault, &file, &secret);
  return PD_OK;
}

pd_code pd_vault_unlock(pd_home *home, pd_bytes passphrase, pd_error *err)
{
  pd_error own;
  if (!err) err = &own;
  return told(home, "vault.unlock", err, unlock(home, passphrase, err));
}

void pd_vault_lock(pd_home *home)
{
  pthread_mutex_lock(&home->vault->lock);
  pd_secret_done(&home->vault->secret);
  pthread_mutex_unlock(&home->vault->lock);
  (void)!told(home, "vault.lock", NULL, PD_OK);
}

/* Locks it if it was idle for too long; true if it is unlocked. */
static bool is_unlocked(pd_vault *vault)
{
  uint64_t idle = vault->home->config.vault_idle_ms;
  int64_t since = pd_home_now(vault->home) - vault->used_ms;
  if (vault->secret.data && idle && since >= 0 && (uint64_t)since >= idle) pd_secret_done(&vault->secret);
  return vault->secret.data != NULL;
}

pd_code pd_vault_status(pd_home *home, pd_vault_state *out, pd_error *err)
{
  pd_vault_file file;
  pd_vault_state state = {0};
  CLEANUP(vault_release) pd_vault *vault = vault_hold(home);
  state.is_unlocked = is_unlocked(vault);
  if (state.is_unlocked && home->config.vault_idle_ms) state.locks_at_ms = vault->used_ms + (int64_t)home->config.vault_idle_ms;
  pd_code code = home->folder ? read_file(home, &file, err) : PD_NOT_FOUND;
  if (code && code != PD_NOT_FOUND) return code;
  if (code == PD_OK) {
    state.exists = true;
    state.key_count = (uint32_t)file.key_count;
    state.memory_kib = file.kdf.memory_kib;
    state.passes = file.kdf.passes;
    state.lanes = file.kdf.lanes;
  }
  *out = state;
  return PD_OK;
}

/* ---- rotate ---- */

static pd_code rotate(pd_home *home, pd_bytes passphrase, const pd_vault_rotation *rotation, pd_error *err)
{
  pd_vault_file file;
  CLEANUP(pd_secret_done) pd_secret secret = {0};
  CLEANUP(pd_fd_done) int lock = -1;
  bool has_new = rotation->new_passphrase.size > 0;
  bool has_new_key = rotation->makes_new_key || (has_new && !rotation->keeps_key);
  if (!has_new && !has_new_key) return pd_error_set(err, PD_INVALID, "nothing to rotate: neither passphrase nor key is new");
  if (has_new) TRY(check_passphrase(rotation->new_passphrase, PD_PASSPHRASE_SIZE_MIN, err));
  TRY(lock_file(home, &lock, err));
  TRY(open_vault(home, passphrase, &file, &secret, err));
  keyring *ring = ring_of(&secret);
  if (has_new_key) TRY(add_key(&file, ring, pd_home_now(home), err));
  if (has_new) {
    if (rotation->options) set_cost(&file.kdf, rotation->options);
    TRY(pd_kdf_make(&file.kdf, rotation->new_passphrase, ring->wrap, err));
  }
  TRY(wrap_keys(&file, ring, err));
  TRY(write_file(home, &file, false, err));
  CLEANUP(vault_release) pd_vault *vault = vault_hold(home);
  if (vault->secret.data) install(vault, &file, &secret);
  return PD_OK;
}

pd_code pd_vault_rotate(pd_home *home, pd_bytes passphrase, const pd_vault_rotation *rotation, pd_error *err)
{
  pd_error own;
  if (!err) err = &own;
  return told(home, "vault.rotate", err, rotate(home, passphrase, rotation, err));
}

/* ---- for backups ---- */

static pd_code locked(pd_home *home, pd_error *err)
{
  char path[PATH_SIZE];
  if (vault_path(home, "vault.json", path, NULL) == PD_OK && access(path, F_OK) != 0) {
    pd_error_named(err, PD_LOCKED, "VaultLocked", "there is no vault in %s yet; make one with: perdure vault init", home->folder);
    if (err) err->actual = PD_VAULT_MISSING;
    return PD_LOCKED;
  }
  return pd_error_named(err, PD_LOCKED, "VaultLocked", "the vault of %s is locked", home->folder ? home->folder : home->uri);
}

/* What others changed in the file since. If that was the passphrase, our wrapping key opens nothing any more: locked. */
static pd_code refresh(pd_vault *vault, pd_error *err)
{
  pd_vault_file file;
  TRY(read_file(vault->home, &file, err));
  keyring *ring = ring_of(&vault->secret);
  if (memcmp(&file.kdf, &vault->file.kdf, sizeof file.kdf) != 0) {
    pd_secret_done(&vault->secret);
    return pd_error_named(err, PD_LOCKED, "VaultLocked", "the passphrase of the vault was changed elsewhere: unlock it again");
  }
  TRY(open_keys(&file, ring, err));
  vault->file = file;
  return PD_OK;
}

static pd_code hold_unlocked(pd_home *home, pd_vault **out, pd_error *err)
{
  *out = vault_hold(home);
  if (!is_unlocked(*out)) return locked(home, err);
  (*out)->used_ms = pd_home_now(home);
  return refresh(*out, err);
}

pd_code pd_vault_use_current(pd_home *home, uint8_t out_key[PD_KEY_BYTES], pd_kdf *out_kdf, pd_wrapped *out_wrapped, pd_error *err)
{
  CLEANUP(vault_release) pd_vault *vault;
  TRY(hold_unlocked(home, &vault, err));
  memcpy(out_key, ring_of(&vault->secret)->keys[vault->file.current], PD_KEY_BYTES);
  *out_kdf = vault->file.kdf;
  *out_wrapped = vault->file.keys[vault->file.current];
  return PD_OK;
}

static size_t find_key(const pd_vault_file *file, const uint8_t id[PD_KEY_ID_BYTES])
{
  size_t i = 0;
  while (i < file->key_count && memcmp(file->keys[i].id, id, PD_KEY_ID_BYTES) != 0) i++;
  return i;
}

pd_code pd_vault_use(pd_home *home, const uint8_t id[PD_KEY_ID_BYTES], uint8_t out_key[PD_KEY_BYTES], pd_error *err)
{
  CLEANUP(vault_release) pd_vault *vault;
  TRY(hold_unlocked(home, &vault, err));
  size_t at = find_key(&vault->file, id);
  if (at == vault->file.key_count) return pd_error_set(err, PD_NOT_FOUND, "the vault of %s has no such key", home->folder);
  memcpy(out_key, ring_of(&vault->secret)->keys[at], PD_KEY_BYTES);
  return PD_OK;
}

/* Append a foreign master key behind the current one. */
static pd_code take_in(pd_vault *vault, const pd_wrapped *wrapped, const uint8_t *master, pd_error *err)
{
  keyring *ring = ring_of(&vault->secret);
  pd_vault_file file = vault->file;
  if (find_key(&file, wrapped->id) < file.key_count) return PD_OK;
  if (file.key_count == PD_VAULT_KEYS_MAX) return pd_error_set(err, PD_LIMIT, "the vault has %d master keys already", PD_VAULT_KEYS_MAX);
  pd_wrapped *slot = &file.keys[file.key_count];
  *slot = *wrapped;
  TRY(pd_wrap(&file.kdf, ring->wrap, master, slot, err));
  file.key_count++;
  TRY(write_file(vault->home, &file, false, err));
  memcpy(ring->keys[file.key_count - 1], master, PD_KEY_BYTES);
  vault->file = file;
  return PD_OK;
}

pd_code pd_vault_adopt(pd_home *home, const pd_kdf *kdf, const pd_wrapped *wrapped, pd_bytes passphrase, pd_error *err)
{
  CLEANUP(pd_secret_done) pd_secret secret = {0};
  CLEANUP(pd_fd_done) int lock = -1;
  TRY(check_passphrase(passphrase, 1, err));
  TRY(pd_secret_new(&secret, 2 * PD_KEY_BYTES, err));
  TRY(pd_kdf_open(kdf, passphrase, secret.data, err));
  TRY(pd_unwrap(kdf, secret.data, wrapped, secret.data + PD_KEY_BYTES, err));
  TRY(lock_file(home, &lock, err));
  CLEANUP(vault_release) pd_vault *vault;
  TRY(hold_unlocked(home, &vault, err));
  return take_in(vault, wrapped, secret.data + PD_KEY_BYTES, err);
}

/* ---- vault.status ---- */

pd_code pd_cap_vault_status(pd_frame *frame, pd_error *err)
{
  pd_vault_state state;
  TRY(pd_vault_status(frame->home, &state, err));
  pd_json_put_bool(&frame->out, "exists", state.exists);
  pd_json_put_bool(&frame->out, "unlocked", state.is_unlocked);
  pd_out_time(frame, "locks_at", state.locks_at_ms);
  pd_json_put_number(&frame->out, "keys", state.key_count);
  return PD_OK;
}
