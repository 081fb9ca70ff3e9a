/*
 * busy_reads_test.c: whoever reads the past keeps no writer out. Nothing here is timed: a reader is stopped in the middle of its work, and
 * the writer has to get through; or it goes on only while a writer waits for the lock, and how far it comes is counted.
 */
#include "base/base.h"
#include "base/buf.h"
#include "engine/store.h"
#include "support/gate_backend.h"

#include <perdure/merge.h>
#include <perdure/proof.h>
#include <perdure/retention.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define KEYS 2900
#define SEGMENTS 4
#define SEGMENT_RECORDS 3000 /* each closed by a keyframe */
#define WAIT_S 20            /* for what takes no time if it is not kept out */

static int64_t clock_ms(void *ctx)
{
  return ++*(int64_t *)ctx;
}

static int64_t clock_now = 1700000000000; /* a millisecond a record: refs can be asked where they were */

static pd_store *open_store(const char *uri, uint32_t flush_ms)
{
  pd_store *store = NULL;
  size_t cache = flush_ms ? 0 : 1; /* the smallest; but who fills it must not write keyframes because its cache is full */
  pd_options options = {.flush_ms = flush_ms, .cache_size_max = cache, .now_ms = clock_ms, .now_ctx = &clock_now};
  assert_int_equal(pd_store_open(uri, "main", &options, &store, NULL), PD_OK);
  return store;
}

static void put_number(pd_store *store, const char *key, int number, const pd_note *note)
{
  char text[64];
  snprintf(text, sizeof text, "{\"n\":%d}", number);
  assert_int_equal(pd_put(store, pd_text(key), pd_text(text), note, NULL, NULL), PD_OK);
}

/* `main`, and `side`, which left it long ago and has been undone. While what it returns is open, the memory stays. */
static pd_store *fill(const char *uri)
{
  pd_store *store = open_store(uri, 60000);
  pd_note side = {.ref = "side"};
  char key[32];
  for (int i = 0; i < SEGMENTS * SEGMENT_RECORDS; i++) {
    snprintf(key, sizeof key, "key/%05d", i * 7919 % KEYS);
    put_number(store, i % 100 ? key : "doc", i, NULL);
    if (i == SEGMENT_RECORDS / 2) {
      assert_int_equal(pd_fork(store, "side", "main", NULL, NULL, NULL), PD_OK);
      put_number(store, "doc", -1, &side);
      put_number(store, "doc", -2, &side);
      assert_int_equal(pd_undo(store, 2, &side, NULL, NULL), PD_OK);
    }
    if (i % SEGMENT_RECORDS == SEGMENT_RECORDS - 1) assert_int_equal(pd_store_keyframe(store, NULL), PD_OK);
  }
  assert_int_equal(pd_store_flush(store, NULL), PD_OK);
  return store;
}

/* ---- the reads ---- */

static bool see_difference(void *ctx, const pd_difference *difference)
{
  (void)ctx, (void)difference;
  return true;
}

static bool see_line(void *ctx, const pd_blame_line *line)
{
  (void)ctx, (void)line;
  return true;
}

static bool see_record(void *ctx, const pd_record *record)
{
  (void)ctx, (void)record;
  return true;
}

static bool see_version(void *ctx, const pd_version_info *version)
{
  (void)ctx, (void)version;
  return true;
}

static pd_code read_get(pd_store *store)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  return pd_get(store, "main~8000", pd_text("doc"), &value, NULL, NULL);
}

static pd_code read_scan(pd_store *store)
{
  pd_iter *it = NULL;
  pd_code code = pd_iter_open(store, "main~8000", NULL, &it, NULL);
  if (!code) pd_iter_close(it);
  return code;
}

/* By number: there is no line to walk before the tree is built. */
static pd_code read_scan_by_number(pd_store *store)
{
  pd_iter *it = NULL;
  pd_code code = pd_iter_open(store, "#5900", NULL, &it, NULL);
  if (!code) pd_iter_close(it);
  return code;
}

static pd_code read_diff(pd_store *store)
{
  return pd_diff(store, "main~8000", "main~4000", see_difference, NULL, NULL);
}

static pd_code read_near_diff(pd_store *store)
{
  return pd_diff(store, "main~20", "main", see_difference, NULL, NULL);
}

