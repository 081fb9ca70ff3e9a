/* tags_test.c: src/engine/tags.c and marks.c: tags, pins, and what they keep. */
#include "story.h"

#include <pthread.h>

static void tag__is_a_point_in_history_that_stays(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_buf value = {0};
  pd_commit first = put(s, "k", "1"), tagged, second;
  pd_ack ack;
  pd_note note = {.author = "ada", .reason = "good state"};
  assert_int_equal(pd_tag_set(s, "v1", NULL, false, &note, &tagged, NULL), PD_OK);
  assert_true(pd_id_equal(&tagged.id, &first.id));
  second = put(s, "k", "2");
  assert_at(s, "v1", &first);
  assert_int_equal(pd_get(s, "v1", pd_text("k"), &value, NULL, NULL), PD_OK);
  assert_memory_equal(value.data, "1", 1);
  assert_int_equal(pd_tag_set(s, "v2", "main", false, NULL, NULL, NULL), PD_OK);
  assert_at(s, "v2~1", &first);
  assert_int_equal(pd_tag_set(s, "beginning", "root", false, NULL, NULL, NULL), PD_OK);
  assert_at(s, "beginning", &(pd_commit){pd_commit_root_id(), pd_tree_empty_id(), 0});
  assert_int_equal(pd_fork(s, "exp", "v1", NULL, &ack, NULL), PD_OK);
  assert_true(pd_id_equal(&ack.commit, &first.id));
  assert_at(s, "main", &second);
  assert_kept(s, 3, first.seq + second.seq);
  assert_int_equal(pd_verify(s, NULL, NULL, NULL), PD_OK);
  pd_buf_done(&value);
  pd_store_close(s, NULL);
}

static void tag__never_moves_unless_it_is_forced(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_error err;
  pd_commit first = put(s, "k", "1"), second;
  assert_int_equal(pd_tag_set(s, "v1", NULL, false, NULL, NULL, NULL), PD_OK);
  pd_stats before, after;
  assert_int_equal(pd_store_stats(s, &before, NULL), PD_OK);
  assert_int_equal(pd_tag_set(s, "v1", "main", false, NULL, NULL, NULL), PD_OK); /* a retry */
  assert_int_equal(pd_store_stats(s, &after, NULL), PD_OK);
  assert_int_equal(before.records, after.records);
  second = put(s, "k", "2");
  assert_int_equal(pd_tag_set(s, "v1", NULL, false, NULL, NULL, &err), PD_EXISTS);
  assert_non_null(strstr(err.message, "'v1'"));
  assert_at(s, "v1", &first);
  assert_int_equal(pd_tag_set(s, "v1", NULL, true, NULL, NULL, NULL), PD_OK);
  assert_at(s, "v1", &second);
  assert_kept(s, 1, second.seq);
  assert_int_equal(pd_tag_delete(s, "v1", NULL, NULL), PD_OK);
  assert_int_equal(pd_tag_delete(s, "v1", NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_resolve(s, "v1", &first, &err), PD_NOT_FOUND);
  assert_kept(s, 0, 0);
  pd_store_close(s, NULL);
}

static void tag__names_that_mean_something_else_are_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "",         "-x",    "a b",       "a~1",    "a@b",
    "#1",       "@meta", "message:1", "tag/\n", "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef",
    "v\xc3\xa4"};
  pd_store *s = open_store("memory:", NULL);
  pd_error err;
  char longest[PD_REF_SIZE_MAX + 2];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  put(s, "k", "1");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_int_equal(pd_tag_set(s, bad[i], NULL, true, NULL, NULL, &err), PD_INVALID);
  assert_int_equal(pd_tag_set(s, longest, NULL, false, NULL, NULL, &err), PD_INVALID);
  longest[PD_REF_SIZE_MAX] = 0;
  assert_int_equal(pd_tag_set(s, longest, NULL, false, NULL, NULL, &err), PD_OK);
  assert_int_equal(pd_tag_set(s, "main", NULL, true, NULL, NULL, &err), PD_EXISTS);
  assert_non_null(strstr(err.message, "ref 'main'"));
  assert_int_equal(pd_tag_set(s, "v1", "nowhere", false, NULL, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_tag_set(s, "v1", "main~9", false, NULL, NULL, &err), PD_NOT_FOUND);
  pd_note note = {.reason = "\xff"};
  assert_int_equal(pd_tag_set(s, "v1", NULL, false, &note, NULL, &err), PD_INVALID);
  assert_kept(s, 1, 2);
  pd_store_close(s, NULL);
}

static void tag__a_ref_wins_then_the_tag_then_ids_and_root(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_commit first = put(s, "k", "1"), second = put(s, "k", "2");
  char hex[PD_ID_HEX_SIZE];
  pd_id_hex(&second.id, hex);
  hex[8] = 0;
  assert_at(s, hex, &second);
  assert_int_equal(pd_tag_set(s, hex, "main~1", false, NULL, NULL, NULL), PD_OK);
  assert_at(s, hex, &first);
  assert_int_equal(pd_tag_set(s, "root", NULL, false, NULL, NULL, NULL), PD_OK);
  assert_at(s, "root", &second);
  assert_int_equal(pd_fork(s, "root", "main~1", NULL, NULL, NULL), PD_OK);
  assert_at(s, "root", &first);
  pd_error err;
  assert_int_equal(pd_resolve(s, "v9@2026-01-01", &first, &err), PD_NOT_FOUND);
  pd_store_close(s, NULL);
}

