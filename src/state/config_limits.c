/*
 * config_limits.c: limits that are not settings. Each was one once: its name in perdure.toml or the environment is accepted, ignored and
 * reported (pd_config_each_notice). A limit has one value for everybody, or follows a setting by a ratio.
 *
 * perdure's own tests lower them by a table [test] of perdure.toml: `[test.server]`, `drain = "1s"`. The environment cannot.
 */
#include "base/base.h"
#include "state/config.h"

#include <stddef.h>

#define AT(member) offsetof(pd_config, member)
#define KB ((uint64_t)1024)
#define MB (KB * 1024)
#define GB (MB * 1024)
#define TB (GB * 1024)
#define SECOND ((uint64_t)1000)
#define DAY (SECOND * 86400)

const pd_config_limit pd_config_limits[] = {
  {{"session.agent_quota", PD_UNIT_BYTES, AT(session_agent_quota_bytes), 256 * MB, 1, 5 * TB,
    "five times session.quota, and at least 256 MiB", ""},
   AT(session_quota_bytes),
   5,
   1},
  {{"session.count_max", PD_UNIT_COUNT, AT(session_count_max), 100000, 1, 10000000, "", ""}, 0, 0, 0},
  {{"session.agent_count_max", PD_UNIT_COUNT, AT(session_agent_count_max), 10, 1, 10000000, "10000, a tenth of all sessions", ""},
   AT(session_count_max),
   1,
   10},
  {{"history.forks_max", PD_UNIT_COUNT, AT(history_forks_max), 100, 0, 100000, "100 for each GiB of agent.quota, and at least 100", ""},
   AT(agent_quota_bytes),
   100,
   GB},
  {{"history.marks_max", PD_UNIT_COUNT, AT(history_marks_max), 1000, 0, 100000, "1000 for each GiB of agent.quota, and at least 1000", ""},
   AT(agent_quota_bytes),
   1000,
   GB},
  {{"store.idle", PD_UNIT_MS, AT(store_idle_ms), 600 * SECOND, 0, 3650 * DAY, "", ""}, 0, 0, 0},
  {{"snapshot.keep", PD_UNIT_COUNT, AT(snapshot_keep), 50, 1, 100000, "", ""}, 0, 0, 0},
  {{"alert.keep", PD_UNIT_COUNT, AT(alert_keep), 1000, 1, 100000, "", ""}, 0, 0, 0},
  {{"alert.bytes_max", PD_UNIT_BYTES, AT(alert_bytes_max), 16 * MB, MB / 16, TB, "", ""}, 0, 0, 0},
  {{"process.keep", PD_UNIT_COUNT, AT(process_keep), 1000, 1, 100000, "", ""}, 0, 0, 0},
  {{"approval.history", PD_UNIT_COUNT, AT(approval_history_keep), 1000, 1, 100000, "", ""}, 0, 0, 0},
  {{"queue.count_max", PD_UNIT_COUNT, AT(queue_count_max), 1000, 1, UINT32_MAX,
    "100000 for each 64 MiB of queue.bytes_max, and at least 1000", ""},
   AT(queue_bytes_max),
   100000,
   64 * MB},
  {{"queue.sender_bytes_max", PD_UNIT_BYTES, AT(queue_sender_bytes_max), 1, 1, 4 * TB, "four times queue.bytes_max", ""},
   AT(queue_bytes_max),
   4,
   1},
  {{"mailbox.count_max", PD_UNIT_COUNT, AT(mailbox_count_max), 10000, 1, 1000000, "10000 for each GiB of agent.quota, and at least 10000",
    ""},
   AT(agent_quota_bytes),
   10000,
   GB},
  {{"work.keep", PD_UNIT_COUNT, AT(work_keep), 1000, 1, 10000, "", ""}, 0, 0, 0},
  {{"work.lease", PD_UNIT_MS, AT(work_lease_ms), 900 * SECOND, 0, 3650 * DAY, "15m, unless the claim says lease_ms", ""}, 0, 0, 0},
  {{"activity.flush", PD_UNIT_MS, AT(activity_flush_ms), 5 * SECOND, 0, 3600 * SECOND, "", ""}, 0, 0, 0},
  {{"briefing.files_max", PD_UNIT_COUNT, AT(briefing_files_max), 100000, 1, 10000000, "", ""}, 0, 0, 0},
  {{"server.bytes_max", PD_UNIT_BYTES, AT(server_bytes_max), 64 * MB, 2 * MB, TB, "32 times server.body_max, and at least 64 MiB", ""},
   AT(server_body_max_bytes),
   32,
   1},
  {{"server.in_flight_max", PD_UNIT_COUNT, AT(server_in_flight_max), 4, 1, 1000000, "a quarter of server.connections_max", ""},
   AT(server_connections_max),
   1,
   4},
  {{"server.agent_in_flight_max", PD_UNIT_COUNT, AT(server_agent_in_flight_max), 16, 1, 1000000,
    "1/64 of server.connections_max, and at least 16", ""},
   AT(server_connections_max),
   1,
   64},
  {{"server.request_time", PD_UNIT_MS, AT(server_request_ms), 60 * SECOND, SECOND, 3600 * SECOND, "", ""}, 0, 0, 0},
  {{"server.idle", PD_UNIT_MS, AT(server_idle_ms), 75 * SECOND, SECOND, 3600 * SECOND, "", ""}, 0, 0, 0},
  {{"server.drain", PD_UNIT_MS, AT(server_drain_ms), 20 * SECOND, 0, 3600 * SECOND, "", ""}, 0, 0, 0},
  {{"server.watchers_max", PD_UNIT_COUNT, AT(server_watchers_max), 4, 0, 1000000, "a quarter of server.connections_max", ""},
   AT(server_connections_max),
   1,
   4},
  {{"server.agent_watchers_max", PD_UNIT_COUNT, AT(server_agent_watchers_max), 16, 0, 1000000,
    "1/64 of server.connections_max, and at least 16", ""},
   AT(server_connections_max),
   1,
   64},
  {{"server.watch_queue", PD_UNIT_BYTES, AT(server_watch_queue_bytes), 256 * KB, 4096, 64 * MB, "", ""}, 0, 0, 0},
  {{"server.heartbeat", PD_UNIT_MS, AT(server_heartbeat_ms), 15 * SECOND, SECOND, 3600 * SECOND, "", ""}, 0, 0, 0},
  {{"server.socket_mode", PD_UNIT_TEXT, PD_CONFIG_NOWHERE, 0, 0, 0,
    "0600, unless `perdure serve --socket-mode` or a systemd socket says another", ""},
   0,
   0,
   0},
  {{"server.log", PD_UNIT_TEXT, PD_CONFIG_NOWHERE, 0, 0, 0, "for people on a terminal, else JSON, unless `perdure serve --log` says it",
    ""},
   0,
   0,
   0},
};
const size_t pd_config_limit_count = COUNT_OF(pd_config_limits);

