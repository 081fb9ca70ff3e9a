/* config_load.c: what is in force: defaults, then the file, then the environment; and where each value came from. */
#include "base/base.h"
#include "base/buf.h"
#include "base/distance.h"
#include "base/error.h"
#include "base/json.h"
#include "base/toml.h"
#include "state/config.h"
#include "state/home.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define ENV_SIZE 64

static uint64_t *value_at(const void *base, const pd_config_item *item)
{
  return (uint64_t *)((char *)(uintptr_t)base + item->offset);
}

/* Settings that had another name once; it is still read. */
static const struct {
  const char *former, *name;
} renamed[] = {{"server.mcp_approvals", "mcp.approvals"}};

static const char *former_name(const char *name)
{
  for (size_t i = 0; i < COUNT_OF(renamed); i++)
    if (strcmp(renamed[i].name, name) == 0) return renamed[i].former;
  return NULL;
}

static const char *present_name(const char *name)
{
  for (size_t i = 0; i < COUNT_OF(renamed); i++)
    if (strcmp(renamed[i].former, name) == 0) return renamed[i].name;
  return name;
}

static const pd_config_item *find_item(const char *name)
{
  for (size_t i = 0; i < pd_config_item_count; i++)
    if (strcmp(pd_config_items[i].name, name) == 0) return &pd_config_items[i];
  return NULL;
}

static const char *nearest(const char *name)
{
  size_t best = 0;
  for (size_t i = 1; i < pd_config_item_count; i++)
    if (pd_text_distance(name, pd_config_items[i].name) < pd_text_distance(name, pd_config_items[best].name)) best = i;
  return pd_config_items[best].name;
}

/* `where` is FILE:LINE or the name of a variable. */
static pd_code unknown(const char *where, const char *name, pd_error *err)
{
  return pd_error_set(err, PD_INVALID, "%s: there is no setting '%.100s'; the nearest is '%s'", where, name, nearest(name));
}

/* ---- one value ---- */

static pd_code take_number(void *base, const pd_config_item *item, uint64_t number, const char *where, pd_error *err)
{
  char low[PD_CONFIG_TEXT_SIZE], high[PD_CONFIG_TEXT_SIZE], text[PD_CONFIG_TEXT_SIZE];
  if (number >= item->min && number <= item->max) {
    *value_at(base, item) = number;
    return PD_OK;
  }
  pd_config_item plain = *item;
  plain.about = ""; /* without a word for 0: a bound is told as a number */
  return pd_error_set(err, PD_INVALID, "%s: '%s' is %s; it must be from %s to %s", where, item->name, pd_config_text(&plain, number, text),
                      pd_config_text(&plain, item->min, low), pd_config_text(&plain, item->max, high));
}

pd_code pd_config_take_text(void *base, const pd_config_item *item, const char *text, const char *where, pd_error *err)
{
  uint64_t number = 0;
  if (pd_config_is_text(item)) return pd_config_set_words(base, item, text, where, err);
  if (pd_config_parse(item, text, &number)) return take_number(base, item, number, where, err);
  return pd_error_set(err, PD_INVALID, "%s: '%s' is '%.60s'; it must be %s", where, item->name, text, pd_config_form(item->unit));
}

pd_code pd_config_take(void *base, const pd_config_item *item, const pd_toml_value *value, const char *where, pd_error *err)
{
  if (pd_config_is_text(item)) return pd_config_take_words(base, item, value, where, err);
  if (value->kind == PD_TOML_STRING) return pd_config_take_text(base, item, value->text, where, err);
  if (value->kind == PD_TOML_BOOL && item->unit == PD_UNIT_FLAG) return take_number(base, item, value->is_true, where, err);
  bool is_counted = item->unit < PD_UNIT_FLAG;
  if (value->kind == PD_TOML_INTEGER && is_counted && value->integer >= 0)
    return take_number(base, item, (uint64_t)value->integer, where, err);
  return pd_error_set(err, PD_INVALID, "%s: '%s' is %s; it must be %s", where, item->name,
                      value->kind == PD_TOML_INTEGER && is_counted ? "negative" : pd_toml_kind_name(value->kind),
                      pd_config_form(item->unit));
}

