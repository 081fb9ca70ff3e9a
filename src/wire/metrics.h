/* metrics.h: counting what the server does, and telling it as Prometheus reads it. Counting takes no lock. */
#ifndef PD_WIRE_METRICS_H
#define PD_WIRE_METRICS_H

#include <perdure/perdure.h>

typedef struct pd_metrics pd_metrics;

PD_MUST_USE pd_code pd_metrics_new(pd_metrics **out, pd_error *err);
void pd_metrics_free(pd_metrics *metrics); /* takes NULL */

/* A call came to its end. A name that is no capability's counts under "unknown". */
void pd_metrics_call(pd_metrics *metrics, const char *capability, pd_code code, int64_t us);
/* How many calls found the disk full. */
uint64_t pd_metrics_full_count(pd_metrics *metrics);
/* An HTTP request was answered. */
void pd_metrics_request(pd_metrics *metrics, unsigned status);

/* Append what was counted here, as text of Prometheus. */
PD_MUST_USE pd_code pd_metrics_write(pd_metrics *metrics, pd_buf *out, pd_error *err);

#endif
