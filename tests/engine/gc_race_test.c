/*
 * gc_race_test.c: gc between the moment that a commit was looked up and the moment that a record names it (retired.h G9). The store's
 * clock is the place where that is made to happen: it is asked after a mark was resolved, and again when its record is staged.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/sha256.h"
#include "engine/retired.h"
#include "engine/upload.h"
#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COMMITS 300

static pd_error err;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s", #call, err.message);                                                                                      \
  } while (0)

typedef struct world {
  char *folder, *uri;
  pd_store *s, *other;
  pd_store *collector; /* who runs gc when the clock is asked */
  unsigned countdown;  /* the n-th time; 0: never */
  bool moves_side;     /* and before that, many commits on side */
  bool has_run;
  pd_code expect;    /* what gc answers then */
  unsigned settings; /* so many times, something else of the hidden ref is written */
  unsigned sweeps;   /* so many times, gc every other time */
} world;

static void put(pd_store *s, const char *ref, int number);

static int64_t tell_time(void *ctx)
{
  world *w = ctx;
  if (w->countdown && !--w->countdown) {
    pd_error why;
    w->has_run = true;
    for (int i = 0; w->moves_side && i < 200; i++) put(w->collector, "side", i);
    pd_code code = pd_gc(w->collector, &(pd_gc_policy){.keep_last = 1}, NULL, &why);
    if (code != w->expect) fail_msg("gc: %s", code ? why.message : "should have failed");
  }
  if (w->settings) {
    w->settings--;
    OK(pd_setting_set(w->other, "note", pd_text(w->settings % 2 ? "a" : "b"), NULL, &err));
  } else if (w->sweeps) {
    if (w->sweeps-- % 2) OK(pd_gc(w->other, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  }
  return 1000000;
}

static void put(pd_store *s, const char *ref, int number)
{
  char key[16], value[32];
  pd_note note = {.ref = ref};
  snprintf(key, sizeof key, "k%d", number % 10);
  snprintf(value, sizeof value, "%s %d", ref, number);
  OK(pd_put(s, pd_text(key), pd_text(value), &note, NULL, &err));
}

/* main and side, of which both have a past that gc would take. */
static world *world_new(uint32_t flush_ms)
{
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  w->folder = temp_folder_new();
  w->uri = text_of("sqlite:%s", w->folder);
  pd_options options = {.now_ms = tell_time, .now_ctx = w, .flush_ms = 1000};
  OK(pd_store_open(w->uri, "main", &options, &w->s, &err));
  put(w->s, "main", 0);
  OK(pd_fork(w->s, "side", "main", NULL, NULL, &err));
  for (int i = 1; i < COMMITS; i++) put(w->s, i % 2 ? "main" : "side", i);
  OK(pd_store_close(w->s, &err));
  options.flush_ms = flush_ms;
  OK(pd_store_open(w->uri, "main", &options, &w->s, &err));
  if (!flush_ms) OK(pd_store_open(w->uri, "main", NULL, &w->other, &err));
  w->collector = flush_ms ? w->s : w->other;
  return w;
}

static void world_free(world *w)
{
  OK(pd_verify(w->s, NULL, NULL, &err));
  OK(pd_gc(w->s, NULL, NULL, &err)); /* nothing is in its way */
  OK(pd_store_close(w->s, &err));
  if (w->other) OK(pd_store_close(w->other, &err));
  temp_folder_free(w->folder);
  free(w->uri);
  free(w);
}

static bool count_mark(void *ctx, const pd_mark *mark)
{
  (void)mark;
  ++*(int *)ctx;
  return true;
}

static bool count_message(void *ctx, const pd_message *message)
{
  (void)message;
  ++*(int *)ctx;
  return true;
}

static int marks_of(pd_store *s)
{
  int count = 0;
  OK(pd_tag_list(s, count_mark, &count, &err));
  OK(pd_pin_list(s, count_mark, &count, &err));
  OK(pd_message_list(s, NULL, count_message, &count, &err));
  return count;
}

typedef pd_code (*mark_at)(pd_store *s, const char *at);

static pd_code set_tag(pd_store *s, const char *at)
{
  return pd_tag_set(s, "old", at, false, NULL, NULL, &err);
}

static pd_code set_pin(pd_store *s, const char *at)
{
  return pd_pin_set(s, at, NULL, NULL, &err);
}

static pd_code link_message(pd_store *s, const char *at)
{
  return pd_message_link(s, &(pd_message){.id = "m1"}, at, NULL, NULL, &err);
}

static void check_mark(mark_at set, unsigned countdown, bool is_own_gc)
{
  world *w = world_new(0);
  if (is_own_gc) w->collector = w->s;
  OK(pd_pin_set(w->s, "main", NULL, NULL, &err)); /* the hidden ref is there */
  w->countdown = countdown;
  pd_code code = set(w->s, "main~100");
  assert_true(w->has_run);
  if (code != PD_RETIRED) fail_msg("a mark at a commit that gc retired: %s", pd_code_name(code));
  assert_int_equal(marks_of(w->s), 1);
  world_free(w);
}

static void mark__at_a_commit_that_another_process_retires_meanwhile_is_refused(void **state)
{
  (void)state;
  const mark_at all[] = {set_tag, set_pin, link_message};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    for (unsigned countdown = 1; countdown <= 2; countdown++) check_mark(all[i], countdown, false);
}

static void mark__at_a_commit_that_the_same_handle_retires_meanwhile_is_refused(void **state)
{
  (void)state;
  const mark_at all[] = {set_tag, set_pin, link_message};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) check_mark(all[i], 1, true);
}

static void mark__in_a_buffered_store_at_a_commit_that_gc_retires_meanwhile_is_refused(void **state)
{
  (void)state;
  world *w = world_new(1000);
  OK(pd_pin_set(w->s, "main", NULL, NULL, &err));
  w->countdown = 1;
  assert_int_equal(set_pin(w->s, "main~100"), PD_RETIRED);
  assert_true(w->has_run);
  assert_int_equal(marks_of(w->s), 1);
  world_free(w);
}

/* A ref may have moved on: then the mark is where it is now. */
static void mark__at_a_ref_whose_head_was_retired_meanwhile_follows_the_ref(void **state)
{
  (void)state;
  world *w = world_new(0);
  pd_commit pinned, head;
  OK(pd_pin_set(w->s, "main", NULL, NULL, &err));
  w->countdown = 1;
  w->moves_side = true;
  OK(pd_pin_set(w->s, "side", NULL, &pinned, &err));
  assert_true(w->has_run);
  assert_int_equal(marks_of(w->s), 2);
  OK(pd_resolve(w->s, "side", &head, &err));
  assert_int_equal(pinned.seq, head.seq);
  world_free(w);
}

static void merge__with_a_commit_that_another_process_retires_meanwhile_is_refused(void **state)
{
  (void)state;
  world *w = world_new(0);
  pd_commit before, after;
  OK(pd_pin_set(w->s, "main", NULL, NULL, &err));
  OK(pd_resolve(w->s, "main", &before, &err));
  pd_merge_options options = {.policy = PD_MERGE_THEIRS};
  w->countdown = 1;
  pd_code code = pd_merge(w->s, "side~50", &options, NULL, NULL, &err);
  assert_true(w->has_run);
  if (code != PD_RETIRED) fail_msg("a merge with a commit that gc retired: %s", pd_code_name(code));
  OK(pd_resolve(w->s, "main", &after, &err));
  assert_int_equal(before.seq, after.seq);
  world_free(w);
}

static void move__to_a_commit_that_another_process_retires_meanwhile_is_refused(void **state)
{
  (void)state;
  for (int kind = 0; kind < 3; kind++) {
    world *w = world_new(0);
    OK(pd_pin_set(w->s, "main", NULL, NULL, &err));
    w->countdown = 1;
    pd_code code = kind == 0   ? pd_fork(w->s, "x", "main~100", NULL, NULL, &err)
                   : kind == 1 ? pd_reset(w->s, "side", "main~100", NULL, NULL, &err)
                               : pd_undo(w->s, 100, NULL, NULL, &err);
    assert_true(w->has_run);
    assert_int_equal(code, PD_RETIRED);
    world_free(w);
  }
}

/* Imports stage their moves with a commit that was found before, by number. */
static void stage__a_move_to_a_commit_that_is_retired_is_refused(void **state)
{
  (void)state;
  world *w = world_new(0);
  pd_commit old;
  OK(pd_resolve(w->s, "main~100", &old, &err));
  OK(pd_gc(w->other, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  pd_intent fork = {.kind = PD_RECORD_FORK, .ref = "x", .target = &old};
  assert_int_equal(pd_write(w->s, &fork, NULL, &err), PD_RETIRED);
  assert_non_null(strstr(err.message, "'x'"));
  pd_intent reset = {.kind = PD_RECORD_RESET, .ref = "side", .target = &old};
  assert_int_equal(pd_write(w->s, &reset, NULL, &err), PD_RETIRED);
  pd_intent merge = {.kind = PD_RECORD_COMMIT, .ref = "side", .merged = &old, .merged_count = 1};
  assert_int_equal(pd_write(w->s, &merge, NULL, &err), PD_RETIRED);
  world_free(w);
}

/* gc has not got the lock yet, but whoever has it knows what is retired. */
static void publish__of_what_is_retired_is_known_to_the_handle_at_once(void **state)
{
  (void)state;
  world *w = world_new(0);
  CLEANUP(pd_buf_done) pd_buf value = {0};
  OK(pd_gc(w->s, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  OK(pd_meta_get(w->s, PD_RETENTION_KIND, PD_RETENTION_NAME, &value, NULL, &err));
  assert_false(w->s->retention.is_stale);
  OK(pd_meta_put(w->s, "setting", "note", pd_text("1"), PD_ANY_VERSION, NULL, NULL, &err));
  assert_false(w->s->retention.is_stale); /* not by anything else */
  OK(pd_meta_put(w->s, PD_RETENTION_KIND, PD_RETENTION_NAME, pd_buf_bytes(&value), PD_ANY_VERSION, NULL, NULL, &err));
  assert_true(w->s->retention.is_stale);
  world_free(w);
}

static void put_large(world *w, uint8_t *bytes, size_t size)
{
  pd_buf value = {0};
  for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(i * 7919 >> 5 ^ i >> 11 ^ i);
  OK(pd_put(w->s, pd_text("large"), (pd_bytes){bytes, size}, NULL, NULL, &err));
  OK(pd_get(w->s, "main", pd_text("large"), &value, NULL, &err));
  assert_true(pd_bytes_equal(pd_buf_bytes(&value), (pd_bytes){bytes, size}));
  pd_buf_done(&value);
}

/* Only what sweeps the bag is a reason to put the pieces once more: more often than anybody would. */
static void large_put__is_not_refused_because_of_settings_tags_and_pins(void **state)
{
  (void)state;
  static uint8_t bytes[200000];
  world *w = world_new(0);
  OK(pd_setting_set(w->s, "note", pd_text("0"), NULL, &err));
  w->settings = 400; /* some of them for each time that the value is put */
  put_large(w, bytes, sizeof bytes);
  assert_int_equal(w->settings, 0);
  world_free(w);
}

static void large_put__beside_gc_is_put_again(void **state)
{
  (void)state;
  static uint8_t bytes[200000];
  world *w = world_new(0);
  OK(pd_setting_set(w->s, "note", pd_text("0"), NULL, &err));
  w->sweeps = 23;
  put_large(w, bytes, sizeof bytes);
  assert_true(w->sweeps < 23);
  w->sweeps = 0;
  world_free(w);
}

/* A gc whose record waits for its sync has its mark already: what was put before that may go, though no reader sees the record yet. */
static void large_put__behind_a_gc_that_is_staged_is_put_again(void **state)
{
  (void)state;
  static uint8_t bytes[200000];
  world *w = world_new(0);
  pd_upload *upload = NULL;
  pd_pieces pieces = {.size = 0};
  size_t used;
  CLEANUP(pd_buf_done) pd_buf retention = {0};
  OK(pd_gc(w->s, &(pd_gc_policy){.keep_last = 1}, NULL, &err));
  OK(pd_meta_get(w->s, PD_RETENTION_KIND, PD_RETENTION_NAME, &retention, NULL, &err));
  OK(pd_upload_new(w->s, "main", pd_text("large"), &upload, &err));
  OK(pd_upload_add(upload, (pd_bytes){bytes, sizeof bytes}, true, &used, &err));
  OK(pd_upload_end(upload, &pieces, &err));
  pd_upload_free(upload);
  pd_change_in note = {.key = pd_text("setting/note"), .value = pd_text("1"), .expect_version = PD_ANY_VERSION};
  pd_change_in say = {.key = pd_text(PD_RETENTION_KEY), .value = pd_buf_bytes(&retention), .expect_version = PD_ANY_VERSION};
  note.value_id = pd_sha256(note.value);
  say.value_id = pd_sha256(say.value);
  pd_change_in large = {
    .key = pd_text("large"), .value_id = pd_sha256((pd_bytes){bytes, sizeof bytes}), .pieces = &pieces, .expect_version = PD_ANY_VERSION};
  const pd_intent settings = {.kind = PD_RECORD_COMMIT, .ref = PD_META_REF, .changes = &note, .change_count = 1};
  const pd_intent sweep = {.kind = PD_RECORD_COMMIT, .ref = PD_META_REF, .changes = &say, .change_count = 1};
  const pd_intent put = {.kind = PD_RECORD_COMMIT, .ref = "main", .changes = &large, .change_count = 1};
  pd_store_lock(w->s);
  OK(pd_stage(w->s, &settings, NULL, NULL, &err));
  OK(pd_stage(w->s, &put, NULL, NULL, &err)); /* settings sweep nothing */
  assert_false(pieces.is_stale);
  OK(pd_stage(w->s, &sweep, NULL, NULL, &err));
  pd_code code = pd_stage(w->s, &put, NULL, NULL, &err);
  pd_store_unlock(w->s);
  assert_int_equal(code, PD_CONFLICT);
  assert_true(pieces.is_stale);
  world_free(w);
}

static void erase__of_a_key_whose_values_gc_takes_meanwhile_says_that_it_is_erased(void **state)
{
  (void)state;
  world *w = world_new(0);
  pd_erase_report report;
  bool has;
  OK(pd_put(w->s, pd_text("secret"), pd_text("xyzzy"), NULL, NULL, &err));
  OK(pd_pin_set(w->s, "side", NULL, NULL, &err));
  w->countdown = 2;     /* first the key is deleted, then the erasure is written down */
  w->moves_side = true; /* far enough for gc to cut behind the key's last record */
  OK(pd_erase(w->s, pd_text("secret"), NULL, &report, &err));
  assert_true(w->has_run);
  assert_int_equal(report.versions, 1);
  assert_int_equal(report.refs, 1);
  assert_true(report.has_commit);
  OK(pd_has(w->s, "main", pd_text("secret"), &has, &err));
  assert_false(has);
  pd_code again = pd_erase(w->s, pd_text("secret"), NULL, &report, &err); /* nothing is left */
  assert_true(again == PD_NOT_FOUND || (again == PD_OK && report.versions == 0));
  world_free(w);
}

/* gc has taken the record, and the sweep that should take the value fails: then nobody but the erasure knows of the value. */
static void erase__takes_the_value_that_gc_left_when_it_failed(void **state)
{
  (void)state;
  static uint8_t secret[PD_INLINE_SIZE_MAX + 1];
  world *w = world_new(0);
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  pd_erase_report report;
  memset(secret, 'x', sizeof secret);
  pd_bytes value = {secret, sizeof secret};
  pd_id id = pd_sha256(value);
  fault_backend_install();
  char *faulty = text_of("fault:%s", w->uri);
  OK(pd_store_open(faulty, "main", NULL, &w->collector, &err));
  OK(pd_put(w->s, pd_text("secret"), value, NULL, NULL, &err));
  OK(pd_load_blob(w->s, &id, "the secret", &blob, &err));
  OK(pd_pin_set(w->s, "side", NULL, NULL, &err));
  fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_BAG_SWEEP});
  w->countdown = 2;
  w->moves_side = true;
  w->expect = PD_STORAGE;
  OK(pd_erase(w->s, pd_text("secret"), NULL, &report, &err));
  assert_true(w->has_run && fault_backend_has_fired());
  fault_backend_plan((fault_plan){0});
  assert_int_equal(report.versions, 1);
  assert_int_not_equal(pd_load_blob(w->s, &id, "the secret", &blob, NULL), PD_OK);
  OK(pd_store_close(w->collector, &err));
  free(faulty);
  world_free(w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(mark__at_a_commit_that_another_process_retires_meanwhile_is_refused),
    cmocka_unit_test(mark__at_a_commit_that_the_same_handle_retires_meanwhile_is_refused),
    cmocka_unit_test(mark__in_a_buffered_store_at_a_commit_that_gc_retires_meanwhile_is_refused),
    cmocka_unit_test(mark__at_a_ref_whose_head_was_retired_meanwhile_follows_the_ref),
    cmocka_unit_test(merge__with_a_commit_that_another_process_retires_meanwhile_is_refused),
    cmocka_unit_test(move__to_a_commit_that_another_process_retires_meanwhile_is_refused),
    cmocka_unit_test(stage__a_move_to_a_commit_that_is_retired_is_refused),
    cmocka_unit_test(publish__of_what_is_retired_is_known_to_the_handle_at_once),
    cmocka_unit_test(large_put__is_not_refused_because_of_settings_tags_and_pins),
    cmocka_unit_test(large_put__beside_gc_is_put_again),
    cmocka_unit_test(large_put__behind_a_gc_that_is_staged_is_put_again),
    cmocka_unit_test(erase__of_a_key_whose_values_gc_takes_meanwhile_says_that_it_is_erased),
    cmocka_unit_test(erase__takes_the_value_that_gc_left_when_it_failed),
  };
  return cmocka_run_group_tests_name("gc_race", tests, NULL, NULL);
}
