/*
 * backup.h: backups: all of a home's state, or one agent's, in one encrypted file. docs/formats.md has the bytes.
 *
 * A backup is a header and chunks. The header says what it is and holds the slot that opens its key with the passphrase of its home.
 * The chunks are AES-256-GCM of one stream: for each store a bundle (bundle.h; packed with zstd), then the manifest, then a trailer.
 *
 * U1  Every chunk is bound to the header's hash, its own number, and whether it is the last. So a changed, cut, swapped, repeated or
 *     dropped chunk, or one of another backup, does not open.
 * U2  All chunks but the last are full: so any place of the stream is found, decrypted and checked without reading what is before it.
 * U3  The key of a backup is its own: made by HKDF from the master key and the backup's random number.
 * U4  A file appears in the folder whole and synced, under a name that nothing had; the id is in the header, so a renamed file is noticed.
 * U5  Memory does not grow with the size of a store: a chunk, a block of a bundle, and what one commit needs to be remembered.
 */
#ifndef PD_STATE_BACKUP_H
#define PD_STATE_BACKUP_H

#include "base/secret.h"
#include "state/home.h"
#include "state/keyslot.h"

#define PD_BACKUP_FORMAT 1
#define PD_BACKUP_ID_SIZE 40 /* with its NUL */
#define PD_BACKUP_UID_BYTES 16
#define PD_BACKUP_HEAD_BYTES                                                                                                               \
  (8 + 4 + 4 + PD_BACKUP_UID_BYTES + 8 + 8 + PD_BACKUP_ID_SIZE + PD_NAME_SIZE_MAX + PD_KEYSLOT_BYTES + PD_KEY_BYTES + PD_ID_SIZE)
#define PD_BACKUP_CHUNK_BYTES ((size_t)65536)
#define PD_BACKUP_CHUNK_EXTRA (4 + PD_TAG_BYTES) /* size and flag, tag */
#define PD_BACKUP_TRAILER_BYTES 24
#define PD_BACKUP_MANIFEST_MAX ((size_t)16 << 20)
#define PD_BACKUP_STORES_MAX 100000
#define PD_BACKUP_PATH_SIZE 4096
#define PD_BACKUP_CACHE_BYTES ((size_t)4 << 20) /* of a store's handle that only backups use (U5) */

typedef struct pd_backup_head {
  char id[PD_BACKUP_ID_SIZE];       /* bkp-20261115T100000Z, or with -2, -3… */
  char agent[PD_NAME_SIZE_MAX + 1]; /* "": full */
  uint8_t uid[PD_BACKUP_UID_BYTES]; /* random: the same in every copy */
  uint64_t sequence;                /* of its home: 1, 2, 3… */
  int64_t created_ms;
  pd_kdf kdf;
  pd_wrapped wrapped;
  uint8_t commitment[PD_KEY_BYTES]; /* to the master key (K3) */
  pd_id hash;                       /* of the encoded header (U1) */
} pd_backup_head;

/* ---- backup_head.c ---- */

/* `head->hash` is set. */
void pd_backup_head_encode(pd_backup_head *head, uint8_t out[PD_BACKUP_HEAD_BYTES]);
/* PD_FORMAT: no backup, or a newer one. PD_CORRUPT: damaged or cut off. */
PD_MUST_USE pd_code pd_backup_head_decode(pd_bytes bytes, pd_backup_head *out, pd_error *err);
/* bkp-20261115T100000Z, and -n if n > 1. */
void pd_backup_id_text(int64_t time_ms, unsigned n, char out[PD_BACKUP_ID_SIZE]);
/* "full" or "agent:NAME". */
void pd_backup_scope(const pd_backup_head *head, char out[PD_NAME_SIZE_MAX + 8]);
/* The commitment and the key of the chunks, from the master key. */
PD_MUST_USE pd_code pd_backup_commit_to(const pd_backup_head *head, const uint8_t master[PD_KEY_BYTES], uint8_t out[PD_KEY_BYTES],
                                        pd_error *err);
PD_MUST_USE pd_code pd_backup_chunk_gcm(const pd_backup_head *head, const uint8_t master[PD_KEY_BYTES], pd_gcm *out, pd_error *err);
/* What a chunk is bound to (U1), and its nonce. */
void pd_backup_chunk_bind(const pd_backup_head *head, uint64_t number, uint32_t size_and_flag, uint8_t out_nonce[PD_NONCE_BYTES],
                          uint8_t out_aad[PD_ID_SIZE + 12]);
