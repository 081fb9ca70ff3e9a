/* care_test.c: du, doctor and repair through the C API (src/engine/du.c, doctor.c, repair.c); also of a store that gc has cut. */
#include "support/temp_folder.h"

#include <perdure/perdure.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

static char *folder;
static char uri[256];

static void expect_ok(pd_code code, const pd_error *err)
{
  if (code) fail_msg("%s: %s", pd_code_name(code), err->message);
}

static pd_store *open_store(const char *name)
{
  pd_store *s = NULL;
  pd_error err;
  if (name) snprintf(uri, sizeof uri, "sqlite:%s/%s", folder, name);
  expect_ok(pd_store_open(uri, "main", NULL, &s, &err), &err);
  return s;
}

static void put(pd_store *s, const char *key, size_t size, char letter)
{
  pd_error err;
  char *value = malloc(size + 1);
  assert_non_null(value);
  memset(value, letter, size);
  expect_ok(pd_put(s, pd_text(key), (pd_bytes){value, size}, NULL, NULL, &err), &err);
  free(value);
}

/* `count` commits over thirty keys. */
static void fill(pd_store *s, int count)
{
  char key[32];
  for (int i = 0; i < count; i++) {
    snprintf(key, sizeof key, "k/%d", i % 30);
    put(s, key, 100 + (size_t)(i % 7), (char)('a' + i % 26));
  }
}

/* ---- du ---- */

typedef struct sums {
  uint64_t prefix_bytes, ref_bytes;
  unsigned prefixes, refs;
} sums;

static bool add_row(void *ctx, const pd_du_row *row)
{
  sums *sum = ctx;
  if (row->is_ref)
    sum->refs++, sum->ref_bytes += row->bytes;
  else
    sum->prefixes++, sum->prefix_bytes += row->bytes;
  return true;
}

static void du__adds_up_and_says_what_gc_would_free(void **state)
{
  (void)state;
  pd_store *s = open_store("du");
  pd_error err;
  pd_du du;
  pd_stats stats;
  sums sum = {0};
  put(s, "a/one", 1000, 'x');
  put(s, "a/two", 2000, 'y');
  put(s, "b", 30000, 'z');
  expect_ok(pd_fork(s, "other", NULL, NULL, NULL, &err), &err);
  put(s, "b", 500, 'w');
  expect_ok(pd_du_store(s, NULL, pd_text(""), 0, add_row, &sum, &du, &err), &err);
  assert_int_equal(du.keys, 3);
  assert_int_equal(du.bytes, 3500);
  assert_int_equal(sum.prefix_bytes, 3500);
  assert_int_equal(sum.prefixes, 2);
  assert_int_equal(sum.refs, 2);
  assert_int_equal(sum.ref_bytes, 3500 + 33000);
  assert_int_equal(du.version_bytes, du.live_bytes + du.history_bytes);
  assert_int_equal(du.history_versions, 0); /* 'z' is at the head of `other` */
  assert_int_equal(du.bag_value_bytes, 30000);
  expect_ok(pd_store_stats(s, &stats, &err), &err);
  assert_int_equal(du.disk_bytes, du.log_bytes + du.bag_value_bytes + du.bag_node_bytes + du.overhead_bytes);
  assert_int_equal(du.log_bytes, stats.log_bytes);
  assert_true(du.gc_bytes < 1000); /* fewer commits than its defaults keep */
  fill(s, 1000);
  pd_gc_report report;
  expect_ok(pd_du_store(s, NULL, pd_text(""), 0, NULL, NULL, &du, &err), &err);
  assert_true(du.gc_bytes > 500 * 100);
  expect_ok(pd_gc(s, NULL, &report, &err), &err);
  uint64_t freed = report.log_bytes + report.bag_bytes;
  assert_true(freed >= du.gc_bytes / 2 && freed <= du.gc_bytes * 2);
  expect_ok(pd_du_store(s, NULL, pd_text(""), 0, NULL, NULL, &du, &err), &err);
  assert_true(du.gc_bytes < 10000);
  assert_int_equal(du.keys, 33);
  assert_int_equal(pd_du_store(s, "nowhere", pd_text(""), 0, NULL, NULL, &du, &err), PD_NOT_FOUND);
  pd_store_close(s, NULL);
}

/* ---- doctor ---- */

typedef struct findings {
  pd_severity worst;
  bool has_cut, has_garbage;
} findings;

static void take_diagnosis(void *ctx, const pd_diagnosis *d)
{
  findings *f = ctx;
  if (d->severity > f->worst && *d->agent) f->worst = d->severity;
  f->has_cut |= strstr(d->what, "gc retired what was before record") != NULL;
  f->has_garbage |= strstr(d->what, "old history that gc would retire") != NULL;
}

static findings look(void)
{
  findings f = {0};
  pd_error err;
  expect_ok(pd_doctor(uri, take_diagnosis, &f, NULL, &err), &err);
  return f;
}

