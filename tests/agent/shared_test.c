/* shared_test.c FLAKY OLD: several processes of one life, one epoch: what each saves stays. Snapshots and storages that went back. */
#include "agent/world.h"
#include "base/base.h"
#include "base/file.h"
#include "storage/folder_storage.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>

static const char *old_so;

/* Another handle of the same life, as another process would have it. */
static pd_agent *join(const char *uri, const pd_agent *agent)
{
  return agent_open_with(uri, agent_info(agent).id, (pd_agent_options){.epoch = agent_info(agent).epoch});
}

static pd_effect_state intend(pd_agent *agent, const char *id)
{
  pd_effect_state state = 0;
  OK(pd_agent_effect_intend(agent, id, pd_text(""), &state, &err));
  return state;
}

static void commit(pd_agent *agent, const char *reply)
{
  OK(pd_agent_step_reply_text(agent, reply, &err));
  OK(pd_agent_step_commit(agent, &err));
}

static void expect_event(const pd_agent *agent, const char *id)
{
  assert_string_equal(pd_agent_step_event_id(agent), id);
}

/* ---- T1 ------------------------------------------------------------------------------------------------------------ */

static void life__what_another_process_pushes_and_intends_stays(void **state)
{
  pd_agent *worker = agent_open(*state, "x"), *other;
  push(worker, "{\"id\":\"e1\"}");
  assert_int_equal(begin(worker, NULL), PD_STEP_NEW);
  other = join(*state, worker);
  assert_int_equal(push(other, "{\"id\":\"order-17\"}"), PD_PUSH_QUEUED);
  assert_int_equal(intend(other, "mail-1"), PD_EFFECT_INTENDED);
  count_step(worker);
  expect_reply(worker, "\"counted 1\"");
  assert_int_equal(begin(worker, NULL), PD_STEP_NEW);
  expect_event(worker, "order-17");
  assert_int_equal(intend(worker, "mail-1"), PD_EFFECT_UNKNOWN); /* it may have happened */
  OK(pd_agent_effect_done(other, "mail-1", pd_text("1"), &err));
  count_step(worker);
  pd_agent_close(other);
  pd_agent_close(worker);
  worker = agent_open(*state, "x");
  pd_effect effect;
  OK(pd_agent_effect_get(worker, "mail-1", &effect, &err));
  assert_int_equal(effect.state, PD_EFFECT_DONE);
  assert_int_equal(agent_info(worker).tick_index, 2);
  expect_variable(worker, "count", "2");
  pd_agent_close(worker);
}

static void life__a_worker_without_work_sees_what_comes(void **state)
{
  pd_agent *worker = agent_open(*state, "x"), *other = join(*state, worker);
  assert_int_equal(begin(worker, NULL), PD_STEP_NONE);
  push(other, "{\"id\":\"1\"}");
  assert_int_equal(begin(worker, NULL), PD_STEP_NEW);
  expect_event(worker, "1");
  commit(worker, "one");
  assert_int_equal(begin(other, NULL), PD_STEP_NONE);
  assert_int_equal(push(other, "{\"id\":\"1\"}"), PD_PUSH_SEEN);
  pd_agent_close(other);
  pd_agent_close(worker);
}

static void life__two_that_work_on_one_event_have_one_reply(void **state)
{
  pd_agent *a = agent_open(*state, "x"), *b = join(*state, a);
  push(a, "{\"id\":\"1\"}");
  push(a, "{\"id\":\"2\"}");
  assert_int_equal(begin(a, NULL), PD_STEP_NEW);
  assert_int_equal(begin(b, NULL), PD_STEP_NEW);
  expect_event(b, "1");
  assert_int_equal(intend(a, "mail"), PD_EFFECT_INTENDED);
  assert_int_equal(intend(b, "mail"), PD_EFFECT_UNKNOWN);
  OK(pd_agent_step_set_number(a, "by", 1, &err));
  OK(pd_agent_step_set_number(b, "by", 2, &err));
  commit(b, "of b");
  commit(a, "of a");
  expect_reply(a, "\"of b\"");
  expect_reply(b, "\"of b\"");
  expect_variable(a, "by", "2");
  assert_int_equal(agent_info(a).tick_index, 1);
  assert_int_equal(agent_info(a).event_count, 1);
  pd_agent_close(a);
  pd_agent_close(b);
}

