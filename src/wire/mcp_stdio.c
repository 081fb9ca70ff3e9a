/* mcp_stdio.c: see mcp_stdio.h. */
#include "wire/mcp_stdio.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define READ_SIZE 65536
#define WAITING_MAX ((size_t)256 * 1024 * 1024)
#define WAITING_COUNT_MAX 10000u
#define TICK_MS 1000
#define PATIENCE_MS 300 /* so long the others wait for one that runs */
#define RUNNERS_MAX 32u

typedef struct line {
  pd_mcp_job *job;
  struct line *next;
} line;

typedef struct pipes {
  pd_mcp *mcp;
  pd_mcp_peer peer;
  pd_mcp_out out;
  int in_fd, out_fd;
  pthread_mutex_t write_lock; /* of out_fd */
  pd_error failed;            /* to write; under write_lock */
  pthread_mutex_t lock;       /* of what follows */
  pthread_cond_t changed;
  line *first, **last;
  size_t waiting_size, waiting_count;
  const line *turn; /* the one whose turn it is, running; NULL: the next may begin */
  int64_t turn_since_ms;
  pthread_t runners[RUNNERS_MAX];
  unsigned runner_count, idle_count;
  bool is_closing;
} pipes;

/* ---- out ---- */

static void send_line(void *ctx, pd_bytes message, int status, bool is_last)
{
  pipes *p = ctx;
  (void)status, (void)is_last;
  pthread_mutex_lock(&p->write_lock);
  if (!p->failed.code && pd_fd_write(p->out_fd, message.data, message.size, "standard output", &p->failed) == PD_OK)
    (void)!pd_fd_write(p->out_fd, "\n", 1, "standard output", &p->failed);
  pthread_mutex_unlock(&p->write_lock);
}

static void nothing_more(void *ctx, int status)
{
  (void)ctx, (void)status;
}

static bool has_failed(pipes *p)
{
  pthread_mutex_lock(&p->write_lock);
  bool has = p->failed.code != PD_OK;
  pthread_mutex_unlock(&p->write_lock);
  return has;
}

/* ---- the threads that run requests ---- */

static void *run_lines(void *ctx);

/* One more, if there may be. Under the lock. */
static bool start_runner(pipes *p)
{
  if (p->runner_count == RUNNERS_MAX || pthread_create(&p->runners[p->runner_count], NULL, run_lines, p)) return false;
  p->runner_count++;
  p->idle_count++;
  return true;
}

/* Wait until something changes, but not longer than the one that runs is waited for. Under the lock. */
static void wait_turn(pipes *p, int64_t left_ms)
{
  struct timespec end;
  if (!p->first) {
    pthread_cond_wait(&p->changed, &p->lock);
    return;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += left_ms * 1000000;
  end.tv_sec += end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&p->changed, &p->lock, &end);
}

/* The next line, when it is its turn: when the one before is done, or takes too long. Somebody is left to take the one after. */
static line *next_line(pipes *p)
{
  pthread_mutex_lock(&p->lock);
  for (;;) {
    int64_t left_ms = p->turn ? p->turn_since_ms + PATIENCE_MS - pd_clock_monotonic_ms() : 0;
    if (p->first ? left_ms <= 0 : p->is_closing) break;
    wait_turn(p, left_ms);
  }
  line *l = p->first;
  p->idle_count--;
  if (l) {
    p->first = l->next;
    if (!p->first) p->last = &p->first;
    p->waiting_size -= pd_mcp_job_size(l->job);
    p->waiting_count--;
    p->turn = l;
    p->turn_since_ms = pd_clock_monotonic_ms();
    if (!p->idle_count) start_runner(p);
    pthread_cond_broadcast(&p->changed);
  }
  pthread_mutex_unlock(&p->lock);
  return l;
}

static void end_line(pipes *p, line *l)
{
  pthread_mutex_lock(&p->lock);
  if (p->turn == l) p->turn = NULL;
  p->idle_count++;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  free(l);
}

static void *run_lines(void *ctx)
{
  pipes *p = ctx;
  line *l;
  while ((l = next_line(p))) {
    (void)!pd_mcp_run(p->mcp, &p->peer, l->job);
    end_line(p, l);
  }
  return NULL;
}

/* ---- in ---- */

/* Waits while too much is waiting. */
static pd_code enqueue(pipes *p, pd_mcp_job *job, pd_error *err)
{
  size_t size = pd_mcp_job_size(job);
  line *l = calloc(1, sizeof *l);
  if (!l) {
    (void)!pd_mcp_run(p->mcp, &p->peer, job);
    return pd_error_memory(err, "a message");
  }
  l->job = job;
  pthread_mutex_lock(&p->lock);
  while (p->waiting_count && (p->waiting_size + size > WAITING_MAX || p->waiting_count >= WAITING_COUNT_MAX))
    pthread_cond_wait(&p->changed, &p->lock);
  *p->last = l;
  p->last = &l->next;
  p->waiting_size += size;
  p->waiting_count++;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  return PD_OK;
}

