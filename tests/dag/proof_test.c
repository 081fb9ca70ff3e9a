/*
 * proof_test.c: src/dag/proof.c and tools/verify-proof.c, side by side: whatever bytes they get, they must agree. Proofs of random trees
 * verify; no changed one shows the same, not even one whose seal was made right again. PERDURE_SEED replays.
 */
#include "base/buf.h"
#include "base/sha256.h"
#include "dag/cursor.h"
#include "dag/proof.h"

#include "../support/verify_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/random.h>

#include <cmocka.h>

#define STORES 10000
#define KEYS_MAX 900
#define MUTATIONS 6

static uint64_t random_state;

static uint64_t pick(uint64_t below)
{
  uint64_t x = random_state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return (x ^ x >> 31) % below;
}

/* ---- both verifiers ---- */

static bool is_same_piece(piece a, pd_bytes b)
{
  return a.size == b.size && (!a.size || memcmp(a.at, b.data, a.size) == 0);
}

/* What the library says; the other one must say the same. */
static pd_code judge(pd_bytes bytes, pd_proof *out)
{
  pd_error err = {0};
  shown other;
  pd_code code = pd_check_proof(bytes, NULL, out, &err);
  const char *why = check(bytes.data, bytes.size, &other);
  if (!code != !why) fail_msg("the verifiers do not agree: '%s' and '%s'", code ? err.message : "right", why ? why : "right");
  if (code) {
    assert_true(code == PD_CORRUPT || code == PD_FORMAT || code == PD_LIMIT);
    assert_int_equal(err.code, code);
    return code;
  }
  assert_int_equal(out->kind, other.kind);
  assert_memory_equal(out->commit.bytes, other.commit, 32);
  if (out->kind == PD_PROOF_DESCENT) {
    assert_memory_equal(out->ancestor.bytes, other.ancestor, 32);
    return code;
  }
  assert_true(is_same_piece(other.key, out->key) && is_same_piece(other.value, out->value));
  if (out->kind != PD_PROOF_ABSENT) assert_memory_equal(out->value_id.bytes, other.value_id, 32);
  return code;
}

static void reseal(pd_buf *proof)
{
  pd_id seal = pd_sha256((pd_bytes){proof->data, proof->size - PD_ID_SIZE});
  memcpy(proof->data + proof->size - PD_ID_SIZE, seal.bytes, PD_ID_SIZE);
}

static bool is_same_statement(const pd_proof *a, const pd_proof *b)
{
  if (a->kind != b->kind || !pd_id_equal(&a->commit, &b->commit)) return false;
  if (a->kind == PD_PROOF_DESCENT) return pd_id_equal(&a->ancestor, &b->ancestor);
  return pd_bytes_equal(a->key, b->key);
}

/* Every change is refused; and if somebody makes the seal right again, it is refused or shows something else. */
static void expect_refused(const pd_buf *good, pd_buf *bad)
{
  pd_proof before, after;
  assert_int_equal(pd_check_proof(pd_buf_bytes(good), NULL, &before, NULL), PD_OK);
  if (pd_bytes_equal(pd_buf_bytes(good), pd_buf_bytes(bad))) return;
  assert_int_not_equal(judge(pd_buf_bytes(bad), &after), PD_OK);
  if (bad->size < PD_ID_SIZE) return;
  reseal(bad);
  if (pd_bytes_equal(pd_buf_bytes(good), pd_buf_bytes(bad))) return;
  if (judge(pd_buf_bytes(bad), &after) == PD_OK) assert_false(is_same_statement(&before, &after));
}

static void copy_to(pd_buf *to, const pd_buf *from)
{
  pd_buf_clear(to);
  assert_int_equal(pd_buf_append(to, from->data, from->size, NULL), PD_OK);
}

