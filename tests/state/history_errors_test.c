/*
 * history_errors_test.c: every error that history.* and store.* name, provoked one by one: the code, and what the capability says can
 * be done about it. One world for all of them: a call that fails changes nothing.
 *
 * In inputs, $RETIRED is a commit that gc took, $SHORT the digits of two commits, $ERASED a commit whose key `gone` was erased, $DELETED
 * the one that deleted it, $LOST one of a fork whose key `lost` was erased after it was undone. The last commit made `big` small.
 */
#include "state/world.h"

#include "base/base.h"
#include "state/home.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COMMITS_MAX 4000
#define SHORT_SIZE 4

#define BIG "\"0123456789012345678901234567890123456789012345678901234567890123456789\""

static char retired[PD_ID_HEX_SIZE], erased[PD_ID_HEX_SIZE], deleted[PD_ID_HEX_SIZE], lost[PD_ID_HEX_SIZE], short_id[SHORT_SIZE + 1];
static char ids[COMMITS_MAX][PD_ID_HEX_SIZE];

static void head_of(world *w, char out[PD_ID_HEX_SIZE])
{
  world_ok(w, "history.show", "{}");
  snprintf(out, PD_ID_HEX_SIZE, "%.64s", world_out(w, "commit") + 1);
}

/* Commits until two of them begin alike. Ids depend on what is committed alone, so it is the same number every time. */
static void make_twins(world *w, pd_store *store)
{
  for (int i = 0; i < COMMITS_MAX; i++) {
    char value[16];
    pd_ack ack;
    snprintf(value, sizeof value, "%d", i);
    assert_int_equal(pd_put(store, pd_text("n"), pd_text(value), NULL, &ack, &w->err), PD_OK);
    pd_id_hex(&ack.commit, ids[i]);
    for (int j = 0; j < i; j++) {
      if (strncmp(ids[i], ids[j], SHORT_SIZE) != 0) continue;
      memcpy(short_id, ids[i], SHORT_SIZE);
      return;
    }
  }
  fail_msg("no two of %d commits begin alike", COMMITS_MAX);
}

/* Forks, one for each way to go wrong. */
static void make_forks(world *w)
{
  assert_int_equal(world_callf(w, "history.fork", "{\"name\":\"deleted\",\"at\":\"%s\"}", deleted), PD_OK);
  world_ok(w, "history.fork", "{\"name\":\"lost\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/lost\",\"changes\":[{\"key\":\"lost\",\"value\":\"secret\"}]}");
  snprintf(lost, sizeof lost, "%.64s", world_out(w, "commit") + 1);
  world_ok(w, "history.undo", "{\"ref\":\"fork/lost\"}");
  world_ok(w, "state.persistent.delete", "{\"key\":\"lost\"}"); /* also what was left behind */
  world_ok(w, "history.fork", "{\"name\":\"grow\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/grow\",\"changes\":[{\"key\":\"large\",\"value\":" BIG "}]}");
  world_ok(w, "history.fork", "{\"name\":\"redo\"}");
  world_ok(w, "history.commit", "{\"ref\":\"fork/redo\",\"changes\":[{\"key\":\"large\",\"value\":" BIG "}]}");
  world_ok(w, "history.undo", "{\"ref\":\"fork/redo\"}");
  world_ok(w, "state.persistent.set", "{\"key\":\"big\",\"value\":" BIG "}");
  world_ok(w, "history.tag", "{\"name\":\"tagged\"}");
  world_ok(w, "state.persistent.set", "{\"key\":\"big\",\"value\":0}");
}

static int open_world(void **state)
{
  world *w = calloc(1, sizeof *w);
  pd_store *store;
  assert_non_null(w);
  world_open(w, "[store]\nflush = \"50 ms\"\n");
  world_ok(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":1}");
  head_of(w, retired);
  for (int i = 0; i < 200; i++) world_ok(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":2}"); /* gc cuts no less than half */
  assert_int_equal(world_borrow(w->home, "main", true, &store, &w->err), PD_OK);
  assert_int_equal(pd_store_flush(store, &w->err), PD_OK);
  assert_int_equal(pd_gc(store, &(pd_gc_policy){.keep_last = 1}, NULL, &w->err), PD_OK);
  world_ok(w, "state.persistent.set", "{\"key\":\"gone\",\"value\":\"secret\"}");
  head_of(w, erased);
  world_ok(w, "state.persistent.delete", "{\"key\":\"gone\"}");
  head_of(w, deleted);
  make_twins(w, store);
  make_forks(w);
  *state = w;
  return 0;
}

