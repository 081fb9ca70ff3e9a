/* tls_test.c: HTTPS: what is refused, renewal without a restart, watches and MCP through it. */
#include "support/temp_folder.h"
#include "wire/tls_world.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a server with a certificate ---- */

static served *start_in(char *folder)
{
  return served_start_in(folder, (const char *const[]){"--no-auth", "--tls-cert", "@cert.pem", "--tls-key", "@key.pem", NULL});
}

static served *start(const certificate *wanted)
{
  char *folder = temp_folder_new();
  certificate_write(folder, "cert.pem", "key.pem", wanted);
  return start_in(folder);
}

static void want_answer(int fd, const char *method, const char *path, const char *headers, const char *body, int status, const char *part)
{
  assert_true(fd >= 0);
  reply r = ask_on(fd, method, path, headers, body);
  if (r.status != status || !strstr(r.body, part)) print_message("%s\n%s\n", r.head ? r.head : "(nothing)", r.body);
  assert_int_equal(r.status, status);
  assert_non_null(strstr(r.body, part));
  reply_done(&r);
}

static void want_health(int fd)
{
  want_answer(fd, "GET", "/healthz", "", NULL, 200, "\"ok\"");
}

/* The serial number of the certificate that a new connection gets. */
static unsigned serial_now(const served *s)
{
  tls_seen seen = {0};
  int fd = tls_connect(s->folder, s->port, NULL, &seen);
  assert_true(fd >= 0);
  close(fd);
  return seen.serial;
}

static void nap(void)
{
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void wait_for_serial(const served *s, unsigned serial)
{
  for (int i = 0; i < SERVED_PATIENCE_S * 50; i++) {
    if (serial_now(s) == serial) return;
    nap();
  }
  fail_msg("the certificate %u never came", serial);
}

/* ---- serving ---- */

static void serve__calls_and_reads_go_through_tls_1_3_with_alpn(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 10});
  tls_seen seen = {0};
  int fd = tls_connect(s->folder, s->port, NULL, &seen);
  want_answer(fd, "POST", "/v1/call/state.persistent.set", "", "{\"key\":\"plan\",\"value\":{\"step\":1}}", 200, "\"version\":1");
  want_answer(fd, "GET", "/v1/agents/main/state/plan", "", NULL, 200, "{\"step\":1}");
  want_answer(fd, "GET", "/metrics", "Perdure-Role: operator\r\n", NULL, 200, "perdure_tls_certificate_expires_seconds 1");
  close(fd);
  assert_int_equal(seen.serial, 10);
  assert_int_equal(seen.version, TLS1_3_VERSION);
  assert_string_equal(seen.alpn, "http/1.1");
  assert_int_equal(served_log_count(s, "on https://127.0.0.1:"), 1);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void serve__an_rsa_key_and_tls_1_2_are_fine(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 11, .is_rsa = true});
  tls_seen seen = {0};
  int fd = tls_connect(s->folder, s->port, &(tls_terms){.version_max = TLS1_2_VERSION}, &seen);
  want_health(fd);
  close(fd);
  assert_int_equal(seen.version, TLS1_2_VERSION);
  served_free(s);
}

static void serve__large_bodies_come_and_go_whole(void **state)
{
  (void)state;
  size_t size = (size_t)3 << 20;
  served *s = start(&(certificate){.serial = 12});
  char *value = malloc(size + 1), *input;
  for (size_t i = 0; i < size; i++) value[i] = (char)('a' + i % 23);
  value[size] = 0;
  input = text_of("{\"key\":\"big\",\"value\":\"%s\"}", value);
  int fd = tls_connect(s->folder, s->port, NULL, NULL);
  want_answer(fd, "POST", "/v1/call/state.persistent.set", "", input, 200, "\"version\":1");
  reply r = ask_on(fd, "GET", "/v1/agents/main/state/big", "", NULL);
  assert_int_equal(r.status, 200);
  assert_int_equal(r.body_size, size + 2);
  assert_memory_equal(r.body + 1, value, size);
  reply_done(&r);
  close(fd);
  free(input);
  free(value);
  served_free(s);
}

