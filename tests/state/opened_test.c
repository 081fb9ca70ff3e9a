/* opened_test.c: a home with more agents than stores that may be open: invariants O1 to O6 of src/state/opened.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define FEW "[store]\nopen_max = 8\n"
#define SET "state.persistent.set"
#define GET "state.persistent.get"

static size_t count_files(void)
{
  size_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count - 3;
}

static const char *name_of(unsigned agent)
{
  static _Thread_local char text[32];
  snprintf(text, sizeof text, "agent-%u", agent);
  return text;
}

static pd_open_info info_of(const world *w)
{
  pd_open_info info;
  pd_home_open_info(w->home, &info);
  return info;
}

/* Wait for the thing: the thread that closes stores is not ours. */
static bool comes_true(bool (*is_so)(world *w), world *w)
{
  int64_t end_ms = pd_clock_monotonic_ms() + 60000;
  while (!is_so(w) && pd_clock_monotonic_ms() < end_ms) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return is_so(w);
}

/* Write to `count` other agents, so that the stores of those before are in the way. */
static void use_others(world *w, unsigned count)
{
  const char *agent = w->agent;
  for (unsigned i = 0; i < count; i++) {
    w->agent = name_of(i);
    world_ok(w, SET, "{\"key\":\"k\",\"value\":1}");
  }
  w->agent = agent;
}

static bool is_main_closed(world *w)
{
  return !pd_home_is_open(w->home, "main");
}

static bool has_few_open(world *w)
{
  pd_open_info info = info_of(w);
  return info.open_count <= info.open_max;
}

static bool has_none_open(world *w)
{
  return info_of(w).open_count == 0;
}

/* ---- many agents, many threads ---- */

typedef struct hand {
  world *w;
  pthread_t thread;
  unsigned number, agents, rounds;
  size_t most_files;
  pd_error err;
  unsigned wrong;
} hand;

static bool call(hand *h, const char *agent, const char *capability, const char *input, pd_buf *out)
{
  pd_ctx ctx = {.home = h->w->home, .agent = agent};
  return pd_call(&ctx, capability, pd_text(input), out, &h->err) == PD_OK && pd_buf_byte(out, 0, NULL) == PD_OK;
}

/* Each hand has a key of its own in every agent's state: it must find there what it wrote last. */
static void *work(void *ctx)
{
  hand *h = ctx;
  pd_buf out = {0};
  char input[128], wanted[64];
  for (unsigned round = 0; round < h->rounds && !h->wrong; round++)
    for (unsigned i = 0; i < h->agents && !h->wrong; i++) {
      const char *agent = name_of((i + h->number * 17) % h->agents);
      snprintf(input, sizeof input, "{\"key\":\"hand-%u\"}", h->number);
      snprintf(wanted, sizeof wanted, "\"value\":%u,", round);
      if (round && (!call(h, agent, GET, input, &out) || !strstr((const char *)out.data, wanted))) h->wrong++;
      snprintf(input, sizeof input, "{\"key\":\"hand-%u\",\"value\":%u}", h->number, round + 1);
      if (!h->wrong && !call(h, agent, SET, input, &out)) h->wrong++;
      size_t files = i % 16 ? 0 : count_files();
      if (files > h->most_files) h->most_files = files;
    }
  pd_buf_done(&out);
  return NULL;
}

/* Returns the most descriptors that were seen. */
static size_t run_hands(world *w, unsigned count, unsigned agents, unsigned rounds)
{
  hand hands[8] = {0};
  size_t most = 0;
  assert_true(count <= COUNT_OF(hands));
  for (unsigned i = 0; i < count; i++) {
    hands[i] = (hand){.w = w, .number = i, .agents = agents, .rounds = rounds};
    assert_int_equal(pthread_create(&hands[i].thread, NULL, work, &hands[i]), 0);
  }
  for (unsigned i = 0; i < count; i++) {
    pthread_join(hands[i].thread, NULL);
    if (hands[i].wrong) fail_msg("hand %u: %s", i, hands[i].err.message);
    if (hands[i].most_files > most) most = hands[i].most_files;
  }
  return most;
}

