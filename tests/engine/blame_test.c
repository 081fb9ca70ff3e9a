/* blame_test.c: src/engine/blame.c and leaves.c: who last changed each path of a value. PERDURE_SEED replays the random test. */
#include "story.h"

#define LINES_MAX 64

typedef struct seen_line {
  char path[64], value[64];
  char who[64]; /* author/run/reason */
  uint64_t seq, version;
  int64_t time_ms;
  pd_id commit;
  bool is_known;
} seen_line;

typedef struct seen_blame {
  seen_line lines[LINES_MAX];
  size_t count;
} seen_blame;

static void copy(char *to, size_t size, pd_bytes from)
{
  snprintf(to, size, "%.*s", (int)from.size, from.size ? (const char *)from.data : "");
}

static bool see_line(void *ctx, const pd_blame_line *line)
{
  seen_blame *seen = ctx;
  assert_true(seen->count < LINES_MAX);
  seen_line *at = &seen->lines[seen->count++];
  copy(at->path, sizeof at->path, line->path);
  copy(at->value, sizeof at->value, line->value);
  snprintf(at->who, sizeof at->who, "%s/%s/%s", line->author, line->run, line->reason);
  at->seq = line->seq;
  at->version = line->version;
  at->time_ms = line->time_ms;
  at->commit = line->commit;
  at->is_known = line->is_known;
  return true;
}

static seen_blame blame_of(pd_store *s, const char *at, const char *key)
{
  seen_blame seen = {0};
  pd_error err = {0};
  if (pd_blame(s, at, pd_text(key), see_line, &seen, &err)) fail_msg("blame: %s", err.message);
  return seen;
}

static void assert_line(const seen_blame *seen, const char *path, const char *value, const pd_commit *commit)
{
  for (size_t i = 0; i < seen->count; i++) {
    const seen_line *line = &seen->lines[i];
    if (strcmp(line->path, path) != 0) continue;
    assert_string_equal(line->value, value);
    if (line->seq != commit->seq) fail_msg("%s: record %d, not %d", path, (int)line->seq, (int)commit->seq);
    assert_true(pd_id_equal(&line->commit, &commit->id));
    assert_true(line->is_known);
    return;
  }
  fail_msg("no line for '%s'", path);
}

static void blame__names_the_last_change_of_each_path(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_note ada = {.author = "ada", .run = "r1", .reason = "start"}, bob = {.author = "bob", .reason = "next"};
  pd_commit one = put_noted(s, "plan", "{\"step\":1,\"goal\":{\"name\":\"x\",\"tags\":[\"a\",\"b\"]},\"none\":{}}", &ada);
  pd_commit two = put_noted(s, "plan", "{ \"step\" : 2, \"goal\":{\"tags\":[\"a\",\"c\"],\"name\":\"x\"},\"none\":{ },\"new\":null}", &bob);
  put(s, "other", "1");
  seen_blame seen = blame_of(s, NULL, "plan");
  assert_int_equal(seen.count, 6);
  assert_line(&seen, "/step", "2", &two);
  assert_line(&seen, "/goal/name", "\"x\"", &one);
  assert_line(&seen, "/goal/tags/0", "\"a\"", &one);
  assert_line(&seen, "/goal/tags/1", "\"c\"", &two);
  assert_line(&seen, "/none", "{ }", &one);
  assert_line(&seen, "/new", "null", &two);
  assert_string_equal(seen.lines[0].who, "bob//next");
  assert_string_equal(seen.lines[1].path, "/goal/tags/0"); /* in the order of the text */
  assert_string_equal(seen.lines[1].who, "ada/r1/start");
  assert_int_equal(seen.lines[0].version, 2);
  assert_int_equal(seen.lines[1].version, 1);
  pd_commit three = put(s, "plan", "{\"step\":2}");
  seen = blame_of(s, "main", "plan");
  assert_int_equal(seen.count, 1);
  assert_line(&seen, "/step", "2", &two);
  seen = blame_of(s, "main~2", "plan"); /* as it was */
  assert_int_equal(seen.count, 6);
  (void)three;
  pd_store_close(s, NULL);
}

