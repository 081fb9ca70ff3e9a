/* statestore_test.c: what every StateStore does, whatever its type; run once for each. */
#include "state/desk.h"

#define EACH_TYPE(d)                                                                                                                       \
  for (int type = PD_STATESTORE_MEMORY; type < PD_STATESTORE_TYPE_COUNT; type++)                                                           \
    for (bool once = (desk_open(d, (pd_statestore_type)type), true); once; once = (desk_done(d), false))

static void statestore__defaults_are_those_of_the_table(void **state)
{
  (void)state;
  pd_statestore_options o = pd_statestore_defaults();
  assert_false(o.enabled);
  assert_int_equal(o.type, PD_STATESTORE_MEMORY);
  assert_string_equal(o.path, "zup.state.json");
  assert_int_equal(o.flush_interval_ms, 1000);
  assert_string_equal(o.table_name, "state");
}

static void statestore__what_is_not_enabled_is_in_memory(void **state)
{
  (void)state;
  desk d;
  pd_statestore_stats stats;
  desk_init(&d, PD_STATESTORE_FILE);
  d.options.enabled = false;
  desk_start(&d);
  desk_set(&d, "a", "1");
  desk_flush(&d);
  pd_statestore_stats_get(d.s, &stats);
  assert_int_equal(stats.type, PD_STATESTORE_MEMORY);
  assert_int_equal(access(d.path, F_OK), -1);
  desk_restart(&d);
  assert_value(&d, "a", NULL);
  desk_done(&d);
  pd_statestore *s = NULL;
  assert_int_equal(pd_statestore_open(NULL, &s, NULL), PD_OK);
  pd_statestore_free(s);
}

static void statestore__set_get_has_and_delete(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    bool was_there = true;
    assert_value(&d, "a", NULL);
    assert_non_null(strstr(d.err.message, "'a'"));
    desk_set(&d, "a", "{\"nested\":true}");
    desk_set(&d, "b", "null");
    assert_value(&d, "a", "{\"nested\":true}");
    assert_value(&d, "b", "null");
    desk_set(&d, "a", "\"a much longer value than the one before, so that it needs another place in memory\"");
    assert_value(&d, "a", "\"a much longer value than the one before, so that it needs another place in memory\"");
    assert_int_equal(pd_statestore_delete(d.s, pd_text("a"), &was_there, &d.err), PD_OK);
    assert_true(was_there);
    assert_value(&d, "a", NULL);
    assert_int_equal(pd_statestore_delete(d.s, pd_text("a"), &was_there, &d.err), PD_OK);
    assert_false(was_there);
  }
}

static void statestore__get_gives_a_copy(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    desk_set(&d, "list", "[1,2]");
    assert_value(&d, "list", "[1,2]");
    memcpy(d.value.data, "[9,9]", 5);
    assert_value(&d, "list", "[1,2]");
    desk_flush(&d);
    if (type != PD_STATESTORE_MEMORY) desk_restart(&d);
    assert_value(&d, "list", "[1,2]");
  }
}

static void statestore__values_are_kept_without_blanks_between_tokens(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    desk_set(&d, "a", " { \"x y\" : [ 1 ,\n2.50 , \"\\u00e9 \\\" }\" ] }\t");
    assert_value(&d, "a", "{\"x y\":[1,2.50,\"\\u00e9 \\\" }\"]}");
    desk_set(&d, "b", "  \" two  blanks \"  ");
    assert_value(&d, "b", "\" two  blanks \"");
    if (type == PD_STATESTORE_MEMORY) continue;
    desk_restart(&d);
    assert_value(&d, "a", "{\"x y\":[1,2.50,\"\\u00e9 \\\" }\"]}");
    assert_value(&d, "b", "\" two  blanks \"");
  }
}