static void mutate(pd_buf *bad, const pd_buf *other)
{
  size_t at = pick(bad->size), more;
  switch (pick(6)) {
  case 0: bad->data[at] ^= (uint8_t)(1u << pick(8)); break;
  case 1: bad->data[at] ^= (uint8_t)(1 + pick(255)); break;
  case 2: bad->size = at; break;
  case 3: /* a piece is taken out */
    more = 1 + pick(bad->size - at);
    memmove(bad->data + at, bad->data + at + more, bad->size - at - more);
    bad->size -= more;
    break;
  case 4: /* a piece twice */
    more = pick(bad->size - at);
    assert_int_equal(pd_buf_reserve(bad, more, NULL), PD_OK);
    memmove(bad->data + at + more, bad->data + at, bad->size - at);
    bad->size += more;
    break;
  default: /* the rest is another's */
    bad->size = at;
    at = pick(other->size);
    assert_int_equal(pd_buf_append(bad, other->data + at, other->size - at, NULL), PD_OK);
  }
}

/* ---- a random store: a tree and a commit over it ---- */

typedef struct world {
  pd_tree tree;
  pd_node *root;
  char keys[KEYS_MAX][24]; /* ascending; those with an odd index are absent */
  size_t count;
  pd_id parents[PD_PARENT_COUNT_MAX];
  size_t parent_count;
  pd_id commit;
} world;

static int compare_keys(const void *a, const void *b)
{
  return strcmp(a, b);
}

static void value_of(size_t index, char out[64])
{
  snprintf(out, 64, "%.*s%zu", (int)(index % 40), "the value of a key in a random store....", index);
  if (index % 17 == 4) out[0] = 0;
}

static void make_keys(world *w, size_t count)
{
  size_t unique = 0;
  unsigned style = (unsigned)pick(3);
  for (size_t i = 0; i < count; i++) {
    unsigned long long n = pick(style == 0 ? 100000 : 1000000000000);
    snprintf(w->keys[i], sizeof w->keys[i], style == 0 ? "key/%05llu" : style == 1 ? "%llx" : "run:%llu/step", n);
  }
  qsort(w->keys, count, sizeof *w->keys, compare_keys);
  for (size_t i = 0; i < count; i++)
    if (!i || strcmp(w->keys[i], w->keys[unique - 1]) != 0) memmove(w->keys[unique++], w->keys[i], sizeof *w->keys);
  w->count = unique;
}

static void make_world(world *w, size_t count)
{
  static pd_tree_edit edits[KEYS_MAX];
  size_t edit_count = 0;
  pd_tree_init(&w->tree, NULL, NULL);
  make_keys(w, count);
  for (size_t i = 0; i < w->count; i += 2) {
    char value[64];
    value_of(i, value);
    edits[edit_count++] =
      (pd_tree_edit){.key = pd_text(w->keys[i]), .value_id = pd_value_id(pd_text(value)), .rider = {.seq = 1, .version = 1, .size = 1}};
  }
  assert_int_equal(pd_tree_apply(&w->tree, NULL, edits, edit_count, &w->root, NULL), PD_OK);
  w->parent_count = pick(4) ? 1 : pick(PD_PARENT_COUNT_MAX + 1);
  for (size_t i = 0; i < w->parent_count; i++) {
    uint64_t any = pick(UINT64_MAX);
    w->parents[i] = pd_value_id((pd_bytes){&any, sizeof any});
  }
  w->commit = pd_commit_id(&w->root->id, w->parents, w->parent_count);
}

static void done_world(world *w)
{
  pd_node_unref(&w->tree.pool, w->root);
  pd_tree_done(&w->tree);
}

static void prove(world *w, pd_proof_kind kind, const char *key, const char *value, pd_buf *out)
{
  assert_int_equal(pd_proof_begin(out, kind, pd_text(key), NULL), PD_OK);
  assert_int_equal(pd_proof_add_commit(out, &w->root->id, w->parents, w->parent_count, NULL), PD_OK);
  assert_int_equal(pd_proof_add_path(out, &w->tree, w->root, pd_text(key), NULL), PD_OK);
  if (kind == PD_PROOF_VALUE) assert_int_equal(pd_proof_add_value(out, pd_text(value), NULL), PD_OK);
  assert_int_equal(pd_proof_seal(out, NULL), PD_OK);
}

