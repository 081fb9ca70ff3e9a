/* bridge.c: see bridge.h for the invariants N1 to N3. One thread, which waits for the client and for the server at once. */
#include "remote/bridge.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "remote/errand.h"
#include "remote/flight.h"
#include "remote/standing.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_SIZE 65536
#define LINE_SIZE_MAX (PD_CALL_SIZE_MAX + 65536)
#define ANSWER_SIZE_MAX (LINE_SIZE_MAX * 4) /* what the server keeps to */
#define WAITING_SIZE_MAX ((size_t)128 * 1024 * 1024)
#define WAITING_COUNT_MAX 1000u
#define FLYING_MAX 32u /* requests; and as many subscriptions, and as many of what waits for nothing */
#define PATIENCE_MS 300
#define OPENING_MS 10000 /* so long all wait for the stream of the session: what is subscribed to then is not missed */
#define AGAIN_MS 1000
#define AGAIN_MAX 5u
#define LEAVE_MS 2000 /* for those who wait for what may never happen: an answer of a client that is gone, a letter */
#define DELETE_MS 3000L
#define INTERNAL_ERROR (-32603)
#define INVALID_REQUEST (-32600)

typedef struct bridge bridge;

/* A line of the client and its request; or, without a line, the stream of the session. */
typedef struct trip {
  struct trip *next;
  bridge *b;
  pd_errand errand;
  pd_flight flight;
  bool is_stream;
  bool is_back;               /* the stream, after it broke off */
  bool is_ours;               /* N4: the client has had its answer */
  bool asks;                  /* the server asked the client something on it */
  int64_t since_ms, again_ms; /* again: when it is tried once more; 0: it is on its way */
  unsigned tries;
} trip;

struct bridge {
  const pd_bridge_options *options;
  CURLM *multi;
  pd_buf in;
  trip *waiting, **last, *flying;
  size_t waiting_count, waiting_size;
  const trip *turn, *opener; /* whose turn it is; and initialize, while it is on its way */
  trip *stream;
  char session[PD_FLIGHT_SESSION_SIZE], version[32]; /* what initialize was answered */
  pd_standing standing;
  bool is_skipping, is_ended, is_stopped, is_let_in;
  int64_t ended_ms;
  pd_error gone, failed; /* gone: why nothing was let in. failed: the bridge cannot go on */
};

/* ---- out ---- */

static void write_out(bridge *b, const pd_buf *lines)
{
  if (!b->failed.code && lines->size) (void)!pd_fd_write(b->options->out, lines->data, lines->size, "standard output", &b->failed);
}

static void learn_version(bridge *b, pd_json message)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = sizeof b->version - 1};
  pd_json version = pd_json_member(pd_json_member(message, "result"), "protocolVersion");
  if (version.kind == PD_JSON_STRING && pd_json_decode(version, &text, NULL) == PD_OK)
    snprintf(b->version, sizeof b->version, "%.*s", (int)text.size, (const char *)text.data);
}

/* N4: what was subscribed to may have changed while nobody heard of it. */
static void write_updated(pd_json_writer *w, pd_json uri)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "jsonrpc", "2.0");
  pd_json_put_text(w, "method", "notifications/resources/updated");
  pd_json_key(w, "params");
  pd_json_open(w, '{');
  pd_json_key(w, "uri");
  pd_json_value(w, uri);
  pd_json_close(w, '}');
  pd_json_close(w, '}');
}

static void deliver(trip *t, pd_json message)
{
  CLEANUP(pd_buf_done) pd_buf line = {0};
  bridge *b = t->b;
  pd_json uri = t->is_ours ? pd_standing_uri(&t->errand) : (pd_json){0};
  pd_json_writer w = {.out = &line, .err = &b->failed};
  if (t->errand.begins) learn_version(b, message);
  pd_errand_note(&t->errand, message, &t->asks);
  if (!b->failed.code) (void)!pd_standing_note(&b->standing, &t->errand, message, &b->failed);
  if (!t->is_ours)
    pd_json_value(&w, message);
  else if (uri.kind == PD_JSON_STRING && pd_json_member(message, "result").kind == PD_JSON_OBJECT)
    write_updated(&w, uri);
  if (!w.code && line.size && pd_buf_byte(&line, '\n', &b->failed) == PD_OK) write_out(b, &line);
}

