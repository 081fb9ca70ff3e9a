/*
 * tier.c: the everyday shorthands: `perdure persistent set plan '{"step":1}'` for `perdure call state.persistent.set …`. A tier is a
 * command with verbs; a verb is a capability and the names that its words have as fields.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"
#include "door.h"
#include "fields.h"

#include <stdio.h>

#define NAMES_MAX 4
#define WORDS_MAX 101 /* the verb, and as many ids as `queue ack` takes */

typedef struct tier_verb {
  const char *tier, *verb, *capability;
  const char *names[NAMES_MAX]; /* of the words after the verb; ended by NULL */
  const char *only;             /* the member of the answer that people want to see alone; NULL: all */
} tier_verb;

static const tier_verb verbs[] = {
  {"session", "begin", "session.begin", {NULL}, "session_id"},
  {"session", "end", "session.end", {"session_id", NULL}, NULL},
  {"session", "touch", "session.touch", {"session_id", NULL}, NULL},
  {"session", "sessions", "session.list", {NULL}, NULL},
  {"session", "get", "state.session.get", {"key", NULL}, NULL},
  {"session", "set", "state.session.set", {"key", "value", NULL}, NULL},
  {"session", "delete", "state.session.delete", {"key", NULL}, NULL},
  {"session", "list", "state.session.list", {"prefix", NULL}, NULL},
  {"session", "clear", "state.session.clear", {NULL}, NULL},
  {"persistent", "get", "state.persistent.get", {"key", "version", NULL}, NULL},
  {"persistent", "set", "state.persistent.set", {"key", "value", NULL}, NULL},
  {"persistent", "delete", "state.persistent.delete", {"key", NULL}, NULL},
  {"persistent", "list", "state.persistent.list", {"prefix", NULL}, NULL},
  {"persistent", "query", "state.persistent.query", {"prefix", NULL}, NULL},
  {"persistent", "history", "state.persistent.history", {"key", "limit", NULL}, NULL},
  {"shared", "get", "state.shared.get", {"key", NULL}, NULL},
  {"shared", "set", "state.shared.set", {"key", "value", "expected_version", NULL}, NULL},
  {"shared", "delete", "state.shared.delete", {"key", "expected_version", NULL}, NULL},
  {"shared", "list", "state.shared.list", {"prefix", NULL}, NULL},
  {"shared", "watch", "state.shared.watch", {"prefix", NULL}, "subscription_id"},
  {"shared", "unwatch", "state.shared.unwatch", {"subscription_id", NULL}, NULL},
  {"snapshot", "create", "state.snapshot.create", {NULL}, "snapshot_id"},
  {"snapshot", "list", "state.snapshot.list", {NULL}, NULL},
  {"snapshot", "load", "state.snapshot.load", {"snapshot_id", NULL}, "snapshot"},
  {"snapshot", "restore", "state.snapshot.restore", {"snapshot_id", "agent", NULL}, NULL},
  {"briefing", "generate", "state.briefing.generate", {"since", NULL}, NULL},
  {"queue", "send", "queue.send", {"to", "body", NULL}, "message_id"},
  {"queue", "receive", "queue.receive", {NULL}, NULL},
  {"queue", "ack", "queue.ack", {"message_ids", NULL}, NULL},
  {"queue", "count", "queue.count", {NULL}, NULL},
  {"alerts", "send", "alerts.send", {"title", "message", NULL}, "alert_id"},
  {"alerts", "list", "alerts.list", {NULL}, NULL},
  {"alerts", "acknowledge", "alerts.acknowledge", {"alert_id", NULL}, NULL},
  {"folders", "watch", "folders.watch", {"path", NULL}, NULL},
  {"folders", "unwatch", "folders.unwatch", {"path", NULL}, NULL},
  {"folders", "list", "folders.list", {NULL}, NULL},
  {"runs", "create", "runs.create", {"title", "input", NULL}, "run_id"},
  {"runs", "get", "runs.get", {"run_id", NULL}, NULL},
  {"runs", "list", "runs.list", {"status", NULL}, NULL},
  {"runs", "claim", "runs.claim", {"run_id", NULL}, NULL},
  {"runs", "update", "runs.update", {"run_id", "token", "progress", NULL}, NULL},
  {"runs", "complete", "runs.complete", {"run_id", "token", "result", NULL}, NULL},
  {"runs", "fail", "runs.fail", {"run_id", "token", "error", NULL}, NULL},
  {"runs", "cancel", "runs.cancel", {"run_id", "reason", NULL}, NULL},
  {"runs", "prune", "runs.prune", {NULL}, NULL},
  {"health", "", "system.health", {NULL}, NULL},
  {"thread", "create", "threads.create", {"thread_id", NULL}, "thread_id"},
  {"thread", "list", "threads.list", {NULL}, NULL},
  {"thread", "show", "threads.load", {"thread_id", "version", NULL}, NULL},
  {"thread", "append", "threads.append", {"thread_id", NULL}, "version"},
  {"thread", "log", "threads.deltas", {"thread_id", "after_version", NULL}, NULL},
  {"thread", "messages", "threads.messages", {"thread_id", NULL}, NULL},
  {"thread", "state", "threads.state", {"thread_id", "path", NULL}, "state"},
  {"thread", "fork", "threads.fork", {"thread_id", "version", "new_thread_id", NULL}, "thread_id"},
  {"thread", "rewind", "threads.rewind", {"thread_id", "version", NULL}, "version"},
  {"thread", "diff", "threads.diff", {"thread_id", "from", "to", NULL}, NULL},
  {"thread", "runs", "threads.runs", {"thread_id", NULL}, NULL},
  {"thread", "blame", "threads.blame", {"thread_id", "path", NULL}, NULL},
  {"thread", "replay", "threads.replay", {"thread_id", NULL}, NULL},
  {"thread", "delete", "threads.delete", {"thread_id", NULL}, NULL},
  {"thread", "begin", "runs.begin", {"thread_id", NULL}, "run_id"},
  {"thread", "checkpoint", "runs.checkpoint", {"thread_id", "reason", NULL}, "version"},
  {"thread", "finish", "runs.finish", {"thread_id", "done_reason", NULL}, "version"},
  {"thread", "status", "runs.status", {"thread_id", NULL}, NULL},
  {"thread", "tool-begin", "runs.tool_begin", {"thread_id", "call_id", "name", NULL}, "version"},
  {"thread", "tool-suspend", "runs.tool_suspend", {"thread_id", "call_id", "request", NULL}, "version"},
  {"thread", "tool-resume", "runs.tool_resume", {"thread_id", "call_id", "decision_id", NULL}, "version"},
  {"thread", "tool-end", "runs.tool_end", {"thread_id", "call_id", "status", NULL}, "version"},
  {"mailbox", "send", "mailbox.send", {"thread_id", "body", NULL}, "number"},
  {"mailbox", "claim", "mailbox.claim", {"thread_id", "consumer", NULL}, NULL},
  {"mailbox", "accept", "mailbox.accept", {"thread_id", "number", "token", NULL}, NULL},
  {"mailbox", "extend", "mailbox.extend", {"thread_id", "number", "token", NULL}, NULL},
  {"mailbox", "reject", "mailbox.reject", {"thread_id", "number", "token", NULL}, "status"},
  {"mailbox", "cancel", "mailbox.cancel", {"thread_id", "number", NULL}, NULL},
  {"mailbox", "requeue", "mailbox.requeue", {"thread_id", "number", NULL}, NULL},
  {"mailbox", "list", "mailbox.list", {"thread_id", NULL}, NULL},
};

