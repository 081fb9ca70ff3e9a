/* activity_test.c: when agents were last active, as one who comes back wants to know it. */
#include "state/activity.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define IDLE_MS 3600000
#define FLUSH_MS 5000

static int open_world(void **state)
{
  world *w = calloc(1, sizeof *w);
  world_open(w, NULL);
  *state = w;
  return 0;
}

static int close_world(void **state)
{
  world_close(*state);
  free(*state);
  return 0;
}

static void call(world *w)
{
  world_ok(w, "session.list", "{}");
}

static int64_t last(world *w)
{
  int64_t ms = -1;
  pd_activity_last(w->home, w->agent, w->session[0] ? w->session : NULL, &ms);
  return ms;
}

/* What the store says; "" if nothing. Through a handle of its own, as another process would see it. */
static void stored(world *w, const char *agent, char out[64])
{
  pd_store *system = NULL;
  pd_buf value = {0};
  char key[80];
  snprintf(key, sizeof key, "activity/%s", agent);
  out[0] = 0;
  if (pd_store_open(w->uri, "system", &(pd_options){.must_exist = true}, &system, NULL)) return;
  if (pd_get(system, NULL, pd_text(key), &value, NULL, NULL) == PD_OK) snprintf(out, 64, "%.*s", (int)value.size, (const char *)value.data);
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(system, NULL), PD_OK);
}

static void activity__an_agent_that_was_never_here_has_none(void **state)
{
  assert_int_equal(last(*state), 0);
}

static void activity__calls_of_this_process_are_not_before_it(void **state)
{
  world *w = *state;
  call(w);
  w->now_ms += 1000;
  call(w);
  assert_int_equal(last(w), 0);
}

static void activity__after_a_restart_it_is_the_last_call_before(void **state)
{
  world *w = *state;
  call(w);
  w->now_ms += 70000;
  call(w);
  int64_t then = w->now_ms;
  w->now_ms += 1000;
  world_restart(w);
  w->now_ms += 1000;
  assert_int_equal(last(w), then);
  call(w);
  w->now_ms += FLUSH_MS; /* what this process writes itself does not count */
  call(w);
  assert_int_equal(last(w), then);
}

static void activity__in_a_session_it_is_the_last_call_before_its_begin(void **state)
{
  world *w = *state;
  call(w);
  int64_t first = w->now_ms;
  w->now_ms += 1000;
  world_begin_session(w);
  w->now_ms += 1000;
  call(w);
  assert_int_equal(last(w), first);
  int64_t second = w->now_ms;
  assert_int_equal(pd_session_end(w->home, "main", w->session, NULL), PD_OK);
  w->now_ms += 1000;
  world_begin_session(w);
  assert_int_equal(last(w), second);
}

static void activity__without_a_session_a_long_pause_begins_anew(void **state)
{
  world *w = *state;
  call(w);
  w->now_ms += IDLE_MS;
  call(w);
  assert_int_equal(last(w), 0); /* not longer than a session would last */
  int64_t then = w->now_ms;
  w->now_ms += IDLE_MS + 1;
  assert_int_equal(last(w), then); /* asked for by the first call after the pause */
  call(w);
  w->now_ms += 1000;
  assert_int_equal(last(w), then); /* and by a later one */
}

static void activity__another_process_counts_too(void **state)
{
  world *w = *state;
  world other = {0};
  call(w);
  pd_home_options options = {.now_ms = w->home->now_ms, .now_ctx = w};
  assert_int_equal(pd_home_open(w->uri, &options, &other.home, NULL), PD_OK);
  w->now_ms += 5000;
  pd_activity_note(other.home, "main", w->now_ms);
  int64_t then = w->now_ms;
  assert_int_equal(pd_home_close(other.home, NULL), PD_OK);
  w->now_ms += 1000;
  assert_int_equal(pd_activity_latest(w->home, "main"), then);
  world_begin_session(w);
  assert_int_equal(last(w), then);
}

