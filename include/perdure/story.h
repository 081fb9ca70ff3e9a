/* story.h: tags, pins, message links, blame. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_STORY_H
#define PERDURE_STORY_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tags and pins ------------------------------------------------------------------------------------------------ */

/*
 * A tag is a name for a commit that never moves by itself, and can be used wherever `at` is. A pin is a commit that retention must
 * not touch, without a name. Both keep the whole state at their commit, are shared by all processes, and are no part of the state:
 * no key shows them. They are records of the log like any other, so setting or deleting one is audited.
 */
typedef struct pd_mark {
  const char *name; /* of the tag; of a pin: its commit's 64 digits */
  pd_id commit;
  uint64_t seq;                /* the record that made the commit; 0: the root commit */
  int64_t time_ms;             /* when it was set */
  const char *author, *reason; /* "" if none */
} pd_mark;

/* All pointers are borrowed until the visitor returns. Return false to stop. */
typedef bool (*pd_mark_visit)(void *ctx, const pd_mark *mark);

/* Tag the commit at `at`. A name is what a ref's is, but not 64 hex digits (a commit id) and nothing that begins with "message:".
 * PD_EXISTS if the tag is at another commit, unless `may_move`; PD_EXISTS too if a ref has this name, which would hide the tag. The
 * same tag at the same commit is no error and writes nothing, so a retry is safe. `note` (author, run, reason) and `out` (the
 * commit) may be NULL. */
PD_API PD_MUST_USE pd_code pd_tag_set(pd_store *store, const char *name, const char *at, bool may_move, const pd_note *note, pd_commit *out,
                                      pd_error *err);
/* PD_NOT_FOUND if there is no such tag. The commit stays. */
PD_API PD_MUST_USE pd_code pd_tag_delete(pd_store *store, const char *name, const pd_note *note, pd_error *err);
/* Visit all tags by name. */
PD_API PD_MUST_USE pd_code pd_tag_list(pd_store *store, pd_mark_visit visit, void *ctx, pd_error *err);

/* Pin the commit at `at`; pinning it again replaces author, time and reason. `note` and `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_pin_set(pd_store *store, const char *at, const pd_note *note, pd_commit *out, pd_error *err);
/* PD_NOT_FOUND if the commit at `at` is not pinned. */
PD_API PD_MUST_USE pd_code pd_pin_delete(pd_store *store, const char *at, const pd_note *note, pd_error *err);
/* Visit all pins by commit id. */
PD_API PD_MUST_USE pd_code pd_pin_list(pd_store *store, pd_mark_visit visit, void *ctx, pd_error *err);

/* ---- messages ----------------------------------------------------------------------------------------------------- */

/*
 * A message of a conversation, linked to the state at its end: given any message, the complete state at that point. The text
 * "message:ID" is a point in history wherever `at` is, so a message can be read from, diffed and forked like a commit. Retention
 * never removes what a linked message needs.
 */
#define PD_MESSAGE_ID_SIZE_MAX 256   /* 1 to this many printable ASCII characters, no space and no '~' */
#define PD_MESSAGE_TEXT_SIZE_MAX 256 /* session and submission: UTF-8 without control characters */

/* All text is borrowed: until the call returns, or until the visitor does. */
typedef struct pd_message {
  const char *id;
  const char *agent;   /* to link: NULL is the store's own */
  const char *session; /* this and the next two: NULL or "" is none; when read, "" */
  const char *submission;
  const char *parent; /* the message before it. It was linked when this one was; it may have been unlinked since */
  /* The rest is only read. */
  pd_id commit;
  uint64_t seq;      /* the record that made the commit; 0: the root commit */
  uint64_t link_seq; /* the record that linked the message: in one store, a parent's is smaller */
  int64_t time_ms;   /* when it was linked */
  const char *author, *reason;
} pd_message;

/* Return false to stop. */
typedef bool (*pd_message_visit)(void *ctx, const pd_message *message);

/* Link a message to the commit at `at`. Linking it again with the same data is no error and writes nothing, so a retry is safe;
 * with other data it is PD_CONFLICT. PD_NOT_FOUND if the parent is not linked. `note` (author, run, reason) and `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_message_link(pd_store *store, const pd_message *message, const char *at, const pd_note *note, pd_commit *out,
                                           pd_error *err);
/* Visit one message; `visit` may call the store. PD_NOT_FOUND if it is not linked. */
PD_API PD_MUST_USE pd_code pd_message_get(pd_store *store, const char *id, pd_message_visit visit, void *ctx, pd_error *err);
/* Visit all messages by id, or those of a session (NULL: all); `visit` may call the store. Costs what is linked. */
PD_API PD_MUST_USE pd_code pd_message_list(pd_store *store, const char *session, pd_message_visit visit, void *ctx, pd_error *err);
/* Forget the link: retention may then remove what only it kept. Messages that name it as their parent stay. PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_message_unlink(pd_store *store, const char *id, const pd_note *note, pd_error *err);

/* ---- blame -------------------------------------------------------------------------------------------------------- */

/* One path of a value and the commit that last changed it. All pointers are borrowed until the visitor returns. */
typedef struct pd_blame_line {
  pd_bytes path;  /* a JSON Pointer (RFC 6901); "" for a value that is no JSON, or a single number, string… */
  pd_bytes value; /* what is there now: JSON text as it was written, or the whole value if it is no JSON */
  bool is_known;  /* false: older versions were erased or retired, and it is at least as old as what follows says */
  pd_id commit;
  uint64_t seq;     /* the record that made the commit */
  uint64_t version; /* of the key, in that commit */
  int64_t time_ms;
  const char *author, *run, *reason; /* "" if none */
} pd_blame_line;

/* Return false to stop. */
typedef bool (*pd_blame_visit)(void *ctx, const pd_blame_line *line);

#define PD_BLAME_PATH_COUNT_MAX 1000000

/* For each path of the JSON value of `key` at `at`, in the order of the text: who last changed it, when and why. Paths lead to
 * strings, numbers, true, false, null and empty containers. Strings are compared decoded, numbers byte by byte (1.0 is not 1),
 * array items by their index: an item inserted in front changes all that follow. A member that appears twice counts once, the first.
 * A merge is not blamed for what it took from one of its sides. A key that was deleted and made again begins there.
 * Reads the key's versions, newest first, until each path is explained; the lock is given up between versions. `visit` is called at
 * the end and may call the store. PD_NOT_FOUND if the key is absent, PD_ERASED if its value there is; PD_LIMIT for more than
 * PD_BLAME_PATH_COUNT_MAX paths. */
PD_API PD_MUST_USE pd_code pd_blame(pd_store *store, const char *at, pd_bytes key, pd_blame_visit visit, void *ctx, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
