/* manifest.c: a folder's files in the system store: reading, comparing, writing. See manifest.h. */
#include "state/manifest.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/moment.h"

#include <stdio.h>
#include <stdlib.h>

#define NAME_SIZE 40
#define KEY_SIZE 160
#define EDITS_MAX 10000 /* of one commit: memory stays flat */

void pd_manifest_done(pd_manifest *manifest)
{
  for (size_t i = 0; i < manifest->count; i++) free(manifest->files[i].path);
  free(manifest->files);
  *manifest = (pd_manifest){0};
}

static void prefix_of(const char *agent, const char *folder_id, char out[KEY_SIZE])
{
  snprintf(out, KEY_SIZE, "manifest/%s/%s/", agent, folder_id);
}

/* ---- finding ---- */

static int by_name(const void *name, const void *file)
{
  return strcmp(name, ((const pd_file *)file)->name);
}

pd_code pd_manifest_file(pd_manifest *m, const char *path, pd_file **out, bool *out_is_new, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_id id = pd_sha256(pd_text(path));
  pd_id_hex(&id, hex);
  hex[NAME_SIZE] = 0;
  pd_file *found = m->known ? bsearch(hex, m->files, m->known, sizeof m->files[0], by_name) : NULL;
  *out_is_new = !found;
  if (!found) {
    TRY(pd_array_grow(&m->files, m->count, &m->capacity, sizeof m->files[0], "a list of files", err));
    found = &m->files[m->count];
    *found = (pd_file){.path = strdup(path)};
    if (!found->path) return pd_error_memory(err, "a list of files");
    memcpy(found->name, hex, sizeof found->name);
    m->count++;
  }
  *out = found;
  return PD_OK;
}

/* ---- reading ---- */

static int64_t number(pd_json object, const char *name)
{
  int64_t value = 0;
  return pd_json_i64(pd_json_member(object, name), &value) ? value : 0;
}

/* False for what was not written by us: the file is then new again. */
static bool parse_file(pd_bytes value, pd_file *out)
{
  pd_json json;
  char hex[PD_ID_HEX_SIZE];
  pd_buf path = {0};
  if (pd_json_parse(value, &json, NULL)) return false;
  pd_json hash = pd_json_member(json, "hash");
  if (hash.kind != PD_JSON_STRING || hash.raw.size != 66) return false;
  snprintf(hex, sizeof hex, "%.64s", (const char *)hash.raw.data + 1);
  if (!pd_id_parse(hex, &out->hash)) return false;
  if (pd_json_decode(pd_json_member(json, "path"), &path, NULL) || pd_buf_byte(&path, 0, NULL)) {
    pd_buf_done(&path);
    return false;
  }
  out->path = (char *)path.data;
  out->size = (uint64_t)number(json, "size");
  out->inode = (uint64_t)number(json, "inode");
  out->mtime_ns = number(json, "mtime_ns");
  out->ctime_ns = number(json, "ctime_ns");
  out->read_ms = number(json, "read_ms");
  out->created_ms = number(json, "created_ms");
  out->changed_ms = number(json, "changed_ms");
  out->deleted_ms = number(json, "deleted_ms");
  return true;
}

