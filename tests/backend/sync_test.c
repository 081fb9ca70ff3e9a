/*
 * sync_test.c: a sync that failed is final (B19, src/backend/sqlite_sick.c). Syncs fail as they do on Linux: support/power_vfs.h.
 */
#include "backend/sqlite_files.h"
#include "backend/sync_world.h"

#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOB_SIZE 20000

static pd_id make_blob(uint64_t number, uint8_t out[BLOB_SIZE])
{
  for (size_t i = 0; i < BLOB_SIZE; i++) out[i] = (uint8_t)(number * 7 + i * 13);
  memcpy(out, &number, sizeof number);
  return pd_value_id((pd_bytes){out, BLOB_SIZE});
}

static pd_code put_blob(world *w, uint64_t number, pd_error *err)
{
  static uint8_t bytes[BLOB_SIZE];
  pd_id id = make_blob(number, bytes);
  pd_bytes blob = {bytes, BLOB_SIZE};
  return w->b->ops->bag_put(w->b, &id, &blob, 1, err);
}

static bool has_blob(world *w, uint64_t number)
{
  static uint8_t bytes[BLOB_SIZE];
  pd_id id = make_blob(number, bytes);
  pd_buf out = {0};
  bool is_there = w->b->ops->bag_get(w->b, &id, &out, NULL) == PD_OK && out.size == BLOB_SIZE && memcmp(out.data, bytes, BLOB_SIZE) == 0;
  pd_buf_done(&out);
  return is_there;
}

static pd_code append_text(world *w, uint64_t seq, const char *text, pd_error *err)
{
  pd_bytes record = pd_text(text);
  return w->b->ops->log_append(w->b, seq, &record, 1, err);
}

static void expect_refused(pd_backend *b)
{
  pd_error err = {0};
  pd_id id = pd_value_id(pd_text("x"));
  pd_bytes bytes = pd_text("x");
  uint64_t mark = 0;
  assert_int_equal(b->ops->health(b, &err), PD_STORAGE);
  assert_non_null(strstr(err.message, "a sync of"));
  assert_non_null(strstr(err.message, "writes are refused until every process has closed the store"));
  assert_int_equal(append_some(b, 1, &err), PD_STORAGE);
  assert_non_null(strstr(err.message, "writes are refused"));
  assert_int_equal(b->ops->bag_put(b, &id, &bytes, 1, &err), PD_STORAGE);
  assert_int_equal(b->ops->log_redact(b, 1, &bytes, 1, &err), PD_STORAGE);
  assert_int_equal(b->ops->bag_mark(b, &mark, &err), PD_STORAGE);
  assert_int_equal(b->ops->compact(b, &err), PD_STORAGE);
  assert_int_equal(read_all(b, &err), PD_OK); /* what is there can be read */
}

/* ---- the instrument ------------------------------------------------------------------------------------------------ */

static int exec_on(sqlite3 *db, const char *sql)
{
  return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* SQLite by itself: bytes that a failed sync lost are acknowledged by later ones, and gone when the power is. */
static void sync__the_test_file_system_loses_what_a_failed_sync_should_have_written(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *path = file_in(folder, "t.db");
  sqlite3 *db = NULL;
  sqlite3_stmt *count = NULL;
  power_vfs_install();
  assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "powercut"), SQLITE_OK);
  assert_int_equal(exec_on(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t(x); INSERT INTO t VALUES(1)"), SQLITE_OK);
  assert_int_equal(exec_on(db, "PRAGMA synchronous=NORMAL; INSERT INTO t VALUES(randomblob(20000)); PRAGMA synchronous=FULL"), SQLITE_OK);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_not_equal(exec_on(db, "INSERT INTO t VALUES(3)"), SQLITE_OK);
  assert_true(power_vfs_sync_failed());
  assert_int_equal(exec_on(db, "INSERT INTO t VALUES(4); INSERT INTO t VALUES(5)"), SQLITE_OK);
  power_vfs_cut(1);
  sqlite3_close(db);
  power_vfs_restore();
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &count, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(count), SQLITE_ROW);
  assert_int_equal(sqlite3_column_int(count, 0), 1);
  sqlite3_finalize(count);
  sqlite3_close(db);
  free(path);
  temp_folder_free(folder);
}

