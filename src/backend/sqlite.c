/*
 * sqlite.c: the backend `sqlite:DIR`: the log and the bag of one store in one database, DIR/STORE.db.
 *
 * Place: a backend (backend.h); src/backend/README.md says what it does for each clause of the contract.
 * Invariants:
 *  S1  Every change happens under write_lock and the lock file (W1 in sqlite_write.c).
 *  S2  An append is one row and one fsync; the tail word (sqlite_lock.h) follows it under the same lock.
 *  S3  log(seq, count, data): rows are contiguous, row.seq + row.count is the next row's seq. data is the record's bytes for
 *      count 1; else for each record its size as a varint (7 bits a byte, low first) and its bytes.
 *  S4  bag(n, key, id, data): appended in order; `key` is the id's first 8 bytes, so that only a small index is random. No n is ever
 *      used twice, and each new one is greater than every mark that bag_mark gave.
 *  S5  touched(n, at), made by the first bag_mark: blob n was put again when the last mark was at - 1. Its row need not move for that.
 *  S6  An append that answered an error is not there later, however the process or the machine ends; or the error is PD_OUTCOME_UNKNOWN.
 */
#include "backend/builtin.h"
#include "backend/sqlite_joint.h"
#include "backend/sqlite_store.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/disk_wait.h"
#include "base/error.h"

#include <errno.h>
#include <unistd.h>

#define BATCH_KEEP_MAX (1 << 20)
#define POLL_MS 50
#define READ_CHUNK_RECORDS 1024
#define READ_CHUNK_BYTES (4 << 20)

/* ---- the log ------------------------------------------------------------------------------------------------------ */

static void know_tail(pd_sqlite *s, uint64_t tail)
{
  __atomic_store_n(&s->tail, tail, __ATOMIC_RELEASE);
}

/* Read the tail from the table and set the word right. Under the locks. */
static pd_code refresh_tail(pd_sqlite *s, uint64_t *out_tail, pd_error *err)
{
  TRY(pd_sqlite_conn_tail(&s->writer, out_tail, err));
  know_tail(s, *out_tail);
  pd_lock_file_set_tail(&s->lock, *out_tail);
  return PD_OK;
}

/* Whether `seq` is the next number. The word suffices to say no for a number it covers, and to say yes; a gap may be the word
 * lagging behind (L2), so the table is asked. */
static pd_code check_place(pd_sqlite *s, uint64_t seq, pd_error *err)
{
  uint64_t tail = 0;
  bool is_known = pd_lock_file_tail(&s->lock, &tail);
  if (!is_known || tail + 1 < seq) TRY(refresh_tail(s, &tail, err));
  if (tail + 1 == seq) return PD_OK;
  if (seq <= tail) return pd_error_conflict(err, seq, tail + 1, "%.300s: record %llu is taken", s->path, (unsigned long long)seq);
  return pd_error_set(err, PD_INVALID, "%.300s: record %llu would leave a gap after %llu", s->path, (unsigned long long)seq,
                      (unsigned long long)tail);
}

pd_code pd_sqlite_put_varint(pd_buf *buf, uint64_t n, pd_error *err)
{
  while (n >= 0x80) {
    TRY(pd_buf_byte(buf, (uint8_t)(n | 0x80), err));
    n >>= 7;
  }
  return pd_buf_byte(buf, (uint8_t)n, err);
}

/* The row's data (S3), borrowed from the records or from s->batch. */
static pd_code pack(pd_sqlite *s, const pd_bytes *records, size_t count, pd_bytes *out, pd_error *err)
{
  if (count == 1) {
    *out = records[0];
  } else {
    pd_buf_clear(&s->batch);
    s->batch.size_max = PD_SQLITE_BLOB_SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
      TRY(pd_sqlite_put_varint(&s->batch, records[i].size, err));
      TRY(pd_buf_append(&s->batch, records[i].data, records[i].size, err));
    }
    *out = pd_buf_bytes(&s->batch);
  }
  if (out->size > PD_SQLITE_BLOB_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "%zu bytes of records are over SQLite's limit of %d", out->size, PD_SQLITE_BLOB_SIZE_MAX);
  return PD_OK;
}

void pd_sqlite_bind_bytes(sqlite3_stmt *statement, int at, pd_bytes bytes)
{
  if (bytes.size)
    sqlite3_bind_blob64(statement, at, bytes.data, bytes.size, SQLITE_STATIC);
  else
    sqlite3_bind_zeroblob(statement, at, 0);
}

