/* approvals.c: `approvals list|show|approve|deny`: what agents ask for, and what the operator says. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "operator.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void print_row(out_stream *o, pd_json item)
{
  bool is_open = pd_json_is(pd_json_member(item, "status"), "pending");
  out_set(o, OUT_ID);
  operator_column(o, item, "id", 37);
  out_set(o, is_open ? OUT_CHANGED : OUT_PLAIN);
  operator_column(o, item, "status", 8);
  out_set(o, OUT_PLAIN);
  operator_column(o, item, "agent", 14);
  out_set(o, OUT_NAME);
  operator_column(o, item, "capability", 22);
  out_set(o, OUT_DIM);
  operator_text(o, item, is_open ? "created_at" : "decided_at");
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
}

static void print_item(out_stream *o, pd_json item)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(item);
  while (pd_json_walk_next(&walk, &key, &value)) {
    CLEANUP(pd_buf_done) pd_buf name = {0};
    CLEANUP(pd_buf_done) pd_buf text = {0};
    if (pd_json_is(key, "approval_id")) continue; /* the same as id */
    if (pd_json_decode(key, &name, NULL) || pd_buf_byte(&name, 0, NULL)) return;
    bool is_text = value.kind == PD_JSON_STRING && pd_json_decode(value, &text, NULL) == PD_OK;
    out_printf(o, "%-13s ", (const char *)name.data);
    out_safe(o, is_text ? pd_buf_bytes(&text) : value.raw);
    out_text(o, "\n");
  }
}

static pd_code run_list(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  uint64_t limit = 100;
  const char *status = args_get(args, "status"), *agent = args_get_global(args, "agent");
  pd_json answer, item;
  pd_json_writer w = {.out = &input, .err = err};
  TRY(args_number(args, "limit", 1, &limit, err));
  pd_json_open(&w, '{');
  if (status) pd_json_put_text(&w, "status", status);
  if (agent) pd_json_put_text(&w, "agent", agent);
  pd_json_put_number(&w, "limit", limit);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(operator_call(cli, "approvals.list", pd_buf_bytes(&input), &out, &answer, err));
  if (cli->is_json) return operator_print(cli, &out);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "approvals"));
  bool is_empty = true;
  for (; pd_json_walk_next(&walk, NULL, &item); is_empty = false) print_row(&cli->out, item);
  if (is_empty) cli_say(cli, status ? "there are none" : "nothing waits for approval");
  if (pd_json_true(pd_json_member(answer, "has_more"))) cli_say(cli, "there are more: raise -n");
  return PD_OK;
}

/* Who sits at the keyboard, for the record. */
static const char *user_name(void)
{
  const struct passwd *user = getpwuid(geteuid());
  return user && user->pw_name && *user->pw_name && strlen(user->pw_name) <= 64 ? user->pw_name : "operator";
}

static pd_code run_one(cli_session *cli, const args_parsed *args, const char *capability, bool decides, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  const char *id = args->words[1], *reason = args_get(args, "reason"), *by = args_get(args, "by");
  pd_json answer;
  pd_json_writer w = {.out = &input, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "approval_id", id);
  if (decides && reason) pd_json_put_text(&w, "reason", reason);
  if (decides) pd_json_put_text(&w, "by", by ? by : user_name());
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(operator_call(cli, capability, pd_buf_bytes(&input), &out, &answer, err));
  if (cli->is_json) return operator_print(cli, &out);
  pd_json item = pd_json_member(answer, "approval");
  if (!decides) {
    print_item(&cli->out, item);
    return PD_OK;
  }
  print_row(&cli->out, item);
  if (!pd_json_true(pd_json_member(answer, "agent_told"))) cli_say(cli, "the agent could not be told: its queue is full");
  return PD_OK;
}

static pd_code run_approvals(cli_session *cli, const args_parsed *args, pd_error *err)
{
  static const struct {
    const char *verb, *capability;
    bool decides;
  } verbs[] = {{"show", "approvals.show", false}, {"approve", "approvals.approve", true}, {"deny", "approvals.deny", true}};
  const char *verb = args->word_count ? args->words[0] : "list";
  bool decides = strcmp(verb, "approve") == 0 || strcmp(verb, "deny") == 0;
  if (!decides && (args_get(args, "reason") || args_get(args, "by")))
    return pd_error_set(err, PD_INVALID, "approvals: --reason and --by go with approve and deny");
  if (strcmp(verb, "list") == 0) {
    if (args->word_count > 1) return pd_error_set(err, PD_INVALID, "approvals list: takes no words, not '%s'", args->words[1]);
    return run_list(cli, args, err);
  }
  for (size_t i = 0; i < COUNT_OF(verbs); i++) {
    if (strcmp(verb, verbs[i].verb) != 0) continue;
    if (args->word_count != 2) return pd_error_set(err, PD_INVALID, "approvals %s: which one? Give its id", verb);
    return run_one(cli, args, verbs[i].capability, verbs[i].decides, err);
  }
  return pd_error_set(err, PD_INVALID, "approvals: '%s' is none of: list, show, approve, deny", verb);
}

static const args_option approvals_options[] = {
  {"status", 's', "WHICH", "list: pending (default), approved, denied, expired or all"},
  {"limit", 'n', "N", "list: so many at most (default 100, at most 1000)"},
  {"reason", 0, "TEXT", "approve, deny: why; the agent is told"},
  {"by", 0, "NAME", "approve, deny: who decides (default: the user)"},
  {0},
};

const cli_command cmd_approvals = {
  .spec = {"approvals", approvals_options, 0, 2, false},
  .group = "operator",
  .summary = "List what waits for approval, and approve or deny it",
  .usage = "[list | show ID | approve ID | deny ID]",
  .about = "Calls that need approval wait here. An approval is bound to the agent, the capability and its very inputs:\n"
           "after it the same call runs once. Deciding twice is a conflict (exit 3). `show` prints the inputs.",
  .example = "$ perdure approvals\n$ perdure approvals show apr-20261115T100000Z-0123456789abcdef\n"
             "$ perdure approvals approve apr-20261115T100000Z-0123456789abcdef\n"
             "$ perdure approvals deny apr-20261115T100000Z-0123456789abcdef --reason 'not on a Friday'\n"
             "$ perdure approvals list --status all --json",
  .run = run_approvals,
};
