/* input_test.c: inputs as they are hashed and as they are kept. */
#include "state/call.h"

#include "base/base.h"
#include "base/sha256.h"
#include "state/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SET "state.session.set"

static pd_id hash_of(const char *text)
{
  pd_input input;
  pd_id id, again;
  pd_input *kept = NULL;
  pd_error err = {0};
  if (pd_input_parse(pd_capability_get(SET), pd_text(text), &input, &err)) fail_msg("%s", err.message);
  assert_int_equal(pd_input_hash(&input, &id, NULL), PD_OK);
  pd_input_done(&input);
  assert_int_equal(pd_input_new(SET, pd_text(text), &kept, NULL), PD_OK);
  assert_int_equal(pd_input_hash(kept, &again, NULL), PD_OK);
  pd_input_free(kept);
  assert_true(pd_id_equal(&id, &again)); /* whether it was parsed before or not */
  return id;
}

static void input__its_hash_is_of_name_fields_and_canonical_values(void **state)
{
  (void)state;
  pd_id id = hash_of("{\"key\":\"k\",\"value\":{\"b\":[1, 2],\"a\":\"x\"}}");
  pd_id expected = pd_sha256(pd_text("state.session.set\nkey:1:kvalue:19:{\"a\":\"x\",\"b\":[1,2]}"));
  assert_true(pd_id_equal(&id, &expected));
  id = hash_of("{\"value\":{\"a\":\"x\",\"b\":[1,2]},\"key\":\"k\"}"); /* canonical as it is */
  assert_true(pd_id_equal(&id, &expected));
  expected = pd_sha256(pd_text("state.session.set\nkey:10:0123456789value:1:7"));
  id = hash_of("{\"key\":\"0123456789\",\"value\":7}");
  assert_true(pd_id_equal(&id, &expected));
}

static void input__its_hash_does_not_depend_on_how_it_is_written(void **state)
{
  (void)state;
  static const char *const same[] = {
    "{\"key\":\"k\",\"value\":{\"a\":\"A\x7f\",\"b\":{\"c\":null,\"d\":[]}}}",
    "{\"value\":{\"b\":{\"d\":[],\"c\":null},\"a\":\"A\x7f\"},\"key\":\"k\"}",
    " { \"k\\u0065y\" : \"\\u006b\" , \"value\" : { \"\\u0062\" : { \"c\":null,\"d\":[ ] },\"a\":\"\\u0041\\u007F\"} } ",
  };
  static const char *const other[] = {
    "{\"key\":\"l\",\"value\":{\"a\":\"A\x7f\",\"b\":{\"c\":null,\"d\":[]}}}",
    "{\"key\":\"k\",\"value\":{\"a\":\"A\x7f\",\"b\":{\"c\":null,\"d\":{}}}}",
    "{\"key\":\"k\",\"value\":\"\"}",
  };
  pd_id first = hash_of(same[0]);
  for (size_t i = 1; i < COUNT_OF(same); i++) {
    pd_id id = hash_of(same[i]);
    assert_true(pd_id_equal(&id, &first));
  }
  for (size_t i = 0; i < COUNT_OF(other); i++) {
    pd_id id = hash_of(other[i]);
    assert_false(pd_id_equal(&id, &first));
  }
}

static void input__one_that_was_parsed_before_is_stored_on_one_line(void **state)
{
  (void)state;
  world w;
  pd_input *input = NULL;
  world_open(&w, NULL);
  world_begin_session(&w);
  pd_ctx ctx = {.home = w.home, .agent = "main", .session = w.session};
  assert_int_equal(pd_input_new(SET, pd_text(" {\n\"key\" : \"k\",\t\"value\" : [ 1 , \"a b\\\" \" , { } ]\n} "), &input, NULL), PD_OK);
  for (int i = 0; i < 2; i++) assert_int_equal(pd_call_input(&ctx, input, &w.out, &w.err), PD_OK);
  pd_input_free(input);
  world_ok(&w, "state.session.get", "{\"key\":\"k\"}");
  assert_string_equal(world_out(&w, "value"), "[1,\"a b\\\" \",{}]");
  world_close(&w);
}

static void input__what_is_wrong_is_told_when_it_is_made(void **state)
{
  (void)state;
  pd_input *input = NULL;
  pd_error err = {0};
  assert_int_equal(pd_input_new(SET, pd_text("{\"key\":\"k\""), &input, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "no JSON"));
  assert_int_equal(pd_input_new(SET, pd_text("{\"key\":\"k\"}"), &input, &err), PD_INVALID);
  assert_non_null(strstr(err.message, "'value' is missing"));
  assert_int_equal(pd_input_new("state.session.sett", pd_text("{}"), &input, &err), PD_NOT_FOUND);
  assert_null(input);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(input__its_hash_is_of_name_fields_and_canonical_values),
    cmocka_unit_test(input__its_hash_does_not_depend_on_how_it_is_written),
    cmocka_unit_test(input__one_that_was_parsed_before_is_stored_on_one_line),
    cmocka_unit_test(input__what_is_wrong_is_told_when_it_is_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
