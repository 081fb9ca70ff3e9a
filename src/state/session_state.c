/* session_state.c: what agents do in sessions: the capabilities session.* and state.session.*. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/call.h"
#include "state/run.h"
#include "state/session.h"

#include <stdlib.h>

static void leave(pd_session **session)
{
  pd_session_leave(*session);
}

/* The caller's own session. */
static pd_code enter(const pd_frame *frame, pd_session **out, pd_error *err)
{
  return pd_session_enter(frame->home, frame->agent, frame->ctx->session, out, err);
}

/* Room for the rest of the answer: after the change nothing may fail. */
static pd_code settle_answer(const pd_frame *frame, pd_error *err)
{
  return frame->out.code ? frame->out.code : pd_buf_reserve(frame->out.out, 16, err);
}

static void put_value(pd_frame *frame, const char *name, const pd_session_entry *entry)
{
  pd_json_key(&frame->out, name);
  if (entry)
    pd_json_raw(&frame->out, pd_session_entry_value(entry));
  else
    pd_json_null(&frame->out);
}

/* ---- state.session.* ---- */

pd_code pd_cap_state_session_get(pd_frame *frame, pd_error *err)
{
  CLEANUP(leave) pd_session *session = NULL;
  TRY(enter(frame, &session, err));
  const pd_session_entry *entry = pd_session_map_find(&session->map, pd_in_text(frame, "key"));
  put_value(frame, "value", entry);
  pd_json_put_bool(&frame->out, "found", entry);
  return PD_OK;
}

static pd_code check_quota(pd_frame *frame, const pd_session *session, const pd_session_entry *old, pd_bytes key, pd_bytes value,
                           pd_error *err)
{
  size_t used = session->map.bytes, freed = old ? (size_t)old->key_size + old->value_size : 0, more = key.size + value.size;
  uint64_t limit = frame->home->config.session_quota_bytes;
  if (used - freed + more <= limit) return PD_OK;
  pd_frame_detail_number(frame, "used", used);
  pd_frame_detail_number(frame, "limit", limit);
  pd_frame_detail_number(frame, "needed", more);
  return pd_error_set(err, PD_QUOTA, "key '%.*s' needs %zu bytes, and the session uses %zu of its %llu",
                      (int)(key.size < 64 ? key.size : 64), (const char *)key.data, more, used, (unsigned long long)limit);
}

/* The bytes that the agent's sessions have together, S3; before the change. */
static pd_code take_share(pd_frame *frame, const pd_session *session, pd_bytes key, size_t more, pd_error *err)
{
  uint64_t limit = frame->home->config.session_agent_quota_bytes;
  if (pd_session_share_take(session->share, more, limit)) return PD_OK;
  size_t used = pd_session_share_bytes(session->share);
  pd_frame_detail_number(frame, "used", used);
  pd_frame_detail_number(frame, "limit", limit);
  pd_frame_detail_number(frame, "needed", more);
  return pd_error_set(err, PD_QUOTA, "key '%.*s' needs %zu bytes more, and the sessions of agent '%s' use %zu of their %llu (%s)",
                      (int)(key.size < 64 ? key.size : 64), (const char *)key.data, more, frame->agent, used, (unsigned long long)limit,
                      "it follows session.quota");
}

/* What was taken before and is not needed after all, or is not needed any more. */
static void settle_share(const pd_session *session, size_t before, size_t taken)
{
  size_t counted = before + taken;
  if (counted > session->map.bytes) pd_session_share_give(session->share, counted - session->map.bytes);
}

pd_code pd_cap_state_session_set(pd_frame *frame, pd_error *err)
{
  CLEANUP(leave) pd_session *session = NULL;
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_bytes key = pd_in_text(frame, "key");
  TRY(pd_in_value(frame, "value", &value, err));
  TRY(enter(frame, &session, err));
  const pd_session_entry *old = pd_session_map_find(&session->map, key);
  TRY(check_quota(frame, session, old, key, pd_buf_bytes(&value), err));
  put_value(frame, "previous_value", old);
  pd_json_put_bool(&frame->out, "overwritten", old);
  TRY(settle_answer(frame, err));
  size_t before = session->map.bytes, freed = old ? (size_t)old->key_size + old->value_size : 0, needed = key.size + value.size;
  size_t more = needed > freed ? needed - freed : 0;
  TRY(take_share(frame, session, key, more, err));
  pd_code code = pd_session_map_put(&session->map, key, pd_buf_bytes(&value), err);
  settle_share(session, before, more);
  return code;
}

pd_code pd_cap_state_session_delete(pd_frame *frame, pd_error *err)
{
  CLEANUP(leave) pd_session *session = NULL;
  pd_bytes key = pd_in_text(frame, "key");
  TRY(enter(frame, &session, err));
  const pd_session_entry *old = pd_session_map_find(&session->map, key);
  put_value(frame, "previous_value", old);
  pd_json_put_bool(&frame->out, "deleted", old);
  TRY(settle_answer(frame, err));
  size_t before = session->map.bytes;
  if (old) pd_session_map_remove(&session->map, key);
  settle_share(session, before, 0);
  return PD_OK;
}

