/* backup.c: `backup create|list|verify|restore|export|import`: the capabilities state.backup.*, with the passphrase where it is needed. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "door.h"
#include "far_home.h"
#include "fields.h"
#include "passphrase.h"

typedef struct backup_verb {
  const char *name, *capability;
  const char *names[3]; /* of the words after the verb */
  const char *only;     /* for people */
  size_t path_word;     /* the word that is a path; 0: none */
} backup_verb;

static const backup_verb verbs[] = {
  {"create", "state.backup.create", {"agent", NULL}, "backup_id", 0},
  {"list", "state.backup.list", {NULL}, NULL, 0},
  {"verify", "state.backup.verify", {"backup_id", NULL}, "valid", 0},
  {"restore", "state.backup.restore", {"backup_id", "agent", NULL}, "former_state", 0},
  {"export", "state.backup.export", {"backup_id", "path", NULL}, "exported_path", 2},
  {"import", "state.backup.import", {"path", NULL}, "backup_id", 1},
};

static void close_home(pd_home **home)
{
  pd_home_close(*home, NULL);
}

/* ---- with a passphrase: in this process ---- */

static pd_code learn_here(pd_home *home, const args_parsed *args, const char *path, const passphrase *own, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase from = {0};
  if (passphrase_is_given(args, "from-")) {
    TRY(passphrase_read(args, "from-", "Passphrase of the backup", false, &from, err));
    return pd_vault_learn(home, path, from.text, err);
  }
  (void)!pd_vault_learn(home, path, own->text, NULL); /* the same passphrase there? If not, the import says what is missing */
  return PD_OK;
}

static pd_code call_unlocked(cli_session *cli, const args_parsed *args, const backup_verb *verb, const char *path, pd_bytes input,
                             pd_buf *out, pd_error *err)
{
  CLEANUP(close_home) pd_home *home = NULL;
  CLEANUP(passphrase_done) passphrase pass = {0};
  pd_home_options options = {.must_exist = true};
  TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  TRY(pd_home_open(cli->uri, &options, &home, err));
  TRY(pd_vault_unlock(home, pass.text, err));
  if (strcmp(verb->name, "import") == 0) TRY(learn_here(home, args, path, &pass, err));
  pd_ctx ctx = {.home = home, .agent = cli->agent, .is_operator = args_get(args, "operator") != NULL};
  return pd_call(&ctx, verb->capability, input, out, err);
}

/* ---- with a passphrase: on the server, whose vault is unlocked for this call, unless it was already ---- */

static pd_code is_unlocked(cli_session *cli, const args_parsed *args, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json json;
  TRY(door_call(cli, args, "vault.status", pd_text("{}"), &answer, err));
  TRY(pd_json_parse(pd_buf_bytes(&answer), &json, err));
  *out = pd_json_true(pd_json_member(json, "unlocked"));
  return PD_OK;
}

static pd_code learn_there(cli_session *cli, const args_parsed *args, const char *path, const passphrase *own, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase from = {0};
  if (passphrase_is_given(args, "from-")) {
    TRY(passphrase_read(args, "from-", "Passphrase of the backup", false, &from, err));
    return far_vault(cli, "learn", &from, NULL, NULL, path, err);
  }
  (void)!far_vault(cli, "learn", own, NULL, NULL, path, NULL); /* as learn_here */
  return PD_OK;
}

static pd_code call_unlocked_there(cli_session *cli, const args_parsed *args, const backup_verb *verb, const char *path, pd_bytes input,
                                   pd_buf *out, pd_error *err)
{
  CLEANUP(passphrase_done) passphrase pass = {0};
  bool was_unlocked = false;
  TRY(passphrase_read(args, "", "Passphrase", false, &pass, err));
  TRY(is_unlocked(cli, args, &was_unlocked, err));
  TRY(far_vault(cli, "unlock", &pass, NULL, NULL, NULL, err));
  pd_code code = strcmp(verb->name, "import") == 0 ? learn_there(cli, args, path, &pass, err) : PD_OK;
  if (!code) code = door_call(cli, args, verb->capability, input, out, err);
  if (!was_unlocked) (void)!far_vault(cli, "lock", NULL, NULL, NULL, NULL, NULL);
  return code;
}

