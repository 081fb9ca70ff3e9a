/* mcp_listen.c: who wants to hear what, and telling them: subscriptions/listen of the modern era, sessions of the legacy one. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_error.h"
#include "wire/mcp_inside.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- in and out of the list ---- */

static void enlist(pd_mcp *mcp, pd_mcp_listener *listener)
{
  listener->next = mcp->listeners;
  listener->is_listed = true;
  mcp->listeners = listener;
}

void pd_mcp_listener_add(pd_mcp *mcp, pd_mcp_listener *listener)
{
  pthread_mutex_lock(&mcp->lock);
  enlist(mcp, listener);
  pthread_mutex_unlock(&mcp->lock);
}

/* Under the lock. */
static void unlist(pd_mcp *mcp, pd_mcp_listener *listener)
{
  pd_mcp_listener **at = &mcp->listeners;
  while (*at && *at != listener) at = &(*at)->next;
  if (*at) *at = listener->next;
  listener->is_listed = false;
}

static bool watches_lists(const pd_mcp *mcp, const pd_mcp_listener *listener)
{
  return (listener->wants & PD_MCP_RESOURCES) && *listener->id && mcp->provider->watch;
}

void pd_mcp_listener_remove(pd_mcp *mcp, pd_mcp_listener *listener)
{
  pthread_mutex_lock(&mcp->lock);
  if (listener->is_listed) unlist(mcp, listener);
  char **uris = listener->uris;
  size_t count = listener->uri_count;
  pd_mcp_exchange *stream = listener->stream;
  bool has_lists = watches_lists(mcp, listener);
  listener->uris = NULL;
  listener->uri_count = listener->uri_capacity = 0;
  listener->stream = NULL;
  listener->wants = 0;
  pthread_mutex_unlock(&mcp->lock);
  for (size_t i = 0; i < count; i++) {
    if (mcp->provider->unwatch) mcp->provider->unwatch(mcp, listener->agent, uris[i]);
    free(uris[i]);
  }
  free(uris);
  if (has_lists) mcp->provider->unwatch(mcp, listener->agent, "");
  if (stream) pd_mcp_exchange_done(stream, 200);
  pd_mcp_exchange_release(mcp, stream);
}

/* ---- resources ---- */

static char **find(pd_mcp_listener *listener, const char *uri)
{
  for (size_t i = 0; i < listener->uri_count; i++)
    if (strcmp(listener->uris[i], uri) == 0) return &listener->uris[i];
  return NULL;
}

/* Under the lock. */
static pd_code add_uri(pd_mcp_listener *listener, const char *uri, pd_error *err)
{
  if (listener->uri_count >= SUBSCRIPTIONS_MAX)
    return pd_error_set(err, PD_LIMIT, "%u resources are subscribed to, which is the limit", SUBSCRIPTIONS_MAX);
  TRY(pd_array_grow(&listener->uris, listener->uri_count, &listener->uri_capacity, sizeof listener->uris[0], "subscriptions", err));
  char *text = strdup(uri);
  if (!text) return pd_error_memory(err, "a subscription");
  listener->uris[listener->uri_count++] = text;
  return PD_OK;
}

pd_code pd_mcp_listener_subscribe(pd_mcp_turn *turn, pd_mcp_listener *listener, const char *uri, pd_error *err)
{
  pd_mcp *mcp = turn->mcp;
  if (mcp->provider->admit) TRY(mcp->provider->admit(turn, uri, err));
  if (mcp->provider->watch) TRY(mcp->provider->watch(mcp, listener->agent, uri, err));
  pthread_mutex_lock(&mcp->lock);
  bool is_there = find(listener, uri) != NULL;
  pd_code code = is_there ? PD_OK : add_uri(listener, uri, err);
  pthread_mutex_unlock(&mcp->lock);
  if ((is_there || code) && mcp->provider->unwatch) mcp->provider->unwatch(mcp, listener->agent, uri);
  return code;
}

bool pd_mcp_listener_unsubscribe(pd_mcp *mcp, pd_mcp_listener *listener, const char *uri)
{
  pthread_mutex_lock(&mcp->lock);
  char **at = find(listener, uri), *text = at ? *at : NULL;
  if (at) *at = listener->uris[--listener->uri_count];
  pthread_mutex_unlock(&mcp->lock);
  if (text && mcp->provider->unwatch) mcp->provider->unwatch(mcp, listener->agent, uri);
  free(text);
  return text != NULL;
}

/* ---- telling ---- */

