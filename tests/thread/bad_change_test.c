/* bad_change_test.c: everything that is wrong with ids, change sets and versions: refused whole, and the thread is as it was. */
#include "thread/thread_world.h"

#define HEAD PD_VERSION_HEAD
#define SETUP "{\"n\":1,\"s\":\"text\",\"o\":{\"a\":1},\"l\":[1,2]}"

static void open_set_up(thread_world *w)
{
  world_open(w);
  pd_changeset set = world_set("[{\"id\":\"m1\"}]", NULL);
  set.snapshot = pd_text(SETUP);
  world_need(w, pd_thread_append(w->t, &set, 0, NULL, &w->err));
}

/* Nothing of it was taken: neither what the store has, nor what the handle remembers. */
static void assert_refused_whole(thread_world *w, const pd_changeset *set, pd_code code, const char *name)
{
  pd_commit before, after;
  world_need(w, pd_resolve(w->store, "thread/t", &before, &w->err));
  assert_refused(w, pd_thread_append(w->t, set, 1, NULL, &w->err), code, name);
  assert_true(w->err.message[0]);
  assert_refused(w, pd_thread_append(w->t, set, PD_ANY_VERSION, NULL, &w->err), code, name);
  world_need(w, pd_resolve(w->store, "thread/t", &after, &w->err));
  assert_int_equal(before.seq, after.seq);
  assert_string_equal(world_state(w), "{\"l\":[1,2],\"n\":1,\"o\":{\"a\":1},\"s\":\"text\"}");
  assert_int_equal(pd_thread_version(w->t), 1);
}

/* It still works, and nothing of what was refused is found later. */
static void close_set_up(thread_world *w)
{
  assert_int_equal(world_append(w, "[{\"id\":\"fine\"}]", "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":1}]"), 2);
  assert_string_equal(world_state_of(w, w->t, HEAD, "/n"), "2");
  assert_string_equal(world_messages(w, w->t, (pd_message_query){.version = HEAD}, NULL), "1:m1 2:fine ");
  world_need(w, pd_thread_replay(w->t, NULL, NULL, NULL, &w->err));
  world_close(w);
}

/* ---- ids ---- */

static const char long_id[] = "0123456789012345678901234567890123456789012345678901234567890123x";

static void ids__of_threads_and_runs_are_checked(void **state)
{
  thread_world w;
  pd_thread *t = NULL;
  (void)state;
  open_set_up(&w);
  const char *const bad[] = {"", "a/b", "/", "..", ".", ".hidden", "a..b", "a b", "\xC3\xA9", "a:b", "a\nb", "~", long_id};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_changeset set = world_set(NULL, NULL);
    assert_refused(&w, pd_thread_id_check(bad[i], "thread", &w.err), PD_INVALID, "InvalidId");
    assert_refused(&w, pd_thread_create(w.store, &(pd_thread_options){.id = bad[i]}, &t, &w.err), PD_INVALID, "InvalidId");
    assert_refused(&w, pd_thread_open(w.store, bad[i], &t, &w.err), PD_INVALID, "InvalidId");
    assert_refused(&w, pd_thread_delete(w.store, bad[i], PD_ANY_VERSION, NULL, &w.err), PD_INVALID, "InvalidId");
    assert_refused(&w, pd_thread_fork(w.t, 0, &(pd_thread_options){.id = bad[i]}, NULL, &w.err), PD_INVALID, "InvalidId");
    if (*bad[i]) assert_refused(&w, pd_thread_create(w.store, &(pd_thread_options){.parent = bad[i]}, &t, &w.err), PD_INVALID, "InvalidId");
    set.run_id = bad[i];
    assert_refused_whole(&w, &set, PD_INVALID, "InvalidId");
    set = world_set(NULL, NULL);
    set.parent_run_id = bad[i];
    assert_refused_whole(&w, &set, PD_INVALID, "InvalidId");
    set.parent_run_id = NULL;
    set.active_run = bad[i];
    if (*bad[i]) assert_refused_whole(&w, &set, PD_INVALID, "InvalidId");
  }
  assert_int_equal(pd_thread_id_check("A-z_0.9", "thread", &w.err), PD_OK);
  close_set_up(&w);
}

