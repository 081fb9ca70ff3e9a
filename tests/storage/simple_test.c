/*
 * simple_test.c: a plugin of three functions under the whole contract, on one machine; then the clauses that are not kept between
 * machines, each shown to happen, to be detected, and to be reported. "Another machine" is the same folder, written in another way: it has
 * another lock.
 */
#include "base/base.h"
#include "storage/folder_storage.h"
#include "support/temp_folder.h"

#include <dlfcn.h>
#include <stdlib.h>

static const char *folder_so, *hooked_so, *bad_folder;

static char *uri_new(void)
{
  char *folder = temp_folder_new(), *uri = text_of("plugin:%s?%s", folder_so, folder);
  free(folder);
  return uri;
}

static void uri_destroy(const char *uri)
{
  temp_folder_free(strdup(strchr(uri, '?') + 1));
}

/* ---- two handles of the hooked plugin ------------------------------------------------------------------------------ */

typedef bool (*hook)(const char *what, const char *key);

typedef struct world {
  char *folder;
  void *library;
  hook *before;
  bool *is_silent;
  pd_storage *here, *there; /* `there` has another lock, unless a test opened it by itself */
} world;

static world *now; /* for the hooks */

static pd_storage *open_hooked(const char *folder, const char *tail)
{
  char *uri = text_of("plugin:%s?%s%s", hooked_so, folder, tail);
  pd_storage *s = storage_open(uri);
  free(uri);
  return s;
}

static int set_up(void **state)
{
  world *w = calloc(1, sizeof *w);
  w->folder = temp_folder_new();
  w->library = dlopen(hooked_so, RTLD_NOW | RTLD_LOCAL);
  if (!w->library) fail_msg("%s", dlerror());
  w->before = dlsym(w->library, "hooked_before");
  w->is_silent = dlsym(w->library, "hooked_is_silent");
  w->here = open_hooked(w->folder, "");
  w->there = open_hooked(w->folder, "/.");
  now = *state = w;
  return 0;
}

static int tear_down(void **state)
{
  world *w = *state;
  *w->before = NULL;
  *w->is_silent = false;
  pd_storage_close(w->here);
  pd_storage_close(w->there);
  dlclose(w->library);
  temp_folder_free(w->folder);
  free(w);
  return 0;
}

static uint64_t claim(pd_storage *s, const char *agent)
{
  uint64_t epoch = 0;
  pd_error err = {0};
  if (pd_storage_claim(s, agent, &epoch, &err)) fail_msg("claim: %s", err.message);
  return epoch;
}

static pd_code save_after(pd_storage *s, const pd_storage_mark *last, const pd_storage_mark *next, uint64_t tick, pd_error *err)
{
  char *document = snapshot_new("x", tick, 1);
  pd_code code = pd_storage_save_next(s, "x", last, next, pd_text(document), err);
  free(document);
  return code;
}

static void save_plain(pd_storage *s, const char *agent)
{
  char *document = snapshot_new(agent, 1, 1);
  storage_save(s, agent, document);
  free(document);
}

static void expect_names_are(pd_storage *s, const char *want)
{
  char *names = storage_names(s);
  assert_string_equal(names, want);
  free(names);
}

static bool is_call(const char *what, const char *key, const char *want_what, const char *want_key)
{
  if (strcmp(what, want_what) != 0 || strcmp(key, want_key) != 0) return false;
  *now->before = NULL; /* once */
  return true;
}

/* ---- what does not hold between machines --------------------------------------------------------------------------- */

static const pd_storage_mark none;
static pd_storage_mark one, theirs;

static bool claim_between(const char *what, const char *key)
{
  if (is_call(what, key, "save", "x")) theirs.epoch = claim(now->there, "x");
  return true;
}

static void not_kept__S10_a_fenced_save_of_another_machine_is_detected_by_the_next(void **state)
{
  world *w = *state;
  pd_error err = {0};
  one = (pd_storage_mark){claim(w->here, "x"), 1, 11};
  *w->before = claim_between;
  assert_int_equal(save_after(w->here, &none, &one, 1, &err), PD_OK); /* though it is fenced by now */
  assert_true(theirs.epoch > one.epoch);
  theirs.save = 1, theirs.token = 22;
  assert_int_equal(save_after(w->there, &none, &theirs, 2, &err), PD_CONFLICT); /* what it loaded is not there any more */
  assert_string_equal(pd_error_name(&err), "SnapshotChanged");
  pd_storage_mark two = {one.epoch, 2, 33};
  assert_int_equal(save_after(w->here, &one, &two, 3, &err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&err), "AgentFenced");
}

