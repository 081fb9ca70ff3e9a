/* json_error_test.c: the shape of an error is whole, whoever adds to it. */
#include "base/json_error.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_written(const pd_buf *out, const char *json)
{
  assert_int_equal(pd_json_parse(pd_buf_bytes(out), NULL, NULL), PD_OK);
  assert_int_equal(out->size, strlen(json));
  assert_memory_equal(out->data, json, out->size);
}

static void json_error__has_code_message_details_and_recovery(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  pd_error err = {0};
  pd_error_named(&err, PD_DENIED, "PolicyBlocked", "\"no\"");
  pd_json_open(&w, '{');
  pd_json_error_begin(&w, &err);
  pd_json_error_end(&w, &err, (const pd_recovery[]){{"ask", "Ask."}, {"wait", "Wait."}, {NULL, NULL}});
  pd_json_close(&w, '}');
  assert_int_equal(w.code, PD_OK);
  assert_written(&out,
                 "{\"error\":{\"code\":\"PolicyBlocked\",\"message\":\"\\\"no\\\"\",\"details\":{\"class\":\"caller\",\"kind\":"
                 "\"PermissionDenied\"},\"recovery\":[{\"action\":\"ask\",\"hint\":\"Ask.\"},{\"action\":\"wait\",\"hint\":\"Wait.\"}]}}");
}

static void json_error__a_conflict_has_its_numbers_and_details_take_more(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  pd_error err = {0};
  pd_error_conflict(&err, 3, 2, "k");
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "line", 1);
  pd_json_error_begin(&w, &err);
  pd_json_put_text(&w, "hint", "h");
  pd_json_error_end(&w, &err, (const pd_recovery[]){{NULL, NULL}});
  pd_json_close(&w, '}');
  assert_written(&out, "{\"line\":1,\"error\":{\"code\":\"VersionConflict\",\"message\":\"k\",\"details\":{\"class\":\"retry\",\"kind\":"
                       "\"VersionConflict\",\"expected\":3,\"actual\":2,\"hint\":\"h\"},\"recovery\":[]}}");
}

static void json_error__without_hints_of_the_caller_those_of_the_error_are_written(void **state)
{
  (void)state;
  for (int code = 1; code < PD_CODE_COUNT; code++) {
    CLEANUP(pd_buf_done) pd_buf out = {0};
    pd_json_writer w = {.out = &out};
    pd_error err = {.code = (pd_code)code};
    pd_json json, hint;
    pd_json_open(&w, '{');
    pd_json_error_begin(&w, &err);
    pd_json_error_end(&w, &err, NULL);
    pd_json_close(&w, '}');
    assert_int_equal(pd_json_parse(pd_buf_bytes(&out), &json, NULL), PD_OK);
    pd_json_walk walk = pd_json_walk_begin(pd_json_member(pd_json_member(json, "error"), "recovery"));
    assert_true(pd_json_walk_next(&walk, NULL, &hint));
    assert_true(pd_json_is(pd_json_member(hint, "action"), pd_code_recovery((pd_code)code)->action));
  }
}

static void json_error__of_json_rpc_answers_an_id_or_none_with_data_or_without(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_json_writer w = {.out = &out};
  pd_json_rpc_error(&w, (pd_bytes){0}, -32700, "what?", (pd_bytes){0});
  assert_written(&out, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"what?\"}}");
  pd_buf_clear(&out);
  w = (pd_json_writer){.out = &out};
  pd_json_rpc_error(&w, pd_text("\"a\""), -32602, "no", pd_text("\"uri\":\"x:\""));
  assert_written(&out, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32602,\"message\":\"no\",\"data\":{\"uri\":\"x:\"}}}");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(json_error__has_code_message_details_and_recovery),
    cmocka_unit_test(json_error__a_conflict_has_its_numbers_and_details_take_more),
    cmocka_unit_test(json_error__without_hints_of_the_caller_those_of_the_error_are_written),
    cmocka_unit_test(json_error__of_json_rpc_answers_an_id_or_none_with_data_or_without),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
