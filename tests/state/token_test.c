/* token_test.c: tokens: what is stored, what is good, what it may do. */
#include "state/world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/sha256.h"
#include "state/token.h"

#include <perdure/token.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char text[PD_TOKEN_TEXT_SIZE], id[PD_TOKEN_ID_SIZE];

static void unquote(const char *json, char *out, size_t size)
{
  assert_true(strlen(json) >= 2 && strlen(json) - 2 < size);
  snprintf(out, size, "%.*s", (int)strlen(json) - 2, json + 1);
}

static void take(world *w)
{
  unquote(world_out(w, "token"), text, sizeof text);
  unquote(world_out(w, "token_id"), id, sizeof id);
}

static void open_world(world *w)
{
  world_open(w, NULL);
  w->is_operator = true;
}

static void want_bad(world *w, const char *given)
{
  pd_token_info info;
  pd_error err = {0};
  assert_int_equal(pd_token_check(w->home, given, &info, &err), PD_DENIED);
  assert_string_equal(pd_error_name(&err), "Unauthorized");
}

static void token__a_new_one_is_good_and_says_whose_it_is(void **state)
{
  (void)state;
  world w;
  pd_token_info info;
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"agent\",\"agent\":\"writer\",\"label\":\"x\"}");
  take(&w);
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  assert_int_equal(info.role, PD_ROLE_AGENT);
  assert_string_equal(info.agent, "writer");
  assert_string_equal(info.id, id);
  world_ok(&w, "tokens.create", "{\"role\":\"auditor\"}");
  take(&w);
  world_restart(&w);
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  assert_int_equal(info.role, PD_ROLE_AUDITOR);
  world_close(&w);
}

static void token__a_mark_is_good_as_long_as_its_text_is(void **state)
{
  (void)state;
  world w;
  pd_token_info info;
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"agent\",\"agent\":\"writer\",\"expires_in\":60}");
  take(&w);
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  pd_token_mark mark = {.hash = info.hash}, other;
  assert_int_equal(pd_token_recheck(w.home, &mark, NULL), PD_DENIED); /* no id */
  memcpy(mark.id, info.id, sizeof mark.id);
  assert_int_equal(pd_token_recheck(w.home, &mark, NULL), PD_OK);
  other = mark;
  other.hash.bytes[31] ^= 1;
  assert_int_equal(pd_token_recheck(w.home, &other, NULL), PD_DENIED);
  assert_int_equal(world_callf(&w, "tokens.rotate", "{\"token_id\":\"%s\",\"grace\":10}", id), PD_OK);
  assert_int_equal(pd_token_recheck(w.home, &mark, NULL), PD_OK);
  w.now_ms += 10000;
  assert_int_equal(pd_token_recheck(w.home, &mark, NULL), PD_DENIED);
  take(&w);
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  mark.hash = info.hash;
  assert_int_equal(pd_token_recheck(w.home, &mark, NULL), PD_OK);
  w.now_ms += 50000;
  assert_int_equal(pd_token_recheck(w.home, &mark, NULL), PD_DENIED); /* expired */
  w.now_ms -= 50000;
  assert_int_equal(world_callf(&w, "tokens.revoke", "{\"token_id\":\"%s\"}", id), PD_OK);
  assert_int_equal(pd_token_recheck(w.home, &mark, NULL), PD_DENIED);
  world_close(&w);
}

/* Memory does not grow with tokens that come and go. A text that was never good makes nothing forget. */
static void token__one_that_is_not_good_any_more_is_not_kept(void **state)
{
  (void)state;
  world w;
  pd_token_info info;
  pd_store_mark mark;
  char other[PD_TOKEN_TEXT_SIZE];
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"agent\",\"agent\":\"writer\"}");
  take(&w);
  pd_id hash = pd_sha256(pd_text(text));
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  snprintf(other, sizeof other, "%s", text);
  other[PD_TOKEN_TEXT_SIZE - 2] = other[PD_TOKEN_TEXT_SIZE - 2] == '0' ? '1' : '0';
  want_bad(&w, other);
  pd_held_token *held = pd_tokens_find(w.home->tokens, id, &hash, &mark);
  assert_non_null(held);
  pd_token_release(&held->token.info);
  assert_int_equal(world_callf(&w, "tokens.revoke", "{\"token_id\":\"%s\"}", id), PD_OK);
  want_bad(&w, text);
  assert_null(pd_tokens_find(w.home->tokens, id, &hash, &mark));
  world_close(&w);
}

