/* ls.c: `ls` lists keys in byte order, a page at a time where asked. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <inttypes.h>

typedef struct ls_view {
  cli_session *cli;
  bool is_long, is_tsv, has_values;
  pd_json_writer *writer; /* NULL: lines */
} ls_view;

static void print_json(ls_view *view, const pd_entry *entry, pd_bytes value)
{
  pd_json_open(view->writer, '{');
  pd_json_put_bytes(view->writer, "key", entry->key);
  cli_entry_json(view->writer, entry);
  if (view->has_values) cli_value_json(view->writer, value);
  pd_json_close(view->writer, '}');
}

static void print_long(out_stream *o, const pd_entry *entry)
{
  char time[PD_TIME_TEXT_SIZE], id[PD_ID_HEX_SIZE];
  out_printf(o, "%6" PRIu64 " %10" PRIu64 "  %s  ", entry->version, entry->size, pd_time_text(entry->updated_ms, time));
  out_set(o, OUT_ID);
  out_printf(o, "%s  ", cli_short_id(&entry->value_id, id));
  out_set(o, OUT_PLAIN);
}

static void print_entry(ls_view *view, const pd_entry *entry, pd_bytes value)
{
  out_stream *o = &view->cli->out;
  if (view->writer) {
    print_json(view, entry, value);
    out_drain(o);
    return;
  }
  if (view->is_long) print_long(o, entry);
  if (view->is_tsv)
    out_tsv(o, entry->key);
  else
    out_safe(o, entry->key);
  if (view->is_tsv) out_text(o, "\t");
  if (view->is_tsv) out_tsv(o, value);
  out_text(o, "\n");
}

/* What is being listed: `limit` entries (0: all); `last` is the last key if more are there, else empty. */
typedef struct ls_walk {
  ls_view *view;
  uint64_t limit, count;
  pd_buf last;
  pd_code code;
  bool has_more;
} ls_walk;

static void walk_done(ls_walk *w)
{
  pd_buf_done(&w->last);
}

static bool visit_entry(void *ctx, const pd_entry *entry, pd_bytes value)
{
  ls_walk *w = ctx;
  if (out_is_closed(&w->view->cli->out)) return false;
  w->has_more = w->limit && w->count == w->limit;
  if (w->has_more) return false;
  w->count++;
  print_entry(w->view, entry, value);
  if (w->count != w->limit) return true;
  w->code = pd_buf_append(&w->last, entry->key.data, entry->key.size, NULL);
  return !w->code;
}

static pd_code list(ls_walk *w, const char *at, const pd_scan *scan, pd_error *err)
{
  TRY(engine_scan(w->view->cli, at, scan, w->limit ? w->limit + 1 : 0, visit_entry, w, err));
  if (w->code) return pd_error_memory(err, "a key");
  if (!w->has_more) pd_buf_clear(&w->last);
  return PD_OK;
}

static pd_code list_json(ls_view *view, const char *at, const pd_scan *scan, uint64_t limit, pd_error *err)
{
  CLEANUP(walk_done) ls_walk walk = {.view = view, .limit = limit};
  pd_json_writer w = cli_json(view->cli, err);
  view->writer = &w;
  pd_json_open(&w, '{');
  pd_json_key(&w, "entries");
  pd_json_open(&w, '[');
  TRY(list(&walk, at, scan, err));
  pd_json_close(&w, ']');
  pd_json_put_bool(&w, "has_more", walk.last.size > 0);
  if (walk.last.size) pd_json_put_bytes(&w, "next_after", pd_buf_bytes(&walk.last));
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

static pd_code run_ls(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *after = args_get(args, "after"), *at = args_get(args, "at");
  ls_view view = {.cli = cli, .is_long = args_get(args, "long"), .is_tsv = args_get(args, "tsv")};
  view.has_values = view.is_tsv || args_get(args, "values");
  if (view.is_long && view.is_tsv) return pd_error_set(err, PD_INVALID, "ls: -l and --tsv exclude each other");
  uint64_t limit = 0;
  TRY(args_number(args, "number", 1, &limit, err));
  pd_scan scan = {.keys_only = !view.has_values};
  if (args->word_count) scan.prefix = pd_text(args->words[0]);
  if (after) scan.after = pd_text(after);
  TRY(engine_open(cli, CLI_READ, err));
  cli->out.wants_pager = cli->has_pager;
  if (cli->is_json) return list_json(&view, at, &scan, limit, err);
  CLEANUP(walk_done) ls_walk walk = {.view = &view, .limit = limit};
  TRY(list(&walk, at, &scan, err));
  if (walk.last.size) cli_say(cli, "there are more: continue with --after '%.*s'", (int)walk.last.size, (const char *)walk.last.data);
  return PD_OK;
}

static const args_option ls_options[] = {
  CLI_AT_OPTION,
  {"long", 'l', NULL, "version, size, time and value id before each key"},
  {"tsv", 0, NULL, "key, tab, value (tab and newline inside are shown as \\t and \\n)"},
  {"values", 0, NULL, "with --json: the values too"},
  {"number", 'n', "N", "at most N keys"},
  {"after", 0, "KEY", "only keys after this one: the next page"},
  {0},
};

const cli_command cmd_ls = {
  .spec = {"ls", ls_options, 0, 1, false},
  .group = "state",
  .summary = "List keys, all or those with a prefix",
  .usage = "[PREFIX]",
  .about = "Prints one key a line, in byte order. Control characters in keys are shown as \\n, \\x1b.",
  .example = "$ perdure ls user/ -l\n$ perdure ls --tsv --at main~10\n$ perdure --json ls -n 100 --after user/42",
  .run = run_ls,
};
