/* get.c: `get` prints a value, `has` answers by exit code. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

static pd_code print_json(cli_session *cli, pd_bytes key, const pd_entry *entry, pd_bytes value, pd_error *err)
{
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", key);
  cli_entry_json(&w, entry);
  cli_value_json(&w, value);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code get_json(cli_session *cli, const char *at, pd_bytes key, uint64_t version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_entry entry;
  TRY(engine_get(cli, at, key, version, &value, &entry, err));
  return print_json(cli, key, &entry, pd_buf_bytes(&value), err);
}

/* The bytes as they come. */
typedef struct printing {
  out_stream *out;
  char last; /* byte so far; a newline if there was none */
} printing;

static pd_code print_piece(void *ctx, pd_bytes piece, pd_error *err)
{
  printing *p = ctx;
  out_bytes(p->out, piece);
  p->last = ((const char *)piece.data)[piece.size - 1];
  return out_is_closed(p->out) ? pd_error_set(err, PD_STORAGE, "standard output is closed") : PD_OK;
}

static pd_code get_whole(cli_session *cli, const char *at, pd_bytes key, uint64_t version, printing *p, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  TRY(engine_get(cli, at, key, version, &value, NULL, err));
  return value.size ? print_piece(p, pd_buf_bytes(&value), err) : PD_OK;
}

static pd_code get_streamed(cli_session *cli, const char *at, pd_bytes key, uint64_t version, pd_error *err)
{
  printing p = {&cli->out, '\n'};
  pd_code code = cli->is_remote ? get_whole(cli, at, key, version, &p, err)
                 : version      ? pd_get_version_stream(cli->store, at, key, version, print_piece, &p, NULL, err)
                                : pd_get_stream(cli->store, at, key, print_piece, &p, NULL, err);
  if (out_is_closed(&cli->out)) return PD_OK; /* out_finish says what there is to say */
  if (!code && cli->out.is_terminal && p.last != '\n') out_text(&cli->out, "\n");
  return code;
}

static pd_code run_get(cli_session *cli, const args_parsed *args, pd_error *err)
{
  pd_bytes key = pd_text(args->words[0]);
  const char *at = args_get(args, "at");
  uint64_t version = 0;
  TRY(args_number(args, "version", 1, &version, err));
  TRY(pd_key_check(key, err));
  TRY(engine_open(cli, CLI_READ, err));
  return cli->is_json ? get_json(cli, at, key, version, err) : get_streamed(cli, at, key, version, err);
}

static const args_option get_options[] = {
  CLI_AT_OPTION,
  {"version", 0, "N", "the key's version N instead of its newest"},
  {0},
};

const cli_command cmd_get = {
  .spec = {"get", get_options, 1, 1, false},
  .group = "state",
  .summary = "Print the value of a key, now or at any point in history",
  .usage = "KEY",
  .about = "Prints the value's bytes and nothing else (on a terminal, a missing last newline is added).\n"
           "Large values are streamed; each piece is checked before it is printed, the whole at the end: an\n"
           "exit code of 0 says that all of it is right.\n"
           "Exit code 1 if the key is not there. With --json: the value with its version, size, id and times;\n"
           "the value is under \"value\" if it is JSON, \"text\" if it is UTF-8, else \"base64\".",
  .example = "$ perdure get plan\n$ perdure get plan --at main~3\n$ perdure get plan --at @2026-11-15T10:00Z\n$ perdure --json get plan",
  .run = run_get,
};

static pd_code run_has(cli_session *cli, const args_parsed *args, pd_error *err)
{
  bool has = false;
  pd_bytes key = pd_text(args->words[0]);
  TRY(pd_key_check(key, err));
  TRY(engine_open(cli, CLI_READ, err));
  TRY(engine_has(cli, args_get(args, "at"), key, &has, err));
  cli->exit_code = has ? CLI_EXIT_OK : CLI_EXIT_NEGATIVE;
  if (!cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", key);
  pd_json_put_bool(&w, "has", has);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static const args_option has_options[] = {CLI_AT_OPTION, {0}};

const cli_command cmd_has = {
  .spec = {"has", has_options, 1, 1, false},
  .group = "state",
  .summary = "Is there such a key? Exit code 0 or 1",
  .usage = "KEY",
  .about = "Prints nothing (with --json: one object); the exit code is 0 if the key is there, 1 if not.",
  .example = "$ perdure has lock || perdure put lock mine --expect 0",
  .run = run_has,
};
