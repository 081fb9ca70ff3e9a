/* erase_ledger_test.c: what was erased in a store does not come back with an import, not even as bytes in a file (erase_ledger.c). */
#include <perdure/perdure.h>

#include "support/temp_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "the-launch-code-is-hunter2"
#define OTHER "an-older-launch-code-swordfish"

typedef struct world {
  char *folder, *uri, *far, *far_uri;
  pd_store *here, *there;
  int64_t now_ms;
  int bundle;
  pd_error err;
} world;

static int64_t now_of(void *ctx)
{
  return ((world *)ctx)->now_ms;
}

static pd_store *open_store(world *w, const char *uri)
{
  pd_store *s = NULL;
  pd_options options = {.now_ms = now_of, .now_ctx = w};
  if (pd_store_open(uri, "main", &options, &s, &w->err)) fail_msg("%s", w->err.message);
  return s;
}

static int set_up(void **state)
{
  world *w = calloc(1, sizeof *w);
  w->folder = temp_folder_new();
  w->far = temp_folder_new();
  w->uri = text_of("sqlite:%s", w->folder);
  w->far_uri = text_of("sqlite:%s", w->far);
  w->now_ms = 1000000;
  w->here = open_store(w, w->uri);
  w->there = open_store(w, w->far_uri);
  w->bundle = -1;
  *state = w;
  return 0;
}

static int tear_down(void **state)
{
  world *w = *state;
  if (w->here && pd_verify(w->here, NULL, NULL, &w->err)) return fprintf(stderr, "%s\n", w->err.message), 1;
  (void)!pd_store_close(w->here, NULL);
  (void)!pd_store_close(w->there, NULL);
  if (w->bundle >= 0) close(w->bundle);
  temp_folder_free(w->folder);
  temp_folder_free(w->far);
  free(w->uri), free(w->far_uri), free(w);
  return 0;
}

static void put(world *w, pd_store *store, const char *key, const char *value)
{
  w->now_ms += 1000;
  if (pd_put(store, pd_text(key), pd_text(value), NULL, NULL, &w->err)) fail_msg("put %s: %s", key, w->err.message);
}

static void erase(world *w, const char *key, bool is_lazy)
{
  pd_erase_options options = {.is_lazy = is_lazy};
  w->now_ms += 1000;
  if (pd_erase(w->here, pd_text(key), &options, NULL, &w->err)) fail_msg("erase %s: %s", key, w->err.message);
}

/* The history of the other store comes here as far/main. */
static void import(world *w)
{
  char *path = text_of("%s/bundle", w->far);
  pd_import_options options = {.as = "far"};
  w->now_ms += 1000;
  w->bundle = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  free(path);
  if (pd_export(w->there, w->bundle, NULL, NULL, &w->err)) fail_msg("export: %s", w->err.message);
  if (pd_import(w->here, w->bundle, &options, NULL, &w->err)) fail_msg("import: %s", w->err.message);
}

static pd_code read_at(world *w, const char *at, const char *key)
{
  pd_buf value = {0};
  pd_code code = pd_get(w->here, at, pd_text(key), &value, NULL, &w->err);
  pd_buf_done(&value);
  return code;
}

static bool file_has(const char *folder, const char *name, const char *text)
{
  char *path = text_of("%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  static char bytes[8 << 20];
  size_t size = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) fclose(f);
  free(path);
  return memmem(bytes, size, text, strlen(text)) != NULL;
}

static void want_nowhere(world *w, const char *text)
{
  DIR *dir = opendir(w->folder);
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir));)
    if (entry->d_name[0] != '.' && file_has(w->folder, entry->d_name, text)) fail_msg("'%s' is in %s", text, entry->d_name);
  closedir(dir);
}

static void ledger__an_erased_value_is_imported_without_its_bytes(void **state)
{
  world *w = *state;
  put(w, w->there, "k", SECRET);
  put(w, w->there, "plain", "stays");
  put(w, w->here, "k", SECRET);
  erase(w, "k", false);
  want_nowhere(w, SECRET);
  import(w);
  want_nowhere(w, SECRET);
  assert_int_equal(read_at(w, "far/main", "k"), PD_ERASED);
  assert_int_equal(read_at(w, "far/main", "plain"), PD_OK);
  assert_int_equal(read_at(w, "main", "k"), PD_NOT_FOUND);
}

static void ledger__all_values_that_the_key_had_elsewhere_go_with_it(void **state)
{
  world *w = *state;
  put(w, w->there, "k", OTHER); /* never was here */
  put(w, w->there, "k", SECRET);
  put(w, w->here, "k", SECRET);
  erase(w, "k", false);
  import(w);
  want_nowhere(w, SECRET);
  want_nowhere(w, OTHER);
  assert_int_equal(read_at(w, "far/main", "k"), PD_ERASED);
  assert_int_equal(read_at(w, "far/main~1", "k"), PD_ERASED);
}

