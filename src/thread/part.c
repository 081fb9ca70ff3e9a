/*
 * part.c: see part.h. The wanted paths are sorted, so those that share their first steps stand side by side: they are walked like a tree,
 * one level of the state a call. Recursion is as deep as paths are long (PD_DOC_DEPTH_MAX).
 */
#include "thread/part.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/leaf.h"
#include "thread/leaf_key.h"
#include "thread/thread.h"

#include <pthread.h>

/* ---- bounds ---- */

#define BOUND_COUNT 4096 /* threads whose newest state is remembered, if their trees' ids fall evenly */

typedef struct bound_entry {
  pd_id tree;
  uint64_t bound;
  bool is_known;
} bound_entry;

static struct {
  pthread_mutex_t lock;
  bound_entry entries[BOUND_COUNT];
} bounds = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bound_entry *entry_of(const pd_id *tree)
{
  return &bounds.entries[(tree->bytes[0] | (size_t)tree->bytes[1] << 8) % BOUND_COUNT];
}

void pd_state_bound_note(const pd_id *tree, uint64_t bound)
{
  pthread_mutex_lock(&bounds.lock);
  *entry_of(tree) = (bound_entry){.tree = *tree, .bound = bound, .is_known = true};
  pthread_mutex_unlock(&bounds.lock);
}

bool pd_state_bound_known(const pd_id *tree, uint64_t *out)
{
  pthread_mutex_lock(&bounds.lock);
  const bound_entry *entry = entry_of(tree);
  bool is_known = entry->is_known && pd_id_equal(&entry->tree, tree);
  if (is_known) *out = entry->bound;
  pthread_mutex_unlock(&bounds.lock);
  return is_known;
}

/* A name takes one byte of its leaf's key and six of the text at most (\u0000). For the slash before it the text has two quotes, a colon,
 * a comma and two brackets, which is six as well. */
