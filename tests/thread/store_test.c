/* store_test.c: threads: creating, appending, reading at any version. */
#include "support/temp_folder.h"
#include "thread/thread_world.h"

#define HEAD PD_VERSION_HEAD

/* ---- creating, opening, deleting ---- */

/* seed 003: 02, 05 */
static void thread__a_new_one_is_at_version_0_and_empty(void **state)
{
  thread_world w;
  pd_thread_info info;
  (void)state;
  world_open(&w);
  world_need(&w, pd_thread_info_get(w.t, &info, &w.err));
  assert_string_equal(info.id, "t");
  assert_string_equal(info.owner, "ada");
  assert_string_equal(info.parent, "");
  assert_int_equal(info.created_ms, 1000);
  assert_int_equal(info.version, 0);
  assert_int_equal(info.message_count, 0);
  assert_string_equal(info.active_run, "");
  assert_string_equal(world_state(&w), "{}");
  world_close(&w);
}

static void thread__one_without_an_id_gets_one(void **state)
{
  thread_world w;
  pd_thread *a = NULL, *b = NULL;
  (void)state;
  world_open(&w);
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){0}, &a, &w.err));
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){0}, &b, &w.err));
  assert_int_equal(strlen(pd_thread_id(a)), 32);
  assert_string_not_equal(pd_thread_id(a), pd_thread_id(b));
  pd_thread_close(a);
  pd_thread_close(b);
  world_close(&w);
}

static void thread__it_may_begin_with_a_state_and_meta(void **state)
{
  thread_world w;
  pd_thread *t = NULL;
  pd_thread_info info;
  (void)state;
  world_open(&w);
  pd_thread_options o = {.id = "s", .state = pd_text("{ \"b\": [1, {}], \"a\": \"x\" }"), .meta = pd_text("{\"z\":1, \"a\":2}")};
  world_need(&w, pd_thread_create(w.store, &o, &t, &w.err));
  assert_string_equal(world_state_of(&w, t, 0, NULL), "{\"a\":\"x\",\"b\":[1,{}]}");
  world_need(&w, pd_thread_info_get(t, &info, &w.err));
  assert_int_equal(info.meta.size, strlen("{\"a\":2,\"z\":1}"));
  assert_memory_equal(info.meta.data, "{\"a\":2,\"z\":1}", info.meta.size);
  pd_thread_close(t);
  world_close(&w);
}

static void thread__a_second_one_of_the_same_id_is_AlreadyExists(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  assert_refused(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "t"}, NULL, &w.err), PD_EXISTS, "AlreadyExists");
  assert_non_null(strstr(w.err.message, "'t'"));
  world_close(&w);
}

static void thread__one_that_is_not_there_is_NotFound(void **state)
{
  thread_world w;
  pd_thread *t = NULL;
  (void)state;
  world_open(&w);
  assert_refused(&w, pd_thread_open(w.store, "other", &t, &w.err), PD_NOT_FOUND, "NotFound");
  assert_null(t);
  assert_refused(&w, pd_thread_delete(w.store, "other", PD_ANY_VERSION, NULL, &w.err), PD_NOT_FOUND, "NotFound");
  assert_refused(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "x", .parent = "nobody"}, NULL, &w.err), PD_NOT_FOUND,
                 "NotFound");
  world_close(&w);
}

static void thread__one_that_was_left_half_made_is_not_there_and_can_be_made(void **state)
{
  thread_world w;
  pd_thread *t = NULL;
  (void)state;
  world_open(&w);
  world_append(&w, NULL, "[{\"op\":\"set\",\"path\":[\"a\"],\"value\":1}]");
  world_need(&w, pd_fork(w.store, "thread/empty", "root", NULL, NULL, &w.err));    /* died before the first commit */
  world_need(&w, pd_fork(w.store, "thread/copy", "thread/t", NULL, NULL, &w.err)); /* …of a fork */
  assert_refused(&w, pd_thread_open(w.store, "empty", &t, &w.err), PD_NOT_FOUND, "NotFound");
  assert_refused(&w, pd_thread_open(w.store, "copy", &t, &w.err), PD_NOT_FOUND, "NotFound");
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "empty"}, NULL, &w.err));
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "copy"}, &t, &w.err));
  assert_string_equal(world_state_of(&w, t, HEAD, NULL), "{}");
  pd_thread_close(t);
  world_close(&w);
}

