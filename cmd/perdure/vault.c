/* vault.c: `vault init|unlock|lock|status|rotate`. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "door.h"
#include "far_home.h"
#include "passphrase.h"

#include <stdio.h>

static void close_home(pd_home **home)
{
  pd_home_close(*home, NULL);
}

static pd_code open_home(cli_session *cli, pd_home **out, pd_error *err)
{
  if (cli->is_remote) return PD_OK; /* the server has it open */
  pd_home_options options = {.must_exist = true};
  pd_code code = pd_home_open(cli->uri, &options, out, err);
  if (code == PD_NOT_FOUND) {
    cli->exit_code = CLI_EXIT_STORAGE;
    snprintf(cli->hint, sizeof cli->hint, "make one with: perdure init");
  }
  return code;
}

/* As the server of the home sees it, if one runs. */
static pd_code print_state(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer;
  uint64_t keys = 0;
  TRY(door_call(cli, args, "vault.status", pd_text("{}"), &out, err));
  TRY(pd_json_parse(pd_buf_bytes(&out), &answer, err));
  bool exists = pd_json_true(pd_json_member(answer, "exists"));
  if (!exists) cli->exit_code = CLI_EXIT_NEGATIVE;
  if (cli->is_json) {
    pd_json_writer w = cli_json(cli, err);
    pd_json_value(&w, answer);
    return cli_json_end(cli, &w);
  }
  if (!pd_json_u64(pd_json_member(answer, "keys"), &keys)) keys = 0;
  if (!exists)
    out_text(&cli->out, "no vault\n");
  else
    out_printf(&cli->out, "%s, %llu master key%s\n", pd_json_true(pd_json_member(answer, "unlocked")) ? "unlocked" : "locked",
               (unsigned long long)keys, keys == 1 ? "" : "s");
  return PD_OK;
}

static pd_code init_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  TRY(passphrase_read(args, "", "New passphrase", true, &pass, err));
  TRY(cli->is_remote ? far_vault(cli, "init", &pass, NULL, NULL, NULL, err) : pd_vault_init(home, pass.text, NULL, err));
  cli_say(cli, "vault: made. Keep the passphrase: without it no backup can be read, by anybody");
  return print_state(cli, args, err);
}

static pd_code vault_exists(cli_session *cli, pd_home *home, const args_parsed *args, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_vault_state state = {0};
  pd_json json;
  if (!cli->is_remote) TRY(pd_vault_status(home, &state, err));
  *out = state.exists;
  if (!cli->is_remote) return PD_OK;
  TRY(door_call(cli, args, "vault.status", pd_text("{}"), &answer, err));
  TRY(pd_json_parse(pd_buf_bytes(&answer), &json, err));
  *out = pd_json_true(pd_json_member(json, "exists"));
  return PD_OK;
}

static pd_code unlock_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  bool exists = false;
  TRY(vault_exists(cli, home, args, &exists, err));
  if (!exists) return pd_error_set(err, PD_NOT_FOUND, "there is no vault yet");
  TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  TRY(door_vault(cli, "unlock", NULL, &pass, err));
  return print_state(cli, args, err);
}

static pd_code lock_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  (void)home;
  pd_code code = door_vault(cli, "lock", NULL, NULL, err);
  if (code && code != PD_NOT_FOUND) return code; /* no server: nothing is unlocked */
  return print_state(cli, args, err);
}

static pd_code rotate_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  CLEANUP(passphrase_done) passphrase fresh = {0};
  pd_vault_rotation rotation = {.makes_new_key = args_get(args, "new-key") != NULL, .keeps_key = args_get(args, "keep-key") != NULL};
  if (rotation.makes_new_key && rotation.keeps_key)
    return pd_error_set(err, PD_INVALID, "vault rotate: --new-key and --keep-key do not go together");
  TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  if (!args_get(args, "keep-passphrase")) TRY(passphrase_read(args, "new-", "New passphrase", true, &fresh, err));
  rotation.new_passphrase = fresh.text;
  const char *flag = rotation.makes_new_key ? "new_key" : rotation.keeps_key ? "keep_key" : NULL;
  TRY(cli->is_remote ? far_vault(cli, "rotate", &pass, &fresh, flag, NULL, err) : pd_vault_rotate(home, pass.text, &rotation, err));
  cli_say(cli, "vault: %s",
          rotation.keeps_key ? "the passphrase is changed, the key is not: who has the old passphrase and an old backup reads new ones, too"
          : fresh.text.size  ? "passphrase and key are changed: the old passphrase opens no backup made from now on"
                             : "the key is changed");
  return print_state(cli, args, err);
}

static pd_code show_vault(cli_session *cli, pd_home *home, const args_parsed *args, pd_error *err)
{
  (void)home;
  return print_state(cli, args, err);
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

static const args_option vault_options[] = {
  PASSPHRASE_OPTIONS,
  {"new-passphrase-fd", 0, "N", "rotate: the new passphrase from this file descriptor"},
  {"new-passphrase-file", 0, "FILE", "rotate: the new passphrase from this file"},
  {"new-key", 0, NULL, "rotate: a new master key for new backups (a new passphrase comes with one anyway)"},
  {"keep-key", 0, NULL, "rotate: keep the master key, so the old passphrase and an old backup open new ones"},
  {"keep-passphrase", 0, NULL, "rotate: leave the passphrase as it is"},
  {0}};

const cli_command cmd_vault = {
  .spec = {"vault", vault_options, 1, 1, false},
  .group = "care",
  .summary = "The key of this home's backups",
  .usage = "init|unlock|lock|status|rotate",
  .about = "The vault holds the master key that backups are encrypted with, itself encrypted under a passphrase.\n"
           "Without the passphrase nobody reads the backups: keep it apart from them.\n\n"
           "  init     make the vault; it stays locked\n"
           "  unlock   unlock it for the commands that follow: the server of the home holds the key, and one is started\n"
           "           in the background if none runs; until `lock`, or until it was not used for a while (vault.idle)\n"
           "  lock     wipe the keys from memory\n"
           "  status   is there a vault, and is it unlocked? Exit 1 if there is none\n"
           "  rotate   change the passphrase and the master key; with --keep-passphrase --new-key the key alone. Old\n"
           "           backups stay readable here; the old passphrase opens none that is made from then on\n\n"
           "The passphrase is asked for on the terminal, or comes from --passphrase-fd, --passphrase-file (one line,\n"
           "mode 0600), or the credential file $CREDENTIALS_DIRECTORY/perdure-vault. It is never an argument.",
  .example = "$ perdure vault init\n$ perdure vault status\n$ perdure vault rotate --passphrase-file old --new-passphrase-file new",
  .run = run_vault,
};
