/* model_write.c: puts, deletes, invocations and moves of refs, with right and wrong conditions. */
#include "engine/model_ops.h"

#include <stdlib.h>

#define EDITS_MAX 6

/* Who and why, under which condition; and the model's side of it. */
typedef struct writing {
  pd_note note;
  model_record about;
  int ref;
  pd_id head; /* where expect_head points to */
  pd_code code;
} writing;

static void pick_writing(world *w, writing *out)
{
  static const char *const authors[] = {NULL, "alice",
                                        "b\xC3\xB6"
                                        "b"};
  static const char *const reasons[] = {NULL, "because", ""};
  int ref = world_ref_pick(w);
  *out = (writing){.ref = ref};
  out->note.ref = ref == 0 && world_chance(w, 50) ? NULL : world_ref_name(ref);
  out->note.author = authors[world_random(w, 3)];
  out->note.reason = reasons[world_random(w, 3)];
  out->about = (model_record){.time_ms = world_now_ms(), .author = out->note.author, .reason = out->note.reason};
  const model_ref *r = &w->model.refs[ref];
  if (!r->exists) {
    out->code = PD_NOT_FOUND;
    return;
  }
  if (!world_chance(w, 15)) return;
  uint32_t head = world_chance(w, 70) ? r->head : (uint32_t)world_random(w, w->model.commit_count);
  out->head = w->model.commits[head].id;
  out->note.expect_head = &out->head;
  if (head != r->head) out->code = PD_CONFLICT;
}

static void accept(world *w, model_fault fault)
{
  if (fault) world_disagree(w, "%s", fault);
}

static void check_ack(world *w, const pd_ack *ack, uint64_t version)
{
  world_require(w, ack->version == version);
  world_require(w, ack->durability == (w->flush_ms ? PD_BUFFERED : PD_SYNCED));
}

/* The versions that the store gave to what record `seq` wrote (M4). */
static void learn_versions(world *w, pd_store *store, int ref, model_entry *next, uint64_t seq)
{
  for (size_t key = 0; key < w->key_count; key++) {
    pd_entry entry;
    pd_error err = {0};
    if (!next[key].is_present || next[key].seq != seq) continue;
    world_expect(w, pd_get(store, world_ref_name(ref), w->keys[key], NULL, &entry, &err), PD_OK, &err);
    accept(w, model_version_fault(&w->model, ref, key, entry.version, seq));
    next[key].version = (uint32_t)entry.version;
  }
}

static uint64_t pick_condition(world *w, const model_entry *entry, bool *out_holds)
{
  *out_holds = true;
  if (world_chance(w, 55)) return PD_ANY_VERSION;
  if (world_chance(w, 65)) return entry->is_present ? entry->version : 0;
  uint64_t wrong = world_random(w, entry->version + 3);
  *out_holds = wrong == (entry->is_present ? entry->version : 0);
  return wrong;
}

static void count_code(world *w, pd_code code)
{
  w->commits += code == PD_OK;
  w->conflicts += code == PD_CONFLICT;
  w->misses += code == PD_NOT_FOUND;
}

void op_put(world *w)
{
  pd_store *store = world_handle(w);
  writing wr;
  pick_writing(w, &wr);
  size_t key = world_key_pick(w);
  uint32_t value = world_value_pick(w);
  bool holds;
  model_entry old = model_entries(&w->model, w->model.refs[wr.ref].head)[key];
  uint64_t condition = pick_condition(w, &old, &holds);
  bool is_head_right = wr.code == PD_OK;
  if (is_head_right && !holds) wr.code = PD_CONFLICT;

  model_entry *next = model_copy(&w->model, w->model.refs[wr.ref].head);
  model_entry_put(&next[key], value, 0, world_now_ms());
  if (wr.code == PD_OK && model_has_twin(&w->model, wr.ref, next)) { /* see model_has_twin */
    value = ++w->value_count;
    next[key].value = value;
  }
  pd_ack ack = {0};
  pd_error err = {0};
  pd_bytes bytes = world_value(w, value);
  pd_code code = condition == PD_ANY_VERSION && world_chance(w, 80)
                   ? pd_put(store, w->keys[key], bytes, &wr.note, &ack, &err)
                   : pd_put_if(store, w->keys[key], bytes, condition, &wr.note, &ack, &err);
  world_expect(w, code, wr.code, &err);
  count_code(w, code);
  if (code == PD_CONFLICT && is_head_right) {
    world_require(w, err.expected == condition);
    world_require(w, err.actual == (old.is_present ? old.version : 0));
  }
  if (code != PD_OK) {
    free(next);
    return;
  }
  next[key].seq = ack.seq;
  learn_versions(w, store, wr.ref, next, ack.seq);
  check_ack(w, &ack, next[key].version);
  world_require(w, ack.previous_version == old.version);
  accept(w, model_commit_add(&w->model, wr.ref, next, &ack, &wr.about));
}

