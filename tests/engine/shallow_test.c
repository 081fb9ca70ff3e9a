/*
 * shallow_test.c: bundles of stores that retention or erasure touched (src/engine/bundle_graft.c). Random stores are thinned by gc and
 * erase, cloned and compared: what could be read can be read, with the same ids, versions, authors and times; what was retired is retired.
 */
#include "engine/bundle_world.h"

#include "base/buf.h"
#include "base/sha256.h"
#include "engine/bundle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define WORLDS 40
#define STEPS 150

static void gc(pd_store *s, uint64_t last, uint64_t versions)
{
  pd_gc_policy policy = {.keep_last = last, .keep_versions = versions};
  pd_error err;
  if (pd_gc(s, &policy, NULL, &err)) fail_msg("gc: %s", err.message);
}

static void transfer(pd_store *from, pd_store *to)
{
  pd_error err;
  if (pd_transfer(from, to, &(pd_transfer_options){.is_all = true}, NULL, &err)) fail_msg("transfer: %s", err.message);
}

/* A store with a random life, cut by gc at least once. */
static pd_store *cut_world(uint64_t seed)
{
  pd_store *s = world_open();
  world_live(s, seed, STEPS);
  if (seed % 3 == 0) assert_int_equal(pd_tag_set(s, "old", "main~1", false, NULL, NULL, NULL), PD_OK);
  gc(s, 1 + seed % 7, seed % 4);
  if (seed % 2) {
    world_live(s, seed + 1000, STEPS / 3);
    gc(s, 1 + seed % 3, seed % 5);
  }
  if (seed % 5 == 0) {
    pd_erase_options everywhere = {.everywhere = true};
    (void)!pd_erase(s, pd_text("key-3"), &everywhere, NULL, NULL);
  }
  return s;
}

static void shallow__a_clone_of_a_cut_store_reads_the_same(void **state)
{
  (void)state;
  for (unsigned n = 0; n < WORLDS; n++) {
    pd_store *from = cut_world(1 + n), *to = world_open();
    pd_import_report report;
    int fd = world_export(from, &(pd_export_options){.is_all = true}, NULL);
    world_import(to, fd, NULL, &report);
    world_same(from, to);
    world_sound(to);
    world_import(to, fd, NULL, &report); /* again: nothing is new */
    assert_int_equal(report.added, 0);
    assert_int_equal(report.refs_moved, 0);
    world_same(from, to);
    close(fd);
    pd_store_close(from, NULL), pd_store_close(to, NULL);
  }
}

static void shallow__a_clone_of_a_shallow_clone_is_the_same_still(void **state)
{
  (void)state;
  for (unsigned n = 0; n < WORLDS / 4; n++) {
    pd_store *a = cut_world(100 + n), *b = world_open(), *c = world_open(), *d = world_open();
    transfer(a, b);
    transfer(b, c);
    world_same(a, c);
    gc(b, 2, 2); /* what it kept before may go now */
    world_sound(b);
    transfer(b, d);
    world_same(b, d);
    world_sound(d);
    pd_store_close(a, NULL), pd_store_close(b, NULL), pd_store_close(c, NULL), pd_store_close(d, NULL);
  }
}

/* ---- what is gone ---- */

static void shallow__what_was_retired_is_retired_there_too(void **state)
{
  (void)state;
  pd_store *from = world_open(), *to = world_open();
  char value[32];
  pd_commit commit;
  pd_error err;
  for (unsigned i = 1; i <= 60; i++) {
    snprintf(value, sizeof value, "%u", i);
    world_put(from, "k", value, NULL);
  }
  gc(from, 3, 5);
  transfer(from, to);
  world_same(from, to);
  pd_store *both[] = {from, to};
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(pd_resolve(both[i], "main~30", &commit, &err), PD_RETIRED);
    assert_int_equal(pd_get_version(both[i], NULL, pd_text("k"), 20, NULL, NULL, &err), PD_RETIRED);
    assert_int_equal(pd_get_version(both[i], NULL, pd_text("k"), 57, NULL, NULL, NULL), PD_OK);
    assert_int_equal(pd_get_version(both[i], NULL, pd_text("k"), 61, NULL, NULL, NULL), PD_NOT_FOUND);
    assert_int_equal(pd_undo(both[i], 50, NULL, NULL, &err), PD_RETIRED);
  }
  pd_store_close(from, NULL), pd_store_close(to, NULL);
}

