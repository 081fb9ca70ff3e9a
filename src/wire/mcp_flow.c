/* mcp_flow.c: one flow; see mcp_flow.h for the invariants S1 to S3. All of them together are mcp_flows.c. */
#include "wire/mcp_flow.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/mcp_flow_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define BLOCK_SIZE 4096
#define QUEUE_SIZE_MAX ((size_t)8 * 1024 * 1024)
#define KEPT_SIZE ((size_t)256 * 1024)
#define EARLY_MS 1000 /* after this a stream begins, though there is nothing to say yet: the client can then be missed, and can come back */
#define SESSION_PARKED_MAX 16u
#define BEAT ": still here\n\n"

/* ---- one flow ---- */

pd_mcp_flow *pd_mcp_flow_new(pd_mcp_flows *flows, pd_mcp_session *session, bool is_get)
{
  pd_mcp_flow *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->flows = flows;
  f->is_get = is_get;
  atomic_init(&f->refs, 1);
  f->spoke_ms = f->left_ms = pd_clock_monotonic_ms();
  f->message.size_max = f->stream.out.size_max = PD_MCP_MESSAGE_SIZE_MAX * 4;
  f->is_resumable = session != NULL;
  f->stream.queue_max = QUEUE_SIZE_MAX;
  f->stream.kept_max = session ? KEPT_SIZE : 0;
  if (session) {
    snprintf(f->session_id, sizeof f->session_id, "%s", pd_mcp_session_id(session));
    snprintf(f->agent, sizeof f->agent, "%s", pd_mcp_session_agent(session));
    /* Older clients take an event without data for a broken message. */
    f->primes = strcmp(pd_mcp_session_revision(session), "2025-11-25") >= 0;
  }
  f->number = atomic_fetch_add(&flows->next_number, 1) + 1;
  pthread_mutex_init(&f->lock, NULL);
  return f;
}

pd_mcp_flow *pd_mcp_flow_hold(pd_mcp_flow *flow)
{
  atomic_fetch_add(&flow->refs, 1);
  return flow;
}

void pd_mcp_flow_release(pd_mcp_flow *f)
{
  if (atomic_fetch_sub(&f->refs, 1) > 1) return;
  pd_buf_done(&f->message);
  pd_sse_done(&f->stream);
  pthread_mutex_destroy(&f->lock);
  free(f);
}

/* Under the lock. */
void pd_mcp_flow_wake_tap(pd_mcp_tap *t)
{
  if (t) pd_sse_wake(&t->reader);
}

static bool is_ready(const pd_mcp_flow *f)
{
  return f->is_done || f->is_left || (f->count && !f->is_last);
}

void pd_mcp_flow_wake_request(pd_mcp_flow *f)
{
  pd_request *request = f->request;
  f->request = NULL;
  f->left_ms = pd_clock_monotonic_ms(); /* until it has its stream, it is not an old one */
  if (request) pd_request_ready(request);
}

void pd_mcp_flow_wake(pd_mcp_flow *f)
{
  if (is_ready(f)) pd_mcp_flow_wake_request(f);
  pd_mcp_flow_wake_tap(f->tap);
}

/* ---- events; under the lock ---- */

static pd_code add_event(pd_mcp_flow *f, const char *name, pd_bytes data)
{
  char id[64];
  snprintf(id, sizeof id, "%c%08x-%llx-%llx", f->is_get ? 'g' : 'p', (unsigned)f->flows->boot, (unsigned long long)f->number,
           (unsigned long long)pd_sse_next(&f->stream));
  return pd_sse_put(&f->stream, f->is_resumable ? id : NULL, name, data);
}

/* What was gathered as one message becomes the first event; before it one without data, so that the client can come back. */
static pd_code become_stream(pd_mcp_flow *f)
{
  if (f->is_stream) return PD_OK;
  f->is_stream = true;
  if (f->primes) TRY(pd_sse_add(&f->stream, pd_text("retry: 1000\n")));
  if (f->primes) TRY(add_event(f, NULL, pd_text("")));
  if (f->count) TRY(add_event(f, "message", pd_buf_bytes(&f->message)));
  pd_buf_done(&f->message);
  return PD_OK;
}

static pd_code add_message(pd_mcp_flow *f, pd_bytes message)
{
  if (!f->count && !f->is_stream) return pd_buf_append(&f->message, message.data, message.size, NULL);
  TRY(become_stream(f));
  return add_event(f, "message", message);
}

/* ---- what the core says ---- */

