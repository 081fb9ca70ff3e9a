/* erase_late_test.c: the ledger of erasures and others: erasures during an import, a killed one, gc, a second handle, bundles
 * (erase_late.c, erase_compact.c). */
#include "erase_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMITS 700   /* the import appends them in groups of 512 */
#define LATE_CALLS 10 /* of the progress of the last pass, each after 64 commits */

/* `there` has the secret in its first commit. */
static int long_history(world *w)
{
  char value[16];
  world_put(w, w->there, "k", SECRET);
  for (unsigned i = 1; i < COMMITS; i++) {
    snprintf(value, sizeof value, "%u", i);
    world_put(w, w->there, "n", value);
  }
  return world_export_all(w, w->there, "long");
}

typedef struct meddler {
  world *w;
  void (*act)(world *w);
  unsigned calls;
} meddler;

/* Once, when the first commits of an import are in the log. */
static bool act_late(void *ctx, uint64_t done, uint64_t total)
{
  meddler *m = ctx;
  if (done >= total / 3 * 2 && ++m->calls == LATE_CALLS) m->act(m->w);
  return true;
}

static void import_with(world *w, pd_store *store, int fd, void (*act)(world *w))
{
  meddler m = {w, act, 0};
  pd_import_options options = {.as = "far", .progress = act_late, .ctx = &m};
  if (pd_import(store, fd, &options, NULL, &w->err)) fail_msg("import: %s", w->err.message);
  assert_true(m.calls >= LATE_CALLS);
}

