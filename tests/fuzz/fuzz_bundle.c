/* fuzz_bundle.c: bundles. The checksum is made right, or nothing would get past it. What is refused must leave the store as it was. */
#include "base/sha256.h"
#include "fuzz/fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void import(pd_bytes bytes)
{
  pd_store *s = NULL;
  pd_error err = {0};
  int fd = memfd_create("bundle", MFD_CLOEXEC);
  FUZZ_REQUIRE(fd >= 0 && write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
  FUZZ_REQUIRE(pd_store_open("memory:", "main", NULL, &s, NULL) == PD_OK);
  pd_stats before, after;
  FUZZ_REQUIRE(pd_store_stats(s, &before, NULL) == PD_OK);
  pd_code code = pd_import(s, fd, NULL, NULL, &err);
  FUZZ_REQUIRE(pd_store_stats(s, &after, NULL) == PD_OK);
  FUZZ_REQUIRE(code == PD_OK || (err.code == code && err.message[0] && before.records == after.records));
  FUZZ_REQUIRE(pd_verify(s, NULL, NULL, NULL) == PD_OK);
  pd_store_close(s, NULL);
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < PD_ID_SIZE) return 0;
  uint8_t *copy = malloc(size);
  if (!copy) abort();
  memcpy(copy, data, size);
  pd_id sum = pd_sha256((pd_bytes){copy, size - PD_ID_SIZE});
  memcpy(copy + size - PD_ID_SIZE, sum.bytes, PD_ID_SIZE);
  import((pd_bytes){copy, size});
  free(copy);
  return 0;
}
