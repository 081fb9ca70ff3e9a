/* fuzz_audit.c: what is read back from the system store: batches and head of the audit, and approvals. What is accepted is written again
 * as the same bytes. */
#include "base/buf.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "state/approval.h"
#include "state/audit.h"

static void check_head(pd_bytes text)
{
  pd_audit_head head;
  pd_buf again = {0};
  if (pd_audit_head_parse(text, &head, NULL) == PD_OK) {
    FUZZ_REQUIRE(pd_audit_head_text(&head, &again, NULL) == PD_OK);
    FUZZ_REQUIRE(pd_bytes_equal(text, pd_buf_bytes(&again)));
  }
  pd_buf_done(&again);
}

static void check_batch(pd_bytes text)
{
  pd_audit_top top;
  pd_bytes rest, line;
  pd_id chain;
  pd_buf again = {0};
  bool is_end = false;
  if (pd_audit_top_parse(text, &top, &rest, NULL)) return;
  FUZZ_REQUIRE(pd_audit_top_text(&top, &again, NULL) == PD_OK);
  while (!is_end && pd_audit_next(&rest, &chain, &line, &is_end, NULL) == PD_OK && !is_end) {
    pd_json json;
    char hex[PD_ID_HEX_SIZE];
    FUZZ_REQUIRE(pd_buf_printf(&again, NULL, "%s ", pd_id_hex(&chain, hex)) == PD_OK);
    FUZZ_REQUIRE(pd_buf_append(&again, line.data, line.size, NULL) == PD_OK && pd_buf_byte(&again, '\n', NULL) == PD_OK);
    if (pd_json_parse(line, &json, NULL) == PD_OK) (void)pd_audit_time(json);
  }
  FUZZ_REQUIRE(again.size <= text.size && memcmp(again.data, text.data, again.size) == 0);
  if (is_end) FUZZ_REQUIRE(again.size == text.size);
  pd_buf_done(&again);
}

/* An approval that is written and read again is written the same way. */
static void check_approval(pd_bytes text)
{
  pd_json json;
  pd_approval item;
  pd_buf first = {0}, second = {0};
  pd_json_writer w = {.out = &first}, x = {.out = &second};
  if (pd_json_parse(text, &json, NULL) || pd_approval_parse(json, &item, NULL)) return;
  pd_approval_put(&w, &item);
  FUZZ_REQUIRE(w.code == PD_OK && pd_json_parse(pd_buf_bytes(&first), &json, NULL) == PD_OK);
  FUZZ_REQUIRE(pd_approval_parse(json, &item, NULL) == PD_OK);
  pd_approval_put(&x, &item);
  FUZZ_REQUIRE(x.code == PD_OK && pd_bytes_equal(pd_buf_bytes(&first), pd_buf_bytes(&second)));
  pd_buf_done(&first);
  pd_buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  pd_bytes text = {data, size};
  check_head(text);
  check_batch(text);
  check_approval(text);
  return 0;
}
