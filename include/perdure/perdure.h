/*
 * perdure.h: the manual of libperdure, the state engine for AI agents.
 *
 * A store keeps every version of one agent's key-value state in a content-addressed history. Undo, fork, time travel and
 * audit are one thing: reading the history from another point.
 *
 *     pd_store *s = NULL;
 *     pd_error err;
 *     if (pd_store_open("sqlite:./.perdure", "main", NULL, &s, &err)) { fprintf(stderr, "%s\n", err.message); exit(4); }
 *     pd_ack ack;
 *     pd_put(s, pd_text("plan"), pd_text("{\"step\":1}"), NULL, &ack, &err);   // durable when it returns
 *     pd_buf value = {0};
 *     pd_get(s, "main~1", pd_text("plan"), &value, NULL, &err);                // one commit ago
 *     pd_buf_done(&value);
 *     pd_store_close(s, NULL);
 *
 * WORDS       value: bytes, its id is their SHA-256. tree: key -> value id; its id depends on the content alone. commit: a
 *             tree and its parent commits; its id depends on these alone. ref: a name for a commit. record: what the log
 *             holds for one commit or ref move: ids, changes, who, when, why.
 * THREADS     A pd_store may be used by any number of threads at once; concurrent commits share one sync. A pd_edit or
 *             pd_iter belongs to one thread at a time. Close a store only when no thread is inside a call on it.
 * PROCESSES   Several processes may have one store open. Each read at a ref sees what others have committed. Do not use a
 *             handle across fork(): open anew in the child.
 * OWNERSHIP   pd_bytes is borrowed: arguments until return, results until the owner named at the function changes.
 *             pd_buf is owned by you: start with {0}, finish with pd_buf_done.
 * ERRORS      See error.h. Outputs are untouched on failure, unless the function says otherwise. The library never prints,
 *             and never exits.
 * LIMITS      Keys: 1 to 1024 bytes of UTF-8 without NUL. Values: 0 bytes to `value_size_max`. Ref and agent names:
 *             [A-Za-z0-9][A-Za-z0-9._-]{0,63}; a ref may be 128 bytes long and may also contain '/' and ':'.
 */
#ifndef PERDURE_PERDURE_H
#define PERDURE_PERDURE_H

#include <perdure/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_VERSION_MAJOR 0
#define PD_VERSION_MINOR 1
#define PD_VERSION_PATCH 0

/* "0.1.0". Static storage. */
PD_API const char *pd_version(void);

/* ---- bytes, buffers, ids ------------------------------------------------------------------------------------------ */

/* Borrowed bytes. `data` may be NULL if `size` is 0. */
typedef struct pd_bytes {
  const void *data;
  size_t size;
} pd_bytes;

/* Owned bytes with a maximum from birth (0: no limit but memory). Zero-initialise; pd_buf_done frees and takes NULL. */
typedef struct pd_buf {
  uint8_t *data;
  size_t size;
  size_t capacity;
  size_t size_max;
} pd_buf;

PD_API void pd_buf_done(pd_buf *buf);

/* The bytes of a C string, without its NUL. */
static inline pd_bytes pd_text(const char *text)
{
  pd_bytes b = {text, strlen(text)};
  return b;
}

#define PD_ID_SIZE 32
#define PD_ID_HEX_SIZE 65 /* 64 digits and a NUL */

typedef struct pd_id {
  uint8_t bytes[PD_ID_SIZE];
} pd_id;

/* Write 64 hex digits and a NUL; returns `out`. */
PD_API char *pd_id_hex(const pd_id *id, char out[PD_ID_HEX_SIZE]);
/* Exactly 64 hex digits, either case. */
PD_API PD_MUST_USE bool pd_id_parse(const char *hex, pd_id *out);
PD_API bool pd_id_equal(const pd_id *a, const pd_id *b);
/* The id of a value: SHA-256 of its bytes, what sha256sum prints. */
PD_API pd_id pd_value_id(pd_bytes value);

#define PD_KEY_SIZE_MAX 1024
#define PD_NAME_SIZE_MAX 64
#define PD_REF_SIZE_MAX 128
#define PD_NOTE_SIZE_MAX 4096 /* author, run and reason, each */
#define PD_EDIT_COUNT_MAX 1000000

