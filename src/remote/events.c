/* events.c: see events.h. */
#include "remote/events.h"

#include "base/base.h"
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#define RETRY_MS_MAX 60000u

static void dispatch(pd_events *events)
{
  if (events->has_next_id) snprintf(events->id, sizeof events->id, "%s", events->next_id);
  events->has_next_id = false;
  if (events->data.size > 1) events->told(events->ctx, (pd_bytes){events->data.data, events->data.size - 1});
  pd_buf_clear(&events->data);
}

static void take_id(pd_events *events, pd_bytes value)
{
  if (value.size >= sizeof events->next_id || (value.size && memchr(value.data, 0, value.size))) return;
  if (value.size) memcpy(events->next_id, value.data, value.size);
  events->next_id[value.size] = 0;
  events->has_next_id = true;
}

static void take_retry(pd_events *events, pd_bytes value)
{
  char text[16];
  if (!value.size || value.size >= sizeof text) return;
  memcpy(text, value.data, value.size);
  text[value.size] = 0;
  if (strspn(text, "0123456789") != value.size) return;
  unsigned long long ms = strtoull(text, NULL, 10);
  events->retry_ms = ms > RETRY_MS_MAX ? RETRY_MS_MAX : (uint32_t)ms;
}

static pd_code take_data(pd_events *events, pd_bytes value, pd_error *err)
{
  events->data.size_max = events->size_max + 1;
  TRY(pd_buf_append(&events->data, value.data, value.size, err));
  return pd_buf_byte(&events->data, '\n', err);
}

/* A comment begins with the colon: its field has no name. */
static pd_code take_line(pd_events *events, pd_bytes line, pd_error *err)
{
  if (!line.size) {
    dispatch(events);
    return PD_OK;
  }
  const char *text = line.data, *colon = memchr(text, ':', line.size);
  pd_bytes name = {text, colon ? (size_t)(colon - text) : line.size}, value = {0};
  if (colon) value = (pd_bytes){colon + 1, line.size - name.size - 1};
  if (value.size && *(const char *)value.data == ' ') value = (pd_bytes){(const char *)value.data + 1, value.size - 1};
  if (pd_bytes_equal(name, pd_text("data"))) return take_data(events, value, err);
  if (pd_bytes_equal(name, pd_text("id"))) take_id(events, value);
  if (pd_bytes_equal(name, pd_text("retry"))) take_retry(events, value);
  return PD_OK;
}

/* Where the line ends: at \n, \r, or \r\n, whose \n may come later. */
static size_t line_size(const uint8_t *at, size_t left)
{
  const uint8_t *end = memchr(at, '\n', left);
  size_t size = end ? (size_t)(end - at) : left;
  const uint8_t *back = size ? memchr(at, '\r', size) : NULL;
  return back ? (size_t)(back - at) : size;
}

pd_code pd_events_feed(pd_events *events, pd_bytes bytes, pd_error *err)
{
  const uint8_t *at = bytes.data;
  events->line.size_max = events->size_max;
  for (size_t left = bytes.size; left;) {
    if (events->was_return && *at == '\n') at++, left--;
    events->was_return = false;
    if (!left) break;
    size_t size = line_size(at, left);
    TRY(pd_buf_append(&events->line, at, size, err));
    at += size, left -= size;
    if (!left) break;
    events->was_return = *at == '\r';
    at++, left--;
    TRY(take_line(events, pd_buf_bytes(&events->line), err));
    pd_buf_clear(&events->line);
  }
  return PD_OK;
}

void pd_events_cut(pd_events *events)
{
  pd_buf_clear(&events->line);
  pd_buf_clear(&events->data);
  events->has_next_id = events->was_return = false;
}

void pd_events_done(pd_events *events)
{
  pd_buf_done(&events->line);
  pd_buf_done(&events->data);
}
