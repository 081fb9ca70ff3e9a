/* systemd_test.c: sockets that are passed, what is told to $NOTIFY_SOCKET, the watchdog; and that the unit's hardest limit lets us live. */
#include "support/temp_folder.h"
#include "wire/tls_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#define REFUSED 1 /* PR_MDWE_REFUSE_EXEC_GAIN */

/* ---- the one who starts it ---- */

typedef struct manager {
  int passed[4]; /* descriptors 3 and up of the server */
  int passed_count;
  const char *names;
  char notify_path[108]; /* "@…": abstract */
  int notify_fd;
  const char *watchdog_us;
  bool is_for_another; /* LISTEN_PID and WATCHDOG_PID name somebody else */
  bool is_strict;      /* MemoryDenyWriteExecute */
} manager;

static manager m;

static void in_child(void)
{
  char text[32];
  for (int i = 0; i < m.passed_count; i++) { /* first out of each other's way */
    int high = fcntl(m.passed[i], F_DUPFD, 100);
    if (high < 0) _exit(126);
    m.passed[i] = high;
  }
  for (int i = 0; i < m.passed_count; i++)
    if (dup2(m.passed[i], 3 + i) < 0 || close(m.passed[i])) _exit(126);
  snprintf(text, sizeof text, "%d", m.passed_count);
  if (m.passed_count) setenv("LISTEN_FDS", text, 1);
  if (m.names) setenv("LISTEN_FDNAMES", m.names, 1);
  snprintf(text, sizeof text, "%d", (int)getpid() + m.is_for_another);
  setenv("LISTEN_PID", text, 1);
  setenv("WATCHDOG_PID", text, 1);
  if (m.watchdog_us) setenv("WATCHDOG_USEC", m.watchdog_us, 1);
  if (*m.notify_path) setenv("NOTIFY_SOCKET", m.notify_path, 1);
  if (m.is_strict && prctl(PR_SET_MDWE, REFUSED, 0, 0, 0)) _exit(126);
}

static served *start(const char *const *args)
{
  served_prepare = in_child;
  served_listen = m.passed_count && !m.is_for_another ? NULL : "127.0.0.1:0";
  served *s = served_start(args);
  served_prepare = NULL;
  served_listen = "127.0.0.1:0";
  return s;
}

static int set_up(void **state)
{
  (void)state;
  m = (manager){.notify_fd = -1};
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  for (int i = 0; i < m.passed_count; i++) close(m.passed[i]);
  if (m.notify_fd >= 0) close(m.notify_fd);
  if (*m.notify_path == '/') unlink(m.notify_path);
  return 0;
}

static void pass_tcp(const char *host)
{
  struct sockaddr_in at = {.sin_family = AF_INET};
  inet_pton(AF_INET, host, &at.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0);
  m.passed[m.passed_count++] = fd;
}

static void pass_unix(const char *path)
{
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0);
  m.passed[m.passed_count++] = fd;
}

/* Whom the server tells how it is. */
static void be_told(bool is_abstract)
{
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  struct timeval limit = {.tv_sec = SERVED_PATIENCE_S};
  snprintf(m.notify_path, sizeof m.notify_path, "%s/perdure-notify-%d", is_abstract ? "@" : "/tmp", (int)getpid());
  memcpy(at.sun_path, m.notify_path, strlen(m.notify_path));
  if (is_abstract)
    at.sun_path[0] = 0;
  else
    unlink(m.notify_path); /* of another that had our number and was killed */
  m.notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  setsockopt(m.notify_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(m.notify_path) + !is_abstract);
  assert_int_equal(bind(m.notify_fd, (struct sockaddr *)&at, size), 0);
}

/* The next message that has `part`; those before it are left out. */
static void want_told(const char *part, char *out, size_t size)
{
  for (;;) {
    ssize_t got = recv(m.notify_fd, out, size - 1, 0);
    if (got < 0) fail_msg("it never told %s", part);
    out[got < 0 ? 0 : got] = 0;
    if (strstr(out, part)) return;
  }
}

static void want_health(reply r)
{
  assert_int_equal(r.status, 200);
  reply_done(&r);
}

static void want_log(const served *s, const char *part)
{
  char *log = served_file(s, "log");
  if (!strstr(log, part)) fail_msg("no %s in %s", part, log);
  free(log);
}

/* ---- sockets ---- */

