/*
 * view_test.c: the tree of one commit, read while others write, while an append is on its way, and while gc and erasure are at work.
 * A disk that takes its time is the gate (gate_backend.h): whoever waits for it is found by a time limit that is long.
 */
#include "base/base.h"
#include "base/buf.h"
#include "engine/store.h"
#include "support/gate_backend.h"
#include "support/temp_folder.h"

#include <perdure/bundle.h>
#include <perdure/merge.h>
#include <perdure/proof.h>
#include <perdure/retention.h>
#include <perdure/view.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define WAIT_S 20 /* for what takes no time if nothing keeps it */
#define COMMITS 40

static pd_error err;

#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    if (call) fail_msg("%s: %s", #call, err.message);                                                                                      \
  } while (0)

static pd_store *open_store(const char *uri, uint32_t flush_ms)
{
  pd_store *store = NULL;
  OK(pd_store_open(uri, "main", &(pd_options){.flush_ms = flush_ms}, &store, &err));
  return store;
}

static pd_commit put(pd_store *store, const char *key, const char *value)
{
  pd_ack ack;
  OK(pd_put(store, pd_text(key), pd_text(value), NULL, &ack, &err));
  return (pd_commit){ack.commit, ack.tree, ack.seq};
}

static pd_commit put_number(pd_store *store, const char *key, int number)
{
  char text[32];
  snprintf(text, sizeof text, "%d", number);
  return put(store, key, text);
}

static void want(pd_view *view, const char *key, const char *expected)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_code code = pd_view_get(view, pd_text(key), &value, NULL, &err);
  if (!expected) {
    assert_int_equal(code, PD_NOT_FOUND);
    return;
  }
  if (code) fail_msg("%s: %s", key, err.message);
  if (!pd_bytes_equal(pd_buf_bytes(&value), pd_text(expected)))
    fail_msg("%s is '%.*s', not '%s'", key, (int)value.size, (const char *)value.data, expected);
}

static size_t count_keys(pd_view *view)
{
  pd_iter *iter = NULL;
  pd_entry entry;
  size_t count = 0;
  OK(pd_view_scan(view, NULL, &iter, &err));
  while (pd_iter_next(iter, &entry, NULL, NULL) == PD_OK) count++;
  pd_iter_close(iter);
  return count;
}

/* `n` is the number of the commit, `key/…` one more each time. */
static pd_store *fill(const char *uri, uint32_t flush_ms, pd_commit commits[COMMITS])
{
  pd_store *store = open_store(uri, flush_ms);
  char key[32];
  for (int i = 0; i < COMMITS; i++) {
    snprintf(key, sizeof key, "key/%d", i);
    put_number(store, key, i);
    commits[i] = put_number(store, "n", i);
  }
  return store;
}

/* ---- one moment ---- */

static void view__stays_at_its_commit(void **state)
{
  (void)state;
  pd_commit commits[COMMITS];
  pd_store *store = fill("memory:view-stays", 0, commits);
  pd_view *view = NULL;
  OK(pd_view_open(store, NULL, &view, &err));
  pd_iter *iter = NULL;
  OK(pd_view_scan(view, &(pd_scan){.prefix = pd_text("key/")}, &iter, &err));
  put_number(store, "n", 99);
  OK(pd_delete(store, pd_text("key/0"), PD_ANY_VERSION, NULL, NULL, &err));
  want(view, "n", "39");
  want(view, "key/0", "0");
  want(view, "no such key", NULL);
  assert_int_equal(count_keys(view), COMMITS + 1);
  pd_commit commit = pd_view_commit(view);
  assert_memory_equal(&commit, &commits[COMMITS - 1], sizeof commit);
  pd_view_close(view);
  pd_entry entry;
  pd_bytes value;
  OK(pd_iter_next(iter, &entry, &value, &err)); /* it outlives its view */
  assert_true(pd_bytes_equal(entry.key, pd_text("key/0")) && pd_bytes_equal(value, pd_text("0")));
  pd_iter_close(iter);
  pd_view_close(NULL);
  OK(pd_store_close(store, &err));
}

