/*
 * backend.c: the log and the bag of a store behind a server, as a backend (backend.h): each operation is a request to /v1/stores/NAME/…
 * (docs/formats.md has the bodies).
 *
 * An append whose answer was lost may have happened. If the connection had to be made anew, libcurl may have asked twice; then, and only
 * then, a conflict is no conflict if the very records are there.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parcel.h"
#include "remote/client.h"
#include "remote/tail.h"

#include <perdure/backend.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH_SIZE 320
#define OCTETS "application/octet-stream"
#define PUT_SIZE ((size_t)8 << 20) /* of a bag_put: more are several requests */
#define MARK_DIGITS 24

typedef struct far_store {
  pd_backend head; /* first */
  char *uri;
  char name[PD_NAME_SIZE_MAX + 1];
  unsigned flags;
  pd_tail *tail;
} far_store;

/* ---- asking ---- */

/* What walks the whole store may take its time. */
static bool is_slow(const char *route)
{
  return strcmp(route, "/compact") == 0 || strcmp(route, "/check") == 0 || strncmp(route, "/bag?", 5) == 0 ||
         strncmp(route, "/bag/sweep", 10) == 0;
}

static pd_code ask(far_store *s, const char *method, pd_bytes body, pd_buf *out, pd_remote_reply *reply, pd_error *err, const char *fmt,
                   ...) PD_PRINTF(7, 8);

static pd_code ask(far_store *s, const char *method, pd_bytes body, pd_buf *out, pd_remote_reply *reply, pd_error *err, const char *fmt,
                   ...)
{
  char path[PATH_SIZE], *at = path;
  va_list args;
  at += snprintf(path, sizeof path, "/v1/stores/%s", s->name);
  va_start(args, fmt);
  vsnprintf(at, sizeof path - (size_t)(at - path), fmt, args);
  va_end(args);
  pd_remote_request request = {
    .uri = s->uri, .method = method, .path = path, .role = pd_remote_role(s->uri), .type = OCTETS, .body = body, .is_slow = is_slow(fmt)};
  TRY(pd_remote_ask(&request, reply, out, err));
  if (s->tail) pd_tail_raise(s->tail, reply->tail);
  return reply->status == 200 ? PD_OK : pd_remote_error(reply, pd_buf_bytes(out), path, err);
}

/* A number of an answer in JSON. */
static pd_code number_of(const pd_buf *answer, const char *name, uint64_t *out, pd_error *err)
{
  pd_json json;
  if (pd_json_parse(pd_buf_bytes(answer), &json, NULL) == PD_OK && pd_json_u64(pd_json_member(json, name), out)) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "the server's answer has no number '%s'; is it a perdure?", name);
}

static pd_code may_write(const far_store *s, pd_error *err)
{
  if (!(s->flags & PD_BACKEND_READ_ONLY)) return PD_OK;
  return pd_error_set(err, PD_READ_ONLY, "store '%s' at %s is open for reading only", s->name, s->uri);
}

/* ---- open, close ---- */

static void far_close(pd_backend *b)
{
  far_store *s = (far_store *)b;
  if (!s) return;
  pd_tail_close(s->tail);
  free(s->uri);
  free(s);
}

static pd_code connect_store(far_store *s, unsigned flags, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  uint64_t has = 0;
  bool is_reader = flags & PD_BACKEND_OPEN_READ_ONLY, creates = (flags & PD_BACKEND_CREATE) && !is_reader;
  TRY(pd_remote_check(s->uri, err));
  TRY(ask(s, creates ? "POST" : "GET", (pd_bytes){0}, &out, &reply, err, "%s", ""));
  TRY(number_of(&out, "flags", &has, err));
  s->flags = (unsigned)has | (is_reader ? PD_BACKEND_READ_ONLY : 0);
  TRY(pd_tail_open(s->uri, s->name, &s->tail, err));
  pd_tail_raise(s->tail, reply.tail);
  return PD_OK;
}

static pd_code far_open(const pd_backend_ops *ops, const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  TRY(pd_agent_check(store, err));
  far_store *s = calloc(1, sizeof *s);
  if (!s || asprintf(&s->uri, "%s:%s", ops->scheme, rest) < 0) {
    free(s);
    return pd_error_memory(err, "a store on a server");
  }
  s->head.ops = ops;
  snprintf(s->name, sizeof s->name, "%s", store);
  pd_code code = connect_store(s, flags, err);
  if (code)
    far_close(&s->head);
  else
    *out = &s->head;
  return code;
}

