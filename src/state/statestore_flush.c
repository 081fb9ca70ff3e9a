/* statestore_flush.c: from the map to the shelf (K2, K3 of statestore.h), and the thread that sees to it. */
#include "state/statestore.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RETRY_MS_MIN 50
#define RETRY_MS_MAX 30000

/* What one flush writes. Its cells are held, so they stay as they are (M1). */
typedef struct flight {
  pd_statecell **puts;
  pd_shelf_item *items;
  size_t put_count;
  pd_statemap gone;
  pd_bytes *deletes;
  uint64_t target; /* what `flushed` will be */
} flight;

static void flight_done(flight *f)
{
  for (size_t i = 0; i < f->put_count; i++) pd_statecell_drop(f->puts[i]);
  pd_statemap_done(&f->gone);
  free(f->puts);
  free(f->items);
  free(f->deletes);
}

static int compare_indexes(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void hold(flight *f, pd_statecell *cell)
{
  cell->refs++;
  f->items[f->put_count] = (pd_shelf_item){pd_statecell_key(cell), pd_statecell_value(cell)};
  f->puts[f->put_count++] = cell;
}

static void take_all(pd_statestore *s, flight *f)
{
  for (size_t i = 0; i < s->map.used; i++)
    if (s->map.nodes[i].cell) hold(f, s->map.nodes[i].cell);
}

static void take_changed(pd_statestore *s, flight *f)
{
  qsort(s->map.dirty, s->map.dirty_count, sizeof *s->map.dirty, compare_indexes); /* the order of the map */
  for (size_t i = 0; i < s->map.dirty_count; i++) {
    pd_statemap_node *node = &s->map.nodes[s->map.dirty[i]];
    if (!node->cell) continue;
    node->is_dirty = false;
    node->is_stored = true; /* from now on it may be: a delete has to tell the shelf */
    hold(f, node->cell);
  }
  s->map.dirty_count = 0;
  f->gone = s->gone;
  s->gone = (pd_statemap){.seed = s->map.seed};
  for (size_t i = 0, n = 0; i < f->gone.used; i++)
    if (f->gone.nodes[i].cell) f->deletes[n++] = pd_statecell_key(f->gone.nodes[i].cell);
  s->flight_gone_count = f->gone.count;
}

static pd_code take(pd_statestore *s, flight *f, pd_error *err)
{
  size_t count = s->is_whole ? s->map.count : s->map.dirty_count;
  f->puts = malloc((count + 1) * sizeof(pd_statecell *));
  f->items = malloc((count + 1) * sizeof(pd_shelf_item));
  f->deletes = malloc((s->gone.count + 1) * sizeof(pd_bytes));
  if (!f->puts || !f->items || !f->deletes) return pd_error_memory(err, "a flush");
  if (s->is_whole)
    take_all(s, f);
  else
    take_changed(s, f);
  f->target = s->changes;
  return PD_OK;
}

/* The flush failed: what it took is pending again. Needs no memory: `gone` has had room for this since each delete. */
static void give_back(pd_statestore *s, flight *f)
{
  for (size_t i = 0; !s->is_whole && i < f->put_count; i++) {
    pd_bytes key = pd_statecell_key(f->puts[i]);
    pd_statemap_node *node = pd_statemap_find(&s->map, key, pd_statemap_tag(&s->map, key));
    if (node) pd_statemap_mark(&s->map, node); /* else it was deleted meanwhile, and is in `gone` */
  }
  if (!s->gone.count) { /* and with it its memory */
    pd_statemap empty = s->gone;
    s->gone = f->gone;
    f->gone = empty;
    return;
  }
  for (size_t i = 0; i < f->gone.used; i++) {
    pd_statemap_node node = f->gone.nodes[i];
    f->gone.nodes[i].cell = NULL;
    if (node.cell) pd_statemap_place(&s->gone, node.cell, node.tag);
  }
}

static int64_t retry_ms(const pd_statestore *s)
{
  int64_t wait = s->flush_ms > RETRY_MS_MIN ? s->flush_ms : RETRY_MS_MIN;
  for (uint64_t i = 1; i < s->stats.failed_in_row && wait < RETRY_MS_MAX; i++) wait *= 2;
  return wait < RETRY_MS_MAX || wait == s->flush_ms ? wait : RETRY_MS_MAX;
}

static void note_result(pd_statestore *s, const flight *f, const pd_error *why, pd_code code)
{
  if (!code) {
    s->flushed = f->target;
    s->stats.flushes++;
    s->stats.failed_in_row = 0;
    s->stats.last_flush_ms = s->now_ms(s->clock_ctx);
    s->stats.last_error[0] = '\0';
    return;
  }
  s->stats.failures++;
  s->stats.failed_in_row++;
  snprintf(s->stats.last_error, sizeof s->stats.last_error, "%s", why->message);
  s->due_ms = pd_clock_monotonic_ms() + retry_ms(s);
  pthread_cond_signal(&s->wake);
}

/* One flush, from beginning to end. Nobody else is flushing. */
static pd_code flush_once(pd_statestore *s, pd_error *err)
{
  flight f = {.gone = {.seed = s->map.seed}};
  pd_error why = {.code = PD_OK};
  s->due_ms = 0;
  s->is_flushing = true;
  pd_code code = take(s, &f, &why);
  pd_shelf_batch batch = {f.items, f.put_count, f.deletes, f.gone.count};
  if (!code && (s->is_whole || batch.put_count || batch.delete_count)) {
    pthread_mutex_unlock(&s->lock);
    code = s->shelf->ops->write(s->shelf, &batch, &why);
    pthread_mutex_lock(&s->lock);
    if (code) give_back(s, &f);
  }
  s->flight_gone_count = 0;
  note_result(s, &f, &why, code);
  flight_done(&f);
  s->is_flushing = false;
  pthread_cond_broadcast(&s->done);
  if (code && err) *err = why;
  return code;
}

pd_code pd_statestore_flush_to(pd_statestore *s, uint64_t target, pd_error *err)
{
  while (s->shelf && s->flushed < target) {
    if (s->is_flushing) {
      pthread_cond_wait(&s->done, &s->lock);
      continue;
    }
    TRY(flush_once(s, err));
  }
  if (!s->shelf) s->flushed = s->changes; /* memory: there is nothing to write to */
  return PD_OK;
}

pd_code pd_statestore_flush(pd_statestore *s, pd_error *err)
{
  pthread_mutex_lock(&s->lock);
  pd_code code = s->is_closed ? pd_statestore_is_closed(err) : pd_statestore_flush_to(s, s->changes, err);
  pthread_mutex_unlock(&s->lock);
  return code;
}

void pd_statestore_changed(pd_statestore *s, uint64_t count)
{
  s->changes += count;
  if (!count || !s->shelf || s->due_ms || !s->flush_ms) return;
  s->due_ms = pd_clock_monotonic_ms() + s->flush_ms;
  pthread_cond_signal(&s->wake);
}

/* ---- the thread ---- */

static void sleep_until(pd_statestore *s, int64_t time_ms)
{
  struct timespec until = {.tv_sec = time_ms / 1000, .tv_nsec = time_ms % 1000 * 1000000};
  pthread_cond_timedwait(&s->wake, &s->lock, &until);
}

static void flush_in_background(pd_statestore *s)
{
  pd_error why;
  pd_code code = flush_once(s, &why);
  if (!code) return;
  long long wait_ms = (long long)retry_ms(s);
  unsigned long long count = s->stats.failed_in_row;
  pthread_mutex_unlock(&s->lock);
  pd_shelf_warn(&s->warner, code, "a flush of the state failed (%llu in a row), the next try is in %lld ms: %s", count, wait_ms,
                why.message);
  pthread_mutex_lock(&s->lock);
}

void *pd_statestore_run(void *store)
{
  pd_statestore *s = store;
  pthread_mutex_lock(&s->lock);
  while (!s->is_stopping) {
    if (!s->due_ms)
      pthread_cond_wait(&s->wake, &s->lock);
    else if (s->due_ms > pd_clock_monotonic_ms())
      sleep_until(s, s->due_ms);
    else if (s->is_flushing)
      pthread_cond_wait(&s->done, &s->lock);
    else if (s->flushed == s->changes)
      s->due_ms = 0; /* somebody else flushed */
    else
      flush_in_background(s);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}
