/* fault_test.c: answers that get lost, agents that are taken over, snapshots that are not the agent's. */
#include "agent/world.h"
#include "base/base.h"
#include "storage/folder_storage.h"
#include "support/temp_folder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *flaky_so;

static char *flaky_uri(void)
{
  return text_of("plugin:%s", flaky_so);
}

static void flaky(const char *what)
{
  setenv("FLAKY", what, 1);
}

/* A name of its own for each test: the plugin's memory stays while it is loaded. */
static pd_agent *open_flaky(const char *id)
{
  static pd_storage *storage;
  pd_agent *agent = NULL;
  if (!storage) {
    char *uri = flaky_uri();
    storage = storage_open(uri);
    free(uri);
  }
  flaky("");
  OK(pd_agent_open_in(storage, id, NULL, &agent, &err));
  return agent;
}

/* ---- A4: a save that was done, and its answer lost ----------------------------------------------------------------- */

static void lost_answer__a_commit_that_was_done_is_not_done_again(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("a");
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_NEW);
  OK(pd_agent_step_set_number(agent, "count", 1, &err));
  OK(pd_agent_step_reply_text(agent, "one", &err));
  flaky("lost");
  REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
  assert_int_equal(pd_agent_reply(agent).size, 0);
  flaky("");
  OK(pd_agent_step_commit(agent, &err));
  assert_string_equal(pd_agent_reply_text(agent), "one");
  assert_int_equal(agent_info(agent).tick_index, 1);
  expect_variable(agent, "count", "1");
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_SEEN);
  pd_agent_close(agent);
}

static void lost_answer__after_an_abort_the_next_begin_finds_out(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("b");
  push(agent, "{\"id\":\"1\"}");
  push(agent, "{\"id\":\"2\"}");
  begin(agent, NULL);
  OK(pd_agent_step_reply_text(agent, "one", &err));
  flaky("lost");
  REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
  pd_agent_step_abort(agent);
  flaky("away");
  pd_step step;
  REFUSED(PD_STORAGE, "away", pd_agent_step_begin(agent, PD_NEXT_EVENT, &step, &err));
  flaky("");
  assert_int_equal(begin(agent, NULL), PD_STEP_SEEN); /* it was done, and nobody was given the reply */
  assert_string_equal(pd_agent_step_event_id(agent), "1");
  assert_string_equal(pd_agent_reply_text(agent), "one");
  assert_int_equal(begin(agent, NULL), PD_STEP_NEW);
  assert_string_equal(pd_agent_step_event_id(agent), "2");
  pd_agent_step_abort(agent);
  assert_int_equal(begin(agent, "{\"id\":\"1\"}"), PD_STEP_SEEN);
  assert_string_equal(pd_agent_reply_text(agent), "one");
  pd_agent_close(agent);
}

/* The reply of a step that nobody was given outlives other steps, and this life. */
static void lost_answer__a_reply_that_nobody_was_given_comes_in_the_next_life(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("b2");
  push(agent, "{\"id\":\"1\"}");
  begin(agent, NULL);
  OK(pd_agent_step_reply_text(agent, "one", &err));
  flaky("lost");
  REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
  pd_agent_step_abort(agent);
  flaky("");
  assert_int_equal(begin(agent, "{\"id\":\"2\"}"), PD_STEP_NEW);
  OK(pd_agent_step_reply_text(agent, "two", &err));
  OK(pd_agent_step_commit(agent, &err));
  assert_int_equal(begin(agent, "{\"id\":\"3\"}"), PD_STEP_NEW);
  OK(pd_agent_step_commit(agent, &err));
  pd_agent_close(agent);
  agent = open_flaky("b2");
  assert_int_equal(begin(agent, NULL), PD_STEP_SEEN);
  assert_string_equal(pd_agent_step_event_id(agent), "1");
  assert_string_equal(pd_agent_reply_text(agent), "one");
  assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
  pd_agent_close(agent);
}

