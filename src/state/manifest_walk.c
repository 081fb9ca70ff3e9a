/* manifest_walk.c: walking a watched folder. Rules M1 to M4 are in manifest.h. */
#include "base/base.h"
#include "base/beneath.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/folder_roots.h"
#include "state/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RACY_MS 2000
#define EDGE_SIZE ((size_t)1024 * 1024)
#define WALK_US_MAX ((int64_t)10 * 1000000) /* that one look takes; what is left is told as cut off */
#define NAMES_FOR_A_FILE 4                  /* names of any kind that are looked at, for each file that may be; */
#define NAMES_MORE 1024                     /* and so many more: folders without files are work, too */

typedef struct walk {
  pd_manifest_scan *scan;
  pd_manifest *manifest;
  char path[PATH_MAX]; /* relative */
  size_t size;
  int64_t now_ms; /* of the system: what file systems stamp with */
  int64_t end_us; /* when it gives up */
  uint64_t names_left;
  uint8_t part[65536];
} walk;

static int64_t ns_of(struct timespec t)
{
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- content ---- */

static bool add_bytes(walk *k, int file, pd_hash *hash, uint64_t most)
{
  while (most) {
    ssize_t got = read(file, k->part, most < sizeof k->part ? (size_t)most : sizeof k->part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    pd_hash_add(hash, k->part, (size_t)got);
    most -= (uint64_t)got;
  }
  return true;
}

static bool hash_file(walk *k, int folder, const char *name, struct stat *st, pd_id *out)
{
  pd_hash hash;
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return false;
  bool is_ok = fstat(file, st) == 0 && S_ISREG(st->st_mode);
  pd_hash_init(&hash);
  if (is_ok && st->st_size <= PD_MANIFEST_HASH_MAX) {
    is_ok = add_bytes(k, file, &hash, (uint64_t)PD_MANIFEST_HASH_MAX);
  } else if (is_ok) {
    int64_t marks[2] = {st->st_size, ns_of(st->st_mtim)};
    pd_hash_add(&hash, marks, sizeof marks);
    is_ok = add_bytes(k, file, &hash, EDGE_SIZE) && lseek(file, -(off_t)EDGE_SIZE, SEEK_END) >= 0 && add_bytes(k, file, &hash, EDGE_SIZE);
  }
  close(file);
  *out = pd_hash_end(&hash);
  return is_ok;
}

static bool hash_link(int folder, const char *name, pd_id *out)
{
  char target[PATH_MAX];
  ssize_t size = readlinkat(folder, name, target, sizeof target);
  if (size < 0) return false;
  pd_bytes parts[2] = {pd_text("link "), {target, (size_t)size}};
  *out = pd_sha256_parts(parts, 2);
  return true;
}

/* ---- one file ---- */

static bool is_as_before(const pd_file *file, const struct stat *st)
{
  return !file->deleted_ms && file->size == (uint64_t)st->st_size && file->inode == st->st_ino && file->mtime_ns == ns_of(st->st_mtim) &&
         file->ctime_ns == ns_of(st->st_ctim) && file->ctime_ns / 1000000 + RACY_MS < file->read_ms;
}

/* When it happened, by the home's clock: since the last look; the file's own time if that fits (it may have been moved here with all its
 * times), else now, so that it is rather told twice than never. */
static int64_t moment_of(const pd_manifest_scan *scan, int64_t ctime_ns)
{
  int64_t ms = ctime_ns / 1000000;
  return ms > scan->last_ms && ms <= scan->now_ms ? ms : scan->now_ms;
}

static pd_code take_file(walk *k, int folder, const char *name, struct stat *st, pd_error *err)
{
  pd_file *file;
  bool is_new;
  pd_id hash;
  TRY(pd_manifest_file(k->manifest, k->path, &file, &is_new, err));
  file->is_seen = true;
  if (!is_new && is_as_before(file, st)) return PD_OK;
  bool is_read = S_ISLNK(st->st_mode) ? hash_link(folder, name, &hash) : hash_file(k, folder, name, st, &hash);
  if (!is_read) {
    k->scan->unreadable++;
    if (!is_new) return PD_OK; /* as it was known */
    hash = (pd_id){0};
  }
  int64_t moment = moment_of(k->scan, ns_of(st->st_ctim));
  if (is_new || file->deleted_ms) {
    file->created_ms = k->scan->last_ms ? moment : 0;
    file->changed_ms = file->deleted_ms = 0;
  } else if (!pd_id_equal(&hash, &file->hash)) {
    file->changed_ms = moment;
  }
  file->hash = hash;
  file->size = (uint64_t)st->st_size;
  file->inode = st->st_ino;
  file->mtime_ns = ns_of(st->st_mtim);
  file->ctime_ns = ns_of(st->st_ctim);
  file->read_ms = k->now_ms;
  file->is_dirty = true;
  return PD_OK;
}

/* ---- folders ---- */

static pd_code walk_folder(walk *k, int folder, int depth, pd_error *err);

static pd_code take_entry(walk *k, int folder, const char *name, int depth, pd_error *err)
{
  struct stat st;
  if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) k->scan->unreadable++;
    return PD_OK;
  }
  if (S_ISDIR(st.st_mode)) {
    if (depth == PD_MANIFEST_DEPTH_MAX) {
      k->scan->is_cut = true;
      return PD_OK;
    }
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0) return walk_folder(k, inner, depth + 1, err);
    k->scan->unreadable++;
    return PD_OK;
  }
  if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) return PD_OK;
  if (k->scan->file_count == k->scan->files_max) {
    k->scan->is_cut = true;
    return PD_OK;
  }
  k->scan->file_count++;
  return take_file(k, folder, name, &st, err);
}

