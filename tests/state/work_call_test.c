/* work_call_test.c: the capabilities work.*: their errors one by one, and several processes on the items of one agent. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "state/home.h"
#include "support/temp_folder.h"

#include <perdure/work.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static world w;
static char token[128]; /* of the last claim, with its quotes */

static int set_up(void **state)
{
  (void)state;
  world_open(&w, NULL);
  return 0;
}

static int set_up_small(void **state)
{
  (void)state;
  world_open(&w, "[persistent]\nquota = 2000\n");
  return 0;
}

static int set_up_keeping_two(void **state)
{
  (void)state;
  world_open(&w, "[work]\nkeep_age = \"1h\"\n[test.work]\nkeep = 2\nlease = \"1m\"\n");
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  world_close(&w);
  return 0;
}

#define OUT(path, text) assert_string_equal(world_out(&w, path), text)

static void create(const char *id)
{
  if (world_callf(&w, "work.create", "{\"run_id\":\"%s\",\"title\":\"t\"}", id)) fail_msg("create: %s", w.err.message);
}

static void claim(const char *id, const char *owner)
{
  if (world_callf(&w, "work.claim", "{\"run_id\":\"%s\",\"owner\":\"%s\"}", id, owner)) fail_msg("claim: %s", w.err.message);
  snprintf(token, sizeof token, "%s", world_out(&w, "run.token"));
}

static void fails(const char *capability, const char *error, const char *action, const char *fmt, ...)
  __attribute__((format(printf, 4, 5)));

static void fails(const char *capability, const char *error, const char *action, const char *fmt, ...)
{
  char *input = NULL;
  va_list args;
  va_start(args, fmt);
  assert_true(vasprintf(&input, fmt, args) >= 0);
  va_end(args);
  world_fails(&w, capability, input, error, action);
  free(input);
}

static void status_is(const char *id, const char *status)
{
  if (world_callf(&w, "work.get", "{\"run_id\":\"%s\"}", id)) fail_msg("get: %s", w.err.message);
  OUT("run.status", status);
}

/* ---- what they do ---- */

static void work__a_life_from_create_to_complete_is_told_step_by_step(void **state)
{
  (void)state;
  create("r");
  claim("r", "worker-1");
  OUT("claimed", "true");
  OUT("run.lease_until", "\"2026-11-15T10:15:00.000Z\"");
  if (world_callf(&w, "work.update", "{\"run_id\":\"r\",\"token\":%s,\"progress\":{\"at\":3},\"lease_ms\":1000}", token))
    fail_msg("%s", w.err.message);
  OUT("run.progress", "{\"at\":3}");
  OUT("run.lease_until", "\"2026-11-15T10:00:01.000Z\"");
  OUT("run.token", ""); /* it is for who claimed */
  if (world_callf(&w, "work.complete", "{\"run_id\":\"r\",\"token\":%s,\"result\":[1]}", token)) fail_msg("%s", w.err.message);
  OUT("run.status", "\"completed\"");
  OUT("run.result", "[1]");
  OUT("run.token", "");
  world_ok(&w, "work.list", "{}");
  OUT("count", "0");
  world_ok(&w, "work.list", "{\"status\":\"completed\"}");
  OUT("count", "1");
  OUT("runs.0.token", "");
}

static void work__is_on_the_ref_state_where_a_statestore_finds_it(void **state)
{
  (void)state;
  create("r");
  claim("r", "gone");
  pd_statestore_options options = pd_statestore_defaults();
  options.enabled = true;
  options.type = PD_STATESTORE_PERDURE;
  options.uri = w.uri;
  pd_statestore *store = NULL;
  pd_work *work = NULL;
  pd_buf text = {0};
  assert_int_equal(pd_statestore_open(&options, &store, &w.err), PD_OK);
  assert_int_equal(pd_statestore_get(store, pd_text("run:index"), &text, &w.err), PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&text), pd_text("[\"r\"]")));
  assert_int_equal(pd_work_open(store, &(pd_work_options){.owner = "gone", .keep_count = 9, .keep_ms = PD_WORK_KEEP_ALL}, &work, &w.err),
                   PD_OK);
  pd_work_close(work);
  assert_int_equal(pd_statestore_close(store, &w.err), PD_OK);
  pd_statestore_free(store);
  pd_buf_done(&text);
  status_is("r", "\"pending\"");
  world_ok(&w, "state.persistent.list", "{}");
  OUT("count", "0"); /* the agent's own state is another ref */
}