static void statestore__bad_keys_and_values_are_refused_and_change_nothing(void **state)
{
  (void)state;
  desk d;
  char long_key[PD_KEY_SIZE_MAX + 2], deep[300];
  memset(long_key, 'k', sizeof long_key);
  static const char *const bad[] = {"",   " ",   "{",        "{\"a\":}", "[1,]", "undefined", "NaN",
                                    "01", "'a'", "\"\xff\"", "1 2",      "{} x", "\"a\nb\""};
  EACH_TYPE(&d)
  {
    desk_set(&d, "a", "1");
    for (size_t i = 0; i < COUNT_OF(bad); i++) assert_int_equal(pd_statestore_set(d.s, pd_text("a"), pd_text(bad[i]), &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_set(d.s, pd_text(""), pd_text("1"), &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_set(d.s, (pd_bytes){"a\0b", 3}, pd_text("1"), &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_set(d.s, pd_text("\xff"), pd_text("1"), &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_set(d.s, (pd_bytes){long_key, PD_KEY_SIZE_MAX + 1}, pd_text("1"), &d.err), PD_LIMIT);
    for (int depth = 124; depth <= 127; depth++) {
      memset(deep, '[', (size_t)depth);
      memset(deep + depth, ']', (size_t)depth);
      pd_code code = pd_statestore_set(d.s, pd_text("deep"), (pd_bytes){deep, (size_t)depth * 2}, &d.err);
      assert_int_equal(code, depth <= PD_STATESTORE_VALUE_DEPTH_MAX ? PD_OK : PD_LIMIT);
    }
    assert_value(&d, "a", "1");
    if (type != PD_STATESTORE_MEMORY) desk_restart(&d); /* also the deepest value can be read back */
    assert_true(pd_statestore_has(d.s, pd_text("deep")));
    assert_int_equal(d.warning_count, 0);
  }
}

static void statestore__lists_in_the_order_of_the_first_set(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    desk_set(&d, "p:c", "1");
    desk_set(&d, "q", "2");
    desk_set(&d, "p:a", "3");
    desk_set(&d, "p:b", "4");
    desk_set(&d, "p:c", "5");
    assert_keys(&d, "", "p:c q p:a p:b ");
    desk_delete(&d, "p:c");
    desk_set(&d, "p:c", "6");
    assert_keys(&d, "", "q p:a p:b p:c ");
    assert_keys(&d, "p:", "p:a p:b p:c ");
    assert_keys(&d, "x", "");
    if (type == PD_STATESTORE_MEMORY) continue;
    desk_restart(&d);
    assert_keys(&d, "", type == PD_STATESTORE_PERDURE ? "p:a p:b p:c q " : "q p:a p:b p:c ");
  }
}

static void statestore__order_holds_over_deletes_that_reach_the_disk(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    desk_set(&d, "a", "1");
    desk_set(&d, "b", "2");
    desk_flush(&d);
    desk_delete(&d, "a");
    desk_set(&d, "a", "3");
    desk_set(&d, "b", "4");
    if (type == PD_STATESTORE_MEMORY) continue;
    desk_restart(&d);
    assert_keys(&d, "", type == PD_STATESTORE_PERDURE ? "a b " : "b a ");
    assert_value(&d, "a", "3");
    assert_value(&d, "b", "4");
  }
}

static bool set_while_listed(void *ctx, pd_bytes key, pd_bytes value)
{
  desk *d = ctx;
  assert_int_equal(value.size, 1);
  assert_int_equal(pd_statestore_set(d->s, key, pd_text("9"), &d->err), PD_OK);
  assert_int_equal(((const char *)value.data)[0], '1'); /* what is listed is one moment */
  return true;
}

static bool stop_at_once(void *ctx, pd_bytes key, pd_bytes value)
{
  (void)key;
  (void)value;
  ++*(int *)ctx;
  return false;
}

static void statestore__a_visitor_may_use_the_store_and_stop(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    int count = 0;
    desk_set(&d, "a", "1");
    desk_set(&d, "b", "1");
    assert_int_equal(pd_statestore_list(d.s, pd_text(""), set_while_listed, &d, &d.err), PD_OK);
    assert_value(&d, "a", "9");
    assert_int_equal(pd_statestore_list(d.s, pd_text(""), stop_at_once, &count, &d.err), PD_OK);
    assert_int_equal(count, 1);
  }
}

static void statestore__clear_takes_what_begins_with_a_prefix(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    uint64_t count = 0;
    desk_set(&d, "a:1", "1");
    desk_set(&d, "b:1", "1");
    desk_flush(&d);
    desk_set(&d, "a:2", "1");
    assert_int_equal(pd_statestore_clear(d.s, pd_text("a:"), &count, &d.err), PD_OK);
    assert_int_equal(count, 2);
    assert_keys(&d, "", "b:1 ");
    if (type != PD_STATESTORE_MEMORY) desk_restart(&d);
    assert_keys(&d, "", "b:1 ");
    assert_int_equal(pd_statestore_clear(d.s, pd_text(""), NULL, &d.err), PD_OK);
    if (type != PD_STATESTORE_MEMORY) desk_restart(&d);
    assert_keys(&d, "", "");
  }
}

static void statestore__apply_is_all_or_nothing(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    desk_set(&d, "old", "1");
    desk_flush(&d);
    pd_statestore_change changes[] = {{pd_text("old"), {NULL, 0}}, {pd_text("run:1"), pd_text("{}")}, {pd_text("run:index"), pd_text("[")}};
    assert_int_equal(pd_statestore_apply(d.s, changes, 3, &d.err), PD_INVALID);
    assert_keys(&d, "", "old ");
    changes[2].value = pd_text("[ \"1\" ]");
    assert_int_equal(pd_statestore_apply(d.s, changes, 3, &d.err), PD_OK);
    if (type != PD_STATESTORE_MEMORY) desk_restart(&d);
    assert_keys(&d, "", "run:1 run:index ");
    assert_value(&d, "run:index", "[\"1\"]");
  }
}

