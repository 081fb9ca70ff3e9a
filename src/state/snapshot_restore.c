/*
 * snapshot_restore.c: state.snapshot.restore: back to the states that a snapshot names.
 *
 * The ref `main` of each store moves to its commit of the snapshot; what it pointed at becomes the ref before-restore/ID. The system store
 * stays as it is: approvals that were used would be good again, and messages that were read would come again.
 *
 * R1  Before anything moves, every commit is found. So what is missing is told while nothing is changed.
 * R2  A store moves by one record, on condition that its head is what before-restore/ID was made of: no commit of others is lost.
 * R3  All stores move in one joint commit (joint.h): killed or out of space at any moment, all are as before or all are restored. A home in
 *     memory has none: there, if a store cannot be moved, those before it are moved back.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/backup.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/run.h"
#include "state/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX 10000

/* One store of the plan. */
typedef struct step {
  pd_lease lease;
  pd_id target, former;
  char before[PD_REF_SIZE_MAX + 1]; /* the ref for what it was; "": it is at the target already */
  bool differs, is_moved;           /* differs: its head was not the target when the plan was made */
} step;

typedef struct plan {
  pd_home *home;
  pd_joint *joint; /* NULL: not yet, or a home in memory */
  size_t open_max; /* the leases of so many of the first steps stay open */
  step *steps;
  size_t count, capacity;
  char id[PD_SNAPSHOT_ID_SIZE];
} plan;

static void plan_done(plan *p)
{
  for (size_t i = 0; i < p->count; i++) pd_lease_close(&p->steps[i].lease);
  free(p->steps);
}

static void close_lease(const plan *p, step *s)
{
  if ((size_t)(s - p->steps) >= p->open_max) pd_lease_close(&s->lease);
}

/* ---- planning ---- */

static pd_code add_step(pd_frame *frame, plan *p, pd_json store, const char *only, pd_error *err)
{
  char name[PD_NAME_SIZE_MAX + 1], hex[PD_ID_HEX_SIZE];
  pd_commit commit;
  step s = {0};
  if (!pd_json_copy_text(pd_json_member(store, "name"), name, sizeof name) || strcmp(name, PD_STORE_SYSTEM) == 0 ||
      (*only && strcmp(name, only) != 0))
    return PD_OK;
  if (pd_backup_is_outside(frame->home, name)) { /* it cannot change at one moment with the others; write_outside names it */
    if (!*only) return PD_OK;
    return pd_error_named(err, PD_INVALID, "RestoreImpossible",
                          "the store of '%s' is placed outside of this home (`perdure agents` tells where)", name);
  }
  if (!pd_json_copy_text(pd_json_member(store, "commit"), hex, sizeof hex) || !pd_id_parse(hex, &s.target))
    return pd_error_named(err, PD_CORRUPT, "RestoreImpossible", "the snapshot %s does not name a state of the store '%s'", p->id, name);
  snprintf(s.lease.name, sizeof s.lease.name, "%s", name);
  TRY(pd_array_grow(&p->steps, p->count, &p->capacity, sizeof p->steps[0], "a restore", err));
  pd_lease_open(frame->home, &s.lease, false);
  pd_error why = s.lease.why;
  pd_ref ref;
  pd_code code = s.lease.store ? pd_resolve(s.lease.store, hex, &commit, &why) : why.code;
  if (code == PD_OK) code = pd_ref_get(s.lease.store, "main", &ref, &why);
  s.differs = code == PD_OK && !pd_id_equal(&ref.commit.id, &s.target);
  p->steps[p->count++] = s;
  close_lease(p, &p->steps[p->count - 1]);
  if (code) return pd_error_named(err, code, "RestoreImpossible", "the store '%s' cannot be restored: %.300s", name, why.message);
  return PD_OK;
}

