/* approve_test.c: calls that a person has to approve, asked for through the client; and what is kept between two rounds. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LETTER "{\"to\":\"bob\",\"kind\":\"hello\",\"body\":{\"n\":1}}"
#define APPROVE "{\"action\":\"accept\",\"content\":{\"decision\":\"approve\",\"reason\":\"fine\"}}"
#define DENY "{\"action\":\"accept\",\"content\":{\"decision\":\"deny\"}}"

static void free_text(char **text)
{
  free(*text);
}

/* A world where sending messages needs approval. */
static void open_world(mcp_world *m)
{
  mcp_open(m, NULL, NULL);
  char *path = text_of("%s/policy.toml", m->w.folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("[[rule]]\ncapability = \"queue.send\"\npermission = \"approval\"\nreason = \"mail is checked\"\n", f);
  assert_int_equal(fclose(f), 0);
  free(path);
  assert_int_equal(pd_home_reload(m->w.home, NULL), PD_OK);
}

/* The modern way; `more` are further params with a comma before them. */
static void send_modern(mcp_world *m, const char *agent, const char *arguments, const char *more)
{
  m->peer.agent = agent;
  mcp_sendf(m, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{%s,\"name\":\"queue_send\",\"arguments\":%s%s}}",
            META_OF(FORMS), arguments, more);
  m->peer.agent = "main";
}

/* The second round with the state of the first. */
static void answer_modern(mcp_world *m, const char *agent, const char *arguments, const char *state_, const char *answer)
{
  char *more = text_of(",\"requestState\":%s,\"inputResponses\":{\"approval\":%s}", state_, answer);
  send_modern(m, agent, arguments, more);
  free(more);
}

static char *state_of(mcp_world *m)
{
  assert_string_equal(mcp_last(m, "result.resultType"), "\"input_required\"");
  return strdup(mcp_last(m, "result.requestState"));
}

static bool says(mcp_world *m, const char *code)
{
  return strstr(mcp_last(m, "result.content.0.text"), code) != NULL;
}

/* ---- modern ---- */

static void approve__a_modern_client_is_asked_and_the_same_request_with_the_answer_runs(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  send_modern(&m, "main", LETTER, "");
  CLEANUP(free_text) char *sealed = state_of(&m);
  assert_string_equal(mcp_last(&m, "result.inputRequests.approval.method"), "\"elicitation/create\"");
  assert_non_null(strstr(mcp_last(&m, "result.inputRequests.approval.params.message"), "'main' wants to call queue.send with {"));
  assert_string_equal(mcp_last(&m, "result.ttlMs"), "");
  answer_modern(&m, "main", LETTER, sealed, APPROVE);
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  assert_string_not_equal(mcp_last(&m, "result.structuredContent.message_id"), "");
  /* and it ran once: the next one is asked for again */
  send_modern(&m, "main", LETTER, "");
  assert_string_equal(mcp_last(&m, "result.resultType"), "\"input_required\"");
  mcp_close(&m);
}

static void approve__who_approved_and_why_is_on_record(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  send_modern(&m, "main", LETTER, "");
  CLEANUP(free_text) char *sealed = state_of(&m);
  answer_modern(&m, "main", LETTER, sealed, APPROVE);
  world_ok(&m.w, "approvals.list", "{\"status\":\"approved\"}");
  assert_string_equal(world_out(&m.w, "approvals.0.decided_by"), "\"the MCP client of main\"");
  assert_string_equal(world_out(&m.w, "approvals.0.reason"), "\"fine\"");
  mcp_close(&m);
}

static void approve__no_is_no_and_later_is_later(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
    {DENY, "ApprovalDenied"},
    {"{\"action\":\"decline\"}", "ApprovalDenied"},
    {"{\"action\":\"cancel\"}", "ApprovalRequired"},
    {"{\"action\":\"accept\",\"content\":{\"decision\":\"maybe\"}}", "ApprovalRequired"},
    {"{\"action\":\"accept\"}", "ApprovalRequired"},
    {"{}", "ApprovalRequired"},
  };
  mcp_world m;
  open_world(&m);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char *letter = text_of("{\"to\":\"bob\",\"kind\":\"hello\",\"body\":{\"n\":%zu}}", i);
    send_modern(&m, "main", letter, "");
    CLEANUP(free_text) char *sealed = state_of(&m);
    answer_modern(&m, "main", letter, sealed, cases[i][0]);
    assert_string_equal(mcp_last(&m, "result.isError"), "true");
    if (!says(&m, cases[i][1])) fail_msg("%s: %s", cases[i][0], m.member);
    free(letter);
  }
  mcp_close(&m);
}

