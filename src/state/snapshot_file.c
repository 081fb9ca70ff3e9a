/* snapshot_file.c: the folder of system snapshots: ids, files, damage. Invariants N1 to N3 are in snapshot.h. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "state/last_id.h"
#include "state/moment.h"
#include "state/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAMP "snap-YYYYMMDDTHHMMSSZ"
#define STAMP_SIZE (sizeof STAMP - 1)
#define PREFIX_SIZE (sizeof "snap-" - 1)
#define NUMBER_MAX 999999999
#define TRIES_MAX 100000
#define FILE_NAME_SIZE (PD_SNAPSHOT_ID_SIZE + 16)
#define PART_STALE_MS ((int64_t)3600 * 1000)
#define SEAL ",\"sha256\":\""
#define SEAL_SIZE (sizeof SEAL - 1 + 64 + 3) /* ,"sha256":"<64 digits>"} and a newline */

/* ---- names ---- */

static unsigned long number_of(const char *id)
{
  return id[STAMP_SIZE] ? strtoul(id + STAMP_SIZE + 1, NULL, 10) : 1;
}

bool pd_snapshot_id_check(const char *id)
{
  static const char form[] = STAMP;
  for (size_t i = 0; i < STAMP_SIZE; i++)
    if (strchr("YMDHS", form[i]) ? id[i] < '0' || id[i] > '9' : id[i] != form[i]) return false;
  if (!id[STAMP_SIZE]) return true;
  const char *digits = id + STAMP_SIZE + 1;
  size_t size = strspn(digits, "0123456789");
  return id[STAMP_SIZE] == '-' && size && size <= 9 && !digits[size] && digits[0] != '0' && strcmp(digits, "1") != 0;
}

static void stamp_of(int64_t now_ms, char out[PD_SNAPSHOT_ID_SIZE])
{
  char text[PD_TIME_TEXT_SIZE];
  pd_time_text(now_ms, text); /* 2026-11-15T10:20:30.123Z */
  size_t used = (size_t)snprintf(out, PD_SNAPSHOT_ID_SIZE, "snap-");
  for (const char *at = text; *at && *at != '.' && used < STAMP_SIZE - 1; at++)
    if (*at != '-' && *at != ':') out[used++] = *at;
  out[used++] = 'Z';
  out[used] = 0;
}

static void file_name(const char *id, char out[FILE_NAME_SIZE])
{
  snprintf(out, FILE_NAME_SIZE, "%s.json", id);
}

static void part_name(const char *id, char out[FILE_NAME_SIZE])
{
  snprintf(out, FILE_NAME_SIZE, ".%s.json.part", id);
}

static bool is_there(int folder, const char *name)
{
  return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

bool pd_snapshot_is_there(int folder, const char *id)
{
  char name[FILE_NAME_SIZE], part[FILE_NAME_SIZE];
  file_name(id, name);
  part_name(id, part);
  return is_there(folder, part) || is_there(folder, name); /* in this order: a part becomes a file, never the other way */
}

/* ---- the folder ---- */

pd_code pd_snapshot_folder(pd_home *home, bool create, int *out, pd_error *err)
{
  char path[PATH_MAX];
  if (create || !home->folder)
    TRY(pd_home_folder(home, "snapshots", "system snapshots", path, sizeof path, err));
  else if (snprintf(path, sizeof path, "%s/snapshots", home->folder) >= (int)sizeof path)
    return pd_error_set(err, PD_LIMIT, "the path %.200s/snapshots is too long", home->folder);
  *out = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (*out >= 0 || (errno == ENOENT && !create)) return PD_OK;
  int why = errno;
  struct stat st;
  if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
    return pd_error_set(err, PD_STORAGE, "the folder of snapshots %.300s is a symbolic link, which is not followed", path);
  return pd_error_set(err, PD_STORAGE, "cannot open the folder of snapshots %.300s: %s", path, strerror(why));
}

void pd_snapshot_clean(int folder)
{
  int64_t now_ms = pd_clock_now_ms(NULL); /* the clock of the file system, not the home's */
  DIR *dir = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir) return;
  for (const struct dirent *entry; (entry = readdir(dir));) {
    size_t size = strlen(entry->d_name);
    struct stat st;
    if (strncmp(entry->d_name, ".snap-", 6) != 0 || size < 10 || strcmp(entry->d_name + size - 10, ".json.part") != 0) continue;
    if (fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && now_ms - (int64_t)st.st_mtime * 1000 > PART_STALE_MS)
      unlinkat(folder, entry->d_name, 0);
  }
  closedir(dir);
}

/* ---- writing ---- */

static pd_code failed(pd_error *err, const char *what, const char *name)
{
  pd_code code = errno == ENOSPC || errno == EDQUOT ? PD_FULL : PD_STORAGE;
  return pd_error_set(err, code, "cannot %s the snapshot %s: %s", what, name, strerror(errno));
}

