/* mcp_resource.c: state as resources: state://persistent/{key}, state://shared/{key}, state://threads/{id}, state://commits/{id}. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/mcp_home.h"

#include <stdio.h>

#define PAGE 100
#define COMMIT_TTL_MS 86400000u /* a commit never changes */
#define CHANGES_MAX 1000

/* ---- URIs ---- */

static const struct {
  const char *prefix, *name, *about, *variable;
} kinds[] = {
  [PD_MCP_PERSISTENT] = {"state://persistent/", "persistent", "A value of your persistent state.", "key"},
  [PD_MCP_SHARED] = {"state://shared/", "shared", "A value that all agents see.", "key"},
  [PD_MCP_THREAD] = {"state://threads/", "threads", "A thread of yours: its version, state and last messages.", "id"},
  [PD_MCP_COMMIT] = {"state://commits/", "commits", "A commit of your store: parents, changes, who, when and why.", "id"},
};

void pd_mcp_topic_done(pd_mcp_topic *topic)
{
  pd_buf_done(&topic->rest);
}

static int hex_of(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static pd_code unescape(const char *text, pd_buf *out, pd_error *err)
{
  for (const char *at = text; *at; at++) {
    int byte = (unsigned char)*at;
    if (*at == '%') {
      int high = hex_of(at[1]), low = high < 0 ? -1 : hex_of(at[2]);
      if (low < 0) return pd_error_set(err, PD_INVALID, "the URI has a %% that is no escape");
      byte = high * 16 + low;
      at += 2;
    }
    TRY(pd_buf_byte(out, (uint8_t)byte, err));
  }
  return PD_OK;
}

pd_code pd_mcp_topic_parse(const char *uri, pd_mcp_topic *out, pd_error *err)
{
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    size_t size = strlen(kinds[i].prefix);
    if (strncmp(uri, kinds[i].prefix, size) != 0) continue;
    *out = (pd_mcp_topic){.kind = (pd_mcp_topic_kind)i, .rest = {.size_max = PD_KEY_SIZE_MAX}};
    pd_code code = unescape(uri + size, &out->rest, err);
    if (!code) code = pd_key_check(pd_buf_bytes(&out->rest), err);
    if (code) pd_mcp_topic_done(out);
    return code;
  }
  return pd_error_set(err, PD_NOT_FOUND, "there is no resource %.200s", uri);
}

/* What RFC 3986 reserves or forbids is escaped, but for the slash, which reads better. */
static void write_uri(pd_json_writer *w, pd_mcp_topic_kind kind, pd_bytes rest)
{
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:@";
  CLEANUP(pd_buf_done) pd_buf text = {0};
  const uint8_t *p = rest.data;
  pd_code code = pd_buf_printf(&text, w->err, "%s", kinds[kind].prefix);
  for (size_t i = 0; i < rest.size && !code; i++)
    code = p[i] && strchr(plain, p[i]) ? pd_buf_byte(&text, p[i], w->err) : pd_buf_printf(&text, w->err, "%%%02X", p[i]);
  if (code)
    w->code = code;
  else
    pd_json_put_bytes(w, "uri", pd_buf_bytes(&text));
}

/* ---- lists ---- */

pd_code pd_mcp_keys_each(pd_mcp_turn *turn, pd_mcp_topic_kind tier, pd_bytes prefix, bool (*visit)(void *ctx, pd_json entry), void *ctx,
                         pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  const char *capability = tier == PD_MCP_SHARED ? "state.shared.list" : "state.persistent.list";
  pd_json_writer w = {.out = &input, .err = err};
  pd_json json, entry;
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  if (turn->peer->gate.sees && !turn->peer->gate.sees(turn->peer->gate.ctx, capability)) return PD_OK;
  pd_json_open(&w, '{');
  if (prefix.size) pd_json_put_bytes(&w, "prefix", prefix);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(pd_mcp_call(turn, &who, capability, pd_buf_bytes(&input), &answer, err));
  TRY(pd_json_parse(pd_buf_bytes(&answer), &json, err));
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(json, "entries"));
  while (pd_json_walk_next(&walk, NULL, &entry))
    if (!visit(ctx, entry)) break;
  return PD_OK;
}

typedef struct page {
  pd_mcp_turn *turn;
  pd_mcp_topic_kind tier;
  pd_bytes after;
  size_t count;
  pd_buf last; /* the key that was written last */
  bool is_full;
  pd_code code;
} page;

