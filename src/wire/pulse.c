/* pulse.c: see pulse.h. */
#include "wire/pulse.h"

#include "base/base.h"

static void run(pd_job *job)
{
  atomic_store(&((pd_pulse *)job)->is_out, false);
}

void pd_pulse_init(pd_pulse *pulse, pd_pool *pool)
{
  *pulse = (pd_pulse){.job.run = run, .pool = pool};
}

bool pd_pulse_take(pd_pulse *pulse)
{
  uint64_t taken = pd_pool_taken(pulse->pool);
  bool is_out = atomic_load(&pulse->is_out), is_alive = (!is_out && !pulse->is_refused) || taken != pulse->taken;
  pulse->taken = taken;
  if (is_out) return is_alive;
  atomic_store(&pulse->is_out, true);
  pulse->is_refused = !pd_pool_add(pulse->pool, &pulse->job);
  if (pulse->is_refused) atomic_store(&pulse->is_out, false);
  return is_alive;
}
