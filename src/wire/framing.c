/*
 * framing.c: requests whose end is not certain, or that say one thing twice. Where two readers of the same bytes may see different
 * requests, a proxy before the server and the server could be made to disagree (request smuggling), so all that RFC 9112 calls doubtful is
 * refused and the connection ends.
 *
 * What libmicrohttpd 0.9 decides before it calls us cannot be refused here: line ends and sizes of chunks, a NUL in the first line, and
 * lines that end in LF alone where nothing follows them (decision 077 has the list).
 */
#include "base/base.h"
#include "base/buf.h"
#include "wire/http.h"

#include <strings.h>

/* Headers that say who asks for what: with two of them one reader would take the first, another the last. */
static const char *const single[] = {
  MHD_HTTP_HEADER_AUTHORIZATION,
  MHD_HTTP_HEADER_CONTENT_TYPE,
  MHD_HTTP_HEADER_ORIGIN,
  "Perdure-Agent",
  "Perdure-Role",
  "Perdure-Session",
  "Mcp-Session-Id",
  "MCP-Protocol-Version",
  "Mcp-Method",
  "Mcp-Name",
  "Last-Event-ID",
};

typedef struct framing {
  unsigned sizes, codings, hosts;
  unsigned singles[COUNT_OF(single)];
  bool is_chunked, is_in_place;
  const char *fault;
} framing;

/* Letters, digits and what RFC 9110 allows besides; above all no blank before the colon. */
static bool is_token(const char *name)
{
  size_t size = strlen(name);
  return size && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == size;
}

/* libmicrohttpd 0.9 appends a line that goes on on the next to the header's name: what was Content-Length is Content-Length5, then. */
static bool is_folded(const char *name, const char *of)
{
  size_t size = strlen(of);
  return strncasecmp(name, of, size) == 0 && name[size];
}

/* libmicrohttpd 0.9 leaves a head where it was received and puts a NUL in place of each CR and LF. So two NULs end a value whose line ended
 * in CR LF; anything else behind the first is the rest of a value that has a NUL, or a line that ended in LF alone. */
static bool is_heads_in_place(void)
{
  return strncmp(MHD_get_version(), "0.9.7", 5) == 0;
}

/* RFC 9110: a value has no control characters but the tab. */
static bool has_control(const char *value, size_t size)
{
  for (size_t i = 0; i < size; i++)
    if (((unsigned char)value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7f) return true;
  return false;
}

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value, size_t value_size)
{
  framing *f = cls;
  (void)kind, (void)name_size;
  if (value && has_control(value, value_size)) f->fault = "a header's value has a control character";
  if (value && f->is_in_place && value[value_size + 1]) f->fault = "a header has a NUL, or its line does not end in CR LF";
  for (size_t i = 0; i < COUNT_OF(single); i++) f->singles[i] += strcasecmp(name, single[i]) == 0;
  if (is_folded(name, MHD_HTTP_HEADER_CONTENT_LENGTH) || is_folded(name, MHD_HTTP_HEADER_TRANSFER_ENCODING))
    f->fault = "a header that tells it goes on on a second line";
  if (!is_token(name)) f->fault = "a header's name has a byte that no name has";
  if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) f->hosts++;
  if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) f->sizes++;
  if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
    f->codings++;
    f->is_chunked = value && strcasecmp(value, "chunked") == 0;
  }
  return MHD_YES;
}

static bool is_said_once(pd_request *request, const framing *f)
{
  for (size_t i = 0; i < COUNT_OF(single); i++) {
    if (f->singles[i] < 2) continue;
    pd_reply_header(request, MHD_HTTP_HEADER_CONNECTION, "close");
    pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput", "Send that header once.", "there is more than one %s",
                     single[i]);
    return false;
  }
  return true;
}

bool pd_framing_admits(pd_request *request, const char *version)
{
  framing f = {.is_in_place = is_heads_in_place()};
  MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, look, &f);
  if (f.hosts > 1) f.fault = "there is more than one Host";
  if (f.sizes > 1) f.fault = "there is more than one Content-Length";
  if (f.codings && (f.codings > 1 || !f.is_chunked)) f.fault = "Transfer-Encoding is not 'chunked'";
  if (f.codings && f.sizes) f.fault = "there are both Content-Length and Transfer-Encoding";
  if (f.codings && strcmp(version, MHD_HTTP_VERSION_1_1) != 0) f.fault = "Transfer-Encoding needs HTTP/1.1";
  if (!f.fault) return is_said_once(request, &f);
  pd_reply_header(request, MHD_HTTP_HEADER_CONNECTION, "close");
  pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput",
                   "Send one Content-Length, or Transfer-Encoding: chunked alone.", "where the request ends is not certain: %s", f.fault);
  return false;
}
