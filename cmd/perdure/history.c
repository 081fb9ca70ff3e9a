/* history.c: `history`: the versions of one key. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <inttypes.h>

typedef struct history_view {
  cli_session *cli;
  pd_json_writer *writer; /* NULL: lines */
} history_view;

static void print_json(pd_json_writer *w, const pd_version_info *version)
{
  pd_json_open(w, '{');
  cli_entry_json(w, &version->entry);
  pd_json_put_id(w, "commit", &version->commit);
  pd_json_put_text(w, "author", version->author);
  pd_json_put_text(w, "run", version->run);
  pd_json_put_text(w, "reason", version->reason);
  pd_json_close(w, '}');
}

static void print_line(out_stream *o, const pd_version_info *version)
{
  char id[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  out_printf(o, "v%-6" PRIu64 " ", version->entry.version);
  out_set(o, OUT_ID);
  out_text(o, cli_short_id(&version->commit, id));
  out_set(o, OUT_PLAIN);
  out_printf(o, "  %s  %8" PRIu64 " B  ", pd_time_text(version->entry.updated_ms, time), version->entry.size);
  out_safe(o, pd_text(version->author));
  if (*version->reason) out_text(o, "  ");
  out_safe(o, pd_text(version->reason));
  out_text(o, "\n");
}

static bool visit_version(void *ctx, const pd_version_info *version)
{
  history_view *view = ctx;
  if (view->writer)
    print_json(view->writer, version);
  else
    print_line(&view->cli->out, version);
  out_drain(&view->cli->out);
  return !out_is_closed(&view->cli->out);
}

static pd_code run_history(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_bytes key = pd_text(args->words[0]);
  const char *at = args_get(args, "at");
  uint64_t limit = 0;
  TRY(args_number(args, "number", 1, &limit, err));
  TRY(pd_key_check(key, err));
  TRY(engine_open(cli, CLI_READ, err));
  history_view view = {cli, NULL};
  cli->out.wants_pager = cli->has_pager;
  if (!cli->is_json) return engine_history(cli, at, key, limit, visit_version, &view, err);
  pd_json_writer w = cli_json(cli, err);
  view.writer = &w;
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", key);
  pd_json_key(&w, "versions");
  pd_json_open(&w, '[');
  TRY(engine_history(cli, at, key, limit, visit_version, &view, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static const args_option history_options[] = {
  {"number", 'n', "N", "at most N versions"},
  CLI_AT_OPTION,
  {0},
};

const cli_command cmd_history = {
  .spec = {"history", history_options, 1, 1, false},
  .group = "history",
  .summary = "Show the versions of a key",
  .usage = "KEY",
  .about = "Shows each version of the key, newest first: its number, commit, time, size, author and reason.\n"
           "Read one with: perdure get KEY --version N. Exit code 1 if the key is not there.",
  .example = "$ perdure history plan -n 10",
  .run = run_history,
};
