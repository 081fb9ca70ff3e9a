/* event.c: events, and what comes from outside. */
#include "agent/inside.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/random.h"

#include <stdio.h>

pd_code pd_agent_parse(pd_bytes json, pd_json_kind kind, const char *what, pd_json *out, pd_error *err)
{
  pd_json value;
  pd_error why = {0};
  if (json.size > PD_AGENT_EVENT_SIZE_MAX) {
    return pd_error_set(err, PD_LIMIT, "%s has %zu bytes, which is over the limit of %zu", what, json.size, PD_AGENT_EVENT_SIZE_MAX);
  }
  pd_code code = pd_json_parse(json, &value, &why);
  if (!code) code = pd_json_unique(value, &why);
  if (code) {
    pd_error_set(err, code, "%s is no sound JSON: %.400s", what, why.message);
    return code;
  }
  if (kind != PD_JSON_NONE && value.kind != kind) {
    return pd_error_set(err, PD_INVALID, "%s is of type %s; it has to be of type %s", what, pd_json_kind_name(value.kind),
                        pd_json_kind_name(kind));
  }
  *out = value;
  return PD_OK;
}

/* Where `id` is no id: see pd_event_name. */
#define OTHER_ID "perdure_id"

static bool read_number_id(pd_json id, pd_agent_id *out)
{
  for (size_t i = 0; i < id.raw.size; i++)
    if (!strchr("-0123456789", ((const char *)id.raw.data)[i])) return false;
  if (id.raw.size > PD_AGENT_ID_MAX) return false;
  memcpy(out->text, id.raw.data, id.raw.size);
  out->text[id.raw.size] = '\0';
  return true;
}

bool pd_event_id(pd_json event, pd_agent_id *out)
{
  pd_json id = pd_json_member(event, "id");
  bool is_id = id.kind == PD_JSON_NUMBER ? read_number_id(id, out) : pd_ledger_id(event, "id", out);
  return is_id || pd_ledger_id(event, OTHER_ID, out);
}

pd_code pd_event_new_id(pd_agent_id *out, pd_error *err)
{
  uint64_t number;
  TRY(pd_random_u64(&number, err));
  snprintf(out->text, sizeof out->text, "perdure-%016llx", (unsigned long long)number);
  return PD_OK;
}

bool pd_event_first(const pd_agent *agent, pd_json *out)
{
  pd_json queue;
  if (pd_json_parse(agent->facts.events, &queue, NULL)) return false;
  pd_json_walk walk = pd_json_walk_begin(queue);
  return pd_json_walk_next(&walk, NULL, out);
}

static pd_code write_named(pd_json event, const char *name, const char *id, pd_buf *out, pd_error *err)
{
  pd_json key, value;
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  if (id) pd_json_put_text(&w, name, id);
  pd_json_walk walk = pd_json_walk_begin(event);
  while (pd_json_walk_next(&walk, &key, &value)) {
    if (id && pd_json_is(key, name)) continue;
    pd_json_key_as(&w, key);
    pd_json_value(&w, value);
  }
  pd_json_close(&w, '}');
  return w.code;
}

pd_code pd_event_name(pd_json event, pd_buf *out, pd_error *err)
{
  pd_agent_id id;
  bool has_id = pd_json_member(event, "id").kind != PD_JSON_NONE;
  if (pd_event_id(event, &id)) return write_named(event, NULL, NULL, out, err);
  TRY(pd_event_new_id(&id, err));
  return write_named(event, has_id ? OTHER_ID : "id", id.text, out, err);
}

pd_code pd_event_write(pd_json event, const char *new_id, pd_buf *out, pd_agent_id *out_id, pd_error *err)
{
  bool has_id = pd_json_member(event, "id").kind != PD_JSON_NONE;
  if (has_id && !pd_event_id(event, out_id)) {
    return pd_error_set(err, PD_INVALID, "the event's 'id' is none: it has to be a text of 1 to %d bytes, or an integer", PD_AGENT_ID_MAX);
  }
  if (!has_id) snprintf(out_id->text, sizeof out_id->text, "%s", new_id);
  return write_named(event, "id", has_id ? NULL : new_id, out, err);
}

