/*
 * sqlite_shed.c: what the sqlite backend takes away again: redaction of records, sweeping of the bag, and giving the space back.
 *
 * Place: beside sqlite.c, whose rows it rewrites (S3 to S5).
 * Invariants:
 *  H1  A redaction is one transaction. Rows it touches are joined up to 64 KiB, so that empty records do not cost a row each.
 *  H2  A sweep is many short transactions, with other writers between them; each blob goes whole or stays.
 *  H3  meta.scrub, set in the transaction that takes bytes away, is 1 while removed bytes may be anywhere in the files, 2 when a VACUUM
 *      has left them in the WAL alone, and gone when that is cut off. So a compaction that was killed is made up for by the next.
 */
#include "backend/sqlite_store.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <unistd.h>

#define PAGE_ROWS 256
#define READERS_WAIT_MS 30000
#define READERS_TRY_MS 200
#define READERS_PAUSE_MS 20

static const char need_scrub_sql[] = "INSERT OR REPLACE INTO meta VALUES('scrub', 1)";

/* ---- redaction ---------------------------------------------------------------------------------------------------- */

typedef struct redaction {
  pd_sqlite *s;
  uint64_t seq; /* of records[0] */
  const pd_bytes *records;
  size_t count;
  const pd_log_swap *swaps; /* instead of seq, records and count */
  size_t swap_count, swap_next;
  uint64_t row_seq, row_count; /* the row that was taken out last */
  pd_buf row;
  uint64_t out_seq, out_count; /* the row that is being made */
  pd_buf out;                  /* each record with its size before it */
} redaction;

static void redaction_done(redaction *r)
{
  pd_buf_done(&r->row);
  pd_buf_done(&r->out);
}

static pd_code damaged(const redaction *r, uint64_t seq, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "%.300s: record %llu is damaged", r->s->path, (unsigned long long)seq);
}

static pd_code run_for(pd_sqlite *s, pd_sqlite_statement which, uint64_t number, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  TRY(pd_sqlite_conn_use(&s->writer, which, &statement, err));
  sqlite3_bind_int64(statement, 1, (int64_t)number);
  return pd_sqlite_conn_run(&s->writer, which, err);
}

/* Copy the row that holds record `seq`, and delete it. */
static pd_code take_row(redaction *r, uint64_t seq, pd_error *err)
{
  sqlite3_stmt *row = NULL;
  TRY(pd_sqlite_conn_use(&r->s->writer, PD_SQL_ROW_AT, &row, err));
  sqlite3_bind_int64(row, 1, (int64_t)seq);
  int rc = sqlite3_step(row);
  pd_code code = PD_OK;
  pd_buf_clear(&r->row);
  r->row_seq = r->row_count = 0;
  if (rc == SQLITE_ROW) {
    r->row_seq = (uint64_t)sqlite3_column_int64(row, 0);
    r->row_count = (uint64_t)sqlite3_column_int64(row, 1);
    code = pd_buf_append(&r->row, sqlite3_column_blob(row, 2), (size_t)sqlite3_column_bytes(row, 2), err);
  } else if (rc != SQLITE_DONE) {
    code = pd_sqlite_conn_error(&r->s->writer, rc, err);
  }
  sqlite3_reset(row);
  TRY(code);
  if (r->row_count > PD_LOCK_TAIL_MAX || seq < r->row_seq || seq - r->row_seq >= r->row_count) return damaged(r, seq, err);
  return run_for(r->s, PD_SQL_ROW_DELETE, r->row_seq, err);
}

static pd_code put_row(redaction *r, pd_error *err)
{
  sqlite3_stmt *insert = NULL;
  uint64_t size;
  if (!r->out_count) return PD_OK;
  const uint8_t *p = r->out.data, *end = p + r->out.size;
  if (r->out_count == 1) pd_sqlite_get_varint(&p, end, &size);
  TRY(pd_sqlite_conn_use(&r->s->writer, PD_SQL_LOG_APPEND, &insert, err));
  sqlite3_bind_int64(insert, 1, (int64_t)r->out_seq);
  sqlite3_bind_int64(insert, 2, (int64_t)r->out_count);
  pd_sqlite_bind_bytes(insert, 3, (pd_bytes){p, (size_t)(end - p)});
  pd_code code = pd_sqlite_conn_run(&r->s->writer, PD_SQL_LOG_APPEND, err);
  sqlite3_clear_bindings(insert);
  pd_buf_clear(&r->out);
  r->out_count = 0;
  return code;
}