static void work__reading_makes_neither_store_nor_ref(void **state)
{
  (void)state;
  world_ok(&w, "work.list", "{}");
  OUT("count", "0");
  world_ok(&w, "work.prune", "{}");
  fails("work.get", "RunNotFound", "list_work", "{\"run_id\":\"x\"}");
  char *path = text_of("%s/main.db", w.folder);
  assert_int_not_equal(access(path, F_OK), 0);
  free(path);
}

static void work__agents_do_not_see_each_others(void **state)
{
  (void)state;
  create("r");
  w.agent = "other";
  world_ok(&w, "work.list", "{\"status\":\"all\"}");
  OUT("count", "0");
  fails("work.cancel", "RunNotFound", "list_work", "{\"run_id\":\"r\"}");
  world_ok(&w, "work.claim", "{}");
  OUT("claimed", "false");
}

static void work__what_was_being_done_is_offered_again_after_a_restart(void **state)
{
  (void)state;
  create("mine");
  create("theirs");
  create("later");
  claim("mine", "w1");
  claim("theirs", "w2");
  world_restart(&w);
  world_ok(&w, "work.claim", "{\"owner\":\"w1\",\"resume\":true}");
  OUT("resumed", "1");
  OUT("run.id", "\"mine\"");
  OUT("run.attempts", "2");
  status_is("theirs", "\"investigating\"");
  w.now_ms += 15 * 60 * 1000; /* and what nobody comes back for, when its lease has passed */
  world_ok(&w, "work.claim", "{\"owner\":\"w3\"}");
  OUT("run.id", "\"mine\"");
  world_ok(&w, "work.claim", "{\"owner\":\"w3\"}");
  OUT("run.id", "\"theirs\"");
}

static void work__give_back_makes_it_pending_for_others(void **state)
{
  (void)state;
  create("r");
  claim("r", "w1");
  fails("work.update", "InvalidInput", "correct", "{\"run_id\":\"r\",\"token\":%s,\"give_back\":true,\"progress\":1}", token);
  fails("work.update", "InvalidInput", "correct", "{\"run_id\":\"r\",\"token\":%s,\"reason\":\"x\"}", token);
  if (world_callf(&w, "work.update", "{\"run_id\":\"r\",\"token\":%s,\"give_back\":true,\"reason\":\"no time\"}", token))
    fail_msg("%s", w.err.message);
  OUT("run.status", "\"pending\"");
  OUT("run.reason", "\"no time\"");
  claim("r", "w2");
}

static void work__items_that_are_over_are_pruned_by_the_settings(void **state)
{
  (void)state;
  static const char *const ids[] = {"a", "b", "c", "d", "live"};
  for (size_t i = 0; i < COUNT_OF(ids); i++) create(ids[i]);
  for (size_t i = 0; i < 4; i++) {
    w.now_ms += 1000;
    if (world_callf(&w, "work.cancel", "{\"run_id\":\"%s\"}", ids[i])) fail_msg("%s", w.err.message);
  }
  world_ok(&w, "work.list", "{\"status\":\"all\",\"newest_first\":true}");
  OUT("count", "3");
  OUT("runs.0.id", "\"live\"");
  OUT("runs.1.id", "\"d\"");
  OUT("runs.2.id", "\"c\"");
  world_ok(&w, "work.list", "{\"status\":\"all\",\"limit\":1}");
  OUT("has_more", "true");
  w.now_ms += 3600 * 1000 - 1000;
  world_ok(&w, "work.prune", "{\"dry_run\":true}");
  OUT("run_ids", "[\"c\"]");
  world_ok(&w, "work.prune", "{}");
  OUT("pruned", "1");
  world_ok(&w, "work.prune", "{\"older_than_ms\":0}");
  OUT("run_ids", "[\"d\"]");
  world_ok(&w, "work.list", "{\"status\":\"all\"}");
  OUT("count", "1");
}

static void work__every_change_is_a_commit_and_in_the_audit(void **state)
{
  (void)state;
  create("r");
  claim("r", "w1");
  w.is_operator = true;
  world_ok(&w, "audit.list", "{\"capability\":\"work.claim\"}");
  OUT("lines.0.subject", "\"r\"");
  assert_string_not_equal(world_out(&w, "lines.0.commit"), "");
}

