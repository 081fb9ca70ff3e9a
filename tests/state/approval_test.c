/* approval_test.c: calls that wait for the operator: asking, deciding, using, expiring. */
#include "state/world.h"

#include "base/base.h"
#include "state/approval.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SEND "queue.send"
#define HELLO "{\"to\":\"other\",\"kind\":\"hello\",\"body\":{\"a\":1,\"b\":[2]}}"
#define HOUR_MS 3600000

static void set_policy(world *w, const char *text)
{
  char *path = text_of("%s/policy.toml", w->folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
  free(path);
  if (pd_home_reload(w->home, &w->err)) fail_msg("%s", w->err.message);
}

/* A world where sending messages needs approval. */
static void open_world(world *w)
{
  world_open(w, NULL);
  set_policy(w, "[[rule]]\ncapability = \"queue.send\"\npermission = \"approval\"\nreason = \"mail is checked\"\n");
}

static void operator_ok(world *w, const char *capability, const char *input)
{
  w->is_operator = true;
  world_ok(w, capability, input);
  w->is_operator = false;
}

/* Call, which must ask for approval; its id. */
static char *ask(world *w, const char *input)
{
  world_fails(w, SEND, input, "ApprovalRequired", "wait");
  assert_int_equal(w->err.code, PD_APPROVAL);
  const char *id = world_out(w, "error.details.approval_id");
  assert_true(strlen(id) > 10);
  return text_of("%.*s", (int)strlen(id) - 2, id + 1);
}

static void decide(world *w, const char *verb, const char *id)
{
  char input[200], name[40];
  snprintf(name, sizeof name, "approvals.%s", verb);
  snprintf(input, sizeof input, "{\"approval_id\":\"%s\",\"reason\":\"because \xc3\xa4\",\"by\":\"anna\"}", id);
  operator_ok(w, name, input);
}

static void send_count_is(world *w, int count)
{
  const char *agent = w->agent;
  char text[16];
  snprintf(text, sizeof text, "%d", count);
  w->agent = "other";
  world_ok(w, "queue.count", "{}");
  assert_string_equal(world_out(w, "unread"), text);
  w->agent = agent;
}

static void approval__the_same_call_runs_once_after_it_was_approved(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  assert_string_equal(world_out(&w, "error.details.expires_at"), "\"2026-11-15T11:00:00.000Z\"");
  send_count_is(&w, 0);
  char *again = ask(&w, HELLO); /* still the same request */
  assert_string_equal(again, id);
  decide(&w, "approve", id);
  assert_string_equal(world_out(&w, "approval.status"), "\"approved\"");
  assert_string_equal(world_out(&w, "approval.decided_by"), "\"anna\"");
  assert_string_equal(world_out(&w, "agent_told"), "true");
  send_count_is(&w, 0);
  world_ok(&w, SEND, HELLO);
  send_count_is(&w, 1);
  free(again);
  again = ask(&w, HELLO);
  assert_string_not_equal(again, id);
  send_count_is(&w, 1);
  free(again);
  free(id);
  world_close(&w);
}

static void approval__member_order_and_white_space_do_not_matter_to_what_was_approved(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  decide(&w, "approve", id);
  world_ok(&w, SEND, " { \"body\" : { \"b\" : [ 2 ] , \"a\":1}, \"k\\u0069nd\":\"hell\\u006f\", \"to\":\"other\" }");
  send_count_is(&w, 1);
  free(id);
  world_close(&w);
}

static void approval__changed_inputs_or_another_agent_need_another(void **state)
{
  (void)state;
  static const char *const others[] = {
    "{\"to\":\"other\",\"kind\":\"hello\",\"body\":{\"a\":1,\"b\":[3]}}",
    "{\"to\":\"third\",\"kind\":\"hello\",\"body\":{\"a\":1,\"b\":[2]}}",
    "{\"to\":\"other\",\"kind\":\"hello\",\"body\":{\"a\":1.0,\"b\":[2]}}",
    "{\"to\":\"other\",\"kind\":\"hello\",\"body\":{\"a\":1}}",
  };
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  decide(&w, "approve", id);
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    char *another = ask(&w, others[i]);
    assert_string_not_equal(another, id);
    free(another);
  }
  w.agent = "sly";
  char *another = ask(&w, HELLO);
  assert_string_not_equal(another, id);
  send_count_is(&w, 0);
  w.agent = "main";
  world_ok(&w, SEND, HELLO); /* and still holds for the one it was given for */
  free(another);
  free(id);
  world_close(&w);
}

