/*
 * remote_test.c: stores behind a real server (perdure, argv[1]): the engine on them, what the server refuses, and what happens when it goes
 * away.
 */
#include "remote/remote.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <fcntl.h>
#include <perdure/backend.h>
#include <perdure/supervise.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct world {
  served *s;
  char *uri;
} world;

static int set_up(void **state)
{
  static const char *const args[] = {"--no-auth", NULL};
  world *w = calloc(1, sizeof *w);
  w->s = served_start(args);
  w->uri = text_of("http://127.0.0.1:%d", w->s->port);
  *state = w;
  return 0;
}

static int tear_down(void **state)
{
  world *w = *state;
  served_free(w->s);
  free(w->uri);
  free(w);
  return 0;
}

static pd_store *open_store(const char *uri, const char *agent)
{
  pd_store *store = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, agent, NULL, &store, &err)) fail_msg("open %s: %s", uri, err.message);
  return store;
}

static pd_backend *open_backend(const char *uri, const char *store)
{
  const pd_backend_ops *ops;
  const char *rest;
  pd_backend *b = NULL;
  pd_error err = {0};
  assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_OK);
  if (ops->open(rest, store, PD_BACKEND_CREATE, &b, &err)) fail_msg("open %s: %s", uri, err.message);
  return b;
}

static void put(pd_store *store, const char *key, const char *value)
{
  pd_error err = {0};
  if (pd_put(store, pd_text(key), pd_text(value), NULL, NULL, &err)) fail_msg("put: %s", err.message);
}

static void expect(pd_store *store, const char *key, const char *value)
{
  pd_buf out = {0};
  pd_error err = {0};
  if (pd_get(store, NULL, pd_text(key), &out, NULL, &err)) fail_msg("get %s: %s", key, err.message);
  assert_int_equal(out.size, strlen(value));
  assert_memory_equal(out.data, value, out.size);
  pd_buf_done(&out);
}

/* ---- the engine over a wire ---- */

