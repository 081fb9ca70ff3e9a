/* redis_test.c: redis: under the contract on a real server, and servers that are down, slow, restarted, full, read-only, or guarded. */
#include "base/base.h"
#include "base/clock.h"
#include "storage/folder_storage.h"
#include "storage/redis_server.h"
#include "support/temp_folder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KEY "perdure:agent-snapshot:"

static redis_server *contract_server; /* one for all clauses: each has a prefix of its own */

static char *uri_new(void)
{
  static unsigned number;
  char *options = text_of("prefix=test%%3A%u*%%5B:", number++), *uri = redis_server_socket_uri(contract_server, options);
  free(options);
  return uri;
}

static void uri_destroy(const char *uri)
{
  (void)uri;
  free(redis_server_ask(contract_server, "FLUSHALL"));
}

static int server_set_up(void **state)
{
  redis_server *server = redis_server_new();
  redis_server_start(server, NULL);
  *state = server;
  return 0;
}

static int server_tear_down(void **state)
{
  redis_server_free(*state);
  return 0;
}

static pd_storage *open_at(const redis_server *server, const char *options)
{
  char *uri = redis_server_uri(server, options);
  pd_storage *s = storage_open(uri);
  free(uri);
  return s;
}

/* ---- keys and durability ------------------------------------------------------------------------------------------- */

static void redis__the_key_holds_the_document(void **state)
{
  pd_storage *s = open_at(*state, "");
  char *document = snapshot_new("worker_007", 1, 2);
  storage_save(s, "worker_007", document);
  char *stored = redis_server_ask(*state, "GET " KEY "worker_007");
  assert_memory_equal(stored, document, strlen(document)); /* and behind it white space: the seal */
  assert_int_equal(strspn(stored + strlen(document), " \t\n"), strlen(stored) - strlen(document));
  free(stored);
  free(document);
  pd_storage_close(s);
}

/* Document and seal, byte by byte: the snapshot is refused, or is what it was. */
static void redis__every_flipped_byte_is_noticed(void **state)
{
  CLEANUP(pd_buf_done) pd_buf got = {0};
  pd_storage *s = open_at(*state, "");
  char *document = snapshot_new("x", 12, 2);
  storage_save(s, "x", document);
  char *sound = redis_server_ask(*state, "GET " KEY "x");
  size_t size = strlen(sound);
  assert_true(size > strlen(document));
  for (size_t at = 0; at < size; at++) {
    char was = sound[at];
    sound[at] = was == ' ' ? '\t' : was == '\t' ? ' ' : (char)(was ^ 1);
    free(redis_server_ask(*state, "SET " KEY "x %b", sound, size));
    pd_code code = pd_storage_load(s, "x", &got, NULL);
    if (code != PD_CORRUPT) fail_msg("byte %zu: %02x for %02x: %s", at, (uint8_t)sound[at], (uint8_t)was, pd_code_name(code));
    sound[at] = was;
  }
  storage_load_refused(s, "x", PD_CORRUPT, "no sound snapshot"); /* the last newline of the seal is not there */
  free(redis_server_ask(*state, "SET " KEY "x %b", sound, size));
  storage_expect(s, "x", document);
  pd_storage_close(s);
  free(sound);
  free(document);
}

static void redis__databases_and_prefixes_are_apart(void **state)
{
  pd_storage *zero = open_at(*state, ""), *three = open_at(*state, "db=3"), *other = open_at(*state, "prefix=other:");
  char *document = snapshot_new("x", 1, 2);
  storage_save(three, "x", document);
  storage_expect(zero, "x", NULL);
  storage_expect(other, "x", NULL);
  storage_expect(three, "x", document);
  char *names = storage_names(zero);
  assert_string_equal(names, "");
  free(names);
  pd_storage_close(zero), pd_storage_close(three), pd_storage_close(other);
  char *uri = redis_server_uri(*state, "db=99");
  storage_open_refused(uri, PD_STORAGE, "out of range");
  free(uri);
  free(document);
}

