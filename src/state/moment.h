/* moment.h: times that callers give, times and spans that they get, and members that are there or not. */
#ifndef PD_STATE_MOMENT_H
#define PD_STATE_MOMENT_H

#include "state/call.h"

/* A `date-time` input: ISO 8601 (a date, or date and time with Z or an offset; UTC if none). *out_has is false if it is absent.
 * PD_INVALID named InvalidTimestamp for anything else: also for plain numbers, which say nothing of their unit. */
PD_MUST_USE pd_code pd_in_moment(const pd_frame *frame, const char *name, int64_t *out_ms, bool *out_has, pd_error *err);

#define PD_SPAN_TEXT_SIZE 48
/* "3 h 12 min", "2 days 4 h", "40 s", "a moment"; returns `out`. */
char *pd_span_text(int64_t span_ms, char out[PD_SPAN_TEXT_SIZE]);

/* A time as pd_json_put_time writes it; 0 for anything else. */
int64_t pd_json_time(pd_json value);

#endif
