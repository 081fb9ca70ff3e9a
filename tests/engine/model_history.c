/* model_history.c: versions of a key, the log in its three forms, diff. */
#include "engine/model_ops.h"

#include "base/buf.h"

#include <stdlib.h>

/* The writer of a version, as the model knows it. */
static void check_who(world *w, uint64_t seq, const char *author, const char *reason)
{
  const model_record *r = model_record_of(&w->model, seq);
  world_require(w, r != NULL);
  world_require(w, strcmp(author, r->author ? r->author : "model") == 0); /* the agent's name is the default */
  world_require(w, strcmp(reason, r->reason ? r->reason : "") == 0);
}

/* ---- versions of a key ---- */

typedef struct version_walk {
  world *w;
  size_t key;
  uint32_t commit; /* where the walk stands; MODEL_NONE: no version is left */
  uint64_t seen;
} version_walk;

static bool visit_version(void *ctx, const pd_version_info *info)
{
  version_walk *walk = ctx;
  world *w = walk->w;
  world_require(w, walk->commit != MODEL_NONE);
  const model_entry *expected = &model_entries(&w->model, walk->commit)[walk->key];
  world_require(w, expected->is_present);
  world_check_entry(w, &info->entry, walk->key, expected);
  uint32_t writer = model_writer(&w->model, walk->commit, walk->key);
  world_require(w, pd_id_equal(&info->commit, &w->model.commits[writer].id));
  check_who(w, expected->seq, info->author, info->reason);
  walk->commit = expected->writes == 1 ? MODEL_NONE : w->model.commits[writer].parent;
  walk->seen++;
  return true;
}

void op_history(world *w)
{
  pd_store *store = world_handle(w);
  world_point p;
  world_point_pick(w, &p);
  size_t key = world_key_pick(w);
  pd_error err = {0};
  uint64_t limit = world_chance(w, 50) ? 0 : 1 + world_random(w, 5);
  version_walk walk = {.w = w, .key = key, .commit = p.commit};
  pd_code code = pd_history(store, p.at, w->keys[key], limit, visit_version, &walk, &err);
  if (p.code != PD_OK) {
    world_expect(w, code, p.code, &err);
    return;
  }
  const model_entry *expected = &model_entries(&w->model, p.commit)[key];
  world_expect(w, code, expected->is_present ? PD_OK : PD_NOT_FOUND, &err);
  if (code != PD_OK) return;
  world_require(w, walk.seen == (limit && limit < expected->writes ? limit : expected->writes));
}

/* The entry of an earlier version on the line of `commit`. */
static const model_entry *find_version(world *w, uint32_t commit, size_t key, uint64_t version)
{
  for (;;) {
    const model_entry *entry = &model_entries(&w->model, commit)[key];
    if (!entry->is_present || entry->version < version) return NULL;
    if (entry->version == version) return entry;
    commit = w->model.commits[model_writer(&w->model, commit, key)].parent;
  }
}

void op_version(world *w)
{
  pd_store *store = world_handle(w);
  world_point p;
  world_point_pick(w, &p);
  if (p.code != PD_OK) return;
  size_t key = world_key_pick(w);
  uint64_t version = 1 + world_random(w, model_entries(&w->model, p.commit)[key].version + 2);
  const model_entry *expected = find_version(w, p.commit, key, version);
  pd_buf value = {0};
  pd_entry entry;
  pd_error err = {0};
  pd_code code = pd_get_version(store, p.at, w->keys[key], version, &value, &entry, &err);
  world_expect(w, code, expected ? PD_OK : PD_NOT_FOUND, &err);
  if (expected) {
    world_check_entry(w, &entry, key, expected);
    world_check_value(w, pd_buf_bytes(&value), expected);
  }
  pd_buf_done(&value);
}

/* ---- the log ---- */

typedef struct log_walk {
  world *w;
  uint32_t commit; /* line: the commit that comes next */
  size_t index;    /* whole store, ref: records[index - 1] comes next */
  int ref;         /* -1: all */
  size_t key;      /* SIZE_MAX: any */
  uint64_t seen;
} log_walk;

static bool changed_key(const model *m, uint32_t commit, size_t key)
{
  const model_entry *now = &m->commits[commit].entries[key], *before = &m->commits[m->commits[commit].parent].entries[key];
  return now->is_present != before->is_present || now->seq != before->seq;
}

static const pd_change *find_change(world *w, const pd_record *record, size_t key)
{
  for (size_t i = 0; i < record->change_count; i++)
    if (pd_bytes_equal(record->changes[i].key, w->keys[key])) return &record->changes[i];
  return NULL;
}

static void check_changes(world *w, const pd_record *record, uint32_t commit)
{
  const model *m = &w->model;
  const model_commit *c = &m->commits[commit];
  const model_entry *before = m->commits[c->parent].entries;
  size_t count = 0;
  for (size_t key = 0; key < m->key_count; key++) {
    if (!changed_key(m, commit, key)) continue;
    count++;
    const pd_change *change = find_change(w, record, key);
    world_require(w, change != NULL);
    world_require(w, change->is_delete == !c->entries[key].is_present);
    world_require(w, change->version == (change->is_delete ? before[key].version : c->entries[key].version));
    if (change->is_delete) continue;
    pd_id id = pd_value_id(world_value(w, c->entries[key].value));
    world_require(w, pd_id_equal(&id, &change->value_id));
    world_require(w, change->size == w->expected.size);
  }
  world_require(w, record->change_count == count);
}