/* ---- into stores that have a history ---- */

static void shallow__a_full_clone_takes_what_is_new_and_keeps_what_it_has(void **state)
{
  (void)state;
  for (unsigned n = 0; n < WORLDS / 4; n++) {
    pd_store *from = world_open(), *full = world_open();
    pd_commit old;
    world_live_on(from, 300 + n, STEPS / 2);
    transfer(from, full);
    assert_int_equal(pd_resolve(full, "main~5", &old, NULL), PD_OK);
    world_live_on(from, 400 + n, STEPS);
    gc(from, 2, 0); /* where the clone stands may be gone now */
    pd_error err;
    pd_code code = pd_transfer(from, full, &(pd_transfer_options){.is_all = true, .import = {.as = "theirs"}}, NULL, &err);
    if (code) fail_msg("%s", err.message);
    assert_int_equal(pd_resolve(full, "main~5", &old, NULL), PD_OK);
    pd_commit here, there;
    assert_int_equal(pd_resolve(full, "theirs/main", &here, NULL), PD_OK);
    assert_int_equal(pd_resolve(from, "main", &there, NULL), PD_OK);
    assert_true(pd_id_equal(&here.id, &there.id));
    world_sound(full);
    pd_store_close(from, NULL), pd_store_close(full, NULL);
  }
}

static void shallow__life_goes_on_after_it(void **state)
{
  (void)state;
  for (unsigned n = 0; n < WORLDS / 4; n++) {
    pd_store *from = cut_world(200 + n), *to = world_open(), *back = world_open();
    transfer(from, to);
    world_live(to, 500 + n, STEPS / 2);
    world_sound(to);
    gc(to, 3, 2);
    world_sound(to);
    pd_erase_options everywhere = {.everywhere = true};
    (void)!pd_erase(to, pd_text("key-5"), &everywhere, NULL, NULL);
    world_sound(to);
    transfer(to, back);
    world_same(to, back);
    world_sound(back);
    pd_store_close(from, NULL), pd_store_close(to, NULL), pd_store_close(back, NULL);
  }
}

/* ---- damage ---- */

/* A small store whose bundle has grafts with parts. */
static pd_store *small_world(void)
{
  pd_store *s = world_open();
  char value[32], key[8];
  for (unsigned i = 1; i <= 30; i++) {
    snprintf(value, sizeof value, "%u", i);
    snprintf(key, sizeof key, "k%u", i % 4);
    world_put(s, key, value, NULL);
    if (i == 8) assert_int_equal(pd_tag_set(s, "old", "main", false, NULL, NULL, NULL), PD_OK);
  }
  gc(s, 1, 2);
  return s;
}

