/* mcp_home.h: the capabilities of a home as an MCP provider: what its files share. */
#ifndef PD_WIRE_MCP_HOME_H
#define PD_WIRE_MCP_HOME_H

#include "wire/mcp_inside.h"

#define PD_MCP_NAME_SIZE 128

/* ---- mcp_tool.c ---- */

pd_code pd_mcp_home_tools(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
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

pd_code pd_mcp_home_templates(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
pd_code pd_mcp_home_read(pd_mcp_turn *turn, const char *uri);
pd_code pd_mcp_home_admit(pd_mcp_turn *turn, const char *uri, pd_error *err);
void pd_mcp_uri_write(pd_json_writer *w, pd_mcp_topic_kind kind, pd_bytes rest); /* the member "uri" */
/* An item of contents, and the refusal if there is none. */
void pd_mcp_content_write(pd_mcp_turn *turn, const char *uri, pd_bytes json);
pd_code pd_mcp_not_found(pd_mcp_turn *turn, const char *uri);

/* Is the caller for some keys alone? Then whole commits are not for it, nor news of all lists. */
bool pd_mcp_is_narrow(const pd_mcp_turn *turn);
/* May the caller call this at all, by its gate and by policy? Not: then nothing of it is shown. */
bool pd_mcp_sees(const pd_mcp_turn *turn, const char *capability);
/* May it read, past the door, what a call about `key` (a key, or a prefix of keys; data NULL: any) would tell? `out` (may be NULL): to do
 * so. PD_DENIED. */
PD_MUST_USE pd_code pd_mcp_may_read(pd_mcp_turn *turn, const char *capability, pd_bytes key, pd_grant *out, pd_error *err);
/* A line of the audit: the peer asked for what `capability` tells, past the door; `outcome` is "ok" or an error's name, static. */
void pd_mcp_audit(const pd_mcp_turn *turn, const char *capability, pd_bytes subject, const char *outcome);

/* ---- mcp_commit.c ---- */

#define PD_MCP_COMMITS "history.show"

pd_code pd_mcp_commit_read(pd_mcp_turn *turn, const char *uri, const char *id);

/* ---- mcp_list.c ---- */

pd_code pd_mcp_home_resources(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
/* Keys of a tier that begin with `prefix` and come after `after`; none if the caller may not list them. `visit` returns false to stop; it
 * must not call the home. */
PD_MUST_USE pd_code pd_mcp_keys_each(pd_mcp_turn *turn, pd_mcp_topic_kind tier, pd_bytes prefix, pd_bytes after,
                                     bool (*visit)(void *ctx, const pd_entry *entry), void *ctx, pd_error *err);
/* A page of threads, the newest first, from `cursor` on (empty: the first page), which becomes that of the next page (empty: none). */
PD_MUST_USE pd_code pd_mcp_threads_page(pd_mcp_turn *turn, pd_buf *cursor, size_t limit,
                                        bool (*visit)(void *ctx, pd_bytes id, pd_json thread), void *ctx, pd_error *err);

/* ---- mcp_prompt.c ---- */

pd_code pd_mcp_home_prompts(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor);
pd_code pd_mcp_home_prompt(pd_mcp_turn *turn, const char *name, pd_json arguments);
pd_code pd_mcp_home_complete(pd_mcp_turn *turn, pd_json reference, const char *argument, pd_bytes value);

/* ---- mcp_watch.c ---- */

pd_code pd_mcp_home_watch(pd_mcp *mcp, const char *agent, const char *uri, pd_error *err);
void pd_mcp_home_unwatch(pd_mcp *mcp, const char *agent, const char *uri);
pd_code pd_mcp_home_open(pd_mcp *mcp, pd_error *err);
void pd_mcp_home_close(pd_mcp *mcp);

#endif
