/* backup_world.c: see backup_world.h. */
#include "state/backup_world.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/file.h"
#include "state/backup.h"
#include "support/temp_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FILE_MAX ((size_t)64 << 20)

const pd_vault_options cheap = {.memory_kib = 64, .passes = 1};

void put(world *w, const char *store, const char *key, pd_bytes value)
{
  pd_store *s = NULL;
  pd_note note = {.ref = "main"};
  if (pd_store_open(w->uri, store, NULL, &s, &w->err) || pd_put(s, pd_text(key), value, &note, NULL, &w->err) || pd_store_close(s, &w->err))
    fail_msg("put %s/%s: %s", store, key, w->err.message);
}

void put_text(world *w, const char *store, const char *key, const char *value)
{
  put(w, store, key, pd_text(value));
}

const char *get_at(world *w, const char *store, const char *at, const char *key)
{
  static pd_buf value;
  pd_store *s = NULL;
  if (pd_store_open(w->uri, store, NULL, &s, &w->err)) fail_msg("open %s: %s", store, w->err.message);
  pd_code code = pd_get(s, at, pd_text(key), &value, NULL, &w->err);
  if (code == PD_OK) assert_int_equal(pd_buf_byte(&value, 0, NULL), PD_OK);
  assert_int_equal(pd_store_close(s, NULL), PD_OK);
  return code == PD_OK ? (const char *)value.data : "(none)";
}

const char *get(world *w, const char *store, const char *key)
{
  return get_at(w, store, "main", key);
}

void unlock(world *w, const char *passphrase)
{
  if (pd_vault_unlock(w->home, pd_text(passphrase), &w->err)) fail_msg("unlock: %s", w->err.message);
}

void open_with_vault(world *w, const char *config)
{
  world_open(w, config);
  w->is_operator = true;
  if (pd_vault_init(w->home, pd_text(RIGHT), &cheap, &w->err)) fail_msg("init: %s", w->err.message);
  unlock(w, RIGHT);
}

void open_with_state(world *w)
{
  open_with_vault(w, NULL);
  put_text(w, "main", "plan", "1");
  put_text(w, "helper", "plan", "2");
  put_text(w, "shared", "plan", "3");
}

void change_all(world *w)
{
  put_text(w, "main", "plan", "changed");
  put_text(w, "helper", "plan", "changed");
  put_text(w, "shared", "plan", "changed");
}

void assert_old(world *w)
{
  assert_string_equal(get(w, "main", "plan"), "1");
  assert_string_equal(get(w, "helper", "plan"), "2");
  assert_string_equal(get(w, "shared", "plan"), "3");
}

void assert_changed(world *w)
{
  assert_string_equal(get(w, "main", "plan"), "changed");
  assert_string_equal(get(w, "helper", "plan"), "changed");
  assert_string_equal(get(w, "shared", "plan"), "changed");
}

char *out_text_of(world *w, const char *path)
{
  const char *quoted = world_out(w, path);
  return text_of("%.*s", (int)strlen(quoted) - 2, quoted + 1);
}

char *create(world *w, const char *input)
{
  world_ok(w, "state.backup.create", input);
  return out_text_of(w, "backup_id");
}

char *file_of(world *w, const char *id)
{
  return text_of("%s/backups/%s.pdb", w->folder, id);
}

void read_whole(const char *path, pd_buf *out)
{
  pd_error err;
  if (pd_file_read(path, FILE_MAX, out, &err)) fail_msg("%s", err.message);
}

void write_whole(const char *path, pd_bytes bytes)
{
  FILE *f = fopen(path, "w"); /* no sync: this is done thousands of times */
  assert_non_null(f);
  assert_int_equal(fwrite(bytes.data, 1, bytes.size, f), bytes.size);
  assert_int_equal(fclose(f), 0);
}

pd_code restore(world *w, const char *id)
{
  return world_callf(w, "state.backup.restore", "{\"backup_id\":\"%s\"}", id);
}

void restore_ok(world *w, const char *id)
{
  if (restore(w, id)) fail_msg("restore %s: %s", id, w->err.message);
}

unsigned count(world *w)
{
  world_ok(w, "state.backup.list", "{}");
  return (unsigned)atoi(world_out(w, "count"));
}

char *export_path(world *w, const char *id, const char *path)
{
  if (world_callf(w, "state.backup.export", "{\"backup_id\":\"%s\",\"path\":\"%s\"}", id, path)) fail_msg("export: %s", w->err.message);
  return out_text_of(w, "exported_path");
}
