/* effect.c: the ledger of effects: what is about to happen outside is written down before it does. */
#include "agent/inside.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>

static pd_code check_id(const char *id, pd_error *err)
{
  size_t size = strnlen(id, PD_AGENT_ID_MAX + 1);
  if (size && size <= PD_AGENT_ID_MAX && pd_utf8_check(pd_text(id))) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the effect's id '%.60s' has to be 1 to %d bytes of UTF-8", id, PD_AGENT_ID_MAX);
}

/* JSON of the caller's; nothing is null. */
static pd_code write_given(pd_json_writer *w, const char *key, pd_bytes given, const char *what, pd_error *err)
{
  pd_json value;
  pd_json_key(w, key);
  if (!given.size) {
    pd_json_null(w);
    return w->code;
  }
  TRY(pd_agent_parse(given, PD_JSON_NONE, what, &value, err));
  pd_json_value(w, value);
  return w->code;
}

/* `by` is the handle that intended it. */
static void write_head(pd_json_writer *w, const char *id, const char *event, const char *state, uint64_t epoch, const char *by)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "id", id);
  pd_json_put_text(w, "event", event);
  pd_json_put_text(w, "state", state);
  pd_json_put_number(w, "epoch", epoch);
  if (by) pd_json_put_text(w, "by", by);
}

static pd_code save_effect(pd_agent *agent, const char *id, pd_bytes entry, pd_error *err)
{
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_draft_begin(&draft);
  draft.effect_id = id;
  draft.effect = entry;
  return pd_agent_save(agent, &draft, err);
}

/* ---- what is written down ------------------------------------------------------------------------------------------ */

static void show(pd_agent *agent, pd_json entry, pd_effect *out)
{
  bool is_done = pd_json_is(pd_json_member(entry, "state"), "done");
  uint64_t epoch = pd_ledger_number(entry, "epoch");
  if (!pd_ledger_id(entry, "id", &agent->effect_id)) agent->effect_id.text[0] = '\0';
  if (!pd_ledger_id(entry, "event", &agent->effect_event)) agent->effect_event.text[0] = '\0';
  *out = (pd_effect){
    .id = agent->effect_id.text,
    .event_id = agent->effect_event.text,
    .state = is_done                 ? PD_EFFECT_DONE
             : epoch == agent->epoch ? PD_EFFECT_INTENDED
                                     : PD_EFFECT_UNKNOWN,
    .epoch = epoch,
    .what = pd_json_member(entry, "what").raw,
    .result = pd_json_member(entry, "result").raw,
  };
}

/* As far as this handle knows. */
static pd_code find_here(pd_agent *agent, const char *id, pd_effect *out, pd_json *out_entry, pd_error *err)
{
  pd_json entry = pd_ledger_find(agent->ledger.effects, "id", id);
  if (entry.kind == PD_JSON_NONE) return pd_error_set(err, PD_NOT_FOUND, "agent '%s' intended no effect '%s'", agent->id, id);
  show(agent, entry, out);
  if (out_entry) *out_entry = entry;
  return PD_OK;
}

/* Another process of this life may have intended it. */
static pd_code find(pd_agent *agent, const char *id, pd_effect *out, pd_error *err)
{
  TRY(check_id(id, err));
  TRY(pd_agent_settle(agent, err));
  if (find_here(agent, id, out, NULL, NULL) == PD_OK) return PD_OK;
  TRY(pd_agent_refresh(agent, err));
  return find_here(agent, id, out, NULL, err);
}

pd_code pd_agent_effect_get(pd_agent *agent, const char *id, pd_effect *out, pd_error *err)
{
  return find(agent, id, out, err);
}

pd_code pd_agent_effects(pd_agent *agent, void (*visit)(void *ctx, const pd_effect *effect), void *ctx, pd_error *err)
{
  pd_json entry;
  pd_effect effect;
  TRY(pd_agent_settle(agent, err));
  pd_json_walk walk = pd_json_walk_begin(agent->ledger.effects);
  while (pd_json_walk_next(&walk, NULL, &entry)) {
    show(agent, entry, &effect);
    visit(ctx, &effect);
  }
  return PD_OK;
}

