/*
 * writers_test.c: four writers of one thread, each with the exact version it has seen: as threads of one process, and as processes. Nothing
 * is lost, and the state is what one writer alone would have made of the same change sets in the order of their versions.
 */
#include "base/doc.h"
#include "support/temp_folder.h"
#include "thread/patch.h"
#include "thread/random_change.h"
#include "thread/thread_world.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define WRITERS 4
#define APPENDS 100

typedef struct writer {
  pd_store *store;
  int number;
  uint64_t seed;
  bool is_exact;
  uint64_t conflicts;
  char failure[PD_ERROR_MESSAGE_MAX + 64];
} writer;

/* What a writer brings: a count of its own, a common count, a common list, and something random that fits any state. */
static void make_change(const writer *w, random_source *r, int i, pd_buf *messages, pd_buf *patches)
{
  pd_buf_clear(messages);
  pd_buf_clear(patches);
  if (pd_buf_printf(messages, NULL, "[{\"id\":\"w%d-%d\"}]", w->number, i)) abort();
  if (pd_buf_printf(patches, NULL,
                    "[{\"op\":\"set\",\"path\":[\"by\",\"w%d\"],\"value\":%d},{\"op\":\"increment\",\"path\":[\"count\"],\"by\":1},"
                    "{\"op\":\"append\",\"path\":[\"log\"],\"value\":\"w%d-%d\"},{\"op\":\"%s\",\"path\":[\"any\",\"k%d\"]",
                    w->number, i, w->number, i, i % 3 ? "set" : "delete", (int)random_below(r, 8)))
    abort();
  if (i % 3) random_add(patches, ",\"value\":");
  if (i % 3) random_value(r, 3, patches);
  random_add(patches, "}]");
}

/* Until it is in: look at the version, append to exactly that. */
static pd_code append_one(writer *w, pd_thread *t, const pd_buf *messages, const pd_buf *patches, pd_error *err)
{
  char run[16];
  snprintf(run, sizeof run, "run-%d", w->number);
  pd_changeset set = {
    .run_id = run, .reason = PD_REASON_TOOL_RESULTS_COMMITTED, .messages = pd_buf_bytes(messages), .patches = pd_buf_bytes(patches)};
  for (;;) {
    pd_thread_info info;
    pd_thread_ack ack;
    TRY(pd_thread_info_get(t, &info, err));
    pd_code code = pd_thread_append(t, &set, w->is_exact ? info.version : PD_ANY_VERSION, &ack, err);
    if (!code && w->is_exact && ack.version != info.version + 1) abort();
    if (code != PD_CONFLICT || !w->is_exact) return code;
    if (err->expected != info.version || err->actual == info.version || strcmp(pd_error_name(err), "VersionConflict") != 0) abort();
    w->conflicts++;
  }
}

static void *write_all(void *ctx)
{
  writer *w = ctx;
  CLEANUP(pd_buf_done) pd_buf messages = {0}, patches = {0};
  random_source r = {w->seed};
  pd_thread *t = NULL;
  pd_error err = {0};
  pd_code code = pd_thread_open(w->store, "t", &t, &err);
  for (int i = 1; !code && i <= APPENDS; i++) {
    make_change(w, &r, i, &messages, &patches);
    code = append_one(w, t, &messages, &patches, &err);
  }
  if (code) snprintf(w->failure, sizeof w->failure, "writer %d: %s: %s", w->number, pd_error_name(&err), err.message);
  pd_thread_close(t);
  return NULL;
}

/* ---- what is there afterwards ---- */

typedef struct reckoning {
  pd_doc *doc; /* one writer alone */
  int next[WRITERS];
  uint64_t versions;
} reckoning;

static bool reckon(void *ctx, const pd_thread_delta *d)
{
  reckoning *k = ctx;
  pd_json json;
  pd_patches *list = NULL;
  int writer_number = atoi(d->run_id + 4);
  char expected[64];
  assert_int_equal(d->version, ++k->versions);
  assert_int_equal(pd_json_parse(d->json, &json, NULL), PD_OK);
  assert_int_equal(pd_patches_parse(pd_json_member(json, "patches"), &list, NULL), PD_OK);
  assert_int_equal(pd_patches_apply(list, k->doc, NULL, NULL), PD_OK);
  pd_patches_free(list);
  snprintf(expected, sizeof expected, "[{\"id\":\"w%d-%d\"}]", writer_number, ++k->next[writer_number]); /* each in its own order */
  pd_json messages = pd_json_member(json, "messages");
  assert_int_equal(messages.raw.size, strlen(expected));
  assert_memory_equal(messages.raw.data, expected, messages.raw.size);
  return true;
}