static pd_code outcome_unknown(const pd_sqlite *s, uint64_t seq, const char *why, pd_error *err)
{
  return pd_error_set(err, PD_OUTCOME_UNKNOWN, "%.300s: %s; record %llu may be there when the store is opened again", s->path, why,
                      (unsigned long long)seq);
}

/* The commit failed. Did it? Nobody else can have appended, so the table's tail tells. Frames it left must not come back (S6). */
static pd_code settle_failed_append(pd_sqlite *s, int rc, uint64_t seq, size_t count, pd_error *err)
{
  uint64_t tail = 0;
  bool is_known;
  pd_code code = pd_sqlite_conn_error(&s->writer, rc, err);
  pd_sqlite_roll_back(s);
  if (rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_ROWID) {
    TRY(refresh_tail(s, &tail, err));
    return pd_error_conflict(err, seq, tail + 1, "%.300s: record %llu is taken", s->path, (unsigned long long)seq);
  }
  bool is_buried = !pd_sqlite_may_reappear(rc) || pd_sqlite_bury_frames(s);
  is_known = refresh_tail(s, &tail, NULL) == PD_OK;
  if (!is_known) pd_lock_file_forget_tail(&s->lock); /* the next append or open asks the table */
  if (is_known && tail == seq + count - 1)           /* it was committed after all, so it was synced; unless that is what failed */
    return s->writer.has_failed_sync ? outcome_unknown(s, seq, "a sync failed", err) : PD_OK;
  return is_buried ? code : outcome_unknown(s, seq, "the write failed", err);
}

/* One row; *out_rc is SQLite's answer. */
static pd_code insert_row(pd_sqlite *s, uint64_t seq, const pd_bytes *records, size_t count, int *out_rc, pd_error *err)
{
  sqlite3_stmt *insert = NULL;
  pd_bytes data = {0};
  TRY(pack(s, records, count, &data, err));
  TRY(pd_sqlite_conn_use(&s->writer, PD_SQL_LOG_APPEND, &insert, err));
  sqlite3_bind_int64(insert, 1, (int64_t)seq);
  sqlite3_bind_int64(insert, 2, (int64_t)count);
  pd_sqlite_bind_bytes(insert, 3, data);
  *out_rc = sqlite3_step(insert);
  if (*out_rc == SQLITE_DONE) *out_rc = SQLITE_OK;
  int reset_rc = sqlite3_reset(insert);
  if (*out_rc == SQLITE_OK) *out_rc = reset_rc;
  sqlite3_clear_bindings(insert); /* they point to the caller's bytes */
  return PD_OK;
}

/* How many records go into the next row: a reader of one record reads its whole row. */
static size_t row_count(const pd_bytes *records, size_t count)
{
  size_t bytes = records[0].size, n = 1;
  while (n < count && bytes + records[n].size <= PD_SQLITE_ROW_BYTES_MAX) bytes += records[n++].size;
  return n;
}