static void approval__a_denial_is_told_once_and_then_a_new_request_can_be_made(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  decide(&w, "deny", id);
  world_fails(&w, SEND, HELLO, "ApprovalDenied", "change");
  assert_int_equal(w.err.code, PD_DENIED);
  assert_string_equal(world_out(&w, "error.details.reason"), "\"because \xc3\xa4\"");
  char *again = ask(&w, HELLO);
  assert_string_not_equal(again, id);
  send_count_is(&w, 0);
  free(again);
  free(id);
  world_close(&w);
}

static void approval__expires_when_nobody_decides_and_says_so_once(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  w.now_ms += HOUR_MS - 1;
  char *same = ask(&w, HELLO);
  assert_string_equal(same, id);
  w.now_ms += 1;
  world_fails(&w, SEND, HELLO, "ApprovalExpired", "retry");
  free(same);
  same = ask(&w, HELLO);
  assert_string_not_equal(same, id);
  w.is_operator = true;
  assert_int_equal(world_callf(&w, "approvals.approve", "{\"approval_id\":\"%s\"}", id), PD_CONFLICT);
  assert_string_equal(world_out(&w, "error.code"), "\"AlreadyDecided\"");
  assert_string_equal(world_out(&w, "error.details.status"), "\"expired\"");
  free(same);
  free(id);
  world_close(&w);
}

static void approval__an_approval_that_is_not_used_in_time_expires(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  w.now_ms += HOUR_MS - 1;
  decide(&w, "approve", id);
  w.now_ms += HOUR_MS;
  world_fails(&w, SEND, HELLO, "ApprovalExpired", "retry");
  free(id);
  id = ask(&w, HELLO);
  decide(&w, "approve", id);
  w.now_ms += HOUR_MS - 1;
  world_ok(&w, SEND, HELLO);
  send_count_is(&w, 1);
  free(id);
  world_close(&w);
}

static void approval__ttl_0_never_expires_and_a_rule_has_its_own(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  w.home->config.approval_ttl_ms = 0;
  char *id = ask(&w, HELLO);
  assert_string_equal(world_out(&w, "error.details.expires_at"), "");
  w.now_ms += (int64_t)HOUR_MS * 24 * 3000;
  decide(&w, "approve", id);
  w.now_ms += (int64_t)HOUR_MS * 24 * 3000;
  world_ok(&w, SEND, HELLO);
  set_policy(&w, "[[rule]]\ncapability = \"queue.send\"\npermission = \"approval\"\nttl = \"10 min\"\n");
  free(id);
  id = ask(&w, HELLO);
  w.now_ms += 600000;
  world_fails(&w, SEND, HELLO, "ApprovalExpired", NULL);
  free(id);
  world_close(&w);
}

static void approval__is_used_by_the_attempt_that_ran_also_if_it_failed(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set_policy(&w, "[[rule]]\ncapability = \"state.shared.set\"\npermission = \"approval\"\n");
  const char *input = "{\"key\":\"k\",\"value\":1,\"expected_version\":7}";
  world_fails(&w, "state.shared.set", input, "ApprovalRequired", NULL);
  char *id = text_of("%.*s", (int)strlen(world_out(&w, "error.details.approval_id")) - 2, world_out(&w, "error.details.approval_id") + 1);
  decide(&w, "approve", id);
  world_fails(&w, "state.shared.set", "{\"key\":7}", "InvalidInput", NULL); /* an input that is refused uses nothing */
  world_fails(&w, "state.shared.set", input, "VersionConflict", NULL);
  world_fails(&w, "state.shared.set", input, "ApprovalRequired", NULL);
  free(id);
  world_close(&w);
}

