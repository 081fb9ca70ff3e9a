/*
 * hold_test.c: servers that would hold a client for ever, or fill its memory (R4 of remote.h): each is a thread that says what no perdure
 * says, on a socket of this machine. With the limits as small as a test wants them.
 */
#include "remote/remote.h"

#include "base/base.h"
#include "base/buf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 1
#define ANSWER_SIZE_MAX 65536

/* What it says: `head` at once, then `rest` again and again, each after `rest_us`, until the client goes. */
typedef struct holder {
  int fd;
  pthread_t thread;
  const char *head, *rest;
  unsigned rest_us;
  atomic_bool is_left; /* the client went away while it was told more */
  char request[4096];  /* the first that was asked */
  char uri[64];
} holder;

static bool say(int fd, const char *text)
{
  return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static void *hold(void *ctx)
{
  holder *h = ctx;
  int fd = accept(h->fd, NULL, NULL);
  if (fd < 0 || recv(fd, h->request, sizeof h->request - 1, 0) <= 0 || !say(fd, h->head)) return NULL;
  while (h->rest && say(fd, h->rest))
    if (h->rest_us) usleep(h->rest_us);
  atomic_store(&h->is_left, h->rest != NULL);
  close(fd);
  return NULL;
}

static void hold_start(holder *h)
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  h->fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(h->fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(h->fd, 4), 0);
  assert_int_equal(getsockname(h->fd, (struct sockaddr *)&at, &size), 0);
  snprintf(h->uri, sizeof h->uri, "http://127.0.0.1:%d", ntohs(at.sin_port));
  assert_int_equal(pthread_create(&h->thread, NULL, hold, h), 0);
}

static void hold_end(holder *h)
{
  pthread_join(h->thread, NULL);
  close(h->fd);
}

static pd_code ask(holder *h, pd_buf *out, pd_error *err)
{
  pd_remote_reply reply;
  pd_remote_request request = {.uri = h->uri, .method = "GET", .path = "/v1/capabilities", .is_slow = true};
  hold_start(h);
  return pd_remote_ask(&request, &reply, out, err);
}

static void expect_end(holder *h, pd_code code, const char *message)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_error err = {0};
  assert_int_equal(ask(h, &out, &err), code);
  if (!strstr(err.message, message) || !strstr(err.message, h->uri)) fail_msg("%s", err.message);
  hold_end(h);
  assert_true(h->is_left);
}

