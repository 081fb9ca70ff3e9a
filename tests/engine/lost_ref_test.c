/*
 * lost_ref_test.c: a ref that points at what gc retired, as versions before G9 (retired.h) could leave it. It is made here by a
 * gc that does not know of the ref. The others go on: keyframes, gc, opening; doctor and verify name it, repair moves it back or deletes
 * it.
 */
#include "base/base.h"
#include "base/buf.h"
#include "engine/retired.h"
#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_error err;
static char *folder, *uri;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s", #call, err.message);                                                                                      \
  } while (0)

static pd_store *open_store(void)
{
  pd_store *s = NULL;
  OK(pd_store_open(uri, "main", NULL, &s, &err));
  return s;
}

static void fill(pd_store *s, const char *ref, int count)
{
  for (int i = 0; i < count; i++) {
    char key[16], value[32];
    pd_note note = {.ref = ref};
    snprintf(key, sizeof key, "k%d", i % 5);
    snprintf(value, sizeof value, "%s %d", ref, i);
    OK(pd_put(s, pd_text(key), pd_text(value), &note, NULL, &err));
  }
}

/* Stage a move to a commit that is gone: with a handle that is kept from knowing. */
static void point_at(pd_store *s, pd_record_kind kind, const char *ref, const pd_commit *gone)
{
  pd_store_lock(s);
  OK(pd_retention_ready(s, &err));
  uint64_t cut = s->retention.state.cut;
  s->retention.state.cut = 0;
  pd_store_unlock(s);
  pd_intent intent = {.kind = kind, .ref = ref, .target = gone};
  OK(pd_write(s, &intent, NULL, &err));
  pd_store_lock(s);
  s->retention.state.cut = cut;
  pd_store_unlock(s);
}

