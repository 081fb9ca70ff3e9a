/*
 * mcp_commit.c: commits as resources: of the caller's own store, or of the shared one; no other is ever looked into. Reading them goes past
 * the door, so it asks what the door would say to the calls that tell the same.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/mcp_home.h"

#include <stdio.h>

#define COMMIT_TTL_MS 86400000u /* a commit never changes */
#define CHANGES_MAX 1000

typedef struct shown {
  pd_json_writer w;
  const char *store;
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
  shown *s = ctx;
  pd_json_writer *w = &s->w;
  char time[PD_TIME_TEXT_SIZE], hex[PD_ID_HEX_SIZE];
  pd_json_open(w, '{');
  put_id(w, "commit", &r->commit.id);
  put_id(w, "tree", &r->commit.tree);
  pd_json_key(w, "parents");
  pd_json_open(w, '[');
  for (size_t i = 0; i < r->parent_count; i++) pd_json_text(w, pd_text(pd_id_hex(&r->parents[i], hex)));
  pd_json_close(w, ']');
  pd_json_put_text(w, "store", s->store);
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

/* PD_NOT_FOUND: not in this store. */
static pd_code show(pd_mcp_turn *turn, const char *name, const char *capability, const char *id, pd_buf *text)
{
  shown s = {.w = {.out = text, .err = &turn->err}, .store = name};
  pd_store *store = NULL;
  TRY(pd_home_borrow(turn->mcp->home, name, false, &store, &turn->err));
  pd_code code = pd_show(store, id, show_record, &s, &turn->err);
  if (code == PD_INVALID) return PD_NOT_FOUND;
  TRY(code);
  TRY(s.w.code);
  return pd_mcp_may_read(turn, capability, (pd_bytes){0}, &turn->err); /* after the look: who may not sees no difference to what is not */
}

pd_code pd_mcp_commit_read(pd_mcp_turn *turn, const char *uri, const char *id)
{
  static const char shared[] = "shared";
  CLEANUP(pd_buf_done) pd_buf text = {0};
  const char *agent = turn->peer->agent;
  bool is_agent = strcmp(agent, shared) != 0 && strcmp(agent, "system") != 0; /* stores that are no agent's */
  if (!is_hex(id)) return pd_mcp_not_found(turn, uri);
  pd_code code = is_agent ? show(turn, agent, PD_MCP_COMMITS_OWN, id, &text) : PD_NOT_FOUND;
  if (code == PD_NOT_FOUND || code == PD_DENIED) {
    pd_buf_clear(&text);
    code = show(turn, shared, PD_MCP_COMMITS_SHARED, id, &text);
  }
  if (code == PD_NOT_FOUND || code == PD_DENIED) return pd_mcp_not_found(turn, uri);
  if (code == PD_AMBIGUOUS || code == PD_RETIRED) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  if (strlen(id) == 64) turn->ttl_ms = COMMIT_TTL_MS;
  pd_mcp_content_write(turn, uri, pd_buf_bytes(&text));
  return turn->w.code;
}
