/*
 * power_test.c: the power-cut VFS has teeth, and the sqlite backend survives them.
 *
 * Seeds are printed when a round fails; POWER_SEED=n POWER_ROUNDS=1 replays one.
 */
#include "support/power_vfs.h"

#include "backend/sqlite_files.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t setting(const char *name, uint64_t otherwise)
{
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- teeth -------------------------------------------------------------------------------------------------------- */

static int take_int(void *out, int columns, char **values, char **names)
{
  (void)columns, (void)names;
  *(int *)out = atoi(values[0]);
  return 0;
}

/* Insert until the power goes; returns how many acknowledged rows are missing when it is back, or -1 if the file is broken. */
static int rows_lost(const char *pragmas, uint64_t seed)
{
  char *folder = temp_folder_new(), *path = file_in(folder, "t.db");
  sqlite3 *db = NULL;
  int acknowledged = 0, found = -1;
  power_vfs_install();
  assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "powercut"), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, pragmas, NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(n INTEGER PRIMARY KEY, x)", NULL, NULL, NULL), SQLITE_OK);
  power_vfs_cut_after(20 + seed % 50, seed);
  while (sqlite3_exec(db, "INSERT INTO t(x) VALUES(randomblob(300))", NULL, NULL, NULL) == SQLITE_OK) acknowledged++;
  assert_true(power_vfs_is_cut());
  sqlite3_close(db);
  power_vfs_restore();
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  sqlite3_exec(db, "SELECT count(*) FROM t", take_int, &found, NULL);
  sqlite3_close(db);
  temp_folder_free(folder);
  free(path);
  return found < 0 ? -1 : found < acknowledged ? acknowledged - found : 0;
}

static void power__without_syncs_acknowledged_rows_are_lost(void **state)
{
  (void)state;
  int lossy = 0;
  for (uint64_t seed = 1; seed <= 30; seed++) lossy += rows_lost("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF", seed) != 0;
  assert_true(lossy >= 15);
}

static void power__wal_with_synchronous_full_loses_nothing(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    int lost = rows_lost("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", seed);
    if (lost) fail_msg("seed %llu lost %d rows", (unsigned long long)seed, lost);
  }
}

/* What a cut leaves of a database that was never synced. */
static uint8_t *file_after_cut(uint64_t seed, size_t *out_size)
{
  char *folder = temp_folder_new(), *path = file_in(folder, "t.db");
  sqlite3 *db = NULL;
  static const char sql[] = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; CREATE TABLE t(x);"
                            "INSERT INTO t VALUES(replace(hex(zeroblob(25000)), '0', 'x'))";
  power_vfs_install();
  assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "powercut"), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  power_vfs_cut(seed);
  assert_int_not_equal(sqlite3_exec(db, "INSERT INTO t VALUES(1)", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
  power_vfs_restore();
  uint8_t *data = read_file(path, out_size);
  temp_folder_free(folder);
  free(path);
  return data;
}

static void power__the_same_seed_leaves_the_same_file(void **state)
{
  (void)state;
  size_t sizes[3];
  uint8_t *first = file_after_cut(42, &sizes[0]), *again = file_after_cut(42, &sizes[1]), *other = file_after_cut(43, &sizes[2]);
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(first, again, sizes[0]);
  assert_true(sizes[0] != sizes[2] || memcmp(first, other, sizes[0]) != 0);
  free(first), free(again), free(other);
}

/* ---- the backend -------------------------------------------------------------------------------------------------- */

typedef struct round {
  char *folder, *uri, *lock;
  uint64_t seed, acknowledged, tried;
} round;

/* Where a child that may die tells what was acknowledged; NULL: nobody asks. */
static uint64_t *told;

static pd_id blob_text(uint64_t seq, uint64_t seed, char out[64])
{
  snprintf(out, 64, "blob %llu of seed %llu", (unsigned long long)seq, (unsigned long long)seed);
  return pd_value_id(pd_text(out));
}

static pd_bytes record_bytes(const round *r, uint64_t seq, uint8_t out[60000])
{
  uint64_t random = r->seed * 1000003 + seq;
  size_t size = power_random(&random) % (r->seed % 3 ? 700 : 60000); /* large ones bring checkpoints */
  for (size_t i = 0; i < size; i++) out[i] = (uint8_t)(seq + i * 13);
  return (pd_bytes){out, size};
}

/* Blobs and records until something fails. A blob is put before each third record, and counts once that is acknowledged. */
static void work_until_dark(round *r, uint64_t most)
{
  static uint8_t bytes[60000];
  pd_backend *b = open_main(r->uri, PD_BACKEND_CREATE, PD_OK, NULL);
  for (uint64_t seq = r->acknowledged + 1; seq <= most; seq++) {
    char text[64];
    pd_id id = blob_text(seq, r->seed, text);
    pd_bytes blob = pd_text(text), record = record_bytes(r, seq, bytes);
    if (seq % 3 == 0 && b->ops->bag_put(b, &id, &blob, 1, NULL) != PD_OK) break;
    r->tried = seq;
    if (b->ops->log_append(b, seq, &record, 1, NULL) != PD_OK) break;
    r->acknowledged = seq;
    if (told) __atomic_store_n(told, seq, __ATOMIC_RELEASE);
  }
  b->ops->close(b);
}

static pd_code expect_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  static uint8_t bytes[60000];
  pd_bytes want = record_bytes(ctx, seq, bytes);
  if (want.size == record.size && (!want.size || memcmp(want.data, record.data, want.size) == 0)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "record %llu has other bytes", (unsigned long long)seq);
}

static void fail_on_finding(void *ctx, const char *what)
{
  const round *r = ctx;
  fail_msg("seed %llu: %s", (unsigned long long)r->seed, what);
}

