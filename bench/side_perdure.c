/* side_perdure.c: our side, through the public header only. */
#include <perdure/perdure.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/error.h"
#include "side.h"

typedef struct ours {
  pd_store *store;
  pd_edit *edit;
  pd_buf value; /* reused: a get copies into it */
} ours;

static pd_code ours_put(void *state, pd_bytes key, pd_bytes value, pd_error *err)
{
  ours *side = state;
  return pd_put(side->store, key, value, NULL, NULL, err);
}

static pd_code ours_batch_begin(void *state, pd_error *err)
{
  ours *side = state;
  return pd_edit_begin(side->store, NULL, &side->edit, err);
}

static pd_code ours_batch_put(void *state, pd_bytes key, pd_bytes value, pd_error *err)
{
  ours *side = state;
  return pd_edit_put(side->edit, key, value, PD_ANY_VERSION, err);
}

static pd_code ours_batch_commit(void *state, pd_error *err)
{
  ours *side = state;
  TRY(pd_edit_commit(side->edit, NULL, err));
  side->edit = NULL;
  return PD_OK;
}

static pd_code ours_get(void *state, pd_bytes key, pd_bytes *out_value, pd_error *err)
{
  ours *side = state;
  TRY(pd_get(side->store, NULL, key, &side->value, NULL, err));
  *out_value = (pd_bytes){side->value.data, side->value.size};
  return PD_OK;
}

static pd_code ours_scan(void *state, pd_bytes prefix, bench_scan_sum *out, pd_error *err)
{
  ours *side = state;
  pd_scan scan = {.prefix = prefix};
  pd_iter *iter = NULL;
  bench_scan_sum sum = {0};
  pd_entry entry;
  pd_bytes value;
  TRY(pd_iter_open(side->store, NULL, &scan, &iter, err));
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) {
    sum.count++;
    sum.sum += bench_touch(entry.key, value);
  }
  pd_iter_close(iter);
  if (code != PD_NOT_FOUND) return code;
  *out = sum;
  return PD_OK;
}

static pd_code ours_flush(void *state, pd_error *err)
{
  ours *side = state;
  return pd_store_flush(side->store, err);
}

static pd_code ours_close(void *state, pd_error *err)
{
  ours *side = state;
  pd_edit_abort(side->edit);
  pd_code code = pd_store_close(side->store, err);
  pd_buf_done(&side->value);
  free(side);
  return code;
}

static const bench_side_ops ours_ops = {
  .name = "perdure",
  .put = ours_put,
  .batch_begin = ours_batch_begin,
  .batch_put = ours_batch_put,
  .batch_commit = ours_batch_commit,
  .get = ours_get,
  .scan = ours_scan,
  .flush = ours_flush,
  .close = ours_close,
};

pd_code bench_ours_open(const char *dir, const pd_options *options, bench_side *out, pd_error *err)
{
  char uri[4096];
  if (snprintf(uri, sizeof(uri), "sqlite:%s", dir) >= (int)sizeof(uri))
    return pd_error_set(err, PD_LIMIT, "the path '%s' is too long", dir);
  ours *side = calloc(1, sizeof(*side));
  if (!side) return pd_error_memory(err, "a side");
  pd_code code = pd_store_open(uri, "main", options, &side->store, err);
  if (code != PD_OK) {
    free(side);
    return code;
  }
  *out = (bench_side){&ours_ops, side};
  return PD_OK;
}

pd_store *bench_ours_store(const bench_side *side)
{
  return ((ours *)side->state)->store;
}
