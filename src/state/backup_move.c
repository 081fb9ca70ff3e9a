/* backup_move.c: state.backup.export and .import: a backup out of the folder, and into it. */
#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "state/backup.h"
#include "state/foresee.h"
#include "state/run.h"
#include "state/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)65536)
#define NAME_TRIES_MAX 1000

static pd_code bad_path(pd_error *err, const char *path, const char *what)
{
  return pd_error_named(err, PD_STORAGE, "IoError", "%.300s %s", path, what);
}

/* It is asked before anybody approves: the caller's fault, and not the server's. */
static pd_code no_full_path(pd_error *err, const char *path)
{
  return pd_error_named(err, PD_INVALID, "IoError", "%.300s is no full path: begin with /", path);
}

static pd_code copy_all(int from, int to, const char *from_path, const char *to_path, uint64_t *out_size, pd_error *err)
{
  uint8_t bytes[COPY_BYTES];
  *out_size = 0;
  for (;;) {
    ssize_t n = pread(from, bytes, sizeof bytes, (off_t)*out_size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pd_file_refused(err, "read", from_path);
    if (!n) return PD_OK;
    TRY(pd_fd_write(to, bytes, (size_t)n, to_path, err));
    *out_size += (uint64_t)n;
  }
}

/* ---- export ---- */

/* Where it goes: in a folder under its own name. */
static pd_code choose_target(const char *path, const char *id, char out[PD_BACKUP_PATH_SIZE], pd_error *err)
{
  struct stat is;
  size_t size = strlen(path);
  if (path[0] != '/') return no_full_path(err, path);
  bool must_be_folder = path[size - 1] == '/';
  while (size > 1 && path[size - 1] == '/') size--;
  if (size + strlen(id) + 8 >= PD_BACKUP_PATH_SIZE) return bad_path(err, path, "is too long");
  snprintf(out, PD_BACKUP_PATH_SIZE, "%.*s", (int)size, path);
  bool exists = lstat(out, &is) == 0;
  if (!exists && errno != ENOENT) return pd_file_refused(err, "write to", path);
  if (exists && S_ISLNK(is.st_mode)) return bad_path(err, path, "is a symbolic link: name what it leads to");
  if (exists && S_ISDIR(is.st_mode))
    snprintf(out + (size > 1 ? size : 0), PD_BACKUP_PATH_SIZE - size, "/%s.pdb", id);
  else if (must_be_folder)
    return bad_path(err, path, exists ? "is no folder" : "does not exist");
  else if (exists && !S_ISREG(is.st_mode))
    return bad_path(err, path, "is neither a file nor a folder");
  return PD_OK;
}

/* The folder that the path ends in, reached without following any link: what was approved is where it goes, whoever may rename things on
 * the way meanwhile. */
static pd_code open_folder(const char *path, int *out_fd, const char **out_name, pd_error *err)
{
  char folder[PD_BACKUP_PATH_SIZE];
  struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", (int)(slash == path ? 1 : slash - path), path);
  *out_name = slash + 1;
  *out_fd = (int)syscall(SYS_openat2, AT_FDCWD, folder, &how, sizeof how);
  if (*out_fd >= 0) return PD_OK;
  if (errno == ELOOP) return bad_path(err, folder, "has a symbolic link in it: name what it leads to");
  if (errno == ENOSYS) return bad_path(err, folder, "cannot be opened safely: this kernel has no openat2 (Linux 5.6)");
  return pd_file_refused(err, "write to", path);
}

/* The same bytes? Then there is nothing to do, and nothing to refuse. */
static bool is_same_backup(const pd_backup_in *in, int folder, const char *name)
{
  uint8_t a[4096], b[4096];
  char path[PD_BACKUP_PATH_SIZE + 32];
  pd_backup_in other;
  snprintf(path, sizeof path, "/proc/self/fd/%d/%s", folder, name);
  bool is_same = pd_backup_in_open(&other, path, NULL) == PD_OK && other.file_size == in->file_size;
  for (uint64_t at = 0; is_same && at < in->file_size;) {
    ssize_t n = pread(in->fd, a, sizeof a, (off_t)at), m = pread(other.fd, b, sizeof b, (off_t)at);
    is_same = n > 0 && n == m && memcmp(a, b, (size_t)n) == 0;
    at += is_same ? (uint64_t)n : 0;
  }
  pd_backup_in_done(&other);
  return is_same;
}

/* Give the draft its name, which nothing may have; not every file system of a stick can do that in one go. */
static pd_code name_draft(int folder, const char *draft, const char *name, const char *path, pd_error *err)
{
  if (renameat2(folder, draft, folder, name, RENAME_NOREPLACE) == 0)
    return fsync(folder) == 0 ? PD_OK : pd_file_refused(err, "sync the folder of", path);
  if (errno == EEXIST) return bad_path(err, path, "exists, and is another file");
  if (errno != EINVAL && errno != ENOSYS) return pd_file_refused(err, "make", path);
  if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return bad_path(err, path, "exists, and is another file");
  if (renameat(folder, draft, folder, name) != 0) return pd_file_refused(err, "make", path);
  return fsync(folder) == 0 ? PD_OK : pd_file_refused(err, "sync the folder of", path);
}

static pd_code export_to(const pd_backup_in *in, const char *path, pd_error *err)
{
  char draft[PD_BACKUP_PATH_SIZE + 16];
  const char *name;
  uint64_t size;
  CLEANUP(pd_fd_done) int folder = -1;
  TRY(open_folder(path, &folder, &name, err));
  if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    return is_same_backup(in, folder, name) ? PD_OK : bad_path(err, path, "exists, and is another file");
  snprintf(draft, sizeof draft, "%s.part", name);
  CLEANUP(pd_fd_done) int fd = openat(folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return pd_file_refused(err, "make", path);
  pd_code code = copy_all(in->fd, fd, in->path, path, &size, err);
  if (code == PD_OK && size != in->file_size) code = bad_path(err, in->path, "changed while it was copied");
  if (code == PD_OK && fsync(fd) != 0) code = pd_file_refused(err, "write", path);
  if (code == PD_OK) code = name_draft(folder, draft, name, path, err);
  if (code) unlinkat(folder, draft, 0);
  return code;
}

/* HOST-1: what lies at a path of the host is no agent's to find out. While it only asks, a path that will not do is put to the operator as
 * it was given; what is wrong with it is answered once it is approved. */
static pd_code foresee_target(const pd_frame *frame, const char *path, const char *id, char out[PD_BACKUP_PATH_SIZE], pd_error *err)
{
  if (path[0] != '/' || !pd_foresee_is_asking(frame)) return choose_target(path, id, out, err);
  if (choose_target(path, id, out, NULL)) snprintf(out, PD_BACKUP_PATH_SIZE, "%s", path);
  return PD_OK;
}

pd_code pd_cap_state_backup_export(pd_frame *frame, pd_error *err)
{
  char id[128], path[PD_BACKUP_PATH_SIZE], target[PD_BACKUP_PATH_SIZE];
  CLEANUP(pd_backup_in_done) pd_backup_in in = {.fd = -1};
  if (!pd_in_string(frame, "backup_id", id, sizeof id) || !pd_in_string(frame, "path", path, sizeof path))
    return pd_error_set(err, PD_INVALID, "an input is too long");
  TRY(pd_backup_find(frame->home, id, &in, err));
  TRY(foresee_target(frame, path, id, target, err));
  pd_fact_id(frame, "backup_hash", &in.head.hash);
  pd_fact_text(frame, "exported_path", target);
  TRY(pd_brink(frame, err));
  TRY(export_to(&in, target, err));
  pd_json_put_text(&frame->out, "exported_path", target);
  pd_json_put_number(&frame->out, "size_bytes", in.file_size);
  return PD_OK;
}

/* ---- import ---- */

static pd_code open_foreign(const char *path, pd_backup_in *in, pd_error *err)
{
  pd_error why = {0};
  if (path[0] != '/') return no_full_path(err, path);
  pd_code code = pd_backup_in_open(in, path, &why);
  if (code == PD_CORRUPT || code == PD_FORMAT)
    return pd_error_named(err, PD_DECRYPT, "DecryptionFailed", "%.200s: %.200s", path, why.message);
  if (code == PD_NOT_FOUND) return bad_path(err, path, "does not exist");
  return code ? pd_error_set(err, code, "%s", why.message) : PD_OK;
}

static pd_code check_vault(pd_home *home, pd_error *err)
{
  CLEANUP(pd_secret_done) pd_secret key = {0};
  pd_kdf kdf;
  pd_wrapped wrapped;
  TRY(pd_secret_new(&key, PD_KEY_BYTES, err));
  return pd_vault_use_current(home, key.data, &kdf, &wrapped, err);
}

static pd_code open_and_unlock(pd_frame *frame, const char *path, pd_backup_in *in, pd_error *err)
{
  TRY(open_foreign(path, in, err));
  return pd_backup_in_unlock_by(in, frame->home, err);
}

/* HOST-1: while it only asks, the caller learns whether this vault opens what is there, and else nothing: one answer for what is missing,
 * what is no backup and what may not be read. Nor is anything but a file opened: a device may act on that. */
static pd_code foresee_source(pd_frame *frame, const char *path, pd_backup_in *in, pd_error *err)
{
  struct stat is;
  if (path[0] != '/' || !pd_foresee_is_asking(frame)) return open_and_unlock(frame, path, in, err);
  TRY(check_vault(frame->home, err));
  if (lstat(path, &is) == 0 && S_ISREG(is.st_mode) && open_and_unlock(frame, path, in, NULL) == PD_OK) return PD_OK;
  return pd_error_named(err, PD_INVALID, "IoError", "%.300s is not a backup that this vault can open, or cannot be read; ask the operator",
                        path);
}

/* Is it here already, under any name that fits? */
static pd_code find_copy(const char *folder, const pd_backup_head *head, char *out_id, size_t size, pd_error *err)
{
  CLEANUP(pd_backup_list_done) pd_backup_list list = {0};
  TRY(pd_backup_list_read(folder, &list, err));
  *out_id = 0;
  for (size_t i = 0; i < list.count; i++)
    if (list.items[i].is_readable && pd_id_equal(&list.items[i].head.hash, &head->hash)) snprintf(out_id, size, "%s", list.items[i].id);
  return PD_OK;
}

static pd_code take_in(const pd_backup_in *in, const char *folder, char *out_id, size_t id_size, pd_error *err)
{
  char draft[PD_BACKUP_PATH_SIZE], path[PD_BACKUP_PATH_SIZE];
  CLEANUP(pd_fd_done) int fd = -1;
  uint64_t size = 0;
  pd_code code = PD_EXISTS;
  for (unsigned n = 1; code == PD_EXISTS && n <= NAME_TRIES_MAX; n++) { /* another home's may have the same id */
    if (n == 1)
      snprintf(out_id, id_size, "%s", in->head.id);
    else
      snprintf(out_id, id_size, "%s.%u", in->head.id, n);
    code = pd_backup_draft(folder, out_id, draft, path, &fd, err);
  }
  TRY(code);
  code = copy_all(in->fd, fd, in->path, draft, &size, err);
  if (code == PD_OK && size != in->file_size) code = bad_path(err, in->path, "changed while it was copied");
  if (code == PD_OK && fsync(fd) != 0) code = pd_file_refused(err, "write", draft);
  if (code == PD_OK && rename(draft, path) != 0) code = pd_file_refused(err, "make", path);
  if (code) unlink(draft);
  return code ? code : pd_folder_sync(path, err);
}

pd_code pd_cap_state_backup_import(pd_frame *frame, pd_error *err)
{
  char path[PD_BACKUP_PATH_SIZE], folder[PD_BACKUP_PATH_SIZE], id[PD_BACKUP_ID_SIZE + 8], scope[PD_NAME_SIZE_MAX + 8];
  CLEANUP(pd_backup_in_done) pd_backup_in in = {.fd = -1};
  if (!pd_in_string(frame, "path", path, sizeof path)) return pd_error_set(err, PD_INVALID, "path is too long");
  TRY(pd_backup_folder(frame->home, folder, err));
  TRY(foresee_source(frame, path, &in, err));
  pd_fact_id(frame, "backup_hash", &in.head.hash);
  TRY(pd_brink(frame, err));
  TRY(pd_backup_in_verify(&in, err));
  TRY(find_copy(folder, &in.head, id, sizeof id, err));
  bool is_new = !*id;
  if (is_new) TRY(take_in(&in, folder, id, sizeof id, err));
  if (is_new) TRY(pd_backup_mark_imported(folder, id, err)); /* else backup.keep would remove it; it is there, and can be imported again */
  pd_backup_scope(&in.head, scope);
  pd_json_put_text(&frame->out, "backup_id", id);
  pd_out_time(frame, "created_at", in.head.created_ms);
  pd_json_put_text(&frame->out, "scope", scope);
  pd_json_put_number(&frame->out, "file_size_bytes", in.file_size);
  pd_json_put_bool(&frame->out, "is_new", is_new);
  return PD_OK;
}

pd_code pd_vault_learn(pd_home *home, const char *path, pd_bytes passphrase, pd_error *err)
{
  CLEANUP(pd_backup_in_done) pd_backup_in in = {.fd = -1};
  TRY(open_foreign(path, &in, err));
  return pd_vault_adopt(home, &in.head.kdf, &in.head.wrapped, passphrase, err);
}
