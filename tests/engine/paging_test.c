/* paging_test.c: a page of the log costs what it shows, wherever it lies, and keeps no writer out. */
#include "engine/store.h"
#include "support/gate_backend.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEGMENTS 16
#define SEGMENT_RECORDS 600 /* each closed by a keyframe */
#define RECORDS (SEGMENTS * SEGMENT_RECORDS)

static pd_store *open_store(const char *uri, uint32_t flush_ms)
{
  pd_store *store = NULL;
  pd_options options = {.flush_ms = flush_ms, .cache_size_max = 1}; /* the smallest: few segments stay in memory */
  assert_int_equal(pd_store_open(uri, "main", &options, &store, NULL), PD_OK);
  return store;
}

/* A long line of one key that is always written, and one that is written now and then. */
static pd_store *fill(const char *uri)
{
  pd_store *store = open_store(uri, 60000);
  char text[100];
  for (int i = 0; i < RECORDS; i++) {
    snprintf(text, sizeof text, "%090d", i);
    assert_int_equal(pd_put(store, pd_text(i % 100 ? "often" : "seldom"), pd_text(text), NULL, NULL, NULL), PD_OK);
    if (i % SEGMENT_RECORDS == SEGMENT_RECORDS - 1) assert_int_equal(pd_store_keyframe(store, NULL), PD_OK);
  }
  assert_int_equal(pd_store_flush(store, NULL), PD_OK);
  return store; /* while it is open, the memory stays */
}

typedef struct list {
  uint64_t *seqs;
  size_t count;
} list;

static bool add(void *ctx, const pd_record *record)
{
  list *l = ctx;
  l->seqs = realloc(l->seqs, (l->count + 1) * sizeof *l->seqs);
  if (!l->seqs) abort();
  l->seqs[l->count++] = record->seq;
  return true;
}

static list read_log(pd_store *store, pd_log_query query)
{
  list l = {0};
  assert_int_equal(pd_log(store, &query, add, &l, NULL), PD_OK);
  return l;
}

