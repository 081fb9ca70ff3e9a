/* subscription_move.c: from the shared log to the agents' queues. Invariants W1 to W3 are in subscription.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/quota.h"
#include "state/subscription.h"

#include <stdio.h>

#define MOVE_COUNT_MAX 1000                    /* events of one commit */
#define PASSED_COUNT_MAX 500                   /* records of no interest that are passed over again rather than committed */
#define TOUCH_MS (PD_SUBSCRIPTION_KEEP_MS / 7) /* a live one is written at least so often by its holder, so that none takes it for left */

typedef struct move_job {
  pd_home *home;
  const char *agent;
  const char *ended; /* the session whose subscriptions are finished; NULL: none */
  bool is_more;      /* there may be more than one commit's worth */
} move_job;

/* One commit's worth of a job. */
typedef struct batch {
  move_job *job;
  pd_queue_tx *tx;
  pd_store *shared;
  uint64_t tail; /* of the shared log, when the batch began */
  size_t count;  /* of events staged */
  bool is_changed;
} batch;

/* ---- one event ---- */

static const char *kind_of(pd_watch_kind kind)
{
  return kind == PD_WATCH_PUT ? "set" : pd_watch_kind_name(kind);
}

/* {"type":"shared_change",…}; a gap and a move name no key: what there was must be read anew. */
static pd_code stage_event(batch *b, const pd_subscription *s, const pd_watch_event *e, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char time_text[PD_TIME_TEXT_SIZE], cursor[PD_WATCH_CURSOR_SIZE];
  pd_json_writer w = {.out = &text, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "type", PD_QUEUE_SHARED_CHANGE);
  pd_json_put_text(&w, "subscription_id", s->id);
  pd_json_put_text(&w, "kind", kind_of(e->kind));
  pd_json_put_or_null(&w, "key", e->key);
  pd_json_put_number(&w, "version", e->version);
  pd_json_put_or_null(&w, "writer", pd_text(e->author));
  pd_json_put_or_null(&w, "time", e->time_ms ? pd_text(pd_time_text(e->time_ms, time_text)) : (pd_bytes){0});
  pd_json_put_text(&w, "cursor", pd_watch_cursor_text(&e->next, cursor));
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(pd_queue_stage(b->tx, PD_QUEUE_SHARED_CHANGE, NULL, pd_buf_bytes(&text), NULL, err));
  b->count++;
  return PD_OK;
}

/* ---- one subscription ---- */

/* Where it stopped; or, if that place is not there any more (another log was put in its place), a gap and the end of the log. */
static pd_code open_watch(batch *b, pd_subscription *s, pd_watch **out, pd_error *err)
{
  pd_watch_options options = {.prefix = pd_text(s->prefix), .ref = PD_STATE_REF};
  if (!pd_watch_cursor_parse(s->cursor, &options.from))
    return pd_error_set(err, PD_CORRUPT, "the cursor '%s' of subscription '%s' is none", s->cursor, s->id);
  pd_code code = pd_watch_open(b->shared, &options, out, err);
  if (code != PD_INVALID) return code;
  options.from = (pd_watch_cursor){0};
  TRY(pd_watch_open(b->shared, &options, out, err));
  pd_watch_event gap = {.kind = PD_WATCH_GAP, .author = "", .next = pd_watch_where(*out)};
  code = stage_event(b, s, &gap, err);
  if (code) pd_watch_close(*out);
  return code;
}

static bool has_room(const batch *b)
{
  return b->count < MOVE_COUNT_MAX && b->tx->count < b->tx->home->config.queue_count_max;
}

/* Policy may have been tightened since it was subscribed to. An event without a key tells that something changed, if any may be told. */
static bool may_hear(const batch *b, const pd_watch_event *event)
{
  static const char like[] = "state.shared.watch";
  pd_ctx who = {.home = b->tx->home, .agent = b->tx->agent};
  if (!event->key.size) return pd_authorise_any(&who, like, false);
  return pd_authorise_read(&who, like, PD_STORE_SHARED, event->key, NULL, NULL) == PD_OK;
}

