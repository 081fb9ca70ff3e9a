/* array.c: see array.h. */
#include "base/array.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

pd_code pd_array_grow(void *array, size_t count, size_t *capacity, size_t size, const char *what, pd_error *err)
{
  return pd_array_grow_from(16, array, count, capacity, size, what, err);
}

pd_code pd_array_grow_from(size_t first, void *array, size_t count, size_t *capacity, size_t size, const char *what, pd_error *err)
{
  if (count < *capacity) return PD_OK;
  size_t bigger = *capacity ? *capacity * 2 : first;
  void *old;
  memcpy(&old, array, sizeof old); /* the caller's pointer is of another type */
  void *grown = realloc(old, bigger * size);
  if (!grown) return pd_error_memory(err, what);
  memcpy(array, &grown, sizeof grown);
  *capacity = bigger;
  return PD_OK;
}