/* ---- what is refused ---- */

static void refuse__versions_and_ciphers_that_are_too_old(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 13, .is_rsa = true});
  assert_int_equal(tls_connect(s->folder, s->port, &(tls_terms){.version_max = TLS1_1_VERSION}, NULL), -1);
  assert_int_equal(tls_connect(s->folder, s->port, &(tls_terms){.version_max = TLS1_VERSION}, NULL), -1);
  tls_terms without_secrecy = {.version_max = TLS1_2_VERSION, .ciphers = "AES128-GCM-SHA256:@SECLEVEL=0"};
  assert_int_equal(tls_connect(s->folder, s->port, &without_secrecy, NULL), -1);
  tls_terms cbc = {.version_max = TLS1_2_VERSION, .ciphers = "ECDHE-RSA-AES128-SHA256:@SECLEVEL=0"};
  assert_int_equal(tls_connect(s->folder, s->port, &cbc, NULL), -1);
  int fd = tls_connect(s->folder, s->port, NULL, NULL);
  want_health(fd);
  close(fd);
  served_free(s);
}

static void refuse__plain_http_and_noise_end_the_connection_and_nothing_else(void **state)
{
  (void)state;
  static const char *const said[] = {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "\x16\x03\x01\xff\xff\x01\xff\xff\xff",
                                     "\x80\x2e\x01\x00\x02", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                     "\x15\x03\x03\x00\x02\x02\x28"};
  served *s = start(&(certificate){.serial = 14});
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    char text[64];
    int fd = served_connect(s);
    assert_true(send_bytes(fd, said[i], strlen(said[i])));
    shutdown(fd, SHUT_WR);
    while (recv(fd, text, sizeof text, 0) > 0) assert_null(strstr(text, "HTTP/")); /* an alert, perhaps; then the end */
    close(fd);
  }
  int fd = tls_connect(s->folder, s->port, NULL, NULL);
  want_health(fd);
  close(fd);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void refuse__who_never_shakes_hands_is_cut(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder), *toml = text_of("%s/perdure.toml", home), byte;
  mkdir(home, 0700);
  FILE *f = fopen(toml, "w");
  assert_non_null(f);
  fputs("[test.server]\nidle = \"1s\"\n", f);
  fclose(f);
  certificate_write(folder, "cert.pem", "key.pem", &(certificate){.serial = 15});
  served *s = start_in(folder);
  int fd = served_connect(s);
  time_t before = time(NULL);
  assert_true(send_bytes(fd, "\x16\x03\x01\x00", 4));
  assert_true(recv(fd, &byte, 1, 0) <= 0);
  assert_true(time(NULL) - before < SERVED_PATIENCE_S * 3 / 4); /* less than the client's own patience */
  close(fd);
  free(home);
  free(toml);
  served_free(s);
}

