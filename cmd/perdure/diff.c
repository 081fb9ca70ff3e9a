/* diff.c: `diff`: the keys whose values differ between two points. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_record.h"
#include "commands.h"

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
} diff_view;

static void diff_done(diff_view *view)
{
  kept *items = (kept *)(void *)view->kept.data;
  for (size_t i = 0; i < view->kept.size / sizeof *items; i++) free(items[i].key);
  pd_buf_done(&view->kept);
}

/* ": {"step":1} -> {"step":2}". What cannot be read (erased meanwhile) is left out: the line is true without it. */
static void print_small(diff_view *view, const pd_difference *d)
{
  CLEANUP(pd_buf_done) pd_buf before = {0};
  CLEANUP(pd_buf_done) pd_buf after = {0};
  out_stream *o = &view->cli->out;
  if ((d->before && d->before->size > SMALL_SIZE_MAX) || (d->after && d->after->size > SMALL_SIZE_MAX)) return;
  if (d->before && pd_get(view->cli->store, view->before, d->key, &before, NULL, NULL)) return;
  if (d->after && pd_get(view->cli->store, view->after, d->key, &after, NULL, NULL)) return;
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

static pd_code print_value(diff_view *view, const char *at, pd_bytes key, bool is_after, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  out_stream *o = &view->cli->out;
  TRY(pd_get(view->cli->store, at, key, &value, NULL, err));
  out_set(o, is_after ? OUT_GOOD : OUT_BAD);
  out_text(o, is_after ? "    + " : "    - ");
  cli_value_short(o, pd_buf_bytes(&value), VALUE_SHOWN_MAX);
  out_set(o, OUT_PLAIN);
  out_text(o, "\n");
  return PD_OK;
}

static pd_code side_json(diff_view *view, const char *side, const char *at, pd_bytes key, const pd_entry *entry, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  if (!entry) return PD_OK;
  if (view->has_values) TRY(pd_get(view->cli->store, at, key, &value, NULL, err));
  pd_json_key(view->writer, side);
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
  TRY(side_json(view, "before", view->before, d->key, d->before, err));
  TRY(side_json(view, "after", view->after, d->key, d->after, err));
  pd_json_close(view->writer, '}');
  return PD_OK;
}

static pd_code print_difference(diff_view *view, const pd_difference *d, pd_error *err)
{
  if (view->writer) TRY(print_json(view, d, err));
  if (!view->writer) print_line(view, d);
  if (!view->writer && view->has_values && d->before) TRY(print_value(view, view->before, d->key, false, err));
  if (!view->writer && view->has_values && d->after) TRY(print_value(view, view->after, d->key, true, err));
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

static pd_code print_all(diff_view *view, pd_error *err)
{
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

static pd_code run_diff(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_commit before, after;
  TRY(cli_open(cli, CLI_READ, err));
  TRY(pd_resolve(cli->store, args->words[0], &before, err));
  TRY(pd_resolve(cli->store, args->word_count > 1 ? args->words[1] : NULL, &after, err));
  CLEANUP(diff_done) diff_view view = {.cli = cli, .has_values = args_get(args, "values")};
  pd_id_hex(&before.id, view.before);
  pd_id_hex(&after.id, view.after);
  cli->out.wants_pager = cli->has_pager;
  return cli->is_json ? print_all_json(&view, err) : print_all(&view, err);
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
