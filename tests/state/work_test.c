/* work_test.c: <perdure/work.h>: items in StateStores of all types. The same rules as capabilities: work_call_test.c. */
#include "state/desk.h"

#include "state/work.h"

static const pd_statestore_type types[] = {PD_STATESTORE_MEMORY, PD_STATESTORE_FILE, PD_STATESTORE_DATABASE, PD_STATESTORE_PERDURE};

/* A StateStore with its items. */
typedef struct office {
  desk d;
  pd_work *work;
  pd_buf text;
  pd_work_item item; /* the last one; borrowed from text */
} office;

static void office_start(office *o, const pd_work_options *options)
{
  if (pd_work_open(o->d.s, options, &o->work, &o->d.err)) fail_msg("%s", o->d.err.message);
}

static void office_open(office *o, pd_statestore_type type)
{
  *o = (office){0};
  desk_open(&o->d, type);
  office_start(o, NULL);
}

static void office_restart(office *o)
{
  pd_work_close(o->work);
  desk_restart(&o->d);
  office_start(o, NULL);
}

static void office_done(office *o)
{
  pd_work_close(o->work);
  pd_buf_done(&o->text);
  desk_done(&o->d);
}

/* What was answered. */
static void took(office *o, pd_code code)
{
  if (code) fail_msg("%s", o->d.err.message);
  if (pd_work_parse(pd_buf_bytes(&o->text), &o->item, &o->d.err)) fail_msg("%s", o->d.err.message);
}

static void create(office *o, const char *id)
{
  took(o, pd_work_create(o->work, &(pd_work_request){.id = id, .title = "t", .input = pd_text("{\"n\":1}")}, &o->text, &o->d.err));
}

static void claim(office *o, const char *id)
{
  took(o, pd_work_claim(o->work, &(pd_work_claim_options){.id = id}, &o->text, &o->d.err));
}

static void status_is(office *o, const char *id, pd_work_status status)
{
  took(o, pd_work_get(o->work, id, &o->text, &o->d.err));
  assert_string_equal(pd_work_status_name(o->item.status), pd_work_status_name(status));
}

static void refused(office *o, pd_code code, pd_code wanted, const char *name)
{
  assert_int_equal(code, wanted);
  assert_string_equal(pd_error_name(&o->d.err), name);
}

static bool add_id(void *ctx, const pd_work_item *item, pd_bytes json)
{
  pd_buf *list = ctx;
  (void)json;
  assert_int_equal(pd_buf_printf(list, NULL, "%s ", item->id), PD_OK);
  return true;
}

static void ids_are(office *o, const pd_work_query *query, const char *wanted)
{
  CLEANUP(pd_buf_done) pd_buf list = {0};
  if (pd_work_list(o->work, query, add_id, &list, NULL, &o->d.err)) fail_msg("%s", o->d.err.message);
  assert_text(&list, wanted);
}

/* ---- making and finding ---- */

static void work__create_writes_index_and_item_in_one_batch_on_all_types(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(types); i++) {
    office o;
    office_open(&o, types[i]);
    create(&o, "abc-123");
    create(&o, "def-456");
    assert_value(&o.d, "run:index", "[\"abc-123\",\"def-456\"]");
    assert_value(
      &o.d, "run:abc-123",
      "{\"id\":\"abc-123\",\"status\":\"pending\",\"title\":\"t\",\"input\":{\"n\":1},\"created_at\":\"2023-11-14T22:13:20.000Z\","
      "\"updated_at\":\"2023-11-14T22:13:20.000Z\"}");
    office_done(&o);
  }
}

static void work__an_id_that_nobody_gave_is_a_uuid(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  create(&o, NULL);
  assert_int_equal(strlen(o.item.id), 36);
  assert_int_equal(o.item.id[14], '4');
  assert_true(strchr("89ab", o.item.id[19]) != NULL);
  char first[PD_WORK_ID_SIZE_MAX + 1];
  snprintf(first, sizeof first, "%s", o.item.id);
  create(&o, NULL);
  assert_string_not_equal(first, o.item.id);
  office_done(&o);
}

