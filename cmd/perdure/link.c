/* link.c: `link`, `resolve` and `messages`: the messages of conversations, and the state at each. */
#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "commands.h"
#include "engine.h"

#include <stdlib.h>

#define VALUE_SHOWN_MAX 200

/* ---- messages that outlive their visit ---- */

typedef struct message_item {
  pd_message message;
  char *texts;
} message_item;

typedef struct message_items {
  message_item *items;
  size_t count, capacity;
  pd_code code; /* of the visitor, which cannot return one */
} message_items;

static void items_done(message_items *all)
{
  for (size_t i = 0; i < all->count; i++) free(all->items[i].texts);
  free(all->items);
}

static bool copy_texts(message_item *item)
{
  pd_message *m = &item->message;
  const char **texts[] = {&m->id, &m->agent, &m->session, &m->submission, &m->parent, &m->author, &m->reason};
  size_t size = 0;
  for (size_t i = 0; i < COUNT_OF(texts); i++) size += strlen(*texts[i]) + 1;
  char *at = item->texts = malloc(size);
  if (!at) return false;
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    size_t part = strlen(*texts[i]) + 1;
    memcpy(at, *texts[i], part);
    *texts[i] = at;
    at += part;
  }
  return true;
}

static bool keep_message(void *ctx, const pd_message *message)
{
  message_items *all = ctx;
  all->code = pd_array_grow(&all->items, all->count, &all->capacity, sizeof *all->items, "the messages", NULL);
  if (all->code) return false;
  message_item item = {.message = *message};
  if (!copy_texts(&item)) {
    all->code = PD_NO_MEMORY;
    return false;
  }
  all->items[all->count++] = item;
  return true;
}

/* The one message `id`, as the last of `all`. */
static pd_code get_message(cli_session *cli, const char *id, message_items *all, pd_error *err)
{
  TRY(engine_message_get(cli, id, keep_message, all, err));
  return all->code ? pd_error_memory(err, "a message") : PD_OK;
}

/* ---- showing one ---- */

static void message_json(pd_json_writer *w, const pd_message *m)
{
  pd_json_put_text(w, "message", m->id);
  pd_json_put_text(w, "agent", m->agent);
  pd_json_put_text(w, "session", m->session);
  pd_json_put_text(w, "submission", m->submission);
  pd_json_put_text(w, "parent", m->parent);
  pd_json_put_id(w, "commit", &m->commit);
  pd_json_put_number(w, "seq", m->seq);
  pd_json_put_time(w, "time", m->time_ms);
  pd_json_put_text(w, "author", m->author);
  pd_json_put_text(w, "reason", m->reason);
}

static void print_field(out_stream *o, const char *label, const char *text)
{
  if (!*text) return;
  out_printf(o, "%-12s", label);
  out_safe(o, pd_text(text));
  out_text(o, "\n");
}

