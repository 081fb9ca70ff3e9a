/* approval.c: the two lists of approvals: reading, expiry, writing. Invariants P1 to P4 are in approval.h. */
#include "state/approval.h"

#include "base/array.h"
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/queue.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const statuses[] = {"pending", "approved", "denied", "expired", NULL};

const char *pd_approval_status_name(pd_approval_status status)
{
  return statuses[status];
}

/* ---- one item ---- */

#define JSON_AT(name, member)                                                                                                              \
  {                                                                                                                                        \
    name, PD_BIND_JSON, PD_BIND_AT(pd_approval, member), .is_optional = true                                                               \
  }
#define STRING_AT(name, member)                                                                                                            \
  {                                                                                                                                        \
    name, PD_BIND_STRING, PD_BIND_AT(pd_approval, member)                                                                                  \
  }
#define TIME_AT(name, member)                                                                                                              \
  {                                                                                                                                        \
    name, PD_BIND_TIME, PD_BIND_AT(pd_approval, member), .is_optional = true                                                               \
  }

static const pd_bind members[] = {
  STRING_AT("id", id),
  STRING_AT("agent", agent),
  JSON_AT("session", session),
  STRING_AT("capability", capability),
  STRING_AT("input_hash", input_hash),
  JSON_AT("input", input),
  JSON_AT("resolved", resolved),
  JSON_AT("policy", policy),
  TIME_AT("created_at", created_ms),
  TIME_AT("expires_at", expires_ms),
  {"status", PD_BIND_NAME, PD_BIND_AT(pd_approval, status), .names = statuses},
  TIME_AT("decided_at", decided_ms),
  JSON_AT("decided_by", decided_by),
  JSON_AT("reason", reason),
  TIME_AT("usable_until", usable_ms),
  TIME_AT("used_at", used_ms),
  TIME_AT("told_at", told_ms),
};

pd_code pd_approval_parse(pd_json object, pd_approval *out, pd_error *err)
{
  pd_error why = {0};
  pd_approval item = {.size = object.raw.size};
  if (pd_bind_read(object, members, COUNT_OF(members), PD_BIND_EXACT, &item, &why))
    return pd_error_set(err, PD_CORRUPT, "an approval in the system store is not as perdure writes it: %s", why.message);
  *out = item;
  return PD_OK;
}

void pd_approval_put(pd_json_writer *w, const pd_approval *item)
{
  pd_bind_object(w, members, COUNT_OF(members), item);
}

static bool is_of_host(const pd_approval *item)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  return pd_json_decode(item->capability, &name, NULL) || pd_buf_byte(&name, 0, NULL) || pd_foresee_is_of_host((const char *)name.data);
}

void pd_approval_json(pd_json_writer *w, const pd_approval *item, bool is_operator)
{
  pd_approval shown = *item;
  if (!is_operator && is_of_host(item)) shown.resolved = (pd_json){0};
  pd_json_open(w, '{');
  pd_json_put_value(w, "approval_id", item->id);
  pd_bind_write(w, members, COUNT_OF(members), &shown);
  pd_json_close(w, '}');
}

