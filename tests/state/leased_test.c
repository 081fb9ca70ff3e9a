/*
 * leased_test.c: what every leased queue owes (LEA-1 to LEA-4 in leased/leased.h), asked of all its users by the capabilities that agents
 * call: messages, letters and work items.
 */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "leased/leased.h"
#include "support/fault_backend.h"
#include "support/temp_folder.h"

#include <perdure/retention.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LEASE_MS 30000
#define HOUR_MS ((int64_t)3600 * 1000)
#define ITEMS 100
#define WORKERS 4

/* What was taken: which item, and what it takes to acknowledge it. */
typedef struct taken {
  int body;
  char receipt[256];
} taken;

typedef struct user {
  const char *name;
  const char *put, *put_input; /* with the body as a number */
  const char *take, *take_input;
  const char *body;                 /* in the answer */
  const char *receipt, *members[2]; /* the input of `ack`, and what goes in there */
  const char *ack;
} user;

static const user users[] = {
  {"messages",
   "queue.send",
   "{\"to\":\"main\",\"body\":%d}",
   "queue.receive",
   "{\"max\":1,\"visibility_ms\":30000}",
   "messages.0.body",
   "{\"message_ids\":[%s]}",
   {"messages.0.message_id", ""},
   "queue.ack"},
  {"letters",
   "mailbox.send",
   "{\"thread_id\":\"t\",\"body\":%d,\"attempts_max\":50}",
   "mailbox.claim",
   "{\"thread_id\":\"t\",\"consumer\":\"c\",\"lease_seconds\":30}",
   "letters.0.body",
   "{\"thread_id\":\"t\",\"number\":%s,\"token\":%s}",
   {"letters.0.number", "letters.0.token"},
   "mailbox.accept"},
  {"work",
   "work.create",
   "{\"input\":%d}",
   "work.claim",
   "{\"lease_ms\":30000}",
   "run.input",
   "{\"run_id\":%s,\"token\":%s}",
   {"run.id", "run.token"},
   "work.complete"},
};

static void put(world *w, const user *u, int body)
{
  char input[128];
  snprintf(input, sizeof input, u->put_input, body);
  world_ok(w, u->put, input);
}

/* False: there is none to be taken. */
static bool take(world *w, const user *u, taken *out)
{
  char first[100], second[100];
  world_ok(w, u->take, u->take_input);
  const char *body = world_out(w, u->body);
  if (!*body) return false;
  out->body = atoi(body);
  snprintf(first, sizeof first, "%s", world_out(w, u->members[0]));
  snprintf(second, sizeof second, "%s", *u->members[1] ? world_out(w, u->members[1]) : "");
  snprintf(out->receipt, sizeof out->receipt, u->receipt, first, second);
  return true;
}

static void takes(world *w, const user *u, int body, taken *out)
{
  if (!take(w, u, out)) fail_msg("%s: nothing to take, and not %d", u->name, body);
  if (out->body != body) fail_msg("%s: took %d, not %d", u->name, out->body, body);
}

static void takes_nothing(world *w, const user *u)
{
  taken t;
  if (take(w, u, &t)) fail_msg("%s: took %d, which somebody has", u->name, t.body);
}

/* Each user in a world of its own. */
static void for_each_user(const char *uri, void (*check)(world *w, const user *u))
{
  for (size_t i = 0; i < COUNT_OF(users); i++) {
    world w;
    world_open_at(&w, uri, NULL);
    check(&w, &users[i]);
    world_close(&w);
  }
}

/* ---- leases and clocks ---- */

static void end_of_a_lease(world *w, const user *u)
{
  taken t;
  put(w, u, 1);
  put(w, u, 2);
  takes(w, u, 1, &t);
  takes(w, u, 2, &t);
  w->now_ms += LEASE_MS - 1;
  takes_nothing(w, u);
  w->now_ms += 1;
  takes(w, u, 1, &t);
  world_ok(w, u->ack, t.receipt);
  takes(w, u, 2, &t);
  world_ok(w, u->ack, t.receipt);
  w->now_ms += 10 * LEASE_MS;
  takes_nothing(w, u);
}

static void leased__an_item_whose_lease_ended_is_taken_by_the_next(void **state)
{
  (void)state;
  for_each_user(NULL, end_of_a_lease);
}

