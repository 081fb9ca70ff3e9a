/* server.c: opening, running and closing a server; its signals. */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/spawn.h"
#include "wire/http.h"
#include "wire/mcp_http.h"
#include "wire/stores.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 1000
#define THREADS_MAX 4
#define STOP_MS 2000 /* for what was not finished when draining was over */
#define FLUSH_S 5    /* for what was acknowledged, if a thread does not come back */
#define FLUSH_STACK ((size_t)512 * 1024)
#define RAW_STORES_MIN 4
#define SPARE_FILES 256 /* descriptors that are neither connections nor agents' stores */

/* The signals that are ours; blocked, so that every thread that is started from here on leaves them to pd_server_run. */
static void take_signals(sigset_t *out)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGXFSZ, SIG_IGN); /* a file as large as it may be (ulimit -f) is a full disk, not an end */
  if (out) *out = set;
}

/* ---- opening ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* As many descriptors as the system lets us have; 0: no limit is known. */
static uint64_t most_files(void)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
  return getrlimit(RLIMIT_NOFILE, &limit) ? 0 : limit.rlim_cur;
}

/* The agents' stores that may be open: at start, and when the setting was changed. */
static void limit_stores(pd_server *server)
{
  pd_home_open_max(server->home, least(server->settings.store_open_max, server->store_room));
}

/* Connections and stores share the descriptors: who is connected wants to be served. If there are too few for what is configured, agents'
 * stores may take a quarter of them, and connections no less than half; the rest is for everything else. */
static void make_room(pd_server *server)
{
  uint64_t files = most_files(), connections = server->settings.connection_count_max, stores = server->settings.store_open_max;
  if (!files) files = UINT64_MAX;
  if (files / PD_STORE_FILES > stores && files >= connections + stores * PD_STORE_FILES + SPARE_FILES) {
    server->connection_room = connections;
    server->store_room = (files - connections - SPARE_FILES) / PD_STORE_FILES; /* a reload may ask for more of them */
  } else {
    server->store_room = files / 4 / PD_STORE_FILES;
    uint64_t others = least(SPARE_FILES, files / 4) + least(stores, server->store_room) * PD_STORE_FILES;
    server->connection_room = least(connections, files - others);
  }
  limit_stores(server);
  if (server->connection_room < connections)
    pd_log_say(&server->options->log, PD_LOG_WARN,
               "the system allows %llu open files (ulimit -n), so that %zu connections are served at once and not server.connections_max",
               (unsigned long long)files, server->connection_room);
  if (server->store_room < stores)
    pd_log_say(&server->options->log, PD_LOG_WARN,
               "the system allows %llu open files (ulimit -n), so that %zu agents' stores stay open and not store.open_max",
               (unsigned long long)files, server->store_room);
}

static unsigned thread_count(void)
{
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : (unsigned)count;
}

static pd_code set_up_mcp(pd_server *server, pd_error *err)
{
  char key_file[4400];
  const pd_serve_options *o = server->options;
  bool has_folder = strncmp(o->uri, "sqlite:", 7) == 0;
  pd_mcp *mcp = NULL;
  snprintf(key_file, sizeof key_file, "%s/mcp.key", has_folder ? o->uri + 7 : "");
  pd_mcp_options options = {
    .home = server->home, .uri = o->uri, .tools = o->mcp_tools, .key_file = has_folder ? key_file : NULL, .provider = o->mcp_provider};
  TRY(pd_mcp_new(&options, &mcp, err));
  pd_code code = pd_mcp_http_new(mcp, server, &server->mcp, err);
  if (code) pd_mcp_free(mcp);
  return code;
}

static pd_code set_up(pd_server *server, pd_error *err)
{
  uint32_t random;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
    return pd_error_set(err, PD_STORAGE, "no random bytes: %s", strerror(errno));
  snprintf(server->id_prefix, sizeof server->id_prefix, "%08x", (unsigned)random);
  TRY(pd_home_open(server->options->uri, NULL, &server->home, err));
  TRY(pd_wire_options_load(server, err));
  TRY(pd_lock_home(server, err));
  if (server->options->passphrase.data) TRY(pd_vault_unlock(server->home, server->options->passphrase, err));
  TRY(pd_wire_settings_load(server, err));
  make_room(server);
  TRY(pd_describe(server, err));
  TRY(pd_page_prepare(server, err));
  TRY(pd_meter_new(&server->meter, err));
  TRY(pd_meter_new(&server->streams, err));
  TRY(pd_meter_new(&server->bytes, err));
  TRY(pd_meter_new(&server->spooled, err));
  TRY(pd_meter_new(&server->spools, err));
  TRY(pd_rates_new(&server->rates, err));
  TRY(pd_hub_new(server, &server->hub, err));
  TRY(pd_metrics_new(&server->metrics, err));
  TRY(pd_raw_new(server->options->uri, RAW_STORES_MIN + server->store_room / 4, &server->raw, err));
  TRY(pd_gone_new(&server->gone, err));
  TRY(set_up_mcp(server, err));
  if (server->options->tls_cert)
    TRY(pd_tls_new(server->options->tls_cert, server->options->tls_key, &server->options->log, &server->tls, err));
  return pd_listen_all(server, err);
}