static void statestore__stats_count(void **state)
{
  (void)state;
  desk d;
  pd_statestore_stats stats;
  EACH_TYPE(&d)
  {
    bool is_kept = type != PD_STATESTORE_MEMORY;
    desk_set(&d, "abc", "12345");
    desk_set(&d, "d", "1");
    desk_set(&d, "d", "22");
    pd_statestore_stats_get(d.s, &stats);
    assert_int_equal(stats.type, type);
    assert_false(stats.is_fallback || stats.is_closed);
    assert_int_equal(stats.keys, 2);
    assert_int_equal(stats.bytes, 3 + 5 + 1 + 2);
    assert_int_equal(stats.pending, is_kept ? 3 : 0);
    assert_int_equal(stats.last_flush_ms, 0);
    desk_flush(&d);
    pd_statestore_stats_get(d.s, &stats);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.flushes, is_kept);
    assert_int_equal(stats.last_flush_ms, is_kept ? d.now_ms : 0);
    desk_flush(&d); /* nothing is pending: nothing is written */
    pd_statestore_stats_get(d.s, &stats);
    assert_int_equal(stats.flushes, is_kept);
  }
}

static void statestore__close_flushes_and_twice_is_safe(void **state)
{
  (void)state;
  desk d;
  EACH_TYPE(&d)
  {
    pd_statestore_stats stats;
    desk_set(&d, "a", "1");
    assert_int_equal(pd_statestore_close(d.s, &d.err), PD_OK);
    assert_int_equal(pd_statestore_close(d.s, &d.err), PD_OK);
    pd_statestore_stats_get(d.s, &stats);
    assert_true(stats.is_closed);
    assert_int_equal(pd_statestore_set(d.s, pd_text("b"), pd_text("1"), &d.err), PD_INVALID);
    assert_string_equal(pd_error_name(&d.err), "StateStoreClosed");
    assert_int_equal(pd_statestore_get(d.s, pd_text("a"), &d.value, &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_delete(d.s, pd_text("a"), NULL, &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_clear(d.s, pd_text(""), NULL, &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_flush(d.s, &d.err), PD_INVALID);
    assert_int_equal(pd_statestore_get_at(d.s, NULL, pd_text("a"), &d.value, &d.err), PD_INVALID);
    assert_false(pd_statestore_has(d.s, pd_text("a")));
    pd_statestore_free(d.s);
    desk_start(&d);
    assert_value(&d, "a", type == PD_STATESTORE_MEMORY ? NULL : "1");
  }
  assert_int_equal(pd_statestore_close(NULL, NULL), PD_OK);
  pd_statestore_free(NULL);
}

static void statestore__the_thread_flushes_once_for_many_changes(void **state)
{
  (void)state;
  desk d;
  for (int type = PD_STATESTORE_FILE; type < PD_STATESTORE_TYPE_COUNT; type++) {
    pd_statestore_stats stats;
    desk_init(&d, (pd_statestore_type)type);
    d.options.flush_interval_ms = 500;
    desk_start(&d);
    for (int i = 0; i < 100; i++) desk_set(&d, i % 2 ? "a" : "b", "[1,2,3]");
    wait_for(&d, 1, 0);
    pd_statestore_stats_get(d.s, &stats);
    assert_int_equal(stats.flushes, 1);
    assert_int_equal(stats.pending, 0);
    desk_delete(&d, "a"); /* and it starts to count again */
    wait_for(&d, 2, 0);
    desk_done(&d);
  }
}

typedef struct writer {
  pd_statestore *s;
  int number;
} writer;

static void *write_many(void *ctx)
{
  writer *w = ctx;
  char key[32], value[32];
  for (int i = 0; i < 300; i++) {
    snprintf(key, sizeof key, "w%d.%d", w->number, i % 50);
    snprintf(value, sizeof value, "%d", i);
    bool is_delete = i % 7 == 3;
    pd_code code =
      is_delete ? pd_statestore_delete(w->s, pd_text(key), NULL, NULL) : pd_statestore_set(w->s, pd_text(key), pd_text(value), NULL);
    if (code || (i % 40 == 0 && pd_statestore_flush(w->s, NULL))) return w;
  }
  return NULL;
}

/* Flushes meet flushes, and changes come while one is under way. What is on disk in the end is what was in memory. */
static void statestore__threads_and_flushes_lose_nothing(void **state)
{
  (void)state;
  desk d;
  for (int type = PD_STATESTORE_FILE; type < PD_STATESTORE_TYPE_COUNT; type++) {
    pthread_t threads[4];
    writer writers[4];
    pd_buf before = {0}, after = {0};
    void *failed = NULL;
    desk_init(&d, (pd_statestore_type)type);
    d.options.flush_interval_ms = 1;
    desk_start(&d);
    for (int i = 0; i < 4; i++) {
      writers[i] = (writer){d.s, i};
      assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
      pthread_join(threads[i], &failed);
      assert_null(failed);
    }
    for (int i = 0; i < 4; i++) {
      char key[32], value[32];
      for (int k = 0; k < 50; k++) {
        snprintf(key, sizeof key, "w%d.%d", i, k);
        snprintf(value, sizeof value, "%d", 250 + k);
        assert_value(&d, key, (250 + k) % 7 == 3 ? NULL : value);
      }
    }
    assert_int_equal(pd_statestore_list(d.s, pd_text(""), desk_add_key, &before, &d.err), PD_OK);
    desk_restart(&d);
    assert_int_equal(pd_statestore_list(d.s, pd_text(""), desk_add_key, &after, &d.err), PD_OK);
    if (type != PD_STATESTORE_PERDURE)
      assert_true(pd_bytes_equal(pd_buf_bytes(&before), pd_buf_bytes(&after)));
    else
      assert_int_equal(before.size, after.size);
    assert_value(&d, "w3.49", "299");
    assert_int_equal(d.warning_count, 0);
    pd_buf_done(&before);
    pd_buf_done(&after);
    desk_done(&d);
  }
}

static void statestore__interval_0_is_durable_before_return(void **state)
{
  (void)state;
  desk d;
  for (int type = PD_STATESTORE_FILE; type < PD_STATESTORE_TYPE_COUNT; type++) {
    pd_statestore_stats stats;
    desk_init(&d, (pd_statestore_type)type);
    d.options.flush_interval_ms = 0;
    desk_start(&d);
    desk_set(&d, "a", "1");
    desk_set(&d, "b", "1");
    desk_delete(&d, "a");
    pd_statestore_stats_get(d.s, &stats);
    assert_int_equal(stats.flushes, 3);
    assert_int_equal(stats.pending, 0);
    if (type == PD_STATESTORE_FILE) assert_file(d.path, "{\"version\":1,\"entries\":[[\"b\",1]]}");
    if (type == PD_STATESTORE_PERDURE) {
      assert_int_equal(pd_statestore_get_at(d.s, NULL, pd_text("b"), &d.value, &d.err), PD_OK);
      assert_text(&d.value, "1");
    }
    desk_done(&d);
  }
}

static void statestore__many_keys_come_and_go(void **state)
{
  (void)state;
  desk d;
  char key[32], value[32];
  EACH_TYPE(&d)
  {
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key.%d", i);
        snprintf(value, sizeof value, "%d", i * (round + 1));
        desk_set(&d, key, value);
      }
      for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key.%d", i);
        if (i % 5) desk_delete(&d, key);
      }
      if (type != PD_STATESTORE_MEMORY) desk_restart(&d);
    }
    for (int i = 0; i < 5000; i++) {
      snprintf(key, sizeof key, "key.%d", i);
      snprintf(value, sizeof value, "%d", i * 3);
      assert_value(&d, key, i % 5 ? NULL : value);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(statestore__defaults_are_those_of_the_table),
    cmocka_unit_test(statestore__what_is_not_enabled_is_in_memory),
    cmocka_unit_test(statestore__set_get_has_and_delete),
    cmocka_unit_test(statestore__get_gives_a_copy),
    cmocka_unit_test(statestore__values_are_kept_without_blanks_between_tokens),
    cmocka_unit_test(statestore__bad_keys_and_values_are_refused_and_change_nothing),
    cmocka_unit_test(statestore__lists_in_the_order_of_the_first_set),
    cmocka_unit_test(statestore__order_holds_over_deletes_that_reach_the_disk),
    cmocka_unit_test(statestore__a_visitor_may_use_the_store_and_stop),
    cmocka_unit_test(statestore__clear_takes_what_begins_with_a_prefix),
    cmocka_unit_test(statestore__apply_is_all_or_nothing),
    cmocka_unit_test(statestore__stats_count),
    cmocka_unit_test(statestore__close_flushes_and_twice_is_safe),
    cmocka_unit_test(statestore__the_thread_flushes_once_for_many_changes),
    cmocka_unit_test(statestore__threads_and_flushes_lose_nothing),
    cmocka_unit_test(statestore__interval_0_is_durable_before_return),
    cmocka_unit_test(statestore__many_keys_come_and_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
