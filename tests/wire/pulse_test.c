/* pulse_test.c: a pool whose threads all hang has no pulse; one that is busy, or full, has. */
#include "wire/pulse.h"

#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATIENCE_MS 60000 /* a machine that does other things */

typedef struct stuck {
  pd_job job;
  sem_t begun, go;
} stuck;

static void hang(pd_job *job)
{
  stuck *s = (stuck *)job;
  sem_post(&s->begun);
  while (sem_wait(&s->go)) {}
}

static void stuck_init(stuck *s)
{
  *s = (stuck){.job.run = hang};
  sem_init(&s->begun, 0, 0);
  sem_init(&s->go, 0, 0);
}

static void wait_for_pulse(pd_pulse *pulse)
{
  for (int i = 0; i < PATIENCE_MS / 10 && atomic_load(&pulse->is_out); i++) poll(NULL, 0, 10);
  assert_false(atomic_load(&pulse->is_out));
}

static void pulse__an_idle_pool_has_one(void **state)
{
  (void)state;
  pd_pool pool;
  pd_pulse pulse;
  assert_int_equal(pd_pool_init(&pool, 2, 0, 10, NULL), PD_OK);
  pd_pulse_init(&pulse, &pool);
  for (int i = 0; i < 5; i++) {
    assert_true(pd_pulse_take(&pulse));
    wait_for_pulse(&pulse);
  }
  assert_true(pd_pool_done(&pool, PATIENCE_MS));
}

static void pulse__a_pool_that_hangs_has_none_until_it_goes_on(void **state)
{
  (void)state;
  pd_pool pool;
  pd_pulse pulse;
  stuck s;
  assert_int_equal(pd_pool_init(&pool, 1, 0, 10, NULL), PD_OK);
  pd_pulse_init(&pulse, &pool);
  stuck_init(&s);
  assert_true(pd_pool_add(&pool, &s.job));
  sem_wait(&s.begun);
  assert_true(pd_pulse_take(&pulse)); /* it began something just now */
  assert_false(pd_pulse_take(&pulse));
  assert_false(pd_pulse_take(&pulse));
  sem_post(&s.go);
  wait_for_pulse(&pulse);
  assert_true(pd_pulse_take(&pulse));
  assert_true(pd_pool_done(&pool, PATIENCE_MS));
}

static void pulse__a_full_pool_lives_as_long_as_it_moves(void **state)
{
  (void)state;
  pd_pool pool;
  pd_pulse pulse;
  stuck s[3];
  assert_int_equal(pd_pool_init(&pool, 1, 0, 1, NULL), PD_OK);
  pd_pulse_init(&pulse, &pool);
  for (int i = 0; i < 3; i++) stuck_init(&s[i]);
  assert_true(pd_pool_add(&pool, &s[0].job));
  sem_wait(&s[0].begun);
  assert_true(pd_pool_add(&pool, &s[1].job)); /* its one place */
  assert_true(pd_pulse_take(&pulse));
  assert_false(pd_pulse_take(&pulse)); /* no room for the question, and nothing was begun */
  sem_post(&s[0].go);
  sem_wait(&s[1].begun);
  assert_true(pd_pool_add(&pool, &s[2].job));
  assert_true(pd_pulse_take(&pulse)); /* still no room, but it moves */
  assert_false(pd_pulse_take(&pulse));
  sem_post(&s[1].go);
  sem_wait(&s[2].begun);
  sem_post(&s[2].go);
  assert_true(pd_pool_done(&pool, PATIENCE_MS));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(pulse__an_idle_pool_has_one),
    cmocka_unit_test(pulse__a_pool_that_hangs_has_none_until_it_goes_on),
    cmocka_unit_test(pulse__a_full_pool_lives_as_long_as_it_moves),
  };
  return cmocka_run_group_tests_name("wire pulse", tests, NULL, NULL);
}