static void view__is_opened_by_text_by_commit_and_by_record(void **state)
{
  (void)state;
  pd_commit commits[COMMITS];
  pd_store *store = fill("memory:view-ways", 0, commits);
  char texts[3][PD_ID_HEX_SIZE] = {"main~30"};
  snprintf(texts[1], sizeof texts[1], "#%llu", (unsigned long long)commits[24].seq);
  pd_id_hex(&commits[24].id, texts[2]);
  for (int i = 0; i < 5; i++) {
    pd_view *view = NULL;
    if (i < 3) OK(pd_view_open(store, texts[i], &view, &err));
    if (i == 3) OK(pd_view_open_commit(store, &commits[24], &view, &err));
    if (i == 4) OK(pd_view_open_record(store, commits[24].seq, &view, &err));
    pd_commit commit = pd_view_commit(view);
    assert_true(pd_id_equal(&commit.id, &commits[24].id) && pd_id_equal(&commit.tree, &commits[24].tree));
    want(view, "n", "24");
    want(view, "key/25", NULL);
    assert_int_equal(count_keys(view), 26);
    want(view, "n", "24");
    pd_view_close(view);
  }
  OK(pd_store_close(store, &err));
}

static void view__of_what_is_not_there_is_refused(void **state)
{
  (void)state;
  pd_commit commits[COMMITS];
  pd_store *store = fill("memory:view-none", 0, commits);
  pd_view *view = NULL;
  pd_commit later = {.seq = 100000};
  assert_int_equal(pd_view_open(store, "no/such/ref", &view, &err), PD_NOT_FOUND);
  assert_int_equal(pd_view_open(store, "main~100000", &view, &err), PD_NOT_FOUND);
  assert_int_equal(pd_view_open(store, "@@", &view, &err), PD_INVALID);
  assert_int_equal(pd_view_open_record(store, 100000, &view, &err), PD_NOT_FOUND);
  assert_int_equal(pd_view_open_record(store, 1, &view, &err), PD_NOT_FOUND); /* the fork that made main */
  assert_int_equal(pd_view_open_commit(store, &later, &view, &err), PD_NOT_FOUND);
  assert_null(view);
  OK(pd_view_open(store, "root", &view, &err));
  assert_int_equal(count_keys(view), 0);
  assert_int_equal(pd_view_get(view, pd_text(""), NULL, NULL, &err), PD_INVALID);
  pd_view_close(view);
  OK(pd_store_close(store, &err));
}

static void view__of_an_invocation_is_what_it_began_on(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:view-edit", 0);
  put(store, "a", "1");
  pd_edit *edit = NULL;
  OK(pd_edit_begin(store, NULL, &edit, &err));
  OK(pd_edit_put(edit, pd_text("a"), pd_text("2"), PD_ANY_VERSION, &err));
  put(store, "a", "3");
  want(pd_edit_view(edit), "a", "1");
  assert_int_equal(count_keys(pd_edit_view(edit)), 1);
  pd_edit_abort(edit);
  OK(pd_store_close(store, &err));
}

/* ---- beside an append that takes its time ---- */

typedef struct scene {
  pd_store *store;
  const pd_commit *commits;
  void (*read)(struct scene *sc);
  sem_t done;
} scene;

static void read_head(scene *sc)
{
  pd_view *view = NULL;
  OK(pd_view_open(sc->store, "main", &view, &err));
  want(view, "n", "39"); /* what is on its way is not seen */
  want(view, "new", NULL);
  assert_int_equal(count_keys(view), COMMITS + 1);
  pd_view_close(view);
}

static void read_past(scene *sc)
{
  pd_view *view = NULL;
  OK(pd_view_open(sc->store, "main~30", &view, &err));
  want(view, "n", "24");
  assert_int_equal(count_keys(view), 26);
  pd_view_close(view);
}

static void read_commit(scene *sc)
{
  pd_view *view = NULL;
  OK(pd_view_open_commit(sc->store, &sc->commits[10], &view, &err));
  want(view, "n", "10");
  assert_int_equal(count_keys(view), 12);
  pd_view_close(view);
  OK(pd_view_open_record(sc->store, sc->commits[5].seq, &view, &err));
  want(view, "n", "5");
  pd_view_close(view);
}

static void read_iter(scene *sc)
{
  pd_iter *iter = NULL;
  OK(pd_iter_open(sc->store, "main~10", NULL, &iter, &err));
  pd_iter_close(iter);
}