static pd_code make_plan(pd_frame *frame, plan *p, pd_json snapshot, const char *only, pd_error *err)
{
  pd_json store;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(pd_json_member(snapshot, "state"), "stores"));
  while (pd_json_walk_next(&walk, NULL, &store)) TRY(add_step(frame, p, store, only, err));
  if (!p->count && *only) return pd_error_named(err, PD_NOT_FOUND, "RestoreImpossible", "the snapshot %s knows no agent '%s'", p->id, only);
  return PD_OK;
}

/* ---- moving ---- */

/* A ref for what is now the head: before-restore/ID, or that with a number if there are such refs from earlier restores. */
static pd_code keep_former(const plan *p, step *s, pd_store *store, const pd_note *note, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_code code = PD_EXISTS;
  for (unsigned number = 1; code == PD_EXISTS && number < NUMBER_MAX; number++) {
    if (number == 1)
      snprintf(s->before, sizeof s->before, "before-restore/%s", p->id);
    else
      snprintf(s->before, sizeof s->before, "before-restore/%s-%u", p->id, number);
    code = pd_fork(store, s->before, pd_id_hex(&s->former, hex), note, NULL, err);
  }
  return code;
}

static pd_code move_to_target(const plan *p, step *s, pd_store *store, const pd_note *note, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_code code = PD_CONFLICT;
  while (code == PD_CONFLICT) { /* in a joint commit the first write keeps others out, so the second try holds */
    pd_ref ref;
    pd_note bound = *note;
    if (*s->before) (void)!pd_ref_delete(store, s->before, note, NULL); /* of the try before: the head has moved on */
    s->before[0] = 0;
    TRY(pd_ref_get(store, "main", &ref, err));
    if (pd_id_equal(&ref.commit.id, &s->target)) return PD_OK;
    s->former = ref.commit.id;
    TRY(pd_history_leave(store, err));
    TRY(keep_former(p, s, store, note, err));
    bound.expect_head = &s->former;
    code = pd_reset(store, "main", pd_id_hex(&s->target, hex), &bound, NULL, err);
  }
  s->is_moved = code == PD_OK;
  return code;
}

static pd_code impossible(const step *s, const pd_error *why, pd_error *err)
{
  return pd_error_named(err, why->code, "RestoreImpossible", "the store '%s' cannot be restored: %.300s", s->lease.name, why->message);
}

static pd_code move_jointly(const plan *p, step *s, const pd_note *note, pd_error *err)
{
  CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
  pd_error why = {0};
  if (pd_backup_handle_join(p->home, p->joint, s->lease.name, &handle, &why)) return impossible(s, &why, err);
  TRY(move_to_target(p, s, handle.store, note, err));
  return pd_backup_handle_close(&handle, err);
}

static pd_code move_store(const plan *p, step *s, const pd_note *note, pd_error *err)
{
  if (p->joint) return move_jointly(p, s, note, err);
  pd_lease_open(p->home, &s->lease, false);
  if (!s->lease.store) return impossible(s, &s->lease.why, err);
  pd_code code = move_to_target(p, s, s->lease.store, note, err);
  close_lease(p, s);
  return code;
}

static void move_step_back(const step *s, const pd_note *note)
{
  char hex[PD_ID_HEX_SIZE];
  pd_note bound = *note;
  bound.expect_head = &s->target;
  if (s->is_moved && pd_reset(s->lease.store, "main", pd_id_hex(&s->former, hex), &bound, NULL, NULL)) return;
  if (*s->before) (void)!pd_ref_delete(s->lease.store, s->before, note, NULL);
}

static void move_back(plan *p, const pd_note *note)
{
  for (size_t i = 0; i < p->count; i++) {
    step *s = &p->steps[i];
    if (!s->is_moved && !*s->before) continue;
    pd_lease_open(p->home, &s->lease, false);
    if (s->lease.store) move_step_back(s, note);
    close_lease(p, s);
  }
}

/* ---- all of them ---- */