static void thread__deleting_wants_the_version_and_then_it_is_gone(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  world_append(&w, "[{\"id\":\"m\"}]", NULL);
  assert_refused(&w, pd_thread_delete(w.store, "t", 0, NULL, &w.err), PD_CONFLICT, "VersionConflict");
  assert_int_equal(w.err.expected, 0);
  assert_int_equal(w.err.actual, 1);
  world_need(&w, pd_thread_delete(w.store, "t", 1, NULL, &w.err));
  pd_thread_info info;
  pd_changeset set = world_set("[{\"id\":\"m2\"}]", NULL);
  assert_refused(&w, pd_thread_info_get(w.t, &info, &w.err), PD_NOT_FOUND, "NotFound");
  assert_refused(&w, pd_thread_append(w.t, &set, PD_ANY_VERSION, NULL, &w.err), PD_NOT_FOUND, "NotFound");
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "t"}, NULL, &w.err)); /* anew */
  world_need(&w, pd_thread_info_get(w.t, &info, &w.err));
  assert_int_equal(info.version, 0);
  assert_int_equal(info.message_count, 0);
  world_close(&w);
}

/* ---- appending ---- */

/* seed 003: 01, 03, 04, 05, 07, 08 */
static void append__with_the_exact_version_gives_the_next_one(void **state)
{
  thread_world w;
  pd_thread_ack ack;
  (void)state;
  world_open(&w);
  pd_changeset set = world_set("[{\"id\":\"m1\",\"content\":\"hi\"}]", "[{\"op\":\"set\",\"path\":[\"a\",\"b\"],\"value\":1}]");
  world_need(&w, pd_thread_append(w.t, &set, 0, &ack, &w.err));
  assert_int_equal(ack.version, 1);
  assert_int_equal(ack.message_first, 1);
  assert_int_equal(ack.message_count, 1);
  assert_int_equal(ack.time_ms, 2000);
  assert_int_equal(pd_thread_version(w.t), 1);
  assert_string_equal(world_state(&w), "{\"a\":{\"b\":1}}");
  set.messages = pd_text("[{\"id\":\"m2\"},{\"id\":\"m3\"}]");
  set.patches = (pd_bytes){0};
  world_need(&w, pd_thread_append(w.t, &set, 1, &ack, &w.err));
  assert_int_equal(ack.version, 2);
  assert_int_equal(ack.message_first, 2);
  assert_int_equal(ack.message_count, 2);
  world_close(&w);
}

/* seed 003: 04, 12, 47 */
static void append__to_another_version_is_VersionConflict_and_changes_nothing(void **state)
{
  thread_world w;
  pd_thread *other = NULL;
  pd_commit before, after;
  (void)state;
  world_open(&w);
  world_need(&w, pd_thread_open(w.store, "t", &other, &w.err));
  world_append_to(&w, other, NULL, "[{\"op\":\"set\",\"path\":\"/n\",\"value\":1}]");
  world_need(&w, pd_resolve(w.store, "thread/t", &before, &w.err));
  pd_changeset set = world_set("[{\"id\":\"lost\"}]", "[{\"op\":\"set\",\"path\":\"/n\",\"value\":2}]");
  assert_refused(&w, pd_thread_append(w.t, &set, 0, NULL, &w.err), PD_CONFLICT, "VersionConflict");
  assert_int_equal(w.err.expected, 0);
  assert_int_equal(w.err.actual, 1);
  assert_refused(&w, pd_thread_append(w.t, &set, 7, NULL, &w.err), PD_CONFLICT, "VersionConflict"); /* from the future */
  world_need(&w, pd_resolve(w.store, "thread/t", &after, &w.err));
  assert_true(pd_id_equal(&before.id, &after.id));
  assert_string_equal(world_state(&w), "{\"n\":1}");
  world_need(&w, pd_thread_append(w.t, &set, 1, NULL, &w.err)); /* read anew, it can be done */
  assert_string_equal(world_state_of(&w, other, HEAD, NULL), "{\"n\":2}");
  pd_thread_close(other);
  world_close(&w);
}

