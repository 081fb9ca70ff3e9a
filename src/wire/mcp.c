/* mcp.c: a pd_mcp and the way of one message through it: parse, run, answer. Invariants M1 to M4 are in mcp.h. */
#include "wire/mcp.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/json_error.h"
#include "wire/mcp_inside.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- making ---- */

static pd_code add_filter(pd_mcp *mcp, const char *text, size_t size, size_t *capacity, pd_error *err)
{
  pd_capability_info info;
  TRY(pd_array_grow(&mcp->filters, mcp->filter_count, capacity, sizeof mcp->filters[0], "the filter of tools", err));
  char *copy = strndup(text, size);
  if (!copy) return pd_error_memory(err, "the filter of tools");
  for (char *c = copy; *c; c++)
    if (*c == '_') *c = '.'; /* either spelling of a tool */
  mcp->filters[mcp->filter_count++] = copy;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++)
    if (info.permission != PD_PERMIT_OPERATOR && pd_glob_match(pd_text(copy), pd_text(info.name))) return PD_OK;
  return pd_error_set(err, PD_INVALID, "no tool fits '%s'; the capabilities are listed by: perdure capabilities", copy);
}

static pd_code read_filters(pd_mcp *mcp, const char *text, pd_error *err)
{
  size_t capacity = 0;
  for (const char *at = text; at && *at;) {
    size_t size = strcspn(at, ", ");
    if (size) TRY(add_filter(mcp, at, size, &capacity, err));
    at += size + (at[size] != 0);
  }
  return PD_OK;
}

bool pd_mcp_fits(const pd_mcp *mcp, const char *capability)
{
  bool fits = mcp->filter_count == 0;
  for (size_t i = 0; i < mcp->filter_count && !fits; i++) fits = pd_glob_match(pd_text(mcp->filters[i]), pd_text(capability));
  return fits;
}

void *pd_mcp_provider_ctx(const pd_mcp *mcp)
{
  return mcp->provider_ctx;
}

static pd_code fill(pd_mcp *mcp, const pd_mcp_options *options, pd_error *err)
{
  mcp->uri = strdup(options->uri ? options->uri : "");
  if (!mcp->uri) return pd_error_memory(err, "the home's URI");
  TRY(read_filters(mcp, options->tools, err));
  TRY(pd_mcp_keys(mcp, options->key_file, err));
  return mcp->provider->open ? mcp->provider->open(mcp, err) : PD_OK;
}

pd_code pd_mcp_new(const pd_mcp_options *options, pd_mcp **out, pd_error *err)
{
  pd_mcp *mcp = calloc(1, sizeof *mcp);
  if (!mcp) return pd_error_memory(err, "the MCP server");
  pthread_mutex_init(&mcp->lock, NULL);
  mcp->sessions.text_at = offsetof(pd_mcp_session, id);
  mcp->owners.text_at = offsetof(pd_mcp_owner, agent);
  mcp->agent_sessions.text_at = offsetof(pd_mcp_agent_session, agent);
  mcp->home = options->home;
  mcp->provider = options->provider ? options->provider : &pd_mcp_home;
  mcp->provider_ctx = options->provider_ctx;
  mcp->now_ms = options->now_ms ? options->now_ms : pd_clock_now_ms;
  mcp->now_ctx = options->now_ctx;
  mcp->page_count = options->page_count;
  pd_code code = fill(mcp, options, err);
  if (code) {
    pd_mcp_free(mcp);
    return code;
  }
  *out = mcp;
  return PD_OK;
}

void pd_mcp_hurry(pd_mcp *mcp)
{
  atomic_store(&mcp->is_hurrying, true);
}

void pd_mcp_drain(pd_mcp *mcp)
{
  pd_mcp_hurry(mcp);
  pd_mcp_ask_sweep(mcp, true);
  pd_mcp_listen_sweep(mcp, true);
}

void pd_mcp_tick(pd_mcp *mcp)
{
  pd_mcp_ask_sweep(mcp, false);
  pd_mcp_listen_sweep(mcp, false);
  pd_mcp_sessions_sweep(mcp, false);
}

