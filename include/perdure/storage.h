/*
 * storage.h: the snapshots of agents, and the storages that keep them. An agent's own code needs agent.h; this is what lies below it.
 *
 *     pd_storage *storage = NULL;
 *     if (pd_storage_open("file:./data/snapshots", &storage, &err)) …
 *     pd_storage_save(storage, "worker_007", pd_text(json), &err);       // acknowledged when it returns PD_OK
 *     pd_buf snapshot = {0};
 *     pd_storage_load(storage, "worker_007", &snapshot, &err);           // PD_NOT_FOUND: a fresh agent
 *
 * A SNAPSHOT is one JSON object. These members must be there; all others are kept as they are:
 *
 *     agent_id                    string: the agent's name (pd_agent_check)
 *     tick_index                  integer, 0 to 2^53-1: the agent's logical clock
 *     timestamp                   integer, 0 to 2^53-1: milliseconds since 1970 UTC
 *     status                      string of 1 to 128 bytes
 *     memory.short_term_history   array of objects
 *     memory.working_variables    object
 *     event_queue_backup          array of objects
 *
 * It is at most 64 MiB of strict UTF-8, nests at most 128 deep, no object has a member twice, and each of the three containers has at
 * most 250,000 entries.
 */
#ifndef PERDURE_STORAGE_H
#define PERDURE_STORAGE_H

#include <perdure/storage_plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_SNAPSHOT_SIZE_MAX ((size_t)64 * 1024 * 1024)
#define PD_SNAPSHOT_ITEMS_MAX 250000
#define PD_SNAPSHOT_STATUS_MAX 128
#define PD_SNAPSHOT_NUMBER_MAX ((uint64_t)9007199254740991) /* what every JSON reader can hold */

/* What a snapshot says. Slices of the document that was looked at, and borrowed from it. */
typedef struct pd_snapshot {
  char agent_id[PD_NAME_SIZE_MAX + 1];
  uint64_t tick_index;
  int64_t timestamp;
  char status[PD_SNAPSHOT_STATUS_MAX + 1];
  pd_bytes history;   /* JSON: memory.short_term_history */
  pd_bytes variables; /* JSON: memory.working_variables */
  pd_bytes events;    /* JSON: event_queue_backup */
  size_t history_count, variable_count, event_count;
} pd_snapshot;

/* Is `document` a snapshot, and of this agent (NULL: of any)? PD_INVALID names the member and what is wrong with it; PD_LIMIT. `out` may
 * be NULL. */
PD_API PD_MUST_USE pd_code pd_snapshot_check(pd_bytes document, const char *agent_id, pd_snapshot *out, pd_error *err);

/* ---- storages ------------------------------------------------------------------------------------------------------ */

typedef struct pd_storage pd_storage;

/* Open a storage. A pd_storage may be used by several threads: calls wait for each other. URIs:
 *
 *   file:DIR                    DIR/<agent_id>.json, each replaced atomically and synced. DIR is made if need be.
 *   sqlite-snapshots:FILE       one SQLite database, synced.
 *   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?OPTIONS]         rediss:// is the same over TLS
 *   redis+unix://[[USER]:PASSWORD@]PATH[?OPTIONS]                      options: see docs/guide/storage.md
 *   perdure:STORE-URI           the agent's own store (perdure:sqlite:DIR): a save is a commit of the ref PD_SNAPSHOT_REF, so every tick
 *                               can be read again, and a history that grows costs what was added.
 *   plugin:PATH.so[?ARGUMENT]   storage_plugin.h.
 *
 * Opening and reading make nothing: folders and files are made by the first claim or save.
 * PD_INVALID for a malformed URI, a plugin that does not load, lacks something or has another version; PD_FORMAT for a file that is no
 * such storage; PD_STORAGE, also if a server does not answer. Passwords do not appear in messages. */
PD_API PD_MUST_USE pd_code pd_storage_open(const char *uri, pd_storage **out, pd_error *err);
/* Whether pd_storage_open knows the scheme of `uri`, and something follows it. Nothing is opened. */
PD_API bool pd_storage_is_known(const char *uri);
/* Takes NULL. Nothing is buffered: what was acknowledged is saved. */
PD_API void pd_storage_close(pd_storage *storage);

/* The ref of the agent's store that `perdure:` commits to. */
#define PD_SNAPSHOT_REF "agent-snapshot"

/* Save `snapshot` as the latest of `agent_id`. PD_OK: it is stored, and survives as pd_storage_durability says. Anything else: what was
 * stored before is still there, unless the message says that the answer was lost on the way (a server that did not reply in time);
 * saving again is always right. PD_INVALID, PD_LIMIT: it is no sound snapshot of this agent. PD_CORRUPT: what is stored under this
 * name is no snapshot of the agent (looked at before the first save of an agent through this handle): it is not overwritten; move it
 * away or delete it. PD_FULL, PD_READ_ONLY, PD_STORAGE, PD_DENIED. */