static void remote__two_engines_on_one_server_see_each_others_writes(void **state)
{
  world *w = *state;
  char *home = text_of("sqlite:%s/home", w->s->folder), value[16];
  pd_store *far = open_store(w->uri, "main"), *near = open_store(home, "main"); /* another process than the server */
  for (int i = 0; i < 20; i++) {
    snprintf(value, sizeof value, "%d", i);
    put(i % 2 ? far : near, "k", value);
    assert_int_equal(pd_put_if(far, pd_text("seen"), pd_text(value), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
    expect(far, "k", value); /* after a write of its own it has followed the log */
    expect(near, "k", value);
  }
  reply r = ask_call(w->s, "main", "state.persistent.get", "{\"key\":\"k\"}");
  assert_int_equal(r.status, 200);
  assert_non_null(strstr(r.body, "19"));
  reply_done(&r);
  assert_int_equal(pd_store_close(far, NULL), PD_OK);
  assert_int_equal(pd_store_close(near, NULL), PD_OK);
  free(home);
}

static void count_worker(void *ctx, const char *agent)
{
  *(int *)ctx += strcmp(agent, "worker") == 0;
}

/* The server follows places by raw routes and by capabilities; no client makes one. */
static void remote__a_placed_store_is_reached_over_a_server_and_placed_by_no_client(void **state)
{
  world *w = *state;
  char *home = text_of("sqlite:%s/home", w->s->folder), *to = text_of("sqlite:%s/elsewhere", w->s->folder);
  char *inside = text_of("%s/home/worker.db", w->s->folder), *place = text_of("%s/home/other.place", w->s->folder);
  pd_error err;
  int count = 0;
  assert_int_equal(pd_store_place(home, "worker", to, &err), PD_OK);
  pd_store *far = open_store(w->uri, "worker"), *near = open_store(to, "worker");
  put(far, "k", "over-the-wire");
  expect(near, "k", "over-the-wire");
  reply r = ask_call(w->s, "worker", "state.persistent.set", "{\"key\":\"p\",\"value\":1}");
  assert_int_equal(r.status, 200);
  reply_done(&r);
  assert_int_not_equal(access(inside, F_OK), 0);
  assert_int_equal(pd_home_agents(w->uri, count_worker, &count, &err), PD_OK);
  assert_int_equal(count, 1);
  assert_int_equal(pd_store_place(w->uri, "other", to, &err), PD_UNSUPPORTED);
  assert_int_not_equal(access(place, F_OK), 0);
  assert_int_equal(pd_store_close(far, NULL), PD_OK);
  assert_int_equal(pd_store_close(near, NULL), PD_OK);
  free(home), free(to), free(inside), free(place);
}

/* A server whose own writes wait for a minute before they are written. */
static int set_up_buffered(void **state)
{
  static const char *const args[] = {"--no-auth", NULL};
  static const char settings[] = "[store]\nflush = \"60s\"\n";
  world *w = calloc(1, sizeof *w);
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder), *path = text_of("%s/perdure.toml", home);
  if (mkdir(home, 0700)) return -1;
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  if (write(fd, settings, sizeof settings - 1) < 0) return -1;
  close(fd);
  w->s = served_start_in(folder, args);
  w->uri = text_of("http://127.0.0.1:%d", w->s->port);
  free(home);
  free(path);
  *state = w;
  return 0;
}

static void set_by_server(const world *w, const char *key, const char *value)
{
  char *input = text_of("{\"key\":\"%s\",\"value\":%s}", key, value), durability[32];
  reply r = ask_call(w->s, "main", "state.persistent.set", input);
  assert_int_equal(r.status, 200);
  assert_string_equal(reply_header(&r, "Perdure-Durability", durability, sizeof durability), "buffered");
  reply_done(&r);
  free(input);
}

static void remote__what_a_buffered_server_acknowledged_is_there_for_who_opens_the_store(void **state)
{
  world *w = *state;
  for (int i = 0; i < 3; i++) {
    char key[8];
    snprintf(key, sizeof key, "k%d", i);
    set_by_server(w, key, "7");
    pd_store *store = open_store(w->uri, "main");
    pd_buf out = {0};
    pd_error err = {0};
    if (pd_get(store, NULL, pd_text(key), &out, NULL, &err)) fail_msg("get %s: %s", key, err.message);
    pd_buf_done(&out);
    assert_int_equal(pd_store_close(store, NULL), PD_OK);
  }
}

static void remote__who_writes_beside_a_buffered_server_does_not_wait_for_its_flush(void **state)
{
  world *w = *state;
  pd_store *store = open_store(w->uri, "main");
  int64_t since_ms = pd_clock_monotonic_ms();
  for (int i = 0; i < 5; i++) {
    set_by_server(w, "theirs", "1");
    put(store, "ours", "2");
  }
  assert_in_range(pd_clock_monotonic_ms() - since_ms, 0, 30000); /* a single flush would be waited for twice as long */
  pd_verify_report report = {0};
  assert_int_equal(pd_verify(store, NULL, &report, NULL), PD_OK);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void remote__a_store_behind_a_server_is_not_buffered_here_and_the_error_says_where_it_can_be(void **state)
{
  world *w = *state;
  pd_options options = {.flush_ms = 100};
  pd_store *store = NULL;
  pd_error err = {0};
  assert_int_equal(pd_store_open(w->uri, "main", &options, &store, &err), PD_UNSUPPORTED);
  assert_non_null(strstr(err.message, "'http' cannot be buffered"));
  assert_non_null(strstr(err.message, "flush_ms 0"));
  assert_non_null(strstr(err.message, "store.flush"));
}

static void remote__a_log_of_many_pages_is_read_in_order_and_verifies(void **state)
{
  world *w = *state;
  pd_store *store = open_store(w->uri, "main");
  char *value = malloc(12001), key[16];
  memset(value, 'a', 12000);
  value[12000] = 0;
  for (int i = 0; i < 120; i++) { /* 14 MB: a page has 4 MiB */
    pd_edit *edit = NULL;
    assert_int_equal(pd_edit_begin(store, NULL, &edit, NULL), PD_OK);
    for (int n = 0; n < 10; n++) {
      value[snprintf(value, 12000, "%d/%d", i, n)] = '.';
      snprintf(key, sizeof key, "k%d", i % 4 * 10 + n);
      assert_int_equal(pd_edit_put(edit, pd_text(key), pd_text(value), PD_ANY_VERSION, NULL), PD_OK);
    }
    assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_OK);
  }
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  store = open_store(w->uri, "main");
  pd_verify_report report = {0};
  pd_error err = {0};
  if (pd_verify(store, NULL, &report, &err)) fail_msg("verify: %s", err.message);
  assert_int_equal(report.commits, 120);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  free(value);
}

static void *put_later(void *ctx)
{
  pd_store *store = ctx;
  usleep(50000);
  put(store, "news", "1");
  return NULL;
}

static void remote__a_watch_wakes_when_another_process_writes(void **state)
{
  world *w = *state;
  char *home = text_of("sqlite:%s/home", w->s->folder);
  pd_store *near = open_store(home, "main"), *far = open_store(w->uri, "main");
  pd_watch *watch = NULL;
  pd_watch_options options = {0};
  pd_watch_event event;
  pthread_t thread;
  pd_error err = {0};
  put(near, "old", "1");
  if (pd_watch_open(far, &options, &watch, &err)) fail_msg("watch: %s", err.message);
  assert_int_equal(pthread_create(&thread, NULL, put_later, near), 0);
  if (pd_watch_next(watch, 20000, &event, &err)) fail_msg("next: %s", err.message);
  assert_int_equal(event.key.size, 4);
  assert_memory_equal(event.key.data, "news", 4);
  pthread_join(thread, NULL);
  pd_watch_close(watch);
  assert_int_equal(pd_store_close(far, NULL), PD_OK);
  assert_int_equal(pd_store_close(near, NULL), PD_OK);
  free(home);
}

/* ---- what the server refuses ---- */

static pd_code copy_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)seq;
  return pd_buf_append(ctx, record.data, record.size, err);
}

