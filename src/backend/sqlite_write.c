/*
 * sqlite_write.c: what surrounds every write of the sqlite backend: its locks, its connection, the WAL, and claims.
 *
 * Place: under sqlite.c and sqlite_shed.c, which say what is written.
 * Invariants:
 *  W1  Every change happens between pd_sqlite_write_begin and pd_sqlite_write_end: under write_lock and the exclusive flock. SQLite
 *      never has two writers, nor a writer and a checkpoint.
 *  W2  Who writes without a claim looks for the claim word under the flock; who claims sets it under the flock. So no claim begins
 *      inside a write, and a write without claims costs one flock and no other system call of ours.
 *  W3  A sync that failed is final. Its result is looked at wherever there is one, and before the flock is given up the sick word is set;
 *      who has the flock looks at the word first. So nothing is acknowledged after a failed sync, by nobody (README.md).
 *  W4  Nobody but its coordinator writes inside a joint commit (J1): the fence is looked at under the flock, and waited for without it. A
 *      handle that claims passes it: the claim is older, and the coordinator waits for it.
 */
#include "backend/sqlite_joint.h"
#include "backend/sqlite_store.h"
#include "base/base.h"
#include "base/disk_wait.h"
#include "base/error.h"

#define CHECKPOINT_FRAMES 4096
#define CHECKPOINT_AGAIN_FRAMES 1024 /* a reader was in the way */
#define WAL_GROW_AFTER 64            /* appends of a handle */
#define WAL_GROW_TO ((sqlite3_int64)CHECKPOINT_FRAMES * (4096 + 24))
#define WAL_GROW_STEP (64 << 10)

/* ---- writing: locks ----------------------------------------------------------------------------------------------- */

static int note_wal_frames(void *ctx, sqlite3 *db, const char *name, int frames)
{
  (void)db, (void)name;
  ((pd_sqlite *)ctx)->wal_frames = frames;
  return SQLITE_OK;
}

static pd_code open_writer(pd_sqlite *s, pd_error *err)
{
  if (s->writer.db) return PD_OK;
  TRY(pd_sqlite_conn_open(&s->writer, s->path, s->vfs, PD_SQLITE_WRITE, err));
  s->is_sync_normal = false;
  s->checkpoint_at = CHECKPOINT_FRAMES;
  sqlite3_wal_hook(s->writer.db, note_wal_frames, s);
  return PD_OK;
}

static pd_code refuse_read_only(const pd_sqlite *s, pd_error *err)
{
  if (!(s->flags & PD_BACKEND_READ_ONLY)) return PD_OK;
  return pd_error_set(err, PD_READ_ONLY, "%.300s was opened read-only", s->path);
}

pd_code pd_sqlite_write_end(pd_sqlite *s, pd_code code, pd_error *err)
{
  if (s->writer.has_failed_sync && s->sick == PD_SICK_NOT) pd_sqlite_fall_sick(s, PD_SICK_WAL);
  if (s->sick != PD_SICK_NOT && code != PD_OK && code != PD_OUTCOME_UNKNOWN) code = pd_sqlite_health(&s->base, err);
  pd_lock_file_unlock(&s->lock);
  pthread_mutex_unlock(&s->write_lock);
  return code;
}

/* Somebody claims, or did and died (W2). Wait at the claim's byte, which the system gives back whatever happens to its holder;
 * with byte and flock in hand, a word that is still set is nobody's. */
static pd_code lock_after_claim(pd_sqlite *s, pd_error *err)
{
  TRY(pd_lock_file_claim(&s->lock, err));
  pd_code code = pd_lock_file_lock(&s->lock, false, err);
  if (code == PD_OK) pd_lock_file_set_claimed(&s->lock, false);
  pd_lock_file_unclaim(&s->lock);
  return code;
}

static pd_code lock_to_write(pd_sqlite *s, pd_error *err)
{
  TRY(pd_lock_file_lock(&s->lock, false, err));
  if (s->is_claimed || !pd_lock_file_is_claimed(&s->lock)) return PD_OK;
  pd_lock_file_unlock(&s->lock);
  return lock_after_claim(s, err);
}

/* Both locks, and no fence (W4). */
static pd_code lock_both(pd_sqlite *s, pd_error *err)
{
  for (;;) {
    pthread_mutex_lock(&s->write_lock);
    pd_code code = lock_to_write(s, err);
    if (code == PD_OK && (s->is_claimed || !pd_joint_is_fenced(s))) return PD_OK;
    if (code == PD_OK) pd_lock_file_unlock(&s->lock);
    pthread_mutex_unlock(&s->write_lock);
    TRY(code);
    TRY(pd_joint_wait(s, err));
  }
}

pd_code pd_sqlite_write_begin(pd_sqlite *s, pd_error *err)
{
  TRY(refuse_read_only(s, err));
  pd_disk_may_write();
  TRY(lock_both(s, err));
  pd_code code = pd_sqlite_health(&s->base, err); /* W3 */
  if (code == PD_OK) code = open_writer(s, err);
  return code == PD_OK ? PD_OK : pd_sqlite_write_end(s, code, err);
}

