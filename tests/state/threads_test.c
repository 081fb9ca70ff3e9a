/* threads_test.c: threads.*: what the door adds to thread.h: inputs, answers, pages, errors. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/home.h"
#include "state/threads.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void append(world *w, const char *thread, int number)
{
  char *input = text_of("{\"thread_id\":\"%s\",\"run_id\":\"r%d\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m%d\"}],"
                        "\"patches\":[{\"op\":\"set\",\"path\":\"/n\",\"value\":%d}]}",
                        thread, number % 2, number, number);
  world_ok(w, "threads.append", input);
  free(input);
}

static void threads__a_page_ends_with_the_cursor_of_the_next(void **state)
{
  world *w = *state;
  world_ok(w, "threads.create", "{\"thread_id\":\"t\"}");
  for (int i = 1; i <= 5; i++) append(w, "t", i);
  world_ok(w, "threads.messages", "{\"thread_id\":\"t\",\"limit\":3}");
  assert_string_equal(world_out(w, "messages.2.id"), "\"m3\"");
  assert_string_equal(world_out(w, "messages.3"), "");
  assert_string_equal(world_out(w, "next_after"), "3");
  world_ok(w, "threads.messages", "{\"thread_id\":\"t\",\"limit\":3,\"after\":3}");
  assert_string_equal(world_out(w, "first_place"), "4");
  assert_string_equal(world_out(w, "messages.1.id"), "\"m5\"");
  assert_string_equal(world_out(w, "next_after"), "null");
  world_ok(w, "threads.messages", "{\"thread_id\":\"t\",\"last\":2}");
  assert_string_equal(world_out(w, "messages.0.id"), "\"m4\"");
  world_ok(w, "threads.deltas", "{\"thread_id\":\"t\",\"after_version\":1,\"limit\":2}");
  assert_string_equal(world_out(w, "deltas.1.version"), "3");
  assert_string_equal(world_out(w, "next_after"), "3");
  assert_string_equal(world_out(w, "version"), "5");
  world_ok(w, "threads.runs", "{\"thread_id\":\"t\",\"limit\":1,\"after\":1}");
  assert_string_equal(world_out(w, "runs.0.run_id"), "\"r0\"");
}

/* A call through another handle on the same home, as another process would make it. */
static void elsewhere(pd_home *other, const char *capability, const char *input)
{
  pd_buf answer = {0};
  pd_error err = {0};
  pd_ctx ctx = {.home = other, .agent = "main", .is_operator = true};
  if (pd_call(&ctx, capability, pd_text(input), &answer, &err)) fail_msg("%s: %s", capability, err.message);
  pd_buf_done(&answer);
}

static void want_state(world *w, const char *version, const char *state)
{
  world_ok(w, "threads.load", "{\"thread_id\":\"t\"}");
  world_want(w, "version", version);
  world_want(w, "state", state);
}

static void threads__a_call_sees_what_others_did_to_a_thread_that_it_knows(void **state)
{
  world *w = *state;
  pd_home *other;
  assert_int_equal(pd_home_open(w->uri, NULL, &other, NULL), PD_OK);
  world_ok(w, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"kept\":true}}");
  append(w, "t", 1);
  append(w, "t", 2);
  want_state(w, "2", "{\"kept\":true,\"n\":2}");
  elsewhere(other, "threads.append",
            "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"patches\":[{\"op\":\"set\",\"path\":\"/m\",\"value\":3}]}");
  append(w, "t", 4);
  want_state(w, "4", "{\"kept\":true,\"m\":3,\"n\":4}");
  elsewhere(other, "threads.rewind", "{\"thread_id\":\"t\",\"version\":1}");
  want_state(w, "1", "{\"kept\":true,\"n\":1}");
  append(w, "t", 5);
  want_state(w, "2", "{\"kept\":true,\"n\":5}");
  world_fails(w, "threads.append",
              "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"patches\":[{\"op\":\"set\",\"path\":\"/x\",\"value\":1},"
              "{\"op\":\"remove\",\"path\":\"/none/none\"}]}",
              "InvalidPatch", NULL);
  want_state(w, "2", "{\"kept\":true,\"n\":5}"); /* nothing of what failed */
  elsewhere(other, "threads.delete", "{\"thread_id\":\"t\"}");
  world_fails(w, "threads.load", "{\"thread_id\":\"t\"}", "NotFound", NULL);
  elsewhere(other, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"another\":1}}");
  want_state(w, "0", "{\"another\":1}");
  assert_int_equal(pd_home_close(other, NULL), PD_OK);
}

