/* operation_test.c: change sets that name an operation: appended once, remembered for a while, the same after a replay and in a fork. */
#include "thread/thread_world.h"

#include <perdure/run.h>

#define ADD "[{\"op\":\"increment\",\"path\":\"/n\",\"by\":1}]"

static pd_thread_ack add(thread_world *w, pd_thread *t, const char *operation)
{
  pd_changeset set = world_set(NULL, ADD);
  pd_thread_ack ack = {0};
  set.operation_id = operation;
  world_need(w, pd_thread_append(t, &set, PD_ANY_VERSION, &ack, &w->err));
  return ack;
}

static void operation__is_appended_once_and_found_by_its_id(void **state)
{
  thread_world w;
  pd_thread_ack found;
  (void)state;
  world_open(&w);
  pd_thread_ack first = add(&w, w.t, "op"), again = add(&w, w.t, "op");
  assert_false(first.is_duplicate);
  assert_true(again.is_duplicate && again.version == first.version && pd_id_equal(&again.commit, &first.commit));
  assert_string_equal(world_state(&w), "{\"n\":1}");
  world_need(&w, pd_thread_operation_get(w.t, "op", NULL, &found, &w.err));
  assert_int_equal(found.version, 1);
  assert_refused(&w, pd_thread_operation_get(w.t, "other", NULL, NULL, &w.err), PD_NOT_FOUND, "OperationNotFound");
  pd_changeset other = world_set(NULL, "[{\"op\":\"increment\",\"path\":\"/n\",\"by\":2}]");
  other.operation_id = "op";
  assert_refused(&w, pd_thread_append(w.t, &other, PD_ANY_VERSION, NULL, &w.err), PD_CONFLICT, "OperationUsed");
  world_need(&w, pd_thread_replay(w.t, NULL, NULL, NULL, &w.err));
  world_close(&w);
}

static void operation__bad_ids_and_marks_are_refused(void **state)
{
  thread_world w;
  char longest[300];
  (void)state;
  world_open(&w);
  memset(longest, 'x', sizeof longest);
  longest[257] = 0;
  const char *const bad[] = {"", longest, "a\nb", "\xff"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_changeset set = world_set(NULL, ADD);
    set.operation_id = bad[i];
    assert_refused(&w, pd_thread_append(w.t, &set, PD_ANY_VERSION, NULL, &w.err), PD_INVALID, "InvalidId");
  }
  pd_changeset set = world_set(NULL, ADD);
  set.operation_mark = "00";
  assert_refused(&w, pd_thread_append(w.t, &set, PD_ANY_VERSION, NULL, &w.err), PD_INVALID, "InvalidChangeSet");
  set.operation_id = "op";
  assert_refused(&w, pd_thread_append(w.t, &set, PD_ANY_VERSION, NULL, &w.err), PD_INVALID, "InvalidChangeSet");
  longest[256] = 0;
  assert_int_equal(add(&w, w.t, longest).version, 1);
  assert_true(add(&w, w.t, longest).is_duplicate);
  world_close(&w);
}

static uint64_t count_keys(thread_world *w, const char *prefix)
{
  pd_iter *iter = NULL;
  pd_entry entry;
  uint64_t count = 0;
  world_need(w, pd_iter_open(w->store, "thread/t", &(pd_scan){.prefix = pd_text(prefix), .keys_only = true}, &iter, &w->err));
  while (!pd_iter_next(iter, &entry, NULL, &w->err)) count++;
  pd_iter_close(iter);
  return count;
}

static void operation__the_newest_are_remembered_and_the_oldest_forgotten(void **state)
{
  thread_world w;
  char id[32];
  (void)state;
  world_open(&w);
  for (int i = 0; i < PD_THREAD_OPERATIONS_KEPT + 200; i++) {
    snprintf(id, sizeof id, "op-%d", i);
    add(&w, w.t, id);
  }
  assert_int_equal(count_keys(&w, "operation/"), PD_THREAD_OPERATIONS_KEPT);
  assert_int_equal(count_keys(&w, "operation-at/"), PD_THREAD_OPERATIONS_KEPT);
  assert_true(add(&w, w.t, "op-200").is_duplicate);
  assert_false(add(&w, w.t, "op-199").is_duplicate);
  world_need(&w, pd_thread_replay(w.t, NULL, NULL, NULL, &w.err));
  world_close(&w);
}

static void operation__a_fork_remembers_what_it_was_forked_with(void **state)
{
  thread_world w;
  pd_thread *f = NULL;
  (void)state;
  world_open(&w);
  add(&w, w.t, "before");
  world_need(&w, pd_thread_fork(w.t, 1, &(pd_thread_options){.id = "f", .time_ms = 7000}, &f, &w.err));
  add(&w, w.t, "after");
  assert_true(add(&w, f, "before").is_duplicate);
  assert_false(add(&w, f, "after").is_duplicate);
  pd_thread_close(f);
  world_close(&w);
}

static void operation__of_a_run_is_committed_once_by_two_handles(void **state)
{
  thread_world w;
  pd_thread *t = NULL;
  pd_run_context *a = NULL, *b = NULL;
  pd_run_ack ack;
  (void)state;
  world_open(&w);
  world_need(&w, pd_thread_open(w.store, "t", &t, &w.err));
  world_need(&w, pd_run_begin(w.t, &(pd_run_options){.run_id = "r"}, &a, &w.err));
  world_need(&w, pd_run_attach(t, NULL, &b, &w.err));
  pd_run_context *const both[] = {a, b};
  for (int i = 0; i < 2; i++) {
    world_need(&w, pd_run_operation(both[i], "op", NULL, &w.err));
    world_need(&w, pd_run_patch(both[i], pd_text(ADD), &w.err));
    world_need(&w, pd_run_checkpoint(both[i], PD_REASON_USER_MESSAGE, &ack, &w.err));
    assert_int_equal(ack.version, 2);
    assert_int_equal(ack.is_duplicate, i == 1);
  }
  world_need(&w, pd_run_patch(b, pd_text(ADD), &w.err)); /* it is where the thread is: its next checkpoint needs no second try */
  world_need(&w, pd_run_checkpoint(b, PD_REASON_USER_MESSAGE, &ack, &w.err));
  assert_true(ack.is_committed && ack.version == 3);
  assert_string_equal(world_state_of(&w, w.t, PD_VERSION_HEAD, "/n"), "2");
  pd_run_close(a);
  pd_run_close(b);
  pd_thread_close(t);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(operation__is_appended_once_and_found_by_its_id),
    cmocka_unit_test(operation__bad_ids_and_marks_are_refused),
    cmocka_unit_test(operation__the_newest_are_remembered_and_the_oldest_forgotten),
    cmocka_unit_test(operation__a_fork_remembers_what_it_was_forked_with),
    cmocka_unit_test(operation__of_a_run_is_committed_once_by_two_handles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
