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
  {"session.quota", PD_UNIT_BYTES, AT(session_quota_bytes), 50 * MB, 1, TB, "state of one session",
   "agents keep larger working state in a session, or must not; all sessions of one agent have five times as much, at least 256 MiB"},
  {"session.idle", PD_UNIT_MS, AT(session_idle_ms), 3600 * SECOND, 0, 3650 * DAY, "a session ends after this time without a call; 0: never",
   "agents pause for longer than an hour, for instance for a person's answer; or what sessions hold should go sooner"},
  {"persistent.quota", PD_UNIT_BYTES, AT(persistent_quota_bytes), 100 * MB, 1, 1000 * TB, "persistent state of one agent",
   "what you offer an agent is another amount"},
  {"agent.quota", PD_UNIT_BYTES, AT(agent_quota_bytes), 1024 * MB, 1, 1000 * TB,
   "all that one agent keeps: state, forks, threads, mailboxes and work items",
   "what you offer an agent is another amount, or the disk is too small for it times the agents; above 1 GiB, the numbers of forks, tags, "
   "pins and letters that an agent may have grow with it"},
  {"persistent.versions", PD_UNIT_COUNT, AT(persistent_versions), 100, 0, UINT32_MAX, "versions kept of each key; 0: forever",
   "you must be able to go back further, or old versions take too much of the disk"},
  {"shared.quota", PD_UNIT_BYTES, AT(shared_quota_bytes), 500 * MB, 1, 1000 * TB, "shared state of all agents",
   "agents share more, or there are many agents and each adds to it"},
  {"store.flush", PD_UNIT_MS, AT(flush_ms), 0, 0, 60 * SECOND, "0: every write is durable before the reply; else buffered this long",
   "losing the last moment before a power failure is acceptable and writes should be faster"},
  {"store.cache", PD_UNIT_BYTES, AT(cache_bytes), 64 * MB, MB, TB, "memory for nodes and values of one store that is open",
   "memory is short for store.open_max times this; or one agent's state is large and is read all the time"},
  {"store.open_max", PD_UNIT_COUNT, AT(store_open_max), 256, 1, 1000000,
   "agents' stores open at once; beyond it those that nobody uses are closed",
   "more agents than this are active at once: perdure_stores_opened_total then grows as fast as the calls do"},
  {"backup.keep", PD_UNIT_COUNT, AT(backup_keep), 10, 1, 100000, "backups kept of each scope: full, and each agent's",
   "you must be able to restore from further back, or backups take too much of the disk"},
  {"approval.ttl", PD_UNIT_MS, AT(approval_ttl_ms), 3600 * SECOND, 0, 3650 * DAY, "a request for approval ends after this time; 0: never",
   "the people who decide are not there within an hour; a rule of the policy may have a time of its own"},
  {"vault.idle", PD_UNIT_MS, AT(vault_idle_ms), 900 * SECOND, 0, 3650 * DAY, "the vault locks itself after this time without use; 0: never",
   "a server must reach secrets without a person who unlocks it again, or your rules ask for a shorter time"},
  {"audit.flush", PD_UNIT_MS, AT(audit_flush_ms), 100, 0, 60 * SECOND, "audit lines are on disk within this time; 0: before the reply",
   "no call may be answered before its line is on disk (0), at the cost of a sync for each call"},
  {"audit.keep", PD_UNIT_DAYS, AT(audit_keep_days), 0, 0, 36500, "audit lines are kept this long; 0: forever",
   "a law or your rules say how long they may or must be kept"},
  {"queue.visibility", PD_UNIT_MS, AT(queue_visibility_ms), 30 * SECOND, 0, 365 * DAY, "a received message comes again after this time",
   "agents need longer than this for a message and do not say visibility_ms when they receive it"},
  {"queue.bytes_max", PD_UNIT_BYTES, AT(queue_bytes_max), 64 * MB, 1, TB, "messages in one agent's queue",
   "agents that are away for long find QueueFull; a queue holds 100,000 messages for each 64 MiB, and one sender may have four times "
   "this waiting in all queues"},
  {"work.keep_age", PD_UNIT_MS, AT(work_keep_ms), 30 * DAY, 0, 36500 * DAY, "a work item that is over is kept this long; 0: forever",
   "results are fetched later than that, or must be gone sooner"},
  {"folders.roots", PD_UNIT_FOLDERS, AT(folders_roots), 0, 0, 32,
   "absolute folders below which agents that call through a server may watch folders; else none",
   "agents of a server should see what changes in folders of its machine"},
  {"server.body_max", PD_UNIT_BYTES, AT(server_body_max_bytes), 16 * MB, 1024, 64 * MB, "body of one request to a server",
   "clients send larger values; or memory is short: all bodies and answers together take at most 32 times this, but 64 MiB at least"},
  {"server.bundles_max", PD_UNIT_BYTES, AT(server_bundles_max_bytes), 16 * 1024 * MB, MB, 1024 * TB,
   "bundles on their way (clone, push, pull), in unnamed files of the home's folder, all together; a token has half",
   "a history is larger than half of it, or the home's disk has less room to spare"},
  {"server.connections_max", PD_UNIT_COUNT, AT(server_connections_max), 16384, 16, 1000000, "connections at once; more wait to be accepted",
   "more clients are connected at once, or more than a quarter of it watch or wait for answers; raise the limit of open files with it"},
  {"server.rate", PD_UNIT_COUNT, AT(server_rate), 0, 0, 10000000, "requests a second of one token, unless the token says it; 0: no limit",
   "one client must not take the machine from the others"},
  {"server.agent_rate", PD_UNIT_COUNT, AT(server_agent_rate), 0, 0, 10000000,
   "requests a second of one agent, by all its tokens; 0: no limit",
   "agents have several tokens, and what you offer is a rate for each agent"},
  {"server.listen", PD_UNIT_TEXT, AT(server_listen), 0, 0, 0, "HOST:PORT to listen on; else 127.0.0.1:7373, if there is no socket",
   "clients are on other machines, or the port is taken"},
  {"server.socket", PD_UNIT_FILE, AT(server_socket), 0, 0, 0, "the Unix socket to listen on",
   "clients or a proxy on this machine should come through a socket"},
  {"server.tls_cert", PD_UNIT_FILE, AT(server_tls_cert), 0, 0, 0, "serve HTTPS with this certificate (PEM), and tls_key",
   "clients are on other machines and no proxy speaks TLS for the server"},
  {"server.tls_key", PD_UNIT_FILE, AT(server_tls_key), 0, 0, 0, "the certificate's private key (PEM)",
   "server.tls_cert is set: neither goes without the other"},
  {"server.insecure_listen", PD_UNIT_FLAG, AT(server_insecure_listen), 0, 0, 1, "listen beyond loopback without TLS",
   "a proxy or a private network in front of the server keeps what is sent secret"},
  {"server.allow_host", PD_UNIT_LIST, AT(server_allow_host), 0, 0, LIST_MAX, "names that Host may have besides localhost and addresses",
   "clients call the server by a name"},
  {"server.allow_origin", PD_UNIT_LIST, AT(server_allow_origin), 0, 0, LIST_MAX, "web pages that may call, as https://console.example",
   "a page in a browser calls the server"},
  {"server.mcp_tools", PD_UNIT_LIST, AT(server_mcp_tools), 0, 0, 256, "the tools that /mcp offers, as state.*; else all",
   "MCP clients should see fewer tools than there are"},
  {"server.log_level", PD_UNIT_CHOICE, AT(server_log_level), 0, 0, 0, "error|warn|info|debug: every request; else info",
   "the log says too much, or you look for the cause of something"},
  {"mcp.approvals", PD_UNIT_FLAG, AT(mcp_approvals), 0, 0, 1,
   "a form that an MCP client shows counts as the operator's decision; else only `perdure approvals` does",
   "those who use the MCP clients may decide what needs approval"},
};
const size_t pd_config_item_count = COUNT_OF(pd_config_items);

_Static_assert(COUNT_OF(pd_config_items) <= PD_CONFIG_COUNT_MAX, "pd_config has no room for the origins of all settings");

void pd_config_defaults(pd_config *config)
{
  *config = (pd_config){0};
  for (size_t i = 0; i < pd_config_item_count; i++)
    if (!pd_config_is_text(&pd_config_items[i])) *(uint64_t *)((char *)config + pd_config_items[i].offset) = pd_config_items[i].otherwise;
  pd_config_follow(config);
}
