/*
 * race_test.c: forks, resets, undos, pins, tags, message links and merges beside a gc that never stops, on a disk whose syncs take 2 ms
 * more: the windows of gc are as long as a sync. The collector is a thread on the same handle, or a process of its own. Whatever was
 * acknowledged can be read, then and at the end; verify is clean, and gc still works. What gc was faster with is refused: PD_RETIRED.
 */
#include "base/buf.h"
#include "crash/crash.h"
#include "support/slow_vfs.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ACTS_SHORT 24
#define ACTS_FULL 200
#define ACTORS 2
#define DEPTH 24
#define SYNC_US 2000
#define KEYS 8

typedef enum act_kind { ACT_FORK, ACT_RESET, ACT_UNDO, ACT_PIN, ACT_TAG, ACT_LINK, ACT_MERGE, ACT_KINDS } act_kind;

/* Something that was acknowledged: a point that must be readable from then on. */
typedef struct promise {
  char at[96];
} promise;

typedef struct arena {
  char folder[CRASH_PATH_MAX], uri[CRASH_URI_MAX];
  pd_store *s;
  pthread_mutex_t lock; /* of what follows */
  promise promises[ACTORS * ACTS_FULL];
  size_t promise_count;
  uint64_t tried[ACT_KINDS], refused;
  uint64_t acts; /* of each actor */
  int is_over;   /* atomic */
  uint64_t collections;
} arena;

typedef struct actor {
  arena *a;
  unsigned number;
  uint64_t random;
} actor;

/* Also on threads, which cmocka cannot fail from. */
static void __attribute__((format(printf, 1, 2), noreturn)) give_up(const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  vfprintf(stderr, fmt, args);
  va_end(args);
  fputc('\n', stderr);
  abort();
}

static uint64_t next_random(actor *me, uint64_t below)
{
  me->random = me->random * 6364136223846793005u + 1442695040888963407u;
  return (me->random >> 33) % below;
}

static void put(arena *a, const char *ref, uint64_t number)
{
  char key[16], value[64];
  pd_error err;
  pd_note note = {.ref = ref};
  snprintf(key, sizeof key, "k%llu", (unsigned long long)number % KEYS);
  snprintf(value, sizeof value, "%s %llu", ref, (unsigned long long)number);
  if (pd_put(a->s, pd_text(key), pd_text(value), &note, NULL, &err)) give_up("put: %s", err.message);
}

/* ---- the acts ---- */

static void promise_at(arena *a, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  pthread_mutex_lock(&a->lock);
  vsnprintf(a->promises[a->promise_count++].at, sizeof a->promises[0].at, fmt, args);
  pthread_mutex_unlock(&a->lock);
  va_end(args);
}

/* The ref's own head is what was promised: it moves on, so it is looked at now. */
static void check_readable(pd_store *s, const char *at)
{
  pd_buf value = {0};
  pd_error err;
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    pd_code code = pd_get(s, at, pd_text(key), &value, NULL, &err);
    if (code && code != PD_NOT_FOUND) give_up("acknowledged, but '%s' cannot be read: %s", at, err.message);
  }
  pd_buf_done(&value);
}

