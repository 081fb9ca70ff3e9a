/*
 * thread_test.c: SIGKILL while a thread is appended to. A child appends and reports each version that was acknowledged; it is killed; the
 * store is opened again: every acknowledged version is there with its commit, none is half, and the thread replays to the same ids. Now and
 * then the child makes threads and forks: those acknowledged are there, the one it was at can be made.
 */
#include "base/base.h"
#include "crash/crash.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KILLS_SHORT 10
#define KILLS_FULL 200
#define KILLS_PER_STORE 20
#define LIFE_MS_MAX 60
#define WAIT_MS_MAX 60000
#define FORK_EVERY 7

/* What the child says: a version and its commit, or (commit zero) a thread that it made. */
typedef struct report {
  uint64_t version, made;
  pd_id commit;
} report;

typedef struct life {
  char uri[CRASH_URI_MAX];
  report *reports; /* of versions, newest life last */
  size_t count, capacity;
  uint64_t made; /* threads f1 … fN are there */
  uint64_t silent;
} life;

static void need(pd_code code, const pd_error *err)
{
  if (code) fail_msg("%s: %s", pd_error_name(err), err->message);
}

/* ---- the child ---- */

static pd_code append_version(pd_thread *t, uint64_t version, pd_thread_ack *ack, pd_error *err)
{
  char messages[256], patches[512];
  unsigned long long v = version;
  snprintf(messages, sizeof messages, "[{\"id\":\"%llu-a\"},{\"id\":\"%llu-b\",\"content\":\"%0100d\"}]", v, v, 1);
  snprintf(patches, sizeof patches,
           "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":%llu},{\"op\":\"append\",\"path\":[\"log\"],\"value\":%llu},"
           "{\"op\":\"set\",\"path\":[\"deep\",\"b\"],\"value\":%llu}]",
           v, v, v);
  pd_changeset set = {.run_id = "r", .reason = PD_REASON_USER_MESSAGE, .messages = pd_text(messages), .patches = pd_text(patches)};
  return pd_thread_append(t, &set, version - 1, ack, err);
}

static pd_code fork_thread(pd_thread *t, uint64_t number, pd_error *err)
{
  char id[32];
  snprintf(id, sizeof id, "f%llu", (unsigned long long)number);
  pd_code code = pd_thread_fork(t, PD_VERSION_HEAD, &(pd_thread_options){.id = id}, NULL, err);
  return code == PD_EXISTS ? PD_OK : code; /* the life before came so far, and could not say so */
}

static int live(const char *uri, uint64_t made, int pipe)
{
  pd_store *store = NULL;
  pd_thread *t = NULL;
  pd_error err;
  pd_code code = pd_store_open(uri, "main", NULL, &store, &err);
  if (!code) code = pd_thread_create(store, &(pd_thread_options){.id = "t"}, NULL, &err);
  if (!code || code == PD_EXISTS) code = pd_thread_open(store, "t", &t, &err);
  while (!code) {
    report r = {.version = pd_thread_version(t) + 1};
    pd_thread_ack ack;
    code = append_version(t, r.version, &ack, &err);
    if (!code && ack.version != r.version) return 3;
    r.commit = ack.commit;
    if (!code && write(pipe, &r, sizeof r) != sizeof r) return 4;
    if (code || r.version % FORK_EVERY) continue;
    code = fork_thread(t, made + 1, &err);
    report f = {.made = ++made};
    if (!code && write(pipe, &f, sizeof f) != sizeof f) return 4;
  }
  fprintf(stderr, "# %s: %s\n", pd_error_name(&err), err.message);
  return 2;
}

/* ---- the parent ---- */

static bool take_report(life *l, int pipe)
{
  report r;
  if (read(pipe, &r, sizeof r) != sizeof r) return false; /* a report is smaller than PIPE_BUF: whole or not there */
  if (r.made) {
    l->made = r.made;
    return true;
  }
  if (l->count == l->capacity) {
    l->capacity = l->capacity ? 2 * l->capacity : 1024;
    l->reports = realloc(l->reports, l->capacity * sizeof *l->reports);
    assert_non_null(l->reports);
  }
  l->reports[l->count++] = r;
  return true;
}

static void let_live(life *l, int pipe, int64_t life_ms)
{
  bool is_first = true;
  for (;;) {
    struct pollfd wait = {.fd = pipe, .events = POLLIN};
    if (poll(&wait, 1, is_first ? WAIT_MS_MAX : 0) < 0 || (wait.revents && !take_report(l, pipe))) return;
    if (!is_first && !wait.revents) break;
    if (!is_first) continue;
    is_first = false;
    usleep((useconds_t)(life_ms * 1000)); /* how long it lives */
  }
}

