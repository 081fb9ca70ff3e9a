/*
 * agent.h: agents that survive. An agent takes an event, works, and saves what came of it; only then its reply leaves. It may be killed at
 * any moment: the next one finds all that was acknowledged, and no finished step is done twice.
 *
 *     pd_agent *agent = NULL;
 *     pd_step step;
 *     if (pd_agent_open("file:./data", "counter", NULL, &agent, &err)) …
 *     pd_agent_event_push(agent, pd_text("{\"id\":\"7\",\"type\":\"task\"}"), NULL, &err);        // saved when it returns
 *     while (pd_agent_step_begin(agent, PD_NEXT_EVENT, &step, &err) == PD_OK && step != PD_STEP_NONE) {
 *       if (step == PD_STEP_NEW) {
 *         pd_agent_step_set_number(agent, "count", pd_agent_number(agent, "count", 0) + 1, &err);
 *         pd_agent_step_reply_text(agent, "done", &err);
 *         if (pd_agent_step_commit(agent, &err)) …                                                // saved: the reply may leave
 *       }
 *       send(pd_agent_reply(agent));                                                              // of a new step, or one more time
 *     }
 *
 * All of it is in the agent's snapshot (storage.h), in the storage that the URI names: the queue is `event_queue_backup`, and what is
 * known of replies and effects is the member `perdure` (docs/formats.md).
 *
 *  A1  A step is one save: history, variables, status, queue, reply and tick change together or not at all. The tick goes up by one.
 *  A2  Events have ids. The event of a finished step is not worked on again as long as its reply is remembered (the last 1000 replies, up
 *      to 1 MiB of them; see pd_agent_options): its saved reply is given instead.
 *  A3  Whoever opens an agent takes it over: the one that had it before gets PD_CONFLICT, named AgentFenced, from its next save on, and
 *      nothing of it is stored any more. So does one whose snapshot was restored, undone, or written by another program meanwhile.
 *  A4  After a save that failed and may have been done all the same (a server that did not answer), the agent reads before it goes on. A
 *      reply is given out at least once: if a commit failed, was aborted, and had been done, as PD_STEP_SEEN.
 *  A5  An effect on the outside world is written down before it happens: after a crash it is known whether it was done, was never begun, or
 *      may have happened.
 *  A6  Several processes may act under one epoch (pd_agent_options.epoch). Each save is made on the one before it or not at all; a call
 *      that finds another process' save reads it, decides again, and lays its change over it, waiting up to 30 seconds. What was
 *      acknowledged to one of them is never lost by another. (Not with storage plugins of interface version 1: storage_plugin.h.)
 *
 * A handle is for one thread at a time. What is `staged` is seen by this handle's own reads, and by nobody else before the commit.
 */
#ifndef PERDURE_AGENT_H
#define PERDURE_AGENT_H

#include <perdure/storage.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_AGENT_ID_MAX 256                               /* bytes of an event's or effect's id */
#define PD_AGENT_EVENT_SIZE_MAX ((size_t)4 * 1024 * 1024) /* one event, message, variable, or what is noted of an effect */
#define PD_AGENT_REPLIES 1000                             /* that are remembered, unless pd_agent_options say otherwise */
#define PD_AGENT_REPLY_BYTES ((size_t)1024 * 1024)
#define PD_AGENT_EFFECTS_OPEN_MAX 1000 /* effects that are not settled, or are done for a step that is open or an event that waits */
#define PD_AGENT_EFFECTS_KEPT 256      /* that are done and stay to be read */
#define PD_AGENT_STATUS "WAITING_FOR_EVENT"

typedef struct pd_agent pd_agent;

/* ---- opening ------------------------------------------------------------------------------------------------------- */

typedef enum pd_agent_origin {
  PD_AGENT_FRESH = 1,   /* nothing was stored: tick 0, empty */
  PD_AGENT_RESTORED = 2 /* as it was saved last */
} pd_agent_origin;

