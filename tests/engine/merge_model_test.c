/*
 * merge_model_test.c: rule "json" against a naive model, on 20,000 random triples of documents.
 *
 * A document of the model is a node with a slot for each of a few names: no text, no order of members. Base, ours and theirs are written
 * down with their members in random order and white space where it may stand, a few hundred keys a commit. The conflicts that come back
 * must be the model's, and with each of them resolved at random the merged documents must be the model's too: into ours, and mirrored into
 * theirs, with the same tree. PERDURE_SEED replays a run.
 */
#include "base/buf.h"
#include "engine/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TRIPLE_COUNT 20000
#define KEY_COUNT 400 /* a round */
#define NAME_COUNT 5
#define DEPTH_MAX 3

static const char *const names[NAME_COUNT] = {"a", "b/c", "~d", "e\"", "\xc3\xa9"};
static const char *const written[NAME_COUNT][2] = {{"\"a\"", "\"\\u0061\""},
                                                   {"\"b/c\"", "\"b\\/c\""},
                                                   {"\"~d\"", "\"\\u007ed\""},
                                                   {"\"e\\\"\"", "\"e\\u0022\""},
                                                   {"\"\xc3\xa9\"", "\"\\u00e9\""}};
static const char *const pointers[NAME_COUNT] = {"/a", "/b~1c", "/~0d", "/e\"", "/\xc3\xa9"};

static uint64_t seed;
static pd_error err;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s (PERDURE_SEED=%llu)", #call, err.message, (unsigned long long)seed);                                        \
  } while (0)

static unsigned below(unsigned bound)
{
  static uint64_t state;
  if (!state) state = seed * 2 + 1;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)((state >> 33) % bound);
}

/* ---- documents ---- */

typedef struct doc {
  const char *scalar; /* NULL: an object. Arrays are scalars: they count as a whole */
  struct doc *kids[NAME_COUNT];
} doc;

static const char *const scalars[] = {"0",     "1",  "1.0",           "-7e2", "123456789012345678901234567890", "null", "true",
                                      "\"x\"", "[]", "[1,{\"a\":2}]", "\"\""};

static void doc_free(doc *d)
{
  for (int i = 0; d && i < NAME_COUNT; i++) doc_free(d->kids[i]);
  free(d);
}

static doc *doc_random(int depth)
{
  doc *d = calloc(1, sizeof *d);
  if (depth == DEPTH_MAX || below(3) == 0) {
    d->scalar = scalars[below(sizeof scalars / sizeof scalars[0])];
    return d;
  }
  for (int i = 0; i < NAME_COUNT; i++)
    if (below(2)) d->kids[i] = doc_random(depth + 1);
  return d;
}

static doc *doc_copy(const doc *d)
{
  if (!d) return NULL;
  doc *copy = calloc(1, sizeof *copy);
  copy->scalar = d->scalar;
  for (int i = 0; i < NAME_COUNT; i++) copy->kids[i] = doc_copy(d->kids[i]);
  return copy;
}

static bool doc_equal(const doc *a, const doc *b)
{
  if (!a || !b) return a == b;
  if (!a->scalar != !b->scalar || (a->scalar && strcmp(a->scalar, b->scalar) != 0)) return false;
  for (int i = 0; i < NAME_COUNT; i++)
    if (!doc_equal(a->kids[i], b->kids[i])) return false;
  return true;
}

/* A copy with some things changed. */
static doc *doc_mutated(const doc *d, int depth)
{
  if (!d) return below(2) ? doc_random(depth) : NULL;
  if (below(12) == 0) return NULL;
  if (d->scalar || below(10) == 0) return below(2) ? doc_random(depth) : doc_copy(d);
  doc *copy = calloc(1, sizeof *copy);
  for (int i = 0; i < NAME_COUNT; i++)
    copy->kids[i] = below(3) ? doc_copy(d->kids[i]) : depth < DEPTH_MAX ? doc_mutated(d->kids[i], depth + 1) : NULL;
  return copy;
}

