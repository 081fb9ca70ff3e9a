/* sqlite_lock.c: see sqlite_lock.h for the file's bytes and its invariants. */
#include "backend/sqlite_lock.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLAIM_OFFSET 48
#define OPEN_OFFSET 49
#define GC_OFFSET ((off_t)1 << 40)
#define LOCK_FILE_SIZE 4096
#define UUID_AT 16
#define WORD_AT 64
#define BELL_AT 72
#define CLAIM_AT 76
#define SICK_AT 80
#define NAME_AT 84
#define SICK_TIME_AT 88
#define FENCE_AT 96
#define TRY_AGAIN_NS 1000000 /* often: whoever asks from time to time gets a busy lock only in the moments when it is free */

static const char magic[16] = "perdure lock 1\n";

static uint64_t *word_of(const pd_lock_file *lock)
{
  return (uint64_t *)(void *)(lock->map + WORD_AT);
}

static uint32_t *half_word_of(const pd_lock_file *lock, size_t at)
{
  return (uint32_t *)(void *)(lock->map + at);
}

static uint64_t check_of(uint64_t tail, const uint64_t salt[2])
{
  uint64_t x = (tail ^ salt[0]) * UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 29) ^ salt[1]) * UINT64_C(0xBF58476D1CE4E5B9);
  return x >> 48;
}

static bool decode(uint64_t word, const uint64_t salt[2], uint64_t *out_tail)
{
  uint64_t tail = word & PD_LOCK_TAIL_MAX;
  if (!word || word >> 48 != check_of(tail, salt)) return false;
  *out_tail = tail;
  return true;
}

static bool has_magic(const pd_lock_file *lock)
{
  return memcmp(lock->map, magic, sizeof magic) == 0;
}

/* Should a lock that another has be asked for again? Else errno is ETIMEDOUT. */
static bool is_worth_a_try(int64_t end_ms)
{
  if (pd_clock_monotonic_ms() >= end_ms) {
    errno = ETIMEDOUT;
    return false;
  }
  nanosleep(&(struct timespec){.tv_nsec = TRY_AGAIN_NS}, NULL);
  return true;
}

/* flock, whatever signals come. */
static int lock_fd(const pd_lock_file *lock, int how)
{
  int rc;
  bool has_end = lock->end_ms && how != LOCK_UN;
  do {
    rc = flock(lock->fd, has_end ? how | LOCK_NB : how);
  } while (rc != 0 && (errno == EINTR || (errno == EWOULDBLOCK && is_worth_a_try(lock->end_ms))));
  return rc;
}

/* Real bytes, so that no store into the mapping can meet a hole on a full disk (SIGBUS). Needs the exclusive lock. */
static bool fill_file(int fd)
{
  static const uint8_t zeros[LOCK_FILE_SIZE];
  struct stat st;
  if (fstat(fd, &st) != 0) return false;
  if (st.st_size >= LOCK_FILE_SIZE) return true;
  return pwrite(fd, zeros, LOCK_FILE_SIZE, 0) == LOCK_FILE_SIZE;
}

static bool map_file(pd_lock_file *lock)
{
  struct stat st;
  if (fstat(lock->fd, &st) != 0) return false;
  if (st.st_size < LOCK_FILE_SIZE) {
    errno = EIO;
    return false;
  }
  void *map = mmap(NULL, LOCK_FILE_SIZE, lock->is_writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, lock->fd, 0);
  if (map == MAP_FAILED) return false;
  lock->map = map;
  return true;
}

static void close_keeping_errno(pd_lock_file *lock)
{
  int saved = errno;
  if (lock->fd >= 0) close(lock->fd);
  lock->fd = -1;
  errno = saved;
}

/* Whether the path still leads to the file that is open: somebody may have removed it before we had the lock. */
static bool is_still_there(const pd_lock_file *lock)
{
  struct stat open_file, named;
  return fstat(lock->fd, &open_file) == 0 && stat(lock->path, &named) == 0 && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

/* Open, fill and map, with the lock held meanwhile; false with errno. */
static bool open_writable(pd_lock_file *lock)
{
  for (;;) {
    lock->fd = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock->fd < 0) return false;
    lock->is_writable = true;
    bool is_locked = lock_fd(lock, LOCK_EX) == 0;
    if (is_locked && is_still_there(lock)) break;
    close_keeping_errno(lock);
    if (!is_locked) return false;
  }
  bool ok = fill_file(lock->fd) && map_file(lock);
  if (!ok) {
    close_keeping_errno(lock);
    return false;
  }
  lock_fd(lock, LOCK_UN);
  return true;
}