static bool see_record(void *ctx, const pd_record *record)
{
  (void)record;
  ++*(unsigned *)ctx;
  return true;
}

static bool see_difference(void *ctx, const pd_difference *difference)
{
  (void)difference;
  ++*(unsigned *)ctx;
  return true;
}

static bool see_version(void *ctx, const pd_version_info *version)
{
  (void)version;
  ++*(unsigned *)ctx;
  return true;
}

static bool see_line(void *ctx, const pd_blame_line *line)
{
  (void)line;
  ++*(unsigned *)ctx;
  return true;
}

static void read_get(scene *sc)
{
  bool has = false;
  OK(pd_has(sc->store, "main~10", pd_text("n"), &has, &err));
  assert_true(has);
}

static void read_version(scene *sc)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  OK(pd_get_version(sc->store, NULL, pd_text("n"), 3, &value, NULL, &err));
  assert_true(pd_bytes_equal(pd_buf_bytes(&value), pd_text("2")));
}

static void read_resolve(scene *sc)
{
  pd_commit commit;
  OK(pd_resolve(sc->store, "main~20", &commit, &err));
  OK(pd_resolve(sc->store, "main", &commit, &err));
  assert_true(pd_id_equal(&commit.id, &sc->commits[COMMITS - 1].id));
}

static void read_log(scene *sc)
{
  unsigned count = 0;
  OK(pd_log(sc->store, NULL, see_record, &count, &err));
  assert_int_equal(count, 2 * COMMITS);
  count = 0;
  OK(pd_log(sc->store, &(pd_log_query){.whole_store = true}, see_record, &count, &err));
  assert_int_equal(count, 2 * COMMITS + 1);
  OK(pd_log(sc->store, &(pd_log_query){.at = "main~20"}, see_record, &count, &err));
  OK(pd_show(sc->store, "main~5", see_record, &count, &err));
}

static void read_history(scene *sc)
{
  unsigned count = 0;
  OK(pd_history(sc->store, NULL, pd_text("n"), 0, see_version, &count, &err));
  assert_int_equal(count, COMMITS);
  OK(pd_history_values(sc->store, "main~20", pd_text("n"), 0, see_version, &count, &err));
}

static void read_diff(scene *sc)
{
  unsigned count = 0;
  OK(pd_diff(sc->store, "main~20", "main", see_difference, &count, &err));
  assert_int_equal(count, 11);
}

static void read_blame(scene *sc)
{
  unsigned count = 0;
  OK(pd_blame(sc->store, "main", pd_text("n"), see_line, &count, &err));
  assert_int_equal(count, 1);
}

static void read_proofs(scene *sc)
{
  CLEANUP(pd_buf_done) pd_buf proof = {0};
  OK(pd_prove(sc->store, "main~4", pd_text("n"), true, &proof, &err));
  OK(pd_prove_descent(sc->store, "main~4", "main", &proof, &err));
}

static void read_merge(scene *sc)
{
  pd_commit bases[2];
  size_t count;
  OK(pd_common_ancestors(sc->store, "main", "main~7", bases, 2, &count, &err));
  pd_merge_options dry = {.is_dry_run = true};
  OK(pd_revert(sc->store, "main~1", &dry, NULL, NULL, &err));
}

static void read_signed(scene *sc)
{
  CLEANUP(pd_buf_done) pd_buf document = {0};
  pd_sign_key *key = NULL;
  pd_signed_head head;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  OK(pd_sign_key_make(uri, &err));
  OK(pd_sign_key_open(uri, &key, &err));
  pd_public_key public_key = pd_sign_key_public(key);
  OK(pd_sign_head(sc->store, key, "main", false, &document, &err));
  OK(pd_check_signed_head(pd_buf_bytes(&document), &public_key, &head, &err));
  OK(pd_verify_head(sc->store, &head, &err));
  assert_true(pd_id_equal(&head.commit, &sc->commits[COMMITS - 1].id));
  pd_sign_key_free(key);
  free(uri);
  temp_folder_free(folder);
}

static void read_bytes(scene *sc)
{
  uint64_t bytes;
  OK(pd_ref_bytes(sc->store, NULL, &bytes, &err));
  assert_int_equal(bytes, 10 + 30 * 2 + 2);
}

static void read_verify(scene *sc)
{
  OK(pd_verify(sc->store, NULL, NULL, &err));
}

