/* fuzz_chunks.c: groups and lists of a value's pieces, and the cutting itself. What is accepted encodes to the very same bytes; a cut
 * keeps its bounds whatever the bytes are. */
#include "base/buf.h"
#include "dag/chunk.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void check_group(pd_bytes bytes)
{
  pd_list_walk walk;
  pd_error err = {0};
  pd_code code = pd_group_open(bytes, NULL, &walk, &err);
  FUZZ_REQUIRE(code == PD_OK || (code == PD_CORRUPT && err.code == code));
  if (code != PD_OK) return;
  FUZZ_REQUIRE(walk.count > 0 && walk.count <= PD_GROUP_COUNT_MAX);
  static pd_chunk chunks[PD_GROUP_COUNT_MAX];
  size_t count = 0;
  uint64_t size = 0, expected = walk.size;
  for (; pd_group_next(&walk, &chunks[count]); count++) {
    FUZZ_REQUIRE(chunks[count].size > 0 && chunks[count].size <= PD_CHUNK_SIZE_MAX);
    size += chunks[count].size;
  }
  FUZZ_REQUIRE(size == expected);
  pd_buf again = {0};
  FUZZ_REQUIRE(pd_group_encode(chunks, count, &again, NULL) == PD_OK);
  FUZZ_REQUIRE(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0);
  pd_buf_done(&again);
}

static void check_list(pd_bytes bytes)
{
  pd_list_walk walk;
  pd_error err = {0};
  pd_code code = pd_list_open(bytes, &walk, &err);
  FUZZ_REQUIRE(code == PD_OK || (code == PD_CORRUPT && err.code == code));
  if (code != PD_OK) return;
  FUZZ_REQUIRE(walk.count > 0 && walk.count <= bytes.size / PD_ID_SIZE && walk.size <= PD_CHUNKED_SIZE_MAX);
  pd_group *groups = malloc(walk.count * sizeof *groups);
  if (!groups) abort();
  size_t count = 0;
  while (pd_list_next(&walk, &groups[count])) {
    FUZZ_REQUIRE(groups[count].count > 0 && groups[count].count <= PD_GROUP_COUNT_MAX && groups[count].size > 0);
    count++;
  }
  pd_buf again = {0};
  FUZZ_REQUIRE(pd_list_encode(groups, count, &again, NULL) == PD_OK);
  FUZZ_REQUIRE(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0);
  pd_buf_done(&again);
  free(groups);
}

static void check_cut(pd_bytes bytes)
{
  static pd_gear gear;
  if (!gear.table[0]) pd_gear_init(&gear);
  size_t cut = pd_chunk_cut(&gear, bytes);
  FUZZ_REQUIRE(cut <= bytes.size && cut <= PD_CHUNK_SIZE_MAX && (cut > 0 || !bytes.size));
  if (cut < bytes.size) FUZZ_REQUIRE(cut > PD_CHUNK_SIZE_MIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  check_group((pd_bytes){data, size});
  check_list((pd_bytes){data, size});
  check_cut((pd_bytes){data, size});
  return 0;
}