/* Its last four bytes are a checksum: made right, so that only what was changed is wrong. */
static void seal(pd_buf *record)
{
  pd_id sum = pd_sha256((pd_bytes){record->data, record->size - 4});
  memcpy(record->data + record->size - 4, sum.bytes, 4);
}

static void expect_refused(pd_backend *b, uint64_t seq, pd_bytes record, const char *why)
{
  pd_error err = {0};
  uint64_t before = 0, after = 0;
  assert_int_equal(b->ops->log_tail(b, &before, NULL), PD_OK);
  assert_int_equal(b->ops->log_append(b, seq, &record, 1, &err), PD_INVALID);
  if (!strstr(err.message, why)) fail_msg("'%s' has nothing of '%s'", err.message, why);
  assert_int_equal(b->ops->log_tail(b, &after, NULL), PD_OK);
  assert_int_equal(before, after);
}

static void remote__a_record_that_no_engine_would_append_is_refused(void **state)
{
  world *w = *state;
  pd_store *store = open_store(w->uri, "main");
  put(store, "a", "1");
  put(store, "b", "2");
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  pd_backend *b = open_backend(w->uri, "main");
  uint64_t tail = 0;
  pd_buf record = {0};
  assert_int_equal(b->ops->log_tail(b, &tail, NULL), PD_OK);
  assert_int_equal(b->ops->log_read(b, tail, tail, copy_record, &record, NULL), PD_OK);
  expect_refused(b, tail + 1, pd_text("no record at all"), "record");
  expect_refused(b, tail + 1, pd_text(""), "record");
  expect_refused(b, tail + 1, pd_buf_bytes(&record), "audit chain"); /* the last one again */
  record.data[record.size - 10] ^= 1;
  expect_refused(b, tail + 1, pd_buf_bytes(&record), "record"); /* its checksum says so */
  seal(&record);
  expect_refused(b, tail + 1, pd_buf_bytes(&record), "audit chain");
  expect_refused(b, tail + 2, pd_buf_bytes(&record), "the log ends with");
  pd_buf_done(&record);
  b->ops->close(b);
}

