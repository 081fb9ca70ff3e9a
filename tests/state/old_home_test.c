/*
 * old_home_test.c: a home and a store that commit b5e4400 wrote (tests/fixtures/make-b5e4400.sh) open, verify, read as they were, and
 * continue. The fixture says what the old program answered; an answer may have gained members since, and lost none.
 */
#include "base/buf.h"
#include "base/json.h"
#include "state/world.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct old {
  char *folder; /* of the fixture */
  world w;      /* its home */
} old;

/* What facts.txt says under this name; freed by the caller. */
static char *fact(const old *o, const char *name)
{
  char *path = text_of("%s/facts.txt", o->folder), line[512], *found = NULL;
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (!found && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    char *value = strchr(line, ' ');
    assert_non_null(value);
    *value++ = 0;
    if (strcmp(line, name) == 0) found = text_of("%s", value);
  }
  fclose(f);
  free(path);
  assert_non_null(found);
  return found;
}

static int set_up(void **state)
{
  old *o = calloc(1, sizeof *o);
  assert_non_null(o);
  o->folder = temp_folder_new();
  char *command = text_of("tar xJf '%s' -C '%s'", FIXTURE, o->folder);
  assert_int_equal(system(command), 0);
  free(command);
  char *home = text_of("%s/home", o->folder), *made_ms = fact(o, "made_ms");
  world_open_folder(&o->w, home, strtoll(made_ms, NULL, 10) + 1000);
  free(home);
  free(made_ms);
  *state = o;
  return 0;
}

static int tear_down(void **state)
{
  old *o = *state;
  world_close(&o->w);
  temp_folder_free(o->folder);
  free(o);
  return 0;
}

/* ---- what an answer has kept ---- */

static void want_kept(const char *call, pd_json was, pd_json is);

static void want_kept_members(const char *call, pd_json was, pd_json is)
{
  pd_json key, value;
  pd_json_walk members = pd_json_walk_begin(was);
  while (pd_json_walk_next(&members, &key, &value)) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)key.raw.size - 2, (const char *)key.raw.data + 1);
    want_kept(call, value, pd_json_member(is, name));
  }
}

static void want_kept_items(const char *call, pd_json was, pd_json is)
{
  pd_json a, b;
  pd_json_walk old_items = pd_json_walk_begin(was), new_items = pd_json_walk_begin(is);
  while (pd_json_walk_next(&old_items, NULL, &a)) {
    if (!pd_json_walk_next(&new_items, NULL, &b)) fail_msg("%s: there are fewer items", call);
    want_kept(call, a, b);
  }
  if (pd_json_walk_next(&new_items, NULL, &b)) fail_msg("%s: there are more items", call);
}

static void want_kept(const char *call, pd_json was, pd_json is)
{
  if (was.kind == is.kind && was.kind == PD_JSON_OBJECT)
    want_kept_members(call, was, is);
  else if (was.kind == is.kind && was.kind == PD_JSON_ARRAY)
    want_kept_items(call, was, is);
  else if (was.kind != is.kind || was.raw.size != is.raw.size || memcmp(was.raw.data, is.raw.data, was.raw.size) != 0)
    fail_msg("%s: was %.*s, is %.*s", call, (int)was.raw.size, (const char *)was.raw.data, (int)is.raw.size,
             is.raw.size ? (const char *)is.raw.data : "");
}

/* "AGENT CAPABILITY INPUT" */
static void want_answer(world *w, char *call, const char *answer)
{
  char *shown = text_of("%s", call), *capability = strchr(call, ' '), *input = strchr(capability + 1, ' ');
  *capability++ = 0;
  *input++ = 0;
  if (strncmp(capability, "runs.", 5) == 0) memcpy(capability, "work", 4); /* as work items were called then (decision 091) */
  w->is_operator = strcmp(call, "operator") == 0;
  w->agent = w->is_operator ? "alice" : call;
  world_ok(w, capability, input);
  pd_json was, is;
  assert_int_equal(pd_json_parse(pd_text(answer), &was, NULL), PD_OK);
  assert_int_equal(pd_json_parse(pd_buf_bytes(&w->out), &is, NULL), PD_OK);
  want_kept(shown, was, is);
  free(shown);
}

static void want_all_answers(old *o)
{
  static char call[4096], answer[65536];
  char *calls_path = text_of("%s/calls.txt", o->folder), *answers_path = text_of("%s/answers.txt", o->folder);
  FILE *calls = fopen(calls_path, "r"), *answers = fopen(answers_path, "r");
  assert_non_null(calls);
  assert_non_null(answers);
  size_t count = 0;
  for (; fgets(call, sizeof call, calls); count++) {
    assert_non_null(fgets(answer, sizeof answer, answers));
    call[strcspn(call, "\n")] = 0;
    answer[strcspn(answer, "\n")] = 0;
    want_answer(&o->w, call, answer);
  }
  assert_int_equal(count, 35);
  fclose(calls);
  fclose(answers);
  free(calls_path);
  free(answers_path);
}

