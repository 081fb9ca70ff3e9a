/* watch_test.c: GET /v1/watch: nothing lost, nothing twice, whoever breaks off; slow readers; many watchers. */
#include "support/temp_folder.h"
#include "wire/server_world.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const plain[] = {"--no-auth", NULL};

/* ---- a client ---- */

typedef struct follower {
  int fd;
  char buffer[65536];
  size_t size;
  bool has_head;
  char id[64], event[32], data[4096]; /* of the last event */
  char last_id[64];                   /* what a browser would come back with */
} follower;

static void begin(follower *f, const served *s, const char *query, const char *last_id, int receive_size)
{
  *f = (follower){.fd = served_connect(s)};
  assert_true(f->fd >= 0);
  if (last_id) snprintf(f->last_id, sizeof f->last_id, "%s", last_id);
  if (receive_size) setsockopt(f->fd, SOL_SOCKET, SO_RCVBUF, &receive_size, sizeof receive_size);
  char *line = last_id ? text_of("Last-Event-ID: %s\r\n", last_id) : strdup("");
  char *text = text_of("GET /v1/watch?store=shared%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", query, line);
  assert_true(send_bytes(f->fd, text, strlen(text)));
  free(line);
  free(text);
}

static bool read_line(follower *f, char *out, size_t size)
{
  for (;;) {
    char *end = memchr(f->buffer, '\n', f->size);
    if (end) {
      size_t length = (size_t)(end - f->buffer);
      snprintf(out, size, "%.*s", (int)length, f->buffer);
      f->size -= length + 1;
      memmove(f->buffer, end + 1, f->size);
      if (*out && out[strlen(out) - 1] == '\r') out[strlen(out) - 1] = 0;
      return true;
    }
    if (f->size == sizeof f->buffer) return false;
    ssize_t got = recv(f->fd, f->buffer + f->size, sizeof f->buffer - f->size, 0);
    if (got <= 0) return false;
    f->size += (size_t)got;
  }
}

/* The next event; false at the end of the stream. */
static bool next(follower *f)
{
  char line[4200];
  f->id[0] = f->event[0] = f->data[0] = 0;
  while (!f->has_head) {
    if (!read_line(f, line, sizeof line)) return false;
    if (strncmp(line, "HTTP/", 5) == 0) assert_int_equal(atoi(line + 9), 200);
    f->has_head = !*line;
  }
  while (read_line(f, line, sizeof line)) {
    if (strncmp(line, "id: ", 4) == 0) snprintf(f->id, sizeof f->id, "%.63s", line + 4);
    if (strncmp(line, "event: ", 7) == 0) snprintf(f->event, sizeof f->event, "%.31s", line + 7);
    if (strncmp(line, "data: ", 6) == 0) snprintf(f->data, sizeof f->data, "%.4095s", line + 6);
    if (strncmp(line, ": heartbeat", 11) == 0) snprintf(f->event, sizeof f->event, "heartbeat");
    if (*line) continue;
    snprintf(f->last_id, sizeof f->last_id, "%s", f->id);
    return true;
  }
  return false;
}

static void set(const served *s, const char *key, int value, int expected)
{
  char *body = text_of("{\"key\":\"%s\",\"value\":%d,\"expected_version\":%d}", key, value, expected);
  reply r = ask_call(s, "main", "state.shared.set", body);
  if (r.status != 200) print_message("%s\n", r.body);
  assert_int_equal(r.status, 200);
  reply_done(&r);
  free(body);
}

static int version_of(const char *data)
{
  const char *at = strstr(data, "\"version\":");
  return at ? atoi(at + 10) : -1;
}

/* A server whose home has this perdure.toml. */
static served *start_with(const char *toml)
{
  char *folder = temp_folder_new(), *home = text_of("%s/home", folder), *path = text_of("%s/home/perdure.toml", folder);
  mkdir(home, 0700);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(toml, f);
  fclose(f);
  free(home);
  free(path);
  return served_start_in(folder, plain);
}

/* ---- tests ---- */

static void watch__events_come_with_ids_after_a_hello(void **state)
{
  (void)state;
  served *s = served_start(plain);
  set(s, "a", 1, 0);
  static follower f;
  begin(&f, s, "&prefix=b", NULL, 0);
  assert_true(next(&f));
  assert_string_equal(f.event, "hello");
  set(s, "a", 2, 1);
  set(s, "b", 1, 0);
  assert_true(next(&f));
  assert_string_equal(f.event, "put");
  assert_non_null(strstr(f.data, "\"key\":\"b\",\"version\":1"));
  assert_non_null(strstr(f.data, "\"author\":\"main\""));
  close(f.fd);
  served_free(s);
}