static void ids__of_messages_are_checked(void **state)
{
  thread_world w;
  char longest[400];
  (void)state;
  open_set_up(&w);
  static const char *const bad[][2] = {{"[{\"id\":\"\"}]", "InvalidId"},
                                       {"[{\"id\":\"a/b\"}]", "InvalidId"},
                                       {"[{\"id\":\"a..b\"}]", "InvalidId"},
                                       {"[{\"id\":\"a\\u0000b\"}]", "InvalidId"},
                                       {"[{\"id\":\"a\\nb\"}]", "InvalidId"},
                                       {"[{\"id\":\"\\ud800\"}]", "InvalidId"},
                                       {"[{\"id\":7}]", "InvalidChangeSet"},
                                       {"[{\"id\":null}]", "InvalidChangeSet"},
                                       {"[{\"role\":\"user\"}]", "InvalidChangeSet"},
                                       {"[{\"id\":\"x\"},{}]", "InvalidChangeSet"},
                                       {"[\"x\"]", "InvalidChangeSet"},
                                       {"{\"id\":\"x\"}", "InvalidChangeSet"},
                                       {"[{\"id\":\"x\",\"id\":\"y\"}]", "InvalidChangeSet"},
                                       {"[{\"id\":\"x\"}", "InvalidChangeSet"},
                                       {"null", "InvalidChangeSet"}};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_changeset set = world_set(bad[i][0], "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":9}]");
    assert_refused_whole(&w, &set, PD_INVALID, bad[i][1]);
  }
  snprintf(longest, sizeof longest, "[{\"id\":\"%0257d\"}]", 1);
  pd_changeset set = world_set(longest, NULL);
  assert_refused_whole(&w, &set, PD_INVALID, "InvalidId");
  close_set_up(&w);
  world_open(&w);
  snprintf(longest, sizeof longest, "[{\"id\":\"%0256d\"},{\"id\":\"...\"}]", 1);
  set = world_set(longest, NULL);
  longest[strlen("[{\"id\":\"") + 256 + strlen("\"},{\"id\":\"") + 1] = '-'; /* ".-." is fine */
  world_need(&w, pd_thread_append(w.t, &set, 0, NULL, &w.err));
  world_close(&w);
}

/* ---- change sets ---- */

static void change_set__unknown_reasons_and_missing_runs_are_refused(void **state)
{
  thread_world w;
  (void)state;
  open_set_up(&w);
  pd_changeset set = world_set(NULL, NULL);
  for (int reason = -1; reason <= 9; reason++) {
    if (reason >= PD_REASON_USER_MESSAGE && reason <= PD_REASON_RUN_FINISHED) continue;
    set.reason = (pd_reason)reason;
    assert_refused_whole(&w, &set, PD_INVALID, "InvalidChangeSet");
  }
  set = world_set(NULL, NULL);
  set.run_id = NULL;
  assert_refused_whole(&w, &set, PD_INVALID, "InvalidChangeSet");
  set = world_set(NULL, NULL);
  set.time_ms = -1;
  assert_refused_whole(&w, &set, PD_INVALID, "InvalidChangeSet");
  close_set_up(&w);
}

