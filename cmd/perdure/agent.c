/* agent.c: `agent open|status|show|ticks|delete`, and the door of the other verbs: agents that survive, for shells and other languages. */
#include "agent.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "commands.h"
#include "home_server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static void agent_call_done(agent_call *call)
{
  pd_agent_close(call->agent);
  pd_storage_close(call->storage);
  if (call->lock_fd) close(call->lock_fd);
}

/* ---- which agent, where -------------------------------------------------------------------------------------------- */

/* --storage, PERDURE_STORAGE, else the agent's own store. */
static pd_code storage_uri(const agent_call *call, pd_buf *out, pd_error *err)
{
  const char *uri = args_get(call->args, "storage"), *variable = getenv("PERDURE_STORAGE");
  if (!uri && variable && *variable) uri = variable;
  return uri ? pd_buf_printf(out, err, "%s%c", uri, 0) : pd_buf_printf(out, err, "perdure:%s%c", call->cli->uri, 0);
}

static pd_code open_storage(agent_call *call, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf uri = {0};
  TRY(storage_uri(call, &uri, err));
  return pd_storage_open((const char *)uri.data, &call->storage, err);
}

static pd_code epoch_of(const agent_call *call, uint64_t *out, pd_error *err)
{
  const char *text = args_get(call->args, "epoch"), *variable = getenv("PERDURE_EPOCH");
  if (!text && variable && *variable) text = variable;
  if (text) return args_parse_number("--epoch", text, 1, out, err);
  snprintf(call->cli->hint, sizeof call->cli->hint, "open the agent first: PERDURE_EPOCH=$(perdure agent open); export PERDURE_EPOCH");
  return pd_error_set(err, PD_INVALID, "agent %s: under which epoch? Give --epoch, or set PERDURE_EPOCH", call->args->words[0]);
}

/* A lock a storage and agent, in a folder of the user's own. */
static pd_code lock_life(agent_call *call, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  char folder[PATH_MAX], path[PATH_MAX + 64], hex[PD_ID_HEX_SIZE];
  TRY(home_server_folder(folder, sizeof folder, err));
  TRY(storage_uri(call, &name, err));
  TRY(pd_buf_append(&name, call->cli->agent, strlen(call->cli->agent), err));
  pd_id id = pd_value_id(pd_buf_bytes(&name));
  snprintf(path, sizeof path, "%s/%.16s.agent", folder, pd_id_hex(&id, hex));
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return pd_file_refused(err, "open", path);
  call->lock_fd = fd;
  while (flock(fd, LOCK_EX) != 0)
    if (errno != EINTR) return pd_file_refused(err, "lock", path);
  return PD_OK;
}

pd_code agent_attach(agent_call *call, pd_error *err)
{
  pd_agent_options options = {.is_call = true};
  uint64_t replies = 0;
  TRY(epoch_of(call, &options.epoch, err));
  TRY(args_number(call->args, "replies", 1, &replies, err));
  options.reply_count_max = (size_t)replies;
  TRY(open_storage(call, err));
  TRY(lock_life(call, err));
  return pd_agent_open_in(call->storage, call->cli->agent, &options, &call->agent, err);
}

pd_code agent_look(agent_call *call, pd_error *err)
{
  pd_agent_options options = {.is_reader = true};
  TRY(open_storage(call, err));
  return pd_agent_open_in(call->storage, call->cli->agent, &options, &call->agent, err);
}

/* ---- what it is like ----------------------------------------------------------------------------------------------- */

static void put_info(pd_json_writer *w, const pd_agent_info *info)
{
  pd_json_put_text(w, "agent", info->id);
  pd_json_put_number(w, "epoch", info->epoch);
  pd_json_put_text(w, "origin", info->origin == PD_AGENT_FRESH ? "fresh" : "restored");
  pd_json_put_number(w, "tick_index", info->tick_index);
  pd_json_put_text(w, "status", info->status);
  if (info->timestamp) pd_json_put_time(w, "saved_at", info->timestamp);
  pd_json_put_number(w, "history", info->history_count);
  pd_json_put_number(w, "variables", info->variable_count);
  pd_json_put_number(w, "events", info->event_count);
  pd_json_put_number(w, "replies", info->reply_count);
  pd_json_put_number(w, "unsent_replies", info->unsent_count);
  pd_json_put_number(w, "unknown_effects", info->unknown_count);
}

