/* model_read.c: get, has, list, resolve and refs, at heads and anywhere in the past. */
#include "engine/model_ops.h"

#include "base/buf.h"

#include <stdio.h>

void op_resolve(world *w)
{
  pd_store *store = world_handle(w);
  world_point p;
  world_point_pick(w, &p);
  pd_commit commit;
  pd_error err = {0};
  pd_code code = pd_resolve(store, p.at, &commit, &err);
  world_expect(w, code, p.code, &err);
  if (code != PD_OK) return;
  const model_commit *expected = &w->model.commits[p.commit];
  if (!pd_id_equal(&commit.id, &expected->id)) world_disagree(w, "'%s' is another commit", p.text);
  world_require(w, pd_id_equal(&commit.tree, &expected->tree));
  if (p.commit == MODEL_ROOT) {
    world_require(w, commit.seq == 0);
    return;
  }
  const model_record *maker = model_record_of(&w->model, commit.seq);
  world_require(w, maker && maker->kind == PD_RECORD_COMMIT && maker->commit == p.commit);
}

/* pd_get, or the same through a view. */
static pd_code get(world *w, pd_store *store, const char *at, size_t key, pd_buf *value, pd_entry *entry, pd_error *err)
{
  if (world_chance(w, 50)) return pd_get(store, at, w->keys[key], value, entry, err);
  pd_view *view = NULL;
  pd_code code = pd_view_open(store, at, &view, err);
  if (!code) code = pd_view_get(view, w->keys[key], value, entry, err);
  pd_view_close(view);
  return code;
}

static void check_get(world *w, pd_store *store, const char *at, size_t key, const model_entry *expected)
{
  pd_buf value = {0};
  pd_entry entry;
  pd_error err = {0};
  pd_code code = get(w, store, at, key, &value, &entry, &err);
  world_expect(w, code, expected->is_present ? PD_OK : PD_NOT_FOUND, &err);
  w->hits += code == PD_OK;
  w->misses += code != PD_OK;
  if (code == PD_OK) {
    world_check_entry(w, &entry, key, expected);
    world_check_value(w, pd_buf_bytes(&value), expected);
  }
  pd_buf_done(&value);
}

void op_get(world *w)
{
  pd_store *store = world_handle(w);
  world_point p;
  world_point_pick(w, &p);
  size_t key = world_key_pick(w);
  if (p.code == PD_OK) {
    check_get(w, store, p.at, key, &model_entries(&w->model, p.commit)[key]);
    return;
  }
  pd_buf value = {0};
  pd_error err = {0};
  world_expect(w, get(w, store, p.at, key, &value, NULL, &err), p.code, &err);
  world_require(w, value.size == 0);
  pd_buf_done(&value);
}

void op_has(world *w)
{
  pd_store *store = world_handle(w);
  world_point p;
  world_point_pick(w, &p);
  size_t key = world_key_pick(w);
  bool has = false;
  pd_error err = {0};
  pd_code code = pd_has(store, p.at, w->keys[key], &has, &err);
  world_expect(w, code, p.code, &err);
  if (code == PD_OK) world_require(w, has == model_entries(&w->model, p.commit)[key].is_present);
}

static bool is_in_scan(pd_bytes key, const pd_scan *scan)
{
  if (scan->prefix.size && !pd_bytes_starts(key, scan->prefix)) return false;
  if (scan->after.size && pd_bytes_compare(key, scan->after) <= 0) return false;
  if (scan->from.size && pd_bytes_compare(key, scan->from) < 0) return false;
  return !scan->to.size || pd_bytes_compare(key, scan->to) < 0;
}

static void pick_scan(world *w, pd_scan *out)
{
  static const char *const prefixes[] = {"", "k", "k1", "user/", "user/1", "user/1/", "user/2/name", "\xC3", "\xF0\x9F\x90\x84", "no such"};
  *out = (pd_scan){0};
  if (world_chance(w, 60)) out->prefix = pd_text(prefixes[world_random(w, 10)]);
  if (world_chance(w, 30)) out->after = w->keys[world_random(w, w->key_count)];
  if (world_chance(w, 20)) out->from = w->keys[world_random(w, w->key_count)];
  if (world_chance(w, 20)) out->to = w->keys[world_random(w, w->key_count)];
  out->keys_only = world_chance(w, 30);
}

/* pd_iter_open, or the same through a view; the iterator outlives it. */
static pd_code scan_at(world *w, pd_store *store, const char *at, const pd_scan *scan, pd_iter **out, pd_error *err)
{
  if (world_chance(w, 50)) return pd_iter_open(store, at, scan, out, err);
  pd_view *view = NULL;
  pd_code code = pd_view_open(store, at, &view, err);
  if (!code) code = pd_view_scan(view, scan, out, err);
  pd_view_close(view);
  return code;
}

