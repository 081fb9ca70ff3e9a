/* effect_test.c: the ledger of effects. */
#include "agent/world.h"
#include "base/base.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>

static pd_effect_state intend(pd_agent *agent, const char *id)
{
  pd_effect_state state = 0;
  OK(pd_agent_effect_intend(agent, id, pd_text("{\"to\": \"anna\"}"), &state, &err));
  return state;
}

static void expect_effect(pd_agent *agent, const char *id, pd_effect_state state, const char *event, const char *result)
{
  pd_effect e;
  OK(pd_agent_effect_get(agent, id, &e, &err));
  assert_string_equal(e.id, id);
  assert_int_equal(e.state, state);
  assert_string_equal(e.event_id, event);
  assert_int_equal(e.what.size, 13);
  assert_memory_equal(e.what.data, "{\"to\":\"anna\"}", 13);
  assert_int_equal(e.result.size, strlen(result));
  if (e.result.size) assert_memory_equal(e.result.data, result, e.result.size);
}

static void effect__is_written_down_before_it_happens(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  push(agent, "{\"id\":\"7\"}");
  begin(agent, NULL);
  OK(pd_agent_step_set_number(agent, "count", 3, &err));
  assert_int_equal(intend(agent, "mail-7"), PD_EFFECT_INTENDED);
  expect_effect(agent, "mail-7", PD_EFFECT_INTENDED, "7", "");
  pd_agent_close(agent); /* killed before, or after, it was sent */
  agent = agent_open(*state, "x");
  assert_int_equal(agent_info(agent).unknown_count, 1);
  expect_effect(agent, "mail-7", PD_EFFECT_UNKNOWN, "7", "");
  expect_variable(agent, "count", NULL); /* what was staged is not saved by that */
  begin(agent, NULL);
  assert_string_equal(pd_agent_step_event_id(agent), "7");
  assert_int_equal(intend(agent, "mail-7"), PD_EFFECT_UNKNOWN);
  pd_agent_close(agent);
}

static void effect__that_is_done_is_not_done_again(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  push(agent, "{\"id\":\"7\"}");
  begin(agent, NULL);
  intend(agent, "mail-7");
  OK(pd_agent_effect_done(agent, "mail-7", pd_text(" [1] "), &err));
  pd_agent_close(agent); /* before the commit */
  agent = agent_open(*state, "x");
  assert_int_equal(agent_info(agent).unknown_count, 0);
  begin(agent, NULL);
  assert_int_equal(intend(agent, "mail-7"), PD_EFFECT_DONE);
  expect_effect(agent, "mail-7", PD_EFFECT_DONE, "7", "[1]");
  OK(pd_agent_effect_done(agent, "mail-7", pd_text("2"), &err)); /* changes nothing */
  expect_effect(agent, "mail-7", PD_EFFECT_DONE, "7", "[1]");
  REFUSED(PD_INVALID, "is done", pd_agent_effect_retract(agent, "mail-7", &err));
  count_step(agent);
  assert_int_equal(intend(agent, "mail-7"), PD_EFFECT_DONE);
  pd_agent_close(agent);
}

static void effect__that_did_not_happen_is_taken_back(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  assert_int_equal(intend(agent, "a"), PD_EFFECT_INTENDED);
  assert_int_equal(intend(agent, "a"), PD_EFFECT_UNKNOWN); /* an earlier call may have done it */
  expect_effect(agent, "a", PD_EFFECT_INTENDED, "", "");
  OK(pd_agent_effect_retract(agent, "a", &err));
  REFUSED(PD_NOT_FOUND, "intended no effect 'a'", pd_agent_effect_retract(agent, "a", &err));
  REFUSED(PD_NOT_FOUND, "intended no effect 'a'", pd_agent_effect_done(agent, "a", pd_text("1"), &err));
  assert_int_equal(intend(agent, "a"), PD_EFFECT_INTENDED);
  OK(pd_agent_effect_done(agent, "a", pd_text(""), &err));
  expect_effect(agent, "a", PD_EFFECT_DONE, "", "null");
  pd_agent_close(agent);
}

