/* client.c: see remote.h: one request and its answer, over libcurl; handles with their connections are kept for the next one (R3). */
#include "remote/client.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_report.h"
#include "base/number.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#define CONNECT_MS 10000L
#define LEAVE_MS 5000L /* to wait for leave to send a file */
#define UPLOAD_SIZE 262144L
#define KEEPALIVE_S 30L /* of silence: then the system looks whether the other side is still there */
#define SILENCE_S 60
#define SILENCE_SLOW_S 3600
#define PACE 1024                           /* bytes a second that a server has to keep up, once its patience is used up */
#define ANSWER_SIZE_MAX ((size_t)257 << 20) /* a blob of 256 MiB, and what is around it */
#define IDLE_MAX 8                          /* handles that are kept for a URI */
#define HEADER_SIZE_MAX 16384
#define HOST_SIZE 256
#define TOKENS_MAX 2 /* the server's, and another's that is pushed to or pulled from */
#define AUTHORIZATION_SIZE (PD_REMOTE_TOKEN_SIZE_MAX + 32)

typedef struct home_link home_link;
struct home_link {
  home_link *next;
  char *uri;
  CURL *idle[IDLE_MAX];
  size_t idle_count;
};

/* Where a token goes: the scheme and the port have to be the same, too. */
typedef struct server_origin {
  char scheme[8], host[HOST_SIZE], port[8];
} server_origin;

typedef struct bound_token {
  char *uri; /* as it was given */
  char authorization[AUTHORIZATION_SIZE];
} bound_token;

static struct {
  pthread_mutex_t lock;
  bound_token tokens[TOKENS_MAX]; /* R5 */
  size_t token_count;
  bool sends_openly;
  char *ca;
  unsigned patience_s;
  size_t answer_size_max;
  home_link *links;
} client = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- URIs ---- */

static bool has_scheme(const char *uri, const char *scheme)
{
  size_t size = strlen(scheme);
  return strncmp(uri, scheme, size) == 0 && uri[size] == ':';
}

bool pd_remote_is(const char *uri)
{
  return has_scheme(uri, "http") || has_scheme(uri, "https") || has_scheme(uri, "unix");
}

static void free_url(CURLU **url)
{
  pd_libcurl.url_cleanup(*url);
}

/* A part of a URL; "" if it has none. */
static void url_part(CURLU *url, CURLUPart part, char *out, size_t size)
{
  char *text = NULL;
  out[0] = 0;
  if (pd_libcurl.url_get(url, part, &text, 0) == CURLUE_OK) snprintf(out, size, "%s", text);
  pd_libcurl.free(text);
}

static pd_code check_url(const char *uri, char host[HOST_SIZE], pd_error *err)
{
  TRY(pd_curl_load(err));
  CLEANUP(free_url) CURLU *url = pd_libcurl.url();
  char part[8];
  if (!url) return pd_error_memory(err, "a URL");
  if (pd_libcurl.url_set(url, CURLUPART_URL, uri, 0) != CURLUE_OK)
    return pd_error_set(err, PD_INVALID, "'%.200s' is no server's address; it is written as http://HOST:PORT", uri);
  url_part(url, CURLUPART_USER, part, sizeof part);
  if (*part) return pd_error_set(err, PD_INVALID, "a server's address has no user and password; give the token by --token-file");
  url_part(url, CURLUPART_PATH, part, sizeof part);
  if (strcmp(part, "/") != 0 || strpbrk(uri, "?#"))
    return pd_error_set(err, PD_INVALID, "'%.200s' has more than the server's address; it is written as http://HOST:PORT", uri);
  url_part(url, CURLUPART_HOST, host, HOST_SIZE);
  return PD_OK;
}

pd_code pd_remote_check(const char *uri, pd_error *err)
{
  char host[HOST_SIZE];
  if (!pd_remote_is(uri))
    return pd_error_set(err, PD_INVALID, "'%.200s' is no server: write http://HOST:PORT, https://HOST:PORT or unix:/PATH", uri);
  if (!has_scheme(uri, "unix")) return check_url(uri, host, err);
  return uri[5] ? PD_OK : pd_error_set(err, PD_INVALID, "'%s' names no socket; it is written as unix:/PATH", uri);
}