void pd_mcp_free(pd_mcp *mcp)
{
  if (!mcp) return;
  pd_mcp_drain(mcp);
  pd_mcp_sessions_sweep(mcp, true);
  if (mcp->provider->close) mcp->provider->close(mcp);
  for (size_t i = 0; i < mcp->filter_count; i++) free(mcp->filters[i]);
  free(mcp->filters);
  free(mcp->uri);
  free(mcp->ended);
  pthread_mutex_destroy(&mcp->lock);
  explicit_bzero(mcp, sizeof *mcp);
  free(mcp);
}

void pd_mcp_counts(pd_mcp *mcp, size_t *out_sessions, size_t *out_streams)
{
  pthread_mutex_lock(&mcp->lock);
  *out_sessions = mcp->sessions.count;
  *out_streams = mcp->stream_count;
  pthread_mutex_unlock(&mcp->lock);
}

/* ---- answering ---- */

/* The one answer that needs no memory. */
static void send_out_of_memory(pd_mcp_exchange *exchange)
{
  char text[PD_MCP_ID_SIZE_MAX + 128];
  int size = snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":\"out of memory\"}}",
                      *exchange->id ? exchange->id : "null", PD_MCP_INTERNAL_ERROR);
  pd_mcp_exchange_send(exchange, (pd_bytes){text, (size_t)size}, 500, true);
}

static void send_error(pd_mcp_exchange *exchange, int code, const char *message, pd_bytes data, int status)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  pd_json_rpc_error(&w, pd_text(exchange->id), code, message, data);
  if (w.code)
    send_out_of_memory(exchange);
  else
    pd_mcp_exchange_send(exchange, pd_buf_bytes(&text), status, true);
}

void pd_mcp_write_server(pd_mcp_turn *turn, pd_json_writer *w)
{
  const pd_mcp_provider *p = turn->mcp->provider;
  pd_json_key(w, "io.modelcontextprotocol/serverInfo");
  pd_json_open(w, '{');
  pd_json_put_text(w, "name", p->name);
  pd_json_put_text(w, "title", p->title);
  pd_json_put_text(w, "version", p->version ? p->version : pd_version());
  pd_json_close(w, '}');
}

/* What the modern era wants in every result. */
static void write_modern(pd_mcp_turn *turn, pd_json_writer *w, const char *type)
{
  pd_json_put_text(w, "resultType", type);
  if (turn->is_cacheable && !turn->ask_count) {
    pd_json_put_number(w, "ttlMs", turn->ttl_ms);
    pd_json_put_text(w, "cacheScope", turn->is_public ? "public" : "private");
  }
  pd_json_key(w, "_meta");
  pd_json_open(w, '{');
  pd_mcp_write_server(turn, w);
  pd_json_close(w, '}');
}

static void send_result(pd_mcp_turn *turn, pd_bytes members)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  pd_json_rpc_begin(&w, pd_text(turn->exchange->id));
  pd_json_key(&w, "result");
  pd_json_open(&w, '{');
  if (members.size) pd_json_raw(&w, members);
  if (turn->is_modern) write_modern(turn, &w, "complete");
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  if (w.code)
    send_out_of_memory(turn->exchange);
  else
    pd_mcp_exchange_send(turn->exchange, pd_buf_bytes(&text), 200, true);
}

static pd_code send_input_required(pd_mcp_turn *turn, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_buf_done) pd_buf sealed = {0};
  pd_json_writer w = {.out = &text, .err = err};
  TRY(pd_mcp_seal(turn, pd_buf_bytes(&turn->kept), &sealed, err));
  pd_json_rpc_begin(&w, pd_text(turn->exchange->id));
  pd_json_key(&w, "result");
  pd_json_open(&w, '{');
  pd_json_key(&w, "inputRequests");
  pd_json_open(&w, '{');
  pd_json_raw(&w, pd_buf_bytes(&turn->asks));
  pd_json_close(&w, '}');
  pd_json_put_bytes(&w, "requestState", pd_buf_bytes(&sealed));
  write_modern(turn, &w, "input_required");
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  TRY(w.code);
  pd_mcp_exchange_send(turn->exchange, pd_buf_bytes(&text), 200, true);
  return PD_OK;
}