static int close_world(void **state)
{
  world_close(*state);
  free(*state);
  return 0;
}

/* The input with what stands for ids filled in. */
static char *fill_in(const char *input)
{
  static const struct {
    const char *mark, *text;
  } marks[] = {{"$RETIRED", retired}, {"$SHORT", short_id}, {"$ERASED", erased}, {"$DELETED", deleted}, {"$LOST", lost}};
  char *text = text_of("%s", input);
  for (size_t i = 0; i < COUNT_OF(marks); i++) {
    char *at = strstr(text, marks[i].mark);
    if (!at) continue;
    char *next = text_of("%.*s%s%s", (int)(at - text), text, marks[i].text, at + strlen(marks[i].mark));
    free(text);
    text = next;
  }
  return text;
}

/* What is different for a call. */
enum { PLAIN = 0, OPERATOR = 1, NO_ROOM = 2, NO_FORKS = 4, NO_MARKS = 8 };

static void fails(world *w, int how, const char *capability, const char *input, const char *name, const char *action)
{
  char *text = fill_in(input);
  pd_config *config = &w->home->config;
  const pd_config before = *config;
  w->is_operator = how & OPERATOR;
  if (how & NO_ROOM) config->persistent_quota_bytes = 1;
  if (how & NO_FORKS) config->history_forks_max = 1;
  if (how & NO_MARKS) config->history_marks_max = 1;
  world_fails(w, capability, text, name, action);
  w->is_operator = false;
  config->persistent_quota_bytes = before.persistent_quota_bytes; /* not the whole of it: the audit's thread reads its own members */
  config->history_forks_max = before.history_forks_max;
  config->history_marks_max = before.history_marks_max;
  free(text);
}

