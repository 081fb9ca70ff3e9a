/* bundle_busy_test.c: bundles while others are at work: two imports into one store at once, and an export of a store that is written to. */
#include "engine/bundle_world.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 4
#define STEPS 150
#define MORE 200

typedef struct job {
  const char *uri;
  int fd;
  pd_import_options options;
  pd_code code;
  pd_error err;
} job;

static void *import_in_own_handle(void *ctx)
{
  job *j = ctx;
  pd_store *s = NULL;
  j->code = pd_store_open(j->uri, "main", NULL, &s, &j->err);
  if (!j->code) j->code = pd_import(s, j->fd, &j->options, NULL, &j->err);
  pd_store_close(s, NULL);
  return NULL;
}

static void run_both(job jobs[2])
{
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, import_in_own_handle, &jobs[i]), 0);
  for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < 2; i++)
    if (jobs[i].code) fail_msg("import %zu: %s", i, jobs[i].err.message);
}

/* A bundle of a random store, which is cut by gc every other time. */
static int busy_bundle(pd_store **out, uint64_t seed)
{
  *out = world_open();
  world_live(*out, seed, STEPS);
  if (seed % 2) assert_int_equal(pd_gc(*out, &(pd_gc_policy){.keep_last = 2}, NULL, NULL), PD_OK);
  return world_export(*out, &(pd_export_options){.is_all = true}, NULL);
}

static void busy__two_imports_of_one_bundle_at_once_bring_it_once(void **state)
{
  (void)state;
  for (unsigned n = 0; n < ROUNDS; n++) {
    char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
    pd_store *from, *to;
    int fd = busy_bundle(&from, 20 + n);
    job jobs[2] = {{.uri = uri, .fd = fd}, {.uri = uri, .fd = fd}};
    run_both(jobs);
    assert_int_equal(pd_store_open(uri, "main", NULL, &to, NULL), PD_OK);
    world_same_but_numbers(from, to);
    world_sound(to);
    close(fd);
    pd_store_close(from, NULL), pd_store_close(to, NULL);
    free(uri);
    temp_folder_free(folder);
  }
}

static void busy__two_imports_of_different_bundles_at_once_both_arrive(void **state)
{
  (void)state;
  for (unsigned n = 0; n < ROUNDS; n++) {
    char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
    pd_store *one, *two, *to;
    int fds[2] = {busy_bundle(&one, 60 + n), busy_bundle(&two, 71 + n)};
    job jobs[2] = {{.uri = uri, .fd = fds[0], .options = {.as = "one"}}, {.uri = uri, .fd = fds[1], .options = {.as = "two"}}};
    run_both(jobs);
    assert_int_equal(pd_store_open(uri, "main", NULL, &to, NULL), PD_OK);
    world_subset(one, to);
    world_subset(two, to);
    world_sound(to);
    close(fds[0]), close(fds[1]);
    pd_store_close(one, NULL), pd_store_close(two, NULL), pd_store_close(to, NULL);
    free(uri);
    temp_folder_free(folder);
  }
}

typedef struct writer {
  pd_store *s;
  atomic_bool is_over;
  atomic_uint count, most;
} writer;

static void *keep_writing(void *ctx)
{
  writer *w = ctx;
  for (unsigned i = 1; !w->is_over; i++) {
    char value[16];
    while (i > w->most && !w->is_over) sched_yield();
    snprintf(value, sizeof value, "%u", i);
    if (pd_put(w->s, pd_text("busy"), pd_text(value), NULL, NULL, NULL)) break;
    w->count = i;
  }
  return NULL;
}

static void busy__a_bundle_of_a_store_that_is_written_to_is_of_one_moment(void **state)
{
  (void)state;
  pd_store *from = world_open();
  writer w = {.s = from};
  pthread_t thread;
  uint64_t before = 0;
  world_live(from, 33, STEPS);
  assert_int_equal(pthread_create(&thread, NULL, keep_writing, &w), 0);
  for (unsigned n = 0; n < ROUNDS; n++) {
    pd_store *to = world_open();
    pd_entry entry;
    unsigned seen = w.count;
    w.most = seen + MORE;
    while (w.count == seen) sched_yield(); /* something is new, and most of it is still to come */
    int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
    world_import(to, fd, NULL, NULL);
    world_sound(to);
    world_subset(to, from);
    assert_int_equal(pd_get(to, "main", pd_text("busy"), NULL, &entry, NULL), PD_OK);
    assert_true(entry.version > before);
    before = entry.version;
    close(fd);
    pd_store_close(to, NULL);
  }
  w.is_over = true;
  pthread_join(thread, NULL);
  pd_store_close(from, NULL);
}

static void busy__a_transfer_into_a_store_to_which_another_process_added_many_refs(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder), name[32];
  pd_store *from = world_open(), *to = NULL, *other = NULL;
  pd_error err;
  assert_int_equal(pd_store_open(uri, "main", NULL, &to, NULL), PD_OK);
  assert_int_equal(pd_store_open(uri, "main", NULL, &other, NULL), PD_OK);
  for (unsigned i = 0; i < MORE; i++) {
    snprintf(name, sizeof name, "r%u", i);
    assert_int_equal(pd_fork(other, name, "root", NULL, NULL, NULL), PD_OK);
  }
  world_put(from, "k", "1", NULL);
  if (pd_transfer(from, to, NULL, NULL, &err)) fail_msg("%s", err.message);
  assert_int_equal(pd_get(to, "main", pd_text("k"), NULL, NULL, NULL), PD_OK);
  world_sound(to);
  pd_store_close(from, NULL), pd_store_close(to, NULL), pd_store_close(other, NULL);
  temp_folder_free(folder);
  free(uri);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(busy__two_imports_of_one_bundle_at_once_bring_it_once),
    cmocka_unit_test(busy__two_imports_of_different_bundles_at_once_both_arrive),
    cmocka_unit_test(busy__a_transfer_into_a_store_to_which_another_process_added_many_refs),
    cmocka_unit_test(busy__a_bundle_of_a_store_that_is_written_to_is_of_one_moment),
  };
  return cmocka_run_group_tests_name("engine/bundle_busy", tests, NULL, NULL);
}