/* *out_is_told: there was no more. */
static pd_code stage_events(batch *b, const pd_subscription *s, pd_watch *watch, bool *out_is_told, pd_error *err)
{
  pd_watch_event event;
  pd_code code = PD_OK;
  while (has_room(b) && (code = pd_watch_next(watch, 0, &event, err)) == PD_OK)
    if (may_hear(b, &event)) TRY(stage_event(b, s, &event, err));
  *out_is_told = code == PD_NOT_FOUND;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code store_moved(batch *b, pd_subscription *s, bool is_ending, pd_error *err)
{
  b->is_changed = true;
  return is_ending ? pd_subscription_remove(b->tx, s, err) : pd_subscription_store(b->tx, s, err);
}

static pd_code tell(batch *b, pd_subscription *s, bool is_ending, pd_error *err)
{
  pd_watch *watch;
  pd_watch_cursor before, after;
  bool is_told = false, had_room = has_room(b);
  size_t count = b->count;
  if (!had_room) {
    b->job->is_more = b->count >= MOVE_COUNT_MAX; /* a full queue is no reason to go on */
    return is_ending && !b->job->is_more ? store_moved(b, s, true, err) : PD_OK;
  }
  TRY(open_watch(b, s, &watch, err));
  pd_code code = stage_events(b, s, watch, &is_told, err);
  after = pd_watch_where(watch);
  pd_watch_close(watch);
  TRY(code);
  bool is_passed = pd_watch_cursor_parse(s->cursor, &before) && after.seq - before.seq >= PASSED_COUNT_MAX;
  pd_watch_cursor_text(&after, s->cursor);
  bool is_full = !is_told && b->tx->count >= b->tx->home->config.queue_count_max;
  if (!is_told && !is_full) b->job->is_more = true;
  if (is_ending && (is_told || is_full)) return store_moved(b, s, true, err);
  return b->count > count || is_passed ? store_moved(b, s, false, err) : PD_OK;
}

static pd_code visit(batch *b, pd_subscription *s, pd_error *err)
{
  pd_watch_cursor cursor;
  bool is_ours = pd_subscription_is_ours(b->job->home, s);
  bool is_ending = b->job->ended && is_ours && strcmp(s->session, b->job->ended) == 0;
  pd_subscription_state state = pd_subscription_state_of(b->job->home, b->job->agent, s);
  bool is_past = !pd_watch_cursor_parse(s->cursor, &cursor) || cursor.seq != b->tail + 1 || cursor.index;
  if (is_ending) return tell(b, s, true, err);
  if (state == PD_SUBSCRIPTION_ENDED) return store_moved(b, s, true, err);
  if (state == PD_SUBSCRIPTION_SUSPENDED) return PD_OK;
  if (is_past) return tell(b, s, false, err);
  return is_ours && b->tx->l.now_ms - s->updated_ms > TOUCH_MS ? store_moved(b, s, false, err) : PD_OK;
}

/* ---- all of an agent ---- */

static pd_code find_tail(batch *b, pd_error *err)
{
  pd_watch *watch;
  TRY(pd_watch_open(b->shared, NULL, &watch, err));
  b->tail = pd_watch_where(watch).seq - 1;
  pd_watch_close(watch);
  return PD_OK;
}

static pd_code stage_move(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  move_job *job = ctx;
  batch b = {.job = job, .tx = tx};
  CLEANUP(pd_subscription_list_done) pd_subscription_list list = {0};
  job->is_more = false;
  TRY(pd_subscription_load(tx, &list, err));
  if (!list.count) return PD_OK;
  TRY(pd_home_store(job->home, PD_STORE_SHARED, true, &b.shared, err));
  TRY(find_tail(&b, err));
  for (size_t i = 0; i < list.count; i++) TRY(visit(&b, &list.items[i], err));
  return b.is_changed ? pd_queue_stage_head(tx, err) : PD_OK;
}

static pd_code move_all(pd_home *home, const char *agent, const char *ended, pd_error *err)
{
  move_job job = {.home = home, .agent = agent, .ended = ended};
  pd_note note = {.author = "perdure", .reason = "state.shared.watch"};
  do TRY(pd_queue_update_any(home, agent, &note, stage_move, &job, NULL, err));
  while (job.is_more);
  return PD_OK;
}

pd_code pd_subscriptions_move(pd_home *home, const char *agent, pd_error *err)
{
  bool has_any = false;
  TRY(pd_subscriptions_any(home, agent, &has_any, err));
  return has_any ? move_all(home, agent, NULL, err) : PD_OK;
}

pd_code pd_subscriptions_finish(pd_home *home, const char *agent, const char *session, pd_error *err)
{
  return move_all(home, agent, session, err);
}