/* Not done when it is looked at, but later. */
static void lost_answer__a_commit_that_arrives_after_its_abort_has_its_reply_given(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("b3");
  push(agent, "{\"id\":\"1\"}");
  begin(agent, NULL);
  OK(pd_agent_step_reply_text(agent, "one", &err));
  flaky("stuck");
  REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
  pd_agent_step_abort(agent);
  flaky("");
  assert_int_equal(begin(agent, "{\"id\":\"2\"}"), PD_STEP_NEW);
  OK(pd_agent_step_reply_text(agent, "two", &err));
  flaky("arrives");
  OK(pd_agent_step_commit(agent, &err)); /* on top of it */
  flaky("");
  assert_string_equal(pd_agent_reply_text(agent), "two");
  assert_int_equal(agent_info(agent).tick_index, 2);
  assert_int_equal(begin(agent, NULL), PD_STEP_SEEN);
  assert_string_equal(pd_agent_reply_text(agent), "one");
  assert_int_equal(begin(agent, NULL), PD_STEP_NONE);
  pd_agent_close(agent);
}

static void late__a_save_that_arrives_after_others_changes_nothing(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("b4");
  for (int i = 1; i <= 4; i++) {
    char *event = text_of("{\"id\":\"%d\"}", i);
    assert_int_equal(begin(agent, event), PD_STEP_NEW);
    OK(pd_agent_step_set_number(agent, "count", i, &err));
    OK(pd_agent_step_reply_text(agent, event, &err));
    if (i == 2) {
      flaky("stuck");
      REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
      flaky("");
    }
    OK(pd_agent_step_commit(agent, &err));
    free(event);
  }
  flaky("arrives");
  push(agent, "{\"id\":\"5\"}"); /* and what was stuck comes first */
  flaky("");
  pd_agent_close(agent);
  agent = open_flaky("b4");
  assert_int_equal(agent_info(agent).tick_index, 4);
  expect_variable(agent, "count", "4");
  assert_int_equal(agent_info(agent).event_count, 1);
  pd_agent_close(agent);
}

static void lost_answer__a_save_that_was_not_done_is_done_once(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("c");
  push(agent, "{\"id\":\"1\"}");
  begin(agent, NULL);
  OK(pd_agent_step_reply_text(agent, "one", &err));
  flaky("late");
  REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
  REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
  flaky("");
  OK(pd_agent_step_commit(agent, &err));
  assert_int_equal(agent_info(agent).tick_index, 1);
  assert_int_equal(agent_info(agent).event_count, 0);
  pd_agent_close(agent);
}

static void lost_answer__events_are_queued_once(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("d");
  pd_push what;
  static const char *const faults[] = {"lost", "late"};
  for (size_t i = 0; i < COUNT_OF(faults); i++) {
    char *event = text_of("{\"id\":\"%zu\"}", i);
    flaky(faults[i]);
    REFUSED(PD_STORAGE, "no answer", pd_agent_event_push(agent, pd_text(event), &what, &err));
    flaky("");
    push(agent, event);
    assert_int_equal(agent_info(agent).event_count, i + 1);
    free(event);
  }
  pd_agent_close(agent);
}

/* Whoever calls again has not done it yet: no need to worry. */
static void lost_answer__an_effect_that_is_intended_again_is_not_unknown(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("e");
  pd_effect_state got = 0;
  static const char *const faults[] = {"lost", "late"};
  for (size_t i = 0; i < COUNT_OF(faults); i++) {
    flaky(faults[i]);
    REFUSED(PD_STORAGE, "no answer", pd_agent_effect_intend(agent, faults[i], pd_text(""), &got, &err));
    flaky("");
    OK(pd_agent_effect_intend(agent, faults[i], pd_text(""), &got, &err));
    assert_int_equal(got, PD_EFFECT_INTENDED);
    OK(pd_agent_effect_intend(agent, faults[i], pd_text(""), &got, &err));
    assert_int_equal(got, PD_EFFECT_UNKNOWN); /* but now it may have been done */
    flaky(faults[i]);
    REFUSED(PD_STORAGE, "no answer", pd_agent_effect_done(agent, faults[i], pd_text("1"), &err));
    flaky("");
    OK(pd_agent_effect_done(agent, faults[i], pd_text("1"), &err));
  }
  pd_agent_close(agent);
}