/* Several rows in one transaction. */
static pd_code insert_rows(pd_sqlite *s, uint64_t seq, const pd_bytes *records, size_t count, int *out_rc, pd_error *err)
{
  *out_rc = sqlite3_exec(s->writer.db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  for (size_t done = 0; *out_rc == SQLITE_OK && done < count;) {
    size_t n = row_count(records + done, count - done);
    pd_code code = insert_row(s, seq + done, records + done, n, out_rc, err);
    if (code != PD_OK) {
      pd_sqlite_roll_back(s);
      return code;
    }
    done += n;
  }
  if (*out_rc == SQLITE_OK) *out_rc = sqlite3_exec(s->writer.db, "COMMIT", NULL, NULL, NULL);
  return PD_OK;
}

static pd_code append_rows(pd_sqlite *s, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  int rc = SQLITE_OK;
  TRY(pd_sqlite_set_sync(s, false, err));
  if (row_count(records, count) == count)
    TRY(insert_row(s, seq, records, count, &rc, err)); /* a transaction of its own: the one fsync is in here */
  else
    TRY(insert_rows(s, seq, records, count, &rc, err));
  return rc == SQLITE_OK ? PD_OK : settle_failed_append(s, rc, seq, count, err);
}

/* The first append into a new -wal file: its name must last, too. SQLite leaves that to the connection that made the file. */
static pd_code name_wal(pd_sqlite *s, uint64_t seq, pd_error *err)
{
  if (pd_sqlite_sync_folder(s->folder, err) != PD_OK) {
    pd_sqlite_fall_sick(s, PD_SICK_FOLDER);
    return outcome_unknown(s, seq, "a sync of its folder failed", err);
  }
  pd_lock_file_set_unnamed(&s->lock, false);
  return PD_OK;
}

static pd_code append_locked(pd_sqlite *s, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  TRY(check_place(s, seq, err));
  TRY(append_rows(s, seq, records, count, err));
  if (pd_lock_file_is_unnamed(&s->lock)) TRY(name_wal(s, seq, err));
  know_tail(s, seq + count - 1);
  pd_lock_file_set_tail(&s->lock, seq + count - 1);
  pd_sqlite_note_append(s);
  if (s->batch.capacity > BATCH_KEEP_MAX) pd_buf_done(&s->batch);
  return PD_OK;
}

static pd_code sqlite_log_append(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  if (!seq || !count) return pd_error_set(err, PD_INVALID, "an append needs a number from 1 and at least one record");
  if (count > PD_LOCK_TAIL_MAX || seq > PD_LOCK_TAIL_MAX - count) {
    return pd_error_set(err, PD_INVALID, "%.300s: record %llu is past the end of all numbers", s->path, (unsigned long long)seq);
  }
  TRY(pd_sqlite_write_begin(s, err));
  return pd_sqlite_write_end(s, append_locked(s, seq, records, count, err), err);
}

pd_code pd_sqlite_visible_tail(pd_sqlite *s, uint64_t *out_tail, pd_error *err)
{
  pd_joint_view before, after;
  uint64_t tail = 0;
  do {
    TRY(pd_joint_look(s, &before, err));
    TRY(pd_sqlite_conn_tail(&s->reader, &tail, err));
    TRY(pd_joint_look(s, &after, err));
  } while (!pd_joint_view_equal(&before, &after));
  *out_tail = tail < after.tail ? tail : after.tail;
  return PD_OK;
}

static pd_code sqlite_log_tail(pd_backend *b, uint64_t *out_seq, pd_error *err);

static uint64_t sqlite_log_tail_hint(pd_backend *b)
{
  pd_sqlite *s = (pd_sqlite *)b;
  uint64_t tail;
  if (pd_joint_is_fenced(s) && sqlite_log_tail(b, &tail, NULL) == PD_OK) return tail; /* the word may be of before or after */
  return pd_lock_file_tail(&s->lock, &tail) ? tail : __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
}

static pd_code sqlite_log_tail(pd_backend *b, uint64_t *out_seq, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  uint64_t tail = 0;
  TRY(pd_disk_may_read(err));
  pthread_mutex_lock(&s->read_lock);
  pd_code code = pd_sqlite_visible_tail(s, &tail, err);
  pthread_mutex_unlock(&s->read_lock);
  TRY(code);
  know_tail(s, tail);
  *out_seq = tail;
  return PD_OK;
}

/* Where there is nothing to sleep on, the medium is read-only: look from time to time. */
static pd_code sqlite_log_wait(pd_backend *b, uint64_t after, uint32_t timeout_ms, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  int64_t end = pd_clock_monotonic_ms() + timeout_ms;
  while (sqlite_log_tail_hint(b) <= after) {
    int64_t left = end - pd_clock_monotonic_ms();
    if (left <= 0) return PD_OK;
    errno = 0;
    if (!pd_lock_file_wait(&s->lock, after, (uint32_t)left)) {
      uint64_t tail;
      TRY(sqlite_log_tail(b, &tail, err));
      if (tail <= after) usleep((useconds_t)(left < POLL_MS ? left : POLL_MS) * 1000);
    }
    if (errno == EINTR) return PD_OK;
  }
  return PD_OK;
}

/* ---- reading the log ---------------------------------------------------------------------------------------------- */

typedef struct log_walk {
  pd_sqlite *s;
  uint64_t next, to; /* the next record to visit, and the last */
  uint64_t visible;  /* the last one that may be seen (J2), while a chunk is read */
  bool is_at_end;
  pd_log_visit visit;
  void *ctx;
  pd_error *err;
} log_walk;

static pd_code damaged_record(const log_walk *w, uint64_t seq, const char *what)
{
  return pd_error_set(w->err, PD_CORRUPT, "%.300s: record %llu %s", w->s->path, (unsigned long long)seq, what);
}

bool pd_sqlite_get_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
  uint64_t n = 0;
  for (unsigned shift = 0; *p < end && shift < 63; shift += 7) {
    uint8_t byte = *(*p)++;
    n |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *out = n;
      return true;
    }
  }
  return false;
}