/* ---- one failure --------------------------------------------------------------------------------------------------- */

static void sync__after_a_failed_append_no_handle_writes_and_all_of_them_read(void **state)
{
  (void)state;
  world w = {0};
  pd_error err = {0};
  make_world(&w);
  pd_backend *other = open_main(w.uri, 0, PD_OK, NULL);
  assert_int_equal(append_some(w.b, 3, NULL), PD_OK);
  assert_int_equal(append_some(other, 3, NULL), PD_OK);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_equal(append_some(w.b, 1, &err), PD_STORAGE);
  assert_non_null(strstr(err.message, "a sync of its -wal file failed"));
  expect_refused(w.b);
  expect_refused(other);
  assert_int_equal(tail_of(other), 6);
  other->ops->close(other);
  expect_refused(w.b);
  world_done(&w);
}

/* The frames of a bag_put are covered by the next sync only: if that fails, nothing behind them may be acknowledged. */
static void sync__nothing_is_acknowledged_behind_a_blob_whose_sync_failed(void **state)
{
  (void)state;
  world w = {0};
  make_world(&w);
  assert_int_equal(append_text(&w, 1, "one", NULL), PD_OK);
  assert_int_equal(put_blob(&w, 1, NULL), PD_OK);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_equal(append_text(&w, 2, "two", NULL), PD_STORAGE);
  assert_int_equal(append_text(&w, 2, "two", NULL), PD_STORAGE);
  lose_power(&w, 3);
  assert_int_equal(tail_of(w.b), 1);
  assert_int_equal(w.b->ops->health(w.b, NULL), PD_OK); /* what is read now is what the disk has */
  assert_int_equal(append_text(&w, 2, "two", NULL), PD_OK);
  lose_power(&w, 4);
  assert_int_equal(tail_of(w.b), 2);
  world_done(&w);
}

static void fail_in_checkpoint(const char *suffix)
{
  world w = {0};
  uint64_t acknowledged = 0;
  make_world(&w);
  for (uint64_t seq = 1; seq < 1500 && !power_vfs_sync_failed(); seq++) {
    assert_int_equal(put_blob(&w, seq, NULL), PD_OK);
    if (power_vfs_sync_failed()) break; /* the checkpoint was the blob's */
    assert_int_equal(append_text(&w, seq, "acknowledged", NULL), PD_OK);
    acknowledged = seq;
    if (seq == 5) power_vfs_fail_sync(suffix, 1, 0);
  }
  assert_true(power_vfs_sync_failed());
  expect_refused(w.b);
  lose_power(&w, 5);
  assert_int_equal(tail_of(w.b), acknowledged);
  for (uint64_t i = 1; i <= acknowledged; i++) assert_true(has_blob(&w, i));
  world_done(&w);
}

static void sync__a_failed_sync_of_the_database_in_a_checkpoint_is_final(void **state)
{
  (void)state;
  fail_in_checkpoint(".db");
}

static void sync__a_failed_checkpoint_at_close_is_final(void **state)
{
  (void)state;
  static const char *const suffixes[] = {".db", "-wal"};
  for (size_t i = 0; i < 2; i++) {
    world w = {0};
    make_world(&w);
    assert_int_equal(append_text(&w, 1, "one", NULL), PD_OK);
    assert_int_equal(put_blob(&w, 1, NULL), PD_OK); /* not synced yet */
    pd_backend *other = open_main(w.uri, PD_BACKEND_OPEN_READ_ONLY, PD_OK, NULL);
    other->ops->close(other);
    power_vfs_fail_sync(suffixes[i], 1, 0);
    close_world(&w);
    assert_true(power_vfs_sync_failed());
    open_world(&w); /* heals */
    assert_int_equal(w.b->ops->health(w.b, NULL), PD_OK);
    assert_int_equal(append_text(&w, 2, "two", NULL), PD_OK);
    assert_true(has_blob(&w, 1));
    lose_power(&w, 6);
    assert_int_equal(tail_of(w.b), 2);
    assert_true(has_blob(&w, 1));
    world_done(&w);
  }
}