static void old_home__everything_is_read_as_it_was(void **state)
{
  old *o = *state;
  want_all_answers(o);
  world_restart(&o->w);
  want_all_answers(o);
}

/* ---- verify and doctor ---- */

static void want_fine(void *ctx, const pd_diagnosis *d)
{
  (void)ctx;
  if (d->severity != PD_SEVERITY_OK && d->severity != PD_SEVERITY_NOTE) fail_msg("doctor: %s: %s", d->agent, d->what);
}

static void old_home__every_store_verifies_and_doctor_finds_nothing(void **state)
{
  static const char *const stores[] = {"alice", "bob", "shared", "system"};
  old *o = *state;
  pd_severity worst;
  for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
    pd_store *store;
    pd_verify_report report;
    assert_int_equal(world_borrow(o->w.home, stores[i], false, &store, &o->w.err), PD_OK);
    if (pd_verify(store, NULL, &report, &o->w.err)) fail_msg("%s: %s", stores[i], o->w.err.message);
    pd_home_return(o->w.home, store);
  }
  want_all_answers(o);
  assert_int_equal(pd_doctor(o->w.uri, want_fine, NULL, &worst, &o->w.err), PD_OK);
}

/* ---- going on ---- */

static void old_home__a_queue_goes_on_where_it_was(void **state)
{
  old *o = *state;
  world *w = &o->w;
  w->agent = "bob";
  world_ok(w, "queue.send", "{\"to\":\"alice\",\"body\":\"six\"}");
  world_want(w, "message_id", "\"m7\""); /* m6 tells that an approval was given */
  w->agent = "alice";
  world_ok(w, "queue.receive", "{\"max\":10}");
  world_want(w, "count", "4");
  world_want(w, "messages.0.message_id", "\"m4\"");
  world_want(w, "messages.0.body", "{\"n\":4}");
  world_want(w, "messages.2.kind", "\"approval\"");
  world_want(w, "messages.3.body", "\"six\"");
  world_ok(w, "queue.ack", "{\"message_ids\":[\"m1\",\"m2\",\"m4\",\"m5\",\"m6\",\"m7\"]}");
  world_want(w, "acknowledged", "5");
  w->now_ms += (int64_t)366 * 86400 * 1000; /* the old delivery of m3 ends */
  world_ok(w, "queue.receive", "{}");
  world_want(w, "count", "1");
  world_want(w, "messages.0.message_id", "\"m3\"");
  world_want(w, "messages.0.deliveries", "2");
}

static bool is_at(world *w, const char *store_name, const char *ref, const char *key)
{
  pd_store *store;
  pd_buf value = {0};
  assert_int_equal(world_borrow(w->home, store_name, false, &store, &w->err), PD_OK);
  pd_code code = pd_get(store, ref, pd_text(key), &value, NULL, &w->err);
  pd_home_return(w->home, store);
  pd_buf_done(&value);
  return code == PD_OK;
}

static void old_home__queues_and_subscriptions_move_to_the_agents_stores(void **state)
{
  old *o = *state;
  char *id = fact(o, "subscription"), *subscription = text_of("subscription/%s", id);
  assert_true(is_at(&o->w, "system", "main", "queue/alice/00000000000000000002"));
  assert_true(is_at(&o->w, "system", "main", subscription));
  want_all_answers(o);
  assert_false(is_at(&o->w, "system", "main", "queue/alice/00000000000000000002"));
  assert_true(is_at(&o->w, "alice", PD_QUEUE_REF, "queue/alice/00000000000000000002"));
  assert_false(is_at(&o->w, "system", "main", subscription));
  assert_true(is_at(&o->w, "bob", PD_QUEUE_REF, subscription));
  assert_true(is_at(&o->w, "system", "main", "queue/nobody-yet/00000000000000000001")); /* it has no store */
  free(id);
  free(subscription);
}

static void old_home__a_subscription_goes_on_where_it_stopped(void **state)
{
  old *o = *state;
  world *w = &o->w;
  char *id = fact(o, "subscription");
  w->agent = "bob";
  world_begin_session(w);
  world_okf(w, "state.shared.watch", "{\"subscription_id\":\"%s\"}", id);
  world_ok(w, "queue.receive", "{}");
  world_want(w, "count", "2"); /* the one that was not acknowledged first */
  world_want(w, "messages.0.body.version", "2");
  world_want(w, "messages.1.body.version", "3");
  free(id);
}

