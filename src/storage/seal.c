/* seal.c: see seal.h. */
#include "storage/seal.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"

#define BITS 64
#define SUM_AT (PD_SEAL_MARK_AT + PD_SEAL_MARK_SIZE)
#define SPACE_MIN 64 /* less of it is a document's own */

_Static_assert(PD_SEAL_MARK_SIZE == 3 * BITS && PD_SEAL_SIZE == SUM_AT + BITS + 1, "as seal.h says");

static void write_bits(uint64_t number, char *out)
{
  for (int i = 0; i < BITS; i++) out[i] = number >> (BITS - 1 - i) & 1 ? '\t' : ' ';
}

static uint64_t read_bits(const char *text)
{
  uint64_t number = 0;
  for (int i = 0; i < BITS; i++) number = number << 1 | (text[i] == '\t');
  return number;
}

void pd_seal_mark_text(const pd_storage_mark *mark, char out[PD_SEAL_MARK_SIZE])
{
  write_bits(mark->epoch, out);
  write_bits(mark->save, out + BITS);
  write_bits(mark->token, out + 2 * BITS);
}

static uint64_t sum_of(pd_bytes document, const char *seal)
{
  const pd_bytes parts[] = {document, {seal, SUM_AT}};
  pd_id id = pd_sha256_parts(parts, COUNT_OF(parts));
  uint64_t sum = 0;
  for (int i = 0; i < 8; i++) sum = sum << 8 | id.bytes[i];
  return sum;
}

pd_code pd_seal_write(pd_bytes document, const pd_storage_mark *mark, pd_buf *out, pd_error *err)
{
  char seal[PD_SEAL_SIZE];
  seal[0] = seal[PD_SEAL_SIZE - 1] = '\n';
  pd_seal_mark_text(mark, seal + PD_SEAL_MARK_AT);
  write_bits(sum_of(document, seal), seal + SUM_AT);
  TRY(pd_buf_append(out, document.data, document.size, err));
  return pd_buf_append(out, seal, sizeof seal, err);
}

static bool is_seal(pd_bytes tail)
{
  const char *text = tail.data;
  if (tail.size != PD_SEAL_SIZE || text[0] != '\n' || text[PD_SEAL_SIZE - 1] != '\n') return false;
  for (size_t i = 1; i < PD_SEAL_SIZE - 1; i++)
    if (text[i] != ' ' && text[i] != '\t') return false;
  return true;
}

pd_storage_mark pd_seal_mark(pd_bytes tail)
{
  const char *text = (const char *)tail.data + PD_SEAL_MARK_AT;
  if (!is_seal(tail)) return (pd_storage_mark){0};
  return (pd_storage_mark){read_bits(text), read_bits(text + BITS), read_bits(text + 2 * BITS)};
}

/* Z2 */
static bool has_seal(pd_bytes stored)
{
  const char *text = stored.data;
  size_t space = 0;
  bool has_tab = false;
  for (; space < stored.size && strchr(" \t\r\n", text[stored.size - 1 - space]) && text[stored.size - 1 - space]; space++)
    has_tab |= text[stored.size - 1 - space] == '\t';
  return space >= SPACE_MIN && has_tab;
}

pd_code pd_seal_read(pd_bytes stored, pd_bytes *out_document, pd_storage_mark *out_mark, pd_error *err)
{
  if (out_mark) *out_mark = (pd_storage_mark){0};
  *out_document = stored;
  if (!has_seal(stored)) return PD_OK;
  size_t size = stored.size < PD_SEAL_SIZE ? 0 : stored.size - PD_SEAL_SIZE;
  const char *seal = (const char *)stored.data + size;
  pd_bytes document = {stored.data, size}, tail = {seal, stored.size - size};
  if (!is_seal(tail) || sum_of(document, seal) != read_bits(seal + SUM_AT)) {
    return pd_error_set(err, PD_CORRUPT,
                        "the stored snapshot is damaged: its checksum does not match (if it was edited on purpose, delete "
                        "the white space behind it)");
  }
  *out_document = document;
  if (out_mark) *out_mark = pd_seal_mark(tail);
  return PD_OK;
}

/* ---- marks and epochs ---------------------------------------------------------------------------------------------- */

bool pd_mark_is(const pd_storage_mark *now, const pd_storage_mark *last)
{
  return !last || (now->epoch == last->epoch && now->save == last->save && now->token == last->token);
}

uint64_t pd_epoch_after(uint64_t last)
{
  int64_t now = pd_clock_now_ms(NULL);
  return now > 0 && (uint64_t)now > last ? (uint64_t)now : last + 1;
}

pd_code pd_epoch_conflict(uint64_t epoch, uint64_t now, pd_error *err)
{
  return pd_error_conflict(err, epoch, now, "epoch %llu holds the agent", (unsigned long long)now);
}

pd_code pd_mark_conflict(const pd_storage_mark *next, const pd_storage_mark *now, pd_error *err)
{
  return pd_error_conflict(err, next->epoch, next->epoch, "the snapshot was saved by epoch %llu meanwhile (save %llu)",
                           (unsigned long long)now->epoch, (unsigned long long)now->save);
}
