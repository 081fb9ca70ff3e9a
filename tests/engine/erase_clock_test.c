/* erase_clock_test.c: erasures while a clock was wrong: what was erased stays so, and what is written afterwards is not lost
 * (erase_ledger.c, Y2 and Y6). */
#include "erase_world.h"

#include <unistd.h>

#define YEAR ((int64_t)365 * 24 * 3600 * 1000)
#define HOUR ((int64_t)3600 * 1000)

static void erase_a_year_ahead(world *w, bool is_lazy)
{
  world_put(w, w->there, "k", OTHER);
  world_put(w, w->here, "k", SECRET);
  w->now_ms += YEAR;
  world_erase(w, "k", is_lazy);
  w->now_ms -= YEAR;
  world_put(w, w->here, "other", "puts the clock right");
  w->now_ms += HOUR;
  world_put(w, w->there, "k", "written after the erasure");
}

static void clock__what_is_written_after_an_erasure_that_was_ahead_comes(void **state)
{
  world *w = *state;
  erase_a_year_ahead(w, false);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_ERASED);
  world_want_nowhere(w, OTHER);
}

static void clock__what_is_written_after_a_lazy_erasure_that_was_ahead_comes(void **state)
{
  world *w = *state;
  erase_a_year_ahead(w, true);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_ERASED);
}

static void clock__gc_does_not_forget_that_the_erasure_was_ahead(void **state)
{
  world *w = *state;
  erase_a_year_ahead(w, false);
  world_gc(w);
  world_gc(w);
  assert_int_equal(pd_store_close(w->here, &w->err), PD_OK);
  w->here = world_open(w, w->uri);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_ERASED);
}

static void clock__a_year_later_it_is_still_known_that_the_erasure_was_ahead(void **state)
{
  world *w = *state;
  erase_a_year_ahead(w, false);
  w->now_ms += YEAR + 100 * 24 * HOUR;
  world_put(w, w->here, "other", "a year later");
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_ERASED);
}

static void clock__another_machine_learns_the_right_time_of_the_erasure(void **state)
{
  world *w = *state;
  erase_a_year_ahead(w, false);
  int ledger = world_export_all(w, w->here, "ledger"), history = world_export_all(w, w->there, "history");
  char uri[] = "memory:";
  pd_store *s = world_open(w, uri);
  assert_int_equal(pd_import(s, ledger, NULL, NULL, &w->err), PD_OK);
  world_import_file(w, s, history);
  pd_buf value = {0};
  assert_int_equal(pd_get(s, "far/main", pd_text("k"), &value, NULL, &w->err), PD_OK);
  assert_int_equal(pd_get(s, "far/main~1", pd_text("k"), &value, NULL, &w->err), PD_ERASED);
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  close(ledger), close(history);
}

static void what_was_put_ahead_stays_erased(world *w, int64_t ahead_for)
{
  world_put(w, w->here, "other", "before");
  w->now_ms += YEAR;
  world_put(w, w->here, "k", OTHER);
  for (int64_t hours = 0; hours < ahead_for / HOUR; hours++) {
    w->now_ms += HOUR - 1000;
    world_put(w, w->here, "other", hours % 2 ? "odd" : "even");
  }
  world_put(w, w->here, "k", SECRET);
  int backup = world_export_all(w, w->here, "backup");
  world_erase(w, "k", false);
  w->now_ms -= YEAR + ahead_for;
  world_put(w, w->here, "other", "puts the clock right");
  world_gc(w);
  world_want_nowhere(w, SECRET);
  world_import_file(w, w->here, backup);
  world_want_nowhere(w, SECRET);
  world_want_nowhere(w, OTHER);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
  close(backup);
}

static void clock__what_was_put_and_erased_while_it_was_ahead_stays_erased(void **state)
{
  what_was_put_ahead_stays_erased(*state, HOUR);
}

static void clock__what_was_put_and_erased_while_it_was_ahead_for_long_stays_erased(void **state)
{
  what_was_put_ahead_stays_erased(*state, 20 * HOUR * 24);
}

static void clock__what_gc_took_while_it_was_ahead_stays_erased(void **state)
{
  world *w = *state;
  world_put(w, w->here, "other", "before");
  w->now_ms += YEAR;
  world_put(w, w->here, "k", OTHER);
  int backup = world_export_all(w, w->here, "backup");
  world_put(w, w->here, "k", SECRET);
  world_gc(w);
  world_want_nowhere(w, OTHER);
  world_erase(w, "k", false);
  w->now_ms -= YEAR;
  world_put(w, w->here, "other", "puts the clock right");
  world_import_file(w, w->here, backup);
  world_want_nowhere(w, OTHER);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
  close(backup);
}

