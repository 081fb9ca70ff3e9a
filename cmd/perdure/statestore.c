/* statestore.c: `statestore get|set|delete|has|list|clear|stats|flush`: a StateStore of any type, for people and scripts. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What a verb needs. */
typedef struct desk {
  cli_session *cli;
  const args_parsed *args;
  pd_statestore_options options;
  pd_buf config, texts;
  char warning[PD_ERROR_MESSAGE_MAX]; /* the last one */
  pd_statestore *store;
} desk;

static void desk_done(desk *d)
{
  pd_statestore_free(d->store);
  pd_buf_done(&d->config);
  pd_buf_done(&d->texts);
}

/* ---- opening ---- */

static void warn(void *ctx, pd_code code, const char *message)
{
  desk *d = ctx;
  (void)code;
  snprintf(d->warning, sizeof d->warning, "%s", message);
  if (!d->cli->is_quiet) fprintf(stderr, "perdure: warning: %s\n", message);
}

static pd_code read_type(const char *name, pd_statestore_type *out, pd_error *err)
{
  for (unsigned i = 0; i < PD_STATESTORE_TYPE_COUNT; i++) {
    if (strcmp(name, pd_statestore_type_name((pd_statestore_type)i)) != 0) continue;
    *out = (pd_statestore_type)i;
    return PD_OK;
  }
  return pd_error_set(err, PD_INVALID, "--type is file, database or perdure, not '%s'", name);
}

/* The configuration (--config, PERDURE_STATESTORE), and options over it. Without any: the agent's own store. */
static pd_code configure(desk *d, pd_error *err)
{
  const char *given = args_get(d->args, "config"), *variable = getenv("PERDURE_STATESTORE");
  const char *type = args_get(d->args, "type"), *path = args_get(d->args, "path"), *database = args_get(d->args, "database");
  const char *table = args_get(d->args, "table"), *config = given ? given : variable && *variable ? variable : NULL;
  pd_statestore_options *o = &d->options;
  *o = pd_statestore_defaults();
  o->enabled = true;
  o->type = PD_STATESTORE_PERDURE;
  o->uri = d->cli->uri;
  o->agent = d->cli->agent;
  o->warn = warn;
  o->warn_ctx = d;
  if (config) {
    o->enabled = false; /* its own default */
    o->type = PD_STATESTORE_MEMORY;
    TRY(cli_value_read(config, &d->config, err));
    TRY(pd_statestore_configure(pd_buf_bytes(&d->config), o, &d->texts, err));
  }
  if (path) o->type = PD_STATESTORE_FILE, o->path = path;
  if (database) o->type = PD_STATESTORE_DATABASE, o->database = database;
  if (table) o->table_name = table;
  if (type) TRY(read_type(type, &o->type, err));
  if (path || database || type) o->enabled = true;
  return PD_OK;
}

/* Is there anything to read? To look at it must not make it. */
static pd_code is_there(desk *d, bool *out, pd_error *err)
{
  const pd_statestore_options *o = &d->options;
  *out = true;
  if (o->type == PD_STATESTORE_FILE) *out = access(o->path, F_OK) == 0;
  if (o->type == PD_STATESTORE_DATABASE) *out = o->database && access(o->database, F_OK) == 0;
  if (o->type != PD_STATESTORE_PERDURE) return PD_OK;
  pd_ref ref;
  d->cli->uri = o->uri;
  d->cli->agent = o->agent;
  TRY(cli_open(d->cli, CLI_READ, err));
  pd_code code = pd_ref_get(d->cli->store, o->table_name, &ref, err);
  *out = code != PD_NOT_FOUND;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code open_desk(desk *d, bool writes, pd_error *err)
{
  bool has_something = true;
  TRY(configure(d, err));
  if (!d->options.enabled || d->options.type == PD_STATESTORE_MEMORY) {
    snprintf(d->cli->hint, sizeof d->cli->hint, "choose one with --type file, database or perdure");
    return pd_error_set(err, PD_INVALID, "a StateStore in memory is gone when this command ends");
  }
  if (!writes) TRY(is_there(d, &has_something, err));
  pd_statestore_options o = d->options;
  o.refuses_damage = true;               /* only an agent moves what it cannot use aside */
  if (!has_something) o.enabled = false; /* an empty one */
  TRY(pd_statestore_open(&o, &d->store, err));
  pd_statestore_stats stats;
  pd_statestore_stats_get(d->store, &stats);
  if (!stats.is_fallback) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "%s", d->warning);
}

