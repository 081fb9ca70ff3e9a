/* beneath.c: openat2, which the C library does not wrap. */
#include "base/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_how(int folder, const char *path, int flags, unsigned long long resolve)
{
  struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC, .resolve = resolve | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

int pd_open_straight(const char *path, int flags)
{
  return open_how(AT_FDCWD, path, flags, 0);
}

int pd_open_beneath(int folder, const char *path, int flags)
{
  return open_how(folder, path, flags, RESOLVE_BENEATH);
}
