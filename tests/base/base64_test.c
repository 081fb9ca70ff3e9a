/* base64_test.c: RFC 4648's vectors, every length, and what a strict decoder refuses. */
#include "base/base64.h"

#include "base/base.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void base64__the_vectors_of_the_rfc_hold(void **state)
{
  (void)state;
  static const char *const pairs[][2] = {
    {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
  for (size_t i = 0; i < COUNT_OF(pairs); i++) {
    CLEANUP(pd_buf_done) pd_buf text = {0}, bytes = {0};
    assert_int_equal(pd_base64_encode(pd_text(pairs[i][0]), &text, NULL), PD_OK);
    assert_true(pd_bytes_equal(pd_buf_bytes(&text), pd_text(pairs[i][1])));
    assert_int_equal(pd_base64_decode(pd_text(pairs[i][1]), &bytes, NULL), PD_OK);
    assert_true(pd_bytes_equal(pd_buf_bytes(&bytes), pd_text(pairs[i][0])));
  }
}

static void base64__all_bytes_at_all_lengths_come_back(void **state)
{
  (void)state;
  uint8_t data[256];
  for (int i = 0; i < 256; i++) data[i] = (uint8_t)(i * 167 + 13);
  for (size_t size = 0; size <= sizeof data; size++) {
    CLEANUP(pd_buf_done) pd_buf text = {0}, back = {0};
    assert_int_equal(pd_base64_encode((pd_bytes){data, size}, &text, NULL), PD_OK);
    assert_int_equal(text.size, (size + 2) / 3 * 4);
    assert_int_equal(pd_base64_decode(pd_buf_bytes(&text), &back, NULL), PD_OK);
    assert_int_equal(back.size, size);
    if (size) assert_memory_equal(back.data, data, size);
  }
}

static void base64__what_is_not_canonical_is_refused_and_leaves_nothing(void **state)
{
  (void)state;
  static const char *const bad[] = {"Z",    "Zg",   "Zg=",  "Zm9",  "====", "Z===",         "Zg==Zg==",   "Z=g=",    "Zm9v\n",
                                    "Zm 9", "Zm-_", "Zh==", "Zm9=", "=Zm9", "Zm9vZg==Zm9v", "Zm\xC3\xA9", "\0\0\0\0"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    CLEANUP(pd_buf_done) pd_buf out = {0};
    pd_bytes text = i + 1 == COUNT_OF(bad) ? (pd_bytes){bad[i], 4} : pd_text(bad[i]);
    assert_int_equal(pd_buf_append(&out, "kept", 4, NULL), PD_OK);
    if (pd_base64_decode(text, &out, NULL) != PD_INVALID) fail_msg("accepted: %s", bad[i]);
    assert_int_equal(out.size, 4);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(base64__the_vectors_of_the_rfc_hold),
    cmocka_unit_test(base64__all_bytes_at_all_lengths_come_back),
    cmocka_unit_test(base64__what_is_not_canonical_is_refused_and_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
