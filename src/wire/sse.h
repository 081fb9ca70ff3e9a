/*
 * sse.h: a stream of server-sent events: what was written and not yet sent, and of what was sent as much as a client may want again. Used
 * by GET /v1/watch (watcher.c), whose events are in the log, and by MCP (mcp_flow.c), whose events are only here. Whoever has it locks it.
 *
 * SSE-1  What is not sent is at most queue_max bytes; but into an empty queue one text always fits.
 * SSE-2  Sent events are kept up to kept_max bytes, the last one whatever its size. With kept_max 0 none is, and an idle stream has no
 *        buffer.
 */
#ifndef PD_WIRE_SSE_H
#define PD_WIRE_SSE_H

#include "base/buf.h"

#include <microhttpd.h>
#include <perdure/perdure.h>

typedef struct pd_sse {
  size_t queue_max, kept_max;
  pd_buf out;     /* bytes from `base` on */
  uint64_t base;  /* where in the stream `out` begins */
  uint64_t sent;  /* up to here it was handed to a connection */
  uint64_t *ends; /* where events end, from that of number first_event on; not if none is kept */
  size_t end_count, end_capacity;
  uint64_t first_event;
} pd_sse;

void pd_sse_done(pd_sse *s);
size_t pd_sse_unsent(const pd_sse *s);
/* Append events as text. PD_LIMIT (SSE-1), PD_NO_MEMORY: then the stream is broken, unless it was the limit. */
PD_MUST_USE pd_code pd_sse_add(pd_sse *s, pd_bytes text);
/* Append one event; `id` and `name` may be NULL. */
PD_MUST_USE pd_code pd_sse_put(pd_sse *s, const char *id, const char *name, pd_bytes data);
/* The number of the event that is put next, from 0 on. */
uint64_t pd_sse_next(const pd_sse *s);
/* Where the stream goes on after an event. False: that is not kept. */
bool pd_sse_after(const pd_sse *s, uint64_t event, uint64_t *out_at);

/* A connection that a stream is written to, which sleeps while there is nothing to send. */
typedef struct pd_sse_reader {
  struct MHD_Connection *connection;
  uint64_t at; /* the next byte of the stream */
  bool is_asleep;
} pd_sse_reader;

void pd_sse_sleep(pd_sse_reader *reader);
void pd_sse_wake(pd_sse_reader *reader);
/* For libmicrohttpd: what comes next, up to `max` bytes; 0: nothing yet. */
size_t pd_sse_read(pd_sse *s, pd_sse_reader *reader, char *out, size_t max);

/* ---- events of a watch as text ---- */

/* Where a client begins: at its Last-Event-ID if it comes back, else `from`: a place, start, or now, which leaves *out as it is. Either may
 * be NULL or "". PD_INVALID. */
PD_MUST_USE pd_code pd_sse_from(const char *last, const char *from, pd_watch_cursor *out, pd_error *err);
/* Append the event: id (the place after it), event (its kind), data (one line of JSON). */
PD_MUST_USE pd_code pd_sse_event(pd_buf *out, const pd_watch_event *event, pd_error *err);
/* Append one of the server's own: "hello" at the beginning, "cut" at the end. `reason` may be NULL. */
PD_MUST_USE pd_code pd_sse_note(pd_buf *out, const char *name, const pd_watch_cursor *at, const char *store, const char *reason,
                                pd_error *err);
/* A comment that says that there is nothing new up to `at`. */
/* All that was there is told: {"live":true}, which is no place to go on from. */
PD_MUST_USE pd_code pd_sse_live(pd_buf *out, pd_error *err);
PD_MUST_USE pd_code pd_sse_heartbeat(pd_buf *out, const pd_watch_cursor *at, pd_error *err);

#endif
