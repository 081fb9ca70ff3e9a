/*
 * bundle_test.c: src/engine/bundle_*.c. Random stores with forks, merges, undo, deletes and large values are cloned and compared key by
 * key, version by version, commit by commit; bundles are cut, flipped, spliced and forged.
 */
#include "engine/bundle_world.h"

#include "base/buf.h"
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define WORLDS 40
#define STEPS 120

/* ---- whole histories ---- */

static void bundle__a_clone_is_the_same_history(void **state)
{
  (void)state;
  for (unsigned n = 0; n < WORLDS; n++) {
    pd_store *from = world_open(), *to = world_open();
    world_live(from, 1 + n, STEPS);
    pd_import_report report;
    int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
    world_import(to, fd, NULL, &report);
    assert_true(report.commits > 0);
    world_same(from, to);
    world_import(to, fd, NULL, &report); /* again: nothing is new */
    assert_int_equal(report.added, 0);
    assert_int_equal(report.refs_moved, 0);
    assert_int_equal(report.metas_added, 0);
    world_same(from, to);
    world_sound(to);
    close(fd);
    pd_store_close(from, NULL), pd_store_close(to, NULL);
  }
}

static void bundle__a_clone_of_a_clone_is_the_same_still(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open(), *c = world_open();
  world_live(a, 77, 2 * STEPS);
  assert_int_equal(pd_transfer(a, b, &(pd_transfer_options){.is_all = true}, NULL, NULL), PD_OK);
  assert_int_equal(pd_transfer(b, c, &(pd_transfer_options){.is_all = true}, NULL, NULL), PD_OK);
  world_same(a, c);
  world_sound(c);
  pd_store_close(a, NULL), pd_store_close(b, NULL), pd_store_close(c, NULL);
}

static void bundle__a_chain_of_increments_ends_in_the_same_store(void **state)
{
  (void)state;
  for (unsigned n = 0; n < WORLDS / 4; n++) {
    pd_store *from = world_open(), *to = world_open();
    for (unsigned part = 0; part < 6; part++) {
      pd_import_report report;
      world_live_on(from, 1000 * n + part, STEPS / 4); /* forward only: the receiver's refs follow */
      pd_error err;
      if (pd_transfer(from, to, &(pd_transfer_options){.is_all = true}, &report, &err)) fail_msg("%s", err.message);
      assert_true(report.added > 0 && report.commits <= STEPS / 4 + 1); /* only what is new travels */
      world_same_but_numbers(from, to);
    }
    world_sound(to);
    pd_store_close(from, NULL), pd_store_close(to, NULL);
  }
}

