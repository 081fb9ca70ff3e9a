/*
 * sick_test.c: a store whose disk failed a sync, and a buffered store whose disk is full: what was answered an error does not happen later.
 */
#include "support/fault_backend.h"
#include "support/power_vfs.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static pd_store *open_store(const char *uri, uint32_t flush_ms)
{
  pd_store *s = NULL;
  pd_error err = {0};
  pd_options options = {.flush_ms = flush_ms};
  if (pd_store_open(uri, "main", &options, &s, &err) != PD_OK) fail_msg("%s", err.message);
  return s;
}

static pd_code put(pd_store *s, const char *key, const char *value, pd_error *err)
{
  return pd_put(s, pd_text(key), pd_text(value), NULL, NULL, err);
}

static bool has(pd_store *s, const char *at, const char *key)
{
  return pd_get(s, at, pd_text(key), NULL, NULL, NULL) == PD_OK;
}

static bool has_ref(pd_store *s, const char *name)
{
  pd_ref ref;
  return pd_ref_get(s, name, &ref, NULL) == PD_OK;
}

/* ---- buffered, and the disk is full -------------------------------------------------------------------------------- */

static void fill_disk(void)
{
  fault_backend_plan((fault_plan){.at = 1, .count = UINT64_MAX, .code = PD_FULL, .ops = FAULT_LOG_APPEND});
}

static void free_disk(void)
{
  fault_backend_plan((fault_plan){0});
}

static pd_store *open_buffered(void)
{
  fault_backend_install();
  free_disk();
  pd_store *s = open_store("fault:memory:", 600000);
  assert_int_equal(put(s, "a", "1", NULL), PD_OK);
  assert_int_equal(put(s, "a", "2", NULL), PD_OK);
  assert_int_equal(pd_fork(s, "side", "main", NULL, NULL, NULL), PD_OK);
  return s;
}