static void approval__the_operator_needs_none(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  operator_ok(&w, SEND, HELLO);
  send_count_is(&w, 1);
  operator_ok(&w, "approvals.list", "{\"status\":\"all\"}");
  assert_string_equal(world_out(&w, "count"), "0");
  world_close(&w);
}

/* Deciding by `verb` what was decided, and what has expired. */
static void decide_too_late(const char *verb)
{
  static const char *const before[][2] = {{"deny", "\"denied\""}, {"approve", "\"approved\""}, {NULL, "\"expired\""}};
  world w;
  char capability[40], input[100];
  open_world(&w);
  snprintf(capability, sizeof capability, "approvals.%s", verb);
  for (size_t i = 0; i < COUNT_OF(before); i++) {
    snprintf(input, sizeof input, "{\"to\":\"other\",\"kind\":\"k\",\"body\":%zu}", i);
    char *id = ask(&w, input);
    if (before[i][0])
      decide(&w, before[i][0], id);
    else
      w.now_ms += HOUR_MS;
    snprintf(input, sizeof input, "{\"approval_id\":\"%s\"}", id);
    w.is_operator = true;
    world_fails(&w, capability, input, "AlreadyDecided", "show");
    assert_int_equal(w.err.code, PD_CONFLICT);
    assert_string_equal(world_out(&w, "error.details.status"), before[i][1]);
    world_ok(&w, "approvals.show", input);
    assert_string_equal(world_out(&w, "approval.status"), before[i][1]); /* as it was */
    w.is_operator = false;
    free(id);
  }
  world_close(&w);
}

static void approvals_approve__err_AlreadyDecided__deciding_twice_is_a_conflict(void **state)
{
  (void)state;
  decide_too_late("approve");
}

static void approvals_deny__err_AlreadyDecided__deciding_twice_is_a_conflict(void **state)
{
  (void)state;
  decide_too_late("deny");
}

static void approvals_show__err_ApprovalNotFound__agents_see_only_their_own(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO), input[100];
  snprintf(input, sizeof input, "{\"approval_id\":\"%s\"}", id);
  world_ok(&w, "approvals.show", input);
  w.agent = "sly";
  world_fails(&w, "approvals.show", input, "ApprovalNotFound", "list_approvals");
  world_ok(&w, "approvals.list", "{\"status\":\"all\"}");
  assert_string_equal(world_out(&w, "approvals"), "[]");
  w.agent = "main";
  world_ok(&w, "approvals.list", "{}");
  assert_string_equal(world_out(&w, "approvals.0.agent"), "\"main\"");
  free(id);
  world_close(&w);
}

static void approval__shows_what_is_to_be_approved_and_why(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  world_begin_session(&w);
  char *id = ask(&w, HELLO);
  operator_ok(&w, "approvals.list", "{}");
  assert_string_equal(world_out(&w, "count"), "1");
  assert_string_equal(world_out(&w, "approvals.0.capability"), "\"queue.send\"");
  assert_string_equal(world_out(&w, "approvals.0.input.body"), "{\"a\":1,\"b\":[2]}");
  assert_string_equal(world_out(&w, "approvals.0.policy"), "\"mail is checked\"");
  assert_string_equal(world_out(&w, "approvals.0.created_at"), "\"2026-11-15T10:00:00.000Z\"");
  assert_int_equal(strlen(world_out(&w, "approvals.0.input_hash")), 66);
  assert_true(strlen(world_out(&w, "approvals.0.session")) > 4);
  char *large = malloc(6000);
  memset(large, 'x', 5999);
  large[5999] = 0;
  assert_int_equal(world_callf(&w, SEND, "{\"to\":\"other\",\"kind\":\"k\",\"body\":\"%s\"}", large), PD_APPROVAL);
  operator_ok(&w, "approvals.list", "{}");
  assert_string_equal(world_out(&w, "approvals.0.input.body.size_bytes"), "6001");
  assert_true(w.out.size < 4000);
  free(large);
  free(id);
  world_close(&w);
}

