/*
 * bundle_lines.c: the hidden refs that keep what an import has appended so far (bundle.h D7).
 *
 * They are called @import/OWNER/NUMBER. An owner is one import; its number is the lowest that no ref has, so that names are used again: a
 * store that imports every minute and never runs gc would collect them else. An import that was killed leaves its refs. Nobody can see from
 * another process, or another machine, whether it is still at work; but an import moves one of its refs at least every BEAT_MS. One
 * that has not for IDLE_MS is taken for dead, and the next gc or import deletes its refs. Should it be alive all the same, it finds
 * its refs gone or its commits retired, and begins again: nothing but time depends on the guess.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/bundle.h"

#include <stdio.h>
#include <stdlib.h>

#define BEAT_MS ((int64_t)10 * 60 * 1000)
#define IDLE_MS ((int64_t)60 * 60 * 1000)

void pd_import_lines_done(pd_import_lines *lines)
{
  free(lines->list);
  pd_map64_done(&lines->by_tip);
}

/* The owner of a hidden ref; 0 of the one ref of older versions, UINT64_MAX if it is no ref of an import. */
static uint64_t owner_of(const char *name)
{
  if (!pd_ref_is_import(name)) return UINT64_MAX;
  size_t size = strlen(PD_IMPORT_REF);
  return name[size] ? strtoull(name + size + 1, NULL, 10) : 0;
}

static bool is_alive(pd_store *s, const char *name)
{
  const pd_ref_slot *slot = pd_slot_find(s, name);
  return slot && !slot->tip.is_deleted;
}

void pd_import_line_name(const pd_import_lines *lines, const pd_import_line *line, char out[PD_REF_SIZE_MAX + 1])
{
  snprintf(out, PD_REF_SIZE_MAX + 1, PD_IMPORT_REF "/%llu/%llu", (unsigned long long)lines->owner, (unsigned long long)line->number);
}

/* ---- of this import ---- */

static uint64_t free_owner(const pd_store *s)
{
  uint64_t owner = 1;
  for (bool is_taken = true; is_taken; owner += is_taken) {
    is_taken = false;
    for (size_t i = 0; i < s->slot_count && !is_taken; i++) is_taken = !s->slots[i]->tip.is_deleted && owner_of(s->slots[i]->name) == owner;
  }
  return owner;
}

static pd_code gone(const char *name, pd_error *err)
{
  return pd_error_set(err, PD_RETIRED, "the hidden ref '%s' of this import was removed, because it had not moved for an hour", name);
}

/* Is the ref where this import left it? */
static bool is_ours(pd_store *s, const pd_import_lines *lines, const pd_import_line *line)
{
  char name[PD_REF_SIZE_MAX + 1];
  pd_import_line_name(lines, line, name);
  const pd_ref_slot *slot = pd_slot_find(s, name);
  return slot && !slot->tip.is_deleted && slot->tip.commit.seq == line->tip.seq;
}

/* The line that ends with record `seq`; NULL if there is none. */
static pd_import_line *line_at(const pd_import_lines *lines, uint64_t seq)
{
  const uint32_t *index = pd_map64_find(&lines->by_tip, seq + 1); /* 0 is no key, but the root commit's number */
  return index && lines->list[*index].tip.seq == seq ? &lines->list[*index] : NULL;
}

pd_code pd_import_line_stage(pd_store *s, pd_import_lines *lines, const pd_commit *base, pd_import_line *out, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1];
  const pd_import_line *line = line_at(lines, base->seq);
  if (line) {
    pd_import_line_name(lines, line, name);
    if (!is_ours(s, lines, line)) return gone(name, err);
    *out = *line;
    return PD_OK;
  }
  if (!lines->count) lines->owner = free_owner(s);
  *out = (pd_import_line){.number = lines->count, .tip = *base};
  do {
    out->number++;
    pd_import_line_name(lines, out, name);
  } while (is_alive(s, name));
  pd_note note = {.reason = "import"};
  pd_intent intent = {.kind = PD_RECORD_FORK, .ref = name, .note = &note, .target = base};
  return pd_stage(s, &intent, NULL, NULL, err);
}

pd_code pd_import_line_appended(pd_import_lines *lines, const pd_import_line *line, const pd_commit *tip, pd_error *err)
{
  const pd_import_line *known = line_at(lines, line->tip.seq);
  bool is_known = known && known->number == line->number;
  size_t at = is_known ? (size_t)(known - lines->list) : lines->count;
  uint32_t *index;
  lines->beat_ms = pd_clock_monotonic_ms();
  TRY(pd_array_grow(&lines->list, lines->count, &lines->capacity, sizeof *lines->list, "an import", err));
  TRY(pd_map64_add(&lines->by_tip, tip->seq + 1, &index, NULL, err));
  *index = (uint32_t)at;
  lines->list[at] = (pd_import_line){.number = line->number, .tip = *tip};
  lines->count += !is_known;
  return PD_OK;
}

