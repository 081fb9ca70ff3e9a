/*
 * mcp_approve.c: calls that a person has to approve, asked for through the client: a form with approve or deny. What is kept between the
 * rounds is the approval's id; the answer is a decision of the operator's, as `perdure approvals approve` would make it. A passphrase is
 * never asked for: a locked vault is an error that says where to unlock it.
 */
#include "base/base.h"
#include "base/buf.h"
#include "wire/mcp_home.h"

#include <stdio.h>

#define APPROVAL "approval"
#define SHOWN_MAX 2000

static pd_code call_operator(pd_mcp_turn *turn, const char *capability, pd_bytes id, pd_json reason, pd_buf *out)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  pd_json_writer w = {.out = &input};
  char by[PD_NAME_SIZE_MAX + 32];
  pd_ctx who = {.home = turn->mcp->home, .is_operator = true};
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "approval_id", id);
  if (strcmp(capability, "approvals.show") != 0) {
    snprintf(by, sizeof by, "the MCP client of %s", turn->peer->agent);
    pd_json_put_text(&w, "by", by);
    if (reason.kind == PD_JSON_STRING && reason.raw.size > 2) {
      pd_json_key(&w, "reason");
      pd_json_value(&w, reason);
    }
  }
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_call(&who, capability, pd_buf_bytes(&input), out, NULL);
}

/* ---- asking ---- */

/* What the operator may see of the input. */
static pd_code shown_input(pd_mcp_turn *turn, pd_bytes id, pd_buf *out)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json json;
  TRY(call_operator(turn, "approvals.show", id, (pd_json){0}, &answer));
  TRY(pd_json_parse(pd_buf_bytes(&answer), &json, NULL));
  pd_json item = pd_json_member(json, "approval");
  pd_bytes raw = pd_json_member(item, "input").raw, resolved = pd_json_member(item, "resolved").raw;
  TRY(pd_buf_append(out, raw.data, raw.size < SHOWN_MAX ? raw.size : SHOWN_MAX, NULL));
  if (raw.size > SHOWN_MAX) TRY(pd_buf_printf(out, NULL, "…"));
  return resolved.size ? pd_buf_printf(out, NULL, ", which is %.*s", (int)resolved.size, (const char *)resolved.data) : PD_OK;
}

static pd_code write_form(pd_mcp_turn *turn, const char *capability, pd_bytes id, pd_buf *out)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf message = {0};
  pd_json_writer w = {.out = out};
  TRY(shown_input(turn, id, &input));
  TRY(pd_buf_printf(&message, NULL, "The agent '%s' wants to call %s with %.*s. May it? (%.*s)", turn->peer->agent, capability,
                    (int)input.size, (const char *)input.data, (int)id.size, (const char *)id.data));
  pd_json_open(&w, '{');
  if (turn->is_modern || strcmp(turn->revision, PD_MCP_LEGACY) >= 0) pd_json_put_text(&w, "mode", "form");
  pd_json_put_bytes(&w, "message", pd_buf_bytes(&message));
  pd_json_key(&w, "requestedSchema");
  pd_json_raw(&w, pd_text("{\"type\":\"object\",\"properties\":{\"decision\":{\"type\":\"string\",\"title\":\"Decision\",\"description\":"
                          "\"approve: it runs once. deny: it does not run.\",\"enum\":[\"approve\",\"deny\"]},\"reason\":{\"type\":"
                          "\"string\",\"title\":\"Reason\",\"description\":\"Why, for the record.\",\"maxLength\":1000}},\"required\":["
                          "\"decision\"]}"));
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_buf_byte(out, 0, NULL);
}

bool pd_mcp_approve_ask(pd_mcp_turn *turn, const char *capability, pd_bytes answer)
{
  CLEANUP(pd_buf_done) pd_buf id = {0};
  CLEANUP(pd_buf_done) pd_buf form = {0};
  pd_json json;
  if (!turn->peer->may_approve || !(turn->client & PD_MCP_ELICITS) || turn->is_batch) return false;
  if (pd_json_parse(answer, &json, NULL)) return false;
  pd_json details = pd_json_member(pd_json_member(json, "error"), "details");
  if (pd_json_decode(pd_json_member(details, "approval_id"), &id, NULL) || !id.size) return false;
  if (write_form(turn, capability, pd_buf_bytes(&id), &form) || pd_mcp_keep(turn, pd_buf_bytes(&id))) return false;
  return pd_mcp_ask(turn, APPROVAL, "elicitation/create", (const char *)form.data) == PD_OK;
}

/* ---- the answer ---- */

void pd_mcp_approve_settle(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json given = pd_mcp_answer(turn, APPROVAL), content = pd_json_member(given, "content"), action = pd_json_member(given, "action");
  if (!turn->peer->may_approve || !turn->state.size) return;
  pd_json decision = pd_json_member(content, "decision"), reason = pd_json_member(content, "reason");
  const char *capability = NULL;
  if (pd_json_is(action, "accept") && pd_json_is(decision, "approve")) capability = "approvals.approve";
  if (pd_json_is(action, "decline") || (pd_json_is(action, "accept") && pd_json_is(decision, "deny"))) capability = "approvals.deny";
  if (!capability) return; /* put off: it waits for the operator */
  /* If somebody else decided meanwhile, that holds, and the call that follows tells. */
  if (call_operator(turn, capability, turn->state, reason, &answer)) return;
  pd_mcp_log(turn, PD_MCP_NOTICE, "perdure", pd_text(capability));
}
