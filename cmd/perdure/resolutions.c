/* resolutions.c: see resolutions.h. */
#include "resolutions.h"

#include "base/array.h"
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>

void resolutions_done(resolutions_list *list)
{
  for (size_t i = 0; i < list->owned_count; i++) pd_buf_done(&list->owned[i]);
  free(list->owned);
  free(list->items);
  pd_buf_done(&list->file);
}

static pd_code own(resolutions_list *list, pd_buf **out, pd_error *err)
{
  TRY(pd_array_grow(&list->owned, list->owned_count, &list->owned_capacity, sizeof *list->owned, "resolutions", err));
  *out = &list->owned[list->owned_count++];
  **out = (pd_buf){0};
  return PD_OK;
}

static pd_code add(resolutions_list *list, const pd_resolution *resolution, pd_error *err)
{
  if (list->count >= PD_RESOLUTION_COUNT_MAX) return pd_error_set(err, PD_LIMIT, "more than %d resolutions", PD_RESOLUTION_COUNT_MAX);
  TRY(pd_array_grow(&list->items, list->count, &list->capacity, sizeof *list->items, "resolutions", err));
  list->items[list->count++] = *resolution;
  return PD_OK;
}

static bool find_take(const char *name, pd_take *out)
{
  static const char *const names[] = {
    [PD_TAKE_DELETE] = "delete", [PD_TAKE_BASE] = "base", [PD_TAKE_OURS] = "ours", [PD_TAKE_THEIRS] = "theirs"};
  for (unsigned i = PD_TAKE_DELETE; i < COUNT_OF(names); i++)
    if (strcmp(names[i], name) == 0) {
      *out = (pd_take)i;
      return true;
    }
  return false;
}

/* KEY=VALUE: the key ends at the first equals sign. */
static pd_code read_argument(resolutions_list *list, const char *text, pd_error *err)
{
  size_t size = strcspn(text, "=");
  pd_resolution r = {.key = {text, size}};
  if (!size || !text[size]) return pd_error_set(err, PD_INVALID, "--resolve takes KEY=VALUE, not '%.100s'", text);
  const char *value = text + size + 1;
  if (*value != '@' || !find_take(value + 1, &r.take)) {
    pd_buf *bytes;
    TRY(own(list, &bytes, err));
    TRY(cli_value_read(value, bytes, err));
    if (*value != '@' && strcmp(value, "-") != 0) TRY(cli_json_check(pd_buf_bytes(bytes), "give text as \"text\" by --resolutions", err));
    r.value = pd_buf_bytes(bytes);
  }
  return add(list, &r, err);
}

/* ---- the file ---- */

enum { FIELD_KEY, FIELD_PATH, FIELD_VALUE, FIELD_TEXT, FIELD_BASE64, FIELD_TAKE, FIELD_COUNT };

static pd_code decode(resolutions_list *list, pd_json json, pd_bytes *out, pd_error *err)
{
  pd_buf *bytes;
  if (json.kind == PD_JSON_NONE) return PD_OK;
  TRY(own(list, &bytes, err));
  TRY(pd_json_decode(json, bytes, err));
  *out = pd_buf_bytes(bytes);
  return PD_OK;
}

static pd_code decode_base64(resolutions_list *list, pd_json json, pd_bytes *out, pd_error *err)
{
  pd_bytes text = {NULL, 0};
  pd_buf *bytes;
  TRY(decode(list, json, &text, err));
  TRY(own(list, &bytes, err));
  TRY(pd_base64_decode(text, bytes, err));
  *out = pd_buf_bytes(bytes);
  return PD_OK;
}

static pd_code read_what(resolutions_list *list, const pd_json_field fields[FIELD_COUNT], pd_resolution *r, pd_error *err)
{
  int count = 0;
  for (int i = FIELD_VALUE; i < FIELD_COUNT; i++) count += fields[i].value.kind != PD_JSON_NONE;
  if (count != 1) return pd_error_set(err, PD_INVALID, "one of value, text, base64 and take is needed");
  if (fields[FIELD_VALUE].value.kind) r->value = fields[FIELD_VALUE].value.raw;
  if (fields[FIELD_TEXT].value.kind) return decode(list, fields[FIELD_TEXT].value, &r->value, err);
  if (fields[FIELD_BASE64].value.kind) return decode_base64(list, fields[FIELD_BASE64].value, &r->value, err);
  if (!fields[FIELD_TAKE].value.kind) return PD_OK;
  static const char *const names[] = {"ours", "theirs", "base", "delete"};
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (pd_json_is(fields[FIELD_TAKE].value, names[i]) && find_take(names[i], &r->take)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "take is one of ours, theirs, base and delete");
}

static pd_code read_item(resolutions_list *list, pd_json item, pd_error *err)
{
  pd_json_field fields[FIELD_COUNT] = {
    [FIELD_KEY] = {"key", {{0}, 0}},   [FIELD_PATH] = {"path", {{0}, 0}},     [FIELD_VALUE] = {"value", {{0}, 0}},
    [FIELD_TEXT] = {"text", {{0}, 0}}, [FIELD_BASE64] = {"base64", {{0}, 0}}, [FIELD_TAKE] = {"take", {{0}, 0}}};
  pd_resolution r = {0};
  TRY(pd_json_fields(item, fields, FIELD_COUNT, err));
  if (!fields[FIELD_KEY].value.kind) return pd_error_set(err, PD_INVALID, "field \"key\" is missing");
  TRY(decode(list, fields[FIELD_KEY].value, &r.key, err));
  TRY(decode(list, fields[FIELD_PATH].value, &r.path, err));
  TRY(read_what(list, fields, &r, err));
  return add(list, &r, err);
}

static pd_code read_file(resolutions_list *list, const char *path, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_json json, item;
  pd_error why = {0};
  TRY(pd_buf_printf(&name, err, "%s%s", strcmp(path, "-") == 0 ? "" : "@", path));
  TRY(pd_buf_byte(&name, 0, err));
  TRY(cli_value_read((const char *)name.data, &list->file, err));
  pd_code code = pd_json_parse(pd_buf_bytes(&list->file), &json, &why);
  if (!code && json.kind != PD_JSON_ARRAY) code = pd_error_set(&why, PD_INVALID, "an array expected, not %s", pd_json_kind_name(json.kind));
  pd_json_walk walk = pd_json_walk_begin(code ? (pd_json){0} : json);
  for (size_t i = 1; !code && pd_json_walk_next(&walk, NULL, &item); i++) {
    code = read_item(list, item, &why);
    if (code) return pd_error_set(err, code, "%.200s, resolution %zu: %.200s", path, i, why.message);
  }
  return code ? pd_error_set(err, code, "%.200s: %.250s", path, why.message) : PD_OK;
}

pd_code resolutions_read(const args_parsed *args, resolutions_list *out, pd_error *err)
{
  size_t index = 0;
  for (const char *text; (text = args_next(args, "resolve", &index));) TRY(read_argument(out, text, err));
  index = 0;
  for (const char *path; (path = args_next(args, "resolutions", &index));) {
    if (out->file.size) return pd_error_set(err, PD_INVALID, "--resolutions is given twice");
    TRY(read_file(out, path, err));
  }
  return PD_OK;
}
