/* shared_clauses.c: B8 to B12 of backend.h: failures, threads, handles, processes, stores, claims. Threads answer with codes: cmocka's
 * asserts belong to the main thread. */
#include "contract/contract_world.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 6
#define EACH 60

/* ---- B8, read-only ------------------------------------------------------------------------------------------------ */

static void B8_a_handle_goes_on_after_every_kind_of_refusal(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  pd_id id = pd_value_id(pd_text("absent"));
  pd_buf out = {0};
  for (uint64_t seq = 1; seq <= 10; seq++) {
    assert_int_equal(append_numbered(b, seq + 1, 1, NULL), PD_INVALID);
    assert_int_equal(b->ops->bag_get(b, &id, &out, NULL), PD_NOT_FOUND);
    assert_int_equal(append_numbered(b, seq, 1, NULL), PD_OK);
    assert_int_equal(append_numbered(b, seq, 1, NULL), PD_CONFLICT);
    assert_int_equal(put_text(b, "x", &(pd_id){{0}}), PD_OK);
  }
  expect_numbered_log(b, 10);
  w->ops->close(b);
}

static void B8_a_read_only_handle_reads_and_refuses_to_write(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main"), *reader = NULL;
  pd_id id, other;
  assert_int_equal(append_numbered(b, 1, 3, NULL), PD_OK);
  assert_int_equal(put_text(b, "blob", &id), PD_OK);
  assert_int_equal(w->ops->open(w->rest, "main", PD_BACKEND_OPEN_READ_ONLY, &reader, NULL), PD_OK);
  assert_true(w->ops->flags(reader) & PD_BACKEND_READ_ONLY);
  assert_false(w->ops->flags(b) & PD_BACKEND_READ_ONLY);
  expect_numbered_log(reader, 3);
  expect_blob(reader, &id, pd_text("blob"));
  assert_int_equal(append_numbered(reader, 4, 1, NULL), PD_READ_ONLY);
  assert_int_equal(put_text(reader, "new", &other), PD_READ_ONLY);
  if (w->ops->log_claim) assert_int_equal(w->ops->log_claim(reader, NULL), PD_READ_ONLY);
  assert_int_equal(append_numbered(b, 4, 1, NULL), PD_OK);
  expect_numbered_log(reader, 4); /* and it sees what others append */
  w->ops->close(reader);
  w->ops->close(b);
}

static void B8_flags_say_whether_it_lasts(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  assert_int_equal((w->ops->flags(b) & PD_BACKEND_LASTS) != 0, w->target->is_lasting);
  w->ops->close(b);
  w->ops->close(NULL);
}

/* ---- B9, threads and handles -------------------------------------------------------------------------------------- */

typedef struct job {
  contract_world *w;
  pd_backend *b;
  int index;
  bool is_stopped;
  pd_code code;
  pd_error err;
} job;

static void run_jobs(job *jobs, size_t count, void *(*work)(void *))
{
  pthread_t threads[THREADS];
  for (size_t i = 0; i < count; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < count; i++) {
    if (jobs[i].code != PD_OK) fail_msg("thread %zu: %s", i, jobs[i].err.message);
  }
}

static void *append_each(void *arg)
{
  job *j = arg;
  j->code = append_anywhere(j->b, EACH, &j->err);
  return NULL;
}

static void B9_threads_on_one_handle_lose_no_append(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  job jobs[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) jobs[i].b = b;
  run_jobs(jobs, THREADS, append_each);
  expect_numbered_log(b, THREADS * EACH);
  w->ops->close(b);
}

static void B9_threads_on_their_own_handles_lose_no_append(void **state)
{
  contract_world *w = *state;
  job jobs[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) jobs[i].b = world_open(w, "main");
  run_jobs(jobs, THREADS, append_each);
  for (int i = 0; i < THREADS; i++) expect_numbered_log(jobs[i].b, THREADS * EACH);
  for (int i = 0; i < THREADS; i++) w->ops->close(jobs[i].b);
}

