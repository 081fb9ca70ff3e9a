/* plugin_test.c: examples/storage_plugin.c under the contract, loaded as others would load theirs; and plugins that are refused. */
#include "base/base.h"
#include "storage/folder_storage.h"
#include "support/temp_folder.h"

#include <stdlib.h>

static const char *journal_so, *bad_folder;

static char *scheme(void)
{
  return text_of("plugin:%s?", journal_so);
}

static char *uri_new(void)
{
  char *begin = scheme(), *uri = folder_uri_new(begin, "journal");
  free(begin);
  return uri;
}

static void uri_destroy(const char *uri)
{
  char *begin = scheme();
  folder_uri_destroy(uri, begin);
  free(begin);
}

static void plugin__those_that_do_not_fit_are_refused_with_the_reason(void **state)
{
  static const struct {
    const char *name, *says;
  } bad[] = {
    {"no_symbol", "has no symbol 'pd_storage_plugin'"},
    {"other_version", "has interface version 3; this perdure knows 1 to 2"},
    {"no_load_marked", "lacks 'load_marked'"},
    {"no_save_next", "lacks 'save_next'"},
    {"old_no_save", "lacks 'save'"},
    {"no_load_tick", "lacks 'load_tick'"},
    {"no_claim", "lacks 'claim'"},
    {"unresolved", "perdure_has_no_such_function"},
    {"not_there", "not_there.so"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char *uri = text_of("plugin:%s/%s.so?x", bad_folder, bad[i].name);
    storage_open_refused(uri, PD_INVALID, bad[i].says);
    free(uri);
  }
  storage_open_refused("plugin:", PD_INVALID, "names no plugin");
  storage_open_refused("plugin:journal.so", PD_INVALID, "write plugin:./journal.so");
}

static void plugin__what_is_no_shared_object_is_refused(void **state)
{
  char *path = text_of("%s/text.so", (char *)*state), *uri = text_of("plugin:%s", path);
  write_text(path, "hello", 5);
  storage_open_refused(uri, PD_INVALID, "cannot be loaded");
  free(uri);
  free(path);
}

static void plugin__its_own_errors_come_through(void **state)
{
  char *uri = text_of("plugin:%s", journal_so), *nowhere = text_of("plugin:%s?/nowhere/at/all", journal_so);
  (void)state;
  storage_open_refused(uri, PD_INVALID, "the journal needs a path");
  storage_open_refused(nowhere, PD_STORAGE, "/nowhere/at/all");
  free(nowhere);
  free(uri);
}

static void plugin__an_unfinished_record_is_cut_off(void **state)
{
  char *path = text_of("%s/journal", (char *)*state), *uri = text_of("plugin:%s?%s", journal_so, path);
  char *one = snapshot_new("x", 1, 2), *two = snapshot_new("x", 2, 2);
  pd_storage *s = storage_open(uri);
  storage_save(s, "x", one);
  size_t whole, size;
  free(read_text(path, &whole));
  storage_save(s, "x", two);
  char *text = read_text(path, &size);
  for (size_t cut = whole; cut < size; cut += 7) {
    write_text(path, text, cut);
    storage_expect(s, "x", one);
  }
  storage_save(s, "x", two);
  storage_expect(s, "x", two);
  text[3] = '?';
  write_text(path, text, size);
  storage_load_refused(s, "x", PD_CORRUPT, "no sound record at byte 0");
  pd_storage_close(s);
  free(text), free(one), free(two), free(uri), free(path);
}

static void plugin__a_full_disk_loses_nothing(void **state)
{
  char *begin = scheme();
  (void)state;
  expect_full_disk_is_survived(begin, "journal");
  free(begin);
}

int main(int argc, char **argv)
{
  static const storage_contract_target target = {"plugin", uri_new, uri_destroy, false, PD_LASTS_POWER};
  static const struct CMUnitTest own[] = {
    cmocka_unit_test(plugin__those_that_do_not_fit_are_refused_with_the_reason),
    cmocka_unit_test_setup_teardown(plugin__what_is_no_shared_object_is_refused, folder_set_up, folder_tear_down),
    cmocka_unit_test(plugin__its_own_errors_come_through),
    cmocka_unit_test_setup_teardown(plugin__an_unfinished_record_is_cut_off, folder_set_up, folder_tear_down),
    cmocka_unit_test(plugin__a_full_disk_loses_nothing),
  };
  if (argc != 3) return 2;
  journal_so = argv[1];
  bad_folder = argv[2];
  return storage_contract_run(&target, own, COUNT_OF(own));
}
