/* gc.c: `gc`: retire old history and give its bytes back. */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "progress.h"

#include <inttypes.h>

static pd_code read_policy(const args_parsed *args, pd_gc_policy *out, pd_error *err)
{
  TRY(args_number(args, "keep-last", 1, &out->keep_last, err));
  TRY(args_number(args, "keep-days", 1, &out->keep_days, err));
  TRY(args_number(args, "keep-versions", 1, &out->keep_versions, err));
  out->keep_refs = args_get(args, "keep-refs");
  out->is_dry = args_get(args, "dry-run") != NULL;
  out->author = args_get(args, "author");
  return PD_OK;
}

static void print_kept(out_stream *o, const char *what, uint64_t count)
{
  if (count) out_printf(o, "  %-38s %12" PRIu64 "\n", what, count);
}

static void print_report(cli_session *cli, const pd_gc_policy *policy, const pd_gc_report *r)
{
  out_stream *o = &cli->out;
  char log[OUT_SIZE_TEXT], bag[OUT_SIZE_TEXT], before[OUT_SIZE_TEXT], after[OUT_SIZE_TEXT];
  const char *would = policy->is_dry ? "would be " : "";
  out_printf(o, "%" PRIu64 " of %" PRIu64 " commits %sretired\n", r->retired, r->commits, would);
  out_text(o, "kept:\n");
  print_kept(o, "heads of refs", r->kept_heads);
  print_kept(o, "tags, pins, message links", r->kept_marks);
  print_kept(o, "the last of each ref (--keep-last)", r->kept_last);
  print_kept(o, "refs that are kept whole (--keep-refs)", r->kept_refs);
  print_kept(o, "young ones (--keep-days)", r->kept_days);
  print_kept(o, "what these build on", r->kept_base);
  print_kept(o, "versions of keys (--keep-versions)", r->kept_versions);
  out_printf(o, "%" PRIu64 " versions of keys %sdropped: %s of the log, %s of the bag\n", r->dropped_versions, would,
             out_size(r->log_bytes, log), out_size(r->bag_bytes, bag));
  if (policy->is_dry || !r->disk_before) return;
  out_printf(o, "on disk: %s before, %s after\n", out_size(r->disk_before, before), out_size(r->disk_after, after));
}

static pd_code print_json(cli_session *cli, const pd_gc_policy *policy, const pd_gc_report *r, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bool(&w, "dry_run", policy->is_dry);
  pd_json_put_number(&w, "commits", r->commits);
  pd_json_put_number(&w, "retired", r->retired);
  pd_json_key(&w, "kept");
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "heads", r->kept_heads);
  pd_json_put_number(&w, "marks", r->kept_marks);
  pd_json_put_number(&w, "last", r->kept_last);
  pd_json_put_number(&w, "days", r->kept_days);
  pd_json_put_number(&w, "refs", r->kept_refs);
  pd_json_put_number(&w, "base", r->kept_base);
  pd_json_put_number(&w, "versions", r->kept_versions);
  pd_json_close(&w, '}');
  pd_json_put_number(&w, "dropped_versions", r->dropped_versions);
  pd_json_put_number(&w, "log_bytes", r->log_bytes);
  pd_json_put_number(&w, "bag_bytes", r->bag_bytes);
  pd_json_put_number(&w, "disk_before", r->disk_before);
  pd_json_put_number(&w, "disk_after", r->disk_after);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_auto(cli_session *cli, const args_parsed *args, pd_error *err)
{
  static const char *const others[] = {"keep-last", "keep-days", "keep-versions", "keep-refs", "dry-run", "author"};
  pd_gc_report report = {0};
  bool did, is_auto;
  for (size_t i = 0; i < COUNT_OF(others); i++)
    if (args_get(args, others[i]))
      return pd_error_set(err, PD_INVALID, "--auto goes by the settings gc.keep-…: it does not go with --%s", others[i]);
  TRY(engine_open(cli, CLI_WRITE, err));
  TRY(engine_gc_auto(cli, &did, &is_auto, &report, err));
  if (did && !cli->is_json) print_report(cli, &(pd_gc_policy){0}, &report);
  if (did && cli->is_json) return print_json(cli, &(pd_gc_policy){0}, &report, err);
  if (did || !cli->is_json) {
    if (!did) out_text(&cli->out, is_auto ? "gc is not due\n" : "gc.auto is off; switch it on with: perdure settings gc.auto on\n");
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bool(&w, "is_auto", is_auto);
  pd_json_put_bool(&w, "ran", false);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_gc(cli_session *cli, const args_parsed *args, pd_error *err)
{
  progress_bar bar;
  pd_gc_report report;
  if (args_get(args, "auto")) return run_auto(cli, args, err);
  progress_init(&bar, cli, "gc");
  pd_gc_policy policy = {.progress = progress_show, .ctx = &bar};
  TRY(read_policy(args, &policy, err));
  TRY(engine_open(cli, policy.is_dry ? CLI_READ : CLI_WRITE, err));
  pd_code code = engine_gc(cli, &policy, &report, err);
  progress_clear(&bar);
  TRY(code);
  if (cli->is_json) return print_json(cli, &policy, &report, err);
  print_report(cli, &policy, &report);
  return PD_OK;
}

static const args_option gc_options[] = {
  {"keep-last", 0, "N", "keep the last N commits of each ref (default 100)"},
  {"keep-days", 0, "D", "keep all commits of the last D days"},
  {"keep-versions", 0, "N", "keep the last N versions of each key, also of commits that go"},
  {"keep-refs", 0, "NAMES",
   "keep all commits of these refs; 'thread/' stands for all that begin so (default: the setting\n"
   "gc.keep-refs, or else '" PD_GC_KEEP_REFS "'; '': none)"},
  {"auto", 0, NULL, "only if it is due by the settings gc.auto and gc.keep-…"},
  {"dry-run", 'n', NULL, "change nothing, only say what would go"},
  {"author", 0, "NAME", "who, for those who ask for what is gone (default: the agent)"},
  {0},
};

const cli_command cmd_gc = {
  .spec = {"gc", gc_options, 0, 0, false},
  .group = "care",
  .summary = "Retire old history and give its space back",
  .usage = "",
  .about = "Retires what no rule keeps. A thing is kept if any rule keeps it; always kept are the heads of refs,\n"
           "tags, pins and the commits that messages link to. Reading what is gone says Retired, with when and by\n"
           "whom. Others may go on reading and writing; killed at any moment it leaves a sound store.\n"
           "With `perdure settings gc.auto on` it runs by itself, by the settings gc.keep-last, gc.keep-versions,\n"
           "gc.keep-days and gc.keep-refs.",
  .example = "$ perdure gc --dry-run\n$ perdure gc --keep-last 50 --keep-days 7 --keep-versions 10",
  .run = run_gc,
};
