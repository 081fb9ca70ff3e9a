/*
 * room_processes_test.c: limits in bytes hold for two processes on one home as for one (quota.h, queue.h). Each process writes until it is
 * refused, at the same time; what both were acknowledged fits the limit.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "support/temp_folder.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define VALUE_SIZE 10000
#define WRITES_MAX 200
#define FOLDER_SIZE 4096

typedef struct writing {
  const char *capability, *input; /* two %d: the process and the number; and %s: a text of VALUE_SIZE */
  const char *refusal;            /* the name of the error that ends it */
} writing;

/* How many were acknowledged before the refusal; negative: something else went wrong. */
static int write_all(world *w, const writing *what, int process)
{
  char text[VALUE_SIZE + 1];
  memset(text, 'a' + process, VALUE_SIZE);
  text[VALUE_SIZE] = 0;
  for (int i = 0; i < WRITES_MAX; i++) {
    char *input = NULL;
    text[0] = (char)('a' + i % 26); /* equal pieces of values are kept once */
    if (asprintf(&input, what->input, process, i, text) < 0) return -1;
    pd_code code = world_call(w, what->capability, input);
    free(input);
    if (code && strcmp(pd_error_name(&w->err), what->refusal) == 0) return i;
    if (code) return -2;
  }
  return -3;
}

/* In a process of its own: opens the home that the other has made, and then writes as soon as that does; the number is its exit status. */
__attribute__((noreturn)) static void run_child(const char *folder, const writing *what, int ready, int start)
{
  static world w = {.agent = "main"};
  char byte, uri[FOLDER_SIZE + 8];
  if (read(start, &byte, 1) != 1) _exit(249);
  pd_home_options options = {.folder = folder};
  snprintf(uri, sizeof uri, "sqlite:%s", folder);
  if (pd_home_open(uri, &options, &w.home, &w.err)) _exit(250);
  if (write(ready, "", 1) != 1 || read(start, &byte, 1) != 1) _exit(251);
  int count = write_all(&w, what, 1);
  if (pd_home_close(w.home, NULL)) _exit(252);
  _exit(count < 0 ? 253 : count);
}

