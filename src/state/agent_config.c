/*
 * agent_config.c: agent.toml, read strictly: what is unknown, twice, of the wrong form or out of bounds is refused with FILE:LINE.
 *
 *     name = "worker"                              [quotas]                        [restart]
 *     object_storage = "sqlite:/srv/worker"        persistent = "10 MB"            policy = "on-failure"
 *     snapshot_storage = "redis://localhost/0"
 *     command = ["python3", "agent.py"]            session = "5 MB"                backoff = "200ms..30s"
 *                                                  memory = "1 GiB"                max = "10/10m"
 *     [folders]                                    files = 256                     healthy = "10s"
 *     watch = ["src", "/srv/inbox"]                                                grace = "10s"
 *     hidden = false
 */
#include "base/base.h"
#include "base/distance.h"
#include "base/error.h"
#include "base/file.h"
#include "base/toml.h"
#include "state/config.h"

#include <limits.h>
#include <perdure/storage.h>
#include <perdure/supervise.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define URI_SIZE_MAX 4096
#define AT(member) offsetof(pd_agent_config, member)
#define SECOND ((uint64_t)1000)
#define DAY (86400 * SECOND)
#define MB ((uint64_t)1024 * 1024)
#define TB (MB * MB)

/* Where a text stands, and what paths in it are meant from. */
typedef struct place {
  const char *where, *folder;
} place;

static const pd_config_item numbers[] = {
  {"quotas.persistent", PD_UNIT_BYTES, AT(persistent_quota_bytes), 0, 1, 1000 * TB, "", ""},
  {"quotas.session", PD_UNIT_BYTES, AT(session_quota_bytes), 0, 1, TB, "", ""},
  {"quotas.memory", PD_UNIT_BYTES, AT(memory_bytes), 0, 16 * MB, 1000 * TB, "", ""},
  {"quotas.files", PD_UNIT_COUNT, AT(files_max), 0, 16, 1048576, "", ""},
  {"restart.healthy", PD_UNIT_MS, AT(healthy_ms), 10 * SECOND, 0, 365 * DAY, "", ""},
  {"restart.grace", PD_UNIT_MS, AT(grace_ms), 10 * SECOND, 0, DAY, "", ""},
};
static const pd_config_item backoff_times[] = {
  {"restart.backoff", PD_UNIT_MS, AT(backoff_min_ms), 200, 1, DAY, "", ""},
  {"restart.backoff", PD_UNIT_MS, AT(backoff_max_ms), 30 * SECOND, 1, DAY, "", ""},
};
static const pd_config_item max_parts[] = {
  {"restart.max", PD_UNIT_COUNT, AT(restarts_max), 10, 0, PD_AGENT_RESTARTS_MAX, "", ""},
  {"restart.max", PD_UNIT_MS, AT(restarts_within_ms), 600 * SECOND, 1, 365 * DAY, "", ""},
};

static void set_default(pd_agent_config *config, const pd_config_item *items, size_t count)
{
  for (size_t i = 0; i < count; i++) *(uint64_t *)((char *)config + items[i].offset) = items[i].otherwise;
}

void pd_agent_config_init(pd_agent_config *config)
{
  *config = (pd_agent_config){0};
  set_default(config, numbers, COUNT_OF(numbers));
  set_default(config, backoff_times, COUNT_OF(backoff_times));
  set_default(config, max_parts, COUNT_OF(max_parts));
}

static void free_list(char ***list, size_t *count)
{
  for (size_t i = 0; i < *count; i++) free((*list)[i]);
  free(*list);
  *list = NULL;
  *count = 0;
}

void pd_agent_config_done(pd_agent_config *config)
{
  free(config->object_storage);
  free(config->snapshot_storage);
  free(config->file);
  free_list(&config->command, &config->command_count);
  free_list(&config->folders, &config->folder_count);
  *config = (pd_agent_config){0};
}

const char *pd_restart_name(pd_restart restart)
{
  static const char *const names[] = {"on-failure", "always", "never"};
  return (size_t)restart < COUNT_OF(names) ? names[restart] : "?";
}

/* ---- texts ---- */

