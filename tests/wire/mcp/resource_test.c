/* resource_test.c: state as resources: URIs, pages, reading, and hearing of changes: one notice a commit. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void read_uri(mcp_world *m, const char *uri)
{
  mcp_sendf(m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"%s\"}}", uri);
}

static void set(mcp_world *m, const char *key, int value)
{
  char input[256];
  snprintf(input, sizeof input, "{\"key\":\"%s\",\"value\":%d}", key, value);
  world_ok(&m->w, "state.persistent.set", input);
}

static void share(mcp_world *m, const char *key, int value, int version)
{
  char input[256];
  snprintf(input, sizeof input, "{\"key\":\"%s\",\"value\":%d,\"expected_version\":%d}", key, value, version);
  world_ok(&m->w, "state.shared.set", input);
}

static void resource__keys_are_listed_and_read_back_by_their_uri(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  world_ok(&m.w, "state.persistent.set", "{\"key\":\"a/\\u00e4 %?#\\\"\",\"value\":{\"x\":1.50}}");
  share(&m, "board", 7, 0);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
  assert_string_equal(mcp_last(&m, "result.resources.0.uri"), "\"state://persistent/a/%C3%A4%20%25%3F%23%22\"");
  assert_string_equal(mcp_last(&m, "result.resources.1.uri"), "\"state://shared/board\"");
  assert_string_equal(mcp_last(&m, "result.resources.2"), "");
  assert_string_equal(mcp_last(&m, "result.nextCursor"), "");
  read_uri(&m, "state://persistent/a/%C3%A4%20%25%3F%23%22");
  assert_string_equal(mcp_last(&m, "result.contents.0.text"), "\"{\\\"x\\\":1.50}\"");
  assert_string_equal(mcp_last(&m, "result.contents.0.mimeType"), "\"application/json\"");
  read_uri(&m, "state://shared/board");
  assert_string_equal(mcp_last(&m, "result.contents.0.text"), "\"7\"");
  mcp_close(&m);
}

static void resource__what_is_not_there_is_not_found_by_the_code_of_the_era(void **state)
{
  (void)state;
  static const char *const uris[] = {"state://persistent/none", "state://shared/none", "state://commits/00000000", "state://commits/xyz",
                                     "state://threads/none",    "state://threads/..",  "state://other/x",          "file:///etc/passwd",
                                     "state://persistent/",     "state://shared/%zz",  "state://persistent/%00",   ""};
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(uris); i++) {
    read_uri(&m, uris[i]);
    assert_string_equal(mcp_last(&m, "error.code"), "-32002");
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{%s,\"uri\":\"%s\"}}", META, uris[i]);
    assert_string_equal(mcp_last(&m, "error.code"), "-32602");
    char want[256];
    snprintf(want, sizeof want, "\"%s\"", uris[i]);
    assert_string_equal(mcp_last(&m, "error.data.uri"), want);
  }
  mcp_close(&m);
}

static void resource__long_lists_come_in_pages_without_gap_or_double(void **state)
{
  (void)state;
  mcp_world m;
  char cursor[512] = "", key[32];
  int pages = 0, count = 0;
  mcp_open(&m, NULL, NULL);
  for (int i = 0; i < 150; i++) {
    snprintf(key, sizeof key, "k%03d", i);
    set(&m, key, i);
    share(&m, key, i, 0);
  }
  do {
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{%s%s}}", *cursor ? "\"cursor\":" : "", cursor);
    for (int i = 0; i < 200; i++) {
      char path[64], want[64];
      snprintf(path, sizeof path, "result.resources.%d.uri", i);
      if (!*mcp_last(&m, path)) break;
      snprintf(want, sizeof want, "\"state://%s/k%03d\"", count < 150 ? "persistent" : "shared", count % 150);
      assert_string_equal(mcp_last(&m, path), want);
      count++;
    }
    snprintf(cursor, sizeof cursor, "%s", mcp_last(&m, "result.nextCursor"));
  } while (*cursor && ++pages < 10);
  assert_int_equal(count, 300);
  assert_int_equal(pages, 2);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{\"cursor\":\"junk\"}}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/resource\",\"uri\":"
               "\"state://shared/{key}\"},\"argument\":{\"name\":\"key\",\"value\":\"k\"}}}");
  assert_string_equal(mcp_last(&m, "result.completion.total"), "150");
  assert_string_equal(mcp_last(&m, "result.completion.hasMore"), "true");
  assert_string_equal(mcp_last(&m, "result.completion.values.99"), "\"k099\"");
  assert_string_equal(mcp_last(&m, "result.completion.values.100"), "");
  mcp_close(&m);
}

static void resource__a_commit_tells_who_when_and_what_and_another_agents_is_not_seen(void **state)
{
  (void)state;
  mcp_world m;
  pd_store *store = NULL;
  pd_commit commit;
  char hex[PD_ID_HEX_SIZE], uri[128];
  mcp_open(&m, NULL, NULL);
  set(&m, "plan", 1);
  assert_int_equal(pd_home_borrow(m.w.home, "main", false, &store, NULL), PD_OK);
  assert_int_equal(pd_resolve(store, NULL, &commit, NULL), PD_OK);
  snprintf(uri, sizeof uri, "state://commits/%s", pd_id_hex(&commit.id, hex));
  mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{%s,\"uri\":\"%s\"}}", META, uri);
  assert_non_null(strstr(mcp_last(&m, "result.contents.0.text"), "\\\"author\\\":\\\"main\\\""));
  assert_non_null(strstr(mcp_last(&m, "result.contents.0.text"), "\\\"key\\\":\\\"plan\\\",\\\"change\\\":\\\"put\\\""));
  assert_string_equal(mcp_last(&m, "result.ttlMs"), "86400000"); /* it never changes */
  snprintf(uri, sizeof uri, "state://commits/%.12s", hex);
  read_uri(&m, uri);
  assert_string_equal(mcp_last(&m, "error"), "");
  m.peer.agent = "eve";
  read_uri(&m, uri);
  assert_string_equal(mcp_last(&m, "error.code"), "-32002");
  mcp_close(&m);
}

