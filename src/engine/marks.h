/*
 * marks.h: tags, pins and message links as they lie under the hidden ref: a small JSON object each, with the commit that it keeps,
 * when it was set and by whom. Byte table: docs/formats.md. Private to src/engine.
 */
#ifndef PD_ENGINE_MARKS_H
#define PD_ENGINE_MARKS_H

#include "base/json.h"
#include "engine/store.h"

#define PD_MARK_TAG "tag"
#define PD_MARK_PIN "pin"
#define PD_MARK_MESSAGE "message"

/* A mark as it is read, with what it borrows from. Zero-initialise; pair with pd_mark_done. */
typedef struct pd_mark_read {
  pd_mark mark; /* `name` is the caller's */
  pd_json object;
  pd_buf texts;
} pd_mark_read;

void pd_mark_done(pd_mark_read *read);
/* PD_CORRUPT, naming it, if `value` is no mark. `read` may be used again. */
PD_MUST_USE pd_code pd_mark_parse(const char *kind, const char *name, pd_bytes value, pd_mark_read *read, pd_error *err);

/* A member of a mark that is text. */
typedef struct pd_mark_text {
  const char *name;
  const char **out; /* "" if it is absent */
} pd_mark_text;

/* Copy text members into `texts`, and point to them there. Replaces what `texts` holds. */
PD_MUST_USE pd_code pd_mark_texts(pd_json object, const pd_mark_text *members, size_t count, pd_buf *texts, pd_error *err);

/* The members that all marks have, into an open object: by `note`, now. */
void pd_mark_write(pd_json_writer *w, pd_store *s, const pd_commit *commit, const pd_note *note);

/* Resolve `at` and give it to `put`, which writes a mark there. If gc retired the commit in between, `at` is resolved again: it may be
 * a ref that has moved on. PD_RETIRED if it leads to the same commit. Takes the lock. */
typedef pd_code (*pd_mark_put)(void *ctx, const pd_commit *commit, pd_error *err);
PD_MUST_USE pd_code pd_mark_set(pd_store *s, const char *at, pd_mark_put put, void *ctx, pd_commit *out, pd_error *err);

/* The commit that a mark keeps. PD_NOT_FOUND if there is no such mark, PD_RETIRED if there is no such commit. */
PD_MUST_USE pd_code pd_mark_commit(pd_store *s, const char *kind, const char *name, pd_commit *out, pd_error *err);

/* ---- messages.c ---- */

#define PD_MESSAGE_PREFIX "message:" /* of points in history */

/* The commit that a message is linked to. */
PD_MUST_USE pd_code pd_message_commit(pd_store *s, const char *id, pd_commit *out, pd_error *err);

#endif