/* ---- changing it --------------------------------------------------------------------------------------------------- */

/* What is there already: done, or unknown. But if the save that was to write it failed, was done all the same, and this is the same call
 * again, then nothing has happened yet. What another process of this life intended is not this call's. */
static pd_effect_state judge(pd_agent *agent, const pd_effect *known, pd_json entry)
{
  if (known->state == PD_EFFECT_DONE) return PD_EFFECT_DONE;
  pd_json by = pd_json_member(entry, "by");
  bool is_own = by.kind == PD_JSON_NONE ? known->epoch == agent->epoch : pd_json_is(by, agent->tag);
  bool is_again = is_own && strcmp(agent->tried_effect.text, known->id) == 0;
  agent->tried_effect.text[0] = '\0';
  return is_again ? PD_EFFECT_INTENDED : PD_EFFECT_UNKNOWN;
}

static pd_code intend_once(pd_agent *agent, const char *id, pd_bytes what, pd_effect_state *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf entry = {0};
  pd_effect known;
  pd_json is;
  if (find_here(agent, id, &known, &is, NULL) == PD_OK) {
    *out = judge(agent, &known, is);
    return PD_OK;
  }
  pd_json_writer w = {.out = &entry, .err = err};
  write_head(&w, id, agent->is_open ? agent->event_id.text : "", "intended", agent->epoch, agent->tag);
  TRY(write_given(&w, "what", what, "what is noted of the effect", err));
  pd_json_close(&w, '}');
  TRY(w.code);
  pd_code code = save_effect(agent, id, pd_buf_bytes(&entry), err);
  /* Also after a conflict: it may be that of a save that was sent again, and had been done before somebody else saved. */
  if (code) {
    snprintf(agent->tried_effect.text, sizeof agent->tried_effect.text, "%s", id);
    return code;
  }
  agent->tried_effect.text[0] = '\0';
  *out = PD_EFFECT_INTENDED;
  return PD_OK;
}

pd_code pd_agent_effect_intend(pd_agent *agent, const char *id, pd_bytes what, pd_effect_state *out, pd_error *err)
{
  pd_patience patience = {0};
  pd_code code;
  TRY(check_id(id, err));
  TRY(pd_agent_settle(agent, err));
  do code = intend_once(agent, id, what, out, err);
  while (pd_agent_again(agent, code, &patience));
  return code;
}

static pd_code done_once(pd_agent *agent, const char *id, pd_bytes result, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf entry = {0};
  pd_effect known;
  TRY(find(agent, id, &known, err));
  if (known.state == PD_EFFECT_DONE) return PD_OK;
  pd_json_writer w = {.out = &entry, .err = err};
  write_head(&w, id, known.event_id, "done", known.epoch, NULL);
  pd_json_key(&w, "what");
  pd_json_raw(&w, known.what);
  TRY(write_given(&w, "result", result, "the effect's result", err));
  pd_json_close(&w, '}');
  TRY(w.code);
  return save_effect(agent, id, pd_buf_bytes(&entry), err);
}

pd_code pd_agent_effect_done(pd_agent *agent, const char *id, pd_bytes result, pd_error *err)
{
  pd_patience patience = {0};
  pd_code code;
  do code = done_once(agent, id, result, err);
  while (pd_agent_again(agent, code, &patience));
  return code;
}

static pd_code retract_once(pd_agent *agent, const char *id, pd_error *err)
{
  pd_effect known;
  TRY(find(agent, id, &known, err));
  if (known.state == PD_EFFECT_DONE) return pd_error_set(err, PD_INVALID, "the effect '%s' of agent '%s' is done", id, agent->id);
  return save_effect(agent, id, (pd_bytes){NULL, 0}, err);
}

pd_code pd_agent_effect_retract(pd_agent *agent, const char *id, pd_error *err)
{
  pd_patience patience = {0};
  pd_code code;
  do code = retract_once(agent, id, err);
  while (pd_agent_again(agent, code, &patience));
  return code;
}
