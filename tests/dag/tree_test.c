/* tree_test.c: src/dag/tree*.c and node.c: history independence, search, walking, diff, eviction, blobs. */
#include "base/buf.h"
#include "base/sha256.h"
#include "dag/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define KEY_COUNT 600

typedef struct bag {
  pd_buf blobs[20000];
  pd_id ids[20000];
  size_t count;
  pd_tree *tree;
} bag;

static pd_code load_from_bag(void *ctx, const pd_id *blob_id, pd_node **out, pd_error *err)
{
  bag *b = ctx;
  for (size_t i = 0; i < b->count; i++)
    if (pd_id_equal(&b->ids[i], blob_id)) return pd_node_decode(&b->tree->pool, pd_buf_bytes(&b->blobs[i]), blob_id, out, err);
  return PD_NOT_FOUND;
}

static uint64_t next_random(uint64_t *state)
{
  *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
  return *state;
}

static pd_tree_edit edit_of(const char *key, uint64_t value)
{
  pd_tree_edit e = {.key = pd_text(key), .rider = {.seq = 1, .version = 1, .created_ms = 5, .updated_ms = 9, .size = 8, .pos = 7}};
  pd_bytes bytes = {&value, sizeof value};
  e.value_id = pd_sha256(bytes);
  return e;
}

static pd_node *apply_one(pd_tree *t, pd_node *root, pd_tree_edit e)
{
  pd_node *next;
  assert_int_equal(pd_tree_apply(t, root, &e, 1, &next, NULL), PD_OK);
  pd_node_unref(&t->pool, root);
  return next;
}

static void shuffle(size_t *order, size_t count, uint64_t *seed)
{
  for (size_t i = count - 1; i > 0; i--) {
    size_t j = next_random(seed) % (i + 1), swap = order[i];
    order[i] = order[j], order[j] = swap;
  }
}

static void make_keys(char keys[][32], size_t count)
{
  for (size_t i = 0; i < count; i++) snprintf(keys[i], 32, "key/%05zu", i);
}

/* All keys in one batch: the reference. */
static pd_node *build_sorted(pd_tree *t, char keys[][32], size_t count)
{
  pd_tree_edit *edits = calloc(count, sizeof *edits);
  for (size_t i = 0; i < count; i++) edits[i] = edit_of(keys[i], i);
  pd_node *root;
  assert_int_equal(pd_tree_apply(t, NULL, edits, count, &root, NULL), PD_OK);
  free(edits);
  return root;
}

static void tree__insertion_order_does_not_change_id(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  char keys[KEY_COUNT][32];
  make_keys(keys, KEY_COUNT);
  uint64_t seed = 88172645463325252u;
  for (int round = 0; round < 1000; round++) {
    size_t count = 1 + next_random(&seed) % (round < 50 ? KEY_COUNT : 120), order[KEY_COUNT];
    pd_node *expected = build_sorted(&t, keys, count), *root;
    for (size_t i = 0; i < count; i++) order[i] = i;
    shuffle(order, count, &seed);
    assert_int_equal(pd_tree_empty(&t, &root, NULL), PD_OK);
    for (size_t i = 0; i < count; i++) root = apply_one(&t, root, edit_of(keys[order[i]], order[i]));
    assert_memory_equal(root->id.bytes, expected->id.bytes, PD_ID_SIZE);
    assert_int_equal(root->key_count, count);
    pd_node_unref(&t.pool, root);
    pd_node_unref(&t.pool, expected);
  }
  pd_tree_done(&t);
  assert_int_equal(t.pool.bytes, 0);
  assert_int_equal(t.pool.dirty_bytes, 0);
}

static void tree__random_batches_of_puts_and_deletes_equal_a_rebuild(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  static char keys[KEY_COUNT][32];
  make_keys(keys, KEY_COUNT);
  uint64_t values[KEY_COUNT] = {0}, seed = 42; /* 0: absent */
  pd_node *root;
  assert_int_equal(pd_tree_empty(&t, &root, NULL), PD_OK);
  for (int round = 0; round < 400; round++) {
    pd_tree_edit edits[KEY_COUNT], all[KEY_COUNT];
    size_t count = 0, all_count = 0;
    unsigned density = 1 + next_random(&seed) % 60;
    for (size_t i = 0; i < KEY_COUNT; i++) {
      if (next_random(&seed) % density) continue;
      values[i] = next_random(&seed) % 3;
      edits[count] = edit_of(keys[i], values[i]);
      edits[count++].is_delete = !values[i];
    }
    pd_node *next, *expected;
    assert_int_equal(pd_tree_apply(&t, root, edits, count, &next, NULL), PD_OK);
    for (size_t i = 0; i < KEY_COUNT; i++)
      if (values[i]) all[all_count++] = edit_of(keys[i], values[i]);
    assert_int_equal(pd_tree_apply(&t, NULL, all, all_count, &expected, NULL), PD_OK);
    assert_memory_equal(next->id.bytes, expected->id.bytes, PD_ID_SIZE);
    assert_int_equal(next->key_count, all_count);
    pd_node_unref(&t.pool, expected);
    pd_node_unref(&t.pool, root);
    root = next;
  }
  pd_node_unref(&t.pool, root);
  pd_tree_done(&t);
  assert_int_equal(t.pool.bytes, 0);
}

