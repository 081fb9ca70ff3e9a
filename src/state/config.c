/* config.c: the table of settings and their defaults. */
#include "state/config.h"

#include "base/base.h"

#include <stddef.h>

#define AT(member) offsetof(pd_config, member)
#define MB ((uint64_t)1024 * 1024)
#define TB (MB * 1024 * 1024)
#define SECOND ((uint64_t)1000)
#define DAY (SECOND * 86400)
#define LIST_MAX 15 /* as many as a server takes (wire/serve.h) */

const pd_config_item pd_config_items[] = {
  {"session.quota", PD_UNIT_BYTES, AT(session_quota_bytes), 50 * MB, 1, TB, "state of one session"},
  {"session.agent_quota", PD_UNIT_BYTES, AT(session_agent_quota_bytes), 256 * MB, 1, TB, "state of all sessions of one agent"},
  {"session.idle", PD_UNIT_MS, AT(session_idle_ms), 3600 * SECOND, 0, 3650 * DAY,
   "a session ends after this time without a call; 0: never"},
  {"session.count_max", PD_UNIT_COUNT, AT(session_count_max), 100000, 1, 10000000, "sessions at once"},
  {"session.agent_count_max", PD_UNIT_COUNT, AT(session_agent_count_max), 10000, 1, 10000000,
   "sessions of one agent at once; never more than half of session.count_max"},
  {"persistent.quota", PD_UNIT_BYTES, AT(persistent_quota_bytes), 100 * MB, 1, 1000 * TB, "persistent state of one agent"},
  {"agent.quota", PD_UNIT_BYTES, AT(agent_quota_bytes), 1024 * MB, 1, 1000 * TB,
   "all that one agent keeps: state, forks, threads, mailboxes and work items"},
  {"persistent.versions", PD_UNIT_COUNT, AT(persistent_versions), 100, 0, UINT32_MAX, "versions kept of each key; 0: forever"},
  {"shared.quota", PD_UNIT_BYTES, AT(shared_quota_bytes), 500 * MB, 1, 1000 * TB, "shared state of all agents"},
  {"history.forks_max", PD_UNIT_COUNT, AT(history_forks_max), 100, 0, 100000, "forks that one agent may have at once"},
  {"history.marks_max", PD_UNIT_COUNT, AT(history_marks_max), 1000, 0, 100000, "tags and pins that one agent may have set"},
  {"store.flush", PD_UNIT_MS, AT(flush_ms), 0, 0, 60 * SECOND, "0: every write is durable before the reply; else buffered this long"},
  {"store.cache", PD_UNIT_BYTES, AT(cache_bytes), 64 * MB, MB, TB, "memory for nodes and values of one store that is open"},
  {"store.open_max", PD_UNIT_COUNT, AT(store_open_max), 256, 1, 1000000,
   "agents' stores open at once; beyond it those that nobody uses are closed"},
  {"store.idle", PD_UNIT_MS, AT(store_idle_ms), 600 * SECOND, 0, 3650 * DAY,
   "a server closes an agent's store after this time without use; 0: never"},
  {"snapshot.keep", PD_UNIT_COUNT, AT(snapshot_keep), 50, 1, 100000, "system snapshots kept of each agent, and of the operator"},
  {"backup.keep", PD_UNIT_COUNT, AT(backup_keep), 10, 1, 100000, "backups kept of each scope: full, and each agent's"},
  {"alert.keep", PD_UNIT_COUNT, AT(alert_keep), 1000, 1, 100000, "alerts kept of one agent"},
  {"alert.bytes_max", PD_UNIT_BYTES, AT(alert_bytes_max), 16 * MB, MB / 16, TB, "alerts kept of one agent"},
  {"process.keep", PD_UNIT_COUNT, AT(process_keep), 1000, 1, 100000, "process events kept of one agent"},
  {"approval.ttl", PD_UNIT_MS, AT(approval_ttl_ms), 3600 * SECOND, 0, 3650 * DAY, "a request for approval ends after this time; 0: never"},
  {"approval.history", PD_UNIT_COUNT, AT(approval_history_keep), 1000, 1, 100000, "decided approvals kept"},
  {"vault.idle", PD_UNIT_MS, AT(vault_idle_ms), 900 * SECOND, 0, 3650 * DAY,
   "the vault locks itself after this time without use; 0: never"},
  {"audit.flush", PD_UNIT_MS, AT(audit_flush_ms), 100, 0, 60 * SECOND, "audit lines are on disk within this time; 0: before the reply"},
  {"audit.keep", PD_UNIT_DAYS, AT(audit_keep_days), 0, 0, 36500, "audit lines are kept this long; 0: forever"},
  {"queue.visibility", PD_UNIT_MS, AT(queue_visibility_ms), 30 * SECOND, 0, 365 * DAY, "a received message comes again after this time"},
  {"queue.count_max", PD_UNIT_COUNT, AT(queue_count_max), 100000, 1, 10000000, "messages in one agent's queue"},
  {"queue.bytes_max", PD_UNIT_BYTES, AT(queue_bytes_max), 64 * MB, 1, TB, "messages in one agent's queue"},
  {"queue.sender_bytes_max", PD_UNIT_BYTES, AT(queue_sender_bytes_max), 256 * MB, 1, TB,
   "messages of one sender, in all queues, that nobody has acknowledged"},
  {"mailbox.count_max", PD_UNIT_COUNT, AT(mailbox_count_max), 10000, 1, 1000000, "letters that wait in the mailbox of one thread"},
  {"work.keep", PD_UNIT_COUNT, AT(work_keep), 1000, 1, 10000, "work items that are over kept of one agent"},
  {"work.keep_age", PD_UNIT_MS, AT(work_keep_ms), 30 * DAY, 0, 36500 * DAY, "a work item that is over is kept this long; 0: forever"},
  {"work.lease", PD_UNIT_MS, AT(work_lease_ms), 900 * SECOND, 0, 3650 * DAY,
   "a claimed work item is offered again after this time without an update; 0: never"},
  {"activity.flush", PD_UNIT_MS, AT(activity_flush_ms), 5 * SECOND, 0, 3600 * SECOND, "an agent's last activity is written this often"},
  {"briefing.files_max", PD_UNIT_COUNT, AT(briefing_files_max), 100000, 1, 10000000, "files looked at in watched folders"},
  {"folders.roots", PD_UNIT_FOLDERS, AT(folders_roots), 0, 0, 32,
   "absolute folders below which agents that call through a server may watch folders; else none"},
  {"server.body_max", PD_UNIT_BYTES, AT(server_body_max_bytes), 16 * MB, 1024, 64 * MB, "body of one request to a server"},
  {"server.bytes_max", PD_UNIT_BYTES, AT(server_bytes_max), 512 * MB, 2 * MB, (uint64_t)1024 * 1024 * MB,
   "bodies and answers in memory at once, each over 16 KiB; an agent has an eighth (or room for one body), a token half"},
  {"server.connections_max", PD_UNIT_COUNT, AT(server_connections_max), 16384, 16, 1000000,
   "connections at once; more wait to be accepted"},
  {"server.in_flight_max", PD_UNIT_COUNT, AT(server_in_flight_max), 4096, 1, 1000000, "requests at work at once"},
  {"server.agent_in_flight_max", PD_UNIT_COUNT, AT(server_agent_in_flight_max), 256, 1, 1000000,
   "requests at work at once for one agent; never more than half of in_flight_max"},
  {"server.request_time", PD_UNIT_MS, AT(server_request_ms), 60 * SECOND, SECOND, 3600 * SECOND,
   "a request's body must be there within this time"},
  {"server.idle", PD_UNIT_MS, AT(server_idle_ms), 75 * SECOND, SECOND, 3600 * SECOND,
   "a connection without a whole request head is cut after this time"},
  {"server.drain", PD_UNIT_MS, AT(server_drain_ms), 20 * SECOND, 0, 3600 * SECOND,
   "a server that is told to stop waits so long for requests at work"},
  {"server.rate", PD_UNIT_COUNT, AT(server_rate), 0, 0, 10000000, "requests a second of one token, unless the token says it; 0: no limit"},
  {"server.agent_rate", PD_UNIT_COUNT, AT(server_agent_rate), 0, 0, 10000000,
   "requests a second of one agent, by all its tokens; 0: no limit"},
  {"server.watchers_max", PD_UNIT_COUNT, AT(server_watchers_max), 4096, 0, 1000000, "watches and MCP streams at once"},
  {"server.agent_watchers_max", PD_UNIT_COUNT, AT(server_agent_watchers_max), 256, 0, 1000000,
   "watches and MCP streams of one agent at once; never more than half of watchers_max"},
  {"server.watch_queue", PD_UNIT_BYTES, AT(server_watch_queue_bytes), 256 * 1024, 4096, 64 * MB,
   "what a watcher may be behind before it is cut off"},
  {"server.heartbeat", PD_UNIT_MS, AT(server_heartbeat_ms), 15 * SECOND, SECOND, 3600 * SECOND,
   "a watch without news says that it is alive so often"},
  {"server.listen", PD_UNIT_TEXT, AT(server_listen), 0, 0, 0, "HOST:PORT to listen on; else 127.0.0.1:7373, if there is no socket"},
  {"server.socket", PD_UNIT_FILE, AT(server_socket), 0, 0, 0, "the Unix socket to listen on"},
  {"server.socket_mode", PD_UNIT_MODE, AT(server_socket_mode), 0600, 0, 0777, "the socket's mode"},
  {"server.tls_cert", PD_UNIT_FILE, AT(server_tls_cert), 0, 0, 0, "serve HTTPS with this certificate (PEM), and tls_key"},
  {"server.tls_key", PD_UNIT_FILE, AT(server_tls_key), 0, 0, 0, "the certificate's private key (PEM)"},
  {"server.insecure_listen", PD_UNIT_FLAG, AT(server_insecure_listen), 0, 0, 1, "listen beyond loopback without TLS"},
  {"server.allow_host", PD_UNIT_LIST, AT(server_allow_host), 0, 0, LIST_MAX, "names that Host may have besides localhost and addresses"},
  {"server.allow_origin", PD_UNIT_LIST, AT(server_allow_origin), 0, 0, LIST_MAX, "web pages that may call, as https://console.example"},
  {"server.mcp_tools", PD_UNIT_LIST, AT(server_mcp_tools), 0, 0, 256, "the tools that /mcp offers, as state.*; else all"},
  {"server.log", PD_UNIT_CHOICE, AT(server_log), 0, 0, 0, "json|human; else human on a terminal"},
  {"server.log_level", PD_UNIT_CHOICE, AT(server_log_level), 0, 0, 0, "error|warn|info|debug: every request; else info"},
  {"mcp.approvals", PD_UNIT_FLAG, AT(mcp_approvals), 0, 0, 1,
   "a form that an MCP client shows counts as the operator's decision; else only `perdure approvals` does"},
};
const size_t pd_config_item_count = COUNT_OF(pd_config_items);

_Static_assert(COUNT_OF(pd_config_items) <= PD_CONFIG_COUNT_MAX, "pd_config has no room for the origins of all settings");

void pd_config_defaults(pd_config *config)
{
  *config = (pd_config){0};
  for (size_t i = 0; i < pd_config_item_count; i++)
    if (!pd_config_is_text(&pd_config_items[i])) *(uint64_t *)((char *)config + pd_config_items[i].offset) = pd_config_items[i].otherwise;
}
