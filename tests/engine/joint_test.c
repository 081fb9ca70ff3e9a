/* joint_test.c: joint commits (joint.h): several stores change at one moment or not at all, whoever has them open. */
#include <perdure/perdure.h>

#include "backend/sqlite_joint.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = {"a", "b", "c"};
#define COUNT (sizeof names / sizeof names[0])

typedef struct world {
  char *folder, *uri;
  pd_store *open[COUNT]; /* handles that were there before */
  pd_error err;
} world;

static void put(world *w, pd_store *store, const char *value)
{
  if (pd_put(store, pd_text("k"), pd_text(value), NULL, NULL, &w->err)) fail_msg("put: %s", w->err.message);
}

static void begin_world(world *w)
{
  *w = (world){.folder = temp_folder_new()};
  w->uri = text_of("sqlite:%s", w->folder);
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(pd_store_open(w->uri, names[i], NULL, &w->open[i], &w->err), PD_OK);
    put(w, w->open[i], "old");
  }
}

static void end_world(world *w)
{
  for (size_t i = 0; i < COUNT; i++) {
    if (pd_verify(w->open[i], NULL, NULL, &w->err)) fail_msg("%s: %s", names[i], w->err.message);
    assert_int_equal(pd_store_close(w->open[i], &w->err), PD_OK);
  }
  free(w->uri);
  temp_folder_free(w->folder);
}

static void want_one(world *w, pd_store *store, const char *name, const char *value)
{
  pd_buf got = {0};
  if (pd_get(store, NULL, pd_text("k"), &got, NULL, &w->err)) fail_msg("%s: %s", name, w->err.message);
  if (got.size != strlen(value) || memcmp(got.data, value, got.size) != 0)
    fail_msg("%s is %.*s, not %s", name, (int)got.size, (const char *)got.data, value);
  pd_buf_done(&got);
}

/* By the handles that were open before, by new ones, and by new ones that only read. */
static void want(world *w, const char *value)
{
  for (size_t i = 0; i < COUNT; i++) {
    want_one(w, w->open[i], names[i], value);
    for (unsigned is_read_only = 0; is_read_only < 2; is_read_only++) {
      pd_store *s = NULL;
      pd_options options = {.is_read_only = is_read_only, .must_exist = true};
      if (pd_store_open(w->uri, names[i], &options, &s, &w->err)) fail_msg("open %s: %s", names[i], w->err.message);
      want_one(w, s, names[i], value);
      assert_int_equal(pd_store_close(s, &w->err), PD_OK);
    }
  }
}

static pd_joint *begin(world *w)
{
  pd_joint *joint = NULL;
  if (pd_joint_begin(w->uri, names, COUNT, "test", &joint, &w->err)) fail_msg("begin: %s", w->err.message);
  return joint;
}

static pd_code put_jointly(world *w, pd_joint *joint, size_t index, const char *value)
{
  pd_store *s = NULL;
  pd_options options = {.must_exist = true, .joint = joint};
  pd_code code = pd_store_open(w->uri, names[index], &options, &s, &w->err);
  if (!code) code = pd_put(s, pd_text("k"), pd_text(value), NULL, NULL, &w->err);
  if (!code) want_one(w, s, names[index], value);
  pd_code closed = pd_store_close(s, code ? NULL : &w->err);
  return code ? code : closed;
}

static void put_all(world *w, pd_joint *joint, const char *value)
{
  for (size_t i = 0; i < COUNT; i++)
    if (put_jointly(w, joint, i, value)) fail_msg("%s: %s", names[i], w->err.message);
}

static bool has_file(const world *w, const char *name)
{
  char *path = text_of("%s/%s", w->folder, name);
  bool is_there = access(path, F_OK) == 0;
  free(path);
  return is_there;
}

/* In another process: begin, put "new" into the first `count` stores, and go without a word. */
static void die_inside(world *w, size_t count)
{
  int how;
  pid_t child = fork();
  if (!child) {
    pd_joint *joint = NULL;
    if (pd_joint_begin(w->uri, names, COUNT, "test", &joint, NULL)) _exit(2);
    for (size_t i = 0; i < count; i++)
      if (put_jointly(w, joint, i, "new")) _exit(3);
    kill(getpid(), SIGKILL);
  }
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFSIGNALED(how));
}