static void remote__records_are_only_replaced_by_what_redaction_leaves(void **state)
{
  world *w = *state;
  pd_store *store = open_store(w->uri, "main");
  put(store, "a", "1");
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  pd_backend *b = open_backend(w->uri, "main");
  pd_buf was = {0};
  pd_error err = {0};
  uint64_t tail = 0;
  assert_int_equal(b->ops->log_tail(b, &tail, NULL), PD_OK);
  assert_int_equal(b->ops->log_read(b, tail, tail, copy_record, &was, NULL), PD_OK);
  pd_bytes other = pd_text("something else");
  pd_log_swap swap = {tail, pd_buf_bytes(&was), other};
  assert_int_equal(b->ops->log_swap(b, &swap, 1, &err), PD_INVALID);
  assert_int_equal(b->ops->log_redact(b, tail, &other, 1, &err), PD_INVALID);
  store = open_store(w->uri, "main");
  expect(store, "a", "1");
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  pd_buf_done(&was);
  b->ops->close(b);
}

static void remote__a_blob_that_is_not_what_its_id_says_is_refused(void **state)
{
  world *w = *state;
  pd_backend *b = open_backend(w->uri, "main");
  pd_bytes blob = pd_text("the blob");
  pd_id id = pd_value_id(pd_text("another"));
  pd_buf out = {0};
  pd_error err = {0};
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "not what its id says"));
  assert_int_equal(b->ops->bag_get(b, &id, &out, NULL), PD_NOT_FOUND);
  id = pd_value_id(blob);
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, &err), PD_OK);
  b->ops->close(b);
}

/* ---- who may ---- */

static char *token(const served *s, const char *args)
{
  char *text = served_token(s, args), *header = text_of("Authorization: Bearer %s\r\n", text);
  free(text);
  return header;
}

typedef struct raw_route {
  const char *method, *path;
  bool writes;
} raw_route;

static const raw_route routes[] = {
  {"GET", "/v1/stores", false},
  {"GET", "/v1/stores/victim", false},
  {"POST", "/v1/stores/victim", true},
  {"GET", "/v1/stores/victim/log?from=1", false},
  {"POST", "/v1/stores/victim/log?seq=1", true},
  {"POST", "/v1/stores/victim/log/redact?seq=1", true},
  {"POST", "/v1/stores/victim/log/swap", true},
  {"GET", "/v1/stores/victim/log/wait?after=0&ms=0", false},
  {"GET", "/v1/stores/victim/bag?mark=1", true},
  {"POST", "/v1/stores/victim/bag", true},
  {"POST", "/v1/stores/victim/bag/mark", true},
  {"POST", "/v1/stores/victim/bag/sweep?mark=1", true},
  {"POST", "/v1/stores/victim/compact", true},
  {"GET", "/v1/stores/victim/check", false},
  {"GET", "/v1/stores/victim/usage", false},
  {"POST", "/v1/bundles/victim/export", false},
  {"POST", "/v1/bundles/victim/import", true},
  {"POST", "/v1/bundles/victim/thread-export?thread=t", false},
  {"POST", "/v1/bundles/victim/thread-import", true},
  {"GET", "/v1/home/agents", false},
  {"GET", "/v1/home/config", false},
  {"GET", "/v1/home/doctor", false},
  {"GET", "/v1/home/key", false},
  {"POST", "/v1/home/key", true},
  {"POST", "/v1/home/sign", true},
  {"POST", "/v1/home/vault/unlock", true},
  {"POST", "/v1/home/vault/lock", true},
};

