/*
 * thread.h: the inside of a thread, between the files of this room. The manual is <perdure/thread.h>, the bytes are in docs/formats.md.
 *
 * R1  One change set is one commit of the ref `thread/ID`. The commits depend on what the change sets hold alone: no clock, no chance.
 * R2  A ref whose key `thread` is absent or has another id is a thread that is being made: nobody sees it, and who makes it again goes on.
 * R3  The key `change/N` was written by the commit of version N, so its entry says which record that was: versions are found without a
 *     walk.
 * R4  A tree holds all change sets and messages up to its version: older ones are read at the head, and a thread is rebuilt from its head.
 * R5  The handle's doc is the state at `head`, or NULL. Between two calls no edit of it is pending.
 */
#ifndef PD_THREAD_THREAD_H
#define PD_THREAD_THREAD_H

#include "base/close.h"
#include "base/doc.h"

#include <perdure/perdure.h>

#define PD_THREAD_REF_SIZE 96
#define PD_THREAD_AT_SIZE 24  /* "#seq" */
#define PD_THREAD_KEY_SIZE 40 /* a word, a slash, 20 digits */
#define PD_THREADS_REF "threads"
#define PD_THREAD_META_SIZE_MAX 65536

#define PD_KEY_THREAD "thread"
#define PD_KEY_VERSION "version"
#define PD_KEY_CHANGE "change"
#define PD_KEY_MESSAGE "message"
#define PD_KEY_RUN "run"
#define PD_KEY_ORIGIN "origin"

/* ---- records ---- */

/* Who a thread is: the key `thread`. Texts are empty if there is none; they point into `texts`. */
typedef struct pd_identity {
  const char *id, *owner, *parent, *forked_from;
  pd_bytes meta; /* canonical JSON */
  int64_t created_ms;
  uint64_t forked_version;
  uint64_t forks; /* how many identities the history had before */
  uint64_t since; /* the version that this one was written at */
  pd_buf texts;
} pd_identity;

void pd_identity_done(pd_identity *identity);
/* Append its JSON. */
PD_MUST_USE pd_code pd_identity_write(const pd_identity *identity, pd_buf *out, pd_error *err);
/* PD_INVALID says what is wrong with it. *out is {0} before, and yours to finish. */
PD_MUST_USE pd_code pd_identity_parse(pd_json value, pd_identity *out, pd_error *err);

/* Where a thread is: the key `version`. */
typedef struct pd_thread_head {
  uint64_t version, messages, runs;
  int64_t time_ms; /* of the last change set */
  char active_run[PD_THREAD_ID_SIZE_MAX + 1];
} pd_thread_head;

