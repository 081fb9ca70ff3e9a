/* backup_list.c: the folder of backups: what is in it, finding one, removing the oldest; state.backup.list and .verify. */
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "state/backup.h"
#include "state/call.h"
#include "state/run.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_END ".pdb"

pd_code pd_backup_folder(pd_home *home, char out[PD_BACKUP_PATH_SIZE], pd_error *err)
{
  return pd_home_folder(home, "backups", "backups", out, PD_BACKUP_PATH_SIZE, err);
}

bool pd_backup_name_fits(const char *name, const char *id)
{
  size_t size = strlen(id);
  if (strncmp(name, id, size) != 0) return false;
  if (!name[size]) return true;
  if (name[size] != '.' || !name[size + 1]) return false;
  for (const char *c = name + size + 1; *c; c++)
    if (!isdigit((unsigned char)*c)) return false;
  return true;
}

void pd_backup_list_done(pd_backup_list *list)
{
  free(list->items);
  *list = (pd_backup_list){0};
}

static pd_code add_file(const char *folder, const char *name, pd_backup_list *out, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE];
  size_t size = strlen(name), end = sizeof FILE_END - 1;
  if (size <= end || strcmp(name + size - end, FILE_END) != 0 || size - end >= sizeof out->items->id) return PD_OK;
  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return PD_OK;
  TRY(pd_array_grow(&out->items, out->count, &out->capacity, sizeof out->items[0], "a list of backups", err));
  pd_backup_item *item = &out->items[out->count];
  *item = (pd_backup_item){0};
  snprintf(item->id, sizeof item->id, "%.*s", (int)(size - end), name);
  pd_backup_in in;
  item->is_readable = pd_backup_in_open(&in, path, NULL) == PD_OK && pd_backup_name_fits(item->id, in.head.id);
  if (item->is_readable) item->head = in.head;
  item->file_size = in.file_size;
  pd_backup_in_done(&in);
  out->count++;
  return PD_OK;
}

static int newest_first(const void *a, const void *b)
{
  const pd_backup_item *x = a, *y = b;
  if (x->is_readable != y->is_readable) return x->is_readable ? -1 : 1;
  if (x->head.created_ms != y->head.created_ms) return x->head.created_ms > y->head.created_ms ? -1 : 1;
  if (x->head.sequence != y->head.sequence) return x->head.sequence > y->head.sequence ? -1 : 1;
  return strcmp(y->id, x->id);
}

pd_code pd_backup_list_read(const char *folder, pd_backup_list *out, pd_error *err)
{
  DIR *dir = opendir(folder);
  if (!dir) return pd_file_refused(err, "read the folder", folder);
  const struct dirent *entry;
  pd_code code = PD_OK;
  errno = 0;
  while (code == PD_OK && (entry = readdir(dir))) {
    code = add_file(folder, entry->d_name, out, err);
    errno = 0;
  }
  if (code == PD_OK && errno) code = pd_file_refused(err, "read the folder", folder);
  closedir(dir);
  if (out->count) qsort(out->items, out->count, sizeof out->items[0], newest_first);
  return code;
}

pd_code pd_backup_find(pd_home *home, const char *id, pd_backup_in *in, pd_error *err)
{
  char folder[PD_BACKUP_PATH_SIZE], path[PD_BACKUP_PATH_SIZE + 64];
  *in = (pd_backup_in){.fd = -1};
  TRY(pd_backup_folder(home, folder, err));
  snprintf(path, sizeof path, "%s/%.48s" FILE_END, folder, id);
  pd_code code = strlen(id) > 47 || strchr(id, '/') ? PD_NOT_FOUND : pd_backup_in_open(in, path, err);
  if (code == PD_NOT_FOUND) return pd_error_named(err, PD_NOT_FOUND, "BackupNotFound", "there is no backup '%.60s' in %s", id, folder);
  if (code == PD_CORRUPT || code == PD_FORMAT) {
    pd_error why = err ? *err : (pd_error){0};
    return pd_error_named(err, PD_DECRYPT, "DecryptionFailed", "the backup %.60s is damaged: %.200s", id, why.message);
  }
  TRY(code);
  if (pd_backup_name_fits(id, in->head.id)) return PD_OK;
  return pd_error_named(err, PD_NOT_FOUND, "BackupNotFound", "there is no backup '%.60s' in %s: the file of that name holds %s", id, folder,
                        in->head.id);
}

/* How many of its scope come before it: younger ones, and the new one, wherever a clock that went back has put it. */
static uint64_t rank_of(const pd_backup_list *list, size_t index, const char *folder, const char *new_id)
{
  uint64_t rank = 0;
  for (size_t i = 0; i < list->count; i++) {
    const pd_backup_item *item = &list->items[i];
    if (!item->is_readable || strcmp(item->head.agent, list->items[index].head.agent) != 0) continue;
    bool is_new = strcmp(item->id, new_id) == 0;
    if (is_new || (i < index && !pd_backup_is_imported(folder, item->id))) rank++;
  }
  return rank;
}