pd_code pd_snapshot_reserve(int folder, int64_t now_ms, char out_id[PD_SNAPSHOT_ID_SIZE], int *out_file, pd_error *err)
{
  char stamp[PD_SNAPSHOT_ID_SIZE], name[FILE_NAME_SIZE], part[FILE_NAME_SIZE];
  CLEANUP(pd_last_id_done) pd_last_id last = {.fd = -1};
  TRY(pd_last_id_open_at(folder, &last, err));
  stamp_of(now_ms, stamp);
  unsigned number = pd_last_id_next(&last, stamp + PREFIX_SIZE);
  for (unsigned i = 0; i < TRIES_MAX && number <= NUMBER_MAX; i++, number++) {
    if (number == 1)
      snprintf(out_id, PD_SNAPSHOT_ID_SIZE, "%s", stamp);
    else
      snprintf(out_id, PD_SNAPSHOT_ID_SIZE, "%.*s-%u", (int)STAMP_SIZE, stamp, number);
    file_name(out_id, name);
    part_name(out_id, part);
    int file = openat(folder, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) return failed(err, "make", out_id);
    if (file < 0) continue;
    if (!is_there(folder, name)) { /* it cannot come from now on: only who holds the part makes it */
      pd_code code = pd_last_id_keep(&last, stamp + PREFIX_SIZE, number, err);
      if (code) pd_snapshot_abandon(folder, out_id, file);
      if (!code) *out_file = file;
      return code;
    }
    pd_snapshot_abandon(folder, out_id, file);
  }
  return pd_error_set(err, PD_STORAGE, "there is no free id for a snapshot of %s", stamp);
}

void pd_snapshot_abandon(int folder, const char *id, int file)
{
  char part[FILE_NAME_SIZE];
  part_name(id, part);
  unlinkat(folder, part, 0);
  close(file);
}

pd_code pd_snapshot_finish(int folder, const char *id, int file, pd_bytes object, uint64_t *out_size, pd_error *err)
{
  char name[FILE_NAME_SIZE], part[FILE_NAME_SIZE], hex[PD_ID_HEX_SIZE], seal[SEAL_SIZE + 1];
  file_name(id, name);
  part_name(id, part);
  pd_id hash = pd_sha256((pd_bytes){object.data, object.size - 1});
  snprintf(seal, sizeof seal, SEAL "%s\"}\n", pd_id_hex(&hash, hex));
  pd_code code = pd_fd_write(file, object.data, object.size - 1, part, err);
  if (code == PD_OK) code = pd_fd_write(file, seal, SEAL_SIZE, part, err);
  if (code == PD_OK && fsync(file) != 0) code = failed(err, "write", id);
  if (code == PD_OK && renameat(folder, part, folder, name) != 0) code = failed(err, "name", id);
  if (code) {
    pd_snapshot_abandon(folder, id, file);
    return code;
  }
  close(file);
  if (fsync(folder) != 0) return failed(err, "sync", id); /* else the rename may be lost though the file survived */
  *out_size = object.size - 1 + SEAL_SIZE;
  return PD_OK;
}

/* ---- reading ---- */

static pd_code read_file(int folder, const char *name, pd_buf *out, pd_error *err)
{
  struct stat st;
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return pd_error_set(err, PD_NOT_FOUND, "there is no file %s", name);
  if (file < 0 && errno == ELOOP) return pd_error_set(err, PD_CORRUPT, "it is a symbolic link, which is not followed");
  if (file < 0) return pd_error_set(err, PD_STORAGE, "it cannot be opened: %s", strerror(errno));
  pd_code code = PD_OK;
  if (fstat(file, &st) != 0 || !S_ISREG(st.st_mode))
    code = pd_error_set(err, PD_CORRUPT, "it is no regular file");
  else if ((uint64_t)st.st_size > PD_SNAPSHOT_SIZE_MAX)
    code = pd_error_set(err, PD_CORRUPT, "it is larger than %zu bytes", PD_SNAPSHOT_SIZE_MAX);
  else
    code = pd_buf_reserve(out, (size_t)st.st_size, err);
  while (code == PD_OK && out->size < (size_t)st.st_size) {
    ssize_t got = read(file, out->data + out->size, (size_t)st.st_size - out->size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      code = pd_error_set(err, PD_STORAGE, "it cannot be read: %s", got ? strerror(errno) : "it became shorter");
    else
      out->size += (size_t)got;
  }
  close(file);
  return code;
}

/* Seal, JSON, and that it is the snapshot that its name says. */
static pd_code check(const char *id, pd_bytes text, pd_json *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE] = "";
  const char *data = text.data;
  if (text.size <= SEAL_SIZE || memcmp(data + text.size - SEAL_SIZE, SEAL, sizeof SEAL - 1) != 0)
    return pd_error_set(err, PD_CORRUPT, "it is no whole snapshot: it does not end with its checksum");
  pd_id hash = pd_sha256((pd_bytes){data, text.size - SEAL_SIZE});
  if (memcmp(pd_id_hex(&hash, hex), data + text.size - SEAL_SIZE + sizeof SEAL - 1, 64) != 0)
    return pd_error_set(err, PD_CORRUPT, "it is damaged: its content does not match its checksum");
  pd_error why = {0};
  if (pd_json_parse(text, out, &why)) return pd_error_set(err, PD_CORRUPT, "it is no JSON: %.150s", why.message);
  if (!pd_json_is(pd_json_member(*out, "snapshot_id"), id)) return pd_error_set(err, PD_CORRUPT, "it is another snapshot under this name");
  return PD_OK;
}

