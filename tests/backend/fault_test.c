/* fault_test.c: the fault backend fails what it is told to fail, and nothing else. */
#include "support/fault_backend.h"

#include "contract/backend_contract.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char *uri_new(void)
{
  static int count;
  return text_of("fault:memory:home-%d", ++count);
}

static void uri_destroy(const char *uri)
{
  (void)uri;
}

static pd_backend *open_fault(pd_code want)
{
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  pd_backend *b = NULL;
  assert_int_equal(pd_backend_find("fault:memory:", &ops, &rest, NULL), PD_OK);
  assert_int_equal(ops->open(rest, "main", PD_BACKEND_CREATE, &b, NULL), want);
  return b;
}

static pd_code append_one(pd_backend *b, pd_error *err)
{
  pd_bytes record = pd_text("r");
  return b->ops->log_append(b, b->ops->log_tail_hint(b) + 1, &record, 1, err);
}

static void fault__the_nth_call_fails_and_only_it(void **state)
{
  (void)state;
  fault_backend_plan((fault_plan){.at = 3, .code = PD_FULL});
  pd_backend *b = open_fault(PD_OK); /* the first call */
  pd_error err = {0};
  assert_int_equal(append_one(b, NULL), PD_OK);
  assert_false(fault_backend_has_fired());
  assert_int_equal(append_one(b, &err), PD_FULL);
  assert_string_equal(err.message, "injected fault in log_append");
  assert_int_equal(b->ops->log_tail_hint(b), 1);
  assert_int_equal(append_one(b, NULL), PD_OK);
  assert_int_equal(fault_backend_fired(), 1);
  assert_int_equal(fault_backend_calls(), 4);
  b->ops->close(b);
}

static void fault__several_in_a_row_fail(void **state)
{
  (void)state;
  fault_backend_plan((fault_plan){.at = 2, .count = 2});
  pd_backend *b = open_fault(PD_OK);
  assert_int_equal(append_one(b, NULL), PD_STORAGE);
  assert_int_equal(append_one(b, NULL), PD_STORAGE);
  assert_int_equal(append_one(b, NULL), PD_OK);
  fault_backend_plan((fault_plan){.at = 1, .count = UINT64_MAX});
  for (int i = 0; i < 5; i++) assert_int_equal(append_one(b, NULL), PD_STORAGE);
  b->ops->close(b);
}

static void fault__only_the_chosen_operations_are_counted(void **state)
{
  (void)state;
  fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_BAG_PUT});
  pd_backend *b = open_fault(PD_OK);
  pd_bytes blob = pd_text("x");
  pd_id id = pd_value_id(blob);
  assert_int_equal(append_one(b, NULL), PD_OK);
  assert_int_equal(fault_backend_calls(), 0);
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, NULL), PD_STORAGE);
  assert_int_equal(b->ops->bag_put(b, &id, &blob, 1, NULL), PD_OK);
  b->ops->close(b);
}

static void fault__after_means_done_and_denied(void **state)
{
  (void)state;
  fault_backend_plan((fault_plan){.at = 1, .how = FAULT_AFTER, .ops = FAULT_LOG_APPEND});
  pd_backend *b = open_fault(PD_OK);
  assert_int_equal(append_one(b, NULL), PD_STORAGE);
  assert_int_equal(b->ops->log_tail_hint(b), 1);
  b->ops->close(b);
}

static pd_code count_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)seq, (void)record, (void)err;
  ++*(size_t *)ctx;
  return PD_OK;
}

static void fault__tear_means_half(void **state)
{
  (void)state;
  fault_backend_plan((fault_plan){.at = 1, .how = FAULT_TEAR, .ops = FAULT_BAG_PUT | FAULT_LOG_READ});
  pd_backend *b = open_fault(PD_OK);
  pd_bytes blobs[4] = {pd_text("0"), pd_text("1"), pd_text("2"), pd_text("3")};
  pd_id ids[4];
  pd_buf out = {0};
  size_t count = 0;
  for (int i = 0; i < 4; i++) ids[i] = pd_value_id(blobs[i]);
  assert_int_equal(b->ops->bag_put(b, ids, blobs, 4, NULL), PD_STORAGE);
  for (int i = 0; i < 4; i++) assert_int_equal(b->ops->bag_get(b, &ids[i], &out, NULL), i < 2 ? PD_OK : PD_NOT_FOUND);
  for (int i = 0; i < 8; i++) assert_int_equal(append_one(b, NULL), PD_OK);
  fault_backend_plan((fault_plan){.at = 1, .how = FAULT_TEAR, .ops = FAULT_LOG_READ});
  assert_int_equal(b->ops->log_read(b, 1, UINT64_MAX, count_record, &count, NULL), PD_STORAGE);
  assert_int_equal(count, 4);
  pd_buf_done(&out);
  b->ops->close(b);
}

static void fault__opening_can_fail_before_and_after(void **state)
{
  (void)state;
  fault_backend_plan((fault_plan){.at = 1, .ops = FAULT_OPEN});
  assert_null(open_fault(PD_STORAGE));
  fault_backend_plan((fault_plan){.at = 1, .how = FAULT_AFTER, .ops = FAULT_OPEN, .code = PD_CORRUPT});
  assert_null(open_fault(PD_CORRUPT));
  fault_backend_plan((fault_plan){0});
}

int main(void)
{
  const backend_contract_target target = {.name = "fault_without_a_plan", .uri_new = uri_new, .uri_destroy = uri_destroy};
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fault__the_nth_call_fails_and_only_it),
    cmocka_unit_test(fault__several_in_a_row_fail),
    cmocka_unit_test(fault__only_the_chosen_operations_are_counted),
    cmocka_unit_test(fault__after_means_done_and_denied),
    cmocka_unit_test(fault__tear_means_half),
    cmocka_unit_test(fault__opening_can_fail_before_and_after),
  };
  fault_backend_install();
  fault_backend_install(); /* once more does no harm */
  return backend_contract_run(&target, tests, sizeof tests / sizeof tests[0]);
}