static void activity__is_written_now_and_then_and_at_close(void **state)
{
  world *w = *state;
  char text[64];
  call(w);
  w->now_ms += FLUSH_MS - 1;
  call(w);
  stored(w, "main", text);
  assert_string_equal(text, "");
  w->now_ms += 1;
  call(w);
  while (!*text) stored(w, "main", text); /* by a thread of its own: no call waits for it */
  assert_string_equal(text, "{\"last\":\"2026-11-15T10:00:05.000Z\"}");
  w->now_ms += 1;
  call(w);
  stored(w, "main", text);
  assert_string_equal(text, "{\"last\":\"2026-11-15T10:00:05.000Z\"}");
  world_restart(w);
  stored(w, "main", text);
  assert_string_equal(text, "{\"last\":\"2026-11-15T10:00:05.001Z\"}");
}

static void activity__what_is_stored_never_goes_back(void **state)
{
  world *w = *state;
  char text[64];
  call(w);
  world_restart(w);
  w->now_ms -= 60000;
  call(w);
  world_restart(w);
  stored(w, "main", text);
  assert_string_equal(text, "{\"last\":\"2026-11-15T10:00:00.000Z\"}");
}

static void activity__the_operator_is_no_agent(void **state)
{
  world *w = *state;
  char text[64];
  w->is_operator = true;
  call(w);
  world_restart(w);
  stored(w, "main", text);
  assert_string_equal(text, "");
}

static void list_one(void *ctx, const char *agent, int64_t last_ms)
{
  char *text = ctx;
  sprintf(text + strlen(text), "%s:%lld ", agent, (long long)(last_ms % 1000000));
}

static void activity__each_agent_is_told_once_with_its_latest(void **state)
{
  world *w = *state;
  char text[256] = "";
  w->agent = "b";
  call(w);
  w->agent = "a";
  call(w);
  world_restart(w);
  w->now_ms += 7;
  w->agent = "c";
  call(w);
  w->agent = "b";
  call(w);
  assert_int_equal(pd_activity_each(w->home, list_one, text, NULL), PD_OK);
  assert_string_equal(text, "a:800000 b:800007 c:800007 ");
}

static void *note_many(void *ctx)
{
  world *w = ctx;
  char agent[16];
  for (int i = 0; i < 2000; i++) {
    snprintf(agent, sizeof agent, "agent-%d", i % 100);
    pd_activity_note(w->home, agent, w->now_ms + i);
  }
  return NULL;
}

static void count_one(void *ctx, const char *agent, int64_t last_ms)
{
  (void)agent;
  (void)last_ms;
  ++*(int *)ctx;
}

static void activity__threads_that_meet_agents_at_once_make_one_of_each(void **state)
{
  world *w = *state;
  pthread_t threads[8];
  int count = 0;
  for (size_t i = 0; i < COUNT_OF(threads); i++) assert_int_equal(pthread_create(&threads[i], NULL, note_many, w), 0);
  for (size_t i = 0; i < COUNT_OF(threads); i++) pthread_join(threads[i], NULL);
  assert_int_equal(pd_activity_each(w->home, count_one, &count, NULL), PD_OK);
  assert_int_equal(count, 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(activity__an_agent_that_was_never_here_has_none),
    TEST(activity__calls_of_this_process_are_not_before_it),
    TEST(activity__after_a_restart_it_is_the_last_call_before),
    TEST(activity__in_a_session_it_is_the_last_call_before_its_begin),
    TEST(activity__without_a_session_a_long_pause_begins_anew),
    TEST(activity__another_process_counts_too),
    TEST(activity__is_written_now_and_then_and_at_close),
    TEST(activity__what_is_stored_never_goes_back),
    TEST(activity__the_operator_is_no_agent),
    TEST(activity__each_agent_is_told_once_with_its_latest),
    TEST(activity__threads_that_meet_agents_at_once_make_one_of_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
