/* stats.c: `stats`: how much of what. */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"

#include <inttypes.h>

static void print_size(out_stream *o, const char *label, uint64_t bytes)
{
  char text[OUT_SIZE_TEXT];
  out_printf(o, "%-22s %14s\n", label, out_size(bytes, text));
}

static void print_table(cli_session *cli, const pd_stats *s)
{
  out_stream *o = &cli->out;
  out_printf(o, "%-22s %s\n%-22s %s\n%-22s %s\n", "store", cli->uri, "agent", cli->agent, "ref", pd_store_ref(cli->store));
  out_printf(o, "%-22s %10" PRIu64 "\n", "keys", s->keys);
  out_printf(o, "%-22s %10" PRIu64 "\n", "refs", s->refs);
  out_printf(o, "%-22s %10" PRIu64 "\n", "records", s->records);
  out_printf(o, "%-22s %10" PRIu64 "\n", "keyframes", s->keyframes);
  out_printf(o, "%-22s %10" PRIu64 "\n", "records to replay", s->tail_records);
  print_size(o, "log", s->log_bytes);
  print_size(o, "bag", s->bag_bytes);
  print_size(o, "on disk", s->disk_bytes);
  out_printf(o, "%-22s %10s\n", "survives power loss", s->is_durable ? "yes" : "no");
}

static pd_code print_json(cli_session *cli, const pd_stats *s, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "store", cli->uri);
  pd_json_put_text(&w, "agent", cli->agent);
  pd_json_put_text(&w, "ref", pd_store_ref(cli->store));
  pd_json_put_number(&w, "keys", s->keys);
  pd_json_put_number(&w, "refs", s->refs);
  pd_json_put_number(&w, "records", s->records);
  pd_json_put_number(&w, "keyframes", s->keyframes);
  pd_json_put_number(&w, "tail_records", s->tail_records);
  pd_json_put_number(&w, "log_bytes", s->log_bytes);
  pd_json_put_number(&w, "bag_bytes", s->bag_bytes);
  pd_json_put_number(&w, "disk_bytes", s->disk_bytes);
  pd_json_put_bool(&w, "is_durable", s->is_durable);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_stats(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)args;
  pd_stats stats;
  TRY(cli_open(cli, CLI_READ, err));
  TRY(pd_store_stats(cli->store, &stats, err));
  if (cli->is_json) return print_json(cli, &stats, err);
  print_table(cli, &stats);
  return PD_OK;
}

const cli_command cmd_stats = {
  .spec = {"stats", NULL, 0, 0},
  .group = "care",
  .summary = "Show how many keys, records and bytes there are",
  .usage = "",
  .about = "Prints counts and sizes of the store. `records to replay` is what an open has to read after the last keyframe.",
  .example = "$ perdure stats\n$ perdure --json stats",
  .run = run_stats,
};