static void append_to_thread(mcp_world *m, int version)
{
  char input[512];
  snprintf(input, sizeof input,
           "{\"thread_id\":\"trip\",\"expected_version\":%d,\"run_id\":\"r\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m%d\","
           "\"role\":\"user\",\"content\":\"To Rome!\"}],\"patches\":[{\"op\":\"set\",\"path\":\"/to\",\"value\":\"Rome\"}]}",
           version, version);
  world_ok(&m->w, "threads.append", input);
}

static void resource__a_thread_is_read_completed_and_heard_of_once_a_change_set(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  world_ok(&m.w, "threads.create", "{\"thread_id\":\"trip\"}");
  append_to_thread(&m, 0);
  read_uri(&m, "state://threads/trip");
  assert_non_null(strstr(mcp_last(&m, "result.contents.0.text"), "\\\"state\\\":{\\\"to\\\":\\\"Rome\\\"}"));
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/resource\",\"uri\":"
               "\"state://threads/{id}\"},\"argument\":{\"name\":\"id\",\"value\":\"t\"}}}");
  assert_string_equal(mcp_last(&m, "result.completion.values"), "[\"trip\"]");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"state://threads/trip\"}}");
  for (int i = 1; i <= 4; i++) append_to_thread(&m, i);
  set(&m, "plan", 1);
  exchange_wait(&m.push, 4);
  usleep(300000);
  assert_int_equal(m.push.count, 4);
  mcp_close(&m);
}

/* ---- hearing of changes ---- */

static void subscribe(mcp_world *m, const char *uri)
{
  mcp_sendf(m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"%s\"}}", uri);
}

/* Give what should not come the time to come. */
static void settle(void)
{
  usleep(300000);
}

