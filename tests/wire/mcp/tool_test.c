/* tool_test.c: capabilities as tools: names, schemas, hints, sessions, the filter, errors. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "state/backup_world.h"
#include "support/temp_folder.h"

#include <perdure/token.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIST "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"

/* The list, to be walked. */
static pd_json list_of(mcp_world *m)
{
  pd_json json;
  mcp_send(m, LIST);
  assert_int_equal(pd_json_parse(pd_text(m->last.messages[0]), &json, NULL), PD_OK);
  return pd_json_member(pd_json_member(json, "result"), "tools");
}

static pd_json find(pd_json list, const char *name)
{
  pd_json tool;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &tool))
    if (pd_json_is(pd_json_member(tool, "name"), name)) return tool;
  return (pd_json){0};
}

static void tool__every_capability_of_an_agent_is_a_tool_and_the_operators_are_not(void **state)
{
  (void)state;
  mcp_world m;
  pd_capability_info info;
  mcp_open(&m, NULL, NULL);
  pd_json list = list_of(&m), tool;
  size_t count = 0, want = 0;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &tool)) count++;
  for (size_t i = 0; pd_capability_at(i, &info, NULL) == PD_OK; i++) {
    char name[128];
    snprintf(name, sizeof name, "%s", info.name);
    for (char *c = name; *c; c++)
      if (*c == '.') *c = '_';
    tool = find(list, name);
    if (info.permission == PD_PERMIT_OPERATOR) {
      assert_int_equal(tool.kind, PD_JSON_NONE);
      continue;
    }
    want++;
    assert_true(pd_json_is(pd_json_member(tool, "title"), info.name));
    static const char *const hints[] = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"};
    for (size_t h = 0; h < COUNT_OF(hints); h++)
      assert_int_equal(pd_json_member(pd_json_member(tool, "annotations"), hints[h]).kind, PD_JSON_BOOL);
  }
  assert_int_equal(count, want);
  mcp_close(&m);
}

static bool hint(pd_json list, const char *tool, const char *name)
{
  return pd_json_true(pd_json_member(pd_json_member(find(list, tool), "annotations"), name));
}

static void tool__hints_say_what_reads_and_what_destroys(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  pd_json list = list_of(&m);
  assert_true(hint(list, "state_persistent_get", "readOnlyHint"));
  assert_false(hint(list, "state_persistent_get", "destructiveHint"));
  assert_false(hint(list, "state_persistent_set", "readOnlyHint"));
  assert_false(hint(list, "state_persistent_set", "destructiveHint")); /* the version before is kept */
  assert_true(hint(list, "state_persistent_delete", "destructiveHint"));
  assert_true(hint(list, "state_backup_restore", "destructiveHint"));
  assert_false(hint(list, "queue_send", "openWorldHint"));
  static const char *const looks[] = {"history_log",   "history_show",        "history_get",   "history_list",  "history_diff",
                                      "history_key",   "history_blame",       "history_refs",  "history_marks", "history_stats",
                                      "history_prove", "history_check_proof", "history_verify"};
  for (size_t i = 0; i < COUNT_OF(looks); i++) {
    assert_true(hint(list, looks[i], "readOnlyHint"));
    assert_true(hint(list, looks[i], "idempotentHint"));
  }
  static const char *const takes[] = {"history_reset", "history_drop", "history_untag", "history_unpin"};
  for (size_t i = 0; i < COUNT_OF(takes); i++) assert_true(hint(list, takes[i], "destructiveHint"));
  static const char *const adds[] = {"history_commit", "history_undo", "history_rollback", "history_fork", "history_merge", "history_tag"};
  for (size_t i = 0; i < COUNT_OF(adds); i++) {
    assert_false(hint(list, adds[i], "readOnlyHint"));
    assert_false(hint(list, adds[i], "destructiveHint")); /* what was before can be had again */
  }
  assert_false(hint(list, "history_undo", "idempotentHint"));
  assert_true(hint(list, "history_merge", "idempotentHint"));
  mcp_close(&m);
}