static void append__to_any_version_comes_over_what_others_did(void **state)
{
  thread_world w;
  pd_thread *other = NULL;
  (void)state;
  world_open(&w);
  world_need(&w, pd_thread_open(w.store, "t", &other, &w.err));
  world_append(&w, NULL, "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":1}]");
  world_append_to(&w, other, NULL, "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":1}]");
  world_append(&w, NULL, "[{\"op\":\"increment\",\"path\":[\"n\"],\"by\":1}]");
  assert_string_equal(world_state_of(&w, other, HEAD, NULL), "{\"n\":3}");
  assert_int_equal(pd_thread_version(other), 3);
  pd_thread_close(other);
  world_close(&w);
}

/* seed 003: 18 */
static void append__messages_are_deduplicated_by_id(void **state)
{
  thread_world w;
  pd_thread_ack ack;
  uint64_t place = 0;
  (void)state;
  world_open(&w);
  world_append(&w, "[{\"id\":\"a\",\"n\":1},{\"id\":\"b\"},{\"id\":\"a\",\"n\":2}]", NULL);
  pd_changeset set = world_set("[{\"id\":\"b\",\"other\":true},{\"id\":\"c\"},{\"id\":\"\\u0061\"}]", NULL);
  world_need(&w, pd_thread_append(w.t, &set, 1, &ack, &w.err));
  assert_int_equal(ack.message_count, 1);
  assert_int_equal(ack.message_first, 3);
  assert_int_equal(ack.message_duplicates, 2);
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD}, NULL), "1:a 2:b 3:c ");
  world_need(&w, pd_thread_message_find(w.t, "c", &place, &w.err));
  assert_int_equal(place, 3);
  assert_refused(&w, pd_thread_message_find(w.t, "d", &place, &w.err), PD_NOT_FOUND, "MessageNotFound");
  world_close(&w);
}

/* seed 003: 06, 14, 19 */
static void append__a_snapshot_replaces_the_state_before_the_patches(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  world_append(&w, NULL,
               "[{\"op\":\"set\",\"path\":[\"old\",\"deep\"],\"value\":[1,2,3]},{\"op\":\"set\",\"path\":[\"same\"],\"value\":1}]");
  pd_changeset set = world_set(NULL, "[{\"op\":\"set\",\"path\":[\"patched\"],\"value\":true}]");
  set.snapshot = pd_text("{\"same\":1,\"new\":{\"x\":[]}}");
  world_need(&w, pd_thread_append(w.t, &set, 1, NULL, &w.err));
  assert_string_equal(world_state(&w), "{\"new\":{\"x\":[]},\"patched\":true,\"same\":1}");
  assert_string_equal(world_state_of(&w, w.t, 1, NULL), "{\"old\":{\"deep\":[1,2,3]},\"same\":1}");
  pd_thread *fresh = NULL; /* as the store has it, not as the handle remembers it */
  world_need(&w, pd_thread_open(w.store, "t", &fresh, &w.err));
  assert_string_equal(world_state_of(&w, fresh, HEAD, NULL), "{\"new\":{\"x\":[]},\"patched\":true,\"same\":1}");
  set = world_set(NULL, NULL);
  set.snapshot = pd_text("{}");
  world_need(&w, pd_thread_append(w.t, &set, 2, NULL, &w.err));
  assert_string_equal(world_state_of(&w, fresh, HEAD, NULL), "{}");
  pd_thread_close(fresh);
  world_close(&w);
}

static void append__a_change_set_may_be_empty(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  assert_int_equal(world_append(&w, NULL, NULL), 1);
  assert_int_equal(world_append(&w, "[]", "[]"), 2);
  world_close(&w);
}