#define FAILS_BY(how, function, code, capability, input, action)                                                                           \
  static void function##__err_##code##__is_told(void **state)                                                                              \
  {                                                                                                                                        \
    fails(*state, how, capability, input, #code, action);                                                                                  \
  }
#define FAILS(function, code, capability, input, action) FAILS_BY(PLAIN, function, code, capability, input, action)

/* The three that every point in history may answer with. */
#define POINTS_BY(how, function, capability, before, after)                                                                                \
  FAILS_BY(how, function, NotFound, capability, before "nowhere" after, "list")                                                            \
  FAILS_BY(how, function, Ambiguous, capability, before "$SHORT" after, "lengthen")                                                        \
  FAILS_BY(how, function, Retired, capability, before "$RETIRED" after, "choose")
#define POINTS(function, capability, before, after) POINTS_BY(PLAIN, function, capability, before, after)

/* ---- reading ---- */

POINTS(history_log, "history.log", "{\"at\":\"", "\"}")
FAILS(history_log, InvalidTimestamp, "history.log", "{\"since\":\"yesterday\"}", "fix_format")
POINTS(history_show, "history.show", "{\"at\":\"", "\"}")
POINTS(history_get, "history.get", "{\"key\":\"plan\",\"at\":\"", "\"}")
FAILS(history_get, ValueErased, "history.get", "{\"key\":\"gone\",\"at\":\"$ERASED\"}", "choose")
POINTS(history_list, "history.list", "{\"at\":\"", "\"}")
POINTS(history_diff, "history.diff", "{\"from\":\"", "\"}")
POINTS(history_key, "history.key", "{\"key\":\"plan\",\"at\":\"", "\"}")
FAILS(history_key, KeyNotFound, "history.key", "{\"key\":\"nothing\"}", "list_keys")
POINTS(history_blame, "history.blame", "{\"key\":\"plan\",\"at\":\"", "\"}")
FAILS(history_blame, KeyNotFound, "history.blame", "{\"key\":\"nothing\"}", "list_keys")
FAILS(history_blame, ValueErased, "history.blame", "{\"key\":\"gone\",\"at\":\"$ERASED\"}", "choose")
POINTS(history_prove, "history.prove", "{\"key\":\"plan\",\"at\":\"", "\"}")
FAILS(history_prove, ValueErased, "history.prove", "{\"key\":\"gone\",\"at\":\"$ERASED\",\"with_value\":true}", "choose")
FAILS(history_prove, NotDescendant, "history.prove", "{\"ancestor\":\"main\",\"at\":\"main~1\"}", "swap")
POINTS(history_verify, "history.verify", "{\"since\":\"", "\"}")

/* ---- writing ---- */

#define HEAD "\"expected_head\":\"$RETIRED\""

FAILS(history_commit, NotFound, "history.commit", "{\"ref\":\"fork/none\",\"changes\":[{\"key\":\"k\",\"value\":1}]}", "list")
FAILS(history_commit, VersionConflict, "history.commit", "{\"changes\":[{\"key\":\"plan\",\"value\":1,\"expected_version\":0}]}", "reload")
FAILS(history_commit, HeadMoved, "history.commit", "{\"changes\":[{\"key\":\"k\",\"value\":1}]," HEAD "}", "reload")
FAILS_BY(NO_ROOM, history_commit, QuotaExceeded, "history.commit", "{\"changes\":[{\"key\":\"k\",\"value\":1}]}", "delete_unused")
FAILS(history_undo, NotFound, "history.undo", "{\"ref\":\"fork/none\"}", "list")
FAILS(history_undo, HeadMoved, "history.undo", "{" HEAD "}", "reload")
FAILS_BY(NO_ROOM, history_undo, QuotaExceeded, "history.undo", "{}", "delete_unused")
FAILS(history_undo, ValueErased, "history.undo", "{\"ref\":\"fork/deleted\"}", "rollback")
FAILS(history_redo, NotFound, "history.redo", "{\"ref\":\"fork/none\"}", "list")
FAILS(history_redo, NothingToRedo, "history.redo", "{\"ref\":\"fork/redo\",\"count\":2}", "log")
FAILS(history_redo, HeadMoved, "history.redo", "{\"ref\":\"fork/redo\"," HEAD "}", "reload")
FAILS_BY(NO_ROOM, history_redo, QuotaExceeded, "history.redo", "{\"ref\":\"fork/redo\"}", "delete_unused")
FAILS(history_redo, ValueErased, "history.redo", "{\"ref\":\"fork/lost\"}", "rollback")
POINTS_BY(OPERATOR, history_reset, "history.reset", "{\"to\":\"", "\"}")
FAILS_BY(OPERATOR, history_reset, HeadMoved, "history.reset", "{\"to\":\"main~1\"," HEAD "}", "reload")
FAILS_BY(OPERATOR | NO_ROOM, history_reset, QuotaExceeded, "history.reset", "{\"to\":\"main~1\"}", "delete_unused")
FAILS_BY(OPERATOR, history_reset, ValueErased, "history.reset", "{\"to\":\"$ERASED\"}", "rollback")
POINTS(history_rollback, "history.rollback", "{\"to\":\"", "\"}")
FAILS(history_rollback, HeadMoved, "history.rollback", "{\"to\":\"main~1\"," HEAD "}", "reload")
FAILS_BY(NO_ROOM, history_rollback, QuotaExceeded, "history.rollback", "{\"to\":\"main~1\"}", "delete_unused")
POINTS(history_fork, "history.fork", "{\"name\":\"new\",\"at\":\"", "\"}")
FAILS(history_fork, AlreadyExists, "history.fork", "{\"name\":\"grow\"}", "rename")
FAILS_BY(NO_FORKS, history_fork, QuotaExceeded, "history.fork", "{\"name\":\"new\"}", "drop")
FAILS(history_drop, NotFound, "history.drop", "{\"name\":\"none\"}", "list")
POINTS(history_merge, "history.merge", "{\"from\":\"", "\"}")
FAILS(history_merge, HeadMoved, "history.merge", "{\"from\":\"fork/grow\"," HEAD "}", "reload")
FAILS_BY(NO_ROOM, history_merge, QuotaExceeded, "history.merge", "{\"from\":\"fork/grow\"}", "delete_unused")
FAILS(history_merge, ValueErased, "history.merge", "{\"from\":\"$LOST\"}", "choose")
POINTS(history_cherry_pick, "history.cherry_pick", "{\"at\":\"", "\"}")
FAILS(history_cherry_pick, HeadMoved, "history.cherry_pick", "{\"at\":\"fork/grow\"," HEAD "}", "reload")
FAILS_BY(NO_ROOM, history_cherry_pick, QuotaExceeded, "history.cherry_pick", "{\"at\":\"fork/grow\"}", "delete_unused")
FAILS(history_cherry_pick, ValueErased, "history.cherry_pick", "{\"at\":\"$LOST\"}", "choose")
POINTS(history_revert, "history.revert", "{\"at\":\"", "\"}")
FAILS(history_revert, HeadMoved, "history.revert", "{\"at\":\"main\"," HEAD "}", "reload")
FAILS_BY(NO_ROOM, history_revert, QuotaExceeded, "history.revert", "{\"at\":\"main\"}", "delete_unused")
FAILS(history_revert, ValueErased, "history.revert", "{\"at\":\"$DELETED\"}", "choose")
POINTS(history_tag, "history.tag", "{\"name\":\"new\",\"at\":\"", "\"}")
FAILS(history_tag, AlreadyExists, "history.tag", "{\"name\":\"tagged\"}", "rename")
FAILS_BY(NO_MARKS, history_tag, QuotaExceeded, "history.tag", "{\"name\":\"new\"}", "remove")
FAILS(history_untag, NotFound, "history.untag", "{\"name\":\"none\"}", "list")
POINTS(history_pin, "history.pin", "{\"at\":\"", "\"}")
FAILS_BY(NO_MARKS, history_pin, QuotaExceeded, "history.pin", "{}", "remove")
POINTS(history_unpin, "history.unpin", "{\"at\":\"", "\"}")

/* ---- the operator's, on any store ---- */

/* The two that any of them may answer with. */
#define ANY(function, capability, rest)                                                                                                    \
  FAILS_BY(OPERATOR, function, StoreNotFound, capability, "{\"store\":\"nobody\"" rest, "init")                                            \
  FAILS_BY(PLAIN, function, PermissionDenied, capability, "{\"store\":\"main\"" rest, "ask")

ANY(store_blame, "store.blame", ",\"key\":\"plan\"}")
POINTS_BY(OPERATOR, store_blame, "store.blame", "{\"store\":\"main\",\"key\":\"plan\",\"at\":\"", "\"}")
ANY(store_commit, "store.commit", ",\"changes\":[{\"key\":\"k\",\"delete\":true}]}")
ANY(store_diff, "store.diff", "}")
POINTS_BY(OPERATOR, store_diff, "store.diff", "{\"store\":\"main\",\"from\":\"", "\"}")
ANY(store_get, "store.get", ",\"key\":\"plan\"}")
POINTS_BY(OPERATOR, store_get, "store.get", "{\"store\":\"main\",\"key\":\"plan\",\"at\":\"", "\"}")
ANY(store_history, "store.history", ",\"key\":\"plan\"}")
POINTS_BY(OPERATOR, store_history, "store.history", "{\"store\":\"main\",\"key\":\"plan\",\"at\":\"", "\"}")
ANY(store_list, "store.list", "}")
POINTS_BY(OPERATOR, store_list, "store.list", "{\"store\":\"main\",\"at\":\"", "\"}")
ANY(store_log, "store.log", "}")
POINTS_BY(OPERATOR, store_log, "store.log", "{\"store\":\"main\",\"at\":\"", "\"}")
ANY(store_mark, "store.mark", ",\"kind\":\"pin\"}")
POINTS_BY(OPERATOR, store_mark, "store.mark", "{\"store\":\"main\",\"kind\":\"pin\",\"at\":\"", "\"}")
ANY(store_merge, "store.merge", ",\"from\":\"main\"}")
POINTS_BY(OPERATOR, store_merge, "store.merge", "{\"store\":\"main\",\"from\":\"", "\"}")
ANY(store_move, "store.move", ",\"how\":\"undo\"}")
POINTS_BY(OPERATOR, store_move, "store.move", "{\"store\":\"main\",\"how\":\"reset\",\"to\":\"", "\"}")
ANY(store_refs, "store.refs", "}")
ANY(store_stats, "store.stats", "}")
ANY(store_verify, "store.verify", "}")
POINTS_BY(OPERATOR, store_verify, "store.verify", "{\"store\":\"main\",\"since\":\"", "\"}")
ANY(store_du, "store.du", "}")
POINTS_BY(OPERATOR, store_du, "store.du", "{\"store\":\"main\",\"at\":\"", "\"}")
ANY(store_erase, "store.erase", ",\"key\":\"plan\",\"dry_run\":true}")
ANY(store_gc, "store.gc", ",\"dry_run\":true}")
ANY(store_message, "store.message", ",\"message\":\"m\"}")
POINTS_BY(OPERATOR, store_message, "store.message", "{\"store\":\"main\",\"message\":\"m\",\"at\":\"", "\"}")
ANY(store_messages, "store.messages", "}")
ANY(store_prove, "store.prove", ",\"key\":\"plan\"}")
POINTS_BY(OPERATOR, store_prove, "store.prove", "{\"store\":\"main\",\"key\":\"plan\",\"at\":\"", "\"}")
ANY(store_repair, "store.repair", ",\"dry_run\":true}")
ANY(store_setting, "store.setting", ",\"name\":\"n\",\"value\":\"1\"}")
ANY(store_settings, "store.settings", "}")
FAILS_BY(OPERATOR, store_erase, NotFound, "store.erase", "{\"store\":\"main\",\"key\":\"never\",\"dry_run\":true}", "list")
FAILS_BY(OPERATOR, store_messages, NotFound, "store.messages", "{\"store\":\"main\",\"message\":\"never\"}", "list")
FAILS_BY(OPERATOR, store_setting, NotFound, "store.setting", "{\"store\":\"main\",\"name\":\"never\",\"delete\":true}", "list")
FAILS_BY(OPERATOR, store_settings, NotFound, "store.settings", "{\"store\":\"main\",\"name\":\"never\"}", "list")
FAILS_BY(OPERATOR, store_prove, ValueErased, "store.prove", "{\"store\":\"main\",\"key\":\"gone\",\"at\":\"$ERASED\"}", "choose")
FAILS_BY(OPERATOR, store_commit, NotFound, "store.commit",
         "{\"store\":\"main\",\"ref\":\"fork/none\",\"changes\":[{\"key\":\"k\",\"delete\":true}]}", "list")
FAILS_BY(OPERATOR, store_commit, VersionConflict, "store.commit",
         "{\"store\":\"main\",\"changes\":[{\"key\":\"plan\",\"delete\":true,\"expected_version\":0}]}", "reload")
FAILS_BY(OPERATOR, store_blame, ValueErased, "store.blame", "{\"store\":\"main\",\"key\":\"gone\",\"at\":\"$ERASED\"}", "choose")
FAILS_BY(OPERATOR, store_diff, ValueErased, "store.diff", "{\"store\":\"main\",\"from\":\"main\",\"to\":\"$ERASED\",\"values\":\"all\"}",
         "choose")
FAILS_BY(OPERATOR, store_get, ValueErased, "store.get", "{\"store\":\"main\",\"key\":\"gone\",\"at\":\"$ERASED\"}", "choose")
FAILS_BY(OPERATOR, store_list, ValueErased, "store.list", "{\"store\":\"main\",\"at\":\"$ERASED\",\"values\":true}", "choose")
FAILS_BY(OPERATOR, store_log, ValueErased, "store.log", "{\"store\":\"main\",\"at\":\"$ERASED\",\"one\":true,\"values\":true}", "choose")
FAILS_BY(OPERATOR, store_merge, ValueErased, "store.merge", "{\"store\":\"main\",\"from\":\"$LOST\"}", "choose")
FAILS_BY(OPERATOR, store_mark, AlreadyExists, "store.mark", "{\"store\":\"main\",\"kind\":\"tag\",\"name\":\"tagged\"}", "rename")
FAILS_BY(OPERATOR, store_move, AlreadyExists, "store.move", "{\"store\":\"main\",\"how\":\"fork\",\"name\":\"fork/grow\"}", "rename")

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(history_log__err_NotFound__is_told),
    cmocka_unit_test(history_log__err_Ambiguous__is_told),
    cmocka_unit_test(history_log__err_Retired__is_told),
    cmocka_unit_test(history_log__err_InvalidTimestamp__is_told),
    cmocka_unit_test(history_show__err_NotFound__is_told),
    cmocka_unit_test(history_show__err_Ambiguous__is_told),
    cmocka_unit_test(history_show__err_Retired__is_told),
    cmocka_unit_test(history_get__err_NotFound__is_told),
    cmocka_unit_test(history_get__err_Ambiguous__is_told),
    cmocka_unit_test(history_get__err_Retired__is_told),
    cmocka_unit_test(history_get__err_ValueErased__is_told),
    cmocka_unit_test(history_list__err_NotFound__is_told),
    cmocka_unit_test(history_list__err_Ambiguous__is_told),
    cmocka_unit_test(history_list__err_Retired__is_told),
    cmocka_unit_test(history_diff__err_NotFound__is_told),
    cmocka_unit_test(history_diff__err_Ambiguous__is_told),
    cmocka_unit_test(history_diff__err_Retired__is_told),
    cmocka_unit_test(history_key__err_NotFound__is_told),
    cmocka_unit_test(history_key__err_Ambiguous__is_told),
    cmocka_unit_test(history_key__err_Retired__is_told),
    cmocka_unit_test(history_key__err_KeyNotFound__is_told),
    cmocka_unit_test(history_blame__err_NotFound__is_told),
    cmocka_unit_test(history_blame__err_Ambiguous__is_told),
    cmocka_unit_test(history_blame__err_Retired__is_told),
    cmocka_unit_test(history_blame__err_KeyNotFound__is_told),
    cmocka_unit_test(history_blame__err_ValueErased__is_told),
    cmocka_unit_test(history_prove__err_NotFound__is_told),
    cmocka_unit_test(history_prove__err_Ambiguous__is_told),
    cmocka_unit_test(history_prove__err_Retired__is_told),
    cmocka_unit_test(history_prove__err_ValueErased__is_told),
    cmocka_unit_test(history_prove__err_NotDescendant__is_told),
    cmocka_unit_test(history_verify__err_NotFound__is_told),
    cmocka_unit_test(history_verify__err_Ambiguous__is_told),
    cmocka_unit_test(history_verify__err_Retired__is_told),
    cmocka_unit_test(history_commit__err_NotFound__is_told),
    cmocka_unit_test(history_commit__err_VersionConflict__is_told),
    cmocka_unit_test(history_commit__err_HeadMoved__is_told),
    cmocka_unit_test(history_commit__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_undo__err_NotFound__is_told),
    cmocka_unit_test(history_undo__err_HeadMoved__is_told),
    cmocka_unit_test(history_undo__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_undo__err_ValueErased__is_told),
    cmocka_unit_test(history_redo__err_NotFound__is_told),
    cmocka_unit_test(history_redo__err_NothingToRedo__is_told),
    cmocka_unit_test(history_redo__err_HeadMoved__is_told),
    cmocka_unit_test(history_redo__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_redo__err_ValueErased__is_told),
    cmocka_unit_test(history_reset__err_NotFound__is_told),
    cmocka_unit_test(history_reset__err_Ambiguous__is_told),
    cmocka_unit_test(history_reset__err_Retired__is_told),
    cmocka_unit_test(history_reset__err_HeadMoved__is_told),
    cmocka_unit_test(history_reset__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_reset__err_ValueErased__is_told),
    cmocka_unit_test(history_rollback__err_NotFound__is_told),
    cmocka_unit_test(history_rollback__err_Ambiguous__is_told),
    cmocka_unit_test(history_rollback__err_Retired__is_told),
    cmocka_unit_test(history_rollback__err_HeadMoved__is_told),
    cmocka_unit_test(history_rollback__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_fork__err_NotFound__is_told),
    cmocka_unit_test(history_fork__err_Ambiguous__is_told),
    cmocka_unit_test(history_fork__err_Retired__is_told),
    cmocka_unit_test(history_fork__err_AlreadyExists__is_told),
    cmocka_unit_test(history_fork__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_drop__err_NotFound__is_told),
    cmocka_unit_test(history_merge__err_NotFound__is_told),
    cmocka_unit_test(history_merge__err_Ambiguous__is_told),
    cmocka_unit_test(history_merge__err_Retired__is_told),
    cmocka_unit_test(history_merge__err_HeadMoved__is_told),
    cmocka_unit_test(history_merge__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_merge__err_ValueErased__is_told),
    cmocka_unit_test(history_cherry_pick__err_NotFound__is_told),
    cmocka_unit_test(history_cherry_pick__err_Ambiguous__is_told),
    cmocka_unit_test(history_cherry_pick__err_Retired__is_told),
    cmocka_unit_test(history_cherry_pick__err_HeadMoved__is_told),
    cmocka_unit_test(history_cherry_pick__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_cherry_pick__err_ValueErased__is_told),
    cmocka_unit_test(history_revert__err_NotFound__is_told),
    cmocka_unit_test(history_revert__err_Ambiguous__is_told),
    cmocka_unit_test(history_revert__err_Retired__is_told),
    cmocka_unit_test(history_revert__err_HeadMoved__is_told),
    cmocka_unit_test(history_revert__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_revert__err_ValueErased__is_told),
    cmocka_unit_test(history_tag__err_NotFound__is_told),
    cmocka_unit_test(history_tag__err_Ambiguous__is_told),
    cmocka_unit_test(history_tag__err_Retired__is_told),
    cmocka_unit_test(history_tag__err_AlreadyExists__is_told),
    cmocka_unit_test(history_tag__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_untag__err_NotFound__is_told),
    cmocka_unit_test(history_pin__err_NotFound__is_told),
    cmocka_unit_test(history_pin__err_Ambiguous__is_told),
    cmocka_unit_test(history_pin__err_Retired__is_told),
    cmocka_unit_test(history_pin__err_QuotaExceeded__is_told),
    cmocka_unit_test(history_unpin__err_NotFound__is_told),
    cmocka_unit_test(history_unpin__err_Ambiguous__is_told),
    cmocka_unit_test(history_unpin__err_Retired__is_told),
    cmocka_unit_test(store_du__err_StoreNotFound__is_told),
    cmocka_unit_test(store_du__err_PermissionDenied__is_told),
    cmocka_unit_test(store_du__err_NotFound__is_told),
    cmocka_unit_test(store_du__err_Ambiguous__is_told),
    cmocka_unit_test(store_du__err_Retired__is_told),
    cmocka_unit_test(store_erase__err_StoreNotFound__is_told),
    cmocka_unit_test(store_erase__err_PermissionDenied__is_told),
    cmocka_unit_test(store_erase__err_NotFound__is_told),
    cmocka_unit_test(store_gc__err_StoreNotFound__is_told),
    cmocka_unit_test(store_gc__err_PermissionDenied__is_told),
    cmocka_unit_test(store_message__err_StoreNotFound__is_told),
    cmocka_unit_test(store_message__err_PermissionDenied__is_told),
    cmocka_unit_test(store_message__err_NotFound__is_told),
    cmocka_unit_test(store_message__err_Ambiguous__is_told),
    cmocka_unit_test(store_message__err_Retired__is_told),
    cmocka_unit_test(store_messages__err_StoreNotFound__is_told),
    cmocka_unit_test(store_messages__err_PermissionDenied__is_told),
    cmocka_unit_test(store_messages__err_NotFound__is_told),
    cmocka_unit_test(store_prove__err_StoreNotFound__is_told),
    cmocka_unit_test(store_prove__err_PermissionDenied__is_told),
    cmocka_unit_test(store_prove__err_NotFound__is_told),
    cmocka_unit_test(store_prove__err_Ambiguous__is_told),
    cmocka_unit_test(store_prove__err_Retired__is_told),
    cmocka_unit_test(store_prove__err_ValueErased__is_told),
    cmocka_unit_test(store_repair__err_StoreNotFound__is_told),
    cmocka_unit_test(store_repair__err_PermissionDenied__is_told),
    cmocka_unit_test(store_setting__err_StoreNotFound__is_told),
    cmocka_unit_test(store_setting__err_PermissionDenied__is_told),
    cmocka_unit_test(store_setting__err_NotFound__is_told),
    cmocka_unit_test(store_settings__err_StoreNotFound__is_told),
    cmocka_unit_test(store_settings__err_PermissionDenied__is_told),
    cmocka_unit_test(store_settings__err_NotFound__is_told),
    cmocka_unit_test(store_blame__err_StoreNotFound__is_told),
    cmocka_unit_test(store_blame__err_PermissionDenied__is_told),
    cmocka_unit_test(store_blame__err_NotFound__is_told),
    cmocka_unit_test(store_blame__err_Ambiguous__is_told),
    cmocka_unit_test(store_blame__err_Retired__is_told),
    cmocka_unit_test(store_commit__err_StoreNotFound__is_told),
    cmocka_unit_test(store_commit__err_PermissionDenied__is_told),
    cmocka_unit_test(store_diff__err_StoreNotFound__is_told),
    cmocka_unit_test(store_diff__err_PermissionDenied__is_told),
    cmocka_unit_test(store_diff__err_NotFound__is_told),
    cmocka_unit_test(store_diff__err_Ambiguous__is_told),
    cmocka_unit_test(store_diff__err_Retired__is_told),
    cmocka_unit_test(store_get__err_StoreNotFound__is_told),
    cmocka_unit_test(store_get__err_PermissionDenied__is_told),
    cmocka_unit_test(store_get__err_NotFound__is_told),
    cmocka_unit_test(store_get__err_Ambiguous__is_told),
    cmocka_unit_test(store_get__err_Retired__is_told),
    cmocka_unit_test(store_history__err_StoreNotFound__is_told),
    cmocka_unit_test(store_history__err_PermissionDenied__is_told),
    cmocka_unit_test(store_history__err_NotFound__is_told),
    cmocka_unit_test(store_history__err_Ambiguous__is_told),
    cmocka_unit_test(store_history__err_Retired__is_told),
    cmocka_unit_test(store_list__err_StoreNotFound__is_told),
    cmocka_unit_test(store_list__err_PermissionDenied__is_told),
    cmocka_unit_test(store_list__err_NotFound__is_told),
    cmocka_unit_test(store_list__err_Ambiguous__is_told),
    cmocka_unit_test(store_list__err_Retired__is_told),
    cmocka_unit_test(store_log__err_StoreNotFound__is_told),
    cmocka_unit_test(store_log__err_PermissionDenied__is_told),
    cmocka_unit_test(store_log__err_NotFound__is_told),
    cmocka_unit_test(store_log__err_Ambiguous__is_told),
    cmocka_unit_test(store_log__err_Retired__is_told),
    cmocka_unit_test(store_mark__err_StoreNotFound__is_told),
    cmocka_unit_test(store_mark__err_PermissionDenied__is_told),
    cmocka_unit_test(store_mark__err_NotFound__is_told),
    cmocka_unit_test(store_mark__err_Ambiguous__is_told),
    cmocka_unit_test(store_mark__err_Retired__is_told),
    cmocka_unit_test(store_merge__err_StoreNotFound__is_told),
    cmocka_unit_test(store_merge__err_PermissionDenied__is_told),
    cmocka_unit_test(store_merge__err_NotFound__is_told),
    cmocka_unit_test(store_merge__err_Ambiguous__is_told),
    cmocka_unit_test(store_merge__err_Retired__is_told),
    cmocka_unit_test(store_move__err_StoreNotFound__is_told),
    cmocka_unit_test(store_move__err_PermissionDenied__is_told),
    cmocka_unit_test(store_move__err_NotFound__is_told),
    cmocka_unit_test(store_move__err_Ambiguous__is_told),
    cmocka_unit_test(store_move__err_Retired__is_told),
    cmocka_unit_test(store_refs__err_StoreNotFound__is_told),
    cmocka_unit_test(store_refs__err_PermissionDenied__is_told),
    cmocka_unit_test(store_stats__err_StoreNotFound__is_told),
    cmocka_unit_test(store_stats__err_PermissionDenied__is_told),
    cmocka_unit_test(store_verify__err_StoreNotFound__is_told),
    cmocka_unit_test(store_verify__err_PermissionDenied__is_told),
    cmocka_unit_test(store_verify__err_NotFound__is_told),
    cmocka_unit_test(store_verify__err_Ambiguous__is_told),
    cmocka_unit_test(store_verify__err_Retired__is_told),
    cmocka_unit_test(store_commit__err_NotFound__is_told),
    cmocka_unit_test(store_commit__err_VersionConflict__is_told),
    cmocka_unit_test(store_blame__err_ValueErased__is_told),
    cmocka_unit_test(store_diff__err_ValueErased__is_told),
    cmocka_unit_test(store_get__err_ValueErased__is_told),
    cmocka_unit_test(store_list__err_ValueErased__is_told),
    cmocka_unit_test(store_log__err_ValueErased__is_told),
    cmocka_unit_test(store_merge__err_ValueErased__is_told),
    cmocka_unit_test(store_mark__err_AlreadyExists__is_told),
    cmocka_unit_test(store_move__err_AlreadyExists__is_told),
  };
  return cmocka_run_group_tests(tests, open_world, close_world);
}