static int status_of(const pd_mcp_turn *turn)
{
  if (turn->status) return turn->status;
  if (!turn->is_modern) return 200;
  if (turn->refused == PD_MCP_METHOD_NOT_FOUND) return 404;
  return turn->refused == PD_MCP_INTERNAL_ERROR ? 500 : 200;
}

/* ---- one request ---- */

void pd_mcp_turn_done(pd_mcp_turn *turn)
{
  pd_buf_done(&turn->body);
  pd_buf_done(&turn->asks);
  pd_buf_done(&turn->kept);
  pd_buf_done(&turn->otherwise);
  pd_buf_done(&turn->refusal);
}

/* Questions: by the era's way. */
static pd_code ask(pd_mcp_turn *turn, pd_bytes message, pd_error *err)
{
  if (turn->is_modern) return send_input_required(turn, err);
  TRY(pd_mcp_ask_client(turn, message, err));
  turn->is_open = true;
  return PD_OK;
}

void pd_mcp_turn_run(pd_mcp_turn *turn, pd_bytes message)
{
  turn->w = (pd_json_writer){.out = &turn->body, .err = &turn->err};
  turn->ask_w = (pd_json_writer){.out = &turn->asks, .err = &turn->err};
  pd_code code = pd_mcp_method_run(turn);
  if (turn->is_waiting) return; /* it is run again */
  if (!code) code = turn->w.code ? turn->w.code : turn->ask_w.code;
  if (pd_mcp_is_cancelled(turn)) {
    pd_mcp_exchange_done(turn->exchange, 200); /* M2 */
    return;
  }
  if (!code && turn->ask_count) code = ask(turn, message, &turn->err);
  if (code && turn->refused)
    send_error(turn->exchange, turn->refused, turn->err.message, pd_buf_bytes(&turn->refusal), status_of(turn));
  else if (code == PD_LIMIT)
    send_error(turn->exchange, PD_MCP_TOO_MANY, turn->err.message, (pd_bytes){0}, 429);
  else if (code)
    send_error(turn->exchange, PD_MCP_INTERNAL_ERROR, turn->err.message, (pd_bytes){0}, 500);
  else if (!turn->is_open && !turn->ask_count)
    send_result(turn, pd_buf_bytes(&turn->body));
  if (code || !turn->is_open) pd_mcp_exchange_done(turn->exchange, 200);
}

/* ---- one message ---- */

static void run_request(pd_mcp *mcp, const pd_mcp_peer *peer, const pd_mcp_message *message, pd_bytes text, pd_mcp_exchange *exchange,
                        bool is_batch)
{
  pd_mcp_turn turn = {
    .mcp = mcp,
    .peer = peer,
    .session = peer->session,
    .exchange = exchange,
    .message = message,
    .is_batch = is_batch,
    .level = PD_MCP_SILENT,
  };
  bool has_begun = peer->wait && peer->wait->deadline_ms;
  if (pd_mcp_is_cancelled(&turn) && !has_begun) {
    pd_mcp_exchange_done(exchange, 200);
    return;
  }
  pd_mcp_turn_run(&turn, text);
  pd_mcp_turn_done(&turn);
}

static void take_notification(pd_mcp *mcp, const pd_mcp_peer *peer, const pd_mcp_message *message)
{
  if (strcmp(message->method, "notifications/cancelled") != 0) return; /* the others ask for nothing */
  pd_mcp_exchange_cancel(mcp, peer->session, pd_json_member(message->params, "requestId"));
  pd_mcp_ask_sweep(mcp, false);
  pd_mcp_listen_sweep(mcp, false);
}

/* A message that was read: what it is, or what is wrong with it. */
typedef struct reading {
  pd_mcp_message message;
  int wrong; /* 0, or a code of JSON-RPC */
  pd_error err;
} reading;

