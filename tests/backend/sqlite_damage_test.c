/* sqlite_damage_test.c: damaged stores fail closed and say where; the lock file is a witness, and no more than that. */
#include "backend/sqlite_files.h"
#include "base/base.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

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

static void expect_says(const pd_error *err, const char *says)
{
  if (!strstr(err->message, says)) fail_msg("'%s' does not say '%s'", err->message, says);
}

static void copy_named(const char *from_folder, const char *to_folder, const char *name)
{
  char *from = file_in(from_folder, name), *to = file_in(to_folder, name);
  copy_file(from, to);
  free(from), free(to);
}

/* What a killed process with `count` appended records leaves: database, WAL and lock file. Returns the folder. */
static char *crashed_store(const char *where, size_t count)
{
  char *live = file_in(where, "live"), *left = file_in(where, "left");
  static const char *const names[] = {"main.db", "main.db-wal", "main.lock"};
  pd_backend *b = open_main(live, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(append_some(b, count, NULL), PD_OK);
  assert_int_equal(mkdir(left, 0700), 0);
  for (size_t i = 0; i < COUNT_OF(names); i++) copy_named(live, left, names[i]);
  b->ops->close(b);
  free(live);
  return left;
}

/* ---- the witness -------------------------------------------------------------------------------------------------- */

static void witness__what_a_crash_leaves_is_whole(void **state)
{
  char *folder = crashed_store(*state, 12);
  pd_backend *b = open_main(folder, 0, PD_OK, NULL);
  assert_int_equal(tail_of(b), 12);
  assert_int_equal(b->ops->log_tail_hint(b), 12);
  b->ops->close(b);
  free(folder);
}

static void witness__a_cut_wal_is_found_at_open(void **state)
{
  char *folder = crashed_store(*state, 12), *wal = file_in(folder, "main.db-wal");
  struct stat st;
  pd_error err = {0};
  assert_int_equal(stat(wal, &st), 0);
  assert_int_equal(truncate(wal, st.st_size - 4120 * 3 - 1), 0);
  open_main(folder, 0, PD_CORRUPT, &err);
  expect_says(&err, "the log ends at record 8 but 12 were acknowledged");
  expect_says(&err, "main.db");
  open_main(folder, PD_BACKEND_CREATE, PD_CORRUPT, NULL);
  open_main(folder, PD_BACKEND_OPEN_READ_ONLY, PD_CORRUPT, NULL);
  free(folder), free(wal);
}

static void witness__a_flipped_bit_in_the_wal_is_found_at_open(void **state)
{
  char *folder = crashed_store(*state, 12), *wal = file_in(folder, "main.db-wal");
  size_t size;
  uint8_t *data = read_file(wal, &size);
  for (size_t at = 32; at < size; at += size / 9) {
    pd_error err = {0};
    data[at] ^= 16;
    write_file(wal, data, size);
    data[at] ^= 16;
    open_main(folder, 0, PD_CORRUPT, &err);
    expect_says(&err, "but 12 were acknowledged");
    write_file(wal, data, size); /* SQLite may have moved what it believed in */
  }
  free(data), free(folder), free(wal);
}

static void witness__a_lost_wal_is_found_at_open(void **state)
{
  char *folder = crashed_store(*state, 12), *wal = file_in(folder, "main.db-wal");
  pd_error err = {0};
  assert_int_equal(unlink(wal), 0);
  open_main(folder, 0, PD_CORRUPT, &err);
  expect_says(&err, "the log ends at record 0 but 12 were acknowledged");
  free(folder), free(wal);
}

static void witness__an_emptied_database_is_not_taken_for_a_new_one(void **state)
{
  make_store(*state, 5);
  char *path = file_in(*state, "main.db");
  pd_error err = {0};
  assert_int_equal(truncate(path, 0), 0);
  open_main(*state, PD_BACKEND_CREATE, PD_CORRUPT, &err);
  expect_says(&err, "is empty but 5 records were acknowledged");
  open_main(*state, 0, PD_NOT_FOUND, NULL);
  free(path);
}

static void witness__an_older_copy_is_refused_until_the_lock_file_goes(void **state)
{
  char *backup = file_in(*state, "backup"), *lock = file_in(*state, "main.lock");
  make_store(*state, 5);
  assert_int_equal(mkdir(backup, 0700), 0);
  copy_named(*state, backup, "main.db");
  make_store(*state, 5);
  copy_named(backup, *state, "main.db");
  pd_error err = {0};
  open_main(*state, 0, PD_CORRUPT, &err);
  expect_says(&err, "remove");
  expect_says(&err, "main.lock");
  assert_int_equal(unlink(lock), 0);
  pd_backend *b = open_main(*state, 0, PD_OK, NULL);
  assert_int_equal(tail_of(b), 5);
  b->ops->close(b);
  free(backup), free(lock);
}

static void witness__a_lock_file_of_another_store_says_nothing(void **state)
{
  char *other = file_in(*state, "other");
  make_store(other, 9);
  make_store(*state, 2);
  copy_named(other, *state, "main.lock");
  pd_backend *b = open_main(*state, 0, PD_OK, NULL);
  assert_int_equal(b->ops->log_tail_hint(b), 2);
  b->ops->close(b);
  free(other);
}

/* ---- the tail word ------------------------------------------------------------------------------------------------ */

static void word__a_damaged_lock_file_is_made_anew(void **state)
{
  make_store(*state, 3);
  char *lock = file_in(*state, "main.lock");
  uint8_t noise[8000];
  for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)(i * 2654435761u >> 15);
  static const size_t sizes[] = {0, 1, 63, 64, 70, 4095, 4096, 8000};
  uint64_t tail = 3;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    write_file(lock, noise, sizes[i]);
    pd_backend *b = open_main(*state, 0, PD_OK, NULL);
    assert_int_equal(b->ops->log_tail_hint(b), tail);
    assert_int_equal(append_some(b, 1, NULL), PD_OK);
    assert_int_equal(b->ops->log_tail_hint(b), ++tail);
    b->ops->close(b);
  }
  free(lock);
}