static void clock_going_back(world *w, const user *u)
{
  taken t;
  put(w, u, 1);
  takes(w, u, 1, &t);
  w->now_ms -= HOUR_MS; /* that may be: it is held for longer, and by one */
  takes_nothing(w, u);
  w->now_ms -= 48 * HOUR_MS; /* that clock was wrong: what it gave is free */
  takes(w, u, 1, &t);
  takes_nothing(w, u);
  world_ok(w, u->ack, t.receipt);
  w->now_ms += 49 * HOUR_MS + 2 * LEASE_MS;
  takes_nothing(w, u);
}

static void leased__a_clock_that_goes_back_neither_doubles_nor_keeps_an_item(void **state)
{
  (void)state;
  for_each_user(NULL, clock_going_back);
}

/* ---- gc ---- */

static void gc_before_ack(world *w, const user *u)
{
  taken first, second;
  pd_store *store;
  pd_gc_policy policy = {.keep_last = 1};
  pd_gc_report report;
  world_ok(w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}"); /* a message makes no store */
  put(w, u, 1);
  put(w, u, 2);
  takes(w, u, 1, &first);
  assert_int_equal(world_borrow(w->home, "main", false, &store, &w->err), PD_OK);
  if (pd_gc(store, &policy, &report, &w->err)) fail_msg("gc: %s", w->err.message);
  pd_home_return(w->home, store);
  takes(w, u, 2, &second);
  takes_nothing(w, u);
  world_ok(w, u->ack, first.receipt);
  world_restart(w);
  w->now_ms += LEASE_MS;
  takes(w, u, 2, &second);
  world_ok(w, u->ack, second.receipt);
  takes_nothing(w, u);
}

static void leased__gc_between_take_and_ack_changes_nothing(void **state)
{
  (void)state;
  for_each_user(NULL, gc_before_ack);
}

/* ---- processes ---- */

static int64_t read_clock(void *ctx)
{
  return ((world *)ctx)->now_ms;
}

/* In a child: its own handle on the home. */
static void reopen(world *w)
{
  pd_home_options options = {.folder = w->folder, .now_ms = read_clock, .now_ctx = w};
  if (pd_home_open(w->uri, &options, &w->home, &w->err)) _exit(2);
}

static void close_home(world *w)
{
  assert_int_equal(pd_home_close(w->home, &w->err), PD_OK);
  w->home = NULL;
}

static void kill_holder(world *w, const user *u)
{
  int status;
  taken t;
  put(w, u, 1);
  close_home(w);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    reopen(w);
    if (take(w, u, &t)) kill(getpid(), SIGKILL);
    _exit(3);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  reopen(w);
  takes_nothing(w, u);
  w->now_ms += LEASE_MS;
  takes(w, u, 1, &t);
  world_ok(w, u->ack, t.receipt);
  w->now_ms += LEASE_MS;
  takes_nothing(w, u);
}

static void leased__a_holder_killed_before_its_ack_loses_no_item(void **state)
{
  (void)state;
  for_each_user(NULL, kill_holder);
}

/* Takes and acknowledges until there is nothing left, and says what. Begins when nobody can write to `start` any more. */
static void work(world *w, const user *u, int start, int fd)
{
  taken t;
  char none;
  reopen(w);
  if (read(start, &none, 1)) _exit(4);
  while (take(w, u, &t)) {
    world_ok(w, u->ack, t.receipt);
    if (write(fd, &t.body, sizeof t.body) != (ssize_t)sizeof t.body) _exit(3);
  }
  _exit(0);
}

