/*
 * mcp_list.c: resources/list: keys of the agent's own state, then of the shared one, then threads, in pages. A page reads as much as it
 * shows, however many there are. Listing goes past the door, so it asks what the door would say.
 *
 * A cursor is base64 of a letter (p, s, t) and, behind it, the last key of the page, or threads.list's own cursor.
 */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_home.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE 100
#define THREADS_PAGE_MAX 1000

/* ---- keys ---- */

static pd_code walk_keys(pd_store *store, const pd_scan *scan, bool (*visit)(void *ctx, const pd_entry *entry), void *ctx, pd_error *err)
{
  pd_iter *iter = NULL;
  pd_entry entry;
  TRY(pd_iter_open(store, "main", scan, &iter, err));
  pd_code code = pd_iter_next(iter, &entry, NULL, err);
  while (!code && visit(ctx, &entry)) code = pd_iter_next(iter, &entry, NULL, err);
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* A visitor that says whether it has stopped. */
typedef struct stopping {
  bool (*visit)(void *ctx, const pd_entry *entry);
  void *ctx;
  bool has_stopped;
} stopping;

static bool visit_on(void *ctx, const pd_entry *entry)
{
  stopping *s = ctx;
  s->has_stopped = !s->visit(s->ctx, entry);
  return !s->has_stopped;
}

static pd_code walk_prefix(pd_mcp_turn *turn, pd_mcp_topic_kind tier, pd_bytes prefix, pd_bytes after, stopping *s, pd_error *err)
{
  bool is_shared = tier == PD_MCP_SHARED;
  pd_scan scan = {.prefix = prefix, .after = after, .keys_only = true};
  pd_store *store = NULL;
  pd_grant grant;
  const char *like = is_shared ? "state.shared.list" : "state.persistent.list";
  if (pd_mcp_may_read(turn, like, prefix, &grant, err)) return PD_OK;
  pd_mcp_audit(turn, like, prefix, "ok");
  pd_code code = pd_home_borrow(&grant, is_shared ? "shared" : turn->peer->agent, false, &store, err);
  if (code == PD_NOT_FOUND) return PD_OK; /* nothing was ever put there */
  TRY(code);
  code = walk_keys(store, &scan, visit_on, s, err);
  pd_home_return(turn->mcp->home, store);
  return code;
}

static int compare_texts(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The caller's beginnings of keys in the order of keys, without those that another one covers. */
static size_t take_prefixes(const pd_mcp_turn *turn, const char *out[PD_TOKEN_SCOPES_MAX])
{
  const pd_token_info *token = turn->peer->token;
  size_t count = 0, kept = 0;
  for (; token && count < PD_TOKEN_SCOPES_MAX && token->prefixes[count][0]; count++) out[count] = token->prefixes[count];
  qsort(out, count, sizeof out[0], compare_texts);
  for (size_t i = 0; i < count; i++)
    if (!kept || !pd_bytes_starts(pd_text(out[i]), pd_text(out[kept - 1]))) out[kept++] = out[i];
  return kept;
}

pd_code pd_mcp_keys_each(pd_mcp_turn *turn, pd_mcp_topic_kind tier, pd_bytes prefix, pd_bytes after,
                         bool (*visit)(void *ctx, const pd_entry *entry), void *ctx, pd_error *err)
{
  const char *own[PD_TOKEN_SCOPES_MAX];
  stopping s = {.visit = visit, .ctx = ctx};
  size_t count = take_prefixes(turn, own);
  if (!count) return walk_prefix(turn, tier, prefix, after, &s, err);
  for (size_t i = 0; i < count && !s.has_stopped; i++) {
    pd_bytes mine = pd_text(own[i]);
    if (pd_bytes_starts(prefix, mine))
      TRY(walk_prefix(turn, tier, prefix, after, &s, err));
    else if (!prefix.size || pd_bytes_starts(mine, prefix))
      TRY(walk_prefix(turn, tier, mine, after, &s, err));
  }
  return PD_OK;
}

/* ---- threads ---- */

static pd_code threads_input(pd_bytes cursor, size_t limit, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "limit", limit);
  if (cursor.size) pd_json_put_bytes(&w, "cursor", cursor);
  pd_json_close(&w, '}');
  return w.code;
}

pd_code pd_mcp_threads_page(pd_mcp_turn *turn, pd_buf *cursor, size_t limit, bool (*visit)(void *ctx, pd_bytes id, pd_json thread),
                            void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf input = {0};
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json json, thread;
  pd_ctx who = {.home = turn->mcp->home, .agent = turn->peer->agent};
  TRY(threads_input(pd_buf_bytes(cursor), limit < THREADS_PAGE_MAX ? limit : THREADS_PAGE_MAX, &input, err));
  pd_buf_clear(cursor);
  if (!pd_mcp_sees(turn, "threads.list")) return PD_OK;
  pd_code code = pd_mcp_call(turn, &who, "threads.list", pd_buf_bytes(&input), &answer, err);
  if (code == PD_DENIED || code == PD_APPROVAL) return PD_OK;
  TRY(code);
  TRY(pd_json_parse(pd_buf_bytes(&answer), &json, err));
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(json, "threads"));
  for (bool goes_on = true; goes_on && pd_json_walk_next(&walk, NULL, &thread);) {
    CLEANUP(pd_buf_done) pd_buf id = {0};
    TRY(pd_json_decode(pd_json_member(thread, "thread_id"), &id, err));
    goes_on = visit(ctx, pd_buf_bytes(&id), thread);
  }
  pd_json next = pd_json_member(json, "next_cursor");
  return next.kind == PD_JSON_STRING ? pd_json_decode(next, cursor, err) : PD_OK;
}

