/* run.c: `run`: an agent's process under supervision. The loop is supervisor.c's; here is what it is given. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "supervisor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_SIZE 201 /* of a process, as process.record takes it */

static void close_home(pd_home **home)
{
  pd_home_close(*home, NULL);
}

static void close_supervisor(pd_supervisor **supervisor)
{
  pd_supervisor_close(*supervisor);
}

/* ---- the configuration ---- */

/* Options win over the file; the file wins over the environment, which wins over nothing. */
static pd_code configure(const args_parsed *args, pd_agent_config *config, pd_error *err)
{
  static const char *const options[][3] = {{"restart", "restart.policy", "--restart"},
                                           {"backoff", "restart.backoff", "--backoff"},
                                           {"max-restarts", "restart.max", "--max-restarts"},
                                           {"healthy", "restart.healthy", "--healthy"},
                                           {"grace", "restart.grace", "--grace"},
                                           {"storage", "snapshot_storage", "--storage"}};
  const char *file = args_get(args, "config"), *storage = getenv("PERDURE_STORAGE");
  pd_agent_config_init(config);
  if (storage && *storage) TRY(pd_agent_config_set(config, "snapshot_storage", storage, "PERDURE_STORAGE", err));
  if (file) TRY(pd_agent_config_read(file, config, err));
  for (size_t i = 0; i < COUNT_OF(options); i++) {
    const char *text = args_get(args, options[i][0]);
    if (text) TRY(pd_agent_config_set(config, options[i][1], text, options[i][2], err));
  }
  return PD_OK;
}

static pd_code choose_agent(cli_session *cli, const args_parsed *args, const pd_agent_config *config, pd_error *err)
{
  const char *given = args_get_global(args, "agent");
  if (given && *config->name && strcmp(given, config->name) != 0)
    return pd_error_set(err, PD_INVALID, "--agent is '%s', and %s is for '%s'", given, config->file, config->name);
  if (!given && *config->name) cli->agent = config->name;
  return PD_OK;
}

/* The words after `--` instead of the file's command. */
static pd_code choose_command(const args_parsed *args, pd_agent_config *config, pd_error *err)
{
  if (!args->word_count) {
    if (config->command_count) return PD_OK;
    return pd_error_set(err, PD_INVALID, "run: which command? Give it after --, or as 'command' in agent.toml");
  }
  if (args->word_count > PD_AGENT_COMMAND_MAX) return pd_error_set(err, PD_LIMIT, "run: more than %d words", PD_AGENT_COMMAND_MAX);
  for (size_t i = 0; i < config->command_count; i++) free(config->command[i]);
  free(config->command);
  config->command_count = 0;
  config->command = calloc(args->word_count + 1, sizeof *config->command);
  if (!config->command) return pd_error_memory(err, "a command");
  for (; config->command_count < args->word_count; config->command_count++) {
    config->command[config->command_count] = strdup(args->words[config->command_count]);
    if (!config->command[config->command_count]) return pd_error_memory(err, "a command");
  }
  return PD_OK;
}

/* ---- getting ready ---- */

static pd_code watch_folders(const cli_session *cli, pd_home *home, const pd_agent_config *config, pd_error *err)
{
  pd_ctx ctx = {.home = home, .agent = cli->agent, .is_operator = true};
  for (size_t i = 0; i < config->folder_count; i++) {
    CLEANUP(pd_buf_done) pd_buf input = {0};
    CLEANUP(pd_buf_done) pd_buf out = {0};
    pd_json_writer w = {.out = &input, .err = err};
    pd_json_open(&w, '{');
    pd_json_put_text(&w, "path", config->folders[i]);
    pd_json_put_bool(&w, "hidden", config->has_hidden);
    pd_json_close(&w, '}');
    TRY(w.code);
    TRY(pd_call(&ctx, "folders.watch", pd_buf_bytes(&input), &out, err));
  }
  return PD_OK;
}

/* A store's URI that means the same wherever the process goes. */
static pd_code absolute_store(const char *uri, char **out, pd_error *err)
{
  char folder[PATH_MAX];
  bool has_folder = strncmp(uri, "sqlite:", 7) == 0;
  if (has_folder && !realpath(uri + 7, folder)) return pd_error_set(err, PD_STORAGE, "cannot find %s: %s", uri + 7, strerror(errno));
  if (asprintf(out, has_folder ? "sqlite:%s" : "%s", has_folder ? folder : uri) < 0) return pd_error_memory(err, "a store's name");
  return PD_OK;
}

static const char *process_name(const char *command, char out[NAME_SIZE])
{
  const char *slash = strrchr(command, '/');
  snprintf(out, NAME_SIZE, "%.66s", slash && slash[1] ? slash + 1 : command); /* bytes that are no UTF-8 become three each */
  return out;
}