static void threads__a_handle_is_kept_for_the_next_call_and_goes_with_its_store(void **state)
{
  world *w = *state;
  pd_thread_cache *cache = w->home->threads;
  pd_held *held;
  world_ok(w, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"a\":1}}");
  world_ok(w, "threads.load", "{\"thread_id\":\"t\"}");
  assert_int_equal(pd_home_hold(world_grant(w->home), "main", false, &held, NULL), PD_OK);
  pd_thread *first = pd_thread_cache_take(cache, held->store, "t");
  assert_non_null(first);
  assert_null(pd_thread_cache_take(cache, held->store, "t")); /* T1 */
  assert_true(pd_thread_size(first) > 0);                     /* with its state */
  pd_thread_cache_put(cache, first);
  append(w, "t", 1);
  assert_ptr_equal(pd_thread_cache_take(cache, held->store, "t"), first);
  pd_thread_cache_put(cache, first);
  for (int i = 0; i < 80; i++) { /* T4 */
    world_okf(w, "threads.create", "{\"thread_id\":\"many%d\"}", i);
    world_okf(w, "threads.load", "{\"thread_id\":\"many%d\"}", i);
  }
  assert_null(pd_thread_cache_take(cache, held->store, "t"));
  pd_thread *last = pd_thread_cache_take(cache, held->store, "many79");
  assert_non_null(last);
  pd_thread_cache_put(cache, last);
  pd_thread_cache_forget(cache, held->store); /* T3 */
  assert_null(pd_thread_cache_take(cache, held->store, "many79"));
  pd_home_let(w->home, held);
}

static void threads__a_listing_goes_on_after_its_cursor(void **state)
{
  world *w = *state;
  for (int i = 0; i < 5; i++) {
    char *input = text_of("{\"thread_id\":\"t%d\",\"owner\":\"%s\"%s}", i, i % 2 ? "ada" : "bob", i == 4 ? ",\"parent\":\"t0\"" : "");
    world_ok(w, "threads.create", input);
    free(input);
    w->now_ms += 1000;
  }
  world_ok(w, "threads.list", "{\"limit\":2}");
  assert_string_equal(world_out(w, "threads.0.thread_id"), "\"t4\"");
  char *input = text_of("{\"limit\":3,\"cursor\":%s}", world_out(w, "next_cursor"));
  world_ok(w, "threads.list", input);
  assert_string_equal(world_out(w, "threads.0.thread_id"), "\"t2\"");
  assert_string_equal(world_out(w, "threads.2.thread_id"), "\"t0\"");
  assert_string_equal(world_out(w, "next_cursor"), "null");
  free(input);
  world_ok(w, "threads.list", "{\"owner\":\"ada\"}");
  assert_string_equal(world_out(w, "count"), "2");
  world_ok(w, "threads.list", "{\"parent\":\"t0\"}");
  assert_string_equal(world_out(w, "threads.0.thread_id"), "\"t4\"");
  world_ok(w, "threads.list", "{\"since\":\"2026-11-15T10:00:01Z\",\"until\":\"2026-11-15T10:00:03Z\"}");
  assert_string_equal(world_out(w, "count"), "2");
  world_fails(w, "threads.list", "{\"cursor\":\"not one\"}", "InvalidInput", NULL);
}

static void threads_load__has_the_last_messages_and_what_was_then(void **state)
{
  world *w = *state;
  world_ok(w, "threads.create", "{\"thread_id\":\"t\",\"state\":{\"n\":0}}");
  for (int i = 1; i <= 5; i++) append(w, "t", i);
  world_ok(w, "threads.load", "{\"thread_id\":\"t\",\"last\":2}");
  assert_string_equal(world_out(w, "state"), "{\"n\":5}");
  assert_string_equal(world_out(w, "messages"), "[{\"id\":\"m4\"},{\"id\":\"m5\"}]");
  assert_string_equal(world_out(w, "has_more"), "true");
  world_ok(w, "threads.load", "{\"thread_id\":\"t\",\"version\":2}");
  assert_string_equal(world_out(w, "state"), "{\"n\":2}");
  assert_string_equal(world_out(w, "messages"), "[{\"id\":\"m1\"},{\"id\":\"m2\"}]");
  assert_string_equal(world_out(w, "thread.message_count"), "2");
  assert_string_equal(world_out(w, "has_more"), "false");
  world_ok(w, "threads.load", "{\"thread_id\":\"t\",\"last\":0}");
  assert_string_equal(world_out(w, "messages"), "[]");
  assert_string_equal(world_out(w, "has_more"), "true");
}

