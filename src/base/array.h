/* array.h: growing plain arrays. */
#ifndef PD_BASE_ARRAY_H
#define PD_BASE_ARRAY_H

#include <perdure/error.h>
#include <stdlib.h>

/* Make room for one more element of `size` bytes after `count`; `array` is the address of the pointer. `what` is for the error. */
PD_MUST_USE pd_code pd_array_grow(void *array, size_t count, size_t *capacity, size_t size, const char *what, pd_error *err);

/* The same where most arrays are small, and there may be many: the first time there is room for `first`. */
PD_MUST_USE pd_code pd_array_grow_from(size_t first, void *array, size_t count, size_t *capacity, size_t size, const char *what,
                                       pd_error *err);

/* For CLEANUP of anything that malloc gave: CLEANUP(pd_free_at) char *text = NULL; */
static inline void pd_free_at(void *pointer)
{
  free(*(void **)pointer);
}

#endif
