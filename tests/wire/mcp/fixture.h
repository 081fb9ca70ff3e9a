/* fixture.h: the tools, resources and prompts that the official conformance suite expects of a server, as a provider. */
#ifndef TESTS_WIRE_MCP_FIXTURE_H
#define TESTS_WIRE_MCP_FIXTURE_H

#include "wire/mcp_turn.h"

extern const pd_mcp_provider fixture;

/* fixture_ask.c: tools that ask the client something. PD_NOT_FOUND if it is none of them. */
pd_code fixture_ask_call(pd_mcp_turn *turn, const char *name, pd_json arguments);
extern const char *const fixture_ask_tools[]; /* ended by NULL */
/* The prompt that asks. */
pd_code fixture_ask_prompt(pd_mcp_turn *turn);

/* "content":[{"type":"text",…}] */
pd_code fixture_say(pd_mcp_turn *turn, const char *fmt, ...) PD_PRINTF(2, 3);
/* An argument as a text; "" if it is absent. Ends with a NUL. */
PD_MUST_USE pd_code fixture_text(pd_mcp_turn *turn, pd_json arguments, const char *name, pd_buf *out);

#endif
