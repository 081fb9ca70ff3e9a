/* session_share.c: see session_share.h. */
#include "state/session_share.h"

#include "base/base.h"
#include "base/error.h"
#include "base/map.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pd_session_share {
  char agent[PD_NAME_SIZE_MAX + 1];
  uint64_t count; /* sessions; under the lock of all */
  atomic_size_t bytes;
};

struct pd_session_shares {
  pthread_mutex_t lock;
  pd_map agents;
};

pd_code pd_session_shares_new(pd_session_shares **out, pd_error *err)
{
  pd_session_shares *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  made->agents.text_at = offsetof(pd_session_share, agent);
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_session_shares_free(pd_session_shares *shares)
{
  if (!shares) return;
  pd_map_done(&shares->agents);
  pthread_mutex_destroy(&shares->lock);
  free(shares);
}

/* NULL: no memory. */
static pd_session_share *add(pd_session_shares *shares, const char *agent, pd_error *err)
{
  pd_session_share *made = calloc(1, sizeof *made);
  if (made) snprintf(made->agent, sizeof made->agent, "%s", agent);
  if (made && pd_map_put(&shares->agents, made, NULL, err) == PD_OK) return made;
  free(made);
  (void)pd_error_memory(err, "a session");
  return NULL;
}

static pd_code enter(pd_session_shares *shares, const char *agent, uint64_t count_max, pd_session_share **out, pd_error *err)
{
  pd_session_share *share = pd_map_find(&shares->agents, pd_text(agent));
  if (share && share->count >= count_max)
    return pd_error_named(err, PD_LIMIT, "TooManySessions", "agent '%s' has %llu sessions already, and no more are allowed", agent,
                          (unsigned long long)share->count);
  if (!share && !(share = add(shares, agent, err))) return PD_NO_MEMORY;
  share->count++;
  *out = share;
  return PD_OK;
}

pd_code pd_session_share_enter(pd_session_shares *shares, const char *agent, uint64_t count_max, pd_session_share **out, pd_error *err)
{
  pthread_mutex_lock(&shares->lock);
  pd_code code = enter(shares, agent, count_max, out, err);
  pthread_mutex_unlock(&shares->lock);
  return code;
}

void pd_session_share_leave(pd_session_shares *shares, pd_session_share *share)
{
  if (!share) return;
  pthread_mutex_lock(&shares->lock);
  if (--share->count == 0) {
    free(pd_map_remove(&shares->agents, pd_text(share->agent)));
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
