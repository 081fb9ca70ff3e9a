/* update_test.c: pd_update: read, decide and write without conflicts. Cites UPD-1 to UPD-3 of src/engine/update.c. */
#include <perdure/perdure.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 64
#define KEY "counter"

static pd_store *open_store(const char *uri, uint32_t flush_ms)
{
  pd_store *store = NULL;
  pd_options options = {.flush_ms = flush_ms};
  assert_int_equal(pd_store_open(uri, "main", &options, &store, NULL), PD_OK);
  return store;
}

/* ---- a counter ---- */

typedef struct job {
  pd_store *store;
  unsigned runs; /* of the callback; atomic */
  unsigned long saw;
  bool is_made_once; /* refuse if the key exists */
  bool is_torn;      /* a plain write of the key comes between, the first time */
  size_t padding;    /* of the value */
  pd_code code;
  pd_ack ack;
  pd_error err;
} job;

static pd_code read_counter(pd_edit *edit, unsigned long *out, uint64_t *out_version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_entry entry = {0};
  pd_code code = pd_edit_get(edit, pd_text(KEY), &text, &entry, err);
  if (code && code != PD_NOT_FOUND) return code;
  TRY(pd_buf_append(&text, "", 1, err));
  *out = code ? 0 : strtoul((char *)text.data, NULL, 10);
  *out_version = entry.version;
  return PD_OK;
}

static pd_code count_up(void *ctx, pd_edit *edit, pd_error *err)
{
  job *j = ctx;
  CLEANUP(pd_buf_done) pd_buf text = {0};
  uint64_t version;
  TRY(read_counter(edit, &j->saw, &version, err));
  unsigned runs = __atomic_add_fetch(&j->runs, 1, __ATOMIC_SEQ_CST);
  if (j->is_made_once && version) return pd_error_named(err, PD_CONFLICT, "Taken", "the counter exists");
  if (j->is_torn && runs == 1) TRY(pd_put(j->store, pd_text(KEY), pd_text("70"), NULL, NULL, err));
  TRY(pd_buf_printf(&text, err, "%lu", j->saw + 1));
  while (text.size < j->padding) TRY(pd_buf_append(&text, " ", 1, err));
  return pd_edit_put(edit, pd_text(KEY), pd_buf_bytes(&text), version, err);
}

static void *run(void *ctx)
{
  job *j = ctx;
  j->code = pd_update(j->store, NULL, count_up, j, &j->ack, &j->err);
  return NULL;
}

static pthread_t start(job *j)
{
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, j), 0);
  return thread;
}

static unsigned runs_of(job *j)
{
  return __atomic_load_n(&j->runs, __ATOMIC_SEQ_CST);
}

static void await_runs(job *j, unsigned count)
{
  while (runs_of(j) < count) sched_yield();
}

static unsigned long counter_of(pd_store *store)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (pd_get(store, NULL, pd_text(KEY), &text, NULL, NULL)) return 0;
  assert_int_equal(pd_buf_append(&text, "", 1, NULL), PD_OK);
  return strtoul((char *)text.data, NULL, 10);
}

/* ---- tests ---- */

static void update__64_threads_on_one_key_share_three_appends_and_run_once_each(void **state)
{
  (void)state;
  fault_backend_install();
  fault_backend_plan((fault_plan){.ops = FAULT_LOG_APPEND});
  pd_store *store = open_store("fault:memory:", 0);
  job jobs[THREADS];
  pthread_t threads[THREADS];
  unsigned char seen[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) jobs[i] = (job){.store = store};
  job before = jobs[0];
  run(&before);
  assert_int_equal(before.code, PD_OK);
  fault_backend_gate(true);
  threads[0] = start(&jobs[0]);
  fault_backend_await_append();
  for (int i = 1; i < THREADS; i++) threads[i] = start(&jobs[i]);
  for (int i = 0; i < THREADS; i++) await_runs(&jobs[i], 1); /* with the turn held until it is staged: all but one are */
  fault_backend_gate(false);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].code, PD_OK);
    assert_int_equal(jobs[i].runs, 1);
    assert_int_equal(jobs[i].ack.durability, PD_SYNCED);
    assert_in_range(jobs[i].saw, 1, THREADS);
    assert_int_equal(seen[jobs[i].saw - 1]++, 0);
  }
  assert_int_equal(counter_of(store), THREADS + 1);
  assert_in_range(fault_backend_calls(), 2, 4);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

