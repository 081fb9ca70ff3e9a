/* joint_sync_test.c: joint commits (B20) on a disk whose syncs fail: J6 and J7 of src/backend/sqlite_joint.h. */
#include "backend/sync_world.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const pair[] = {"main", "other"};

static void *begin_joint(const world *w)
{
  void *joint = NULL;
  pd_error err = {0};
  if (w->b->ops->joint_begin(w->uri, pair, 2, "test", &joint, &err)) fail_msg("begin: %s", err.message);
  return joint;
}

static pd_backend *open_store(const world *w, const char *name)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  if (w->b->ops->open(w->uri, name, PD_BACKEND_CREATE, &b, &err)) fail_msg("%s: %s", name, err.message);
  return b;
}

/* A record in each store, the one of `main` with a sync that fails, and so does the one that would bury it. */
static void fail_inside(const world *w, void *joint, uint64_t seed)
{
  for (size_t i = 2; i-- > 0;) {
    pd_backend *b = NULL;
    assert_int_equal(w->b->ops->joint_open(joint, pair[i], 0, &b, NULL), PD_OK);
    if (i == 0 && seed % 2) assert_int_equal(append_some(b, 1, NULL), PD_OK); /* a record before it is there for sure */
    if (i == 0) power_vfs_fail_syncs("-wal", 1, 2, seed);
    assert_int_equal(append_some(b, 1, NULL), i == 0 ? PD_OUTCOME_UNKNOWN : PD_OK);
    b->ops->close(b);
  }
}

static void sync__what_a_joint_commit_left_in_a_sick_store_never_comes_back(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    world w = {0};
    make_world(&w);
    pd_backend *other = open_store(&w, "other");
    assert_int_equal(append_some(w.b, 2, NULL), PD_OK);
    void *joint = begin_joint(&w);
    fail_inside(&w, joint, seed);
    w.b->ops->joint_abort(joint);
    assert_int_equal(tail_of(w.b), 2);
    assert_int_equal(append_some(w.b, 1, NULL), PD_STORAGE);
    assert_int_equal(append_some(other, 1, NULL), PD_OK); /* takes no harm from it, and does not wait */
    assert_int_equal(tail_of(other), 1);
    power_vfs_cut(seed);
    other->ops->close(other);
    lose_power(&w, seed);
    if (tail_of(w.b) != 2) fail_msg("seed %llu: main has %llu records", (unsigned long long)seed, (unsigned long long)tail_of(w.b));
    assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
    other = open_store(&w, "other");
    assert_int_equal(tail_of(other), 1);
    other->ops->close(other);
    world_done(&w);
  }
}

static void sync__a_sick_store_takes_part_in_no_joint_commit(void **state)
{
  (void)state;
  world w = {0};
  void *joint = NULL;
  pd_error err = {0};
  make_world(&w);
  pd_backend *other = open_store(&w, "other");
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_equal(append_some(w.b, 1, NULL), PD_STORAGE);
  assert_int_equal(w.b->ops->joint_begin(w.uri, pair, 2, "test", &joint, &err), PD_STORAGE);
  assert_non_null(strstr(err.message, "close it in every process"));
  assert_int_equal(append_some(other, 1, NULL), PD_OK);
  other->ops->close(other);
  world_done(&w);
}

/* The folder's sync fails after .joint was removed, so a loss of power may bring its name back. */
static void sync__records_written_after_a_joint_commit_that_was_given_up_are_not_taken_for_its_own(void **state)
{
  (void)state;
  world w = {0};
  make_world(&w);
  pd_backend *other = open_store(&w, "other");
  char *name = file_in(w.folder, ".joint"), *inode = file_in(w.folder, "inode");
  assert_int_equal(append_some(w.b, 2, NULL), PD_OK);
  void *joint = begin_joint(&w);
  assert_int_equal(link(name, inode), 0);
  power_vfs_fail_sync("/", 2, 0); /* the first is for the names of -wal files */
  w.b->ops->joint_abort(joint);
  assert_true(power_vfs_sync_failed());
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  close_world(&w);
  other->ops->close(other);
  assert_int_equal(rename(inode, name), 0);
  open_world(&w);
  assert_int_equal(tail_of(w.b), 3);
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  assert_int_equal(access(name, F_OK), -1);
  free(name), free(inode);
  world_done(&w);
}

