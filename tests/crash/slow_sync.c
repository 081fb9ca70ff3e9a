/* slow_sync.c: for LD_PRELOAD: each sync takes 5 ms more, as on a disk that spins. */
#include <dlfcn.h>
#include <time.h>

static void take_long(void)
{
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

__attribute__((visibility("default"))) int fsync(int fd);
__attribute__((visibility("default"))) int fdatasync(int fd);

int fsync(int fd)
{
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  take_long();
  return next(fd);
}

int fdatasync(int fd)
{
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  take_long();
  return next(fd);
}