/* ---- the file ---- */

/* It was a setting once: whatever it says is ignored. Or it is of [test]. */
static pd_code take_limit(pd_config *config, const pd_toml_entry *entry, const char *where, pd_error *err)
{
  bool is_test;
  const pd_config_limit *limit = pd_config_limit_find(entry->name, &is_test);
  if (!limit) return unknown(where, entry->name, err);
  if (is_test) TRY(pd_config_take(config, &limit->item, &entry->value, where, err));
  (is_test ? config->tested : config->former)[limit - pd_config_limits] = (pd_config_origin){PD_ORIGIN_FILE, entry->line};
  return PD_OK;
}

static pd_code take_entry(pd_config *config, const pd_toml_entry *entry, const char *file, pd_error *err)
{
  char where[PATH_MAX + 32];
  const pd_config_item *item = find_item(present_name(entry->name));
  snprintf(where, sizeof where, "%s:%zu", file, entry->line);
  if (!item) return take_limit(config, entry, where, err);
  pd_config_origin *origin = &config->origins[item - pd_config_items];
  if (origin->kind == PD_ORIGIN_FILE)
    return pd_error_set(err, PD_INVALID, "%s: '%s' is given a second time: '%s' is its former name, and line %zu sets it", where,
                        item->name, former_name(item->name), origin->line);
  TRY(pd_config_take(config, item, &entry->value, where, err));
  if (item->unit == PD_UNIT_FILE) TRY(pd_config_anchor(config, item, file, err));
  *origin = (pd_config_origin){PD_ORIGIN_FILE, entry->line};
  return PD_OK;
}

static bool is_table_of(const char *table, const char *name)
{
  size_t size = strlen(table);
  return strncmp(name, table, size) == 0 && name[size] == '.';
}

static bool is_table(const char *table)
{
  const char *plain = table;
  if (is_table_of(table, PD_CONFIG_TEST)) return true;
  if (strncmp(table, PD_CONFIG_TEST, strlen(PD_CONFIG_TEST)) == 0) plain += strlen(PD_CONFIG_TEST);
  for (size_t i = 0; i < pd_config_item_count; i++)
    if (plain == table && is_table_of(table, pd_config_items[i].name)) return true;
  for (size_t i = 0; i < pd_config_limit_count; i++)
    if (is_table_of(plain, pd_config_limits[i].item.name)) return true;
  return false;
}

/* A table that has no setting in it may be misspelt, and its settings would go astray one day. */
static pd_code check_table(const pd_toml_table *table, const char *file, pd_error *err)
{
  char where[PATH_MAX + 32];
  snprintf(where, sizeof where, "%s:%zu", file, table->line);
  if (table->is_list) return pd_error_set(err, PD_INVALID, "%s: [[%.100s]]: there are no arrays of tables here", where, table->name);
  return !*table->name || is_table(table->name) ? PD_OK : unknown(where, table->name, err);
}

static pd_code read_file(pd_config *config, const char *path, bool must_exist, pd_error *err)
{
  CLEANUP(pd_toml_done) pd_toml doc = {0};
  pd_code code = pd_toml_read(path, &doc, err);
  if (code) return code == PD_NOT_FOUND && !must_exist ? PD_OK : code;
  config->file = strdup(path);
  if (!config->file) return pd_error_memory(err, "the configuration");
  for (size_t i = 0; i < doc.table_count; i++) TRY(check_table(&doc.tables[i], path, err));
  for (size_t i = 0; i < doc.entry_count; i++) TRY(take_entry(config, &doc.entries[i], path, err));
  return PD_OK;
}

/* ---- the environment ---- */

static const char *variable_of(const char *name, char out[ENV_SIZE])
{
  snprintf(out, ENV_SIZE, "PERDURE_%s", name);
  for (char *at = out; *at; at++) *at = *at == '.' ? '_' : (char)toupper((unsigned char)*at);
  return out;
}

