/*
 * sqlite_joint.c: joint commits of the sqlite backend: fencing stores, deciding, and settling what a dead coordinator left.
 *
 * Place: above the lock file and sqlite_joint_file.c; sqlite.c asks it what a reader may see, sqlite_write.c whether a writer may write.
 * Invariants J1 to J7 are in sqlite_joint.h.
 *
 * Locks, in this order: .joint.lock, then one store's claim and lock file at a time. A writer waits with no lock in its hands, so that the
 * coordinator never waits for somebody who waits for it.
 */
#include "backend/sqlite_joint.h"

#include "backend/builtin.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#define WAIT_STEP_MS 50
#define PATH_SIZE 4400

uint32_t pd_joint_wait_ms = 60000;

enum { VIEW_FREE, VIEW_ABSENT, VIEW_PENDING, VIEW_PUBLISHED };

struct pd_sqlite_joint {
  char *rest, *folder, *vfs;
  int lock_fd, file_fd;
  pd_joint_file file;
  int64_t end_ms;      /* until then it waits for others, to begin */
  size_t fenced_count; /* of file.stores, the first */
};

static int64_t end_of_patience(void)
{
  return pd_clock_monotonic_ms() + pd_joint_wait_ms;
}

/* ---- one store from outside ---- */

typedef struct visit {
  char path[PATH_SIZE], lock_path[PATH_SIZE];
  pd_lock_file lock;
  pd_sqlite_conn conn;
} visit;

static void visit_end(visit *v)
{
  if (v->conn.db) sqlite3_db_config(v->conn.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL); /* its sync could fail unseen (K1) */
  pd_sqlite_conn_close(&v->conn);
  pd_lock_file_unlock(&v->lock);
  pd_lock_file_close(&v->lock);
}

/* With the store's lock held. *out_is_there false: no such store. To be ended in any case. */
static pd_code visit_begin(visit *v, const char *folder, const char *vfs, const char *name, int64_t end_ms, bool *out_is_there,
                           pd_error *err)
{
  *v = (visit){.lock.fd = -1};
  if (snprintf(v->path, sizeof v->path, "%s/%s.db", folder, name) >= (int)sizeof v->path ||
      snprintf(v->lock_path, sizeof v->lock_path, "%s/%s.lock", folder, name) >= (int)sizeof v->lock_path)
    return pd_error_set(err, PD_LIMIT, "the path %.100s is too long", folder);
  TRY(pd_sqlite_probe(v->path, vfs, out_is_there, err));
  if (!*out_is_there) return PD_OK;
  TRY(pd_lock_file_open_until(&v->lock, v->lock_path, end_ms, err));
  return pd_lock_file_lock(&v->lock, false, err);
}

static pd_code refuse_sick(const visit *v, pd_error *err)
{
  if (pd_lock_file_sick(&v->lock, NULL) == PD_SICK_NOT) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "a sync of %.300s failed: close it in every process, open it again, and check the disk", v->path);
}

/* The fence first: who claims later waits at it, so that a store with many that claim is not waited for again and again. Who claims already
 * finishes, and only then is the tail read: no claim is ever inside a joint commit. */
static pd_code wait_for_claim(visit *v, pd_error *err)
{
  if (!pd_lock_file_is_claimed(&v->lock)) return PD_OK;
  pd_lock_file_unlock(&v->lock);
  TRY(pd_lock_file_claim(&v->lock, err));
  pd_code code = pd_lock_file_lock(&v->lock, false, err);
  if (!code) pd_lock_file_set_claimed(&v->lock, false); /* with byte and lock in hand, it is nobody's (W2) */
  pd_lock_file_unclaim(&v->lock);
  return code;
}

static pd_code fence_store(pd_sqlite_joint *j, pd_joint_store *store, pd_error *err)
{
  CLEANUP(visit_end) visit v;
  bool is_there = false;
  TRY(visit_begin(&v, j->folder, j->vfs, store->name, j->end_ms, &is_there, err));
  if (!is_there) return pd_error_set(err, PD_NOT_FOUND, "no store at %.300s", v.path);
  if (!v.lock.map) return pd_error_set(err, PD_READ_ONLY, "%.300s cannot be written", v.lock_path);
  TRY(refuse_sick(&v, err));
  pd_lock_file_set_fence(&v.lock, pd_lock_file_fence(&v.lock) | 1);
  j->fenced_count++;
  TRY(wait_for_claim(&v, err));
  TRY(refuse_sick(&v, err));
  TRY(pd_sqlite_conn_open(&v.conn, v.path, j->vfs, PD_SQLITE_READ, err));
  return pd_sqlite_conn_tail(&v.conn, &store->tail, err);
}

