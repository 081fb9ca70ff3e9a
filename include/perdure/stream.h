/*
 * stream.h: large values as streams. Included by perdure.h; errors, lifetimes and `at` are explained there.
 *
 * A value over 64 KiB lies in the store in pieces of about 16 KiB, cut where its content says so: an edit of a few bytes anywhere
 * in it, insertions and deletions too, costs the pieces it touches and a short list. That happens by itself in pd_put, pd_edit_put
 * and all other writes; its id is still the plain SHA-256 of its bytes. The functions here do the same without ever having the
 * whole value in memory: 4 MiB are enough for any size.
 *
 * No lock of the store is held while a callback runs: it may take its time, and it may call the store (but not close it).
 */
#ifndef PERDURE_STREAM_H
#define PERDURE_STREAM_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Give some of the value's next bytes: write at most `size` of them to `buffer` and their number to *out_size; 0 is the end.
 * Anything but PD_OK gives the put up, and is what it answers; say why in `err` (it may be NULL). */
typedef pd_code (*pd_stream_read)(void *ctx, void *buffer, size_t size, size_t *out_size, pd_error *err);

/* Set `key` to the bytes that `read` gives: one commit, made when `read` says that they are over, and durable as any other. Nobody
 * sees anything of the value before. `expect_version` (PD_ANY_VERSION: any) and `note` are as in pd_put_if, and judged at the
 * commit; a version that is wrong at the beginning is told at once.
 *
 * Given up or killed on the way, a put leaves the key as it was, and in the store pieces that nobody names; gc removes them.
 * PD_LIMIT beyond `value_size_max` of pd_options, which may be raised to 4 GiB - 2. PD_CONFLICT, besides the usual, if gc of another
 * process removed pieces of the unfinished value: put it again. */
PD_API PD_MUST_USE pd_code pd_put_stream(pd_store *store, pd_bytes key, pd_stream_read read, void *ctx, uint64_t expect_version,
                                         const pd_note *note, pd_ack *out, pd_error *err);

/* Take the value's next bytes; at most 64 KiB at once, unless an older perdure stored the value whole. Borrowed until return.
 * Anything but PD_OK ends the reading, and is what it answers. */
typedef pd_code (*pd_stream_write)(void *ctx, pd_bytes piece, pd_error *err);

/* Hand the value of `key` at `at` to `write`, piece by piece, in order. `out_entry` may be NULL, its key points to the argument; it is
 * written before the first piece. An empty value has no pieces.
 *
 * What you can rely on: each piece was compared with its own id before you get it, so no damaged byte is ever handed out; that the
 * pieces are all of the value, in order, is sure only when this returns PD_OK: then the whole was compared with the value's id
 * and size. On any other answer, discard what you were given.
 * PD_NOT_FOUND and PD_ERASED as in pd_get; also in the middle, if gc or erase took an old version while it was being read. */
PD_API PD_MUST_USE pd_code pd_get_stream(pd_store *store, const char *at, pd_bytes key, pd_stream_write write, void *ctx,
                                         pd_entry *out_entry, pd_error *err);

/* The same for one version of the key, as in pd_get_version. */
PD_API PD_MUST_USE pd_code pd_get_version_stream(pd_store *store, const char *at, pd_bytes key, uint64_t version, pd_stream_write write,
                                                 void *ctx, pd_entry *out_entry, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
