/* health_test.c: system.health. */
#include "state/world.h"

#include "base/base.h"
#include "state/audit.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void put(world *w, const char *agent, const char *key, const char *value)
{
  pd_store *s = NULL;
  if (pd_store_open(w->uri, agent, NULL, &s, &w->err) || pd_put(s, pd_text(key), pd_text(value), NULL, NULL, &w->err))
    fail_msg("%s", w->err.message);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

static void health__an_empty_home_is_well(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "reasons"), "[]");
  assert_string_equal(world_out(&w, "status"), "\"ok\"");
  assert_string_equal(world_out(&w, "checked_at"), "\"2026-11-15T10:00:00.000Z\"");
  assert_true(strtoull(world_out(&w, "disk.free_bytes"), NULL, 10) > 0);
  assert_string_equal(world_out(&w, "versions.perdure"), "\"0.1.0\"");
  assert_true(strlen(world_out(&w, "versions.sqlite")) > 3);
  assert_true(strlen(world_out(&w, "versions.openssl")) > 3);
  assert_string_equal(world_out(&w, "backends.0.name"), "\"sqlite\"");
  world_close(&w);
}

static void health__tells_whether_there_is_a_vault_and_whether_it_is_unlocked(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "vault"), "{\"exists\":false,\"unlocked\":false}");
  assert_int_equal(pd_vault_init(w.home, pd_text("a passphrase of words"), &(pd_vault_options){.memory_kib = 64, .passes = 1}, &w.err),
                   PD_OK);
  pd_vault_lock(w.home);
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "vault"), "{\"exists\":true,\"unlocked\":false}");
  assert_int_equal(pd_vault_unlock(w.home, pd_text("a passphrase of words"), &w.err), PD_OK);
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "vault"), "{\"exists\":true,\"unlocked\":true}");
  world_close(&w);
}

static void health__the_operator_sees_every_store_and_an_agent_its_own(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "k", "12345");
  put(&w, "bob", "k", "1");
  put(&w, "bob", "l", "22");
  w.agent = "ada";
  world_ok(&w, "system.health", "{}");
  assert_null(strstr((const char *)w.out.data, "bob"));
  assert_string_equal(world_out(&w, "stores.0.name"), "\"ada\"");
  assert_string_equal(world_out(&w, "stores.0.used_bytes"), "5");
  assert_string_equal(world_out(&w, "stores.0.quota_bytes"), "104857600");
  assert_string_equal(world_out(&w, "stores.0.integrity"), "\"ok\"");
  assert_string_equal(world_out(&w, "totals.agents"), "2");
  w.is_operator = true;
  w.agent = "";
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "stores.1.name"), "\"bob\"");
  assert_string_equal(world_out(&w, "stores.1.keys"), "2");
  assert_string_equal(world_out(&w, "stores.1.used_bytes"), "3");
  world_close(&w);
}

static void health__a_damaged_store_is_failing_and_named_to_whom_it_concerns(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  put(&w, "ada", "k", "12345");
  put(&w, "bob", "k", "1");
  char *path = text_of("%s/bob.db", w.folder);
  int fd = open(path, O_WRONLY | O_TRUNC);
  assert_true(fd >= 0);
  assert_true(write(fd, "no database at all", 18) == 18);
  close(fd);
  free(path);
  w.agent = "ada";
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "status"), "\"failing\"");
  assert_null(strstr((const char *)w.out.data, "bob"));
  assert_non_null(strstr(world_out(&w, "reasons"), "another agent"));
  assert_string_equal(world_out(&w, "totals.damaged"), "1");
  w.is_operator = true;
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "stores.1.integrity"), "\"damaged\"");
  assert_non_null(strstr(world_out(&w, "reasons.0"), "bob"));
  world_close(&w);
}

/* As a process does whose sync failed: the sick word of the lock file (src/backend/sqlite_lock.h). */
static void make_sick(const char *folder, const char *store)
{
  char *path = text_of("%s/%s.lock", folder, store);
  int fd = open(path, O_WRONLY);
  assert_true(fd >= 0);
  assert_true(pwrite(fd, "\1\0\0\0", 4, 80) == 4);
  close(fd);
  free(path);
}

static void health__a_store_whose_sync_failed_is_failing_and_named(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.agent = "ada";
  world_ok(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":1}"); /* and the home keeps the store open */
  make_sick(w.folder, "ada");
  world_ok(&w, "system.health", "{}");
  assert_string_equal(world_out(&w, "status"), "\"failing\"");
  assert_non_null(strstr(world_out(&w, "reasons.0"), "the store 'ada' takes no writes"));
  assert_non_null(strstr(world_out(&w, "reasons.0"), "a sync of its -wal file failed"));
  assert_string_equal(world_out(&w, "stores.0.integrity"), "\"ok\""); /* it can be read */
  world_fails(&w, "state.persistent.set", "{\"key\":\"k\",\"value\":2}", "DatabaseError", NULL);
  world_ok(&w, "state.persistent.get", "{\"key\":\"k\"}");
  assert_string_equal(world_out(&w, "value"), "1");
  world_close(&w);
}

static void health__looking_leaves_no_store_open(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  for (int i = 0; i < 30; i++) {
    char name[16];
    snprintf(name, sizeof name, "agent%d", i);
    put(&w, name, "k", "1");
  }
  world_ok(&w, "system.health", "{}");
  assert_int_equal(pd_audit_flush(w.home, &w.err), PD_OK); /* else the store system is opened somewhere in between */
  int before = dup(0);
  close(before);
  for (int i = 0; i < 3; i++) world_ok(&w, "system.health", "{}");
  int after = dup(0);
  close(after);
  assert_int_equal(before, after);
  assert_string_equal(world_out(&w, "totals.agents"), "30");
  world_close(&w);
}

static void health__takes_no_input(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  world_fails(&w, "system.health", "{\"agent\":\"ada\"}", "InvalidInput", NULL);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(health__an_empty_home_is_well),
    cmocka_unit_test(health__tells_whether_there_is_a_vault_and_whether_it_is_unlocked),
    cmocka_unit_test(health__the_operator_sees_every_store_and_an_agent_its_own),
    cmocka_unit_test(health__a_damaged_store_is_failing_and_named_to_whom_it_concerns),
    cmocka_unit_test(health__a_store_whose_sync_failed_is_failing_and_named),
    cmocka_unit_test(health__looking_leaves_no_store_open),
    cmocka_unit_test(health__takes_no_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
