/* fuzz_agent_toml.c: agent.toml. It refuses with a line; what it accepts is within bounds, and its paths are absolute. */
#include "base/base.h"
#include "base/buf.h"
#include "fuzz/fuzz.h"

#include <perdure/supervise.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  CLEANUP(pd_agent_config_done) pd_agent_config c;
  pd_error err = {0};
  pd_agent_config_init(&c);
  pd_code code = pd_agent_config_parse((pd_bytes){data, size}, "x", "/f", &c, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_LIMIT || (code == PD_INVALID && strncmp(err.message, "x:", 2) == 0));
  if (code) return 0;
  FUZZ_REQUIRE(c.backoff_min_ms >= 1 && c.backoff_min_ms <= c.backoff_max_ms && c.restarts_max <= PD_AGENT_RESTARTS_MAX);
  FUZZ_REQUIRE(c.restart <= PD_RESTART_NEVER && c.command_count <= PD_AGENT_COMMAND_MAX && c.folder_count <= PD_AGENT_FOLDERS_MAX);
  FUZZ_REQUIRE(!*c.name || pd_agent_check(c.name, NULL) == PD_OK);
  for (size_t i = 0; i < c.folder_count; i++) FUZZ_REQUIRE(c.folders[i][0] == '/');
  for (size_t i = 0; i < c.command_count; i++) FUZZ_REQUIRE(c.command[i] && pd_utf8_check(pd_text(c.command[i])));
  FUZZ_REQUIRE(!c.command_count || !c.command[c.command_count]);
  return 0;
}