static pd_code add_record(redaction *r, uint64_t seq, pd_bytes record, pd_error *err)
{
  if (record.size > PD_SQLITE_BLOB_SIZE_MAX)
    return pd_error_set(err, PD_LIMIT, "%zu bytes of records are over SQLite's limit of %d", record.size, PD_SQLITE_BLOB_SIZE_MAX);
  if (r->out.size + record.size > PD_SQLITE_ROW_BYTES_MAX) TRY(put_row(r, err));
  if (!r->out_count++) r->out_seq = seq;
  TRY(pd_sqlite_put_varint(&r->out, record.size, err));
  return pd_buf_append(&r->out, record.data, record.size, err);
}

/* What record `seq`, met with the bytes *record, is to be. */
static pd_code replace(redaction *r, uint64_t seq, pd_bytes *record, pd_error *err)
{
  if (!r->swaps && seq >= r->seq && seq - r->seq < r->count) *record = r->records[seq - r->seq];
  if (r->swap_next == r->swap_count || r->swaps[r->swap_next].seq != seq) return PD_OK;
  const pd_log_swap *swap = &r->swaps[r->swap_next++];
  if (record->size != swap->was.size || (record->size && memcmp(record->data, swap->was.data, record->size) != 0))
    return pd_error_set(err, PD_CONFLICT, "%.300s: record %llu was redacted by somebody else", r->s->path, (unsigned long long)seq);
  *record = swap->now;
  return PD_OK;
}

/* The records of the row that was taken out, the new bytes in the place of the old. */
static pd_code rewrite_row(redaction *r, pd_error *err)
{
  const uint8_t *p = r->row.data ? r->row.data : (const uint8_t *)"", *end = p + r->row.size;
  for (uint64_t i = 0; i < r->row_count; i++) {
    uint64_t seq = r->row_seq + i;
    pd_bytes record = {0};
    if (!pd_sqlite_row_take(&p, end, r->row_count, i + 1 == r->row_count, &record)) return damaged(r, seq, err);
    TRY(replace(r, seq, &record, err));
    TRY(add_record(r, seq, record, err));
  }
  return PD_OK;
}

static pd_code check_tail(redaction *r, uint64_t last, pd_error *err)
{
  uint64_t tail = 0;
  TRY(pd_sqlite_conn_tail(&r->s->writer, &tail, err));
  if (last <= tail) return PD_OK;
  return pd_error_set(err, PD_INVALID, "%.300s: record %llu cannot be redacted, the log ends at %llu", r->s->path, (unsigned long long)last,
                      (unsigned long long)tail);
}

static pd_code swap_rows(redaction *r, pd_error *err)
{
  TRY(check_tail(r, r->swaps[r->swap_count - 1].seq, err));
  while (r->swap_next < r->swap_count) {
    uint64_t seq = r->swaps[r->swap_next].seq;
    if (seq != r->row_seq + r->row_count) TRY(put_row(r, err)); /* only what follows is joined to it (H1) */
    TRY(take_row(r, seq, err));
    TRY(rewrite_row(r, err));
  }
  TRY(put_row(r, err));
  return pd_sqlite_conn_exec(&r->s->writer, need_scrub_sql, err);
}

static pd_code redact_rows(redaction *r, pd_error *err)
{
  uint64_t end = r->seq + r->count;
  if (r->swaps) return swap_rows(r, err);
  TRY(check_tail(r, end - 1, err));
  for (uint64_t seq = r->seq; seq < end; seq = r->row_seq + r->row_count) {
    TRY(take_row(r, seq, err));
    TRY(rewrite_row(r, err));
  }
  TRY(put_row(r, err));
  return pd_sqlite_conn_exec(&r->s->writer, need_scrub_sql, err);
}