bool pd_sqlite_row_take(const uint8_t **p, const uint8_t *end, uint64_t count, bool is_last, pd_bytes *out)
{
  uint64_t size = (uint64_t)(end - *p);
  if (count > 1 && !pd_sqlite_get_varint(p, end, &size)) return false;
  if (size > (uint64_t)(end - *p) || (is_last && size != (uint64_t)(end - *p))) return false;
  *out = (pd_bytes){*p, (size_t)size};
  *p += size;
  return true;
}

/* Visit the records of one row that the walk still wants. */
static pd_code visit_row(log_walk *w, uint64_t seq, uint64_t count, pd_bytes data)
{
  const uint8_t *p = data.data, *end = p + data.size;
  for (uint64_t i = 0; i < count && w->next <= w->to && w->next <= w->visible; i++) {
    pd_bytes record = {0};
    if (!pd_sqlite_row_take(&p, end, count, i + 1 == count, &record)) return damaged_record(w, seq + i, "is damaged");
    if (seq + i != w->next) continue;
    TRY(w->visit(w->ctx, w->next, record, w->err));
    w->next++;
  }
  return PD_OK;
}

static pd_code step_row(log_walk *w, sqlite3_stmt *rows, uint64_t *row_next)
{
  int64_t seq = sqlite3_column_int64(rows, 0), count = sqlite3_column_int64(rows, 1);
  if (seq < 1 || count < 1 || seq > (int64_t)PD_LOCK_TAIL_MAX || count > (int64_t)PD_LOCK_TAIL_MAX)
    return damaged_record(w, w->next, "is damaged");
  if ((uint64_t)seq > w->next || (*row_next && (uint64_t)seq != *row_next)) return damaged_record(w, w->next, "is missing");
  *row_next = (uint64_t)(seq + count);
  if (*row_next <= w->next) return PD_OK; /* the row before: the log ends just there, or the next one continues it */
  pd_bytes data = {sqlite3_column_blob(rows, 2), (size_t)sqlite3_column_bytes(rows, 2)};
  if (!data.data) {
    if (sqlite3_errcode(w->s->reader.db) == SQLITE_NOMEM) return pd_error_memory(w->err, "a log record");
    data.data = ""; /* an empty blob has no address */
  }
  return visit_row(w, (uint64_t)seq, (uint64_t)count, data);
}

/* Visit what fits in a chunk; then other readers get their turn, and the WAL its restart. Under read_lock. The first step takes SQLite's
 * snapshot. If a joint commit began or ended about then, nothing is visited and the caller comes again. */
static pd_code walk_chunk(log_walk *w)
{
  sqlite3_stmt *rows = NULL;
  uint64_t row_next = 0, first = w->next;
  size_t bytes = 0;
  bool is_first = true;
  pd_joint_view before, view;
  TRY(pd_joint_look(w->s, &before, w->err));
  w->visible = UINT64_MAX;
  TRY(pd_sqlite_conn_use(&w->s->reader, PD_SQL_LOG_READ, &rows, w->err));
  sqlite3_bind_int64(rows, 1, (int64_t)(w->next < INT64_MAX ? w->next : INT64_MAX));
  pd_code code = PD_OK;
  while (code == PD_OK && w->next <= w->to && w->next - first < READ_CHUNK_RECORDS && bytes < READ_CHUNK_BYTES) {
    int rc = sqlite3_step(rows);
    if (is_first) {
      code = pd_joint_look(w->s, &view, w->err);
      if (code || !pd_joint_view_equal(&before, &view)) break;
      w->visible = view.tail;
      is_first = false;
    }
    if (w->next > w->visible) {
      w->is_at_end = true;
      break;
    }
    if (rc == SQLITE_ROW) {
      uint64_t next = w->next;
      code = step_row(w, rows, &row_next);
      /* the row before the wanted one does not count, or a large one would end each chunk before it began */
      if (code == PD_OK && w->next > next) bytes += (size_t)sqlite3_column_bytes(rows, 2);
    } else if (rc == SQLITE_DONE) {
      w->is_at_end = true;
      break;
    } else {
      code = pd_sqlite_error(w->s->reader.db, rc, w->s->path, w->err);
    }
  }
  sqlite3_reset(rows);
  return code;
}

