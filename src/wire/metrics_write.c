/* metrics_write.c: GET /metrics: what the server counted, and what its stores and the process can tell without looking at the disk. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "wire/http.h"
#include "wire/mcp_http.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

pd_lane pd_route_metrics_lane(pd_request *request)
{
  (void)request;
  return PD_LANE_SLOW;
}

/* ---- stores ---- */

typedef struct store_list {
  struct {
    char name[PD_NAME_SIZE_MAX + 1];
    pd_counters counters;
  } * items;
  size_t count, capacity;
  pd_open_info info;
  pd_code code;
} store_list;

static void add_store(void *ctx, const char *name, pd_store *store)
{
  store_list *list = ctx;
  if (!list->code) list->code = pd_array_grow(&list->items, list->count, &list->capacity, sizeof *list->items, "the metrics", NULL);
  if (list->code) return;
  snprintf(list->items[list->count].name, sizeof list->items[0].name, "%s", name);
  pd_store_counters(store, &list->items[list->count++].counters);
}

/* The sum of the distributions of all stores, as a histogram of Prometheus. */
static pd_code write_steps(pd_buf *out, const char *name, const char *about, const uint64_t steps[PD_COUNTER_STEPS], double unit,
                           double sum, pd_error *err)
{
  uint64_t total = 0;
  TRY(pd_buf_printf(out, err, "# HELP %s %s\n# TYPE %s histogram\n", name, about, name));
  for (unsigned i = 0; i < PD_COUNTER_STEPS; i++) {
    total += steps[i];
    double bound = (double)(((uint64_t)1 << i) - 1) * unit; /* whole numbers below 2^i */
    if (i + 1 < PD_COUNTER_STEPS)
      TRY(pd_buf_printf(out, err, "%s_bucket{le=\"%g\"} %llu\n", name, bound, (unsigned long long)total));
    else
      TRY(pd_buf_printf(out, err, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)total));
  }
  return pd_buf_printf(out, err, "%s_sum %.6f\n%s_count %llu\n", name, sum, name, (unsigned long long)total);
}

static pd_code write_totals(const store_list *list, pd_buf *out, pd_error *err)
{
  pd_counters all = list->info.closed; /* else the sums would fall when a store is closed */
  for (size_t i = 0; i < list->count; i++) {
    const pd_counters *one = &list->items[i].counters;
    all.sync_us += one->sync_us;
    all.group_count += one->group_count;
    for (size_t k = 0; k < PD_COUNTER_STEPS; k++) all.sync_steps[k] += one->sync_steps[k], all.group_steps[k] += one->group_steps[k];
  }
  TRY(write_steps(out, "perdure_sync_seconds", "Time that a write to stable storage took.", all.sync_steps, 1e-6, (double)all.sync_us / 1e6,
                  err));
  return write_steps(out, "perdure_sync_group_size", "Records that shared one write to stable storage.", all.group_steps, 1,
                     (double)all.group_count, err);
}

typedef uint64_t (*store_number)(const pd_counters *counters);
static uint64_t commits_of(const pd_counters *c)
{
  return c->commits;
}
static uint64_t syncs_of(const pd_counters *c)
{
  return c->syncs;
}
static uint64_t records_of(const pd_counters *c)
{
  return c->records;
}
static uint64_t hits_of(const pd_counters *c)
{
  return c->cache_hits;
}
static uint64_t misses_of(const pd_counters *c)
{
  return c->cache_misses;
}
static uint64_t cache_bytes_of(const pd_counters *c)
{
  return c->cache_bytes;
}

static const struct {
  const char *name, *type, *about;
  store_number number;
} store_lines[] = {
  {"perdure_commits_total", "counter", "Commits made by this server.", commits_of},
  {"perdure_syncs_total", "counter", "Writes to stable storage.", syncs_of},
  {"perdure_log_records", "gauge", "Records in the log.", records_of},
  {"perdure_cache_hits_total", "counter", "Reads that found what they need in memory.", hits_of},
  {"perdure_cache_misses_total", "counter", "Reads that went to the disk.", misses_of},
  {"perdure_cache_bytes", "gauge", "Memory for nodes and values.", cache_bytes_of},
};

