/*
 * busy_history_test.c: whoever asks for history does not wait for what the agent is just writing. An append to the agent's store hangs, as
 * on a slow disk; meanwhile each call has to end, or a long time limit finds it.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "support/gate_backend.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define WAIT_S 20
#define WRITES 6

typedef struct scene {
  world w;      /* the writer's */
  world reader; /* the same home, with answers of its own */
  const char *capability, *input;
  pd_code code;
  sem_t entered, go, done;
} scene;

static void hang(void *ctx, const char *store)
{
  scene *sc = ctx;
  if (strcmp(store, "main") != 0) return; /* what the home writes about the calls is not what is asked for */
  sem_post(&sc->entered);
  while (sem_wait(&sc->go)) continue;
}

static void *write_new(void *ctx)
{
  scene *sc = ctx;
  world_ok(&sc->w, "state.persistent.set", "{\"key\":\"n\",\"value\":99}");
  return NULL;
}

static void *ask(void *ctx)
{
  scene *sc = ctx;
  sc->code = world_call(&sc->reader, sc->capability, sc->input);
  sem_post(&sc->done);
  return NULL;
}

static bool ends_in_time(sem_t *sem)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WAIT_S;
  return sem_timedwait(sem, &until) == 0;
}

static void fill(scene *sc, const char *uri)
{
  world_open_at(&sc->w, uri, NULL);
  for (int i = 0; i < WRITES; i++) world_okf(&sc->w, "state.persistent.set", "{\"key\":\"n\",\"value\":%d}", i);
  sc->reader = (world){.home = sc->w.home, .agent = sc->w.agent};
}

static bool passes(scene *sc, const char *uri)
{
  pthread_t writer, reader;
  sem_init(&sc->entered, 0, 0);
  sem_init(&sc->go, 0, 0);
  sem_init(&sc->done, 0, 0);
  fill(sc, uri);
  gate_before_append(hang, sc);
  assert_int_equal(pthread_create(&writer, NULL, write_new, sc), 0);
  while (sem_wait(&sc->entered)) continue;
  assert_int_equal(pthread_create(&reader, NULL, ask, sc), 0);
  bool is_in_time = ends_in_time(&sc->done);
  gate_before_append(NULL, NULL);
  for (int i = 0; i < 100; i++) sem_post(&sc->go); /* also for those that came behind */
  pthread_join(reader, NULL);
  pthread_join(writer, NULL);
  if (sc->code) fail_msg("%s: %s", sc->capability, sc->reader.err.message);
  return is_in_time;
}

static void busy_history__calls_pass_an_append_that_is_on_its_way(void **state)
{
  (void)state;
  static const char *const calls[][2] = {
    {"history.list", "{\"at\":\"main~2\",\"values\":true}"},
    {"history.get", "{\"at\":\"main~3\",\"key\":\"n\"}"},
    {"history.diff", "{\"from\":\"main~4\",\"to\":\"main~1\",\"values\":true}"},
    {"history.log", "{}"},
    {"history.show", "{\"at\":\"main~1\",\"values\":true}"},
    {"state.persistent.history", "{\"key\":\"n\"}"},
  };
  unsigned waited = 0;
  gate_backend_install();
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    scene sc = {.capability = calls[i][0], .input = calls[i][1]};
    char *uri = NULL;
    assert_true(asprintf(&uri, "gate:memory:busy-history-%zu", i) > 0);
    bool is_in_time = passes(&sc, uri);
    if (!is_in_time) print_error("%s waited for an append\n", sc.capability);
    waited += !is_in_time;
    pd_buf_done(&sc.reader.out);
    world_close(&sc.w);
    free(uri);
  }
  assert_int_equal(waited, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(busy_history__calls_pass_an_append_that_is_on_its_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
