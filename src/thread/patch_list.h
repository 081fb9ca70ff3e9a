/* patch_list.h: what the files of patch.h share: parsed patches. */
#ifndef PD_THREAD_PATCH_LIST_H
#define PD_THREAD_PATCH_LIST_H

#include "thread/lattice.h"
#include "thread/patch.h"

typedef enum pd_patch_op {
  PD_PATCH_SET = 0,
  PD_PATCH_DELETE,
  PD_PATCH_APPEND,
  PD_PATCH_MERGE_OBJECT,
  PD_PATCH_INCREMENT,
  PD_PATCH_DECREMENT,
  PD_PATCH_INSERT,
  PD_PATCH_REMOVE,
  PD_PATCH_LATTICE_MERGE,
  PD_PATCH_OP_COUNT
} pd_patch_op;

typedef struct pd_patch {
  pd_patch_op op;
  pd_doc_path path;
  pd_json value; /* or what to add: "by" */
  bool has_index;
  uint64_t index;
  pd_lattice lattice;
} pd_patch;

struct pd_patches {
  pd_json source;
  pd_patch *items;
  size_t count, capacity;
};

const char *pd_patch_op_name(pd_patch_op op);

/* The same error, with the patch in front of it: "patch 3 (increment '/a'): …". `index` is from 0; `op` or `path` may be NULL. Returns its
 * code. */
pd_code pd_patch_refuse(size_t index, const char *op, const pd_doc_path *path, const pd_error *cause, pd_error *err);

#endif
