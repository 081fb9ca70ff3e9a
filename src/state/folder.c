/* folder.c: folders.watch, folders.unwatch, folders.list. See folder.h. */
#include "state/folder.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/folder_roots.h"
#include "state/moment.h"
#include "state/run.h"
#include "state/token.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_SIZE 128

static void key_of(const char *agent, const char *id, char out[KEY_SIZE])
{
  snprintf(out, KEY_SIZE, "folder/%s/%s", agent, id);
}

static void id_of(const char *path, char out[PD_FOLDER_ID_SIZE])
{
  char hex[PD_ID_HEX_SIZE];
  pd_id id = pd_sha256(pd_text(path));
  snprintf(out, PD_FOLDER_ID_SIZE, "%.16s", pd_id_hex(&id, hex));
}

/* ---- in the store ---- */

void pd_folders_done(pd_folder_list *list)
{
  for (size_t i = 0; i < list->count; i++) free(list->items[i].path);
  list->count = 0;
}

static uint64_t number(pd_json object, const char *name)
{
  uint64_t value = 0;
  return pd_json_u64(pd_json_member(object, name), &value) ? value : 0;
}

static pd_code parse_folder(pd_bytes key, pd_bytes value, pd_folder *out, pd_error *err)
{
  pd_buf path = {0};
  pd_json json;
  if (key.size < 16 || pd_json_parse(value, &json, NULL) || pd_json_decode(pd_json_member(json, "path"), &path, NULL))
    return pd_error_set(err, PD_CORRUPT, "'%.*s' in the system store is not as perdure writes it", (int)key.size, (const char *)key.data);
  pd_code code = pd_buf_byte(&path, 0, err);
  if (code) {
    pd_buf_done(&path);
    return code;
  }
  *out = (pd_folder){.path = (char *)path.data};
  snprintf(out->id, sizeof out->id, "%.16s", (const char *)key.data + key.size - 16);
  pd_json hidden = pd_json_member(json, "hidden");
  out->has_hidden = hidden.kind == PD_JSON_BOOL && pd_json_true(hidden);
  pd_json rooted = pd_json_member(json, "rooted");
  out->is_rooted = rooted.kind == PD_JSON_BOOL && pd_json_true(rooted);
  out->watched_ms = (int64_t)number(json, "watched_ms");
  out->scanned_ms = (int64_t)number(json, "scanned_ms");
  out->files = number(json, "files");
  return PD_OK;
}

pd_code pd_folders_read(pd_home *home, const char *agent, pd_folder_list *out, pd_error *err)
{
  pd_store *store;
  pd_iter *iter = NULL;
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  char prefix[KEY_SIZE];
  out->count = 0;
  key_of(agent, "", prefix);
  pd_scan scan = {.prefix = pd_text(prefix)};
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  TRY(pd_iter_open(store, "main", &scan, &iter, err));
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK && out->count < PD_FOLDERS_MAX) {
    code = parse_folder(entry.key, value, &out->items[out->count], err);
    if (code) break;
    out->items[out->count++].version = entry.version;
  }
  pd_iter_close(iter);
  return code == PD_NOT_FOUND ? PD_OK : code;
}

static pd_code write_folder(pd_home *home, const char *agent, const pd_folder *folder, const char *reason, pd_ack *ack, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json_writer w = {.out = &text, .err = err};
  pd_note note = {.ref = "main", .author = agent, .reason = reason};
  pd_store *store;
  char key[KEY_SIZE];
  key_of(agent, folder->id, key);
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "path", folder->path);
  pd_json_put_bool(&w, "hidden", folder->has_hidden);
  if (folder->is_rooted) pd_json_put_bool(&w, "rooted", true);
  pd_json_put_number(&w, "watched_ms", (uint64_t)folder->watched_ms);
  pd_json_put_number(&w, "scanned_ms", (uint64_t)folder->scanned_ms);
  pd_json_put_number(&w, "files", folder->files);
  pd_json_close(&w, '}');
  TRY(w.code);
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
  return pd_put_if(store, pd_text(key), pd_buf_bytes(&text), folder->version, &note, ack, err);
}