void op_delete(world *w)
{
  pd_store *store = world_handle(w);
  writing wr;
  pick_writing(w, &wr);
  size_t key = world_key_pick(w);
  bool holds;
  const model_entry *old = &model_entries(&w->model, w->model.refs[wr.ref].head)[key];
  uint64_t condition = pick_condition(w, old, &holds);
  if (wr.code == PD_OK && old->is_present && !holds) wr.code = PD_CONFLICT;
  if (wr.code == PD_OK && !old->is_present) {
    wr.code = PD_NOT_FOUND;
    condition = PD_ANY_VERSION;
  }
  model_entry *next = model_copy(&w->model, w->model.refs[wr.ref].head);
  model_entry_delete(&next[key]);
  pd_ack ack = {0};
  pd_error err = {0};
  pd_code code = pd_delete(store, w->keys[key], condition, &wr.note, &ack, &err);
  world_expect(w, code, wr.code, &err);
  count_code(w, code);
  if (code != PD_OK) {
    free(next);
    return;
  }
  check_ack(w, &ack, 0);
  accept(w, model_commit_add(&w->model, wr.ref, next, &ack, &wr.about));
}

/* ---- invocations ---- */

typedef struct staged {
  size_t key;
  bool is_delete;
  uint32_t value;
  uint64_t condition;
} staged;

typedef struct invocation {
  writing wr;
  pd_store *store;
  pd_edit *edit;
  staged edits[EDITS_MAX];
  size_t count;
  uint32_t base;     /* the head at its begin */
  model_entry *view; /* what it should see */
} invocation;

/* One edit on top of `entries`, which began as `base`: what it makes of a key depends on the base alone, however often it is edited. */
static bool apply_edit(const staged *e, const model_entry *base, model_entry *entries)
{
  model_entry *entry = &entries[e->key];
  uint64_t version = entry->is_present ? entry->version : 0;
  if (e->condition != PD_ANY_VERSION && e->condition != version) return false;
  if (e->is_delete) {
    model_entry_delete(entry);
  } else {
    *entry = base[e->key];
    model_entry_put(entry, e->value, 0, world_now_ms());
  }
  return true;
}

static void stage_one(world *w, invocation *in)
{
  staged e = {.key = world_key_pick(w), .is_delete = world_chance(w, 30), .condition = PD_ANY_VERSION};
  if (in->count && world_chance(w, 15)) e.key = in->edits[world_random(w, in->count)].key;
  bool holds;
  e.condition = pick_condition(w, &in->view[e.key], &holds);
  const model_entry *newest = &model_entries(&w->model, w->model.refs[in->wr.ref].head)[e.key];
  /* Before it refuses, the store looks at the newest: where that is as expected, it may go either way. */
  if (!holds && e.condition == (newest->is_present ? newest->version : 0)) return;
  pd_error err = {0};
  pd_code code;
  if (e.is_delete) {
    code = pd_edit_delete(in->edit, w->keys[e.key], e.condition, &err);
  } else {
    e.value = ++w->value_count;
    code = pd_edit_put(in->edit, w->keys[e.key], world_value(w, e.value), e.condition, &err);
  }
  world_expect(w, code, holds ? PD_OK : PD_CONFLICT, &err);
  if (!holds) return;
  world_require(w, apply_edit(&e, model_entries(&w->model, in->base), in->view));
  in->edits[in->count++] = e;
}

