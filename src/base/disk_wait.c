/* disk_wait.c: see disk_wait.h. */
#include "base/disk_wait.h"

#include "base/base.h"
#include "base/error.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local bool is_forbidden_here, is_refusing, has_refused, has_staged, has_committed;
static _Thread_local unsigned steps;

#ifdef PD_DEBUG
static atomic_bool asserts = true;
#else
static atomic_bool asserts;
#endif

void pd_disk_wait_assert(bool is_asserted)
{
  atomic_store(&asserts, is_asserted);
}

bool pd_disk_wait_is_asserted(void)
{
  return atomic_load_explicit(&asserts, memory_order_relaxed);
}

void pd_disk_wait_forbid(bool is_forbidden)
{
  is_forbidden_here = is_forbidden;
}

void pd_disk_refuse(void)
{
  is_refusing = true;
  has_refused = has_staged = has_committed = false;
  steps = 0;
}

bool pd_disk_allow(void)
{
  is_refusing = has_staged = false;
  return has_refused && !has_committed;
}

void pd_disk_committed(void)
{
  has_committed = is_refusing;
}

void pd_disk_staged(void)
{
  has_staged = is_refusing;
}

void pd_disk_may_look(void)
{
  if (!has_staged || !pd_disk_wait_is_asserted()) return;
  fprintf(stderr, "perdure: a call looks at a store after its last commit was staged\n");
  abort();
}

bool pd_disk_is_refusing(void)
{
  return is_refusing;
}

bool pd_disk_has_refused(void)
{
  return is_refusing && has_refused;
}

static void check(const char *what)
{
  if (!is_forbidden_here || !pd_disk_wait_is_asserted()) return;
  fprintf(stderr, "perdure: a thread that serves connections %s the disk\n", what);
  abort();
}

static pd_code may(const char *what, pd_error *err)
{
  if (!is_refusing) {
    check(what);
    return PD_OK;
  }
  has_refused = true;
  return pd_error_set(err, PD_LIMIT, "the disk would have to be waited for"); /* for nobody's eyes: it is done again */
}

pd_code pd_disk_may_read(pd_error *err)
{
  return may("reads from", err);
}

pd_code pd_disk_may_wait(pd_error *err)
{
  return may("waits for", err);
}

pd_code pd_disk_step(pd_error *err)
{
  if (!is_refusing || ++steps <= PD_DISK_STEPS_MAX) return PD_OK;
  return may("walks too far for", err);
}

void pd_disk_may_write(void)
{
  check("writes to");
}
