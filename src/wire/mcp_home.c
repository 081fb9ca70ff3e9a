/* mcp_home.c: the capabilities of a home as an MCP provider. */
#include "wire/mcp_home.h"

#define INSTRUCTIONS                                                                                                                       \
  "perdure keeps an agent's state with its whole history. Use state_persistent_* for what must survive, state_shared_* for what other "    \
  "agents may see (pass the version that you read), state_session_* for what may be forgotten. Begin with the prompt `briefing`, or "      \
  "state_briefing_generate, to learn what happened while you were away. Errors say what to do in `recovery`."

const pd_mcp_provider pd_mcp_home = {
  .name = "perdure",
  .title = "perdure: state for agents",
  .instructions = INSTRUCTIONS,
  .changes_modern = PD_MCP_RESOURCES,
  .tools = pd_mcp_home_tools,
  .call = pd_mcp_home_call,
  .resources = pd_mcp_home_resources,
  .templates = pd_mcp_home_templates,
  .read = pd_mcp_home_read,
  .prompts = pd_mcp_home_prompts,
  .prompt = pd_mcp_home_prompt,
  .complete = pd_mcp_home_complete,
  .admit = pd_mcp_home_admit,
  .watch = pd_mcp_home_watch,
  .unwatch = pd_mcp_home_unwatch,
  .open = pd_mcp_home_open,
  .close = pd_mcp_home_close,
};
