/* json_record.h: entries, changes, records of the log, differences and events as JSON, the same on every way out. All of them write
 * members into an object that is open, but for pd_json_put_changes. */
#ifndef PD_BASE_JSON_RECORD_H
#define PD_BASE_JSON_RECORD_H

#include "base/json.h"

/* Members that not every answer has. */
typedef enum pd_record_members {
  PD_WITH_KIND = 1,
  PD_WITH_REF = 2,
  PD_WITH_TREE = 4,
  PD_WITH_PARENTS = 8,
  PD_WITHOUT_EMPTY = 16 /* no ref, author, run or reason that is "", and parents of commits alone */
} pd_record_members;

/* seq, kind, ref, commit, tree, parents, author, run, reason, time. A keyframe has no commit. */
void pd_json_put_record(pd_json_writer *w, const pd_record *record, unsigned members);
/* key, op, version, and of a put value_id and size. */
void pd_json_put_change(pd_json_writer *w, const pd_change *change);
/* The member "changes": all of them, as an array. */
void pd_json_put_changes(pd_json_writer *w, const pd_record *record);

/* version, size, value_id, created_at, updated_at. */
void pd_json_put_entry(pd_json_writer *w, const pd_entry *entry);
/* key, and change: "added", "deleted" or "changed". */
void pd_json_put_difference(pd_json_writer *w, pd_bytes key, bool has_before, bool has_after);

/* event, seq and what its kind has of: last_seq, ref, key, version, value_id, size, erased, move, before, commit, author, run, reason,
 * time. What is not known is left out. */
void pd_json_put_event(pd_json_writer *w, const pd_watch_event *event);

#endif
