/* agents.c: `agents`: who is there, and how they are. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "far_home.h"
#include "operator.h"

#include <stdio.h>

#define PAGE "1000"

/* The width of the column with the names. */
static size_t widest(pd_json agents)
{
  pd_json item;
  size_t most = 0;
  for (pd_json_walk walk = pd_json_walk_begin(agents); pd_json_walk_next(&walk, NULL, &item);) {
    size_t size = pd_json_member(item, "agent").raw.size - 2;
    if (size > most) most = size;
  }
  return most;
}

static void print_process(out_stream *o, pd_json item)
{
  uint64_t pid;
  if (pd_json_member(item, "process").kind != PD_JSON_STRING) return;
  bool runs = pd_json_is(pd_json_member(item, "process"), "running");
  out_set(o, runs ? OUT_GOOD : OUT_BAD);
  out_text(o, "  ");
  operator_text(o, item, "process");
  out_set(o, OUT_PLAIN);
  if (pd_json_u64(pd_json_member(item, "pid"), &pid)) out_printf(o, " pid %llu", (unsigned long long)pid);
  out_text(o, "  restarts ");
  operator_text(o, item, "restarts");
}

static void print_row(out_stream *o, pd_json item, size_t width)
{
  out_set(o, OUT_NAME);
  operator_column(o, item, "agent", width);
  out_set(o, OUT_PLAIN);
  out_text(o, " ");
  operator_column(o, item, "status", 18);
  out_text(o, " tick ");
  operator_column(o, item, "tick", 6);
  out_set(o, OUT_DIM);
  out_text(o, " active ");
  operator_text(o, item, "last_activity");
  out_set(o, OUT_PLAIN);
  print_process(o, item);
  if (pd_json_member(item, "place").kind == PD_JSON_STRING) {
    out_text(o, "  in ");
    operator_text(o, item, "place");
  }
  if (pd_json_member(item, "problem").kind == PD_JSON_STRING) {
    out_set(o, OUT_BAD);
    out_text(o, "  ");
    operator_text(o, item, "problem");
    out_set(o, OUT_PLAIN);
  }
  out_text(o, "\n");
}

static void visit_name(void *ctx, const char *agent)
{
  cli_session *cli = ctx;
  out_printf(&cli->out, "%s\n", agent);
}

/* Names alone are found without opening anything. */
static pd_code print_names(cli_session *cli, pd_error *err)
{
  pd_code code = cli->is_remote ? far_agents(cli, visit_name, cli, err) : pd_home_agents(cli->uri, visit_name, cli, err);
  if (code != PD_NOT_FOUND) return code;
  cli->exit_code = CLI_EXIT_STORAGE;
  snprintf(cli->hint, sizeof cli->hint, "make a store with: perdure init");
  return pd_error_set(err, PD_NOT_FOUND, "there are no stores in %s", cli->uri);
}

static pd_code call_list(cli_session *cli, const char *after, pd_buf *out, pd_json *answer, pd_error *err)
{
  char input[128];
  snprintf(input, sizeof input, *after ? "{\"limit\":" PAGE ",\"after\":\"%s\"}" : "{\"limit\":" PAGE "}", after);
  return operator_call(cli, "agents.list", pd_text(input), out, answer, err);
}

static pd_code print_page(cli_session *cli, char after[PD_NAME_SIZE_MAX + 1], bool *out_has_more, pd_json_writer *w, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer, item, last = {0};
  TRY(call_list(cli, after, &out, &answer, err));
  pd_json agents = pd_json_member(answer, "agents");
  size_t width = widest(agents);
  for (pd_json_walk walk = pd_json_walk_begin(agents); pd_json_walk_next(&walk, NULL, &item); last = item)
    w ? pd_json_value(w, item) : print_row(&cli->out, item, width);
  *out_has_more = pd_json_true(pd_json_member(answer, "has_more"));
  pd_bytes name = pd_json_member(last, "agent").raw; /* a name needs no escapes */
  if (name.size > 2)
    snprintf(after, PD_NAME_SIZE_MAX + 1, "%.*s", (int)(name.size - 2), (const char *)name.data + 1);
  else if (!w)
    cli_say(cli, "there are no agents in %s", cli->uri);
  return PD_OK;
}

static pd_code run_agents(cli_session *cli, const args_parsed *args, pd_error *err)
{
  char after[PD_NAME_SIZE_MAX + 1] = "";
  bool has_more = true;
  if (args_get(args, "names") && !cli->is_json) return print_names(cli, err);
  if (!cli->is_json) {
    while (has_more) TRY(print_page(cli, after, &has_more, NULL, err));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_key(&w, "agents");
  pd_json_open(&w, '[');
  while (has_more) TRY(print_page(cli, after, &has_more, &w, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static const args_option agents_options[] = {{"names", 0, NULL, "only the names of those that have a store, one a line"}, {0}};

const cli_command cmd_agents = {
  .spec = {"agents", agents_options, 0, 0, false},
  .group = "operator",
  .summary = "List agents with status, tick, last activity, restarts",
  .usage = "[--names]",
  .about = "Status and tick are those of the agent's snapshot, wherever it is kept (see: perdure help run). Then its\n"
           "last activity, and if it is or was supervised: running, waiting (for its next start), ended, stopped,\n"
           "gave_up or lost (its supervisor was killed), its process id and how often it was started again.",
  .example = "$ perdure agents\nplanner  WAITING_FOR_EVENT   tick 42     active 2026-11-16T06:00:00.000Z  running pid 4711  restarts 3\n"
             "$ perdure agents --names\n$ perdure agents --json",
  .run = run_agents,
};