/* Zero-initialise: {0} are the defaults. */
typedef struct pd_agent_options {
  bool is_reader;         /* only look: nothing is claimed, and what would save is PD_READ_ONLY */
  uint64_t epoch;         /* 0: claim the agent. Else act under the epoch that an earlier open got: for another process of the same life */
  size_t reply_count_max; /* replies that are remembered; 0: as stored, else PD_AGENT_REPLIES. At most 100,000 */
  size_t reply_bytes_max; /* and their size together; 0: as stored, else PD_AGENT_REPLY_BYTES. At most 16 MiB */
  int64_t (*now_ms)(void *ctx); /* NULL: the system's clock, milliseconds since 1970 UTC */
  void *now_ctx;
  bool is_call; /* with `epoch`: one of many short processes that take turns, as a shell's. Its step says that the replies of those before
                 * it have left. Without it only the handle that committed a step says so */
} pd_agent_options;

/* Open the agent `id` in the storage `uri` (pd_storage_open): claim it, load it. `options` may be NULL. No snapshot is saved by that.
 * PD_CORRUPT if what is stored is no snapshot of this agent: it is left as it is. PD_CONFLICT (AgentFenced) if options->epoch does not hold
 * the agent any more. Else as pd_storage_open and pd_storage_load. */
PD_API PD_MUST_USE pd_code pd_agent_open(const char *uri, const char *id, const pd_agent_options *options, pd_agent **out, pd_error *err);
/* The same in a storage that is open; it has to stay open as long as the agent, and may be shared by several. */
PD_API PD_MUST_USE pd_code pd_agent_open_in(pd_storage *storage, const char *id, const pd_agent_options *options, pd_agent **out,
                                            pd_error *err);
/* Takes NULL. A step that is open is given up; nothing is saved. */
PD_API void pd_agent_close(pd_agent *agent);

/* ---- reading ------------------------------------------------------------------------------------------------------- */

typedef struct pd_agent_info {
  const char *id;
  pd_agent_origin origin;
  uint64_t epoch;      /* what holds the agent: this handle */
  uint64_t tick_index; /* of the last step; 0: none yet */
  int64_t timestamp;   /* of the last save; 0: none yet */
  char status[PD_SNAPSHOT_STATUS_MAX + 1];
  size_t history_count, variable_count, event_count;
  size_t reply_count;   /* remembered */
  size_t unsent_count;  /* of these, replies that may not have left and that this handle gives out again */
  size_t unknown_count; /* effects that an earlier life intended and nobody settled */
} pd_agent_info;

/* As it is saved. */
PD_API void pd_agent_info_get(const pd_agent *agent, pd_agent_info *out);
/* The snapshot as it is saved: what pd_snapshot_check takes apart. Borrowed until the next call that saves. */
PD_API pd_bytes pd_agent_snapshot(const pd_agent *agent);
/* The JSON of a variable replaces what `out` holds; staged ones count. PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_agent_variable(const pd_agent *agent, const char *name, pd_buf *out, pd_error *err);
/* A variable that is an integer; `otherwise` if it is not there or is none. */
PD_API int64_t pd_agent_number(const pd_agent *agent, const char *name, int64_t otherwise);

/* ---- events -------------------------------------------------------------------------------------------------------- */

typedef enum pd_push {
  PD_PUSH_QUEUED = 1,  /* it is in the queue now */
  PD_PUSH_WAITING = 2, /* an event of this id is there already; nothing was changed */
  PD_PUSH_SEEN = 3     /* its step is finished; pd_agent_reply is its reply; nothing was changed */
} pd_push;

/* Put an event, a JSON object, at the end of the queue; PD_OK: it is saved. Its member `id` (a string of 1 to PD_AGENT_ID_MAX bytes, or an
 * integer) is what makes it the same event when it is sent again; without one it gets a new id. `out` may be NULL. A step that is open
 * stays open, and what is staged in it is not saved by this. PD_INVALID, PD_LIMIT; else as pd_storage_save_as. */
