/*
 * state.h: homes, sessions and capabilities: what an agent may do, through one door. Included by perdure.h.
 *
 *     pd_home *home = NULL;
 *     pd_home_open("sqlite:./.perdure", NULL, &home, &err);
 *     pd_ctx ctx = {.home = home, .agent = "researcher"};
 *     pd_buf out = {0};
 *     pd_call(&ctx, "state.persistent.set", pd_text("{\"key\":\"plan\",\"value\":{\"step\":1}}"), &out, &err);
 *     // out: {"version":1,"previous_version":0}
 *     pd_buf_done(&out);
 *     pd_home_close(home, NULL);
 *
 * A home is where a set of agents lives: a store for each of them, the store `shared` that all of them see, the store `system`
 * (message queues, approvals, audit…), and a folder with system snapshots, backups, the vault and `perdure.toml`.
 *
 * A capability is one operation, described as data in capabilities/NAME.json: inputs, outputs, permission, errors and what to do
 * about them. pd_call is the one way in: find, check the input, check the permission, run, audit. `docs/capabilities` has them all.
 *
 * THREADS     A home may be used by any number of threads. Close it when no thread is inside a call on it.
 * PROCESSES   Several processes may have one home open. Sessions live in the process that began them, and the vault is unlocked
 *             in one process; everything else is shared.
 */
#ifndef PERDURE_STATE_H
#define PERDURE_STATE_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- homes -------------------------------------------------------------------------------------------------------- */

typedef struct pd_home pd_home;

typedef struct pd_home_options {
  /* Where snapshots, backups, vault and perdure.toml are; NULL: the folder of a `sqlite:` URI. Without a folder (`memory:`) what needs
   * one answers PD_UNSUPPORTED. */
  const char *folder;
  const char *config;           /* another file than FOLDER/perdure.toml; it must exist then */
  bool must_exist;              /* PD_NOT_FOUND instead of creating */
  int64_t (*now_ms)(void *ctx); /* NULL: the system's clock, milliseconds since 1970 UTC */
  void *now_ctx;
} pd_home_options;

/* Open the home at `uri` (as pd_store_open). `options` may be NULL. PD_INVALID for a wrong line in its configuration, which is named. */
PD_API PD_MUST_USE pd_code pd_home_open(const char *uri, const pd_home_options *options, pd_home **out, pd_error *err);
/* End its sessions, lock the vault, flush and close its stores. Takes NULL. The home is freed also on an error. */
PD_API pd_code pd_home_close(pd_home *home, pd_error *err);

/* Read FOLDER/policy.toml again, as a server does when it is told to. (It is also looked at once a second, while calls are made.) A file
 * that is wrong changes nothing: PD_INVALID names the line, and the rules from before stay in force. So does one that is missing or has no
 * rules in it, if there were rules before and it does not say `no_rules = true`. */
PD_API PD_MUST_USE pd_code pd_home_reload(pd_home *home, pd_error *err);
/* Read the setting folders.roots again, as a server does when it is told to: it holds from the next look at a folder on. PD_INVALID for a
 * wrong line in the configuration; the roots are then as before. */
PD_API PD_MUST_USE pd_code pd_home_reload_roots(pd_home *home, pd_error *err);
/* Look at the file now, if nobody did within the last second. `problem`: why it was not taken, so that the rules from before are in force;
 * else "". */
PD_API void pd_policy_look(pd_home *home, char problem[PD_ERROR_MESSAGE_MAX]);
/* Another number whenever other rules are in force: those who go on for long ask pd_authorise_read again then. Does no I/O. */
PD_API uint64_t pd_policy_epoch(const pd_home *home);
/* Would a home in `folder` open with the policy that lies there? PD_INVALID says why not. Nothing is changed. */
PD_API PD_MUST_USE pd_code pd_policy_check(const char *folder, pd_error *err);

/* A decision that something is permitted: which stores may be used, and for what. Filled by pd_authorise_read and its like alone; a
 * zero-initialised one permits nothing. The members are private. */