/* PD_OK, or PD_INVALID / PD_LIMIT with a message that says what is wrong with the key. */
PD_API PD_MUST_USE pd_code pd_key_check(pd_bytes key, pd_error *err);
PD_API PD_MUST_USE pd_code pd_agent_check(const char *name, pd_error *err);
PD_API PD_MUST_USE pd_code pd_ref_check(const char *name, pd_error *err);

/* ---- opening ------------------------------------------------------------------------------------------------------ */

typedef struct pd_store pd_store;
typedef struct pd_joint pd_joint; /* joint.h */

typedef enum pd_durability {
  PD_SYNCED = 0,   /* on stable storage when the call returned                                    */
  PD_BUFFERED = 1, /* in memory; on stable storage within flush_ms, or at pd_store_flush          */
  PD_STAGED = 2,   /* pd_put_later, note.later: pd_later_wait tells when it is on stable storage  */
  PD_NOTHING = 3   /* pd_put_later, pd_update: nothing was written                                */
} pd_durability;

typedef struct pd_options {
  bool is_read_only;            /* refuse writes; the store must exist                                   */
  bool must_exist;              /* PD_NOT_FOUND instead of creating                                      */
  uint32_t flush_ms;            /* 0: each commit is synced before its call returns. Else buffered       */
  size_t cache_size_max;        /* memory for nodes and values, bytes; 0: 64 MiB                         */
  size_t value_size_max;        /* largest value; 0: 64 MiB; at most 4 GiB - 2                            */
  const char *ref;              /* the ref that this handle works on; NULL: the store's current ref      */
  const char *author;           /* default for pd_note.author; NULL: the agent's name                    */
  int64_t (*now_ms)(void *ctx); /* NULL: the system's clock, milliseconds since 1970 UTC             */
  void *now_ctx;
  pd_joint *joint; /* part of a joint commit (joint.h); NULL: of none                                    */
} pd_options;

/* Open `agent`'s store under `uri`, creating it unless `options` say otherwise. `options` may be NULL.
 *
 * URIs: `sqlite:DIR` is a folder with one database per agent (DIR/agent.db); `memory:` is private and gone at close;
 * `memory:NAME` is shared by all handles of this process and gone when the last one closes.
 * PD_INVALID for a malformed URI or name; PD_FORMAT for a file that is no store or a newer one; PD_CORRUPT for a store
 * whose newest records are damaged; PD_STORAGE, PD_READ_ONLY. */
PD_API PD_MUST_USE pd_code pd_store_open(const char *uri, const char *agent, const pd_options *options, pd_store **out, pd_error *err);

/* Flush what is buffered, stop the store's threads, free the handle. Takes NULL. On an error (a flush that failed: its commits
 * are lost) the handle is freed all the same. */
PD_API pd_code pd_store_close(pd_store *store, pd_error *err);

/* Return when everything acknowledged so far is on stable storage. Reports a background flush that failed. */
PD_API PD_MUST_USE pd_code pd_store_flush(pd_store *store, pd_error *err);

/* Does the store take writes? PD_READ_ONLY: it was opened so. PD_STORAGE: a sync failed, so writes of every process are refused until all
 * have closed the store and it is opened again; the message says what failed and when. Reads go on. Costs nanoseconds. */
PD_API PD_MUST_USE pd_code pd_store_writable(pd_store *store, pd_error *err);

/* The ref that this handle works on. Borrowed until close or pd_switch. */
PD_API const char *pd_store_ref(pd_store *store);

/* Visit the names of the agents that have a store under `uri`, sorted. */
PD_API PD_MUST_USE pd_code pd_home_agents(const char *uri, void (*visit)(void *ctx, const char *agent), void *ctx, pd_error *err);

/* ---- points in history ------------------------------------------------------------------------------------------- */

/*
 * Everywhere `at` names a point in history, as text:
 *   NULL or ""      the head of the handle's ref
 *   main            the head of a ref
 *   release-3       a tag (story.h); a ref of that name wins
 *   message:ID      the commit that a message is linked to (story.h); a ref of that name wins
 *   3f2a9c…         a commit id, or its first 4 or more digits (PD_AMBIGUOUS if several fit); a ref or tag of that name wins
 *   X~3             three commits before X, along first parents; X~ is X~1
 *   @TIME, main@TIME  the head of the ref as it was at TIME: 2026-11-15, 2026-11-15T10:20:30Z (offset or Z; UTC if none;
 *                   fractions allowed), or milliseconds since 1970
 *   #17             the commit that record 17 of the log made
 *   root            the empty commit that every history begins with, unless a ref or tag has that name
 */