_Static_assert(COUNT_OF(pd_config_limits) <= PD_CONFIG_COUNT_MAX, "pd_config has no room for the origins of all limits");

static uint64_t *value_at(pd_config *config, size_t offset)
{
  return (uint64_t *)((char *)config + offset);
}

/* number * times / by within the item's bounds; the bounds of settings keep it far from 64 bits' end, but for what `most` cuts off. */
static uint64_t ratio_of(const pd_config_limit *limit, uint64_t number)
{
  uint64_t least = limit->item.otherwise, most = limit->item.max;
  uint64_t whole = number / limit->by, rest = number % limit->by;
  if (whole > most / limit->times) return most;
  uint64_t value = whole * limit->times + rest * limit->times / limit->by;
  return value < least ? least : value > most ? most : value;
}

void pd_config_follow(pd_config *config)
{
  for (size_t i = 0; i < pd_config_limit_count; i++) {
    const pd_config_limit *limit = &pd_config_limits[i];
    if (limit->item.offset == PD_CONFIG_NOWHERE || config->tested[i].kind) continue;
    *value_at(config, limit->item.offset) = limit->by ? ratio_of(limit, *value_at(config, limit->from)) : limit->item.otherwise;
  }
}

const pd_config_limit *pd_config_limit_find(const char *name, bool *out_is_test)
{
  *out_is_test = strncmp(name, PD_CONFIG_TEST, strlen(PD_CONFIG_TEST)) == 0;
  if (*out_is_test) name += strlen(PD_CONFIG_TEST);
  for (size_t i = 0; i < pd_config_limit_count; i++)
    if (strcmp(pd_config_limits[i].item.name, name) == 0 && (!*out_is_test || pd_config_limits[i].item.offset != PD_CONFIG_NOWHERE))
      return &pd_config_limits[i];
  return NULL;
}

const char *pd_config_limit_text(const pd_config_limit *limit, char out[PD_CONFIG_TEXT_SIZE])
{
  return *limit->item.about ? limit->item.about : pd_config_text(&limit->item, limit->item.otherwise, out);
}
