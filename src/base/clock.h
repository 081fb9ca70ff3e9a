/* clock.h: time as text, and the system's clock for those who were given no other. */
#ifndef PD_BASE_CLOCK_H
#define PD_BASE_CLOCK_H

#include <perdure/perdure.h>

#define PD_TIME_TEXT_SIZE 32

/* Milliseconds since 1970 UTC. `ctx` is not used. */
int64_t pd_clock_now_ms(void *ctx);
/* Milliseconds that only go forward, for time-outs. */
int64_t pd_clock_monotonic_ms(void);
/* Microseconds that only go forward, for measuring. */
int64_t pd_clock_monotonic_us(void);
/* 2026-11-15T10:20:30.123Z; returns `out`. */
PD_API char *pd_time_text(int64_t time_ms, char out[PD_TIME_TEXT_SIZE]);
/* 2026-11-15, 2026-11-15T10:20[:30[.123]][Z|+01:00] (a space for the T is fine), or milliseconds since 1970. */
PD_MUST_USE bool pd_time_parse(const char *text, int64_t *out_ms);

#endif