static void read_message(pd_json json, reading *out)
{
  out->wrong = pd_mcp_message_read(json, &out->message, &out->err);
}

/* One message, in its own exchange. */
static void act(pd_mcp *mcp, const pd_mcp_peer *peer, pd_json json, const pd_mcp_message *message, pd_mcp_exchange *exchange, bool is_batch)
{
  if (message->kind == PD_MCP_REQUEST) {
    run_request(mcp, peer, message, json.raw, exchange, is_batch);
    return;
  }
  if (message->kind == PD_MCP_NOTIFICATION) take_notification(mcp, peer, message);
  pd_mcp_exchange_done(exchange, 202); /* who answers does not wait for what goes on with the answer */
  if (message->kind != PD_MCP_NOTIFICATION) pd_mcp_ask_answer(mcp, peer, message);
}

static void take(pd_mcp *mcp, const pd_mcp_peer *peer, pd_json json, const reading *read, pd_mcp_exchange *exchange, bool is_batch)
{
  if (!read->wrong) {
    act(mcp, peer, json, &read->message, exchange, is_batch);
    return;
  }
  send_error(exchange, read->wrong, read->err.message, (pd_bytes){0}, 400);
  pd_mcp_exchange_done(exchange, 400);
}

/* ---- batches: of the revision 2025-03-26 and before ---- */

typedef struct batch {
  pd_buf answers;
  pd_json_writer w;
  size_t count;
} batch;

static void batch_send(void *ctx, pd_bytes message, int status, bool is_last)
{
  batch *b = ctx;
  (void)status;
  if (!is_last) return; /* progress and log lines have no place in an array of answers */
  pd_json_raw(&b->w, message);
  b->count++;
}

static bool may_batch(pd_mcp *mcp, const pd_mcp_peer *peer)
{
  const char *revision = NULL;
  pthread_mutex_lock(&mcp->lock);
  if (peer->session) revision = peer->session->revision;
  pthread_mutex_unlock(&mcp->lock);
  if (!revision) revision = peer->version;
  return !revision || strcmp(revision, "2025-03-26") <= 0;
}

/* One message too many in this second; a notification is dropped. */
static void refuse_item(const reading *read, pd_mcp_exchange *exchange, const pd_error *why)
{
  if (!read->wrong && read->message.kind != PD_MCP_REQUEST) return;
  send_error(exchange, PD_MCP_TOO_MANY, why->message, (pd_bytes){0}, 429);
}

static void take_batch(pd_mcp *mcp, const pd_mcp_peer *peer, pd_json json, pd_mcp_exchange *exchange)
{
  batch b = {0};
  pd_json item;
  size_t items = 0;
  b.w = (pd_json_writer){.out = &b.answers};
  pd_json_walk walk = pd_json_walk_begin(json);
  pd_json_open(&b.w, '[');
  while (pd_json_walk_next(&walk, NULL, &item)) {
    pd_mcp_out out = {.send = batch_send, .ctx = &b};
    pd_mcp_exchange *part = NULL;
    pd_error err = {0};
    reading read;
    read_message(item, &read);
    if (++items > PD_MCP_BATCH_MAX || pd_mcp_exchange_new(mcp, &out, read.message.id, peer->session, &part, NULL)) break;
    if (items == 1 || !peer->gate.admit || peer->gate.admit(peer->gate.ctx, &err) == PD_OK)
      take(mcp, peer, item, &read, part, true);
    else
      refuse_item(&read, part, &err);
    pd_mcp_exchange_done(part, 200);
    pd_mcp_exchange_release(mcp, part);
  }
  pd_json_close(&b.w, ']');
  if (!items || items > PD_MCP_BATCH_MAX || b.w.code)
    send_error(exchange, PD_MCP_INVALID_REQUEST, "a batch has 1 to 100 messages", (pd_bytes){0}, 400);
  else if (b.count)
    pd_mcp_exchange_send(exchange, pd_buf_bytes(&b.answers), 200, true);
  pd_mcp_exchange_done(exchange, b.count ? 200 : 202);
  pd_buf_done(&b.answers);
}

