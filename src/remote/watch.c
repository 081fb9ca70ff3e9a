/* watch.c: see watch.h. */
#include "remote/watch.h"

#include "base/array.h"
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/uri.h"
#include "remote/flight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENT_SIZE_MAX ((size_t)4 << 20)
#define SLICE_MS 1000
#define LOST "the stream of the server at %.200s has ended"

/* An event that came: its place and its data, with a NUL each, in `texts`. */
typedef struct heard_event {
  size_t id_at, data_at, data_size;
} heard_event;

struct pd_remote_watch {
  char *uri;
  pd_buf path;
  CURLM *multi;
  pd_flight flight;
  pd_watch_cursor at; /* after what was told last */
  heard_event *heard;
  size_t heard_count, heard_capacity, told; /* told: of `heard` */
  pd_buf texts;                             /* of those */
  pd_buf words;                             /* of the event that was told last */
  bool is_live;                             /* nothing more is there */
  pd_code code;                             /* of hearing, which cannot return one */
  pd_error why;
};

/* ---- the stream ---- */

static pd_code keep(pd_remote_watch *w, pd_bytes data, pd_error *err)
{
  heard_event event = {.id_at = w->texts.size, .data_size = data.size};
  TRY(pd_array_grow(&w->heard, w->heard_count, &w->heard_capacity, sizeof *w->heard, "events", err));
  TRY(pd_buf_append(&w->texts, w->flight.events.id, strlen(w->flight.events.id) + 1, err));
  event.data_at = w->texts.size;
  TRY(pd_buf_append(&w->texts, data.data, data.size, err));
  TRY(pd_buf_byte(&w->texts, 0, err));
  w->heard[w->heard_count++] = event;
  return PD_OK;
}

static void hear(void *ctx, pd_bytes data)
{
  pd_remote_watch *w = ctx;
  if (!w->code) w->code = keep(w, data, &w->why);
}

static pd_code begin(pd_remote_watch *w, pd_error *err)
{
  const char *last = w->flight.events.id;
  const pd_flight_header headers[] = {{"Accept", "text/event-stream"}, {"Last-Event-ID", last}};
  pd_remote_request request = {.uri = w->uri, .method = "GET", .path = (const char *)w->path.data, .role = pd_remote_role(w->uri)};
  w->is_live = false;
  return pd_flight_begin(&w->flight, w->multi, &request, headers, COUNT_OF(headers), err);
}

/* The transfer has ended, whatever came of it. What is not a stream is an error of the server's. */
static pd_code land(pd_remote_watch *w, CURLcode result, pd_error *err)
{
  bool was_stream = w->flight.is_events && w->flight.status == 200;
  pd_error lost = {0};
  pd_code code = pd_flight_land(&w->flight, w->multi, result, w->uri, was_stream ? &lost : err);
  if (was_stream) return begin(w, err); /* it is taken up where it ended */
  TRY(code);
  pd_remote_reply reply = {.status = w->flight.status};
  return pd_remote_error(&reply, pd_buf_bytes(&w->flight.body), "/v1/watch", err);
}

/* One look at the socket, after at most `ms`. */
static pd_code look(pd_remote_watch *w, int ms, bool *out_is_interrupted, pd_error *err)
{
  int running = 0, left, ready;
  *out_is_interrupted = false;
  if (pd_libcurl.multi_perform(w->multi, &running) != CURLM_OK) return pd_error_set(err, PD_STORAGE, LOST, w->uri);
  for (CURLMsg *m; (m = pd_libcurl.multi_info_read(w->multi, &left));)
    if (m->msg == CURLMSG_DONE) return land(w, m->data.result, err);
  if (w->heard_count || !ms) return PD_OK;
  errno = 0;
  if (pd_libcurl.multi_poll(w->multi, NULL, 0, ms, &ready) != CURLM_OK) return pd_error_set(err, PD_STORAGE, LOST, w->uri);
  *out_is_interrupted = errno == EINTR;
  return pd_libcurl.multi_perform(w->multi, &running) == CURLM_OK ? PD_OK : pd_error_set(err, PD_STORAGE, LOST, w->uri);
}

/* ---- events ---- */

/* The members that an event may have; what it does not name stays zero. */
typedef struct parsed_event {
  uint32_t kind;
  uint64_t seq, last_seq, version, size;
  pd_id value_id, before, commit;
  bool is_erased, is_new;
  int64_t time_ms;
  pd_json ref, key, move, author, run, reason;
} parsed_event;

