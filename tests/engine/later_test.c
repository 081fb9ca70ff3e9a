/* later_test.c: writes in two steps (pd_put_later, pd_later_wait): staged, then waited for. */
#include <perdure/perdure.h>

#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BATCH 32
#define PATIENCE_S 120 /* a machine that does other things */

static bool ignore_record(void *ctx, const pd_record *record)
{
  (void)ctx, (void)record;
  return true;
}

static pd_store *open_store(const char *uri, uint32_t flush_ms)
{
  pd_store *store = NULL;
  pd_options options = {.flush_ms = flush_ms};
  assert_int_equal(pd_store_open(uri, "main", &options, &store, NULL), PD_OK);
  return store;
}

static pd_later *stage(pd_store *store, const char *key, const char *value, uint64_t expect_version, pd_ack *ack)
{
  pd_later *later = NULL;
  assert_int_equal(pd_put_later(store, pd_text(key), pd_text(value), expect_version, NULL, &later, ack, NULL), PD_OK);
  assert_int_equal(ack->durability, PD_STAGED);
  assert_non_null(later);
  return later;
}

static void settle(pd_later *later)
{
  bool again = true;
  assert_int_equal(pd_later_wait(later, &again, NULL), PD_OK);
  assert_false(again);
}

static uint64_t syncs_of(pd_store *store)
{
  pd_stats stats;
  assert_int_equal(pd_store_stats(store, &stats, NULL), PD_OK);
  return stats.syncs;
}

