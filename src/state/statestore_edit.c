/* statestore_edit.c: changing a StateStore: set, delete, apply, clear. Everything that can fail is done before anything is changed. */
#include "state/statestore.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdlib.h>

#define SCRATCH_SIZE 2048

/* Count the changes, and with flush_interval_ms = 0 wait until they are durable. Gives the lock back. */
static pd_code settle(pd_statestore *s, uint64_t count, pd_error *err)
{
  pd_code code = PD_OK;
  pd_statestore_changed(s, count);
  if (s->shelf && !s->flush_ms && count) code = pd_statestore_flush_to(s, s->changes, err);
  pthread_mutex_unlock(&s->lock);
  return code;
}

static void mark(pd_statestore *s, pd_statemap_node *node)
{
  if (s->shelf && !s->is_whole) pd_statemap_mark(&s->map, node);
}

static pd_code put(pd_statestore *s, pd_bytes key, pd_bytes value, uint32_t tag, pd_error *err)
{
  pd_statemap_node *node = pd_statemap_find(&s->map, key, tag);
  if (!node || !pd_statemap_overwrite(&s->map, node, value)) {
    TRY(pd_statemap_reserve(&s->map, 1, err));
    pd_statecell *cell = pd_statecell_new(key, value);
    if (!cell) return pd_error_memory(err, "a StateStore's value");
    node = pd_statemap_place(&s->map, cell, tag);
  }
  mark(s, node);
  return PD_OK;
}

static pd_code set_normal(pd_statestore *s, pd_bytes key, pd_bytes value, pd_error *err)
{
  uint32_t tag = pd_statemap_tag(&s->map, key);
  pthread_mutex_lock(&s->lock);
  pd_code code = s->is_closed ? pd_statestore_is_closed(err) : put(s, key, value, tag, err);
  if (!code) return settle(s, 1, err);
  pthread_mutex_unlock(&s->lock);
  return code;
}

pd_code pd_statestore_set(pd_statestore *s, pd_bytes key, pd_bytes value, pd_error *err)
{
  uint8_t memory[SCRATCH_SIZE];
  pd_buf scratch = {0};
  pd_bytes normal;
  bool is_small = value.size <= sizeof memory;
  if (is_small) scratch = (pd_buf){.data = memory, .capacity = sizeof memory}; /* it never grows past the value: no need of the heap */
  TRY(pd_key_check(key, err));
  pd_code code = pd_statestore_normal(value, &scratch, &normal, err);
  if (!code) code = set_normal(s, key, normal, err);
  if (!is_small) pd_buf_done(&scratch);
  return code;
}

/* Room in `gone` for `more` keys besides those that a failing flush would give back. */
static pd_code reserve_gone(pd_statestore *s, size_t more, pd_error *err)
{
  return s->shelf && !s->is_whole ? pd_statemap_reserve(&s->gone, more + s->flight_gone_count, err) : PD_OK;
}

static void take_out(pd_statestore *s, pd_statemap_node *node)
{
  uint32_t tag = node->tag;
  bool is_stored = node->is_stored && s->shelf && !s->is_whole;
  pd_statecell *cell = pd_statemap_remove(&s->map, node);
  if (is_stored)
    pd_statemap_place(&s->gone, cell, tag);
  else
    pd_statecell_drop(cell);
}

pd_code pd_statestore_delete(pd_statestore *s, pd_bytes key, bool *out_was_there, pd_error *err)
{
  uint32_t tag = pd_statemap_tag(&s->map, key);
  pthread_mutex_lock(&s->lock);
  pd_statemap_node *node = s->is_closed ? NULL : pd_statemap_find(&s->map, key, tag);
  pd_code code = s->is_closed ? pd_statestore_is_closed(err) : reserve_gone(s, 1, err);
  if (code) {
    pthread_mutex_unlock(&s->lock);
    return code;
  }
  if (node) take_out(s, node);
  if (out_was_there) *out_was_there = node != NULL;
  return settle(s, node != NULL, err);
}

/* ---- several at once ---- */

/* The new cells of a batch; NULL for deletes. */
typedef struct cells {
  pd_statecell **list;
  size_t count;
} cells;

static void cells_done(cells *made)
{
  for (size_t i = 0; i < made->count; i++) pd_statecell_drop(made->list[i]);
  free(made->list);
}

static pd_code make_cells(const pd_statestore_change *changes, size_t count, cells *made, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  made->list = calloc(count + 1, sizeof *made->list);
  if (!made->list) return pd_error_memory(err, "a batch");
  made->count = count;
  for (size_t i = 0; i < count; i++) {
    pd_bytes normal;
    TRY(pd_key_check(changes[i].key, err));
    if (!changes[i].value.data) continue;
    TRY(pd_statestore_normal(changes[i].value, &scratch, &normal, err));
    made->list[i] = pd_statecell_new(changes[i].key, normal);
    if (!made->list[i]) return pd_error_memory(err, "a StateStore's value");
  }
  return PD_OK;
}

/* Returns how many things changed. */
static uint64_t apply_cells(pd_statestore *s, const pd_statestore_change *changes, cells *made)
{
  uint64_t changed = 0;
  for (size_t i = 0; i < made->count; i++) {
    uint32_t tag = pd_statemap_tag(&s->map, changes[i].key);
    if (made->list[i]) {
      mark(s, pd_statemap_place(&s->map, made->list[i], tag));
      made->list[i] = NULL; /* the map's now */
      changed++;
      continue;
    }
    pd_statemap_node *node = pd_statemap_find(&s->map, changes[i].key, tag);
    if (node) take_out(s, node);
    changed += node != NULL;
  }
  return changed;
}

pd_code pd_statestore_apply(pd_statestore *s, const pd_statestore_change *changes, size_t count, pd_error *err)
{
  CLEANUP(cells_done) cells made = {NULL, 0};
  TRY(make_cells(changes, count, &made, err));
  pthread_mutex_lock(&s->lock);
  pd_code code = s->is_closed ? pd_statestore_is_closed(err) : pd_statemap_reserve(&s->map, count, err);
  if (!code) code = reserve_gone(s, count, err);
  if (!code) return settle(s, apply_cells(s, changes, &made), err);
  pthread_mutex_unlock(&s->lock);
  return code;
}

pd_code pd_statestore_clear(pd_statestore *s, pd_bytes prefix, uint64_t *out_count, pd_error *err)
{
  pthread_mutex_lock(&s->lock);
  pd_code code = s->is_closed ? pd_statestore_is_closed(err) : reserve_gone(s, s->map.count, err);
  if (code) {
    pthread_mutex_unlock(&s->lock);
    return code;
  }
  uint64_t count = 0;
  for (size_t i = 0; i < s->map.used; i++) {
    pd_statemap_node *node = &s->map.nodes[i];
    if (!node->cell || !pd_bytes_starts(pd_statecell_key(node->cell), prefix)) continue;
    take_out(s, node);
    count++;
  }
  if (out_count) *out_count = count;
  return settle(s, count, err);
}