static void append__time_never_goes_back(void **state)
{
  thread_world w;
  pd_thread_ack ack;
  (void)state;
  world_open(&w);
  world_append(&w, NULL, NULL);
  pd_changeset set = world_set(NULL, NULL);
  set.time_ms = 1500;
  world_need(&w, pd_thread_append(w.t, &set, 1, &ack, &w.err));
  assert_int_equal(ack.time_ms, 2000);
  world_close(&w);
}

/* ---- reading ---- */

/* seed 003: 15, 48 */
static void read__every_version_has_its_state_and_its_messages(void **state)
{
  thread_world w;
  char messages[64], patches[96], expected[32];
  (void)state;
  world_open(&w);
  for (int i = 1; i <= 30; i++) {
    snprintf(messages, sizeof messages, "[{\"id\":\"m%d\"}]", i);
    snprintf(patches, sizeof patches, "[{\"op\":\"set\",\"path\":[\"n\"],\"value\":%d}]", i);
    assert_int_equal(world_append(&w, messages, patches), i);
  }
  for (uint64_t v = 1; v <= 30; v++) {
    pd_thread_point point;
    snprintf(expected, sizeof expected, "{\"n\":%d}", (int)v);
    assert_string_equal(world_state_of(&w, w.t, v, NULL), expected);
    world_need(&w, pd_thread_point_get(w.t, v, &point, &w.err));
    assert_int_equal(point.version, v);
    assert_int_equal(point.message_count, v);
  }
  assert_string_equal(world_state_of(&w, w.t, 0, NULL), "{}");
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = 3}, NULL), "1:m1 2:m2 3:m3 ");
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = 0}, NULL), "");
  assert_refused(&w, pd_thread_state(w.t, 31, NULL, &w.text, &w.err), PD_NOT_FOUND, "VersionNotFound");
  world_close(&w);
}

static void read__messages_come_in_pages_and_from_the_end(void **state)
{
  thread_world w;
  uint64_t next = 99;
  (void)state;
  world_open(&w);
  world_append(&w, "[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"},{\"id\":\"d\"},{\"id\":\"e\"}]", NULL);
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .limit = 2}, &next), "1:a 2:b ");
  assert_int_equal(next, 2);
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .limit = 2, .after = next}, &next), "3:c 4:d ");
  assert_int_equal(next, 4);
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .limit = 2, .after = next}, &next), "5:e ");
  assert_int_equal(next, 0);
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .after = 5}, &next), "");
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .after = UINT64_MAX}, &next), "");
  assert_int_equal(next, 0);
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .last = 2}, &next), "4:d 5:e ");
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .last = 50}, &next), "1:a 2:b 3:c 4:d 5:e ");
  assert_string_equal(world_messages(&w, w.t, (pd_message_query){.version = HEAD, .last = 3, .limit = 1}, &next), "3:c ");
  assert_int_equal(next, 3);
  world_close(&w);
}

static bool stop_at_first(void *ctx, const pd_thread_message *message)
{
  *(uint64_t *)ctx = message->place;
  return false;
}

static void read__a_walk_that_was_stopped_can_be_gone_on_with(void **state)
{
  thread_world w;
  uint64_t seen = 0, next = 0;
  (void)state;
  world_open(&w);
  world_append(&w, "[{\"id\":\"a\"},{\"id\":\"b\"}]", NULL);
  world_need(&w, pd_thread_messages(w.t, NULL, stop_at_first, &seen, &next, &w.err));
  assert_int_equal(seen, 1);
  assert_int_equal(next, 1);
  world_close(&w);
}

static void read__messages_keep_their_members_in_order_and_their_digits(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  world_append(&w, "[ {\"z\": 1.50, \"id\" : \"a\", \"b\":[ 1e3 ]} ]", NULL);
  pd_bytes key = pd_text("message/00000000000000000001");
  world_need(&w, pd_get(w.store, "thread/t", key, &w.text, NULL, &w.err));
  assert_string_equal(world_text(&w), "{\"z\":1.50,\"id\":\"a\",\"b\":[1e3]}");
  world_close(&w);
}

