/* joint_clauses.c: B20 of backend.h: appends to several stores that are there at one moment, or never. A backend may have none. */
#include "contract/contract_world.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

static const char *const names[] = {"a", "b"};
#define COUNT 2
#define BEFORE 3 /* records of each store */
#define INSIDE 4 /* that a joint commit adds */

typedef struct pair {
  contract_world *w;
  pd_backend *open[COUNT]; /* handles that were there before */
} pair;

static pair begin_pair(contract_world *w)
{
  pair p = {.w = w};
  for (size_t i = 0; i < COUNT; i++) {
    p.open[i] = world_open(w, names[i]);
    assert_int_equal(append_numbered(p.open[i], 1, BEFORE, NULL), PD_OK);
  }
  return p;
}

static void end_pair(pair *p)
{
  for (size_t i = 0; i < COUNT; i++) p->w->ops->close(p->open[i]);
}

static void *begin(const pair *p)
{
  void *joint = NULL;
  pd_error err = {0};
  if (p->w->ops->joint_begin(p->w->rest, names, COUNT, "test", &joint, &err)) fail_msg("joint_begin: %s", err.message);
  assert_non_null(joint);
  return joint;
}

/* Through a handle of the joint commit, which sees its own. */
static void append_inside(const pair *p, void *joint, size_t index, size_t count)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  uint64_t tail = 0;
  if (p->w->ops->joint_open(joint, names[index], 0, &b, &err)) fail_msg("joint_open: %s", err.message);
  assert_int_equal(p->w->ops->log_tail(b, &tail, &err), PD_OK);
  if (append_numbered(b, tail + 1, count, &err)) fail_msg("append: %s", err.message);
  assert_int_equal(p->w->ops->log_tail(b, &tail, &err), PD_OK);
  assert_true(tail >= BEFORE + count);
  p->w->ops->close(b);
}

/* By the old handles, by new ones, and by new ones that only read. */
static void expect_both(const pair *p, uint64_t tail)
{
  for (size_t i = 0; i < COUNT; i++) {
    pd_backend *writer = world_open(p->w, names[i]), *reader = NULL;
    assert_int_equal(p->w->ops->open(p->w->rest, names[i], PD_BACKEND_OPEN_READ_ONLY, &reader, NULL), PD_OK);
    expect_numbered_log(p->open[i], tail);
    expect_numbered_log(writer, tail);
    expect_numbered_log(reader, tail);
    p->w->ops->close(reader);
    p->w->ops->close(writer);
  }
}

static void B20_joint_commits_are_there_whole_or_not_at_all(void **state)
{
  const contract_world *w = *state;
  const pd_backend_ops *ops = w->ops;
  bool has = w->target->has_joint;
  assert_int_equal(ops->joint_begin != NULL, has);
  assert_int_equal(ops->joint_open != NULL, has);
  assert_int_equal(ops->joint_commit != NULL, has);
  assert_int_equal(ops->joint_abort != NULL, has);
}

static void B20_nobody_sees_it_before_the_commit_and_everybody_after(void **state)
{
  pair p = begin_pair(*state);
  void *joint = begin(&p);
  expect_both(&p, BEFORE);
  for (size_t i = 0; i < COUNT; i++) {
    append_inside(&p, joint, i, INSIDE - 1);
    append_inside(&p, joint, i, 1);
    expect_both(&p, BEFORE);
  }
  assert_int_equal(p.w->ops->joint_commit(joint, NULL), PD_OK);
  expect_both(&p, BEFORE + INSIDE);
  for (size_t i = 0; i < COUNT; i++) assert_int_equal(append_numbered(p.open[i], BEFORE + INSIDE + 1, 1, NULL), PD_OK);
  expect_both(&p, BEFORE + INSIDE + 1);
  end_pair(&p);
}

static void B20_an_abort_leaves_nothing_and_the_numbers_are_free(void **state)
{
  pair p = begin_pair(*state);
  void *joint = begin(&p);
  for (size_t i = 0; i < COUNT; i++) append_inside(&p, joint, i, INSIDE);
  p.w->ops->joint_abort(joint);
  p.w->ops->joint_abort(NULL);
  expect_both(&p, BEFORE);
  for (size_t i = 0; i < COUNT; i++) assert_int_equal(append_numbered(p.open[i], BEFORE + 1, 1, NULL), PD_OK);
  expect_both(&p, BEFORE + 1);
  joint = begin(&p); /* and the next can begin */
  assert_int_equal(p.w->ops->joint_commit(joint, NULL), PD_OK);
  expect_both(&p, BEFORE + 1);
  end_pair(&p);
}

static void B20_a_store_that_takes_no_part_is_free(void **state)
{
  pair p = begin_pair(*state);
  pd_backend *other = world_open(p.w, "other"), *none = NULL;
  void *joint = begin(&p);
  assert_int_equal(append_numbered(other, 1, 2, NULL), PD_OK); /* does not wait */
  assert_int_equal(p.w->ops->joint_open(joint, "other", 0, &none, NULL), PD_INVALID);
  assert_null(none);
  p.w->ops->joint_abort(joint);
  expect_numbered_log(other, 2);
  p.w->ops->close(other);
  end_pair(&p);
}

static void B20_a_store_that_is_not_there_is_refused_and_nothing_is_left(void **state)
{
  pair p = begin_pair(*state);
  const char *const wrong[] = {"a", "absent"};
  void *joint = NULL;
  assert_int_equal(p.w->ops->joint_begin(p.w->rest, wrong, 2, "test", &joint, NULL), PD_NOT_FOUND);
  assert_null(joint);
  assert_int_equal(append_numbered(p.open[0], BEFORE + 1, 1, NULL), PD_OK); /* nobody keeps it */
  end_pair(&p);
}

