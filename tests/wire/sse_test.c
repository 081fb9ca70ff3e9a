/* sse_test.c: what a stream of events holds, and what it refuses (SSE-1 and SSE-2 in wire/sse.h). */
#include "wire/sse.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define QUEUE_MAX 4096
#define FRAME_MAX 256 /* what is counted for an event besides its data */

static char data[3 * QUEUE_MAX];

static pd_bytes of_size(size_t size)
{
  memset(data, 'x', sizeof data);
  return (pd_bytes){data, size};
}

/* The connection takes all there is. */
static size_t drain(pd_sse *s, pd_sse_reader *reader)
{
  char out[1000];
  size_t all = 0, got;
  while ((got = pd_sse_read(s, reader, out, sizeof out))) all += got;
  return all;
}

/* ---- watches: nothing is kept ---- */

static void sse__an_event_larger_than_the_queue_fits_into_an_empty_one(void **state)
{
  (void)state;
  CLEANUP(pd_sse_done) pd_sse s = {.queue_max = QUEUE_MAX};
  pd_sse_reader reader = {0};
  for (int i = 0; i < 3; i++) { /* a watcher that is not behind is never cut */
    assert_int_equal(pd_sse_add(&s, of_size(2 * QUEUE_MAX)), PD_OK);
    assert_int_equal(pd_sse_unsent(&s), 2 * QUEUE_MAX);
    assert_int_equal(drain(&s, &reader), 2 * QUEUE_MAX);
  }
  assert_null(s.out.data); /* SSE-2: an idle stream has no buffer */
}

static void sse__a_queue_that_is_not_empty_takes_no_more_than_its_limit(void **state)
{
  (void)state;
  CLEANUP(pd_sse_done) pd_sse s = {.queue_max = QUEUE_MAX};
  pd_sse_reader reader = {0};
  assert_int_equal(pd_sse_add(&s, of_size(1)), PD_OK);
  assert_int_equal(pd_sse_add(&s, of_size(QUEUE_MAX)), PD_LIMIT);
  assert_int_equal(pd_sse_unsent(&s), 1); /* the limit breaks nothing */
  assert_int_equal(pd_sse_add(&s, of_size(QUEUE_MAX - 1)), PD_OK);
  assert_int_equal(pd_sse_add(&s, of_size(1)), PD_LIMIT);
  assert_int_equal(drain(&s, &reader), QUEUE_MAX);
  assert_int_equal(pd_sse_add(&s, of_size(2 * QUEUE_MAX)), PD_OK);
  assert_int_equal(pd_sse_add(&s, of_size(1)), PD_LIMIT); /* behind one that was too large, there is no room */
}

/* ---- MCP: events are kept ---- */

static void sse__the_limit_includes_the_event_that_is_added(void **state)
{
  (void)state;
  CLEANUP(pd_sse_done) pd_sse s = {.queue_max = QUEUE_MAX, .kept_max = 100};
  assert_int_equal(pd_sse_put(&s, "1", NULL, of_size(QUEUE_MAX / 2)), PD_OK);
  size_t room = QUEUE_MAX - pd_sse_unsent(&s) - FRAME_MAX;
  assert_int_equal(pd_sse_put(&s, "2", NULL, of_size(room + 1)), PD_LIMIT);
  assert_int_equal(pd_sse_next(&s), 1);
  assert_int_equal(pd_sse_put(&s, "2", NULL, of_size(room)), PD_OK);
  assert_true(pd_sse_unsent(&s) <= QUEUE_MAX);
  assert_int_equal(pd_sse_next(&s), 2);
}

static void sse__what_was_sent_and_is_kept_takes_no_room_in_the_queue(void **state)
{
  (void)state;
  CLEANUP(pd_sse_done) pd_sse s = {.queue_max = QUEUE_MAX, .kept_max = 100 * QUEUE_MAX};
  pd_sse_reader reader = {0};
  for (int i = 0; i < 20; i++) {
    assert_int_equal(pd_sse_put(&s, NULL, "message", of_size(2 * QUEUE_MAX)), PD_OK);
    assert_true(drain(&s, &reader) > 2 * QUEUE_MAX);
  }
  uint64_t at;
  assert_true(pd_sse_after(&s, 0, &at)); /* all is there for a client that comes back */
  assert_false(pd_sse_after(&s, 20, &at));
}

static void sse__events_beyond_what_is_kept_are_forgotten_but_never_the_last(void **state)
{
  (void)state;
  CLEANUP(pd_sse_done) pd_sse s = {.queue_max = QUEUE_MAX, .kept_max = 100};
  pd_sse_reader reader = {0};
  uint64_t at;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pd_sse_put(&s, NULL, NULL, of_size(QUEUE_MAX)), PD_OK);
    drain(&s, &reader);
  }
  assert_false(pd_sse_after(&s, 0, &at));
  assert_true(pd_sse_after(&s, 1, &at)); /* so the third can be sent again, whole */
  assert_true(s.base + s.out.size - at > QUEUE_MAX);
  assert_true(s.out.size < 2 * QUEUE_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sse__an_event_larger_than_the_queue_fits_into_an_empty_one),
    cmocka_unit_test(sse__a_queue_that_is_not_empty_takes_no_more_than_its_limit),
    cmocka_unit_test(sse__the_limit_includes_the_event_that_is_added),
    cmocka_unit_test(sse__what_was_sent_and_is_kept_takes_no_room_in_the_queue),
    cmocka_unit_test(sse__events_beyond_what_is_kept_are_forgotten_but_never_the_last),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
