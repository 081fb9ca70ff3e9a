/*
 * tier.c: the everyday shorthands: `perdure persistent set plan '{"step":1}'` for `perdure call state.persistent.set …`. A tier is a
 * command with verbs; a verb is a capability, and its file says which inputs the words are ("shorthand").
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "door.h"
#include "fields.h"

#include <stdio.h>

#define WORDS_MAX 101 /* the verb, and as many ids as `queue ack` takes */

static bool find_verb(const char *tier, const char *verb, pd_capability_info *out)
{
  for (size_t i = 0; pd_capability_at(i, out, NULL) == PD_OK; i++)
    if (out->shorthand && strcmp(out->shorthand->command, tier) == 0 && strcmp(out->shorthand->verb, verb) == 0) return true;
  return false;
}

const char *tier_capability(const char *tier, const char *verb)
{
  pd_capability_info found;
  return find_verb(tier, verb, &found) ? found.name : NULL;
}

static pd_code no_verb(cli_session *cli, const char *tier, const char *verb, pd_error *err)
{
  pd_capability_info info;
  int used = snprintf(cli->hint, sizeof cli->hint, "there are:");
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK && used < (int)sizeof cli->hint; i++)
    if (info.shorthand && strcmp(info.shorthand->command, tier) == 0)
      used += snprintf(cli->hint + used, sizeof cli->hint - (size_t)used, " %s", info.shorthand->verb);
  return pd_error_set(err, PD_INVALID, *verb ? "%s has no verb '%s'" : "%s needs a verb%s", tier, verb);
}

static pd_code print_answer(cli_session *cli, const pd_shorthand *how, pd_bytes answer, pd_error *err)
{
  if (how->prints && !cli->is_json) return answer_print_only(cli, answer, how->prints, how->is_value && !cli->out.is_terminal, err);
  TRY(answer_print(cli, answer, how->columns, err));
  return how->notes && !cli->exit_code ? answer_say(cli, answer, how->notes, err) : PD_OK;
}

pd_code tier_run(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0}, out = {0};
  const char *verb = args->word_count ? args->words[0] : strcmp(args->spec->name, "briefing") == 0 ? "generate" : "";
  pd_capability_info info;
  if (!find_verb(args->spec->name, verb, &info)) return no_verb(cli, args->spec->name, verb, err);
  const char *const *words = info.shorthand->words;
  cli->is_operator = info.permission == PD_PERMIT_OPERATOR;
  char path[FIELDS_PATH_SIZE];
  if (args->word_count > 1 && words[0] && strcmp(words[0], "path") == 0) {
    TRY(fields_full_path(args->words[1], path, err));
    args->words[1] = path;
  }
  TRY(fields_write(info.name, words, args, &input, err));
  pd_code code = door_call(cli, args, info.name, pd_buf_bytes(&input), &out, err);
  if (code) return answer_failed(cli, &out, code);
  return print_answer(cli, info.shorthand, pd_buf_bytes(&out), err);
}

static bool has_field(const args_parsed *args, const char *name, size_t name_size)
{
  return fields_has(tier_capability(args->spec->name, args->words[0]), name, name_size);
}

static const args_option door_options[] = {CLI_DOOR_OPTIONS, {0}};

#define TIER(identifier, name, summary_, usage_, about_, example_)                                                                         \
  const cli_command identifier = {                                                                                                         \
    .spec = {name, door_options, 0, WORDS_MAX, true, has_field},                                                                           \
    .group = "agents",                                                                                                                     \
    .summary = summary_,                                                                                                                   \
    .usage = usage_,                                                                                                                       \
    .about = about_,                                                                                                                       \
    .example = example_,                                                                                                                   \
    .run = tier_run,                                                                                                                       \
  }

TIER(cmd_session, "session", "State of one session, in memory, gone when it ends",
     "begin|end [ID]|touch [ID]|sessions|get KEY|set KEY VALUE|delete KEY|list [PREFIX]|clear",
     "Begins and ends sessions, and works with the state of one (--session or\n"
     "PERDURE_SESSION). A process in the background holds it, and leaves when the last\n"
     "session has ended.",
     "$ export PERDURE_SESSION=$(perdure session begin)\n$ perdure session set draft '\"hello\"'\n$ perdure session get draft");