static pd_code find_again(world *w, pd_token_memory *memory, const char *given)
{
  const pd_token_info *found = NULL;
  pd_code code = pd_token_find_again(w->home, given, memory, &found, NULL);
  if (!code) assert_string_equal(found->agent, "writer");
  pd_token_release(found);
  return code;
}

/* What a connection remembers is no better than the token: it is rotated, expires, is written to by others, and goes. */
static void token__what_a_connection_remembers_is_good_as_long_as_the_token_is(void **state)
{
  (void)state;
  world w;
  pd_token_memory memory = {.token = NULL};
  char other[PD_TOKEN_TEXT_SIZE];
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"agent\",\"agent\":\"writer\",\"expires_in\":60}");
  take(&w);
  assert_int_equal(find_again(&w, &memory, text), PD_OK);
  const pd_token_info *first = memory.token;
  assert_int_equal(find_again(&w, &memory, text), PD_OK);
  assert_ptr_equal(memory.token, first);
  snprintf(other, sizeof other, "%s", text);
  other[PD_TOKEN_TEXT_SIZE - 2] = other[PD_TOKEN_TEXT_SIZE - 2] == '0' ? '1' : '0';
  assert_int_equal(find_again(&w, &memory, other), PD_DENIED);
  assert_null(memory.token);
  assert_int_equal(find_again(&w, &memory, "pd_"), PD_DENIED);
  assert_int_equal(find_again(&w, &memory, text), PD_OK);
  memcpy(other, text, sizeof other);
  assert_int_equal(world_callf(&w, "tokens.rotate", "{\"token_id\":\"%s\",\"grace\":10}", id), PD_OK);
  assert_int_equal(find_again(&w, &memory, other), PD_OK); /* its old text, for a while */
  assert_int_equal(find_again(&w, &memory, other), PD_OK);
  w.now_ms += 10000;
  assert_int_equal(find_again(&w, &memory, other), PD_DENIED);
  take(&w);
  assert_int_equal(find_again(&w, &memory, text), PD_OK);
  w.now_ms += 50000;
  assert_int_equal(find_again(&w, &memory, text), PD_DENIED); /* expired */
  w.now_ms -= 50000;
  assert_int_equal(find_again(&w, &memory, text), PD_OK);
  assert_int_equal(world_callf(&w, "tokens.revoke", "{\"token_id\":\"%s\"}", id), PD_OK);
  assert_int_equal(find_again(&w, &memory, text), PD_DENIED);
  pd_token_forget(&memory);
  world_close(&w);
}

static void token__what_is_none_is_refused_with_one_answer(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"operator\"}");
  take(&w);
  char other[PD_TOKEN_TEXT_SIZE + 8];
  want_bad(&w, "");
  want_bad(&w, "pd_");
  snprintf(other, sizeof other, "%s", text);
  other[PD_TOKEN_TEXT_SIZE - 2] = other[PD_TOKEN_TEXT_SIZE - 2] == '0' ? '1' : '0'; /* a digit of the secret */
  want_bad(&w, other);
  snprintf(other, sizeof other, "%s", text);
  other[3] = other[3] == '0' ? '1' : '0'; /* a digit of the id */
  want_bad(&w, other);
  snprintf(other, sizeof other, "%s0", text);
  want_bad(&w, other);
  snprintf(other, sizeof other, "%.*s", PD_TOKEN_TEXT_SIZE - 2, text);
  want_bad(&w, other);
  world_close(&w);
}

static void token__only_its_hash_is_stored(void **state)
{
  (void)state;
  world w;
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_store *store;
  char key[64];
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"operator\"}");
  take(&w);
  assert_int_equal(world_borrow(w.home, "system", false, &store, NULL), PD_OK);
  snprintf(key, sizeof key, "token/%s", id);
  assert_int_equal(pd_get(store, "main", pd_text(key), &value, NULL, NULL), PD_OK);
  assert_int_equal(pd_buf_byte(&value, 0, NULL), PD_OK);
  pd_id hash = pd_value_id(pd_text(text));
  char hex[PD_ID_HEX_SIZE];
  assert_non_null(strstr((char *)value.data, pd_id_hex(&hash, hex)));
  assert_null(strstr((char *)value.data, text + 3 + PD_TOKEN_ID_SIZE)); /* the secret */
  world_ok(&w, "tokens.list", "{}");
  assert_null(strstr(world_out(&w, "tokens"), hex));
  assert_string_equal(world_out(&w, "count"), "1");
  world_close(&w);
}

