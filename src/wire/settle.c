/* settle.c: see settle.h. */
#include "wire/settle.h"

#include "base/base.h"
#include "base/disk_wait.h"

#include <stdint.h>

/* All that wait; NULL, and the group runs no more, if there are none. */
static pd_job *take_all(pd_settle_group *group)
{
  pthread_mutex_lock(&group->lock);
  pd_job *jobs = group->first;
  group->first = NULL;
  group->last = &group->first;
  group->is_running = jobs != NULL;
  pthread_mutex_unlock(&group->lock);
  return jobs;
}

static void run_group(pd_job *job)
{
  pd_settle_group *group = (pd_settle_group *)job;
  for (pd_job *next; (next = take_all(group));)
    while (next) {
      pd_job *this = next;
      next = this->next; /* once it has run, it is gone */
      this->run(this);
    }
}

void pd_settler_init(pd_settler *settler, pd_pool *pool)
{
  for (size_t i = 0; i < PD_SETTLE_GROUPS; i++) {
    pd_settle_group *group = &settler->groups[i];
    *group = (pd_settle_group){.job.run = run_group, .pool = pool, .last = &group->first};
    pthread_mutex_init(&group->lock, NULL);
  }
}

static pd_settle_group *group_of(pd_settler *settler, const void *key)
{
  uint64_t mixed = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
  return &settler->groups[(mixed >> 32) % PD_SETTLE_GROUPS];
}

/* The server stops, or no thread can be started: what is staged is finished all the same, though here connections wait for it. */
static void run_here(pd_settle_group *group)
{
  pd_disk_wait_forbid(false);
  run_group(&group->job);
  pd_disk_wait_forbid(true);
}

void pd_settler_add(pd_settler *settler, const void *key, pd_job *job)
{
  pd_settle_group *group = group_of(settler, key);
  pthread_mutex_lock(&group->lock);
  job->next = NULL;
  *group->last = job;
  group->last = &job->next;
  bool must_start = !group->is_running;
  group->is_running = true;
  pthread_mutex_unlock(&group->lock);
  if (must_start && !pd_pool_add(group->pool, &group->job)) run_here(group);
}
