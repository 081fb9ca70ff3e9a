/* client.c: see client.h. What is said is in speech.c. */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "daemon.h"

#define SILENCE_MS 20000

/* ---- one client ---- */

static pd_code flush(bench_client *c, pd_error *err)
{
  while (c->sent < c->out.size) {
    ssize_t sent = send(c->fd, c->out.data + c->sent, c->out.size - c->sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return pd_error_set(err, PD_STORAGE, "cannot send: %s", strerror(errno)); /* a question always fits an empty buffer */
    c->sent += (size_t)sent;
  }
  pd_buf_clear(&c->out);
  c->sent = 0;
  return PD_OK;
}

static pd_code ask(bench_clients *fleet, bench_client *c, bool is_writing, pd_error *err)
{
  uint32_t own = c->index * BENCH_KEYS_EACH;
  uint64_t turn = is_writing ? c->written : c->read;
  uint32_t key = is_writing ? own + (uint32_t)(turn % BENCH_KEYS_EACH) : (uint32_t)((turn * 7919 + own) % BENCH_WIRE_KEYS);
  c->is_writing = is_writing;
  c->begun = bench_now();
  TRY(fleet->speech->ask(c, key, err));
  c->is_waiting = true;
  return flush(c, err);
}

static pd_code receive(bench_client *c, pd_error *err)
{
  ssize_t got = recv(c->fd, c->in + c->in_size, sizeof(c->in) - 1 - c->in_size, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return PD_OK;
  if (got <= 0) return pd_error_set(err, PD_STORAGE, "the server hung up, or answers too much: %.200s", c->in);
  c->in_size += (size_t)got;
  c->in[c->in_size] = 0;
  return PD_OK;
}

static pd_code note_answer(bench_clients *fleet, bench_client *c, pd_error *err)
{
  c->is_waiting = false;
  if (c->is_writing)
    c->written++;
  else
    c->read++;
  if (fleet->count == fleet->room) {
    size_t room = fleet->room ? fleet->room * 2 : 65536;
    float *more = realloc(fleet->seconds, room * sizeof(*more));
    if (!more) return pd_error_memory(err, "the times of the answers");
    fleet->seconds = more;
    fleet->room = room;
  }
  fleet->seconds[fleet->count++] = (float)(bench_now() - c->begun);
  return PD_OK;
}

/* Everything that is whole in what came. */
static pd_code hear(bench_clients *fleet, bench_client *c, pd_error *err)
{
  size_t used;
  TRY(receive(c, err));
  do {
    bool is_whole = false;
    used = 0;
    TRY(fleet->speech->hear(c, &used, &is_whole, err));
    memmove(c->in, c->in + used, c->in_size + 1 - used);
    c->in_size -= used;
    if (is_whole) TRY(note_answer(fleet, c, err));
  } while (used && c->in_size);
  return flush(c, err);
}

/* ---- all of them ---- */

static pd_code open_one(bench_clients *fleet, uint32_t index, int port, pd_error *err)
{
  bench_client *c = &fleet->clients[index];
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  c->index = index;
  TRY(bench_connect(port, &c->fd, err));
  fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
  if (epoll_ctl(fleet->epoll, EPOLL_CTL_ADD, c->fd, &event)) return pd_error_set(err, PD_STORAGE, "epoll: %s", strerror(errno));
  TRY(pd_buf_append(&c->out, fleet->speech->hello, fleet->speech->hello_size, err));
  return flush(c, err);
}

pd_code bench_clients_open(bench_clients *fleet, const bench_speech *speech, int port, pd_error *err)
{
  fleet->speech = speech;
  fleet->epoll = epoll_create1(EPOLL_CLOEXEC);
  fleet->clients = calloc(BENCH_CLIENT_COUNT, sizeof(*fleet->clients));
  if (fleet->epoll < 0 || !fleet->clients) return pd_error_memory(err, "the clients");
  for (uint32_t i = 0; i < BENCH_CLIENT_COUNT; i++) fleet->clients[i].fd = -1;
  for (uint32_t i = 0; i < BENCH_CLIENT_COUNT; i++) TRY(open_one(fleet, i, port, err));
  return PD_OK;
}

static int compare_floats(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void sum_up(bench_clients *fleet, double elapsed_s, bench_pace *out)
{
  double sum = 0;
  qsort(fleet->seconds, fleet->count, sizeof(*fleet->seconds), compare_floats);
  for (size_t i = 0; i < fleet->count; i++) sum += (double)fleet->seconds[i];
  out->rate = (double)fleet->count / elapsed_s;
  out->mean_s = sum / (double)fleet->count;
  out->p99_s = (double)fleet->seconds[fleet->count * 99 / 100];
}

/* One round of epoll: hear who has something to say, and let those ask again who may. */
static pd_code turn_once(bench_clients *fleet, bool is_writing, double end, uint64_t until, uint32_t *inout_waiting, pd_error *err)
{
  struct epoll_event events[BENCH_CLIENT_COUNT];
  int count = epoll_wait(fleet->epoll, events, BENCH_CLIENT_COUNT, SILENCE_MS);
  if (count == 0) return pd_error_set(err, PD_STORAGE, "the server has been silent for %d ms", SILENCE_MS);
  for (int i = 0; i < count; i++) {
    bench_client *c = events[i].data.ptr;
    bool was_waiting = c->is_waiting;
    TRY(hear(fleet, c, err));
    if (c->is_waiting || !was_waiting) continue;
    if (bench_now() < end && (is_writing ? c->written : c->read) - c->begun_at < until)
      TRY(ask(fleet, c, is_writing, err));
    else
      --*inout_waiting;
  }
  return PD_OK;
}

pd_code bench_clients_run(bench_clients *fleet, bool is_writing, double duration_s, uint64_t turns_max, bench_pace *out, pd_error *err)
{
  double start = bench_now(), end = start + duration_s;
  uint64_t until = turns_max ? turns_max : UINT64_MAX;
  uint32_t waiting = fleet->asking ? fleet->asking : BENCH_CLIENT_COUNT, count = waiting;
  fleet->count = 0;
  for (uint32_t i = 0; i < count; i++) {
    bench_client *c = &fleet->clients[i];
    c->begun_at = is_writing ? c->written : c->read;
    TRY(ask(fleet, c, is_writing, err));
  }
  while (waiting) TRY(turn_once(fleet, is_writing, end, until, &waiting, err));
  sum_up(fleet, bench_now() - start, out);
  return PD_OK;
}

void bench_clients_done(bench_clients *fleet)
{
  for (uint32_t i = 0; fleet->clients && i < BENCH_CLIENT_COUNT; i++) {
    if (fleet->clients[i].fd >= 0) close(fleet->clients[i].fd);
    pd_buf_done(&fleet->clients[i].out);
  }
  if (fleet->clients && fleet->epoll >= 0) close(fleet->epoll);
  free(fleet->clients);
  free(fleet->seconds);
  *fleet = (bench_clients){0};
}
