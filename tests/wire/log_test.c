/* log_test.c: what clients send cannot write fields of the log. */
#include "wire/log.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The line that the log writes of a request for `path`, from " path" on (or whole, as JSON). */
static void line_of(const char *path, bool is_json, char out[8192])
{
  int ends[2];
  const pd_log_field fields[] = {{"path", path, 0}, {"status", NULL, 404}, {"agent", "main", 0}};
  assert_int_equal(pipe(ends), 0);
  pd_log_options options = {.fd = ends[1], .is_json = is_json, .level = PD_LOG_INFO};
  pd_log_line(&options, PD_LOG_INFO, "request", fields, COUNT_OF(fields));
  close(ends[1]);
  ssize_t size = read(ends[0], out, 8191);
  close(ends[0]);
  assert_true(size > 0);
  out[size] = 0;
  char *at = is_json ? out : strstr(out, " path=");
  assert_non_null(at);
  memmove(out, at, strlen(at) + 1);
}

static void expect(const char *path, const char *wanted)
{
  char line[8192];
  line_of(path, false, line);
  assert_string_equal(line, wanted);
}

static void log__plain_values_are_as_they_are(void **state)
{
  (void)state;
  expect("/v1/agents/main/state/plan-1", " path=/v1/agents/main/state/plan-1 status=404 agent=main\n");
  expect("/café", " path=/café status=404 agent=main\n");
  expect("", " path= status=404 agent=main\n");
}

static void log__a_path_cannot_write_fields(void **state)
{
  (void)state;
  expect("/a status=200 agent=root", " path=\"/a status=200 agent=root\" status=404 agent=main\n");
  expect("/a=b", " path=\"/a=b\" status=404 agent=main\n");
  expect("/a\" status=200", " path=\"/a\\\" status=200\" status=404 agent=main\n");
  expect("/a\\", " path=\"/a\\\\\" status=404 agent=main\n");
  expect("/a\nb\x1b[31m", " path=\"/a?b?[31m\" status=404 agent=main\n");
  expect("/a\tb", " path=\"/a?b\" status=404 agent=main\n");
}

static void log__a_long_path_hides_no_field(void **state)
{
  (void)state;
  char path[6000], line[8192];
  memset(path, 'x', sizeof path - 1);
  path[sizeof path - 1] = 0;
  line_of(path, false, line);
  assert_non_null(strstr(line, "x status=404 agent=main\n"));
  memset(path, 1, sizeof path - 1);
  line_of(path, true, line);
  assert_non_null(strstr(line, ",\"status\":404,\"agent\":\"main\"}\n"));
  for (size_t i = 0; i + 2 < sizeof path; i += 2) memcpy(path + i, "é", 2);
  line_of(path, false, line);
  assert_non_null(strstr(line, "é status=404 agent=main\n"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(log__plain_values_are_as_they_are),
    cmocka_unit_test(log__a_path_cannot_write_fields),
    cmocka_unit_test(log__a_long_path_hides_no_field),
  };
  return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
