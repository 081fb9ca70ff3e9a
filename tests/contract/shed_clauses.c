/* shed_clauses.c: B14 to B18 of backend.h: redaction, sweeping, compaction, waiting. A backend that lacks one skips its clauses. */
#include "contract/contract_world.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_COUNT 300
#define BLOB_COUNT 700

/* ---- B14, redaction ----------------------------------------------------------------------------------------------- */

/* What the log should be: record_of(seq), but where `is_empty` nothing, and where `text` is set that. */
typedef struct expectation {
  bool is_empty[LOG_COUNT + 1];
  const char *texts[LOG_COUNT + 1];
  uint64_t last;
} expectation;

static pd_code expect_redacted(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  expectation *e = ctx;
  uint8_t bytes[RECORD_SIZE_MAX];
  (void)err;
  assert_int_equal(seq, e->last + 1);
  e->last = seq;
  pd_bytes want = e->is_empty[seq] ? (pd_bytes){0} : e->texts[seq] ? pd_text(e->texts[seq]) : record_of(seq, bytes);
  assert_int_equal(record.size, want.size);
  if (want.size) assert_memory_equal(record.data, want.data, want.size);
  return PD_OK;
}

static void expect_log(pd_backend *b, expectation *e, uint64_t tail)
{
  uint64_t found = 0;
  pd_error err = {0};
  e->last = 0;
  if (b->ops->log_read(b, 1, UINT64_MAX, expect_redacted, e, &err) != PD_OK) fail_msg("log_read: %s", err.message);
  assert_int_equal(e->last, tail);
  assert_int_equal(b->ops->log_tail(b, &found, NULL), PD_OK);
  assert_int_equal(found, tail);
  for (uint64_t from = 1; from <= tail; from += 37) { /* each record can be met alone, too */
    e->last = from - 1;
    assert_int_equal(b->ops->log_read(b, from, from, expect_redacted, e, NULL), PD_OK);
    assert_int_equal(e->last, from);
  }
}

/* LOG_COUNT records in rows of one and of many. */
static pd_backend *open_with_log(contract_world *w)
{
  pd_backend *b = world_open(w, "main");
  for (uint64_t seq = 1; seq <= 100; seq++) assert_int_equal(append_numbered(b, seq, 1, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 101, 100, NULL), PD_OK);
  for (uint64_t seq = 201; seq <= LOG_COUNT; seq += 10) assert_int_equal(append_numbered(b, seq, 10, NULL), PD_OK);
  return b;
}

static void redact_empty(pd_backend *b, expectation *e, uint64_t seq, size_t count)
{
  static const pd_bytes nothing[LOG_COUNT];
  pd_error err = {0};
  if (b->ops->log_redact(b, seq, nothing, count, &err) != PD_OK) fail_msg("log_redact: %s", err.message);
  for (uint64_t i = seq; i < seq + count; i++) e->is_empty[i] = true, e->texts[i] = NULL;
}

static void B14_redacted_records_are_visited_empty_and_their_neighbours_stay(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_redact) skip();
  pd_backend *b = open_with_log(w);
  static expectation e;
  e = (expectation){0};
  redact_empty(b, &e, 1, 1);
  redact_empty(b, &e, 50, 1);
  redact_empty(b, &e, 90, 40); /* from single ones into the middle of a batch */
  expect_log(b, &e, LOG_COUNT);
  redact_empty(b, &e, 150, 3);
  redact_empty(b, &e, 195, 60);
  redact_empty(b, &e, LOG_COUNT, 1);
  expect_log(b, &e, LOG_COUNT);
  b = world_reopen(w, b, "main");
  expect_log(b, &e, LOG_COUNT);
  redact_empty(b, &e, 1, LOG_COUNT); /* and again, all of it */
  expect_log(b, &e, LOG_COUNT);
  w->ops->close(b);
}

