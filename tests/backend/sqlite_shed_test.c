/* sqlite_shed_test.c: what the sqlite backend takes away is gone from its files, space comes back, and no fault in between does harm. */
#include "backend/sqlite_files.h"
#include "support/power_vfs.h"
#include "support/temp_folder.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define RECORD_COUNT 400
#define BLOB_COUNT 60
#define BLOB_SIZE 20000

static int set_up(void **state)
{
  *state = temp_folder_new();
  return 0;
}

static int tear_down(void **state)
{
  temp_folder_free(*state);
  return 0;
}

/* ---- secrets ------------------------------------------------------------------------------------------------------ */

/* Every record and blob holds a word of its own, over and over. */
static void secret_text(char *out, size_t size, const char *kind, int i)
{
  char word[32];
  size_t word_size = (size_t)snprintf(word, sizeof word, "<secret %s %05d>", kind, i);
  for (size_t at = 0; at < size; at++) out[at] = word[at % word_size];
  out[size - 1] = '\0';
}

static pd_id put_secret(pd_backend *b, int i)
{
  static char text[BLOB_SIZE];
  secret_text(text, sizeof text, "B", i);
  pd_bytes blob = {text, sizeof text};
  pd_id id = pd_value_id(blob);
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, NULL), PD_OK);
  return id;
}

static pd_backend *open_with_secrets(const char *folder, pd_id ids[BLOB_COUNT])
{
  pd_backend *b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL);
  static char texts[RECORD_COUNT + 1][301];
  static pd_bytes records[RECORD_COUNT + 1];
  for (int i = 1; i <= RECORD_COUNT; i++) {
    secret_text(texts[i], sizeof texts[i], "R", i);
    records[i] = pd_text(texts[i]);
  }
  for (size_t i = 1, count; i <= RECORD_COUNT; i += count) { /* a hundred alone, the rest in batches */
    count = i <= 50 || (i > 150 && i <= 200) ? 1 : 50;
    assert_int_equal(b->ops->log_append(b, i, &records[i], count, NULL), PD_OK);
  }
  for (int i = 1; i <= BLOB_COUNT; i++) ids[i - 1] = put_secret(b, i);
  return b;
}

/* In how many of the folder's files `word` is, the WAL and all else included. */
static int files_with(const char *folder, const char *word)
{
  DIR *dir = opendir(folder);
  int count = 0;
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    size_t size;
    char *path = file_in(folder, entry->d_name);
    uint8_t *data = read_file(path, &size);
    count += memmem(data, size, word, strlen(word)) != NULL;
    free(data), free(path);
  }
  closedir(dir);
  return count;
}

static int files_with_secret(const char *folder, const char *kind, int i)
{
  char word[32];
  snprintf(word, sizeof word, "<secret %s %05d>", kind, i);
  return files_with(folder, word);
}

static bool keep_even(void *ctx, const pd_id *id)
{
  const pd_id *ids = ctx;
  for (size_t i = 0; i < BLOB_COUNT; i += 2) {
    if (pd_id_equal(&ids[i], id)) return true;
  }
  return false;
}

static void redact_hundred(pd_backend *b, uint64_t seq)
{
  static const pd_bytes nothing[100];
  assert_int_equal(b->ops->log_redact(b, seq, nothing, 100, NULL), PD_OK);
}

static void expect_no_finding(void *ctx, const char *what)
{
  (void)ctx;
  fail_msg("check found: %s", what);
}

static void expect_sound(pd_backend *b)
{
  pd_error err = {0};
  assert_int_equal(b->ops->check(b, expect_no_finding, NULL, NULL), PD_OK);
  if (read_all(b, &err) != PD_OK) fail_msg("%s", err.message);
  assert_int_equal(tail_of(b), RECORD_COUNT);
}

/* The sqlite files are read while nobody has them open: reading them with open() and close() in this process would drop SQLite's locks. */
static void B16_after_a_compaction_the_removed_bytes_are_in_no_file(void **state)
{
  static pd_id ids[BLOB_COUNT];
  pd_backend *b = open_with_secrets(*state, ids);
  uint64_t mark = 0, bytes = 0;
  redact_hundred(b, 101);
  assert_int_equal(b->ops->bag_mark(b, &mark, NULL), PD_OK);
  assert_int_equal(b->ops->bag_sweep(b, mark, keep_even, ids, &bytes, NULL), PD_OK);
  assert_int_equal(bytes, BLOB_COUNT / 2 * BLOB_SIZE);
  int pid = fork();
  if (pid == 0) _exit(files_with_secret(*state, "R", 150) && files_with_secret(*state, "B", 20) ? 0 : 1); /* the search can find */
  int status = 1;
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
  assert_int_equal(b->ops->compact(b, NULL), PD_OK);
  pid = fork(); /* while it is open: the WAL is there */
  if (pid == 0) {
    int found = 0;
    for (int i = 101; i <= 200; i++) found += files_with_secret(*state, "R", i);
    for (int i = 2; i <= BLOB_COUNT; i += 2) found += files_with_secret(*state, "B", i);
    if (!files_with_secret(*state, "R", 100) || !files_with_secret(*state, "B", 19)) found = 1;
    _exit(found ? 1 : 0);
  }
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
  expect_sound(b);
  assert_int_equal(append_some(b, 300, NULL), PD_OK); /* the WAL is grown anew */
  b->ops->close(b);
}