static pd_code count_bound(pd_view *view, uint64_t *out, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_code code;
  *out = 2;
  TRY(pd_view_scan(view, &(pd_scan){.prefix = pd_text(PD_LEAF_ROOT "/"), .keys_only = true}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) *out += 6 * (uint64_t)entry.key.size + entry.size;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code find_bound(pd_view *view, const pd_id *tree, uint64_t *out, pd_error *err)
{
  if (pd_state_bound_known(tree, out)) return PD_OK;
  TRY(count_bound(view, out, err));
  pd_state_bound_note(tree, *out);
  return PD_OK;
}

/* ---- the part ---- */

void pd_part_done(pd_part *part)
{
  pd_doc_free(part->doc);
  pd_touched_done(&part->placeholders);
  *part = (pd_part){0};
}

bool pd_part_is_refused(pd_code code)
{
  return code == PD_INVALID || code == PD_LIMIT || code == PD_CORRUPT || code == PD_NOT_FOUND;
}

bool pd_part_is_sound(const pd_part *part, const pd_touched *touched)
{
  for (size_t i = 0; i < touched->count; i++)
    for (size_t k = 0; k < part->placeholders.count; k++)
      if (pd_doc_path_covers(&touched->paths[i], &part->placeholders.paths[k])) return false;
  return true;
}

uint64_t pd_part_bound(const pd_part *part)
{
  return part->bound + pd_doc_size(part->doc) - part->loaded_size;
}

/* ---- loading ---- */

typedef struct loader {
  pd_view *view;
  const pd_doc_path *paths;
  pd_part *part;
  pd_buf key; /* of what is being looked at */
} loader;

static void loader_done(loader *l)
{
  pd_buf_done(&l->key);
}

/* Paths from … to - 1 lead here, `depth` steps of them. */
typedef struct level {
  size_t from, to, depth;
} level;

static pd_code put_subtree(loader *l, pd_error *err)
{
  CLEANUP(pd_stateleaves_done) pd_stateleaves leaves = {0};
  TRY(pd_stateleaves_read(l->view, pd_buf_bytes(&l->key), &leaves, err));
  for (size_t i = 0; i < leaves.count; i++)
    TRY(pd_stateleaf_put(l->part->doc, pd_stateleaf_key_of(&leaves, i), pd_stateleaf_value_of(&leaves, i), err));
  return PD_OK;
}

/* The first key from `from` on below the container at l->key: append it to `out_key`. It stays empty if there is none. */
static pd_code first_below(const loader *l, pd_bytes from, pd_buf *out_key, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf prefix = {0};
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  TRY(pd_buf_append(&prefix, l->key.data, l->key.size, err));
  TRY(pd_buf_byte(&prefix, '/', err));
  TRY(pd_view_scan(l->view, &(pd_scan){.prefix = pd_buf_bytes(&prefix), .from = from, .keys_only = true}, &iter, err));
  pd_code code = pd_iter_next(iter, &entry, NULL, err);
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  return pd_buf_append(out_key, entry.key.data, entry.key.size, err);
}

/* The next level below: the paths from `at` on that have the same next step. An index leads nowhere in an object. */
static pd_code next_level(const loader *l, const level *here, size_t at, level *out, pd_error *err)
{
  const pd_doc_step *step = &l->paths[at].steps[here->depth];
  *out = (level){.from = at, .to = at, .depth = here->depth + 1};
  for (; out->to < here->to && pd_doc_step_compare(step, &l->paths[out->to].steps[here->depth]) == 0; out->to++)
    if (l->paths[out->to].steps[here->depth].kind == PD_STEP_INDEX) return pd_error_set(err, PD_INVALID, "an index in an object");
  return PD_OK;
}

static pd_code add_step(const loader *l, const level *below, pd_buf *key, bool *out_is_whole, pd_error *err)
{
  pd_doc_step step = l->paths[below->from].steps[below->depth - 1];
  step.kind = PD_STEP_NAME;
  return pd_stateleaf_key_step(&step, key, out_is_whole, err);
}

/* Is `child`, the key of a member of the object here, on the way to a wanted path? */
static pd_code is_wanted(const loader *l, const level *here, pd_bytes child, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  level below = {.to = here->from};
  bool is_whole;
  *out = false;
  TRY(pd_buf_append(&key, l->key.data, l->key.size, err));
  while (!*out && below.to < here->to) {
    TRY(next_level(l, here, below.to, &below, err));
    TRY(add_step(l, &below, &key, &is_whole, err));
    *out = pd_bytes_equal(pd_buf_bytes(&key), child);
    key.size = l->key.size;
  }
  return PD_OK;
}

static pd_code add_placeholder(loader *l, pd_bytes child, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_touched *all = &l->part->placeholders;
  pd_doc_path path = {0};
  if (pd_stateleaf_is_hashed(child)) TRY(pd_view_get(l->view, child, &value, NULL, err)); /* it has the name */
  TRY(pd_stateleaf_path(child, pd_buf_bytes(&value), &path, err));
  pd_code code = pd_touched_add(all, path.steps, path.count, err);
  if (!code) code = pd_doc_set(l->part->doc, path.steps, path.count, (pd_json){{"null", 4}, PD_JSON_NULL}, err);
  pd_doc_path_done(&path);
  return code;
}

/* Has the object here a member that no wanted path leads to? Then one stands for all of them (Q1). */
static pd_code stand_for_others(loader *l, const level *here, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf from = {0};
  for (;;) {
    CLEANUP(pd_buf_done) pd_buf key = {0};
    bool wanted;
    TRY(first_below(l, pd_buf_bytes(&from), &key, err));
    if (!key.size) return PD_OK;
    const uint8_t *name = key.data + l->key.size + 1, *slash = memchr(name, '/', key.size - l->key.size - 1);
    pd_bytes child = {key.data, slash ? (size_t)(slash - key.data) : key.size};
    TRY(is_wanted(l, here, child, &wanted, err));
    if (!wanted) return add_placeholder(l, child, err);
    pd_buf_clear(&from);
    TRY(pd_buf_append(&from, child.data, child.size, err));
    TRY(pd_buf_byte(&from, slash ? '/' + 1 : 0, err)); /* behind all that is inside it, or behind it */
  }
}

static pd_code load_level(loader *l, level here, bool is_whole, pd_error *err);

static pd_code load_members(loader *l, level here, pd_error *err)
{
  size_t size = l->key.size;
  level below = {.to = here.from};
  bool is_whole;
  while (below.to < here.to) {
    TRY(next_level(l, &here, below.to, &below, err));
    TRY(add_step(l, &below, &l->key, &is_whole, err));
    TRY(load_level(l, below, is_whole, err));
    l->key.size = size;
  }
  return stand_for_others(l, &here, err);
}

static pd_code load_level(loader *l, level here, bool is_whole, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf first = {0}, value = {0};
  pd_error why;
  bool is_end = l->paths[here.from].count == here.depth; /* then it is the only path here: they are minimal */
  if (is_end || is_whole || l->key.size > PD_LEAF_SPLIT_MAX) return put_subtree(l, err);
  pd_code code = here.depth ? pd_view_get(l->view, pd_buf_bytes(&l->key), &value, NULL, &why) : PD_NOT_FOUND;
  if (!code) return pd_stateleaf_put(l->part->doc, pd_buf_bytes(&l->key), pd_buf_bytes(&value), err);
  if (code != PD_NOT_FOUND) {
    if (err) *err = why;
    return code;
  }
  TRY(first_below(l, (pd_bytes){NULL, 0}, &first, err));
  if (!first.size) return PD_OK; /* nothing is there */
  bool is_array = first.size > l->key.size + 1 && first.data[l->key.size + 1] == '#';
  return is_array ? put_subtree(l, err) : load_members(l, here, err);
}

pd_code pd_part_load(pd_view *view, const pd_id *tree, const pd_touched *wanted, pd_part *out, pd_error *err)
{
  CLEANUP(pd_part_done) pd_part part = {0};
  CLEANUP(loader_done) loader l = {.view = view, .paths = wanted->paths, .part = &part};
  bool is_some = wanted->count && wanted->count <= PD_PART_PATHS_MAX && wanted->paths[0].count;
  if (!is_some) return pd_error_set(err, PD_LIMIT, "the whole state is wanted");
  TRY(find_bound(view, tree, &part.bound, err));
  if (part.bound >= PD_DOC_SIZE_MAX) return pd_error_set(err, PD_LIMIT, "the state may be too large for a part of it");
  TRY(pd_doc_new((pd_json){.kind = PD_JSON_NONE}, PD_DOC_SIZE_MAX - (size_t)part.bound, &part.doc, err));
  TRY(pd_buf_append(&l.key, PD_LEAF_ROOT, strlen(PD_LEAF_ROOT), err));
  TRY(load_level(&l, (level){.to = wanted->count}, false, err));
  pd_doc_keep(part.doc);
  part.loaded_size = pd_doc_size(part.doc);
  *out = part;
  part = (pd_part){0};
  return PD_OK;
}
