/* registry_test.c: from a URI to a backend, and what is refused on the way. */
#include <perdure/backend.h>

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_refused(const char *uri, const char *named)
{
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  pd_error err = {0};
  if (pd_backend_find(uri, &ops, &rest, &err) != PD_INVALID) fail_msg("accepted: %.100s", uri ? uri : "(null)");
  assert_null(ops);
  assert_null(rest);
  assert_int_equal(err.code, PD_INVALID);
  if (!strstr(err.message, named)) fail_msg("'%s' does not say '%s'", err.message, named);
  assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_INVALID);
}

static void registry__the_built_in_backends_are_found(void **state)
{
  (void)state;
  const char *const uris[][3] = {{"memory:", "memory", ""},
                                 {"memory:x:y", "memory", "x:y"},
                                 {"sqlite:./.perdure", "sqlite", "./.perdure"},
                                 {"sqlite:C:/x", "sqlite", "C:/x"}};
  for (size_t i = 0; i < COUNT_OF(uris); i++) {
    const pd_backend_ops *ops = NULL;
    const char *rest = NULL;
    assert_int_equal(pd_backend_find(uris[i][0], &ops, &rest, NULL), PD_OK);
    assert_string_equal(ops->scheme, uris[i][1]);
    assert_string_equal(rest, uris[i][2]);
  }
}

static void registry__a_malformed_uri_is_refused_by_name(void **state)
{
  (void)state;
  expect_refused(NULL, "empty");
  expect_refused("", "empty");
  expect_refused("./.perdure", "'./.perdure' has no scheme");
  expect_refused("sqlite", "'sqlite' has no scheme");
  expect_refused(":x", "':x' has an empty scheme");
  expect_refused("SQLITE:x", "unknown scheme 'SQLITE'");
  expect_refused("sqlit:x", "unknown scheme 'sqlit'");
  expect_refused("sqlitee:x", "known: memory:, sqlite:");
  expect_refused(" sqlite:x", "unknown scheme ' sqlite'");
}

static void registry__an_over_long_uri_is_refused(void **state)
{
  (void)state;
  char *uri = malloc(5000);
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  memset(uri, 'x', 5000);
  memcpy(uri, "sqlite:", 7);
  uri[4097] = '\0';
  expect_refused(uri, "longer than 4096");
  uri[4096] = '\0';
  assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_OK);
  free(uri);
}

static void registry__sqlite_without_a_folder_or_with_a_strange_option_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "sqlite:", "sqlite:?vfs=unix", "sqlite:x?", "sqlite:x?vfs=", "sqlite:x?mode=rw", "sqlite:x?vfs=unix&a=b", "sqlite:x?vfs=nosuch"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    const pd_backend_ops *ops = NULL;
    const char *rest = NULL;
    pd_backend *b = NULL;
    pd_error err = {0};
    assert_int_equal(pd_backend_find(bad[i], &ops, &rest, NULL), PD_OK);
    if (ops->open(rest, "main", PD_BACKEND_CREATE, &b, &err) != PD_INVALID) fail_msg("opened %s", bad[i]);
    if (!strstr(err.message, bad[i])) fail_msg("'%s' does not name %s", err.message, bad[i]);
    assert_int_equal(ops->stores(rest, NULL, NULL, NULL), PD_INVALID);
  }
}

/* A backend that is complete, by borrowing memory's functions. */
static pd_backend_ops complete(const char *scheme)
{
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  assert_int_equal(pd_backend_find("memory:", &ops, &rest, NULL), PD_OK);
  pd_backend_ops copy = *ops;
  copy.scheme = scheme;
  return copy;
}

static void registry__an_unfit_backend_is_not_registered(void **state)
{
  (void)state;
  pd_backend_ops newer = complete("newer"), unnamed = complete(NULL), odd = complete("o:d"), empty = complete(""), half = complete("half"),
                 one_sided = complete("one-sided"), taken = complete("sqlite");
  newer.abi++;
  half.bag_get = NULL;
  one_sided.log_release = NULL;
  assert_int_equal(pd_backend_register(NULL, NULL), PD_INVALID);
  assert_int_equal(pd_backend_register(&newer, NULL), PD_INVALID);
  assert_int_equal(pd_backend_register(&unnamed, NULL), PD_INVALID);
  assert_int_equal(pd_backend_register(&odd, NULL), PD_INVALID);
  assert_int_equal(pd_backend_register(&empty, NULL), PD_INVALID);
  assert_int_equal(pd_backend_register(&half, NULL), PD_INVALID);
  assert_int_equal(pd_backend_register(&one_sided, NULL), PD_INVALID);
  assert_int_equal(pd_backend_register(&taken, NULL), PD_EXISTS);
  expect_refused("half:x", "unknown scheme");
}

static void registry__sixteen_backends_fit(void **state)
{
  (void)state;
  static pd_backend_ops more[15];
  static char names[15][8];
  pd_error err = {0};
  for (size_t i = 0; i < 15; i++) {
    snprintf(names[i], sizeof names[i], "b%zu", i);
    more[i] = complete(names[i]);
    assert_int_equal(pd_backend_register(&more[i], &err), i < 14 ? PD_OK : PD_LIMIT);
  }
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  assert_int_equal(pd_backend_find("b13:x", &ops, &rest, NULL), PD_OK);
  assert_ptr_equal(ops, &more[13]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(registry__the_built_in_backends_are_found),
    cmocka_unit_test(registry__a_malformed_uri_is_refused_by_name),
    cmocka_unit_test(registry__an_over_long_uri_is_refused),
    cmocka_unit_test(registry__sqlite_without_a_folder_or_with_a_strange_option_is_refused),
    cmocka_unit_test(registry__an_unfit_backend_is_not_registered),
    cmocka_unit_test(registry__sixteen_backends_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