static void lost_answer__an_effect_whose_save_was_sent_twice_is_not_unknown(void **state)
{
  (void)state;
  pd_effect_state got;
  pd_agent *agent = open_flaky("e2");
  flaky("overtaken");
  OK(pd_agent_effect_intend(agent, "mail", pd_text(""), &got, &err));
  assert_int_equal(got, PD_EFFECT_INTENDED);
  flaky("");
  OK(pd_agent_effect_intend(agent, "mail", pd_text(""), &got, &err));
  assert_int_equal(got, PD_EFFECT_UNKNOWN);
  pd_agent_close(agent);
}

static void lost_answer__what_somebody_else_saved_meanwhile_is_not_overwritten(void **state)
{
  (void)state;
  pd_agent *agent = open_flaky("f");
  char *uri = flaky_uri(), *other = snapshot_new("f", 9, 1);
  pd_storage *storage = storage_open(uri);
  push(agent, "{\"id\":\"1\"}");
  begin(agent, NULL);
  flaky("late");
  REFUSED(PD_STORAGE, "no answer", pd_agent_step_commit(agent, &err));
  flaky("");
  storage_save(storage, "f", other); /* without an epoch */
  REFUSED(PD_CONFLICT, "changed by somebody else", pd_agent_step_commit(agent, &err));
  storage_expect(storage, "f", other);
  pd_agent_close(agent);
  pd_storage_close(storage);
  free(other);
  free(uri);
}

/* ---- two agents with one id ---------------------------------------------------------------------------------------- */

static void fencing__the_newer_takes_over_and_the_older_saves_nothing(void **state)
{
  pd_agent *older = agent_open(*state, "x");
  push(older, "{\"id\":\"1\"}");
  begin(older, NULL);
  OK(pd_agent_step_set_number(older, "count", 100, &err));
  pd_agent *newer = agent_open(*state, "x");
  assert_true(agent_info(newer).epoch > agent_info(older).epoch);
  begin(newer, NULL);
  count_step(newer);
  pd_error err = {0};
  pd_push what;
  pd_effect_state got;
  assert_int_equal(pd_agent_step_commit(older, &err), PD_CONFLICT);
  assert_string_equal(pd_error_name(&err), "AgentFenced");
  assert_int_equal(err.actual, agent_info(newer).epoch);
  assert_int_equal(err.expected, agent_info(older).epoch);
  assert_int_equal(pd_agent_event_push(older, pd_text("{\"id\":\"2\"}"), &what, NULL), PD_CONFLICT);
  assert_int_equal(pd_agent_effect_intend(older, "mail", pd_text(""), &got, NULL), PD_CONFLICT); /* so it does not happen */
  assert_int_equal(pd_agent_reply(older).size, 0);
  expect_variable(newer, "count", "1");
  push(newer, "{\"id\":\"3\"}");
  pd_agent_close(older);
  pd_agent_close(newer);
  newer = agent_open(*state, "x");
  expect_variable(newer, "count", "1");
  assert_int_equal(agent_info(newer).event_count, 1);
  pd_agent_close(newer);
}