static int64_t disk_size(const char *folder)
{
  struct stat st;
  char *path = file_in(folder, "main.db"), *wal = file_in(folder, "main.db-wal");
  assert_int_equal(stat(path, &st), 0);
  int64_t size = st.st_size;
  if (stat(wal, &st) == 0) size += st.st_size;
  free(path), free(wal);
  return size;
}

static void B16_space_comes_back_while_others_have_it_open(void **state)
{
  static pd_id ids[BLOB_COUNT];
  pd_backend *b = open_with_secrets(*state, ids), *other = open_main(*state, 0, PD_OK, NULL);
  uint64_t mark = 0, bytes = 0;
  int64_t before = disk_size(*state);
  for (uint64_t seq = 1; seq < RECORD_COUNT; seq += 100) redact_hundred(other, seq);
  assert_int_equal(b->ops->bag_mark(b, &mark, NULL), PD_OK);
  assert_int_equal(b->ops->bag_sweep(b, mark, keep_even, ids, &bytes, NULL), PD_OK);
  assert_int_equal(b->ops->compact(b, NULL), PD_OK);
  assert_true(before - disk_size(*state) >= (int64_t)bytes);
  assert_true(disk_size(*state) < BLOB_COUNT / 2 * (BLOB_SIZE + 5000) + 40000);
  expect_sound(other);
  other->ops->close(other);
  b->ops->close(b);
}

static void B14_empty_records_do_not_cost_a_row_each(void **state)
{
  static pd_id ids[BLOB_COUNT];
  pd_backend *b = open_with_secrets(*state, ids);
  for (uint64_t seq = 1; seq < RECORD_COUNT; seq += 100) redact_hundred(b, seq);
  expect_sound(b);
  b->ops->close(b);
  run_sql(*state, "CREATE TEMP TABLE t(x CHECK (x <= 4)); INSERT INTO t SELECT count(*) FROM log");
}

/* ---- readers in the way ------------------------------------------------------------------------------------------- */

typedef struct long_reader {
  pthread_mutex_t lock;
  pthread_cond_t turn;
  bool is_reading, may_end;
} long_reader;

static pd_code read_slowly(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  long_reader *r = ctx;
  (void)seq, (void)record, (void)err;
  pthread_mutex_lock(&r->lock);
  r->is_reading = true;
  pthread_cond_broadcast(&r->turn);
  while (!r->may_end) pthread_cond_wait(&r->turn, &r->lock);
  pthread_mutex_unlock(&r->lock);
  return PD_OK;
}

typedef struct reading {
  pd_backend *b;
  long_reader *r;
} reading;

static void *read_in_thread(void *arg)
{
  reading *j = arg;
  return (void *)(intptr_t)j->b->ops->log_read(j->b, 1, 5, read_slowly, j->r, NULL);
}

static void *compact_in_thread(void *arg)
{
  pd_backend *b = arg;
  return (void *)(intptr_t)b->ops->compact(b, NULL);
}

static void B16_a_compaction_waits_for_a_reader_and_others_write_meanwhile(void **state)
{
  static pd_id ids[BLOB_COUNT];
  pd_backend *b = open_with_secrets(*state, ids), *other = open_main(*state, 0, PD_OK, NULL);
  long_reader r = {.lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};
  reading j = {other, &r};
  pthread_t reader, compactor;
  void *answer = NULL;
  redact_hundred(b, 1);
  assert_int_equal(pthread_create(&reader, NULL, read_in_thread, &j), 0);
  pthread_mutex_lock(&r.lock);
  while (!r.is_reading) pthread_cond_wait(&r.turn, &r.lock);
  pthread_mutex_unlock(&r.lock);
  assert_int_equal(pthread_create(&compactor, NULL, compact_in_thread, b), 0);
  pd_backend *third = open_main(*state, 0, PD_OK, NULL);
  assert_int_equal(append_some(third, 20, NULL), PD_OK);
  pthread_mutex_lock(&r.lock);
  r.may_end = true;
  pthread_cond_broadcast(&r.turn);
  pthread_mutex_unlock(&r.lock);
  pthread_join(reader, &answer);
  assert_int_equal((intptr_t)answer, PD_OK);
  pthread_join(compactor, &answer);
  assert_int_equal((intptr_t)answer, PD_OK);
  assert_int_equal(tail_of(b), RECORD_COUNT + 20);
  third->ops->close(third);
  other->ops->close(other);
  b->ops->close(b);
}

/* ---- faults ------------------------------------------------------------------------------------------------------- */