static pd_code print_info(agent_call *call, const pd_agent_info *info, pd_error *err)
{
  pd_storage_durability durability;
  TRY(pd_storage_durability_get(call->storage, &durability, err));
  pd_json_writer w = cli_json(call->cli, err);
  pd_json_open(&w, '{');
  put_info(&w, info);
  pd_json_key(&w, "durability");
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "lasting", pd_lasting_name(durability.lasting));
  pd_json_put_text(&w, "detail", durability.detail);
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  return cli_json_end(call->cli, &w);
}

/* Only the epoch, so that a shell can keep it: PERDURE_EPOCH=$(perdure agent open). */
static pd_code agent_open(agent_call *call, pd_error *err)
{
  pd_agent_info info;
  TRY(open_storage(call, err));
  TRY(pd_agent_open_in(call->storage, call->cli->agent, NULL, &call->agent, err));
  pd_agent_info_get(call->agent, &info);
  if (call->cli->is_json) return print_info(call, &info, err);
  out_printf(&call->cli->out, "%llu\n", (unsigned long long)info.epoch);
  if (info.origin == PD_AGENT_FRESH)
    cli_say(call->cli, "agent %s is fresh", info.id);
  else
    cli_say(call->cli, "agent %s is restored at tick %llu, with %zu event%s waiting", info.id, (unsigned long long)info.tick_index,
            info.event_count, info.event_count == 1 ? "" : "s");
  if (info.unknown_count) cli_say(call->cli, "%zu effects may have happened: perdure agent effect list", info.unknown_count);
  return PD_OK;
}

static pd_code agent_status(agent_call *call, pd_error *err)
{
  pd_agent_info info;
  pd_storage_durability durability;
  char when[PD_TIME_TEXT_SIZE];
  out_stream *o = &call->cli->out;
  TRY(agent_look(call, err));
  pd_agent_info_get(call->agent, &info);
  if (info.origin == PD_AGENT_FRESH) call->cli->exit_code = CLI_EXIT_NEGATIVE;
  if (call->cli->is_json) return print_info(call, &info, err);
  if (info.origin == PD_AGENT_FRESH) {
    out_printf(o, "agent %s: nothing is stored\n", info.id);
    return PD_OK;
  }
  TRY(pd_storage_durability_get(call->storage, &durability, err));
  out_printf(o, "agent      %s\nstatus     ", info.id);
  out_safe(o, pd_text(info.status));
  out_printf(o, "\ntick       %llu, saved %s\nepoch      %llu\n", (unsigned long long)info.tick_index, pd_time_text(info.timestamp, when),
             (unsigned long long)info.epoch);
  out_printf(o, "memory     %zu messages, %zu variables\n", info.history_count, info.variable_count);
  out_printf(o, "events     %zu waiting\n", info.event_count);
  out_printf(o, "replies    %zu remembered\neffects    %zu unknown\n", info.reply_count, info.unknown_count);
  out_printf(o, "durability %s: %s\n", pd_lasting_name(durability.lasting), durability.detail);
  return PD_OK;
}

/* ---- snapshots ----------------------------------------------------------------------------------------------------- */

static pd_code agent_show(agent_call *call, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf document = {0};
  uint64_t tick = 0;
  pd_json parsed;
  TRY(args_number(call->args, "tick", 0, &tick, err));
  TRY(open_storage(call, err));
  TRY(args_get(call->args, "tick") ? pd_storage_load_tick(call->storage, call->cli->agent, tick, &document, err)
                                   : pd_storage_load(call->storage, call->cli->agent, &document, err));
  TRY(pd_json_parse(pd_buf_bytes(&document), &parsed, err));
  pd_json_writer w = cli_json(call->cli, err);
  pd_json_value(&w, parsed);
  return cli_json_end(call->cli, &w);
}

typedef struct tick_list {
  cli_session *cli;
  pd_json_writer w;
  uint64_t left, last; /* the tick before, plus one */
} tick_list;

/* The newest of each: events and effects are saved between two ticks, too. */
static bool print_tick(void *ctx, const pd_storage_tick *tick)
{
  tick_list *list = ctx;
  char when[PD_TIME_TEXT_SIZE];
  if (list->last == tick->tick_index + 1) return true;
  list->last = tick->tick_index + 1;
  if (list->cli->is_json) {
    pd_json_open(&list->w, '{');
    pd_json_put_number(&list->w, "tick_index", tick->tick_index);
    pd_json_put_time(&list->w, "saved_at", tick->saved_ms);
    pd_json_put_text(&list->w, "place", tick->place);
    pd_json_close(&list->w, '}');
  } else {
    out_printf(&list->cli->out, "%llu\t%s\t%s\n", (unsigned long long)tick->tick_index, pd_time_text(tick->saved_ms, when), tick->place);
  }
  return --list->left > 0;
}

