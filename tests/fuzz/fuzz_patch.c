/* fuzz_patch.c: a state and a list of patches, a NUL between them: refused with the state as it was, or applied the same way twice, with a
 * canonical state, and taken back. */
#include "base/base.h"
#include "base/buf.h"
#include "base/json_merge.h"
#include "fuzz/fuzz.h"
#include "thread/lattice.h"
#include "thread/patch.h"

#define SIZE_MAX_OF_STATE 65536

static void write_doc(const pd_doc *doc, pd_buf *out)
{
  FUZZ_REQUIRE(pd_doc_write(doc, out, NULL) == PD_OK);
  FUZZ_REQUIRE(out->size == pd_doc_size(doc) && out->size <= SIZE_MAX_OF_STATE);
}

static void require_canonical(const pd_buf *text)
{
  CLEANUP(pd_buf_done) pd_buf canonical = {0};
  pd_json value;
  FUZZ_REQUIRE(pd_json_parse(pd_buf_bytes(text), &value, NULL) == PD_OK && value.kind == PD_JSON_OBJECT);
  FUZZ_REQUIRE(pd_json_canonical(value, &canonical, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(text), pd_buf_bytes(&canonical)));
}

static pd_code count_conflict(void *ctx, const pd_patch_conflict *conflict, pd_error *err)
{
  (void)err;
  FUZZ_REQUIRE(pd_doc_path_covers(conflict->a_path, conflict->b_path) || pd_doc_path_covers(conflict->b_path, conflict->a_path));
  ++*(size_t *)ctx;
  return PD_OK;
}

static void apply_twice(pd_doc *doc, pd_doc *again, const pd_patches *patches)
{
  CLEANUP(pd_buf_done) pd_buf before = {0};
  CLEANUP(pd_buf_done) pd_buf after = {0};
  CLEANUP(pd_buf_done) pd_buf twin = {0};
  CLEANUP(pd_buf_done) pd_buf view = {0};
  CLEANUP(pd_touched_done) pd_touched touched = {0};
  pd_error err = {0};
  write_doc(doc, &before);
  pd_code code = pd_patches_apply(patches, doc, &touched, &err);
  write_doc(doc, &after);
  FUZZ_REQUIRE((code == PD_OK) == (err.code == PD_OK) && (code == PD_OK || (!touched.count && *err.message)));
  for (size_t i = 1; i < touched.count; i++) FUZZ_REQUIRE(!pd_doc_path_covers(&touched.paths[i - 1], &touched.paths[i]));
  FUZZ_REQUIRE(pd_patches_apply(patches, again, NULL, NULL) == code);
  write_doc(again, &twin);
  FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&after), pd_buf_bytes(&twin)));
  if (code == PD_OK) {
    require_canonical(&after);
    FUZZ_REQUIRE(touched.count || pd_bytes_equal(pd_buf_bytes(&before), pd_buf_bytes(&after)));
    FUZZ_REQUIRE(pd_lattice_view(pd_doc_root(doc), &view, NULL) == PD_OK || view.size);
  }
  pd_doc_undo(doc, 0);
  pd_buf_clear(&twin);
  write_doc(doc, &twin);
  FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&before), pd_buf_bytes(&twin)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  size_t state_size = nul ? (size_t)(nul - data) : size;
  pd_json state, list = {{NULL, 0}, PD_JSON_NONE};
  pd_patches *patches;
  pd_doc *doc, *again;
  size_t conflicts = 0;
  if (pd_json_parse((pd_bytes){data, state_size}, &state, NULL) || state.kind != PD_JSON_OBJECT) return 0;
  if (nul && pd_json_parse((pd_bytes){nul + 1, size - state_size - 1}, &list, NULL)) return 0;
  if (pd_patches_parse(list, &patches, NULL)) return 0;
  FUZZ_REQUIRE(pd_patches_conflicts(patches, patches, count_conflict, &conflicts, NULL) == PD_OK);
  if (pd_doc_new(state, SIZE_MAX_OF_STATE, &doc, NULL) == PD_OK) {
    FUZZ_REQUIRE(pd_doc_new(state, SIZE_MAX_OF_STATE, &again, NULL) == PD_OK);
    apply_twice(doc, again, patches);
    pd_doc_free(doc);
    pd_doc_free(again);
  }
  pd_patches_free(patches);
  return 0;
}