static pd_code do_act(actor *me, act_kind kind, uint64_t n, pd_error *err)
{
  arena *a = me->a;
  char at[64], name[64], own[32];
  pd_code code;
  pd_commit commit;
  snprintf(own, sizeof own, "own-%u", me->number);
  snprintf(at, sizeof at, "main~%llu", (unsigned long long)next_random(me, DEPTH));
  snprintf(name, sizeof name, "x-%u-%llu", me->number, (unsigned long long)n);
  pd_note note = {.ref = own};
  pd_merge_options merge = {.policy = PD_MERGE_THEIRS, .allows_unrelated = true};
  switch (kind) {
  case ACT_FORK:
    if (!(code = pd_fork(a->s, name, at, NULL, NULL, err))) promise_at(a, "%s", name);
    return code;
  case ACT_RESET:
    if (!(code = pd_reset(a->s, own, at, NULL, NULL, err))) check_readable(a->s, own);
    return code;
  case ACT_UNDO:
    if (!(code = pd_undo(a->s, 1 + next_random(me, 4), &note, NULL, err))) check_readable(a->s, own);
    return code;
  case ACT_PIN: {
    char hex[PD_ID_HEX_SIZE];
    if (!(code = pd_pin_set(a->s, at, NULL, &commit, err))) promise_at(a, "%s", pd_id_hex(&commit.id, hex));
    return code;
  }
  case ACT_TAG:
    snprintf(name, sizeof name, "t-%u-%llu", me->number, (unsigned long long)n);
    if (!(code = pd_tag_set(a->s, name, at, false, NULL, NULL, err))) promise_at(a, "%s", name);
    return code;
  case ACT_LINK:
    if (!(code = pd_message_link(a->s, &(pd_message){.id = name}, at, NULL, NULL, err))) promise_at(a, "message:%s", name);
    return code;
  default:
    if (!(code = pd_merge(a->s, at, &merge, &note, NULL, err))) check_readable(a->s, own);
    return code;
  }
}

static void *act_all(void *ctx)
{
  actor *me = ctx;
  arena *a = me->a;
  for (uint64_t n = 0; n < a->acts; n++) {
    pd_error err = {0};
    char own[32];
    act_kind kind = (act_kind)next_random(me, ACT_KINDS);
    snprintf(own, sizeof own, "own-%u", me->number);
    for (int i = 0; i < 3; i++) put(a, "main", n * 3 + (uint64_t)i);
    put(a, own, n);
    pd_code code = do_act(me, kind, n, &err);
    if (code && code != PD_RETIRED && code != PD_NOT_FOUND) give_up("act %d: %s: %s", kind, pd_code_name(code), err.message);
    pthread_mutex_lock(&a->lock);
    a->tried[kind]++;
    a->refused += code != PD_OK;
    pthread_mutex_unlock(&a->lock);
  }
  return NULL;
}

/* ---- the collector ---- */

static pd_code collect_once(pd_store *s, pd_error *err)
{
  pd_code code = pd_gc(s, &(pd_gc_policy){.keep_last = 3}, NULL, err);
  return code == PD_CONFLICT ? PD_OK : code; /* others were busy */
}

static void *collect(void *ctx)
{
  arena *a = ctx;
  pd_error err;
  while (!__atomic_load_n(&a->is_over, __ATOMIC_ACQUIRE)) {
    if (collect_once(a->s, &err)) give_up("gc: %s", err.message);
    a->collections++;
  }
  return NULL;
}

