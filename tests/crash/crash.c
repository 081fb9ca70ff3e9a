/* crash.c: see crash.h. */
#include "crash/crash.h"

#include "base/buf.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t random_state;

uint64_t crash_count(uint64_t small, uint64_t full)
{
  const char *how = getenv("PERDURE_TORTURE");
  return how && strcmp(how, "full") == 0 ? full : small;
}

bool crash_is_enough(uint64_t lives, uint64_t lives_wanted, bool is_tested)
{
  return lives >= lives_wanted && (is_tested || lives >= 10 * lives_wanted);
}

void crash_seed(void)
{
  const char *text = getenv("PERDURE_SEED");
  uint64_t seed = 1;
  if (text && *text)
    seed = strtoull(text, NULL, 10);
  else if (getrandom(&seed, sizeof seed, 0) == sizeof seed)
    seed = seed % 1000000000 + 1;
  printf("# PERDURE_SEED=%llu\n", (unsigned long long)seed);
  fflush(stdout);
  random_state = seed;
}

static uint64_t mix(uint64_t x)
{
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t crash_random(uint64_t below)
{
  return mix(random_state += 0x9E3779B97F4A7C15u) % below;
}

void crash_scratch(char out[CRASH_PATH_MAX])
{
  const char *tmp = getenv("TMPDIR");
  snprintf(out, CRASH_PATH_MAX, "%s/perdure-crash-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(out)) {
    perror(out);
    exit(1);
  }
}

void crash_remove(const char *folder)
{
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir));) {
    char path[CRASH_PATH_MAX + 300];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || lstat(path, &st) != 0) continue;
    if (S_ISDIR(st.st_mode))
      crash_remove(path);
    else
      unlink(path);
  }
  closedir(dir);
  rmdir(folder);
}

void crash_scratch_remove(const char *folder)
{
  crash_remove(folder);
}

static bool copy_file(const char *from, const char *to)
{
  char block[65536];
  int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ssize_t n = -1;
  while (in >= 0 && out >= 0 && (n = read(in, block, sizeof block)) > 0)
    if (write(out, block, (size_t)n) != n) {
      n = -1;
      break;
    }
  if (in >= 0) close(in);
  if (out >= 0) close(out);
  return n == 0;
}

bool crash_copy(const char *from, const char *to)
{
  DIR *dir = opendir(from);
  if (!dir) return false;
  bool is_whole = mkdir(to, 0700) == 0;
  for (struct dirent *e; is_whole && (e = readdir(dir));) {
    char source[CRASH_PATH_MAX + 300], target[CRASH_PATH_MAX + 300];
    struct stat st;
    snprintf(source, sizeof source, "%s/%s", from, e->d_name);
    snprintf(target, sizeof target, "%s/%s", to, e->d_name);
    if (stat(source, &st) == 0 && S_ISREG(st.st_mode)) is_whole = copy_file(source, target);
  }
  closedir(dir);
  return is_whole;
}

static size_t value_size(uint64_t number)
{
  uint64_t h = mix(number + 1);
  if (h % 50 == 0) return 20000 + h / 64 % 30000;
  if (h % 10 == 0) return 1000 + h / 64 % 4000;
  return 16 + h / 64 % 200;
}

void crash_value(uint64_t number, pd_buf *out)
{
  size_t size = value_size(number);
  pd_buf_clear(out);
  if (pd_buf_reserve(out, size, NULL) != PD_OK) abort();
  memcpy(out->data, &number, sizeof number);
  for (size_t i = sizeof number; i < size; i++) out->data[i] = (uint8_t)(mix(number) >> i % 8 * 8) ^ (uint8_t)i;
  out->size = size;
}

bool crash_value_number(pd_bytes value, uint64_t *out_number)
{
  pd_buf expected = {0};
  if (value.size < sizeof *out_number) return false;
  memcpy(out_number, value.data, sizeof *out_number);
  crash_value(*out_number, &expected);
  bool is_right = pd_bytes_equal(value, pd_buf_bytes(&expected));
  pd_buf_done(&expected);
  return is_right;
}

static void print_finding(void *ctx, const char *what)
{
  (void)ctx;
  printf("# finding: %s\n", what);
}

pd_code crash_verify(pd_store *store, pd_error *err)
{
  pd_verify_options options = {.finding = print_finding};
  pd_verify_report report = {0};
  pd_code code = pd_verify(store, &options, &report, err);
  if (code == PD_OK && report.findings) return PD_CORRUPT;
  return code;
}
