/*
 * merge_value.c: three values of one key become one, by the key's rule. Every rule answers with bytes, with one of the sides, or with
 * the reason why it does not fit; it never guesses. What a rule makes depends on the values alone (M2), and but for `append`, `ours` and
 * `theirs` it does not depend on which side is which.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/merge.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const rule_names[PD_MERGE_RULE_COUNT] = {"fail", "ours", "theirs", "json", "counter", "set", "max", "min", "append"};

const char *pd_merge_rule_name(pd_merge_rule rule)
{
  return (unsigned)rule < PD_MERGE_RULE_COUNT ? rule_names[rule] : NULL;
}

pd_code pd_merge_rule_parse(const char *name, pd_merge_rule *out, pd_error *err)
{
  for (unsigned i = 0; i < PD_MERGE_RULE_COUNT; i++)
    if (strcmp(rule_names[i], name) == 0) {
      *out = (pd_merge_rule)i;
      return PD_OK;
    }
  return pd_error_set(err, PD_INVALID, "'%.32s' is no merge rule; there are fail, ours, theirs, json, counter, set, max, min, append",
                      name);
}

/* One value on its way through a rule. `why` is set if the rule does not fit. */
typedef struct trial {
  const pd_side_value *sides;
  pd_json json[PD_SIDE_COUNT]; /* PD_JSON_NONE: absent, or no JSON */
  pd_buf *out;
  const char *why;
  pd_verdict verdict;
} trial;

static bool is_kind(const trial *t, int side, pd_json_kind kind)
{
  return t->json[side].kind == kind || (side == PD_SIDE_BASE && !t->sides[side].is_present);
}

static bool are_all(const trial *t, pd_json_kind kind)
{
  return is_kind(t, PD_SIDE_BASE, kind) && is_kind(t, PD_SIDE_OURS, kind) && is_kind(t, PD_SIDE_THEIRS, kind);
}

static pd_code misfit(trial *t, const char *why)
{
  t->why = why;
  t->verdict = PD_VERDICT_CONFLICT;
  return PD_OK;
}

/* ---- counter ---- */

static pd_code merge_counter(trial *t, pd_error *err)
{
  int64_t n[PD_SIDE_COUNT] = {0}, sum;
  for (int side = 0; side < PD_SIDE_COUNT; side++) {
    if (side == PD_SIDE_BASE && !t->sides[side].is_present) continue;
    if (!pd_json_i64(t->json[side], &n[side])) return misfit(t, "rule counter: a value is no whole number of 64 bits");
  }
  __int128 wide = (__int128)n[PD_SIDE_OURS] + n[PD_SIDE_THEIRS] - n[PD_SIDE_BASE];
  sum = (int64_t)wide;
  if (sum != wide) return misfit(t, "rule counter: the sum is no number of 64 bits");
  return pd_buf_printf(t->out, err, "%" PRId64, sum);
}

/* ---- set ---- */

/* An item, by its canonical text. */
typedef struct set_item {
  size_t at, size; /* of the text in `texts` */
  pd_json raw;
  size_t base_index; /* SIZE_MAX: the base has it not */
  uint8_t sides;     /* bit 1 << side */
} set_item;

typedef struct set_items {
  set_item *items;
  size_t count, capacity;
  pd_buf texts;
} set_items;

static void set_done(set_items *s)
{
  free(s->items);
  pd_buf_done(&s->texts);
}

static pd_code add_items(set_items *s, pd_json array, int side, pd_error *err)
{
  pd_json_walk walk = pd_json_walk_begin(array);
  pd_json item;
  for (size_t i = 0; pd_json_walk_next(&walk, NULL, &item); i++) {
    TRY(pd_array_grow(&s->items, s->count, &s->capacity, sizeof *s->items, "a set", err));
    set_item *one = &s->items[s->count++];
    *one = (set_item){.at = s->texts.size, .raw = item, .base_index = side == PD_SIDE_BASE ? i : SIZE_MAX, .sides = (uint8_t)(1u << side)};
    TRY(pd_json_canonical(item, &s->texts, err));
    one->size = s->texts.size - one->at;
  }
  return PD_OK;
}

static int compare_items(const void *a, const void *b, void *texts)
{
  const set_item *ia = a, *ib = b;
  const uint8_t *data = texts;
  return pd_bytes_compare((pd_bytes){data + ia->at, ia->size}, (pd_bytes){data + ib->at, ib->size});
}

/* The base's in its order, then the new ones by their text. */
static int compare_places(const void *a, const void *b, void *texts)
{
  const set_item *ia = a, *ib = b;
  if (ia->base_index != ib->base_index) return ia->base_index < ib->base_index ? -1 : 1;
  return compare_items(a, b, texts);
}

static void join_items(set_items *s)
{
  size_t count = s->count ? 1 : 0;
  for (size_t i = 1; i < s->count; i++) {
    set_item *last = &s->items[count - 1], *one = &s->items[i];
    if (compare_items(last, one, s->texts.data) != 0) {
      s->items[count++] = *one;
      continue;
    }
    last->sides |= one->sides;
    if (one->base_index < last->base_index) last->base_index = one->base_index;
    if (pd_bytes_compare(one->raw.raw, last->raw.raw) < 0) last->raw = one->raw;
  }
  s->count = count;
}