/* The store is as its table says from now on. */
static pd_code open_fence(const char *folder, const char *vfs, const char *name, pd_error *err)
{
  CLEANUP(visit_end) visit v;
  bool is_there = false;
  uint64_t tail = 0;
  TRY(visit_begin(&v, folder, vfs, name, end_of_patience(), &is_there, err));
  if (!is_there) return PD_OK;
  uint32_t fence = pd_lock_file_fence(&v.lock);
  TRY(pd_sqlite_conn_open(&v.conn, v.path, vfs, PD_SQLITE_READ, err));
  TRY(pd_sqlite_conn_tail(&v.conn, &tail, err));
  uint64_t told = 0;
  if (pd_lock_file_adopt(&v.lock) && (!pd_lock_file_tail(&v.lock, &told) || told < tail)) pd_lock_file_set_tail(&v.lock, tail); /* J4 */
  if (fence & 1) pd_lock_file_set_fence(&v.lock, fence + 1);
  return PD_OK;
}

/* J5: what was appended behind the tail was never there. A sick store may hold frames of it that no connection sees, and that are records
 * again after a loss of power. So it is cut once it is healed. */
static pd_code cut_store(const char *folder, const char *vfs, const pd_joint_store *store, pd_error *err)
{
  CLEANUP(visit_end) visit v;
  bool is_there = false;
  char sql[80];
  TRY(visit_begin(&v, folder, vfs, store->name, end_of_patience(), &is_there, err));
  if (!is_there) return PD_OK;
  TRY(refuse_sick(&v, err));
  TRY(pd_sqlite_conn_open(&v.conn, v.path, vfs, PD_SQLITE_WRITE, err));
  uint64_t tail = 0;
  TRY(pd_sqlite_conn_tail(&v.conn, &tail, err));
  if (tail <= store->tail) return PD_OK;
  snprintf(sql, sizeof sql, "DELETE FROM log WHERE seq > %llu", (unsigned long long)store->tail);
  pd_code code = pd_sqlite_conn_exec(&v.conn, sql, err);
  if (code && pd_sqlite_is_sync_failure(sqlite3_extended_errcode(v.conn.db)))
    pd_lock_file_set_sick(&v.lock, PD_SICK_WAL, pd_clock_now_ms(NULL));
  return code;
}

/* ---- ending ---- */

static void open_fences(const char *folder, const char *vfs, const pd_joint_file *file)
{
  for (size_t i = 0; i < file->count; i++) (void)!open_fence(folder, vfs, file->stores[i].name, NULL); /* else its next writer does */
}

/* Committed and published: nothing of it can be lost any more, and what is left to do anybody can. */
static void end_committed(const char *folder, const char *vfs, const pd_joint_file *file)
{
  open_fences(folder, vfs, file);
  (void)!pd_joint_file_remove(folder, NULL);
}

/* Cut all that can be; the others move to the front of the list, *out_left of them. Returns why the first of them cannot. */
static pd_code cut_stores(const char *folder, const char *vfs, pd_joint_file *file, size_t *out_left, pd_error *err)
{
  pd_code first = PD_OK;
  for (size_t i = 0; i < file->count; i++) {
    pd_error why = {0};
    pd_code code = cut_store(folder, vfs, &file->stores[i], &why);
    if (!code) continue;
    pd_joint_store store = file->stores[i];
    file->stores[i] = file->stores[*out_left];
    file->stores[(*out_left)++] = store;
    if (first) continue;
    first = pd_error_set(err, code, "a %s was given up, and what it appended to store '%s' cannot be removed: %.250s", file->purpose,
                         store.name, why.message);
  }
  return first;
}

/* Those that are cut need not wait for the first `left` of the list. If .joint cannot be written anew, they do. */
static void let_go(const char *folder, const char *vfs, const pd_joint_file *file, size_t left)
{
  pd_joint_file rest = *file, others = *file;
  CLEANUP(pd_fd_done) int fd = -1;
  rest.count = left;
  others.stores += left;
  others.count -= left;
  if (others.count && pd_joint_file_write(folder, &rest, false, &fd, NULL) == PD_OK) open_fences(folder, vfs, &others);
}

/* The names of new -wal files must last before the file says that nothing is left to cut (J6). */
static pd_code end_pending(const char *folder, const char *vfs, pd_joint_file *file, pd_error *err)
{
  size_t left = 0;
  TRY(pd_joint_file_say_pending(folder, err));
  pd_code code = cut_stores(folder, vfs, file, &left, err);
  if (code) {
    let_go(folder, vfs, file, left);
    return code;
  }
  TRY(pd_sqlite_sync_folder(folder, err));
  TRY(pd_joint_file_say_committed(folder, err));
  TRY(pd_joint_file_remove(folder, err));
  open_fences(folder, vfs, file);
  return PD_OK;
}

