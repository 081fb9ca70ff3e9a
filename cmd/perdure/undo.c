/* undo.c: `undo`, `redo` and `reset` move a ref through its history; nothing is ever lost by it. */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <stdio.h>

static pd_code print_move(cli_session *cli, const char *what, const pd_ack *ack, const char *ref, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  cli_say(cli, "%s: '%s' is now at %s", what, ref, cli_short_id(&ack->commit, hex));
  return cli_print_ack(cli, ack, NULL, ref, err);
}

static pd_code run_move(cli_session *cli, const args_parsed *args, const char *what, pd_error *err)
{
  pd_note note = cli_note(args);
  engine_move move = {.how = what, .count = 1};
  pd_ack ack;
  if (args->word_count) TRY(args_parse_number(what, args->words[0], 1, &move.count, err));
  TRY(engine_open(cli, CLI_LEAVE, err));
  pd_code code = engine_move_ref(cli, &move, &note, &ack, err);
  if (code == PD_NOT_FOUND && !*cli->hint)
    snprintf(cli->hint, sizeof cli->hint, "where the ref has been: perdure log --ref %s --oneline",
             note.ref         ? note.ref
             : cli->is_remote ? "REF"
                              : pd_store_ref(cli->store));
  TRY(code);
  return print_move(cli, what, &ack, note.ref ? note.ref : engine_ref(cli), err);
}

static pd_code run_undo(cli_session *cli, const args_parsed *args, pd_error *err)
{
  return run_move(cli, args, "undo", err);
}

static pd_code run_redo(cli_session *cli, const args_parsed *args, pd_error *err)
{
  return run_move(cli, args, "redo", err);
}

static pd_code run_reset(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_note note = cli_note(args);
  pd_ack ack;
  TRY(engine_open(cli, CLI_LEAVE, err));
  TRY(engine_move_ref(cli, &(engine_move){.how = "reset", .to = args->words[0]}, &note, &ack, err));
  return print_move(cli, "reset", &ack, note.ref ? note.ref : engine_ref(cli), err);
}

static const args_option note_options[] = {CLI_NOTE_OPTIONS, {0}};

const cli_command cmd_undo = {
  .spec = {"undo", note_options, 0, 1, false},
  .group = "history",
  .summary = "Go back one commit, or N",
  .usage = "[N]",
  .about = "Moves the ref N commits back along first parents (default 1) and prints where it is now. What was\n"
           "undone can be redone until the next commit, and is reachable by its id for ever.",
  .example = "$ perdure undo\n$ perdure undo 3 --reason 'the plan was wrong'",
  .run = run_undo,
};

const cli_command cmd_redo = {
  .spec = {"redo", note_options, 0, 1, false},
  .group = "history",
  .summary = "Take back an undo, or N",
  .usage = "[N]",
  .about = "Moves the ref N commits forward again (default 1), at most to where it was before the first undo.\n"
           "Exit code 1 if there is nothing to redo.",
  .example = "$ perdure redo",
  .run = run_redo,
};

const cli_command cmd_reset = {
  .spec = {"reset", note_options, 1, 1, false},
  .group = "history",
  .summary = "Point the ref at another commit",
  .usage = "X",
  .about = "Moves the ref to the point X. The commits it leaves stay reachable: by id, and by log --ref.",
  .example = "$ perdure reset main~5\n$ perdure reset @2026-11-15T10:00Z",
  .run = run_reset,
};
