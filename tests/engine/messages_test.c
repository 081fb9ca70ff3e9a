/* messages_test.c: src/engine/messages.c: messages linked to commits. */
#include "story.h"

#include <pthread.h>

typedef struct seen_messages {
  int count;
  char line[8][256]; /* id agent session submission parent author reason */
  pd_id commit;
  uint64_t link_seq;
} seen_messages;

static bool see_message(void *ctx, const pd_message *m)
{
  seen_messages *seen = ctx;
  snprintf(seen->line[seen->count++], sizeof seen->line[0], "%s %s %s %s %s %s %s", m->id, m->agent, m->session, m->submission, m->parent,
           m->author, m->reason);
  seen->commit = m->commit;
  seen->link_seq = m->link_seq;
  return seen->count < 4;
}

static void link_message(pd_store *s, const char *id, const char *session, const char *parent)
{
  pd_error err = {0};
  pd_message m = {.id = id, .session = session, .parent = parent};
  if (pd_message_link(s, &m, NULL, NULL, NULL, &err)) fail_msg("link: %s", err.message);
}

static void message__gives_the_complete_state_at_its_point(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_buf value = {0};
  pd_note note = {.author = "platform", .reason = "turn 1"};
  pd_message m = {.id = "msg-001", .session = "ses-001", .submission = "sub-001"};
  pd_commit first = put(s, "/todos.json", "[\"buy milk\"]"), linked;
  seen_messages seen = {0};
  assert_int_equal(pd_message_link(s, &m, NULL, &note, &linked, NULL), PD_OK);
  assert_true(pd_id_equal(&linked.id, &first.id));
  pd_commit second = put(s, "/todos.json", "[]");
  link_message(s, "msg-002", "ses-001", "msg-001");
  assert_at(s, "message:msg-001", &first);
  assert_at(s, "message:msg-002~1", &first);
  assert_int_equal(pd_get(s, "message:msg-001", pd_text("/todos.json"), &value, NULL, NULL), PD_OK);
  assert_memory_equal(value.data, "[\"buy milk\"]", 12);
  assert_int_equal(pd_fork(s, "retry", "message:msg-001", NULL, NULL, NULL), PD_OK);
  assert_at(s, "retry", &first);
  assert_int_equal(pd_message_get(s, "msg-001", see_message, &seen, NULL), PD_OK);
  assert_int_equal(seen.count, 1);
  assert_string_equal(seen.line[0], "msg-001 main ses-001 sub-001  platform turn 1");
  assert_true(pd_id_equal(&seen.commit, &first.id));
  uint64_t parent_link = seen.link_seq;
  assert_int_equal(pd_message_get(s, "msg-002", see_message, &seen, NULL), PD_OK);
  assert_string_equal(seen.line[1], "msg-002 main ses-001  msg-001 main ");
  assert_true(parent_link < seen.link_seq);
  assert_kept(s, 2, first.seq + second.seq);
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

static void message__linked_twice_alike_is_nothing_and_otherwise_a_conflict(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_stats before, after;
  pd_error err;
  put(s, "k", "1");
  link_message(s, "p", NULL, NULL);
  pd_message m = {.id = "m", .agent = "main", .session = "s", .submission = "u", .parent = "p"};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_store_stats(s, &before, NULL), PD_OK);
  assert_int_equal(pd_message_link(s, &m, "main", NULL, NULL, NULL), PD_OK);
  m.agent = NULL;
  assert_int_equal(pd_message_link(s, &m, "main", NULL, NULL, NULL), PD_OK);
  const pd_message others[] = {{.id = "m", .agent = "other", .session = "s", .submission = "u", .parent = "p"},
                               {.id = "m", .session = "t", .submission = "u", .parent = "p"},
                               {.id = "m", .session = "s", .parent = "p"},
                               {.id = "m", .session = "s", .submission = "u"}};
  static const char *const names[] = {"agent", "session", "submission", "parent"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    assert_int_equal(pd_message_link(s, &others[i], NULL, NULL, NULL, &err), PD_CONFLICT);
    assert_non_null(strstr(err.message, names[i]));
  }
  assert_int_equal(pd_message_link(s, &m, "root", NULL, NULL, &err), PD_CONFLICT);
  assert_non_null(strstr(err.message, "another commit"));
  assert_int_equal(pd_store_stats(s, &after, NULL), PD_OK);
  assert_int_equal(before.records, after.records);
  pd_store_close(s, NULL);
}

