/* mailbox_faults_test.c: mailboxes used by several processes and threads at once, and over a disk that fails. */
#include "base/base.h"
#include "base/buf.h"
#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <perdure/mailbox.h>
#include <perdure/perdure.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LETTERS 120
#define WORKERS 4

static char *folder, *uri;
static _Atomic int64_t now = 1000;

static int64_t read_now(void *ctx)
{
  (void)ctx;
  return now;
}

static int set_up(void **state)
{
  (void)state;
  folder = temp_folder_new();
  uri = text_of("sqlite:%s", folder);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  fault_backend_plan((fault_plan){0});
  free(uri);
  temp_folder_free(folder);
  return 0;
}

static void open_box(const char *at, pd_store **store, pd_mailbox **box)
{
  pd_error err;
  pd_mailbox_options options = {.now_ms = read_now, .count_max = 1000};
  if (pd_store_open(at, "main", NULL, store, &err) || pd_mailbox_open(*store, "t", &options, box, &err)) {
    fprintf(stderr, "# open: %s\n", err.message);
    abort();
  }
}

/* ---- a worker: claim, settle, write down ---- */

typedef struct mine {
  uint64_t number;
  char token[PD_MAIL_TOKEN_SIZE];
} mine;

static bool take(void *ctx, const pd_letter *letter)
{
  mine *m = ctx;
  m->number = letter->number;
  memcpy(m->token, letter->token, sizeof m->token);
  return true;
}

/* Claims until none is left; one in three is given back first. Returns how many were accepted; each is marked in `got`. */
static int work(pd_mailbox *box, const char *name, uint8_t *got, int sends)
{
  pd_claim claim = {.consumer = name, .lease_ms = 3600000};
  pd_claim_found found;
  pd_error err;
  int accepted = 0, turn = 0;
  for (int i = 0; i < sends; i++)
    if (pd_mailbox_send(box, &(pd_mail){.body = pd_text("{\"n\":1}"), .attempts_max = 100}, NULL, &err)) return -1;
  for (;;) {
    mine m;
    if (pd_mailbox_claim(box, &claim, take, &m, &found, &err)) return -1;
    if (!found.count) return accepted;
    if (turn++ % 3 == 0) {
      if (pd_mailbox_reject(box, m.number, m.token, &(pd_rejection){.retry_ms = 1}, NULL, &err)) return -1;
      continue;
    }
    if (pd_mailbox_accept(box, m.number, m.token, &err)) return -1;
    if (m.number > LETTERS) return -1;
    got[m.number]++;
    accepted++;
  }
}

static bool is_accepted(void *ctx, const pd_letter *letter)
{
  assert_int_equal(letter->status, PD_MAIL_ACCEPTED);
  ++*(int *)ctx;
  return true;
}

static void all_are_accepted(pd_mailbox *box)
{
  pd_error err;
  int count = 0;
  assert_int_equal(pd_mailbox_list(box, NULL, is_accepted, &count, &err), PD_OK);
  assert_int_equal(count, LETTERS);
}

static void child_works(int fd, int i)
{
  pd_store *store;
  pd_mailbox *box;
  uint8_t got[LETTERS + 1] = {0};
  char name[16];
  snprintf(name, sizeof name, "worker-%d", i);
  open_box(uri, &store, &box);
  int accepted = work(box, name, got, LETTERS / WORKERS);
  if (accepted < 0 || write(fd, got, sizeof got) != (ssize_t)sizeof got) _exit(1);
  pd_mailbox_close(box);
  _exit(pd_store_close(store, NULL) ? 1 : 0);
}

