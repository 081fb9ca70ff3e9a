/* store_write.c: store.commit, move, mark: what changes a store, by the operator's hand (store_call.h). */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/history.h"
#include "state/run.h"
#include "state/store_call.h"
#include "state/threads.h"

#include <stdio.h>

/* ---- commit ---- */

typedef struct store_change {
  pd_buf key, value;
  bool is_delete;
  uint64_t expect;
} store_change;

static void change_done(store_change *change)
{
  pd_buf_done(&change->key);
  pd_buf_done(&change->value);
}

static pd_code bad_change(const pd_frame *frame, size_t index, const char *what, pd_error *err)
{
  return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'changes', item %zu: %s", frame->capability->name, index, what);
}

static pd_code take_change(const pd_frame *frame, pd_json item, size_t index, store_change *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_field fields[] = {{"key", {{0}, 0}}, {"base64", {{0}, 0}}, {"delete", {{0}, 0}}, {"expected_version", {{0}, 0}}};
  pd_error why = {0};
  if (pd_json_fields(item, fields, COUNT_OF(fields), &why)) return bad_change(frame, index, why.message, err);
  pd_json value = fields[1].value, deletes = fields[2].value, expected = fields[3].value;
  pd_buf_clear(&out->key);
  pd_buf_clear(&out->value);
  out->expect = PD_ANY_VERSION;
  if (pd_json_decode(fields[0].value, &out->key, NULL)) return bad_change(frame, index, "'key' must be a text", err);
  TRY(pd_key_check(pd_buf_bytes(&out->key), err));
  out->is_delete = deletes.kind == PD_JSON_BOOL && pd_json_true(deletes);
  if (out->is_delete == (value.kind != PD_JSON_NONE)) return bad_change(frame, index, "give 'base64', or 'delete' as true", err);
  if (expected.kind != PD_JSON_NONE && !pd_json_u64(expected, &out->expect))
    return bad_change(frame, index, "'expected_version' must be a version: 0 or more", err);
  if (out->is_delete) return PD_OK;
  if (pd_json_decode(value, &text, NULL) || pd_base64_decode(pd_buf_bytes(&text), &out->value, &why))
    return bad_change(frame, index, "'base64' is not base64", err);
  return PD_OK;
}

static void edit_abort(pd_edit **edit)
{
  pd_edit_abort(*edit);
}

/* All of them or none: a key to delete that is absent stops it before anything is written. */
static pd_code stage(pd_edit *edit, const store_change *change, pd_error *err)
{
  pd_bytes key = pd_buf_bytes(&change->key);
  if (!change->is_delete) return pd_edit_put(edit, key, pd_buf_bytes(&change->value), change->expect, err);
  TRY(pd_edit_get(edit, key, NULL, NULL, err));
  return pd_edit_delete(edit, key, change->expect, err);
}

static pd_code commit_many(pd_frame *frame, pd_store *store, const pd_note *note, pd_ack *out, pd_error *err)
{
  CLEANUP(edit_abort) pd_edit *edit = NULL;
  CLEANUP(change_done) store_change change = {0};
  pd_json item;
  size_t index = 0;
  TRY(pd_edit_begin(store, note, &edit, err));
  for (pd_json_walk walk = pd_json_walk_begin(pd_in(frame, "changes")); pd_json_walk_next(&walk, NULL, &item); index++) {
    TRY(take_change(frame, item, index, &change, err));
    TRY(stage(edit, &change, err));
  }
  TRY(pd_edit_commit(edit, out, err));
  edit = NULL;
  return PD_OK;
}

static pd_code commit_one(pd_store *store, const store_change *change, const pd_note *note, pd_ack *out, pd_error *err)
{
  pd_bytes key = pd_buf_bytes(&change->key);
  if (change->is_delete) return pd_delete(store, key, change->expect, note, out, err);
  return pd_put_if(store, key, pd_buf_bytes(&change->value), change->expect, note, out, err);
}