/* The checksum is made right again: what is wrong inside must be found by the ids. */
static void shallow__flips_under_a_right_checksum_never_change_a_commit(void **state)
{
  (void)state;
  pd_store *from = small_world();
  pd_buf bytes = {0};
  unsigned refused = 0;
  world_bytes(from, &(pd_export_options){.is_all = true}, &bytes);
  assert_int_equal(bytes.data[8], 2); /* the format with grafts */
  for (size_t i = 16; i + PD_ID_SIZE < bytes.size; i++) {
    for (unsigned bit = 0; bit < 8; bit += 3) {
      pd_store *to = world_open();
      pd_stats before, after;
      bytes.data[i] ^= (uint8_t)(1u << bit);
      pd_id sum = pd_sha256((pd_bytes){bytes.data, bytes.size - PD_ID_SIZE});
      memcpy(bytes.data + bytes.size - PD_ID_SIZE, sum.bytes, PD_ID_SIZE);
      int fd = world_file(bytes.data, bytes.size);
      assert_int_equal(pd_store_stats(to, &before, NULL), PD_OK);
      pd_code code = pd_import(to, fd, NULL, NULL, NULL);
      assert_int_equal(pd_store_stats(to, &after, NULL), PD_OK);
      if (code) assert_int_equal(before.records, after.records);
      if (!code) world_subset(to, from); /* names, times, texts and versions are not under an id */
      refused += code != PD_OK;
      world_sound(to);
      close(fd);
      bytes.data[i] ^= (uint8_t)(1u << bit);
      pd_store_close(to, NULL);
    }
  }
  assert_true(refused > 100);
  pd_buf_done(&bytes);
  pd_store_close(from, NULL);
}

/* Items taken out of their order, under checksums that are right. */
static void shallow__forged_parts_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *what, *message;
    uint8_t items[200];
    size_t size;
  } cases[] = {
    {"a part and no graft", "does not come", {PD_BUNDLE_PART, [34] = 1, 0, 0, 0, 0, 0, PD_BUNDLE_END}, 48},
    {"a part on a part that is not there", "follow each other", {PD_BUNDLE_PART, [33] = 2, 1, 0, 0, 0, 0, 0}, 48},
    {"a part on a commit that is not there", "before its parent", {PD_BUNDLE_PART, [33] = 1, 1, 0, 0, 0, 0, 0}, 48},
    {"a graft without parents", "without a parent", {PD_BUNDLE_GRAFT, [65] = 0, 0, 1, 0, 0, 0, 0, 0}, 80},
    {"a linked delete", "unknown kind", {PD_BUNDLE_PART, [33] = 0, 1, 0, 0, 0, 0, 1, 9, 1, 'k'}, 60},
    {"version 0", "version that is none", {PD_BUNDLE_PART, [33] = 0, 1, 0, 0, 0, 0, 1, 0, 1, 'k', 0}, 60},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    pd_store *to = world_open();
    int fd = world_file(NULL, 0);
    pd_bundle_head head = {.store = "main", .current = "main", .commit_count = 1};
    pd_bundle_out out;
    pd_buf bytes = {0};
    pd_error err;
    assert_int_equal(pd_bundle_head_encode(&head, &bytes, NULL), PD_OK);
    pd_sink sink = pd_bundle_file_sink(&fd);
    assert_int_equal(pd_bundle_out_begin(&out, &sink, PD_BUNDLE_FORMAT_GRAFTS, pd_buf_bytes(&bytes), NULL), PD_OK);
    assert_int_equal(pd_bundle_add(&out, cases[i].items, cases[i].size, NULL), PD_OK);
    assert_int_equal(pd_bundle_out_end(&out, NULL), PD_OK);
    pd_bundle_out_done(&out);
    assert_int_equal(pd_import(to, fd, NULL, NULL, &err), PD_CORRUPT);
    if (!strstr(err.message, cases[i].message)) fail_msg("%s: %s", cases[i].what, err.message);
    close(fd);
    pd_buf_done(&bytes);
    pd_store_close(to, NULL);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(shallow__a_clone_of_a_cut_store_reads_the_same),
    cmocka_unit_test(shallow__a_clone_of_a_shallow_clone_is_the_same_still),
    cmocka_unit_test(shallow__what_was_retired_is_retired_there_too),
    cmocka_unit_test(shallow__a_full_clone_takes_what_is_new_and_keeps_what_it_has),
    cmocka_unit_test(shallow__life_goes_on_after_it),
    cmocka_unit_test(shallow__flips_under_a_right_checksum_never_change_a_commit),
    cmocka_unit_test(shallow__forged_parts_are_refused),
  };
  return cmocka_run_group_tests_name("engine/shallow", tests, NULL, NULL);
}
