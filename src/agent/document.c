/*
 * document.c: the next document: the one that is saved, with a draft laid over it. Members that nobody knows stay where they are.
 */
#include "agent/inside.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_pick.h"

typedef struct writer {
  pd_json_writer w;
  const pd_agent *agent;
  const pd_draft *draft;
  bool is_crowded; /* the ledger: see is_closed */
} writer;

static void write_staged(writer *x, pd_bytes entries)
{
  if (entries.size) pd_json_raw(&x->w, entries);
}

/* ---- memory, queue ------------------------------------------------------------------------------------------------- */

static void write_history(writer *x, pd_json history)
{
  const pd_draft *d = x->draft;
  size_t old = x->agent->facts.history_count, all = old + d->message_count, skip = d->keep < all ? all - d->keep : 0;
  pd_json message, staged;
  pd_json_open(&x->w, '[');
  pd_json_walk walk = pd_json_walk_begin(history);
  for (size_t i = 0; pd_json_walk_next(&walk, NULL, &message); i++)
    if (i >= skip) pd_json_value(&x->w, message);
  if (skip <= old) {
    write_staged(x, pd_buf_bytes(&d->messages));
  } else { /* some of this step's own go, too */
    CLEANUP(pd_buf_done) pd_buf list = {0};
    if (!x->w.code) x->w.code = pd_list_parse(pd_buf_bytes(&d->messages), &list, &staged, x->w.err);
    if (x->w.code) return;
    walk = pd_json_walk_begin(staged);
    for (size_t i = old; pd_json_walk_next(&walk, NULL, &message); i++)
      if (i >= skip) pd_json_value(&x->w, message);
  }
  pd_json_close(&x->w, ']');
}

static const pd_draft_variable *find_staged(const pd_draft *draft, pd_json name)
{
  for (size_t i = 0; i < draft->variable_count; i++)
    if (pd_json_is(name, draft->variables[i].name)) return &draft->variables[i];
  return NULL;
}

static void write_variables(writer *x, pd_json variables)
{
  const pd_draft *d = x->draft;
  pd_json name, value;
  pd_json_open(&x->w, '{');
  pd_json_walk walk = pd_json_walk_begin(variables);
  while (pd_json_walk_next(&walk, &name, &value)) {
    if (find_staged(d, name)) continue;
    pd_json_key_as(&x->w, name);
    pd_json_value(&x->w, value);
  }
  for (size_t i = 0; i < d->variable_count; i++) {
    if (!d->variables[i].json.size) continue;
    pd_json_key(&x->w, d->variables[i].name);
    pd_json_raw(&x->w, pd_buf_bytes(&d->variables[i].json));
  }
  pd_json_close(&x->w, '}');
}

static void write_memory(writer *x, pd_json memory)
{
  pd_json key, value;
  pd_json_open(&x->w, '{');
  pd_json_walk walk = pd_json_walk_begin(memory);
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_key_as(&x->w, key);
    if (pd_json_is(key, "short_term_history"))
      write_history(x, value);
    else if (pd_json_is(key, "working_variables"))
      write_variables(x, value);
    else
      pd_json_value(&x->w, value);
  }
  pd_json_close(&x->w, '}');
}

/* Is the event known: does one of this id wait, or is its step finished? */
static bool is_known(const writer *x, pd_json queue, const char *id)
{
  pd_json event;
  pd_agent_id found;
  pd_json_walk walk = pd_json_walk_begin(queue);
  while (pd_json_walk_next(&walk, NULL, &event))
    if (pd_event_id(event, &found) && strcmp(found.text, id) == 0) return true;
  return pd_ledger_find(x->agent->ledger.replies, "event", id).kind != PD_JSON_NONE;
}

/* Staged events may have come in by another way since. */
static void write_staged_events(writer *x, pd_json queue)
{
  CLEANUP(pd_buf_done) pd_buf list = {0};
  pd_json staged, event;
  pd_agent_id id;
  if (!x->draft->event_count) return;
  if (!x->w.code) x->w.code = pd_list_parse(pd_buf_bytes(&x->draft->events), &list, &staged, x->w.err);
  if (x->w.code) return;
  pd_json_walk walk = pd_json_walk_begin(staged);
  while (pd_json_walk_next(&walk, NULL, &event))
    if (!pd_event_id(event, &id) || !is_known(x, queue, id.text)) pd_json_value(&x->w, event);
}

static void write_event(writer *x, pd_json event)
{
  CLEANUP(pd_buf_done) pd_buf named = {0};
  if (!x->draft->names_events) {
    pd_json_value(&x->w, event);
    return;
  }
  if (!x->w.code) x->w.code = pd_event_name(event, &named, x->w.err);
  pd_json_raw(&x->w, pd_buf_bytes(&named));
}

