/* storage_epochs.c: the clauses S9 and S10: claims, and who may save. */
#include "base/base.h"
#include "contract/storage_clauses.h"
#include "contract/storage_contract.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t claim(pd_storage *storage, const char *agent)
{
  uint64_t epoch = 0;
  pd_error err = {0};
  if (pd_storage_claim(storage, agent, &epoch, &err) != PD_OK) fail_msg("claim %s: %s", agent, err.message);
  return epoch;
}

static uint64_t epoch_of(pd_storage *storage, const char *agent)
{
  uint64_t epoch = 77;
  pd_error err = {0};
  if (pd_storage_epoch(storage, agent, &epoch, &err) != PD_OK) fail_msg("epoch %s: %s", agent, err.message);
  return epoch;
}

static pd_code save_as(pd_storage *storage, const char *agent, uint64_t epoch, uint64_t tick, pd_error *err)
{
  char *document = snapshot_new(agent, tick, 2);
  pd_code code = pd_storage_save_as(storage, agent, epoch, pd_text(document), err);
  free(document);
  return code;
}

static void expect_fenced(pd_storage *storage, const char *agent, uint64_t epoch, uint64_t holds)
{
  pd_error err = {0};
  assert_int_equal(save_as(storage, agent, epoch, 999, &err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&err), "AgentFenced");
  assert_int_equal(err.expected, epoch);
  assert_int_equal(err.actual, holds);
  char *says = text_of("agent '%s' is held by epoch %llu now", agent, (unsigned long long)holds);
  if (!strstr(err.message, says)) fail_msg("'%s' does not say '%s'", err.message, says);
  free(says);
}

void S9_each_claim_gets_a_larger_epoch(void **state)
{
  pd_storage *a = storage_open(*state), *b = storage_open(*state);
  uint64_t last = 0;
  assert_int_equal(epoch_of(a, "x"), 0);
  for (int i = 0; i < 12; i++) {
    pd_storage *s = i % 2 ? a : b;
    uint64_t epoch = claim(s, "x");
    assert_true(epoch > last);
    assert_int_equal(epoch_of(a, "x"), epoch);
    assert_int_equal(epoch_of(b, "x"), epoch);
    last = epoch;
    if (i == 5) save_tick(s, "x", 1, 1);
    if (i == 8) assert_int_equal(pd_storage_delete(s, "x", NULL), PD_OK);
  }
  pd_storage_close(a);
  pd_storage_close(b);
  a = storage_open(*state);
  assert_int_equal(epoch_of(a, "x"), last);
  assert_true(claim(a, "x") > last);
  assert_int_equal(epoch_of(a, "y"), 0);
  assert_int_equal(pd_storage_claim(a, "../x", &last, NULL), PD_INVALID);
  pd_storage_close(a);
}

void S9_a_claim_makes_no_snapshot_and_changes_none(void **state)
{
  pd_storage *s = storage_open(*state);
  claim(s, "x");
  storage_expect(s, "x", NULL);
  expect_names(s, "");
  assert_int_equal(pd_storage_delete(s, "x", NULL), PD_NOT_FOUND);
  save_tick(s, "y", 3, 2);
  claim(s, "y");
  expect_tick(s, "y", 3, 2);
  expect_names(s, "y");
  pd_storage_close(s);
}

void S10_only_the_last_claim_may_save(void **state)
{
  pd_storage *a = storage_open(*state), *b = storage_open(*state);
  uint64_t first = claim(a, "x");
  assert_int_equal(save_as(a, "x", first, 1, NULL), PD_OK);
  assert_int_equal(save_as(a, "x", first, 2, NULL), PD_OK);
  uint64_t second = claim(b, "x");
  expect_fenced(a, "x", first, second);
  expect_tick(a, "x", 2, 2);
  assert_int_equal(save_as(b, "x", second, 3, NULL), PD_OK);
  expect_fenced(a, "x", first, second);
  expect_fenced(b, "x", second + 1, second);
  expect_tick(a, "x", 3, 2);
  assert_int_equal(save_as(a, "x", 0, 4, NULL), PD_INVALID);
  save_tick(a, "x", 5, 2); /* who has no epoch is not asked for it */
  expect_tick(b, "x", 5, 2);
  expect_fenced(a, "nobody", 1, 0);
  storage_expect(a, "nobody", NULL);
  pd_storage_close(a);
  pd_storage_close(b);
}

void S10_who_was_removed_does_not_come_back(void **state)
{
  pd_storage *a = storage_open(*state), *b = storage_open(*state);
  uint64_t epoch = claim(a, "x");
  assert_int_equal(save_as(a, "x", epoch, 1, NULL), PD_OK);
  assert_int_equal(pd_storage_delete(b, "x", NULL), PD_OK);
  assert_true(epoch_of(a, "x") > epoch);
  expect_fenced(a, "x", epoch, epoch_of(a, "x"));
  storage_expect(b, "x", NULL);
  expect_names(b, "");
  uint64_t next = claim(b, "x");
  assert_true(next > epoch);
  assert_int_equal(save_as(b, "x", next, 1, NULL), PD_OK);
  expect_fenced(a, "x", epoch, next);
  pd_storage_close(a);
  pd_storage_close(b);
}

static uint64_t stored_tick(pd_storage *storage)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_snapshot facts = {0};
  bool is_there = pd_storage_load(storage, "x", &got, NULL) == PD_OK;
  return is_there && pd_snapshot_check((pd_bytes){got.data, got.size}, "x", &facts, NULL) == PD_OK ? facts.tick_index : 0;
}

/* Claims, then saves ticks that grow with its epoch until it is fenced. */
static void claim_and_save(const char *uri)
{
  pd_storage *s = NULL;
  pd_error err = {0};
  pd_code code = pd_storage_open(uri, &s, &err);
  for (unsigned round = 0; !code && round < 6; round++) {
    uint64_t epoch = 0;
    code = pd_storage_claim(s, "x", &epoch, &err);
    for (unsigned i = 0; !code && i < 4; i++) {
      code = save_as(s, "x", epoch, epoch * 10 + i, &err);
      if (!code && stored_tick(s) < epoch * 10 + i) _exit(2); /* somebody older came after us */
    }
    if (code == PD_CONFLICT && strcmp(pd_error_name(&err), "AgentFenced") == 0) code = PD_OK;
  }
  if (code) fprintf(stderr, "# %s\n", err.message);
  pd_storage_close(s);
  _exit(code ? 1 : 0);
}

static bool note_falling(void *ctx, const pd_storage_tick *tick)
{
  uint64_t *last = ctx;
  if (tick->tick_index > *last) *last = 0; /* a save of an older epoch after one of a newer */
  if (*last) *last = tick->tick_index;
  return true;
}

void S10_processes_that_take_over_never_interleave(void **state)
{
  pid_t children[3];
  for (unsigned i = 0; i < 3; i++) {
    children[i] = fork();
    if (!children[i]) claim_and_save(*state);
  }
  for (unsigned i = 0; i < 3; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  uint64_t last = UINT64_MAX;
  pd_storage *s = storage_open(*state);
  assert_int_equal(epoch_of(s, "x"), 18);
  if (storage_contract_current()->has_ticks) assert_int_equal(pd_storage_ticks(s, "x", note_falling, &last, NULL), PD_OK);
  assert_true(last > 0);
  pd_storage_close(s);
}