static void resource__a_subscriber_hears_of_each_commit_once_and_of_nothing_else(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  set(&m, "plan", 0);
  subscribe(&m, "state://persistent/plan");
  assert_string_equal(mcp_last(&m, "result"), "{}");
  subscribe(&m, "state://persistent/plan"); /* twice is once */
  for (int i = 1; i <= 5; i++) {
    set(&m, "plan", i);
    set(&m, "plan2", i);
    share(&m, "plan", i, i - 1);
  }
  world_ok(&m.w, "state.persistent.delete", "{\"key\":\"plan\"}");
  exchange_wait(&m.push, 6);
  settle();
  assert_int_equal(m.push.count, 6);
  for (size_t i = 0; i < m.push.count; i++) {
    assert_string_equal(mcp_member(&m, m.push.messages[i], "method"), "\"notifications/resources/updated\"");
    assert_string_equal(mcp_member(&m, m.push.messages[i], "params"), "{\"uri\":\"state://persistent/plan\"}");
  }
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/unsubscribe\",\"params\":{\"uri\":\"state://persistent/plan\"}}");
  assert_string_equal(mcp_last(&m, "result"), "{}");
  set(&m, "plan", 9);
  settle();
  assert_int_equal(m.push.count, 6);
  subscribe(&m, "state://other/x");
  assert_string_equal(mcp_last(&m, "error.code"), "-32002");
  mcp_close(&m);
}

static void resource__undo_tells_the_keys_that_it_changed(void **state)
{
  (void)state;
  mcp_world m;
  pd_store *store = NULL;
  mcp_open(&m, NULL, NULL);
  set(&m, "plan", 1);
  set(&m, "other", 1);
  set(&m, "other", 2);
  subscribe(&m, "state://persistent/plan");
  subscribe(&m, "state://persistent/other");
  assert_int_equal(pd_home_borrow(m.w.home, "main", false, &store, NULL), PD_OK);
  assert_int_equal(pd_undo(store, 1, NULL, NULL, NULL), PD_OK);
  exchange_wait(&m.push, 1);
  settle();
  assert_int_equal(m.push.count, 1);
  assert_non_null(strstr(m.push.messages[0], "state://persistent/other"));
  mcp_close(&m);
}

static void resource__a_batch_of_keys_in_one_commit_is_one_notice_each(void **state)
{
  (void)state;
  mcp_world m;
  pd_store *store = NULL;
  pd_edit *edit = NULL;
  mcp_open(&m, NULL, NULL);
  set(&m, "a", 0);
  subscribe(&m, "state://persistent/a");
  subscribe(&m, "state://persistent/b");
  assert_int_equal(pd_home_borrow(m.w.home, "main", false, &store, NULL), PD_OK);
  assert_int_equal(pd_edit_begin(store, NULL, &edit, NULL), PD_OK);
  const char *const keys[] = {"a", "b", "c"};
  for (size_t i = 0; i < COUNT_OF(keys); i++)
    assert_int_equal(pd_edit_put(edit, pd_text(keys[i]), pd_text("1"), PD_ANY_VERSION, NULL), PD_OK);
  assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_OK);
  exchange_wait(&m.push, 2);
  settle();
  assert_int_equal(m.push.count, 2);
  mcp_close(&m);
}

static void listen_into(mcp_world *m, exchange *e, const char *id, const char *filter)
{
  char text[1024];
  snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"subscriptions/listen\",\"params\":{%s,\"notifications\":%s}}",
           id, META, filter);
  exchange_begin(e);
  mcp_send_into(m, e, text);
}

