/* blame.c: `blame`: who last changed each path of a value. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <inttypes.h>

#define VALUE_SHOWN_MAX 40
#define OLDER "older than what is retained"

typedef struct blame_view {
  cli_session *cli;
  pd_json_writer *writer; /* NULL: lines */
  pd_bytes path;          /* only this one and what is below it; empty: all */
  uint64_t shown;
} blame_view;

static void print_json(pd_json_writer *w, const pd_blame_line *line)
{
  pd_json_open(w, '{');
  pd_json_put_bytes(w, "path", line->path);
  cli_value_json(w, line->value);
  pd_json_put_bool(w, "is_known", line->is_known);
  pd_json_put_id(w, "commit", &line->commit);
  pd_json_put_number(w, "seq", line->seq);
  pd_json_put_number(w, "version", line->version);
  pd_json_put_time(w, "time", line->time_ms);
  pd_json_put_text(w, "author", line->author);
  pd_json_put_text(w, "run", line->run);
  pd_json_put_text(w, "reason", line->reason);
  pd_json_close(w, '}');
}

static void print_who(out_stream *o, const pd_blame_line *line)
{
  char id[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  out_set(o, line->is_known ? OUT_ID : OUT_DIM);
  out_text(o, cli_short_id(&line->commit, id));
  out_set(o, OUT_PLAIN);
  out_printf(o, "  %s  ", pd_time_text(line->time_ms, time));
  out_safe(o, pd_text(line->author));
  if (*line->run) out_text(o, " in ");
  out_safe(o, pd_text(line->run));
}

static void print_line(out_stream *o, const pd_blame_line *line)
{
  print_who(o, line);
  out_text(o, "  ");
  out_set(o, OUT_NAME);
  out_safe(o, line->path);
  out_set(o, OUT_PLAIN);
  out_text(o, line->path.size ? " = " : "= ");
  cli_value_short(o, line->value, VALUE_SHOWN_MAX);
  out_set(o, OUT_DIM);
  if (!line->is_known || *line->reason) out_text(o, "  ");
  if (line->is_known)
    out_safe(o, pd_text(line->reason));
  else
    out_text(o, "(" OLDER ")");
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
}

/* The path itself, or something below it. */
static bool is_wanted(pd_bytes path, pd_bytes wanted)
{
  if (!pd_bytes_starts(path, wanted)) return false;
  return path.size == wanted.size || !wanted.size || ((const char *)path.data)[wanted.size] == '/';
}

static bool visit_line(void *ctx, const pd_blame_line *line)
{
  blame_view *view = ctx;
  if (!is_wanted(line->path, view->path)) return true;
  view->shown++;
  if (view->writer)
    print_json(view->writer, line);
  else
    print_line(&view->cli->out, line);
  out_drain(&view->cli->out);
  return !out_is_closed(&view->cli->out);
}

static pd_code blame_json(blame_view *view, const char *at, pd_bytes key, pd_error *err)
{
  pd_json_writer w = cli_json(view->cli, err);
  view->writer = &w;
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", key);
  pd_json_key(&w, "paths");
  pd_json_open(&w, '[');
  TRY(engine_blame(view->cli, at, key, visit_line, view, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

static pd_code run_blame(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *at = args_get(args, "at"), *path = args_get(args, "path");
  blame_view view = {.cli = cli, .path = pd_text(path ? path : "")};
  pd_bytes key = pd_text(args->words[0]);
  if (path && *path && *path != '/') return pd_error_set(err, PD_INVALID, "--path: '%s' is no JSON Pointer: it begins with '/'", path);
  TRY(pd_key_check(key, err));
  TRY(engine_open(cli, CLI_READ, err));
  cli->out.wants_pager = cli->has_pager;
  TRY(cli->is_json ? blame_json(&view, at, key, err) : engine_blame(cli, at, key, visit_line, &view, err));
  if (path && !view.shown && !cli->is_json)
    return pd_error_set(err, PD_NOT_FOUND, "the value of key '%s' has no path '%s'", args->words[0], path);
  return PD_OK;
}

static const args_option blame_options[] = {
  CLI_AT_OPTION,
  {"path", 0, "POINTER", "only this path and what is below it, as a JSON Pointer: /steps/0"},
  {0},
};

const cli_command cmd_blame = {
  .spec = {"blame", blame_options, 1, 1, false},
  .group = "history",
  .summary = "Show who last changed each path of a value",
  .usage = "KEY",
  .about = "Shows for each path of a JSON value the commit, time, author, run and reason that last changed it. Array\n"
           "items go by their index; a value that is no JSON is one path. A merge is not blamed for what it took\n"
           "from one of its sides. Paths whose change gc or erase took away say: " OLDER ".",
  .example = "$ perdure blame plan\n$ perdure blame plan --path /steps --at main~10\n$ perdure --json blame plan",
  .run = run_blame,
};
