/* verify.c: `verify`: recompute everything and say what does not fit. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "progress.h"
#include "sign.h"

#include <inttypes.h>

typedef struct verify_view {
  cli_session *cli;
  progress_bar bar;
  pd_buf json; /* the findings, as the inside of an array */
  pd_json_writer writer;
} verify_view;

static bool show_progress(void *ctx, uint64_t done, uint64_t total)
{
  verify_view *view = ctx;
  return progress_show(&view->bar, done, total);
}

static void show_finding(void *ctx, const char *what)
{
  verify_view *view = ctx;
  if (view->cli->is_json) {
    pd_json_text(&view->writer, pd_text(what));
    return;
  }
  progress_clear(&view->bar);
  out_stream *o = &view->cli->out;
  out_set(o, OUT_BAD);
  out_text(o, "damaged: ");
  out_set(o, OUT_PLAIN);
  out_safe(o, pd_text(what));
  out_text(o, "\n");
}

static void print_report(cli_session *cli, const pd_verify_report *report, const sign_report *heads)
{
  out_stream *o = &cli->out;
  const struct {
    const char *label;
    uint64_t count;
  } rows[] = {{"records", report->records},
              {"commits", report->commits},
              {"values", report->values},
              {"nodes", report->nodes},
              {"keyframes", report->keyframes}};
  for (size_t i = 0; i < COUNT_OF(rows); i++) out_printf(o, "%-10s %12" PRIu64 "\n", rows[i].label, rows[i].count);
  sign_report_print(o, heads);
  out_set(o, report->findings ? OUT_BAD : OUT_GOOD);
  if (report->findings)
    out_printf(o, "%" PRIu64 " finding%s", report->findings, report->findings == 1 ? "" : "s");
  else
    out_text(o, "ok");
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
}

static pd_code print_report_json(verify_view *view, const pd_verify_report *report, const sign_report *heads, pd_error *err)
{
  pd_json_writer w = cli_json(view->cli, err);
  TRY(view->writer.code);
  pd_json_open(&w, '{');
  pd_json_put_bool(&w, "ok", report->findings == 0);
  pd_json_put_number(&w, "records", report->records);
  pd_json_put_number(&w, "commits", report->commits);
  pd_json_put_number(&w, "values", report->values);
  pd_json_put_number(&w, "nodes", report->nodes);
  pd_json_put_number(&w, "keyframes", report->keyframes);
  sign_report_json(&w, heads);
  pd_json_key(&w, "findings");
  pd_json_open(&w, '[');
  out_bytes(&view->cli->out, pd_buf_bytes(&view->json));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

/* The head as a document; only one that is sound so far is worth asking about. */
static pd_code put_head(engine_answer *a, const args_parsed *args, const sign_report *heads, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf document = {0};
  char key[PD_PUBLIC_KEY_TEXT_SIZE];
  if (!heads->is_wanted) return PD_OK;
  pd_json_put_text(&a->w, "public_key", pd_public_key_text(&heads->key, key));
  if (!heads->has_head || heads->head_code) return PD_OK;
  TRY(cli_file_read(args_get(args, "head"), "signed head", &document, err));
  pd_json_put_bytes(&a->w, "head", pd_buf_bytes(&document));
  return PD_OK;
}

/* On the server, where the store lies. */
static pd_code verify_there(verify_view *view, const args_parsed *args, pd_verify_report *out, sign_report *heads, pd_error *err)
{
  CLEANUP(engine_answer_done) engine_answer a = {0};
  pd_json item;
  engine_begin(view->cli, &a, err);
  if (args_get(args, "since")) pd_json_put_text(&a.w, "since", args_get(args, "since"));
  TRY(put_head(&a, args, heads, err));
  TRY(engine_ask(view->cli, &a, "store.verify", err));
  *out = (pd_verify_report){
    .records = engine_number(a.json, "records"),
    .commits = engine_number(a.json, "commits"),
    .values = engine_number(a.json, "values"),
    .nodes = engine_number(a.json, "nodes"),
    .keyframes = engine_number(a.json, "keyframes"),
    .findings = engine_number(a.json, "finding_count"),
  };
  heads->heads = engine_number(a.json, "heads");
  heads->retired = engine_number(a.json, "heads_retired");
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(a.json, "findings")); pd_json_walk_next(&walk, NULL, &item);) {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    TRY(pd_json_decode(item, &text, err));
    TRY(pd_buf_byte(&text, 0, err));
    show_finding(view, (const char *)text.data);
  }
  if (!heads->has_head || !heads->head_code) return PD_OK;
  heads->heads++;
  heads->findings++;
  show_finding(view, heads->head_error.message);
  return PD_OK;
}

static pd_code verify_here(verify_view *view, const args_parsed *args, pd_verify_report *out, sign_report *heads, pd_error *err)
{
  pd_verify_options options = {.since = args_get(args, "since"), .progress = show_progress, .finding = show_finding, .ctx = view};
  TRY(cli_open(view->cli, CLI_READ, err));
  pd_code code = pd_verify(view->cli->store, &options, out, err);
  progress_clear(&view->bar);
  if (code != PD_OK && !(code == PD_CORRUPT && out->findings)) return code;
  return sign_verify(view->cli, heads, show_finding, view, err);
}

static pd_code run_verify(cli_session *cli, const args_parsed *args, pd_error *err)
{
  verify_view view = {.cli = cli};
  progress_init(&view.bar, cli, "verify");
  CLEANUP(pd_buf_done) pd_buf findings = {0};
  view.writer = (pd_json_writer){.out = &findings, .err = err};
  pd_verify_report report = {0};
  sign_report heads = {0};
  TRY(sign_options(args, &heads, err));
  TRY(cli->is_remote ? verify_there(&view, args, &report, &heads, err) : verify_here(&view, args, &report, &heads, err));
  report.findings += heads.findings;
  view.json = findings;
  if (cli->is_json)
    TRY(print_report_json(&view, &report, &heads, err));
  else
    print_report(cli, &report, &heads);
  cli->exit_code = report.findings ? CLI_EXIT_STORAGE : CLI_EXIT_OK;
  return PD_OK;
}

static const args_option verify_options[] = {
  {"since", 0, "X", "only what came after this commit"},
  {"key", 0, "KEY", "check the signed heads too: a public key in base64, or a file with it"},
  {"head", 0, "FILE", "with --key: check this signed head as well"},
  {0},
};

const cli_command cmd_verify = {
  .spec = {"verify", verify_options, 0, 0, false},
  .group = "care",
  .summary = "Check every id, the audit chain and the keyframes",
  .usage = "",
  .about = "Recomputes every id and the audit chain, replays the log, compares each keyframe with it, and lets the\n"
           "database check itself. Changes nothing. Prints counts and \"ok\"; or what is damaged, and exits 4.\n"
           "With --key also checks the signed heads that the store keeps (see: perdure help sign): that this key\n"
           "signed them and that the history is still what was signed. Who can change a store can remove what it\n"
           "keeps, so keep signed heads elsewhere too, and give one with --head.",
  .example = "$ perdure verify\n$ perdure verify --since main@2026-11-14\n$ perdure verify --key home.pub --head monday.json",
  .run = run_verify,
};
