/* session_life_test.c: how sessions begin and end, whose they are, what they cost, and many threads in them. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/session.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define IDLE_MS 3600000
#define THREAD_COUNT 8

static int open_world(void **state)
{
  world *w = calloc(1, sizeof *w);
  world_open(w, NULL);
  world_begin_session(w);
  *state = w;
  return 0;
}

static int close_world(void **state)
{
  world_close(*state);
  free(*state);
  return 0;
}

static void expect(world *w, const char *path, const char *json)
{
  assert_string_equal(world_out(w, path), json);
}

/* ---- beginning and ending ---- */

static void begin__gives_an_id_that_no_other_session_has(void **state)
{
  world *w = *state;
  char ids[200][PD_SESSION_ID_SIZE];
  for (size_t i = 0; i < COUNT_OF(ids); i++) {
    assert_int_equal(pd_session_begin(w->home, "main", ids[i], NULL), PD_OK);
    assert_int_equal(strlen(ids[i]), 34);
    for (size_t k = 0; k < i; k++) assert_string_not_equal(ids[i], ids[k]);
  }
}

static void begin__is_a_capability_whose_id_can_be_used(void **state)
{
  world *w = *state;
  world_ok(w, "session.begin", "{}");
  expect(w, "agent", "\"main\"");
  expect(w, "expires_at", "\"2026-11-15T11:00:00.000Z\"");
  expect(w, "quota_bytes", "52428800");
  snprintf(w->session, sizeof w->session, "%.34s", world_out(w, "session_id") + 1);
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":1}");
}

static void begin__names_that_are_no_agents_are_refused(void **state)
{
  world *w = *state;
  char id[PD_SESSION_ID_SIZE];
  assert_int_equal(pd_session_begin(w->home, "../x", id, NULL), PD_INVALID);
  assert_int_equal(pd_session_begin(w->home, "", id, NULL), PD_INVALID);
}

static void session_begin__err_TooManySessions__until_one_has_ended_or_idled_out(void **state)
{
  world *w = *state;
  char id[PD_SESSION_ID_SIZE];
  w->home->config.session_count_max = 2; /* one is open already */
  assert_int_equal(pd_session_begin(w->home, "other", id, NULL), PD_OK);
  world_fails(w, "session.begin", "{}", "TooManySessions", "end_unused");
  assert_int_equal(pd_session_end(w->home, "other", id, NULL), PD_OK);
  world_ok(w, "session.begin", "{}");
  world_fails(w, "session.begin", "{}", "TooManySessions", "wait");
  w->now_ms += IDLE_MS + 1;
  world_ok(w, "session.begin", "{}");
  world_ok(w, "session.list", "{}");
  expect(w, "count", "1");
}

static void end__tells_what_it_held_and_happens_once(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"abc\",\"value\":[1,2]}");
  world_ok(w, "session.end", "{}");
  assert_string_equal((const char *)w->out.data, "{\"ended\":true,\"removed_count\":1,\"freed_bytes\":8}");
  assert_int_equal(pd_session_end(w->home, "main", w->session, &w->err), PD_SESSION);
}

static void expect_not_found(world *w, const char *capability)
{
  char own[PD_SESSION_ID_SIZE], named[64];
  memcpy(own, w->session, sizeof own);
  snprintf(named, sizeof named, "{\"session_id\":\"%s\"}", own);
  w->session[0] = 0;
  world_fails(w, capability, "{}", "SessionNotFound", "reconnect"); /* there is no own one */
  world_fails(w, capability, "{\"session_id\":\"s-00000000000000000000000000000000\"}", "SessionNotFound", "reconnect");
  w->agent = "other";
  world_fails(w, capability, named, "SessionNotFound", "reconnect");
  w->agent = "main";
  memcpy(w->session, own, sizeof own);
  world_ok(w, "session.end", "{}");
  world_fails(w, capability, "{}", "SessionNotFound", "reconnect");
  world_fails(w, capability, named, "SessionNotFound", "reconnect");
  assert_non_null(strstr(w->err.message, own));
}

static void session_end__err_SessionNotFound__of_none_an_unknown_anothers_or_an_ended_one(void **state)
{
  expect_not_found(*state, "session.end");
}

static void session_touch__err_SessionNotFound__of_none_an_unknown_anothers_or_an_ended_one(void **state)
{
  expect_not_found(*state, "session.touch");
}

