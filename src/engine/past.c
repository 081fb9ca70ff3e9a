/*
 * past.c: the tree of any commit. From the nearest ancestor whose tree is at hand (a keyframe's, a head's, one built before) the
 * changes of the commits in between are applied, one edit a key. Readers (pd_tree_to_read) let others have the lock meanwhile.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

#define STRIDE_RECORDS 256 /* that are gathered, and keys that are set, before others get the lock */

/* A change on the way from the base to the wanted commit. */
typedef struct step {
  pd_rec_change change;
  uint64_t seq;
  int64_t time_ms;
} step;

/* The records of the way are copied, newest first: others may have the lock while the tree is being built, and segments go. */
typedef struct gathered {
  uint64_t seq;
  size_t at, size;
} gathered;

typedef struct path {
  pd_buf bytes;
  gathered *records;
  size_t record_count, record_capacity;
  step *steps; /* they borrow from the records */
  size_t count, capacity;
  pd_tree_edit *edits; /* one for each key, ascending */
  size_t edit_count;
  bool *needs_date; /* of each edit: when its key was created is in the base */
} path;

static void path_done(path *p)
{
  pd_buf_done(&p->bytes);
  free(p->records);
  free(p->steps);
  free(p->edits);
  free(p->needs_date);
}

static pd_code path_gather(path *p, const pd_rec *rec, pd_error *err)
{
  TRY(pd_array_grow(&p->records, p->record_count, &p->record_capacity, sizeof *p->records, "a tree of the past", err));
  gathered g = {rec->seq, p->bytes.size, rec->bytes.size};
  TRY(pd_buf_append(&p->bytes, rec->bytes.data, rec->bytes.size, err));
  p->records[p->record_count++] = g;
  return PD_OK;
}

static pd_code path_add(path *p, const pd_rec *rec, pd_error *err)
{
  if (p->count + rec->change_count > p->capacity) {
    size_t capacity = (p->count + rec->change_count) * 2;
    step *grown = realloc(p->steps, capacity * sizeof *grown);
    if (!grown) return pd_error_memory(err, "a tree of the past");
    p->steps = grown;
    p->capacity = capacity;
  }
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    step *st = &p->steps[p->count++];
    pd_rec_next(rec, &c, &st->change);
    st->seq = rec->seq;
    st->time_ms = pd_rec_made_ms(rec);
  }
  return PD_OK;
}

static int compare_steps(const void *a, const void *b)
{
  const step *x = a, *y = b;
  int order = pd_bytes_compare(x->change.key, y->change.key);
  if (order) return order;
  return (x->seq > y->seq) - (x->seq < y->seq);
}

/* When version 1 of the key was written, by one of these steps (oldest first); false: it was before them. */
static bool find_date(const step *steps, size_t count, int64_t *out_ms)
{
  for (size_t i = count; i-- > 0;) {
    if (steps[i].change.prev_seq) continue;
    *out_ms = steps[i].change.is_carried ? steps[i].change.created_ms : steps[i].time_ms;
    return true;
  }
  return false;
}

/* The steps of one key become an edit. */
static void add_edit(path *p, const step *steps, size_t count)
{
  const step *last = &steps[count - 1];
  size_t i = p->edit_count++;
  p->edits[i] = (pd_tree_edit){.key = last->change.key, .is_delete = last->change.is_delete};
  p->needs_date[i] = false;
  if (last->change.is_delete) return;
  p->edits[i].value_id = pd_rec_value_id(&last->change);
  p->edits[i].rider = (pd_rider){
    .seq = last->seq, .version = last->change.version, .updated_ms = last->time_ms, .size = last->change.size, .pos = last->change.pos};
  p->needs_date[i] = !find_date(steps, count, &p->edits[i].rider.created_ms);
}