static void change_set__bad_patches_refuse_all_of_it(void **state)
{
  thread_world w;
  (void)state;
  open_set_up(&w);
  static const char *const bad[] = {
    "[{\"op\":\"set\",\"path\":[\"s\",\"x\"],\"value\":1}]",          /* into a string */
    "[{\"op\":\"set\",\"path\":[\"n\",\"x\"],\"value\":1}]",          /* into a number */
    "[{\"op\":\"set\",\"path\":[\"l\",\"x\"],\"value\":1}]",          /* a name into an array */
    "[{\"op\":\"set\",\"path\":[\"l\",9],\"value\":1}]",              /* an index out of range */
    "[{\"op\":\"insert\",\"path\":[\"l\"],\"index\":4,\"value\":1}]", /* … */
    "[{\"op\":\"remove\",\"path\":[\"l\"],\"index\":2}]",             /* … */
    "[{\"op\":\"increment\",\"path\":[\"s\"],\"by\":1}]",             /* of a string */
    "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":\"1\"}]",         /* by a string */
    "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":NaN}]",           /* no JSON */
    "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":Infinity}]",      /* no JSON */
    "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":1e999}]",         /* infinite as soon as it is counted with */
    "[{\"op\":\"append\",\"path\":[\"o\"],\"value\":1}]",             /* to an object */
    "[{\"op\":\"merge_object\",\"path\":[\"l\"],\"value\":{}}]",      /* into an array */
    "[{\"op\":\"merge_object\",\"path\":[\"o\"],\"value\":[]}]",      /* of an array */
    "[{\"op\":\"explode\",\"path\":[\"o\"]}]",                        /* unknown */
    "[{\"op\":\"set\",\"path\":[\"o\"]}]",                            /* no value */
    "[{\"op\":\"set\",\"path\":[\"o\"],\"value\":1,\"extra\":1}]",    /* more than it has */
    "[{\"op\":\"set\",\"path\":[1.5],\"value\":1}]",                  /* no path */
    "[{\"op\":\"set\",\"path\":\"o\",\"value\":1}]",                  /* no pointer */
    "[{\"op\":\"set\",\"path\":[],\"value\":[]}]",                    /* the state is an object */
    "[{\"op\":\"set\",\"path\":[\"new\"],\"value\":1},{\"op\":\"append\",\"path\":[\"n\"],\"value\":1}]", /* the second */
    "[7]"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_changeset set = world_set("[{\"id\":\"with\"}]", bad[i]);
    bool is_json = !strstr(bad[i], "NaN") && !strstr(bad[i], "Infinity");
    assert_refused_whole(&w, &set, PD_INVALID, is_json ? "InvalidPatch" : "InvalidChangeSet");
  }
  static const char *const no_list[] = {"{}", "\"x\"", "null", "[", "[]]"};
  for (size_t i = 0; i < COUNT_OF(no_list); i++) {
    pd_changeset set = world_set("[{\"id\":\"with\"}]", no_list[i]);
    assert_refused_whole(&w, &set, PD_INVALID, "InvalidChangeSet");
  }
  close_set_up(&w);
}

static void change_set__other_members_are_checked(void **state)
{
  thread_world w;
  (void)state;
  open_set_up(&w);
  static const char *const no_object[] = {"[]", "1", "null", "{", "{\"a\":1,\"a\":2}"};
  for (size_t i = 0; i < COUNT_OF(no_object); i++) {
    pd_changeset set = world_set(NULL, NULL);
    set.snapshot = pd_text(no_object[i]);
    assert_refused_whole(&w, &set, PD_INVALID, "InvalidChangeSet");
    set = world_set(NULL, NULL);
    set.run_meta = pd_text(no_object[i]);
    assert_refused_whole(&w, &set, PD_INVALID, "InvalidChangeSet");
  }
  static const char *const no_actions[] = {"{}", "[1]", "[[]]", "null"};
  for (size_t i = 0; i < COUNT_OF(no_actions); i++) {
    pd_changeset set = world_set(NULL, NULL);
    set.state_actions = pd_text(no_actions[i]);
    assert_refused_whole(&w, &set, PD_INVALID, "InvalidChangeSet");
  }
  close_set_up(&w);
}

