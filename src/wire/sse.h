/* sse.h: an event of a watch as text/event-stream has it. */
#ifndef PD_WIRE_SSE_H
#define PD_WIRE_SSE_H

#include <perdure/perdure.h>

/* Where a client begins: at its Last-Event-ID if it comes back, else `from`: a place, start, or now, which leaves *out as it is. Either may
 * be NULL or "". PD_INVALID. */
PD_MUST_USE pd_code pd_sse_from(const char *last, const char *from, pd_watch_cursor *out, pd_error *err);
/* Append the event: id (the place after it), event (its kind), data (one line of JSON). */
PD_MUST_USE pd_code pd_sse_event(pd_buf *out, const pd_watch_event *event, pd_error *err);
/* Append one of the server's own: "hello" at the beginning, "cut" at the end. `reason` may be NULL. */
PD_MUST_USE pd_code pd_sse_note(pd_buf *out, const char *name, const pd_watch_cursor *at, const char *store, const char *reason,
                                pd_error *err);
/* A comment that says that there is nothing new up to `at`. */
PD_MUST_USE pd_code pd_sse_heartbeat(pd_buf *out, const pd_watch_cursor *at, pd_error *err);

#endif
