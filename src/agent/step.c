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

bool pd_agent_owes(const pd_agent *agent, const char *event_id)
{
  for (size_t i = 0; i < agent->owed_count; i++)
    if (strcmp(agent->owed[i].text, event_id) == 0) return true;
  return false;
}

pd_code pd_agent_owe(pd_agent *agent, const char *event_id, pd_error *err)
{
  if (pd_agent_owes(agent, event_id)) return PD_OK;
  TRY(pd_array_grow(&agent->owed, agent->owed_count, &agent->owed_capacity, sizeof *agent->owed, "a reply that is owed", err));
  snprintf(agent->owed[agent->owed_count++].text, sizeof agent->owed->text, "%s", event_id);
  return PD_OK;
}

static void disown(pd_agent *agent, const char *event_id)
{
  for (size_t i = 0; i < agent->owed_count; i++)
    if (strcmp(agent->owed[i].text, event_id) == 0) agent->owed[i] = agent->owed[--agent->owed_count];
}

bool pd_agent_is_due(const pd_agent *agent, pd_json unsent)
{
  pd_agent_id event;
  if (!pd_ledger_id(unsent, "event", &event) || pd_agent_has_left(agent, event.text)) return false;
  return pd_ledger_number(unsent, "epoch") != agent->epoch || pd_agent_owes(agent, event.text);
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

static bool is_unsent(const pd_agent *agent, const char *event_id)
{
  return pd_ledger_find(agent->ledger.unsent, "event", event_id).kind != PD_JSON_NONE;
}

static pd_code sent_once(pd_agent *agent, const char *event_id, pd_error *err)
{
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_draft_begin(&draft);
  if (!is_unsent(agent, event_id)) TRY(pd_agent_refresh(agent, err)); /* another process of this life may have committed it */
  if (!is_unsent(agent, event_id)) {
    return pd_error_set(err, PD_NOT_FOUND, "agent '%s' has no reply to event '%.100s' that is still to be sent", agent->id, event_id);
  }
  TRY(note_sent(agent, event_id, err));
  return pd_agent_save(agent, &draft, err);
}

pd_code pd_agent_reply_sent(pd_agent *agent, const char *event_id, pd_error *err)
{
  pd_patience patience = {0};
  pd_code code;
  TRY(pd_agent_settle(agent, err));
  do code = sent_once(agent, event_id, err);
  while (pd_agent_again(agent, code, &patience));
  return code;
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

/* A reply that may not have left: of an earlier life, or of a commit of this handle that failed and was done all the same. */
static pd_code take_unsent(pd_agent *agent, bool *out_is_found, pd_error *err)
{
  pd_json entry;
  pd_agent_id event;
  *out_is_found = false;
  pd_json_walk walk = pd_json_walk_begin(agent->ledger.unsent);
  while (!*out_is_found && pd_json_walk_next(&walk, NULL, &entry)) {
    if (!pd_agent_is_due(agent, entry) || !pd_ledger_id(entry, "event", &event)) continue;
    TRY(pd_agent_recall(agent, event.text, out_is_found, err));
  }
  return *out_is_found ? hold_finished(agent, &event, err) : PD_OK;
}

/* Events that another program put into the queue may have no id: they get one, which is saved before anybody works on them. Else the next
 * process would not know them again. */
static pd_code name_events(pd_agent *agent, pd_error *err)
{
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_json event;
  pd_agent_id id;
  pd_draft_begin(&draft);
  draft.names_events = true;
  if (!pd_event_first(agent, &event) || pd_event_id(event, &id)) return PD_OK;
  return pd_agent_save(agent, &draft, err);
}

/* The event to work on, with its id, in `out`; nothing if there is none. */
static pd_code find_event(pd_agent *agent, pd_bytes given, pd_buf *out, pd_agent_id *out_id, pd_error *err)
{
  pd_json event;
  pd_agent_id new_id;
  if (given.size) {
    TRY(pd_event_new_id(&new_id, err));
    TRY(pd_agent_parse(given, PD_JSON_OBJECT, "the event", &event, err));
    return pd_event_write(event, new_id.text, out, out_id, err);
  }
  TRY(name_events(agent, err));
  return pd_event_first(agent, &event) ? pd_event_write(event, "", out, out_id, err) : PD_OK;
}

/* Its step is finished, so it need not wait any longer. */
static pd_code leave_queue(pd_agent *agent, const char *id, pd_error *err)
{
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_draft_begin(&draft);
  draft.leaves = pd_event_find(agent, id);
  return draft.leaves == SIZE_MAX ? PD_OK : pd_agent_save(agent, &draft, err);
}

static pd_code open_step(pd_agent *agent, pd_bytes event, const pd_agent_id *id, pd_error *err)
{
  TRY(hold_event(agent, event, id, err));
  pd_draft_done(&agent->draft);
  agent->draft.is_step = true;
  agent->draft.event_id = agent->event_id.text;
  agent->was_queued = pd_event_find(agent, id->text) != SIZE_MAX;
  agent->is_outdated = false;
  agent->is_open = true;
  return PD_OK;
}

static pd_code begin(pd_agent *agent, pd_bytes given, pd_step *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf event = {0};
  pd_agent_id id;
  bool is_known = false;
  if (!given.size) TRY(take_unsent(agent, &is_known, err));
  *out = is_known ? PD_STEP_SEEN : PD_STEP_NONE;
  if (is_known) return PD_OK;
  TRY(find_event(agent, given, &event, &id, err));
  if (!event.size) return PD_OK;
  TRY(pd_agent_recall(agent, id.text, &is_known, err));
  if (!is_known) {
    *out = PD_STEP_NEW;
    return open_step(agent, pd_buf_bytes(&event), &id, err);
  }
  *out = PD_STEP_SEEN;
  pd_code code = leave_queue(agent, id.text, err);
  if (code) forget_reply(agent); /* nobody was given it */
  return code ? code : hold_finished(agent, &id, err);
}

static pd_code begin_again(pd_agent *agent, pd_bytes given, pd_step *out, pd_error *err)
{
  pd_patience patience = {0};
  pd_code code;
  agent->has_changed = false;
  do code = begin(agent, given, out, err);
  while (pd_agent_again(agent, code, &patience));
  return code;
}

pd_code pd_agent_step_begin(pd_agent *agent, pd_bytes event, pd_step *out, pd_error *err)
{
  pd_step step = PD_STEP_NONE;
  if (agent->is_open) {
    return pd_error_set(err, PD_INVALID, "agent '%s' works on event '%s': commit or abort that step first", agent->id,
                        agent->event_id.text);
  }
  bool is_fresh = agent->is_unsure || agent->is_attached || agent->has_company;
  if (is_fresh) TRY(pd_agent_refresh(agent, err)); /* so that nobody works on what another process has finished */
  if (agent->replied.text[0]) TRY(note_sent(agent, agent->replied.text, err));
  forget_reply(agent);
  TRY(begin_again(agent, event, &step, err));
  if (step == PD_STEP_NONE && !is_fresh) { /* but another process may have pushed something */
    TRY(pd_agent_refresh(agent, err));
    TRY(begin_again(agent, event, &step, err));
  }
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

/* Other processes of this life may have worked since the step began. */
static pd_code check_current(pd_agent *agent, pd_error *err)
{
  const char *id = agent->event_id.text;
  agent->draft.leaves = pd_event_find(agent, id);
  if (agent->was_queued && agent->draft.leaves == SIZE_MAX) {
    return pd_error_named(err, PD_CONFLICT, "StepOutdated", "event '%s' of agent '%s' was finished by another process: abort the step", id,
                          agent->id);
  }
  if (!agent->is_outdated) return PD_OK;
  return pd_error_named(err, PD_CONFLICT, "StepOutdated",
                        "another process changed the variables of agent '%s' since the step of event '%s' began: abort it and begin again",
                        agent->id, id);
}

/* If the event is finished, by a save whose answer was lost or by another process, its reply stands. */
static pd_code commit_once(pd_agent *agent, pd_error *err)
{
  agent->has_changed = false;
  if (pd_ledger_find(agent->ledger.replies, "event", agent->event_id.text).kind != PD_JSON_NONE) return PD_OK;
  TRY(check_current(agent, err));
  return pd_agent_save(agent, &agent->draft, err);
}

pd_code pd_agent_step_commit(pd_agent *agent, pd_error *err)
{
  bool is_known;
  pd_code code;
  pd_patience patience = {0};
  pd_agent_id id = agent->event_id;
  if (!agent->is_open) return pd_error_set(err, PD_INVALID, "agent '%s' has no open step to commit", agent->id);
  TRY(pd_agent_owe(agent, id.text, err)); /* unless it is given out below */
  TRY(pd_agent_settle(agent, err));
  do code = commit_once(agent, err);
  while (pd_agent_again(agent, code, &patience));
  if (!code) code = pd_agent_recall(agent, id.text, &is_known, err);
  if (code) return code;
  disown(agent, id.text);
  pd_agent_step_abort(agent);
  return PD_OK;
}

void pd_agent_step_abort(pd_agent *agent)
{
  pd_draft_done(&agent->draft);
  agent->is_open = false;
}
