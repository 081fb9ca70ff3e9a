/*
 * index.c: which threads there are: the ref `threads`, and listing.
 *
 * Each thread has up to three keys there, newest first by what they begin with: the time of its creation, counted down. An entry is written
 * before its thread is made and removed after it is deleted, so it says only that there may be one: who lists looks whether there is a
 * thread of that id and that time.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "thread/thread.h"

#include <stdio.h>

#define MOMENT_SIZE 16 /* hex digits */
#define INDEX_KEY_SIZE 256

/* ---- entries ---- */

/* Keys in byte order are then newest first. */
static void write_moment(int64_t time_ms, char out[MOMENT_SIZE + 1])
{
  snprintf(out, MOMENT_SIZE + 1, "%016llx", (unsigned long long)(INT64_MAX - time_ms));
}

static void owner_prefix(const char *owner, char out[INDEX_KEY_SIZE])
{
  char hex[PD_ID_HEX_SIZE];
  pd_id id = pd_sha256(pd_text(owner)); /* an owner may be any text */
  snprintf(out, INDEX_KEY_SIZE, "owner/%s/", pd_id_hex(&id, hex));
}

static size_t entry_keys(const pd_identity *identity, char out[3][2 * INDEX_KEY_SIZE])
{
  char prefix[INDEX_KEY_SIZE], moment[MOMENT_SIZE + 1];
  size_t count = 0;
  write_moment(identity->created_ms, moment);
  snprintf(out[count++], 2 * INDEX_KEY_SIZE, "time/%s/%s", moment, identity->id);
  if (*identity->owner) {
    owner_prefix(identity->owner, prefix);
    snprintf(out[count++], 2 * INDEX_KEY_SIZE, "%s%s/%s", prefix, moment, identity->id);
  }
  if (*identity->parent) snprintf(out[count++], 2 * INDEX_KEY_SIZE, "parent/%s/%s/%s", identity->parent, moment, identity->id);
  return count;
}

static pd_code need_ref(pd_store *store, pd_error *err)
{
  pd_ref found;
  pd_error why;
  pd_code code = pd_ref_get(store, PD_THREADS_REF, &found, &why);
  if (code == PD_NOT_FOUND) code = pd_fork(store, PD_THREADS_REF, "root", &(pd_note){.reason = "threads"}, NULL, &why);
  if (code == PD_EXISTS) return PD_OK; /* another was faster */
  if (code && err) *err = why;
  return code;
}

static pd_code edit_entries(pd_store *store, const pd_identity *identity, bool is_removal, pd_error *err)
{
  CLEANUP(pd_edit_abort_at) pd_edit *edit = NULL;
  char keys[3][2 * INDEX_KEY_SIZE];
  size_t count = entry_keys(identity, keys);
  TRY(need_ref(store, err));
  TRY(pd_edit_begin(store, &(pd_note){.ref = PD_THREADS_REF, .reason = is_removal ? "ThreadDeleted" : "ThreadCreated"}, &edit, err));
  for (size_t i = 0; i < count; i++)
    TRY(is_removal ? pd_edit_delete(edit, pd_text(keys[i]), PD_ANY_VERSION, err)
                   : pd_edit_put(edit, pd_text(keys[i]), pd_text("{}"), PD_ANY_VERSION, err));
  TRY(pd_edit_commit(edit, NULL, err));
  edit = NULL;
  return PD_OK;
}

pd_code pd_threads_add(pd_store *store, const pd_identity *identity, pd_error *err)
{
  return edit_entries(store, identity, false, err);
}

pd_code pd_threads_remove(pd_store *store, const pd_identity *identity, pd_error *err)
{
  return edit_entries(store, identity, true, err);
}

/* ---- listing ---- */

static pd_code check_cursor(const char *cursor, pd_error *err)
{
  size_t digits = strspn(cursor, "0123456789abcdef");
  if (digits == MOMENT_SIZE && cursor[digits] == '/' && !pd_thread_id_check(cursor + digits + 1, "thread", NULL)) return PD_OK;
  return pd_error_set(err, PD_INVALID, "'%.100s' is no cursor of a list of threads", cursor);
}

/* Where the walk begins and ends, as keys. */
typedef struct bounds {
  char prefix[INDEX_KEY_SIZE], after[2 * INDEX_KEY_SIZE], from[2 * INDEX_KEY_SIZE], to[2 * INDEX_KEY_SIZE];
} bounds;

