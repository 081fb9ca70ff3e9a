/* log_clauses.c: B1 to B5 of backend.h. */
#include "contract/contract_world.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BIG_SIZE (5u << 20)

static void B1_records_take_the_numbers_asked_for(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  for (uint64_t seq = 1; seq <= 600; seq++) assert_int_equal(append_numbered(b, seq, 1, NULL), PD_OK); /* some are empty */
  expect_numbered_log(b, 600);
  w->ops->close(b);
}

static void B1_batches_and_single_records_mix(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  uint64_t seq = 1;
  for (size_t round = 1; round <= 40; round++) {
    size_t count = round % 3 ? round : 1;
    assert_int_equal(append_numbered(b, seq, count, NULL), PD_OK);
    seq += count;
  }
  expect_numbered_log(b, seq - 1);
  w->ops->close(b);
}

static void B1_a_batch_of_a_thousand_is_one_append(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  assert_int_equal(append_numbered(b, 1, 1000, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 1001, 1000, NULL), PD_OK);
  expect_numbered_log(b, 2000);
  w->ops->close(b);
}

static void B1_numbers_begin_at_one(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_error err = {0};
  assert_int_equal(append_numbered(b, 0, 1, &err), PD_INVALID);
  assert_true(strlen(err.message) > 0);
  assert_int_equal(append_numbered(b, UINT64_MAX, 2, NULL), PD_INVALID);
  expect_numbered_log(b, 0);
  w->ops->close(b);
}

static void B1_an_append_of_nothing_is_refused(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  assert_int_equal(b->ops->log_append(b, 1, NULL, 0, NULL), PD_INVALID);
  expect_numbered_log(b, 0);
  w->ops->close(b);
}

static pd_code expect_big(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)err;
  const uint8_t *big = ctx;
  bool is_big = seq % 2 == 1;
  assert_int_equal(record.size, is_big ? BIG_SIZE : 0);
  if (is_big) assert_memory_equal(record.data, big, BIG_SIZE);
  return PD_OK;
}

static void B1_empty_and_huge_records_come_back_byte_for_byte(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  uint8_t *big = malloc(BIG_SIZE);
  for (size_t i = 0; i < BIG_SIZE; i++) big[i] = (uint8_t)(i * 2654435761u >> 13);
  pd_bytes records[] = {{big, BIG_SIZE}, {NULL, 0}, {big, BIG_SIZE}, {NULL, 0}};
  assert_int_equal(b->ops->log_append(b, 1, &records[0], 1, NULL), PD_OK);
  assert_int_equal(b->ops->log_append(b, 2, &records[1], 1, NULL), PD_OK);
  assert_int_equal(b->ops->log_append(b, 3, records, 4, NULL), PD_OK);
  b = world_reopen(w, b, "main");
  assert_int_equal(b->ops->log_read(b, 1, 6, expect_big, big, NULL), PD_OK);
  w->ops->close(b);
  free(big);
}

static void B2_a_taken_number_is_a_conflict_and_changes_nothing(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  assert_int_equal(append_numbered(b, 1, 1, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 2, 5, NULL), PD_OK);
  for (uint64_t seq = 1; seq <= 6; seq++) { /* also in the middle of a batch, and reaching past the tail */
    pd_error err = {0};
    assert_int_equal(append_numbered(b, seq, 1, &err), PD_CONFLICT);
    assert_int_equal(err.expected, seq);
    assert_int_equal(err.actual, 7);
    assert_int_equal(append_numbered(b, seq, 9, NULL), PD_CONFLICT);
  }
  expect_numbered_log(b, 6);
  assert_int_equal(append_numbered(b, 7, 1, NULL), PD_OK);
  expect_numbered_log(b, 7);
  w->ops->close(b);
}

static void B2_a_gap_is_invalid_and_changes_nothing(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  assert_int_equal(append_numbered(b, 2, 1, NULL), PD_INVALID);
  assert_int_equal(append_numbered(b, 1, 3, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 5, 1, NULL), PD_INVALID);
  assert_int_equal(append_numbered(b, 1000000, 1, NULL), PD_INVALID);
  expect_numbered_log(b, 3);
  assert_int_equal(append_numbered(b, 4, 1, NULL), PD_OK);
  expect_numbered_log(b, 4);
  w->ops->close(b);
}