static pd_code read_known(pd_store *store, const char *prefix, pd_manifest *m, pd_error *err)
{
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  size_t size = strlen(prefix);
  pd_scan scan = {.prefix = pd_text(prefix)};
  TRY(pd_iter_open(store, "main", &scan, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) {
    pd_file file = {.version = entry.version};
    if (entry.key.size != size + NAME_SIZE || !parse_file(value, &file)) continue;
    memcpy(file.name, (const char *)entry.key.data + size, NAME_SIZE);
    code = pd_array_grow(&m->files, m->count, &m->capacity, sizeof m->files[0], "a list of files", err);
    if (code) {
      free(file.path);
      break;
    }
    m->files[m->count++] = file;
  }
  pd_iter_close(iter);
  m->known = m->count; /* keys come in order */
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* ---- writing ---- */

static void put_signed(pd_json_writer *w, const char *key, int64_t value)
{
  char text[32];
  if (!value) return; /* absent is 0 */
  snprintf(text, sizeof text, "%lld", (long long)value);
  pd_json_put_value(w, key, (pd_json){pd_text(text), PD_JSON_NUMBER});
}

static pd_code stage_file(pd_edit *edit, const char *prefix, const pd_file *file, int64_t now_ms, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  char key[KEY_SIZE + NAME_SIZE], hex[PD_ID_HEX_SIZE];
  snprintf(key, sizeof key, "%s%s", prefix, file->name);
  if (file->deleted_ms && file->deleted_ms < now_ms - PD_MANIFEST_GONE_KEEP_MS)
    return pd_edit_delete(edit, pd_text(key), file->version, err);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "path", file->path);
  pd_json_put_text(&w, "hash", pd_id_hex(&file->hash, hex));
  put_signed(&w, "size", (int64_t)file->size);
  put_signed(&w, "inode", (int64_t)file->inode);
  put_signed(&w, "mtime_ns", file->mtime_ns);
  put_signed(&w, "ctime_ns", file->ctime_ns);
  put_signed(&w, "read_ms", file->read_ms);
  put_signed(&w, "created_ms", file->created_ms);
  put_signed(&w, "changed_ms", file->changed_ms);
  put_signed(&w, "deleted_ms", file->deleted_ms);
  pd_json_close(&w, '}');
  TRY(w.code);
  return pd_edit_put(edit, pd_text(key), pd_buf_bytes(&text), file->version, err);
}

/* One commit of at most EDITS_MAX files from *at on. */
static pd_code write_some(pd_store *store, const char *prefix, const pd_manifest_scan *scan, const pd_manifest *m, size_t *at,
                          pd_error *err)
{
  pd_note note = {.ref = "main", .author = scan->agent, .reason = "watched folder"};
  pd_edit *edit = NULL;
  size_t staged = 0;
  pd_code code = PD_OK;
  for (; *at < m->count && staged < EDITS_MAX && code == PD_OK; (*at)++) {
    const pd_file *file = &m->files[*at];
    bool is_old = file->deleted_ms && file->deleted_ms < scan->now_ms - PD_MANIFEST_GONE_KEEP_MS;
    if (!file->is_dirty && !is_old) continue;
    if (!edit) TRY(pd_edit_begin(store, &note, &edit, err));
    code = stage_file(edit, prefix, file, scan->now_ms, err);
    staged++;
  }
  if (!edit) return code;
  if (code == PD_OK) code = pd_edit_commit(edit, NULL, err);
  if (code) pd_edit_abort(edit);
  return code;
}

static pd_code update_once(pd_home *home, pd_store *store, pd_manifest_scan *scan, pd_manifest *out, pd_error *err)
{
  char prefix[KEY_SIZE];
  prefix_of(scan->agent, scan->folder_id, prefix);
  TRY(read_known(store, prefix, out, err));
  TRY(pd_manifest_walk(home, scan, out, err));
  if (*scan->why) return PD_OK;
  for (size_t at = 0; at < out->count;) TRY(write_some(store, prefix, scan, out, &at, err));
  return PD_OK;
}

pd_code pd_manifest_update(pd_home *home, pd_manifest_scan *scan, pd_manifest *out, pd_error *err)
{
  pd_store *store;
  *out = (pd_manifest){0};
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  for (;;) { /* each round is lost to another who looked at the same folder, and whose look is on the disk then */
    scan->file_count = scan->unreadable = 0;
    scan->is_cut = false;
    scan->why[0] = 0;
    pd_code code = update_once(home, store, scan, out, err);
    if (code != PD_CONFLICT) return code;
    pd_manifest_done(out); /* another process looked at the same folder: begin with what it found */
  }
}

/* ---- forgetting ---- */

static pd_code forget_some(pd_store *store, const char *prefix, const char *agent, bool *out_is_done, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf keys = {0};
  pd_note note = {.ref = "main", .author = agent, .reason = "folders.unwatch"};
  pd_scan scan = {.prefix = pd_text(prefix), .keys_only = true};
  pd_iter *iter = NULL;
  pd_entry entry;
  size_t size = strlen(prefix) + NAME_SIZE;
  TRY(pd_iter_open(store, "main", &scan, &iter, err));
  pd_code code = PD_OK;
  while (code == PD_OK && keys.size < size * EDITS_MAX && (code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK)
    if (entry.key.size == size) code = pd_buf_append(&keys, entry.key.data, size, err);
  pd_iter_close(iter);
  *out_is_done = code == PD_NOT_FOUND;
  if (code && code != PD_NOT_FOUND) return code;
  if (!keys.size) return PD_OK;
  pd_edit *edit = NULL;
  TRY(pd_edit_begin(store, &note, &edit, err));
  code = PD_OK;
  for (size_t at = 0; at < keys.size && code == PD_OK; at += size)
    code = pd_edit_delete(edit, (pd_bytes){keys.data + at, size}, PD_ANY_VERSION, err);
  if (code == PD_OK) code = pd_edit_commit(edit, NULL, err);
  if (code) pd_edit_abort(edit);
  return code;
}

pd_code pd_manifest_forget(pd_home *home, const char *agent, const char *folder_id, pd_error *err)
{
  pd_store *store;
  char prefix[KEY_SIZE];
  prefix_of(agent, folder_id, prefix);
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  for (bool is_done = false; !is_done;) TRY(forget_some(store, prefix, agent, &is_done, err));
  return PD_OK;
}
