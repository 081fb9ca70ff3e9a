/* resource_test.c: state as resources: URIs, pages, reading, and hearing of changes: one notice a commit. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "support/temp_folder.h"

#include <perdure/token.h>
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
  assert_int_equal(world_borrow(m.w.home, "main", false, &store, NULL), PD_OK);
  assert_int_equal(pd_resolve(store, NULL, &commit, NULL), PD_OK);
  snprintf(uri, sizeof uri, "state://commits/%s", pd_id_hex(&commit.id, hex));
  mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{%s,\"uri\":\"%s\"}}", META, uri);
  assert_non_null(strstr(mcp_last(&m, "result.contents.0.text"), "\\\"author\\\":\\\"main\\\""));
  assert_non_null(strstr(mcp_last(&m, "result.contents.0.text"), "\\\"key\\\":\\\"plan\\\",\\\"op\\\":\\\"put\\\""));
  assert_string_equal(mcp_last(&m, "result.ttlMs"), "86400000"); /* it never changes */
  snprintf(uri, sizeof uri, "state://commits/%.12s", hex);
  read_uri(&m, uri);
  assert_string_equal(mcp_last(&m, "error"), "");
  m.peer.agent = "eve";
  read_uri(&m, uri);
  assert_string_equal(mcp_last(&m, "error.code"), "-32002");
  mcp_close(&m);
}

static void want_uri(mcp_world *m, const char *uri, bool is_there)
{
  read_uri(m, uri);
  assert_string_equal(mcp_last(m, "error.code"), is_there ? "" : "-32002");
}

/* The newest commit of a ref of a store as a URI. */
static void commit_uri(mcp_world *m, const char *name, const char *ref, char out[128])
{
  pd_store *store = NULL;
  pd_commit commit;
  char hex[PD_ID_HEX_SIZE];
  assert_int_equal(world_borrow(m->w.home, name, false, &store, NULL), PD_OK);
  assert_int_equal(pd_resolve(store, ref, &commit, NULL), PD_OK);
  snprintf(out, 128, "state://commits/%s", pd_id_hex(&commit.id, hex));
}

static void resource__a_commit_is_of_the_callers_store_or_of_the_shared_one_and_nobody_elses(void **state)
{
  (void)state;
  mcp_world m;
  char own[128], strangers[128], shared[128], system[128], queue[128];
  mcp_open(&m, NULL, NULL);
  set(&m, "plan", 1);
  share(&m, "board", 1, 0);
  world_ok(&m.w, "queue.send", "{\"to\":\"main\",\"body\":1}");
  world_ok(&m.w, "alerts.send", "{\"severity\":\"info\",\"title\":\"t\",\"message\":\"m\"}"); /* a commit of the system store */
  m.w.agent = "eve";
  set(&m, "secret", 1);
  m.w.agent = "main";
  commit_uri(&m, "main", NULL, own);
  commit_uri(&m, "eve", NULL, strangers);
  commit_uri(&m, "shared", NULL, shared);
  commit_uri(&m, "system", NULL, system);
  commit_uri(&m, "main", PD_QUEUE_REF, queue);
  want_uri(&m, own, true);
  want_uri(&m, queue, false); /* its queue is no state of the agent */
  want_uri(&m, shared, true);
  assert_non_null(strstr(mcp_last(&m, "result.contents.0.text"), "\\\"key\\\":\\\"board\\\""));
  want_uri(&m, strangers, false);
  want_uri(&m, system, false);
  m.peer.agent = "eve";
  want_uri(&m, strangers, true);
  want_uri(&m, own, false);
  m.peer.agent = "system"; /* a store's name is no agent's */
  want_uri(&m, system, false);
  want_uri(&m, own, false);
  mcp_close(&m);
}

/* ---- what the caller may not call, it does not see ---- */

static void complete_key(mcp_world *m, const char *template, const char *variable)
{
  mcp_sendf(m,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/resource\",\"uri\":"
            "\"%s\"},\"argument\":{\"name\":\"%s\",\"value\":\"\"}}}",
            template, variable);
}

static void want_refused(mcp_world *m, const char *method, const char *params)
{
  mcp_sendf(m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}", method, params);
  assert_string_not_equal(mcp_last(m, "error.code"), "");
}

