/* queue.c: the agents' message queues: heads, messages, invocations, pushing. Invariants are in queue.h. */
#include "state/queue.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/close.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define ONCE_SIZE_MAX 512
#define ONCE_KEEP_MS ((int64_t)7 * 86400 * 1000)
#define ONCE_DROP_MAX 100 /* old ones removed by one push */

/* ---- keys and stored texts ---- */

char *pd_queue_key(const char *noun, const char *agent, uint64_t number, char out[PD_QUEUE_KEY_SIZE])
{
  snprintf(out, PD_QUEUE_KEY_SIZE, "%s/%s/%020llu", noun, agent, (unsigned long long)number);
  return out;
}

static const pd_bind message[] = {
  {"kind", PD_BIND_STRING, PD_BIND_AT(pd_queue_message, kind)},
  {"from", PD_BIND_TEXT, PD_BIND_AT(pd_queue_message, from), .is_optional = true},
  {"time", PD_BIND_MS, PD_BIND_AT(pd_queue_message, time_ms)},
  {"body", PD_BIND_JSON, PD_BIND_AT(pd_queue_message, body)},
};

pd_code pd_queue_message_parse(const char *key, pd_bytes text, pd_queue_message *out, pd_error *err)
{
  *out = (pd_queue_message){0};
  return pd_leased_parse(key, text, message, COUNT_OF(message), out, err);
}

/* ---- invocations ---- */

#define UNCOUNTED UINT64_MAX

static const pd_bind head[] = {
  {"next", PD_BIND_NUMBER, PD_BIND_AT(pd_queue_tx, next)},
  {"count", PD_BIND_NUMBER, PD_BIND_AT(pd_queue_tx, count)},
  {"bytes", PD_BIND_NUMBER, PD_BIND_AT(pd_queue_tx, bytes), .is_optional = true, .is_always = true},
};

/* A head from before bytes were counted. */
static pd_code count_bytes(pd_queue_tx *tx, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  char prefix[PD_QUEUE_KEY_SIZE];
  pd_entry entry;
  pd_code code;
  tx->bytes = 0;
  snprintf(prefix, sizeof prefix, "queue/%s/", tx->agent);
  TRY(pd_edit_iter(tx->l.edit, &(pd_scan){.prefix = pd_text(prefix), .keys_only = true}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) tx->bytes += entry.size;
  return code == PD_NOT_FOUND ? PD_OK : code;
}

pd_code pd_queue_stage_head(pd_queue_tx *tx, pd_error *err)
{
  return pd_leased_stage_head(&tx->l, head, COUNT_OF(head), tx, err);
}

typedef struct queue_update {
  pd_home *home;
  const char *agent;
  pd_queue_fn fn;
  void *ctx;
} queue_update;

static pd_code run_update(void *ctx, pd_edit *edit, pd_error *err)
{
  const queue_update *u = ctx;
  char key[PD_QUEUE_KEY_SIZE];
  pd_queue_tx tx = {.home = u->home, .agent = u->agent, .next = 1, .bytes = UNCOUNTED};
  snprintf(key, sizeof key, "queue/%s", tx.agent);
  TRY(pd_leased_begin(&tx.l, edit, key, pd_home_now(tx.home), head, COUNT_OF(head), &tx, err));
  if (tx.bytes == UNCOUNTED) TRY(count_bytes(&tx, err));
  TRY(u->fn(u->ctx, &tx, err));
  pd_leased_end(&tx.l);
  return PD_OK;
}

pd_code pd_queue_update_at(const pd_queue_place *place, pd_home *home, const char *agent, bool create, const pd_note *note, pd_queue_fn fn,
                           void *ctx, pd_ack *out, pd_error *err)
{
  queue_update u = {.home = home, .agent = agent, .fn = fn, .ctx = ctx};
  pd_note own = *note;
  bool is_missing;
  own.ref = place->ref;
  return pd_leased_update(place->store, &own, run_update, &u, create ? NULL : &is_missing, out, err);
}

pd_code pd_queue_update(pd_home *home, const char *agent, const pd_note *note, pd_queue_fn fn, void *ctx, pd_ack *out, pd_error *err)
{
  CLEANUP(pd_queue_place_close) pd_queue_place place = {0}, now = {0};
  TRY(pd_queue_place_open(home, agent, false, &place, err));
  TRY(pd_queue_update_at(&place, home, agent, true, note, fn, ctx, out, err));
  if (place.held) return PD_OK;
  return pd_queue_place_open(home, agent, false, &now, err); /* a store that was made meanwhile has it now: who waits, waits there */
}

pd_code pd_queue_update_any(pd_home *home, const char *agent, const pd_note *note, pd_queue_fn fn, void *ctx, pd_ack *out, pd_error *err)
{
  CLEANUP(pd_queue_place_close) pd_queue_place place = {0};
  TRY(pd_queue_place_open(home, agent, false, &place, err));
  return pd_queue_update_at(&place, home, agent, false, note, fn, ctx, out, err);
}

/* ---- pushing ---- */

static void put_message(pd_json_writer *w, const char *kind, const char *from, int64_t now_ms, pd_json body)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "kind", kind);
  pd_json_key(w, "from");
  if (from)
    pd_json_text(w, pd_text(from));
  else
    pd_json_null(w);
  pd_json_put_number(w, "time", (uint64_t)now_ms);
  pd_json_key(w, "body");
  pd_json_value(w, body);
  pd_json_close(w, '}');
}

/* ---- bytes ---- */