static void B14_other_bytes_can_take_the_place_of_the_old_ones(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_redact) skip();
  pd_backend *b = open_with_log(w);
  static expectation e;
  static char longer[200000];
  e = (expectation){0};
  memset(longer, 'x', sizeof longer - 1);
  const pd_bytes records[] = {pd_text("short"), {NULL, 0}, pd_text(longer), pd_text("")};
  for (uint64_t seq = 99; seq < 250; seq += 50) {
    assert_int_equal(b->ops->log_redact(b, seq, records, 4, NULL), PD_OK);
    e.texts[seq] = "short", e.texts[seq + 2] = longer, e.is_empty[seq + 1] = e.is_empty[seq + 3] = true;
  }
  expect_log(b, &e, LOG_COUNT);
  b = world_reopen(w, b, "main");
  expect_log(b, &e, LOG_COUNT);
  w->ops->close(b);
}

static void B14_past_the_tail_nothing_is_redacted(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_redact) skip();
  pd_backend *b = open_with_log(w);
  static const pd_bytes nothing[LOG_COUNT + 1];
  static expectation e;
  pd_error err = {0};
  e = (expectation){0};
  assert_int_equal(b->ops->log_redact(b, LOG_COUNT + 1, nothing, 1, &err), PD_INVALID);
  assert_true(strlen(err.message) > 0);
  assert_int_equal(b->ops->log_redact(b, LOG_COUNT, nothing, 2, NULL), PD_INVALID);
  assert_int_equal(b->ops->log_redact(b, 1, nothing, LOG_COUNT + 1, NULL), PD_INVALID);
  assert_int_equal(b->ops->log_redact(b, 0, nothing, 1, NULL), PD_INVALID);
  assert_int_equal(b->ops->log_redact(b, 1, nothing, 0, NULL), PD_INVALID);
  assert_int_equal(b->ops->log_redact(b, UINT64_MAX, nothing, 2, NULL), PD_INVALID);
  expect_log(b, &e, LOG_COUNT);
  w->ops->close(b);
}

static void B14_the_log_goes_on_after_a_redaction(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_redact) skip();
  pd_backend *b = world_open(w, "main"), *other = world_open(w, "main");
  static expectation e;
  e = (expectation){0};
  assert_int_equal(append_numbered(b, 1, 20, NULL), PD_OK);
  redact_empty(b, &e, 11, 10);
  assert_int_equal(append_numbered(b, 20, 1, NULL), PD_CONFLICT);
  assert_int_equal(append_numbered(other, 21, 5, NULL), PD_OK);
  assert_int_equal(append_numbered(b, 26, 1, NULL), PD_OK);
  expect_log(b, &e, 26);
  redact_empty(other, &e, 22, 2);
  expect_log(b, &e, 26);
  w->ops->close(other);
  w->ops->close(b);
}

static int redact_and_die(contract_world *w, int index)
{
  pd_backend *b = NULL;
  static const pd_bytes nothing[10];
  if (w->ops->open(w->rest, "main", 0, &b, NULL) != PD_OK) return 1;
  if (b->ops->log_redact(b, (uint64_t)index, nothing, 10, NULL) != PD_OK) return 2;
  raise(SIGKILL);
  return 3;
}

static void B14_a_redaction_survives_kill_9_and_is_seen_by_other_processes(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_redact) skip();
  pd_backend *b = open_with_log(w);
  static expectation e;
  e = (expectation){0};
  for (int seq = 5; seq < 290; seq += 60) {
    assert_int_equal(child_wait(child_start(redact_and_die, w, seq)), -SIGKILL);
    for (int i = seq; i < seq + 10; i++) e.is_empty[i] = true;
    expect_log(b, &e, LOG_COUNT);
  }
  w->ops->close(b);
}

/* ---- B18, redaction of what has not changed ----------------------------------------------------------------------- */