static void resource__what_the_token_does_not_reach_is_in_no_list(void **state)
{
  (void)state;
  mcp_world m;
  char own[128], shared[128];
  mcp_open(&m, NULL, NULL);
  set(&m, "plan", 1);
  share(&m, "board", 1, 0);
  world_ok(&m.w, "threads.create", "{\"thread_id\":\"trip\"}");
  commit_uri(&m, "main", NULL, own);
  commit_uri(&m, "shared", NULL, shared);
  pd_token_info token = {.role = PD_ROLE_AGENT, .agent = "main", .capabilities = {"state.shared.*"}};
  m.peer.token = &token;
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
  assert_string_equal(mcp_last(&m, "result.resources.0.uri"), "\"state://shared/board\"");
  assert_string_equal(mcp_last(&m, "result.resources.1"), "");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/templates/list\"}");
  assert_string_equal(mcp_last(&m, "result.resourceTemplates.0.name"), "\"shared\"");
  assert_string_equal(mcp_last(&m, "result.resourceTemplates.1"), "");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/list\"}");
  assert_string_equal(mcp_last(&m, "result.prompts"), "[]");
  want_refused(&m, "prompts/get", "{\"name\":\"briefing\"}");
  complete_key(&m, "state://persistent/{key}", "key");
  assert_string_equal(mcp_last(&m, "result.completion.values"), "[]");
  complete_key(&m, "state://threads/{id}", "id");
  assert_string_equal(mcp_last(&m, "result.completion.values"), "[]");
  complete_key(&m, "state://shared/{key}", "key");
  assert_string_equal(mcp_last(&m, "result.completion.values"), "[\"board\"]");
  want_refused(&m, "resources/subscribe", "{\"uri\":\"state://persistent/plan\"}");
  want_refused(&m, "resources/subscribe", "{\"uri\":\"state://threads/trip\"}");
  want_uri(&m, own, false);
  want_uri(&m, shared, false);
  mcp_close(&m);
}

static void want_refused_uri(mcp_world *m, const char *uri)
{
  char params[256];
  snprintf(params, sizeof params, "{\"uri\":\"%s\"}", uri);
  want_refused(m, "resources/read", params);
}

static void write_policy(mcp_world *m, const char *text)
{
  char *path = text_of("%s/policy.toml", m->w.folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  free(path);
  assert_int_equal(pd_home_reload(m->w.home, NULL), PD_OK);
}

static void resource__what_policy_blocks_is_not_read_not_listed_and_not_heard_of(void **state)
{
  (void)state;
  mcp_world m;
  char own[128];
  mcp_open(&m, NULL, NULL);
  set(&m, "open", 1);
  set(&m, "secret/x", 1);
  commit_uri(&m, "main", NULL, own);
  write_policy(&m, "[[rule]]\ncapability = \"state.persistent.*\"\nprefix = \"secret/\"\npermission = \"blocked\"\n"
                   "[[rule]]\ncapability = \"history.*\"\nprefix = \"secret/\"\npermission = \"blocked\"\n");
  want_refused(&m, "resources/read", "{\"uri\":\"state://persistent/secret/x\"}");
  want_refused(&m, "resources/subscribe", "{\"uri\":\"state://persistent/secret/x\"}");
  want_refused_uri(&m, own); /* it may tell of any key */
  want_uri(&m, "state://persistent/open", true);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
  assert_null(strstr(mcp_last(&m, "result"), "secret"));
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/resource\",\"uri\":"
               "\"state://persistent/{key}\"},\"argument\":{\"name\":\"key\",\"value\":\"op\"}}}");
  assert_string_equal(mcp_last(&m, "result.completion.values"), "[\"open\"]"); /* what is not about the secret ones is free */
  mcp_close(&m);
}

