/* disk_wait.c: see disk_wait.h. */
#include "base/disk_wait.h"

#include "base/base.h"
#include "base/error.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local bool is_forbidden_here, is_refusing, has_refused;

#ifdef PD_DEBUG
static atomic_bool asserts = true;
#else
static atomic_bool asserts;
#endif

void pd_disk_wait_assert(bool is_asserted)
{
  atomic_store(&asserts, is_asserted);
}

void pd_disk_wait_forbid(bool is_forbidden)
{
  is_forbidden_here = is_forbidden;
}

void pd_disk_refuse(void)
{
  is_refusing = true;
  has_refused = false;
}

bool pd_disk_allow(void)
{
  is_refusing = false;
  return has_refused;
}

static void check(const char *what)
{
  if (!is_forbidden_here || !atomic_load_explicit(&asserts, memory_order_relaxed)) return;
  fprintf(stderr, "perdure: a thread that serves connections %s the disk\n", what);
  abort();
}

pd_code pd_disk_may_read(pd_error *err)
{
  if (!is_refusing) {
    check("reads from");
    return PD_OK;
  }
  has_refused = true;
  return pd_error_set(err, PD_LIMIT, "the disk would have to be waited for"); /* for nobody's eyes: it is done again */
}

void pd_disk_may_write(void)
{
  check("writes to");
}
