/* flow_test.c: streams that wait for their client to come back: whose goes when they are too large together. S2 of mcp_flow.h. */
#include "base/base.h"
#include "base/buf.h"
#include "wire/mcp_flow.h"
#include "wire/mcp_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A stream of the agent with `size` bytes of an event in it, whose client is gone. Its number is how many were made. */
static void park(pd_mcp_flows *flows, pd_mcp_session *session, size_t size)
{
  char *text = malloc(size);
  pd_request request = {.is_streaming = true}; /* counted already: there is no server here */
  pd_mcp_flow *f = pd_mcp_flow_new(flows, session, false);
  assert_non_null(f);
  memset(text, 'x', size);
  pd_mcp_flow_stream(f, &request);
  pd_mcp_out out = pd_mcp_flow_out(f);
  out.send(out.ctx, (pd_bytes){text, size}, 200, false);
  MHD_destroy_response(request.stream);
  pd_mcp_flow_release(f);
  free(text);
}

/* Is it still there to come back to? */
static bool is_kept(pd_mcp_flows *flows, pd_mcp_session *session, unsigned number)
{
  char id[64];
  pd_request request = {0};
  snprintf(id, sizeof id, "p%08x-%x-0", (unsigned)flows->boot, number);
  bool is = pd_mcp_flow_resume(flows, &request, pd_mcp_session_id(session), id) == PD_MCP_RESUMED;
  if (is) MHD_destroy_response(request.stream);
  return is;
}

static void flow__one_agent_does_not_evict_anothers_parked_streams(void **state)
{
  (void)state;
  pd_mcp_options options = {0};
  pd_mcp *mcp = NULL;
  pd_mcp_flows flows;
  pd_gone *gone = NULL;
  pd_mcp_session *hog = NULL, *honest = NULL;
  options.provider = &(const pd_mcp_provider){.name = "t", .title = "t", .instructions = ""};
  assert_int_equal(pd_mcp_new(&options, &mcp, NULL), PD_OK);
  assert_int_equal(pd_gone_new(&gone, NULL), PD_OK);
  assert_int_equal(pd_mcp_flows_init(&flows, mcp, gone, NULL), PD_OK);
  flows.parked_size_max = 100000;
  assert_int_equal(pd_mcp_session_make(mcp, "hog", NULL, "2025-11-25", 0, &hog, NULL), PD_OK);
  assert_int_equal(pd_mcp_session_make(mcp, "honest", NULL, "2025-11-25", 0, &honest, NULL), PD_OK);
  park(&flows, honest, 10000); /* the oldest of all */
  park(&flows, honest, 10000);
  for (int i = 0; i < 12; i++) park(&flows, hog, 20000);
  pd_mcp_flows_tick(&flows);
  assert_true(is_kept(&flows, honest, 1));
  assert_true(is_kept(&flows, honest, 2));
  for (unsigned i = 3; i < 15; i++) assert_int_equal(is_kept(&flows, hog, i), i >= 12); /* three of 20 kB fit beside it; its newest */
  pd_mcp_flows_done(&flows);
  pd_gone_free(gone);
  pd_mcp_session_release(hog);
  pd_mcp_session_release(honest);
  pd_mcp_free(mcp);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(flow__one_agent_does_not_evict_anothers_parked_streams)};
  return cmocka_run_group_tests_name("mcp flow", tests, NULL, NULL);
}