bool pd_remote_is_private(const char *uri)
{
  char host[HOST_SIZE];
  struct in_addr v4;
  if (!has_scheme(uri, "http")) return true;
  if (check_url(uri, host, NULL)) return false;
  if (inet_pton(AF_INET, host, &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return strcmp(host, "[::1]") == 0 || strcasecmp(host, "localhost") == 0;
}

static pd_code origin_of(const char *uri, server_origin *out, pd_error *err)
{
  TRY(pd_curl_load(err));
  CLEANUP(free_url) CURLU *url = pd_libcurl.url();
  char *port = NULL;
  if (!url || pd_libcurl.url_set(url, CURLUPART_URL, uri, 0) != CURLUE_OK) return pd_error_memory(err, "a URL");
  url_part(url, CURLUPART_SCHEME, out->scheme, sizeof out->scheme);
  url_part(url, CURLUPART_HOST, out->host, sizeof out->host);
  if (pd_libcurl.url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK) return pd_error_memory(err, "a URL");
  snprintf(out->port, sizeof out->port, "%s", port);
  pd_libcurl.free(port);
  return PD_OK;
}

bool pd_remote_is_same(const char *a, const char *b)
{
  server_origin x, y;
  if (strcmp(a, b) == 0) return true;
  if (pd_remote_check(a, NULL) || pd_remote_check(b, NULL)) return false;
  if (has_scheme(a, "unix") || has_scheme(b, "unix")) return false;
  if (origin_of(a, &x, NULL) || origin_of(b, &y, NULL)) return false;
  return strcmp(x.scheme, y.scheme) == 0 && strcasecmp(x.host, y.host) == 0 && strcmp(x.port, y.port) == 0;
}

/* ---- tokens ---- */

static bound_token *find_token(const char *uri)
{
  for (size_t i = 0; i < client.token_count; i++)
    if (pd_remote_is_same(client.tokens[i].uri, uri)) return &client.tokens[i];
  return NULL;
}

bool pd_remote_has_token(const char *uri)
{
  pthread_mutex_lock(&client.lock);
  bool has_token = find_token(uri) != NULL;
  pthread_mutex_unlock(&client.lock);
  return has_token;
}

const char *pd_remote_role(const char *uri)
{
  return pd_remote_has_token(uri) ? NULL : "operator";
}

static pd_code check_token(const char *uri, const char *token, pd_error *err)
{
  size_t size = strlen(token);
  TRY(pd_remote_check(uri, err));
  for (size_t i = 0; i < size; i++)
    if (token[i] <= ' ' || token[i] > '~') return pd_error_set(err, PD_INVALID, "the token has a character that no token has");
  if (!size || size > PD_REMOTE_TOKEN_SIZE_MAX)
    return pd_error_set(err, PD_INVALID, "a token has 1 to %d characters", PD_REMOTE_TOKEN_SIZE_MAX);
  if (client.sends_openly || pd_remote_is_private(uri)) return PD_OK;
  return pd_error_set(err, PD_DENIED,
                      "a token is not sent to %.200s, where others can read it: use https, a Unix socket, or --insecure-http", uri);
}

pd_code pd_remote_token(const char *uri, const char *token, pd_error *err)
{
  TRY(check_token(uri, token, err));
  char *copy = strdup(uri);
  if (!copy) return pd_error_memory(err, "a server's name");
  pthread_mutex_lock(&client.lock);
  bound_token *bound = find_token(uri);
  if (!bound && client.token_count < TOKENS_MAX) bound = &client.tokens[client.token_count++];
  if (bound) {
    free(bound->uri);
    bound->uri = copy;
    snprintf(bound->authorization, sizeof bound->authorization, "Bearer %s", token);
  }
  pthread_mutex_unlock(&client.lock);
  if (bound) return PD_OK;
  free(copy);
  return pd_error_set(err, PD_LIMIT, "tokens for %d servers are in use already", TOKENS_MAX);
}

static pd_code add_token(pd_exchange *x, const char *uri, pd_error *err)
{
  char authorization[AUTHORIZATION_SIZE] = "";
  pthread_mutex_lock(&client.lock);
  const bound_token *bound = find_token(uri);
  if (bound) memcpy(authorization, bound->authorization, sizeof authorization);
  pthread_mutex_unlock(&client.lock);
  pd_code code = pd_exchange_header(x, "Authorization", *authorization ? authorization : NULL, err);
  explicit_bzero(authorization, sizeof authorization);
  return code;
}

/* ---- handles ---- */

static home_link *find_link(const char *uri)
{
  home_link *link = client.links;
  while (link && strcmp(link->uri, uri) != 0) link = link->next;
  return link;
}

/* R3: the connections are the parent's, who goes on using them. What describes them is left where it is: to close would be to talk. */
static void forget_links(void)
{
  pthread_mutex_init(&client.lock, NULL);
  client.links = NULL;
}

static CURL *take_handle(const char *uri, bool *out_was_used)
{
  CURL *easy = NULL;
  pthread_mutex_lock(&client.lock);
  home_link *link = find_link(uri);
  if (link && link->idle_count) easy = link->idle[--link->idle_count];
  pthread_mutex_unlock(&client.lock);
  *out_was_used = easy != NULL;
  return easy ? easy : pd_libcurl.easy_init();
}

static home_link *add_link(const char *uri)
{
  home_link *link = calloc(1, sizeof *link);
  if (link) link->uri = strdup(uri);
  if (!link || !link->uri) {
    free(link);
    return NULL;
  }
  link->next = client.links;
  client.links = link;
  return link;
}

static void give_handle(const char *uri, CURL *easy)
{
  pthread_mutex_lock(&client.lock);
  home_link *link = find_link(uri);
  if (!link) link = add_link(uri);
  bool is_kept = link && link->idle_count < IDLE_MAX;
  if (is_kept) link->idle[link->idle_count++] = easy;
  pthread_mutex_unlock(&client.lock);
  if (!is_kept) pd_libcurl.easy_cleanup(easy);
}

/* ---- one exchange ---- */

/* An answer that is no error goes into the file, if there is one. */
static bool is_for_file(const pd_exchange *x)
{
  long status = 0;
  return x->take_fd && pd_libcurl.easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK && status == 200;
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
  pd_exchange *x = ctx;
  (void)size;
  if (is_for_file(x)) return pd_fd_write(*x->take_fd, data, count, "a temporary file", &x->fault) ? 0 : count;
  size_t most = client.answer_size_max ? client.answer_size_max : ANSWER_SIZE_MAX;
  if (!x->fault.code && count > most - x->out->size)
    pd_error_set(&x->fault, PD_LIMIT, "the answer of the server at %.200s is over the limit of %zu bytes", x->uri, most);
  if (!x->fault.code) (void)!pd_buf_append(x->out, data, count, &x->fault);
  return x->fault.code ? 0 : count;
}

static size_t send_body(char *out, size_t size, size_t count, void *ctx)
{
  pd_exchange *x = ctx;
  uint64_t left = x->send_size - x->sent, most = (uint64_t)size * count;
  ssize_t n = pread(*x->send_fd, out, left < most ? left : most, (off_t)x->sent);
  if (n < 0 || (!n && left)) {
    pd_error_set(&x->fault, PD_STORAGE, "what is to be sent cannot be read: %s", n ? strerror(errno) : "it became shorter");
    return CURL_READFUNC_ABORT;
  }
  x->sent += (uint64_t)n;
  return (size_t)n;
}

/* libcurl begins again if a kept connection turns out to be closed. */
static int rewind_body(void *ctx, curl_off_t offset, int origin)
{
  pd_exchange *x = ctx;
  if (origin != SEEK_SET) return CURL_SEEKFUNC_FAIL;
  x->sent = (uint64_t)offset;
  return CURL_SEEKFUNC_OK;
}

/* R4: libcurl's own limit of speed is met by a byte a second. */
static int keep_pace(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
  pd_exchange *x = ctx;
  int64_t took_s = (pd_clock_monotonic_ms() - x->begun_ms) / 1000;
  bool has_file = x->send_fd || x->take_fd;
  uint64_t done = has_file ? (uint64_t)(down + up) : 0, total = has_file ? (uint64_t)(down_total + up_total) : 0;
  if (x->progress && !x->progress(x->progress_ctx, done, total)) {
    pd_error_named(&x->fault, PD_INVALID, "Cancelled", "the call was cancelled by its caller");
    return 1;
  }
  if (!x->patience_s || took_s <= (int64_t)x->patience_s + (down + up) / PACE) return 0;
  pd_error_set(&x->fault, PD_STORAGE, "the server at %.200s answers too slowly: %lld bytes in %lld s", x->uri, (long long)down,
               (long long)took_s);
  return 1;
}

static bool header_number(const char *line, size_t size, const char *name, uint64_t *out)
{
  size_t name_size = strlen(name);
  char text[32];
  if (size <= name_size || strncasecmp(line, name, name_size) != 0 || line[name_size] != ':') return false;
  snprintf(text, sizeof text, "%.*s", (int)(size - name_size - 1), line + name_size + 1);
  const char *at = text + strspn(text, " \t");
  return pd_u64_take(&at, out) && !at[strspn(at, " \t\r\n")];
}

static void take_report(const char *line, size_t size, char out[PD_REMOTE_REPORT_SIZE])
{
  static const char name[] = PD_BUNDLE_HEADER ": ";
  if (size < sizeof name || strncasecmp(line, name, sizeof name - 1) != 0) return;
  snprintf(out, PD_REMOTE_REPORT_SIZE, "%.*s", (int)(size - sizeof name + 1), line + sizeof name - 1);
  out[strcspn(out, "\r\n")] = 0;
}

static size_t take_header(char *data, size_t size, size_t count, void *ctx)
{
  pd_exchange *x = ctx;
  (void)size;
  if (!header_number(data, count, "Perdure-Tail", &x->reply.tail)) (void)header_number(data, count, "Perdure-Next", &x->reply.next);
  take_report(data, count, x->reply.report);
  return count;
}

pd_code pd_exchange_header(pd_exchange *x, const char *name, const char *value, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf line = {.size_max = HEADER_SIZE_MAX};
  if (!value) return PD_OK;
  if (strlen(value) > HEADER_SIZE_MAX - 64 || strpbrk(value, "\r\n"))
    return pd_error_set(err, PD_INVALID, "%s cannot be sent to a server", name);
  TRY(pd_buf_printf(&line, err, "%s: %s%c", name, value, 0));
  struct curl_slist *longer = pd_libcurl.slist_append(x->headers, (char *)line.data);
  if (!longer) return pd_error_memory(err, "a request");
  x->headers = longer;
  return PD_OK;
}

static pd_code add_headers(pd_exchange *x, const pd_remote_request *request, pd_error *err)
{
  bool has_body = strcmp(request->method, "POST") == 0;
  TRY(add_token(x, request->uri, err));
  TRY(pd_exchange_header(x, "Perdure-Agent", request->agent, err));
  TRY(pd_exchange_header(x, "Perdure-Session", request->session, err));
  TRY(pd_exchange_header(x, "Perdure-Role", request->role, err));
  if (has_body) TRY(pd_exchange_header(x, "Content-Type", request->type ? request->type : "application/json", err));
  /* What is large is refused before it is sent; for anything else libcurl need not wait for leave. */
  struct curl_slist *longer = pd_libcurl.slist_append(x->headers, request->send_fd ? "Expect: 100-continue" : "Expect:");
  if (!longer) return pd_error_memory(err, "a request");
  x->headers = longer;
  return PD_OK;
}

static pd_code set_address(CURL *easy, const pd_remote_request *request, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf url = {0};
  bool is_unix = has_scheme(request->uri, "unix");
  size_t size = strlen(request->uri);
  if (!is_unix && request->uri[size - 1] == '/') size--;
  TRY(is_unix ? pd_buf_printf(&url, err, "http://localhost%s%c", request->path, 0)
              : pd_buf_printf(&url, err, "%.*s%s%c", (int)size, request->uri, request->path, 0));
  if (is_unix && pd_libcurl.easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, request->uri + 5) != CURLE_OK)
    return pd_error_set(err, PD_INVALID, "the path of the socket %s cannot be used", request->uri);
  return pd_libcurl.easy_setopt(easy, CURLOPT_URL, (char *)url.data) == CURLE_OK ? PD_OK : pd_error_memory(err, "a request");
}

static void set_security(CURL *easy)
{
  pd_libcurl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  pd_libcurl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  pd_libcurl.easy_setopt(easy, CURLOPT_PROXY, ""); /* R2 */
  pd_libcurl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  if (client.ca) pd_libcurl.easy_setopt(easy, CURLOPT_CAINFO, client.ca);
  pd_libcurl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
  pd_libcurl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  pd_libcurl.easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
  pd_libcurl.easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
}

static unsigned silence_of(const pd_remote_request *request)
{
  if (client.patience_s) return client.patience_s;
  return request->is_slow ? SILENCE_SLOW_S : SILENCE_S;
}

static void set_file(pd_exchange *x)
{
  pd_libcurl.easy_setopt(x->easy, CURLOPT_READFUNCTION, send_body);
  pd_libcurl.easy_setopt(x->easy, CURLOPT_READDATA, x);
  pd_libcurl.easy_setopt(x->easy, CURLOPT_SEEKFUNCTION, rewind_body);
  pd_libcurl.easy_setopt(x->easy, CURLOPT_SEEKDATA, x);
  pd_libcurl.easy_setopt(x->easy, CURLOPT_EXPECT_100_TIMEOUT_MS, LEAVE_MS);
  pd_libcurl.easy_setopt(x->easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_SIZE);
}

pd_code pd_exchange_begin(pd_exchange *x, CURL *easy, const pd_remote_request *request, pd_buf *out, pd_error *err)
{
  *x = (pd_exchange){.easy = easy, .out = out, .uri = request->uri, .begun_ms = pd_clock_monotonic_ms()};
  x->send_fd = request->send_fd;
  x->send_size = request->send_size;
  x->take_fd = request->take_fd;
  x->progress = request->progress;
  x->progress_ctx = request->progress_ctx;
  pd_buf_clear(out);
  pd_libcurl.easy_reset(easy); /* options, not connections */
  TRY(set_address(easy, request, err));
  TRY(add_headers(x, request, err));
  set_security(easy);
  pd_libcurl.easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  pd_libcurl.easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)silence_of(request));
  pd_libcurl.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  pd_libcurl.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, keep_pace);
  pd_libcurl.easy_setopt(easy, CURLOPT_XFERINFODATA, x);
  if (strcmp(request->method, "POST") == 0) {
    pd_libcurl.easy_setopt(easy, CURLOPT_POST, 1L);
    if (request->send_fd)
      set_file(x);
    else
      pd_libcurl.easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.size ? request->body.data : "");
    pd_libcurl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(request->send_fd ? request->send_size : request->body.size));
  }
  pd_libcurl.easy_setopt(easy, CURLOPT_HTTPHEADER, x->headers);
  pd_libcurl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  pd_libcurl.easy_setopt(easy, CURLOPT_WRITEDATA, x);
  pd_libcurl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
  pd_libcurl.easy_setopt(easy, CURLOPT_HEADERDATA, x);
  pd_libcurl.easy_setopt(easy, CURLOPT_ERRORBUFFER, x->text);
  return PD_OK;
}