PD_MUST_USE pd_code pd_thread_head_write(const pd_thread_head *head, pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_thread_head_parse(pd_bytes text, pd_thread_head *out, pd_error *err);

/* ---- the handle ---- */

struct pd_thread {
  pd_store *store;
  char id[PD_THREAD_ID_SIZE_MAX + 1];
  char ref[PD_THREAD_REF_SIZE];
  pd_identity identity;
  pd_thread_head head;
  pd_commit commit; /* of head */
  int64_t updated_ms;
  pd_doc *doc;         /* R5 */
  unsigned part_count; /* appends in a row that loaded a part of the state (append.c) */
};

/* A handle on `ref` whatever its `thread` key says; for replays. Nothing is read. */
PD_MUST_USE pd_code pd_thread_new(pd_store *store, const char *id, const char *ref, pd_thread **out, pd_error *err);
/* Be where the ref is. */
PD_MUST_USE pd_code pd_thread_follow(pd_thread *t, pd_error *err);
/* Who and where the thread is, as a view of its ref says. PD_NOT_FOUND (NotFound). `out` is yours to finish, on success. */
PD_MUST_USE pd_code pd_thread_look(const char *id, pd_view *view, pd_identity *out, pd_thread_head *out_head, pd_error *err);
/* What the commit just made by this handle is. */
void pd_thread_moved(pd_thread *t, const pd_thread_head *head, const pd_ack *ack);
/* Have the doc (R5). */
PD_MUST_USE pd_code pd_thread_need_doc(pd_thread *t, pd_error *err);
void pd_thread_drop_doc(pd_thread *t);

/* "thread/ID" */
char *pd_thread_ref(const char *id, char out[PD_THREAD_REF_SIZE]);
/* "#17", for what takes points as text. */
char *pd_thread_at(uint64_t seq, char out[PD_THREAD_AT_SIZE]);
/* The tree of a commit of the thread, where the handle is or before. pd_view_close it. */
PD_MUST_USE pd_code pd_thread_view(const pd_thread *t, const pd_commit *commit, pd_view **out, pd_error *err);
/* "message/00000000000000000017" */
char *pd_thread_key(const char *noun, uint64_t number, char out[PD_THREAD_KEY_SIZE]);
/* The number at the end of such a key. */
uint64_t pd_thread_key_number(pd_bytes key);
/* PD_INVALID or PD_LIMIT unless it is 1 to `size_max` bytes of UTF-8 without control characters. */
PD_MUST_USE pd_code pd_thread_check_text(const char *text, size_t size_max, const char *what, pd_error *err);
/* Is this a good id of a message? PD_INVALID (InvalidId). */
PD_MUST_USE pd_code pd_message_id_check(pd_bytes id, pd_error *err);

/* Stored bytes that are not what this room wrote: PD_CORRUPT that names thread and key. */
PD_MUST_USE pd_code pd_thread_corrupt(const char *id, const char *key, const char *why, pd_error *err);
/* What came of reading them: PD_OK, PD_NO_MEMORY as they are, anything else is damage. */
PD_MUST_USE pd_code pd_thread_stored(const char *id, const char *key, pd_code code, const pd_error *why, pd_error *err);
/* Version `version` of the thread: which commit it is, and its numbers. Call after pd_thread_follow. PD_NOT_FOUND (VersionNotFound). */
PD_MUST_USE pd_code pd_thread_find_point(pd_thread *t, uint64_t version, pd_thread_point *out, pd_error *err);

/* The commit that a record made; zero if retention has taken it. */
PD_MUST_USE pd_code pd_thread_commit_id(pd_store *store, uint64_t seq, pd_id *out, pd_error *err);

/* Visit the change sets first..last of where the handle is. */
PD_MUST_USE pd_code pd_thread_walk_changes(pd_thread *t, uint64_t first, uint64_t last, pd_delta_visit visit, void *ctx, pd_error *err);

/* ---- making threads ---- */

/* What the first commit of a thread holds, staged by `stage`. */
typedef struct pd_thread_birth {
  const pd_identity *identity;
  const char *base_at; /* where the ref begins */
  const pd_id *base;
  const char *author, *reason;
  pd_code (*stage)(void *ctx, pd_edit *edit, pd_error *err);
  void *ctx;
} pd_thread_birth;

/* List it, make the ref, commit. PD_EXISTS. */
PD_MUST_USE pd_code pd_thread_bear(pd_store *store, const pd_thread_birth *birth, pd_error *err);
/* PD_OK: there is no such thread. PD_EXISTS (AlreadyExists); else what went wrong. */
PD_MUST_USE pd_code pd_thread_check_absent(pd_store *store, const char *id, pd_error *err);
/* NULL and "" are fine. PD_NOT_FOUND. */
PD_MUST_USE pd_code pd_thread_check_parent(pd_store *store, const char *parent, pd_error *err);
/* Options to an identity: ids and texts checked. `out->texts` is yours. */
PD_MUST_USE pd_code pd_identity_make(const pd_thread_options *options, pd_identity *out, pd_error *err);
/* The keys of version 0: staged into `edit`. `snapshot` may be PD_JSON_NONE. */
PD_MUST_USE pd_code pd_thread_stage_first(pd_edit *edit, const pd_identity *identity, pd_json snapshot, int64_t time_ms, pd_error *err);
/* The keys of a fork (or of a rewind behind one): the new identity over the old one, and nobody's run is active. */
PD_MUST_USE pd_code pd_thread_stage_identity(pd_edit *edit, const pd_identity *identity, const pd_identity *before,
                                             const pd_thread_head *head, pd_error *err);
/* Read the identity and the head at a point. */
PD_MUST_USE pd_code pd_thread_read_identity(pd_view *view, const char *id, pd_identity *out, pd_error *err);
PD_MUST_USE pd_code pd_thread_read_head(pd_view *view, const char *id, pd_thread_head *out, pd_error *err);

/* The index (ref `threads`). */
PD_MUST_USE pd_code pd_threads_add(pd_store *store, const pd_identity *identity, pd_error *err);
PD_MUST_USE pd_code pd_threads_remove(pd_store *store, const pd_identity *identity, pd_error *err);

static inline void pd_edit_abort_at(pd_edit **edit)
{
  pd_edit_abort(*edit);
}

static inline void pd_view_close_at(pd_view **view)
{
  pd_view_close(*view);
}

static inline void pd_thread_close_at(pd_thread **thread)
{
  pd_thread_close(*thread);
}

#endif
