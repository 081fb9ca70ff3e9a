/* diff.c: `diff`: the keys whose values differ between two points. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_record.h"
#include "commands.h"
#include "engine.h"

#include <inttypes.h>
#include <stdlib.h>

#define VALUE_SHOWN_MAX 160
#define SMALL_SIZE_MAX 64   /* bytes of a value that is shown on the line of its key */
#define SMALL_COUNT_MAX 100 /* differences: of more of them nobody reads the values */

/* A difference that outlives its visitor. */
typedef struct kept {
  char *key;
  size_t key_size;
  bool has_before, has_after;
  pd_entry before, after;
} kept;

typedef struct diff_view {
  cli_session *cli;
  char before[PD_ID_HEX_SIZE], after[PD_ID_HEX_SIZE]; /* both points as ids, so that neither moves meanwhile */
  bool has_values, has_small;                         /* small values: without being asked for */
  pd_buf kept;                                        /* of kept, if values are wanted: the visitor must not call the store */
  pd_json_writer *writer;                             /* NULL: lines */
  uint64_t count;
  pd_code code;
  engine_answer answer; /* of a server */
  pd_json item;         /* the difference of it that is being printed */
} diff_view;

static void diff_done(diff_view *view)
{
  kept *items = (kept *)(void *)view->kept.data;
  for (size_t i = 0; i < view->kept.size / sizeof *items; i++) free(items[i].key);
  pd_buf_done(&view->kept);
}

/* PD_NOT_FOUND: a server left it out. */
static pd_code read_value(diff_view *view, pd_bytes key, bool is_after, pd_buf *out, pd_error *err)
{
  if (!view->cli->is_remote) return pd_get(view->cli->store, is_after ? view->after : view->before, key, out, NULL, err);
  pd_json side = pd_json_member(view->item, is_after ? "after" : "before");
  if (pd_json_member(side, "base64").kind != PD_JSON_STRING) return pd_error_set(err, PD_NOT_FOUND, "the value did not come along");
  pd_bytes value = engine_base64(&view->answer, side, "base64");
  return pd_buf_append(out, value.data, value.size, err);
}

/* ": {"step":1} -> {"step":2}". What cannot be read (erased meanwhile) is left out: the line is true without it. */
static void print_small(diff_view *view, const pd_difference *d)
{
  CLEANUP(pd_buf_done) pd_buf before = {0};
  CLEANUP(pd_buf_done) pd_buf after = {0};
  out_stream *o = &view->cli->out;
  if ((d->before && d->before->size > SMALL_SIZE_MAX) || (d->after && d->after->size > SMALL_SIZE_MAX)) return;
  if (d->before && read_value(view, d->key, false, &before, NULL)) return;
  if (d->after && read_value(view, d->key, true, &after, NULL)) return;
  out_text(o, ": ");
  if (d->before) out_safe(o, pd_buf_bytes(&before));
  if (d->before && d->after) out_text(o, " -> ");
  if (d->after) out_safe(o, pd_buf_bytes(&after));
}

static void print_line(diff_view *view, const pd_difference *d)
{
  out_stream *o = &view->cli->out;
  out_set(o, !d->before ? OUT_GOOD : !d->after ? OUT_BAD : OUT_CHANGED);
  out_text(o, !d->before ? "+ " : !d->after ? "- " : "~ ");
  out_safe(o, d->key);
  out_set(o, OUT_DIM);
  if (d->before && d->after)
    out_printf(o, "  v%" PRIu64 " -> v%" PRIu64 ", %" PRIu64 " -> %" PRIu64 " bytes", d->before->version, d->after->version,
               d->before->size, d->after->size);
  else
    out_printf(o, "  v%" PRIu64 ", %" PRIu64 " bytes", (d->before ? d->before : d->after)->version,
               (d->before ? d->before : d->after)->size);
  out_set(o, OUT_PLAIN);
  if (view->has_small) print_small(view, d);
  out_text(o, "\n");
}

