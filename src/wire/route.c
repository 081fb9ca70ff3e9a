/* route.c: the table of what is served: a line a path. */
#include "base/base.h"
#include "wire/http.h"

#include <stdio.h>

/* The first that fits. */
static const pd_route routes[] = {
  {"POST", "/v1/call/", pd_route_call, pd_route_call_lane, false, false, false},
  {"GET", "/v1/capabilities", pd_route_capabilities, NULL, false, false, false},
  {"GET", "/v1/capabilities/", pd_route_capability, NULL, false, false, false},
  {"GET", "/v1/openapi.json", pd_route_openapi, NULL, false, false, false},
  {"GET", "/v1/agents/", pd_route_agents, pd_route_agents_lane, false, false, false},
  {"GET", "/v1/watch", pd_route_watch, pd_route_watch_lane, false, true, false},
  {"POST", "/v1/bundles/", pd_route_bundle, pd_route_bundle_lane, false, false, true},
  {"GET", "/v1/home/", pd_route_home, pd_route_home_lane, false, false, false},
  {"POST", "/v1/home/", pd_route_home, pd_route_home_lane, false, false, false},
  {"GET", "/v1/stores", pd_route_stores, pd_route_stores_lane, false, false, false},
  {"GET", "/v1/stores/", pd_route_store, pd_route_store_lane, false, false, false},
  {"POST", "/v1/stores/", pd_route_store, pd_route_store_lane, false, false, false},
  {"GET", "/metrics", pd_route_metrics, pd_route_metrics_lane, false, false, false},
  {"POST", "/mcp", pd_route_mcp, pd_route_mcp_lane, false, false, false},
  {"GET", "/mcp", pd_route_mcp, pd_route_mcp_lane, false, false, false},
  {"DELETE", "/mcp", pd_route_mcp, pd_route_mcp_lane, false, false, false},
  {"GET", "/", pd_route_page, NULL, true, false, false},
  {"GET", "/favicon.ico", pd_route_icon, NULL, true, false, false},
  {"GET", "/healthz", pd_route_healthz, NULL, true, false, false},
  {"GET", "/readyz", pd_route_readyz, NULL, true, false, false},
};

const pd_route *pd_route_at(size_t index)
{
  return index < COUNT_OF(routes) ? &routes[index] : NULL;
}

static bool fits_path(const pd_route *route, const char *path, const char **out_rest)
{
  size_t size = strlen(route->path);
  bool has_rest = size > 1 && route->path[size - 1] == '/';
  if (strncmp(path, route->path, size) != 0 || has_rest != (path[size] != 0)) return false;
  *out_rest = path + size;
  return true;
}

static bool fits_method(const pd_route *route, const char *method)
{
  return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

const pd_route *pd_route_find(const char *method, const char *path, const char **out_rest, char *out_allow, size_t allow_size)
{
  size_t used = 0;
  out_allow[0] = 0;
  for (size_t i = 0; i < COUNT_OF(routes); i++) {
    if (!fits_path(&routes[i], path, out_rest)) continue;
    if (fits_method(&routes[i], method)) return &routes[i];
    bool is_get = strcmp(routes[i].method, "GET") == 0;
    int size = snprintf(out_allow + used, allow_size - used, "%s%s", used ? ", " : "", is_get ? "GET, HEAD" : routes[i].method);
    if (size > 0 && (size_t)size < allow_size - used) used += (size_t)size;
  }
  return NULL;
}