typedef struct pd_grant {
  const void *granted_by;
  pd_home *home;
  const char *capability; /* that was decided on */
  bool writes;            /* the store may be made and written to */
  bool is_of_all;         /* every store */
  char store[PD_NAME_SIZE_MAX + 1];
} pd_grant;

/* The store of an agent, or `shared` or `system`, as the home has it open; borrowed until pd_home_return, or until the home closes. For
 * reading its history; who writes through it goes past quotas and audit. Made if it is not there and `create`; else PD_NOT_FOUND.
 * PD_DENIED if `grant` is not for this store, or not for making one; PD_INVALID for a name that no agent has; PD_STORAGE also if there are
 * no open files to be had.
 *
 * A home keeps no more agents' stores open than `store.open_max` says, nor than take half of the files that the process may have open
 * (ulimit -n): beyond that it closes those that nobody has borrowed and no call uses, the one that was used longest ago first, and opens
 * them again when they are needed. One that is borrowed stays open: give it back. */
PD_API PD_MUST_USE pd_code pd_home_borrow(const pd_grant *grant, const char *name, bool create, pd_store **out, pd_error *err);
/* Once for each borrowing, when nothing that was opened in the store (watches, iterators, threads…) is in use any more. Takes NULL. */
PD_API void pd_home_return(pd_home *home, pd_store *store);

/* Visit the stores that the home has open, in no order. The visitor may ask for pd_store_counters; it must not call anything else of the
 * home or the store, nor keep the store. */
PD_API void pd_home_each_open(pd_home *home, void (*visit)(void *ctx, const char *name, pd_store *store), void *ctx);

/* Everything that was acknowledged is on the disk when it returns: the audit, and every store that is open. All are tried; the first error
 * is returned, and names the store. */
PD_API PD_MUST_USE pd_code pd_home_flush(pd_home *home, pd_error *err);

#define PD_STORE_FILES 6 /* that a store keeps open, in a `sqlite:` home: two connections' database and WAL, their index, the lock */

typedef struct pd_open_info {
  size_t open_count, open_max;         /* agents' stores: how many are open, and may be if not all of them are in use */
  uint64_t opened_count, closed_count; /* stores since the home was opened; those that it closes with itself do not count */
  pd_counters closed;                  /* of those that were closed, together; records and cache_bytes are 0 */
} pd_open_info;
PD_API void pd_home_open_info(pd_home *home, pd_open_info *out);
/* Is the store open, so that no call for it has to wait for that? It may be closed the moment after. */
PD_API bool pd_home_is_open(pd_home *home, const char *name);
/* How many agents' stores may be open from now on, instead of what the configuration and ulimit -n say. At least 1. */
PD_API void pd_home_open_max(pd_home *home, size_t max);
/* Close agents' stores that nobody has used for `idle_ms`, in the background. 0: none. */
PD_API void pd_home_close_idle(pd_home *home, uint64_t idle_ms);

/* For who moves the history of an agent's store by other means than capabilities (pd_undo, pd_reset, pd_merge, pd_ref_delete, pd_delete…):
 * before, say that values may be left behind where no ref leads any more. state.persistent.delete then looks for them, all over the log,
 * and erases them, too. One record, the first time; kept with the store. */
PD_API PD_MUST_USE pd_code pd_history_leave(pd_store *store, pd_error *err);

/* Is it a ref that perdure keeps for itself in an agent's store: a thread, a mailbox, a snapshot, a restore? The history of an agent's
 * state does not show it: threads.*, mailbox.* and their like do. */
PD_API bool pd_history_hides(const char *ref);
/* pd_resolve for a reader of an agent's state, who may not reach hidden refs by any name of a point: `~2` and `@TIME` are main's, and
 * PD_NOT_FOUND is also said of a point on a hidden ref, by its ref, number, tag, message or commit id. */
PD_API PD_MUST_USE pd_code pd_history_resolve(pd_store *store, const char *at, pd_commit *out, pd_error *err);