static void read_export(scene *sc)
{
  FILE *file = tmpfile();
  assert_non_null(file);
  OK(pd_export(sc->store, fileno(file), &(pd_export_options){.is_all = true}, NULL, &err));
  fclose(file);
}

static void *run_read(void *ctx)
{
  scene *sc = ctx;
  sc->read(sc);
  sem_post(&sc->done);
  return NULL;
}

static void *put_new(void *ctx)
{
  pd_error why;
  if (pd_put(ctx, pd_text("new"), pd_text("1"), NULL, NULL, &why)) abort();
  return NULL;
}

static bool ends_in_time(sem_t *sem)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WAIT_S;
  return sem_timedwait(sem, &until) == 0;
}

/* While an append hangs the read ends, and the next commit can be staged behind it. */
static bool passes_the_append(pd_store *store, const pd_commit *commits, const char *name, void (*read)(scene *sc))
{
  scene sc = {.store = store, .commits = commits, .read = read};
  pthread_t writer, reader;
  pd_later *later = NULL;
  pd_ack ack;
  bool again = false;
  sem_init(&sc.done, 0, 0);
  gate_shut(GATE_LOG_APPEND);
  assert_int_equal(pthread_create(&writer, NULL, put_new, store), 0);
  gate_await(1);
  assert_int_equal(pthread_create(&reader, NULL, run_read, &sc), 0);
  bool passes = ends_in_time(&sc.done);
  if (!passes) print_error("%s waited for an append\n", name); /* what it finds afterwards may end the test in its thread */
  if (passes) {
    OK(pd_put_later(store, pd_text("later"), pd_text("1"), PD_ANY_VERSION, NULL, &later, &ack, &err));
    assert_non_null(later); /* nobody keeps commits from being staged */
  }
  gate_open();
  if (later) OK(pd_later_wait(later, &again, &err));
  pthread_join(writer, NULL);
  pthread_join(reader, NULL);
  return passes;
}

static void view__is_taken_and_read_while_an_append_is_on_its_way(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    void (*read)(scene *sc);
  } reads[] = {
    {"a view of the head", read_head},
    {"of the past", read_past},
    {"of a commit", read_commit},
    {"an iterator", read_iter},
    {"get", read_get},
    {"get_version", read_version},
    {"resolve", read_resolve},
    {"log", read_log},
    {"history", read_history},
    {"diff", read_diff},
    {"blame", read_blame},
    {"proofs", read_proofs},
    {"a dry merge", read_merge},
    {"signed heads", read_signed},
    {"ref_bytes", read_bytes},
    {"verify", read_verify},
    {"export", read_export},
  };
  unsigned waited = 0;
  gate_backend_install();
  for (size_t i = 0; i < COUNT_OF(reads); i++) {
    char uri[64];
    pd_commit commits[COMMITS];
    snprintf(uri, sizeof uri, "gate:memory:view-append-%zu", i);
    pd_store *store = fill(uri, 0, commits);
    waited += !passes_the_append(store, commits, reads[i].name, reads[i].read);
    OK(pd_store_close(store, &err));
  }
  assert_int_equal(waited, 0);
}

/* ---- buffered ---- */

static void view__of_a_buffered_store_sees_what_was_acknowledged(void **state)
{
  (void)state;
  pd_commit commits[COMMITS];
  gate_backend_install();
  pd_store *store = fill("gate:memory:view-buffered", 600000, commits);
  gate_shut(GATE_LOG_APPEND); /* none of this needs the disk */
  char hex[PD_ID_HEX_SIZE];
  for (int i = 0; i < 3; i++) {
    pd_view *view = NULL;
    if (i == 0) OK(pd_view_open(store, "main", &view, &err));
    if (i == 1) OK(pd_view_open(store, pd_id_hex(&commits[COMMITS - 1].id, hex), &view, &err));
    if (i == 2) OK(pd_view_open_record(store, commits[COMMITS - 1].seq, &view, &err));
    assert_int_equal(count_keys(view), COMMITS + 1);
    want(view, "n", "39");
    pd_view_close(view);
  }
  gate_open();
  assert_true(store->log_seq < commits[20].seq);
  pd_view *view = NULL;
  OK(pd_view_open_commit(store, &commits[20], &view, &err)); /* a past that was never in the log */
  put_number(store, "n", 40);
  want(view, "n", "20");
  assert_int_equal(count_keys(view), 22);
  pd_view_close(view);
  put_number(store, "n", 41);
  OK(pd_view_open(store, "main~1", &view, &err));
  want(view, "n", "40");
  pd_view_close(view);
  OK(pd_store_close(store, &err));
}