static void erase_elsewhere(world *w)
{
  pd_store *s = world_open(w, w->uri);
  w->now_ms += 1000;
  if (pd_erase(s, pd_text("k"), &(pd_erase_options){.is_lazy = true}, NULL, &w->err)) fail_msg("erase: %s", w->err.message);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

static void erase_and_gc_elsewhere(world *w)
{
  pd_store *s = world_open(w, w->uri);
  erase_elsewhere(w);
  if (pd_gc(s, &(pd_gc_policy){.keep_last = 1}, NULL, &w->err)) fail_msg("gc: %s", w->err.message);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

static void want_only_k_erased(world *w)
{
  char at[32];
  snprintf(at, sizeof at, "far/main~%d", COMMITS - 1);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
  assert_int_equal(world_read_at(w, at, "k"), PD_ERASED);
  assert_int_equal(world_read_at(w, "far/main", "n"), PD_OK);
}

static void late__what_another_process_erases_during_an_import_does_not_come(void **state)
{
  world *w = *state;
  int fd = long_history(w);
  world_put(w, w->here, "k", SECRET);
  import_with(w, w->here, fd, erase_elsewhere);
  want_only_k_erased(w);
  close(fd);
}

static void late__an_erasure_and_a_gc_during_an_import(void **state)
{
  world *w = *state;
  int fd = long_history(w);
  world_put(w, w->here, "k", SECRET);
  import_with(w, w->here, fd, erase_and_gc_elsewhere);
  want_only_k_erased(w);
  close(fd);
}

static void die(world *w)
{
  (void)w;
  _exit(7);
}

static void late__what_an_import_left_that_was_killed_before_the_erasure_does_not_come(void **state)
{
  world *w = *state;
  int status, fd = long_history(w);
  world_put(w, w->here, "k", SECRET);
  assert_int_equal(pd_store_close(w->here, &w->err), PD_OK);
  assert_int_equal(pd_store_close(w->there, &w->err), PD_OK);
  w->here = w->there = NULL;
  pid_t child = fork();
  if (!child) import_with(w, world_open(w, w->uri), fd, die);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  w->here = world_open(w, w->uri);
  world_erase(w, "k", false);
  world_import_file(w, w->here, fd);
  want_only_k_erased(w);
  close(fd);
}

/* ---- its size ---- */

static void late__gc_removes_entries_that_a_later_one_of_the_key_makes_superfluous(void **state)
{
  world *w = *state;
  char value[32];
  for (unsigned i = 0; i < 20; i++) {
    snprintf(value, sizeof value, "secret number %u", i);
    world_put(w, w->there, "k", value);
    world_put(w, w->here, "k", value);
  }
  world_erase(w, "k", false);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  assert_int_equal(world_entries(w), 20 + 20 + 1 + 1 + 1);
  world_gc(w);
  assert_int_equal(world_entries(w), 20 + 1 + 1 + 1); /* notes for readers stay until the records are gone */
  world_gc(w);
  assert_int_equal(world_entries(w), 1 + 1 + 1);
  world_import(w);
  world_want_nowhere(w, "secret number");
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
}

static void late__gc_keeps_what_no_other_entry_says(void **state)
{
  world *w = *state;
  world_put(w, w->there, "a", SECRET);
  world_put(w, w->there, "b", OTHER);
  world_put(w, w->here, "a", SECRET);
  world_put(w, w->here, "b", OTHER);
  world_erase(w, "a", false);
  assert_int_equal(pd_erase(w->here, pd_text("b"), NULL, NULL, &w->err), PD_OK);
  size_t before = world_entries(w);
  world_gc(w);
  world_gc(w);
  assert_int_equal(world_entries(w), before);
  world_import(w);
  world_want_nowhere(w, SECRET);
  world_want_nowhere(w, OTHER);
}

/* ---- gc and an erasure of another handle ---- */

typedef struct racer {
  world *w;
  bool is_done;
} racer;

/* The same value once more, on one ref of two: its own entry is what holds. */
static bool erase_once(void *ctx, uint64_t done, uint64_t total)
{
  racer *r = ctx;
  world *w = r->w;
  (void)done, (void)total;
  if (r->is_done) return true;
  r->is_done = true;
  pd_store *s = world_open(w, w->uri);
  world_put(w, s, "k", "on the fork");
  assert_int_equal(pd_fork(s, "fork", "main", NULL, NULL, &w->err), PD_OK);
  world_put(w, s, "k", OTHER);
  world_put(w, w->there, "k", OTHER);
  erase_elsewhere(w);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  return true;
}

static void late__gc_does_not_remove_an_entry_that_is_written_meanwhile(void **state)
{
  world *w = *state;
  world_put(w, w->here, "k", OTHER);
  world_erase(w, "k", false);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false); /* the entry of the first value is superfluous now */
  for (unsigned i = 0; i < 5; i++) world_put(w, w->here, "later", i % 2 ? "a" : "b");
  racer r = {.w = w};
  pd_gc_policy policy = {.keep_last = 1, .progress = erase_once, .ctx = &r};
  if (pd_gc(w->here, &policy, NULL, &w->err)) fail_msg("gc: %s", w->err.message);
  assert_true(r.is_done);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
}

/* ---- bundles ---- */

static void late__a_ledger_that_was_imported_holds_in_the_same_process(void **state)
{
  world *w = *state;
  world_put(w, w->there, "k", SECRET);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  int ledger = world_export_all(w, w->here, "ledger"), history = world_export_all(w, w->there, "history");
  pd_store *s = world_open(w, "memory:");
  pd_buf value = {0};
  world_put(w, s, "a", "b");
  assert_int_equal(pd_tag_set(s, "t", "main", true, NULL, NULL, &w->err), PD_OK);
  assert_int_equal(pd_get(s, "t", pd_text("a"), &value, NULL, &w->err), PD_OK);
  world_import_file(w, s, ledger);
  assert_int_equal(pd_import(s, history, &(pd_import_options){.as = "old"}, NULL, &w->err), PD_OK);
  assert_int_equal(pd_get(s, "old/main", pd_text("k"), &value, NULL, &w->err), PD_ERASED);
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  close(ledger), close(history);
}

static void late__two_machines_that_erased_a_key_both_remember_the_later_time(void **state)
{
  world *w = *state;
  pd_store *s = world_open(w, "memory:");
  pd_buf value = {0};
  world_put(w, s, "k", "here for a moment");
  assert_int_equal(pd_erase(s, pd_text("k"), NULL, NULL, &w->err), PD_OK);
  world_put(w, w->there, "k", OTHER);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false); /* later */
  int ledger = world_export_all(w, w->here, "ledger"), history = world_export_all(w, w->there, "history");
  world_import_file(w, s, ledger);
  assert_int_equal(pd_import(s, history, &(pd_import_options){.as = "old"}, NULL, &w->err), PD_OK);
  assert_int_equal(pd_get(s, "old/main", pd_text("k"), &value, NULL, &w->err), PD_ERASED);
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  close(ledger), close(history);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST_IN_WORLD(late__what_another_process_erases_during_an_import_does_not_come),
    TEST_IN_WORLD(late__an_erasure_and_a_gc_during_an_import),
    TEST_IN_WORLD(late__what_an_import_left_that_was_killed_before_the_erasure_does_not_come),
    TEST_IN_WORLD(late__gc_removes_entries_that_a_later_one_of_the_key_makes_superfluous),
    TEST_IN_WORLD(late__gc_keeps_what_no_other_entry_says),
    TEST_IN_WORLD(late__gc_does_not_remove_an_entry_that_is_written_meanwhile),
    TEST_IN_WORLD(late__a_ledger_that_was_imported_holds_in_the_same_process),
    TEST_IN_WORLD(late__two_machines_that_erased_a_key_both_remember_the_later_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