static void paging__a_page_far_back_reads_little_once_the_way_is_known(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:paging-cost");
  pd_store *store = open_store("gate:memory:paging-cost", 0);
  list all = read_log(store, (pd_log_query){0});
  assert_int_equal(all.count, RECORDS);
  list last = read_log(store, (pd_log_query){.before = 10, .limit = 1}); /* all the way, once */
  free(last.seqs);
  for (size_t at = 1000; at < all.count; at += 2500) {
    gate_reset_counts();
    list page = read_log(store, (pd_log_query){.before = all.seqs[at], .limit = 20});
    assert_int_equal(page.count, 20);
    assert_memory_equal(page.seqs, &all.seqs[at + 1], 20 * sizeof *page.seqs);
    if (gate_records_read() > 4 * SEGMENT_RECORDS)
      fail_msg("the page at %zu read %llu records", at, (unsigned long long)gate_records_read());
    free(page.seqs);
  }
  gate_reset_counts();
  pd_commit commit;
  assert_int_equal(pd_resolve(store, "main~9000", &commit, NULL), PD_OK);
  assert_int_equal(commit.seq, all.seqs[9000]);
  if (gate_records_read() > 4 * SEGMENT_RECORDS) fail_msg("main~9000 read %llu records", (unsigned long long)gate_records_read());
  free(all.seqs);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

static void paging__a_page_of_the_whole_store_begins_at_its_cursor(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:paging-whole");
  pd_store *store = open_store("gate:memory:paging-whole", 0); /* which knows nothing yet */
  gate_reset_counts();
  list page = read_log(store, (pd_log_query){.whole_store = true, .before = 100, .limit = 10});
  assert_int_equal(page.count, 10);
  assert_int_equal(page.seqs[0], 99);
  assert_true(gate_records_read() < 2 * SEGMENT_RECORDS);
  free(page.seqs);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

static bool count_version(void *ctx, const pd_version_info *version)
{
  assert_true(version->entry.created_ms > 0);
  ++*(unsigned *)ctx;
  return true;
}

static void paging__the_newest_versions_of_a_key_do_not_cost_the_oldest(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:paging-versions");
  pd_store *store = open_store("gate:memory:paging-versions", 0);
  unsigned count = 0;
  gate_reset_counts();
  assert_int_equal(pd_history(store, NULL, pd_text("often"), 5, count_version, &count, NULL), PD_OK);
  assert_int_equal(count, 5);
  if (gate_records_read() > 4 * SEGMENT_RECORDS) fail_msg("it read %llu records", (unsigned long long)gate_records_read());
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

/* ---- the same answers as without a cursor ---- */

static void put(pd_store *store, const char *key, int number, const pd_note *note)
{
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  assert_int_equal(pd_put(store, pd_text(key), pd_text(text), note, NULL, NULL), PD_OK);
}

/* Two lines that leave each other, come together, are set back, with keyframes in between. */
static pd_store *make_web(void)
{
  pd_store *store = open_store("memory:", 0);
  pd_note side = {.ref = "side"};
  for (int i = 0; i < 40; i++) put(store, "a", i, NULL);
  assert_int_equal(pd_fork(store, "side", "main~10", NULL, NULL, NULL), PD_OK);
  for (int i = 0; i < 120; i++) {
    put(store, i % 3 ? "a" : "b", i, i % 2 ? NULL : &side);
    if (i % 25 == 24) assert_int_equal(pd_store_keyframe(store, NULL), PD_OK);
    if (i % 40 == 39) assert_int_equal(pd_undo(store, 5, NULL, NULL, NULL), PD_OK);
  }
  for (int i = 0; i < 30; i++) put(store, "c", i, NULL);
  assert_int_equal(pd_reset(store, "side", "main~20", NULL, NULL, NULL), PD_OK);
  for (int i = 0; i < 30; i++) put(store, "b", i, &side);
  return store;
}

static void want_pages(pd_store *store, pd_log_query query)
{
  list all = read_log(store, query);
  assert_true(all.count > 5);
  for (uint64_t before = 1; before < all.seqs[0] + 3; before++) { /* also numbers that are on no line */
    size_t first = 0;
    while (first < all.count && all.seqs[first] >= before) first++;
    query.before = before;
    query.limit = 7;
    list page = read_log(store, query);
    size_t want = all.count - first < 7 ? all.count - first : 7;
    assert_int_equal(page.count, want);
    if (want) assert_memory_equal(page.seqs, all.seqs + first, want * sizeof *page.seqs);
    free(page.seqs);
  }
  free(all.seqs);
}

static void paging__pages_are_what_the_log_without_a_cursor_shows(void **state)
{
  (void)state;
  pd_store *store = make_web();
  want_pages(store, (pd_log_query){0});
  want_pages(store, (pd_log_query){.at = "side"});
  want_pages(store, (pd_log_query){.at = "side~25"});
  want_pages(store, (pd_log_query){.ref = "main"});
  want_pages(store, (pd_log_query){.ref = "side"});
  want_pages(store, (pd_log_query){.whole_store = true});
  want_pages(store, (pd_log_query){.key = pd_text("b")});
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void paging__steps_back_are_those_of_the_log_and_end_where_it_does(void **state)
{
  (void)state;
  pd_store *store = make_web();
  list all = read_log(store, (pd_log_query){0});
  char at[32];
  pd_commit commit;
  for (size_t i = 0; i < all.count; i++) {
    snprintf(at, sizeof at, "main~%zu", i);
    assert_int_equal(pd_resolve(store, at, &commit, NULL), PD_OK);
    assert_int_equal(commit.seq, all.seqs[i]);
  }
  snprintf(at, sizeof at, "main~%zu", all.count);
  assert_int_equal(pd_resolve(store, at, &commit, NULL), PD_OK);
  assert_int_equal(commit.seq, 0);
  pd_error err = {0};
  snprintf(at, sizeof at, "main~%zu", all.count + 1);
  assert_int_equal(pd_resolve(store, at, &commit, &err), PD_NOT_FOUND);
  snprintf(at, sizeof at, "only %zu commits", all.count);
  assert_non_null(strstr(err.message, at));
  assert_int_equal(pd_undo(store, all.count + 1, NULL, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_undo(store, all.count - 1, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_resolve(store, "main", &commit, NULL), PD_OK);
  assert_int_equal(commit.seq, all.seqs[all.count - 1]);
  free(all.seqs);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

/* ---- with a writer ---- */

typedef struct scene {
  pd_store *store;
  sem_t go;
  atomic_bool is_done;
  size_t count, done_at; /* records that were shown; and when the writer was done */
} scene;

static void *put_once(void *ctx)
{
  scene *sc = ctx;
  while (sem_wait(&sc->go)) continue;
  if (pd_put(sc->store, pd_text("k"), pd_text("v"), NULL, NULL, NULL)) abort();
  atomic_store(&sc->is_done, true);
  return NULL;
}

/* Reads on only while the writer waits for the lock, or is done: what is shown meanwhile is what it had to wait for. */
static bool let_it_wait(void *ctx, const pd_record *record)
{
  scene *sc = ctx;
  (void)record;
  if (++sc->count == 100) sem_post(&sc->go);
  while (sc->count >= 100 && !atomic_load(&sc->is_done) && !__atomic_load_n(&sc->store->lock_waiters, __ATOMIC_RELAXED)) sched_yield();
  if (!sc->done_at && atomic_load(&sc->is_done)) sc->done_at = sc->count;
  return true;
}

static void paging__a_writer_gets_in_while_a_long_log_is_read(void **state)
{
  (void)state;
  gate_backend_install();
  pd_store *filled = fill("memory:paging-writer");
  scene sc = {.store = open_store("memory:paging-writer", 0)};
  pthread_t thread;
  sem_init(&sc.go, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, put_once, &sc), 0);
  assert_int_equal(pd_log(sc.store, NULL, let_it_wait, &sc, NULL), PD_OK);
  pthread_join(thread, NULL);
  assert_int_equal(sc.count, RECORDS);
  if (!sc.done_at || sc.done_at > 2000) fail_msg("the writer was done after %zu records", sc.done_at);
  assert_int_equal(pd_store_close(sc.store, NULL), PD_OK);
  assert_int_equal(pd_store_close(filled, NULL), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(paging__a_page_far_back_reads_little_once_the_way_is_known),
    cmocka_unit_test(paging__a_page_of_the_whole_store_begins_at_its_cursor),
    cmocka_unit_test(paging__the_newest_versions_of_a_key_do_not_cost_the_oldest),
    cmocka_unit_test(paging__pages_are_what_the_log_without_a_cursor_shows),
    cmocka_unit_test(paging__steps_back_are_those_of_the_log_and_end_where_it_does),
    cmocka_unit_test(paging__a_writer_gets_in_while_a_long_log_is_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
