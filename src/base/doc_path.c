/* doc_path.c: see doc_path.h. A path is drafted on the stack and then copied into the one block that it keeps. */
#include "base/doc_path.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void pd_doc_path_done(pd_doc_path *path)
{
  if (!path) return;
  free(path->steps);
  *path = (pd_doc_path){NULL, 0};
}

/* ---- drafts ---- */

typedef struct draft_step {
  pd_doc_step_kind kind;
  size_t at, size; /* of its name in `names` */
  uint64_t index;
} draft_step;

typedef struct draft {
  pd_buf names;
  size_t count;
  draft_step steps[PD_DOC_DEPTH_MAX];
} draft;

static void draft_done(draft *d)
{
  pd_buf_done(&d->names);
}

static pd_code add_step(draft *d, pd_doc_step_kind kind, size_t name_at, uint64_t index, pd_error *err)
{
  size_t size = d->names.size - name_at;
  if (d->count == PD_DOC_DEPTH_MAX) return pd_error_set(err, PD_LIMIT, "a path of more than %d steps", PD_DOC_DEPTH_MAX);
  if (size > PD_DOC_NAME_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "step %zu of the path is a name of %zu bytes; %d are the limit", d->count + 1, size,
                        PD_DOC_NAME_SIZE_MAX);
  if (index > PD_DOC_INDEX_MAX)
    return pd_error_set(err, PD_LIMIT, "step %zu of the path is index %" PRIu64 "; %u is the limit", d->count + 1, index, PD_DOC_INDEX_MAX);
  d->steps[d->count++] = (draft_step){kind, name_at, size, index};
  return PD_OK;
}

static pd_code settle(const draft *d, pd_doc_path *out, pd_error *err)
{
  pd_doc_path path = {NULL, d->count};
  if (d->count) {
    path.steps = malloc(d->count * sizeof *path.steps + d->names.size);
    if (!path.steps) return pd_error_memory(err, "a path");
    char *names = (char *)(path.steps + d->count);
    if (d->names.size) memcpy(names, d->names.data, d->names.size);
    for (size_t i = 0; i < d->count; i++) {
      const draft_step *s = &d->steps[i];
      path.steps[i] = (pd_doc_step){s->kind, {names + s->at, s->size}, s->index};
    }
  }
  *out = path;
  return PD_OK;
}

/* ---- parsing ---- */

static bool is_numeral(pd_bytes text, uint64_t *out)
{
  const char *p = text.data;
  uint64_t number = 0;
  if (!text.size || text.size > 19 || (text.size > 1 && *p == '0')) return false;
  for (size_t i = 0; i < text.size; i++) {
    if (p[i] < '0' || p[i] > '9') return false;
    number = number * 10 + (uint64_t)(p[i] - '0');
  }
  *out = number;
  return true;
}

static pd_code parse_array(pd_json array, draft *d, pd_error *err)
{
  pd_json_walk walk = pd_json_walk_begin(array);
  pd_json step;
  while (pd_json_walk_next(&walk, NULL, &step)) {
    size_t at = d->names.size;
    uint64_t index = 0;
    if (step.kind == PD_JSON_STRING) {
      TRY(pd_json_decode(step, &d->names, err));
      TRY(add_step(d, PD_STEP_NAME, at, 0, err));
    } else if (pd_json_u64(step, &index)) {
      TRY(add_step(d, PD_STEP_INDEX, at, index, err));
    } else {
      return pd_error_set(err, PD_INVALID, "step %zu of the path is no name and no whole number from 0 (%s)", d->count + 1,
                          pd_json_kind_name(step.kind));
    }
  }
  return PD_OK;
}

/* One step of a pointer, its slash behind it or the end. */
static pd_code parse_token(const char *p, const char *end, draft *d, pd_error *err)
{
  size_t at = d->names.size;
  for (; p < end; p++) {
    if (*p == '~' && (p + 1 == end || (p[1] != '0' && p[1] != '1')))
      return pd_error_set(err, PD_INVALID, "step %zu of the path has a '~' that is neither ~0 nor ~1", d->count + 1);
    char c = *p;
    if (c == '~') c = *++p == '0' ? '~' : '/';
    TRY(pd_buf_byte(&d->names, (uint8_t)c, err));
  }
  pd_bytes name = {d->names.data ? d->names.data + at : NULL, d->names.size - at};
  uint64_t number;
  bool is_either = is_numeral(name, &number) || pd_bytes_equal(name, pd_text("-"));
  return add_step(d, is_either ? PD_STEP_EITHER : PD_STEP_NAME, at, 0, err);
}

static pd_code parse_pointer(pd_bytes text, draft *d, pd_error *err)
{
  if (!text.size) return PD_OK;
  const char *p = text.data, *end = p + text.size;
  if (*p != '/')
    return pd_error_set(err, PD_INVALID, "path '%.*s' does not begin with a slash, as a JSON Pointer does",
                        (int)(text.size < 80 ? text.size : 80), p);
  while (p < end) {
    const char *slash = memchr(p + 1, '/', (size_t)(end - p - 1));
    const char *stop = slash ? slash : end;
    TRY(parse_token(p + 1, stop, d, err));
    p = stop;
  }
  return PD_OK;
}