static void fencing__a_process_of_the_same_life_acts_under_its_epoch(void **state)
{
  pd_agent *first = agent_open(*state, "x"), *other = NULL;
  pd_agent_options same = {.epoch = agent_info(first).epoch};
  push(first, "{\"id\":\"1\"}");
  pd_agent_close(first);
  other = agent_open_with(*state, "x", same);
  begin(other, NULL);
  count_step(other);
  pd_agent_close(other);
  other = agent_open_with(*state, "x", same);
  assert_int_equal(begin(other, NULL), PD_STEP_NONE); /* its own reply is not due again */
  pd_agent_close(other);
  other = agent_open(*state, "x");
  assert_int_equal(begin(other, NULL), PD_STEP_SEEN);
  pd_agent_close(other);
  other = NULL;
  char *says = text_of("now, not by %llu", (unsigned long long)same.epoch);
  REFUSED(PD_CONFLICT, says, pd_agent_open(*state, "x", &same, &other, &err));
  free(says);
  same.epoch = 7;
  REFUSED(PD_CONFLICT, "now, not by 7", pd_agent_open(*state, "x", &same, &other, &err));
  assert_null(other);
}

static void fencing__who_only_looks_takes_nothing_over(void **state)
{
  pd_agent *agent = agent_open(*state, "x"), *reader;
  push(agent, "{\"id\":\"1\"}");
  reader = agent_open_with(*state, "x", (pd_agent_options){.is_reader = true});
  assert_int_equal(agent_info(reader).epoch, agent_info(agent).epoch);
  assert_int_equal(agent_info(reader).event_count, 1);
  pd_push what;
  REFUSED(PD_READ_ONLY, "only to look", pd_agent_event_push(reader, pd_text("{}"), &what, &err));
  begin(agent, NULL);
  count_step(agent);
  pd_agent_close(reader);
  pd_agent_close(agent);
  reader = agent_open_with(*state, "nobody", (pd_agent_options){.is_reader = true});
  assert_int_equal(agent_info(reader).origin, PD_AGENT_FRESH);
  assert_int_equal(agent_info(reader).epoch, 0);
  pd_agent_close(reader);
}

/* ---- snapshots that are not the agent's ---------------------------------------------------------------------------- */

#define FRAME(perdure)                                                                                                                     \
  "{\"agent_id\":\"x\",\"tick_index\":1,\"timestamp\":1,\"status\":\"s\",\"memory\":{\"short_term_history\":[],\"working_variables\":{}}," \
  "\"event_queue_backup\":[],\"perdure\":" perdure "}"
#define LEDGER(unsent, effects, replies)                                                                                                   \
  FRAME("{\"version\":1,\"epoch\":1,\"save\":1,\"reply_count_max\":10,\"reply_bytes_max\":1000,\"unsent\":" unsent ",\"effects\":" effects \
        ",\"replies\":" replies "}")

static void ledger__what_perdure_did_not_write_is_refused_and_kept(void **state)
{
  static const struct {
    const char *document, *says;
    pd_code code;
  } bad[] = {
    {FRAME("5"), "not what perdure writes", PD_CORRUPT},
    {FRAME("{}"), "not what perdure writes", PD_CORRUPT},
    {FRAME("{\"version\":0}"), "not what perdure writes", PD_CORRUPT},
    {FRAME("{\"version\":2}"), "has version 2", PD_FORMAT},
    {FRAME("{\"version\":1}"), "'perdure.epoch' is no number", PD_CORRUPT},
    {FRAME("{\"version\":1,\"surprise\":1}"), "surprise", PD_CORRUPT},
    {LEDGER("{}", "[]", "[]"), "'perdure.unsent' is no array", PD_CORRUPT},
    {LEDGER("[1]", "[]", "[]"), "'perdure.unsent' has an entry (number 0)", PD_CORRUPT},
    {LEDGER("[{\"event\":\"\",\"epoch\":1}]", "[]", "[]"), "'perdure.unsent' has an entry", PD_CORRUPT},
    {LEDGER("[]", "[{\"id\":\"a\"}]", "[]"), "'perdure.effects' has an entry", PD_CORRUPT},
    {LEDGER("[]", "[{\"id\":\"a\",\"event\":\"\",\"state\":\"odd\",\"epoch\":1,\"what\":1}]", "[]"), "'perdure.effects'", PD_CORRUPT},
    {LEDGER("[]", "[{\"id\":\"a\",\"event\":\"\",\"state\":\"done\",\"epoch\":1,\"what\":1}]", "[]"), "'perdure.effects'", PD_CORRUPT},
    {LEDGER("[]", "[]", "[{\"event\":\"1\",\"tick\":1,\"reply\":1},{\"event\":\"1\",\"tick\":1}]"), "(number 1)", PD_CORRUPT},
    {LEDGER("[]", "[]", "[{\"event\":\"1\",\"tick\":-1,\"reply\":1}]"), "'perdure.replies'", PD_CORRUPT},
  };
  pd_storage *storage = storage_open(*state);
  pd_agent *agent = NULL;
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    storage_save(storage, "x", bad[i].document);
    REFUSED(bad[i].code, bad[i].says, pd_agent_open_in(storage, "x", NULL, &agent, &err));
    assert_null(agent);
    storage_expect(storage, "x", bad[i].document);
  }
  pd_storage_close(storage);
}