/* Put blobs and read them and the log back, while the others do the same. */
static void *put_and_get(void *arg)
{
  job *j = arg;
  for (int i = 0; i < EACH && j->code == PD_OK; i++) {
    char text[48];
    pd_id id;
    pd_buf out = {0};
    seq_list *list = calloc(1, sizeof *list);
    snprintf(text, sizeof text, "%d of thread %d", i, i % 2 ? j->index : 0); /* half of them are the same in all threads */
    j->code = put_text(j->b, text, &id);
    if (j->code == PD_OK) j->code = j->b->ops->bag_get(j->b, &id, &out, &j->err);
    if (j->code == PD_OK && (out.size != strlen(text) || memcmp(out.data, text, out.size) != 0)) {
      j->code = pd_error_set(&j->err, PD_CORRUPT, "'%s' came back different", text);
    }
    if (j->code == PD_OK) j->code = append_anywhere(j->b, 1, &j->err);
    if (j->code == PD_OK) j->code = j->b->ops->log_read(j->b, 1, UINT64_MAX, collect_seq, list, &j->err);
    for (size_t k = 0; k < list->count && j->code == PD_OK; k++) {
      if (list->seqs[k] != k + 1) j->code = pd_error_set(&j->err, PD_CORRUPT, "read record %zu out of order", k);
    }
    pd_buf_done(&out);
    free(list);
  }
  return NULL;
}

static void B9_threads_read_while_others_write(void **state)
{
  contract_world *w = *state;
  pd_backend *a = world_open(w, "main"), *b = world_open(w, "main");
  job jobs[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) jobs[i] = (job){.b = i % 2 ? a : b, .index = i + 1};
  run_jobs(jobs, THREADS, put_and_get);
  expect_numbered_log(a, THREADS * EACH);
  w->ops->close(a);
  w->ops->close(b);
}

static void *open_work_close(void *arg)
{
  job *j = arg;
  for (int i = 0; i < 10 && j->code == PD_OK; i++) {
    pd_backend *b = NULL;
    j->code = j->w->ops->open(j->w->rest, "main", PD_BACKEND_CREATE, &b, &j->err);
    if (j->code != PD_OK) break;
    j->code = append_anywhere(b, 2, &j->err);
    j->w->ops->close(b);
  }
  return NULL;
}

static void B9_threads_open_and_close_while_others_write(void **state)
{
  contract_world *w = *state;
  job jobs[THREADS] = {0};
  pd_backend *b = w->target->is_lasting ? NULL : world_open(w, "main"); /* else it is gone each time the last one closes */
  for (int i = 0; i < THREADS; i++) jobs[i].w = w;
  run_jobs(jobs, THREADS, open_work_close);
  if (!b) b = world_open(w, "main");
  expect_numbered_log(b, THREADS * 10 * 2);
  w->ops->close(b);
}

static int append_as_process(contract_world *w, int index)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  (void)index;
  pd_code code = w->ops->open(w->rest, "main", PD_BACKEND_CREATE, &b, &err);
  if (code == PD_OK) code = append_anywhere(b, EACH, &err);
  if (code != PD_OK) fprintf(stderr, "# process %d: %s\n", index, err.message);
  w->ops->close(b);
  return (int)code;
}

static void B9_processes_lose_no_append(void **state)
{
  contract_world *w = *state;
  int pids[8];
  for (int i = 0; i < 8; i++) pids[i] = child_start(append_as_process, w, i); /* they race to create it, too */
  for (int i = 0; i < 8; i++) assert_int_equal(child_wait(pids[i]), 0);
  pd_backend *b = world_open(w, "main");
  expect_numbered_log(b, 8 * EACH);
  w->ops->close(b);
}

static void B9_a_handle_sees_what_another_process_appended(void **state)
{
  contract_world *w = *state;
  w->ops->close(world_open(w, "main"));
  int pid = child_start(append_as_process, w, 0);
  pd_backend *b = world_open(w, "main");
  assert_int_equal(child_wait(pid), 0);
  expect_numbered_log(b, EACH);
  w->ops->close(b);
}

/* ---- B10, B11 ----------------------------------------------------------------------------------------------------- */

