/*
 * import_gc_test.c: imports, pulls and restores one after the other beside a gc that never stops, in another process, and with automatic gc
 * on in this one. After each: every ref of the bundle reads and verify is clean. A restore here is what `backup restore` does in a store:
 * refs come under a name of their own, then the visible ones are moved there.
 */
#include "base/buf.h"
#include "crash/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS_SHORT 12
#define ROUNDS_FULL 500
#define BUNDLES 4
#define BRANCHES_MAX 7
#define COMMITS_MAX 160

typedef struct cargo {
  pd_store *from;
  int fd;
  int branches, commits;
} cargo;

static char folder[CRASH_PATH_MAX], uri[CRASH_URI_MAX];
static cargo cargos[BUNDLES];

static void put(pd_store *s, const char *ref, const char *key, int number)
{
  char value[64];
  pd_error err;
  pd_note note = {.ref = ref};
  snprintf(value, sizeof value, "%s %d", ref, number);
  if (pd_put(s, pd_text(key), pd_text(value), &note, NULL, &err)) fail_msg("put: %s", err.message);
}

static void load_cargo(cargo *c, int number)
{
  char name[32], path[CRASH_PATH_MAX + 32];
  pd_error err;
  if (pd_store_open("memory:", "main", NULL, &c->from, &err)) fail_msg("open: %s", err.message);
  c->branches = 3 + (int)crash_random(BRANCHES_MAX - 2);
  c->commits = 20 + (int)crash_random(COMMITS_MAX - 20);
  put(c->from, "main", "base", number);
  for (int b = 0; b < c->branches; b++) {
    snprintf(name, sizeof name, "b%d", b);
    if (pd_fork(c->from, name, "main", NULL, NULL, &err)) fail_msg("fork: %s", err.message);
    for (int i = 0; i < c->commits; i++) put(c->from, name, i % 2 ? "k" : name, i);
  }
  snprintf(path, sizeof path, "%s/bundle-%d", folder, number);
  c->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_true(c->fd >= 0);
  if (pd_export(c->from, c->fd, &(pd_export_options){.is_all = true}, NULL, &err)) fail_msg("export: %s", err.message);
}

/* All commits of a branch are there, if nobody may have retired them since; its head in any case. */
static void check_head(pd_store *s, const cargo *c, const char *prefix, int branch)
{
  char at[64], value[64];
  pd_buf got = {0};
  pd_error err;
  int last = c->commits - 1;
  snprintf(at, sizeof at, "%s/b%d", prefix, branch);
  snprintf(value, sizeof value, "b%d %d", branch, last % 2 ? last : last - 1);
  if (pd_get(s, at, pd_text("k"), &got, NULL, &err)) fail_msg("'%s' was imported and cannot be read: %s", at, err.message);
  assert_int_equal(got.size, strlen(value));
  assert_memory_equal(got.data, value, got.size);
  pd_buf_done(&got);
}

/* ---- gc in another process ---- */

static pid_t start_collector(int *out_pipe)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid) {
    close(ends[1]);
    *out_pipe = ends[0];
    return pid;
  }
  pd_store *s = NULL;
  pd_error err;
  alarm(3000);
  close(ends[0]);
  signal(SIGPIPE, SIG_IGN);
  if (pd_store_open(uri, "main", NULL, &s, &err)) _exit(1);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  for (;;) {
    ssize_t put_out = write(ends[1], "", 1);
    if (put_out < 0 && errno == EPIPE) break;
    pd_code code = pd_gc(s, &(pd_gc_policy){.keep_last = 1}, NULL, &err);
    if (!code || code == PD_CONFLICT) continue;
    fprintf(stderr, "gc in another process: %s\n", err.message);
    _exit(1);
  }
  _exit(pd_store_close(s, NULL) ? 1 : 0);
}