static void end__another_agents_session_is_not_found_and_lives_on(void **state)
{
  world *w = *state;
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":1}");
  w->agent = "other";
  assert_int_equal(world_callf(w, "session.end", "{\"session_id\":\"%s\"}", w->session), PD_SESSION);
  assert_int_equal(world_callf(w, "session.touch", "{\"session_id\":\"%s\"}", w->session), PD_SESSION);
  assert_int_equal(pd_session_end(w->home, "other", w->session, NULL), PD_SESSION);
  w->agent = "main";
  world_ok(w, "state.session.get", "{\"key\":\"k\"}");
  expect(w, "value", "1");
}

static void end__the_operator_may_end_any(void **state)
{
  world *w = *state;
  w->agent = NULL;
  w->is_operator = true;
  assert_int_equal(world_callf(w, "session.end", "{\"session_id\":\"%s\"}", w->session), PD_OK);
  w->agent = "main";
  w->is_operator = false;
  world_fails(w, "state.session.get", "{\"key\":\"k\"}", "SessionNotFound", "reconnect");
}

static void idle__ends_a_session_after_the_last_millisecond_and_touch_keeps_it(void **state)
{
  world *w = *state;
  w->now_ms += IDLE_MS;
  world_ok(w, "session.touch", "{}");
  w->now_ms += IDLE_MS;
  world_ok(w, "state.session.get", "{\"key\":\"k\"}"); /* any call on it counts */
  w->now_ms += IDLE_MS;
  assert_true(pd_session_is_alive(w->home, "main", w->session)); /* looking does not */
  w->now_ms += 1;
  assert_false(pd_session_is_alive(w->home, "main", w->session));
  world_fails(w, "session.touch", "{}", "SessionNotFound", "reconnect");
  w->now_ms -= 2; /* and it stays ended, whatever the clock does */
  world_fails(w, "session.touch", "{}", "SessionNotFound", "reconnect");
}

static void idle__zero_means_never(void **state)
{
  world *w = *state;
  w->home->config.session_idle_ms = 0;
  w->now_ms += (int64_t)1000 * 365 * 86400000;
  world_ok(w, "session.touch", "{}");
  expect(w, "expires_at", "null");
}

static void idle__others_are_swept_by_any_call_on_a_session(void **state)
{
  world *w = *state;
  char id[PD_SESSION_ID_SIZE];
  world_callf(w, "state.session.set", "{\"key\":\"k\",\"value\":\"%01000d\"}", 0);
  w->now_ms += IDLE_MS / 2;
  assert_int_equal(pd_session_begin(w->home, "other", id, NULL), PD_OK);
  w->now_ms += IDLE_MS / 2 + 1;
  w->agent = "other";
  memcpy(w->session, id, sizeof id);
  world_ok(w, "session.touch", "{}");
  w->is_operator = true;
  world_ok(w, "session.list", "{}");
  expect(w, "count", "1");
  expect(w, "sessions.0.agent", "\"other\"");
}

static void close__ends_all_sessions(void **state)
{
  world *w = *state;
  char session[PD_SESSION_ID_SIZE];
  memcpy(session, w->session, sizeof session);
  world_restart(w);
  memcpy(w->session, session, sizeof session);
  world_fails(w, "state.session.get", "{\"key\":\"k\"}", "SessionNotFound", "reconnect");
}

typedef struct ended_list {
  char text[256];
} ended_list;

static void note_end(void *ctx, const char *agent, const char *id)
{
  ended_list *list = ctx;
  size_t used = strlen(list->text);
  snprintf(list->text + used, sizeof list->text - used, "%s:%s ", agent, id);
}

static void on_end__is_told_of_every_end(void **state)
{
  world *w = *state;
  ended_list list = {{0}};
  char ids[3][PD_SESSION_ID_SIZE], expected[256];
  memcpy(ids[0], w->session, sizeof ids[0]);
  pd_session_on_end(w->home, note_end, &list);
  assert_int_equal(pd_session_begin(w->home, "b", ids[1], NULL), PD_OK);
  assert_int_equal(pd_session_end(w->home, "b", ids[1], NULL), PD_OK);
  w->now_ms += IDLE_MS + 1;
  assert_int_equal(pd_session_begin(w->home, "c", ids[2], NULL), PD_OK); /* sweeps the first */
  world_restart(w);
  snprintf(expected, sizeof expected, "b:%s main:%s c:%s ", ids[1], ids[0], ids[2]);
  assert_string_equal(list.text, expected);
}