static void buffered__a_fork_that_was_refused_does_not_happen_when_there_is_space_again(void **state)
{
  (void)state;
  pd_store *s = open_buffered();
  fill_disk();
  assert_int_equal(pd_fork(s, "x", "main", NULL, NULL, NULL), PD_FULL);
  assert_false(has_ref(s, "x"));
  free_disk();
  assert_int_equal(put(s, "b", "1", NULL), PD_OK);
  assert_int_equal(pd_store_flush(s, NULL), PD_OK);
  assert_false(has_ref(s, "x"));
  assert_int_equal(pd_fork(s, "x", "main", NULL, NULL, NULL), PD_OK); /* and can be made */
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* Whoever repeats a refused undo, reset or switch does it once. */
static void buffered__other_moves_that_were_refused_do_not_happen_later(void **state)
{
  (void)state;
  pd_store *s = open_buffered();
  fill_disk();
  assert_int_equal(pd_undo(s, 1, NULL, NULL, NULL), PD_FULL);
  assert_int_equal(pd_reset(s, "side", "main~1", NULL, NULL, NULL), PD_FULL);
  assert_int_equal(pd_switch(s, "side", NULL, NULL), PD_FULL);
  assert_int_equal(pd_ref_delete(s, "side", NULL, NULL), PD_FULL);
  free_disk();
  assert_int_equal(pd_store_flush(s, NULL), PD_OK);
  assert_string_equal(pd_store_ref(s), "main");
  assert_true(has_ref(s, "side"));
  pd_buf value = {0};
  assert_int_equal(pd_get(s, NULL, pd_text("a"), &value, NULL, NULL), PD_OK);
  assert_true(value.size == 1 && value.data[0] == '2');
  pd_buf_done(&value);
  value = (pd_buf){0};
  assert_int_equal(pd_get(s, "side", pd_text("a"), &value, NULL, NULL), PD_OK);
  assert_true(value.size == 1 && value.data[0] == '2');
  pd_buf_done(&value);
  assert_int_equal(pd_undo(s, 1, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* Commits that were acknowledged before a move was refused are written all the same, the move is not. */
static void buffered__commits_before_a_refused_move_are_kept(void **state)
{
  (void)state;
  pd_store *s = open_buffered();
  assert_int_equal(put(s, "kept", "1", NULL), PD_OK);
  fill_disk();
  assert_int_equal(pd_fork(s, "x", "main", NULL, NULL, NULL), PD_FULL);
  assert_int_equal(put(s, "kept2", "1", NULL), PD_OK);
  free_disk();
  assert_int_equal(pd_store_flush(s, NULL), PD_OK);
  assert_true(has(s, NULL, "kept"));
  assert_true(has(s, NULL, "kept2"));
  assert_false(has_ref(s, "x"));
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

static void *put_one(void *ctx)
{
  return (void *)(intptr_t)put(ctx, "behind", "1", NULL);
}

static void *undo_one(void *ctx)
{
  return (void *)(intptr_t)pd_undo(ctx, 1, NULL, NULL, NULL);
}

/* A commit that comes while a move is on its way to the disk waits for it: it would be built on a move that may be taken back. */
static void buffered__a_commit_behind_a_move_that_fails_is_not_lost(void **state)
{
  (void)state;
  pd_store *s = open_buffered();
  pthread_t mover, putter;
  void *moved = NULL, *written = NULL;
  fault_backend_plan((fault_plan){.at = 1, .code = PD_FULL, .ops = FAULT_LOG_APPEND});
  fault_backend_gate(true);
  assert_int_equal(pthread_create(&mover, NULL, undo_one, s), 0);
  fault_backend_await_append();
  assert_int_equal(pthread_create(&putter, NULL, put_one, s), 0);
  fault_backend_gate(false);
  pthread_join(mover, &moved);
  pthread_join(putter, &written);
  assert_int_equal((intptr_t)moved, PD_FULL);
  assert_int_equal((intptr_t)written, PD_OK);
  assert_int_equal(pd_store_flush(s, NULL), PD_OK);
  assert_true(has(s, NULL, "behind"));
  pd_buf value = {0};
  assert_int_equal(pd_get(s, NULL, pd_text("a"), &value, NULL, NULL), PD_OK);
  assert_true(value.size == 1 && value.data[0] == '2');
  pd_buf_done(&value);
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
}

/* ---- a sync that failed -------------------------------------------------------------------------------------------- */

static void sick__a_buffered_store_refuses_at_once_and_flush_and_close_report_it(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s?vfs=powercut", folder);
  pd_error err = {0};
  power_vfs_install();
  pd_store *s = open_store(uri, 600000);
  assert_int_equal(put(s, "safe", "1", NULL), PD_OK);
  assert_int_equal(pd_store_flush(s, NULL), PD_OK);
  assert_int_equal(pd_store_writable(s, NULL), PD_OK);
  assert_int_equal(put(s, "lost", "1", NULL), PD_OK);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_equal(pd_store_flush(s, &err), PD_STORAGE);
  assert_int_equal(pd_store_flush(s, &err), PD_STORAGE); /* and does not succeed later */
  assert_non_null(strstr(err.message, "writes are refused"));
  assert_int_equal(put(s, "later", "1", &err), PD_STORAGE);
  assert_non_null(strstr(err.message, "writes are refused"));
  assert_int_equal(pd_fork(s, "x", "main", NULL, NULL, &err), PD_STORAGE);
  assert_int_equal(pd_store_writable(s, &err), PD_STORAGE);
  assert_true(has(s, NULL, "safe"));
  assert_int_equal(pd_store_close(s, &err), PD_STORAGE);
  s = open_store(uri, 0);
  assert_int_equal(pd_store_writable(s, NULL), PD_OK);
  assert_true(has(s, NULL, "safe"));
  assert_false(has(s, NULL, "lost"));
  assert_false(has(s, NULL, "later"));
  assert_int_equal(put(s, "again", "1", NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  power_vfs_restore();
  free(uri);
  temp_folder_free(folder);
}

static void look_for_sick(void *ctx, const pd_diagnosis *d)
{
  if (d->severity == PD_SEVERITY_ERROR && strstr(d->what, "it takes no writes") && strstr(d->what, "a sync of")) *(bool *)ctx = true;
}

static void sick__doctor_names_the_store(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s?vfs=powercut", folder);
  bool is_named = false;
  pd_severity worst = PD_SEVERITY_OK;
  power_vfs_install();
  pd_store *s = open_store(uri, 0);
  assert_int_equal(put(s, "a", "1", NULL), PD_OK);
  assert_int_equal(pd_doctor(uri, look_for_sick, &is_named, &worst, NULL), PD_OK);
  assert_false(is_named);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_equal(put(s, "b", "1", NULL), PD_STORAGE);
  assert_int_equal(pd_doctor(uri, look_for_sick, &is_named, &worst, NULL), PD_OK);
  assert_true(is_named);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  power_vfs_restore();
  free(uri);
  temp_folder_free(folder);
}

static void sick__a_read_only_handle_says_so(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *s = open_store(uri, 0), *reader = NULL;
  assert_int_equal(put(s, "a", "1", NULL), PD_OK);
  assert_int_equal(pd_store_open(uri, "main", &(pd_options){.is_read_only = true}, &reader, NULL), PD_OK);
  assert_int_equal(pd_store_writable(reader, NULL), PD_READ_ONLY);
  assert_int_equal(pd_store_close(reader, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  free(uri);
  temp_folder_free(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(buffered__a_fork_that_was_refused_does_not_happen_when_there_is_space_again),
    cmocka_unit_test(buffered__other_moves_that_were_refused_do_not_happen_later),
    cmocka_unit_test(buffered__commits_before_a_refused_move_are_kept),
    cmocka_unit_test(buffered__a_commit_behind_a_move_that_fails_is_not_lost),
    cmocka_unit_test(sick__a_buffered_store_refuses_at_once_and_flush_and_close_report_it),
    cmocka_unit_test(sick__doctor_names_the_store),
    cmocka_unit_test(sick__a_read_only_handle_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
