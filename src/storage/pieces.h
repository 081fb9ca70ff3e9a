/*
 * pieces.h: a snapshot as pieces, so that saving it again costs what has changed. docs/formats.md has the keys.
 *
 *     effect/0000000000000000 …    an entry of perdure.effects
 *     event/0000000000000000 …     an entry of event_queue_backup
 *     history/0000000000000000 …   an entry of memory.short_term_history
 *     reply/0000000000000000 …     an entry of perdure.replies
 *     snapshot                     the document without these entries and without the variables
 *     variable/NAME                a member of memory.working_variables
 *     window                       how many there are of each, so that none is missing unseen
 *
 *  P1  The numbers of a list's entries are consecutive. They need not begin at 0: entries that leave at the front (a queue, a context
 *      window) leave the numbers of the others as they are.
 *  P2  Pieces are in the order of their keys.
 *  P3  A variable whose name can be no key (too long, or with a NUL) stays in the piece `snapshot`.
 */
#ifndef PD_STORAGE_PIECES_H
#define PD_STORAGE_PIECES_H

#include "storage/snapshot.h"

/* In the order of their keys. */
typedef enum pd_piece_kind {
  PD_PIECE_EFFECT,
  PD_PIECE_EVENT,
  PD_PIECE_HISTORY,
  PD_PIECE_REPLY,
  PD_PIECE_SNAPSHOT,
  PD_PIECE_VARIABLE,
  PD_PIECE_WINDOW,
  PD_PIECE_KINDS
} pd_piece_kind;

#define PD_PIECE_KEY_MAX PD_KEY_SIZE_MAX
#define PD_PIECE_DIGITS 16

typedef struct pd_piece {
  pd_piece_kind kind;
  size_t name_at, name_size;   /* of a variable, in `text` */
  size_t value_at, value_size; /* JSON on one line, in `text` */
  pd_id id;                    /* of the value */
} pd_piece;

/* Zero-initialise; pd_pieces_done frees. */
typedef struct pd_pieces {
  pd_buf text;
  pd_piece *items;
  size_t count, capacity;
  size_t begin[PD_PIECE_KINDS], size[PD_PIECE_KINDS]; /* where each kind's pieces are in `items` */
  uint64_t first[PD_PIECE_KINDS];                     /* the number of a list's first entry; 0 unless set */
} pd_pieces;

PD_MUST_USE pd_code pd_pieces_make(const pd_snapshot_parts *parts, pd_pieces *out, pd_error *err);
void pd_pieces_done(pd_pieces *pieces);
/* The key of piece `index`; points into `out`. */
pd_bytes pd_pieces_key(const pd_pieces *pieces, size_t index, char out[PD_PIECE_KEY_MAX]);
pd_bytes pd_pieces_value(const pd_pieces *pieces, size_t index);
/* Are the pieces of this kind the numbered entries of a list? */
static inline bool pd_piece_is_list(pd_piece_kind kind)
{
  return kind < PD_PIECE_SNAPSHOT;
}
/* "history/"…: with what the keys of a kind begin. Static storage. */
const char *pd_piece_prefix(pd_piece_kind kind);
/* How many entries left at the front, if `now` follows `old`: what keeps most of the entries under their numbers. 0 if it does not. */
size_t pd_pieces_shift(const pd_id *old, size_t old_count, const pd_piece *now, size_t now_count);

/* Gives the pieces of a kind one after the other, each with its key without the prefix; PD_NOT_FOUND after the last. */
typedef pd_code (*pd_piece_next)(void *ctx, pd_piece_kind kind, pd_bytes *out_name, pd_bytes *out_value, pd_error *err);
/* Append the document. `next` is asked for lists and variables, in the order that the document has them. PD_CORRUPT if a
 * piece is missing or is no JSON. */
PD_MUST_USE pd_code pd_pieces_join(pd_bytes snapshot, pd_bytes window, pd_piece_next next, void *ctx, pd_buf *out, pd_error *err);

#endif
