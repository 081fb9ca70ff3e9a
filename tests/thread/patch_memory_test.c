/*
 * patch_memory_test.c: every allocation of parsing, applying, viewing and comparing patches fails in turn (the linker sends them here,
 * --wrap): out of memory is told as that, and the state is as it was.
 */
#include "thread/lattice.h"
#include "thread/patched.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned fail_at, calls; /* 0: none */

static bool is_to_fail(void)
{
  return fail_at && ++calls == fail_at;
}

void *__wrap_malloc(size_t size)
{
  return is_to_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
  return is_to_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
  return is_to_fail() ? NULL : __real_realloc(old, size);
}

static const char before[] = "{\"a\":[1,2,3,{\"x\":1}],\"n\":1,\"o\":{\"p\":1},\"r\":{\"$or_map\":{\"k\":{\"t0\":[1]}}}}";

static const char patches[] =
  "[{\"op\":\"set\",\"path\":[\"deep\",\"er\",0],\"value\":{\"\\u0061\\\"\":[\"\\u0041\\n\",{}]}},{\"op\":\"delete\",\"path\":\"/a/0\"},"
  "{\"op\":\"append\",\"path\":\"/list\",\"value\":1},{\"op\":\"merge_object\",\"path\":[\"o\"],\"value\":{\"q\":2,\"p\":3}},"
  "{\"op\":\"increment\",\"path\":[\"n\"]},{\"op\":\"insert\",\"path\":[\"a\"],\"index\":0,\"value\":9},"
  "{\"op\":\"remove\",\"path\":[\"a\"],\"value\":{\"x\":1}},{\"op\":\"lattice_merge\",\"lattice\":\"max\",\"path\":\"/"
  "m\",\"value\":\"\\u0061\"},"
  "{\"op\":\"lattice_merge\",\"lattice\":\"counter\",\"path\":\"/c\",\"value\":{\"w\":3}},"
  "{\"op\":\"lattice_merge\",\"lattice\":\"set\",\"path\":\"/s\",\"value\":{\"$set\":{\"{\\\"a\\\":1,\\\"b\\\":[]}\":true}}},"
  "{\"op\":\"lattice_merge\",\"lattice\":\"or_set\",\"path\":\"/t\",\"value\":[{\"item\":{\"b\":1,\"a\":2},\"tag\":\"t1\"}]},"
  "{\"op\":\"lattice_merge\",\"lattice\":\"or_map\",\"path\":\"/r\",\"value\":[{\"key\":\"k\",\"tag\":\"t0\",\"value\":2}]}]";

static const char after[] =
  "{\"a\":[9,2,3],\"c\":{\"$counter\":{\"w\":3}},\"deep\":{\"er\":[{\"a\\\"\":[\"A\\n\",{}]}]},\"list\":[1],\"m\":\"a\",\"n\":2,"
  "\"o\":{\"p\":3,\"q\":2},\"r\":{\"$or_map\":{\"k\":{\"t0\":[2]}}},\"s\":{\"$set\":{\"{\\\"a\\\":1,\\\"b\\\":[]}\":true}},"
  "\"t\":{\"$or_set\":{\"{\\\"a\\\":2,\\\"b\\\":1}\":{\"t1\":true}}}}";

static pd_code ignore(void *ctx, const pd_patch_conflict *conflict, pd_error *err)
{
  (void)ctx, (void)conflict, (void)err;
  return PD_OK;
}

static pd_code work(pd_doc *doc, pd_touched *touched, pd_buf *view, pd_error *err)
{
  pd_patches *list;
  TRY(pd_patches_parse(parsed(patches), &list, err));
  pd_code code = pd_patches_conflicts(list, list, ignore, NULL, err);
  if (!code) code = pd_patches_apply(list, doc, touched, err);
  if (!code) code = pd_patches_write(list, view, err);
  pd_patches_free(list);
  return code ? code : pd_lattice_view(pd_doc_root(doc), view, err);
}

static void patches__every_allocation_may_fail(void **state)
{
  (void)state;
  unsigned failures = 0;
  pd_code code = PD_NO_MEMORY;
  for (unsigned at = 1; code; at++) {
    pd_doc *doc = doc_of(before);
    CLEANUP(pd_touched_done) pd_touched touched = {0};
    CLEANUP(pd_buf_done) pd_buf view = {0};
    pd_error err = {0};
    calls = 0;
    fail_at = at;
    code = work(doc, &touched, &view, &err);
    fail_at = 0;
    if (code) {
      if (code != PD_NO_MEMORY || err.code != PD_NO_MEMORY) fail_msg("allocation %u: %d, %s", at, code, err.message);
      pd_doc_undo(doc, 0);
      doc_is(doc, before);
      failures++;
    } else {
      doc_is(doc, after);
    }
    pd_doc_free(doc);
  }
  assert_in_range(failures, 50, 10000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(patches__every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