static void ledger__a_lazy_erasure_counts_as_well(void **state)
{
  world *w = *state;
  put(w, w->there, "k", OTHER);
  put(w, w->here, "k", SECRET);
  erase(w, "k", true);
  import(w);
  want_nowhere(w, OTHER);
  assert_int_equal(read_at(w, "far/main", "k"), PD_ERASED);
}

static void ledger__what_was_put_after_the_erasure_comes(void **state)
{
  world *w = *state;
  put(w, w->here, "k", SECRET);
  erase(w, "k", false);
  put(w, w->there, "k", SECRET);
  import(w);
  assert_int_equal(read_at(w, "far/main", "k"), PD_OK);
}

static void ledger__another_key_with_the_same_value_comes(void **state)
{
  world *w = *state;
  put(w, w->there, "other", SECRET);
  put(w, w->here, "k", SECRET);
  erase(w, "k", false);
  import(w);
  assert_int_equal(read_at(w, "far/main", "other"), PD_OK);
}

static void ledger__a_key_that_another_ref_still_has_is_erased_by_its_values_alone(void **state)
{
  world *w = *state;
  put(w, w->there, "k", OTHER);
  put(w, w->there, "k", SECRET);
  put(w, w->here, "k", "kept on a fork");
  assert_int_equal(pd_fork(w->here, "fork", "main", NULL, NULL, &w->err), PD_OK);
  put(w, w->here, "k", SECRET);
  erase(w, "k", false);
  import(w);
  assert_int_equal(read_at(w, "far/main", "k"), PD_ERASED);
  assert_int_equal(read_at(w, "far/main~1", "k"), PD_OK);
  assert_int_equal(read_at(w, "fork", "k"), PD_OK);
}

static void ledger__two_keys_with_one_value_are_both_remembered(void **state)
{
  world *w = *state;
  put(w, w->there, "a", SECRET);
  put(w, w->there, "b", SECRET);
  put(w, w->here, "a", SECRET);
  put(w, w->here, "b", SECRET);
  erase(w, "a", false);
  erase(w, "b", false);
  import(w);
  want_nowhere(w, SECRET);
  assert_int_equal(read_at(w, "far/main", "a"), PD_ERASED);
  assert_int_equal(read_at(w, "far/main", "b"), PD_ERASED);
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
  put(w, w->here, "k", "something else");
  erase(w, "k", false);
  import(w);
  want_nowhere(w, SECRET);
  assert_int_equal(read_at(w, "far/main", "k"), PD_ERASED);
  free(large);
}

static void ledger__a_clock_that_was_ahead_does_not_bring_it_back(void **state)
{
  world *w = *state;
  w->now_ms += 1000000000;
  put(w, w->there, "k", SECRET);
  int64_t ahead = w->now_ms;
  import(w); /* made in our future */
  assert_int_equal(pd_reset(w->here, "main", "far/main", NULL, NULL, &w->err), PD_OK);
  assert_int_equal(pd_ref_delete(w->here, "far/main", NULL, &w->err), PD_OK);
  w->now_ms = ahead - 999000000;
  erase(w, "k", false);
  for (unsigned i = 0; i < 5; i++) put(w, w->here, "later", i % 2 ? "a" : "b");
  assert_int_equal(pd_gc(w->here, &(pd_gc_policy){.keep_last = 1}, NULL, &w->err), PD_OK);
  want_nowhere(w, SECRET);
  close(w->bundle);
  import(w);
  want_nowhere(w, SECRET);
}

static void ledger__what_was_put_in_the_millisecond_of_the_erasure_stays(void **state)
{
  world *w = *state;
  put(w, w->here, "k", SECRET);
  erase(w, "k", false);
  w->now_ms -= 1000;
  put(w, w->there, "k", "put right after it");
  import(w);
  assert_int_equal(read_at(w, "far/main", "k"), PD_OK);
}

static int export_all(world *w, pd_store *store, const char *name)
{
  char *path = text_of("%s/%s", w->far, name);
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (pd_export(store, fd, &(pd_export_options){.is_all = true}, NULL, &w->err)) fail_msg("export: %s", w->err.message);
  free(path);
  return fd;
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
  put(w, w->there, "k", "of another agent");
  put(w, w->here, "k", SECRET);
  erase(w, "k", false);
  int erased = export_all(w, w->here, "erased"), own = export_all(w, w->there, "own");
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
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
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
