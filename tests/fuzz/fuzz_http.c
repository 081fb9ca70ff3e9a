/*
 * fuzz_http.c: a request after its bytes became a head and a body: method, path, query, headers and body against framing, guard, tokens,
 * routes, calls and reads, on a home of its own. What libmicrohttpd would tell of the connection is told here (it is not linked for that):
 *
 *   METHOD TARGET\n  NAME: VALUE\n  …  \n  BODY
 *
 * Whatever comes: one answer with a status, JSON if it says so, and every error in the one shape. What streams (/v1/watch, /mcp) is left to
 * fuzz_sse and fuzz_jsonrpc.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "wire/http.h"

#include <string.h>
#include <strings.h>

#define PAIRS_MAX 32
#define INPUT_MAX 4096

typedef struct pair {
  char *name, *value;
} pair;

struct MHD_Connection {
  pair headers[PAIRS_MAX], arguments[PAIRS_MAX];
  size_t header_count, argument_count;
};

/* ---- in libmicrohttpd's place ---- */

const char *MHD_lookup_connection_value(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *key)
{
  bool is_header = kind == MHD_HEADER_KIND;
  const pair *pairs = is_header ? c->headers : c->arguments;
  for (size_t i = 0; i < (is_header ? c->header_count : c->argument_count); i++)
    if (strcasecmp(pairs[i].name, key) == 0) return pairs[i].value;
  return NULL;
}

int MHD_get_connection_values_n(struct MHD_Connection *c, enum MHD_ValueKind kind, MHD_KeyValueIteratorN iterator, void *cls)
{
  FUZZ_REQUIRE(kind == MHD_HEADER_KIND);
  for (size_t i = 0; i < c->header_count; i++) {
    const pair *h = &c->headers[i];
    if (iterator(cls, kind, h->name, strlen(h->name), h->value, strlen(h->value)) != MHD_YES) break;
  }
  return (int)c->header_count;
}

/* Its heads are not in place here: nothing is to be looked for behind a value. */
const char *MHD_get_version(void)
{
  return "0.0";
}

/* ---- reading the input ---- */

/* The text up to `stop`, ended by a NUL; *at goes past it. */
static char *take(char **at, const char *stop)
{
  char *begin = *at;
  size_t size = strcspn(begin, stop);
  *at = begin + size + (begin[size] != 0);
  begin[size] = 0;
  return begin;
}

static void read_query(struct MHD_Connection *c, char *query)
{
  while (*query && c->argument_count < PAIRS_MAX) {
    char *value = take(&query, "&"), *name = take(&value, "=");
    for (char *plus = value; (plus = strchr(plus, '+'));) *plus = ' ';
    MHD_http_unescape(name);
    MHD_http_unescape(value);
    c->arguments[c->argument_count++] = (pair){name, value};
  }
}

static void read_headers(struct MHD_Connection *c, char **at)
{
  while (**at && **at != '\n' && c->header_count < PAIRS_MAX) {
    char *value = take(at, "\n"), *name = take(&value, ":");
    while (*value == ' ') value++;
    c->headers[c->header_count++] = (pair){name, value};
  }
  if (**at == '\n') ++*at;
}

/* ---- the server ---- */

static pd_serve_options options = {.uri = "memory:", .listen = "127.0.0.1:0"};
static pd_server server;
static char bearer[2][160]; /* an agent's and the operator's */

static void must(pd_code code)
{
  FUZZ_REQUIRE(code == PD_OK);
}

static void make_token(const char *input, char out[160])
{
  CLEANUP(pd_buf_done) pd_buf answer = {0}, text = {0};
  pd_ctx ctx = {.home = server.home, .is_operator = true};
  pd_json json;
  must(pd_call(&ctx, "tokens.create", pd_text(input), &answer, NULL));
  must(pd_json_parse(pd_buf_bytes(&answer), &json, NULL));
  must(pd_json_decode(pd_json_member(json, "token"), &text, NULL));
  snprintf(out, 160, "Bearer %.*s", (int)text.size, (const char *)text.data);
}

