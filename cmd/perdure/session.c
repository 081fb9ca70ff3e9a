/* session.c: opening the store, notes of who and why, and the answers that all writing commands share. */
#include "base/base.h"
#include "base/error.h"
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

pd_code cli_open(cli_session *cli, cli_open_mode mode, pd_error *err)
{
  pd_options options = {
    .is_read_only = mode == CLI_READ,
    .must_exist = mode != CLI_CREATE,
    .value_size_max = cli->value_size_max ? cli->value_size_max : CLI_VALUE_SIZE_MAX,
    .cache_size_max = cli->cache_size_max,
  };
  pd_code code = pd_store_open(cli->uri, cli->agent, &options, &cli->store, err);
  if (code == PD_NOT_FOUND) return cli_no_store(cli, err);
  return code || mode != CLI_LEAVE ? code : pd_history_leave(cli->store, err);
}

pd_code cli_no_store(cli_session *cli, pd_error *err)
{
  cli->exit_code = CLI_EXIT_STORAGE;
  snprintf(cli->hint, sizeof cli->hint, "make one with: perdure init");
  return pd_error_set(err, PD_NOT_FOUND, "no store for agent '%s' in %s", cli->agent, cli->uri);
}

pd_note cli_note(const args_parsed *args)
{
  return (pd_note){
    .ref = args_get(args, "ref"),
    .author = args_get(args, "author"),
    .run = args_get(args, "run"),
    .reason = args_get(args, "reason"),
  };
}

void cli_say(const cli_session *cli, const char *fmt, ...)
{
  if (cli->is_json || cli->is_quiet) return;
  va_list args;
  va_start(args, fmt);
  vfprintf(stderr, fmt, args);
  va_end(args);
  fputc('\n', stderr);
}

void cli_ack_json(pd_json_writer *w, const pd_ack *ack)
{
  pd_json_put_id(w, "commit", &ack->commit);
  pd_json_put_id(w, "tree", &ack->tree);
  pd_json_put_number(w, "seq", ack->seq);
  pd_json_put_text(w, "durability", ack->durability == PD_SYNCED ? "synced" : "buffered");
}

pd_code cli_print_ack(cli_session *cli, const pd_ack *ack, const char *key, const char *ref, pd_error *err)
{
  if (!cli->is_json) {
    char hex[PD_ID_HEX_SIZE];
    out_printf(&cli->out, "%s\n", pd_id_hex(&ack->commit, hex));
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  if (key) pd_json_put_text(&w, "key", key);
  if (ack->version) pd_json_put_number(&w, "version", ack->version);
  if (ref) pd_json_put_text(&w, "ref", ref);
  cli_ack_json(&w, ack);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

pd_json_writer cli_json(cli_session *cli, pd_error *err)
{
  return (pd_json_writer){.out = &cli->out.buf, .err = err};
}

pd_code cli_json_end(cli_session *cli, pd_json_writer *w)
{
  out_text(&cli->out, "\n");
  return w->code;
}