static void blame__knows_what_is_the_same_and_what_is_not(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_commit one = put(s, "k", "{\"float\":1,\"text\":\"a/b\",\"a/b\":1,\"m~n\":1,\"kind\":1,\"twice\":1,\"lone\":\"\\ud800\",\"\":0}");
  pd_commit two = put(s, "k",
                      "{\"float\":1.0,\"text\":\"a\\/\\u0062\",\"a\\u002fb\":1,\"m~n\":1,\"kind\":\"1\",\"twice\":1,\"twice\":2,"
                      "\"lone\":\"\\ud800\",\"\":0}");
  seen_blame seen = blame_of(s, NULL, "k");
  assert_int_equal(seen.count, 8);
  assert_line(&seen, "/float", "1.0", &two);
  assert_line(&seen, "/text", "\"a\\/\\u0062\"", &one);
  assert_line(&seen, "/a~1b", "1", &one);
  assert_line(&seen, "/m~0n", "1", &one);
  assert_line(&seen, "/kind", "\"1\"", &two);
  assert_line(&seen, "/twice", "1", &one);
  assert_line(&seen, "/lone", "\"\\ud800\"", &one);
  assert_line(&seen, "/", "0", &one);
  pd_commit three = put(s, "k", "{\"twice\":2}"); /* before, the first one counted */
  seen = blame_of(s, NULL, "k");
  assert_line(&seen, "/twice", "2", &three);
  pd_store_close(s, NULL);
}

static void blame__of_what_is_no_json_is_one_line(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  put(s, "text", "hello");
  pd_commit hello = put(s, "text", "hello world");
  put(s, "text", "hello world"); /* changes nothing */
  seen_blame seen = blame_of(s, NULL, "text");
  assert_int_equal(seen.count, 1);
  assert_line(&seen, "", "hello world", &hello);
  pd_commit json = put(s, "text", "{\"a\":1}");
  seen = blame_of(s, NULL, "text");
  assert_line(&seen, "/a", "1", &json);
  pd_commit number = put(s, "text", " 42 ");
  put(s, "text", "42");
  seen = blame_of(s, NULL, "text");
  assert_line(&seen, "", "42", &number);
  pd_commit empty = put(s, "text", "");
  seen = blame_of(s, NULL, "text");
  assert_line(&seen, "", "", &empty);
  pd_commit array = put(s, "text", "[]");
  seen = blame_of(s, NULL, "text");
  assert_line(&seen, "", "[]", &array);
  pd_store_close(s, NULL);
}

static void blame__items_of_arrays_go_by_their_index(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_commit one = put(s, "k", "[\"a\",\"b\"]");
  pd_commit two = put(s, "k", "[\"x\",\"b\",\"c\"]");
  pd_commit three = put(s, "k", "[\"new\",\"x\",\"c\"]");
  seen_blame seen = blame_of(s, "main~1", "k");
  assert_line(&seen, "/0", "\"x\"", &two);
  assert_line(&seen, "/1", "\"b\"", &one);
  seen = blame_of(s, NULL, "k");
  assert_line(&seen, "/0", "\"new\"", &three);
  assert_line(&seen, "/1", "\"x\"", &three);
  assert_line(&seen, "/2", "\"c\"", &two);
  pd_store_close(s, NULL);
}

