/*
 * cost_test.c: a checkpoint costs what changed, whatever the length of the thread; loading costs what is asked for. Counted in bytes, keys
 * and calls of the backend, not in time.
 */
#include "support/fault_backend.h"
#include "support/temp_folder.h"
#include "thread/thread_world.h"

#define LONG 10000
#define FIELDS 20
#define BODY 500

static void make_state(char *out, size_t size)
{
  size_t used = (size_t)snprintf(out, size, "{");
  for (int i = 0; i < FIELDS; i++) used += (size_t)snprintf(out + used, size - used, "%s\"field%02d\":\"value %d\"", i ? "," : "", i, i);
  snprintf(out + used, size - used, "}");
}

/* One turn: a message of 500 B and two fields of the state; the texts have the same length, whatever the number. */
static void append_turn(thread_world *w, pd_thread *t, int number)
{
  char messages[BODY + 100], patches[300];
  snprintf(messages, sizeof messages, "[{\"id\":\"m%06d\",\"role\":\"user\",\"content\":\"%0*d\"}]", number, BODY, number);
  snprintf(patches, sizeof patches,
           "[{\"op\":\"set\",\"path\":[\"field%02d\"],\"value\":\"%08d\"},{\"op\":\"set\",\"path\":[\"turn\"],\"value\":1%06d}]",
           number % FIELDS, number, number);
  world_append_to(w, t, messages, patches);
}

static pd_stats stats_of(thread_world *w)
{
  pd_stats stats;
  world_need(w, pd_store_stats(w->store, &stats, &w->err));
  return stats;
}

typedef struct price {
  uint64_t log_bytes, keys, lookups;
} price;

typedef struct key_count {
  uint64_t keys;
} key_count;

static bool count_keys(void *ctx, const pd_record *record)
{
  ((key_count *)ctx)->keys = record->change_count;
  return false;
}

/* What ten turns cost, from `number` on. */
static price price_of_turns(thread_world *w, pd_thread *t, const char *ref, int number)
{
  pd_stats before = stats_of(w), after;
  key_count count = {0};
  for (int i = 0; i < 10; i++) append_turn(w, t, number + i);
  after = stats_of(w);
  world_need(w, pd_show(w->store, ref, count_keys, &count, &w->err));
  return (price){.log_bytes = after.log_bytes - before.log_bytes,
                 .keys = count.keys,
                 .lookups = after.cache_hits + after.cache_misses - before.cache_hits - before.cache_misses};
}

/* A thread with a state of 20 fields and so many turns. */
static pd_thread *make_thread(thread_world *w, const char *id, int turns)
{
  char state[2048];
  pd_thread *t = NULL;
  make_state(state, sizeof state);
  world_need(w, pd_thread_create(w->store, &(pd_thread_options){.id = id, .state = pd_text(state), .time_ms = 1000}, &t, &w->err));
  for (int i = 0; i < turns; i++) append_turn(w, t, i);
  return t;
}

static void cost__append_10000_is_within_one_and_a_half_of_append_10(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  pd_thread *t = make_thread(&w, "long", 10);
  price early = price_of_turns(&w, t, "thread/long", 10);
  uint64_t bytes_before = stats_of(&w).log_bytes;
  for (int i = 20; i < LONG; i++) append_turn(&w, t, i);
  uint64_t bytes = stats_of(&w).log_bytes - bytes_before;
  price late = price_of_turns(&w, t, "thread/long", LONG);
  printf("# ten turns at 10: %llu bytes, %llu keys each, %llu lookups; at %d: %llu bytes, %llu keys, %llu lookups; %llu bytes a turn\n",
         (unsigned long long)early.log_bytes, (unsigned long long)early.keys, (unsigned long long)early.lookups, LONG,
         (unsigned long long)late.log_bytes, (unsigned long long)late.keys, (unsigned long long)late.lookups,
         (unsigned long long)bytes / (LONG - 20));
  assert_true(late.log_bytes * 2 <= early.log_bytes * 3);
  assert_int_equal(late.keys, early.keys);
  assert_true(late.lookups * 2 <= early.lookups * 3);
  assert_true(bytes / (LONG - 20) * 10 * 2 <= early.log_bytes * 3); /* O(N) in all */
  pd_thread_close(t);
  world_close(&w);
}

static bool count_message(void *ctx, const pd_thread_message *message)
{
  (void)message;
  ++*(int *)ctx;
  return true;
}

typedef struct load_price {
  uint64_t calls, misses, cache_bytes;
} load_price;

/* A process that opens the store anew, and asks for the last 50 messages and the state. */
static load_price load(const char *folder, const char *id)
{
  thread_world w;
  pd_thread *t = NULL;
  int count = 0;
  char *uri = text_of("fault:sqlite:%s", folder);
  world_open_at(&w, uri);
  fault_backend_plan((fault_plan){.ops = FAULT_BAG_GET | FAULT_LOG_READ});
  uint64_t misses = stats_of(&w).cache_misses, bytes = stats_of(&w).cache_bytes;
  world_need(&w, pd_thread_open(w.store, id, &t, &w.err));
  world_need(&w, pd_thread_messages(t, &(pd_message_query){.version = PD_VERSION_HEAD, .last = 50}, count_message, &count, NULL, &w.err));
  world_state_of(&w, t, PD_VERSION_HEAD, NULL);
  assert_int_equal(count, 50);
  load_price p = {
    .calls = fault_backend_calls(), .misses = stats_of(&w).cache_misses - misses, .cache_bytes = stats_of(&w).cache_bytes - bytes};
  pd_thread_close(t);
  world_close(&w);
  free(uri);
  return p;
}

static void make_store(const char *folder, const char *id, int turns)
{
  thread_world w = {0};
  char *uri = text_of("sqlite:%s", folder);
  world_need(&w, pd_store_open(uri, "main", &(pd_options){.flush_ms = 1000}, &w.store, &w.err));
  w.t = make_thread(&w, id, turns);
  world_close(&w);
  free(uri);
}

static void cost__loading_the_head_reads_what_is_asked_for(void **state)
{
  char *small = temp_folder_new(), *large = temp_folder_new();
  (void)state;
  fault_backend_install();
  make_store(small, "t", 100);
  make_store(large, "t", LONG);
  load_price few = load(small, "t"), many = load(large, "t");
  printf("# of 100: %llu calls, %llu misses, %llu bytes in the cache; of %d: %llu calls, %llu misses, %llu bytes\n",
         (unsigned long long)few.calls, (unsigned long long)few.misses, (unsigned long long)few.cache_bytes, LONG,
         (unsigned long long)many.calls, (unsigned long long)many.misses, (unsigned long long)many.cache_bytes);
  assert_true(many.calls <= 50 + FIELDS + 1 + 30); /* each message, each field, and the way to them */
  assert_true(few.calls <= 50 + FIELDS + 1 + 30);
  assert_true(many.cache_bytes < (uint64_t)50 * BODY * 5);
  temp_folder_free(small);
  temp_folder_free(large);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(cost__append_10000_is_within_one_and_a_half_of_append_10),
    cmocka_unit_test(cost__loading_the_head_reads_what_is_asked_for),
  };
  return cmocka_run_group_tests_name("what threads cost", tests, NULL, NULL);
}