static void tokens_list__pages_lead_to_every_token(void **state)
{
  (void)state;
  world w;
  char cursor[80] = "", seen[7][PD_TOKEN_ID_SIZE + 2];
  int count = 0;
  open_world(&w);
  for (int i = 0; i < 7; i++) world_ok(&w, "tokens.create", i % 2 ? "{\"role\":\"operator\"}" : "{\"role\":\"agent\",\"agent\":\"a\"}");
  do {
    char input[120];
    snprintf(input, sizeof input, "{\"limit\":3%s%s}", *cursor ? ",\"cursor\":" : "", cursor);
    world_ok(&w, "tokens.list", input);
    for (int i = 0; i < 3; i++) {
      char path[40];
      snprintf(path, sizeof path, "tokens.%d.token_id", i);
      const char *one = world_out(&w, path);
      if (*one) snprintf(seen[count++], sizeof seen[0], "%s", one);
    }
    snprintf(cursor, sizeof cursor, "%s", world_out(&w, "next_cursor"));
  } while (strcmp(cursor, "null") != 0 && count < 7);
  assert_int_equal(count, 7);
  for (int i = 1; i < 7; i++) assert_true(strcmp(seen[i - 1], seen[i]) < 0);
  assert_string_equal(world_out(&w, "next_cursor"), "null");
  world_ok(&w, "tokens.list", "{\"agent\":\"a\",\"limit\":4}");
  assert_string_equal(world_out(&w, "count"), "4");
  assert_string_equal(world_out(&w, "next_cursor"), "null");
  world_fails(&w, "tokens.list", "{\"cursor\":\"next\"}", "InvalidInput", "correct");
  world_close(&w);
}

static void token__expires(void **state)
{
  (void)state;
  world w;
  pd_token_info info;
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"operator\",\"expires_in\":60}");
  take(&w);
  w.now_ms += 59999;
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  w.now_ms += 1;
  want_bad(&w, text);
  world_ok(&w, "tokens.list", "{}");
  assert_string_equal(world_out(&w, "tokens.0.expired"), "true");
  world_close(&w);
}

static void token__it_is_read_once_as_long_as_the_store_is_as_it_was(void **state)
{
  (void)state;
  world w;
  const pd_token_info *first, *second, *third;
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"agent\",\"agent\":\"writer\",\"expires_in\":60}");
  take(&w);
  assert_int_equal(pd_token_find(w.home, text, &first, NULL), PD_OK);
  assert_int_equal(pd_token_find(w.home, text, &second, NULL), PD_OK);
  assert_ptr_equal(first, second);
  text[sizeof text - 2] ^= 1; /* another secret: neither answered from memory nor kept instead */
  want_bad(&w, text);
  text[sizeof text - 2] ^= 1;
  assert_int_equal(pd_token_find(w.home, text, &third, NULL), PD_OK);
  assert_ptr_equal(first, third);
  pd_token_release(third);
  world_ok(&w, "tokens.create", "{\"role\":\"operator\"}"); /* the store changes, but not this token */
  assert_int_equal(pd_token_find(w.home, text, &third, NULL), PD_OK);
  assert_ptr_equal(first, third);
  pd_token_release(third);
  assert_int_equal(world_callf(&w, "tokens.rotate", "{\"token_id\":\"%s\",\"grace\":10}", id), PD_OK);
  assert_int_equal(pd_token_find(w.home, text, &third, NULL), PD_OK);
  assert_ptr_not_equal(first, third);
  assert_string_equal(first->agent, "writer"); /* still held */
  pd_token_release(first);
  pd_token_release(second);
  pd_token_release(third);
  world_close(&w);
}