static void end_collector(pid_t pid, int pipe_end)
{
  int status = 0;
  close(pipe_end);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- the rounds ---- */

static void import_one(pd_store *s, cargo *c, const char *prefix)
{
  pd_error err = {0};
  if (pd_import(s, c->fd, &(pd_import_options){.as = prefix}, NULL, &err)) fail_msg("import: %s", err.message);
}

static void pull_one(pd_store *s, cargo *c, const char *prefix)
{
  pd_error err = {0};
  pd_transfer_options options = {.is_all = true, .import = {.as = prefix}};
  if (pd_transfer(c->from, s, &options, NULL, &err)) fail_msg("pull: %s", err.message);
}

static void restore_one(pd_store *s, cargo *c, const char *prefix)
{
  import_one(s, c, "incoming");
  for (int b = 0; b < c->branches; b++) {
    char name[64], from[64];
    pd_error err = {0};
    pd_ref ref;
    snprintf(name, sizeof name, "%s/b%d", prefix, b);
    snprintf(from, sizeof from, "incoming/b%d", b);
    pd_code code = pd_ref_get(s, name, &ref, NULL) ? pd_fork(s, name, from, NULL, NULL, &err) : pd_reset(s, name, from, NULL, NULL, &err);
    if (!code) code = pd_ref_delete(s, from, NULL, &err);
    if (code) fail_msg("restore of '%s': %s", name, err.message);
  }
}

static void run_rounds(uint64_t rounds)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, "main", NULL, &s, &err)) fail_msg("open: %s", err.message);
  for (uint64_t n = 0; n < rounds; n++) {
    cargo *c = &cargos[crash_random(BUNDLES)];
    char prefix[32];
    snprintf(prefix, sizeof prefix, "in-%llu", (unsigned long long)crash_random(3));
    uint64_t kind = n % 3;
    (kind == 0 ? import_one : kind == 1 ? pull_one : restore_one)(s, c, prefix);
    for (int b = 0; b < c->branches; b++) check_head(s, c, prefix, b);
    if (crash_verify(s, &err)) fail_msg("verify after round %llu: %s", (unsigned long long)n, err.message);
  }
  if (pd_store_close(s, &err)) fail_msg("close: %s", err.message);
}

static void import_gc__imports_pulls_and_restores_beside_continuous_gc_lose_nothing(void **state)
{
  (void)state;
  uint64_t rounds = crash_count(ROUNDS_SHORT, ROUNDS_FULL);
  pd_store *s = NULL;
  pd_error err = {0};
  int pipe_end;
  crash_seed();
  crash_scratch(folder);
  snprintf(uri, sizeof uri, "sqlite:%s/home", folder);
  for (int i = 0; i < BUNDLES; i++) load_cargo(&cargos[i], i);
  if (pd_store_open(uri, "main", NULL, &s, &err)) fail_msg("open: %s", err.message);
  if (pd_setting_set(s, PD_SETTING_GC_AUTO, pd_text("on"), NULL, &err)) fail_msg("setting: %s", err.message);
  if (pd_setting_set(s, PD_SETTING_GC_KEEP_LAST, pd_text("1"), NULL, &err)) fail_msg("setting: %s", err.message);
  if (pd_store_close(s, &err)) fail_msg("close: %s", err.message); /* nobody forks with it open */
  pid_t pid = start_collector(&pipe_end);
  run_rounds(rounds);
  end_collector(pid, pipe_end);
  for (int i = 0; i < BUNDLES; i++) {
    close(cargos[i].fd);
    pd_store_close(cargos[i].from, NULL);
  }
  char home[CRASH_PATH_MAX + 8];
  snprintf(home, sizeof home, "%s/home", folder);
  crash_remove(home);
  crash_scratch_remove(folder);
  printf("# %llu imports, pulls and restores\n", (unsigned long long)rounds);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(import_gc__imports_pulls_and_restores_beside_continuous_gc_lose_nothing),
  };
  return cmocka_run_group_tests_name("import_gc", tests, NULL, NULL);
}
