/* fuzz_statefile.c: a StateStore's file. What is taken is written again in one form, which gives the same entries; all else is refused. */
#include "base/buf.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "shelf/file_format.h"

#include <string.h>

#define ENTRIES_MAX 4096

typedef struct entries {
  pd_shelf_item items[ENTRIES_MAX];
  size_t count, visited;
} entries;

static void *copy(pd_bytes bytes)
{
  void *made = malloc(bytes.size + 1);
  if (!made) abort();
  if (bytes.size) memcpy(made, bytes.data, bytes.size);
  return made;
}

static pd_code keep(void *ctx, pd_bytes key, pd_bytes value, pd_error *err)
{
  entries *e = ctx;
  pd_json json;
  FUZZ_REQUIRE(pd_json_parse(value, &json, err) == PD_OK && pd_utf8_check(key));
  e->visited++;
  if (e->count == ENTRIES_MAX) return PD_OK;
  pd_buf plain = {0};
  pd_json_writer w = {.out = &plain, .err = err};
  pd_json_value(&w, json);
  if (w.code) abort();
  e->items[e->count++] = (pd_shelf_item){{copy(key), key.size}, {copy(pd_buf_bytes(&plain)), plain.size}};
  pd_buf_done(&plain);
  return PD_OK;
}

static void forget(entries *e)
{
  for (size_t i = 0; i < e->count; i++) {
    free((void *)e->items[i].key.data);
    free((void *)e->items[i].value.data);
  }
  e->count = e->visited = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static entries first, second;
  pd_buf text = {0}, again = {0};
  pd_error err = {0};
  pd_code code = pd_state_file_parse((pd_bytes){data, size}, keep, &first, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT || code == PD_FORMAT);
  FUZZ_REQUIRE(code == PD_OK || (!first.visited && *err.message)); /* all of a file or nothing */
  FUZZ_REQUIRE(pd_state_file_parse((pd_bytes){data, size}, NULL, NULL, NULL) == code);
  if (code == PD_OK && first.count == first.visited) {
    if (pd_state_file_write(first.items, first.count, &text, NULL)) abort();
    FUZZ_REQUIRE(pd_state_file_parse(pd_buf_bytes(&text), keep, &second, NULL) == PD_OK && second.count == first.count);
    if (pd_state_file_write(second.items, second.count, &again, NULL)) abort();
    FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&text), pd_buf_bytes(&again)));
  }
  forget(&first);
  forget(&second);
  pd_buf_done(&text);
  pd_buf_done(&again);
  return 0;
}