/* "head" + depth times `open` + depth times `close` + "tail" */
static char *nested(const char *head, int depth, char open, char close, const char *tail)
{
  char *text = malloc(strlen(head) + strlen(tail) + 2 * (size_t)depth + 1), *at = text;
  at = stpcpy(at, head);
  for (int i = 0; i < depth; i++) *at++ = open;
  for (int i = 0; i < depth; i++) *at++ = close;
  stpcpy(at, tail);
  return text;
}

static void change_set__depth_is_limited(void **state)
{
  thread_world w;
  (void)state;
  open_set_up(&w);
  char *message = nested("[{\"id\":\"deep\",\"x\":", 100, '[', ']', "}]"), *snapshot = nested("{\"x\":", 100, '[', ']', "}");
  char *patch = nested("[{\"op\":\"set\",\"path\":[\"o\",\"deep\"],\"value\":", 99, '[', ']', "}]");
  char *far = nested("[{\"id\":\"deep\",\"x\":", 5000, '[', ']', "}]");
  pd_changeset set = world_set(message, NULL);
  assert_refused_whole(&w, &set, PD_LIMIT, "LimitExceeded");
  set = world_set(far, NULL);
  assert_refused_whole(&w, &set, PD_LIMIT, "LimitExceeded");
  set = world_set(NULL, NULL);
  set.snapshot = pd_text(snapshot);
  assert_refused_whole(&w, &set, PD_LIMIT, "LimitExceeded");
  set = world_set(NULL, patch);
  assert_refused_whole(&w, &set, PD_LIMIT, "LimitExceeded");
  free(message);
  free(snapshot);
  free(patch);
  free(far);
  close_set_up(&w);
}

static void change_set__as_deep_as_allowed_can_be_kept_and_replayed(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  char *message = nested("[{\"id\":\"deep\",\"x\":", 99, '[', ']', "}]"), *snapshot = nested("{\"x\":", 99, '[', ']', "}");
  pd_changeset set = world_set(message, NULL);
  set.snapshot = pd_text(snapshot);
  world_need(&w, pd_thread_append(w.t, &set, 0, NULL, &w.err));
  assert_string_equal(world_state(&w), snapshot);
  world_need(&w, pd_thread_replay(w.t, NULL, NULL, NULL, &w.err));
  free(message);
  free(snapshot);
  world_close(&w);
}

/* A name of `count` times `letter`, below three others that make a key of about 660 bytes. */
static char *under_a_long_key(char letter, size_t count)
{
  char *text = malloc(2000), name[300] = {0}, long_name[221] = {0};
  memset(name, letter, count);
  memset(long_name, 'k', 218);
  snprintf(text, 2000, "[{\"op\":\"set\",\"path\":[\"%s\",\"%s\",\"%s\",\"%s\",\"in\"],\"value\":7}]", long_name, long_name, long_name,
           name);
  return text;
}

/* T12: escaped, 250 of these are 500 bytes more than a key of 660 has room for. */
static void change_set__names_that_escapes_make_too_long_for_a_key_are_kept_by_their_hash(void **state)
{
  (void)state;
  for (size_t count = 60; count <= 256; count += 14) {
    for (const char *letter = "~/#"; *letter; letter++) {
      thread_world w;
      world_open(&w);
      char *patch = under_a_long_key(*letter, count);
      world_append(&w, NULL, patch);
      assert_non_null(strstr(world_state(&w), "{\"in\":7}"));
      world_append(&w, NULL, "[{\"op\":\"set\",\"path\":\"/other\",\"value\":1}]");
      char *value = strstr(patch, "\"value\":7");
      value[8] = '8';
      pd_thread *fresh = NULL; /* reads all from the store */
      world_need(&w, pd_thread_open(w.store, "t", &fresh, &w.err));
      world_append_to(&w, fresh, NULL, patch);
      assert_non_null(strstr(world_state(&w), "{\"in\":8}"));
      assert_null(strstr(world_state(&w), "{\"in\":7}"));
      world_need(&w, pd_thread_replay(fresh, NULL, NULL, NULL, &w.err));
      pd_thread_close(fresh);
      free(patch);
      world_close(&w);
    }
  }
}