/* The proof shows just this. */
static void expect_shown(const world *w, const pd_buf *proof, pd_proof_kind kind, const char *key, const char *value)
{
  pd_proof p;
  pd_proof_expect expect = {.commit = &w->commit, .key = pd_text(key)};
  assert_int_equal(judge(pd_buf_bytes(proof), &p), PD_OK);
  assert_int_equal(pd_check_proof(pd_buf_bytes(proof), &expect, &p, NULL), PD_OK);
  assert_int_equal(p.kind, kind);
  assert_true(pd_id_equal(&p.tree, &w->root->id));
  pd_id id = pd_value_id(pd_text(value));
  if (kind != PD_PROOF_ABSENT) assert_true(pd_id_equal(&p.value_id, &id));
  if (kind == PD_PROOF_VALUE) assert_true(pd_bytes_equal(p.value, pd_text(value)));
}

static void try_key(world *w, const char *key, const char *value, pd_buf *proof, pd_buf *last)
{
  pd_buf bad = {0};
  pd_proof_kind kind = !value ? PD_PROOF_ABSENT : pick(3) ? PD_PROOF_VALUE : PD_PROOF_VALUE_ID;
  prove(w, kind, key, value, proof);
  expect_shown(w, proof, kind, key, value ? value : "");
  for (int i = 0; i < MUTATIONS; i++) {
    copy_to(&bad, proof);
    mutate(&bad, last->size ? last : proof);
    if (pd_bytes_equal(pd_buf_bytes(&bad), pd_buf_bytes(last))) continue; /* nothing of this one is left */
    expect_refused(proof, &bad);
  }
  /* the same bytes called something else */
  copy_to(&bad, proof);
  bad.data[5] = value ? PD_PROOF_ABSENT : (uint8_t)(1 + pick(2));
  expect_refused(proof, &bad);
  copy_to(last, proof);
  pd_buf_done(&bad);
}

static void proof__of_10000_random_stores_all_verify_and_no_mutated_one_does(void **state)
{
  (void)state;
  static world w;
  pd_buf proof = {0}, last = {0};
  for (int round = 0; round < STORES; round++) {
    char value[64];
    make_world(&w, round % 500 == 0 ? 0 : 1 + pick(round % 50 == 0 ? KEYS_MAX : 60));
    for (int i = 0; i < 2 && w.count; i++) {
      size_t at = pick(w.count);
      value_of(at, value);
      try_key(&w, w.keys[at], at % 2 ? NULL : value, &proof, &last);
    }
    if (round % 4 == 0) try_key(&w, "!", NULL, &proof, &last);         /* before the first, or in nothing at all */
    if (round % 4 == 1) try_key(&w, "zzzz/last", NULL, &proof, &last); /* after the last */
    done_world(&w);
  }
  pd_buf_done(&proof), pd_buf_done(&last);
}

/* ---- every byte ---- */

static void flip_every_byte(const pd_buf *good)
{
  pd_buf bad = {0};
  for (size_t at = 0; at < good->size; at++) {
    copy_to(&bad, good);
    bad.data[at] ^= (uint8_t)(1 + pick(255));
    expect_refused(good, &bad);
    bad.size = at; /* and cut there */
    memcpy(bad.data, good->data, at);
    expect_refused(good, &bad);
  }
  copy_to(&bad, good);
  assert_int_equal(pd_buf_byte(&bad, 0, NULL), PD_OK);
  expect_refused(good, &bad);
  pd_buf_done(&bad);
}

