/*
 * statestore.h: the StateStore: a small key-value map for plugins, the run manager and the like, that outlives the process. Included by
 * perdure.h.
 *
 *     pd_statestore_options o = pd_statestore_defaults();
 *     o.enabled = true;
 *     o.type = PD_STATESTORE_FILE;
 *     o.path = "data/agent-state.json";
 *     pd_statestore *s = NULL;
 *     if (pd_statestore_open(&o, &s, &err)) { fprintf(stderr, "%s\n", err.message); exit(4); }
 *     pd_statestore_set(s, pd_text("my-plugin:checkCount"), pd_text("1"), &err);
 *     pd_buf value = {0};
 *     pd_statestore_get(s, pd_text("my-plugin:checkCount"), &value, &err);   // a copy
 *     pd_buf_done(&value);
 *     pd_statestore_close(s, &err);                                          // flushes now
 *     pd_statestore_free(s);
 *
 * All of the state is in memory; reads never wait for a disk. Changes are written `flush_interval_ms` after the first of them, all at once:
 *
 *   memory     nowhere
 *   file       a JSON file, {"version":1,"entries":[["key",value],…]} in the order in which keys were first set, written anew as a whole;
 *              its checksum is in the white space behind it, which other readers of JSON ignore
 *   database   a SQLite table core_<table_name>, one transaction a flush; each row has a checksum in a column of its own
 *   perdure    an agent's store, one commit a flush on the ref <table_name>: every past state can be read (pd_statestore_get_at)
 *
 * VALUES      JSON texts. They are kept without white space outside of strings; numbers keep their digits, strings their escapes.
 * FAULTS      A flush that fails loses nothing: what it should have written stays pending and is tried again, later and later (up to 30 s
 *             apart), and `warn` is told. The library never prints.
 * THREADS     Any number of threads may use a store and its views. Free it when no thread is inside a call on it.
 * PROCESSES   file: one at a time, which a lock sees to. database, perdure: each process has its own copy from when it opened; of two
 *             that set one key the later flush wins. Do not use a store across fork().
 * LIMITS      Keys: 1 to 1024 bytes of UTF-8 without NUL. Values: 64 MiB, 125 levels deep. A file: 1 GiB.
 */
#include <perdure/perdure.h> /* before the guard: it includes this header where others need it */

#ifndef PERDURE_STATESTORE_H
#define PERDURE_STATESTORE_H

