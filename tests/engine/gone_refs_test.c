/*
 * gone_refs_test.c: refs that are deleted are known as long as a record of them is left (retired.h G7), and cost nothing afterwards:
 * whoever still knows the name, whoever makes it again, and whatever looks at the store.
 */
#include "base/base.h"
#include "base/buf.h"
#include "support/temp_folder.h"

#include <perdure/perdure.h>

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define GONE 200
#define EMPTY_BYTES 16384 /* log and bag of a store with next to nothing in it */

static const pd_gc_policy keep_little = {.keep_last = 1, .keep_refs = ""};
static char *folder, *uri;
static pd_error err;

static void need(pd_code code)
{
  if (code) fail_msg("%s: %s", pd_error_name(&err), err.message);
}

static pd_store *open_store(void)
{
  pd_store *s = NULL;
  need(pd_store_open(uri, "main", &(pd_options){.flush_ms = 1000}, &s, &err));
  return s;
}

/* Another handle would wait for one that is buffered. */
static pd_store *open_synced(void)
{
  pd_store *s = NULL;
  need(pd_store_open(uri, "main", NULL, &s, &err));
  return s;
}

static char *name_of(int i, char out[128])
{
  snprintf(out, 128, "gone/a-name-%0100d", i);
  return out;
}

static void make_ref(pd_store *s, const char *name, const char *value)
{
  need(pd_fork(s, name, "root", NULL, NULL, &err));
  need(pd_put(s, pd_text("key"), pd_text(value), &(pd_note){.ref = name}, NULL, &err));
}

/* Refs first … last - 1 come and go. */
static void churn(pd_store *s, int first, int last)
{
  char name[128];
  for (int i = first; i < last; i++) {
    make_ref(s, name_of(i, name), "value");
    need(pd_ref_delete(s, name, NULL, &err));
  }
}

static uint64_t bytes_of(pd_store *s)
{
  pd_stats stats;
  need(pd_store_stats(s, &stats, &err));
  return stats.log_bytes + stats.bag_bytes;
}

static void print_finding(void *ctx, const char *what)
{
  (void)ctx;
  print_message("# %s\n", what);
}

static void check_clean(pd_store *s)
{
  need(pd_verify(s, &(pd_verify_options){.finding = print_finding}, NULL, &err));
}

static bool count_record(void *ctx, const pd_record *record)
{
  (void)record;
  ++*(int *)ctx;
  return true;
}

/* How many records moved the ref; -1: it is not known. */
static int records_of(pd_store *s, const char *name)
{
  int count = 0;
  pd_code code = pd_log(s, &(pd_log_query){.ref = name}, count_record, &count, &err);
  if (code == PD_NOT_FOUND) return -1;
  need(code);
  return count;
}

static void gone__a_name_is_known_as_long_as_its_records(void **state)
{
  (void)state;
  char name[128];
  pd_store *s = open_store();
  churn(s, 0, GONE);
  need(pd_store_keyframe(s, &err));
  need(pd_gc(s, &(pd_gc_policy){.keep_last = 1, .keep_days = 9}, NULL, &err));
  need(pd_store_keyframe(s, &err));
  need(pd_store_close(s, &err));
  s = open_store();
  assert_int_equal(records_of(s, name_of(0, name)), 3);
  assert_int_equal(records_of(s, name_of(GONE - 1, name)), 3);
  make_ref(s, name, "again");
  assert_int_equal(records_of(s, name), 5);
  check_clean(s);
  need(pd_store_close(s, &err));
}

static void gone__gc_leaves_nothing_of_them(void **state)
{
  (void)state;
  char name[128];
  pd_gc_info info;
  pd_store *s = open_store();
  churn(s, 0, GONE);
  need(pd_store_keyframe(s, &err));
  churn(s, GONE, 2 * GONE);
  need(pd_store_flush(s, &err));
  assert_true(bytes_of(s) > 10 * EMPTY_BYTES);
  need(pd_gc(s, &keep_little, NULL, &err));
  assert_in_range(bytes_of(s), 1, EMPTY_BYTES);
  assert_int_equal(records_of(s, name_of(7, name)), -1);
  assert_non_null(strstr(err.message, "in the history that gc has left"));
  check_clean(s);
  need(pd_store_close(s, &err));
  s = open_store();
  assert_int_equal(records_of(s, name), -1);
  need(pd_gc_status(s, &info, &err));
  assert_true(info.cut > 6 * GONE);
  check_clean(s);
  need(pd_store_close(s, &err));
}

