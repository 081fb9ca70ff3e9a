/* refs.c: `fork`, `refs` and `switch`: names for commits. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "names.h"

#include <stdio.h>

static pd_code run_fork(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_note note = cli_note(args);
  pd_ack ack;
  TRY(pd_ref_check(args->words[0], err));
  const char *at = args_get(args, "at"), *message = args_get(args, "from-message");
  char hex[PD_ID_HEX_SIZE], linked[PD_MESSAGE_ID_SIZE_MAX + sizeof "message:"];
  if (at && message) return pd_error_set(err, PD_INVALID, "fork: --at and --from-message exclude each other");
  TRY(engine_open(cli, at || message ? CLI_WRITE : CLI_CREATE, err));
  snprintf(linked, sizeof linked, "message:%s", message ? message : "");
  TRY(engine_move_ref(cli, &(engine_move){.how = "fork", .name = args->words[0], .to = message ? linked : at}, &note, &ack, err));
  cli_say(cli, "new ref '%s' at %s", args->words[0], cli_short_id(&ack.commit, hex));
  return cli_print_ack(cli, &ack, NULL, args->words[0], err);
}

static const args_option fork_options[] = {
  {"at", 0, "X", "where it begins (default: the current head)"},
  {"from-message", 0, "ID", "where it begins: the state at a linked message"},
  CLI_WHO_OPTIONS,
  {0},
};

const cli_command cmd_fork = {
  .spec = {"fork", fork_options, 1, 1, false},
  .group = "branches",
  .summary = "Give a point in history a new name to go on from",
  .usage = "NAME",
  .about = "Makes a ref at X and prints its commit. It costs one record, whatever the size of the store. Write to\n"
           "it with --ref NAME, or make it the current one: perdure switch NAME.",
  .example = "$ perdure fork experiment\n$ perdure fork yesterday --at @2026-11-14\n"
             "$ perdure fork retry --from-message msg-7",
  .run = run_fork,
};

static void print_ref_json(pd_json_writer *w, const names_item *item)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "ref", item->text);
  pd_json_put_id(w, "commit", &item->commit.id);
  pd_json_put_id(w, "tree", &item->commit.tree);
  pd_json_put_number(w, "seq", item->commit.seq);
  pd_json_put_time(w, "updated_at", item->updated_ms);
  pd_json_put_bool(w, "is_current", item->is_current);
  pd_json_put_bool(w, "can_redo", item->can_redo);
  pd_json_close(w, '}');
}

static void print_ref_line(out_stream *o, const names_item *item)
{
  char hex[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  out_text(o, item->is_current ? "* " : "  ");
  out_set(o, OUT_NAME);
  out_printf(o, "%-24s", item->text);
  out_set(o, OUT_ID);
  out_printf(o, "  %s", cli_short_id(&item->commit.id, hex));
  out_set(o, OUT_PLAIN);
  out_printf(o, "  %s%s\n", pd_time_text(item->updated_ms, time), item->can_redo ? "  (can redo)" : "");
}

static pd_code list_refs(cli_session *cli, pd_error *err)
{
  CLEANUP(names_done) names_list all = {0};
  TRY(engine_names(cli, &all, err));
  if (!cli->is_json) {
    for (size_t i = 0; i < names_count(&all); i++) print_ref_line(&cli->out, names_at(&all, i));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_key(&w, "refs");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < names_count(&all); i++) print_ref_json(&w, names_at(&all, i));
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code delete_ref(cli_session *cli, const char *name, const pd_note *note, pd_error *err)
{
  pd_ack ack;
  TRY(engine_move_ref(cli, &(engine_move){.how = "delete", .name = name}, note, &ack, err));
  cli_say(cli, "ref '%s' is deleted; its commits stay", name);
  if (!cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "ref", name);
  pd_json_put_bool(&w, "deleted", true);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_refs(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *doomed = args_get(args, "delete");
  pd_note note = cli_note(args);
  if (doomed) TRY(pd_ref_check(doomed, err));
  TRY(engine_open(cli, doomed ? CLI_LEAVE : CLI_READ, err));
  return doomed ? delete_ref(cli, doomed, &note, err) : list_refs(cli, err);
}

static const args_option refs_options[] = {
  {"delete", 'd', "NAME", "delete this ref (not the current one)"},
  CLI_WHO_OPTIONS,
  {0},
};

const cli_command cmd_refs = {
  .spec = {"refs", refs_options, 0, 0, false},
  .group = "branches",
  .summary = "List the refs, or delete one",
  .usage = "[-d NAME]",
  .about = "Prints each ref with its commit and when it last moved; a star marks the current one. A deleted ref's\n"
           "commits stay, and so does its own history: log --ref NAME.",
  .example = "$ perdure refs\n$ perdure refs -d experiment",
  .run = run_refs,
};

static pd_code run_switch(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_note note = cli_note(args);
  TRY(pd_ref_check(args->words[0], err));
  TRY(engine_open(cli, CLI_WRITE, err));
  pd_ack ack;
  TRY(engine_move_ref(cli, &(engine_move){.how = "switch", .name = args->words[0]}, &note, &ack, err));
  cli_say(cli, "now on '%s'", args->words[0]);
  if (!cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "ref", args->words[0]);
  pd_json_put_id(&w, "commit", &ack.commit);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static const args_option switch_options[] = {CLI_WHO_OPTIONS, {0}};

const cli_command cmd_switch = {
  .spec = {"switch", switch_options, 1, 1, false},
  .group = "branches",
  .summary = "Make another ref the current one",
  .usage = "NAME",
  .about = "From now on, commands without --ref and --at work on this ref.",
  .example = "$ perdure switch experiment",
  .run = run_switch,
};
