/*
 * bundle_gc_test.c: imports beside gc (bundle.h D7): whatever gc does in between, in this handle or another, every commit of the bundle is
 * there at the end. And what is left of an import that was killed.
 */
#include "base/base.h"
#include "base/buf.h"
#include "engine/bundle.h"
#include "engine/bundle_world.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BRANCHES 6
#define COMMITS 150 /* of each */
#define HOUR_MS ((int64_t)60 * 60 * 1000)

static pd_error err;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s", #call, err.message);                                                                                      \
  } while (0)

static char *folder, *uri;
static unsigned steps; /* of the third pass, each of 64 commits */
static int64_t now_ms;

static int64_t tell_time(void *ctx)
{
  (void)ctx;
  return now_ms;
}

static pd_store *open_store(void)
{
  pd_store *s = NULL;
  pd_options options = {.now_ms = tell_time};
  OK(pd_store_open(uri, "main", &options, &s, &err));
  return s;
}

/* Branches from main, one after the other, with a tag in the middle of each. */
static pd_store *make_source(int branches, int commits)
{
  pd_store *s = world_open();
  char name[32], value[32];
  world_put(s, "base", "0", NULL);
  for (int b = 0; b < branches; b++) {
    snprintf(name, sizeof name, "b%d", b);
    OK(pd_fork(s, name, "main", NULL, NULL, &err));
    pd_note note = {.ref = name};
    for (int i = 0; i < commits; i++) {
      snprintf(value, sizeof value, "%d of %d", i, b);
      world_put(s, i % 3 ? "k" : name, value, &note);
      if (i != commits / 2) continue;
      snprintf(value, sizeof value, "t%d", b);
      OK(pd_tag_set(s, value, name, false, NULL, NULL, &err));
    }
  }
  return s;
}

/* Most of the commits are appended. */
static bool is_late(uint64_t done, uint64_t total)
{
  return done >= total / 3 * 2 && ++steps >= BRANCHES * COMMITS / 64 * 3 / 4;
}

/* A gc for each step of the third pass. */
typedef struct collector {
  pd_store *s;
  uint64_t runs, last;
} collector;

static bool collect(void *ctx, uint64_t done, uint64_t total)
{
  collector *c = ctx;
  if (done < total / 3 * 2) return true;
  if (pd_gc(c->s, &(pd_gc_policy){.keep_last = 1}, NULL, &err)) fail_msg("gc: %s", err.message);
  c->runs++;
  return true;
}

static size_t hidden_refs(pd_store *s)
{
  size_t count = 0;
  pd_ref ref;
  OK(pd_ref_get(s, "main", &ref, &err)); /* what others did is read */
  for (size_t i = 0; i < s->slot_count; i++) count += !s->slots[i]->seen.is_deleted && pd_ref_is_import(s->slots[i]->name);
  return count;
}

typedef void (*compare)(pd_store *a, pd_store *b);

static void check_arrived(pd_store *from, pd_store *to, compare same)
{
  char name[32], at[32], value[64];
  pd_buf got = {0};
  for (int b = 0; b < BRANCHES; b++) {
    snprintf(name, sizeof name, "b%d", b);
    snprintf(at, sizeof at, "t%d", b);
    snprintf(value, sizeof value, "%d of %d", COMMITS / 2, b);
    OK(pd_get(to, at, pd_text(COMMITS / 2 % 3 ? "k" : name), &got, NULL, &err));
    assert_true(pd_bytes_equal(pd_buf_bytes(&got), pd_text(value)));
  }
  pd_buf_done(&got);
  same(from, to);
  world_sound(to);
  assert_int_equal(hidden_refs(to), 0);
  OK(pd_gc(to, NULL, NULL, &err));
  world_sound(to);
}

static void import__beside_gc(bool is_own)
{
  pd_store *from = make_source(BRANCHES, COMMITS), *to = open_store(), *other = open_store();
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  collector c = {.s = is_own ? to : other};
  pd_import_report report;
  pd_import_options options = {.progress = collect, .ctx = &c};
  OK(pd_import(to, fd, &options, &report, &err));
  assert_true(c.runs > BRANCHES);
  assert_int_equal(report.added, report.commits);
  check_arrived(from, to, world_same);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL), pd_store_close(other, NULL);
}

static void import__survives_gc_of_another_process_at_every_step(void **state)
{
  (void)state;
  import__beside_gc(false);
}

static void import__survives_gc_of_the_same_handle_at_every_step(void **state)
{
  (void)state;
  import__beside_gc(true);
}