static unsigned far_flags(const pd_backend *b)
{
  return ((const far_store *)b)->flags;
}

/* ---- the log: reading ---- */

static pd_code visit_page(const pd_buf *page, uint64_t *seq, uint64_t to, pd_log_visit visit, void *ctx, pd_error *err)
{
  pd_bytes rest = pd_buf_bytes(page), record;
  pd_code code = PD_OK;
  while (*seq <= to && !(code = pd_parcel_next(&rest, &record, err))) TRY(visit(ctx, (*seq)++, record, err));
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code far_log_read(pd_backend *b, uint64_t from, uint64_t to, pd_log_visit visit, void *ctx, pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf page = {0};
  for (uint64_t seq = from; seq <= to;) {
    pd_remote_reply reply;
    uint64_t first = seq;
    TRY(ask(s, "GET", (pd_bytes){0}, &page, &reply, err, "/log?from=%llu&to=%llu", (unsigned long long)seq, (unsigned long long)to));
    TRY(visit_page(&page, &seq, to, visit, ctx, err));
    if (!reply.next) return PD_OK;
    if (reply.next != seq || seq == first)
      return pd_error_set(err, PD_CORRUPT, "record %llu of store '%s' is missing in the answer of %s", (unsigned long long)seq, s->name,
                          s->uri);
  }
  return PD_OK;
}

static pd_code far_log_tail(pd_backend *b, uint64_t *out_seq, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  TRY(ask((far_store *)b, "GET", (pd_bytes){0}, &out, &reply, err, "%s", ""));
  return number_of(&out, "tail", out_seq, err);
}

static uint64_t far_log_tail_hint(pd_backend *b)
{
  return pd_tail_hint(((far_store *)b)->tail);
}

static pd_code far_log_wait(pd_backend *b, uint64_t after, uint32_t timeout_ms, pd_error *err)
{
  return pd_tail_wait(((far_store *)b)->tail, after, timeout_ms, err);
}

/* ---- the log: writing ---- */

static pd_code pack(const pd_bytes *records, size_t count, pd_buf *out, pd_error *err)
{
  for (size_t i = 0; i < count; i++) TRY(pd_parcel_put(out, records[i], err));
  return PD_OK;
}

typedef struct comparison {
  const pd_bytes *records;
  uint64_t seq;
  size_t same;
} comparison;

static pd_code compare_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  comparison *c = ctx;
  (void)err;
  c->same += pd_bytes_equal(c->records[seq - c->seq], record);
  return PD_OK;
}

/* After a doubtful conflict: are these the records that were to be appended? */
static bool is_there(far_store *s, uint64_t seq, const pd_bytes *records, size_t count)
{
  comparison c = {records, seq, 0};
  return far_log_read(&s->head, seq, seq + count - 1, compare_record, &c, NULL) == PD_OK && c.same == count;
}

static pd_code far_log_append(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf body = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply = {0};
  pd_error why = {0};
  TRY(may_write(s, err));
  if (!seq || !count) return pd_error_set(err, PD_INVALID, "nothing to append");
  TRY(pack(records, count, &body, err));
  pd_code code = ask(s, "POST", pd_buf_bytes(&body), &out, &reply, &why, "/log?seq=%llu", (unsigned long long)seq);
  if (code == PD_STORAGE && !reply.status) { /* no answer: it may have happened */
    code = ask(s, "POST", pd_buf_bytes(&body), &out, &reply, &why, "/log?seq=%llu", (unsigned long long)seq);
    reply.is_doubtful = true;
  }
  if (code == PD_CONFLICT && reply.is_doubtful && is_there(s, seq, records, count)) code = PD_OK;
  if (code && err) *err = why;
  if (!code) pd_tail_raise(s->tail, seq + count - 1);
  return code;
}

static pd_code far_log_redact(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf body = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  TRY(may_write(s, err));
  if (!seq || !count) return pd_error_set(err, PD_INVALID, "nothing to redact");
  TRY(pack(records, count, &body, err));
  return ask(s, "POST", pd_buf_bytes(&body), &out, &reply, err, "/log/redact?seq=%llu", (unsigned long long)seq);
}

static pd_code far_log_swap(pd_backend *b, const pd_log_swap *swaps, size_t count, pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf body = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  TRY(may_write(s, err));
  if (!count) return pd_error_set(err, PD_INVALID, "nothing to swap");
  for (size_t i = 0; i < count; i++) {
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)swaps[i].seq);
    TRY(pd_parcel_put(&body, pd_text(number), err));
    TRY(pd_parcel_put(&body, swaps[i].was, err));
    TRY(pd_parcel_put(&body, swaps[i].now, err));
  }
  return ask(s, "POST", pd_buf_bytes(&body), &out, &reply, err, "/log/swap");
}