/* Laid over what is there now, unless it was made of what is there no more. */
static void life__a_step_is_laid_over_others_or_begins_again(void **state)
{
  pd_agent *a = agent_open(*state, "x"), *b = join(*state, a);
  assert_int_equal(begin(a, "{\"id\":\"a\"}"), PD_STEP_NEW);
  assert_int_equal(begin(b, "{\"id\":\"b\"}"), PD_STEP_NEW);
  OK(pd_agent_step_say(b, "user", "from b", &err));
  commit(b, "b");
  count_step(a); /* b changed no variable */
  assert_int_equal(agent_info(a).history_count, 2);
  assert_int_equal(begin(b, "{\"id\":\"c\"}"), PD_STEP_NEW);
  OK(pd_agent_step_set_number(b, "count", pd_agent_number(b, "count", 0) + 1, &err));
  assert_int_equal(begin(a, "{\"id\":\"d\"}"), PD_STEP_NEW);
  count_step(a);
  REFUSED(PD_CONFLICT, "abort it and begin again", pd_agent_step_commit(b, &err));
  REFUSED(PD_CONFLICT, "abort it and begin again", pd_agent_step_commit(b, &err));
  pd_agent_step_abort(b);
  assert_int_equal(begin(b, "{\"id\":\"c\"}"), PD_STEP_NEW);
  count_step(b);
  expect_variable(b, "count", "3");
  assert_int_equal(agent_info(b).tick_index, 4);
  pd_agent_close(a);
  pd_agent_close(b);
}

static void life__an_event_that_another_finished_and_forgot_is_not_done_again(void **state)
{
  pd_agent *a = agent_open_with(*state, "x", (pd_agent_options){.reply_count_max = 1}), *b = join(*state, a);
  push(a, "{\"id\":\"1\"}");
  push(a, "{\"id\":\"2\"}");
  assert_int_equal(begin(a, NULL), PD_STEP_NEW);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(begin(b, NULL), PD_STEP_NEW);
    commit(b, "b");
  }
  OK(pd_agent_step_reply_text(a, "a", &err));
  REFUSED(PD_CONFLICT, "was finished by another process", pd_agent_step_commit(a, &err));
  pd_agent_step_abort(a);
  assert_int_equal(begin(a, NULL), PD_STEP_NONE);
  assert_int_equal(agent_info(a).tick_index, 2);
  pd_agent_close(a);
  pd_agent_close(b);
}

/* A reply of one that died is not taken for sent because another worked on. */
static void life__a_reply_of_one_process_is_not_dropped_by_another(void **state)
{
  pd_agent *a = agent_open(*state, "x"), *b = join(*state, a);
  assert_int_equal(begin(a, "{\"id\":\"1\"}"), PD_STEP_NEW);
  commit(a, "one");
  pd_agent_close(a); /* before it was sent */
  for (int i = 2; i < 4; i++) {
    char *event = text_of("{\"id\":\"%d\"}", i);
    assert_int_equal(begin(b, event), PD_STEP_NEW);
    commit(b, event);
    free(event);
  }
  pd_agent_close(b);
  a = agent_open(*state, "x");
  assert_int_equal(begin(a, NULL), PD_STEP_SEEN);
  expect_reply(a, "\"one\"");
  assert_int_equal(begin(a, NULL), PD_STEP_SEEN); /* the last one of b */
  assert_int_equal(begin(a, NULL), PD_STEP_NONE);
  pd_agent_close(a);
}

static void life__a_plugin_of_the_first_version_still_works(void **state)
{
  (void)state;
  setenv("FLAKY", "", 1);
  char *uri = text_of("plugin:%s", old_so);
  pd_storage *storage = storage_open(uri);
  pd_agent *agent = NULL;
  for (int life = 1; life < 3; life++) {
    OK(pd_agent_open_in(storage, "x", NULL, &agent, &err));
    push(agent, life == 1 ? "{\"id\":\"1\"}" : "{\"id\":\"2\"}");
    while (begin(agent, NULL) == PD_STEP_SEEN) continue;
    setenv("FLAKY", "lost", 1);
    OK(pd_agent_step_reply_text(agent, "r", &err));
    REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
    setenv("FLAKY", "", 1);
    OK(pd_agent_step_commit(agent, &err));
    assert_int_equal(agent_info(agent).tick_index, life);
    assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
    pd_agent_close(agent);
  }
  pd_storage_close(storage);
  free(uri);
}