/* ---- verbs ---- */

static pd_code no_key(const char *key, pd_error *err)
{
  return pd_error_set(err, PD_NOT_FOUND, "there is no key '%s'", key);
}

static pd_code do_get(desk *d, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  const char *key = d->args->words[1], *at = args_get(d->args, "at");
  TRY(at ? pd_statestore_get_at(d->store, at, pd_text(key), &value, err) : pd_statestore_get(d->store, pd_text(key), &value, err));
  if (!d->cli->is_json) {
    out_bytes(&d->cli->out, pd_buf_bytes(&value));
    out_text(&d->cli->out, "\n");
    return PD_OK;
  }
  pd_json_writer w = cli_json(d->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "key", key);
  cli_value_json(&w, pd_buf_bytes(&value));
  pd_json_close(&w, '}');
  return cli_json_end(d->cli, &w);
}

static pd_code do_has(desk *d, pd_error *err)
{
  bool has = pd_statestore_has(d->store, pd_text(d->args->words[1]));
  if (!has) d->cli->exit_code = CLI_EXIT_NEGATIVE;
  if (!d->cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(d->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "key", d->args->words[1]);
  pd_json_put_bool(&w, "has", has);
  pd_json_close(&w, '}');
  return cli_json_end(d->cli, &w);
}

/* One member that says what was done. The change is written when the store is closed, before this is printed. */
static pd_code tell(desk *d, const char *key, const char *what, uint64_t count, pd_error *err)
{
  TRY(pd_statestore_close(d->store, err));
  if (!d->cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(d->cli, err);
  pd_json_open(&w, '{');
  if (key) pd_json_put_text(&w, "key", key);
  pd_json_put_number(&w, what, count);
  pd_json_close(&w, '}');
  return cli_json_end(d->cli, &w);
}

/* JSON as it is; other text becomes a string, unless it begins like JSON. */
static pd_code do_set(desk *d, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0}, quoted = {0};
  TRY(cli_value_read(d->args->words[2], &text, err));
  TRY(cli_json_check(pd_buf_bytes(&text), CLI_AS_JSON_STRING, err));
  bool is_json = pd_json_parse(pd_buf_bytes(&text), NULL, NULL) == PD_OK;
  pd_json_writer w = {.out = &quoted, .err = err};
  if (!is_json && !pd_utf8_check(pd_buf_bytes(&text))) return pd_error_set(err, PD_INVALID, "the value is neither JSON nor UTF-8 text");
  if (!is_json) pd_json_text(&w, pd_buf_bytes(&text));
  TRY(w.code);
  TRY(pd_statestore_set(d->store, pd_text(d->args->words[1]), pd_buf_bytes(is_json ? &text : &quoted), err));
  return tell(d, d->args->words[1], "set", 1, err);
}

static pd_code do_delete(desk *d, pd_error *err)
{
  bool was_there = false;
  TRY(pd_statestore_delete(d->store, pd_text(d->args->words[1]), &was_there, err));
  return was_there ? tell(d, d->args->words[1], "deleted", 1, err) : no_key(d->args->words[1], err);
}

typedef struct listing {
  desk *d;
  pd_json_writer w;
  uint64_t count;
} listing;

static bool list_entry(void *ctx, pd_bytes key, pd_bytes value)
{
  listing *l = ctx;
  out_stream *o = &l->d->cli->out;
  l->count++;
  if (l->d->cli->is_json) {
    pd_json_open(&l->w, '{');
    pd_json_put_bytes(&l->w, "key", key);
    pd_json_key(&l->w, "value");
    pd_json_raw(&l->w, value);
    pd_json_close(&l->w, '}');
    return !l->w.code;
  }
  out_set(o, OUT_NAME);
  out_tsv(o, key);
  out_set(o, OUT_PLAIN);
  out_text(o, "\t");
  if (o->is_terminal)
    cli_value_short(o, value, 100);
  else
    out_tsv(o, value);
  out_text(o, "\n");
  return !out_is_closed(o);
}

static pd_code do_list(desk *d, pd_error *err)
{
  listing l = {.d = d, .w = cli_json(d->cli, err)};
  pd_bytes prefix = pd_text(d->args->word_count > 1 ? d->args->words[1] : "");
  d->cli->out.wants_pager = d->cli->has_pager;
  if (d->cli->is_json) {
    pd_json_open(&l.w, '{');
    pd_json_key(&l.w, "entries");
    pd_json_open(&l.w, '[');
  }
  TRY(pd_statestore_list(d->store, prefix, list_entry, &l, err));
  if (!d->cli->is_json) return PD_OK;
  pd_json_close(&l.w, ']');
  pd_json_put_number(&l.w, "count", l.count);
  pd_json_close(&l.w, '}');
  return cli_json_end(d->cli, &l.w);
}

static bool count_entry(void *ctx, pd_bytes key, pd_bytes value)
{
  (void)key;
  (void)value;
  ++*(uint64_t *)ctx;
  return true;
}

static pd_code do_clear(desk *d, pd_error *err)
{
  uint64_t count = 0;
  bool is_dry = args_get(d->args, "dry-run") != NULL;
  pd_bytes prefix = pd_text(d->args->word_count > 1 ? d->args->words[1] : "");
  if (!prefix.size && !is_dry && !args_get(d->args, "all"))
    return pd_error_set(err, PD_INVALID, "statestore clear: which keys? Give a prefix, or --all");
  if (is_dry)
    TRY(pd_statestore_list(d->store, prefix, count_entry, &count, err));
  else
    TRY(pd_statestore_clear(d->store, prefix, &count, err));
  TRY(tell(d, NULL, is_dry ? "would_delete" : "deleted", count, err));
  cli_say(d->cli, is_dry ? "%" PRIu64 " keys would go" : "%" PRIu64 " keys are gone", count);
  return PD_OK;
}

static const char *where_of(const pd_statestore_options *o)
{
  return o->type == PD_STATESTORE_FILE ? o->path : o->type == PD_STATESTORE_DATABASE ? o->database : o->uri;
}

static pd_code do_stats(desk *d, pd_error *err)
{
  const pd_statestore_options *o = &d->options;
  pd_statestore_stats s;
  char size[OUT_SIZE_TEXT];
  TRY(pd_statestore_flush(d->store, err));
  pd_statestore_stats_get(d->store, &s);
  bool has_table = o->type != PD_STATESTORE_FILE;
  if (!d->cli->is_json) {
    out_printf(&d->cli->out, "%-10s %s\n%-10s %s\n", "type", pd_statestore_type_name(o->type), "where", where_of(o));
    if (has_table) out_printf(&d->cli->out, "%-10s %s\n", "table", o->table_name);
    out_printf(&d->cli->out, "%-10s %" PRIu64 "\n%-10s %s\n", "keys", s.keys, "size", out_size(s.bytes, size));
    return PD_OK;
  }
  pd_json_writer w = cli_json(d->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "type", pd_statestore_type_name(o->type));
  pd_json_put_text(&w, "where", where_of(o));
  if (has_table) pd_json_put_text(&w, "table_name", o->table_name);
  pd_json_put_number(&w, "flush_interval_ms", o->flush_interval_ms);
  pd_json_put_number(&w, "keys", s.keys);
  pd_json_put_number(&w, "bytes", s.bytes);
  pd_json_put_number(&w, "pending", s.pending);
  pd_json_close(&w, '}');
  return cli_json_end(d->cli, &w);
}

/* ---- the command ---- */

typedef struct verb {
  const char *name;
  size_t word_min, word_max; /* after it */
  bool writes;
  pd_code (*run)(desk *d, pd_error *err);
} verb;

static const verb verbs[] = {
  {"get", 1, 1, false, do_get},   {"set", 2, 2, true, do_set},     {"delete", 1, 1, true, do_delete}, {"has", 1, 1, false, do_has},
  {"list", 0, 1, false, do_list}, {"clear", 0, 1, true, do_clear}, {"stats", 0, 0, false, do_stats},  {"flush", 0, 0, true, do_stats},
};

static pd_code run_statestore(cli_session *cli, const args_parsed *args, pd_error *err)
{
  CLEANUP(desk_done) desk d = {.cli = cli, .args = args};
  const verb *found = NULL;
  for (size_t i = 0; i < COUNT_OF(verbs); i++)
    if (strcmp(args->words[0], verbs[i].name) == 0) found = &verbs[i];
  if (!found)
    return pd_error_set(err, PD_INVALID, "statestore: '%s' is none of: get, set, delete, has, list, clear, stats, flush", args->words[0]);
  size_t given = args->word_count - 1;
  if (given < found->word_min || given > found->word_max)
    return pd_error_set(err, PD_INVALID, "statestore %s: takes %s, not %zu words", found->name,
                        found->word_min == 2 ? "KEY and VALUE"
                        : found->word_min    ? "KEY"
                        : found->word_max    ? "[PREFIX]"
                                             : "nothing",
                        given);
  bool is_dry = args_get(args, "dry-run") != NULL;
  if (is_dry && found->run != do_clear) return pd_error_set(err, PD_INVALID, "statestore: --dry-run goes with clear");
  if (args_get(args, "all") && found->run != do_clear) return pd_error_set(err, PD_INVALID, "statestore: --all goes with clear");
  if (args_get(args, "at") && found->run != do_get) return pd_error_set(err, PD_INVALID, "statestore: --at goes with get");
  TRY(open_desk(&d, found->writes && !is_dry, err));
  TRY(found->run(&d, err));
  return pd_statestore_close(d.store, err);
}

static const args_option statestore_options[] = {
  {"config", 0, "JSON", "the statePersistence object, or @FILE (PERDURE_STATESTORE)"},
  {"type", 0, "TYPE", "file, database or perdure (default: perdure, in --store)"},
  {"path", 0, "FILE", "type file: the JSON file (default zup.state.json)"},
  {"database", 0, "FILE", "type database: the SQLite file"},
  {"table", 0, "NAME", "the table, without core_; type perdure: the ref (default state)"},
  CLI_AT_OPTION,
  {"all", 0, NULL, "clear: all keys"},
  {"dry-run", 0, NULL, "clear: only tell how many keys would go"},
  {0},
};

const cli_command cmd_statestore = {
  .spec = {"statestore", statestore_options, 1, 3, false},
  .group = "agents",
  .summary = "The StateStore of an agent: a file, a table or a store",
  .usage = "get KEY|set KEY VALUE|delete KEY|has KEY|list [PREFIX]|clear PREFIX|stats|flush",
  .about = "Reads and changes a StateStore as agents configure it. Values are JSON; other text becomes\n"
           "a string. A change is durable when the command has ended. A file that an agent has open is\n"
           "that agent's alone (exit 3). Reading makes nothing.",
  .example = "$ perdure statestore --path zup.state.json list run:\n$ perdure statestore set my-plugin:checkCount 7\n"
             "$ perdure statestore get my-plugin:checkCount --at state~1\n"
             "$ perdure statestore stats --config '{\"enabled\":true,\"type\":\"database\",\"config\":{\"database\":\"zup.db\"}}'",
  .run = run_statestore,
};