static void blame__a_key_made_again_begins_there(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  put(s, "k", "{\"a\":1}");
  assert_int_equal(pd_delete(s, pd_text("k"), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
  pd_error err;
  assert_int_equal(pd_blame(s, NULL, pd_text("k"), see_line, NULL, &err), PD_NOT_FOUND);
  pd_commit again = put(s, "k", "{\"a\":1}");
  seen_blame seen = blame_of(s, NULL, "k");
  assert_line(&seen, "/a", "1", &again);
  pd_store_close(s, NULL);
}

static pd_commit merge(pd_store *s, const char *side, const char *key, const char *value)
{
  pd_commit theirs;
  pd_ack ack;
  assert_int_equal(pd_resolve(s, side, &theirs, NULL), PD_OK);
  pd_change_in change = {
    .key = pd_text(key), .value = pd_text(value), .value_id = pd_value_id(pd_text(value)), .expect_version = PD_ANY_VERSION};
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .changes = &change, .change_count = 1, .merged = &theirs, .merged_count = 1};
  assert_int_equal(pd_write(s, &intent, &ack, NULL), PD_OK);
  return (pd_commit){ack.commit, ack.tree, ack.seq};
}

static void blame__a_merge_is_not_blamed_for_what_it_took(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_note side = {.ref = "side"};
  pd_commit base = put(s, "k", "{\"a\":0,\"b\":0,\"c\":0}");
  assert_int_equal(pd_fork(s, "side", NULL, NULL, NULL, NULL), PD_OK);
  pd_commit b = put_noted(s, "k", "{\"a\":0,\"b\":2,\"c\":0}", &side);
  merge(s, "side", "k", "{\"a\":0,\"b\":2,\"c\":0}"); /* took theirs as it is */
  seen_blame seen = blame_of(s, NULL, "k");
  assert_line(&seen, "/a", "0", &base);
  assert_line(&seen, "/b", "2", &b);
  pd_commit a = put(s, "k", "{\"a\":1,\"b\":2,\"c\":0}");
  pd_commit c = put_noted(s, "k", "{\"a\":0,\"b\":2,\"c\":3}", &side);
  pd_commit both = merge(s, "side", "k", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}"); /* of each, and something of its own */
  pd_commit made_there = put_noted(s, "there", "\"x\"", &side);
  merge(s, "side", "there", "\"x\"");
  seen = blame_of(s, NULL, "k");
  assert_line(&seen, "/a", "1", &a);
  assert_line(&seen, "/b", "2", &b);
  assert_line(&seen, "/c", "3", &c);
  assert_line(&seen, "/d", "4", &both);
  pd_commit ours = put(s, "k", "{\"a\":5,\"b\":2,\"c\":3,\"d\":4}");
  put_noted(s, "k", "{\"a\":5,\"b\":2,\"c\":6,\"d\":4}", &side); /* the same on both sides: ours is first */
  merge(s, "side", "k", "{\"a\":5,\"b\":2,\"c\":6,\"d\":4,\"e\":0}");
  seen = blame_of(s, NULL, "k");
  assert_line(&seen, "/a", "5", &ours);
  assert_line(&seen, "/d", "4", &both);
  seen = blame_of(s, NULL, "there");
  assert_line(&seen, "", "\"x\"", &made_there);
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  pd_store_close(s, NULL);
}

static pd_redaction erase_all(void *ctx, const pd_rec *rec, const pd_rec_change *change)
{
  (void)ctx, (void)rec, (void)change;
  return PD_REDACT_ERASE;
}

static void erase_record(pd_store *s, uint64_t seq)
{
  pd_buf scratch = {0}, made = {0};
  pd_rec rec;
  bool is_changed;
  pd_store_lock(s);
  assert_int_equal(pd_record_at(s, seq, &scratch, &rec, NULL), PD_OK);
  assert_int_equal(pd_rec_redact(&rec, erase_all, NULL, true, &made, &is_changed, NULL), PD_OK);
  pd_bytes bytes = pd_buf_bytes(&made);
  assert_int_equal(s->ops->log_redact(s->backend, seq, &bytes, 1, NULL), PD_OK);
  pd_store_unlock(s);
  pd_buf_done(&scratch);
  pd_buf_done(&made);
}

static void blame__says_what_is_older_than_what_is_left(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *s = open_store(uri, NULL);
  put(s, "k", "{\"a\":1,\"b\":1}");
  pd_commit two = put(s, "k", "{\"a\":1,\"b\":2}");
  pd_commit three = put(s, "k", "{\"a\":1,\"b\":2}");
  pd_commit four = put(s, "k", "{\"a\":1,\"b\":2,\"c\":3}");
  erase_record(s, two.seq);
  erase_record(s, three.seq);
  pd_store_close(s, NULL);
  s = open_store(uri, NULL);
  seen_blame seen = blame_of(s, NULL, "k");
  assert_int_equal(seen.count, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(seen.lines[i].seq, four.seq); /* what was before cannot be known, and is not made up */
    assert_false(seen.lines[i].is_known);
  }
  pd_error err;
  pd_code code = pd_blame(s, "main~1", pd_text("k"), see_line, &seen, &err);
  assert_int_equal(code, PD_ERASED);
  pd_store_close(s, NULL);
  free(uri);
  temp_folder_free(folder);
}

static void blame__refuses_bad_keys_points_and_too_many_paths(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_error err;
  put(s, "k", "1");
  assert_int_equal(pd_blame(s, NULL, pd_text(""), see_line, NULL, &err), PD_INVALID);
  assert_int_equal(pd_blame(s, NULL, pd_text("nokey"), see_line, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_blame(s, "nowhere", pd_text("k"), see_line, NULL, &err), PD_NOT_FOUND);
  size_t size = 2 * (size_t)(PD_BLAME_PATH_COUNT_MAX + 1) + 1;
  char *wide = malloc(size + 1);
  for (size_t i = 0; i < size; i++) wide[i] = i % 2 ? '0' : ',';
  wide[0] = '[', wide[size - 1] = ']', wide[size] = 0;
  put(s, "wide", wide);
  assert_int_equal(pd_blame(s, NULL, pd_text("wide"), see_line, NULL, &err), PD_LIMIT);
  free(wide);
  pd_store_close(s, NULL);
}

static void blame__reaches_the_deepest_json_and_long_histories(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  char deep[2 * PD_JSON_DEPTH_MAX + 16] = {0}, value[128];
  memset(deep, '[', PD_JSON_DEPTH_MAX);
  deep[PD_JSON_DEPTH_MAX] = '7';
  memset(deep + PD_JSON_DEPTH_MAX + 1, ']', PD_JSON_DEPTH_MAX);
  pd_commit first = put(s, "deep", deep);
  put(s, "deep", deep);
  seen_blame seen = blame_of(s, NULL, "deep");
  assert_int_equal(seen.count, 1);
  assert_int_equal(seen.lines[0].seq, first.seq);
  pd_commit begin = put(s, "k", "{\"always\":true,\"n\":-1}"), last = {0};
  for (int i = 0; i < 3000; i++) {
    snprintf(value, sizeof value, "{\"always\":true,\"n\":%d}", i);
    last = put(s, "k", value);
    if (i % 1000 == 500) assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  }
  seen = blame_of(s, NULL, "k");
  assert_line(&seen, "/always", "true", &begin);
  assert_line(&seen, "/n", "2999", &last);
  pd_store_close(s, NULL);
}

/* ---- against a model: each path remembers the record that gave it another value ---- */

typedef struct model_leaf {
  char path[32], value[16];
  uint64_t seq;
} model_leaf;

typedef struct model_doc {
  model_leaf leaves[LINES_MAX];
  size_t count;
  pd_buf text;
} model_doc;

static unsigned seed;

static unsigned dice(unsigned sides)
{
  seed = seed * 1103515245u + 12345u;
  return (seed >> 16) % sides;
}

static void add_model_leaf(model_doc *doc, const char *path, const char *value)
{
  model_leaf *leaf = &doc->leaves[doc->count++];
  snprintf(leaf->path, sizeof leaf->path, "%s", path);
  snprintf(leaf->value, sizeof leaf->value, "%s", value);
  leaf->seq = 0;
  assert_int_equal(pd_buf_append(&doc->text, value, strlen(value), NULL), PD_OK);
}

static void make_value(model_doc *doc, const char *path, unsigned depth)
{
  static const char *const scalars[] = {"0", "1", "1.0", "\"x\"", "\"y\"", "true", "null", "{}", "[]"};
  unsigned kind = depth < 2 ? dice(8) : 9;
  if (kind > 1) {
    add_model_leaf(doc, path, scalars[dice(sizeof scalars / sizeof scalars[0])]);
    return;
  }
  unsigned count = 1 + dice(3), made = 0;
  assert_int_equal(pd_buf_byte(&doc->text, kind ? '[' : '{', NULL), PD_OK);
  for (unsigned i = 0; i < count; i++) {
    if (!kind && i + 1 < count && dice(3) == 0) continue; /* members come and go */
    char *inner = text_of("%s/%u", path, kind ? made : i);
    if (made++) assert_int_equal(pd_buf_byte(&doc->text, ',', NULL), PD_OK);
    if (!kind) assert_int_equal(pd_buf_printf(&doc->text, NULL, "\"%u\":", i), PD_OK);
    make_value(doc, inner, depth + 1);
    free(inner);
  }
  assert_int_equal(pd_buf_byte(&doc->text, kind ? ']' : '}', NULL), PD_OK);
}

static const model_leaf *find_leaf(const model_doc *doc, const char *path)
{
  for (size_t i = 0; i < doc->count; i++)
    if (strcmp(doc->leaves[i].path, path) == 0) return &doc->leaves[i];
  return NULL;
}

static void make_doc(model_doc *doc)
{
  assert_int_equal(pd_buf_byte(&doc->text, '{', NULL), PD_OK);
  for (unsigned i = 0; i < 4; i++) {
    char path[32];
    snprintf(path, sizeof path, "/k%u", i);
    assert_int_equal(pd_buf_printf(&doc->text, NULL, "%s\"k%u\":", i ? "," : "", i), PD_OK);
    make_value(doc, path, 0);
  }
  assert_int_equal(pd_buf_byte(&doc->text, '}', NULL), PD_OK);
  assert_int_equal(pd_buf_byte(&doc->text, 0, NULL), PD_OK);
}

static void blame__agrees_with_a_model_on_random_histories(void **state)
{
  (void)state;
  const char *given = getenv("PERDURE_SEED");
  unsigned start = given ? (unsigned)strtoul(given, NULL, 10) : 20261115;
  print_message("# seed %u\n", start);
  seed = start;
  pd_store *s = open_store("memory:", NULL);
  for (int history = 0; history < 40; history++) {
    char key[16];
    snprintf(key, sizeof key, "doc%d", history);
    model_doc before = {0};
    for (int i = 0; i < 25; i++) {
      model_doc doc = {0};
      make_doc(&doc);
      pd_commit commit = put(s, key, (const char *)doc.text.data);
      for (size_t l = 0; l < doc.count; l++) {
        const model_leaf *old = find_leaf(&before, doc.leaves[l].path);
        doc.leaves[l].seq = old && strcmp(old->value, doc.leaves[l].value) == 0 ? old->seq : commit.seq;
      }
      seen_blame seen = blame_of(s, NULL, key);
      assert_int_equal(seen.count, doc.count);
      for (size_t l = 0; l < doc.count; l++) {
        assert_string_equal(seen.lines[l].path, doc.leaves[l].path);
        assert_string_equal(seen.lines[l].value, doc.leaves[l].value);
        assert_int_equal(seen.lines[l].seq, doc.leaves[l].seq);
        assert_true(seen.lines[l].is_known);
      }
      pd_buf_done(&before.text);
      before = doc;
    }
    pd_buf_done(&before.text);
  }
  pd_store_close(s, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(blame__names_the_last_change_of_each_path),
    cmocka_unit_test(blame__knows_what_is_the_same_and_what_is_not),
    cmocka_unit_test(blame__of_what_is_no_json_is_one_line),
    cmocka_unit_test(blame__items_of_arrays_go_by_their_index),
    cmocka_unit_test(blame__a_key_made_again_begins_there),
    cmocka_unit_test(blame__a_merge_is_not_blamed_for_what_it_took),
    cmocka_unit_test(blame__says_what_is_older_than_what_is_left),
    cmocka_unit_test(blame__refuses_bad_keys_points_and_too_many_paths),
    cmocka_unit_test(blame__reaches_the_deepest_json_and_long_histories),
    cmocka_unit_test(blame__agrees_with_a_model_on_random_histories),
  };
  return cmocka_run_group_tests_name("engine/blame", tests, NULL, NULL);
}