/* Needs no lock. */
static pd_code make_edits(path *p, pd_error *err)
{
  for (size_t i = 0; i < p->record_count; i++) {
    const gathered *g = &p->records[i];
    pd_rec rec;
    TRY(pd_rec_decode_checked(g->seq, (pd_bytes){p->bytes.data + g->at, g->size}, &rec, err));
    TRY(path_add(p, &rec, err));
  }
  p->edits = malloc((p->count + 1) * sizeof *p->edits);
  p->needs_date = malloc((p->count + 1) * sizeof *p->needs_date);
  if (!p->edits || !p->needs_date) return pd_error_memory(err, "a tree of the past");
  if (p->count) qsort(p->steps, p->count, sizeof *p->steps, compare_steps);
  for (size_t i = 0, end; i < p->count; i = end) {
    for (end = i + 1; end < p->count && pd_bytes_equal(p->steps[end].change.key, p->steps[i].change.key);) end++;
    add_edit(p, &p->steps[i], end - i);
  }
  return PD_OK;
}

/* `count` edits from `from` on. *root is replaced. */
static pd_code apply_some(pd_tree *tree, path *p, size_t from, size_t count, pd_node **root, pd_error *err)
{
  for (size_t i = from; i < from + count; i++) {
    pd_tree_edit *edit = &p->edits[i];
    pd_node *leaf = NULL;
    size_t index;
    if (!p->needs_date[i]) continue;
    if (*root) TRY(pd_tree_find(tree, *root, edit->key, &leaf, &index, err));
    if (!leaf) return pd_error_set(err, PD_CORRUPT, "record %llu changes a key that is not there", (unsigned long long)edit->rider.seq);
    edit->rider.created_ms = leaf->riders[index].created_ms;
  }
  pd_node *made;
  TRY(pd_tree_apply(tree, *root, &p->edits[from], count, &made, err));
  pd_node_unref(&tree->pool, *root);
  *root = made;
  return PD_OK;
}

/* The order of edits does not matter (T1), so they are applied some at a time if `yields` is not NULL: others may have its lock in
 * between. */
static pd_code apply_edits(pd_tree *tree, pd_store *yields, pd_node *base, path *p, pd_node **out_root, pd_error *err)
{
  pd_node *root = base ? pd_node_ref(base) : NULL;
  pd_code code = PD_OK;
  size_t done = 0;
  do {
    size_t left = p->edit_count - done, count = yields && left > STRIDE_RECORDS ? STRIDE_RECORDS : left;
    code = apply_some(tree, p, done, count, &root, err);
    done += count;
    if (yields) pd_store_yield(yields);
  } while (!code && done < p->edit_count);
  if (code)
    pd_node_unref(&tree->pool, root);
  else
    *out_root = root;
  return code;
}

pd_code pd_apply_record(pd_tree *tree, pd_node *root, const pd_rec *rec, pd_node **out_root, pd_error *err)
{
  CLEANUP(path_done) path p = {0};
  TRY(path_add(&p, rec, err));
  TRY(make_edits(&p, err));
  pd_node *made;
  TRY(apply_edits(tree, NULL, root, &p, &made, err));
  if (!pd_id_equal(&made->id, &rec->tree)) {
    pd_node_unref(&tree->pool, made);
    return pd_error_set(err, PD_CORRUPT, "record %llu: its changes do not give the tree that it names", (unsigned long long)rec->seq);
  }
  *out_root = made;
  return PD_OK;
}

static pd_node *find_past(pd_store *s, uint64_t seq)
{
  for (size_t i = 0; i < PD_PAST_COUNT; i++) {
    if (!s->pasts[i].root || s->pasts[i].seq != seq) continue;
    s->pasts[i].used = ++s->use_clock;
    return s->pasts[i].root;
  }
  return NULL;
}

/* Heads with a tree in memory, by the number of their commit. A store may have many thousand refs: they are looked at once for each
 * tree that is built, not once for each record on the way to it. Two that want one place: the newer stays. */
#define NEAR_COUNT 128

typedef struct near_heads {
  const pd_head *heads[NEAR_COUNT];
} near_heads;

static bool is_loadable(const pd_head *head, uint64_t seq)
{
  return head->commit.seq == seq && head->has_blob && !head->is_deleted;
}