/* Run `serve` with these files to its end: its exit code, and `why` in what it says. */
static void want_no_start(const char *folder, const char *cert, const char *key, const char *more, int code, const char *why)
{
  char *log = text_of("%s/err", folder), text[2048] = "";
  char *command = text_of("timeout 60 '%s' serve --home '%s/home' --listen 127.0.0.1:0 %s%s%s %s%s%s %s >/dev/null 2>'%s'", served_binary,
                          folder, cert ? "--tls-cert " : "", cert ? folder : "", cert ? cert : "", key ? "--tls-key " : "",
                          key ? folder : "", key ? key : "", more, log);
  int status = system(command);
  FILE *f = fopen(log, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  if (WEXITSTATUS(status) != code || !strstr(text, why)) print_message("exit %d: %s\n", WEXITSTATUS(status), text);
  assert_int_equal(WEXITSTATUS(status), code);
  assert_non_null(strstr(text, why));
  free(command);
  free(log);
}

static void start__what_cannot_be_used_is_named(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *path = text_of("%s/noise.pem", folder);
  certificate_write(folder, "cert.pem", "key.pem", &(certificate){.serial = 16});
  certificate_write(folder, "other.pem", "locked.pem", &(certificate){.serial = 17, .passphrase = "secret"});
  key_write(folder, "stranger.pem");
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("-----BEGIN CERTIFICATE-----\nnoise\n-----END CERTIFICATE-----\n", f);
  fclose(f);
  want_no_start(folder, "/none.pem", "/key.pem", "", 2, "the certificate: there is no file");
  want_no_start(folder, "/cert.pem", "/none.pem", "", 2, "the key: there is no file");
  want_no_start(folder, "/noise.pem", "/key.pem", "", 2, "noise.pem holds no certificate");
  want_no_start(folder, "/cert.pem", "/noise.pem", "", 2, "noise.pem holds no private key");
  want_no_start(folder, "/cert.pem", "/stranger.pem", "", 2, "is not the one of the certificate in");
  want_no_start(folder, "/other.pem", "/locked.pem", "", 2, "has a passphrase");
  want_no_start(folder, "/cert.pem", NULL, "", 2, "belong together");
  want_no_start(folder, NULL, "/key.pem", "", 2, "belong together");
  want_no_start(folder, NULL, NULL, "--listen 0.0.0.0:0", 6, "--tls-cert and --tls-key, or --insecure-listen");
  free(path);
  temp_folder_free(folder);
}

static void start__beyond_loopback_with_tls_needs_no_other_word(void **state)
{
  (void)state;
  char *folder = temp_folder_new();
  certificate_write(folder, "cert.pem", "key.pem", &(certificate){.serial = 18});
  served *s =
    served_start_in(folder, (const char *const[]){"--tls-cert", "@cert.pem", "--tls-key", "@key.pem", "--listen", "0.0.0.0:0", NULL});
  int fd = tls_connect(s->folder, s->port, NULL, NULL);
  want_health(fd);
  want_answer(fd, "GET", "/v1/capabilities", "", NULL, 401, "Unauthorized");
  close(fd);
  served_free(s);
}

static void start__an_expired_certificate_and_an_open_key_are_warned_of(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *key = text_of("%s/key.pem", folder);
  certificate_write(folder, "cert.pem", "key.pem", &(certificate){.serial = 19, .from_day = -30, .until_day = -1});
  chmod(key, 0644);
  served *s = start_in(folder);
  assert_int_equal(served_log_count(s, "has expired, on"), 1);
  assert_int_equal(served_log_count(s, "may read the key"), 1);
  assert_int_equal(tls_connect(s->folder, s->port, NULL, NULL), -1); /* the client's word */
  served_free(s);
  free(key);
}

/* ---- renewal ---- */

static void renew__changed_files_are_noticed_and_open_connections_go_on(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 20});
  int old = tls_connect(s->folder, s->port, NULL, NULL);
  want_health(old);
  certificate_write(s->folder, "cert.pem", "key.pem", &(certificate){.serial = 21, .is_rsa = true});
  wait_for_serial(s, 21);
  want_health(old);
  certificate_write(s->folder, "new-cert.pem", "new-key.pem", &(certificate){.serial = 22}); /* by renaming, as most do */
  char *names[4] = {text_of("%s/new-cert.pem", s->folder), text_of("%s/cert.pem", s->folder), text_of("%s/new-key.pem", s->folder),
                    text_of("%s/key.pem", s->folder)};
  assert_int_equal(rename(names[0], names[1]) | rename(names[2], names[3]), 0);
  wait_for_serial(s, 22);
  want_health(old);
  close(old);
  assert_int_equal(served_log_count(s, "new connections get the certificate"), 2);
  assert_int_equal(served_log_count(s, "is refused"), 0);
  for (size_t i = 0; i < 4; i++) free(names[i]);
  served_free(s);
}

