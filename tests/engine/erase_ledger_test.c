/* erase_ledger_test.c: what was erased in a store does not come back with an world_import, not even as bytes in a file (erase_ledger.c). */
#include "erase_world.h"

#include "support/temp_folder.h"

#include <stdlib.h>
#include <unistd.h>

static void ledger__an_erased_value_is_imported_without_its_bytes(void **state)
{
  world *w = *state;
  world_put(w, w->there, "k", SECRET);
  world_put(w, w->there, "plain", "stays");
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  world_want_nowhere(w, SECRET);
  world_import(w);
  world_want_nowhere(w, SECRET);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
  assert_int_equal(world_read_at(w, "far/main", "plain"), PD_OK);
  assert_int_equal(world_read_at(w, "main", "k"), PD_NOT_FOUND);
}

static void ledger__all_values_that_the_key_had_elsewhere_go_with_it(void **state)
{
  world *w = *state;
  world_put(w, w->there, "k", OTHER); /* never was here */
  world_put(w, w->there, "k", SECRET);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  world_import(w);
  world_want_nowhere(w, SECRET);
  world_want_nowhere(w, OTHER);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_ERASED);
}

static void ledger__a_lazy_erasure_counts_as_well(void **state)
{
  world *w = *state;
  world_put(w, w->there, "k", OTHER);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", true);
  world_import(w);
  world_want_nowhere(w, OTHER);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
}

static void ledger__what_was_put_after_the_erasure_comes(void **state)
{
  world *w = *state;
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  world_put(w, w->there, "k", SECRET);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
}

static void ledger__another_key_with_the_same_value_comes(void **state)
{
  world *w = *state;
  world_put(w, w->there, "other", SECRET);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "other"), PD_OK);
}

static void ledger__a_key_that_another_ref_still_has_is_erased_by_its_values_alone(void **state)
{
  world *w = *state;
  world_put(w, w->there, "k", OTHER);
  world_put(w, w->there, "k", SECRET);
  world_put(w, w->here, "k", "kept on a fork");
  assert_int_equal(pd_fork(w->here, "fork", "main", NULL, NULL, &w->err), PD_OK);
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
  assert_int_equal(world_read_at(w, "far/main~1", "k"), PD_OK);
  assert_int_equal(world_read_at(w, "fork", "k"), PD_OK);
}

static void ledger__two_keys_with_one_value_are_both_remembered(void **state)
{
  world *w = *state;
  world_put(w, w->there, "a", SECRET);
  world_put(w, w->there, "b", SECRET);
  world_put(w, w->here, "a", SECRET);
  world_put(w, w->here, "b", SECRET);
  world_erase(w, "a", false);
  world_erase(w, "b", false);
  world_import(w);
  world_want_nowhere(w, SECRET);
  assert_int_equal(world_read_at(w, "far/main", "a"), PD_ERASED);
  assert_int_equal(world_read_at(w, "far/main", "b"), PD_ERASED);
}

static void ledger__a_value_in_pieces_is_not_written(void **state)
{
  world *w = *state;
  size_t size = 300000;
  char *large = malloc(size);
  for (size_t i = 0; i < size; i++) large[i] = (char)('a' + (i * i / 7) % 23);
  memcpy(large + 150000, SECRET, sizeof SECRET - 1);
  w->now_ms += 1000;
  assert_int_equal(pd_put(w->there, pd_text("k"), (pd_bytes){large, size}, NULL, NULL, &w->err), PD_OK);
  world_put(w, w->here, "k", "something else");
  world_erase(w, "k", false);
  world_import(w);
  world_want_nowhere(w, SECRET);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_ERASED);
  free(large);
}

static void ledger__a_clock_that_was_ahead_does_not_bring_it_back(void **state)
{
  world *w = *state;
  w->now_ms += 1000000000;
  world_put(w, w->there, "k", SECRET);
  int64_t ahead = w->now_ms;
  world_import(w); /* made in our future */
  assert_int_equal(pd_reset(w->here, "main", "far/main", NULL, NULL, &w->err), PD_OK);
  assert_int_equal(pd_ref_delete(w->here, "far/main", NULL, &w->err), PD_OK);
  w->now_ms = ahead - 999000000;
  world_erase(w, "k", false);
  for (unsigned i = 0; i < 5; i++) world_put(w, w->here, "later", i % 2 ? "a" : "b");
  assert_int_equal(pd_gc(w->here, &(pd_gc_policy){.keep_last = 1}, NULL, &w->err), PD_OK);
  world_want_nowhere(w, SECRET);
  close(w->bundle);
  world_import(w);
  world_want_nowhere(w, SECRET);
}

static void ledger__what_was_put_in_the_millisecond_of_the_erasure_stays(void **state)
{
  world *w = *state;
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  w->now_ms -= 1000;
  world_put(w, w->there, "k", "put right after it");
  world_import(w);
  assert_int_equal(world_read_at(w, "far/main", "k"), PD_OK);
}

static pd_code import_after_erasure(world *w, const char *agent, int erased, int own)
{
  pd_store *s = NULL;
  pd_buf value = {0};
  assert_int_equal(pd_store_open(w->far_uri, agent, NULL, &s, &w->err), PD_OK);
  assert_int_equal(pd_import(s, erased, &(pd_import_options){.as = "friend"}, NULL, &w->err), PD_OK);
  assert_int_equal(pd_import(s, own, &(pd_import_options){.as = "mine"}, NULL, &w->err), PD_OK);
  pd_code code = pd_get(s, "mine/main", pd_text("k"), &value, NULL, &w->err);
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
  return code;
}

static void ledger__a_key_that_another_agent_erased_is_not_erased_here(void **state)
{
  world *w = *state;
  world_put(w, w->there, "k", "of another agent");
  world_put(w, w->here, "k", SECRET);
  world_erase(w, "k", false);
  int erased = world_export_all(w, w->here, "erased"), own = world_export_all(w, w->there, "own");
  assert_int_equal(import_after_erasure(w, "other", erased, own), PD_OK);
  w->there = (pd_store_close(w->there, NULL), NULL);
  char *folder = temp_folder_new(), *was = w->far_uri; /* the same agent, on a new machine */
  w->far_uri = text_of("sqlite:%s", folder);
  assert_int_equal(import_after_erasure(w, "main", erased, own), PD_ERASED);
  free(w->far_uri);
  w->far_uri = was;
  temp_folder_free(folder);
  close(erased), close(own);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_set_up, world_tear_down)
  const struct CMUnitTest tests[] = {
    TEST(ledger__what_was_put_in_the_millisecond_of_the_erasure_stays),
    TEST(ledger__a_key_that_another_agent_erased_is_not_erased_here),
    TEST(ledger__an_erased_value_is_imported_without_its_bytes),
    TEST(ledger__all_values_that_the_key_had_elsewhere_go_with_it),
    TEST(ledger__a_lazy_erasure_counts_as_well),
    TEST(ledger__what_was_put_after_the_erasure_comes),
    TEST(ledger__another_key_with_the_same_value_comes),
    TEST(ledger__a_key_that_another_ref_still_has_is_erased_by_its_values_alone),
    TEST(ledger__two_keys_with_one_value_are_both_remembered),
    TEST(ledger__a_value_in_pieces_is_not_written),
    TEST(ledger__a_clock_that_was_ahead_does_not_bring_it_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
