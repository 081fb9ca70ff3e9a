/*
 * shallow_test.c: bundles of stores that retention or erasure touched (src/engine/bundle_graft.c). Random stores are thinned by gc and
 * erase, cloned and compared: what could be read can be read, with the same ids, versions, authors and times; what was retired is retired.
 */
#include "engine/bundle_world.h"

#include "base/buf.h"
#include "base/sha256.h"

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

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(shallow__a_clone_of_a_cut_store_reads_the_same),
    cmocka_unit_test(shallow__a_clone_of_a_shallow_clone_is_the_same_still),
  };
  return cmocka_run_group_tests_name("shallow", tests, NULL, NULL);
}
