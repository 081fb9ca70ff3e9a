/*
 * storage_plugin.h: for those who write a storage plugin: where the snapshots of agents are kept. Who only uses one needs storage.h.
 *
 * A plugin is a shared object with one symbol (three functions are enough for a simple one: below):
 *
 *     PD_STORAGE_EXPORT const pd_storage_ops pd_storage_plugin = {.abi = PD_STORAGE_ABI, .name = "mine", .open = …};
 *
 * and is used as `plugin:/path/mine.so?ARGUMENT`. It needs this header and error.h, and links nothing of perdure. perdure's own storages
 * (file, sqlite, redis, perdure) have the same shape. The numbered clauses are what tests/contract/storage_contract.c checks.
 *
 *  S1  save_next replaces what is stored for `agent` as a whole. Once it returned PD_OK, load_marked gives the document of that save, also
 *      to other handles, and it survives as `durability` says. If it fails, what was stored before is still there.
 *  S2  load_marked gives a document that means the same as the one that was saved: arrays in order, digits of numbers as they were, members
 *      that nobody knows kept. PD_NOT_FOUND if there is none.
 *  S3  remove takes away what is stored, sound or not. PD_NOT_FOUND if there is nothing.
 *  S4  list visits the names of all agents that something is stored for, in any order, each once.
 *  S5  What is there and cannot be read is PD_CORRUPT and names the place: never PD_NOT_FOUND, and load_marked never changes it.
 *  S6  A handle that failed an operation is still usable: the next call may succeed.
 *  S7  Several handles and processes may have one storage open. Calls on one handle come one at a time, from any thread.
 *  S8  Agents never see each other's snapshots, whatever their names are.
 *  S9  Each agent has an epoch, 0 at first. claim makes it larger and gives the new one: no two claims get the same, whoever made them,
 *      also if the snapshot was removed between. It needs no snapshot, makes none, and lasts as a save does. A storage that can lose its
 *      memory, or be put back to an earlier state, must not give an epoch out again afterwards: take the larger of the last one plus 1
 *      and the time in milliseconds since 1970, as perdure's own do. An epoch is at most 2^53-1.
 *  S10 A save with an epoch (next->epoch) other than 0 saves only if no claim was made since the one that gave this epoch, and the
 *      snapshot was not removed since: else PD_CONFLICT, with the agent's epoch in err->actual, and nothing is changed. Check and save are
 *      one step: once a claim has returned, no save of an older epoch takes effect. With 0 it saves in any case.
 *  S11 save_next keeps the mark `next` with the snapshot, replaced together with it, and load_marked gives it back with the document that
 *      it belongs to. The mark of a snapshot that was saved without one, or by another program, is zeros; so is that of none.
 *  S12 save_next with a `last` saves only if the mark of what is stored is `last`, in all three numbers: else PD_CONFLICT, with the
 *      agent's epoch in err->actual, and nothing is changed. Looking at the mark and at the epoch (S10, by next->epoch), and saving, are
 *      one step: a save that was stuck on the way, or arrives twice, never overwrites another. If `next` itself is stored already, this
 *      is the same save once more, and PD_OK. With `last` NULL what is stored does not matter; next->epoch still does, unless it is 0.
 *
 * Version 1 of this interface had `save` and `load` instead of `save_next` and `load_marked`. Such plugins still load, but S11 and S12 do
 * not hold with them: two processes that act under one epoch may overwrite each other's saves, and a save that is delayed on the way to
 * a server may overwrite a later one of the same epoch. Use an agent in such a storage from one process only.
 *
 * A SIMPLE PLUGIN has three functions: save, load and remove of a value under a key. Another symbol says so:
 *
 *     PD_STORAGE_EXPORT const pd_storage_simple_ops pd_storage_simple_plugin = {.abi = PD_STORAGE_SIMPLE_ABI, .name = "mine", .save = …};
 *
 * perdure makes the rest of them: epochs, marks, checksums, and the list of names, which it saves through the same three functions under
 * keys of its own. A library with both symbols is used by pd_storage_plugin. What such a plugin has to keep:
 *
 *  K1  save replaces what is stored under `key` as a whole. Once it returned PD_OK, load gives that value, also to other handles and
 *      processes. If it fails, what was stored before is still there.
 *  K2  load gives `take` the bytes that were saved, once: beside a save the old ones or the new ones, never a mixture. PD_NOT_FOUND if
 *      there are none; what is there and cannot be read is another error, never PD_NOT_FOUND.
 *  K3  remove takes the value away. PD_NOT_FOUND if there is none.
 *  K4  Different keys are different values. A key is 1 to PD_STORAGE_KEY_SIZE_MAX of [A-Za-z0-9._-], and upper and lower case differ: an
 *      agent's name, or `_names`, or `_epoch.` and an agent's name. Names never begin with '.', so a plugin's own drafts may. A value is at
 *      most PD_SNAPSHOT_SIZE_MAX + 1024 bytes. Calls on one handle come one at a time, from any thread.
 *
 * With K1 to K4 all clauses hold on one machine; more than that needs the large table. Nobody can compare and save in one step by save and
 * load alone, so perdure holds a lock: a byte of /tmp/perdure-storages-UID.lock, by the plugin's name and argument.
 *  - S9 (no two claims get the same), S10 and S12 (compare and save are one step), and S4 (no name is lost) hold among processes of one
 *    user on one machine, with the same /tmp, that write the argument in the same way. For those of other machines, users or spellings, a
 *    save at the same moment may overwrite another, or be made by an epoch that was just fenced. That is detected, not prevented: the next
 *    save with a `last` (pd_storage_save_next, agents) gets SnapshotChanged, since the mark is another one; pd_storage_save_as, which has
 *    none, detects nothing. A name that was lost from the list comes back with the next save through a new handle.
 *    pd_storage_durability_get says so in its `detail`.
 *  - ticks are not kept. A list loads every snapshot; a save loads the epoch and the snapshot that it replaces.
 *  - A lock that another process holds for 10 seconds is PD_STORAGE.
 *
 * perdure checks every document before save and after load, and every agent's name; a plugin may rely on that: `agent` is 1 to 64 of
 * [A-Za-z0-9._-], not beginning with one of the last three, and `snapshot` is JSON of at most PD_SNAPSHOT_SIZE_MAX bytes.
 */