static const char *const kinds[] = {"", "put", "delete", "move", "gap", NULL};

static const pd_bind members[] = {
  {"event", PD_BIND_NAME, PD_BIND_AT(parsed_event, kind), .names = kinds},
  {"seq", PD_BIND_NUMBER, PD_BIND_AT(parsed_event, seq)},
  {"last_seq", PD_BIND_NUMBER, PD_BIND_AT(parsed_event, last_seq), .is_optional = true},
  {"version", PD_BIND_NUMBER, PD_BIND_AT(parsed_event, version), .is_optional = true},
  {"size", PD_BIND_NUMBER, PD_BIND_AT(parsed_event, size), .is_optional = true},
  {"value_id", PD_BIND_ID, PD_BIND_AT(parsed_event, value_id), .is_optional = true},
  {"before", PD_BIND_ID, PD_BIND_AT(parsed_event, before), .is_optional = true},
  {"commit", PD_BIND_ID, PD_BIND_AT(parsed_event, commit), .is_optional = true},
  {"erased", PD_BIND_BOOL, PD_BIND_AT(parsed_event, is_erased), .is_optional = true},
  {"is_new", PD_BIND_BOOL, PD_BIND_AT(parsed_event, is_new), .is_optional = true},
  {"time", PD_BIND_TIME, PD_BIND_AT(parsed_event, time_ms), .is_optional = true},
  {"ref", PD_BIND_STRING, PD_BIND_AT(parsed_event, ref), .is_optional = true},
  {"key", PD_BIND_STRING, PD_BIND_AT(parsed_event, key), .is_optional = true},
  {"move", PD_BIND_STRING, PD_BIND_AT(parsed_event, move), .is_optional = true},
  {"author", PD_BIND_STRING, PD_BIND_AT(parsed_event, author), .is_optional = true},
  {"run", PD_BIND_STRING, PD_BIND_AT(parsed_event, run), .is_optional = true},
  {"reason", PD_BIND_STRING, PD_BIND_AT(parsed_event, reason), .is_optional = true},
};

static pd_record_kind record_kind_of(pd_json name)
{
  for (int kind = PD_RECORD_COMMIT; kind <= PD_RECORD_KEYFRAME; kind++)
    if (pd_json_is(name, pd_record_kind_name((pd_record_kind)kind))) return (pd_record_kind)kind;
  return PD_RECORD_COMMIT;
}

/* "" if there is none. There is room for all of them: no text is longer than its JSON. */
static pd_bytes word(pd_remote_watch *w, pd_json text)
{
  size_t from = w->words.size;
  if (text.kind != PD_JSON_STRING || pd_json_decode(text, &w->words, NULL)) return (pd_bytes){"", 0};
  size_t size = w->words.size - from;
  return pd_buf_byte(&w->words, 0, NULL) ? (pd_bytes){"", 0} : (pd_bytes){w->words.data + from, size};
}

static pd_code take_event(pd_remote_watch *w, pd_json json, pd_watch_event *out, pd_error *err)
{
  parsed_event e = {0};
  TRY(pd_bind_read(json, members, COUNT_OF(members), PD_BIND_LOOSE, &e, err));
  pd_buf_clear(&w->words);
  TRY(pd_buf_reserve(&w->words, json.raw.size + COUNT_OF(members), err));
  bool is_move = e.move.kind == PD_JSON_STRING;
  *out = (pd_watch_event){
    .kind = (pd_watch_kind)e.kind,
    .seq = e.seq,
    .last_seq = e.last_seq ? e.last_seq : e.seq,
    .next = w->at,
    .ref = word(w, e.ref).data,
    .key = word(w, e.key),
    .version = e.version,
    .value_id = e.value_id,
    .size = e.size,
    .is_erased = e.is_erased,
    .is_new = e.is_new || e.version == 1,
    .record_kind = is_move ? record_kind_of(e.move) : PD_RECORD_COMMIT,
    .commit.id = e.commit,
    .before = e.before,
    .author = word(w, e.author).data,
    .run = word(w, e.run).data,
    .reason = word(w, e.reason).data,
    .time_ms = e.time_ms,
  };
  return PD_OK;
}

