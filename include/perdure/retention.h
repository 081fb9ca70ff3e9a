/* retention.h: gc and erasure. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_RETENTION_H
#define PERDURE_RETENTION_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * GC retires old history: what no policy keeps cannot be read any more (PD_RETIRED), and its bytes go back to the file system.
 * Always kept: the head of every ref and what its redo leads to, tags, pins, and the commits that messages link to. A thing is kept
 * if any policy keeps it. What is kept can be read whole: every key, by pd_get, pd_iter_open, pd_diff, pd_fork…
 */
typedef struct pd_gc_policy {
  uint64_t keep_last;     /* commits of each ref, from its head back; 0: 100 */
  uint64_t keep_days;     /* all commits younger than this; 0: no such rule */
  uint64_t keep_versions; /* of each key at each head: value, who, when, why, for pd_get_version and pd_history; 0: no such rule */
  /* Refs of which every commit is kept, by name or, with a / at the end, by how it begins, separated by spaces: "thread/ audit". NULL: as
   * the setting gc.keep-refs says, or PD_GC_KEEP_REFS if it is not set. "": none. */
  const char *keep_refs;
  bool is_dry;        /* change nothing, only say what would be done */
  const char *author; /* NULL: the handle's; it is told to those who ask for what is gone */
  /* Called now and then; return false to give up: PD_INVALID, the store is whole, and the next gc goes on. May be NULL. */
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  void *ctx;
} pd_gc_policy;

/* What promises that all of its past can be read: threads, the ticks of agents, StateStores. */
#define PD_GC_KEEP_REFS "thread/ agent-snapshot state"

typedef struct pd_gc_report {
  uint64_t commits;                 /* that could be read before */
  uint64_t retired;                 /* of these: not any more */
  uint64_t kept_heads;              /* kept because they are the head of a ref, or what redo leads to */
  uint64_t kept_marks;              /* …because of a tag, pin or message link */
  uint64_t kept_last;               /* …by keep_last */
  uint64_t kept_days;               /* …by keep_days */
  uint64_t kept_refs;               /* …by keep_refs */
  uint64_t kept_base;               /* …because what is kept builds on them, or lies next to it */
  uint64_t kept_versions;           /* versions of keys kept by keep_versions in commits that are retired */
  uint64_t dropped_versions;        /* versions of keys whose bytes go */
  uint64_t log_bytes;               /* payload that goes: of the log… */
  uint64_t bag_bytes;               /* …and of the bag (a dry run's number leaves out what others write meanwhile) */
  uint64_t disk_before, disk_after; /* what the files take; 0 where there are none; the same in a dry run */
} pd_gc_report;

/* Retire what `policy` (NULL: the defaults) does not keep. Others may read and write meanwhile; they may have to wait while the files are
 * compacted. Killed at any moment it leaves a sound store. `out` may be NULL.
 * PD_UNSUPPORTED if the backend cannot; PD_CONFLICT if others kept pointing refs at what was to be retired, or ran gc themselves, or if
 * an export or backup of the store, of any process, has not ended within 30 s: try again; PD_FULL: saving what is kept needs some room
 * first. */
PD_API PD_MUST_USE pd_code pd_gc(pd_store *store, const pd_gc_policy *policy, pd_gc_report *out, pd_error *err);

/*
 * Keep gc, of all processes, from retiring anything of the store until pd_gc_pause_end, or for 6 hours, or until this process ends.
 * Waits for
 * a gc that runs; PD_CONFLICT after 10 minutes. Exports do this by themselves: it is for those who choose commits first and export them
 * later. Erasures are not kept away. The handle may be closed before the pause ends. A backend without such a lock pauses nothing.
 */
typedef struct pd_gc_pause pd_gc_pause;
PD_API PD_MUST_USE pd_code pd_gc_pause_begin(pd_store *store, pd_gc_pause **out, pd_error *err);
PD_API void pd_gc_pause_end(pd_gc_pause *pause); /* takes NULL */

/*
 * AUTOMATIC GC, off unless the setting "gc.auto" is "on" (pd_setting_set). The policy is in the others: numbers; without them as in
 * pd_gc_policy. A handle that writes then runs gc on a thread of its own whenever as many records came since the last one as that left, and
 * at least 4096 (or many bytes of values): so it costs a constant share of writing, and the store stays bounded. It gives up when the store
 * is closed, and is tried again later if another process is at it or an export reads the store. The files are compacted if that gives a
 * quarter of them back.
 */
#define PD_SETTING_GC "gc." /* no others that begin so */
#define PD_SETTING_GC_AUTO "gc.auto"
#define PD_SETTING_GC_KEEP_LAST "gc.keep-last"
#define PD_SETTING_GC_KEEP_VERSIONS "gc.keep-versions"
#define PD_SETTING_GC_KEEP_DAYS "gc.keep-days"
#define PD_SETTING_GC_KEEP_REFS "gc.keep-refs" /* names, not a number; pd_gc goes by it, too */