static bool add_delta(void *ctx, const pd_thread_delta *d)
{
  thread_world *w = ctx;
  world_need(w, pd_buf_printf(&w->text, &w->err, "%llu %s %s %.*s\n", (unsigned long long)d->version, d->run_id, d->reason,
                              (int)d->json.size, (const char *)d->json.data));
  return true;
}

/* seed 003: 03, 11 */
static void read__deltas_after_a_version_can_be_appended_elsewhere(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  world_append(&w, "[{\"id\":\"a\"}]", NULL);
  pd_changeset set = world_set("[{\"id\":\"a\"},{\"id\":\"b\",\"n\":1}]", "[{\"path\":\"/x\",\"op\":\"set\",\"value\":{\"b\":1,\"a\":2}}]");
  set.parent_run_id = "r0";
  set.run_meta = pd_text("{\"model\":\"m\"}");
  set.state_actions = pd_text("[{\"type\":\"Bump\"}]");
  set.active_run = "r1";
  world_need(&w, pd_thread_append(w.t, &set, 1, NULL, &w.err));
  pd_buf_clear(&w.text);
  world_need(&w, pd_thread_deltas(w.t, 1, 0, add_delta, &w, &w.err));
  const char *text = world_text(&w);
  assert_non_null(strstr(text, "2 r1 UserMessage {\"run_id\":\"r1\",\"parent_run_id\":\"r0\",\"reason\":\"UserMessage\",\"time\":2000,"
                               "\"run_meta\":{\"model\":\"m\"},\"messages\":[{\"id\":\"b\",\"n\":1}],\"patches\":["));
  CLEANUP(pd_buf_done) pd_buf texts = {0};
  pd_changeset parsed;
  const char *json = strchr(text, '{');
  world_need(&w, pd_changeset_parse((pd_bytes){json, strlen(json) - 1}, &parsed, &texts, &w.err));
  assert_string_equal(parsed.active_run, "r1");
  assert_int_equal(parsed.time_ms, 2000);
  pd_buf_clear(&w.text);
  world_need(&w, pd_thread_deltas(w.t, 2, 0, add_delta, &w, &w.err));
  assert_int_equal(w.text.size, 0);
  world_need(&w, pd_thread_deltas(w.t, 0, 1, add_delta, &w, &w.err));
  assert_int_equal(*world_text(&w), '1');
  assert_null(strstr(world_text(&w), "2 r1"));
  assert_refused(&w, pd_thread_deltas(w.t, 3, 0, add_delta, &w, &w.err), PD_NOT_FOUND, "VersionNotFound");
  world_close(&w);
}

static void read__a_part_of_the_state_by_pointer(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  pd_changeset set = world_set(NULL, NULL);
  set.snapshot = pd_text("{\"a\":{\"b\":[10,{\"c\":\"x\"},[]]},\"0\":{\"1\":2},\"\":{\"\":5},\"e\":{},\"s/l~t\":1,\"#h\":2}");
  world_need(&w, pd_thread_append(w.t, &set, 0, NULL, &w.err));
  world_append(&w, NULL, "[{\"op\":\"set\",\"path\":[\"later\"],\"value\":1}]");
  for (uint64_t version = 1; version <= 2; version++) {
    assert_string_equal(world_state_of(&w, w.t, version, "/a/b/1/c"), "\"x\"");
    assert_string_equal(world_state_of(&w, w.t, version, "/a/b"), "[10,{\"c\":\"x\"},[]]");
    assert_string_equal(world_state_of(&w, w.t, version, "/a"), "{\"b\":[10,{\"c\":\"x\"},[]]}");
    assert_string_equal(world_state_of(&w, w.t, version, "/a/b/2"), "[]");
    assert_string_equal(world_state_of(&w, w.t, version, "/0/1"), "2");
    assert_string_equal(world_state_of(&w, w.t, version, "//"), "5");
    assert_string_equal(world_state_of(&w, w.t, version, "/"), "{\"\":5}");
    assert_string_equal(world_state_of(&w, w.t, version, "/e"), "{}");
    assert_string_equal(world_state_of(&w, w.t, version, "/s~1l~0t"), "1");
    assert_string_equal(world_state_of(&w, w.t, version, "/#h"), "2");
    static const char *const absent[] = {"/x", "/a/b/3", "/a/b/-", "/a/b/01", "/a/b/c", "/a/b/0/0", "/e/x", "/a/bb"};
    for (size_t i = 0; i < COUNT_OF(absent); i++)
      assert_refused(&w, pd_thread_state(w.t, version, absent[i], &w.text, &w.err), PD_NOT_FOUND, "PathNotFound");
  }
  world_close(&w);
}

