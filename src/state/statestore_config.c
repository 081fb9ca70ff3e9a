/* statestore_config.c: the options of a StateStore: their defaults, what they may be, and how they are written as JSON. */
#include "state/statestore.h"

#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"

static const char *const type_names[PD_STATESTORE_TYPE_COUNT + 1] = {"memory", "file", "database", "perdure", NULL};

const char *pd_statestore_type_name(pd_statestore_type type)
{
  return (unsigned)type < PD_STATESTORE_TYPE_COUNT ? type_names[type] : "unknown";
}

pd_statestore_options pd_statestore_defaults(void)
{
  return (pd_statestore_options){.type = PD_STATESTORE_MEMORY, .path = "zup.state.json", .flush_interval_ms = 1000, .table_name = "state"};
}

/* It becomes a part of SQL: so letters, digits and _ only. */
static bool is_table_name(const char *name)
{
  size_t size = strlen(name);
  if (!size || size > PD_STATESTORE_TABLE_SIZE_MAX || (*name >= '0' && *name <= '9')) return false;
  return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == size;
}

pd_code pd_statestore_check(const pd_statestore_options *o, pd_error *err)
{
  if ((unsigned)o->type >= PD_STATESTORE_TYPE_COUNT)
    return pd_error_set(err, PD_INVALID, "there is no StateStore of type %d", (int)o->type);
  if (o->flush_interval_ms > PD_STATESTORE_FLUSH_MS_MAX)
    return pd_error_set(err, PD_INVALID, "flush_interval_ms is %u, and may be at most %u", o->flush_interval_ms,
                        PD_STATESTORE_FLUSH_MS_MAX);
  if (!is_table_name(o->table_name))
    return pd_error_set(err, PD_INVALID, "'%.100s' is no table_name: letters, digits and _, at most %d, no digit first", o->table_name,
                        PD_STATESTORE_TABLE_SIZE_MAX);
  return PD_OK;
}

/* ---- JSON ---- */

static const pd_bind config_members[] = {
  {"path", PD_BIND_KEPT, PD_BIND_AT(pd_statestore_options, path), .is_optional = true},
  {"flushIntervalMs", PD_BIND_NUMBER, PD_BIND_AT(pd_statestore_options, flush_interval_ms), .is_optional = true},
  {"flush_interval_ms", PD_BIND_NUMBER, PD_BIND_AT(pd_statestore_options, flush_interval_ms), .is_optional = true},
  {"tableName", PD_BIND_KEPT, PD_BIND_AT(pd_statestore_options, table_name), .is_optional = true},
  {"table_name", PD_BIND_KEPT, PD_BIND_AT(pd_statestore_options, table_name), .is_optional = true},
  {"database", PD_BIND_KEPT, PD_BIND_AT(pd_statestore_options, database), .is_optional = true},
  {"uri", PD_BIND_KEPT, PD_BIND_AT(pd_statestore_options, uri), .is_optional = true},
  {"agent", PD_BIND_KEPT, PD_BIND_AT(pd_statestore_options, agent), .is_optional = true},
};

typedef struct configured {
  bool enabled;
  pd_statestore_type type;
  pd_json config;
} configured;

static const pd_bind members[] = {
  {"enabled", PD_BIND_BOOL, PD_BIND_AT(configured, enabled), .is_optional = true},
  {"type", PD_BIND_NAME, PD_BIND_AT(configured, type), .is_optional = true, .names = type_names},
  {"config", PD_BIND_JSON, PD_BIND_AT(configured, config), .is_optional = true},
};

static pd_code read_members(pd_json object, const pd_bind *table, size_t count, void *out, pd_buf *texts, pd_error *err)
{
  pd_error why = {0};
  pd_code code = pd_bind_keep(object, table, count, PD_BIND_STRICT, out, texts, &why);
  if (code == PD_INVALID) return pd_error_set(err, PD_INVALID, "statePersistence: %.400s", why.message);
  if (code && err) *err = why;
  return code;
}

pd_code pd_statestore_configure(pd_bytes json, pd_statestore_options *options, pd_buf *texts, pd_error *err)
{
  pd_json all;
  pd_statestore_options o = *options;
  configured c = {o.enabled, o.type, {{NULL, 0}, PD_JSON_NONE}};
  TRY(pd_json_parse(json, &all, err));
  TRY(read_members(all, members, COUNT_OF(members), &c, texts, err));
  if (c.config.kind != PD_JSON_NONE) TRY(read_members(c.config, config_members, COUNT_OF(config_members), &o, texts, err));
  o.enabled = c.enabled;
  o.type = c.type;
  if (!o.table_name) o.table_name = pd_statestore_defaults().table_name;
  TRY(pd_statestore_check(&o, err));
  *options = o;
  return PD_OK;
}