/* ---- the bag ---- */

static pd_code send_blobs(far_store *s, pd_buf *body, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  TRY(ask(s, "POST", pd_buf_bytes(body), &out, &reply, err, "/bag"));
  pd_buf_clear(body);
  return PD_OK;
}

static pd_code far_bag_put(pd_backend *b, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf body = {0};
  TRY(may_write(s, err));
  for (size_t i = 0; i < count; i++) {
    TRY(pd_parcel_put(&body, (pd_bytes){ids[i].bytes, sizeof ids[i].bytes}, err));
    TRY(pd_parcel_put(&body, blobs[i], err));
    if (body.size >= PUT_SIZE && i + 1 < count) TRY(send_blobs(s, &body, err));
  }
  return count ? send_blobs(s, &body, err) : PD_OK;
}

static pd_code far_bag_get(pd_backend *b, const pd_id *id, pd_buf *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  CLEANUP(pd_buf_done) pd_buf blob = {0};
  pd_remote_reply reply;
  TRY(ask((far_store *)b, "GET", (pd_bytes){0}, &blob, &reply, err, "/bag/%s", pd_id_hex(id, hex)));
  if (!out->size && !out->data) { /* nothing to append to: no copy */
    size_t size_max = out->size_max;
    if (size_max && blob.size > size_max) return pd_error_set(err, PD_LIMIT, "a blob of %zu bytes is too large", blob.size);
    *out = blob;
    out->size_max = size_max;
    blob = (pd_buf){0};
    return PD_OK;
  }
  return pd_buf_append(out, blob.data, blob.size, err);
}

/* ---- taking away ---- */

static pd_code far_bag_mark(pd_backend *b, uint64_t *out_mark, pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  TRY(may_write(s, err));
  TRY(ask(s, "POST", (pd_bytes){0}, &out, &reply, err, "/bag/mark"));
  return number_of(&out, "mark", out_mark, err);
}

/* Those of a page that are not kept go, by the same mark: what was put again meanwhile is younger than it, and the backend there keeps it
 * (B15). */
static pd_code sweep_page(far_store *s, uint64_t mark, const pd_buf *ids, bool (*keep)(void *ctx, const pd_id *id), void *ctx,
                          uint64_t *bytes, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf doomed = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  uint64_t removed = 0;
  for (size_t at = 0; at + sizeof(pd_id) <= ids->size; at += sizeof(pd_id)) {
    pd_id id;
    memcpy(&id, ids->data + at, sizeof id);
    if (!keep(ctx, &id)) TRY(pd_buf_append(&doomed, &id, sizeof id, err));
  }
  if (!doomed.size) return PD_OK;
  TRY(ask(s, "POST", pd_buf_bytes(&doomed), &out, &reply, err, "/bag/sweep?mark=%llu", (unsigned long long)mark));
  TRY(number_of(&out, "bytes", &removed, err));
  *bytes += removed;
  return PD_OK;
}

static pd_code far_bag_sweep(pd_backend *b, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id), void *ctx, uint64_t *out_bytes,
                             pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf ids = {0};
  char after[PD_ID_HEX_SIZE] = "";
  uint64_t bytes = 0;
  TRY(may_write(s, err));
  do {
    pd_remote_reply reply;
    TRY(ask(s, "GET", (pd_bytes){0}, &ids, &reply, err, "/bag?mark=%llu&after=%s", (unsigned long long)mark, after));
    if (ids.size % sizeof(pd_id)) return pd_error_set(err, PD_STORAGE, "the server's list of blobs is cut off");
    TRY(sweep_page(s, mark, &ids, keep, ctx, &bytes, err));
    if (ids.size) {
      pd_id last;
      memcpy(&last, ids.data + ids.size - sizeof last, sizeof last);
      pd_id_hex(&last, after);
    }
  } while (ids.size);
  *out_bytes = bytes;
  return PD_OK;
}

static pd_code far_compact(pd_backend *b, pd_error *err)
{
  far_store *s = (far_store *)b;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_remote_reply reply;
  TRY(may_write(s, err));
  return ask(s, "POST", (pd_bytes){0}, &out, &reply, err, "/compact");
}

/* ---- care ---- */