/* ---- backends ---- */

static pd_id work_on(const char *uri, bool reopens)
{
  thread_world w;
  pd_thread_info info;
  world_open_at(&w, uri);
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "t", .owner = "ada", .time_ms = 1000}, &w.t, &w.err));
  world_append(&w, "[{\"id\":\"a\"}]", "[{\"op\":\"set\",\"path\":[\"trip\",\"to\"],\"value\":\"Rome\"}]");
  if (reopens) {
    world_close(&w);
    world_open_at(&w, uri);
    world_need(&w, pd_thread_open(w.store, "t", &w.t, &w.err));
    assert_string_equal(world_state(&w), "{\"trip\":{\"to\":\"Rome\"}}");
  }
  world_append(&w, "[{\"id\":\"a\"},{\"id\":\"b\"}]", "[{\"op\":\"append\",\"path\":[\"trip\",\"days\"],\"value\":1}]");
  pd_changeset set = world_set(NULL, NULL);
  assert_refused(&w, pd_thread_append(w.t, &set, 1, NULL, &w.err), PD_CONFLICT, "VersionConflict");
  world_need(&w, pd_thread_info_get(w.t, &info, &w.err));
  pd_id commit = info.commit;
  world_close(&w);
  return commit;
}

/* seed 003: 44, 49 */
static void backends__memory_and_sqlite_give_the_same_commits(void **state)
{
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  (void)state;
  pd_id memory = work_on("memory:", false), sqlite = work_on(uri, true);
  assert_true(pd_id_equal(&memory, &sqlite));
  free(uri);
  temp_folder_free(folder);
}

/* ---- lists ---- */

static bool add_thread(void *ctx, const pd_thread_info *info, const char *cursor)
{
  thread_world *w = ctx;
  (void)cursor;
  world_need(w, pd_buf_printf(&w->text, &w->err, "%s ", info->id));
  return true;
}

static bool add_one_thread(void *ctx, const pd_thread_info *info, const char *cursor)
{
  char *last = ctx;
  (void)info;
  strcpy(last, cursor);
  return true;
}

static const char *list(thread_world *w, pd_thread_query query)
{
  pd_buf_clear(&w->text);
  world_need(w, pd_thread_list(w->store, &query, add_thread, w, &w->err));
  return world_text(w);
}