/* Also if it has few, for which gc does not do more than it must: they are gone after the next. */
static void gone__few_of_them_go_in_time(void **state)
{
  (void)state;
  char name[128];
  pd_store *s = open_store();
  for (int round = 0; round < 40; round++) {
    churn(s, round * 20, round * 20 + 20);
    need(pd_gc(s, &keep_little, NULL, &err));
    assert_in_range(bytes_of(s), 1, 3 * EMPTY_BYTES);
    if (round % 7 == 3) check_clean(s);
    if (round % 9 == 5) {
      need(pd_store_close(s, &err));
      s = open_store();
    }
  }
  assert_int_equal(records_of(s, name_of(0, name)), -1);
  check_clean(s);
  need(pd_store_close(s, &err));
}

/* ---- made again ---- */

static int64_t clock_ms = 1700000000000;

static int64_t clock_now(void *ctx)
{
  (void)ctx;
  return clock_ms += 1000;
}

static void check_value(pd_store *s, const char *at, const char *value)
{
  CLEANUP(pd_buf_done) pd_buf found = {0};
  need(pd_get(s, at, pd_text("key"), &found, NULL, &err));
  assert_int_equal(found.size, strlen(value));
  assert_memory_equal(found.data, value, found.size);
}

static void gone__a_name_that_was_forgotten_can_be_made_again(void **state)
{
  (void)state;
  char first[128], second[128], at[192];
  pd_store *s = NULL;
  need(pd_store_open(uri, "main", &(pd_options){.flush_ms = 1000, .now_ms = clock_now}, &s, &err));
  churn(s, 0, GONE);
  int64_t before_ms = clock_ms;
  need(pd_gc(s, &keep_little, NULL, &err));
  make_ref(s, name_of(3, first), "new"); /* this handle knew it */
  need(pd_store_keyframe(s, &err));
  check_clean(s);
  need(pd_store_close(s, &err));
  s = open_store();
  make_ref(s, name_of(4, second), "newer"); /* this one never did */
  for (int i = 0; i < 2; i++) {
    check_value(s, first, "new");
    check_value(s, second, "newer");
    assert_int_equal(records_of(s, first), 2);
    assert_int_equal(records_of(s, second), 2);
    snprintf(at, sizeof at, "%s@%lld", i ? first : second, (long long)before_ms);
    assert_int_equal(pd_get(s, at, pd_text("key"), NULL, NULL, &err), PD_RETIRED); /* it was there; who can tell? */
    check_clean(s);
    need(pd_store_keyframe(s, &err));
    need(pd_store_close(s, &err));
    s = open_store();
  }
  need(pd_ref_delete(s, first, NULL, &err));
  need(pd_gc(s, &keep_little, NULL, &err));
  need(pd_gc(s, &keep_little, NULL, &err));
  check_value(s, second, "newer");
  check_clean(s);
  need(pd_store_close(s, &err));
}

/* ---- others who know the name ---- */

static void gone__another_handle_that_knows_the_name_goes_on(void **state)
{
  (void)state;
  char name[128];
  pd_store *s = open_store();
  churn(s, 0, GONE);
  need(pd_store_close(s, &err));
  pd_store *a = open_synced(), *b = open_synced();
  assert_int_equal(records_of(b, name_of(5, name)), 3);
  need(pd_gc(a, &keep_little, NULL, &err));
  make_ref(b, name, "by b"); /* before it read of the gc */
  check_value(a, name, "by b");
  assert_int_equal(records_of(b, name), 2);
  assert_int_equal(records_of(b, name_of(6, name)), -1);
  need(pd_store_keyframe(b, &err));
  churn(a, 0, 5);
  need(pd_store_keyframe(a, &err));
  check_clean(a);
  check_clean(b);
  need(pd_store_close(a, &err));
  need(pd_store_close(b, &err));
}

