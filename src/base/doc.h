/*
 * doc.h: a JSON value in memory that can be read in parts, edited in parts, and taken back.
 *
 * D1  Members are kept sorted by their decoded names, no name twice: the text that pd_node_write gives is the canonical one
 *     (pd_json_canonical), whatever the order of the edits was.
 * D2  Finding, setting or removing a member costs O(log n), whatever the names are; an item at the end of an array O(1), one in the
 *     middle moves the pointers behind it.
 * D3  Every edit is written down until pd_doc_keep, and pd_doc_undo takes back all since a mark without allocating: it cannot fail.
 *     What was taken out stays in memory till then, so nodes that were found before an edit stay valid until pd_doc_keep or
 *     pd_doc_undo.
 * D4  Numbers keep their digits. Strings with half of a surrogate pair stay as they were written; a name with one is refused.
 * D5  No value nests deeper than PD_DOC_DEPTH_MAX, and its canonical text is never over the doc's size_max.
 *
 * Not for two threads at once, unless all only read.
 */
#ifndef PD_BASE_DOC_H
#define PD_BASE_DOC_H

#include "base/doc_path.h"

#define PD_DOC_SIZE_MAX ((size_t)64 << 20) /* of the canonical text, if nothing else was asked for */

#define PD_NODE_HEIGHT_MAX 48 /* of the tree of one object's members: enough for 2^32 of them */

typedef struct pd_doc pd_doc;
typedef struct pd_node pd_node; /* a value inside a doc; belongs to it */

/* ---- the whole ---- */

/* A doc that holds `value`, which is copied (PD_JSON_NONE: an empty object). size_max 0: PD_DOC_SIZE_MAX. PD_INVALID names a member that
 * is there twice or has no decoded form; PD_LIMIT for D5. Free with pd_doc_free. */
PD_MUST_USE pd_code pd_doc_new(pd_json value, size_t size_max, pd_doc **out, pd_error *err);
void pd_doc_free(pd_doc *doc); /* NULL is fine */

pd_node *pd_doc_root(const pd_doc *doc); /* never NULL */
/* Bytes of the canonical text; kept up to date, so asking costs nothing. */
size_t pd_doc_size(const pd_doc *doc);
/* Append the canonical text. */
PD_MUST_USE pd_code pd_doc_write(const pd_doc *doc, pd_buf *out, pd_error *err);

/* ---- reading ---- */

pd_json_kind pd_node_kind(const pd_node *node);
/* Of what is neither object nor array: the canonical text; valid as long as the node (D3). Empty for objects and arrays. */
pd_json pd_node_leaf(const pd_node *node);
/* Members or items; 0 for a leaf. */
size_t pd_node_count(const pd_node *node);
/* NULL if there is none, or `node` is no object. */
pd_node *pd_node_member(const pd_node *node, pd_bytes name);
/* NULL past the end, or if `node` is no array. */
pd_node *pd_node_item(const pd_node *node, size_t index);
/* Append the canonical text. */
PD_MUST_USE pd_code pd_node_write(const pd_node *node, pd_buf *out, pd_error *err);
/* Do they mean the same? Numbers by their digits: 1 is not 1.0. */
bool pd_node_equal(const pd_node *a, const pd_node *b);

/* Walk the members in the order of their names, or the items; a leaf has none. Not across an edit of the same node. */
typedef struct pd_node_walk {
  pd_node *waiting[PD_NODE_HEIGHT_MAX]; /* members that come later */
  const pd_node *array;
  size_t count; /* of waiting, or of the items that were given */
} pd_node_walk;

pd_node_walk pd_node_walk_begin(const pd_node *node);
/* The next one, false at the end. `out_name` is empty for items, and valid as long as the member; it may be NULL. */
bool pd_node_walk_next(pd_node_walk *walk, pd_bytes *out_name, pd_node **out);

/* What is at the path; NULL if nothing is. Never an error: what does not fit is not there. */
pd_node *pd_doc_find(const pd_doc *doc, const pd_doc_step *steps, size_t count);

