/* client.h: connections to servers, for the files of this room. The public half is remote.h. */
#ifndef PD_REMOTE_CLIENT_H
#define PD_REMOTE_CLIENT_H

#include "remote/curl.h"
#include "remote/remote.h"

/* One request on its way: what libcurl's callbacks need. */
typedef struct pd_exchange {
  CURL *easy;
  struct curl_slist *headers;
  pd_buf *out;
  const int *send_fd, *take_fd; /* of the request */
  uint64_t send_size;
  uint64_t sent; /* of its file */
  pd_remote_reply reply;
  bool (*progress)(void *ctx, uint64_t done, uint64_t total); /* the request's */
  void *progress_ctx;
  const char *uri;
  int64_t begun_ms;
  unsigned patience_s; /* 0: a stream, which may last */
  pd_error fault;      /* of a callback */
  char text[CURL_ERROR_SIZE];
} pd_exchange;

/* Make `easy` ready for the request. `x` has to stay until pd_exchange_done. */
PD_MUST_USE pd_code pd_exchange_begin(pd_exchange *x, CURL *easy, const pd_remote_request *request, pd_buf *out, pd_error *err);
/* One more header, before it is sent; copied. NULL: none. PD_INVALID for what no header can say. */
PD_MUST_USE pd_code pd_exchange_header(pd_exchange *x, const char *name, const char *value, pd_error *err);
/* What came of it, after libcurl's transfer ended with `result`. */
PD_MUST_USE pd_code pd_exchange_end(pd_exchange *x, CURLcode result, const char *uri, pd_error *err);
void pd_exchange_done(pd_exchange *x);

/* backend.c: make the schemes known. */
PD_MUST_USE pd_code pd_remote_register(pd_error *err);

#endif
