/* doctor_home.c: the doctor's look at a home from outside: its folder, its file system, the files of each store. Opens no store. */
#include "engine/doctor.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/stores.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PATH_SIZE 4400
#define FREE_BYTES_LOW ((uint64_t)256 << 20)
#define WAL_BYTES_HIGH ((int64_t)64 << 20)
#define LOCK_FILE_SIZE 4096
#define STORE_APPLICATION_ID 0x50444255u
#define STORE_FORMAT 1u

/* ---- the folder ---- */

static void check_owner(pd_doctor_view *v, const struct stat *st)
{
  if (st->st_uid != geteuid())
    pd_diagnose(v, PD_SEVERITY_WARNING, "", "run as the owner of the home, or: chown -R USER FOLDER",
                "the home belongs to user %u, this is user %u", (unsigned)st->st_uid, (unsigned)geteuid());
  if (st->st_mode & 077)
    pd_diagnose(v, PD_SEVERITY_WARNING, "", "chmod 700 FOLDER", "others may look into the home: its mode is %04o",
                (unsigned)(st->st_mode & 07777));
  if (access(v->folder, W_OK | X_OK) != 0)
    pd_diagnose(v, PD_SEVERITY_WARNING, "", "make it writable; until then stores can only be read", "the home cannot be written: %s",
                strerror(errno));
  if (!(st->st_mode & 077) && st->st_uid == geteuid()) pd_diagnose(v, PD_SEVERITY_OK, "", "", "the home is ours alone");
}

static void check_file_system(pd_doctor_view *v)
{
  static const struct {
    unsigned long magic;
    const char *name;
    bool is_network;
  } kinds[] = {{0x6969, "NFS", true},      {0xFF534D42, "CIFS", true}, {0xFE534D42, "SMB", true},    {0x01021997, "9p", true},
               {0x00C36400, "Ceph", true}, {0x5346414F, "AFS", true},  {0x01021994, "tmpfs", false}, {0x858458F6, "ramfs", false}};
  struct statfs fs;
  if (statfs(v->folder, &fs) != 0) return;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    if ((unsigned long)(uint32_t)fs.f_type != kinds[i].magic) continue;
    if (kinds[i].is_network)
      pd_diagnose(v, PD_SEVERITY_WARNING, "", "keep the home on a local disk: locks and shared memory do not work over a network",
                  "the home is on a network file system (%s)", kinds[i].name);
    else
      pd_diagnose(v, PD_SEVERITY_WARNING, "", "keep the home on a disk unless its state may be lost",
                  "the home is in memory (%s): nothing survives a loss of power", kinds[i].name);
    return;
  }
  pd_diagnose(v, PD_SEVERITY_OK, "", "", "the file system is a local one");
}

static void check_space(pd_doctor_view *v)
{
  struct statvfs fs;
  if (statvfs(v->folder, &fs) != 0) return;
  uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
  if (bytes < FREE_BYTES_LOW || (fs.f_files && fs.f_favail < 16))
    pd_diagnose(v, PD_SEVERITY_WARNING, "", "make room: a full disk refuses commits, and gc needs room to work",
                "there is little space left: %llu MiB, %llu files", (unsigned long long)(bytes >> 20), (unsigned long long)fs.f_favail);
  else
    pd_diagnose(v, PD_SEVERITY_OK, "", "", "there is space: %llu MiB", (unsigned long long)(bytes >> 20));
}

/* ---- its files ---- */

static bool ends_with(const char *name, const char *suffix, size_t *out_stem)
{
  size_t size = strlen(name), tail = strlen(suffix);
  if (size <= tail || strcmp(name + size - tail, suffix) != 0) return false;
  *out_stem = size - tail;
  return true;
}

static bool has_file(const pd_doctor_view *v, const char *name, size_t stem, const char *suffix)
{
  char path[PATH_SIZE];
  struct stat st;
  snprintf(path, sizeof path, "%s/%.*s%s", v->folder, (int)stem, name, suffix);
  return stat(path, &st) == 0;
}

static void check_name(pd_doctor_view *v, const char *name)
{
  static const char *const beside[] = {".db-wal", ".db-shm", ".db-journal"};
  static const char *const ours[] = {".", "..", "perdure.key", "perdure.toml", "policy.toml", "policy.kept", "vault.json", "snapshots",
                                     "backups", "restore.json", "server.lock", "supervise", "mcp.key",
                                     /* locks that stay: to remove one while it is held would let a second holder in */
                                     "vault.lock", ".vault.lock", "restore.lock", ".restore.lock", ".joint.lock", ".server.lock"};
  size_t stem;
  for (size_t i = 0; i < COUNT_OF(ours); i++)
    if (strcmp(name, ours[i]) == 0) return;
  if (strcmp(name, ".joint") == 0) {
    pd_diagnose(v, PD_SEVERITY_WARNING, "", "run any command that writes to one of these stores; if it is refused, it says why",
                "a restore was interrupted, or is under way: '.joint' names its stores; all of them are read as they were before it");
    return;
  }
  if (ends_with(name, ".db", &stem) || ends_with(name, PD_PLACE_SUFFIX, &stem)) return; /* the store tells where it is */
  for (size_t i = 0; i < COUNT_OF(beside); i++) {
    if (!ends_with(name, beside[i], &stem)) continue;
    if (!has_file(v, name, stem, ".db"))
      pd_diagnose(v, PD_SEVERITY_WARNING, "", "bring back the database that it belongs to, or remove it",
                  "'%.200s' has no database beside it", name);
    return;
  }
  if (ends_with(name, ".lock", &stem)) {
    if (!has_file(v, name, stem, ".db") && !has_file(v, name, stem, PD_PLACE_SUFFIX))
      pd_diagnose(v, PD_SEVERITY_NOTE, "", "remove it if the store was removed on purpose", "'%.200s' has no database beside it", name);
  } else if (ends_with(name, ".db.new", &stem)) {
    pd_diagnose(v, PD_SEVERITY_NOTE, "", "remove it if nobody is making this store now", "'%.200s' was left over when a store was made",
                name);
  } else {
    pd_diagnose(v, PD_SEVERITY_NOTE, "", "move it elsewhere", "'%.200s' is no file of perdure", name);
  }
}