static pd_code read_environment(pd_config *config, pd_error *err)
{
  char variable[ENV_SIZE];
  for (size_t i = 0; i < pd_config_item_count; i++) {
    const char *former = former_name(pd_config_items[i].name), *text = getenv(variable_of(pd_config_items[i].name, variable));
    if (former && (!text || !*text)) text = getenv(variable_of(former, variable));
    if (!text || !*text) continue;
    TRY(pd_config_take_text(config, &pd_config_items[i], text, variable, err));
    config->origins[i] = (pd_config_origin){PD_ORIGIN_ENVIRONMENT, 0};
  }
  for (size_t i = 0; i < pd_config_limit_count; i++) {
    const char *text = getenv(variable_of(pd_config_limits[i].item.name, variable));
    if (text && *text) config->former[i] = (pd_config_origin){PD_ORIGIN_ENVIRONMENT, 0};
  }
  return PD_OK;
}

static const char *place_text(const pd_config *config, const pd_config_origin *origin, const char *name, char *out, size_t size)
{
  char variable[ENV_SIZE];
  switch (origin->kind) {
  case PD_ORIGIN_FILE: snprintf(out, size, "%s:%zu", config->file, origin->line); break;
  case PD_ORIGIN_ENVIRONMENT: snprintf(out, size, "%s", variable_of(name, variable)); break;
  default: snprintf(out, size, "default"); break;
  }
  return out;
}

static const char *origin_text(const pd_config *config, size_t index, char *out, size_t size)
{
  return place_text(config, &config->origins[index], pd_config_items[index].name, out, size);
}

/* A certificate without its key is no use. */
static pd_code check_pair(const pd_config *config, pd_error *err)
{
  char where[PATH_MAX + 32];
  bool has_cert = config->server_tls_cert, has_key = config->server_tls_key;
  if (has_cert == has_key) return PD_OK;
  const pd_config_item *item = find_item(has_cert ? "server.tls_cert" : "server.tls_key");
  return pd_error_set(err, PD_INVALID, "%s: '%s' and '%s' belong together: give both",
                      origin_text(config, (size_t)(item - pd_config_items), where, sizeof where), item->name,
                      has_cert ? "server.tls_key" : "server.tls_cert");
}

pd_code pd_config_load(pd_config *config, const char *folder, const char *file, pd_error *err)
{
  char path[PATH_MAX];
  pd_config_defaults(config);
  if (file) {
    TRY(read_file(config, file, true, err));
  } else if (folder) {
    int size = snprintf(path, sizeof path, "%s/perdure.toml", folder);
    if (size >= (int)sizeof path) return pd_error_set(err, PD_LIMIT, "the path %.100s… is too long", folder);
    TRY(read_file(config, path, false, err));
  }
  TRY(read_environment(config, err));
  pd_config_follow(config);
  return check_pair(config, err);
}

void pd_config_done(pd_config *config)
{
  free(config->file);
  config->file = NULL;
  pd_config_forget_texts(config);
}

/* ---- for those who ask ---- */

typedef void setting_visitor(void *ctx, const pd_config_info *info);

static void visit_one(const pd_config *config, const pd_config_item *item, const pd_config_origin *origin, setting_visitor *visit,
                      void *ctx)
{
  static const char *const units[] = {"count", "bytes", "ms", "days", "flag", "text", "choice", "file", "list", "list"};
  char value[PD_CONFIG_TEXT_SIZE], where[PATH_MAX + 32];
  uint64_t number = pd_config_is_text(item) ? 0 : *value_at(config, item);
  pd_config_info info = {
    .name = item->name,
    .value = pd_config_is_text(item) ? pd_config_text_at(config, item) : pd_config_text(item, number, value),
    .unit = units[item->unit],
    .origin = place_text(config, origin, item->name, where, sizeof where),
    .about = item->about,
    .when = item->when,
    .number = number,
    .is_text = pd_config_is_text(item),
    .number_default = item->otherwise,
  };
  visit(ctx, &info);
}

static void visit_all(const pd_config *config, setting_visitor *visit, void *ctx)
{
  for (size_t i = 0; i < pd_config_item_count; i++) visit_one(config, &pd_config_items[i], &config->origins[i], visit, ctx);
}

