/* changeset.h: change sets: checked once, before any thread is looked at; kept as the key `change/N`; shown again with their messages. */
#ifndef PD_THREAD_CHANGESET_H
#define PD_THREAD_CHANGESET_H

#include "thread/patch.h"

#include <perdure/thread.h>

/* A change set that is right as far as it can be told without a state. Borrows what it was made from. */
typedef struct pd_prepared {
  const pd_changeset *set;
  pd_json messages; /* an array of objects with good ids, or PD_JSON_NONE */
  pd_json snapshot; /* an object, or PD_JSON_NONE */
  pd_patches *patches;
  pd_buf run_meta_text, patches_text, actions_text, snapshot_text; /* canonical; empty: none */
  char operation_mark[PD_ID_HEX_SIZE];                             /* "" if there is no operation */
} pd_prepared;

void pd_prepared_done(pd_prepared *prepared);
/* *out is {0} before, and yours to finish also if it fails. */
PD_MUST_USE pd_code pd_prepare(const pd_changeset *set, pd_prepared *out, pd_error *err);

/* Where its messages went. */
typedef struct pd_change_place {
  uint64_t version;
  int64_t time_ms;
  uint64_t message_first; /* 0: none */
  pd_bytes message_ids;   /* a JSON array */
} pd_change_place;

/* Append the record of a change set (canonical JSON). */
PD_MUST_USE pd_code pd_change_write(const pd_prepared *prepared, const pd_change_place *place, pd_buf *out, pd_error *err);

/* A record, taken apart. All is in its text. */
typedef struct pd_change_parts {
  uint64_t version;
  int64_t time_ms;
  pd_json active_run, parent_run_id, patches, reason, run_id, run_meta, snapshot, actions; /* PD_JSON_NONE if absent */
  pd_json operation_id, operation_mark;
  uint64_t message_first;
  uint64_t message_count;
  pd_json message_ids; /* an array, or PD_JSON_NONE */
} pd_change_parts;

PD_MUST_USE pd_code pd_change_parse(pd_bytes text, pd_change_parts *out, pd_error *err);
/* Append the JSON that pd_changeset_parse reads; `messages` is the array of the bodies (empty: none). */
PD_MUST_USE pd_code pd_change_show(const pd_change_parts *parts, pd_bytes messages, pd_buf *out, pd_error *err);

/* PD_INVALID of a patch gets the name InvalidPatch; returns `code`. */
pd_code pd_patch_error(pd_code code, pd_error *err);

/* The string in the member "id" of a message, decoded behind what `out` holds. */
PD_MUST_USE pd_code pd_message_id(pd_json message, pd_buf *out, pd_error *err);

#endif