/* No schema without a type, no format that only we know. */
static void check_schema(pd_json schema, const char *where)
{
  pd_json key, value;
  if (pd_json_member(schema, "type").kind == PD_JSON_NONE && pd_json_member(schema, "anyOf").kind == PD_JSON_NONE)
    fail_msg("%s: a schema without a type: %.*s", where, (int)schema.raw.size, (const char *)schema.raw.data);
  if (pd_json_member(schema, "type").kind == PD_JSON_ARRAY) fail_msg("%s: a list of types", where);
  pd_json format = pd_json_member(schema, "format");
  if (format.kind != PD_JSON_NONE && !pd_json_is(format, "date-time"))
    fail_msg("%s: format %.*s", where, (int)format.raw.size, (const char *)format.raw.data);
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(schema, "properties"));
  while (pd_json_walk_next(&walk, &key, &value)) check_schema(value, where);
}

static void tool__schemas_have_types_everywhere_and_only_formats_that_clients_know(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  pd_json list = list_of(&m), tool;
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &tool)) {
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)pd_json_member(tool, "name").raw.size, (const char *)pd_json_member(tool, "name").raw.data);
    check_schema(pd_json_member(tool, "inputSchema"), name);
    check_schema(pd_json_member(tool, "outputSchema"), name);
  }
  pd_json get = pd_json_member(pd_json_member(find(list, "state_session_get"), "inputSchema"), "properties");
  assert_int_equal(pd_json_member(get, "session_id").kind, PD_JSON_OBJECT);
  get = pd_json_member(pd_json_member(find(list, "state_persistent_get"), "inputSchema"), "properties");
  assert_int_equal(pd_json_member(get, "session_id").kind, PD_JSON_NONE);
  mcp_close(&m);
}

static void tool__both_spellings_are_accepted_and_others_are_not(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "state_persistent_set", "{\"key\":\"k\",\"value\":1}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.version"), "1");
  mcp_tool(&m, "state.persistent.set", "{\"key\":\"k\",\"value\":2}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.version"), "2");
  mcp_tool(&m, "state_persistent.set", "{\"key\":\"k\",\"value\":3}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_tool(&m, "approvals_approve", "{\"approval_id\":\"x\"}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_close(&m);
}

static void tool__text_and_structured_content_are_one_and_digits_are_kept(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "state_persistent_set", "{\"key\":\"k\",\"value\":{\"n\":1.500,\"t\":\"\\u00e4\\n\"}}");
  mcp_tool(&m, "state_persistent_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.value.n"), "1.500");
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json json;
  assert_int_equal(pd_json_parse(pd_text(mcp_last(&m, "result.content.0.text")), &json, NULL), PD_OK);
  assert_int_equal(pd_json_decode(json, &text, NULL), PD_OK);
  assert_true(pd_bytes_equal(pd_buf_bytes(&text), pd_text(mcp_last(&m, "result.structuredContent"))));
  mcp_close(&m);
}

static void wants_error(mcp_world *m, const char *code, const char *action)
{
  assert_string_equal(mcp_last(m, "result.isError"), "true");
  assert_string_equal(mcp_last(m, "result.structuredContent"), "");
  char found[64];
  snprintf(found, sizeof found, "\\\"code\\\":\\\"%s\\\"", code);
  if (!strstr(mcp_last(m, "result.content.0.text"), found)) fail_msg("not %s: %s", code, m->member);
  snprintf(found, sizeof found, "\\\"action\\\":\\\"%s\\\"", action);
  if (!strstr(mcp_last(m, "result.content.0.text"), found)) fail_msg("no %s: %s", action, m->member);
  if (!strstr(m->member, "\\\"details\\\":{\\\"class\\\":")) fail_msg("no details: %s", m->member);
}

static void tool__errors_are_results_with_code_details_and_recovery(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "state_shared_set", "{\"key\":\"k\",\"value\":1,\"expected_version\":9}");
  wants_error(&m, "VersionConflict", "retry");
  mcp_tool(&m, "state_persistent_get", "{\"key\":\"\"}");
  wants_error(&m, "InvalidInput", "correct");
  mcp_tool(&m, "state_persistent_get", "{\"key\":\"k\",\"keys\":1}");
  wants_error(&m, "InvalidInput", "correct");
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\",\"session_id\":7}");
  wants_error(&m, "InvalidInput", "correct");
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\",\"session_id\":\"nobody\"}");
  wants_error(&m, "SessionNotFound", "reconnect");
  mcp_tool(&m, "state_persistent_get", "[]");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"arguments\":{}}}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_close(&m);
}

