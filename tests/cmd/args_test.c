/* args_test.c: parsing of the command line, without a store. */
#include "args.h"

#include "base/base.h"
#include "base/distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const args_option common[] = {
  {"store", 0, "URI", ""}, {"json", 0, NULL, ""}, {"quiet", 'q', NULL, ""}, {"version", 'V', NULL, ""}, {0}};
static const args_option log_options[] = {{"number", 'n', "N", ""}, {"long", 'l', NULL, ""}, {"store-it", 0, NULL, ""}, {0}};
static const args_spec log_spec = {"log", log_options, 0, 1, false, NULL};
static const args_spec put_spec = {"put", NULL, 2, 2, false, NULL};
static bool has_field(const args_parsed *args, const char *name, size_t name_size)
{
  return strcmp(args->words[0], "x") == 0 && name_size == 5 && strncmp(name, "store", 5) == 0;
}

static const args_spec call_spec = {"call", NULL, 1, 2, true, has_field};

static const args_spec *find(const char *name)
{
  return strcmp(name, "log") == 0 ? &log_spec : strcmp(name, "put") == 0 ? &put_spec : strcmp(name, "call") == 0 ? &call_spec : NULL;
}

static const char *near(const char *name)
{
  return pd_text_distance(name, "log") < 2 ? "log" : NULL;
}

#define WORDS_MAX 16
static const char *words[WORDS_MAX];

static pd_code parse(args_parsed *out, pd_error *err, const char *const *argv)
{
  char *list[WORDS_MAX] = {"perdure"};
  int argc = 1;
  for (; argv[argc - 1]; argc++) list[argc] = (char *)argv[argc - 1];
  *out = (args_parsed){.words = words};
  return args_parse(argc, list, common, find, near, out, err);
}

#define PARSE(out, err, ...) parse(out, err, (const char *const[]){__VA_ARGS__, NULL})

static void args__options_stand_before_and_after_the_command(void **state)
{
  (void)state;
  args_parsed a;
  assert_int_equal(PARSE(&a, NULL, "--store", "x", "put", "k", "--json", "v"), PD_OK);
  assert_ptr_equal(a.spec, &put_spec);
  assert_string_equal(args_get(&a, "store"), "x");
  assert_non_null(args_get(&a, "json"));
  assert_null(args_get(&a, "quiet"));
  assert_int_equal(a.word_count, 2);
  assert_string_equal(a.words[1], "v");
  assert_int_equal(args_check_words(&a, NULL), PD_OK);
}

static void args__every_spelling_of_a_value_is_understood(void **state)
{
  (void)state;
  static const char *const spellings[][4] = {
    {"log", "--number", "7"}, {"log", "--number=7"}, {"log", "-n", "7"}, {"log", "-n7"}, {"log", "-ln7"}};
  for (size_t i = 0; i < COUNT_OF(spellings); i++) {
    args_parsed a;
    uint64_t n = 0;
    assert_int_equal(parse(&a, NULL, spellings[i]), PD_OK);
    assert_int_equal(args_number(&a, "number", 1, &n, NULL), PD_OK);
    assert_int_equal(n, 7);
  }
}

static void args__the_last_of_two_wins_and_values_may_be_empty(void **state)
{
  (void)state;
  args_parsed a;
  assert_int_equal(PARSE(&a, NULL, "--store=a", "log", "--store="), PD_OK);
  assert_string_equal(args_get(&a, "store"), "");
}

static void args__a_dash_a_number_and_all_after_two_dashes_are_words(void **state)
{
  (void)state;
  args_parsed a;
  assert_int_equal(PARSE(&a, NULL, "put", "-", "-5"), PD_OK);
  assert_string_equal(a.words[0], "-");
  assert_string_equal(a.words[1], "-5");
  assert_int_equal(PARSE(&a, NULL, "put", "--", "--json", "--"), PD_OK);
  assert_null(args_get(&a, "json"));
  assert_string_equal(a.words[0], "--json");
  assert_string_equal(a.words[1], "--");
}

static void args__unknown_things_are_refused_with_a_suggestion(void **state)
{
  (void)state;
  args_parsed a;
  pd_error err = {0};
  assert_int_equal(PARSE(&a, &err, "lgo"), PD_INVALID);
  assert_non_null(strstr(err.message, "'lgo'"));
  assert_non_null(strstr(a.hint, "'log'"));
  assert_int_equal(PARSE(&a, &err, "log", "--numbr", "3"), PD_INVALID);
  assert_non_null(strstr(err.message, "--numbr"));
  assert_non_null(strstr(a.hint, "--number"));
  assert_int_equal(PARSE(&a, &err, "log", "--xyzzy"), PD_INVALID);
  assert_non_null(strstr(a.hint, "help log"));
  assert_int_equal(PARSE(&a, &err, "log", "-x"), PD_INVALID);
  assert_int_equal(PARSE(&a, &err, "--number", "3", "log"), PD_INVALID);
  assert_int_equal(PARSE(&a, &err, "put", "--number", "3"), PD_INVALID);
}

