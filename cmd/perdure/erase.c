/* erase.c: `erase`: take the bytes of a key's values out of history. */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "progress.h"

#include <inttypes.h>

static void print_report(cli_session *cli, const char *key, bool is_dry, const pd_erase_report *r)
{
  out_stream *o = &cli->out;
  char bytes[OUT_SIZE_TEXT];
  out_printf(o, "%" PRIu64 " version%s of '", r->versions, r->versions == 1 ? "" : "s");
  out_safe(o, pd_text(key));
  out_printf(o, "' (%s) %serased", out_size(r->bytes, bytes), is_dry ? "would be " : "");
  if (r->refs) out_printf(o, ", and the key deleted on %" PRIu64 " ref%s", r->refs, r->refs == 1 ? "" : "s");
  out_text(o, "\n");
  uint64_t held = r->held_refs + r->held_marks;
  if (held)
    out_printf(o, "%" PRIu64 " stay: still held by %s", held, r->held_refs ? "the head of another ref" : "a tag, pin or message link");
  if (r->held_keys && !held) out_text(o, "some of the bytes stay in the bag: the same value is still held");
  if (!r->held_by[0] || !(held || r->held_keys)) return;
  out_text(o, " (");
  out_safe(o, pd_text(r->held_by));
  out_text(o, ")\n");
}

static pd_code print_json(cli_session *cli, const char *key, bool is_dry, const pd_erase_report *r, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "key", key);
  pd_json_put_bool(&w, "dry_run", is_dry);
  pd_json_put_number(&w, "versions", r->versions);
  pd_json_put_number(&w, "bytes", r->bytes);
  pd_json_put_number(&w, "refs", r->refs);
  pd_json_put_number(&w, "held_refs", r->held_refs);
  pd_json_put_number(&w, "held_marks", r->held_marks);
  pd_json_put_number(&w, "held_keys", r->held_keys);
  if (r->held_by[0]) pd_json_put_text(&w, "held_by", r->held_by);
  pd_json_put_number(&w, "disk_before", r->disk_before);
  pd_json_put_number(&w, "disk_after", r->disk_after);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_erase(cli_session *cli, const args_parsed *args, pd_error *err)
{
  progress_bar bar;
  pd_erase_report report;
  pd_note note = cli_note(args);
  progress_init(&bar, cli, "erase");
  pd_erase_options options = {.everywhere = args_get(args, "everywhere") != NULL,
                              .spares_marks = args_get(args, "spare-marks") != NULL,
                              .is_lazy = args_get(args, "lazy") != NULL,
                              .is_dry = args_get(args, "dry-run") != NULL,
                              .note = &note,
                              .progress = progress_show,
                              .ctx = &bar};
  TRY(args_number(args, "version", 1, &options.version, err));
  TRY(engine_open(cli, options.is_dry ? CLI_READ : CLI_WRITE, err));
  pd_code code = engine_erase(cli, pd_text(args->words[0]), &options, &report, err);
  progress_clear(&bar);
  TRY(code);
  if (cli->is_json) return print_json(cli, args->words[0], options.is_dry, &report, err);
  print_report(cli, args->words[0], options.is_dry, &report);
  return PD_OK;
}

static const args_option erase_options[] = {
  {"everywhere", 0, NULL, "on all refs and lines of history"},
  {"version", 0, "N", "only this version, which must not be the present one"},
  {"spare-marks", 0, NULL, "leave what tags, pins and message links show"},
  {"lazy", 0, NULL, "quick: only the versions since the key was made; the next gc clears the files"},
  {"dry-run", 'n', NULL, "change nothing, only say what would go"},
  CLI_NOTE_OPTIONS,
  {0},
};

const cli_command cmd_erase = {
  .spec = {"erase", erase_options, 1, 1, false},
  .group = "care",
  .summary = "Take the bytes of a key's values out of history",
  .usage = "KEY",
  .about = "Deletes KEY on the ref and removes the bytes of all its versions from the ref's history; with\n"
           "--everywhere on all refs. Ids stay, so history still verifies; reading such a value says ValueErased with\n"
           "when and by whom. Afterwards the bytes are in none of the store's files. The same bytes under another\n"
           "key are that key's, and stay. It cannot be undone.",
  .example =
    "$ perdure erase customer/17 --everywhere --dry-run\n$ perdure erase customer/17 --everywhere --reason 'asked to be forgotten'",
  .run = run_erase,
};
