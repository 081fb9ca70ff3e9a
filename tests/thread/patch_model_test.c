/*
 * patch_model_test.c: random lists of patches against the naive model of patch_model.h: the same state, the same refusals, and touched
 * paths that are enough to bring a flattened copy of the state up to date.
 */
#include "thread/patch_model.h"
#include "thread/patched.h"

#define STEPS_MAX 4
#define TEXT_SIZE 65536

static int below(int n)
{
  return rand() % n;
}

/* ---- random values and patches, each as JSON and for the model ---- */

static const char *const names[] = {"a", "b", "c", "0", "1", "-", "x/y", "~"};

static model *random_value(int depth)
{
  int kind = below(depth > 2 ? 2 : 6);
  if (kind < 3) return model_new(kind == 0 ? 's' : 'n', below(5));
  model *m = model_new(kind == 3 ? 'a' : 'o', 0);
  int count = below(4);
  for (int i = 0; i < count; i++) {
    model_step step = {.index = i};
    if (m->kind == 'o') snprintf(step.name, sizeof step.name, "%s", names[below((int)COUNT_OF(names))]);
    if (model_at(m, &step) < 0) model_put(m, m->count, step.name, random_value(depth + 1));
  }
  return m;
}

typedef struct random_patch {
  const char *op;
  model_step steps[STEPS_MAX + 1];
  int step_count, index;
  long by;
  model *value;
} random_patch;

/* Mostly along what is there, so that most patches fit. */
static int random_path(const model *m, model_step *steps)
{
  int count = 0;
  while (count < STEPS_MAX && below(5)) {
    model_step *step = &steps[count++];
    *step = (model_step){.index = m && m->kind == 'a' ? below(m->count + 1) : below(2)};
    bool is_name = m ? m->kind == 'o' : below(3) > 0;
    if (m && m->kind != 'o' && m->kind != 'a' && below(8)) return count - 1;
    if (below(30) == 0) is_name = !is_name;
    if (is_name) snprintf(step->name, sizeof step->name, "%s", names[below((int)COUNT_OF(names))]);
    int at = m ? model_at(m, step) : -1;
    m = at < 0 ? NULL : m->children[at];
  }
  return count;
}

/* Mostly an op that fits what is there. */
static const char *random_op(const model *m)
{
  static const char *const any[] = {"set",       "delete", "append", "merge_object", "increment",
                                    "decrement", "insert", "remove", "remove-value"};
  static const char *const fit_array[] = {"append", "append", "insert", "remove", "remove-value", "set", "delete"};
  static const char *const fit_object[] = {"merge_object", "merge_object", "set", "delete"};
  static const char *const fit_number[] = {"increment", "decrement", "set", "delete"};
  static const char *const fit_absent[] = {"set", "append", "merge_object", "increment", "delete"};
  if (below(12) == 0) return any[below((int)COUNT_OF(any))];
  if (!m) return fit_absent[below((int)COUNT_OF(fit_absent))];
  if (m->kind == 'a') return fit_array[below((int)COUNT_OF(fit_array))];
  if (m->kind == 'o') return fit_object[below((int)COUNT_OF(fit_object))];
  return fit_number[below(m->kind == 'n' ? 4 : 2) + (m->kind == 'n' ? 0 : 2)];
}

static random_patch random_one(model *m)
{
  random_patch p = {.index = below(3), .by = below(4)};
  bool is_bad = false;
  p.step_count = random_path(m, p.steps);
  p.op = random_op(model_find(m, p.steps, p.step_count, 0, &is_bad));
  p.value = random_value(2);
  if (strcmp(p.op, "merge_object") == 0 || (strcmp(p.op, "set") == 0 && !p.step_count))
    while (p.value->kind != 'o') {
      model_free(p.value);
      p.value = random_value(1);
    }
  return p;
}

