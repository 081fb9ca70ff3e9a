/* mcp_stdio.c: see mcp_stdio.h. */
#include "wire/mcp_stdio.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "wire/mcp_message.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_SIZE 65536
#define WAITING_MAX ((size_t)256 * 1024 * 1024)
#define TICK_MS 1000

typedef struct line {
  pd_buf text;
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
  size_t waiting_size;
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

/* ---- the thread that runs requests ---- */

static line *next_line(pipes *p)
{
  pthread_mutex_lock(&p->lock);
  while (!p->first && !p->is_closing) pthread_cond_wait(&p->changed, &p->lock);
  line *l = p->first;
  if (l) {
    p->first = l->next;
    if (!p->first) p->last = &p->first;
    p->waiting_size -= l->text.size;
    pthread_cond_broadcast(&p->changed);
  }
  pthread_mutex_unlock(&p->lock);
  return l;
}

static void free_line(line *l)
{
  pd_buf_done(&l->text);
  free(l);
}

static void *run_lines(void *ctx)
{
  pipes *p = ctx;
  line *l;
  while ((l = next_line(p))) {
    pd_mcp_handle(p->mcp, &p->peer, pd_buf_bytes(&l->text), &p->out);
    free_line(l);
  }
  return NULL;
}

/* ---- in ---- */

/* Notifications are for what runs now: they do not wait behind it. */
static bool is_urgent(pd_bytes text)
{
  pd_json json;
  pd_mcp_message message;
  if (pd_json_parse(text, &json, NULL) || pd_mcp_message_read(json, &message, NULL)) return false;
  return message.kind == PD_MCP_NOTIFICATION && strcmp(message.method, "notifications/cancelled") == 0;
}

/* Waits while too much is waiting. */
static pd_code enqueue(pipes *p, pd_bytes text, pd_error *err)
{
  line *l = calloc(1, sizeof *l);
  if (!l) return pd_error_memory(err, "a message");
  pd_code code = pd_buf_append(&l->text, text.data, text.size, err);
  if (code) {
    free_line(l);
    return code;
  }
  pthread_mutex_lock(&p->lock);
  while (p->waiting_size && p->waiting_size + text.size > WAITING_MAX) pthread_cond_wait(&p->changed, &p->lock);
  *p->last = l;
  p->last = &l->next;
  p->waiting_size += text.size;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  return PD_OK;
}

static pd_code take_line(pipes *p, pd_bytes text, pd_error *err)
{
  if (text.size && ((const char *)text.data)[text.size - 1] == '\r') text.size--;
  if (!text.size) return PD_OK;
  if (!is_urgent(text)) return enqueue(p, text, err);
  pd_mcp_handle(p->mcp, &p->peer, text, &p->out);
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

static pd_code serve(pipes *p, pd_error *err)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_lines, p)) return pd_error_set(err, PD_STORAGE, "cannot start a thread");
  pd_code code = read_all(p, err);
  pthread_mutex_lock(&p->lock);
  p->is_closing = true;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  pthread_join(thread, NULL);
  if (!code && p->failed.code) {
    *err = p->failed;
    code = err->code;
  }
  return code;
}

pd_code pd_mcp_stdio(pd_mcp *mcp, const pd_mcp_peer *peer, int in, int out, pd_error *err)
{
  pipes p = {.mcp = mcp, .peer = *peer, .in_fd = in, .out_fd = out};
  pd_error own = {0};
  p.last = &p.first;
  p.out = (pd_mcp_out){.send = send_line, .done = nothing_more, .ctx = &p};
  pthread_mutex_init(&p.write_lock, NULL);
  pthread_mutex_init(&p.lock, NULL);
  pthread_cond_init(&p.changed, NULL);
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