static void write_byte(const world *w, const char *name, off_t at, char byte)
{
  char *path = text_of("%s/%s", w->folder, name);
  int fd = open(path, O_WRONLY);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, &byte, 1, at), 1);
  close(fd);
  free(path);
}

/* ---- */

static void joint__all_stores_change_at_the_commit_and_none_before(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  pd_joint *joint = begin(&w);
  want(&w, "old");
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(put_jointly(&w, joint, i, "new"), PD_OK);
    assert_int_equal(put_jointly(&w, joint, i, "newer"), PD_OK);
    want(&w, "old");
  }
  assert_int_equal(pd_joint_commit(joint, &w.err), PD_OK);
  want(&w, "newer");
  assert_false(has_file(&w, ".joint"));
  put(&w, w.open[1], "later");
  want_one(&w, w.open[1], "b", "later");
  end_world(&w);
}

static void joint__an_abort_leaves_nothing(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  pd_joint *joint = begin(&w);
  put_all(&w, joint, "new");
  pd_joint_abort(joint);
  pd_joint_abort(NULL);
  want(&w, "old");
  assert_false(has_file(&w, ".joint"));
  for (size_t i = 0; i < COUNT; i++) put(&w, w.open[i], "after"); /* takes the numbers of what was aborted */
  want(&w, "after");
  end_world(&w);
}

static void joint__a_process_killed_before_its_commit_has_changed_nothing(void **state)
{
  (void)state;
  for (size_t count = 0; count <= COUNT; count++) {
    world w;
    begin_world(&w);
    die_inside(&w, count);
    for (size_t i = 0; i < COUNT; i++) want_one(&w, w.open[i], names[i], "old"); /* before anybody cleans up */
    want(&w, "old");
    for (size_t i = 0; i < COUNT; i++) put(&w, w.open[i], "after");
    want(&w, "after");
    assert_false(has_file(&w, ".joint"));
    end_world(&w);
  }
}

static void joint__a_writer_cleans_up_after_a_dead_process_without_opening_anything(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  die_inside(&w, COUNT);
  put(&w, w.open[2], "after");
  want_one(&w, w.open[2], "c", "after");
  want_one(&w, w.open[0], "a", "old");
  put(&w, w.open[0], "after");
  end_world(&w);
}

static void joint__a_process_killed_right_after_its_decision_has_changed_all(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  die_inside(&w, COUNT);
  write_byte(&w, ".joint", 16, 'C');
  pd_store *s = NULL;
  want_one(&w, w.open[0], "a", "old");                                  /* nobody has published it yet, so nobody sees it… */
  assert_int_equal(pd_store_open(w.uri, "c", NULL, &s, &w.err), PD_OK); /* …and who opens a store does that */
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  want(&w, "new");
  assert_false(has_file(&w, ".joint"));
  end_world(&w);
}

static void joint__published_and_not_yet_cleaned_up_is_new_for_everybody(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  die_inside(&w, COUNT);
  write_byte(&w, ".joint", 16, 'C');
  write_byte(&w, ".joint", 17, '+');
  for (size_t i = 0; i < COUNT; i++) want_one(&w, w.open[i], names[i], "new");
  want(&w, "new");
  end_world(&w);
}

static void joint__after_a_loss_of_power_the_file_alone_says_it(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  for (size_t i = 0; i < COUNT; i++) assert_int_equal(pd_store_close(w.open[i], &w.err), PD_OK);
  die_inside(&w, COUNT);
  for (size_t i = 0; i < COUNT; i++) {
    char *lock = text_of("%s/%s.lock", w.folder, names[i]); /* its words may be lost */
    assert_int_equal(unlink(lock), 0);
    free(lock);
  }
  for (size_t i = 0; i < COUNT; i++) assert_int_equal(pd_store_open(w.uri, names[i], NULL, &w.open[i], &w.err), PD_OK);
  want(&w, "old");
  end_world(&w);
}

typedef struct waiter {
  world *w;
  atomic_bool has_begun, is_done;
} waiter;