static void write_patch(const random_patch *p, pd_buf *out)
{
  char *value = malloc(TEXT_SIZE);
  model_write(p->value, value);
  bool by_value = strcmp(p->op, "remove-value") == 0;
  pd_json_writer w = {.out = out};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "op", by_value ? "remove" : p->op);
  pd_json_key(&w, "path");
  pd_json_open(&w, '[');
  for (int i = 0; i < p->step_count; i++) {
    if (*p->steps[i].name)
      pd_json_text(&w, pd_text(p->steps[i].name));
    else
      pd_json_number(&w, (uint64_t)p->steps[i].index);
  }
  pd_json_close(&w, ']');
  if (strcmp(p->op, "increment") == 0 || strcmp(p->op, "decrement") == 0) pd_json_put_number(&w, "by", (uint64_t)p->by);
  if (strcmp(p->op, "insert") == 0 || strcmp(p->op, "remove") == 0) pd_json_put_number(&w, "index", (uint64_t)p->index);
  bool has_value = by_value || strcmp(p->op, "set") == 0 || strcmp(p->op, "append") == 0 || strcmp(p->op, "merge_object") == 0 ||
                   strcmp(p->op, "insert") == 0;
  if (has_value) {
    pd_json_key(&w, "value");
    pd_json_raw(&w, pd_text(value));
  }
  pd_json_close(&w, '}');
  assert_int_equal(w.code, PD_OK);
  free(value);
}

/* ---- the model's patches; false: refused ---- */

static bool model_delete(model *root, const random_patch *p)
{
  bool is_bad = false;
  if (!p->step_count) {
    model *empty = model_new('o', 0);
    model_become(root, empty);
    model_free(empty);
    return true;
  }
  const model_step *last = &p->steps[p->step_count - 1];
  model *parent = model_find(root, p->steps, p->step_count - 1, 0, &is_bad);
  if (is_bad) return false;
  if (!parent) return true;
  if (!model_fits(parent, last)) return false;
  int at = model_at(parent, last);
  if (at >= 0) model_take(parent, at);
  return true;
}

static bool model_remove(model *root, const random_patch *p, bool by_value)
{
  bool is_bad = false;
  model *array = model_find(root, p->steps, p->step_count, 0, &is_bad);
  if (is_bad || (array && array->kind != 'a')) return false;
  if (!array) return by_value;
  int at = by_value ? 0 : p->index;
  while (by_value && at < array->count && !model_equal(array->children[at], p->value)) at++;
  if (at >= array->count) return by_value;
  model_take(array, at);
  return true;
}

static bool model_apply_at(model *m, const random_patch *p)
{
  if (strcmp(p->op, "set") == 0) {
    model_become(m, p->value);
  } else if (strcmp(p->op, "append") == 0) {
    if (m->kind != 'a') return false;
    model_put(m, m->count, "", model_copy(p->value));
  } else if (strcmp(p->op, "merge_object") == 0) {
    if (m->kind != 'o') return false;
    for (int i = 0; i < p->value->count; i++) {
      model_step step = {.index = 0};
      memcpy(step.name, p->value->names[i], sizeof step.name);
      int at = model_at(m, &step);
      if (at >= 0) model_take(m, at);
      model_put(m, m->count, step.name, model_copy(p->value->children[i]));
    }
  } else {
    if (m->kind != 'n') return false;
    m->number += *p->op == 'i' ? p->by : -p->by;
  }
  return true;
}

static bool model_apply(model *root, const random_patch *p)
{
  bool is_bad = false;
  if (strcmp(p->op, "delete") == 0) return model_delete(root, p);
  if (strncmp(p->op, "remove", 6) == 0) return model_remove(root, p, p->op[6] == '-');
  if (strcmp(p->op, "insert") == 0) {
    model *array = model_find(root, p->steps, p->step_count, 0, &is_bad);
    if (is_bad || !array || array->kind != 'a' || p->index > array->count) return false;
    model_put(array, p->index, "", model_copy(p->value));
    return true;
  }
  char make = strcmp(p->op, "append") == 0 ? 'a' : strcmp(p->op, "merge_object") == 0 ? 'o' : 'n';
  model *m = model_find(root, p->steps, p->step_count, make, &is_bad);
  return !is_bad && m && model_apply_at(m, p);
}

