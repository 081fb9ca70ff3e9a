/* flight.c: see flight.h. */
#include "remote/flight.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The value of a header line without blanks around it, if it is that header. */
static bool header_is(pd_bytes line, const char *name, pd_bytes *out)
{
  const char *text = line.data;
  size_t size = strlen(name);
  if (line.size <= size || strncasecmp(text, name, size) != 0 || text[size] != ':') return false;
  const char *at = text + size + 1, *end = text + line.size;
  while (at < end && strchr(" \t", *at)) at++;
  while (end > at && strchr(" \t\r\n", end[-1])) end--;
  *out = (pd_bytes){at, (size_t)(end - at)};
  return true;
}

static void take_status(pd_flight *flight, pd_bytes line)
{
  char text[16];
  const char *blank = memchr(line.data, ' ', line.size);
  if (!blank) return;
  snprintf(text, sizeof text, "%.*s", (int)(line.size - (size_t)(blank - (const char *)line.data)), blank);
  flight->status = (unsigned)strtoul(text, NULL, 10);
  flight->is_events = false;
}

static size_t take_header(char *data, size_t size, size_t count, void *ctx)
{
  static const char stream[] = "text/event-stream";
  pd_flight *flight = ctx;
  pd_bytes line = {data, count}, value;
  (void)size;
  if (pd_bytes_starts(line, pd_text("HTTP/"))) take_status(flight, line);
  if (header_is(line, "Content-Type", &value))
    flight->is_events = value.size >= sizeof stream - 1 && strncasecmp(value.data, stream, sizeof stream - 1) == 0;
  if (header_is(line, "Mcp-Session-Id", &value) && value.size < sizeof flight->session)
    snprintf(flight->session, sizeof flight->session, "%.*s", (int)value.size, (const char *)value.data);
  if (header_is(line, PD_FLIGHT_RESUMED, &value)) flight->is_resumed = true;
  flight->is_open = flight->is_open || (count <= 2 && flight->status >= 200);
  return count;
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
  pd_flight *flight = ctx;
  pd_error *fault = &flight->x.fault;
  (void)size;
  if (fault->code) return 0;
  pd_code code =
    flight->is_events ? pd_events_feed(&flight->events, (pd_bytes){data, count}, fault) : pd_buf_append(&flight->body, data, count, fault);
  return code ? 0 : count;
}

static pd_code set_up(pd_flight *flight, const pd_remote_request *request, const pd_flight_header *headers, size_t count, pd_error *err)
{
  flight->body.size_max = flight->events.size_max;
  TRY(pd_exchange_begin(&flight->x, flight->easy, request, &flight->body, err));
  for (size_t i = 0; i < count; i++)
    if (headers[i].value && *headers[i].value) TRY(pd_exchange_header(&flight->x, headers[i].name, headers[i].value, err));
  pd_libcurl.easy_setopt(flight->easy, CURLOPT_WRITEFUNCTION, take_body);
  pd_libcurl.easy_setopt(flight->easy, CURLOPT_WRITEDATA, flight);
  pd_libcurl.easy_setopt(flight->easy, CURLOPT_HEADERFUNCTION, take_header);
  pd_libcurl.easy_setopt(flight->easy, CURLOPT_HEADERDATA, flight);
  return PD_OK;
}

static void let_go(pd_flight *flight)
{
  pd_libcurl.easy_cleanup(flight->easy);
  pd_exchange_done(&flight->x);
  flight->easy = NULL;
}

pd_code pd_flight_begin(pd_flight *flight, CURLM *multi, const pd_remote_request *request, const pd_flight_header *headers, size_t count,
                        pd_error *err)
{
  flight->status = 0;
  flight->is_events = flight->is_open = flight->is_resumed = false;
  pd_events_cut(&flight->events);
  flight->easy = pd_libcurl.easy_init();
  if (!flight->easy) return pd_error_memory(err, "a request");
  pd_code code = set_up(flight, request, headers, count, err);
  if (!code && pd_libcurl.multi_add_handle(multi, flight->easy) != CURLM_OK) code = pd_error_memory(err, "a request");
  if (code) let_go(flight);
  return code;
}

pd_code pd_flight_land(pd_flight *flight, CURLM *multi, CURLcode result, const char *uri, pd_error *err)
{
  pd_code code = pd_exchange_end(&flight->x, result, uri, err);
  pd_libcurl.multi_remove_handle(multi, flight->easy);
  let_go(flight);
  return code;
}

void pd_flight_done(pd_flight *flight, CURLM *multi)
{
  if (flight->easy) {
    pd_libcurl.multi_remove_handle(multi, flight->easy);
    let_go(flight);
  }
  pd_buf_done(&flight->body);
  pd_events_done(&flight->events);
}