static void snapshot__of_another_agent_or_none_is_refused_and_kept(void **state)
{
  const char *folder = (const char *)*state + strlen("file:");
  char *path = text_of("%s/x.json", folder), *other = snapshot_new("y", 1, 1);
  pd_storage *storage = storage_open(*state);
  pd_agent *agent = NULL;
  const char *const foreign[] = {other, "", "{\"agent_id\":\"x\"", "[]"};
  assert_int_equal(mkdir(folder, 0700), 0); /* opening made nothing */
  for (size_t i = 0; i < COUNT_OF(foreign); i++) {
    write_text(path, foreign[i], strlen(foreign[i]));
    REFUSED(PD_CORRUPT, "x.json", pd_agent_open(*state, "x", NULL, &agent, &err));
    size_t size;
    char *still = read_text(path, &size);
    assert_string_equal(still, foreign[i]);
    free(still);
  }
  pd_storage_close(storage);
  free(other);
  free(path);
}

static void snapshot__over_the_size_limit_is_refused_and_the_step_stays_open(void **state)
{
  pd_agent *agent = agent_open(*state, "x");
  size_t size = PD_AGENT_EVENT_SIZE_MAX - 2;
  char *text = malloc(size + 1);
  memset(text, 'a', size);
  text[size] = '\0';
  begin(agent, "{\"id\":\"1\"}");
  for (int i = 0; i < 17; i++) { /* of 4 MiB each */
    char *name = text_of("v%d", i);
    OK(pd_agent_step_set_text(agent, name, text, &err));
    free(name);
  }
  REFUSED(PD_LIMIT, "over the limit", pd_agent_step_commit(agent, &err));
  for (int i = 0; i < 17; i++) {
    char *name = text_of("v%d", i);
    OK(pd_agent_step_unset(agent, name, &err));
    free(name);
  }
  OK(pd_agent_step_commit(agent, &err));
  char *longer = text_of("\"%s%s\"", text, "bbb");
  begin(agent, "{\"id\":\"2\"}");
  REFUSED(PD_LIMIT, "over the limit of 4194304", pd_agent_step_set(agent, "v", pd_text(longer), &err));
  pd_agent_close(agent);
  free(longer);
  free(text);
}

/* ---- a full disk --------------------------------------------------------------------------------------------------- */

#define STEP(number, is_right)                                                                                                             \
  if (!(is_right)) return number