/* ---- accepting and running ---- */

/* A message that was taken and not yet run. */
struct pd_mcp_job {
  pd_buf copy;   /* of the text, if it is the job's own */
  pd_bytes text; /* what is read */
  pd_error err;  /* what is wrong with it as JSON */
  pd_json json;  /* PD_JSON_NONE then */
  reading read;  /* of one message */
  bool is_batch;
  pd_mcp_exchange *exchange;
};

static bool is_waiting(const pd_mcp_peer *peer)
{
  return peer->wait && peer->wait->is_waiting;
}

static bool accept_text(pd_mcp *mcp, const pd_mcp_peer *peer, const pd_mcp_out *out, pd_mcp_job *job)
{
  if (job->text.size > PD_MCP_MESSAGE_SIZE_MAX)
    pd_error_set(&job->err, PD_LIMIT, "a message of %zu bytes; at most %zu", job->text.size, (size_t)PD_MCP_MESSAGE_SIZE_MAX);
  else if (pd_json_parse(job->text, &job->json, &job->err))
    job->json = (pd_json){0};
  job->is_batch = job->json.kind == PD_JSON_ARRAY && may_batch(mcp, peer);
  if (!job->is_batch && job->json.kind != PD_JSON_NONE) read_message(job->json, &job->read);
  if (pd_mcp_exchange_new(mcp, out, job->read.message.id, peer->session, &job->exchange, NULL) == PD_OK) return true;
  out->done(out->ctx, 503);
  return false;
}

/* False: it waits, and is run again. */
static bool run_text(pd_mcp *mcp, const pd_mcp_peer *peer, pd_mcp_job *job)
{
  if (peer->wait) peer->wait->is_waiting = false;
  if (job->json.kind == PD_JSON_NONE) {
    send_error(job->exchange, PD_MCP_PARSE_ERROR, job->err.message, (pd_bytes){0}, job->err.code == PD_LIMIT ? 413 : 400);
    pd_mcp_exchange_done(job->exchange, 400);
  } else if (job->is_batch) {
    take_batch(mcp, peer, job->json, job->exchange);
  } else {
    take(mcp, peer, job->json, &job->read, job->exchange, false);
    if (is_waiting(peer)) return false;
  }
  pd_mcp_exchange_release(mcp, job->exchange);
  return true;
}

void pd_mcp_handle(pd_mcp *mcp, const pd_mcp_peer *peer, pd_bytes message, const pd_mcp_out *out)
{
  pd_mcp_job job = {.text = message};
  if (accept_text(mcp, peer, out, &job) && !run_text(mcp, peer, &job)) abort(); /* who may have to wait accepts, and runs */
}

pd_mcp_job *pd_mcp_accept(pd_mcp *mcp, const pd_mcp_peer *peer, pd_bytes message, const pd_mcp_out *out)
{
  pd_mcp_job *job = calloc(1, sizeof *job);
  if (!job || pd_buf_append(&job->copy, message.data, message.size, NULL)) {
    free(job);
    out->done(out->ctx, 503);
    return NULL;
  }
  job->text = pd_buf_bytes(&job->copy);
  if (accept_text(mcp, peer, out, job)) return job;
  pd_buf_done(&job->copy);
  free(job);
  return NULL;
}

bool pd_mcp_is_quick(const pd_mcp_job *job)
{
  const pd_mcp_message *message = &job->read.message;
  if (job->is_batch || job->json.kind == PD_JSON_NONE || job->read.wrong) return false;
  return message->kind == PD_MCP_NOTIFICATION || (message->kind == PD_MCP_REQUEST && strcmp(message->method, "ping") == 0);
}

size_t pd_mcp_job_size(const pd_mcp_job *job)
{
  return job->text.size;
}

bool pd_mcp_run(pd_mcp *mcp, const pd_mcp_peer *peer, pd_mcp_job *job)
{
  if (!run_text(mcp, peer, job)) return false;
  pd_buf_done(&job->copy);
  free(job);
  return true;
}