static void write_meta(pd_json_writer *w, const pd_mcp_listener *listener)
{
  if (!*listener->id) return;
  pd_json_key(w, "_meta");
  pd_json_open(w, '{');
  pd_json_key(w, "io.modelcontextprotocol/subscriptionId");
  pd_json_raw(w, pd_text(listener->id));
  pd_json_close(w, '}');
}

/* A notification for one listener; `uri` may be NULL. Under the lock. */
static void tell(pd_mcp_listener *listener, const char *method, const char *uri)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "jsonrpc", "2.0");
  pd_json_put_text(&w, "method", method);
  if (uri || *listener->id) {
    pd_json_key(&w, "params");
    pd_json_open(&w, '{');
    if (uri) pd_json_put_text(&w, "uri", uri);
    write_meta(&w, listener);
    pd_json_close(&w, '}');
  }
  pd_json_close(&w, '}');
  if (!w.code) pd_mcp_exchange_send(listener->stream, pd_buf_bytes(&text), 200, false);
}

static bool concerns(const pd_mcp_listener *listener, const char *agent)
{
  return listener->stream && (!agent || strcmp(agent, listener->agent) == 0);
}

void pd_mcp_changed(pd_mcp *mcp, const char *agent, unsigned what)
{
  static const struct {
    unsigned what;
    const char *method;
  } all[] = {{PD_MCP_TOOLS, "notifications/tools/list_changed"},
             {PD_MCP_PROMPTS, "notifications/prompts/list_changed"},
             {PD_MCP_RESOURCES, "notifications/resources/list_changed"}};
  pthread_mutex_lock(&mcp->lock);
  for (pd_mcp_listener *l = mcp->listeners; l; l = l->next)
    for (size_t i = 0; i < COUNT_OF(all) && concerns(l, agent); i++)
      if (what & l->wants & all[i].what) tell(l, all[i].method, NULL);
  pthread_mutex_unlock(&mcp->lock);
}

void pd_mcp_updated(pd_mcp *mcp, const char *agent, const char *uri)
{
  pthread_mutex_lock(&mcp->lock);
  for (pd_mcp_listener *l = mcp->listeners; l; l = l->next)
    if (concerns(l, agent) && find(l, uri)) tell(l, "notifications/resources/updated", uri);
  pthread_mutex_unlock(&mcp->lock);
}

/* ---- subscriptions/listen ---- */

/* What the client wants, as far as it is to be had. */
static pd_code read_filter(pd_mcp_turn *turn, pd_mcp_listener *listener)
{
  pd_json filter = pd_json_member(turn->message->params, "notifications"), uris = pd_json_member(filter, "resourceSubscriptions"), uri;
  const pd_mcp_provider *p = turn->mcp->provider;
  static const char *const names[] = {"toolsListChanged", "promptsListChanged", "resourcesListChanged"};
  if (filter.kind != PD_JSON_OBJECT) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.notifications is not an object");
  for (unsigned i = 0; i < COUNT_OF(names); i++) {
    pd_json want = pd_json_member(filter, names[i]);
    if (want.kind == PD_JSON_BOOL && pd_json_true(want)) listener->wants |= (1u << i) & (p->changes | p->changes_modern);
  }
  if (turn->peer->token && turn->peer->token->prefixes[0][0]) listener->wants &= ~PD_MCP_RESOURCES; /* of all keys */
  if ((listener->wants & PD_MCP_RESOURCES) && p->admit && p->admit(turn, "", &turn->err)) listener->wants &= ~PD_MCP_RESOURCES;
  if (watches_lists(turn->mcp, listener) && p->watch(turn->mcp, listener->agent, "", &turn->err)) listener->wants &= ~PD_MCP_RESOURCES;
  if (uris.kind != PD_JSON_NONE && uris.kind != PD_JSON_ARRAY)
    return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.notifications.resourceSubscriptions is not an array");
  pd_json_walk walk = pd_json_walk_begin(uris);
  while (pd_json_walk_next(&walk, NULL, &uri)) {
    CLEANUP(pd_buf_done) pd_buf text = {0};
    if (uri.kind != PD_JSON_STRING || pd_json_decode(uri, &text, NULL) || pd_buf_byte(&text, 0, NULL))
      return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "params.notifications.resourceSubscriptions has an item that is no text");
    pd_code code = pd_mcp_listener_subscribe(turn, listener, (const char *)text.data, &turn->err);
    if (code == PD_LIMIT) return pd_mcp_refuse(turn, PD_MCP_INVALID_PARAMS, "%s", turn->err.message);
  }
  return PD_OK;
}

