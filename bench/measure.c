/* measure.c: time, medians, verdicts, and numbers as text. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

double bench_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void bench_series_add(bench_series *series, double value)
{
  if (series->count < BENCH_SERIES_COUNT_MAX) series->values[series->count++] = value;
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_series_median(const bench_series *series)
{
  double sorted[BENCH_SERIES_COUNT_MAX];
  size_t n = series->count;
  if (n == 0) return 0;
  memcpy(sorted, series->values, n * sizeof(*sorted));
  qsort(sorted, n, sizeof(*sorted), compare_doubles);
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double bench_series_p99(const bench_series *series)
{
  double sorted[BENCH_SERIES_COUNT_MAX];
  if (series->count == 0) return 0;
  memcpy(sorted, series->values, series->count * sizeof(*sorted));
  qsort(sorted, series->count, sizeof(*sorted), compare_doubles);
  return sorted[(series->count * 99 + 99) / 100 - 1];
}

void bench_judge(bench_line *line, double ratio, bench_sense sense, double budget)
{
  bool is_least = sense == BENCH_AT_LEAST;
  snprintf(line->ratio, sizeof(line->ratio), "%.*f×", ratio >= 100 ? 0 : ratio >= 10 ? 1 : 2, ratio);
  snprintf(line->budget, sizeof(line->budget), "%s %.3g×", is_least ? "≥" : "≤", budget);
  line->is_met = is_least ? ratio >= budget : ratio <= budget;
}

uint32_t bench_runs_at_most(const bench *b, uint32_t count_max)
{
  return b->run_count < count_max ? b->run_count : count_max;
}

void bench_say(const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  fputs("bench: ", stderr);
  vfprintf(stderr, fmt, args);
  fputc('\n', stderr);
  va_end(args);
}

char *bench_text_count(uint64_t count, char out[BENCH_TEXT_SIZE])
{
  if (count >= 1000000 && count % 100000 == 0)
    snprintf(out, BENCH_TEXT_SIZE, "%g M", (double)count / 1e6);
  else if (count >= 1000 && count % 100 == 0)
    snprintf(out, BENCH_TEXT_SIZE, "%g k", (double)count / 1e3);
  else
    snprintf(out, BENCH_TEXT_SIZE, "%llu", (unsigned long long)count);
  return out;
}

typedef struct unit {
  double size;
  const char *name;
} unit;

/* Three digits in the largest unit that fits; `units` go down and end with the smallest. */
static char *with_unit(double value, const unit *units, char out[BENCH_TEXT_SIZE])
{
  while (units[1].name && value < units->size) units++;
  double scaled = value / units->size;
  int decimals = scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2;
  snprintf(out, BENCH_TEXT_SIZE, "%.*f %s", decimals, scaled, units->name);
  return out;
}

char *bench_text_rate(double per_second, char out[BENCH_TEXT_SIZE])
{
  static const unit units[] = {{1e6, "M/s"}, {1e3, "k/s"}, {1, "/s"}, {0, NULL}};
  return with_unit(per_second, units, out);
}

char *bench_text_seconds(double seconds, char out[BENCH_TEXT_SIZE])
{
  static const unit units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}, {0, NULL}};
  return with_unit(seconds, units, out);
}

char *bench_text_bytes(double bytes, char out[BENCH_TEXT_SIZE])
{
  static const unit units[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "B"}, {0, NULL}};
  return with_unit(bytes, units, out);
}
