/*
 * snapshot_heads.c: the heads of all stores at one instant, and the tags that keep them.
 *
 * Stores do not know each other, so no lock covers them all. Instead the heads are read twice: if no store's head moved between its two
 * readings, then all of them were the heads at any moment between the end of the first round and the beginning of the second. Else the
 * second round is the first of the next try. Writers never wait for this.
 */
#include "base/base.h"
#include "base/error.h"
#include "state/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_MAX 1000
#define LISTS_MAX 10
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

/* One round. *out_moved: some head is not what it was. Time belongs to it: a ref may have moved to and fro. */
static void read_round(pd_heads *h, bool *out_moved)
{
  *out_moved = false;
  for (size_t i = 0; i < h->leases.count; i++) {
    pd_head *head = &h->items[i];
    pd_lease *lease = &h->leases.items[i];
    pd_ref ref;
    pd_store *store = pd_heads_take(h, i);
    bool is_known = store && pd_ref_get(store, "main", &ref, &lease->why) == PD_OK;
    pd_heads_put(h, i);
    if (is_known != head->is_known || (is_known && (!pd_id_equal(&ref.commit.id, &head->commit.id) || ref.updated_ms != head->updated_ms)))
      *out_moved = true;
    *head = (pd_head){.is_known = is_known};
    if (is_known) head->commit = ref.commit, head->updated_ms = ref.updated_ms;
  }
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

pd_code pd_heads_read(pd_home *home, pd_heads *out, pd_error *err)
{
  bool is_same = false;
  *out = (pd_heads){0};
  for (int lists = 0; !is_same && lists < LISTS_MAX; lists++) {
    pd_heads_done(out);
    TRY(pd_leases_list(home, &out->leases, err));
    out->home = home;
    out->open_max = pd_leases_open_max(home);
    out->items = calloc(out->leases.count + 1, sizeof out->items[0]);
    if (!out->items) return pd_error_memory(err, "the heads of all stores");
    bool has_moved = true;
    read_round(out, &has_moved);
    for (has_moved = true; has_moved && out->tries < ROUNDS_MAX; out->tries++) read_round(out, &has_moved);
    out->is_one_instant = !has_moved;
    TRY(has_same_stores(home, out, &is_same, err));
  }
  out->is_one_instant &= is_same;
  return PD_OK;
}

void pd_heads_done(pd_heads *heads)
{
  pd_leases_done(&heads->leases);
  free(heads->items);
  *heads = (pd_heads){0};
}

/* ---- tags ---- */

pd_code pd_heads_tag(pd_heads *heads, const char *id, const pd_note *note, pd_error *err)
{
  char tag[TAG_SIZE], hex[PD_ID_HEX_SIZE];
  snprintf(tag, sizeof tag, PD_SNAPSHOT_TAG "%s", id);
  for (size_t i = 0; i < heads->leases.count; i++) {
    if (!heads->items[i].is_known) continue;
    pd_store *store = pd_heads_take(heads, i);
    pd_code code = store ? pd_tag_set(store, tag, pd_id_hex(&heads->items[i].commit.id, hex), true, note, NULL, err)
                         : pd_error_set(err, heads->leases.items[i].why.code, "%s", heads->leases.items[i].why.message);
    pd_heads_put(heads, i);
    TRY(code);
  }
  return PD_OK;
}

/* Tags of one store that are left over. Gathered first: they cannot be deleted while they are visited. */
typedef struct leftovers {
  char (*names)[TAG_SIZE];
  size_t count, capacity;
  int folder;
} leftovers;

static bool take_leftover(void *ctx, const pd_mark *mark)
{
  leftovers *l = ctx;
  size_t prefix = strlen(PD_SNAPSHOT_TAG);
  if (strncmp(mark->name, PD_SNAPSHOT_TAG, prefix) != 0 || !pd_snapshot_id_check(mark->name + prefix)) return true; /* somebody's own */
  if (pd_snapshot_is_there(l->folder, mark->name + prefix)) return true;
  if (l->count == l->capacity) {
    size_t bigger = l->capacity ? l->capacity * 2 : 16;
    void *grown = realloc(l->names, bigger * sizeof l->names[0]);
    if (!grown) return false;
    l->names = grown;
    l->capacity = bigger;
  }
  snprintf(l->names[l->count++], TAG_SIZE, "%s", mark->name);
  return true;
}

void pd_heads_untag(pd_heads *heads, int folder, const pd_note *note)
{
  for (size_t i = 0; i < heads->leases.count; i++) {
    leftovers l = {.folder = folder};
    pd_store *store = pd_heads_take(heads, i);
    if (store && pd_tag_list(store, take_leftover, &l, NULL) == PD_OK)
      for (size_t k = 0; k < l.count; k++) (void)!pd_tag_delete(store, l.names[k], note, NULL);
    free(l.names);
    pd_heads_put(heads, i);
  }
}
