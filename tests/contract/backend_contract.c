/* backend_contract.c: runs the clauses (*_clauses.c) on a target, each on a fresh URI. */
#include "contract/backend_contract.h"

#include "contract/contract_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLAUSE_COUNT_MAX 128

/* ---- the world ---------------------------------------------------------------------------------------------------- */

pd_backend *world_open(contract_world *w, const char *store)
{
  pd_backend *b = NULL;
  pd_error err = {0};
  if (w->ops->open(w->rest, store, PD_BACKEND_CREATE, &b, &err) != PD_OK) fail_msg("open: %s", err.message);
  assert_non_null(b);
  return b;
}

pd_backend *world_reopen(contract_world *w, pd_backend *b, const char *store)
{
  if (w->target->is_lasting) {
    w->ops->close(b);
    return world_open(w, store);
  }
  pd_backend *again = world_open(w, store);
  w->ops->close(b);
  return again;
}

pd_bytes record_of(uint64_t seq, uint8_t out[RECORD_SIZE_MAX])
{
  size_t size = (size_t)(seq * 37 % RECORD_SIZE_MAX);
  for (size_t i = 0; i < size; i++) out[i] = (uint8_t)(seq * 131 + i * 7 + seq / 256);
  return (pd_bytes){out, size};
}

pd_code append_numbered(pd_backend *b, uint64_t seq, size_t count, pd_error *err)
{
  uint8_t(*bytes)[RECORD_SIZE_MAX] = calloc(count, sizeof *bytes);
  pd_bytes *records = calloc(count, sizeof *records);
  for (size_t i = 0; i < count; i++) records[i] = record_of(seq + i, bytes[i]);
  pd_code code = b->ops->log_append(b, seq, records, count, err);
  free(records);
  free(bytes);
  return code;
}

pd_code append_anywhere(pd_backend *b, size_t count, pd_error *err)
{
  for (size_t done = 0; done < count;) {
    pd_code code = append_numbered(b, b->ops->log_tail_hint(b) + 1, 1, err);
    if (code == PD_OK)
      done++;
    else if (code != PD_CONFLICT)
      return code;
  }
  return PD_OK;
}

static pd_code expect_next(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  uint64_t *last = ctx;
  uint8_t bytes[RECORD_SIZE_MAX];
  pd_bytes want = record_of(seq, bytes);
  (void)err;
  assert_int_equal(seq, *last + 1);
  assert_int_equal(record.size, want.size);
  if (want.size) assert_memory_equal(record.data, want.data, want.size);
  *last = seq;
  return PD_OK;
}

void expect_numbered_log(pd_backend *b, uint64_t tail)
{
  uint64_t last = 0, found = UINT64_MAX;
  pd_error err = {0};
  if (b->ops->log_read(b, 1, UINT64_MAX, expect_next, &last, &err) != PD_OK) fail_msg("log_read: %s", err.message);
  assert_int_equal(last, tail);
  assert_int_equal(b->ops->log_tail(b, &found, &err), PD_OK);
  assert_int_equal(found, tail);
  assert_int_equal(b->ops->log_tail_hint(b), tail);
}

pd_code collect_seq(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  seq_list *list = ctx;
  (void)record, (void)err;
  if (list->count < sizeof list->seqs / sizeof list->seqs[0]) list->seqs[list->count] = seq;
  list->count++;
  return PD_OK;
}

pd_code put_text(pd_backend *b, const char *text, pd_id *out_id)
{
  pd_bytes blob = pd_text(text);
  *out_id = pd_value_id(blob);
  return b->ops->bag_put(b, out_id, &blob, 1, NULL);
}

void expect_blob(pd_backend *b, const pd_id *id, pd_bytes want)
{
  pd_buf out = {0};
  pd_error err = {0};
  if (b->ops->bag_get(b, id, &out, &err) != PD_OK) fail_msg("bag_get: %s", err.message);
  assert_int_equal(out.size, want.size);
  if (want.size) assert_memory_equal(out.data, want.data, want.size);
  pd_buf_done(&out);
}

int child_start(int (*work)(contract_world *w, int index), contract_world *w, int index)
{
  fflush(NULL);
  int pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) _exit(work(w, index));
  return pid;
}

int child_wait(int pid)
{
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

static const backend_contract_target *current;

static int set_up(void **state)
{
  contract_world *w = calloc(1, sizeof *w);
  w->target = current;
  w->uri = current->uri_new();
  if (!w->uri || pd_backend_find(w->uri, &w->ops, &w->rest, NULL) != PD_OK) return -1;
  *state = w;
  return 0;
}

static int tear_down(void **state)
{
  contract_world *w = *state;
  w->target->uri_destroy(w->uri);
  free(w->uri);
  free(w);
  return 0;
}

static bool applies(const clause *c)
{
  if (current->has_no_claims && strncmp(c->name, "B12_", 4) == 0) return false;
  if (c->needs == NEEDS_JOINT || c->needs == NEEDS_JOINT_PROCESSES)
    return current->has_joint && (c->needs == NEEDS_JOINT || current->is_shareable);
  if (c->needs == NEEDS_GC_LOCK || c->needs == NEEDS_GC_LOCK_PROCESSES)
    return current->has_gc_lock && (c->needs == NEEDS_GC_LOCK || current->is_shareable);
  if (c->needs == NEEDS_LASTING) return current->is_lasting;
  return c->needs == NEEDS_NOTHING || current->is_shareable;
}

static size_t add_clauses(struct CMUnitTest *tests, size_t count, const clause *clauses)
{
  for (const clause *c = clauses; c->name; c++) {
    char *name = NULL;
    if (!applies(c)) continue;
    if (count == CLAUSE_COUNT_MAX || asprintf(&name, "%s__%s", current->name, c->name) < 0) abort();
    tests[count++] = (struct CMUnitTest){name, c->test, set_up, tear_down, NULL};
  }
  return count;
}

int backend_contract_run(const backend_contract_target *target, const struct CMUnitTest *own, size_t own_count)
{
  static struct CMUnitTest tests[CLAUSE_COUNT_MAX];
  current = target;
  size_t count = add_clauses(tests, 0, log_clauses);
  count = add_clauses(tests, count, bag_clauses);
  count = add_clauses(tests, count, shared_clauses);
  count = add_clauses(tests, count, shed_clauses);
  count = add_clauses(tests, count, gc_lock_clauses);
  count = add_clauses(tests, count, joint_clauses);
  if (count + own_count > CLAUSE_COUNT_MAX) abort();
  for (size_t i = 0; i < own_count; i++) tests[count + i] = own[i];
  int failed = _cmocka_run_group_tests(target->name, tests, count + own_count, NULL, NULL);
  for (size_t i = 0; i < count; i++) free((void *)tests[i].name);
  return failed;
}