static void passed__tcp_and_unix_sockets_are_served_and_stay(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *path = text_of("%s/socket", folder);
  pass_tcp("127.0.0.1");
  pass_unix(path);
  m.names = "http:local";
  served *s = start((const char *const[]){"--no-auth", NULL});
  want_health(ask(s, "GET", "/healthz", "", NULL));
  served through = {.folder = folder};
  int fd = served_connect_unix(&through);
  want_health(ask_on(fd, "GET", "/healthz", "", NULL));
  close(fd);
  assert_int_equal(served_stop(s), 0);
  assert_int_equal(access(path, F_OK), 0);    /* it is not ours to remove */
  assert_true((fd = served_connect(s)) >= 0); /* who comes now waits for the next server */
  close(fd);
  served_free(s);
  free(path);
  temp_folder_free(folder);
}

static void passed__who_came_before_the_server_is_served(void **state)
{
  (void)state;
  struct sockaddr_in at;
  socklen_t size = sizeof at;
  pass_tcp("127.0.0.1");
  assert_int_equal(getsockname(m.passed[0], (struct sockaddr *)&at, &size), 0);
  served early = {.port = ntohs(at.sin_port)};
  int fd = served_connect(&early);
  assert_true(send_bytes(fd, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 42));
  served *s = start((const char *const[]){"--no-auth", NULL});
  want_health(read_reply(fd, false));
  close(fd);
  served_free(s);
}

static void passed__sockets_of_another_process_are_left_alone(void **state)
{
  (void)state;
  pass_tcp("127.0.0.1");
  m.is_for_another = true;
  served *s = start((const char *const[]){"--no-auth", NULL});
  want_health(ask(s, "GET", "/healthz", "", NULL));
  served_free(s);
}

/* Start it to its end, as want_no_start of others does; what it says. */
static void want_refused(const char *more, const char *why)
{
  char *folder = temp_folder_new(), *log = text_of("%s/err", folder), text[2048] = "";
  const char *argv[] = {served_binary, "serve", "--home", folder, "--log", "human", more, NULL};
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(log, O_WRONLY | O_CREAT, 0600);
    in_child();
    dup2(fd, STDERR_FILENO);
    alarm(SERVED_PATIENCE_S);
    execv(served_binary, (char *const *)(uintptr_t)argv);
    _exit(127);
  }
  served s = {.pid = pid};
  int code = served_wait(&s);
  FILE *f = fopen(log, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  if (!strstr(text, why)) print_message("exit %d: %s\n", code, text);
  assert_non_null(strstr(text, why));
  assert_in_range(code, 1, 6);
  free(log);
  temp_folder_free(folder);
}

static void passed__beyond_loopback_it_needs_tls_as_ever(void **state)
{
  (void)state;
  pass_tcp("0.0.0.0");
  want_refused(NULL, "0.0.0.0 is no loopback address: give --tls-cert");
  want_refused("--no-auth", "--no-auth is for loopback alone");
}