/* Each backup that was made leaves a mark, until backup.keep removes both. */
static void check_backups(pd_doctor_view *v)
{
  char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/backups/.made", v->folder);
  DIR *dir = opendir(path);
  if (!dir) return;
  for (const struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/backups/%.60s.pdb", v->folder, entry->d_name);
    if (access(path, F_OK) != 0 && errno == ENOENT)
      pd_diagnose(v, PD_SEVERITY_WARNING, "", "bring it back; if it was removed on purpose, remove its mark in backups/.made, too",
                  "the backup %.60s was made here, and its file is gone", entry->d_name);
  }
  closedir(dir);
}

static void check_mode(pd_doctor_view *v, const char *name)
{
  char path[PATH_SIZE];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", v->folder, name);
  if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 077)) return;
  bool is_key = strcmp(name, "perdure.key") == 0;
  pd_diagnose(v, is_key ? PD_SEVERITY_ERROR : PD_SEVERITY_WARNING, "", "chmod 600 FILE", "others may use '%.200s': its mode is %04o", name,
              (unsigned)(st.st_mode & 07777));
}

bool pd_doctor_folder(pd_doctor_view *v)
{
  struct stat st;
  if (stat(v->folder, &st) != 0) {
    pd_diagnose(v, PD_SEVERITY_ERROR, "", "make it with: perdure init; or name another with --store", "there is no home %.300s: %s",
                v->folder, strerror(errno));
    return false;
  }
  DIR *dir = S_ISDIR(st.st_mode) ? opendir(v->folder) : NULL;
  if (!dir) {
    pd_diagnose(v, PD_SEVERITY_ERROR, "", "name a folder that can be read with --store", "%.300s is no folder that can be read", v->folder);
    return false;
  }
  check_owner(v, &st);
  check_file_system(v);
  check_space(v);
  for (const struct dirent *entry; (entry = readdir(dir));) {
    check_name(v, entry->d_name);
    check_mode(v, entry->d_name);
  }
  closedir(dir);
  check_backups(v);
  return true;
}

/* ---- one store ---- */

static uint32_t big_endian(const uint8_t *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The first 100 bytes of a database say what it is. */
static void check_header(pd_doctor_view *v, const char *agent, const char *path)
{
  uint8_t head[100];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool is_read = fd >= 0 && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head;
  if (fd >= 0) close(fd);
  if (!is_read || memcmp(head, "SQLite format 3", 16) != 0 || big_endian(head + 68) != STORE_APPLICATION_ID)
    pd_diagnose(v, PD_SEVERITY_ERROR, agent, "put a copy of the store back, or move the file away", "the database is no store of perdure");
  else if (big_endian(head + 60) > STORE_FORMAT)
    pd_diagnose(v, PD_SEVERITY_ERROR, agent, "use a newer perdure", "the store has format %u, this perdure knows %u", big_endian(head + 60),
                STORE_FORMAT);
  else if (head[18] != 2 || head[19] != 2)
    pd_diagnose(v, PD_SEVERITY_WARNING, agent, "sqlite3 FILE 'PRAGMA journal_mode=WAL'",
                "the database is not in WAL mode: somebody changed it");
  else
    pd_diagnose(v, PD_SEVERITY_OK, agent, "", "format %u, WAL mode", big_endian(head + 60));
}

void pd_doctor_files(pd_doctor_view *v, const char *agent)
{
  char path[PATH_SIZE];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s.db", v->folder, agent);
  check_header(v, agent, path);
  snprintf(path, sizeof path, "%s/%s.db-wal", v->folder, agent);
  if (stat(path, &st) == 0 && st.st_size > WAL_BYTES_HIGH)
    pd_diagnose(v, PD_SEVERITY_WARNING, agent, "end readers that never finish; the next commits then bring it back to size",
                "its write-ahead log has grown to %lld MiB", (long long)(st.st_size >> 20));
  snprintf(path, sizeof path, "%s/%s.lock", v->folder, agent);
  char magic[16] = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  bool is_sane = fd >= 0 && fstat(fd, &st) == 0 && st.st_size == LOCK_FILE_SIZE && pread(fd, magic, sizeof magic, 0) == 16 &&
                 memcmp(magic, "perdure lock", 12) == 0;
  if (fd < 0)
    pd_diagnose(v, PD_SEVERITY_NOTE, agent, "the next open for writing makes it again", "its lock file is not there or cannot be read");
  else if (!is_sane)
    pd_diagnose(v, PD_SEVERITY_WARNING, agent, "the next open for writing mends it: perdure repair", "its lock file is damaged");
  if (fd >= 0) close(fd);
}