/* The files of a store, as they are on the disk. */
static uint64_t bytes_on_disk(const pd_server *server, const char *name)
{
  static const char *const endings[] = {".db", ".db-wal", ".db-shm"};
  char path[4300];
  struct stat is;
  uint64_t bytes = 0;
  if (strncmp(server->options->uri, "sqlite:", 7) != 0) return 0;
  for (size_t i = 0; i < COUNT_OF(endings); i++) {
    snprintf(path, sizeof path, "%.4100s/%s%s", server->options->uri + 7, name, endings[i]);
    if (stat(path, &is) == 0) bytes += (uint64_t)is.st_size;
  }
  return bytes;
}

static pd_code write_stores(const pd_server *server, const store_list *list, pd_buf *out, pd_error *err)
{
  for (size_t k = 0; k < COUNT_OF(store_lines); k++) {
    TRY(pd_buf_printf(out, err, "# HELP %s %s\n# TYPE %s %s\n", store_lines[k].name, store_lines[k].about, store_lines[k].name,
                      store_lines[k].type));
    for (size_t i = 0; i < list->count; i++)
      TRY(pd_buf_printf(out, err, "%s{store=\"%s\"} %llu\n", store_lines[k].name, list->items[i].name,
                        (unsigned long long)store_lines[k].number(&list->items[i].counters)));
  }
  TRY(pd_buf_printf(out, err, "# HELP perdure_store_bytes Size of a store's files.\n# TYPE perdure_store_bytes gauge\n"));
  for (size_t i = 0; i < list->count; i++)
    TRY(pd_buf_printf(out, err, "perdure_store_bytes{store=\"%s\"} %llu\n", list->items[i].name,
                      (unsigned long long)bytes_on_disk(server, list->items[i].name)));
  return write_totals(list, out, err);
}

/* ---- the process ---- */

static pd_code write_gauge(pd_buf *out, const char *name, const char *about, uint64_t number, pd_error *err)
{
  return pd_buf_printf(out, err, "# HELP %s %s\n# TYPE %s gauge\n%s %llu\n", name, about, name, name, (unsigned long long)number);
}

static uint64_t count_files(void)
{
  uint64_t count = 0;
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count > 3 ? count - 3 : 0; /* not ".", ".." and the folder itself */
}