static void redis__keys_that_are_no_snapshot_are_refused_and_kept(void **state)
{
  pd_storage *s = open_at(*state, "command_ms=60000"); /* a value beyond the limit takes its time */
  char *x = snapshot_new("x", 1, 1), *y = snapshot_new("y", 1, 1);
  free(redis_server_ask(*state, "LPUSH " KEY "list a b"));
  free(redis_server_ask(*state, "SET " KEY "empty %s", ""));
  free(redis_server_ask(*state, "SET " KEY "x %s", y));
  free(redis_server_ask(*state, "SETRANGE " KEY "huge %d a", (int)PD_SNAPSHOT_SIZE_MAX + 100));
  char *list = snapshot_new("list", 1, 1);
  storage_load_refused(s, "list", PD_CORRUPT, "WRONGTYPE");
  storage_save_refused(s, "list", list, PD_CORRUPT, "it is not overwritten");
  storage_load_refused(s, "empty", PD_CORRUPT, "no sound snapshot");
  storage_load_refused(s, "x", PD_CORRUPT, "is of agent 'y', not of 'x'");
  storage_save_refused(s, "x", x, PD_CORRUPT, "it is not overwritten");
  storage_load_refused(s, "huge", PD_CORRUPT, "over the limit");
  char *still = redis_server_ask(*state, "TYPE " KEY "list");
  assert_string_equal(still, "list");
  assert_int_equal(pd_storage_delete(s, "list", NULL), PD_OK);
  storage_save(s, "list", list);
  pd_storage_close(s);
  free(still), free(list), free(x), free(y);
}

static void expect_lasting(const redis_server *server, const char *const settings[3], pd_lasting want)
{
  pd_storage_durability found;
  pd_storage *s = open_at(server, "");
  free(redis_server_ask(server, "CONFIG SET appendonly %s", settings[0]));
  free(redis_server_ask(server, "CONFIG SET appendfsync %s", settings[1]));
  free(redis_server_ask(server, "CONFIG SET save %s", settings[2]));
  assert_int_equal(pd_storage_durability_get(s, &found, NULL), PD_OK);
  assert_int_equal(found.lasting, want);
  for (int i = 0; i < 3; i++)
    if (!strstr(found.detail, settings[i])) fail_msg("'%s' does not say '%s'", found.detail, settings[i]);
  pd_storage_close(s);
}

static void redis__durability_is_what_the_server_is_set_to(void **state)
{
  expect_lasting(*state, (const char *const[]){"no", "everysec", ""}, PD_LASTS_MEMORY);
  expect_lasting(*state, (const char *const[]){"no", "always", "3600 1 300 100"}, PD_LASTS_MOSTLY);
  expect_lasting(*state, (const char *const[]){"yes", "everysec", ""}, PD_LASTS_MOSTLY);
  expect_lasting(*state, (const char *const[]){"yes", "always", ""}, PD_LASTS_POWER);
}

static void redis__durability_is_unknown_if_the_server_does_not_tell(void **state)
{
  redis_server *server = *state;
  free(redis_server_ask(server, "ACL SETUSER agent on >pass%%40word ~perdure:* +@all -config"));
  char *uri = text_of("redis://agent:pass%%2540word@127.0.0.1:%d/0", server->port), *document = snapshot_new("x", 1, 2);
  pd_storage_durability found;
  pd_storage *s = storage_open(uri);
  storage_save(s, "x", document);
  assert_int_equal(pd_storage_durability_get(s, &found, NULL), PD_OK);
  assert_int_equal(found.lasting, PD_LASTS_UNKNOWN);
  assert_non_null(strstr(found.detail, "NOPERM"));
  pd_storage_close(s);
  free(document);
  free(uri);
}

/* ---- who may ------------------------------------------------------------------------------------------------------- */

static void redis__passwords_are_asked_for_and_never_told(void **state)
{
  redis_server *server = *state;
  free(redis_server_ask(server, "ACL SETUSER worker on >hidden42 ~* +@all"));
  free(redis_server_ask(server, "CONFIG SET requirepass hidden41"));
  static const struct {
    const char *user;
    pd_code code;
    const char *says;
  } tries[] = {
    {"", PD_DENIED, "NOAUTH"},
    {":hidden99@", PD_DENIED, "WRONGPASS"},
    {"worker:hidden41@", PD_DENIED, "WRONGPASS"},
    {"worker:hidden42@", PD_OK, ""},
    {":hidden41@", PD_OK, ""},
    {"hidden41@", PD_OK, ""},
    {"worker@", PD_DENIED, "WRONGPASS"},
    {"nobody:hidden42@", PD_DENIED, "WRONGPASS"},
  };
  for (size_t i = 0; i < COUNT_OF(tries); i++) {
    char *uri = text_of("redis://%s127.0.0.1:%d/", tries[i].user, server->port);
    pd_storage *s = NULL;
    pd_error err = {0};
    pd_code code = pd_storage_open(uri, &s, &err);
    if (code != tries[i].code || !strstr(err.message, tries[i].says)) fail_msg("%s: %s", uri, err.message);
    if (strstr(err.message, "hidden")) fail_msg("tells the password: %s", err.message);
    pd_storage_close(s);
    free(uri);
  }
}

