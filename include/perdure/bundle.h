/*
 * bundle.h: bundles, clone, push, pull. Included by perdure.h; errors, lifetimes and `at` are explained there.
 *
 * A bundle is one compressed file with commits: their ids, parents, changes with values, who, when, why, and the refs that point at them.
 * Importing gives the target the same commits with the same ids, the same versions of keys and the same times. A bundle is
 * verified as a whole before anything of it is taken in: its checksum, every commit id, every tree, every value.
 *
 * Files are given as file descriptors, which stay yours, or as a pair of functions for bundles that lie inside something else. Values
 * that were erased travel as erased. A history that retention has cut travels as far as it is left: its oldest commits with their
 * whole trees, as in a shallow clone. What was retired there is retired here.
 */
#include <perdure/perdure.h> /* before the guard: it includes this header where others need it */

#ifndef PERDURE_BUNDLE_H
#define PERDURE_BUNDLE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Called now and then; return false to give up: the answer is then PD_INVALID, and no ref has moved. An import that was given up may
 * have appended commits already, under no ref that anybody sees; importing again goes on with them. */
typedef bool (*pd_bundle_progress)(void *ctx, uint64_t done, uint64_t total);

typedef struct pd_export_options {
  const char *const *refs;  /* these refs with all their history… */
  size_t ref_count;         /* …0: the handle's ref */
  bool is_all;              /* instead: every commit of the store, all refs, and its tags, pins, message links and settings */
  const char *const *since; /* leave out these points and all their ancestors: the importer must have them */
  size_t since_count;
  pd_bundle_progress progress; /* may be NULL */
  void *ctx;
  const pd_id *known; /* commits that the importer has: left out like those of `since`; ids that are not here are passed over */
  size_t known_count;
} pd_export_options;

typedef struct pd_export_report {
  uint64_t commits, changes, refs, metas;
  uint64_t needs;                   /* commits that the importer must have */
  uint64_t value_bytes, file_bytes; /* before and after packing */
} pd_export_report;

/* Write a bundle to `fd`, which may be a pipe. `options` and `out` may be NULL. The store may be written to meanwhile: the bundle is
 * of the moment it began. gc waits until it has ended (pd_gc_pause_begin). PD_NOT_FOUND for an unknown ref; PD_CONFLICT if a gc runs and
 * does
 * not end; PD_RETIRED if the pause was over, or the backend has none, and gc took away what belongs in it: try again.
 * PD_STORAGE or PD_FULL for the file, of which then nothing can be used. */
PD_API PD_MUST_USE pd_code pd_export(pd_store *store, int fd, const pd_export_options *options, pd_export_report *out, pd_error *err);

/* Where bundles go that lie inside something else: called with one run of bytes after the other. A failure ends the export. */
typedef struct pd_sink {
  pd_code (*write)(void *ctx, const void *data, size_t size, pd_error *err);
  void *ctx;
} pd_sink;

/* pd_export into `sink`. Its function is called without any lock held. */
PD_API PD_MUST_USE pd_code pd_export_to(pd_store *store, const pd_sink *sink, const pd_export_options *options, pd_export_report *out,
                                        pd_error *err);

typedef enum pd_import_fate {
  PD_IMPORT_CREATED = 1,
  PD_IMPORT_FORWARDED = 2, /* the ref moved to a descendant of where it was */
  PD_IMPORT_REPLACED = 3,  /* it moved elsewhere; only with `as` */
  PD_IMPORT_SAME = 4       /* it was there already, or is ahead of the bundle */
} pd_import_fate;

typedef struct pd_import_ref {
  const char *name; /* here */
  pd_id commit;     /* in the bundle */
  pd_import_fate fate;
} pd_import_ref;

