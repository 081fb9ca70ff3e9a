/* approval_settle.c: a call that needs approval: use one, ask for one, or say what became of it. Invariants P1 to P4 are in approval.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/approval.h"
#include "state/foresee.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define SHOWN_MAX 1024 /* of one field, as JSON text, in what the operator is shown */
#define BEGINS_MAX 200

/* ---- what the operator is shown ---- */

static bool is_secret(const char *field)
{
  static const char *const names[] = {"passphrase", "password", "secret", "token"};
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (strstr(field, names[i])) return true;
  return false;
}

static void shown_field(pd_json_writer *w, const pd_input *input, size_t index)
{
  const pd_field *field = &input->capability->fields[index];
  pd_json value = input->fields[index];
  pd_json_key(w, field->name);
  if (is_secret(field->name)) {
    pd_json_text(w, pd_text("(hidden)"));
  } else if (value.raw.size <= SHOWN_MAX) {
    pd_json_value(w, value);
  } else {
    pd_bytes text = field->type == PD_FIELD_STRING ? input->texts[index] : value.raw;
    pd_json_open(w, '{');
    pd_json_put_number(w, "size_bytes", text.size);
    pd_json_put_bytes(w, "begins", (pd_bytes){text.data, text.size < BEGINS_MAX ? text.size : BEGINS_MAX});
    pd_json_close(w, '}');
  }
}

/* ---- a request ---- */

static pd_code new_id(int64_t now_ms, char *out, size_t size, pd_error *err)
{
  uint64_t random;
  char time[PD_TIME_TEXT_SIZE];
  if (getrandom(&random, sizeof random, 0) != sizeof random) return pd_error_set(err, PD_STORAGE, "no random numbers for an approval");
  pd_time_text(now_ms, time);
  snprintf(out, size, "apr-%.4s%.2s%.2sT%.2s%.2s%.2sZ-%016llx", time, time + 5, time + 8, time + 11, time + 14, time + 17,
           (unsigned long long)random);
  return PD_OK;
}

static void request_json(pd_json_writer *w, const pd_frame *frame, const char *id, const pd_id *hash, int64_t expires_ms,
                         const char *policy)
{
  char hex[PD_ID_HEX_SIZE], time[PD_TIME_TEXT_SIZE];
  pd_json_open(w, '{');
  pd_json_put_text(w, "id", id);
  pd_json_put_text(w, "agent", frame->agent);
  if (frame->ctx->session) pd_json_put_text(w, "session", frame->ctx->session);
  pd_json_put_text(w, "capability", frame->capability->name);
  pd_json_put_text(w, "input_hash", pd_id_hex(hash, hex));
  pd_json_key(w, "input");
  pd_json_open(w, '{');
  for (size_t i = 0; i < frame->capability->field_count; i++)
    if (frame->input->fields[i].kind != PD_JSON_NONE) shown_field(w, frame->input, i);
  pd_json_close(w, '}');
  if (frame->facts.size) {
    pd_json_key(w, "resolved");
    pd_json_open(w, '{');
    pd_json_raw(w, pd_buf_bytes(&frame->facts));
    pd_json_close(w, '}');
  }
  if (policy && *policy) pd_json_put_text(w, "policy", policy);
  pd_json_put_text(w, "created_at", pd_time_text(frame->now_ms, time));
  if (expires_ms) pd_json_put_text(w, "expires_at", pd_time_text(expires_ms, time));
  pd_json_put_text(w, "status", pd_approval_status_name(PD_PENDING));
  pd_json_close(w, '}');
}

static pd_code check_room(const pd_approvals *all, const pd_frame *frame, size_t more, pd_error *err)
{
  size_t own = 0, size = more;
  for (size_t i = 0; i < all->pending.count; i++) {
    size += all->pending.items[i].size;
    own += pd_json_is(all->pending.items[i].agent, frame->agent);
  }
  if (own >= PD_APPROVALS_AGENT_MAX)
    return pd_error_set(err, PD_LIMIT, "agent '%s' waits for %zu approvals already; at most %d", frame->agent, own, PD_APPROVALS_AGENT_MAX);
  if (all->pending.count >= PD_APPROVALS_PENDING_MAX || size > PD_APPROVALS_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "%zu approvals are pending already, which is the limit", all->pending.count);
  return PD_OK;
}

/* A new pending item; `text` holds it. */
static pd_code request(pd_approvals *all, const pd_frame *frame, const pd_id *hash, uint64_t ttl_ms, const char *policy, pd_buf *text,
                       pd_approval *out, pd_error *err)
{
  char id[64];
  pd_json json;
  CLEANUP(pd_buf_done) pd_buf why = {0};
  pd_json_writer w = {.out = text, .err = err};
  TRY(new_id(frame->now_ms, id, sizeof id, err));
  if (policy && *policy) TRY(pd_buf_printf(&why, err, "%s; ", policy));
  TRY(pd_restore_notice(frame, &why, err));
  if (why.size > 1 && memcmp(why.data + why.size - 2, "; ", 2) == 0) why.size -= 2;
  TRY(pd_buf_byte(&why, 0, err));
  request_json(&w, frame, id, hash, ttl_ms ? frame->now_ms + (int64_t)ttl_ms : 0, (const char *)why.data);
  TRY(w.code);
  TRY(check_room(all, frame, text->size, err));
  TRY(pd_json_parse(pd_buf_bytes(text), &json, err));
  TRY(pd_approval_parse(json, out, err));
  pd_approval_list *list = &all->pending;
  TRY(pd_array_grow(&list->items, list->count, &list->capacity, sizeof list->items[0], "approvals", err));
  list->items[list->count++] = *out;
  list->is_changed = true;
  return PD_OK;
}