static void resource__pages_end_where_kinds_begin_without_gap_or_double(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  for (int i = 0; i < 6; i++) { /* 6 keys, 3 shared ones that sort before them, 4 threads */
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    set(&m, key, i);
    snprintf(key, sizeof key, "a%d", i);
    if (i < 3) share(&m, key, i, 0);
    m.w.now_ms += 1000;
    if (i < 4) assert_int_equal(world_callf(&m.w, "threads.create", "{\"thread_id\":\"t%d\"}", i), PD_OK);
  }
  static const char *const all[] = {"persistent/k0", "persistent/k1", "persistent/k2", "persistent/k3", "persistent/k4",
                                    "persistent/k5", "shared/a0",     "shared/a1",     "shared/a2",     "threads/t3",
                                    "threads/t2",    "threads/t1",    "threads/t0"};
  for (size_t size = 1; size <= COUNT_OF(all) + 1; size++) {
    char cursor[512] = "";
    size_t count = 0, pages = 0;
    mcp_page(&m, size);
    do {
      mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{%s%s}}", *cursor ? "\"cursor\":" : "", cursor);
      for (size_t i = 0; i < size; i++) {
        char path[64], want[64];
        snprintf(path, sizeof path, "result.resources.%zu.uri", i);
        if (!*mcp_last(&m, path)) break;
        snprintf(want, sizeof want, "\"state://%s\"", count < COUNT_OF(all) ? all[count] : "?");
        assert_string_equal(mcp_last(&m, path), want);
        count++;
      }
      snprintf(cursor, sizeof cursor, "%s", mcp_last(&m, "result.nextCursor"));
    } while (++pages < 50 && *cursor);
    assert_int_equal(count, COUNT_OF(all));
    assert_int_equal(pages, (COUNT_OF(all) + size - 1) / size);
  }
  static const char *const wrong[] = {"\"\"", "\"!\"", "\"eA==\"", "\"dA\"", "7", "\"dHg=\""};
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{\"cursor\":%s}}", wrong[i]);
    assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  }
  static const char *const others[] = {"tools/list", "prompts/list", "resources/templates/list"};
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{\"cursor\":\"!\"}}", others[i]);
    assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  }
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

static void listen_into(mcp_world *m, exchange *e, const char *id, const char *filter)
{
  char text[1024];
  snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"subscriptions/listen\",\"params\":{%s,\"notifications\":%s}}",
           id, META, filter);
  exchange_begin(e);
  mcp_send_into(m, e, text);
}

/* A session beside the world's own, of another agent, or of the same. */
typedef struct other {
  pd_mcp_session *session;
  size_t count;
} other;

static void count_message(void *ctx, pd_bytes message, int status, bool is_last)
{
  (void)message, (void)status, (void)is_last;
  __atomic_fetch_add((size_t *)ctx, 1, __ATOMIC_SEQ_CST);
}

static void other_subscribes(mcp_world *m, other *o, const char *agent, const char *uri)
{
  pd_mcp_out out = {.send = count_message, .ctx = &o->count};
  pd_mcp_peer peer = m->peer;
  assert_int_equal(pd_mcp_session_new(m->mcp, agent, &out, &o->session, NULL), PD_OK);
  m->peer.agent = agent;
  m->peer.session = o->session;
  subscribe(m, uri);
  m->peer = peer;
}

static void resource__everybody_who_watches_a_shared_key_hears_of_a_commit_once(void **state)
{
  (void)state;
  mcp_world m;
  exchange one, two;
  other eve = {0}, twin = {0};
  mcp_open(&m, NULL, NULL);
  subscribe(&m, "state://shared/board");
  other_subscribes(&m, &eve, "eve", "state://shared/board");
  other_subscribes(&m, &twin, "main", "state://shared/board");
  listen_into(&m, &one, "1", "{\"resourceSubscriptions\":[\"state://shared/board\",\"state://shared/board\",\"state://shared/b%6Fard\"]}");
  listen_into(&m, &two, "2", "{\"resourceSubscriptions\":[\"state://shared/board\"],\"resourcesListChanged\":true}");
  for (int i = 0; i < 20; i++) share(&m, "board", i, i); /* the first one changes the list, too */
  exchange_wait(&m.push, 20);
  exchange_wait(&one, 41); /* one for each of its two names of the resource, and the acknowledgement */
  exchange_wait(&two, 22);
  settle();
  assert_int_equal(m.push.count, 20);
  assert_int_equal(__atomic_load_n(&eve.count, __ATOMIC_SEQ_CST), 20);
  assert_int_equal(__atomic_load_n(&twin.count, __ATOMIC_SEQ_CST), 20);
  assert_int_equal(one.count, 41);
  assert_int_equal(two.count, 22);
  pd_mcp_drain(m.mcp);
  pd_mcp_session_release(eve.session);
  pd_mcp_session_release(twin.session);
  exchange_end(&one);
  exchange_end(&two);
  mcp_close(&m);
}