static void B10_two_stores_never_see_each_other(void **state)
{
  contract_world *w = *state;
  pd_backend *a = world_open(w, "a"), *b = world_open(w, "b");
  pd_id id;
  pd_buf out = {0};
  assert_int_equal(append_numbered(a, 1, 5, NULL), PD_OK);
  assert_int_equal(put_text(a, "a's own", &id), PD_OK);
  expect_numbered_log(b, 0);
  assert_int_equal(b->ops->bag_get(b, &id, &out, NULL), PD_NOT_FOUND);
  assert_int_equal(append_numbered(b, 1, 2, NULL), PD_OK);
  expect_numbered_log(a, 5);
  expect_numbered_log(b, 2);
  w->ops->close(a);
  w->ops->close(b);
}

static void mark_store(void *ctx, const char *store)
{
  unsigned *marks = ctx;
  *marks |= strcmp(store, "a") == 0 ? 1u : strcmp(store, "B-2.x") == 0 ? 2u : 4u;
}

static void B10_the_stores_of_a_home_can_be_listed(void **state)
{
  contract_world *w = *state;
  if (!w->ops->stores) skip();
  pd_backend *a = world_open(w, "a"), *b = world_open(w, "B-2.x");
  unsigned marks = 0;
  assert_int_equal(w->ops->stores(w->rest, mark_store, &marks, NULL), PD_OK);
  assert_int_equal(marks, 3);
  w->ops->close(a);
  w->ops->close(b);
}

static void count_store(void *ctx, const char *store)
{
  (void)store;
  ++*(size_t *)ctx;
}

static void B11_a_store_that_is_not_there_is_not_found_and_not_made(void **state)
{
  contract_world *w = *state;
  pd_backend *b = NULL;
  pd_error err = {0};
  size_t count = 0;
  assert_int_equal(w->ops->open(w->rest, "main", 0, &b, &err), PD_NOT_FOUND);
  assert_true(strlen(err.message) > 0);
  assert_int_equal(w->ops->open(w->rest, "main", PD_BACKEND_OPEN_READ_ONLY, &b, NULL), PD_NOT_FOUND);
  assert_int_equal(w->ops->open(w->rest, "main", PD_BACKEND_OPEN_READ_ONLY | PD_BACKEND_CREATE, &b, NULL), PD_NOT_FOUND);
  assert_null(b);
  if (w->ops->stores && w->ops->stores(w->rest, count_store, &count, NULL) == PD_OK) assert_int_equal(count, 0);
  b = world_open(w, "main");
  pd_backend *other = NULL;
  assert_int_equal(w->ops->open(w->rest, "other", 0, &other, NULL), PD_NOT_FOUND);
  assert_int_equal(w->ops->open(w->rest, "main", 0, &other, NULL), PD_OK);
  w->ops->close(other);
  w->ops->close(b);
}

/* ---- B12, claims -------------------------------------------------------------------------------------------------- */