/* ---- answers ---- */

static void name_in_answer(pd_frame *frame, const pd_approval *item)
{
  char time[PD_TIME_TEXT_SIZE];
  CLEANUP(pd_buf_done) pd_buf id = {0};
  CLEANUP(pd_buf_done) pd_buf reason = {0};
  if (pd_json_decode(item->id, &id, NULL) || pd_buf_byte(&id, 0, NULL)) return;
  snprintf(frame->approval, sizeof frame->approval, "%s", (const char *)id.data);
  pd_frame_detail_text(frame, "approval_id", frame->approval);
  if (item->status == PD_PENDING && item->expires_ms) pd_frame_detail_text(frame, "expires_at", pd_time_text(item->expires_ms, time));
  if (item->reason.kind == PD_JSON_STRING && pd_json_decode(item->reason, &reason, NULL) == PD_OK && pd_buf_byte(&reason, 0, NULL) == PD_OK)
    pd_frame_detail_text(frame, "reason", (const char *)reason.data);
}

static pd_code answer(pd_frame *frame, const pd_approval *item, pd_error *err)
{
  char decided[PD_TIME_TEXT_SIZE];
  name_in_answer(frame, item);
  pd_time_text(item->decided_ms, decided);
  switch (item->status) {
  case PD_PENDING:
    return pd_error_named(err, PD_APPROVAL, "ApprovalRequired", "%s needs approval; it is asked for by %s", frame->capability->name,
                          frame->approval);
  case PD_REFUSED:
    return pd_error_named(err, PD_DENIED, "ApprovalDenied", "%s was denied at %s (%s)", frame->capability->name, decided, frame->approval);
  case PD_APPROVED: /* but not used in time */
    return pd_error_named(err, PD_DENIED, "ApprovalExpired", "%s was approved at %s, and not made in time (%s)", frame->capability->name,
                          decided, frame->approval);
  case PD_EXPIRED: break;
  }
  return pd_error_named(err, PD_DENIED, "ApprovalExpired", "%s was not decided until %s (%s)", frame->capability->name, decided,
                        frame->approval);
}

/* ---- settling ---- */

static pd_approval *find(pd_approval_list *list, const pd_frame *frame, const char *hash)
{
  for (size_t i = list->count; i--;)
    if (pd_json_is(list->items[i].input_hash, hash) && pd_json_is(list->items[i].agent, frame->agent)) return &list->items[i];
  return NULL;
}

static bool is_usable(const pd_approval *item, int64_t now_ms)
{
  return item->status == PD_APPROVED && !item->used_ms && (!item->usable_ms || item->usable_ms > now_ms);
}

/* Is what was found out now what the item says? Both are as perdure writes them (F3). */
static bool has_facts(const pd_approval *item, const pd_frame *frame)
{
  pd_bytes raw = item->resolved.raw;
  if (item->resolved.kind == PD_JSON_NONE) return !frame->facts.size;
  return raw.size == frame->facts.size + 2 && memcmp((const char *)raw.data + 1, frame->facts.data, frame->facts.size) == 0;
}

/* P5: it is over, with the reason why. `text` holds that. */
static pd_code let_expire(pd_approval *item, int64_t now_ms, const char *why, pd_buf *text, pd_error *err)
{
  pd_json_writer w = {.out = text, .err = err};
  pd_json_text(&w, pd_text(why));
  TRY(w.code);
  TRY(pd_json_parse(pd_buf_bytes(text), &item->reason, err));
  item->status = PD_EXPIRED;
  item->told_ms = now_ms;
  if (!item->decided_ms) item->decided_ms = now_ms;
  return PD_OK;
}

/* *out_lost: others changed the approvals meanwhile. */
static pd_code save(pd_approvals *all, bool *out_lost, pd_error *err)
{
  pd_code code = pd_approvals_save(all, NULL, err);
  *out_lost = code == PD_CONFLICT;
  return code;
}

static pd_code is_stale(pd_frame *frame, pd_approvals *all, pd_approval *item, const pd_error *why, bool *out_lost, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char reason[PD_ERROR_MESSAGE_MAX];
  snprintf(reason, sizeof reason, "%.400s", why->message);
  TRY(let_expire(item, frame->now_ms, reason, &text, err));
  all->history.is_changed = true;
  TRY(save(all, out_lost, err));
  name_in_answer(frame, item);
  return pd_error_named(err, PD_DENIED, "ApprovalStale", "%s was approved for another state than this, and nothing was changed (%s): %s",
                        frame->capability->name, frame->approval, reason);
}

