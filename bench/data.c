/* data.c: see data.h. */
#include "data.h"

#include <stdlib.h>

#include "base/error.h"

static const char key_head[] = "agent/task-";

static uint64_t mix(uint64_t x)
{
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static uint64_t value_mark(uint32_t index, uint32_t version)
{
  return mix(((uint64_t)version << 32 | index) + 0x9e3779b97f4a7c15u);
}

/* By hand, because snprintf would be half of a timed get. */
void bench_key_make(uint32_t index, bench_key *out)
{
  memcpy(out->text, key_head, sizeof(key_head) - 1);
  for (size_t at = BENCH_KEY_SIZE; at-- > sizeof(key_head) - 1;) {
    out->text[at] = (char)('0' + index % 10);
    index /= 10;
  }
  out->text[BENCH_KEY_SIZE] = 0;
}

void bench_value_make(uint32_t index, uint32_t version, bench_value *out)
{
  uint64_t word = value_mark(index, version);
  for (size_t at = 0; at < BENCH_VALUE_SIZE; at += sizeof(word)) {
    memcpy(out->bytes + at, &word, sizeof(word));
    word = mix(word + 0x9e3779b97f4a7c15u);
  }
  memcpy(out->bytes + 8, &version, sizeof(version));
}

bool bench_value_belongs(pd_bytes value, uint32_t index, uint32_t *out_version)
{
  uint64_t mark;
  uint32_t version;
  if (value.size != BENCH_VALUE_SIZE) return false;
  memcpy(&mark, value.data, sizeof(mark));
  memcpy(&version, (const uint8_t *)value.data + 8, sizeof(version));
  if (mark != value_mark(index, version)) return false;
  if (out_version) *out_version = version;
  return true;
}

bool bench_value_is(pd_bytes value, uint32_t index, uint32_t version)
{
  bench_value expected;
  bench_value_make(index, version, &expected);
  return value.size == BENCH_VALUE_SIZE && memcmp(value.data, expected.bytes, BENCH_VALUE_SIZE) == 0;
}

uint64_t bench_random(uint64_t *state)
{
  *state += 0x9e3779b97f4a7c15u;
  return mix(*state);
}

pd_code bench_shuffle_new(uint32_t count, uint64_t seed, uint32_t **out, pd_error *err)
{
  uint32_t *order = malloc((count ? count : 1) * sizeof(*order));
  if (!order) return pd_error_memory(err, "an order of keys");
  for (uint32_t i = 0; i < count; i++) order[i] = i;
  for (uint32_t i = count; i > 1; i--) {
    uint32_t j = bench_random_below(&seed, i);
    uint32_t kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
  *out = order;
  return PD_OK;
}

void bench_free(void *pointer_variable)
{
  free(*(void **)pointer_variable);
}