static int status_of(const served *s, const raw_route *route, const char *headers)
{
  reply r = ask(s, route->method, route->path, headers, strcmp(route->method, "POST") == 0 ? "{}" : NULL);
  int status = r.status;
  reply_done(&r);
  return status;
}

static void remote__an_agents_token_reaches_no_raw_route_and_an_auditors_only_those_that_look(void **state)
{
  (void)state;
  served *s = served_start((const char *const[]){NULL});
  char *agent = token(s, "create --agent victim"), *auditor = token(s, "create --role auditor"), *boss = token(s, "create --role operator");
  char *narrow = token(s, "create --role operator --capability 'state.*'"), *keys = token(s, "create --role operator --prefix a/");
  char *stepped = text_of("%sPerdure-Role: agent\r\nPerdure-Agent: victim\r\n", boss);
  assert_int_equal(status_of(s, &(raw_route){"POST", "/v1/stores/victim", true}, boss), 200);
  for (size_t i = 0; i < COUNT_OF(routes); i++) {
    const char *path = routes[i].path;
    if (status_of(s, &routes[i], agent) != 403) fail_msg("an agent: %s %s", routes[i].method, path);
    if (status_of(s, &routes[i], stepped) != 403) fail_msg("an operator as an agent: %s %s", routes[i].method, path);
    if (status_of(s, &routes[i], narrow) != 403) fail_msg("a token for state.*: %s %s", routes[i].method, path);
    if (status_of(s, &routes[i], keys) != 403) fail_msg("a token for some keys: %s %s", routes[i].method, path);
    if (status_of(s, &routes[i], "") != 401) fail_msg("nobody: %s %s", routes[i].method, path);
    if ((status_of(s, &routes[i], auditor) == 403) != routes[i].writes) fail_msg("an auditor: %s %s", routes[i].method, path);
    int status = status_of(s, &routes[i], boss);
    if (status == 401 || status == 403) fail_msg("the operator: %s %s: %d", routes[i].method, path, status);
  }
  char *texts[] = {agent, auditor, boss, narrow, keys, stepped};
  for (size_t i = 0; i < COUNT_OF(texts); i++) free(texts[i]);
  served_free(s);
}

static void remote__the_system_store_is_read_by_the_operator_and_written_by_nobody(void **state)
{
  (void)state;
  served *s = served_start((const char *const[]){NULL});
  char *auditor = token(s, "create --role auditor"), *boss = token(s, "create --role operator");
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/system/log?from=1", false}, boss), 200);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/system/log?from=1", false}, auditor), 403);
  assert_int_equal(status_of(s, &(raw_route){"POST", "/v1/stores/system/log?seq=1", true}, boss), 403);
  assert_int_equal(status_of(s, &(raw_route){"POST", "/v1/stores/system/compact", true}, boss), 403);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/..%2Fx/log?from=1", false}, boss), 404);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/-x/log?from=1", false}, boss), 400);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/main/log?from=x", false}, boss), 404);
  assert_int_equal(status_of(s, &(raw_route){"POST", "/v1/stores/main", true}, boss), 200);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/main/log?from=x", false}, boss), 400);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/main/log", false}, boss), 400);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/main/nothing", false}, boss), 404);
  assert_int_equal(status_of(s, &(raw_route){"GET", "/v1/stores/main/bag/zz", false}, boss), 400);
  assert_int_equal(status_of(s, &(raw_route){"POST", "/v1/stores/main/bag", true}, boss), 400); /* {} is no parcel */
  free(auditor);
  free(boss);
  served_free(s);
}