static void mailbox__four_processes_deliver_each_letter_once(void **state)
{
  (void)state;
  pid_t pids[WORKERS];
  int fds[WORKERS][2];
  uint8_t got[LETTERS + 1], total[LETTERS + 1] = {0};
  for (int i = 0; i < WORKERS; i++) {
    assert_int_equal(pipe(fds[i]), 0);
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (!pids[i]) child_works(fds[i][1], i);
    close(fds[i][1]);
  }
  for (int i = 0; i < WORKERS; i++) {
    int status;
    assert_int_equal(read(fds[i][0], got, sizeof got), sizeof got);
    close(fds[i][0]);
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_int_equal(status, 0);
    for (int n = 1; n <= LETTERS; n++) total[n] += got[n];
  }
  pd_store *store;
  pd_mailbox *box;
  uint8_t rest[LETTERS + 1] = {0};
  open_box(uri, &store, &box);
  assert_true(work(box, "last", rest, 0) >= 0); /* what a worker gave back when all others had gone */
  for (int n = 1; n <= LETTERS; n++) assert_int_equal(total[n] + rest[n], 1);
  all_are_accepted(box);
  pd_mailbox_close(box);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

typedef struct hand {
  pd_mailbox *box;
  uint8_t got[LETTERS + 1];
  int result;
} hand;

static void *hand_works(void *ctx)
{
  hand *h = ctx;
  h->result = work(h->box, "hand", h->got, LETTERS / WORKERS);
  return NULL;
}

static void mailbox__threads_of_one_handle_deliver_each_letter_once(void **state)
{
  (void)state;
  pd_store *store;
  pd_mailbox *box;
  pthread_t threads[WORKERS];
  static hand hands[WORKERS];
  open_box("memory:", &store, &box);
  for (int i = 0; i < WORKERS; i++) {
    hands[i] = (hand){.box = box};
    assert_int_equal(pthread_create(&threads[i], NULL, hand_works, &hands[i]), 0);
  }
  int sum = 0;
  for (int i = 0; i < WORKERS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(hands[i].result >= 0);
    sum += hands[i].result;
  }
  uint8_t rest[LETTERS + 1] = {0};
  sum += work(box, "last", rest, 0);
  assert_int_equal(sum, LETTERS);
  all_are_accepted(box);
  pd_mailbox_close(box);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
}

/* ---- a disk that fails ---- */

/* Send, claim, accept: again until each is done. Whatever call fails, and be it that the work was done and only the answer failed, the
 * letter is there once and is accepted once. */
static void one_fault(uint64_t n, fault_how how, bool *out_fired)
{
  pd_store *store;
  pd_mailbox *box;
  pd_error err;
  pd_claim claim = {.consumer = "w", .lease_ms = 1000};
  pd_claim_found found = {0};
  mine m = {0};
  char *at = text_of("fault:memory:mail-%llu-%d", (unsigned long long)n, (int)how);
  pd_mail_sent sent = {0};
  pd_mail mail = {.body = pd_text("1"), .dedupe_key = "once"};
  now = 1000;
  open_box(at, &store, &box);
  fault_backend_plan((fault_plan){.at = n, .how = how, .ops = FAULT_LOG_APPEND | FAULT_LOG_READ | FAULT_LOG_TAIL});
  for (int i = 0; pd_mailbox_send(box, &mail, &sent, &err); i++) assert_true(i < 5);
  assert_int_equal(sent.number, 1);
  for (int i = 0; !found.count; i++, now += 1000) { /* a claim whose answer was lost comes back when its lease ends */
    pd_code code = pd_mailbox_claim(box, &claim, take, &m, &found, &err);
    assert_true(i < 5 && (!code || code == PD_STORAGE));
  }
  for (int i = 0; pd_mailbox_accept(box, m.number, m.token, &err); i++) assert_true(i < 5);
  *out_fired = fault_backend_has_fired();
  fault_backend_plan((fault_plan){0});
  int count = 0;
  assert_int_equal(pd_mailbox_list(box, NULL, is_accepted, &count, &err), PD_OK);
  assert_int_equal(count, 1);
  pd_mailbox_close(box);
  assert_int_equal(pd_store_close(store, NULL), PD_OK);
  free(at);
}

static void mailbox__a_failing_disk_loses_and_doubles_nothing(void **state)
{
  (void)state;
  fault_backend_install();
  for (int how = FAULT_BEFORE; how <= FAULT_AFTER; how++) {
    bool fired = true;
    uint64_t n = 1;
    for (; fired; n++) one_fault(n, (fault_how)how, &fired);
    assert_true(n > 4); /* it did get to the appends */
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(mailbox__four_processes_deliver_each_letter_once, set_up, tear_down),
    cmocka_unit_test_setup_teardown(mailbox__threads_of_one_handle_deliver_each_letter_once, set_up, tear_down),
    cmocka_unit_test_setup_teardown(mailbox__a_failing_disk_loses_and_doubles_nothing, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("thread mailbox faults", tests, NULL, NULL);
}