static pd_code read_blame(pd_store *store)
{
  return pd_blame(store, "main~8000", pd_text("doc"), see_line, NULL, NULL); /* at a head only single records are read */
}

static pd_code read_log(pd_store *store)
{
  return pd_log(store, NULL, see_record, NULL, NULL);
}

static pd_code read_history(pd_store *store)
{
  return pd_history(store, "main~8000", pd_text("doc"), 1, see_version, NULL, NULL);
}

static pd_code read_back(pd_store *store)
{
  pd_commit commit;
  return pd_resolve(store, "main~9000", &commit, NULL);
}

static pd_code read_time(pd_store *store)
{
  pd_commit commit;
  char at[64] = "main@";
  time_t second = 1700000000 + SEGMENT_RECORDS / 1000 + 1;
  struct tm utc;
  strftime(at + 5, sizeof at - 5, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&second, &utc));
  return pd_resolve(store, at, &commit, NULL);
}

static pd_code read_ancestors(pd_store *store)
{
  pd_commit commits[4];
  size_t count;
  return pd_common_ancestors(store, "main", "side", commits, 4, &count, NULL);
}

static pd_code read_proof(pd_store *store)
{
  CLEANUP(pd_buf_done) pd_buf proof = {0};
  return pd_prove(store, "main~8000", pd_text("doc"), true, &proof, NULL);
}

static pd_code read_descent(pd_store *store)
{
  CLEANUP(pd_buf_done) pd_buf proof = {0};
  return pd_prove_descent(store, "main~2000", "main", &proof, NULL);
}

static pd_code read_merge(pd_store *store)
{
  pd_merge_options dry = {.is_dry_run = true};
  pd_note note = {.ref = "side"};
  return pd_merge(store, "main", &dry, &note, NULL, NULL);
}

static pd_code read_undo(pd_store *store)
{
  pd_note note = {.ref = "side"};
  return pd_undo(store, 1000, &note, NULL, NULL);
}

static pd_code read_redo(pd_store *store)
{
  pd_note note = {.ref = "side"};
  return pd_redo(store, 1, &note, NULL, NULL);
}

static pd_code read_fork(pd_store *store)
{
  return pd_fork(store, "new", "main~8000", NULL, NULL, NULL);
}

static const struct read {
  const char *name;
  pd_code (*run)(pd_store *store);
} reads[] = {
  {"get", read_get},     {"scan", read_scan},       {"diff", read_diff},   {"near diff", read_near_diff}, {"blame", read_blame},
  {"log", read_log},     {"history", read_history}, {"main~N", read_back}, {"main@TIME", read_time},      {"ancestors", read_ancestors},
  {"proof", read_proof}, {"descent", read_descent}, {"merge", read_merge}, {"undo", read_undo},           {"redo", read_redo},
  {"fork", read_fork},
};

/* ---- stopped while records are loaded ---- */

typedef struct scene {
  pd_store *store;
  const struct read *read;
  pd_code code;
  sem_t go, done;
  size_t count, let_in_at; /* steps of the reader; and when the writer had had the lock */
  pthread_t reader;
  unsigned turns;
} scene;

static void *run_read(void *ctx)
{
  scene *sc = ctx;
  sc->code = sc->read->run(sc->store);
  return NULL;
}

static void *put_once(void *ctx)
{
  scene *sc = ctx;
  while (sem_wait(&sc->go)) continue;
  if (pd_put(sc->store, pd_text("new"), pd_text("1"), NULL, NULL, NULL)) abort();
  sem_post(&sc->done);
  return NULL;
}

static bool wait_for(sem_t *sem)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WAIT_S;
  return sem_timedwait(sem, &until) == 0;
}

static void begin(scene *sc, pd_store *store, const struct read *read)
{
  *sc = (scene){.store = store, .read = read, .reader = pthread_self()};
  sem_init(&sc->go, 0, 0);
  sem_init(&sc->done, 0, 0);
}

