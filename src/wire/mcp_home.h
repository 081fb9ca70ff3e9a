/* mcp_home.h: the capabilities of a home as an MCP provider: what its files share. */
#ifndef PD_WIRE_MCP_HOME_H
#define PD_WIRE_MCP_HOME_H

#include "wire/mcp_inside.h"

#define PD_MCP_NAME_SIZE 128

/* ---- mcp_tool.c ---- */

pd_code pd_mcp_home_tools(pd_mcp_turn *turn);
pd_code pd_mcp_home_call(pd_mcp_turn *turn, const char *name, pd_json arguments);

/* ---- mcp_approve.c ---- */

/* The call needs approval, and `answer` is what the door said. True if the client is asked now. */
bool pd_mcp_approve_ask(pd_mcp_turn *turn, const char *capability, pd_bytes answer);
/* The client's answer: approve or deny as the operator, if that is what the person said. */
void pd_mcp_approve_settle(pd_mcp_turn *turn);

/* ---- mcp_resource.c ---- */

typedef enum pd_mcp_topic_kind { PD_MCP_PERSISTENT, PD_MCP_SHARED, PD_MCP_THREAD, PD_MCP_COMMIT } pd_mcp_topic_kind;

/* A resource's URI, taken apart. */
typedef struct pd_mcp_topic {
  pd_mcp_topic_kind kind;
  pd_buf rest; /* key or id, decoded, without a NUL */
} pd_mcp_topic;

/* PD_NOT_FOUND for what is none of the four templates, PD_INVALID for a bad escape or key. */
PD_MUST_USE pd_code pd_mcp_topic_parse(const char *uri, pd_mcp_topic *out, pd_error *err);
void pd_mcp_topic_done(pd_mcp_topic *topic);

pd_code pd_mcp_home_resources(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
pd_code pd_mcp_home_templates(pd_mcp_turn *turn);
pd_code pd_mcp_home_read(pd_mcp_turn *turn, const char *uri);
/* Keys of a tier that begin with `prefix`, by the door. `visit` returns false to stop. */
PD_MUST_USE pd_code pd_mcp_keys_each(pd_mcp_turn *turn, pd_mcp_topic_kind tier, pd_bytes prefix, bool (*visit)(void *ctx, pd_json entry),
                                     void *ctx, pd_error *err);

/* ---- mcp_prompt.c ---- */

pd_code pd_mcp_home_prompts(pd_mcp_turn *turn);
pd_code pd_mcp_home_prompt(pd_mcp_turn *turn, const char *name, pd_json arguments);
pd_code pd_mcp_home_complete(pd_mcp_turn *turn, pd_json reference, const char *argument, pd_bytes value);

/* ---- mcp_watch.c ---- */

pd_code pd_mcp_home_watch(pd_mcp *mcp, const char *agent, const char *uri, pd_error *err);
void pd_mcp_home_unwatch(pd_mcp *mcp, const char *agent, const char *uri);
pd_code pd_mcp_home_open(pd_mcp *mcp, pd_error *err);
void pd_mcp_home_close(pd_mcp *mcp);

#endif