/* A value that goes to the bag first is read on its way there. */
static void view__of_a_buffered_store_reads_large_values_before_they_are_stored(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char *large = calloc(1, 20001);
  assert_non_null(large);
  memset(large, 'x', 20000);
  gate_backend_install();
  pd_store *store = open_store("gate:memory:view-large", 600000);
  put(store, "doc", large);
  put(store, "doc", "small");
  gate_shut(GATE_LOG_APPEND);
  OK(pd_get_version(store, "main", pd_text("doc"), 1, &value, NULL, &err));
  gate_open();
  assert_int_equal(value.size, 20000);
  free(large);
  OK(pd_store_close(store, &err));
}

/* ---- gc and erasure ---- */

static void view__of_what_gc_took_is_retired(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_commit commits[COMMITS];
  pd_store *store = fill(uri, 0, commits), *other = open_store(uri, 0);
  pd_view *old = NULL, *head = NULL, *scanned = NULL;
  OK(pd_view_open_commit(store, &commits[3], &old, &err));
  OK(pd_view_open_commit(store, &commits[4], &scanned, &err));
  OK(pd_view_open(store, "main", &head, &err));
  assert_int_equal(count_keys(scanned), 6);
  OK(pd_gc(other, &(pd_gc_policy){.keep_last = 2}, NULL, &err));
  want(head, "n", "39"); /* kept: it is one of the last two */
  put(store, "n", "heard of it");
  want(head, "n", "39");
  assert_int_equal(count_keys(head), COMMITS + 1);
  pd_iter *iter = NULL;
  assert_int_equal(pd_view_get(old, pd_text("n"), NULL, NULL, &err), PD_RETIRED);
  assert_int_equal(pd_view_scan(old, NULL, &iter, &err), PD_RETIRED);
  assert_int_equal(pd_view_get(scanned, pd_text("n"), NULL, NULL, &err), PD_RETIRED);
  assert_int_equal(pd_view_open_commit(store, &commits[3], &old, &err), PD_RETIRED);
  assert_int_equal(pd_view_open_record(store, commits[3].seq, &old, &err), PD_RETIRED);
  pd_view_close(old);
  pd_view_close(scanned);
  pd_view_close(head);
  OK(pd_store_close(other, &err));
  OK(pd_store_close(store, &err));
  free(uri);
  temp_folder_free(folder);
}

/* The handle that reads has not heard of the gc, and has nothing of the commit in memory. */
static void view__finds_out_by_itself_that_gc_was_there(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_commit commits[COMMITS];
  pd_store *other = fill(uri, 0, commits), *store = open_store(uri, 0);
  pd_view *old = NULL, *head = NULL;
  OK(pd_view_open_commit(store, &commits[3], &old, &err));
  OK(pd_view_open(store, "main", &head, &err));
  OK(pd_gc(other, &(pd_gc_policy){.keep_last = 2}, NULL, &err));
  assert_int_equal(pd_view_get(old, pd_text("n"), NULL, NULL, &err), PD_RETIRED);
  want(head, "n", "39");
  assert_int_equal(count_keys(head), COMMITS + 1);
  pd_view_close(old);
  pd_view_close(head);
  OK(pd_store_close(other, &err));
  OK(pd_store_close(store, &err));
  free(uri);
  temp_folder_free(folder);
}

static void view__of_what_was_erased_says_so(void **state)
{
  (void)state;
  pd_store *store = open_store("memory:view-erase", 0);
  put(store, "secret", "1234");
  pd_view *view = NULL;
  OK(pd_view_open(store, "main", &view, &err));
  want(view, "secret", "1234"); /* it is in memory now */
  put(store, "other", "1");
  OK(pd_delete(store, pd_text("secret"), PD_ANY_VERSION, NULL, NULL, &err));
  OK(pd_erase(store, pd_text("secret"), NULL, NULL, &err));
  CLEANUP(pd_buf_done) pd_buf value = {0};
  assert_int_equal(pd_view_get(view, pd_text("secret"), &value, NULL, &err), PD_ERASED);
  assert_int_equal(value.size, 0);
  want(view, "other", NULL);
  pd_view_close(view);
  OK(pd_store_close(store, &err));
}