static void alive__is_a_matter_of_id_and_agent(void **state)
{
  world *w = *state;
  assert_true(pd_session_is_alive(w->home, "main", w->session));
  assert_false(pd_session_is_alive(w->home, "other", w->session));
  assert_false(pd_session_is_alive(w->home, "main", NULL));
  assert_false(pd_session_is_alive(w->home, "main", ""));
  assert_false(pd_session_is_alive(w->home, "main", "s-1"));
}

/* ---- session.list ---- */

static void list__shows_ones_own_with_age_idle_time_and_size(void **state)
{
  world *w = *state;
  char id[PD_SESSION_ID_SIZE];
  w->now_ms += 1000;
  assert_int_equal(pd_session_begin(w->home, "main", id, NULL), PD_OK);
  assert_int_equal(pd_session_begin(w->home, "other", id, NULL), PD_OK);
  world_ok(w, "state.session.set", "{\"key\":\"k\",\"value\":\"v\"}");
  w->now_ms += 500;
  world_ok(w, "session.list", "{}");
  expect(w, "count", "2");
  expect(w, "total_size_bytes", "4");
  expect(w, "sessions.0.begun_at", "\"2026-11-15T10:00:00.000Z\"");
  expect(w, "sessions.0.age_ms", "1500");
  expect(w, "sessions.0.idle_ms", "500");
  expect(w, "sessions.0.key_count", "1");
  expect(w, "sessions.0.size_bytes", "4");
  expect(w, "sessions.1.age_ms", "500");
  expect(w, "sessions.1.agent", "\"main\"");
}

static void list__shows_the_operator_all(void **state)
{
  world *w = *state;
  char id[PD_SESSION_ID_SIZE];
  assert_int_equal(pd_session_begin(w->home, "other", id, NULL), PD_OK);
  w->is_operator = true;
  w->agent = NULL;
  world_ok(w, "session.list", "{}");
  expect(w, "count", "2");
  w->is_operator = false;
  w->agent = "third";
  world_ok(w, "session.list", "{}");
  expect(w, "count", "0");
}

/* ---- what it costs ---- */

#define MANY 1000
#define VALUE_SIZE 100000