/* How the answers of some verbs are printed for people and pipes. */
typedef struct tier_look {
  const char *capability;
  const char *columns; /* of its list in a pipe, whatever members its rows have; NULL: those that they have */
  const char *said;    /* the member that is told besides, on standard error; NULL: none */
  bool is_value;       /* the one member that is printed is a value of the agent's: JSON in a pipe, as `get` prints it */
} tier_look;

static const tier_look looks[] = {
  {.capability = "runs.list",
   .columns = "id status title input owner attempts attempts_max progress result error reason created_at updated_at claimed_at lease_until "
              "finished_at"},
  {.capability = "alerts.list", .columns = "alert_id agent severity title message tags details timestamp acknowledged acknowledged_at"},
  {.capability = "mailbox.list",
   .columns = "number status kind sender body priority attempts attempts_max created_at dedupe_key retry_at claimed_by lease_until error "
              "superseded_by"},
  {.capability = "threads.list",
   .columns = "thread_id owner parent meta created_at updated_at version message_count run_count active_run forked_from forked_version "
              "commit"},
  {.capability = "threads.runs",
   .columns = "number run_id parent_run_id run_meta first_version finished_version started_at finished_at is_active"},
  {.capability = "threads.state", .is_value = true},
  {.capability = "state.shared.get", .said = "version"}, /* what the next `set` has to name */
};