void pd_import_lines_check(pd_store *s, pd_import_lines *lines)
{
  size_t left = 0;
  pd_store_lock(s);
  bool is_fresh = !pd_settle(s, NULL) && !pd_refresh(s, NULL);
  for (size_t i = 0; is_fresh && i < lines->count; i++)
    if (is_ours(s, lines, &lines->list[i])) lines->list[left++] = lines->list[i];
  pd_store_unlock(s);
  pd_map64_done(&lines->by_tip);
  lines->by_tip = (pd_map64){0};
  lines->count = 0;
  for (size_t i = 0; i < left; i++) {
    pd_import_line line = lines->list[i];
    if (pd_import_line_appended(lines, &line, &line.tip, NULL)) break; /* fewer are known: what they keep is imported once more */
  }
}

pd_code pd_import_beat(pd_store *s, pd_import_lines *lines, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1];
  int64_t now = pd_clock_monotonic_ms();
  if (!lines->count || now - lines->beat_ms < BEAT_MS) return PD_OK;
  lines->beat_ms = now;
  pd_import_line_name(lines, &lines->list[0], name);
  pd_note note = {.reason = "import", .expect_head = &lines->list[0].tip.id};
  pd_intent intent = {.kind = PD_RECORD_RESET, .ref = name, .note = &note, .target = &lines->list[0].tip};
  pd_code code = pd_write(s, &intent, NULL, err);
  return code == PD_NOT_FOUND || code == PD_CONFLICT ? gone(name, err) : code;
}

/* ---- at the end ---- */

static pd_code stage_delete(pd_store *s, const char *name, const char *reason, pd_error *err)
{
  pd_note note = {.reason = reason};
  pd_intent intent = {.kind = PD_RECORD_REF_DELETE, .ref = name, .note = &note};
  return pd_stage(s, &intent, NULL, NULL, err);
}

pd_code pd_import_lines_end(pd_store *s, const pd_import_lines *lines, pd_error *err)
{
  for (size_t i = 0; i < lines->count; i++) {
    char name[PD_REF_SIZE_MAX + 1];
    pd_import_line_name(lines, &lines->list[i], name);
    if (is_ours(s, lines, &lines->list[i])) TRY(stage_delete(s, name, "import", err));
  }
  return PD_OK;
}

/* ---- of imports that did not end ---- */

/* When its owner last moved one of its refs. */
static int64_t last_moved(const pd_store *s, uint64_t owner)
{
  int64_t last = 0;
  for (size_t i = 0; i < s->slot_count; i++) {
    const pd_head *head = &s->slots[i]->seen;
    if (!head->is_deleted && owner_of(s->slots[i]->name) == owner && head->updated_ms > last) last = head->updated_ms;
  }
  return last;
}

bool pd_import_is_idle(const pd_store *s, const pd_ref_slot *slot, int64_t *out_last_ms)
{
  uint64_t owner = slot->seen.is_deleted ? UINT64_MAX : owner_of(slot->name);
  if (owner == UINT64_MAX) return false;
  *out_last_ms = last_moved(s, owner);
  return s->now_ms(s->now_ctx) - *out_last_ms >= IDLE_MS;
}

/* Refs of one owner stand together, as slots are sorted by name: each owner is asked about once. */
pd_code pd_import_stage_clean(pd_store *s, pd_error *err)
{
  uint64_t asked = UINT64_MAX;
  bool is_idle = false;
  for (size_t i = 0; i < s->slot_count; i++) {
    const pd_ref_slot *slot = s->slots[i];
    uint64_t owner = slot->tip.is_deleted || slot->seen.is_deleted ? UINT64_MAX : owner_of(slot->name);
    int64_t last_ms;
    if (owner == UINT64_MAX) continue;
    if (owner != asked) is_idle = pd_import_is_idle(s, slot, &last_ms);
    asked = owner;
    if (is_idle) TRY(stage_delete(s, slot->name, "left by an import that did not end", err));
  }
  return PD_OK;
}

static pd_code stage_clean(void *ctx, pd_error *err)
{
  return pd_import_stage_clean(ctx, err);
}

pd_code pd_import_clean(pd_store *s, pd_error *err)
{
  return pd_write_many(s, stage_clean, s, err);
}