static void work__ids_that_are_none_are_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {"", "index", "a b", "a/b", "a:b", "a\"b", "\xc3\xa9"};
  char long_id[PD_WORK_ID_SIZE_MAX + 2] = "";
  memset(long_id, 'x', PD_WORK_ID_SIZE_MAX + 1);
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  for (size_t i = 0; i <= COUNT_OF(bad); i++) {
    const char *id = i < COUNT_OF(bad) ? bad[i] : long_id;
    assert_int_equal(pd_work_create(o.work, &(pd_work_request){.id = id}, NULL, &o.d.err), PD_INVALID);
    assert_int_equal(pd_work_get(o.work, id, &o.text, &o.d.err), PD_INVALID);
    assert_int_equal(pd_work_cancel(o.work, id, NULL, NULL, &o.d.err), PD_INVALID);
  }
  assert_keys(&o.d, "", "");
  office_done(&o);
}

static void work__an_id_is_used_once(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  create(&o, "a");
  refused(&o, pd_work_create(o.work, &(pd_work_request){.id = "a"}, NULL, &o.d.err), PD_EXISTS, "RunExists");
  assert_value(&o.d, "run:index", "[\"a\"]");
  office_done(&o);
}

static void work__values_that_are_no_json_or_too_large_change_nothing(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  CLEANUP(pd_buf_done) pd_buf big = {0};
  assert_int_equal(pd_buf_printf(&big, NULL, "\"%*s\"", (int)PD_WORK_VALUE_SIZE_MAX, ""), PD_OK);
  char deep[2 * PD_WORK_VALUE_DEPTH_MAX + 3] = "";
  memset(deep, '[', PD_WORK_VALUE_DEPTH_MAX + 1);
  memset(deep + PD_WORK_VALUE_DEPTH_MAX + 1, ']', PD_WORK_VALUE_DEPTH_MAX + 1);
  assert_int_equal(pd_work_create(o.work, &(pd_work_request){.input = pd_text("{")}, NULL, &o.d.err), PD_INVALID);
  assert_int_equal(pd_work_create(o.work, &(pd_work_request){.input = pd_buf_bytes(&big)}, NULL, &o.d.err), PD_LIMIT);
  assert_int_equal(pd_work_create(o.work, &(pd_work_request){.input = pd_text(deep)}, NULL, &o.d.err), PD_LIMIT);
  assert_int_equal(pd_work_create(o.work, &(pd_work_request){.title = "\xff"}, NULL, &o.d.err), PD_INVALID);
  assert_keys(&o.d, "", "");
  deep[PD_WORK_VALUE_DEPTH_MAX] = 0;
  snprintf(
    deep + PD_WORK_VALUE_DEPTH_MAX, sizeof deep - PD_WORK_VALUE_DEPTH_MAX, "%.*s", PD_WORK_VALUE_DEPTH_MAX,
    "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
  took(&o, pd_work_create(o.work, &(pd_work_request){.input = pd_text(deep)}, &o.text, &o.d.err));
  office_done(&o);
}

static void work__list_is_by_status_and_in_order(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  static const char *const ids[] = {"c", "a", "b", "d"};
  for (size_t i = 0; i < COUNT_OF(ids); i++) create(&o, ids[i]);
  claim(&o, "a");
  took(&o, pd_work_cancel(o.work, "b", "no need", &o.text, &o.d.err));
  ids_are(&o, NULL, "c a b d ");
  ids_are(&o, &(pd_work_query){.newest_first = true, .limit = 2}, "d b ");
  ids_are(&o, &(pd_work_query){.statuses = 1u << PD_WORK_PENDING}, "c d ");
  ids_are(&o, &(pd_work_query){.statuses = 1u << PD_WORK_INVESTIGATING | 1u << PD_WORK_CANCELLED}, "a b ");
  ids_are(&o, &(pd_work_query){.statuses = 1u << PD_WORK_FAILED}, "");
  office_done(&o);
}

/* ---- moves ---- */

static pd_code make_move(office *o, const char *id, const char *token, pd_work_status to)
{
  switch (to) {
  case PD_WORK_PENDING: return pd_work_give_back(o->work, id, token, NULL, NULL, &o->d.err);
  case PD_WORK_INVESTIGATING: return pd_work_claim(o->work, &(pd_work_claim_options){.id = id}, NULL, &o->d.err);
  case PD_WORK_COMPLETED: return pd_work_complete(o->work, id, token, pd_text("1"), NULL, &o->d.err);
  case PD_WORK_FAILED: return pd_work_fail(o->work, id, token, pd_text("2"), NULL, &o->d.err);
  default: return pd_work_cancel(o->work, id, "why", NULL, &o->d.err);
  }
}

/* All 25 pairs: exactly the legal ones change anything. */
static void work__only_legal_moves_change_the_status(void **state)
{
  (void)state;
  static const char *const legal[PD_WORK_STATUS_COUNT] = {"01011", "10111", "00000", "00000", "00000"};
  for (unsigned from = 0; from < PD_WORK_STATUS_COUNT; from++)
    for (unsigned to = 0; to < PD_WORK_STATUS_COUNT; to++) {
      office o;
      office_open(&o, PD_STATESTORE_MEMORY);
      create(&o, "r");
      char token[PD_WORK_ID_SIZE_MAX + 1] = "";
      if (from != PD_WORK_PENDING) {
        claim(&o, "r");
        snprintf(token, sizeof token, "%s", o.item.token);
        if (from > PD_WORK_INVESTIGATING) assert_int_equal(make_move(&o, "r", token, (pd_work_status)from), PD_OK);
      }
      pd_code code = make_move(&o, "r", token, (pd_work_status)to);
      bool is_retry = from == to && from >= PD_WORK_COMPLETED;
      if (legal[from][to] == '1' || is_retry) {
        if (code) fail_msg("%u to %u: %s", from, to, o.d.err.message);
        status_is(&o, "r", (pd_work_status)to);
      } else {
        assert_int_equal(code, PD_CONFLICT);
        status_is(&o, "r", (pd_work_status)from);
      }
      office_done(&o);
    }
}

static void work__claim_takes_the_oldest_that_waits(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  refused(&o, pd_work_claim(o.work, NULL, NULL, &o.d.err), PD_NOT_FOUND, "NoRunWaits");
  create(&o, "z");
  create(&o, "a");
  claim(&o, NULL);
  assert_string_equal(o.item.id, "z");
  assert_string_equal(o.item.owner, "main");
  assert_int_equal(o.item.attempts, 1);
  assert_int_equal(o.item.claimed_ms, o.d.now_ms);
  claim(&o, NULL);
  assert_string_equal(o.item.id, "a");
  refused(&o, pd_work_claim(o.work, NULL, NULL, &o.d.err), PD_NOT_FOUND, "NoRunWaits");
  refused(&o, pd_work_claim(o.work, &(pd_work_claim_options){.id = "z"}, NULL, &o.d.err), PD_CONFLICT, "RunNotHeld");
  refused(&o, pd_work_claim(o.work, &(pd_work_claim_options){.id = "q"}, NULL, &o.d.err), PD_NOT_FOUND, "RunNotFound");
  office_done(&o);
}

static void work__without_its_token_a_claimed_item_stays_as_it_is(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  create(&o, "r");
  claim(&o, "r");
  static const char *const tokens[] = {NULL, "", "00000000-0000-4000-8000-000000000000"};
  for (size_t i = 0; i < COUNT_OF(tokens); i++) {
    refused(&o, pd_work_update(o.work, "r", tokens[i], pd_text("1"), 0, NULL, &o.d.err), PD_CONFLICT, "RunNotHeld");
    refused(&o, pd_work_complete(o.work, "r", tokens[i], pd_text("1"), NULL, &o.d.err), PD_CONFLICT, "RunNotHeld");
    refused(&o, pd_work_fail(o.work, "r", tokens[i], pd_text("1"), NULL, &o.d.err), PD_CONFLICT, "RunNotHeld");
    refused(&o, pd_work_give_back(o.work, "r", tokens[i], NULL, NULL, &o.d.err), PD_CONFLICT, "RunNotHeld");
  }
  status_is(&o, "r", PD_WORK_INVESTIGATING);
  assert_null(o.item.progress.data);
  office_done(&o);
}

static void work__a_lease_that_passed_offers_the_item_to_the_next(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  create(&o, "r");
  took(&o, pd_work_claim(o.work, &(pd_work_claim_options){.owner = "one", .lease_ms = 1000}, &o.text, &o.d.err));
  char token[PD_WORK_ID_SIZE_MAX + 1];
  snprintf(token, sizeof token, "%s", o.item.token);
  o.d.now_ms += 900;
  took(&o, pd_work_update(o.work, "r", token, pd_text("{ \"half\": true }"), 1000, &o.text, &o.d.err));
  o.d.now_ms += 999;
  refused(&o, pd_work_claim(o.work, NULL, NULL, &o.d.err), PD_NOT_FOUND, "NoRunWaits");
  o.d.now_ms += 1;
  took(&o, pd_work_claim(o.work, &(pd_work_claim_options){.owner = "two"}, &o.text, &o.d.err));
  assert_string_equal(o.item.owner, "two");
  assert_int_equal(o.item.attempts, 2);
  assert_int_equal(o.item.lease_until_ms, 0);
  assert_true(pd_bytes_equal(o.item.progress, pd_text("{\"half\":true}"))); /* whoever goes on finds it */
  refused(&o, pd_work_complete(o.work, "r", token, pd_text("1"), NULL, &o.d.err), PD_CONFLICT, "RunNotHeld");
  office_done(&o);
}

static void work__a_lease_of_a_clock_a_year_ahead_is_over_when_it_is_put_right(void **state)
{
  (void)state;
  office o;
  int64_t year_ms = (int64_t)365 * 24 * 3600 * 1000;
  office_open(&o, PD_STATESTORE_MEMORY);
  create(&o, "r");
  o.d.now_ms += year_ms;
  took(&o, pd_work_claim(o.work, &(pd_work_claim_options){.owner = "one", .lease_ms = 1000}, &o.text, &o.d.err));
  o.d.now_ms -= year_ms;
  o.d.now_ms += 60000;
  took(&o, pd_work_claim(o.work, &(pd_work_claim_options){.owner = "two", .lease_ms = 1000}, &o.text, &o.d.err));
  assert_string_equal(o.item.owner, "two");
  refused(&o, pd_work_claim(o.work, NULL, NULL, &o.d.err), PD_NOT_FOUND, "NoRunWaits");
  office_done(&o);
}

static void work__ending_twice_in_the_same_way_is_a_retry_and_else_a_conflict(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  create(&o, "r");
  claim(&o, "r");
  char token[PD_WORK_ID_SIZE_MAX + 1];
  snprintf(token, sizeof token, "%s", o.item.token);
  took(&o, pd_work_complete(o.work, "r", token, pd_text("[1, 2]"), &o.text, &o.d.err));
  int64_t finished_ms = o.item.finished_ms;
  assert_int_equal(finished_ms, o.d.now_ms);
  o.d.now_ms += 5000;
  took(&o, pd_work_complete(o.work, "r", token, pd_text("[1,2]"), &o.text, &o.d.err));
  assert_int_equal(o.item.finished_ms, finished_ms);
  refused(&o, pd_work_complete(o.work, "r", token, pd_text("[1,3]"), NULL, &o.d.err), PD_CONFLICT, "RunStatusConflict");
  refused(&o, pd_work_complete(o.work, "r", "other", pd_text("[1,2]"), NULL, &o.d.err), PD_CONFLICT, "RunStatusConflict");
  refused(&o, pd_work_fail(o.work, "r", token, pd_text("[1,2]"), NULL, &o.d.err), PD_CONFLICT, "RunStatusConflict");
  office_done(&o);
}

static void work__an_item_that_is_never_finished_fails_after_attempts_max(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  took(&o, pd_work_create(o.work, &(pd_work_request){.id = "poison", .attempts_max = 2}, &o.text, &o.d.err));
  create(&o, "good");
  for (int i = 0; i < 2; i++) {
    claim(&o, NULL);
    assert_string_equal(o.item.id, "poison");
    took(&o, pd_work_give_back(o.work, "poison", o.item.token, "it fell", &o.text, &o.d.err));
    assert_true(pd_bytes_equal(o.item.reason, pd_text("\"it fell\"")));
    assert_string_equal(o.item.owner, "");
  }
  claim(&o, NULL);
  assert_string_equal(o.item.id, "good");
  status_is(&o, "poison", PD_WORK_FAILED);
  assert_true(pd_bytes_equal(o.item.error, pd_text("{\"message\":\"claimed 2 times, and never finished\"}")));
  took(&o, pd_work_create(o.work, &(pd_work_request){.id = "last", .attempts_max = 1}, &o.text, &o.d.err));
  claim(&o, "last");
  took(&o, pd_work_give_back(o.work, "last", o.item.token, NULL, &o.text, &o.d.err));
  refused(&o, pd_work_claim(o.work, &(pd_work_claim_options){.id = "last"}, NULL, &o.d.err), PD_CONFLICT, "RunStatusConflict");
  status_is(&o, "last", PD_WORK_FAILED);
  office_done(&o);
}

/* ---- starting again ---- */

static void work__on_start_pending_and_investigating_items_are_offered_again(void **state)
{
  (void)state;
  for (size_t i = 1; i < COUNT_OF(types); i++) {
    office o;
    office_open(&o, types[i]);
    create(&o, "one");
    create(&o, "two");
    create(&o, "over");
    took(&o, pd_work_cancel(o.work, "over", NULL, &o.text, &o.d.err));
    claim(&o, NULL);
    assert_string_equal(o.item.id, "one");
    office_restart(&o);
    ids_are(&o, &(pd_work_query){.statuses = 1u << PD_WORK_PENDING}, "one two ");
    claim(&o, NULL);
    assert_string_equal(o.item.id, "one");
    assert_int_equal(o.item.attempts, 2);
    office_done(&o);
  }
}

static void work__what_another_owner_does_is_not_offered_again(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_FILE);
  create(&o, "r");
  took(&o, pd_work_claim(o.work, &(pd_work_claim_options){.owner = "other"}, &o.text, &o.d.err));
  office_restart(&o);
  status_is(&o, "r", PD_WORK_INVESTIGATING);
  uint64_t count = 9;
  assert_int_equal(pd_work_resume(o.work, "other", &count, &o.d.err), PD_OK);
  assert_int_equal(count, 1);
  status_is(&o, "r", PD_WORK_PENDING);
  claim(&o, "r");
  pd_work_close(o.work);
  pd_work_options look = pd_work_defaults();
  look.keeps_claims = true;
  office_start(&o, &look);
  status_is(&o, "r", PD_WORK_INVESTIGATING);
  office_done(&o);
}

