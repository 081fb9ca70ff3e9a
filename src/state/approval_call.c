/* approval_call.c: `approvals.list`, `.show`, `.approve` and `.deny`. Invariants P1 to P4 are in approval.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/approval.h"
#include "state/run.h"

#include <stdio.h>

static bool may_see(const pd_frame *frame, const pd_approval *item)
{
  return frame->ctx->is_operator || pd_json_is(item->agent, frame->agent);
}

/* What this reading found expired is written, if nobody else does so right now; the answer is right in either case. */
static void save_expired(pd_approvals *all)
{
  if (pd_approvals_save(all, NULL, NULL)) return;
}

/* ---- list, show ---- */

typedef struct list_query {
  pd_bytes status, agent;
  uint64_t limit, count;
  bool has_more;
} list_query;

static bool is_wanted(const pd_frame *frame, const list_query *q, const pd_approval *item)
{
  if (!may_see(frame, item)) return false;
  char agent[PD_NAME_SIZE_MAX + 1];
  snprintf(agent, sizeof agent, "%.*s", (int)q->agent.size, q->agent.size ? (const char *)q->agent.data : "");
  if (q->agent.size && !pd_json_is(item->agent, agent)) return false;
  return pd_bytes_equal(q->status, pd_text("all")) || pd_bytes_equal(q->status, pd_text(pd_approval_status_name(item->status)));
}

static void list_from(pd_frame *frame, list_query *q, const pd_approval_list *list)
{
  for (size_t i = list->count; i-- && !q->has_more;) {
    if (!is_wanted(frame, q, &list->items[i])) continue;
    q->has_more = q->count == q->limit;
    if (q->has_more) return;
    pd_approval_json(&frame->out, &list->items[i], frame->ctx->is_operator);
    q->count++;
  }
}

pd_code pd_cap_approvals_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_approvals_done) pd_approvals all = {0};
  list_query q = {
    .status = pd_in_text(frame, "status"),
    .agent = pd_in_text(frame, "agent"),
    .limit = (uint64_t)pd_in_int(frame, "limit", 100),
  };
  if (!q.status.data) q.status = pd_text("pending");
  if (!frame->ctx->is_operator && q.agent.data && !pd_bytes_equal(q.agent, pd_text(frame->agent)))
    return pd_error_set(err, PD_DENIED, "the approvals of agent '%.*s' are not for '%s' to see", (int)q.agent.size,
                        (const char *)q.agent.data, frame->agent);
  TRY(pd_approvals_read(frame->home, frame->now_ms, NULL, &all, err));
  pd_json_key(&frame->out, "approvals");
  pd_json_open(&frame->out, '[');
  list_from(frame, &q, &all.pending);
  list_from(frame, &q, &all.history);
  pd_json_close(&frame->out, ']');
  pd_json_put_bool(&frame->out, "has_more", q.has_more);
  pd_json_put_number(&frame->out, "count", q.count);
  save_expired(&all);
  return frame->out.code;
}

static pd_approval *find(pd_approval_list *list, const char *id)
{
  for (size_t i = list->count; i--;)
    if (pd_json_is(list->items[i].id, id)) return &list->items[i];
  return NULL;
}

static pd_code not_found(const char *id, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "ApprovalNotFound", "there is no approval '%s'", id);
}

pd_code pd_cap_approvals_show(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_approvals_done) pd_approvals all = {0};
  char id[65] = "";
  if (!pd_in_string(frame, "approval_id", id, sizeof id)) return not_found(id, err);
  TRY(pd_approvals_read(frame->home, frame->now_ms, NULL, &all, err));
  pd_approval *item = find(&all.pending, id);
  if (!item) item = find(&all.history, id);
  if (!item || !may_see(frame, item)) return not_found(id, err);
  snprintf(frame->approval, sizeof frame->approval, "%s", id);
  pd_json_key(&frame->out, "approval");
  pd_approval_json(&frame->out, item, frame->ctx->is_operator);
  save_expired(&all);
  return frame->out.code;
}

/* ---- decide ---- */

static pd_code already(pd_frame *frame, const pd_approval *item, const char *id, pd_error *err)
{
  char time[PD_TIME_TEXT_SIZE];
  const char *status = pd_approval_status_name(item->status);
  pd_frame_detail_text(frame, "status", status);
  pd_frame_detail_text(frame, "decided_at", pd_time_text(item->decided_ms, time));
  return pd_error_named(err, PD_CONFLICT, "AlreadyDecided", "approval '%s' is %s since %s", id, status, time);
}

/* JSON text of who decides. */
static pd_code who(pd_frame *frame, pd_buf *out, pd_json *by, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_bytes given = pd_in_text(frame, "by");
  pd_json_text(&w, given.data ? given : pd_text(*frame->agent ? frame->agent : "operator"));
  TRY(w.code);
  return pd_json_parse(pd_buf_bytes(out), by, err);
}

/* The item at `at` leaves the pending ones with its decision. */
static pd_code decide(pd_frame *frame, pd_approvals *all, pd_approval *at, pd_approval_status status, pd_error *err)
{
  pd_approval item = *at;
  item.status = status;
  item.decided_ms = frame->now_ms;
  item.reason = pd_in(frame, "reason");
  if (status == PD_APPROVED && item.expires_ms) item.usable_ms = frame->now_ms + (item.expires_ms - item.created_ms);
  CLEANUP(pd_buf_done) pd_buf by = {0};
  TRY(who(frame, &by, &item.decided_by, err));
  size_t after = all->pending.count - (size_t)(at - all->pending.items) - 1;
  memmove(at, at + 1, after * sizeof *at);
  all->pending.count--;
  all->pending.is_changed = true;
  TRY(pd_approvals_remember(all, &item, err));
  pd_ack ack;
  TRY(pd_approvals_save(all, &ack, err));
  pd_frame_commit(frame, &ack);
  pd_json_key(&frame->out, "approval");
  pd_approval_json(&frame->out, &item, frame->ctx->is_operator);
  pd_json_put_bool(&frame->out, "agent_told", pd_approval_tell(frame->home, &item, NULL) == PD_OK);
  return frame->out.code;
}

static pd_code decide_once(pd_frame *frame, const char *id, pd_approval_status status, pd_error *err)
{
  CLEANUP(pd_approvals_done) pd_approvals all = {0};
  pd_note note = {.author = *frame->agent ? frame->agent : "operator", .run = frame->ctx->session, .reason = frame->capability->name};
  TRY(pd_approvals_read(frame->home, frame->now_ms, &note, &all, err));
  pd_approval *item = find(&all.pending, id);
  if (item) return decide(frame, &all, item, status, err);
  item = find(&all.history, id);
  if (!item) return not_found(id, err);
  save_expired(&all);
  return already(frame, item, id, err);
}

static pd_code decide_call(pd_frame *frame, pd_approval_status status, pd_error *err)
{
  char id[65] = "";
  if (!pd_in_string(frame, "approval_id", id, sizeof id)) return not_found(id, err);
  snprintf(frame->approval, sizeof frame->approval, "%s", id);
  pd_code code = PD_CONFLICT;
  do /* again, if others were faster: what they changed is on the disk */
    code = decide_once(frame, id, status, err);
  while (code == PD_CONFLICT && strcmp(pd_error_name(err), "AlreadyDecided") != 0);
  return code;
}

pd_code pd_cap_approvals_approve(pd_frame *frame, pd_error *err)
{
  return decide_call(frame, PD_APPROVED, err);
}

pd_code pd_cap_approvals_deny(pd_frame *frame, pd_error *err)
{
  return decide_call(frame, PD_REFUSED, err);
}
