/* put.c: `put` and `del`: one commit each. Everything that can be refused is, before a store is opened or made. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"
#include "progress.h"
#include "source.h"

#include <stdio.h>

#define PIECE_SIZE ((size_t)64 * 1024)
#define VALUE_SIZE_LIMIT ((uint64_t)UINT32_MAX - 1) /* of any store */

/* What is to be stored: text, or a source to be streamed in. */
typedef struct put_value {
  bool is_streamed;
  pd_bytes text;
  source src;
} put_value;

static void put_value_done(put_value *value)
{
  source_close(&value->src);
}

static pd_code choose_value(const args_parsed *args, size_t size_max, put_value *out, pd_error *err)
{
  const char *text = args_get(args, "text");
  if (text && args->word_count == 2) return pd_error_set(err, PD_INVALID, "put: a VALUE and --text exclude each other");
  if (!text && args->word_count < 2) return pd_error_set(err, PD_INVALID, "put needs a VALUE (text, - or @FILE) after the key");
  const char *word = text ? text : args->words[1];
  out->is_streamed = !text && source_is_named(word);
  out->text = pd_text(word);
  if (!text && !out->is_streamed) TRY(cli_json_check(out->text, "to store it as text: perdure put KEY --text VALUE", err));
  return out->is_streamed ? source_open(&out->src, word, size_max, err) : PD_OK;
}

/* 300M, 4G; a number alone is bytes. */
static pd_code take_value_max(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *text = args_get(args, "value-max");
  uint64_t size;
  cli->value_size_max = CLI_VALUE_SIZE_MAX;
  if (!text) return PD_OK;
  TRY(args_parse_size("--value-max", text, &size, err));
  if (size == (uint64_t)4 << 30) size = VALUE_SIZE_LIMIT; /* what people mean by 4G */
  if (!size || size > VALUE_SIZE_LIMIT) return pd_error_set(err, PD_INVALID, "--value-max: '%s' is not between 1 byte and 4G", text);
  cli->value_size_max = (size_t)size;
  return PD_OK;
}

/* A call has its whole input in one piece. */
static pd_code send_streamed(cli_session *cli, pd_bytes key, source *src, uint64_t expect, const pd_note *note, pd_ack *ack, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  size_t got;
  do {
    TRY(pd_buf_reserve(&value, PIECE_SIZE, err));
    TRY(source_read(src, value.data + value.size, PIECE_SIZE, &got, err));
    value.size += got;
    if (value.size > PD_CALL_SIZE_MAX / 4 * 3 - PIECE_SIZE)
      return pd_error_set(err, PD_LIMIT, "the value is too large for one call of a server: put it into a store here, and push that");
  } while (got);
  return engine_put(cli, key, pd_buf_bytes(&value), expect, note, ack, err);
}

static pd_code put_streamed(cli_session *cli, pd_bytes key, source *src, uint64_t expect, const pd_note *note, pd_ack *ack, pd_error *err)
{
  progress_bar bar;
  progress_init(&bar, cli, "put");
  src->bar = &bar;
  pd_code code = cli->is_remote ? send_streamed(cli, key, src, expect, note, ack, err)
                                : pd_put_stream(cli->store, key, source_read, src, expect, note, ack, err);
  progress_clear(&bar);
  return code;
}

static pd_code run_put(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(put_value_done) put_value value = {0};
  pd_bytes key = pd_text(args->words[0]);
  pd_note note = cli_note(args);
  uint64_t expect = PD_ANY_VERSION;
  pd_ack ack;
  TRY(args_number(args, "expect", 0, &expect, err));
  TRY(take_value_max(cli, args, err));
  TRY(pd_key_check(key, err));
  if (note.ref) TRY(pd_ref_check(note.ref, err));
  pd_code code = choose_value(args, cli->value_size_max, &value, err);
  if (!code) code = engine_open(cli, note.ref ? CLI_WRITE : CLI_CREATE, err); /* a new store has no ref but its first */
  if (!code)
    code = value.is_streamed ? put_streamed(cli, key, &value.src, expect, &note, &ack, err)
                             : engine_put(cli, key, value.text, expect, &note, &ack, err);
  if (code == PD_LIMIT && value.is_streamed && !cli->is_remote && cli->value_size_max < VALUE_SIZE_LIMIT)
    snprintf(cli->hint, sizeof cli->hint, "larger values, up to 4G, are allowed by --value-max SIZE");
  if (code) return code;
  return cli_print_ack(cli, &ack, args->words[0], note.ref ? note.ref : engine_ref(cli), err);
}

static const args_option put_options[] = {
  {"expect", 0, "N", "only if the key is at version N (0: it must not exist); else exit 3"},
  {"value-max", 0, "SIZE", "the largest value to take, as 300M or 4G (default 64M)"},
  {"text", 0, "VALUE", "the value as it is, also if it begins with - or @, or like JSON"},
  CLI_NOTE_OPTIONS,
  {0},
};

const cli_command cmd_put = {
  .spec = {"put", put_options, 1, 2, false},
  .group = "state",
  .summary = "Set a key to a value: one commit",
  .usage = "KEY VALUE|-|@FILE",
  .about = "Stores the value and prints the id of the commit once it is on stable storage.\n"
           "VALUE is the text itself, - for standard input, or @FILE for a file's bytes. These two\n"
           "are streamed: their size does not matter for memory, and storing a large file again after\n"
           "a small edit costs what was edited.\n"
           "Text that begins with - or @ is given by --text. A VALUE that begins like JSON, with { [ or \",\n"
           "has to be valid JSON: what is not is refused, and stored only by --text, - or @FILE.",
  .example = "$ perdure put plan '{\"step\":1}' --reason 'first try'\n$ date | perdure put clock -\n$ perdure put --expect 0 lock mine\n"
             "$ perdure put model @weights.bin --value-max 4G",
  .run = run_put,
};

static pd_code run_del(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_note note = cli_note(args);
  uint64_t expect = PD_ANY_VERSION;
  pd_ack ack;
  TRY(args_number(args, "expect", 1, &expect, err));
  if (expect != PD_ANY_VERSION && args->word_count > 1) return pd_error_set(err, PD_INVALID, "del: --expect goes with one key only");
  for (size_t i = 0; i < args->word_count; i++) TRY(pd_key_check(pd_text(args->words[i]), err));
  TRY(engine_open(cli, CLI_LEAVE, err));
  TRY(engine_delete(cli, args->words, args->word_count, expect, &note, &ack, err));
  return cli_print_ack(cli, &ack, NULL, note.ref ? note.ref : engine_ref(cli), err);
}

static const args_option del_options[] = {
  {"expect", 0, "N", "only if the key is at version N; else exit 3"},
  CLI_NOTE_OPTIONS,
  {0},
};

const cli_command cmd_del = {
  .spec = {"del", del_options, 1, SIZE_MAX, false},
  .group = "state",
  .summary = "Remove keys: one commit, older ones still show them",
  .usage = "KEY...",
  .about = "Makes one commit without these keys and prints its id. If one of them is not there, nothing\n"
           "is changed and the exit code is 1. Older commits still show them: see undo, get --at.",
  .example = "$ perdure del draft/1 draft/2 --reason 'published'",
  .run = run_del,
};