static void clock__an_erasure_that_was_behind_covers_what_the_log_says_is_older(void **state)
{
  world *w = *state;
  world_put(w, w->here, "k", SECRET);
  world_put(w, w->there, "k", OTHER);
  world_put(w, w->here, "other", "the log is later than what is there");
  w->now_ms -= 500000;
  world_erase(w, "k", false);
  w->now_ms += 500000;
  world_import(w);
  world_want_nowhere(w, OTHER);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
}

/* What `there` has becomes the history here. */
static void adopt(world *w)
{
  world_import(w);
  assert_int_equal(pd_reset(w->here, "main", "far/main", NULL, NULL, &w->err), PD_OK);
  assert_int_equal(pd_ref_delete(w->here, "far/main", NULL, &w->err), PD_OK);
  close(w->bundle);
}

static void clock__a_commit_of_a_machine_that_was_ahead_costs_nobody_a_year(void **state)
{
  world *w = *state;
  world_put(w, w->there, "other", "before");
  w->now_ms += YEAR;
  world_put(w, w->there, "k", SECRET);
  w->now_ms -= YEAR;
  adopt(w);
  world_erase(w, "k", false);
  world_gc(w);
  w->now_ms += HOUR;
  world_put(w, w->there, "k", "written after the erasure");
  world_import(w);
  world_want_nowhere(w, SECRET);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_ERASED);
}

static void clock__what_gc_took_of_a_machine_that_was_ahead_stays_erased(void **state)
{
  world *w = *state;
  world_put(w, w->there, "other", "before");
  w->now_ms += YEAR;
  world_put(w, w->there, "k", OTHER);
  world_put(w, w->there, "k", SECRET);
  w->now_ms -= YEAR;
  adopt(w);
  world_gc(w);
  world_want_nowhere(w, OTHER);
  world_erase(w, "k", false);
  world_import(w);
  world_want_nowhere(w, OTHER);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_ERASED);
}

static void clock__an_erasure_after_one_that_was_ahead_keeps_both_in_force(void **state)
{
  world *w = *state;
  world_put(w, w->here, "other", "before");
  w->now_ms += YEAR;
  world_put(w, w->here, "k", OTHER);
  int backup = world_export_all(w, w->here, "backup");
  world_put(w, w->here, "k", SECRET);
  world_gc(w);
  world_want_nowhere(w, OTHER); /* only the entry of the whole key speaks of it */
  world_erase(w, "k", true);
  w->now_ms -= YEAR;
  world_put(w, w->here, "k", "again");
  world_erase(w, "k", true);
  w->now_ms += HOUR;
  world_put(w, w->there, "k", "written after both");
  world_import_file(w, w->here, backup);
  world_want_nowhere(w, OTHER);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
  close(backup);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST_IN_WORLD(clock__what_is_written_after_an_erasure_that_was_ahead_comes),
    TEST_IN_WORLD(clock__what_is_written_after_a_lazy_erasure_that_was_ahead_comes),
    TEST_IN_WORLD(clock__gc_does_not_forget_that_the_erasure_was_ahead),
    TEST_IN_WORLD(clock__a_year_later_it_is_still_known_that_the_erasure_was_ahead),
    TEST_IN_WORLD(clock__another_machine_learns_the_right_time_of_the_erasure),
    TEST_IN_WORLD(clock__what_was_put_and_erased_while_it_was_ahead_stays_erased),
    TEST_IN_WORLD(clock__what_was_put_and_erased_while_it_was_ahead_for_long_stays_erased),
    TEST_IN_WORLD(clock__what_gc_took_while_it_was_ahead_stays_erased),
    TEST_IN_WORLD(clock__an_erasure_that_was_behind_covers_what_the_log_says_is_older),
    TEST_IN_WORLD(clock__a_commit_of_a_machine_that_was_ahead_costs_nobody_a_year),
    TEST_IN_WORLD(clock__what_gc_took_of_a_machine_that_was_ahead_stays_erased),
    TEST_IN_WORLD(clock__an_erasure_after_one_that_was_ahead_keeps_both_in_force),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