pd_code pd_list_parse(pd_bytes entries, pd_buf *list, pd_json *out, pd_error *err)
{
  TRY(pd_buf_byte(list, '[', err));
  TRY(pd_buf_append(list, entries.data, entries.size, err));
  TRY(pd_buf_byte(list, ']', err));
  return pd_json_parse(pd_buf_bytes(list), out, err);
}

static size_t find_in(pd_json queue, const char *id)
{
  pd_json event;
  pd_agent_id found;
  pd_json_walk walk = pd_json_walk_begin(queue);
  for (size_t i = 0; pd_json_walk_next(&walk, NULL, &event); i++)
    if (pd_event_id(event, &found) && strcmp(found.text, id) == 0) return i;
  return SIZE_MAX;
}

size_t pd_event_find(const pd_agent *agent, const char *id)
{
  pd_json queue;
  return pd_json_parse(agent->facts.events, &queue, NULL) ? SIZE_MAX : find_in(queue, id);
}

/* Is an event of this id in the draft? */
static pd_code find_staged(const pd_draft *draft, const char *id, bool *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf list = {0};
  pd_json events;
  TRY(pd_list_parse(pd_buf_bytes(&draft->events), &list, &events, err));
  *out = find_in(events, id) != SIZE_MAX;
  return PD_OK;
}

pd_code pd_event_stage(pd_agent *agent, pd_bytes event, pd_draft *draft, pd_push *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf written = {0};
  pd_json parsed;
  pd_agent_id id, new_id;
  TRY(pd_event_new_id(&new_id, err));
  TRY(pd_agent_parse(event, PD_JSON_OBJECT, "the event", &parsed, err));
  TRY(pd_event_write(parsed, new_id.text, &written, &id, err));
  bool is_staged;
  agent->pushed_id = id;
  TRY(find_staged(draft, id.text, &is_staged, err));
  *out = PD_PUSH_WAITING;
  if (is_staged || pd_event_find(agent, id.text) != SIZE_MAX) return PD_OK;
  *out = PD_PUSH_SEEN;
  if (pd_ledger_find(agent->ledger.replies, "event", id.text).kind != PD_JSON_NONE) return PD_OK;
  *out = PD_PUSH_QUEUED;
  if (draft->event_count) TRY(pd_buf_byte(&draft->events, ',', err));
  TRY(pd_buf_append(&draft->events, written.data, written.size, err));
  draft->event_count++;
  return PD_OK;
}

/* What is staged in an open step does not count: nobody knows whether it will be saved. If it is, this one is there already. */
static pd_code push_once(pd_agent *agent, pd_bytes event, pd_push *out, pd_error *err)
{
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_draft_begin(&draft);
  TRY(pd_event_stage(agent, event, &draft, out, err));
  return *out == PD_PUSH_QUEUED ? pd_agent_save(agent, &draft, err) : PD_OK;
}

static pd_code push(pd_agent *agent, pd_bytes event, pd_push *out, pd_error *err)
{
  pd_patience patience = {0};
  pd_code code;
  bool is_known;
  TRY(pd_agent_settle(agent, err));
  do code = push_once(agent, event, out, err);
  while (pd_agent_again(agent, code, &patience));
  if (code || *out != PD_PUSH_SEEN || agent->is_open) return code;
  return pd_agent_recall(agent, agent->pushed_id.text, &is_known, err);
}

const char *pd_agent_pushed_id(const pd_agent *agent)
{
  return agent->pushed_id.text;
}

pd_code pd_agent_event_push(pd_agent *agent, pd_bytes event, pd_push *out, pd_error *err)
{
  pd_push what = 0;
  TRY(push(agent, event, &what, err));
  if (out) *out = what;
  return PD_OK;
}
