/* stats.c: `stats`: how much of what. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>

static void print_size(out_stream *o, const char *label, uint64_t bytes)
{
  char text[OUT_SIZE_TEXT];
  out_printf(o, "%-22s %14s\n", label, out_size(bytes, text));
}

/* What is not in pd_stats, because it has to be listed. */
typedef struct more_stats {
  uint64_t tags, pins, settings;
  pd_gc_info gc;
} more_stats;

static bool count_mark(void *ctx, const pd_mark *mark)
{
  (void)mark;
  ++*(uint64_t *)ctx;
  return true;
}

static bool count_setting(void *ctx, const char *name, pd_bytes value)
{
  (void)name;
  (void)value;
  ++*(uint64_t *)ctx;
  return true;
}

static pd_code look_further(pd_store *s, more_stats *out, pd_error *err)
{
  *out = (more_stats){0};
  TRY(pd_tag_list(s, count_mark, &out->tags, err));
  TRY(pd_pin_list(s, count_mark, &out->pins, err));
  TRY(pd_setting_list(s, NULL, count_setting, &out->settings, err));
  return pd_gc_status(s, &out->gc, err);
}

static void take_stats(pd_json answer, pd_stats *out)
{
  *out = (pd_stats){
    .records = engine_number(answer, "records"),
    .keys = engine_number(answer, "keys"),
    .refs = engine_number(answer, "refs"),
    .keyframes = engine_number(answer, "keyframes"),
    .tail_records = engine_number(answer, "tail_records"),
    .log_bytes = engine_number(answer, "log_bytes"),
    .bag_bytes = engine_number(answer, "bag_bytes"),
    .disk_bytes = engine_number(answer, "disk_bytes"),
    .is_durable = engine_flag(answer, "is_durable"),
  };
}

static pd_code ask_stats(cli_session *cli, pd_stats *out, more_stats *out_more, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  engine_begin(cli, &a, err);
  TRY(engine_ask(cli, &a, "store.stats", err));
  snprintf(cli->far_ref, sizeof cli->far_ref, "%s", engine_text(&a, a.json, "ref"));
  take_stats(a.json, out);
  *out_more = (more_stats){
    .tags = engine_number(a.json, "tags"), .pins = engine_number(a.json, "pins"), .settings = engine_number(a.json, "settings")};
  out_more->gc.cut = engine_number(a.json, "gc_cut");
  out_more->gc.is_auto = engine_flag(a.json, "gc_auto");
  out_more->gc.auto_ms = (int64_t)engine_number(a.json, "gc_auto_ms");
  snprintf(out_more->gc.auto_trouble, sizeof out_more->gc.auto_trouble, "%s", engine_text(&a, a.json, "gc_trouble"));
  return PD_OK;
}

static void print_gc(out_stream *o, const pd_gc_info *gc)
{
  char time[PD_TIME_TEXT_SIZE];
  if (gc->cut > 1) out_printf(o, "%-22s %10" PRIu64 "\n", "retired before record", gc->cut);
  out_printf(o, "%-22s %10s\n", "gc by itself", gc->is_auto ? "on" : "off");
  if (gc->auto_ms) out_printf(o, "%-22s %s\n", "gc last ran by itself", pd_time_text(gc->auto_ms, time));
  if (!gc->auto_trouble[0]) return;
  out_printf(o, "%-22s ", "gc has trouble");
  out_safe(o, pd_text(gc->auto_trouble));
  out_text(o, "\n");
}

static void print_table(cli_session *cli, const pd_stats *s, const more_stats *more)
{
  out_stream *o = &cli->out;
  out_printf(o, "%-22s %s\n%-22s %s\n%-22s %s\n", "store", cli->uri, "agent", cli->agent, "ref", engine_ref(cli));
  out_printf(o, "%-22s %10" PRIu64 "\n", "keys", s->keys);
  out_printf(o, "%-22s %10" PRIu64 "\n", "refs", s->refs);
  out_printf(o, "%-22s %10" PRIu64 "\n", "tags", more->tags);
  out_printf(o, "%-22s %10" PRIu64 "\n", "pins", more->pins);
  out_printf(o, "%-22s %10" PRIu64 "\n", "settings", more->settings);
  out_printf(o, "%-22s %10" PRIu64 "\n", "records", s->records);
  out_printf(o, "%-22s %10" PRIu64 "\n", "keyframes", s->keyframes);
  out_printf(o, "%-22s %10" PRIu64 "\n", "records to replay", s->tail_records);
  print_size(o, "log", s->log_bytes);
  print_size(o, "bag", s->bag_bytes);
  print_size(o, "on disk", s->disk_bytes);
  out_printf(o, "%-22s %10s\n", "survives power loss", s->is_durable ? "yes" : "no");
  print_gc(o, &more->gc);
}

static pd_code print_json(cli_session *cli, const pd_stats *s, const more_stats *more, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "store", cli->uri);
  pd_json_put_text(&w, "agent", cli->agent);
  pd_json_put_text(&w, "ref", engine_ref(cli));
  pd_json_put_number(&w, "keys", s->keys);
  pd_json_put_number(&w, "refs", s->refs);
  pd_json_put_number(&w, "records", s->records);
  pd_json_put_number(&w, "keyframes", s->keyframes);
  pd_json_put_number(&w, "tail_records", s->tail_records);
  pd_json_put_number(&w, "log_bytes", s->log_bytes);
  pd_json_put_number(&w, "bag_bytes", s->bag_bytes);
  pd_json_put_number(&w, "disk_bytes", s->disk_bytes);
  pd_json_put_bool(&w, "is_durable", s->is_durable);
  pd_json_put_number(&w, "tags", more->tags);
  pd_json_put_number(&w, "pins", more->pins);
  pd_json_put_number(&w, "settings", more->settings);
  pd_json_put_number(&w, "gc_cut", more->gc.cut);
  pd_json_put_bool(&w, "gc_auto", more->gc.is_auto);
  if (more->gc.auto_ms) pd_json_put_number(&w, "gc_auto_ms", (uint64_t)more->gc.auto_ms);
  if (more->gc.auto_trouble[0]) pd_json_put_text(&w, "gc_trouble", more->gc.auto_trouble);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_stats(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)args;
  pd_stats stats;
  more_stats more;
  TRY(engine_open(cli, CLI_READ, err));
  if (cli->is_remote) {
    TRY(ask_stats(cli, &stats, &more, err));
  } else {
    TRY(pd_store_stats(cli->store, &stats, err));
    TRY(look_further(cli->store, &more, err));
  }
  if (cli->is_json) return print_json(cli, &stats, &more, err);
  print_table(cli, &stats, &more);
  return PD_OK;
}

const cli_command cmd_stats = {
  .spec = {"stats", NULL, 0, 0, false},
  .group = "care",
  .summary = "Show how many keys, records and bytes there are",
  .usage = "",
  .about = "Prints counts and sizes of the store. `records to replay` is what an open has to read after the last keyframe.",
  .example = "$ perdure stats\n$ perdure --json stats",
  .run = run_stats,
};
