/* random.h: random numbers of the system's. */
#ifndef PD_BASE_RANDOM_H
#define PD_BASE_RANDOM_H

#include <perdure/perdure.h>

/* 64 random bits, never 0. PD_STORAGE if the system gives none. */
PD_MUST_USE pd_code pd_random_u64(uint64_t *out, pd_error *err);
/* `size` - 1 hexadecimal digits and a NUL: an even number of them, at most 64. PD_STORAGE. */
PD_MUST_USE pd_code pd_random_hex(char *out, size_t size, pd_error *err);

#endif