/* Appends until told to stop; `index` counts. */
static void *append_until_stopped(void *arg)
{
  job *j = arg;
  while (j->code == PD_OK && !__atomic_load_n(&j->is_stopped, __ATOMIC_ACQUIRE)) {
    j->code = append_anywhere(j->b, 1, &j->err);
    if (j->code == PD_OK) __atomic_add_fetch(&j->index, 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void B12_between_claim_and_release_an_append_never_conflicts(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_claim) skip();
  pd_backend *mine = world_open(w, "main");
  job other = {.b = world_open(w, "main")};
  pthread_t thread;
  uint64_t rounds = 0;
  assert_int_equal(pthread_create(&thread, NULL, append_until_stopped, &other), 0);
  while (w->ops->log_tail_hint(mine) == 0) sched_yield();
  int enough = __atomic_load_n(&other.index, __ATOMIC_ACQUIRE) + 5 * EACH; /* both are at it at the same time */
  for (; rounds < EACH || (rounds < 50 * EACH && __atomic_load_n(&other.index, __ATOMIC_ACQUIRE) < enough); rounds++) {
    uint64_t tail = 0, again = 0;
    assert_int_equal(w->ops->log_claim(mine, NULL), PD_OK);
    assert_int_equal(w->ops->log_tail(mine, &tail, NULL), PD_OK);
    assert_int_equal(append_numbered(mine, tail + 1, 2, NULL), PD_OK);
    assert_int_equal(put_text(mine, "claimed", &(pd_id){{0}}), PD_OK);
    assert_int_equal(append_numbered(mine, tail + 3, 1, NULL), PD_OK);
    assert_int_equal(w->ops->log_tail(mine, &again, NULL), PD_OK);
    assert_int_equal(again, tail + 3);
    w->ops->log_release(mine);
  }
  __atomic_store_n(&other.is_stopped, true, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  assert_int_equal(other.code, PD_OK);
  expect_numbered_log(mine, rounds * 3 + (uint64_t)other.index);
  w->ops->close(other.b);
  w->ops->close(mine);
}

static void *begin_and_append(void *arg)
{
  job *j = arg;
  __atomic_store_n(&j->index, 1, __ATOMIC_RELEASE);
  j->code = append_anywhere(j->b, 1, &j->err);
  return NULL;
}

/* If the claim did not hold, the append would happen at once; many turns of the scheduler are given to it. */
static void B12_another_handle_waits_for_the_release(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_claim) skip();
  pd_backend *mine = world_open(w, "main");
  job other = {.b = world_open(w, "main")};
  pthread_t thread;
  assert_int_equal(w->ops->log_claim(mine, NULL), PD_OK);
  assert_int_equal(pthread_create(&thread, NULL, begin_and_append, &other), 0);
  while (!__atomic_load_n(&other.index, __ATOMIC_ACQUIRE)) sched_yield();
  for (int turn = 0; turn < 5000 && w->ops->log_tail_hint(mine) == 0; turn++) sched_yield();
  expect_numbered_log(mine, 0);
  w->ops->log_release(mine);
  pthread_join(thread, NULL);
  assert_int_equal(other.code, PD_OK);
  expect_numbered_log(mine, 1);
  w->ops->close(other.b);
  w->ops->close(mine);
}

static void *release_it(void *arg)
{
  pd_backend *b = arg;
  b->ops->log_release(b);
  return NULL;
}

static void B12_a_claim_belongs_to_the_handle_not_to_the_thread(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_claim) skip();
  pd_backend *a = world_open(w, "main"), *b = world_open(w, "main");
  pthread_t thread;
  assert_int_equal(w->ops->log_claim(a, NULL), PD_OK);
  assert_int_equal(pthread_create(&thread, NULL, release_it, a), 0);
  assert_int_equal(append_numbered(b, 1, 1, NULL), PD_OK); /* waits for the release */
  pthread_join(thread, NULL);
  assert_int_equal(w->ops->log_claim(a, NULL), PD_OK);
  w->ops->log_release(a);
  w->ops->log_release(a); /* once too often does no harm */
  expect_numbered_log(a, 1);
  w->ops->close(a);
  w->ops->close(b);
}

static void B12_closing_a_handle_gives_its_claim_back(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_claim) skip();
  pd_backend *a = world_open(w, "main"), *b = world_open(w, "main");
  assert_int_equal(w->ops->log_claim(a, NULL), PD_OK);
  w->ops->close(a);
  assert_int_equal(append_numbered(b, 1, 1, NULL), PD_OK);
  w->ops->close(b);
}

/* Claim, add two records that must be neighbours, release. */
static void *claim_and_append(void *arg)
{
  job *j = arg;
  for (int i = 0; i < EACH && j->code == PD_OK; i++) {
    uint64_t tail = 0;
    j->code = j->b->ops->log_claim(j->b, &j->err);
    if (j->code != PD_OK) break;
    j->code = j->b->ops->log_tail(j->b, &tail, &j->err);
    if (j->code == PD_OK) j->code = append_numbered(j->b, tail + 1, 1, &j->err);
    if (j->code == PD_OK) j->code = append_numbered(j->b, tail + 2, 1, &j->err);
    j->b->ops->log_release(j->b);
  }
  return NULL;
}