/* In which the decision may or may not have reached the disk: nothing may be cut before that is known (J6). Then the power goes. */
static void lose_decision(char on_disk, bool has_writer)
{
  world w = {0};
  make_world(&w);
  pd_backend *other = open_store(&w, "other");
  char *name = file_in(w.folder, ".joint");
  pd_error err = {0};
  assert_int_equal(append_some(w.b, 2, NULL), PD_OK);
  void *joint = begin_joint(&w);
  for (size_t i = 0; i < 2; i++) {
    pd_backend *b = NULL;
    assert_int_equal(w.b->ops->joint_open(joint, pair[i], 0, &b, NULL), PD_OK);
    assert_int_equal(append_some(b, 3, NULL), PD_OK);
    b->ops->close(b);
  }
  power_vfs_fail_syncs(".joint", 1, 3, 0); /* the decision, its being taken back, and what a writer does before it cuts */
  assert_int_equal(w.b->ops->joint_commit(joint, &err), PD_OUTCOME_UNKNOWN);
  assert_non_null(strstr(err.message, ".joint"));
  assert_true(power_vfs_sync_failed());
  assert_int_equal(tail_of(w.b), 2); /* the old state, until it is settled */
  assert_int_equal(tail_of(other), 0);
  if (has_writer) assert_int_equal(append_some(other, 1, NULL), PD_STORAGE);
  power_vfs_cut(1);
  other->ops->close(other);
  close_world(&w);
  int fd = open(name, O_WRONLY);
  assert_int_equal(pwrite(fd, &on_disk, 1, 16), 1);
  close(fd);
  power_vfs_restore();
  open_world(&w);
  other = open_store(&w, "other");
  assert_int_equal(tail_of(w.b), on_disk == 'C' ? 5 : 2); /* all or nothing */
  assert_int_equal(tail_of(other), on_disk == 'C' ? 3 : 0);
  assert_int_equal(access(name, F_OK), -1);
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  other->ops->close(other);
  free(name);
  world_done(&w);
}

static void sync__a_joint_decision_that_can_neither_be_made_nor_taken_back_is_settled_as_a_whole(void **state)
{
  (void)state;
  lose_decision('C', false);
  lose_decision('P', false);
  lose_decision('C', true);
  lose_decision('P', true);
}

/* Without a loss of power the next writer settles it, and cuts nothing before the disk says that nothing was decided. */
static void sync__a_joint_decision_of_unknown_outcome_is_settled_by_the_next_writer(void **state)
{
  (void)state;
  world w = {0};
  make_world(&w);
  pd_backend *other = open_store(&w, "other");
  char *name = file_in(w.folder, ".joint");
  void *joint = begin_joint(&w);
  pd_backend *b = NULL;
  assert_int_equal(w.b->ops->joint_open(joint, "main", 0, &b, NULL), PD_OK);
  assert_int_equal(append_some(b, 3, NULL), PD_OK);
  b->ops->close(b);
  power_vfs_fail_syncs(".joint", 1, 3, 0);
  assert_int_equal(w.b->ops->joint_commit(joint, NULL), PD_OUTCOME_UNKNOWN);
  assert_int_equal(append_some(other, 1, NULL), PD_STORAGE); /* the third: the disk still cannot say it */
  assert_int_equal(access(name, F_OK), 0);
  assert_int_equal(append_some(other, 1, NULL), PD_OK);
  assert_int_equal(access(name, F_OK), -1);
  assert_int_equal(tail_of(w.b), 0);
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  other->ops->close(other);
  free(name);
  world_done(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sync__what_a_joint_commit_left_in_a_sick_store_never_comes_back),
    cmocka_unit_test(sync__a_sick_store_takes_part_in_no_joint_commit),
    cmocka_unit_test(sync__a_joint_decision_that_can_neither_be_made_nor_taken_back_is_settled_as_a_whole),
    cmocka_unit_test(sync__a_joint_decision_of_unknown_outcome_is_settled_by_the_next_writer),
    cmocka_unit_test(sync__records_written_after_a_joint_commit_that_was_given_up_are_not_taken_for_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