/* The time is up, or too many names were looked at: also where there are no files. */
static bool is_used_up(walk *k)
{
  bool is_over = !k->names_left || pd_clock_monotonic_us() > k->end_us;
  if (is_over) k->scan->is_cut = true;
  return is_over;
}

/* Takes `folder` over. */
static pd_code walk_folder(walk *k, int folder, int depth, pd_error *err)
{
  DIR *dir = fdopendir(folder);
  if (!dir) {
    close(folder);
    return pd_error_memory(err, "a look at a folder");
  }
  pd_code code = PD_OK;
  size_t before = k->size;
  for (const struct dirent *entry; code == PD_OK && (entry = readdir(dir));) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    if (is_used_up(k)) break;
    k->names_left--;
    if (name[0] == '.' && !k->scan->has_hidden) continue;
    int size = snprintf(k->path + before, sizeof k->path - before, "%s%s", before ? "/" : "", name);
    if (size < 0 || (size_t)size >= sizeof k->path - before) {
      k->scan->is_cut = true;
      continue;
    }
    k->size = before + (size_t)size;
    code = take_entry(k, dirfd(dir), name, depth, err);
  }
  k->path[before] = 0;
  k->size = before;
  closedir(dir);
  return code;
}

/* ---- what is gone ---- */

/* As fstatat, but links on the way are not followed: what a swapped folder leads to is not the agent's to know. */
static bool stat_beneath(int root, const char *path, struct stat *st)
{
  int file = pd_open_beneath(root, path, O_PATH | O_NOFOLLOW);
  if (file < 0 && errno == ENOSYS) return fstatat(root, path, st, AT_SYMLINK_NOFOLLOW) == 0;
  if (file < 0) return false;
  bool is_there = fstat(file, st) == 0;
  close(file);
  return is_there;
}

/* The time of the nearest folder above that is still there: nothing was removed from it later. */
static int64_t gone_at(const pd_manifest_scan *scan, int root, const char *path)
{
  char above[PATH_MAX];
  struct stat st;
  snprintf(above, sizeof above, "%s", path);
  for (char *slash; (slash = strrchr(above, '/'));) {
    *slash = 0;
    if (stat_beneath(root, above, &st)) return moment_of(scan, ns_of(st.st_mtim));
  }
  return fstat(root, &st) == 0 ? moment_of(scan, ns_of(st.st_mtim)) : scan->now_ms;
}

static void find_gone(walk *k, int root)
{
  for (size_t i = 0; i < k->manifest->known; i++) {
    pd_file *file = &k->manifest->files[i];
    struct stat st;
    if (file->is_seen || file->deleted_ms) continue;
    bool is_there = stat_beneath(root, file->path, &st);
    if (is_there ? !S_ISDIR(st.st_mode) : errno != ENOENT && errno != ENOTDIR && errno != ELOOP) continue; /* M2 */
    file->deleted_ms = gone_at(k->scan, root, file->path);
    file->is_dirty = true;
  }
}

/* M1. A kernel that cannot do it sees to the last part alone; below roots nothing is looked at then. */
static int open_root(pd_home *home, pd_manifest_scan *scan)
{
  if (scan->is_rooted) return pd_folder_roots_open(home, scan->path);
  int root = pd_open_straight(scan->path, O_RDONLY | O_DIRECTORY);
  return root < 0 && errno == ENOSYS ? open(scan->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : root;
}

pd_code pd_manifest_walk(pd_home *home, pd_manifest_scan *scan, pd_manifest *manifest, pd_error *err)
{
  int root = open_root(home, scan);
  int first = root >= 0 ? dup(root) : -1;
  if (first < 0) {
    bool is_outside = root < 0 && scan->is_rooted && errno == EPERM;
    const char *why = is_outside ? "it is not, or not without symbolic links, below a folder of folders.roots" : strerror(errno);
    snprintf(scan->why, sizeof scan->why, "it cannot be looked at: %s", why);
    if (root >= 0) close(root);
    return PD_OK;
  }
  walk *k = calloc(1, sizeof *k);
  if (!k) {
    close(root);
    close(first);
    return pd_error_memory(err, "a look at a folder");
  }
  k->scan = scan;
  k->manifest = manifest;
  k->now_ms = pd_clock_now_ms(NULL);
  k->end_us = pd_clock_monotonic_us() + WALK_US_MAX;
  k->names_left = scan->files_max * NAMES_FOR_A_FILE + NAMES_MORE;
  pd_code code = walk_folder(k, first, 1, err);
  if (code == PD_OK) find_gone(k, root);
  free(k);
  close(root);
  return code;
}
