/*
 * rate.c: so many requests a second for each token and agent, and bursts of as many. A bucket for each, filled as time passes; buckets that
 * are full again are forgotten.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/http.h"

#include <stdio.h>
#include <stdlib.h>

#define BUCKETS_MAX 4096 /* then those that are full are looked for */

typedef struct bucket {
  char id[PD_TOKEN_ID_SIZE + PD_NAME_SIZE_MAX];
  uint64_t rate;
  double level; /* requests that may be made now */
  int64_t seen_us;
} bucket;

struct pd_rates {
  pthread_mutex_t lock;
  bucket *buckets;
  size_t count, capacity;
};

pd_code pd_rates_new(pd_rates **out, pd_error *err)
{
  pd_rates *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "the server");
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_rates_free(pd_rates *rates)
{
  if (!rates) return;
  pthread_mutex_destroy(&rates->lock);
  free(rates->buckets);
  free(rates);
}

static void fill(bucket *b, int64_t now_us)
{
  b->level += (double)(now_us - b->seen_us) / 1e6 * (double)b->rate;
  if (b->level > (double)b->rate) b->level = (double)b->rate;
  b->seen_us = now_us;
}

static void forget_full(pd_rates *rates, int64_t now_us)
{
  for (size_t i = 0; i < rates->count;) {
    fill(&rates->buckets[i], now_us);
    if (rates->buckets[i].level < (double)rates->buckets[i].rate)
      i++;
    else
      rates->buckets[i] = rates->buckets[--rates->count];
  }
}

static bucket *find(pd_rates *rates, const char *id, uint64_t rate, int64_t now_us)
{
  for (size_t i = 0; i < rates->count; i++)
    if (strcmp(rates->buckets[i].id, id) == 0) return &rates->buckets[i];
  if (rates->count >= BUCKETS_MAX) forget_full(rates, now_us);
  if (pd_array_grow(&rates->buckets, rates->count, &rates->capacity, sizeof *rates->buckets, "the server", NULL)) return NULL;
  bucket *b = &rates->buckets[rates->count++];
  *b = (bucket){.rate = rate, .level = (double)rate, .seen_us = now_us};
  snprintf(b->id, sizeof b->id, "%s", id);
  return b;
}

bool pd_rate_take(pd_rates *rates, const char *id, uint64_t rate)
{
  int64_t now_us = pd_clock_monotonic_us();
  pthread_mutex_lock(&rates->lock);
  bucket *b = find(rates, id, rate, now_us);
  bool is_in = b != NULL;
  if (b) {
    b->rate = rate;
    fill(b, now_us);
    is_in = b->level >= 1;
    if (is_in) b->level -= 1;
  }
  pthread_mutex_unlock(&rates->lock);
  return is_in;
}