/* Their pieces are put before the commit, in a moment with nothing staged: they do not share a sync, but none is refused. */
static void update__large_values_do_not_conflict_either(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  job jobs[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) jobs[i] = (job){.store = store, .padding = 100 * 1000}, threads[i] = start(&jobs[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].code, PD_OK);
  }
  assert_int_equal(counter_of(store), THREADS);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void update__what_rested_on_a_failed_batch_is_run_again(void **state)
{
  (void)state;
  fault_backend_install();
  pd_store *store = open_store("fault:memory:", 0);
  job first = {.store = store}, second = {.store = store};
  fault_backend_gate(true);
  pthread_t a = start(&first);
  fault_backend_await_append();
  pthread_t b = start(&second);
  await_runs(&second, 1);
  fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_LOG_APPEND});
  fault_backend_gate(false);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  assert_int_equal(first.code, PD_STORAGE);
  assert_int_equal(second.code, PD_OK);
  assert_int_equal(second.saw, 0); /* not the 1 that was never written */
  assert_int_equal(counter_of(store), 1);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

/* UPD-2. The one in flight `fails` or not; the refusal must follow suit. */
static void check_refusal(bool fails)
{
  fault_backend_install();
  fault_backend_plan((fault_plan){0});
  pd_store *store = open_store("fault:memory:", 0);
  job first = {.store = store, .is_made_once = true}, second = first;
  fault_backend_gate(true);
  pthread_t a = start(&first);
  fault_backend_await_append();
  pthread_t b = start(&second);
  await_runs(&second, 1);
  if (fails) fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_LOG_APPEND});
  fault_backend_gate(false);
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  assert_int_equal(first.code, fails ? PD_STORAGE : PD_OK);
  assert_int_equal(second.code, fails ? PD_OK : PD_CONFLICT);
  if (!fails) assert_string_equal(second.err.name, "Taken");
  assert_int_equal(counter_of(store), 1);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void update__a_refusal_waits_for_the_commit_that_it_rests_on(void **state)
{
  (void)state;
  check_refusal(false);
}

static void update__nothing_is_refused_for_a_commit_that_failed(void **state)
{
  (void)state;
  check_refusal(true);
}