static void tool__session_state_belongs_to_the_connection_unless_a_session_is_named(void **state)
{
  (void)state;
  mcp_world m;
  char session[64];
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "state_session_set", "{\"key\":\"k\",\"value\":1}");
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "true");
  mcp_tool(&m, "session_begin", "{}");
  snprintf(session, sizeof session, "%s", mcp_last(&m, "result.structuredContent.session_id"));
  mcp_sendf(&m,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"state_session_get\",\"arguments\":{"
            "\"session_id\":%s,\"key\":\"k\"}}}",
            session);
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "false");
  mcp_close(&m);
}

static void tool__a_session_can_be_kept_and_ended_without_naming_it(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "state_session_set", "{\"key\":\"k\",\"value\":1}");
  mcp_tool(&m, "session_touch", "{}");
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  mcp_tool(&m, "session_end", "{}");
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "false");
  mcp_close(&m);
}

/* Who only receives what it watches uses its session all the same. */
static void tool__a_watch_lives_as_long_as_its_client_receives(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "state_shared_watch", "{\"prefix\":\"board\"}");
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  for (int i = 0; i < 5; i++) {
    m.w.now_ms += (int64_t)50 * 60 * 1000; /* an idle session lasts an hour */
    mcp_tool(&m, "queue_receive", "{}");
  }
  mcp_tool(&m, "state_shared_set", "{\"key\":\"board\",\"value\":1,\"expected_version\":0}");
  mcp_tool(&m, "queue_receive", "{}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.count"), "1");
  mcp_close(&m);
}

static void tool__a_session_that_idled_away_is_begun_anew(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_tool(&m, "state_session_set", "{\"key\":\"k\",\"value\":1}");
  m.w.now_ms += (int64_t)365 * 24 * 3600 * 1000;
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "false");
  mcp_tool(&m, "state_session_set", "{\"key\":\"k\",\"value\":1}");
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "true");
  mcp_close(&m);
}

static void tool__the_filter_hides_and_refuses(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, "state.session.*, queue_send", NULL);
  pd_json list = list_of(&m);
  assert_int_equal(find(list, "queue_send").kind, PD_JSON_OBJECT);
  assert_int_equal(find(list, "state_session_get").kind, PD_JSON_OBJECT);
  assert_int_equal(find(list, "queue_receive").kind, PD_JSON_NONE);
  mcp_tool(&m, "queue_receive", "{}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_close(&m);
}

/* ---- a token, as a server has them ---- */

static void tool__what_the_token_does_not_reach_is_not_seen_and_not_run(void **state)
{
  (void)state;
  mcp_world m;
  pd_token_info token = {.role = PD_ROLE_AGENT, .agent = "main", .capabilities = {"state.*"}, .prefixes = {"drafts/"}};
  mcp_open(&m, NULL, NULL);
  m.peer.token = &token;
  assert_int_equal(find(list_of(&m), "queue_send").kind, PD_JSON_NONE);
  mcp_tool(&m, "queue_send", "{\"to\":\"a\",\"kind\":\"b\"}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_tool(&m, "state_persistent_set", "{\"key\":\"k\",\"value\":1}");
  assert_string_equal(mcp_last(&m, "result.isError"), "true");
  assert_non_null(strstr(mcp_last(&m, "result.content.0.text"), "this token is for keys that begin with"));
  m.peer.token = NULL;
  mcp_tool(&m, "state_persistent_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "false");
  mcp_close(&m);
}

static void tool__the_list_comes_in_pages(void **state)
{
  (void)state;
  mcp_world m;
  char cursor[256] = "", names[16384] = "", whole[16384] = "";
  mcp_open(&m, NULL, NULL);
  pd_json tool, list = list_of(&m);
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &tool)) {
    pd_bytes name = pd_json_member(tool, "name").raw;
    snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%.*s", (int)name.size, (const char *)name.data);
  }
  assert_string_equal(mcp_last(&m, "result.nextCursor"), ""); /* not every client turns the page */
  mcp_page(&m, 7);
  do {
    mcp_sendf(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{%s%s}}", *cursor ? "\"cursor\":" : "", cursor);
    for (int i = 0; i < 8; i++) {
      char path[64];
      snprintf(path, sizeof path, "result.tools.%d.name", i);
      snprintf(names + strlen(names), sizeof names - strlen(names), "%s", mcp_last(&m, path));
      if (i == 7) assert_string_equal(m.member, "");
    }
    snprintf(cursor, sizeof cursor, "%s", mcp_last(&m, "result.nextCursor"));
  } while (*cursor);
  assert_string_equal(names, whole);
  mcp_close(&m);
}