typedef struct seen_marks {
  int count;
  char names[8][PD_ID_HEX_SIZE];
  char reasons[8][32];
  int64_t time_ms;
} seen_marks;

static bool see_mark(void *ctx, const pd_mark *mark)
{
  seen_marks *seen = ctx;
  snprintf(seen->names[seen->count], sizeof seen->names[0], "%s", mark->name);
  snprintf(seen->reasons[seen->count], sizeof seen->reasons[0], "%s:%s", mark->author, mark->reason);
  seen->time_ms = mark->time_ms;
  return ++seen->count < 3;
}

static int64_t fixed_clock(void *ctx)
{
  (void)ctx;
  return 1234567890123;
}

static void tag__lists_are_by_name_and_say_who_when_and_why(void **state)
{
  (void)state;
  pd_options options = {.now_ms = fixed_clock, .author = "bot"};
  pd_store *s = open_store("memory:", &options);
  pd_note note = {.author = "ada \"\\", .reason = "line\nbreak"};
  seen_marks seen = {0};
  put(s, "k", "1");
  assert_int_equal(pd_tag_list(s, see_mark, &seen, NULL), PD_OK);
  assert_int_equal(seen.count, 0);
  assert_int_equal(pd_tag_set(s, "b", NULL, false, &note, NULL, NULL), PD_OK);
  assert_int_equal(pd_tag_set(s, "a", NULL, false, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_tag_set(s, "a/c", NULL, false, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_tag_set(s, "z", NULL, false, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_tag_list(s, see_mark, &seen, NULL), PD_OK);
  assert_int_equal(seen.count, 3); /* and stopped there */
  assert_string_equal(seen.names[0], "a");
  assert_string_equal(seen.names[1], "a/c");
  assert_string_equal(seen.names[2], "b");
  assert_string_equal(seen.reasons[0], "bot:");
  assert_string_equal(seen.reasons[2], "ada \"\\:line\nbreak");
  assert_int_equal(seen.time_ms, 1234567890123);
  pd_store_close(s, NULL);
}

static void pin__keeps_a_commit_until_it_is_taken_away(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_error err;
  pd_commit first = put(s, "k", "1"), second = put(s, "k", "2"), pinned;
  pd_note note = {.reason = "case 1"}, other = {.reason = "case 2"};
  seen_marks seen = {0};
  char hex[PD_ID_HEX_SIZE];
  assert_int_equal(pd_pin_set(s, "main~1", &note, &pinned, NULL), PD_OK);
  assert_true(pd_id_equal(&pinned.id, &first.id));
  assert_int_equal(pd_pin_set(s, "main~1", &other, NULL, NULL), PD_OK);
  assert_int_equal(pd_pin_list(s, see_mark, &seen, NULL), PD_OK);
  assert_int_equal(seen.count, 1);
  assert_string_equal(seen.names[0], pd_id_hex(&first.id, hex));
  assert_string_equal(seen.reasons[0], "main:case 2");
  assert_kept(s, 1, first.seq);
  assert_int_equal(pd_pin_delete(s, "main", NULL, &err), PD_NOT_FOUND);
  assert_non_null(strstr(err.message, "is not pinned"));
  assert_int_equal(pd_pin_set(s, "nowhere", NULL, NULL, &err), PD_NOT_FOUND);
  assert_int_equal(pd_pin_set(s, NULL, NULL, NULL, NULL), PD_OK);
  assert_kept(s, 2, first.seq + second.seq);
  assert_int_equal(pd_pin_delete(s, hex, NULL, NULL), PD_OK);
  assert_kept(s, 1, second.seq);
  pd_store_close(s, NULL);
}

static void mark__survives_reopening_and_read_only_handles_read_it(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *s = open_store(uri, NULL);
  pd_commit first = put(s, "k", "1");
  pd_error err;
  assert_int_equal(pd_tag_set(s, "v1", NULL, false, NULL, NULL, NULL), PD_OK);
  put(s, "k", "2");
  assert_int_equal(pd_store_keyframe(s, NULL), PD_OK);
  pd_store_close(s, NULL);
  pd_options options = {.is_read_only = true};
  s = open_store(uri, &options);
  assert_at(s, "v1", &first);
  assert_kept(s, 1, first.seq);
  assert_int_equal(pd_tag_set(s, "v2", NULL, false, NULL, NULL, &err), PD_READ_ONLY);
  assert_int_equal(pd_tag_delete(s, "v1", NULL, &err), PD_READ_ONLY);
  pd_store_close(s, NULL);
  free(uri);
  temp_folder_free(folder);
}

static void mark__whose_commit_is_elsewhere_is_found_by_its_id_or_said_to_be_missing(void **state)
{
  (void)state;
  pd_store *s = open_store("memory:", NULL);
  pd_commit first = put(s, "k", "1"), got;
  char hex[PD_ID_HEX_SIZE], json[256];
  pd_error err;
  snprintf(json, sizeof json, "{\"commit\":\"%s\",\"seq\":999,\"time\":0}", pd_id_hex(&first.id, hex));
  assert_int_equal(pd_meta_put(s, "tag", "moved", pd_text(json), 0, NULL, NULL, NULL), PD_OK);
  assert_at(s, "moved", &first);
  assert_kept(s, 1, first.seq);
  hex[0] = hex[0] == '0' ? '1' : '0';
  snprintf(json, sizeof json, "{\"commit\":\"%s\",\"seq\":2,\"time\":0}", hex);
  assert_int_equal(pd_meta_put(s, "tag", "lost", pd_text(json), 0, NULL, NULL, NULL), PD_OK);
  assert_int_equal(pd_resolve(s, "lost", &got, &err), PD_RETIRED);
  assert_non_null(strstr(err.message, "tag 'lost' is not in this store"));
  assert_kept(s, 1, first.seq);
  pd_store_close(s, NULL);
}

static void mark__that_is_none_is_told(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "",
    "[]",
    "{}",
    "{\"commit\":\"12\",\"seq\":1,\"time\":1}",
    "{\"commit\":1,\"seq\":1,\"time\":1}",
    "{\"commit\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"seq\":-1,\"time\":1}",
    "{\"commit\":\"000000000000000000000000000000000000000000000000000000000000000z\",\"seq\":1,\"time\":1}",
    "{\"commit\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"seq\":1}",
    "{\"commit\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"seq\":1,\"time\":1,\"author\":7}"};
  pd_store *s = open_store("memory:", NULL);
  pd_error err;
  pd_commit got;
  seen_marks seen = {0};
  put(s, "k", "1");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(pd_meta_put(s, "tag", "bad", pd_text(bad[i]), PD_ANY_VERSION, NULL, NULL, NULL), PD_OK);
    assert_int_equal(pd_resolve(s, "bad", &got, &err), PD_CORRUPT);
    assert_string_equal(err.message, "what is kept as tag 'bad' is none");
    assert_int_equal(pd_tag_list(s, see_mark, &seen, &err), PD_CORRUPT);
  }
  pd_store_close(s, NULL);
}

#define RACERS 8

typedef struct racer {
  const char *uri;
  int number;
  pd_code code;
} racer;

static void *race(void *ctx)
{
  racer *r = ctx;
  pd_store *s = NULL;
  char at[16];
  snprintf(at, sizeof at, "main~%d", r->number);
  r->code = pd_store_open(r->uri, "main", NULL, &s, NULL);
  if (!r->code) r->code = pd_tag_set(s, "only-one", at, false, NULL, NULL, NULL);
  pd_store_close(s, NULL);
  return NULL;
}

static void tag__of_many_who_set_one_at_different_commits_exactly_one_wins(void **state)
{
  (void)state;
  char *folder = temp_folder_new(), *uri = text_of("sqlite:%s", folder);
  pd_store *s = open_store(uri, NULL);
  for (int i = 0; i < RACERS; i++) put(s, "k", "v");
  pthread_t threads[RACERS];
  racer racers[RACERS];
  for (int i = 0; i < RACERS; i++) {
    racers[i] = (racer){uri, i, PD_OK};
    assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
  }
  int winners = 0, winner = 0;
  for (int i = 0; i < RACERS; i++) {
    pthread_join(threads[i], NULL);
    assert_true(racers[i].code == PD_OK || racers[i].code == PD_EXISTS);
    if (racers[i].code == PD_OK) winners++, winner = i;
  }
  assert_int_equal(winners, 1);
  pd_commit expected;
  char at[16];
  snprintf(at, sizeof at, "main~%d", winner);
  assert_int_equal(pd_resolve(s, at, &expected, NULL), PD_OK);
  assert_at(s, "only-one", &expected);
  pd_store_close(s, NULL);
  free(uri);
  temp_folder_free(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(tag__is_a_point_in_history_that_stays),
    cmocka_unit_test(tag__never_moves_unless_it_is_forced),
    cmocka_unit_test(tag__names_that_mean_something_else_are_refused),
    cmocka_unit_test(tag__a_ref_wins_then_the_tag_then_ids_and_root),
    cmocka_unit_test(tag__lists_are_by_name_and_say_who_when_and_why),
    cmocka_unit_test(pin__keeps_a_commit_until_it_is_taken_away),
    cmocka_unit_test(mark__survives_reopening_and_read_only_handles_read_it),
    cmocka_unit_test(mark__whose_commit_is_elsewhere_is_found_by_its_id_or_said_to_be_missing),
    cmocka_unit_test(mark__that_is_none_is_told),
    cmocka_unit_test(tag__of_many_who_set_one_at_different_commits_exactly_one_wins),
  };
  return cmocka_run_group_tests_name("engine/tags", tests, NULL, NULL);
}