static bool save_between(const char *what, const char *key)
{
  pd_error err = {0};
  theirs = (pd_storage_mark){one.epoch, 2, 22};
  if (is_call(what, key, "save", "x") && save_after(now->there, &one, &theirs, 2, &err)) fail_msg("%s", err.message);
  return true;
}

static void not_kept__S12_a_save_that_was_overwritten_is_detected_by_the_next(void **state)
{
  world *w = *state;
  pd_error err = {0};
  one = (pd_storage_mark){claim(w->here, "x"), 1, 11};
  assert_int_equal(save_after(w->here, &none, &one, 1, &err), PD_OK);
  pd_storage_mark mine = {one.epoch, 2, 33}, next = {one.epoch, 3, 44};
  *w->before = save_between;
  assert_int_equal(save_after(w->here, &one, &mine, 3, &err), PD_OK);
  assert_int_equal(save_after(w->there, &theirs, &next, 4, &err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&err), "SnapshotChanged");
}

static bool claim_inside_a_claim(const char *what, const char *key)
{
  if (is_call(what, key, "save", "_epoch.x")) theirs.epoch = claim(now->there, "x");
  return true;
}

static void not_kept__S9_of_two_claims_at_one_moment_only_one_can_save(void **state)
{
  world *w = *state;
  pd_error err = {0};
  *w->before = claim_inside_a_claim;
  pd_storage_mark mine = {claim(w->here, "x"), 1, 11};
  theirs.save = 1, theirs.token = 22;
  assert_int_equal(save_after(w->here, &none, &mine, 1, &err), PD_OK);
  assert_int_equal(save_after(w->there, &none, &theirs, 2, &err), PD_CONFLICT); /* by its epoch, or if that is the same by the mark */
}

static bool save_another_between(const char *what, const char *key)
{
  if (is_call(what, key, "save", "_names")) save_plain(now->there, "y");
  return true;
}

static void not_kept__S4_a_name_that_was_lost_comes_back_with_the_next_handle(void **state)
{
  world *w = *state;
  *w->before = save_another_between;
  save_plain(w->here, "x");
  expect_names_are(w->here, "x");
  char *document = snapshot_new("y", 1, 1);
  storage_expect(w->here, "y", document);
  free(document);
  pd_storage_close(w->there);
  w->there = open_hooked(w->folder, "/.");
  save_plain(w->there, "y");
  expect_names_are(w->here, "x y");
}

static void not_kept__durability_names_each_clause(void **state)
{
  static const char *const says[] = {"S4", "S9", "S10", "S12", "one machine", "one user", "detected by the next one, not prevented"};
  world *w = *state;
  pd_storage_durability found;
  assert_int_equal(pd_storage_durability_get(w->here, &found, NULL), PD_OK);
  for (size_t i = 0; i < COUNT_OF(says); i++)
    if (!strstr(found.detail, says[i])) fail_msg("'%s' does not say '%s'", found.detail, says[i]);
  assert_int_equal(found.lasting, PD_LASTS_UNKNOWN); /* the plugin says nothing */
}

/* ---- what does, by the lock ---------------------------------------------------------------------------------------- */

static pd_code locked_code;
static pd_error locked_error;

static bool claim_under_the_lock(const char *what, const char *key)
{
  uint64_t epoch;
  if (is_call(what, key, "save", "x")) locked_code = pd_storage_claim(now->there, "x", &epoch, &locked_error);
  return true;
}