static pd_code agent_ticks(agent_call *call, pd_error *err)
{
  tick_list list = {.cli = call->cli, .w = cli_json(call->cli, err), .left = 1000};
  TRY(args_number(call->args, "limit", 1, &list.left, err));
  TRY(open_storage(call, err));
  call->cli->out.wants_pager = call->cli->has_pager;
  if (!call->cli->is_json) return pd_storage_ticks(call->storage, call->cli->agent, print_tick, &list, err);
  pd_json_open(&list.w, '{');
  pd_json_key(&list.w, "ticks");
  pd_json_open(&list.w, '[');
  TRY(pd_storage_ticks(call->storage, call->cli->agent, print_tick, &list, err));
  pd_json_close(&list.w, ']');
  pd_json_close(&list.w, '}');
  return cli_json_end(call->cli, &list.w);
}

/* Also of what cannot be read. */
static pd_code agent_delete(agent_call *call, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf document = {0};
  bool is_dry = args_get(call->args, "dry-run") != NULL;
  pd_snapshot facts = {0};
  TRY(open_storage(call, err));
  pd_code code = pd_storage_load(call->storage, call->cli->agent, &document, err);
  if (!code) code = pd_snapshot_check(pd_buf_bytes(&document), NULL, &facts, err);
  bool is_sound = code == PD_OK;
  if (code && code != PD_CORRUPT) return code;
  if (!is_dry) TRY(pd_storage_delete(call->storage, call->cli->agent, err));
  if (call->cli->is_json) {
    pd_json_writer w = cli_json(call->cli, err);
    pd_json_open(&w, '{');
    pd_json_put_text(&w, "agent", call->cli->agent);
    pd_json_put_bool(&w, "deleted", !is_dry);
    if (is_sound) pd_json_put_number(&w, "tick_index", facts.tick_index);
    pd_json_close(&w, '}');
    return cli_json_end(call->cli, &w);
  }
  out_printf(&call->cli->out, "%s the snapshot of agent %s", is_dry ? "would delete" : "deleted", call->cli->agent);
  if (is_sound)
    out_printf(&call->cli->out, ": tick %llu, %zu messages, %zu events waiting\n", (unsigned long long)facts.tick_index,
               facts.history_count, facts.event_count);
  else
    out_text(&call->cli->out, ", which is not sound\n");
  return PD_OK;
}

/* ---- verbs --------------------------------------------------------------------------------------------------------- */

static const struct verb {
  const char *name;
  size_t word_min, word_max; /* after the verb */
  const char *options;       /* that go with it, besides --storage, each between blanks */
  const char *wants;         /* for the message */
  pd_code (*run)(agent_call *call, pd_error *err);
} verbs[] = {
  {"open", 0, 0, " ", "takes no words", agent_open},
  {"status", 0, 0, " ", "takes no words", agent_status},
  {"show", 0, 0, " tick ", "takes no words", agent_show},
  {"ticks", 0, 0, " limit ", "takes no words", agent_ticks},
  {"delete", 0, 0, " dry-run ", "takes no words", agent_delete},
  {"push", 1, 1000, " epoch ", "which event? Give its JSON, @FILE or - for standard input", agent_push},
  {"next", 0, 0, " epoch ", "takes no words", agent_next},
  {"commit", 0, 0, " epoch event set set-text unset message say keep status reply reply-text push replies ",
   "takes no words: say what to commit with options", agent_commit},
  {"sent", 1, 1, " epoch ", "whose reply? Give the event's id", agent_sent},
  {"effect", 1, 3, " epoch event ", "give: list, get ID, intend ID [WHAT], done ID [RESULT], or retract ID", agent_effect},
};

static pd_code check_use(const struct verb *verb, const args_parsed *args, pd_error *err)
{
  char name[32];
  if (args->word_count - 1 < verb->word_min || args->word_count - 1 > verb->word_max)
    return pd_error_set(err, PD_INVALID, "agent %s: %s", verb->name, verb->wants);
  for (const args_option *o = args->spec->options; o->name; o++) {
    if (strcmp(o->name, "storage") == 0 || !args_get(args, o->name)) continue;
    snprintf(name, sizeof name, " %s ", o->name);
    if (!strstr(verb->options, name)) return pd_error_set(err, PD_INVALID, "agent %s: --%s does not go with it", verb->name, o->name);
  }
  return PD_OK;
}