static void renew__sighup_takes_them_at_once(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 23});
  certificate_write(s->folder, "cert.pem", "key.pem", &(certificate){.serial = 24});
  kill(s->pid, SIGHUP);
  served_await_log(s, "new connections get the certificate");
  assert_int_equal(serial_now(s), 24);
  served_free(s);
}

/* ---- in perdure.toml ---- */

static void write_settings(const char *folder, const char *text)
{
  char *home = text_of("%s/home", folder), *toml = text_of("%s/perdure.toml", home);
  mkdir(home, 0700);
  FILE *f = fopen(toml, "w");
  assert_non_null(f);
  fprintf(f, "[server]\n%s", text);
  fclose(f);
  free(toml);
  free(home);
}

static served *start_by_settings(const char *text, const char *const *args)
{
  char *folder = temp_folder_new();
  certificate_write(folder, "cert.pem", "key.pem", &(certificate){.serial = 40});
  certificate_write(folder, "cert2.pem", "key2.pem", &(certificate){.serial = 41});
  write_settings(folder, text);
  return served_start_in(folder, args);
}

static void reload_and_wait(const served *s, const char *said)
{
  kill(s->pid, SIGHUP);
  served_await_log(s, said);
}

#define PAIR(n) "tls_cert = '../cert" n ".pem'\ntls_key = '../key" n ".pem'\n"

static void settings__the_pair_may_stand_in_perdure_toml_and_sighup_takes_another(void **state)
{
  (void)state;
  served *s = start_by_settings(PAIR(""), (const char *const[]){"--no-auth", NULL});
  assert_int_equal(serial_now(s), 40);
  write_settings(s->folder, PAIR("2"));
  reload_and_wait(s, "cert2.pem, valid until");
  assert_int_equal(serial_now(s), 41);
  write_settings(s->folder, PAIR("3"));
  reload_and_wait(s, "the old one stays: the certificate: there is no file");
  assert_int_equal(serial_now(s), 41);
  certificate_write(s->folder, "cert2.pem", "key2.pem", &(certificate){.serial = 42}); /* what is in force is looked after */
  wait_for_serial(s, 42);
  write_settings(s->folder, "tls_cert = '../cert.pem'\n");
  reload_and_wait(s, "the settings stay as they were");
  served_await_log(s, "'server.tls_cert' and 'server.tls_key' belong together");
  assert_int_equal(serial_now(s), 42);
  write_settings(s->folder, "");
  reload_and_wait(s, "server.tls_cert has changed: that takes effect when the server is started again");
  assert_int_equal(serial_now(s), 42);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void settings__the_command_line_wins_over_perdure_toml(void **state)
{
  (void)state;
  served *s = start_by_settings(
    PAIR("") "listen = '127.0.0.1:1'\nlog_level = 'error'\n",
    (const char *const[]){"--no-auth", "--tls-cert", "@cert2.pem", "--tls-key", "@key2.pem", "--log-level", "info", NULL});
  assert_int_equal(serial_now(s), 41);
  reload_and_wait(s, "cert2.pem, valid until");
  assert_int_equal(serial_now(s), 41);
  served_free(s);
}

static void want_host(int fd, const char *host, int status)
{
  char *text = text_of("GET /v1/capabilities HTTP/1.1\r\nHost: %s\r\n\r\n", host);
  assert_true(send_bytes(fd, text, strlen(text)));
  reply r = read_reply(fd, false);
  assert_int_equal(r.status, status);
  reply_done(&r);
  free(text);
}

static void settings__hosts_and_the_logs_level_change_with_a_reload(void **state)
{
  (void)state;
  served *s = start_by_settings("allow_host = ['one.example']\n", (const char *const[]){"--no-auth", "--log", "json", NULL});
  int fd = served_connect(s);
  want_host(fd, "one.example", 200);
  want_host(fd, "two.example", 403);
  assert_int_equal(served_log_count(s, "\"level\":\"debug\""), 0);
  write_settings(s->folder, "allow_host = ['two.example']\nlog_level = 'debug'\n");
  reload_and_wait(s, "reloaded");
  want_host(fd, "one.example", 403);
  want_host(fd, "two.example", 200);
  served_await_log(s, "\"level\":\"debug\"");
  close(fd);
  served_free(s);
}

static void settings__an_address_and_a_socket_may_stand_there(void **state)
{
  (void)state;
  struct stat is;
  served_listen = NULL;
  served *s =
    start_by_settings("listen = '127.0.0.1:0'\nsocket = '../socket'\n", (const char *const[]){"--no-auth", "--socket-mode", "0640", NULL});
  char *path = text_of("%s/socket", s->folder);
  int fd = served_connect_unix(s), tcp = served_connect(s);
  want_health(fd);
  want_health(tcp);
  assert_int_equal(stat(path, &is), 0);
  assert_int_equal(is.st_mode & 0777, 0640);
  write_settings(s->folder, "listen = '127.0.0.1:1'\nsocket = '../socket'\n");
  reload_and_wait(s, "server.listen has changed: that takes effect when the server is started again");
  want_health(tcp);
  close(fd);
  close(tcp);
  free(path);
  served_free(s);
  served_listen = "127.0.0.1:0";
}

static void renew__a_pair_that_does_not_fit_is_refused_once_and_the_old_one_stays(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 25});
  key_write(s->folder, "key.pem");
  served_await_log(s, "the new certificate is refused, the old one stays: the key in");
  assert_int_equal(serial_now(s), 25);
  kill(s->pid, SIGHUP); /* waits until a look after the refusal is over, and asks once more */
  served_await_log(s, "reloaded");
  char *path = text_of("%s/cert.pem", s->folder);
  unlink(path);
  served_await_log(s, "the old one stays: the certificate: there is no file");
  assert_int_equal(serial_now(s), 25);
  certificate_write(s->folder, "cert.pem", "key.pem", &(certificate){.serial = 26});
  wait_for_serial(s, 26);
  assert_int_equal(served_log_count(s, "is refused"), 3); /* each fault once: at the look, at SIGHUP, without the file */
  free(path);
  served_free(s);
}