static void args__what_is_understood_before_a_fault_is_kept(void **state)
{
  (void)state;
  args_parsed a;
  assert_int_equal(PARSE(&a, NULL, "--json", "nonsense"), PD_INVALID);
  assert_non_null(args_get(&a, "json"));
}

static void args__missing_and_unwanted_values_are_refused(void **state)
{
  (void)state;
  args_parsed a;
  pd_error err = {0};
  assert_int_equal(PARSE(&a, &err, "log", "--number"), PD_INVALID);
  assert_non_null(strstr(err.message, "needs N"));
  assert_int_equal(PARSE(&a, &err, "log", "-n"), PD_INVALID);
  assert_int_equal(PARSE(&a, &err, "log", "--long=yes"), PD_INVALID);
  assert_non_null(strstr(err.message, "takes no value"));
}

static void args__the_number_of_words_is_checked(void **state)
{
  (void)state;
  args_parsed a;
  pd_error err = {0};
  assert_int_equal(PARSE(&a, NULL, "put", "k"), PD_OK);
  assert_int_equal(args_check_words(&a, &err), PD_INVALID);
  assert_int_equal(PARSE(&a, NULL, "put", "k", "v", "w"), PD_OK);
  assert_int_equal(args_check_words(&a, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "'w'"));
}

static void args__numbers_are_whole_and_fit(void **state)
{
  (void)state;
  static const char *const bad[] = {"",    "-1", "+1", "1.5", "1e3", " 1", "1 ", "0x1", "18446744073709551615", "18446744073709551616",
                                    "one", "01", "00"};
  uint64_t n = 42;
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(args_parse_number("-n", bad[i], 0, &n, NULL), PD_INVALID);
  assert_int_equal(args_parse_number("-n", "0", 1, &n, NULL), PD_INVALID);
  assert_int_equal(n, 42);
  assert_int_equal(args_parse_number("-n", "18446744073709551614", 0, &n, NULL), PD_OK);
  assert_true(n == UINT64_MAX - 1);
}

static void args__sizes_have_units(void **state)
{
  (void)state;
  static const char *const bad[] = {"",     "K",  "1k",  "1KB", "-1", "1.5M", "1 M", "99999999999G", "18446744073709551616",
                                    "0x10", "01", "064K"};
  uint64_t n = 7;
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(args_parse_size("--size", bad[i], &n, NULL), PD_INVALID);
  assert_int_equal(n, 7);
  assert_int_equal(args_parse_size("--size", "512", &n, NULL), PD_OK);
  assert_int_equal(n, 512);
  assert_int_equal(args_parse_size("--size", "64K", &n, NULL), PD_OK);
  assert_int_equal(n, 65536);
  assert_int_equal(args_parse_size("--size", "300M", &n, NULL), PD_OK);
  assert_int_equal(n, 314572800);
  assert_int_equal(args_parse_size("--size", "4G", &n, NULL), PD_OK);
  assert_int_equal(n, 4294967296);
}

static void args__times_have_units(void **state)
{
  (void)state;
  static const char *const bad[] = {"", "h", "12 h", "12H", "-1s", "1.5h", "1234567890", "12hours", "h12", "0x10s"};
  uint64_t n = 7;
  for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(args_parse_seconds("--expires", bad[i], &n, NULL), PD_INVALID);
  assert_int_equal(n, 7);
  static const struct {
    const char *text;
    uint64_t seconds;
  } good[] = {{"90", 90}, {"90s", 90}, {"15min", 900}, {"12h", 43200}, {"30d", 2592000}, {"0", 0}};
  for (size_t i = 0; i < COUNT_OF(good); i++) {
    assert_int_equal(args_parse_seconds("--expires", good[i].text, &n, NULL), PD_OK);
    assert_int_equal(n, good[i].seconds);
  }
}