static void update__a_plain_write_between_makes_it_run_again(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  job j = {.store = store, .is_torn = true};
  run(&j);
  assert_int_equal(j.code, PD_OK);
  assert_int_equal(j.runs, 2);
  assert_int_equal(counter_of(store), 71);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void count_many(const char *uri, unsigned count)
{
  pd_store *store = open_store(uri, 0);
  for (unsigned i = 0; i < count; i++) {
    job j = {.store = store};
    run(&j);
    if (j.code) fprintf(stderr, "%s\n", j.err.message);
    assert_int_equal(j.code, PD_OK);
  }
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void update__two_processes_count_every_step(void **state)
{
  (void)state;
  char *folder = temp_folder_new();
  char uri[4200];
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  pd_store *store = open_store(uri, 0);
  pid_t child = fork();
  if (!child) {
    count_many(uri, 150);
    _exit(0);
  }
  job jobs[150];
  for (int i = 0; i < 150; i += 3) {
    pthread_t threads[3];
    for (int k = 0; k < 3; k++) jobs[i + k] = (job){.store = store}, threads[k] = start(&jobs[i + k]);
    for (int k = 0; k < 3; k++) pthread_join(threads[k], NULL);
  }
  int status = 1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  for (int i = 0; i < 150; i++) assert_int_equal(jobs[i].code, PD_OK);
  assert_int_equal(counter_of(store), 300);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  temp_folder_free(folder);
}

static void update__in_a_buffered_store_is_seen_at_once(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 60000);
  job jobs[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) jobs[i] = (job){.store = store}, threads[i] = start(&jobs[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].code, PD_OK);
    assert_int_equal(jobs[i].ack.durability, PD_BUFFERED);
  }
  assert_int_equal(counter_of(store), THREADS);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static pd_code change_mind(void *ctx, pd_edit *edit, pd_error *err)
{
  (void)ctx;
  TRY(pd_edit_put(edit, pd_text(KEY), pd_text("1"), PD_ANY_VERSION, err));
  pd_edit_clear(edit);
  return PD_OK;
}

/* ---- a limit on bytes ---- */

#define RUNS_MAX 50

typedef struct crowd {
  pd_store *store;
  pd_later *laters[RUNS_MAX];
  unsigned runs;
} crowd;

/* Others never leave the ref alone: whenever it is looked at, something is staged behind. */
static pd_code add_in_a_crowd(void *ctx, pd_edit *edit, pd_error *err)
{
  crowd *c = ctx;
  pd_ack ack;
  if (c->runs == RUNS_MAX) return pd_error_set(err, PD_INVALID, "it never ends");
  TRY(pd_put_later(c->store, pd_text("other"), pd_text("x"), PD_ANY_VERSION, NULL, &c->laters[c->runs++], &ack, err));
  return pd_edit_put(edit, pd_text("more"), pd_text("0123456789012345678901234567890123456789"), PD_ANY_VERSION, err);
}

static void update__over_the_limit_of_bytes_is_refused_also_while_others_write(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  crowd c = {.store = open_store(uri, 0)};
  pd_note note = {.bytes_max = 60};
  pd_error err = {0};
  assert_int_equal(pd_put(c.store, pd_text(KEY), pd_text("0123456789012345678901234567890123456789"), &note, NULL, NULL), PD_OK);
  pd_code code = pd_update(c.store, &note, add_in_a_crowd, &c, NULL, &err);
  if (code != PD_QUOTA) fail_msg("%s: %s", pd_code_name(code), err.message);
  assert_int_equal(c.runs, 2);
  for (unsigned i = 0; i < c.runs; i++) {
    bool again = false;
    if (c.laters[i]) assert_int_equal(pd_later_wait(c.laters[i], &again, NULL), PD_OK);
  }
  assert_int_equal(pd_store_close(c.store, NULL), PD_OK);
  temp_folder_free(folder);
  free(uri);
}

static void update__that_stages_nothing_makes_no_commit(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_ack ack = {.durability = PD_SYNCED};
  pd_ref before, after;
  assert_int_equal(pd_ref_get(store, "main", &before, NULL), PD_OK);
  assert_int_equal(pd_update(store, NULL, change_mind, NULL, &ack, NULL), PD_OK);
  assert_int_equal(ack.durability, PD_NOTHING);
  assert_int_equal(pd_ref_get(store, "main", &after, NULL), PD_OK);
  assert_int_equal(before.commit.seq, after.commit.seq);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void update__of_a_missing_ref_is_not_found(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_note note = {.ref = "nowhere"};
  job j = {.store = store};
  assert_int_equal(pd_update(store, &note, count_up, &j, NULL, &j.err), PD_NOT_FOUND);
  assert_int_equal(j.runs, 0);
  assert_non_null(strstr(j.err.message, "nowhere"));
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void update__a_disk_that_refuses_is_reported(void **state)
{
  (void)state;
  fault_backend_install();
  pd_store *store = open_store("fault:memory:", 0);
  job j = {.store = store};
  fault_backend_plan((fault_plan){.at = 1, .count = UINT64_MAX, .ops = FAULT_LOG_APPEND});
  run(&j);
  assert_int_equal(j.code, PD_STORAGE);
  fault_backend_plan((fault_plan){0});
  assert_int_equal(counter_of(store), 0);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(update__64_threads_on_one_key_share_three_appends_and_run_once_each),
    cmocka_unit_test(update__large_values_do_not_conflict_either),
    cmocka_unit_test(update__what_rested_on_a_failed_batch_is_run_again),
    cmocka_unit_test(update__a_refusal_waits_for_the_commit_that_it_rests_on),
    cmocka_unit_test(update__nothing_is_refused_for_a_commit_that_failed),
    cmocka_unit_test(update__a_plain_write_between_makes_it_run_again),
    cmocka_unit_test(update__two_processes_count_every_step),
    cmocka_unit_test(update__in_a_buffered_store_is_seen_at_once),
    cmocka_unit_test(update__over_the_limit_of_bytes_is_refused_also_while_others_write),
    cmocka_unit_test(update__that_stages_nothing_makes_no_commit),
    cmocka_unit_test(update__of_a_missing_ref_is_not_found),
    cmocka_unit_test(update__a_disk_that_refuses_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