static void read_own(world *w, invocation *in)
{
  size_t key = in->count && world_chance(w, 70) ? in->edits[world_random(w, in->count)].key : world_key_pick(w);
  const model_entry *expected = &in->view[key];
  pd_buf value = {0};
  pd_entry entry;
  pd_error err = {0};
  pd_code code = pd_edit_get(in->edit, w->keys[key], &value, &entry, &err);
  world_expect(w, code, expected->is_present ? PD_OK : PD_NOT_FOUND, &err);
  if (code == PD_OK) {
    world_require(w, entry.version == expected->version && entry.seq == expected->seq);
    world_check_value(w, (pd_bytes){value.data, value.size}, expected);
  }
  pd_buf_done(&value);
}

static void list_own(world *w, invocation *in)
{
  pd_iter *iter = NULL;
  pd_error err = {0};
  pd_entry entry;
  pd_bytes value;
  world_expect(w, pd_edit_iter(in->edit, NULL, &iter, &err), PD_OK, &err);
  for (size_t key = 0; key < w->key_count; key++) {
    if (!in->view[key].is_present) continue;
    world_expect(w, pd_iter_next(iter, &entry, &value, &err), PD_OK, &err);
    world_require(w, entry.version == in->view[key].version && entry.key.size == w->keys[key].size);
    world_require(w, memcmp(entry.key.data, w->keys[key].data, entry.key.size) == 0);
    world_check_value(w, value, &in->view[key]);
  }
  world_expect(w, pd_iter_next(iter, &entry, &value, &err), PD_NOT_FOUND, &err);
  pd_iter_close(iter);
}

/* Somebody else moves the ref while the invocation is open. */
static void interfere(world *w, invocation *in)
{
  size_t key = in->count && world_chance(w, 60) ? in->edits[world_random(w, in->count)].key : world_key_pick(w);
  uint32_t value = ++w->value_count;
  pd_store *store = w->flush_ms ? in->store : w->handles[world_random(w, WORLD_HANDLES)];
  pd_note note = {.ref = world_ref_name(in->wr.ref)};
  model_record about = {.time_ms = world_now_ms()};
  pd_ack ack = {0};
  pd_error err = {0};
  world_expect(w, pd_put(store, w->keys[key], world_value(w, value), &note, &ack, &err), PD_OK, &err);
  model_entry *next = model_copy(&w->model, w->model.refs[in->wr.ref].head);
  model_entry_put(&next[key], value, ack.seq, world_now_ms());
  learn_versions(w, store, in->wr.ref, next, ack.seq);
  accept(w, model_commit_add(&w->model, in->wr.ref, next, &ack, &about));
}

/* The edits, applied to the head as it is now; NULL if a condition does not hold there. */
static model_entry *apply_to_head(world *w, const invocation *in)
{
  const model_entry *base = model_entries(&w->model, w->model.refs[in->wr.ref].head);
  model_entry *next = model_copy(&w->model, w->model.refs[in->wr.ref].head);
  for (size_t i = 0; i < in->count; i++) {
    if (apply_edit(&in->edits[i], base, next)) continue;
    free(next);
    return NULL;
  }
  return next;
}

static void commit_invocation(world *w, invocation *in)
{
  uint32_t head = w->model.refs[in->wr.ref].head;
  model_entry *next = apply_to_head(w, in);
  pd_code expected = next ? PD_OK : PD_CONFLICT;
  if (in->wr.note.expect_head && !pd_id_equal(&in->wr.head, &w->model.commits[head].id)) expected = PD_CONFLICT;
  if (next && expected == PD_OK && model_has_twin(&w->model, in->wr.ref, next)) {
    free(next);
    pd_edit_abort(in->edit);
    return;
  }
  pd_ack ack = {0};
  pd_error err = {0};
  pd_code code = pd_edit_commit(in->edit, &ack, &err);
  world_expect(w, code, expected, &err);
  count_code(w, code);
  if (code != PD_OK) {
    free(next);
    pd_edit_abort(in->edit);
    return;
  }
  check_ack(w, &ack, 0);
  for (size_t i = 0; i < in->count; i++) /* a staged entry has record 0 until now */
    if (next[in->edits[i].key].is_present && next[in->edits[i].key].seq == 0) next[in->edits[i].key].seq = ack.seq;
  learn_versions(w, in->store, in->wr.ref, next, ack.seq);
  accept(w, model_commit_add(&w->model, in->wr.ref, next, &ack, &in->wr.about));
}

