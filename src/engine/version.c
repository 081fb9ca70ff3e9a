/*
 * version.c: which number a write of a key gets. A client that read version N and writes on condition of N must not hit another value
 * that has the number N, whatever happened to the key or to the ref meanwhile. Numbers may skip; they never come again.
 *
 *   VN1  `version_top` is at least every version that was given in this store, on any ref but @meta, which counts apart (`meta_top`): a
 *        setting, a tag, or what gc notes there, is no write of a key. Both follow from the records, and from the keyframe that a store
 *        is opened at: its record says them.
 *   VN2  A ref is plain while it was made at the root commit, only commits moved it, and no other ref was ever put on one of its commits.
 *        Nobody else gives numbers on its line, and none of its own was taken back: a write gets the number after the one before it. A
 *        key that is not there begins after `floor`, the highest version of a key that was deleted on this ref.
 *   VN3  On any other ref a write gets the number after `version_top`. So lines that have a past in common, and what an undo or a reset
 *        took back, never have the same number for two writes.
 *   VN4  What is not known counts as not plain: refs that come out of a keyframe, but for `main`, of which its record tells; a name that
 *        a keyframe may have forgotten (G7).
 *   VN5  What is imported into a store that never gave a number keeps those that it had elsewhere: a backup that is restored on another
 *        machine has them. Into any other store it comes with numbers of that store. The first write that is not imported, or the first
 *        ref that is put on what was, ends it; an import that was given up or killed does not: nobody was shown its numbers. A write beside
 *        such an import goes by VN3, because the import may take its place.
 *
 * Not covered: two refs made at the root commit, each written, and then one reset to the other. They have nothing in common but the
 * name of a key (decision 054).
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/store.h"

#include <stdio.h>
#include <stdlib.h>

#define MAIN_REF "main"
#define FRAME_NOTE "versions"
#define KEEPS_WORD " keeps"

static void raise_to(uint64_t *number, uint64_t at_least)
{
  if (*number < at_least) *number = at_least;
}

static bool is_meta(const pd_ref_slot *slot)
{
  return strcmp(slot->name, PD_META_REF) == 0;
}

uint64_t pd_version_next(const pd_store *s, const pd_ref_slot *slot, uint64_t before)
{
  uint64_t last = before ? before : slot->floor; /* VN2 */
  if (is_meta(slot))
    raise_to(&last, slot->is_plain ? 0 : s->meta_top);
  else if (!slot->is_plain || s->keeps_numbers)
    raise_to(&last, s->version_top);
  return last + 1;
}

bool pd_version_keeps(const pd_store *s)
{
  return s->keeps_numbers;
}

uint64_t pd_version_imported(const pd_store *s, const pd_ref_slot *slot, uint64_t before, uint64_t number)
{
  if (!pd_ref_is_import(slot->name) || !pd_version_keeps(s)) return pd_version_next(s, slot, before);
  return number > before ? number : before + 1;
}

bool pd_version_is_natural(const pd_store *s)
{
  for (size_t i = 0; i < s->slot_count; i++) {
    const pd_ref_slot *slot = s->slots[i];
    if (!pd_ref_is_hidden(slot->name) && slot->seen.last_seq && (!slot->is_plain || slot->floor)) return false;
  }
  return true;
}

/* The ref that made commit `seq` and those that are at it get company. One that has it further back in its past is either the one that
 * made it, or was put there, and lost this then. */
static void share_line(pd_store *s, const pd_ref_slot *mover, uint64_t seq)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  bool is_known = false, has_plain = false;
  for (size_t i = 0; i < s->slot_count; i++) {
    pd_ref_slot *slot = s->slots[i];
    bool is_there = slot != mover && slot->tip.commit.seq == seq && !slot->tip.is_deleted;
    if (is_there) slot->is_plain = false;
    is_known |= is_there;
    has_plain |= slot->is_plain;
  }
  if (is_known || !has_plain) return;
  bool can_read = seq <= s->log_seq && pd_record_at(s, seq, &scratch, &rec, NULL) == PD_OK;
  for (size_t i = 0; i < s->slot_count; i++)
    if (!can_read || pd_bytes_equal(pd_text(s->slots[i]->name), rec.ref)) s->slots[i]->is_plain = false;
}

/* What is imported may take the place of anything here. */
static void share_all(pd_store *s)
{
  for (size_t i = 0; i < s->slot_count; i++) s->slots[i]->is_plain = false;
}

void pd_version_given(pd_store *s, pd_ref_slot *slot, const pd_rec_change *ch)
{
  if (s->keeps_numbers && !pd_ref_is_hidden(slot->name)) {
    s->keeps_numbers = false;         /* VN5 */
    if (s->version_top) share_all(s); /* what was imported so far has numbers, too */
  }
  raise_to(is_meta(slot) ? &s->meta_top : &s->version_top, ch->version);
  if (ch->is_delete) raise_to(&slot->floor, ch->version);
}