typedef struct writing {
  const served *s;
  int count;
} writing;

static void *write_versions(void *ctx)
{
  writing *w = ctx;
  for (int i = 0; i < w->count; i++) set(w->s, "counter", i, i);
  return NULL;
}

/* The versions of one key are 1, 2, 3…: a lost or doubled event is seen at once. */
static void watch__who_breaks_off_anywhere_and_comes_back_misses_nothing_and_gets_nothing_twice(void **state)
{
  (void)state;
  served *s = served_start(plain);
  writing w = {s, 400};
  pthread_t thread;
  static follower f;
  begin(&f, s, "&prefix=counter", NULL, 0);
  assert_true(next(&f)); /* hello: from here on */
  assert_int_equal(pthread_create(&thread, NULL, write_versions, &w), 0);
  srand(7);
  for (int seen = 0; seen < w.count;) {
    if (rand() % 20 == 0) {
      char last[64];
      snprintf(last, sizeof last, "%s", f.last_id);
      close(f.fd);
      begin(&f, s, "&prefix=counter", last, 0);
      continue;
    }
    assert_true(next(&f));
    if (strcmp(f.event, "put") != 0) continue;
    assert_int_equal(version_of(f.data), ++seen);
  }
  pthread_join(thread, NULL);
  close(f.fd);
  served_free(s);
}

static void watch__a_killed_server_loses_no_event_for_who_comes_back(void **state)
{
  (void)state;
  served *s = served_start(plain);
  static follower f;
  begin(&f, s, "&prefix=counter", NULL, 0);
  assert_true(next(&f));
  char last[64];
  int seen = 0;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 10; i++) set(s, "counter", i, round * 10 + i);
    for (int i = 0; i < 5; i++) {
      assert_true(next(&f));
      assert_int_equal(version_of(f.data), ++seen);
    }
    snprintf(last, sizeof last, "%s", f.last_id);
    kill(s->pid, SIGKILL);
    served_wait(s);
    served_again(s);
    close(f.fd);
    begin(&f, s, "&prefix=counter", last, 0);
    assert_true(next(&f));
    assert_string_equal(f.event, "hello");
    for (; seen < (round + 1) * 10;) {
      assert_true(next(&f));
      assert_int_equal(version_of(f.data), ++seen);
    }
  }
  close(f.fd);
  served_free(s);
}

static void watch__a_change_of_another_process_is_seen(void **state)
{
  (void)state;
  served *s = served_start(plain);
  static follower f;
  begin(&f, s, "", NULL, 0);
  assert_true(next(&f));
  char *command = text_of("%s --store %s/home shared set elsewhere 1 0 >/dev/null", served_binary, s->folder);
  assert_int_equal(system(command), 0);
  free(command);
  assert_true(next(&f));
  assert_non_null(strstr(f.data, "\"key\":\"elsewhere\""));
  close(f.fd);
  served_free(s);
}

static void watch__silence_is_broken_by_heartbeats_with_the_place(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nheartbeat = \"1s\"\n");
  static follower f;
  begin(&f, s, "&prefix=nothing", NULL, 0);
  assert_true(next(&f));
  set(s, "other", 1, 0); /* of no interest, but the place moves past it */
  char hello[64];
  snprintf(hello, sizeof hello, "%s", f.id);
  for (int i = 0; i == 0 || atoi(f.id) == atoi(hello); i++) { /* the first ones may have been due before it was written */
    assert_true(i < SERVED_PATIENCE_S && next(&f));
    assert_string_equal(f.event, "heartbeat");
  }
  assert_true(atoi(f.id) > atoi(hello));
  close(f.fd);
  served_free(s);
}