typedef struct waiter {
  pd_backend *b;
  bool has_begun, is_done; /* atomic */
  pd_code code;
} waiter;

static void *append_behind(void *arg)
{
  waiter *x = arg;
  __atomic_store_n(&x->has_begun, true, __ATOMIC_RELEASE);
  x->code = append_anywhere(x->b, 1, NULL);
  __atomic_store_n(&x->is_done, true, __ATOMIC_RELEASE);
  return NULL;
}

/* If others did not wait, the append would happen at once; many turns of the scheduler are given to it. */
static void B20_others_wait_and_append_behind_it(void **state)
{
  pair p = begin_pair(*state);
  pthread_t thread;
  waiter x = {.b = p.open[1]};
  void *joint = begin(&p);
  assert_int_equal(pthread_create(&thread, NULL, append_behind, &x), 0);
  while (!__atomic_load_n(&x.has_begun, __ATOMIC_ACQUIRE)) sched_yield();
  for (size_t i = 0; i < COUNT; i++) append_inside(&p, joint, i, INSIDE);
  for (int turn = 0; turn < 5000; turn++) sched_yield();
  assert_false(__atomic_load_n(&x.is_done, __ATOMIC_ACQUIRE));
  assert_int_equal(p.w->ops->joint_commit(joint, NULL), PD_OK);
  pthread_join(thread, NULL);
  assert_int_equal(x.code, PD_OK);
  expect_numbered_log(p.open[0], BEFORE + INSIDE);
  expect_numbered_log(p.open[1], BEFORE + INSIDE + 1);
  end_pair(&p);
}

static void B20_one_that_claims_finishes_first(void **state)
{
  pair p = begin_pair(*state);
  if (!p.w->ops->log_claim) skip();
  pd_backend *claimer = world_open(p.w, names[0]);
  assert_int_equal(p.w->ops->log_claim(claimer, NULL), PD_OK);
  assert_int_equal(append_numbered(claimer, BEFORE + 1, 1, NULL), PD_OK);
  p.w->ops->log_release(claimer);
  void *joint = begin(&p);
  append_inside(&p, joint, 0, 1);
  assert_int_equal(p.w->ops->joint_commit(joint, NULL), PD_OK);
  assert_int_equal(p.w->ops->log_claim(claimer, NULL), PD_OK);
  assert_int_equal(append_numbered(claimer, BEFORE + 3, 1, NULL), PD_OK);
  p.w->ops->log_release(claimer);
  p.w->ops->close(claimer);
  expect_numbered_log(p.open[0], BEFORE + 3);
  end_pair(&p);
}

/* ---- processes ---- */

/* `index` stores have records when it goes. */
static int die_inside(contract_world *w, int index)
{
  void *joint = NULL;
  if (w->ops->joint_begin(w->rest, names, COUNT, "test", &joint, NULL)) return 1;
  for (int i = 0; i < index; i++) append_inside(&(pair){.w = w}, joint, (size_t)i, INSIDE);
  raise(SIGKILL);
  return 2;
}

static void B20_a_process_that_dies_before_the_commit_has_changed_nothing(void **state)
{
  pair p = begin_pair(*state);
  for (int count = 0; count <= COUNT; count++) {
    assert_int_equal(child_wait(child_start(die_inside, p.w, count)), -SIGKILL);
    for (size_t i = 0; i < COUNT; i++) expect_numbered_log(p.open[i], BEFORE); /* before anybody cleans up */
    expect_both(&p, BEFORE);
  }
  assert_int_equal(append_numbered(p.open[0], BEFORE + 1, 1, NULL), PD_OK);
  expect_numbered_log(p.open[1], BEFORE);
  end_pair(&p);
}

static int commit_as_process(contract_world *w, int index)
{
  void *joint = NULL;
  (void)index;
  if (w->ops->joint_begin(w->rest, names, COUNT, "test", &joint, NULL)) return 1;
  for (size_t i = 0; i < COUNT; i++) append_inside(&(pair){.w = w}, joint, i, INSIDE);
  return w->ops->joint_commit(joint, NULL) ? 2 : 0;
}

static void B20_a_commit_of_another_process_is_seen_and_lasts(void **state)
{
  pair p = begin_pair(*state);
  assert_int_equal(child_wait(child_start(commit_as_process, p.w, 0)), 0);
  expect_both(&p, BEFORE + INSIDE);
  for (size_t i = 0; i < COUNT; i++) p.open[i] = world_reopen(p.w, p.open[i], names[i]);
  expect_both(&p, BEFORE + INSIDE);
  end_pair(&p);
}

const clause joint_clauses[] = {
  CLAUSE(B20_joint_commits_are_there_whole_or_not_at_all),
  CLAUSE_IF(B20_nobody_sees_it_before_the_commit_and_everybody_after, NEEDS_JOINT),
  CLAUSE_IF(B20_an_abort_leaves_nothing_and_the_numbers_are_free, NEEDS_JOINT),
  CLAUSE_IF(B20_a_store_that_takes_no_part_is_free, NEEDS_JOINT),
  CLAUSE_IF(B20_a_store_that_is_not_there_is_refused_and_nothing_is_left, NEEDS_JOINT),
  CLAUSE_IF(B20_others_wait_and_append_behind_it, NEEDS_JOINT),
  CLAUSE_IF(B20_one_that_claims_finishes_first, NEEDS_JOINT),
  CLAUSE_IF(B20_a_process_that_dies_before_the_commit_has_changed_nothing, NEEDS_JOINT_PROCESSES),
  CLAUSE_IF(B20_a_commit_of_another_process_is_seen_and_lasts, NEEDS_JOINT_PROCESSES),
  {NULL, NULL, NEEDS_NOTHING},
};