/* How many sessions there are now. Some of them may have idled out since they were last looked at. */
PD_API size_t pd_session_count(pd_home *home);
/* Look at them: those that have idled out end. May wait for the disk. Each call does so, too, when it is time. */
PD_API void pd_sessions_sweep(pd_home *home);

/* ---- configuration ------------------------------------------------------------------------------------------------- */

/* A setting that is in force. Texts are borrowed until the visitor returns; name, unit, about and when have static storage. */
typedef struct pd_config_info {
  const char *name;   /* "session.quota" */
  const char *value;  /* "50 MiB", "1h", "forever": as it may be written in perdure.toml. Of a text, "": not set */
  const char *unit;   /* of the number: "count", "bytes", "ms", "days", "flag"; of a text "text", "choice", "file", "list" */
  const char *origin; /* "default", FILE:LINE, or the name of a variable of the environment */
  const char *about;
  const char *when; /* to change it: ends the sentence "change it when" */
  uint64_t number, number_default;
  bool is_text; /* the value is all there is, and there is no number */
} pd_config_info;

/* Append the setting as one JSON object: name, value, number, unit, default, origin, about, when; without the number if it is a text. */
PD_API PD_MUST_USE pd_code pd_config_json(const pd_config_info *info, pd_buf *out, pd_error *err);

/* Visit every setting, in the order of the manual. `home` may be NULL: what a home without perdure.toml would have. PD_INVALID then for a
 * wrong value in the environment. */
PD_API PD_MUST_USE pd_code pd_config_each(pd_home *home, void (*visit)(void *ctx, const pd_config_info *info), void *ctx, pd_error *err);
/* The same with the home's file and the environment as they are now: what a home that is opened now would have. PD_INVALID as
 * pd_home_open. */
PD_API PD_MUST_USE pd_code pd_config_each_now(pd_home *home, void (*visit)(void *ctx, const pd_config_info *info), void *ctx,
                                              pd_error *err);
/* The limits of a server and a home that are not settings: one value for everybody, or following a setting. Named as settings are. */
PD_API PD_MUST_USE pd_code pd_config_each_limit_now(pd_home *home, void (*visit)(void *ctx, const pd_config_info *info), void *ctx,
                                                    pd_error *err);
/* Visit what a person should look at in the home's file and the environment as they are now: each place that sets what is no longer a
 * setting, and is ignored. `home` may be NULL: the environment alone; with `file`: that file alone. PD_INVALID as pd_home_open. */
PD_API PD_MUST_USE pd_code pd_config_each_notice(pd_home *home, const char *file, void (*visit)(void *ctx, const char *text), void *ctx,
                                                 pd_error *err);
/* Visit the names that were settings once; `now`: what it is now, as "15s" or "a quarter of server.connections_max". */
PD_API void pd_config_each_former(void (*visit)(void *ctx, const char *name, const char *now), void *ctx);
/* Is everything in `file` right? PD_INVALID names the line and what is wrong there. `*out_count` (may be NULL): settings in it. */
PD_API PD_MUST_USE pd_code pd_config_check(const char *file, size_t *out_count, pd_error *err);

/* ---- who calls ---------------------------------------------------------------------------------------------------- */

/* Waiting without a thread. A call that would sleep (queue.receive with wait_ms) does so on the caller's thread, unless it is given one of
 * these: then it comes back at once, with is_waiting set, PD_OK and no answer, and is not in the audit yet. The same call is to be made
 * again with the same pd_wait: when the agent's queue has changed (the key queue/AGENT on the ref PD_QUEUE_REF of the agent's store, which
 * exists then), with hears_shared also when the store `shared` has, and at `due_ms` at the latest. To miss nothing, follow the stores
 * (follow.h), call once more, and only then sleep. Zero-initialise. */
#define PD_QUEUE_REF "agent-queue"

typedef struct pd_wait {
  bool is_over;        /* set by the caller: answer now, with what there is */
  bool is_waiting;     /* there is no answer yet */
  bool hears_shared;   /* the agent has subscriptions to shared state */
  int64_t deadline_ms; /* monotonic milliseconds; 0: it has not begun to wait */
  int64_t due_ms;      /* of the next look; not after the deadline */
} pd_wait;

