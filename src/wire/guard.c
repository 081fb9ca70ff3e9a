/*
 * guard.c: requests that a web page made on behalf of somebody who did not ask for it. A page of another site can send requests to an
 * address of this machine, under the name of its own site if its DNS says so (rebinding). So Host has to be an address, localhost, or a
 * name that was allowed; Origin, which browsers send, has to be the server's own or one that was allowed; and without an Origin,
 * Sec-Fetch-Site must not tell of another site.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/number.h"
#include "wire/http.h"

#include <arpa/inet.h>
#include <strings.h>

#define HOST_SIZE 256

/* What follows the name: nothing, or a port. RFC 9110 lets the port be empty. */
static bool is_port(const char *text)
{
  uint64_t port;
  return !*text || strcmp(text, ":") == 0 || (*text == ':' && pd_u64_parse(text + 1, &port) && port <= UINT16_MAX);
}

/* The name in HOST[:PORT], or the address in [ADDRESS][:PORT]; false if the text is anything else. */
static bool host_of(const char *text, char out[HOST_SIZE])
{
  struct in6_addr v6;
  bool is_bracketed = *text == '[';
  const char *begin = text + is_bracketed;
  size_t size = strcspn(begin, is_bracketed ? "]" : ":");
  if (!size || size >= HOST_SIZE || (is_bracketed && !begin[size])) return false;
  memcpy(out, begin, size);
  out[size] = 0;
  return is_port(begin + size + is_bracketed) && (!is_bracketed || inet_pton(AF_INET6, out, &v6) == 1);
}

static bool is_address(const char *host)
{
  struct in6_addr v6;
  struct in_addr v4;
  return inet_pton(AF_INET, host, &v4) == 1 || inet_pton(AF_INET6, host, &v6) == 1;
}

bool pd_is_loopback(const char *host)
{
  struct in6_addr v6;
  struct in_addr v4;
  if (inet_pton(AF_INET, host, &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return strcasecmp(host, "localhost") == 0;
}

static bool is_one_of(const char *const *names, const char *name)
{
  for (size_t i = 0; i < PD_SERVE_NAMES_MAX && names[i]; i++)
    if (strcasecmp(names[i], name) == 0) return true;
  return false;
}

static bool is_known_host(const pd_serve_options *options, const char *host)
{
  return strcasecmp(host, "localhost") == 0 || is_address(host) || is_one_of(options->hosts, host);
}

static bool refuse(pd_request *request, const char *what, const char *hint, const char *value)
{
  pd_reply_failure(request, MHD_HTTP_FORBIDDEN, PD_DENIED, "Forbidden", hint, "the %s '%.100s' is not allowed", what, value ? value : "");
  return false;
}

static bool is_tls(const pd_request *request)
{
  return request->conn && request->conn->listener->is_tls;
}

/* Was it known to the request before, by the same options? */
static bool is_remembered(const pd_conn *conn, const pd_serve_options *options, const char *given)
{
  return conn && conn->host_of == options && strcmp(conn->host, given) == 0;
}

static void remember(pd_conn *conn, const pd_serve_options *options, const char *given)
{
  if (!conn || strlen(given) >= sizeof conn->host) return;
  memcpy(conn->host, given, strlen(given) + 1);
  conn->host_of = options;
}

static bool admits_host(pd_request *request)
{
  char host[HOST_SIZE];
  const char *given = pd_request_header(request, MHD_HTTP_HEADER_HOST);
  const pd_serve_options *options = request->server->options;
  if (request->conn && request->conn->listener->is_unix) return true; /* no page can reach it */
  if (given && is_remembered(request->conn, options, given)) return true;
  bool is_host = given && host_of(given, host);
  if (is_host && is_known_host(options, host)) {
    remember(request->conn, options, given);
    return true;
  }
  if (is_host && is_tls(request) && pd_tls_is_named(request->server->tls, host)) return true; /* a page of another name has no such one */
  return refuse(request, "Host", "Use an address or localhost, or allow the name with --allow-host.", given);
}

/* scheme://Host: the server's own pages. Without TLS here it may be a proxy's scheme. */
static bool is_own_origin(const pd_request *request, const char *origin)
{
  const char *host = pd_request_header(request, MHD_HTTP_HEADER_HOST), *at = strstr(origin, "://");
  if (is_tls(request) && strncasecmp(origin, "https://", 8) != 0) return false;
  return at && host && strcasecmp(at + 3, host) == 0;
}

/* Browsers do not send Origin with what a page loads as an image, a script or a frame, but say in Sec-Fetch-Site whose page it is. That
 * somebody follows a link to us is no page's doing. */
static bool admits_load(pd_request *request)
{
  const char *site = pd_request_header(request, "Sec-Fetch-Site");
  if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0) return true;
  const char *dest = pd_request_header(request, "Sec-Fetch-Dest");
  if (dest && strcmp(dest, "document") == 0) return true;
  return refuse(request, "Sec-Fetch-Site", "Pages of other sites load nothing from here; allow their origin with --allow-origin.", site);
}

bool pd_guard_admits(pd_request *request)
{
  if (!admits_host(request)) return false;
  const char *origin = pd_request_header(request, MHD_HTTP_HEADER_ORIGIN);
  if (!origin) return admits_load(request);
  if (is_own_origin(request, origin) || is_one_of(request->server->options->origins, origin)) return true;
  return refuse(request, "Origin", "Allow it with --allow-origin if that page may call.", origin);
}

/* The origin of a page that was allowed; NULL: there is none. */
static const char *guard_cors(const pd_request *request)
{
  const char *origin = request->server->options->origins[0] ? pd_request_header(request, MHD_HTTP_HEADER_ORIGIN) : NULL;
  return origin && is_one_of(request->server->options->origins, origin) ? origin : NULL;
}

static bool is_preflight(const pd_request *request)
{
  return strcmp(request->method, MHD_HTTP_METHOD_OPTIONS) == 0;
}

bool pd_guard_preflight(pd_request *request)
{
  if (!is_preflight(request) || !guard_cors(request)) return false;
  request->status = MHD_HTTP_NO_CONTENT;
  return true;
}

/* What a page of an allowed origin may send, and what it may read of an answer. A browser hides every header that is not named here, so a
 * header that is new on a route has to be added. */
void pd_guard_add(const pd_request *request, struct MHD_Response *response)
{
  const char *origin = guard_cors(request);
  if (!origin) return;
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
  MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Origin");
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS,
                          "ETag, Retry-After, X-Request-Id, Mcp-Session-Id, Perdure-Version, Perdure-Durability, Perdure-Tail, "
                          "Perdure-Next, Perdure-Resumed");
  if (!is_preflight(request)) return;
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, DELETE");
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                          "Authorization, Content-Type, If-None-Match, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version, "
                          "Mcp-Session-Id, Perdure-Agent, Perdure-Role, Perdure-Session, X-Request-Id");
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
}