static void approval__outcomes_arrive_in_the_agents_queue(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  decide(&w, "approve", id);
  world_ok(&w, "queue.receive", "{}");
  assert_string_equal(world_out(&w, "messages.0.kind"), "\"approval\"");
  assert_string_equal(world_out(&w, "messages.0.body.status"), "\"approved\"");
  assert_string_equal(world_out(&w, "messages.0.body.capability"), "\"queue.send\"");
  assert_string_equal(world_out(&w, "messages.0.body.reason"), "\"because \xc3\xa4\"");
  assert_non_null(strstr(world_out(&w, "messages.0.body.approval_id"), id));
  world_ok(&w, SEND, HELLO);
  free(id);
  id = ask(&w, HELLO);
  w.now_ms += 2 * HOUR_MS;
  operator_ok(&w, "approvals.list", "{\"status\":\"expired\"}"); /* whoever looks first finds it expired */
  assert_string_equal(world_out(&w, "count"), "1");
  operator_ok(&w, "approvals.list", "{\"status\":\"expired\"}");
  world_ok(&w, "queue.receive", "{\"visibility_ms\":1}");
  assert_non_null(strstr((const char *)w.out.data, "\"expired\""));
  assert_string_equal(world_out(&w, "messages.2"), "");
  free(id);
  world_close(&w);
}

static void approval__lists_live_under_the_keys_of_seed_000(void **state)
{
  (void)state;
  world w;
  pd_store *store;
  pd_buf text = {0};
  open_world(&w);
  char *id = ask(&w, HELLO);
  assert_int_equal(pd_store_open(w.uri, "system", NULL, &store, &w.err), PD_OK);
  assert_int_equal(pd_get(store, NULL, pd_text("approvals:pending"), &text, NULL, &w.err), PD_OK);
  assert_int_equal(memcmp(text.data, "[{\"id\":\"apr-20261115T100000Z-", 29), 0);
  decide(&w, "approve", id);
  assert_int_equal(pd_get(store, NULL, pd_text("approvals:pending"), &text, NULL, &w.err), PD_OK);
  assert_int_equal(text.size, 2);
  assert_int_equal(pd_get(store, NULL, pd_text("approvals:history"), &text, NULL, &w.err), PD_OK);
  assert_non_null(memmem(text.data, text.size, "\"status\":\"approved\"", 19));
  assert_int_equal(pd_put(store, pd_text("approvals:pending"), pd_text("{\"not\":\"a list\"}"), NULL, NULL, &w.err), PD_OK);
  world_fails(&w, SEND, HELLO, "DatabaseError", NULL); /* fails closed */
  send_count_is(&w, 0);
  pd_buf_done(&text);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  free(id);
  world_close(&w);
}

static void approval__survives_a_restart(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  world_restart(&w);
  decide(&w, "approve", id);
  world_restart(&w);
  world_ok(&w, SEND, HELLO);
  world_restart(&w);
  char *again = ask(&w, HELLO);
  assert_string_not_equal(again, id);
  free(again);
  free(id);
  world_close(&w);
}

static void approval__history_is_bounded_but_keeps_what_may_still_be_used(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  w.home->config.approval_history_keep = 5;
  char *first = ask(&w, HELLO), input[100];
  decide(&w, "approve", first);
  for (int i = 0; i < 12; i++) {
    snprintf(input, sizeof input, "{\"to\":\"other\",\"kind\":\"k\",\"body\":%d}", i);
    char *id = ask(&w, input);
    decide(&w, "deny", id);
    free(id);
  }
  operator_ok(&w, "approvals.list", "{\"status\":\"all\"}");
  assert_string_equal(world_out(&w, "count"), "5");
  assert_string_equal(world_out(&w, "approvals.0.input.body"), "11");
  world_ok(&w, SEND, HELLO);
  free(first);
  world_close(&w);
}

