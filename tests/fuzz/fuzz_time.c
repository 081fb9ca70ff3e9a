/* fuzz_time.c: times as text. What is a time can be written and read again. */
#include "base/clock.h"
#include "fuzz/fuzz.h"

#define YEAR_0_MS INT64_C(-62167219200000)
#define YEAR_10000_MS INT64_C(253402300800000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1);
  char again[PD_TIME_TEXT_SIZE];
  int64_t ms = -77, back = -77;
  if (!text) abort();
  memcpy(text, data, size);
  text[size] = 0;
  if (pd_time_parse(text, &ms)) {
    pd_time_text(ms, again);
    FUZZ_REQUIRE(memchr(again, 0, sizeof again));
    if (ms >= YEAR_0_MS && ms < YEAR_10000_MS) FUZZ_REQUIRE(pd_time_parse(again, &back) && back == ms);
  } else {
    FUZZ_REQUIRE(ms == -77); /* untouched on failure */
  }
  free(text);
  return 0;
}