static bool list_entry(void *ctx, pd_json entry)
{
  page *p = ctx;
  pd_json_writer *w = &p->turn->w;
  CLEANUP(pd_buf_done) pd_buf key = {0};
  pd_json size = pd_json_member(entry, "size_bytes");
  p->code = pd_json_decode(pd_json_member(entry, "key"), &key, &p->turn->err);
  if (p->code) return false;
  if (p->after.data && pd_bytes_compare(pd_buf_bytes(&key), p->after) <= 0) return true;
  p->is_full = p->count == PAGE;
  if (p->is_full) return false;
  pd_json_open(w, '{');
  write_uri(w, p->tier, pd_buf_bytes(&key));
  pd_json_put_bytes(w, "name", pd_buf_bytes(&key));
  pd_json_put_text(w, "mimeType", "application/json");
  if (size.kind == PD_JSON_NUMBER) {
    pd_json_key(w, "size");
    pd_json_value(w, size);
  }
  pd_json_close(w, '}');
  p->count++;
  pd_buf_clear(&p->last);
  p->code = pd_buf_append(&p->last, key.data, key.size, &p->turn->err);
  return !p->code && !w->code;
}

/* A cursor is base64 of a tier's letter and the last key of the page. */
static pd_code read_cursor(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out, pd_mcp_topic_kind *out_tier)
{
  if (!cursor.data) return PD_OK;
  if (pd_base64_decode(cursor, out, NULL) || !out->size || (out->data[0] != 'p' && out->data[0] != 's'))
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.cursor is none that this server gave");
  *out_tier = out->data[0] == 's' ? PD_MCP_SHARED : PD_MCP_PERSISTENT;
  return PD_OK;
}

static pd_code write_cursor(const page *p, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_buf_byte(&text, p->tier == PD_MCP_SHARED ? 's' : 'p', err));
  TRY(pd_buf_append(&text, p->last.data, p->last.size, err));
  return pd_base64_encode(pd_buf_bytes(&text), out, err);
}

static pd_code list_tier(page *p, pd_buf *out_cursor)
{
  TRY(pd_mcp_keys_each(p->turn, p->tier, (pd_bytes){0}, list_entry, p, &p->turn->err));
  TRY(p->code);
  return p->is_full ? write_cursor(p, out_cursor, &p->turn->err) : PD_OK;
}

pd_code pd_mcp_home_resources(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  CLEANUP(pd_buf_done) pd_buf from = {0};
  page p = {.turn = turn, .tier = PD_MCP_PERSISTENT};
  TRY(read_cursor(turn, cursor, &from, &p.tier));
  if (from.size) p.after = (pd_bytes){from.data + 1, from.size - 1};
  pd_code code = list_tier(&p, out_cursor);
  if (!code && p.tier == PD_MCP_PERSISTENT && !p.is_full) {
    p.tier = PD_MCP_SHARED;
    p.after = (pd_bytes){0};
    code = list_tier(&p, out_cursor);
  }
  pd_buf_done(&p.last);
  return code;
}

pd_code pd_mcp_home_templates(pd_mcp_turn *turn)
{
  char template[64];
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    snprintf(template, sizeof template, "%s{%s}", kinds[i].prefix, kinds[i].variable);
    pd_json_open(&turn->w, '{');
    pd_json_put_text(&turn->w, "uriTemplate", template);
    pd_json_put_text(&turn->w, "name", kinds[i].name);
    pd_json_put_text(&turn->w, "description", kinds[i].about);
    pd_json_put_text(&turn->w, "mimeType", "application/json");
    pd_json_close(&turn->w, '}');
  }
  return turn->w.code;
}

/* ---- reading ---- */

static pd_code not_found(pd_mcp_turn *turn, const char *uri)
{
  CLEANUP(pd_buf_done) pd_buf data = {0};
  pd_json_writer w = {.out = &data};
  pd_json_put_text(&w, "uri", uri);
  return pd_mcp_refuse_with(turn, turn->is_modern ? PD_MCP_INVALID_PARAMS : PD_MCP_RESOURCE_NOT_FOUND,
                            w.code ? (pd_bytes){0} : pd_buf_bytes(&data), "resource not found: %.300s", uri);
}

static void write_content(pd_mcp_turn *turn, const char *uri, pd_bytes json)
{
  pd_json_open(&turn->w, '{');
  pd_json_put_text(&turn->w, "uri", uri);
  pd_json_put_text(&turn->w, "mimeType", "application/json");
  pd_json_put_bytes(&turn->w, "text", json);
  pd_json_close(&turn->w, '}');
}

static pd_code read_value(pd_mcp_turn *turn, const char *uri, const pd_mcp_topic *topic)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json_writer w = {.out = &input, .err = &turn->err};
  pd_json json;
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "key", pd_buf_bytes(&topic->rest));
  pd_json_close(&w, '}');
  TRY(w.code);
  const char *capability = topic->kind == PD_MCP_SHARED ? "state.shared.get" : "state.persistent.get";
  pd_code code = pd_mcp_call(turn, &who, capability, pd_buf_bytes(&input), &answer, &turn->err);
  if (code == PD_DENIED || code == PD_ERASED || code == PD_INVALID)
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  TRY(pd_json_parse(pd_buf_bytes(&answer), &json, &turn->err));
  pd_json found = pd_json_member(json, "found"), version = pd_json_member(json, "version");
  uint64_t number = 0;
  bool is_there = found.kind == PD_JSON_BOOL ? pd_json_true(found) : pd_json_u64(version, &number) && number > 0;
  if (!is_there) return not_found(turn, uri);
  write_content(turn, uri, pd_json_member(json, "value").raw);
  return turn->w.code;
}