/* At most `limit` entries of a scan, as a page; the rest is left unread. */
static void check_scan(world *w, pd_store *store, const char *at, uint32_t commit, const pd_scan *scan, size_t limit)
{
  pd_iter *iter = NULL;
  pd_error err = {0};
  pd_entry entry;
  pd_bytes value;
  world_expect(w, scan_at(w, store, at, scan, &iter, &err), PD_OK, &err);
  const model_entry *entries = model_entries(&w->model, commit);
  for (size_t key = 0; key < w->key_count && limit; key++) {
    if (!entries[key].is_present || !is_in_scan(w->keys[key], scan)) continue;
    world_expect(w, pd_iter_next(iter, &entry, &value, &err), PD_OK, &err);
    world_check_entry(w, &entry, key, &entries[key]);
    if (scan->keys_only)
      world_require(w, value.size == 0);
    else
      world_check_value(w, value, &entries[key]);
    limit--;
  }
  if (limit) world_expect(w, pd_iter_next(iter, &entry, &value, &err), PD_NOT_FOUND, &err);
  pd_iter_close(iter);
}

void op_list(world *w)
{
  pd_store *store = world_handle(w);
  world_point p;
  world_point_pick(w, &p);
  pd_scan scan;
  pick_scan(w, &scan);
  if (p.code == PD_OK) {
    check_scan(w, store, p.at, p.commit, &scan, world_chance(w, 60) ? 1 + world_random(w, 20) : SIZE_MAX);
    return;
  }
  pd_iter *iter = NULL;
  pd_error err = {0};
  world_expect(w, scan_at(w, store, p.at, &scan, &iter, &err), p.code, &err);
  world_require(w, !iter);
}

void check_whole_commit(world *w, pd_store *store, uint32_t commit)
{
  char hex[PD_ID_HEX_SIZE];
  pd_id_hex(&w->model.commits[commit].id, hex);
  check_scan(w, store, hex, commit, &(pd_scan){0}, SIZE_MAX);
  for (size_t i = 0; i < 5; i++) {
    size_t key = world_key_pick(w);
    check_get(w, store, hex, key, &model_entries(&w->model, commit)[key]);
  }
}

typedef struct ref_walk {
  world *w;
  unsigned seen; /* a bit per ref */
} ref_walk;

static void visit_ref(void *ctx, const pd_ref *ref)
{
  ref_walk *walk = ctx;
  world *w = walk->w;
  for (int i = 0; i < MODEL_REFS; i++) {
    if (strcmp(ref->name, world_ref_name(i)) != 0) continue;
    const model_ref *expected = &w->model.refs[i];
    world_require(w, expected->exists && !(walk->seen & 1u << i));
    world_require(w, pd_id_equal(&ref->commit.id, &w->model.commits[expected->head].id));
    world_require(w, pd_id_equal(&ref->commit.tree, &w->model.commits[expected->head].tree));
    world_require(w, ref->is_current == (i == 0));
    if (ref->can_redo != (expected->redo_top != MODEL_NONE)) world_disagree(w, "can_redo of '%s' is %d", ref->name, ref->can_redo);
    if (expected->updated_ms) world_require(w, ref->updated_ms == expected->updated_ms);
    walk->seen |= 1u << i;
    return;
  }
  world_disagree(w, "a ref '%s' that nobody made", ref->name);
}

void op_refs(world *w)
{
  pd_store *store = world_handle(w);
  ref_walk walk = {.w = w};
  pd_error err = {0};
  world_expect(w, pd_ref_list(store, visit_ref, &walk, &err), PD_OK, &err);
  for (int i = 0; i < MODEL_REFS; i++) {
    pd_ref ref;
    world_require(w, w->model.refs[i].exists == !!(walk.seen & 1u << i));
    pd_code code = pd_ref_get(store, world_ref_name(i), &ref, &err);
    world_expect(w, code, w->model.refs[i].exists ? PD_OK : PD_NOT_FOUND, &err);
    if (code == PD_OK) world_require(w, pd_id_equal(&ref.commit.id, &w->model.commits[w->model.refs[i].head].id));
  }
}

void op_bad_read(world *w)
{
  static const char *const nowhere[] = {"nobody",     "main~999999", "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
                                        "#999999999", "nobody~1",    "#18446744073709551615"};
  static const char *const nonsense[] = {"main~x",
                                         "@",
                                         "main@yesterday",
                                         "#",
                                         "#x",
                                         "main~-1",
                                         "~",
                                         " main",
                                         "main~1~",
                                         "main~99999999999999999999",
                                         "#01",
                                         "#+1",
                                         "main~01",
                                         "#4444444444444444444444110"};
  pd_store *store = world_handle(w);
  pd_commit commit;
  pd_error err = {0};
  world_expect(w, pd_resolve(store, nowhere[world_random(w, 6)], &commit, &err), PD_NOT_FOUND, &err);
  const char *text = nonsense[world_random(w, 14)];
  pd_code code = pd_resolve(store, text, &commit, &err);
  if (strcmp(text, "~") == 0 || strcmp(text, "main~1~") == 0) return; /* no rule says that these are wrong */
  if (code != PD_INVALID && code != PD_NOT_FOUND) world_disagree(w, "'%s' answered %s", text, pd_code_name(code));
}