/* Who calls. Zero-initialise; texts are borrowed until the call returns. */
typedef struct pd_ctx {
  pd_home *home;
  const char *agent;                 /* the agent on whose behalf; needed, but by the operator where the capability does not need one */
  const char *session;               /* its session; NULL: none */
  bool is_operator;                  /* the human side: needs no approvals, and may use what is only the operator's */
  bool is_onlooker;                  /* somebody who looks at what is the agent's: the agent was not active, and is not said to have been */
  bool is_remote;                    /* the call came to a server: its agent names folders of this machine only below folders.roots */
  const struct pd_token_info *token; /* what was shown (perdure/token.h): its scopes hold, and the audit names it; NULL: none */
  /* Called now and then by what may take long: backup, restore, verify; and, with total 0, by what waits (queue.receive) or visits
   * every store (state.snapshot.create), which has nothing to tell. Return false to give up: the answer is then PD_INVALID, named
   * Cancelled, and nothing is changed. Not called any more once the result is being put in place. May be NULL. */
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  void *progress_ctx;
  pd_wait *wait; /* NULL: calls that wait sleep */
} pd_ctx;

#define PD_SESSION_ID_SIZE 40

/* Begin a session for `agent`; its id is random. Also as the capability `session.begin`. */
PD_API PD_MUST_USE pd_code pd_session_begin(pd_home *home, const char *agent, char out_id[PD_SESSION_ID_SIZE], pd_error *err);
/* End it: its state and its subscriptions are gone. PD_SESSION if there is none, or it is another agent's. */
PD_API PD_MUST_USE pd_code pd_session_end(pd_home *home, const char *agent, const char *id, pd_error *err);
/* Is it a session of `agent` (NULL: of anybody) that lives? `id` may be NULL. It may end the moment after. */
PD_API bool pd_session_is_alive(pd_home *home, const char *agent, const char *id);

/* ---- calling ------------------------------------------------------------------------------------------------------ */

#define PD_CALL_SIZE_MAX ((size_t)64 * 1024 * 1024) /* of an input */

/*
 * Call a capability with a JSON object (empty bytes: {}). `out` is replaced by the answer: on PD_OK the capability's outputs, on a
 * failure {"error":{"code":…,"message":…,"details":{…},"recovery":[{"action":…,"hint":…}]}}. `err` (may be NULL) says the same;
 * pd_error_name(err) is the code's name. A failed call has changed nothing, but for the pending approval that it may have made.
 */
PD_API PD_MUST_USE pd_code pd_call(const pd_ctx *ctx, const char *capability, pd_bytes input, pd_buf *out, pd_error *err);

/*
 * pd_call in two steps, for a server that has many calls at hand and few threads. The first does everything but wait for the disk, where it
 * can: `*out` is then set, and pd_call_finish is owed, by any thread; `answer` is not to be read before. Else `*out` is NULL, and the call
 * is over as by pd_call. What is worth it: state.persistent.set, state.shared.set; others are done whole.
 *
 * The calls of one group (pd_begun_group, not NULL) share a sync if they are all begun before the first is finished. A call without a
 * group has yet to be done whole: finishing it may take as long as any call. `ctx`'s texts and `input` stay until the call is finished.
 * `err` must not be NULL.
 */
typedef struct pd_begun pd_begun;
PD_API PD_MUST_USE pd_code pd_call_begin(const pd_ctx *ctx, const char *capability, pd_bytes input, pd_begun **out, pd_buf *answer,
                                         pd_error *err);
PD_API const void *pd_begun_group(const pd_begun *begun);
/* Instead of the second step, for a call without a group: nothing was done. */
PD_API void pd_call_drop(pd_begun *begun);
/* The second step: as pd_call. Frees `begun`. `answer` is the buffer that the call was begun with. */
PD_API PD_MUST_USE pd_code pd_call_finish(pd_begun *begun, pd_buf *answer, pd_error *err);

