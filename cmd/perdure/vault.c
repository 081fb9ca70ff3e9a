/* vault.c: `vault init|unlock|lock|status|rotate`. */
#include "base/base.h"
#include "base/error.h"
#include "commands.h"
#include "passphrase.h"

#include <stdio.h>

static void close_home(pd_home **home)
{
  pd_home_close(*home, NULL);
}

static pd_code open_home(cli_session *cli, pd_home **out, pd_error *err)
{
  pd_home_options options = {.must_exist = true};
  pd_code code = pd_home_open(cli->uri, &options, out, err);
  if (code == PD_NOT_FOUND) {
    cli->exit_code = CLI_EXIT_STORAGE;
    snprintf(cli->hint, sizeof cli->hint, "make one with: perdure init");
  }
  return code;
}

static pd_code print_state(cli_session *cli, pd_home *home, pd_error *err)
{
  pd_vault_state state;
  TRY(pd_vault_status(home, &state, err));
  if (!state.exists) cli->exit_code = CLI_EXIT_NEGATIVE;
  if (cli->is_json) {
    pd_json_writer w = cli_json(cli, err);
    pd_json_open(&w, '{');
    pd_json_put_bool(&w, "exists", state.exists);
    pd_json_put_bool(&w, "unlocked", state.is_unlocked);
    pd_json_put_number(&w, "keys", state.key_count);
    pd_json_put_number(&w, "memory_kib", state.memory_kib);
    pd_json_put_number(&w, "passes", state.passes);
    pd_json_put_number(&w, "lanes", state.lanes);
    pd_json_close(&w, '}');
    return cli_json_end(cli, &w);
  }
  if (!state.exists)
    out_text(&cli->out, "no vault\n");
  else
    out_printf(&cli->out, "%s, %u master key%s, Argon2id with %u KiB, %u passes, %u lane%s\n", state.is_unlocked ? "unlocked" : "locked",
               state.key_count, state.key_count == 1 ? "" : "s", state.memory_kib, state.passes, state.lanes, state.lanes == 1 ? "" : "s");
  return PD_OK;
}

static pd_code init_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  TRY(passphrase_read(args, "", "New passphrase", true, &pass, err));
  TRY(pd_vault_init(home, pass.text, NULL, err));
  cli_say(cli, "vault: made. Keep the passphrase: without it no backup can be read, by anybody");
  return print_state(cli, home, err);
}

static pd_code unlock_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  TRY(pd_vault_unlock(home, pass.text, err));
  return print_state(cli, home, err);
}

static pd_code lock_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  (void)args;
  pd_vault_lock(home);
  return print_state(cli, home, err);
}

static pd_code rotate_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  CLEANUP(passphrase_done) passphrase fresh = {0};
  pd_vault_rotation rotation = {.makes_new_key = args_get(args, "new-key") != NULL};
  TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  if (!args_get(args, "keep-passphrase")) TRY(passphrase_read(args, "new-", "New passphrase", true, &fresh, err));
  rotation.new_passphrase = fresh.text;
  TRY(pd_vault_rotate(home, pass.text, &rotation, err));
  cli_say(cli, "vault: %s",
          !rotation.makes_new_key ? "the passphrase is changed"
          : fresh.text.size       ? "passphrase and key are changed"
                                  : "the key is changed");
  return print_state(cli, home, err);
}

static pd_code show_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  (void)args;
  return print_state(cli, home, err);
}

static const struct verb {
  const char *name;
  pd_code (*run)(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err);
} verbs[] = {
  {"init", init_vault}, {"unlock", unlock_vault}, {"lock", lock_vault}, {"status", show_vault}, {"rotate", rotate_vault},
};

static pd_code run_vault(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(close_home) pd_home *home = NULL;
  const struct verb *verb = NULL;
  for (size_t i = 0; i < COUNT_OF(verbs); i++)
    if (strcmp(args->words[0], verbs[i].name) == 0) verb = &verbs[i];
  if (!verb) return pd_error_set(err, PD_INVALID, "'%.40s' is none of init, unlock, lock, status, rotate", args->words[0]);
  TRY(open_home(cli, &home, err));
  return verb->run(cli, home, args, err);
}

static const args_option vault_options[] = {PASSPHRASE_OPTIONS,
                                            {"new-passphrase-fd", 0, "N", "rotate: the new passphrase from this file descriptor"},
                                            {"new-passphrase-file", 0, "FILE", "rotate: the new passphrase from this file"},
                                            {"new-key", 0, NULL, "rotate: a new master key for new backups; old ones stay readable"},
                                            {"keep-passphrase", 0, NULL, "rotate: leave the passphrase as it is"},
                                            {0}};

const cli_command cmd_vault = {
  .spec = {"vault", vault_options, 1, 1},
  .group = "care",
  .summary = "The key of this home's backups",
  .usage = "init|unlock|lock|status|rotate",
  .about = "The vault holds the master key that backups are encrypted with, itself encrypted under a passphrase.\n"
           "Without the passphrase nobody reads the backups: keep it apart from them.\n\n"
           "  init     make the vault; it stays locked\n"
           "  unlock   check the passphrase, and unlock\n"
           "  lock     wipe the keys from memory\n"
           "  status   is there a vault, and is it unlocked? Exit 1 if there is none\n"
           "  rotate   change the passphrase, or with --new-key the master key, or both\n\n"
           "The passphrase is asked for on the terminal, or comes from --passphrase-fd, --passphrase-file (one line,\n"
           "mode 0600), or the credential file $CREDENTIALS_DIRECTORY/perdure-vault. It is never an argument.",
  .example = "$ perdure vault init\n$ perdure vault status\n$ perdure vault rotate --passphrase-file old --new-passphrase-file new",
  .run = run_vault,
};