static void check_record(world *w, const pd_record *record, const model_record *expected)
{
  world_require(w, record->kind == expected->kind);
  world_require(w, strcmp(record->ref, world_ref_name(expected->ref)) == 0);
  world_require(w, record->time_ms == expected->time_ms);
  world_require(w, pd_id_equal(&record->commit.id, &w->model.commits[expected->commit].id));
  check_who(w, record->seq, record->author, record->reason);
  if (record->kind != PD_RECORD_COMMIT) return;
  const model_commit *c = &w->model.commits[expected->commit];
  world_require(w, pd_id_equal(&record->commit.tree, &c->tree));
  world_require(w, record->parent_count == 1 && pd_id_equal(&record->parents[0], &w->model.commits[c->parent].id));
  check_changes(w, record, expected->commit);
}

/* The next commit of the line that a query shows; MODEL_NONE at the end. */
static uint32_t next_shown(const model *m, uint32_t commit, size_t key)
{
  while (commit != MODEL_ROOT && key != SIZE_MAX && !changed_key(m, commit, key)) commit = m->commits[commit].parent;
  return commit == MODEL_ROOT ? MODEL_NONE : commit;
}

static bool visit_line(void *ctx, const pd_record *record)
{
  log_walk *walk = ctx;
  world *w = walk->w;
  walk->commit = next_shown(&w->model, walk->commit, walk->key);
  world_require(w, walk->commit != MODEL_NONE);
  const model_record *expected = model_record_of(&w->model, record->seq);
  world_require(w, expected && expected->commit == walk->commit);
  check_record(w, record, expected);
  walk->commit = w->model.commits[walk->commit].parent;
  walk->seen++;
  return true;
}

void op_log(world *w)
{
  pd_store *store = world_handle(w);
  world_point p;
  world_point_pick(w, &p);
  log_walk walk = {.w = w, .commit = p.commit, .key = world_chance(w, 50) ? SIZE_MAX : world_key_pick(w)};
  pd_log_query query = {.at = p.at, .limit = world_chance(w, 80) ? 1 + world_random(w, 30) : 0};
  if (walk.key != SIZE_MAX) query.key = w->keys[walk.key];
  pd_error err = {0};
  pd_code code = pd_log(store, &query, visit_line, &walk, &err);
  world_expect(w, code, p.code, &err);
  if (code != PD_OK || (query.limit && walk.seen == query.limit)) return;
  world_require(w, next_shown(&w->model, walk.commit, walk.key) == MODEL_NONE); /* nothing was left out */
}

static bool visit_record(void *ctx, const pd_record *record)
{
  log_walk *walk = ctx;
  world *w = walk->w;
  if (record->seq <= w->model.base_seq || record->kind == PD_RECORD_KEYFRAME || record->kind == PD_RECORD_REF_DELETE) return true;
  do {
    world_require(w, walk->index > 0);
    walk->index--;
  } while (walk->ref >= 0 && w->model.records[walk->index].ref != walk->ref);
  world_require(w, record->seq == w->model.records[walk->index].seq);
  check_record(w, record, &w->model.records[walk->index]);
  walk->seen++;
  return true;
}

void check_whole_log(world *w, pd_store *store)
{
  for (int ref = -1; ref < MODEL_REFS; ref++) {
    size_t count = 0;
    for (size_t i = 0; i < w->model.record_count; i++) count += ref < 0 || w->model.records[i].ref == ref;
    if (!count) continue;
    log_walk walk = {.w = w, .index = w->model.record_count, .ref = ref, .key = SIZE_MAX};
    pd_log_query query = {.whole_store = ref < 0, .ref = ref < 0 ? NULL : world_ref_name(ref)};
    pd_error err = {0};
    world_expect(w, pd_log(store, &query, visit_record, &walk, &err), PD_OK, &err);
    world_require(w, walk.seen == count);
  }
}

/* ---- diff ---- */

typedef struct diff_walk {
  world *w;
  const model_entry *before, *after;
  size_t key;    /* the next to look at */
  uint64_t left; /* of those asked for */
} diff_walk;

static size_t next_differing(const diff_walk *walk)
{
  size_t key = walk->key;
  while (key < walk->w->key_count && walk->before[key].is_present == walk->after[key].is_present &&
         walk->before[key].value == walk->after[key].value)
    key++;
  return key;
}

static bool visit_difference(void *ctx, const pd_difference *d)
{
  diff_walk *walk = ctx;
  world *w = walk->w;
  size_t key = next_differing(walk);
  world_require(w, key < w->key_count && pd_bytes_equal(d->key, w->keys[key]));
  world_require(w, !d->before == !walk->before[key].is_present && !d->after == !walk->after[key].is_present);
  if (d->before) world_check_entry(w, d->before, key, &walk->before[key]);
  if (d->after) world_check_entry(w, d->after, key, &walk->after[key]);
  walk->key = key + 1;
  return --walk->left > 0;
}

void op_diff(world *w)
{
  pd_store *store = world_handle(w);
  world_point a, b;
  world_point_pick(w, &a);
  world_point_pick(w, &b);
  pd_error err = {0};
  diff_walk walk = {.w = w, .left = world_chance(w, 80) ? UINT64_MAX : 1 + world_random(w, 3)};
  if (a.code == PD_OK && b.code == PD_OK) {
    walk.before = model_entries(&w->model, a.commit);
    walk.after = model_entries(&w->model, b.commit);
  }
  pd_code code = pd_diff(store, a.at, b.at, visit_difference, &walk, &err);
  if (!walk.before) {
    world_require(w, code != PD_OK && (code == a.code || code == b.code));
    return;
  }
  world_expect(w, code, PD_OK, &err);
  if (walk.left) world_require(w, next_differing(&walk) == w->key_count);
}
