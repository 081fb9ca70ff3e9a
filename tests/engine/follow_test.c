/* follow_test.c: a read sees what others have committed, also while its own handle appends. */
#include <perdure/perdure.h>

#include "support/temp_folder.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 400
#define NOISE_MAX 50 /* a round: in memory one can write faster than another handle can read it, which then never has a turn */

typedef struct writer {
  pd_store *store;
  atomic_bool must_stop;
  atomic_uint written, round;
} writer;

static void *keep_writing(void *ctx)
{
  writer *w = ctx;
  while (!atomic_load(&w->must_stop)) {
    if (atomic_load(&w->written) >= NOISE_MAX * (atomic_load(&w->round) + 1)) {
      sched_yield();
      continue;
    }
    pd_code code = pd_put(w->store, pd_text("noise"), pd_text("n"), NULL, NULL, NULL);
    if (code) abort();
    atomic_fetch_add(&w->written, 1);
  }
  return NULL;
}

static void read_what_the_other_wrote(const char *uri)
{
  pd_store *ours = NULL, *theirs = NULL;
  assert_int_equal(pd_store_open(uri, "main", NULL, &ours, NULL), PD_OK);
  assert_int_equal(pd_store_open(uri, "main", NULL, &theirs, NULL), PD_OK);
  writer w = {.store = ours};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, keep_writing, &w), 0);
  while (!atomic_load(&w.written)) sched_yield();
  pd_buf value = {0};
  for (int i = 0; i < ROUNDS; i++) {
    char text[16];
    snprintf(text, sizeof text, "%d", i);
    atomic_store(&w.round, (unsigned)i);
    assert_int_equal(pd_put(theirs, pd_text("round"), pd_text(text), NULL, NULL, NULL), PD_OK);
    assert_int_equal(pd_get(ours, NULL, pd_text("round"), &value, NULL, NULL), PD_OK);
    if (value.size != strlen(text) || memcmp(value.data, text, value.size) != 0)
      fail_msg("round %d: read %.*s", i, (int)value.size, (const char *)value.data);
  }
  atomic_store(&w.must_stop, true);
  pthread_join(thread, NULL);
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(ours, NULL), PD_OK);
  assert_int_equal(pd_store_close(theirs, NULL), PD_OK);
}

static void follow__a_read_sees_the_other_handle_while_its_own_writes_in_memory(void **state)
{
  (void)state;
  read_what_the_other_wrote("memory:follow");
}

static void follow__a_read_sees_the_other_handle_while_its_own_writes_to_sqlite(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  read_what_the_other_wrote(uri);
  temp_folder_free(folder);
  free(uri);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(follow__a_read_sees_the_other_handle_while_its_own_writes_in_memory),
    cmocka_unit_test(follow__a_read_sees_the_other_handle_while_its_own_writes_to_sqlite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