/* What was found here, and not appended, may go: then it is imported after all. */
static void import__of_commits_that_gc_takes_meanwhile_brings_them_again(void **state)
{
  (void)state;
  pd_store *from = make_source(BRANCHES, COMMITS), *to = open_store(), *other = open_store();
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  world_import(to, fd, NULL, NULL);
  for (int b = 0; b < BRANCHES; b++) { /* nobody keeps them any more, but they are in the log */
    char name[32];
    snprintf(name, sizeof name, "b%d", b);
    OK(pd_ref_delete(to, name, NULL, &err));
    snprintf(name, sizeof name, "t%d", b);
    OK(pd_tag_delete(to, name, NULL, &err));
  }
  collector c = {.s = other};
  pd_import_report report;
  pd_import_options options = {.progress = collect, .ctx = &c};
  OK(pd_import(to, fd, &options, &report, &err));
  assert_true(report.added > 0);
  check_arrived(from, to, world_same_but_numbers); /* this store gave numbers before (VN5) */
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL), pd_store_close(other, NULL);
}

/* Asked at each step, a handle that imports runs no gc by itself. */
static bool ask_for_gc(void *ctx, uint64_t done, uint64_t total)
{
  collector *c = ctx;
  bool did = false;
  if (done < total / 3 * 2) return true;
  if (pd_gc_auto(c->s, &did, NULL, &err)) fail_msg("gc: %s", err.message);
  c->runs += did;
  pd_store_lock(c->s);
  c->last = c->s->log_seq;
  c->runs += c->s->auto_gc.has_thread;
  pd_store_unlock(c->s);
  return true;
}

