/* head_bytes_test.c: src/engine/head_bytes.c and pd_note.bytes_max: exact after anything, with several handles and threads. */
#include "story.h"

#include <pthread.h>
#include <unistd.h>

#include <sys/wait.h>

static uint64_t count_bytes(pd_store *s, const char *ref)
{
  pd_iter *iter;
  pd_entry entry;
  uint64_t bytes = 0;
  pd_scan scan = {.keys_only = true};
  assert_int_equal(pd_iter_open(s, ref, &scan, &iter, NULL), PD_OK);
  while (pd_iter_next(iter, &entry, NULL, NULL) == PD_OK) bytes += entry.size;
  pd_iter_close(iter);
  return bytes;
}

static void assert_counted(pd_store *s, const char *ref)
{
  uint64_t bytes;
  assert_int_equal(pd_ref_bytes(s, ref, &bytes, NULL), PD_OK);
  assert_int_equal(bytes, count_bytes(s, ref));
}

static void bytes__a_commit_that_exceeds_the_limit_is_refused_with_the_numbers(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_note note = {.bytes_max = 10};
  pd_error err;
  put_noted(s, "a", "12345", &note);
  put_noted(s, "b", "12345", &note);
  assert_int_equal(pd_put(s, pd_text("c"), pd_text("1"), &note, NULL, &err), PD_QUOTA);
  assert_int_equal(err.expected, 10);
  assert_int_equal(err.actual, 10);
  put_noted(s, "c", "", &note);
  put_noted(s, "a", "1", &note);
  put_noted(s, "c", "1234", &note);
  assert_int_equal(pd_put(s, pd_text("c"), pd_text("12345"), &note, NULL, &err), PD_QUOTA);
  put(s, "big", "12345678901234567890"); /* who names no limit has none */
  assert_int_equal(pd_put(s, pd_text("c"), pd_text("12345"), &note, NULL, &err), PD_QUOTA);
  put_noted(s, "c", "4321", &note); /* over the limit, and not more than before */
  assert_counted(s, NULL);
  pd_store_close(s, NULL);
}

static void bytes__an_invocation_is_counted_as_a_whole(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_note note = {.bytes_max = 10};
  pd_edit *edit;
  put(s, "old", "12345678");
  assert_int_equal(pd_edit_begin(s, &note, &edit, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("a"), pd_text("12345"), PD_ANY_VERSION, NULL), PD_OK);
  assert_int_equal(pd_edit_put(edit, pd_text("b"), pd_text("12345"), PD_ANY_VERSION, NULL), PD_OK);
  assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_QUOTA);
  assert_int_equal(pd_edit_delete(edit, pd_text("old"), PD_ANY_VERSION, NULL), PD_OK);
  assert_int_equal(pd_edit_commit(edit, NULL, NULL), PD_OK);
  assert_counted(s, "main");
  pd_store_close(s, NULL);
}

/* Any sequence of writes, moves and reopenings, through two handles that see each other only by the log. */
static void random_writes(const char *uri, int count, unsigned seed)
{
  pd_store *handles[2] = {open_store(uri, NULL), open_store(uri, NULL)};
  char key[8], value[64];
  for (int i = 0; i < count; i++) {
    pd_store **at = &handles[rand_r(&seed) % 2], *s = *at;
    pd_note note = {.bytes_max = rand_r(&seed) % 2 ? 600 : 0};
    pd_code code = PD_OK;
    pd_error err = {0};
    uint64_t before = rand_r(&seed) % 4 ? 0 : count_bytes(s, "main");
    size_t size = rand_r(&seed) % sizeof value;
    memset(value, 'v', size);
    snprintf(key, sizeof key, "k%d", rand_r(&seed) % 60);
    switch (rand_r(&seed) % 24) {
    case 0: code = pd_undo(s, 1 + rand_r(&seed) % 3, NULL, NULL, &err); break;
    case 1: code = pd_redo(s, 1, NULL, NULL, &err); break;
    case 2: code = pd_reset(s, "main", "main~2", NULL, NULL, &err); break;
    case 3: code = pd_gc(s, &(pd_gc_policy){.keep_last = 5}, NULL, &err); break;
    case 4: {
      pd_store_close(s, NULL);
      *at = s = open_store(uri, NULL);
      break;
    }
    case 5:
    case 6:
    case 7: code = pd_delete(s, pd_text(key), PD_ANY_VERSION, &note, NULL, &err); break;
    default: code = pd_put(s, pd_text(key), (pd_bytes){value, size}, &note, NULL, &err);
    }
    if (code == PD_QUOTA) assert_true(err.actual + size > 600);
    if (code && code != PD_NOT_FOUND && code != PD_QUOTA && code != PD_RETIRED) fail_msg("%s", err.message);
    if (before && code == PD_QUOTA) assert_int_equal(err.actual, before);
    if (rand_r(&seed) % 3 == 0) assert_counted(handles[rand_r(&seed) % 2], "main");
  }
  assert_counted(handles[0], "main");
  assert_counted(handles[1], "main");
  for (int i = 0; i < 2; i++) pd_store_close(handles[i], NULL);
}