typedef struct pd_commit {
  pd_id id;
  pd_id tree;
  uint64_t seq; /* the log record that made it; 0 for the root commit */
} pd_commit;

PD_API PD_MUST_USE pd_code pd_resolve(pd_store *store, const char *at, pd_commit *out, pd_error *err);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A key as a tree knows it. */
typedef struct pd_entry {
  pd_bytes key;
  pd_id value_id;
  uint64_t version;   /* of the value: grows with each write of the key. Numbers may skip, and none is given to two writes of it */
  uint64_t size;      /* of the value, bytes */
  uint64_t seq;       /* the record that wrote it */
  int64_t created_ms; /* of its first version */
  int64_t updated_ms;
} pd_entry;

/* Read `key` at `at`. The value replaces what `out_value` holds (NULL: not wanted). `out_entry` may be NULL; its key points to
 * the argument. PD_NOT_FOUND if the key is absent there, PD_ERASED if its bytes were erased. */
PD_API PD_MUST_USE pd_code pd_get(pd_store *store, const char *at, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);

PD_API PD_MUST_USE pd_code pd_has(pd_store *store, const char *at, pd_bytes key, bool *out_has, pd_error *err);

/* Read version `version` of `key` on the line of history that ends at `at`. PD_NOT_FOUND if no write of the key had that number. */
PD_API PD_MUST_USE pd_code pd_get_version(pd_store *store, const char *at, pd_bytes key, uint64_t version, pd_buf *out_value,
                                          pd_entry *out_entry, pd_error *err);

typedef struct pd_scan {
  pd_bytes prefix;   /* only keys that begin with it */
  pd_bytes after;    /* only keys greater than it (paging: the last key of the page before) */
  pd_bytes from, to; /* only from <= key < to; empty: no bound */
  bool keys_only;    /* leave the values where they are */
} pd_scan;

typedef struct pd_iter pd_iter;

/* Walk the keys at `at` in byte order. The iterator sees one moment, whatever is committed meanwhile. `scan` may be NULL (all
 * keys) and is copied. */
PD_API PD_MUST_USE pd_code pd_iter_open(pd_store *store, const char *at, const pd_scan *scan, pd_iter **out, pd_error *err);
/* The next entry. PD_NOT_FOUND at the end (`err` is not written then). `out_entry->key` and `out_value` are borrowed until the
 * next call on the iterator. `out_value` may be NULL, and is empty with keys_only. */
PD_API PD_MUST_USE pd_code pd_iter_next(pd_iter *iter, pd_entry *out_entry, pd_bytes *out_value, pd_error *err);
/* Takes NULL. Close iterators before their store. */
PD_API void pd_iter_close(pd_iter *iter);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Who, why, and on what condition. Zero-initialise: {0} means the handle's ref and author, no condition. */
typedef struct pd_note {
  const char *ref;          /* NULL: the handle's */
  const char *author;       /* NULL: the handle's */
  const char *run;          /* NULL: none */
  const char *reason;       /* NULL: none */
  const pd_id *expect_head; /* NULL: any. Else PD_CONFLICT unless the ref is at this very commit */
  /* 0: no limit. Else commits alone look at it: PD_QUOTA, and no commit, if the values at the ref's head would then have more bytes
   * together than this, and more than they have now. Exact whatever other threads and processes write. err->expected is the limit,
   * err->actual what they have now. */
  uint64_t bytes_max;
  /* NULL: the call returns when the commit is acknowledged. Else pd_put, pd_put_if, pd_delete, pd_edit_commit and pd_update wait neither
   * for the disk nor for others: PD_OK with ack.durability PD_STAGED and *later set (pd_put_later says what is owed), or PD_BUFFERED. If
   * they would have to wait, PD_LIMIT named WouldWait, and nothing is staged: call again without it. *later must be NULL before. What
   * moves refs does not look at it. */
  struct pd_later **later;
} pd_note;