static void tool__what_policy_takes_from_the_agent_is_no_tool_of_its(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  char *path = text_of("%s/policy.toml", m.w.folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("[[rule]]\ncapability = \"queue.*\"\nagent = \"ma*\"\npermission = \"blocked\"\n"
        "[[rule]]\ncapability = \"alerts.send\"\npermission = \"operator\"\n"
        "[[rule]]\ncapability = \"state.shared.set\"\npermission = \"approval\"\n"
        "[[rule]]\ncapability = \"state.persistent.*\"\nprefix = \"secret/\"\npermission = \"blocked\"\n",
        f);
  assert_int_equal(fclose(f), 0);
  free(path);
  assert_int_equal(pd_home_reload(m.w.home, NULL), PD_OK);
  pd_json list = list_of(&m);
  assert_int_equal(find(list, "queue_send").kind, PD_JSON_NONE);
  assert_int_equal(find(list, "alerts_send").kind, PD_JSON_NONE);
  assert_int_equal(find(list, "state_shared_set").kind, PD_JSON_OBJECT);
  assert_int_equal(find(list, "state_persistent_get").kind, PD_JSON_OBJECT); /* other keys are free */
  mcp_tool(&m, "queue_send", "{\"to\":\"a\",\"kind\":\"b\"}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  m.peer.agent = "bob"; /* not his rule */
  assert_int_equal(find(list_of(&m), "queue_send").kind, PD_JSON_OBJECT);
  mcp_close(&m);
}

/* ---- long calls ---- */

/* The next backup is approved. */
static void approve_backup(mcp_world *m)
{
  char id[128];
  mcp_sendf(m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"state_backup_create\"}}");
  snprintf(id, sizeof id, "%s", strstr(mcp_last(m, "result.content.1.text"), "apr-"));
  id[strcspn(id, "\"")] = 0;
  m->w.is_operator = true;
  assert_int_equal(world_callf(&m->w, "approvals.approve", "{\"approval_id\":\"%s\"}", id), PD_OK);
  m->w.is_operator = false;
}

static void back_up(mcp_world *m, const char *meta)
{
  approve_backup(m);
  mcp_sendf(m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"state_backup_create\"%s}}", meta);
}

static void tool__a_backup_tells_how_far_it_is_to_who_gave_a_token(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  assert_int_equal(pd_vault_init(m.w.home, pd_text(RIGHT), &cheap, NULL), PD_OK);
  unlock(&m.w, RIGHT);
  mcp_tool(&m, "state_persistent_set", "{\"key\":\"k\",\"value\":1}");
  back_up(&m, "");
  assert_int_equal(m.last.count, 1);
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  back_up(&m, ",\"_meta\":{\"progressToken\":\"t\"}");
  assert_true(m.last.count >= 3);
  for (size_t i = 0; i + 1 < m.last.count; i++) {
    assert_string_equal(mcp_member(&m, m.last.messages[i], "method"), "\"notifications/progress\"");
    assert_string_equal(mcp_member(&m, m.last.messages[i], "params.progressToken"), "\"t\"");
  }
  assert_string_equal(mcp_member(&m, m.last.messages[0], "params.progress"), "0");
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  mcp_close(&m);
}

/* A backup whose first word of progress is answered by a cancellation, before it goes on. */
typedef struct cut {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int messages, answers;
  bool is_cancelled, is_done;
} cut;

static void cut_send(void *ctx, pd_bytes message, int status, bool is_last)
{
  cut *c = ctx;
  (void)message, (void)status;
  pthread_mutex_lock(&c->lock);
  c->messages++;
  c->answers += is_last;
  pthread_cond_broadcast(&c->changed);
  while (!c->is_cancelled) pthread_cond_wait(&c->changed, &c->lock);
  pthread_mutex_unlock(&c->lock);
}

static void cut_done(void *ctx, int status)
{
  cut *c = ctx;
  (void)status;
  c->is_done = true;
}

typedef struct cut_call {
  mcp_world *m;
  cut *c;
} cut_call;

static void *run_cut(void *ctx)
{
  cut_call *call = ctx;
  pd_mcp_out out = {.send = cut_send, .done = cut_done, .ctx = call->c};
  pd_mcp_handle(call->m->mcp, &call->m->peer,
                pd_text("{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":{\"name\":\"state_backup_create\",\"_meta\":{"
                        "\"progressToken\":1}}}"),
                &out);
  return NULL;
}

static void tool__a_backup_that_is_cancelled_stops_and_is_not_answered(void **state)
{
  (void)state;
  mcp_world m;
  cut c = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  cut_call call = {&m, &c};
  pthread_t thread;
  mcp_open(&m, NULL, NULL);
  assert_int_equal(pd_vault_init(m.w.home, pd_text(RIGHT), &cheap, NULL), PD_OK);
  unlock(&m.w, RIGHT);
  mcp_tool(&m, "state_persistent_set", "{\"key\":\"k\",\"value\":1}");
  approve_backup(&m);
  assert_int_equal(pthread_create(&thread, NULL, run_cut, &call), 0);
  pthread_mutex_lock(&c.lock);
  while (!c.messages) pthread_cond_wait(&c.changed, &c.lock);
  pthread_mutex_unlock(&c.lock);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":77}}");
  pthread_mutex_lock(&c.lock);
  c.is_cancelled = true;
  pthread_cond_broadcast(&c.changed);
  pthread_mutex_unlock(&c.lock);
  pthread_join(thread, NULL);
  assert_true(c.is_done);
  assert_int_equal(c.messages, 1); /* M2 */
  assert_int_equal(c.answers, 0);
  mcp_tool(&m, "state_backup_list", "{}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.count"), "0");
  mcp_close(&m);
}

/* ---- prompt and completion ---- */

static void tool__the_briefing_is_a_prompt(void **state)
{
  (void)state;
  mcp_world m;
  mcp_open(&m, NULL, NULL);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{\"name\":\"briefing\",\"arguments\":{\"since\":"
               "\"2026-01-01T00:00:00Z\"}}}");
  assert_string_equal(mcp_last(&m, "result.messages.0.role"), "\"user\"");
  assert_non_null(strstr(mcp_last(&m, "result.messages.0.content.text"), "2026-01-01T00:00:00.000Z"));
  mcp_send(&m,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{\"name\":\"briefing\",\"arguments\":{\"since\":\"x\"}}}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{\"name\":\"other\"}}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32602");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{\"ref\":{\"type\":\"ref/prompt\",\"name\":"
               "\"briefing\"},\"argument\":{\"name\":\"detail_level\",\"value\":\"d\"}}}");
  assert_string_equal(mcp_last(&m, "result.completion.values"), "[\"detailed\"]");
  mcp_close(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(tool__every_capability_of_an_agent_is_a_tool_and_the_operators_are_not),
    cmocka_unit_test(tool__hints_say_what_reads_and_what_destroys),
    cmocka_unit_test(tool__schemas_have_types_everywhere_and_only_formats_that_clients_know),
    cmocka_unit_test(tool__both_spellings_are_accepted_and_others_are_not),
    cmocka_unit_test(tool__text_and_structured_content_are_one_and_digits_are_kept),
    cmocka_unit_test(tool__errors_are_results_with_code_details_and_recovery),
    cmocka_unit_test(tool__session_state_belongs_to_the_connection_unless_a_session_is_named),
    cmocka_unit_test(tool__a_session_can_be_kept_and_ended_without_naming_it),
    cmocka_unit_test(tool__a_watch_lives_as_long_as_its_client_receives),
    cmocka_unit_test(tool__a_session_that_idled_away_is_begun_anew),
    cmocka_unit_test(tool__the_filter_hides_and_refuses),
    cmocka_unit_test(tool__what_the_token_does_not_reach_is_not_seen_and_not_run),
    cmocka_unit_test(tool__the_list_comes_in_pages),
    cmocka_unit_test(tool__what_policy_takes_from_the_agent_is_no_tool_of_its),
    cmocka_unit_test(tool__a_backup_tells_how_far_it_is_to_who_gave_a_token),
    cmocka_unit_test(tool__a_backup_that_is_cancelled_stops_and_is_not_answered),
    cmocka_unit_test(tool__the_briefing_is_a_prompt),
  };
  return cmocka_run_group_tests_name("tool", tests, NULL, NULL);
}