static int live_on_full_disk(const char *folder, const void *ctx)
{
  char *uri = text_of("%s%s/data", (const char *)ctx, folder), *big = calloc(1, 3800001);
  pd_agent *agent = NULL;
  pd_step step;
  pd_push pushed;
  uint32_t n = 1;
  for (int i = 0; i < 3800000; i++) big[i] = (char)('A' + ((n = n * 1664525u + 1013904223u) >> 20) % 26);
  STEP(1, !pd_agent_open(uri, "x", NULL, &agent, NULL));
  STEP(2, !pd_agent_event_push(agent, pd_text("{\"id\":\"1\"}"), &pushed, NULL));
  STEP(3, !pd_agent_step_begin(agent, PD_NEXT_EVENT, &step, NULL) && step == PD_STEP_NEW);
  STEP(4, !pd_agent_step_set_text(agent, "big", big, NULL) && !pd_agent_step_reply_text(agent, "one", NULL));
  STEP(5, pd_agent_step_commit(agent, NULL) == PD_FULL && pd_agent_reply(agent).size == 0);
  STEP(6, !pd_agent_step_unset(agent, "big", NULL) && !pd_agent_step_commit(agent, NULL));
  pd_agent_close(agent);
  STEP(7, !pd_agent_open(uri, "x", NULL, &agent, NULL));
  pd_agent_info info = agent_info(agent);
  STEP(8, info.tick_index == 1 && info.event_count == 0 && info.epoch > 1 && info.variable_count == 0);
  STEP(9, !pd_agent_step_begin(agent, PD_NEXT_EVENT, &step, NULL) && step == PD_STEP_SEEN);
  pd_agent_close(agent);
  return 0;
}

static void full_disk__loses_nothing_and_the_step_stays_open(void **state)
{
  (void)state;
  run_on_small_disk(live_on_full_disk, "file:");
  run_on_small_disk(live_on_full_disk, "sqlite-snapshots:");
  run_on_small_disk(live_on_full_disk, "perdure:sqlite:");
}

/* ---- a file's epoch ------------------------------------------------------------------------------------------------ */

static void tear(char *text, size_t slot)
{
  memcpy(text + slot * 21, "0000", 4);
  text[slot * 21 + 9] = '\0';
}

/* Also at the second claim, and whatever the numbers are. */
static void file_epoch__a_half_written_one_goes_back_to_the_one_before(void **state)
{
  char *path = text_of("%s/x.epoch", (const char *)*state + strlen("file:"));
  uint64_t epochs[6];
  for (size_t i = 0; i < COUNT_OF(epochs); i++) {
    pd_agent *agent = agent_open(*state, "x");
    epochs[i] = agent_info(agent).epoch;
    pd_agent_close(agent);
    if (!i) continue;
    size_t size;
    char *text = read_text(path, &size), *torn = text_of("%s", text);
    assert_int_equal(size, 42);
    assert_true(strtoull(text + (i + 1) % 2 * 21, NULL, 10) == epochs[i - 1]); /* the one before is there as it was */
    torn = realloc(torn, size + 1);
    tear(torn, i % 2);
    write_text(path, torn, size);
    pd_storage *storage = storage_open(*state);
    uint64_t now;
    assert_int_equal(pd_storage_epoch(storage, "x", &now, NULL), PD_OK);
    assert_true(now == epochs[i - 1]);
    pd_storage_close(storage);
    write_text(path, text, size);
    free(text);
    free(torn);
  }
  write_text(path, "nothing of ours", 15);
  pd_agent *agent = NULL;
  REFUSED(PD_CORRUPT, "x.epoch holds no epoch", pd_agent_open(*state, "x", NULL, &agent, &err));
  free(path);
}

/* ---- processes that are killed ------------------------------------------------------------------------------------- */

/* Works on the queue for ever; `pipe_fd` gets each reply that may leave. */
static void live(const char *uri, int pipe_fd)
{
  pd_agent *agent = NULL;
  pd_step step;
  if (pd_agent_open(uri, "x", NULL, &agent, NULL)) _exit(1);
  while (pd_agent_step_begin(agent, PD_NEXT_EVENT, &step, NULL) == PD_OK && step != PD_STEP_NONE) {
    if (step == PD_STEP_NEW) {
      char reply[64];
      int64_t count = pd_agent_number(agent, "count", 0) + 1;
      snprintf(reply, sizeof reply, "%s=%lld\n", pd_agent_step_event_id(agent), (long long)count);
      if (pd_agent_step_set_number(agent, "count", count, NULL) || pd_agent_step_reply_text(agent, reply, NULL) ||
          pd_agent_step_commit(agent, NULL))
        _exit(2);
    }
    const char *text = pd_agent_reply_text(agent);
    if (write(pipe_fd, text, strlen(text)) < 0) _exit(3);
  }
  _exit(0);
}