static void write_space(pd_buf *out)
{
  static const char *const spaces[] = {"", "", "", " ", "\n", "\t "};
  OK(pd_buf_printf(out, &err, "%s", spaces[below(6)]));
}

static void doc_write(const doc *d, pd_buf *out)
{
  if (d->scalar) {
    OK(pd_buf_printf(out, &err, "%s", d->scalar));
    return;
  }
  int order[NAME_COUNT];
  for (int i = 0; i < NAME_COUNT; i++) order[i] = i;
  for (int i = NAME_COUNT - 1; i > 0; i--) {
    int k = (int)below((unsigned)i + 1), kept = order[i];
    order[i] = order[k], order[k] = kept;
  }
  const char *comma = "{";
  for (int i = 0; i < NAME_COUNT; i++) {
    if (!d->kids[order[i]]) continue;
    OK(pd_buf_printf(out, &err, "%s", comma));
    write_space(out);
    OK(pd_buf_printf(out, &err, "%s", written[order[i]][below(4) == 0]));
    write_space(out);
    OK(pd_buf_byte(out, ':', &err));
    doc_write(d->kids[order[i]], out);
    write_space(out);
    comma = ",";
  }
  OK(pd_buf_printf(out, &err, "%s}", *comma == '{' ? "{" : ""));
}

/* Back from text. A scalar must be one of those above, to the byte: digits are kept. */
static doc *doc_read(pd_json json)
{
  doc *d = calloc(1, sizeof *d);
  for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++)
    if (pd_bytes_equal(json.raw, pd_text(scalars[i]))) d->scalar = scalars[i];
  if (d->scalar) return d;
  if (json.kind != PD_JSON_OBJECT) fail_msg("a value that nobody wrote: %.*s", (int)json.raw.size, (const char *)json.raw.data);
  pd_json_walk walk = pd_json_walk_begin(json);
  pd_json name, value;
  while (pd_json_walk_next(&walk, &name, &value))
    for (int i = 0; i < NAME_COUNT; i++)
      if (pd_json_is(name, names[i])) d->kids[i] = doc_read(value);
  return d;
}

/* ---- the model ---- */

typedef struct conflict {
  int key;
  char path[64];
  const doc *sides[3];
  int choice; /* of a side; 3: nothing */
} conflict;

static conflict conflicts[KEY_COUNT * 64];
static size_t conflict_count;

/* Which side a conflict takes is decided when it is first met; the mirrored merge then takes the same. */
static doc *model_merge(int key, const char *path, const doc *b, const doc *o, const doc *t)
{
  if (doc_equal(o, t) || doc_equal(b, t)) return doc_copy(o);
  if (doc_equal(b, o)) return doc_copy(t);
  if (o && t && !o->scalar && !t->scalar && (!b || !b->scalar)) {
    doc *made = calloc(1, sizeof *made);
    for (int i = 0; i < NAME_COUNT; i++) {
      char deeper[64];
      snprintf(deeper, sizeof deeper, "%s%s", path, pointers[i]);
      made->kids[i] = model_merge(key, deeper, b ? b->kids[i] : NULL, o->kids[i], t->kids[i]);
    }
    return made;
  }
  conflict *c = &conflicts[conflict_count++];
  *c = (conflict){.key = key, .sides = {b, o, t}, .choice = (int)below(4)};
  snprintf(c->path, sizeof c->path, "%s", path);
  return c->choice == 3 ? NULL : doc_copy(c->sides[c->choice]);
}

/* ---- one round ---- */

typedef struct triple {
  doc *base, *ours, *theirs, *merged;
  pd_buf base_text;
} triple;

static void key_text(int key, char out[16])
{
  snprintf(out, 16, "doc-%03d", key);
}

