/* mcp_world.c: see mcp_world.h. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void keep(void *ctx, pd_bytes message, int status, bool is_last)
{
  exchange *e = ctx;
  pthread_mutex_lock(&e->lock);
  if (e->count == COUNT_OF(e->messages) || e->is_done || e->has_answer) abort(); /* M1 */
  e->messages[e->count++] = strndup(message.data, message.size);
  e->status = status;
  e->has_answer = is_last;
  pthread_mutex_unlock(&e->lock);
}

static void end(void *ctx, int status)
{
  exchange *e = ctx;
  pthread_mutex_lock(&e->lock);
  if (e->is_done) abort();
  e->is_done = true;
  if (!e->count) e->status = status;
  pthread_mutex_unlock(&e->lock);
}

static void take_session(void *ctx, const char *id)
{
  exchange *e = ctx;
  snprintf(e->session, sizeof e->session, "%s", id);
}

void exchange_begin(exchange *e)
{
  *e = (exchange){0};
  pthread_mutex_init(&e->lock, NULL);
}

void exchange_end(exchange *e)
{
  for (size_t i = 0; i < e->count; i++) free(e->messages[i]);
  pthread_mutex_destroy(&e->lock);
  *e = (exchange){0};
}

void exchange_wait(exchange *e, size_t count)
{
  for (int i = 0; i < 30000; i++) { /* a minute */
    pthread_mutex_lock(&e->lock);
    bool is_there = e->count >= count;
    pthread_mutex_unlock(&e->lock);
    if (is_there) return;
    usleep(2000);
  }
  fail_msg("%zu messages, not %zu", e->count, count);
}

static int64_t now_of(void *ctx)
{
  return ((mcp_world *)ctx)->w.now_ms;
}

static void begin(mcp_world *m, const char *tools, const char *key_file, size_t page_count)
{
  pd_error err;
  pd_mcp_options options = {
    .home = m->w.home, .uri = m->w.uri, .tools = tools, .key_file = key_file, .page_count = page_count, .now_ms = now_of, .now_ctx = m};
  if (pd_mcp_new(&options, &m->mcp, &err)) fail_msg("%s", err.message);
  exchange_begin(&m->push);
  exchange_begin(&m->last);
  m->peer = (pd_mcp_peer){.agent = "main", .may_approve = true};
  pd_mcp_out out = {.send = keep, .ctx = &m->push};
  if (pd_mcp_session_new(m->mcp, "main", &out, &m->peer.session, &err)) fail_msg("%s", err.message);
}

static void finish(mcp_world *m)
{
  pd_mcp_drain(m->mcp);
  if (m->peer.session) pd_mcp_session_release(m->peer.session);
  pd_mcp_free(m->mcp);
  exchange_end(&m->push);
  exchange_end(&m->last);
}

void mcp_open(mcp_world *m, const char *tools, const char *key_file)
{
  world_open(&m->w, NULL);
  begin(m, tools, key_file, 0);
}

void mcp_page(mcp_world *m, size_t page_count)
{
  finish(m);
  begin(m, NULL, NULL, page_count);
}

void mcp_close(mcp_world *m)
{
  finish(m);
  world_close(&m->w);
}

void mcp_send_into(mcp_world *m, exchange *e, const char *message)
{
  pd_mcp_out out = {.send = keep, .done = end, .session = take_session, .ctx = e};
  pd_mcp_handle(m->mcp, &m->peer, pd_text(message), &out);
}

void mcp_send(mcp_world *m, const char *message)
{
  exchange_end(&m->last);
  exchange_begin(&m->last);
  mcp_send_into(m, &m->last, message);
}

void mcp_sendf(mcp_world *m, const char *fmt, ...)
{
  char *text = NULL;
  va_list args;
  va_start(args, fmt);
  if (vasprintf(&text, fmt, args) < 0) abort();
  va_end(args);
  mcp_send(m, text);
  free(text);
}

/* ---- looking ---- */

static pd_json step(pd_json at, const char *name)
{
  char *end;
  unsigned long index = strtoul(name, &end, 10);
  if (at.kind != PD_JSON_ARRAY || *end) return pd_json_member(at, name);
  pd_json item = {0};
  pd_json_walk walk = pd_json_walk_begin(at);
  for (unsigned long i = 0; i <= index; i++)
    if (!pd_json_walk_next(&walk, NULL, &item)) return (pd_json){0};
  return item;
}

const char *mcp_member(mcp_world *m, const char *message, const char *path)
{
  char names[512];
  pd_json at;
  if (pd_json_parse(pd_text(message), &at, NULL)) fail_msg("not JSON: %s", message);
  snprintf(names, sizeof names, "%s", path);
  char *rest = names, *name;
  while ((name = strsep(&rest, "."))) {
    for (char *c = name; *c; c++)
      if (*c == '!') *c = '.';
    at = step(at, name);
  }
  snprintf(m->member, sizeof m->member, "%.*s", (int)at.raw.size, at.raw.size ? (const char *)at.raw.data : "");
  return m->member;
}

const char *mcp_last(mcp_world *m, const char *path)
{
  if (!m->last.count) fail_msg("nothing came back; %s was looked for", path);
  return mcp_member(m, m->last.messages[m->last.count - 1], path);
}

void mcp_tool(mcp_world *m, const char *name, const char *arguments)
{
  mcp_sendf(m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s}}", name, arguments);
}

void mcp_initialize(mcp_world *m, const char *revision, const char *capabilities)
{
  mcp_sendf(m,
            "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\",\"capabilities\":%s,"
            "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}",
            revision, capabilities);
}