/* Keys chosen so that none is a boundary: only the hard maximum cuts nodes. */
/* Keys of which half begin nodes, at all levels: what happens once in thousands of edits elsewhere happens at each here. */
static void make_tall_keys(char keys[][32], size_t count)
{
  for (size_t made = 0, i = 0; made < count; i++) {
    snprintf(keys[made], 32, "tall/%08zu", i);
    unsigned height = pd_key_height(pd_text(keys[made])), wanted = made % 2 ? 0 : 1 + made / 2 % 4;
    if (height == wanted) made++;
  }
}

static void tree__deleting_and_adding_boundaries_at_every_level_equals_a_rebuild(void **state)
{
  (void)state;
  enum { TALL_COUNT = 24, ROUNDS = 20000 };
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  char keys[TALL_COUNT][32];
  make_tall_keys(keys, TALL_COUNT);
  uint64_t values[TALL_COUNT] = {0}, seed = 7; /* 0: absent */
  pd_node *root;
  assert_int_equal(pd_tree_empty(&t, &root, NULL), PD_OK);
  for (int round = 0; round < ROUNDS; round++) {
    pd_tree_edit edits[TALL_COUNT], all[TALL_COUNT];
    size_t count = 0, all_count = 0, wanted = next_random(&seed) % 8 ? 1 : 1 + next_random(&seed) % 5;
    for (size_t i = next_random(&seed) % TALL_COUNT; i < TALL_COUNT && count < wanted; i += 1 + next_random(&seed) % 6) {
      values[i] = values[i] ? 0 : 1 + next_random(&seed) % 3;
      edits[count] = edit_of(keys[i], values[i]);
      edits[count++].is_delete = !values[i];
    }
    for (size_t i = 0; i < TALL_COUNT; i++)
      if (values[i]) all[all_count++] = edit_of(keys[i], values[i]);
    pd_node *next, *expected;
    assert_int_equal(pd_tree_apply(&t, root, edits, count, &next, NULL), PD_OK);
    assert_int_equal(pd_tree_apply(&t, NULL, all, all_count, &expected, NULL), PD_OK);
    assert_memory_equal(next->id.bytes, expected->id.bytes, PD_ID_SIZE);
    pd_node_unref(&t.pool, expected);
    pd_node_unref(&t.pool, root);
    root = next;
  }
  pd_node_unref(&t.pool, root);
  pd_tree_done(&t);
  assert_int_equal(t.pool.bytes, 0);
}

static void tree__runs_without_boundaries_are_cut_and_stay_canonical(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  static char keys[1400][32];
  size_t count = 0;
  for (unsigned i = 0; count < 1400; i++) {
    snprintf(keys[count], 32, "flat-%06u", i);
    if (!pd_key_height(pd_text(keys[count]))) count++;
  }
  uint64_t seed = 7;
  size_t order[1400];
  for (size_t i = 0; i < count; i++) order[i] = i;
  shuffle(order, count, &seed);
  pd_node *expected = build_sorted(&t, keys, count), *root;
  assert_int_equal(expected->level, 1);
  assert_int_equal(expected->count, (1400 + PD_NODE_COUNT_MAX - 1) / PD_NODE_COUNT_MAX);
  assert_int_equal(pd_tree_empty(&t, &root, NULL), PD_OK);
  for (size_t i = 0; i < count; i++) root = apply_one(&t, root, edit_of(keys[order[i]], order[i]));
  assert_memory_equal(root->id.bytes, expected->id.bytes, PD_ID_SIZE);
  pd_tree_edit gone = {.is_delete = true};
  for (size_t i = 0; i < count - 1; i++) { /* and back to one key */
    gone.key = pd_text(keys[order[i]]);
    root = apply_one(&t, root, gone);
  }
  assert_int_equal(root->key_count, 1);
  assert_int_equal(root->level, 0);
  pd_node_unref(&t.pool, root);
  pd_node_unref(&t.pool, expected);
  pd_tree_done(&t);
  assert_int_equal(t.pool.bytes, 0);
}