static pd_code start(pd_server *server, pd_error *err)
{
  TRY(pd_request_pools(server, err));
  pd_pulse_init(&server->pulses[0], &server->writers);
  pd_pulse_init(&server->pulses[1], &server->readers);
  for (size_t i = 0; i < server->listener_count; i++)
    TRY(pd_daemon_start(&server->listeners[i], server->listeners[i].is_unix ? 1 : thread_count(), err));
  return PD_OK;
}

pd_code pd_server_open(const pd_serve_options *options, pd_server **out, pd_error *err)
{
  pd_server *server = calloc(1, sizeof *server);
  if (!server) return pd_error_memory(err, "the server");
  server->options = server->given = options;
  server->lock_fd = -1;
  take_signals(NULL);
  pd_notify_open(&server->notify);
  pthread_mutex_init(&server->conns.lock, NULL);
  pd_code code = set_up(server, err);
  if (!code) code = start(server, err);
  if (code && err) pd_notify_say(&server->notify, "STATUS=cannot start: %s\n", err->message);
  if (code)
    pd_server_close(server, NULL);
  else
    *out = server;
  return code;
}

const char *pd_server_address(const pd_server *server, size_t index)
{
  if (index >= server->listener_count || (server->listeners[index].is_home && index)) return NULL;
  return server->listeners[index].address;
}

const pd_serve_options *pd_server_options(const pd_server *server)
{
  return server->options;
}

/* ---- running ---- */

static void tell_status(pd_server *server, const char *also)
{
  pd_notify_say(&server->notify, "%sSTATUS=%s on %s: %zu connections, %zu watchers\n", also, server->options->uri,
                server->listeners[0].address, pd_conns_count(server), pd_hub_count(server->hub));
}

/* A sign of life, if the watchdog wants one soon and there is life: we are here, and the pools do something. */
static void beat(pd_server *server)
{
  int64_t now_ms = pd_clock_monotonic_ms(), every_ms = server->notify.watchdog_ms / 3;
  if (!server->notify.watchdog_ms || now_ms - server->pulse_ms < every_ms) return;
  bool is_writing = pd_pulse_take(&server->pulses[0]), is_reading = pd_pulse_take(&server->pulses[1]);
  server->pulse_ms = now_ms;
  is_writing = is_writing && pd_stall_ms(&server->stall, now_ms) < PD_STALL_MS;
  if (is_writing && is_reading)
    tell_status(server, "WATCHDOG=1\n");
  else
    pd_log_say(&server->options->log, PD_LOG_WARN, "no sign of life for the watchdog: no thread that %s has done anything for %lld ms",
               is_writing ? "reads" : "writes", (long long)every_ms);
}

/* Also when nobody calls: who only listens is told by the rules that are in force. Says once what is wrong with the file. */
static void look_at_policy(pd_server *server)
{
  char problem[PD_ERROR_MESSAGE_MAX];
  pd_policy_look(server->home, problem);
  if (strcmp(problem, server->policy_problem) == 0) return;
  memcpy(server->policy_problem, problem, sizeof problem);
  if (*problem)
    pd_log_say(&server->options->log, PD_LOG_ERROR, "the policy was not taken, the rules from before stay in force: %s", problem);
  else
    pd_log_say(&server->options->log, PD_LOG_INFO, "the policy is in order again");
}