static void proof__with_any_byte_flipped_or_cut_off_is_refused(void **state)
{
  (void)state;
  static world w;
  pd_buf proof = {0};
  char value[64];
  for (size_t count = 0; count < 700; count = count * 6 + 1) {
    make_world(&w, count);
    prove(&w, PD_PROOF_ABSENT, "!", NULL, &proof);
    flip_every_byte(&proof);
    prove(&w, PD_PROOF_ABSENT, "key/0", NULL, &proof);
    flip_every_byte(&proof);
    for (size_t at = 0; at < w.count && at < 3; at++) {
      value_of(at, value);
      prove(&w, at % 2 ? PD_PROOF_ABSENT : PD_PROOF_VALUE, w.keys[at], value, &proof);
      flip_every_byte(&proof);
    }
    if (w.count) prove(&w, PD_PROOF_VALUE_ID, w.keys[0], NULL, &proof), flip_every_byte(&proof);
    done_world(&w);
  }
  pd_buf_done(&proof);
}

/* ---- descent ---- */

static void make_chain(size_t count, pd_buf *out, pd_id *out_young, pd_id *out_old)
{
  pd_id(*parents)[2] = calloc(count, sizeof *parents), tree = pd_tree_empty_id();
  assert_non_null(parents);
  pd_id id = pd_commit_root_id();
  for (size_t i = 0; i < count; i++) { /* oldest first; the way goes now by the first parent, now by the second */
    parents[i][0] = parents[i][1] = pd_value_id((pd_bytes){&i, sizeof i});
    parents[i][i % 2] = id;
    id = pd_commit_id(&tree, parents[i], 2);
    if (!i) *out_old = id;
  }
  *out_young = id;
  assert_int_equal(pd_proof_begin(out, PD_PROOF_DESCENT, pd_text(""), NULL), PD_OK);
  for (size_t i = count; i-- > 0;) assert_int_equal(pd_proof_add_commit(out, &tree, parents[i], 2, NULL), PD_OK);
  assert_int_equal(pd_proof_seal(out, NULL), PD_OK);
  free(parents);
}

static void descent__verifies_along_any_parent_and_no_mutated_one_does(void **state)
{
  (void)state;
  pd_buf proof = {0}, bad = {0};
  pd_id young, old;
  pd_proof p;
  for (size_t count = 1; count < 12; count++) {
    make_chain(count, &proof, &young, &old);
    assert_int_equal(judge(pd_buf_bytes(&proof), &p), PD_OK);
    assert_true(pd_id_equal(&p.commit, &young) && pd_id_equal(&p.ancestor, &old));
    assert_int_equal(p.distance, count - 1);
    flip_every_byte(&proof);
    for (int i = 0; i < 300; i++) {
      copy_to(&bad, &proof);
      mutate(&bad, &proof);
      expect_refused(&proof, &bad);
    }
  }
  pd_buf_done(&proof), pd_buf_done(&bad);
}

static void descent__over_more_commits_than_the_limit_is_refused(void **state)
{
  (void)state;
  pd_buf proof = {0};
  pd_id young, old;
  pd_proof p;
  make_chain(PD_DESCENT_MAX + 1, &proof, &young, &old);
  assert_int_equal(judge(pd_buf_bytes(&proof), &p), PD_OK);
  assert_int_equal(p.distance, PD_DESCENT_MAX);
  make_chain(PD_DESCENT_MAX + 2, &proof, &young, &old);
  assert_int_equal(judge(pd_buf_bytes(&proof), &p), PD_CORRUPT);
  pd_buf_done(&proof);
}

/* ---- trees that no store makes, with ids that are right: what a dishonest maker could try ---- */

typedef struct forged {
  uint8_t level;
  size_t count;
  const char *keys[4];
  int kid; /* this entry's id is that of the next node; -1: none */
} forged;