static void B18_scattered_records_are_replaced_if_they_are_what_they_were(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_swap) skip();
  pd_backend *b = open_with_log(w), *other = world_open(w, "main");
  static expectation e;
  e = (expectation){0};
  static uint8_t bytes[4][RECORD_SIZE_MAX];
  static const uint64_t seqs[] = {1, 120, 121, LOG_COUNT};
  pd_log_swap swaps[4];
  for (size_t i = 0; i < 4; i++) {
    swaps[i] = (pd_log_swap){.seq = seqs[i], .was = record_of(seqs[i], bytes[i]), .now = pd_text("swapped")};
    e.texts[seqs[i]] = "swapped";
  }
  swaps[2].now = (pd_bytes){0};
  e.is_empty[121] = true;
  assert_int_equal(b->ops->log_swap(b, swaps, 4, NULL), PD_OK);
  expect_log(b, &e, LOG_COUNT);
  assert_int_equal(other->ops->log_swap(other, swaps, 4, NULL), PD_CONFLICT); /* they are not what they were */
  for (size_t i = 0; i < 4; i++) swaps[i] = (pd_log_swap){.seq = 10 * (i + 1), .was = record_of(10 * (i + 1), bytes[i])};
  swaps[3].was.size--;
  assert_int_equal(other->ops->log_swap(other, swaps, 4, NULL), PD_CONFLICT); /* all or none */
  swaps[3].was.size++;
  bytes[3][0] ^= 1;
  assert_int_equal(other->ops->log_swap(other, swaps, 4, NULL), PD_CONFLICT);
  expect_log(b, &e, LOG_COUNT);
  b = world_reopen(w, b, "main");
  expect_log(b, &e, LOG_COUNT);
  bytes[3][0] ^= 1;
  assert_int_equal(other->ops->log_swap(other, swaps, 4, NULL), PD_OK);
  for (size_t i = 0; i < 4; i++) e.is_empty[swaps[i].seq] = true;
  assert_int_equal(append_numbered(b, LOG_COUNT + 1, 1, NULL), PD_OK);
  e.last = 0;
  assert_int_equal(b->ops->log_read(b, 1, LOG_COUNT, expect_redacted, &e, NULL), PD_OK);
  w->ops->close(other);
  w->ops->close(b);
}

static void B18_out_of_order_or_past_the_tail_nothing_is_replaced(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_swap) skip();
  pd_backend *b = open_with_log(w);
  static expectation e;
  uint8_t bytes[2][RECORD_SIZE_MAX];
  e = (expectation){0};
  pd_log_swap swaps[2] = {{.seq = 5, .was = record_of(5, bytes[0])}, {.seq = 4, .was = record_of(4, bytes[1])}};
  assert_int_equal(b->ops->log_swap(b, swaps, 2, NULL), PD_INVALID);
  assert_int_equal(b->ops->log_swap(b, swaps, 0, NULL), PD_INVALID);
  swaps[1] = swaps[0];
  assert_int_equal(b->ops->log_swap(b, swaps, 2, NULL), PD_INVALID);
  swaps[1] = (pd_log_swap){.seq = LOG_COUNT + 1};
  assert_int_equal(b->ops->log_swap(b, swaps, 2, NULL), PD_INVALID);
  swaps[1] = (pd_log_swap){.seq = UINT64_MAX};
  assert_int_equal(b->ops->log_swap(b, swaps, 2, NULL), PD_INVALID);
  swaps[0] = (pd_log_swap){.seq = 0};
  assert_int_equal(b->ops->log_swap(b, swaps, 1, NULL), PD_INVALID);
  expect_log(b, &e, LOG_COUNT);
  w->ops->close(b);
}

/* ---- B15, sweeping ------------------------------------------------------------------------------------------------ */

static void blob_text(size_t i, char out[32])
{
  snprintf(out, 32, "the blob of number %zu", i);
}

static pd_id put_blob(pd_backend *b, size_t i)
{
  char text[32];
  pd_id id;
  blob_text(i, text);
  assert_int_equal(put_text(b, text, &id), PD_OK);
  return id;
}

static bool has_blob(pd_backend *b, size_t i)
{
  char text[32];
  pd_buf out = {0};
  blob_text(i, text);
  pd_id id = pd_value_id(pd_text(text));
  pd_code code = b->ops->bag_get(b, &id, &out, NULL);
  if (code == PD_OK) assert_memory_equal(out.data, text, strlen(text));
  pd_buf_done(&out);
  assert_true(code == PD_OK || code == PD_NOT_FOUND);
  return code == PD_OK;
}