/* ---- what others wrote ---- */

static void work__members_that_perdure_does_not_know_are_kept(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  desk_set(&o.d, "run:index", "[\"abc-123\"]");
  desk_set(&o.d, "run:abc-123",
           "{\"id\":\"abc-123\",\"status\":\"investigating\",\"createdAt\":\"2024-01-01\",\"situation\":{\"a\":null},\"created_at\":7}");
  pd_work_close(o.work);
  office_start(&o, NULL); /* nobody owns it: offered again */
  claim(&o, NULL);
  assert_string_equal(o.item.id, "abc-123");
  took(&o, pd_work_complete(o.work, "abc-123", o.item.token, (pd_bytes){0}, &o.text, &o.d.err));
  pd_json json;
  assert_int_equal(pd_json_parse(pd_buf_bytes(&o.text), &json, NULL), PD_OK);
  assert_true(pd_json_is(pd_json_member(json, "createdAt"), "2024-01-01"));
  assert_true(pd_bytes_equal(pd_json_member(json, "situation").raw, pd_text("{\"a\":null}")));
  assert_true(pd_bytes_equal(pd_json_member(json, "created_at").raw, pd_text("7")));
  office_done(&o);
}

static void work__a_document_that_is_no_item_stops_nobody_and_is_told(void **state)
{
  (void)state;
  static const char *const bad[] = {"7",
                                    "{}",
                                    "{\"id\":\"bad\"}",
                                    "{\"id\":\"bad\",\"status\":\"sleeping\"}",
                                    "{\"id\":\"else\",\"status\":\"pending\"}",
                                    "{\"id\":\"bad\",\"status\":\"pending\",\"attempts\":-1}",
                                    "{\"id\":\"bad\",\"status\":\"pending\",\"owner\":[]}"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    office o;
    office_open(&o, PD_STATESTORE_MEMORY);
    create(&o, "bad");
    create(&o, "good");
    desk_set(&o.d, "run:bad", bad[i]);
    assert_int_equal(pd_work_get(o.work, "bad", &o.text, &o.d.err), PD_CORRUPT);
    assert_int_equal(pd_work_cancel(o.work, "bad", NULL, NULL, &o.d.err), PD_CORRUPT);
    assert_value(&o.d, "run:bad", bad[i]);
    CLEANUP(pd_buf_done) pd_buf list = {0};
    uint64_t unreadable = 0;
    assert_int_equal(pd_work_list(o.work, NULL, add_id, &list, &unreadable, &o.d.err), PD_OK);
    assert_int_equal(unreadable, 1);
    assert_text(&list, "good ");
    claim(&o, NULL);
    assert_string_equal(o.item.id, "good");
    office_done(&o);
  }
}