void pd_sqlite_roll_back(pd_sqlite *s)
{
  if (!sqlite3_get_autocommit(s->writer.db)) sqlite3_exec(s->writer.db, "ROLLBACK", NULL, NULL, NULL);
}

pd_code pd_sqlite_set_sync(pd_sqlite *s, bool is_normal, pd_error *err)
{
  if (s->is_sync_normal == is_normal) return PD_OK;
  TRY(pd_sqlite_conn_run(&s->writer, is_normal ? PD_SQL_SYNC_NORMAL : PD_SQL_SYNC_FULL, err));
  s->is_sync_normal = is_normal;
  return PD_OK;
}

void pd_sqlite_checkpoint_if_due(pd_sqlite *s)
{
  if (s->wal_frames < CHECKPOINT_FRAMES) s->checkpoint_at = CHECKPOINT_FRAMES;
  if (s->wal_frames < s->checkpoint_at) return;
  int rc = sqlite3_wal_checkpoint_v2(s->writer.db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
  if (pd_sqlite_is_sync_failure(rc)) pd_sqlite_fall_sick(s, PD_SICK_CHECKPOINT);
  s->checkpoint_at = s->wal_frames + CHECKPOINT_AGAIN_FRAMES;
}

/*
 * A WAL that grows pays for its new size at every fsync; one that is overwritten does not (FACTS.md). So a handle that goes on
 * appending grows it once, to what it reaches before a checkpoint anyway, with zeros: no valid frame, so recovery stops before
 * them. Under the locks, and only past the file's end: no frame can be hit. A write that fails undoes itself and costs nothing but speed.
 */
static void grow_wal(pd_sqlite *s)
{
  static const uint8_t zeros[WAL_GROW_STEP];
  sqlite3_file *wal = NULL;
  sqlite3_int64 size = 0;
  int rc = sqlite3_file_control(s->writer.db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
  if (rc != SQLITE_OK || !wal || !wal->pMethods || wal->pMethods->xFileSize(wal, &size) != SQLITE_OK) return;
  for (sqlite3_int64 at = size; at < WAL_GROW_TO && rc == SQLITE_OK; at += WAL_GROW_STEP)
    rc = wal->pMethods->xWrite(wal, zeros, WAL_GROW_STEP, at);
  if (size < WAL_GROW_TO && rc == SQLITE_OK) {
    rc = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    if (rc != SQLITE_OK) pd_sqlite_fall_sick(s, PD_SICK_WAL); /* it would have covered the frames of a bag_put, too */
  }
  if (rc != SQLITE_OK) wal->pMethods->xTruncate(wal, size);
}

void pd_sqlite_note_append(pd_sqlite *s)
{
  if (++s->append_count == WAL_GROW_AFTER) grow_wal(s);
  if (s->sick == PD_SICK_NOT) pd_sqlite_checkpoint_if_due(s);
}

/* ---- the claim ---------------------------------------------------------------------------------------------------- */

/* The byte first, then the word under the flock (W2): once it is set, nobody without a claim is inside a write. */
static pd_code claim_locked(pd_sqlite *s, bool *out_is_fenced, pd_error *err)
{
  TRY(pd_lock_file_claim(&s->lock, err));
  pd_code code = pd_lock_file_lock(&s->lock, false, err);
  if (code != PD_OK) {
    pd_lock_file_unclaim(&s->lock);
    return code;
  }
  bool is_fenced = pd_joint_is_fenced(s);
  if (!is_fenced) pd_lock_file_set_claimed(&s->lock, true);
  pd_lock_file_unlock(&s->lock);
  if (is_fenced) pd_lock_file_unclaim(&s->lock);
  *out_is_fenced = is_fenced;
  return PD_OK;
}

pd_code pd_sqlite_log_claim(pd_backend *b, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  TRY(refuse_read_only(s, err));
  pthread_mutex_lock(&s->write_lock);
  pd_code code = PD_OK;
  for (bool is_fenced = true; code == PD_OK && is_fenced;) {
    while (s->is_claimed) pthread_cond_wait(&s->unclaimed, &s->write_lock);
    code = claim_locked(s, &is_fenced, err);
    if (code == PD_OK && is_fenced) { /* W4 */
      pthread_mutex_unlock(&s->write_lock);
      code = pd_joint_wait(s, err);
      pthread_mutex_lock(&s->write_lock);
    }
  }
  s->is_claimed = code == PD_OK;
  pthread_mutex_unlock(&s->write_lock);
  return code;
}

void pd_sqlite_log_release(pd_backend *b)
{
  pd_sqlite *s = (pd_sqlite *)b;
  pthread_mutex_lock(&s->write_lock);
  if (s->is_claimed) {
    s->is_claimed = false;
    pd_lock_file_set_claimed(&s->lock, false); /* before the byte: the next claimer sets it again */
    pd_lock_file_unclaim(&s->lock);
    pthread_cond_signal(&s->unclaimed);
  }
  pthread_mutex_unlock(&s->write_lock);
}
