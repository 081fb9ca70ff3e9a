/* erase_note.c: what an erasure leaves alone, and what it writes down (erase.h). */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/erase.h"

#include <stdio.h>
#include <stdlib.h>

#define TODO_RECORDS_MAX 1000 /* of one entry: it stays small enough to lie in its record */

/* ---- who holds a version ---- */

static pd_code add_holder(pd_eraser *e, uint64_t seq, bool is_mark, const char *kind, const char *name, pd_error *err)
{
  TRY(pd_array_grow(&e->holders, e->holder_count, &e->holder_capacity, sizeof *e->holders, "an erasure", err));
  pd_holder *holder = &e->holders[e->holder_count++];
  *holder = (pd_holder){.seq = seq, .is_mark = is_mark};
  snprintf(holder->label, sizeof holder->label, "%s '%.64s'", kind, name);
  return PD_OK;
}

static pd_code hold_entry(pd_eraser *e, pd_code code, const pd_entry *entry, const pd_error *why, pd_error *err)
{
  uint32_t *holder;
  bool is_new;
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = *why;
  if (code) return code;
  TRY(pd_map64_add(&e->held, entry->seq, &holder, &is_new, err));
  if (is_new) *holder = (uint32_t)(e->holder_count - 1);
  return PD_OK;
}

static pd_code hold_heads(pd_eraser *e, uint64_t floor, pd_error *err)
{
  pd_store *s = e->s;
  for (size_t i = 0; i < s->slot_count; i++) {
    pd_ref_slot *slot = s->slots[i];
    if (strcmp(slot->name, e->ref) == 0 || slot->seen.is_deleted || strcmp(slot->name, PD_META_REF) == 0) continue;
    if (slot->seen.commit.seq < floor) continue;
    pd_entry entry;
    pd_error why;
    TRY(add_holder(e, 0, false, "ref", slot->name, err));
    pd_code code = pd_get_at_head(s, &slot->seen, e->key, NULL, &entry, &why);
    TRY(hold_entry(e, code, &entry, &why, err));
  }
  return PD_OK;
}

static pd_code take_mark(void *ctx, const char *kind, const char *name, uint64_t seq, pd_error *err)
{
  return add_holder(ctx, seq, true, kind, name, err);
}

/* Marks are listed first and looked at afterwards: a walk over them must not load anything. */
static pd_code hold_marks(pd_eraser *e, uint64_t floor, pd_error *err)
{
  size_t first = e->holder_count;
  TRY(pd_kept_points(e->s, take_mark, e, err));
  size_t count = e->holder_count;
  for (size_t i = first; i < count; i++) {
    pd_entry entry;
    pd_error why;
    if (e->holders[i].seq < floor) continue;
    pd_code code = pd_get_at(e->s, e->holders[i].seq, e->key, NULL, &entry, &why);
    e->holder_count = i + 1; /* whom hold_entry names */
    TRY(hold_entry(e, code, &entry, &why, err));
  }
  e->holder_count = count;
  return PD_OK;
}

pd_code pd_eraser_hold(pd_eraser *e, uint64_t floor, pd_error *err)
{
  if (!e->options->everywhere) TRY(hold_heads(e, floor, err));
  return e->options->spares_marks ? hold_marks(e, floor, err) : PD_OK;
}

bool pd_eraser_holds(pd_eraser *e, uint64_t seq)
{
  const uint32_t *index = pd_map64_find(&e->held, seq);
  if (!index) return false;
  const pd_holder *holder = &e->holders[*index];
  if (holder->is_mark)
    e->report->held_marks++;
  else
    e->report->held_refs++;
  if (!e->report->held_by[0]) snprintf(e->report->held_by, sizeof e->report->held_by, "%s", holder->label);
  return true;
}

/* ---- what is written down ---- */

void pd_erase_notes_done(pd_erase_notes *n)
{
  free(n->changes);
  free(n->ends);
  pd_buf_done(&n->bytes);
}

/* One entry more: its key and its value were appended to `bytes`, the key up to `key_end`. */
static pd_code end_note(pd_erase_notes *n, size_t key_end, pd_error *err)
{
  TRY(pd_array_grow(&n->changes, n->count, &n->capacity, sizeof *n->changes, "an erasure", err));
  TRY(pd_array_grow(&n->ends, 2 * n->count, &n->end_capacity, sizeof *n->ends, "an erasure", err));
  TRY(pd_array_grow(&n->ends, 2 * n->count + 1, &n->end_capacity, sizeof *n->ends, "an erasure", err));
  n->changes[n->count] = (pd_change_in){.expect_version = PD_ANY_VERSION};
  n->ends[2 * n->count] = key_end;
  n->ends[2 * n->count + 1] = n->bytes.size;
  n->count++;
  return PD_OK;
}

static pd_code change_note(pd_erase_notes *n, const char *kind, const char *name, pd_bytes value, pd_error *err)
{
  TRY(pd_buf_printf(&n->bytes, err, "%s/%s", kind, name));
  size_t key_end = n->bytes.size;
  TRY(pd_buf_append(&n->bytes, value.data, value.size, err));
  return end_note(n, key_end, err);
}

pd_code pd_erase_notes_remove(pd_erase_notes *n, const char *name, pd_bytes value, pd_error *err)
{
  TRY(change_note(n, PD_ERASING_KIND, name, value, err));
  n->changes[n->count - 1].is_delete = true;
  return PD_OK;
}

