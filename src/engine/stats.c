/* stats.c: numbers about an open store. */
#include "base/base.h"
#include "base/error.h"
#include "engine/store.h"

static pd_code stats_locked(pd_store *s, pd_stats *out, pd_error *err)
{
  pd_ref_slot *slot;
  pd_node *root;
  pd_backend_usage usage = {0};
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_slot_get(s, NULL, &slot, err));
  TRY(pd_head_root(s, &slot->seen, &root, err));
  if (s->ops->usage) TRY(s->ops->usage(s->backend, &usage, err));
  *out = (pd_stats){.records = s->seen_seq,
                    .keys = root->key_count,
                    .keyframes = s->frame_count,
                    .log_bytes = usage.log_bytes,
                    .bag_bytes = usage.bag_bytes,
                    .disk_bytes = usage.disk_bytes,
                    .cache_bytes = s->tree.pool.bytes + s->segment_bytes,
                    .cache_hits = s->hits,
                    .cache_misses = s->misses,
                    .commits = s->commits,
                    .syncs = s->syncs,
                    .is_durable = s->ops->flags(s->backend) & PD_BACKEND_LASTS,
                    .is_read_only = s->is_read_only};
  out->tail_records = s->seen_seq - (s->frame_count ? s->frames[s->frame_count - 1].covers : 0);
  for (size_t i = 0; i < s->slot_count; i++) out->refs += !s->slots[i]->seen.is_deleted && !pd_ref_is_hidden(s->slots[i]->name);
  return PD_OK;
}

pd_code pd_store_stats(pd_store *store, pd_stats *out, pd_error *err)
{
  pd_store_lock(store);
  pd_code code = stats_locked(store, out, err);
  pd_store_unlock(store);
  return code;
}

unsigned pd_counter_step(uint64_t number)
{
  unsigned step = number ? 64 - (unsigned)__builtin_clzll(number) : 0;
  return step < PD_COUNTER_STEPS ? step : PD_COUNTER_STEPS - 1;
}

void pd_store_counters(pd_store *store, pd_counters *out)
{
  pd_store_lock(store);
  *out = (pd_counters){.records = store->seen_seq,
                       .commits = store->commits,
                       .syncs = store->syncs,
                       .sync_us = store->sync_us,
                       .group_count = store->group_count,
                       .cache_bytes = store->tree.pool.bytes + store->segment_bytes,
                       .cache_hits = store->hits,
                       .cache_misses = store->misses};
  memcpy(out->sync_steps, store->sync_steps, sizeof out->sync_steps);
  memcpy(out->group_steps, store->group_steps, sizeof out->group_steps);
  pd_store_unlock(store);
}