#define PD_BACKUP_LAST_FLAG 0x80000000u

/* ---- the manifest (backup_manifest.c) ---- */

typedef struct pd_backup_store {
  char name[PD_NAME_SIZE_MAX + 1];
  pd_id head;        /* of `main` at the backup's instant */
  pd_id queue;       /* of PD_QUEUE_REF; zero: it had none */
  uint64_t at, size; /* of its bundle, in the stream */
  uint64_t commits, changes, value_bytes;
  pd_gc_pause *pause; /* from the instant on, until its bundle is written; not in the manifest */
} pd_backup_store;

typedef struct pd_backup_manifest {
  int64_t instant_ms;
  pd_backup_store *stores;
  size_t count, capacity;
} pd_backup_manifest;

void pd_backup_manifest_done(pd_backup_manifest *manifest);
PD_MUST_USE pd_code pd_backup_manifest_add(pd_backup_manifest *manifest, const char *name, pd_backup_store **out, pd_error *err);
PD_MUST_USE pd_code pd_backup_manifest_encode(const pd_backup_manifest *manifest, pd_buf *out, pd_error *err);
/* `stream_size` bounds the places of the bundles. PD_CORRUPT. */
PD_MUST_USE pd_code pd_backup_manifest_decode(pd_bytes text, uint64_t stream_size, pd_backup_manifest *out, pd_error *err);
bool pd_backup_is_agent(const pd_backup_store *store);

/* ---- writing (backup_write.c) ---- */

typedef struct pd_backup_out {
  pd_backup_head head;
  pd_gcm gcm;
  int fd; /* of the draft; -1: none */
  char draft[PD_BACKUP_PATH_SIZE], path[PD_BACKUP_PATH_SIZE];
  pd_buf chunk;    /* plain text, not yet sealed */
  uint64_t number; /* of that chunk */
  uint64_t stream_size, file_size;
} pd_backup_out;

/* Reserve an id in `folder`, write the header. head's agent, created_ms, sequence, kdf and wrapped are set by the caller. */
PD_MUST_USE pd_code pd_backup_out_begin(pd_backup_out *out, const char *folder, const uint8_t master[PD_KEY_BYTES], pd_error *err);
/* A sink: `ctx` is a pd_backup_out. */
PD_MUST_USE pd_code pd_backup_out_add(void *ctx, const void *data, size_t size, pd_error *err);
/* Manifest, trailer, last chunk; then the file has its name (U4). */
PD_MUST_USE pd_code pd_backup_out_end(pd_backup_out *out, const pd_backup_manifest *manifest, pd_error *err);
/* Also after a failure: the draft goes. */
void pd_backup_out_done(pd_backup_out *out);
/* Remove what writers left that died: drafts that nobody holds. */
void pd_backup_sweep_drafts(const char *folder);
/* Make an empty draft that no other has: FOLDER/ID.part, locked as long as `out_fd` is open. PD_EXISTS. */
PD_MUST_USE pd_code pd_backup_draft(const char *folder, const char *id, char *out_draft, char *out_path, int *out_fd, pd_error *err);

/* ---- reading (backup_read.c) ---- */

typedef struct pd_backup_in {
  pd_backup_head head;
  char path[PD_BACKUP_PATH_SIZE];
  int fd;
  uint64_t file_size, stream_size, chunk_count;
  pd_gcm gcm;
  uint8_t *box, *plain; /* a chunk each */
  uint64_t held;        /* the chunk in `plain`; UINT64_MAX: none */
  pd_backup_manifest manifest;
  const struct pd_frame *frame; /* whose caller is told how far verifying is; NULL: nobody's */
} pd_backup_in;

/* Open the file and read its header. PD_FORMAT, PD_CORRUPT, PD_STORAGE. Pair with pd_backup_in_done, also on failure. */
PD_MUST_USE pd_code pd_backup_in_open(pd_backup_in *in, const char *path, pd_error *err);
/* With the master key: K3, then the manifest. PD_DECRYPT named DecryptionFailed for a wrong key and for damage; the message tells which. */
PD_MUST_USE pd_code pd_backup_in_unlock(pd_backup_in *in, const uint8_t master[PD_KEY_BYTES], pd_error *err);
/* The same with the key of the home's vault, if it has it. PD_LOCKED. */
PD_MUST_USE pd_code pd_backup_in_unlock_by(pd_backup_in *in, pd_home *home, pd_error *err);
/* Every chunk (U1). */
PD_MUST_USE pd_code pd_backup_in_verify(pd_backup_in *in, pd_error *err);
/* A store's bundle as a source of pd_import_from; borrowed from `in` and `range`. */
typedef struct pd_backup_range {
  pd_backup_in *in;
  uint64_t at;
} pd_backup_range;
pd_source pd_backup_bundle(pd_backup_in *in, const pd_backup_store *store, pd_backup_range *range);
void pd_backup_in_done(pd_backup_in *in);