static uint64_t resident_bytes(void)
{
  unsigned long long all = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  if (fscanf(f, "%llu %llu", &all, &resident) != 2) resident = 0;
  fclose(f);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static pd_code write_counter(pd_buf *out, const char *name, const char *about, uint64_t number, pd_error *err)
{
  return pd_buf_printf(out, err, "# HELP %s %s\n# TYPE %s counter\n%s %llu\n", name, about, name, name, (unsigned long long)number);
}

static pd_code write_open_stores(const pd_open_info *info, pd_buf *out, pd_error *err)
{
  TRY(write_gauge(out, "perdure_stores_open", "Agents' stores that are open.", info->open_count, err));
  TRY(write_gauge(out, "perdure_stores_open_max", "Agents' stores that may be open, if not all of them are in use.", info->open_max, err));
  TRY(write_counter(out, "perdure_stores_opened_total", "Stores that were opened.", info->opened_count, err));
  return write_counter(out, "perdure_stores_closed_total", "Agents' stores that were closed for others, or for want of use.",
                       info->closed_count, err);
}

static pd_code write_process(pd_server *server, pd_buf *out, pd_error *err)
{
  TRY(pd_buf_printf(out, err,
                    "# HELP perdure_build_info The version.\n# TYPE perdure_build_info gauge\nperdure_build_info{version=\"%s\"} 1\n",
                    pd_version()));
  TRY(write_gauge(out, "perdure_connections", "Open connections.", pd_conns_count(server), err));
  TRY(write_gauge(out, "perdure_requests_in_flight", "Requests at work.", atomic_load(&server->in_flight), err));
  TRY(write_gauge(out, "perdure_bytes_in_flight", "Bodies and answers over 16 KiB.", atomic_load(&server->byte_count), err));
  TRY(write_gauge(out, "perdure_watchers", "Who follow GET /v1/watch.", pd_hub_count(server->hub), err));
  size_t mcp_sessions = 0, mcp_streams = 0;
  if (server->mcp) pd_mcp_counts(pd_mcp_http_core(server->mcp), &mcp_sessions, &mcp_streams);
  TRY(write_gauge(out, "perdure_mcp_sessions", "MCP sessions.", mcp_sessions, err));
  TRY(write_gauge(out, "perdure_streams", "Watches and MCP streams.", atomic_load(&server->stream_count), err));
  TRY(write_gauge(out, "perdure_calls_waiting", "Calls that wait for a message.", server->waits ? pd_waits_count(server->waits) : 0, err));
  TRY(write_gauge(out, "perdure_sessions", "Sessions.", pd_session_count(server->home), err));
  TRY(
    write_counter(out, "perdure_watchers_cut_total", "Watchers that were cut off for being too slow.", pd_hub_cut_count(server->hub), err));
  if (server->tls)
    TRY(write_gauge(out, "perdure_tls_certificate_expires_seconds", "When the certificate ends, since 1970.",
                    (uint64_t)pd_tls_expires_s(server->tls), err));
  TRY(write_gauge(out, "process_open_fds", "Open files.", count_files(), err));
  TRY(write_counter(out, "perdure_permission_decisions_total", "How often it was decided whether a caller may do something.",
                    pd_authorise_count(server->home), err));
  TRY(write_gauge(out, "perdure_disk_full", "1: writes are refused, as there is no space.", pd_space_is_full(server), err));
  TRY(write_gauge(out, "perdure_stores_sick", "Open stores that refuse writes, as a sync failed.", pd_sick_count(server, NULL), err));
  struct mallinfo2 heap = mallinfo2();
  TRY(write_gauge(out, "perdure_heap_bytes", "Memory in use; what the allocator keeps besides is not in it.", heap.uordblks + heap.hblkhd,
                  err));
  return write_gauge(out, "process_resident_memory_bytes", "Memory.", resident_bytes(), err);
}

/* ---- the route ---- */

static pd_code write_all(pd_request *request, store_list *list, pd_error *err)
{
  pd_server *server = request->server;
  pd_ctx who = pd_caller_ctx(&request->caller);
  TRY(pd_authorise_operator(&who, "system.health", false, NULL, err));         /* they tell of all agents */
  TRY(pd_authorise_read(&who, "system.health", NULL, pd_text(""), NULL, err)); /* nor are they for a narrowed token */
  pd_home_open_info(server->home, &list->info);
  pd_home_each_open(server->home, add_store, list);
  if (list->code) return pd_error_memory(err, "the metrics");
  TRY(pd_metrics_write(server->metrics, &request->out, err));
  TRY(write_stores(server, list, &request->out, err));
  TRY(write_open_stores(&list->info, &request->out, err));
  return write_process(server, &request->out, err);
}

void pd_route_metrics(pd_request *request)
{
  store_list list = {0};
  pd_error err = {0};
  pd_code code = write_all(request, &list, &err);
  if (code == PD_DENIED) pd_caller_audit(&request->caller, "metrics.read", (pd_bytes){0}, code, &err);
  if (code) {
    pd_reply_error(request, &err);
  } else {
    request->type = "text/plain; version=0.0.4; charset=utf-8";
    pd_reply(request, MHD_HTTP_OK);
  }
  free(list.items);
}