static void word__every_flipped_bit_of_it_is_harmless(void **state)
{
  make_store(*state, 3);
  char *lock = file_in(*state, "main.lock");
  size_t size;
  uint8_t *data = read_file(lock, &size);
  assert_int_equal(size, 4096);
  for (size_t bit = 0; bit < 72 * 8; bit++) {
    data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    write_file(lock, data, size);
    data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    pd_backend *b = open_main(*state, 0, PD_OK, NULL);
    assert_int_equal(b->ops->log_tail_hint(b), 3);
    b->ops->close(b);
  }
  free(data), free(lock);
}

/* Write over the live word: as a writer that died between its commit and the word leaves it, or as a flipped bit does. */
static void set_live_word(const char *folder, const uint8_t word[8])
{
  char *lock = file_in(folder, "main.lock");
  int fd = open(lock, O_WRONLY);
  assert_int_equal(pwrite(fd, word, 8, 64), 8);
  close(fd);
  free(lock);
}

static void get_live_word(const char *folder, uint8_t out[8])
{
  char *lock = file_in(folder, "main.lock");
  size_t size;
  uint8_t *data = read_file(lock, &size);
  memcpy(out, data + 64, 8);
  free(data), free(lock);
}

static void word__one_that_lags_is_caught_up_with(void **state)
{
  pd_bytes record = pd_text("r");
  uint8_t older[8];
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  for (int round = 0; round < 4; round++) {
    uint64_t tail = tail_of(b);
    get_live_word(*state, older);
    assert_int_equal(append_some(b, 3, NULL), PD_OK);
    set_live_word(*state, older);
    assert_int_equal(tail_of(b), tail + 3);
    pd_code want = round == 0 ? PD_CONFLICT : round == 1 ? PD_CONFLICT : round == 2 ? PD_INVALID : PD_OK;
    uint64_t seq = tail + (round == 0 ? 1 : round == 1 ? 3 : round == 2 ? 5 : 4);
    assert_int_equal(b->ops->log_append(b, seq, &record, 1, NULL), want);
    assert_int_equal(b->ops->log_tail_hint(b), tail_of(b)); /* put right on the way */
  }
  assert_int_equal(read_all(b, NULL), PD_OK);
  assert_int_equal(tail_of(b), 13);
  b->ops->close(b);
}

static void word__one_that_is_not_valid_falls_back_to_what_the_handle_knows(void **state)
{
  static const uint8_t nothing[8] = {0}, nonsense[8] = {7, 0, 0, 0, 0, 0, 0x5A, 0xA5};
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(append_some(b, 3, NULL), PD_OK);
  set_live_word(*state, nothing);
  assert_int_equal(b->ops->log_tail_hint(b), 3);
  set_live_word(*state, nonsense);
  assert_int_equal(b->ops->log_tail_hint(b), 3);
  pd_bytes record = pd_text("r");
  assert_int_equal(b->ops->log_append(b, 3, &record, 1, NULL), PD_CONFLICT);
  set_live_word(*state, nonsense);
  assert_int_equal(append_some(b, 1, NULL), PD_OK);
  assert_int_equal(b->ops->log_tail_hint(b), 4);
  b->ops->close(b);
}

/* ---- the log ------------------------------------------------------------------------------------------------------ */

typedef struct findings {
  size_t count;
  char first[PD_ERROR_MESSAGE_MAX];
} findings;

