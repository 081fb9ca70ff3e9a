/* fuzz_parcel.c: bodies of raw routes: parcels (base/parcel.h), and what a server would do with them as records (pd_log_check_*). */
#include "base/buf.h"
#include "base/parcel.h"
#include "fuzz/fuzz.h"

#include <perdure/backend.h>

#define COUNT_MAX 1000

/* They say where they begin and end: put together again they are the same bytes. */
static void check_round(pd_bytes text, const pd_bytes *parcels, size_t count)
{
  pd_buf again = {0};
  for (size_t i = 0; i < count; i++) FUZZ_REQUIRE(pd_parcel_put(&again, parcels[i], NULL) == PD_OK);
  FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&again), text));
  pd_buf_done(&again);
}

static void check_records(const pd_bytes *parcels, size_t count)
{
  const pd_backend_ops *ops;
  const char *rest;
  pd_backend *b = NULL;
  pd_error err = {0};
  if (pd_backend_find("memory:", &ops, &rest, NULL) || ops->open(rest, "main", PD_BACKEND_CREATE, &b, NULL)) abort();
  pd_code code = pd_log_check_append(b, 1, parcels, count, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_INVALID);
  FUZZ_REQUIRE(code == PD_OK || err.message[0]);
  for (size_t i = 0; i + 1 < count; i++) {
    pd_id commit;
    code = pd_log_check_swap(i + 1, parcels[i], parcels[i + 1], &err);
    FUZZ_REQUIRE(code == PD_OK || code == PD_INVALID || code == PD_CORRUPT);
    code = pd_log_commit_of(i + 1, parcels[i], &commit, NULL);
    FUZZ_REQUIRE(code == PD_OK || code == PD_NOT_FOUND);
  }
  ops->close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_bytes text = {data, size}, *parcels = NULL;
  size_t count = 0;
  pd_error err = {0};
  pd_code code = pd_parcel_all(text, COUNT_MAX, &parcels, &count, &err);
  FUZZ_REQUIRE(code == PD_OK || code == PD_INVALID || code == PD_LIMIT);
  FUZZ_REQUIRE(code == PD_OK || err.message[0]);
  if (code) return 0;
  check_round(text, parcels, count);
  check_records(parcels, count);
  free(parcels);
  return 0;
}