/* Waits ten seconds, which is what the lock promises. */
static void simple__nobody_claims_between_the_look_and_the_save(void **state)
{
  world *w = *state;
  pd_error err = {0};
  pd_storage_close(w->there);
  w->there = open_hooked(w->folder, "");
  one = (pd_storage_mark){claim(w->here, "x"), 1, 11};
  locked_code = PD_OK;
  *w->before = claim_under_the_lock;
  assert_int_equal(save_after(w->here, &none, &one, 1, &err), PD_OK);
  assert_int_equal(locked_code, PD_STORAGE);
  assert_non_null(strstr(locked_error.message, "the storage 'hooked' has been locked by another process"));
  assert_true(claim(w->there, "x") > one.epoch); /* it is free again */
}

/* ---- crashes, damage, plugins that break their word ---------------------------------------------------------------- */

static bool fail_at_snapshot(const char *what, const char *key)
{
  return !is_call(what, key, "save", "x");
}

static bool fail_at_removal(const char *what, const char *key)
{
  return !is_call(what, key, "remove", "x");
}

static bool fail_at_names(const char *what, const char *key)
{
  return !is_call(what, key, "save", "_names");
}

static void simple__a_save_that_breaks_off_leaves_no_agent_behind(void **state)
{
  world *w = *state;
  char *document = snapshot_new("x", 1, 1);
  *w->before = fail_at_names;
  storage_save_refused(w->here, "x", document, PD_STORAGE, "hooked: save of _names");
  storage_expect(w->here, "x", NULL); /* else nobody would ever list it */
  *w->before = fail_at_snapshot;
  storage_save_refused(w->here, "x", document, PD_STORAGE, "hooked: save of x");
  expect_names_are(w->here, "");
  assert_int_equal(pd_storage_delete(w->here, "x", NULL), PD_NOT_FOUND);
  storage_save(w->here, "x", document);
  expect_names_are(w->here, "x");
  assert_int_equal(pd_storage_delete(w->there, "x", NULL), PD_OK);
  storage_save(w->here, "x", document); /* another handle has dropped the name */
  expect_names_are(w->here, "x");
  free(document);
}

static void simple__a_delete_that_breaks_off_fences_all_the_same(void **state)
{
  world *w = *state;
  pd_error err = {0};
  one = (pd_storage_mark){claim(w->here, "x"), 1, 11};
  assert_int_equal(save_after(w->here, &none, &one, 1, &err), PD_OK);
  *w->before = fail_at_removal;
  assert_int_equal(pd_storage_delete(w->here, "x", &err), PD_STORAGE);
  expect_names_are(w->here, "x");
  assert_int_equal(save_after(w->here, &one, &(pd_storage_mark){one.epoch, 2, 22}, 2, &err), PD_CONFLICT);
  *w->before = fail_at_names;
  assert_int_equal(pd_storage_delete(w->here, "x", &err), PD_STORAGE); /* it is gone, and its name is left over */
  expect_names_are(w->here, "");
  storage_expect(w->here, "x", NULL);
}

/* The byte at `at` of a key's file is another one. */
static void damage(const char *folder, const char *key, size_t at)
{
  size_t size;
  char *path = text_of("%s/%s", folder, key), *text = read_text(path, &size);
  assert_true(at < size);
  text[at] = text[at] == '7' ? '8' : '7';
  write_text(path, text, size);
  free(text);
  free(path);
}

static void simple__damage_is_found_and_the_key_named(void **state)
{
  world *w = *state;
  pd_error err = {0};
  uint64_t epoch;
  one = (pd_storage_mark){claim(w->here, "x"), 1, 11};
  assert_int_equal(save_after(w->here, &none, &one, 1, &err), PD_OK);
  char *document = snapshot_new("x", 1, 1);
  damage(w->folder, "x", (size_t)(strstr(document, "1706582400000") - document));
  storage_load_refused(w->here, "x", PD_CORRUPT, "key 'x'");
  storage_save_refused(w->there, "x", document, PD_CORRUPT, "it is not overwritten");
  expect_names_are(w->here, "x");
  damage(w->folder, "_epoch.x", 3);
  assert_int_equal(pd_storage_claim(w->here, "x", &epoch, &err), PD_CORRUPT);
  assert_non_null(strstr(err.message, "key '_epoch.x'"));
  assert_int_equal(save_after(w->here, NULL, &(pd_storage_mark){one.epoch, 2, 22}, 2, &err), PD_CORRUPT);
  char *path = text_of("%s/_epoch.x", w->folder);
  write_text(path, "x 1\n", 4); /* without a seal */
  assert_int_equal(pd_storage_claim(w->here, "x", &epoch, &err), PD_CORRUPT);
  free(path);
  damage(w->folder, "_names", 0);
  assert_int_equal(pd_storage_list(w->here, NULL, NULL, &err), PD_CORRUPT);
  assert_non_null(strstr(err.message, "key '_names'"));
  free(document);
}

