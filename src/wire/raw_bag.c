/*
 * raw_bag.c: the bag of a store over HTTP (stores.h). A sweep decides on the client's side what goes: the ids are listed in pages, in
 * order, and those that are to go come back under the same mark. Both are sweeps of the backend, so B15 holds as it is there: what was put
 * after the mark stays, whenever the list was made.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/parcel.h"
#include "base/sha256.h"
#include "wire/stores.h"

#include <stdio.h>
#include <stdlib.h>

#define IDS_PAGE 32768u
#define BLOBS_MAX ((size_t)1 << 20) /* of one put */

static int compare_ids(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(pd_id));
}

static void free_text(void *pointer)
{
  free(*(void **)pointer);
}

static pd_code parse_id(const char *text, pd_id *out, pd_error *err)
{
  return pd_id_parse(text, out) ? PD_OK : pd_error_set(err, PD_INVALID, "'%.80s' is no blob's id", text);
}

/* ---- get, put ---- */

pd_code pd_raw_bag_get(pd_raw_call *call, pd_error *err)
{
  pd_id id;
  TRY(parse_id(call->what, &id, err));
  return call->b->ops->bag_get(call->b, &id, &call->request->out, err);
}

static pd_code take_blob(const pd_raw_call *call, pd_bytes id, pd_bytes blob, pd_id *out, pd_error *err)
{
  if (id.size != sizeof *out) return pd_error_set(err, PD_INVALID, "a blob's id has %zu bytes, not %zu", sizeof *out, id.size);
  memcpy(out, id.data, sizeof *out);
  pd_id is = pd_sha256(blob);
  if (call->request->server->options->trusts_records || pd_id_equal(&is, out)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "a blob is not what its id says");
}

pd_code pd_raw_bag_put(pd_raw_call *call, pd_error *err)
{
  CLEANUP(free_text) pd_bytes *parcels = NULL;
  CLEANUP(free_text) pd_id *ids = NULL;
  size_t count = 0;
  TRY(pd_parcel_all(pd_buf_bytes(&call->request->body), 2 * BLOBS_MAX, &parcels, &count, err));
  if (count % 2) return pd_error_set(err, PD_INVALID, "the last blob is missing");
  ids = calloc(count / 2 + 1, sizeof *ids);
  if (!ids) return pd_error_memory(err, "blobs");
  for (size_t i = 0; i < count / 2; i++) {
    TRY(take_blob(call, parcels[2 * i], parcels[2 * i + 1], &ids[i], err));
    parcels[i] = parcels[2 * i + 1];
  }
  if (count) TRY(call->b->ops->bag_put(call->b, ids, parcels, count / 2, err));
  return pd_raw_answer(call, "count", count / 2, err);
}

/* ---- sweeping ---- */

static pd_code can_sweep(const pd_raw_call *call, pd_error *err)
{
  if (call->b->ops->bag_mark && call->b->ops->bag_sweep) return PD_OK;
  return pd_error_set(err, PD_UNSUPPORTED, "backend '%s' cannot sweep", call->b->ops->scheme);
}

pd_code pd_raw_bag_mark(pd_raw_call *call, pd_error *err)
{
  uint64_t mark = 0;
  TRY(can_sweep(call, err));
  TRY(call->b->ops->bag_mark(call->b, &mark, err));
  return pd_raw_answer(call, "mark", mark, err);
}

/* The least IDS_PAGE ids after `after`: a heap with the greatest on top. */
typedef struct id_page {
  pd_id after;
  bool has_after;
  pd_id *ids;
  size_t count;
} id_page;

static void sink(pd_id *ids, size_t count, size_t at)
{
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && compare_ids(&ids[child + 1], &ids[child]) > 0) child++;
    if (compare_ids(&ids[at], &ids[child]) >= 0) return;
    pd_id swapped = ids[at];
    ids[at] = ids[child];
    ids[child] = swapped;
  }
}

static void rise(pd_id *ids, size_t at)
{
  for (size_t parent; at && compare_ids(&ids[at], &ids[parent = (at - 1) / 2]) > 0; at = parent) {
    pd_id swapped = ids[at];
    ids[at] = ids[parent];
    ids[parent] = swapped;
  }
}

/* Keeps every blob: only the ids are wanted. */
static bool list_id(void *ctx, const pd_id *id)
{
  id_page *page = ctx;
  if (page->has_after && compare_ids(id, &page->after) <= 0) return true;
  if (page->count < IDS_PAGE) {
    page->ids[page->count] = *id;
    rise(page->ids, page->count++);
  } else if (compare_ids(id, &page->ids[0]) < 0) {
    page->ids[0] = *id;
    sink(page->ids, page->count, 0);
  }
  return true;
}

pd_code pd_raw_bag_ids(pd_raw_call *call, pd_error *err)
{
  CLEANUP(free_text) pd_id *ids = calloc(IDS_PAGE, sizeof *ids);
  const char *after = pd_request_query(call->request, "after");
  id_page page = {.ids = ids, .has_after = after && *after};
  uint64_t mark = 0, bytes = 0;
  if (!ids) return pd_error_memory(err, "a list of blobs");
  TRY(can_sweep(call, err));
  TRY(pd_raw_number(call, "mark", &mark, err));
  if (page.has_after) TRY(parse_id(after, &page.after, err));
  TRY(call->b->ops->bag_sweep(call->b, mark, list_id, &page, &bytes, err));
  qsort(ids, page.count, sizeof *ids, compare_ids);
  return pd_buf_append(&call->request->out, ids, page.count * sizeof *ids, err);
}

typedef struct id_list {
  const pd_id *ids;
  size_t count;
} id_list;

static bool is_kept(void *ctx, const pd_id *id)
{
  const id_list *doomed = ctx;
  return !bsearch(id, doomed->ids, doomed->count, sizeof *id, compare_ids);
}

pd_code pd_raw_bag_sweep(pd_raw_call *call, pd_error *err)
{
  pd_buf *body = &call->request->body;
  id_list doomed = {(const pd_id *)body->data, body->size / sizeof(pd_id)};
  uint64_t mark = 0, bytes = 0;
  char text[64];
  TRY(can_sweep(call, err));
  TRY(pd_raw_number(call, "mark", &mark, err));
  if (body->size % sizeof(pd_id)) return pd_error_set(err, PD_INVALID, "the last id is cut off");
  if (body->size) qsort(body->data, doomed.count, sizeof(pd_id), compare_ids);
  pd_code code = call->b->ops->bag_sweep(call->b, mark, is_kept, &doomed, &bytes, err);
  snprintf(text, sizeof text, "%zu blobs", doomed.count);
  pd_raw_audit(call, "store.sweep", text, code, err, NULL);
  TRY(code);
  return pd_raw_answer(call, "bytes", bytes, err);
}
