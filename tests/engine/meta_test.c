/* meta_test.c: src/engine/meta.c (the hidden ref), and commits with several parents as pd_write makes them. */
#include "base/buf.h"
#include "engine/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_store *open_memory(const char *name)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(name, "main", NULL, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

static bool count_entry(void *ctx, const char *name, pd_bytes value, const pd_entry *entry)
{
  (void)value;
  assert_true(entry->version > 0);
  assert_memory_equal(name, "release-", 8);
  ++*(int *)ctx;
  return true;
}

static void count_ref(void *ctx, const pd_ref *ref)
{
  assert_string_not_equal(ref->name, PD_META_REF);
  ++*(int *)ctx;
}

static void meta__is_kept_apart_from_the_state_and_seen_by_other_handles(void **state)
{
  (void)state;
  pd_store *a = open_memory("memory:meta"), *b = open_memory("memory:meta");
  pd_buf got = {0};
  pd_error err;
  int tags = 0, refs = 0;
  assert_int_equal(pd_meta_get(a, "tag", "release-1", &got, NULL, &err), PD_NOT_FOUND);
  assert_string_equal(err.message, "there is no tag 'release-1'");
  assert_int_equal(pd_meta_list(a, "tag", count_entry, &tags, NULL), PD_OK);
  assert_int_equal(tags, 0);
  assert_int_equal(pd_meta_put(a, "tag", "release-1", pd_text("one"), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_meta_put(b, "tag", "release-2", pd_text("two"), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_meta_put(b, "tag", "release-2", pd_text("two"), 0, NULL, NULL, &err), PD_CONFLICT);
  assert_int_equal(pd_meta_put(a, "pin", "other", pd_text("x"), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_meta_get(a, "tag", "release-2", &got, NULL, NULL), PD_OK);
  assert_memory_equal(got.data, "two", 3);
  assert_int_equal(pd_meta_list(a, "tag", count_entry, &tags, NULL), PD_OK);
  assert_int_equal(tags, 2);
  assert_int_equal(pd_meta_delete(b, "tag", "release-1", NULL, NULL), PD_OK);
  assert_int_equal(pd_meta_delete(a, "tag", "release-1", NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_ref_list(a, count_ref, &refs, NULL), PD_OK);
  assert_int_equal(refs, 1);
  assert_int_equal(pd_fork(a, PD_META_REF, NULL, NULL, NULL, &err), PD_INVALID); /* users cannot name it */
  assert_int_equal(pd_has(a, NULL, pd_text("tag/release-2"), &(bool){false}, NULL), PD_OK);
  assert_int_equal(pd_get(a, NULL, pd_text("tag/release-2"), NULL, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_verify(a, NULL, NULL, NULL), PD_OK);
  pd_buf_done(&got);
  pd_store_close(a, NULL), pd_store_close(b, NULL);
}

static bool expect_parents(void *ctx, const pd_record *record)
{
  const pd_id *parents = ctx;
  assert_int_equal(record->parent_count, 2);
  assert_true(pd_id_equal(&record->parents[0], &parents[0]) && pd_id_equal(&record->parents[1], &parents[1]));
  return true;
}

static void commit__with_two_parents_is_read_replayed_and_verified(void **state)
{
  (void)state;
  pd_store *s = open_memory("memory:");
  pd_note on_side = {.ref = "side"};
  pd_commit ours, theirs;
  pd_ack ack;
  assert_int_equal(pd_put(s, pd_text("base"), pd_text("0"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_put(s, pd_text("ours"), pd_text("1"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_put(s, pd_text("theirs"), pd_text("2"), &on_side, NULL, NULL), PD_OK);
  assert_int_equal(pd_resolve(s, "main", &ours, NULL), PD_OK);
  assert_int_equal(pd_resolve(s, "side", &theirs, NULL), PD_OK);
  pd_change_in change = {
    .key = pd_text("theirs"), .value = pd_text("2"), .value_id = pd_value_id(pd_text("2")), .expect_version = PD_ANY_VERSION};
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .changes = &change, .change_count = 1, .merged = &theirs, .merged_count = 1};
  assert_int_equal(pd_write(s, &intent, &ack, NULL), PD_OK);
  pd_id parents[2] = {ours.id, theirs.id};
  pd_id expected = pd_commit_id(&ack.tree, parents, 2);
  assert_true(pd_id_equal(&expected, &ack.commit));
  assert_int_equal(pd_show(s, "main", expect_parents, parents, NULL), PD_OK);
  assert_int_equal(pd_get(s, "main", pd_text("theirs"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  pd_store_close(s, NULL);
}

static void commit__imported_keeps_the_time_it_was_made(void **state)
{
  (void)state;
  pd_store *s = open_memory("memory:");
  pd_change_in change = {
    .key = pd_text("k"), .value = pd_text("2"), .value_id = pd_value_id(pd_text("2")), .expect_version = PD_ANY_VERSION};
  pd_origin origin = {pd_text("far"), 1234567890123};
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .changes = &change, .change_count = 1, .origin = &origin};
  pd_entry entry;
  assert_int_equal(pd_write(s, &intent, NULL, NULL), PD_OK);
  assert_int_equal(pd_get(s, NULL, pd_text("k"), NULL, &entry, NULL), PD_OK);
  assert_int_equal(entry.updated_ms, 1234567890123);
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  pd_store_close(s, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(meta__is_kept_apart_from_the_state_and_seen_by_other_handles),
    cmocka_unit_test(commit__with_two_parents_is_read_replayed_and_verified),
    cmocka_unit_test(commit__imported_keeps_the_time_it_was_made),
  };
  return cmocka_run_group_tests_name("engine/meta", tests, NULL, NULL);
}