static void message__bad_ids_texts_parents_and_points_are_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {"", "a b", "a~1", "a\n", "\x7f", "\xc3\xa4"};
  char longest[PD_MESSAGE_ID_SIZE_MAX + 2];
  pd_store *s = open_store("memory:", NULL);
  pd_error err;
  pd_commit got;
  pd_message m = {0};
  put(s, "k", "1");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    m = (pd_message){.id = bad[i]};
    assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_INVALID);
    if (i) m = (pd_message){.id = "m", .parent = bad[i]};
    assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_INVALID);
    assert_int_equal(pd_message_unlink(s, bad[i], NULL, &err), PD_INVALID);
    assert_int_equal(pd_message_get(s, bad[i], see_message, NULL, &err), PD_INVALID);
  }
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  m = (pd_message){.id = longest};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_LIMIT);
  m = (pd_message){.id = "m", .session = longest};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_LIMIT);
  m = (pd_message){.id = "m", .submission = "\x1b[2J"};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_INVALID);
  m = (pd_message){.id = "m", .session = "\xff"};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_INVALID);
  m = (pd_message){.id = "m", .agent = "../x"};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_INVALID);
  m = (pd_message){.id = "m", .parent = "m"};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_INVALID);
  m = (pd_message){.id = "m", .parent = "unknown"};
  assert_int_equal(pd_message_link(s, &m, NULL, NULL, NULL, &err), PD_NOT_FOUND);
  assert_string_equal(err.message, "the parent 'unknown' of message 'm' is not linked");
  m = (pd_message){.id = "m"};
  assert_int_equal(pd_message_link(s, &m, "nowhere", NULL, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_resolve(s, "message:m", &got, &err), PD_NOT_FOUND);
  assert_string_equal(err.message, "there is no message 'm'");
  assert_int_equal(pd_resolve(s, "message:", &got, &err), PD_INVALID);
  assert_int_equal(pd_message_get(s, "m", see_message, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_message_unlink(s, "m", NULL, &err), PD_NOT_FOUND);
  assert_kept(s, 0, 0);
  longest[PD_MESSAGE_ID_SIZE_MAX] = 0;
  link_message(s, longest, longest, NULL);
  char at[sizeof longest + 16];
  snprintf(at, sizeof at, "message:%s~0", longest);
  assert_int_equal(pd_resolve(s, at, &got, &err), PD_OK);
  pd_store_close(s, NULL);
}

static void message__ids_may_look_like_other_points(void **state)
{
  (void)state;
  static const char *const ids[] = {"<1@mail.example>", "$event:server", "#17", "main", "@2026-11-15", "a/b/c",
                                    "message:x",        "100%",          "\"\\"};
  pd_store *s = open_store("memory:", NULL);
  char at[64];
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    pd_commit commit = put(s, "k", ids[i]);
    link_message(s, ids[i], NULL, i ? ids[i - 1] : NULL);
    put(s, "k", "later");
    snprintf(at, sizeof at, "message:%s", ids[i]);
    assert_at(s, at, &commit);
  }
  pd_store_close(s, NULL);
}

static void message__lists_all_or_one_session_by_id(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  seen_messages seen = {0};
  pd_error err;
  put(s, "k", "1");
  link_message(s, "b", "one", NULL);
  link_message(s, "a", "two", NULL);
  link_message(s, "c", "one", "b");
  link_message(s, "d", NULL, "c");
  assert_int_equal(pd_message_list(s, "one", see_message, &seen, NULL), PD_OK);
  assert_int_equal(seen.count, 2);
  assert_string_equal(seen.line[0], "b main one   main ");
  assert_string_equal(seen.line[1], "c main one  b main ");
  seen.count = 0;
  assert_int_equal(pd_message_list(s, NULL, see_message, &seen, NULL), PD_OK);
  assert_int_equal(seen.count, 4);
  assert_string_equal(seen.line[0], "a main two   main ");
  seen.count = 3;
  assert_int_equal(pd_message_list(s, "nobody", see_message, &seen, NULL), PD_OK);
  assert_int_equal(seen.count, 3);
  assert_int_equal(pd_message_list(s, "\n", see_message, &seen, &err), PD_INVALID);
  pd_store_close(s, NULL);
}