/* ---- one page ---- */

typedef struct page {
  pd_mcp_turn *turn;
  pd_mcp_topic_kind kind;
  size_t count, max;
  pd_buf last; /* the key that was written last */
  bool is_full;
} page;

static void write_item(page *p, pd_bytes name, const uint64_t *size)
{
  pd_json_writer *w = &p->turn->w;
  pd_json_open(w, '{');
  pd_mcp_uri_write(w, p->kind, name);
  pd_json_put_bytes(w, "name", name);
  pd_json_put_text(w, "mimeType", "application/json");
  if (size) pd_json_put_number(w, "size", *size);
  pd_json_close(w, '}');
  p->count++;
}

static bool list_key(void *ctx, const pd_entry *entry)
{
  page *p = ctx;
  pd_json_writer *w = &p->turn->w;
  p->is_full = p->count == p->max;
  if (p->is_full) return false;
  write_item(p, entry->key, &entry->size);
  pd_buf_clear(&p->last);
  if (!w->code) w->code = pd_buf_append(&p->last, entry->key.data, entry->key.size, w->err);
  return !w->code;
}

static bool list_thread(void *ctx, pd_bytes id, pd_json thread)
{
  page *p = ctx;
  (void)thread;
  write_item(p, id, NULL);
  return !p->turn->w.code;
}

static const char letters[] = {[PD_MCP_PERSISTENT] = 'p', [PD_MCP_SHARED] = 's', [PD_MCP_THREAD] = 't'};

static pd_code write_cursor(pd_mcp_topic_kind kind, pd_bytes rest, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_buf_byte(&text, (uint8_t)letters[kind], err));
  TRY(pd_buf_append(&text, rest.data, rest.size, err));
  return pd_base64_encode(pd_buf_bytes(&text), out, err);
}

static pd_code read_cursor(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out, pd_mcp_topic_kind *out_kind)
{
  const char *letter = NULL;
  if (!cursor.data) return PD_OK;
  if (pd_base64_decode(cursor, out, NULL) == PD_OK && out->size) letter = memchr(letters, out->data[0], sizeof letters);
  if (!letter) return pd_mcp_refuse_cursor(turn);
  *out_kind = (pd_mcp_topic_kind)(letter - letters);
  return PD_OK;
}

static pd_code list_keys(page *p, pd_bytes after, pd_buf *out_cursor)
{
  pd_error *err = &p->turn->err;
  TRY(pd_mcp_keys_each(p->turn, p->kind, (pd_bytes){0}, after, list_key, p, err));
  TRY(p->turn->w.code);
  return p->is_full ? write_cursor(p->kind, pd_buf_bytes(&p->last), out_cursor, err) : PD_OK;
}

static bool note_any(void *ctx, pd_bytes id, pd_json thread)
{
  (void)id, (void)thread;
  *(bool *)ctx = true;
  return false;
}

static pd_code list_threads(page *p, pd_bytes after, pd_buf *out_cursor)
{
  CLEANUP(pd_buf_done) pd_buf cursor = {0};
  pd_error *err = &p->turn->err;
  bool has_any = false;
  if (p->count == p->max) {
    TRY(pd_mcp_threads_page(p->turn, &cursor, 1, note_any, &has_any, err));
    return has_any ? write_cursor(p->kind, (pd_bytes){0}, out_cursor, err) : PD_OK;
  }
  TRY(pd_buf_append(&cursor, after.data, after.size, err));
  pd_code code = pd_mcp_threads_page(p->turn, &cursor, p->max - p->count, list_thread, p, err);
  if (code == PD_INVALID && after.size) return pd_mcp_refuse_cursor(p->turn);
  TRY(code);
  return cursor.size ? write_cursor(p->kind, pd_buf_bytes(&cursor), out_cursor, err) : PD_OK;
}

pd_code pd_mcp_home_resources(pd_mcp_turn *turn, pd_bytes cursor, pd_buf *out_cursor)
{
  CLEANUP(pd_buf_done) pd_buf from = {0};
  page p = {.turn = turn, .kind = PD_MCP_PERSISTENT, .max = turn->mcp->page_count ? turn->mcp->page_count : PAGE};
  TRY(read_cursor(turn, cursor, &from, &p.kind));
  pd_bytes after = from.size ? (pd_bytes){from.data + 1, from.size - 1} : (pd_bytes){0};
  pd_code code = PD_OK;
  for (; !code && p.kind <= PD_MCP_THREAD && !out_cursor->size; p.kind++) {
    code = p.kind == PD_MCP_THREAD ? list_threads(&p, after, out_cursor) : list_keys(&p, after, out_cursor);
    after = (pd_bytes){0};
    pd_buf_clear(&p.last); /* a page that ends here goes on at the beginning of the next kind */
  }
  pd_buf_done(&p.last);
  return code;
}