static void resource__listening_is_acknowledged_first_and_filtered(void **state)
{
  (void)state;
  mcp_world m;
  exchange one, two;
  mcp_open(&m, NULL, NULL);
  set(&m, "plan", 0);
  listen_into(&m, &one, "\"x\"",
              "{\"resourceSubscriptions\":[\"state://persistent/plan\",\"state://nonsense\"],\"toolsListChanged\":true}");
  listen_into(&m, &two, "2", "{\"resourcesListChanged\":true}");
  assert_string_equal(mcp_member(&m, one.messages[0], "method"), "\"notifications/subscriptions/acknowledged\"");
  assert_string_equal(mcp_member(&m, one.messages[0], "params.notifications"), "{\"resourceSubscriptions\":[\"state://persistent/plan\"]}");
  assert_string_equal(mcp_member(&m, two.messages[0], "params.notifications"), "{\"resourcesListChanged\":true}");
  set(&m, "plan", 1); /* changes it */
  set(&m, "new", 1);  /* changes the list */
  exchange_wait(&one, 2);
  exchange_wait(&two, 2);
  settle();
  assert_int_equal(one.count, 2);
  assert_int_equal(two.count, 2);
  assert_string_equal(mcp_member(&m, one.messages[1], "params.uri"), "\"state://persistent/plan\"");
  assert_string_equal(mcp_member(&m, one.messages[1], "params._meta.io!modelcontextprotocol/subscriptionId"), "\"x\"");
  assert_string_equal(mcp_member(&m, two.messages[1], "method"), "\"notifications/resources/list_changed\"");
  /* one is cancelled, which is no answer; the other ends with the server, which is one */
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"x\"}}");
  assert_true(one.is_done);
  assert_int_equal(one.count, 2);
  pd_mcp_drain(m.mcp);
  assert_true(two.is_done);
  assert_string_equal(mcp_member(&m, two.messages[2], "result._meta.io!modelcontextprotocol/subscriptionId"), "2");
  exchange_end(&one);
  exchange_end(&two);
  mcp_close(&m);
}

static void resource__who_hung_up_hears_nothing_and_is_not_counted(void **state)
{
  (void)state;
  mcp_world m;
  exchange e;
  size_t sessions = 9, streams = 9;
  mcp_open(&m, NULL, NULL);
  listen_into(&m, &e, "1", "{\"resourceSubscriptions\":[\"state://shared/board\"]}");
  pd_mcp_counts(m.mcp, &sessions, &streams);
  assert_int_equal(streams, 1);
  pd_mcp_hang_up(m.mcp, &e);
  pd_mcp_counts(m.mcp, &sessions, &streams);
  assert_int_equal(streams, 0);
  share(&m, "board", 1, 0);
  settle();
  assert_int_equal(e.count, 1);
  assert_false(e.is_done);
  exchange_end(&e);
  mcp_close(&m);
}

static void resource__a_filter_that_is_none_is_refused(void **state)
{
  (void)state;
  static const char *const filters[] = {"7", "{\"resourceSubscriptions\":7}", "{\"resourceSubscriptions\":[7]}"};
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (size_t i = 0; i < COUNT_OF(filters); i++) {
    exchange e;
    listen_into(&m, &e, "1", filters[i]);
    assert_true(e.is_done);
    assert_string_equal(mcp_member(&m, e.messages[0], "error.code"), "-32602");
    exchange_end(&e);
  }
  mcp_close(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(resource__keys_are_listed_and_read_back_by_their_uri),
    cmocka_unit_test(resource__what_is_not_there_is_not_found_by_the_code_of_the_era),
    cmocka_unit_test(resource__long_lists_come_in_pages_without_gap_or_double),
    cmocka_unit_test(resource__a_commit_tells_who_when_and_what_and_another_agents_is_not_seen),
    cmocka_unit_test(resource__a_thread_is_read_completed_and_heard_of_once_a_change_set),
    cmocka_unit_test(resource__a_subscriber_hears_of_each_commit_once_and_of_nothing_else),
    cmocka_unit_test(resource__undo_tells_the_keys_that_it_changed),
    cmocka_unit_test(resource__a_batch_of_keys_in_one_commit_is_one_notice_each),
    cmocka_unit_test(resource__listening_is_acknowledged_first_and_filtered),
    cmocka_unit_test(resource__who_hung_up_hears_nothing_and_is_not_counted),
    cmocka_unit_test(resource__a_filter_that_is_none_is_refused),
  };
  return cmocka_run_group_tests_name("resource", tests, NULL, NULL);
}
