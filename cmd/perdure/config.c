/* config.c: `config`: the settings that are in force in a home, and where each of them came from. */
#include "base/base.h"
#include "base/buf.h"
#include "base/distance.h"
#include "base/error.h"
#include "commands.h"
#include "far_home.h"

#include <stdio.h>

typedef struct config_view {
  cli_session *cli;
  const char *name; /* NULL: all */
  pd_json_writer *writer;
  int name_width, value_width;
  size_t shown;
  const char *near; /* the setting that is most like `name` */
} config_view;

static void measure(void *ctx, const pd_config_info *info)
{
  config_view *view = ctx;
  int name_width = (int)strlen(info->name), value_width = (int)strlen(info->value);
  if (name_width > view->name_width) view->name_width = name_width;
  if (value_width > view->value_width) view->value_width = value_width;
}

static void print_json(pd_json_writer *w, const pd_config_info *info)
{
  CLEANUP(pd_buf_done) pd_buf setting = {0};
  if (!w->code) w->code = pd_config_json(info, &setting, w->err);
  pd_json_raw(w, pd_buf_bytes(&setting));
}

static void print_line(config_view *view, const pd_config_info *info)
{
  out_stream *o = &view->cli->out;
  bool is_default = strcmp(info->origin, "default") == 0;
  out_set(o, OUT_NAME);
  out_printf(o, "%-*s", view->name_width, info->name);
  out_set(o, is_default ? OUT_PLAIN : OUT_CHANGED);
  out_printf(o, "  %-*s", view->value_width, info->value);
  out_set(o, OUT_DIM);
  out_text(o, "  ");
  out_safe(o, pd_text(info->origin));
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
}

static void show(void *ctx, const pd_config_info *info)
{
  config_view *view = ctx;
  if (view->name && strcmp(view->name, info->name) != 0) {
    if (!view->near || pd_text_distance(view->name, info->name) < pd_text_distance(view->name, view->near)) view->near = info->name;
    return;
  }
  view->shown++;
  if (view->writer) {
    print_json(view->writer, info);
  } else if (view->name) {
    out_printf(&view->cli->out, "%s\n", info->value);
    cli_say(view->cli, "%s; from: %s", info->about, info->origin);
    cli_say(view->cli, "change it when %s", info->when);
  } else {
    print_line(view, info);
  }
}

/* Where the settings are: in a home here (NULL: in none yet), or behind a server. */
typedef struct config_source {
  pd_home *home;
  far_config far;
  bool is_far;
} config_source;

static pd_code each(const config_source *from, void (*visit)(void *ctx, const pd_config_info *info), void *ctx, pd_error *err)
{
  if (!from->is_far) return pd_config_each(from->home, visit, ctx, err);
  for (size_t i = 0; i < from->far.count; i++) visit(ctx, &from->far.infos[i]);
  return PD_OK;
}

static pd_code each_notice(const config_source *from, void (*visit)(void *ctx, const char *text), void *ctx, pd_error *err)
{
  const char *at = (const char *)from->far.notices.data, *end = at + from->far.notices.size;
  if (!from->is_far) return pd_config_each_notice(from->home, NULL, visit, ctx, err);
  for (; at < end; at += strlen(at) + 1) visit(ctx, at);
  return PD_OK;
}

static void say_notice(void *ctx, const char *text)
{
  cli_say(ctx, "warning: %s", text);
}

static void put_notice(void *ctx, const char *text)
{
  pd_json_text(ctx, pd_text(text));
}

static pd_code print_config(config_view *view, const config_source *from, pd_error *err)
{
  TRY(each(from, measure, view, err));
  if (!view->cli->is_json) {
    if (!view->name) TRY(each_notice(from, say_notice, view->cli, err));
    return each(from, show, view, err);
  }
  pd_json_writer w = cli_json(view->cli, err);
  view->writer = &w;
  if (!view->name) pd_json_open(&w, '{');
  if (!view->name) pd_json_key(&w, "settings");
  if (!view->name) pd_json_open(&w, '[');
  TRY(each(from, show, view, err));
  if (!view->name) {
    pd_json_close(&w, ']');
    pd_json_key(&w, "notices");
    pd_json_open(&w, '[');
    TRY(each_notice(from, put_notice, &w, err));
    pd_json_close(&w, ']');
    pd_json_close(&w, '}');
  }
  return view->shown ? cli_json_end(view->cli, &w) : w.code;
}

