/*
 * complete.c: what could come next on a command line, for the shells (`perdure __complete -- WORDS…`). Commands and options come from
 * the table; keys, refs, tags and agents from the store, read-only. Whatever goes wrong, it prints nothing: a shell that completes has
 * nobody to tell.
 *
 * One candidate a line, perhaps a tab and an explanation. The first line may be ":files" or ":folders": the shell's own completion
 * is to be used as well.
 */
#include "base/base.h"
#include "base/buf.h"
#include "commands.h"
#include "engine.h"
#include "far_home.h"
#include "fields.h"

#include <stdio.h>
#include <stdlib.h>

#define CANDIDATES_MAX 500
#define FAR_KEYS_MAX 10000 /* keys of a server that are looked at */

/* The command line so far. */
typedef struct line {
  cli_session *cli;
  const cli_command *command;
  size_t word_index;         /* of the word to complete, among the command's */
  const char *first;         /* the first of the command's words; NULL: it is the one to complete */
  const args_option *option; /* the word to complete is its value */
  bool has_ended_options;    /* after -- */
  const char *store, *agent;
  const char *text;   /* the word to complete, or the part of it that counts */
  const char *before; /* "--at=": goes before each candidate */
  size_t before_size;
} line;

static void offer(line *l, pd_bytes candidate, const char *help)
{
  size_t size = strlen(l->text);
  if (candidate.size < size || memcmp(candidate.data, l->text, size) != 0) return;
  if (memchr(candidate.data, '\n', candidate.size) || memchr(candidate.data, '\t', candidate.size)) return;
  out_stream *o = &l->cli->out;
  out_bytes(o, (pd_bytes){l->before, l->before_size});
  out_bytes(o, candidate);
  if (help) out_printf(o, "\t%s", help);
  out_text(o, "\n");
}

/* ---- what the store knows ---- */

static bool open_store(line *l)
{
  static char uri[4200];
  const char *home = getenv("HOME");
  if (l->cli->store || (l->cli->is_remote && !l->store && !l->agent)) return true;
  if (l->store) {
    bool is_home = strncmp(l->store, "~/", 2) == 0 && home;
    snprintf(uri, sizeof uri, "%s%s%s", cli_has_scheme(l->store) ? "" : "sqlite:", is_home ? home : "", l->store + is_home);
    l->cli->uri = uri;
    l->cli->is_remote = false;
  }
  if (l->agent) l->cli->agent = l->agent;
  return l->cli->is_remote || cli_open(l->cli, CLI_READ, NULL) == PD_OK;
}

static void offer_refs(line *l)
{
  CLEANUP(names_done) names_list names = {0};
  if (!open_store(l) || engine_names(l->cli, &names, NULL)) return;
  for (size_t i = 0; i < names_count(&names); i++) offer(l, pd_text(names_at(&names, i)->text), "ref");
}

/* The keys that begin alike, of a server, which are asked for at once. */
typedef struct far_keys {
  line *l;
  char last[PD_KEY_SIZE_MAX + 1]; /* that was offered */
  size_t count;
} far_keys;

static bool offer_far_key(void *ctx, const pd_entry *entry, pd_bytes value)
{
  far_keys *keys = ctx;
  size_t size = strlen(keys->l->text);
  const char *key = entry->key.data, *slash = entry->key.size > size ? memchr(key + size, '/', entry->key.size - size) : NULL;
  size_t shown = slash ? (size_t)(slash - key) + 1 : entry->key.size;
  (void)value;
  if (strlen(keys->last) == shown && memcmp(keys->last, key, shown) == 0) return true;
  snprintf(keys->last, sizeof keys->last, "%.*s", (int)shown, key);
  offer(keys->l, (pd_bytes){key, shown}, slash ? "keys" : "key");
  return ++keys->count < CANDIDATES_MAX;
}