static void watch__a_slow_reader_is_cut_off_with_a_reason_and_can_come_back(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nwatch_queue = \"4 KiB\"\n[store]\nflush = \"20ms\"\n");
  static follower slow, quick;
  begin(&slow, s, "", NULL, 4096);
  assert_true(next(&slow));
  begin(&quick, s, "", NULL, 0);
  assert_true(next(&quick));
  /* Keys of a kilobyte: what the sockets hold is full after some hundreds of events. */
  char key[1001];
  memset(key, 'k', 1000);
  key[1000] = 0;
  reply m = {0};
  int written = 0;
  while (written < 20000) {
    for (int i = 0; i < 100; i++) set(s, key, written + i, written + i);
    for (int i = 0; i < 100; i++) {
      assert_true(next(&quick)); /* others do not wait */
      assert_int_equal(version_of(quick.data), ++written);
    }
    reply_done(&m);
    m = ask(s, "GET", "/metrics", "Perdure-Role: operator\r\n", NULL);
    if (strstr(m.body, "\nperdure_watchers_cut_total 1\n")) break;
  }
  assert_non_null(strstr(m.body, "\nperdure_watchers_cut_total 1\n"));
  reply_done(&m);
  int seen = 0;
  bool is_told = false;
  char last[64];
  snprintf(last, sizeof last, "%s", slow.last_id);
  while (next(&slow)) {
    snprintf(last, sizeof last, "%s", slow.last_id);
    if (strcmp(slow.event, "put") == 0)
      assert_int_equal(version_of(slow.data), ++seen);
    else
      is_told = is_told || (strcmp(slow.event, "cut") == 0 && strstr(slow.data, "too slow"));
  }
  assert_true(seen < written);
  print_message("# cut after %d of %d events%s\n", seen, written, is_told ? ", and told" : "");
  close(slow.fd);
  begin(&slow, s, "", last, 0);
  assert_true(next(&slow));
  while (seen < written) {
    assert_true(next(&slow));
    assert_int_equal(version_of(slow.data), ++seen);
  }
  close(slow.fd);
  close(quick.fd);
  served_free(s);
}

static void watch__at_the_end_of_the_server_watchers_are_told(void **state)
{
  (void)state;
  served *s = served_start(plain);
  static follower f;
  begin(&f, s, "", NULL, 0);
  assert_true(next(&f));
  kill(s->pid, SIGTERM);
  assert_true(next(&f));
  assert_string_equal(f.event, "cut");
  assert_non_null(strstr(f.data, "the server is stopping"));
  assert_false(next(&f));
  assert_int_equal(served_wait(s), 0);
  close(f.fd);
  served_free(s);
}

/* Its answer was made when nobody is there to take it. */
static void watch__who_leaves_before_it_begins_leaves_nothing_behind(void **state)
{
  (void)state;
  served *s = served_start(plain);
  const char *text = "GET /v1/watch?store=shared HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 200; i++) {
    int fd = served_connect(s);
    const struct linger at_once = {.l_onoff = 1};
    assert_true(send_bytes(fd, text, strlen(text)));
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* a reset, not a quiet end */
    close(fd);
  }
  bool is_clean = false;
  for (int i = 0; i < SERVED_PATIENCE_S * 50 && !is_clean; i++) {
    set(s, "k", i, i); /* who is gone is noticed when there is something to tell */
    reply m = ask(s, "GET", "/metrics", "Perdure-Role: operator\r\n", NULL);
    is_clean = strstr(m.body, "\nperdure_watchers 0\n");
    reply_done(&m);
    poll(NULL, 0, 20);
  }
  assert_true(is_clean);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

static void watch__more_than_may_be_are_refused(void **state)
{
  (void)state;
  served *s = start_with("[test.server]\nwatchers_max = 1\n");
  static follower f;
  begin(&f, s, "", NULL, 0);
  assert_true(next(&f));
  reply r = ask(s, "GET", "/v1/watch?store=shared", "", NULL);
  assert_int_equal(r.status, 429);
  assert_non_null(strstr(r.body, "TooManyWatchers"));
  reply_done(&r);
  close(f.fd);
  served_free(s);
}

/* 2,000 at once, all of which hear of each of three commits. */
static void watch__two_thousand_at_once(void **state)
{
  (void)state;
  enum { MANY = 2000 };
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2 * MANY + 200) skip();
  served *s = start_with("[test.server]\nwatchers_max = 8192\nagent_watchers_max = 4096\n");
  static int fds[MANY];
  static size_t puts[MANY];
  const char *text = "GET /v1/watch?store=shared&from=start HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < MANY; i++) {
    fds[i] = served_connect(s);
    assert_true(fds[i] >= 0);
    assert_true(send_bytes(fds[i], text, strlen(text)));
  }
  for (int i = 0; i < 3; i++) set(s, "k", i, i);
  static char buffer[65536];
  for (int i = 0; i < MANY; i++) {
    size_t used = 0;
    while (puts[i] < 3) {
      ssize_t got = recv(fds[i], buffer + used, sizeof buffer - 1 - used, 0);
      assert_true(got > 0);
      used += (size_t)got;
      buffer[used] = 0;
      puts[i] = 0;
      for (const char *at = buffer; (at = strstr(at, "event: put\n")); at++) puts[i]++;
    }
    assert_int_equal(puts[i], 3);
  }
  reply m = ask(s, "GET", "/metrics", "Perdure-Role: operator\r\n", NULL);
  assert_non_null(strstr(m.body, "\nperdure_watchers 2000\n"));
  reply_done(&m);
  for (int i = 0; i < MANY; i++) close(fds[i]);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

