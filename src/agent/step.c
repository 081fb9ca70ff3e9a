/* step.c: a step from its event to its reply. */
#include "agent/inside.h"
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>

/* ---- replies ------------------------------------------------------------------------------------------------------- */

bool pd_agent_has_left(const pd_agent *agent, const char *event_id)
{
  for (size_t i = 0; i < agent->sent_count; i++)
    if (strcmp(agent->sent[i].text, event_id) == 0) return true;
  return false;
}

static pd_code note_sent(pd_agent *agent, const char *event_id, pd_error *err)
{
  bool is_due = pd_ledger_find(agent->ledger.unsent, "event", event_id).kind != PD_JSON_NONE;
  if (!is_due || pd_agent_has_left(agent, event_id)) return PD_OK;
  TRY(pd_array_grow(&agent->sent, agent->sent_count, &agent->sent_capacity, sizeof *agent->sent, "a reply that has left", err));
  snprintf(agent->sent[agent->sent_count++].text, sizeof agent->sent->text, "%s", event_id);
  return PD_OK;
}

static void forget_reply(pd_agent *agent)
{
  agent->replied.text[0] = '\0';
  pd_buf_clear(&agent->reply);
  pd_buf_clear(&agent->reply_text);
}

/* A reply that is null is none. */
static pd_code hold_reply(pd_agent *agent, const char *event_id, pd_json reply, pd_error *err)
{
  forget_reply(agent);
  if (reply.kind == PD_JSON_STRING) {
    TRY(pd_json_decode(reply, &agent->reply_text, err));
    TRY(pd_buf_byte(&agent->reply_text, 0, err));
  }
  if (reply.kind != PD_JSON_NULL) TRY(pd_buf_append(&agent->reply, reply.raw.data, reply.raw.size, err));
  snprintf(agent->replied.text, sizeof agent->replied.text, "%s", event_id);
  return PD_OK;
}

pd_code pd_agent_recall(pd_agent *agent, const char *event_id, bool *out_is_known, pd_error *err)
{
  pd_json entry = pd_ledger_find(agent->ledger.replies, "event", event_id);
  *out_is_known = entry.kind != PD_JSON_NONE;
  return *out_is_known ? hold_reply(agent, event_id, pd_json_member(entry, "reply"), err) : PD_OK;
}

pd_bytes pd_agent_reply(const pd_agent *agent)
{
  return agent->is_open ? (pd_bytes){NULL, 0} : pd_buf_bytes(&agent->reply);
}

const char *pd_agent_reply_text(const pd_agent *agent)
{
  return agent->is_open || !agent->reply_text.size ? NULL : (const char *)agent->reply_text.data;
}

pd_code pd_agent_reply_sent(pd_agent *agent, const char *event_id, pd_error *err)
{
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_draft_begin(&draft);
  TRY(pd_agent_settle(agent, err));
  if (pd_ledger_find(agent->ledger.unsent, "event", event_id).kind == PD_JSON_NONE) {
    return pd_error_set(err, PD_NOT_FOUND, "agent '%s' has no reply to event '%.100s' that is still to be sent", agent->id, event_id);
  }
  TRY(note_sent(agent, event_id, err));
  return pd_agent_save(agent, &draft, err);
}

/* ---- beginning ----------------------------------------------------------------------------------------------------- */

static pd_code hold_event(pd_agent *agent, pd_bytes event, const pd_agent_id *id, pd_error *err)
{
  pd_buf_clear(&agent->event);
  TRY(pd_buf_append(&agent->event, event.data, event.size, err));
  agent->event_id = *id;
  return PD_OK;
}

/* Of an event that is finished only its id is known. */
static pd_code hold_finished(pd_agent *agent, const pd_agent_id *id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf event = {0};
  pd_json_writer w = {.out = &event, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "id", id->text);
  pd_json_close(&w, '}');
  TRY(w.code);
  return hold_event(agent, pd_buf_bytes(&event), id, err);
}

/* A reply of an earlier life that may not have left. */
static pd_code take_unsent(pd_agent *agent, bool *out_is_found, pd_error *err)
{
  pd_json entry;
  pd_agent_id event;
  *out_is_found = false;
  pd_json_walk walk = pd_json_walk_begin(agent->ledger.unsent);
  while (!*out_is_found && pd_json_walk_next(&walk, NULL, &entry)) {
    if (pd_ledger_number(entry, "epoch") == agent->epoch || !pd_ledger_id(entry, "event", &event)) continue;
    if (!pd_agent_has_left(agent, event.text)) TRY(pd_agent_recall(agent, event.text, out_is_found, err));
  }
  return *out_is_found ? hold_finished(agent, &event, err) : PD_OK;
}