typedef struct pd_import_options {
  bool is_dry_run; /* verify and report, change nothing */
  /* NULL: refs keep their names, and one that would not move forward is PD_CONFLICT. Else they become AS/name, a picture of the other
   * side that moves wherever that did; but never the store's current ref. */
  const char *as;
  size_t value_size_max;                                  /* of each value; 0: the handle's */
  bool adopts_current;                                    /* make the bundle's current ref the store's current one, if it came along */
  void (*visit_ref)(void *ctx, const pd_import_ref *ref); /* each ref and what became of it; may be NULL; must not call the store */
  pd_bundle_progress progress;                            /* may be NULL */
  void *ctx;
} pd_import_options;

typedef struct pd_import_report {
  uint64_t commits; /* in the bundle */
  uint64_t added;   /* of them, new here */
  uint64_t changes, value_bytes;
  uint64_t refs_moved;
  uint64_t metas_added; /* tags, pins, links, settings that were not here; those that were stay as they are */
  char source[PD_NAME_SIZE_MAX + 1];
} pd_import_report;

/* Take in a bundle from `fd`, a file that can be read from anywhere (no pipe). All or nothing: whatever fails, and if the process dies
 * at any moment, the refs are as before or as after, and importing again completes it. Commits that are here already are skipped.
 * gc may run meanwhile, in this process or others: what was brought so far is kept. This handle starts none by itself.
 * PD_FORMAT: no bundle, or of a newer perdure. PD_CORRUPT: damaged, cut off or forged. PD_NOT_FOUND: it builds on a commit that is not
 * here; the message names it. PD_CONFLICT: a ref has diverged. PD_LIMIT: a value is over this handle's limit. PD_RETIRED: gc in another
 * process kept taking away what the bundle builds on. */
PD_API PD_MUST_USE pd_code pd_import(pd_store *store, int fd, const pd_import_options *options, pd_import_report *out, pd_error *err);

/* Where they come from: exactly `size` bytes, which are read from anywhere, and more than once. */
typedef struct pd_source {
  pd_code (*read)(void *ctx, uint64_t at, void *data, size_t size, pd_error *err); /* all of them, or an error */
  uint64_t size;
  void *ctx;
} pd_source;

/* pd_import from `source`. Its function is called without any lock held. */
PD_API PD_MUST_USE pd_code pd_import_from(pd_store *store, const pd_source *source, const pd_import_options *options, pd_import_report *out,
                                          pd_error *err);

/* ---- between two stores ---- */

typedef struct pd_transfer_options {
  const char *const *refs; /* NULL: the current ref of `from` */
  size_t ref_count;
  bool is_all;
  pd_bundle_progress export_progress; /* may be NULL; `import.progress` goes on where it ends */
  void *export_ctx;
  pd_import_options import;
} pd_transfer_options;

/* Bring refs of `from` to `to` through a bundle in an unnamed temporary file. Only what `to` lacks travels. `options` and `out` may be
 * NULL. Errors of pd_export and pd_import. The visitors must not call either store. */
PD_API PD_MUST_USE pd_code pd_transfer(pd_store *from, pd_store *to, const pd_transfer_options *options, pd_import_report *out,
                                       pd_error *err);

/* Move a ref forward to `at`, its descendant; make it if there is none. *out_moved says whether it did; PD_CONFLICT if it has diverged.
 * PD_OK and not moved if it is there already or ahead. */
PD_API PD_MUST_USE pd_code pd_forward(pd_store *store, const char *ref, const char *at, const pd_note *note, bool *out_moved,
                                      pd_error *err);

/* Where push and pull lead: a URI and an agent, remembered in the store's settings under a name such as "origin". Both texts are
 * replaced in the buffers, with a NUL. PD_NOT_FOUND. */
PD_API PD_MUST_USE pd_code pd_remote_get(pd_store *store, const char *name, pd_buf *out_uri, pd_buf *out_agent, pd_error *err);
PD_API PD_MUST_USE pd_code pd_remote_set(pd_store *store, const char *name, const char *uri, const char *agent, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
