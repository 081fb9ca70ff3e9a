/* error_test.c: the table of codes is complete, and errors are one bounded line. */
#include "base/error.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void error__every_code_has_its_own_name(void **state)
{
  (void)state;
  for (int a = 0; a < PD_CODE_COUNT; a++) {
    const char *name = pd_code_name((pd_code)a);
    assert_non_null(name);
    assert_true(*name >= 'A' && *name <= 'Z');
    assert_string_not_equal(name, "Unknown");
    for (int b = 0; b < a; b++) assert_string_not_equal(name, pd_code_name((pd_code)b));
  }
}

static void error__every_failure_has_a_class_and_a_way_out(void **state)
{
  (void)state;
  for (int code = 1; code < PD_CODE_COUNT; code++) {
    pd_class class_ = pd_code_class((pd_code)code);
    assert_true(class_ > PD_CLASS_OK && class_ < PD_CLASS_BUG);
    const pd_recovery *hint = pd_code_recovery((pd_code)code);
    assert_non_null(hint);
    assert_non_null(hint->action);
    for (; hint->action; hint++) {
      assert_true(strlen(hint->action) > 0 && !strchr(hint->action, ' '));
      assert_non_null(hint->hint);
      assert_true(strlen(hint->hint) > 10 && !strchr(hint->hint, '\n'));
    }
  }
  assert_int_equal(pd_code_class(PD_OK), PD_CLASS_OK);
  assert_null(pd_code_recovery(PD_OK)->action);
}

static void error__the_retry_class_is_for_conflicts_alone(void **state)
{
  (void)state;
  for (int code = 0; code < PD_CODE_COUNT; code++) assert_int_equal(pd_code_class((pd_code)code) == PD_CLASS_RETRY, code == PD_CONFLICT);
}

static void error__numbers_that_are_no_code_are_unknown_bugs(void **state)
{
  (void)state;
  static const int odd[] = {PD_CODE_COUNT, PD_CODE_COUNT + 1, -1, 1000000};
  for (size_t i = 0; i < COUNT_OF(odd); i++) {
    assert_string_equal(pd_code_name((pd_code)odd[i]), "Unknown");
    assert_int_equal(pd_code_class((pd_code)odd[i]), PD_CLASS_BUG);
    assert_null(pd_code_recovery((pd_code)odd[i])->action);
    assert_string_equal(pd_class_name((pd_class)(odd[i] + 100)), "bug");
  }
}

static void error__every_class_has_its_own_name(void **state)
{
  (void)state;
  for (int a = 0; a <= PD_CLASS_BUG; a++)
    for (int b = 0; b < a; b++) assert_string_not_equal(pd_class_name((pd_class)a), pd_class_name((pd_class)b));
}

static void error__a_long_message_is_cut_and_terminated(void **state)
{
  (void)state;
  pd_error err;
  memset(&err, 0x55, sizeof err);
  assert_int_equal(pd_error_set(&err, PD_INVALID, "%02000d", 1), PD_INVALID);
  assert_int_equal(strlen(err.message), PD_ERROR_MESSAGE_MAX - 1);
  assert_int_equal(err.code, PD_INVALID);
  assert_int_equal(err.expected, 0);
  assert_int_equal(err.actual, 0);
}

static void error__a_message_is_one_line_whatever_it_quotes(void **state)
{
  (void)state;
  pd_error err;
  assert_int_equal(pd_error_set(&err, PD_NOT_FOUND, "key '%s' is absent", "a\nb\r\t\x1b[31m"), PD_NOT_FOUND);
  assert_string_equal(err.message, "key 'a b   [31m' is absent");
}

static void error__nobody_needs_to_listen(void **state)
{
  (void)state;
  assert_int_equal(pd_error_set(NULL, PD_FULL, "x"), PD_FULL);
  assert_int_equal(pd_error_conflict(NULL, 1, 2, "x"), PD_CONFLICT);
  assert_int_equal(pd_error_memory(NULL, "x"), PD_NO_MEMORY);
}

static void error__a_conflict_tells_both_numbers(void **state)
{
  (void)state;
  pd_error err;
  assert_int_equal(pd_error_conflict(&err, 5, 7, "key '%s' is at version %d, expected %d", "counter", 7, 5), PD_CONFLICT);
  assert_int_equal(err.code, PD_CONFLICT);
  assert_int_equal(err.expected, 5);
  assert_int_equal(err.actual, 7);
  assert_string_equal(err.message, "key 'counter' is at version 7, expected 5");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(error__every_code_has_its_own_name),
    cmocka_unit_test(error__every_failure_has_a_class_and_a_way_out),
    cmocka_unit_test(error__the_retry_class_is_for_conflicts_alone),
    cmocka_unit_test(error__numbers_that_are_no_code_are_unknown_bugs),
    cmocka_unit_test(error__every_class_has_its_own_name),
    cmocka_unit_test(error__a_long_message_is_cut_and_terminated),
    cmocka_unit_test(error__a_message_is_one_line_whatever_it_quotes),
    cmocka_unit_test(error__nobody_needs_to_listen),
    cmocka_unit_test(error__a_conflict_tells_both_numbers),
  };
  return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