static void take_event(void *ctx, pd_bytes data)
{
  pd_json message;
  if (pd_json_parse(data, &message, NULL) == PD_OK) deliver(ctx, message);
}

static void fail(trip *t, int64_t code, const char *message)
{
  CLEANUP(pd_buf_done) pd_buf lines = {0};
  if (t->is_stream || t->is_ours) return;
  if (pd_errand_fail(&t->errand, code, message, &lines, &t->b->failed) == PD_OK) write_out(t->b, &lines);
}

/* ---- trips ---- */

static trip *new_trip(bridge *b, bool is_stream)
{
  trip *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->b = b;
  t->is_stream = is_stream;
  t->flight.events = (pd_events){.told = take_event, .ctx = t, .size_max = ANSWER_SIZE_MAX};
  return t;
}

static void free_trip(trip *t)
{
  bridge *b = t->b;
  if (b->turn == t) b->turn = NULL;
  if (b->opener == t) b->opener = NULL;
  if (b->stream == t) b->stream = NULL;
  pd_flight_done(&t->flight, b->multi);
  pd_errand_done(&t->errand);
  free(t);
}

static void drop(trip *t)
{
  for (trip **at = &t->b->flying; *at; at = &(*at)->next)
    if (*at == t) {
      *at = t->next;
      break;
    }
  free_trip(t);
}

/* A stream that broke off is asked for again from where it was; all else is posted. */
static pd_code launch(trip *t, pd_error *err)
{
  bridge *b = t->b;
  bool is_get = t->is_stream || *t->flight.events.id, is_modern = *t->errand.version;
  bool has_session = !is_modern && !t->errand.begins;
  pd_remote_request request = {.uri = b->options->uri,
                               .method = is_get ? "GET" : "POST",
                               .path = "/mcp",
                               .agent = b->options->agent,
                               .role = "agent",
                               .body = pd_buf_bytes(&t->errand.text),
                               .is_slow = true};
  pd_flight_header headers[] = {
    {"Accept", is_get ? "text/event-stream" : "application/json, text/event-stream"},
    {"MCP-Protocol-Version", is_modern     ? t->errand.version
                             : has_session ? b->version
                                           : NULL},
    {"Mcp-Session-Id", has_session ? b->session : NULL},
    {"Mcp-Method", is_modern ? (const char *)t->errand.method.data : NULL},
    {"Mcp-Name", is_modern ? (const char *)t->errand.name.data : NULL},
    {"Last-Event-ID", t->flight.events.id},
  };
  t->again_ms = 0;
  return pd_flight_begin(&t->flight, b->multi, &request, headers, COUNT_OF(headers), err);
}

/* It is in no list yet. */
static void start(trip *t)
{
  bridge *b = t->b;
  pd_error err = {0};
  if (launch(t, &err)) {
    fail(t, INTERNAL_ERROR, err.message);
    free_trip(t);
    return;
  }
  t->since_ms = pd_clock_monotonic_ms();
  t->next = b->flying;
  b->flying = t;
  if (t->is_stream) b->stream = t;
  if (t->errand.begins) b->opener = t;
  if (!t->is_stream && !t->errand.is_quick) b->turn = t;
}

static void open_stream(bridge *b)
{
  if (b->stream) drop(b->stream);
  trip *t = new_trip(b, true);
  if (t) start(t);
}

/* ---- N2: which begins when ---- */

typedef struct census {
  unsigned calls, listens, quick;
} census;

static census count_flying(const bridge *b)
{
  census count = {0};
  for (const trip *t = b->flying; t; t = t->next)
    if (t->errand.is_open_ended)
      count.listens++;
    else if (t->errand.is_quick)
      count.quick++;
    else if (!t->is_stream)
      count.calls++;
  return count;
}

static bool is_held(const bridge *b, int64_t now_ms)
{
  if (b->opener) return true;
  return b->stream && !b->stream->flight.is_open && !b->stream->tries && now_ms - b->stream->since_ms < OPENING_MS;
}

