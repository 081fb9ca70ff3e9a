/* mcp_exchange.c: one way back to a client: sending, ending, cancelling. M1, M2 of mcp.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_inside.h"

#include <stdio.h>
#include <stdlib.h>

pd_code pd_mcp_exchange_new(pd_mcp *mcp, const pd_mcp_out *out, pd_json id, const pd_mcp_session *session, pd_mcp_exchange **exchange,
                            pd_error *err)
{
  pd_mcp_exchange *e = calloc(1, sizeof *e);
  if (!e) return pd_error_memory(err, "an exchange");
  e->out = *out;
  if (id.kind != PD_JSON_NONE && id.kind != PD_JSON_NULL) {
    snprintf(e->id, sizeof e->id, "%.*s", (int)id.raw.size, (const char *)id.raw.data);
    e->session = session ? session->number : 0;
  }
  atomic_init(&e->refs, 1);
  pthread_mutex_init(&e->lock, NULL);
  pthread_mutex_lock(&mcp->lock);
  e->next = mcp->live;
  e->link = &mcp->live;
  if (e->next) e->next->link = &e->next;
  mcp->live = e;
  pthread_mutex_unlock(&mcp->lock);
  *exchange = e;
  return PD_OK;
}

pd_mcp_exchange *pd_mcp_exchange_hold(pd_mcp_exchange *exchange)
{
  atomic_fetch_add(&exchange->refs, 1);
  return exchange;
}

/* The last one takes it out of the list first: under the lock, so that hanging up does not find what is being freed. */
void pd_mcp_exchange_release(pd_mcp *mcp, pd_mcp_exchange *exchange)
{
  if (!exchange) return;
  pthread_mutex_lock(&mcp->lock);
  bool is_last = atomic_fetch_sub(&exchange->refs, 1) == 1;
  if (is_last) {
    *exchange->link = exchange->next;
    if (exchange->next) exchange->next->link = exchange->link;
  }
  pthread_mutex_unlock(&mcp->lock);
  if (!is_last) return;
  pthread_mutex_destroy(&exchange->lock);
  free(exchange);
}

/* Under its lock. */
static void end(pd_mcp_exchange *exchange, int status)
{
  if (exchange->out.done) exchange->out.done(exchange->out.ctx, status);
  exchange->is_over = true;
}

void pd_mcp_exchange_send(pd_mcp_exchange *exchange, pd_bytes message, int status, bool is_last)
{
  pthread_mutex_lock(&exchange->lock);
  if (!exchange->is_over) {
    exchange->out.send(exchange->out.ctx, message, status, is_last);
    if (is_last) end(exchange, status);
  }
  pthread_mutex_unlock(&exchange->lock);
}

void pd_mcp_exchange_session(pd_mcp_exchange *exchange, const char *id)
{
  pthread_mutex_lock(&exchange->lock);
  if (!exchange->is_over && exchange->out.session) exchange->out.session(exchange->out.ctx, id);
  pthread_mutex_unlock(&exchange->lock);
}

void pd_mcp_exchange_done(pd_mcp_exchange *exchange, int status)
{
  if (exchange->is_over) return; /* it stays so */
  pthread_mutex_lock(&exchange->lock);
  if (!exchange->is_over) end(exchange, status);
  pthread_mutex_unlock(&exchange->lock);
}

/* Under the pd_mcp's lock. */
static void cancel(pd_mcp_exchange *e)
{
  atomic_store(&e->is_cancelled, true);
  if (!e->out.cancelled) return; /* one whose `send` may block has none: its lock is not asked for here */
  pthread_mutex_lock(&e->lock);
  if (!e->is_over) e->out.cancelled(e->out.ctx);
  pthread_mutex_unlock(&e->lock);
}

void pd_mcp_exchange_cancel(pd_mcp *mcp, const pd_mcp_session *session, pd_json id)
{
  if (!session || id.raw.size > PD_MCP_ID_SIZE_MAX) return; /* ids of requests are small numbers, and every client's are the same */
  pthread_mutex_lock(&mcp->lock);
  for (pd_mcp_exchange *e = mcp->live; e; e = e->next)
    if (*e->id && e->session == session->number && pd_bytes_equal(pd_text(e->id), id.raw)) cancel(e);
  pthread_mutex_unlock(&mcp->lock);
}

void pd_mcp_hang_up(pd_mcp *mcp, void *ctx)
{
  pthread_mutex_lock(&mcp->lock);
  for (pd_mcp_exchange *e = mcp->live; e; e = e->next) {
    if (e->out.ctx != ctx) continue;
    cancel(e);
    pthread_mutex_lock(&e->lock);
    e->is_over = true;
    pthread_mutex_unlock(&e->lock);
  }
  pthread_mutex_unlock(&mcp->lock);
  pd_mcp_listen_sweep(mcp, false);
}
