/*
 * watch.h: following changes. Included by perdure.h; errors, lifetimes and `at` are explained there.
 *
 *     pd_watch *w = NULL;
 *     pd_watch_options options = {.prefix = pd_text("plan/")};            // from now on, on every ref
 *     if (pd_watch_open(store, &options, &w, &err)) …
 *     pd_watch_event e;
 *     while (!(code = pd_watch_next(w, PD_WATCH_FOREVER, &e, &err)) || code == PD_NOT_FOUND)
 *       if (code == PD_OK) handle(&e), save(e.next);                      // begin there after a restart: none is lost or doubled
 *     pd_watch_close(w);
 *
 * A watch reads the log, so it sees what any handle and any process wrote, in the one order that all of them agree on, and each
 * event once its record is in the log: with a buffered store, when it was flushed. Who waits sleeps until the backend wakes it.
 */
#ifndef PERDURE_WATCH_H
#define PERDURE_WATCH_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A place in the log: before the index-th change of record `seq`. Two numbers that may be stored anywhere and used by any process. */
typedef struct pd_watch_cursor {
  uint64_t seq; /* 0, to begin with: now */
  uint64_t index;
} pd_watch_cursor;

#define PD_WATCH_CURSOR_SIZE 48

/* "17", or "17.3" within a record; returns `out`. */
PD_API char *pd_watch_cursor_text(const pd_watch_cursor *cursor, char out[PD_WATCH_CURSOR_SIZE]);
/* What pd_watch_cursor_text writes, and nothing else. */
PD_API PD_MUST_USE bool pd_watch_cursor_parse(const char *text, pd_watch_cursor *out);
/* < 0, 0 or > 0: `a` lies before, at or after `b`. */
PD_API int pd_watch_cursor_compare(const pd_watch_cursor *a, const pd_watch_cursor *b);

typedef enum pd_watch_kind {
  PD_WATCH_PUT = 1,    /* a key has a new value */
  PD_WATCH_DELETE = 2, /* a key is gone */
  PD_WATCH_MOVE = 3,   /* a ref was moved to another commit, made or removed; pd_diff of before and commit tells the keys */
  PD_WATCH_GAP = 4     /* what happened in records seq … last_seq is not known (whole) any more: retention removed it */
} pd_watch_kind;

/* "put", "delete", "move", "gap". Static storage. */
PD_API const char *pd_watch_kind_name(pd_watch_kind kind);

/* Pointers are borrowed until the next call on the watch. What a kind does not name is zero, or "". */
typedef struct pd_watch_event {
  pd_watch_kind kind;
  uint64_t seq;         /* of the record */
  uint64_t last_seq;    /* gap: the last record it covers; else seq */
  pd_watch_cursor next; /* a watch that begins here goes on after this event */
  const char *ref;
  pd_bytes key;               /* put, delete */
  uint64_t version;           /* put, delete: as in pd_change */
  pd_id value_id;             /* put */
  uint64_t size;              /* put: of the value, bytes */
  bool is_erased;             /* put: the value's bytes were erased since */
  bool is_new;                /* put: the key was absent before, as in pd_change */
  pd_record_kind record_kind; /* move: fork, reset, undo, redo, ref delete or switch; else commit */
  pd_commit commit;           /* the one that was made, or that the ref was moved to; zero if it was removed */
  pd_id before;               /* move: the commit the ref was at; zero if there was none, or it is not known any more */
  const char *author, *run, *reason;
  int64_t time_ms;
} pd_watch_event;

typedef struct pd_watch_options {
  pd_watch_cursor from; /* {0}: what comes from now on. {1}: all there ever was */
  pd_bytes prefix;      /* only keys that begin with it; moves and gaps are always told */
  const char *ref;      /* only this ref, which need not be there yet; NULL: all */
} pd_watch_options;

typedef struct pd_watch pd_watch;

/* Begin to watch. `options` may be NULL (everything, from now on) and is copied. A watch belongs to one thread at a time; any number may
 * be open. PD_INVALID if `from` is past the end of the log (a cursor of another store, or of one that was put back), or the ref's name
 * is none; PD_LIMIT for a prefix longer than a key. Close it before the store. */
PD_API PD_MUST_USE pd_code pd_watch_open(pd_store *store, const pd_watch_options *options, pd_watch **out, pd_error *err);

#define PD_WATCH_FOREVER UINT32_MAX

/* The next event. PD_NOT_FOUND if none came within `timeout_ms` (0: do not wait), or a signal came; `err` is not written then. A read
 * through the same store at `#SEQ` or at the ref sees the event's change. After PD_CORRUPT or PD_STORAGE the same place is tried again. */
PD_API PD_MUST_USE pd_code pd_watch_next(pd_watch *watch, uint32_t timeout_ms, pd_watch_event *out, pd_error *err);

/* Where the watch stands: after the last event that it gave, and after whatever it has passed over since. */
PD_API pd_watch_cursor pd_watch_where(const pd_watch *watch);

/* Takes NULL. */
PD_API void pd_watch_close(pd_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