/* An input that was parsed and checked once, to be used for many calls. Holds a copy. May be used by several threads. */
typedef struct pd_input pd_input;
PD_API PD_MUST_USE pd_code pd_input_new(const char *capability, pd_bytes input, pd_input **out, pd_error *err);
PD_API void pd_input_free(pd_input *input); /* takes NULL */
PD_API PD_MUST_USE pd_code pd_call_input(const pd_ctx *ctx, const pd_input *input, pd_buf *out, pd_error *err);

/* Something that was done to the home past pd_call by somebody who may: a server's operator, who appended to a log. Texts are borrowed. */
typedef struct pd_deed {
  const char *name;    /* "store.append" */
  const char *agent;   /* on whose behalf; NULL: the operator's own */
  pd_bytes subject;    /* what it was done to, never a value: cut at PD_KEY_SIZE_MAX */
  const char *outcome; /* "ok" or the error's name (pd_error_name); static storage */
  const pd_id *commit; /* that it made; NULL: none */
} pd_deed;

/* Add a line to the audit. Never fails: what cannot be written is kept and tried again, and system.health says so. */
PD_API void pd_audit_tell(pd_home *home, const pd_deed *deed);

/* Something that was asked for past pd_call: a read by another way, told as the capability that it is like, or a request that was refused
 * before it came to pd_call. Texts are borrowed. */
typedef struct pd_access {
  const char *capability;   /* "state.persistent.get"; also a name that is not a capability: "store.read" */
  const char *agent;        /* under whose name; NULL: nobody's */
  const char *session;      /* NULL: none */
  const char *token;        /* the id of the token that was shown; NULL: none, or an unknown one */
  pd_bytes subject;         /* the key, prefix or id that it was about, never a value: cut at PD_KEY_SIZE_MAX */
  const char *outcome;      /* "ok" or the error's name (pd_error_name); static storage */
  bool is_operator;         /* asked by the operator or an auditor */
  bool is_joined_by_minute; /* all that are alike within a minute share a line, so that a stranger cannot fill the audit */
} pd_access;

/* Add a line to the audit, as pd_audit_tell; alike ones share a line that counts them. Does not wait for the disk, whatever happens. */
PD_API void pd_audit_access(pd_home *home, const pd_access *access);

/* ---- what there is ------------------------------------------------------------------------------------------------ */

typedef enum pd_permission {
  PD_PERMIT_AUTONOMOUS = 0, /* runs */
  PD_PERMIT_NOTIFY = 1,     /* runs, and the operator's feed tells */
  PD_PERMIT_APPROVAL = 2,   /* an operator has to approve it first */
  PD_PERMIT_OPERATOR = 3,   /* only the operator's */
  PD_PERMIT_BLOCKED = 4     /* nobody's; by policy */
} pd_permission;

/* "autonomous", "notify", "approval", "operator", "blocked". Static storage. */
PD_API const char *pd_permission_name(pd_permission permission);

/* Which threads run a call. */
typedef enum pd_executor {
  PD_EXECUTOR_QUICK = 0, /* looks at memory, or stages one commit: begun where the request was read */
  PD_EXECUTOR_WRITER,    /* waits for the disk */
  PD_EXECUTOR_SLOW       /* waits for others, walks much, or works on files: apart from all that is quick */
} pd_executor;

/* What a session is to a capability. */
typedef enum pd_session_use {
  PD_SESSION_UNUSED = 0,
  PD_SESSION_OPTIONAL, /* what it makes belongs to the session, if one is named */
  PD_SESSION_REQUIRED  /* it acts on the session that is named */
} pd_session_use;

