/* settings.c: what [server], [store] and [folders] in the home's perdure.toml say, and the limits that follow from it or are fixed. */
#include "base/base.h"
#include "base/error.h"
#include "wire/http.h"

#include <stddef.h>

static const struct {
  const char *name;
  size_t offset;
} places[] = {
  {"server.body_max", offsetof(pd_wire_settings, body_size_max)},
  {"server.bytes_max", offsetof(pd_wire_settings, bytes_max)},
  {"server.bundles_max", offsetof(pd_wire_settings, bundles_max)},
  {"server.connections_max", offsetof(pd_wire_settings, connection_count_max)},
  {"server.in_flight_max", offsetof(pd_wire_settings, in_flight_max)},
  {"server.agent_in_flight_max", offsetof(pd_wire_settings, agent_in_flight_max)},
  {"server.request_time", offsetof(pd_wire_settings, request_ms)},
  {"server.idle", offsetof(pd_wire_settings, idle_ms)},
  {"server.drain", offsetof(pd_wire_settings, drain_ms)},
  {"server.rate", offsetof(pd_wire_settings, rate)},
  {"server.agent_rate", offsetof(pd_wire_settings, agent_rate)},
  {"server.heartbeat", offsetof(pd_wire_settings, heartbeat_ms)},
  {"server.watchers_max", offsetof(pd_wire_settings, watcher_count_max)},
  {"server.agent_watchers_max", offsetof(pd_wire_settings, agent_watcher_count_max)},
  {"store.open_max", offsetof(pd_wire_settings, store_open_max)},
  {"store.idle", offsetof(pd_wire_settings, store_idle_ms)},
  {"server.watch_queue", offsetof(pd_wire_settings, watch_queue_bytes)},
};

static void take(void *ctx, const pd_config_info *info)
{
  pd_wire_settings *settings = ctx;
  for (size_t i = 0; i < COUNT_OF(places); i++)
    if (strcmp(places[i].name, info->name) == 0) atomic_store((_Atomic uint64_t *)((char *)settings + places[i].offset), info->number);
}

/* As the home's stores were opened with it: a reload does not change that. */
static void take_flush(void *ctx, const pd_config_info *info)
{
  pd_server *server = ctx;
  if (strcmp(info->name, "store.flush") == 0) server->is_buffered = info->number != 0;
}

static void warn(void *ctx, const char *text)
{
  const pd_server *server = ctx;
  pd_log_say(&server->options->log, PD_LOG_WARN, "%s", text);
}

pd_code pd_wire_settings_load(pd_server *server, pd_error *err)
{
  TRY(pd_config_each(server->home, take_flush, server, err));
  TRY(pd_config_each_now(server->home, take, &server->settings, err));
  TRY(pd_config_each_limit_now(server->home, take, &server->settings, err));
  TRY(pd_config_each_notice(server->home, NULL, warn, server, err));
  return pd_home_reload_roots(server->home, err);
}