static void reload(pd_server *server)
{
  pd_error err = {0}, why = {0};
  pd_notify_say(&server->notify, "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)pd_clock_monotonic_us());
  pd_code policy = pd_home_reload(server->home, &why), code = pd_wire_options_load(server, &err);
  if (!code) code = pd_wire_settings_load(server, &err);
  if (!code) limit_stores(server);
  if (policy) pd_log_say(&server->options->log, PD_LOG_ERROR, "the rules from before stay in force: %s", why.message);
  if (code) pd_log_say(&server->options->log, PD_LOG_ERROR, "the settings stay as they were: %s", err.message);
  if (policy && code) pd_log_say(&server->options->log, PD_LOG_ERROR, "reload failed, nothing was changed");
  if (!policy && code) pd_log_say(&server->options->log, PD_LOG_WARN, "reloaded the policy alone");
  if (policy && !code) pd_log_say(&server->options->log, PD_LOG_WARN, "reloaded the settings alone");
  if (!policy && !code) pd_log_say(&server->options->log, PD_LOG_INFO, "reloaded");
  if (server->tls) (void)pd_tls_reload(server->tls, server->options->tls_cert, server->options->tls_key); /* says what came of it */
  tell_status(server, "READY=1\n");
}

/* The next signal, or 0 after LOOK_MS. */
static int next_signal(int fd, int timeout_ms)
{
  struct pollfd wait = {.fd = fd, .events = POLLIN};
  struct signalfd_siginfo info;
  if (poll(&wait, 1, timeout_ms) <= 0 || read(fd, &info, sizeof info) != (ssize_t)sizeof info) return 0;
  return (int)info.ssi_signo;
}

static pd_code flush(pd_server *server, pd_error *err)
{
  pd_error why = {0};
  pd_code code = pd_home_flush(server->home, &why);
  if (code) pd_log_say(&server->options->log, PD_LOG_ERROR, "not everything that was acknowledged is on the disk: %s", why.message);
  if (code && err) *err = why;
  return code;
}

bool pd_server_is_at_work(pd_server *server)
{
  return atomic_load(&server->in_flight) || pd_hub_count(server->hub) || pd_mcp_http_is_open(server->mcp);
}

/* Let those who were admitted have their answers. A second signal ends it. What was acknowledged goes to the disk before anything else:
 * whoever ends us the hard way meanwhile takes nothing of it. */
static void drain(pd_server *server, int signals)
{
  int64_t end_ms = pd_clock_monotonic_ms() + (int64_t)server->settings.drain_ms;
  atomic_store(&server->is_draining, true);
  (void)!flush(server, NULL); /* it is tried again at the end, which says what became of it */
  pd_idle_unlink(server);
  for (size_t i = 0; i < server->listener_count; i++) {
    MHD_socket fd = MHD_quiesce_daemon(server->listeners[i].daemon);
    if (fd != MHD_INVALID_SOCKET) close(fd); /* who comes now is refused by the system, and not left waiting */
    server->listeners[i].fd = -1;
  }
  pd_conns_hang_up(server);
  pd_waits_drain(server->waits);
  pd_hub_drain(server->hub);
  pd_mcp_http_drain(server->mcp, false);
  while (pd_server_is_at_work(server) && pd_clock_monotonic_ms() < end_ms) {
    int signal_number = next_signal(signals, 10);
    if (signal_number == SIGTERM || signal_number == SIGINT) break;
  }
  size_t left = atomic_load(&server->in_flight);
  if (left) pd_log_say(&server->options->log, PD_LOG_WARN, "%zu requests were cut off", left);
}

/* A short watchdog wants to be fed more often than we look after things. */
static int look_ms(const pd_server *server)
{
  int64_t every_ms = server->notify.watchdog_ms / 3;
  return every_ms && every_ms < LOOK_MS ? (int)every_ms : LOOK_MS;
}

pd_code pd_server_run(pd_server *server, pd_error *err)
{
  sigset_t set;
  take_signals(&set);
  int signals = signalfd(-1, &set, SFD_CLOEXEC);
  if (signals < 0) return pd_error_set(err, PD_STORAGE, "cannot wait for signals: %s", strerror(errno));
  tell_status(server, "READY=1\n");
  for (int signal_number = 0; signal_number != SIGTERM && signal_number != SIGINT && !pd_idle_leaves(server, signal_number == SIGUSR1);) {
    beat(server);
    signal_number = next_signal(signals, look_ms(server));
    if (signal_number == SIGHUP) reload(server);
    look_at_policy(server);
    pd_conns_sweep(server);
    pd_conns_recheck(server);
    pd_space_tick(server);
    pd_conns_tell_full(server);
    pd_home_close_idle(server->home, server->settings.store_idle_ms);
    pd_hub_tick(server->hub);
    pd_mcp_http_tick(server->mcp);
    if (server->tls) pd_tls_look(server->tls);
  }
  pd_log_say(&server->options->log, PD_LOG_INFO, "stopping");
  tell_status(server, "STOPPING=1\n");
  drain(server, signals);
  close(signals);
  return PD_OK;
}

/* ---- closing ---- */

static void stop_listening(pd_server *server)
{
  for (size_t i = 0; i < server->listener_count; i++) {
    pd_listener *listener = &server->listeners[i];
    if (listener->daemon)
      MHD_stop_daemon(listener->daemon); /* closes the socket, too */
    else if (listener->fd >= 0)
      close(listener->fd);
    if (listener->is_unix && !listener->is_passed) unlink(listener->address + strlen("unix:"));
  }
}

typedef struct flushing {
  pd_server *server;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool is_over;
  pd_code code;
  pd_error err;
} flushing;

static void *flush_beside(void *ctx)
{
  flushing *f = ctx;
  pd_error err = {0};
  pd_code code = flush(f->server, &err);
  pthread_mutex_lock(&f->lock);
  f->code = code;
  f->err = err;
  f->is_over = true;
  pthread_cond_signal(&f->ended);
  pthread_mutex_unlock(&f->lock);
  return NULL;
}

/* A thread is inside the home and does not come back: nothing can be freed, and the process ends as it is. But not before what was
 * acknowledged is on the disk; or it says that it is not. A disk that hangs must not keep us: the flush has a thread of its own. */
static pd_code end_as_it_is(pd_server *server, pd_error *err)
{
  static flushing f = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER}; /* the thread may outlive us */
  struct timespec end;
  int why = 0;
  f.server = server;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += FLUSH_S;
  if (pd_spawn(NULL, FLUSH_STACK, flush_beside, &f)) return flush(server, err);
  pthread_mutex_lock(&f.lock);
  while (!f.is_over && why != ETIMEDOUT) why = pthread_cond_timedwait(&f.ended, &f.lock, &end);
  pd_code code = f.is_over ? f.code : PD_STORAGE;
  if (code && err) *err = f.err;
  if (!f.is_over) pd_error_set(err, PD_STORAGE, "what was acknowledged could not be flushed within %d s", FLUSH_S);
  pthread_mutex_unlock(&f.lock);
  return code;
}

