/* audit_access_test.c: lines of what goes past the door, lines that are joined, and how much of the audit one call looks at. */
#include "base/base.h"
#include "state/audit.h"
#include "state/audit_desk.h"

#include <stdio.h>
#include <stdlib.h>

static void audit__a_query_that_nothing_fits_looks_at_a_bounded_part(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  uint64_t lines = 0, pages = 0, before = 0;
  char key[16], input[128];
  for (int i = 0; i < 45000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    get_key(&w, key);
    if (i % 4500 == 0) operator_ok(&w, "audit.list", "{\"limit\":1}"); /* flushes: several batches */
  }
  operator_ok(&w, "audit.list", "{\"capability\":\"nothing.like.it\"}");
  world_want(&w, "lines", "[]");
  world_want(&w, "has_more", "true");
  for (bool has_more = true; has_more; pages++) { /* and the pages together miss nothing */
    snprintf(input, sizeof input, before ? "{\"capability\":\"nothing.*\",\"before\":%llu}" : "{\"capability\":\"nothing.*\"}",
             (unsigned long long)before);
    operator_ok(&w, "audit.list", input);
    has_more = strcmp(world_out(&w, "has_more"), "true") == 0;
    if (has_more) assert_int_not_equal(before = strtoull(world_out(&w, "next_before"), NULL, 10), 0);
    assert_true(pages < 10);
  }
  assert_in_range(pages, 3, 5);
  before = 0;
  for (bool has_more = true; has_more;) {
    snprintf(input, sizeof input,
             before ? "{\"limit\":1000,\"capability\":\"" GET "\",\"before\":%llu}" : "{\"limit\":1000,\"capability\":\"" GET "\"}",
             (unsigned long long)before);
    operator_ok(&w, "audit.list", input);
    lines += count_of(&w, "\"seq\"");
    has_more = strcmp(world_out(&w, "has_more"), "true") == 0;
    if (has_more) before = strtoull(world_out(&w, "next_before"), NULL, 10);
  }
  assert_int_equal(lines, 45000);
  world_close(&w);
}

static void audit__what_is_refused_again_and_again_shares_a_line(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[audit]\nflush = \"10s\"\n");
  for (int i = 0; i < 500; i++) (void)world_call(&w, "approvals.approve", "{\"approval_id\":\"apr-1\"}");
  operator_ok(&w, "audit.list", "{\"capability\":\"approvals.approve\"}");
  assert_int_equal(count_of(&w, "\"seq\""), 1);
  world_want(&w, "lines.0.count", "500");
  world_want(&w, "lines.0.outcome", "\"PermissionDenied\"");
  world_close(&w);
}

static void audit__a_read_past_the_door_is_a_line_of_its_caller(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[audit]\nflush = \"10s\"\n");
  pd_access read = {
    .capability = "state.persistent.get", .agent = "main", .token = "0123456789abcdef", .subject = pd_text("plan"), .outcome = "ok"};
  for (int i = 0; i < 3; i++) pd_audit_access(w.home, &read);
  read.outcome = "PermissionDenied";
  read.is_operator = true;
  pd_audit_access(w.home, &read);
  operator_ok(&w, "audit.list", "{}");
  assert_int_equal(count_of(&w, "\"seq\""), 2);
  world_want(&w, "lines.1.count", "3");
  world_want(&w, "lines.1.agent", "\"main\"");
  world_want(&w, "lines.1.token", "\"0123456789abcdef\"");
  world_want(&w, "lines.1.capability", "\"state.persistent.get\"");
  world_want(&w, "lines.1.permission", "\"autonomous\"");
  world_want(&w, "lines.1.subject", "\"plan\"");
  world_want(&w, "lines.0.outcome", "\"PermissionDenied\"");
  world_want(&w, "lines.0.operator", "true");
  verify_is(&w, true);
  world_close(&w);
}

/* Ten minutes of a stranger who asks a thousand times a second; each line tells how many there were. */
static void audit__a_stranger_cannot_flood_it(void **state)
{
  (void)state;
  world w;
  world_open(&w, "[audit]\nflush = 0\n"); /* so that nothing waits for others that are alike, but by the minute */
  pd_access refused = {.capability = "token.refuse", .outcome = "Unauthorized", .is_joined_by_minute = true};
  for (int i = 0; i < 60000; i++) {
    pd_audit_access(w.home, &refused);
    w.now_ms += 10;
    if (i % 500 == 0) get_key(&w, "x"); /* writes what waits */
  }
  operator_ok(&w, "audit.list", "{\"capability\":\"token.*\"}");
  size_t lines = count_of(&w, "\"seq\"");
  assert_in_range(lines, 11, 12);
  uint64_t told = 0;
  char path[48];
  for (size_t i = 0; i < lines; i++) {
    snprintf(path, sizeof path, "lines.%zu.count", i);
    const char *count = world_out(&w, path);
    told += *count ? strtoull(count, NULL, 10) : 1;
  }
  assert_int_equal(told, 60000);
  verify_is(&w, true);
  for (int i = 0; i < 200; i++) { /* more kinds than there are rows: none is lost */
    char token[17];
    snprintf(token, sizeof token, "%016d", i);
    refused.token = token;
    for (int k = 0; k < 3; k++) pd_audit_access(w.home, &refused);
  }
  operator_ok(&w, "audit.list", "{\"limit\":1000,\"capability\":\"token.*\"}");
  told = 0;
  lines = count_of(&w, "\"seq\"");
  for (size_t i = 0; i < lines; i++) {
    snprintf(path, sizeof path, "lines.%zu.count", i);
    const char *count = world_out(&w, path);
    told += *count ? strtoull(count, NULL, 10) : 1;
  }
  assert_int_equal(told, 60600);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(audit__a_query_that_nothing_fits_looks_at_a_bounded_part),
    cmocka_unit_test(audit__what_is_refused_again_and_again_shares_a_line),
    cmocka_unit_test(audit__a_read_past_the_door_is_a_line_of_its_caller),
    cmocka_unit_test(audit__a_stranger_cannot_flood_it),
  };
  return cmocka_run_group_tests_name("state audit access", tests, NULL, NULL);
}
