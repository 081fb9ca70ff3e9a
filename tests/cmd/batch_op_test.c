/* batch_op_test.c: the operations of `batch`, as they are read. */
#include "batch_op.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static pd_code read_op(batch_op *op, const char *text, pd_error *err)
{
  pd_json json;
  assert_int_equal(pd_json_parse(pd_text(text), &json, NULL), PD_OK);
  return batch_op_read(op, json, false, err);
}

static void batch_op__a_value_keeps_its_bytes(void **state)
{
  (void)state;
  CLEANUP(batch_op_done) batch_op op = {0};
  assert_int_equal(read_op(&op, "{\"op\":\"put\",\"key\":\"k\",\"value\": {\"n\": 1.50} }", NULL), PD_OK);
  assert_int_equal(op.kind, BATCH_PUT);
  assert_true(pd_bytes_equal(op.raw_value, pd_text("{\"n\": 1.50}")));
  assert_true(pd_bytes_equal(pd_buf_bytes(&op.key), pd_text("k")));
  assert_true(op.expect == PD_ANY_VERSION);
  assert_null(op.note.reason);
}

static void batch_op__text_and_base64_are_decoded(void **state)
{
  (void)state;
  CLEANUP(batch_op_done) batch_op op = {0};
  assert_int_equal(read_op(&op, "{\"op\":\"put\",\"key\":\"k\",\"text\":\"a\\nb\"}", NULL), PD_OK);
  assert_true(pd_bytes_equal(op.raw_value, pd_text("a\nb")));
  assert_int_equal(read_op(&op, "{\"op\":\"put\",\"key\":\"k\",\"base64\":\"AP8=\"}", NULL), PD_OK);
  assert_true(pd_bytes_equal(op.raw_value, (pd_bytes){"\0\xFF", 2}));
  assert_int_equal(read_op(&op, "{\"op\":\"put\",\"key\":\"k\",\"text\":\"\"}", NULL), PD_OK);
  assert_int_equal(op.raw_value.size, 0);
}

static void batch_op__who_why_and_conditions_are_read(void **state)
{
  (void)state;
  CLEANUP(batch_op_done) batch_op op = {0};
  assert_int_equal(
    read_op(&op,
            "{\"op\":\"delete\",\"key\":\"k\",\"expect\":3,\"ref\":\"r\",\"reason\":\"w\\u00e9\",\"run\":\"7\",\"author\":\"a\","
            "\"id\":[1]}",
            NULL),
    PD_OK);
  assert_int_equal(op.kind, BATCH_DELETE);
  assert_int_equal(op.expect, 3);
  assert_string_equal(op.note.ref, "r");
  assert_string_equal(op.note.reason, "w\xC3\xA9");
  assert_string_equal(op.note.run, "7");
  assert_string_equal(op.note.author, "a");
  assert_int_equal(op.id.kind, PD_JSON_ARRAY);
  assert_int_equal(read_op(&op, "{\"op\":\"get\",\"key\":\"k\",\"at\":\"main~1\",\"version\":2}", NULL), PD_OK);
  assert_string_equal(op.at, "main~1");
  assert_int_equal(op.version, 2);
  assert_null(op.note.ref);
}

static void batch_op__what_is_wrong_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "1",
    "[]",
    "{}",
    "{\"op\":1}",
    "{\"op\":\"nope\",\"key\":\"k\"}",
    "{\"op\":\"put\"}",
    "{\"op\":\"put\",\"key\":\"k\"}",
    "{\"op\":\"put\",\"value\":1}",
    "{\"op\":\"put\",\"key\":1,\"value\":1}",
    "{\"op\":\"put\",\"key\":\"\",\"value\":1}",
    "{\"op\":\"put\",\"key\":\"a\\u0000b\",\"value\":1}",
    "{\"op\":\"put\",\"key\":\"\\ud800\",\"value\":1}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"text\":\"x\"}",
    "{\"op\":\"put\",\"key\":\"k\",\"text\":1}",
    "{\"op\":\"put\",\"key\":\"k\",\"text\":\"\\udc00\"}",
    "{\"op\":\"put\",\"key\":\"k\",\"base64\":\"a\"}",
    "{\"op\":\"put\",\"key\":\"k\",\"base64\":null}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"expect\":-1}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"expect\":\"1\"}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"expect\":1.0}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"expect\":18446744073709551615}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"at\":\"main\"}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"ops\":[]}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"reason\":5}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"reason\":\"a\\u0000\"}",
    "{\"op\":\"put\",\"key\":\"k\",\"key\":\"l\",\"value\":1}",
    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"extra\":1}",
    "{\"op\":\"get\",\"key\":\"k\",\"value\":1}",
    "{\"op\":\"get\",\"key\":\"k\",\"version\":0}",
    "{\"op\":\"has\",\"key\":\"k\",\"version\":1}",
    "{\"op\":\"delete\",\"key\":\"k\",\"value\":1}",
    "{\"op\":\"commit\"}",
    "{\"op\":\"commit\",\"ops\":{}}",
    "{\"op\":\"commit\",\"ops\":[],\"key\":\"k\"}",
  };
  CLEANUP(batch_op_done) batch_op op = {0};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_error err = {0};
    if (read_op(&op, bad[i], &err) != PD_INVALID) fail_msg("accepted: %s", bad[i]);
    assert_int_equal(err.code, PD_INVALID);
    assert_true(err.message[0] != 0);
  }
}

static void batch_op__the_id_is_known_even_if_the_rest_is_wrong(void **state)
{
  (void)state;
  CLEANUP(batch_op_done) batch_op op = {0};
  assert_int_equal(read_op(&op, "{\"id\":\"x1\",\"op\":\"nope\"}", NULL), PD_INVALID);
  assert_true(pd_json_is(op.id, "x1"));
}

static void batch_op__inner_ops_are_puts_and_deletes_only(void **state)
{
  (void)state;
  CLEANUP(batch_op_done) batch_op op = {0};
  static const char *const bad[] = {"{\"op\":\"get\",\"key\":\"k\"}", "{\"op\":\"commit\",\"ops\":[]}",
                                    "{\"op\":\"put\",\"key\":\"k\",\"value\":1,\"reason\":\"r\"}",
                                    "{\"op\":\"delete\",\"key\":\"k\",\"id\":1}"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_json json;
    assert_int_equal(pd_json_parse(pd_text(bad[i]), &json, NULL), PD_OK);
    assert_int_equal(batch_op_read(&op, json, true, NULL), PD_INVALID);
  }
  pd_json json;
  assert_int_equal(pd_json_parse(pd_text("{\"op\":\"delete\",\"key\":\"k\",\"expect\":2}"), &json, NULL), PD_OK);
  assert_int_equal(batch_op_read(&op, json, true, NULL), PD_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(batch_op__a_value_keeps_its_bytes),
    cmocka_unit_test(batch_op__text_and_base64_are_decoded),
    cmocka_unit_test(batch_op__who_why_and_conditions_are_read),
    cmocka_unit_test(batch_op__what_is_wrong_is_refused),
    cmocka_unit_test(batch_op__the_id_is_known_even_if_the_rest_is_wrong),
    cmocka_unit_test(batch_op__inner_ops_are_puts_and_deletes_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