static void flow_send(void *ctx, pd_bytes message, int status, bool is_last)
{
  pd_mcp_flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (f->is_lost || add_message(f, message))
    f->is_done = f->is_lost = true; /* a reader that is too slow, or no memory: the stream ends, and the client sees that it does */
  else if (!f->count++)
    f->status = status;
  f->is_last = f->is_last || is_last;
  f->spoke_ms = pd_clock_monotonic_ms();
  pd_mcp_flow_wake(f);
  pthread_mutex_unlock(&f->lock);
}

static void flow_done(void *ctx, int status)
{
  pd_mcp_flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (!f->count) f->status = status;
  f->is_done = true;
  pd_mcp_flow_wake(f);
  pthread_mutex_unlock(&f->lock);
}

static void flow_session(void *ctx, const char *id)
{
  pd_mcp_flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  snprintf(f->new_session, sizeof f->new_session, "%s", id);
  pthread_mutex_unlock(&f->lock);
}

static void flow_cancelled(void *ctx)
{
  pd_mcp_flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (f->waiter) pd_waits_cancel(f->waits, f->waiter);
  pthread_mutex_unlock(&f->lock);
}

pd_mcp_out pd_mcp_flow_out(pd_mcp_flow *flow)
{
  return (pd_mcp_out){.send = flow_send, .done = flow_done, .session = flow_session, .cancelled = flow_cancelled, .ctx = flow};
}

void pd_mcp_flow_waiter(pd_mcp_flow *f, pd_waits *waits, pd_waiter *waiter)
{
  pthread_mutex_lock(&f->lock);
  f->waits = waits;
  f->waiter = waiter;
  pthread_mutex_unlock(&f->lock);
}

/* ---- the list ---- */

static void enlist(pd_mcp_flow *f)
{
  pd_mcp_flows *flows = f->flows;
  f->was_listed = true;
  pthread_mutex_lock(&flows->lock);
  if (!f->link) {
    f->next = flows->first;
    f->link = &flows->first;
    if (f->next) f->next->link = &f->next;
    flows->first = f;
    atomic_fetch_add(&f->refs, 1);
  }
  pthread_mutex_unlock(&flows->lock);
}

/* Under the list's lock. True: the list's hold is the caller's now. */
bool pd_mcp_flow_unlist(pd_mcp_flow *f)
{
  if (!f->link) return false;
  *f->link = f->next;
  if (f->next) f->next->link = f->link;
  f->link = NULL;
  return true;
}

/* Nobody will come back to it: cancel what it waits for. It was taken out of the list. */
void pd_mcp_flow_drop(pd_mcp_flow *f)
{
  pd_mcp_hang_up(f->flows->mcp, f);
  pd_mcp_flow_release(f);
}

/* ---- a request that attends ---- */

/* It may be gone: an answer to what it waits for tells. What works is not disturbed. */
static void attender_is_silent(void *ctx)
{
  pd_mcp_flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  if (f->waiter) pd_waits_hurry(f->waits, f->waiter);
  pthread_mutex_unlock(&f->lock);
}

static void attender_left(void *ctx)
{
  pd_mcp_flow *f = ctx;
  pthread_mutex_lock(&f->lock);
  f->is_left = true;
  pd_mcp_flow_wake_request(f);
  pthread_mutex_unlock(&f->lock);
}

bool pd_mcp_flow_attend(pd_mcp_flow *f, pd_request *request, bool may_stream)
{
  pthread_mutex_lock(&f->lock);
  bool is_there = is_ready(f);
  pthread_mutex_unlock(&f->lock);
  if (is_there) return false;
  enlist(f); /* for the time */
  f->leaver = (pd_leaver){.half = attender_is_silent, .left = attender_left, .ctx = f, .fd = request->conn ? request->conn->fd : -1};
  pd_gone_watch(f->flows->gone, &f->leaver);
  pthread_mutex_lock(&f->lock);
  bool attends = !is_ready(f);
  if (attends) f->request = request;
  f->early_ms = may_stream ? pd_clock_monotonic_ms() + EARLY_MS : INT64_MAX;
  pthread_mutex_unlock(&f->lock);
  return attends;
}

/* The caller holds it, too. */
static void unlist_and_let_go(pd_mcp_flow *f)
{
  if (!f->was_listed) return;
  pthread_mutex_lock(&f->flows->lock);
  bool is_ours = pd_mcp_flow_unlist(f);
  pthread_mutex_unlock(&f->flows->lock);
  if (is_ours) atomic_fetch_sub(&f->refs, 1);
}

