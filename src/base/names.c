/* names.c: see names.h. */
#include "base/names.h"

#include "base/array.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

void pd_names_done(pd_names *names)
{
  for (size_t i = 0; i < names->count; i++) free(names->items[i]);
  free(names->items);
  *names = (pd_names){0};
}

void pd_names_add(pd_names *names, const char *name)
{
  if (!names->code) names->code = pd_array_grow(&names->items, names->count, &names->capacity, sizeof names->items[0], "names", NULL);
  if (names->code) return;
  names->items[names->count] = strdup(name);
  if (names->items[names->count])
    names->count++;
  else
    names->code = PD_NO_MEMORY;
}

void pd_names_take(void *ctx, const char *name)
{
  pd_names_add(ctx, name);
}

void pd_names_take_ref(void *ctx, const pd_ref *ref)
{
  pd_names_add(ctx, ref->name);
}

pd_code pd_names_check(const pd_names *names, const char *what, pd_error *err)
{
  return names->code ? pd_error_memory(err, what) : PD_OK;
}

static int compare(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void pd_names_sort(pd_names *names)
{
  size_t kept = 0;
  if (names->count) qsort(names->items, names->count, sizeof names->items[0], compare);
  for (size_t i = 0; i < names->count; i++) {
    if (kept && strcmp(names->items[kept - 1], names->items[i]) == 0)
      free(names->items[i]);
    else
      names->items[kept++] = names->items[i];
  }
  names->count = kept;
}