static pd_code keep_text(char **slot, char *made, pd_error *err)
{
  if (!made) return pd_error_memory(err, "an agent's configuration");
  free(*slot);
  *slot = made;
  return PD_OK;
}

/* PREFIX FOLDER/PATH, or PREFIX PATH if the path is absolute. */
static pd_code join(const char *prefix, const char *folder, const char *path, char **slot, pd_error *err)
{
  char *made = NULL;
  int size = *path == '/' ? asprintf(&made, "%s%s", prefix, path) : asprintf(&made, "%s%s/%s", prefix, folder, path);
  return keep_text(slot, size < 0 ? NULL : made, err);
}

static pd_code take_name(pd_agent_config *config, const char *text, const place *at, pd_error *err)
{
  pd_error why;
  if (pd_agent_check(text, &why)) return pd_error_set(err, PD_INVALID, "%s: %s", at->where, why.message);
  snprintf(config->name, sizeof config->name, "%s", text);
  return PD_OK;
}

/* A storage may lie elsewhere than the process that opens it stands: its path is made absolute. */
static pd_code take_snapshots(pd_agent_config *config, const char *text, const place *at, pd_error *err)
{
  static const char *const with_path[] = {"file:", "sqlite-snapshots:", "perdure:sqlite:", "plugin:"};
  if (strlen(text) > URI_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "%s: 'snapshot_storage' is longer than %d bytes", at->where, URI_SIZE_MAX);
  if (!pd_storage_is_known(text))
    return pd_error_set(err, PD_INVALID,
                        "%s: 'snapshot_storage' is no storage of snapshots: write file:DIR, sqlite-snapshots:FILE, redis://HOST, "
                        "perdure:sqlite:DIR or plugin:PATH.so",
                        at->where);
  for (size_t i = 0; i < COUNT_OF(with_path); i++) {
    size_t prefix = strlen(with_path[i]);
    if (strncmp(text, with_path[i], prefix) == 0) return join(with_path[i], at->folder, text + prefix, &config->snapshot_storage, err);
  }
  return keep_text(&config->snapshot_storage, strdup(text), err);
}

/* Where its store is. Before there was snapshot_storage it was where its snapshots are, and files that say so still mean that. */
static pd_code take_storage(pd_agent_config *config, const char *text, const place *at, pd_error *err)
{
  static const char store[] = "sqlite:";
  if (strlen(text) > URI_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "%s: 'object_storage' is longer than %d bytes", at->where, URI_SIZE_MAX);
  if (strncmp(text, store, strlen(store)) == 0 && text[strlen(store)])
    return join(store, at->folder, text + strlen(store), &config->object_storage, err);
  if (!pd_storage_is_known(text))
    return pd_error_set(err, PD_INVALID,
                        "%s: 'object_storage' is no storage: write sqlite:DIR; where its snapshots are is 'snapshot_storage'", at->where);
  config->has_old_storage = true;
  return take_snapshots(config, text, at, err);
}

static pd_code take_policy(pd_agent_config *config, const char *text, const place *at, pd_error *err)
{
  for (pd_restart r = PD_RESTART_ON_FAILURE; r <= PD_RESTART_NEVER; r++)
    if (strcmp(text, pd_restart_name(r)) == 0) {
      config->restart = r;
      return PD_OK;
    }
  return pd_error_set(err, PD_INVALID, "%s: 'restart.policy' is '%.60s'; it must be always, on-failure or never", at->where, text);
}

/* `text` is two values with `between` between them. */
static pd_code take_pair(pd_agent_config *config, const pd_config_item items[2], const char *text, const char *between, const place *at,
                         const char *form, pd_error *err)
{
  char first[PD_CONFIG_TEXT_SIZE];
  const char *middle = strstr(text, between);
  if (!middle || (size_t)(middle - text) >= sizeof first)
    return pd_error_set(err, PD_INVALID, "%s: '%s' is '%.60s'; it must be %s", at->where, items[0].name, text, form);
  snprintf(first, sizeof first, "%.*s", (int)(middle - text), text);
  TRY(pd_config_take_text(config, &items[0], first, at->where, err));
  return pd_config_take_text(config, &items[1], middle + strlen(between), at->where, err);
}

