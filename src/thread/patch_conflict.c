/*
 * patch_conflict.c: do two lists that were made in parallel write into the same place? What each patch writes is sorted by path, so that a
 * path comes before those inside it, and one walk with the open paths at hand meets every pair.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/patch_list.h"

#include <stdlib.h>

typedef struct print {
  pd_doc_path path;
  size_t index; /* of its patch */
  int side;     /* 0: a, 1: b */
  pd_lattice lattice;
  const char *op;
} print;

typedef struct prints {
  print *items;
  size_t count, capacity;
} prints;

static void prints_done(prints *all)
{
  for (size_t i = 0; i < all->count; i++) pd_doc_path_done(&all->items[i].path);
  free(all->items);
}

static pd_code add_print(prints *all, const pd_patch *patch, print one, size_t count, const pd_doc_step *more, pd_error *err)
{
  TRY(pd_array_grow(&all->items, all->count, &all->capacity, sizeof one, "written paths", err));
  TRY(pd_doc_path_copy(patch->path.steps, count, more, &one.path, err));
  all->items[all->count++] = one;
  return PD_OK;
}

static pd_code add_members(prints *all, const pd_patch *patch, print one, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_json_walk walk = pd_json_walk_begin(patch->value);
  pd_json key, value;
  bool is_empty = true;
  for (; pd_json_walk_next(&walk, &key, &value); is_empty = false) {
    pd_buf_clear(&name);
    TRY(pd_json_decode(key, &name, err));
    pd_doc_step step = {PD_STEP_NAME, pd_buf_bytes(&name), 0};
    TRY(add_print(all, patch, one, patch->path.count, &step, err));
  }
  return is_empty ? add_print(all, patch, one, patch->path.count, NULL, err) : PD_OK;
}

/* Does the last step say where among the items, so that the others may move? */
static bool moves_items(const pd_patch *patch)
{
  if (!patch->path.count) return false;
  const pd_doc_step *last = &patch->path.steps[patch->path.count - 1];
  uint64_t index;
  bool is_behind_last = last->kind == PD_STEP_EITHER && !pd_doc_step_index(last, &index);
  return is_behind_last || (patch->op == PD_PATCH_DELETE && last->kind != PD_STEP_NAME);
}

static pd_code collect(prints *all, const pd_patches *patches, int side, pd_error *err)
{
  for (size_t i = 0; i < patches->count; i++) {
    const pd_patch *patch = &patches->items[i];
    print one = {.index = i, .side = side, .lattice = patch->lattice, .op = pd_patch_op_name(patch->op)};
    if (patch->op == PD_PATCH_MERGE_OBJECT)
      TRY(add_members(all, patch, one, err));
    else
      TRY(add_print(all, patch, one, patch->path.count - (moves_items(patch) ? 1 : 0), NULL, err));
  }
  return PD_OK;
}

static int compare_prints(const void *a, const void *b)
{
  const print *pa = a, *pb = b;
  int order = pd_doc_path_compare(&pa->path, &pb->path);
  if (!order) order = pa->side - pb->side;
  if (!order) order = (int)pa->lattice - (int)pb->lattice;
  return order ? order : (pa->index > pb->index) - (pa->index < pb->index);
}

/* Of the same paths of one side the first stands for all. */
static void drop_repeated(prints *all)
{
  size_t kept = 1;
  for (size_t i = 1; i < all->count; i++) {
    print *last = &all->items[kept - 1], *one = &all->items[i];
    bool is_same = last->side == one->side && last->lattice == one->lattice && pd_doc_path_compare(&last->path, &one->path) == 0;
    if (is_same)
      pd_doc_path_done(&one->path);
    else
      all->items[kept++] = *one;
  }
  if (all->count) all->count = kept;
}

static pd_code meet(const print *outer, const print *inner, pd_patch_conflict_visit visit, void *ctx, pd_error *err)
{
  if (outer->side == inner->side) return PD_OK;
  bool is_same_lattice = outer->lattice && outer->lattice == inner->lattice && outer->path.count == inner->path.count;
  if (is_same_lattice) return PD_OK;
  const print *a = outer->side == 0 ? outer : inner, *b = outer->side == 0 ? inner : outer;
  pd_patch_conflict conflict = {a->index, b->index, a->op, b->op, &a->path, &b->path};
  return visit(ctx, &conflict, err);
}

static pd_code walk_prints(const prints *all, size_t *open, pd_patch_conflict_visit visit, void *ctx, pd_error *err)
{
  size_t open_count = 0;
  for (size_t i = 0; i < all->count; i++) {
    const print *one = &all->items[i];
    while (open_count && !pd_doc_path_covers(&all->items[open[open_count - 1]].path, &one->path)) open_count--;
    for (size_t k = 0; k < open_count; k++) TRY(meet(&all->items[open[k]], one, visit, ctx, err));
    open[open_count++] = i;
  }
  return PD_OK;
}

pd_code pd_patches_conflicts(const pd_patches *a, const pd_patches *b, pd_patch_conflict_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(prints_done) prints all = {0};
  TRY(collect(&all, a, 0, err));
  TRY(collect(&all, b, 1, err));
  if (!all.count) return PD_OK;
  qsort(all.items, all.count, sizeof *all.items, compare_prints);
  drop_repeated(&all);
  size_t *open = malloc(all.count * sizeof *open);
  if (!open) return pd_error_memory(err, "written paths");
  pd_code code = walk_prints(&all, open, visit, ctx, err);
  free(open);
  return code;
}