/* ---- many, of whom several threads take care, and events that are joined ---- */

typedef struct listener {
  follower f;
  int seen[2]; /* versions of `odd` and `even` */
  int wanted;  /* a mask: 1 odd, 2 even */
} listener;

typedef struct counting {
  const served *s;
  const char *key;
  int count;
} counting;

static void *write_key(void *ctx)
{
  counting *c = ctx;
  for (int i = 0; i < c->count; i++) set(c->s, c->key, i, i);
  return NULL;
}

static bool has_heard_all(const listener *l, int count)
{
  return (!(l->wanted & 1) || l->seen[0] == count) && (!(l->wanted & 2) || l->seen[1] == count);
}

static void hear_one(listener *l)
{
  assert_true(next(&l->f));
  if (strcmp(l->f.event, "put") != 0) return;
  int which = strstr(l->f.data, "\"key\":\"even\"") ? 1 : 0;
  assert_true(l->wanted & (1 << which));
  assert_int_equal(version_of(l->f.data), ++l->seen[which]);
}

static const char *query_of(const listener *l)
{
  return l->wanted == 1 ? "&prefix=odd" : l->wanted == 2 ? "&prefix=even" : "";
}

static void watch__many_with_prefixes_of_their_own_hear_each_event_once_and_in_order(void **state)
{
  (void)state;
  enum { MANY = 150, COUNT = 120 };
  served *s = start_with("[store]\nflush = \"20ms\"\n"); /* so that several events are due at once */
  listener *all = calloc(MANY, sizeof *all);
  assert_non_null(all);
  for (int i = 0; i < MANY; i++) {
    all[i].wanted = 1 + i % 3;
    begin(&all[i].f, s, query_of(&all[i]), NULL, 0);
    assert_true(next(&all[i].f));
  }
  counting odd = {s, "odd", COUNT}, even = {s, "even", COUNT};
  pthread_t threads[2];
  assert_int_equal(pthread_create(&threads[0], NULL, write_key, &odd), 0);
  assert_int_equal(pthread_create(&threads[1], NULL, write_key, &even), 0);
  srand(11);
  for (int left = MANY; left;) {
    left = MANY;
    for (int i = 0; i < MANY; i++) {
      if (has_heard_all(&all[i], COUNT)) {
        left--;
      } else if (rand() % 60) {
        hear_one(&all[i]);
      } else {
        char last[64];
        snprintf(last, sizeof last, "%s", all[i].f.last_id);
        close(all[i].f.fd);
        begin(&all[i].f, s, query_of(&all[i]), last, 0);
      }
    }
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < MANY; i++) close(all[i].f.fd);
  free(all);
  assert_int_equal(served_stop(s), 0);
  served_free(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(watch__events_come_with_ids_after_a_hello),
    cmocka_unit_test(watch__who_breaks_off_anywhere_and_comes_back_misses_nothing_and_gets_nothing_twice),
    cmocka_unit_test(watch__a_killed_server_loses_no_event_for_who_comes_back),
    cmocka_unit_test(watch__a_change_of_another_process_is_seen),
    cmocka_unit_test(watch__silence_is_broken_by_heartbeats_with_the_place),
    cmocka_unit_test(watch__a_slow_reader_is_cut_off_with_a_reason_and_can_come_back),
    cmocka_unit_test(watch__at_the_end_of_the_server_watchers_are_told),
    cmocka_unit_test(watch__who_leaves_before_it_begins_leaves_nothing_behind),
    cmocka_unit_test(watch__more_than_may_be_are_refused),
    cmocka_unit_test(watch__two_thousand_at_once),
    cmocka_unit_test(watch__many_with_prefixes_of_their_own_hear_each_event_once_and_in_order),
  };
  if (argc < 2) return 2;
  served_binary = argv[1];
  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests_name("wire watch", tests, NULL, NULL);
}
