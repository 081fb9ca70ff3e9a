/*
 * shelf.h: where the entries of a StateStore are kept. A shelf is opened, loaded once, and then written to by one thread at a time.
 *
 * S1  A write is all or nothing, and durable when it returns PD_OK.
 * S2  A write that failed may be tried again with the same batch, or with one that has more in it.
 */
#ifndef PD_SHELF_SHELF_H
#define PD_SHELF_SHELF_H

#include <perdure/perdure.h>

/* Whom to tell what no call can answer. */
typedef struct pd_shelf_warner {
  void (*warn)(void *ctx, pd_code code, const char *message); /* may be NULL */
  void *ctx;
} pd_shelf_warner;

/* printf to the warner. */
void pd_shelf_warn(const pd_shelf_warner *warner, pd_code code, const char *fmt, ...) PD_PRINTF(3, 4);

typedef struct pd_shelf_item {
  pd_bytes key, value;
} pd_shelf_item;

/* What changed, or everything (pd_shelf_ops.is_whole). A key may be in both: it is deleted, then put. Puts are in the order of the map. */
typedef struct pd_shelf_batch {
  const pd_shelf_item *puts;
  size_t put_count;
  const pd_bytes *deletes;
  size_t delete_count;
} pd_shelf_batch;

typedef struct pd_shelf pd_shelf;

/* PD_INVALID or PD_LIMIT: the value is no JSON. Else what the visitor answers ends the load. */
typedef pd_code (*pd_shelf_visit)(void *ctx, pd_bytes key, pd_bytes value, pd_error *err);

typedef struct pd_shelf_ops {
  bool is_whole; /* a batch has to have everything */
  pd_code (*load)(pd_shelf *shelf, pd_shelf_visit visit, void *ctx, pd_error *err);
  pd_code (*write)(pd_shelf *shelf, const pd_shelf_batch *batch, pd_error *err);
  pd_code (*get_at)(pd_shelf *shelf, const char *at, pd_bytes key, pd_buf *out, pd_error *err); /* NULL: has no past */
  void (*close)(pd_shelf *shelf);
} pd_shelf_ops;

/* The first member of each kind. */
struct pd_shelf {
  const pd_shelf_ops *ops;
  pd_shelf_warner warner;
};

/* `refuses_damage`: a file that cannot be used is an error that names it, and stays where it is; else it is moved aside (F3). */
PD_MUST_USE pd_code pd_shelf_file_open(const char *path, bool refuses_damage, pd_shelf_warner warner, pd_shelf **out, pd_error *err);
PD_MUST_USE pd_code pd_shelf_database_open(const char *path, const char *table, pd_shelf_warner warner, pd_shelf **out, pd_error *err);
PD_MUST_USE pd_code pd_shelf_perdure_open(const char *uri, const char *agent, const char *ref, pd_shelf_warner warner, pd_shelf **out,
                                          pd_error *err);

/* Make the folders that `path` lies in, where they are not there. */
PD_MUST_USE pd_code pd_shelf_folders(const char *path, pd_error *err);

#endif