static void sync__a_store_is_written_again_once_all_handles_were_closed(void **state)
{
  (void)state;
  world w = {0};
  make_world(&w);
  pd_backend *other = open_main(w.uri, 0, PD_OK, NULL);
  assert_int_equal(append_text(&w, 1, "one", NULL), PD_OK);
  assert_int_equal(put_blob(&w, 1, NULL), PD_OK);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_equal(append_text(&w, 2, "lost", NULL), PD_STORAGE);
  close_world(&w);
  open_world(&w); /* not alone: still sick */
  expect_refused(w.b);
  other->ops->close(other);
  expect_refused(w.b);
  close_world(&w);
  open_world(&w);
  assert_int_equal(w.b->ops->health(w.b, NULL), PD_OK);
  assert_int_equal(tail_of(w.b), 1);
  assert_true(has_blob(&w, 1)); /* read from the cache, and written anew */
  assert_int_equal(append_text(&w, 2, "two", NULL), PD_OK);
  lose_power(&w, 7);
  assert_int_equal(tail_of(w.b), 2);
  assert_true(has_blob(&w, 1));
  world_done(&w);
}

/* A read-only handle neither heals nor refuses to read. */
static void sync__a_sick_store_can_be_read_by_a_read_only_handle(void **state)
{
  (void)state;
  world w = {0};
  make_world(&w);
  assert_int_equal(append_some(w.b, 2, NULL), PD_OK);
  power_vfs_fail_sync("-wal", 1, 0);
  assert_int_equal(append_some(w.b, 1, NULL), PD_STORAGE);
  close_world(&w);
  w.b = open_main(w.uri, PD_BACKEND_OPEN_READ_ONLY, PD_OK, NULL);
  assert_int_equal(w.b->ops->health(w.b, NULL), PD_STORAGE);
  assert_int_equal(read_all(w.b, NULL), PD_OK);
  close_world(&w);
  open_world(&w);
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  world_done(&w);
}

/* Healing itself meets a failed sync: the store stays sick and readable, and the next open tries again. */
static void sync__healing_that_fails_is_tried_again(void **state)
{
  (void)state;
  static const char *const suffixes[] = {"-wal.new", "/", "-wal", ".db"};
  for (size_t i = 0; i < 4; i++) {
    world w = {0};
    make_world(&w);
    assert_int_equal(append_text(&w, 1, "one", NULL), PD_OK);
    assert_int_equal(put_blob(&w, 1, NULL), PD_OK);
    power_vfs_fail_sync("-wal", 1, 0);
    assert_int_equal(append_text(&w, 2, "lost", NULL), PD_STORAGE);
    close_world(&w);
    power_vfs_fail_sync(suffixes[i], 1, 0);
    open_world(&w);
    assert_true(power_vfs_sync_failed());
    expect_refused(w.b);
    close_world(&w);
    open_world(&w);
    assert_int_equal(append_text(&w, 2, "two", NULL), PD_OK);
    lose_power(&w, i);
    assert_int_equal(tail_of(w.b), 2);
    assert_true(has_blob(&w, 1));
    world_done(&w);
  }
}

/* ---- errors that must not come back -------------------------------------------------------------------------------- */

/* In a child: an append whose sync fails, then death without a word. */
static void append_and_die(const world *w, uint64_t n)
{
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    world child = {.uri = w->uri};
    open_world(&child);
    power_vfs_fail_sync("-wal", n, 0);
    if (append_text(&child, 3, "ghost", NULL) != PD_STORAGE) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void sync__an_append_that_failed_is_not_there_after_the_process_was_killed(void **state)
{
  (void)state;
  for (uint64_t n = 1; n <= 2; n++) { /* the sync of a new WAL's header, and that of the commit */
    world w = {0};
    make_world(&w);
    assert_int_equal(append_some(w.b, 2, NULL), PD_OK);
    close_world(&w);
    append_and_die(&w, n);
    open_world(&w);
    assert_int_equal(tail_of(w.b), 2);
    assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
    world_done(&w);
  }
}

/* Whatever of the failed sync reached the disk. */
static void sync__an_append_that_failed_is_not_there_after_a_loss_of_power(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    world w = {0};
    make_world(&w);
    assert_int_equal(append_some(w.b, 2, NULL), PD_OK);
    if (seed % 2) assert_int_equal(put_blob(&w, 1, NULL), PD_OK);
    power_vfs_fail_sync("-wal", 1, seed);
    assert_int_equal(append_some(w.b, 1, NULL), PD_STORAGE);
    lose_power(&w, seed);
    if (tail_of(w.b) != 2) fail_msg("seed %llu: the record that was refused is there", (unsigned long long)seed);
    world_done(&w);
  }
}

