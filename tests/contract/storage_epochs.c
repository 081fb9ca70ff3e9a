/* storage_epochs.c: the clauses S9 to S12: claims, who may save, and after which save. */
#include "base/base.h"
#include "contract/storage_clauses.h"
#include "contract/storage_contract.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
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

/* Whoever lost its memory, or was put back, must not give the same ones out again: a clock does not go back with it. */
void S9_epochs_follow_the_clock(void **state)
{
  struct timespec before;
  clock_gettime(CLOCK_REALTIME, &before);
  pd_storage *s = storage_open(*state);
  assert_true(claim(s, "x") >= (uint64_t)before.tv_sec * 1000);
  pd_storage_close(s);
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
  assert_true(epoch_of(s, "x") > 18);
  if (storage_contract_current()->has_ticks) assert_int_equal(pd_storage_ticks(s, "x", note_falling, &last, NULL), PD_OK);
  assert_true(last > 0);
  pd_storage_close(s);
}

/* ---- S11, S12: which save ------------------------------------------------------------------------------------------ */

static pd_code save_after(pd_storage *storage, const pd_storage_mark *last, const pd_storage_mark *next, uint64_t tick, pd_error *err)
{
  char *document = snapshot_new("x", tick, 2);
  pd_code code = pd_storage_save_next(storage, "x", last, next, pd_text(document), err);
  free(document);
  return code;
}

static void expect_saved(pd_storage *storage, const pd_storage_mark *last, const pd_storage_mark *next, uint64_t tick)
{
  pd_error err = {0};
  if (save_after(storage, last, next, tick, &err)) fail_msg("save %llu: %s", (unsigned long long)next->save, err.message);
}

static void expect_changed(pd_storage *storage, const pd_storage_mark *last, const pd_storage_mark *next)
{
  pd_error err = {0};
  assert_int_equal(save_after(storage, last, next, 999, &err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&err), "SnapshotChanged");
}

static pd_storage_mark mark_of(pd_storage *storage)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_storage_mark mark = {1, 2, 3};
  pd_error err = {0};
  pd_code code = pd_storage_load_marked(storage, "x", &got, &mark, &err);
  if (code && code != PD_NOT_FOUND) fail_msg("load: %s", err.message);
  return mark;
}

static void expect_mark(pd_storage *storage, const pd_storage_mark *want)
{
  pd_storage_mark is = mark_of(storage);
  assert_int_equal(is.epoch, want->epoch);
  assert_int_equal(is.save, want->save);
  assert_true(is.token == want->token);
}

static const pd_storage_mark none;

void S11_the_mark_comes_back_with_its_snapshot(void **state)
{
  pd_storage *a = storage_open(*state), *b = storage_open(*state);
  pd_error err = {0};
  expect_mark(a, &none);
  pd_storage_mark first = {claim(a, "x"), 1, UINT64_MAX}, second = {first.epoch, PD_SNAPSHOT_NUMBER_MAX, 1};
  expect_mark(a, &none); /* of a claim there is none */
  expect_saved(a, &none, &first, 1);
  expect_mark(a, &first);
  expect_mark(b, &first);
  expect_tick(b, "x", 1, 2);
  expect_saved(b, &first, &second, 2);
  expect_mark(a, &second);
  pd_storage_close(a);
  a = storage_open(*state);
  expect_mark(a, &second);
  save_tick(a, "x", 3, 1);
  pd_storage_mark other = mark_of(b);
  assert_true(other.token != second.token); /* whoever follows the second one has to notice */
  assert_int_equal(other.epoch, 0);
  assert_int_equal(pd_storage_delete(a, "x", NULL), PD_OK);
  expect_mark(b, &none);
  assert_int_equal(save_after(a, &none, &(pd_storage_mark){0, 1, 1}, 1, &err), PD_INVALID);
  assert_int_equal(save_after(a, &none, &(pd_storage_mark){1, 1, 0}, 1, &err), PD_INVALID);
  pd_storage_close(a);
  pd_storage_close(b);
}