static void put_many(pd_backend *b, size_t from, size_t to)
{
  static pd_id ids[BLOB_COUNT];
  static pd_bytes blobs[BLOB_COUNT];
  static char texts[BLOB_COUNT][32];
  for (size_t i = from; i < to; i++) {
    blob_text(i, texts[i]);
    blobs[i] = pd_text(texts[i]);
    ids[i] = pd_value_id(blobs[i]);
  }
  assert_int_equal(b->ops->bag_put(b, ids + from, blobs + from, to - from, NULL), PD_OK);
}

static bool keep_nothing(void *ctx, const pd_id *id)
{
  (void)ctx, (void)id;
  return false;
}

static bool keep_thirds(void *ctx, const pd_id *id)
{
  (void)ctx;
  return id->bytes[0] % 3 == 0;
}

static bool is_third(size_t i)
{
  char text[32];
  blob_text(i, text);
  return pd_value_id(pd_text(text)).bytes[0] % 3 == 0;
}

static uint64_t sweep(pd_backend *b, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id))
{
  uint64_t bytes = UINT64_MAX;
  pd_error err = {0};
  if (b->ops->bag_sweep(b, mark, keep, NULL, &bytes, &err) != PD_OK) fail_msg("bag_sweep: %s", err.message);
  return bytes;
}

static uint64_t mark_of(pd_backend *b)
{
  uint64_t mark = UINT64_MAX;
  pd_error err = {0};
  if (b->ops->bag_mark(b, &mark, &err) != PD_OK) fail_msg("bag_mark: %s", err.message);
  return mark;
}

static void B15_what_is_not_kept_goes_and_its_bytes_are_counted(void **state)
{
  contract_world *w = *state;
  if (!w->ops->bag_sweep) skip();
  pd_backend *b = world_open(w, "main");
  uint64_t gone = 0;
  put_many(b, 0, BLOB_COUNT);
  uint64_t bytes = sweep(b, mark_of(b), keep_thirds);
  for (size_t i = 0; i < BLOB_COUNT; i++) {
    char text[32];
    blob_text(i, text);
    assert_int_equal(has_blob(b, i), is_third(i));
    if (!is_third(i)) gone += strlen(text);
  }
  assert_int_equal(bytes, gone);
  assert_int_equal(sweep(b, mark_of(b), keep_thirds), 0);
  put_many(b, 0, BLOB_COUNT); /* and what went can come again */
  for (size_t i = 0; i < BLOB_COUNT; i++) assert_true(has_blob(b, i));
  b = world_reopen(w, b, "main");
  for (size_t i = 0; i < BLOB_COUNT; i++) assert_true(has_blob(b, i));
  w->ops->close(b);
}

static void B15_what_is_put_after_the_mark_stays(void **state)
{
  contract_world *w = *state;
  if (!w->ops->bag_sweep) skip();
  pd_backend *b = world_open(w, "main"), *other = world_open(w, "main");
  put_many(b, 0, 10);
  uint64_t mark = mark_of(b);
  put_blob(b, 3);     /* old, but put again */
  put_blob(other, 4); /* by whomever */
  put_blob(b, 100);   /* new */
  put_blob(other, 101);
  sweep(b, mark, keep_nothing);
  for (size_t i = 0; i < 10; i++) assert_int_equal(has_blob(b, i), i == 3 || i == 4);
  assert_true(has_blob(b, 100) && has_blob(b, 101));
  sweep(other, mark, keep_nothing); /* the same mark again takes no more */
  assert_true(has_blob(b, 3) && has_blob(b, 4) && has_blob(b, 100) && has_blob(b, 101));
  put_blob(b, 3);
  sweep(b, mark_of(b), keep_nothing);
  for (size_t i = 0; i < 110; i++) assert_false(has_blob(b, i));
  w->ops->close(other);
  w->ops->close(b);
}