PD_API PD_MUST_USE pd_code pd_agent_event_push(pd_agent *agent, pd_bytes event, pd_push *out, pd_error *err);
/* The id of the event that was pushed last, whatever became of it; "" before the first. Borrowed until the next push. */
PD_API const char *pd_agent_pushed_id(const pd_agent *agent);

/* ---- steps --------------------------------------------------------------------------------------------------------- */

typedef enum pd_step {
  PD_STEP_NONE = 0, /* nothing to do: the queue is empty */
  PD_STEP_NEW = 1,  /* a step is open: work, stage, commit */
  PD_STEP_SEEN = 2  /* it is finished already: send pd_agent_reply again; no step is open */
} pd_step;

#define PD_NEXT_EVENT ((pd_bytes){NULL, 0})

/* Take `event`, or the next one. PD_NEXT_EVENT: first, as PD_STEP_SEEN, the replies that may not have left (of earlier lives, and A4); then
 * the queue, as other processes of this life have left it. Events of the queue without an id are given one, which is a save. An event
 * from outside that waits in the queue is taken from there; one that does not is known to this step alone until the commit, so whoever
 * sent it sends it again after a crash. Without an `id` it gets one.
 * Beginning says that the reply of the step before has left: after a crash it is not sent again. PD_INVALID if a step is open. */
PD_API PD_MUST_USE pd_code pd_agent_step_begin(pd_agent *agent, pd_bytes event, pd_step *out, pd_error *err);
/* The event of the open step, or of the one that was SEEN (then with nothing but its id); with its id. Borrowed until the next begin. */
PD_API pd_bytes pd_agent_step_event(const pd_agent *agent);
PD_API const char *pd_agent_step_event_id(const pd_agent *agent);
/* A member of it replaces what `out` holds: a string decoded, anything else as JSON. PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_agent_step_event_get(const pd_agent *agent, const char *member, pd_buf *out, pd_error *err);

/* Staging. All of it needs an open step (else PD_INVALID), is checked at once (PD_INVALID, PD_LIMIT), and copies what it is given. */
/* A message, a JSON object, at the end of memory.short_term_history. */
PD_API PD_MUST_USE pd_code pd_agent_step_message(pd_agent *agent, pd_bytes message, pd_error *err);
/* The same from a role and a text. */
PD_API PD_MUST_USE pd_code pd_agent_step_say(pd_agent *agent, const char *role, const char *content, pd_error *err);
/* Of the history keep only the newest `count` messages, those of this step included. */
PD_API PD_MUST_USE pd_code pd_agent_step_keep(pd_agent *agent, size_t count, pd_error *err);
/* A variable, any JSON value. The last one of a name counts. */
PD_API PD_MUST_USE pd_code pd_agent_step_set(pd_agent *agent, const char *name, pd_bytes json, pd_error *err);
PD_API PD_MUST_USE pd_code pd_agent_step_set_number(pd_agent *agent, const char *name, int64_t number, pd_error *err);
PD_API PD_MUST_USE pd_code pd_agent_step_set_text(pd_agent *agent, const char *name, const char *text, pd_error *err);
/* No such variable any more; nothing happens if there is none. */
PD_API PD_MUST_USE pd_code pd_agent_step_unset(pd_agent *agent, const char *name, pd_error *err);
PD_API PD_MUST_USE pd_code pd_agent_step_status(pd_agent *agent, const char *status, pd_error *err);
/* A further event, as pd_agent_event_push, but saved with the step. An id that is known when the step is saved is not pushed again. */
PD_API PD_MUST_USE pd_code pd_agent_step_push(pd_agent *agent, pd_bytes event, pd_error *err);
/* The reply, any JSON value; PD_LIMIT if it is larger than what is remembered of replies. A step without one has nothing to send. */
PD_API PD_MUST_USE pd_code pd_agent_step_reply(pd_agent *agent, pd_bytes json, pd_error *err);
PD_API PD_MUST_USE pd_code pd_agent_step_reply_text(pd_agent *agent, const char *text, pd_error *err);