static void redis__rights_that_are_missing_are_named(void **state)
{
  redis_server *server = *state;
  free(redis_server_ask(server, "ACL SETUSER reader on >p ~* +@all -set"));
  char *uri = text_of("redis://reader:p@127.0.0.1:%d", server->port), *document = snapshot_new("x", 1, 2);
  pd_storage *s = storage_open(uri);
  storage_save_refused(s, "x", document, PD_DENIED, "NOPERM");
  pd_storage_close(s);
  free(document);
  free(uri);
}

/* ---- servers in trouble -------------------------------------------------------------------------------------------- */

static void redis__no_server_is_said_within_the_time(void **state)
{
  (void)state;
  redis_server *server = redis_server_new();
  char *uri = redis_server_uri(server, "retry_ms=300"), *socket_uri = redis_server_socket_uri(server, "retry_ms=0");
  int64_t begin = pd_clock_monotonic_ms();
  storage_open_refused(uri, PD_STORAGE, "no Redis server at 127.0.0.1:");
  int64_t took = pd_clock_monotonic_ms() - begin;
  assert_true(took >= 100 && took < 8000); /* without the option it would be 10 seconds */
  storage_open_refused(socket_uri, PD_STORAGE, "no Redis server at");
  free(uri), free(socket_uri);
  redis_server_free(server);
}

static void redis__a_server_that_dies_is_an_error_and_comes_back_by_itself(void **state)
{
  redis_server *server = *state;
  pd_storage *s = open_at(server, "retry_ms=1000");
  char *one = snapshot_new("x", 1, 2), *two = snapshot_new("x", 2, 2);
  storage_save(s, "x", one);
  redis_server_kill(server);
  storage_save_refused(s, "x", two, PD_STORAGE, "no Redis server at"); /* and no SIGPIPE */
  storage_load_refused(s, "x", PD_STORAGE, "no Redis server at");
  redis_server_start(server, NULL);
  storage_expect(s, "x", NULL); /* it kept nothing on disk, and says so */
  storage_save(s, "x", two);
  storage_expect(s, "x", two);
  pd_storage_close(s);
  free(one), free(two);
}