static void old_home__letters_and_work_items_are_still_their_holders(void **state)
{
  old *o = *state;
  world *w = &o->w;
  char *letter = fact(o, "letter_token"), *work = fact(o, "work_token");
  w->agent = "alice";
  world_okf(w, "mailbox.accept", "{\"thread_id\":\"trip\",\"number\":2,\"token\":\"%s\"}", letter);
  world_ok(w, "mailbox.send", "{\"thread_id\":\"trip\",\"body\":1,\"dedupe_key\":\"letter-1\"}");
  world_want(w, "is_duplicate", "true");
  world_ok(w, "mailbox.claim", "{\"thread_id\":\"trip\",\"consumer\":\"another\"}");
  world_want(w, "letters.0.number", "1");
  w->agent = "bob";
  world_okf(w, "work.complete", "{\"run_id\":\"work-2\",\"token\":\"%s\"}", work);
  world_ok(w, "work.claim", "{}");
  world_want(w, "run.id", "\"work-3\"");
  free(letter);
  free(work);
}

static void old_home__keys_threads_and_forks_go_on(void **state)
{
  old *o = *state;
  world *w = &o->w;
  w->agent = "alice";
  world_ok(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":4}");
  assert_true(atoi(world_out(w, "version")) > 3); /* a fork may have used 4 */
  world_ok(w, "history.undo", "{}");
  world_ok(w, "state.persistent.get", "{\"key\":\"plan\"}");
  world_want(w, "value.step", "3");
  world_ok(w, "history.merge", "{\"from\":\"fork/other-plan\"}");
  world_ok(w, "runs.finish", "{\"thread_id\":\"trip\"}");
  world_ok(w, "threads.replay", "{\"thread_id\":\"trip\"}");
  w->agent = "bob";
  world_fails(w, "history.get", "{\"key\":\"secret\",\"at\":\"before\"}", "ValueErased", NULL);
}

static void old_home__its_token_and_its_backup_are_good(void **state)
{
  old *o = *state;
  world *w = &o->w;
  char *token = fact(o, "token");
  pd_token_info info;
  assert_int_equal(pd_token_check(w->home, token, &info, &w->err), PD_OK);
  assert_string_equal(info.agent, "alice");
  assert_int_equal(pd_vault_unlock(w->home, pd_text("correct horse battery"), &w->err), PD_OK);
  w->agent = "alice";
  w->is_operator = true;
  world_ok(w, "state.backup.list", "{}");
  char *id = world_text(w, "backups.0.backup_id");
  world_ok(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":\"lost\"}");
  world_okf(w, "state.backup.restore", "{\"backup_id\":\"%s\"}", id);
  world_ok(w, "state.persistent.get", "{\"key\":\"plan\"}");
  world_want(w, "value.step", "3");
  free(id);
  free(token);
}

static void old_store__is_read_and_written(void **state)
{
  old *o = *state;
  char *uri = text_of("sqlite:%s/single", o->folder), *head = fact(o, "single"), hex[PD_ID_HEX_SIZE];
  pd_buf value = {0};
  pd_verify_report report;
  pd_store *store;
  pd_commit commit;
  assert_int_equal(pd_store_open(uri, "main", NULL, &store, &o->w.err), PD_OK);
  assert_int_equal(pd_verify(store, NULL, &report, &o->w.err), PD_OK);
  assert_int_equal(pd_resolve(store, "main", &commit, &o->w.err), PD_OK);
  pd_id_hex(&commit.id, hex);
  assert_memory_equal(hex, head, strlen(head));
  assert_int_equal(pd_get(store, "side", pd_text("dir/b"), &value, NULL, &o->w.err), PD_OK);
  assert_memory_equal(value.data, "two", 3);
  assert_int_equal(pd_get(store, "v1", pd_text("dir/a"), &value, NULL, &o->w.err), PD_OK);
  assert_int_equal(pd_get(store, NULL, pd_text("dir/a"), &value, NULL, &o->w.err), PD_NOT_FOUND);
  pd_ack ack;
  assert_int_equal(pd_put(store, pd_text("key"), pd_text("value 4"), NULL, &ack, &o->w.err), PD_OK);
  assert_int_equal(pd_store_close(store, &o->w.err), PD_OK);
  pd_buf_done(&value);
  free(uri);
  free(head);
}

int main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(old_home__everything_is_read_as_it_was, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_home__every_store_verifies_and_doctor_finds_nothing, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_home__a_queue_goes_on_where_it_was, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_home__queues_and_subscriptions_move_to_the_agents_stores, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_home__a_subscription_goes_on_where_it_stopped, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_home__letters_and_work_items_are_still_their_holders, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_home__keys_threads_and_forks_go_on, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_home__its_token_and_its_backup_are_good, set_up, tear_down),
    cmocka_unit_test_setup_teardown(old_store__is_read_and_written, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("old home", tests, NULL, NULL);
}
