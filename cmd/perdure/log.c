/* log.c: `log`: commits from a point back, the moves of one ref, or every record of the store; as text, lines, lanes or JSON. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "graph.h"
#include "record.h"

typedef struct log_view {
  cli_session *cli;
  engine_log *log;
  bool is_oneline, is_first;
  uint64_t count;
  bool has_begun;         /* the last record shown has only the root commit before it */
  pd_json_writer *writer; /* NULL: text */
} log_view;

static bool visit_record(void *ctx, const pd_record *record)
{
  log_view *view = ctx;
  out_stream *o = &view->cli->out;
  view->count++;
  view->has_begun = record->seq <= 1 || (record->parent_count && pd_id_equal(record->parents, &view->log->root.id));
  if (view->writer) {
    record_json(view->writer, record);
    out_drain(o);
    return !out_is_closed(o) && view->writer->code == PD_OK;
  }
  if (view->is_oneline) {
    record_print_line(o, record, &view->log->names);
    out_text(o, "\n");
  } else {
    if (!view->is_first) out_text(o, "\n");
    record_print(o, record, &view->log->names, RECORD_CHANGES_SHOWN);
  }
  view->is_first = false;
  return !out_is_closed(o);
}

/* Did it end where gc cut history off, and not where history begins or the user wanted? */
static bool ended_at_cut(const log_view *view)
{
  uint64_t limit = view->log->query.limit;
  bool was_stopped = out_is_closed(&view->cli->out) || (limit && view->count >= limit);
  return view->log->gc.cut > 1 && !view->has_begun && !was_stopped;
}

static void tell_cut(log_view *view)
{
  char time[PD_TIME_TEXT_SIZE];
  if (!ended_at_cut(view)) return;
  if (!view->is_oneline && view->count) out_text(&view->cli->out, "\n");
  out_text(&view->cli->out, "older history was retired by gc on ");
  out_printf(&view->cli->out, "%s by ", pd_time_text(view->log->gc.retired_ms, time));
  out_safe(&view->cli->out, pd_text(view->log->gc.by));
  out_text(&view->cli->out, "\n");
}

static pd_code log_json(log_view *view, pd_error *err)
{
  pd_json_writer w = cli_json(view->cli, err);
  view->writer = &w;
  pd_json_open(&w, '{');
  pd_json_key(&w, "records");
  pd_json_open(&w, '[');
  TRY(engine_log_visit(view->log, visit_record, view, err));
  pd_json_close(&w, ']');
  if (ended_at_cut(view)) {
    pd_json_key(&w, "older_retired");
    pd_json_open(&w, '{');
    pd_json_put_time(&w, "time", view->log->gc.retired_ms);
    pd_json_put_text(&w, "by", view->log->gc.by);
    pd_json_close(&w, '}');
  }
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

static pd_code log_text(log_view *view, pd_error *err)
{
  TRY(engine_log_visit(view->log, visit_record, view, err));
  tell_cut(view);
  return PD_OK;
}

static pd_code check_query(const args_parsed *args, bool is_graph, pd_error *err)
{
  int points = !!args_get(args, "all") + !!args_get(args, "ref") + !!args_get(args, "at");
  if (points > 1) return pd_error_set(err, PD_INVALID, "log: --all, --ref and --at exclude each other");
  if (is_graph && args->word_count) return pd_error_set(err, PD_INVALID, "log: --graph shows commits, not one key");
  return PD_OK;
}

static pd_code print_log(engine_log *log, const args_parsed *args, pd_error *err)
{
  cli_session *cli = log->cli;
  log_view view = {.cli = cli, .log = log, .is_first = true, .is_oneline = args_get(args, "oneline")};
  bool has_point = log->query.at || log->query.ref || log->query.whole_store;
  log->or_ref = args->word_count && !has_point;
  log->wants_names = !cli->is_json;
  TRY(engine_log_begin(log, err));
  if (log->is_ref) cli_say(cli, "'%s' is a ref, and no key: these are its commits", args->words[0]);
  return cli->is_json ? log_json(&view, err) : log_text(&view, err);
}

static pd_code run_log(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *ref = args_get(args, "ref");
  bool is_graph = args_get(args, "graph") && !cli->is_json;
  CLEANUP(engine_log_done) engine_log log = {.cli = cli};
  pd_log_query *query = &log.query;
  *query = (pd_log_query){.at = args_get(args, "at"), .whole_store = args_get(args, "all"), .ref = ref};
  TRY(args_number(args, "number", 1, &query->limit, err));
  TRY(args_number(args, "before", 1, &query->before, err));
  TRY(check_query(args, is_graph, err));
  if (args->word_count) query->key = pd_text(args->words[0]);
  if (args->word_count) TRY(pd_key_check(query->key, err));
  if (ref) TRY(pd_ref_check(ref, err));
  TRY(engine_open(cli, CLI_READ, err));
  cli->out.wants_pager = cli->has_pager;
  return is_graph ? graph_print(cli, query, err) : print_log(&log, args, err);
}

static const args_option log_options[] = {
  {"number", 'n', "N", "at most N"},
  {"oneline", 0, NULL, "one line each"},
  {"graph", 0, NULL, "draw the lanes of all refs (with --all: of everything, also what was undone)"},
  {"all", 0, NULL, "every record of the store, newest first: commits, forks, undos, keyframes…"},
  {"ref", 0, "NAME", "every move of this ref, also what it left by undo and reset"},
  {"at", 0, "X", "commits from this point back (default: the current head)"},
  {"before", 0, "SEQ", "only records before this number: the next page"},
  {0},
};

const cli_command cmd_log = {
  .spec = {"log", log_options, 0, 1, false},
  .group = "history",
  .summary = "Show who changed what, when and why",
  .usage = "[KEY|REF]",
  .about = "Shows commits, newest first, from the current head back; with KEY, only those that changed it. A word that\n"
           "is no key but a ref (thread/trip) shows the commits of that ref, as --at does.\n"
           "In the list of changes, + is a new key, ~ a changed one, - a removed one.",
  .example = "$ perdure log -n 5\n$ perdure log plan\n$ perdure log thread/trip\n$ perdure log --graph\n$ perdure --json log --all -n 100",
  .run = run_log,
};