static void want_values(world *w, unsigned hands, unsigned agents, unsigned rounds)
{
  char wanted[16];
  snprintf(wanted, sizeof wanted, "%u", rounds);
  for (unsigned i = 0; i < agents * hands; i++) {
    w->agent = name_of(i / hands);
    assert_int_equal(world_callf(w, GET, "{\"key\":\"hand-%u\"}", i % hands), PD_OK);
    assert_string_equal(world_out(w, "value"), wanted);
    assert_string_equal(world_out(w, "version"), wanted);
  }
  w->agent = "main";
}

static void opened__two_hundred_agents_need_few_descriptors_and_lose_nothing(void **state)
{
  (void)state;
  enum { HANDS = 4, AGENTS = 200, ROUNDS = 2 };
  world w;
  world_open(&w, FEW);
  world_ok(&w, "state.shared.set", "{\"key\":\"k\",\"value\":1,\"expected_version\":0}"); /* shared and system are open from here on */
  size_t before = count_files();
  size_t most = run_hands(&w, HANDS, AGENTS, ROUNDS);
  pd_open_info info = info_of(&w);
  assert_int_equal(info.open_max, 8);
  assert_true(info.closed_count >= AGENTS - 8 && info.opened_count > info.closed_count);
  assert_true(info.closed.commits > 0 && info.closed.syncs > 0);
  /* so many more while the closer is at work, and for each hand one that it opens or closes, and a folder that it counts them in */
  assert_in_range(most, before + PD_STORE_FILES, before + (8 + 2 + 2 * HANDS) * PD_STORE_FILES + HANDS);
  assert_true(comes_true(has_few_open, &w));
  want_values(&w, HANDS, AGENTS, ROUNDS);
  world_restart(&w);
  want_values(&w, HANDS, AGENTS, ROUNDS);
  world_close(&w);
}

/* Every call opens a store that others are just closing, or waits for one that others are opening. */
static void opened__stores_that_come_and_go_under_many_threads_keep_every_write(void **state)
{
  (void)state;
  enum { HANDS = 6, AGENTS = 5, ROUNDS = 30 };
  world w;
  world_open(&w, "[store]\nopen_max = 1\n");
  run_hands(&w, HANDS, AGENTS, ROUNDS);
  want_values(&w, HANDS, AGENTS, ROUNDS);
  world_close(&w);
}

/* ---- what is held ---- */

static void opened__a_store_that_is_borrowed_and_watched_stays_open_until_it_is_given_back(void **state)
{
  (void)state;
  world w;
  pd_store *store = NULL, *again = NULL;
  pd_watch *watch = NULL;
  pd_watch_event event;
  world_open(&w, FEW);
  world_ok(&w, SET, "{\"key\":\"seen\",\"value\":1}");
  assert_int_equal(world_borrow(w.home, "main", false, &store, &w.err), PD_OK);
  assert_int_equal(world_borrow(w.home, "main", false, &again, &w.err), PD_OK);
  assert_ptr_equal(store, again);
  assert_int_equal(pd_watch_open(store, NULL, &watch, &w.err), PD_OK);
  use_others(&w, 20);
  assert_true(pd_home_is_open(w.home, "main"));
  pd_home_return(w.home, again); /* once for each borrowing */
  use_others(&w, 20);
  assert_true(pd_home_is_open(w.home, "main"));
  world_ok(&w, SET, "{\"key\":\"seen\",\"value\":2}");
  assert_int_equal(pd_watch_next(watch, 10000, &event, &w.err), PD_OK);
  assert_memory_equal(event.key.data, "seen", 4);
  pd_watch_close(watch);
  pd_home_return(w.home, store);
  use_others(&w, 20);
  assert_true(comes_true(is_main_closed, &w));
  world_close(&w);
}

static void opened__a_call_in_two_steps_holds_its_store_between_them(void **state)
{
  (void)state;
  world w;
  pd_begun *begun = NULL;
  pd_buf answer = {0};
  world_open(&w, FEW);
  world_ok(&w, SET, "{\"key\":\"k\",\"value\":1}");
  pd_ctx ctx = {.home = w.home, .agent = "main"};
  assert_int_equal(pd_call_begin(&ctx, SET, pd_text("{\"key\":\"k\",\"value\":2}"), &begun, &answer, &w.err), PD_OK);
  assert_non_null(begun);
  assert_non_null(pd_begun_group(begun));
  use_others(&w, 20);
  assert_true(pd_home_is_open(w.home, "main"));
  assert_int_equal(pd_call_finish(begun, &answer, &w.err), PD_OK);
  use_others(&w, 20);
  assert_true(comes_true(is_main_closed, &w));
  world_ok(&w, GET, "{\"key\":\"k\"}");
  assert_string_equal(world_out(&w, "value"), "2");
  pd_buf_done(&answer);
  world_close(&w);
}