#ifndef PERDURE_STORAGE_PLUGIN_H
#define PERDURE_STORAGE_PLUGIN_H

#include <perdure/perdure.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PD_STORAGE_ABI 2
#define PD_STORAGE_SYMBOL "pd_storage_plugin" /* of type const pd_storage_ops */
#define PD_STORAGE_SIMPLE_ABI 1
#define PD_STORAGE_SIMPLE_SYMBOL "pd_storage_simple_plugin" /* of type const pd_storage_simple_ops */
#define PD_STORAGE_KEY_SIZE_MAX 80
#define PD_STORAGE_EXPORT PD_API

/* What a save survives once it is acknowledged. */
typedef enum pd_lasting {
  PD_LASTS_UNKNOWN = 0, /* the storage does not say                                                         */
  PD_LASTS_MEMORY = 1,  /* nothing: gone with the process that keeps it                                     */
  PD_LASTS_MOSTLY = 2,  /* written to disk now and then: a crash there, or a loss of power, costs the latest */
  PD_LASTS_POWER = 3    /* on stable storage before the save returns                                        */
} pd_lasting;

typedef struct pd_storage_durability {
  pd_lasting lasting;
  char detail[256]; /* one line that says why: settings, in the storage's own words. Always terminated */
} pd_storage_durability;

/* Which save a snapshot is: perdure makes it, and a storage keeps it (S11). Two saves never have the same. */
typedef struct pd_storage_mark {
  uint64_t epoch; /* who saved it; 0: nobody who claimed the agent */
  uint64_t save;  /* the how manieth save of this epoch; 0: not counted */
  uint64_t token; /* random, not 0; all 64 bits count */
} pd_storage_mark;

