/* pool_test.c: owners take turns in a pool, and none has all of its threads: P1 and P2 of pool.h. */
#include "wire/pool.h"

#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATIENCE_MS 60000 /* a machine that does other things */
#define GREEDY 40

typedef struct task {
  pd_job job;
  sem_t *go; /* NULL: it ends at once */
  atomic_uint order;
} task;

static atomic_uint begun;

static void run(pd_job *job)
{
  task *t = (task *)job;
  t->order = atomic_fetch_add(&begun, 1) + 1;
  if (t->go)
    while (sem_wait(t->go)) {}
}

static void await_begun(unsigned count)
{
  for (int i = 0; i < PATIENCE_MS / 5 && atomic_load(&begun) < count; i++) poll(NULL, 0, 5);
  assert_true(atomic_load(&begun) >= count);
}

static void pool__one_owner_has_its_share_of_the_threads_and_another_is_served_meanwhile(void **state)
{
  (void)state;
  pd_pool pool;
  task greedy[GREEDY], modest = {.job = {.run = run, .owner = "modest"}};
  sem_t go;
  sem_init(&go, 0, 0);
  atomic_store(&begun, 0);
  assert_int_equal(pd_pool_init(&pool, 8, 4, 1000, NULL), PD_OK);
  for (int i = 0; i < GREEDY; i++) {
    greedy[i] = (task){.job = {.run = run, .owner = "greedy"}, .go = &go};
    assert_true(pd_pool_add(&pool, &greedy[i].job));
  }
  await_begun(4);
  assert_true(pd_pool_add(&pool, &modest.job));
  await_begun(5);
  assert_int_equal(modest.order, 5); /* no more than four of the greedy one's are at work */
  poll(NULL, 0, 50);
  assert_int_equal(atomic_load(&begun), 5);
  for (int i = 0; i < GREEDY; i++) sem_post(&go);
  await_begun(GREEDY + 1);
  assert_true(pd_pool_done(&pool, PATIENCE_MS));
}

static void pool__owners_take_turns(void **state)
{
  (void)state;
  pd_pool pool;
  task first, greedy[GREEDY], modest[3];
  sem_t go;
  sem_init(&go, 0, 0);
  atomic_store(&begun, 0);
  assert_int_equal(pd_pool_init(&pool, 1, 0, 1000, NULL), PD_OK);
  first = (task){.job = {.run = run}, .go = &go};
  assert_true(pd_pool_add(&pool, &first.job));
  await_begun(1);
  for (int i = 0; i < GREEDY; i++) {
    greedy[i] = (task){.job = {.run = run, .owner = "greedy"}};
    assert_true(pd_pool_add(&pool, &greedy[i].job));
  }
  for (int i = 0; i < 3; i++) {
    modest[i] = (task){.job = {.run = run, .owner = "modest"}};
    assert_true(pd_pool_add(&pool, &modest[i].job));
  }
  sem_post(&go);
  assert_true(pd_pool_done(&pool, PATIENCE_MS)); /* what is queued is done */
  assert_int_equal(atomic_load(&begun), GREEDY + 4);
  for (unsigned i = 0; i < 3; i++) assert_int_equal(modest[i].order, 3 + 2 * i);
  for (unsigned i = 1; i < GREEDY; i++) assert_true(greedy[i].order > greedy[i - 1].order);
}

static void pool__one_owner_has_a_quarter_of_the_queue(void **state)
{
  (void)state;
  pd_pool pool;
  task greedy[6], modest = {.job = {.run = run, .owner = "modest"}};
  sem_t go;
  sem_init(&go, 0, 0);
  atomic_store(&begun, 0);
  assert_int_equal(pd_pool_init(&pool, 1, 1, 16, NULL), PD_OK);
  for (int i = 0; i < 6; i++) greedy[i] = (task){.job = {.run = run, .owner = "greedy"}, .go = &go};
  assert_true(pd_pool_add(&pool, &greedy[0].job));
  await_begun(1);
  for (int i = 1; i < 5; i++) assert_true(pd_pool_add(&pool, &greedy[i].job));
  assert_false(pd_pool_add(&pool, &greedy[5].job));
  assert_true(pd_pool_add(&pool, &modest.job));
  for (int i = 0; i < 5; i++) sem_post(&go);
  assert_true(pd_pool_done(&pool, PATIENCE_MS));
  assert_int_equal(atomic_load(&begun), 6);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(pool__one_owner_has_its_share_of_the_threads_and_another_is_served_meanwhile),
    cmocka_unit_test(pool__owners_take_turns),
    cmocka_unit_test(pool__one_owner_has_a_quarter_of_the_queue),
  };
  return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
