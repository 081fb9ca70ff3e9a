/*
 * rate.c: so many requests a second for each token and agent, and bursts of as many. A bucket for each, filled as time passes; buckets that
 * are full again are forgotten.
 */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "wire/http.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_MIN 64 /* buckets, before those that are full are looked for */

typedef struct bucket {
  struct bucket *next; /* of those that are forgotten */
  char id[PD_TOKEN_ID_SIZE + PD_NAME_SIZE_MAX];
  uint64_t rate;
  double level; /* requests that may be made now */
  int64_t seen_us;
} bucket;

struct pd_rates {
  pthread_mutex_t lock;
  pd_map buckets; /* by id */
  size_t look_at; /* so many buckets: look for those that are full */
};

pd_code pd_rates_new(pd_rates **out, pd_error *err)
{
  pd_rates *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "the server");
  made->buckets.text_at = offsetof(bucket, id);
  made->look_at = LOOK_MIN;
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_rates_free(pd_rates *rates)
{
  if (!rates) return;
  size_t at = 0;
  for (bucket *b; (b = pd_map_next(&rates->buckets, &at));) free(b);
  pd_map_done(&rates->buckets);
  pthread_mutex_destroy(&rates->lock);
  free(rates);
}

static void fill(bucket *b, int64_t now_us)
{
  b->level += (double)(now_us - b->seen_us) / 1e6 * (double)b->rate;
  if (b->level > (double)b->rate) b->level = (double)b->rate;
  b->seen_us = now_us;
}

/* The next time when there are twice as many as are left: so each bucket is looked at twice on average, however many there are. */
static void forget_full(pd_rates *rates, int64_t now_us)
{
  size_t at = 0;
  bucket *full = NULL;
  for (bucket *b; (b = pd_map_next(&rates->buckets, &at));) {
    fill(b, now_us);
    if (b->level < (double)b->rate) continue;
    b->next = full;
    full = b;
  }
  for (bucket *next; full; full = next) {
    next = full->next;
    free(pd_map_remove(&rates->buckets, pd_text(full->id)));
  }
  rates->look_at = rates->buckets.count < LOOK_MIN / 2 ? LOOK_MIN : 2 * rates->buckets.count;
}

/* NULL: no memory. */
static bucket *find(pd_rates *rates, const char *id, uint64_t rate, int64_t now_us)
{
  bucket *b = pd_map_find(&rates->buckets, pd_text(id));
  if (b) return b;
  if (rates->buckets.count >= rates->look_at) forget_full(rates, now_us);
  b = calloc(1, sizeof *b);
  if (!b) return NULL;
  *b = (bucket){.rate = rate, .level = (double)rate, .seen_us = now_us};
  snprintf(b->id, sizeof b->id, "%s", id);
  if (pd_map_put(&rates->buckets, b, NULL, NULL) == PD_OK) return b;
  free(b);
  return NULL;
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
