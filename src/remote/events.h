/*
 * events.h: text/event-stream, as a client reads it (the HTML standard, 9.2): bytes in, events out, however they are cut.
 *
 *     pd_events events = {.told = take, .ctx = x, .size_max = 1 << 20};
 *     if (pd_events_feed(&events, bytes, &err)) …
 */
#ifndef PD_REMOTE_EVENTS_H
#define PD_REMOTE_EVENTS_H

#include <perdure/perdure.h>

#define PD_EVENTS_ID_SIZE 256

/* Zero-initialise, but for the first three. */
typedef struct pd_events {
  void (*told)(void *ctx, pd_bytes data); /* of an event that has data */
  void *ctx;
  size_t size_max;            /* of a line, and of an event's data */
  char id[PD_EVENTS_ID_SIZE]; /* the last event's: what Last-Event-ID says; "": none */
  uint32_t retry_ms;          /* 0: not said */
  char next_id[PD_EVENTS_ID_SIZE];
  bool has_next_id, was_return;
  pd_buf line, data;
} pd_events;

/* PD_LIMIT for a line or data over size_max. An id that is too long, or has a NUL, is none. */
PD_MUST_USE pd_code pd_events_feed(pd_events *events, pd_bytes bytes, pd_error *err);
/* The connection is gone, and with it what was half told. The id stays. */
void pd_events_cut(pd_events *events);
void pd_events_done(pd_events *events);

#endif