static void effect__ids_and_notes_are_checked(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  pd_effect_state got = 77;
  char longest[PD_AGENT_ID_MAX + 2] = {0};
  memset(longest, 'i', PD_AGENT_ID_MAX + 1);
  REFUSED(PD_INVALID, "has to be 1 to 256", pd_agent_effect_intend(agent, "", pd_text(""), &got, &err));
  REFUSED(PD_INVALID, "has to be 1 to 256", pd_agent_effect_intend(agent, longest, pd_text(""), &got, &err));
  REFUSED(PD_INVALID, "has to be 1 to 256", pd_agent_effect_intend(agent, "\xff", pd_text(""), &got, &err));
  REFUSED(PD_INVALID, "no sound JSON", pd_agent_effect_intend(agent, "a", pd_text("{"), &got, &err));
  assert_int_equal(got, 77);
  longest[PD_AGENT_ID_MAX] = '\0';
  assert_int_equal(intend(agent, longest), PD_EFFECT_INTENDED);
  REFUSED(PD_INVALID, "no sound JSON", pd_agent_effect_done(agent, longest, pd_text("{"), &err));
  pd_agent_close(agent);
}

static void count_effects(void *ctx, const pd_effect *effect)
{
  size_t *counts = ctx;
  counts[effect->state]++;
}

/* What is over leaves, oldest first; what is open never does. */
static void effect__only_so_many_of_the_past_are_kept(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  size_t counts[4] = {0}, most = 0;
  intend(agent, "open");
  begin(agent, "{\"id\":\"1\"}");
  intend(agent, "of-1");
  OK(pd_agent_effect_done(agent, "of-1", pd_text("1"), &err)); /* its step is never finished */
  pd_agent_step_abort(agent);
  for (int i = 0; i < 600; i++) {
    char *id = text_of("done-%d", i);
    pd_effect_state got;
    OK(pd_agent_effect_intend(agent, id, pd_text(""), &got, &err));
    OK(pd_agent_effect_done(agent, id, pd_text(""), &err));
    memset(counts, 0, sizeof counts);
    OK(pd_agent_effects(agent, count_effects, counts, &err));
    if (counts[PD_EFFECT_DONE] > most) most = counts[PD_EFFECT_DONE];
    free(id);
  }
  assert_true(most <= 2 * PD_AGENT_EFFECTS_KEPT + 2);
  assert_true(counts[PD_EFFECT_DONE] >= PD_AGENT_EFFECTS_KEPT);
  assert_int_equal(counts[PD_EFFECT_INTENDED], 1);
  expect_effect(agent, "open", PD_EFFECT_INTENDED, "", "");
  expect_effect(agent, "of-1", PD_EFFECT_DONE, "1", "1");
  pd_effect e;
  REFUSED(PD_NOT_FOUND, "done-0", pd_agent_effect_get(agent, "done-0", &e, &err));
  OK(pd_agent_effect_get(agent, "done-599", &e, &err));
  pd_agent_close(agent);
}

static void effect__too_many_open_ones_are_refused(void **state)
{
  /* as somebody else's snapshot, since a thousand saves take their time */
  char *list = text_of("%s", "");
  size_t size = 0;
  list = realloc(list, 200000);
  for (int i = 0; i < PD_AGENT_EFFECTS_OPEN_MAX; i++)
    size +=
      (size_t)sprintf(list + size, "%s{\"id\":\"e%d\",\"event\":\"\",\"state\":\"intended\",\"epoch\":1,\"what\":null}", i ? "," : "", i);
  char *document = text_of("{\"agent_id\":\"x\",\"tick_index\":1,\"timestamp\":1,\"status\":\"s\",\"memory\":{\"short_term_history\":[],"
                           "\"working_variables\":{}},\"event_queue_backup\":[],\"perdure\":{\"version\":1,\"epoch\":1,\"save\":1,"
                           "\"reply_count_max\":10,\"reply_bytes_max\":1000,\"unsent\":[],\"effects\":[%s],\"replies\":[]}}",
                           list);
  pd_storage *storage = storage_open(*state);
  pd_agent *agent = NULL;
  pd_effect_state got;
  storage_save(storage, "x", document);
  OK(pd_agent_open_in(storage, "x", NULL, &agent, &err));
  REFUSED(PD_LIMIT, "1000 effects that are not settled", pd_agent_effect_intend(agent, "one-more", pd_text(""), &got, &err));
  OK(pd_agent_effect_done(agent, "e17", pd_text(""), &err));
  OK(pd_agent_effect_intend(agent, "one-more", pd_text(""), &got, &err));
  pd_agent_close(agent);
  pd_storage_close(storage);
  free(document);
  free(list);
}

int main(void)
{
  static const struct CMUnitTest tests[] = {
    IN_ALL(effect__is_written_down_before_it_happens),
    IN_ALL(effect__that_is_done_is_not_done_again),
    IN_ALL(effect__that_did_not_happen_is_taken_back),
    IN_ALL(effect__ids_and_notes_are_checked),
    {"effect__only_so_many_of_the_past_are_kept", effect__only_so_many_of_the_past_are_kept, file_set_up, file_tear_down, NULL},
    IN_ALL(effect__too_many_open_ones_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