/* Everybody who waits gets an answer; false: not in time. */
static bool end_waits(pd_server *server)
{
  int64_t end_ms = pd_clock_monotonic_ms() + STOP_MS;
  if (!server->waits) return true;
  pd_waits_drain(server->waits);
  while (pd_waits_count(server->waits) && pd_clock_monotonic_ms() < end_ms) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return pd_waits_count(server->waits) == 0;
}

/* All of them together have STOP_MS. */
static bool end_pools(pd_server *server)
{
  pd_pool *const pools[] = {&server->writers, &server->finishers, &server->slow, &server->readers};
  int64_t end_ms = pd_clock_monotonic_ms() + STOP_MS;
  bool is_over = true;
  for (size_t i = 0; i < COUNT_OF(pools); i++) { /* before the connections, which they wake */
    int64_t left_ms = end_ms - pd_clock_monotonic_ms();
    is_over = pd_pool_done(pools[i], left_ms > 0 ? (uint32_t)left_ms : 0) && is_over;
  }
  return is_over;
}

pd_code pd_server_close(pd_server *server, pd_error *err)
{
  if (!server) return PD_OK;
  pd_link_revoke(server);
  bool is_over = end_waits(server);
  is_over = end_pools(server) && is_over;
  if (server->hub) pd_hub_drain(server->hub); /* libmicrohttpd must find nobody asleep */
  if (server->mcp) pd_mcp_http_drain(server->mcp, true);
  if (!is_over || (server->mcp && !pd_mcp_http_wait(server->mcp, STOP_MS))) return end_as_it_is(server, err);
  pd_code flushed = server->home ? flush(server, err) : PD_OK;
  stop_listening(server);
  pd_tls_free(server->tls);
  pd_hub_free(server->hub);
  if (server->mcp) pd_mcp_free(pd_mcp_http_core(server->mcp));
  pd_mcp_http_free(server->mcp);
  pd_raw_free(server->raw);
  pd_waits_free(server->waits);
  pd_gone_free(server->gone);
  pd_code code = pd_home_close(server->home, flushed ? NULL : err);
  if (server->lock_fd >= 0) close(server->lock_fd);
  pd_wire_options_free(server);
  pd_notify_close(&server->notify);
  pd_meter_free(server->meter);
  pd_meter_free(server->streams);
  pd_meter_free(server->bytes);
  pd_meter_free(server->spooled);
  pd_meter_free(server->spools);
  pd_rates_free(server->rates);
  pd_metrics_free(server->metrics);
  pthread_mutex_destroy(&server->conns.lock);
  pd_buf_done(&server->capabilities);
  pd_buf_done(&server->openapi);
  pd_buf_done(&server->page_policy);
  free(server);
  return flushed ? flushed : code;
}