static pd_code write_acknowledged(pd_mcp_listener *listener, pd_buf *text, pd_error *err)
{
  pd_json_writer w = {.out = text, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "jsonrpc", "2.0");
  pd_json_put_text(&w, "method", "notifications/subscriptions/acknowledged");
  pd_json_key(&w, "params");
  pd_json_open(&w, '{');
  pd_json_key(&w, "notifications");
  pd_json_open(&w, '{');
  if (listener->wants & PD_MCP_TOOLS) pd_json_put_bool(&w, "toolsListChanged", true);
  if (listener->wants & PD_MCP_PROMPTS) pd_json_put_bool(&w, "promptsListChanged", true);
  if (listener->wants & PD_MCP_RESOURCES) pd_json_put_bool(&w, "resourcesListChanged", true);
  if (listener->uri_count) {
    pd_json_key(&w, "resourceSubscriptions");
    pd_json_open(&w, '[');
    for (size_t i = 0; i < listener->uri_count; i++) pd_json_text(&w, pd_text(listener->uris[i]));
    pd_json_close(&w, ']');
  }
  pd_json_close(&w, '}');
  write_meta(&w, listener);
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  return w.code;
}

pd_code pd_mcp_listen(pd_mcp_turn *turn)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_mcp *mcp = turn->mcp;
  pd_mcp_listener *l = calloc(1, sizeof *l);
  if (!l) return pd_error_memory(&turn->err, "a subscription");
  snprintf(l->agent, sizeof l->agent, "%s", turn->peer->agent);
  snprintf(l->id, sizeof l->id, "%s", turn->exchange->id);
  pd_code code = read_filter(turn, l);
  if (!code) code = write_acknowledged(l, &text, &turn->err);
  if (code) {
    pd_mcp_listener_remove(mcp, l);
    free(l);
    return code;
  }
  l->stream = pd_mcp_exchange_hold(turn->exchange);
  pthread_mutex_lock(&mcp->lock); /* so that nothing is told before, and nothing is missed after */
  pd_mcp_exchange_send(l->stream, pd_buf_bytes(&text), 200, false);
  enlist(mcp, l);
  mcp->stream_count++;
  pthread_mutex_unlock(&mcp->lock);
  turn->is_open = true;
  return PD_OK;
}

/* ---- the end of streams ---- */

static bool is_gone(pd_mcp_exchange *stream)
{
  pthread_mutex_lock(&stream->lock);
  bool is = stream->is_over || atomic_load(&stream->is_cancelled);
  pthread_mutex_unlock(&stream->lock);
  return is;
}

/* A graceful end: the answer to subscriptions/listen. */
static void send_end(pd_mcp *mcp, pd_mcp_listener *l)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text};
  pd_mcp_turn turn = {.mcp = mcp};
  pd_json_rpc_begin(&w, pd_text(l->id));
  pd_json_key(&w, "result");
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "resultType", "complete");
  pd_json_key(&w, "_meta");
  pd_json_open(&w, '{');
  pd_json_key(&w, "io.modelcontextprotocol/subscriptionId");
  pd_json_raw(&w, pd_text(l->id));
  pd_mcp_write_server(&turn, &w);
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  pd_json_close(&w, '}');
  if (!w.code) pd_mcp_exchange_send(l->stream, pd_buf_bytes(&text), 200, true);
}

/* One whose stream has ended, out of the list: a listen stream as it is, of a session only the stream. */
static pd_mcp_listener *take_gone(pd_mcp *mcp, bool is_end, pd_mcp_exchange **out_stream)
{
  pd_mcp_listener *found = NULL;
  pthread_mutex_lock(&mcp->lock);
  for (pd_mcp_listener *l = mcp->listeners; l && !found; l = l->next)
    if (l->stream && (is_end || is_gone(l->stream))) found = l;
  if (found) mcp->stream_count -= mcp->stream_count > 0;
  if (found && *found->id) {
    unlist(mcp, found);
  } else if (found) {
    *out_stream = found->stream;
    found->stream = NULL;
  }
  pthread_mutex_unlock(&mcp->lock);
  return found;
}

void pd_mcp_listen_sweep(pd_mcp *mcp, bool is_end)
{
  pd_mcp_exchange *stream = NULL;
  pd_mcp_listener *l;
  while ((l = take_gone(mcp, is_end, &stream))) {
    if (stream) {
      pd_mcp_exchange_done(stream, 200);
      pd_mcp_exchange_release(mcp, stream);
      stream = NULL;
      continue;
    }
    if (is_end && !is_gone(l->stream)) send_end(mcp, l);
    pd_mcp_listener_remove(mcp, l);
    free(l);
  }
}
