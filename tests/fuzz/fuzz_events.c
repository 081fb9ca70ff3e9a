/* fuzz_events.c: text/event-stream as a client reads it (remote/events.h): however the bytes are cut, the same events come out. */
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "remote/events.h"

#define SIZE_MAX_HERE 1024

static void take(void *ctx, pd_bytes data)
{
  FUZZ_REQUIRE(data.size && data.size <= SIZE_MAX_HERE);
  FUZZ_REQUIRE(pd_buf_append(ctx, data.data, data.size, NULL) == PD_OK && pd_buf_byte(ctx, 0, NULL) == PD_OK);
}

/* In pieces of `step` bytes; `events` tells what is known afterwards. */
static pd_code feed(pd_events *events, pd_bytes bytes, size_t step, pd_buf *out)
{
  *events = (pd_events){.told = take, .ctx = out, .size_max = SIZE_MAX_HERE};
  pd_code code = PD_OK;
  for (size_t at = 0; at < bytes.size && !code; at += step) {
    size_t left = bytes.size - at;
    code = pd_events_feed(events, (pd_bytes){(const uint8_t *)bytes.data + at, left < step ? left : step}, NULL);
  }
  pd_events_done(events);
  return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_events whole, cut;
  pd_buf told_whole = {0}, told_cut = {0};
  size_t step = size ? data[0] % 7 + 1 : 1;
  pd_code code = feed(&whole, (pd_bytes){data, size}, size ? size : 1, &told_whole);
  FUZZ_REQUIRE(code == PD_OK || code == PD_LIMIT);
  FUZZ_REQUIRE(feed(&cut, (pd_bytes){data, size}, step, &told_cut) == code);
  if (!code) {
    FUZZ_REQUIRE(pd_bytes_equal(pd_buf_bytes(&told_whole), pd_buf_bytes(&told_cut)));
    FUZZ_REQUIRE(strcmp(whole.id, cut.id) == 0 && whole.retry_ms == cut.retry_ms);
  }
  FUZZ_REQUIRE(memchr(whole.id, 0, sizeof whole.id) && whole.retry_ms <= 60000);
  pd_buf_done(&told_whole);
  pd_buf_done(&told_cut);
  return 0;
}
