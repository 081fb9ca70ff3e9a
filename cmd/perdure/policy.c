/* policy.c: `policy`: the rules in force, and what they would do to a call. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "operator.h"

static pd_code run_rules(cli_session *cli, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer, rule;
  TRY(operator_call(cli, "policy.list", pd_text("{}"), &out, &answer, err));
  if (cli->is_json) return operator_print(cli, &out);
  out_stream *o = &cli->out;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "rules"));
  bool is_empty = true;
  for (; pd_json_walk_next(&walk, NULL, &rule); is_empty = false) {
    out_text(o, "line ");
    operator_column(o, rule, "line", 4);
    operator_column(o, rule, "permission", 10);
    out_set(o, OUT_NAME);
    operator_column(o, rule, "capability", 24);
    out_set(o, OUT_PLAIN);
    operator_column(o, rule, "agent", 14);
    operator_column(o, rule, "prefix", 14);
    operator_text(o, rule, "reason");
    out_text(o, "\n");
  }
  if (is_empty) cli_say(cli, "there are no rules: capabilities have their own permissions");
  return PD_OK;
}

static pd_code run_check(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer;
  pd_json_writer w = {.out = &input, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "agent", args->words[1]);
  pd_json_put_text(&w, "capability", args->words[2]);
  if (args->word_count > 3) pd_json_put_text(&w, "key", args->words[3]);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(operator_call(cli, "policy.check", pd_buf_bytes(&input), &out, &answer, err));
  if (cli->is_json) return operator_print(cli, &out);
  out_stream *o = &cli->out;
  out_set(o, OUT_NAME);
  operator_text(o, answer, "permission");
  out_set(o, OUT_PLAIN);
  out_text(o, ": ");
  operator_text(o, answer, "effect");
  out_text(o, "\n");
  if (pd_json_member(answer, "rule_line").kind == PD_JSON_NUMBER) {
    out_text(o, "because of the rule in line ");
    operator_text(o, answer, "rule_line");
    out_text(o, " of policy.toml; reason: ");
    operator_text(o, answer, "reason");
    out_text(o, "; by itself it is ");
    operator_text(o, answer, "own_permission");
    out_text(o, "\n");
  } else {
    out_text(o, "no rule of the policy changes that\n");
  }
  return PD_OK;
}

static pd_code run_policy(cli_session *cli, const args_parsed *args, pd_error *err)
{
  if (!args->word_count) return run_rules(cli, err);
  if (strcmp(args->words[0], "check") != 0 || args->word_count < 3)
    return pd_error_set(err, PD_INVALID, "policy: give nothing, or: check AGENT CAPABILITY [KEY]");
  return run_check(cli, args, err);
}

const cli_command cmd_policy = {
  .spec = {"policy", NULL, 0, 4, false},
  .group = "operator",
  .summary = "Show the policy, or what it would do to a call",
  .usage = "[check AGENT CAPABILITY [KEY]]",
  .about = "Prints the rules of policy.toml in the home's folder: they tighten what capabilities permit, per agent and\n"
           "key prefix, and never loosen it. A file that is wrong is refused with its line. `check` says what would\n"
           "happen if the agent made the call, and which rule says so; without KEY, the strictest that could happen.",
  .example = "$ perdure policy\n$ perdure policy check intern-1 state.shared.set billing/rates",
  .run = run_policy,
};