static void change_set__over_16_MiB_is_refused_and_just_under_is_taken(void **state)
{
  thread_world w;
  (void)state;
  open_set_up(&w);
  size_t size = PD_CHANGESET_SIZE_MAX + 1;
  char *text = malloc(size);
  static const char head[] = "[{\"id\":\"big\",\"x\":\"", tail[] = "\"}]";
  memset(text, 'x', size);
  memcpy(text, head, sizeof head - 1);
  memcpy(text + size - (sizeof tail - 1), tail, sizeof tail - 1);
  pd_changeset set = world_set(NULL, NULL);
  set.messages = (pd_bytes){text, size};
  assert_refused_whole(&w, &set, PD_LIMIT, "LimitExceeded");
  set.messages.size = size / 2; /* two halves and a little */
  memcpy(text + size / 2 - (sizeof tail - 1), tail, sizeof tail - 1);
  set.state_actions = set.messages;
  set.run_meta = pd_text("{\"more\":1}");
  assert_refused_whole(&w, &set, PD_LIMIT, "LimitExceeded");
  set.run_meta = set.state_actions = (pd_bytes){0};
  world_need(&w, pd_thread_append(w.t, &set, 1, NULL, &w.err));
  free(text);
  world_close(&w);
}

/* ---- the JSON form ---- */

static void change_set__its_json_form_is_read_strictly(void **state)
{
  thread_world w;
  pd_changeset set = {.run_id = "untouched"};
  (void)state;
  world_open(&w);
  static const char *const bad[] = {"",
                                    "[]",
                                    "{}",
                                    "{\"run_id\":\"r\"}",
                                    "{\"reason\":\"UserMessage\"}",
                                    "{\"run_id\":\"r\",\"reason\":\"usermessage\"}",
                                    "{\"run_id\":\"r\",\"reason\":1}",
                                    "{\"run_id\":1,\"reason\":\"UserMessage\"}",
                                    "{\"run_id\":null,\"reason\":\"UserMessage\"}",
                                    "{\"run_id\":\"r\",\"reason\":\"UserMessage\",\"extra\":1}",
                                    "{\"run_id\":\"r\",\"reason\":\"UserMessage\",\"reason\":\"UserMessage\"}",
                                    "{\"run_id\":\"r\",\"reason\":\"UserMessage\",\"time\":-1}",
                                    "{\"run_id\":\"r\",\"reason\":\"UserMessage\",\"time\":\"now\"}",
                                    "{\"run_id\":\"r\",\"reason\":\"UserMessage\",\"active_run\":1}",
                                    "{\"run_id\":\"r\",\"reason\":\"UserMessage\"} x"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    CLEANUP(pd_buf_done) pd_buf texts = {0};
    assert_refused(&w, pd_changeset_parse(pd_text(bad[i]), &set, &texts, &w.err), PD_INVALID, "InvalidChangeSet");
    assert_string_equal(set.run_id, "untouched");
  }
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  assert_refused(&w, pd_changeset_parse(pd_text("{\"run_id\":\"r\\u0000x\",\"reason\":\"UserMessage\"}"), &set, &texts, &w.err), PD_INVALID,
                 "InvalidId");
  pd_buf_clear(&texts);
  world_need(&w,
             pd_changeset_parse(pd_text("{\"run_id\":\"r\\u0031\",\"parent_run_id\":null,\"reason\":\"RunFinished\",\"active_run\":\"\","
                                        "\"messages\":[{\"id\":\"m\"}],\"patches\":null,\"snapshot\":{}}"),
                                &set, &texts, &w.err));
  assert_string_equal(set.run_id, "r1");
  assert_null(set.parent_run_id);
  assert_string_equal(set.active_run, "");
  assert_int_equal(set.reason, PD_REASON_RUN_FINISHED);
  assert_int_equal(set.patches.size, 0);
  world_need(&w, pd_thread_append(w.t, &set, 0, NULL, &w.err));
  world_close(&w);
}

