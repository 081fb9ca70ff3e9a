/*
 * erase.h: the inside of erasure. Private to src/engine.
 *
 *   X1  An erasure is written down before the first byte goes: by a state of retention (gc.h G4), or, if it is lazy, by entries
 *       erasing/… of the hidden ref, in the same batch as the deletion. The next gc finishes those, and removes them.
 *   X2  Records are replaced by pd_log_replace or log_swap alone, which refuse if somebody else took bytes away meanwhile: gc and erasures
 *       of several processes never bring each other's bytes back.
 */
#ifndef PD_ENGINE_ERASE_H
#define PD_ENGINE_ERASE_H

#include "engine/gc.h"
#include "engine/retired.h"

/* A version that is to be erased. */
typedef struct pd_victim {
  uint64_t seq;
  pd_id value_id, list_id;
  uint64_t size;
  int64_t made_ms; /* when its commit was made, by the clock of whoever made it */
  bool is_in_bag, is_chunked;
  bool was_erased; /* by an erasure that did not end: only its blobs may be left */
} pd_victim;

/* Who holds a version, so that it stays. */
typedef struct pd_holder {
  uint64_t seq; /* of a commit; of the ref's head it is not used */
  bool is_mark;
  char label[96];
} pd_holder;

typedef struct pd_eraser {
  pd_store *s;
  pd_bytes key;
  const pd_erase_options *options;
  pd_erase_report *report;
  char ref[PD_REF_SIZE_MAX + 1];
  uint64_t only_seq; /* 0, or: the one record */
  uint64_t last_seq; /* the last record that is looked at */
  uint64_t mark;     /* of the bag */
  uint64_t epoch;    /* of the state that is built upon */
  uint64_t meta_seq; /* head of PD_META_REF then */
  pd_map64 line;     /* records that are on the line */
  pd_holder *holders;
  size_t holder_count, holder_capacity;
  pd_map64 held;      /* records whose value somebody holds: which holder */
  pd_id_map doomed;   /* blobs; 1: something else needs it */
  pd_id_map lists;    /* of these: lists of pieces, which go last: they lead to the pieces if the sweep is cut off */
  pd_victim *victims; /* descending by seq, then ascending */
  size_t count, capacity;
  uint64_t *left; /* records that wrote the key on a ref of options->left_of, up to left_seq */
  size_t left_count, left_capacity;
  uint64_t left_seq;
  uint64_t done, total;
} pd_eraser;

void pd_eraser_done(pd_eraser *e);
/* Forget what an earlier try found. */
void pd_eraser_reset(pd_eraser *e);
PD_MUST_USE pd_code pd_eraser_add(pd_eraser *e, const pd_rec *rec, const pd_rec_change *ch, pd_error *err);
/* Note the commit that deleted the key on a ref. */
void pd_eraser_deleted(pd_eraser *e, const char *ref, const pd_ack *ack);
/* PD_NOT_FOUND: there is nothing to erase. */
pd_code pd_eraser_nothing(const pd_eraser *e, pd_error *err);

/* When an erasure is made, by the log; and the time from which the log may be ahead (Y6). */
typedef struct pd_erase_moment {
  int64_t at_ms, sure_ms;
} pd_erase_moment;

/* ---- erase_note.c ---- */

/* Find what stays: the key's value at the heads of other refs, and if the options say so where marks are. Commits before record `floor`
 * are not looked at. Only with nothing staged. */
PD_MUST_USE pd_code pd_eraser_hold(pd_eraser *e, uint64_t floor, pd_error *err);
/* Does somebody hold the version that record `seq` wrote? Counted in the report. */
bool pd_eraser_holds(pd_eraser *e, uint64_t seq);

/* Entries of the hidden ref. */
typedef struct pd_erase_notes {
  pd_change_in *changes; /* point into `bytes` */
  size_t count, capacity;
  size_t *ends; /* of each key and each value in `bytes` */
  size_t end_capacity;
  pd_buf bytes;
} pd_erase_notes;

void pd_erase_notes_done(pd_erase_notes *n);
/* erased/<value id> of each victim that was not erased before, ascending; and what imports go by (erase_ledger.c). */
PD_MUST_USE pd_code pd_erase_notes_add(const pd_eraser *e, bool has_lock, const pd_erase_moment *moment, const char *by, pd_erase_notes *n,
                                       pd_error *err);
/* erasing/<number>/<part>: the records that are to lose their values. Adds after those of pd_erase_notes_add. */
PD_MUST_USE pd_code pd_erase_todo_add(const pd_eraser *e, uint64_t number, pd_erase_notes *n, pd_error *err);
/* Remove erasing/<name>, which has this value. In ascending order, and no others with it. */
PD_MUST_USE pd_code pd_erase_notes_remove(pd_erase_notes *n, const char *name, pd_bytes value, pd_error *err);
/* Give erased/<name> this value; NULL: remove it. PD_CONFLICT when it is written if its version is another by then. */
PD_MUST_USE pd_code pd_erase_notes_replace(pd_erase_notes *n, const char *name, uint64_t version, const pd_bytes *value, pd_error *err);
/* Once all are added: fill `changes`. */
void pd_erase_notes_end(pd_erase_notes *n);

