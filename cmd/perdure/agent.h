/* agent.h: what the verbs of `perdure agent` share: a storage, and the agent in it under the epoch that `open` printed. */
#ifndef PD_CMD_AGENT_H
#define PD_CMD_AGENT_H

#include "cli.h"

#include <perdure/agent.h>

/* Zero-initialise; agent_call_done closes. */
typedef struct agent_call {
  cli_session *cli;
  const args_parsed *args;
  pd_storage *storage;
  pd_agent *agent;
  int lock_fd; /* 0: none */
} agent_call;

/* Open the agent under --epoch or PERDURE_EPOCH. Calls of one life wait for each other: each reads, changes and saves the whole. */
PD_MUST_USE pd_code agent_attach(agent_call *call, pd_error *err);
/* Open the agent only to look at it: no epoch, no lock. */
PD_MUST_USE pd_code agent_look(agent_call *call, pd_error *err);
/* "intended", "done", "unknown". */
const char *agent_effect_name(pd_effect_state state);

/* agent_step.c, agent_effect.c: the verbs; words[0] is the verb. */
PD_MUST_USE pd_code agent_push(agent_call *call, pd_error *err);
PD_MUST_USE pd_code agent_next(agent_call *call, pd_error *err);
PD_MUST_USE pd_code agent_commit(agent_call *call, pd_error *err);
PD_MUST_USE pd_code agent_sent(agent_call *call, pd_error *err);
PD_MUST_USE pd_code agent_effect(agent_call *call, pd_error *err);
/* --event: JSON of an event, or its id; begun as a step. */
PD_MUST_USE pd_code agent_begin_given(agent_call *call, pd_step *out, pd_error *err);

#endif
