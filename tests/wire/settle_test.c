/* settle_test.c: staged writes are finished though requests occupy every worker; a server whose writes stand still says so. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "wire/http.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define PATIENCE_S 60 /* a machine that does other things */

typedef struct stuck {
  pd_job job;
  sem_t *begun, *go;
} stuck;

static void hang(pd_job *job)
{
  stuck *s = (stuck *)job;
  sem_post(s->begun);
  while (sem_wait(s->go)) {}
}

static bool comes(sem_t *sem)
{
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += PATIENCE_S;
  return sem_timedwait(sem, &end) == 0;
}

static void settle__staged_writes_finish_while_requests_occupy_every_worker(void **state)
{
  (void)state;
  static stuck jobs[256], last[PD_SETTLE_GROUPS * 4];
  sem_t begun, go, finished;
  sem_init(&begun, 0, 0);
  sem_init(&go, 0, 0);
  sem_init(&finished, 0, 0);
  pd_server *server = calloc(1, sizeof *server);
  assert_non_null(server);
  assert_int_equal(pd_request_pools(server, NULL), PD_OK);
  for (unsigned i = 0; i < COUNT_OF(jobs); i++) {
    jobs[i] = (stuck){{.run = hang}, &begun, &go};
    assert_true(pd_pool_add(&server->writers, &jobs[i].job));
  }
  for (unsigned i = 0; i < server->writers.threads_max; i++) assert_true(comes(&begun));
  sem_t open;
  sem_init(&open, 0, COUNT_OF(last));
  for (size_t i = 0; i < COUNT_OF(last); i++) {
    last[i] = (stuck){{.run = hang}, &finished, &open};
    pd_settler_add(&server->settler, &last[i], &last[i].job); /* as many groups as there can be */
  }
  for (size_t i = 0; i < COUNT_OF(last); i++) assert_true(comes(&finished));
  for (unsigned i = 0; i < COUNT_OF(jobs); i++) sem_post(&go);
  pd_pool *pools[] = {&server->writers, &server->finishers, &server->slow, &server->readers};
  for (size_t i = 0; i < COUNT_OF(pools); i++) assert_true(pd_pool_done(pools[i], PATIENCE_S * 1000));
  pd_waits_free(server->waits);
  free(server);
}

static void stall__only_a_write_that_waits_while_none_finishes_is_one(void **state)
{
  (void)state;
  pd_stall stall = {0};
  assert_int_equal(pd_stall_ms(&stall, 500000), 0);
  pd_stall_begin(&stall, 500000); /* after a long time without any */
  assert_int_equal(pd_stall_ms(&stall, 500000), 0);
  assert_int_equal(pd_stall_ms(&stall, 509999), 9999);
  pd_stall_begin(&stall, 509999); /* one more that waits is no progress */
  assert_int_equal(pd_stall_ms(&stall, 510000), 10000);
  pd_stall_end(&stall, 510000);
  assert_int_equal(pd_stall_ms(&stall, 510500), 500); /* the other waits still */
  pd_stall_end(&stall, 511000);
  assert_int_equal(pd_stall_ms(&stall, 900000), 0);
  pd_stall_begin(&stall, 900000);
  assert_int_equal(pd_stall_ms(&stall, 899000), 0); /* a reader of an older clock */
}

static void want_health(pd_server *server, unsigned status, const char *body)
{
  pd_request request = {.server = server};
  pd_route_healthz(&request);
  assert_int_equal(request.status, status);
  assert_int_equal(pd_buf_byte(&request.out, 0, NULL), PD_OK);
  if (!strstr((const char *)request.out.data, body)) fail_msg("%s", (const char *)request.out.data);
  pd_buf_done(&request.out);
}

static void healthz__fails_after_ten_seconds_without_a_finished_write(void **state)
{
  (void)state;
  pd_server *server = calloc(1, sizeof *server);
  assert_non_null(server);
  int64_t now_ms = pd_clock_monotonic_ms();
  want_health(server, 200, "\"ok\"");
  pd_stall_begin(&server->stall, now_ms - PD_STALL_MS);
  want_health(server, 503, "writes are waiting and none has finished for 1");
  pd_stall_begin(&server->stall, now_ms);
  pd_stall_end(&server->stall, pd_clock_monotonic_ms());
  want_health(server, 200, "\"ok\"");
  free(server);
}

static bool writes(const char *path)
{
  char allow[64];
  const char *rest = "";
  const pd_route *route = pd_route_find("POST", path, &rest, allow, sizeof allow);
  assert_non_null(route);
  pd_request request = {.route = route, .rest = rest};
  route->lane(&request); /* as the server asks first: it finds the capability */
  return pd_route_call_writes(&request);
}

/* Reads share the workers: if they counted, one that is quick would hide writes that hang, and one that is slow would be taken for one. */
static void stall__reads_do_not_count(void **state)
{
  (void)state;
  assert_true(writes("/v1/call/threads.append"));
  assert_true(writes("/v1/call/queue.send"));
  assert_true(writes("/v1/call/state.persistent.set"));
  assert_true(writes("/v1/call/no.such"));
  assert_false(writes("/v1/call/threads.load"));
  assert_false(writes("/v1/call/queue.count"));
  assert_false(writes("/v1/call/state.persistent.get"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(settle__staged_writes_finish_while_requests_occupy_every_worker),
    cmocka_unit_test(stall__only_a_write_that_waits_while_none_finishes_is_one),
    cmocka_unit_test(stall__reads_do_not_count),
    cmocka_unit_test(healthz__fails_after_ten_seconds_without_a_finished_write),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
