/*
 * bundle_out.h: the inside of an export. Private to src/engine/bundle_*.c.
 *
 *   D6  A commit whose parents retention took from this store is grafted: it comes with the parents' ids and with its whole tree, as the
 *       difference from the graft before it. The values come in parts, one for each record that wrote some of them, with who, when
 *       and why; older versions that are left come too. What was retired stays unknown to the importer.
 */
#ifndef PD_ENGINE_BUNDLE_OUT_H
#define PD_ENGINE_BUNDLE_OUT_H

#include "base/map64.h"
#include "dag/id_map.h"
#include "engine/bundle.h"

#define PD_KNOT_NONE UINT32_MAX

/* A commit of the log. Parents are before their children. */
typedef struct pd_knot {
  uint64_t seq;
  uint32_t parent;           /* link of the first parent; PD_KNOT_NONE: the root commit */
  uint32_t more, more_count; /* further parents, in pd_exporter.more */
  uint32_t child, sibling;   /* those it is the first parent of */
  uint32_t place;            /* where it comes in the bundle */
  bool is_wanted, is_known, is_out, is_meta, is_whole;
  bool is_graft; /* D6: it has parents, but not here */
} pd_knot;

typedef struct pd_exporter {
  pd_store *s;
  const pd_export_options *options;
  pd_export_report report;
  pd_bundle_head head;
  pd_bundle_out out;
  uint64_t tail;
  pd_knot *links;
  size_t link_count, link_capacity;
  uint32_t *more;
  size_t more_count, more_capacity;
  uint32_t *order;
  size_t order_count;
  size_t base_capacity, ref_capacity;
  pd_commit *since; /* and those that are known */
  size_t since_count;
  pd_id_map sent; /* pieces of values that are in the bundle already: their numbers, plus 1 */
  uint32_t piece_count;
  pd_buf metas;
  const pd_knot *graft;   /* the last one that was written */
  uint64_t chunked_bytes; /* of report.value_bytes: in pieces */
  pd_gc_pause *pause;
  bool has_numbers; /* versions do not follow from the changes: they are written */
} pd_exporter;

/* ---- bundle_write.c ---- */

/* A copy of the record, so that the lock is not held while the file is written. Takes the lock. */
PD_MUST_USE pd_code pd_export_fetch(pd_exporter *ex, uint64_t seq, pd_buf *copy, pd_rec *out, pd_error *err);
/* When, where, who and why. */
PD_MUST_USE pd_code pd_export_origin(pd_exporter *ex, const pd_rec *rec, pd_error *err);
/* Size and bytes, or pieces, or id. */
PD_MUST_USE pd_code pd_export_value(pd_exporter *ex, const pd_rec_change *ch, pd_buf *scratch, pd_error *err);
uint8_t pd_export_flags(const pd_rec_change *ch);
PD_MUST_USE pd_code pd_export_commit(pd_exporter *ex, const pd_knot *l, const pd_rec *rec, pd_buf *scratch, pd_error *err);

/* ---- bundle_graft.c: D6. Takes the lock ---- */

PD_MUST_USE pd_code pd_export_graft(pd_exporter *ex, const pd_knot *l, pd_error *err);

/* ---- bundle_differ.c: two trees, by history and not by content alone ---- */

/* An entry that only `a` has (leaf_b NULL), or that `b` has otherwise than `a`: with another value, or written by another record. */
typedef pd_code (*pd_differ_visit)(void *ctx, const pd_node *leaf_a, size_t index_a, const pd_node *leaf_b, size_t index_b, pd_error *err);

/* In key order. The visitor is called without the lock, which is taken for each node that is loaded: a and b are referenced. */
PD_MUST_USE pd_code pd_differ(pd_store *s, pd_node *a, pd_node *b, pd_differ_visit visit, void *ctx, pd_error *err);

#endif