static void print_message(out_stream *o, const pd_message *m)
{
  char hex[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  print_field(o, "Message:", m->id);
  print_field(o, "Commit:", pd_id_hex(&m->commit, hex));
  print_field(o, "Agent:", m->agent);
  print_field(o, "Session:", m->session);
  print_field(o, "Submission:", m->submission);
  print_field(o, "Parent:", m->parent);
  print_field(o, "Linked:", pd_time_text(m->time_ms, time));
  print_field(o, "Author:", m->author);
  print_field(o, "Reason:", m->reason);
}

/* ---- link ---- */

static pd_code unlink_message(cli_session *cli, const char *id, const pd_note *note, pd_error *err)
{
  TRY(engine_open(cli, CLI_WRITE, err));
  TRY(engine_message_unlink(cli, id, note, err));
  cli_say(cli, "message '%s' is not linked any more; its commit stays until gc", id);
  if (!cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "message", id);
  pd_json_put_bool(&w, "deleted", true);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code print_linked(cli_session *cli, const message_items *one, const pd_commit *commit, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  if (!cli->is_json) {
    out_printf(&cli->out, "%s\n", pd_id_hex(&commit->id, hex));
    return PD_OK;
  }
  if (!one->count) return pd_error_memory(err, "a message");
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  message_json(&w, &one->items[0].message);
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_link(cli_session *cli, const args_parsed *args, pd_error *err)
{
  const char *doomed = args_get(args, "delete");
  pd_note note = cli_note(args);
  if (doomed && args->word_count) return pd_error_set(err, PD_INVALID, "link: -d takes one message and nothing else");
  if (doomed) return unlink_message(cli, doomed, &note, err);
  if (!args->word_count) return pd_error_set(err, PD_INVALID, "link needs the id of a message");
  pd_message message = {.id = args->words[0],
                        .session = args_get(args, "session"),
                        .submission = args_get(args, "submission"),
                        .parent = args_get(args, "parent")};
  CLEANUP(items_done) message_items one = {0};
  pd_commit commit;
  TRY(engine_open(cli, CLI_WRITE, err));
  TRY(engine_message_link(cli, &message, args->word_count > 1 ? args->words[1] : NULL, &note, &commit, keep_message, &one, err));
  return print_linked(cli, &one, &commit, err);
}

static const args_option link_options[] = {
  {"session", 0, "S", "the conversation that the message belongs to"},
  {"submission", 0, "S", "the submission that it answers"},
  {"parent", 0, "ID", "the message before it, which must be linked"},
  {"delete", 'd', "ID", "forget the link of this message"},
  CLI_WHO_OPTIONS,
  {0},
};

const cli_command cmd_link = {
  .spec = {"link", link_options, 0, 2, false},
  .group = "history",
  .summary = "Link a message of a conversation to the state at its end",
  .usage = "MESSAGE_ID [X] | -d MESSAGE_ID",
  .about = "Remembers that the state after the message was the commit X (default: the current head), and prints the\n"
           "commit. From then on message:MESSAGE_ID is a point in history, and gc never removes what it needs.\n"
           "Linking a message again with the same data does nothing; with other data it is exit code 3.",
  .example = "$ perdure link msg-7 --session ses-1 --parent msg-6\n$ perdure get plan --at message:msg-7\n"
             "$ perdure fork retry --from-message msg-7",
  .run = run_link,
};

/* ---- resolve ---- */

typedef struct state_view {
  cli_session *cli;
  pd_json_writer *w; /* NULL: lines */
  bool has_values;
} state_view;

static bool print_entry(void *ctx, const pd_entry *entry, pd_bytes value)
{
  const state_view *view = ctx;
  out_stream *o = &view->cli->out;
  if (view->w) {
    pd_json_open(view->w, '{');
    pd_json_put_bytes(view->w, "key", entry->key);
    cli_entry_json(view->w, entry);
    if (view->has_values) cli_value_json(view->w, value);
    pd_json_close(view->w, '}');
    out_drain(o);
    return !out_is_closed(o);
  }
  out_text(o, "    ");
  out_safe(o, entry->key);
  if (view->has_values) out_text(o, " = ");
  if (view->has_values) cli_value_short(o, value, VALUE_SHOWN_MAX);
  out_text(o, "\n");
  return !out_is_closed(o);
}

/* The whole state at the message's commit. */
static pd_code print_state(cli_session *cli, const pd_id *commit, pd_json_writer *w, bool has_values, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_scan scan = {.keys_only = !has_values};
  state_view view = {cli, w, has_values};
  return engine_scan(cli, pd_id_hex(commit, hex), &scan, 0, print_entry, &view, err);
}

static pd_code run_resolve(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(items_done) message_items one = {0};
  bool has_values = args_get(args, "values"), has_keys = has_values || args_get(args, "keys");
  TRY(engine_open(cli, CLI_READ, err));
  TRY(get_message(cli, args->words[0], &one, err));
  const pd_message *m = &one.items[0].message;
  cli->out.wants_pager = cli->has_pager;
  if (!cli->is_json) {
    print_message(&cli->out, m);
    if (!has_keys) return PD_OK;
    out_text(&cli->out, "\n");
    return print_state(cli, &m->commit, NULL, has_values, err);
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  message_json(&w, m);
  if (has_keys) {
    pd_json_key(&w, "entries");
    pd_json_open(&w, '[');
    TRY(print_state(cli, &m->commit, &w, has_values, err));
    pd_json_close(&w, ']');
  }
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static const args_option resolve_options[] = {
  {"keys", 'k', NULL, "the keys of the state at that point too"},
  {"values", 'p', NULL, "keys and values (shortened, but whole with --json)"},
  {0},
};

const cli_command cmd_resolve = {
  .spec = {"resolve", resolve_options, 1, 1, false},
  .group = "history",
  .summary = "Show a linked message and the state at that point",
  .usage = "MESSAGE_ID",
  .about = "Shows the message: agent, session, submission, parent, and the commit that the state was at. Read on with\n"
           "--at message:MESSAGE_ID, which every reading command takes.",
  .example = "$ perdure resolve msg-7 -p\n$ perdure --json resolve msg-7 --values\n$ perdure ls --at message:msg-7",
  .run = run_resolve,
};

/* ---- messages ---- */

static int compare_items(const void *a, const void *b)
{
  const message_item *x = a, *y = b;
  int order = (x->message.link_seq > y->message.link_seq) - (x->message.link_seq < y->message.link_seq);
  return order ? order : strcmp(x->message.id, y->message.id);
}

static void print_line(out_stream *o, const pd_message *m)
{
  char hex[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  out_set(o, OUT_NAME);
  out_printf(o, "%-24s  ", m->id);
  out_set(o, OUT_ID);
  out_text(o, cli_short_id(&m->commit, hex));
  out_set(o, OUT_PLAIN);
  out_printf(o, "  %s  ", pd_time_text(m->time_ms, time));
  out_safe(o, pd_text(*m->session ? m->session : "-"));
  if (*m->parent) out_printf(o, "  after %s", m->parent);
  out_text(o, "\n");
}

static pd_code print_items(cli_session *cli, const message_items *all, pd_error *err)
{
  cli->out.wants_pager = cli->has_pager;
  if (!cli->is_json) {
    for (size_t i = 0; i < all->count; i++) print_line(&cli->out, &all->items[i].message);
    return PD_OK;
  }
  pd_json_writer w = cli_json(cli, err);
  pd_json_open(&w, '{');
  pd_json_key(&w, "messages");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < all->count; i++) {
    pd_json_open(&w, '{');
    message_json(&w, &all->items[i].message);
    pd_json_close(&w, '}');
    out_drain(&cli->out);
  }
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(cli, &w);
}

static pd_code run_messages(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(items_done) message_items all = {0};
  const char *session = args_get(args, "session"), *last = args_get(args, "before");
  if (session && last) return pd_error_set(err, PD_INVALID, "messages: --session and --before exclude each other");
  TRY(engine_open(cli, CLI_READ, err));
  if (last)
    TRY(engine_message_ancestors(cli, last, keep_message, &all, err));
  else
    TRY(engine_message_list(cli, session, keep_message, &all, err));
  if (all.code) return pd_error_memory(err, "the messages");
  if (all.count) qsort(all.items, all.count, sizeof *all.items, compare_items);
  return print_items(cli, &all, err);
}

static const args_option messages_options[] = {
  {"session", 0, "S", "only those of this session"},
  {"before", 0, "ID", "this message and those before it: its parent, and so on"},
  {0},
};

const cli_command cmd_messages = {
  .spec = {"messages", messages_options, 0, 0, false},
  .group = "history",
  .summary = "List the linked messages",
  .usage = "",
  .about = "Prints each linked message with its commit, when it was linked, its session and its parent, in the order in\n"
           "which they were linked.",
  .example = "$ perdure messages --session ses-1\n$ perdure messages --before msg-7",
  .run = run_messages,
};