/* How a capability is run, permitted, audited and advertised: "handling" of capabilities/NAME.json. Lists are ended by NULL. */
typedef struct pd_handling {
  pd_executor executor;
  pd_session_use session;
  const char *const *subject; /* inputs: the first that is given is what the audit names */
  const char *const *keys;    /* inputs that are keys, or beginnings of keys: what tokens narrowed to prefixes are judged by */
  bool has_effects;           /* it changes something: auditors may not call it */
  bool is_destructive;        /* it takes away what cannot be brought back */
  bool is_idempotent;         /* to call it again with the same input changes nothing more */
  bool is_keyless;            /* it is not about keys at all: tokens narrowed to prefixes may call it */
  bool is_preflighted;        /* what it would do is worked out before anybody is asked to approve it */
  bool is_of_host;            /* it names files of the host: an agent learns nothing about them before the approval */
  bool is_waiting;            /* it may wait for something to happen (pd_ctx.wait) */
  bool is_cancellable;        /* it stops when its caller leaves (pd_ctx.progress) */
  bool is_activity;           /* a call of it counts as activity of the agent */
} pd_handling;

/* How it is called from a command line: `perdure COMMAND VERB WORDS…`. "shorthand" of capabilities/NAME.json. */
typedef struct pd_shorthand {
  const char *command, *verb;
  const char *const *words; /* inputs that the words after the verb are; ended by NULL */
  const char *prints;       /* the one member of the answer that people want to see; NULL: all */
  const char *columns;      /* of the list in a pipe, whatever members its rows have; NULL: those that they have */
  const char *notes;        /* the member that is told besides, on standard error; NULL: none */
  bool is_value;            /* what is printed is a value of the agent's: JSON in a pipe */
} pd_shorthand;

/* A capability, for those who list them. Static storage. */
typedef struct pd_capability_info {
  const char *name, *summary, *version;
  pd_permission permission;
  const char *document; /* capabilities/NAME.json, on one line */
  const pd_handling *handling;
  const pd_shorthand *shorthand; /* NULL: none */
} pd_capability_info;

/* The index-th capability by name; PD_NOT_FOUND after the last (`err` is not written then). */
PD_API PD_MUST_USE pd_code pd_capability_at(size_t index, pd_capability_info *out, pd_error *err);
/* PD_NOT_FOUND, named UnknownCapability; the message names the one that is most like it. */
PD_API PD_MUST_USE pd_code pd_capability_find(const char *name, pd_capability_info *out, pd_error *err);

/* May `who` learn, by another way than a call, what a call of `capability` about `key` (or about the keys that begin with it; empty: about
 * all keys) would tell of the state of `owner` (an agent, or "shared"; NULL: its own)? By its token, whose state it is, the capability's
 * own permission and policy.toml. What needs approval is refused. `out` (NULL: not wanted) is for that store. PD_DENIED. Nothing is
 * audited. */
PD_API PD_MUST_USE pd_code pd_authorise_read(const pd_ctx *who, const char *capability, const char *owner, pd_bytes key, pd_grant *out,
                                             pd_error *err);
/* May `who` do what is not a capability and is the operator's: `name`, which the scopes of its token are compared with? An auditor may if
 * it does not write. `out` (NULL: not wanted) is for every store. PD_DENIED. Nothing is audited. */
PD_API PD_MUST_USE pd_code pd_authorise_operator(const pd_ctx *who, const char *name, bool writes, pd_grant *out, pd_error *err);
/* For what a home does for itself, without a caller; `work` is its name in the list of authorise.c. PD_DENIED for any other. */
PD_API PD_MUST_USE pd_code pd_authorise_work(pd_home *home, const char *work, pd_grant *out, pd_error *err);
/* How often it was decided since the home was opened, whatever the answer. */
PD_API uint64_t pd_authorise_count(pd_home *home);
/* Is there any input with which it may call `capability`? `may_ask`: calls that need an approval count, too. What it may not call with any
 * input is not worth showing to it. */
PD_API bool pd_authorise_any(const pd_ctx *who, const char *capability, bool may_ask);

/* By its name, or by the one that MCP has for it: with underscores instead of dots. */
PD_API bool pd_capability_find_tool(const char *name, pd_capability_info *out);

#ifdef __cplusplus
}
#endif
#endif
