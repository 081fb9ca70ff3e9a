/*
 * flood_test.c: one agent reads its threads and queues on more connections than the server has workers, and writes on some of them, while
 * another process writes into the same store. Reads that wait for a sync must not keep the sync from its thread: every request is answered,
 * /healthz says ok all the time, and the server stops when it is asked to. What is counted are answers, not times.
 *
 * This is a guard, not a proof: on a fast disk the window of the deadlock (C4) is small, and the test mostly passes without the fix. The
 * proofs, with a sync that takes as long as the test wants, are tests/engine/later_test.c and tests/wire/settle_test.c.
 */
#include "base/buf.h"
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CONNECTIONS 160 /* the pool of writers has 64 threads */
#define ROUNDS 20       /* requests on each */
#define MESSAGES 400    /* a read of them all takes long enough that others wait behind it */
#define PUTS_MAX 500    /* of the other process; it ends with the flood */

typedef struct flood {
  const served *server;
  char *headers; /* with the agent's token */
  atomic_uint next, answered, wrong, gone;
} flood;

static const struct {
  const char *capability, *input;
} questions[] = {
  {"threads.state", "{\"thread_id\":\"t1\"}"},
  {"threads.load", "{\"thread_id\":\"t1\"}"},
  {"queue.count", "{}"},
  {"threads.load", "{\"thread_id\":\"t1\"}"},
};

static reply ask_one(flood *f, int fd, unsigned index, unsigned round)
{
  char path[64], input[64];
  if (index % 8 == 0) {
    snprintf(input, sizeof input, "{\"key\":\"k%u\",\"value\":%u}", index, round);
    return ask_on(fd, "POST", "/v1/call/state.persistent.set", f->headers, input);
  }
  unsigned which = (index + round) % (unsigned)(sizeof questions / sizeof *questions);
  snprintf(path, sizeof path, "/v1/call/%s", questions[which].capability);
  return ask_on(fd, "POST", path, f->headers, questions[which].input);
}

static void *ask_again_and_again(void *ctx)
{
  flood *f = ctx;
  unsigned index = atomic_fetch_add(&f->next, 1);
  int fd = served_connect(f->server);
  for (unsigned round = 0; fd >= 0 && round < ROUNDS; round++) {
    reply r = ask_one(f, fd, index, round);
    int status = r.status;
    if (status != 200 && atomic_fetch_add(&f->wrong, 1) < 3) printf("# connection %u: %d %s\n", index, status, r.body ? r.body : "");
    reply_done(&r);
    atomic_fetch_add(&f->answered, status != 0);
    if (!status) break; /* no answer for SERVED_PATIENCE_S */
  }
  if (fd >= 0) close(fd);
  atomic_fetch_add(&f->gone, 1);
  return NULL;
}

/* The other process, and what a supervisor asks. */
static unsigned put_beside(flood *f)
{
  unsigned puts = 0;
  for (; atomic_load(&f->gone) < CONNECTIONS && puts < PUTS_MAX; puts++) {
    char *command = text_of("%s --store %s/home --agent main put other %u >/dev/null 2>&1", served_binary, f->server->folder, puts);
    assert_int_equal(system(command), 0);
    free(command);
    reply r = ask(f->server, "GET", "/healthz", "", NULL);
    assert_int_equal(r.status, 200);
    reply_done(&r);
  }
  return puts;
}

static void want_call(const served *s, const char *headers, const char *capability, const char *input)
{
  char path[64];
  snprintf(path, sizeof path, "/v1/call/%s", capability);
  reply r = ask(s, "POST", path, headers, input);
  if (r.status != 200) fail_msg("%s: %d %s", capability, r.status, r.body);
  reply_done(&r);
}

static void fill_thread(const served *s, const char *headers)
{
  pd_buf text = {0};
  char message[96];
  static const char begin[] = "{\"thread_id\":\"t1\",\"run_id\":\"r1\",\"reason\":\"UserMessage\",\"messages\":[";
  assert_int_equal(pd_buf_append(&text, begin, sizeof begin - 1, NULL), PD_OK);
  for (int i = 0; i < MESSAGES; i++) {
    int size = snprintf(message, sizeof message, "%s{\"id\":\"m%d\",\"role\":\"user\",\"content\":\"hello\"}", i ? "," : "", i);
    assert_int_equal(pd_buf_append(&text, message, (size_t)size, NULL), PD_OK);
  }
  assert_int_equal(pd_buf_append(&text, "]}", 3, NULL), PD_OK);
  want_call(s, headers, "threads.append", (const char *)text.data);
  pd_buf_done(&text);
}

static void flood__reads_on_every_worker_do_not_stop_the_writes_they_wait_for(void **state)
{
  static const char *const args[] = {"--log-level", "error", NULL};
  pthread_t threads[CONNECTIONS];
  (void)state;
  served *s = served_start(args);
  char *token = served_token(s, "create --agent main");
  flood f = {.server = s, .headers = text_of("Authorization: Bearer %s\r\n", token)};
  want_call(s, f.headers, "threads.create", "{\"thread_id\":\"t1\",\"state\":{\"a\":1}}");
  fill_thread(s, f.headers);
  want_call(s, f.headers, "queue.send", "{\"to\":\"main\",\"body\":1}");
  want_call(s, f.headers, "state.persistent.set", "{\"key\":\"k\",\"value\":1}");
  for (int i = 0; i < CONNECTIONS; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask_again_and_again, &f), 0);
  unsigned puts = put_beside(&f);
  for (int i = 0; i < CONNECTIONS; i++) pthread_join(threads[i], NULL);
  printf("# %u answers, %u puts of another process\n", atomic_load(&f.answered), puts);
  assert_int_equal(atomic_load(&f.wrong), 0);
  assert_int_equal(atomic_load(&f.answered), CONNECTIONS * ROUNDS);
  want_call(s, f.headers, "state.persistent.set", "{\"key\":\"k\",\"value\":2}");
  assert_int_equal(served_stop(s), 0);
  free(token);
  free(f.headers);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(flood__reads_on_every_worker_do_not_stop_the_writes_they_wait_for)};
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("flood", tests, NULL, NULL);
}
