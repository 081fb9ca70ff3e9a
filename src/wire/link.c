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

typedef struct listed {
  char id[PD_TOKEN_ID_SIZE], label[160], role[16];
} listed;

static const pd_bind listed_members[] = {
  {"token_id", PD_BIND_TEXT, PD_BIND_AT(listed, id)},
  {"label", PD_BIND_TEXT, PD_BIND_AT(listed, label)},
  {"role", PD_BIND_TEXT, PD_BIND_AT(listed, role)},
};

/* Made by a server, for its link? Other tokens may lack a label, or have one that is longer. */
static bool is_of_link(pd_json item, listed *out)
{
  if (pd_bind_read(item, listed_members, COUNT_OF(listed_members), PD_BIND_LOOSE, out, NULL)) return false;
  return strncmp(out->label, LABEL, strlen(LABEL)) == 0 && strcmp(out->role, "operator") == 0;
}

typedef struct cursor {
  char next[PAGE_CURSOR_SIZE];
} cursor;

static const pd_bind page_members[] = {{"next_cursor", PD_BIND_TEXT, PD_BIND_AT(cursor, next), .is_optional = true}};

/* L1: what servers that were killed left behind. */
static pd_code revoke_page(pd_server *server, cursor *at, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  listed token;
  pd_json answer, item;
  pd_json_writer w = {.out = &input, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "limit", PAGE_COUNT);
  pd_json_put_said(&w, "cursor", at->next);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(call(server, "tokens.list", &input, &out, &answer, err));
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "tokens"));
  while (pd_json_walk_next(&walk, NULL, &item))
    if (is_of_link(item, &token)) TRY(revoke_token(server, token.id, err));
  *at = (cursor){0};
  return pd_bind_read(answer, page_members, COUNT_OF(page_members), PD_BIND_LOOSE, at, err);
}

static pd_code revoke_old(pd_server *server, pd_error *err)
{
  cursor at = {0};
  do TRY(revoke_page(server, &at, err));
  while (*at.next);
  return PD_OK;
}

/* ---- making ---- */

static const pd_bind made_members[] = {
  {"token_id", PD_BIND_TEXT, PD_BIND_AT(pd_link, token_id)},
  {"token", PD_BIND_TEXT, PD_BIND_AT(pd_link, token)},
  {"expires_at", PD_BIND_TEXT, PD_BIND_AT(pd_link, expires_at), .is_optional = true},
};

static pd_code make_token(pd_server *server, uint64_t ttl_s, pd_link *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_wipe) pd_buf answer_text = {0};
  pd_json answer;
  TRY(revoke_old(server, err));
  TRY(pd_buf_printf(&input, err, "{\"role\":\"operator\",\"label\":\"" LABEL ", process %ld\",\"expires_in\":%llu}", (long)getpid(),
                    (unsigned long long)ttl_s));
  TRY(call(server, "tokens.create", &input, &answer_text, &answer, err));
  TRY(pd_bind_read(answer, made_members, COUNT_OF(made_members), PD_BIND_LOOSE, out, err));
  snprintf(server->link_token, sizeof server->link_token, "%s", out->token_id);
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
