/* doc_node.h: what the files of doc.h share: a node, the tree of an object's members, and making nodes from JSON. */
#ifndef PD_BASE_DOC_NODE_H
#define PD_BASE_DOC_NODE_H

#include "base/doc.h"

/*
 * A member carries its name and its own links in the tree of its object, so that taking it out and putting it back needs no memory
 * (D3 of doc.h).
 */
struct pd_node {
  pd_node *left, *right; /* if it is a member */
  pd_node *members;      /* of an object: the root of an AVL tree by name */
  pd_node **items;       /* of an array */
  size_t capacity;       /* of `items`; never shrinks */
  size_t count;          /* members or items; bytes of a leaf's text */
  uint32_t name_size;
  uint32_t name_json_size; /* with quotes and escapes; 0: it has no name */
  uint8_t height, kind;
  char bytes[]; /* the name, then a leaf's text */
};

/* ---- the tree of an object ---- */

pd_node *pd_node_tree_find(pd_node *root, pd_bytes name);
/* Its name must not be there yet. */
void pd_node_tree_insert(pd_node **root, pd_node *node);
/* It must be there. */
void pd_node_tree_remove(pd_node **root, pd_node *node);
/* `now` takes the place of `old`, which has the same name. */
void pd_node_tree_replace(pd_node **root, pd_node *old, pd_node *now);

/* ---- nodes ---- */

static inline pd_bytes pd_node_name(const pd_node *node)
{
  return (pd_bytes){node->bytes, node->name_size};
}

/* A node of its own for `value`, `depth` containers around it; `name` is NULL for what is no member. */
PD_MUST_USE pd_code pd_node_make(pd_json value, const pd_bytes *name, unsigned depth, pd_node **out, pd_error *err);
void pd_node_free(pd_node *node); /* NULL is fine */
/* Bytes of its canonical text; with the name and the colon if it is a member. */
size_t pd_node_size(const pd_node *node);
/* Room for one item more. */
PD_MUST_USE pd_code pd_node_reserve(pd_node *array, pd_error *err);
/* There must be room. */
void pd_node_item_put(pd_node *array, size_t index, pd_node *item);
pd_node *pd_node_item_take(pd_node *array, size_t index);

#endif