static void work__ids_that_are_none_are_told_by_the_field(void **state)
{
  (void)state;
  static const char *const bad[] = {"", "index", "a:b", "../x", "a b"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    fails("work.create", "InvalidInput", "correct", "{\"run_id\":\"%s\"}", bad[i]);
    fails("work.get", "InvalidInput", "correct", "{\"run_id\":\"%s\"}", bad[i]);
    fails("work.claim", "InvalidInput", "correct", "{\"run_id\":\"%s\"}", bad[i]);
    fails("work.cancel", "InvalidInput", "correct", "{\"run_id\":\"%s\"}", bad[i]);
  }
  world_ok(&w, "work.list", "{\"status\":\"all\"}");
  OUT("count", "0");
}

/* ---- errors ---- */

static void work_create__err_RunExists__and_the_first_stays(void **state)
{
  (void)state;
  create("r");
  fails("work.create", "RunExists", "get", "{\"run_id\":\"r\",\"title\":\"another\"}");
  status_is("r", "\"pending\"");
  OUT("run.title", "\"t\"");
}

static void work_create__err_RunsFull__at_ten_thousand(void **state)
{
  (void)state;
  CLEANUP(pd_buf_done) pd_buf index = {0};
  pd_store *store = NULL;
  for (int i = 0; i < PD_WORK_COUNT_MAX; i++) assert_int_equal(pd_buf_printf(&index, NULL, i ? ",\"r%d\"" : "[\"r%d\"", i), PD_OK);
  assert_int_equal(pd_buf_printf(&index, NULL, "]"), PD_OK);
  create("first");
  assert_int_equal(pd_store_open(w.uri, "main", &(pd_options){.ref = "state"}, &store, &w.err), PD_OK);
  assert_int_equal(pd_put(store, pd_text("run:index"), pd_buf_bytes(&index), NULL, NULL, &w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &w.err), PD_OK);
  fails("work.create", "RunsFull", "finish", "{}");
  world_ok(&w, "work.prune", "{}"); /* ids without a run: they go */
  create("second");
}

#define BIG                                                                                                                                \
  "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
  "xx\""

static void fill(void)
{
  for (int i = 0; i < 100; i++)
    if (world_callf(&w, "work.create", "{\"run_id\":\"f%d\",\"input\":" BIG "}", i)) {
      assert_string_equal(w.err.name, "QuotaExceeded");
      OUT("error.details.limit", "2000");
      return;
    }
  fail_msg("the quota is never reached");
}

static void work_create__err_QuotaExceeded__and_work_goes_on(void **state)
{
  (void)state;
  fill();
  world_ok(&w, "work.claim", "{}"); /* a full store must not keep work from being done */
  OUT("claimed", "true");
  world_ok(&w, "work.cancel", "{\"run_id\":\"f1\"}");
}

static void refuse_big(const char *capability, const char *field)
{
  create("r");
  fill();
  claim("r", "w1");
  fails(capability, "QuotaExceeded", "prune", "{\"run_id\":\"r\",\"token\":%s,\"%s\":" BIG "}", token, field);
  status_is("r", "\"investigating\"");
}

static void work_update__err_QuotaExceeded__a_progress_that_does_not_fit(void **state)
{
  (void)state;
  refuse_big("work.update", "progress");
}

static void work_complete__err_QuotaExceeded__a_result_that_does_not_fit(void **state)
{
  (void)state;
  refuse_big("work.complete", "result");
}

static void work_fail__err_QuotaExceeded__an_error_that_does_not_fit(void **state)
{
  (void)state;
  refuse_big("work.fail", "error");
}

static void work_get__err_RunNotFound__an_unknown_id(void **state)
{
  (void)state;
  create("r");
  fails("work.get", "RunNotFound", "list_work", "{\"run_id\":\"q\"}");
}

static void work_claim__err_RunNotFound__an_unknown_id(void **state)
{
  (void)state;
  create("r");
  fails("work.claim", "RunNotFound", "list_work", "{\"run_id\":\"q\"}");
  status_is("r", "\"pending\"");
}

static void work_claim__err_RunNotHeld__while_another_works_on_it(void **state)
{
  (void)state;
  create("r");
  claim("r", "w1");
  fails("work.claim", "RunNotHeld", "claim", "{\"run_id\":\"r\",\"owner\":\"w2\"}");
  assert_non_null(strstr(w.err.message, "'w1'"));
}