/* ---- the folder (backup_list.c) ---- */

typedef struct pd_backup_item {
  char id[PD_BACKUP_ID_SIZE + 8]; /* here: the file's name */
  pd_backup_head head;
  uint64_t file_size;
  bool is_readable; /* false: the header is damaged, or of another backup than the name says */
} pd_backup_item;

typedef struct pd_backup_list {
  pd_backup_item *items; /* newest first */
  size_t count, capacity;
} pd_backup_list;

PD_MUST_USE pd_code pd_backup_folder(pd_home *home, char out[PD_BACKUP_PATH_SIZE], pd_error *err);
PD_MUST_USE pd_code pd_backup_list_read(const char *folder, pd_backup_list *out, pd_error *err);
void pd_backup_list_done(pd_backup_list *list);
/* Open the backup of that id. PD_NOT_FOUND named BackupNotFound. Pair with pd_backup_in_done, also on failure. */
PD_MUST_USE pd_code pd_backup_find(pd_home *home, const char *id, pd_backup_in *in, pd_error *err);
/* Of each scope, remove the oldest beyond `keep`, but never `new_id`, nor what was imported; mark the others. */
PD_MUST_USE pd_code pd_backup_prune(const char *folder, uint64_t keep, const char *new_id, pd_error *err);
/* Does the name of a file here (without .pdb) belong to a backup of this id? ID, or ID.2, ID.3… for another home's of the same second. */
bool pd_backup_name_fits(const char *name, const char *id);

/* ---- which there should be (backup_made.c) ---- */

typedef struct pd_backup_names {
  char (*ids)[PD_BACKUP_ID_SIZE + 8]; /* sorted */
  size_t count, capacity;
} pd_backup_names;

PD_MUST_USE pd_code pd_backup_mark(const char *folder, const char *id, pd_error *err);
/* As one that came from elsewhere, whatever made it. */
PD_MUST_USE pd_code pd_backup_mark_imported(const char *folder, const char *id, pd_error *err);
bool pd_backup_is_imported(const char *folder, const char *id);
PD_MUST_USE pd_code pd_backup_unmark(const char *folder, const char *id, pd_error *err);
/* Those that are marked and not there. To be finished with pd_backup_names_done, also after a failure. */
PD_MUST_USE pd_code pd_backup_missing(const char *folder, pd_backup_names *out, pd_error *err);
void pd_backup_names_done(pd_backup_names *names);

/* ---- stores (backup_create.c) ---- */

/* A handle with a small cache of its own (U5); of homes that are private to their handles, the home's. */
typedef struct pd_backup_handle {
  pd_store *store;
  bool is_own;
  pd_home *home;
  pd_held *held; /* else: the home's */
} pd_backup_handle;

PD_MUST_USE pd_code pd_backup_handle_open(pd_home *home, const char *name, bool create, pd_backup_handle *out, pd_error *err);
/* The same as part of a joint commit (joint.h). The home's own handle is left alone: what it has buffered waits until the end. */
PD_MUST_USE pd_code pd_backup_handle_join(pd_home *home, pd_joint *joint, const char *name, pd_backup_handle *out, pd_error *err);
PD_MUST_USE pd_code pd_backup_handle_close(pd_backup_handle *handle, pd_error *err);
void pd_backup_handle_done(pd_backup_handle *handle); /* for CLEANUP: drops the error */

/* ---- restoring (restore.c, restore_switch.c) ---- */

/* Complete a restore that a perdure before joint commits had decided and not carried out. Called when a home opens. */
PD_MUST_USE pd_code pd_restore_resume(pd_home *home, pd_error *err);

/* ---- stores that are placed elsewhere (object_storage) ---- */

/* Whether the store is not in the home, so that backups and restores leave it out. */
bool pd_backup_is_outside(const pd_home *home, const char *store);
/* Refuse an agent that was named, and whose store is not in the home. */
PD_MUST_USE pd_code pd_backup_check_here(const pd_home *home, const char *agent, pd_error *err);

#endif