pd_code pd_snapshot_read(int folder, const char *id, pd_buf *out, pd_error *err)
{
  char name[FILE_NAME_SIZE];
  pd_json json;
  file_name(id, name);
  TRY(read_file(folder, name, out, err));
  return check(id, pd_buf_bytes(out), &json, err);
}

static pd_code skip(pd_snapshot_list *list, const char *name, const char *why, pd_error *err)
{
  TRY(pd_array_grow(&list->skips, list->skip_count, &list->skip_capacity, sizeof list->skips[0], "a list of snapshots", err));
  pd_snapshot_skip *s = &list->skips[list->skip_count++];
  snprintf(s->file, sizeof s->file, "%s", name);
  snprintf(s->why, sizeof s->why, "%.199s", why);
  return PD_OK;
}

/* Older ones say it by the name alone. */
static void take_maker(pd_json snapshot, pd_snapshot_info *info)
{
  pd_json maker = pd_json_member(snapshot, "created_by"), by_operator = pd_json_member(snapshot, "by_operator");
  info->is_operators = by_operator.kind == PD_JSON_BOOL ? pd_json_true(by_operator) : pd_json_is(maker, "operator");
  if (info->is_operators || maker.kind != PD_JSON_STRING || maker.raw.size < 2) return;
  snprintf(info->maker, sizeof info->maker, "%.*s", (int)(maker.raw.size - 2),
           (const char *)maker.raw.data + 1); /* names need no escapes */
}

static pd_code take_file(int folder, const char *name, pd_snapshot_list *list, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_snapshot_info info = {0};
  pd_error why = {0};
  pd_json json;
  size_t size = strlen(name);
  if (size <= 5 || size - 5 >= sizeof info.id || strcmp(name + size - 5, ".json") != 0) return skip(list, name, "it is no snapshot", err);
  snprintf(info.id, sizeof info.id, "%.*s", (int)(size - 5), name);
  if (!pd_snapshot_id_check(info.id)) return skip(list, name, "it is no snapshot", err);
  pd_code code = read_file(folder, name, &text, &why);
  if (code == PD_NOT_FOUND) return PD_OK; /* retention took it meanwhile */
  if (code == PD_OK) code = check(info.id, pd_buf_bytes(&text), &json, &why);
  if (code == PD_NO_MEMORY) return pd_error_memory(err, "a list of snapshots");
  if (code) return skip(list, name, why.message, err);
  info.time_ms = pd_json_time(pd_json_member(json, "timestamp"));
  info.size = text.size;
  take_maker(json, &info);
  TRY(pd_array_grow(&list->items, list->count, &list->capacity, sizeof list->items[0], "a list of snapshots", err));
  list->items[list->count++] = info;
  return PD_OK;
}

static int newest_first(const void *a, const void *b)
{
  const pd_snapshot_info *x = a, *y = b;
  if (x->time_ms != y->time_ms) return x->time_ms < y->time_ms ? 1 : -1;
  unsigned long m = number_of(x->id), n = number_of(y->id);
  return m < n ? 1 : m > n ? -1 : strcmp(y->id, x->id);
}

pd_code pd_snapshot_list_read(int folder, pd_snapshot_list *out, pd_error *err)
{
  *out = (pd_snapshot_list){0};
  if (folder < 0) return PD_OK;
  DIR *dir = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir) return pd_error_set(err, PD_STORAGE, "cannot read the folder of snapshots: %s", strerror(errno));
  pd_code code = PD_OK;
  for (const struct dirent *entry; !code && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') code = take_file(folder, entry->d_name, out, err);
  closedir(dir);
  if (code == PD_OK && out->count > 1) qsort(out->items, out->count, sizeof out->items[0], newest_first);
  return code;
}

void pd_snapshot_list_done(pd_snapshot_list *list)
{
  free(list->items);
  free(list->skips);
  *list = (pd_snapshot_list){0};
}
