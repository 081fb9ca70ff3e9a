/* put.c: `put` and `del`: one commit each. Everything that can be refused is, before a store is opened or made. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"

static pd_code read_value(const args_parsed *args, pd_buf *out, pd_error *err)
{
  const char *text = args_get(args, "text");
  if (text && args->word_count == 2) return pd_error_set(err, PD_INVALID, "put: a VALUE and --text exclude each other");
  if (text) return pd_buf_append(out, text, strlen(text), err);
  if (args->word_count < 2) return pd_error_set(err, PD_INVALID, "put needs a VALUE (text, - or @FILE) after the key");
  return cli_value_read(args->words[1], out, err);
}

static pd_code run_put(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_bytes key = pd_text(args->words[0]);
  pd_note note = cli_note(args);
  uint64_t expect = PD_ANY_VERSION;
  pd_ack ack;
  TRY(args_number(args, "expect", 0, &expect, err));
  TRY(pd_key_check(key, err));
  if (note.ref) TRY(pd_ref_check(note.ref, err));
  TRY(read_value(args, &value, err));
  TRY(cli_open(cli, note.ref ? CLI_WRITE : CLI_CREATE, err)); /* a new store has no ref but its first */
  if (expect == PD_ANY_VERSION)
    TRY(pd_put(cli->store, key, pd_buf_bytes(&value), &note, &ack, err));
  else
    TRY(pd_put_if(cli->store, key, pd_buf_bytes(&value), expect, &note, &ack, err));
  return cli_print_ack(cli, &ack, args->words[0], note.ref ? note.ref : pd_store_ref(cli->store), err);
}

static const args_option put_options[] = {
  {"expect", 0, "N", "only if the key is at version N (0: it must not exist); else exit 3"},
  {"text", 0, "VALUE", "the value as it is, also if it begins with - or @"},
  CLI_NOTE_OPTIONS,
  {0},
};

const cli_command cmd_put = {
  .spec = {"put", put_options, 1, 2},
  .group = "state",
  .summary = "Set a key to a value: one commit",
  .usage = "KEY VALUE|-|@FILE",
  .about = "Stores the value and prints the id of the commit once it is on stable storage.\n"
           "VALUE is the text itself, - for standard input, or @FILE for a file's bytes.\n"
           "Text that begins with - or @ is given by --text.",
  .example = "$ perdure put plan '{\"step\":1}' --reason 'first try'\n$ date | perdure put clock -\n$ perdure put --expect 0 lock mine",
  .run = run_put,
};

/* All of them or none: a key that is absent stops it before anything is written. */
static pd_code delete_many(cli_session *cli, const args_parsed *args, const pd_note *note, pd_ack *out, pd_error *err)
{
  pd_edit *edit = NULL;
  TRY(pd_edit_begin(cli->store, note, &edit, err));
  pd_code code = PD_OK;
  for (size_t i = 0; i < args->word_count && code == PD_OK; i++) {
    pd_bytes key = pd_text(args->words[i]);
    code = pd_edit_get(edit, key, NULL, NULL, err);
    if (code == PD_OK) code = pd_edit_delete(edit, key, PD_ANY_VERSION, err);
  }
  if (code == PD_OK) code = pd_edit_commit(edit, out, err);
  if (code != PD_OK) pd_edit_abort(edit);
  return code;
}

static pd_code run_del(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_note note = cli_note(args);
  uint64_t expect = PD_ANY_VERSION;
  pd_ack ack;
  TRY(args_number(args, "expect", 1, &expect, err));
  if (expect != PD_ANY_VERSION && args->word_count > 1) return pd_error_set(err, PD_INVALID, "del: --expect goes with one key only");
  for (size_t i = 0; i < args->word_count; i++) TRY(pd_key_check(pd_text(args->words[i]), err));
  TRY(cli_open(cli, CLI_WRITE, err));
  if (args->word_count == 1)
    TRY(pd_delete(cli->store, pd_text(args->words[0]), expect, &note, &ack, err));
  else
    TRY(delete_many(cli, args, &note, &ack, err));
  return cli_print_ack(cli, &ack, NULL, note.ref ? note.ref : pd_store_ref(cli->store), err);
}

static const args_option del_options[] = {
  {"expect", 0, "N", "only if the key is at version N; else exit 3"},
  CLI_NOTE_OPTIONS,
  {0},
};

const cli_command cmd_del = {
  .spec = {"del", del_options, 1, SIZE_MAX},
  .group = "state",
  .summary = "Remove keys: one commit, older ones still show them",
  .usage = "KEY...",
  .about = "Makes one commit without these keys and prints its id. If one of them is not there, nothing\n"
           "is changed and the exit code is 1. Older commits still show them: see undo, get --at.",
  .example = "$ perdure del draft/1 draft/2 --reason 'published'",
  .run = run_del,
};
