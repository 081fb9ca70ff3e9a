/* replay.c CORPUS: a fuzz target as a plain test: every file of its corpus, and mutations of them. PERDURE_SEED and PERDURE_OPS (the number
 * of mutations) replay a run. TAP; a target that aborts leaves the plan undone. */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/random.h>

#define INPUT_MAX 4096
#define SEEDS_MAX 256
#define MUTATIONS 4000

typedef struct input {
  uint8_t data[INPUT_MAX];
  size_t size;
} input;

static input seeds[SEEDS_MAX];
static size_t seed_count;
static uint64_t state;

static uint64_t pick(uint64_t below)
{
  uint64_t x = state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return (x ^ x >> 31) % below;
}

static void run(const input *in)
{
  uint8_t *exact = malloc(in->size ? in->size : 1); /* nothing after it, so that a read past the end is seen */
  if (!exact) abort();
  memcpy(exact, in->data, in->size);
  LLVMFuzzerTestOneInput(exact, in->size);
  free(exact);
}

static void load(const char *folder)
{
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && seed_count < SEEDS_MAX && (e = readdir(dir));) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    FILE *file = e->d_name[0] == '.' ? NULL : fopen(path, "rb");
    if (!file) continue;
    seeds[seed_count].size = fread(seeds[seed_count].data, 1, INPUT_MAX, file);
    seed_count++;
    fclose(file);
  }
  if (dir) closedir(dir);
}

/* One small change: of a bit, a byte, a piece; or a piece of another seed. */
static void mutate(input *in)
{
  const input *other = &seeds[pick(seed_count)];
  size_t at = in->size ? pick(in->size) : 0;
  switch (pick(7)) {
  case 0:
    if (in->size) in->data[at] ^= (uint8_t)(1u << pick(8));
    break;
  case 1:
    if (in->size) in->data[at] = (uint8_t)pick(256);
    break;
  case 2: in->size = at; break;
  case 3: {
    size_t gone = in->size ? 1 + pick(in->size - at) : 0;
    memmove(in->data + at, in->data + at + gone, in->size - at - gone);
    in->size -= gone;
    break;
  }
  case 4:
    if (in->size < INPUT_MAX) {
      memmove(in->data + at + 1, in->data + at, in->size - at);
      in->data[at] = (uint8_t)pick(256);
      in->size++;
    }
    break;
  case 5: {
    size_t from = other->size ? pick(other->size) : 0, count = other->size - from;
    if (count > INPUT_MAX - at) count = INPUT_MAX - at;
    memcpy(in->data + at, other->data + from, count);
    if (at + count > in->size) in->size = at + count;
    break;
  }
  default:
    if (in->size) in->data[at] = "\x00\xFF\x7F\x80\"\\{[~@#:/0"[pick(14)];
  }
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
  uint64_t seed = 1;
  if (argc != 2) {
    fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
    return 2;
  }
  if (getrandom(&seed, sizeof seed, 0) == sizeof seed) seed = seed % 1000000000 + 1;
  state = number_of("PERDURE_SEED", seed);
  printf("1..2\n# PERDURE_SEED=%llu\n", (unsigned long long)state);
  fflush(stdout);
  load(argv[1]);
  for (size_t i = 0; i < seed_count; i++) run(&seeds[i]);
  printf("%sok 1 - corpus__every_one_of_%zu_inputs_is_survived\n", seed_count ? "" : "not ", seed_count);
  fflush(stdout);
  if (!seed_count) return 1;
  uint64_t count = number_of("PERDURE_OPS", MUTATIONS);
  for (uint64_t i = 0; i < count; i++) {
    input in = seeds[pick(seed_count)];
    for (uint64_t n = 1 + pick(4); n; n--) mutate(&in);
    run(&in);
  }
  printf("ok 2 - mutations__%llu_of_them_are_survived\n", (unsigned long long)count);
  return 0;
}
