/*
 * fuzz_jsonrpc.c: a client's bytes against MCP: JSON-RPC, both eras, batches, questions and their answers. Lines of one input are messages
 * of one client, one after the other. Whatever they are: every line is answered at most once, with JSON on one line, and ends.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "wire/mcp.h"
#include "wire/mcp_turn.h"

#include <string.h>

/* What comes back for one line. */
typedef struct exchange {
  unsigned answers;
  bool is_done;
} exchange;

static void take(void *ctx, pd_bytes message, int status, bool is_last)
{
  exchange *e = ctx;
  FUZZ_REQUIRE(pd_json_parse(message, NULL, NULL) == PD_OK);
  FUZZ_REQUIRE(!memchr(message.data, '\n', message.size));
  FUZZ_REQUIRE(status >= 200 && status < 600 && !e->is_done);
  e->answers += is_last;
  FUZZ_REQUIRE(e->answers <= 1);
}

static void end(void *ctx, int status)
{
  exchange *e = ctx;
  FUZZ_REQUIRE(!e->is_done && status >= 200);
  e->is_done = true;
}

static void push(void *ctx, pd_bytes message, int status, bool is_last)
{
  (void)ctx, (void)status, (void)is_last;
  FUZZ_REQUIRE(pd_json_parse(message, NULL, NULL) == PD_OK);
}

/* ---- something to offer: a tool that says what it was given, and one that asks ---- */

static pd_code list_tools(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  (void)out_cursor;
  if (cursor.data) return pd_mcp_refuse_cursor(turn);
  pd_json_raw(&turn->w, pd_text("{\"name\":\"say\",\"inputSchema\":{\"type\":\"object\"}}"));
  return turn->w.code;
}

static pd_code call_tool(pd_mcp_turn *turn, const char *name, pd_json arguments)
{
  if (strcmp(name, "ask") == 0 && turn->inputs.kind != PD_JSON_OBJECT) {
    TRY(pd_mcp_keep(turn, pd_text("kept")));
    return pd_mcp_ask(turn, "q", "elicitation/create", "{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}");
  }
  pd_mcp_progress(turn, 1, 2);
  pd_mcp_log(turn, PD_MCP_WARNING, "fuzz", pd_text(name));
  if (turn->has_state) FUZZ_REQUIRE(pd_bytes_equal(turn->state, pd_text("kept")));
  pd_json_key(&turn->w, "content");
  pd_json_open(&turn->w, '[');
  pd_mcp_text_block(&turn->w, arguments.raw);
  pd_json_close(&turn->w, ']');
  pd_mcp_updated(turn->mcp, NULL, "x:1");
  pd_mcp_changed(turn->mcp, NULL, PD_MCP_TOOLS);
  return turn->w.code;
}

static pd_code list_resources(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  (void)cursor;
  return pd_buf_append(out_cursor, "next", 4, &turn->err);
}

static pd_code read_resource(pd_mcp_turn *turn, const char *uri)
{
  return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "no %s", uri);
}

static pd_code complete(pd_mcp_turn *turn, pd_json reference, const char *argument, pd_bytes value)
{
  (void)reference, (void)argument;
  pd_json_put_bytes(&turn->w, "values", value);
  return turn->w.code;
}

static const pd_mcp_provider provider = {
  .name = "fuzz",
  .title = "fuzz",
  .version = "1",
  .instructions = "",
  .changes = PD_MCP_TOOLS,
  .tools = list_tools,
  .call = call_tool,
  .resources = list_resources,
  .templates = list_tools,
  .read = read_resource,
  .prompts = list_tools,
  .prompt = call_tool,
  .complete = complete,
};

#define LINES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_mcp *mcp = NULL;
  exchange exchanges[LINES_MAX] = {0};
  pd_mcp_options options = {.provider = &provider};
  pd_mcp_out to = {.send = push};
  pd_mcp_peer peer = {.agent = "a", .may_approve = true};
  if (pd_mcp_new(&options, &mcp, NULL) || pd_mcp_session_new(mcp, "a", &to, &peer.session, NULL)) return 0;
  const uint8_t *at = data, *stop = data + size;
  for (size_t i = 0; i < LINES_MAX && at < stop; i++) {
    const uint8_t *line_end = memchr(at, '\n', (size_t)(stop - at));
    if (!line_end) line_end = stop;
    pd_mcp_out out = {.send = take, .done = end, .ctx = &exchanges[i]};
    peer.is_http = i % 3 == 2; /* a header that is missing or right is refused or not; a crash is neither */
    peer.version = i % 2 ? "2026-07-28" : NULL;
    pd_mcp_handle(mcp, &peer, (pd_bytes){at, (size_t)(line_end - at)}, &out);
    at = line_end + 1;
  }
  pd_mcp_tick(mcp);
  pd_mcp_drain(mcp);
  for (size_t i = 0; i < LINES_MAX; i++) FUZZ_REQUIRE(exchanges[i].answers == 0 || exchanges[i].is_done);
  pd_mcp_session_release(peer.session);
  pd_mcp_free(mcp);
  return 0;
}