static void write_queue(writer *x, pd_json queue)
{
  pd_json event;
  pd_json_open(&x->w, '[');
  pd_json_walk walk = pd_json_walk_begin(queue);
  for (size_t i = 0; pd_json_walk_next(&walk, NULL, &event); i++)
    if (i != x->draft->leaves) write_event(x, event);
  write_staged_events(x, queue);
  pd_json_close(&x->w, ']');
}

/* ---- the ledger ---------------------------------------------------------------------------------------------------- */

static bool has_reply(const pd_draft *draft)
{
  return draft->is_step && draft->reply.size;
}

/* A reply stays until it was given out. Of processes that come and go (a shell's) the next step says so of those before it; a handle that
 * lives on says so of each of its own, which are tagged. */
static bool has_left(const writer *x, pd_json entry, const char *event)
{
  const pd_agent *a = x->agent;
  if (pd_agent_has_left(a, event)) return true;
  bool is_follower = x->draft->is_step && a->is_call && pd_ledger_number(entry, "epoch") == a->epoch;
  return is_follower && pd_json_member(entry, "by").kind == PD_JSON_NONE && !pd_agent_owes(a, event);
}

static void write_unsent(writer *x)
{
  const pd_agent *a = x->agent;
  pd_json entry;
  pd_agent_id event;
  pd_json_key(&x->w, "unsent");
  pd_json_open(&x->w, '[');
  pd_json_walk walk = pd_json_walk_begin(a->ledger.unsent);
  while (pd_json_walk_next(&walk, NULL, &entry)) {
    if (!pd_ledger_id(entry, "event", &event) || has_left(x, entry, event.text)) continue;
    if (pd_ledger_find(a->ledger.replies, "event", event.text).kind == PD_JSON_NONE) continue;
    pd_json_value(&x->w, entry);
  }
  if (has_reply(x->draft)) {
    pd_json_open(&x->w, '{');
    pd_json_put_text(&x->w, "event", x->draft->event_id);
    pd_json_put_number(&x->w, "epoch", a->epoch);
    if (!a->is_call) pd_json_put_text(&x->w, "by", a->tag);
    pd_json_close(&x->w, '}');
  }
  pd_json_close(&x->w, ']');
}

static bool is_of(pd_json effect, const char *event)
{
  return pd_json_is(pd_json_member(effect, "event"), event);
}

/* Is it done, and its step finished? The step says so when it commits; older perdures did not, so a reply that is remembered says it too.
 * What was done for an event that is not here may belong to one that its sender will send again. It stays as long as there is room: so
 * nothing that is done ever fills the ledger. */
static bool is_closed(const writer *x, pd_json effect)
{
  pd_agent_id event;
  if (!pd_json_is(pd_json_member(effect, "state"), "done")) return false;
  if (pd_json_true(pd_json_member(effect, "closed")) || !pd_ledger_id(effect, "event", &event)) return true;
  if (x->draft->is_step && is_of(effect, x->draft->event_id)) return true;
  if (x->agent->is_open && is_of(effect, x->agent->event_id.text)) return false;
  if (pd_ledger_find(x->agent->ledger.replies, "event", event.text).kind != PD_JSON_NONE) return true;
  return x->is_crowded && pd_event_find(x->agent, event.text) == SIZE_MAX;
}

/* An effect closes with its step. */
static void write_effect(writer *x, pd_json effect)
{
  pd_json key, value;
  bool closes = x->draft->is_step && is_of(effect, x->draft->event_id) && pd_json_is(pd_json_member(effect, "state"), "done") &&
                pd_json_member(effect, "closed").kind == PD_JSON_NONE;
  if (!closes) {
    pd_json_value(&x->w, effect);
    return;
  }
  pd_json_open(&x->w, '{');
  pd_json_walk walk = pd_json_walk_begin(effect);
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_key_as(&x->w, key);
    pd_json_value(&x->w, value);
  }
  pd_json_put_bool(&x->w, "closed", true);
  pd_json_close(&x->w, '}');
}

static size_t count_closed(const writer *x)
{
  size_t count = 0;
  pd_json effect;
  pd_json_walk walk = pd_json_walk_begin(x->agent->ledger.effects);
  while (pd_json_walk_next(&walk, NULL, &effect)) count += is_closed(x, effect);
  return count;
}

/* Twice as many as are kept may pile up before those that are over go: looking for them costs more than they do. */
static pd_code write_effects(writer *x)
{
  const pd_draft *d = x->draft;
  pd_json list = x->agent->ledger.effects, effect;
  size_t count = pd_json_count(list), closed = count >= 2 * PD_AGENT_EFFECTS_KEPT ? count_closed(x) : 0;
  x->is_crowded = count - closed >= PD_AGENT_EFFECTS_OPEN_MAX;
  if (x->is_crowded) closed = count_closed(x);
  size_t leave = closed > PD_AGENT_EFFECTS_KEPT ? closed - PD_AGENT_EFFECTS_KEPT : 0;
  bool is_new = d->effect_id && d->effect.size;
  if (is_new && count - closed >= PD_AGENT_EFFECTS_OPEN_MAX && pd_ledger_find(list, "id", d->effect_id).kind == PD_JSON_NONE) {
    return pd_error_set(x->w.err, PD_LIMIT, "agent '%s' has %zu effects that are not settled; settle some of them first", x->agent->id,
                        count - closed);
  }
  pd_json_key(&x->w, "effects");
  pd_json_open(&x->w, '[');
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &effect)) {
    if (d->effect_id && pd_json_is(pd_json_member(effect, "id"), d->effect_id)) {
      if (is_new) pd_json_raw(&x->w, d->effect);
      is_new = false;
      continue;
    }
    if (leave && is_closed(x, effect)) {
      leave--;
      continue;
    }
    write_effect(x, effect);
  }
  if (is_new) pd_json_raw(&x->w, d->effect);
  pd_json_close(&x->w, ']');
  return x->w.code;
}