static bool may_start(const bridge *b, const trip *t, const census *count, int64_t now_ms)
{
  if (t->errand.is_quick) return count->quick < FLYING_MAX;
  if (b->turn && now_ms - b->turn->since_ms < PATIENCE_MS) return false;
  return t->errand.is_open_ended || count->calls < FLYING_MAX;
}

static trip *take_waiting(bridge *b, trip **at)
{
  trip *t = *at;
  *at = t->next;
  if (b->last == &t->next) b->last = at;
  b->waiting_count--;
  b->waiting_size -= t->errand.text.size;
  return t;
}

static void wait_first(bridge *b, trip *t)
{
  t->next = b->waiting;
  b->waiting = t;
  if (b->last == &b->waiting) b->last = &t->next;
  b->waiting_count++;
  b->waiting_size += t->errand.text.size;
}

/* N4 */
static void ask_again(bridge *b)
{
  for (size_t i = 0; i < b->standing.count && !b->failed.code; i++) {
    trip *t = new_trip(b, false);
    if (!t || pd_errand_init(&t->errand, pd_buf_bytes(&b->standing.wishes[i].line), &b->failed)) {
      if (t) free_trip(t);
      continue;
    }
    t->is_ours = true;
    wait_first(b, t);
  }
}

/* The stream is back: as it was, or of a server that knows nothing of the one before. */
static void greet_stream(bridge *b)
{
  trip *t = b->stream;
  if (!t || !t->is_back || t->again_ms || !t->flight.is_open || t->flight.status != 200) return;
  t->is_back = false;
  if (!t->flight.is_resumed) ask_again(b);
}

static void start_due(bridge *b)
{
  int64_t now_ms = pd_clock_monotonic_ms();
  bool is_blocked = false;
  for (trip **at = &b->waiting; *at && !is_held(b, now_ms);) {
    trip *t = *at;
    census count = count_flying(b);
    if (t->errand.begins && is_blocked) return;
    if ((is_blocked && !t->errand.is_quick) || !may_start(b, t, &count, now_ms)) {
      is_blocked = true;
      at = &t->next;
      continue;
    }
    take_waiting(b, at);
    if (t->errand.is_open_ended && count.listens >= FLYING_MAX) {
      fail(t, INVALID_REQUEST, "there are too many subscriptions at once; end some");
      free_trip(t);
    } else {
      start(t);
    }
  }
}

static void try_again(bridge *b)
{
  int64_t now_ms = pd_clock_monotonic_ms();
  for (trip *t = b->flying, *next; t; t = next) {
    pd_error err = {0};
    next = t->next;
    if (!t->again_ms || t->again_ms > now_ms || launch(t, &err) == PD_OK) continue;
    fail(t, INTERNAL_ERROR, err.message);
    drop(t);
  }
}

/* ---- what came of it ---- */

/* One that reached the server begins to count anew. */
static void again_later(trip *t)
{
  if (t->flight.status == 200) t->tries = 0;
  uint32_t pause_ms = t->flight.events.retry_ms ? t->flight.events.retry_ms : AGAIN_MS;
  t->again_ms = pd_clock_monotonic_ms() + ((int64_t)pause_ms << (t->tries < AGAIN_MAX ? t->tries : AGAIN_MAX));
  t->tries++;
}

/* The server will not have it (4xx), or it broke off and is wanted again. */
static void end_stream(trip *t)
{
  unsigned status = t->flight.status;
  t->is_back = true;
  if (status >= 400 && status < 500)
    drop(t);
  else
    again_later(t);
}

/* An answer that is no stream. What names no request, though one waits, is an error for that one. */
static void take_plain(trip *t)
{
  pd_json answer;
  if (!t->flight.body.size || pd_json_parse(pd_buf_bytes(&t->flight.body), &answer, NULL)) return;
  pd_json_kind id = pd_json_member(answer, "id").kind;
  bool is_message = answer.kind == PD_JSON_ARRAY || pd_json_member(answer, "jsonrpc").kind == PD_JSON_STRING;
  bool is_named = answer.kind == PD_JSON_ARRAY || (id != PD_JSON_NONE && id != PD_JSON_NULL);
  if (!is_message || (!is_named && pd_errand_waits(&t->errand))) return;
  deliver(t, answer);
  if (!is_named) t->errand.is_settled = true;
}

