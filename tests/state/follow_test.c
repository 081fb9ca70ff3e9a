/* follow_test.c: the one follower of a home's logs (perdure/follow.h). */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"

#include <perdure/follow.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define PATIENCE_S 30
#define EVENTS_MAX 4096

/* One follower, and what it was given. */
typedef struct hearer {
  pd_follower follower; /* first */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char keys[EVENTS_MAX][32];
  size_t count;
  pd_watch_cursor next;
  bool must_stay, is_inside; /* `take` waits as long as it must */
  pthread_t thread;          /* the last `take`'s */
} hearer;

static void take(pd_follower *follower, pd_follow_batch *batch, size_t first)
{
  hearer *h = (hearer *)follower;
  pthread_mutex_lock(&h->lock);
  for (size_t i = first; i < batch->count; i++)
    snprintf(h->keys[h->count++], sizeof h->keys[0], "%.*s", (int)batch->events[i].key.size, (const char *)batch->events[i].key.data);
  h->next = batch->next;
  h->is_inside = true;
  h->thread = pthread_self();
  pthread_cond_broadcast(&h->changed);
  while (h->must_stay) pthread_cond_wait(&h->changed, &h->lock);
  h->is_inside = false;
  pthread_mutex_unlock(&h->lock);
}

static hearer *hearer_new(void)
{
  hearer *h = calloc(1, sizeof *h);
  h->follower.take = take;
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->changed, NULL);
  return h;
}

static void hearer_free(hearer *h)
{
  pd_follow_close(&h->follower);
  pthread_cond_destroy(&h->changed);
  pthread_mutex_destroy(&h->lock);
  free(h);
}

static hearer *follow(world *w, const char *store)
{
  hearer *h = hearer_new();
  assert_int_equal(pd_follow_open(world_grant(w->home), store, &h->follower, &w->err), PD_OK);
  assert_true(pd_follow_join(&h->follower, NULL));
  return h;
}

/* Until it has `count` events; with `count` 0, until it is inside `take`. */
static void wait_for(hearer *h, size_t count)
{
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += PATIENCE_S;
  pthread_mutex_lock(&h->lock);
  while (count ? h->count < count : !h->is_inside)
    if (pthread_cond_timedwait(&h->changed, &h->lock, &end)) fail_msg("%zu events came, not %zu", h->count, count);
  pthread_mutex_unlock(&h->lock);
}

static void set(world *w, const char *agent, const char *key)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  char input[128];
  pd_ctx ctx = {.home = w->home, .agent = agent};
  snprintf(input, sizeof input, "{\"key\":\"%s\",\"value\":1}", key);
  if (pd_call(&ctx, "state.persistent.set", pd_text(input), &out, &w->err)) fail_msg("%s: %s", input, w->err.message);
}

static void set_numbered(world *w, const char *agent, int count)
{
  char key[32];
  for (int i = 0; i < count; i++) {
    snprintf(key, sizeof key, "k%04d", i);
    set(w, agent, key);
  }
}

