/*
 * mcp_ask.c: questions to a client of the legacy era: requests that the server sends, and the turn that waits for their answers. No thread
 * waits: when the last answer is there, the request is run again, with the answers, on the thread that brought it.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_error.h"
#include "wire/mcp_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define QUESTIONS_MAX 16

typedef struct question {
  char id[40]; /* as JSON text, with its quotes */
  char *name;
  pd_buf answer; /* JSON of an object; empty: not there yet */
} question;

struct pd_mcp_pending {
  char agent[PD_NAME_SIZE_MAX + 1], realm[PD_TOKEN_ID_SIZE];
  pd_mcp_exchange *exchange;
  pd_mcp_session *session; /* held */
  pd_buf message, state, otherwise;
  question questions[QUESTIONS_MAX];
  size_t count, answered;
  int64_t expires_ms;
  pd_mcp_pending *next;
};

static void free_pending(pd_mcp *mcp, pd_mcp_pending *p)
{
  for (size_t i = 0; i < p->count; i++) {
    free(p->questions[i].name);
    pd_buf_done(&p->questions[i].answer);
  }
  pd_buf_done(&p->message);
  pd_buf_done(&p->state);
  pd_buf_done(&p->otherwise);
  pd_mcp_exchange_release(mcp, p->exchange);
  pd_mcp_session_release(p->session);
  free(p);
}

/* ---- asking ---- */

static pd_code copy(pd_buf *to, pd_bytes from, pd_error *err)
{
  return pd_buf_append(to, from.data, from.size, err);
}

static pd_code prepare(pd_mcp_pending *p, pd_json name, pd_error *err)
{
  uint8_t random[16];
  question *q = &p->questions[p->count];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (p->count == QUESTIONS_MAX) return pd_error_set(err, PD_LIMIT, "more than %d questions at once", QUESTIONS_MAX);
  if (getrandom(random, sizeof random, 0) != sizeof random) return pd_error_set(err, PD_STORAGE, "no random numbers for a question");
  TRY(pd_json_decode(name, &text, err));
  TRY(pd_buf_byte(&text, 0, err));
  q->name = strdup((const char *)text.data);
  if (!q->name) return pd_error_memory(err, "a question");
  size_t at = (size_t)snprintf(q->id, sizeof q->id, "\"q-");
  for (size_t i = 0; i < sizeof random; i++) at += (size_t)snprintf(q->id + at, sizeof q->id - at, "%02x", random[i]);
  snprintf(q->id + at, sizeof q->id - at, "\"");
  p->count++;
  return PD_OK;
}

static pd_code send_question(pd_mcp_exchange *exchange, const question *q, pd_json ask, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  pd_json_rpc_begin(&w, pd_text(q->id));
  pd_json_key(&w, "method");
  pd_json_value(&w, pd_json_member(ask, "method"));
  pd_json_key(&w, "params");
  pd_json_value(&w, pd_json_member(ask, "params"));
  pd_json_close(&w, '}');
  TRY(w.code);
  pd_mcp_exchange_send(exchange, pd_buf_bytes(&text), 200, false);
  return PD_OK;
}

static pd_code fill(pd_mcp_turn *turn, pd_mcp_pending *p, pd_bytes message, pd_json asks, pd_error *err)
{
  pd_json name;
  snprintf(p->agent, sizeof p->agent, "%s", turn->peer->agent);
  snprintf(p->realm, sizeof p->realm, "%s", turn->peer->realm ? turn->peer->realm : "");
  p->expires_ms = turn->mcp->now_ms(turn->mcp->now_ctx) + ASK_MS;
  TRY(copy(&p->message, message, err));
  TRY(copy(&p->state, pd_buf_bytes(&turn->kept), err));
  TRY(copy(&p->otherwise, pd_buf_bytes(&turn->otherwise), err));
  pd_json_walk walk = pd_json_walk_begin(asks);
  pd_json value;
  while (pd_json_walk_next(&walk, &name, &value)) TRY(prepare(p, name, err));
  return PD_OK;
}

static pd_code enlist(pd_mcp *mcp, pd_mcp_pending *p, pd_error *err)
{
  pthread_mutex_lock(&mcp->lock);
  bool is_full = mcp->pending_count >= ASKS_MAX;
  if (!is_full) {
    p->next = mcp->pending;
    mcp->pending = p;
    mcp->pending_count++;
  }
  pthread_mutex_unlock(&mcp->lock);
  return is_full ? pd_error_set(err, PD_LIMIT, "%u questions to clients are open, which is the limit", ASKS_MAX) : PD_OK;
}

pd_code pd_mcp_ask_client(pd_mcp_turn *turn, pd_bytes message, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json asks, ask;
  TRY(pd_buf_printf(&text, err, "{%.*s}", (int)turn->asks.size, (const char *)turn->asks.data));
  TRY(pd_json_parse(pd_buf_bytes(&text), &asks, err));
  pd_mcp_pending *p = calloc(1, sizeof *p);
  if (!p) return pd_error_memory(err, "a question");
  p->exchange = pd_mcp_exchange_hold(turn->exchange);
  p->session = turn->session;
  if (p->session) atomic_fetch_add(&p->session->refs, 1);
  pd_code code = fill(turn, p, message, asks, err);
  question ids[QUESTIONS_MAX]; /* who answers quickly may have the turn run, and freed, before the last is sent */
  size_t count = p->count;
  memcpy(ids, p->questions, sizeof ids);
  if (!code) code = enlist(turn->mcp, p, err);
  if (code) {
    free_pending(turn->mcp, p);
    return code;
  }
  pd_json_walk walk = pd_json_walk_begin(asks);
  for (size_t i = 0; i < count && !code && pd_json_walk_next(&walk, NULL, &ask); i++)
    code = send_question(turn->exchange, &ids[i], ask, err);
  return code;
}