static void B3_records_survive_reopening(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  uint64_t tail = 0;
  for (size_t round = 1; round <= 8; round++) {
    assert_int_equal(append_numbered(b, tail + 1, round * 3, NULL), PD_OK);
    tail += round * 3;
    b = world_reopen(w, b, "main");
    expect_numbered_log(b, tail);
  }
  w->ops->close(b);
}

/* Appends until it is killed, telling each acknowledged number through the pipe. */
static int pipe_ends[2];

static int append_and_tell(contract_world *w, int index)
{
  (void)index;
  pd_backend *b = NULL;
  if (w->ops->open(w->rest, "main", PD_BACKEND_CREATE, &b, NULL) != PD_OK) return 1;
  for (uint64_t seq = b->ops->log_tail_hint(b) + 1;; seq++) {
    if (append_numbered(b, seq, 1, NULL) != PD_OK) return 2;
    if (write(pipe_ends[1], &seq, sizeof seq) != (ssize_t)sizeof seq) return 3;
  }
}

static void B3_what_was_acknowledged_survives_kill_9(void **state)
{
  contract_world *w = *state;
  uint64_t seq = 0, acknowledged = 0;
  for (uint64_t round = 1; round <= 5; round++) {
    assert_int_equal(pipe(pipe_ends), 0);
    int pid = child_start(append_and_tell, w, 0);
    close(pipe_ends[1]);
    while (acknowledged < round * 15 && read(pipe_ends[0], &seq, sizeof seq) == (ssize_t)sizeof seq) acknowledged = seq;
    kill(pid, SIGKILL);
    while (read(pipe_ends[0], &seq, sizeof seq) == (ssize_t)sizeof seq) acknowledged = seq;
    close(pipe_ends[0]);
    assert_int_equal(child_wait(pid), -SIGKILL);
    pd_backend *b = world_open(w, "main");
    uint64_t tail = 0;
    assert_int_equal(append_anywhere(b, 1, NULL), PD_OK); /* what a server still had of it on the way comes before this, or not at all */
    assert_int_equal(b->ops->log_tail(b, &tail, NULL), PD_OK);
    assert_true(tail >= acknowledged + 1 && tail <= acknowledged + 2);
    expect_numbered_log(b, tail);
    acknowledged = tail;
    w->ops->close(b);
  }
}

static void B4_any_range_is_visited_in_order(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  static seq_list list;
  assert_int_equal(append_numbered(b, 1, 1, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 2, 7, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 9, 1, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 10, 4, NULL), PD_OK);
  for (uint64_t from = 1; from <= 15; from++) {
    for (uint64_t to = 1; to <= 16; to++) {
      uint64_t last = to < 13 ? to : 13;
      list.count = 0;
      assert_int_equal(b->ops->log_read(b, from, to, collect_seq, &list, NULL), PD_OK);
      assert_int_equal(list.count, from <= last ? last - from + 1 : 0);
      for (size_t i = 0; i < list.count; i++) assert_int_equal(list.seqs[i], from + i);
    }
  }
  w->ops->close(b);
}

static void B4_a_long_log_is_read_without_gaps(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  for (uint64_t i = 0; i < 12; i++) assert_int_equal(append_numbered(b, 1 + i * 999, 999, NULL), PD_OK);
  expect_numbered_log(b, 12 * 999);
  static seq_list list;
  list.count = 0;
  assert_int_equal(b->ops->log_read(b, 1500, 5499, collect_seq, &list, NULL), PD_OK);
  assert_int_equal(list.count, 4000);
  for (size_t i = 0; i < list.count; i++) assert_int_equal(list.seqs[i], 1500 + i);
  w->ops->close(b);
}