static void token__one_that_was_just_good_is_refused_once_another_handle_revokes_it(void **state)
{
  (void)state;
  world w;
  pd_token_info info;
  pd_home *other;
  pd_buf answer = {0};
  char input[64];
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"operator\"}");
  take(&w);
  assert_int_equal(pd_home_open(w.uri, NULL, &other, NULL), PD_OK);
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  snprintf(input, sizeof input, "{\"token_id\":\"%s\"}", id);
  pd_ctx ctx = {.home = other, .is_operator = true};
  assert_int_equal(pd_call(&ctx, "tokens.revoke", pd_text(input), &answer, NULL), PD_OK);
  want_bad(&w, text);
  pd_buf_done(&answer);
  assert_int_equal(pd_home_close(other, NULL), PD_OK);
  world_close(&w);
}

static void tokens_revoke__err_TokenNotFound__a_revoked_one_is_worthless_and_gone(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"operator\"}");
  take(&w);
  assert_int_equal(world_callf(&w, "tokens.revoke", "{\"token_id\":\"%s\"}", id), PD_OK);
  want_bad(&w, text);
  char input[64];
  snprintf(input, sizeof input, "{\"token_id\":\"%s\"}", id);
  world_fails(&w, "tokens.revoke", input, "TokenNotFound", "list_tokens");
  world_fails(&w, "tokens.rotate", input, "TokenNotFound", "list_tokens");
  world_fails(&w, "tokens.revoke", "{\"token_id\":\"x\"}", "TokenNotFound", NULL);
  world_close(&w);
}

static void tokens_rotate__err_TokenNotFound__and_one_that_is_there_has_a_new_text_and_the_old_one_a_grace(void **state)
{
  (void)state;
  world w;
  pd_token_info info;
  char old[PD_TOKEN_TEXT_SIZE];
  open_world(&w);
  world_ok(&w, "tokens.create", "{\"role\":\"agent\",\"agent\":\"writer\",\"prefixes\":[\"a/\"]}");
  take(&w);
  memcpy(old, text, sizeof old);
  assert_int_equal(world_callf(&w, "tokens.rotate", "{\"token_id\":\"%s\",\"grace\":10}", id), PD_OK);
  take(&w);
  assert_string_not_equal(old, text);
  assert_int_equal(pd_token_check(w.home, old, &info, NULL), PD_OK);
  assert_int_equal(pd_token_check(w.home, text, &info, NULL), PD_OK);
  assert_string_equal(info.prefixes[0], "a/");
  w.now_ms += 10000;
  want_bad(&w, old);
  memcpy(old, text, sizeof old);
  assert_int_equal(world_callf(&w, "tokens.rotate", "{\"token_id\":\"%s\"}", id), PD_OK);
  want_bad(&w, old);
  world_close(&w);
}

static void want_permit(const world *w, const pd_token_info *info, const char *capability, const char *input, bool is_permitted)
{
  CLEANUP(pd_buf_done) pd_buf out = {0};
  pd_error err = {0};
  pd_ctx who = {.home = w->home, .agent = "a", .is_operator = info->role == PD_ROLE_AUDITOR, .token = info};
  bool is_denied = pd_call(&who, capability, pd_text(input), &out, &err) == PD_DENIED;
  if (is_denied == is_permitted) print_message("%s %s: %s\n", capability, input, err.message);
  assert_int_equal(is_denied, !is_permitted);
}

static void token__capabilities_limit_what_it_may_call(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  pd_token_info info = {.role = PD_ROLE_AGENT, .agent = "a", .capabilities = {"state.persistent.*", "queue.count"}};
  want_permit(&w, &info, "state.persistent.get", "{\"key\":\"k\"}", true);
  want_permit(&w, &info, "queue.count", "", true);
  want_permit(&w, &info, "queue.send", "{}", false);
  want_permit(&w, &info, "state.shared.get", "{\"key\":\"k\"}", false);
  want_permit(&w, &info, "no.such", "{}", false);
  world_close(&w);
}