/* What there is to find: two versions of a key, and a shared one. */
static void open_home(void)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  must(pd_home_open("memory:", NULL, &server.home, NULL));
  make_token("{\"role\":\"agent\",\"agent\":\"fuzz\"}", bearer[0]);
  make_token("{\"role\":\"operator\"}", bearer[1]);
  pd_ctx ctx = {.home = server.home, .agent = "fuzz"};
  must(pd_call(&ctx, "state.persistent.set", pd_text("{\"key\":\"k\",\"value\":1}"), &answer, NULL));
  must(pd_call(&ctx, "state.persistent.set", pd_text("{\"key\":\"k\",\"value\":[2]}"), &answer, NULL));
  must(pd_call(&ctx, "state.shared.set", pd_text("{\"key\":\"s\",\"value\":1,\"expected_version\":0}"), &answer, NULL));
}

static void set_up(void)
{
  server.options = &options;
  open_home();
  must(pd_wire_settings_load(&server, NULL));
  must(pd_describe(&server, NULL));
  must(pd_meter_new(&server.meter, NULL));
  must(pd_rates_new(&server.rates, NULL));
  must(pd_hub_new(&server, &server.hub, NULL));
  must(pd_metrics_new(&server.metrics, NULL));
  pthread_mutex_init(&server.conns.lock, NULL);
}

/* ---- a request ---- */

static bool is_admitted(pd_request *r)
{
  if (!pd_framing_admits(r, MHD_HTTP_VERSION_1_1) || !pd_guard_admits(r) || pd_guard_preflight(r)) return false;
  r->route = pd_route_find(r->method, r->path, &r->rest, r->allow_text, sizeof r->allow_text);
  if (!r->route || r->route->is_stream || strcmp(r->route->path, "/mcp") == 0) return false;
  return r->route->is_open || pd_auth_admits(r);
}

static void run(pd_request *r)
{
  pd_lane lane = r->route->lane ? r->route->lane(r) : PD_LANE_HERE;
  if (lane != PD_LANE_STAGE || !pd_route_call_begin(r)) r->route->run(r);
  FUZZ_REQUIRE(r->status >= 200 && r->status < 600);
}

static void check(const pd_request *r)
{
  pd_json json = {0};
  bool is_json = r->type && strcmp(r->type, "application/json") == 0 && r->out.size;
  if (is_json && !*r->etag) FUZZ_REQUIRE(pd_json_parse(pd_buf_bytes(&r->out), &json, NULL) == PD_OK); /* with one it may be any value */
  if (r->status >= 400) FUZZ_REQUIRE(pd_json_member(pd_json_member(json, "error"), "code").kind == PD_JSON_STRING);
  if (r->status == MHD_HTTP_INTERNAL_SERVER_ERROR) FUZZ_REQUIRE(!"a request alone broke something");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static char text[INPUT_MAX + 1];
  static bool is_ready;
  if (!is_ready) set_up();
  is_ready = true;
  if (size > INPUT_MAX) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  struct MHD_Connection c = {0};
  char *at = text, *target = take(&at, "\n"), *method = take(&target, " "), *path = take(&target, "?");
  read_query(&c, target);
  read_headers(&c, &at);
  if (c.header_count < PAIRS_MAX) c.headers[c.header_count++] = (pair){"Host", "localhost"};
  if (c.header_count < PAIRS_MAX) c.headers[c.header_count++] = (pair){"Authorization", bearer[size % 8 == 0]};
  MHD_http_unescape(path);
  pd_request r = {.server = &server, .connection = &c, .path = path, .id = "fuzz", .body = {.size_max = INPUT_MAX}};
  pd_caller_init(&r.caller, &server);
  snprintf(r.method, sizeof r.method, "%.7s", method);
  size_t left = size > (size_t)(at - text) ? size - (size_t)(at - text) : 0;
  must(pd_buf_append(&r.body, at, left, NULL)); /* a NUL in the body is its own */
  if (is_admitted(&r)) run(&r);
  if (r.status) check(&r);
  pd_caller_done(&r.caller);
  pd_buf_done(&r.body);
  pd_buf_done(&r.out);
  must(pd_home_close(server.home, NULL));
  open_home();
  return 0;
}