/* ---- T6 ------------------------------------------------------------------------------------------------------------ */

static void events__made_up_ids_never_collide(void **state)
{
  pd_agent *a = agent_open(*state, "x"), *b = join(*state, a);
  assert_int_equal(begin(a, "{\"id\":\"1\"}"), PD_STEP_NEW);
  OK(pd_agent_step_push(a, pd_text("{\"what\":\"follow-up\"}"), &err));
  OK(pd_agent_step_push(a, pd_text("{\"what\":\"follow-up\"}"), &err));
  char *staged = text_of("%s", pd_agent_pushed_id(a));
  assert_int_equal(push(a, "{\"what\":\"order from outside\"}"), PD_PUSH_QUEUED);
  assert_string_not_equal(pd_agent_pushed_id(a), staged);
  assert_int_equal(push(b, "{\"what\":\"order from outside\"}"), PD_PUSH_QUEUED);
  assert_string_not_equal(pd_agent_pushed_id(a), pd_agent_pushed_id(b));
  commit(a, "one");
  assert_int_equal(agent_info(a).event_count, 4);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(begin(a, NULL), PD_STEP_NEW);
    commit(a, "next");
  }
  assert_int_equal(begin(a, NULL), PD_STEP_NONE);
  assert_int_equal(agent_info(a).tick_index, 5);
  free(staged);
  pd_agent_close(a);
  pd_agent_close(b);
}

/* The push has to be saved: the step may be given up. */
static void events__one_that_is_staged_and_pushed_waits_once(void **state)
{
  pd_agent *a = agent_open(*state, "x");
  for (int i = 0; i < 2; i++) {
    char *event = text_of("{\"id\":\"%d\"}", i);
    assert_int_equal(begin(a, event), PD_STEP_NEW);
    OK(pd_agent_step_push(a, pd_text("{\"id\":\"f\",\"n\":1}"), &err));
    assert_int_equal(push(a, "{\"id\":\"f\",\"n\":2}"), i ? PD_PUSH_WAITING : PD_PUSH_QUEUED);
    if (i)
      commit(a, "x");
    else
      pd_agent_step_abort(a);
    assert_int_equal(agent_info(a).event_count, 1);
    free(event);
  }
  pd_agent_close(a);
}

/* ---- S2 ------------------------------------------------------------------------------------------------------------ */

static const char literal[] =
  "{\"agent_id\":\"x\",\"tick_index\":42,\"timestamp\":1706582400000,\"status\":\"WAITING_FOR_EVENT\",\"memory\":{\"short_term_history\":"
  "[{\"role\":\"user\",\"content\":\"...\"},{\"role\":\"assistant\",\"content\":\"...\"}],\"working_variables\":{\"current_file_path\":"
  "\"/tmp/report.txt\",\"retry_count\":0}},\"event_queue_backup\":[{\"source\":\"mcp\",\"type\":\"task\",\"payload\":\"pay 17\"},"
  "{\"source\":\"mcp\",\"type\":\"task\",\"payload\":\"pay 17\"},{\"id\":\"\",\"payload\":\"pay 18\"}]}";

/* A process a call, as a shell has it: `next` in one, `commit --event ID` in another. */
static void literal__events_without_ids_are_processed_once(void **state)
{
  pd_storage *storage = storage_open(*state);
  storage_save(storage, "x", literal);
  pd_storage_close(storage);
  pd_agent *life = agent_open(*state, "x");
  for (int i = 0; i < 3; i++) {
    pd_agent *looks = join(*state, life), *commits;
    assert_int_equal(begin(looks, NULL), PD_STEP_NEW);
    char *event = text_of("{\"id\":\"%s\"}", pd_agent_step_event_id(looks));
    pd_agent_close(looks);
    looks = join(*state, life);
    assert_int_equal(begin(looks, NULL), PD_STEP_NEW); /* the same one */
    assert_non_null(strstr(event, pd_agent_step_event_id(looks)));
    pd_agent_close(looks);
    commits = join(*state, life);
    assert_int_equal(begin(commits, event), PD_STEP_NEW);
    commit(commits, "paid");
    assert_int_equal(agent_info(commits).event_count, 2 - i);
    assert_int_equal(begin(commits, event), PD_STEP_SEEN);
    pd_agent_close(commits);
    free(event);
  }
  assert_int_equal(begin(life, NULL), PD_STEP_NONE);
  assert_int_equal(agent_info(life).tick_index, 45);
  pd_agent_close(life);
}

