/* fuzz_record.c: records of the log. The first byte is the record's number; the checksum is made right, or nothing would get past it. */
#include "base/buf.h"
#include "base/sha256.h"
#include "dag/record.h"
#include "fuzz/fuzz.h"

#define CHECK_SIZE 4

static void check_value(const pd_rec *rec, const pd_rec_change *ch, pd_bytes bytes)
{
  pd_bytes value;
  pd_code code = pd_rec_value_at(rec->seq, bytes, ch->pos, ch->size, &value, NULL);
  if (!rec->is_redacted) FUZZ_REQUIRE(code == PD_OK && value.data == ch->value.data);
}

static pd_redaction erase_all(void *ctx, const pd_rec *rec, const pd_rec_change *change)
{
  (void)ctx, (void)rec, (void)change;
  return PD_REDACT_ERASE;
}

/* With every value erased it is still a record, of the same audit. */
static void check_redacted(const pd_rec *rec, const pd_id *prev, const pd_id *audit)
{
  pd_buf cut = {0};
  pd_rec again;
  bool is_changed;
  if (pd_rec_redact(rec, erase_all, NULL, true, &cut, &is_changed, NULL)) abort();
  FUZZ_REQUIRE(pd_rec_decode(rec->seq, pd_buf_bytes(&cut), &again, NULL) == PD_OK);
  FUZZ_REQUIRE(again.change_count == rec->change_count);
  pd_id same = pd_rec_audit(&again, prev);
  if (!is_changed) FUZZ_REQUIRE(pd_id_equal(&same, audit));
  pd_buf_done(&cut);
}

static void check_record(const pd_rec *rec, pd_bytes bytes)
{
  pd_id zero = {{0}};
  FUZZ_REQUIRE(rec->kind > 0 && rec->kind < PD_RECORD_KIND_COUNT);
  FUZZ_REQUIRE(rec->parent_count <= PD_PARENT_COUNT_MAX && rec->change_count <= PD_EDIT_COUNT_MAX);
  FUZZ_REQUIRE(rec->keyframe_seq < rec->seq && rec->ref_prev_seq < rec->seq && rec->covers < rec->seq);
  for (size_t i = 0; i < rec->parent_count; i++) FUZZ_REQUIRE(rec->is_grafted ? rec->base_seq < rec->seq : rec->parent_seqs[i] < rec->seq);
  pd_cursor c = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &c, &ch);
    FUZZ_REQUIRE(!c.failed && ch.key.size && ch.key.size <= PD_KEY_SIZE_MAX && ch.version && ch.prev_seq < rec->seq);
    bool is_inline = !ch.is_delete && !ch.is_in_bag && !ch.is_erased;
    if (is_inline) FUZZ_REQUIRE(ch.value.size == ch.size && (rec->is_redacted || ch.pos + ch.size <= bytes.size));
    if (is_inline) check_value(rec, &ch, bytes);
    pd_rec_value_id(&ch);
  }
  pd_id audit = pd_rec_audit(rec, &zero);
  check_redacted(rec, &zero, &audit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!size) return 0;
  uint64_t seq = data[0];
  pd_bytes bytes = {data + 1, size - 1};
  pd_rec rec;
  pd_error err = {0};
  pd_code code = pd_rec_decode(seq, bytes, &rec, &err); /* as it is */
  FUZZ_REQUIRE(code == PD_OK || (code == PD_CORRUPT && err.code == code));
  if (bytes.size < CHECK_SIZE) return 0;
  uint8_t *copy = malloc(bytes.size);
  if (!copy) abort();
  memcpy(copy, bytes.data, bytes.size);
  pd_id sum = pd_sha256((pd_bytes){copy, bytes.size - CHECK_SIZE});
  memcpy(copy + bytes.size - CHECK_SIZE, sum.bytes, CHECK_SIZE);
  bytes.data = copy;
  code = pd_rec_decode(seq, bytes, &rec, &err);
  FUZZ_REQUIRE(code == PD_OK || (code == PD_CORRUPT && err.code == code));
  if (code == PD_OK) check_record(&rec, bytes);
  free(copy);
  return 0;
}
