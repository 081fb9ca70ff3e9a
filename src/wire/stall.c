/* stall.c: see stall.h. */
#include "wire/stall.h"

/* The time goes first in both: else a server that was idle for an hour would seem to have stood still for so long. */
void pd_stall_begin(pd_stall *stall, int64_t now_ms)
{
  if (!atomic_load(&stall->waiting)) atomic_store(&stall->moved_ms, now_ms);
  atomic_fetch_add(&stall->waiting, 1);
}

void pd_stall_end(pd_stall *stall, int64_t now_ms)
{
  atomic_store(&stall->moved_ms, now_ms);
  atomic_fetch_sub(&stall->waiting, 1);
}

int64_t pd_stall_ms(const pd_stall *stall, int64_t now_ms)
{
  if (!atomic_load(&stall->waiting)) return 0;
  int64_t ms = now_ms - atomic_load(&stall->moved_ms);
  return ms > 0 ? ms : 0;
}