static bool lets_writer_through(pd_store *store, const struct read *read)
{
  scene sc;
  pthread_t reader, writer;
  begin(&sc, store, read);
  assert_int_equal(pthread_create(&writer, NULL, put_once, &sc), 0);
  gate_shut(GATE_LOG_RANGE);
  assert_int_equal(pthread_create(&reader, NULL, run_read, &sc), 0);
  gate_await(1);
  sem_post(&sc.go);
  bool is_through = wait_for(&sc.done);
  gate_open();
  pthread_join(reader, NULL);
  pthread_join(writer, NULL);
  if (sc.code) fail_msg("%s failed with %d", read->name, sc.code);
  if (!is_through) print_error("%s kept a writer out while it loaded records\n", read->name);
  return is_through;
}

static void busy_reads__a_writer_gets_through_while_records_of_the_past_are_loaded(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:busy-load");
  size_t kept_out = 0;
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    pd_store *store = open_store("gate:memory:busy-load", 0); /* which has loaded nothing yet */
    kept_out += !lets_writer_through(store, &reads[i]);
    assert_int_equal(pd_store_keyframe(store, NULL), PD_OK); /* so that the next writer has its tree without reading records itself */
    assert_int_equal(pd_store_close(store, NULL), PD_OK);
  }
  assert_int_equal(kept_out, 0);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

