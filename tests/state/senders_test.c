/*
 * senders_test.c: many callers of one queue, mailbox, work index, alert list or thread at once: none is refused, none is lost, numbers
 * are given once, and they share syncs. The disk is slow here (SYNC_US an append), so that all others have time to stage meanwhile: senders
 * that conflicted with each other would need an append each.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/gate_backend.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SENDERS 64
#define SENDS 4
#define SYNC_US 5000
#define APPENDS_MAX (SENDERS * SENDS / 2) /* of all; about 10 are needed, and those that conflict need 256 */

typedef struct sender {
  pd_home *home;
  const char *capability, *input, *number; /* `number`: the member of the answer that is given once; NULL: none */
  char numbers[SENDS][160];
  unsigned done;
  pd_error err;
} sender;

static void take_number(sender *s, const pd_buf *answer)
{
  pd_json json;
  if (!s->number || pd_json_parse(pd_buf_bytes(answer), &json, NULL)) return;
  pd_bytes raw = pd_json_member(json, s->number).raw;
  snprintf(s->numbers[s->done], sizeof s->numbers[0], "%.*s", (int)raw.size, (const char *)raw.data);
}

static void *send_all(void *ctx)
{
  sender *s = ctx;
  pd_ctx caller = {.home = s->home, .agent = "worker"};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  for (; s->done < SENDS; s->done++) {
    if (pd_call(&caller, s->capability, pd_text(s->input), &answer, &s->err)) return NULL;
    take_number(s, &answer);
  }
  return NULL;
}

static unsigned appends; /* to the store that is looked at; atomic */

static void take_time(void *ctx, const char *store)
{
  const struct timespec sync = {.tv_nsec = SYNC_US * 1000};
  if (strcmp(store, ctx) != 0) return;
  __atomic_add_fetch(&appends, 1, __ATOMIC_SEQ_CST);
  nanosleep(&sync, NULL);
}

static int set_up_slow(void **state)
{
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  gate_backend_install();
  world_open_at(w, "gate:memory:senders", NULL);
  *state = w;
  return 0;
}

static int tear_down_slow(void **state)
{
  gate_before_append(NULL, NULL);
  return world_tear_down(state);
}

static int by_text(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_numbers(const sender *senders)
{
  const char *all[SENDERS * SENDS];
  for (size_t i = 0; i < SENDERS * SENDS; i++) all[i] = senders[i / SENDS].numbers[i % SENDS];
  qsort(all, SENDERS * SENDS, sizeof all[0], by_text);
  assert_true(*all[0]);
  for (size_t i = 1; i < SENDERS * SENDS; i++) assert_string_not_equal(all[i - 1], all[i]);
}

static void check_senders(world *w, const char *capability, const char *input, const char *number)
{
  static sender senders[SENDERS];
  pthread_t threads[SENDERS];
  for (size_t i = 0; i < SENDERS; i++) {
    senders[i] = (sender){.home = w->home, .capability = capability, .input = input, .number = number};
    assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
  }
  for (size_t i = 0; i < SENDERS; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < SENDERS; i++)
    if (senders[i].done != SENDS) fail_msg("%s: %s", capability, senders[i].err.message);
  if (number) check_numbers(senders);
  w->agent = "worker";
}

/* All of it in `store`, and the senders share appends. */
static void check_sharing(world *w, const char *store, const char *capability, const char *input, const char *number)
{
  appends = 0;
  gate_before_append(take_time, (void *)(uintptr_t)store);
  check_senders(w, capability, input, number);
  gate_before_append(NULL, NULL);
  print_message("# %s: %u appends\n", capability, appends);
  assert_in_range(appends, 1, APPENDS_MAX);
}

static void senders__to_one_queue_are_all_served(void **state)
{
  world *w = *state;
  check_sharing(w, "system", "queue.send", "{\"to\":\"worker\",\"body\":1}", "message_id");
  world_ok(w, "queue.count", "{}");
  world_want(w, "unread", "256");
}

static void senders__of_alerts_never_conflict(void **state)
{
  world *w = *state;
  check_sharing(w, "system", "alerts.send", "{\"severity\":\"info\",\"title\":\"x\",\"message\":\"x\"}", "alert_id");
}

static void senders__of_work_are_all_served(void **state)
{
  world *w = *state;
  check_sharing(w, "worker", "work.create", "{\"title\":\"x\"}", "run_id");
  world_ok(w, "work.list", "{\"limit\":1000}");
  world_want(w, "count", "256");
}

static void senders__to_one_mailbox_are_all_served(void **state)
{
  world *w = *state;
  check_sharing(w, "worker", "mailbox.send", "{\"thread_id\":\"t1\",\"body\":1}", "number");
}

static void senders__to_one_thread_are_all_served(void **state)
{
  world *w = *state;
  w->agent = "worker";
  world_ok(w, "threads.create", "{\"thread_id\":\"t1\",\"state\":{\"n\":0}}");
  check_sharing(w, "worker", "threads.append",
                "{\"thread_id\":\"t1\",\"run_id\":\"r1\",\"reason\":\"AssistantTurnCommitted\",\"patches\":[{\"op\":\"increment\",\"path\":"
                "\"/n\",\"by\":1}]}",
                "version");
  world_ok(w, "threads.load", "{\"thread_id\":\"t1\"}");
  world_want(w, "state.n", "256");
}

/* Two processes on one home: each waits for the other's commits, and nobody gives up. */
static void senders__of_two_processes_are_all_served(void **state)
{
  world *w = *state;
  pid_t child = fork();
  if (!child) {
    pd_home *home;
    if (pd_home_open(w->uri, NULL, &home, NULL)) _exit(1);
    for (int i = 0; i < 25; i++) {
      sender s = {.home = home, .capability = "queue.send", .input = "{\"to\":\"worker\",\"body\":2}"};
      send_all(&s);
      if (s.done != SENDS) _exit(2);
    }
    _exit(pd_home_close(home, NULL) ? 3 : 0);
  }
  check_senders(w, "queue.send", "{\"to\":\"worker\",\"body\":1}", "message_id");
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  world_ok(w, "queue.count", "{}");
  world_want(w, "unread", "356");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(senders__to_one_queue_are_all_served, set_up_slow, tear_down_slow),
    cmocka_unit_test_setup_teardown(senders__of_alerts_never_conflict, set_up_slow, tear_down_slow),
    cmocka_unit_test_setup_teardown(senders__of_work_are_all_served, set_up_slow, tear_down_slow),
    cmocka_unit_test_setup_teardown(senders__to_one_mailbox_are_all_served, set_up_slow, tear_down_slow),
    cmocka_unit_test_setup_teardown(senders__to_one_thread_are_all_served, set_up_slow, tear_down_slow),
    cmocka_unit_test_setup_teardown(senders__of_two_processes_are_all_served, world_set_up, world_tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
