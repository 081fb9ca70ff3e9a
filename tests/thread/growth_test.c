/*
 * growth_test.c: threads come and go by the thousand, and the store grows by what they wrote: a keyframe is not made for each of them, and
 * does not repeat those that are gone for ever. Counted in bytes, not in time.
 */
#include "thread/thread_world.h"

#define SMALL_CACHE ((size_t)1 << 20) /* keyframes are made early: what they cost shows soon */
#define THREADS 800
#define THREAD_BYTES_MAX 3000 /* with all its records */

static void open_small(thread_world *w)
{
  *w = (thread_world){0};
  world_need(w, pd_store_open("memory:", "main", &(pd_options){.cache_size_max = SMALL_CACHE}, &w->store, &w->err));
}

/* A short conversation. */
static void converse(thread_world *w, int number, bool is_to_go)
{
  char id[32], messages[160];
  snprintf(id, sizeof id, "conversation-%06d", number);
  world_need(w, pd_thread_create(w->store, &(pd_thread_options){.id = id, .owner = "ada", .time_ms = 1000 + number}, &w->t, &w->err));
  for (int i = 0; i < 2; i++) {
    snprintf(messages, sizeof messages, "[{\"id\":\"m%d\",\"role\":\"user\",\"content\":\"turn %d of conversation %d\"}]", i, i, number);
    world_append(w, messages, NULL);
  }
  pd_thread_close(w->t);
  w->t = NULL;
  if (is_to_go) world_need(w, pd_thread_delete(w->store, id, PD_ANY_VERSION, NULL, &w->err));
}

static pd_stats stats_now(thread_world *w)
{
  pd_stats stats;
  world_need(w, pd_store_keyframe(w->store, &w->err)); /* waits for one that is being written */
  world_need(w, pd_store_stats(w->store, &stats, &w->err));
  return stats;
}

/* Bytes that conversations first … last - 1 cost. */
static uint64_t cost_of(thread_world *w, int first, int last, bool is_to_go)
{
  pd_stats before = stats_now(w);
  for (int i = first; i < last; i++) converse(w, i, is_to_go);
  pd_stats after = stats_now(w);
  return after.log_bytes + after.bag_bytes - before.log_bytes - before.bag_bytes;
}

static void growth__a_thread_that_goes_costs_what_it_wrote(void **state)
{
  (void)state;
  thread_world w;
  open_small(&w);
  uint64_t early = cost_of(&w, 0, THREADS, true);
  uint64_t late = cost_of(&w, THREADS, 3 * THREADS, true) / 2;
  print_message("# a thread costs %llu bytes, later %llu\n", (unsigned long long)early / THREADS, (unsigned long long)late / THREADS);
  assert_true(early < (uint64_t)THREADS * THREAD_BYTES_MAX);
  assert_true(late < early + early / 4);
  world_close(&w);
}

/* Its nodes cannot be saved with a ref that is no more: they must not make the store believe that a keyframe would help. */
static void growth__threads_that_are_gone_do_not_make_keyframes_due(void **state)
{
  (void)state;
  thread_world w;
  open_small(&w);
  cost_of(&w, 0, 3 * THREADS, true);
  pd_stats stats = stats_now(&w);
  assert_true(stats.records > 10000);
  assert_true(stats.keyframes < stats.records / 1000);
  world_close(&w);
}

static void growth__living_threads_do_not_make_each_other_dearer(void **state)
{
  (void)state;
  thread_world w;
  open_small(&w);
  uint64_t early = cost_of(&w, 0, THREADS, false);
  uint64_t late = cost_of(&w, THREADS, 3 * THREADS, false) / 2;
  print_message("# a thread costs %llu bytes, later %llu\n", (unsigned long long)early / THREADS, (unsigned long long)late / THREADS);
  assert_true(late < early + early / 2);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(growth__a_thread_that_goes_costs_what_it_wrote),
    cmocka_unit_test(growth__threads_that_are_gone_do_not_make_keyframes_due),
    cmocka_unit_test(growth__living_threads_do_not_make_each_other_dearer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