static void *put_after(void *ctx)
{
  waiter *x = ctx;
  atomic_store(&x->has_begun, true);
  if (pd_put(x->w->open[0], pd_text("k"), pd_text("waited"), NULL, NULL, NULL)) abort();
  atomic_store(&x->is_done, true);
  return NULL;
}

static void joint__a_writer_waits_and_then_writes_upon_the_new_state(void **state)
{
  (void)state;
  world w;
  pthread_t thread;
  begin_world(&w);
  pd_joint *joint = begin(&w);
  waiter x = {.w = &w};
  assert_int_equal(pthread_create(&thread, NULL, put_after, &x), 0);
  while (!atomic_load(&x.has_begun)) sched_yield();
  put_all(&w, joint, "new");
  assert_false(atomic_load(&x.is_done));
  assert_int_equal(pd_joint_commit(joint, &w.err), PD_OK);
  assert_int_equal(pthread_join(thread, NULL), 0);
  want_one(&w, w.open[0], "a", "waited");
  want_one(&w, w.open[1], "b", "new");
  pd_entry entry;
  pd_buf value = {0};
  assert_int_equal(pd_get(w.open[0], NULL, pd_text("k"), &value, &entry, &w.err), PD_OK);
  assert_int_equal(entry.version, 3); /* old, new, waited */
  pd_buf_done(&value);
  end_world(&w);
}

static void joint__buffered_writes_that_were_acknowledged_come_before_it(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  pd_store *buffered = NULL;
  pd_options options = {.flush_ms = 20};
  assert_int_equal(pd_store_open(w.uri, "a", &options, &buffered, &w.err), PD_OK);
  put(&w, buffered, "buffered");
  pd_joint *joint = begin(&w);
  want_one(&w, w.open[0], "a", "buffered");
  put_all(&w, joint, "new");
  assert_int_equal(pd_joint_commit(joint, &w.err), PD_OK);
  want_one(&w, buffered, "a", "new");
  put(&w, buffered, "buffered again");
  assert_int_equal(pd_store_close(buffered, &w.err), PD_OK);
  want_one(&w, w.open[0], "a", "buffered again");
  end_world(&w);
}

/* ---- others that do not go on ---- */

/* Begin must fail within its time and name the lock file of store `a`; the others are as free as before. */
static void want_no_beginning(world *w, const char *why)
{
  pd_joint *joint = NULL;
  pd_joint_wait_ms = 300;
  pd_code code = pd_joint_begin(w->uri, names, COUNT, "test", &joint, &w->err);
  pd_joint_wait_ms = 60000;
  assert_int_equal(code, PD_STORAGE);
  if (!strstr(w->err.message, why) || !strstr(w->err.message, "/a.lock")) fail_msg("%s", w->err.message);
  assert_false(has_file(w, ".joint"));
  for (size_t i = 1; i < COUNT; i++) put(w, w->open[i], "old");
}

static void joint__begin_does_not_wait_for_a_stopped_process_with_buffered_writes(void **state)
{
  (void)state;
  world w;
  int how;
  begin_world(&w);
  pid_t child = fork();
  if (!child) {
    pd_store *buffered = NULL;
    pd_options options = {.flush_ms = 600000};
    if (pd_store_open(w.uri, "a", &options, &buffered, NULL)) _exit(2);
    if (pd_put(buffered, pd_text("other"), pd_text("buffered"), NULL, NULL, NULL)) _exit(3);
    kill(getpid(), SIGSTOP);
    _exit(pd_store_close(buffered, NULL) ? 4 : 0);
  }
  assert_int_equal(waitpid(child, &how, WUNTRACED), child);
  assert_true(WIFSTOPPED(how));
  want_no_beginning(&w, "buffered writes");
  want(&w, "old");
  assert_int_equal(kill(child, SIGCONT), 0);
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  pd_joint *joint = begin(&w);
  put_all(&w, joint, "new");
  assert_int_equal(pd_joint_commit(joint, &w.err), PD_OK);
  want(&w, "new");
  end_world(&w);
}

static void joint__begin_does_not_wait_for_one_that_stopped_in_a_write(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  char *path = text_of("%s/a.lock", w.folder);
  int fd = open(path, O_RDWR);
  assert_int_equal(flock(fd, LOCK_EX), 0);
  want_no_beginning(&w, "does not let go");
  close(fd);
  free(path);
  put(&w, w.open[0], "old");
  pd_joint_abort(begin(&w));
  want(&w, "old");
  end_world(&w);
}

