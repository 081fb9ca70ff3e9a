/*
 * idle.c: a server that stops by itself (exit_idle_ms) when nothing that lives in its memory is left: the command line starts one when it
 * needs a session or an unlocked vault for longer than a command lasts (decision 088).
 *
 * It must not stop between a session's beginning and the answer that names it. So it first refuses new requests and then looks: a request
 * is counted before it looks whether it is refused (request.c), and whoever comes second sees the other.
 */
#include "base/base.h"
#include "base/clock.h"
#include "wire/http.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#define UNLINK_MS 500

/* Asked each second, so by nothing that leaves a line in the audit. */
static bool holds_something(pd_server *server)
{
  pd_vault_state vault = {0};
  pd_sessions_sweep(server->home);
  if (pd_session_count(server->home) || pd_server_is_at_work(server) || atomic_load(&server->stream_count)) return true;
  return pd_vault_status(server->home, &vault, NULL) == PD_OK && vault.is_unlocked;
}

bool pd_idle_leaves(pd_server *server, bool is_asked)
{
  int64_t now_ms = pd_clock_monotonic_ms();
  unsigned long long requests = atomic_load(&server->request_count);
  uint64_t after_ms = server->options->exit_idle_ms;
  if (!after_ms) return false;
  bool is_used = !server->idle_since_ms || requests != server->idle_requests || holds_something(server);
  if (is_used) server->idle_since_ms = now_ms, server->idle_requests = requests;
  if (!is_asked && now_ms - server->idle_since_ms < (int64_t)after_ms) return false;
  atomic_store(&server->is_draining, true);
  if (!holds_something(server)) return true;
  atomic_store(&server->is_draining, false);
  return false;
}

static size_t connections_of(pd_server *server, const pd_listener *listener)
{
  pthread_mutex_lock(&server->conns.lock);
  size_t count = listener->count;
  pthread_mutex_unlock(&server->conns.lock);
  return count;
}

void pd_idle_unlink(pd_server *server)
{
  pd_listener *listener = server->listener_count ? &server->listeners[server->listener_count - 1] : NULL;
  if (!listener || !listener->is_home) return;
  unlink(listener->address + strlen("unix:"));
  struct pollfd waiting = {.fd = listener->fd, .events = POLLIN};
  for (int64_t end_ms = pd_clock_monotonic_ms() + UNLINK_MS; pd_clock_monotonic_ms() < end_ms;) {
    if (poll(&waiting, 1, 0) <= 0 && !connections_of(server, listener)) return;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}
