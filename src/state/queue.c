/* queue.c: the agents' message queues: heads, messages, invocations, pushing. Invariants Q1 to Q3 are in queue.h. */
#include "state/queue.h"

#include "base/base.h"
#include "base/buf.h"
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

pd_code pd_queue_parse(const char *key, pd_bytes text, pd_json *out, pd_error *err)
{
  pd_error why = {0};
  if (pd_json_parse(text, out, &why) == PD_OK && out->kind == PD_JSON_OBJECT) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "'%s' of the queue is not what perdure wrote there", key);
}

pd_code pd_queue_field(const char *key, pd_json object, const char *name, uint64_t *out, pd_error *err)
{
  if (pd_json_u64(pd_json_member(object, name), out)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "'%s' of the queue has no number '%s'", key, name);
}

/* ---- invocations ---- */

static pd_code count_bytes(pd_queue_tx *tx, pd_error *err)
{
  char prefix[PD_QUEUE_KEY_SIZE];
  pd_iter *iter;
  pd_entry entry;
  pd_code code;
  snprintf(prefix, sizeof prefix, "queue/%s/", tx->agent);
  TRY(pd_edit_iter(tx->edit, &(pd_scan){.prefix = pd_text(prefix), .keys_only = true}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) tx->bytes += entry.size;
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code read_head(pd_queue_tx *tx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_QUEUE_KEY_SIZE];
  pd_entry entry;
  pd_json head;
  snprintf(key, sizeof key, "queue/%s", tx->agent);
  tx->next = 1;
  pd_code code = pd_edit_get(tx->edit, pd_text(key), &text, &entry, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  tx->version = entry.version;
  tx->last_ms = entry.updated_ms;
  TRY(pd_queue_parse(key, pd_buf_bytes(&text), &head, err));
  TRY(pd_queue_field(key, head, "next", &tx->next, err));
  TRY(pd_queue_field(key, head, "count", &tx->count, err));
  if (pd_json_u64(pd_json_member(head, "bytes"), &tx->bytes) || !tx->count) return PD_OK;
  return count_bytes(tx, err); /* written before bytes were counted */
}

pd_code pd_queue_stage_head(pd_queue_tx *tx, pd_error *err)
{
  char key[PD_QUEUE_KEY_SIZE], text[128];
  snprintf(key, sizeof key, "queue/%s", tx->agent);
  snprintf(text, sizeof text, "{\"next\":%llu,\"count\":%llu,\"bytes\":%llu}", (unsigned long long)tx->next, (unsigned long long)tx->count,
           (unsigned long long)tx->bytes);
  TRY(pd_edit_put(tx->edit, pd_text(key), pd_text(text), tx->version, err));
  tx->is_complete = true;
  return PD_OK;
}

typedef struct queue_update {
  pd_queue_tx start; /* home, store, agent */
  pd_queue_fn fn;
  void *ctx;
  pd_code code; /* of `fn`, the last time */
} queue_update;

static pd_code run_fn(queue_update *u, pd_edit *edit, pd_error *err)
{
  pd_queue_tx tx = u->start;
  tx.edit = edit;
  tx.now_ms = pd_home_now(tx.home);
  TRY(read_head(&tx, err));
  TRY(u->fn(u->ctx, &tx, err));
  if (!tx.is_complete) pd_edit_clear(edit);
  return PD_OK;
}

static pd_code run_update(void *ctx, pd_edit *edit, pd_error *err)
{
  queue_update *u = ctx;
  return u->code = run_fn(u, edit, err);
}

pd_code pd_queue_update_at(const pd_queue_place *place, pd_home *home, const char *agent, bool create, const pd_note *note, pd_queue_fn fn,
                           void *ctx, pd_ack *out, pd_error *err)
{
  queue_update u = {.start = {.home = home, .agent = agent, .store = place->store}, .fn = fn, .ctx = ctx};
  pd_note own = *note;
  own.ref = place->ref;
  pd_code code = pd_update(place->store, &own, run_update, &u, out, err);
  if (code != PD_NOT_FOUND || u.code == PD_NOT_FOUND) return code;
  if (!create) return PD_OK;
  code = pd_fork(place->store, place->ref, "root", &own, NULL, err); /* the first message: the ref begins at the empty commit */
  if (code && code != PD_EXISTS) return code;                        /* somebody else may be making it at this moment */
  return pd_update(place->store, &own, run_update, &u, out, err);
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
  put_message(&w, kind, from, tx->now_ms, json);
  TRY(w.code);
  TRY(stage_bytes(tx, from, text.size, err));
  TRY(pd_edit_put(tx->edit, pd_text(pd_queue_key("queue", tx->agent, tx->next, key)), pd_buf_bytes(&text), PD_ANY_VERSION, err));
  if (out_number) *out_number = tx->next;
  tx->next++;
  tx->count++;
  return PD_OK;
}

/* Was it pushed before? Else that it is. Old ones go, a few at a time: others only if they are old by the clock of this call and of
 * the one before, so that one call with a wrong clock forgets none of them. */
static pd_code stage_once(pd_queue_tx *tx, const char *dedupe_key, bool *out_was, pd_error *err)
{
  char prefix[PD_QUEUE_KEY_SIZE], old[ONCE_DROP_MAX][PD_QUEUE_KEY_SIZE + ONCE_SIZE_MAX];
  char key[PD_QUEUE_KEY_SIZE + ONCE_SIZE_MAX];
  size_t old_count = 0;
  int64_t sure_ms = tx->last_ms < tx->now_ms ? tx->last_ms : tx->now_ms;
  pd_entry entry;
  pd_iter *iter;
  snprintf(prefix, sizeof prefix, "once/%s/", tx->agent);
  snprintf(key, sizeof key, "%s%s", prefix, dedupe_key);
  pd_scan scan = {.prefix = pd_text(prefix), .keys_only = true};
  TRY(pd_edit_iter(tx->edit, &scan, &iter, err));
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    bool is_it = pd_bytes_equal(entry.key, pd_text(key));
    if (is_it) *out_was = tx->now_ms - entry.updated_ms <= ONCE_KEEP_MS;
    if (!is_it && sure_ms - entry.updated_ms > ONCE_KEEP_MS && old_count < ONCE_DROP_MAX && entry.key.size < sizeof old[0])
      snprintf(old[old_count++], sizeof old[0], "%.*s", (int)entry.key.size, (const char *)entry.key.data);
  }
  pd_iter_close(iter);
  if (code != PD_NOT_FOUND) return code;
  if (*out_was) return PD_OK;
  for (size_t i = 0; i < old_count; i++) TRY(pd_edit_delete(tx->edit, pd_text(old[i]), PD_ANY_VERSION, err));
  return pd_edit_put(tx->edit, pd_text(key), pd_text("{}"), PD_ANY_VERSION, err);
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
