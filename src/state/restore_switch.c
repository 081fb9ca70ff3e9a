/* restore_switch.c: the second half of a restore: all refs of all stores move at one moment (R2 to R6 of restore.h). */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/names.h"
#include "base/sha256.h"
#include "state/history.h"
#include "state/quota.h"
#include "state/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define PLAN_FILE "restore.json"
#define LOCK_FILE ".restore.lock" /* no store's name begins with a dot */
#define PLAN_SIZE_MAX ((size_t)64 << 20)
#define REASON "state.backup.restore"

static pd_code path_of(pd_home *home, const char *name, char out[PD_BACKUP_PATH_SIZE], pd_error *err)
{
  if (snprintf(out, PD_BACKUP_PATH_SIZE, "%s/%s", home->folder, name) < PD_BACKUP_PATH_SIZE) return PD_OK;
  return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", home->folder);
}

/* ---- refs of a store ---- */

/* Without the prefix. */
static void add_name(void *ctx, const pd_ref *ref)
{
  size_t prefix = sizeof PD_RESTORE_AS; /* its NUL stands for the slash */
  if (strncmp(ref->name, PD_RESTORE_AS "/", prefix) == 0) pd_names_add(ctx, ref->name + prefix);
}

static pd_code staged_refs(pd_store *store, pd_names *out, pd_error *err)
{
  TRY(pd_ref_list(store, add_name, out, err));
  return pd_names_check(out, "names of refs", err);
}

pd_code pd_restore_clean(pd_store *store, pd_error *err)
{
  char ref[2 * PD_REF_SIZE_MAX];
  CLEANUP(pd_names_done) pd_names staged = {0};
  pd_note note = {.reason = REASON};
  TRY(staged_refs(store, &staged, err));
  for (size_t i = 0; i < staged.count; i++) {
    snprintf(ref, sizeof ref, PD_RESTORE_AS "/%s", staged.items[i]);
    pd_code code = pd_ref_delete(store, ref, &note, err);
    if (code && code != PD_NOT_FOUND) return code;
  }
  return PD_OK;
}

/* ---- one ref ---- */

typedef struct search {
  const char *run;
  uint64_t seq;
  bool is_found;
} search;

static bool look_for_run(void *ctx, const pd_record *record)
{
  search *s = ctx;
  if (record->seq <= s->seq) return false;
  s->is_found = strcmp(record->run, s->run) == 0;
  return !s->is_found;
}

/* R3 */
static pd_code is_switched(pd_store *store, const char *ref, const pd_restore_plan *plan, uint64_t seq, bool *out, pd_error *err)
{
  search s = {.run = plan->id, .seq = seq};
  pd_log_query query = {.ref = ref};
  pd_code code = pd_log(store, &query, look_for_run, &s, err);
  if (code && code != PD_NOT_FOUND) return code;
  *out = s.is_found;
  return PD_OK;
}

/* R4: the name for what `ref` was; a long one becomes its hash. */
static void former_name(const pd_restore_plan *plan, const char *ref, char out[PD_REF_SIZE_MAX + 1])
{
  char hex[PD_ID_HEX_SIZE];
  if (snprintf(out, PD_REF_SIZE_MAX + 1, PD_RESTORE_BEFORE "/%s/%s", plan->id, ref) <= PD_REF_SIZE_MAX) return;
  pd_id id = pd_sha256(pd_text(ref));
  snprintf(out, PD_REF_SIZE_MAX + 1, PD_RESTORE_BEFORE "/%s/%s", plan->id, pd_id_hex(&id, hex));
}

static pd_code keep_former(pd_store *store, const pd_restore_plan *plan, const char *ref, const pd_id *head, pd_error *err)
{
  char name[PD_REF_SIZE_MAX + 1];
  pd_note note = {.run = plan->id, .reason = REASON};
  pd_ref is;
  former_name(plan, ref, name);
  pd_code code = pd_ref_get(store, name, &is, NULL);
  if (code == PD_OK && pd_id_equal(&is.commit.id, head)) return PD_OK;
  return code == PD_OK ? pd_reset(store, name, ref, &note, NULL, err) : pd_fork(store, name, ref, &note, NULL, err);
}

/* One attempt; PD_CONFLICT if the ref moved meanwhile. */
static pd_code switch_once(pd_store *store, const pd_restore_plan *plan, const char *ref, const char *target, pd_error *err)
{
  pd_ref is;
  pd_note note = {.run = plan->id, .reason = REASON};
  pd_code code = pd_ref_get(store, ref, &is, err);
  if (code == PD_NOT_FOUND) {
    code = pd_fork(store, ref, target, &note, NULL, err);
    return code == PD_EXISTS ? PD_CONFLICT : code;
  }
  TRY(code);
  pd_commit goal;
  TRY(pd_resolve(store, target, &goal, err));
  if (is.commit.seq && goal.seq != is.commit.seq) TRY(keep_former(store, plan, ref, &is.commit.id, err));
  note.expect_head = &is.commit.id;
  if (strcmp(ref, PD_STATE_REF) == 0) TRY(pd_history_leave(store, err));
  return pd_reset(store, ref, target, &note, NULL, err); /* also if it is there already: the record is what R3 looks for */
}

