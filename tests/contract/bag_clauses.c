/* bag_clauses.c: B6 and B7 of backend.h. */
#include "contract/contract_world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG_SIZE (5u << 20)
#define MANY 3000

static void B6_the_very_bytes_come_back(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  static const char with_nul[] = "a\0b\0\xFF\0";
  const pd_bytes blobs[] = {pd_text("one"), {with_nul, sizeof with_nul}, {NULL, 0}, pd_text("{\"step\":1}")};
  pd_id ids[4];
  for (size_t i = 0; i < 4; i++) ids[i] = pd_value_id(blobs[i]);
  assert_int_equal(b->ops->bag_put(b, ids, blobs, 4, NULL), PD_OK);
  for (size_t i = 0; i < 4; i++) expect_blob(b, &ids[i], blobs[i]);
  b = world_reopen(w, b, "main");
  for (size_t i = 0; i < 4; i++) expect_blob(b, &ids[i], blobs[i]);
  w->ops->close(b);
}

static void B6_an_absent_blob_is_not_found_and_leaves_the_output(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_id id = pd_value_id(pd_text("never put"));
  pd_buf out = {0};
  pd_error err = {0};
  assert_int_equal(b->ops->bag_get(b, &id, &out, &err), PD_NOT_FOUND);
  assert_true(strlen(err.message) > 0);
  assert_int_equal(b->ops->bag_get(b, &id, &out, NULL), PD_NOT_FOUND);
  assert_int_equal(out.size, 0);
  assert_int_equal(put_text(b, "something else", &(pd_id){{0}}), PD_OK);
  assert_int_equal(b->ops->bag_get(b, &id, &out, NULL), PD_NOT_FOUND);
  pd_buf_done(&out);
  w->ops->close(b);
}

static void B6_bytes_are_appended_to_the_output(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_id one, two;
  pd_buf out = {0};
  assert_int_equal(put_text(b, "one", &one), PD_OK);
  assert_int_equal(put_text(b, "two", &two), PD_OK);
  assert_int_equal(b->ops->bag_get(b, &one, &out, NULL), PD_OK);
  assert_int_equal(b->ops->bag_get(b, &two, &out, NULL), PD_OK);
  assert_int_equal(out.size, 6);
  assert_memory_equal(out.data, "onetwo", 6);
  pd_buf_done(&out);
  w->ops->close(b);
}

static void B6_an_output_that_is_too_small_is_a_limit_and_the_handle_goes_on(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_id id;
  pd_buf out = {.size_max = 4};
  assert_int_equal(put_text(b, "five!", &id), PD_OK);
  assert_int_equal(b->ops->bag_get(b, &id, &out, NULL), PD_LIMIT);
  assert_int_equal(out.size, 0);
  expect_blob(b, &id, pd_text("five!"));
  pd_buf_done(&out);
  w->ops->close(b);
}

static void B6_what_is_there_is_left_as_it_is(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_id id = pd_value_id(pd_text("first"));
  const pd_id twice[] = {id, id};
  const pd_bytes different[] = {pd_text("first"), pd_text("second")};
  assert_int_equal(b->ops->bag_put(b, twice, different, 2, NULL), PD_OK); /* within one call */
  expect_blob(b, &id, different[0]);
  assert_int_equal(b->ops->bag_put(b, &id, &different[1], 1, NULL), PD_OK); /* and between calls */
  expect_blob(b, &id, different[0]);
  pd_backend_usage usage = {0};
  if (b->ops->usage) {
    assert_int_equal(b->ops->usage(b, &usage, NULL), PD_OK);
    assert_int_equal(usage.bag_count, 1);
    assert_int_equal(usage.bag_bytes, 5);
    assert_int_equal(usage.log_bytes, 0);
  }
  w->ops->close(b);
}

static void B6_ids_that_begin_alike_are_kept_apart(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_id ids[64];
  pd_bytes blobs[64];
  char texts[64][8];
  for (size_t i = 0; i < 64; i++) { /* only one byte differs, and it is each of the 32 in turn, twice */
    memset(&ids[i], 0xAB, sizeof ids[i]);
    ids[i].bytes[i % 32] = (uint8_t)(i < 32 ? 0 : 1);
    snprintf(texts[i], sizeof texts[i], "b%zu", i);
    blobs[i] = pd_text(texts[i]);
  }
  assert_int_equal(b->ops->bag_put(b, ids, blobs, 64, NULL), PD_OK);
  for (size_t i = 0; i < 64; i++) expect_blob(b, &ids[i], blobs[i]);
  pd_id other;
  pd_buf out = {0};
  memset(&other, 0xAB, sizeof other);
  assert_int_equal(b->ops->bag_get(b, &other, &out, NULL), PD_NOT_FOUND);
  w->ops->close(b);
}

