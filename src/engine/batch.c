/* batch.c: a batch of staged records: the blobs that go with it, and its end. flush.c appends it. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/store.h"

#include <stdlib.h>

pd_code pd_batch_blob(pd_batch *batch, const pd_id *id, pd_bytes blob, pd_error *err)
{
  if (batch->blob_count == batch->blob_capacity) {
    size_t capacity = batch->blob_capacity ? batch->blob_capacity * 2 : 8;
    pd_id *ids = realloc(batch->blob_ids, capacity * sizeof *ids);
    if (!ids) return pd_error_memory(err, "a batch");
    batch->blob_ids = ids;
    pd_buf *blobs = realloc(batch->blobs, capacity * sizeof *blobs);
    if (!blobs) return pd_error_memory(err, "a batch");
    batch->blobs = blobs;
    batch->blob_capacity = capacity;
  }
  pd_buf copy = {0};
  TRY(pd_buf_append(&copy, blob.data, blob.size, err));
  batch->blob_ids[batch->blob_count] = *id;
  batch->blobs[batch->blob_count++] = copy;
  return PD_OK;
}

void pd_batch_clear(pd_store *s, pd_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++) pd_head_done(s, &batch->staged[i].head);
  for (size_t i = 0; i < batch->blob_count; i++) pd_buf_done(&batch->blobs[i]);
  batch->count = batch->blob_count = 0;
  if (batch->bytes.capacity > PD_PENDING_SIZE_MAX) pd_buf_done(&batch->bytes); /* do not keep what one large commit took */
  pd_buf_clear(&batch->bytes);
}