/* In the server's words if it has some: {"error":{"code":…,"message":…}}, of JSON-RPC or of its other routes. */
static void fail_by_answer(trip *t)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json answer = {0};
  int64_t code;
  bool is_json = t->flight.body.size && pd_json_parse(pd_buf_bytes(&t->flight.body), &answer, NULL) == PD_OK;
  pd_json error = is_json ? pd_json_member(answer, "error") : (pd_json){0};
  if (!pd_json_i64(pd_json_member(error, "code"), &code)) code = INTERNAL_ERROR;
  pd_json message = pd_json_member(error, "message");
  if (message.kind != PD_JSON_STRING || pd_json_decode(message, &text, NULL) || pd_buf_byte(&text, 0, NULL)) {
    pd_buf_clear(&text);
    if (pd_buf_printf(&text, &t->b->failed, "the server at %.200s answered with status %u and nothing else; is it a perdure?%c",
                      t->b->options->uri, t->flight.status, 0))
      return;
  }
  fail(t, code, (const char *)text.data);
}

/* Within a session the answer is kept for who comes back. */
static bool may_resume(const trip *t)
{
  unsigned status = t->flight.status;
  return !*t->errand.version && *t->b->session && *t->flight.events.id && t->tries < AGAIN_MAX && (status < 400 || status >= 500);
}

static void end_call(trip *t, pd_code code, const pd_error *err)
{
  bridge *b = t->b;
  if (!code && !t->flight.is_events) take_plain(t);
  if (pd_errand_waits(&t->errand) && may_resume(t)) {
    again_later(t);
    return;
  }
  bool opens = t->errand.begins && t->flight.status == 200;
  if (code)
    fail(t, INTERNAL_ERROR, err->message);
  else if (pd_errand_waits(&t->errand))
    fail_by_answer(t);
  if (opens) snprintf(b->session, sizeof b->session, "%s", t->flight.session);
  drop(t);
  if (opens && *b->session && !b->is_ended) open_stream(b);
}

/* By the door of the server, whatever was asked. */
static bool is_refused(const trip *t)
{
  return t->flight.status == 401 || t->flight.status == 403;
}

static void note_refusal(trip *t)
{
  pd_remote_reply reply = {.status = t->flight.status};
  (void)!pd_remote_error(&reply, pd_buf_bytes(&t->flight.body), t->b->options->uri, &t->b->gone);
  t->b->gone.code = PD_DENIED;
}

static void end_trip(trip *t, CURLcode result)
{
  bridge *b = t->b;
  pd_error err = {0};
  pd_code code = pd_flight_land(&t->flight, b->multi, result, b->options->uri, &err);
  if (t->flight.status && !is_refused(t)) b->is_let_in = true;
  if (code && !t->flight.status) b->gone = err;
  if (is_refused(t)) note_refusal(t);
  if (t->is_stream)
    end_stream(t);
  else
    end_call(t, code, &err);
}

static void collect(bridge *b)
{
  int left;
  for (CURLMsg *message; (message = pd_libcurl.multi_info_read(b->multi, &left));) {
    if (message->msg != CURLMSG_DONE) continue;
    trip *t = b->flying;
    while (t && t->flight.easy != message->easy_handle) t = t->next;
    if (t) end_trip(t, message->data.result);
  }
}

/* ---- in ---- */

/* N1. True: that is all there is to do; else the server has to hear of it, too. */
static bool cancel(bridge *b, pd_json id)
{
  for (trip **at = &b->waiting; *at; at = &(*at)->next)
    if (!(*at)->is_ours && (*at)->errand.json.kind == PD_JSON_OBJECT && pd_errand_has(&(*at)->errand, id)) {
      free_trip(take_waiting(b, at));
      return true;
    }
  for (trip *t = b->flying; t; t = t->next)
    if (!t->is_ours && pd_errand_has(&t->errand, id)) {
      bool is_modern = *t->errand.version; /* there, to hang up is to cancel */
      pd_errand_drop(&t->errand, id);
      if (is_modern) drop(t);
      return is_modern;
    }
  return false;
}

