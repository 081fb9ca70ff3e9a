/*
 * patch_model.h: JSON states and patches the naive way, to compare with: values are whole copies, members lie in no order in linear lists,
 * and the state flattened is a plain list of texts.
 */
#ifndef PD_TESTS_THREAD_PATCH_MODEL_H
#define PD_TESTS_THREAD_PATCH_MODEL_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_MANY 64

typedef struct model {
  char kind;   /* 'o', 'a', 'n' (number) or 's' (string) */
  long number; /* also the content of strings */
  int count;
  char names[MODEL_MANY][8];
  struct model *children[MODEL_MANY];
} model;

/* A step: a name, or if it is empty an index. */
typedef struct model_step {
  char name[8];
  int index;
} model_step;

static inline model *model_new(char kind, long number)
{
  model *m = calloc(1, sizeof *m);
  if (!m) abort();
  m->kind = kind;
  m->number = number;
  return m;
}

static inline void model_free(model *m)
{
  if (!m) return;
  for (int i = 0; i < m->count; i++) model_free(m->children[i]);
  free(m);
}

static inline model *model_copy(const model *m)
{
  model *copy = model_new(m->kind, m->number);
  copy->count = m->count;
  memcpy(copy->names, m->names, sizeof m->names);
  for (int i = 0; i < m->count; i++) copy->children[i] = model_copy(m->children[i]);
  return copy;
}

static inline int model_at(const model *m, const model_step *step)
{
  for (int i = 0; m->kind == 'o' && *step->name && i < m->count; i++)
    if (strcmp(m->names[i], step->name) == 0) return i;
  return m->kind == 'a' && !*step->name && step->index < m->count ? step->index : -1;
}

static inline bool model_fits(const model *m, const model_step *step)
{
  return *step->name ? m->kind == 'o' : m->kind == 'a';
}

static inline void model_take(model *m, int at)
{
  model_free(m->children[at]);
  for (m->count--; at < m->count; at++) {
    m->children[at] = m->children[at + 1];
    memcpy(m->names[at], m->names[at + 1], sizeof m->names[at]);
  }
}

static inline void model_put(model *m, int at, const char *name, model *child)
{
  if (m->count == MODEL_MANY) abort();
  for (int i = m->count++; i > at; i--) {
    m->children[i] = m->children[i - 1];
    memcpy(m->names[i], m->names[i - 1], sizeof m->names[i]);
  }
  m->children[at] = child;
  snprintf(m->names[at], sizeof m->names[at], "%s", name);
}

/* The value at the path, made with its parents if `make` says of which kind; NULL: absent, or *out_bad: it does not fit. */
static inline model *model_find(model *m, const model_step *steps, int count, char make, bool *out_bad)
{
  for (int i = 0; i < count; i++) {
    if (!model_fits(m, &steps[i])) {
      *out_bad = true;
      return NULL;
    }
    int at = model_at(m, &steps[i]);
    if (at < 0) {
      if (!make) return NULL;
      if (!*steps[i].name && steps[i].index != m->count) {
        *out_bad = true;
        return NULL;
      }
      at = m->count;
      model_put(m, at, steps[i].name, model_new(i + 1 == count ? make : *steps[i + 1].name ? 'o' : 'a', 0));
    }
    m = m->children[at];
  }
  return m;
}

static inline bool model_equal(const model *a, const model *b)
{
  if (a->kind != b->kind || a->count != b->count || a->number != b->number) return false;
  for (int i = 0; i < a->count; i++) {
    model_step step = {.index = i};
    memcpy(step.name, a->names[i], sizeof step.name);
    int at = model_at(b, &step);
    if (at < 0 || !model_equal(a->children[i], b->children[at])) return false;
  }
  return true;
}

static inline void model_become(model *m, const model *value)
{
  model *copy = model_copy(value);
  for (int i = 0; i < m->count; i++) model_free(m->children[i]);
  *m = *copy;
  free(copy);
}

/* As JSON: members in the order of their names. */
static inline size_t model_write(const model *m, char *out)
{
  size_t size = 0;
  bool is_done[MODEL_MANY] = {false};
  if (m->kind == 'n') return (size_t)sprintf(out, "%ld", m->number);
  if (m->kind == 's') return (size_t)sprintf(out, "\"%ld\"", m->number);
  out[size++] = m->kind == 'o' ? '{' : '[';
  for (int n = 0; n < m->count; n++) {
    int next = -1;
    for (int i = 0; i < m->count; i++)
      if (!is_done[i] && (next < 0 || (m->kind == 'o' && strcmp(m->names[i], m->names[next]) < 0))) next = i;
    is_done[next] = true;
    if (n) out[size++] = ',';
    if (m->kind == 'o') size += (size_t)sprintf(out + size, "\"%s\":", m->names[next]);
    size += model_write(m->children[next], out + size);
  }
  out[size++] = m->kind == 'o' ? '}' : ']';
  out[size] = 0;
  return size;
}

#endif