/* Keys as if '/' made folders: what begins alike up to the next '/' is one candidate, and is skipped in one step. */
static void offer_keys(line *l)
{
  CLEANUP(pd_buf_done) pd_buf next = {.size_max = PD_KEY_SIZE_MAX + 1};
  size_t size = strlen(l->text);
  const char *command = l->command ? l->command->spec.name : "";
  if (strcmp(command, "session") == 0) return; /* its keys are in the memory of the server */
  if (strcmp(command, "shared") == 0) l->agent = "shared";
  if (!open_store(l)) return;
  if (l->cli->is_remote) {
    far_keys keys = {.l = l};
    (void)!engine_scan(l->cli, NULL, &(pd_scan){.prefix = pd_text(l->text), .keys_only = true}, FAR_KEYS_MAX, offer_far_key, &keys, NULL);
    return;
  }
  for (size_t count = 0; count < CANDIDATES_MAX; count++) {
    pd_scan scan = {.prefix = pd_text(l->text), .from = pd_buf_bytes(&next), .keys_only = true};
    pd_iter *iter = NULL;
    pd_entry entry;
    if (pd_iter_open(l->cli->store, NULL, &scan, &iter, NULL)) return;
    pd_code code = pd_iter_next(iter, &entry, NULL, NULL);
    if (!code) {
      const char *key = entry.key.data, *slash = memchr(key + size, '/', entry.key.size - size);
      size_t shown = slash ? (size_t)(slash - key) + 1 : entry.key.size;
      offer(l, (pd_bytes){key, shown}, slash ? "keys" : "key");
      pd_buf_clear(&next);
      code = pd_buf_append(&next, key, shown, NULL);
      if (!code && slash) next.data[shown - 1]++; /* '0' comes after '/': past all keys below it */
      if (!code && !slash) code = pd_buf_append(&next, "\1", 1, NULL);
    }
    pd_iter_close(iter);
    if (code) return;
  }
}

static void offer_agent(void *ctx, const char *agent)
{
  offer(ctx, pd_text(agent), "agent");
}

static void offer_agents(line *l)
{
  l->agent = NULL;
  (void)!open_store(l); /* for its URI */
  (void)!(l->cli->is_remote ? far_agents(l->cli, offer_agent, l, NULL) : pd_home_agents(l->cli->uri, offer_agent, l, NULL));
}

static bool offer_tag(void *ctx, const pd_mark *tag)
{
  offer(ctx, pd_text(tag->name), "tag");
  return true;
}

/* Points in history: refs and tags. */
static void offer_points(line *l)
{
  offer_refs(l);
  if (open_store(l)) (void)!engine_mark_list(l->cli, "tag", offer_tag, l, NULL);
  offer(l, pd_text("root"), "the empty commit that every history begins with");
}

static void offer_commands(line *l)
{
  const cli_command *const *commands = cli_commands();
  for (size_t i = 0; commands[i]; i++)
    if (strcmp(commands[i]->group, CLI_HIDDEN) != 0) offer(l, pd_text(commands[i]->spec.name), commands[i]->summary);
}

static void offer_capabilities(line *l)
{
  pd_capability_info info;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) offer(l, pd_text(info.name), info.summary);
}

/* The capability that the line calls; NULL: none is known. */
static const char *called(const line *l)
{
  if (!l->command || !l->first) return NULL;
  return strcmp(l->command->spec.name, "call") == 0 ? l->first : tier_capability(l->command->spec.name, l->first);
}

/* Its fields as options. */
static void offer_fields(line *l)
{
  const char *capability = called(l);
  pd_capability_info info;
  pd_json document, key, schema;
  if (!capability || pd_capability_find(capability, &info, NULL) || pd_json_parse(pd_text(info.document), &document, NULL)) return;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(pd_json_member(document, "inputs"), "properties"));
  while (pd_json_walk_next(&walk, &key, &schema)) {
    CLEANUP(pd_buf_done) pd_buf help = {0};
    char text[80];
    int size = snprintf(text, sizeof text, "--%.*s", (int)key.raw.size - 2, (const char *)key.raw.data + 1);
    for (int i = 2; i < size && text[i]; i++)
      if (text[i] == '_') text[i] = '-';
    bool has_help = pd_json_decode(pd_json_member(schema, "description"), &help, NULL) == PD_OK && pd_buf_byte(&help, 0, NULL) == PD_OK;
    offer(l, pd_text(text), has_help ? (const char *)help.data : NULL);
  }
}

