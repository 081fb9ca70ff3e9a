/* audit_desk.h: what the tests of the audit share. */
#ifndef TESTS_STATE_AUDIT_DESK_H
#define TESTS_STATE_AUDIT_DESK_H

#include "state/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define GET "state.session.get"

/* As the operator, who then is the agent again. */
static inline void operator_ok(world *w, const char *capability, const char *input)
{
  w->is_operator = true;
  world_ok(w, capability, input);
  w->is_operator = false;
}

static inline void get_key(world *w, const char *key)
{
  (void)world_callf(w, GET, "{\"key\":\"%s\"}", key); /* there is no session: refused, and audited all the same */
}

static inline size_t count_of(world *w, const char *needle)
{
  size_t count = 0;
  for (const char *at = (const char *)w->out.data; (at = strstr(at, needle)); at++) count++;
  return count;
}

static inline void verify_is(world *w, bool is_valid)
{
  operator_ok(w, "audit.verify", "{}");
  if (strcmp(world_out(w, "valid"), is_valid ? "true" : "false") != 0) fail_msg("%s", (const char *)w->out.data);
}

#endif
