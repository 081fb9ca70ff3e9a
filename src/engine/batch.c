/* batch.c: a batch of staged records: the blobs that go with it, and its end. flush.c appends it. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "engine/store.h"

pd_code pd_batch_blob(pd_batch *batch, const pd_id *id, pd_bytes blob, pd_error *err)
{
  pd_buf copy = {0};
  TRY(pd_array_grow_from(8, &batch->blobs, batch->blob_count, &batch->blob_capacity, sizeof *batch->blobs, "a batch", err));
  TRY(pd_buf_append(&copy, blob.data, blob.size, err));
  batch->blobs[batch->blob_count++] = (pd_batch_value){*id, copy};
  return PD_OK;
}

void pd_batch_clear(pd_store *s, pd_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++) pd_head_done(s, &batch->staged[i].head);
  for (size_t i = 0; i < batch->blob_count; i++) pd_buf_done(&batch->blobs[i].bytes);
  batch->count = batch->blob_count = 0;
  if (batch->bytes.capacity > PD_PENDING_SIZE_MAX) pd_buf_done(&batch->bytes); /* do not keep what one large commit took */
  pd_buf_clear(&batch->bytes);
}