static void approval__pending_requests_of_one_agent_are_bounded(void **state)
{
  (void)state;
  world w;
  pd_store *store;
  pd_buf text = {0};
  open_world(&w);
  char *id = ask(&w, HELLO);
  assert_int_equal(pd_store_open(w.uri, "system", NULL, &store, &w.err), PD_OK);
  assert_int_equal(pd_get(store, NULL, pd_text("approvals:pending"), &text, NULL, &w.err), PD_OK);
  char *list = malloc(text.size * (PD_APPROVALS_AGENT_MAX + 1));
  size_t at = 0;
  list[at++] = '[';
  for (int i = 0; i < PD_APPROVALS_AGENT_MAX; i++) {
    if (i) list[at++] = ',';
    memcpy(list + at, text.data + 1, text.size - 2);
    at += text.size - 2;
  }
  list[at++] = ']';
  assert_int_equal(pd_put(store, pd_text("approvals:pending"), (pd_bytes){list, at}, NULL, NULL, &w.err), PD_OK);
  world_fails(&w, SEND, "{\"to\":\"other\",\"kind\":\"more\",\"body\":1}", "LimitExceeded", "split");
  w.agent = "another";
  char *theirs = ask(&w, HELLO);
  free(theirs);
  free(list);
  pd_buf_done(&text);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  free(id);
  world_close(&w);
}

static void approval__is_in_the_audit_of_the_calls_that_asked_decided_and_used_it(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  char *id = ask(&w, HELLO);
  decide(&w, "approve", id);
  world_ok(&w, SEND, HELLO);
  operator_ok(&w, "operator.feed", "{}");
  char quoted[80];
  snprintf(quoted, sizeof quoted, "\"%s\"", id);
  for (int i = 0; i < 3; i++) {
    char path[40];
    snprintf(path, sizeof path, "lines.%d.approval_id", i);
    assert_string_equal(world_out(&w, path), quoted);
  }
  assert_string_equal(world_out(&w, "lines.2.outcome"), "\"ApprovalRequired\"");
  assert_string_equal(world_out(&w, "lines.1.capability"), "\"approvals.approve\"");
  assert_int_equal(strlen(world_out(&w, "lines.1.commit")), 66);
  assert_string_equal(world_out(&w, "lines.0.outcome"), "\"ok\"");
  assert_string_equal(world_out(&w, "lines.0.permission"), "\"approval\"");
  free(id);
  world_close(&w);
}

/* ---- races between processes ---- */

typedef struct racer {
  const char *capability, *input;
  bool is_operator;
} racer;

static void run_racer(world *w, const racer *r, int gate)
{
  pd_home *home;
  pd_error err = {0};
  pd_buf out = {0};
  char byte;
  if (pd_home_open(w->uri, NULL, &home, &err)) _exit(100);
  if (read(gate, &byte, 1) != 0) _exit(101); /* closed by the parent: all begin at once */
  pd_ctx ctx = {.home = home, .agent = "main", .is_operator = r->is_operator};
  pd_code code = pd_call(&ctx, r->capability, pd_text(r->input), &out, &err);
  pd_buf_done(&out);
  if (pd_home_close(home, NULL)) _exit(102);
  _exit((int)code);
}