static void *keep_putting(void *ctx)
{
  waiter *x = ctx;
  while (!atomic_load(&x->is_done)) {
    if (pd_put(x->w->open[0], pd_text("busy"), pd_text("x"), NULL, NULL, NULL)) abort();
    atomic_store(&x->has_begun, true);
  }
  return NULL;
}

/* Whoever claims again and again cannot keep it waiting: the fence comes first. */
static void joint__begins_beside_one_that_buffers_without_a_pause(void **state)
{
  (void)state;
  world w;
  pthread_t thread;
  begin_world(&w);
  assert_int_equal(pd_store_close(w.open[0], &w.err), PD_OK);
  assert_int_equal(pd_store_open(w.uri, "a", &(pd_options){.flush_ms = 5}, &w.open[0], &w.err), PD_OK);
  waiter x = {.w = &w};
  assert_int_equal(pthread_create(&thread, NULL, keep_putting, &x), 0);
  while (!atomic_load(&x.has_begun)) sched_yield();
  for (int i = 0; i < 10; i++) {
    pd_joint *joint = begin(&w);
    put_all(&w, joint, i % 2 ? "odd" : "even");
    assert_int_equal(pd_joint_commit(joint, &w.err), PD_OK);
  }
  atomic_store(&x.is_done, true);
  pthread_join(thread, NULL);
  want(&w, "odd");
  end_world(&w);
}

static pd_code take_last(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)record, (void)err;
  *(uint64_t *)ctx = seq;
  return PD_OK;
}

/* Its lock file cannot be had, so it sees no fence. */
static void joint__a_reader_without_a_lock_file_sees_none_of_it_either(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  pd_backend *reader = NULL;
  const pd_backend_ops *ops;
  const char *rest;
  uint64_t before = 0, tail = 0;
  char *path = text_of("%s/a.lock", w.folder), *away = text_of("%s/away", w.folder);
  assert_int_equal(rename(path, away), 0);
  assert_int_equal(symlink("nowhere", path), 0);
  assert_int_equal(pd_backend_find(w.uri, &ops, &rest, &w.err), PD_OK);
  assert_int_equal(ops->open(rest, "a", PD_BACKEND_OPEN_READ_ONLY, &reader, &w.err), PD_OK);
  assert_int_equal(ops->log_tail(reader, &before, &w.err), PD_OK);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rename(away, path), 0);
  pd_joint *joint = begin(&w);
  put_all(&w, joint, "new");
  assert_int_equal(ops->log_tail(reader, &tail, &w.err), PD_OK);
  assert_int_equal(tail, before);
  assert_int_equal(ops->log_tail_hint(reader), before);
  assert_int_equal(ops->log_read(reader, 1, UINT64_MAX, take_last, &tail, &w.err), PD_OK);
  assert_int_equal(tail, before);
  assert_int_equal(pd_joint_commit(joint, &w.err), PD_OK);
  assert_int_equal(ops->log_tail(reader, &tail, &w.err), PD_OK);
  assert_int_equal(tail, before + 1);
  ops->close(reader);
  free(path), free(away);
  end_world(&w);
}

