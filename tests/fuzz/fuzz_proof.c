/* fuzz_proof.c: proofs. The seal is made right, or nothing gets past it. The library and tools/verify-proof.c must agree on every input;
 * what is accepted shows slices of the input. Signed heads, the other document from outside, get the same bytes. */
#include "base/buf.h"
#include "base/sha256.h"
#include "fuzz/fuzz.h"
#include "support/verify_proof.h"

#include <perdure/perdure.h>

static void check_slice(pd_bytes slice, pd_bytes whole)
{
  const uint8_t *p = slice.data, *q = whole.data;
  if (slice.size) FUZZ_REQUIRE(p >= q && p + slice.size <= q + whole.size);
}

static void check_both(pd_bytes bytes)
{
  pd_error err = {0};
  pd_proof p;
  shown other;
  pd_code code = pd_check_proof(bytes, NULL, &p, &err);
  const char *why = check(bytes.data, bytes.size, &other);
  FUZZ_REQUIRE(!code == !why);
  FUZZ_REQUIRE(!code || (err.code == code && (code == PD_CORRUPT || code == PD_FORMAT || code == PD_LIMIT)));
  if (code) return;
  FUZZ_REQUIRE((int)p.kind == other.kind && memcmp(p.commit.bytes, other.commit, PD_ID_SIZE) == 0);
  if (p.kind == PD_PROOF_DESCENT) {
    FUZZ_REQUIRE(memcmp(p.ancestor.bytes, other.ancestor, PD_ID_SIZE) == 0);
    return;
  }
  FUZZ_REQUIRE(p.key.size == other.key.size && p.value.size == other.value.size);
  check_slice(p.key, bytes);
  check_slice(p.value, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_signed_head head;
  pd_bytes bytes = {data, size};
  pd_code code = pd_check_signed_head(bytes, NULL, &head, NULL);
  FUZZ_REQUIRE(code == PD_OK || code == PD_CORRUPT || code == PD_FORMAT || code == PD_LIMIT);
  check_both(bytes);
  if (size < PD_ID_SIZE) return 0;
  uint8_t *copy = malloc(size);
  if (!copy) abort();
  memcpy(copy, data, size);
  pd_id seal = pd_sha256((pd_bytes){copy, size - PD_ID_SIZE});
  memcpy(copy + size - PD_ID_SIZE, seal.bytes, PD_ID_SIZE);
  check_both((pd_bytes){copy, size});
  free(copy);
  return 0;
}