static void race(world *w, const user *u)
{
  int pipes[2], start[2], body, seen[ITEMS + 1] = {0};
  for (int i = 1; i <= ITEMS; i++) put(w, u, i);
  close_home(w);
  assert_int_equal(pipe(pipes), 0);
  assert_int_equal(pipe(start), 0);
  for (int i = 0; i < WORKERS; i++) {
    if (fork()) continue;
    close(start[1]);
    work(w, u, start[0], pipes[1]);
  }
  close(pipes[1]);
  close(start[0]);
  close(start[1]);
  while (read(pipes[0], &body, sizeof body) == (ssize_t)sizeof body) seen[body]++;
  close(pipes[0]);
  for (int i = 0, status; i < WORKERS; i++) {
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
  for (int i = 1; i <= ITEMS; i++)
    if (seen[i] != 1) fail_msg("%s: item %d was done %d times", u->name, i, seen[i]);
  reopen(w);
}

static void leased__processes_that_take_at_once_get_each_item_once(void **state)
{
  (void)state;
  for_each_user(NULL, race);
}

/* ---- a failing disk ---- */

/* The n-th append or put of bytes fails, until one is not reached. What was acknowledged with PD_OK is gone for good; what was not may be
 * gone or there, and if it is there, it can be acknowledged. */
static void fail_at_ack(world *w, const user *u, fault_how how)
{
  unsigned fired = 0;
  for (uint64_t n = 1; n < 100; n++) {
    taken t, again;
    put(w, u, (int)n);
    takes(w, u, (int)n, &t);
    fault_backend_plan((fault_plan){.at = n, .how = how, .ops = FAULT_LOG_APPEND | FAULT_BAG_PUT});
    pd_code code = world_call(w, u->ack, t.receipt);
    bool is_over = !fault_backend_fired();
    fault_backend_plan((fault_plan){0});
    fired += !is_over;
    w->now_ms += LEASE_MS;
    bool comes_again = take(w, u, &again);
    if (comes_again && (code == PD_OK || again.body != (int)n))
      fail_msg("%s: %d came after %d was acknowledged", u->name, again.body, (int)n);
    if (comes_again) world_ok(w, u->ack, again.receipt);
    w->now_ms += LEASE_MS;
    takes_nothing(w, u);
    if (is_over) break;
  }
  assert_true(fired > 0);
}

static void fail_before(world *w, const user *u)
{
  fail_at_ack(w, u, FAULT_BEFORE);
}

static void fail_after(world *w, const user *u)
{
  fail_at_ack(w, u, FAULT_AFTER);
}

static void leased__a_disk_that_fails_at_the_ack_loses_and_doubles_nothing(void **state)
{
  (void)state;
  fault_backend_install();
  for_each_user("fault:memory:leased", fail_before);
  for_each_user("fault:memory:leased", fail_after);
}

/* ---- the head's condition ---- */

typedef struct counter {
  uint64_t next;
} counter;

static const pd_bind counter_members[] = {{"next", PD_BIND_NUMBER, PD_BIND_AT(counter, next)}};

typedef struct drawing {
  pd_store *store;
  int runs;
  uint64_t number; /* what was drawn */
} drawing;

/* The next number, and another one is drawn between reading the head and writing it, the first time. */
static pd_code draw(void *ctx, pd_edit *edit, pd_error *err)
{
  drawing *d = ctx;
  pd_leased_tx tx;
  counter head = {0};
  if (pd_leased_begin(&tx, edit, "head", 0, counter_members, COUNT_OF(counter_members), &head, err)) fail_msg("%s", err->message);
  if (!d->runs++ && pd_put(d->store, pd_text("head"), pd_text("{\"next\":1}"), &(pd_note){.ref = "main"}, NULL, err))
    fail_msg("%s", err->message);
  d->number = head.next++;
  pd_code code = pd_leased_stage_head(&tx, counter_members, COUNT_OF(counter_members), &head, err);
  pd_leased_end(&tx);
  return code;
}

static void leased__a_head_that_changed_since_it_was_read_is_not_written_over(void **state)
{
  (void)state;
  pd_error err = {0};
  pd_buf text = {0};
  drawing d = {0};
  assert_int_equal(pd_store_open("memory:", "main", NULL, &d.store, &err), PD_OK);
  if (pd_leased_update(d.store, &(pd_note){.ref = "main"}, draw, &d, NULL, NULL, &err)) fail_msg("%s", err.message);
  assert_int_equal(d.runs, 2);
  assert_int_equal(d.number, 1); /* 0 was drawn meanwhile */
  assert_int_equal(pd_get(d.store, NULL, pd_text("head"), &text, NULL, &err), PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&text), pd_text("{\"next\":2}")));
  pd_buf_done(&text);
  assert_int_equal(pd_store_close(d.store, &err), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(leased__an_item_whose_lease_ended_is_taken_by_the_next),
    cmocka_unit_test(leased__a_clock_that_goes_back_neither_doubles_nor_keeps_an_item),
    cmocka_unit_test(leased__gc_between_take_and_ack_changes_nothing),
    cmocka_unit_test(leased__a_holder_killed_before_its_ack_loses_no_item),
    cmocka_unit_test(leased__processes_that_take_at_once_get_each_item_once),
    cmocka_unit_test(leased__a_head_that_changed_since_it_was_read_is_not_written_over),
    cmocka_unit_test(leased__a_disk_that_fails_at_the_ack_loses_and_doubles_nothing),
  };
  return cmocka_run_group_tests_name("leased queues", tests, NULL, NULL);
}
