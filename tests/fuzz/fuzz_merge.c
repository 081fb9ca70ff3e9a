/* fuzz_merge.c: three values, a NUL between them, under every rule: a result that fits, or a conflict; and for most rules the same result
 * with the sides exchanged. The first byte is the rule. */
#include "base/base.h"
#include "base/buf.h"
#include "engine/merge.h"
#include "fuzz/fuzz.h"

static pd_code hear(void *ctx, pd_bytes path, const char *why, const pd_side_value sides[PD_SIDE_COUNT], bool *out_is_settled,
                    pd_json *chosen, pd_error *err)
{
  (void)chosen, (void)err;
  FUZZ_REQUIRE(*why && (sides[PD_SIDE_OURS].is_present || sides[PD_SIDE_THEIRS].is_present));
  FUZZ_REQUIRE(!path.size || *(const char *)path.data == '/');
  *out_is_settled = *(const bool *)ctx;
  return PD_OK;
}

static pd_side_value take_side(const uint8_t **p, const uint8_t *end)
{
  const uint8_t *begin = *p, *nul = begin < end ? memchr(begin, 0, (size_t)(end - begin)) : NULL;
  const uint8_t *stop = nul ? nul : end;
  *p = nul ? nul + 1 : end;
  return (pd_side_value){begin < stop, {begin, (size_t)(stop - begin)}};
}

static void merge_both_ways(pd_merge_rule rule, const pd_side_value sides[PD_SIDE_COUNT], bool settles)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  CLEANUP(pd_buf_done) pd_buf mirrored = {0};
  pd_side_value turned[PD_SIDE_COUNT] = {sides[PD_SIDE_BASE], sides[PD_SIDE_THEIRS], sides[PD_SIDE_OURS]};
  pd_verdict verdict, mirrored_verdict;
  FUZZ_REQUIRE(pd_merge_value(rule, sides, hear, &settles, &out, &verdict, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_merge_value(rule, turned, hear, &settles, &mirrored, &mirrored_verdict, NULL) == PD_OK);
  FUZZ_REQUIRE((verdict == PD_VERDICT_CONFLICT) == (mirrored_verdict == PD_VERDICT_CONFLICT));
  bool is_json = rule == PD_MERGE_JSON || rule == PD_MERGE_COUNTER || rule == PD_MERGE_SET;
  if (verdict != PD_VERDICT_MERGED || !is_json) return;
  FUZZ_REQUIRE(pd_json_parse(pd_buf_bytes(&out), NULL, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&out), pd_buf_bytes(&mirrored)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!size) return 0;
  const uint8_t *p = data + 1, *end = data + size;
  pd_side_value sides[PD_SIDE_COUNT];
  for (int i = 0; i < PD_SIDE_COUNT; i++) sides[i] = take_side(&p, end);
  if (!sides[PD_SIDE_OURS].is_present && !sides[PD_SIDE_THEIRS].is_present) return 0;
  merge_both_ways((pd_merge_rule)(data[0] % PD_MERGE_RULE_COUNT), sides, data[0] >= 128);
  return 0;
}