static void approve__a_state_is_good_once_for_one_request_of_one_agent_and_not_for_long(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  send_modern(&m, "main", LETTER, "");
  CLEANUP(free_text) char *sealed = state_of(&m);
  answer_modern(&m, "main", "{\"to\":\"eve\",\"kind\":\"hello\"}", sealed, APPROVE); /* another request */
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  answer_modern(&m, "eve", LETTER, sealed, APPROVE); /* another agent */
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  answer_modern(&m, "main", LETTER, "\"\"", APPROVE);
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  answer_modern(&m, "main", LETTER, "7", APPROVE);
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  /* the same request with its members in another order, and spaces, is the same */
  answer_modern(&m, "main", "{ \"kind\":\"hello\", \"body\":{\"n\":1}, \"to\":\"bob\" }", sealed, APPROVE);
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  answer_modern(&m, "main", LETTER, sealed, APPROVE); /* once more */
  assert_non_null(strstr(mcp_last(&m, "error.message"), "used already"));
  send_modern(&m, "main", LETTER, "");
  CLEANUP(free_text) char *late = state_of(&m);
  m.w.now_ms += 5 * 60 * 1000;
  answer_modern(&m, "main", LETTER, late, APPROVE);
  assert_non_null(strstr(mcp_last(&m, "error.message"), "expired"));
  mcp_close(&m);
}

static void approve__a_state_of_another_process_is_good_for_nothing(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  send_modern(&m, "main", LETTER, "");
  CLEANUP(free_text) char *sealed = state_of(&m);
  mcp_page(&m, 0); /* as after a restart: another pd_mcp on the same home */
  answer_modern(&m, "main", LETTER, sealed, APPROVE);
  assert_non_null(strstr(mcp_last(&m, "error.message"), "not one for this request"));
  world_ok(&m.w, "approvals.list", "{\"status\":\"approved\"}");
  assert_string_equal(world_out(&m.w, "count"), "0");
  mcp_close(&m);
}

static void approve__another_tool_or_another_method_cannot_use_a_state(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  send_modern(&m, "main", LETTER, "");
  CLEANUP(free_text) char *sealed = state_of(&m);
  mcp_sendf(&m,
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{%s,\"name\":\"queue.send\",\"arguments\":" LETTER
            ",\"requestState\":%s,\"inputResponses\":{\"approval\":" APPROVE "}}}",
            META_OF(FORMS), sealed); /* the other spelling of the name is another request, too */
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"prompts/get\",\"params\":{%s,\"name\":\"queue_send\",\"requestState\":%s}}",
            META_OF(FORMS), sealed);
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  answer_modern(&m, "main", LETTER, sealed, APPROVE); /* and it was not used up by that */
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  mcp_close(&m);
}

static void approve__no_bit_of_a_state_can_be_changed(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  send_modern(&m, "main", LETTER, "");
  CLEANUP(free_text) char *sealed = state_of(&m);
  for (size_t i = 1; i + 1 < strlen(sealed); i++) {
    char was = sealed[i];
    sealed[i] = was == 'A' ? 'B' : 'A';
    answer_modern(&m, "main", LETTER, sealed, APPROVE);
    assert_string_equal(mcp_last(&m, "error.code"), "-32602");
    sealed[i] = was;
  }
  mcp_close(&m);
}

static void approve__answers_without_a_state_are_asked_for_again(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  send_modern(&m, "main", LETTER, ",\"inputResponses\":{\"approval\":" APPROVE "}");
  assert_string_equal(mcp_last(&m, "result.resultType"), "\"input_required\"");
  send_modern(&m, "main", LETTER, ",\"inputResponses\":null");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  send_modern(&m, "main", LETTER, ",\"inputResponses\":{\"approval\":7}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_close(&m);
}

static void approve__who_cannot_be_asked_hears_how_to_approve(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  mcp_tool(&m, "queue_send", LETTER); /* a legacy client without elicitation */
  assert_true(says(&m, "ApprovalRequired"));
  assert_non_null(strstr(mcp_last(&m, "result.content.1.text"), "perdure approvals approve apr-"));
  m.peer.may_approve = false; /* a client that nobody trusts with it */
  send_modern(&m, "main", LETTER, "");
  assert_true(says(&m, "ApprovalRequired"));
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{" META_OF(
                 "{\"elicitation\":{\"url\":{}}}") ",\"name\":\"queue_send\",\"arguments\":" LETTER "}}");
  assert_true(says(&m, "ApprovalRequired"));
  mcp_close(&m);
}