static void work__an_index_that_is_no_list_of_ids_is_corrupt_and_stays(void **state)
{
  (void)state;
  static const char *const bad[] = {"{}", "7", "[1]", "[\"\"]", "[\"a b\"]", "[\"index\"]", "[[\"a\"]]"};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    office o;
    office_open(&o, PD_STATESTORE_MEMORY);
    desk_set(&o.d, "run:index", bad[i]);
    assert_int_equal(pd_work_create(o.work, &(pd_work_request){.title = "x"}, NULL, &o.d.err), PD_CORRUPT);
    assert_int_equal(pd_work_claim(o.work, NULL, NULL, &o.d.err), PD_CORRUPT);
    pd_work *more = NULL;
    assert_int_equal(pd_work_open(o.d.s, NULL, &more, &o.d.err), PD_CORRUPT);
    assert_null(more);
    assert_value(&o.d, "run:index", bad[i]);
    office_done(&o);
  }
}

/* ---- pruning ---- */

static void end_item(office *o, const char *id)
{
  o->d.now_ms += 1000;
  took(o, pd_work_cancel(o->work, id, NULL, &o->text, &o->d.err));
}

static void work__pruned_are_those_that_are_over_by_count_and_age_and_never_live_ones(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_PERDURE);
  static const char *const ids[] = {"live", "c", "b", "a", "held"};
  for (size_t i = 0; i < COUNT_OF(ids); i++) create(&o, ids[i]);
  claim(&o, "held");
  end_item(&o, "a");
  end_item(&o, "b");
  end_item(&o, "c");
  CLEANUP(pd_buf_done) pd_buf gone = {0};
  uint64_t count = 0;
  pd_work_prune_options prune = {.keep_count = 2, .keep_ms = PD_WORK_KEEP_ALL, .is_dry_run = true};
  assert_int_equal(pd_work_prune(o.work, &prune, add_id, &gone, &count, &o.d.err), PD_OK);
  assert_int_equal(count, 1);
  assert_text(&gone, "a ");
  ids_are(&o, NULL, "live c b a held ");
  prune.is_dry_run = false;
  assert_int_equal(pd_work_prune(o.work, &prune, NULL, NULL, &count, &o.d.err), PD_OK);
  ids_are(&o, NULL, "live c b held ");
  assert_value(&o.d, "run:a", NULL);
  prune = (pd_work_prune_options){.keep_count = PD_WORK_KEEP_ALL, .keep_ms = 1000};
  assert_int_equal(pd_work_prune(o.work, &prune, NULL, NULL, &count, &o.d.err), PD_OK);
  ids_are(&o, NULL, "live c held ");
  prune = (pd_work_prune_options){0};
  assert_int_equal(pd_work_prune(o.work, &prune, NULL, NULL, &count, &o.d.err), PD_OK);
  assert_value(&o.d, "run:index", "[\"live\",\"held\"]");
  assert_value(&o.d, "run:c", NULL);
  office_done(&o);
}