/* Takes the document that load_marked found; call it once. `data` is borrowed until it returns. Anything but PD_OK: pass it on. */
typedef pd_code (*pd_storage_take)(void *ctx, pd_bytes snapshot, pd_error *err);
/* Takes one agent's name. Anything but PD_OK: stop, and pass it on. It must not call the storage. */
typedef pd_code (*pd_storage_visit)(void *ctx, const char *agent, pd_error *err);
/* One saved tick; return false to stop. It must not call the storage. */
typedef struct pd_storage_tick {
  uint64_t tick_index;
  int64_t saved_ms;
  const char *place; /* the storage's own name for it: perdure: a commit id. Borrowed until the visitor returns */
} pd_storage_tick;
typedef bool (*pd_storage_tick_visit)(void *ctx, const pd_storage_tick *tick);

/* `err` is never NULL here. */
typedef struct pd_storage_ops {
  unsigned abi;     /* PD_STORAGE_ABI; looked at first, so it stays the first member in all versions */
  const char *name; /* for messages */

  /* `argument` is what stands behind the scheme, for plugins behind the first '?'; "" if nothing does. */
  pd_code (*open)(const char *argument, void **out_handle, pd_error *err);
  void (*close)(void *handle);
  /* Version 1; not called where save_next and load_marked are there, and NULL then. */
  pd_code (*save)(void *handle, const char *agent, uint64_t epoch, pd_bytes snapshot, pd_error *err);
  pd_code (*load)(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_error *err);
  pd_code (*remove)(void *handle, const char *agent, pd_error *err);
  pd_code (*list)(void *handle, pd_storage_visit visit, void *ctx, pd_error *err);
  pd_code (*durability)(void *handle, pd_storage_durability *out, pd_error *err); /* `out` is zeros */
  pd_code (*claim)(void *handle, const char *agent, uint64_t *out_epoch, pd_error *err);
  pd_code (*epoch)(void *handle, const char *agent, uint64_t *out_epoch, pd_error *err); /* as it is; makes nothing */

  /* Optional, both or none: storages that keep old snapshots. Newest first; PD_NOT_FOUND if the agent, or the tick, is not there. */
  pd_code (*ticks)(void *handle, const char *agent, pd_storage_tick_visit visit, void *ctx, pd_error *err);
  pd_code (*load_tick)(void *handle, const char *agent, uint64_t tick_index, pd_storage_take take, void *ctx, pd_error *err);

  /* Since version 2. */
  /* `last` may be NULL (S12). */
  pd_code (*save_next)(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                       pd_error *err);
  /* `*out_mark` is zeros before, and is written before `take` is called. */
  pd_code (*load_marked)(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err);
} pd_storage_ops;

/* A simple plugin (K1 to K4). `err` is never NULL here. */
typedef struct pd_storage_simple_ops {
  unsigned abi;       /* PD_STORAGE_SIMPLE_ABI; stays the first member in all versions */
  const char *name;   /* for messages and the lock */
  pd_lasting lasting; /* what a save survives once it returned PD_OK; PD_LASTS_UNKNOWN if nothing is said */

  pd_code (*save)(void *handle, const char *key, pd_bytes value, pd_error *err);
  pd_code (*load)(void *handle, const char *key, pd_storage_take take, void *ctx, pd_error *err);
  pd_code (*remove)(void *handle, const char *key, pd_error *err);

  /* Optional. Without `open` the handle is the argument, a string: what stands behind the first '?' of the URI, or "". */
  pd_code (*open)(const char *argument, void **out_handle, pd_error *err);
  void (*close)(void *handle);
} pd_storage_simple_ops;

/* Write an error as perdure does; returns `code`. Here and not in the library, so that a plugin links nothing. */
static inline pd_code PD_PRINTF(3, 4) pd_storage_fail(pd_error *err, pd_code code, const char *fmt, ...)
{
  va_list args;
  if (!err) return code;
  memset(err, 0, sizeof *err);
  err->code = code;
  va_start(args, fmt);
  vsnprintf(err->message, sizeof err->message, fmt, args);
  va_end(args);
  return code;
}

#ifdef __cplusplus
}
#endif
#endif
