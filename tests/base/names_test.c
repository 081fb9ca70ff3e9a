/* names_test.c: names that are kept, in order, each once if they are sorted. */
#include "base/names.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void names__are_kept_in_the_order_they_came(void **state)
{
  (void)state;
  CLEANUP(pd_names_done) pd_names names = {0};
  char name[16];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "n%d", i);
    pd_names_take(&names, name);
  }
  pd_names_take_ref(&names, &(pd_ref){.name = "main"});
  assert_int_equal(pd_names_check(&names, "names", NULL), PD_OK);
  assert_int_equal(names.count, 1001);
  assert_string_equal(names.items[0], "n0");
  assert_string_equal(names.items[999], "n999");
  assert_string_equal(names.items[1000], "main");
}

static void names__sorted_are_there_once(void **state)
{
  (void)state;
  static const char *const given[] = {"b", "a", "b", "", "c", "a", "b"}, *const sorted[] = {"", "a", "b", "c"};
  CLEANUP(pd_names_done) pd_names names = {0};
  pd_names_sort(&names);
  assert_int_equal(names.count, 0);
  for (size_t i = 0; i < COUNT_OF(given); i++) pd_names_add(&names, given[i]);
  pd_names_sort(&names);
  assert_int_equal(names.count, COUNT_OF(sorted));
  for (size_t i = 0; i < COUNT_OF(sorted); i++) assert_string_equal(names.items[i], sorted[i]);
}

static void names__a_lost_name_is_an_error_and_nothing_is_added_after_it(void **state)
{
  (void)state;
  CLEANUP(pd_names_done) pd_names names = {.code = PD_NO_MEMORY};
  pd_error err = {0};
  pd_names_add(&names, "a");
  assert_int_equal(names.count, 0);
  assert_int_equal(pd_names_check(&names, "a list", &err), PD_NO_MEMORY);
  assert_non_null(strstr(err.message, "a list"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(names__are_kept_in_the_order_they_came),
    cmocka_unit_test(names__sorted_are_there_once),
    cmocka_unit_test(names__a_lost_name_is_an_error_and_nothing_is_added_after_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
