/* power_vfs.c: what was not synced, and what a loss of power makes of it. */
#include "support/power_vfs.h"

#include "support/power_vfs_state.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR 512

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static power_node *nodes;
static bool is_cut;
static uint64_t call_count, cut_at, cut_seed, kill_at;
static char fail_suffix[32];
static uint64_t fail_in, fail_count, fail_seed; /* the first sync that fails is the fail_in-th from now, 0: none */
static bool has_failed;

uint64_t power_random(uint64_t *state)
{
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

void *power_alloc(size_t size)
{
  void *p = calloc(1, size ? size : 1);
  if (!p) abort();
  return p;
}

static void die(const char *path)
{
  perror(path);
  abort();
}

/* ---- what is pending ---------------------------------------------------------------------------------------------- */

static void settle_locked(power_node *node)
{
  if (node->newest) close(node->fd);
  while (node->newest) {
    power_change *change = node->newest;
    node->newest = change->older;
    free(change->old_data);
    free(change->new_data);
    free(change);
  }
}

static void forget_locked(power_node *node)
{
  settle_locked(node);
  while (node->lost) {
    power_lost *page = node->lost;
    node->lost = page->next;
    free(page);
  }
}

power_node *power_node_of(const char *path)
{
  struct stat st;
  uint64_t inode = stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
  pthread_mutex_lock(&lock);
  power_node *node = nodes;
  while (node && strcmp(node->path, path) != 0) node = node->next;
  if (node && inode != node->inode) forget_locked(node);
  if (!node) {
    node = power_alloc(sizeof *node);
    node->path = strdup(path);
    if (!node->path) abort();
    node->next = nodes;
    nodes = node;
  }
  node->inode = inode;
  pthread_mutex_unlock(&lock);
  return node;
}

static bool touches(const power_change *c, int64_t page)
{
  return !c->is_truncate && c->offset < (page + 1) * POWER_PAGE && c->offset + (int64_t)c->new_size > page * POWER_PAGE;
}

/* What was written is on the disk, page by page; so is a lost page that was written again. */
void power_settle(power_node *node)
{
  pthread_mutex_lock(&lock);
  for (power_lost **at = &node->lost; *at;) {
    power_lost *page = *at;
    const power_change *c = node->newest;
    while (c && !touches(c, page->number)) c = c->older;
    if (!c) {
      at = &page->next;
      continue;
    }
    *at = page->next;
    free(page);
  }
  settle_locked(node);
  pthread_mutex_unlock(&lock);
}

void power_forget(power_node *node)
{
  pthread_mutex_lock(&lock);
  forget_locked(node);
  pthread_mutex_unlock(&lock);
}

void power_remember(power_node *node, power_change change)
{
  power_change *copy = power_alloc(sizeof *copy);
  *copy = change;
  pthread_mutex_lock(&lock);
  if (!node->newest && (node->fd = open(node->path, O_RDWR | O_CLOEXEC)) < 0) die(node->path);
  copy->older = node->newest;
  node->newest = copy;
  pthread_mutex_unlock(&lock);
}

/* ---- syncs that fail ---------------------------------------------------------------------------------------------- */

void power_vfs_fail_sync(const char *suffix, uint64_t n, uint64_t seed)
{
  power_vfs_fail_syncs(suffix, n, 1, seed);
}

void power_vfs_fail_syncs(const char *suffix, uint64_t n, uint64_t count, uint64_t seed)
{
  pthread_mutex_lock(&lock);
  snprintf(fail_suffix, sizeof fail_suffix, "%s", suffix);
  fail_in = n;
  fail_count = count;
  fail_seed = seed;
  has_failed = false;
  pthread_mutex_unlock(&lock);
}

bool power_vfs_sync_failed(void)
{
  pthread_mutex_lock(&lock);
  bool failed = has_failed;
  pthread_mutex_unlock(&lock);
  return failed;
}

bool power_sync_fails(const char *path)
{
  pthread_mutex_lock(&lock);
  size_t size = strlen(path), suffix_size = strlen(fail_suffix);
  bool is_meant = fail_in && size >= suffix_size && strcmp(path + size - suffix_size, fail_suffix) == 0;
  bool fails = is_meant && --fail_in == 0;
  if (fails) {
    has_failed = true;
    fail_in = --fail_count ? 1 : 0; /* the next one, too */
  }
  pthread_mutex_unlock(&lock);
  return fails;
}

static uint8_t *read_file_of(int fd, int64_t *out_size, const char *path)
{
  struct stat st;
  if (fstat(fd, &st) != 0) die(path);
  uint8_t *data = power_alloc((size_t)st.st_size);
  for (int64_t at = 0; at < st.st_size;) {
    ssize_t got = pread(fd, data + at, (size_t)(st.st_size - at), at);
    if (got <= 0) die(path);
    at += got;
  }
  *out_size = st.st_size;
  return data;
}

/* The file as it was before all that is pending. Truncates count as done: sizes are the file system's own business. */
static uint8_t *file_before(const power_node *node, int64_t *out_size)
{
  uint8_t *data = read_file_of(node->fd, out_size, node->path);
  for (const power_change *c = node->newest; c; c = c->older) {
    int64_t end = c->offset + (int64_t)c->new_size;
    if (c->is_truncate) continue;
    if (end > *out_size) end = *out_size;
    if (end > c->offset) memset(data + c->offset, 0, (size_t)(end - c->offset));
    int64_t old_end = c->offset + (int64_t)c->old_size;
    if (old_end > *out_size) old_end = *out_size;
    if (old_end > c->offset) memcpy(data + c->offset, c->old_data, (size_t)(old_end - c->offset));
  }
  return data;
}

static void lose_page(power_node *node, int64_t number, const uint8_t *before, int64_t size)
{
  for (const power_lost *page = node->lost; page; page = page->next)
    if (page->number == number) return; /* the disk still has what it had */
  power_lost *page = power_alloc(sizeof *page);
  page->number = number;
  int64_t left = size - number * POWER_PAGE;
  if (left > 0) memcpy(page->disk, before + number * POWER_PAGE, left < POWER_PAGE ? (size_t)left : POWER_PAGE);
  page->next = node->lost;
  node->lost = page;
}

void power_lose(power_node *node)
{
  pthread_mutex_lock(&lock);
  if (node->newest) {
    int64_t size = 0;
    uint64_t random = fail_seed;
    uint8_t *before = file_before(node, &size);
    for (const power_change *c = node->newest; c; c = c->older) {
      if (c->is_truncate || !c->new_size) continue;
      int64_t last = (c->offset + (int64_t)c->new_size - 1) / POWER_PAGE;
      for (int64_t page = c->offset / POWER_PAGE; page <= last; page++)
        if (!fail_seed || power_random(&random) % 2) lose_page(node, page, before, size);
    }
    free(before);
    settle_locked(node);
  }
  pthread_mutex_unlock(&lock);
}

/* ---- the cut ------------------------------------------------------------------------------------------------------ */

static void write_all(int fd, const uint8_t *data, size_t size, int64_t at, const char *path)
{
  while (size) {
    ssize_t done = pwrite(fd, data, size, at);
    if (done <= 0) die(path);
    data += done, at += done, size -= (size_t)done;
  }
}

/* Put a write back on the disk: whole, not at all, or some of its sectors. */
static void replay_write(int fd, const power_change *c, uint64_t *random, const char *path)
{
  uint64_t fate = power_random(random) % 3;
  if (fate == 0) return;
  for (size_t at = 0; at < c->new_size;) {
    size_t step = SECTOR - (size_t)((c->offset + (int64_t)at) % SECTOR);
    if (step > c->new_size - at) step = c->new_size - at;
    if (fate == 1 || power_random(random) % 2) write_all(fd, c->new_data + at, step, c->offset + (int64_t)at, path);
    at += step;
  }
}

static power_change *reversed(power_change *list)
{
  power_change *out = NULL;
  while (list) {
    power_change *next = list->older;
    list->older = out;
    out = list;
    list = next;
  }
  return out;
}

/* What failed syncs lost. */
static void put_lost(const power_node *node, int fd)
{
  struct stat st;
  if (fstat(fd, &st) != 0) die(node->path);
  for (const power_lost *page = node->lost; page; page = page->next) {
    int64_t at = page->number * POWER_PAGE, left = st.st_size - at;
    if (left > 0) write_all(fd, page->disk, left < POWER_PAGE ? (size_t)left : POWER_PAGE, at, node->path);
  }
}

static void put_lost_by_name(power_node *node)
{
  struct stat st;
  int fd = open(node->path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_ino == node->inode) put_lost(node, fd);
  if (fd >= 0) close(fd);
}

/* Back to the last sync, newest change first; then forward again with luck. */
static void cut_node(power_node *node, uint64_t *random)
{
  int fd = node->fd;
  for (power_change *c = node->newest; c; c = c->older) {
    write_all(fd, c->old_data, c->old_size, c->offset, node->path);
    if (ftruncate(fd, c->old_file_size) != 0) die(node->path);
  }
  put_lost(node, fd);
  node->newest = reversed(node->newest);
  for (power_change *c = node->newest; c; c = c->older) {
    if (!c->is_truncate)
      replay_write(fd, c, random, node->path);
    else if (power_random(random) % 2 && ftruncate(fd, c->offset) != 0)
      die(node->path);
  }
  forget_locked(node);
}

static void cut_locked(uint64_t seed)
{
  if (is_cut) return;
  is_cut = true;
  for (power_node *node = nodes; node; node = node->next) {
    uint64_t random = seed;
    for (const char *p = strrchr(node->path, '/'); p && *p; p++) random = random * 31 + (uint8_t)*p; /* not the order of opening */
    if (node->newest)
      cut_node(node, &random);
    else if (node->lost)
      put_lost_by_name(node);
  }
}

void power_vfs_evict(void)
{
  pthread_mutex_lock(&lock);
  for (power_node *node = nodes; node; node = node->next) {
    if (node->lost) put_lost_by_name(node);
    forget_locked(node);
  }
  pthread_mutex_unlock(&lock);
}

void power_vfs_cut(uint64_t seed)
{
  pthread_mutex_lock(&lock);
  cut_locked(seed);
  pthread_mutex_unlock(&lock);
}

void power_vfs_cut_after(uint64_t n, uint64_t seed)
{
  pthread_mutex_lock(&lock);
  cut_at = n ? call_count + n : 0;
  cut_seed = seed;
  pthread_mutex_unlock(&lock);
}

void power_vfs_kill_after(uint64_t n)
{
  pthread_mutex_lock(&lock);
  kill_at = n ? call_count + n : 0;
  pthread_mutex_unlock(&lock);
}

bool power_strikes(void)
{
  pthread_mutex_lock(&lock);
  if (!is_cut && ++call_count == cut_at) cut_locked(cut_seed);
  if (!is_cut && call_count == kill_at) raise(SIGKILL);
  bool is_off = is_cut;
  pthread_mutex_unlock(&lock);
  return is_off;
}

bool power_vfs_is_cut(void)
{
  pthread_mutex_lock(&lock);
  bool is_off = is_cut;
  pthread_mutex_unlock(&lock);
  return is_off;
}

uint64_t power_vfs_calls(void)
{
  pthread_mutex_lock(&lock);
  uint64_t count = call_count;
  pthread_mutex_unlock(&lock);
  return count;
}

void power_vfs_restore(void)
{
  pthread_mutex_lock(&lock);
  while (nodes) {
    power_node *node = nodes;
    nodes = node->next;
    forget_locked(node);
    free(node->path);
    free(node);
  }
  is_cut = false;
  cut_at = fail_in = 0;
  has_failed = false;
  pthread_mutex_unlock(&lock);
}

void power_vfs_install(void)
{
  static sqlite3_vfs *vfs;
  if (vfs) return;
  sqlite3_vfs *real = sqlite3_vfs_find("unix");
  if (!real) abort();
  vfs = power_vfs_make(real);
  if (sqlite3_vfs_register(vfs, 0) != SQLITE_OK) abort();
}

/* ---- the lock file ------------------------------------------------------------------------------------------------ */

bool power_lock_file_save(const char *path, uint8_t out[4096])
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = pread(fd, out, 4096, 0) == 4096;
  close(fd);
  return ok;
}

void power_lock_file_tear(const char *path, const uint8_t older[4096], uint64_t seed)
{
  uint8_t bytes[4096] = {0};
  uint64_t random = seed ^ UINT64_C(0x10CF11E);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  switch (power_random(&random) % 5) {
  case 0: break;
  case 1: write_all(fd, older ? older : bytes, sizeof bytes, 0, path); break;
  case 2: write_all(fd, bytes, sizeof bytes, 0, path); break;
  case 3:
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)power_random(&random);
    write_all(fd, bytes, sizeof bytes, 0, path);
    break;
  default:
    if (ftruncate(fd, 0) != 0) die(path);
  }
  close(fd);
}