void op_edit(world *w)
{
  invocation in = {.store = world_handle(w)};
  pick_writing(w, &in.wr);
  in.wr.code = w->model.refs[in.wr.ref].exists ? PD_OK : PD_NOT_FOUND; /* expect_head counts at the commit */
  pd_error err = {0};
  pd_code code = pd_edit_begin(in.store, &in.wr.note, &in.edit, &err);
  if (in.wr.note.expect_head && code == PD_CONFLICT) {
    world_require(w, !pd_id_equal(&in.wr.head, &w->model.commits[w->model.refs[in.wr.ref].head].id));
    return; /* it may be found out early */
  }
  world_expect(w, code, in.wr.code, &err);
  if (code != PD_OK) return;
  in.base = w->model.refs[in.wr.ref].head;
  in.view = model_copy(&w->model, in.base);
  size_t count = world_random(w, EDITS_MAX + 1);
  for (size_t i = 0; i < count; i++) {
    stage_one(w, &in);
    if (world_chance(w, 40)) read_own(w, &in);
    if (world_chance(w, 4)) list_own(w, &in);
    if (world_chance(w, 6)) interfere(w, &in);
  }
  if (world_chance(w, 30))
    pd_edit_abort(in.edit);
  else
    commit_invocation(w, &in);
  free(in.view);
}

void fill_store(world *w)
{
  pd_edit *edit = NULL;
  pd_error err = {0};
  pd_ack ack = {0};
  model_record about = {.time_ms = world_now_ms()};
  model_entry *next = model_copy(&w->model, w->model.refs[0].head);
  w->doing = "fill";
  world_expect(w, pd_edit_begin(w->handles[w->current], NULL, &edit, &err), PD_OK, &err);
  for (size_t key = 0; key < w->key_count; key++) {
    if (world_chance(w, 33)) continue;
    uint32_t value = ++w->value_count;
    world_expect(w, pd_edit_put(edit, w->keys[key], world_value(w, value), 0, &err), PD_OK, &err);
    model_entry_put(&next[key], value, 0, about.time_ms);
  }
  world_expect(w, pd_edit_commit(edit, &ack, &err), PD_OK, &err);
  for (size_t key = 0; key < w->key_count; key++)
    if (next[key].is_present) next[key].seq = ack.seq;
  learn_versions(w, w->handles[w->current], 0, next, ack.seq);
  accept(w, model_commit_add(&w->model, 0, next, &ack, &about));
}

/* ---- refs ---- */

void op_fork(world *w)
{
  pd_store *store = world_handle(w);
  int ref = (int)world_random(w, MODEL_REFS);
  world_point p;
  world_point_pick(w, &p);
  pd_note note = {.author = "forker"};
  model_record about = {.kind = PD_RECORD_FORK, .time_ms = world_now_ms(), .author = "forker"};
  pd_ack ack = {0};
  pd_error err = {0};
  pd_code code = pd_fork(store, world_ref_name(ref), p.at, &note, &ack, &err);
  if (p.code != PD_OK && w->model.refs[ref].exists) {
    world_require(w, code == p.code || code == PD_EXISTS);
    return;
  }
  world_expect(w, code, p.code != PD_OK ? p.code : w->model.refs[ref].exists ? PD_EXISTS : PD_OK, &err);
  if (code == PD_OK) accept(w, model_ref_move(&w->model, ref, p.commit, &ack, &about));
}

void op_reset(world *w)
{
  pd_store *store = world_handle(w);
  writing wr;
  pick_writing(w, &wr);
  world_point p;
  world_point_pick(w, &p);
  wr.about.kind = PD_RECORD_RESET;
  pd_ack ack = {0};
  pd_error err = {0};
  pd_code code = pd_reset(store, world_ref_name(wr.ref), p.at, &wr.note, &ack, &err);
  if (p.code != PD_OK && wr.code != PD_OK) {
    world_require(w, code == p.code || code == wr.code);
    return;
  }
  world_expect(w, code, p.code != PD_OK ? p.code : wr.code, &err);
  count_code(w, code);
  if (code == PD_OK) accept(w, model_ref_move(&w->model, wr.ref, p.commit, &ack, &wr.about));
}

