/* repair.c: `repair`: make derived data again from the log. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct repair_view {
  cli_session *cli;
  bool is_dry_run;
  progress_bar bar;
  pd_json_writer writer; /* the findings, as the inside of an array */
} repair_view;

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
  repair_view *view = ctx;
  return progress_show(&view->bar, done, total);
}

static void show_finding(void *ctx, const pd_repair_finding *finding)
{
  repair_view *view = ctx;
  if (view->cli->is_json) {
    pd_json_open(&view->writer, '{');
    pd_json_put_bool(&view->writer, "can_mend", finding->can_mend);
    pd_json_put_text(&view->writer, "what", finding->what);
    pd_json_close(&view->writer, '}');
    return;
  }
  progress_clear(&view->bar);
  out_stream *o = &view->cli->out;
  out_set(o, finding->can_mend ? OUT_CHANGED : OUT_BAD);
  out_text(o, finding->can_mend ? "derived: " : "lost: ");
  out_set(o, OUT_PLAIN);
  out_safe(o, pd_text(finding->what));
  out_text(o, "\n");
}

static void print_report(repair_view *view, const pd_repair_report *report)
{
  out_stream *o = &view->cli->out;
  uint64_t wrong = report->damaged + report->missing;
  out_printf(o, "%-10s %12" PRIu64 "\n", "records", report->records);
  out_printf(o, "%-10s %12" PRIu64 "\n", "damaged", report->damaged);
  out_printf(o, "%-10s %12" PRIu64 "\n", "missing", report->missing);
  out_printf(o, "%-10s %12" PRIu64 "\n", "mended", report->mended);
  bool is_left = report->findings || report->mended < wrong;
  out_set(o, is_left ? OUT_BAD : OUT_GOOD);
  if (report->findings)
    out_printf(o, "%" PRIu64 " damage%s cannot be repaired", report->findings, report->findings == 1 ? "" : "s");
  else if (is_left)
    out_printf(o, "%" PRIu64 " blob%s to be made again", wrong - report->mended, wrong - report->mended == 1 ? "" : "s");
  else
    out_text(o, report->mended ? "repaired" : "nothing to repair");
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
}

static pd_code print_json(repair_view *view, const pd_repair_report *report, const pd_buf *findings, pd_error *err)
{
  TRY(view->writer.code);
  pd_json_writer w = cli_json(view->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bool(&w, "ok", !report->findings && report->mended == report->damaged + report->missing);
  pd_json_put_bool(&w, "dry_run", view->is_dry_run);
  pd_json_put_number(&w, "records", report->records);
  pd_json_put_number(&w, "damaged", report->damaged);
  pd_json_put_number(&w, "missing", report->missing);
  pd_json_put_number(&w, "mended", report->mended);
  pd_json_put_number(&w, "lost", report->findings);
  pd_json_key(&w, "findings");
  pd_json_open(&w, '[');
  out_bytes(&view->cli->out, pd_buf_bytes(findings));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

static pd_code run_repair(cli_session *cli, const args_parsed *args, pd_error *err)
{
  repair_view view = {.cli = cli, .is_dry_run = args_get(args, "dry-run")};
  CLEANUP(pd_buf_done) pd_buf findings = {0};
  view.writer = (pd_json_writer){.out = &findings, .err = err};
  progress_init(&view.bar, cli, "repair");
  pd_repair_options options = {.is_dry_run = view.is_dry_run,
                               .keep_going = args_get(args, "keep-going"),
                               .progress = show_progress,
                               .finding = show_finding,
                               .ctx = &view};
  pd_repair_report report = {0};
  pd_code code = engine_repair(cli, &options, &report, err);
  progress_clear(&view.bar);
  if (code != PD_OK && !(code == PD_CORRUPT && report.findings)) return code;
  if (cli->is_json)
    TRY(print_json(&view, &report, &findings, err));
  else
    print_report(&view, &report);
  bool is_left = report.mended < report.damaged + report.missing;
  cli->exit_code = report.findings ? CLI_EXIT_STORAGE : is_left ? CLI_EXIT_NEGATIVE : CLI_EXIT_OK;
  if (report.findings && is_left && !view.is_dry_run)
    cli_say(cli, "nothing was changed; mend what can be mended with: perdure repair --keep-going");
  return PD_OK;
}

static const args_option repair_options[] = {{"dry-run", 'n', NULL, "only say what is damaged; exit 1 if it can be repaired"},
                                             {"keep-going", 0, NULL, "mend what can be mended although something is lost"},
                                             {0}};

const cli_command cmd_repair = {
  .spec = {"repair", repair_options, 0, 0, false},
  .group = "care",
  .summary = "Make all derived data again from the log",
  .usage = "",
  .about = "The log has everything; tree nodes, catalogs and lists of commits only make it fast. Those that are damaged or\n"
           "missing are made again from it, also if the store can no longer be opened. The log and the values are never\n"
           "changed, others may use the store meanwhile, and a repair that was killed can be started again.\n"
           "\n"
           "What cannot be repaired, damage in the log itself or in a large value, is named by record, key and commit; then\n"
           "nothing is changed unless --keep-going is given, and the exit code is 4. Afterwards `verify` is clean.",
  .example = "$ perdure repair --dry-run\n$ perdure repair\n$ perdure repair --keep-going",
  .run = run_repair,
};