/* "lost" was forked there, "moved" was reset there. */
static pd_store *make_lost(void)
{
  pd_store *s = open_store();
  pd_commit gone;
  fill(s, "main", 40);
  OK(pd_resolve(s, "main~30", &gone, &err));
  OK(pd_fork(s, "moved", "main", NULL, NULL, &err));
  fill(s, "main", 40);
  OK(pd_gc(s, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  fill(s, "moved", 3);
  point_at(s, PD_RECORD_FORK, "lost", &gone);
  point_at(s, PD_RECORD_RESET, "moved", &gone);
  OK(pd_store_close(s, &err));
  s = open_store();
  assert_int_equal(pd_get(s, "lost", pd_text("k0"), NULL, NULL, &err), PD_RETIRED);
  assert_int_equal(pd_get(s, "moved", pd_text("k0"), NULL, NULL, &err), PD_RETIRED);
  return s;
}

typedef struct findings {
  unsigned lost, moved, all;
} findings;

static void take_text(findings *f, const char *what)
{
  f->lost += strstr(what, "'lost'") != NULL;
  f->moved += strstr(what, "'moved'") != NULL;
  f->all++;
}

static void take_finding(void *ctx, const char *what)
{
  take_text(ctx, what);
}

/* Both are named, and nothing else is. */
static void expect_named(pd_store *s)
{
  findings f = {0};
  pd_verify_options options = {.finding = take_finding, .ctx = &f};
  assert_int_equal(pd_verify(s, &options, NULL, &err), PD_CORRUPT);
  assert_int_equal(f.lost, 1);
  assert_int_equal(f.moved, 1);
  assert_int_equal(f.all, 2);
}

static void lost__keyframes_and_gc_go_on_and_list_it(void **state)
{
  (void)state;
  pd_store *s = make_lost();
  pd_gc_report report;
  pd_ref ref;
  for (int round = 0; round < 3; round++) {
    fill(s, "main", 50);
    OK(pd_store_keyframe(s, &err));
    OK(pd_gc(s, &(pd_gc_policy){.keep_last = 2, .is_dry = true}, NULL, &err));
    OK(pd_gc(s, &(pd_gc_policy){.keep_last = 2}, &report, &err));
    assert_true(report.retired > 0);
    OK(pd_store_close(s, &err));
    s = open_store();
    OK(pd_ref_get(s, "lost", &ref, &err)); /* not gone silently */
    assert_int_equal(pd_get(s, "lost", pd_text("k0"), NULL, NULL, &err), PD_RETIRED);
    OK(pd_get(s, "main", pd_text("k0"), NULL, NULL, &err));
    expect_named(s); /* also where it begins at a catalog that has them without a tree */
  }
  OK(pd_store_close(s, &err));
}

static void take_diagnosis(void *ctx, const pd_diagnosis *d)
{
  if (d->severity >= PD_SEVERITY_ERROR) take_text(ctx, d->what);
}

static void take_repair(void *ctx, const pd_repair_finding *finding)
{
  assert_true(finding->can_mend);
  take_text(ctx, finding->what);
}

static void lost__is_named_by_verify_and_doctor_and_mended_by_repair(void **state)
{
  (void)state;
  pd_store *s = make_lost();
  findings doctor = {0}, repair = {0};
  pd_repair_report report;
  pd_buf value = {0};
  pd_ref ref;
  OK(pd_store_keyframe(s, &err));
  expect_named(s);
  OK(pd_store_close(s, &err));
  OK(pd_doctor(uri, take_diagnosis, &doctor, NULL, &err));
  assert_int_equal(doctor.lost + doctor.moved, 2);
  pd_repair_options dry = {.is_dry_run = true, .finding = take_repair, .ctx = &repair};
  OK(pd_repair(uri, "main", &dry, &report, &err));
  assert_int_equal(report.refs, 2);
  OK(pd_repair(uri, "main", &(pd_repair_options){.finding = take_repair, .ctx = &repair}, &report, &err));
  assert_int_equal(report.refs, 2);
  assert_int_equal(repair.lost, 2);
  assert_int_equal(repair.moved, 2);
  s = open_store();
  assert_int_equal(pd_ref_get(s, "lost", &ref, &err), PD_NOT_FOUND);
  OK(pd_get(s, "moved", pd_text("k2"), &value, NULL, &err)); /* where it was before */
  assert_true(pd_bytes_equal(pd_buf_bytes(&value), pd_text("moved 2")));
  OK(pd_verify(s, NULL, NULL, &err));
  OK(pd_gc(s, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  OK(pd_verify(s, NULL, NULL, &err));
  pd_buf_done(&value);
  OK(pd_store_close(s, &err));
  OK(pd_repair(uri, "main", NULL, &report, &err));
  assert_int_equal(report.refs, 0);
}

static void expect_whole(pd_store *s, const char *ref)
{
  pd_code code = pd_get(s, ref, pd_text("k2"), NULL, NULL, &err);
  if (code && code != PD_RETIRED) fail_msg("ref '%s': %s", ref, err.message); /* PD_RETIRED: not mended yet */
}

/* A disk that fails for a moment is no reason to take a ref for lost, nor the last place where it could be read. */
static void lost__repair_whose_reads_fail_for_a_while_takes_nothing_from_a_ref(void **state)
{
  (void)state;
  char *faulty = text_of("fault:%s", uri);
  bool has_fired = true;
  fault_backend_install();
  OK(pd_store_close(make_lost(), &err));
  for (uint64_t n = 1; has_fired; n++) {
    fault_backend_plan((fault_plan){.at = n, .count = 3, .ops = FAULT_LOG_READ | FAULT_BAG_GET});
    pd_code code = pd_repair(faulty, "main", NULL, NULL, &err);
    has_fired = fault_backend_has_fired();
    fault_backend_plan((fault_plan){0});
    if (!has_fired && code) fail_msg("repair: %s", err.message);
    pd_store *s = open_store();
    OK(pd_get(s, "main", pd_text("k2"), NULL, NULL, &err));
    expect_whole(s, "moved");
    OK(pd_store_close(s, &err));
  }
  free(faulty);
}

static int set_up(void **state)
{
  (void)state;
  folder = temp_folder_new();
  uri = text_of("sqlite:%s", folder);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  temp_folder_free(folder);
  free(uri);
  return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(lost__keyframes_and_gc_go_on_and_list_it),
    TEST(lost__is_named_by_verify_and_doctor_and_mended_by_repair),
    TEST(lost__repair_whose_reads_fail_for_a_while_takes_nothing_from_a_ref),
  };
  return cmocka_run_group_tests_name("lost_ref", tests, NULL, NULL);
}
