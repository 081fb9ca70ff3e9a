/*
 * full_test.c: a server whose disk is full. Two ways to fill it: a small file system that is filled to its last byte (ENOSPC), mounted in a
 * name space of this program's own; and, everywhere, a limit on the size of files (EFBIG). Nothing that was acknowledged is lost, and
 * nobody has to start it again.
 */
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENTS 16
#define WRITES_EACH 20
#define DISK_OPTIONS "size=8m,mode=0700"

typedef struct disk {
  bool is_mounted; /* else it is a limit on the size of files */
  served *s;
  unsigned acknowledged; /* writes of k, whose values are 1, 2, 3… */
} disk;

static const char *const plain[] = {"--no-auth", NULL};
static bool can_mount;

/* ---- the disk ---- */

static bool write_text(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  if (fd >= 0) close(fd);
  return is_written;
}

/* A name space of our own, whose mounts end with this program: root has it for the asking, others as root of a user name space. */
static bool may_mount(void)
{
  unsigned uid = getuid(), gid = getgid();
  if (unshare(CLONE_NEWNS)) {
    char map[64];
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) return false;
    snprintf(map, sizeof map, "0 %u 1", uid);
    if (!write_text("/proc/self/uid_map", map) || !write_text("/proc/self/setgroups", "deny")) return false;
    snprintf(map, sizeof map, "0 %u 1", gid);
    if (!write_text("/proc/self/gid_map", map)) return false;
  }
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return false;
  char *trial = temp_folder_new();
  bool is_good = mount("tmpfs", trial, "tmpfs", 0, DISK_OPTIONS) == 0;
  if (is_good) umount(trial);
  temp_folder_free(trial);
  return is_good;
}

/* `settings`: of its perdure.toml. */
static disk disk_new_with(bool is_mounted, const char *settings)
{
  disk d = {.is_mounted = is_mounted};
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder);
  assert_int_equal(mkdir(home, 0700), 0);
  if (is_mounted) assert_int_equal(mount("tmpfs", home, "tmpfs", 0, DISK_OPTIONS), 0);
  char *path = text_of("%s/perdure.toml", home);
  FILE *file = fopen(path, "w");
  assert_true(file && fputs(settings, file) >= 0 && fclose(file) == 0);
  d.s = served_start_in(folder, plain);
  free(path);
  free(home);
  return d;
}

static disk disk_new(bool is_mounted)
{
  return disk_new_with(is_mounted, "");
}

static void disk_free(disk *d)
{
  char *home = text_of("%s/home", d->s->folder);
  assert_int_equal(served_stop(d->s), 0);
  if (d->is_mounted) assert_int_equal(umount(home), 0);
  free(home);
  served_free(d->s);
}

