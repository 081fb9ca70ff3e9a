/*
 * data.h: the keys and values that every side of a benchmark stores, made from numbers, so that what is read can be checked.
 *
 * Key i is "agent/task-" and i in seven digits: a prefix of all but three digits has 1,000 keys. Value (i, version) is 200 bytes:
 *
 *   0    8  mark: a hash of i and version
 *   8    4  version, this machine's byte order
 *   12 188  pseudo-random bytes that follow from the mark: no side can compress them
 */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <perdure/perdure.h>

#define BENCH_KEY_SIZE 18
#define BENCH_KEY_COUNT_MAX 10000000
#define BENCH_PREFIX_COUNT 1000 /* keys that share a prefix of BENCH_PREFIX_SIZE bytes */
#define BENCH_PREFIX_SIZE 15
#define BENCH_VALUE_SIZE 200

typedef struct bench_key {
  char text[BENCH_KEY_SIZE + 1];
} bench_key;

typedef struct bench_value {
  uint8_t bytes[BENCH_VALUE_SIZE];
} bench_value;

void bench_key_make(uint32_t index, bench_key *out);
void bench_value_make(uint32_t index, uint32_t version, bench_value *out);

static inline pd_bytes bench_key_bytes(const bench_key *key)
{
  pd_bytes b = {key->text, BENCH_KEY_SIZE};
  return b;
}

static inline pd_bytes bench_value_bytes(const bench_value *value)
{
  pd_bytes b = {value->bytes, BENCH_VALUE_SIZE};
  return b;
}

/* Size and mark say that this is some version of key `index`'s value; touches 12 bytes, cheap enough for a timed loop. */
bool bench_value_belongs(pd_bytes value, uint32_t index, uint32_t *out_version);
/* Every byte is that of this very version. */
bool bench_value_is(pd_bytes value, uint32_t index, uint32_t version);

/* The next number of a reproducible sequence; any `state` will do to begin with. */
uint64_t bench_random(uint64_t *state);
static inline uint32_t bench_random_below(uint64_t *state, uint32_t bound)
{
  return (uint32_t)(((bench_random(state) >> 32) * bound) >> 32);
}

/* 0…count-1 in an order given by `seed`. The caller frees it. */
PD_MUST_USE pd_code bench_shuffle_new(uint32_t count, uint64_t seed, uint32_t **out, pd_error *err);
/* For CLEANUP: frees what a pointer variable holds. */
void bench_free(void *pointer_variable);

#endif