/* A child whose files may not grow past what VACUUM needs: nothing is lost, and with room it works. */
static void B16_a_full_disk_stops_a_compaction_and_nothing_is_lost(void **state)
{
  static pd_id ids[BLOB_COUNT];
  const char *folder = *state;
  pd_backend *made = open_with_secrets(folder, ids);
  made->ops->close(made);
  fflush(NULL);
  int pid = fork(), status = 1;
  if (pid == 0) {
    const struct rlimit small = {300 << 10, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    pd_error err = {0};
    signal(SIGXFSZ, SIG_IGN);
    pd_backend *b = open_main(folder, 0, PD_OK, NULL);
    redact_hundred(b, 1);
    setrlimit(RLIMIT_FSIZE, &small);
    if (b->ops->compact(b, &err) != PD_FULL || !strstr(err.message, "no space left")) _exit(1);
    setrlimit(RLIMIT_FSIZE, &none);
    expect_sound(b);
    if (b->ops->compact(b, &err) != PD_OK) _exit(2);
    expect_sound(b);
    b->ops->close(b);
    _exit(files_with_secret(folder, "R", 50) || !files_with_secret(folder, "R", 101) ? 3 : 0);
  }
  waitpid(pid, &status, 0);
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* Redact, sweep, compact; how far it came is counted in *out_done. */
static void take_away(pd_backend *b, pd_id ids[BLOB_COUNT], int *out_done)
{
  static const pd_bytes nothing[100];
  uint64_t mark = 0, bytes = 0;
  *out_done = 0;
  if (b->ops->log_redact(b, 101, nothing, 100, NULL) != PD_OK) return;
  *out_done = 1;
  if (b->ops->bag_mark(b, &mark, NULL) != PD_OK || b->ops->bag_sweep(b, mark, keep_even, ids, &bytes, NULL) != PD_OK) return;
  *out_done = 2;
  if (b->ops->compact(b, NULL) != PD_OK) return;
  *out_done = 3;
}

static pd_code expect_whole_or_empty(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  int *empty_count = ctx;
  char text[301];
  (void)err;
  secret_text(text, sizeof text, "R", (int)seq);
  *empty_count += !record.size;
  if (record.size) assert_memory_equal(record.data, text, record.size);
  if (record.size) assert_int_equal(record.size, 300);
  assert_true(record.size || (seq > 100 && seq <= 200));
  return PD_OK;
}

/* Whatever happened: the log whole, redacted all or not at all; what is kept is there; what is finished is finished. */
static void expect_after_fault(const char *folder, const pd_id ids[BLOB_COUNT], int done)
{
  pd_backend *b = open_main(folder, 0, PD_OK, NULL);
  int empty_count = 0;
  pd_error err = {0};
  expect_sound(b);
  if (b->ops->log_read(b, 1, UINT64_MAX, expect_whole_or_empty, &empty_count, &err) != PD_OK) fail_msg("%s", err.message);
  assert_true(empty_count == 100 || (empty_count == 0 && done == 0));
  for (size_t i = 0; i < BLOB_COUNT; i++) {
    pd_buf out = {0};
    pd_code code = b->ops->bag_get(b, &ids[i], &out, NULL);
    if (i % 2 == 0) assert_int_equal(code, PD_OK);
    pd_buf_done(&out);
  }
  b->ops->close(b);
  if (done == 3) assert_int_equal(files_with_secret(folder, "R", 150) + files_with_secret(folder, "B", 2), 0);
  b = open_main(folder, 0, PD_OK, NULL); /* and the next one makes up for what was left undone */
  take_away(b, (pd_id *)ids, &done);
  assert_int_equal(done, 3);
  expect_sound(b);
  b->ops->close(b);
  assert_int_equal(files_with_secret(folder, "R", 150) + files_with_secret(folder, "B", 2), 0);
}

static void copy_store(const char *from, const char *to)
{
  static const char *const names[] = {"main.db", "main.lock"};
  for (size_t i = 0; i < 2; i++) {
    char *a = file_in(from, names[i]), *b = file_in(to, names[i]);
    copy_file(a, b);
    free(a), free(b);
  }
}

static void B14_to_B16_survive_a_cut_of_power_at_any_write(void **state)
{
  static pd_id ids[BLOB_COUNT];
  pd_backend *made = open_with_secrets(*state, ids);
  made->ops->close(made);
  power_vfs_install();
  int done = 0;
  for (uint64_t n = 1, round = 1; done < 3; n += 1 + n / 10 + round++ % 3) {
    char *folder = temp_folder_new(), *uri = text_of("%s?vfs=powercut", folder);
    copy_store(*state, folder);
    pd_backend *b = open_main(uri, 0, PD_OK, NULL);
    power_vfs_cut_after(n, n);
    take_away(b, ids, &done);
    if (!power_vfs_is_cut()) power_vfs_cut(n);
    b->ops->close(b);
    power_vfs_restore();
    expect_after_fault(folder, ids, done);
    temp_folder_free(folder);
    free(uri);
    assert_true(n < 20000);
  }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(B16_after_a_compaction_the_removed_bytes_are_in_no_file),
    CASE(B16_space_comes_back_while_others_have_it_open),
    CASE(B14_empty_records_do_not_cost_a_row_each),
    CASE(B16_a_compaction_waits_for_a_reader_and_others_write_meanwhile),
    CASE(B16_a_full_disk_stops_a_compaction_and_nothing_is_lost),
    CASE(B14_to_B16_survive_a_cut_of_power_at_any_write),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