static void B6_a_blob_of_five_megabytes(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  uint8_t *big = malloc(BIG_SIZE);
  for (size_t i = 0; i < BIG_SIZE; i++) big[i] = (uint8_t)(i * 2654435761u >> 11);
  pd_bytes blob = {big, BIG_SIZE};
  pd_id id = pd_value_id(blob);
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, NULL), PD_OK);
  b = world_reopen(w, b, "main");
  expect_blob(b, &id, blob);
  w->ops->close(b);
  free(big);
}

static void B6_many_blobs_in_many_calls(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  static pd_id ids[MANY];
  static pd_bytes blobs[MANY];
  static char texts[MANY][16];
  for (size_t i = 0; i < MANY; i++) {
    snprintf(texts[i], sizeof texts[i], "blob %zu", i);
    blobs[i] = pd_text(texts[i]);
    ids[i] = pd_value_id(blobs[i]);
  }
  for (size_t i = 0; i < MANY; i += 300) assert_int_equal(b->ops->bag_put(b, &ids[i], &blobs[i], 300, NULL), PD_OK);
  assert_int_equal(b->ops->bag_put(b, ids, blobs, MANY, NULL), PD_OK);
  for (size_t i = 0; i < MANY; i++) expect_blob(b, &ids[i], blobs[i]);
  w->ops->close(b);
}

static void B6_a_put_of_nothing_is_fine(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  assert_int_equal(b->ops->bag_put(b, NULL, NULL, 0, NULL), PD_OK);
  expect_numbered_log(b, 0);
  w->ops->close(b);
}

static void B6_the_bag_does_not_move_the_log(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_id id;
  assert_int_equal(append_numbered(b, 1, 2, NULL), PD_OK);
  assert_int_equal(put_text(b, "between", &id), PD_OK);
  expect_numbered_log(b, 2);
  assert_int_equal(append_numbered(b, 3, 1, NULL), PD_OK);
  expect_numbered_log(b, 3);
  expect_blob(b, &id, pd_text("between"));
  w->ops->close(b);
}

/* Puts a blob, appends, and dies without closing. */
static int put_append_die(contract_world *w, int index)
{
  pd_backend *b = NULL;
  pd_id id;
  char text[32];
  snprintf(text, sizeof text, "blob of round %d", index);
  if (w->ops->open(w->rest, "main", PD_BACKEND_CREATE, &b, NULL) != PD_OK) return 1;
  if (put_text(b, text, &id) != PD_OK) return 2;
  if (append_numbered(b, (uint64_t)index + 1, 1, NULL) != PD_OK) return 3;
  raise(SIGKILL);
  return 4;
}

static void B7_blobs_before_an_acknowledged_append_survive_kill_9(void **state)
{
  contract_world *w = *state;
  for (int round = 0; round < 5; round++) {
    assert_int_equal(child_wait(child_start(put_append_die, w, round)), -SIGKILL);
    pd_backend *b = world_open(w, "main");
    expect_numbered_log(b, (uint64_t)round + 1);
    for (int i = 0; i <= round; i++) {
      char text[32];
      snprintf(text, sizeof text, "blob of round %d", i);
      pd_id id = pd_value_id(pd_text(text));
      expect_blob(b, &id, pd_text(text));
    }
    w->ops->close(b);
  }
}

const clause bag_clauses[] = {
  CLAUSE(B6_the_very_bytes_come_back),
  CLAUSE(B6_an_absent_blob_is_not_found_and_leaves_the_output),
  CLAUSE(B6_bytes_are_appended_to_the_output),
  CLAUSE(B6_an_output_that_is_too_small_is_a_limit_and_the_handle_goes_on),
  CLAUSE(B6_what_is_there_is_left_as_it_is),
  CLAUSE(B6_ids_that_begin_alike_are_kept_apart),
  CLAUSE(B6_a_blob_of_five_megabytes),
  CLAUSE(B6_many_blobs_in_many_calls),
  CLAUSE(B6_a_put_of_nothing_is_fine),
  CLAUSE(B6_the_bag_does_not_move_the_log),
  CLAUSE_IF(B7_blobs_before_an_acknowledged_append_survive_kill_9, NEEDS_PROCESSES),
  {NULL, NULL, NEEDS_NOTHING},
};
