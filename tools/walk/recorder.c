/* recorder.c: what one request does, event by event. Loaded before the program (LD_PRELOAD); the program is built with -finstrument-functions.
 *
 * The file named by PERDURE_WALK is mapped: a switch that tools/walk turns on and off, a counter, and the events. An event is written without a
 * lock: a place is taken by one atomic addition, so that threads do not wait for each other because they are watched. Functions are recorded by
 * their address, everything else by the address that called it: what a library does inside itself is told apart from what perdure asks for. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENTS_MAX ((uint64_t)1 << 20)
#define UNSEEN __attribute__((no_instrument_function))
#define SHOWN __attribute__((visibility("default"))) UNSEEN

enum { ENTER = 1, LEAVE, LOCK, ALLOCATION, COPY };

typedef struct event {
  uint64_t address, size;
  uint32_t thread, kind;
} event;

typedef struct recording {
  _Atomic uint64_t is_on, count, base;
  event events[];
} recording;

static recording *shared;
static __thread uint32_t thread_id;
static int (*real_mutex_lock)(pthread_mutex_t *);
static int (*real_rdlock)(pthread_rwlock_t *);
static int (*real_wrlock)(pthread_rwlock_t *);

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

UNSEEN static void add(uint32_t kind, void *address, uint64_t size)
{
  if (!shared || !atomic_load_explicit(&shared->is_on, memory_order_relaxed)) return;
  uint64_t at = atomic_fetch_add(&shared->count, 1);
  if (at >= EVENTS_MAX) return;
  if (!thread_id) thread_id = (uint32_t)syscall(SYS_gettid);
  shared->events[at] = (event){.address = (uint64_t)(uintptr_t)address, .size = size, .thread = thread_id, .kind = kind};
}

/* When first called: constructors of other libraries run before ours and take locks. */
#define FIND(function, name) ({ if (!(function)) (function) = (__typeof__(function))dlsym(RTLD_NEXT, name); (function); })

/* Where the program itself was loaded: the first line of the map of a PIE. */
UNSEEN static uint64_t load_address(void)
{
  char text[32] = {0};
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  return got > 0 ? strtoull(text, NULL, 16) : 0;
}

UNSEEN __attribute__((constructor)) static void start(void)
{
  const char *path = getenv("PERDURE_WALK");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *map = mmap(NULL, sizeof(recording) + EVENTS_MAX * sizeof(event), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return;
  shared = map;
  atomic_store(&shared->base, load_address());
}

SHOWN void __cyg_profile_func_enter(void *function, void *caller)
{
  (void)caller;
  add(ENTER, function, 0);
}

SHOWN void __cyg_profile_func_exit(void *function, void *caller)
{
  (void)caller;
  add(LEAVE, function, 0);
}

SHOWN int pthread_mutex_lock(pthread_mutex_t *mutex)
{
  add(LOCK, __builtin_return_address(0), 0);
  return FIND(real_mutex_lock, "pthread_mutex_lock")(mutex);
}

SHOWN int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
  add(LOCK, __builtin_return_address(0), 0);
  return FIND(real_rdlock, "pthread_rwlock_rdlock")(lock);
}

SHOWN int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
  add(LOCK, __builtin_return_address(0), 0);
  return FIND(real_wrlock, "pthread_rwlock_wrlock")(lock);
}

SHOWN void *malloc(size_t size)
{
  add(ALLOCATION, __builtin_return_address(0), size);
  return __libc_malloc(size);
}

SHOWN void *calloc(size_t count, size_t size)
{
  add(ALLOCATION, __builtin_return_address(0), count * size);
  return __libc_calloc(count, size);
}

SHOWN void *realloc(void *old, size_t size)
{
  add(ALLOCATION, __builtin_return_address(0), size);
  return __libc_realloc(old, size);
}

/* Plain loops: the library's own functions are what is replaced. Built with -fno-tree-loop-distribute-patterns, or they would call themselves. */
SHOWN void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
  add(COPY, __builtin_return_address(0), size);
  for (size_t i = 0; i < size; i++)
    ((char *)to)[i] = ((const char *)from)[i];
  return to;
}

SHOWN void *memmove(void *to, const void *from, size_t size)
{
  bool is_forward = (uintptr_t)to - (uintptr_t)from >= size;
  add(COPY, __builtin_return_address(0), size);
  for (size_t i = 0; i < size; i++) {
    size_t at = is_forward ? i : size - 1 - i;
    ((char *)to)[at] = ((const char *)from)[at];
  }
  return to;
}