static void note_finding(void *ctx, const char *what)
{
  findings *f = ctx;
  if (!f->count++) snprintf(f->first, sizeof f->first, "%s", what);
}

static pd_code ignore_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)ctx, (void)seq, (void)record, (void)err;
  return PD_OK;
}

static pd_code read_range(pd_backend *b, uint64_t from, uint64_t to, pd_error *err)
{
  return b->ops->log_read(b, from, to, ignore_record, NULL, err);
}

/* Change a store of ten records by SQL; reading it fails at `record`, `check` has something to say, and what is before is fine. */
static void expect_damage(const char *folder, const char *sql, uint64_t record)
{
  pd_backend *b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL);
  pd_bytes batch[3] = {pd_text("one"), pd_text("two"), pd_text("three")};
  pd_error err = {0};
  findings found = {0};
  char *named = text_of("record %llu ", (unsigned long long)record);
  assert_int_equal(append_some(b, 4, NULL), PD_OK);
  assert_int_equal(b->ops->log_append(b, 5, batch, 3, NULL), PD_OK);
  assert_int_equal(append_some(b, 3, NULL), PD_OK);
  assert_int_equal(b->ops->check(b, note_finding, &found, NULL), PD_OK);
  assert_int_equal(found.count, 0);
  run_sql(folder, sql);
  assert_int_equal(read_all(b, &err), PD_CORRUPT);
  expect_says(&err, named);
  if (record > 1) assert_int_equal(read_range(b, 1, record - 1, NULL), PD_OK);
  assert_int_equal(read_range(b, record, record, NULL), PD_CORRUPT);
  b->ops->close(b);
  free(named);
}

static void B4_a_missing_record_is_named(void **state)
{
  char *folder = file_in(*state, "a");
  findings found = {0};
  expect_damage(folder, "DELETE FROM log WHERE seq=3", 3);
  pd_backend *b = open_main(folder, 0, PD_OK, NULL);
  assert_int_equal(b->ops->check(b, note_finding, &found, NULL), PD_OK);
  assert_int_equal(found.count, 1);
  if (!strstr(found.first, "where record 3 should be")) fail_msg("%s", found.first);
  b->ops->close(b);
  free(folder);
}

static void B4_a_missing_first_record_is_named(void **state)
{
  expect_damage(*state, "DELETE FROM log WHERE seq=1", 1);
}

static void B4_a_missing_batch_is_named(void **state)
{
  expect_damage(*state, "DELETE FROM log WHERE seq=5", 5);
}

static void B4_a_renumbered_record_is_named(void **state)
{
  expect_damage(*state, "UPDATE log SET seq=300 WHERE seq=9", 9);
}

static void B4_a_wrong_count_is_found(void **state)
{
  expect_damage(*state, "UPDATE log SET count=2 WHERE seq=9", 9);
}

static void B4_a_batch_that_is_too_short_is_found(void **state)
{
  expect_damage(*state, "UPDATE log SET data=substr(data, 1, length(data) - 1) WHERE seq=5", 7);
}

static void B4_a_batch_that_is_too_long_is_found(void **state)
{
  expect_damage(*state, "UPDATE log SET data=cast(data || x'00' AS BLOB) WHERE seq=5", 7);
}

static void B4_a_batch_whose_sizes_make_no_sense_is_found(void **state)
{
  expect_damage(*state, "UPDATE log SET data=x'ffffffffffffffffffff01' WHERE seq=5", 5);
}

static void B4_rows_that_overlap_are_found(void **state)
{
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  pd_bytes batch[3] = {pd_text("one"), pd_text("two"), pd_text("three")};
  assert_int_equal(b->ops->log_append(b, 1, batch, 3, NULL), PD_OK);
  assert_int_equal(append_some(b, 2, NULL), PD_OK);
  run_sql(*state, "INSERT INTO log VALUES(2, 1, x'00')");
  assert_int_equal(read_all(b, NULL), PD_CORRUPT);
  b->ops->close(b);
}

static void B4_lost_records_at_the_end_are_found(void **state)
{
  pd_error err = {0};
  findings found = {0};
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(append_some(b, 10, NULL), PD_OK);
  run_sql(*state, "DELETE FROM log WHERE seq>=8");
  assert_int_equal(read_all(b, &err), PD_CORRUPT);
  expect_says(&err, "the log ends at record 7 but 10 were acknowledged");
  assert_int_equal(read_range(b, 1, 7, NULL), PD_OK);
  assert_int_equal(b->ops->check(b, note_finding, &found, NULL), PD_OK);
  assert_int_equal(found.count, 1);
  b->ops->close(b);
  open_main(*state, 0, PD_CORRUPT, NULL);
}

/* ---- the file ----------------------------------------------------------------------------------------------------- */