pd_code pd_config_json(const pd_config_info *info, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "name", info->name);
  pd_json_put_text(&w, "value", info->value);
  if (!info->is_text) pd_json_put_number(&w, "number", info->number);
  pd_json_put_text(&w, "unit", info->unit);
  if (!info->is_text) pd_json_put_number(&w, "default", info->number_default);
  if (info->is_text) pd_json_put_text(&w, "default", "");
  pd_json_put_text(&w, "origin", info->origin);
  pd_json_put_text(&w, "about", info->about);
  pd_json_put_text(&w, "when", info->when);
  pd_json_close(&w, '}');
  return w.code;
}

pd_code pd_config_each(pd_home *home, void (*visit)(void *ctx, const pd_config_info *info), void *ctx, pd_error *err)
{
  CLEANUP(pd_config_done) pd_config own = {0};
  if (!home) TRY(pd_config_load(&own, NULL, NULL, err));
  visit_all(home ? &home->config : &own, visit, ctx);
  return PD_OK;
}

pd_code pd_config_each_now(pd_home *home, void (*visit)(void *ctx, const pd_config_info *info), void *ctx, pd_error *err)
{
  CLEANUP(pd_config_done) pd_config now = {0};
  TRY(pd_config_load(&now, home->folder, home->config_file, err));
  visit_all(&now, visit, ctx);
  return PD_OK;
}

pd_code pd_config_each_limit_now(pd_home *home, void (*visit)(void *ctx, const pd_config_info *info), void *ctx, pd_error *err)
{
  CLEANUP(pd_config_done) pd_config now = {0};
  TRY(pd_config_load(&now, home->folder, home->config_file, err));
  for (size_t i = 0; i < pd_config_limit_count; i++)
    if (pd_config_limits[i].item.offset != PD_CONFIG_NOWHERE) visit_one(&now, &pd_config_limits[i].item, &now.tested[i], visit, ctx);
  return PD_OK;
}

/* ---- what a person should look at ---- */

static pd_code visit_notices(const pd_config *config, void (*visit)(void *ctx, const char *text), void *ctx, pd_error *err)
{
  char where[PATH_MAX + 32], value[PD_CONFIG_TEXT_SIZE];
  for (size_t i = 0; i < pd_config_limit_count; i++) {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    const pd_config_limit *limit = &pd_config_limits[i];
    if (config->former[i].kind) {
      place_text(config, &config->former[i], limit->item.name, where, sizeof where);
      TRY(pd_buf_printf(&text, err, "%s: '%s' is no longer a setting and is ignored; it is now %s%c", where, limit->item.name,
                        pd_config_limit_text(limit, value), 0));
      visit(ctx, (const char *)text.data);
      pd_buf_clear(&text);
    }
    if (!config->tested[i].kind) continue;
    place_text(config, &config->tested[i], limit->item.name, where, sizeof where);
    TRY(pd_buf_printf(&text, err, "%s: '%s%s' is for perdure's own tests; remove it%c", where, PD_CONFIG_TEST, limit->item.name, 0));
    visit(ctx, (const char *)text.data);
  }
  return PD_OK;
}

pd_code pd_config_each_notice(pd_home *home, const char *file, void (*visit)(void *ctx, const char *text), void *ctx, pd_error *err)
{
  CLEANUP(pd_config_done) pd_config config = {0};
  if (file)
    TRY(read_file(&config, file, true, err));
  else
    TRY(pd_config_load(&config, home ? home->folder : NULL, home ? home->config_file : NULL, err));
  return visit_notices(&config, visit, ctx, err);
}

void pd_config_each_former(void (*visit)(void *ctx, const char *name, const char *now), void *ctx)
{
  char value[PD_CONFIG_TEXT_SIZE];
  for (size_t i = 0; i < pd_config_limit_count; i++)
    visit(ctx, pd_config_limits[i].item.name, pd_config_limit_text(&pd_config_limits[i], value));
}

pd_code pd_config_check(const char *file, size_t *out_count, pd_error *err)
{
  CLEANUP(pd_config_done) pd_config config = {0};
  pd_config_defaults(&config);
  TRY(read_file(&config, file, true, err));
  TRY(check_pair(&config, err));
  size_t count = 0;
  for (size_t i = 0; i < pd_config_item_count; i++) count += config.origins[i].kind == PD_ORIGIN_FILE;
  if (out_count) *out_count = count;
  return PD_OK;
}