/* ---- many at once ---- */

#define PAIRS 300

typedef struct crowd {
  pd_store *store;
  bool is_over; /* atomic */
  unsigned views;
} crowd;

static void *write_pairs(void *ctx)
{
  crowd *c = ctx;
  for (int i = 0; i < PAIRS; i++) {
    char text[32];
    pd_edit *edit = NULL;
    pd_error why;
    snprintf(text, sizeof text, "%d", i);
    if (pd_edit_begin(c->store, NULL, &edit, &why)) abort();
    if (pd_edit_put(edit, pd_text("left"), pd_text(text), PD_ANY_VERSION, &why)) abort();
    if (pd_edit_put(edit, pd_text("right"), pd_text(text), PD_ANY_VERSION, &why)) abort();
    if (pd_edit_commit(edit, NULL, &why)) abort();
    if (i % 100 == 99 && pd_gc(c->store, &(pd_gc_policy){.keep_last = 5}, NULL, &why)) abort();
    if (i % 100 == 50 && pd_erase(c->store, pd_text("old"), &(pd_erase_options){.everywhere = true}, NULL, &why) == PD_CORRUPT) abort();
  }
  __atomic_store_n(&c->is_over, true, __ATOMIC_RELEASE);
  return NULL;
}

/* Both keys of a view are of one commit, or gone together. */
static void *read_pairs(void *ctx)
{
  crowd *c = ctx;
  unsigned count = 0;
  for (; !__atomic_load_n(&c->is_over, __ATOMIC_ACQUIRE) || !count; count++) {
    CLEANUP(pd_buf_done) pd_buf left = {0};
    CLEANUP(pd_buf_done) pd_buf right = {0};
    pd_view *view = NULL;
    pd_error why;
    pd_code code = pd_view_open(c->store, count % 2 ? "main" : "main~3", &view, &why);
    if (code == PD_RETIRED || code == PD_NOT_FOUND) continue;
    if (code) abort();
    pd_code has_left = pd_view_get(view, pd_text("left"), &left, NULL, &why);
    pd_code has_right = pd_view_get(view, pd_text("right"), &right, NULL, &why);
    bool is_gone = has_left == PD_RETIRED || has_right == PD_RETIRED;
    if (!is_gone && (has_left != has_right || !pd_bytes_equal(pd_buf_bytes(&left), pd_buf_bytes(&right)))) abort();
    pd_view_close(view);
  }
  __atomic_fetch_add(&c->views, count, __ATOMIC_RELAXED);
  return NULL;
}

static void view__is_whole_beside_writers_gc_and_erasure(void **state)
{
  (void)state;
  crowd c = {.store = open_store("memory:view-crowd", 0)};
  put(c.store, "old", "x");
  pthread_t threads[4];
  for (size_t i = 0; i < COUNT_OF(threads); i++) assert_int_equal(pthread_create(&threads[i], NULL, i ? read_pairs : write_pairs, &c), 0);
  for (size_t i = 0; i < COUNT_OF(threads); i++) pthread_join(threads[i], NULL);
  assert_true(c.views >= 3);
  OK(pd_store_close(c.store, &err));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(view__stays_at_its_commit),
    cmocka_unit_test(view__is_opened_by_text_by_commit_and_by_record),
    cmocka_unit_test(view__of_what_is_not_there_is_refused),
    cmocka_unit_test(view__of_an_invocation_is_what_it_began_on),
    cmocka_unit_test(view__is_taken_and_read_while_an_append_is_on_its_way),
    cmocka_unit_test(view__of_a_buffered_store_sees_what_was_acknowledged),
    cmocka_unit_test(view__of_a_buffered_store_reads_large_values_before_they_are_stored),
    cmocka_unit_test(view__of_what_gc_took_is_retired),
    cmocka_unit_test(view__finds_out_by_itself_that_gc_was_there),
    cmocka_unit_test(view__of_what_was_erased_says_so),
    cmocka_unit_test(view__is_whole_beside_writers_gc_and_erasure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