static pd_code take_line(bridge *b, pd_bytes text, pd_error *err)
{
  if (text.size && ((const char *)text.data)[text.size - 1] == '\r') text.size--;
  if (!text.size) return PD_OK;
  trip *t = new_trip(b, false);
  if (!t) return pd_error_memory(err, "a message");
  pd_code code = pd_errand_init(&t->errand, text, err);
  pd_json id = code ? (pd_json){0} : pd_errand_cancels(&t->errand);
  if (code || (id.kind != PD_JSON_NONE && cancel(b, id))) {
    free_trip(t);
    return code;
  }
  *b->last = t;
  b->last = &t->next;
  b->waiting_count++;
  b->waiting_size += text.size;
  return PD_OK;
}

static pd_code refuse_long(bridge *b, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf line = {0};
  pd_errand none = {0};
  char text[96];
  snprintf(text, sizeof text, "a message is longer than %zu bytes", (size_t)LINE_SIZE_MAX);
  TRY(pd_errand_fail(&none, INVALID_REQUEST, text, &line, err));
  write_out(b, &line);
  return PD_OK;
}

/* All whole lines; the rest moves to the beginning. */
static pd_code take_lines(bridge *b, pd_error *err)
{
  size_t at = 0;
  for (;;) {
    uint8_t *end = b->in.size > at ? memchr(b->in.data + at, '\n', b->in.size - at) : NULL;
    if (!end) break;
    if (!b->is_skipping) TRY(take_line(b, (pd_bytes){b->in.data + at, (size_t)(end - b->in.data) - at}, err));
    b->is_skipping = false;
    at = (size_t)(end - b->in.data) + 1;
  }
  if (at) memmove(b->in.data, b->in.data + at, b->in.size - at);
  b->in.size -= at;
  if (b->in.size <= LINE_SIZE_MAX) return PD_OK;
  if (!b->is_skipping) TRY(refuse_long(b, err));
  b->is_skipping = true;
  pd_buf_clear(&b->in);
  return PD_OK;
}

static pd_code read_in(bridge *b, pd_error *err)
{
  TRY(pd_buf_reserve(&b->in, READ_SIZE, err));
  ssize_t got = read(b->options->in, b->in.data + b->in.size, READ_SIZE);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return PD_OK;
  if (got < 0) return pd_error_set(err, PD_STORAGE, "cannot read standard input: %s", strerror(errno));
  b->in.size += (size_t)got;
  if (got) return take_lines(b, err);
  b->is_ended = true;
  b->ended_ms = pd_clock_monotonic_ms();
  return b->in.size && !b->is_skipping ? take_line(b, pd_buf_bytes(&b->in), err) : PD_OK; /* a last line without its end */
}

/* ---- the loop ---- */

/* Is there nobody left who is worth waiting for? */
static bool is_over(const bridge *b)
{
  if (b->failed.code || b->is_stopped) return true;
  if (!b->is_ended || b->waiting) return false;
  bool is_late = pd_clock_monotonic_ms() - b->ended_ms > LEAVE_MS;
  for (const trip *t = b->flying; t; t = t->next)
    if (!t->is_stream && !t->errand.is_open_ended && !((t->asks || t->errand.may_wait) && is_late)) return false;
  return true;
}

static int sooner(int wait_ms, int64_t left_ms)
{
  return left_ms < 0 ? 0 : left_ms < wait_ms ? (int)left_ms : wait_ms;
}

/* Until something is due by its time. */
static int pause_ms(const bridge *b)
{
  int64_t now_ms = pd_clock_monotonic_ms();
  int wait_ms = 1000;
  if (b->waiting && b->turn && now_ms - b->turn->since_ms < PATIENCE_MS)
    wait_ms = sooner(wait_ms, b->turn->since_ms + PATIENCE_MS - now_ms);
  for (const trip *t = b->flying; t; t = t->next)
    if (t->again_ms) wait_ms = sooner(wait_ms, t->again_ms - now_ms);
  return wait_ms;
}