pd_code pd_folder_look(pd_home *home, const char *agent, pd_folder *folder, uint64_t files_max, int64_t now_ms, pd_manifest_scan *scan,
                       pd_manifest *out, pd_error *err)
{
  *scan = (pd_manifest_scan){
    .agent = agent,
    .folder_id = folder->id,
    .path = folder->path,
    .is_rooted = folder->is_rooted,
    .has_hidden = folder->has_hidden,
    .files_max = files_max,
    .last_ms = folder->scanned_ms,
    .now_ms = now_ms,
  };
  TRY(pd_manifest_update(home, scan, out, err));
  if (*scan->why) return PD_OK;
  folder->scanned_ms = now_ms;
  folder->files = scan->file_count;
  pd_code code = write_folder(home, agent, folder, "watched folder", NULL, err);
  return code == PD_CONFLICT ? PD_OK : code; /* another look was noted meanwhile, or it was unwatched */
}

/* ---- the capabilities ---- */

/* May any folder be named? By local agents, who run as the user whose files they are, and by the operator, also one who calls as an agent.
 * A server cannot tell whose files its agents may see, with or without tokens. */
static bool is_free(const pd_frame *frame)
{
  const pd_token_info *token = frame->ctx->token;
  if (frame->ctx->is_operator) return true;
  return token ? token->role == PD_ROLE_OPERATOR : !frame->ctx->is_remote;
}

static bool touches_home(const pd_frame *frame, const char *path)
{
  char home[PATH_MAX];
  return frame->home->folder && realpath(frame->home->folder, home) && (pd_path_is_within(path, home) || pd_path_is_within(home, path));
}

/* The folder that is meant, by somebody who may name any: absolute, there, and none that would show what other agents have. */
static pd_code find_any(const pd_frame *frame, char out[PATH_MAX], pd_error *err)
{
  char given[PATH_MAX];
  struct stat st;
  const char *name = frame->capability->name;
  if (!pd_in_string(frame, "path", given, sizeof given) || given[0] != '/')
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'path' must be an absolute path", name);
  if (!realpath(given, out) || stat(out, &st) != 0)
    return pd_error_named(err, PD_NOT_FOUND, "FolderNotFound", "%s: there is no folder %.300s: %s", name, given, strerror(errno));
  if (!S_ISDIR(st.st_mode)) return pd_error_named(err, PD_NOT_FOUND, "FolderNotFound", "%s: %.300s is no folder", name, given);
  if (!pd_utf8_check(pd_text(out)))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: the name of the folder is no UTF-8 text", name);
  if (touches_home(frame, out))
    return pd_error_named(err, PD_DENIED, "PermissionDenied", "%s: %.300s holds, or is held by, the home of all agents", name, given);
  return PD_OK;
}

/* The same for an agent of a server: below folders.roots. All else has one answer, which does not say what is there. */
static pd_code find_rooted(const pd_frame *frame, char out[PATH_MAX], pd_error *err)
{
  char given[PATH_MAX];
  const char *name = frame->capability->name;
  bool is_path = pd_in_string(frame, "path", given, sizeof given) && pd_path_clean(given, out) && !touches_home(frame, out);
  int folder = is_path ? pd_folder_roots_open(frame->home, out) : -1, why = is_path ? errno : EPERM;
  if (folder >= 0) {
    close(folder);
    return PD_OK;
  }
  if (why == EPERM)
    return pd_error_named(
      err, PD_DENIED, "PermissionDenied",
      "%s: an agent that calls through a server may name only folders below those of the setting folders.roots, without "
      "'..' and symbolic links; the operator watches others for it",
      name);
  if (why == ENOSYS) return pd_error_set(err, PD_UNSUPPORTED, "%s: folders.roots needs a kernel with openat2 (Linux 5.6)", name);
  return pd_error_named(err, PD_NOT_FOUND, "FolderNotFound", "%s: there is no folder %.300s: %s", name, out, strerror(why));
}

static void write_one(pd_json_writer *w, const pd_folder *folder)
{
  pd_json_open(w, '{');
  pd_json_put_text(w, "path", folder->path);
  pd_json_put_bool(w, "hidden", folder->has_hidden);
  pd_json_put_number(w, "files", folder->files);
  pd_json_put_time(w, "watched_at", folder->watched_ms);
  pd_json_put_time(w, "scanned_at", folder->scanned_ms);
  pd_json_close(w, '}');
}