/* ---- answers ---- */

/* {"action":"cancel"}: what a client that failed to ask is taken for. */
static void note_answer(pd_mcp_pending *p, question *q, const pd_mcp_message *answer)
{
  pd_bytes text = answer->kind == PD_MCP_RESPONSE ? answer->result.raw : pd_text("{\"action\":\"cancel\"}");
  pd_buf_clear(&q->answer);
  if (copy(&q->answer, text, NULL)) return; /* no memory: it expires */
  p->answered++;
}

/* Note the answer; returns the turn that has all of them now, taken out of the list. */
static pd_mcp_pending *note(pd_mcp *mcp, const pd_mcp_peer *peer, const pd_mcp_message *answer)
{
  pd_mcp_pending *ready = NULL;
  pthread_mutex_lock(&mcp->lock);
  for (pd_mcp_pending **at = &mcp->pending; *at && !ready; at = &(*at)->next) {
    pd_mcp_pending *p = *at;
    if (strcmp(p->agent, peer->agent) != 0 || strcmp(p->realm, peer->realm ? peer->realm : "") != 0) continue;
    if (peer->session && peer->session != p->session) continue; /* clients lose their header */
    for (size_t i = 0; i < p->count; i++)
      if (!p->questions[i].answer.size && pd_bytes_equal(answer->id.raw, pd_text(p->questions[i].id)))
        note_answer(p, &p->questions[i], answer);
    if (p->answered < p->count) continue;
    ready = p;
    *at = p->next;
    mcp->pending_count--;
    break;
  }
  pthread_mutex_unlock(&mcp->lock);
  return ready;
}

static pd_code gather(pd_mcp_pending *p, pd_buf *text, pd_json *out, pd_error *err)
{
  pd_json_writer w = {.out = text, .err = err};
  pd_json_open(&w, '{');
  for (size_t i = 0; i < p->count; i++) {
    pd_json_key(&w, p->questions[i].name);
    pd_json_raw(&w, pd_buf_bytes(&p->questions[i].answer));
  }
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_json_parse(pd_buf_bytes(text), out, err);
}

static void run_again(pd_mcp *mcp, const pd_mcp_peer *peer, pd_mcp_pending *p)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_mcp_message message;
  pd_json json, inputs;
  pd_mcp_peer again = *peer;
  again.session = p->session;
  again.version = again.method = again.name = NULL; /* the headers are those of the answer */
  if (gather(p, &text, &inputs, NULL) || pd_json_parse(pd_buf_bytes(&p->message), &json, NULL) ||
      pd_mcp_message_read(json, &message, NULL)) {
    pd_mcp_exchange_done(p->exchange, 500);
    return;
  }
  pd_mcp_turn turn = {
    .mcp = mcp,
    .peer = &again,
    .session = p->session,
    .exchange = p->exchange,
    .message = &message,
    .level = PD_MCP_SILENT,
    .inputs = inputs,
    .state = pd_buf_bytes(&p->state),
    .has_state = true,
  };
  pd_mcp_turn_run(&turn, pd_buf_bytes(&p->message));
  pd_mcp_turn_done(&turn);
}

void pd_mcp_ask_answer(pd_mcp *mcp, const pd_mcp_peer *peer, const pd_mcp_message *answer)
{
  pd_mcp_pending *ready = note(mcp, peer, answer);
  if (!ready) return; /* late, or not ours */
  run_again(mcp, peer, ready);
  free_pending(mcp, ready);
}

/* ---- questions that nobody answers ---- */

static bool is_over(pd_mcp_exchange *exchange)
{
  pthread_mutex_lock(&exchange->lock);
  bool is = exchange->is_over || atomic_load(&exchange->is_cancelled);
  pthread_mutex_unlock(&exchange->lock);
  return is;
}

static pd_mcp_pending *take_stale(pd_mcp *mcp, int64_t now_ms, bool is_end)
{
  pd_mcp_pending *found = NULL;
  pthread_mutex_lock(&mcp->lock);
  for (pd_mcp_pending **at = &mcp->pending; *at && !found;) {
    pd_mcp_pending *p = *at;
    if (!is_end && p->expires_ms > now_ms && !is_over(p->exchange)) {
      at = &p->next;
      continue;
    }
    found = p;
    *at = p->next;
    mcp->pending_count--;
  }
  pthread_mutex_unlock(&mcp->lock);
  return found;
}

/* Answer as the turn wished for that case. */
static void give_up(pd_mcp *mcp, pd_mcp_pending *p)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  if (p->otherwise.size) {
    pd_json_rpc_begin(&w, pd_text(p->exchange->id));
    pd_json_key(&w, "result");
    pd_json_open(&w, '{');
    pd_json_raw(&w, pd_buf_bytes(&p->otherwise));
    pd_json_close(&w, '}');
    pd_json_close(&w, '}');
  } else {
    pd_json_rpc_error(&w, pd_text(p->exchange->id), PD_MCP_INTERNAL_ERROR, "the client did not answer in time", (pd_bytes){0});
  }
  if (!w.code && !is_over(p->exchange)) pd_mcp_exchange_send(p->exchange, pd_buf_bytes(&text), 200, true);
  pd_mcp_exchange_done(p->exchange, 200);
  free_pending(mcp, p);
}

void pd_mcp_ask_sweep(pd_mcp *mcp, bool is_end)
{
  pd_mcp_pending *p;
  int64_t now_ms = mcp->now_ms(mcp->now_ctx);
  while ((p = take_stale(mcp, now_ms, is_end))) give_up(mcp, p);
}