/* A sound epoch, but of somebody else: a plugin for which two keys are one (K4). */
static void simple__the_epoch_of_another_agent_is_not_taken(void **state)
{
  world *w = *state;
  pd_error err = {0};
  uint64_t epoch;
  size_t size;
  claim(w->here, "x");
  char *from = text_of("%s/_epoch.x", w->folder), *to = text_of("%s/_epoch.X", w->folder), *text = read_text(from, &size);
  write_text(to, text, size);
  assert_int_equal(pd_storage_claim(w->here, "X", &epoch, &err), PD_CORRUPT);
  assert_non_null(strstr(err.message, "the epoch of another agent"));
  free(text), free(to), free(from);
}

static void simple__a_load_that_gives_nothing_is_no_fresh_agent(void **state)
{
  world *w = *state;
  save_plain(w->here, "x");
  *w->is_silent = true;
  storage_load_refused(w->here, "x", PD_CORRUPT, "gave no value");
}

static void simple__those_that_do_not_fit_are_refused_with_the_reason(void **state)
{
  static const struct {
    const char *name, *says;
  } bad[] = {
    {"simple_version", "has interface version 2; this perdure knows 1"},
    {"simple_no_load", "lacks 'load'"},
    {"simple_close_alone", "lacks 'open'"},
  };
  (void)state;
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    char *uri = text_of("plugin:%s/%s.so?x", bad_folder, bad[i].name);
    storage_open_refused(uri, PD_INVALID, bad[i].says);
    free(uri);
  }
}

static void simple__a_folder_that_is_not_there_takes_no_save(void **state)
{
  char *uri = text_of("plugin:%s?/nowhere/at/all", folder_so), *document = snapshot_new("x", 1, 1);
  pd_storage *s = storage_open(uri);
  (void)state;
  storage_save_refused(s, "x", document, PD_STORAGE, "/nowhere/at/all");
  pd_storage_close(s);
  free(document);
  free(uri);
}

static void simple__a_full_disk_loses_nothing(void **state)
{
  char *begin = text_of("plugin:%s?", folder_so);
  (void)state;
  expect_full_disk_is_survived(begin, ".");
  free(begin);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
  static const storage_contract_target target = {"simple", uri_new, uri_destroy, false, PD_LASTS_POWER};
  static const struct CMUnitTest own[] = {
    WITH_WORLD(not_kept__S4_a_name_that_was_lost_comes_back_with_the_next_handle),
    WITH_WORLD(not_kept__S9_of_two_claims_at_one_moment_only_one_can_save),
    WITH_WORLD(not_kept__S10_a_fenced_save_of_another_machine_is_detected_by_the_next),
    WITH_WORLD(not_kept__S12_a_save_that_was_overwritten_is_detected_by_the_next),
    WITH_WORLD(not_kept__durability_names_each_clause),
    WITH_WORLD(simple__nobody_claims_between_the_look_and_the_save),
    WITH_WORLD(simple__a_save_that_breaks_off_leaves_no_agent_behind),
    WITH_WORLD(simple__a_delete_that_breaks_off_fences_all_the_same),
    WITH_WORLD(simple__damage_is_found_and_the_key_named),
    WITH_WORLD(simple__the_epoch_of_another_agent_is_not_taken),
    WITH_WORLD(simple__a_load_that_gives_nothing_is_no_fresh_agent),
    cmocka_unit_test(simple__those_that_do_not_fit_are_refused_with_the_reason),
    cmocka_unit_test(simple__a_folder_that_is_not_there_takes_no_save),
    cmocka_unit_test(simple__a_full_disk_loses_nothing),
  };
  if (argc != 4) return 2;
  folder_so = argv[1];
  hooked_so = argv[2];
  bad_folder = argv[3];
  return storage_contract_run(&target, own, COUNT_OF(own));
}
