/* gc_lock_clauses.c: B21 of backend.h: who keeps gc away. A backend may have none. */
#include "contract/contract_world.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#define LONG_MS 3600000

static void *lock_of(pd_backend *b, uint32_t shared_ms)
{
  void *lock = NULL;
  pd_error err = {0};
  if (b->ops->gc_lock(b, shared_ms, &lock, &err) != PD_OK) fail_msg("gc_lock: %s", err.message);
  return lock;
}

static void expect_locked(pd_backend *b, uint32_t shared_ms)
{
  void *untouched = &untouched, *lock = untouched;
  assert_int_equal(b->ops->gc_lock(b, shared_ms, &lock, NULL), PD_CONFLICT);
  assert_ptr_equal(lock, untouched);
}

static void B21_those_who_share_the_lock_exclude_the_one_who_wants_it_alone(void **state)
{
  contract_world *w = *state;
  pd_backend *handles[2] = {world_open(w, "main"), world_open(w, "main")}, *elsewhere = world_open(w, "other");
  for (size_t i = 0; i < 2; i++) {
    pd_backend *b = handles[i];
    void *first = lock_of(handles[0], LONG_MS), *second = lock_of(b, LONG_MS);
    for (size_t k = 0; k < 2; k++) expect_locked(handles[k], 0); /* the handle that shares it is no exception */
    w->ops->gc_unlock(lock_of(elsewhere, 0));
    w->ops->gc_unlock(first);
    expect_locked(handles[0], 0);
    w->ops->gc_unlock(second);
    void *alone = lock_of(b, 0);
    for (size_t k = 0; k < 2; k++) expect_locked(handles[k], 0), expect_locked(handles[k], LONG_MS);
    w->ops->gc_unlock(alone);
    w->ops->gc_unlock(lock_of(b, LONG_MS));
  }
  w->ops->gc_unlock(NULL);
  for (size_t i = 0; i < 2; i++) w->ops->close(handles[i]);
  w->ops->close(elsewhere);
}

static void B21_a_share_whose_time_is_over_is_in_nobodys_way(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  void *shared = lock_of(b, 1), *alone = NULL;
  int64_t start = now_ms(CLOCK_MONOTONIC);
  while (b->ops->gc_lock(b, 0, &alone, NULL) == PD_CONFLICT) {
    assert_true(now_ms(CLOCK_MONOTONIC) - start < 30000);
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  expect_locked(b, LONG_MS);
  w->ops->gc_unlock(shared);
  expect_locked(b, LONG_MS);
  w->ops->gc_unlock(alone);
  w->ops->gc_unlock(lock_of(b, 0));
  w->ops->close(b);
}

static void B21_a_lock_outlives_its_handle(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main"), *other = world_open(w, "main");
  void *lock = lock_of(other, LONG_MS);
  w->ops->close(other);
  expect_locked(b, 0);
  w->ops->close(b);
  b = world_open(w, "main");
  expect_locked(b, 0);
  w->ops->gc_unlock(lock);
  w->ops->gc_unlock(lock_of(b, 0));
  w->ops->close(b);
}

static void B21_a_read_only_handle_can_share_the_lock_and_not_have_it_alone(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main"), *reader = NULL;
  void *lock;
  assert_int_equal(w->ops->open(w->rest, "main", PD_BACKEND_OPEN_READ_ONLY, &reader, NULL), PD_OK);
  assert_int_equal(reader->ops->gc_lock(reader, 0, &lock, NULL), PD_READ_ONLY);
  lock = lock_of(reader, LONG_MS);
  expect_locked(b, 0);
  w->ops->gc_unlock(lock);
  w->ops->close(reader);
  w->ops->close(b);
}

/* Has the lock until it is killed; the log tells that it has. */
static int hold_gc_lock(contract_world *w, int is_shared)
{
  pd_backend *b = NULL;
  void *lock = NULL;
  if (w->ops->open(w->rest, "main", 0, &b, NULL) != PD_OK) return 1;
  if (b->ops->gc_lock(b, is_shared ? LONG_MS : 0, &lock, NULL) != PD_OK) return 2;
  if (append_anywhere(b, 1, NULL) != PD_OK) return 3;
  for (;;) pause();
}

static void B21_a_process_that_is_killed_gives_the_lock_up(void **state)
{
  contract_world *w = *state;
  pd_backend *b = world_open(w, "main");
  for (int is_shared = 0; is_shared < 2; is_shared++) {
    uint64_t tail = 0;
    int pid = child_start(hold_gc_lock, w, is_shared);
    while (tail < (uint64_t)is_shared + 1) {
      assert_int_equal(b->ops->log_tail(b, &tail, NULL), PD_OK);
      sched_yield();
    }
    expect_locked(b, 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(child_wait(pid), -SIGKILL);
    w->ops->gc_unlock(lock_of(b, 0));
  }
  w->ops->close(b);
}

static void B21_those_who_read_for_long_can_keep_gc_away_or_cannot_ask(void **state)
{
  const contract_world *w = *state;
  assert_int_equal(w->ops->gc_lock != NULL, w->target->has_gc_lock);
  assert_int_equal(w->ops->gc_unlock != NULL, w->target->has_gc_lock);
}

const clause gc_lock_clauses[] = {
  CLAUSE(B21_those_who_read_for_long_can_keep_gc_away_or_cannot_ask),
  CLAUSE_IF(B21_those_who_share_the_lock_exclude_the_one_who_wants_it_alone, NEEDS_GC_LOCK),
  CLAUSE_IF(B21_a_share_whose_time_is_over_is_in_nobodys_way, NEEDS_GC_LOCK),
  CLAUSE_IF(B21_a_lock_outlives_its_handle, NEEDS_GC_LOCK),
  CLAUSE_IF(B21_a_read_only_handle_can_share_the_lock_and_not_have_it_alone, NEEDS_GC_LOCK),
  CLAUSE_IF(B21_a_process_that_is_killed_gives_the_lock_up, NEEDS_GC_LOCK_PROCESSES),
  {NULL, NULL, NEEDS_NOTHING},
};