static bool is_ready(int fd, short events)
{
  struct pollfd is_there = {.fd = fd, .events = events};
  return fd >= 0 && poll(&is_there, 1, 0) > 0;
}

/* Until the client, the server or the clock has something to say. A reader who is gone is heard of without a write. */
static void await(bridge *b, bool has_room)
{
  struct curl_waitfd fds[3] = {{.fd = b->options->out}};
  unsigned count = 1;
  if (b->options->stop >= 0) fds[count++] = (struct curl_waitfd){.fd = b->options->stop, .events = CURL_WAIT_POLLIN};
  if (has_room) fds[count++] = (struct curl_waitfd){.fd = b->options->in, .events = CURL_WAIT_POLLIN};
  pd_libcurl.multi_poll(b->multi, fds, count, pause_ms(b), NULL);
  b->is_stopped = is_ready(b->options->stop, POLLIN);
  if (!b->failed.code && is_ready(b->options->out, 0)) pd_error_set(&b->failed, PD_STORAGE, "nobody reads standard output any more");
}

static pd_code go_round(bridge *b, pd_error *err)
{
  int running;
  bool has_room = !b->is_ended && b->waiting_count < WAITING_COUNT_MAX && b->waiting_size < WAITING_SIZE_MAX;
  await(b, has_room);
  if (b->is_stopped || b->failed.code) return PD_OK;
  if (has_room && is_ready(b->options->in, POLLIN)) TRY(read_in(b, err));
  try_again(b);
  start_due(b);
  pd_libcurl.multi_perform(b->multi, &running);
  collect(b);
  greet_stream(b);
  start_due(b); /* what waited for one that just ended */
  return PD_OK;
}

/* So that the server need not keep it for a day. If it cannot be told, it will. */
static void end_session(bridge *b)
{
  CLEANUP(pd_exchange_done) pd_exchange x = {0};
  CLEANUP(pd_buf_done) pd_buf out = {.size_max = READ_SIZE};
  pd_remote_request request = {.uri = b->options->uri, .method = "DELETE", .path = "/mcp", .agent = b->options->agent, .role = "agent"};
  if (!*b->session) return;
  CURL *easy = pd_libcurl.easy_init();
  if (easy && pd_exchange_begin(&x, easy, &request, &out, NULL) == PD_OK &&
      pd_exchange_header(&x, "Mcp-Session-Id", b->session, NULL) == PD_OK &&
      pd_exchange_header(&x, "MCP-Protocol-Version", *b->version ? b->version : NULL, NULL) == PD_OK) {
    pd_libcurl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    pd_libcurl.easy_setopt(easy, CURLOPT_TIMEOUT_MS, DELETE_MS);
    (void)!pd_libcurl.easy_perform(easy);
  }
  pd_libcurl.easy_cleanup(easy);
}

static void leave(bridge *b)
{
  const char *why = b->is_stopped ? "it was told to end before the answer came" : "the input ended before the answer came";
  if (b->is_stopped)
    for (trip *t = b->waiting; t; t = t->next) fail(t, INTERNAL_ERROR, why);
  while (b->waiting) free_trip(take_waiting(b, &b->waiting));
  while (b->flying) {
    if (!b->flying->errand.is_open_ended) fail(b->flying, INTERNAL_ERROR, why);
    drop(b->flying);
  }
  end_session(b);
  pd_libcurl.multi_cleanup(b->multi);
  pd_buf_done(&b->in);
  pd_standing_done(&b->standing);
}

pd_code pd_bridge_run(const pd_bridge_options *options, pd_error *err)
{
  TRY(pd_curl_load(err));
  bridge b = {.options = options, .multi = pd_libcurl.multi_init()};
  pd_error own = {0};
  if (!b.multi) return pd_error_memory(err, "connections");
  b.last = &b.waiting;
  pd_code code = PD_OK;
  while (!code && !is_over(&b)) code = go_round(&b, &own);
  leave(&b);
  if (!code && b.failed.code) own = b.failed;
  if (!code && !own.code && !b.is_let_in) own = b.gone;
  if (own.code && err) *err = own;
  return own.code;
}
