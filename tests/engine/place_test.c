/* place_test.c: stores that are kept elsewhere than in their home (src/engine/place.c): PLC-1 to PLC-4, also for two that come at once. */
#include <perdure/perdure.h>

#include "support/temp_folder.h"

#include <fcntl.h>
#include <perdure/backend.h>
#include <perdure/joint.h>
#include <perdure/supervise.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 30
#define WAIT_TRIES 60000 /* of a millisecond */

typedef struct world {
  char *folder, home[4000], to[4000]; /* URIs */
  pd_error err;
} world;

static void world_open(world *w)
{
  *w = (world){.folder = temp_folder_new()};
  snprintf(w->home, sizeof w->home, "sqlite:%s/home", w->folder);
  snprintf(w->to, sizeof w->to, "sqlite:%s/to", w->folder);
}

static void world_close(world *w)
{
  temp_folder_free(w->folder);
}

static bool is_file(const world *w, const char *name)
{
  char path[4200];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", w->folder, name);
  return stat(path, &st) == 0;
}

static void write_file(const world *w, const char *name, const char *text)
{
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", w->folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

static void touch_store(world *w, const char *uri, const char *agent)
{
  pd_store *s = NULL;
  if (pd_store_open(uri, agent, NULL, &s, &w->err)) fail_msg("open: %s", w->err.message);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void place__what_is_not_an_agents_or_not_absolute_is_refused(void **state)
{
  (void)state;
  world w;
  world_open(&w);
  static const char *const targets[] = {"sqlite:relative", "sqlite:", "memory:x", "http://127.0.0.1:1", "/tmp", "", "sqlite:/x\ny"};
  static const char *const agents[] = {"shared", "system", "", "..", "a/b"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    assert_int_equal(pd_store_place(w.home, "a", targets[i], &w.err), PD_INVALID);
  for (size_t i = 0; i < sizeof agents / sizeof *agents; i++) assert_int_equal(pd_store_place(w.home, agents[i], w.to, &w.err), PD_INVALID);
  assert_int_equal(pd_store_place(w.home, "a", NULL, &w.err), PD_INVALID);
  assert_int_equal(pd_store_place("memory:x", "a", w.to, &w.err), PD_UNSUPPORTED);
  assert_int_equal(pd_store_place("http://127.0.0.1:1", "a", w.to, &w.err), PD_UNSUPPORTED);
  assert_false(is_file(&w, "to"));
  assert_int_equal(pd_store_place(w.home, "a", w.to, &w.err), PD_OK);
  char again[4100];
  snprintf(again, sizeof again, "%s/../to/", w.to);
  assert_int_equal(pd_store_place(w.home, "a", again, &w.err), PD_OK); /* the same folder in other words */
  world_close(&w);
}

static void place__the_place_of_a_place_is_refused(void **state)
{
  (void)state;
  world w;
  world_open(&w);
  char third[4000];
  snprintf(third, sizeof third, "sqlite:%s/third", w.folder);
  assert_int_equal(pd_store_place(w.to, "a", third, &w.err), PD_OK);
  assert_int_equal(pd_store_place(w.home, "a", w.to, &w.err), PD_CONFLICT);
  assert_false(is_file(&w, "home/a.place"));
  assert_false(is_file(&w, "to/a.db"));
  world_close(&w);
}

static void place__a_placed_store_is_not_made_in_the_home(void **state)
{
  (void)state;
  world w;
  pd_backend *b = NULL;
  const pd_backend_ops *ops;
  const char *rest;
  world_open(&w);
  assert_int_equal(pd_store_place(w.home, "a", w.to, &w.err), PD_OK);
  assert_int_equal(pd_backend_find(w.home, &ops, &rest, &w.err), PD_OK);
  assert_int_equal(ops->open(rest, "a", PD_BACKEND_CREATE, &b, &w.err), PD_CONFLICT); /* as one that looked before it was placed */
  assert_false(is_file(&w, "home/a.db"));
  touch_store(&w, w.home, "a");
  assert_false(is_file(&w, "home/a.db"));
  write_file(&w, "home/a.place", "no place\n");
  pd_store *s = NULL;
  assert_int_equal(pd_store_open(w.home, "a", NULL, &s, &w.err), PD_CORRUPT);
  assert_null(strstr(w.err.message, w.folder)); /* an agent may see it */
  assert_int_equal(remove(strcat(strcpy(w.to, w.folder), "/home/a.place")), 0);
  assert_int_equal(symlink("nowhere", w.to), 0);
  assert_int_not_equal(pd_store_open(w.home, "a", NULL, &s, &w.err), PD_OK); /* a link to nothing ends, and is no second store */
  assert_false(is_file(&w, "home/a.db"));
  world_close(&w);
}

static void *place_thread(void *ctx)
{
  world *w = ctx;
  return (void *)(intptr_t)pd_store_place(w->home, "a", w->to, &w->err);
}

/* Its first look finds nothing, then the agent's store is made: the look under the lock finds it. */
static void place__a_store_that_is_made_meanwhile_is_the_only_one(void **state)
{
  (void)state;
  world w;
  pthread_t thread;
  void *code;
  world_open(&w);
  touch_store(&w, w.home, "other");
  char path[4200];
  snprintf(path, sizeof path, "%s/home/a.lock", w.folder);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(flock(fd, LOCK_EX), 0); /* we are who makes it */
  assert_int_equal(pthread_create(&thread, NULL, place_thread, &w), 0);
  for (int i = 0; i < WAIT_TRIES && !is_file(&w, "to/a.db"); i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_true(is_file(&w, "to/a.db"));
  write_file(&w, "home/a.db", "");
  close(fd);
  pthread_join(thread, &code);
  assert_int_equal((intptr_t)code, PD_CONFLICT);
  assert_false(is_file(&w, "home/a.place"));
  world_close(&w);
}

static void *open_thread(void *ctx)
{
  world *w = ctx;
  pd_store *s = NULL;
  pd_error err;
  pd_code code = pd_store_open(w->home, "a", NULL, &s, &err);
  pd_store_close(s, NULL);
  return (void *)(intptr_t)code;
}

/* Whoever is first: there is one store, and who opens gets it. */
static void place__two_that_come_at_once_make_one_store(void **state)
{
  (void)state;
  int rounds = getenv("PERDURE_SANITIZER") ? ROUNDS / 5 : ROUNDS;
  for (int i = 0; i < rounds; i++) {
    world w;
    pthread_t threads[2];
    void *codes[2];
    world_open(&w);
    assert_int_equal(pthread_create(&threads[i % 2], NULL, i % 2 ? open_thread : place_thread, &w), 0);
    assert_int_equal(pthread_create(&threads[1 - i % 2], NULL, i % 2 ? place_thread : open_thread, &w), 0);
    for (int j = 0; j < 2; j++) pthread_join(threads[j], &codes[j]);
    intptr_t placed = (intptr_t)codes[0], opened = (intptr_t)codes[1];
    assert_int_equal(opened, PD_OK);
    assert_true(placed == PD_OK || placed == PD_CONFLICT);
    assert_int_equal(is_file(&w, "home/a.place"), placed == PD_OK);
    assert_int_equal(is_file(&w, "home/a.db"), placed != PD_OK);
    world_close(&w);
  }
}

/* Wherever the room ends: it is refused, nothing leads anywhere, and the next try goes on with what is there (PLC-4). */
static void place__a_full_disk_leaves_the_home_as_it_was(void **state)
{
  (void)state;
  world w;
  struct rlimit was;
  int refused = 0;
  pd_code code = PD_FULL;
  world_open(&w);
  touch_store(&w, w.home, "other");
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t room = 1; code && room < 1 << 26; room *= 2) {
    struct rlimit little = {.rlim_cur = room, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    code = pd_store_place(w.home, "a", w.to, &w.err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    refused += code != PD_OK;
    assert_int_equal(is_file(&w, "home/a.place"), code == PD_OK);
  }
  assert_int_equal(code, PD_OK);
  assert_true(refused > 0);
  touch_store(&w, w.home, "a");
  assert_false(is_file(&w, "home/a.db"));
  world_close(&w);
}

static void count_agent(void *ctx, const char *agent)
{
  *(int *)ctx += strcmp(agent, "a") == 0;
}

static void place__a_joint_commit_refuses_it_and_the_home_lists_it(void **state)
{
  (void)state;
  world w;
  pd_joint *joint = NULL;
  const char *const names[] = {"a"};
  int count = 0;
  world_open(&w);
  assert_int_equal(pd_store_place(w.home, "a", w.to, &w.err), PD_OK);
  assert_int_equal(pd_joint_begin(w.home, names, 1, "test", &joint, &w.err), PD_INVALID);
  assert_int_equal(pd_home_agents(w.home, count_agent, &count, &w.err), PD_OK);
  assert_int_equal(count, 1);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(place__what_is_not_an_agents_or_not_absolute_is_refused),
    cmocka_unit_test(place__the_place_of_a_place_is_refused),
    cmocka_unit_test(place__a_placed_store_is_not_made_in_the_home),
    cmocka_unit_test(place__a_store_that_is_made_meanwhile_is_the_only_one),
    cmocka_unit_test(place__two_that_come_at_once_make_one_store),
    cmocka_unit_test(place__a_full_disk_leaves_the_home_as_it_was),
    cmocka_unit_test(place__a_joint_commit_refuses_it_and_the_home_lists_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