static void wait_for_threads(world *w, size_t count)
{
  for (int i = 0; i < PATIENCE_S * 1000 && pd_follow_count(w->home) != count; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(pd_follow_count(w->home), count);
}

/* ---- FOL-1 ---- */

static void follow__each_follower_gets_each_event_once_and_in_order(void **state)
{
  world *w = *state;
  char key[32];
  set(w, "ann", "before");
  hearer *one = follow(w, "ann"), *other = follow(w, "ann");
  set_numbered(w, "ann", 300);
  wait_for(one, 300);
  wait_for(other, 300);
  assert_int_equal(one->count, 300);
  assert_int_equal(other->count, 300);
  for (int i = 0; i < 300; i++) {
    snprintf(key, sizeof key, "k%04d", i);
    assert_string_equal(one->keys[i], key);
    assert_string_equal(other->keys[i], key);
  }
  hearer_free(one);
  hearer_free(other);
}

static void follow__who_joins_at_a_place_gets_what_comes_after_it(void **state)
{
  world *w = *state;
  set(w, "ann", "a");
  hearer *first = follow(w, "ann"), *late = hearer_new();
  set(w, "ann", "b");
  wait_for(first, 1);
  pd_watch_cursor at = first->next, passed = {.seq = at.seq - 1}, ahead = {.seq = at.seq + 1};
  assert_int_equal(pd_follow_open(world_grant(w->home), "ann", &late->follower, &w->err), PD_OK);
  assert_false(pd_follow_join(&late->follower, &passed)); /* "b" would be missing */
  assert_true(pd_follow_join(&late->follower, &ahead));   /* it has read "c" already, by itself */
  set(w, "ann", "c");
  set(w, "ann", "d");
  wait_for(first, 3);
  wait_for(late, 1);
  assert_string_equal(late->keys[0], "d");
  assert_int_equal(late->count, 1);
  hearer_free(late);
  hearer_free(first);
}

static void follow__a_store_that_does_not_exist_is_followed_once_it_is_made(void **state)
{
  world *w = *state;
  hearer *h = follow(w, "nobody");
  pd_store *store = NULL;
  assert_int_equal(world_borrow(w->home, "nobody", false, &store, NULL), PD_NOT_FOUND); /* following makes no store */
  set(w, "nobody", "first");
  wait_for(h, 1);
  assert_string_equal(h->keys[h->count - 1], "first");
  hearer_free(h);
}

/* ---- threads ---- */

static void follow__a_store_has_one_thread_however_many_follow_it(void **state)
{
  world *w = *state;
  hearer *all[20];
  assert_int_equal(pd_follow_count(w->home), 0);
  for (size_t i = 0; i < COUNT_OF(all); i++) all[i] = follow(w, i % 2 ? "shared" : "system");
  assert_int_equal(pd_follow_count(w->home), 2);
  for (size_t i = 0; i < COUNT_OF(all); i++) hearer_free(all[i]);
  wait_for_threads(w, 0);
}

typedef struct opener {
  world *w;
  pthread_barrier_t *start;
  hearer *made;
} opener;

static void *open_at_once(void *ctx)
{
  opener *o = ctx;
  pthread_barrier_wait(o->start);
  o->made = follow(o->w, "ann");
  return NULL;
}

static void follow__those_who_come_at_once_share_a_thread(void **state)
{
  world *w = *state;
  pthread_barrier_t start;
  opener openers[8];
  pthread_t threads[COUNT_OF(openers)];
  set(w, "ann", "a");
  pthread_barrier_init(&start, NULL, COUNT_OF(openers));
  for (size_t i = 0; i < COUNT_OF(openers); i++) {
    openers[i] = (opener){.w = w, .start = &start};
    assert_int_equal(pthread_create(&threads[i], NULL, open_at_once, &openers[i]), 0);
  }
  for (size_t i = 0; i < COUNT_OF(openers); i++) pthread_join(threads[i], NULL);
  assert_int_equal(pd_follow_count(w->home), 1);
  set(w, "ann", "b");
  for (size_t i = 0; i < COUNT_OF(openers); i++) wait_for(openers[i].made, 1);
  for (size_t i = 0; i < COUNT_OF(openers); i++) hearer_free(openers[i].made);
  pthread_barrier_destroy(&start);
}

/* ---- FOL-3, FOL-4 ---- */

static void *close_it(void *ctx)
{
  pd_follow_close(&((hearer *)ctx)->follower);
  return NULL;
}

static void let_go(hearer *h)
{
  pthread_mutex_lock(&h->lock);
  h->must_stay = false;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
}

static void assert_runs_on(pthread_t thread)
{
  struct timespec soon;
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_nsec += 50 * 1000000;
  soon.tv_sec += soon.tv_nsec / 1000000000;
  soon.tv_nsec %= 1000000000;
  assert_int_not_equal(pthread_timedjoin_np(thread, NULL, &soon), 0);
}

static void follow__closing_waits_until_the_follower_has_taken(void **state)
{
  world *w = *state;
  pthread_t closer;
  hearer *h = follow(w, "shared"), *other = follow(w, "shared");
  h->must_stay = true;
  world_ok(w, "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":0}");
  wait_for(h, 0);
  assert_int_equal(pthread_create(&closer, NULL, close_it, h), 0);
  assert_runs_on(closer);
  let_go(h);
  pthread_join(closer, NULL);
  assert_false(h->is_inside);
  size_t count = h->count;
  world_ok(w, "state.shared.set", "{\"key\":\"b\",\"value\":1,\"expected_version\":0}");
  wait_for(other, 2);
  assert_int_equal(h->count, count);
  hearer_free(h);
  hearer_free(other);
}

static void follow__while_one_takes_others_come_and_stores_are_used(void **state)
{
  world *w = *state;
  hearer *h = follow(w, "ann");
  h->must_stay = true;
  set(w, "ann", "a");
  wait_for(h, 0);
  hearer *same = follow(w, "ann"), *another = follow(w, "bob");
  set(w, "ann", "b");
  set(w, "bob", "c");
  wait_for(another, 1);
  assert_int_equal(same->count, 0); /* it waits for its turn */
  hearer_free(another);
  let_go(h);
  wait_for(same, 1);
  assert_string_equal(same->keys[0], "b");
  hearer_free(same);
  hearer_free(h);
}

/* ---- many ---- */

#define CROWD_COUNT 600

static void follow_in_crowd(world *w, hearer *all[CROWD_COUNT])
{
  for (size_t i = 0; i < CROWD_COUNT; i++) all[i] = follow(w, "ann");
}

static void free_crowd(hearer *all[CROWD_COUNT])
{
  for (size_t i = 0; i < CROWD_COUNT; i++) hearer_free(all[i]);
}

static void follow__in_a_crowd_each_gets_each_event_once_and_in_order(void **state)
{
  world *w = *state;
  hearer *all[CROWD_COUNT];
  char key[32];
  set(w, "ann", "before");
  follow_in_crowd(w, all);
  set_numbered(w, "ann", 50);
  for (size_t i = 0; i < CROWD_COUNT; i++) {
    wait_for(all[i], 50);
    for (size_t k = 0; k < 50; k++) {
      snprintf(key, sizeof key, "k%04zu", k);
      assert_string_equal(all[i]->keys[k], key);
    }
  }
  for (size_t i = 0; i < CROWD_COUNT; i++) pd_follow_close(&all[i]->follower); /* nothing comes any more */
  for (size_t i = 0; i < CROWD_COUNT; i++) assert_int_equal(all[i]->count, 50);
  free_crowd(all);
}

static void follow__a_crowd_is_told_by_several_threads_and_closing_waits_for_each(void **state)
{
  world *w = *state;
  hearer *all[CROWD_COUNT], *alone = follow(w, "ann");
  pthread_t closer;
  set(w, "ann", "a");
  wait_for(alone, 1);
  pthread_t main_thread = alone->thread; /* the store's: the only one yet */
  follow_in_crowd(w, all);
  hearer *slow[] = {all[CROWD_COUNT - 1], all[CROWD_COUNT - 2]}; /* who came last is told first */
  slow[0]->must_stay = slow[1]->must_stay = true;
  set(w, "ann", "b");
  wait_for(slow[0], 0);
  wait_for(slow[1], 0);
  bool first_is_helped = !pthread_equal(slow[0]->thread, main_thread);
  hearer *helped = slow[first_is_helped ? 0 : 1], *other = slow[first_is_helped ? 1 : 0];
  assert_false(pthread_equal(helped->thread, main_thread));
  assert_int_equal(pthread_create(&closer, NULL, close_it, helped), 0);
  let_go(other);
  wait_for(alone, 2); /* the last of all */
  assert_runs_on(closer);
  let_go(helped);
  pthread_join(closer, NULL);
  assert_false(helped->is_inside);
  hearer_free(alone);
  free_crowd(all);
}

static void follow__a_bad_name_is_refused(void **state)
{
  world *w = *state;
  hearer *h = hearer_new();
  assert_int_equal(pd_follow_open(world_grant(w->home), "no/name", &h->follower, &w->err), PD_INVALID);
  assert_int_equal(pd_follow_count(w->home), 0);
  hearer_free(h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(follow__each_follower_gets_each_event_once_and_in_order),
    TEST(follow__who_joins_at_a_place_gets_what_comes_after_it),
    TEST(follow__a_store_that_does_not_exist_is_followed_once_it_is_made),
    TEST(follow__a_store_has_one_thread_however_many_follow_it),
    TEST(follow__those_who_come_at_once_share_a_thread),
    TEST(follow__closing_waits_until_the_follower_has_taken),
    TEST(follow__while_one_takes_others_come_and_stores_are_used),
    TEST(follow__in_a_crowd_each_gets_each_event_once_and_in_order),
    TEST(follow__a_crowd_is_told_by_several_threads_and_closing_waits_for_each),
    TEST(follow__a_bad_name_is_refused),
  };
  return cmocka_run_group_tests_name("follow", tests, NULL, NULL);
}