static pd_code sqlite_log_read(pd_backend *b, uint64_t from, uint64_t to, pd_log_visit visit, void *ctx, pd_error *err)
{
  log_walk w = {.s = (pd_sqlite *)b, .next = from, .to = to, .visit = visit, .ctx = ctx, .err = err};
  uint64_t acknowledged = 0;
  if (!from) return pd_error_set(err, PD_INVALID, "records are numbered from 1");
  TRY(pd_disk_may_read(err));
  if (!pd_lock_file_tail(&w.s->lock, &acknowledged)) acknowledged = 0;
  while (w.next <= to && !w.is_at_end) {
    pthread_mutex_lock(&w.s->read_lock);
    pd_code code = walk_chunk(&w);
    pthread_mutex_unlock(&w.s->read_lock);
    TRY(code);
  }
  if (w.next <= to && w.next <= acknowledged) return pd_sqlite_witness(w.s, w.next - 1, acknowledged, err);
  return PD_OK;
}

/* ---- the bag ------------------------------------------------------------------------------------------------------ */

static int64_t key_of(const pd_id *id)
{
  uint64_t key = 0;
  for (size_t i = 0; i < 8; i++) key = key << 8 | id->bytes[i];
  return (int64_t)key;
}

static bool is_row_of(sqlite3_stmt *row, const pd_id *id)
{
  return sqlite3_column_bytes(row, 0) == PD_ID_SIZE && memcmp(sqlite3_column_blob(row, 0), id->bytes, PD_ID_SIZE) == 0;
}

/* Step `which` (PD_SQL_BAG_FIND or _GET) to the row of `id`. The caller resets `out_row`. */
static pd_code find_blob(pd_sqlite_conn *conn, pd_sqlite_statement which, const pd_id *id, sqlite3_stmt **out_row, bool *out_found,
                         pd_error *err)
{
  int rc;
  TRY(pd_sqlite_conn_use(conn, which, out_row, err));
  sqlite3_bind_int64(*out_row, 1, key_of(id));
  do {
    rc = sqlite3_step(*out_row);
  } while (rc == SQLITE_ROW && !is_row_of(*out_row, id));
  *out_found = rc == SQLITE_ROW;
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? PD_OK : pd_sqlite_conn_error(conn, rc, err);
}

pd_code pd_sqlite_last_mark(pd_sqlite *s, uint64_t *out_mark, pd_error *err)
{
  return pd_sqlite_conn_number(&s->writer, PD_SQL_MARK, out_mark, err);
}

typedef struct bag_putting {
  pd_sqlite *s;
  uint64_t mark; /* the last one given, 0: none */
  uint64_t next; /* the n of the next row (S4) */
} bag_putting;

static pd_code begin_putting(bag_putting *p, pd_error *err)
{
  uint64_t last = 0;
  TRY(pd_sqlite_last_mark(p->s, &p->mark, err));
  TRY(pd_sqlite_conn_number(&p->s->writer, PD_SQL_BAG_LAST, &last, err));
  p->next = (last > p->mark ? last : p->mark) + 1;
  if (p->next < INT64_MAX - INT32_MAX) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "%.300s is damaged: its bag is said to have %llu blobs", p->s->path, (unsigned long long)p->next);
}

/* Run a statement with its bindings and forget them: they point to the caller's bytes. */
static pd_code run_bound(pd_sqlite *s, sqlite3_stmt *statement, pd_error *err)
{
  pd_code code = PD_OK;
  int rc = sqlite3_step(statement);
  if (rc != SQLITE_DONE) code = pd_sqlite_conn_error(&s->writer, rc, err);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return code;
}

/* A blob that is there and older than a mark counts as put now (B6). */
static pd_code touch(const bag_putting *p, uint64_t n, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  if (n > p->mark) return PD_OK;
  TRY(pd_sqlite_conn_use(&p->s->writer, PD_SQL_BAG_TOUCH, &statement, err));
  sqlite3_bind_int64(statement, 1, (int64_t)n);
  sqlite3_bind_int64(statement, 2, (int64_t)p->mark + 1);
  return run_bound(p->s, statement, err);
}