static void work__ending_an_item_prunes_the_oldest_that_are_over(void **state)
{
  (void)state;
  office o;
  *(&o) = (office){0};
  desk_open(&o.d, PD_STATESTORE_MEMORY);
  pd_work_options few = {.keep_count = 2, .keep_ms = PD_WORK_KEEP_ALL};
  office_start(&o, &few);
  static const char *const ids[] = {"a", "b", "c", "d", "live"};
  for (size_t i = 0; i < COUNT_OF(ids); i++) create(&o, ids[i]);
  for (size_t i = 0; i < 4; i++) end_item(&o, ids[i]);
  ids_are(&o, NULL, "c d live ");
  pd_work_close(o.work);
  few.keep_ms = 500;
  office_start(&o, &few); /* opening prunes, too */
  ids_are(&o, NULL, "d live ");
  office_done(&o);
}

static void work__ids_without_a_document_leave_the_index_with_the_next_prune(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  create(&o, "a");
  create(&o, "b");
  desk_delete(&o.d, "run:a");
  ids_are(&o, NULL, "b ");
  assert_int_equal(pd_work_prune(o.work, NULL, NULL, NULL, NULL, &o.d.err), PD_OK);
  assert_value(&o.d, "run:index", "[\"b\"]");
  office_done(&o);
}