static void bundle__one_ref_brings_its_ancestors_and_no_more(void **state)
{
  (void)state;
  pd_store *from = world_open(), *to = world_open();
  pd_note side = {.ref = "side"};
  const char *refs[] = {"side"};
  world_put(from, "a", "1", NULL);
  assert_int_equal(pd_fork(from, "side", NULL, NULL, NULL, NULL), PD_OK);
  world_put(from, "main-only", "x", NULL);
  world_put(from, "b", "2", &side);
  int fd = world_export(from, &(pd_export_options){.refs = refs, .ref_count = 1}, NULL);
  pd_import_report report;
  world_import(to, fd, NULL, &report);
  assert_int_equal(report.commits, 2);
  assert_int_equal(report.added, 2);
  assert_string_equal(report.source, "main");
  assert_int_equal(pd_get(to, "side", pd_text("b"), NULL, NULL, NULL), PD_OK);
  pd_stats stats;
  assert_int_equal(pd_store_stats(to, &stats, NULL), PD_OK);
  assert_int_equal(stats.refs, 2); /* main, side: the hidden ref is gone and not counted */
  world_sound(to);
  close(fd);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

static bool expect_lineage(void *ctx, const pd_record *record)
{
  (void)ctx;
  assert_string_equal(record->author, "ada");
  assert_string_equal(record->run, "r7");
  assert_string_equal(record->reason, "because");
  return true;
}

static void bundle__lineage_travels(void **state)
{
  (void)state;
  pd_store *from = world_open(), *to = world_open();
  pd_note note = {.author = "ada", .run = "r7", .reason = "because"};
  pd_entry there, here;
  world_put(from, "k", "v", &note);
  assert_int_equal(pd_transfer(from, to, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_show(to, "main", expect_lineage, NULL, NULL), PD_OK);
  assert_int_equal(pd_get(from, NULL, pd_text("k"), NULL, &there, NULL), PD_OK);
  assert_int_equal(pd_get(to, NULL, pd_text("k"), NULL, &here, NULL), PD_OK);
  assert_int_equal(there.updated_ms, here.updated_ms);
  assert_int_equal(there.created_ms, here.created_ms);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

static void bundle__the_same_commit_with_other_versions_stays_apart(void **state)
{
  (void)state;
  pd_store *from = world_open(), *to = world_open();
  pd_note side = {.ref = "side"};
  pd_edit *edit;
  pd_ack one, two;
  world_put(from, "k", "v", NULL);
  assert_int_equal(pd_fork(from, "side", NULL, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_put(from, pd_text("k"), pd_text("v"), NULL, &one, NULL), PD_OK); /* version 2 of the same value */
  assert_int_equal(pd_edit_begin(from, &side, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_commit(edit, &two, NULL), PD_OK); /* an empty commit: still version 1 */
  assert_true(pd_id_equal(&one.commit, &two.commit));
  assert_int_equal(pd_transfer(from, to, &(pd_transfer_options){.is_all = true}, NULL, NULL), PD_OK);
  world_same(from, to);
  world_sound(to);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

/* ---- refs ---- */

static void bundle__a_diverged_ref_is_refused_and_nothing_comes_in(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  pd_error err;
  pd_stats before, after;
  world_put(a, "base", "0", NULL);
  assert_int_equal(pd_transfer(a, b, NULL, NULL, NULL), PD_OK);
  world_put(a, "a", "1", NULL);
  world_put(b, "b", "2", NULL);
  assert_int_equal(pd_store_stats(b, &before, NULL), PD_OK);
  assert_int_equal(pd_transfer(a, b, NULL, NULL, &err), PD_CONFLICT);
  assert_non_null(strstr(err.message, "'main' has diverged"));
  assert_int_equal(pd_store_stats(b, &after, NULL), PD_OK);
  assert_int_equal(before.records, after.records);
  pd_transfer_options as = {.import = {.as = "origin"}};
  assert_int_equal(pd_transfer(a, b, &as, NULL, &err), PD_OK);
  assert_int_equal(pd_get(b, "origin/main", pd_text("a"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_get(b, "main", pd_text("a"), NULL, NULL, NULL), PD_NOT_FOUND);
  assert_int_equal(pd_forward(b, "main", "origin/main", NULL, NULL, &err), PD_CONFLICT);
  world_sound(b);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static void bundle__a_ref_that_is_ahead_stays(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  pd_import_report report;
  bool has_moved = true;
  world_put(a, "base", "0", NULL);
  int fd = world_export(a, NULL, NULL);
  world_import(b, fd, NULL, NULL);
  world_put(b, "more", "1", NULL);
  world_import(b, fd, NULL, &report);
  assert_int_equal(report.refs_moved, 0);
  assert_int_equal(pd_get(b, "main", pd_text("more"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_fork(b, "old", "main~1", NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_forward(b, "main", "old", NULL, &has_moved, NULL), PD_OK);
  assert_false(has_moved);
  assert_int_equal(pd_forward(b, "old", "main", NULL, &has_moved, NULL), PD_OK);
  assert_true(has_moved);
  close(fd);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static void bundle__a_picture_of_the_other_side_follows_wherever_it_went(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  pd_transfer_options as = {.import = {.as = "origin"}};
  world_put(a, "k", "1", NULL);
  world_put(a, "k", "2", NULL);
  assert_int_equal(pd_transfer(a, b, &as, NULL, NULL), PD_OK);
  assert_int_equal(pd_undo(a, 1, NULL, NULL, NULL), PD_OK);
  world_put(a, "k", "3", NULL);
  assert_int_equal(pd_transfer(a, b, &as, NULL, NULL), PD_OK);
  pd_buf got = {0};
  assert_int_equal(pd_get(b, "origin/main", pd_text("k"), &got, NULL, NULL), PD_OK);
  assert_memory_equal(got.data, "3", 1);
  assert_int_equal(pd_switch(b, "origin/main", NULL, NULL), PD_OK); /* but never the current ref */
  assert_int_equal(pd_undo(a, 1, NULL, NULL, NULL), PD_OK);
  world_put(a, "k", "4", NULL);
  assert_int_equal(pd_transfer(a, b, &as, NULL, NULL), PD_CONFLICT);
  pd_buf_done(&got);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static void bundle__what_is_known_besides_is_merged_and_what_is_here_wins(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  pd_import_report report;
  pd_buf got = {0}, agent = {0};
  world_put(a, "k", "1", NULL);
  assert_int_equal(pd_meta_put(a, "tag", "mine", pd_text("theirs"), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_meta_put(a, "tag", "new", pd_text("theirs"), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_remote_set(a, "origin", "sqlite:/nowhere", "main", NULL), PD_OK);
  assert_int_equal(pd_meta_put(b, "tag", "mine", pd_text("ours"), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_transfer(a, b, &(pd_transfer_options){.is_all = true}, &report, NULL), PD_OK);
  assert_int_equal(report.metas_added, 1);
  assert_int_equal(pd_meta_get(b, "tag", "mine", &got, NULL, NULL), PD_OK);
  assert_memory_equal(got.data, "ours", 4);
  assert_int_equal(pd_meta_get(b, "tag", "new", &got, NULL, NULL), PD_OK);
  assert_int_equal(pd_remote_get(b, "origin", &got, &agent, NULL), PD_NOT_FOUND); /* where a pushes to is no business of b's */
  assert_int_equal(pd_remote_get(a, "origin", &got, &agent, NULL), PD_OK);
  assert_string_equal((char *)got.data, "sqlite:/nowhere");
  world_sound(b);
  pd_buf_done(&got), pd_buf_done(&agent);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static void count_ref(void *ctx, const pd_import_ref *ref)
{
  assert_int_equal(ref->fate, PD_IMPORT_FORWARDED);
  ++*(int *)ctx;
}

static void bundle__a_dry_run_tells_and_changes_nothing(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  pd_import_report report;
  pd_stats before, after;
  int refs = 0;
  world_put(a, "k", "1", NULL);
  world_put(a, "k", "2", NULL);
  int fd = world_export(a, NULL, NULL);
  assert_int_equal(pd_store_stats(b, &before, NULL), PD_OK);
  world_import(b, fd, &(pd_import_options){.is_dry_run = true, .visit_ref = count_ref, .ctx = &refs}, &report);
  assert_int_equal(report.added, 2);
  assert_int_equal(report.refs_moved, 1);
  assert_int_equal(refs, 1);
  assert_int_equal(pd_store_stats(b, &after, NULL), PD_OK);
  assert_int_equal(before.records, after.records);
  close(fd);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

/* ---- what is missing ---- */

static void bundle__a_foreign_parent_is_named(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  const char *since[] = {"main~1"};
  char hex[PD_ID_HEX_SIZE];
  pd_commit base;
  pd_error err;
  pd_export_report made;
  world_put(a, "k", "1", NULL);
  assert_int_equal(pd_resolve(a, "main", &base, NULL), PD_OK);
  world_put(a, "k", "2", NULL);
  int fd = world_export(a, &(pd_export_options){.since = since, .since_count = 1}, &made);
  assert_int_equal(made.commits, 1);
  assert_int_equal(made.needs, 1);
  assert_int_equal(pd_import(b, fd, NULL, NULL, &err), PD_NOT_FOUND);
  assert_non_null(strstr(err.message, pd_id_hex(&base.id, hex)));
  int whole = world_export(a, NULL, NULL);
  world_import(b, whole, NULL, NULL);
  world_import(b, fd, NULL, NULL);
  close(fd), close(whole);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static void bundle__what_is_known_stays_behind_and_ids_from_elsewhere_are_passed_over(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  pd_commit old;
  pd_export_report made;
  world_put(a, "k", "1", NULL);
  assert_int_equal(pd_transfer(a, b, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_resolve(a, NULL, &old, NULL), PD_OK);
  world_put(a, "k", "2", NULL);
  pd_id known[] = {pd_value_id(pd_text("of another store")), old.id};
  int fd = world_export(a, &(pd_export_options){.known = known, .known_count = 2}, &made);
  assert_int_equal(made.commits, 1);
  assert_int_equal(made.needs, 1);
  world_import(b, fd, NULL, NULL);
  world_same_but_numbers(a, b);
  close(fd);
  fd = world_export(a, &(pd_export_options){.known = known, .known_count = 1}, &made);
  assert_int_equal(made.commits, 2);
  close(fd);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static void bundle__a_value_over_the_limit_is_refused(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = NULL;
  pd_options small = {.value_size_max = 1000};
  pd_error err;
  assert_int_equal(pd_store_open("memory:", "main", &small, &b, NULL), PD_OK);
  char value[2000];
  memset(value, 'x', sizeof value);
  assert_int_equal(pd_put(a, pd_text("k"), (pd_bytes){value, sizeof value}, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_transfer(a, b, NULL, NULL, &err), PD_LIMIT);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static bool give_up(void *ctx, uint64_t done, uint64_t total)
{
  (void)done, (void)total;
  return --*(int *)ctx > 0;
}

static void bundle__whoever_watches_may_give_up(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open();
  int patience = 2;
  pd_error err;
  world_live(a, 5, 400);
  int fd = world_export(a, &(pd_export_options){.is_all = true}, NULL);
  assert_int_equal(pd_import(b, fd, &(pd_import_options){.progress = give_up, .ctx = &patience}, NULL, &err), PD_INVALID);
  patience = 1;
  int null = open_null();
  assert_int_equal(pd_export(a, null, &(pd_export_options){.progress = give_up, .ctx = &patience}, NULL, &err), PD_INVALID);
  close(fd), close(null);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

/* ---- damage ---- */

static void refused(pd_store *to, const uint8_t *bytes, size_t size, const char *what, size_t at)
{
  int fd = world_file(bytes, size);
  pd_error err = {0};
  pd_code code = pd_import(to, fd, NULL, NULL, &err);
  close(fd);
  if (code != PD_CORRUPT && code != PD_FORMAT) fail_msg("%s at %zu: code %d, %s", what, at, code, err.message);
  if (!err.message[0]) fail_msg("%s at %zu: no message", what, at);
}

static void bundle__every_flipped_byte_and_every_cut_is_refused(void **state)
{
  (void)state;
  pd_store *from = world_open(), *to = world_open();
  pd_stats before, after;
  pd_buf bytes = {0};
  world_live(from, 9, 12);
  world_bytes(from, &(pd_export_options){.is_all = true}, &bytes);
  assert_int_equal(pd_store_stats(to, &before, NULL), PD_OK);
  for (size_t i = 0; i < bytes.size; i++) {
    refused(to, bytes.data, i, "cut", i);
    for (unsigned bit = 0; bit < 8; bit += 7) {
      bytes.data[i] ^= (uint8_t)(1u << bit);
      refused(to, bytes.data, bytes.size, "flip", i);
      bytes.data[i] ^= (uint8_t)(1u << bit);
    }
  }
  assert_int_equal(pd_buf_append(&bytes, "x", 1, NULL), PD_OK);
  refused(to, bytes.data, bytes.size, "longer", bytes.size);
  assert_int_equal(pd_store_stats(to, &after, NULL), PD_OK);
  assert_int_equal(before.records, after.records);
  pd_buf_done(&bytes);
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

/* The checksum is made right again: what is wrong inside must be found by the ids. */
static void bundle__flips_under_a_right_checksum_never_change_a_commit(void **state)
{
  (void)state;
  pd_store *from = world_open();
  pd_buf bytes = {0};
  world_live(from, 10, 12);
  world_bytes(from, &(pd_export_options){.is_all = true}, &bytes);
  for (size_t i = 16; i + PD_ID_SIZE < bytes.size; i++) {
    pd_store *to = world_open();
    bytes.data[i] ^= 0x10;
    pd_id sum = pd_sha256((pd_bytes){bytes.data, bytes.size - PD_ID_SIZE});
    memcpy(bytes.data + bytes.size - PD_ID_SIZE, sum.bytes, PD_ID_SIZE);
    int fd = world_file(bytes.data, bytes.size);
    pd_error err;
    if (!pd_import(to, fd, NULL, NULL, &err)) world_subset(to, from); /* names, times and texts are not under an id */
    world_sound(to);
    close(fd);
    bytes.data[i] ^= 0x10;
    pd_store_close(to, NULL);
  }
  pd_buf_done(&bytes);
  pd_store_close(from, NULL);
}

static void bundle__parts_of_two_bundles_are_no_bundle(void **state)
{
  (void)state;
  pd_store *a = world_open(), *b = world_open(), *to = world_open();
  pd_buf one = {0}, two = {0}, both = {0};
  world_live(a, 20, 30);
  world_live(b, 21, 30);
  world_bytes(a, NULL, &one);
  world_bytes(b, NULL, &two);
  for (size_t cut = 1; cut < one.size && cut < two.size; cut += 7) {
    pd_buf_clear(&both);
    assert_int_equal(pd_buf_append(&both, one.data, cut, NULL), PD_OK);
    assert_int_equal(pd_buf_append(&both, two.data + cut, two.size - cut, NULL), PD_OK);
    if (memcmp(both.data, two.data, cut) != 0) refused(to, both.data, both.size, "splice", cut);
  }
  pd_buf_done(&one), pd_buf_done(&two), pd_buf_done(&both);
  pd_store_close(a, NULL), pd_store_close(b, NULL), pd_store_close(to, NULL);
}

static void bundle__what_is_no_bundle_says_so(void **state)
{
  (void)state;
  pd_store *to = world_open();
  pd_error err;
  int ends[2], fd = world_file((const uint8_t *)"{\"not\":\"a bundle\"}", 18);
  assert_int_equal(pd_import(to, fd, NULL, NULL, &err), PD_FORMAT);
  assert_string_equal(err.message, "this is no bundle");
  close(fd);
  fd = world_file((const uint8_t *)"", 0);
  assert_int_equal(pd_import(to, fd, NULL, NULL, &err), PD_FORMAT);
  close(fd);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(pd_import(to, ends[0], NULL, NULL, &err), PD_INVALID);
  close(ends[0]), close(ends[1]);
  pd_store_close(to, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bundle__a_clone_is_the_same_history),
    cmocka_unit_test(bundle__a_clone_of_a_clone_is_the_same_still),
    cmocka_unit_test(bundle__a_chain_of_increments_ends_in_the_same_store),
    cmocka_unit_test(bundle__one_ref_brings_its_ancestors_and_no_more),
    cmocka_unit_test(bundle__lineage_travels),
    cmocka_unit_test(bundle__the_same_commit_with_other_versions_stays_apart),
    cmocka_unit_test(bundle__a_diverged_ref_is_refused_and_nothing_comes_in),
    cmocka_unit_test(bundle__a_ref_that_is_ahead_stays),
    cmocka_unit_test(bundle__a_picture_of_the_other_side_follows_wherever_it_went),
    cmocka_unit_test(bundle__what_is_known_besides_is_merged_and_what_is_here_wins),
    cmocka_unit_test(bundle__a_dry_run_tells_and_changes_nothing),
    cmocka_unit_test(bundle__a_foreign_parent_is_named),
    cmocka_unit_test(bundle__what_is_known_stays_behind_and_ids_from_elsewhere_are_passed_over),
    cmocka_unit_test(bundle__a_value_over_the_limit_is_refused),
    cmocka_unit_test(bundle__whoever_watches_may_give_up),
    cmocka_unit_test(bundle__every_flipped_byte_and_every_cut_is_refused),
    cmocka_unit_test(bundle__flips_under_a_right_checksum_never_change_a_commit),
    cmocka_unit_test(bundle__parts_of_two_bundles_are_no_bundle),
    cmocka_unit_test(bundle__what_is_no_bundle_says_so),
  };
  return cmocka_run_group_tests_name("engine/bundle", tests, NULL, NULL);
}