PD_API PD_MUST_USE pd_code pd_storage_save(pd_storage *storage, const char *agent_id, pd_bytes snapshot, pd_error *err);
/* Fencing: who claims an agent is the only one who may save it from then on. *out_epoch is larger than that of every claim before, also
 * by other processes, and at least the time in milliseconds: an epoch does not come back after the storage lost its memory, was restored
 * or undone. It needs no snapshot. pd_agent_open claims: only those who keep snapshots by themselves need this. */
PD_API PD_MUST_USE pd_code pd_storage_claim(pd_storage *storage, const char *agent_id, uint64_t *out_epoch, pd_error *err);
/* pd_storage_save for the one who holds `epoch` (from a claim; 0 is PD_INVALID): PD_CONFLICT with the name AgentFenced if another claimed
 * the agent since, or removed its snapshot; err->actual is the epoch that holds it now. Nothing is changed then. */
PD_API PD_MUST_USE pd_code pd_storage_save_as(pd_storage *storage, const char *agent_id, uint64_t epoch, pd_bytes snapshot, pd_error *err);
/* pd_storage_save_as, but only if nobody saved since `last`, which is the mark of what was loaded (pd_storage_load_marked; zeros: nothing
 * was stored) or saved before. `next` is what the snapshot is marked with from then on; its token must be a new random number. This is how
 * several processes share one epoch, and how a save that is late, or is sent twice, never overwrites another. PD_CONFLICT with the name
 * AgentFenced as above, or with the name SnapshotChanged: load it again, and make the change there. Storage plugins of interface
 * version 1 do not compare `last` (storage_plugin.h). */
PD_API PD_MUST_USE pd_code pd_storage_save_next(pd_storage *storage, const char *agent_id, const pd_storage_mark *last,
                                                const pd_storage_mark *next, pd_bytes snapshot, pd_error *err);
/* pd_storage_load, and the snapshot's mark; zeros with PD_NOT_FOUND, for one that another program wrote, and from plugins of version 1. */
PD_API PD_MUST_USE pd_code pd_storage_load_marked(pd_storage *storage, const char *agent_id, pd_buf *out, pd_storage_mark *out_mark,
                                                  pd_error *err);
/* The epoch of the last claim; 0 if nobody ever claimed the agent. */
PD_API PD_MUST_USE pd_code pd_storage_epoch(pd_storage *storage, const char *agent_id, uint64_t *out_epoch, pd_error *err);
/* The latest snapshot of `agent_id` replaces what `out` holds. PD_NOT_FOUND if there is none; PD_CORRUPT if what is there is no sound
 * snapshot of this agent: it is left as it is. */
PD_API PD_MUST_USE pd_code pd_storage_load(pd_storage *storage, const char *agent_id, pd_buf *out, pd_error *err);
/* The same from the agent's own store, as `perdure:` keeps it there, for those who have the store open: nothing is opened. The snapshot is
 * not checked (pd_snapshot_check). */
PD_API PD_MUST_USE pd_code pd_storage_load_store(pd_store *store, const char *agent_id, pd_buf *out, pd_error *err);
/* Remove what is stored, sound or not, and fence whoever holds the agent. PD_NOT_FOUND if there is nothing.
 * `perdure:` deletes the ref; the bytes go with gc. */
PD_API PD_MUST_USE pd_code pd_storage_delete(pd_storage *storage, const char *agent_id, pd_error *err);
/* The agents that something is stored for, sorted. */
PD_API PD_MUST_USE pd_code pd_storage_list(pd_storage *storage, void (*visit)(void *ctx, const char *agent_id), void *ctx, pd_error *err);
/* What an acknowledged save survives, as the storage is configured now. For Redis this asks the server (CONFIG GET). */
PD_API PD_MUST_USE pd_code pd_storage_durability_get(pd_storage *storage, pd_storage_durability *out, pd_error *err);
/* "unknown", "memory", "mostly", "power". Static storage. */
PD_API const char *pd_lasting_name(pd_lasting lasting);

/* The saved ticks of an agent, newest first. PD_UNSUPPORTED if the storage keeps only the latest. */
PD_API PD_MUST_USE pd_code pd_storage_ticks(pd_storage *storage, const char *agent_id, pd_storage_tick_visit visit, void *ctx,
                                            pd_error *err);
/* The snapshot of a tick; the newest one if a tick was saved more than once. */
PD_API PD_MUST_USE pd_code pd_storage_load_tick(pd_storage *storage, const char *agent_id, uint64_t tick_index, pd_buf *out, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