void pd_mcp_flow_abandon(pd_mcp_flow *f)
{
  pd_gone_forget(f->flows->gone, &f->leaver);
  pd_mcp_hang_up(f->flows->mcp, f);
  unlist_and_let_go(f);
  pd_mcp_flow_release(f);
}

/* ---- a connection ---- */

static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t max)
{
  pd_mcp_tap *t = ctx;
  pd_mcp_flow *f = t->flow;
  ssize_t got = 0;
  (void)position;
  pthread_mutex_lock(&f->lock);
  if (!t->is_over) got = (ssize_t)pd_sse_read(&f->stream, &t->reader, out, max);
  if (!got && (t->is_over || f->is_done)) {
    got = MHD_CONTENT_READER_END_OF_STREAM;
  } else if (!got && t->is_beat && max >= sizeof BEAT - 1) {
    got = sizeof BEAT - 1;
    memcpy(out, BEAT, sizeof BEAT - 1);
  } else if (!got) {
    pd_sse_sleep(&t->reader);
  }
  if (got) t->is_beat = false;
  pthread_mutex_unlock(&f->lock);
  return got;
}

/* A session keeps so many streams without a connection; the oldest goes. Under the list's lock; NULL: none has to. */
static pd_mcp_flow *take_surplus(pd_mcp_flows *flows, const char *session_id)
{
  pd_mcp_flow *oldest = NULL;
  unsigned count = 0;
  for (pd_mcp_flow *f = flows->first; f; f = f->next) {
    if (strcmp(f->session_id, session_id) != 0) continue;
    pthread_mutex_lock(&f->lock);
    if (!f->tap && !f->request) {
      count++;
      if (!f->is_get && (!oldest || f->left_ms < oldest->left_ms)) oldest = f;
    }
    pthread_mutex_unlock(&f->lock);
  }
  return count > SESSION_PARKED_MAX && oldest && pd_mcp_flow_unlist(oldest) ? oldest : NULL;
}

/* The response is gone: sent, or the client is. A stream that can be resumed waits for it to come back. */
static void end_stream(void *ctx)
{
  pd_mcp_tap *t = ctx;
  pd_mcp_flow *f = t->flow, *gone = NULL;
  pd_mcp_flows *flows = f->flows;
  pd_gone_forget(flows->gone, &t->leaver);
  pthread_mutex_lock(&flows->lock);
  pthread_mutex_lock(&f->lock);
  if (f->tap == t) {
    f->tap = NULL;
    f->left_ms = pd_clock_monotonic_ms();
  }
  bool is_parked = f->is_resumable && !f->is_lost && !(f->is_get && f->is_done);
  bool is_free = !f->tap && !is_parked;
  pthread_mutex_unlock(&f->lock);
  if (is_free && pd_mcp_flow_unlist(f))
    gone = f;
  else if (is_parked)
    gone = take_surplus(flows, f->session_id);
  pthread_mutex_unlock(&flows->lock);
  if (gone) pd_mcp_flow_drop(gone);
  pd_mcp_flow_release(f);
  free(t);
}

/* It may be gone: a comment tells. */
static void tapper_is_silent(void *ctx)
{
  pd_mcp_tap *t = ctx;
  pthread_mutex_lock(&t->flow->lock);
  t->is_beat = true;
  pd_mcp_flow_wake_tap(t);
  pthread_mutex_unlock(&t->flow->lock);
}

/* Its connection ends, so that a stream that can be resumed waits for it, and what any other asked for is cancelled. */
static void tapper_left(void *ctx)
{
  pd_mcp_tap *t = ctx;
  pthread_mutex_lock(&t->flow->lock);
  t->is_over = true;
  pd_mcp_flow_wake_tap(t);
  pthread_mutex_unlock(&t->flow->lock);
}

/* The stream from `at` on is the answer; whoever had it before has it no more. False: no memory. */
static bool attach(pd_mcp_flow *f, pd_request *request, uint64_t at)
{
  pd_mcp_tap *t = calloc(1, sizeof *t);
  if (!t) return false;
  *t = (pd_mcp_tap){.flow = f, .reader = {.connection = request->connection, .at = at}};
  request->stream = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, read_stream, t, end_stream);
  if (!request->stream) {
    free(t);
    return false;
  }
  atomic_fetch_add(&f->refs, 1);
  pthread_mutex_lock(&f->lock);
  pd_mcp_tap *before = f->tap;
  if (before) before->is_over = true;
  pd_mcp_flow_wake_tap(before);
  f->tap = t;
  f->spoke_ms = pd_clock_monotonic_ms();
  pthread_mutex_unlock(&f->lock);
  t->leaver = (pd_leaver){.half = tapper_is_silent, .left = tapper_left, .ctx = t, .fd = request->conn ? request->conn->fd : -1};
  pd_gone_watch(f->flows->gone, &t->leaver);
  request->type = "text/event-stream";
  pd_reply_header(request, "X-Accel-Buffering", "no");
  request->status = MHD_HTTP_OK;
  return true;
}

