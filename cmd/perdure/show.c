/* show.c: `show`: one commit with all that it changed. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "record.h"

#include <inttypes.h>
#include <stdlib.h>

#define VALUE_SHOWN_MAX 200

typedef struct show_view {
  cli_session *cli;
  engine_log log;
  pd_json_writer *writer; /* NULL: text */
  bool is_keeping;        /* keep the keys, to show their values afterwards: the visitor must not call the store */
  pd_buf keys;            /* of pd_bytes that we own */
  pd_code code;
} show_view;

static void show_done(show_view *view)
{
  pd_bytes *keys = (pd_bytes *)(void *)view->keys.data;
  for (size_t i = 0; i < view->keys.size / sizeof *keys; i++) free((void *)keys[i].data);
  pd_buf_done(&view->keys);
  engine_log_done(&view->log);
}

static pd_code keep_key(show_view *view, pd_bytes key)
{
  pd_bytes copy = {malloc(key.size ? key.size : 1), key.size};
  if (!copy.data) return PD_NO_MEMORY;
  memcpy((void *)copy.data, key.data, key.size);
  pd_code code = pd_buf_append(&view->keys, &copy, sizeof copy, NULL);
  if (code != PD_OK) free((void *)copy.data);
  return code;
}

static bool visit_record(void *ctx, const pd_record *record)
{
  show_view *view = ctx;
  if (view->writer)
    record_json(view->writer, record);
  else
    record_print(&view->cli->out, record, &view->log.names, SIZE_MAX);
  for (size_t i = 0; view->is_keeping && i < record->change_count && view->code == PD_OK; i++)
    if (!record->changes[i].is_delete) view->code = keep_key(view, record->changes[i].key);
  return true;
}

static pd_code print_values(show_view *view, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  const pd_bytes *keys = (const pd_bytes *)(const void *)view->keys.data;
  for (size_t i = 0; i < view->keys.size / sizeof *keys; i++) {
    TRY(engine_log_value(&view->log, keys[i], &value, err));
    out_text(&view->cli->out, "\n    ");
    out_safe(&view->cli->out, keys[i]);
    out_text(&view->cli->out, " = ");
    cli_value_short(&view->cli->out, pd_buf_bytes(&value), VALUE_SHOWN_MAX);
  }
  if (view->keys.size) out_text(&view->cli->out, "\n");
  return PD_OK;
}

/* The root commit was made by no record: there is nothing to visit. */
static pd_code print_root(cli_session *cli, const pd_commit *root, pd_error *err)
{
  char id[PD_ID_HEX_SIZE];
  if (!cli->is_json) {
    out_printf(&cli->out, "commit %s\n\n    the root: the empty commit that every history begins with\n", cli_short_id(&root->id, id));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "seq", 0);
  pd_json_put_text(&w, "kind", "root");
  pd_json_put_id(&w, "commit", &root->id);
  pd_json_put_id(&w, "tree", &root->tree);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_show(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(show_done) show_view view = {.cli = cli, .is_keeping = args_get(args, "values") && !cli->is_json};
  view.log = (engine_log){.cli = cli, .is_one = true, .wants_names = !cli->is_json, .wants_values = view.is_keeping};
  view.log.query.at = args->word_count ? args->words[0] : NULL;
  TRY(engine_open(cli, CLI_READ, err));
  TRY(engine_log_begin(&view.log, err));
  if (!view.log.start.seq) return print_root(cli, &view.log.start, err);
  if (cli->is_json) {
    pd_json_writer w = cli_json(cli, err);
    view.writer = &w;
    TRY(engine_log_visit(&view.log, visit_record, &view, err));
    return cli_json_end(cli, &w);
  }
  cli->out.wants_pager = cli->has_pager;
  TRY(engine_log_visit(&view.log, visit_record, &view, err));
  if (view.code != PD_OK) return pd_error_memory(err, "the keys of a commit");
  return print_values(&view, err);
}

static const args_option show_options[] = {{"values", 'p', NULL, "the new values too, shortened"}, {0}};

const cli_command cmd_show = {
  .spec = {"show", show_options, 0, 1, false},
  .group = "history",
  .summary = "Show one commit: who, when, why, and every change",
  .usage = "[X]",
  .about = "Shows the record that made the commit X (default: the current head).",
  .example = "$ perdure show\n$ perdure show 3f2a9c1b -p\n$ perdure --json show main~2",
  .run = run_show,
};
