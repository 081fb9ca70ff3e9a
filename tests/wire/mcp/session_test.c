/* session_test.c: sessions of the legacy era over HTTP: ids, agents, restarts, ends, streams. */
#include "wire/mcp/mcp_world.h"

#include "base/base.h"
#include "support/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* From stdio to HTTP: no session yet. */
static void open_http(mcp_world *m, const char *key_file)
{
  mcp_open(m, NULL, key_file);
  pd_mcp_session_release(m->peer.session);
  m->peer.session = NULL;
  m->peer.is_http = true;
}

/* Initialize; the id is copied. */
static void begin(mcp_world *m, char id[PD_MCP_SESSION_ID_SIZE], const char *capabilities)
{
  mcp_initialize(m, "2025-06-18", capabilities);
  memcpy(id, m->last.session, PD_MCP_SESSION_ID_SIZE);
  assert_int_equal(strlen(id), 64);
}

static pd_code find(mcp_world *m, const char *agent, const char *id)
{
  pd_mcp_session *session = NULL;
  pd_code code = pd_mcp_session_find(m->mcp, agent, NULL, id, &session, NULL);
  pd_mcp_session_release(session);
  return code;
}

static void session__an_id_is_good_for_its_agent_alone_and_no_digit_of_it_can_be_changed(void **state)
{
  (void)state;
  mcp_world m;
  char id[PD_MCP_SESSION_ID_SIZE];
  open_http(&m, NULL);
  begin(&m, id, "{}");
  assert_int_equal(find(&m, "main", id), PD_OK);
  assert_int_equal(find(&m, "eve", id), PD_NOT_FOUND);
  assert_int_equal(find(&m, "main", ""), PD_NOT_FOUND);
  assert_int_equal(find(&m, "main", "x"), PD_NOT_FOUND);
  for (size_t i = 0; i < 64; i++) {
    char was = id[i];
    id[i] = was == '0' ? '1' : '0';
    assert_int_equal(find(&m, "main", id), PD_NOT_FOUND);
    id[i] = was;
  }
  mcp_close(&m);
}

static void session__it_keeps_revision_level_and_state_until_it_ends(void **state)
{
  (void)state;
  mcp_world m;
  char id[PD_MCP_SESSION_ID_SIZE];
  size_t sessions, streams;
  open_http(&m, NULL);
  begin(&m, id, "{}");
  pd_mcp_counts(m.mcp, &sessions, &streams);
  assert_int_equal(sessions, 1);
  assert_int_equal(pd_mcp_session_find(m.mcp, "main", NULL, id, &m.peer.session, NULL), PD_OK);
  mcp_tool(&m, "state_session_set", "{\"key\":\"k\",\"value\":1}");
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "true");
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\"}");
  assert_non_null(strstr(mcp_last(&m, "error.message"), "2025-06-18"));
  pd_mcp_session_end(m.mcp, m.peer.session);
  pd_mcp_session_release(m.peer.session);
  m.peer.session = NULL;
  assert_int_equal(find(&m, "main", id), PD_NOT_FOUND);
  pd_mcp_counts(m.mcp, &sessions, &streams);
  assert_int_equal(sessions, 0);
  m.w.is_operator = true;
  world_ok(&m.w, "session.list", "{}");
  assert_string_equal(world_out(&m.w, "count"), "0"); /* what it held is gone, too */
  mcp_close(&m);
}

static void session__without_its_header_a_client_is_served_all_the_same(void **state)
{
  (void)state;
  mcp_world m;
  char id[PD_MCP_SESSION_ID_SIZE];
  open_http(&m, NULL);
  begin(&m, id, "{}");
  mcp_tool(&m, "state_session_set", "{\"key\":\"k\",\"value\":1}");
  assert_string_equal(mcp_last(&m, "result.isError"), "false");
  mcp_tool(&m, "state_session_get", "{\"key\":\"k\"}");
  assert_string_equal(mcp_last(&m, "result.structuredContent.found"), "true"); /* the agent's own session, then */
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"state://shared/x\"}}");
  assert_string_equal(mcp_last(&m, "error.code"), "-32600"); /* there is nowhere to send notices to */
  mcp_close(&m);
}