static bool open_readable(pd_lock_file *lock)
{
  lock->is_writable = false;
  lock->fd = open(lock->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (lock->fd < 0) return false;
  if (map_file(lock)) return true;
  close_keeping_errno(lock);
  return false;
}

static pd_code is_held(const pd_lock_file *lock, pd_error *err)
{
  return pd_error_set(
    err, PD_STORAGE,
    "another process holds %.300s and does not let go of it: it is stopped, or its disk hangs; let it go on or end it, and try "
    "again",
    lock->path);
}

static pd_code open_file(pd_lock_file *lock, const char *path, bool is_read_only, pd_error *err)
{
  lock->path = strdup(path);
  if (!lock->path) return pd_error_memory(err, "a lock file");
  if (open_writable(lock)) return PD_OK;
  int why = errno;
  if (is_read_only || why == EROFS) {
    if (!open_readable(lock)) lock->is_writable = false;
    return PD_OK;
  }
  if (why == ETIMEDOUT) (void)!is_held(lock, err);
  pd_lock_file_close(lock);
  if (why == ETIMEDOUT) return PD_STORAGE;
  if (why == ENOSPC || why == EDQUOT || why == EFBIG) return pd_error_set(err, PD_FULL, "no space left for %.300s", path);
  if (why == EACCES || why == EPERM) return pd_error_set(err, PD_STORAGE, "no permission to open %.300s", path);
  return pd_error_set(err, PD_STORAGE, "cannot open %.300s: %s", path, strerror(why));
}

pd_code pd_lock_file_open(pd_lock_file *lock, const char *path, bool is_read_only, pd_error *err)
{
  *lock = (pd_lock_file){.fd = -1};
  return open_file(lock, path, is_read_only, err);
}

pd_code pd_lock_file_open_until(pd_lock_file *lock, const char *path, int64_t end_ms, pd_error *err)
{
  *lock = (pd_lock_file){.fd = -1, .end_ms = end_ms};
  return open_file(lock, path, false, err);
}

void pd_lock_file_close(pd_lock_file *lock)
{
  if (lock->map) munmap(lock->map, LOCK_FILE_SIZE);
  if (lock->fd >= 0) close(lock->fd);
  free(lock->path);
  *lock = (pd_lock_file){.fd = -1};
}

pd_code pd_lock_file_lock(pd_lock_file *lock, bool is_shared, pd_error *err)
{
  if (lock->fd < 0 || lock_fd(lock, is_shared ? LOCK_SH : LOCK_EX) == 0) return PD_OK;
  if (errno == ETIMEDOUT) return is_held(lock, err);
  return pd_error_set(err, PD_STORAGE, "cannot lock %.300s: %s", lock->path, strerror(errno));
}

void pd_lock_file_unlock(pd_lock_file *lock)
{
  if (lock->fd >= 0) lock_fd(lock, LOCK_UN);
}

/* A lock on bytes, of the open file and not of the process. `size` 0: to the end of all files. */
static int lock_bytes(int fd, int how, off_t offset, off_t size, short type)
{
  struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = size};
  int rc;
  do {
    rc = fcntl(fd, how, &range);
  } while (rc != 0 && errno == EINTR);
  return rc;
}

static int lock_byte(int fd, int how, off_t offset, short type)
{
  return lock_bytes(fd, how, offset, 1, type);
}

static int lock_claim_byte(const pd_lock_file *lock, short type)
{
  bool has_end = lock->end_ms && type != F_UNLCK;
  int rc;
  do {
    rc = lock_byte(lock->fd, has_end ? F_OFD_SETLK : F_OFD_SETLKW, CLAIM_OFFSET, type);
  } while (rc != 0 && has_end && (errno == EAGAIN || errno == EACCES) && is_worth_a_try(lock->end_ms));
  return rc;
}

pd_code pd_lock_file_claim(pd_lock_file *lock, pd_error *err)
{
  if (lock->fd < 0 || lock_claim_byte(lock, F_WRLCK) == 0) return PD_OK;
  if (errno == ETIMEDOUT)
    return pd_error_set(
      err, PD_STORAGE,
      "another process has buffered writes for the store of %.300s and does not flush them (store.flush): it is stopped, or its "
      "disk hangs; let it go on or end it, and try again",
      lock->path);
  return pd_error_set(err, PD_STORAGE, "cannot claim %.300s: %s", lock->path, strerror(errno));
}