static pd_code print_value(diff_view *view, pd_bytes key, bool is_after, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  out_stream *o = &view->cli->out;
  TRY(read_value(view, key, is_after, &value, err));
  out_set(o, is_after ? OUT_GOOD : OUT_BAD);
  out_text(o, is_after ? "    + " : "    - ");
  cli_value_short(o, pd_buf_bytes(&value), VALUE_SHOWN_MAX);
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
  return PD_OK;
}

static pd_code side_json(diff_view *view, bool is_after, pd_bytes key, const pd_entry *entry, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  if (!entry) return PD_OK;
  if (view->has_values) TRY(read_value(view, key, is_after, &value, err));
  pd_json_key(view->writer, is_after ? "after" : "before");
  pd_json_open(view->writer, '{');
  cli_entry_json(view->writer, entry);
  if (view->has_values) cli_value_json(view->writer, pd_buf_bytes(&value));
  pd_json_close(view->writer, '}');
  return PD_OK;
}

static pd_code print_json(diff_view *view, const pd_difference *d, pd_error *err)
{
  pd_json_open(view->writer, '{');
  pd_json_put_difference(view->writer, d->key, d->before, d->after);
  TRY(side_json(view, false, d->key, d->before, err));
  TRY(side_json(view, true, d->key, d->after, err));
  pd_json_close(view->writer, '}');
  return PD_OK;
}

static pd_code print_difference(diff_view *view, const pd_difference *d, pd_error *err)
{
  if (view->writer) TRY(print_json(view, d, err));
  if (!view->writer) print_line(view, d);
  if (!view->writer && view->has_values && d->before) TRY(print_value(view, d->key, false, err));
  if (!view->writer && view->has_values && d->after) TRY(print_value(view, d->key, true, err));
  out_drain(&view->cli->out);
  return PD_OK;
}

static pd_code keep(diff_view *view, const pd_difference *d)
{
  kept item = {.key = malloc(d->key.size ? d->key.size : 1), .key_size = d->key.size};
  if (!item.key) return PD_NO_MEMORY;
  memcpy(item.key, d->key.data, d->key.size);
  if (d->before) item.has_before = true, item.before = *d->before;
  if (d->after) item.has_after = true, item.after = *d->after;
  pd_code code = pd_buf_append(&view->kept, &item, sizeof item, NULL);
  if (code != PD_OK) free(item.key);
  return code;
}

static bool visit_difference(void *ctx, const pd_difference *d)
{
  diff_view *view = ctx;
  view->count++;
  if (view->has_small && view->count > SMALL_COUNT_MAX) return false;
  view->code = view->has_values || view->has_small ? keep(view, d) : print_difference(view, d, NULL);
  return view->code == PD_OK && !out_is_closed(&view->cli->out);
}

/* ---- of a server ---- */

static pd_code ask_page(diff_view *view, const char *from, const char *to, pd_bytes after, pd_error *err)
{
  engine_answer *a = &view->answer;
  engine_begin(view->cli, a, err);
  pd_json_put_text(&a->w, "from", from);
  if (to) pd_json_put_text(&a->w, "to", to);
  if (after.size) pd_json_put_bytes(&a->w, "after", after);
  pd_json_put_text(&a->w, "values", view->has_values ? "all" : view->cli->is_json ? "none" : "small");
  return engine_ask(view->cli, a, "store.diff", err);
}

static pd_code print_page(diff_view *view, pd_error *err)
{
  pd_entry before, after;
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(view->answer.json, "differences"));
       !out_is_closed(&view->cli->out) && pd_json_walk_next(&walk, NULL, &view->item); view->count++) {
    pd_json sides[] = {pd_json_member(view->item, "before"), pd_json_member(view->item, "after")};
    engine_entry(sides[0], &before);
    engine_entry(sides[1], &after);
    pd_difference d = {engine_bytes(&view->answer, view->item, "key"), sides[0].kind == PD_JSON_OBJECT ? &before : NULL,
                       sides[1].kind == PD_JSON_OBJECT ? &after : NULL};
    TRY(print_difference(view, &d, err));
  }
  return PD_OK;
}