static void approve__a_locked_vault_is_an_error_and_never_a_form(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{" META_OF(FORMS) ",\"name\":\"state_backup_create\"}}");
  assert_string_equal(mcp_last(&m, "result.resultType"), "\"complete\"");
  assert_true(says(&m, "VaultLocked"));
  world_ok(&m.w, "approvals.list", "{\"status\":\"all\"}"); /* nobody is asked for what cannot be done */
  assert_string_equal(world_out(&m.w, "count"), "0");
  mcp_close(&m);
}

/* ---- legacy ---- */

/* Initialize with forms and make the call; it waits. Returns the id of the question, to be freed. */
static char *ask_legacy(mcp_world *m)
{
  mcp_initialize(m, "2025-11-25", FORMS);
  mcp_tool(m, "queue_send", LETTER);
  assert_int_equal(m->last.count, 1);
  assert_false(m->last.is_done);
  assert_string_equal(mcp_last(m, "method"), "\"elicitation/create\"");
  return strdup(mcp_last(m, "id"));
}

static void reply(mcp_world *m, const char *id, const char *body)
{
  exchange e;
  char *text = text_of("{\"jsonrpc\":\"2.0\",\"id\":%s,%s}", id, body);
  exchange_begin(&e);
  mcp_send_into(m, &e, text);
  assert_int_equal(e.count, 0);
  assert_int_equal(e.status, 202);
  exchange_end(&e);
  free(text);
}

static void approve__a_legacy_client_is_asked_by_a_request_and_the_call_goes_on_with_its_answer(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  CLEANUP(free_text) char *id = ask_legacy(&m);
  reply(&m, "\"q-00000000000000000000000000000000\"", "\"result\":" APPROVE); /* not the question's */
  assert_int_equal(m.last.count, 1);
  reply(&m, id, "\"result\":" APPROVE);
  assert_int_equal(m.last.count, 2);
  assert_true(m.last.is_done);
  assert_string_equal(mcp_last(&m, "id"), "1");
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  reply(&m, id, "\"result\":" APPROVE); /* twice changes nothing */
  mcp_close(&m);
}

static void approve__another_agent_cannot_answer(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  CLEANUP(free_text) char *id = ask_legacy(&m);
  m.peer.agent = "eve";
  reply(&m, id, "\"result\":" APPROVE);
  assert_int_equal(m.last.count, 1);
  m.peer.agent = "main";
  reply(&m, id, "\"error\":{\"code\":-32601,\"message\":\"no forms here\"}"); /* a client that cannot after all */
  assert_true(says(&m, "ApprovalRequired"));
  mcp_close(&m);
}

static void approve__another_session_of_the_same_agent_cannot_answer(void **state)
{
  (void)state;
  mcp_world m;
  pd_mcp_session *own, *other = NULL;
  exchange push;
  open_world(&m);
  CLEANUP(free_text) char *id = ask_legacy(&m);
  exchange_begin(&push);
  pd_mcp_out out = {.ctx = &push};
  assert_int_equal(pd_mcp_session_new(m.mcp, "main", &out, &other, NULL), PD_OK);
  own = m.peer.session;
  m.peer.session = other;
  reply(&m, id, "\"result\":" APPROVE);
  assert_int_equal(m.last.count, 1);
  m.peer.session = own;
  reply(&m, id, "\"result\":" APPROVE);
  assert_int_equal(m.last.count, 2);
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  pd_mcp_session_release(other);
  exchange_end(&push);
  mcp_close(&m);
}