static pd_code take_backoff(pd_agent_config *config, const char *text, const place *at, pd_error *err)
{
  TRY(take_pair(config, backoff_times, text, "..", at, "MIN..MAX, two times like 200ms..30s", err));
  if (config->backoff_min_ms <= config->backoff_max_ms) return PD_OK;
  return pd_error_set(err, PD_INVALID, "%s: 'restart.backoff' is '%.60s'; its first time is longer than its second", at->where, text);
}

static pd_code take_max(pd_agent_config *config, const char *text, const place *at, pd_error *err)
{
  if (strcmp(text, "none") != 0) return take_pair(config, max_parts, text, "/", at, "N/TIME, like 10/10m, or none", err);
  config->restarts_max = 0;
  return PD_OK;
}

static const struct {
  const char *name;
  pd_code (*take)(pd_agent_config *config, const char *text, const place *at, pd_error *err);
} texts[] = {
  {"name", take_name},
  {"object_storage", take_storage},
  {"snapshot_storage", take_snapshots},
  {"restart.policy", take_policy},
  {"restart.backoff", take_backoff},
  {"restart.max", take_max},
};

/* ---- arrays ---- */

/* Take an array of strings; each is `folder`/text where `folder` is given and the text is not absolute. */
static pd_code take_list(const pd_toml_entry *entry, const place *at, const char *folder, size_t count_max, char ***list, size_t *count,
                         pd_error *err)
{
  const pd_toml_value *value = &entry->value;
  if (value->kind != PD_TOML_ARRAY)
    return pd_error_set(err, PD_INVALID, "%s: '%s' is %s; it must be an array of strings", at->where, entry->name,
                        pd_toml_kind_name(value->kind));
  if (value->item_count > count_max)
    return pd_error_set(err, PD_LIMIT, "%s: '%s' has %zu strings; the most are %zu", at->where, entry->name, value->item_count, count_max);
  free_list(list, count);
  *list = calloc(value->item_count + 1, sizeof **list);
  if (!*list) return pd_error_memory(err, "an agent's configuration");
  for (; *count < value->item_count; ++*count) {
    const pd_toml_value *item = &value->items[*count];
    if (item->kind != PD_TOML_STRING || (!*item->text && (folder || !*count)))
      return pd_error_set(err, PD_INVALID, "%s: item %zu of '%s' is %s; it must be a string", at->where, *count + 1, entry->name,
                          item->kind == PD_TOML_STRING ? "empty" : pd_toml_kind_name(item->kind));
    if (folder)
      TRY(join("", folder, item->text, &(*list)[*count], err));
    else
      TRY(keep_text(&(*list)[*count], strdup(item->text), err));
  }
  return PD_OK;
}

/* ---- the file ---- */

static const char *const other_names[] = {"command", "folders.watch", "folders.hidden"};
static const char *const tables[] = {"folders", "quotas", "restart"};

static void consider(const char *name, const char *known, const char **best)
{
  if (!*best || pd_text_distance(name, known) < pd_text_distance(name, *best)) *best = known;
}

static pd_code unknown(const char *where, const char *name, pd_error *err)
{
  const char *best = NULL;
  for (size_t i = 0; i < COUNT_OF(texts); i++) consider(name, texts[i].name, &best);
  for (size_t i = 0; i < COUNT_OF(numbers); i++) consider(name, numbers[i].name, &best);
  for (size_t i = 0; i < COUNT_OF(other_names); i++) consider(name, other_names[i], &best);
  return pd_error_set(err, PD_INVALID, "%s: there is no setting '%.100s' of an agent; the nearest is '%s'", where, name, best);
}

static const pd_config_item *find_number(const char *name)
{
  for (size_t i = 0; i < COUNT_OF(numbers); i++)
    if (strcmp(numbers[i].name, name) == 0) return &numbers[i];
  return NULL;
}

