/* agent_step.c: `agent push|next|commit|sent`. */
#include "agent.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

/* ---- printing ------------------------------------------------------------------------------------------------------ */

/* {"step":…,"event_id":…} and what comes of it, or a line of it with tabs. */
static pd_code print_step(agent_call *call, const char *step, const char *name, pd_bytes json, pd_error *err)
{
  const char *id = pd_agent_step_event_id(call->agent);
  pd_agent_info info;
  pd_agent_info_get(call->agent, &info);
  if (!call->cli->is_json) {
    out_printf(&call->cli->out, "%s\t", step);
    out_tsv(&call->cli->out, pd_text(id));
    out_text(&call->cli->out, "\t");
    out_bytes(&call->cli->out, json.size ? json : pd_text("null"));
    out_text(&call->cli->out, "\n");
    return PD_OK;
  }
  pd_json_writer w = cli_json(call->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "step", step);
  pd_json_put_text(&w, "event_id", id);
  pd_json_put_number(&w, "tick_index", info.tick_index);
  pd_json_key(&w, name);
  if (json.size)
    pd_json_raw(&w, json);
  else
    pd_json_null(&w);
  pd_json_close(&w, '}');
  return cli_json_end(call->cli, &w);
}

/* For a shell: text as it is, anything else as JSON; nothing at all if there is no reply. */
static pd_code print_reply(agent_call *call, bool is_new, pd_error *err)
{
  pd_bytes reply = pd_agent_reply(call->agent);
  const char *text = pd_agent_reply_text(call->agent);
  if (call->cli->is_json) return print_step(call, is_new ? "new" : "seen", "reply", reply, err);
  if (!reply.size) return PD_OK;
  out_bytes(&call->cli->out, text ? pd_text(text) : reply);
  out_text(&call->cli->out, "\n");
  return PD_OK;
}

/* ---- push, next, sent ---------------------------------------------------------------------------------------------- */

static const char *push_name(pd_push what)
{
  return what == PD_PUSH_QUEUED ? "queued" : what == PD_PUSH_WAITING ? "waiting" : "seen";
}

static pd_code push_one(agent_call *call, const char *given, pd_json_writer *w, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf event = {0};
  pd_push what;
  TRY(cli_value_read(given, &event, err));
  TRY(pd_agent_event_push(call->agent, pd_buf_bytes(&event), &what, err));
  const char *id = pd_agent_pushed_id(call->agent);
  if (!call->cli->is_json) {
    out_printf(&call->cli->out, "%s\t", push_name(what));
    out_tsv(&call->cli->out, pd_text(id));
    out_text(&call->cli->out, "\n");
    return PD_OK;
  }
  pd_json_open(w, '{');
  pd_json_put_text(w, "event", push_name(what));
  pd_json_put_text(w, "event_id", id);
  pd_json_close(w, '}');
  return PD_OK;
}

pd_code agent_push(agent_call *call, pd_error *err)
{
  pd_json_writer w = cli_json(call->cli, err);
  TRY(agent_attach(call, err));
  if (call->cli->is_json) pd_json_open(&w, '{'), pd_json_key(&w, "events"), pd_json_open(&w, '[');
  for (size_t i = 1; i < call->args->word_count; i++) TRY(push_one(call, call->args->words[i], &w, err));
  if (!call->cli->is_json) return PD_OK;
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  return cli_json_end(call->cli, &w);
}