/* ---- the state flattened, and brought up to date by touched paths alone ---- */

typedef struct flat {
  pd_buf text; /* of its lines */
  size_t lines[4096];
  size_t count;
} flat;

static void flat_line(flat *f, const pd_doc_step *steps, size_t count, const char *text, size_t size)
{
  assert_true(f->count < COUNT_OF(f->lines));
  f->lines[f->count++] = f->text.size;
  for (size_t i = 0; i < count; i++) {
    if (steps[i].kind == PD_STEP_INDEX)
      assert_int_equal(pd_buf_printf(&f->text, NULL, "#%06d\x01", (int)steps[i].index), PD_OK);
    else
      assert_int_equal(pd_buf_printf(&f->text, NULL, "/%.*s\x01", (int)steps[i].name.size, (const char *)steps[i].name.data), PD_OK);
  }
  assert_int_equal(pd_buf_printf(&f->text, NULL, "=%.*s", (int)size, text), PD_OK);
  assert_int_equal(pd_buf_byte(&f->text, 0, NULL), PD_OK);
}

static void flatten(flat *f, const pd_node *node, pd_doc_step *steps, size_t count)
{
  pd_node_walk walk = pd_node_walk_begin(node);
  pd_bytes name;
  pd_node *child;
  bool is_array = pd_node_kind(node) == PD_JSON_ARRAY;
  if (!pd_node_count(node)) {
    pd_json leaf = pd_node_leaf(node);
    const char *mark = is_array ? "[]" : "{}";
    flat_line(f, steps, count, leaf.raw.size ? leaf.raw.data : mark, leaf.raw.size ? leaf.raw.size : 2);
  }
  for (uint64_t i = 0; pd_node_walk_next(&walk, &name, &child); i++) {
    steps[count] = (pd_doc_step){is_array ? PD_STEP_INDEX : PD_STEP_NAME, name, i};
    flatten(f, child, steps, count + 1);
  }
}

static bool is_under(const char *line, const flat *prefix)
{
  size_t size = prefix->text.size - 2; /* without '=' and NUL */
  return strncmp(line, (const char *)prefix->text.data, size) == 0;
}

/* What a store does that keeps one key a leaf: forget what is under each touched path, and write what is there now. */
static void update(const flat *before, const pd_touched *touched, const pd_doc *doc, flat *out)
{
  flat *prefix = calloc(1, sizeof *prefix);
  bool *is_gone = calloc(before->count + 1, sizeof *is_gone);
  for (size_t t = 0; t < touched->count; t++) {
    const pd_doc_path *path = &touched->paths[t];
    pd_doc_step steps[PD_DOC_DEPTH_MAX];
    prefix->count = 0;
    pd_buf_clear(&prefix->text);
    flat_line(prefix, path->steps, path->count, "", 0);
    for (size_t i = 0; i < before->count; i++)
      if (is_under((const char *)before->text.data + before->lines[i], prefix)) is_gone[i] = true;
    for (size_t i = 0; i < path->count; i++) steps[i] = path->steps[i];
    const pd_node *now = pd_doc_find(doc, path->steps, path->count);
    if (now) flatten(out, now, steps, path->count);
    if (t + 1 < touched->count) assert_false(pd_doc_path_covers(path, &touched->paths[t + 1]));
  }
  for (size_t i = 0; i < before->count; i++) {
    const char *line = (const char *)before->text.data + before->lines[i];
    if (is_gone[i]) continue;
    out->lines[out->count++] = out->text.size;
    assert_int_equal(pd_buf_append(&out->text, line, strlen(line) + 1, NULL), PD_OK);
  }
  pd_buf_done(&prefix->text);
  free(prefix);
  free(is_gone);
}

