/* errand.c: see errand.h. */
#include "remote/errand.h"

#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/json_error.h"

#include <stdio.h>

#define VERSION_MEMBER "io.modelcontextprotocol/protocolVersion"

/* The messages of a line: itself, or the items of a batch. */
typedef struct items {
  pd_json_walk walk;
  pd_json one;
  size_t index; /* of the next */
} items;

static items items_of(pd_json json)
{
  items it = {.index = 0};
  it.walk = pd_json_walk_begin(json.kind == PD_JSON_ARRAY ? json : (pd_json){0});
  if (json.kind == PD_JSON_OBJECT) it.one = json;
  return it;
}

static bool next_item(items *it, pd_json *out)
{
  it->index++;
  if (it->one.kind == PD_JSON_NONE) return pd_json_walk_next(&it->walk, NULL, out);
  *out = it->one;
  it->one = (pd_json){0};
  return true;
}

static bool is_request(pd_json item)
{
  return pd_json_member(item, "method").kind == PD_JSON_STRING && pd_json_member(item, "id").kind != PD_JSON_NONE;
}

static bool is_answered(const pd_errand *errand, size_t index)
{
  return errand->is_settled || (index < PD_ERRAND_ITEMS_MAX && (errand->answered[index / 64] >> index % 64 & 1));
}

static bool is_same_id(pd_json a, pd_json b)
{
  return a.kind != PD_JSON_NONE && a.kind != PD_JSON_NULL && pd_bytes_equal(a.raw, b.raw);
}

/* ---- reading ---- */

/* A header can say what is visible ASCII, without blanks at its ends, and is not taken for the other form; all else is =?base64?…?=. */
static pd_code write_name(pd_errand *errand, pd_json value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (value.kind != PD_JSON_STRING || pd_json_decode(value, &text, NULL)) return PD_OK;
  bool is_plain =
    text.size && text.data[0] != ' ' && text.data[text.size - 1] != ' ' && !(text.size > 1 && memcmp(text.data, "=?", 2) == 0);
  for (size_t i = 0; i < text.size; i++) is_plain = is_plain && text.data[i] >= ' ' && text.data[i] <= '~';
  if (is_plain) return pd_buf_append(&errand->name, text.data, text.size, err);
  TRY(pd_buf_printf(&errand->name, err, "=?base64?"));
  TRY(pd_base64_encode(pd_buf_bytes(&text), &errand->name, err));
  return pd_buf_printf(&errand->name, err, "?=");
}

static void take_version(pd_errand *errand, pd_json version)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = sizeof errand->version - 1};
  if (version.kind == PD_JSON_STRING && pd_json_decode(version, &text, NULL) == PD_OK)
    snprintf(errand->version, sizeof errand->version, "%.*s", (int)text.size, (const char *)text.data);
}

static pd_code read_object(pd_errand *errand, pd_error *err)
{
  pd_json method = pd_json_member(errand->json, "method"), params = pd_json_member(errand->json, "params");
  take_version(errand, pd_json_member(pd_json_member(params, "_meta"), VERSION_MEMBER));
  errand->is_quick = !is_request(errand->json) || pd_json_is(method, "ping");
  errand->begins = is_request(errand->json) && pd_json_is(method, "initialize");
  errand->is_open_ended = pd_json_is(method, "subscriptions/listen");
  if (method.kind == PD_JSON_STRING && pd_json_decode(method, &errand->method, NULL)) pd_buf_clear(&errand->method);
  bool is_uri = pd_json_is(method, "resources/read");
  return is_uri || pd_json_is(method, "tools/call") || pd_json_is(method, "prompts/get")
           ? write_name(errand, pd_json_member(params, is_uri ? "uri" : "name"), err)
           : PD_OK;
}

static pd_code read_line(pd_errand *errand, pd_bytes line, pd_error *err)
{
  TRY(pd_buf_append(&errand->text, line.data, line.size, err));
  if (pd_json_parse(pd_buf_bytes(&errand->text), &errand->json, NULL)) errand->json = (pd_json){0};
  errand->may_wait = memmem(line.data, line.size, "\"wait_ms\"", 9) != NULL;
  if (errand->json.kind == PD_JSON_OBJECT) TRY(read_object(errand, err));
  TRY(pd_buf_byte(&errand->method, 0, err));
  return pd_buf_byte(&errand->name, 0, err);
}

pd_code pd_errand_init(pd_errand *errand, pd_bytes line, pd_error *err)
{
  *errand = (pd_errand){0};
  pd_code code = read_line(errand, line, err);
  if (code) pd_errand_done(errand);
  return code;
}

void pd_errand_done(pd_errand *errand)
{
  pd_buf_done(&errand->text);
  pd_buf_done(&errand->method);
  pd_buf_done(&errand->name);
}

pd_json pd_errand_cancels(const pd_errand *errand)
{
  if (errand->json.kind != PD_JSON_OBJECT || !pd_json_is(pd_json_member(errand->json, "method"), "notifications/cancelled"))
    return (pd_json){0};
  return pd_json_member(pd_json_member(errand->json, "params"), "requestId");
}

/* ---- answers ---- */

bool pd_errand_waits(const pd_errand *errand)
{
  pd_json item;
  items it = items_of(errand->json);
  while (next_item(&it, &item))
    if (is_request(item) && !is_answered(errand, it.index - 1)) return true;
  return false;
}

bool pd_errand_has(const pd_errand *errand, pd_json id)
{
  pd_json item;
  items it = items_of(errand->json);
  while (next_item(&it, &item))
    if (is_request(item) && is_same_id(pd_json_member(item, "id"), id)) return true;
  return false;
}

void pd_errand_drop(pd_errand *errand, pd_json id)
{
  pd_json item;
  items it = items_of(errand->json);
  while (next_item(&it, &item)) {
    size_t index = it.index - 1;
    if (index >= PD_ERRAND_ITEMS_MAX) return;
    if (is_request(item) && is_same_id(pd_json_member(item, "id"), id)) errand->answered[index / 64] |= (uint64_t)1 << index % 64;
  }
}

void pd_errand_note(pd_errand *errand, pd_json message, bool *out_asks)
{
  pd_json item;
  items it = items_of(message);
  while (next_item(&it, &item)) {
    if (is_request(item)) *out_asks = true;
    if (pd_json_member(item, "method").kind == PD_JSON_NONE) pd_errand_drop(errand, pd_json_member(item, "id"));
  }
}

static pd_code write_error(pd_json id, int64_t code, const char *message, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_rpc_error(&w, id.raw, code, message, (pd_bytes){0});
  return w.code ? w.code : pd_buf_byte(out, '\n', err);
}

pd_code pd_errand_fail(pd_errand *errand, int64_t code, const char *message, pd_buf *out, pd_error *err)
{
  pd_json item;
  items it = items_of(errand->json);
  bool is_told = errand->is_settled;
  while (next_item(&it, &item))
    if (is_request(item) && !is_answered(errand, it.index - 1)) TRY(write_error(pd_json_member(item, "id"), code, message, out, err));
  errand->is_settled = true;
  return errand->json.kind == PD_JSON_NONE && !is_told ? write_error((pd_json){0}, code, message, out, err) : PD_OK;
}
