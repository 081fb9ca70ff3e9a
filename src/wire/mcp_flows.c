/* mcp_flows.c: all flows of a server: heartbeats, those that nobody comes back to, and their end. See mcp_flow.h. */
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/mcp_flow_inside.h"

#include <stdlib.h>
#include <sys/random.h>

#define BEAT_MS 10000
#define BEAT_ANSWER_MS 2000 /* before the first word of an answer: who is gone wants none */
#define PARKED_MS ((int64_t)5 * 60 * 1000)
#define PARKED_SIZE_MAX ((size_t)64 * 1024 * 1024)

pd_code pd_mcp_flows_init(pd_mcp_flows *flows, pd_mcp *mcp, pd_gone *gone, pd_error *err)
{
  *flows = (pd_mcp_flows){.mcp = mcp, .gone = gone, .parked_size_max = PARKED_SIZE_MAX};
  if (getrandom(&flows->boot, sizeof flows->boot, 0) != (ssize_t)sizeof flows->boot)
    return pd_error_set(err, PD_STORAGE, "no random bytes from the system");
  pthread_mutex_init(&flows->lock, NULL);
  return PD_OK;
}

void pd_mcp_flows_done(pd_mcp_flows *flows)
{
  while (flows->first) {
    pd_mcp_flow *f = flows->first;
    pd_mcp_flow_unlist(f);
    pd_mcp_flow_release(f);
  }
  pthread_mutex_destroy(&flows->lock);
}

/* What is parked, as it was counted: of one flow, then of its agent. */
typedef struct parked {
  pd_mcp_flow *flow;
  size_t size;
  int64_t left_ms;
} parked;

static int by_agent_and_age(const void *a, const void *b)
{
  const parked *x = a, *y = b;
  int order = strcmp(x->flow->agent, y->flow->agent);
  if (!order) order = (x->left_ms > y->left_ms) - (x->left_ms < y->left_ms);
  return order ? order : (x->flow->number > y->flow->number) - (x->flow->number < y->flow->number);
}

/* The oldest of the agent that has the most: who keeps little loses nothing because another keeps much. */
static pd_mcp_flow *largest(parked *items, size_t count)
{
  pd_mcp_flow *found = NULL;
  size_t most = 0;
  qsort(items, count, sizeof items[0], by_agent_and_age);
  for (size_t i = 0, first = 0, size = 0; i < count; i++) {
    if (strcmp(items[i].flow->agent, items[first].flow->agent) != 0) first = i, size = 0;
    size += items[i].size;
    if (size <= most) continue;
    most = size;
    found = items[first].flow;
  }
  return found;
}

/* Under the list's lock. NULL: none has to go, or there is no memory to find out: then the next tick does. */
static pd_mcp_flow *find_surplus(pd_mcp_flows *flows, size_t parked_count)
{
  parked *items = calloc(parked_count, sizeof items[0]);
  size_t count = 0;
  for (pd_mcp_flow *f = flows->first; f && items; f = f->next) {
    pthread_mutex_lock(&f->lock);
    if (!f->tap && !f->request && count < parked_count) items[count++] = (parked){f, f->message.size + f->stream.out.size, f->left_ms};
    pthread_mutex_unlock(&f->lock);
  }
  pd_mcp_flow *found = items ? largest(items, count) : NULL;
  free(items);
  return found;
}

/* One that nobody comes back to: it was left too long ago, or all of them have too much. Out of the list; NULL: none. */
static pd_mcp_flow *take_stale(pd_mcp_flows *flows, int64_t now_ms)
{
  pd_mcp_flow *oldest = NULL;
  size_t size = 0, count = 0;
  pthread_mutex_lock(&flows->lock);
  for (pd_mcp_flow *f = flows->first; f; f = f->next) {
    pthread_mutex_lock(&f->lock);
    if (!f->tap && !f->request) {
      count++;
      size += f->message.size + f->stream.out.size;
      if (!oldest || f->left_ms < oldest->left_ms) oldest = f;
    }
    pthread_mutex_unlock(&f->lock);
  }
  if (!oldest || now_ms - oldest->left_ms <= PARKED_MS) oldest = size > flows->parked_size_max ? find_surplus(flows, count) : NULL;
  if (oldest) pd_mcp_flow_unlist(oldest);
  pthread_mutex_unlock(&flows->lock);
  return oldest;
}

static void beat(pd_mcp_flow *f, int64_t now_ms)
{
  pthread_mutex_lock(&f->lock);
  int64_t every_ms = f->is_get || f->count ? BEAT_MS : BEAT_ANSWER_MS;
  if (f->request && now_ms >= f->early_ms) pd_mcp_flow_wake_request(f);
  if (f->tap && f->tap->reader.is_asleep && now_ms - f->spoke_ms >= every_ms) {
    f->tap->is_beat = true;
    f->spoke_ms = now_ms;
    pd_mcp_flow_wake_tap(f->tap);
  }
  pthread_mutex_unlock(&f->lock);
}

void pd_mcp_flows_tick(pd_mcp_flows *flows)
{
  int64_t now_ms = pd_clock_monotonic_ms();
  pd_mcp_flow *stale;
  pthread_mutex_lock(&flows->lock);
  for (pd_mcp_flow *f = flows->first; f; f = f->next) beat(f, now_ms);
  pthread_mutex_unlock(&flows->lock);
  while ((stale = take_stale(flows, now_ms))) pd_mcp_flow_drop(stale);
}

void pd_mcp_flows_drain(pd_mcp_flows *flows, bool is_end)
{
  pthread_mutex_lock(&flows->lock);
  for (pd_mcp_flow *f = flows->first; f; f = f->next) {
    pthread_mutex_lock(&f->lock);
    if (is_end && !f->is_done && !f->count) f->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    f->is_done = f->is_done || f->is_get || is_end;
    pd_mcp_flow_wake(f);
    pthread_mutex_unlock(&f->lock);
  }
  pthread_mutex_unlock(&flows->lock);
}

bool pd_mcp_flows_are_open(pd_mcp_flows *flows)
{
  bool is_open = false;
  pthread_mutex_lock(&flows->lock);
  for (pd_mcp_flow *f = flows->first; f && !is_open; f = f->next) {
    pthread_mutex_lock(&f->lock);
    is_open = f->tap || f->request;
    pthread_mutex_unlock(&f->lock);
  }
  pthread_mutex_unlock(&flows->lock);
  return is_open;
}

static pd_mcp_flow *take_of_session(pd_mcp_flows *flows, const char *session)
{
  pthread_mutex_lock(&flows->lock);
  pd_mcp_flow *f = flows->first;
  while (f && strcmp(f->session_id, session) != 0) f = f->next;
  if (f) {
    pd_mcp_flow_unlist(f);
    pthread_mutex_lock(&f->lock);
    f->is_done = f->is_lost = true; /* a connection that it has ends, too */
    pd_mcp_flow_wake(f);
    pthread_mutex_unlock(&f->lock);
  }
  pthread_mutex_unlock(&flows->lock);
  return f;
}

void pd_mcp_flows_forget(pd_mcp_flows *flows, const char *session)
{
  pd_mcp_flow *f;
  while ((f = take_of_session(flows, session))) pd_mcp_flow_drop(f);
}
