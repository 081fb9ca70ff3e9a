/* edit.h: invocations as update.c needs them: begun on a chosen state, and staged without waiting. Private to src/engine. */
#ifndef PD_ENGINE_EDIT_H
#define PD_ENGINE_EDIT_H

#include "engine/store.h"

/* What an invocation was begun on. */
typedef struct pd_edit_base {
  uint64_t last_seq;   /* the last record that moved the ref; 0: none */
  uint64_t staged_seq; /* begun on the tip: all that was staged then */
  uint64_t voided;     /* of the store, then */
  bool is_unsynced;    /* it may read what is not on stable storage, or miss what another process appended */
} pd_edit_base;

typedef enum pd_edit_place {
  PD_ON_TIP,    /* the ref's tip, with what is staged */
  PD_ON_SEEN,   /* what every reader sees */
  PD_ON_NEWEST, /* the same, by log_tail and not by its hint: for an answer that is to hold (E7) */
} pd_edit_place;

/* Begin there. *base is set on failure, too, once the store was looked at. Takes the lock. */
PD_MUST_USE pd_code pd_edit_begin_on(pd_store *store, const pd_note *note, pd_edit_place place, pd_edit_base *base, pd_edit **out,
                                     pd_error *err);

/* Called with the lock held just before the record is staged (pd_intent). */
typedef struct pd_edit_guard {
  pd_code (*check)(pd_store *s, void *ctx, pd_error *err);
  void *ctx;
  bool settles_quota; /* PD_QUOTA is to rest on stable storage: asked once more with nothing staged */
  bool is_hurried;    /* PD_LIMIT named WouldWait instead of waiting */
} pd_edit_guard;

/* Stage the commit. *out_later is set unless the store is buffered. The edit is to be aborted in any case. Takes the lock. */
PD_MUST_USE pd_code pd_edit_stage(pd_edit *edit, const pd_edit_guard *guard, pd_later **out_later, pd_ack *out, pd_error *err);
/* How many keys it changes. */
size_t pd_edit_count(const pd_edit *edit);

#endif
