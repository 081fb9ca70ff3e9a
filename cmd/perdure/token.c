/* token.c: `token create|list|revoke|rotate`: who may call a server of the home. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "operator.h"

#include <stdio.h>

static pd_code take_seconds(const args_parsed *args, const char *option, pd_json_writer *w, const char *field, pd_error *err)
{
  const char *text = args_get(args, option);
  char what[32];
  uint64_t seconds = 0;
  if (!text) return PD_OK;
  snprintf(what, sizeof what, "--%s", option);
  TRY(args_parse_seconds(what, text, &seconds, err));
  pd_json_put_number(w, field, seconds);
  return PD_OK;
}

static void put_list(const args_parsed *args, const char *option, pd_json_writer *w, const char *field)
{
  size_t index = 0;
  const char *value = args_next(args, option, &index);
  if (!value) return;
  pd_json_key(w, field);
  pd_json_open(w, '[');
  for (; value; value = args_next(args, option, &index)) pd_json_text(w, pd_text(value));
  pd_json_close(w, ']');
}

static pd_code write_create(const args_parsed *args, pd_json_writer *w, pd_error *err)
{
  const char *agent = args_get_global(args, "agent"), *role = args_get(args, "role"), *label = args_get(args, "label");
  uint64_t rate = 0;
  if (!role) role = agent ? "agent" : NULL;
  if (!role) return pd_error_set(err, PD_INVALID, "token create: whose? Give --agent NAME, or --role operator or auditor");
  pd_json_put_text(w, "role", role);
  if (agent) pd_json_put_text(w, "agent", agent);
  if (label) pd_json_put_text(w, "label", label);
  put_list(args, "capability", w, "capabilities");
  put_list(args, "prefix", w, "prefixes");
  TRY(args_number(args, "rate", 1, &rate, err));
  if (rate) pd_json_put_number(w, "rate", rate);
  return take_seconds(args, "expires", w, "expires_in", err);
}

static pd_code write_input(const args_parsed *args, const char *verb, pd_buf *out, pd_error *err)
{
  const char *agent = args_get_global(args, "agent");
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  if (strcmp(verb, "create") == 0) TRY(write_create(args, &w, err));
  if (strcmp(verb, "list") == 0 && agent) pd_json_put_text(&w, "agent", agent);
  if (args->word_count > 1) pd_json_put_text(&w, "token_id", args->words[1]);
  if (strcmp(verb, "rotate") == 0) TRY(take_seconds(args, "grace", &w, "grace", err));
  pd_json_close(&w, '}');
  return w.code;
}

static void print_row(out_stream *o, pd_json item)
{
  out_set(o, OUT_ID);
  operator_column(o, item, "token_id", 16);
  out_set(o, OUT_PLAIN);
  operator_column(o, item, "role", 8);
  out_set(o, OUT_NAME);
  operator_column(o, item, "agent", 16);
  out_set(o, OUT_DIM);
  operator_column(o, item, "expires_at", 24);
  out_set(o, OUT_PLAIN);
  operator_text(o, item, "label");
  if (pd_json_true(pd_json_member(item, "expired"))) out_text(o, "  (expired)");
  out_text(o, "\n");
}

static void print_answer(cli_session *cli, const char *verb, pd_json answer)
{
  pd_json item;
  if (strcmp(verb, "list") == 0) {
    pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "tokens"));
    while (pd_json_walk_next(&walk, NULL, &item)) print_row(&cli->out, item);
  } else if (strcmp(verb, "revoke") == 0) {
    cli_say(cli, "the token is worthless from now on");
  } else {
    operator_text(&cli->out, answer, "token");
    out_text(&cli->out, "\n");
    cli_say(cli, "keep it: it is not shown again");
  }
}

static pd_code run_token(cli_session *cli, const args_parsed *args, pd_error *err)
{
  static const struct {
    const char *verb, *capability;
    size_t words;
  } verbs[] = {{"create", "tokens.create", 1}, {"list", "tokens.list", 1}, {"revoke", "tokens.revoke", 2}, {"rotate", "tokens.rotate", 2}};
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  const char *verb = args->word_count ? args->words[0] : "list";
  pd_json answer;
  size_t i = 0;
  while (i < COUNT_OF(verbs) && strcmp(verbs[i].verb, verb) != 0) i++;
  if (i == COUNT_OF(verbs)) return pd_error_set(err, PD_INVALID, "token: '%s' is none of: create, list, revoke, rotate", verb);
  if (args->word_count && args->word_count != verbs[i].words)
    return pd_error_set(err, PD_INVALID, verbs[i].words == 2 ? "token %s: which one? Give its id" : "token %s: takes no words", verb);
  TRY(write_input(args, verb, &input, err));
  TRY(operator_call(cli, verbs[i].capability, pd_buf_bytes(&input), &out, &answer, err));
  if (cli->is_json) return operator_print(cli, &out);
  print_answer(cli, verb, answer);
  return PD_OK;
}

static const args_option token_options[] = {
  {"role", 0, "ROLE", "create: agent (with --agent), operator, or auditor: looks and changes nothing"},
  {"label", 0, "TEXT", "create: what it is for"},
  {"capability", 0, "GLOB", "create: only these, as 'state.*'; may be repeated"},
  {"prefix", 0, "TEXT", "create: only keys that begin so; may be repeated"},
  {"expires", 0, "TIME", "create: 12h, 30d (default: never)"},
  {"rate", 0, "N", "create: at most so many requests a second"},
  {"grace", 0, "TIME", "rotate: the old one stays good so long (default: not at all)"},
  {0},
};

const cli_command cmd_token = {
  .spec = {"token", token_options, 0, 2, false},
  .group = "operator",
  .summary = "Make, list, revoke and rotate tokens for a server of the home",
  .usage = "[list | create --agent NAME | create --role ROLE | revoke ID | rotate ID]",
  .about = "Who calls `perdure serve` shows a token: Authorization: Bearer TOKEN. An agent's token\n"
           "reaches that agent's state and the shared one, nothing else. Only hashes are stored: the\n"
           "token is printed once.",
  .example = "$ perdure token create --agent writer --expires 30d\n"
             "$ perdure token create --role auditor --label 'the dashboard'\n"
             "$ perdure token list\n$ perdure token revoke 0123456789abcdef",
  .run = run_token,
};