static void bytes__are_right_after_any_sequence_through_two_handles(void **state)
{
  (void)state;
  const char *text = getenv("PERDURE_SEED");
  unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)getpid();
  print_message("# PERDURE_SEED=%u\n", seed);
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  random_writes("memory:bytes", 5000, seed);
  random_writes(uri, 800, seed + 1);
  free(uri);
  temp_folder_free(folder);
}

typedef struct filler {
  pd_store *s;
  int number;
} filler;

enum { FILL_LIMIT = 1000, FILL_SIZE = 7 };

static void *fill(void *ctx)
{
  filler *f = ctx;
  char key[32];
  pd_note note = {.bytes_max = FILL_LIMIT};
  pd_code code = PD_OK;
  for (int i = 0; code == PD_OK; i++) {
    snprintf(key, sizeof key, "%d/%d", f->number, i);
    code = pd_put(f->s, pd_text(key), (pd_bytes){"0123456", FILL_SIZE}, &note, NULL, NULL);
  }
  return code == PD_QUOTA ? NULL : f;
}

static void assert_filled(pd_store *s)
{
  uint64_t bytes;
  assert_int_equal(pd_ref_bytes(s, NULL, &bytes, NULL), PD_OK);
  assert_int_equal(bytes, FILL_LIMIT / FILL_SIZE * FILL_SIZE);
  assert_counted(s, NULL);
}

static void bytes__threads_fill_a_store_exactly_to_the_limit(void **state)
{
  (void)state;
  for (uint32_t flush_ms = 0; flush_ms < 2; flush_ms++) {
    char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
    pd_store *s = open_store(uri, &(pd_options){.flush_ms = flush_ms});
    pthread_t threads[4];
    filler fillers[4];
    for (int i = 0; i < 4; i++) {
      fillers[i] = (filler){s, i};
      assert_int_equal(pthread_create(&threads[i], NULL, fill, &fillers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
      void *failed;
      pthread_join(threads[i], &failed);
      assert_null(failed);
    }
    assert_filled(s);
    pd_store_close(s, NULL);
    free(uri);
    temp_folder_free(folder);
  }
}

static void bytes__processes_fill_a_store_exactly_to_the_limit(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pid_t children[3];
  for (int i = 0; i < 3; i++) {
    children[i] = fork();
    if (children[i]) continue;
    pd_store *own = NULL;
    if (pd_store_open(uri, "main", &(pd_options){.flush_ms = i == 2 ? 1 : 0}, &own, NULL)) _exit(1);
    filler f = {own, i};
    bool failed = fill(&f) != NULL;
    _exit(pd_store_close(own, NULL) || failed);
  }
  for (int i = 0; i < 3; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  pd_store *s = open_store(uri, NULL);
  assert_filled(s);
  pd_store_close(s, NULL);
  free(uri);
  temp_folder_free(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes__a_commit_that_exceeds_the_limit_is_refused_with_the_numbers),
    cmocka_unit_test(bytes__an_invocation_is_counted_as_a_whole),
    cmocka_unit_test(bytes__are_right_after_any_sequence_through_two_handles),
    cmocka_unit_test(bytes__threads_fill_a_store_exactly_to_the_limit),
    cmocka_unit_test(bytes__processes_fill_a_store_exactly_to_the_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
