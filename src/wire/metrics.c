/* metrics.c: see metrics.h. */
#include "wire/metrics.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdatomic.h>
#include <stdlib.h>

#define STATUS_COUNT 600

/* Microseconds; the last one is +Inf. */
static const int64_t bounds[] = {50,    100,   250,    500,    1000,    2500,    5000,     10000,
                                 25000, 50000, 100000, 250000, 1000000, 2500000, 10000000, INT64_MAX};
#define BOUND_COUNT COUNT_OF(bounds)

typedef struct call_counts {
  const char *name;
  atomic_ullong codes[PD_CODE_COUNT];
  atomic_ullong steps[BOUND_COUNT];
  atomic_ullong us;
} call_counts;

struct pd_metrics {
  call_counts *calls; /* by name, as pd_capability_at has them; then "unknown" */
  size_t count;
  atomic_ullong statuses[STATUS_COUNT];
  atomic_ullong full;
};

pd_code pd_metrics_new(pd_metrics **out, pd_error *err)
{
  pd_metrics *made = calloc(1, sizeof *made);
  pd_capability_info info;
  if (!made) return pd_error_memory(err, "the metrics");
  while (pd_capability_at(made->count, &info, NULL) == PD_OK) made->count++;
  made->calls = calloc(made->count + 1, sizeof *made->calls);
  if (!made->calls) {
    free(made);
    return pd_error_memory(err, "the metrics");
  }
  for (size_t i = 0; i < made->count; i++)
    if (pd_capability_at(i, &info, NULL) == PD_OK) made->calls[i].name = info.name;
  made->calls[made->count].name = "unknown";
  *out = made;
  return PD_OK;
}

void pd_metrics_free(pd_metrics *metrics)
{
  if (!metrics) return;
  free(metrics->calls);
  free(metrics);
}

static int compare_name(const void *name, const void *counts)
{
  return strcmp(name, ((const call_counts *)counts)->name);
}

static void add(atomic_ullong *counter, uint64_t number)
{
  atomic_fetch_add_explicit(counter, number, memory_order_relaxed);
}

void pd_metrics_call(pd_metrics *metrics, const char *capability, pd_code code, int64_t us)
{
  call_counts *counts = bsearch(capability, metrics->calls, metrics->count, sizeof *metrics->calls, compare_name);
  if (!counts) counts = &metrics->calls[metrics->count];
  size_t step = 0;
  while (us > bounds[step]) step++;
  add(&counts->codes[(unsigned)code < PD_CODE_COUNT ? code : PD_STORAGE], 1);
  add(&counts->steps[step], 1);
  add(&counts->us, (uint64_t)us);
  if (code == PD_FULL) add(&metrics->full, 1);
}

uint64_t pd_metrics_full_count(pd_metrics *metrics)
{
  return atomic_load_explicit(&metrics->full, memory_order_relaxed);
}

void pd_metrics_request(pd_metrics *metrics, unsigned status)
{
  if (status < STATUS_COUNT) add(&metrics->statuses[status], 1);
}

/* ---- telling ---- */

static pd_code write_outcomes(const call_counts *counts, pd_buf *out, pd_error *err)
{
  for (int code = 0; code < PD_CODE_COUNT; code++) {
    unsigned long long number = atomic_load_explicit(&counts->codes[code], memory_order_relaxed);
    if (number)
      TRY(pd_buf_printf(out, err, "perdure_calls_total{capability=\"%s\",outcome=\"%s\"} %llu\n", counts->name,
                        code ? pd_code_name((pd_code)code) : "ok", number));
  }
  return PD_OK;
}

static pd_code write_times(const call_counts *counts, pd_buf *out, pd_error *err)
{
  unsigned long long total = 0;
  for (size_t i = 0; i < BOUND_COUNT; i++) total += atomic_load_explicit(&counts->steps[i], memory_order_relaxed);
  if (!total) return PD_OK;
  total = 0;
  for (size_t i = 0; i < BOUND_COUNT; i++) {
    total += atomic_load_explicit(&counts->steps[i], memory_order_relaxed);
    if (i + 1 < BOUND_COUNT)
      TRY(pd_buf_printf(out, err, "perdure_call_seconds_bucket{capability=\"%s\",le=\"%g\"} %llu\n", counts->name, (double)bounds[i] / 1e6,
                        total));
    else
      TRY(pd_buf_printf(out, err, "perdure_call_seconds_bucket{capability=\"%s\",le=\"+Inf\"} %llu\n", counts->name, total));
  }
  double seconds = (double)atomic_load_explicit(&counts->us, memory_order_relaxed) / 1e6;
  TRY(pd_buf_printf(out, err, "perdure_call_seconds_sum{capability=\"%s\"} %.6f\n", counts->name, seconds));
  return pd_buf_printf(out, err, "perdure_call_seconds_count{capability=\"%s\"} %llu\n", counts->name, total);
}

pd_code pd_metrics_write(pd_metrics *metrics, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_printf(out, err, "# HELP perdure_calls_total Calls of capabilities, by outcome.\n# TYPE perdure_calls_total counter\n"));
  for (size_t i = 0; i <= metrics->count; i++) TRY(write_outcomes(&metrics->calls[i], out, err));
  TRY(pd_buf_printf(out, err, "# HELP perdure_call_seconds Time that calls took.\n# TYPE perdure_call_seconds histogram\n"));
  for (size_t i = 0; i <= metrics->count; i++) TRY(write_times(&metrics->calls[i], out, err));
  TRY(pd_buf_printf(out, err, "# HELP perdure_http_requests_total Answers, by status.\n# TYPE perdure_http_requests_total counter\n"));
  for (unsigned status = 0; status < STATUS_COUNT; status++) {
    unsigned long long number = atomic_load_explicit(&metrics->statuses[status], memory_order_relaxed);
    if (number) TRY(pd_buf_printf(out, err, "perdure_http_requests_total{status=\"%u\"} %llu\n", status, number));
  }
  return PD_OK;
}
