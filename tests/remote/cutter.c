/* cutter.c: see cutter.h. One thread and one lock; a connection is a pair of sockets. */
#include "remote/cutter.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS_MAX 64
#define BLOCK_SIZE 65536

typedef struct pair {
  int client, server;
} pair;

/* All that was said; ended by a NUL. */
typedef struct notes {
  char *text;
  size_t size;
} notes;

struct cutter {
  pthread_t thread;
  pthread_mutex_t lock; /* of what follows */
  int listener, port, wake[2], target;
  pair pairs[PAIRS_MAX];
  size_t count;
  notes asked, answered;
  char cut_in[128];
  bool has_cut, is_over;
};

static struct sockaddr_in loopback(int port)
{
  return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* ---- under the lock ---- */

static void drop_pair(cutter *c, size_t i)
{
  close(c->pairs[i].client);
  close(c->pairs[i].server);
  c->pairs[i] = c->pairs[--c->count];
}

static void take_client(cutter *c)
{
  struct sockaddr_in at = loopback(c->target);
  pair p = {accept4(c->listener, NULL, NULL, SOCK_CLOEXEC), socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (p.client >= 0 && c->target && c->count < PAIRS_MAX && connect(p.server, (struct sockaddr *)&at, sizeof at) == 0) {
    c->pairs[c->count++] = p;
    return;
  }
  close(p.client);
  close(p.server);
}

static void note(notes *n, const char *data, size_t size)
{
  n->text = realloc(n->text, n->size + size + 1);
  if (!n->text) abort();
  memcpy(n->text + n->size, data, size);
  n->size += size;
  n->text[n->size] = 0;
}

/* How much of it gets through; less than all: then the connection is cut. */
static size_t let_through(cutter *c, const char *data, size_t size)
{
  size_t text_size = strlen(c->cut_in);
  const char *at = text_size ? memmem(data, size, c->cut_in, text_size) : NULL;
  if (!at) return size;
  c->cut_in[0] = 0;
  c->has_cut = true;
  return (size_t)(at - data) + text_size / 2;
}

static bool send_all(int fd, const char *data, size_t size)
{
  for (ssize_t sent; size; data += sent, size -= (size_t)sent)
    if ((sent = send(fd, data, size, MSG_NOSIGNAL)) <= 0) return false;
  return true;
}

/* False: the pair is done with. */
static bool pump(cutter *c, int from, int to, bool is_client)
{
  static char data[BLOCK_SIZE];
  ssize_t got = recv(from, data, sizeof data, MSG_DONTWAIT);
  if (got <= 0) return false;
  note(is_client ? &c->asked : &c->answered, data, (size_t)got);
  size_t through = is_client ? (size_t)got : let_through(c, data, (size_t)got);
  return send_all(to, data, through) && through == (size_t)got;
}

/* ---- the thread ---- */

static void serve(cutter *c, const struct pollfd *fds, const pair *polled, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    size_t at = 0;
    while (at < c->count && c->pairs[at].client != polled[i].client) at++;
    if (at == c->count) continue; /* cut meanwhile */
    pair p = polled[i];
    bool is_good = !fds[2 * i].revents || pump(c, p.client, p.server, true);
    is_good = is_good && (!fds[2 * i + 1].revents || pump(c, p.server, p.client, false));
    if (!is_good) drop_pair(c, at);
  }
}

static void *run(void *ctx)
{
  cutter *c = ctx;
  struct pollfd fds[2 + 2 * PAIRS_MAX];
  pair polled[PAIRS_MAX];
  char byte;
  pthread_mutex_lock(&c->lock);
  while (!c->is_over) {
    size_t count = c->count;
    fds[0] = (struct pollfd){.fd = c->wake[0], .events = POLLIN};
    fds[1] = (struct pollfd){.fd = c->listener, .events = POLLIN};
    memcpy(polled, c->pairs, count * sizeof polled[0]);
    for (size_t i = 0; i < count; i++) {
      fds[2 + 2 * i] = (struct pollfd){.fd = polled[i].client, .events = POLLIN};
      fds[3 + 2 * i] = (struct pollfd){.fd = polled[i].server, .events = POLLIN};
    }
    pthread_mutex_unlock(&c->lock);
    poll(fds, 2 + 2 * count, -1);
    pthread_mutex_lock(&c->lock);
    if (fds[0].revents && read(c->wake[0], &byte, 1) < 0) abort();
    if (!fds[0].revents) serve(c, fds + 2, polled, count); /* else a descriptor may be another's by now: look anew */
    if (fds[1].revents && !c->is_over) take_client(c);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

static void wake(cutter *c)
{
  if (write(c->wake[1], "", 1) != 1) abort();
}

/* ---- outside ---- */

cutter *cutter_start(int server_port)
{
  cutter *c = calloc(1, sizeof *c);
  struct sockaddr_in at = loopback(0);
  socklen_t size = sizeof at;
  if (!c || pipe2(c->wake, O_CLOEXEC)) abort();
  c->target = server_port;
  c->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(c->listener, (struct sockaddr *)&at, size) || listen(c->listener, 64)) abort();
  if (getsockname(c->listener, (struct sockaddr *)&at, &size)) abort();
  c->port = ntohs(at.sin_port);
  pthread_mutex_init(&c->lock, NULL);
  if (pthread_create(&c->thread, NULL, run, c)) abort();
  return c;
}

static void cut_all(cutter *c)
{
  while (c->count) drop_pair(c, 0);
}

void cutter_free(cutter *c)
{
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  c->is_over = true;
  wake(c);
  pthread_mutex_unlock(&c->lock);
  pthread_join(c->thread, NULL);
  cut_all(c);
  close(c->listener);
  close(c->wake[0]);
  close(c->wake[1]);
  pthread_mutex_destroy(&c->lock);
  free(c->asked.text);
  free(c->answered.text);
  free(c);
}

int cutter_port(const cutter *c)
{
  return c->port;
}

void cutter_aim(cutter *c, int server_port)
{
  pthread_mutex_lock(&c->lock);
  c->target = server_port;
  pthread_mutex_unlock(&c->lock);
}

void cutter_cut(cutter *c)
{
  pthread_mutex_lock(&c->lock);
  cut_all(c);
  wake(c);
  pthread_mutex_unlock(&c->lock);
}

void cutter_cut_in(cutter *c, const char *text)
{
  pthread_mutex_lock(&c->lock);
  if (strlen(text) >= sizeof c->cut_in) abort();
  memcpy(c->cut_in, text, strlen(text) + 1);
  c->has_cut = false;
  pthread_mutex_unlock(&c->lock);
}

bool cutter_has_cut(cutter *c)
{
  pthread_mutex_lock(&c->lock);
  bool has = c->has_cut;
  pthread_mutex_unlock(&c->lock);
  return has;
}

static size_t count_of(cutter *c, const notes *n, const char *text)
{
  size_t count = 0;
  pthread_mutex_lock(&c->lock);
  for (const char *at = n->text; at && (at = strstr(at, text)); at++) count++;
  pthread_mutex_unlock(&c->lock);
  return count;
}

size_t cutter_asked(cutter *c, const char *text)
{
  return count_of(c, &c->asked, text);
}

size_t cutter_answered(cutter *c, const char *text)
{
  return count_of(c, &c->answered, text);
}
