/* settings.c: `settings`: what a store is told about itself: merge rules and the like. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <stdio.h>

typedef struct settings_view {
  cli_session *cli;
  pd_json_writer *writer; /* NULL: lines */
} settings_view;

static bool print_setting(void *ctx, const char *name, pd_bytes value)
{
  settings_view *view = ctx;
  if (view->writer) {
    pd_json_put_bytes(view->writer, name, value);
    return view->writer->code == PD_OK;
  }
  out_stream *o = &view->cli->out;
  out_set(o, OUT_NAME);
  out_safe(o, pd_text(name));
  out_set(o, OUT_PLAIN);
  out_text(o, " = ");
  out_safe(o, value);
  out_text(o, "\n");
  out_drain(o);
  return !out_is_closed(o);
}

static pd_code list_settings(cli_session *cli, pd_error *err)
{
  settings_view view = {cli, NULL};
  if (!cli->is_json) return engine_setting_list(cli, print_setting, &view, err);
  pd_json_writer w = cli_json(cli, err);
  view.writer = &w;
  pd_json_open(&w, '{');
  pd_json_key(&w, "settings");
  pd_json_open(&w, '{');
  TRY(engine_setting_list(cli, print_setting, &view, err));
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

/* What a setting is now; `value` NULL: it is no more. */
static pd_code print_one(cli_session *cli, const char *name, const pd_bytes *value, pd_error *err)
{
  if (!cli->is_json) {
    if (value) out_safe(&cli->out, *value);
    if (value) out_text(&cli->out, "\n");
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "name", name);
  pd_json_key(&w, "value");
  if (value)
    pd_json_text(&w, *value);
  else
    pd_json_null(&w);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code get_setting(cli_session *cli, const char *name, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  TRY(engine_setting_get(cli, name, &value, err));
  pd_bytes bytes = pd_buf_bytes(&value);
  return print_one(cli, name, &bytes, err);
}

static pd_code set_setting(cli_session *cli, const args_parsed *args, const char *name, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_note note = cli_note(args);
  TRY(cli_value_read(args->words[1], &value, err));
  pd_bytes bytes = pd_buf_bytes(&value);
  TRY(engine_setting_set(cli, name, bytes, &note, err));
  cli_say(cli, "settings: '%s' is set", name);
  return cli->is_json ? print_one(cli, name, &bytes, err) : PD_OK;
}

static pd_code run_settings(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *name = args->word_count ? args->words[0] : NULL;
  bool is_unset = args_get(args, "unset");
  pd_note note = cli_note(args);
  if (is_unset && args->word_count != 1) return pd_error_set(err, PD_INVALID, "--unset takes one NAME");
  TRY(engine_open(cli, is_unset || args->word_count > 1 ? CLI_WRITE : CLI_READ, err));
  if (!name) return list_settings(cli, err);
  if (args->word_count > 1) return set_setting(cli, args, name, err);
  if (!is_unset) return get_setting(cli, name, err);
  TRY(engine_setting_delete(cli, name, &note, err));
  cli_say(cli, "settings: '%s' is no longer set", name);
  return print_one(cli, name, NULL, err);
}

static const args_option settings_options[] = {{"unset", 0, NULL, "remove the setting NAME"},
                                               {"reason", 0, "TEXT", "why, for the record"},
                                               {"run", 0, "ID", "the run it belongs to, for the record"},
                                               {"author", 0, "NAME", "who, for the record (default: the agent)"},
                                               {0}};

const cli_command cmd_settings = {
  .spec = {"settings", settings_options, 0, 2, false},
  .group = "care",
  .summary = "Show or change the store's settings",
  .usage = "[NAME [VALUE]]",
  .about = "Without NAME: all settings. They belong to the store, so every process that uses it sees them, and each\n"
           "change is a record of its log.\n\n"
           "  merge.rule.PREFIX   how `merge` merges keys that begin with PREFIX: fail, ours, theirs, json, counter,\n"
           "                      set, max, min or append. The longest prefix wins.\n"
           "  gc.auto             on: gc runs by itself when it is due; off (default)\n"
           "  gc.keep-last, gc.keep-versions, gc.keep-days, gc.keep-refs\n"
           "                      what it keeps, as `perdure gc --keep-…`. Set them before gc.auto.",
  .example = "$ perdure settings merge.rule.counters/ counter\n$ perdure settings\n$ perdure settings merge.rule.counters/ --unset",
  .run = run_settings,
};