/* In a process of its own: knows the names, tells so, and goes on when gc is over. */
static int follow(int tell, int hear)
{
  pd_store *s = NULL;
  char name[128], byte = 0;
  int count = 0;
  if (pd_store_open(uri, "main", NULL, &s, NULL)) return 1;
  if (pd_log(s, &(pd_log_query){.ref = name_of(1, name)}, count_record, &count, NULL) || count != 3) return 2;
  if (write(tell, &byte, 1) != 1 || read(hear, &byte, 1) != 1) return 3;
  if (pd_ref_delete(s, name, NULL, NULL) != PD_NOT_FOUND) return 4;
  if (pd_put(s, pd_text("key"), pd_text("late"), &(pd_note){.ref = name}, NULL, NULL) != PD_NOT_FOUND) return 5;
  if (pd_fork(s, name, "root", NULL, NULL, NULL)) return 6;
  if (pd_put(s, pd_text("key"), pd_text("by a child"), &(pd_note){.ref = name}, NULL, NULL)) return 7;
  if (pd_store_keyframe(s, NULL) || pd_verify(s, NULL, NULL, NULL)) return 8;
  return pd_store_close(s, NULL) ? 9 : 0;
}

static void gone__a_follower_in_another_process_goes_on(void **state)
{
  (void)state;
  char name[128], byte = 0;
  int there[2], back[2], status = -1;
  pd_store *s = open_store();
  churn(s, 0, GONE);
  need(pd_store_keyframe(s, &err));
  need(pd_store_close(s, &err));
  assert_int_equal(pipe(there) | pipe(back), 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(follow(there[1], back[0]));
  assert_int_equal(read(there[0], &byte, 1), 1);
  s = open_synced();
  need(pd_gc(s, &keep_little, NULL, &err));
  assert_int_equal(write(back[1], &byte, 1), 1);
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  check_value(s, name_of(1, name), "by a child");
  assert_int_equal(records_of(s, name), 2);
  check_clean(s);
  need(pd_store_close(s, &err));
  for (int i = 0; i < 2; i++) close(there[i]), close(back[i]);
}

static pd_watch *watch_from(pd_store *s, pd_watch_cursor from)
{
  pd_watch *w = NULL;
  need(pd_watch_open(s, &(pd_watch_options){.from = from}, &w, &err));
  return w;
}

static void gone__a_watch_goes_on_over_a_gap(void **state)
{
  (void)state;
  char name[128];
  pd_watch_event e;
  pd_store *s = open_synced();
  churn(s, 0, 3);
  pd_watch *w = watch_from(s, (pd_watch_cursor){.seq = 1});
  for (int i = 0; i < 4; i++) need(pd_watch_next(w, 1000, &e, &err));
  pd_watch_cursor middle = e.next;
  pd_watch_close(w);
  need(pd_store_close(s, &err));
  s = open_store();
  churn(s, 3, GONE);
  need(pd_gc(s, &keep_little, NULL, &err));
  make_ref(s, name_of(0, name), "again");
  need(pd_store_close(s, &err));
  s = open_synced();
  w = watch_from(s, middle);
  need(pd_watch_next(w, 1000, &e, &err));
  assert_int_equal(e.kind, PD_WATCH_GAP);
  bool has_heard = false;
  while (!has_heard) {
    need(pd_watch_next(w, 1000, &e, &err));
    has_heard = e.kind == PD_WATCH_PUT && strcmp(e.ref, name) == 0;
  }
  pd_watch_close(w);
  need(pd_store_close(s, &err));
}

/* ---- what looks at the store as a whole ---- */

static void gone__bundles_of_what_is_left_can_be_taken(void **state)
{
  (void)state;
  char name[128];
  pd_store *s = open_store(), *to = NULL;
  need(pd_put(s, pd_text("key"), pd_text("main's"), NULL, NULL, &err));
  churn(s, 0, GONE);
  need(pd_gc(s, &keep_little, NULL, &err));
  make_ref(s, name_of(2, name), "again");
  need(pd_store_flush(s, &err));
  FILE *file = tmpfile();
  assert_non_null(file);
  need(pd_export(s, fileno(file), &(pd_export_options){.is_all = true}, NULL, &err));
  rewind(file);
  need(pd_store_open("memory:", "main", NULL, &to, &err));
  need(pd_import(to, fileno(file), NULL, NULL, &err));
  check_value(to, "main", "main's");
  check_value(to, name, "again");
  check_clean(to);
  fclose(file);
  need(pd_store_close(to, &err));
  need(pd_store_close(s, &err));
}

/* The blobs of a kind, by the byte that they begin with, lose their last byte. Returns how many. */
static int damage_blobs(const char *condition)
{
  sqlite3 *db;
  char *path = text_of("%s/main.db", folder), *why = NULL;
  char *statement =
    text_of("UPDATE bag SET data = substr(data, 1, length(data) - 1) WHERE hex(substr(data, 1, 1)) = '4B' AND %s", condition);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, statement, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", statement, why);
  int count = sqlite3_changes(db);
  sqlite3_close(db);
  free(path);
  free(statement);
  return count;
}

static void gone__keyframes_without_their_names_can_be_made_again(void **state)
{
  (void)state;
  char name[128];
  pd_store *s = open_store();
  churn(s, 0, GONE);
  need(pd_gc(s, &keep_little, NULL, &err));
  churn(s, 0, 3); /* one was forgotten, and is gone again: its name is known again */
  make_ref(s, name_of(4, name), "again");
  need(pd_store_keyframe(s, &err));
  need(pd_store_close(s, &err));
  assert_int_equal(damage_blobs("n = (SELECT max(n) FROM bag WHERE hex(substr(data, 1, 1)) = '4B')"), 1);
  pd_repair_report report;
  need(pd_repair(uri, "main", NULL, &report, &err));
  assert_int_equal(report.mended, 1);
  s = open_store();
  check_value(s, name, "again");
  assert_int_equal(records_of(s, name_of(2, name)), 3);
  assert_int_equal(records_of(s, name_of(9, name)), -1);
  check_clean(s);
  need(pd_store_close(s, &err));
}

/* The signed record and its commit are kept by a tag, but where the ref was is not. */
static void gone__a_signed_head_of_a_forgotten_ref_is_retired_not_wrong(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf document = {0};
  char name[128];
  pd_signed_head head;
  pd_sign_key *key = NULL;
  pd_store *s = open_synced();
  make_ref(s, name_of(0, name), "signed");
  need(pd_sign_key_make(uri, &err));
  need(pd_sign_key_open(uri, &key, &err));
  need(pd_sign_head(s, key, name, false, &document, &err));
  need(pd_check_signed_head(pd_buf_bytes(&document), NULL, &head, &err));
  need(pd_tag_set(s, "signed", name, false, NULL, NULL, &err));
  need(pd_ref_delete(s, name, NULL, &err));
  need(pd_verify_head(s, &head, &err));
  need(pd_store_close(s, &err));
  s = open_store();
  churn(s, 1, GONE);
  need(pd_gc(s, &keep_little, NULL, &err));
  assert_int_equal(pd_verify_head(s, &head, &err), PD_RETIRED);
  need(pd_store_close(s, &err));
  s = open_store();
  check_value(s, "signed", "signed");
  assert_int_equal(pd_verify_head(s, &head, &err), PD_RETIRED);
  make_ref(s, name, "another");
  assert_int_equal(pd_verify_head(s, &head, &err), PD_RETIRED);
  pd_sign_key_free(key);
  need(pd_store_close(s, &err));
}

/* ---- in files, or, where that does not matter, in memory: no sync takes its time ---- */

static pd_store *holder; /* a store in memory lasts as long as a handle */

static int set_up_files(void **state)
{
  (void)state;
  folder = temp_folder_new();
  uri = text_of("sqlite:%s", folder);
  return 0;
}

static int set_up_memory(void **state)
{
  (void)state;
  uri = text_of("memory:gone");
  holder = open_synced();
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  if (holder) need(pd_store_close(holder, &err));
  temp_folder_free(folder);
  free(uri);
  holder = NULL;
  folder = NULL;
  return 0;
}

#define IN_FILES(name) cmocka_unit_test_setup_teardown(name, set_up_files, tear_down)
#define IN_MEMORY(name) cmocka_unit_test_setup_teardown(name, set_up_memory, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    IN_MEMORY(gone__a_name_is_known_as_long_as_its_records),
    IN_FILES(gone__gc_leaves_nothing_of_them),
    IN_MEMORY(gone__few_of_them_go_in_time),
    IN_MEMORY(gone__a_name_that_was_forgotten_can_be_made_again),
    IN_MEMORY(gone__another_handle_that_knows_the_name_goes_on),
    IN_FILES(gone__a_follower_in_another_process_goes_on),
    IN_MEMORY(gone__a_watch_goes_on_over_a_gap),
    IN_MEMORY(gone__bundles_of_what_is_left_can_be_taken),
    IN_FILES(gone__keyframes_without_their_names_can_be_made_again),
    IN_FILES(gone__a_signed_head_of_a_forgotten_ref_is_retired_not_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
