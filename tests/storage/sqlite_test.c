/* sqlite_test.c: sqlite-snapshots: under the contract, and files that are no such database. */
#include "base/base.h"
#include "storage/folder_storage.h"
#include "support/temp_folder.h"

#include <sched.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCHEME "sqlite-snapshots:"

static char *uri_new(void)
{
  return folder_uri_new(SCHEME, "snapshots.db");
}

static void uri_destroy(const char *uri)
{
  folder_uri_destroy(uri, SCHEME);
}

static void run_sql(const char *path, const char *sql)
{
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  sqlite3_close(db);
}

static void expect_untouched(const char *folder, const char *says)
{
  char *path = text_of("%s/a.db", folder), *uri = text_of(SCHEME "%s", path);
  size_t before, after;
  char *was = read_text(path, &before);
  storage_open_refused(uri, PD_FORMAT, says);
  char *is = read_text(path, &after);
  assert_int_equal(before, after);
  assert_memory_equal(was, is, before);
  free(was), free(is), free(uri), free(path);
}

static void sqlite__foreign_files_are_refused_and_not_touched(void **state)
{
  char *path = text_of("%s/a.db", (char *)*state);
  write_text(path, "this is a text and no database, and it is long enough to be looked at as one: it has more than a hundred bytes", 110);
  expect_untouched(*state, "a.db");
  remove(path);
  run_sql(path, "CREATE TABLE mine(a)");
  expect_untouched(*state, "not one of snapshots");
  remove(path);
  run_sql(path, "PRAGMA application_id=1346655059; PRAGMA user_version=2; CREATE TABLE agent_snapshots(a)");
  expect_untouched(*state, "format 2");
  storage_open_refused(SCHEME, PD_INVALID, "names no file");
  free(path);
}

static void sqlite__rows_that_are_no_snapshot_are_refused_and_kept(void **state)
{
  char *path = text_of("%s/a.db", (char *)*state), *uri = text_of(SCHEME "%s", path);
  char *x = snapshot_new("x", 1, 1), *y = snapshot_new("y", 1, 1);
  pd_storage *s = storage_open(uri);
  storage_save(s, "x", x);
  storage_save(s, "y", y);
  pd_storage_close(s);
  run_sql(path, "UPDATE agent_snapshots SET snapshot=(SELECT snapshot FROM agent_snapshots WHERE agent_id='y') WHERE agent_id='x';"
                "INSERT INTO agent_snapshots VALUES('z',1,1,'s',substr((SELECT snapshot FROM agent_snapshots WHERE agent_id='y'),1,40))");
  s = storage_open(uri);
  storage_load_refused(s, "x", PD_CORRUPT, "is of agent 'y', not of 'x'");
  storage_save_refused(s, "x", x, PD_CORRUPT, "it is not overwritten");
  storage_load_refused(s, "z", PD_CORRUPT, "no sound snapshot");
  storage_expect(s, "y", y);
  assert_int_equal(pd_storage_delete(s, "x", NULL), PD_OK);
  storage_save(s, "x", x);
  storage_expect(s, "x", x);
  pd_storage_close(s);
  free(x), free(y), free(uri), free(path);
}

/* A byte of the file is another one: the snapshot is refused, or is what it was; never something else, and never nothing. */
static void sqlite__every_flipped_byte_is_noticed_or_harmless(void **state)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  char *path = text_of("%s/a.db", (char *)*state), *copy = text_of("%s/b.db", (char *)*state), *uri = text_of(SCHEME "%s", path),
       *copy_uri = text_of(SCHEME "%s", copy), *document = snapshot_new("x", 12, 8), *wal = text_of("%s-wal", copy);
  pd_storage *s = storage_open(uri);
  uint64_t epoch;
  assert_int_equal(pd_storage_claim(s, "x", &epoch, NULL), PD_OK);
  storage_save(s, "x", document);
  pd_storage_close(s);
  size_t size, refused = 0;
  char *sound = read_text(path, &size);
  for (size_t at = 0; at < size; at++) {
    pd_error err = {0};
    char was = sound[at];
    if (!was && at % 16) continue; /* most of these are in no page's use */
    sound[at] = (char)(was ^ 1 << at % 8);
    write_text(copy, sound, size);
    sound[at] = was;
    s = NULL;
    pd_code code = pd_storage_open(copy_uri, &s, &err);
    if (!code) code = pd_storage_load(s, "x", &got, &err);
    if (code == PD_NOT_FOUND) fail_msg("byte %zu: %s", at, err.message);
    if (code == PD_OK) expect_same_meaning((pd_bytes){got.data, got.size}, pd_text(document));
    refused += code != PD_OK;
    pd_storage_close(s);
    remove(wal);
  }
  assert_true(refused >= strlen(document));
  free(sound), free(path), free(copy), free(uri), free(copy_uri), free(document), free(wal);
}