static void work_claim__err_RunStatusConflict__an_item_that_is_over(void **state)
{
  (void)state;
  create("r");
  world_ok(&w, "work.cancel", "{\"run_id\":\"r\"}");
  fails("work.claim", "RunStatusConflict", "get", "{\"run_id\":\"r\"}");
}

static void refuse_unknown(const char *capability)
{
  create("r");
  claim("r", "w1");
  fails(capability, "RunNotFound", "list_work", "{\"run_id\":\"q\",\"token\":%s}", token);
  status_is("r", "\"investigating\"");
}

static void refuse_other_token(const char *capability)
{
  create("r");
  claim("r", "w1");
  fails(capability, "RunNotHeld", "claim", "{\"run_id\":\"r\",\"token\":\"0\"}");
  status_is("r", "\"investigating\"");
}

static void refuse_over(const char *capability)
{
  create("r");
  claim("r", "w1");
  world_ok(&w, "work.cancel", "{\"run_id\":\"r\"}");
  fails(capability, "RunStatusConflict", "get", "{\"run_id\":\"r\",\"token\":%s}", token);
  status_is("r", "\"cancelled\"");
}

#define REFUSALS(verb)                                                                                                                     \
  static void work_##verb##__err_RunNotFound__an_unknown_id(void **state)                                                                  \
  {                                                                                                                                        \
    (void)state;                                                                                                                           \
    refuse_unknown("work." #verb);                                                                                                         \
  }                                                                                                                                        \
  static void work_##verb##__err_RunNotHeld__another_token(void **state)                                                                   \
  {                                                                                                                                        \
    (void)state;                                                                                                                           \
    refuse_other_token("work." #verb);                                                                                                     \
  }                                                                                                                                        \
  static void work_##verb##__err_RunStatusConflict__an_item_that_is_over(void **state)                                                     \
  {                                                                                                                                        \
    (void)state;                                                                                                                           \
    refuse_over("work." #verb);                                                                                                            \
  }

REFUSALS(update)
REFUSALS(complete)
REFUSALS(fail)

static void work_cancel__err_RunNotFound__an_unknown_id(void **state)
{
  (void)state;
  fails("work.cancel", "RunNotFound", "list_work", "{\"run_id\":\"q\"}");
}

static void work_cancel__err_RunStatusConflict__an_item_that_is_over(void **state)
{
  (void)state;
  create("r");
  world_ok(&w, "work.fail", "{\"run_id\":\"r\"}");
  fails("work.cancel", "RunStatusConflict", "get", "{\"run_id\":\"r\"}");
}

/* ---- processes ---- */

#define WORKERS 3
#define RUNS_EACH 40

static pd_json call(pd_ctx *ctx, pd_buf *out, const char *name, const char *input)
{
  pd_error err = {0};
  pd_json answer = {0};
  if (pd_call(ctx, name, pd_text(input), out, &err) || pd_json_parse(pd_buf_bytes(out), &answer, &err)) {
    fprintf(stderr, "# process %d: %s: %s\n", (int)getpid(), name, err.message);
    _exit(1);
  }
  return answer;
}

/* Make some, then work on whatever waits; a line an item that was done. */
static void work(const char *uri, int number, int fd)
{
  pd_ctx ctx = {.agent = "main"};
  pd_buf out = {0};
  char input[512];
  if (pd_home_open(uri, NULL, &ctx.home, NULL)) _exit(1);
  for (int i = 0; i < RUNS_EACH; i++) {
    snprintf(input, sizeof input, "{\"run_id\":\"p%d-%d\"}", number, i);
    call(&ctx, &out, "work.create", input);
  }
  snprintf(input, sizeof input, "{\"owner\":\"p%d\"}", number);
  for (;;) {
    char ask[64], line[PD_WORK_ID_SIZE_MAX + 2];
    snprintf(ask, sizeof ask, "{\"owner\":\"p%d\"}", number);
    pd_json item = pd_json_member(call(&ctx, &out, "work.claim", ask), "run");
    if (item.kind != PD_JSON_OBJECT) break;
    pd_bytes id = pd_json_member(item, "id").raw, held = pd_json_member(item, "token").raw;
    int size = snprintf(line, sizeof line, "%.*s\n", (int)id.size, (const char *)id.data);
    snprintf(input, sizeof input, "{\"run_id\":%.*s,\"token\":%.*s,\"result\":%d}", (int)id.size, (const char *)id.data, (int)held.size,
             (const char *)held.data, number);
    call(&ctx, &out, "work.complete", input);
    if (write(fd, line, (size_t)size) != size) _exit(1);
  }
  pd_buf_done(&out);
  _exit(pd_home_close(ctx.home, NULL) ? 1 : 0);
}

static int by_text(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void work__processes_share_the_work_and_each_item_is_done_once(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s/home", folder), *lines[WORKERS * RUNS_EACH + 1] = {0};
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  for (int i = 0; i < WORKERS; i++) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) work(uri, i, fds[1]);
  }
  close(fds[1]);
  FILE *f = fdopen(fds[0], "r");
  char line[256];
  size_t count = 0;
  while (fgets(line, sizeof line, f) && count < COUNT_OF(lines)) lines[count++] = strdup(line);
  fclose(f);
  for (int i = 0, status; i < WORKERS; i++) {
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
  assert_int_equal(count, WORKERS * RUNS_EACH);
  qsort(lines, count, sizeof lines[0], by_text);
  for (size_t i = 1; i < count; i++) assert_string_not_equal(lines[i - 1], lines[i]);
  for (size_t i = 0; i < count; i++) free(lines[i]);
  pd_store *store = NULL;
  pd_iter *iter = NULL;
  pd_entry entry;
  assert_int_equal(pd_store_open(uri, "main", NULL, &store, NULL), PD_OK);
  assert_int_equal(pd_iter_open(store, "state", &(pd_scan){.prefix = pd_text("run:index/0")}, &iter, NULL), PD_OK);
  for (count = 0; !pd_iter_next(iter, &entry, NULL, NULL);) count++;
  pd_iter_close(iter);
  assert_int_equal(count, WORKERS * RUNS_EACH);
  pd_store_close(store, NULL);
  free(uri);
  temp_folder_free(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(work__processes_share_the_work_and_each_item_is_done_once), /* first: it forks */
    TEST(work__a_life_from_create_to_complete_is_told_step_by_step),
    TEST(work__is_on_the_ref_state_where_a_statestore_finds_it),
    TEST(work__reading_makes_neither_store_nor_ref),
    TEST(work__agents_do_not_see_each_others),
    TEST(work__what_was_being_done_is_offered_again_after_a_restart),
    TEST(work__give_back_makes_it_pending_for_others),
    cmocka_unit_test_setup_teardown(work__items_that_are_over_are_pruned_by_the_settings, set_up_keeping_two, tear_down),
    TEST(work__every_change_is_a_commit_and_in_the_audit),
    TEST(work__ids_that_are_none_are_told_by_the_field),
    TEST(work_create__err_RunExists__and_the_first_stays),
    TEST(work_create__err_RunsFull__at_ten_thousand),
    cmocka_unit_test_setup_teardown(work_create__err_QuotaExceeded__and_work_goes_on, set_up_small, tear_down),
    cmocka_unit_test_setup_teardown(work_update__err_QuotaExceeded__a_progress_that_does_not_fit, set_up_small, tear_down),
    cmocka_unit_test_setup_teardown(work_complete__err_QuotaExceeded__a_result_that_does_not_fit, set_up_small, tear_down),
    cmocka_unit_test_setup_teardown(work_fail__err_QuotaExceeded__an_error_that_does_not_fit, set_up_small, tear_down),
    TEST(work_get__err_RunNotFound__an_unknown_id),
    TEST(work_claim__err_RunNotFound__an_unknown_id),
    TEST(work_claim__err_RunNotHeld__while_another_works_on_it),
    TEST(work_claim__err_RunStatusConflict__an_item_that_is_over),
    TEST(work_update__err_RunNotFound__an_unknown_id),
    TEST(work_update__err_RunNotHeld__another_token),
    TEST(work_update__err_RunStatusConflict__an_item_that_is_over),
    TEST(work_complete__err_RunNotFound__an_unknown_id),
    TEST(work_complete__err_RunNotHeld__another_token),
    TEST(work_complete__err_RunStatusConflict__an_item_that_is_over),
    TEST(work_fail__err_RunNotFound__an_unknown_id),
    TEST(work_fail__err_RunNotHeld__another_token),
    TEST(work_fail__err_RunStatusConflict__an_item_that_is_over),
    TEST(work_cancel__err_RunNotFound__an_unknown_id),
    TEST(work_cancel__err_RunStatusConflict__an_item_that_is_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
