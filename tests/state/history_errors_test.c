/*
 * history_errors_test.c: every error that history.* names, provoked one by one: the code, and what the capability's file says can be done
 * about it. One world for all of them: a call that fails changes nothing.
 *
 * In inputs, $RETIRED is a commit that gc took, $SHORT the digits of two commits, $ERASED a commit whose key `gone` was erased.
 */
#include "state/world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COMMITS_MAX 4000
#define SHORT_SIZE 4

static char retired[PD_ID_HEX_SIZE], erased[PD_ID_HEX_SIZE], short_id[SHORT_SIZE + 1];
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

static int open_world(void **state)
{
  world *w = calloc(1, sizeof *w);
  pd_store *store;
  assert_non_null(w);
  world_open(w, "[store]\nflush = \"50 ms\"\n");
  world_ok(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":1}");
  head_of(w, retired);
  for (int i = 0; i < 200; i++) world_ok(w, "state.persistent.set", "{\"key\":\"plan\",\"value\":2}"); /* gc cuts no less than half */
  assert_int_equal(pd_home_borrow(w->home, "main", true, &store, &w->err), PD_OK);
  assert_int_equal(pd_store_flush(store, &w->err), PD_OK);
  assert_int_equal(pd_gc(store, &(pd_gc_policy){.keep_last = 1}, NULL, &w->err), PD_OK);
  world_ok(w, "state.persistent.set", "{\"key\":\"gone\",\"value\":\"secret\"}");
  head_of(w, erased);
  world_ok(w, "state.persistent.delete", "{\"key\":\"gone\"}");
  make_twins(w, store);
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
  } marks[] = {{"$RETIRED", retired}, {"$SHORT", short_id}, {"$ERASED", erased}};
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

static void fails(world *w, const char *capability, const char *input, const char *name, const char *action)
{
  char *text = fill_in(input);
  world_fails(w, capability, text, name, action);
  free(text);
}

#define FAILS(function, code, capability, input, action)                                                                                   \
  static void function##__err_##code##__is_told(void **state)                                                                              \
  {                                                                                                                                        \
    fails(*state, capability, input, #code, action);                                                                                       \
  }

/* The three that every point in history may answer with. */
#define POINTS(function, capability, before, after)                                                                                        \
  FAILS(function, NotFound, capability, before "nowhere" after, "list")                                                                    \
  FAILS(function, Ambiguous, capability, before "$SHORT" after, "lengthen")                                                                \
  FAILS(function, Retired, capability, before "$RETIRED" after, "choose")

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

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(history_log__err_NotFound__is_told),        cmocka_unit_test(history_log__err_Ambiguous__is_told),
    cmocka_unit_test(history_log__err_Retired__is_told),         cmocka_unit_test(history_log__err_InvalidTimestamp__is_told),
    cmocka_unit_test(history_show__err_NotFound__is_told),       cmocka_unit_test(history_show__err_Ambiguous__is_told),
    cmocka_unit_test(history_show__err_Retired__is_told),        cmocka_unit_test(history_get__err_NotFound__is_told),
    cmocka_unit_test(history_get__err_Ambiguous__is_told),       cmocka_unit_test(history_get__err_Retired__is_told),
    cmocka_unit_test(history_get__err_ValueErased__is_told),     cmocka_unit_test(history_list__err_NotFound__is_told),
    cmocka_unit_test(history_list__err_Ambiguous__is_told),      cmocka_unit_test(history_list__err_Retired__is_told),
    cmocka_unit_test(history_diff__err_NotFound__is_told),       cmocka_unit_test(history_diff__err_Ambiguous__is_told),
    cmocka_unit_test(history_diff__err_Retired__is_told),        cmocka_unit_test(history_key__err_NotFound__is_told),
    cmocka_unit_test(history_key__err_Ambiguous__is_told),       cmocka_unit_test(history_key__err_Retired__is_told),
    cmocka_unit_test(history_key__err_KeyNotFound__is_told),     cmocka_unit_test(history_blame__err_NotFound__is_told),
    cmocka_unit_test(history_blame__err_Ambiguous__is_told),     cmocka_unit_test(history_blame__err_Retired__is_told),
    cmocka_unit_test(history_blame__err_KeyNotFound__is_told),   cmocka_unit_test(history_blame__err_ValueErased__is_told),
    cmocka_unit_test(history_prove__err_NotFound__is_told),      cmocka_unit_test(history_prove__err_Ambiguous__is_told),
    cmocka_unit_test(history_prove__err_Retired__is_told),       cmocka_unit_test(history_prove__err_ValueErased__is_told),
    cmocka_unit_test(history_prove__err_NotDescendant__is_told), cmocka_unit_test(history_verify__err_NotFound__is_told),
    cmocka_unit_test(history_verify__err_Ambiguous__is_told),    cmocka_unit_test(history_verify__err_Retired__is_told),
  };
  return cmocka_run_group_tests(tests, open_world, close_world);
}
