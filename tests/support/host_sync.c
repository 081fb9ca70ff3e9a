/* host_sync.c: a program's own fsync, fdatasync and msync count as syncs of the power-cut VFS (power_vfs.h). host_sync_dep wraps them. */
#include "support/power_vfs_state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_fsync(int fd);
int __real_msync(void *address, size_t size, int flags);
int __real_fdatasync(int fd);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_msync(void *address, size_t size, int flags);

static int sync_file(int fd, int (*real)(int fd))
{
  char link[64], path[PATH_MAX + 2];
  struct stat st;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, PATH_MAX);
  if (size < 0 || fstat(fd, &st) != 0) return real(fd);
  if (S_ISDIR(st.st_mode)) path[size++] = '/';
  path[size] = '\0';
  if (!power_sync_fails(path)) return real(fd);
  errno = EIO;
  return -1;
}

int __wrap_fsync(int fd)
{
  return sync_file(fd, __real_fsync);
}

int __wrap_fdatasync(int fd)
{
  return sync_file(fd, __real_fdatasync);
}

int __wrap_msync(void *address, size_t size, int flags)
{
  if (!power_sync_fails("mapping.lock")) return __real_msync(address, size, flags);
  errno = EIO;
  return -1;
}
