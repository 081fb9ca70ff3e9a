/*
 * export_gc_test.c: exports beside gc (gc.h G10): in the middle of an export a gc comes that would retire most of what is still to be
 * written: of the same handle, of another, of another process. The export has all of it at the end, and gc comes to its own afterwards.
 */
#include "engine/bundle_world.h"
#include "engine/gc.h"
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

#define BRANCHES 4
#define COMMITS 100 /* of each */
#define LARGE ((size_t)300 << 10)

static pd_error err;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s", #call, err.message);                                                                                      \
  } while (0)

static const pd_gc_policy narrow = {.keep_last = 1};
static char *folder, *uri;

static pd_store *open_store(void)
{
  pd_store *s = NULL;
  OK(pd_store_open(uri, "main", NULL, &s, &err));
  return s;
}

static void put_large(pd_store *s, const char *ref, int number)
{
  uint8_t *bytes = malloc(LARGE);
  uint32_t x = (uint32_t)number + 1;
  pd_note note = {.ref = ref};
  assert_non_null(bytes);
  for (size_t i = 0; i < LARGE; i++) bytes[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
  OK(pd_put(s, pd_text("large"), (pd_bytes){bytes, LARGE}, &note, NULL, &err));
  free(bytes);
}

/* Branches with values in records and in the bag; `is_cut`: gc was there before, so their beginnings are grafts. */
static pd_store *make_source(const char *where, bool is_cut)
{
  folder = temp_folder_new();
  uri = text_of("%s%s", where, strcmp(where, "sqlite:") == 0 ? folder : "export_gc");
  pd_store *s = open_store();
  char name[32], value[32];
  world_put(s, "base", "0", NULL);
  for (int b = 0; b < BRANCHES; b++) {
    snprintf(name, sizeof name, "b%d", b);
    OK(pd_fork(s, name, "main", NULL, NULL, &err));
    for (int i = 0; i < COMMITS; i++) {
      snprintf(value, sizeof value, "%d of %d", i, b);
      world_put(s, i % 3 ? "k" : name, value, &(pd_note){.ref = name});
      if (i % 40 == 0) put_large(s, name, b * COMMITS + i);
    }
  }
  if (is_cut) OK(pd_gc(s, &(pd_gc_policy){.keep_last = COMMITS / 2, .keep_versions = 3}, NULL, &err));
  return s;
}

static void end_source(pd_store *s)
{
  OK(pd_store_close(s, &err));
  free(uri);
  temp_folder_free(folder);
}

/* ---- a gc in the middle ---- */

typedef struct middle {
  pd_store *s; /* whose gc it is; NULL: another process's */
  pid_t child;
  unsigned refused, ran;
} middle;

/* This program again, in one of the roles below. */
static pid_t start(const char *role)
{
  fflush(stdout);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) execl("/proc/self/exe", "export_gc_test", role, uri, (char *)NULL);
  if (!pid) _exit(101);
  return pid;
}

/* Its exit status is the code of gc. */
static int collect_alone(bool is_quiet)
{
  pd_store *s = NULL;
  if (pd_store_open(uri, "main", NULL, &s, NULL)) return 100;
  pd_code code = is_quiet ? pd_gc_quietly(s, &narrow, NULL, NULL) : pd_gc(s, &narrow, NULL, NULL);
  return pd_store_close(s, NULL) ? 100 : (int)code;
}

static pd_code code_of(pid_t pid)
{
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return (pd_code)WEXITSTATUS(status);
}

static bool collect(void *ctx, uint64_t done, uint64_t total)
{
  middle *m = ctx;
  if (done >= total) return true;
  pd_code code = m->s ? pd_gc_quietly(m->s, &narrow, NULL, &err) : code_of(start("quiet"));
  if (!m->s && !m->child) m->child = start("patient"); /* this one waits for the export */
  if (code && code != PD_CONFLICT) fail_msg("gc: %s", err.message);
  m->refused += code == PD_CONFLICT;
  m->ran += code == PD_OK;
  return true;
}

static void check_arrived(FILE *file, uint64_t commits)
{
  pd_store *to = world_open();
  pd_import_report report;
  world_import(to, fileno(file), NULL, &report);
  assert_int_equal(report.commits, commits);
  world_sound(to);
  OK(pd_store_close(to, &err));
}

static void check_export(const char *where, bool is_cut, bool is_own, bool is_elsewhere)
{
  pd_store *s = make_source(where, is_cut), *other = is_own || is_elsewhere ? NULL : open_store();
  FILE *file = tmpfile();
  pd_export_report whole, report;
  pd_gc_report gone = {0};
  assert_non_null(file);
  OK(pd_export(s, fileno(file), &(pd_export_options){.is_all = true}, &whole, &err));
  rewind(file);
  assert_int_equal(ftruncate(fileno(file), 0), 0);
  middle m = {.s = is_own ? s : other};
  OK(pd_export(s, fileno(file), &(pd_export_options){.is_all = true, .progress = collect, .ctx = &m}, &report, &err));
  assert_int_equal(report.commits, whole.commits);
  check_arrived(file, whole.commits);
  assert_true(m.refused > 1);
  assert_int_equal(m.ran, 0);
  if (is_elsewhere) {
    pd_export_report after;
    assert_int_equal(code_of(m.child), PD_OK);
    rewind(file);
    OK(pd_export(s, fileno(file), &(pd_export_options){.is_all = true}, &after, &err));
    assert_true(after.commits < whole.commits);
  } else {
    OK(pd_gc_quietly(m.s, &narrow, &gone, &err)); /* nothing is left behind */
    assert_true(gone.retired > COMMITS);
  }
  fclose(file);
  pd_store_close(other, NULL);
  end_source(s);
}

