/*
 * lasting.c: answers that last: watches, and MCP's streams. A token is checked when a request comes; an answer that goes on for hours would
 * outlive it. So it is looked at again every few seconds, and the connection is cut when the token was revoked, rotated or has expired.
 * Who comes back with a good one goes on where it stopped.
 */
#include "base/base.h"
#include "base/clock.h"
#include "wire/http.h"

#include <sys/socket.h>

#define RECHECK_MS 2000

void pd_conn_lasts(pd_conn *conn, const pd_caller *caller)
{
  pd_conns *conns = &conn->listener->server->conns;
  if (!caller->has_token) return;
  pthread_mutex_lock(&conns->lock);
  memcpy(conn->mark.id, caller->token->id, sizeof conn->mark.id);
  conn->mark.hash = caller->token->hash;
  pthread_mutex_unlock(&conns->lock);
}

void pd_conn_lasted(pd_conn *conn)
{
  pd_conns *conns = &conn->listener->server->conns;
  if (!*conn->mark.id) return; /* only the connection's own thread writes it */
  pthread_mutex_lock(&conns->lock);
  conn->mark.id[0] = 0;
  pthread_mutex_unlock(&conns->lock);
}

/* The lock keeps the descriptor from being closed meanwhile, as in connection.c. A storage that fails is no reason to cut anybody. */
void pd_conns_recheck(pd_server *server)
{
  int64_t now_ms = pd_clock_monotonic_ms();
  if (now_ms - server->rechecked_ms < RECHECK_MS) return;
  server->rechecked_ms = now_ms;
  pthread_mutex_lock(&server->conns.lock);
  for (pd_conn *conn = server->conns.first; conn; conn = conn->next) {
    if (!*conn->mark.id || conn->is_cut || pd_token_recheck(server->home, &conn->mark, NULL) != PD_DENIED) continue;
    pd_log_say(&server->options->log, PD_LOG_INFO, "a stream ends: its token %s is not good any more", conn->mark.id);
    shutdown(conn->fd, SHUT_RDWR);
    conn->is_cut = true;
  }
  pthread_mutex_unlock(&server->conns.lock);
}