static void tree__finds_every_key_and_no_other(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  static char keys[KEY_COUNT][32];
  make_keys(keys, KEY_COUNT);
  pd_node *root = build_sorted(&t, keys, KEY_COUNT), *leaf;
  size_t index;
  for (size_t i = 0; i < KEY_COUNT; i++) {
    assert_int_equal(pd_tree_find(&t, root, pd_text(keys[i]), &leaf, &index, NULL), PD_OK);
    assert_non_null(leaf);
    pd_id id = edit_of(keys[i], i).value_id;
    assert_memory_equal(pd_node_value_id(leaf, index), id.bytes, PD_ID_SIZE);
  }
  const char *absent[] = {"", "a", "key", "key/", "key/00000x", "key/0000", "key/00599x", "key/00600", "kez", "\xff"};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    assert_int_equal(pd_tree_find(&t, root, pd_text(absent[i]), &leaf, &index, NULL), PD_OK);
    assert_null(leaf);
  }
  pd_node_unref(&t.pool, root);
  pd_tree_done(&t);
}

static void tree__cursor_walks_in_order_from_any_key(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  static char keys[KEY_COUNT][32];
  make_keys(keys, KEY_COUNT);
  pd_node *root = build_sorted(&t, keys, KEY_COUNT), *leaf;
  for (size_t from = 0; from <= KEY_COUNT; from += 37) {
    char start[32];
    snprintf(start, sizeof start, "key/%05zu", from);
    pd_tree_cursor c;
    size_t index, at = from;
    assert_int_equal(pd_tree_seek(&c, &t, root, pd_text(start), NULL), PD_OK);
    while (pd_tree_at(&c, &leaf, &index)) {
      assert_true(pd_bytes_equal(pd_node_key(leaf, index), pd_text(keys[at++])));
      assert_int_equal(pd_tree_next(&c, NULL), PD_OK);
    }
    assert_int_equal(at, KEY_COUNT);
    pd_tree_cursor_done(&c);
  }
  pd_node_unref(&t.pool, root);
  pd_tree_done(&t);
}

typedef struct seen {
  size_t added, deleted, changed;
  pd_buf last;
} seen;

static pd_code count_difference(void *ctx, pd_node *a, size_t i, pd_node *b, size_t j, pd_error *err)
{
  seen *s = ctx;
  pd_bytes key = a ? pd_node_key(a, i) : pd_node_key(b, j);
  assert_true(pd_bytes_compare(pd_buf_bytes(&s->last), key) < 0);
  pd_buf_clear(&s->last);
  assert_int_equal(pd_buf_append(&s->last, key.data, key.size, err), PD_OK);
  s->added += !a, s->deleted += !b, s->changed += a && b;
  return PD_OK;
}

static void tree__diff_reports_exactly_what_differs(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  static char keys[KEY_COUNT][32];
  make_keys(keys, KEY_COUNT);
  uint64_t seed = 99;
  for (int round = 0; round < 100; round++) {
    pd_tree_edit a[KEY_COUNT], b[KEY_COUNT];
    size_t na = 0, nb = 0;
    seen expected = {0}, got = {0};
    unsigned rarity = 2 + next_random(&seed) % 200;
    for (size_t i = 0; i < KEY_COUNT; i++) {
      unsigned dice = next_random(&seed) % rarity;
      if (dice != 0) a[na++] = edit_of(keys[i], i);
      if (dice != 1) b[nb++] = edit_of(keys[i], dice == 2 ? i + 1 : i);
      expected.added += dice == 0, expected.deleted += dice == 1, expected.changed += dice == 2;
    }
    pd_node *ra, *rb;
    assert_int_equal(pd_tree_apply(&t, NULL, a, na, &ra, NULL), PD_OK);
    assert_int_equal(pd_tree_apply(&t, NULL, b, nb, &rb, NULL), PD_OK);
    assert_int_equal(pd_tree_diff(&t, ra, rb, count_difference, &got, NULL), PD_OK);
    assert_int_equal(got.added, expected.added);
    assert_int_equal(got.deleted, expected.deleted);
    assert_int_equal(got.changed, expected.changed);
    pd_buf_done(&got.last);
    pd_node_unref(&t.pool, ra);
    pd_node_unref(&t.pool, rb);
  }
  pd_tree_done(&t);
}

static void save(bag *b, pd_node *n)
{
  for (size_t i = 0; n->level && i < n->count; i++)
    if (n->kids[i] && !n->kids[i]->is_saved) save(b, n->kids[i]);
  pd_buf *blob = &b->blobs[b->count];
  assert_int_equal(pd_node_encode(n, blob, NULL), PD_OK);
  b->ids[b->count] = pd_sha256(pd_buf_bytes(blob));
  pd_node_mark_saved(&b->tree->pool, n, &b->ids[b->count++]);
}