/* Nothing can be written any more, not even over the frames that stand there. */
static void sync__an_append_that_may_come_back_says_that_its_outcome_is_unknown(void **state)
{
  (void)state;
  bool was_unknown = false, was_there = false;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    world w = {0};
    pd_error err = {0};
    make_world(&w);
    assert_int_equal(append_some(w.b, 2, NULL), PD_OK);
    uint64_t before = power_vfs_calls();
    assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
    power_vfs_cut_after(power_vfs_calls() - before, seed); /* in the sync, the last of an append's calls */
    pd_code code = append_some(w.b, 1, &err);
    assert_true(power_vfs_is_cut());
    assert_int_equal(code, PD_OUTCOME_UNKNOWN);
    assert_non_null(strstr(err.message, "may be there when the store is opened again"));
    was_unknown = true;
    lose_power(&w, seed);
    was_there = was_there || tail_of(w.b) == 4;
    world_done(&w);
  }
  assert_true(was_unknown && was_there);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static void sync__a_store_whose_folder_cannot_be_synced_is_not_made(void **state)
{
  (void)state;
  char *folder = temp_folder_new();
  pd_error err = {0};
  power_vfs_fail_sync("/", 1, 0);
  open_main(folder, PD_BACKEND_CREATE, PD_STORAGE, &err);
  assert_true(power_vfs_sync_failed());
  assert_non_null(strstr(err.message, "cannot sync the folder"));
  open_main(folder, 0, PD_NOT_FOUND, NULL);
  make_store(folder, 3);
  temp_folder_free(folder);
}

static void sync__the_first_append_into_a_new_wal_syncs_its_name_or_says_that_it_does_not_know(void **state)
{
  (void)state;
  world w = {0};
  pd_error err = {0};
  make_world(&w);
  power_vfs_fail_sync("/", 1, 0);
  assert_int_equal(append_text(&w, 1, "one", &err), PD_OUTCOME_UNKNOWN);
  assert_true(power_vfs_sync_failed());
  assert_int_equal(w.b->ops->health(w.b, &err), PD_STORAGE);
  assert_non_null(strstr(err.message, "a sync of its folder failed"));
  close_world(&w);
  open_world(&w);
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  world_done(&w);
}

static void sync__a_lock_file_that_cannot_be_synced_keeps_the_store_sick_all_the_same(void **state)
{
  (void)state;
  world w = {0};
  make_world(&w);
  assert_int_equal(append_some(w.b, 1, NULL), PD_OK);
  power_vfs_fail_syncs("", 1, 3, 0); /* the commit's, that of what buries it, msync */
  assert_int_equal(append_some(w.b, 1, NULL), PD_OUTCOME_UNKNOWN);
  expect_refused(w.b);
  world_done(&w);
}

/* ---- every sync ---------------------------------------------------------------------------------------------------- */

#define RECORDS 90 /* past the growing of the WAL */

typedef struct ledger {
  uint64_t acknowledged; /* the last number that was */
  uint64_t unknown;      /* the number whose outcome is unknown, 0: none */
  bool has_error;
} ledger;

/* Blobs and records, with a life in between, until the first error; then a few more tries, which must all be refused. */
static void work(world *w, ledger *l)
{
  static uint8_t large[60000];
  for (uint64_t seq = l->acknowledged + 1; seq <= RECORDS; seq++) {
    pd_bytes record = {large, seq % 5 ? 40 : sizeof large};
    if (seq == RECORDS / 2) {
      close_world(w);
      open_world(w);
    }
    memcpy(large, &seq, sizeof seq);
    pd_code code = seq % 3 ? PD_OK : put_blob(w, seq, NULL);
    if (code == PD_OK) code = w->b->ops->log_append(w->b, seq, &record, 1, NULL);
    if (code == PD_OK) {
      l->acknowledged = seq;
      continue;
    }
    if (code == PD_OUTCOME_UNKNOWN) l->unknown = seq;
    l->has_error = true;
    for (int i = 0; i < 3; i++) assert_int_equal(append_some(w->b, 1, NULL), PD_STORAGE);
    return;
  }
}