static void sqlite__opening_and_reading_make_nothing(void **state)
{
  char *path = text_of("%s/deep/a.db", (char *)*state), *deep = text_of("%s/deep", (char *)*state), *uri = text_of(SCHEME "%s", path),
       *x = snapshot_new("x", 1, 1);
  uint64_t epoch = 7;
  pd_storage *s = storage_open(uri), *other = storage_open(uri);
  storage_expect(s, "x", NULL);
  assert_int_equal(pd_storage_epoch(s, "x", &epoch, NULL), PD_OK);
  assert_int_equal(epoch, 0);
  assert_int_equal(pd_storage_delete(s, "x", NULL), PD_NOT_FOUND);
  char *names = storage_names(s);
  assert_string_equal(names, "");
  assert_int_equal(access(deep, F_OK), -1);
  storage_save(s, "x", x);
  storage_expect(other, "x", x); /* which was open before there was a file */
  pd_storage_close(s);
  pd_storage_close(other);
  free(names), free(path), free(deep), free(uri), free(x);
}

#define MAKERS 6
#define MADE 20

static void sqlite__processes_that_make_it_at_once_are_all_served(void **state)
{
  pid_t children[MAKERS];
  unsigned *arrived = mmap(NULL, sizeof *arrived, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(arrived != MAP_FAILED);
  int failed = 0;
  for (unsigned i = 0; i < MAKERS; i++) {
    children[i] = fork();
    assert_true(children[i] >= 0);
    if (children[i]) continue;
    for (unsigned n = 0; n < MADE; n++) {
      pd_storage *s = NULL;
      pd_error err = {0};
      uint64_t epoch;
      char *uri = text_of(SCHEME "%s/%u/a.db", (char *)*state, n);
      __atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST);
      while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < (n + 1) * MAKERS) sched_yield();
      if (pd_storage_open(uri, &s, &err) || pd_storage_claim(s, "x", &epoch, &err)) {
        fprintf(stderr, "# %s\n", err.message);
        failed = 1;
      }
      pd_storage_close(s);
      free(uri);
    }
    _exit(failed);
  }
  for (unsigned i = 0; i < MAKERS; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    failed += status != 0;
  }
  assert_int_equal(failed, 0);
  munmap(arrived, sizeof *arrived);
}

static void sqlite__the_table_can_be_queried_by_others(void **state)
{
  char *path = text_of("%s/deep/er/a.db", (char *)*state), *uri = text_of(SCHEME "%s", path), *x = snapshot_new("x", 42, 1);
  pd_storage *s = storage_open(uri);
  storage_save(s, "x", x);
  sqlite3 *db = NULL;
  sqlite3_stmt *st = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(
                     db, "SELECT tick_index, timestamp, status, json_extract(snapshot,'$.tick_index') FROM agent_snapshots", -1, &st, NULL),
                   0);
  assert_int_equal(sqlite3_step(st), SQLITE_ROW);
  assert_int_equal(sqlite3_column_int64(st, 0), 42);
  assert_int_equal(sqlite3_column_int64(st, 1), 1706582400000);
  assert_string_equal((const char *)sqlite3_column_text(st, 2), "WAITING_FOR_EVENT");
  assert_int_equal(sqlite3_column_int64(st, 3), 42);
  sqlite3_finalize(st);
  sqlite3_close(db);
  pd_storage_close(s);
  struct stat is;
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 07777, 0600);
  free(x), free(uri), free(path);
}

static void sqlite__a_full_disk_loses_nothing(void **state)
{
  (void)state;
  expect_full_disk_is_survived(SCHEME, "a.db");
}

int main(void)
{
  static const storage_contract_target target = {"sqlite", uri_new, uri_destroy, false, PD_LASTS_POWER};
  static const struct CMUnitTest own[] = {
    cmocka_unit_test_setup_teardown(sqlite__foreign_files_are_refused_and_not_touched, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(sqlite__rows_that_are_no_snapshot_are_refused_and_kept, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(sqlite__every_flipped_byte_is_noticed_or_harmless, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(sqlite__opening_and_reading_make_nothing, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(sqlite__processes_that_make_it_at_once_are_all_served, folder_set_up, folder_tear_down),
    cmocka_unit_test_setup_teardown(sqlite__the_table_can_be_queried_by_others, folder_set_up, folder_tear_down),
    cmocka_unit_test(sqlite__a_full_disk_loses_nothing),
  };
  return storage_contract_run(&target, own, COUNT_OF(own));
}