#ifdef __cplusplus
extern "C" {
#endif

#define PD_STATESTORE_VALUE_SIZE_MAX ((size_t)64 * 1024 * 1024)
#define PD_STATESTORE_VALUE_DEPTH_MAX 125
#define PD_STATESTORE_FILE_SIZE_MAX ((size_t)1024 * 1024 * 1024)
#define PD_STATESTORE_TABLE_SIZE_MAX 58
#define PD_STATESTORE_FLUSH_MS_MAX 86400000u /* a day */

typedef struct pd_statestore pd_statestore;

typedef enum pd_statestore_type {
  PD_STATESTORE_MEMORY = 0,
  PD_STATESTORE_FILE = 1,
  PD_STATESTORE_DATABASE = 2,
  PD_STATESTORE_PERDURE = 3,
  PD_STATESTORE_TYPE_COUNT
} pd_statestore_type;

/* "memory", "file", "database", "perdure". Static storage. */
PD_API const char *pd_statestore_type_name(pd_statestore_type type);

/* Start from pd_statestore_defaults: there, the values are those of the table of seed 000. Texts are copied. */
typedef struct pd_statestore_options {
  bool enabled;               /* false: memory, whatever `type` says */
  pd_statestore_type type;    /* memory */
  const char *path;           /* file: "zup.state.json", from the working folder of the moment it is opened */
  uint32_t flush_interval_ms; /* 1000. 0: every set and delete is durable before it returns */
  const char *table_name;     /* "state": database: the table is core_state; perdure: the ref. [A-Za-z_][A-Za-z0-9_]{0,57} */

  const char *database; /* database: the SQLite file; NULL: SQLite is not configured, so a warning and memory */
  const char *uri;      /* perdure: as pd_store_open; NULL: "sqlite:./.perdure". Not the private `memory:` */
  const char *agent;    /* perdure: whose store; NULL: "main" */

  /* What the owner should know and no call can answer: a file that was moved aside, a flush that failed, memory instead of a database.
   * One line. Called from any thread, without locks; it may use the store, but not close it. NULL: nobody is told. */
  void (*warn)(void *ctx, pd_code code, const char *message);
  void *warn_ctx;

  /* file: PD_CORRUPT or PD_FORMAT, naming the file, if it is damaged or is not a state file. Otherwise such a file is moved aside to
   * PATH.corrupt-MS, `warn` is told, and the state starts empty: right for an agent that must go on, wrong for a program that looks. */
  bool refuses_damage;

  int64_t (*now_ms)(void *ctx);    /* NULL: the system's clock, milliseconds since 1970 UTC */
  int64_t (*uptime_ms)(void *ctx); /* NULL: milliseconds since the machine was started, sleep included */
  void *clock_ctx;
  const char *boot_id; /* names the start that uptime_ms counts from; NULL: the system's */
} pd_statestore_options;

PD_API pd_statestore_options pd_statestore_defaults(void);

/* Read a `statePersistence` object over what `options` holds already:
 *
 *     {"enabled":true,"type":"file","config":{"path":"x.json","flushIntervalMs":2000,"tableName":"state"}}
 *
 * flush_interval_ms and table_name are fine too; `config` may also have `database`, `uri` and `agent`. The texts are kept in `texts`, which
 * is empty before and yours to finish once the store is open. PD_INVALID names the member that is wrong or unknown; `options` is then as it
 * was. */
PD_API PD_MUST_USE pd_code pd_statestore_configure(pd_bytes json, pd_statestore_options *options, pd_buf *texts, pd_error *err);

/* Open, and load what is there. `options` may be NULL: memory.
 *
 * file: folders are made. A file that cannot be read, or is no state file, is renamed to PATH.corrupt-TIME, `warn` is told, and the store
 * starts empty. PD_CONFLICT (name StateFileInUse) if another process, or another store of this one, has the file. PD_STORAGE if what is
 * there is no regular file, or cannot be moved aside: it would be overwritten else. PD_FORMAT if a part of its path is no folder.
 * database: if SQLite cannot be opened, or the table is another's, `warn` is told and the store is in memory (see stats). Rows whose value
 * is no JSON are left alone, and `warn` is told.
 * perdure: what pd_store_open answers. PD_CORRUPT for a value that is no JSON.
 * All: PD_INVALID for options that are wrong. */
PD_API PD_MUST_USE pd_code pd_statestore_open(const pd_statestore_options *options, pd_statestore **out, pd_error *err);

/* Flush now, stop the store's thread, give the file back. A second close does nothing. After it, calls answer PD_INVALID (name
 * StateStoreClosed). If the flush fails the store stays open, with all that is in it: close again, or give up with pd_statestore_free.
 * Takes NULL. */
PD_API pd_code pd_statestore_close(pd_statestore *store, pd_error *err);
/* Close it if it is open, whatever comes of that, and free it. Takes NULL. Free views first. */
PD_API void pd_statestore_free(pd_statestore *store);

/* A copy of the value replaces what `out` holds; nothing done to it changes the store. PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_statestore_get(pd_statestore *store, pd_bytes key, pd_buf *out, pd_error *err);
/* `value` is JSON. PD_INVALID, PD_LIMIT: nothing is changed. With flush_interval_ms = 0 also what the flush answers: the change is then in
 * memory and pending, and the store goes on trying to write it. */
PD_API PD_MUST_USE pd_code pd_statestore_set(pd_statestore *store, pd_bytes key, pd_bytes value, pd_error *err);
/* An absent key is no error. `out_was_there` may be NULL. */
PD_API PD_MUST_USE pd_code pd_statestore_delete(pd_statestore *store, pd_bytes key, bool *out_was_there, pd_error *err);
/* Also false once the store is closed. */
PD_API bool pd_statestore_has(pd_statestore *store, pd_bytes key);

/* A set, or a delete if `value.data` is NULL. */
typedef struct pd_statestore_change {
  pd_bytes key, value;
} pd_statestore_change;

/* All of them or none, for readers and on disk: one flush has them all. In order, so of two for one key the later one holds. */
PD_API PD_MUST_USE pd_code pd_statestore_apply(pd_statestore *store, const pd_statestore_change *changes, size_t count, pd_error *err);

/* Return false to stop. Both are borrowed until it returns. It may call the store. */
typedef bool (*pd_statestore_visit)(void *ctx, pd_bytes key, pd_bytes value);

/* The keys that begin with `prefix` (empty: all), as they were at one moment, in the order in which they were first set. (A key that was
 * deleted and set again is the last. perdure keeps no order: what was loaded comes by key.) Costs a look at every key of the store. */
PD_API PD_MUST_USE pd_code pd_statestore_list(pd_statestore *store, pd_bytes prefix, pd_statestore_visit visit, void *ctx, pd_error *err);
/* Delete all keys that begin with `prefix` (empty: all), at once. `out_count` may be NULL. */
PD_API PD_MUST_USE pd_code pd_statestore_clear(pd_statestore *store, pd_bytes prefix, uint64_t *out_count, pd_error *err);

/* Return when everything that was set before is durable. While another flush is under way this one waits its turn. */
PD_API PD_MUST_USE pd_code pd_statestore_flush(pd_statestore *store, pd_error *err);

typedef struct pd_statestore_stats {
  pd_statestore_type type; /* the one in force */
  bool is_fallback;        /* another one was asked for: `type` is memory instead */
  bool is_closed;
  uint64_t keys;
  uint64_t bytes;                        /* of keys and values */
  uint64_t pending;                      /* changes that are not durable yet (0 for memory) */
  uint64_t flushes;                      /* that succeeded, since the open */
  uint64_t failures;                     /* of flushes, since the open */
  uint64_t failed_in_row;                /* of flushes, since the last that succeeded */
  int64_t last_flush_ms;                 /* when the last one succeeded, by the clock; 0: none yet */
  char last_error[PD_ERROR_MESSAGE_MAX]; /* of the last flush that failed; "" if one has succeeded since */
} pd_statestore_stats;

PD_API void pd_statestore_stats_get(pd_statestore *store, pd_statestore_stats *out);

/* perdure only (PD_UNSUPPORTED else): the value that `key` had at `at` (perdure.h: points in history; "state~1" is one flush ago, "@TIME" a
 * moment; NULL: the last flush). */
PD_API PD_MUST_USE pd_code pd_statestore_get_at(pd_statestore *store, const char *at, pd_bytes key, pd_buf *out, pd_error *err);

/* ---- plugins: pluginId:keyName ---------------------------------------------------------------------------------------- */

/* Write `PLUGIN:NAME` into `out`. PD_INVALID if the plugin's id is empty or has a colon (its keys would be another's); PD_LIMIT. */
PD_API PD_MUST_USE pd_code pd_statestore_key(const char *plugin, const char *name, char out[PD_KEY_SIZE_MAX + 1], pd_error *err);

/* A store as one plugin may see it: keys are given and shown without `PLUGIN:`, and nothing outside can be read or written. */
typedef struct pd_stateview pd_stateview;

/* Borrows the store. Free it with pd_stateview_free, which takes NULL. */
PD_API PD_MUST_USE pd_code pd_stateview_new(pd_statestore *store, const char *plugin, pd_stateview **out, pd_error *err);
PD_API void pd_stateview_free(pd_stateview *view);
/* As the functions of the store of these names. */
PD_API PD_MUST_USE pd_code pd_stateview_get(pd_stateview *view, pd_bytes key, pd_buf *out, pd_error *err);
PD_API PD_MUST_USE pd_code pd_stateview_set(pd_stateview *view, pd_bytes key, pd_bytes value, pd_error *err);
PD_API PD_MUST_USE pd_code pd_stateview_delete(pd_stateview *view, pd_bytes key, bool *out_was_there, pd_error *err);
PD_API bool pd_stateview_has(pd_stateview *view, pd_bytes key);
PD_API PD_MUST_USE pd_code pd_stateview_list(pd_stateview *view, pd_bytes prefix, pd_statestore_visit visit, void *ctx, pd_error *err);
PD_API PD_MUST_USE pd_code pd_stateview_clear(pd_stateview *view, pd_bytes prefix, uint64_t *out_count, pd_error *err);

/* ---- observers: when did each run last ---------------------------------------------------------------------------------- */

/*
 * `observer:lastRun` is an object: observer -> milliseconds since 1970. Beside it `observer:clock` notes how long the machine had been up
 * at that moment: while it is not started anew, that is what counts, in this process and in later ones, and the clock may be set as anybody
 * likes. After a restart of the machine the clock counts; a last run in the future is taken for one that was just now, so that nobody
 * waits longer than one interval.
 */

/* Has `interval_ms` passed since the observer ran? One that never ran is due. `out_wait_ms` (may be NULL): how long it is until then. May
 * write: see above. PD_CORRUPT if observer:lastRun is not what it should be. */
PD_API PD_MUST_USE pd_code pd_observer_is_due(pd_statestore *store, const char *observer, uint64_t interval_ms, bool *out_is_due,
                                              uint64_t *out_wait_ms, pd_error *err);
/* It runs now. */
PD_API PD_MUST_USE pd_code pd_observer_mark_run(pd_statestore *store, const char *observer, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