static void B12_claims_of_threads_on_one_handle_wait_for_each_other(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_claim) skip();
  pd_backend *b = world_open(w, "main");
  job jobs[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) jobs[i].b = b;
  run_jobs(jobs, THREADS, claim_and_append);
  expect_numbered_log(b, THREADS * EACH * 2);
  w->ops->close(b);
}

static int claim_as_process(contract_world *w, int index)
{
  job j = {.w = w, .index = index};
  j.code = w->ops->open(w->rest, "main", PD_BACKEND_CREATE, &j.b, &j.err);
  if (j.code == PD_OK) claim_and_append(&j);
  if (j.code != PD_OK) fprintf(stderr, "# process %d: %s\n", index, j.err.message);
  w->ops->close(j.b);
  return (int)j.code;
}

static void B12_claims_hold_between_processes(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_claim) skip();
  int pids[4];
  for (int i = 0; i < 4; i++) pids[i] = child_start(claim_as_process, w, i);
  for (int i = 0; i < 4; i++) assert_int_equal(child_wait(pids[i]), 0);
  pd_backend *b = world_open(w, "main");
  expect_numbered_log(b, 4 * EACH * 2);
  w->ops->close(b);
}

static int claim_and_die(contract_world *w, int index)
{
  pd_backend *b = NULL;
  (void)index;
  if (w->ops->open(w->rest, "main", PD_BACKEND_CREATE, &b, NULL) != PD_OK) return 1;
  if (w->ops->log_claim(b, NULL) != PD_OK) return 2;
  raise(SIGKILL);
  return 3;
}

static void B12_the_claim_of_a_killed_process_is_free_again(void **state)
{
  contract_world *w = *state;
  if (!w->ops->log_claim) skip();
  pd_backend *b = world_open(w, "main");
  for (uint64_t round = 0; round < 3; round++) {
    assert_int_equal(child_wait(child_start(claim_and_die, w, 0)), -SIGKILL);
    assert_int_equal(append_numbered(b, 2 * round + 1, 1, NULL), PD_OK); /* to whoever just appends */
    assert_int_equal(child_wait(child_start(claim_and_die, w, 0)), -SIGKILL);
    assert_int_equal(w->ops->log_claim(b, NULL), PD_OK); /* and to the next claimer */
    assert_int_equal(append_numbered(b, 2 * round + 2, 1, NULL), PD_OK);
    w->ops->log_release(b);
  }
  expect_numbered_log(b, 6);
  w->ops->close(b);
}

const clause shared_clauses[] = {
  CLAUSE(B8_a_handle_goes_on_after_every_kind_of_refusal),
  CLAUSE(B8_a_read_only_handle_reads_and_refuses_to_write),
  CLAUSE(B8_flags_say_whether_it_lasts),
  CLAUSE(B9_threads_on_one_handle_lose_no_append),
  CLAUSE(B9_threads_on_their_own_handles_lose_no_append),
  CLAUSE(B9_threads_read_while_others_write),
  CLAUSE(B9_threads_open_and_close_while_others_write),
  CLAUSE_IF(B9_processes_lose_no_append, NEEDS_PROCESSES),
  CLAUSE_IF(B9_a_handle_sees_what_another_process_appended, NEEDS_PROCESSES),
  CLAUSE(B10_two_stores_never_see_each_other),
  CLAUSE(B10_the_stores_of_a_home_can_be_listed),
  CLAUSE(B11_a_store_that_is_not_there_is_not_found_and_not_made),
  CLAUSE(B12_between_claim_and_release_an_append_never_conflicts),
  CLAUSE(B12_another_handle_waits_for_the_release),
  CLAUSE(B12_a_claim_belongs_to_the_handle_not_to_the_thread),
  CLAUSE(B12_closing_a_handle_gives_its_claim_back),
  CLAUSE(B12_claims_of_threads_on_one_handle_wait_for_each_other),
  CLAUSE_IF(B12_claims_hold_between_processes, NEEDS_PROCESSES),
  CLAUSE_IF(B12_the_claim_of_a_killed_process_is_free_again, NEEDS_PROCESSES),
  {NULL, NULL, NEEDS_NOTHING},
};