/* ---- many ---- */

#define THREADS 4
#define EACH 50

static void *work(void *ctx)
{
  office *o = ctx;
  pd_buf text = {0};
  pd_error err;
  pd_work_item item;
  size_t done = 0;
  for (int i = 0; i < EACH; i++)
    if (pd_work_create(o->work, &(pd_work_request){.title = "t"}, NULL, &err)) return NULL;
  while (pd_work_claim(o->work, NULL, &text, &err) == PD_OK) {
    if (pd_work_parse(pd_buf_bytes(&text), &item, &err)) return NULL;
    if (pd_work_complete(o->work, item.id, item.token, pd_text("1"), NULL, &err)) return NULL;
    done++;
  }
  pd_buf_done(&text);
  return (void *)(done + 1);
}

static void work__threads_share_the_work_and_nothing_is_done_twice(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_FILE);
  pthread_t threads[THREADS];
  size_t done = 0;
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &o), 0);
  for (int i = 0; i < THREADS; i++) {
    void *answer;
    pthread_join(threads[i], &answer);
    assert_non_null(answer);
    done += (size_t)answer - 1;
  }
  assert_int_equal(done, THREADS * EACH);
  CLEANUP(pd_buf_done) pd_buf list = {0};
  assert_int_equal(pd_work_list(o.work, &(pd_work_query){.statuses = 1u << PD_WORK_COMPLETED}, add_id, &list, NULL, &o.d.err), PD_OK);
  assert_int_equal(list.size, THREADS * EACH * 37);
  office_done(&o);
}

