/* mcp_world.h: a home with MCP in front of it, and messages that are easy to write and to judge. */
#ifndef TESTS_WIRE_MCP_WORLD_H
#define TESTS_WIRE_MCP_WORLD_H

#include "state/world.h"
#include "wire/mcp.h"
#include "wire/mcp_turn.h"

#include <pthread.h>

#define META_OF(capabilities)                                                                                                              \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":" capabilities "}"
#define META META_OF("{}")
#define FORMS "{\"elicitation\":{}}"

/* One exchange as a transport would keep it. */
typedef struct exchange {
  pthread_mutex_t lock;
  char *messages[64]; /* each with a NUL */
  size_t count;
  int status; /* of the last message, or of `done` if there was none */
  bool is_done, has_answer;
  char session[PD_MCP_SESSION_ID_SIZE];
} exchange;

typedef struct mcp_world {
  world w;
  pd_mcp *mcp;
  pd_mcp_peer peer;
  exchange push; /* of the stdio session */
  exchange last; /* of the last message */
  char member[65536];
} mcp_world;

/* A home, a pd_mcp and a stdio session for the agent "main". `tools` and `key_file` may be NULL. */
void mcp_open(mcp_world *m, const char *tools, const char *key_file);
void mcp_close(mcp_world *m);

/* Another pd_mcp on the same home, with pages of so many items; the session is a new one. */
void mcp_page(mcp_world *m, size_t page_count);

/* Send one message as m->peer; what comes back is in m->last. */
void mcp_send(mcp_world *m, const char *message);
void mcp_sendf(mcp_world *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* …into an exchange of the caller's, to be begun and ended by these. */
void mcp_send_into(mcp_world *m, exchange *e, const char *message);
void exchange_begin(exchange *e);
void exchange_end(exchange *e);
/* Wait until it has `count` messages; fails the test after some seconds. */
void exchange_wait(exchange *e, size_t count);

/* A member of a message as JSON text, "" if absent: "result.tools.0.name". Dots in names: write them as '!'. */
const char *mcp_member(mcp_world *m, const char *message, const char *path);
/* …of the last message of m->last. */
const char *mcp_last(mcp_world *m, const char *path);
/* Call a tool the legacy way with arguments as JSON; then the answer is m->last. */
void mcp_tool(mcp_world *m, const char *name, const char *arguments);
/* initialize the legacy way, with these capabilities of the client. */
void mcp_initialize(mcp_world *m, const char *revision, const char *capabilities);

#endif