static size_t resident_bytes(void)
{
  size_t pages = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  int got = fscanf(f, "%zu %zu", &pages, &resident);
  fclose(f);
  return got == 2 ? resident * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

static void memory__of_1000_sessions_is_given_back_when_they_end(void **state)
{
  world *w = *state;
  char(*ids)[PD_SESSION_ID_SIZE] = calloc(MANY, sizeof *ids);
  char *input = malloc(VALUE_SIZE + 100);
  size_t size = (size_t)sprintf(input, "{\"key\":\"k\",\"value\":\"");
  memset(input + size, 'x', VALUE_SIZE);
  strcpy(input + size + VALUE_SIZE, "\"}");
  world_ok(w, "state.session.set", input); /* buffers have their size from here on */
  size_t heap_before = mallinfo2().uordblks + mallinfo2().hblkhd, resident_before = resident_bytes();
  for (size_t i = 0; i < MANY; i++) {
    assert_int_equal(pd_session_begin(w->home, "main", ids[i], NULL), PD_OK);
    memcpy(w->session, ids[i], sizeof ids[i]);
    world_ok(w, "state.session.set", input);
  }
  size_t heap_full = mallinfo2().uordblks + mallinfo2().hblkhd, resident_full = resident_bytes();
  for (size_t i = 0; i < MANY; i++) assert_int_equal(pd_session_end(w->home, "main", ids[i], NULL), PD_OK);
  size_t heap_after = mallinfo2().uordblks + mallinfo2().hblkhd, resident_after = resident_bytes();
  print_message("# heap %zu, %zu, %zu; resident %zu, %zu, %zu\n", heap_before, heap_full, heap_after, resident_before, resident_full,
                resident_after);
  if (!getenv("PERDURE_SANITIZER")) { /* which keeps what is freed */
    assert_true(heap_full - heap_before >= (size_t)MANY * VALUE_SIZE);
    assert_true(heap_full - heap_before <= (size_t)MANY * VALUE_SIZE / 100 * 105); /* the audit of these calls is in it */
    assert_true(heap_after <= heap_before + (size_t)MANY * VALUE_SIZE / 100 * 5);
    assert_true(resident_full - resident_before >= (size_t)MANY * VALUE_SIZE / 10 * 9);
    assert_true(resident_after <= resident_before + (size_t)MANY * VALUE_SIZE / 10);
  }
  free(input);
  free(ids);
}

static void memory__of_deleted_keys_is_given_back_in_a_session_that_lives(void **state)
{
  (void)state;
  pd_session_map map;
  char key[16];
  size_t before = mallinfo2().uordblks;
  pd_session_map_init(&map, 5);
  for (int i = 0; i < 20000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    assert_int_equal(pd_session_map_put(&map, pd_text(key), pd_text("12345"), NULL), PD_OK);
  }
  for (int i = 0; i < 20000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    assert_true(pd_session_map_remove(&map, pd_text(key)));
    assert_false(pd_session_map_remove(&map, pd_text(key)));
  }
  assert_int_equal(map.entries.count, 0);
  assert_int_equal(map.bytes, 0);
  if (!getenv("PERDURE_SANITIZER")) assert_true(mallinfo2().uordblks <= before + 1024);
  pd_session_map_done(&map);
}

/* Random sets, deletes and clears against a plain array; sizes and answers must agree after each. */
static void quota__is_exact_after_any_sequence_of_calls(void **state)
{
  world *w = *state;
  enum { KEYS = 50, LIMIT = 600 };
  size_t values[KEYS] = {0}, used = 0; /* of digits; 0: absent */
  w->home->config.session_quota_bytes = LIMIT;
  srand(7);
  for (int i = 0; i < 20000; i++) {
    int key = rand() % KEYS, what = rand() % 100;
    size_t size = (size_t)(rand() % 40 + 1), key_size = key < 10 ? 2 : 3;
    if (what == 0) {
      world_ok(w, "state.session.clear", "{}");
      memset(values, 0, sizeof values);
      used = 0;
    } else if (what < 30) {
      assert_int_equal(world_callf(w, "state.session.delete", "{\"key\":\"k%d\"}", key), PD_OK);
      expect(w, "deleted", values[key] ? "true" : "false");
      used -= values[key] ? key_size + values[key] : 0;
      values[key] = 0;
    } else {
      size_t after = used - (values[key] ? key_size + values[key] : 0) + key_size + size;
      pd_code code =
        world_callf(w, "state.session.set", "{\"key\":\"k%d\",\"value\":%.*s}", key, (int)size, "1234567890123456789012345678901234567890");
      assert_int_equal(code, after > LIMIT ? PD_QUOTA : PD_OK);
      if (code == PD_OK) values[key] = size, used = after;
    }
    if (i % 50) continue;
    world_ok(w, "session.list", "{}");
    assert_int_equal(strtoul(world_out(w, "total_size_bytes"), NULL, 10), used);
  }
}

/* ---- threads ---- */

typedef struct worker {
  pd_home *home;
  const char *session; /* NULL: sessions of its own */
  int number;
  int failures;
} worker;

static int call_as(const worker *k, const char *session, const char *capability, const char *input, pd_buf *out)
{
  pd_ctx ctx = {.home = k->home, .agent = "main", .session = session};
  return (int)pd_call(&ctx, capability, pd_text(input), out, NULL);
}

/* Sets and gets of its own keys, among the others'. */
static void use_session(worker *k, const char *session, int count, pd_buf *out)
{
  char input[80], expected[80];
  for (int i = 0; i < count; i++) {
    snprintf(input, sizeof input, "{\"key\":\"t%d.%d\",\"value\":%d}", k->number, i % 20, i);
    k->failures += call_as(k, session, "state.session.set", input, out) != PD_OK;
    snprintf(input, sizeof input, "{\"key\":\"t%d.%d\"}", k->number, i % 20);
    k->failures += call_as(k, session, "state.session.get", input, out) != PD_OK;
    int size = snprintf(expected, sizeof expected, "{\"value\":%d,\"found\":true}", i);
    k->failures += out->size != (size_t)size || memcmp(out->data, expected, out->size) != 0;
    if (i % 7 == 0) k->failures += call_as(k, session, "state.session.delete", input, out) != PD_OK;
  }
}

static void *work_in_one(void *ctx)
{
  worker *k = ctx;
  pd_buf out = {0};
  use_session(k, k->session, 1000, &out);
  pd_buf_done(&out);
  return NULL;
}

static void *work_in_many(void *ctx)
{
  worker *k = ctx;
  pd_buf out = {0};
  char id[PD_SESSION_ID_SIZE];
  for (int i = 0; i < 50; i++) {
    k->failures += pd_session_begin(k->home, "main", id, NULL) != PD_OK;
    use_session(k, id, 20, &out);
    k->failures += call_as(k, id, "session.list", "{}", &out) != PD_OK;
    k->failures += pd_session_end(k->home, "main", id, NULL) != PD_OK;
  }
  pd_buf_done(&out);
  return NULL;
}

static void run_threads(world *w, const char *session, void *(*work)(void *), void *(*last_work)(void *))
{
  worker workers[THREAD_COUNT];
  pthread_t threads[THREAD_COUNT];
  for (int i = 0; i < THREAD_COUNT; i++) {
    workers[i] = (worker){.home = w->home, .session = session, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, i == THREAD_COUNT - 1 ? last_work : work, &workers[i]), 0);
  }
  for (int i = 0; i < THREAD_COUNT; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREAD_COUNT; i++) assert_int_equal(workers[i].failures, 0);
}

