/*
 * connection.c: the open connections, and cutting those who take too long to ask. libmicrohttpd's own time-out begins anew with each
 * byte, so a client that sends one now and then would hold its place for ever; here the time runs from the end of the last answer.
 */
#include "base/base.h"
#include "base/clock.h"
#include "wire/http.h"

#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#define CROWD_MIN 512 /* who have gone since memory was given back last */
#define GIVE_BACK_MS 30000

static int socket_of(struct MHD_Connection *connection)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

/* The handshake comes later: here its certificate is settled. Head and body leave as two records: the second must not wait for the
 * client's acknowledgement of the first. */
static void attach_tls(const pd_listener *listener, struct MHD_Connection *connection)
{
  setsockopt(socket_of(connection), IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  if (info && info->tls_session) pd_tls_attach(listener->server->tls, info->tls_session);
}

static void begin(pd_listener *listener, struct MHD_Connection *connection, void **socket_context)
{
  pd_conns *conns = &listener->server->conns;
  pd_conn *conn = calloc(1, sizeof *conn);
  if (listener->is_tls) attach_tls(listener, connection);
  if (!conn) return; /* it is served, but not watched over */
  conn->listener = listener;
  conn->fd = socket_of(connection);
  conn->since_ms = pd_clock_monotonic_ms();
  pthread_mutex_lock(&conns->lock);
  conn->next = conns->first;
  if (conn->next) conn->next->prev = conn;
  conns->first = conn;
  if (++conns->count > conns->peak) conns->peak = conns->count;
  listener->count++;
  pthread_mutex_unlock(&conns->lock);
  *socket_context = conn;
}

static void end(pd_listener *listener, void **socket_context)
{
  pd_conns *conns = &listener->server->conns;
  pd_conn *conn = *socket_context;
  if (!conn) return;
  pthread_mutex_lock(&conns->lock);
  if (conn->prev)
    conn->prev->next = conn->next;
  else
    conns->first = conn->next;
  if (conn->next) conn->next->prev = conn->prev;
  conns->count--;
  listener->count--;
  pthread_mutex_unlock(&conns->lock);
  pd_token_forget(&conn->known);
  free(conn);
  *socket_context = NULL;
}

void pd_conn_notify(void *cls, struct MHD_Connection *connection, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
  if (code == MHD_CONNECTION_NOTIFY_STARTED)
    begin(cls, connection, socket_context);
  else
    end(cls, socket_context);
}

void pd_conn_enter(pd_conn *conn, pd_conn_state state)
{
  if (state != PD_CONN_BUSY) __atomic_store_n(&conn->since_ms, pd_clock_monotonic_ms(), __ATOMIC_RELAXED); /* nobody is late then */
  __atomic_store_n(&conn->state, state, __ATOMIC_RELEASE);                                                 /* who sees it sees its time */
}

/* The lock keeps the descriptor from being closed meanwhile (libmicrohttpd closes it after `end`). */
static void cut(pd_server *server, bool (*is_due)(pd_server *server, pd_conn_state state, int64_t age_ms))
{
  int64_t now_ms = pd_clock_monotonic_ms();
  pthread_mutex_lock(&server->conns.lock);
  for (pd_conn *conn = server->conns.first; conn; conn = conn->next) {
    pd_conn_state state = __atomic_load_n(&conn->state, __ATOMIC_ACQUIRE);
    int64_t since_ms = __atomic_load_n(&conn->since_ms, __ATOMIC_RELAXED);
    if (is_due(server, state, now_ms - since_ms)) shutdown(conn->fd, SHUT_RDWR);
  }
  pthread_mutex_unlock(&server->conns.lock);
}

static bool is_late(pd_server *server, pd_conn_state state, int64_t age_ms)
{
  if (state == PD_CONN_BUSY) return false;
  return age_ms > (int64_t)(state == PD_CONN_IDLE ? server->settings.idle_ms : server->settings.request_ms);
}

static bool is_idle(pd_server *server, pd_conn_state state, int64_t age_ms)
{
  (void)server, (void)age_ms;
  return state == PD_CONN_IDLE;
}

/* The allocator has an arena a thread or so, and keeps what was freed in the middle of one: under a mixed load four times what is in use,
 * and after a crowd some 13 KB a connection. Seldom, as it holds others up meanwhile. */
static void give_back(pd_conns *conns)
{
  pthread_mutex_lock(&conns->lock);
  int64_t now_ms = pd_clock_monotonic_ms();
  bool is_due = conns->count + CROWD_MIN <= conns->peak || now_ms - conns->given_back_ms >= GIVE_BACK_MS;
  if (is_due) conns->peak = conns->count, conns->given_back_ms = now_ms;
  pthread_mutex_unlock(&conns->lock);
  if (is_due) malloc_trim(0);
}

size_t pd_conns_count(pd_server *server)
{
  pthread_mutex_lock(&server->conns.lock);
  size_t count = server->conns.count;
  pthread_mutex_unlock(&server->conns.lock);
  return count;
}

void pd_conns_tell_full(pd_server *server)
{
  for (size_t i = 0; i < server->listener_count; i++) {
    pd_listener *listener = &server->listeners[i];
    pthread_mutex_lock(&server->conns.lock);
    size_t count = listener->count;
    pthread_mutex_unlock(&server->conns.lock);
    if (count >= listener->room && !listener->is_full)
      pd_log_say(&server->options->log, PD_LOG_WARN, "%s has %zu connections, as many as it may: further clients wait", listener->address,
                 count);
    listener->is_full = count >= listener->room || (listener->is_full && count > listener->room - listener->room / 10);
  }
}

void pd_conns_sweep(pd_server *server)
{
  cut(server, is_late);
  give_back(&server->conns);
}

void pd_conns_hang_up(pd_server *server)
{
  cut(server, is_idle);
}