pd_code pd_erase_notes_replace(pd_erase_notes *n, const char *name, uint64_t version, const pd_bytes *value, pd_error *err)
{
  TRY(change_note(n, PD_ERASED_KIND, name, value ? *value : (pd_bytes){NULL, 0}, err));
  n->changes[n->count - 1].is_delete = !value;
  n->changes[n->count - 1].expect_version = version;
  return PD_OK;
}

void pd_erase_notes_end(pd_erase_notes *n)
{
  for (size_t i = 0, from = 0; i < n->count; from = n->ends[2 * i++ + 1]) {
    size_t middle = n->ends[2 * i], end = n->ends[2 * i + 1];
    n->changes[i].key = (pd_bytes){n->bytes.data + from, middle - from};
    n->changes[i].value = (pd_bytes){n->bytes.data + middle, end - middle};
    if (!n->changes[i].is_delete) n->changes[i].value_id = pd_value_id(n->changes[i].value);
  }
}

static int compare_ids(const void *a, const void *b)
{
  const pd_victim *const *x = a, *const *y = b;
  return memcmp((*x)->value_id.bytes, (*y)->value_id.bytes, PD_ID_SIZE);
}

static pd_code add_note(const pd_eraser *e, const pd_victim *v, int64_t at_ms, const char *by, pd_erase_notes *n, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  TRY(pd_buf_printf(&n->bytes, err, PD_ERASED_KIND "/%s", pd_id_hex(&v->value_id, hex)));
  size_t key_end = n->bytes.size;
  pd_json_writer w = {.out = &n->bytes, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "at_ms", (uint64_t)at_ms);
  pd_json_put_text(&w, "by", by);
  pd_json_put_bytes(&w, "key", e->key);
  if (v->is_chunked) pd_json_put_text(&w, "list", pd_id_hex(&v->list_id, hex));
  pd_json_close(&w, '}');
  TRY(w.code);
  return end_note(n, key_end, err);
}

static pd_code add_to_ledger(const pd_eraser *e, bool has_lock, const pd_id *value_id, const pd_erase_ledger_times *times,
                             pd_erase_notes *n, pd_error *err)
{
  size_t key_end;
  TRY(pd_erase_ledger_add(e->s, has_lock, e->key, value_id, times, &n->bytes, &key_end, err));
  return end_note(n, key_end, err);
}

/* All of the key went, and no other ref has it: what backups still hold of it goes, too, also what gc had taken from here before. */
static bool is_whole_key(const pd_eraser *e)
{
  return !e->only_seq && !e->held.count;
}

static pd_code add_sorted(const pd_eraser *e, bool has_lock, const pd_victim *const *sorted, size_t count, const pd_erase_moment *moment,
                          const char *by, pd_erase_notes *n, pd_error *err)
{
  pd_erase_ledger_times all = {.at_ms = moment->at_ms};
  for (size_t i = 0, next; i < count; i = next) {
    pd_erase_ledger_times times = {.at_ms = moment->at_ms};
    for (next = i; next < count && pd_id_equal(&sorted[next]->value_id, &sorted[i]->value_id); next++) {
      pd_erase_ledger_add_made(&times, moment, sorted[next]->made_ms);
      pd_erase_ledger_add_made(&all, moment, sorted[next]->made_ms);
    }
    TRY(add_note(e, sorted[i], moment->at_ms, by, n, err));
    TRY(add_to_ledger(e, has_lock, &sorted[i]->value_id, &times, n, err));
  }
  return is_whole_key(e) ? add_to_ledger(e, has_lock, NULL, &all, n, err) : PD_OK;
}

pd_code pd_erase_notes_add(const pd_eraser *e, bool has_lock, const pd_erase_moment *moment, const char *by, pd_erase_notes *n,
                           pd_error *err)
{
  const pd_victim **sorted = calloc(e->count + 1, sizeof *sorted);
  if (!sorted) return pd_error_memory(err, "an erasure");
  size_t count = 0;
  for (size_t i = 0; i < e->count; i++)
    if (!e->victims[i].was_erased) sorted[count++] = &e->victims[i];
  if (count) qsort(sorted, count, sizeof *sorted, compare_ids);
  pd_code code = add_sorted(e, has_lock, sorted, count, moment, by, n, err);
  free(sorted);
  return code;
}

/* Byte table: docs/formats.md. */
static pd_code add_todo(const pd_eraser *e, size_t first, size_t count, uint64_t number, pd_erase_notes *n, pd_error *err)
{
  TRY(pd_buf_printf(&n->bytes, err, PD_ERASING_KIND "/%016llx/%08zx", (unsigned long long)number, first));
  size_t key_end = n->bytes.size;
  TRY(pd_add_sized(&n->bytes, e->key, err));
  TRY(pd_add_varint(&n->bytes, count, err));
  for (size_t i = 0; i < count; i++)
    TRY(pd_add_varint(&n->bytes, e->victims[first + i].seq - (i ? e->victims[first + i - 1].seq : 0), err));
  return end_note(n, key_end, err);
}

pd_code pd_erase_todo_add(const pd_eraser *e, uint64_t number, pd_erase_notes *n, pd_error *err)
{
  for (size_t first = 0; first < e->count; first += TODO_RECORDS_MAX) {
    size_t count = e->count - first < TODO_RECORDS_MAX ? e->count - first : TODO_RECORDS_MAX;
    TRY(add_todo(e, first, count, number, n, err));
  }
  return PD_OK;
}
