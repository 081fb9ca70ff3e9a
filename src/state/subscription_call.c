/* subscription_call.c: state.shared.watch and state.shared.unwatch. Invariants W1 to W3 are in subscription.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/call.h"
#include "state/run.h"
#include "state/session.h"
#include "state/subscription.h"

#include <stdio.h>
#include <sys/random.h>

#define FAILED "SubscriptionFailed"

/* ---- state.shared.watch ---- */

typedef struct watch_job {
  pd_frame *frame;
  pd_bytes id, prefix; /* id.data NULL: a new one; prefix.data NULL: not given */
  char made_id[PD_SUBSCRIPTION_ID_SIZE];
  pd_ack ack;
} watch_job;

static pd_code new_id(const char *agent, char out[PD_SUBSCRIPTION_ID_SIZE], pd_error *err)
{
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) return pd_error_set(err, PD_STORAGE, "there are no random bytes");
  snprintf(out, PD_SUBSCRIPTION_ID_SIZE, "%s:%016llx", agent, (unsigned long long)random);
  return PD_OK;
}

/* The end of the shared log: what comes from now on. */
static pd_code cursor_now(pd_home *home, char out[PD_WATCH_CURSOR_SIZE], pd_error *err)
{
  pd_store *store;
  pd_watch *watch;
  TRY(pd_home_store(home, PD_STORE_SHARED, true, &store, err));
  TRY(pd_watch_open(store, NULL, &watch, err));
  pd_watch_cursor cursor = pd_watch_where(watch);
  pd_watch_cursor_text(&cursor, out);
  pd_watch_close(watch);
  return PD_OK;
}

/* Those that nobody took on again for long go, and those whose session has ended. *out_count: of those that stay. */
static pd_code remove_stale(pd_queue_tx *tx, const pd_subscription_list *list, const char *except, size_t *out_count, pd_error *err)
{
  for (size_t i = 0; i < list->count; i++) {
    const pd_subscription *s = &list->items[i];
    pd_subscription_state state = pd_subscription_state_of(tx->home, tx->agent, s);
    bool is_stale = state == PD_SUBSCRIPTION_SUSPENDED && tx->l.now_ms - s->updated_ms > PD_SUBSCRIPTION_KEEP_MS;
    if (strcmp(s->id, except) != 0 && (is_stale || state == PD_SUBSCRIPTION_ENDED))
      TRY(pd_subscription_remove(tx, s, err));
    else
      (*out_count)++;
  }
  return PD_OK;
}

static pd_code find_own(const watch_job *job, const pd_subscription_list *list, pd_subscription *out, pd_error *err)
{
  for (size_t i = 0; i < list->count; i++) {
    if (!pd_bytes_equal(pd_text(list->items[i].id), job->id)) continue;
    *out = list->items[i];
    if (!job->prefix.data || pd_bytes_equal(pd_text(out->prefix), job->prefix)) return PD_OK;
    return pd_error_named(err, PD_INVALID, "InvalidInput", "state.shared.watch: field 'prefix' is not that of subscription '%s', '%s'",
                          out->id, out->prefix);
  }
  return pd_error_named(err, PD_NOT_FOUND, FAILED, "agent '%s' has no subscription '%.*s'; it may have ended with its session",
                        job->frame->agent, (int)job->id.size, (const char *)job->id.data);
}

static pd_code make_subscription(watch_job *job, pd_subscription *out, pd_error *err)
{
  *out = (pd_subscription){0};
  snprintf(out->id, sizeof out->id, "%s", job->made_id);
  if (job->prefix.size) memcpy(out->prefix, job->prefix.data, job->prefix.size);
  return cursor_now(job->frame->home, out->cursor, err);
}

static pd_code stage_watch(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  watch_job *job = ctx;
  pd_frame *frame = job->frame;
  CLEANUP(pd_subscription_list_done) pd_subscription_list list = {0};
  pd_subscription s;
  size_t count = 0;
  TRY(pd_subscription_load(tx, &list, err));
  TRY(job->id.data ? find_own(job, &list, &s, err) : make_subscription(job, &s, err));
  TRY(remove_stale(tx, &list, s.id, &count, err));
  if (!job->id.data && count >= PD_SUBSCRIPTION_COUNT_MAX)
    return pd_error_named(err, PD_LIMIT, FAILED, "agent '%s' has %zu subscriptions; there may be no more than %d", frame->agent, count,
                          PD_SUBSCRIPTION_COUNT_MAX);
  if (job->id.data) TRY(pd_queue_release(tx, s.id, err)); /* what was not acknowledged comes first, so that order is kept */
  pd_subscription_bind(frame->home, frame->ctx->session, &s);
  snprintf(job->made_id, sizeof job->made_id, "%s", s.id);
  TRY(pd_subscription_store(tx, &s, err));
  return pd_queue_stage_head(tx, err);
}

static pd_code update(watch_job *job, pd_queue_fn fn, pd_error *err)
{
  pd_frame *frame = job->frame;
  pd_note note = pd_frame_last_note(frame);
  pd_store *store;
  note.author = frame->agent;
  if (pd_frame_is_hurried(frame)) TRY(pd_frame_own(frame, true, &store, err)); /* held until the call is over */
  return pd_queue_update(frame->home, frame->agent, &note, fn, job, &job->ack, err);
}

static pd_code subscribe(watch_job *job, pd_error *err)
{
  pd_frame *frame = job->frame;
  if (!pd_session_is_alive(frame->home, frame->agent, frame->ctx->session))
    return pd_error_named(err, PD_SESSION, FAILED,
                          "a subscription lasts as long as a session, and agent '%s' calls without one: begin one (session.begin)",
                          frame->agent);
  TRY(new_id(frame->agent, job->made_id, err));
  TRY(pd_subscriptions_hold(frame->home, frame->agent, frame->ctx->session, err));
  return update(job, stage_watch, err);
}

pd_code pd_cap_state_shared_watch(pd_frame *frame, pd_error *err)
{
  watch_job job = {.frame = frame, .id = pd_in_text(frame, "subscription_id"), .prefix = pd_in_text(frame, "prefix")};
  pd_code code = subscribe(&job, err);
  if (code && !err->name && code != PD_NO_MEMORY) err->name = FAILED; /* whatever it was: the seed has one name for it */
  TRY(code);
  pd_frame_commit(frame, &job.ack);
  pd_json_put_text(&frame->out, "subscription_id", job.made_id);
  return frame->out.code;
}

/* ---- state.shared.unwatch ---- */

static pd_code stage_unwatch(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  watch_job *job = ctx;
  CLEANUP(pd_subscription_list_done) pd_subscription_list list = {0};
  TRY(pd_subscription_load(tx, &list, err));
  for (size_t i = 0; i < list.count; i++) {
    if (!pd_bytes_equal(pd_text(list.items[i].id), job->id)) continue;
    job->made_id[0] = 'x';
    TRY(pd_subscription_remove(tx, &list.items[i], err));
    return pd_queue_stage_head(tx, err);
  }
  job->made_id[0] = 0;
  return PD_OK;
}

pd_code pd_cap_state_shared_unwatch(pd_frame *frame, pd_error *err)
{
  watch_job job = {.frame = frame, .id = pd_in_text(frame, "subscription_id")};
  TRY(update(&job, stage_unwatch, err));
  if (job.made_id[0]) pd_frame_commit(frame, &job.ack);
  pd_json_put_bool(&frame->out, "removed", job.made_id[0]);
  return frame->out.code;
}
