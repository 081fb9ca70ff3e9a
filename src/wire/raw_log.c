/* raw_log.c: the log of a store over HTTP: reading in pages, appending, redacting, waiting (stores.h). */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/number.h"
#include "base/parcel.h"
#include "wire/stores.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE_SIZE_MAX ((size_t)4 << 20) /* then no more records are added */
#define PAGE_COUNT_MAX 65536u
#define RECORDS_MAX ((size_t)1 << 20) /* of one append */
#define WAIT_MS_MAX 30000u

/* ---- reading ---- */

typedef struct page {
  pd_buf *out;
  uint64_t next;
  bool is_full;
} page;

static pd_code add_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  page *p = ctx;
  p->next = seq;
  p->is_full = p->out->size >= PAGE_SIZE_MAX;
  if (p->is_full) return pd_error_set(err, PD_LIMIT, "the page is full");
  TRY(pd_parcel_put(p->out, record, err));
  p->next = seq + 1;
  return PD_OK;
}

pd_code pd_raw_log_read(pd_raw_call *call, pd_error *err)
{
  uint64_t from = 0, to = UINT64_MAX;
  char number[24];
  TRY(pd_raw_number(call, "from", &from, err));
  if (pd_request_query(call->request, "to")) TRY(pd_raw_number(call, "to", &to, err));
  if (!from) return pd_error_set(err, PD_INVALID, "from is 0; records are numbered from 1");
  uint64_t last = to - from < PAGE_COUNT_MAX || to < from ? to : from + PAGE_COUNT_MAX - 1;
  page p = {.out = &call->request->out, .next = from};
  pd_code code = call->b->ops->log_read(call->b, from, last, add_record, &p, err);
  if (code && !p.is_full) {
    pd_buf_clear(p.out);
    return code;
  }
  bool has_more = p.is_full || (p.next > last && last < to);
  snprintf(number, sizeof number, "%llu", (unsigned long long)(has_more ? p.next : 0));
  pd_reply_header(call->request, "Perdure-Next", number);
  return PD_OK;
}

/* Until there is something after `after`, the time is over, or the server stops. It is run again when the log has grown (waits.h). */
pd_code pd_raw_log_wait(pd_raw_call *call, pd_error *err)
{
  uint64_t after = 0, ms = 0, tail = 0;
  TRY(pd_raw_number(call, "after", &after, err));
  TRY(pd_raw_number(call, "ms", &ms, err));
  pd_waiter *w = pd_request_wait(call->request, call->name);
  if (!w) return pd_error_memory(err, "a request that waits");
  if (!w->wait.deadline_ms) w->wait.deadline_ms = pd_clock_monotonic_ms() + (int64_t)(ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX);
  TRY(call->b->ops->log_tail(call->b, &tail, err));
  bool is_over = tail > after || w->wait.is_over || atomic_load(&w->is_gone) || pd_clock_monotonic_ms() >= w->wait.deadline_ms;
  if (is_over) return pd_raw_answer(call, "tail", tail, err);
  call->request->park = pd_request_park;
  return PD_OK;
}

/* ---- writing ---- */

static pd_code append(pd_raw_call *call, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  if (!count) return pd_error_set(err, PD_INVALID, "there is no record in the body");
  if (!call->request->server->options->trusts_records) TRY(pd_log_check_append(call->b, seq, records, count, err));
  return call->b->ops->log_append(call->b, seq, records, count, err);
}

static void audit_records(const pd_raw_call *call, const char *deed, uint64_t seq, const pd_bytes *records, size_t count, pd_code code,
                          const pd_error *err)
{
  char text[64];
  pd_id commit;
  bool has_commit = !code && count && pd_log_commit_of(seq + count - 1, records[count - 1], &commit, NULL) == PD_OK;
  snprintf(text, sizeof text, "records %llu-%llu", (unsigned long long)seq, (unsigned long long)(seq + (count ? count - 1 : 0)));
  pd_raw_audit(call, deed, text, code, err, has_commit ? &commit : NULL);
}

