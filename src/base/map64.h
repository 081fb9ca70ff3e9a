/* map64.h: a set of 64-bit numbers (fingerprints: already well mixed), each with a small number of its own. */
#ifndef PD_BASE_MAP64_H
#define PD_BASE_MAP64_H

#include <perdure/error.h>
#include <stdbool.h>

typedef struct pd_map64_slot {
  uint64_t key; /* 0: free */
  uint32_t value;
} pd_map64_slot;

/* Zero-initialise; pd_map64_done frees. */
typedef struct pd_map64 {
  pd_map64_slot *slots;
  size_t count, size;
} pd_map64;

void pd_map64_done(pd_map64 *map);
/* The number of `key`, made 0 if it is new; *out_is_new (may be NULL) says so. Borrowed until the next add. */
PD_MUST_USE pd_code pd_map64_add(pd_map64 *map, uint64_t key, uint32_t **out_value, bool *out_is_new, pd_error *err);
/* NULL if it is not there. */
uint32_t *pd_map64_find(const pd_map64 *map, uint64_t key);

/* Mix two numbers into a fingerprint. */
static inline uint64_t pd_mix64(uint64_t a, uint64_t b)
{
  uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

#endif