static void expect_all(round *r)
{
  pd_error err = {0};
  pd_backend *b = open_main(r->folder, 0, PD_OK, NULL);
  uint64_t tail = tail_of(b);
  if (tail < r->acknowledged || tail > r->tried) {
    fail_msg("seed %llu: %llu records of %llu acknowledged, %llu tried", (unsigned long long)r->seed, (unsigned long long)tail,
             (unsigned long long)r->acknowledged, (unsigned long long)r->tried);
  }
  if (b->ops->log_read(b, 1, UINT64_MAX, expect_record, r, &err) != PD_OK)
    fail_msg("seed %llu: %s", (unsigned long long)r->seed, err.message);
  for (uint64_t seq = 3; seq <= tail; seq += 3) {
    char text[64];
    pd_id id = blob_text(seq, r->seed, text);
    pd_buf out = {0};
    if (b->ops->bag_get(b, &id, &out, &err) != PD_OK) fail_msg("seed %llu: %s", (unsigned long long)r->seed, err.message);
    assert_memory_equal(out.data, text, strlen(text));
    pd_buf_done(&out);
  }
  assert_int_equal(b->ops->check(b, fail_on_finding, r, NULL), PD_OK);
  r->acknowledged = r->tried = tail;
  b->ops->close(b);
}

static void survive(uint64_t seed)
{
  char *folder = temp_folder_new();
  round r = {.folder = folder, .uri = text_of("%s?vfs=powercut", folder), .lock = file_in(folder, "main.lock"), .seed = seed};
  uint64_t random = seed;
  power_vfs_install();
  for (int cut = 0; cut < 3; cut++) {
    uint8_t older[4096];
    work_until_dark(&r, r.acknowledged + 20);
    bool has_older = power_lock_file_save(r.lock, older);
    power_vfs_cut_after(15 + power_random(&random) % (cut == 1 ? 1500 : 400), power_random(&random));
    work_until_dark(&r, r.acknowledged + 400);
    power_vfs_cut(power_random(&random)); /* if it was not dark yet */
    power_vfs_restore();
    power_lock_file_tear(r.lock, has_older ? older : NULL, power_random(&random));
    expect_all(&r);
  }
  temp_folder_free(r.folder);
  free(r.uri);
  free(r.lock);
}

static void power__what_the_backend_acknowledged_survives(void **state)
{
  (void)state;
  uint64_t first = setting("POWER_SEED", 1), rounds = setting("POWER_ROUNDS", 20);
  for (uint64_t seed = first; seed < first + rounds; seed++) survive(seed);
}

/* Creating a store: either it is there afterwards, or it is as if it had never been tried. */
static void power__a_cut_while_creating_leaves_a_store_or_none(void **state)
{
  (void)state;
  bool was_created = false;
  power_vfs_install();
  for (uint64_t n = 1; !was_created; n++) {
    char *folder = temp_folder_new(), *uri = text_of("sqlite:%s?vfs=powercut", folder);
    const pd_backend_ops *ops = NULL;
    const char *rest = NULL;
    pd_backend *b = NULL;
    assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_OK);
    power_vfs_cut_after(n, n);
    ops->open(rest, "main", PD_BACKEND_CREATE, &b, NULL);
    was_created = b && !power_vfs_is_cut();
    power_vfs_cut(n);
    ops->close(b);
    power_vfs_restore();
    b = open_main(folder, was_created ? 0 : PD_BACKEND_CREATE, PD_OK, NULL);
    assert_int_equal(append_some(b, 2, NULL), PD_OK);
    b->ops->close(b);
    temp_folder_free(folder);
    free(uri);
    assert_true(n < 1000);
  }
}

/* ---- a process that dies ------------------------------------------------------------------------------------------- */

/* In a child: create, put blobs, append, close; die before the n-th change of a file. True if it lived to the end. */
static bool work_and_die(round *r, uint64_t n, uint64_t *acknowledged)
{
  int status = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    power_vfs_kill_after(n);
    work_until_dark(r, 12);
    _exit(r->acknowledged == 12 ? 0 : 1);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFEXITED(status))
    assert_int_equal(WEXITSTATUS(status), 0);
  else
    assert_int_equal(WTERMSIG(status), SIGKILL);
  r->acknowledged = *acknowledged;
  r->tried = 12;
  return WIFEXITED(status);
}

static void power__a_process_killed_at_any_write_loses_nothing_it_acknowledged(void **state)
{
  (void)state;
  told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(told, MAP_FAILED);
  power_vfs_install();
  bool has_lived = false;
  for (uint64_t n = 1; !has_lived; n++) {
    char *folder = temp_folder_new();
    round r = {.folder = folder, .uri = text_of("%s?vfs=powercut", folder), .lock = file_in(folder, "main.lock"), .seed = 1};
    *told = 0;
    has_lived = work_and_die(&r, n, told);
    pd_backend *b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL); /* it may have died before there was one */
    b->ops->close(b);
    expect_all(&r);
    assert_true(n < 1000);
    temp_folder_free(r.folder);
    free(r.uri);
    free(r.lock);
  }
  munmap(told, sizeof *told);
  told = NULL;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(power__without_syncs_acknowledged_rows_are_lost),
    cmocka_unit_test(power__wal_with_synchronous_full_loses_nothing),
    cmocka_unit_test(power__the_same_seed_leaves_the_same_file),
    cmocka_unit_test(power__what_the_backend_acknowledged_survives),
    cmocka_unit_test(power__a_cut_while_creating_leaves_a_store_or_none),
    cmocka_unit_test(power__a_process_killed_at_any_write_loses_nothing_it_acknowledged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