static pd_folder *find_in(pd_folder_list *list, const char *path)
{
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i].path, path) == 0) return &list->items[i];
  return NULL;
}

pd_code pd_cap_folders_watch(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_folders_done) pd_folder_list list = {0};
  CLEANUP(pd_manifest_done) pd_manifest files = {0};
  char path[PATH_MAX];
  pd_manifest_scan scan;
  pd_ack ack;
  bool is_rooted = !is_free(frame);
  TRY(is_rooted ? find_rooted(frame, path, err) : find_any(frame, path, err));
  TRY(pd_folders_read(frame->home, frame->agent, &list, err));
  pd_folder *folder = find_in(&list, path);
  bool is_new = !folder;
  if (is_new && list.count == PD_FOLDERS_MAX)
    return pd_error_named(err, PD_LIMIT, "LimitExceeded", "%s: agent '%s' watches %d folders already", frame->capability->name,
                          frame->agent, PD_FOLDERS_MAX);
  if (is_new) {
    folder = &list.items[list.count];
    *folder = (pd_folder){.path = strdup(path), .watched_ms = frame->now_ms};
    if (!folder->path) return pd_error_memory(err, "a watched folder");
    id_of(path, folder->id);
    list.count++;
  }
  bool has_hidden = pd_in_bool(frame, "hidden", false), is_other = has_hidden != folder->has_hidden;
  if (is_other) folder->scanned_ms = 0; /* what was not looked at before is not new */
  /* What the operator watches for the agent stays so, unless the agent wants to see more of it. */
  bool stays_free = is_rooted && !is_new && !is_other && !folder->is_rooted, is_freed = folder->is_rooted && !is_rooted;
  folder->is_rooted = is_rooted && !stays_free;
  folder->has_hidden = has_hidden;
  if (is_new || is_freed || !folder->scanned_ms) {
    TRY(write_folder(frame->home, frame->agent, folder, frame->capability->name, &ack, err));
    pd_frame_commit(frame, &ack);
    folder->version = ack.version;
    TRY(pd_folder_look(frame->home, frame->agent, folder, frame->home->config.briefing_files_max, frame->now_ms, &scan, &files, err));
    if (*scan.why) return pd_error_named(err, PD_STORAGE, "FolderNotFound", "%s: %.300s: %s", frame->capability->name, path, scan.why);
  }
  pd_json_put_text(&frame->out, "path", folder->path);
  pd_json_put_bool(&frame->out, "created", is_new);
  pd_json_put_number(&frame->out, "files", folder->files);
  return PD_OK;
}

pd_code pd_cap_folders_unwatch(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_folders_done) pd_folder_list list = {0};
  char given[PATH_MAX], path[PATH_MAX], key[KEY_SIZE];
  pd_store *store;
  pd_ack ack;
  bool has_given = pd_in_string(frame, "path", given, sizeof given);
  TRY(pd_folders_read(frame->home, frame->agent, &list, err));
  const pd_folder *folder = has_given ? find_in(&list, given) : NULL; /* it may be gone */
  bool is_found = has_given && !folder && (is_free(frame) ? realpath(given, path) != NULL : pd_path_clean(given, path));
  if (is_found) folder = find_in(&list, path);
  if (folder) {
    pd_note note = {.ref = "main", .author = frame->agent, .run = frame->ctx->session, .reason = frame->capability->name};
    key_of(frame->agent, folder->id, key);
    TRY(pd_home_store(frame->home, PD_STORE_SYSTEM, true, &store, err));
    pd_code code = pd_delete(store, pd_text(key), PD_ANY_VERSION, &note, &ack, err);
    if (code == PD_OK) pd_frame_commit(frame, &ack);
    if (code && code != PD_NOT_FOUND) return code;
    TRY(pd_manifest_forget(frame->home, frame->agent, folder->id, err));
  }
  pd_json_put_bool(&frame->out, "removed", folder != NULL);
  return PD_OK;
}

pd_code pd_cap_folders_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_folders_done) pd_folder_list list = {0};
  TRY(pd_folders_read(frame->home, frame->agent, &list, err));
  pd_json_key(&frame->out, "folders");
  pd_json_open(&frame->out, '[');
  for (size_t i = 0; i < list.count; i++) write_one(&frame->out, &list.items[i]);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", list.count);
  return PD_OK;
}
