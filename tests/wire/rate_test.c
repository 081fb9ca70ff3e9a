/* rate_test.c: requests a second (rate.c): what is allowed, and what is kept of those who are gone. */
#include "base/base.h"
#include "support/heap.h"
#include "wire/http.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define STRANGERS 4000
#define KEPT_BYTES_MAX ((size_t)128 << 10)

static void rate__a_burst_is_allowed_and_no_more(void **state)
{
  (void)state;
  pd_rates *rates = NULL;
  assert_int_equal(pd_rates_new(&rates, NULL), PD_OK);
  for (int i = 0; i < 3; i++) assert_true(pd_rate_take(rates, "a", 3));
  assert_false(pd_rate_take(rates, "a", 3));
  assert_true(pd_rate_take(rates, "b", 3)); /* another's is its own */
  pd_rates_free(rates);
}

/* Tokens that come and go, each with a rate of its own, must not stay in memory by the thousand. */
static void rate__those_who_asked_once_are_forgotten(void **state)
{
  (void)state;
  pd_rates *rates = NULL;
  char id[32];
  assert_int_equal(pd_rates_new(&rates, NULL), PD_OK);
  size_t before = heap_in_use();
  for (int i = 0; i < STRANGERS; i++) {
    snprintf(id, sizeof id, "%016d", i);
    assert_true(pd_rate_take(rates, id, 100000));
  }
  assert_true(heap_in_use() - before < KEPT_BYTES_MAX || heap_is_hidden());
  pd_rates_free(rates);
}

/* …but those who have used up what they may are remembered, however many others come. */
static void rate__who_has_used_it_up_is_not_forgotten(void **state)
{
  (void)state;
  pd_rates *rates = NULL;
  char id[32];
  assert_int_equal(pd_rates_new(&rates, NULL), PD_OK);
  assert_true(pd_rate_take(rates, "greedy", 1));
  for (int i = 0; i < 1000; i++) {
    snprintf(id, sizeof id, "%016d", i);
    assert_true(pd_rate_take(rates, id, 100000));
  }
  assert_false(pd_rate_take(rates, "greedy", 1));
  pd_rates_free(rates);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(rate__a_burst_is_allowed_and_no_more),
    cmocka_unit_test(rate__those_who_asked_once_are_forgotten),
    cmocka_unit_test(rate__who_has_used_it_up_is_not_forgotten),
  };
  return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