/* Run gc now, in this thread, if the settings say that it is due; for processes that do not live long. Cheap if it is not. *out_did (may
 * be NULL) says whether it ran; `out` (may be NULL) is written only then. PD_OK also if it is off, the store is read-only, or somebody else
 * is at it. Errors as pd_gc; they are remembered (pd_gc_status). */
PD_API PD_MUST_USE pd_code pd_gc_auto(pd_store *store, bool *out_did, pd_gc_report *out, pd_error *err);

typedef struct pd_gc_info {
  uint64_t cut;           /* records before this number are retired, but for kept points; 0 or 1: none */
  uint64_t points;        /* commits before it that can still be read */
  int64_t retired_ms;     /* when gc or erasure last ran; 0: never */
  char by[256];           /* who ran it */
  bool is_auto;           /* the setting gc.auto is on */
  int64_t auto_ms;        /* when it last ran by itself, or tried to; 0: never */
  uint64_t auto_runs;     /* of this handle */
  char auto_trouble[640]; /* why the last try failed; "" if it did not */
} pd_gc_info;

/* What was retired so far, and how gc does by itself. */
PD_API PD_MUST_USE pd_code pd_gc_status(pd_store *store, pd_gc_info *out, pd_error *err);

/*
 * ERASURE removes the bytes of a key's values from history. Ids stay, so commits and the audit chain still verify; reading such a value
 * says PD_ERASED with when and by whom. The key is deleted where it is erased: by a commit on the ref (everywhere: on each ref that has
 * it). Without `everywhere`, what is erased is the key on the ref's line of history, but for values that the head of another ref still
 * holds. Tags, pins and message links do not protect from erasure unless `spares_marks`. The same bytes under another key are that
 * key's, and stay.
 *
 * A LAZY erasure costs about what the key's own versions cost, however long the log is. It deletes the key and follows its versions back
 * to where it was made (as pd_history does): their values leave the records at once, and nobody reads them again, at no point of the
 * past. What it leaves to the next gc or whole erasure: bytes in free pages of the files, and values over 16 KiB in the bag. What it
 * does not reach, unless `left_of`: versions from before an earlier deletion of the key, of lines that were merged in or left, and from
 * before a cut of gc.
 */
typedef struct pd_erase_options {
  bool everywhere;         /* on all refs and lines */
  uint64_t version;        /* 0: all versions. Else only this one of the line, which must not be the present one: PD_INVALID */
  uint64_t expect_version; /* lazy alone. 0: any. Else the present version of the key: PD_CONFLICT if it is another, and nothing changes */
  bool spares_marks;       /* what the key shows at tags, pins and message links stays; finding them takes time for each */
  bool is_lazy;            /* as above. PD_NOT_FOUND unless the key is there now */
  /* Lazy alone; NULL: none. Refs by name or, with a / at the end, by how they begin, separated by spaces: "main fork/". What any commit
   * that was made on one of them wrote to the key goes, too, although undo, reset, a deletion of the key or of the ref have left it
   * behind; but for what the head of another ref still holds. Then the key need not be there now. Costs a walk over the log, without the
   * lock. */
  const char *left_of;
  bool is_dry;                                                /* change nothing, only say what would be done */
  const pd_note *note;                                        /* ref, author, run, reason; may be NULL */
  bool (*progress)(void *ctx, uint64_t done, uint64_t total); /* may be NULL; false gives up: PD_INVALID. Erasing again goes on */
  void *ctx;
} pd_erase_options;

typedef struct pd_erase_report {
  uint64_t versions;                /* erased */
  uint64_t bytes;                   /* of their values */
  uint64_t refs;                    /* where the key was deleted */
  uint64_t held_refs;               /* versions that stay because the head of another ref holds them */
  uint64_t held_marks;              /* …because of a tag, pin or message link (spares_marks) */
  uint64_t held_keys;               /* erased values whose bytes stay in the bag because another key has the same */
  char held_by[256];                /* one such ref, mark or key; "" if none */
  uint64_t disk_before, disk_after; /* 0 if it was lazy */
  bool has_commit;                  /* the key was deleted on the note's ref… */
  pd_id commit;                     /* …by this commit */
} pd_erase_report;

/* Erase. `options` and `out` may be NULL. When it returned PD_OK the bytes are in none of the store's files (unless it was lazy). Killed
 * before, some may be left: erase again; what a lazy one left, gc takes. PD_NOT_FOUND if the key never was on the line (everywhere: in the
 * store; lazy: is not there now), or has no such version. PD_UNSUPPORTED if the backend cannot. */
PD_API PD_MUST_USE pd_code pd_erase(pd_store *store, pd_bytes key, const pd_erase_options *options, pd_erase_report *out, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