static void threads__eight_in_one_session_see_what_they_wrote(void **state)
{
  world *w = *state;
  run_threads(w, w->session, work_in_one, work_in_one);
}

static void threads__eight_in_many_sessions_leave_none_behind(void **state)
{
  world *w = *state;
  run_threads(w, NULL, work_in_many, work_in_many);
  world_ok(w, "session.list", "{}");
  expect(w, "count", "1");
}

/* Uses a session until it is ended under its feet. */
static void *work_until_the_end(void *ctx)
{
  worker *k = ctx;
  pd_buf out = {0};
  int code = PD_OK;
  char input[80];
  for (int i = 0; code == PD_OK; i++) {
    snprintf(input, sizeof input, "{\"key\":\"k%d\",\"value\":%d}", i % 100, i);
    code = call_as(k, k->session, "state.session.set", input, &out);
  }
  k->failures += code != PD_SESSION;
  pd_buf_done(&out);
  return NULL;
}

static void *end_it(void *ctx)
{
  worker *k = ctx;
  pd_buf out = {0};
  for (size_t size = 0; size < 500;) { /* when the others are well inside */
    k->failures += call_as(k, k->session, "state.session.list", "{}", &out) != PD_OK;
    size = out.size;
  }
  k->failures += pd_session_end(k->home, "main", k->session, NULL) != PD_OK;
  pd_buf_done(&out);
  return NULL;
}

static void threads__an_end_under_the_feet_of_seven_answers_SessionNotFound(void **state)
{
  world *w = *state;
  run_threads(w, w->session, work_until_the_end, end_it);
  assert_false(pd_session_is_alive(w->home, "main", w->session));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(begin__gives_an_id_that_no_other_session_has),
    TEST(begin__is_a_capability_whose_id_can_be_used),
    TEST(begin__names_that_are_no_agents_are_refused),
    TEST(session_begin__err_TooManySessions__until_one_has_ended_or_idled_out),
    TEST(end__tells_what_it_held_and_happens_once),
    TEST(session_end__err_SessionNotFound__of_none_an_unknown_anothers_or_an_ended_one),
    TEST(session_touch__err_SessionNotFound__of_none_an_unknown_anothers_or_an_ended_one),
    TEST(end__another_agents_session_is_not_found_and_lives_on),
    TEST(end__the_operator_may_end_any),
    TEST(idle__ends_a_session_after_the_last_millisecond_and_touch_keeps_it),
    TEST(idle__zero_means_never),
    TEST(idle__others_are_swept_by_any_call_on_a_session),
    TEST(close__ends_all_sessions),
    TEST(on_end__is_told_of_every_end),
    TEST(alive__is_a_matter_of_id_and_agent),
    TEST(list__shows_ones_own_with_age_idle_time_and_size),
    TEST(list__shows_the_operator_all),
    TEST(memory__of_1000_sessions_is_given_back_when_they_end),
    TEST(memory__of_deleted_keys_is_given_back_in_a_session_that_lives),
    TEST(quota__is_exact_after_any_sequence_of_calls),
    TEST(threads__eight_in_one_session_see_what_they_wrote),
    TEST(threads__eight_in_many_sessions_leave_none_behind),
    TEST(threads__an_end_under_the_feet_of_seven_answers_SessionNotFound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
