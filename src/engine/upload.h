/*
 * upload.h: putting a value into the bag in pieces, before its commit. Private to src/engine.
 *
 *   U1  Pieces go into the bag as they are cut; nothing refers to them before the commit. An upload that is given up leaves blobs that
 *       nobody names, for gc to remove.
 *   U2  A piece that the key's present version has is not put again. That is sound only while this version is the one right before the
 *       commit: pd_pieces.basis_seq, checked when the commit is staged.
 *   U3  gc and erasure may sweep what was put before their mark and is not named by the log. They take the mark, then write the state of
 *       retention, then look at the log; so pieces are safe if that entry is no newer than their since_seq (tags, pins and settings lie
 *       under the same ref, and sweep nothing), and if it is, they are put once more after it (B15). Checked when the commit is staged,
 *       by the same rule: what is staged behind gc's record has seen it, what is before it is seen by gc.
 *   U4  Memory is bounded whatever the value's size: the caller's window, the ids of some pieces of the version before.
 */
#ifndef PD_ENGINE_UPLOAD_H
#define PD_ENGINE_UPLOAD_H

#include "engine/store.h"

typedef struct pd_upload pd_upload;

/* Takes the lock. `ref` NULL: the handle's. */
PD_MUST_USE pd_code pd_upload_new(pd_store *s, const char *ref, pd_bytes key, pd_upload **out, pd_error *err);
/* Takes NULL. */
void pd_upload_free(pd_upload *u);
/* Cut pieces off `data` and put them into the bag; *out_used is how much of it was taken. Bytes that are not are to be given again,
 * with what follows them: without `is_end`, up to PD_CHUNK_SIZE_MAX are left over. */
PD_MUST_USE pd_code pd_upload_add(pd_upload *u, pd_bytes data, bool is_end, size_t *out_used, pd_error *err);
/* Put the list. */
PD_MUST_USE pd_code pd_upload_end(pd_upload *u, pd_pieces *out, pd_error *err);

#endif