static void doctor__tells_of_garbage_and_of_the_cut(void **state)
{
  (void)state;
  pd_error err;
  pd_store *s = open_store("doctor");
  for (int i = 0; i < 600; i++) put(s, "large", 4000, (char)('a' + i % 26));
  pd_store_close(s, NULL);
  findings f = look();
  assert_true(f.has_garbage);
  assert_false(f.has_cut);
  s = open_store(NULL);
  expect_ok(pd_gc(s, NULL, NULL, &err), &err);
  pd_store_close(s, NULL);
  f = look();
  assert_true(f.has_cut);
  assert_false(f.has_garbage);
  assert_true(f.worst < PD_SEVERITY_WARNING);
}

/* ---- repair ---- */

static void sql(const char *statement)
{
  char path[300], *why = NULL;
  sqlite3 *db = NULL;
  snprintf(path, sizeof path, "%s/main.db", uri + strlen("sqlite:"));
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, statement, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", statement, why);
  sqlite3_close(db);
}

static void count_finding(void *ctx, const pd_repair_finding *finding)
{
  ++((unsigned *)ctx)[finding->can_mend];
}

/* Two forks, a tag in the middle, and gc. */
static void make_cut_store(const char *name)
{
  pd_error err;
  pd_store *s = open_store(name);
  fill(s, 500);
  expect_ok(pd_tag_set(s, "middle", NULL, false, NULL, NULL, &err), &err);
  expect_ok(pd_fork(s, "branch", NULL, NULL, NULL, &err), &err);
  fill(s, 700);
  pd_gc_policy policy = {.keep_last = 20};
  expect_ok(pd_gc(s, &policy, NULL, &err), &err);
  fill(s, 300);
  expect_ok(pd_store_keyframe(s, &err), &err);
  pd_store_close(s, NULL);
}

static void check_whole(void)
{
  pd_error err;
  pd_buf value = {0};
  pd_store *s = open_store(NULL);
  expect_ok(pd_verify(s, NULL, NULL, &err), &err);
  static const char *const points[] = {"main", "main~300", "branch", "middle"};
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) expect_ok(pd_get(s, points[i], pd_text("k/7"), &value, NULL, &err), &err);
  put(s, "after", 10, 'q');
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

static void repair__of_a_sound_store_that_gc_cut_changes_nothing(void **state)
{
  (void)state;
  pd_error err;
  pd_repair_report report;
  make_cut_store("sound");
  expect_ok(pd_repair(uri, "main", NULL, &report, &err), &err);
  assert_int_equal(report.damaged + report.missing + report.mended + report.findings, 0);
  check_whole();
}

/* Each blob of the bag in turn: what repair says it can mend it mends, and what it cannot it names and leaves alone. */
static void repair__of_a_store_that_gc_cut_mends_what_can_be_mended_and_names_the_rest(void **state)
{
  (void)state;
  unsigned mended = 0, hopeless = 0;
  pd_error err;
  make_cut_store("cut");
  char keep[600], restore[900], statement[200];
  snprintf(keep, sizeof keep, "cp -a '%s' '%s.kept'", uri + strlen("sqlite:"), uri + strlen("sqlite:"));
  snprintf(restore, sizeof restore, "rm -rf '%s' && cp -a '%s.kept' '%s'", uri + strlen("sqlite:"), uri + strlen("sqlite:"),
           uri + strlen("sqlite:"));
  assert_int_equal(system(keep), 0);
  for (int i = 0; i < 12; i++) {
    unsigned found[2] = {0};
    pd_repair_report report = {0};
    pd_repair_options options = {.finding = count_finding, .ctx = found};
    assert_int_equal(system(restore), 0);
    snprintf(statement, sizeof statement,
             i % 2 ? "DELETE FROM bag WHERE n = (SELECT n FROM bag ORDER BY n DESC LIMIT 1 OFFSET %d)"
                   : "UPDATE bag SET data = zeroblob(20) WHERE n = (SELECT n FROM bag ORDER BY n DESC LIMIT 1 OFFSET %d)",
             i * 2);
    sql(statement);
    pd_code code = pd_repair(uri, "main", &options, &report, &err);
    if (!code) {
      mended++;
      check_whole();
      continue;
    }
    assert_int_equal(code, PD_CORRUPT);
    assert_true(found[false] > 0 && report.findings == found[false]);
    hopeless++;
  }
  print_message("# %u mended, %u beyond repair\n", mended, hopeless);
  assert_true(mended > 0);
}

static int make_folder(void **state)
{
  (void)state;
  folder = temp_folder_new();
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  temp_folder_free(folder);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(du__adds_up_and_says_what_gc_would_free),
    cmocka_unit_test(doctor__tells_of_garbage_and_of_the_cut),
    cmocka_unit_test(repair__of_a_sound_store_that_gc_cut_changes_nothing),
    cmocka_unit_test(repair__of_a_store_that_gc_cut_mends_what_can_be_mended_and_names_the_rest),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