static pd_code switch_ref(pd_store *store, const pd_restore_plan *plan, const char *ref, const char *target, uint64_t seq, pd_error *err)
{
  pd_code code = PD_CONFLICT;
  while (code == PD_CONFLICT) {
    bool is_done = false;
    TRY(is_switched(store, ref, plan, seq, &is_done, err));
    if (is_done) return PD_OK;
    code = switch_once(store, plan, ref, target, err);
  }
  return code;
}

/* ---- all of them ---- */

/* main and the queue go to the backup's instant together: what was acknowledged after it comes again, since what the agent made of it is
 * not there. That is the bundle's ref, unless somebody wrote while the backup was made. Other refs are as the bundle has them. */
static pd_code target_of(pd_store *store, const pd_restore_store *what, const char *ref, char out[2 * PD_REF_SIZE_MAX], pd_error *err)
{
  static const pd_id none;
  const pd_id *head = strcmp(ref, PD_STATE_REF) == 0 ? &what->head : strcmp(ref, PD_QUEUE_REF) == 0 ? &what->queue : &none;
  pd_ref staged;
  pd_commit root;
  TRY(pd_resolve(store, "root", &root, err));
  snprintf(out, 2 * PD_REF_SIZE_MAX, PD_RESTORE_AS "/%s", ref);
  if (pd_id_equal(head, &root.id))
    strcpy(out, "root");
  else if (!pd_id_equal(head, &none) && (pd_ref_get(store, out, &staged, NULL) || !pd_id_equal(&staged.commit.id, head)))
    pd_id_hex(head, out);
  return PD_OK;
}

/* `joint`: NULL for a home in memory (R6). */
static pd_code switch_store(pd_home *home, pd_joint *joint, const pd_restore_plan *plan, const pd_restore_store *what, pd_error *err)
{
  char target[2 * PD_REF_SIZE_MAX];
  CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
  CLEANUP(pd_names_done) pd_names staged = {0};
  TRY(joint ? pd_backup_handle_join(home, joint, what->name, &handle, err) : pd_backup_handle_open(home, what->name, false, &handle, err));
  TRY(target_of(handle.store, what, PD_STATE_REF, target, err));
  TRY(switch_ref(handle.store, plan, PD_STATE_REF, target, what->seq, err));
  TRY(staged_refs(handle.store, &staged, err));
  for (size_t i = 0; i < staged.count; i++) {
    if (strcmp(staged.items[i], PD_STATE_REF) == 0) continue;
    TRY(target_of(handle.store, what, staged.items[i], target, err));
    TRY(switch_ref(handle.store, plan, staged.items[i], target, what->seq, err));
  }
  TRY(pd_restore_clean(handle.store, err));
  return pd_backup_handle_close(&handle, err);
}

static pd_code begin_joint(pd_home *home, const pd_restore_plan *plan, pd_joint **out, pd_error *err)
{
  pd_error why = {0};
  const char **names = calloc(plan->count + 1, sizeof *names);
  if (!names) return pd_error_memory(err, "a restore");
  for (size_t i = 0; i < plan->count; i++) names[i] = plan->stores[i].name;
  pd_code code = pd_joint_begin(home->uri, names, plan->count, "restore", out, &why);
  free(names);
  if (code == PD_UNSUPPORTED) return PD_OK; /* R6 */
  if (code && err) *err = why;
  return code;
}

pd_code pd_restore_carry_out(pd_home *home, const pd_restore_plan *plan, pd_error *err)
{
  pd_joint *joint = NULL;
  pd_code code = begin_joint(home, plan, &joint, err);
  for (size_t i = 0; !code && i < plan->count; i++) code = switch_store(home, joint, plan, &plan->stores[i], err);
  if (!code && joint) return pd_joint_commit(joint, err);
  pd_joint_abort(joint);
  return code;
}

pd_code pd_restore_lock(pd_home *home, bool waits, int *out_fd, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  TRY(path_of(home, LOCK_FILE, path, err));
  *out_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (*out_fd < 0) return pd_file_refused(err, "open", path);
  while (flock(*out_fd, waits ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return pd_file_refused(err, "lock", path);
    pd_fd_done(out_fd);
    return PD_OK;
  }
  return PD_OK;
}

pd_code pd_restore_finish(pd_home *home, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  CLEANUP(pd_buf_done) pd_buf text = {0};
  CLEANUP(pd_restore_plan_done) pd_restore_plan plan = {0};
  TRY(path_of(home, PLAN_FILE, path, err));
  pd_code code = pd_file_read(path, PLAN_SIZE_MAX, &text, err);
  if (code == PD_NOT_FOUND) return PD_OK;
  TRY(code);
  TRY(pd_restore_plan_decode(pd_buf_bytes(&text), &plan, err));
  TRY(pd_restore_carry_out(home, &plan, err));
  if (unlink(path) != 0 && errno != ENOENT) return pd_file_refused(err, "remove", path);
  return pd_folder_sync(path, err);
}

pd_code pd_restore_resume(pd_home *home, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  CLEANUP(pd_fd_done) int lock = -1;
  if (!home->folder) return PD_OK;
  TRY(path_of(home, PLAN_FILE, path, err));
  if (access(path, F_OK) != 0) return PD_OK;
  TRY(pd_restore_lock(home, false, &lock, err));
  if (lock < 0) return PD_OK; /* R5 */
  pd_error why = {0};
  pd_code code = pd_restore_finish(home, &why);
  if (code == PD_OK) return PD_OK;
  return pd_error_set(err, code, "a restore was interrupted and cannot be completed: %.300s", why.message);
}
