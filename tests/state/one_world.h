/*
 * one_world.h: for a test program whose tests work in one world at a time, `w`: set_up and tear_down for cmocka, and OUT, which wants a
 * member of the last answer.
 */
#ifndef TESTS_STATE_ONE_WORLD_H
#define TESTS_STATE_ONE_WORLD_H

#include "state/world.h"

static world w;

static inline int set_up(void **state)
{
  (void)state;
  world_open(&w, NULL);
  return 0;
}

static inline int tear_down(void **state)
{
  (void)state;
  world_close(&w);
  return 0;
}

#define OUT(path, text) assert_string_equal(world_out(&w, path), text)

/* Send as `from`, who is the caller from now on. */
static inline void send(const char *from, const char *to, const char *body)
{
  w.agent = from;
  world_okf(&w, "queue.send", "{\"to\":\"%s\",\"body\":%s}", to, body);
}

#endif