static void add_forged(pd_buf *out, const forged *f, const pd_id *kid)
{
  pd_id other = pd_value_id(pd_text("v"));
  uint8_t head[4] = {PD_NODE_TAG, f->level, (uint8_t)f->count, 0};
  assert_int_equal(pd_buf_append(out, head, sizeof head, NULL), PD_OK);
  for (size_t i = 0; i < f->count; i++) {
    uint8_t size[2] = {(uint8_t)strlen(f->keys[i]), 0};
    assert_int_equal(pd_buf_append(out, size, sizeof size, NULL), PD_OK);
    assert_int_equal(pd_buf_append(out, f->keys[i], size[0], NULL), PD_OK);
    assert_int_equal(pd_add_id(out, (int)i == f->kid ? kid : &other, NULL), PD_OK);
  }
}

/* Ids are made from the last node up, so that only the checks of shape can find fault. */
static pd_code judge_forged(const forged *nodes, size_t count, pd_proof_kind kind, const char *key)
{
  pd_buf proof = {0}, parts[4] = {{0}};
  pd_id id = {{0}};
  for (size_t i = count; i-- > 0;) {
    add_forged(&parts[i], &nodes[i], &id);
    id = pd_sha256(pd_buf_bytes(&parts[i]));
  }
  assert_int_equal(pd_proof_begin(&proof, kind, pd_text(key), NULL), PD_OK);
  assert_int_equal(pd_proof_add_commit(&proof, &id, NULL, 0, NULL), PD_OK);
  for (size_t i = 0; i < count; i++) assert_int_equal(pd_buf_append(&proof, parts[i].data, parts[i].size, NULL), PD_OK);
  if (kind == PD_PROOF_VALUE) assert_int_equal(pd_proof_add_value(&proof, pd_text("v"), NULL), PD_OK);
  assert_int_equal(pd_proof_seal(&proof, NULL), PD_OK);
  pd_proof p;
  pd_code code = judge(pd_buf_bytes(&proof), &p);
  pd_buf_done(&proof);
  for (size_t i = 0; i < count; i++) pd_buf_done(&parts[i]);
  return code;
}