typedef struct pd_ack {
  pd_id commit;
  pd_id tree;
  uint64_t seq;
  uint64_t version; /* of the key, for pd_put; 0 else */
  pd_durability durability;
  uint64_t previous_version; /* of the key, for pd_put: what it replaced; 0: it was absent */
} pd_ack;

#define PD_ANY_VERSION UINT64_MAX

/* Set `key` to `value`: one commit. `note` and `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_put(pd_store *store, pd_bytes key, pd_bytes value, const pd_note *note, pd_ack *out, pd_error *err);

/* Compare and swap: only if the key is at `expect_version` (0: absent). PD_CONFLICT else, with err->expected and err->actual. A refusal of
 * this and every other write rests on what is durable and includes all that anyone was acknowledged before the call: whoever is refused can
 * read err->actual, or something newer, at once. If only a write that is still on its way to the disk stands against it, the call waits
 * for that write; so whoever reads and tries again after a refusal waits for the disk, and does not spin. */
PD_API PD_MUST_USE pd_code pd_put_if(pd_store *store, pd_bytes key, pd_bytes value, uint64_t expect_version, const pd_note *note,
                                     pd_ack *out, pd_error *err);

/* A commit without the key; older commits still show it. PD_NOT_FOUND, and no commit, if it is absent. */
PD_API PD_MUST_USE pd_code pd_delete(pd_store *store, pd_bytes key, uint64_t expect_version, const pd_note *note, pd_ack *out,
                                     pd_error *err);

/*
 * pd_put_if in two steps, for whoever has many writes at hand and one thread: stage each, then wait for each; one sync serves them all.
 *
 * Never waits for the disk or for others. `out_ack->durability` tells what came of it:
 *   PD_STAGED    the ack tells what the commit will be, and readers do not see it yet. `*out` is set: pd_later_wait is owed, soon, and
 *                before the store is closed; others' commits may wait behind it.
 *   PD_BUFFERED  the store is buffered: done, as by pd_put_if.
 *   PD_NOTHING   it could not be staged at once (a large value, a store that is busy with more than commits, a condition that a write
 *                still on its way stands against): use pd_put_if.
 * Errors as pd_put_if.
 */
typedef struct pd_later pd_later;
PD_API PD_MUST_USE pd_code pd_put_later(pd_store *store, pd_bytes key, pd_bytes value, uint64_t expect_version, const pd_note *note,
                                        pd_later **out, pd_ack *out_ack, pd_error *err);
/* Return when the commit is on stable storage; frees `later` in any case. `*out_again`: it is not, and what the ack told does not hold:
 * another process or a failing disk came before; nothing was written: begin anew. An error, too, means that nothing was written. */
PD_API PD_MUST_USE pd_code pd_later_wait(pd_later *later, bool *out_again, pd_error *err);
PD_API pd_store *pd_later_store(const pd_later *later);

/* How new a store is. While two marks are equal, no head of it has moved, by this process or another: what was read from a head after the
 * first one was taken still holds. Takes no lock and reads no file. */
typedef struct pd_store_mark {
  uint64_t published; /* changes of this handle that readers see */
  uint64_t tail;      /* the last record that anybody appended */
} pd_store_mark;
PD_API pd_store_mark pd_store_newest(pd_store *store);

/* An invocation: staged edits over one ref. Its reads see the ref as it was at pd_edit_begin (with all that
 * anyone was acknowledged before) plus its own edits. Committing
 * makes one commit of all of them and moves the ref once; aborting leaves nothing. If others moved the ref meanwhile, the
 * edits are applied to the new head, each with its own version condition checked there (PD_CONFLICT: nothing is changed);
 * use note.expect_head where what was read must still hold. */
typedef struct pd_edit pd_edit;