static void redis__what_was_acknowledged_is_there_after_a_kill_with_fsync_always(void **state)
{
  static const char *const settings[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
  redis_server *server = *state;
  redis_server_kill(server);
  redis_server_start(server, settings);
  pd_storage *s = open_at(server, "");
  for (unsigned round = 0; round < 5; round++) {
    char *document = snapshot_new("x", round, 50);
    storage_save(s, "x", document);
    redis_server_kill(server);
    redis_server_start(server, settings);
    storage_expect(s, "x", document);
    free(document);
  }
  pd_storage_close(s);
}

typedef struct waiting_save {
  pd_storage *storage;
  const char *document;
  pd_code code;
} waiting_save;

static void *save_waiting(void *arg)
{
  waiting_save *w = arg;
  w->code = pd_storage_save(w->storage, "x", pd_text(w->document), NULL);
  return NULL;
}

static void redis__a_restart_is_waited_for(void **state)
{
  redis_server *server = *state;
  pd_storage *s = open_at(server, "retry_ms=60000");
  char *document = snapshot_new("x", 1, 2);
  waiting_save waiting = {s, document, PD_INVALID};
  pthread_t thread;
  redis_server_kill(server);
  assert_int_equal(pthread_create(&thread, NULL, save_waiting, &waiting), 0);
  nanosleep(&(struct timespec){0, 200000000}, NULL); /* some tries without a server */
  redis_server_start(server, NULL);
  pthread_join(thread, NULL);
  assert_int_equal(waiting.code, PD_OK);
  storage_expect(s, "x", document);
  pd_storage_close(s);
  free(document);
}

static void redis__a_slow_server_is_waited_for_up_to_the_limit(void **state)
{
  redis_server *server = *state;
  pd_storage *patient = open_at(server, "command_ms=60000"), *hasty = open_at(server, "command_ms=1000&retry_ms=0");
  char *one = snapshot_new("x", 1, 2), *two = snapshot_new("x", 2, 2);
  storage_save(hasty, "x", one);
  redis_server_pause(server);
  storage_save_refused(hasty, "x", two, PD_STORAGE, "did not answer in time");
  redis_server_resume(server);
  redis_server_sleep(server, "0.3");
  storage_save(patient, "x", one);
  pd_storage_close(patient), pd_storage_close(hasty);
  free(one), free(two);
}

/* N3: the save that had no answer never overwrites the one that came after it. */
static void redis__a_late_save_never_overwrites_a_newer_one(void **state)
{
  redis_server *server = *state;
  for (unsigned round = 0; round < 8; round++) {
    pd_storage *s = open_at(server, "command_ms=60&retry_ms=60000&connect_ms=3000");
    char *old = snapshot_new("x", 1, 2000), *newer = snapshot_new("x", 2, 1);
    storage_save(s, "x", newer);
    redis_server_sleep(server, "0.3");
    pd_error err = {0};
    pd_code code = pd_storage_save(s, "x", pd_text(old), &err); /* sent several times, each but the last without an answer */
    if (code) fail_msg("%s", err.message);
    storage_save(s, "x", newer);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    storage_expect(s, "x", newer);
    pd_storage_close(s);
    free(old), free(newer);
  }
  char *commands =
    redis_server_ask(server, "INFO commandstats"); /* which of two connections is served first is luck: so look how it was done */
  assert_non_null(strstr(commands, "cmdstat_client|kill"));
  free(commands);
}

static void redis__out_of_memory_keeps_the_old_one(void **state)
{
  redis_server *server = *state;
  pd_storage *s = open_at(server, "");
  char *one = snapshot_new("x", 1, 2), *two = snapshot_new("x", 2, 3);
  storage_save(s, "x", one);
  free(redis_server_ask(server, "CONFIG SET maxmemory-policy noeviction"));
  free(redis_server_ask(server, "CONFIG SET maxmemory 1mb"));
  storage_save_refused(s, "x", two, PD_FULL, "OOM");
  storage_expect(s, "x", one);
  free(redis_server_ask(server, "CONFIG SET maxmemory 0"));
  storage_save(s, "x", two);
  storage_expect(s, "x", two);
  pd_storage_close(s);
  free(one), free(two);
}

static void redis__a_replica_is_read_only(void **state)
{
  redis_server *main_server = *state, *replica = redis_server_new();
  char port[16];
  snprintf(port, sizeof port, "%d", main_server->port);
  const char *const settings[] = {"--replicaof", "127.0.0.1", port, "--repl-diskless-sync-delay", "0", NULL};
  pd_storage *s = open_at(main_server, "");
  free(redis_server_ask(main_server, "CONFIG SET repl-diskless-sync-delay 0"));
  char *one = snapshot_new("x", 1, 2), *two = snapshot_new("x", 2, 2);
  storage_save(s, "x", one);
  redis_server_start(replica, settings);
  pd_storage *r = open_at(replica, "retry_ms=60000");
  for (int i = 0; i < 3000; i++) { /* until it has caught up */
    char *size = redis_server_ask(replica, "DBSIZE");
    bool is_there = strcmp(size, "1") == 0;
    free(size);
    if (is_there) break;
    nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
  storage_expect(r, "x", one);
  storage_save_refused(r, "x", two, PD_READ_ONLY, "READONLY");
  storage_expect(r, "x", one);
  pd_storage_close(r), pd_storage_close(s);
  redis_server_free(replica);
  free(one), free(two);
}

/* ---- TLS ----------------------------------------------------------------------------------------------------------- */

static bool make_certificate(const char *folder)
{
  char *command = text_of("cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
                          " -addext subjectAltName=IP:127.0.0.1,DNS:localhost >openssl.log 2>&1",
                          folder);
  bool is_made = system(command) == 0;
  free(command);
  return is_made;
}

static void redis__tls_speaks_only_with_whom_it_trusts(void **state)
{
  (void)state;
  redis_server *server = redis_server_new();
  server->is_tls = true;
  if (!make_certificate(server->folder)) fail_msg("no openssl");
  static const char *const settings[] = {"--tls-cert-file", "cert.pem",           "--tls-key-file", "key.pem", "--tls-ca-cert-file",
                                         "cert.pem",        "--tls-auth-clients", "optional",       NULL};
  redis_server_start(server, settings);
  char *trusting = text_of("tls_ca=%s/cert.pem&retry_ms=0", server->folder), *document = snapshot_new("x", 1, 3000);
  char *plain = text_of("redis://127.0.0.1:%d?retry_ms=0&command_ms=2000", server->port);
  char *untrusting = redis_server_uri(server, "retry_ms=0"), *careless = redis_server_uri(server, "retry_ms=0&tls_verify=no");
  char *missing = redis_server_uri(server, "retry_ms=0&tls_ca=/nowhere.pem");
  pd_storage *s = open_at(server, trusting);
  storage_save(s, "x", document);
  storage_expect(s, "x", document);
  redis_server_kill(server);
  storage_save_refused(s, "x", document, PD_STORAGE, "Redis"); /* no SIGPIPE */
  storage_save_refused(s, "x", document, PD_STORAGE, "no Redis server");
  redis_server_start(server, settings);
  storage_save(s, "x", document);
  pd_storage_close(s);
  storage_open_refused(untrusting, PD_STORAGE, "certificate verify failed");
  storage_open_refused(missing, PD_STORAGE, "tls_ca");
  storage_open_refused(plain, PD_STORAGE, "Redis");
  s = storage_open(careless);
  storage_expect(s, "x", document);
  pd_storage_close(s);
  free(trusting), free(plain), free(untrusting), free(careless), free(missing), free(document);
  redis_server_free(server);
}

/* A server of something else: it says a line and closes, politely. */
static void *say_hello(void *arg)
{
  char heard[256];
  int fd = accept(*(int *)arg, NULL, NULL);
  if (fd < 0 || write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28) != 28) abort();
  shutdown(fd, SHUT_WR);
  while (read(fd, heard, sizeof heard) > 0) continue;
  close(fd);
  return NULL;
}

static void redis__what_is_no_redis_is_named(void **state)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  pthread_t thread;
  (void)state;
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 1), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
  assert_int_equal(pthread_create(&thread, NULL, say_hello, &fd), 0);
  char *uri = text_of("redis://127.0.0.1:%d?retry_ms=0", ntohs(at.sin_port));
  storage_open_refused(uri, PD_STORAGE, "is no Redis");
  pthread_join(thread, NULL);
  close(fd);
  free(uri);
}