static void B4_past_the_tail_there_is_nothing_and_zero_is_refused(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  static seq_list list;
  list.count = 0;
  assert_int_equal(b->ops->log_read(b, 1, UINT64_MAX, collect_seq, &list, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 1, 3, NULL), PD_OK);
  assert_int_equal(b->ops->log_read(b, 4, UINT64_MAX, collect_seq, &list, NULL), PD_OK);
  assert_int_equal(b->ops->log_read(b, 4000, 5000, collect_seq, &list, NULL), PD_OK);
  assert_int_equal(b->ops->log_read(b, UINT64_MAX, UINT64_MAX, collect_seq, &list, NULL), PD_OK);
  assert_int_equal(b->ops->log_read(b, 0, 3, collect_seq, &list, NULL), PD_INVALID);
  assert_int_equal(list.count, 0);
  w->ops->close(b);
}

static pd_code stop_at_five(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)record;
  *(uint64_t *)ctx = seq;
  return seq == 5 ? pd_error_set(err, PD_QUOTA, "enough") : PD_OK;
}

static void B4_a_visitor_that_refuses_stops_the_reading_and_is_passed_on(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  uint64_t seen = 0;
  pd_error err = {0};
  assert_int_equal(append_numbered(b, 1, 4, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 5, 4, NULL), PD_OK);
  assert_int_equal(b->ops->log_read(b, 2, 8, stop_at_five, &seen, &err), PD_QUOTA);
  assert_string_equal(err.message, "enough");
  assert_int_equal(seen, 5);
  expect_numbered_log(b, 8);
  assert_int_equal(append_numbered(b, 9, 1, NULL), PD_OK);
  w->ops->close(b);
}

static void B5_the_tail_of_an_empty_log_is_zero(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  uint64_t tail = 99;
  assert_int_equal(b->ops->log_tail(b, &tail, NULL), PD_OK);
  assert_int_equal(tail, 0);
  assert_int_equal(b->ops->log_tail_hint(b), 0);
  w->ops->close(b);
}

static void B5_each_handle_sees_the_tail_that_another_made(void **state)
{
  contract_world *w = *state;
  pd_backend *a = world_open(w, "main"), *b = world_open(w, "main");
  for (uint64_t seq = 1; seq <= 40; seq++) {
    pd_backend *writer = seq % 2 ? a : b, *reader = seq % 2 ? b : a;
    uint64_t tail = 0;
    assert_int_equal(append_numbered(writer, seq, 1, NULL), PD_OK);
    assert_int_equal(reader->ops->log_tail_hint(reader), seq);
    assert_int_equal(reader->ops->log_tail(reader, &tail, NULL), PD_OK);
    assert_int_equal(tail, seq);
  }
  expect_numbered_log(a, 40);
  expect_numbered_log(b, 40);
  w->ops->close(a);
  w->ops->close(b);
}

const clause log_clauses[] = {
  CLAUSE(B1_records_take_the_numbers_asked_for),
  CLAUSE(B1_batches_and_single_records_mix),
  CLAUSE(B1_a_batch_of_a_thousand_is_one_append),
  CLAUSE(B1_numbers_begin_at_one),
  CLAUSE(B1_an_append_of_nothing_is_refused),
  CLAUSE(B1_empty_and_huge_records_come_back_byte_for_byte),
  CLAUSE(B2_a_taken_number_is_a_conflict_and_changes_nothing),
  CLAUSE(B2_a_gap_is_invalid_and_changes_nothing),
  CLAUSE(B3_records_survive_reopening),
  CLAUSE_IF(B3_what_was_acknowledged_survives_kill_9, NEEDS_PROCESSES),
  CLAUSE(B4_any_range_is_visited_in_order),
  CLAUSE(B4_a_long_log_is_read_without_gaps),
  CLAUSE(B4_past_the_tail_there_is_nothing_and_zero_is_refused),
  CLAUSE(B4_a_visitor_that_refuses_stops_the_reading_and_is_passed_on),
  CLAUSE(B5_the_tail_of_an_empty_log_is_zero),
  CLAUSE(B5_each_handle_sees_the_tail_that_another_made),
  {NULL, NULL, NEEDS_NOTHING},
};