static void args__fields_are_kept_with_their_values_where_a_command_takes_them(void **state)
{
  (void)state;
  args_parsed a;
  assert_int_equal(PARSE(&a, NULL, "call", "x", "--key", "plan", "--flag", "--version=-3", "--json", "--last"), PD_OK);
  assert_int_equal(a.field_count, 4);
  assert_memory_equal(a.fields[0].name, "key", a.fields[0].name_size);
  assert_string_equal(a.fields[0].value, "plan");
  assert_null(a.fields[1].value);
  assert_string_equal(a.fields[2].value, "-3");
  assert_null(a.fields[3].value);
  assert_non_null(args_get(&a, "json"));
  assert_int_equal(a.word_count, 1);
  assert_int_equal(PARSE(&a, NULL, "put", "k", "v", "--key", "plan"), PD_INVALID);
}

static void args__a_field_that_is_called_like_an_option_of_all_is_the_field_after_the_capability(void **state)
{
  (void)state;
  args_parsed a;
  assert_int_equal(PARSE(&a, NULL, "--store", "home", "call", "x", "--store", "shared"), PD_OK);
  assert_string_equal(args_get(&a, "store"), "home");
  assert_int_equal(a.field_count, 1);
  assert_string_equal(a.fields[0].value, "shared");
  static const char *const others[][5] = {{"call", "y", "--store", "home"}, {"call", "--store", "home", "x"}};
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    assert_int_equal(parse(&a, NULL, others[i]), PD_OK);
    assert_string_equal(args_get(&a, "store"), "home");
    assert_int_equal(a.field_count, 0);
  }
}

static void args__version_is_a_field_if_it_has_a_value(void **state)
{
  (void)state;
  args_parsed a;
  assert_int_equal(PARSE(&a, NULL, "call", "x", "--version", "3"), PD_OK);
  assert_int_equal(a.field_count, 1);
  assert_string_equal(a.fields[0].value, "3");
  assert_null(args_get(&a, "version"));
  assert_int_equal(PARSE(&a, NULL, "call", "x", "--version=3"), PD_OK);
  assert_int_equal(a.field_count, 1);
  static const char *const flags[][4] = {
    {"call", "x", "--version"}, {"call", "--version", "x"}, {"--version", "call", "x"}, {"call", "x", "-V"}};
  for (size_t i = 0; i < COUNT_OF(flags); i++) {
    assert_int_equal(parse(&a, NULL, flags[i]), PD_OK);
    assert_int_equal(a.field_count, 0);
    assert_non_null(args_get(&a, "version"));
  }
  assert_int_equal(PARSE(&a, NULL, "call", "x", "--json", "3"), PD_OK);
  assert_non_null(args_get(&a, "json"));
  assert_int_equal(PARSE(&a, NULL, "log", "--version", "3"), PD_OK);
  assert_non_null(args_get(&a, "version"));
  assert_int_equal(PARSE(&a, NULL, "log", "--version=3"), PD_INVALID);
}

static void args__distance_counts_edits(void **state)
{
  (void)state;
  assert_int_equal(pd_text_distance("", ""), 0);
  assert_int_equal(pd_text_distance("log", "log"), 0);
  assert_int_equal(pd_text_distance("lgo", "log"), 1);
  assert_int_equal(pd_text_distance("verfy", "verify"), 1);
  assert_int_equal(pd_text_distance("putt", "put"), 1);
  assert_int_equal(pd_text_distance("abc", ""), 3);
  assert_int_equal(pd_text_distance("kitten", "sitting"), 3);
  char longer[200];
  memset(longer, 'a', sizeof longer - 1);
  longer[199] = 0;
  assert_true(pd_text_distance(longer, "a") > 10);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(args__options_stand_before_and_after_the_command),
    cmocka_unit_test(args__every_spelling_of_a_value_is_understood),
    cmocka_unit_test(args__the_last_of_two_wins_and_values_may_be_empty),
    cmocka_unit_test(args__a_dash_a_number_and_all_after_two_dashes_are_words),
    cmocka_unit_test(args__unknown_things_are_refused_with_a_suggestion),
    cmocka_unit_test(args__what_is_understood_before_a_fault_is_kept),
    cmocka_unit_test(args__missing_and_unwanted_values_are_refused),
    cmocka_unit_test(args__the_number_of_words_is_checked),
    cmocka_unit_test(args__numbers_are_whole_and_fit),
    cmocka_unit_test(args__sizes_have_units),
    cmocka_unit_test(args__times_have_units),
    cmocka_unit_test(args__fields_are_kept_with_their_values_where_a_command_takes_them),
    cmocka_unit_test(args__version_is_a_field_if_it_has_a_value),
    cmocka_unit_test(args__a_field_that_is_called_like_an_option_of_all_is_the_field_after_the_capability),
    cmocka_unit_test(args__distance_counts_edits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
