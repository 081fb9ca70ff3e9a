/*
 * bad_sync.c: for LD_PRELOAD: syncs as the file says that PERDURE_TEST_SYNC names, each time anew. A number: so many milliseconds longer.
 * "fail": they fail (EIO). No file: they are as they are.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* True: the sync fails. */
static bool obey(void)
{
  char text[16] = "";
  const char *path = getenv("PERDURE_TEST_SYNC");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return false;
  bool is_read = read(fd, text, sizeof text - 1) > 0;
  close(fd);
  if (is_read && strcmp(text, "fail") == 0) return true;
  long ms = is_read ? strtol(text, NULL, 10) : 0;
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
  return false;
}

static int sync_with(const char *name, int fd)
{
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  if (!obey()) return next(fd);
  errno = EIO;
  return -1;
}

__attribute__((visibility("default"))) int fsync(int fd);
__attribute__((visibility("default"))) int fdatasync(int fd);

int fsync(int fd)
{
  return sync_with("fsync", fd);
}

int fdatasync(int fd)
{
  return sync_with("fdatasync", fd);
}
