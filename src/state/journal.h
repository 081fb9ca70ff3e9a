/*
 * journal.h: dated notes in the system store, each kind to a fixed number an owner: alerts, process events.
 *
 * A note is the value at NOUN/OWNER/<14 digits: milliseconds>-<5 digits>; its id is that key with ':' for '/'. An owner is an agent, or
 * PD_JOURNAL_ALL for what concerns all of them (no agent has such a name).
 *
 * N1  Keys sort by owner, then time. Ids are unique: they are made by a compare-and-swap on an absent key.
 * N2  Adding a note removes the oldest of the same owner beyond `keep`, in the same commit. Nobody's flood removes another's notes.
 */
#ifndef PD_STATE_JOURNAL_H
#define PD_STATE_JOURNAL_H

#include "state/call.h"
#include "state/home.h"

#define PD_JOURNAL_ALL "-"
#define PD_JOURNAL_ID_SIZE 128

/* A note. `text` is JSON, owned by the list. */
typedef struct pd_journal_item {
  char id[PD_JOURNAL_ID_SIZE];
  char owner[PD_NAME_SIZE_MAX + 1];
  int64_t time_ms;
  char *text;
  size_t size;
} pd_journal_item;

typedef struct pd_journal_list {
  pd_journal_item *items; /* newest first */
  size_t count, capacity;
  uint64_t total; /* that fit, with those beyond the limit */
} pd_journal_list;

typedef struct pd_journal_query {
  const char *noun;
  const char *const *owners; /* ended by NULL; NULL: all */
  int64_t since_ms;          /* only later ones; negative: all */
  size_t limit;
  bool (*fits)(void *ctx, pd_json value); /* NULL: all */
  void *ctx;
} pd_journal_query;

/* Add a note of the frame's agent (or of PD_JOURNAL_ALL, if the operator named none) at the frame's time. `value` is a JSON object. The
 * oldest of that agent go, so that at most `keep` are left and their values have at most `bytes_max` bytes; the new one stays. */
PD_MUST_USE pd_code pd_journal_add(pd_frame *frame, const char *noun, uint64_t keep, uint64_t bytes_max, pd_bytes value,
                                   char out_id[PD_JOURNAL_ID_SIZE], pd_error *err);
/* Read. `out` is to be finished with pd_journal_done, also after a failure. */
PD_MUST_USE pd_code pd_journal_read(pd_home *home, const pd_journal_query *query, pd_journal_list *out, pd_error *err);
void pd_journal_done(pd_journal_list *list);
/* The key of an id of this noun; false if it cannot be one. */
PD_MUST_USE bool pd_journal_key(const char *noun, pd_bytes id, char out_key[PD_JOURNAL_ID_SIZE]);
/* Whose notes the caller may read: NULL (all) for the operator, else the agent's own and those for all. `room` holds the answer. */
const char *const *pd_journal_owners(const pd_frame *frame, const char *room[3]);

#endif