PD_API PD_MUST_USE pd_code pd_edit_begin(pd_store *store, const pd_note *note, pd_edit **out, pd_error *err); /* `note` is copied */
PD_API PD_MUST_USE pd_code pd_edit_put(pd_edit *edit, pd_bytes key, pd_bytes value, uint64_t expect_version, pd_error *err);
/* Deleting an absent key is no error here: at commit it changes nothing. */
PD_API PD_MUST_USE pd_code pd_edit_delete(pd_edit *edit, pd_bytes key, uint64_t expect_version, pd_error *err);
/* A staged entry has seq 0 and the version it will have if nobody else writes the key. */
PD_API PD_MUST_USE pd_code pd_edit_get(pd_edit *edit, pd_bytes key, pd_buf *out_value, pd_entry *out_entry, pd_error *err);
/* Walk the keys as this invocation sees them. Valid until the next edit. */
PD_API PD_MUST_USE pd_code pd_edit_iter(pd_edit *edit, const pd_scan *scan, pd_iter **out, pd_error *err);
/* Frees the edit on success. On failure it is kept: commit again, or abort. An edit without changes makes a commit with the
 * same tree. */
PD_API PD_MUST_USE pd_code pd_edit_commit(pd_edit *edit, pd_ack *out, pd_error *err);
/* The commit that its reads start from. In pd_update it may be staged still: then nobody else can name it yet. */
PD_API pd_commit pd_edit_head(const pd_edit *edit);
/* Commit only if the ref is still at that commit then, so that all that was read holds: as note.expect_head. */
PD_API void pd_edit_expect_head(pd_edit *edit);
/* Forget all edits that were staged so far. Ends iterators of the edit. */
PD_API void pd_edit_clear(pd_edit *edit);
/* Takes NULL. */
PD_API void pd_edit_abort(pd_edit *edit);

/*
 * Read, decide and write as one step. Use it instead of a loop around pd_edit_begin and pd_edit_commit that tries again on PD_CONFLICT.
 *
 * `fn` reads through `edit` and stages what is to be written there; it neither commits nor aborts it. Updates of a ref through one handle
 * take turns, and each reads what those before it have staged: they do not conflict, and share one sync, however many threads call. `fn`
 * may run several times, so it must begin from the start each time: a batch failed, another process was first, or a plain write came
 * between. Give the versions that were read as conditions (pd_edit_put) where what was read must still hold.
 *
 * Returns when the commit is on stable storage (buffered stores: as pd_put). If `fn` stages nothing, no commit is made and the durability
 * in `out` is PD_NOTHING. If `fn` fails, its code and error are returned; such a refusal, like the answer that there was nothing to write,
 * rests on what every reader can see, never on a commit that may still fail. There is no limit on attempts: a slow disk or a busy process
 * makes it slow. `fn` must not call pd_update on the same store, and should not wait: others wait for it. `out` may be NULL.
 * PD_NOT_FOUND if the ref of `note` does not exist; PD_READ_ONLY; PD_STORAGE.
 */
typedef pd_code (*pd_update_fn)(void *ctx, pd_edit *edit, pd_error *err);
PD_API PD_MUST_USE pd_code pd_update(pd_store *store, const pd_note *note, pd_update_fn fn, void *ctx, pd_ack *out, pd_error *err);

/* ---- refs -------------------------------------------------------------------------------------------------------- */

typedef struct pd_ref {
  const char *name;
  pd_commit commit;
  int64_t updated_ms;
  bool is_current; /* the store's current ref */
  bool can_redo;
} pd_ref;

/* A new ref at `at`: a fork. Costs one record whatever the size of the store. PD_EXISTS. `note->ref` is ignored here. */
PD_API PD_MUST_USE pd_code pd_fork(pd_store *store, const char *name, const char *at, const pd_note *note, pd_ack *out, pd_error *err);
/* Point a ref at another commit; what it pointed at stays reachable through pd_log of the ref. `note->expect_head` applies. */
PD_API PD_MUST_USE pd_code pd_reset(pd_store *store, const char *name, const char *at, const pd_note *note, pd_ack *out, pd_error *err);
/* PD_INVALID for the store's current ref. Its commits stay. */
PD_API PD_MUST_USE pd_code pd_ref_delete(pd_store *store, const char *name, const pd_note *note, pd_error *err);
/* Visit all refs by name. The callback must not call the store. */
PD_API PD_MUST_USE pd_code pd_ref_list(pd_store *store, void (*visit)(void *ctx, const pd_ref *ref), void *ctx, pd_error *err);
PD_API PD_MUST_USE pd_code pd_ref_get(pd_store *store, const char *name, pd_ref *out, pd_error *err); /* name: your argument */
/* How many bytes the values at the head of a ref (NULL: the handle's) have together: what pd_note.bytes_max limits. Counted once after
 * an open, an undo or a reset, which costs a walk over the keys; known from then on. */