static pd_code make_bounds(const pd_thread_query *q, bounds *out, pd_error *err)
{
  char moment[MOMENT_SIZE + 1];
  *out = (bounds){0};
  if (q->cursor) TRY(check_cursor(q->cursor, err));
  if (q->parent) TRY(pd_thread_id_check(q->parent, "parent thread", err));
  if (q->owner) TRY(pd_thread_check_text(q->owner, PD_THREAD_OWNER_SIZE_MAX, "owner", err));
  if (q->since_ms < 0 || q->until_ms < 0) return pd_error_set(err, PD_INVALID, "the time is before 1970");
  if (q->parent)
    snprintf(out->prefix, sizeof out->prefix, "parent/%s/", q->parent);
  else if (q->owner)
    owner_prefix(q->owner, out->prefix);
  else
    snprintf(out->prefix, sizeof out->prefix, "time/");
  if (q->cursor) snprintf(out->after, sizeof out->after, "%s%s", out->prefix, q->cursor);
  if (q->until_ms) {
    write_moment(q->until_ms - 1, moment);
    snprintf(out->from, sizeof out->from, "%s%s/", out->prefix, moment);
  }
  if (q->since_ms) {
    write_moment(q->since_ms, moment);
    snprintf(out->to, sizeof out->to, "%s%s0", out->prefix, moment); /* '0' comes after '/' */
  }
  return PD_OK;
}

typedef struct lister {
  pd_store *store;
  const pd_thread_query *query;
  size_t prefix_size;
  pd_thread_visit visit;
  void *ctx;
  uint64_t count;
  bool is_over;
} lister;

static bool is_wanted(const lister *l, const char *cursor, const pd_thread_info *info)
{
  char moment[MOMENT_SIZE + 1];
  write_moment(info->created_ms, moment);
  if (strncmp(cursor, moment, MOMENT_SIZE) != 0) return false; /* of one that is gone */
  if (l->query->owner && strcmp(l->query->owner, info->owner) != 0) return false;
  return !l->query->parent || strcmp(l->query->parent, info->parent) == 0;
}

static pd_code list_entry(lister *l, pd_bytes key, pd_error *err)
{
  CLEANUP(pd_thread_close_at) pd_thread *t = NULL;
  char cursor[PD_THREAD_CURSOR_SIZE];
  pd_thread_info info;
  pd_error why;
  if (key.size - l->prefix_size <= MOMENT_SIZE || key.size - l->prefix_size >= sizeof cursor) return PD_OK;
  snprintf(cursor, sizeof cursor, "%.*s", (int)(key.size - l->prefix_size), (const char *)key.data + l->prefix_size);
  if (check_cursor(cursor, NULL)) return PD_OK;
  pd_code code = pd_thread_open(l->store, cursor + MOMENT_SIZE + 1, &t, &why);
  if (!code) code = pd_thread_info_get(t, &info, &why);
  if (code == PD_NOT_FOUND) return PD_OK;
  if (code && err) *err = why;
  TRY(code);
  if (!is_wanted(l, cursor, &info)) return PD_OK;
  l->count++;
  l->is_over = !l->visit(l->ctx, &info, cursor) || l->count == l->query->limit;
  return PD_OK;
}

pd_code pd_thread_list(pd_store *store, const pd_thread_query *query, pd_thread_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_thread_query all = {0};
  pd_error why;
  bounds b;
  pd_entry entry;
  lister l = {.store = store, .query = query ? query : &all, .visit = visit, .ctx = ctx};
  TRY(make_bounds(l.query, &b, err));
  l.prefix_size = strlen(b.prefix);
  pd_scan scan = {.prefix = pd_text(b.prefix), .after = pd_text(b.after), .from = pd_text(b.from), .to = pd_text(b.to), .keys_only = true};
  pd_code code = pd_iter_open(store, PD_THREADS_REF, &scan, &iter, &why);
  if (code == PD_NOT_FOUND) return PD_OK; /* there was never one */
  if (code && err) *err = why;
  TRY(code);
  while (!l.is_over && (code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) TRY(list_entry(&l, entry.key, err));
  return code == PD_NOT_FOUND ? PD_OK : code;
}
