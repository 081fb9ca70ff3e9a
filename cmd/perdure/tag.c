/* tag.c: `tag` and `pin`: names for commits that never move, and commits that retention must leave alone. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <stdio.h>

typedef struct mark_view {
  cli_session *cli;
  const char *noun;       /* "tag" or "pin" */
  pd_json_writer *writer; /* NULL: lines */
} mark_view;

static void mark_json(const mark_view *view, const pd_mark *mark)
{
  pd_json_writer *w = view->writer;
  pd_json_open(w, '{');
  if (strcmp(view->noun, "tag") == 0) pd_json_put_text(w, "tag", mark->name);
  pd_json_put_id(w, "commit", &mark->commit);
  pd_json_put_number(w, "seq", mark->seq);
  pd_json_put_time(w, "time", mark->time_ms);
  pd_json_put_text(w, "author", mark->author);
  pd_json_put_text(w, "reason", mark->reason);
  pd_json_close(w, '}');
}

static void print_mark(const mark_view *view, const pd_mark *mark)
{
  out_stream *o = &view->cli->out;
  char hex[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  if (strcmp(view->noun, "tag") == 0) {
    out_set(o, OUT_NAME);
    out_printf(o, "%-24s  ", mark->name);
  }
  out_set(o, OUT_ID);
  out_text(o, cli_short_id(&mark->commit, hex));
  out_set(o, OUT_PLAIN);
  out_printf(o, "  %s  ", pd_time_text(mark->time_ms, time));
  out_safe(o, pd_text(mark->author));
  if (*mark->reason) out_text(o, "  ");
  out_safe(o, pd_text(mark->reason));
  out_text(o, "\n");
}

static bool visit_mark(void *ctx, const pd_mark *mark)
{
  const mark_view *view = ctx;
  if (view->writer)
    mark_json(view, mark);
  else
    print_mark(view, mark);
  out_drain(&view->cli->out);
  return !out_is_closed(&view->cli->out);
}

static pd_code list_marks(cli_session *cli, const char *noun, pd_error *err)
{
  mark_view view = {cli, noun, NULL};
  cli->out.wants_pager = cli->has_pager;
  if (!cli->is_json) return engine_mark_list(cli, noun, visit_mark, &view, err);
  pd_json_writer w = cli_json(cli, err);
  view.writer = &w;
  pd_json_open(&w, '{');
  pd_json_key(&w, strcmp(noun, "tag") == 0 ? "tags" : "pins");
  pd_json_open(&w, '[');
  TRY(engine_mark_list(cli, noun, visit_mark, &view, err));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

/* The commit's id; with --json also what was done to it. */
static pd_code print_set(cli_session *cli, const char *tag, const pd_commit *commit, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  if (!cli->is_json) {
    out_printf(&cli->out, "%s\n", pd_id_hex(&commit->id, hex));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  if (tag) pd_json_put_text(&w, "tag", tag);
  pd_json_put_id(&w, "commit", &commit->id);
  pd_json_put_number(&w, "seq", commit->seq);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code print_deleted(cli_session *cli, const char *noun, const char *name, pd_error *err)
{
  cli_say(cli, strcmp(noun, "tag") == 0 ? "tag '%s' is deleted; its commit stays" : "'%s' is not pinned any more", name);
  if (!cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, noun, name);
  pd_json_put_bool(&w, "deleted", true);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code set_tag(cli_session *cli, const args_parsed *args, const pd_note *note, pd_error *err)
{
  const char *name = args->words[0], *at = args->word_count > 1 ? args->words[1] : NULL;
  pd_commit commit;
  pd_code code = engine_mark_set(cli, "tag", name, at, args_get(args, "force"), note, &commit, err);
  if (code == PD_EXISTS) snprintf(cli->hint, sizeof cli->hint, "move a tag with --force, or take another name");
  TRY(code);
  char hex[PD_ID_HEX_SIZE];
  cli_say(cli, "tag '%s' at %s", name, cli_short_id(&commit.id, hex));
  return print_set(cli, name, &commit, err);
}

static pd_code run_tag(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *doomed = args_get(args, "delete");
  pd_note note = cli_note(args);
  if (doomed && args->word_count) return pd_error_set(err, PD_INVALID, "tag: -d takes one name and nothing else");
  TRY(engine_open(cli, doomed || args->word_count ? CLI_WRITE : CLI_READ, err));
  if (args->word_count) return set_tag(cli, args, &note, err);
  if (!doomed) return list_marks(cli, "tag", err);
  TRY(engine_mark_delete(cli, "tag", doomed, &note, err));
  return print_deleted(cli, "tag", doomed, err);
}

static const args_option tag_options[] = {
  {"delete", 'd', "NAME", "delete this tag"},
  {"force", 'f', NULL, "move the tag if it is at another commit"},
  CLI_WHO_OPTIONS,
  {0},
};

const cli_command cmd_tag = {
  .spec = {"tag", tag_options, 0, 2, false},
  .group = "branches",
  .summary = "Name a commit for good, list the names, or delete one",
  .usage = "[NAME [X]] | -d NAME",
  .about = "Gives the commit X (default: the current head) a name that stays where it is, and prints the commit.\n"
           "Without arguments, lists the tags. A tag can be used wherever a point in history can, and gc never\n"
           "removes what it needs. Exit code 3 if the tag is at another commit already.",
  .example = "$ perdure tag before-migration\n$ perdure get plan --at before-migration\n$ perdure tag -d before-migration",
  .run = run_tag,
};

static pd_code run_pin(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *doomed = args_get(args, "delete");
  pd_note note = cli_note(args);
  if (doomed && args->word_count) return pd_error_set(err, PD_INVALID, "pin: -d takes one point in history and nothing else");
  TRY(engine_open(cli, doomed || args->word_count ? CLI_WRITE : CLI_READ, err));
  if (doomed) {
    TRY(engine_mark_delete(cli, "pin", doomed, &note, err));
    return print_deleted(cli, "pin", doomed, err);
  }
  if (!args->word_count) return list_marks(cli, "pin", err);
  pd_commit commit;
  TRY(engine_mark_set(cli, "pin", NULL, args->words[0], false, &note, &commit, err));
  return print_set(cli, NULL, &commit, err);
}

static const args_option pin_options[] = {
  {"delete", 'd', "X", "take the pin of this commit away"},
  CLI_WHO_OPTIONS,
  {0},
};

const cli_command cmd_pin = {
  .spec = {"pin", pin_options, 0, 1, false},
  .group = "branches",
  .summary = "Keep a commit from gc, list such commits, or let one go",
  .usage = "[X] | -d X",
  .about = "Pins the commit X: gc never removes what it needs. Prints its id. Without arguments, lists the pins.",
  .example = "$ perdure pin main~3 --reason 'case 4711'\n$ perdure pin -d main~3",
  .run = run_pin,
};