static pd_code run_agent(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(agent_call_done) agent_call call = {.cli = cli, .args = args};
  for (size_t i = 0; i < COUNT_OF(verbs); i++) {
    if (strcmp(args->words[0], verbs[i].name) != 0) continue;
    TRY(check_use(&verbs[i], args, err));
    pd_code code = verbs[i].run(&call, err);
    if (code == PD_CONFLICT && strcmp(pd_error_name(err), "AgentFenced") == 0)
      snprintf(cli->hint, sizeof cli->hint, "another process opened or deleted the agent: this one should end");
    return code;
  }
  return pd_error_set(err, PD_INVALID, "agent: '%.40s' is none of: open, status, show, ticks, delete, push, next, commit, sent, effect",
                      args->words[0]);
}

static const args_option agent_options[] = {
  {"storage", 0, "URI", "where its snapshot is kept (PERDURE_STORAGE; default perdure: and the store)"},
  {"epoch", 0, "N", "what `open` printed (PERDURE_EPOCH); for push, next, commit, sent, effect"},
  {"event", 0, "ID", "commit, effect: the event, by its id or as JSON"},
  {"set", 0, "NAME=JSON", "commit: a variable; may be repeated"},
  {"set-text", 0, "NAME=TEXT", "commit: a variable that is text; may be repeated"},
  {"unset", 0, "NAME", "commit: no such variable any more; may be repeated"},
  {"message", 0, "JSON", "commit: a message for the history; may be repeated"},
  {"say", 0, "ROLE=TEXT", "commit: the same from a role and a text; may be repeated, comes after --message"},
  {"keep", 0, "N", "commit: of the history keep the newest N messages"},
  {"status", 0, "TEXT", "commit: the agent's status"},
  {"reply", 0, "JSON", "commit: the reply"},
  {"reply-text", 0, "TEXT", "commit: the reply, as text"},
  {"push", 0, "JSON", "commit: a further event; may be repeated"},
  {"replies", 0, "N", "commit: from now on remember so many replies (default 1000)"},
  {"tick", 0, "N", "show: the snapshot of this tick"},
  {"limit", 'n', "N", "ticks: so many at most (default 1000)"},
  {"dry-run", 0, NULL, "delete: only say what would go"},
  {0},
};

const cli_command cmd_agent = {
  .spec = {"agent", agent_options, 1, 1001, false},
  .group = "state",
  .summary = "Be an agent that survives: events, steps, replies and effects, from a shell",
  .usage = "open|status|show|ticks|delete|push EVENT…|next|commit|sent EVENT-ID|effect VERB ID JSON",
  .about = "The agent is the one of --agent. `open` takes it over and prints its epoch, which the other calls need; whoever\n"
           "opened it before is refused from then on (exit 3, AgentFenced). An event is JSON with an `id`.\n\n"
           "  open     take it over; prints the epoch\n"
           "  push     put events into the queue; saved when it returns. Prints queued, waiting or seen, and the id\n"
           "  next     what is to be done: `new`, the event's id and the event; or `seen`, its id and the saved reply that\n"
           "           may not have left before a crash (send it again, then `sent`); exit 1 if there is nothing\n"
           "  commit   save the step of --event as a whole, and print the reply: send it only now. An event whose step is\n"
           "           finished is not worked on again: its saved reply is printed\n"
           "  sent     the reply of an event has left\n"
           "  effect   before an effect on the outside: `intend ID` prints intended (now do it), done (with its result: do\n"
           "           not do it again) or unknown (it may have happened: look). Then `done ID`, or `retract ID`\n"
           "  status   what is known of it; exit 1 if nothing is stored\n"
           "  show     its snapshot; ticks lists those that are kept\n\n"
           "JSON may be given as @FILE, or as - for standard input.",
  .example = "$ PERDURE_EPOCH=$(perdure agent open); export PERDURE_EPOCH\n"
             "$ perdure agent push '{\"id\":\"7\",\"type\":\"task\"}'\n"
             "$ perdure agent next\n"
             "$ perdure agent effect intend mail-7 --event 7\n"
             "$ perdure agent effect done mail-7\n"
             "$ perdure agent commit --event 7 --set count=1 --reply-text done\n"
             "$ perdure agent status --json",
  .run = run_agent,
};
