/* random_change.h: random JSON values, patches and change sets, from a seed. Many of the patches do not fit the state, which is meant. */
#ifndef RANDOM_CHANGE_H
#define RANDOM_CHANGE_H

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct random_source {
  uint64_t state;
} random_source;

/* splitmix64 */
static inline uint64_t random_next(random_source *r)
{
  uint64_t z = r->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static inline uint64_t random_below(random_source *r, uint64_t limit)
{
  return random_next(r) % limit;
}

static inline void random_add(pd_buf *out, const char *text)
{
  if (pd_buf_append(out, text, strlen(text), NULL)) abort();
}

/* A member's name: often one of few, so that paths meet; sometimes a nasty or a long one. */
static inline void random_name(random_source *r, pd_buf *out)
{
  static const char *const plain[] = {"a", "b", "c", "list", "map", "n"};
  static const char *const nasty[] = {"",  "#0000000000", "#", "~",        "~h", "/",    "a/b", "\\u0000",
                                      "0", "1",           "-", "\xC3\xA9", "..", "\\\"", "~0"};
  random_add(out, "\"");
  uint64_t kind = random_below(r, 20);
  if (kind < 16)
    random_add(out, plain[random_below(r, 6)]);
  else if (kind < 19)
    random_add(out, nasty[random_below(r, sizeof nasty / sizeof nasty[0])]);
  else
    for (uint64_t i = 0, size = random_below(r, 400); i < size; i++) random_add(out, "long");
  random_add(out, "\"");
}

static inline void random_value(random_source *r, int depth, pd_buf *out)
{
  static const char *const leaves[] = {"null", "true", "1", "-2.50", "1e3", "\"text\"", "\"\"", "{}", "[]", "12345678901234567890"};
  uint64_t kind = random_below(r, depth ? 10 : 6);
  if (kind < 6) {
    random_add(out, leaves[random_below(r, sizeof leaves / sizeof leaves[0])]);
    return;
  }
  uint64_t count = random_below(r, 4);
  bool is_object = kind < 8;
  random_add(out, is_object ? "{" : "[");
  for (uint64_t i = 0; i < count; i++) {
    char unique[24];
    if (i) random_add(out, ",");
    snprintf(unique, sizeof unique, "\"k%u\":", (unsigned)i);
    if (is_object) random_add(out, unique);
    random_value(r, depth - 1, out);
  }
  random_add(out, is_object ? "}" : "]");
}

static inline void random_path(random_source *r, pd_buf *out)
{
  uint64_t steps = 1 + random_below(r, 3);
  if (random_below(r, 60) == 0) steps = 20 + random_below(r, 60); /* so deep that it is kept whole */
  random_add(out, "[");
  for (uint64_t i = 0; i < steps; i++) {
    if (i) random_add(out, ",");
    if (random_below(r, 6) == 0 && i)
      random_add(out, random_below(r, 2) ? "0" : "1");
    else if (steps > 20)
      random_add(out, "\"a-rather-long-name-of-a-member\"");
    else
      random_name(r, out);
  }
  random_add(out, "]");
}

static inline void random_patch(random_source *r, pd_buf *out)
{
  static const char *const ops[] = {"set",    "set",          "set",       "set",       "delete", "delete", "append",
                                    "append", "merge_object", "increment", "decrement", "insert", "remove"};
  const char *op = ops[random_below(r, sizeof ops / sizeof ops[0])];
  random_add(out, "{\"op\":\"");
  random_add(out, op);
  random_add(out, "\",\"path\":");
  random_path(r, out);
  if (strcmp(op, "insert") == 0 || strcmp(op, "remove") == 0) random_add(out, random_below(r, 2) ? ",\"index\":0" : ",\"index\":1");
  if (strcmp(op, "increment") == 0 || strcmp(op, "decrement") == 0) random_add(out, ",\"by\":2");
  if (strcmp(op, "merge_object") == 0) {
    random_add(out, ",\"value\":{\"a\":");
    random_value(r, 1, out);
    random_add(out, "}");
  } else if (strcmp(op, "set") == 0 || strcmp(op, "append") == 0 || strcmp(op, "insert") == 0) {
    random_add(out, ",\"value\":");
    random_value(r, 3, out);
  }
  random_add(out, "}");
}

static inline void random_patches(random_source *r, pd_buf *out)
{
  uint64_t count = 1 + random_below(r, 4);
  pd_buf_clear(out);
  random_add(out, "[");
  for (uint64_t i = 0; i < count; i++) {
    if (i) random_add(out, ",");
    random_patch(r, out);
  }
  random_add(out, "]");
}

/* The seed of a test: PERDURE_SEED, or the one given. It is printed, so that a failure can be seen again. */
static inline random_source random_from(uint64_t seed)
{
  const char *given = getenv("PERDURE_SEED");
  random_source r = {given ? strtoull(given, NULL, 10) : seed};
  printf("# seed %llu\n", (unsigned long long)r.state);
  return r;
}

#endif