/* Both together. The other process is forked while this one has a single thread; where the home is comes in shared memory. */
static int fill(world *w, const char *config, const writing *what)
{
  char *folder = mmap(NULL, FOLDER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ready[2], start[2], status = -1;
  assert_true(folder != MAP_FAILED);
  char byte = 0;
  assert_int_equal(pipe(ready), 0);
  assert_int_equal(pipe(start), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) run_child(folder, what, ready[1], start[0]);
  world_open(w, config);
  snprintf(folder, FOLDER_SIZE, "%s", w->folder);
  world_ok(w, "threads.create", "{\"thread_id\":\"t0\"}");
  world_ok(w, "threads.create", "{\"thread_id\":\"t1\"}");
  assert_int_equal(write(start[1], "", 1), 1);
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_int_equal(write(start[1], "", 1), 1);
  int own = write_all(w, what, 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  for (int i = 0; i < 2; i++) close(ready[i]), close(start[i]);
  munmap(folder, FOLDER_SIZE);
  if (own < 0) fail_msg("%s: %d: %s", what->capability, own, w->err.message);
  assert_true(WIFEXITED(status));
  assert_in_range(WEXITSTATUS(status), 0, WRITES_MAX);
  print_message("# %s: %d and %d\n", what->capability, own, WEXITSTATUS(status));
  return own + WEXITSTATUS(status);
}

/* `slack`: how many writes too many may pass, of all. */
static void check(const char *config, const writing *what, int fits, int slack)
{
  world w;
  int count = fill(&w, config, what);
  assert_true(count >= fits * 3 / 4);
  assert_true(count <= fits + slack);
  world_close(&w);
}

/* Exact: the engine counts with each commit. */
static void room__persistent_quota_holds_for_two_processes(void **state)
{
  (void)state;
  check("[persistent]\nquota = \"500KB\"\n", &(writing){"state.persistent.set", "{\"key\":\"k-%d-%d\",\"value\":\"%s\"}", "QuotaExceeded"},
        500 * 1024 / (VALUE_SIZE + 2), 0);
}

/* What was counted holds for a second and for an eighth of what is left (decision 060): a process that is not scheduled meanwhile brings
 * that eighth after the other has used up all the rest. */
static void room__agent_quota_holds_for_two_processes(void **state)
{
  (void)state;
  check("[agent]\nquota = \"1000KB\"\n",
        &(writing){"threads.append",
                   "{\"thread_id\":\"t%d\",\"run_id\":\"r\",\"reason\":\"UserMessage\",\"messages\":[{\"id\":\"m%d\",\"text\":\"%s\"}]}",
                   "QuotaExceeded"},
        1000 * 1024 / VALUE_SIZE, 1000 * 1024 / VALUE_SIZE / 8);
}

static void room__queue_bytes_max_holds_for_two_processes(void **state)
{
  (void)state;
  check("[queue]\nbytes_max = \"500KB\"\n", &(writing){"queue.send", "{\"to\":\"x\",\"kind\":\"k%d.%d\",\"body\":\"%s\"}", "QueueFull"},
        500 * 1024 / VALUE_SIZE, 0);
}

static void room__queue_sender_bytes_max_holds_for_two_processes(void **state)
{
  (void)state;
  check("[test.queue]\nsender_bytes_max = \"500KB\"\n",
        &(writing){"queue.send", "{\"to\":\"x%d\",\"kind\":\"k%d\",\"body\":\"%s\"}", "QuotaExceeded"}, 500 * 1024 / VALUE_SIZE, 0);
}

/* ---- one sender, many queues ---- */

#define SENDERS 4
#define SENDS 1500

typedef struct sender {
  pd_home *home;
  int number;
  bool is_reader; /* makes its handle see what the other one wrote */
  bool is_done;
  pd_error err;
} sender;

static void *send_all(void *ctx)
{
  sender *s = ctx;
  pd_ctx caller = {.home = s->home, .agent = "alice"};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  char input[100];
  snprintf(input, sizeof input, "{\"to\":\"to-%d\",\"body\":1}", s->number);
  int sends = getenv("PERDURE_SANITIZER") ? SENDS / 10 : SENDS;
  for (int i = 0; i < sends; i++)
    if (pd_call(&caller, s->is_reader ? "queue.count" : "queue.send", pd_text(s->is_reader ? "{}" : input), &answer, &s->err)) return NULL;
  s->is_done = true;
  return NULL;
}

static uint64_t number_at(pd_store *store, const char *key, const char *name)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_json json;
  uint64_t number = 0;
  assert_int_equal(pd_get(store, "main", pd_text(key), &value, NULL, NULL), PD_OK);
  assert_int_equal(pd_json_parse(pd_buf_bytes(&value), &json, NULL), PD_OK);
  assert_true(pd_json_u64(pd_json_member(json, name), &number));
  return number;
}

/* What one has sent is counted in its own queue and in those of the receivers, from two handles as from two processes. */
static void queue__the_bytes_of_a_sender_are_counted_right_whoever_else_sends(void **state)
{
  (void)state;
  pd_home *homes[2];
  pthread_t threads[2][SENDERS + 1];
  static sender senders[2][SENDERS + 1];
  pd_store *system = NULL;
  pd_error err = {0};
  for (int h = 0; h < 2; h++) assert_int_equal(pd_home_open("memory:senders", NULL, &homes[h], &err), PD_OK);
  for (int h = 0; h < 2; h++)
    for (int i = 0; i <= SENDERS; i++) {
      senders[h][i] = (sender){.home = homes[h], .number = h * SENDERS + i % SENDERS, .is_reader = i == SENDERS};
      assert_int_equal(pthread_create(&threads[h][i], NULL, send_all, &senders[h][i]), 0);
    }
  for (int h = 0; h < 2; h++)
    for (int i = 0; i <= SENDERS; i++) {
      pthread_join(threads[h][i], NULL);
      if (!senders[h][i].is_done) fail_msg("%s", senders[h][i].err.message);
    }
  assert_int_equal(pd_store_open("memory:senders", "system", NULL, &system, &err), PD_OK);
  for (int i = 0; i < 2 * SENDERS; i++) {
    char head[32], from[32], sent[32];
    snprintf(head, sizeof head, "queue/to-%d", i);
    snprintf(from, sizeof from, "from/to-%d/alice", i);
    snprintf(sent, sizeof sent, "sent/alice/to-%d", i);
    assert_int_equal(number_at(system, from, "in") - number_at(system, from, "out"), number_at(system, head, "bytes"));
    assert_true(number_at(system, from, "in") <= number_at(system, from, "granted"));
    assert_int_equal(number_at(system, sent, "reserved"), number_at(system, from, "granted"));
  }
  pd_store_close(system, NULL);
  for (int h = 0; h < 2; h++) assert_int_equal(pd_home_close(homes[h], NULL), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(room__persistent_quota_holds_for_two_processes),
    cmocka_unit_test(room__agent_quota_holds_for_two_processes),
    cmocka_unit_test(room__queue_bytes_max_holds_for_two_processes),
    cmocka_unit_test(room__queue_sender_bytes_max_holds_for_two_processes),
    cmocka_unit_test(queue__the_bytes_of_a_sender_are_counted_right_whoever_else_sends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