/* ---- commits ---- */

typedef struct shown {
  pd_json_writer w;
} shown;

static void put_id(pd_json_writer *w, const char *key, const pd_id *id)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_put_text(w, key, pd_id_hex(id, hex));
}

static void write_change(pd_json_writer *w, const pd_change *change)
{
  pd_json_open(w, '{');
  pd_json_put_bytes(w, "key", change->key);
  pd_json_put_text(w, "change", change->is_delete ? "delete" : "put");
  pd_json_put_number(w, "version", change->version);
  if (!change->is_delete) {
    put_id(w, "value_id", &change->value_id);
    pd_json_put_number(w, "size_bytes", change->size);
  }
  pd_json_close(w, '}');
}

static bool show_record(void *ctx, const pd_record *r)
{
  pd_json_writer *w = &((shown *)ctx)->w;
  char time[PD_TIME_TEXT_SIZE], hex[PD_ID_HEX_SIZE];
  pd_json_open(w, '{');
  put_id(w, "commit", &r->commit.id);
  put_id(w, "tree", &r->commit.tree);
  pd_json_key(w, "parents");
  pd_json_open(w, '[');
  for (size_t i = 0; i < r->parent_count; i++) pd_json_text(w, pd_text(pd_id_hex(&r->parents[i], hex)));
  pd_json_close(w, ']');
  pd_json_put_number(w, "seq", r->seq);
  pd_json_put_text(w, "ref", r->ref);
  pd_json_put_text(w, "author", r->author);
  if (*r->run) pd_json_put_text(w, "run", r->run);
  if (*r->reason) pd_json_put_text(w, "reason", r->reason);
  pd_json_put_text(w, "time", pd_time_text(r->time_ms, time));
  pd_json_key(w, "changes");
  pd_json_open(w, '[');
  for (size_t i = 0; i < r->change_count && i < CHANGES_MAX; i++) write_change(w, &r->changes[i]);
  pd_json_close(w, ']');
  pd_json_put_number(w, "change_count", r->change_count);
  pd_json_close(w, '}');
  return false;
}

static bool is_hex(const char *text)
{
  return strlen(text) >= 4 && strlen(text) <= 64 && text[strspn(text, "0123456789abcdefABCDEF")] == 0;
}

static pd_code read_commit(pd_mcp_turn *turn, const char *uri, const char *id)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  shown s = {.w = {.out = &text, .err = &turn->err}};
  pd_store *store = NULL;
  if (!is_hex(id) || pd_home_borrow(turn->mcp->home, turn->peer->agent, false, &store, &turn->err)) return not_found(turn, uri);
  pd_code code = pd_show(store, id, show_record, &s, &turn->err);
  if (code == PD_NOT_FOUND || code == PD_INVALID) return not_found(turn, uri);
  if (code == PD_AMBIGUOUS || code == PD_RETIRED) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  TRY(s.w.code);
  if (strlen(id) == 64) turn->ttl_ms = COMMIT_TTL_MS;
  write_content(turn, uri, pd_buf_bytes(&text));
  return turn->w.code;
}

/* ---- threads ---- */

static pd_code read_thread(pd_mcp_turn *turn, const char *uri, const char *id)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json_writer w = {.out = &input, .err = &turn->err};
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "thread_id", id);
  pd_json_close(&w, '}');
  TRY(w.code);
  pd_code code = pd_mcp_call(turn, &who, "threads.load", pd_buf_bytes(&input), &answer, &turn->err);
  if (code == PD_NOT_FOUND || code == PD_INVALID || code == PD_LIMIT) return not_found(turn, uri);
  if (code == PD_DENIED) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  write_content(turn, uri, pd_buf_bytes(&answer));
  return turn->w.code;
}

pd_code pd_mcp_home_read(pd_mcp_turn *turn, const char *uri)
{
  CLEANUP(pd_mcp_topic_done) pd_mcp_topic topic = {0};
  pd_code code = pd_mcp_topic_parse(uri, &topic, &turn->err);
  if (code == PD_NO_MEMORY) return code;
  if (code) return not_found(turn, uri);
  if (topic.kind == PD_MCP_PERSISTENT || topic.kind == PD_MCP_SHARED) return read_value(turn, uri, &topic);
  topic.rest.size_max = 0;
  TRY(pd_buf_byte(&topic.rest, 0, &turn->err));
  const char *id = (const char *)topic.rest.data;
  return topic.kind == PD_MCP_COMMIT ? read_commit(turn, uri, id) : read_thread(turn, uri, id);
}