/* What a transaction ends with, under the locks: all or nothing. */
static pd_code finish(pd_sqlite *s, pd_code code, pd_error *err)
{
  if (code == PD_OK) code = pd_sqlite_conn_run(&s->writer, PD_SQL_COMMIT, err);
  if (code == PD_OK) {
    pd_sqlite_checkpoint_if_due(s);
    return PD_OK;
  }
  pd_sqlite_roll_back(s);
  if (!s->writer.has_failed_sync || pd_sqlite_bury_frames(s)) return code;
  return pd_error_set(err, PD_OUTCOME_UNKNOWN, "%.300s: a sync failed; what it was to write may be there when the store is opened again",
                      s->path);
}

static pd_code redact_locked(redaction *r, pd_error *err)
{
  TRY(pd_sqlite_set_sync(r->s, false, err));
  TRY(pd_sqlite_conn_run(&r->s->writer, PD_SQL_BEGIN, err));
  return finish(r->s, redact_rows(r, err), err);
}

pd_code pd_sqlite_log_redact(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  CLEANUP(redaction_done) redaction r = {.s = (pd_sqlite *)b, .seq = seq, .records = records, .count = count};
  if (!seq || !count) return pd_error_set(err, PD_INVALID, "a redaction needs a number from 1 and at least one record");
  if (count > PD_LOCK_TAIL_MAX || seq > PD_LOCK_TAIL_MAX - count)
    return pd_error_set(err, PD_INVALID, "%.300s: record %llu is past the end of all numbers", r.s->path, (unsigned long long)seq);
  TRY(pd_sqlite_write_begin(r.s, err));
  pd_code code = redact_locked(&r, err);
  return pd_sqlite_write_end(r.s, code, err);
}

pd_code pd_sqlite_log_swap(pd_backend *b, const pd_log_swap *swaps, size_t count, pd_error *err)
{
  CLEANUP(redaction_done) redaction r = {.s = (pd_sqlite *)b, .swaps = swaps, .swap_count = count};
  if (!count) return pd_error_set(err, PD_INVALID, "a redaction needs at least one record");
  for (size_t i = 0; i < count; i++)
    if (!swaps[i].seq || swaps[i].seq > PD_LOCK_TAIL_MAX || (i && swaps[i].seq <= swaps[i - 1].seq))
      return pd_error_set(err, PD_INVALID, "%.300s: record %llu is out of order", r.s->path, (unsigned long long)swaps[i].seq);
  TRY(pd_sqlite_write_begin(r.s, err));
  pd_code code = redact_locked(&r, err);
  return pd_sqlite_write_end(r.s, code, err);
}

/* ---- sweeping ----------------------------------------------------------------------------------------------------- */

/* A mark is no less than every n, and greater than the mark before: what is put later, or again, is past it (S4, S5). */
static pd_code mark_rows(pd_sqlite *s, uint64_t *out_mark, pd_error *err)
{
  uint64_t last = 0, mark = 0;
  char sql[96];
  TRY(pd_sqlite_conn_exec(&s->writer, "CREATE TABLE IF NOT EXISTS touched(n INTEGER PRIMARY KEY, at INTEGER NOT NULL)", err));
  TRY(pd_sqlite_last_mark(s, &mark, err));
  TRY(pd_sqlite_conn_number(&s->writer, PD_SQL_BAG_LAST, &last, err));
  mark = last > mark ? last : mark + 1;
  sqlite3_snprintf((int)sizeof sql, sql, "INSERT OR REPLACE INTO meta VALUES('mark', %lld)", (long long)mark);
  TRY(pd_sqlite_conn_exec(&s->writer, sql, err));
  *out_mark = mark;
  return PD_OK;
}

static pd_code mark_locked(pd_sqlite *s, uint64_t *out_mark, pd_error *err)
{
  TRY(pd_sqlite_set_sync(s, false, err));
  TRY(pd_sqlite_conn_run(&s->writer, PD_SQL_BEGIN, err));
  return finish(s, mark_rows(s, out_mark, err), err);
}

pd_code pd_sqlite_bag_mark(pd_backend *b, uint64_t *out_mark, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  uint64_t mark = 0;
  TRY(pd_sqlite_write_begin(s, err));
  pd_code code = mark_locked(s, &mark, err);
  code = pd_sqlite_write_end(s, code, err);
  TRY(code);
  *out_mark = mark;
  return PD_OK;
}

typedef struct swept_row {
  uint64_t n;
  uint64_t size;
  pd_id id;
} swept_row;

typedef struct sweep {
  pd_sqlite *s;
  uint64_t mark, after; /* the rows past `after` are still to be looked at */
  swept_row rows[PAGE_ROWS];
  size_t count;
  uint64_t bytes;
} sweep;