/* In the base: it stays if neither removed it. Else: somebody added it. */
static bool stays(const set_item *item)
{
  unsigned both = 1u << PD_SIDE_OURS | 1u << PD_SIDE_THEIRS;
  return item->base_index == SIZE_MAX || (item->sides & both) == both;
}

static pd_code merge_set(trial *t, pd_error *err)
{
  if (!are_all(t, PD_JSON_ARRAY)) return misfit(t, "rule set: a value is no JSON array");
  CLEANUP(set_done) set_items s = {0};
  for (int side = 0; side < PD_SIDE_COUNT; side++) TRY(add_items(&s, t->json[side], side, err));
  if (s.count) qsort_r(s.items, s.count, sizeof *s.items, compare_items, s.texts.data);
  join_items(&s);
  if (s.count) qsort_r(s.items, s.count, sizeof *s.items, compare_places, s.texts.data);
  pd_json_writer w = {.out = t->out, .err = err};
  pd_json_open(&w, '[');
  for (size_t i = 0; i < s.count; i++)
    if (stays(&s.items[i])) pd_json_value(&w, s.items[i].raw);
  pd_json_close(&w, ']');
  return w.code;
}

/* ---- max, min ---- */

/* Two numbers, two JSON strings, or two texts that are no JSON. */
static bool compare_two(const trial *t, int *out)
{
  pd_json a = t->json[PD_SIDE_OURS], b = t->json[PD_SIDE_THEIRS];
  pd_bytes raw_a = t->sides[PD_SIDE_OURS].bytes, raw_b = t->sides[PD_SIDE_THEIRS].bytes;
  bool are_text = a.kind == PD_JSON_NONE && b.kind == PD_JSON_NONE && pd_utf8_check(raw_a) && pd_utf8_check(raw_b);
  if (a.kind != b.kind || (a.kind != PD_JSON_NUMBER && a.kind != PD_JSON_STRING && !are_text)) return false;
  *out = a.kind == PD_JSON_NUMBER   ? pd_json_number_compare(a, b)
         : a.kind == PD_JSON_STRING ? pd_json_string_compare(a, b)
                                    : pd_bytes_compare(raw_a, raw_b);
  if (!*out) *out = pd_bytes_compare(raw_a, raw_b); /* 1 and 1.0: the same one whichever side it is on */
  return true;
}

static pd_code merge_extreme(trial *t, bool is_max)
{
  int order;
  if (!compare_two(t, &order))
    return misfit(t, is_max ? "rule max: the values are neither two numbers nor two strings"
                            : "rule min: the values are neither two numbers nor two strings");
  t->verdict = (order >= 0) == is_max ? PD_VERDICT_OURS : PD_VERDICT_THEIRS;
  return PD_OK;
}

/* ---- append ---- */

/* Write the items of `array` that come after those of `base`, which it has to begin with. */
static pd_code append_items(trial *t, pd_json_writer *w, int side, pd_error *err)
{
  pd_json_walk base = pd_json_walk_begin(t->json[PD_SIDE_BASE]), walk = pd_json_walk_begin(t->json[side]);
  pd_json before, item;
  while (pd_json_walk_next(&base, NULL, &before)) {
    bool is_same = false;
    if (pd_json_walk_next(&walk, NULL, &item)) TRY(pd_json_equal(before, item, &is_same, err));
    if (!is_same) return misfit(t, "rule append: a side does not begin with what was there");
    if (side == PD_SIDE_OURS) pd_json_value(w, before);
  }
  while (pd_json_walk_next(&walk, NULL, &item)) pd_json_value(w, item);
  return w->code;
}

static pd_code append_arrays(trial *t, pd_error *err)
{
  pd_json_writer w = {.out = t->out, .err = err};
  pd_json_open(&w, '[');
  TRY(append_items(t, &w, PD_SIDE_OURS, err));
  if (!t->why) TRY(append_items(t, &w, PD_SIDE_THEIRS, err));
  pd_json_close(&w, ']');
  return w.code;
}

static bool is_lines(const pd_side_value *side)
{
  pd_bytes b = side->bytes;
  return !side->is_present || !b.size || (((const char *)b.data)[b.size - 1] == '\n' && pd_utf8_check(b));
}

static pd_code append_text(trial *t, pd_error *err)
{
  pd_bytes base = t->sides[PD_SIDE_BASE].bytes, ours = t->sides[PD_SIDE_OURS].bytes, theirs = t->sides[PD_SIDE_THEIRS].bytes;
  for (int side = 0; side < PD_SIDE_COUNT; side++)
    if (!is_lines(&t->sides[side])) return misfit(t, "rule append: a value is neither a JSON array nor text that ends with a newline");
  if (!pd_bytes_starts(ours, base) || !pd_bytes_starts(theirs, base))
    return misfit(t, "rule append: a side does not begin with what was there");
  TRY(pd_buf_append(t->out, ours.data, ours.size, err));
  return pd_buf_append(t->out, (const char *)theirs.data + base.size, theirs.size - base.size, err);
}