static pd_code put_one(bag_putting *p, const pd_id *id, pd_bytes data, pd_error *err)
{
  pd_sqlite *s = p->s;
  sqlite3_stmt *row = NULL, *insert = NULL;
  bool is_there = false;
  if (data.size > PD_SQLITE_BLOB_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "a blob of %zu bytes is over SQLite's limit of %d", data.size, PD_SQLITE_BLOB_SIZE_MAX);
  pd_code code = find_blob(&s->writer, PD_SQL_BAG_FIND, id, &row, &is_there, err);
  uint64_t n = is_there ? (uint64_t)sqlite3_column_int64(row, 1) : 0;
  sqlite3_reset(row);
  TRY(code);
  if (is_there) return touch(p, n, err);
  TRY(pd_sqlite_conn_use(&s->writer, PD_SQL_BAG_PUT, &insert, err));
  sqlite3_bind_int64(insert, 1, (int64_t)p->next++);
  sqlite3_bind_int64(insert, 2, key_of(id));
  sqlite3_bind_blob(insert, 3, id->bytes, PD_ID_SIZE, SQLITE_STATIC);
  pd_sqlite_bind_bytes(insert, 4, data);
  return run_bound(s, insert, err);
}

static pd_code put_locked(pd_sqlite *s, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err)
{
  bag_putting p = {.s = s};
  TRY(pd_sqlite_set_sync(s, true, err));
  TRY(pd_sqlite_conn_run(&s->writer, PD_SQL_BEGIN, err));
  pd_code code = begin_putting(&p, err);
  for (size_t i = 0; i < count && code == PD_OK; i++) code = put_one(&p, &ids[i], blobs[i], err);
  if (code == PD_OK) code = pd_sqlite_conn_run(&s->writer, PD_SQL_COMMIT, err);
  if (code == PD_OK)
    pd_sqlite_checkpoint_if_due(s);
  else
    pd_sqlite_roll_back(s);
  return code;
}

static pd_code sqlite_bag_put(pd_backend *b, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  TRY(pd_sqlite_write_begin(s, err));
  return pd_sqlite_write_end(s, count ? put_locked(s, ids, blobs, count, err) : PD_OK, err);
}

static pd_code sqlite_bag_get(pd_backend *b, const pd_id *id, pd_buf *out, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  sqlite3_stmt *row = NULL;
  bool is_there = false;
  TRY(pd_disk_may_read(err));
  pthread_mutex_lock(&s->read_lock);
  pd_code code = find_blob(&s->reader, PD_SQL_BAG_GET, id, &row, &is_there, err);
  if (is_there) {
    const void *data = sqlite3_column_blob(row, 1);
    size_t size = (size_t)sqlite3_column_bytes(row, 1);
    code = size && !data ? pd_error_memory(err, "a blob") : pd_buf_append(out, data, size, err);
  }
  sqlite3_reset(row);
  pthread_mutex_unlock(&s->read_lock);
  if (code != PD_OK || is_there) return code;
  char hex[PD_ID_HEX_SIZE];
  return pd_error_set(err, PD_NOT_FOUND, "%.300s has no blob %s", s->path, pd_id_hex(id, hex));
}

static unsigned sqlite_flags(const pd_backend *b)
{
  return ((const pd_sqlite *)b)->flags;
}

const pd_backend_ops pd_sqlite_ops = {
  .abi = PD_BACKEND_ABI,
  .scheme = "sqlite",
  .open = pd_sqlite_open,
  .close = pd_sqlite_close,
  .flags = sqlite_flags,
  .log_append = sqlite_log_append,
  .log_read = sqlite_log_read,
  .log_tail = sqlite_log_tail,
  .log_tail_hint = sqlite_log_tail_hint,
  .bag_put = sqlite_bag_put,
  .bag_get = sqlite_bag_get,
  .log_claim = pd_sqlite_log_claim,
  .log_release = pd_sqlite_log_release,
  .check = pd_sqlite_check,
  .usage = pd_sqlite_usage,
  .log_redact = pd_sqlite_log_redact,
  .log_swap = pd_sqlite_log_swap,
  .bag_mark = pd_sqlite_bag_mark,
  .bag_sweep = pd_sqlite_bag_sweep,
  .compact = pd_sqlite_compact,
  .log_wait = sqlite_log_wait,
  .stores = pd_sqlite_stores,
  .folder = pd_sqlite_folder,
  .health = pd_sqlite_health,
  .joint_begin = pd_sqlite_joint_begin,
  .joint_open = pd_sqlite_joint_open,
  .joint_commit = pd_sqlite_joint_commit,
  .joint_abort = pd_sqlite_joint_abort,
  .gc_lock = pd_sqlite_gc_lock,
  .gc_unlock = pd_lock_file_gc_unlock,
};
