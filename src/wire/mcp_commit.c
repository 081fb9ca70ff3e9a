/* mcp_commit.c: commits as resources: of the caller's own store, or of the shared one, through the door: history.show. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_home.h"

#define COMMIT_TTL_MS 86400000u /* a commit never changes */
#define CHANGES_MAX 1000

/* An id or its first digits: other points in time that history.show knows are no resource's name. */
static bool is_hex(const char *text)
{
  return strlen(text) >= 4 && strlen(text) <= 64 && text[strspn(text, "0123456789abcdefABCDEF")] == 0;
}

static pd_code show(pd_mcp_turn *turn, const char *store, const char *id, pd_buf *out)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  pd_json_writer w = {.out = &input, .err = &turn->err};
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "at", id);
  pd_json_put_text(&w, "store", store);
  pd_json_put_number(&w, "limit", CHANGES_MAX);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_mcp_call(turn, &who, PD_MCP_COMMITS, pd_buf_bytes(&input), out, &turn->err);
}

/* What is not there and what is another's are told alike. */
pd_code pd_mcp_commit_read(pd_mcp_turn *turn, const char *uri, const char *id)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (!is_hex(id)) return pd_mcp_not_found(turn, uri);
  if (pd_mcp_is_narrow(turn) || !pd_mcp_sees(turn, PD_MCP_COMMITS)) {
    pd_mcp_audit(turn, PD_MCP_COMMITS, pd_text(id), "PermissionDenied");
    return pd_mcp_not_found(turn, uri);
  }
  pd_code code = show(turn, "own", id, &text);
  if (code == PD_NOT_FOUND) code = show(turn, "shared", id, &text);
  if (code == PD_NOT_FOUND || code == PD_INVALID) return pd_mcp_not_found(turn, uri);
  if (code && pd_code_class(code) != PD_CLASS_HOST) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  TRY(code);
  if (strlen(id) == 64) turn->ttl_ms = COMMIT_TTL_MS;
  pd_mcp_content_write(turn, uri, pd_buf_bytes(&text));
  return turn->w.code;
}