/* The event to work on, with its id, in `out`; where it is in the queue in *out_at. */
static pd_code find_event(pd_agent *agent, pd_bytes given, pd_buf *out, pd_agent_id *out_id, size_t *out_at, pd_error *err)
{
  pd_json event;
  char new_id[48];
  snprintf(new_id, sizeof new_id, "perdure-tick-%llu", (unsigned long long)agent->facts.tick_index + 1);
  if (given.size) {
    TRY(pd_agent_parse(given, PD_JSON_OBJECT, "the event", &event, err));
    TRY(pd_event_write(event, new_id, out, out_id, err));
    *out_at = pd_event_find(agent, out_id->text);
    return PD_OK;
  }
  *out_at = SIZE_MAX;
  if (!pd_event_first(agent, &event)) return PD_OK;
  *out_at = 0;
  if (pd_event_id(event, out_id) || pd_json_member(event, "id").kind == PD_JSON_NONE)
    return pd_event_write(event, new_id, out, out_id, err);
  snprintf(out_id->text, sizeof out_id->text, "%s", new_id); /* somebody else's idea of an id: the event stays as it is */
  return pd_buf_append(out, event.raw.data, event.raw.size, err);
}

/* Its step is finished, so it need not wait any longer. */
static pd_code leave_queue(pd_agent *agent, size_t at, pd_error *err)
{
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_draft_begin(&draft);
  draft.leaves = at;
  return at == SIZE_MAX ? PD_OK : pd_agent_save(agent, &draft, err);
}

static pd_code begin(pd_agent *agent, pd_bytes given, pd_step *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf event = {0};
  pd_agent_id id;
  size_t at;
  bool is_known = false;
  if (!given.size) TRY(take_unsent(agent, &is_known, err));
  *out = is_known ? PD_STEP_SEEN : PD_STEP_NONE;
  if (is_known) return PD_OK;
  TRY(find_event(agent, given, &event, &id, &at, err));
  if (!event.size) return PD_OK;
  TRY(pd_agent_recall(agent, id.text, &is_known, err));
  *out = is_known ? PD_STEP_SEEN : PD_STEP_NEW;
  if (is_known) {
    TRY(leave_queue(agent, at, err));
    return hold_finished(agent, &id, err);
  }
  TRY(hold_event(agent, pd_buf_bytes(&event), &id, err));
  pd_draft_done(&agent->draft);
  agent->draft.is_step = true;
  agent->draft.event_id = agent->event_id.text;
  agent->draft.leaves = at;
  agent->is_open = true;
  return PD_OK;
}

pd_code pd_agent_step_begin(pd_agent *agent, pd_bytes event, pd_step *out, pd_error *err)
{
  pd_step step = PD_STEP_NONE;
  if (agent->is_open) {
    return pd_error_set(err, PD_INVALID, "agent '%s' works on event '%s': commit or abort that step first", agent->id,
                        agent->event_id.text);
  }
  TRY(pd_agent_settle(agent, err));
  if (agent->replied.text[0]) TRY(note_sent(agent, agent->replied.text, err));
  forget_reply(agent);
  TRY(begin(agent, event, &step, err));
  *out = step;
  return PD_OK;
}

pd_bytes pd_agent_step_event(const pd_agent *agent)
{
  return pd_buf_bytes(&agent->event);
}

const char *pd_agent_step_event_id(const pd_agent *agent)
{
  return agent->event_id.text;
}

pd_code pd_agent_step_event_get(const pd_agent *agent, const char *member, pd_buf *out, pd_error *err)
{
  pd_json event, value = {{NULL, 0}, PD_JSON_NONE};
  if (agent->event.size && pd_json_parse(pd_buf_bytes(&agent->event), &event, NULL) == PD_OK) value = pd_json_member(event, member);
  if (value.kind == PD_JSON_NONE) {
    return pd_error_set(err, PD_NOT_FOUND, "the event '%s' has no member '%.100s'", agent->event_id.text, member);
  }
  pd_buf_clear(out);
  if (value.kind == PD_JSON_STRING) return pd_json_decode(value, out, err);
  return pd_buf_append(out, value.raw.data, value.raw.size, err);
}

/* ---- ending -------------------------------------------------------------------------------------------------------- */

/* The queue may have changed since the step began: the event is where it is now. */
static void find_again(pd_agent *agent)
{
  pd_json first;
  pd_agent_id id;
  size_t at = pd_event_find(agent, agent->event_id.text);
  bool is_unnamed = at == SIZE_MAX && agent->draft.leaves == 0 && pd_event_first(agent, &first) && !pd_event_id(first, &id);
  if (!is_unnamed) agent->draft.leaves = at;
}

pd_code pd_agent_step_commit(pd_agent *agent, pd_error *err)
{
  bool is_known;
  pd_agent_id id = agent->event_id;
  if (!agent->is_open) return pd_error_set(err, PD_INVALID, "agent '%s' has no open step to commit", agent->id);
  TRY(pd_agent_settle(agent, err));
  bool is_saved = pd_ledger_find(agent->ledger.replies, "event", id.text).kind != PD_JSON_NONE; /* by a save whose answer was lost */
  find_again(agent);
  if (!is_saved) TRY(pd_agent_save(agent, &agent->draft, err));
  TRY(pd_agent_recall(agent, id.text, &is_known, err));
  pd_agent_step_abort(agent);
  return PD_OK;
}

void pd_agent_step_abort(pd_agent *agent)
{
  pd_draft_done(&agent->draft);
  agent->is_open = false;
}