/* How many of 4 processes that do the same at once succeed; the others must answer `otherwise`. */
static int race(world *w, const racer *r, pd_code otherwise)
{
  int gate[2], won = 0, status;
  assert_int_equal(pd_home_close(w->home, &w->err), PD_OK);
  w->home = NULL;
  assert_int_equal(pipe(gate), 0);
  pid_t pids[4];
  for (size_t i = 0; i < COUNT_OF(pids); i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i]) continue;
    close(gate[1]);
    run_racer(w, r, gate[0]);
  }
  close(gate[0]);
  close(gate[1]);
  for (size_t i = 0; i < COUNT_OF(pids); i++) {
    assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == PD_OK)
      won++;
    else
      assert_int_equal(WEXITSTATUS(status), otherwise);
  }
  world_restart(w);
  return won;
}

static void approval__of_processes_that_use_it_at_once_one_runs(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  w.home->config.approval_ttl_ms = 0; /* the racers have the system's clock */
  for (int round = 0; round < 5; round++) {
    char *id = ask(&w, HELLO);
    decide(&w, "approve", id);
    racer r = {.capability = SEND, .input = HELLO};
    assert_int_equal(race(&w, &r, PD_APPROVAL), 1);
    w.home->config.approval_ttl_ms = 0;
    send_count_is(&w, round + 1);
    operator_ok(&w, "approvals.list", "{}");
    assert_string_equal(world_out(&w, "count"), "1"); /* the others asked anew, all for the same */
    char *next = ask(&w, HELLO);
    decide(&w, "deny", next);
    world_fails(&w, SEND, HELLO, "ApprovalDenied", NULL);
    free(next);
    free(id);
  }
  world_close(&w);
}

static void approval__of_processes_that_decide_at_once_one_wins(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  for (int round = 0; round < 5; round++) {
    char input[100];
    w.home->config.approval_ttl_ms = 0;
    snprintf(input, sizeof input, "{\"to\":\"other\",\"kind\":\"k\",\"body\":%d}", round);
    char *id = ask(&w, input);
    snprintf(input, sizeof input, "{\"approval_id\":\"%s\"}", id);
    racer r = {.capability = round % 2 ? "approvals.approve" : "approvals.deny", .input = input, .is_operator = true};
    assert_int_equal(race(&w, &r, PD_CONFLICT), 1);
    free(id);
  }
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(approval__the_same_call_runs_once_after_it_was_approved),
    cmocka_unit_test(approval__member_order_and_white_space_do_not_matter_to_what_was_approved),
    cmocka_unit_test(approval__changed_inputs_or_another_agent_need_another),
    cmocka_unit_test(approval__a_denial_is_told_once_and_then_a_new_request_can_be_made),
    cmocka_unit_test(approval__expires_when_nobody_decides_and_says_so_once),
    cmocka_unit_test(approval__an_approval_that_is_not_used_in_time_expires),
    cmocka_unit_test(approval__ttl_0_never_expires_and_a_rule_has_its_own),
    cmocka_unit_test(approval__is_used_by_the_attempt_that_ran_also_if_it_failed),
    cmocka_unit_test(approval__the_operator_needs_none),
    cmocka_unit_test(approvals_approve__err_AlreadyDecided__deciding_twice_is_a_conflict),
    cmocka_unit_test(approvals_deny__err_AlreadyDecided__deciding_twice_is_a_conflict),
    cmocka_unit_test(approvals_show__err_ApprovalNotFound__agents_see_only_their_own),
    cmocka_unit_test(approval__shows_what_is_to_be_approved_and_why),
    cmocka_unit_test(approval__outcomes_arrive_in_the_agents_queue),
    cmocka_unit_test(approval__lists_live_under_the_keys_of_seed_000),
    cmocka_unit_test(approval__survives_a_restart),
    cmocka_unit_test(approval__history_is_bounded_but_keeps_what_may_still_be_used),
    cmocka_unit_test(approval__pending_requests_of_one_agent_are_bounded),
    cmocka_unit_test(approval__is_in_the_audit_of_the_calls_that_asked_decided_and_used_it),
    cmocka_unit_test(approval__of_processes_that_use_it_at_once_one_runs),
    cmocka_unit_test(approval__of_processes_that_decide_at_once_one_wins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