pd_code pd_exchange_end(pd_exchange *x, CURLcode result, const char *uri, pd_error *err)
{
  long status = 0;
  if (x->fault.code && err) *err = x->fault;
  if (x->fault.code) return x->fault.code;
  if (result != CURLE_OK)
    return pd_error_set(err, PD_STORAGE, "the server at %.200s does not answer: %.200s", uri,
                        *x->text && !has_scheme(uri, "unix") ? x->text : pd_libcurl.easy_strerror(result));
  pd_libcurl.easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
  x->reply.status = (unsigned)status;
  return PD_OK;
}

void pd_exchange_done(pd_exchange *x)
{
  pd_libcurl.slist_free_all(x->headers);
  x->headers = NULL;
}

pd_code pd_remote_ask(const pd_remote_request *request, pd_remote_reply *reply, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_exchange_done) pd_exchange x = {0};
  bool was_used;
  long connects = 0;
  TRY(pd_curl_load(err));
  CURL *easy = take_handle(request->uri, &was_used);
  if (!easy) return pd_error_memory(err, "a connection");
  pd_code code = pd_exchange_begin(&x, easy, request, out, err);
  x.patience_s = silence_of(request);
  CURLcode result = code ? CURLE_OK : pd_libcurl.easy_perform(easy);
  if (request->out_is_unsent) *request->out_is_unsent = result == CURLE_COULDNT_CONNECT;
  if (!code) code = pd_exchange_end(&x, result, request->uri, err);
  if (code) {
    pd_libcurl.easy_cleanup(easy); /* whatever state it is in */
    return code;
  }
  pd_libcurl.easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
  x.reply.is_doubtful = was_used && connects > 0;
  *reply = x.reply;
  give_handle(request->uri, easy);
  return PD_OK;
}