static void busy_reads__readers_of_the_same_records_load_them_once(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:busy-once");
  pd_store *store = open_store("gate:memory:busy-once", 0);
  scene sc[4];
  pthread_t threads[4];
  gate_reset_counts();
  gate_shut(GATE_LOG_RANGE);
  for (size_t i = 0; i < 4; i++) {
    begin(&sc[i], store, &reads[3]); /* in the last segment alone */
    assert_int_equal(pthread_create(&threads[i], NULL, run_read, &sc[i]), 0);
  }
  gate_await(1);
  unsigned sleepers = 0; /* the others wait for the first */
  for (time_t until = time(NULL) + WAIT_S; sleepers < 3 && time(NULL) < until; sched_yield()) {
    if (pthread_mutex_trylock(&store->lock)) continue;
    sleepers = store->sleepers;
    pd_store_unlock(store);
  }
  gate_open();
  for (size_t i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(sc[i].code, PD_OK);
  }
  if (gate_records_read() > SEGMENT_RECORDS * 3 / 2) fail_msg("they read %llu records", (unsigned long long)gate_records_read());
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

/* ---- going on only while a writer waits ---- */

/* At its fifth step the writer waits for the lock; at which has it had it? */
static void step(scene *sc)
{
  if (++sc->count == 5) {
    sem_post(&sc->go);
    while (!__atomic_load_n(&sc->store->lock_waiters, __ATOMIC_RELAXED)) sched_yield();
    sc->turns = __atomic_load_n(&sc->store->lock_turns, __ATOMIC_RELAXED);
  }
  if (sc->count > 5 && !sc->let_in_at && __atomic_load_n(&sc->store->lock_turns, __ATOMIC_RELAXED) != sc->turns) sc->let_in_at = sc->count;
}

static void step_at_node(void *ctx)
{
  scene *sc = ctx;
  if (pthread_equal(pthread_self(), sc->reader)) step(sc);
}

static bool step_at_difference(void *ctx, const pd_difference *difference)
{
  (void)difference;
  step(ctx);
  return true;
}

/* The keyframe before it is at hand only in the bag: each leaf of it is loaded when the first key of it is set. */
static void busy_reads__a_writer_gets_in_while_an_old_tree_is_built(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:busy-tree");
  pd_store *store = open_store("gate:memory:busy-tree", 0);
  put_number(store, "new", 0, NULL); /* its path is in memory then */
  static const struct read by_number = {"scan by number", read_scan_by_number};
  scene sc;
  pthread_t writer;
  begin(&sc, store, &by_number);
  assert_int_equal(pthread_create(&writer, NULL, put_once, &sc), 0);
  gate_before_get(step_at_node, &sc);
  run_read(&sc);
  gate_before_get(NULL, NULL);
  sem_post(&sc.go); /* if there were no nodes to load */
  pthread_join(writer, NULL);
  assert_int_equal(sc.code, PD_OK);
  assert_true(sc.count > 20);
  if (!sc.let_in_at || sc.let_in_at > sc.count * 3 / 4) fail_msg("the writer had the lock after %zu of %zu nodes", sc.let_in_at, sc.count);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

static void want_in_diff(pd_store *store, const char *before, const char *after, size_t expected_min)
{
  scene sc;
  pthread_t writer;
  begin(&sc, store, NULL);
  assert_int_equal(pthread_create(&writer, NULL, put_once, &sc), 0);
  assert_int_equal(pd_diff(store, before, after, step_at_difference, &sc, NULL), PD_OK);
  pthread_join(writer, NULL);
  assert_true(sc.count >= expected_min);
  if (!sc.let_in_at || sc.let_in_at > 5 + 2 * PD_YIELD_STEPS)
    fail_msg("the writer had the lock after %zu of %zu keys", sc.let_in_at, sc.count);
}

static void busy_reads__a_writer_gets_in_while_trees_are_compared(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:busy-diff");
  pd_store *store = open_store("gate:memory:busy-diff", 0);
  want_in_diff(store, "main~8000", "main~4000", 1000); /* by trees */
  want_in_diff(store, "main~4200", "main~4000", 150);  /* by the keys on the way */
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

/* ---- with gc ---- */

static void busy_reads__what_gc_takes_while_it_is_read_is_retired(void **state)
{
  (void)state;
  gate_backend_install();
  static const size_t which[] = {0, 1, 2, 7}; /* get, scan, diff, main~N */
  for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
    char uri[64];
    snprintf(uri, sizeof uri, "gate:memory:busy-gc-%zu", i);
    pd_store *filled = fill(uri + 5);
    pd_store *store = open_store(uri, 0);
    scene sc;
    pthread_t reader;
    begin(&sc, store, &reads[which[i]]);
    gate_shut(GATE_LOG_RANGE);
    assert_int_equal(pthread_create(&reader, NULL, run_read, &sc), 0);
    gate_await(1);
    pd_gc_policy policy = {.keep_last = 10};
    assert_int_equal(pd_gc(filled, &policy, NULL, NULL), PD_OK); /* not through the gate */
    gate_open();
    pthread_join(reader, NULL);
    if (sc.code != PD_RETIRED) fail_msg("%s answered %d", sc.read->name, sc.code);
    put_number(store, "doc", 1, NULL);
    assert_int_equal(pd_store_close(store, NULL), PD_OK);
    assert_int_equal(pd_store_close(filled, NULL), PD_OK);
  }
}

static pd_code read_old_doc(pd_store *store)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  return pd_get(store, "#50", pd_text("doc"), &value, NULL, NULL);
}

/* The reader has the value in its hands already, and the handle hears of the erasure before the reader is done. */
static void busy_reads__what_is_erased_while_records_are_loaded_is_not_kept(void **state)
{
  (void)state;
  static const struct read old_doc = {"get", read_old_doc};
  gate_backend_install();
  pd_store *filled = fill("memory:busy-erase");
  pd_store *store = open_store("gate:memory:busy-erase", 0);
  assert_int_equal(read_old_doc(filled), PD_OK);
  scene sc;
  pthread_t reader;
  begin(&sc, store, &old_doc);
  gate_shut(GATE_LOG_RANGE);
  assert_int_equal(pthread_create(&reader, NULL, run_read, &sc), 0);
  gate_await(1);
  gate_pass();
  gate_await(1);
  pd_erase_options everywhere = {.everywhere = true};
  assert_int_equal(pd_erase(filled, pd_text("doc"), &everywhere, NULL, NULL), PD_OK); /* not through the gate */
  gate_shut(0);
  put_number(store, "other", 1, NULL);
  gate_open();
  pthread_join(reader, NULL);
  assert_int_equal(sc.code, PD_ERASED);
  assert_int_equal(read_old_doc(store), PD_ERASED);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(busy_reads__a_writer_gets_through_while_records_of_the_past_are_loaded),
    cmocka_unit_test(busy_reads__readers_of_the_same_records_load_them_once),
    cmocka_unit_test(busy_reads__a_writer_gets_in_while_an_old_tree_is_built),
    cmocka_unit_test(busy_reads__a_writer_gets_in_while_trees_are_compared),
    cmocka_unit_test(busy_reads__what_gc_takes_while_it_is_read_is_retired),
    cmocka_unit_test(busy_reads__what_is_erased_while_records_are_loaded_is_not_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