/* 20 messages of 1 MiB: an answer holds 16 MiB, and it is the earlier ones that are left out. */
static void threads_load__of_long_messages_keeps_the_last(void **state)
{
  world *w = *state;
  world_ok(w, "threads.create", "{\"thread_id\":\"t\"}");
  char *body = malloc((1 << 20) + 1);
  assert_non_null(body);
  memset(body, 'x', 1 << 20);
  body[1 << 20] = 0;
  for (int i = 1; i <= 20; i++) {
    char *input = text_of(
      "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m%d\",\"content\":\"%s\"}]}", i, body);
    world_ok(w, "threads.append", input);
    free(input);
  }
  free(body);
  world_ok(w, "threads.load", "{\"thread_id\":\"t\"}");
  assert_true(w->out.size < ((size_t)18 << 20));
  assert_non_null(strstr((const char *)w->out.data, "\"id\":\"m20\""));
  assert_null(strstr((const char *)w->out.data, "\"id\":\"m1\""));
  assert_non_null(strstr((const char *)w->out.data, "\"has_more\":true"));
  world_ok(w, "threads.messages", "{\"thread_id\":\"t\"}");
  assert_non_null(strstr((const char *)w->out.data, "\"next_after\":1"));
}

static void threads_append__a_conflict_tells_both_versions_and_changes_nothing(void **state)
{
  world *w = *state;
  world_ok(w, "threads.create", "{\"thread_id\":\"t\"}");
  append(w, "t", 1);
  world_fails(w, "threads.append", "{\"thread_id\":\"t\",\"expected_version\":0,\"run_id\":\"r\",\"reason\":\"RunFinished\"}",
              "VersionConflict", "reload");
  assert_string_equal(world_out(w, "error.details.expected"), "0");
  assert_string_equal(world_out(w, "error.details.actual"), "1");
  world_fails(w, "threads.append", "{\"thread_id\":\"t\",\"run_id\":\"r\",\"reason\":\"Whim\"}", "InvalidInput", NULL);
  world_fails(w, "threads.append", "{\"thread_id\":\"t\",\"run_id\":\"a/b\",\"reason\":\"RunFinished\"}", "InvalidId", "correct");
  world_ok(w, "threads.state", "{\"thread_id\":\"t\"}");
  assert_string_equal(world_out(w, "version"), "1");
}

static void threads__rewind_fork_and_diff_agree(void **state)
{
  world *w = *state;
  world_ok(w, "threads.create", "{\"thread_id\":\"t\",\"owner\":\"ada\"}");
  for (int i = 1; i <= 3; i++) append(w, "t", i);
  world_ok(w, "threads.fork", "{\"thread_id\":\"t\",\"version\":2,\"new_thread_id\":\"u\",\"owner\":\"bob\"}");
  world_ok(w, "threads.load", "{\"thread_id\":\"u\"}");
  assert_string_equal(world_out(w, "thread.forked_from"), "\"t\"");
  assert_string_equal(world_out(w, "thread.owner"), "\"bob\"");
  assert_string_equal(world_out(w, "state"), "{\"n\":2}");
  world_ok(w, "threads.rewind", "{\"thread_id\":\"t\",\"version\":1,\"expected_version\":3}");
  world_ok(w, "threads.state", "{\"thread_id\":\"t\"}");
  assert_string_equal(world_out(w, "state"), "{\"n\":1}");
  world_fails(w, "threads.load", "{\"thread_id\":\"t\",\"version\":3}", "VersionNotFound", "list");
  world_ok(w, "threads.diff", "{\"thread_id\":\"u\",\"from\":1,\"to\":2}");
  assert_string_equal(world_out(w, "changes"), "[{\"path\":\"/n\",\"before\":1,\"after\":2}]");
  assert_string_equal(world_out(w, "message_count"), "1");
  world_ok(w, "threads.replay", "{\"thread_id\":\"u\"}");
  assert_string_equal(world_out(w, "is_same"), "true");
  world_ok(w, "threads.delete", "{\"thread_id\":\"u\"}");
  world_fails(w, "threads.load", "{\"thread_id\":\"u\"}", "NotFound", "create");
}

/* An agent sees its own threads only, and looking makes no store. */
static void threads__belong_to_their_agent(void **state)
{
  world *w = *state;
  world_ok(w, "threads.create", "{\"thread_id\":\"t\"}");
  w->agent = "stranger";
  world_fails(w, "threads.load", "{\"thread_id\":\"t\"}", "NotFound", NULL);
  world_ok(w, "threads.list", "{}");
  assert_string_equal(world_out(w, "count"), "0");
  w->is_operator = true;
  world_ok(w, "system.health", "{}");
  assert_null(strstr((const char *)w->out.data, "stranger"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(threads__a_page_ends_with_the_cursor_of_the_next, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads__a_call_sees_what_others_did_to_a_thread_that_it_knows, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads__a_handle_is_kept_for_the_next_call_and_goes_with_its_store, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads__a_listing_goes_on_after_its_cursor, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads_load__has_the_last_messages_and_what_was_then, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads_load__of_long_messages_keeps_the_last, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads_append__a_conflict_tells_both_versions_and_changes_nothing, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads__rewind_fork_and_diff_agree, world_set_up, world_tear_down),
    cmocka_unit_test_setup_teardown(threads__belong_to_their_agent, world_set_up, world_tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