static void sqlite__a_store_without_its_tables_is_damaged(void **state)
{
  static const char *const names[] = {"log", "meta"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char *folder = file_in(*state, names[i]), *sql = text_of("DROP TABLE %s", names[i]);
    pd_error err = {0};
    make_store(folder, 3);
    run_sql(folder, sql);
    open_main(folder, 0, PD_CORRUPT, &err);
    expect_says(&err, "main.db is damaged: no such table");
    free(folder), free(sql);
  }
}

/* Less than a page is SQLite's own padding, and damage there the engine's to find: it knows the ids. */
static void sqlite__a_file_that_lost_pages_never_reads_as_whole(void **state)
{
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  uint8_t bytes[3000] = {1};
  pd_bytes record = {bytes, sizeof bytes};
  for (uint64_t seq = 1; seq <= 20; seq++) assert_int_equal(b->ops->log_append(b, seq, &record, 1, NULL), PD_OK);
  b->ops->close(b);
  char *path = file_in(*state, "main.db"), *kept = file_in(*state, "kept");
  struct stat st;
  copy_file(path, kept);
  assert_int_equal(stat(path, &st), 0);
  for (off_t size = st.st_size - 4096; size > 0; size -= 2999) {
    const pd_backend_ops *ops = NULL;
    const char *rest = NULL;
    copy_file(kept, path);
    assert_int_equal(truncate(path, size), 0);
    assert_int_equal(pd_backend_find("sqlite:", &ops, &rest, NULL), PD_OK);
    pd_code code = ops->open(*state, "main", 0, &b, NULL);
    if (code == PD_OK) {
      code = read_all(b, NULL);
      ops->close(b);
    }
    if (code != PD_CORRUPT && code != PD_FORMAT) fail_msg("%lld bytes of it: %s", (long long)size, pd_code_name(code));
  }
  free(path), free(kept);
}

static void sqlite__check_hears_what_sqlite_finds(void **state)
{
  findings found = {0};
  pd_backend *b = open_main(*state, PD_BACKEND_CREATE, PD_OK, NULL);
  pd_bytes blob = pd_text("blob");
  pd_id id = pd_value_id(blob);
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, NULL), PD_OK);
  b->ops->close(b);
  run_sql(*state, "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql='CREATE INDEX bag_by_key ON bag(n)' WHERE name='bag_by_key'");
  b = open_main(*state, 0, PD_OK, NULL);
  assert_int_equal(b->ops->check(b, note_finding, &found, NULL), PD_OK);
  assert_true(found.count > 0);
  if (!strstr(found.first, "bag_by_key")) fail_msg("%s", found.first);
  b->ops->close(b);
}

static void sqlite__triggers_in_a_prepared_file_do_not_run(void **state)
{
  make_store(*state, 2);
  run_sql(*state, "CREATE TRIGGER evil AFTER INSERT ON log BEGIN DELETE FROM log WHERE seq=1; END");
  pd_backend *b = open_main(*state, 0, PD_OK, NULL);
  assert_int_equal(append_some(b, 1, NULL), PD_OK);
  assert_int_equal(read_all(b, NULL), PD_OK);
  b->ops->close(b);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    CASE(witness__what_a_crash_leaves_is_whole),
    CASE(witness__a_cut_wal_is_found_at_open),
    CASE(witness__a_flipped_bit_in_the_wal_is_found_at_open),
    CASE(witness__a_lost_wal_is_found_at_open),
    CASE(witness__an_emptied_database_is_not_taken_for_a_new_one),
    CASE(witness__an_older_copy_is_refused_until_the_lock_file_goes),
    CASE(witness__a_lock_file_of_another_store_says_nothing),
    CASE(word__a_damaged_lock_file_is_made_anew),
    CASE(word__every_flipped_bit_of_it_is_harmless),
    CASE(word__one_that_lags_is_caught_up_with),
    CASE(word__one_that_is_not_valid_falls_back_to_what_the_handle_knows),
    CASE(B4_a_missing_record_is_named),
    CASE(B4_a_missing_first_record_is_named),
    CASE(B4_a_missing_batch_is_named),
    CASE(B4_a_renumbered_record_is_named),
    CASE(B4_a_wrong_count_is_found),
    CASE(B4_a_batch_that_is_too_short_is_found),
    CASE(B4_a_batch_that_is_too_long_is_found),
    CASE(B4_a_batch_whose_sizes_make_no_sense_is_found),
    CASE(B4_rows_that_overlap_are_found),
    CASE(B4_lost_records_at_the_end_are_found),
    CASE(sqlite__a_store_without_its_tables_is_damaged),
    CASE(sqlite__a_file_that_lost_pages_never_reads_as_whole),
    CASE(sqlite__check_hears_what_sqlite_finds),
    CASE(sqlite__triggers_in_a_prepared_file_do_not_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