static void tree__survives_saving_evicting_and_loading(void **state)
{
  (void)state;
  static bag b;
  pd_tree t;
  pd_tree_init(&t, load_from_bag, &b);
  b.tree = &t;
  static char keys[KEY_COUNT][32];
  make_keys(keys, KEY_COUNT);
  pd_node *root = build_sorted(&t, keys, KEY_COUNT), *leaf;
  save(&b, root);
  assert_int_equal(t.pool.dirty_bytes, 0);
  size_t before = t.pool.bytes, index;
  pd_buf hand = {0};
  pd_tree_evict(&t, root, &hand, 0); /* the first round takes the second chance away */
  pd_tree_evict(&t, root, &hand, 0);
  assert_true(t.pool.bytes < before / 10);
  for (size_t i = 0; i < KEY_COUNT; i++) {
    assert_int_equal(pd_tree_find(&t, root, pd_text(keys[i]), &leaf, &index, NULL), PD_OK);
    assert_non_null(leaf);
    assert_int_equal(leaf->riders[index].updated_ms, 9);
    assert_int_equal(leaf->riders[index].pos, 7);
  }
  pd_buf_done(&hand);
  pd_node_unref(&t.pool, root);
  for (size_t i = 0; i < b.count; i++) pd_buf_done(&b.blobs[i]);
  pd_tree_done(&t);
  assert_int_equal(t.pool.bytes, 0);
}

static void node__damaged_blobs_are_refused_or_have_another_id(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  static char keys[12][32];
  make_keys(keys, 12);
  pd_node *root = build_sorted(&t, keys, 12), *copy;
  pd_buf blob = {0};
  pd_id zero = {{0}};
  assert_int_equal(pd_node_encode(root, &blob, NULL), PD_OK);
  for (size_t cut = 0; cut < blob.size; cut++) {
    pd_bytes part = {blob.data, cut};
    assert_int_equal(pd_node_decode(&t.pool, part, &zero, &copy, NULL), PD_CORRUPT);
  }
  for (size_t bit = 0; bit < blob.size * 8; bit++) {
    blob.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (pd_node_decode(&t.pool, pd_buf_bytes(&blob), &zero, &copy, NULL) == PD_OK) pd_node_unref(&t.pool, copy);
    blob.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  pd_buf_done(&blob);
  pd_node_unref(&t.pool, root);
  pd_tree_done(&t);
  assert_int_equal(t.pool.bytes, 0);
}

static void expect_id(const pd_id *id, const char *hex)
{
  char text[PD_ID_HEX_SIZE];
  assert_string_equal(pd_id_hex(id, text), hex);
}

/* Golden ids: a change here is a change of the format. */
static void tree__golden_ids_hold(void **state)
{
  (void)state;
  pd_tree t;
  pd_tree_init(&t, NULL, NULL);
  static char keys[KEY_COUNT][32];
  make_keys(keys, KEY_COUNT);
  pd_node *empty;
  assert_int_equal(pd_tree_empty(&t, &empty, NULL), PD_OK);
  pd_id known = pd_tree_empty_id();
  assert_memory_equal(empty->id.bytes, known.bytes, PD_ID_SIZE);
  expect_id(&empty->id, "c0736411a62ec0f4aca1e1133550491bd09b6fa99ae36c7b2f85a12c4dc387d1");
  pd_node *root = build_sorted(&t, keys, KEY_COUNT);
  expect_id(&root->id, "c3495d7eaa5d0d8eb3f65a1b59857d8f08220bffbce7b802a2d6c231f1d03ccc");
  pd_node_unref(&t.pool, root);
  pd_node_unref(&t.pool, empty);
  pd_tree_done(&t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(tree__insertion_order_does_not_change_id),
    cmocka_unit_test(tree__random_batches_of_puts_and_deletes_equal_a_rebuild),
    cmocka_unit_test(tree__deleting_and_adding_boundaries_at_every_level_equals_a_rebuild),
    cmocka_unit_test(tree__runs_without_boundaries_are_cut_and_stay_canonical),
    cmocka_unit_test(tree__finds_every_key_and_no_other),
    cmocka_unit_test(tree__cursor_walks_in_order_from_any_key),
    cmocka_unit_test(tree__diff_reports_exactly_what_differs),
    cmocka_unit_test(tree__survives_saving_evicting_and_loading),
    cmocka_unit_test(node__damaged_blobs_are_refused_or_have_another_id),
    cmocka_unit_test(tree__golden_ids_hold),
  };
  return cmocka_run_group_tests_name("dag/tree", tests, NULL, NULL);
}
