/* stage.c: what a step puts aside for its commit. */
#include "agent/inside.h"
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define NAME_SIZE_MAX 4096 /* of a variable */

void pd_draft_begin(pd_draft *draft)
{
  *draft = (pd_draft){.leaves = SIZE_MAX, .keep = SIZE_MAX};
}

void pd_draft_done(pd_draft *draft)
{
  for (size_t i = 0; i < draft->variable_count; i++) {
    free(draft->variables[i].name);
    pd_buf_done(&draft->variables[i].json);
  }
  free(draft->variables);
  pd_buf_done(&draft->messages);
  pd_buf_done(&draft->events);
  pd_buf_done(&draft->reply);
  pd_draft_begin(draft);
}

static pd_code check_open(const pd_agent *agent, pd_error *err)
{
  return agent->is_open ? PD_OK : pd_error_set(err, PD_INVALID, "agent '%s' has no open step: begin one first", agent->id);
}

/* JSON on one line. */
static pd_code write_value(pd_json value, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_value(&w, value);
  return w.code;
}

static pd_code write_text(const char *text, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  if (!pd_utf8_check(pd_text(text))) return pd_error_set(err, PD_INVALID, "the text '%.60s' is no UTF-8", text);
  pd_json_text(&w, pd_text(text));
  return w.code;
}

pd_code pd_agent_step_message(pd_agent *agent, pd_bytes message, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf json = {0};
  pd_draft *d = &agent->draft;
  pd_json parsed;
  TRY(check_open(agent, err));
  TRY(pd_agent_parse(message, PD_JSON_OBJECT, "the message", &parsed, err));
  if (d->message_count) TRY(pd_buf_byte(&json, ',', err));
  TRY(write_value(parsed, &json, err));
  TRY(pd_buf_append(&d->messages, json.data, json.size, err));
  d->message_count++;
  return PD_OK;
}

pd_code pd_agent_step_say(pd_agent *agent, const char *role, const char *content, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf message = {0};
  if (!pd_utf8_check(pd_text(role)) || !pd_utf8_check(pd_text(content))) {
    return pd_error_set(err, PD_INVALID, "the message of '%.60s' is no UTF-8", role);
  }
  pd_json_writer w = {.out = &message, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "role", role);
  pd_json_put_text(&w, "content", content);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_agent_step_message(agent, pd_buf_bytes(&message), err);
}

pd_code pd_agent_step_keep(pd_agent *agent, size_t count, pd_error *err)
{
  TRY(check_open(agent, err));
  agent->draft.keep = count;
  return PD_OK;
}

/* ---- variables ----------------------------------------------------------------------------------------------------- */

static pd_code find_slot(pd_draft *d, const char *name, pd_draft_variable **out, pd_error *err)
{
  for (size_t i = 0; i < d->variable_count; i++) {
    if (strcmp(d->variables[i].name, name) != 0) continue;
    *out = &d->variables[i];
    return PD_OK;
  }
  TRY(pd_array_grow(&d->variables, d->variable_count, &d->variable_capacity, sizeof *d->variables, "a staged variable", err));
  char *own = strdup(name);
  if (!own) return pd_error_memory(err, "a staged variable");
  d->variables[d->variable_count] = (pd_draft_variable){.name = own};
  *out = &d->variables[d->variable_count++];
  return PD_OK;
}

/* `json` is this module's own, and goes over to the draft. */
static pd_code stage_variable(pd_agent *agent, const char *name, pd_buf *json, pd_error *err)
{
  pd_draft_variable *slot = NULL;
  TRY(check_open(agent, err));
  if (strnlen(name, NAME_SIZE_MAX + 1) > NAME_SIZE_MAX) {
    return pd_error_set(err, PD_LIMIT, "the variable's name '%.60s…' is longer than %d bytes", name, NAME_SIZE_MAX);
  }
  if (!pd_utf8_check(pd_text(name))) return pd_error_set(err, PD_INVALID, "the variable's name '%.60s' is no UTF-8", name);
  TRY(find_slot(&agent->draft, name, &slot, err));
  pd_buf old = slot->json;
  slot->json = *json;
  *json = old;
  return PD_OK;
}

pd_code pd_agent_step_set(pd_agent *agent, const char *name, pd_bytes json, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_json parsed;
  TRY(check_open(agent, err));
  TRY(pd_agent_parse(json, PD_JSON_NONE, "the variable", &parsed, err));
  TRY(write_value(parsed, &value, err));
  return stage_variable(agent, name, &value, err);
}

pd_code pd_agent_step_set_number(pd_agent *agent, const char *name, int64_t number, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  TRY(pd_buf_printf(&value, err, "%lld", (long long)number));
  return stage_variable(agent, name, &value, err);
}

pd_code pd_agent_step_set_text(pd_agent *agent, const char *name, const char *text, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  TRY(write_text(text, &value, err));
  return stage_variable(agent, name, &value, err);
}

pd_code pd_agent_step_unset(pd_agent *agent, const char *name, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf none = {0};
  return stage_variable(agent, name, &none, err);
}

/* ---- status, events, reply ----------------------------------------------------------------------------------------- */

pd_code pd_agent_step_status(pd_agent *agent, const char *status, pd_error *err)
{
  TRY(check_open(agent, err));
  size_t size = strnlen(status, PD_SNAPSHOT_STATUS_MAX + 1);
  if (!size || size > PD_SNAPSHOT_STATUS_MAX || !pd_utf8_check(pd_text(status))) {
    return pd_error_set(err, PD_INVALID, "the status '%.60s' has to be 1 to %d bytes of UTF-8", status, PD_SNAPSHOT_STATUS_MAX);
  }
  memcpy(agent->draft.status, status, size + 1);
  return PD_OK;
}

pd_code pd_agent_step_push(pd_agent *agent, pd_bytes event, pd_error *err)
{
  pd_push ignored;
  TRY(check_open(agent, err));
  return pd_event_stage(agent, event, &agent->draft, &ignored, err);
}

static pd_code stage_reply(pd_agent *agent, pd_buf *json, pd_error *err)
{
  size_t max = pd_agent_reply_bytes_max(agent);
  if (json->size > max) {
    return pd_error_set(err, PD_LIMIT, "the reply has %zu bytes, and no more than %zu can be remembered", json->size, max);
  }
  pd_buf old = agent->draft.reply;
  agent->draft.reply = *json;
  *json = old;
  return PD_OK;
}

pd_code pd_agent_step_reply(pd_agent *agent, pd_bytes json, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_json parsed;
  TRY(check_open(agent, err));
  TRY(pd_agent_parse(json, PD_JSON_NONE, "the reply", &parsed, err));
  TRY(write_value(parsed, &value, err));
  return stage_reply(agent, &value, err);
}

pd_code pd_agent_step_reply_text(pd_agent *agent, const char *text, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  TRY(check_open(agent, err));
  TRY(write_text(text, &value, err));
  return stage_reply(agent, &value, err);
}