pd_code pd_raw_log_append(pd_raw_call *call, pd_error *err)
{
  CLEANUP(pd_free_at) pd_bytes *records = NULL;
  size_t count = 0;
  uint64_t seq = 0;
  TRY(pd_raw_number(call, "seq", &seq, err));
  TRY(pd_parcel_all(pd_buf_bytes(&call->request->body), RECORDS_MAX, &records, &count, err));
  pd_code code = append(call, seq, records, count, err);
  if (code != PD_CONFLICT)
    audit_records(call, "store.append", seq, records, count, code, err); /* who lost a race did nothing, and tries again */
  TRY(code);
  return pd_raw_answer(call, "tail", seq + count - 1, err);
}

/* ---- redaction ---- */

static pd_code take_copy(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)seq;
  return pd_parcel_put(ctx, record, err);
}

/* Is each of them what redaction could leave of the one that is there? */
static pd_code check_redaction(const pd_raw_call *call, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf there = {0};
  pd_bytes was, rest;
  if (call->request->server->options->trusts_records) return PD_OK;
  if (!seq || !count) return PD_OK; /* the backend says what is wrong with that */
  TRY(call->b->ops->log_read(call->b, seq, seq + count - 1, take_copy, &there, err));
  rest = pd_buf_bytes(&there);
  for (size_t i = 0; i < count && pd_parcel_next(&rest, &was, NULL) == PD_OK; i++) TRY(pd_log_check_swap(seq + i, was, records[i], err));
  return PD_OK;
}

pd_code pd_raw_log_redact(pd_raw_call *call, pd_error *err)
{
  CLEANUP(pd_free_at) pd_bytes *records = NULL;
  size_t count = 0;
  uint64_t seq = 0;
  TRY(pd_raw_number(call, "seq", &seq, err));
  TRY(pd_parcel_all(pd_buf_bytes(&call->request->body), RECORDS_MAX, &records, &count, err));
  if (!call->b->ops->log_redact) return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot redact", call->b->ops->scheme);
  pd_code code = check_redaction(call, seq, records, count, err);
  if (!code) code = call->b->ops->log_redact(call->b, seq, records, count, err);
  audit_records(call, "store.redact", seq, NULL, 0, code, err);
  TRY(code);
  return pd_raw_answer(call, "count", count, err);
}

static pd_code read_swaps(const pd_raw_call *call, const pd_bytes *parcels, size_t count, pd_log_swap *out, pd_error *err)
{
  if (count % 3) return pd_error_set(err, PD_INVALID, "a swap is three parcels: number, what it was, what it is to be");
  for (size_t i = 0; i < count; i += 3) {
    char number[24] = "";
    uint64_t seq;
    if (parcels[i].size && parcels[i].size < sizeof number) memcpy(number, parcels[i].data, parcels[i].size);
    if (!pd_u64_parse(number, &seq)) return pd_error_set(err, PD_INVALID, "a swap begins with the record's number");
    if (!call->request->server->options->trusts_records) TRY(pd_log_check_swap(seq, parcels[i + 1], parcels[i + 2], err));
    out[i / 3] = (pd_log_swap){.seq = seq, .was = parcels[i + 1], .now = parcels[i + 2]};
  }
  return PD_OK;
}

pd_code pd_raw_log_swap(pd_raw_call *call, pd_error *err)
{
  CLEANUP(pd_free_at) pd_bytes *parcels = NULL;
  CLEANUP(pd_free_at) pd_log_swap *swaps = NULL;
  size_t count = 0;
  char text[64];
  TRY(pd_parcel_all(pd_buf_bytes(&call->request->body), 3 * RECORDS_MAX, &parcels, &count, err));
  if (!call->b->ops->log_swap) return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot swap records", call->b->ops->scheme);
  swaps = calloc(count / 3 + 1, sizeof *swaps);
  if (!swaps) return pd_error_memory(err, "records to swap");
  TRY(read_swaps(call, parcels, count, swaps, err));
  pd_code code = call->b->ops->log_swap(call->b, swaps, count / 3, err);
  snprintf(text, sizeof text, "%zu records from %llu on", count / 3, (unsigned long long)(count ? swaps[0].seq : 0));
  if (code != PD_CONFLICT) pd_raw_audit(call, "store.redact", text, code, err, NULL);
  TRY(code);
  return pd_raw_answer(call, "count", count / 3, err);
}
