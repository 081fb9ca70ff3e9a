/* chunk_test.c: src/dag/chunk.c: where large values are cut, and the lists of their pieces. PERDURE_SEED replays a run. */
#include "base/buf.h"
#include "base/sha256.h"
#include "dag/chunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define CUTS_MAX 4096

typedef struct cuts {
  pd_chunk chunks[CUTS_MAX];
  size_t count;
} cuts;

static pd_gear gear;

static uint64_t next_random(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static uint8_t *noise(size_t size, uint64_t seed)
{
  uint8_t *data = malloc(size + 1);
  assert_non_null(data);
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)(next_random(&seed) >> 56);
  return data;
}

static uint64_t seed_of_run(void)
{
  const char *text = getenv("PERDURE_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 10) : 20261116;
  print_message("# PERDURE_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

static void cut_all(const uint8_t *data, size_t size, cuts *out)
{
  out->count = 0;
  for (size_t at = 0; at < size;) {
    size_t n = pd_chunk_cut(&gear, (pd_bytes){data + at, size - at});
    assert_true(n > 0 && n <= size - at);
    out->chunks[out->count++] = (pd_chunk){pd_sha256((pd_bytes){data + at, n}), (uint32_t)n};
    at += n;
  }
}

/* How many pieces of `b` are not in `a`. */
static size_t count_new(const cuts *a, const cuts *b)
{
  size_t fresh = 0;
  for (size_t i = 0; i < b->count; i++) {
    bool is_known = false;
    for (size_t k = 0; k < a->count && !is_known; k++) is_known = pd_id_equal(&a->chunks[k].id, &b->chunks[i].id);
    fresh += !is_known;
  }
  return fresh;
}

static int make_gear(void **state)
{
  (void)state;
  pd_gear_init(&gear);
  return 0;
}

/* ---- cutting ---- */

static void chunk__sizes_keep_their_bounds_and_their_mean(void **state)
{
  (void)state;
  size_t size = 32 << 20;
  uint8_t *data = noise(size, 1);
  cuts *c = malloc(sizeof *c);
  cut_all(data, size, c);
  for (size_t i = 0; i + 1 < c->count; i++) assert_in_range(c->chunks[i].size, PD_CHUNK_SIZE_MIN + 1, PD_CHUNK_SIZE_MAX);
  size_t mean = size / c->count;
  assert_in_range(mean, 15 << 10, 17 << 10);
  free(c);
  free(data);
}

static void chunk__what_never_fits_a_boundary_is_cut_at_the_maximum(void **state)
{
  (void)state;
  size_t size = (PD_CHUNK_SIZE_MAX << 1) + 10;
  uint8_t *zeros = calloc(size, 1);
  assert_int_equal(pd_chunk_cut(&gear, (pd_bytes){zeros, size}), PD_CHUNK_SIZE_MAX);
  assert_int_equal(pd_chunk_cut(&gear, (pd_bytes){zeros, PD_CHUNK_SIZE_MIN}), PD_CHUNK_SIZE_MIN);
  assert_int_equal(pd_chunk_cut(&gear, (pd_bytes){zeros, 1}), 1);
  assert_int_equal(pd_chunk_cut(&gear, (pd_bytes){zeros, 0}), 0);
  free(zeros);
}

/* The parameters are part of the format: if this fails, every value stored before is stored again at its next edit. */
static void chunk__cuts_are_golden(void **state)
{
  (void)state;
  static const uint32_t golden[] = {4857,  18681, 13365, 7625,  17668, 20380, 23387, 14955, 19690,
                                    17488, 13818, 27700, 15305, 17525, 14448, 12779, 2473};
  uint8_t *data = noise(256 << 10, 42);
  cuts *c = malloc(sizeof *c);
  cut_all(data, 256 << 10, c);
  assert_int_equal(c->count, sizeof golden / sizeof *golden);
  for (size_t i = 0; i < c->count; i++) assert_int_equal(c->chunks[i].size, golden[i]);
  free(c);
  free(data);
}

typedef enum edit_kind { INSERT, DELETE, REPLACE } edit_kind;

/* Apply one edit of up to 100 bytes at a random place; gives the new bytes. */
static uint8_t *edit(const uint8_t *data, size_t size, edit_kind kind, uint64_t *random, size_t *out_size)
{
  size_t n = 1 + next_random(random) % 100, at = next_random(random) % (size - n);
  uint8_t *made = malloc(size + n);
  uint8_t *fresh = noise(n, next_random(random));
  size_t skip = kind == INSERT ? 0 : n, put = kind == DELETE ? 0 : n;
  memcpy(made, data, at);
  memcpy(made + at, fresh, put);
  memcpy(made + at + put, data + at + skip, size - at - skip);
  *out_size = size - skip + put;
  free(fresh);
  return made;
}

static void chunk__an_edit_anywhere_changes_few_pieces(void **state)
{
  (void)state;
  uint64_t random = seed_of_run();
  size_t size = 4 << 20, total = 0, rounds = 150;
  uint8_t *data = noise(size, next_random(&random));
  cuts *before = malloc(sizeof *before), *after = malloc(sizeof *after);
  cut_all(data, size, before);
  for (size_t round = 0; round < rounds; round++) {
    size_t edited_size;
    uint8_t *edited = edit(data, size, (edit_kind)(round % 3), &random, &edited_size);
    cut_all(edited, edited_size, after);
    size_t fresh = count_new(before, after);
    assert_in_range(fresh, 1, 12);
    total += fresh;
    free(edited);
  }
  assert_true(total < rounds * 3); /* one or two, as a rule */
  free(before);
  free(after);
  free(data);
}

/* ---- groups and lists ---- */

static void group__ends_are_decided_by_ids_and_bounds(void **state)
{
  (void)state;
  pd_id marked = {{0}}, plain = {{0}};
  plain.bytes[PD_ID_SIZE - 1] = 1;
  assert_false(pd_group_ends(&marked, PD_GROUP_COUNT_MIN - 1));
  assert_true(pd_group_ends(&marked, PD_GROUP_COUNT_MIN));
  assert_false(pd_group_ends(&plain, PD_GROUP_COUNT_MAX - 1));
  assert_true(pd_group_ends(&plain, PD_GROUP_COUNT_MAX));
}

#define SAMPLE_COUNT 40

static void fill_chunks(pd_chunk *chunks, uint32_t *out_size)
{
  *out_size = 0;
  for (size_t i = 0; i < SAMPLE_COUNT; i++) {
    chunks[i] = (pd_chunk){pd_sha256(pd_text(i % 2 ? "odd" : "even")), (uint32_t)(5000 + i * 100)};
    *out_size += chunks[i].size;
  }
}

static void group__gives_back_what_was_encoded(void **state)
{
  (void)state;
  pd_chunk chunks[SAMPLE_COUNT], got;
  pd_group name = {.count = SAMPLE_COUNT};
  pd_buf blob = {0};
  pd_list_walk walk;
  fill_chunks(chunks, &name.size);
  assert_int_equal(pd_group_encode(chunks, SAMPLE_COUNT, &blob, NULL), PD_OK);
  assert_int_equal(pd_group_open(pd_buf_bytes(&blob), &name, &walk, NULL), PD_OK);
  for (size_t i = 0; i < SAMPLE_COUNT; i++) {
    assert_true(pd_group_next(&walk, &got));
    assert_true(pd_id_equal(&got.id, &chunks[i].id));
    assert_int_equal(got.size, chunks[i].size);
  }
  assert_false(pd_group_next(&walk, &got));
  pd_buf_done(&blob);
}

static void group__another_one_than_the_list_names_is_refused(void **state)
{
  (void)state;
  pd_chunk chunks[SAMPLE_COUNT];
  pd_group name = {.count = SAMPLE_COUNT};
  pd_buf blob = {0};
  pd_list_walk walk;
  fill_chunks(chunks, &name.size);
  assert_int_equal(pd_group_encode(chunks, SAMPLE_COUNT, &blob, NULL), PD_OK);
  name.size++;
  assert_int_equal(pd_group_open(pd_buf_bytes(&blob), &name, &walk, NULL), PD_CORRUPT);
  name.size--;
  name.count++;
  assert_int_equal(pd_group_open(pd_buf_bytes(&blob), &name, &walk, NULL), PD_CORRUPT);
  pd_buf_done(&blob);
}

static void list__gives_back_what_was_encoded(void **state)
{
  (void)state;
  pd_group groups[2] = {{{{1}}, 64, 1 << 20}, {{{2}}, 1, 77}}, got;
  pd_buf blob = {0};
  pd_list_walk walk;
  assert_int_equal(pd_list_encode(groups, 2, &blob, NULL), PD_OK);
  assert_int_equal(pd_list_open(pd_buf_bytes(&blob), &walk, NULL), PD_OK);
  assert_int_equal(walk.size, (1 << 20) + 77);
  for (size_t i = 0; i < 2; i++) {
    assert_true(pd_list_next(&walk, &got));
    assert_true(pd_id_equal(&got.id, &groups[i].id) && got.count == groups[i].count && got.size == groups[i].size);
  }
  assert_false(pd_list_next(&walk, &got));
  pd_buf_done(&blob);
}

/* Cut at each byte, one byte too many, another mark, another format. */
static void list__malformed_blobs_are_refused(void **state)
{
  (void)state;
  pd_group groups[2] = {{{{1}}, 64, 1 << 20}, {{{2}}, 1, 77}};
  pd_chunk chunks[SAMPLE_COUNT];
  uint32_t size;
  pd_buf list = {0}, group = {0};
  pd_list_walk walk;
  fill_chunks(chunks, &size);
  assert_int_equal(pd_list_encode(groups, 2, &list, NULL), PD_OK);
  assert_int_equal(pd_group_encode(chunks, SAMPLE_COUNT, &group, NULL), PD_OK);
  for (size_t n = 0; n < list.size; n++) assert_int_equal(pd_list_open((pd_bytes){list.data, n}, &walk, NULL), PD_CORRUPT);
  for (size_t n = 0; n < group.size; n++) assert_int_equal(pd_group_open((pd_bytes){group.data, n}, NULL, &walk, NULL), PD_CORRUPT);
  assert_int_equal(pd_list_open(pd_buf_bytes(&group), &walk, NULL), PD_CORRUPT);
  assert_int_equal(pd_group_open(pd_buf_bytes(&list), NULL, &walk, NULL), PD_CORRUPT);
  for (size_t i = 0; i < 2; i++) {
    list.data[i] ^= 1, group.data[i] ^= 1;
    assert_int_equal(pd_list_open(pd_buf_bytes(&list), &walk, NULL), PD_CORRUPT);
    assert_int_equal(pd_group_open(pd_buf_bytes(&group), NULL, &walk, NULL), PD_CORRUPT);
    list.data[i] ^= 1, group.data[i] ^= 1;
  }
  assert_int_equal(pd_buf_byte(&list, 0, NULL), PD_OK);
  assert_int_equal(pd_list_open(pd_buf_bytes(&list), &walk, NULL), PD_CORRUPT);
  pd_buf_done(&list);
  pd_buf_done(&group);
}

static void list__sizes_out_of_bounds_are_refused(void **state)
{
  (void)state;
  pd_group none = {{{1}}, 0, 10}, many = {{{1}}, PD_GROUP_COUNT_MAX + 1, 10}, empty = {{{1}}, 1, 0};
  pd_chunk huge = {{{1}}, PD_CHUNK_SIZE_MAX + 1}, nil = {{{1}}, 0};
  const pd_group *groups[] = {&none, &many, &empty};
  const pd_chunk *chunks[] = {&huge, &nil};
  pd_list_walk walk;
  pd_buf blob = {0};
  for (size_t i = 0; i < 3; i++) {
    pd_buf_clear(&blob);
    assert_int_equal(pd_list_encode(groups[i], 1, &blob, NULL), PD_OK);
    assert_int_equal(pd_list_open(pd_buf_bytes(&blob), &walk, NULL), PD_CORRUPT);
  }
  for (size_t i = 0; i < 2; i++) {
    pd_buf_clear(&blob);
    assert_int_equal(pd_group_encode(chunks[i], 1, &blob, NULL), PD_OK);
    assert_int_equal(pd_group_open(pd_buf_bytes(&blob), NULL, &walk, NULL), PD_CORRUPT);
  }
  pd_buf_done(&blob);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(chunk__sizes_keep_their_bounds_and_their_mean),
    cmocka_unit_test(chunk__what_never_fits_a_boundary_is_cut_at_the_maximum),
    cmocka_unit_test(chunk__cuts_are_golden),
    cmocka_unit_test(chunk__an_edit_anywhere_changes_few_pieces),
    cmocka_unit_test(group__ends_are_decided_by_ids_and_bounds),
    cmocka_unit_test(group__gives_back_what_was_encoded),
    cmocka_unit_test(group__another_one_than_the_list_names_is_refused),
    cmocka_unit_test(list__gives_back_what_was_encoded),
    cmocka_unit_test(list__malformed_blobs_are_refused),
    cmocka_unit_test(list__sizes_out_of_bounds_are_refused),
  };
  return cmocka_run_group_tests_name("dag/chunk", tests, make_gear, NULL);
}
