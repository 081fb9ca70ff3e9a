/* merge_world.h: what the tests of merging share: a store in memory, puts on refs, a base with two sides. */
#ifndef PD_TESTS_ENGINE_MERGE_WORLD_H
#define PD_TESTS_ENGINE_MERGE_WORLD_H

#include "base/buf.h"
#include "engine/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_error err;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s", #call, err.message);                                                                                      \
  } while (0)

static inline pd_store *open_memory(void)
{
  pd_store *s = NULL;
  OK(pd_store_open("memory:", "main", NULL, &s, &err));
  return s;
}

static inline void put(pd_store *s, const char *ref, const char *key, const char *value)
{
  pd_note note = {.ref = ref};
  OK(pd_put(s, pd_text(key), pd_text(value), &note, NULL, &err));
}

static inline void del(pd_store *s, const char *ref, const char *key)
{
  pd_note note = {.ref = ref};
  OK(pd_delete(s, pd_text(key), PD_ANY_VERSION, &note, NULL, &err));
}

/* The value of a key at a point, as text in static storage; "(none)" if it is absent. */
static inline const char *get(pd_store *s, const char *at, const char *key)
{
  static char text[4096];
  pd_buf value = {0};
  pd_code code = pd_get(s, at, pd_text(key), &value, NULL, &err);
  if (code && code != PD_NOT_FOUND) fail_msg("get: %s", err.message);
  snprintf(text, sizeof text, "%.*s", code ? 6 : (int)value.size, code ? "(none)" : (const char *)value.data);
  pd_buf_done(&value);
  return text;
}

static inline uint64_t records(pd_store *s)
{
  pd_stats stats;
  OK(pd_store_stats(s, &stats, &err));
  return stats.records;
}

/* A base with one key, a fork "side", and what both sides make of it; NULL: deleted. */
static inline pd_store *diverged(const char *base, const char *ours, const char *theirs)
{
  pd_store *s = open_memory();
  put(s, "main", "other", "0");
  if (base) put(s, "main", "k", base);
  OK(pd_fork(s, "side", "main", NULL, NULL, &err));
  if (ours) put(s, "main", "k", ours);
  if (!ours && base) del(s, "main", "k");
  if (theirs) put(s, "side", "k", theirs);
  if (!theirs && base) del(s, "side", "k");
  put(s, "main", "only-ours", "1");
  put(s, "side", "only-theirs", "1");
  return s;
}

static inline bool text_is(pd_bytes bytes, const char *text)
{
  return pd_bytes_equal(bytes, pd_text(text));
}

#endif