/* ---- without: where the vault is unlocked ---- */

static pd_code call_held(cli_session *cli, const args_parsed *args, const backup_verb *verb, const char *path, pd_bytes input, pd_buf *out,
                         pd_error *err)
{
  CLEANUP(passphrase_done) passphrase from = {0};
  if (strcmp(verb->name, "import") == 0 && passphrase_is_given(args, "from-")) {
    TRY(passphrase_read(args, "from-", "Passphrase of the backup", false, &from, err));
    pd_code code = door_vault(cli, "learn", path, &from, err);
    if (code == PD_NOT_FOUND) return pd_error_named(err, PD_LOCKED, "VaultLocked", "the vault is locked");
    TRY(code);
  }
  return door_call(cli, args, verb->capability, input, out, err);
}

static pd_code find_verb(const char *name, const backup_verb **out, pd_error *err)
{
  for (size_t i = 0; i < COUNT_OF(verbs); i++)
    if (strcmp(name, verbs[i].name) == 0) {
      *out = &verbs[i];
      return PD_OK;
    }
  return pd_error_set(err, PD_INVALID, "'%.40s' is none of create, list, verify, restore, export, import", name);
}

static pd_code run_backup(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  const backup_verb *verb = NULL;
  char path[FIELDS_PATH_SIZE] = "";
  TRY(find_verb(args->words[0], &verb, err));
  if (verb->path_word && args->word_count > verb->path_word) {
    TRY(fields_full_path(args->words[verb->path_word], path, err));
    args->words[verb->path_word] = path;
  }
  TRY(fields_write(verb->capability, verb->names, args, &input, err));
  bool is_given = passphrase_is_given(args, "");
  pd_code code = is_given ? (cli->is_remote ? call_unlocked_there : call_unlocked)(cli, args, verb, path, pd_buf_bytes(&input), &out, err)
                          : call_held(cli, args, verb, path, pd_buf_bytes(&input), &out, err);
  if (code && !out.size) return code;
  if (code) return answer_failed(cli, &out, code);
  return verb->only && !cli->is_json ? answer_print_only(cli, pd_buf_bytes(&out), verb->only, false, err)
                                     : answer_print(cli, pd_buf_bytes(&out), NULL, err);
}

static bool has_field(const args_parsed *args, const char *name, size_t name_size)
{
  for (size_t i = 0; i < COUNT_OF(verbs); i++)
    if (strcmp(args->words[0], verbs[i].name) == 0) return fields_has(verbs[i].capability, name, name_size);
  return false;
}

static const args_option backup_options[] = {CLI_DOOR_OPTIONS,
                                             PASSPHRASE_OPTIONS,
                                             {"from-passphrase-fd", 0, "N", "import: the passphrase of the home that made the backup"},
                                             {"from-passphrase-file", 0, "FILE", "import: the same, from a file"},
                                             {0}};

const cli_command cmd_backup = {
  .spec = {"backup", backup_options, 1, 3, true, has_field},
  .group = "agents",
  .summary = "Encrypted backups of all state, or of one agent's",
  .usage = "create [AGENT]|list|verify ID|restore ID [AGENT]|export ID PATH|import PATH",
  .about = "Makes, checks, restores and moves backups of the agents' and the shared state. They are encrypted with\n"
           "the key of the vault: unlock it first (`perdure vault unlock`), or name the passphrase by\n"
           "--passphrase-fd or --passphrase-file, for this command alone. A restore is all or nothing, and what it\n"
           "replaces stays reachable under the ref that it prints. Creating, restoring, exporting and importing need\n"
           "an approval, or --operator.",
  .example = "$ perdure vault init\n$ perdure vault unlock\n$ perdure backup create --operator\n$ perdure backup list\n"
             "$ perdure backup restore bkp-20261115T100000Z --operator",
  .run = run_backup,
};