pd_code pd_backup_prune(const char *folder, uint64_t keep, const char *new_id, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE + 64];
  CLEANUP(pd_backup_list_done) pd_backup_list list = {0};
  TRY(pd_backup_list_read(folder, &list, err));
  for (size_t i = 0; i < list.count; i++) {
    const pd_backup_item *item = &list.items[i];
    if (!item->is_readable) continue;
    bool is_kept = strcmp(item->id, new_id) == 0 || pd_backup_is_imported(folder, item->id);
    if (is_kept || rank_of(&list, i, folder, new_id) < keep) {
      TRY(pd_backup_mark(folder, item->id, err));
      continue;
    }
    TRY(pd_backup_unmark(folder, item->id, err));
    snprintf(path, sizeof path, "%s/%s" FILE_END, folder, item->id);
    if (unlink(path) != 0 && errno != ENOENT) return pd_file_refused(err, "remove", path);
  }
  return PD_OK;
}

/* ---- state.backup.list ---- */

static void put_item(pd_frame *frame, const pd_backup_item *item)
{
  char scope[PD_NAME_SIZE_MAX + 8];
  pd_json_writer *w = &frame->out;
  pd_backup_scope(&item->head, scope);
  pd_json_open(w, '{');
  pd_json_put_text(w, "backup_id", item->id);
  pd_out_time(frame, "created_at", item->head.created_ms);
  pd_json_put_text(w, "scope", scope);
  pd_json_put_number(w, "file_size_bytes", item->file_size);
  pd_json_close(w, '}');
}

pd_code pd_cap_state_backup_list(pd_frame *frame, pd_error *err)
{
  char folder[PD_BACKUP_PATH_SIZE];
  CLEANUP(pd_backup_list_done) pd_backup_list list = {0};
  CLEANUP(pd_backup_names_done) pd_backup_names missing = {0};
  size_t readable = 0;
  TRY(pd_backup_folder(frame->home, folder, err));
  TRY(pd_backup_list_read(folder, &list, err));
  TRY(pd_backup_missing(folder, &missing, err));
  while (readable < list.count && list.items[readable].is_readable) readable++;
  pd_json_key(&frame->out, "backups");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < readable; i++) put_item(frame, &list.items[i]);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", readable);
  pd_json_key(&frame->out, "unreadable");
  pd_json_open(&frame->out, '[');
  for (size_t i = readable; i < list.count; i++) pd_json_text(&frame->out, pd_text(list.items[i].id));
  pd_json_close(&frame->out, ']');
  pd_json_key(&frame->out, "missing");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < missing.count; i++) pd_json_text(&frame->out, pd_text(missing.ids[i]));
  pd_json_close(&frame->out, ']');
  return PD_OK;
}

/* ---- state.backup.verify ---- */

/* Replay the bundle against an empty store, which is not changed: what passes can be restored. */
static pd_code replay(pd_backup_in *in, const pd_backup_store *store, pd_error *err)
{
  pd_options options = {.cache_size_max = PD_BACKUP_CACHE_BYTES, .value_size_max = UINT32_MAX - 1};
  pd_import_options import = {.is_dry_run = true};
  pd_backup_range range;
  pd_source source = pd_backup_bundle(in, store, &range);
  pd_store *scratch = NULL;
  TRY(pd_store_open("memory:", store->name, &options, &scratch, err));
  pd_code code = pd_import_from(scratch, &source, &import, NULL, err);
  pd_store_close(scratch, NULL);
  if (code != PD_CORRUPT && code != PD_FORMAT) return code;
  pd_error why = err ? *err : (pd_error){0};
  return pd_error_named(err, PD_DECRYPT, "DecryptionFailed", "the backup %s is damaged: the store of '%s': %.200s", in->head.id,
                        store->name, why.message);
}

pd_code pd_cap_state_backup_verify(pd_frame *frame, pd_error *err)
{
  char id[128], scope[PD_NAME_SIZE_MAX + 8];
  CLEANUP(pd_backup_in_done) pd_backup_in in = {.fd = -1};
  bool has_shared = false;
  uint64_t commits = 0;
  if (!pd_in_string(frame, "backup_id", id, sizeof id)) return pd_error_set(err, PD_INVALID, "backup_id is too long");
  TRY(pd_backup_find(frame->home, id, &in, err));
  TRY(pd_backup_in_unlock_by(&in, frame->home, err));
  in.frame = frame;
  TRY(pd_backup_in_verify(&in, err));
  for (size_t i = 0; i < in.manifest.count; i++) TRY(replay(&in, &in.manifest.stores[i], err));
  pd_json_put_bool(&frame->out, "valid", true);
  pd_out_time(frame, "created_at", in.head.created_ms);
  pd_backup_scope(&in.head, scope);
  pd_json_put_text(&frame->out, "scope", scope);
  pd_json_key(&frame->out, "agents");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < in.manifest.count; i++) {
    const pd_backup_store *store = &in.manifest.stores[i];
    commits += store->commits;
    if (pd_backup_is_agent(store))
      pd_json_text(&frame->out, pd_text(store->name));
    else
      has_shared = true;
  }
  pd_json_close(&frame->out, ']');
  pd_json_put_bool(&frame->out, "has_shared_state", has_shared);
  pd_json_put_number(&frame->out, "commits", commits);
  pd_json_put_number(&frame->out, "file_size_bytes", in.file_size);
  return PD_OK;
}
