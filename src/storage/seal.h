/*
 * seal.h: what file:, sqlite-snapshots: and redis: keep behind a document: which save it is, and a checksum. 258 bytes of white space:
 *
 *     byte 0      newline
 *     1..64       mark.epoch   )
 *     65..128     mark.save    ) 64 bits each, the highest first: a blank is 0, a tab is 1
 *     129..192    mark.token   )
 *     193..256    the first 64 bits of the SHA-256 of the document and of bytes 0 to 192, in the same way
 *     257         newline
 *
 * White space, because every JSON reader passes over it, and a program that writes the document again drops it: a checksum that is a
 * member would be carried along by such a program, and then call a sound document damaged.
 *
 *  Z1  Document and seal are one value, replaced as a whole. So the mark that is found is that of the document that is found.
 *  Z2  A value that ends in 64 or more bytes of white space with a tab among them has a seal. If that is not whole, or its checksum is
 *      not that of the document, the value is damaged. A value without one was written by another program, and has no mark.
 */
#ifndef PD_STORAGE_SEAL_H
#define PD_STORAGE_SEAL_H

#include <perdure/storage.h>

#define PD_SEAL_SIZE 258
#define PD_SEAL_MARK_AT 1
#define PD_SEAL_MARK_SIZE 192

/* Append `document` and its seal. */
PD_MUST_USE pd_code pd_seal_write(pd_bytes document, const pd_storage_mark *mark, pd_buf *out, pd_error *err);
/* Take a stored value apart. Its mark is zeros if it has no seal. PD_CORRUPT if it is damaged (Z2); `out_mark` may be NULL. */
PD_MUST_USE pd_code pd_seal_read(pd_bytes stored, pd_bytes *out_document, pd_storage_mark *out_mark, pd_error *err);
/* The mark in the last PD_SEAL_SIZE bytes (or fewer, if there are not so many) of a value; zeros if they are no seal. Checks no sum. */
pd_storage_mark pd_seal_mark(pd_bytes tail);
/* The mark as the white space that a seal has of it. */
void pd_seal_mark_text(const pd_storage_mark *mark, char out[PD_SEAL_MARK_SIZE]);
/* Did somebody save since `last`? With NULL it does not matter. */
bool pd_mark_is(const pd_storage_mark *now, const pd_storage_mark *last);
/* What a claim makes of the epoch before: one that was never given out, also if the storage lost its memory or was put back (S9). */
uint64_t pd_epoch_after(uint64_t last);
/* PD_CONFLICT: another epoch holds the agent (S10), or somebody saved since (S12). */
pd_code pd_epoch_conflict(uint64_t epoch, uint64_t now, pd_error *err);
pd_code pd_mark_conflict(const pd_storage_mark *next, const pd_storage_mark *now, pd_error *err);

#endif
