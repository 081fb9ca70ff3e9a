/* effect_test.c: the ledger of effects. */
#include "agent/world.h"
#include "base/base.h"
#include "support/temp_folder.h"

#include <stdio.h>
#include <stdlib.h>

static const char *flaky_so;

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

/* A snapshot with so many effects, since as many saves take their time. */
static pd_agent *open_with_effects(pd_storage *storage, const char *first, const char *state, int count)
{
  char *list = malloc(200000);
  if (!list) abort();
  int size = sprintf(list, "%s", first);
  for (int i = 0; i < count; i++) size += sprintf(list + size, "%s{\"id\":\"e%d\",\"event\":\"\",%s}", size ? "," : "", i, state);
  char *document = text_of("{\"agent_id\":\"x\",\"tick_index\":1,\"timestamp\":1,\"status\":\"s\",\"memory\":{\"short_term_history\":[],"
                           "\"working_variables\":{}},\"event_queue_backup\":[],\"perdure\":{\"version\":1,\"epoch\":1,\"save\":1,"
                           "\"reply_count_max\":10,\"reply_bytes_max\":1000,\"unsent\":[],\"effects\":[%s],\"replies\":[]}}",
                           list);
  pd_agent *agent = NULL;
  storage_save(storage, "x", document);
  OK(pd_agent_open_in(storage, "x", NULL, &agent, &err));
  free(document);
  free(list);
  return agent;
}

#define DONE "\"state\":\"done\",\"epoch\":1,\"what\":{\"to\":\"anna\"},\"result\":1"
#define INTENDED "\"state\":\"intended\",\"epoch\":1,\"what\":{\"to\":\"anna\"}"

/* What is over leaves, oldest first; what is open, or whose step is not finished, never does. */
static void effect__only_so_many_of_the_past_are_kept(void **state)
{
  size_t counts[4] = {0};
  pd_effect e;
  pd_storage *storage = storage_open(*state);
  pd_agent *agent = open_with_effects(storage, "{\"id\":\"open\",\"event\":\"\"," INTENDED "},{\"id\":\"of-1\",\"event\":\"1\"," DONE "}",
                                      DONE, 2 * PD_AGENT_EFFECTS_KEPT);
  push(agent, "{}");
  OK(pd_agent_effects(agent, count_effects, counts, &err));
  assert_int_equal(counts[PD_EFFECT_DONE], PD_AGENT_EFFECTS_KEPT + 1);
  assert_int_equal(counts[PD_EFFECT_UNKNOWN], agent_info(agent).epoch == 1 ? 0 : 1);
  OK(pd_agent_effect_get(agent, "open", &e, &err));
  expect_effect(agent, "of-1", PD_EFFECT_DONE, "1", "1");
  REFUSED(PD_NOT_FOUND, "e255", pd_agent_effect_get(agent, "e255", &e, &err));
  OK(pd_agent_effect_get(agent, "e256", &e, &err));
  for (int i = 0; i < 20; i++) assert_int_equal(intend(agent, "e256"), PD_EFFECT_DONE);
  pd_agent_close(agent);
  pd_storage_close(storage);
}

/* Steps whose replies leave the window long before their effects would, and more steps than effects may be open. */
static void effect__those_of_finished_steps_never_fill_the_ledger(void **state)
{
  static const struct {
    pd_agent_options window;
    int steps;
  } lives[] = {{{.reply_count_max = 3}, PD_AGENT_EFFECTS_OPEN_MAX + 20}, {{.reply_bytes_max = 4000}, 2 * PD_AGENT_EFFECTS_KEPT + 20}};
  char *uri = text_of("plugin:%s", flaky_so), *big = calloc(1, 1000);
  (void)state;
  memset(big, 'r', 999);
  setenv("FLAKY", "", 1);
  pd_storage *storage = storage_open(uri);
  for (size_t w = 0; w < COUNT_OF(lives); w++) {
    char *name = text_of("w%zu", w);
    pd_agent *agent = NULL;
    OK(pd_agent_open_in(storage, name, &lives[w].window, &agent, &err));
    for (int i = 0; i < lives[w].steps; i++) {
      char *event = text_of("{\"id\":\"%d\"}", i), *effect = text_of("mail-%d", i);
      assert_int_equal(begin(agent, event), PD_STEP_NEW);
      assert_int_equal(intend(agent, effect), PD_EFFECT_INTENDED);
      OK(pd_agent_effect_done(agent, effect, pd_text("1"), &err));
      OK(pd_agent_step_reply_text(agent, big, &err));
      OK(pd_agent_step_commit(agent, &err));
      free(event);
      free(effect);
    }
    size_t counts[4] = {0};
    OK(pd_agent_effects(agent, count_effects, counts, &err));
    assert_in_range(counts[PD_EFFECT_DONE], PD_AGENT_EFFECTS_KEPT, 2 * PD_AGENT_EFFECTS_KEPT);
    pd_agent_close(agent);
    free(name);
  }
  pd_storage_close(storage);
  free(uri);
  free(big);
}

/* As perdure wrote them before effects were closed with their step: done, for events whose replies are forgotten. */
static void effect__a_ledger_that_is_full_of_old_ones_is_not_full(void **state)
{
  pd_storage *storage = storage_open(*state);
  char *list = malloc(200000);
  int size = 0;
  for (int i = 0; i < PD_AGENT_EFFECTS_OPEN_MAX; i++)
    size += sprintf(list + size, "%s{\"id\":\"e%d\",\"event\":\"gone-%d\"," DONE "}", i ? "," : "", i, i);
  pd_agent *agent = open_with_effects(storage, list, DONE, 0);
  assert_int_equal(intend(agent, "one-more"), PD_EFFECT_INTENDED);
  size_t counts[4] = {0};
  OK(pd_agent_effects(agent, count_effects, counts, &err));
  assert_int_equal(counts[PD_EFFECT_DONE], PD_AGENT_EFFECTS_KEPT);
  expect_effect(agent, "e999", PD_EFFECT_DONE, "gone-999", "1");
  pd_agent_close(agent);
  pd_storage_close(storage);
  free(list);
}

static void effect__too_many_open_ones_are_refused(void **state)
{
  pd_effect_state got;
  pd_storage *storage = storage_open(*state);
  pd_agent *agent = open_with_effects(storage, "", INTENDED, PD_AGENT_EFFECTS_OPEN_MAX);
  REFUSED(PD_LIMIT, "1000 effects that are not settled", pd_agent_effect_intend(agent, "one-more", pd_text(""), &got, &err));
  OK(pd_agent_effect_done(agent, "e17", pd_text(""), &err));
  OK(pd_agent_effect_intend(agent, "one-more", pd_text(""), &got, &err));
  pd_agent_close(agent);
  pd_storage_close(storage);
}

int main(int argc, char **argv)
{
  static const struct CMUnitTest tests[] = {
    IN_ALL(effect__is_written_down_before_it_happens),
    IN_ALL(effect__that_is_done_is_not_done_again),
    IN_ALL(effect__that_did_not_happen_is_taken_back),
    IN_ALL(effect__ids_and_notes_are_checked),
    IN_ALL(effect__only_so_many_of_the_past_are_kept),
    IN_ALL(effect__too_many_open_ones_are_refused),
    cmocka_unit_test(effect__those_of_finished_steps_never_fill_the_ledger),
    IN_ALL(effect__a_ledger_that_is_full_of_old_ones_is_not_full),
  };
  if (argc != 3) return 2;
  flaky_so = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