/* *out_near gets the heads at ancestors of `seq`, perhaps. Returns the head that is at it: one with its tree in memory, else one whose
 * tree can be loaded, else NULL. */
static pd_head *look_at_heads(pd_store *s, uint64_t seq, near_heads *out_near)
{
  pd_head *loadable = NULL;
  *out_near = (near_heads){0};
  for (size_t i = 0; i < s->slot_count; i++) {
    pd_head *both[] = {&s->slots[i]->seen, &s->slots[i]->tip};
    for (size_t k = 0; k < COUNT_OF(both); k++) {
      pd_head *head = both[k];
      const pd_head **place = &out_near->heads[head->commit.seq % NEAR_COUNT];
      if (head->root && head->commit.seq == seq) return head;
      if (!loadable && is_loadable(head, seq)) loadable = head;
      if (head->root && head->commit.seq < seq && (!*place || (*place)->commit.seq < head->commit.seq)) *place = head;
    }
  }
  return loadable;
}

/* A tree in memory for exactly this commit: one built before, or a head's. Borrowed. */
static pd_node *find_at_hand(pd_store *s, const near_heads *near, uint64_t seq)
{
  const pd_head *head = near->heads[seq % NEAR_COUNT];
  if (head && head->commit.seq == seq && head->root) return head->root;
  return find_past(s, seq);
}

static void keep_past(pd_store *s, uint64_t seq, pd_node *root)
{
  size_t oldest = 0;
  for (size_t i = 1; i < PD_PAST_COUNT; i++)
    if (s->pasts[i].used < s->pasts[oldest].used) oldest = i;
  pd_node_unref(&s->tree.pool, s->pasts[oldest].root);
  s->pasts[oldest] = (pd_past){seq, pd_node_ref(root), ++s->use_clock};
}

void pd_past_forget(pd_store *s)
{
  s->forgotten++;
  for (size_t i = 0; i < PD_PAST_COUNT; i++) {
    pd_node_unref(&s->tree.pool, s->pasts[i].root);
    s->pasts[i] = (pd_past){0};
  }
  pd_segments_trim(s, 0);
}

/* Gather the records from `seq` back to a commit whose tree is at hand. *out_base has a reference; NULL for the empty tree, or if
 * *out_outside is not 0: the commit before the segment to go on from. */
static pd_code gather(pd_store *s, uint64_t seq, const near_heads *near, bool may_yield, path *p, pd_node **out_base, uint64_t *out_outside,
                      pd_error *err)
{
  pd_segment *seg;
  pd_node *base = NULL;
  *out_outside = 0;
  TRY(pd_segment_of(s, seq, &seg, err));
  while (seq > seg->base) {
    if (may_yield && p->record_count % STRIDE_RECORDS == STRIDE_RECORDS - 1) {
      pd_store_yield(s);
      TRY(pd_segment_bring(s, seq, err));
      TRY(pd_segment_of(s, seq, &seg, err));
    }
    if (p->record_count && (base = find_at_hand(s, near, seq))) break;
    pd_rec rec;
    TRY(pd_segment_record(seg, seq, &rec, err));
    if (rec.kind != PD_RECORD_COMMIT) return pd_error_set(err, PD_CORRUPT, "record %llu is no commit", (unsigned long long)seq);
    TRY(path_gather(p, &rec, err));
    seq = pd_rec_base(&rec);
  }
  if (!base && seq) base = find_at_hand(s, near, seq);
  if (!base && seq) TRY(pd_segment_base_root(s, seg, seq, &base, err));
  if (!base) *out_outside = seq;
  *out_base = base ? pd_node_ref(base) : NULL;
  return PD_OK;
}

static pd_code check_tree(pd_store *s, uint64_t seq, pd_node *root, pd_error *err)
{
  pd_commit commit;
  TRY(pd_commit_at(s, seq, &commit, err));
  if (pd_id_equal(&commit.tree, &root->id)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "the tree of record %llu does not match its id", (unsigned long long)seq);
}

static pd_code tree_of(pd_store *s, uint64_t seq, bool may_yield, pd_node **out_root, pd_error *err);