/* Lock, look after what a supervisor before this one left, watch folders. The home is closed again before anything is started. */
static pd_code prepare(cli_session *cli, const pd_agent_config *config, const char *name, pd_supervisor **out, pd_error *err)
{
  CLEANUP(close_home) pd_home *home = NULL;
  pd_supervised before;
  TRY(pd_home_open(cli->uri, NULL, &home, err));
  pd_code code = pd_supervisor_open(home, cli->agent, out, err);
  if (code == PD_CONFLICT) snprintf(cli->hint, sizeof cli->hint, "see: perdure agents");
  TRY(code);
  /* the lock is ours by now: a note that says "running" is of one that is gone */
  bool was_lost = pd_supervised_read(home, cli->agent, &before, NULL) == PD_OK && before.state <= PD_SUPERVISED_WAITING;
  if (was_lost) supervise_record(cli, cli->agent, "killed", name, ",\"message\":\"its supervisor was killed, and it with it\"");
  return watch_folders(cli, home, config, err);
}

static pd_code start(cli_session *cli, pd_agent_config *config, const sigset_t *mask, pd_error *err)
{
  CLEANUP(pd_free_at) char *store = NULL;
  CLEANUP(pd_free_at) char *storage = NULL;
  CLEANUP(close_supervisor) pd_supervisor *lock = NULL;
  char name[NAME_SIZE];
  process_name(config->command[0], name);
  TRY(prepare(cli, config, name, &lock, err));
  TRY(absolute_store(cli->uri, &store, err));
  if (config->object_storage) TRY(pd_store_place(store, cli->agent, config->object_storage, err));
  if (!config->snapshot_storage && asprintf(&storage, "perdure:%s", store) < 0) return pd_error_memory(err, "a storage's name");
  supervisor_plan plan = {
    .child =
      {.config = config, .agent = cli->agent, .store = store, .storage = storage ? storage : config->snapshot_storage, .mask = *mask},
    .name = name,
  };
  return supervise(cli, lock, &plan, err);
}

static pd_code say_checked(cli_session *cli, const pd_agent_config *config, pd_error *err)
{
  if (!cli->is_json) {
    out_safe(&cli->out, pd_text(config->file));
    out_text(&cli->out, ": fine\n");
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "file", config->file);
  pd_json_put_bool(&w, "is_fine", true);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_run(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_agent_config_done) pd_agent_config config;
  sigset_t signals, mask;
  bool only_checks = args_get(args, "check") != NULL;
  pd_code code = configure(args, &config, err);
  if (code == PD_NOT_FOUND) cli->exit_code = CLI_EXIT_STORAGE;
  TRY(code);
  if (only_checks && !config.file) return pd_error_set(err, PD_INVALID, "run --check needs --config FILE");
  TRY(choose_agent(cli, args, &config, err));
  if (config.has_old_storage)
    cli_say(cli, "%s: 'object_storage' is now where the store is; write 'snapshot_storage' for snapshots", config.file);
  if (only_checks) return say_checked(cli, &config, err);
  TRY(choose_command(args, &config, err));
  supervisor_signals(&signals);
  sigprocmask(SIG_BLOCK, &signals, &mask); /* before any thread is made, so that none of them takes one */
  return start(cli, &config, &mask, err);
}

static const args_option run_options[] = {
  {"restart", 0, "WHEN", "always, on-failure (default) or never"},
  {"backoff", 0, "MIN..MAX", "before each start twice as long as before the last (default 200ms..30s)"},
  {"max-restarts", 0, "N/TIME", "give up after N in TIME (default 10/10m), or none"},
  {"healthy", 0, "TIME", "one that ran so long begins with MIN again (default 10s)"},
  {"grace", 0, "TIME", "from TERM or INT to KILL (default 10s)"},
  {"storage", 0, "URI", "where its snapshots are (PERDURE_STORAGE; default: in the store)"},
  {"config", 0, "FILE", "read agent.toml; options win over it"},
  {"check", 0, NULL, "only read --config, and say whether all in it is right"},
  {0},
};

const cli_command cmd_run = {
  .spec = {"run", run_options, 0, SIZE_MAX, false},
  .group = "operator",
  .summary = "Start an agent, and start it again when it crashes",
  .usage = "[--agent NAME] [--config agent.toml] [-- COMMAND…]",
  .about = "Runs COMMAND in a process group of its own with PERDURE_STORE, PERDURE_AGENT, PERDURE_STORAGE and a new\n"
           "PERDURE_TOKEN in its environment, and starts it again after a crash. TERM, INT, HUP, USR1, USR2 and WINCH are\n"
           "passed on; after TERM or INT nothing is started any more, and a second one kills. Starts, ends, crashes (with\n"
           "the last 4 KiB of standard error) and restarts become process events, which briefings tell. Exits as the\n"
           "command did, or with 128 and its signal; 127: it is not there, 126: it may not be run. An agent has one\n"
           "supervisor at a time (exit 3). `perdure agents` shows who runs.",
  .example = "$ perdure run --agent worker -- python3 agent.py\n"
             "$ perdure run --agent worker --restart always --backoff 1s..1m --max-restarts 5/1h -- ./agent\n"
             "$ perdure run --config agent.toml\n$ perdure run --config agent.toml --check",
  .no_server = "it starts processes here, which use the home's files",
  .run = run_run,
};