static pd_code print_there(diff_view *view, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf after = {0};
  view->has_small = !view->has_values && !view->writer;
  for (;;) {
    TRY(print_page(view, err));
    pd_bytes next = engine_bytes(&view->answer, view->answer.json, "next_after");
    if (!next.size || out_is_closed(&view->cli->out)) break;
    pd_buf_clear(&after);
    TRY(pd_buf_append(&after, next.data, next.size, err));
    TRY(ask_page(view, view->before, view->after, pd_buf_bytes(&after), err));
  }
  view->cli->exit_code = view->count ? CLI_EXIT_NEGATIVE : CLI_EXIT_OK;
  return PD_OK;
}

/* ---- all of it ---- */

static pd_code print_all(diff_view *view, pd_error *err)
{
  if (view->cli->is_remote) return print_there(view, err);
  view->has_small = !view->has_values && !view->writer;
  TRY(pd_diff(view->cli->store, view->before, view->after, visit_difference, view, err));
  if (view->has_small && view->count > SMALL_COUNT_MAX) { /* too many: once more, without values */
    view->has_small = false;
    view->count = 0;
    diff_done(view);
    TRY(pd_diff(view->cli->store, view->before, view->after, visit_difference, view, err));
  }
  if (view->code != PD_OK) return pd_error_memory(err, "the differences");
  kept *items = (kept *)(void *)view->kept.data;
  for (size_t i = 0; i < view->kept.size / sizeof *items && !out_is_closed(&view->cli->out); i++) {
    pd_difference d = {
      {items[i].key, items[i].key_size}, items[i].has_before ? &items[i].before : NULL, items[i].has_after ? &items[i].after : NULL};
    TRY(print_difference(view, &d, err));
  }
  view->cli->exit_code = view->count ? CLI_EXIT_NEGATIVE : CLI_EXIT_OK;
  return PD_OK;
}

static pd_code print_all_json(diff_view *view, pd_error *err)
{
  pd_json_writer w = cli_json(view->cli, err);
  view->writer = &w;
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "before", view->before);
  pd_json_put_text(&w, "after", view->after);
  pd_json_key(&w, "differences");
  pd_json_open(&w, '[');
  TRY(print_all(view, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(view->cli, &w);
}

/* Both points as ids; of a server, with the first page of what differs. */
static pd_code find_points(diff_view *view, const char *from, const char *to, pd_error *err)
{
  pd_commit before, after;
  if (view->cli->is_remote) {
    TRY(ask_page(view, from, to, (pd_bytes){0}, err));
    before.id = engine_id(view->answer.json, "from");
    after.id = engine_id(view->answer.json, "to");
  } else {
    TRY(pd_resolve(view->cli->store, from, &before, err));
    TRY(pd_resolve(view->cli->store, to, &after, err));
  }
  pd_id_hex(&before.id, view->before);
  pd_id_hex(&after.id, view->after);
  return PD_OK;
}

static pd_code run_diff(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(diff_done) diff_view view = {.cli = cli, .has_values = args_get(args, "values")};
  TRY(engine_open(cli, CLI_READ, err));
  pd_code code = find_points(&view, args->words[0], args->word_count > 1 ? args->words[1] : NULL, err);
  cli->out.wants_pager = cli->has_pager;
  if (!code) code = cli->is_json ? print_all_json(&view, err) : print_all(&view, err);
  engine_answer_done(&view.answer);
  return code;
}

static const args_option diff_options[] = {{"values", 'p', NULL, "all values, on lines of their own (shortened, but whole with --json)"},
                                           {0}};

const cli_command cmd_diff = {
  .spec = {"diff", diff_options, 1, 2, false},
  .group = "history",
  .summary = "Show the keys that differ between two points",
  .usage = "A [B]",
  .about = "Shows what has to change in A to make B (default: the current head): + added, ~ changed, - removed.\n"
           "Values of up to 64 bytes are shown, unless more than 100 keys differ; -p shows all.\n"
           "The exit code is 0 if they are the same, 1 if they differ.",
  .example = "$ perdure diff main experiment -p\n$ perdure diff main~10\n$ perdure diff main@2026-11-14 main",
  .run = run_diff,
};