/* ---- answering ---- */

void pd_mcp_flow_stream(pd_mcp_flow *f, pd_request *request)
{
  pthread_mutex_lock(&f->lock);
  pd_code code = become_stream(f);
  bool may_last = !f->is_done;
  pthread_mutex_unlock(&f->lock);
  enlist(f);
  bool has_room = !may_last || pd_request_streams(request);
  if (!code && has_room && attach(f, request, 0)) return;
  pthread_mutex_lock(&f->flows->lock);
  bool is_ours = pd_mcp_flow_unlist(f);
  pthread_mutex_unlock(&f->flows->lock);
  if (is_ours) pd_mcp_flow_drop(f);
  if (!has_room) return; /* the request says so */
  pd_reply_failure(request, MHD_HTTP_SERVICE_UNAVAILABLE, PD_NO_MEMORY, NULL, "Try again.", "out of memory");
}

/* One message, or none. Under the lock. */
static void reply_plain(pd_mcp_flow *f, pd_request *request)
{
  pd_buf_done(&request->out);
  request->out = f->message;
  f->message = (pd_buf){0};
  request->type = f->count ? "application/json" : NULL;
  request->status = (unsigned)f->status;
}

void pd_mcp_flow_answer(pd_mcp_flow *f, pd_request *request)
{
  if (f->was_listed) pd_gone_forget(f->flows->gone, &f->leaver); /* it was attended to */
  pthread_mutex_lock(&f->lock);
  bool is_left = f->is_left && !f->is_done;
  if (is_left) { /* nobody reads it */
    f->is_done = true;
    f->status = MHD_HTTP_OK;
  }
  bool is_plain = f->is_done && f->count <= 1 && !f->is_stream;
  if (is_plain) reply_plain(f, request);
  pthread_mutex_unlock(&f->lock);
  if (is_left) pd_mcp_hang_up(f->flows->mcp, f);
  if (is_plain) unlist_and_let_go(f);
  if (*f->new_session) pd_reply_header(request, "Mcp-Session-Id", f->new_session);
  if (!is_plain) pd_mcp_flow_stream(f, request);
}

/* ---- coming back ---- */

/* The flow of that number and session, held; NULL: none. */
static pd_mcp_flow *find(pd_mcp_flows *flows, const char *session, uint64_t number, bool is_get)
{
  pthread_mutex_lock(&flows->lock);
  pd_mcp_flow *f = flows->first;
  while (f && (f->number != number || f->is_get != is_get || strcmp(f->session_id, session) != 0)) f = f->next;
  if (f) pd_mcp_flow_hold(f);
  pthread_mutex_unlock(&flows->lock);
  return f;
}

pd_mcp_resumed pd_mcp_flow_resume(pd_mcp_flows *flows, pd_request *request, const char *session, const char *event_id)
{
  unsigned boot = 0;
  unsigned long long number = 0, event = 0;
  uint64_t at = 0;
  char kind = 0, canonical[64];
  if (strlen(event_id) >= sizeof canonical || sscanf(event_id, "%c%8x-%16llx-%16llx", &kind, &boot, &number, &event) != 4)
    return PD_MCP_LOST;
  snprintf(canonical, sizeof canonical, "%c%08x-%llx-%llx", kind, boot, number, event);
  if ((kind != 'g' && kind != 'p') || strcmp(canonical, event_id) != 0) return PD_MCP_LOST;
  pd_mcp_resumed otherwise = kind == 'g' ? PD_MCP_ANEW : PD_MCP_LOST;
  pd_mcp_flow *f = boot == flows->boot ? find(flows, session, number, kind == 'g') : NULL;
  if (!f) return otherwise;
  pthread_mutex_lock(&f->lock);
  bool is_there = !f->is_lost && pd_sse_after(&f->stream, event, &at) && !(f->is_get && f->is_done);
  pthread_mutex_unlock(&f->lock);
  if (is_there) is_there = attach(f, request, at);
  pd_mcp_flow_release(f);
  return is_there ? PD_MCP_RESUMED : otherwise;
}