static void write_new_reply(writer *x)
{
  pd_json_open(&x->w, '{');
  pd_json_put_text(&x->w, "event", x->draft->event_id);
  pd_json_put_number(&x->w, "tick", x->agent->facts.tick_index + 1);
  pd_json_key(&x->w, "reply");
  if (has_reply(x->draft))
    pd_json_raw(&x->w, pd_buf_bytes(&x->draft->reply));
  else
    pd_json_null(&x->w);
  pd_json_close(&x->w, '}');
}

/* The oldest leave until the others fit; the new one is always there. */
static void write_replies(writer *x)
{
  const pd_agent *a = x->agent;
  pd_json entry;
  size_t bytes = x->draft->reply.size, count = x->draft->is_step;
  pd_json_walk walk = pd_json_walk_begin(a->ledger.replies);
  for (; pd_json_walk_next(&walk, NULL, &entry); count++) bytes += entry.raw.size;
  pd_json_key(&x->w, "replies");
  pd_json_open(&x->w, '[');
  walk = pd_json_walk_begin(a->ledger.replies);
  while (pd_json_walk_next(&walk, NULL, &entry)) {
    bool is_over = count > pd_agent_replies_max(a) || bytes > pd_agent_reply_bytes_max(a);
    if (!is_over) pd_json_value(&x->w, entry);
    count -= is_over;
    bytes -= is_over ? entry.raw.size : 0;
  }
  if (x->draft->is_step) write_new_reply(x);
  pd_json_close(&x->w, ']');
}

static pd_code write_ledger(writer *x)
{
  const pd_agent *a = x->agent;
  pd_json_key(&x->w, PD_LEDGER_MEMBER);
  pd_json_open(&x->w, '{');
  pd_json_put_number(&x->w, "version", PD_LEDGER_VERSION);
  pd_json_put_number(&x->w, "epoch", a->epoch);
  pd_json_put_number(&x->w, "save", (a->ledger.epoch == a->epoch ? a->ledger.save : 0) + 1);
  pd_json_put_number(&x->w, "reply_count_max", pd_agent_replies_max(a));
  pd_json_put_number(&x->w, "reply_bytes_max", pd_agent_reply_bytes_max(a));
  write_unsent(x);
  TRY(write_effects(x));
  write_replies(x);
  pd_json_close(&x->w, '}');
  return x->w.code;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static void write_member(writer *x, pd_json key, pd_json value)
{
  const pd_agent *a = x->agent;
  const pd_draft *d = x->draft;
  int64_t now = a->now_ms(a->now_ctx);
  pd_json_key_as(&x->w, key);
  if (pd_json_is(key, "tick_index"))
    pd_json_number(&x->w, a->facts.tick_index + d->is_step);
  else if (pd_json_is(key, "timestamp"))
    pd_json_number(&x->w, now > 0 ? (uint64_t)now : 0);
  else if (pd_json_is(key, "status") && d->status[0])
    pd_json_text(&x->w, pd_text(d->status));
  else if (pd_json_is(key, "memory"))
    write_memory(x, value);
  else if (pd_json_is(key, "event_queue_backup"))
    write_queue(x, value);
  else
    pd_json_value(&x->w, value);
}

pd_code pd_document_write(const pd_agent *agent, const pd_draft *draft, pd_buf *out, pd_error *err)
{
  writer x = {.w = {.out = out, .err = err}, .agent = agent, .draft = draft};
  pd_json top, key, value;
  if (agent->facts.tick_index == PD_SNAPSHOT_NUMBER_MAX && draft->is_step) {
    return pd_error_set(err, PD_LIMIT, "agent '%s' is at the last tick there is", agent->id);
  }
  TRY(pd_json_parse(pd_buf_bytes(&agent->document), &top, err));
  pd_json_open(&x.w, '{');
  pd_json_walk walk = pd_json_walk_begin(top);
  while (pd_json_walk_next(&walk, &key, &value))
    if (!pd_json_is(key, PD_LEDGER_MEMBER)) write_member(&x, key, value);
  TRY(write_ledger(&x));
  pd_json_close(&x.w, '}');
  return x.w.code;
}
