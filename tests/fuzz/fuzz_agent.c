/* fuzz_agent.c: what an agent finds in a snapshot. What is accepted can be stepped on: the next document is a sound one, too. */
#include "agent/inside.h"
#include "base/base.h"
#include "base/buf.h"
#include "fuzz/fuzz.h"

#include <stdio.h>

static int64_t now(void *ctx)
{
  (void)ctx;
  return 5;
}

static void require_sound(pd_bytes document, const char *agent, uint64_t tick)
{
  pd_snapshot facts;
  pd_json top;
  pd_ledger ledger;
  FUZZ_REQUIRE(pd_snapshot_check(document, agent, &facts, NULL) == PD_OK);
  FUZZ_REQUIRE(facts.tick_index == tick);
  FUZZ_REQUIRE(pd_json_parse(document, &top, NULL) == PD_OK && pd_ledger_parse(top, &ledger, NULL) == PD_OK);
  FUZZ_REQUIRE(ledger.epoch == 7 && ledger.save > 0);
}

/* A step and an effect over it. */
static void step(pd_agent *agent)
{
  CLEANUP(pd_buf_done) pd_buf next = {0};
  CLEANUP(pd_draft_done) pd_draft draft;
  pd_draft_begin(&draft);
  pd_push pushed;
  FUZZ_REQUIRE(pd_event_stage(agent, pd_text("{\"id\":\"new\"}"), &draft, &pushed, NULL) == PD_OK);
  draft.effect_id = "mail";
  draft.effect = pd_text("{\"id\":\"mail\",\"event\":\"\",\"state\":\"intended\",\"epoch\":7,\"what\":null}");
  draft.is_step = true;
  draft.event_id = "1";
  draft.leaves = pd_event_find(agent, "1");
  draft.keep = 2;
  pd_code code = pd_document_write(agent, &draft, &next, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_LIMIT);
  if (code == PD_OK && next.size <= PD_SNAPSHOT_SIZE_MAX) require_sound(pd_buf_bytes(&next), agent->id, agent->facts.tick_index + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_agent agent = {.epoch = 7, .now_ms = now, .reply_count_max = 3};
  pd_json top;
  pd_error err = {0};
  if (pd_snapshot_check((pd_bytes){data, size}, NULL, &agent.facts, NULL)) return 0;
  FUZZ_REQUIRE(pd_json_parse((pd_bytes){data, size}, &top, NULL) == PD_OK);
  pd_code code = pd_ledger_parse(top, &agent.ledger, &err);
  FUZZ_REQUIRE(code == PD_OK || ((code == PD_CORRUPT || code == PD_FORMAT) && *err.message));
  if (code) return 0;
  snprintf(agent.id, sizeof agent.id, "%s", agent.facts.agent_id);
  FUZZ_REQUIRE(pd_buf_append(&agent.document, data, size, NULL) == PD_OK);
  step(&agent);
  pd_buf_done(&agent.document);
  return 0;
}
