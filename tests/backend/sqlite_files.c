/* sqlite_files.c: see sqlite_files.h. */
#include "backend/sqlite_files.h"

#include "support/temp_folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

pd_backend *open_main(const char *folder, unsigned flags, pd_code want, pd_error *err)
{
  const pd_backend_ops *ops = NULL;
  const char *rest = NULL;
  pd_backend *b = NULL;
  pd_error own = {0};
  char *uri = text_of("sqlite:%s", folder);
  assert_int_equal(pd_backend_find(uri, &ops, &rest, NULL), PD_OK);
  pd_code code = ops->open(rest, "main", flags, &b, &own);
  free(uri);
  if (code != want) fail_msg("open answered %s (%s), not %s", pd_code_name(code), own.message, pd_code_name(want));
  if (err) *err = own;
  return b;
}

uint64_t tail_of(pd_backend *b)
{
  uint64_t tail = UINT64_MAX;
  assert_int_equal(b->ops->log_tail(b, &tail, NULL), PD_OK);
  return tail;
}

pd_code append_some(pd_backend *b, size_t count, pd_error *err)
{
  for (size_t i = 0; i < count; i++) {
    pd_bytes record = pd_text("a record of some thirty bytes.");
    pd_code code = b->ops->log_append(b, tail_of(b) + 1, &record, 1, err);
    if (code != PD_OK) return code;
  }
  return PD_OK;
}

void make_store(const char *folder, size_t count)
{
  pd_backend *b = open_main(folder, PD_BACKEND_CREATE, PD_OK, NULL);
  assert_int_equal(append_some(b, count, NULL), PD_OK);
  b->ops->close(b);
}

static pd_code skip_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  (void)ctx, (void)seq, (void)record, (void)err;
  return PD_OK;
}

pd_code read_all(pd_backend *b, pd_error *err)
{
  return b->ops->log_read(b, 1, UINT64_MAX, skip_record, NULL, err);
}

char *file_in(const char *folder, const char *name)
{
  return text_of("%s/%s", folder, name);
}

void write_file(const char *path, const void *data, size_t size)
{
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, size, f), size);
  assert_int_equal(fclose(f), 0);
}

uint8_t *read_file(const char *path, size_t *out_size)
{
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *out_size = (size_t)ftell(f);
  rewind(f);
  uint8_t *data = malloc(*out_size + 1);
  assert_int_equal(fread(data, 1, *out_size, f), *out_size);
  fclose(f);
  return data;
}

void copy_file(const char *from, const char *to)
{
  size_t size;
  uint8_t *data = read_file(from, &size);
  write_file(to, data, size);
  free(data);
}

bool is_file(const char *path)
{
  return access(path, F_OK) == 0;
}

size_t count_files(const char *folder)
{
  DIR *dir = opendir(folder);
  size_t count = 0;
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

void run_sql(const char *folder, const char *sql)
{
  sqlite3 *db = NULL;
  char *path = file_in(folder, "main.db");
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  sqlite3_close(db);
  free(path);
}