void S12_a_save_that_follows_another_one_than_is_stored_changes_nothing(void **state)
{
  pd_storage *a = storage_open(*state), *b = storage_open(*state);
  uint64_t epoch = claim(a, "x");
  pd_storage_mark one = {epoch, 1, 11}, two = {epoch, 2, 22}, late = {epoch, 2, 33}, far = {epoch, 3, 44};
  expect_changed(a, &one, &two); /* nothing is there yet */
  storage_expect(a, "x", NULL);
  expect_saved(a, &none, &one, 1);
  expect_changed(b, &none, &late);
  expect_saved(a, &one, &two, 2);
  expect_changed(b, &one, &late);
  expect_changed(b, &none, &late);
  expect_changed(b, &(pd_storage_mark){epoch, 2, 23}, &far); /* each of the three counts */
  expect_changed(b, &(pd_storage_mark){epoch, 1, 22}, &far);
  expect_changed(b, &(pd_storage_mark){epoch - 1, 2, 22}, &far);
  expect_tick(a, "x", 2, 2);
  expect_mark(a, &two);
  expect_saved(b, NULL, &far, 3); /* whatever is there */
  expect_changed(a, &two, &late);
  save_tick(b, "x", 4, 2); /* without an epoch */
  expect_changed(a, &far, &late);
  expect_tick(a, "x", 4, 2);
  pd_storage_mark plain = mark_of(a), next = {claim(a, "x"), 1, 55};
  pd_error err = {0};
  assert_int_equal(save_after(b, &plain, &late, 5, &err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&err), "AgentFenced");
  expect_saved(a, &plain, &next, 6); /* a claim leaves the mark */
  pd_storage_close(a);
  pd_storage_close(b);
}

void S12_a_save_that_arrives_twice_is_one_save(void **state)
{
  pd_storage *a = storage_open(*state), *b = storage_open(*state);
  uint64_t epoch = claim(a, "x");
  pd_storage_mark one = {epoch, 1, 11}, two = {epoch, 2, 22}, three = {epoch, 3, 33};
  expect_saved(a, &none, &one, 1);
  expect_saved(b, &none, &one, 1);
  expect_saved(a, &one, &two, 2);
  expect_saved(b, &one, &two, 2);
  expect_saved(a, &two, &three, 3);
  expect_changed(b, &one, &two);
  expect_tick(a, "x", 3, 2);
  pd_storage_close(a);
  pd_storage_close(b);
}

/* Counts the tick up, so often. */
static void count_and_exit(const char *uri, uint64_t epoch, unsigned number)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_storage *s = NULL;
  pd_snapshot facts;
  pd_error err = {0};
  if (pd_storage_open(uri, &s, &err)) _exit(1);
  for (unsigned done = 0, tries = 0; done < 8; tries++) {
    pd_storage_mark last, next = {epoch, 0, (uint64_t)number << 32 | tries | 1u << 31};
    if (pd_storage_load_marked(s, "x", &got, &last, &err)) _exit(2);
    if (pd_snapshot_check((pd_bytes){got.data, got.size}, "x", &facts, &err)) _exit(3);
    next.save = last.save + 1;
    pd_code code = save_after(s, &last, &next, facts.tick_index + 1, &err);
    done += code == PD_OK;
    if (code && (code != PD_CONFLICT || strcmp(pd_error_name(&err), "SnapshotChanged") != 0)) {
      fprintf(stderr, "# %s\n", err.message);
      _exit(4);
    }
  }
  pd_storage_close(s);
  _exit(0);
}

void S12_processes_of_one_epoch_lose_no_save(void **state)
{
  pid_t children[3];
  pd_storage *s = storage_open(*state);
  uint64_t epoch = claim(s, "x");
  expect_saved(s, &none, &(pd_storage_mark){epoch, 1, 1}, 0);
  pd_storage_close(s);
  for (unsigned i = 0; i < 3; i++) {
    children[i] = fork();
    if (!children[i]) count_and_exit(*state, epoch, i + 1);
  }
  for (unsigned i = 0; i < 3; i++) {
    int status = 0;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  s = storage_open(*state);
  expect_tick(s, "x", 24, 2);
  assert_int_equal(mark_of(s).save, 25);
  pd_storage_close(s);
}
