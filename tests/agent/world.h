/* world.h: what the tests of agents share: storages to live in, and calls that have to work. */
#ifndef AGENT_WORLD_H
#define AGENT_WORLD_H

#include "contract/storage_contract.h"

#include <perdure/agent.h>

/* A storage for one test. *state of a test is its URI. */
int file_set_up(void **state);
int file_tear_down(void **state);
int perdure_set_up(void **state);
int perdure_tear_down(void **state);
int sqlite_set_up(void **state);
int sqlite_tear_down(void **state);

/* The same test in all three. */
#define IN_ALL(test)                                                                                                                       \
  {#test "__in_files", test, file_set_up, file_tear_down, NULL}, {#test "__in_sqlite", test, sqlite_set_up, sqlite_tear_down, NULL},       \
  {                                                                                                                                        \
#test "__in_perdure", test, perdure_set_up, perdure_tear_down, NULL                                                                    \
  }

/* Its clock stands at 1000 ms, and goes on by one with each look. */
pd_agent *agent_open(const char *uri, const char *id);
pd_agent *agent_open_with(const char *uri, const char *id, pd_agent_options options);
pd_agent_info agent_info(const pd_agent *agent);
void expect_ok(pd_code code, const pd_error *err);
#define OK(call)                                                                                                                           \
  do {                                                                                                                                     \
    pd_error err = {0};                                                                                                                    \
    expect_ok(call, &err);                                                                                                                 \
  } while (0)
/* The call has to fail with this code and a message that has `says` in it. */
void expect_refused(pd_code code, const pd_error *err, pd_code want, const char *says);
#define REFUSED(want, says, call)                                                                                                          \
  do {                                                                                                                                     \
    pd_error err = {0};                                                                                                                    \
    expect_refused(call, &err, want, says);                                                                                                \
  } while (0)

pd_push push(pd_agent *agent, const char *event);
/* Begin with this event, or NULL: the next one. */
pd_step begin(pd_agent *agent, const char *event);
void expect_reply(const pd_agent *agent, const char *json);
/* A variable's JSON; NULL: there is none. */
void expect_variable(const pd_agent *agent, const char *name, const char *json);
/* A whole step: count `count` up, say something, reply with the number. */
void count_step(pd_agent *agent);

#endif