/* Where a path leads, step by step. */
typedef struct pd_doc_place {
  size_t count; /* of the path's steps */
  size_t found; /* so many of them lead to something; the rest is absent */
  /* Names and indices only, borrowed from the path. Those behind `found` are what they would be if the parents were made by pd_doc_set. */
  pd_doc_step steps[PD_DOC_DEPTH_MAX];
  pd_node *nodes[PD_DOC_DEPTH_MAX + 1]; /* nodes[i] is where i steps lead, up to `found`; nodes[0] is the root */
} pd_doc_place;

/* Find the way. PD_INVALID names by its pointer what a step does not fit: a leaf with something inside, a name in an array, an index in an
 * object. What is absent is no error, nor is an index past the end. */
PD_MUST_USE pd_code pd_doc_locate(const pd_doc *doc, const pd_doc_step *steps, size_t count, pd_doc_place *out, pd_error *err);

/* So many of the place's steps lead to what setting something there changes: the topmost one that is new, or its parent if that is empty,
 * for then it is the parent that becomes another. */
size_t pd_doc_place_changed(const pd_doc_place *place);

/* ---- editing by path ---- */

/* Put a copy of `value` at the path. Absent parents are made: an array where an index follows (or "-"), else an object; an index equal to
 * the count of items appends. PD_INVALID names what does not fit (a step into a string, a name into an array, an index past the end) by
 * its pointer; PD_LIMIT for D5. On failure the doc is as it was. */
PD_MUST_USE pd_code pd_doc_set(pd_doc *doc, const pd_doc_step *steps, size_t count, pd_json value, pd_error *err);
/* Take out what is at the path; items behind it move up. *out_was_there (may be NULL) is false if nothing was there, which is no error. The
 * root itself becomes an empty object. */
PD_MUST_USE pd_code pd_doc_remove(pd_doc *doc, const pd_doc_step *steps, size_t count, bool *out_was_there, pd_error *err);

/* The same two for a place that was just found. After setting, place->nodes leads to the new value. */
PD_MUST_USE pd_code pd_doc_place_set(pd_doc *doc, pd_doc_place *place, pd_json value, pd_error *err);
PD_MUST_USE pd_code pd_doc_place_remove(pd_doc *doc, const pd_doc_place *place, pd_error *err);

/* ---- editing by node ---- */

/* In an object: put a copy of `value` under `name`, in place of what was there. *out_node may be NULL. `depth` is how deep `object` lies
 * (0: it is the root), which D5 needs. */
PD_MUST_USE pd_code pd_doc_member_set(pd_doc *doc, pd_node *object, unsigned depth, pd_bytes name, pd_json value, pd_node **out_node,
                                      pd_error *err);
/* Nothing happens if it is not there. */
PD_MUST_USE pd_code pd_doc_member_remove(pd_doc *doc, pd_node *object, pd_bytes name, pd_error *err);
/* In an array: `index` must be there, or for insert not past the count. */
PD_MUST_USE pd_code pd_doc_item_set(pd_doc *doc, pd_node *array, unsigned depth, size_t index, pd_json value, pd_node **out_node,
                                    pd_error *err);
PD_MUST_USE pd_code pd_doc_item_insert(pd_doc *doc, pd_node *array, unsigned depth, size_t index, pd_json value, pd_node **out_node,
                                       pd_error *err);
PD_MUST_USE pd_code pd_doc_item_remove(pd_doc *doc, pd_node *array, size_t index, pd_error *err);
/* Instead of everything. */
PD_MUST_USE pd_code pd_doc_root_set(pd_doc *doc, pd_json value, pd_error *err);

/* ---- taking back ---- */

/* Where we are now, for pd_doc_undo. Marks end with pd_doc_keep. */
size_t pd_doc_mark(const pd_doc *doc);
/* Take back every edit since the mark. */
void pd_doc_undo(pd_doc *doc, size_t mark);
/* All edits so far are for good; frees what they took out. Without this, memory grows with every edit. */
void pd_doc_keep(pd_doc *doc);

#endif
