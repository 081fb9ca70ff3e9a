/* agent_effect.c: `agent effect list|get|intend|done|retract`: the ledger of what happens outside. */
#include "agent.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

const char *agent_effect_name(pd_effect_state state)
{
  return state == PD_EFFECT_INTENDED ? "intended" : state == PD_EFFECT_DONE ? "done" : "unknown";
}

static void put_json(pd_json_writer *w, const char *key, pd_bytes json)
{
  if (!json.size) return;
  pd_json_key(w, key);
  pd_json_raw(w, json);
}

static void put_effect(pd_json_writer *w, const pd_effect *e)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "id", e->id);
  pd_json_put_text(w, "state", agent_effect_name(e->state));
  if (*e->event_id) pd_json_put_text(w, "event_id", e->event_id);
  pd_json_put_number(w, "epoch", e->epoch);
  put_json(w, "what", e->what);
  put_json(w, "result", e->result);
  pd_json_close(w, '}');
}

/* The state, and the result of what is done. */
static pd_code print_effect(agent_call *call, const char *id, const pd_effect_state *state, pd_error *err)
{
  pd_effect e;
  TRY(pd_agent_effect_get(call->agent, id, &e, err));
  if (state) e.state = *state; /* what was intended before is not known, though this life did it */
  if (call->cli->is_json) {
    pd_json_writer w = cli_json(call->cli, err);
    put_effect(&w, &e);
    return cli_json_end(call->cli, &w);
  }
  out_text(&call->cli->out, agent_effect_name(e.state));
  if (e.state == PD_EFFECT_DONE) out_text(&call->cli->out, "\t"), out_bytes(&call->cli->out, e.result);
  out_text(&call->cli->out, "\n");
  return PD_OK;
}

typedef struct effect_list {
  cli_session *cli;
  pd_json_writer w;
  size_t count;
} effect_list;

static void print_row(void *ctx, const pd_effect *e)
{
  effect_list *list = ctx;
  out_stream *o = &list->cli->out;
  list->count++;
  if (list->cli->is_json) {
    put_effect(&list->w, e);
    return;
  }
  out_tsv(o, pd_text(e->id));
  out_printf(o, "\t%s\t", agent_effect_name(e->state));
  out_tsv(o, pd_text(*e->event_id ? e->event_id : "-"));
  out_text(o, "\t");
  out_safe(o, e->state == PD_EFFECT_DONE ? e->result : e->what);
  out_text(o, "\n");
}

/* Needs no epoch: it only looks. */
static pd_code list_effects(agent_call *call, pd_error *err)
{
  effect_list list = {.cli = call->cli, .w = cli_json(call->cli, err)};
  TRY(agent_look(call, err));
  if (call->cli->is_json) pd_json_open(&list.w, '{'), pd_json_key(&list.w, "effects"), pd_json_open(&list.w, '[');
  TRY(pd_agent_effects(call->agent, print_row, &list, err));
  if (!list.count) cli_say(call->cli, "there are none");
  if (!call->cli->is_json) return PD_OK;
  pd_json_close(&list.w, ']');
  pd_json_close(&list.w, '}');
  return cli_json_end(call->cli, &list.w);
}

static pd_code begin_of_effect(agent_call *call, pd_error *err)
{
  pd_step step;
  if (!args_get(call->args, "event")) return PD_OK;
  TRY(agent_begin_given(call, &step, err));
  if (step == PD_STEP_NEW) return PD_OK;
  return pd_error_named(err, PD_CONFLICT, "EventFinished", "the step of event '%s' is finished: nothing more may happen for it",
                        pd_agent_step_event_id(call->agent));
}

static pd_code intend(agent_call *call, const char *id, pd_bytes what, pd_error *err)
{
  pd_effect_state state;
  TRY(begin_of_effect(call, err));
  TRY(pd_agent_effect_intend(call->agent, id, what, &state, err));
  return print_effect(call, id, &state, err);
}

static pd_code retract(agent_call *call, const char *id, pd_error *err)
{
  TRY(pd_agent_effect_retract(call->agent, id, err));
  if (!call->cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(call->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "retracted", id);
  pd_json_close(&w, '}');
  return cli_json_end(call->cli, &w);
}

pd_code agent_effect(agent_call *call, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf json = {0};
  const char *verb = call->args->words[1];
  size_t words = call->args->word_count - 2;
  const char *id = words ? call->args->words[2] : NULL;
  if (strcmp(verb, "list") == 0) {
    return words ? pd_error_set(err, PD_INVALID, "agent effect list: takes no words") : list_effects(call, err);
  }
  bool is_intend = strcmp(verb, "intend") == 0, is_done = strcmp(verb, "done") == 0, is_get = strcmp(verb, "get") == 0;
  if (!is_intend && !is_done && !is_get && strcmp(verb, "retract") != 0)
    return pd_error_set(err, PD_INVALID, "agent effect: '%.40s' is none of: list, get, intend, done, retract", verb);
  if (!id) return pd_error_set(err, PD_INVALID, "agent effect %s: which one? Give its id", verb);
  if (words > 1 && !is_intend && !is_done) return pd_error_set(err, PD_INVALID, "agent effect %s: takes nothing but an id", verb);
  if (words > 1) TRY(cli_value_read(call->args->words[3], &json, err));
  TRY(is_get ? agent_look(call, err) : agent_attach(call, err));
  if (is_get) return print_effect(call, id, NULL, err);
  if (is_intend) return intend(call, id, pd_buf_bytes(&json), err);
  if (!is_done) return retract(call, id, err);
  TRY(pd_agent_effect_done(call->agent, id, pd_buf_bytes(&json), err));
  return print_effect(call, id, NULL, err);
}