static void import__with_automatic_gc_on_loses_nothing(void **state)
{
  (void)state;
  int commits = getenv("PERDURE_SANITIZER") ? 240 : 1200;
  pd_store *from = make_source(5, commits), *to = open_store();
  pd_gc_info info;
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  OK(pd_setting_set(to, PD_SETTING_GC_AUTO, pd_text("on"), NULL, &err));
  OK(pd_setting_set(to, PD_SETTING_GC_KEEP_LAST, pd_text("1"), NULL, &err));
  pd_import_report report;
  collector c = {.s = to};
  world_import(to, fd, &(pd_import_options){.progress = ask_for_gc, .ctx = &c}, &report);
  assert_int_equal(report.added, 5 * commits + 1);
  assert_int_equal(c.runs, 0);
  if (commits == 1200) assert_true(c.last > 4096); /* it was due before the end */
  OK(pd_gc_status(to, &info, &err));
  assert_int_equal(info.auto_runs, 0); /* not by a handle that imports */
  world_same(from, to);                /* settings are no numbers (VN1) */
  OK(pd_gc(to, NULL, NULL, &err));
  for (int b = 0; b < 5; b++) {
    char name[32];
    snprintf(name, sizeof name, "b%d", b);
    OK(pd_get(to, name, pd_text("k"), NULL, NULL, &err));
  }
  world_sound(to);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

/* Clients know the numbers: they are those of the backup, also if the receiver has settings and keyframes already. */
static void import__after_a_setting_and_a_keyframe_keeps_the_numbers(void **state)
{
  (void)state;
  pd_store *from = make_source(BRANCHES, COMMITS), *to = open_store();
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  for (int i = 0; i < 3; i++) OK(pd_setting_set(to, PD_SETTING_GC_AUTO, pd_text(i % 2 ? "on" : "off"), NULL, &err));
  OK(pd_store_keyframe(to, &err));
  pd_store_close(to, NULL);
  to = open_store();
  world_import(to, fd, NULL, NULL);
  world_same(from, to);
  uint64_t top = to->version_top;
  OK(pd_setting_set(to, PD_SETTING_GC_AUTO, pd_text("on"), NULL, &err));
  assert_int_equal(to->version_top, top);
  assert_true(to->meta_top >= 4); /* a number of a setting does not come again, either */
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

/* What is imported may take the place of what is written meanwhile: they must not have a number in common. */
static bool write_once(void *ctx, uint64_t done, uint64_t total)
{
  collector *c = ctx;
  pd_ack ack;
  if (!is_late(done, total) || c->runs) return true;
  if (pd_put(c->s, pd_text("base"), pd_text("another"), NULL, &ack, &err)) fail_msg("put: %s", err.message);
  c->runs = ack.version;
  for (int i = 0; i < 2; i++)
    if (pd_put(c->s, pd_text("b0"), pd_text("another"), NULL, &ack, &err)) fail_msg("put: %s", err.message);
  c->last = ack.version;
  return true;
}

static void import__and_a_write_beside_it_have_no_number_in_common(void **state)
{
  (void)state;
  pd_store *from = make_source(BRANCHES, COMMITS), *to = open_store(), *other = open_store();
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  collector c = {.s = other};
  OK(pd_import(to, fd, &(pd_import_options){.progress = write_once, .ctx = &c, .as = "there"}, NULL, &err));
  assert_true(c.runs > 0);
  OK(pd_get_version(to, "main", pd_text("base"), c.runs, NULL, NULL, &err));
  assert_int_equal(pd_get_version(to, "there/main", pd_text("base"), c.runs, NULL, NULL, &err), PD_NOT_FOUND);
  OK(pd_get_version(to, "main", pd_text("b0"), c.last, NULL, NULL, &err));
  assert_int_equal(pd_get_version(to, "there/b0", pd_text("b0"), c.last, NULL, NULL, &err), PD_NOT_FOUND);
  world_sound(to);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL), pd_store_close(other, NULL);
}

static bool stop_late(void *ctx, uint64_t done, uint64_t total)
{
  (void)ctx;
  return !is_late(done, total);
}

static void import__given_up_leaves_no_hidden_refs(void **state)
{
  (void)state;
  pd_store *from = make_source(BRANCHES, COMMITS), *to = open_store();
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  assert_int_equal(pd_import(to, fd, &(pd_import_options){.progress = stop_late}, NULL, &err), PD_INVALID);
  assert_int_equal(hidden_refs(to), 0);
  world_sound(to);
  world_import(to, fd, NULL, NULL);
  world_same(from, to);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

/* ---- killed ---- */

static bool die_late(void *ctx, uint64_t done, uint64_t total)
{
  (void)ctx;
  if (is_late(done, total)) kill(getpid(), SIGKILL);
  return true;
}

static void import_and_die(int fd)
{
  int status;
  fflush(stdout);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    pd_store *s = open_store();
    (void)!pd_import(s, fd, &(pd_import_options){.progress = die_late}, NULL, NULL);
    _exit(1);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
}

typedef struct finding {
  const char *text;
  bool was_met;
} finding;

static void take_diagnosis(void *ctx, const pd_diagnosis *d)
{
  finding *f = ctx;
  f->was_met |= strstr(d->what, f->text) != NULL;
}

static bool doctor_says(const char *text)
{
  finding f = {.text = text};
  OK(pd_doctor(uri, take_diagnosis, &f, NULL, &err));
  return f.was_met;
}

static void import__killed_is_kept_from_gc_for_an_hour_and_resumed(void **state)
{
  (void)state;
  pd_store *from = make_source(BRANCHES, COMMITS);
  pd_import_report report;
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  import_and_die(fd);
  pd_store *to = open_store();
  assert_true(hidden_refs(to) > 1);
  now_ms += HOUR_MS - 1000;
  OK(pd_gc(to, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  assert_true(hidden_refs(to) > 1);
  world_import(to, fd, NULL, &report);
  assert_true(report.added < report.commits / 2);
  world_same(from, to);
  assert_true(hidden_refs(to) > 1); /* the other may be alive */
  now_ms += 2000;
  world_import(to, fd, NULL, &report);
  assert_int_equal(report.added, 0);
  assert_int_equal(hidden_refs(to), 0);
  world_sound(to);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

static void import__killed_is_named_by_doctor_and_removed_by_a_later_gc(void **state)
{
  (void)state;
  pd_store *from = make_source(BRANCHES, COMMITS);
  pd_gc_report report;
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  now_ms = 1600000000000; /* doctor has a clock of its own */
  import_and_die(fd);
  assert_true(doctor_says("an import did not end"));
  now_ms += HOUR_MS + 1000;
  pd_store *to = open_store();
  OK(pd_gc(to, &(pd_gc_policy){.keep_last = 1}, &report, &err));
  assert_int_equal(hidden_refs(to), 0);
  assert_true(report.retired > BRANCHES * COMMITS / 2);
  assert_false(doctor_says("import"));
  world_import(to, fd, NULL, NULL);
  world_same(from, to);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

/* ---- a sign of life ---- */

typedef struct staging {
  pd_store *s;
  pd_import_lines *lines;
  pd_import_line line;
} staging;

static pd_code stage_line(void *ctx, pd_error *why)
{
  staging *st = ctx;
  return pd_import_line_stage(st->s, st->lines, &st->line.tip, &st->line, why);
}

static int64_t updated_ms(pd_store *s, const char *name)
{
  pd_ref ref;
  OK(pd_ref_get(s, "main", &ref, &err)); /* what others did is read */
  return pd_slot_find(s, name)->seen.updated_ms;
}

/* It moves one of its refs to where it is, so that an import which waits for a slow disk is not taken for dead. */
static void import__that_has_nothing_to_append_for_ten_minutes_gives_a_sign_of_life(void **state)
{
  (void)state;
  pd_store *to = open_store(), *other = open_store();
  pd_import_lines lines = {0};
  staging st = {.s = to, .lines = &lines};
  char name[PD_REF_SIZE_MAX + 1];
  world_put(to, "base", "0", NULL);
  OK(pd_resolve(to, "main", &st.line.tip, &err));
  OK(pd_write_many(to, stage_line, &st, &err));
  OK(pd_import_line_appended(&lines, &st.line, &st.line.tip, &err));
  pd_import_line_name(&lines, &st.line, name);
  int64_t made_ms = now_ms;
  now_ms += HOUR_MS - 1000;
  OK(pd_import_beat(to, &lines, &err)); /* it has just appended */
  assert_int_equal(updated_ms(other, name), made_ms);
  lines.beat_ms -= HOUR_MS / 6;
  OK(pd_import_beat(to, &lines, &err));
  assert_int_equal(updated_ms(other, name), now_ms);
  now_ms += HOUR_MS - 1000;
  OK(pd_gc(other, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  assert_int_equal(hidden_refs(to), 1);
  now_ms += 2000;
  OK(pd_gc(other, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  assert_int_equal(hidden_refs(to), 0);
  lines.beat_ms -= HOUR_MS / 6;
  assert_int_equal(pd_import_beat(to, &lines, &err), PD_RETIRED); /* taken for dead: it begins again */
  pd_import_lines_done(&lines);
  pd_store_close(to, NULL), pd_store_close(other, NULL);
}

/* One that was taken for dead begins again. */
static bool sleep_long(void *ctx, uint64_t done, uint64_t total)
{
  collector *c = ctx;
  if (!is_late(done, total) || c->runs++) return true;
  now_ms += 2 * HOUR_MS;
  if (pd_gc(c->s, &(pd_gc_policy){.keep_last = 1}, NULL, &err)) fail_msg("gc: %s", err.message);
  assert_int_equal(hidden_refs(c->s), 0);
  return true;
}

static void import__taken_for_dead_begins_again(void **state)
{
  (void)state;
  pd_store *from = make_source(BRANCHES, COMMITS), *to = open_store(), *other = open_store();
  int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
  collector c = {.s = other};
  pd_import_options options = {.progress = sleep_long, .ctx = &c};
  world_import(to, fd, &options, NULL);
  assert_true(c.runs > 1);
  check_arrived(from, to, world_same);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL), pd_store_close(other, NULL);
}

/* The receiver has the head of one branch, but gc retired the commit that both branches begin at. */
static void pull__into_a_store_that_retired_the_common_base_brings_it_again(void **state)
{
  (void)state;
  pd_store *from = make_source(2, 20), *to = open_store();
  const char *const refs[] = {"b0"};
  OK(pd_transfer(from, to, &(pd_transfer_options){.refs = refs, .ref_count = 1}, NULL, &err));
  for (int i = 0; i < 100; i++) world_put(to, "noise", i % 2 ? "a" : "b", NULL);
  OK(pd_gc(to, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  OK(pd_transfer(from, to, &(pd_transfer_options){.is_all = true, .import = {.as = "there"}}, NULL, &err));
  OK(pd_get(to, "there/b1", pd_text("k"), NULL, NULL, &err));
  world_sound(to);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

static void import__again_and_again_uses_the_same_hidden_names(void **state)
{
  (void)state;
  pd_store *from = make_source(2, 3), *to = open_store();
  for (int i = 0; i < 20; i++) {
    world_put(from, "more", i % 2 ? "odd" : "even", NULL);
    int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
    world_import(to, fd, NULL, NULL);
    close(fd);
  }
  size_t names = 0;
  for (size_t i = 0; i < to->slot_count; i++) names += pd_ref_is_import(to->slots[i]->name);
  assert_true(names <= 4);
  world_same_but_numbers(from, to); /* numbers were given after the first (VN5) */
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

static int set_up(void **state)
{
  (void)state;
  folder = temp_folder_new();
  uri = text_of("sqlite:%s", folder);
  now_ms = 1700000000000;
  steps = 0;
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
    TEST(import__survives_gc_of_another_process_at_every_step),
    TEST(import__survives_gc_of_the_same_handle_at_every_step),
    TEST(import__of_commits_that_gc_takes_meanwhile_brings_them_again),
    TEST(import__with_automatic_gc_on_loses_nothing),
    TEST(import__after_a_setting_and_a_keyframe_keeps_the_numbers),
    TEST(import__and_a_write_beside_it_have_no_number_in_common),
    TEST(import__given_up_leaves_no_hidden_refs),
    TEST(import__killed_is_kept_from_gc_for_an_hour_and_resumed),
    TEST(import__killed_is_named_by_doctor_and_removed_by_a_later_gc),
    TEST(import__that_has_nothing_to_append_for_ten_minutes_gives_a_sign_of_life),
    TEST(import__taken_for_dead_begins_again),
    TEST(pull__into_a_store_that_retired_the_common_base_brings_it_again),
    TEST(import__again_and_again_uses_the_same_hidden_names),
  };
  return cmocka_run_group_tests_name("bundle_gc", tests, NULL, NULL);
}