/* Under read_lock. */
static pd_code read_page(sweep *w, pd_error *err)
{
  sqlite3_stmt *page = NULL;
  pd_sqlite_conn *reader = &w->s->reader;
  TRY(pd_sqlite_conn_use(reader, PD_SQL_BAG_PAGE, &page, err));
  sqlite3_bind_int64(page, 1, (int64_t)w->after);
  sqlite3_bind_int64(page, 2, (int64_t)w->mark);
  sqlite3_bind_int64(page, 3, PAGE_ROWS);
  int rc;
  pd_code code = PD_OK;
  for (w->count = 0; (rc = sqlite3_step(page)) == SQLITE_ROW && w->count < PAGE_ROWS; w->count++) {
    swept_row *row = &w->rows[w->count];
    if (sqlite3_column_bytes(page, 1) != PD_ID_SIZE) {
      code = pd_error_set(err, PD_CORRUPT, "%.300s is damaged: blob %lld has no id", w->s->path, (long long)sqlite3_column_int64(page, 0));
      break;
    }
    *row = (swept_row){.n = (uint64_t)sqlite3_column_int64(page, 0), .size = (uint64_t)sqlite3_column_int64(page, 2)};
    memcpy(row->id.bytes, sqlite3_column_blob(page, 1), PD_ID_SIZE);
  }
  if (code == PD_OK && rc != SQLITE_ROW && rc != SQLITE_DONE) code = pd_sqlite_error(reader->db, rc, w->s->path, err);
  sqlite3_reset(page);
  return code;
}

static pd_code delete_row(sweep *w, const swept_row *row, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  pd_sqlite_conn *writer = &w->s->writer;
  TRY(pd_sqlite_conn_use(writer, PD_SQL_BAG_DELETE, &statement, err));
  sqlite3_bind_int64(statement, 2, (int64_t)w->mark);
  TRY(run_for(w->s, PD_SQL_BAG_DELETE, row->n, err));
  if (!sqlite3_changes(writer->db)) return PD_OK; /* put again meanwhile, or another sweep's */
  w->bytes += row->size;
  return run_for(w->s, PD_SQL_BAG_FORGET, row->n, err);
}

static pd_code delete_rows(sweep *w, pd_error *err)
{
  for (size_t i = 0; i < w->count; i++) TRY(delete_row(w, &w->rows[i], err));
  return pd_sqlite_conn_exec(&w->s->writer, need_scrub_sql, err);
}

static pd_code delete_page(sweep *w, pd_error *err)
{
  uint64_t before = w->bytes;
  TRY(pd_sqlite_write_begin(w->s, err));
  pd_code code = pd_sqlite_set_sync(w->s, true, err);
  if (code == PD_OK) code = pd_sqlite_conn_run(&w->s->writer, PD_SQL_BEGIN, err);
  if (code == PD_OK) code = finish(w->s, delete_rows(w, err), err);
  code = pd_sqlite_write_end(w->s, code, err);
  if (code != PD_OK) w->bytes = before;
  return code;
}

static pd_code sweep_page(sweep *w, bool (*keep)(void *ctx, const pd_id *id), void *ctx, bool *out_is_last, pd_error *err)
{
  pthread_mutex_lock(&w->s->read_lock);
  pd_code code = read_page(w, err);
  pthread_mutex_unlock(&w->s->read_lock);
  TRY(code);
  *out_is_last = w->count < PAGE_ROWS;
  if (w->count) w->after = w->rows[w->count - 1].n;
  size_t gone = 0;
  for (size_t i = 0; i < w->count; i++) {
    if (!keep(ctx, &w->rows[i].id)) w->rows[gone++] = w->rows[i];
  }
  w->count = gone;
  return gone ? delete_page(w, err) : PD_OK;
}

static pd_code check_mark(pd_sqlite *s, uint64_t mark, pd_error *err)
{
  uint64_t last = 0;
  TRY(pd_sqlite_write_begin(s, err));
  pd_code code = pd_sqlite_last_mark(s, &last, err);
  code = pd_sqlite_write_end(s, code, err);
  TRY(code);
  if (mark <= last) return PD_OK;
  return pd_error_set(err, PD_INVALID, "%.300s never gave the mark %llu", s->path, (unsigned long long)mark);
}