static pd_code full(pd_error *err, uint64_t used, uint64_t limit)
{
  if (err) err->expected = limit, err->actual = used;
  return PD_QUOTA;
}

/* Count a message in, for its queue and for who sends it, if there is room. */
static pd_code stage_bytes(pd_queue_tx *tx, const char *from, uint64_t size, pd_error *err)
{
  uint64_t limit = tx->home->config.queue_bytes_max;
  if (tx->bytes + size > limit) {
    pd_error_named(err, PD_QUOTA, "QueueFull",
                   "the queue of agent '%s' holds %llu bytes, and %llu more exceed its limit of %llu (queue.bytes_max)", tx->agent,
                   (unsigned long long)tx->bytes, (unsigned long long)size, (unsigned long long)limit);
    return full(err, tx->bytes, limit);
  }
  tx->bytes += size;
  return from ? pd_queue_sender_in(tx, from, size, err) : PD_OK;
}

pd_code pd_queue_stage_gone(pd_queue_tx *tx, const char *from, uint64_t size, pd_error *err)
{
  tx->bytes -= size < tx->bytes ? size : tx->bytes;
  return from ? pd_queue_sender_out(tx, from, size, err) : PD_OK;
}

pd_code pd_queue_stage(pd_queue_tx *tx, const char *kind, const char *from, pd_bytes body, uint64_t *out_number, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE];
  pd_json json;
  uint64_t limit = tx->home->config.queue_count_max;
  if (tx->count >= limit)
    return pd_error_named(err, PD_QUOTA, "QueueFull", "the queue of agent '%s' holds %llu messages, the limit is %llu", tx->agent,
                          (unsigned long long)tx->count, (unsigned long long)limit);
  if (body.size > PD_QUEUE_BODY_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "the body of the message has %zu bytes, the limit is %zu", body.size, PD_QUEUE_BODY_SIZE_MAX);
  TRY(pd_json_parse(body, &json, err));
  pd_json_writer w = {.out = &text, .err = err};
  put_message(&w, kind, from, tx->l.now_ms, json);
  TRY(w.code);
  TRY(stage_bytes(tx, from, text.size, err));
  TRY(pd_edit_put(tx->l.edit, pd_text(pd_queue_key("queue", tx->agent, tx->next, key)), pd_buf_bytes(&text), PD_ANY_VERSION, err));
  if (out_number) *out_number = tx->next;
  tx->next++;
  tx->count++;
  return PD_OK;
}

/* Was it pushed before? Else that it is. Old ones go, a few at a time (LEA-4). */
static pd_code stage_once(pd_queue_tx *tx, const char *dedupe_key, bool *out_was, pd_error *err)
{
  char prefix[PD_QUEUE_KEY_SIZE], old[ONCE_DROP_MAX][PD_QUEUE_KEY_SIZE + ONCE_SIZE_MAX];
  char key[PD_QUEUE_KEY_SIZE + ONCE_SIZE_MAX];
  size_t old_count = 0;
  int64_t sure_ms = pd_leased_sure_ms(&tx->l);
  pd_entry entry;
  pd_iter *iter;
  snprintf(prefix, sizeof prefix, "once/%s/", tx->agent);
  snprintf(key, sizeof key, "%s%s", prefix, dedupe_key);
  pd_scan scan = {.prefix = pd_text(prefix), .keys_only = true};
  TRY(pd_edit_iter(tx->l.edit, &scan, &iter, err));
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    bool is_it = pd_bytes_equal(entry.key, pd_text(key));
    if (is_it) *out_was = tx->l.now_ms - entry.updated_ms <= ONCE_KEEP_MS;
    if (!is_it && sure_ms - entry.updated_ms > ONCE_KEEP_MS && old_count < ONCE_DROP_MAX && entry.key.size < sizeof old[0])
      snprintf(old[old_count++], sizeof old[0], "%.*s", (int)entry.key.size, (const char *)entry.key.data);
  }
  pd_iter_close(iter);
  if (code != PD_NOT_FOUND) return code;
  if (*out_was) return PD_OK;
  for (size_t i = 0; i < old_count; i++) TRY(pd_edit_delete(tx->l.edit, pd_text(old[i]), PD_ANY_VERSION, err));
  return pd_edit_put(tx->l.edit, pd_text(key), pd_text("{}"), PD_ANY_VERSION, err);
}

typedef struct push_job {
  const char *kind, *dedupe_key;
  pd_bytes body;
} push_job;

static pd_code stage_push(void *ctx, pd_queue_tx *tx, pd_error *err)
{
  const push_job *job = ctx;
  bool was_pushed = false;
  if (job->dedupe_key) TRY(stage_once(tx, job->dedupe_key, &was_pushed, err));
  if (was_pushed) return PD_OK;
  TRY(pd_queue_stage(tx, job->kind, NULL, job->body, NULL, err));
  return pd_queue_stage_head(tx, err);
}

pd_code pd_queue_push(pd_home *home, const char *agent, const char *kind, pd_bytes body, const char *dedupe_key, pd_error *err)
{
  push_job job = {.kind = kind, .dedupe_key = dedupe_key, .body = body};
  TRY(pd_agent_check(agent, err));
  if (dedupe_key && (!*dedupe_key || strlen(dedupe_key) > ONCE_SIZE_MAX))
    return pd_error_set(err, PD_INVALID, "a dedupe key has 1 to %d bytes", ONCE_SIZE_MAX);
  pd_note note = {.author = "perdure", .reason = "queue.send"};
  return pd_queue_update(home, agent, &note, stage_push, &job, NULL, err);
}