static pd_code build_past(pd_store *s, uint64_t seq, const near_heads *near, bool may_yield, pd_node **out_root, pd_error *err)
{
  CLEANUP(path_done) path p = {0};
  pd_node *base = NULL, *made = NULL;
  uint64_t outside;
  if (may_yield) TRY(pd_segment_bring(s, seq, err));
  TRY(gather(s, seq, near, may_yield, &p, &base, &outside, err));
  if (outside) TRY(tree_of(s, outside, may_yield, &base, err));
  if (may_yield) pd_store_unlock(s);
  pd_code code = make_edits(&p, err);
  if (may_yield) pd_store_lock(s);
  if (!code) code = apply_edits(&s->tree, may_yield ? s : NULL, base, &p, &made, err);
  pd_node_unref(&s->tree.pool, base);
  if (code) return code;
  code = check_tree(s, seq, made, err);
  if (code)
    pd_node_unref(&s->tree.pool, made);
  else
    *out_root = made;
  return code;
}

static pd_code tree_of(pd_store *s, uint64_t seq, bool may_yield, pd_node **out_root, pd_error *err)
{
  if (!seq) return pd_tree_empty(&s->tree, out_root, err);
  near_heads near;
  pd_head *head = NULL;
  pd_node *root = find_past(s, seq);
  if (!root && (head = look_at_heads(s, seq, &near))) root = head->root;
  if (root) {
    *out_root = pd_node_ref(root);
    return PD_OK;
  }
  TRY(pd_retention_ready(s, err));
  if (head && is_loadable(head, seq) && !pd_head_root(s, head, &root, NULL)) { /* if it cannot be, its records will tell */
    *out_root = pd_node_ref(root);
    return PD_OK;
  }
  const pd_point *point = pd_point_at(s, seq);
  if (point)
    TRY(pd_tree_load_root(&s->tree, &point->root_blob, &point->commit.tree, &root, err));
  else
    TRY(build_past(s, seq, &near, may_yield, &root, err));
  keep_past(s, seq, root);
  *out_root = root;
  return PD_OK;
}

pd_code pd_tree_of(pd_store *s, uint64_t seq, pd_node **out_root, pd_error *err)
{
  return tree_of(s, seq, false, out_root, err);
}

/* Borrowed; NULL if it is not in memory. */
static pd_node *find_tree(pd_store *s, uint64_t seq)
{
  near_heads near;
  pd_node *root = find_past(s, seq);
  const pd_head *head = root ? NULL : look_at_heads(s, seq, &near);
  return head ? head->root : root;
}

/* One at a time: others may want the same tree, and a tree of the past is large. If gc came in between, what it left of the commit is
 * asked for once more. */
pd_code pd_tree_to_read(pd_store *s, uint64_t seq, pd_node **out_root, pd_error *err)
{
  pd_node *root = seq ? find_tree(s, seq) : NULL;
  if (root) {
    *out_root = pd_node_ref(root);
    return PD_OK;
  }
  TRY(pd_log_reach(s, seq, err)); /* before others have to wait for the tree */
  while (s->is_building) pd_store_wait(s);
  uint64_t forgotten = s->forgotten;
  pd_error why;
  s->is_building = true;
  pd_code code = tree_of(s, seq, true, out_root, &why);
  if (code == PD_RETIRED && forgotten != s->forgotten) code = tree_of(s, seq, true, out_root, &why);
  s->is_building = false;
  pd_store_wake(s);
  if (code && err) *err = why;
  return code;
}

pd_code pd_head_root(pd_store *s, pd_head *head, pd_node **out_root, pd_error *err)
{
  if (!head->root) {
    pd_node *root;
    if (head->has_blob)
      TRY(pd_tree_load_root(&s->tree, &head->root_blob, &head->commit.tree, &root, err));
    else
      TRY(pd_tree_of(s, head->commit.seq, &root, err));
    if (head->root) /* on the way, pd_retention_ready needed this very head */
      pd_node_unref(&s->tree.pool, root);
    else
      head->root = root;
  }
  *out_root = head->root;
  return PD_OK;
}