static void list__threads_by_owner_parent_and_time(void **state)
{
  thread_world w;
  char cursor[PD_THREAD_CURSOR_SIZE];
  (void)state;
  world_open(&w); /* t of ada at 1000 */
  static const pd_thread_options made[] = {{.id = "u", .owner = "ada", .parent = "t", .time_ms = 2000},
                                           {.id = "v", .owner = "bob", .parent = "t", .time_ms = 3000},
                                           {.id = "w", .owner = "bob", .time_ms = 4000},
                                           {.id = "x", .time_ms = 4000}};
  for (size_t i = 0; i < COUNT_OF(made); i++) world_need(&w, pd_thread_create(w.store, &made[i], NULL, &w.err));
  assert_string_equal(list(&w, (pd_thread_query){0}), "w x v u t ");
  assert_string_equal(list(&w, (pd_thread_query){.owner = "ada"}), "u t ");
  assert_string_equal(list(&w, (pd_thread_query){.owner = "nobody"}), "");
  assert_string_equal(list(&w, (pd_thread_query){.parent = "t"}), "v u ");
  assert_string_equal(list(&w, (pd_thread_query){.parent = "t", .owner = "ada"}), "u ");
  assert_string_equal(list(&w, (pd_thread_query){.since_ms = 2000, .until_ms = 4000}), "v u ");
  assert_string_equal(list(&w, (pd_thread_query){.since_ms = 3001}), "w x ");
  assert_string_equal(list(&w, (pd_thread_query){.limit = 2}), "w x ");
  world_need(&w, pd_thread_list(w.store, &(pd_thread_query){.limit = 2}, add_one_thread, cursor, &w.err));
  world_need(&w, pd_thread_delete(w.store, "v", PD_ANY_VERSION, NULL, &w.err));
  assert_string_equal(list(&w, (pd_thread_query){.cursor = cursor}), "u t "); /* v has gone meanwhile */
  assert_string_equal(list(&w, (pd_thread_query){.owner = "bob"}), "w ");
  static const char *const bad[] = {"x", "", "0123456789abcdef", "0123456789abcdef/../x", "0123456789ABCDEF/x"};
  for (size_t i = 0; i < COUNT_OF(bad); i++)
    assert_refused(&w, pd_thread_list(w.store, &(pd_thread_query){.cursor = bad[i]}, add_thread, &w, &w.err), PD_INVALID,
                   "InvalidArgument");
  world_close(&w);
}

static void list__a_thread_that_was_made_again_is_listed_once(void **state)
{
  thread_world w;
  (void)state;
  world_open(&w);
  world_need(&w, pd_ref_delete(w.store, "thread/t", NULL, &w.err)); /* died before its entry was removed */
  assert_string_equal(list(&w, (pd_thread_query){0}), "");
  world_need(&w, pd_thread_create(w.store, &(pd_thread_options){.id = "t", .owner = "ada", .time_ms = 5000}, NULL, &w.err));
  assert_string_equal(list(&w, (pd_thread_query){0}), "t ");
  assert_string_equal(list(&w, (pd_thread_query){.owner = "ada"}), "t ");
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(thread__a_new_one_is_at_version_0_and_empty),
    cmocka_unit_test(thread__one_without_an_id_gets_one),
    cmocka_unit_test(thread__it_may_begin_with_a_state_and_meta),
    cmocka_unit_test(thread__a_second_one_of_the_same_id_is_AlreadyExists),
    cmocka_unit_test(thread__one_that_is_not_there_is_NotFound),
    cmocka_unit_test(thread__one_that_was_left_half_made_is_not_there_and_can_be_made),
    cmocka_unit_test(thread__deleting_wants_the_version_and_then_it_is_gone),
    cmocka_unit_test(append__with_the_exact_version_gives_the_next_one),
    cmocka_unit_test(append__to_another_version_is_VersionConflict_and_changes_nothing),
    cmocka_unit_test(append__to_any_version_comes_over_what_others_did),
    cmocka_unit_test(append__messages_are_deduplicated_by_id),
    cmocka_unit_test(append__a_snapshot_replaces_the_state_before_the_patches),
    cmocka_unit_test(append__a_change_set_may_be_empty),
    cmocka_unit_test(append__time_never_goes_back),
    cmocka_unit_test(read__every_version_has_its_state_and_its_messages),
    cmocka_unit_test(read__messages_come_in_pages_and_from_the_end),
    cmocka_unit_test(read__a_walk_that_was_stopped_can_be_gone_on_with),
    cmocka_unit_test(read__messages_keep_their_members_in_order_and_their_digits),
    cmocka_unit_test(read__deltas_after_a_version_can_be_appended_elsewhere),
    cmocka_unit_test(read__a_part_of_the_state_by_pointer),
    cmocka_unit_test(backends__memory_and_sqlite_give_the_same_commits),
    cmocka_unit_test(list__threads_by_owner_parent_and_time),
    cmocka_unit_test(list__a_thread_that_was_made_again_is_listed_once),
  };
  return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