static void check_ledger(world *w, const ledger *l, uint64_t n)
{
  uint64_t tail = tail_of(w->b);
  if (tail != l->acknowledged && !(l->unknown && tail == l->unknown))
    fail_msg("sync %llu: %llu records, %llu were acknowledged", (unsigned long long)n, (unsigned long long)tail,
             (unsigned long long)l->acknowledged);
  assert_int_equal(read_all(w->b, NULL), PD_OK);
  for (uint64_t seq = 3; seq <= l->acknowledged; seq += 3)
    if (!has_blob(w, seq)) fail_msg("sync %llu: the blob of record %llu is gone", (unsigned long long)n, (unsigned long long)seq);
}

static void fail_on_finding(void *ctx, const char *what)
{
  fail_msg("sync %llu: %s", (unsigned long long)*(uint64_t *)ctx, what);
}

typedef enum ending { DARK, REOPENED, EVICTED, ENDINGS } ending;

/* The n-th sync fails. False if there are not so many. */
static bool fail_and_end(uint64_t n, ending end, uint64_t seed)
{
  world w = {0};
  ledger l = {0};
  make_world(&w);
  power_vfs_fail_sync("", n, seed);
  work(&w, &l);
  bool has_failed = power_vfs_sync_failed();
  if (end == DARK) lose_power(&w, n + seed);
  if (end != DARK) close_world(&w);
  if (end == EVICTED) power_vfs_evict(); /* the cache forgets what the disk never had, before the store is opened again */
  if (end != DARK) open_world(&w);
  check_ledger(&w, &l, n);
  l = (ledger){.acknowledged = tail_of(w.b)};
  assert_int_equal(w.b->ops->health(w.b, NULL), PD_OK);
  work(&w, &l);
  assert_false(l.has_error);
  lose_power(&w, n + seed + 1);
  check_ledger(&w, &l, n);
  assert_int_equal(w.b->ops->check(w.b, fail_on_finding, &n, NULL), PD_OK);
  world_done(&w);
  return has_failed;
}

static void sync__any_sync_may_fail_once_and_nothing_acknowledged_is_lost(void **state)
{
  (void)state;
  uint64_t syncs = 0;
  for (int end = 0; end < ENDINGS; end++) {
    uint64_t n = 1;
    while (fail_and_end(n, (ending)end, n % 2 ? 0 : n)) n++;
    syncs = n - 1;
  }
  printf("# %llu syncs failed, %d endings each\n", (unsigned long long)syncs, ENDINGS);
  assert_true(syncs > RECORDS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sync__the_test_file_system_loses_what_a_failed_sync_should_have_written),
    cmocka_unit_test(sync__after_a_failed_append_no_handle_writes_and_all_of_them_read),
    cmocka_unit_test(sync__nothing_is_acknowledged_behind_a_blob_whose_sync_failed),
    cmocka_unit_test(sync__a_failed_sync_of_the_database_in_a_checkpoint_is_final),
    cmocka_unit_test(sync__a_failed_checkpoint_at_close_is_final),
    cmocka_unit_test(sync__a_store_is_written_again_once_all_handles_were_closed),
    cmocka_unit_test(sync__a_sick_store_can_be_read_by_a_read_only_handle),
    cmocka_unit_test(sync__healing_that_fails_is_tried_again),
    cmocka_unit_test(sync__an_append_that_failed_is_not_there_after_the_process_was_killed),
    cmocka_unit_test(sync__an_append_that_failed_is_not_there_after_a_loss_of_power),
    cmocka_unit_test(sync__an_append_that_may_come_back_says_that_its_outcome_is_unknown),
    cmocka_unit_test(sync__a_store_whose_folder_cannot_be_synced_is_not_made),
    cmocka_unit_test(sync__the_first_append_into_a_new_wal_syncs_its_name_or_says_that_it_does_not_know),
    cmocka_unit_test(sync__a_lock_file_that_cannot_be_synced_keeps_the_store_sick_all_the_same),
    cmocka_unit_test(sync__any_sync_may_fail_once_and_nothing_acknowledged_is_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
