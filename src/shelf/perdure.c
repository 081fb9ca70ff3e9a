/*
 * perdure.c: the shelf that is an agent's store: a ref of its own, that begins empty, and one commit a batch. Only a batch that is too
 * large for one commit (a million keys, or 256 MiB) becomes several.
 */
#include "shelf/shelf.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/close.h"
#include "base/error.h"
#include "base/json.h"
#include "shelf/work_index.h"

#include <stdlib.h>

#define COMMIT_BYTES_MAX ((size_t)256 * 1024 * 1024)

typedef struct perdure_shelf {
  pd_shelf base;
  pd_store *store; /* its handle works on our ref */
  char *ref;
} perdure_shelf;

/* ---- the index of work items: keys on the ref, one list in a StateStore (work_index.h) ---- */

static pd_code add_item(pd_buf *list, pd_bytes json, pd_error *err)
{
  if (list->size) TRY(pd_buf_append(list, ",", 1, err));
  return pd_buf_append(list, json.data, json.size, err);
}

/* The ids of the keys at `at`, with commas between; *out_has: there are keys. */
static pd_code read_work_keys(pd_store *store, const char *at, pd_buf *out, bool *out_has, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  *out_has = false;
  TRY(pd_iter_open(store, at, &(pd_scan){.prefix = pd_text(PD_WORK_INDEX_PREFIX)}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) {
    *out_has |= pd_is_work_key(entry.key);
    if (pd_work_index_number(entry.key)) TRY(add_item(out, value, err));
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* What a StateStore shows as run:index. PD_NOT_FOUND. A value that is no list stays as it is: its reader will say so. */
static pd_code read_work_index(pd_store *store, const char *at, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf keys = {0};
  CLEANUP(pd_buf_done) pd_buf list = {0};
  pd_json json, item;
  bool has_keys;
  pd_code code = pd_get(store, at, pd_text(PD_WORK_INDEX), out, NULL, err);
  if (code && code != PD_NOT_FOUND) return code;
  TRY(read_work_keys(store, at, &keys, &has_keys, err));
  if (!has_keys) return code;
  if (!code) {
    if (pd_json_parse(pd_buf_bytes(out), &json, NULL) || json.kind != PD_JSON_ARRAY) return PD_OK;
    pd_json_walk walk = pd_json_walk_begin(json);
    while (pd_json_walk_next(&walk, NULL, &item)) TRY(add_item(&list, item.raw, err));
  }
  if (keys.size) TRY(add_item(&list, pd_buf_bytes(&keys), err));
  pd_buf_clear(out);
  return pd_buf_printf(out, err, "[%.*s]", (int)list.size, list.size ? (const char *)list.data : "");
}

/* ---- loading ---- */

typedef struct loading {
  perdure_shelf *shelf;
  pd_shelf_visit visit;
  void *ctx;
  bool has_work_index; /* it was shown, or there is none */
} loading;

static pd_code show(const loading *l, pd_bytes key, pd_bytes value, pd_error *err)
{
  pd_error why;
  pd_code code = l->visit(l->ctx, key, value, &why);
  if (code == PD_INVALID || code == PD_LIMIT)
    return pd_error_set(err, PD_CORRUPT, "ref '%s' holds what no StateStore wrote: key '%.*s': %.200s", l->shelf->ref,
                        (int)(key.size < 100 ? key.size : 100), (const char *)key.data, why.message);
  return code ? pd_error_set(err, code, "%s", why.message) : PD_OK;
}

static pd_code show_work_index(loading *l, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  l->has_work_index = true;
  pd_code code = read_work_index(l->shelf->store, NULL, &text, err);
  if (code) return code == PD_NOT_FOUND ? PD_OK : code;
  return show(l, pd_text(PD_WORK_INDEX), pd_buf_bytes(&text), err);
}

/* In the order of the keys, run:index among them. */
static pd_code load_entry(loading *l, pd_bytes key, pd_bytes value, pd_error *err)
{
  int order = pd_bytes_compare(key, pd_text(PD_WORK_INDEX));
  if (order >= 0 && !l->has_work_index) TRY(show_work_index(l, err));
  return !order || pd_is_work_key(key) ? PD_OK : show(l, key, value, err);
}

static pd_code load_store(pd_shelf *shelf, pd_shelf_visit visit, void *ctx, pd_error *err)
{
  loading l = {.shelf = (perdure_shelf *)shelf, .visit = visit, .ctx = ctx};
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  TRY(pd_iter_open(l.shelf->store, NULL, NULL, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) TRY(load_entry(&l, entry.key, value, err));
  if (code != PD_NOT_FOUND) return code;
  return l.has_work_index ? PD_OK : show_work_index(&l, err);
}

/* ---- writing ---- */

/* A put, or a delete if value.data is NULL. */
static int compare_items(const void *a, const void *b)
{
  const pd_shelf_item *x = a, *y = b;
  int order = pd_bytes_compare(x->key, y->key);
  return order ? order : (x->value.data != NULL) - (y->value.data != NULL);
}

/* All of the batch by key, which is how an invocation takes edits fastest; a delete stands before the put of its key. */
static pd_shelf_item *sort_batch(const pd_shelf_batch *batch)
{
  size_t count = batch->put_count + batch->delete_count;
  pd_shelf_item *items = malloc((count + 1) * sizeof *items);
  if (!items) return NULL;
  if (batch->put_count) memcpy(items, batch->puts, batch->put_count * sizeof *items);
  for (size_t i = 0; i < batch->delete_count; i++) items[batch->put_count + i] = (pd_shelf_item){batch->deletes[i], {NULL, 0}};
  qsort(items, count, sizeof *items, compare_items);
  return items;
}

static bool has_work_index(const pd_shelf_item *items, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (pd_bytes_equal(items[i].key, pd_text(PD_WORK_INDEX))) return true;
  return false;
}

/* The list that is written now has them all. */
static pd_code delete_work_keys(pd_edit *edit, pd_error *err)
{
  CLEANUP(pd_iter_close_at) pd_iter *iter = NULL;
  CLEANUP(pd_buf_done) pd_buf keys = {0}; /* each with a NUL: an edit ends the iterator */
  pd_entry entry;
  pd_code code;
  TRY(pd_edit_iter(edit, &(pd_scan){.prefix = pd_text(PD_WORK_INDEX_PREFIX), .keys_only = true}, &iter, err));
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK)
    if (pd_is_work_key(entry.key)) TRY(pd_buf_printf(&keys, err, "%.*s%c", (int)entry.key.size, (const char *)entry.key.data, 0));
  if (code != PD_NOT_FOUND) return code;
  for (size_t at = 0; at < keys.size; at += strlen((const char *)keys.data + at) + 1)
    TRY(pd_edit_delete(edit, pd_text((const char *)keys.data + at), PD_ANY_VERSION, err));
  return PD_OK;
}

/* One commit from items[*at] on; moves *at behind what is in it. */
static pd_code commit_some(perdure_shelf *s, const pd_shelf_item *items, size_t count, size_t *at, pd_error *err)
{
  pd_edit *edit = NULL;
  pd_code code = PD_OK;
  size_t i = *at, start = *at, bytes = 0;
  TRY(pd_edit_begin(s->store, &(pd_note){.ref = s->ref, .reason = "statestore flush"}, &edit, err));
  for (; !code && i < count && i - start < PD_EDIT_COUNT_MAX && (i == start || bytes + items[i].value.size <= COMMIT_BYTES_MAX); i++) {
    bytes += items[i].key.size + items[i].value.size;
    code = items[i].value.data ? pd_edit_put(edit, items[i].key, items[i].value, PD_ANY_VERSION, err)
                               : pd_edit_delete(edit, items[i].key, PD_ANY_VERSION, err);
  }
  if (!code && has_work_index(items + start, i - start)) code = delete_work_keys(edit, err);
  if (!code) code = pd_edit_commit(edit, NULL, err);
  if (code) pd_edit_abort(edit);
  *at = i;
  return code;
}

static pd_code write_store(pd_shelf *shelf, const pd_shelf_batch *batch, pd_error *err)
{
  perdure_shelf *s = (perdure_shelf *)shelf;
  size_t count = batch->put_count + batch->delete_count;
  CLEANUP(pd_free_at) pd_shelf_item *items = sort_batch(batch);
  if (!items) return pd_error_memory(err, "a flush");
  for (size_t at = 0; at < count;) TRY(commit_some(s, items, count, &at, err));
  return PD_OK;
}

static pd_code get_at(pd_shelf *shelf, const char *at, pd_bytes key, pd_buf *out, pd_error *err)
{
  pd_store *store = ((perdure_shelf *)shelf)->store;
  if (pd_bytes_equal(key, pd_text(PD_WORK_INDEX))) return read_work_index(store, at, out, err);
  return pd_get(store, at, key, out, NULL, err);
}

static void close_perdure(pd_shelf *shelf)
{
  perdure_shelf *s = (perdure_shelf *)shelf;
  pd_store_close(s->store, NULL); /* every commit was synced */
  free(s->ref);
  free(s);
}

/* The ref begins at the empty commit, whatever else the agent keeps. */
static pd_code make_ref(pd_store *store, const char *ref, pd_error *err)
{
  pd_ref found;
  pd_code code = pd_ref_get(store, ref, &found, err);
  if (code != PD_NOT_FOUND) return code;
  code = pd_fork(store, ref, "root", &(pd_note){.reason = "statestore"}, NULL, err);
  return code == PD_EXISTS ? PD_OK : code; /* another process was faster */
}

static pd_code open_ref(perdure_shelf *s, const char *uri, const char *agent, pd_error *err)
{
  TRY(pd_store_open(uri, agent, NULL, &s->store, err));
  TRY(make_ref(s->store, s->ref, err));
  if (strcmp(pd_store_ref(s->store), s->ref) == 0) return PD_OK;
  pd_store *own = NULL;
  TRY(pd_store_open(uri, agent, &(pd_options){.ref = s->ref}, &own, err)); /* before the other is closed: `memory:` is gone with it */
  pd_store_close(s->store, NULL);
  s->store = own;
  return PD_OK;
}

pd_code pd_shelf_perdure_open(const char *uri, const char *agent, const char *ref, pd_shelf_warner warner, pd_shelf **out, pd_error *err)
{
  static const pd_shelf_ops ops = {.load = load_store, .write = write_store, .get_at = get_at, .close = close_perdure};
  perdure_shelf *s = calloc(1, sizeof *s);
  if (!s) return pd_error_memory(err, "a store's handle");
  s->base = (pd_shelf){&ops, warner};
  s->ref = strdup(ref);
  pd_code code = s->ref ? open_ref(s, uri, agent, err) : pd_error_memory(err, "a ref's name");
  if (code)
    close_perdure(&s->base);
  else
    *out = &s->base;
  return code;
}
