/* heap.h: what this process has allocated, for tests that ask whether memory stays flat. */
#ifndef TESTS_SUPPORT_HEAP_H
#define TESTS_SUPPORT_HEAP_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static inline size_t heap_in_use(void)
{
  struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

/* True under a sanitizer, whose allocator does not tell: then nothing can be said. */
static inline bool heap_is_hidden(void)
{
  size_t before = heap_in_use();
  void *volatile block = malloc(4096); /* volatile, else the compiler takes it out */
  bool is_hidden = heap_in_use() == before;
  free(block);
  return is_hidden;
}

#endif