static const flat *sorted;

static int compare_lines(const void *a, const void *b)
{
  const char *text = (const char *)sorted->text.data;
  return strcmp(text + *(const size_t *)a, text + *(const size_t *)b);
}

static void same_lines(flat *a, flat *b, unsigned seed)
{
  if (a->count != b->count) fail_msg("seed %u: %zu lines, not %zu", seed, a->count, b->count);
  sorted = a;
  qsort(a->lines, a->count, sizeof *a->lines, compare_lines);
  sorted = b;
  qsort(b->lines, b->count, sizeof *b->lines, compare_lines);
  for (size_t i = 0; i < a->count; i++) {
    const char *line_a = (const char *)a->text.data + a->lines[i], *line_b = (const char *)b->text.data + b->lines[i];
    if (strcmp(line_a, line_b) != 0) fail_msg("seed %u: '%s', not '%s'", seed, line_a, line_b);
  }
}

static flat *flat_of(const pd_doc *doc)
{
  flat *f = calloc(1, sizeof *f);
  pd_doc_step steps[PD_DOC_DEPTH_MAX + 1];
  flatten(f, pd_doc_root(doc), steps, 0);
  return f;
}

static void flat_free(flat *f)
{
  pd_buf_done(&f->text);
  free(f);
}

/* ---- the test ---- */

/* One list; true if it was taken. */
static bool check_list(model **m, pd_doc *doc, unsigned seed)
{
  CLEANUP(pd_buf_done) pd_buf list = {0};
  CLEANUP(pd_touched_done) pd_touched touched = {0};
  model *next = model_copy(*m);
  int count = 1 + below(4);
  bool is_taken = true;
  pd_error err;
  for (int i = 0; i < count; i++) {
    random_patch p = random_one(next);
    assert_int_equal(pd_buf_byte(&list, i ? ',' : '[', NULL), PD_OK);
    write_patch(&p, &list);
    if (is_taken) is_taken = model_apply(next, &p);
    model_free(p.value);
  }
  assert_int_equal(pd_buf_append(&list, "]", 2, NULL), PD_OK);
  flat *before = flat_of(doc), *updated = calloc(1, sizeof *updated);
  pd_code code = patched(doc, (const char *)list.data, &touched, &err);
  if ((code == PD_OK) != is_taken) fail_msg("seed %u: %s: %s", seed, (const char *)list.data, code ? err.message : "should be refused");
  update(before, &touched, doc, updated);
  flat *after = flat_of(doc);
  same_lines(updated, after, seed);
  flat_free(before);
  flat_free(updated);
  flat_free(after);
  model_free(is_taken ? *m : next);
  if (is_taken) *m = next;
  return is_taken;
}

static void agree(const model *m, const pd_doc *doc, unsigned seed)
{
  char *expected = malloc(TEXT_SIZE), *text = text_of(doc);
  model_write(m, expected);
  if (strcmp(text, expected) != 0) fail_msg("seed %u: %s, not %s", seed, text, expected);
  free(expected);
  free(text);
}

static void patches__random_lists_do_what_the_naive_model_does(void **state)
{
  (void)state;
  int taken = 0, lists = 0;
  for (unsigned seed = 1; seed <= 400; seed++) {
    srand(seed);
    model *m = model_new('o', 0);
    pd_doc *doc = doc_of("{}");
    for (int i = 0; i < 25; i++, lists++) {
      taken += check_list(&m, doc, seed);
      agree(m, doc, seed);
      if (below(3) == 0) pd_doc_keep(doc);
    }
    pd_doc_undo(doc, 0);
    model_free(m);
    pd_doc_free(doc);
  }
  assert_in_range(taken, lists / 4, lists); /* else the test would show little */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(patches__random_lists_do_what_the_naive_model_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