static void passed__what_is_no_listening_socket_is_named(void **state)
{
  (void)state;
  m.passed[m.passed_count++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
  m.names = "nothing";
  want_refused(NULL, "the descriptor 3 (nothing) that was passed by LISTEN_FDS is no stream socket that listens");
  close(m.passed[0]);
  m.passed[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* does not listen */
  want_refused(NULL, "is no stream socket that listens");
}

/* ---- what is told ---- */

static void want_life(bool is_abstract)
{
  char text[2048];
  be_told(is_abstract);
  served *s = start((const char *const[]){"--no-auth", NULL});
  want_told("READY=1", text, sizeof text);
  assert_non_null(strstr(text, "STATUS=sqlite:"));
  assert_non_null(strstr(text, " on http://127.0.0.1:"));
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  kill(s->pid, SIGHUP);
  want_told("RELOADING=1", text, sizeof text);
  clock_gettime(CLOCK_MONOTONIC, &after);
  long long us = atoll(strstr(text, "MONOTONIC_USEC=") + 15);
  assert_true(us >= before.tv_sec * 1000000LL + before.tv_nsec / 1000 && us <= after.tv_sec * 1000000LL + after.tv_nsec / 1000);
  want_told("READY=1", text, sizeof text);
  kill(s->pid, SIGTERM);
  want_told("STOPPING=1", text, sizeof text);
  assert_int_equal(served_wait(s), 0);
  served_free(s);
}

static void told__ready_reloading_and_stopping_over_a_path(void **state)
{
  (void)state;
  want_life(false);
}

static void told__the_same_over_an_abstract_name(void **state)
{
  (void)state;
  want_life(true);
}

static void told__why_it_cannot_start(void **state)
{
  (void)state;
  char text[2048];
  be_told(false);
  pass_tcp("0.0.0.0");
  want_refused(NULL, "is no loopback address");
  want_told("STATUS=cannot start: 0.0.0.0 is no loopback address", text, sizeof text);
}

static void told__a_socket_that_is_not_there_harms_nobody(void **state)
{
  (void)state;
  snprintf(m.notify_path, sizeof m.notify_path, "/nowhere/at/all");
  m.watchdog_us = "300000";
  served *s = start((const char *const[]){"--no-auth", NULL});
  want_health(ask(s, "GET", "/healthz", "", NULL));
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

/* ---- the watchdog ---- */

static void watchdog__is_fed_while_the_server_works_and_not_while_it_stands_still(void **state)
{
  (void)state;
  char text[2048];
  be_told(false);
  m.watchdog_us = "600000";
  served *s = start((const char *const[]){"--no-auth", NULL});
  want_told("READY=1", text, sizeof text);
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < 5; i++) want_told("WATCHDOG=1", text, sizeof text);
  clock_gettime(CLOCK_MONOTONIC, &end);
  assert_true(end.tv_sec - begin.tv_sec < SERVED_PATIENCE_S); /* five times 200 ms, with much to spare */
  assert_non_null(strstr(text, "STATUS="));
  kill(s->pid, SIGSTOP);
  int status;
  assert_int_equal(waitpid(s->pid, &status, WUNTRACED), s->pid); /* it stands still: nothing more is under way */
  assert_true(WIFSTOPPED(status));
  struct timeval brief = {.tv_sec = 1, .tv_usec = 500000};
  setsockopt(m.notify_fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief);
  while (recv(m.notify_fd, text, sizeof text, MSG_DONTWAIT) > 0) {}
  assert_true(recv(m.notify_fd, text, sizeof text, 0) < 0 && errno == EAGAIN);
  kill(s->pid, SIGCONT);
  setsockopt(m.notify_fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = SERVED_PATIENCE_S}, sizeof brief);
  want_told("WATCHDOG=1", text, sizeof text);
  served_free(s);
}

static void watchdog__of_another_process_is_not_fed(void **state)
{
  (void)state;
  char text[2048];
  be_told(false);
  m.watchdog_us = "300000";
  m.is_for_another = true;
  served *s = start((const char *const[]){"--no-auth", NULL});
  want_told("READY=1", text, sizeof text);
  struct timeval brief = {.tv_sec = 1};
  setsockopt(m.notify_fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief);
  assert_true(recv(m.notify_fd, text, sizeof text, 0) < 0);
  served_free(s);
}

/* ---- hardening ---- */

/* MemoryDenyWriteExecute=yes, by the kernel's own means: TLS and writes have to live with it. */
static void strict__tls_and_writes_live_without_memory_to_write_and_run(void **state)
{
  (void)state;
  pid_t pid = fork();
  if (pid == 0) _exit(prctl(PR_SET_MDWE, REFUSED, 0, 0, 0) ? 1 : 0);
  served probe = {.pid = pid};
  if (served_wait(&probe)) skip(); /* a kernel before 6.3 */
  m.is_strict = true;
  char *folder = temp_folder_new();
  certificate_write(folder, "cert.pem", "key.pem", &(certificate){.serial = 2, .is_rsa = true});
  served_prepare = in_child;
  served *s = served_start_in(folder, (const char *const[]){"--no-auth", "--tls-cert", "@cert.pem", "--tls-key", "@key.pem", NULL});
  served_prepare = NULL;
  int fd = tls_connect(s->folder, s->port, NULL, NULL);
  assert_true(fd >= 0);
  want_health(ask_on(fd, "POST", "/v1/call/state.persistent.set", "", "{\"key\":\"k\",\"value\":1}"));
  close(fd);
  assert_int_equal(served_stop(s), 0);
  want_log(s, "stopped");
  served_free(s);
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    UNIT(passed__tcp_and_unix_sockets_are_served_and_stay),
    UNIT(passed__who_came_before_the_server_is_served),
    UNIT(passed__sockets_of_another_process_are_left_alone),
    UNIT(passed__beyond_loopback_it_needs_tls_as_ever),
    UNIT(passed__what_is_no_listening_socket_is_named),
    UNIT(told__ready_reloading_and_stopping_over_a_path),
    UNIT(told__the_same_over_an_abstract_name),
    UNIT(told__why_it_cannot_start),
    UNIT(told__a_socket_that_is_not_there_harms_nobody),
    UNIT(watchdog__is_fed_while_the_server_works_and_not_while_it_stands_still),
    UNIT(watchdog__of_another_process_is_not_fed),
    UNIT(strict__tls_and_writes_live_without_memory_to_write_and_run),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire systemd", tests, NULL, NULL);
}
