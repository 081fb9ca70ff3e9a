/* pending.c: see pending.h. */
#include "state/pending.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/moment.h"

static pd_pending parse(pd_json object)
{
  return (pd_pending){
    .id = pd_json_member(object, "id"),
    .agent = pd_json_member(object, "agent"),
    .capability = pd_json_member(object, "capability"),
    .status = pd_json_member(object, "status"),
    .decided_by = pd_json_member(object, "decided_by"),
    .reason = pd_json_member(object, "reason"),
    .created_ms = pd_json_time(pd_json_member(object, "created_at")),
    .expires_ms = pd_json_time(pd_json_member(object, "expires_at")),
    .decided_ms = pd_json_time(pd_json_member(object, "decided_at")),
  };
}

/* The array at a key of the system store; absent is empty. `text` keeps it. */
static pd_code read_list(pd_home *home, const char *key, pd_buf *text, pd_json *out, pd_error *err)
{
  pd_store *store;
  *out = (pd_json){0};
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  pd_code code = pd_get(store, "main", pd_text(key), text, NULL, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  return pd_json_parse(pd_buf_bytes(text), out, err);
}

pd_code pd_pending_each(pd_home *home, const char *agent, int64_t now_ms, void (*visit)(void *ctx, const pd_pending *item), void *ctx,
                        pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json list, object;
  TRY(read_list(home, "approvals:pending", &text, &list, err));
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &object)) {
    pd_pending item = parse(object);
    bool is_alive = !item.expires_ms || item.expires_ms > now_ms;
    if (is_alive && (!agent || pd_json_is(item.agent, agent))) visit(ctx, &item);
  }
  return PD_OK;
}

pd_code pd_decided_each(pd_home *home, const char *agent, int64_t since_ms, void (*visit)(void *ctx, const pd_pending *item), void *ctx,
                        pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json list, object;
  TRY(read_list(home, "approvals:history", &text, &list, err));
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &object)) {
    pd_pending item = parse(object);
    int64_t at_ms = item.decided_ms ? item.decided_ms : item.expires_ms;
    if (at_ms > since_ms && pd_json_is(item.agent, agent)) visit(ctx, &item);
  }
  return PD_OK;
}

void pd_pending_write(pd_json_writer *w, const pd_pending *item)
{
  pd_json_open(w, '{');
  pd_json_put_value(w, "approval_id", item->id);
  pd_json_put_value(w, "agent", item->agent);
  pd_json_put_value(w, "capability", item->capability);
  pd_json_put_value(w, "status", item->status);
  pd_json_put_time(w, "created_at", item->created_ms);
  if (item->expires_ms) pd_json_put_time(w, "expires_at", item->expires_ms);
  if (item->decided_ms) pd_json_put_time(w, "decided_at", item->decided_ms);
  pd_json_put_value(w, "decided_by", item->decided_by);
  pd_json_put_value(w, "reason", item->reason);
  pd_json_close(w, '}');
}