/* Two sweeps at a time: what the later one took away must not make room in which new blobs look old to the earlier one. */
static void B15_an_older_mark_never_takes_what_came_after_it(void **state)
{
  contract_world *w = *state;
  if (!w->ops->bag_sweep) skip();
  pd_backend *b = world_open(w, "main");
  put_many(b, 0, 10);
  uint64_t older = mark_of(b), newer = mark_of(b);
  sweep(b, newer, keep_nothing);
  put_many(b, 20, 30);
  sweep(b, older, keep_nothing);
  sweep(b, newer, keep_nothing);
  for (size_t i = 20; i < 30; i++) assert_true(has_blob(b, i));
  uint64_t last = mark_of(b);
  put_blob(b, 25);
  mark_of(b); /* a mark in between changes nothing */
  sweep(b, last, keep_nothing);
  for (size_t i = 20; i < 30; i++) assert_int_equal(has_blob(b, i), i == 25);
  w->ops->close(b);
}

static void B15_a_mark_that_was_never_given_is_refused(void **state)
{
  contract_world *w = *state;
  if (!w->ops->bag_sweep) skip();
  pd_backend *b = world_open(w, "main");
  uint64_t bytes = 7;
  put_many(b, 0, 10);
  uint64_t mark = mark_of(b);
  assert_int_equal(b->ops->bag_sweep(b, mark + 1000, keep_nothing, NULL, &bytes, NULL), PD_INVALID);
  assert_int_equal(bytes, 7);
  for (size_t i = 0; i < 10; i++) assert_true(has_blob(b, i));
  w->ops->close(b);
}

typedef struct putter {
  pd_backend *b;
  bool is_stopped;
  size_t put_count;
} putter;

