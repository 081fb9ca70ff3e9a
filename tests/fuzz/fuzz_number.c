/* fuzz_number.c: whole numbers as text: what is taken is written back as the same bytes. */
#include "base/buf.h"
#include "base/number.h"
#include "fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char text[64], again[PD_U64_TEXT_SIZE];
  uint64_t number = 0;
  if (size >= sizeof text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  const char *at = text;
  if (pd_u64_take(&at, &number)) {
    pd_u64_text(number, again);
    FUZZ_REQUIRE(strlen(again) == (size_t)(at - text) && memcmp(again, text, (size_t)(at - text)) == 0);
    FUZZ_REQUIRE(*at < '0' || *at > '9');
  } else {
    FUZZ_REQUIRE(at == text);
  }
  FUZZ_REQUIRE(pd_u64_parse(text, &number) == (at != text && !*at));
  return 0;
}