static void reckon_all(thread_world *w)
{
  reckoning k = {0};
  pd_thread_info info;
  CLEANUP(pd_buf_done) pd_buf model = {0};
  char count[32];
  world_need(w, pd_doc_new((pd_json){.kind = PD_JSON_NONE}, 0, &k.doc, &w->err));
  world_need(w, pd_thread_deltas(w->t, 0, 0, reckon, &k, &w->err));
  world_need(w, pd_thread_info_get(w->t, &info, &w->err));
  assert_int_equal(k.versions, WRITERS * APPENDS);
  assert_int_equal(info.version, WRITERS * APPENDS);
  assert_int_equal(info.message_count, WRITERS * APPENDS);
  for (int i = 0; i < WRITERS; i++) assert_int_equal(k.next[i], APPENDS);
  world_need(w, pd_doc_write(k.doc, &model, &w->err));
  world_need(w, pd_buf_byte(&model, 0, &w->err));
  assert_string_equal(world_state(w), (const char *)model.data);
  snprintf(count, sizeof count, "%d", WRITERS * APPENDS);
  assert_string_equal(world_state_of(w, w->t, PD_VERSION_HEAD, "/count"), count);
  world_need(w, pd_thread_replay(w->t, NULL, NULL, NULL, &w->err));
  pd_doc_free(k.doc);
}

static void open_for_writers(thread_world *w, const char *uri)
{
  world_open_at(w, uri);
  world_need(w, pd_thread_create(w->store, &(pd_thread_options){.id = "t"}, &w->t, &w->err));
}

static void write_with_threads(bool is_exact)
{
  thread_world w;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  random_source r = random_from(7);
  pthread_t threads[WRITERS];
  writer writers[WRITERS];
  uint64_t conflicts = 0;
  open_for_writers(&w, uri);
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = (writer){.store = w.store, .number = i, .seed = random_next(&r), .is_exact = is_exact};
    assert_int_equal(pthread_create(&threads[i], NULL, write_all, &writers[i]), 0);
  }
  for (int i = 0; i < WRITERS; i++) {
    pthread_join(threads[i], NULL);
    if (*writers[i].failure) fail_msg("%s", writers[i].failure);
    conflicts += writers[i].conflicts;
  }
  printf("# %llu conflicts\n", (unsigned long long)conflicts);
  reckon_all(&w);
  world_close(&w);
  free(uri);
  temp_folder_free(folder);
}

/* seed 003: 01, 04, 47 */
static void writers__four_threads_with_exact_versions_lose_nothing(void **state)
{
  (void)state;
  write_with_threads(true);
}

static void writers__four_threads_with_any_version_lose_nothing(void **state)
{
  (void)state;
  write_with_threads(false);
}

static int write_as_process(const char *uri, int number, uint64_t seed)
{
  writer w = {.number = number, .seed = seed, .is_exact = true};
  pd_error err;
  if (pd_store_open(uri, "main", NULL, &w.store, &err)) return 2;
  write_all(&w);
  if (*w.failure) fprintf(stderr, "# %s\n", w.failure);
  return pd_store_close(w.store, NULL) || *w.failure ? 1 : 0;
}

/* seed 003: 01, 04, 47 */
static void writers__four_processes_with_exact_versions_lose_nothing(void **state)
{
  thread_world w;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  random_source r = random_from(8);
  pid_t pids[WRITERS];
  (void)state;
  open_for_writers(&w, uri);
  world_close(&w); /* no handle across fork() */
  fflush(stdout);
  for (int i = 0; i < WRITERS; i++) {
    uint64_t seed = random_next(&r);
    pids[i] = fork();
    if (pids[i] == 0) _exit(write_as_process(uri, i, seed));
    assert_true(pids[i] > 0);
  }
  for (int i = 0; i < WRITERS; i++) {
    int status = 0;
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  world_open_at(&w, uri);
  world_need(&w, pd_thread_open(w.store, "t", &w.t, &w.err));
  reckon_all(&w);
  world_close(&w);
  free(uri);
  temp_folder_free(folder);
}

typedef struct maker {
  pd_store *store;
  pd_code code;
} maker;

static void *make_it(void *ctx)
{
  maker *m = ctx;
  m->code = pd_thread_create(m->store, &(pd_thread_options){.id = "same"}, NULL, NULL);
  return NULL;
}

static void writers__of_four_who_create_one_thread_one_does(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  for (int round = 0; round < 50; round++) {
    maker makers[WRITERS];
    pthread_t threads[WRITERS];
    int made = 0, there = 0;
    for (int i = 0; i < WRITERS; i++) {
      makers[i] = (maker){.store = w.store};
      assert_int_equal(pthread_create(&threads[i], NULL, make_it, &makers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
      pthread_join(threads[i], NULL);
      made += makers[i].code == PD_OK;
      there += makers[i].code == PD_EXISTS;
    }
    assert_int_equal(made, 1);
    assert_int_equal(there, WRITERS - 1);
    world_need(&w, pd_thread_delete(w.store, "same", 0, NULL, &w.err));
  }
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(writers__four_threads_with_exact_versions_lose_nothing),
    cmocka_unit_test(writers__four_threads_with_any_version_lose_nothing),
    cmocka_unit_test(writers__four_processes_with_exact_versions_lose_nothing),
    cmocka_unit_test(writers__of_four_who_create_one_thread_one_does),
  };
  return cmocka_run_group_tests_name("writers of one thread", tests, NULL, NULL);
}