/* Is what was approved no more? gc may have taken it; it does not come back, so waiting for it would refuse the agent for good. */
static bool is_gone(pd_code code, const pd_approval *item)
{
  return item->resolved.kind != PD_JSON_NONE && (code == PD_NOT_FOUND || code == PD_RETIRED || code == PD_ERASED);
}

/* P3, P5. */
static pd_code use(pd_frame *frame, pd_approvals *all, pd_approval *item, bool *out_lost, pd_error *err)
{
  pd_error why = {0};
  if (item->resolved.kind != PD_JSON_NONE) TRY(pd_foresee_bind(frame, item->resolved.raw, err));
  pd_code code = pd_foresee(frame, &why);
  if (!code && !has_facts(item, frame)) code = pd_error_set(&why, PD_CONFLICT, "what it would do is not what was approved");
  if (code == PD_CONFLICT || is_gone(code, item)) return is_stale(frame, all, item, &why, out_lost, err);
  if (code && err) *err = why;
  TRY(code); /* it could not be done: the approval stays */
  item->used_ms = frame->now_ms;
  all->history.is_changed = true;
  TRY(save(all, out_lost, err));
  frame->is_approved = true;
  name_in_answer(frame, item);
  pd_buf_clear(&frame->details); /* the details of a failure that is to come are its own */
  return PD_OK;
}

/* P5: a request for what is no more; the one that is about to be made takes its place. */
static pd_code supersede(pd_approvals *all, pd_approval *at, pd_buf *text, pd_error *err)
{
  pd_approval item = *at;
  TRY(let_expire(&item, all->now_ms, "asked for again, as things are now", text, err));
  size_t after = all->pending.count - (size_t)(at - all->pending.items) - 1;
  memmove(at, at + 1, after * sizeof *at);
  all->pending.count--;
  all->pending.is_changed = true;
  return pd_approvals_remember(all, &item, err);
}

/* One look, one change at most. */
static pd_code settle_once(pd_frame *frame, const pd_id *hash, uint64_t ttl_ms, const char *policy, bool *out_lost, pd_error *err)
{
  pd_note note = {.author = frame->agent, .run = frame->ctx->session, .reason = frame->capability->name};
  CLEANUP(pd_approvals_done) pd_approvals all = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_buf_done) pd_buf reason = {0};
  char hex[PD_ID_HEX_SIZE];
  pd_approval made;
  pd_id_hex(hash, hex);
  TRY(pd_approvals_read(frame->home, frame->now_ms, &note, &all, err));
  pd_approval *item = find(&all.pending, frame, hex);
  bool is_pending = item != NULL;
  if (!item) item = find(&all.history, frame, hex);
  if (!is_pending && item && is_usable(item, frame->now_ms)) return use(frame, &all, item, out_lost, err);
  bool is_told = !item || item->used_ms || item->told_ms;
  if (is_pending || is_told) TRY(pd_foresee(frame, err));
  if (is_pending && !has_facts(item, frame) && !pd_foresee_is_of_host(frame->capability->name)) {
    TRY(supersede(&all, item, &reason, err));
    is_pending = false;
    is_told = true;
  }
  if (!is_pending && !is_told) {
    item->told_ms = frame->now_ms;
    all.history.is_changed = true;
  } else if (!is_pending) {
    TRY(request(&all, frame, hash, ttl_ms, policy, &text, &made, err));
    item = &made;
  }
  TRY(save(&all, out_lost, err));
  return answer(frame, item, err);
}

pd_code pd_approval_settle(pd_frame *frame, uint64_t ttl_ms, const char *policy, pd_error *err)
{
  pd_id hash;
  TRY(pd_input_hash(frame->input, &hash, err));
  for (;;) {
    bool is_lost = false;
    pd_code code = settle_once(frame, &hash, ttl_ms, policy, &is_lost, err);
    if (!is_lost) return code; /* else lost to another's change, which is on the disk */
    pd_foresee_unbind(frame);
  }
}

static pd_code give_back_once(const pd_frame *frame, pd_error *err)
{
  pd_note note = {.author = frame->agent, .run = frame->ctx->session, .reason = frame->capability->name};
  CLEANUP(pd_approvals_done) pd_approvals all = {0};
  TRY(pd_approvals_read(frame->home, frame->now_ms, &note, &all, err));
  for (size_t i = all.history.count; i--;) {
    pd_approval *item = &all.history.items[i];
    if (!pd_json_is(item->id, frame->approval)) continue;
    item->used_ms = 0;
    all.history.is_changed = true;
    return pd_approvals_save(&all, NULL, err);
  }
  return PD_OK;
}

void pd_approval_give_back(const pd_frame *frame)
{
  pd_code code = PD_CONFLICT;
  while (code == PD_CONFLICT) code = give_back_once(frame, NULL);
}