static pd_code take_line(pipes *p, pd_bytes text, pd_error *err)
{
  if (text.size && ((const char *)text.data)[text.size - 1] == '\r') text.size--;
  if (!text.size) return PD_OK;
  pd_mcp_job *job = pd_mcp_accept(p->mcp, &p->peer, text, &p->out);
  if (!job) return pd_error_memory(err, "a message");
  if (!pd_mcp_is_quick(job)) return enqueue(p, job, err);
  (void)!pd_mcp_run(p->mcp, &p->peer, job); /* a cancellation does not wait behind what it cancels */
  return PD_OK;
}

/* All whole lines of the buffer; the rest moves to its beginning. */
static pd_code take_lines(pipes *p, pd_buf *in, bool *is_skipping, pd_error *err)
{
  size_t at = 0;
  for (;;) {
    uint8_t *end = in->size > at ? memchr(in->data + at, '\n', in->size - at) : NULL;
    if (!end) break;
    if (!*is_skipping) TRY(take_line(p, (pd_bytes){in->data + at, (size_t)(end - in->data) - at}, err));
    *is_skipping = false;
    at = (size_t)(end - in->data) + 1;
  }
  if (at) memmove(in->data, in->data + at, in->size - at);
  in->size -= at;
  if (in->size <= PD_MCP_MESSAGE_SIZE_MAX) return PD_OK;
  if (!*is_skipping) pd_mcp_handle(p->mcp, &p->peer, pd_buf_bytes(in), &p->out); /* says that it is too long */
  *is_skipping = true;
  in->size = 0;
  return PD_OK;
}

static pd_code read_all(pipes *p, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf in = {0};
  bool is_skipping = false;
  while (!has_failed(p)) {
    struct pollfd wait = {.fd = p->in_fd, .events = POLLIN};
    int ready = poll(&wait, 1, TICK_MS);
    if (ready <= 0) pd_mcp_tick(p->mcp);
    if (ready <= 0) continue;
    TRY(pd_buf_reserve(&in, READ_SIZE, err));
    ssize_t got = read(p->in_fd, in.data + in.size, READ_SIZE);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return pd_error_set(err, PD_STORAGE, "cannot read standard input: %s", strerror(errno));
    if (got == 0) break;
    in.size += (size_t)got;
    TRY(take_lines(p, &in, &is_skipping, err));
  }
  return in.size && !is_skipping ? take_line(p, pd_buf_bytes(&in), err) : PD_OK; /* a last line without its end */
}

/* One that ends may have started another, which is behind it in the list. */
static void join_runners(pipes *p)
{
  for (unsigned i = 0;; i++) {
    pthread_mutex_lock(&p->lock);
    bool is_all = i == p->runner_count;
    pthread_mutex_unlock(&p->lock);
    if (is_all) return;
    pthread_join(p->runners[i], NULL);
  }
}

/* When the input ends, what was asked is done still; only those who wait for something to happen give up. */
static pd_code serve(pipes *p, pd_error *err)
{
  pthread_mutex_lock(&p->lock);
  bool is_started = start_runner(p);
  pthread_mutex_unlock(&p->lock);
  if (!is_started) return pd_error_set(err, PD_STORAGE, "cannot start a thread");
  pd_code code = read_all(p, err);
  pd_mcp_hurry(p->mcp);
  pthread_mutex_lock(&p->lock);
  p->is_closing = true;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  join_runners(p);
  if (!code && p->failed.code) {
    *err = p->failed;
    code = err->code;
  }
  return code;
}

static void init_changed(pthread_cond_t *changed)
{
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(changed, &attributes);
  pthread_condattr_destroy(&attributes);
}

pd_code pd_mcp_stdio(pd_mcp *mcp, const pd_mcp_peer *peer, int in, int out, pd_error *err)
{
  pipes p = {.mcp = mcp, .peer = *peer, .in_fd = in, .out_fd = out};
  pd_error own = {0};
  p.last = &p.first;
  p.out = (pd_mcp_out){.send = send_line, .done = nothing_more, .ctx = &p};
  pthread_mutex_init(&p.write_lock, NULL);
  pthread_mutex_init(&p.lock, NULL);
  init_changed(&p.changed);
  pd_code code = pd_mcp_session_new(mcp, peer->agent, &p.out, &p.peer.session, &own);
  if (!code) code = serve(&p, &own);
  if (code && err) *err = own;
  pd_mcp_drain(mcp);
  pd_mcp_session_release(p.peer.session);
  pthread_cond_destroy(&p.changed);
  pthread_mutex_destroy(&p.lock);
  pthread_mutex_destroy(&p.write_lock);
  return code;
}