/* ---- erase_left.c ---- */

/* Look through the log for what was left behind (options->left_of). Without the lock, as far as the log goes now… */
PD_MUST_USE pd_code pd_eraser_look_left(pd_eraser *e, pd_error *err);
/* …and then, with the lock and nothing staged, through what came since; all that is not among the victims yet is added. */
PD_MUST_USE pd_code pd_eraser_add_left(pd_eraser *e, pd_error *err);

/* ---- erase_lazy.c ---- */

PD_MUST_USE pd_code pd_erase_lazily(pd_eraser *e, pd_error *err);
/* Take the value of `key` out of these records, ascending. Without the lock. */
PD_MUST_USE pd_code pd_erase_in_records(pd_store *s, pd_bytes key, const uint64_t *seqs, size_t count, pd_error *err);
/* Finish lazy erasures that were cut off. *n gets changes that remove their entries, for the record that gc writes. Takes the lock. */
PD_MUST_USE pd_code pd_erase_finish(pd_store *s, pd_erase_notes *n, pd_error *err);

/* ---- erase_times.c: of which times an entry of the ledger speaks ---- */

#define PD_ERASE_LEDGER_SPANS 8

typedef struct pd_erase_ledger_span {
  int64_t from_ms, to_ms;
} pd_erase_ledger_span;

typedef struct pd_erase_ledger_times {
  int64_t at_ms;
  pd_erase_ledger_span ahead[PD_ERASE_LEDGER_SPANS];
  size_t count;
} pd_erase_ledger_times;

void pd_erase_ledger_add_span(pd_erase_ledger_times *t, int64_t from_ms, int64_t to_ms);
/* False: it is not an entry. */
bool pd_erase_ledger_parse(pd_bytes value, pd_erase_ledger_times *out);
PD_MUST_USE pd_code pd_erase_ledger_print(const pd_erase_ledger_times *t, pd_buf *out, pd_error *err);
/* All that either covers. */
void pd_erase_ledger_join(pd_erase_ledger_times *t, const pd_erase_ledger_times *other);
/* With the lock: take the time back if a clock was ahead when record `seq` wrote the entry (Y6). */
PD_MUST_USE pd_code pd_erase_ledger_settle(pd_store *s, uint64_t seq, pd_erase_ledger_times *t, pd_error *err);
/* Does the entry of a value, of a whole key, cover a commit that was made then? */
bool pd_erase_ledger_has_value(const pd_erase_ledger_times *t, int64_t made_ms);
bool pd_erase_ledger_has_key(const pd_erase_ledger_times *t, int64_t made_ms);
/* A whole key's entry covers all that a value's does. */
bool pd_erase_ledger_is_within(const pd_erase_ledger_times *value, const pd_erase_ledger_times *key);

/* ---- erase_ledger.c ---- */

/* With the lock. */
pd_erase_moment pd_erase_moment_now(pd_store *s);
/* The times of an entry; those of commits that may turn out to be ahead are named one by one. */
void pd_erase_ledger_add_made(pd_erase_ledger_times *t, const pd_erase_moment *moment, int64_t made_ms);
/* erased/<value id>/<hash of the key>: this value of the key was erased. With `value_id` NULL erased/key/<hash of the key>: all that was
 * written to the key until then was. What the store has of that name is joined to it. Takes the lock if `has_lock` is false. */
PD_MUST_USE pd_code pd_erase_ledger_add(pd_store *s, bool has_lock, pd_bytes key, const pd_id *value_id, const pd_erase_ledger_times *times,
                                        pd_buf *out, size_t *out_key_end, pd_error *err);

/* As an entry of the hidden ref travels: if it is one of the ledger that the log has put right, *value becomes that, in `out`. Takes the
 * lock. */
PD_MUST_USE pd_code pd_erase_ledger_export(pd_store *s, const pd_entry *entry, pd_bytes *value, pd_buf *out, pd_error *err);
/* With the lock: an entry of a bundle meets one of the same name here. *out_is_more: together they say more than the one here, and are in
 * `out`. */
PD_MUST_USE pd_code pd_erase_ledger_meet(pd_store *s, pd_bytes name, pd_bytes value, pd_buf *out, bool *out_is_more, pd_error *err);

/* ---- erase_compact.c ---- */

/* For the record that gc writes: removals of entries that say nothing which others do not, and entries whose time was wrong, put right. To
 * be called first: they sort before what pd_erase_finish adds. */
PD_MUST_USE pd_code pd_erase_ledger_compact(pd_store *s, pd_erase_notes *n, pd_error *err);

typedef struct pd_erase_ledger_size {
  uint64_t entries, bytes; /* with the notes for readers */
  uint64_t keys;           /* of these: whole keys */
} pd_erase_ledger_size;

PD_MUST_USE pd_code pd_erase_ledger_measure(pd_store *s, pd_erase_ledger_size *out, pd_error *err);

#endif