void op_ref_delete(world *w)
{
  pd_store *store = world_handle(w);
  int ref = (int)world_random(w, MODEL_REFS);
  pd_error err = {0};
  pd_code code = pd_ref_delete(store, world_ref_name(ref), NULL, &err);
  world_expect(w, code, ref == 0 ? PD_INVALID : w->model.refs[ref].exists ? PD_OK : PD_NOT_FOUND, &err);
  if (code == PD_OK) model_ref_delete(&w->model, ref);
}

void op_undo(world *w)
{
  pd_store *store = world_handle(w);
  writing wr;
  pick_writing(w, &wr);
  uint64_t count = 1 + world_random(w, world_chance(w, 80) ? 3 : 20);
  wr.about.kind = PD_RECORD_UNDO;
  uint32_t to = MODEL_NONE;
  if (wr.code == PD_OK) to = model_back(&w->model, w->model.refs[wr.ref].head, count);
  pd_ack ack = {0};
  pd_error err = {0};
  pd_code code = pd_undo(store, count, &wr.note, &ack, &err);
  if (wr.code == PD_CONFLICT && code == PD_NOT_FOUND) {
    world_require(w, model_back(&w->model, w->model.refs[wr.ref].head, count) == MODEL_NONE);
    return;
  }
  world_expect(w, code, wr.code != PD_OK ? wr.code : to == MODEL_NONE ? PD_NOT_FOUND : PD_OK, &err);
  count_code(w, code);
  if (code == PD_OK) accept(w, model_ref_move(&w->model, wr.ref, to, &ack, &wr.about));
}

void op_redo(world *w)
{
  pd_store *store = world_handle(w);
  writing wr;
  pick_writing(w, &wr);
  uint64_t count = 1 + world_random(w, 4);
  wr.about.kind = PD_RECORD_REDO;
  const model_ref *r = &w->model.refs[wr.ref];
  uint32_t to = r->exists && r->redo_top != MODEL_NONE ? model_forward(&w->model, r->head, r->redo_top, count) : MODEL_NONE;
  pd_ack ack = {0};
  pd_error err = {0};
  pd_code code = pd_redo(store, count, &wr.note, &ack, &err);
  if (wr.code == PD_CONFLICT && to == MODEL_NONE) {
    world_require(w, code == PD_CONFLICT || code == PD_NOT_FOUND);
    return;
  }
  world_expect(w, code, wr.code != PD_OK ? wr.code : to == MODEL_NONE ? PD_NOT_FOUND : PD_OK, &err);
  count_code(w, code);
  if (code == PD_OK) accept(w, model_ref_move(&w->model, wr.ref, to, &ack, &wr.about));
}

/* ---- what must be refused, and leave nothing behind ---- */

void op_bad_write(world *w)
{
  pd_store *store = world_handle(w);
  static char long_key[PD_KEY_SIZE_MAX + 1];
  memset(long_key, 'k', sizeof long_key);
  const pd_bytes keys[] = {{NULL, 0}, {"a\0b", 3}, {"\xFF", 1}, {"\xC0\x80", 2}, {long_key, sizeof long_key}};
  static const pd_code codes[] = {PD_INVALID, PD_INVALID, PD_INVALID, PD_INVALID, PD_LIMIT};
  size_t i = world_random(w, 5);
  pd_ack ack;
  pd_error err = {0};
  world_expect(w, pd_put(store, keys[i], pd_text("v"), NULL, &ack, &err), codes[i], &err);
  world_expect(w, pd_delete(store, keys[i], PD_ANY_VERSION, NULL, &ack, &err), codes[i], &err);
  static const char *const names[] = {"", "-x", "/x", "a b", "a~1", "a@b", "a\n", "#1"};
  world_expect(w, pd_fork(store, names[world_random(w, 8)], NULL, NULL, &ack, &err), PD_INVALID, &err);
}
