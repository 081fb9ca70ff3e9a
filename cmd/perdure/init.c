/* init.c: `init` makes a store, `agents` lists the stores of a home. */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"

#include <stdio.h>

/* Making what is there already is no fault: the wish is fulfilled. */
static pd_code run_init(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)args;
  pd_options existing = {.must_exist = true};
  pd_code code = pd_store_open(cli->uri, cli->agent, &existing, &cli->store, err);
  bool is_new = code == PD_NOT_FOUND;
  if (is_new) code = cli_open(cli, CLI_CREATE, err);
  TRY(code);
  if (!cli->is_json) {
    cli_say(cli, "%s for agent '%s' in %s, on '%s'", is_new ? "new store" : "there is a store already", cli->agent, cli->uri,
            pd_store_ref(cli->store));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "store", cli->uri);
  pd_json_put_text(&w, "agent", cli->agent);
  pd_json_put_text(&w, "ref", pd_store_ref(cli->store));
  pd_json_put_bool(&w, "created", is_new);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

const cli_command cmd_init = {
  .spec = {"init", NULL, 0, 0, false},
  .group = "care",
  .summary = "Make a store",
  .usage = "",
  .about = "Makes an empty store for the agent. If there is one already, it is left as it is.\n"
           "put, batch and fork make a store by themselves.",
  .example = "$ perdure --agent planner init",
  .run = run_init,
};

typedef struct agents_view {
  cli_session *cli;
  pd_json_writer *writer; /* NULL: plain lines */
} agents_view;

static void visit_agent(void *ctx, const char *agent)
{
  agents_view *view = ctx;
  if (view->writer)
    pd_json_text(view->writer, pd_text(agent));
  else
    out_printf(&view->cli->out, "%s\n", agent);
}

static pd_code visit_agents(agents_view *view, pd_error *err)
{
  cli_session *cli = view->cli;
  pd_code code = pd_home_agents(cli->uri, visit_agent, view, err);
  if (code != PD_NOT_FOUND) return code;
  cli->exit_code = CLI_EXIT_STORAGE;
  snprintf(cli->hint, sizeof cli->hint, "make a store with: perdure init");
  return pd_error_set(err, PD_NOT_FOUND, "there are no stores in %s", cli->uri);
}

static pd_code run_agents(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)args;
  agents_view view = {cli, NULL};
  if (!cli->is_json) return visit_agents(&view, err);
  pd_json_writer w = cli_json(cli, err);
  view.writer = &w;
  pd_json_open(&w, '{');
  pd_json_key(&w, "agents");
  pd_json_open(&w, '[');
  TRY(visit_agents(&view, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

const cli_command cmd_agents = {
  .spec = {"agents", NULL, 0, 0, false},
  .group = "care",
  .summary = "List the agents that have a store here",
  .usage = "",
  .about = "Prints the names of all agents that have a store under the URI, sorted.",
  .example = "$ perdure agents\nmain\nplanner",
  .run = run_agents,
};
