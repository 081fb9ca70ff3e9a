/* statestore_config.c: the options of a StateStore: their defaults, what they may be, and how they are written as JSON. */
#include "state/statestore.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

static const char *const type_names[PD_STATESTORE_TYPE_COUNT] = {"memory", "file", "database", "perdure"};

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

static pd_code read_text(const pd_json_field *field, const char **out, pd_buf *texts, pd_error *err)
{
  if (field->value.kind == PD_JSON_NONE) return PD_OK;
  size_t start = texts->size;
  if (pd_json_decode(field->value, texts, NULL) || (texts->size > start && memchr(texts->data + start, 0, texts->size - start)))
    return pd_error_set(err, PD_INVALID, "statePersistence: %s has to be a text", field->name);
  TRY(pd_buf_byte(texts, 0, err)); /* there is room: it does not move */
  *out = (const char *)texts->data + start;
  return PD_OK;
}

static pd_code read_interval(const pd_json_field *field, uint32_t *out, pd_error *err)
{
  uint64_t number;
  if (field->value.kind == PD_JSON_NONE) return PD_OK;
  if (!pd_json_u64(field->value, &number) || number > PD_STATESTORE_FLUSH_MS_MAX)
    return pd_error_set(err, PD_INVALID, "statePersistence: %s has to be a number of milliseconds up to %u", field->name,
                        PD_STATESTORE_FLUSH_MS_MAX);
  *out = (uint32_t)number;
  return PD_OK;
}

static pd_code read_config(pd_json config, pd_statestore_options *o, pd_buf *texts, pd_error *err)
{
  pd_json_field f[] = {{.name = "path"},
                       {.name = "flushIntervalMs"},
                       {.name = "flush_interval_ms"},
                       {.name = "tableName"},
                       {.name = "table_name"},
                       {.name = "database"},
                       {.name = "uri"},
                       {.name = "agent"}};
  if (config.kind == PD_JSON_NONE) return PD_OK;
  TRY(pd_json_fields(config, f, COUNT_OF(f), err));
  TRY(read_text(&f[0], &o->path, texts, err));
  TRY(read_interval(&f[1], &o->flush_interval_ms, err));
  TRY(read_interval(&f[2], &o->flush_interval_ms, err));
  TRY(read_text(&f[3], &o->table_name, texts, err));
  TRY(read_text(&f[4], &o->table_name, texts, err));
  TRY(read_text(&f[5], &o->database, texts, err));
  TRY(read_text(&f[6], &o->uri, texts, err));
  return read_text(&f[7], &o->agent, texts, err);
}

static pd_code read_type(pd_json value, pd_statestore_type *out, pd_error *err)
{
  if (value.kind == PD_JSON_NONE) return PD_OK;
  for (unsigned i = 0; i < PD_STATESTORE_TYPE_COUNT; i++) {
    if (!pd_json_is(value, type_names[i])) continue;
    *out = (pd_statestore_type)i;
    return PD_OK;
  }
  return pd_error_set(err, PD_INVALID, "statePersistence: type has to be memory, file, database or perdure");
}

pd_code pd_statestore_configure(pd_bytes json, pd_statestore_options *options, pd_buf *texts, pd_error *err)
{
  pd_json all;
  pd_statestore_options o = *options;
  pd_json_field f[] = {{.name = "enabled"}, {.name = "type"}, {.name = "config"}};
  TRY(pd_json_parse(json, &all, err));
  TRY(pd_json_fields(all, f, COUNT_OF(f), err));
  TRY(pd_buf_reserve(texts, json.size + 16, err)); /* for all texts: what is decoded is never longer, and each had two quotes */
  if (f[0].value.kind != PD_JSON_NONE && f[0].value.kind != PD_JSON_BOOL)
    return pd_error_set(err, PD_INVALID, "statePersistence: enabled has to be true or false");
  if (f[0].value.kind == PD_JSON_BOOL) o.enabled = pd_json_true(f[0].value);
  TRY(read_type(f[1].value, &o.type, err));
  TRY(read_config(f[2].value, &o, texts, err));
  if (!o.table_name) o.table_name = pd_statestore_defaults().table_name;
  TRY(pd_statestore_check(&o, err));
  *options = o;
  return PD_OK;
}