static pd_code far_check(pd_backend *b, pd_check_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_remote_reply reply;
  pd_json answer, line;
  TRY(ask((far_store *)b, "GET", (pd_bytes){0}, &out, &reply, err, "/check"));
  TRY(pd_json_parse(pd_buf_bytes(&out), &answer, err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "findings")); pd_json_walk_next(&walk, NULL, &line);) {
    pd_buf_clear(&text);
    TRY(pd_json_decode(line, &text, err));
    TRY(pd_buf_byte(&text, 0, err));
    visit(ctx, (const char *)text.data);
  }
  return PD_OK;
}

static pd_code far_usage(pd_backend *b, pd_backend_usage *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_remote_reply reply;
  pd_backend_usage usage = {0};
  TRY(ask((far_store *)b, "GET", (pd_bytes){0}, &answer, &reply, err, "/usage"));
  TRY(number_of(&answer, "log_bytes", &usage.log_bytes, err));
  TRY(number_of(&answer, "bag_bytes", &usage.bag_bytes, err));
  TRY(number_of(&answer, "bag_count", &usage.bag_count, err));
  TRY(number_of(&answer, "disk_bytes", &usage.disk_bytes, err));
  *out = usage;
  return PD_OK;
}

/* The names came over a wire: what is none is not passed on. */
static pd_code far_stores(const pd_backend_ops *ops, const char *rest, void (*visit)(void *ctx, const char *store), void *ctx,
                          pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf uri = {0};
  CLEANUP(pd_buf_done) pd_buf out = {0};
  CLEANUP(pd_buf_done) pd_buf name = {0};
  pd_remote_reply reply;
  pd_json answer, item;
  TRY(pd_buf_printf(&uri, err, "%s:%s%c", ops->scheme, rest, 0));
  TRY(pd_remote_check((const char *)uri.data, err));
  pd_remote_request request = {
    .uri = (const char *)uri.data, .method = "GET", .path = "/v1/stores", .role = pd_remote_role((const char *)uri.data)};
  TRY(pd_remote_ask(&request, &reply, &out, err));
  if (reply.status != 200) return pd_remote_error(&reply, pd_buf_bytes(&out), request.path, err);
  TRY(pd_json_parse(pd_buf_bytes(&out), &answer, err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_json_member(answer, "stores")); pd_json_walk_next(&walk, NULL, &item);) {
    pd_buf_clear(&name);
    TRY(pd_json_decode(item, &name, err));
    TRY(pd_buf_byte(&name, 0, err));
    TRY(pd_agent_check((const char *)name.data, err));
    visit(ctx, (const char *)name.data);
  }
  return PD_OK;
}

/* ---- the three schemes ---- */

#define SCHEME(NAME)                                                                                                                       \
  static const pd_backend_ops NAME##_ops;                                                                                                  \
  static pd_code open_##NAME(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)                         \
  {                                                                                                                                        \
    return far_open(&NAME##_ops, rest, store, flags, out, err);                                                                            \
  }                                                                                                                                        \
  static pd_code stores_of_##NAME(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err)                 \
  {                                                                                                                                        \
    return far_stores(&NAME##_ops, rest, visit, ctx, err);                                                                                 \
  }                                                                                                                                        \
  static const pd_backend_ops NAME##_ops = {                                                                                               \
    .abi = PD_BACKEND_ABI,                                                                                                                 \
    .scheme = #NAME,                                                                                                                       \
    .open = open_##NAME,                                                                                                                   \
    .close = far_close,                                                                                                                    \
    .flags = far_flags,                                                                                                                    \
    .log_append = far_log_append,                                                                                                          \
    .log_read = far_log_read,                                                                                                              \
    .log_tail = far_log_tail,                                                                                                              \
    .log_tail_hint = far_log_tail_hint,                                                                                                    \
    .bag_put = far_bag_put,                                                                                                                \
    .bag_get = far_bag_get,                                                                                                                \
    .check = far_check,                                                                                                                    \
    .usage = far_usage,                                                                                                                    \
    .log_redact = far_log_redact,                                                                                                          \
    .bag_mark = far_bag_mark,                                                                                                              \
    .bag_sweep = far_bag_sweep,                                                                                                            \
    .compact = far_compact,                                                                                                                \
    .log_wait = far_log_wait,                                                                                                              \
    .log_swap = far_log_swap,                                                                                                              \
    .stores = stores_of_##NAME,                                                                                                            \
  }

SCHEME(http);
SCHEME(https);
#undef unix
SCHEME(unix);

pd_code pd_remote_register(pd_error *err)
{
  TRY(pd_backend_register(&http_ops, err));
  TRY(pd_backend_register(&https_ops, err));
  return pd_backend_register(&unix_ops, err);
}
