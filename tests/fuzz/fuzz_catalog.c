/* fuzz_catalog.c: catalogs of keyframes and runs of commits. What is accepted can be encoded, and is then accepted again; a run is
 * searched within its bounds whatever it holds (it was compared with its id before). */
#include "base/buf.h"
#include "dag/catalog.h"
#include "fuzz/fuzz.h"

static void check_catalog(pd_bytes bytes)
{
  pd_catalog catalog = {0};
  pd_error err = {0};
  pd_code code = pd_catalog_decode(bytes, &catalog, &err);
  FUZZ_REQUIRE(code == PD_OK || (code == PD_CORRUPT && err.code == code));
  if (code == PD_OK) {
    pd_buf again = {0};
    FUZZ_REQUIRE(pd_catalog_encode(&catalog, &again, NULL) == PD_OK);
    pd_catalog_done(&catalog);
    FUZZ_REQUIRE(pd_catalog_decode(pd_buf_bytes(&again), &catalog, NULL) == PD_OK);
    pd_buf_done(&again);
  }
  pd_catalog_done(&catalog);
}

static void check_run(pd_bytes bytes)
{
  pd_code code = pd_run_check(bytes, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT);
  if (code != PD_OK) return;
  size_t count = pd_run_count(bytes);
  for (size_t i = 0; i < count; i++) {
    pd_run_entry e = pd_run_at(bytes, i);
    FUZZ_REQUIRE(pd_run_find(bytes, e.prefix) <= count);
  }
  FUZZ_REQUIRE(pd_run_find(bytes, 0) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  check_catalog((pd_bytes){data, size});
  check_run((pd_bytes){data, size});
  return 0;
}