PD_API PD_MUST_USE pd_code pd_ref_bytes(pd_store *store, const char *name, uint64_t *out_bytes, pd_error *err);
/* Make `name` the store's current ref, and this handle's. */
PD_API PD_MUST_USE pd_code pd_switch(pd_store *store, const char *name, const pd_note *note, pd_error *err);

/* Move the ref (note->ref or the handle's) `count` commits back along first parents. PD_NOT_FOUND if there are not so many:
 * nothing is moved. The next commit makes what was undone unreachable by redo, never by id. */
PD_API PD_MUST_USE pd_code pd_undo(pd_store *store, uint64_t count, const pd_note *note, pd_ack *out, pd_error *err);
/* Move it forward again. PD_NOT_FOUND, and nothing is moved, if that is further than where it was before the first undo. */
PD_API PD_MUST_USE pd_code pd_redo(pd_store *store, uint64_t count, const pd_note *note, pd_ack *out, pd_error *err);

/* ---- history ----------------------------------------------------------------------------------------------------- */

typedef enum pd_record_kind {
  PD_RECORD_COMMIT = 1,
  PD_RECORD_FORK = 2,
  PD_RECORD_RESET = 3,
  PD_RECORD_UNDO = 4,
  PD_RECORD_REDO = 5,
  PD_RECORD_REF_DELETE = 6,
  PD_RECORD_SWITCH = 7,
  PD_RECORD_KEYFRAME = 8,
  PD_RECORD_KIND_COUNT
} pd_record_kind;

/* "commit", "fork"… Static storage. */
PD_API const char *pd_record_kind_name(pd_record_kind kind);

typedef struct pd_change {
  pd_bytes key;
  bool is_delete;
  pd_id value_id;   /* zero for a delete */
  uint64_t version; /* after this change; for a delete, the version that was deleted */
  uint64_t size;
  bool is_new; /* the key was absent before; its version need not be 1 */
} pd_change;

/* One record of the log. All pointers are borrowed until the visitor returns. */
typedef struct pd_record {
  uint64_t seq;
  pd_record_kind kind;
  const char *ref;
  pd_commit commit;     /* made by it, or the one the ref was moved to; zero for keyframes */
  const pd_id *parents; /* commits only */
  size_t parent_count;
  const char *author, *run, *reason; /* "" if none */
  int64_t time_ms;
  const pd_change *changes;
  size_t change_count;
  pd_id audit; /* SHA-256(audit of the record before || this record with values replaced by their ids) */
} pd_record;

/* Return false to stop. The callback must not call the store. */
typedef bool (*pd_record_visit)(void *ctx, const pd_record *record);

typedef struct pd_log_query {
  const char *at;   /* commits from here back along first parents; NULL: the handle's ref */
  bool whole_store; /* instead: every record of the log, newest first, of all refs */
  const char *ref;  /* instead: every record that moved this ref, newest first, also if it is deleted now, until gc forgets it */
  pd_bytes key;     /* not empty: only commits that changed this key */
  uint64_t limit;   /* 0: all */
  uint64_t before;  /* only records before this number; 0: no bound. Paging */
} pd_log_query;

PD_API PD_MUST_USE pd_code pd_log(pd_store *store, const pd_log_query *query, pd_record_visit visit, void *ctx, pd_error *err);

/* The record that made a commit. */
PD_API PD_MUST_USE pd_code pd_show(pd_store *store, const char *at, pd_record_visit visit, void *ctx, pd_error *err);

/* One version of a key. Pointers are borrowed until the visitor returns. */
typedef struct pd_version_info {
  pd_entry entry;
  pd_id commit;
  const char *author, *run, *reason;
  pd_bytes value; /* pd_history_values alone */
  bool is_erased; /* …its bytes were erased: `value` is empty */
} pd_version_info;

/* The versions of `key` at `at`, newest first; `limit` 0: all. PD_NOT_FOUND if the key is absent there. Return false to stop. The
 * callback must not call the store. */
PD_API PD_MUST_USE pd_code pd_history(pd_store *store, const char *at, pd_bytes key, uint64_t limit,
                                      bool (*visit)(void *ctx, const pd_version_info *version), void *ctx, pd_error *err);