pd_code pd_sqlite_gc_lock(pd_backend *b, uint32_t shared_ms, void **out_lock, pd_error *err)
{
  const pd_sqlite *s = (const pd_sqlite *)b;
  if (!shared_ms && s->flags & PD_BACKEND_READ_ONLY) return pd_error_set(err, PD_READ_ONLY, "%.300s is open read-only", s->path);
  return pd_lock_file_gc_lock(&s->lock, shared_ms, out_lock, err);
}

pd_code pd_sqlite_bag_sweep(pd_backend *b, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id), void *ctx, uint64_t *out_bytes,
                            pd_error *err)
{
  sweep w = {.s = (pd_sqlite *)b, .mark = mark};
  bool is_last = false;
  TRY(check_mark(w.s, mark, err));
  while (!is_last) TRY(sweep_page(&w, keep, ctx, &is_last, err));
  *out_bytes = w.bytes;
  return PD_OK;
}

/* ---- compaction --------------------------------------------------------------------------------------------------- */

static pd_code vacuum_locked(pd_sqlite *s, uint64_t *out_scrub, pd_error *err)
{
  TRY(pd_sqlite_conn_number(&s->writer, PD_SQL_SCRUB, out_scrub, err));
  if (*out_scrub != 1) return PD_OK;
  TRY(pd_sqlite_set_sync(s, false, err));
  pd_code code = pd_sqlite_conn_exec(&s->writer, "VACUUM", err);
  if (code == PD_OK) code = pd_sqlite_conn_exec(&s->writer, "UPDATE meta SET value = 2 WHERE name = 'scrub'", err);
  if (code != PD_OK) pd_sqlite_roll_back(s);
  return code;
}

/* One try to bring all of the WAL home and cut it to nothing. *out_is_done is false if a reader was in the way. */
static pd_code cut_wal_locked(pd_sqlite *s, bool *out_is_done, pd_error *err)
{
  sqlite3_busy_timeout(s->writer.db, READERS_TRY_MS);
  int rc = sqlite3_wal_checkpoint_v2(s->writer.db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  sqlite3_busy_timeout(s->writer.db, PD_SQLITE_BUSY_TIMEOUT_MS);
  *out_is_done = rc == SQLITE_OK;
  if ((rc & 0xFF) == SQLITE_BUSY || (rc & 0xFF) == SQLITE_LOCKED) return PD_OK;
  if (pd_sqlite_is_sync_failure(rc)) pd_sqlite_fall_sick(s, PD_SICK_CHECKPOINT);
  if (rc != SQLITE_OK) return pd_sqlite_conn_error(&s->writer, rc, err);
  s->wal_frames = 0;
  s->append_count = 0;                    /* the WAL that was grown is gone: a handle that goes on appending grows it again */
  TRY(pd_sqlite_set_sync(s, false, err)); /* the sync covers the cut: no loss of power brings the old bytes back */
  return pd_sqlite_conn_exec(&s->writer, "DELETE FROM meta WHERE name = 'scrub' AND value = 2", err);
}

static pd_code cut_wal(pd_sqlite *s, pd_error *err)
{
  int64_t end = pd_clock_monotonic_ms() + READERS_WAIT_MS;
  for (;;) {
    bool is_done = false;
    TRY(pd_sqlite_write_begin(s, err));
    pd_code code = cut_wal_locked(s, &is_done, err);
    code = pd_sqlite_write_end(s, code, err);
    if (code != PD_OK || is_done) return code;
    if (pd_clock_monotonic_ms() >= end) break;
    usleep(READERS_PAUSE_MS * 1000); /* others may write meanwhile */
  }
  return pd_error_set(err, PD_STORAGE,
                      "%.300s: somebody has been reading for %d seconds, so what was removed is still in its -wal file; try again", s->path,
                      READERS_WAIT_MS / 1000);
}

pd_code pd_sqlite_compact(pd_backend *b, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  uint64_t scrub = 0;
  TRY(pd_sqlite_write_begin(s, err));
  pd_code code = vacuum_locked(s, &scrub, err);
  code = pd_sqlite_write_end(s, code, err);
  TRY(code);
  return scrub ? cut_wal(s, err) : PD_OK;
}
