/* sqlite_care.c: the sqlite backend looked at from outside: its own integrity, its size, its neighbours. */
#include "backend/sqlite_store.h"

#include "base/base.h"
#include "base/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- check -------------------------------------------------------------------------------------------------------- */

/* Ask on the read connection, and hand each row's text to `visit`. Under read_lock. */
static pd_code ask(pd_sqlite *s, const char *sql, bool (*row)(void *ctx, sqlite3_stmt *row), void *ctx, pd_error *err)
{
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(s->reader.db, sql, -1, &statement, NULL);
  if (rc == SQLITE_OK) {
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW && row(ctx, statement)) continue;
  }
  pd_code code = rc == SQLITE_ROW || rc == SQLITE_DONE ? PD_OK : pd_sqlite_error(s->reader.db, rc, s->path, err);
  sqlite3_finalize(statement);
  return code;
}

typedef struct checking {
  pd_check_visit visit;
  void *ctx;
  const pd_sqlite *s;
  uint64_t next; /* the number the next log row should have */
} checking;

static bool visit_integrity(void *ctx, sqlite3_stmt *row)
{
  checking *c = ctx;
  const char *what = (const char *)sqlite3_column_text(row, 0);
  char line[PD_ERROR_MESSAGE_MAX];
  if (!what || strcmp(what, "ok") == 0) return true;
  snprintf(line, sizeof line, "%.300s: %.*s", c->s->path, (int)strcspn(what, "\n"), what);
  c->visit(c->ctx, line);
  return true;
}

static bool visit_log_row(void *ctx, sqlite3_stmt *row)
{
  checking *c = ctx;
  uint64_t seq = (uint64_t)sqlite3_column_int64(row, 0), count = (uint64_t)sqlite3_column_int64(row, 1);
  char line[PD_ERROR_MESSAGE_MAX];
  if (seq != c->next || count < 1 || count > PD_LOCK_TAIL_MAX) {
    snprintf(line, sizeof line, "%.300s: the log has a row of %lld records at %lld where record %llu should be", c->s->path,
             (long long)count, (long long)seq, (unsigned long long)c->next);
    c->visit(c->ctx, line);
  }
  c->next = seq + count;
  return true;
}

/* PRAGMA integrity_check, the log's rows one after the other from 1, and the tail that was acknowledged before we looked. */
static pd_code check_locked(pd_sqlite *s, pd_check_visit visit, void *ctx, pd_error *err)
{
  checking c = {.visit = visit, .ctx = ctx, .s = s, .next = 1};
  uint64_t acknowledged = 0;
  pd_error found = {0};
  if (!pd_lock_file_tail(&s->lock, &acknowledged)) acknowledged = 0;
  pd_code code = ask(s, "PRAGMA integrity_check", visit_integrity, &c, &found);
  if (code == PD_OK) code = ask(s, "SELECT seq, count FROM log ORDER BY seq", visit_log_row, &c, &found);
  if (code == PD_OK) code = pd_sqlite_witness(s, c.next - 1, acknowledged, &found);
  if (code == PD_CORRUPT || code == PD_FORMAT) {
    visit(ctx, found.message); /* damage is what we were asked for, not a failure to look */
    return PD_OK;
  }
  if (code != PD_OK && err) *err = found;
  return code;
}

pd_code pd_sqlite_check(pd_backend *b, pd_check_visit visit, void *ctx, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  pthread_mutex_lock(&s->read_lock);
  pd_code code = check_locked(s, visit, ctx, err);
  pthread_mutex_unlock(&s->read_lock);
  return code;
}

/* ---- usage -------------------------------------------------------------------------------------------------------- */

static uint64_t disk_bytes(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static uint64_t disk_bytes_beside(const char *path, const char *suffix)
{
  char *name = NULL;
  if (asprintf(&name, "%s%s", path, suffix) < 0) return 0;
  uint64_t bytes = disk_bytes(name);
  free(name);
  return bytes;
}

static bool take_usage(void *ctx, sqlite3_stmt *row)
{
  pd_backend_usage *usage = ctx;
  usage->log_bytes = (uint64_t)sqlite3_column_int64(row, 0);
  usage->bag_bytes = (uint64_t)sqlite3_column_int64(row, 1);
  usage->bag_count = (uint64_t)sqlite3_column_int64(row, 2);
  return false;
}

pd_code pd_sqlite_usage(pd_backend *b, pd_backend_usage *out, pd_error *err)
{
  pd_sqlite *s = (pd_sqlite *)b;
  pd_backend_usage usage = {0};
  pthread_mutex_lock(&s->read_lock);
  /* length() of a blob reads the row's header alone, not its overflow pages */
  pd_code code = ask(s, "SELECT (SELECT coalesce(sum(length(data)), 0) FROM log), coalesce(sum(length(data)), 0), count(*) FROM bag",
                     take_usage, &usage, err);
  pthread_mutex_unlock(&s->read_lock);
  TRY(code);
  usage.disk_bytes =
    disk_bytes(s->path) + disk_bytes_beside(s->path, "-wal") + disk_bytes_beside(s->path, "-shm") + disk_bytes(s->lock.path);
  *out = usage;
  return PD_OK;
}

/* ---- stores ------------------------------------------------------------------------------------------------------- */

static void visit_folder(DIR *dir, void (*visit)(void *ctx, const char *store), void *ctx)
{
  const struct dirent *entry;
  while ((entry = readdir(dir))) {
    size_t size = strlen(entry->d_name);
    if (entry->d_name[0] == '.' || size < 4 || strcmp(entry->d_name + size - 3, ".db") != 0) continue;
    char name[sizeof entry->d_name];
    memcpy(name, entry->d_name, size - 3);
    name[size - 3] = '\0';
    visit(ctx, name);
  }
}

pd_code pd_sqlite_stores(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err)
{
  char *folder = NULL, *vfs = NULL;
  TRY(pd_sqlite_parse(rest, &folder, &vfs, err));
  pd_code code = PD_OK;
  DIR *dir = opendir(folder);
  if (dir) {
    visit_folder(dir, visit, ctx);
    closedir(dir);
  } else if (errno == ENOENT) {
    code = pd_error_set(err, PD_NOT_FOUND, "no folder %.300s", folder);
  } else if (errno == ENOTDIR) {
    code = pd_error_set(err, PD_FORMAT, "%.300s is not a folder, so no store can be in it", folder);
  } else {
    code = pd_error_set(err, PD_STORAGE, "cannot list %.300s: %s", folder, strerror(errno));
  }
  free(folder);
  free(vfs);
  return code;
}

const char *pd_backend_sqlite_version(void)
{
  return sqlite3_libversion();
}