/* ---- what a word may be ---- */

static bool is_word(const char *word, size_t size, const char *name)
{
  return strlen(name) == size && memcmp(word, name, size) == 0;
}

/* `word` is a placeholder of a usage or an option: KEY, X, FILE… */
static void offer_for(line *l, const char *word, size_t size)
{
  static const struct {
    const char *word;
    void (*offer)(line *l);
  } kinds[] = {{"KEY", offer_keys},     {"PREFIX", offer_keys},
               {"X", offer_points},     {"A", offer_points},
               {"B", offer_points},     {"AT", offer_points},
               {"REF", offer_refs},     {"COMMAND", offer_commands},
               {"AGENT", offer_agents}, {"CAPABILITY", offer_capabilities},
               {"TAG", offer_points},   {"POINT", offer_points},
               {"COMMIT", offer_points}};
  while (size && strchr("[]().", *word)) word++, size--;
  while (size && strchr("[]().", word[size - 1])) size--;
  if (size > 3 && memcmp(word + size - 3, "…", 3) == 0) size -= 3;
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (is_word(word, size, kinds[i].word)) kinds[i].offer(l);
  if (is_word(word, size, "FILE") || is_word(word, size, "@FILE") || is_word(word, size, "PATH")) out_text(&l->cli->out, ":files\n");
  if (is_word(word, size, "URI") || is_word(word, size, "FOLDER") || is_word(word, size, "HOME")) out_text(&l->cli->out, ":folders\n");
  bool is_literal = size > 1 && word[0] >= 'a' && word[0] <= 'z';
  if (is_literal) offer(l, (pd_bytes){word, size}, NULL);
}

/* Alternatives: "REF|--all", "KEY". */
static void offer_any_of(line *l, const char *words, size_t size)
{
  for (size_t at = 0; at < size;) {
    size_t part = 0;
    while (at + part < size && words[at + part] != '|') part++;
    offer_for(l, words + at, part);
    at += part + 1;
  }
}

static void offer_value(line *l)
{
  const char *name = l->option->name, *param = l->option->param;
  bool names_a_ref = strcmp(name, "ref") == 0 || (l->command && l->command->spec.options && strcmp(l->command->spec.name, "refs") == 0);
  if (strcmp(name, "agent") == 0)
    offer_agents(l);
  else if (strcmp(param, "NAME") == 0 && names_a_ref)
    offer_refs(l);
  else
    offer_any_of(l, param, strlen(param));
}

static void offer_options(line *l)
{
  const args_option *tables[] = {l->command ? l->command->spec.options : NULL, cli_global_options()};
  for (size_t t = 0; t < COUNT_OF(tables); t++)
    for (const args_option *option = tables[t]; option && option->name; option++) {
      char text[80];
      snprintf(text, sizeof text, "--%s", option->name);
      offer(l, pd_text(text), option->help);
    }
}

/* Verbs, each with words of its own: "get KEY|set KEY VALUE", "[list | show ID]". */
static bool has_verbs(const cli_command *command)
{
  const char *usage = command->usage + (command->usage[0] == '[');
  return usage[0] >= 'a' && usage[0] <= 'z' && strcmp(command->spec.name, "help") != 0;
}

static void offer_verb(line *l)
{
  for (const char *at = l->command->usage; *at;) {
    size_t size = strcspn(at, "|");
    const char *verb = at + strspn(at, "[ ");
    size_t verb_size = strcspn(verb, " |]");
    bool is_it = l->first && is_word(verb, verb_size, l->first);
    if (!l->first) offer_for(l, verb, verb_size);
    for (size_t index = 0; is_it && verb + verb_size < at + size; index++) { /* on to the word at the place */
      verb += verb_size;
      verb += strspn(verb, " ");
      verb_size = strcspn(verb, " |");
      bool repeats = verb_size > 3 && memcmp(verb + verb_size - 3, "…", 3) == 0;
      if (index + 1 == l->word_index || repeats) offer_for(l, verb, verb_size);
    }
    at += size + (at[size] == '|');
  }
}