/* J5, with .joint.lock held. *out_was_there: there was a joint commit to be settled. */
static pd_code settle(const char *folder, const char *vfs, bool *out_was_there, pd_error *err)
{
  CLEANUP(pd_joint_file_done) pd_joint_file file = {0};
  char path[PATH_SIZE];
  TRY(pd_joint_file_read(folder, &file, err));
  *out_was_there = file.is_there;
  if (!file.is_there) return PD_OK;
  if (!file.is_committed) return end_pending(folder, vfs, &file, err);
  if (!file.is_published) {
    snprintf(path, sizeof path, "%s/" PD_JOINT_FILE, folder);
    CLEANUP(pd_fd_done) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return pd_file_refused(err, "open", path);
    TRY(pd_joint_file_say_committed(folder, err)); /* synced again: its coordinator may have died before its own sync ended */
    TRY(pd_joint_file_publish(fd, folder, err));
  }
  end_committed(folder, vfs, &file);
  return PD_OK;
}

/* ---- the others ---- */

bool pd_joint_is_fenced(const pd_sqlite *s)
{
  if (s->lock.is_quiet) return false;
  return (pd_lock_file_fence(&s->lock) & 1) || __atomic_load_n(&s->must_look, __ATOMIC_ACQUIRE);
}

bool pd_joint_view_equal(const pd_joint_view *a, const pd_joint_view *b)
{
  return a->fence == b->fence && a->status == b->status && a->tail == b->tail;
}

static pd_code look_closer(pd_sqlite *s, pd_joint_view *out, pd_error *err)
{
  CLEANUP(pd_joint_file_done) pd_joint_file file = {0};
  TRY(pd_joint_file_read(s->folder, &file, err));
  out->status = !file.is_there ? VIEW_ABSENT : file.is_published ? VIEW_PUBLISHED : VIEW_PENDING;
  if (!file.is_there) __atomic_store_n(&s->must_look, false, __ATOMIC_RELEASE);
  if (out->status != VIEW_PENDING) return PD_OK;
  for (size_t i = 0; i < file.count; i++)
    if (strcmp(file.stores[i].name, s->store) == 0) out->tail = file.stores[i].tail;
  return PD_OK;
}

/* Without a mapping there is no fence to be seen: then .joint itself is looked for, each time. */
pd_code pd_joint_look(pd_sqlite *s, pd_joint_view *out, pd_error *err)
{
  *out = (pd_joint_view){.status = VIEW_FREE, .tail = UINT64_MAX};
  if (s->lock.is_quiet) return PD_OK;
  out->fence = pd_lock_file_fence(&s->lock);
  if (s->lock.map && !(out->fence & 1) && !__atomic_load_n(&s->must_look, __ATOMIC_ACQUIRE)) return PD_OK;
  return look_closer(s, out, err);
}

/* With .joint.lock held by us. A fence without a joint commit is what a coordinator left that died while it fenced. */
static pd_code settle_for(pd_sqlite *s, pd_error *err)
{
  bool was_there = false;
  TRY(settle(s->folder, s->vfs, &was_there, err));
  __atomic_store_n(&s->must_look, false, __ATOMIC_RELEASE);
  return pd_joint_is_fenced(s) ? open_fence(s->folder, s->vfs, s->store, err) : PD_OK;
}

pd_code pd_joint_wait(pd_sqlite *s, pd_error *err)
{
  int64_t end = end_of_patience();
  uint32_t fence = pd_lock_file_fence(&s->lock);
  do {
    CLEANUP(pd_fd_done) int lock = -1;
    TRY(pd_joint_lock(s->folder, &lock, err));
    if (lock >= 0) return settle_for(s, err);
    pd_lock_file_wait_fence(&s->lock, fence, WAIT_STEP_MS);
    if (pd_lock_file_fence(&s->lock) != fence) return PD_OK;
  } while (pd_clock_monotonic_ms() < end);
  return pd_error_set(err, PD_STORAGE, "%.300s is being restored by another process, which has not finished; try again later", s->path);
}

static bool may_concern(const pd_sqlite *s)
{
  CLEANUP(pd_joint_file_done) pd_joint_file file = {0};
  if (pd_joint_file_read(s->folder, &file, NULL)) return true;
  for (size_t i = 0; i < file.count; i++)
    if (strcmp(file.stores[i].name, s->store) == 0) return true;
  return false;
}

/* If it cannot be settled now (its coordinator lives, the disk is full, the medium read-only), the handle looks at .joint before each read:
 * the fence word may be missing after a loss of power. */
void pd_joint_settle(pd_sqlite *s)
{
  if (!pd_joint_file_is_there(s->folder)) return;
  CLEANUP(pd_fd_done) int lock = -1;
  if (pd_joint_lock(s->folder, &lock, NULL) == PD_OK && lock >= 0 && settle_for(s, NULL) == PD_OK) return;
  __atomic_store_n(&s->must_look, may_concern(s), __ATOMIC_RELEASE);
}