/* A process of its own, until its pipe is closed. */
static pid_t start_collector(const char *uri, int *out_pipe)
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
  alarm(600);
  close(ends[0]);
  signal(SIGPIPE, SIG_IGN);
  slow_vfs_set(SYNC_US);
  if (pd_store_open(uri, "main", NULL, &s, &err)) _exit(1);
  while (write(ends[1], "", 1) == 1)
    if (collect_once(s, &err)) {
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

/* ---- all together ---- */

static arena *arena_new(void)
{
  arena *a = calloc(1, sizeof *a);
  pd_error err;
  assert_non_null(a);
  pthread_mutex_init(&a->lock, NULL);
  crash_seed();
  crash_scratch(a->folder);
  slow_vfs_install();
  slow_vfs_set(0);
  snprintf(a->uri, sizeof a->uri, "sqlite:%s?vfs=slow", a->folder);
  a->acts = crash_count(ACTS_SHORT, ACTS_FULL) / ACTORS;
  if (pd_store_open(a->uri, "main", NULL, &a->s, &err)) give_up("open: %s", err.message);
  for (uint64_t i = 0; i < 2 * DEPTH; i++) put(a, "main", i);
  for (unsigned i = 0; i < ACTORS; i++) {
    char own[32];
    snprintf(own, sizeof own, "own-%u", i);
    if (pd_fork(a->s, own, "main", NULL, NULL, &err)) give_up("fork: %s", err.message);
  }
  return a;
}

static void check_promises(arena *a)
{
  pd_error err = {0};
  for (size_t i = 0; i < a->promise_count; i++) check_readable(a->s, a->promises[i].at);
  if (crash_verify(a->s, &err)) give_up("verify: %s", err.message);
  if (pd_gc(a->s, &(pd_gc_policy){.keep_last = 3}, NULL, &err)) give_up("gc: %s", err.message);
  for (size_t i = 0; i < a->promise_count; i++) check_readable(a->s, a->promises[i].at);
}

static void arena_free(arena *a)
{
  pd_error err;
  uint64_t tried = 0;
  for (int i = 0; i < ACT_KINDS; i++) tried += a->tried[i];
  slow_vfs_set(0);
  check_promises(a);
  if (pd_store_close(a->s, &err)) give_up("close: %s", err.message);
  if (pd_store_open(a->uri, "main", NULL, &a->s, &err)) give_up("open: %s", err.message);
  check_promises(a);
  if (pd_store_close(a->s, &err)) give_up("close: %s", err.message);
  printf("# %llu acts, %llu of them refused because gc was first; %zu promises kept\n", (unsigned long long)tried,
         (unsigned long long)a->refused, a->promise_count);
  assert_int_equal(tried, a->acts * ACTORS);
  crash_scratch_remove(a->folder);
  pthread_mutex_destroy(&a->lock);
  free(a);
}

static void act(arena *a, bool has_own_gc)
{
  pthread_t collector, threads[ACTORS];
  actor actors[ACTORS];
  slow_vfs_set(SYNC_US);
  if (has_own_gc) assert_int_equal(pthread_create(&collector, NULL, collect, a), 0);
  for (unsigned i = 0; i < ACTORS; i++) {
    actors[i] = (actor){a, i, crash_random(UINT64_MAX)};
    assert_int_equal(pthread_create(&threads[i], NULL, act_all, &actors[i]), 0);
  }
  for (unsigned i = 0; i < ACTORS; i++) pthread_join(threads[i], NULL);
  __atomic_store_n(&a->is_over, 1, __ATOMIC_RELEASE);
  if (has_own_gc) pthread_join(collector, NULL);
}

static void race__with_gc_on_the_same_handle_loses_nothing(void **state)
{
  (void)state;
  arena *a = arena_new();
  act(a, true);
  arena_free(a);
}

static void race__with_gc_in_another_process_loses_nothing(void **state)
{
  (void)state;
  arena *a = arena_new();
  pd_error err;
  int pipe_end;
  if (pd_store_close(a->s, &err)) give_up("close: %s", err.message); /* nobody forks with it open */
  pid_t pid = start_collector(a->uri, &pipe_end);
  if (pd_store_open(a->uri, "main", NULL, &a->s, &err)) give_up("open: %s", err.message);
  act(a, false);
  end_collector(pid, pipe_end);
  arena_free(a);
}

static void race__with_gc_here_and_in_another_process_loses_nothing(void **state)
{
  (void)state;
  arena *a = arena_new();
  pd_error err;
  int pipe_end;
  if (pd_store_close(a->s, &err)) give_up("close: %s", err.message);
  pid_t pid = start_collector(a->uri, &pipe_end);
  if (pd_store_open(a->uri, "main", NULL, &a->s, &err)) give_up("open: %s", err.message);
  act(a, true);
  end_collector(pid, pipe_end);
  arena_free(a);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(race__with_gc_on_the_same_handle_loses_nothing),
    cmocka_unit_test(race__with_gc_in_another_process_loses_nothing),
    cmocka_unit_test(race__with_gc_here_and_in_another_process_loses_nothing),
  };
  return cmocka_run_group_tests_name("race", tests, NULL, NULL);
}