/* Save the step. PD_OK: it is stored, the step is closed, and pd_agent_reply is its reply. Anything else: the step is still open; commit
 * again (A4: if the save was done all the same, that is found out and nothing is done twice), or abort. If another process of this life
 * finished the event, its reply is the reply. PD_CONFLICT (AgentFenced): the agent was taken over; close it. PD_CONFLICT (StepOutdated):
 * another process of this life committed a step since this one began, and variables or status changed: abort, and begin again. */
PD_API PD_MUST_USE pd_code pd_agent_step_commit(pd_agent *agent, pd_error *err);
/* Forget what is staged. The event stays in the queue if it came from there. Nothing happens without an open step. */
PD_API void pd_agent_step_abort(pd_agent *agent);

/* The saved reply, JSON, of the step that was committed last, or of the event that was SEEN. Empty if there is none, and while a step is
 * open: a reply leaves only after its save. Borrowed until the next begin, push or commit. */
PD_API pd_bytes pd_agent_reply(const pd_agent *agent);
/* The same if it is a text: decoded, and borrowed. NULL if it is none. */
PD_API const char *pd_agent_reply_text(const pd_agent *agent);
/* Say, lastingly, that the reply of an event has left. Only needed by those who do not begin another step in the same process (which says
 * so, too, and costs no save of its own). PD_NOT_FOUND if no reply of this event is due. */
PD_API PD_MUST_USE pd_code pd_agent_reply_sent(pd_agent *agent, const char *event_id, pd_error *err);

/* ---- effects ------------------------------------------------------------------------------------------------------- */

typedef enum pd_effect_state {
  PD_EFFECT_INTENDED = 1, /* written down just now, or by this life: do it */
  PD_EFFECT_DONE = 2,     /* it was done, and this is its result: do not do it again */
  PD_EFFECT_UNKNOWN = 3   /* it was intended before and not settled: it may have happened, or not */
} pd_effect_state;

/* Before an effect on the outside world (a mail, a payment, a file): write down that it is about to happen. `id` says which effect it is,
 * in all of the agent's life: derive it from the event's id. `what` is JSON for whoever has to find out later, or empty.
 * *out: PD_EFFECT_INTENDED: it is saved, now do it. PD_EFFECT_DONE: pd_agent_effect_get has its result. PD_EFFECT_UNKNOWN: it was
 * intended before, by an earlier life or an earlier call: look whether it happened, then pd_agent_effect_done, or
 * pd_agent_effect_retract and intend it again. PD_LIMIT if PD_AGENT_EFFECTS_OPEN_MAX are open. */
PD_API PD_MUST_USE pd_code pd_agent_effect_intend(pd_agent *agent, const char *id, pd_bytes what, pd_effect_state *out, pd_error *err);
/* It happened; `result` is JSON, or empty for null. Saved when it returns. Doing so twice changes nothing. PD_NOT_FOUND if it was not
 * intended. */
PD_API PD_MUST_USE pd_code pd_agent_effect_done(pd_agent *agent, const char *id, pd_bytes result, pd_error *err);
/* It did not happen: forget it. Saved when it returns. PD_NOT_FOUND; PD_INVALID if it is done. */
PD_API PD_MUST_USE pd_code pd_agent_effect_retract(pd_agent *agent, const char *id, pd_error *err);

/* One entry of the ledger. All borrowed from the agent until its next save. */
typedef struct pd_effect {
  const char *id;       /* decoded */
  const char *event_id; /* of the step that it belongs to; "" if there was none */
  pd_effect_state state;
  uint64_t epoch;        /* who intended it */
  pd_bytes what, result; /* JSON */
} pd_effect;

/* What is written down of an effect: `*out` is valid until the next call for this agent. PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_agent_effect_get(pd_agent *agent, const char *id, pd_effect *out, pd_error *err);
/* All of them, oldest first: those that are open, and the last PD_AGENT_EFFECTS_KEPT that are done. The visitor must not call the agent. */
PD_API PD_MUST_USE pd_code pd_agent_effects(pd_agent *agent, void (*visit)(void *ctx, const pd_effect *effect), void *ctx, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