void pd_lock_file_unclaim(pd_lock_file *lock)
{
  if (lock->fd >= 0) lock_claim_byte(lock, F_UNLCK);
}

/* Take the lock on `fd`; 0, or -1 with errno. */
static int lock_against_gc(int fd, uint32_t shared_ms)
{
  off_t now = GC_OFFSET + (off_t)(pd_clock_monotonic_ms() / 1000);
  if (!shared_ms) return lock_bytes(fd, F_OFD_SETLK, now, 0, F_WRLCK);
  return lock_bytes(fd, F_OFD_SETLK, now + ((off_t)shared_ms + 999) / 1000, 1, F_RDLCK);
}

pd_code pd_lock_file_gc_lock(const pd_lock_file *lock, uint32_t shared_ms, void **out, pd_error *err)
{
  int *fd = lock->fd < 0 ? NULL : malloc(sizeof *fd);
  if (lock->fd >= 0 && !fd) return pd_error_memory(err, "a lock");
  if (fd) *fd = open(lock->path, (shared_ms ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW);
  if (!fd || (*fd >= 0 && lock_against_gc(*fd, shared_ms) == 0)) {
    *out = fd;
    return PD_OK;
  }
  int why = errno;
  pd_lock_file_gc_unlock(fd);
  if (why == EAGAIN) return pd_error_set(err, PD_CONFLICT, "an export, a backup or a gc has locked %.300s", lock->path);
  return pd_error_set(err, PD_STORAGE, "cannot lock %.300s: %s", lock->path, strerror(why));
}

void pd_lock_file_gc_unlock(void *lock)
{
  int *fd = lock;
  if (fd && *fd >= 0) lock_bytes(*fd, F_OFD_SETLK, GC_OFFSET, 0, F_UNLCK); /* also for children that have a copy of it since a fork */
  if (fd && *fd >= 0) close(*fd);
  free(fd);
}

pd_code pd_lock_file_join(pd_lock_file *lock, pd_error *err)
{
  if (lock->fd < 0 || lock_byte(lock->fd, F_OFD_SETLKW, OPEN_OFFSET, F_RDLCK) == 0) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "cannot lock %.300s: %s", lock->path, strerror(errno));
}

bool pd_lock_file_is_alone(pd_lock_file *lock)
{
  if (lock->fd < 0 || lock_byte(lock->fd, F_OFD_SETLK, OPEN_OFFSET, F_WRLCK) != 0) return false;
  lock_byte(lock->fd, F_OFD_SETLK, OPEN_OFFSET, F_RDLCK); /* a lock that is ours can always be made a lesser one */
  return true;
}

pd_sick pd_lock_file_sick(const pd_lock_file *lock, int64_t *out_ms)
{
  if (!lock->map) return PD_SICK_NOT;
  pd_sick what = (pd_sick)le32toh(__atomic_load_n(half_word_of(lock, SICK_AT), __ATOMIC_ACQUIRE));
  if (out_ms) *out_ms = (int64_t)le64toh(*(uint64_t *)(void *)(lock->map + SICK_TIME_AT));
  return what;
}

void pd_lock_file_set_sick(pd_lock_file *lock, pd_sick what, int64_t ms)
{
  if (!lock->map || !lock->is_writable) return;
  *(uint64_t *)(void *)(lock->map + SICK_TIME_AT) = htole64((uint64_t)ms);
  __atomic_store_n(half_word_of(lock, SICK_AT), htole32((uint32_t)what), __ATOMIC_RELEASE);
  if (what != PD_SICK_NOT) msync(lock->map, LOCK_FILE_SIZE, MS_SYNC); /* a failure changes nothing: L4 */
}

bool pd_lock_file_is_unnamed(const pd_lock_file *lock)
{
  return lock->map && __atomic_load_n(half_word_of(lock, NAME_AT), __ATOMIC_ACQUIRE) != 0;
}

void pd_lock_file_set_unnamed(pd_lock_file *lock, bool is_unnamed)
{
  if (lock->map && lock->is_writable) __atomic_store_n(half_word_of(lock, NAME_AT), is_unnamed, __ATOMIC_RELEASE);
}

bool pd_lock_file_peek(const pd_lock_file *lock, uint64_t *out_tail)
{
  uint64_t salt[2];
  if (!lock->map || !has_magic(lock)) return false;
  memcpy(salt, lock->map + UUID_AT, sizeof salt);
  return decode(le64toh(__atomic_load_n(word_of(lock), __ATOMIC_ACQUIRE)), salt, out_tail);
}