static size_t count_changes(const pd_frame *frame, bool *out_deletes)
{
  pd_json item;
  size_t count = 0;
  *out_deletes = false;
  for (pd_json_walk walk = pd_json_walk_begin(pd_in(frame, "changes")); pd_json_walk_next(&walk, NULL, &item); count++)
    *out_deletes |= pd_json_member(item, "delete").kind == PD_JSON_BOOL;
  return count;
}

pd_code pd_cap_store_commit(pd_frame *frame, pd_error *err)
{
  CLEANUP(change_done) store_change change = {0};
  bool has_delete, has_ref = pd_in_text(frame, "ref").size > 0;
  size_t count = count_changes(frame, &has_delete);
  pd_json_walk walk = pd_json_walk_begin(pd_in(frame, "changes"));
  pd_store_note n;
  pd_store *store;
  pd_json item;
  pd_ack ack;
  if (pd_json_walk_next(&walk, NULL, &item)) TRY(take_change(frame, item, 0, &change, err)); /* before a store is made for it */
  TRY(pd_store_open_for(frame, has_ref || has_delete ? PD_STORE_WRITE : PD_STORE_MAKE, &store, err));
  TRY(pd_store_take_note(frame, store, &n, err));
  if (has_delete) TRY(pd_history_leave(store, err));
  TRY(count == 1 ? commit_one(store, &change, &n.note, &ack, err) : commit_many(frame, store, &n.note, &ack, err));
  pd_out_ack(frame, n.ref, &ack);
  return frame->out.code;
}

/* ---- move ---- */

typedef struct store_move {
  pd_frame *frame;
  pd_store *store;
  pd_store_note n;
  uint64_t count;
  bool is_made; /* the store was not there */
  char to[PD_STORE_AT_SIZE], name[PD_REF_SIZE_MAX + 1];
  pd_ack ack;
} store_move;

static pd_code do_undo(store_move *m, pd_error *err)
{
  return pd_undo(m->store, m->count, &m->n.note, &m->ack, err);
}

static pd_code do_redo(store_move *m, pd_error *err)
{
  return pd_redo(m->store, m->count, &m->n.note, &m->ack, err);
}

static pd_code do_reset(store_move *m, pd_error *err)
{
  return pd_reset(m->store, m->n.ref, m->to, &m->n.note, &m->ack, err);
}

static pd_code do_fork(store_move *m, pd_error *err)
{
  m->n.note.ref = NULL;
  return pd_fork(m->store, m->name, m->to, &m->n.note, &m->ack, err);
}

static pd_code do_init(store_move *m, pd_error *err)
{
  pd_ref ref;
  TRY(pd_ref_get(m->store, m->n.ref, &ref, err));
  m->ack = (pd_ack){.commit = ref.commit.id, .tree = ref.commit.tree, .seq = ref.commit.seq};
  pd_json_put_bool(&m->frame->out, "created", m->is_made);
  return PD_OK;
}

static pd_code do_switch(store_move *m, pd_error *err)
{
  pd_ref ref;
  m->n.note.ref = NULL;
  TRY(pd_switch(m->store, m->name, &m->n.note, err));
  TRY(pd_ref_get(m->store, m->name, &ref, err));
  m->ack = (pd_ack){.commit = ref.commit.id, .tree = ref.commit.tree, .seq = ref.commit.seq};
  return PD_OK;
}

static pd_code do_delete(store_move *m, pd_error *err)
{
  pd_ref ref;
  m->n.note.ref = NULL;
  TRY(pd_ref_get(m->store, m->name, &ref, err));
  TRY(pd_ref_delete(m->store, m->name, &m->n.note, err));
  m->ack = (pd_ack){.commit = ref.commit.id, .tree = ref.commit.tree, .seq = ref.commit.seq};
  return PD_OK;
}