/* The next that was heard. PD_NOT_FOUND: it is not a change. */
static pd_code tell(pd_remote_watch *w, pd_watch_event *out, pd_error *err)
{
  const heard_event *heard = &w->heard[w->told++];
  const char *id = (const char *)w->texts.data + heard->id_at;
  pd_json json, name;
  TRY(pd_json_parse((pd_bytes){w->texts.data + heard->data_at, heard->data_size}, &json, err));
  name = pd_json_member(json, "event");
  if (pd_json_true(pd_json_member(json, "live"))) w->is_live = true;
  pd_watch_cursor next;
  if (pd_watch_cursor_parse(id, &next)) w->at = next;
  return name.kind == PD_JSON_STRING ? take_event(w, json, out, err) : pd_error_set(err, PD_NOT_FOUND, "there is no event");
}

static void forget_told(pd_remote_watch *w)
{
  if (w->told < w->heard_count) return;
  w->told = w->heard_count = 0;
  pd_buf_clear(&w->texts);
}

pd_code pd_remote_watch_next(pd_remote_watch *w, uint32_t timeout_ms, pd_watch_event *out, pd_error *err)
{
  int64_t end_ms = pd_clock_monotonic_ms() + timeout_ms;
  bool is_interrupted = false;
  for (;;) {
    while (w->told < w->heard_count) {
      pd_code code = tell(w, out, err);
      if (code != PD_NOT_FOUND) return code;
    }
    forget_told(w);
    if (w->code && err) *err = w->why;
    if (w->code) return w->code;
    int64_t left_ms = end_ms - pd_clock_monotonic_ms();
    if (is_interrupted || (w->is_live && left_ms <= 0)) return pd_error_set(err, PD_NOT_FOUND, "there is no event");
    int wait_ms = !w->is_live || left_ms > SLICE_MS ? SLICE_MS : (int)left_ms;
    TRY(look(w, wait_ms, &is_interrupted, err));
  }
}

pd_watch_cursor pd_remote_watch_where(const pd_remote_watch *w)
{
  return w->at;
}

/* ---- opening ---- */

static pd_code write_path(pd_remote_watch *w, const char *name, const pd_watch_options *o, pd_error *err)
{
  char from[PD_WATCH_CURSOR_SIZE] = "now";
  if (o->from.seq) pd_watch_cursor_text(&o->from, from);
  TRY(pd_buf_printf(&w->path, err, "/v1/watch?live=true&from=%s&store=", from));
  TRY(pd_uri_escape(pd_text(name), "", &w->path, err));
  TRY(pd_buf_printf(&w->path, err, "&ref="));
  TRY(pd_uri_escape(pd_text(o->ref ? o->ref : "*"), "", &w->path, err));
  TRY(pd_buf_printf(&w->path, err, "&prefix="));
  TRY(pd_uri_escape(o->prefix, "", &w->path, err));
  return pd_buf_byte(&w->path, 0, err);
}

/* Until the server has said where the watch begins, or that it may not be. */
static pd_code wait_for_hello(pd_remote_watch *w, pd_error *err)
{
  bool is_interrupted = false;
  while (!w->heard_count && !w->code && !is_interrupted) TRY(look(w, SLICE_MS, &is_interrupted, err));
  if (w->code && err) *err = w->why;
  return w->code;
}

static pd_code start(pd_remote_watch *w, const char *uri, const char *name, const pd_watch_options *options, pd_error *err)
{
  TRY(pd_curl_load(err));
  w->uri = strdup(uri);
  w->multi = pd_libcurl.multi_init();
  if (!w->uri || !w->multi) return pd_error_memory(err, "a watch");
  TRY(write_path(w, name, options, err));
  TRY(begin(w, err));
  return wait_for_hello(w, err);
}

pd_code pd_remote_watch_open(const char *uri, const char *name, const pd_watch_options *options, pd_remote_watch **out, pd_error *err)
{
  pd_remote_watch *w = calloc(1, sizeof *w);
  if (!w) return pd_error_memory(err, "a watch");
  w->flight.events = (pd_events){.told = hear, .ctx = w, .size_max = EVENT_SIZE_MAX};
  pd_code code = start(w, uri, name, options, err);
  if (code)
    pd_remote_watch_close(w);
  else
    *out = w;
  return code;
}

void pd_remote_watch_close(pd_remote_watch *w)
{
  if (!w) return;
  if (w->multi) pd_flight_done(&w->flight, w->multi);
  if (w->multi) pd_libcurl.multi_cleanup(w->multi);
  pd_buf_done(&w->path);
  pd_buf_done(&w->texts);
  pd_buf_done(&w->words);
  free(w->heard);
  free(w->uri);
  free(w);
}
