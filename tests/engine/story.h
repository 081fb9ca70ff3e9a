/* story.h: what the tests of tags, messages and blame share. */
#ifndef TESTS_ENGINE_STORY_H
#define TESTS_ENGINE_STORY_H

#include "base/buf.h"
#include "engine/marks.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static inline pd_store *open_store(const char *uri, const pd_options *options)
{
  pd_store *s = NULL;
  pd_error err = {0};
  if (pd_store_open(uri, "main", options, &s, &err)) fail_msg("open: %s", err.message);
  return s;
}

static inline pd_commit put_noted(pd_store *s, const char *key, const char *value, const pd_note *note)
{
  pd_ack ack = {0};
  pd_error err = {0};
  if (pd_put(s, pd_text(key), pd_text(value), note, &ack, &err)) fail_msg("put: %s", err.message);
  return (pd_commit){ack.commit, ack.tree, ack.seq};
}

static inline pd_commit put(pd_store *s, const char *key, const char *value)
{
  return put_noted(s, key, value, NULL);
}

static inline void assert_at(pd_store *s, const char *at, const pd_commit *expected)
{
  pd_commit got;
  pd_error err = {0};
  if (pd_resolve(s, at, &got, &err)) fail_msg("%s: %s", at, err.message);
  assert_true(pd_id_equal(&got.id, &expected->id));
  assert_true(pd_id_equal(&got.tree, &expected->tree));
  assert_int_equal(got.seq, expected->seq);
}

static inline pd_code sum_kept(void *ctx, const char *kind, const char *name, uint64_t seq, pd_error *err)
{
  (void)err;
  uint64_t *sums = ctx;
  assert_true(strcmp(kind, "tag") == 0 || strcmp(kind, "pin") == 0 || strcmp(kind, "message") == 0);
  assert_true(*name);
  sums[0]++;
  sums[1] += seq;
  return PD_OK;
}

/* How many commits are kept by marks, and the sum of their records. */
static inline void assert_kept(pd_store *s, uint64_t count, uint64_t seq_sum)
{
  uint64_t sums[2] = {0};
  pd_store_lock(s);
  pd_code code = pd_settle(s, NULL);
  if (!code) code = pd_kept_points(s, sum_kept, sums, NULL);
  pd_store_unlock(s);
  assert_int_equal(code, PD_OK);
  assert_int_equal(sums[0], count);
  assert_int_equal(sums[1], seq_sum);
}

#endif