static void thread__options_are_checked(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  char owner[300] = {0};
  memset(owner, 'o', 257);
  pd_thread_options bad[] = {{.owner = ""},
                             {.owner = "a\nb"},
                             {.owner = "\xff"},
                             {.meta = pd_text("[]")},
                             {.meta = pd_text("{")},
                             {.meta = pd_text("{\"a\":1,\"a\":2}")},
                             {.state = pd_text("[]")},
                             {.state = pd_text("nope")},
                             {.state = pd_text("{\"a\":1,\"a\":1}")},
                             {.time_ms = -5}};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    pd_thread *t = NULL;
    bad[i].id = "bad";
    assert_int_equal(pd_thread_create(w.store, &bad[i], &t, &w.err), PD_INVALID);
    assert_refused(&w, pd_thread_open(w.store, "bad", &t, &w.err), PD_NOT_FOUND, "NotFound");
  }
  assert_refused(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "bad", .owner = owner}, NULL, &w.err), PD_LIMIT, "LimitExceeded");
  assert_refused(&w, pd_thread_fork(w.t, 0, &(pd_thread_options){.id = "bad", .state = pd_text("{}")}, NULL, &w.err), PD_INVALID,
                 "InvalidArgument");
  world_close(&w);
}

static void versions__from_the_future_are_refused_everywhere(void **state)
{
  thread_world w;
  pd_thread_point point;
  (void)state;
  open_set_up(&w);
  static const uint64_t future[] = {2, 1000, (uint64_t)-2, (uint64_t)INT64_MIN};
  for (size_t i = 0; i < COUNT_OF(future); i++) {
    pd_changeset set = world_set(NULL, NULL);
    assert_refused(&w, pd_thread_append(w.t, &set, future[i], NULL, &w.err), PD_CONFLICT, "VersionConflict");
    assert_refused(&w, pd_thread_state(w.t, future[i], NULL, &w.text, &w.err), PD_NOT_FOUND, "VersionNotFound");
    assert_refused(&w, pd_thread_point_get(w.t, future[i], &point, &w.err), PD_NOT_FOUND, "VersionNotFound");
    assert_refused(&w, pd_thread_rewind(w.t, future[i], PD_ANY_VERSION, NULL, NULL, &w.err), PD_NOT_FOUND, "VersionNotFound");
    assert_refused(&w, pd_thread_fork(w.t, future[i], &(pd_thread_options){.id = "f"}, NULL, &w.err), PD_NOT_FOUND, "VersionNotFound");
    assert_refused(&w, pd_thread_messages(w.t, &(pd_message_query){.version = future[i]}, world_add_message, &w, NULL, &w.err),
                   PD_NOT_FOUND, "VersionNotFound");
  }
  close_set_up(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ids__of_threads_and_runs_are_checked),
    cmocka_unit_test(ids__of_messages_are_checked),
    cmocka_unit_test(change_set__unknown_reasons_and_missing_runs_are_refused),
    cmocka_unit_test(change_set__bad_patches_refuse_all_of_it),
    cmocka_unit_test(change_set__other_members_are_checked),
    cmocka_unit_test(change_set__depth_is_limited),
    cmocka_unit_test(change_set__as_deep_as_allowed_can_be_kept_and_replayed),
    cmocka_unit_test(change_set__names_that_escapes_make_too_long_for_a_key_are_kept_by_their_hash),
    cmocka_unit_test(change_set__over_16_MiB_is_refused_and_just_under_is_taken),
    cmocka_unit_test(change_set__its_json_form_is_read_strictly),
    cmocka_unit_test(thread__options_are_checked),
    cmocka_unit_test(versions__from_the_future_are_refused_everywhere),
  };
  return cmocka_run_group_tests_name("bad change sets", tests, NULL, NULL);
}
