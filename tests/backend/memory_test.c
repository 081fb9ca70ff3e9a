/* memory_test.c: memory: under the contract, and what only it does. */
#include "contract/backend_contract.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static char *uri_new(void)
{
  static int count;
  return text_of("memory:home-%d", ++count);
}

static void uri_destroy(const char *uri)
{
  (void)uri;
}

static pd_backend *open_uri(const char *uri, unsigned flags, pd_code want)
{
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  pd_backend *b = NULL;
  assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_OK);
  assert_int_equal(ops->open(rest, "main", flags, &b, NULL), want);
  return b;
}

static void memory__without_a_name_each_handle_is_alone(void **state)
{
  (void)state;
  pd_backend *a = open_uri("memory:", PD_BACKEND_CREATE, PD_OK), *b = open_uri("memory:", PD_BACKEND_CREATE, PD_OK);
  pd_bytes record = pd_text("a's");
  assert_int_equal(a->ops->log_append(a, 1, &record, 1, NULL), PD_OK);
  assert_int_equal(a->ops->log_tail_hint(a), 1);
  assert_int_equal(b->ops->log_tail_hint(b), 0);
  a->ops->close(a);
  b->ops->close(b);
  open_uri("memory:", 0, PD_NOT_FOUND);
}

static void memory__a_named_store_is_gone_with_its_last_handle(void **state)
{
  (void)state;
  pd_backend *a = open_uri("memory:x", PD_BACKEND_CREATE, PD_OK), *b = open_uri("memory:x", 0, PD_OK);
  pd_bytes record = pd_text("kept while somebody looks");
  assert_int_equal(a->ops->log_append(a, 1, &record, 1, NULL), PD_OK);
  a->ops->close(a);
  assert_int_equal(b->ops->log_tail_hint(b), 1);
  b->ops->close(b);
  open_uri("memory:x", 0, PD_NOT_FOUND);
}

static void memory__names_are_homes_apart(void **state)
{
  (void)state;
  pd_backend *a = open_uri("memory:x", PD_BACKEND_CREATE, PD_OK);
  open_uri("memory:y", 0, PD_NOT_FOUND);
  a->ops->close(a);
}

int main(void)
{
  const backend_contract_target target = {.name = "memory", .uri_new = uri_new, .uri_destroy = uri_destroy, .has_gc_lock = true};
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory__without_a_name_each_handle_is_alone),
    cmocka_unit_test(memory__a_named_store_is_gone_with_its_last_handle),
    cmocka_unit_test(memory__names_are_homes_apart),
  };
  return backend_contract_run(&target, tests, sizeof tests / sizeof tests[0]);
}