/* No write beyond the first byte of any file, as on a full disk. */
static void set_full(bool is_full)
{
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = is_full ? 0 : limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void joint__out_of_space_the_old_state_stays_and_can_be_read(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  signal(SIGXFSZ, SIG_IGN);
  pd_joint *joint = begin(&w);
  assert_int_equal(put_jointly(&w, joint, 0, "new"), PD_OK);
  set_full(true);
  assert_int_not_equal(put_jointly(&w, joint, 1, "new"), PD_OK);
  pd_joint_abort(joint);
  for (size_t i = 0; i < COUNT; i++) want_one(&w, w.open[i], names[i], "old");
  pd_code code = pd_put(w.open[0], pd_text("k"), pd_text("x"), NULL, NULL, &w.err);
  set_full(false);
  assert_int_not_equal(code, PD_OK);
  want(&w, "old");
  put(&w, w.open[0], "room");
  want_one(&w, w.open[0], "a", "room");
  assert_false(has_file(&w, ".joint"));
  end_world(&w);
}

static void joint__a_commit_that_cannot_be_written_is_none(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  signal(SIGXFSZ, SIG_IGN);
  pd_joint *joint = begin(&w);
  put_all(&w, joint, "new");
  set_full(true);
  pd_code code = pd_joint_commit(joint, &w.err);
  set_full(false);
  assert_int_not_equal(code, PD_OK);
  want(&w, "old");
  end_world(&w);
}

static void joint__what_it_refuses(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  pd_joint *joint = NULL;
  pd_store *s = NULL;
  const char *const absent[] = {"a", "nobody"}, *const wrong[] = {"../x"};
  assert_int_equal(pd_joint_begin("memory:x", names, COUNT, "test", &joint, &w.err), PD_UNSUPPORTED);
  assert_int_equal(pd_joint_begin("nowhere:x", names, COUNT, "test", &joint, &w.err), PD_INVALID);
  assert_int_equal(pd_joint_begin(w.uri, absent, 2, "test", &joint, &w.err), PD_NOT_FOUND);
  assert_int_equal(pd_joint_begin(w.uri, wrong, 1, "test", &joint, &w.err), PD_INVALID);
  assert_int_equal(pd_joint_begin(w.uri, names, 1, "two\nlines", &joint, &w.err), PD_INVALID);
  want(&w, "old");
  for (size_t i = 0; i < COUNT; i++) put(&w, w.open[i], "old"); /* no fence is left */
  assert_int_equal(pd_joint_begin(w.uri, names, 2, "test", &joint, &w.err), PD_OK);
  pd_options options = {.must_exist = true, .joint = joint};
  assert_int_equal(pd_store_open(w.uri, "c", &options, &s, &w.err), PD_INVALID);
  assert_int_equal(pd_store_open("sqlite:/elsewhere", "a", &options, &s, &w.err), PD_INVALID);
  put(&w, w.open[2], "old"); /* who takes no part does not wait */
  pd_joint_abort(joint);
  end_world(&w);
}

static void joint__a_damaged_file_is_reported_and_nothing_is_written(void **state)
{
  (void)state;
  world w;
  begin_world(&w);
  die_inside(&w, COUNT);
  write_byte(&w, ".joint", 16, 'X');
  assert_int_equal(pd_put(w.open[0], pd_text("k"), pd_text("x"), NULL, NULL, &w.err), PD_CORRUPT);
  assert_non_null(strstr(w.err.message, ".joint is damaged"));
  write_byte(&w, ".joint", 16, 'P');
  want(&w, "old");
  end_world(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(joint__all_stores_change_at_the_commit_and_none_before),
    cmocka_unit_test(joint__an_abort_leaves_nothing),
    cmocka_unit_test(joint__a_process_killed_before_its_commit_has_changed_nothing),
    cmocka_unit_test(joint__a_writer_cleans_up_after_a_dead_process_without_opening_anything),
    cmocka_unit_test(joint__a_process_killed_right_after_its_decision_has_changed_all),
    cmocka_unit_test(joint__published_and_not_yet_cleaned_up_is_new_for_everybody),
    cmocka_unit_test(joint__after_a_loss_of_power_the_file_alone_says_it),
    cmocka_unit_test(joint__a_writer_waits_and_then_writes_upon_the_new_state),
    cmocka_unit_test(joint__buffered_writes_that_were_acknowledged_come_before_it),
    cmocka_unit_test(joint__begin_does_not_wait_for_a_stopped_process_with_buffered_writes),
    cmocka_unit_test(joint__begin_does_not_wait_for_one_that_stopped_in_a_write),
    cmocka_unit_test(joint__begins_beside_one_that_buffers_without_a_pause),
    cmocka_unit_test(joint__a_reader_without_a_lock_file_sees_none_of_it_either),
    cmocka_unit_test(joint__out_of_space_the_old_state_stays_and_can_be_read),
    cmocka_unit_test(joint__a_commit_that_cannot_be_written_is_none),
    cmocka_unit_test(joint__what_it_refuses),
    cmocka_unit_test(joint__a_damaged_file_is_reported_and_nothing_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
