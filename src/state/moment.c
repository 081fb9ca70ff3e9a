/* moment.c: see moment.h. */
#include "state/moment.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>

#define SHOWN_MAX 64

/* pd_time_parse also takes milliseconds, and a space for the T; both are for people at a keyboard. */
static bool is_iso(pd_bytes text)
{
  const char *at = text.data;
  return text.size >= 10 && at[4] == '-' && !memchr(at, ' ', text.size);
}

pd_code pd_in_moment(const pd_frame *frame, const char *name, int64_t *out_ms, bool *out_has, pd_error *err)
{
  pd_bytes given = pd_in_text(frame, name);
  char text[64];
  *out_has = given.data != NULL;
  if (!given.data) return PD_OK;
  if (pd_in_string(frame, name, text, sizeof text) && is_iso(given) && pd_time_parse(text, out_ms)) return PD_OK;
  return pd_error_named(err, PD_INVALID, "InvalidTimestamp", "%s: '%.*s' in field '%s' is no ISO 8601 time such as 2026-03-25T14:00:00Z",
                        frame->capability->name, (int)(given.size < SHOWN_MAX ? given.size : SHOWN_MAX), (const char *)given.data, name);
}

/* Two units at most: who was away for two days does not ask for the seconds. */
char *pd_span_text(int64_t span_ms, char out[PD_SPAN_TEXT_SIZE])
{
  long long seconds = span_ms > 0 ? span_ms / 1000 : 0, minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
  if (!seconds)
    snprintf(out, PD_SPAN_TEXT_SIZE, "a moment");
  else if (!minutes)
    snprintf(out, PD_SPAN_TEXT_SIZE, "%lld s", seconds);
  else if (!hours)
    snprintf(out, PD_SPAN_TEXT_SIZE, "%lld min", minutes);
  else if (!days && minutes % 60)
    snprintf(out, PD_SPAN_TEXT_SIZE, "%lld h %lld min", hours, minutes % 60);
  else if (!days)
    snprintf(out, PD_SPAN_TEXT_SIZE, "%lld h", hours);
  else if (hours % 24)
    snprintf(out, PD_SPAN_TEXT_SIZE, "%lld day%s %lld h", days, days == 1 ? "" : "s", hours % 24);
  else
    snprintf(out, PD_SPAN_TEXT_SIZE, "%lld day%s", days, days == 1 ? "" : "s");
  return out;
}

int64_t pd_json_time(pd_json value)
{
  char text[64] = "";
  int64_t ms = 0;
  if (value.kind != PD_JSON_STRING || value.raw.size - 2 >= sizeof text) return 0; /* such texts have no escapes */
  memcpy(text, (const char *)value.raw.data + 1, value.raw.size - 2);
  return pd_time_parse(text, &ms) ? ms : 0;
}
