/*
 * framing.c: requests whose end is not certain. Where two readers of the same bytes may see different requests, a proxy before the server
 * and the server could be made to disagree (request smuggling), so all that RFC 9112 calls doubtful is refused and the connection ends.
 */
#include "base/base.h"
#include "wire/http.h"

#include <strings.h>

typedef struct framing {
  unsigned sizes, codings, hosts;
  bool is_chunked;
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

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
  framing *f = cls;
  (void)kind;
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

bool pd_framing_admits(pd_request *request, const char *version)
{
  framing f = {0};
  MHD_get_connection_values(request->connection, MHD_HEADER_KIND, look, &f);
  if (f.hosts > 1) f.fault = "there is more than one Host";
  if (f.sizes > 1) f.fault = "there is more than one Content-Length";
  if (f.codings && (f.codings > 1 || !f.is_chunked)) f.fault = "Transfer-Encoding is not 'chunked'";
  if (f.codings && f.sizes) f.fault = "there are both Content-Length and Transfer-Encoding";
  if (f.codings && strcmp(version, MHD_HTTP_VERSION_1_1) != 0) f.fault = "Transfer-Encoding needs HTTP/1.1";
  if (!f.fault) return true;
  pd_reply_header(request, MHD_HTTP_HEADER_CONNECTION, "close");
  pd_reply_failure(request, MHD_HTTP_BAD_REQUEST, PD_INVALID, "InvalidInput",
                   "Send one Content-Length, or Transfer-Encoding: chunked alone.", "where the request ends is not certain: %s", f.fault);
  return false;
}
