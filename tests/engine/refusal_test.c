/* refusal_test.c: a write that is refused is refused for what others can read (E7), and not for what is staged or overtaken. */
#include <perdure/perdure.h>

#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TAIL_WORD_AT 64 /* sqlite_lock.h */

static pd_store *open_store(const char *uri)
{
  pd_store *store = NULL;
  assert_int_equal(pd_store_open(uri, "main", NULL, &store, NULL), PD_OK);
  return store;
}

static void close_store(pd_store *store)
{
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

/* Staged, and nobody is there to flush it. */
static pd_later *stage(pd_store *store, const char *key, const char *value, uint64_t expect_version)
{
  pd_later *later = NULL;
  pd_ack ack;
  assert_int_equal(pd_put_later(store, pd_text(key), pd_text(value), expect_version, NULL, &later, &ack, NULL), PD_OK);
  assert_non_null(later);
  return later;
}

static void put(pd_store *store, const char *key, const char *value)
{
  assert_int_equal(pd_put(store, pd_text(key), pd_text(value), NULL, NULL, NULL), PD_OK);
}

static uint64_t version_of(pd_store *store, const char *key)
{
  pd_entry entry = {0};
  pd_code code = pd_get(store, NULL, pd_text(key), NULL, &entry, NULL);
  if (code != PD_NOT_FOUND) assert_int_equal(code, PD_OK);
  return code ? 0 : entry.version;
}

static void end(pd_later *later, pd_code code, bool is_again)
{
  bool again = false;
  assert_int_equal(pd_later_wait(later, &again, NULL), code);
  assert_int_equal(again, is_again);
}

static pd_id head_of(pd_store *store)
{
  pd_commit commit;
  assert_int_equal(pd_resolve(store, NULL, &commit, NULL), PD_OK);
  return commit.id;
}

/* ---- what is staged ---- */

static void refusal__by_a_version_comes_once_that_version_can_be_read(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:");
  pd_error err = {0};
  pd_later *later = stage(store, "k", "1", 0);
  assert_int_equal(version_of(store, "k"), 0);
  assert_int_equal(pd_put_if(store, pd_text("k"), pd_text("2"), 0, NULL, NULL, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 1);
  assert_int_equal(version_of(store, "k"), 1);
  end(later, PD_OK, false);
  close_store(store);
}

static void refusal__by_what_readers_see_already_waits_for_nobody(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:");
  pd_error err = {0};
  pd_later *later = stage(store, "k", "1", 0);
  assert_int_equal(pd_put_if(store, pd_text("k"), pd_text("2"), 5, NULL, NULL, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 0);
  assert_int_equal(version_of(store, "k"), 0); /* it is staged still */
  end(later, PD_OK, false);
  close_store(store);
}

static void refusal__never_comes_for_a_write_that_failed(void **state)
{
  (void)state;
  fault_backend_install();
  fault_backend_plan((fault_plan){0});
  pd_store *store = open_store("fault:memory:refusal-fails");
  pd_ack ack;
  pd_later *later = stage(store, "k", "theirs", 0);
  fault_backend_plan((fault_plan){.at = 1, .code = PD_FULL, .ops = FAULT_LOG_APPEND});
  assert_int_equal(pd_put_if(store, pd_text("k"), pd_text("ours"), 0, NULL, &ack, NULL), PD_OK);
  assert_int_equal(ack.version, 1);
  end(later, PD_FULL, false);
  pd_buf value = {0};
  assert_int_equal(pd_get(store, NULL, pd_text("k"), &value, NULL, NULL), PD_OK);
  assert_memory_equal(value.data, "ours", 4);
  pd_buf_done(&value);
  close_store(store);
}

static void refusal__by_a_quota_counts_only_what_is_durable(void **state)
{
  (void)state;
  fault_backend_install();
  fault_backend_plan((fault_plan){0});
  pd_store *store = open_store("fault:memory:refusal-quota");
  pd_note note = {.bytes_max = 12};
  pd_error err = {0};
  uint64_t bytes = 0;
  assert_int_equal(pd_put(store, pd_text("z"), pd_text("1"), &note, NULL, NULL), PD_OK); /* the bytes are known from here on */
  pd_later *later = stage(store, "a", "12345678", 0);
  assert_int_equal(pd_put(store, pd_text("b"), pd_text("12345678"), &note, NULL, &err), PD_QUOTA);
  assert_int_equal(err.actual, 9);
  assert_int_equal(pd_ref_bytes(store, NULL, &bytes, NULL), PD_OK);
  assert_int_equal(bytes, 9);
  end(later, PD_OK, false);
  assert_int_equal(pd_delete(store, pd_text("a"), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
  later = stage(store, "c", "12345678", 0);
  fault_backend_plan((fault_plan){.at = 1, .code = PD_FULL, .ops = FAULT_LOG_APPEND});
  assert_int_equal(pd_put(store, pd_text("b"), pd_text("12345678"), &note, NULL, &err), PD_OK);
  end(later, PD_FULL, false);
  close_store(store);
}

static void refusal__by_the_head_names_one_that_can_be_read(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:");
  pd_error err = {0};
  char hex[PD_ID_HEX_SIZE];
  pd_id before = head_of(store);
  pd_note note = {.expect_head = &before};
  pd_later *later = stage(store, "a", "1", 0);
  assert_int_equal(pd_put(store, pd_text("b"), pd_text("1"), &note, NULL, &err), PD_CONFLICT);
  pd_commit now;
  hex[0] = 0;
  assert_int_equal(pd_resolve(store, "main", &now, NULL), PD_OK);
  pd_id_hex(&now.id, hex);
  hex[12] = 0;
  assert_non_null(strstr(err.message, hex));
  end(later, PD_OK, false);
  close_store(store);
}

static void refusal__in_an_edit_is_one_that_can_be_read(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:");
  pd_error err = {0};
  pd_edit *edit = NULL;
  put(store, "a", "1");
  assert_int_equal(pd_edit_begin(store, NULL, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("a"), pd_text("2"), 1, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("b"), pd_text("2"), 0, NULL), PD_OK);
  pd_later *later = stage(store, "a", "theirs", 1);
  assert_int_equal(pd_edit_commit(edit, NULL, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 2);
  assert_int_equal(version_of(store, "a"), 2);
  assert_int_equal(version_of(store, "b"), 0);
  pd_edit_abort(edit);
  end(later, PD_OK, false);
  close_store(store);
}

static void refusal__of_a_staged_put_is_left_to_one_who_may_wait(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:");
  pd_later *first = stage(store, "k", "1", 0), *none = NULL;
  pd_ack ack;
  pd_error err = {0};
  assert_int_equal(pd_put_later(store, pd_text("k"), pd_text("2"), 0, NULL, &none, &ack, &err), PD_OK);
  assert_int_equal(ack.durability, PD_NOTHING);
  assert_null(none);
  assert_int_equal(pd_put_later(store, pd_text("k"), pd_text("2"), 9, NULL, &none, &ack, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 0);
  end(first, PD_OK, false);
  close_store(store);
}

/* ---- what others have appended ---- */

static void refusal__does_not_rest_on_a_log_that_others_appended_to(void **state)
{
  (void)state;
  pd_store *ours = open_store("memory:refusal-two"), *theirs = open_store("memory:refusal-two");
  pd_error err = {0};
  pd_ack ack;
  pd_later *later = stage(ours, "noise", "1", 0), *none = NULL;
  put(theirs, "k", "1");
  assert_int_equal(pd_put_later(ours, pd_text("k"), pd_text("2"), 1, NULL, &none, &ack, NULL), PD_OK);
  assert_int_equal(ack.durability, PD_NOTHING);
  assert_int_equal(pd_put_if(ours, pd_text("k"), pd_text("2"), 1, NULL, NULL, &err), PD_OK);
  end(later, PD_OK, true);
  later = stage(ours, "noise", "1", 0);
  put(theirs, "k", "3");
  assert_int_equal(pd_put_if(ours, pd_text("k"), pd_text("4"), 2, NULL, NULL, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 3);
  end(later, PD_OK, true);
  later = stage(ours, "noise", "1", 0);
  put(theirs, "gone", "1");
  assert_int_equal(pd_delete(ours, pd_text("gone"), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
  end(later, PD_OK, true);
  later = stage(ours, "noise", "1", 0);
  pd_id head = {{0}};
  put(theirs, "k", "5");
  head = head_of(theirs);
  pd_note note = {.expect_head = &head};
  assert_int_equal(pd_put(ours, pd_text("k"), pd_text("6"), &note, NULL, NULL), PD_OK);
  end(later, PD_OK, true);
  close_store(ours);
  close_store(theirs);
}

static void refusal__of_a_move_does_not_rest_on_a_log_that_others_appended_to(void **state)
{
  (void)state;
  pd_store *ours = open_store("memory:refusal-moves"), *theirs = open_store("memory:refusal-moves");
  pd_later *later = stage(ours, "noise", "1", 0);
  put(theirs, "k", "1");
  put(theirs, "k", "2");
  assert_int_equal(pd_undo(ours, 1, NULL, NULL, NULL), PD_OK); /* there is something to undo: theirs */
  end(later, PD_OK, true);
  later = stage(ours, "noise", "1", 0);
  assert_int_equal(pd_fork(theirs, "side", "main", NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_fork(ours, "side", "main", NULL, NULL, NULL), PD_EXISTS);
  end(later, PD_OK, true);
  later = stage(ours, "noise", "1", 0);
  assert_int_equal(pd_ref_delete(theirs, "side", NULL, NULL), PD_OK);
  assert_int_equal(pd_fork(ours, "side", "main", NULL, NULL, NULL), PD_OK);
  end(later, PD_OK, true);
  close_store(ours);
  close_store(theirs);
}

/* ---- a tail word that lags ---- */

/* A writer that died between its commit and the tail word leaves just this (L2): the record is in the table, the word is the one before. */
typedef struct lagging {
  char *folder, *uri, *path;
  pd_store *ours, *theirs;
} lagging;

static lagging lag_open(void)
{
  lagging l = {.folder = temp_folder_new()};
  l.uri = text_of("sqlite:%s", l.folder);
  l.path = text_of("%s/main.lock", l.folder);
  l.ours = open_store(l.uri);
  l.theirs = open_store(l.uri);
  put(l.ours, "k", "1");
  return l;
}

static void lag_put(lagging *l, const char *key, const char *value)
{
  uint64_t word;
  int fd = open(l->path, O_RDWR);
  assert_int_equal(pread(fd, &word, sizeof word, TAIL_WORD_AT), sizeof word);
  put(l->theirs, key, value);
  assert_int_equal(pwrite(fd, &word, sizeof word, TAIL_WORD_AT), sizeof word);
  close(fd);
}

static void lag_close(lagging *l)
{
  close_store(l->ours);
  close_store(l->theirs);
  temp_folder_free(l->folder);
  free(l->uri);
  free(l->path);
}

static void refusal__now_rests_on_the_log_and_not_on_a_word_that_lags(void **state)
{
  (void)state;
  lagging l = lag_open();
  pd_later *later = NULL;
  pd_ack ack;
  pd_error err = {0};
  lag_put(&l, "k", "2");
  assert_int_equal(version_of(l.ours, "k"), 1); /* it does lag */
  assert_int_equal(pd_put_later(l.ours, pd_text("k"), pd_text("3"), 2, NULL, &later, &ack, &err), PD_OK);
  assert_null(later); /* left to one who may wait */
  assert_int_equal(pd_put_if(l.ours, pd_text("k"), pd_text("3"), 2, NULL, NULL, &err), PD_OK);
  lag_close(&l);
}

static void refusal__of_an_edit_rests_on_the_log_and_not_on_a_word_that_lags(void **state)
{
  (void)state;
  lagging l = lag_open();
  pd_edit *edit = NULL;
  pd_error err = {0};
  lag_put(&l, "k", "2");
  assert_int_equal(pd_edit_begin(l.ours, NULL, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("k"), pd_text("3"), 7, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 2);
  pd_edit_abort(edit);
  lag_put(&l, "k", "3");
  assert_int_equal(pd_edit_begin(l.ours, NULL, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("k"), pd_text("4"), 3, &err), PD_OK);
  assert_int_equal(pd_edit_commit(edit, NULL, &err), PD_OK);
  assert_int_equal(version_of(l.ours, "k"), 4);
  lag_close(&l);
}

typedef struct wish {
  uint64_t version;
  unsigned runs;
} wish;

static pd_code want_version(void *ctx, pd_edit *edit, pd_error *err)
{
  wish *w = ctx;
  w->runs++;
  return pd_edit_put(edit, pd_text("k"), pd_text("mine"), w->version, err);
}

static pd_code do_nothing_yet(void *ctx, pd_edit *edit, pd_error *err)
{
  wish *w = ctx;
  pd_entry entry = {0};
  pd_code code = pd_edit_get(edit, pd_text("k"), NULL, &entry, err);
  w->version = entry.version;
  w->runs++;
  return code;
}

static void refusal__of_an_update_rests_on_the_log_and_not_on_a_word_that_lags(void **state)
{
  (void)state;
  lagging l = lag_open();
  pd_error err = {0};
  wish w = {.version = 2};
  lag_put(&l, "k", "2");
  if (pd_update(l.ours, NULL, want_version, &w, NULL, &err)) fail_msg("%s", err.message);
  assert_int_equal(version_of(l.ours, "k"), 3);
  w = (wish){.version = 9};
  lag_put(&l, "k", "4");
  assert_int_equal(pd_update(l.ours, NULL, want_version, &w, NULL, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 4);
  lag_close(&l);
}

static void refusal__that_there_is_nothing_to_do_rests_on_the_log_too(void **state)
{
  (void)state;
  lagging l = lag_open();
  wish w = {0};
  lag_put(&l, "k", "2");
  assert_int_equal(pd_update(l.ours, NULL, do_nothing_yet, &w, NULL, NULL), PD_OK);
  assert_int_equal(w.version, 2);
  lag_close(&l);
}

/* ---- all at once ---- */

#define THREADS 6
#define INCREMENTS 150

typedef struct counter {
  pd_store *store;
  uint64_t refusals;
  char fault[160];
} counter;

static void *count_up(void *ctx)
{
  counter *c = ctx;
  for (int i = 0; i < INCREMENTS && !*c->fault; i++) {
    for (;;) {
      pd_entry entry = {0};
      pd_error err = {0};
      pd_code code = pd_get(c->store, NULL, pd_text("n"), NULL, &entry, NULL);
      uint64_t before = code ? 0 : entry.version;
      code = pd_put_if(c->store, pd_text("n"), pd_text("x"), before, NULL, NULL, &err);
      if (!code) break;
      c->refusals++;
      uint64_t after = pd_get(c->store, NULL, pd_text("n"), NULL, &entry, NULL) ? 0 : entry.version;
      if (code == PD_CONFLICT && err.actual > before && after >= err.actual) continue;
      snprintf(c->fault, sizeof c->fault, "code %d: read %llu, refused for %llu, then read %llu", code, (unsigned long long)before,
               (unsigned long long)err.actual, (unsigned long long)after);
      return NULL;
    }
  }
  return NULL;
}

static void refusal__of_racing_threads_and_handles_is_always_readable(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *stores[2] = {open_store(uri), open_store(uri)};
  pthread_t threads[THREADS];
  counter counters[THREADS] = {0};
  for (int i = 0; i < THREADS; i++) {
    counters[i].store = stores[i % 2];
    assert_int_equal(pthread_create(&threads[i], NULL, count_up, &counters[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++)
    if (*counters[i].fault) fail_msg("%s", counters[i].fault);
  assert_int_equal(version_of(stores[0], "n"), THREADS * INCREMENTS);
  close_store(stores[0]);
  close_store(stores[1]);
  free(uri);
  temp_folder_free(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(refusal__by_a_version_comes_once_that_version_can_be_read),
    cmocka_unit_test(refusal__by_what_readers_see_already_waits_for_nobody),
    cmocka_unit_test(refusal__never_comes_for_a_write_that_failed),
    cmocka_unit_test(refusal__by_a_quota_counts_only_what_is_durable),
    cmocka_unit_test(refusal__by_the_head_names_one_that_can_be_read),
    cmocka_unit_test(refusal__in_an_edit_is_one_that_can_be_read),
    cmocka_unit_test(refusal__of_a_staged_put_is_left_to_one_who_may_wait),
    cmocka_unit_test(refusal__does_not_rest_on_a_log_that_others_appended_to),
    cmocka_unit_test(refusal__of_a_move_does_not_rest_on_a_log_that_others_appended_to),
    cmocka_unit_test(refusal__now_rests_on_the_log_and_not_on_a_word_that_lags),
    cmocka_unit_test(refusal__of_an_edit_rests_on_the_log_and_not_on_a_word_that_lags),
    cmocka_unit_test(refusal__of_an_update_rests_on_the_log_and_not_on_a_word_that_lags),
    cmocka_unit_test(refusal__that_there_is_nothing_to_do_rests_on_the_log_too),
    cmocka_unit_test(refusal__of_racing_threads_and_handles_is_always_readable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