static void *burst(void *ctx)
{
  mcp_world *m = ctx;
  pd_ctx who = {.home = m->w.home, .agent = "main"};
  for (int i = 0; i < 100; i++) {
    pd_buf out = {0};
    if (pd_call(&who, "state.persistent.set", pd_text("{\"key\":\"plan\",\"value\":1}"), &out, NULL)) abort();
    pd_buf_done(&out);
  }
  return NULL;
}

static void resource__a_burst_of_commits_from_many_threads_is_one_notice_each(void **state)
{
  (void)state;
  mcp_world m;
  other o = {0};
  pthread_t threads[4];
  mcp_open(&m, NULL, NULL);
  other_subscribes(&m, &o, "main", "state://persistent/plan");
  for (size_t i = 0; i < COUNT_OF(threads); i++) assert_int_equal(pthread_create(&threads[i], NULL, burst, &m), 0);
  for (size_t i = 0; i < COUNT_OF(threads); i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 30000 && __atomic_load_n(&o.count, __ATOMIC_SEQ_CST) < 400; i++) usleep(2000);
  settle();
  assert_int_equal(__atomic_load_n(&o.count, __ATOMIC_SEQ_CST), 400);
  pd_mcp_session_release(o.session);
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
  assert_int_equal(world_borrow(m.w.home, "main", false, &store, NULL), PD_OK);
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
  assert_int_equal(world_borrow(m.w.home, "main", false, &store, NULL), PD_OK);
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

/* Both eras: what is subscribed to is told as long as policy lets it be read. One thread tells of a store, in the order of its log. */
static void resource__a_tightened_policy_reaches_subscriptions(void **state)
{
  (void)state;
  mcp_world m;
  exchange e;
  mcp_open(&m, NULL, NULL);
  mcp_initialize(&m, "2025-11-25", "{}");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"state://persistent/secret/x\"}}");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"state://persistent/open\"}}");
  listen_into(&m, &e, "9", "{\"resourceSubscriptions\":[\"state://persistent/secret/x\",\"state://persistent/open\"]}");
  set(&m, "secret/x", 1);
  exchange_wait(&m.push, 1);
  exchange_wait(&e, 2);
  assert_non_null(strstr(e.messages[1], "secret/x"));
  write_policy(&m, "[[rule]]\ncapability = \"state.persistent.get\"\nprefix = \"secret/\"\npermission = \"blocked\"\n");
  set(&m, "secret/x", 2);
  set(&m, "open", 1);
  exchange_wait(&m.push, 2);
  exchange_wait(&e, 3);
  if (!strstr(m.push.messages[1], "persistent/open")) fail_msg("%s", m.push.messages[1]);
  if (!strstr(e.messages[2], "persistent/open")) fail_msg("%s", e.messages[2]);
  pd_mcp_hang_up(m.mcp, &e);
  exchange_end(&e);
  mcp_close(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(resource__a_tightened_policy_reaches_subscriptions),
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
    cmocka_unit_test(resource__a_commit_is_of_the_callers_store_or_of_the_shared_one_and_nobody_elses),
    cmocka_unit_test(resource__what_the_token_does_not_reach_is_in_no_list),
    cmocka_unit_test(resource__what_policy_blocks_is_not_read_not_listed_and_not_heard_of),
    cmocka_unit_test(resource__pages_end_where_kinds_begin_without_gap_or_double),
    cmocka_unit_test(resource__everybody_who_watches_a_shared_key_hears_of_a_commit_once),
    cmocka_unit_test(resource__a_burst_of_commits_from_many_threads_is_one_notice_each),
    cmocka_unit_test(resource__a_filter_that_is_none_is_refused),
  };
  return cmocka_run_group_tests_name("resource", tests, NULL, NULL);
}
