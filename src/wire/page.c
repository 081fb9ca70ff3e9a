/*
 * page.c: GET /: one page, part of the program (page/page.html), to look at the home with a browser.
 *
 * P1  Nothing but the page's own script and style runs on it: the policy names them by their hashes, and lets it talk to this server alone.
 * P2  The bytes are the same for everybody, so they need no token. What the page shows it asks for with the token that it was given.
 */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "wire/http.h"

#include <stdio.h>

/* 'sha256-…' of what stands between two tags. */
static pd_code add_hash(pd_buf *out, const char *name, const char *begin_tag, const char *end_tag, pd_error *err)
{
  const char *page = (const char *)pd_page_html;
  const char *begin = memmem(page, pd_page_html_size, begin_tag, strlen(begin_tag));
  const char *end = begin ? memmem(begin, pd_page_html_size - (size_t)(begin - page), end_tag, strlen(end_tag)) : NULL;
  if (!end) return pd_error_set(err, PD_INVALID, "page.html has no %s", begin_tag);
  begin += strlen(begin_tag);
  pd_id hash = pd_sha256((pd_bytes){begin, (size_t)(end - begin)});
  TRY(pd_buf_printf(out, err, "%s 'sha256-", name));
  TRY(pd_base64_encode((pd_bytes){hash.bytes, sizeof hash.bytes}, out, err));
  return pd_buf_printf(out, err, "'; ");
}

pd_code pd_page_prepare(pd_server *server, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_buf *policy = &server->page_policy;
  pd_id id = pd_sha256((pd_bytes){pd_page_html, pd_page_html_size});
  snprintf(server->page_etag, sizeof server->page_etag, "\"%s\"", pd_id_hex(&id, hex));
  TRY(pd_buf_printf(policy, err, "default-src 'none'; "));
  TRY(add_hash(policy, "script-src", "<script>", "</script>", err));
  TRY(add_hash(policy, "style-src", "<style>", "</style>", err));
  TRY(pd_buf_printf(policy, err,
                    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                    "require-trusted-types-for 'script'; trusted-types 'none'"));
  return pd_buf_byte(policy, 0, err);
}

void pd_route_page(pd_request *request)
{
  pd_error err = {0};
  if (pd_buf_append(&request->out, pd_page_html, pd_page_html_size, &err)) {
    pd_reply_error(request, &err);
    return;
  }
  request->type = "text/html; charset=utf-8";
  request->policy = (const char *)request->server->page_policy.data;
  snprintf(request->etag, sizeof request->etag, "%s", request->server->page_etag);
  pd_reply_header(request, "X-Frame-Options", "DENY");
  pd_reply_header(request, "Referrer-Policy", "no-referrer");
  pd_reply_header(request, "Cross-Origin-Opener-Policy", "same-origin");
  pd_reply_header(request, "Cross-Origin-Resource-Policy", "same-origin");
  pd_reply(request, MHD_HTTP_OK);
}

/* Three versions of one thing, the newest before the others. */
void pd_route_icon(pd_request *request)
{
  static const char icon[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><g fill=\"#2f6f5e\">"
                             "<rect x=\"2\" y=\"2\" width=\"18\" height=\"18\" rx=\"4\" opacity=\".3\"/>"
                             "<rect x=\"7\" y=\"7\" width=\"18\" height=\"18\" rx=\"4\" opacity=\".5\"/>"
                             "<rect x=\"12\" y=\"12\" width=\"18\" height=\"18\" rx=\"4\"/></g></svg>\n";
  pd_error err = {0};
  if (pd_buf_append(&request->out, icon, sizeof icon - 1, &err)) {
    pd_reply_error(request, &err);
    return;
  }
  request->type = "image/svg+xml";
  request->policy = "default-src 'none'";
  pd_reply(request, MHD_HTTP_OK);
}