static void token__prefixes_limit_the_keys_it_may_name(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  pd_token_info info = {.role = PD_ROLE_AGENT, .agent = "a", .prefixes = {"drafts/", "x"}};
  want_permit(&w, &info, "state.persistent.get", "{\"key\":\"drafts/1\"}", true);
  want_permit(&w, &info, "state.persistent.get", "{\"key\":\"draft\"}", false);
  want_permit(&w, &info, "state.persistent.get", "{\"key\":\"\\u0064rafts/1\"}", true);
  want_permit(&w, &info, "state.persistent.get", "{\"\\u006bey\":\"other\"}", false);
  want_permit(&w, &info, "state.persistent.get", "{\"key\":\"drafts/1\",\"key\":\"other\"}", false);
  want_permit(&w, &info, "state.persistent.list", "{}", false);
  want_permit(&w, &info, "state.persistent.list", "", false);
  want_permit(&w, &info, "state.persistent.list", "{\"prefix\":\"drafts/2026\"}", true);
  want_permit(&w, &info, "state.persistent.list", "{\"prefix\":\"d\"}", false);
  want_permit(&w, &info, "state.briefing.generate", "{}", false);
  want_permit(&w, &info, "session.begin", "{}", true);
  world_close(&w);
}

static void token__an_auditor_only_looks(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  pd_token_info info = {.role = PD_ROLE_AUDITOR};
  want_permit(&w, &info, "audit.list", "{}", true);
  want_permit(&w, &info, "state.persistent.get", "{\"key\":\"k\"}", true);
  want_permit(&w, &info, "state.persistent.set", "{\"key\":\"k\",\"value\":1}", false);
  want_permit(&w, &info, "approvals.approve", "{}", false);
  want_permit(&w, &info, "tokens.create", "{}", false);
  want_permit(&w, &info, "tokens.list", "{}", true);
  world_close(&w);
}

static void token__wrong_inputs_are_named(void **state)
{
  (void)state;
  world w;
  open_world(&w);
  world_fails(&w, "tokens.create", "{\"role\":\"operator\",\"agent\":\"x\"}", "InvalidInput", NULL);
  world_fails(&w, "tokens.create", "{\"role\":\"agent\",\"agent\":\"system\"}", "InvalidInput", NULL);
  world_fails(&w, "tokens.create", "{\"role\":\"root\"}", "InvalidInput", NULL);
  world_fails(&w, "tokens.create", "{\"role\":\"operator\",\"prefixes\":[1]}", "InvalidInput", NULL);
  world_fails(&w, "tokens.create", "{\"role\":\"operator\",\"prefixes\":[\"\"]}", "InvalidInput", NULL);
  world_fails(&w, "tokens.create", "{\"role\":\"operator\",\"capabilities\":[\"a\\nb\"]}", "InvalidInput", NULL);
  world_fails(&w, "tokens.create", "{\"role\":\"operator\",\"expires_in\":0}", "InvalidInput", NULL);
  w.is_operator = false;
  world_fails(&w, "tokens.list", "{}", "PermissionDenied", NULL);
  world_close(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(token__one_that_is_not_good_any_more_is_not_kept),
    cmocka_unit_test(token__a_new_one_is_good_and_says_whose_it_is),
    cmocka_unit_test(token__a_mark_is_good_as_long_as_its_text_is),
    cmocka_unit_test(token__what_a_connection_remembers_is_good_as_long_as_the_token_is),
    cmocka_unit_test(token__what_is_none_is_refused_with_one_answer),
    cmocka_unit_test(token__only_its_hash_is_stored),
    cmocka_unit_test(tokens_list__pages_lead_to_every_token),
    cmocka_unit_test(token__expires),
    cmocka_unit_test(token__it_is_read_once_as_long_as_the_store_is_as_it_was),
    cmocka_unit_test(token__one_that_was_just_good_is_refused_once_another_handle_revokes_it),
    cmocka_unit_test(tokens_revoke__err_TokenNotFound__a_revoked_one_is_worthless_and_gone),
    cmocka_unit_test(tokens_rotate__err_TokenNotFound__and_one_that_is_there_has_a_new_text_and_the_old_one_a_grace),
    cmocka_unit_test(token__capabilities_limit_what_it_may_call),
    cmocka_unit_test(token__prefixes_limit_the_keys_it_may_name),
    cmocka_unit_test(token__an_auditor_only_looks),
    cmocka_unit_test(token__wrong_inputs_are_named),
  };
  return cmocka_run_group_tests_name("state token", tests, NULL, NULL);
}