static void source_done(config_source *from)
{
  pd_home_close(from->home, NULL);
  far_config_done(&from->far);
}

static pd_code open_source(cli_session *cli, config_source *out, pd_error *err)
{
  out->is_far = cli->is_remote;
  if (cli->is_remote) return far_config_load(cli, &out->far, err);
  pd_code code = pd_home_open(cli->uri, &(pd_home_options){.must_exist = true}, &out->home, err);
  if (code != PD_NOT_FOUND) return code;
  cli_say(cli, "there is no home at %s yet; this is what would be in force in a new one", cli->uri);
  return PD_OK;
}

static pd_code check_file(cli_session *cli, const char *file, pd_error *err)
{
  size_t count = 0;
  pd_code code = pd_config_check(file, &count, err);
  if (code == PD_NOT_FOUND) cli->exit_code = CLI_EXIT_STORAGE; /* a file that is not there is no negative answer */
  if (code) return code;
  TRY(pd_config_each_notice(NULL, file, say_notice, cli, err));
  if (!cli->is_json) {
    out_safe(&cli->out, pd_text(file));
    out_printf(&cli->out, ": fine, %zu %s\n", count, count == 1 ? "setting" : "settings");
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "file", file);
  pd_json_put_bool(&w, "is_fine", true);
  pd_json_put_number(&w, "count", count);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

typedef struct former_search {
  const char *name;
  char now[160]; /* "": it never was a setting */
} former_search;

static void match_former(void *ctx, const char *name, const char *now)
{
  former_search *search = ctx;
  if (strcmp(name, search->name) == 0) snprintf(search->now, sizeof search->now, "%s", now);
}

static pd_code check_former(cli_session *cli, const char *name, pd_error *err)
{
  former_search search = {.name = name};
  pd_config_each_former(match_former, &search);
  if (!*search.now) return PD_OK;
  snprintf(cli->hint, sizeof cli->hint, "`perdure config` lists the settings that there are");
  return pd_error_set(err, PD_NOT_FOUND, "'%s' is no longer a setting; it is now %s", name, search.now);
}

static pd_code run_config(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(source_done) config_source from = {0};
  config_view view = {.cli = cli, .name = args->word_count ? args->words[0] : NULL};
  const char *file = args_get(args, "check");
  if (view.name && strcmp(view.name, "server.mcp_approvals") == 0) view.name = "mcp.approvals"; /* its former name */
  if (file && view.name) return pd_error_set(err, PD_INVALID, "--check takes a FILE and no NAME");
  if (file) return check_file(cli, file, err);
  TRY(open_source(cli, &from, err));
  TRY(print_config(&view, &from, err));
  if (view.shown) return PD_OK;
  TRY(check_former(cli, view.name, err));
  snprintf(cli->hint, sizeof cli->hint, "did you mean '%s'?", view.near);
  return pd_error_set(err, PD_NOT_FOUND, "there is no setting '%.100s'", view.name);
}

static const args_option config_options[] = {{"check", 0, "FILE", "only read FILE and say whether all in it is right"}, {0}};

const cli_command cmd_config = {
  .spec = {"config", config_options, 0, 1, false},
  .group = "care",
  .summary = "Show the configuration that is in force",
  .usage = "[NAME]",
  .about = "Limits, times and quotas of a home, and where each value came from: the default, a line of\n"
           "FOLDER/perdure.toml, or a variable of the environment, which wins. `session.quota` is `quota` in the\n"
           "table [session] of the file, and PERDURE_SESSION_QUOTA in the environment. With NAME: its value alone,\n"
           "and when to change it. What was a setting once is ignored, with a warning that says what it is now.\n\n"
           "Sizes: 500000, \"64 KiB\", \"50 MB\". Times: 500 (milliseconds), \"30s\", \"15m\", \"1h\", \"7d\". Lists: [\"a\", \"b\"]. A\n"
           "relative path in the file is taken from its folder.",
  .example = "$ perdure config\n$ perdure config session.quota\n$ PERDURE_SESSION_IDLE=10m perdure config session.idle --json\n"
             "$ perdure config --check ./perdure.toml",
  .run = run_config,
};