/* Is a ref that users see on a commit that has numbers? */
static bool is_shown(const pd_store *s)
{
  for (size_t i = 0; i < s->slot_count; i++) {
    const pd_ref_slot *slot = s->slots[i];
    if (!pd_ref_is_hidden(slot->name) && !slot->tip.is_deleted && slot->tip.commit.seq) return true;
  }
  return false;
}

void pd_version_moved(pd_store *s, pd_ref_slot *slot, const pd_rec *rec)
{
  if (rec->kind == PD_RECORD_COMMIT || rec->kind == PD_RECORD_SWITCH) return;
  bool is_new = rec->kind == PD_RECORD_FORK && !rec->target_seq && !rec->ref_prev_seq && !s->frame_count; /* VN4 */
  bool is_import = pd_ref_is_import(slot->name), is_fork = rec->kind == PD_RECORD_FORK;
  slot->is_plain = is_new && !is_import;
  if (is_import && is_fork && !s->version_top) s->keeps_numbers = true;
  if (is_import && is_fork && !pd_version_keeps(s)) share_all(s);
  if (is_import && rec->kind == PD_RECORD_REF_DELETE && is_shown(s)) s->keeps_numbers = false; /* the import is over */
  if ((rec->kind == PD_RECORD_FORK || rec->kind == PD_RECORD_RESET) && rec->target_seq) share_line(s, slot, rec->target_seq);
}

void pd_version_follow(pd_store *s, pd_ref_slot *slot, const pd_rec *rec)
{
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; rec->kind == PD_RECORD_COMMIT && i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    pd_version_given(s, slot, &ch);
  }
  pd_version_moved(s, slot, rec);
}

/* ---- across keyframes ---- */

/* "versions TOP FLOOR", and behind it what there is of: "main" (it is plain), "jump MS", "back SEQ" (store.h), "keys TOP" (version_top, if
 * meta_top is higher: the first TOP is the higher of both, for programs that count them together), "keeps" (VN5). Other words are of a
 * newer program, and passed over. */
void pd_version_note(pd_store *s, char out[PD_VERSION_NOTE_SIZE])
{
  const pd_ref_slot *slot = pd_slot_find(s, MAIN_REF);
  char jump[40] = "", back[40] = "", keys[40] = "";
  uint64_t top = s->version_top;
  raise_to(&top, s->meta_top);
  if (s->has_jump) snprintf(jump, sizeof jump, " jump %lld", (long long)s->jump_ms);
  if (s->back_seq) snprintf(back, sizeof back, " back %llu", (unsigned long long)s->back_seq);
  if (s->meta_top > s->version_top) snprintf(keys, sizeof keys, " keys %llu", (unsigned long long)s->version_top);
  snprintf(out, PD_VERSION_NOTE_SIZE, FRAME_NOTE " %llu %llu%s%s%s%s%s", (unsigned long long)top,
           (unsigned long long)(slot ? slot->floor : 0), slot && slot->is_plain ? " " MAIN_REF : "", jump, back, keys,
           s->keeps_numbers ? KEEPS_WORD : "");
}

/* The number that follows a word of the note; false if the word is not there. */
static bool number_after(const char *text, const char *word, uint64_t *out)
{
  char *end;
  const char *at = strstr(text, word);
  if (!at || at[strlen(word)] < '0' || at[strlen(word)] > '9') return false;
  *out = strtoull(at + strlen(word), &end, 10);
  return *end == ' ' || !*end;
}

static void take_note(pd_store *s, const char *text)
{
  uint64_t top, number;
  unsigned long long floor;
  if (!number_after(text, FRAME_NOTE " ", &top) || sscanf(text, FRAME_NOTE " %*u %20llu", &floor) != 1) return;
  s->version_top = s->meta_top = top;
  if (number_after(text, " keys ", &number)) s->version_top = number;
  s->keeps_numbers = strstr(text, KEEPS_WORD) != NULL;
  pd_ref_slot *slot = pd_slot_find(s, MAIN_REF);
  if (slot) slot->floor = floor, slot->is_plain = strstr(text, " " MAIN_REF) != NULL;
  s->has_jump = number_after(text, " jump ", &number) && number <= INT64_MAX;
  s->jump_ms = s->has_jump ? (int64_t)number : 0;
  if (number_after(text, " back ", &number)) s->back_seq = number;
}

void pd_version_adopt(pd_store *s, const pd_rec *keyframe)
{
  char text[PD_VERSION_NOTE_SIZE] = "";
  for (size_t i = 0; i < s->slot_count; i++) s->slots[i]->is_plain = false;
  s->version_top = s->meta_top = keyframe->covers; /* written before keyframes told: no number was higher than that of its record */
  s->keeps_numbers = false;
  s->has_jump = false;
  s->back_seq = 0;
  if (keyframe->reason.size >= sizeof text) return;
  if (keyframe->reason.size) memcpy(text, keyframe->reason.data, keyframe->reason.size);
  take_note(s, text);
}

void pd_version_forget(pd_store *s)
{
  s->version_top = s->meta_top = s->back_seq = 0;
  s->keeps_numbers = s->has_jump = false;
  for (size_t i = 0; i < s->slot_count; i++) {
    s->slots[i]->is_plain = false;
    s->slots[i]->floor = 0;
  }
}