static void message__unlinked_keeps_nothing_and_leaves_its_children(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_commit got, first = put(s, "k", "1");
  pd_error err;
  seen_messages seen = {0};
  link_message(s, "a", NULL, NULL);
  pd_commit second = put(s, "k", "2");
  link_message(s, "b", NULL, "a");
  assert_kept(s, 2, first.seq + second.seq);
  assert_int_equal(pd_message_unlink(s, "a", NULL, NULL), PD_OK);
  assert_kept(s, 1, second.seq);
  assert_int_equal(pd_resolve(s, "message:a", &got, &err), PD_NOT_FOUND);
  assert_int_equal(pd_message_get(s, "b", see_message, &seen, NULL), PD_OK);
  assert_string_equal(seen.line[0], "b main   a main ");
  pd_store_close(s, NULL);
}

static void message__that_is_none_is_told(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_commit first = put(s, "k", "1");
  char hex[PD_ID_HEX_SIZE], json[256];
  pd_error err;
  seen_messages seen = {0};
  snprintf(json, sizeof json, "{\"commit\":\"%s\",\"seq\":2,\"time\":0,\"session\":[]}", pd_id_hex(&first.id, hex));
  assert_int_equal(pd_meta_put(s, "message", "m", pd_text(json), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_message_get(s, "m", see_message, &seen, &err), PD_CORRUPT);
  assert_string_equal(err.message, "what is kept as message 'm' is none");
  assert_int_equal(pd_message_list(s, NULL, see_message, &seen, &err), PD_CORRUPT);
  assert_int_equal(seen.count, 0);
  pd_store_close(s, NULL);
}

#define LINKERS 6
#define LINKS 20

typedef struct linker {
  const char *uri;
  int number, linked, refused;
} linker;

/* Each links its own messages, and all of them one that has the same data, and one that has not. */
static void *link_many(void *ctx)
{
  linker *l = ctx;
  pd_store *s = NULL;
  if (pd_store_open(l->uri, "main", NULL, &s, NULL)) return NULL;
  char own[32], session[32];
  snprintf(session, sizeof session, "s%d", l->number);
  for (int i = 0; i < LINKS; i++) {
    snprintf(own, sizeof own, "m-%d-%d", l->number, i);
    pd_message mine = {.id = own, .session = session}, same = {.id = "same", .session = "all"},
               contested = {.id = "one", .session = session};
    l->linked += !pd_message_link(s, &mine, "root", NULL, NULL, NULL);
    l->linked += !pd_message_link(s, &same, "root", NULL, NULL, NULL);
    l->refused += pd_message_link(s, &contested, "root", NULL, NULL, NULL) == PD_CONFLICT;
  }
  pd_store_close(s, NULL);
  return NULL;
}

static bool count_message(void *ctx, const pd_message *m)
{
  (void)m;
  ++*(int *)ctx;
  return true;
}

static void message__many_handles_link_at_once(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *s = open_store(uri, NULL);
  pthread_t threads[LINKERS];
  linker linkers[LINKERS];
  int linked = 0, refused = 0, count = 0;
  for (int i = 0; i < LINKERS; i++) {
    linkers[i] = (linker){.uri = uri, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, link_many, &linkers[i]), 0);
  }
  for (int i = 0; i < LINKERS; i++) {
    pthread_join(threads[i], NULL);
    linked += linkers[i].linked;
    refused += linkers[i].refused;
  }
  assert_int_equal(linked, LINKERS * LINKS * 2);
  assert_int_equal(refused, (LINKERS - 1) * LINKS);
  assert_int_equal(pd_message_list(s, NULL, count_message, &count, NULL), PD_OK);
  assert_int_equal(count, LINKERS * LINKS + 2);
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  pd_store_close(s, NULL);
  free(uri);
  temp_folder_free(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(message__gives_the_complete_state_at_its_point),
    cmocka_unit_test(message__linked_twice_alike_is_nothing_and_otherwise_a_conflict),
    cmocka_unit_test(message__bad_ids_texts_parents_and_points_are_refused),
    cmocka_unit_test(message__ids_may_look_like_other_points),
    cmocka_unit_test(message__lists_all_or_one_session_by_id),
    cmocka_unit_test(message__unlinked_keeps_nothing_and_leaves_its_children),
    cmocka_unit_test(message__that_is_none_is_told),
    cmocka_unit_test(message__many_handles_link_at_once),
  };
  return cmocka_run_group_tests_name("engine/messages", tests, NULL, NULL);
}
