/* run_machine.c: the states of runs and tool calls, their names, and which may follow which. */
#include "base/base.h"

#include <perdure/run.h>
#include <string.h>

static const char *name_of(const char *const *names, size_t count, unsigned number)
{
  return number < count && names[number] ? names[number] : "";
}

static unsigned number_of(const char *const *names, size_t count, const char *name)
{
  for (unsigned i = 1; name && i < count; i++)
    if (strcmp(names[i], name) == 0) return i;
  return 0;
}

static const char *const run_names[PD_PHASE_COUNT] = {NULL, "running", "waiting", "done"};
static const char *const done_names[PD_DONE_COUNT] = {NULL, "natural", "cancelled", "error", "stopped"};
static const char *const tool_names[PD_TOOL_STATUS_COUNT] = {NULL,       "new",       "running", "suspended",
                                                             "resuming", "succeeded", "failed",  "cancelled"};
static const char *const scope_names[PD_SCOPE_COUNT] = {NULL, "thread", "run", "tool_call"};
static const char *const event_names[PD_RUN_EVENT_COUNT] = {NULL,        "run_started", "checkpoint", "run_status",
                                                            "tool_call", "state_error", "error",      "run_finished"};

const char *pd_run_phase_name(pd_run_phase status)
{
  return name_of(run_names, COUNT_OF(run_names), status);
}

pd_run_phase pd_run_phase_parse(const char *name)
{
  return (pd_run_phase)number_of(run_names, COUNT_OF(run_names), name);
}

const char *pd_done_reason_name(pd_done_reason reason)
{
  return name_of(done_names, COUNT_OF(done_names), reason);
}

pd_done_reason pd_done_reason_parse(const char *name)
{
  return (pd_done_reason)number_of(done_names, COUNT_OF(done_names), name);
}

const char *pd_tool_status_name(pd_tool_status status)
{
  return name_of(tool_names, COUNT_OF(tool_names), status);
}

pd_tool_status pd_tool_status_parse(const char *name)
{
  return (pd_tool_status)number_of(tool_names, COUNT_OF(tool_names), name);
}

const char *pd_scope_name(pd_scope scope)
{
  return name_of(scope_names, COUNT_OF(scope_names), scope);
}

pd_scope pd_scope_parse(const char *name)
{
  return (pd_scope)number_of(scope_names, COUNT_OF(scope_names), name);
}

const char *pd_run_event_name(pd_run_event_kind kind)
{
  return name_of(event_names, COUNT_OF(event_names), kind);
}

/* ---- what may follow what ---- */

#define TO(state) (1u << (state))
#define ENDS (TO(PD_TOOL_FAILED) | TO(PD_TOOL_CANCELLED))

bool pd_run_phase_may(pd_run_phase from, pd_run_phase to)
{
  static const unsigned next[PD_PHASE_COUNT] = {
    [0] = TO(PD_PHASE_RUNNING),
    [PD_PHASE_RUNNING] = TO(PD_PHASE_WAITING) | TO(PD_PHASE_DONE),
    [PD_PHASE_WAITING] = TO(PD_PHASE_RUNNING) | TO(PD_PHASE_DONE),
  };
  return (unsigned)from < PD_PHASE_COUNT && (unsigned)to < PD_PHASE_COUNT && next[from] & TO(to);
}

bool pd_tool_status_may(pd_tool_status from, pd_tool_status to)
{
  static const unsigned next[PD_TOOL_STATUS_COUNT] = {
    [0] = TO(PD_TOOL_NEW) | TO(PD_TOOL_RUNNING),
    [PD_TOOL_NEW] = TO(PD_TOOL_RUNNING) | TO(PD_TOOL_SUSPENDED) | ENDS,
    [PD_TOOL_RUNNING] = TO(PD_TOOL_SUSPENDED) | TO(PD_TOOL_SUCCEEDED) | ENDS,
    [PD_TOOL_SUSPENDED] = TO(PD_TOOL_RESUMING) | TO(PD_TOOL_CANCELLED),
    [PD_TOOL_RESUMING] = TO(PD_TOOL_RUNNING) | TO(PD_TOOL_SUSPENDED) | TO(PD_TOOL_SUCCEEDED) | ENDS,
  };
  return (unsigned)from < PD_TOOL_STATUS_COUNT && (unsigned)to < PD_TOOL_STATUS_COUNT && next[from] & TO(to);
}

bool pd_tool_status_is_final(pd_tool_status status)
{
  return status == PD_TOOL_SUCCEEDED || status == PD_TOOL_FAILED || status == PD_TOOL_CANCELLED;
}
