/* du.c: `du`: where the bytes are. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <inttypes.h>

typedef struct du_view {
  cli_session *cli;
  bool is_in_refs;
  pd_json_writer *w;
  uint64_t keys, bytes; /* of the rows by prefix */
} du_view;

static void print_line(out_stream *o, uint64_t bytes, uint64_t count, pd_bytes what)
{
  char size[OUT_SIZE_TEXT];
  out_printf(o, "%12s %10" PRIu64 "  ", out_size(bytes, size), count);
  out_safe(o, what);
  out_text(o, "\n");
}

static void begin_refs(du_view *view)
{
  if (view->is_in_refs) return;
  view->is_in_refs = true;
  if (view->w) {
    pd_json_close(view->w, ']');
    pd_json_key(view->w, "refs");
    pd_json_open(view->w, '[');
  } else {
    print_line(&view->cli->out, view->bytes, view->keys, pd_text("in all"));
    out_text(&view->cli->out, "\n        size       keys  ref\n");
  }
}

static bool show_row(void *ctx, const pd_du_row *row)
{
  du_view *view = ctx;
  if (row->is_ref) begin_refs(view);
  if (!row->is_ref) view->keys += row->keys, view->bytes += row->bytes;
  if (!view->w) {
    print_line(&view->cli->out, row->bytes, row->keys, row->prefix);
    return !out_is_closed(&view->cli->out);
  }
  pd_json_open(view->w, '{');
  pd_json_key(view->w, row->is_ref ? "ref" : "prefix");
  pd_json_text(view->w, row->prefix);
  pd_json_put_number(view->w, "keys", row->keys);
  pd_json_put_number(view->w, "bytes", row->bytes);
  pd_json_close(view->w, '}');
  return true;
}

static const struct {
  const char *label, *name;
  size_t bytes_at;
} sums[] = {
  {"live values, each once", "live_bytes", offsetof(pd_du, live_bytes)},
  {"values of history only", "history_bytes", offsetof(pd_du, history_bytes)},
  {"log", "log_bytes", offsetof(pd_du, log_bytes)},
  {"bag: large values", "bag_value_bytes", offsetof(pd_du, bag_value_bytes)},
  {"bag: nodes, pieces, lists", "bag_node_bytes", offsetof(pd_du, bag_node_bytes)},
  {"gc would free", "gc_bytes", offsetof(pd_du, gc_bytes)},
  {"overhead of the files", "overhead_bytes", offsetof(pd_du, overhead_bytes)},
  {"on disk", "disk_bytes", offsetof(pd_du, disk_bytes)},
};

static uint64_t sum_of(const pd_du *du, size_t i)
{
  return *(const uint64_t *)(const void *)((const char *)du + sums[i].bytes_at);
}

static void print_sums(out_stream *o, const pd_du *du)
{
  char size[OUT_SIZE_TEXT];
  out_printf(o, "\n%-28s %" PRIu64 " live, %" PRIu64 " of history\n", "values", du->live_versions, du->history_versions);
  for (size_t i = 0; i < COUNT_OF(sums); i++) out_printf(o, "%-28s %12s\n", sums[i].label, out_size(sum_of(du, i), size));
}

static pd_code du_json(cli_session *cli, const char *at, pd_bytes prefix, unsigned depth, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  du_view view = {.cli = cli, .w = &w};
  pd_du du;
  pd_json_open(&w, '{');
  pd_json_key(&w, "rows");
  pd_json_open(&w, '[');
  TRY(engine_du(cli, at, prefix, depth, show_row, &view, &du, err));
  begin_refs(&view);
  pd_json_close(&w, ']');
  pd_json_put_number(&w, "keys", du.keys);
  pd_json_put_number(&w, "bytes", du.bytes);
  pd_json_put_number(&w, "live_versions", du.live_versions);
  pd_json_put_number(&w, "history_versions", du.history_versions);
  for (size_t i = 0; i < COUNT_OF(sums); i++) pd_json_put_number(&w, sums[i].name, sum_of(&du, i));
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_du(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_bytes prefix = pd_text(args->word_count ? args->words[0] : "");
  const char *at = args_get(args, "at");
  uint64_t depth = 1;
  du_view view = {.cli = cli};
  pd_du du;
  TRY(args_number(args, "depth", 1, &depth, err));
  if (depth > PD_KEY_SIZE_MAX) depth = PD_KEY_SIZE_MAX;
  TRY(engine_open(cli, CLI_READ, err));
  if (cli->is_json) return du_json(cli, at, prefix, (unsigned)depth, err);
  out_text(&cli->out, "        size       keys  prefix\n");
  TRY(engine_du(cli, at, prefix, (unsigned)depth, show_row, &view, &du, err));
  begin_refs(&view);
  print_sums(&cli->out, &du);
  return PD_OK;
}

static const args_option du_options[] = {CLI_AT_OPTION, {"depth", 0, "N", "group keys by N segments (default 1); they end with /"}, {0}};

const cli_command cmd_du = {
  .spec = {"du", du_options, 0, 1, false},
  .group = "care",
  .summary = "Show where the bytes are: by prefix, by ref, by age, on disk",
  .usage = "[PREFIX]",
  .about = "Adds up the values at a point in history by key prefix, then at the head of each ref (values that refs share\n"
           "count for each), and then the whole store: values that are still at the head of a ref and those that only\n"
           "history has, each counted once however often it was written; log, bag, overhead, files. Reads the whole log.",
  .example = "$ perdure du\n$ perdure du user/ --depth 2\n$ perdure --json du --at main@2026-11-14",
  .run = run_du,
};