static void session__ids_survive_a_restart_with_the_same_key(void **state)
{
  (void)state;
  mcp_world m;
  char id[PD_MCP_SESSION_ID_SIZE];
  char *folder = temp_folder_new();
  char *key_file = text_of("%s/mcp.key", folder);
  open_http(&m, key_file);
  begin(&m, id, FORMS);
  pd_mcp_free(m.mcp);
  pd_mcp_options options = {.home = m.w.home, .uri = m.w.uri, .key_file = key_file};
  assert_int_equal(pd_mcp_new(&options, &m.mcp, NULL), PD_OK);
  assert_int_equal(find(&m, "eve", id), PD_NOT_FOUND);
  assert_int_equal(pd_mcp_session_find(m.mcp, "main", NULL, id, &m.peer.session, NULL), PD_OK);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nope\"}");
  assert_non_null(strstr(mcp_last(&m, "error.message"), "2025-06-18")); /* the revision came with the id */
  mcp_close(&m);
  /* another key: another server */
  remove(key_file);
  mcp_world other;
  open_http(&other, key_file);
  assert_int_equal(find(&other, "main", id), PD_NOT_FOUND);
  mcp_close(&other);
  FILE *f = fopen(key_file, "w");
  fputs("short", f);
  fclose(f);
  world_open(&m.w, NULL);
  pd_error err;
  options = (pd_mcp_options){.home = m.w.home, .uri = m.w.uri, .key_file = key_file};
  assert_int_equal(pd_mcp_new(&options, &m.mcp, &err), PD_FORMAT);
  world_close(&m.w);
  free(key_file);
  temp_folder_free(folder);
}

/* ---- the stream of a session ---- */

static void count_message(void *ctx, pd_bytes message, int status, bool is_last)
{
  (void)message, (void)status, (void)is_last;
  ++*(size_t *)ctx;
}

static void note_done(void *ctx, int status)
{
  (void)status;
  *(size_t *)ctx += 100;
}

static void session__a_second_stream_takes_the_place_of_the_first(void **state)
{
  (void)state;
  mcp_world m;
  char id[PD_MCP_SESSION_ID_SIZE];
  size_t first = 0, second = 0;
  open_http(&m, NULL);
  begin(&m, id, "{}");
  assert_int_equal(pd_mcp_session_find(m.mcp, "main", NULL, id, &m.peer.session, NULL), PD_OK);
  pd_mcp_out out = {.send = count_message, .done = note_done, .ctx = &first};
  assert_int_equal(pd_mcp_session_stream(m.mcp, m.peer.session, &out, NULL), PD_OK);
  mcp_send(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"state://shared/x\"}}");
  pd_mcp_updated(m.mcp, NULL, "state://shared/x");
  assert_int_equal(first, 1);
  out.ctx = &second;
  assert_int_equal(pd_mcp_session_stream(m.mcp, m.peer.session, &out, NULL), PD_OK);
  assert_int_equal(first, 101);
  pd_mcp_updated(m.mcp, NULL, "state://shared/x");
  pd_mcp_updated(m.mcp, "eve", "state://shared/x");
  assert_int_equal(second, 1);
  pd_mcp_hang_up(m.mcp, &second);
  pd_mcp_updated(m.mcp, NULL, "state://shared/x");
  assert_int_equal(second, 1);
  mcp_close(&m);
}

static void session__what_nobody_uses_for_a_day_goes_and_comes_back_when_it_is_used(void **state)
{
  (void)state;
  mcp_world m;
  char id[PD_MCP_SESSION_ID_SIZE];
  size_t sessions, streams;
  open_http(&m, NULL);
  begin(&m, id, "{}");
  m.w.now_ms += (int64_t)25 * 3600 * 1000;
  pd_mcp_tick(m.mcp);
  pd_mcp_counts(m.mcp, &sessions, &streams);
  assert_int_equal(sessions, 0);
  assert_int_equal(find(&m, "main", id), PD_OK);
  mcp_close(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(session__an_id_is_good_for_its_agent_alone_and_no_digit_of_it_can_be_changed),
    cmocka_unit_test(session__it_keeps_revision_level_and_state_until_it_ends),
    cmocka_unit_test(session__without_its_header_a_client_is_served_all_the_same),
    cmocka_unit_test(session__ids_survive_a_restart_with_the_same_key),
    cmocka_unit_test(session__a_second_stream_takes_the_place_of_the_first),
    cmocka_unit_test(session__what_nobody_uses_for_a_day_goes_and_comes_back_when_it_is_used),
  };
  return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