int main(void)
{
  static const storage_contract_target target = {"redis", uri_new, uri_destroy, false, PD_LASTS_MEMORY};
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, server_set_up, server_tear_down)
  static const struct CMUnitTest own[] = {
    WITH_SERVER(redis__the_key_holds_the_document),
    WITH_SERVER(redis__every_flipped_byte_is_noticed),
    WITH_SERVER(redis__databases_and_prefixes_are_apart),
    WITH_SERVER(redis__keys_that_are_no_snapshot_are_refused_and_kept),
    WITH_SERVER(redis__durability_is_what_the_server_is_set_to),
    WITH_SERVER(redis__durability_is_unknown_if_the_server_does_not_tell),
    WITH_SERVER(redis__passwords_are_asked_for_and_never_told),
    WITH_SERVER(redis__rights_that_are_missing_are_named),
    cmocka_unit_test(redis__no_server_is_said_within_the_time),
    WITH_SERVER(redis__a_server_that_dies_is_an_error_and_comes_back_by_itself),
    WITH_SERVER(redis__what_was_acknowledged_is_there_after_a_kill_with_fsync_always),
    WITH_SERVER(redis__a_restart_is_waited_for),
    WITH_SERVER(redis__a_slow_server_is_waited_for_up_to_the_limit),
    WITH_SERVER(redis__a_late_save_never_overwrites_a_newer_one),
    WITH_SERVER(redis__out_of_memory_keeps_the_old_one),
    WITH_SERVER(redis__a_replica_is_read_only),
    cmocka_unit_test(redis__tls_speaks_only_with_whom_it_trusts),
    cmocka_unit_test(redis__what_is_no_redis_is_named),
  };
  if (!redis_server_exists()) {
    fprintf(stderr, "# no redis-server here: tools/deps test\n");
    return 1;
  }
  contract_server = redis_server_new();
  redis_server_start(contract_server, NULL);
  int failed = storage_contract_run(&target, own, COUNT_OF(own));
  redis_server_free(contract_server);
  return failed;
}
