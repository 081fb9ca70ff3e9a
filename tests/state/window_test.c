/* window_test.c: how many versions an agent's store keeps, and that gc takes the others without being asked. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/home.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SET "state.persistent.set"
#define GET "state.persistent.get"

static pd_store *open_main(world *w)
{
  pd_store *s = NULL;
  assert_int_equal(pd_store_open(w->uri, "main", NULL, &s, &w->err), PD_OK);
  return s;
}

static void assert_setting(world *w, const char *name, const char *wanted)
{
  pd_store *s = open_main(w);
  pd_buf value = {0};
  pd_code code = pd_setting_get(s, name, &value, &w->err);
  if (wanted) {
    assert_int_equal(code, PD_OK);
    assert_true(pd_bytes_equal(pd_buf_bytes(&value), pd_text(wanted)));
  } else {
    assert_int_equal(code, PD_NOT_FOUND);
  }
  pd_buf_done(&value);
  assert_int_equal(pd_store_close(s, &w->err), PD_OK);
}

/* As persistent.versions in perdure.toml, after a restart. */
static void configure(world *w, uint64_t versions)
{
  world_restart(w);
  w->home->config.persistent_versions = versions;
}

static void set(world *w, const char *key, int value)
{
  if (world_callf(w, SET, "{\"key\":\"%s\",\"value\":%d}", key, value)) fail_msg("%s", (const char *)w->out.data);
}

static void window__a_new_store_keeps_what_is_configured(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", 1);
  assert_setting(&w, PD_SETTING_GC_AUTO, "on");
  assert_setting(&w, PD_SETTING_GC_KEEP_VERSIONS, "100");
  world_close(&w);
}

static void window__forever_leaves_gc_off(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.home->config.persistent_versions = 0;
  set(&w, "a", 1);
  assert_setting(&w, PD_SETTING_GC_AUTO, "off");
  assert_setting(&w, PD_SETTING_GC_KEEP_VERSIONS, NULL);
  world_close(&w);
}

static void window__a_changed_number_is_set_at_the_next_write(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", 1);
  configure(&w, 7);
  world_ok(&w, GET, "{\"key\":\"a\"}");
  assert_setting(&w, PD_SETTING_GC_KEEP_VERSIONS, "100"); /* reading changes nothing */
  set(&w, "a", 2);
  assert_setting(&w, PD_SETTING_GC_KEEP_VERSIONS, "7");
  configure(&w, 0);
  set(&w, "a", 3);
  assert_setting(&w, PD_SETTING_GC_AUTO, "off");
  world_close(&w);
}

static void window__what_was_set_by_hand_stays_until_the_number_changes(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  set(&w, "a", 1);
  pd_store *s = open_main(&w);
  assert_int_equal(pd_setting_set(s, PD_SETTING_GC_AUTO, pd_text("off"), NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  configure(&w, 100);
  set(&w, "a", 2);
  assert_setting(&w, PD_SETTING_GC_AUTO, "off");
  configure(&w, 50);
  set(&w, "a", 3);
  assert_setting(&w, PD_SETTING_GC_AUTO, "on");
  world_close(&w);
}

static void window__a_history_that_was_there_before_is_left_alone(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  pd_store *s = open_main(&w);
  assert_int_equal(pd_put(s, pd_text("old"), pd_text("1"), NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  set(&w, "a", 1);
  assert_setting(&w, PD_SETTING_GC_AUTO, NULL);
  world_close(&w);
}

static void assert_reads(pd_store *s, const char *at, const char *text)
{
  pd_buf value = {0};
  pd_error err = {0};
  if (pd_get(s, at, pd_text("a"), &value, NULL, &err)) fail_msg("%s: %s", at, err.message);
  assert_true(pd_bytes_equal(pd_buf_bytes(&value), pd_text(text)));
  pd_buf_done(&value);
}

static void persistent_set__effect_2__prunes_old_versions_but_not_what_forks_and_tags_show(void **state)
{
  (void)state;
  world w;
  world_open(&w, NULL);
  w.home->config.persistent_versions = 5;
  w.home->config.flush_ms = 50;
  set(&w, "a", 1);
  world_restart(&w);
  w.home->config.persistent_versions = 5;
  w.home->config.flush_ms = 50;
  pd_store *s = open_main(&w);
  assert_int_equal(pd_fork(s, "trial", "main", NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  for (int i = 2; i <= 2600; i++) set(&w, "a", i);
  s = NULL;
  assert_int_equal(world_borrow(w.home, "main", false, &s, &w.err), PD_OK);
  assert_int_equal(pd_tag_set(s, "half", "main", false, NULL, NULL, &w.err), PD_OK);
  for (int i = 2601; i <= 5200; i++) set(&w, "a", i);
  world_restart(
    &w); /* closing runs what is due, unless gc is at it by itself just then: then it gives up, and the next who closes does it */
  w.home->config.persistent_versions = 5;
  set(&w, "a", 5201);
  world_restart(&w);
  s = open_main(&w);
  pd_gc_info info;
  assert_int_equal(pd_gc_status(s, &info, &w.err), PD_OK);
  assert_true(info.cut > 1);
  assert_int_equal(pd_get_version(s, "main", pd_text("a"), 3, NULL, NULL, &w.err), PD_RETIRED);
  assert_reads(s, "trial", "1");
  assert_reads(s, "half", "2600");
  assert_int_equal(pd_verify(s, NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(s, &w.err), PD_OK);
  w.home->config.persistent_versions = 5;
  world_ok(&w, "state.persistent.history", "{\"key\":\"a\"}");
  assert_string_equal(world_out(&w, "count"), "5");
  assert_string_equal(world_out(&w, "versions.4.value"), "5197");
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(window__a_new_store_keeps_what_is_configured),
    cmocka_unit_test(window__forever_leaves_gc_off),
    cmocka_unit_test(window__a_changed_number_is_set_at_the_next_write),
    cmocka_unit_test(window__what_was_set_by_hand_stays_until_the_number_changes),
    cmocka_unit_test(window__a_history_that_was_there_before_is_left_alone),
    cmocka_unit_test(persistent_set__effect_2__prunes_old_versions_but_not_what_forks_and_tags_show),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