/* ---- T3 ------------------------------------------------------------------------------------------------------------ */

/* A folder is put back to what it was; whoever was fenced stays so. */
static void back__epochs_are_not_given_out_again(void **state)
{
  char folder[512];
  snprintf(folder, sizeof folder, "%s", strchr(*state, '/'));
  if (strncmp(*state, "file:", 5) != 0) *strrchr(folder, '/') = '\0';
  char *keep = text_of("rm -rf %s.kept && cp -a %s %s.kept", folder, folder, folder),
       *bring_back = text_of("rm -rf %s && mv %s.kept %s", folder, folder, folder);
  pd_agent *first = agent_open(*state, "x");
  push(first, "{\"id\":\"e1\"}");
  pd_agent_close(first);
  assert_int_equal(system(keep), 0);
  pd_agent *second = agent_open(*state, "x");
  uint64_t epoch = agent_info(second).epoch;
  begin(second, NULL);
  count_step(second);
  pd_agent_close(second);
  assert_int_equal(system(bring_back), 0);
  pd_agent *third = agent_open(*state, "x");
  assert_true(agent_info(third).epoch > epoch);
  pd_agent_options again = {.epoch = epoch};
  second = NULL;
  REFUSED(PD_CONFLICT, "is held by epoch", pd_agent_open(*state, "x", &again, &second, &err));
  assert_int_equal(begin(third, NULL), PD_STEP_NEW);
  count_step(third);
  pd_agent_close(third);
  free(keep);
  free(bring_back);
}

/* The operator undoes what the newer life did: the older one is not back by that. */
static void back__an_undo_brings_no_fenced_life_back(void **state)
{
  const char *uri = (const char *)*state + strlen("perdure:");
  pd_agent *older = agent_open(*state, "x"), *newer;
  push(older, "{\"id\":\"1\"}");
  newer = agent_open(*state, "x");
  push(newer, "{\"id\":\"2\"}");
  pd_store *store = NULL;
  OK(pd_store_open(uri, "x", NULL, &store, &err));
  pd_note note = {.ref = PD_SNAPSHOT_REF};
  OK(pd_reset(store, PD_SNAPSHOT_REF, PD_SNAPSHOT_REF "~2", &note, NULL, &err)); /* its push and its claim */
  pd_store_close(store, NULL);
  pd_push what;
  REFUSED(PD_CONFLICT, "may not save it any more", pd_agent_event_push(older, pd_text("{\"id\":\"3\"}"), &what, &err));
  REFUSED(PD_CONFLICT, "", pd_agent_event_push(newer, pd_text("{\"id\":\"4\"}"), &what, &err)); /* it has to look again */
  pd_agent_close(newer);
  newer = agent_open(*state, "x");
  assert_int_equal(agent_info(newer).event_count, 1);
  push(newer, "{\"id\":\"5\"}");
  REFUSED(PD_CONFLICT, "may not save it any more", pd_agent_event_push(older, pd_text("{\"id\":\"6\"}"), &what, &err));
  pd_agent_close(older);
  pd_agent_close(newer);
}

int main(int argc, char **argv)
{
  static const struct CMUnitTest tests[] = {
    IN_ALL(life__what_another_process_pushes_and_intends_stays),
    IN_ALL(life__a_worker_without_work_sees_what_comes),
    IN_ALL(life__two_that_work_on_one_event_have_one_reply),
    IN_ALL(life__a_step_is_laid_over_others_or_begins_again),
    IN_ALL(life__an_event_that_another_finished_and_forgot_is_not_done_again),
    IN_ALL(life__a_reply_of_one_process_is_not_dropped_by_another),
    cmocka_unit_test(life__a_plugin_of_the_first_version_still_works),
    IN_ALL(events__made_up_ids_never_collide),
    IN_ALL(events__one_that_is_staged_and_pushed_waits_once),
    IN_ALL(literal__events_without_ids_are_processed_once),
    IN_ALL(back__epochs_are_not_given_out_again),
    {"back__an_undo_brings_no_fenced_life_back", back__an_undo_brings_no_fenced_life_back, perdure_set_up, perdure_tear_down, NULL},
  };
  if (argc != 3) return 2;
  old_so = argv[2];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