pd_code pd_cap_state_session_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(leave) pd_session *session = NULL;
  const pd_session_entry **entries = NULL;
  size_t count = 0;
  TRY(enter(frame, &session, err));
  TRY(pd_session_map_sorted(&session->map, pd_in_text(frame, "prefix"), &entries, &count, err));
  pd_json_key(&frame->out, "keys");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < count; i++) pd_json_text(&frame->out, pd_session_entry_key(entries[i]));
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", count);
  free(entries);
  return PD_OK;
}

static pd_code clear(pd_frame *frame, size_t *out_bytes, pd_error *err)
{
  CLEANUP(leave) pd_session *session = NULL;
  TRY(enter(frame, &session, err));
  pd_json_put_number(&frame->out, "removed_count", session->map.entries.count);
  TRY(settle_answer(frame, err));
  *out_bytes = session->map.bytes;
  pd_session_map_done(&session->map);
  settle_share(session, *out_bytes, 0);
  return PD_OK;
}

pd_code pd_cap_state_session_clear(pd_frame *frame, pd_error *err)
{
  size_t bytes = 0;
  TRY(clear(frame, &bytes, err));
  pd_session_freed(frame->home, bytes);
  return PD_OK;
}

/* ---- session.* ---- */

/* The session that the input names, or else the caller's own. */
static const char *named(const pd_frame *frame, char id[PD_SESSION_ID_SIZE])
{
  return pd_in_string(frame, "session_id", id, PD_SESSION_ID_SIZE) ? id : frame->ctx->session;
}

/* Whose sessions the caller may touch: the operator everybody's (NULL). */
static const char *whose(const pd_frame *frame)
{
  return frame->ctx->is_operator ? NULL : frame->agent;
}

static void put_expiry(pd_frame *frame)
{
  uint64_t idle_ms = frame->home->config.session_idle_ms;
  pd_out_time(frame, "expires_at", idle_ms ? frame->now_ms + (int64_t)idle_ms : 0);
}

pd_code pd_cap_session_begin(pd_frame *frame, pd_error *err)
{
  char id[PD_SESSION_ID_SIZE];
  TRY(pd_session_begin(frame->home, frame->agent, id, err));
  pd_json_put_text(&frame->out, "session_id", id);
  pd_json_put_text(&frame->out, "agent", frame->agent);
  put_expiry(frame);
  pd_json_put_number(&frame->out, "quota_bytes", frame->home->config.session_quota_bytes);
  if (frame->out.code == PD_OK) return PD_OK;
  pd_code code = pd_session_end(frame->home, frame->agent, id, NULL); /* nobody would ever know its id */
  (void)code;
  return frame->out.code;
}

pd_code pd_cap_session_end(pd_frame *frame, pd_error *err)
{
  char id[PD_SESSION_ID_SIZE];
  size_t count = 0, bytes = 0;
  TRY(pd_buf_reserve(frame->out.out, 128, err));
  TRY(pd_session_stop(frame->home, whose(frame), named(frame, id), &count, &bytes, err));
  pd_json_put_bool(&frame->out, "ended", true);
  pd_json_put_number(&frame->out, "removed_count", count);
  pd_json_put_number(&frame->out, "freed_bytes", bytes);
  return PD_OK;
}

pd_code pd_cap_session_touch(pd_frame *frame, pd_error *err)
{
  char id[PD_SESSION_ID_SIZE];
  CLEANUP(leave) pd_session *session = NULL;
  TRY(pd_session_enter(frame->home, whose(frame), named(frame, id), &session, err));
  pd_json_put_text(&frame->out, "session_id", session->id);
  put_expiry(frame);
  return PD_OK;
}

typedef struct listing {
  pd_frame *frame;
  size_t count, bytes;
} listing;

static void list_one(void *ctx, const pd_session_info *info)
{
  listing *list = ctx;
  pd_frame *frame = list->frame;
  int64_t age_ms = frame->now_ms - info->begun_ms, idle_ms = frame->now_ms - info->used_ms;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "session_id", info->id);
  pd_json_put_text(&frame->out, "agent", info->agent);
  pd_out_time(frame, "begun_at", info->begun_ms);
  pd_json_put_number(&frame->out, "age_ms", age_ms > 0 ? (uint64_t)age_ms : 0);
  pd_json_put_number(&frame->out, "idle_ms", idle_ms > 0 ? (uint64_t)idle_ms : 0);
  pd_json_put_number(&frame->out, "size_bytes", info->bytes);
  pd_json_put_number(&frame->out, "key_count", info->key_count);
  pd_json_close(&frame->out, '}');
  list->count++;
  list->bytes += info->bytes;
}

pd_code pd_cap_session_list(pd_frame *frame, pd_error *err)
{
  listing list = {.frame = frame};
  pd_json_key(&frame->out, "sessions");
  pd_json_open(&frame->out, '[');
  TRY(pd_session_each(frame->home, whose(frame), list_one, &list, err));
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", list.count);
  pd_json_put_number(&frame->out, "total_size_bytes", list.bytes);
  return PD_OK;
}