/* The same, and each version comes with its value. Costs one read a version. */
PD_API PD_MUST_USE pd_code pd_history_values(pd_store *store, const char *at, pd_bytes key, uint64_t limit,
                                             bool (*visit)(void *ctx, const pd_version_info *version), void *ctx, pd_error *err);

typedef struct pd_difference {
  pd_bytes key;
  const pd_entry *before; /* NULL: added   */
  const pd_entry *after;  /* NULL: deleted */
} pd_difference;

/* Keys whose values differ between two points, in byte order. Costs what differs, not what is stored. Return false to stop. The
 * callback must not call the store. */
PD_API PD_MUST_USE pd_code pd_diff(pd_store *store, const char *before, const char *after,
                                   bool (*visit)(void *ctx, const pd_difference *difference), void *ctx, pd_error *err);

/* ---- care -------------------------------------------------------------------------------------------------------- */

typedef struct pd_verify_options {
  const char *since; /* NULL: everything. Else only what came after this commit */
  /* Called now and then; return false to give up (the answer is then PD_INVALID). May be NULL. */
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  /* Called for each finding, one line. May be NULL. */
  void (*finding)(void *ctx, const char *what);
  void *ctx;
} pd_verify_options;

typedef struct pd_verify_report {
  uint64_t records, commits, values, nodes, keyframes; /* recomputed and compared */
  uint64_t findings;
} pd_verify_report;

/* Recompute every id and the audit chain, replay the log and compare each keyframe with it, and let the backend check itself.
 * PD_CORRUPT if there was a finding; `out` (may be NULL) is written in that case too. Reads only. */
PD_API PD_MUST_USE pd_code pd_verify(pd_store *store, const pd_verify_options *options, pd_verify_report *out, pd_error *err);

typedef struct pd_stats {
  uint64_t records; /* in the log */
  uint64_t keys;    /* at the handle's head */
  uint64_t refs;
  uint64_t keyframes;
  uint64_t tail_records; /* since the last keyframe: what an open has to read */
  uint64_t log_bytes, bag_bytes, disk_bytes;
  uint64_t cache_bytes; /* held by this handle */
  uint64_t cache_hits, cache_misses;
  uint64_t commits, syncs; /* by this handle since it was opened; commits / syncs is the mean group */
  bool is_durable;         /* the backend survives power loss */
  bool is_read_only;
} pd_stats;

PD_API PD_MUST_USE pd_code pd_store_stats(pd_store *store, pd_stats *out, pd_error *err);

#define PD_COUNTER_STEPS 24

/* What this handle did since it was opened. The steps of a distribution are powers of two: [i] counts what was below 2^i, and not below
 * 2^(i-1); the last one has all that was more. */
typedef struct pd_counters {
  uint64_t records; /* in the log, as far as this handle has read it */
  uint64_t commits, syncs;
  uint64_t sync_us;                       /* all of them together */
  uint64_t sync_steps[PD_COUNTER_STEPS];  /* syncs by microseconds */
  uint64_t group_count;                   /* records that were synced */
  uint64_t group_steps[PD_COUNTER_STEPS]; /* syncs by the number of records in them */
  uint64_t cache_bytes, cache_hits, cache_misses;
} pd_counters;

/* Reads memory alone: for those who ask often. pd_store_stats looks at the disk. */
PD_API void pd_store_counters(pd_store *store, pd_counters *out);

/* Write a keyframe now, so that the next open has nothing to replay. Also happens by itself. */
PD_API PD_MUST_USE pd_code pd_store_keyframe(pd_store *store, pd_error *err);

#ifdef __cplusplus
}
#endif

/* The rest of the manual, one header a power. */
#include <perdure/bundle.h>
#include <perdure/care.h>
#include <perdure/joint.h>
#include <perdure/mailbox.h>
#include <perdure/merge.h>
#include <perdure/proof.h>
#include <perdure/retention.h>
#include <perdure/run.h>
#include <perdure/state.h>
#include <perdure/statestore.h>
#include <perdure/story.h>
#include <perdure/stream.h>
#include <perdure/supervise.h>
#include <perdure/thread.h>
#include <perdure/token.h>
#include <perdure/vault.h>
#include <perdure/view.h>
#include <perdure/watch.h>
#include <perdure/work.h>

#endif
