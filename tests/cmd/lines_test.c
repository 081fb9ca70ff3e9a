/* lines_test.c: bounded lines from a pipe. */
#include "lines.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static lines_reader reader_of(const char *text, size_t size, size_t line_max)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], text, size), (ssize_t)size); /* small enough for the pipe */
  close(ends[1]);
  return (lines_reader){.fd = ends[0], .line_size_max = line_max};
}

static void expect_line(lines_reader *reader, const char *want)
{
  lines_kind kind;
  pd_bytes line;
  assert_int_equal(lines_next(reader, &kind, &line, NULL), PD_OK);
  assert_int_equal(kind, LINES_LINE);
  assert_true(pd_bytes_equal(line, pd_text(want)));
}

static void expect_kind(lines_reader *reader, lines_kind want)
{
  lines_kind kind;
  pd_bytes line;
  assert_int_equal(lines_next(reader, &kind, &line, NULL), PD_OK);
  assert_int_equal(kind, want);
}

static void finish(lines_reader *reader)
{
  expect_kind(reader, LINES_END);
  expect_kind(reader, LINES_END);
  close(reader->fd);
  lines_done(reader);
}

static void lines__each_line_comes_alone_and_the_last_needs_no_newline(void **state)
{
  (void)state;
  lines_reader reader = reader_of("one\n\ntwo\r\nthree", 15, 100);
  expect_line(&reader, "one");
  expect_line(&reader, "");
  expect_line(&reader, "two\r");
  expect_line(&reader, "three");
  finish(&reader);
}

static void lines__nothing_is_no_line(void **state)
{
  (void)state;
  lines_reader reader = reader_of("", 0, 100);
  finish(&reader);
}

static void lines__one_at_the_limit_passes_and_one_over_it_is_skipped(void **state)
{
  (void)state;
  lines_reader reader = reader_of("12345\n123456\nok\n1234567", 23, 5);
  expect_line(&reader, "12345");
  expect_kind(&reader, LINES_TOO_LONG);
  expect_line(&reader, "ok");
  expect_kind(&reader, LINES_TOO_LONG);
  finish(&reader);
}

static void lines__a_huge_line_is_not_held_in_memory(void **state)
{
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    char block[4096];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 4096; i++)
      if (write(ends[1], block, sizeof block) != sizeof block) _exit(1);
    _exit(write(ends[1], "\nafter\n", 7) == 7 ? 0 : 1);
  }
  close(ends[1]);
  lines_reader reader = {.fd = ends[0], .line_size_max = 100000};
  expect_kind(&reader, LINES_TOO_LONG);
  assert_true(reader.buf.capacity < 1000000);
  expect_line(&reader, "after");
  finish(&reader);
}

static void lines__a_read_that_fails_is_an_error(void **state)
{
  (void)state;
  lines_reader reader = {.fd = -1, .line_size_max = 100};
  lines_kind kind;
  pd_bytes line;
  pd_error err = {0};
  assert_int_equal(lines_next(&reader, &kind, &line, &err), PD_STORAGE);
  assert_int_equal(err.code, PD_STORAGE);
  lines_done(&reader);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lines__each_line_comes_alone_and_the_last_needs_no_newline),
    cmocka_unit_test(lines__nothing_is_no_line),
    cmocka_unit_test(lines__one_at_the_limit_passes_and_one_over_it_is_skipped),
    cmocka_unit_test(lines__a_huge_line_is_not_held_in_memory),
    cmocka_unit_test(lines__a_read_that_fails_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
