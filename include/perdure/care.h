/* care.h: du, doctor, repair. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_CARE_H
#define PERDURE_CARE_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- du ----------------------------------------------------------------------------------------------------------- */

/* Keys that begin alike, or one key. Borrowed until the visitor returns. */
typedef struct pd_du_row {
  pd_bytes prefix; /* up to and with a '/', or a whole key; for a ref, its name */
  bool is_ref;     /* all keys at the head of a ref; values that refs share count for each */
  uint64_t keys, bytes;
} pd_du_row;

typedef struct pd_du {
  uint64_t keys, bytes;                     /* at the point, below the prefix: what the rows add up to */
  uint64_t versions, version_bytes;         /* values in the whole history, each once however often it was written */
  uint64_t live_versions, live_bytes;       /* of these, still at the head of a ref */
  uint64_t history_versions, history_bytes; /* the others: version_bytes = live_bytes + history_bytes */
  uint64_t log_bytes;                       /* as pd_stats says */
  uint64_t bag_value_bytes, bag_node_bytes; /* large values; tree nodes, catalogs, pieces. Together: pd_stats.bag_bytes */
  uint64_t gc_bytes;                        /* of log and bag, what pd_gc would free: by the settings gc.keep-…, else by its defaults */
  uint64_t overhead_bytes, disk_bytes;      /* disk_bytes = log_bytes + bag_bytes + overhead_bytes, unless the backend has no files */
} pd_du;

/* How many bytes of values there are: by key prefix at `at` (below `prefix`; `depth` segments that end with '/', 0: 1), then by ref, then
 * of the whole store. `visit` (may be NULL) gets the rows, by prefix first, each in order; it returns false to stop the rows, and must not
 * call the store. Reads the whole log: memory is 48 bytes a version. Erased and retired values count nothing. */
PD_API PD_MUST_USE pd_code pd_du_store(pd_store *store, const char *at, pd_bytes prefix, unsigned depth,
                                       bool (*visit)(void *ctx, const pd_du_row *row), void *ctx, pd_du *out, pd_error *err);

/* ---- doctor ------------------------------------------------------------------------------------------------------- */

typedef enum pd_severity { PD_SEVERITY_OK = 0, PD_SEVERITY_NOTE, PD_SEVERITY_WARNING, PD_SEVERITY_ERROR } pd_severity;

/* "ok", "note", "warning", "error". Static storage. */
PD_API const char *pd_severity_name(pd_severity severity);

/* What was looked at, and what to do about it. Borrowed until the visitor returns. */
typedef struct pd_diagnosis {
  pd_severity severity;
  const char *agent;  /* "" if it concerns the whole home */
  const char *what;   /* a sentence */
  const char *action; /* what to do; "" if nothing is to be done */
} pd_diagnosis;

/* Look at a home for everything that could be wrong: the folder (owner, permissions, file system, free space), its files (foreign, left
 * over, readable by others), names that differ only by case, and each store: format, journal, write-ahead log, lock file, whether it opens,
 * its newest records and keyframe, a sample of each ref, the share that gc would free (up to 256 MiB of content), gc by itself that failed,
 * the clock, signed heads without a key. `visit` gets each diagnosis; those that are fine too, with PD_SEVERITY_OK. *out_worst (may be
 * NULL) is the worst severity. Changes nothing. Quick: it does not replace pd_verify.
 * PD_OK if the home could be looked at, whatever was found: also if it does not exist. */
PD_API PD_MUST_USE pd_code pd_doctor(const char *uri, void (*visit)(void *ctx, const pd_diagnosis *diagnosis), void *ctx,
                                     pd_severity *out_worst, pd_error *err);

/* ---- repair ------------------------------------------------------------------------------------------------------- */

/* One thing that is wrong. Borrowed until the callback returns. */
typedef struct pd_repair_finding {
  bool can_mend;    /* derived data: it follows from the log */
  const char *what; /* one line: the record, key and commit, or the blob */
} pd_repair_finding;

typedef struct pd_repair_options {
  bool is_dry_run; /* only look */
  bool keep_going; /* mend what can be mended although there is damage that cannot; else nothing is changed then */
  /* Called now and then; return false to give up (the answer is then PD_INVALID, and what was mended until then stays). May be NULL. */
  bool (*progress)(void *ctx, uint64_t done, uint64_t total);
  /* Called for each finding. May be NULL. */
  void (*finding)(void *ctx, const pd_repair_finding *finding);
  void *ctx;
} pd_repair_options;

typedef struct pd_repair_report {
  uint64_t records;  /* read and compared */
  uint64_t damaged;  /* blobs of derived data that did not match their ids */
  uint64_t missing;  /* blobs of derived data that were not there */
  uint64_t mended;   /* of both, made again and durable */
  uint64_t findings; /* what cannot be mended: damage in the log or in a large value */
  uint64_t refs;     /* that pointed at what gc retired: moved back to where they could be read last, or deleted */
} pd_repair_report;

/* Make all derived data of a store again that is damaged or missing: tree nodes, catalogs and commit lists of keyframes, the shared
 * tail word, the database's own indexes. The log has everything; it and the values are never changed. A ref that points at a commit which
 * gc retired (versions before this one let that happen) is moved back to where it could be read last, or deleted if it never could.
 * The store is opened by this function, also if pd_store_open refuses it; others may use it meanwhile. Killed at any moment it
 * leaves the store as good as it
 * was, and can be run again. What was mended is noted in the store's own records (who looks at the whole log sees it).
 *
 * PD_OK if nothing is damaged any more (or, in a dry run, nothing that cannot be mended). PD_CORRUPT if there is damage that cannot
 * be mended: each is named to `finding`, `out` is written too. PD_UNSUPPORTED if the backend cannot remove a damaged blob. `options`
 * and `out` may be NULL. */
PD_API PD_MUST_USE pd_code pd_repair(const char *uri, const char *agent, const pd_repair_options *options, pd_repair_report *out,
                                     pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
