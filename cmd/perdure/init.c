/* init.c: `init` makes a store. */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

/* Making what is there already is no fault: the wish is fulfilled. */
static pd_code run_init(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)args;
  bool is_new;
  TRY(engine_make(cli, &is_new, err));
  if (!cli->is_json) {
    cli_say(cli, "%s for agent '%s' in %s, on '%s'", is_new ? "new store" : "there is a store already", cli->agent, cli->uri,
            engine_ref(cli));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "store", cli->uri);
  pd_json_put_text(&w, "agent", cli->agent);
  pd_json_put_text(&w, "ref", engine_ref(cli));
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