static void work__has_at_most_ten_thousand_items(void **state)
{
  (void)state;
  office o;
  office_open(&o, PD_STATESTORE_MEMORY);
  CLEANUP(pd_buf_done) pd_buf index = {0};
  for (int i = 0; i < PD_WORK_COUNT_MAX; i++) assert_int_equal(pd_buf_printf(&index, NULL, i ? ",\"r%d\"" : "[\"r%d\"", i), PD_OK);
  assert_int_equal(pd_buf_printf(&index, NULL, "]%c", 0), PD_OK);
  desk_set(&o.d, "run:index", (const char *)index.data);
  refused(&o, pd_work_create(o.work, &(pd_work_request){.id = "one-more"}, NULL, &o.d.err), PD_QUOTA, "RunsFull");
  assert_value(&o.d, "run:one-more", NULL);
  office_done(&o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(work__create_writes_index_and_item_in_one_batch_on_all_types),
    cmocka_unit_test(work__an_id_that_nobody_gave_is_a_uuid),
    cmocka_unit_test(work__ids_that_are_none_are_refused),
    cmocka_unit_test(work__an_id_is_used_once),
    cmocka_unit_test(work__values_that_are_no_json_or_too_large_change_nothing),
    cmocka_unit_test(work__list_is_by_status_and_in_order),
    cmocka_unit_test(work__only_legal_moves_change_the_status),
    cmocka_unit_test(work__claim_takes_the_oldest_that_waits),
    cmocka_unit_test(work__without_its_token_a_claimed_item_stays_as_it_is),
    cmocka_unit_test(work__a_lease_that_passed_offers_the_item_to_the_next),
    cmocka_unit_test(work__a_lease_of_a_clock_a_year_ahead_is_over_when_it_is_put_right),
    cmocka_unit_test(work__ending_twice_in_the_same_way_is_a_retry_and_else_a_conflict),
    cmocka_unit_test(work__an_item_that_is_never_finished_fails_after_attempts_max),
    cmocka_unit_test(work__on_start_pending_and_investigating_items_are_offered_again),
    cmocka_unit_test(work__what_another_owner_does_is_not_offered_again),
    cmocka_unit_test(work__members_that_perdure_does_not_know_are_kept),
    cmocka_unit_test(work__a_document_that_is_no_item_stops_nobody_and_is_told),
    cmocka_unit_test(work__an_index_that_is_no_list_of_ids_is_corrupt_and_stays),
    cmocka_unit_test(work__pruned_are_those_that_are_over_by_count_and_age_and_never_live_ones),
    cmocka_unit_test(work__ending_an_item_prunes_the_oldest_that_are_over),
    cmocka_unit_test(work__ids_without_a_document_leave_the_index_with_the_next_prune),
    cmocka_unit_test(work__threads_share_the_work_and_nothing_is_done_twice),
    cmocka_unit_test(work__has_at_most_ten_thousand_items),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
