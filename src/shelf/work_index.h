/*
 * work_index.h: the two forms of the index of items on a ref.
 *
 * A StateStore has it as one value, as its public format says: run:index, a list of ids. There each new item rewrites the whole list; on a
 * ref whose history is kept, n items cost n² bytes. So the capabilities work.* keep one key an item: run:index/<number>, 16 hexadecimal
 * digits, with the id as a JSON string, in the order in which the items were made; and at run:index/tally what spares reading them: the
 * next number, how many there are, and how many items have ended since the last sweep. A ref may have both: then those of the list are
 * older.
 *
 * The shelf of type perdure shows both as run:index, and takes the keys away in the commit that writes run:index.
 */
#ifndef PD_SHELF_WORK_INDEX_H
#define PD_SHELF_WORK_INDEX_H

#include "base/buf.h"

#include <perdure/perdure.h>
#include <string.h>

#define PD_WORK_INDEX "run:index"
#define PD_WORK_INDEX_PREFIX PD_WORK_INDEX "/"
#define PD_WORK_INDEX_TALLY PD_WORK_INDEX_PREFIX "tally"
#define PD_WORK_INDEX_DIGITS 16

/* The number of an entry's key; 0: it is none. */
static inline uint64_t pd_work_index_number(pd_bytes key)
{
  static const char hex[] = "0123456789abcdef";
  size_t prefix = sizeof PD_WORK_INDEX_PREFIX - 1;
  const char *text = (const char *)key.data;
  uint64_t number = 0;
  if (key.size != prefix + PD_WORK_INDEX_DIGITS || memcmp(text, PD_WORK_INDEX_PREFIX, prefix) != 0) return 0;
  for (size_t i = prefix; i < key.size; i++) {
    const char *at = memchr(hex, text[i], 16);
    if (!at) return 0;
    number = number << 4 | (uint64_t)(at - hex);
  }
  return number < UINT64_MAX - 1 ? number : 0;
}

/* Is it a key of the second form? */
static inline bool pd_is_work_key(pd_bytes key)
{
  return pd_work_index_number(key) || pd_bytes_equal(key, pd_text(PD_WORK_INDEX_TALLY));
}

#endif