/* Killed at any moment: every event is counted once, and its reply is there. */
static void killed__no_step_is_lost_and_none_is_done_twice(void **state)
{
  enum { EVENTS = 40 };
  int lines[2], status = 1;
  bool is_sent[EVENTS + 1] = {0};
  unsigned seed = (unsigned)getpid();
  print_message("# seed %u\n", seed);
  pd_agent *agent = agent_open(*state, "x");
  for (int i = 1; i <= EVENTS; i++) {
    char *event = text_of("{\"id\":\"%d\"}", i);
    push(agent, event);
    free(event);
  }
  pd_agent_close(agent);
  assert_int_equal(pipe(lines), 0);
  for (int lives = 0; lives < 200 && status != 0; lives++) {
    pid_t child = fork();
    if (!child) live(*state, lines[1]);
    usleep((unsigned)rand_r(&seed) % 12000);
    if (lives < 30) kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
  }
  assert_int_equal(status, 0);
  close(lines[1]);
  FILE *replies = fdopen(lines[0], "r");
  for (int id, count; fscanf(replies, "%d=%d\n", &id, &count) == 2;) {
    assert_int_equal(id, count); /* in order, once each */
    is_sent[id] = true;
  }
  fclose(replies);
  for (int i = 1; i <= EVENTS; i++)
    if (!is_sent[i]) fail_msg("no reply to %d", i);
  agent = agent_open(*state, "x");
  assert_int_equal(agent_info(agent).tick_index, EVENTS);
  assert_int_equal(pd_agent_number(agent, "count", 0), EVENTS);
  pd_agent_close(agent);
}

int main(int argc, char **argv)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lost_answer__a_commit_that_was_done_is_not_done_again),
    cmocka_unit_test(lost_answer__after_an_abort_the_next_begin_finds_out),
    cmocka_unit_test(lost_answer__a_reply_that_nobody_was_given_comes_in_the_next_life),
    cmocka_unit_test(lost_answer__a_commit_that_arrives_after_its_abort_has_its_reply_given),
    cmocka_unit_test(late__a_save_that_arrives_after_others_changes_nothing),
    cmocka_unit_test(lost_answer__a_save_that_was_not_done_is_done_once),
    cmocka_unit_test(lost_answer__events_are_queued_once),
    cmocka_unit_test(lost_answer__an_effect_that_is_intended_again_is_not_unknown),
    cmocka_unit_test(lost_answer__an_effect_whose_save_was_sent_twice_is_not_unknown),
    cmocka_unit_test(lost_answer__what_somebody_else_saved_meanwhile_is_not_overwritten),
    IN_ALL(fencing__the_newer_takes_over_and_the_older_saves_nothing),
    IN_ALL(fencing__a_process_of_the_same_life_acts_under_its_epoch),
    IN_ALL(fencing__who_only_looks_takes_nothing_over),
    IN_ALL(ledger__what_perdure_did_not_write_is_refused_and_kept),
    {"snapshot__of_another_agent", snapshot__of_another_agent_or_none_is_refused_and_kept, file_set_up, file_tear_down, NULL},
    {"snapshot__over_the_size_limit", snapshot__over_the_size_limit_is_refused_and_the_step_stays_open, file_set_up, file_tear_down, NULL},
    cmocka_unit_test(full_disk__loses_nothing_and_the_step_stays_open),
    {"file_epoch__half_written", file_epoch__a_half_written_one_goes_back_to_the_one_before, file_set_up, file_tear_down, NULL},
    IN_ALL(killed__no_step_is_lost_and_none_is_done_twice),
  };
  if (argc != 3) return 2;
  flaky_so = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