typedef struct knocker {
  const served *s;
  unsigned failures;
} knocker;

static void *knock(void *ctx)
{
  knocker *k = ctx;
  for (int i = 0; i < 40; i++) {
    int fd = tls_connect(k->s->folder, k->s->port, NULL, NULL);
    reply r = fd >= 0 ? ask_on(fd, "GET", "/healthz", "", NULL) : (reply){0};
    k->failures += r.status != 200;
    reply_done(&r);
    if (fd >= 0) close(fd);
  }
  return NULL;
}

static void renew__while_many_shake_hands_none_fails(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 27});
  knocker knockers[4];
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) {
    knockers[i] = (knocker){.s = s};
    assert_int_equal(pthread_create(&threads[i], NULL, knock, &knockers[i]), 0);
  }
  for (unsigned i = 0; i < 20; i++) {
    certificate_write(s->folder, "cert.pem", "key.pem", &(certificate){.serial = 28 + i});
    kill(s->pid, SIGHUP);
    nap();
  }
  for (size_t i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(knockers[i].failures, 0);
  }
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

/* ---- who asks ---- */

/* A whole head, as ask_on names its own Host. */
static void want_admitted(int fd, const char *head, int status, const char *part)
{
  assert_true(send_bytes(fd, head, strlen(head)));
  reply r = read_reply(fd, false);
  assert_int_equal(r.status, status);
  assert_non_null(strstr(r.body, part));
  reply_done(&r);
}