/* ---- json ---- */

typedef struct json_sink {
  pd_value_conflict conflict;
  void *ctx;
  bool has_conflict;
} json_sink;

static const char *why_of(bool has_ours, bool has_theirs)
{
  if (!has_ours) return "deleted by ours, changed by theirs";
  return has_theirs ? "changed by both" : "changed by ours, deleted by theirs";
}

static pd_code on_json_conflict(void *ctx, pd_bytes path, const pd_json sides[PD_SIDE_COUNT], pd_json *chosen, pd_error *err)
{
  json_sink *sink = ctx;
  pd_side_value values[PD_SIDE_COUNT];
  bool is_settled = false;
  for (int i = 0; i < PD_SIDE_COUNT; i++) values[i] = (pd_side_value){sides[i].kind != PD_JSON_NONE, sides[i].raw};
  TRY(sink->conflict(sink->ctx, path, why_of(values[PD_SIDE_OURS].is_present, values[PD_SIDE_THEIRS].is_present), values, &is_settled,
                     chosen, err));
  sink->has_conflict |= !is_settled;
  return PD_OK;
}

/* Objects with a name twice have no one meaning: they are compared as bytes. */
static bool are_unique(const trial *t)
{
  for (int side = 0; side < PD_SIDE_COUNT; side++)
    if (t->json[side].kind != PD_JSON_NONE && pd_json_unique(t->json[side], NULL)) return false;
  return true;
}

static pd_code merge_json(trial *t, pd_value_conflict conflict, void *ctx, pd_error *err)
{
  bool are_json = t->json[PD_SIDE_OURS].kind && t->json[PD_SIDE_THEIRS].kind && (t->json[PD_SIDE_BASE].kind || !t->sides[0].is_present);
  if (!are_json) return misfit(t, "changed by both, and not all are JSON");
  if (!are_unique(t)) return misfit(t, "changed by both, and a JSON object has a name twice");
  json_sink sink = {conflict, ctx, false};
  TRY(pd_json_merge(t->json, on_json_conflict, &sink, t->out, err));
  if (sink.has_conflict)
    t->verdict = PD_VERDICT_CONFLICT;
  else if (!t->out->size)
    t->verdict = PD_VERDICT_BASE; /* settled at the top for the base, which is absent */
  return PD_OK;
}

/* ---- all together ---- */

static pd_code try_rule(pd_merge_rule rule, trial *t, pd_value_conflict conflict, void *ctx, pd_error *err)
{
  switch (rule) {
  case PD_MERGE_JSON: return merge_json(t, conflict, ctx, err);
  case PD_MERGE_COUNTER: return merge_counter(t, err);
  case PD_MERGE_SET: return merge_set(t, err);
  case PD_MERGE_MAX: return merge_extreme(t, true);
  case PD_MERGE_MIN: return merge_extreme(t, false);
  case PD_MERGE_APPEND: return are_all(t, PD_JSON_ARRAY) ? append_arrays(t, err) : append_text(t, err);
  default: return misfit(t, "changed by both");
  }
}

static void parse_sides(trial *t)
{
  for (int side = 0; side < PD_SIDE_COUNT; side++)
    if (t->sides[side].is_present && pd_json_parse(t->sides[side].bytes, &t->json[side], NULL)) t->json[side] = (pd_json){0};
}

pd_code pd_merge_value(pd_merge_rule rule, const pd_side_value sides[PD_SIDE_COUNT], pd_value_conflict conflict, void *ctx, pd_buf *out,
                       pd_verdict *out_verdict, pd_error *err)
{
  trial t = {.sides = sides, .out = out, .verdict = PD_VERDICT_MERGED};
  pd_buf_clear(out);
  if (rule == PD_MERGE_OURS || rule == PD_MERGE_THEIRS) {
    *out_verdict = rule == PD_MERGE_OURS ? PD_VERDICT_OURS : PD_VERDICT_THEIRS;
    return PD_OK;
  }
  if (!sides[PD_SIDE_OURS].is_present || !sides[PD_SIDE_THEIRS].is_present) {
    t.why = why_of(sides[PD_SIDE_OURS].is_present, sides[PD_SIDE_THEIRS].is_present);
  } else {
    if (rule != PD_MERGE_FAIL) parse_sides(&t);
    TRY(try_rule(rule, &t, conflict, ctx, err));
  }
  if (t.why) {
    bool is_settled = false;
    pd_json chosen = {0};
    TRY(conflict(ctx, (pd_bytes){NULL, 0}, t.why, sides, &is_settled, &chosen, err));
    t.verdict = is_settled ? PD_VERDICT_BASE : PD_VERDICT_CONFLICT;
  }
  *out_verdict = t.verdict;
  return PD_OK;
}