static pd_code take_hidden(pd_agent_config *config, const pd_toml_value *value, const place *at, pd_error *err)
{
  if (value->kind != PD_TOML_BOOL)
    return pd_error_set(err, PD_INVALID, "%s: 'folders.hidden' is %s; it must be true or false", at->where, pd_toml_kind_name(value->kind));
  config->has_hidden = value->is_true;
  return PD_OK;
}

static pd_code take_entry(pd_agent_config *config, const pd_toml_entry *entry, const place *at, pd_error *err)
{
  const pd_config_item *number = find_number(entry->name);
  if (number) return pd_config_take(config, number, &entry->value, at->where, err);
  if (strcmp(entry->name, "command") == 0) {
    TRY(take_list(entry, at, NULL, PD_AGENT_COMMAND_MAX, &config->command, &config->command_count, err));
    return config->command_count ? PD_OK : pd_error_set(err, PD_INVALID, "%s: 'command' is empty", at->where);
  }
  if (strcmp(entry->name, "folders.watch") == 0)
    return take_list(entry, at, at->folder, PD_AGENT_FOLDERS_MAX, &config->folders, &config->folder_count, err);
  if (strcmp(entry->name, "folders.hidden") == 0) return take_hidden(config, &entry->value, at, err);
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    if (strcmp(entry->name, texts[i].name) != 0) continue;
    if (entry->value.kind == PD_TOML_STRING) return texts[i].take(config, entry->value.text, at, err);
    return pd_error_set(err, PD_INVALID, "%s: '%s' is %s; it must be a string", at->where, entry->name,
                        pd_toml_kind_name(entry->value.kind));
  }
  return unknown(at->where, entry->name, err);
}

static pd_code check_table(const pd_toml_table *table, const char *where, pd_error *err)
{
  if (table->is_list) return pd_error_set(err, PD_INVALID, "%s: [[%.100s]]: there are no arrays of tables here", where, table->name);
  if (!*table->name) return PD_OK;
  for (size_t i = 0; i < COUNT_OF(tables); i++)
    if (strcmp(table->name, tables[i]) == 0) return PD_OK;
  return unknown(where, table->name, err);
}

static pd_code take_all(pd_agent_config *config, const pd_toml *doc, const char *file, const char *folder, pd_error *err)
{
  char where[PATH_MAX + 32];
  for (size_t i = 0; i < doc->table_count; i++) {
    snprintf(where, sizeof where, "%s:%zu", file, doc->tables[i].line);
    TRY(check_table(&doc->tables[i], where, err));
  }
  for (size_t i = 0; i < doc->entry_count; i++) {
    snprintf(where, sizeof where, "%s:%zu", file, doc->entries[i].line);
    TRY(take_entry(config, &doc->entries[i], &(place){where, folder}, err));
  }
  return PD_OK;
}

pd_code pd_agent_config_parse(pd_bytes text, const char *file, const char *folder, pd_agent_config *config, pd_error *err)
{
  CLEANUP(pd_toml_done) pd_toml doc = {0};
  TRY(pd_toml_parse(text, file, &doc, err));
  return take_all(config, &doc, file, folder, err);
}

pd_code pd_agent_config_read(const char *path, pd_agent_config *config, pd_error *err)
{
  CLEANUP(pd_toml_done) pd_toml doc = {0};
  char folder[PATH_MAX];
  TRY(pd_toml_read(path, &doc, err));
  if (!realpath(path, folder)) return pd_file_refused(err, "find", path);
  TRY(keep_text(&config->file, strdup(folder), err));
  *strrchr(folder, '/') = 0; /* the root is the empty prefix */
  return take_all(config, &doc, path, folder, err);
}

pd_code pd_agent_config_set(pd_agent_config *config, const char *name, const char *text, const char *where, pd_error *err)
{
  char folder[PATH_MAX];
  const pd_config_item *number = find_number(name);
  if (number) return pd_config_take_text(config, number, text, where, err);
  if (!getcwd(folder, sizeof folder)) return pd_file_refused(err, "find", "the working folder");
  for (size_t i = 0; i < COUNT_OF(texts); i++)
    if (strcmp(name, texts[i].name) == 0) return texts[i].take(config, text, &(place){where, folder}, err);
  return unknown(where, name, err);
}
