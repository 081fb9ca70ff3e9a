/*
 * link.c: the link that opens the server's page in a browser. It carries a fresh token of the operator's in its fragment, which browsers
 * send to nobody: it reaches no log, no proxy and no Referer.
 *
 * L1  The token lives as long as the server does, and no longer than it was made for: revoked when the server is closed; those of servers
 *     that were killed when the next one makes its own (a home is served by one process at a time).
 */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/http.h"

#include <stdio.h>
#include <unistd.h>

#define LABEL "perdure serve --link"
#define PAGE_CURSOR_SIZE 160
#define PAGE_COUNT 100 /* tokens that are looked at in one go */

static pd_code call(pd_server *server, const char *capability, const pd_buf *input, pd_buf *out, pd_json *answer, pd_error *err)
{
  pd_ctx ctx = {.home = server->home, .is_operator = true};
  TRY(pd_call(&ctx, capability, pd_buf_bytes(input), out, err));
  return pd_json_parse(pd_buf_bytes(out), answer, err);
}

/* A member that is a text and has room; else "". */
static void take_text(pd_json object, const char *key, char *out, size_t size)
{
  if (!pd_json_copy_text(pd_json_member(object, key), out, size)) out[0] = 0;
}

/* ---- revoking ---- */

static pd_code revoke_token(pd_server *server, const char *token_id, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer;
  TRY(pd_buf_printf(&input, err, "{\"token_id\":\"%s\"}", token_id));
  return call(server, "tokens.revoke", &input, &out, &answer, err);
}

void pd_link_revoke(pd_server *server)
{
  pd_error err = {0};
  if (!*server->link_token) return;
  if (revoke_token(server, server->link_token, &err))
    pd_log_say(&server->options->log, PD_LOG_WARN, "the link's token %s is not revoked: %s", server->link_token, err.message);
  server->link_token[0] = 0;
}

/* L1: what servers that were killed left behind. */
static pd_code revoke_page(pd_server *server, char cursor[PAGE_CURSOR_SIZE], pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json answer, item;
  pd_json_writer w = {.out = &input, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "limit", PAGE_COUNT);
  if (*cursor) pd_json_put_text(&w, "cursor", cursor);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(call(server, "tokens.list", &input, &out, &answer, err));
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "tokens"));
  while (pd_json_walk_next(&walk, NULL, &item)) {
    char id[PD_TOKEN_ID_SIZE] = "", label[160] = "";
    take_text(item, "token_id", id, sizeof id);
    take_text(item, "label", label, sizeof label);
    if (strncmp(label, LABEL, strlen(LABEL)) == 0 && pd_json_is(pd_json_member(item, "role"), "operator"))
      TRY(revoke_token(server, id, err));
  }
  take_text(answer, "next_cursor", cursor, PAGE_CURSOR_SIZE);
  return PD_OK;
}

static pd_code revoke_old(pd_server *server, pd_error *err)
{
  char cursor[PAGE_CURSOR_SIZE] = "";
  do TRY(revoke_page(server, cursor, err));
  while (*cursor);
  return PD_OK;
}

/* ---- making ---- */

static pd_code make_token(pd_server *server, uint64_t ttl_s, pd_link *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_wipe) pd_buf answer_text = {0};
  pd_json answer;
  TRY(revoke_old(server, err));
  TRY(pd_buf_printf(&input, err, "{\"role\":\"operator\",\"label\":\"" LABEL ", process %ld\",\"expires_in\":%llu}", (long)getpid(),
                    (unsigned long long)ttl_s));
  TRY(call(server, "tokens.create", &input, &answer_text, &answer, err));
  take_text(answer, "token_id", server->link_token, sizeof server->link_token);
  take_text(answer, "token_id", out->token_id, sizeof out->token_id);
  take_text(answer, "token", out->token, sizeof out->token);
  take_text(answer, "expires_at", out->expires_at, sizeof out->expires_at);
  return PD_OK;
}

/* Where a browser of this machine finds it: "any address" is none that one can go to. */
static void write_address(const char *address, char *out, size_t size)
{
  static const struct {
    const char *any, *own;
  } hosts[] = {{"://0.0.0.0:", "://127.0.0.1:"}, {"://[::]:", "://[::1]:"}};
  snprintf(out, size, "%s", address);
  for (size_t i = 0; i < COUNT_OF(hosts); i++) {
    const char *at = strstr(address, hosts[i].any);
    if (at) snprintf(out, size, "%.*s%s%s", (int)(at - address), address, hosts[i].own, at + strlen(hosts[i].any));
  }
}

pd_code pd_server_link(pd_server *server, uint64_t ttl_s, pd_link *out, pd_error *err)
{
  const pd_listener *tcp = NULL;
  char address[sizeof tcp->address];
  for (size_t i = server->listener_count; i-- > 0;)
    if (!server->listeners[i].is_unix) tcp = &server->listeners[i];
  if (!tcp) return pd_error_set(err, PD_INVALID, "a link needs a TCP address, and the server listens on a Unix socket alone");
  *out = (pd_link){0};
  write_address(tcp->address, address, sizeof address);
  if (!server->options->no_auth) TRY(make_token(server, ttl_s, out, err));
  snprintf(out->url, sizeof out->url, "%s/%s%s", address, *out->token ? "#token=" : "", out->token);
  return PD_OK;
}