pd_code pd_doc_path_pointer(pd_bytes text, pd_doc_path *out, pd_error *err)
{
  CLEANUP(draft_done) draft d;
  d.names = (pd_buf){0};
  d.count = 0;
  if (!pd_utf8_check(text)) return pd_error_set(err, PD_INVALID, "the path is not valid UTF-8");
  TRY(parse_pointer(text, &d, err));
  return settle(&d, out, err);
}

pd_code pd_doc_path_parse(pd_json value, pd_doc_path *out, pd_error *err)
{
  CLEANUP(draft_done) draft d;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  d.names = (pd_buf){0};
  d.count = 0;
  if (value.kind == PD_JSON_STRING) {
    TRY(pd_json_decode(value, &text, err));
    TRY(parse_pointer(pd_buf_bytes(&text), &d, err));
  } else if (value.kind == PD_JSON_ARRAY) {
    TRY(parse_array(value, &d, err));
  } else {
    return pd_error_set(err, PD_INVALID, "the path is %s; it is an array of names and indices, or a JSON Pointer",
                        value.kind == PD_JSON_NONE ? "missing" : pd_json_kind_name(value.kind));
  }
  return settle(&d, out, err);
}

pd_code pd_doc_path_copy(const pd_doc_step *steps, size_t count, const pd_doc_step *more, pd_doc_path *out, pd_error *err)
{
  CLEANUP(draft_done) draft d;
  d.names = (pd_buf){0};
  d.count = 0;
  for (size_t i = 0; i < count + (more ? 1 : 0); i++) {
    const pd_doc_step *s = i < count ? &steps[i] : more;
    size_t at = d.names.size;
    if (s->kind != PD_STEP_INDEX) TRY(pd_buf_append(&d.names, s->name.data, s->name.size, err));
    TRY(add_step(&d, s->kind, at, s->index, err));
  }
  return settle(&d, out, err);
}

/* ---- writing ---- */

static pd_code write_token(pd_bytes name, pd_buf *out, pd_error *err)
{
  const char *p = name.data;
  for (size_t i = 0; i < name.size; i++) {
    const char *escape = p[i] == '~' ? "~0" : p[i] == '/' ? "~1" : NULL;
    if (escape)
      TRY(pd_buf_append(out, escape, 2, err));
    else
      TRY(pd_buf_byte(out, (uint8_t)p[i], err));
  }
  return PD_OK;
}

pd_code pd_doc_path_write(const pd_doc_step *steps, size_t count, pd_buf *out, pd_error *err)
{
  for (size_t i = 0; i < count; i++) {
    if (steps[i].kind == PD_STEP_INDEX) {
      TRY(pd_buf_printf(out, err, "/%" PRIu64, steps[i].index));
    } else {
      TRY(pd_buf_byte(out, '/', err));
      TRY(write_token(steps[i].name, out, err));
    }
  }
  return PD_OK;
}

void pd_doc_path_json(const pd_doc_step *steps, size_t count, pd_json_writer *w)
{
  pd_json_open(w, '[');
  for (size_t i = 0; i < count; i++) {
    if (steps[i].kind == PD_STEP_INDEX)
      pd_json_number(w, steps[i].index);
    else
      pd_json_text(w, steps[i].name);
  }
  pd_json_close(w, ']');
}

const char *pd_doc_path_text(const pd_doc_step *steps, size_t count, char *out, size_t size)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  bool is_whole = pd_doc_path_write(steps, count, &text, NULL) == PD_OK;
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] < 0x20 || text.data[i] == 0x7F) text.data[i] = '?'; /* messages are one line */
  bool fits = is_whole && text.size < size;
  size_t take = text.size < size ? text.size : size - 4;
  while (!fits && take && take < text.size && (text.data[take] & 0xC0) == 0x80) take--; /* no half of a character */
  snprintf(out, size, "%.*s%s", (int)take, text.data ? (const char *)text.data : "", fits ? "" : "...");
  return out;
}

/* ---- comparing ---- */

bool pd_doc_step_index(const pd_doc_step *step, uint64_t *out)
{
  if (step->kind != PD_STEP_INDEX) return is_numeral(step->name, out);
  *out = step->index;
  return true;
}

typedef struct digits {
  char text[24];
} digits;

static pd_bytes step_text(const pd_doc_step *step, digits *room)
{
  if (step->kind != PD_STEP_INDEX) return step->name;
  int size = snprintf(room->text, sizeof room->text, "%" PRIu64, step->index);
  return (pd_bytes){room->text, (size_t)size};
}

int pd_doc_step_compare(const pd_doc_step *a, const pd_doc_step *b)
{
  digits room_a, room_b;
  if (a->kind == PD_STEP_INDEX && b->kind == PD_STEP_INDEX && a->index == b->index) return 0;
  return pd_bytes_compare(step_text(a, &room_a), step_text(b, &room_b));
}

int pd_doc_path_compare(const pd_doc_path *a, const pd_doc_path *b)
{
  for (size_t i = 0; i < a->count && i < b->count; i++) {
    int order = pd_doc_step_compare(&a->steps[i], &b->steps[i]);
    if (order) return order;
  }
  return (a->count > b->count) - (a->count < b->count);
}

bool pd_doc_path_covers(const pd_doc_path *outer, const pd_doc_path *inner)
{
  if (outer->count > inner->count) return false;
  for (size_t i = 0; i < outer->count; i++)
    if (pd_doc_step_compare(&outer->steps[i], &inner->steps[i]) != 0) return false;
  return true;
}