static pd_code do_forward(store_move *m, pd_error *err)
{
  pd_ref ref;
  bool has_moved;
  m->n.note.ref = NULL;
  TRY(pd_forward(m->store, m->name, m->to, &m->n.note, &has_moved, err));
  TRY(pd_ref_get(m->store, m->name, &ref, err));
  m->ack = (pd_ack){.commit = ref.commit.id, .tree = ref.commit.tree, .seq = ref.commit.seq};
  pd_json_put_bool(&m->frame->out, "moved", has_moved);
  return PD_OK;
}

static const struct {
  const char *name;
  pd_code (*run)(store_move *, pd_error *);
  bool leaves, is_named; /* is_named: the ref is the input `name`, not the one that is worked on */
} moves[] = {
  {"undo", do_undo, true, false},  {"redo", do_redo, true, false},       {"reset", do_reset, true, false},
  {"fork", do_fork, false, true},  {"switch", do_switch, false, true},   {"delete", do_delete, true, true},
  {"init", do_init, false, false}, {"forward", do_forward, false, true},
};

pd_code pd_cap_store_move(pd_frame *frame, pd_error *err)
{
  store_move m = {.frame = frame, .count = (uint64_t)pd_in_int(frame, "count", 1)};
  size_t i = 0;
  while (!pd_json_is(pd_in(frame, "how"), moves[i].name)) i++; /* the schema knows them */
  bool has_name = pd_in_string(frame, "name", m.name, sizeof m.name), makes = moves[i].run == do_fork && !pd_in_text(frame, "to").size;
  if (moves[i].is_named && !has_name)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'name' is missing", frame->capability->name);
  if (moves[i].run == do_init) {
    pd_code code = pd_store_open_for(frame, PD_STORE_READ, &m.store, err);
    if (code && code != PD_NOT_FOUND) return code;
    makes = m.is_made = code == PD_NOT_FOUND;
  }
  TRY(pd_store_open_for(frame, makes ? PD_STORE_MAKE : PD_STORE_WRITE, &m.store, err));
  if (moves[i].leaves) TRY(pd_history_leave(m.store, err));
  TRY(pd_store_take_note(frame, m.store, &m.n, err));
  TRY(pd_store_at(frame, m.store, "to", m.to, err));
  TRY(moves[i].run(&m, err));
  pd_out_ack(frame, moves[i].is_named ? m.name : m.n.ref, &m.ack);
  return frame->out.code;
}

/* ---- mark: tags and pins ---- */

static pd_code mark_tag(pd_frame *frame, pd_store *store, const char *at, const pd_note *note, pd_commit *out, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1] = "";
  if (!pd_in_string(frame, "name", name, sizeof name))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'name' is missing", frame->capability->name);
  if (pd_in_bool(frame, "delete", false)) return pd_tag_delete(store, name, note, err);
  return pd_tag_set(store, name, at, pd_in_bool(frame, "force", false), note, out, err);
}

pd_code pd_cap_store_mark(pd_frame *frame, pd_error *err)
{
  char at[PD_STORE_AT_SIZE];
  bool is_delete = pd_in_bool(frame, "delete", false);
  pd_commit commit = {0};
  pd_store_note n;
  pd_store *store;
  TRY(pd_store_open_for(frame, PD_STORE_WRITE, &store, err));
  TRY(pd_store_take_note(frame, store, &n, err));
  TRY(pd_store_at(frame, store, "at", at, err));
  n.note.ref = NULL;
  if (pd_json_is(pd_in(frame, "kind"), "tag"))
    TRY(mark_tag(frame, store, at, &n.note, &commit, err));
  else
    TRY(is_delete ? pd_pin_delete(store, at, &n.note, err) : pd_pin_set(store, at, &n.note, &commit, err));
  if (is_delete)
    pd_json_put_bool(&frame->out, "deleted", true);
  else
    pd_out_point(frame, "marked", &commit);
  return frame->out.code;
}