pd_code pd_approval_tell(pd_home *home, const pd_approval *item, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf agent = {0};
  CLEANUP(pd_buf_done) pd_buf key = {0};
  CLEANUP(pd_buf_done) pd_buf body = {0};
  pd_json_writer w = {.out = &body, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_value(&w, "approval_id", item->id);
  pd_json_put_value(&w, "capability", item->capability);
  pd_json_put_text(&w, "status", pd_approval_status_name(item->status));
  if (item->decided_ms) pd_json_put_time(&w, "decided_at", item->decided_ms);
  pd_json_put_value(&w, "decided_by", item->decided_by);
  pd_json_put_value(&w, "reason", item->reason);
  if (item->usable_ms) pd_json_put_time(&w, "usable_until", item->usable_ms);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(pd_json_decode(item->agent, &agent, err));
  TRY(pd_buf_byte(&agent, 0, err));
  TRY(pd_json_decode(item->id, &key, err));
  TRY(pd_buf_byte(&key, 0, err));
  return pd_queue_push(home, (const char *)agent.data, PD_QUEUE_APPROVAL, pd_buf_bytes(&body), (const char *)key.data, err);
}

/* ---- the lists ---- */

static pd_code list_add(pd_approval_list *list, const pd_approval *item, pd_error *err)
{
  TRY(pd_array_grow(&list->items, list->count, &list->capacity, sizeof list->items[0], "approvals", err));
  list->items[list->count++] = *item;
  return PD_OK;
}

static pd_code list_read(pd_edit *edit, const char *key, pd_approval_list *out, pd_error *err)
{
  pd_entry entry;
  pd_json array, item;
  pd_code code = pd_edit_get(edit, pd_text(key), &out->text, &entry, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  out->version = entry.version;
  if (pd_json_parse(pd_buf_bytes(&out->text), &array, NULL) || array.kind != PD_JSON_ARRAY)
    return pd_error_set(err, PD_CORRUPT, "'%s' in the system store is no list of approvals", key);
  pd_json_walk walk = pd_json_walk_begin(array);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    pd_approval parsed;
    TRY(pd_approval_parse(item, &parsed, err));
    TRY(list_add(out, &parsed, err));
  }
  return PD_OK;
}

static pd_code list_write(pd_edit *edit, const char *key, const pd_approval_list *list, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  if (!list->is_changed) return PD_OK;
  pd_json_open(&w, '[');
  for (size_t i = 0; i < list->count; i++) pd_approval_put(&w, &list->items[i]);
  pd_json_close(&w, ']');
  TRY(w.code);
  return pd_edit_put(edit, pd_text(key), pd_buf_bytes(&text), list->version, err);
}

/* An approval that may still be used stays, however many come after it. */
static bool is_live(const pd_approval *item, int64_t now_ms)
{
  return item->status == PD_APPROVED && !item->used_ms && (!item->usable_ms || item->usable_ms > now_ms);
}

pd_code pd_approvals_remember(pd_approvals *all, const pd_approval *item, pd_error *err)
{
  pd_approval_list *list = &all->history;
  TRY(list_add(list, item, err));
  list->is_changed = true;
  size_t size = 0,
         excess = list->count > all->home->config.approval_history_keep ? list->count - all->home->config.approval_history_keep : 0;
  for (size_t i = 0; i < list->count; i++) size += list->items[i].size;
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    bool goes = (excess || size > PD_APPROVALS_SIZE_MAX) && i + 1 < list->count && !is_live(&list->items[i], all->now_ms);
    if (!goes) {
      list->items[kept++] = list->items[i];
      continue;
    }
    if (excess) excess--;
    size -= list->items[i].size;
    if (all->expired_from > kept) all->expired_from--;
  }
  list->count = kept;
  return PD_OK;
}

static pd_code expire(pd_approvals *all, pd_error *err)
{
  pd_approval_list *list = &all->pending;
  size_t kept = 0;
  all->expired_from = all->history.count;
  for (size_t i = 0; i < list->count; i++) {
    pd_approval *item = &list->items[i];
    if (!item->expires_ms || item->expires_ms > all->now_ms) {
      list->items[kept++] = *item;
      continue;
    }
    item->status = PD_EXPIRED;
    item->decided_ms = item->expires_ms;
    TRY(pd_approvals_remember(all, item, err));
    list->is_changed = true;
  }
  list->count = kept;
  return PD_OK;
}

pd_code pd_approvals_read(pd_home *home, int64_t now_ms, const pd_note *note, pd_approvals *out, pd_error *err)
{
  pd_store *store;
  pd_note own = {.author = "perdure", .reason = "approvals"};
  *out = (pd_approvals){.home = home, .now_ms = now_ms};
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  TRY(pd_edit_begin(store, note ? note : &own, &out->edit, err));
  TRY(list_read(out->edit, PD_APPROVALS_PENDING, &out->pending, err));
  TRY(list_read(out->edit, PD_APPROVALS_HISTORY, &out->history, err));
  return expire(out, err);
}

void pd_approvals_done(pd_approvals *all)
{
  pd_edit_abort(all->edit);
  all->edit = NULL;
  pd_buf_done(&all->pending.text);
  pd_buf_done(&all->history.text);
  free(all->pending.items);
  free(all->history.items);
  all->pending.items = all->history.items = NULL;
}

pd_code pd_approvals_save(pd_approvals *all, pd_ack *out, pd_error *err)
{
  if (!all->pending.is_changed && !all->history.is_changed) return PD_OK;
  pd_ack own;
  TRY(list_write(all->edit, PD_APPROVALS_PENDING, &all->pending, err));
  TRY(list_write(all->edit, PD_APPROVALS_HISTORY, &all->history, err));
  TRY(pd_edit_commit(all->edit, out ? out : &own, err));
  all->edit = NULL;
  for (size_t i = all->expired_from; i < all->history.count; i++)
    if (all->history.items[i].status == PD_EXPIRED && pd_approval_tell(all->home, &all->history.items[i], NULL)) break;
  return PD_OK; /* a full queue takes nothing back: approvals.list tells the same */
}
