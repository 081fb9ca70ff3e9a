/* world.c: see world.h. */
#include "agent/world.h"

#include "storage/folder_storage.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>

int file_set_up(void **state)
{
  *state = folder_uri_new("file:", "snapshots");
  return 0;
}

static int tear_down(void **state, const char *scheme)
{
  folder_uri_destroy(*state, scheme);
  free(*state);
  return 0;
}

int file_tear_down(void **state)
{
  return tear_down(state, "file:");
}

int perdure_set_up(void **state)
{
  *state = folder_uri_new("perdure:sqlite:", "home");
  return 0;
}

int perdure_tear_down(void **state)
{
  return tear_down(state, "perdure:sqlite:");
}

int sqlite_set_up(void **state)
{
  *state = folder_uri_new("sqlite-snapshots:", "snapshots.db");
  return 0;
}

int sqlite_tear_down(void **state)
{
  return tear_down(state, "sqlite-snapshots:");
}

void expect_ok(pd_code code, const pd_error *err)
{
  if (code) fail_msg("%s: %s", pd_error_name(err), err->message);
}

void expect_refused(pd_code code, const pd_error *err, pd_code want, const char *says)
{
  if (code != want) fail_msg("%s (%s) instead of %s", pd_code_name(code), code ? err->message : "", pd_code_name(want));
  if (!strstr(err->message, says)) fail_msg("'%s' does not say '%s'", err->message, says);
}

static int64_t tick_clock(void *ctx)
{
  static int64_t now = 1000;
  (void)ctx;
  return now++;
}

pd_agent *agent_open_with(const char *uri, const char *id, pd_agent_options options)
{
  pd_agent *agent = NULL;
  options.now_ms = tick_clock;
  OK(pd_agent_open(uri, id, &options, &agent, &err));
  return agent;
}

pd_agent *agent_open(const char *uri, const char *id)
{
  return agent_open_with(uri, id, (pd_agent_options){0});
}

pd_agent_info agent_info(const pd_agent *agent)
{
  pd_agent_info info;
  pd_agent_info_get(agent, &info);
  return info;
}

pd_push push(pd_agent *agent, const char *event)
{
  pd_push what = 0;
  OK(pd_agent_event_push(agent, pd_text(event), &what, &err));
  return what;
}

pd_step begin(pd_agent *agent, const char *event)
{
  pd_step step = PD_STEP_NONE;
  OK(pd_agent_step_begin(agent, event ? pd_text(event) : PD_NEXT_EVENT, &step, &err));
  return step;
}

void expect_reply(const pd_agent *agent, const char *json)
{
  pd_bytes reply = pd_agent_reply(agent);
  if (reply.size != strlen(json) || memcmp(reply.data, json, reply.size) != 0)
    fail_msg("the reply is %.*s, not %s", (int)reply.size, (const char *)reply.data, json);
}

void expect_variable(const pd_agent *agent, const char *name, const char *json)
{
  pd_buf got = {0};
  pd_code code = pd_agent_variable(agent, name, &got, NULL);
  assert_int_equal(code, json ? PD_OK : PD_NOT_FOUND);
  if (json && (got.size != strlen(json) || memcmp(got.data, json, got.size) != 0))
    fail_msg("%s is %.*s, not %s", name, (int)got.size, (const char *)got.data, json);
  pd_buf_done(&got);
}

void count_step(pd_agent *agent)
{
  int64_t count = pd_agent_number(agent, "count", 0) + 1;
  char *reply = text_of("counted %lld", (long long)count);
  OK(pd_agent_step_set_number(agent, "count", count, &err));
  OK(pd_agent_step_say(agent, "assistant", reply, &err));
  OK(pd_agent_step_reply_text(agent, reply, &err));
  OK(pd_agent_step_commit(agent, &err));
  free(reply);
}