static void hold__a_body_that_drips_ends(void **state)
{
  (void)state;
  holder h = {.head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", .rest = "x", .rest_us = 50000};
  expect_end(&h, PD_STORAGE, "answers too slowly");
}

static void hold__a_head_that_drips_ends(void **state)
{
  (void)state;
  holder h = {.head = "HTTP/1.1 200 OK\r\nX-Drip: ", .rest = "x", .rest_us = 50000};
  expect_end(&h, PD_STORAGE, "does not answer");
}

static void hold__headers_that_drip_end(void **state)
{
  (void)state;
  holder h = {.head = "HTTP/1.1 200 OK\r\n", .rest = "X-More: 1\r\n", .rest_us = 50000};
  expect_end(&h, PD_STORAGE, "does not answer");
}

static void hold__an_answer_without_an_end_ends(void **state)
{
  (void)state;
  holder h = {.head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", .rest = "a\r\n0123456789\r\n"};
  expect_end(&h, PD_LIMIT, "over the limit of 65536 bytes");
}

static void hold__an_answer_that_is_in_time_and_small_is_taken(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_error err = {0};
  holder h = {.head = "HTTP/1.1 200 OK\r\nPerdure-Tail:  17 \r\nPerdure-Next: 018\r\nContent-Length: 2\r\n\r\n{}"};
  pd_remote_reply reply;
  pd_remote_request request = {.uri = h.uri, .method = "GET", .path = "/v1/capabilities"};
  hold_start(&h);
  if (pd_remote_ask(&request, &reply, &out, &err)) fail_msg("%s", err.message);
  hold_end(&h);
  assert_int_equal(reply.status, 200);
  assert_int_equal(out.size, 2);
  assert_int_equal(reply.tail, 17);
  assert_int_equal(reply.next, 0); /* no number: it is not said */
}

/* ---- R5: tokens ---- */

#define EMPTY_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"

static unsigned ask_with(holder *h, const char *token)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_error err = {0};
  pd_remote_reply reply;
  pd_remote_request request = {.uri = h->uri, .method = "GET", .path = "/v1/capabilities"};
  hold_start(h);
  if (token && pd_remote_token(h->uri, token, &err)) fail_msg("%s", err.message);
  if (pd_remote_ask(&request, &reply, &out, &err)) fail_msg("%s", err.message);
  hold_end(h);
  return reply.status;
}

static void token__goes_to_its_own_server_and_to_no_other(void **state)
{
  (void)state;
  holder own = {.head = EMPTY_ANSWER}, other = {.head = EMPTY_ANSWER};
  assert_int_equal(ask_with(&own, "pd_secret"), 200);
  assert_non_null(strstr(own.request, "Authorization: Bearer pd_secret\r\n"));
  assert_int_equal(ask_with(&other, NULL), 200);
  assert_null(strcasestr(other.request, "authorization"));
  assert_null(strstr(other.request, "pd_secret"));
  assert_true(pd_remote_has_token(own.uri));
  assert_null(pd_remote_role(own.uri));
  assert_false(pd_remote_has_token(other.uri));
  assert_string_equal(pd_remote_role(other.uri), "operator");
}

static void token__no_redirect_is_followed_with_it(void **state)
{
  (void)state;
  char head[256];
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int there = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  assert_int_equal(bind(there, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(there, 4), 0);
  assert_int_equal(getsockname(there, (struct sockaddr *)&at, &size), 0);
  snprintf(head, sizeof head, "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
           ntohs(at.sin_port));
  holder h = {.head = head};
  assert_int_equal(ask_with(&h, "pd_other"), 307);
  assert_non_null(strstr(h.request, "Bearer pd_other"));
  assert_int_equal(accept(there, NULL, NULL), -1); /* nobody came */
  assert_int_equal(errno, EAGAIN);
  close(there);
}

static void token__servers_are_the_same_by_scheme_host_and_port(void **state)
{
  (void)state;
  static const char *const same[][2] = {
    {"http://a.example", "http://A.example:80/"}, {"https://a.example", "https://a.example:443"}, {"unix:/x", "unix:/x"}};
  static const char *const others[][2] = {{"http://a.example", "https://a.example"},
                                          {"http://a.example:80", "http://a.example:81"},
                                          {"http://a.example", "http://a.example.org"},
                                          {"http://127.0.0.1:1", "http://127.0.0.2:1"},
                                          {"http://localhost:1", "http://127.0.0.1:1"},
                                          {"unix:/x", "unix:/y"},
                                          {"unix:/x", "http://localhost"}};
  for (size_t i = 0; i < COUNT_OF(same); i++)
    if (!pd_remote_is_same(same[i][0], same[i][1])) fail_msg("%s and %s", same[i][0], same[i][1]);
  for (size_t i = 0; i < COUNT_OF(others); i++)
    if (pd_remote_is_same(others[i][0], others[i][1])) fail_msg("%s and %s", others[i][0], others[i][1]);
}

static void token__is_refused_where_others_can_listen(void **state)
{
  (void)state;
  pd_error err = {0};
  assert_int_equal(pd_remote_token("http://192.0.2.1:7373", "pd_secret", &err), PD_DENIED);
  assert_non_null(strstr(err.message, "http://192.0.2.1:7373"));
  assert_non_null(strstr(err.message, "--insecure-http"));
  assert_false(pd_remote_has_token("http://192.0.2.1:7373"));
  assert_int_equal(pd_remote_token("https://192.0.2.1:7373", "pd se", &err), PD_INVALID);
  assert_int_equal(pd_remote_token("ftp://192.0.2.1", "pd_secret", &err), PD_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(hold__a_body_that_drips_ends),
    cmocka_unit_test(hold__a_head_that_drips_ends),
    cmocka_unit_test(hold__headers_that_drip_end),
    cmocka_unit_test(hold__an_answer_without_an_end_ends),
    cmocka_unit_test(hold__an_answer_that_is_in_time_and_small_is_taken),
    cmocka_unit_test(token__goes_to_its_own_server_and_to_no_other),
    cmocka_unit_test(token__no_redirect_is_followed_with_it),
    cmocka_unit_test(token__servers_are_the_same_by_scheme_host_and_port),
    cmocka_unit_test(token__is_refused_where_others_can_listen),
  };
  pd_remote_options options = {.patience_s = PATIENCE_S, .answer_size_max = ANSWER_SIZE_MAX};
  pd_error err = {0};
  if (pd_remote_setup(&options, &err)) return fprintf(stderr, "%s\n", err.message), 1;
  return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