/* Puts new blobs and old ones again, and appends, while the other thread sweeps. */
static void *put_until_stopped(void *arg)
{
  putter *p = arg;
  for (size_t i = 0; i < 2000 && !__atomic_load_n(&p->is_stopped, __ATOMIC_ACQUIRE); i++) {
    char text[32];
    pd_id id;
    blob_text(BLOB_COUNT + i, text);
    if (put_text(p->b, text, &id) != PD_OK || append_anywhere(p->b, 1, NULL) != PD_OK) break;
    __atomic_store_n(&p->put_count, i + 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void B15_others_put_and_append_while_a_sweep_runs(void **state)
{
  contract_world *w = *state;
  if (!w->ops->bag_sweep) skip();
  pd_backend *b = world_open(w, "main");
  putter p = {.b = world_open(w, "main")};
  pthread_t thread;
  put_many(b, 0, BLOB_COUNT);
  uint64_t mark = mark_of(b);
  assert_int_equal(pthread_create(&thread, NULL, put_until_stopped, &p), 0);
  for (size_t round = 0; round < 20; round++) sweep(b, mark, keep_thirds);
  while (__atomic_load_n(&p.put_count, __ATOMIC_ACQUIRE) < 5) sched_yield();
  sweep(b, mark, keep_nothing);
  __atomic_store_n(&p.is_stopped, true, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  for (size_t i = 0; i < BLOB_COUNT; i++) assert_false(has_blob(b, i));
  for (size_t i = 0; i < p.put_count; i++) assert_true(has_blob(b, BLOB_COUNT + i));
  w->ops->close(p.b);
  w->ops->close(b);
}

/* ---- B16, compaction ---------------------------------------------------------------------------------------------- */

static void B16_a_compaction_leaves_all_that_is_there(void **state)
{
  contract_world *w = *state;
  if (!w->ops->compact || !w->ops->log_redact || !w->ops->bag_sweep) skip();
  pd_backend *b = open_with_log(w), *other = world_open(w, "main");
  static expectation e;
  e = (expectation){0};
  assert_int_equal(b->ops->compact(b, NULL), PD_OK); /* with nothing to do */
  put_many(b, 0, BLOB_COUNT);
  redact_empty(b, &e, 20, 200);
  sweep(b, mark_of(b), keep_thirds);
  assert_int_equal(b->ops->compact(b, NULL), PD_OK);
  for (int round = 0; round < 2; round++) {
    expect_log(b, &e, LOG_COUNT);
    expect_log(other, &e, LOG_COUNT);
    for (size_t i = 0; i < BLOB_COUNT; i++) assert_int_equal(has_blob(other, i), is_third(i));
    b = world_reopen(w, b, "main");
  }
  assert_int_equal(append_numbered(b, LOG_COUNT + 1, 1, NULL), PD_OK);
  assert_int_equal(b->ops->compact(b, NULL), PD_OK);
  w->ops->close(other);
  w->ops->close(b);
}

static void B16_a_read_only_handle_takes_nothing_away(void **state)
{
  contract_world *w = *state;
  pd_backend *b = open_with_log(w), *reader = NULL;
  const pd_bytes nothing = {0};
  uint64_t n = 0;
  assert_int_equal(w->ops->open(w->rest, "main", PD_BACKEND_OPEN_READ_ONLY, &reader, NULL), PD_OK);
  const pd_log_swap swap = {.seq = 1};
  if (w->ops->log_swap) assert_int_equal(reader->ops->log_swap(reader, &swap, 1, NULL), PD_READ_ONLY);
  if (w->ops->log_redact) assert_int_equal(reader->ops->log_redact(reader, 1, &nothing, 1, NULL), PD_READ_ONLY);
  if (w->ops->bag_mark) assert_int_equal(reader->ops->bag_mark(reader, &n, NULL), PD_READ_ONLY);
  if (w->ops->bag_sweep) assert_int_equal(reader->ops->bag_sweep(reader, 0, keep_nothing, NULL, &n, NULL), PD_READ_ONLY);
  if (w->ops->compact) assert_int_equal(reader->ops->compact(reader, NULL), PD_READ_ONLY);
  expect_numbered_log(b, LOG_COUNT);
  w->ops->close(reader);
  w->ops->close(b);
}

/* ---- B17, waiting ------------------------------------------------------------------------------------------------- */

static int64_t now_ms(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void B17_what_is_there_is_not_waited_for(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_wait) skip();
  pd_backend *b = world_open(w, "main");
  assert_int_equal(append_numbered(b, 1, 3, NULL), PD_OK);
  int64_t start = now_ms(CLOCK_MONOTONIC);
  for (uint64_t after = 0; after < 3; after++) assert_int_equal(b->ops->log_wait(b, after, 60000, NULL), PD_OK);
  assert_int_equal(b->ops->log_wait(b, 3, 0, NULL), PD_OK);
  assert_true(now_ms(CLOCK_MONOTONIC) - start < 30000);
  w->ops->close(b);
}

static void B17_a_wait_ends_when_its_time_is_over_and_burns_none(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_wait) skip();
  pd_backend *b = world_open(w, "main");
  assert_int_equal(append_numbered(b, 1, 1, NULL), PD_OK);
  int64_t start = now_ms(CLOCK_MONOTONIC), cpu = now_ms(CLOCK_THREAD_CPUTIME_ID);
  assert_int_equal(b->ops->log_wait(b, 1, 400, NULL), PD_OK);
  assert_true(now_ms(CLOCK_MONOTONIC) - start >= 399);
  assert_true(now_ms(CLOCK_THREAD_CPUTIME_ID) - cpu < 100);
  w->ops->close(b);
}

typedef struct waiter {
  pd_backend *b;
  pd_code code;
  uint64_t seen;
} waiter;

/* Follows the log until record 40; a wake that got lost would cost it the whole minute. */
static void *follow(void *arg)
{
  waiter *j = arg;
  int64_t start = now_ms(CLOCK_MONOTONIC);
  while (j->code == PD_OK && j->seen < 40) {
    j->code = j->b->ops->log_wait(j->b, j->seen, 60000, NULL);
    j->seen = j->b->ops->log_tail_hint(j->b);
    if (now_ms(CLOCK_MONOTONIC) - start > 50000) j->code = PD_STORAGE;
  }
  return NULL;
}

static void B17_every_waiter_is_woken_by_every_append(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_wait) skip();
  pd_backend *b = world_open(w, "main");
  waiter jobs[6] = {0};
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) {
    jobs[i].b = i % 2 ? b : world_open(w, "main");
    assert_int_equal(pthread_create(&threads[i], NULL, follow, &jobs[i]), 0);
  }
  for (uint64_t seq = 1; seq <= 40; seq++) {
    assert_int_equal(append_numbered(b, seq, 1, NULL), PD_OK);
    usleep(seq % 4 * 1000); /* sometimes they sleep, sometimes they are just about to */
  }
  for (int i = 0; i < 6; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].code, PD_OK);
    if (i % 2 == 0) w->ops->close(jobs[i].b);
  }
  w->ops->close(b);
}