/* Whatever needs approval: the form asks for a decision and a reason, and for nothing else. */
static void approve__no_form_asks_for_anything_secret(void **state)
{
  (void)state;
  mcp_world m;
  pd_capability_info info;
  size_t forms = 0;
  mcp_open(&m, NULL, NULL);
  assert_int_equal(pd_vault_init(m.w.home, pd_text("correct horse"), NULL, NULL), PD_OK);
  assert_int_equal(pd_vault_unlock(m.w.home, pd_text("correct horse"), NULL), PD_OK);
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    if (info.permission != PD_PERMIT_APPROVAL) continue;
    if (strstr(info.document, "passphrase\":")) fail_msg("%s has a passphrase among its inputs", info.name);
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{%s,\"name\":\"%s\",\"arguments\":{}}}",
              META_OF(FORMS), info.name);
    if (strcmp(mcp_last(&m, "result.resultType"), "\"input_required\"") != 0) continue; /* its input is not right */
    forms++;
    assert_string_equal(mcp_last(&m, "result.inputRequests.approval.params.requestedSchema.required"), "[\"decision\"]");
    assert_null(strstr(mcp_last(&m, "result.inputRequests"), "assphrase"));
    assert_string_equal(mcp_last(&m, "result.inputRequests.approval.params.mode"), "\"form\"");
  }
  assert_true(forms >= 1);
  mcp_close(&m);
}

static void approve__a_question_that_nobody_answers_ends_with_how_to_approve(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  CLEANUP(free_text) char *id = ask_legacy(&m);
  pd_mcp_tick(m.mcp);
  assert_false(m.last.is_done);
  m.w.now_ms += 5 * 60 * 1000;
  pd_mcp_tick(m.mcp);
  assert_true(m.last.is_done);
  assert_true(says(&m, "ApprovalRequired"));
  reply(&m, id, "\"result\":" APPROVE); /* too late */
  mcp_close(&m);
}

static void approve__a_call_that_was_cancelled_is_not_answered(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  CLEANUP(free_text) char *id = ask_legacy(&m);
  exchange e;
  exchange_begin(&e);
  mcp_send_into(&m, &e, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
  exchange_end(&e);
  assert_true(m.last.is_done);
  assert_int_equal(m.last.count, 1);
  reply(&m, id, "\"result\":" APPROVE);
  assert_int_equal(m.last.count, 1);
  mcp_close(&m);
}

static void approve__a_client_that_hangs_up_hears_nothing_more(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  CLEANUP(free_text) char *id = ask_legacy(&m);
  pd_mcp_hang_up(m.mcp, &m.last);
  reply(&m, id, "\"result\":" APPROVE);
  assert_int_equal(m.last.count, 1);
  assert_false(m.last.is_done);
  mcp_close(&m);
}

static void approve__in_a_batch_nobody_is_asked(void **state)
{
  (void)state;
  mcp_world m;
  open_world(&m);
  mcp_initialize(&m, "2025-03-26", FORMS);
  mcp_send(&m, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"queue_send\",\"arguments\":" LETTER "}}]");
  assert_true(m.last.is_done);
  assert_non_null(strstr(mcp_last(&m, "0.result.content.0.text"), "ApprovalRequired"));
  mcp_close(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(approve__a_modern_client_is_asked_and_the_same_request_with_the_answer_runs),
    cmocka_unit_test(approve__who_approved_and_why_is_on_record),
    cmocka_unit_test(approve__no_is_no_and_later_is_later),
    cmocka_unit_test(approve__a_state_is_good_once_for_one_request_of_one_agent_and_not_for_long),
    cmocka_unit_test(approve__no_bit_of_a_state_can_be_changed),
    cmocka_unit_test(approve__answers_without_a_state_are_asked_for_again),
    cmocka_unit_test(approve__who_cannot_be_asked_hears_how_to_approve),
    cmocka_unit_test(approve__a_locked_vault_is_an_error_and_never_a_form),
    cmocka_unit_test(approve__a_legacy_client_is_asked_by_a_request_and_the_call_goes_on_with_its_answer),
    cmocka_unit_test(approve__another_agent_cannot_answer),
    cmocka_unit_test(approve__a_question_that_nobody_answers_ends_with_how_to_approve),
    cmocka_unit_test(approve__a_call_that_was_cancelled_is_not_answered),
    cmocka_unit_test(approve__a_client_that_hangs_up_hears_nothing_more),
    cmocka_unit_test(approve__a_state_of_another_process_is_good_for_nothing),
    cmocka_unit_test(approve__another_tool_or_another_method_cannot_use_a_state),
    cmocka_unit_test(approve__another_session_of_the_same_agent_cannot_answer),
    cmocka_unit_test(approve__no_form_asks_for_anything_secret),
    cmocka_unit_test(approve__in_a_batch_nobody_is_asked),
  };
  return cmocka_run_group_tests_name("approve", tests, NULL, NULL);
}
