/* log.c: `log`: commits from a point back, the moves of one ref, or every record of the store; as text, lines, lanes or JSON. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "graph.h"
#include "record.h"

typedef struct log_view {
  cli_session *cli;
  names_list names;
  bool is_oneline, is_first;
  pd_commit root; /* the empty commit */
  uint64_t count;
  bool has_begun;         /* the last record shown has only the root commit before it */
  pd_json_writer *writer; /* NULL: text */
} log_view;

static bool visit_record(void *ctx, const pd_record *record)
{
  log_view *view = ctx;
  out_stream *o = &view->cli->out;
  view->count++;
  view->has_begun = record->seq <= 1 || (record->parent_count && pd_id_equal(record->parents, &view->root.id));
  if (view->writer) {
    record_json(view->writer, record);
    out_drain(o);
    return !out_is_closed(o) && view->writer->code == PD_OK;
  }
  if (view->is_oneline) {
    record_print_line(o, record, &view->names);
    out_text(o, "\n");
  } else {
    if (!view->is_first) out_text(o, "\n");
    record_print(o, record, &view->names, RECORD_CHANGES_SHOWN);
  }
  view->is_first = false;
  return !out_is_closed(o);
}

/* Did it end where gc cut history off, and not where history begins or the user wanted? */
static pd_code ended_at_cut(log_view *view, const pd_log_query *query, pd_gc_info *out_info, bool *out, pd_error *err)
{
  TRY(pd_gc_status(view->cli->store, out_info, err));
  bool was_stopped = out_is_closed(&view->cli->out) || (query->limit && view->count >= query->limit);
  *out = out_info->cut > 1 && !view->has_begun && !was_stopped;
  return PD_OK;
}

static pd_code tell_cut(log_view *view, const pd_log_query *query, pd_error *err)
{
  pd_gc_info info;
  bool is_cut;
  char time[PD_TIME_TEXT_SIZE];
  TRY(ended_at_cut(view, query, &info, &is_cut, err));
  if (!is_cut) return PD_OK;
  if (!view->is_oneline && view->count) out_text(&view->cli->out, "\n");
  out_text(&view->cli->out, "older history was retired by gc on ");
  out_printf(&view->cli->out, "%s by ", pd_time_text(info.retired_ms, time));
  out_safe(&view->cli->out, pd_text(info.by));
  out_text(&view->cli->out, "\n");
  return PD_OK;
}

static pd_code log_json(log_view *view, const pd_log_query *query, pd_error *err)
{
  pd_gc_info info;
  bool is_cut;
  pd_json_writer w = cli_json(view->cli, err);
  view->writer = &w;
  pd_json_open(&w, '{');
  pd_json_key(&w, "records");
  pd_json_open(&w, '[');
  TRY(pd_log(view->cli->store, query, visit_record, view, err));
  pd_json_close(&w, ']');
  TRY(ended_at_cut(view, query, &info, &is_cut, err));
  if (is_cut) {
    pd_json_key(&w, "older_retired");
    pd_json_open(&w, '{');
    pd_json_put_time(&w, "time", info.retired_ms);
    pd_json_put_text(&w, "by", info.by);
    pd_json_close(&w, '}');
  }
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

static pd_code log_text(log_view *view, const pd_log_query *query, pd_error *err)
{
  TRY(names_load(view->cli->store, &view->names, err));
  pd_code code = pd_log(view->cli->store, query, visit_record, view, err);
  names_done(&view->names);
  return code ? code : tell_cut(view, query, err);
}

static pd_code check_query(const args_parsed *args, bool is_graph, pd_error *err)
{
  int points = !!args_get(args, "all") + !!args_get(args, "ref") + !!args_get(args, "at");
  if (points > 1) return pd_error_set(err, PD_INVALID, "log: --all, --ref and --at exclude each other");
  if (is_graph && args->word_count) return pd_error_set(err, PD_INVALID, "log: --graph shows commits, not one key");
  return PD_OK;
}

static bool stop_at_first(void *ctx, const pd_record *record)
{
  (void)record;
  *(bool *)ctx = true;
  return false;
}

/* A word that no commit has as a key and that is a ref: its commits are meant (`log thread/trip`). */
static pd_code take_ref(cli_session *cli, const char *word, pd_log_query *query, pd_error *err)
{
  pd_ref ref;
  bool is_key = false;
  if (query->at || query->ref || query->whole_store || pd_ref_check(word, NULL) || pd_ref_get(cli->store, word, &ref, NULL)) return PD_OK;
  TRY(pd_log(cli->store, &(pd_log_query){.key = query->key, .limit = 1}, stop_at_first, &is_key, err));
  if (is_key) return PD_OK;
  query->key = (pd_bytes){0};
  query->at = word;
  cli_say(cli, "'%s' is a ref, and no key: these are its commits", word);
  return PD_OK;
}

static pd_code run_log(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *ref = args_get(args, "ref");
  bool is_graph = args_get(args, "graph") && !cli->is_json;
  pd_log_query query = {.at = args_get(args, "at"), .whole_store = args_get(args, "all"), .ref = ref};
  TRY(args_number(args, "number", 1, &query.limit, err));
  TRY(args_number(args, "before", 1, &query.before, err));
  TRY(check_query(args, is_graph, err));
  if (args->word_count) query.key = pd_text(args->words[0]);
  if (args->word_count) TRY(pd_key_check(query.key, err));
  if (ref) TRY(pd_ref_check(ref, err));
  TRY(cli_open(cli, CLI_READ, err));
  if (args->word_count) TRY(take_ref(cli, args->words[0], &query, err));
  cli->out.wants_pager = cli->has_pager;
  if (is_graph) return graph_print(cli, &query, err);
  log_view view = {.cli = cli, .is_first = true, .is_oneline = args_get(args, "oneline")};
  TRY(pd_resolve(cli->store, "root", &view.root, err));
  return cli->is_json ? log_json(&view, &query, err) : log_text(&view, &query, err);
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