static void remote__each_append_is_a_line_of_the_audit_with_its_token(void **state)
{
  world *w = *state;
  pd_store *store = open_store(w->uri, "main");
  put(store, "a", "1");
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  reply r = ask(w->s, "POST", "/v1/call/audit.list", "Perdure-Role: operator\r\n", "{\"capability\":\"store.append\"}");
  assert_int_equal(r.status, 200);
  assert_non_null(strstr(r.body, "store.append"));
  assert_non_null(strstr(r.body, "main: records 1-"));
  assert_non_null(strstr(r.body, "by the operator"));
  reply_done(&r);
}

/* ---- a server that goes away ---- */

static void remote__a_server_that_is_gone_is_a_storage_error_that_names_it(void **state)
{
  world *w = *state;
  pd_store *store = open_store(w->uri, "main"), *again = NULL;
  pd_error err = {0};
  put(store, "a", "1");
  kill(w->s->pid, SIGKILL);
  served_wait(w->s);
  assert_int_equal(pd_put(store, pd_text("b"), pd_text("2"), NULL, NULL, &err), PD_STORAGE);
  assert_non_null(strstr(err.message, w->uri));
  assert_int_equal(pd_store_open(w->uri, "main", NULL, &again, &err), PD_STORAGE);
  assert_non_null(strstr(err.message, w->uri));
  expect(store, "a", "1"); /* what is in memory can be read */
  (void)!pd_store_close(store, NULL);
}

static void remote__a_handle_goes_on_when_the_server_comes_back(void **state)
{
  world *w = *state;
  char *listen = text_of("127.0.0.1:%d", w->s->port);
  pd_store *store = open_store(w->uri, "main");
  pd_error err = {0};
  put(store, "a", "1");
  kill(w->s->pid, SIGKILL);
  served_wait(w->s);
  assert_int_equal(pd_put(store, pd_text("b"), pd_text("2"), NULL, NULL, &err), PD_STORAGE);
  w->s->args[1] = "--listen";
  w->s->args[2] = listen;
  w->s->args[3] = NULL;
  served_again(w->s);
  put(store, "c", "3");
  expect(store, "c", "3");
  pd_verify_report report = {0};
  assert_int_equal(pd_verify(store, NULL, &report, NULL), PD_OK);
  assert_int_equal(report.commits, 2);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  w->s->args[1] = NULL;
  free(listen);
}

typedef struct killer {
  served *s;
  int after_ms;
} killer;

static void *kill_later(void *ctx)
{
  killer *k = ctx;
  usleep((useconds_t)k->after_ms * 1000);
  kill(k->s->pid, SIGKILL);
  return NULL;
}

/* Puts until the server is killed; every one that was acknowledged is there afterwards, once, and at most one more. */
static void remote__what_was_acknowledged_is_there_after_the_server_was_killed_in_the_middle(void **state)
{
  world *w = *state;
  char *home = text_of("sqlite:%s/home", w->s->folder), key[24];
  uint64_t acknowledged = 0;
  for (int round = 1; round <= 4; round++) {
    char *uri = text_of("http://127.0.0.1:%d", w->s->port);
    pd_store *store = open_store(uri, "main");
    killer k = {w->s, 15 * round};
    pthread_t thread;
    pd_error err = {0};
    pd_code code = PD_OK;
    assert_int_equal(pthread_create(&thread, NULL, kill_later, &k), 0);
    while (!code) {
      snprintf(key, sizeof key, "r%d/%llu", round, (unsigned long long)acknowledged);
      code = pd_put(store, pd_text(key), pd_text("x"), NULL, NULL, &err);
      acknowledged += !code;
    }
    assert_int_equal(code, PD_STORAGE);
    pthread_join(thread, NULL);
    served_wait(w->s);
    (void)!pd_store_close(store, NULL);
    store = open_store(home, "main");
    pd_verify_report report = {0};
    if (pd_verify(store, NULL, &report, &err)) fail_msg("verify: %s", err.message);
    assert_in_range(report.commits, acknowledged, acknowledged + 1);
    acknowledged = report.commits;
    assert_int_equal(pd_store_close(store, NULL), PD_OK);
    free(uri);
    served_again(w->s);
  }
  free(home);
}