static void later__a_staged_put_is_seen_once_it_was_waited_for(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_ack ack;
  pd_entry entry;
  pd_later *later = stage(store, "plan", "one", 0, &ack);
  assert_ptr_equal(pd_later_store(later), store);
  assert_int_equal(ack.version, 1);
  assert_int_equal(pd_get(store, NULL, pd_text("plan"), NULL, NULL, NULL), PD_NOT_FOUND);
  settle(later);
  assert_int_equal(pd_get(store, NULL, pd_text("plan"), NULL, &entry, NULL), PD_OK);
  assert_int_equal(entry.version, 1);
  char commit[PD_ID_HEX_SIZE];
  assert_int_equal(pd_get(store, pd_id_hex(&ack.commit, commit), pd_text("plan"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void later__one_sync_serves_all_that_were_staged(void **state)
{
  (void)state;
  char *folder = temp_folder_new();
  char uri[4200];
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  pd_store *store = open_store(uri, 0);
  pd_later *laters[BATCH];
  pd_ack ack;
  char key[16];
  assert_int_equal(pd_put(store, pd_text("first"), pd_text("1"), NULL, NULL, NULL), PD_OK);
  uint64_t before = syncs_of(store);
  for (int i = 0; i < BATCH; i++) {
    snprintf(key, sizeof key, "key.%d", i);
    laters[i] = stage(store, key, key, 0, &ack);
  }
  for (int i = BATCH; i-- > 0;) settle(laters[i]); /* in any order */
  assert_int_equal(syncs_of(store), before + 1);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  store = open_store(uri, 0);
  for (int i = 0; i < BATCH; i++) {
    snprintf(key, sizeof key, "key.%d", i);
    assert_int_equal(pd_get(store, NULL, pd_text(key), NULL, NULL, NULL), PD_OK);
  }
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  temp_folder_free(folder);
}

static void later__a_condition_looks_at_what_is_staged(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_ack ack;
  pd_error err = {0};
  pd_later *first = stage(store, "n", "1", 0, &ack), *second = stage(store, "n", "2", 1, &ack), *none = NULL;
  assert_int_equal(ack.version, 2);
  assert_int_equal(pd_put_later(store, pd_text("n"), pd_text("3"), 0, NULL, &none, &ack, &err), PD_OK); /* others cannot read why yet */
  assert_int_equal(ack.durability, PD_NOTHING);
  assert_null(none);
  assert_int_equal(pd_put_later(store, pd_text("n"), pd_text("3"), 7, NULL, &none, &ack, &err),
                   PD_CONFLICT); /* that it is not at 7 they can */
  assert_null(none);
  assert_int_equal(err.actual, 0);
  settle(first);
  settle(second);
  assert_int_equal(pd_put_later(store, pd_text("n"), pd_text("3"), 1, NULL, &none, &ack, &err), PD_CONFLICT);
  assert_int_equal(err.actual, 2);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void later__what_another_handle_wrote_first_asks_to_begin_anew(void **state)
{
  (void)state;
  pd_store *ours = open_store("memory:later-race", 0), *theirs = open_store("memory:later-race", 0);
  pd_ack ack;
  bool again = false;
  pd_later *later = stage(ours, "n", "ours", 0, &ack);
  assert_int_equal(pd_put(theirs, pd_text("n"), pd_text("theirs"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_later_wait(later, &again, NULL), PD_OK);
  assert_true(again);
  pd_later *none = NULL;
  assert_int_equal(pd_put_later(ours, pd_text("n"), pd_text("ours"), 0, NULL, &none, &ack, NULL), PD_CONFLICT);
  settle(stage(ours, "n", "ours", 1, &ack));
  assert_int_equal(pd_store_close(ours, NULL), PD_OK);
  assert_int_equal(pd_store_close(theirs, NULL), PD_OK);
}

static void later__a_disk_that_refuses_fails_all_that_wait_and_keeps_nothing(void **state)
{
  (void)state;
  fault_backend_install();
  fault_backend_plan((fault_plan){0});
  pd_store *store = open_store("fault:memory:later-full", 0);
  pd_ack ack;
  pd_error err = {0};
  bool again = false;
  assert_int_equal(pd_put(store, pd_text("a"), pd_text("0"), NULL, NULL, NULL), PD_OK);
  pd_later *first = stage(store, "a", "1", 1, &ack), *second = stage(store, "b", "1", 0, &ack);
  fault_backend_plan((fault_plan){.at = 1, .code = PD_FULL, .ops = FAULT_LOG_APPEND});
  assert_int_equal(pd_later_wait(first, &again, &err), PD_FULL);
  assert_int_equal(err.code, PD_FULL);
  assert_int_equal(pd_later_wait(second, &again, &err), PD_FULL);
  assert_int_equal(pd_get(store, NULL, pd_text("b"), NULL, NULL, NULL), PD_NOT_FOUND);
  settle(stage(store, "a", "1", 1, &ack)); /* and it is well again */
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void later__what_cannot_be_staged_at_once_is_left_to_pd_put_if(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0), *buffered = open_store("memory:", 1000);
  pd_ack ack;
  pd_later *later = NULL;
  size_t size = 1u << 20;
  char *large = calloc(1, size);
  assert_non_null(large);
  assert_int_equal(pd_put_later(store, pd_text("big"), (pd_bytes){large, size}, 0, NULL, &later, &ack, NULL), PD_OK);
  assert_int_equal(ack.durability, PD_NOTHING);
  assert_null(later);
  assert_int_equal(pd_get(store, NULL, pd_text("big"), NULL, NULL, NULL), PD_NOT_FOUND);
  assert_int_equal(pd_put_later(buffered, pd_text("k"), pd_text("v"), 0, NULL, &later, &ack, NULL), PD_OK);
  assert_int_equal(ack.durability, PD_BUFFERED);
  assert_null(later);
  assert_int_equal(pd_get(buffered, NULL, pd_text("k"), NULL, NULL, NULL), PD_OK);
  free(large);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  assert_int_equal(pd_store_close(buffered, NULL), PD_OK);
}

/* Nobody is there yet to flush what was staged: whoever needs it flushed does it. */
static void later__a_reader_flushes_what_is_staged_when_another_handle_has_appended(void **state)
{
  (void)state;
  pd_store *ours = open_store("memory:later-reader", 0), *theirs = open_store("memory:later-reader", 0);
  pd_ack ack;
  bool again = false;
  pd_log_query query = {.limit = 1};
  pd_edit *edit = NULL;
  pd_later *later = stage(ours, "mine", "1", 0, &ack);
  assert_int_equal(pd_put(theirs, pd_text("theirs"), pd_text("1"), NULL, NULL, NULL), PD_OK);
  alarm(PATIENCE_S); /* a deadlock ends the program */
  assert_int_equal(pd_get(ours, NULL, pd_text("theirs"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_later_wait(later, &again, NULL), PD_OK);
  assert_true(again);
  later = stage(ours, "mine", "1", 0, &ack);
  assert_int_equal(pd_put(theirs, pd_text("more"), pd_text("1"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_edit_begin(ours, NULL, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_get(edit, pd_text("more"), NULL, NULL, NULL), PD_OK);
  pd_edit_abort(edit);
  assert_int_equal(pd_later_wait(later, &again, NULL), PD_OK);
  assert_true(again);
  later = stage(ours, "mine", "1", 0, &ack);
  assert_int_equal(pd_put(theirs, pd_text("again"), pd_text("1"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_log(ours, &query, ignore_record, NULL, NULL), PD_OK);
  assert_int_equal(pd_later_wait(later, &again, NULL), PD_OK);
  alarm(0);
  assert_int_equal(pd_store_close(ours, NULL), PD_OK);
  assert_int_equal(pd_store_close(theirs, NULL), PD_OK);
}

/* ---- with others that wait in the ordinary way ---- */

#define THREADS 4
#define ROUNDS 200

typedef struct putter {
  pd_store *store;
  int index;
} putter;

static void *keep_putting(void *ctx)
{
  putter *p = ctx;
  char key[16];
  snprintf(key, sizeof key, "put.%d", p->index);
  for (int i = 0; i < ROUNDS; i++)
    if (pd_put(p->store, pd_text(key), pd_text("v"), NULL, NULL, NULL)) abort();
  return NULL;
}

static void *keep_staging(void *ctx)
{
  putter *p = ctx;
  char key[16];
  for (int i = 0; i < ROUNDS; i++) {
    pd_later *laters[8];
    pd_ack ack;
    bool again;
    for (int k = 0; k < 8; k++) {
      snprintf(key, sizeof key, "staged.%d.%d", p->index, k);
      if (pd_put_later(p->store, pd_text(key), pd_text("v"), (uint64_t)i, NULL, &laters[k], &ack, NULL) || !laters[k]) abort();
    }
    for (int k = 0; k < 8; k++)
      if (pd_later_wait(laters[k], &again, NULL) || again) abort();
  }
  return NULL;
}

static void later__threads_of_both_kinds_never_wait_for_each_other_in_vain(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pthread_t threads[THREADS];
  putter putters[THREADS];
  for (int i = 0; i < THREADS; i++) {
    putters[i] = (putter){store, i};
    assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? keep_staging : keep_putting, &putters[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    char key[32];
    pd_entry entry;
    snprintf(key, sizeof key, i % 2 ? "staged.%d.7" : "put.%d", i);
    assert_int_equal(pd_get(store, NULL, pd_text(key), NULL, &entry, NULL), PD_OK);
    assert_int_equal(entry.version, ROUNDS);
  }
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

/* ---- a note's `later` ---- */

static uint64_t number_at(pd_store *store, const char *key)
{
  char text[32] = "";
  pd_buf value = {0};
  pd_code code = pd_get(store, NULL, pd_text(key), &value, NULL, NULL);
  if (!code) memcpy(text, value.data, value.size < sizeof text ? value.size : sizeof text - 1);
  pd_buf_done(&value);
  return strtoull(text, NULL, 10);
}

/* Counts `ctx` up, from what was staged before. */
static pd_code count_up(void *ctx, pd_edit *edit, pd_error *err)
{
  char text[32] = "";
  pd_buf value = {0};
  pd_code code = pd_edit_get(edit, pd_text(ctx), &value, NULL, err);
  if (!code) memcpy(text, value.data, value.size < sizeof text ? value.size : sizeof text - 1);
  pd_buf_done(&value);
  if (code && code != PD_NOT_FOUND) return code;
  snprintf(text, sizeof text, "%llu", strtoull(text, NULL, 10) + 1);
  return pd_edit_put(edit, pd_text(ctx), pd_text(text), PD_ANY_VERSION, err);
}

static void note__updates_are_staged_on_each_other_and_share_a_sync(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_later *later[BATCH] = {0};
  char key[] = "n";
  pd_ack ack;
  uint64_t syncs = syncs_of(store);
  for (size_t i = 0; i < BATCH; i++) {
    pd_note note = {.later = &later[i]};
    assert_int_equal(pd_update(store, &note, count_up, key, &ack, NULL), PD_OK);
    assert_int_equal(ack.durability, PD_STAGED);
    assert_non_null(later[i]);
  }
  assert_int_equal(number_at(store, "n"), 0);
  for (size_t i = BATCH; i-- > 0;) settle(later[i]);
  assert_int_equal(number_at(store, "n"), BATCH);
  assert_int_equal(syncs_of(store), syncs + 1);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void note__an_invocation_of_many_keys_and_a_delete_are_staged(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_later *many = NULL, *gone = NULL;
  pd_note note = {.later = &many};
  pd_edit *edit = NULL;
  pd_ack ack;
  assert_int_equal(pd_put(store, pd_text("old"), pd_text("1"), NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_edit_begin(store, &note, &edit, NULL), PD_OK);
  for (char key[] = "a"; *key < 'f'; ++*key) assert_int_equal(pd_edit_put(edit, pd_text(key), pd_text("1"), 0, NULL), PD_OK);
  assert_int_equal(pd_edit_commit(edit, &ack, NULL), PD_OK);
  assert_int_equal(ack.durability, PD_STAGED);
  note.later = &gone;
  assert_int_equal(pd_delete(store, pd_text("old"), 1, &note, &ack, NULL), PD_OK);
  assert_non_null(gone);
  assert_int_equal(number_at(store, "old"), 1);
  settle(many);
  settle(gone);
  assert_int_equal(number_at(store, "e"), 1);
  assert_int_equal(number_at(store, "old"), 0);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void want_would_wait(pd_store *store, pd_update_fn fn, void *ctx)
{
  pd_later *later = NULL;
  pd_note note = {.later = &later};
  pd_error err = {0};
  assert_int_equal(pd_update(store, &note, fn, ctx, NULL, &err), PD_LIMIT);
  assert_string_equal(pd_error_name(&err), "WouldWait");
  assert_null(later);
}

static pd_code write_nothing(void *ctx, pd_edit *edit, pd_error *err)
{
  (void)edit, (void)err;
  ++*(unsigned *)ctx;
  return PD_OK;
}

static pd_code refuse(void *ctx, pd_edit *edit, pd_error *err)
{
  (void)ctx, (void)edit;
  if (err) err->code = PD_QUOTA;
  return PD_QUOTA;
}

/* UPD-2 */
static void note__an_answer_that_rests_on_what_is_staged_is_not_given(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_ack ack;
  unsigned runs = 0;
  pd_later *first = stage(store, "k", "v", 0, &ack), *none = NULL;
  pd_note note = {.later = &none};
  want_would_wait(store, write_nothing, &runs);
  want_would_wait(store, refuse, NULL);
  settle(first);
  assert_int_equal(pd_update(store, &note, write_nothing, &runs, &ack, NULL), PD_OK);
  assert_int_equal(ack.durability, PD_NOTHING);
  assert_int_equal(pd_update(store, &note, refuse, NULL, NULL, NULL), PD_QUOTA);
  assert_null(none);
  assert_int_equal(runs, 2); /* each was one round */
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

typedef struct holder {
  pd_store *store;
  sem_t has_turn, may_go;
} holder;

static pd_code hold_turn(void *ctx, pd_edit *edit, pd_error *err)
{
  holder *h = ctx;
  sem_post(&h->has_turn);
  while (sem_wait(&h->may_go)) {}
  return pd_edit_put(edit, pd_text("held"), pd_text("1"), PD_ANY_VERSION, err);
}

static void *hold_on(void *ctx)
{
  holder *h = ctx;
  return pd_update(h->store, NULL, hold_turn, h, NULL, NULL) ? ctx : NULL;
}

static void note__a_turn_that_another_has_is_not_waited_for(void **state)
{
  (void)state;
  holder h = {.store = open_store("memory:", 0)};
  pthread_t thread;
  void *failed;
  char key[] = "n";
  sem_init(&h.has_turn, 0, 0);
  sem_init(&h.may_go, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, hold_on, &h), 0);
  while (sem_wait(&h.has_turn)) {}
  want_would_wait(h.store, count_up, key);
  sem_post(&h.may_go);
  pthread_join(thread, &failed);
  assert_null(failed);
  assert_int_equal(pd_store_close(h.store, NULL), PD_OK);
}

static void note__its_second_commit_is_refused(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 0);
  pd_later *later = NULL;
  pd_note note = {.later = &later};
  assert_int_equal(pd_put(store, pd_text("a"), pd_text("1"), &note, NULL, NULL), PD_OK);
  pd_later *first = later;
  assert_int_equal(pd_put(store, pd_text("b"), pd_text("1"), &note, NULL, NULL), PD_INVALID);
  assert_ptr_equal(later, first);
  settle(first);
  assert_int_equal(number_at(store, "a"), 1);
  assert_int_equal(number_at(store, "b"), 0);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void note__a_value_in_pieces_would_wait(void **state)
{
  (void)state;
  static char large[(size_t)1 << 20];
  pd_store *store = open_store("memory:", 0);
  pd_later *later = NULL;
  pd_note note = {.later = &later};
  pd_error err = {0};
  memset(large, 'x', sizeof large);
  assert_int_equal(pd_put(store, pd_text("a"), (pd_bytes){large, sizeof large}, &note, NULL, &err), PD_LIMIT);
  assert_string_equal(pd_error_name(&err), "WouldWait");
  assert_null(later);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

/* What was staged on a batch that fails is void: begin anew (UPD-1). */
static void note__updates_behind_a_failed_sync_fail_or_begin_anew(void **state)
{
  (void)state;
  fault_backend_install();
  fault_backend_plan((fault_plan){0});
  pd_store *store = open_store("fault:memory:note", 0);
  pd_later *later[2] = {0};
  char key[] = "n";
  for (size_t i = 0; i < 2; i++) {
    pd_note note = {.later = &later[i]};
    assert_int_equal(pd_update(store, &note, count_up, key, NULL, NULL), PD_OK);
  }
  fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_LOG_APPEND});
  bool again;
  for (size_t i = 0; i < 2; i++) assert_int_equal(pd_later_wait(later[i], &again, NULL), PD_STORAGE);
  assert_int_equal(pd_update(store, NULL, count_up, key, NULL, NULL), PD_OK);
  assert_int_equal(number_at(store, "n"), 1);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

static void note__a_buffered_commit_is_done(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:", 60000);
  pd_later *later = NULL;
  pd_note note = {.later = &later};
  char key[] = "n";
  pd_ack ack;
  for (unsigned i = 1; i <= 2; i++) {
    assert_int_equal(pd_update(store, &note, count_up, key, &ack, NULL), PD_OK);
    assert_int_equal(ack.durability, PD_BUFFERED);
    assert_null(later);
    assert_int_equal(number_at(store, "n"), i);
  }
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(later__a_staged_put_is_seen_once_it_was_waited_for),
    cmocka_unit_test(later__one_sync_serves_all_that_were_staged),
    cmocka_unit_test(later__a_condition_looks_at_what_is_staged),
    cmocka_unit_test(later__what_another_handle_wrote_first_asks_to_begin_anew),
    cmocka_unit_test(later__a_disk_that_refuses_fails_all_that_wait_and_keeps_nothing),
    cmocka_unit_test(later__what_cannot_be_staged_at_once_is_left_to_pd_put_if),
    cmocka_unit_test(later__a_reader_flushes_what_is_staged_when_another_handle_has_appended),
    cmocka_unit_test(later__threads_of_both_kinds_never_wait_for_each_other_in_vain),
    cmocka_unit_test(note__updates_are_staged_on_each_other_and_share_a_sync),
    cmocka_unit_test(note__an_invocation_of_many_keys_and_a_delete_are_staged),
    cmocka_unit_test(note__an_answer_that_rests_on_what_is_staged_is_not_given),
    cmocka_unit_test(note__a_turn_that_another_has_is_not_waited_for),
    cmocka_unit_test(note__its_second_commit_is_refused),
    cmocka_unit_test(note__a_value_in_pieces_would_wait),
    cmocka_unit_test(note__updates_behind_a_failed_sync_fail_or_begin_anew),
    cmocka_unit_test(note__a_buffered_commit_is_done),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
