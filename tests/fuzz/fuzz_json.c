/* fuzz_json.c: the JSON scanner. What it accepts can be walked, decoded and written again, and is then accepted again. */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_merge.h"
#include "fuzz/fuzz.h"

#define MEMBERS_MAX 200

static bool is_within(pd_bytes inner, pd_bytes outer)
{
  const uint8_t *i = inner.data, *o = outer.data;
  return i >= o && i + inner.size <= o + outer.size;
}

static void look_at(pd_json value, pd_bytes text)
{
  CLEANUP(pd_buf_done) pd_buf decoded = {0};
  uint64_t u;
  int64_t i;
  pd_json again;
  FUZZ_REQUIRE(is_within(value.raw, text));
  FUZZ_REQUIRE(pd_json_parse(value.raw, &again, NULL) == PD_OK && again.kind == value.kind && again.raw.size == value.raw.size); /* J3 */
  if (pd_json_decode(value, &decoded, NULL) == PD_OK) FUZZ_REQUIRE(value.kind == PD_JSON_STRING && pd_utf8_check(pd_buf_bytes(&decoded)));
  if (pd_json_u64(value, &u)) FUZZ_REQUIRE(value.kind == PD_JSON_NUMBER);
  if (pd_json_i64(value, &i)) FUZZ_REQUIRE(value.kind == PD_JSON_NUMBER);
}

/* Depth first, with a stack of its own. */
static void walk_all(pd_json top, pd_bytes text)
{
  pd_json_walk stack[PD_JSON_DEPTH_MAX + 1];
  size_t depth = 0, seen = 0;
  stack[depth++] = pd_json_walk_begin(top);
  while (depth && seen++ < MEMBERS_MAX) {
    pd_json key, value;
    if (!pd_json_walk_next(&stack[depth - 1], &key, &value)) {
      depth--;
      continue;
    }
    if (key.kind != PD_JSON_NONE) look_at(key, text);
    look_at(value, text);
    if (value.kind < PD_JSON_ARRAY) continue;
    FUZZ_REQUIRE(depth <= PD_JSON_DEPTH_MAX);
    stack[depth++] = pd_json_walk_begin(value);
  }
}

static void write_again(pd_json value)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  pd_json_value(&w, value);
  FUZZ_REQUIRE(w.code == PD_OK);
  FUZZ_REQUIRE(!out.size || !memchr(out.data, '\n', out.size));
  FUZZ_REQUIRE(pd_json_parse(pd_buf_bytes(&out), NULL, NULL) == PD_OK);
}

/* What the scanner tells by the way is true. */
static void check_facts(pd_json value, const pd_json_facts *facts)
{
  CLEANUP(pd_buf_done) pd_buf canonical = {0};
  if (!pd_json_inside_is_unique(facts) || facts->is_outer_unordered) return;
  FUZZ_REQUIRE(pd_json_unique(value, NULL) == PD_OK);
  if (facts->has_space || memchr(value.raw.data, 0x7F, value.raw.size)) return;
  FUZZ_REQUIRE(pd_json_canonical(value, &canonical, NULL) == PD_OK && pd_bytes_equal(pd_buf_bytes(&canonical), value.raw));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_bytes text = {data, size};
  pd_json value;
  pd_error err = {0};
  pd_json_facts facts;
  pd_code code = pd_json_parse_facts(text, &value, &facts, &err);
  FUZZ_REQUIRE(code == PD_OK || ((code == PD_INVALID || code == PD_LIMIT) && err.code == code && err.message[0]));
  if (code != PD_OK) return 0;
  FUZZ_REQUIRE(pd_utf8_check(text)); /* J1 */
  look_at(value, text);
  walk_all(value, text);
  write_again(value);
  check_facts(value, &facts);
  code = pd_json_unique(value, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_INVALID);
  return 0;
}