/* ---- the coordinator ---- */

static void free_joint(pd_sqlite_joint *j)
{
  if (!j) return;
  pd_joint_file_done(&j->file);
  pd_fd_done(&j->file_fd);
  pd_fd_done(&j->lock_fd); /* last: whoever waits for it finds all done */
  free(j->rest);
  free(j->folder);
  free(j->vfs);
  free(j);
}

static pd_code lock_out_others(pd_sqlite_joint *j, pd_error *err)
{
  pd_lock_file none = {.fd = -1};
  bool was_there;
  for (;;) {
    TRY(pd_joint_lock(j->folder, &j->lock_fd, err));
    if (j->lock_fd >= 0) return settle(j->folder, j->vfs, &was_there, err);
    if (pd_clock_monotonic_ms() > j->end_ms) return pd_error_set(err, PD_STORAGE, "another restore of %.300s has not finished", j->folder);
    pd_lock_file_wait_fence(&none, 0, WAIT_STEP_MS);
  }
}

static pd_code list_stores(pd_sqlite_joint *j, const char *const *stores, size_t count, const char *purpose, pd_error *err)
{
  if (strlen(purpose) >= sizeof j->file.purpose || strchr(purpose, '\n'))
    return pd_error_set(err, PD_INVALID, "the purpose of a joint commit is a line of at most %zu bytes", sizeof j->file.purpose - 1);
  strcpy(j->file.purpose, purpose);
  j->file.stores = calloc(count + 1, sizeof j->file.stores[0]);
  if (!j->file.stores) return pd_error_memory(err, "a joint commit");
  for (; j->file.count < count; j->file.count++) {
    TRY(pd_agent_check(stores[j->file.count], err));
    strcpy(j->file.stores[j->file.count].name, stores[j->file.count]);
  }
  return PD_OK;
}

static pd_code begin(pd_sqlite_joint *j, const char *const *stores, size_t count, const char *purpose, pd_error *err)
{
  TRY(pd_sqlite_parse(j->rest, &j->folder, &j->vfs, err));
  TRY(list_stores(j, stores, count, purpose, err));
  j->end_ms = end_of_patience();
  TRY(lock_out_others(j, err));
  pd_code code = PD_OK;
  for (size_t i = 0; !code && i < count; i++) code = fence_store(j, &j->file.stores[i], err);
  if (!code) code = pd_joint_file_write(j->folder, &j->file, true, &j->file_fd, err);
  if (!code) return PD_OK;
  /* The file may be there though its folder could not be synced. If it cannot be taken back, who writes next tries again (J1). */
  if (pd_joint_file_say_committed(j->folder, NULL) || pd_joint_file_remove(j->folder, NULL)) return code;
  j->file.count = j->fenced_count;
  open_fences(j->folder, j->vfs, &j->file);
  return code;
}

pd_code pd_sqlite_joint_begin(const char *rest, const char *const *stores, size_t count, const char *purpose, void **out, pd_error *err)
{
  pd_sqlite_joint *j = calloc(1, sizeof *j);
  if (!j) return pd_error_memory(err, "a joint commit");
  j->lock_fd = j->file_fd = -1;
  j->rest = strdup(rest);
  pd_code code = j->rest ? begin(j, stores, count, purpose, err) : pd_error_memory(err, "a joint commit");
  if (code)
    free_joint(j);
  else
    *out = j;
  return code;
}

pd_code pd_sqlite_joint_open(void *joint, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  const pd_sqlite_joint *j = joint;
  for (size_t i = 0; i < j->file.count; i++)
    if (strcmp(j->file.stores[i].name, store) == 0) return pd_sqlite_open_quiet(j->rest, store, flags & ~PD_BACKEND_CREATE, out, err);
  return pd_error_set(err, PD_INVALID, "the store '%.80s' takes no part in this %s", store, j->file.purpose);
}

void pd_sqlite_joint_abort(void *joint)
{
  pd_sqlite_joint *j = joint;
  if (!j) return;
  (void)!end_pending(j->folder, j->vfs, &j->file, NULL); /* else who writes next does; until then all read the old state (J2) */
  free_joint(j);
}

pd_code pd_sqlite_joint_commit(void *joint, pd_error *err)
{
  pd_sqlite_joint *j = joint;
  pd_code code = pd_joint_file_decide(j->file_fd, j->folder, err);
  if (code && code != PD_OUTCOME_UNKNOWN) {
    pd_sqlite_joint_abort(j);
    return code;
  }
  if (code) { /* nothing is cut before it is known; until then all read the old state, and who writes or opens a store settles it */
    free_joint(j);
    return code;
  }
  if (pd_joint_file_publish(j->file_fd, j->folder, NULL) == PD_OK) end_committed(j->folder, j->vfs, &j->file);
  free_joint(j);
  return PD_OK;
}