static void commit_side(pd_store *s, const char *ref, triple *triples, int side)
{
  pd_note note = {.ref = ref};
  pd_edit *edit;
  char key[16];
  OK(pd_edit_begin(s, &note, &edit, &err));
  for (int i = 0; i < KEY_COUNT; i++) {
    triple *t = &triples[i];
    const doc *d = side == 0 ? t->base : side == 1 ? t->ours : t->theirs;
    pd_buf text = {0};
    key_text(i, key);
    if (side && doc_equal(d, t->base)) continue;
    if (d) doc_write(d, &text);
    OK(d ? pd_edit_put(edit, pd_text(key), pd_buf_bytes(&text), PD_ANY_VERSION, &err)
         : pd_edit_delete(edit, pd_text(key), PD_ANY_VERSION, &err));
    pd_buf_done(&text);
  }
  OK(pd_edit_commit(edit, NULL, &err));
}

static const conflict *find_conflict(const pd_conflict *c)
{
  for (size_t i = 0; i < conflict_count; i++) {
    char key[16];
    key_text(conflicts[i].key, key);
    if (pd_bytes_equal(c->key, pd_text(key)) && pd_bytes_equal(c->path, pd_text(conflicts[i].path))) return &conflicts[i];
  }
  return NULL;
}

static void side_is(bool has, pd_bytes bytes, const doc *expected)
{
  assert_int_equal(has, expected != NULL);
  if (!has) return;
  pd_json json;
  OK(pd_json_parse(bytes, &json, &err));
  doc *got = doc_read(json);
  assert_true(doc_equal(got, expected));
  doc_free(got);
}

static void conflicts_are_the_models(const pd_merge_result *r, bool is_mirrored)
{
  assert_int_equal(r->conflict_count, conflict_count);
  for (size_t i = 0; i < r->conflict_count; i++) {
    const pd_conflict *c = &r->conflicts[i];
    const conflict *m = find_conflict(c);
    if (!m)
      fail_msg("a conflict that the model has not: %.*s %.*s", (int)c->key.size, (const char *)c->key.data, (int)c->path.size,
               (const char *)c->path.data);
    side_is(c->has_base, c->base, m->sides[0]);
    side_is(c->has_ours, c->ours, m->sides[is_mirrored ? 2 : 1]);
    side_is(c->has_theirs, c->theirs, m->sides[is_mirrored ? 1 : 2]);
  }
}

/* Merge `theirs` into `ref`: first to hear of the conflicts, then with all of them resolved as the model did. */
static void merge_resolved(pd_store *s, const char *ref, const char *theirs, bool is_mirrored)
{
  static const pd_take takes[2][4] = {{PD_TAKE_BASE, PD_TAKE_OURS, PD_TAKE_THEIRS, PD_TAKE_DELETE},
                                      {PD_TAKE_BASE, PD_TAKE_THEIRS, PD_TAKE_OURS, PD_TAKE_DELETE}};
  pd_note note = {.ref = ref};
  pd_merge_options options = {.policy = PD_MERGE_JSON};
  pd_merge_result heard, r;
  assert_int_equal(pd_merge(s, theirs, &options, &note, &heard, &err), conflict_count ? PD_CONFLICT : PD_OK);
  conflicts_are_the_models(&heard, is_mirrored);
  pd_resolution *resolutions = calloc(heard.conflict_count + 1, sizeof *resolutions);
  for (size_t i = 0; i < heard.conflict_count; i++) {
    const pd_conflict *c = &heard.conflicts[i];
    resolutions[i] = (pd_resolution){.key = c->key, .path = c->path, .take = takes[is_mirrored][find_conflict(c)->choice]};
  }
  options.resolutions = resolutions;
  options.resolution_count = heard.conflict_count;
  if (conflict_count) {
    OK(pd_merge(s, theirs, &options, &note, &r, &err));
    assert_int_equal(r.outcome, PD_MERGE_COMMITTED);
    pd_merge_result_done(&r);
  }
  OK(pd_merge(s, theirs, &options, &note, &r, &err)); /* again */
  assert_int_equal(r.outcome, PD_MERGE_UP_TO_DATE);
  pd_merge_result_done(&r);
  free(resolutions);
  pd_merge_result_done(&heard);
}