/* ---- errors ---- */

/* The code by its name in details.kind, or as the error's own. */
static pd_code code_of(pd_json error)
{
  pd_json kind = pd_json_member(pd_json_member(error, "details"), "kind"), name = pd_json_member(error, "code");
  pd_code code = PD_STORAGE;
  for (pd_code c = PD_OK + 1; c < PD_CODE_COUNT; c++)
    if (pd_json_is(name, pd_code_name(c))) code = c;
  for (pd_code c = PD_OK + 1; c < PD_CODE_COUNT; c++)
    if (pd_json_is(kind, pd_code_name(c))) code = c;
  return code;
}

pd_code pd_remote_error(const pd_remote_reply *reply, pd_bytes body, const char *what, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf message = {0};
  pd_json answer;
  if (pd_json_parse(body, &answer, NULL) || pd_json_decode(pd_json_member(pd_json_member(answer, "error"), "message"), &message, NULL))
    return pd_error_set(err, PD_STORAGE, "%s: the server answered with status %u; is it a perdure?", what, reply->status);
  pd_json error = pd_json_member(answer, "error"), details = pd_json_member(error, "details");
  pd_code code = code_of(error);
  bool is_stopping = pd_json_is(pd_json_member(error, "code"), "Draining");
  pd_error_named(err, code, is_stopping ? "Draining" : NULL, "%.*s", (int)message.size, (const char *)message.data);
  if (!err) return code;
  if (!pd_json_u64(pd_json_member(details, "expected"), &err->expected)) err->expected = 0;
  if (!pd_json_u64(pd_json_member(details, "actual"), &err->actual)) err->actual = 0;
  return code;
}

/* ---- setting up ---- */

pd_code pd_remote_setup(const pd_remote_options *options, pd_error *err)
{
  client.sends_openly = options->sends_openly;
  client.patience_s = options->patience_s;
  client.answer_size_max = options->answer_size_max;
  if (options->ca && !(client.ca = strdup(options->ca))) return pd_error_memory(err, "the name of a file");
  if (pthread_atfork(NULL, NULL, forget_links)) return pd_error_memory(err, "what a fork needs");
  return pd_remote_register(err);
}