static tier_look look_of(const char *capability)
{
  for (size_t i = 0; i < COUNT_OF(looks); i++)
    if (strcmp(looks[i].capability, capability) == 0) return looks[i];
  return (tier_look){0};
}

static const tier_verb *find_verb(const char *tier, const char *verb)
{
  for (size_t i = 0; i < COUNT_OF(verbs); i++)
    if (strcmp(verbs[i].tier, tier) == 0 && strcmp(verbs[i].verb, verb) == 0) return &verbs[i];
  return NULL;
}

const char *tier_capability(const char *tier, const char *verb)
{
  const tier_verb *found = find_verb(tier, verb);
  return found ? found->capability : NULL;
}

static pd_code no_verb(cli_session *cli, const char *tier, const char *verb, pd_error *err)
{
  int used = snprintf(cli->hint, sizeof cli->hint, "there are:");
  for (size_t i = 0; i < COUNT_OF(verbs) && used < (int)sizeof cli->hint; i++)
    if (strcmp(verbs[i].tier, tier) == 0) used += snprintf(cli->hint + used, sizeof cli->hint - (size_t)used, " %s", verbs[i].verb);
  return pd_error_set(err, PD_INVALID, *verb ? "%s has no verb '%s'" : "%s needs a verb%s", tier, verb);
}

static pd_code print_answer(cli_session *cli, const tier_verb *verb, pd_bytes answer, pd_error *err)
{
  tier_look look = look_of(verb->capability);
  if (verb->only && !cli->is_json) return answer_print_only(cli, answer, verb->only, look.is_value && !cli->out.is_terminal, err);
  TRY(answer_print(cli, answer, look.columns, err));
  return look.said && !cli->exit_code ? answer_say(cli, answer, look.said, err) : PD_OK;
}

pd_code tier_run(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0}, out = {0};
  const char *verb = args->word_count ? args->words[0] : strcmp(args->spec->name, "briefing") == 0 ? "generate" : "";
  const tier_verb *found = find_verb(args->spec->name, verb);
  if (!found) return no_verb(cli, args->spec->name, verb, err);
  pd_capability_info info;
  TRY(pd_capability_find(found->capability, &info, err));
  cli->is_operator = info.permission == PD_PERMIT_OPERATOR;
  char path[FIELDS_PATH_SIZE];
  if (args->word_count > 1 && found->names[0] && strcmp(found->names[0], "path") == 0) {
    TRY(fields_full_path(args->words[1], path, err));
    args->words[1] = path;
  }
  TRY(fields_write(found->capability, found->names, args, &input, err));
  pd_code code = door_call(cli, args, found->capability, pd_buf_bytes(&input), &out, err);
  if (code) return answer_failed(cli, &out, code);
  return print_answer(cli, found, pd_buf_bytes(&out), err);
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
TIER(cmd_runs, "runs", "Work that waits, is being done, or is over",
     "create [TITLE] [INPUT]|list [STATUS]|claim [ID]|update ID TOKEN [PROGRESS]|complete ID TOKEN [RESULT]|fail ID [TOKEN] [ERROR]|"
     "cancel ID [REASON]|get ID|prune",
     "Runs are pending, investigating, and then completed, failed or cancelled. `claim` takes the\n"
     "oldest that waits (exit 1 if none does) and prints its token, which the others ask for; with\n"
     "--resume what this owner (--owner) held before is offered again first. `list` shows those that\n"
     "are not over; a status, or all, shows others. `prune` (--keep N, --older-than-ms MS, --dry-run)\n"
     "removes some that are over.",
     "$ perdure runs create 'look at disk 3' '{\"disk\":3}'\n$ perdure --json runs claim --owner worker-1\n"
     "$ perdure runs complete ID TOKEN '{\"found\":0}'\n$ perdure runs list all");
TIER(cmd_health, "health", "The health of the home", "", "Disk space, stores, quotas, vault, versions: one look at the home.",
     "$ perdure health");