TIER(cmd_persistent, "persistent", "An agent's own state: every version kept, by key",
     "get KEY [VERSION]|set KEY VALUE|delete KEY|list [PREFIX]|query PREFIX|history KEY [LIMIT]",
     "The agent's persistent state through its capabilities: values are JSON (other text\n"
     "becomes a string), each set makes a version, quota and permissions apply.",
     "$ perdure persistent set plan '{\"step\":1}'\n$ perdure persistent history plan");
TIER(cmd_shared, "shared", "State that all agents see, with optimistic locking",
     "get KEY|set KEY VALUE EXPECTED_VERSION|delete KEY|list [PREFIX]|watch [PREFIX]|unwatch ID",
     "The state that all agents of the home share. A set needs the version that was\n"
     "last read (0 creates); exit code 3 says that another agent was faster.",
     "$ perdure shared set mode '\"production\"' 0\n$ perdure --json shared get mode");
TIER(cmd_snapshot, "snapshot", "System snapshots: what the home looked like", "create|list|load ID|restore ID [AGENT]",
     "Writes, lists and shows system snapshots: agents, resources, approvals, alerts,\n"
     "health, statistics, and the commit of every store, so that it can be restored.",
     "$ perdure snapshot create\n$ perdure snapshot list");
TIER(cmd_briefing, "briefing", "What happened while the agent was away", "[generate] [SINCE] [--detail-level detailed] [--max-chars N]",
     "Tells what changed since the agent's last activity, or since a time.",
     "$ perdure briefing\n$ perdure --json briefing generate 2026-11-15T10:00:00Z --detail-level detailed");
TIER(cmd_queue, "queue", "The agent's message queue", "send AGENT BODY|receive|ack ID…|count",
     "Sends messages to agents, and receives and acknowledges those of this agent.",
     "$ perdure queue send reviewer '{\"please\":\"look\"}'\n$ perdure --agent reviewer queue receive\n"
     "$ perdure --agent reviewer queue ack m1 m2");
TIER(cmd_mailbox, "mailbox", "What waits for a thread: letters with leases, retries and interrupts",
     "send THREAD BODY|claim THREAD CONSUMER|accept|extend|reject THREAD NUMBER TOKEN|cancel|requeue THREAD NUMBER|list THREAD",
     "Letters wake a thread. A worker claims one for a time (--lease-seconds), and accepts or rejects it with the\n"
     "token; a rejected one is tried again later, until its attempts are used up (--attempts-max).",
     "$ perdure mailbox send trip '{\"text\":\"hello\"}' --dedupe-key web-1\n$ perdure --json mailbox claim trip worker-3");
TIER(cmd_alerts, "alerts", "Alerts for the operator", "send TITLE MESSAGE --severity LEVEL|list|acknowledge ID",
     "Sends an alert to the operator (--severity info, warning, error, critical), and lists and\n"
     "acknowledges them; acknowledging is the operator's.",
     "$ perdure alerts send 'disk is filling' '92 % used' --severity warning");
TIER(cmd_folders, "folders", "Folders whose changes are in the agent's briefing", "watch PATH|unwatch PATH|list",
     "Says which folders the agent's briefing looks at.", "$ perdure folders watch /srv/work");
TIER(cmd_work, "work", "Work that waits, is being done, or is over",
     "create [TITLE] [INPUT]|list [STATUS]|claim [ID]|update ID TOKEN [PROGRESS]|complete ID TOKEN [RESULT]|fail ID [TOKEN] [ERROR]|"
     "cancel ID [REASON]|get ID|prune",
     "Work items are pending, investigating, and then completed, failed or cancelled. `claim` takes the\n"
     "oldest that waits (exit 1 if none does) and prints its token, which the others ask for; with\n"
     "--resume what this owner (--owner) held before is offered again first. `list` shows those that\n"
     "are not over; a status, or all, shows others. `prune` (--keep N, --older-than-ms MS, --dry-run)\n"
     "removes some that are over.",
     "$ perdure work create 'look at disk 3' '{\"disk\":3}'\n$ perdure --json work claim --owner worker-1\n"
     "$ perdure work complete ID TOKEN '{\"found\":0}'\n$ perdure work list all");
TIER(cmd_health, "health", "The health of the home", "", "Disk space, stores, quotas, vault, versions: one look at the home.",
     "$ perdure health");