static void opened__all_that_are_held_may_be_more_than_the_maximum(void **state)
{
  (void)state;
  enum { HELD = 30 };
  world w;
  pd_store *stores[HELD];
  world_open(&w, FEW);
  for (unsigned i = 0; i < HELD; i++) assert_int_equal(world_borrow(w.home, name_of(i), true, &stores[i], &w.err), PD_OK);
  assert_int_equal(info_of(&w).open_count, HELD);
  for (unsigned i = 0; i < HELD; i++) assert_int_equal(pd_put(stores[i], pd_text("k"), pd_text("1"), NULL, NULL, &w.err), PD_OK);
  for (unsigned i = 0; i < HELD; i++) pd_home_return(w.home, stores[i]);
  assert_true(comes_true(has_few_open, &w)); /* nobody has to open another for that */
  world_close(&w);
}

static void opened__sessions_threads_and_queues_do_not_notice(void **state)
{
  (void)state;
  world w;
  world_open(&w, FEW);
  world_begin_session(&w);
  world_ok(&w, "state.session.set", "{\"key\":\"s\",\"value\":\"kept\"}");
  world_ok(&w, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"n\":1}}");
  world_ok(&w, "queue.send", "{\"to\":\"main\",\"body\":\"hello\"}");
  char session[PD_SESSION_ID_SIZE];
  memcpy(session, w.session, sizeof session);
  w.session[0] = 0;
  use_others(&w, 20);
  assert_true(comes_true(is_main_closed, &w));
  memcpy(w.session, session, sizeof session);
  world_ok(&w, "state.session.get", "{\"key\":\"s\"}");
  assert_string_equal(world_out(&w, "value"), "\"kept\"");
  world_ok(&w, "threads.append", "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"RunFinished\"}");
  world_ok(&w, "queue.receive", "{}");
  assert_non_null(strstr((const char *)w.out.data, "hello"));
  world_close(&w);
}

/* ---- which ---- */

static void opened__the_store_that_was_used_longest_ago_is_closed_first(void **state)
{
  (void)state;
  world w;
  world_open(&w, FEW);
  world_ok(&w, SET, "{\"key\":\"k\",\"value\":1}");
  for (unsigned i = 0; i < 60; i++) { /* main is used between: the others go */
    w.agent = name_of(i);
    world_ok(&w, SET, "{\"key\":\"k\",\"value\":1}");
    w.agent = "main";
    world_ok(&w, GET, "{\"key\":\"k\"}");
  }
  assert_true(comes_true(has_few_open, &w));
  assert_true(pd_home_is_open(w.home, "main"));
  assert_true(pd_home_is_open(w.home, name_of(59)));
  assert_false(pd_home_is_open(w.home, name_of(0)));
  assert_int_equal(info_of(&w).opened_count, 60 + 2); /* main once, and system */
  world_close(&w);
}

static void opened__asking_for_agents_that_are_not_there_closes_nobodys_store(void **state)
{
  (void)state;
  world w;
  world_open(&w, FEW);
  use_others(&w, 8);
  for (unsigned i = 100; i < 200; i++) {
    w.agent = name_of(i);
    world_ok(&w, GET, "{\"key\":\"k\"}");
    assert_string_equal(world_out(&w, "found"), "false");
  }
  w.agent = "main";
  for (unsigned i = 0; i < 8; i++) assert_true(pd_home_is_open(w.home, name_of(i)));
  assert_int_equal(info_of(&w).closed_count, 0);
  world_close(&w);
}

static void opened__idle_stores_are_closed_when_asked_for_and_opened_again(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  use_others(&w, 8);
  pd_home_close_idle(w.home, 3600 * 1000);
  assert_int_equal(info_of(&w).open_count, 8);
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* they idle */
  pd_home_close_idle(w.home, 1);
  assert_true(comes_true(has_none_open, &w));
  w.agent = name_of(3);
  world_ok(&w, SET, "{\"key\":\"k\",\"value\":2}");
  assert_string_equal(world_out(&w, "previous_version"), "1");
  world_close(&w);
}