/* ---- addresses ---- */

static void remote__addresses_that_are_none_are_refused_with_a_reason(void **state)
{
  static const char *const wrong[] = {"ftp://x",         "http://", "http://host/path",   "http://host?x=1", "http://u:p@host:1",
                                      "http://host:1#x", "unix:",   "https://host:99999", "http://ho st:1",  "sqlite:./.perdure"};
  static const char *const right[] = {"http://127.0.0.1:7373", "http://localhost", "https://host.example:1/", "http://[::1]:7373",
                                      "unix:/run/x.sock"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(wrong); i++) {
    pd_error err = {0};
    if (pd_remote_check(wrong[i], &err) != PD_INVALID) fail_msg("%s is taken", wrong[i]);
    assert_true(strlen(err.message) > 0);
  }
  for (size_t i = 0; i < COUNT_OF(right); i++)
    if (pd_remote_check(right[i], NULL)) fail_msg("%s is refused", right[i]);
}

static void remote__only_this_machine_tls_and_sockets_are_private(void **state)
{
  (void)state;
  assert_true(pd_remote_is_private("http://127.0.0.1:7373"));
  assert_true(pd_remote_is_private("http://127.8.9.1"));
  assert_true(pd_remote_is_private("http://localhost:1"));
  assert_true(pd_remote_is_private("http://[::1]:1"));
  assert_true(pd_remote_is_private("https://host.example"));
  assert_true(pd_remote_is_private("unix:/x"));
  assert_false(pd_remote_is_private("http://host.example"));
  assert_false(pd_remote_is_private("http://10.0.0.1:7373"));
  assert_false(pd_remote_is_private("http://localhost.example:7373"));
  assert_false(pd_remote_is_private("http://127.0.0.1.example"));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    CASE(remote__two_engines_on_one_server_see_each_others_writes),
    CASE(remote__a_placed_store_is_reached_over_a_server_and_placed_by_no_client),
    cmocka_unit_test_setup_teardown(remote__what_a_buffered_server_acknowledged_is_there_for_who_opens_the_store, set_up_buffered,
                                    tear_down),
    cmocka_unit_test_setup_teardown(remote__who_writes_beside_a_buffered_server_does_not_wait_for_its_flush, set_up_buffered, tear_down),
    CASE(remote__a_store_behind_a_server_is_not_buffered_here_and_the_error_says_where_it_can_be),
    CASE(remote__a_log_of_many_pages_is_read_in_order_and_verifies),
    CASE(remote__a_watch_wakes_when_another_process_writes),
    CASE(remote__a_record_that_no_engine_would_append_is_refused),
    CASE(remote__records_are_only_replaced_by_what_redaction_leaves),
    CASE(remote__a_blob_that_is_not_what_its_id_says_is_refused),
    cmocka_unit_test(remote__an_agents_token_reaches_no_raw_route_and_an_auditors_only_those_that_look),
    cmocka_unit_test(remote__the_system_store_is_read_by_the_operator_and_written_by_nobody),
    CASE(remote__each_append_is_a_line_of_the_audit_with_its_token),
    CASE(remote__a_server_that_is_gone_is_a_storage_error_that_names_it),
    CASE(remote__a_handle_goes_on_when_the_server_comes_back),
    CASE(remote__what_was_acknowledged_is_there_after_the_server_was_killed_in_the_middle),
    cmocka_unit_test(remote__addresses_that_are_none_are_refused_with_a_reason),
    cmocka_unit_test(remote__only_this_machine_tls_and_sockets_are_private),
  };
  pd_remote_options options = {0};
  served_binary = argc > 1 ? argv[1] : "perdure";
  if (pd_remote_setup(&options, NULL)) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