static void limit_files(const disk *d, rlim_t size)
{
  struct rlimit limit;
  assert_int_equal(prlimit(d->s->pid, RLIMIT_FSIZE, NULL, &limit), 0);
  limit.rlim_cur = size;
  assert_int_equal(prlimit(d->s->pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void fill(const disk *d)
{
  static const char zeros[4096];
  if (!d->is_mounted) {
    limit_files(d, 0);
    return;
  }
  char *path = text_of("%s/home/fill", d->s->folder);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  while (write(fd, zeros, sizeof zeros) > 0) {}
  assert_int_equal(errno, ENOSPC);
  close(fd);
  free(path);
}

static void make_room(const disk *d)
{
  char *path = text_of("%s/home/fill", d->s->folder);
  if (d->is_mounted)
    assert_int_equal(unlink(path), 0);
  else
    limit_files(d, RLIM_INFINITY);
  free(path);
}

/* ---- asking ---- */

static void want(reply r, int status, const char *text)
{
  if (r.status != status || !strstr(r.body, text)) print_message("%s\n%s\n", r.head ? r.head : "(nothing)", r.body);
  assert_int_equal(r.status, status);
  assert_non_null(strstr(r.body, text));
  reply_done(&r);
}

static reply ask_operator(const disk *d, const char *capability, const char *input)
{
  char *path = text_of("/v1/call/%s", capability);
  reply r = ask(d->s, "POST", path, "Perdure-Role: operator\r\nPerdure-Agent: main\r\n", input);
  free(path);
  return r;
}

/* Until an answer has this text; `is_call`: of a capability. */
static void await(const disk *d, bool is_call, const char *what, const char *text)
{
  char body[512] = "";
  for (int i = 0; i < SERVED_PATIENCE_S * 50; i++) {
    reply r = is_call ? ask_operator(d, what, "{}") : ask(d->s, "GET", what, "Perdure-Role: operator\r\n", NULL);
    bool is_there = strstr(r.body, text);
    snprintf(body, sizeof body, "%s", r.body);
    reply_done(&r);
    if (is_there) return;
    poll(NULL, 0, 20);
  }
  fail_msg("%s never said %s, but %s", what, text, body);
}

/* The next value of k. False: it was refused for want of space, in the shape that says what to do. */
static bool write_next(disk *d)
{
  char *input = text_of("{\"key\":\"k\",\"value\":%u}", d->acknowledged + 1);
  reply r = ask_call(d->s, "main", "state.persistent.set", input);
  bool is_taken = r.status == 200;
  free(input);
  if (is_taken) {
    d->acknowledged++;
    char *version = text_of("{\"version\":%u,", d->acknowledged);
    want(r, 200, version);
    free(version);
  } else {
    assert_non_null(strstr(r.body, "{\"error\":{\"code\":\"DiskFull\",\"message\":\"no space left to write "));
    want(r, 507, "\"recovery\":[{\"action\":\"free\",\"hint\":\"Free space where the home lives");
  }
  return is_taken;
}

static void fill_and_see(disk *d)
{
  fill(d);
  for (int i = 0; i < 1000; i++)
    if (!write_next(d)) return; /* what was reserved before is used up */
  fail_msg("a full disk takes everything");
}

static int watch(const disk *d)
{
  int fd = served_connect(d->s);
  const char *text = "GET /v1/watch?prefix=k&from=start HTTP/1.1\r\nHost: localhost\r\n\r\n";
  assert_true(send_bytes(fd, text, strlen(text)));
  return fd;
}

/* What was acknowledged has come, in order and once, and nothing else. */
static void want_events(const disk *d, int fd)
{
  size_t used = 0, size = 1 << 20;
  char *text = calloc(1, size), *last = text_of("\"version\":%u,", d->acknowledged);
  for (ssize_t got; !strstr(text, last) && (got = read(fd, text + used, size - 1 - used)) > 0;) used += (size_t)got;
  const char *at = text;
  unsigned seen = 0;
  while ((at = strstr(at, "event: put\n"))) {
    char *version = text_of("\"version\":%u,", ++seen);
    assert_non_null(strstr(at, version));
    assert_true(strstr(at, version) < strstr(at, "\n\n"));
    free(version);
    at++;
  }
  assert_int_equal(seen, d->acknowledged);
  free(text);
  free(last);
  close(fd);
}

/* ---- the tests ---- */

static void writes_are_refused(const disk *d)
{
  want(ask_call(d->s, "main", "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":0}"), 507, "\"code\":\"DiskFull\"");
  want(ask_call(d->s, "main", "alerts.send", "{\"severity\":\"info\",\"title\":\"a\",\"message\":\"b\"}"), 507, "\"code\":\"DiskFull\"");
  want(ask_call(d->s, "main", "queue.send", "{\"to\":\"main\",\"body\":1}"), 507, "\"code\":\"DiskFull\"");
  want(ask_call(d->s, "stranger", "state.persistent.set", "{\"key\":\"a\",\"value\":1}"), 507, "\"code\":\"DiskFull\"");
}

static void reads_go_on(const disk *d)
{
  char *value = text_of("%u", d->acknowledged), *answer = text_of("{\"value\":%u,", d->acknowledged);
  want(ask_call(d->s, "main", "state.persistent.get", "{\"key\":\"k\"}"), 200, answer);
  want(ask_call(d->s, "main", "state.persistent.list", "{}"), 200, "\"count\":1");
  want(ask_call(d->s, "main", "state.persistent.history", "{\"key\":\"k\"}"), 200, "\"versions\":[");
  want(ask_call(d->s, "newcomer", "state.persistent.get", "{\"key\":\"k\"}"), 200, "\"found\":false");
  want(ask(d->s, "GET", "/v1/agents/main/state/k", "", NULL), 200, value);
  want(ask(d->s, "GET", "/v1/agents/main/log", "", NULL), 200, "\"records\":[");
  want(ask(d->s, "GET", "/healthz", "", NULL), 200, "\"ok\"");
  free(value);
  free(answer);
}

static reply call_tool(const disk *d, const char *name, const char *arguments)
{
  char *headers = text_of("Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
                          "Mcp-Name: %s\r\n",
                          name);
  char *body = text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s,\"_meta\":{"
                       "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\","
                       "\"version\":\"1\"},\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                       name, arguments);
  reply r = ask(d->s, "POST", "/mcp", headers, body);
  free(headers);
  free(body);
  return r;
}

static void it_is_told(const disk *d)
{
  want(ask(d->s, "GET", "/readyz", "", NULL), 200, "{\"status\":\"full\",\"reason\":\"the disk is full");
  await(d, false, "/metrics", "perdure_disk_full 1\n");
  await(d, true, "system.health", "the audit cannot be written");
  if (d->is_mounted) want(ask_operator(d, "system.health", "{}"), 200, "{\"status\":\"failing\",\"reasons\":[\"the disk is full: ");
}

/* Space is there: no restart, no waiting. */
static void everything_goes_on(disk *d)
{
  assert_true(write_next(d));
  want(ask_call(d->s, "main", "state.shared.set", "{\"key\":\"a\",\"value\":1,\"expected_version\":0}"), 200, "\"version\":1");
  want(ask_call(d->s, "stranger", "state.persistent.set", "{\"key\":\"a\",\"value\":1}"), 200, "\"version\":1");
  want(call_tool(d, "state_persistent_set", "{\"key\":\"m\",\"value\":1}"), 200, "\"isError\":false");
  await(d, false, "/readyz", "{\"status\":\"ready\"");
}

/* The calls that were refused are in the audit, too, once it can be written; and its chain holds. */
static void the_audit_has_it_all(const disk *d)
{
  await(d, true, "system.health", "\"audit\":{\"waiting\":0,\"lost\":0}");
  want(ask_operator(d, "audit.verify", "{}"), 200, "\"valid\":true");
  want(ask_operator(d, "audit.list", "{\"capability\":\"alerts.send\"}"), 200, "\"outcome\":\"DiskFull\"");
}

static void want_verified(const disk *d, const char *name)
{
  char *uri = text_of("sqlite:%s/home", d->s->folder);
  pd_store *store = NULL;
  pd_verify_report report = {0};
  assert_int_equal(pd_store_open(uri, name, NULL, &store, NULL), PD_OK);
  assert_int_equal(pd_verify(store, NULL, &report, NULL), PD_OK);
  assert_int_equal(report.findings, 0);
  pd_store_close(store, NULL);
  free(uri);
}

static void all_of_it(bool is_mounted)
{
  disk d = disk_new(is_mounted);
  for (int i = 0; i < 10; i++) assert_true(write_next(&d));
  int watcher = watch(&d);
  for (int round = 0; round < 3; round++) { /* as often as it happens */
    fill_and_see(&d);
    it_is_told(&d);
    if (round == 0) writes_are_refused(&d);
    reads_go_on(&d);
    want(call_tool(&d, "state_persistent_set", "{\"key\":\"m\",\"value\":1}"), 200, "\\\"code\\\":\\\"DiskFull\\\"");
    want(call_tool(&d, "state_persistent_get", "{\"key\":\"k\"}"), 200, "\"isError\":false");
    make_room(&d);
    if (round == 0)
      everything_goes_on(&d);
    else
      assert_true(write_next(&d));
    want(ask_call(d.s, "main", "state.persistent.delete", "{\"key\":\"m\"}"), 200, "");
  }
  want_events(&d, watcher);
  the_audit_has_it_all(&d);
  assert_int_equal(served_stop(d.s), 0);
  want_verified(&d, "main");
  want_verified(&d, "system");
  served_again(d.s);
  reads_go_on(&d);
  disk_free(&d);
}

static void full__writes_are_507_and_reads_go_on_and_space_is_enough_to_recover(void **state)
{
  (void)state;
  if (!can_mount) print_message("# mounting is not permitted here: only the limit on the size of files is tried\n");
  all_of_it(can_mount);
}

static void full__a_limit_on_the_size_of_files_is_a_full_disk_too(void **state)
{
  (void)state;
  all_of_it(false);
}

#define REFUSED 20
#define TIME_SIZE sizeof "2026-11-18T07:09:42.686"

/* As agents.list has times; as texts they are in order. */
static void now_text(char out[TIME_SIZE])
{
  struct timespec now;
  struct tm parts;
  char seconds[32];
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &parts);
  strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(out, TIME_SIZE, "%.19s.%03d", seconds, (int)(now.tv_nsec / 1000000));
}

static unsigned count_of(const char *text, const char *part)
{
  unsigned count = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) count++;
  return count;
}

/* Each call of that time has its line, as it was answered; and when an agent was last active is known, also after a restart. */
static void full__the_audit_and_the_activity_of_that_time_are_written_when_there_is_space(void **state)
{
  disk d = disk_new_with(can_mount, "[test.activity]\nflush = 0\n"); /* each call tries to write it */
  char begun[TIME_SIZE], ended[TIME_SIZE];
  (void)state;
  assert_true(write_next(&d));
  want(ask_call(d.s, "night", "state.persistent.set", "{\"key\":\"a\",\"value\":1}"), 200, "\"version\":1");
  fill_and_see(&d);
  now_text(begun);
  for (int i = 0; i < REFUSED; i++) { /* each with another input, or they would be one line with a count */
    char *input = text_of("{\"severity\":\"info\",\"title\":\"a\",\"message\":\"%d\"}", i);
    want(ask_call(d.s, "night", "alerts.send", input), 507, "\"code\":\"DiskFull\"");
    free(input);
  }
  want(ask_call(d.s, "night", "state.persistent.list", "{}"), 200, "\"count\":1");
  it_is_told(&d);
  now_text(ended);
  make_room(&d);
  the_audit_has_it_all(&d);
  reply r = ask_operator(&d, "audit.list", "{\"agent\":\"night\",\"capability\":\"alerts.send\"}");
  assert_int_equal(count_of(r.body, "\"outcome\":\"DiskFull\""), REFUSED);
  reply_done(&r);
  assert_int_equal(served_stop(d.s), 0); /* all of it is written */
  served_again(d.s);
  r = ask_operator(&d, "agents.list", "{}");
  const char *at = strstr(r.body, "\"agent\":\"night\"");
  at = at ? strstr(at, "\"last_activity\":\"") : NULL;
  assert_non_null(at);
  at += strlen("\"last_activity\":\"");
  if (strncmp(at, begun, sizeof begun - 1) < 0 || strncmp(at, ended, sizeof ended - 1) > 0) fail_msg("%s to %s: %.30s", begun, ended, at);
  reply_done(&r);
  disk_free(&d);
}

/* What the audit still has to write is acknowledged, too: a server that stops and cannot write it says so. */
static void full__a_server_that_stops_without_its_audit_says_so(void **state)
{
  disk d = disk_new(can_mount);
  (void)state;
  assert_true(write_next(&d));
  fill_and_see(&d);
  int code = served_stop(d.s);
  print_message("# exit code %d\n", code);
  assert_true(code > 0 && code < 256);
  if (d.is_mounted) make_room(&d);
  served_again(d.s);
  reads_go_on(&d);
  want(ask_operator(&d, "audit.verify", "{}"), 200, "\"valid\":true");
  disk_free(&d);
}

typedef struct client {
  const disk *disk;
  int number, refused, wrong;
  unsigned last; /* value that was acknowledged */
} client;

static void *write_many(void *ctx)
{
  client *c = ctx;
  int fd = served_connect(c->disk->s);
  for (unsigned i = 1; i <= WRITES_EACH; i++) {
    char *body = text_of("{\"key\":\"c%d\",\"value\":{\"n\":%u,\"pad\":\"%0900d\"}}", c->number, i, 0);
    reply r = ask_on(fd, "POST", "/v1/call/state.persistent.set", "Perdure-Agent: crowd\r\n", body);
    bool is_full = r.status == 507 && strstr(r.body, "\"DiskFull\"");
    if (r.status == 200) c->last = i;
    if (r.status != 200 && !is_full) print_message("%d %s\n", r.status, r.body);
    c->refused += is_full;
    c->wrong += r.status != 200 && !is_full;
    reply_done(&r);
    free(body);
  }
  close(fd);
  return NULL;
}

/* The disk fills up and empties under writers that share their syncs: each gets the answer that is its own. */
static void full__under_many_writers_each_acknowledged_write_is_there(void **state)
{
  disk d = disk_new(can_mount);
  client clients[CLIENTS];
  pthread_t threads[CLIENTS];
  int refused = 0;
  (void)state;
  fill(&d);
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = (client){.disk = &d, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, write_many, &clients[i]), 0);
  }
  await(&d, false, "/readyz", "\"full\"");
  make_room(&d);
  for (int i = 0; i < CLIENTS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < CLIENTS; i++) {
    char *input = text_of("{\"key\":\"c%d\"}", i),
         *value = text_of(clients[i].last ? "{\"value\":{\"n\":%u," : "\"found\":false", clients[i].last);
    assert_int_equal(clients[i].wrong, 0);
    refused += clients[i].refused;
    want(ask_call(d.s, "crowd", "state.persistent.get", input), 200, value);
    free(input);
    free(value);
  }
  assert_true(refused > 0);
  assert_int_equal(served_stop(d.s), 0);
  want_verified(&d, "crowd");
  served_again(d.s);
  disk_free(&d);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(full__writes_are_507_and_reads_go_on_and_space_is_enough_to_recover),
    cmocka_unit_test(full__a_limit_on_the_size_of_files_is_a_full_disk_too),
    cmocka_unit_test(full__the_audit_and_the_activity_of_that_time_are_written_when_there_is_space),
    cmocka_unit_test(full__a_server_that_stops_without_its_audit_says_so),
    cmocka_unit_test(full__under_many_writers_each_acknowledged_write_is_there),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  can_mount = may_mount();
  return cmocka_run_group_tests_name("wire full", tests, NULL, NULL);
}
