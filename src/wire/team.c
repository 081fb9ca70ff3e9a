/* team.c: see team.h. */
#include "wire/team.h"

#include "base/base.h"
#include "base/error.h"
#include "wire/start.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define HELPERS_MAX 15
#define STACK_SIZE ((size_t)256 * 1024)

struct pd_team {
  pthread_mutex_t lock; /* of all but `taken`, and of what a work says while it is not open */
  pthread_cond_t begun, ended;
  pthread_t ids[HELPERS_MAX];
  unsigned helper_count, helpers_max;
  cpu_set_t processors;               /* that we may use */
  int last_processor;                 /* which the helpers keep off */
  bool is_busy, is_open, is_stopping; /* open: helpers may join in */
  unsigned inside;                    /* helpers that joined in */
  uint64_t number;                    /* of the work: a helper joins in once */
  pd_team_act act;
  void *ctx;
  size_t count, grain;
  atomic_size_t taken; /* pieces that somebody does, or did */
};

pd_code pd_team_new(unsigned threads_max, pd_team **out, pd_error *err)
{
  pd_team *team = calloc(1, sizeof *team);
  if (!team) return pd_error_memory(err, "the server's threads");
  team->last_processor = -1;
  if (sched_getaffinity(0, sizeof team->processors, &team->processors)) CPU_ZERO(&team->processors);
  unsigned processors = (unsigned)CPU_COUNT(&team->processors), threads = processors < threads_max ? processors : threads_max;
  team->helpers_max = threads < 2 ? 0 : threads - 1 < HELPERS_MAX ? threads - 1 : HELPERS_MAX;
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->begun, NULL);
  pthread_cond_init(&team->ended, NULL);
  *out = team;
  return PD_OK;
}

void pd_team_free(pd_team *team)
{
  if (!team) return;
  pthread_mutex_lock(&team->lock);
  team->is_stopping = true;
  pthread_cond_broadcast(&team->begun);
  pthread_mutex_unlock(&team->lock);
  for (unsigned i = 0; i < team->helper_count; i++) pthread_join(team->ids[i], NULL);
  pthread_cond_destroy(&team->ended);
  pthread_cond_destroy(&team->begun);
  pthread_mutex_destroy(&team->lock);
  free(team);
}

static void work(pd_team *team)
{
  for (;;) {
    size_t begin = atomic_fetch_add_explicit(&team->taken, team->grain, memory_order_relaxed);
    if (begin >= team->count) return;
    team->act(team->ctx, begin, team->count - begin < team->grain ? team->count : begin + team->grain);
  }
}

static void *help(void *ctx)
{
  pd_team *team = ctx;
  uint64_t last = 0;
  pthread_mutex_lock(&team->lock);
  for (;;) {
    while (!team->is_stopping && !(team->is_open && team->number != last)) pthread_cond_wait(&team->begun, &team->lock);
    if (team->is_stopping) break;
    last = team->number;
    team->inside++;
    pthread_mutex_unlock(&team->lock);
    work(team);
    pthread_mutex_lock(&team->lock);
    if (--team->inside == 0) pthread_cond_signal(&team->ended);
  }
  pthread_mutex_unlock(&team->lock);
  return NULL;
}

/* Fewer than there could be, if the system gives no more. */
static void start_helpers(pd_team *team)
{
  while (team->helper_count < team->helpers_max && pd_spawn(&team->ids[team->helper_count], STACK_SIZE, help, team) == 0)
    team->helper_count++;
}

/* A thread that is woken is put where its waker runs if the others look busy just then, and would wait until the waker is through with its
 * time, which is milliseconds: so helpers keep off the caller's processor. */
static void keep_off(pd_team *team, int processor)
{
  cpu_set_t others = team->processors;
  if (processor < 0 || processor == team->last_processor) return;
  CPU_CLR(processor, &others);
  if (!CPU_COUNT(&others)) return;
  for (unsigned i = 0; i < team->helper_count; i++) pthread_setaffinity_np(team->ids[i], sizeof others, &others);
  team->last_processor = processor;
}

/* False: the helpers are another's now. */
static bool open_work(pd_team *team, size_t count, size_t grain, pd_team_act act, void *ctx)
{
  pthread_mutex_lock(&team->lock);
  bool is_ours = !team->is_busy;
  if (is_ours) {
    start_helpers(team);
    keep_off(team, sched_getcpu());
    team->is_busy = team->is_open = true;
    team->number++;
    team->act = act;
    team->ctx = ctx;
    team->count = count;
    team->grain = grain ? grain : 1;
    atomic_store(&team->taken, 0);
    pthread_cond_broadcast(&team->begun);
  }
  pthread_mutex_unlock(&team->lock);
  return is_ours;
}

static void close_work(pd_team *team)
{
  pthread_mutex_lock(&team->lock);
  team->is_open = false; /* who wakes only now finds nothing to do */
  while (team->inside) pthread_cond_wait(&team->ended, &team->lock);
  team->is_busy = false;
  pthread_mutex_unlock(&team->lock);
}

void pd_team_run(pd_team *team, size_t count, size_t grain, pd_team_act act, void *ctx)
{
  if (!team->helpers_max || !open_work(team, count, grain, act, ctx)) {
    if (count) act(ctx, 0, count);
    return;
  }
  work(team);
  close_work(team);
}