static void guard__the_certificates_names_are_hosts_and_the_origin_is_https(void **state)
{
  (void)state;
  served *s = start(&(certificate){.serial = 50, .name = "perdure.test"});
  int fd = tls_connect(s->folder, s->port, &(tls_terms){.host = "perdure.test"}, NULL);
  want_admitted(fd, "GET /healthz HTTP/1.1\r\nHost: perdure.test:7373\r\n\r\n", 200, "ok");
  want_admitted(fd, "GET /healthz HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403, "the Host 'evil.test' is not allowed");
  want_admitted(fd, "GET /healthz HTTP/1.1\r\nHost: localhost:1\r\nOrigin: https://localhost:1\r\n\r\n", 200, "ok");
  want_admitted(fd, "GET /healthz HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\n\r\n", 403, "the Origin 'http://");
  close(fd);
  served_free(s);
}

/* ---- streams ---- */

static void read_until(int fd, char *buffer, size_t size, const char *part)
{
  size_t used = strlen(buffer);
  while (!strstr(buffer, part)) {
    ssize_t got = used < size - 1 ? recv(fd, buffer + used, size - 1 - used, 0) : 0;
    if (got <= 0) fail_msg("the stream ended without %s: %s", part, buffer);
    used += (size_t)got;
    buffer[used] = 0;
  }
}

static int watch(const served *s, const char *headers)
{
  char *text = text_of("GET /v1/watch?store=shared HTTP/1.1\r\nHost: localhost\r\n%s\r\n", headers);
  int fd = tls_connect(s->folder, s->port, NULL, NULL);
  assert_true(fd >= 0 && send_bytes(fd, text, strlen(text)));
  free(text);
  return fd;
}

static void set_shared(int fd, int number)
{
  char *input = text_of("{\"key\":\"n%d\",\"value\":%d,\"expected_version\":0}", number, number);
  want_answer(fd, "POST", "/v1/call/state.shared.set", "", input, 200, "\"version\":1");
  free(input);
}

static void watch__events_reach_all_and_a_stop_is_told_and_ends_the_stream_well(void **state)
{
  (void)state;
  enum { WATCHERS = 40, EVENTS = 10 };
  static char got[WATCHERS][32768];
  served *s = start(&(certificate){.serial = 51});
  int watchers[WATCHERS], fd = tls_connect(s->folder, s->port, NULL, NULL);
  for (int i = 0; i < WATCHERS; i++) {
    watchers[i] = watch(s, "");
    got[i][0] = 0;
    read_until(watchers[i], got[i], sizeof got[i], "event: hello");
  }
  unsigned truncated = tls_truncated();
  for (int i = 0; i < EVENTS; i++) set_shared(fd, i);
  close(fd); /* one that asks nothing is cut without a word when the server stops */
  for (int i = 0; i < WATCHERS; i++) read_until(watchers[i], got[i], sizeof got[i], "\"key\":\"n9\"");
  kill(s->pid, SIGTERM);
  for (int i = 0; i < WATCHERS; i++) {
    read_until(watchers[i], got[i], sizeof got[i], "the server is stopping");
    unsigned count = 0;
    for (const char *at = got[i]; (at = strstr(at, "event: put")); at++) count++;
    assert_int_equal(count, EVENTS);
    char byte;
    while (recv(watchers[i], &byte, 1, 0) > 0) {}
    close(watchers[i]);
  }
  assert_int_equal(tls_truncated(), truncated);
  assert_int_equal(served_wait(s), 0);
  served_free(s);
}

static void watch__resumes_where_it_broke_off(void **state)
{
  (void)state;
  char got[16384] = "", id[64], *header;
  served *s = start(&(certificate){.serial = 52});
  int fd = tls_connect(s->folder, s->port, NULL, NULL), watcher = watch(s, "");
  read_until(watcher, got, sizeof got, "event: hello");
  set_shared(fd, 1);
  read_until(watcher, got, sizeof got, "\"key\":\"n1\"");
  char *at = strstr(got, "event: put");
  while (at > got && strncmp(at, "id: ", 4) != 0) at--;
  assert_int_equal(sscanf(at, "id: %63s", id), 1);
  close(watcher);
  set_shared(fd, 2);
  header = text_of("Last-Event-ID: %s\r\n", id);
  watcher = watch(s, header);
  got[0] = 0;
  read_until(watcher, got, sizeof got, "\"key\":\"n2\"");
  assert_null(strstr(got, "\"key\":\"n1\""));
  close(watcher);
  close(fd);
  free(header);
  served_free(s);
}

static void mcp__a_session_and_its_notices_go_through_tls(void **state)
{
  (void)state;
  char session[128], got[32768] = "", *headers, *text;
  served *s = start(&(certificate){.serial = 53});
  int fd = tls_connect(s->folder, s->port, NULL, NULL), listener = tls_connect(s->folder, s->port, NULL, NULL);
  const char *accept = "Accept: application/json, text/event-stream\r\n";
  reply r = ask_on(fd, "POST", "/mcp", accept,
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
                   "\"capabilities\":{},\"clientInfo\":{\"name\":\"test\",\"version\":\"1\"}}}");
  assert_int_equal(r.status, 200);
  assert_true(*reply_header(&r, "Mcp-Session-Id", session, sizeof session) != 0);
  reply_done(&r);
  headers = text_of("%sMcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n", accept, session);
  want_answer(fd, "POST", "/mcp", headers, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 202, "");
  text = text_of("GET /mcp HTTP/1.1\r\nHost: localhost\r\n%s\r\n", headers);
  assert_true(send_bytes(listener, text, strlen(text)));
  read_until(listener, got, sizeof got, "text/event-stream");
  want_answer(fd, "POST", "/mcp", headers,
              "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"state://shared/n7\"}}", 200,
              "result");
  set_shared(fd, 7);
  read_until(listener, got, sizeof got, "notifications/resources/updated");
  close(listener);
  close(fd);
  free(headers);
  free(text);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(serve__calls_and_reads_go_through_tls_1_3_with_alpn),
    cmocka_unit_test(serve__an_rsa_key_and_tls_1_2_are_fine),
    cmocka_unit_test(serve__large_bodies_come_and_go_whole),
    cmocka_unit_test(refuse__versions_and_ciphers_that_are_too_old),
    cmocka_unit_test(refuse__plain_http_and_noise_end_the_connection_and_nothing_else),
    cmocka_unit_test(refuse__who_never_shakes_hands_is_cut),
    cmocka_unit_test(start__what_cannot_be_used_is_named),
    cmocka_unit_test(start__beyond_loopback_with_tls_needs_no_other_word),
    cmocka_unit_test(start__an_expired_certificate_and_an_open_key_are_warned_of),
    cmocka_unit_test(renew__changed_files_are_noticed_and_open_connections_go_on),
    cmocka_unit_test(renew__sighup_takes_them_at_once),
    cmocka_unit_test(renew__a_pair_that_does_not_fit_is_refused_once_and_the_old_one_stays),
    cmocka_unit_test(renew__while_many_shake_hands_none_fails),
    cmocka_unit_test(settings__the_pair_may_stand_in_perdure_toml_and_sighup_takes_another),
    cmocka_unit_test(settings__the_command_line_wins_over_perdure_toml),
    cmocka_unit_test(settings__hosts_and_the_logs_level_change_with_a_reload),
    cmocka_unit_test(settings__an_address_and_a_socket_may_stand_there),
    cmocka_unit_test(guard__the_certificates_names_are_hosts_and_the_origin_is_https),
    cmocka_unit_test(watch__events_reach_all_and_a_stop_is_told_and_ends_the_stream_well),
    cmocka_unit_test(watch__resumes_where_it_broke_off),
    cmocka_unit_test(mcp__a_session_and_its_notices_go_through_tls),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire tls", tests, NULL, NULL);
}