/* The word of the usage at the place of the one to complete; the last one again if it repeats. */
static void offer_word(line *l)
{
  const char *usage = l->command->usage, *name = l->command->spec.name;
  size_t index = 0;
  if (has_verbs(l->command)) {
    offer_verb(l);
    return;
  }
  while (*usage) {
    size_t size = strcspn(usage, " ");
    bool repeats = (size > 3 && strstr(usage, "...") && strstr(usage, "...") < usage + size) ||
                   (strstr(usage, "…") && strstr(usage, "…") < usage + size);
    if (usage[0] != '-' && strncmp(usage, "[-", 2) != 0 && (index++ == l->word_index || repeats)) {
      bool is_name = is_word(usage, size, "NAME") || is_word(usage, size, "[NAME]");
      if (is_name && strcmp(name, "fork") != 0)
        offer_points(l);
      else
        offer_any_of(l, usage, size);
      return;
    }
    usage += size;
    while (*usage == ' ') usage++;
  }
}

/* ---- reading the line ---- */

static const args_option *find_option(const line *l, const char *word)
{
  const args_option *tables[] = {l->command ? l->command->spec.options : NULL, cli_global_options()};
  for (size_t t = 0; t < COUNT_OF(tables); t++)
    for (const args_option *option = tables[t]; option && option->name; option++) {
      bool is_long = strncmp(word, "--", 2) == 0 && is_word(word + 2, strcspn(word + 2, "="), option->name);
      if (is_long || (option->letter && word[1] == option->letter && !word[2])) return option;
    }
  return NULL;
}

static void keep_value(line *l, const args_option *option, const char *value)
{
  if (strcmp(option->name, "store") == 0) l->store = value;
  if (strcmp(option->name, "agent") == 0) l->agent = value;
}

static void read_word(line *l, const char *word)
{
  const args_option *option = l->option;
  l->option = NULL;
  if (option) {
    keep_value(l, option, word);
  } else if (!l->has_ended_options && strcmp(word, "--") == 0) {
    l->has_ended_options = true;
  } else if (!l->has_ended_options && word[0] == '-' && word[1]) {
    option = find_option(l, word);
    const char *value = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    if (option && option->param && value) keep_value(l, option, value + 1);
    if (option && option->param && !value) l->option = option;
  } else if (!l->command) {
    const cli_command *const *commands = cli_commands();
    for (size_t i = 0; commands[i]; i++)
      if (strcmp(commands[i]->spec.name, word) == 0) l->command = commands[i];
  } else {
    if (!l->word_index++) l->first = word;
  }
}

static void complete(line *l)
{
  const char *equals = strncmp(l->text, "--", 2) == 0 ? strchr(l->text, '=') : NULL;
  if (!l->option && !l->has_ended_options && equals) {
    l->option = find_option(l, l->text);
    l->before = l->text;
    l->before_size = (size_t)(equals - l->text) + 1;
    l->text = equals + 1;
    if (!l->option || !l->option->param) return;
  }
  if (l->option)
    offer_value(l);
  else if (!l->has_ended_options && l->text[0] == '-')
    offer_fields(l), offer_options(l);
  else if (!l->command)
    offer_commands(l);
  else
    offer_word(l);
}

static pd_code run_complete(cli_session *cli, const args_parsed *args, pd_error *err)
{
  (void)err;
  line l = {.cli = cli, .text = args->words[args->word_count - 1]};
  for (size_t i = 1; i + 1 < args->word_count; i++) read_word(&l, args->words[i]);
  complete(&l);
  cli->exit_code = 0;
  cli->hint[0] = 0;
  return PD_OK;
}

const cli_command cmd_complete = {
  .spec = {"__complete", NULL, 1, 100000, false},
  .group = CLI_HIDDEN,
  .summary = "Print what could come next on a command line",
  .usage = "-- WORDS...",
  .about = "For the completions of bash, zsh and fish.",
  .example = "$ perdure __complete -- perdure get pl",
  .run = run_complete,
};
