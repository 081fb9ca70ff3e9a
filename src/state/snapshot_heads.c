/*
 * snapshot_heads.c: the heads of all stores at one instant, and the tags that keep them.
 *
 * Stores do not know each other, so no lock covers them all. Instead the heads are read twice: if no store's head moved between its two
 * readings, then all of them were the heads at any moment between the end of the first round and the beginning of the second. Else the
 * second round is the first of the next try. Writers never wait for this, and it does not wait for writers: after ROUNDS_MAX rounds it
 * takes what it has, and says that it is not of one instant.
 *
 * A round opens each store that is not open (beyond open_max they are closed again at once), so whatever is to be done to a store is done
 * in its second reading: two opens a store are the least.
 */
#include "base/base.h"
#include "base/error.h"
#include "base/names.h"
#include "state/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_MAX 4 /* after the first reading, for each list of stores */
#define LISTS_MAX 3
#define TAG_SIZE (sizeof PD_SNAPSHOT_TAG + PD_SNAPSHOT_ID_SIZE)

pd_store *pd_heads_take(pd_heads *h, size_t i)
{
  pd_lease_open(h->home, &h->leases.items[i], false);
  return h->leases.items[i].store;
}

void pd_heads_put(pd_heads *h, size_t i)
{
  if (i >= h->open_max) pd_lease_close(&h->leases.items[i]);
}

static bool is_same(const pd_head *head, bool is_known, const pd_ref *ref)
{
  if (is_known != head->is_known) return false;
  return !is_known || (pd_id_equal(&ref->commit.id, &head->commit.id) && ref->updated_ms == head->updated_ms);
}

/* Read one head. Time belongs to it: a ref may have moved to and fro. */
static bool read_head(pd_store *store, pd_lease *lease, pd_head *head)
{
  pd_ref ref;
  bool is_known = store && pd_ref_get(store, "main", &ref, &lease->why) == PD_OK;
  if (is_same(head, is_known, &ref)) return false;
  *head = (pd_head){.is_known = is_known};
  if (is_known) head->commit = ref.commit, head->updated_ms = ref.updated_ms;
  return true;
}

typedef struct reading {
  const pd_frame *frame;
  pd_head_keep keep;
  void *ctx;
  pd_error lost; /* code 0, or: why a head could not be kept in this round */
} reading;

/* *out_moved, too, if retention was quicker than `keep`. */
static pd_code keep_head(reading *r, pd_store *store, pd_lease *lease, pd_head *head, bool *out_moved, pd_error *err)
{
  pd_error why = {0};
  if (!head->is_known || head->is_kept) return PD_OK;
  pd_code code = r->keep(r->ctx, store, lease, head, &why);
  head->is_kept = !code;
  if (!code) return PD_OK;
  if (code == PD_RETIRED || code == PD_NOT_FOUND) {
    r->lost = why;
    r->lost.code = code;
    *out_moved = true;
    return PD_OK;
  }
  if (err) *err = why;
  return code;
}

/* One round. *out_moved: some head is not what it was. */
static pd_code read_round(reading *r, pd_heads *h, bool is_first, bool *out_moved, pd_error *err)
{
  *out_moved = false;
  r->lost.code = PD_OK;
  for (size_t i = 0; i < h->leases.count; i++) {
    TRY(pd_frame_progress(r->frame, 0, 0, err)); /* how many rounds there will be is not known */
    pd_store *store = pd_heads_take(h, i);
    if (read_head(store, &h->leases.items[i], &h->items[i])) *out_moved = true;
    pd_code code = is_first ? PD_OK : keep_head(r, store, &h->leases.items[i], &h->items[i], out_moved, err);
    pd_heads_put(h, i);
    TRY(code);
  }
  return PD_OK;
}

/* Did a store come or go since the list was made? */
static pd_code has_same_stores(pd_home *home, const pd_heads *h, bool *out, pd_error *err)
{
  CLEANUP(pd_leases_done) pd_leases now = {0};
  TRY(pd_leases_list(home, &now, err));
  *out = now.count == h->leases.count;
  for (size_t i = 0; *out && i < now.count; i++) *out = strcmp(now.items[i].name, h->leases.items[i].name) == 0;
  return PD_OK;
}

static pd_code read_list(reading *r, pd_heads *out, pd_error *err)
{
  pd_home *home = r->frame->home;
  TRY(pd_leases_list(home, &out->leases, err));
  out->home = home;
  out->open_max = pd_leases_open_max(home);
  out->items = calloc(out->leases.count + 1, sizeof out->items[0]);
  if (!out->items) return pd_error_memory(err, "the heads of all stores");
  bool has_moved;
  TRY(read_round(r, out, true, &has_moved, err));
  for (has_moved = true; has_moved && out->tries < ROUNDS_MAX; out->tries++) TRY(read_round(r, out, false, &has_moved, err));
  out->is_one_instant = !has_moved;
  if (r->lost.code && err) *err = r->lost;
  return r->lost.code;
}

pd_code pd_heads_read(const pd_frame *frame, pd_head_keep keep, void *ctx, pd_heads *out, pd_error *err)
{
  reading r = {.frame = frame, .keep = keep, .ctx = ctx};
  bool is_same_list = false;
  *out = (pd_heads){0};
  for (int lists = 0; !is_same_list && lists < LISTS_MAX; lists++) {
    pd_heads_done(out);
    TRY(read_list(&r, out, err));
    TRY(has_same_stores(frame->home, out, &is_same_list, err));
  }
  out->is_one_instant &= is_same_list;
  return PD_OK;
}

void pd_heads_done(pd_heads *heads)
{
  pd_leases_done(&heads->leases);
  free(heads->items);
  *heads = (pd_heads){0};
}

/* ---- tags ---- */

pd_code pd_head_tag(pd_store *store, const pd_head *head, const char *id, const pd_note *note, pd_error *err)
{
  char tag[TAG_SIZE], hex[PD_ID_HEX_SIZE];
  snprintf(tag, sizeof tag, PD_SNAPSHOT_TAG "%s", id);
  return pd_tag_set(store, tag, pd_id_hex(&head->commit.id, hex), true, note, NULL, err);
}

/* Tags of one store that are left over. Gathered first: they cannot be deleted while they are visited. */
typedef struct leftovers {
  pd_names names;
  int folder;
} leftovers;

static bool take_leftover(void *ctx, const pd_mark *mark)
{
  leftovers *l = ctx;
  size_t prefix = strlen(PD_SNAPSHOT_TAG);
  if (strncmp(mark->name, PD_SNAPSHOT_TAG, prefix) != 0 || !pd_snapshot_id_check(mark->name + prefix)) return true; /* somebody's own */
  if (!pd_snapshot_is_there(l->folder, mark->name + prefix)) pd_names_add(&l->names, mark->name);
  return l->names.code == PD_OK;
}

void pd_head_untag(pd_store *store, int folder, const pd_note *note)
{
  leftovers l = {.folder = folder};
  if (pd_tag_list(store, take_leftover, &l, NULL) == PD_OK)
    for (size_t k = 0; k < l.names.count; k++) (void)!pd_tag_delete(store, l.names.items[k], note, NULL);
  pd_names_done(&l.names);
}

void pd_heads_untag(pd_heads *heads, int folder, const pd_note *note)
{
  for (size_t i = 0; i < heads->leases.count; i++) {
    pd_store *store = pd_heads_take(heads, i);
    if (store) pd_head_untag(store, folder, note);
    pd_heads_put(heads, i);
  }
}