static void documents_are_the_models(pd_store *s, const char *ref, triple *triples)
{
  pd_buf value = {0};
  char key[16];
  for (int i = 0; i < KEY_COUNT; i++) {
    key_text(i, key);
    pd_code code = pd_get(s, ref, pd_text(key), &value, NULL, &err);
    assert_int_equal(code, triples[i].merged ? PD_OK : PD_NOT_FOUND);
    if (!code) side_is(true, pd_buf_bytes(&value), triples[i].merged);
  }
  pd_buf_done(&value);
}

static void round_trip(triple *triples)
{
  pd_store *s = NULL;
  pd_commit ours, theirs;
  OK(pd_store_open("memory:", "main", NULL, &s, &err));
  commit_side(s, "main", triples, 0);
  OK(pd_fork(s, "ours", "main", NULL, NULL, &err));
  OK(pd_fork(s, "theirs", "main", NULL, NULL, &err));
  commit_side(s, "ours", triples, 1);
  commit_side(s, "theirs", triples, 2);
  OK(pd_fork(s, "mirror", "theirs", NULL, NULL, &err));
  OK(pd_fork(s, "ours-before", "ours", NULL, NULL, &err));
  merge_resolved(s, "ours", "theirs", false);
  documents_are_the_models(s, "ours", triples);
  merge_resolved(s, "mirror", "ours-before", true);
  OK(pd_resolve(s, "ours", &ours, &err));
  OK(pd_resolve(s, "mirror", &theirs, &err));
  assert_true(pd_id_equal(&ours.tree, &theirs.tree));
  documents_are_the_models(s, "mirror", triples);
  pd_merge_result r;
  pd_merge_options json = {.policy = PD_MERGE_JSON};
  pd_note on_ours = {.ref = "ours"};
  OK(pd_merge(s, "mirror", &json, &on_ours, &r, &err)); /* criss-cross: both did the same */
  assert_int_equal(r.base_count, 2);
  pd_merge_result_done(&r);
  documents_are_the_models(s, "ours", triples);
  pd_store_close(s, NULL);
}

static void merge__agrees_with_a_naive_model_on_random_documents(void **state)
{
  (void)state;
  static triple triples[KEY_COUNT];
  size_t conflict_total = 0;
  for (int done = 0; done < TRIPLE_COUNT; done += KEY_COUNT) {
    conflict_count = 0;
    for (int i = 0; i < KEY_COUNT; i++) {
      triple *t = &triples[i];
      t->base = below(10) ? doc_random(0) : NULL;
      t->ours = doc_mutated(t->base, 0);
      t->theirs = below(8) ? doc_mutated(t->base, 0) : doc_copy(t->ours);
      t->merged = model_merge(i, "", t->base, t->ours, t->theirs);
    }
    conflict_total += conflict_count;
    round_trip(triples);
    for (int i = 0; i < KEY_COUNT; i++) {
      doc_free(triples[i].base), doc_free(triples[i].ours), doc_free(triples[i].theirs), doc_free(triples[i].merged);
    }
  }
  print_message("# seed %llu: %d triples, %zu conflicts\n", (unsigned long long)seed, TRIPLE_COUNT, conflict_total);
  assert_true(conflict_total > TRIPLE_COUNT / 20);
}

int main(void)
{
  const char *text = getenv("PERDURE_SEED");
  seed = text ? strtoull(text, NULL, 10) : 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(merge__agrees_with_a_naive_model_on_random_documents)};
  return cmocka_run_group_tests_name("engine/merge_model", tests, NULL, NULL);
}