pd_code agent_next(agent_call *call, pd_error *err)
{
  pd_step step;
  TRY(agent_attach(call, err));
  TRY(pd_agent_step_begin(call->agent, PD_NEXT_EVENT, &step, err));
  if (step == PD_STEP_NEW) return print_step(call, "new", "event", pd_agent_step_event(call->agent), err);
  if (step == PD_STEP_SEEN) return print_step(call, "seen", "reply", pd_agent_reply(call->agent), err);
  call->cli->exit_code = CLI_EXIT_NEGATIVE;
  if (!call->cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(call->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "step", "none");
  pd_json_close(&w, '}');
  return cli_json_end(call->cli, &w);
}

pd_code agent_sent(agent_call *call, pd_error *err)
{
  TRY(agent_attach(call, err));
  TRY(pd_agent_reply_sent(call->agent, call->args->words[1], err));
  if (!call->cli->is_json) return PD_OK;
  pd_json_writer w = cli_json(call->cli, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "sent", call->args->words[1]);
  pd_json_close(&w, '}');
  return cli_json_end(call->cli, &w);
}

/* ---- commit -------------------------------------------------------------------------------------------------------- */

pd_code agent_begin_given(agent_call *call, pd_step *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf event = {0};
  CLEANUP(pd_buf_done) pd_buf by_id = {0};
  const char *given = args_get(call->args, "event");
  pd_json parsed;
  if (!given || !*given) return pd_error_set(err, PD_INVALID, "agent %s: of which event? Give --event ID", call->args->words[0]);
  TRY(cli_value_read(given, &event, err));
  TRY(cli_json_check(pd_buf_bytes(&event), "--event takes an event's id, or the event", err));
  bool is_json = pd_json_parse(pd_buf_bytes(&event), &parsed, NULL) == PD_OK && parsed.kind == PD_JSON_OBJECT;
  if (is_json) return pd_agent_step_begin(call->agent, pd_buf_bytes(&event), out, err);
  pd_json_writer w = {.out = &by_id, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_bytes(&w, "id", pd_buf_bytes(&event));
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_agent_step_begin(call->agent, pd_buf_bytes(&by_id), out, err);
}

/* NAME=VALUE: the name with its NUL in `name`, the value read in `value`. */
static pd_code split(const char *option, const char *given, bool is_read, pd_buf *name, pd_buf *value, pd_error *err)
{
  const char *equal = strchr(given, '=');
  if (!equal) return pd_error_set(err, PD_INVALID, "--%s '%.60s' has no '='", option, given);
  TRY(pd_buf_append(name, given, (size_t)(equal - given), err));
  TRY(pd_buf_byte(name, 0, err));
  if (is_read) return cli_value_read(equal + 1, value, err);
  TRY(pd_buf_append(value, equal + 1, strlen(equal + 1), err));
  return pd_buf_byte(value, 0, err);
}

typedef pd_code (*stage_json)(pd_agent *agent, pd_bytes json, pd_error *err);

static pd_code stage_each(agent_call *call, const char *option, stage_json stage, pd_error *err)
{
  size_t index = 0;
  for (const char *given; (given = args_next(call->args, option, &index));) {
    CLEANUP(pd_buf_done) pd_buf json = {0};
    TRY(cli_value_read(given, &json, err));
    TRY(stage(call->agent, pd_buf_bytes(&json), err));
  }
  return PD_OK;
}

static pd_code stage_pair(agent_call *call, const char *option, const char *given, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf name = {0};
  CLEANUP(pd_buf_done) pd_buf value = {0};
  bool is_json = strcmp(option, "set") == 0;
  TRY(split(option, given, is_json, &name, &value, err));
  const char *left = (const char *)name.data, *right = (const char *)value.data;
  if (is_json) return pd_agent_step_set(call->agent, left, pd_buf_bytes(&value), err);
  if (strcmp(option, "set-text") == 0) return pd_agent_step_set_text(call->agent, left, right, err);
  return pd_agent_step_say(call->agent, left, right, err);
}

static pd_code stage_pairs(agent_call *call, const char *option, pd_error *err)
{
  size_t index = 0;
  for (const char *given; (given = args_next(call->args, option, &index));) TRY(stage_pair(call, option, given, err));
  return PD_OK;
}

static pd_code stage_all(agent_call *call, pd_error *err)
{
  const char *status = args_get(call->args, "status"), *text = args_get(call->args, "reply-text"), *name;
  uint64_t keep = SIZE_MAX;
  size_t index = 0;
  if (text && args_get(call->args, "reply")) return pd_error_set(err, PD_INVALID, "agent commit: --reply or --reply-text, not both");
  while ((name = args_next(call->args, "unset", &index))) TRY(pd_agent_step_unset(call->agent, name, err));
  TRY(stage_pairs(call, "set", err));
  TRY(stage_pairs(call, "set-text", err));
  TRY(stage_each(call, "message", pd_agent_step_message, err));
  TRY(stage_pairs(call, "say", err));
  TRY(stage_each(call, "push", pd_agent_step_push, err));
  TRY(stage_each(call, "reply", pd_agent_step_reply, err));
  if (text) TRY(pd_agent_step_reply_text(call->agent, text, err));
  if (status) TRY(pd_agent_step_status(call->agent, status, err));
  TRY(args_number(call->args, "keep", 0, &keep, err));
  return pd_agent_step_keep(call->agent, (size_t)keep, err);
}

pd_code agent_commit(agent_call *call, pd_error *err)
{
  pd_step step;
  TRY(agent_attach(call, err));
  TRY(agent_begin_given(call, &step, err));
  if (step != PD_STEP_NEW) return print_reply(call, false, err);
  TRY(stage_all(call, err));
  TRY(pd_agent_step_commit(call->agent, err));
  return print_reply(call, true, err);
}