static void forged__trees_whose_nodes_do_not_fit_together_are_refused(void **state)
{
  (void)state;
  const forged leaf = {0, 2, {"f", "h"}, -1}, root = {1, 2, {"f", "m"}, 0};
  const forged path[] = {root, leaf};
  assert_int_equal(judge_forged(path, 2, PD_PROOF_VALUE, "h"), PD_OK); /* this is how it should be */
  assert_int_equal(judge_forged(path, 2, PD_PROOF_ABSENT, "g"), PD_OK);
  assert_int_equal(judge_forged(path, 1, PD_PROOF_ABSENT, "a"), PD_OK);
  assert_int_equal(judge_forged(path, 2, PD_PROOF_ABSENT, "h"), PD_CORRUPT);
  assert_int_equal(judge_forged(path, 1, PD_PROOF_ABSENT, "g"), PD_CORRUPT); /* the leaf is kept back */
  assert_int_equal(judge_forged(path, 2, PD_PROOF_ABSENT, "a"), PD_CORRUPT); /* a node too many */
  const struct {
    forged nodes[3];
    size_t count;
    const char *why, *key;
  } bad[] = {
    {{root, {0, 2, {"g", "h"}, -1}}, 2, "the leaf does not begin with the key of its entry", "h"},
    {{root, {0, 2, {"e", "h"}, -1}}, 2, "it begins before it", "h"},
    {{root, {0, 3, {"f", "h", "x"}, -1}}, 2, "it reaches over the next entry", "h"},
    {{root, {0, 3, {"f", "h", "m"}, -1}}, 2, "it reaches to the next entry", "h"},
    {{root, {0, 0, {0}, -1}}, 2, "an empty leaf below an inner node", "h"},
    {{root, {0, 3, {"f", "h", "g"}, -1}}, 2, "keys that do not ascend", "h"},
    {{root, {0, 3, {"f", "h", "h"}, -1}}, 2, "a key twice", "h"},
    {{root, {0, 3, {"f", "h", ""}, -1}}, 2, "an empty key", "h"},
    {{{1, 2, {"m", "f"}, 1}, leaf}, 2, "inner keys that do not ascend", "h"},
    {{{2, 1, {"f"}, 0}, leaf}, 2, "a level is left out", "h"},
    {{root, {1, 1, {"f"}, 0}, leaf}, 3, "a level comes twice", "h"},
    {{{1, 0, {0}, -1}}, 1, "an inner node without entries", "h"},
    {{{16, 1, {"x"}, -1}}, 1, "a level over the limit", "h"},
    {{{2, 2, {"f", "g"}, 0}, {1, 2, {"f", "g"}, 0}, {0, 2, {"f", "fz"}, -1}}, 3, "a bound from two levels above", "fz"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (pd_proof_kind kind = PD_PROOF_VALUE; kind <= PD_PROOF_ABSENT; kind++) {
      if (judge_forged(bad[i].nodes, bad[i].count, kind, bad[i].key) == PD_OK) fail_msg("accepted: %s", bad[i].why);
      if (judge_forged(bad[i].nodes, bad[i].count, kind, "ff") == PD_OK) fail_msg("accepted: %s (another key)", bad[i].why);
    }
}

static void forged__a_neighbours_leaf_does_not_show_absence(void **state)
{
  (void)state;
  static world w;
  do make_world(&w, KEYS_MAX);
  while (w.root->level != 1 && (done_world(&w), true));
  pd_buf proof = {0};
  const char *key = w.keys[w.count / 4 * 2]; /* it is there */
  for (size_t i = 0; i < w.root->count; i++) {
    pd_node *leaf;
    assert_int_equal(pd_tree_kid(&w.tree, w.root, i, &leaf, NULL), PD_OK);
    assert_int_equal(pd_proof_begin(&proof, PD_PROOF_ABSENT, pd_text(key), NULL), PD_OK);
    assert_int_equal(pd_proof_add_commit(&proof, &w.root->id, w.parents, w.parent_count, NULL), PD_OK);
    assert_int_equal(pd_node_add_preimage(w.root, &proof, NULL), PD_OK);
    assert_int_equal(pd_node_add_preimage(leaf, &proof, NULL), PD_OK);
    assert_int_equal(pd_proof_seal(&proof, NULL), PD_OK);
    assert_int_equal(judge(pd_buf_bytes(&proof), &(pd_proof){0}), PD_CORRUPT);
  }
  pd_buf_done(&proof);
  done_world(&w);
}

static void proof__for_another_key_or_commit_or_ancestor_is_refused(void **state)
{
  (void)state;
  static world w;
  pd_buf proof = {0};
  pd_proof p = {0};
  pd_error err;
  make_world(&w, 20);
  pd_id other = pd_value_id(pd_text("other")), young, old;
  prove(&w, PD_PROOF_VALUE_ID, w.keys[0], NULL, &proof);
  pd_bytes bytes = pd_buf_bytes(&proof);
  assert_int_equal(pd_check_proof(bytes, &(pd_proof_expect){.commit = &other}, &p, &err), PD_CONFLICT);
  assert_non_null(strstr(err.message, "another commit"));
  assert_int_equal(pd_check_proof(bytes, &(pd_proof_expect){.key = pd_text("other")}, &p, &err), PD_CONFLICT);
  assert_non_null(strstr(err.message, "another key"));
  assert_int_equal(pd_check_proof(bytes, &(pd_proof_expect){.ancestor = &other}, &p, &err), PD_CONFLICT);
  make_chain(3, &proof, &young, &old);
  bytes = pd_buf_bytes(&proof);
  assert_int_equal(pd_check_proof(bytes, &(pd_proof_expect){.ancestor = &other}, &p, &err), PD_CONFLICT);
  assert_int_equal(pd_check_proof(bytes, &(pd_proof_expect){.key = pd_text("k")}, &p, &err), PD_CONFLICT);
  assert_int_equal(p.kind, 0); /* outputs are untouched */
  assert_int_equal(pd_check_proof(bytes, &(pd_proof_expect){.commit = &young, .ancestor = &old}, &p, &err), PD_OK);
  pd_buf_done(&proof);
  done_world(&w);
}

static void proof__of_absurd_size_or_format_is_refused(void **state)
{
  (void)state;
  pd_proof p;
  pd_error err;
  pd_buf proof = {0};
  pd_id young, old;
  assert_int_equal(judge((pd_bytes){"", 0}, &p), PD_CORRUPT);
  assert_int_equal(judge(pd_text("PDPF"), &p), PD_CORRUPT);
  uint8_t *huge = calloc(1, PD_PROOF_SIZE_MAX + 1);
  assert_non_null(huge);
  assert_int_equal(judge((pd_bytes){huge, PD_PROOF_SIZE_MAX + 1}, &p), PD_LIMIT);
  free(huge);
  make_chain(2, &proof, &young, &old);
  proof.data[4] = 2;
  reseal(&proof);
  assert_int_equal(judge(pd_buf_bytes(&proof), &p), PD_FORMAT);
  assert_int_equal(pd_check_proof(pd_buf_bytes(&proof), NULL, NULL, &err), PD_FORMAT);
  assert_string_equal(err.message, "the proof has format 2, this perdure knows 1");
  pd_buf_done(&proof);
}

static void golden__the_format_is_as_the_table_says(void **state)
{
  (void)state;
  /* "a" is absent under the root commit: 50445046 01 03, key, commit, empty node, seal */
  pd_buf proof = {0};
  pd_id tree = pd_tree_empty_id(), whole, expected;
  assert_int_equal(pd_proof_begin(&proof, PD_PROOF_ABSENT, pd_text("a"), NULL), PD_OK);
  assert_int_equal(pd_proof_add_commit(&proof, &tree, NULL, 0, NULL), PD_OK);
  assert_int_equal(pd_buf_append(&proof, "N\0\0\0", 4, NULL), PD_OK);
  assert_int_equal(proof.size, 4 + 1 + 1 + 2 + 1 + 34 + 4);
  assert_memory_equal(proof.data, "PDPF\1\3\1\0aC\0", 11);
  assert_int_equal(pd_proof_seal(&proof, NULL), PD_OK);
  whole = pd_sha256(pd_buf_bytes(&proof));
  assert_true(pd_id_parse("b2e4029a7bad4b053f4fe3b8143e70825d8297c758b8fc2d054bae346e98dd54", &expected));
  assert_memory_equal(whole.bytes, expected.bytes, PD_ID_SIZE);
  pd_proof p;
  assert_int_equal(judge(pd_buf_bytes(&proof), &p), PD_OK);
  expected = pd_commit_root_id();
  assert_true(pd_id_equal(&p.commit, &expected));
  pd_buf_done(&proof);
}

int main(void)
{
  const char *seed = getenv("PERDURE_SEED");
  if (getrandom(&random_state, sizeof random_state, 0) != sizeof random_state) random_state = 1;
  random_state %= 1000000000;
  if (seed && *seed) random_state = strtoull(seed, NULL, 10);
  printf("# PERDURE_SEED=%llu\n", (unsigned long long)random_state);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(proof__of_10000_random_stores_all_verify_and_no_mutated_one_does),
    cmocka_unit_test(proof__with_any_byte_flipped_or_cut_off_is_refused),
    cmocka_unit_test(descent__verifies_along_any_parent_and_no_mutated_one_does),
    cmocka_unit_test(descent__over_more_commits_than_the_limit_is_refused),
    cmocka_unit_test(forged__trees_whose_nodes_do_not_fit_together_are_refused),
    cmocka_unit_test(forged__a_neighbours_leaf_does_not_show_absence),
    cmocka_unit_test(proof__for_another_key_or_commit_or_ancestor_is_refused),
    cmocka_unit_test(proof__of_absurd_size_or_format_is_refused),
    cmocka_unit_test(golden__the_format_is_as_the_table_says),
  };
  return cmocka_run_group_tests_name("dag/proof", tests, NULL, NULL);
}