static void opened__a_home_in_memory_closes_nothing(void **state)
{
  (void)state;
  world w = {.agent = "main"};
  char *folder = temp_folder_new(), *config = text_of("%s/perdure.toml", folder);
  FILE *f = fopen(config, "w");
  fputs("[store]\nopen_max = 2\n", f);
  fclose(f);
  pd_home_options options = {.config = config};
  assert_int_equal(pd_home_open("memory:", &options, &w.home, &w.err), PD_OK);
  use_others(&w, 30);
  pd_home_close_idle(w.home, 1);
  for (unsigned i = 0; i < 30; i++) {
    w.agent = name_of(i);
    world_ok(&w, GET, "{\"key\":\"k\"}");
    assert_string_equal(world_out(&w, "value"), "1");
  }
  assert_int_equal(info_of(&w).closed_count, 0);
  assert_int_equal(pd_home_close(w.home, &w.err), PD_OK);
  pd_buf_done(&w.out);
  free(config);
  temp_folder_free(folder);
}

/* ---- what was acknowledged ---- */

static void opened__what_was_buffered_is_on_the_disk_when_its_store_is_closed(void **state)
{
  (void)state;
  world w;
  unsigned closed = 0;
  world_open(&w, "[store]\nopen_max = 8\nflush = \"60s\"\n");
  use_others(&w, 60);
  assert_true(comes_true(has_few_open, &w));
  for (unsigned i = 0; i < 60; i++) { /* as another process would see it */
    pd_store *store = NULL;
    pd_buf value = {0};
    if (pd_home_is_open(w.home, name_of(i))) continue;
    closed++;
    assert_int_equal(pd_store_open(w.uri, name_of(i), &(pd_options){.is_read_only = true}, &store, &w.err), PD_OK);
    assert_int_equal(pd_get(store, "main", pd_text("k"), &value, NULL, &w.err), PD_OK);
    assert_memory_equal(value.data, "1", 1);
    pd_buf_done(&value);
    assert_int_equal(pd_store_close(store, NULL), PD_OK);
  }
  assert_true(closed >= 60 - 8);
  world_close(&w);
}

static bool has_only_unflushed_open(world *w)
{
  return info_of(w).open_count == 4;
}

static void opened__a_store_that_cannot_be_flushed_stays_open(void **state)
{
  (void)state;
  world w;
  struct rlimit before, none = {0};
  world_open(&w, "[store]\nflush = \"60s\"\n[audit]\nflush = \"60s\"\n[test.activity]\nflush = \"60s\"\n");
  use_others(&w, 8);
  world_restart(&w);
  for (unsigned i = 0; i < 8; i++) {
    w.agent = name_of(i);
    world_ok(&w, GET, "{\"key\":\"k\"}");
    if (i < 4) world_ok(&w, SET, "{\"key\":\"k\",\"value\":2}"); /* and it is not on the disk */
  }
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  none.rlim_max = before.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  pd_home_open_max(w.home, 1);
  bool has_closed = comes_true(has_only_unflushed_open, &w); /* the others are behind them in the list */
  w.agent = name_of(0);
  pd_code code = world_call(&w, GET, "{\"key\":\"k\"}"); /* when it is let go, it is tried again */
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_true(has_closed);
  assert_int_equal(code, PD_OK);
  world_restart(&w);
  for (unsigned i = 0; i < 4; i++) {
    w.agent = name_of(i);
    world_ok(&w, GET, "{\"key\":\"k\"}");
    assert_string_equal(world_out(&w, "value"), "2");
  }
  world_close(&w);
}

/* ---- without descriptors ---- */

