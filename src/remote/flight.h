/* flight.h: one request to a server whose answer may be a stream of events, on libcurl's multi interface: many at once on one thread. */
#ifndef PD_REMOTE_FLIGHT_H
#define PD_REMOTE_FLIGHT_H

#include "remote/client.h"
#include "remote/events.h"

#define PD_FLIGHT_SESSION_SIZE 256
#define PD_FLIGHT_RESUMED "Perdure-Resumed" /* of the answer: docs/formats.md */

typedef struct pd_flight_header {
  const char *name, *value; /* NULL or "": not sent */
} pd_flight_header;

/* Zero-initialise, but for `events` (told, ctx, size_max). One that has landed can begin again: its events go on from their id. */
typedef struct pd_flight {
  pd_exchange x;
  CURL *easy;                           /* NULL: not on its way */
  pd_buf body;                          /* of an answer that is no stream */
  unsigned status;                      /* 0: none came */
  bool is_events, is_open;              /* open: all headers of the answer are here */
  bool is_resumed;                      /* the stream that Last-Event-ID is of goes on */
  char session[PD_FLIGHT_SESSION_SIZE]; /* Mcp-Session-Id of the answer */
  pd_events events;
} pd_flight;

/* The request's texts and body have to stay until it has landed; headers are copied. */
PD_MUST_USE pd_code pd_flight_begin(pd_flight *flight, CURLM *multi, const pd_remote_request *request, const pd_flight_header *headers,
                                    size_t count, pd_error *err);
/* libcurl is done with it. PD_STORAGE if the answer did not come, or not all of it: names the URI. */
PD_MUST_USE pd_code pd_flight_land(pd_flight *flight, CURLM *multi, CURLcode result, const char *uri, pd_error *err);
/* Hang up if it is on its way, and free what it holds. */
void pd_flight_done(pd_flight *flight, CURLM *multi);

#endif
