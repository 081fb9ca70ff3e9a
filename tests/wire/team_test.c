/* team_test.c: work that a few threads share: each piece once, whoever does it, and alone when the helpers are another's. */
#include "base/base.h"
#include "wire/team.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PIECES 1000

typedef struct pieces {
  atomic_uint done[PIECES];
  unsigned plain[PIECES]; /* without atomics: the thread sanitizer sees what T1 promises broken */
} pieces;

static void do_pieces(void *ctx, size_t begin, size_t end)
{
  pieces *p = ctx;
  for (size_t i = begin; i < end; i++) {
    atomic_fetch_add(&p->done[i], 1);
    p->plain[i]++;
  }
}

static pd_team *new_team(void)
{
  pd_team *team = NULL;
  assert_int_equal(pd_team_new(4, &team, NULL), PD_OK);
  return team;
}

static void check(const pieces *p, size_t count, unsigned times)
{
  for (size_t i = 0; i < PIECES; i++) {
    assert_int_equal(p->done[i], i < count ? times : 0);
    assert_int_equal(p->plain[i], i < count ? times : 0);
  }
}

static void team__each_piece_is_done_once_whatever_the_count_and_the_grain(void **state)
{
  (void)state;
  static const size_t counts[] = {0, 1, 2, 15, 16, 17, 999, PIECES}, grains[] = {0, 1, 7, 16, 5000};
  pd_team *team = new_team();
  for (size_t i = 0; i < COUNT_OF(counts); i++)
    for (size_t j = 0; j < COUNT_OF(grains); j++) {
      static pieces p;
      memset(&p, 0, sizeof p);
      pd_team_run(team, counts[i], grains[j], do_pieces, &p);
      check(&p, counts[i], 1);
    }
  pd_team_free(team);
}

static void team__what_was_done_is_seen_when_it_returns(void **state)
{
  (void)state;
  static pieces p;
  memset(&p, 0, sizeof p);
  pd_team *team = new_team();
  for (unsigned round = 1; round <= 500; round++) {
    pd_team_run(team, 64, 4, do_pieces, &p);
    check(&p, 64, round);
  }
  pd_team_free(team);
}

typedef struct held {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool is_inside, may_leave;
  pd_team *team;
} held;

static void hold(void *ctx, size_t begin, size_t end)
{
  held *h = ctx;
  (void)begin, (void)end;
  pthread_mutex_lock(&h->lock);
  h->is_inside = true;
  pthread_cond_broadcast(&h->changed);
  while (!h->may_leave) pthread_cond_wait(&h->changed, &h->lock);
  pthread_mutex_unlock(&h->lock);
}

static void *run_held(void *ctx)
{
  held *h = ctx;
  pd_team_run(h->team, 1, 1, hold, h);
  return NULL;
}

static void team__who_finds_the_helpers_busy_does_its_work_alone(void **state)
{
  (void)state;
  static pieces p;
  memset(&p, 0, sizeof p);
  held h = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .team = new_team()};
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, run_held, &h), 0);
  pthread_mutex_lock(&h.lock);
  while (!h.is_inside) pthread_cond_wait(&h.changed, &h.lock);
  pthread_mutex_unlock(&h.lock);
  pd_team_run(h.team, PIECES, 16, do_pieces, &p); /* it would wait for ever for the other */
  check(&p, PIECES, 1);
  pthread_mutex_lock(&h.lock);
  h.may_leave = true;
  pthread_cond_broadcast(&h.changed);
  pthread_mutex_unlock(&h.lock);
  pthread_join(other, NULL);
  pd_team_free(h.team);
}

static void team__one_that_never_worked_can_be_freed(void **state)
{
  (void)state;
  pd_team_free(new_team());
  pd_team_free(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(team__each_piece_is_done_once_whatever_the_count_and_the_grain),
    cmocka_unit_test(team__what_was_done_is_seen_when_it_returns),
    cmocka_unit_test(team__who_finds_the_helpers_busy_does_its_work_alone),
    cmocka_unit_test(team__one_that_never_worked_can_be_freed),
  };
  return cmocka_run_group_tests_name("wire team", tests, NULL, NULL);
}