static void limit_files(rlim_t count, struct rlimit *before)
{
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
  limit = (struct rlimit){count, before->rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t next_file(void)
{
  int fd = dup(0);
  assert_true(fd > 0);
  close(fd);
  return (rlim_t)fd;
}

static void opened__when_descriptors_run_out_stores_that_nobody_uses_make_room(void **state)
{
  (void)state;
  world w;
  struct rlimit before;
  world_open(&w, NULL);
  use_others(&w, 2);
  limit_files(next_file() + 20, &before); /* far less than open_max would take */
  use_others(&w, 20);
  pd_open_info info = info_of(&w);
  assert_true(info.closed_count > 10 && info.open_max > 20);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  world_close(&w);
}

static void opened__when_all_stores_are_in_use_the_error_says_what_is_missing(void **state)
{
  (void)state;
  enum { HELD = 40 };
  world w;
  struct rlimit before;
  pd_store *stores[HELD];
  unsigned held = 0;
  world_open(&w, NULL);
  use_others(&w, HELD);
  world_restart(&w);
  world_ok(&w, GET, "{\"key\":\"k\"}");
  limit_files(next_file() + 40, &before);
  pd_code code = PD_OK;
  while (held < HELD && !(code = world_borrow(w.home, name_of(held), false, &stores[held], &w.err))) held++;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(code, PD_STORAGE);
  assert_non_null(strstr(w.err.message, "ulimit -n"));
  assert_non_null(strstr(w.err.message, name_of(held)));
  limit_files(next_file(), &before); /* none is left */
  pd_home_return(w.home, stores[0]);
  w.agent = name_of(HELD - 1); /* what was given back serves others */
  pd_code after = world_call(&w, GET, "{\"key\":\"k\"}");
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(after, PD_OK);
  world_close(&w);
}

static void opened__a_snapshot_of_more_stores_than_descriptors_is_made_and_restored(void **state)
{
  (void)state;
  enum { AGENTS = 30 };
  world w;
  struct rlimit before;
  char id[128];
  world_open(&w, "[store]\nopen_max = 4\n");
  use_others(&w, AGENTS);
  assert_true(comes_true(has_few_open, &w));
  limit_files(next_file() + 14 * PD_STORE_FILES, &before); /* not half of what all of them need */
  w.is_operator = true;
  world_ok(&w, "state.snapshot.create", "{}");
  snprintf(id, sizeof id, "%s", world_out(&w, "snapshot_id"));
  assert_null(strstr((const char *)w.out.data, "\"is_readable\":false"));
  w.is_operator = false;
  w.agent = name_of(AGENTS - 1);
  world_ok(&w, SET, "{\"key\":\"k\",\"value\":2}");
  w.is_operator = true;
  assert_int_equal(world_callf(&w, "state.snapshot.restore", "{\"snapshot_id\":%s}", id), PD_OK);
  w.is_operator = false;
  world_ok(&w, GET, "{\"key\":\"k\"}");
  assert_string_equal(world_out(&w, "value"), "1");
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  w.agent = "main";
  world_close(&w);
}

static void opened__without_a_setting_the_limit_of_the_process_bounds_it(void **state)
{
  (void)state;
  world w;
  struct rlimit before;
  limit_files(240, &before);
  world_open(&w, NULL);
  assert_int_equal(info_of(&w).open_max, 240 / 2 / PD_STORE_FILES);
  use_others(&w, 60);
  assert_true(comes_true(has_few_open, &w));
  pd_home_open_max(w.home, 3);
  assert_true(comes_true(has_few_open, &w));
  assert_true(info_of(&w).open_count <= 3);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(opened__two_hundred_agents_need_few_descriptors_and_lose_nothing),
    cmocka_unit_test(opened__stores_that_come_and_go_under_many_threads_keep_every_write),
    cmocka_unit_test(opened__a_store_that_is_borrowed_and_watched_stays_open_until_it_is_given_back),
    cmocka_unit_test(opened__a_call_in_two_steps_holds_its_store_between_them),
    cmocka_unit_test(opened__all_that_are_held_may_be_more_than_the_maximum),
    cmocka_unit_test(opened__sessions_threads_and_queues_do_not_notice),
    cmocka_unit_test(opened__the_store_that_was_used_longest_ago_is_closed_first),
    cmocka_unit_test(opened__asking_for_agents_that_are_not_there_closes_nobodys_store),
    cmocka_unit_test(opened__idle_stores_are_closed_when_asked_for_and_opened_again),
    cmocka_unit_test(opened__a_home_in_memory_closes_nothing),
    cmocka_unit_test(opened__what_was_buffered_is_on_the_disk_when_its_store_is_closed),
    cmocka_unit_test(opened__a_store_that_cannot_be_flushed_stays_open),
    cmocka_unit_test(opened__when_descriptors_run_out_stores_that_nobody_uses_make_room),
    cmocka_unit_test(opened__when_all_stores_are_in_use_the_error_says_what_is_missing),
    cmocka_unit_test(opened__a_snapshot_of_more_stores_than_descriptors_is_made_and_restored),
    cmocka_unit_test(opened__without_a_setting_the_limit_of_the_process_bounds_it),
  };
  return cmocka_run_group_tests_name("state opened", tests, NULL, NULL);
}