static int follow_as_process(contract_world *w, int index)
{
  waiter j = {0};
  (void)index;
  if (w->ops->open(w->rest, "main", PD_BACKEND_CREATE, &j.b, NULL) != PD_OK) return 1;
  follow(&j);
  w->ops->close(j.b);
  return (int)j.code;
}

static int wait_for_ever(contract_world *w, int index)
{
  pd_backend *b = NULL;
  (void)index;
  if (w->ops->open(w->rest, "main", PD_BACKEND_CREATE, &b, NULL) != PD_OK) return 1;
  return (int)b->ops->log_wait(b, UINT64_MAX, 60000, NULL);
}

static void B17_processes_wake_each_other_and_one_that_was_killed_asleep_does_no_harm(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_wait) skip();
  pd_backend *b = world_open(w, "main");
  int pids[3];
  for (int i = 0; i < 3; i++) pids[i] = child_start(follow_as_process, w, i);
  int asleep = child_start(wait_for_ever, w, 0);
  for (uint64_t seq = 1; seq <= 40; seq++) {
    assert_int_equal(append_numbered(b, seq, 1, NULL), PD_OK);
    usleep(2000);
    if (seq == 20) assert_int_equal(kill(asleep, SIGKILL), 0);
  }
  for (int i = 0; i < 3; i++) assert_int_equal(child_wait(pids[i]), 0);
  assert_int_equal(child_wait(asleep), -SIGKILL);
  expect_numbered_log(b, 40);
  w->ops->close(b);
}

const clause shed_clauses[] = {
  CLAUSE(B14_redacted_records_are_visited_empty_and_their_neighbours_stay),
  CLAUSE(B14_other_bytes_can_take_the_place_of_the_old_ones),
  CLAUSE(B14_past_the_tail_nothing_is_redacted),
  CLAUSE(B14_the_log_goes_on_after_a_redaction),
  CLAUSE_IF(B14_a_redaction_survives_kill_9_and_is_seen_by_other_processes, NEEDS_PROCESSES),
  CLAUSE(B15_what_is_not_kept_goes_and_its_bytes_are_counted),
  CLAUSE(B15_what_is_put_after_the_mark_stays),
  CLAUSE(B15_an_older_mark_never_takes_what_came_after_it),
  CLAUSE(B15_a_mark_that_was_never_given_is_refused),
  CLAUSE(B15_others_put_and_append_while_a_sweep_runs),
  CLAUSE(B16_a_compaction_leaves_all_that_is_there),
  CLAUSE(B16_a_read_only_handle_takes_nothing_away),
  CLAUSE(B18_scattered_records_are_replaced_if_they_are_what_they_were),
  CLAUSE(B18_out_of_order_or_past_the_tail_nothing_is_replaced),
  CLAUSE(B17_what_is_there_is_not_waited_for),
  CLAUSE(B17_a_wait_ends_when_its_time_is_over_and_burns_none),
  CLAUSE(B17_every_waiter_is_woken_by_every_append),
  CLAUSE_IF(B17_processes_wake_each_other_and_one_that_was_killed_asleep_does_no_harm, NEEDS_PROCESSES),
  {NULL, NULL, NEEDS_NOTHING},
};