static void export__beside_gc_of_the_same_handle_has_all_of_its_moment(void **state)
{
  (void)state;
  for (int is_cut = 0; is_cut < 2; is_cut++) check_export("sqlite:", is_cut, true, false);
  for (int is_cut = 0; is_cut < 2; is_cut++) check_export("memory:", is_cut, true, false);
}

static void export__beside_gc_of_another_handle_has_all_of_its_moment(void **state)
{
  (void)state;
  for (int is_cut = 0; is_cut < 2; is_cut++) check_export("sqlite:", is_cut, false, false);
  for (int is_cut = 0; is_cut < 2; is_cut++) check_export("memory:", is_cut, false, false);
}

static void export__beside_gc_of_another_process_has_all_of_its_moment(void **state)
{
  (void)state;
  for (int is_cut = 0; is_cut < 2; is_cut++) check_export("sqlite:", is_cut, false, true);
}

/* ---- what is left of those that end otherwise ---- */

static bool give_up(void *ctx, uint64_t done, uint64_t total)
{
  (void)ctx;
  return done >= total;
}

static void export__that_is_given_up_is_in_no_gcs_way(void **state)
{
  (void)state;
  pd_store *s = make_source("sqlite:", false);
  int null = open_null();
  assert_int_equal(pd_export(s, null, &(pd_export_options){.is_all = true, .progress = give_up}, NULL, NULL), PD_INVALID);
  assert_int_equal(pd_export(s, null, &(pd_export_options){.refs = &(const char *){"nowhere"}, .ref_count = 1}, NULL, NULL), PD_NOT_FOUND);
  OK(pd_gc_quietly(s, &narrow, NULL, &err));
  close(null);
  end_source(s);
}

static bool hang(void *ctx, uint64_t done, uint64_t total)
{
  (void)ctx;
  (void)done;
  (void)total;
  if (write(STDOUT_FILENO, "", 1) != 1) _exit(1);
  for (;;) pause();
}

static int export_and_hang(void)
{
  pd_store *s = NULL;
  if (pd_store_open(uri, "main", NULL, &s, NULL)) return 100;
  return pd_export(s, open_null(), &(pd_export_options){.is_all = true, .progress = hang}, NULL, NULL) ? 1 : 0;
}

static void export__of_a_process_that_was_killed_is_in_no_gcs_way(void **state)
{
  (void)state;
  pd_store *s = make_source("sqlite:", false);
  int ends[2], status, out = dup(STDOUT_FILENO);
  char byte;
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  dup2(ends[1], STDOUT_FILENO);
  pid_t pid = start("hang");
  dup2(out, STDOUT_FILENO);
  close(out);
  close(ends[1]);
  assert_int_equal(read(ends[0], &byte, 1), 1);
  assert_int_equal(pd_gc_quietly(s, &narrow, NULL, &err), PD_CONFLICT);
  assert_non_null(strstr(err.message, "export"));
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  OK(pd_gc_quietly(s, &narrow, NULL, &err));
  close(ends[0]);
  end_source(s);
}

static void export__by_a_read_only_handle_keeps_gc_away_too(void **state)
{
  (void)state;
  pd_store *s = make_source("sqlite:", false), *reader = NULL;
  int null = open_null();
  middle m = {.s = s};
  OK(pd_store_open(uri, "main", &(pd_options){.is_read_only = true}, &reader, &err));
  OK(pd_export(reader, null, &(pd_export_options){.is_all = true, .progress = collect, .ctx = &m}, NULL, &err));
  assert_true(m.refused > 1);
  close(null);
  pd_store_close(reader, NULL);
  end_source(s);
}

static void pause__lasts_beyond_its_handle_until_it_ends(void **state)
{
  (void)state;
  pd_store *s = make_source("sqlite:", false), *other = open_store();
  pd_gc_pause *pauses[2];
  for (size_t i = 0; i < 2; i++) OK(pd_gc_pause_begin(other, &pauses[i], &err));
  OK(pd_store_close(other, &err));
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(pd_gc_quietly(s, &narrow, NULL, &err), PD_CONFLICT);
    pd_gc_pause_end(pauses[i]);
  }
  pd_gc_pause_end(NULL);
  OK(pd_gc_quietly(s, &narrow, NULL, &err));
  end_source(s);
}

int main(int count, char **arguments)
{
  if (count == 3) {
    uri = arguments[2];
    alarm(120);
    return strcmp(arguments[1], "hang") == 0 ? export_and_hang() : collect_alone(strcmp(arguments[1], "quiet") == 0);
  }
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(export__beside_gc_of_the_same_handle_has_all_of_its_moment),
    cmocka_unit_test(export__beside_gc_of_another_handle_has_all_of_its_moment),
    cmocka_unit_test(export__beside_gc_of_another_process_has_all_of_its_moment),
    cmocka_unit_test(export__that_is_given_up_is_in_no_gcs_way),
    cmocka_unit_test(export__of_a_process_that_was_killed_is_in_no_gcs_way),
    cmocka_unit_test(export__by_a_read_only_handle_keeps_gc_away_too),
    cmocka_unit_test(pause__lasts_beyond_its_handle_until_it_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
