/*
 * index.c: from commit ids to records. Commits after the last keyframe are a list in memory with a hash table over it; older ones
 * are in the keyframes' runs, sorted, each loaded when it is first needed.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/retired.h"

#include <stdlib.h>

static pd_code reserve_frames(pd_store *s, size_t more, pd_error *err)
{
  if (s->frame_count + more <= s->frame_capacity) return PD_OK;
  size_t capacity = s->frame_count * 2 + more;
  pd_catalog_frame *frames = realloc(s->frames, capacity * sizeof *frames);
  if (!frames) return pd_error_memory(err, "the list of keyframes");
  s->frames = frames;
  pd_buf *runs = realloc(s->frame_runs, capacity * sizeof *runs);
  if (!runs) return pd_error_memory(err, "the list of keyframes");
  s->frame_runs = runs;
  s->frame_capacity = capacity;
  return PD_OK;
}

pd_code pd_index_reserve(pd_store *s, size_t more, pd_error *err)
{
  if (s->run_count + more > s->run_capacity) {
    size_t capacity = (s->run_count + more) * 2;
    pd_run_entry *grown = realloc(s->run, capacity * sizeof *grown);
    if (!grown) return pd_error_memory(err, "the list of commits");
    s->run = grown;
    s->run_capacity = capacity;
  }
  return reserve_frames(s, more, err);
}

void pd_run_add(pd_store *s, const pd_id *commit, uint64_t seq)
{
  s->run[s->run_count++] = (pd_run_entry){pd_id_prefix(commit), seq};
}

void pd_frame_add(pd_store *s, const pd_catalog_frame *frame)
{
  if (s->frame_count && s->frames[s->frame_count - 1].covers >= frame->covers) return;
  s->frame_runs[s->frame_count] = (pd_buf){0};
  s->frames[s->frame_count++] = *frame;
  size_t kept = 0;
  for (size_t i = 0; i < s->run_count; i++)
    if (s->run[i].seq > frame->covers) s->run[kept++] = s->run[i];
  s->tail_bytes = s->run_count ? s->tail_bytes * kept / s->run_count : 0;
  s->run_count = kept;
  s->run_tabled = 0;
  if (s->run_table) memset(s->run_table, 0, s->run_table_size * sizeof *s->run_table);
}

void pd_index_reset(pd_store *s)
{
  for (size_t i = 0; i < s->frame_count; i++) pd_buf_done(&s->frame_runs[i]);
  s->frame_count = s->run_count = s->run_tabled = 0;
  s->tail_bytes = 0;
  if (s->run_table) memset(s->run_table, 0, s->run_table_size * sizeof *s->run_table);
}

void pd_index_done(pd_store *s)
{
  pd_index_reset(s);
  free(s->frame_runs);
  free(s->frames);
  free(s->run);
  free(s->run_table);
}

/* ---- searching ---- */

static void table_add(pd_store *s, size_t index)
{
  size_t mask = s->run_table_size - 1, slot = s->run[index].prefix & mask;
  while (s->run_table[slot]) slot = (slot + 1) & mask;
  s->run_table[slot] = (uint32_t)index + 1;
}

/* Bring the hash table up to date; false without memory: the list is then searched. */
static bool table_update(pd_store *s)
{
  if (s->run_count * 2 > s->run_table_size) {
    size_t size = 1024;
    while (size < s->run_count * 4) size *= 2;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) return false;
    free(s->run_table);
    s->run_table = table;
    s->run_table_size = size;
    s->run_tabled = 0;
  }
  while (s->run_tabled < s->run_count) table_add(s, s->run_tabled++);
  return true;
}

static pd_code search_table(pd_store *s, uint32_t prefix, pd_index_visit visit, void *ctx, bool *out_stop, pd_error *err)
{
  size_t mask = s->run_table_size - 1;
  for (size_t slot = prefix & mask; s->run_table[slot] && !*out_stop; slot = (slot + 1) & mask) {
    const pd_run_entry *entry = &s->run[s->run_table[slot] - 1];
    if (entry->prefix == prefix && entry->seq <= s->log_seq) TRY(visit(ctx, entry->seq, out_stop, err));
  }
  return PD_OK;
}

static pd_code search_list(pd_store *s, uint32_t low, uint32_t high, pd_index_visit visit, void *ctx, bool *out_stop, pd_error *err)
{
  if (low == high && s->run_count && table_update(s)) return search_table(s, low, visit, ctx, out_stop, err);
  for (size_t i = s->run_count; i-- > 0 && !*out_stop;)
    if (s->run[i].prefix >= low && s->run[i].prefix <= high && s->run[i].seq <= s->log_seq) TRY(visit(ctx, s->run[i].seq, out_stop, err));
  return PD_OK;
}

static pd_code search_frame(pd_store *s, size_t frame, uint32_t low, uint32_t high, pd_index_visit visit, void *ctx, bool *out_stop,
                            pd_error *err)
{
  pd_buf *blob = &s->frame_runs[frame];
  if (!blob->size) {
    CLEANUP(pd_buf_done) pd_buf loaded = {0};
    TRY(pd_load_blob(s, &s->frames[frame].run, "a keyframe's commit list", &loaded, err));
    TRY(pd_run_check(pd_buf_bytes(&loaded), err));
    *blob = loaded;
    loaded = (pd_buf){0};
  }
  pd_bytes run = pd_buf_bytes(blob);
  for (size_t i = pd_run_find(run, low); i < pd_run_count(run) && !*out_stop; i++) {
    pd_run_entry entry = pd_run_at(run, i);
    if (entry.prefix > high) break;
    TRY(visit(ctx, entry.seq, out_stop, err));
  }
  return PD_OK;
}

/* Commits of a buffered store that readers see before they are in the log, newest first. */
static pd_code search_staged(pd_store *s, uint32_t low, uint32_t high, pd_index_visit visit, void *ctx, bool *out_stop, pd_error *err)
{
  const pd_batch *batches[] = {&s->pending, &s->inflight};
  for (size_t k = 0; k < COUNT_OF(batches) && s->seen_seq > s->log_seq; k++)
    for (size_t i = batches[k]->count; i-- > 0 && !*out_stop;) {
      const pd_staged *st = &batches[k]->staged[i];
      uint32_t prefix = pd_id_prefix(&st->head.commit.id);
      bool is_there = st->kind == PD_RECORD_COMMIT && st->seq <= s->seen_seq && prefix >= low && prefix <= high;
      if (is_there) TRY(visit(ctx, st->seq, out_stop, err));
    }
  return PD_OK;
}

pd_code pd_index_search(pd_store *s, uint32_t low, uint32_t high, pd_index_visit visit, void *ctx, pd_error *err)
{
  bool stop = false;
  TRY(pd_retention_ready(s, err));
  TRY(search_staged(s, low, high, visit, ctx, &stop, err));
  if (!stop) TRY(search_list(s, low, high, visit, ctx, &stop, err));
  for (size_t i = s->frame_count; i-- > 0 && !stop;) TRY(search_frame(s, i, low, high, visit, ctx, &stop, err));
  return PD_OK;
}
