/* supervisor_tail.c: the end of what a process wrote, kept as bytes and told as text. */
#include "base/base.h"
#include "base/buf.h"
#include "supervisor.h"

#define REPLACEMENT "\xEF\xBF\xBD"

void tail_add(tail *t, const char *data, size_t size)
{
  if (size > TAIL_SIZE) data += size - TAIL_SIZE, size = TAIL_SIZE;
  for (size_t i = 0; i < size; i++) t->bytes[(t->start + t->size + i) % TAIL_SIZE] = data[i];
  t->size += size;
  if (t->size <= TAIL_SIZE) return;
  t->start = (t->start + t->size - TAIL_SIZE) % TAIL_SIZE;
  t->size = TAIL_SIZE;
}

/* The size of the character that ends at `end`, if there is a whole one; else 0. */
static size_t whole_before(const char *text, size_t end)
{
  for (size_t size = 1; size <= 4 && size <= end; size++)
    if (pd_utf8_check((pd_bytes){text + end - size, size}) && text[end - size]) return size;
  return 0;
}

size_t tail_text(const tail *t, char out[TAIL_SIZE])
{
  char line[TAIL_SIZE];
  size_t left = TAIL_SIZE, end = t->size;
  for (size_t i = 0; i < t->size; i++) line[i] = t->bytes[(t->start + i) % TAIL_SIZE];
  while (end) { /* from its end, for that is what matters */
    size_t size = whole_before(line, end), need = size ? size : strlen(REPLACEMENT);
    bool is_cut = !size && t->size == TAIL_SIZE && end <= 3 && ((unsigned char)line[end - 1] & 0xC0) == 0x80; /* of the oldest character */
    if (need > left || is_cut) break;
    left -= need;
    memcpy(out + left, size ? line + end - size : REPLACEMENT, need);
    end -= size ? size : 1;
  }
  memmove(out, out + left, TAIL_SIZE - left);
  return TAIL_SIZE - left;
}
