/* watch.c: `watch`: follow the changes of a store, one line an event, until enough came, the time is over, or somebody interrupts. */
#include "remote/watch.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_record.h"
#include "commands.h"
#include "engine.h"
#include "record.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define SLICE_MS 1000 /* then we look whether somebody still reads */
#define TIMEOUT_S_MAX 4000000

typedef struct watch_view {
  cli_session *cli;
  pd_watch *watch;
  pd_remote_watch *far; /* of a server, instead */
  bool has_values;
  uint64_t count, count_max; /* 0: no end */
  int64_t end_ms;            /* INT64_MAX: no end */
} watch_view;

static volatile sig_atomic_t is_interrupted;

static void interrupt(int signal_number)
{
  (void)signal_number;
  is_interrupted = 1;
}

/* Without SA_RESTART: the wait ends at once. */
static void catch_signals(void)
{
  const struct sigaction action = {.sa_handler = interrupt};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* A pipe whose reader has left says so without being written to. */
static bool is_reader_gone(out_stream *o)
{
  struct pollfd fd = {.fd = STDOUT_FILENO};
  return out_is_closed(o) || (poll(&fd, 1, 0) > 0 && fd.revents & (POLLERR | POLLNVAL));
}

/* ---- one event ---------------------------------------------------------------------------------------------------- */

static bool is_zero(const pd_id *id)
{
  static const pd_id zero;
  return pd_id_equal(id, &zero);
}

/* The value as the record left it. One that retention or erasure took meanwhile is no failure: *out_has is false. */
static pd_code read_value(watch_view *view, const pd_watch_event *e, pd_buf *out, bool *out_has, pd_error *err)
{
  char at[32];
  *out_has = false;
  if (!view->has_values || e->kind != PD_WATCH_PUT || e->is_erased) return PD_OK;
  snprintf(at, sizeof at, "#%" PRIu64, e->seq);
  pd_error own = {0};
  pd_code code = engine_get(view->cli, at, e->key, 0, out, NULL, &own);
  *out_has = code == PD_OK;
  if (code == PD_OK || code == PD_ERASED || code == PD_RETIRED || code == PD_NOT_FOUND) return PD_OK;
  *err = own;
  return code;
}

static pd_code event_json(watch_view *view, const pd_watch_event *e, const pd_buf *value, pd_error *err)
{
  char next[PD_WATCH_CURSOR_SIZE];
  pd_json_writer w = cli_json(view->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_event(&w, e);
  pd_json_put_text(&w, "next", pd_watch_cursor_text(&e->next, next));
  if (value) cli_value_json(&w, (pd_bytes){value->data, value->size});
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

static void print_move(out_stream *o, const pd_watch_event *e)
{
  char before[PD_ID_HEX_SIZE], after[PD_ID_HEX_SIZE];
  out_set(o, OUT_CHANGED);
  out_printf(o, "> %s", pd_record_kind_name(e->record_kind));
  out_set(o, OUT_DIM);
  out_printf(o, "  %s -> %s", is_zero(&e->before) ? "-" : cli_short_id(&e->before, before),
             is_zero(&e->commit.id) ? "-" : cli_short_id(&e->commit.id, after));
  out_set(o, OUT_PLAIN);
}

static void print_gap(out_stream *o, const pd_watch_event *e)
{
  out_set(o, OUT_BAD);
  if (e->seq == e->last_seq)
    out_printf(o, "! record %" PRIu64 " is not whole any more: retention removed some of it", e->seq);
  else
    out_printf(o, "! records %" PRIu64 " to %" PRIu64 " are there no more: retention removed them", e->seq, e->last_seq);
  out_set(o, OUT_PLAIN);
}

/* TIME  #SEQ  REF  ~ KEY  v3, 10 bytes  author: reason */
static void print_event(watch_view *view, const pd_watch_event *e, const pd_buf *value)
{
  out_stream *o = &view->cli->out;
  char time[PD_TIME_TEXT_SIZE];
  out_set(o, OUT_DIM);
  if (e->time_ms) out_printf(o, "%s  ", pd_time_text(e->time_ms, time));
  out_printf(o, "#%" PRIu64 "  ", e->seq);
  out_set(o, OUT_PLAIN);
  if (*e->ref) out_printf(o, "%s  ", e->ref);
  if (e->kind == PD_WATCH_GAP) {
    print_gap(o, e);
  } else if (e->kind == PD_WATCH_MOVE) {
    print_move(o, e);
  } else {
    record_print_change(o, &(pd_change){e->key, e->kind == PD_WATCH_DELETE, e->value_id, e->version, e->size, e->is_new});
  }
  if (value) {
    out_text(o, "  = ");
    cli_value_short(o, (pd_bytes){value->data, value->size}, 60);
  }
  if (*e->author) out_text(o, "  "), out_safe(o, pd_text(e->author));
  if (*e->reason) out_text(o, ": "), out_safe(o, pd_text(e->reason));
  out_text(o, "\n");
}

static pd_code tell(watch_view *view, const pd_watch_event *e, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  bool has_value = false;
  TRY(read_value(view, e, &value, &has_value, err));
  view->count++;
  if (view->cli->is_json) return event_json(view, e, has_value ? &value : NULL, err);
  print_event(view, e, has_value ? &value : NULL);
  return PD_OK;
}

/* ---- following ---------------------------------------------------------------------------------------------------- */

static pd_code next_event(watch_view *view, uint32_t timeout_ms, pd_watch_event *out, pd_error *err)
{
  return view->far ? pd_remote_watch_next(view->far, timeout_ms, out, err) : pd_watch_next(view->watch, timeout_ms, out, err);
}

/* All that is there without waiting; what was told is then written. */
static pd_code tell_all(watch_view *view, pd_error *err)
{
  pd_watch_event e;
  pd_code code = PD_OK;
  while (!is_interrupted && !out_is_closed(&view->cli->out) && (!view->count_max || view->count < view->count_max)) {
    code = next_event(view, 0, &e, err);
    if (code == PD_OK) code = tell(view, &e, err);
    if (code != PD_OK) break;
    out_drain(&view->cli->out);
  }
  out_flush(&view->cli->out);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* Wait for one event and tell it. */
static pd_code wait_one(watch_view *view, pd_error *err)
{
  int64_t left = view->end_ms - pd_clock_monotonic_ms();
  uint32_t slice = left < SLICE_MS ? (uint32_t)(left < 0 ? 0 : left) : SLICE_MS;
  pd_watch_event e;
  pd_code code = next_event(view, slice, &e, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  return code == PD_OK ? tell(view, &e, err) : code;
}

static bool goes_on(watch_view *view)
{
  if (is_interrupted || is_reader_gone(&view->cli->out)) return false;
  if (view->count_max && view->count == view->count_max) return false;
  return pd_clock_monotonic_ms() < view->end_ms;
}

static pd_code follow(watch_view *view, pd_error *err)
{
  TRY(tell_all(view, err));
  while (goes_on(view)) {
    TRY(wait_one(view, err));
    TRY(tell_all(view, err));
  }
  char where[PD_WATCH_CURSOR_SIZE];
  const pd_watch_cursor cursor = view->far ? pd_remote_watch_where(view->far) : pd_watch_where(view->watch);
  cli_say(view->cli, "to go on from here: --from %s", pd_watch_cursor_text(&cursor, where));
  if (view->count_max && view->count < view->count_max && !is_interrupted) view->cli->exit_code = CLI_EXIT_NEGATIVE;
  return PD_OK;
}

static pd_code read_options(const args_parsed *args, watch_view *view, pd_watch_options *options, pd_error *err)
{
  const char *from = args_get(args, "from"), *timeout = args_get(args, "timeout");
  uint64_t timeout_s = 0;
  TRY(args_number(args, "count", 1, &view->count_max, err));
  TRY(args_number(args, "timeout", 0, &timeout_s, err));
  if (timeout_s > TIMEOUT_S_MAX) return pd_error_set(err, PD_INVALID, "--timeout is at most %d seconds", TIMEOUT_S_MAX);
  view->end_ms = timeout ? pd_clock_monotonic_ms() + (int64_t)timeout_s * 1000 : INT64_MAX;
  view->has_values = args_get(args, "values");
  if (from && !pd_watch_cursor_parse(from, &options->from))
    return pd_error_set(err, PD_INVALID, "--from '%.40s' is neither a record's number nor a place that watch printed, like 17 or 17.3",
                        from);
  options->ref = args_get(args, "ref");
  if (options->ref) TRY(pd_ref_check(options->ref, err));
  if (args->word_count) options->prefix = pd_text(args->words[0]);
  return PD_OK;
}

static pd_code run_watch(cli_session *cli, const args_parsed *args, pd_error *err)
{
  watch_view view = {.cli = cli};
  pd_watch_options options = {0};
  TRY(read_options(args, &view, &options, err));
  TRY(engine_open(cli, CLI_READ, err));
  TRY(cli->is_remote ? pd_remote_watch_open(cli->uri, cli->agent, &options, &view.far, err)
                     : pd_watch_open(cli->store, &options, &view.watch, err));
  catch_signals();
  pd_code code = follow(&view, err);
  pd_watch_close(view.watch);
  pd_remote_watch_close(view.far);
  return code;
}

static const args_option watch_options[] = {
  {"from", 0, "SEQ", "begin with this record (1: all there is), or go on where a watch ended (17.3); default: now"},
  {"ref", 0, "NAME", "only this ref; default: all"},
  {"count", 'n', "N", "end after N events"},
  {"timeout", 0, "S", "end after S seconds; 0: tell what is there and end. Exit 1 if --count was not reached"},
  {"values", 0, NULL, "show the values, too"},
  {0},
};

const cli_command cmd_watch = {
  .spec = {"watch", watch_options, 0, 1, false},
  .group = "history",
  .summary = "Follow changes as they happen, whoever makes them",
  .usage = "[PREFIX]",
  .about = "Prints one line an event: a key was put or deleted, or a ref was moved (undo, fork,\n"
           "reset…; told whatever PREFIX is). With --json, one object a line; its \"next\" is where\n"
           "--from goes on after it: no event is lost or doubled over a restart.\n"
           "A gap says that retention removed what happened in some records.",
  .example = "$ perdure watch\n$ perdure watch plan/ --count 1 --timeout 60\n$ perdure --json watch --from 17.3 --values",
  .run = run_watch,
};