void pd_lock_file_bind(pd_lock_file *lock, const uint8_t uuid[PD_LOCK_UUID_SIZE])
{
  memcpy(lock->salt, uuid, sizeof lock->salt);
  if (!lock->map || !lock->is_writable) return;
  if (has_magic(lock) && memcmp(lock->map + UUID_AT, uuid, PD_LOCK_UUID_SIZE) == 0) return;
  pd_lock_file_forget_tail(lock);
  pd_lock_file_set_sick(lock, PD_SICK_NOT, 0);
  memcpy(lock->map, magic, sizeof magic);
  memcpy(lock->map + UUID_AT, uuid, PD_LOCK_UUID_SIZE);
}

bool pd_lock_file_adopt(pd_lock_file *lock)
{
  if (!lock->map || !has_magic(lock)) return false;
  memcpy(lock->salt, lock->map + UUID_AT, sizeof lock->salt);
  return true;
}

bool pd_lock_file_tail(const pd_lock_file *lock, uint64_t *out_tail)
{
  if (!lock->map || lock->is_quiet) return false;
  return decode(le64toh(__atomic_load_n(word_of(lock), __ATOMIC_ACQUIRE)), lock->salt, out_tail);
}

/* Wake all who sleep on the tail word (L3). The tail must be out before the bell is read: adding 0 is a full barrier, and one that the
 * thread sanitizer knows, unlike a fence. */
static void ring(pd_lock_file *lock)
{
  uint32_t *bell = half_word_of(lock, BELL_AT);
  if (!__atomic_fetch_add(bell, 0, __ATOMIC_SEQ_CST)) return;
  __atomic_store_n(bell, 0, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, half_word_of(lock, WORD_AT), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool pd_lock_file_wait(pd_lock_file *lock, uint64_t after, uint32_t timeout_ms)
{
  if (!lock->map || !lock->is_writable) return false;
  const struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
  uint64_t tail = 0;
  __atomic_store_n(half_word_of(lock, BELL_AT), 1, __ATOMIC_SEQ_CST);
  uint64_t word = __atomic_load_n(word_of(lock), __ATOMIC_SEQ_CST);
  if (decode(le64toh(word), lock->salt, &tail) && tail > after) return true;
  uint32_t low_half; /* the word's first four bytes, whatever the machine's order: what each append changes */
  memcpy(&low_half, &word, sizeof low_half);
  syscall(SYS_futex, half_word_of(lock, WORD_AT), FUTEX_WAIT, low_half, &timeout, NULL, 0);
  return true;
}

void pd_lock_file_set_tail(pd_lock_file *lock, uint64_t tail)
{
  if (!lock->map || !lock->is_writable || lock->is_quiet) return;
  __atomic_store_n(word_of(lock), htole64(tail | check_of(tail, lock->salt) << 48), __ATOMIC_RELEASE);
  ring(lock);
}

void pd_lock_file_forget_tail(pd_lock_file *lock)
{
  if (lock->map && lock->is_writable && !lock->is_quiet) __atomic_store_n(word_of(lock), 0, __ATOMIC_RELEASE);
}

bool pd_lock_file_is_claimed(const pd_lock_file *lock)
{
  return lock->map && __atomic_load_n(half_word_of(lock, CLAIM_AT), __ATOMIC_ACQUIRE) != 0;
}

void pd_lock_file_set_claimed(pd_lock_file *lock, bool is_claimed)
{
  if (lock->map && lock->is_writable) __atomic_store_n(half_word_of(lock, CLAIM_AT), is_claimed, __ATOMIC_RELEASE);
}

uint32_t pd_lock_file_fence(const pd_lock_file *lock)
{
  return lock->map ? le32toh(__atomic_load_n(half_word_of(lock, FENCE_AT), __ATOMIC_ACQUIRE)) : 0;
}

void pd_lock_file_set_fence(pd_lock_file *lock, uint32_t fence)
{
  if (!lock->map || !lock->is_writable) return;
  __atomic_store_n(half_word_of(lock, FENCE_AT), htole32(fence), __ATOMIC_RELEASE);
  syscall(SYS_futex, half_word_of(lock, FENCE_AT), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void pd_lock_file_wait_fence(pd_lock_file *lock, uint32_t fence, uint32_t timeout_ms)
{
  const struct timespec timeout = {.tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
  if (lock->map)
    syscall(SYS_futex, half_word_of(lock, FENCE_AT), FUTEX_WAIT, htole32(fence), &timeout, NULL, 0);
  else
    nanosleep(&timeout, NULL);
}
