/* last_id_test.c: ids of snapshots are given out once, whatever was removed since and whatever the clock does. Backups: backup_test.c. */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void snapshot_create__out_snapshot_id__never_comes_again(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[test.snapshot]\nkeep = 2\n");
  static const char *const ids[] = {"snap-20261115T100000Z", "snap-20261115T100000Z-2", "snap-20261115T100000Z-3",
                                    "snap-20261115T100000Z-4"};
  for (size_t i = 0; i < COUNT_OF(ids); i++) {
    world_ok(&w, "state.snapshot.create", "{}");
    char *want = text_of("\"%s\"", ids[i]), *input = text_of("{\"snapshot_id\":\"%s\"}", ids[i]);
    assert_string_equal(world_out(&w, "snapshot_id"), want);
    world_ok(&w, "state.snapshot.load", input); /* the newest is never the one that goes */
    free(want), free(input);
  }
  world_restart(&w);
  w.now_ms -= 1000; /* the clock went back: a second that had none yet */
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T095959Z-5\"");
  world_ok(&w, "state.snapshot.load", "{\"snapshot_id\":\"snap-20261115T095959Z-5\"}");
  w.now_ms += 1500;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z-6\"");
  w.now_ms += 1000;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100001Z\"");
  world_ok(&w, "state.snapshot.list", "{}");
  assert_string_equal(world_out(&w, "snapshots.0.snapshot_id"), "\"snap-20261115T100001Z\"");
  assert_string_equal(world_out(&w, "snapshots.1.snapshot_id"), "\"snap-20261115T100000Z-6\"");
  world_close(&w);
}

static void last_id__a_file_that_is_damaged_or_gone_is_made_again(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.create", "{}");
  char *path = text_of("%s/snapshots/.last", w.folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("what is this", f);
  assert_int_equal(fclose(f), 0);
  world_ok(&w, "state.snapshot.create", "{}"); /* what is there is not overwritten */
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z-2\"");
  assert_int_equal(remove(path), 0);
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z-3\"");
  free(path);
  world_close(&w);
}

/* Pruned ids are not in the folder any more: the greatest that is there tells which may have been. */
static void last_id__without_its_file_ids_go_on_after_those_that_are_there(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[test.snapshot]\nkeep = 2\n");
  char *path = text_of("%s/snapshots/.last", w.folder);
  for (int i = 0; i < 4; i++) world_ok(&w, "state.snapshot.create", "{}");
  assert_int_equal(truncate(path, 20), 0); /* torn */
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z-5\"");
  assert_int_equal(remove(path), 0);
  w.now_ms -= 1000;
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T095959Z-6\"");
  free(path);
  world_close(&w);
}

/* Who holds the file of before has all of it: it is not written over. What a crash left is in nobody's way. */
static void last_id__the_file_is_replaced_as_a_whole(void **state)
{
  (void)state;
  world w;
  char line[64] = {0};
  world_open(&w, NULL);
  world_ok(&w, "state.snapshot.create", "{}");
  char *path = text_of("%s/snapshots/.last", w.folder), *part = text_of("%s.part", path);
  FILE *held = fopen(path, "r"), *left = fopen(part, "w");
  assert_true(held && left);
  fputs("half of a li", left);
  fclose(left);
  world_ok(&w, "state.snapshot.create", "{}");
  assert_string_equal(world_out(&w, "snapshot_id"), "\"snap-20261115T100000Z-2\"");
  assert_true(fread(line, 1, sizeof line - 1, held) > 0);
  assert_string_equal(line, "20261115T100000Z 0000000001\n");
  assert_int_not_equal(access(part, F_OK), 0);
  fclose(held);
  free(path), free(part);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(snapshot_create__out_snapshot_id__never_comes_again),
    cmocka_unit_test(last_id__a_file_that_is_damaged_or_gone_is_made_again),
    cmocka_unit_test(last_id__without_its_file_ids_go_on_after_those_that_are_there),
    cmocka_unit_test(last_id__the_file_is_replaced_as_a_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
