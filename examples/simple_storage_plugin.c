/*
 * simple_storage_plugin.c: a storage of three functions: a file for each key. perdure adds fencing, checksums and the list of agents.
 *
 *     cc -shared -fPIC -o folder.so simple_storage_plugin.c    # links nothing of perdure
 *     plugin:./folder.so?/var/lib/agents                       # the storage's URI; make the folder first
 */
#include <errno.h>
#include <fcntl.h>
#include <perdure/storage_plugin.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static pd_code refused(const char *what, const char *path, pd_error *err)
{
  pd_code code = errno == ENOENT ? PD_NOT_FOUND : errno == ENOSPC || errno == EDQUOT ? PD_FULL : PD_STORAGE;
  return pd_storage_fail(err, code, "cannot %s %.300s: %s", what, path, strerror(errno));
}

static pd_code sync_folder(const char *folder, pd_error *err)
{
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  pd_code code = fd < 0 || fsync(fd) != 0 ? refused("sync", folder, err) : PD_OK;
  if (fd >= 0) close(fd);
  return code;
}

/* Written beside the old file and renamed over it: K1. */
static pd_code save(void *folder, const char *key, pd_bytes value, pd_error *err)
{
  char path[4096], draft[4096];
  snprintf(path, sizeof path, "%s/%s", (const char *)folder, key);
  snprintf(draft, sizeof draft, "%s/.draft-XXXXXX", (const char *)folder);
  int fd = mkstemp(draft);
  if (fd < 0) return refused("make a file in", folder, err);
  ssize_t n = 1;
  for (size_t done = 0; done < value.size && n > 0; done += n > 0 ? (size_t)n : 0)
    n = write(fd, (const char *)value.data + done, value.size - done);
  bool is_saved = n > 0 && fsync(fd) == 0 && rename(draft, path) == 0;
  pd_code code = is_saved ? sync_folder(folder, err) : refused("write", path, err);
  if (!is_saved) unlink(draft);
  close(fd);
  return code;
}

static pd_code load(void *folder, const char *key, pd_storage_take take, void *ctx, pd_error *err)
{
  char path[4096];
  struct stat is;
  snprintf(path, sizeof path, "%s/%s", (const char *)folder, key);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return refused("open", path, err);
  char *data = fstat(fd, &is) == 0 ? malloc((size_t)is.st_size + 1) : NULL;
  ssize_t n = data ? 1 : -1;
  size_t done = 0;
  for (; data && done < (size_t)is.st_size && n > 0; done += n > 0 ? (size_t)n : 0) n = read(fd, data + done, (size_t)is.st_size - done);
  pd_code code = n < 0 ? pd_storage_fail(err, PD_STORAGE, "cannot read %.300s", path) : take(ctx, (pd_bytes){data, done}, err);
  free(data);
  close(fd);
  return code;
}

static pd_code remove_key(void *folder, const char *key, pd_error *err)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", (const char *)folder, key);
  return unlink(path) == 0 ? sync_folder(folder, err) : refused("delete", path, err);
}

PD_STORAGE_EXPORT const pd_storage_simple_ops pd_storage_simple_plugin = {
  .abi = PD_STORAGE_SIMPLE_ABI,
  .name = "folder",
  .lasting = PD_LASTS_POWER,
  .save = save,
  .load = load,
  .remove = remove_key,
};