static void kill_once(life *l)
{
  int ends[2], status = 0;
  size_t before = l->count;
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    _exit(live(l->uri, l->made, ends[1]));
  }
  assert_true(pid > 0);
  close(ends[1]);
  if (crash_random(8) == 0)
    usleep((useconds_t)crash_random(20000)); /* while it opens or creates */
  else
    let_live(l, ends[0], (int64_t)crash_random(LIFE_MS_MAX));
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  while (take_report(l, ends[0])) continue;
  close(ends[0]);
  if (WIFEXITED(status)) fail_msg("the writer ended by itself with status %d", WEXITSTATUS(status));
  l->silent += l->count == before;
}

/* ---- afterwards ---- */

static void check_whole(pd_thread *t, uint64_t version)
{
  pd_error err;
  pd_thread_point point;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char expected[32];
  snprintf(expected, sizeof expected, "%llu", (unsigned long long)version);
  static const char *const paths[] = {"/a", "/deep/b"};
  need(pd_thread_point_get(t, version, &point, &err), &err);
  assert_int_equal(point.message_count, 2 * version);
  for (size_t i = 0; version && i < COUNT_OF(paths); i++) {
    need(pd_thread_state(t, version, paths[i], &text, &err), &err);
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.data, expected, text.size);
  }
}

/* A version that another life made again after this one was killed has the newer report. */
static void check_commits(const life *l, pd_thread *t, size_t from)
{
  pd_error err;
  for (size_t i = from; i < l->count; i++) {
    pd_thread_point point;
    need(pd_thread_point_get(t, l->reports[i].version, &point, &err), &err);
    assert_true(pd_id_equal(&point.commit.id, &l->reports[i].commit));
  }
}

static void check_forks(const life *l, pd_store *store)
{
  pd_error err;
  char id[32];
  for (uint64_t i = 1; i <= l->made; i++) {
    pd_thread *f = NULL;
    snprintf(id, sizeof id, "f%llu", (unsigned long long)i);
    need(pd_thread_open(store, id, &f, &err), &err);
    pd_thread_close(f);
  }
}

static bool count_thread(void *ctx, const pd_thread_info *info, const char *cursor)
{
  (void)info;
  (void)cursor;
  ++*(uint64_t *)ctx;
  return true;
}

static void look(life *l, size_t from, bool is_last)
{
  pd_store *store = NULL;
  pd_thread *t = NULL;
  pd_error err;
  uint64_t listed = 0;
  need(pd_store_open(l->uri, "main", NULL, &store, &err), &err);
  pd_code code = pd_thread_open(store, "t", &t, &err);
  if (code == PD_NOT_FOUND && !l->count) { /* killed before it was there */
    need(pd_store_close(store, &err), &err);
    return;
  }
  need(code, &err);
  uint64_t version = pd_thread_version(t), acknowledged = l->count ? l->reports[l->count - 1].version : 0;
  assert_true(version >= acknowledged);
  assert_true(version <= acknowledged + 1 || l->count == from); /* one may have been made and not told */
  check_whole(t, version);
  if (version) check_whole(t, crash_random(version + 1));
  check_commits(l, t, from);
  check_forks(l, store);
  need(pd_thread_list(store, NULL, count_thread, &listed, &err), &err);
  assert_true(listed >= 1 + l->made && listed <= 2 + l->made);
  if (is_last) {
    check_commits(l, t, 0);
    need(pd_thread_replay(t, NULL, NULL, NULL, &err), &err);
    need(crash_verify(store, &err), &err);
  }
  pd_thread_close(t);
  need(pd_store_close(store, &err), &err);
}

static void thread__killed_while_appending_has_every_acknowledged_version_and_none_half(void **state)
{
  char folder[CRASH_PATH_MAX];
  uint64_t kills = crash_count(KILLS_SHORT, KILLS_FULL), silent = 0, versions = 0;
  (void)state;
  crash_seed();
  for (uint64_t done = 0; !crash_is_enough(done, kills, versions > kills);) {
    life l = {0};
    crash_scratch(folder);
    snprintf(l.uri, sizeof l.uri, "sqlite:%s", folder);
    bool is_last = false;
    for (int i = 0; !is_last; i++) {
      size_t from = l.count;
      kill_once(&l);
      is_last = crash_is_enough(++done, kills, versions + l.count > kills) || i + 1 == KILLS_PER_STORE;
      look(&l, from, is_last);
    }
    silent += l.silent;
    versions += l.count;
    free(l.reports);
    crash_scratch_remove(folder);
  }
  printf("# %llu kills, %llu before the first report, %llu versions acknowledged\n", (unsigned long long)kills, (unsigned long long)silent,
         (unsigned long long)versions);
  assert_true(versions > kills);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(thread__killed_while_appending_has_every_acknowledged_version_and_none_half),
  };
  return cmocka_run_group_tests_name("threads killed", tests, NULL, NULL);
}