static pd_code begin_joint(plan *p, pd_error *err)
{
  pd_error why = {0};
  const char **names = calloc(p->count + 1, sizeof *names);
  if (!names) return pd_error_memory(err, "a restore");
  for (size_t i = 0; i < p->count; i++) names[i] = p->steps[i].lease.name;
  pd_code code = pd_joint_begin(p->home->uri, names, p->count, "snapshot restore", &p->joint, &why);
  free(names);
  if (code == PD_UNSUPPORTED) return PD_OK; /* R3 */
  if (code && err) *err = why;
  return code;
}

static pd_code move_all(plan *p, const pd_note *note, pd_error *err)
{
  for (size_t i = 0; i < p->count; i++) pd_lease_close(&p->steps[i].lease); /* who closes a store may write to it */
  pd_code code = begin_joint(p, err);
  for (size_t i = 0; !code && i < p->count; i++) code = move_store(p, &p->steps[i], note, err);
  if (!code && p->joint) return pd_joint_commit(p->joint, err);
  if (code && !p->joint) move_back(p, note);
  pd_joint_abort(p->joint);
  return code;
}

/* ---- the capability ---- */

static void write_stores(pd_json_writer *w, const plan *p, bool is_dry)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_key(w, "stores");
  pd_json_open(w, '[');
  for (size_t i = 0; i < p->count; i++) {
    const step *s = &p->steps[i];
    pd_json_open(w, '{');
    pd_json_put_text(w, "name", s->lease.name);
    pd_json_put_text(w, "commit", pd_id_hex(&s->target, hex));
    pd_json_put_bool(w, "changed", is_dry ? s->differs : s->is_moved);
    pd_json_key(w, "before");
    if (*s->before)
      pd_json_text(w, pd_text(s->before));
    else
      pd_json_null(w);
    pd_json_close(w, '}');
  }
  pd_json_close(w, ']');
}

/* Who is in the snapshot and was left as it is; nothing if there is none. */
static void write_outside(pd_frame *frame, pd_json snapshot)
{
  pd_json store;
  char name[PD_NAME_SIZE_MAX + 1];
  bool is_open = false;
  pd_json_writer *w = &frame->out;
  pd_json_walk walk = pd_json_walk_begin(pd_json_member(pd_json_member(snapshot, "state"), "stores"));
  while (pd_json_walk_next(&walk, NULL, &store)) {
    if (!pd_json_copy_text(pd_json_member(store, "name"), name, sizeof name) || !pd_backup_is_outside(frame->home, name)) continue;
    if (!is_open) pd_json_key(w, "outside"), pd_json_open(w, '[');
    is_open = true;
    pd_json_text(w, pd_text(name));
  }
  if (is_open) pd_json_close(w, ']');
}

/* The snapshot that was approved, and no other that took its name; of one store, where it goes to. */
static void note_targets(pd_frame *frame, const plan *p, pd_bytes text)
{
  pd_id hash = pd_sha256(text);
  pd_fact_id(frame, "snapshot_hash", &hash);
  if (p->count == 1) pd_fact_id(frame, "commit", &p->steps[0].target);
}

pd_code pd_cap_state_snapshot_restore(pd_frame *frame, pd_error *err)
{
  CLEANUP(plan_done) plan p = {.home = frame->home, .open_max = pd_leases_open_max(frame->home)};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json snapshot;
  char only[PD_NAME_SIZE_MAX + 1] = "";
  bool is_dry = pd_in_bool(frame, "dry_run", false);
  pd_note note = {.author = *frame->agent ? frame->agent : "operator", .run = frame->ctx->session, .reason = frame->capability->name};
  pd_in_string(frame, "agent", only, sizeof only);
  TRY(pd_snapshot_load(frame, p.id, &text, &snapshot, err));
  TRY(make_plan(frame, &p, snapshot, only, err));
  note_targets(frame, &p, pd_buf_bytes(&text));
  TRY(pd_brink(frame, err));
  if (!is_dry) TRY(move_all(&p, &note, err));
  pd_json_put_bool(&frame->out, "restored", !is_dry);
  pd_json_put_text(&frame->out, "snapshot_id", p.id);
  write_stores(&frame->out, &p, is_dry);
  if (!*only) write_outside(frame, snapshot);
  return PD_OK;
}
