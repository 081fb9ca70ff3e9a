/* session_share.c: see session_share.h. */
#include "state/session_share.h"

#include "base/base.h"
#include "base/error.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256u

struct pd_session_share {
  pd_session_share *next;
  char agent[PD_NAME_SIZE_MAX + 1];
  uint64_t count; /* sessions; under the lock of all */
  atomic_size_t bytes;
};

struct pd_session_shares {
  pthread_mutex_t lock;
  pd_session_share *buckets[BUCKETS];
};

pd_code pd_session_shares_new(pd_session_shares **out, pd_error *err)
{
  pd_session_shares *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_session_shares_free(pd_session_shares *shares)
{
  if (!shares) return;
  pthread_mutex_destroy(&shares->lock);
  free(shares);
}

static pd_session_share **place_of(pd_session_shares *shares, const char *agent)
{
  uint32_t hash = 2166136261u;
  for (const char *at = agent; *at; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
  pd_session_share **at = &shares->buckets[hash % BUCKETS];
  while (*at && strcmp((*at)->agent, agent) != 0) at = &(*at)->next;
  return at;
}

static pd_code enter(pd_session_share **at, const char *agent, uint64_t count_max, pd_error *err)
{
  if (*at && (*at)->count >= count_max)
    return pd_error_named(err, PD_LIMIT, "TooManySessions",
                          "agent '%s' has %llu sessions already, and session.agent_count_max allows no more", agent,
                          (unsigned long long)(*at)->count);
  if (!*at) {
    *at = calloc(1, sizeof **at);
    if (!*at) return pd_error_memory(err, "a session");
    snprintf((*at)->agent, sizeof(*at)->agent, "%s", agent);
  }
  (*at)->count++;
  return PD_OK;
}

pd_code pd_session_share_enter(pd_session_shares *shares, const char *agent, uint64_t count_max, pd_session_share **out, pd_error *err)
{
  pthread_mutex_lock(&shares->lock);
  pd_session_share **at = place_of(shares, agent);
  pd_code code = enter(at, agent, count_max, err);
  if (!code) *out = *at;
  pthread_mutex_unlock(&shares->lock);
  return code;
}

void pd_session_share_leave(pd_session_shares *shares, pd_session_share *share)
{
  if (!share) return;
  pthread_mutex_lock(&shares->lock);
  if (--share->count == 0) {
    *place_of(shares, share->agent) = share->next;
    free(share);
  }
  pthread_mutex_unlock(&shares->lock);
}

bool pd_session_share_take(pd_session_share *share, size_t bytes, uint64_t bytes_max)
{
  size_t used = atomic_load(&share->bytes);
  do {
    if (used > bytes_max || bytes > bytes_max - used) return false;
  } while (!atomic_compare_exchange_weak(&share->bytes, &used, used + bytes));
  return true;
}

void pd_session_share_give(pd_session_share *share, size_t bytes)
{
  atomic_fetch_sub(&share->bytes, bytes);
}

size_t pd_session_share_bytes(const pd_session_share *share)
{
  return atomic_load(&share->bytes);
}
