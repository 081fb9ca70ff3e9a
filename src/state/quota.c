/* quota.c: see quota.h. The engine counts (pd_note.bytes_max); here its answer gets the names that agents know. */
#include "state/quota.h"

#include "base/base.h"
#include "base/error.h"

#define LOOK_FIRST_SIZE_MIN ((size_t)64 << 10) /* the bytes of larger values reach the disk before the commit that may be refused */

static pd_code exceeded(pd_frame *frame, const pd_quota *quota, pd_bytes key, pd_bytes value, uint64_t used, pd_error *err)
{
  pd_frame_detail_number(frame, "used", used);
  pd_frame_detail_number(frame, "limit", quota->bytes_max);
  pd_frame_detail_number(frame, "size", value.size);
  return pd_error_named(err, PD_QUOTA, "QuotaExceeded", "%s%s%s%s has %llu of %llu bytes; the %zu bytes for key '%.*s' do not fit",
                        quota->what, quota->whose ? " '" : "", quota->whose ? quota->whose : "", quota->whose ? "'" : "",
                        (unsigned long long)used, (unsigned long long)quota->bytes_max, value.size, (int)(key.size < 100 ? key.size : 100),
                        (const char *)key.data);
}

/* Saves writing the pieces of a value that cannot fit. The commit looks again. */
static pd_code look_first(pd_frame *frame, pd_store *store, const pd_quota *quota, pd_bytes key, pd_bytes value, pd_error *err)
{
  uint64_t used;
  pd_entry entry = {0};
  TRY(pd_ref_bytes(store, PD_STATE_REF, &used, err));
  pd_code code = pd_get(store, PD_STATE_REF, key, NULL, &entry, err);
  if (code && code != PD_NOT_FOUND) return code;
  uint64_t before = code ? 0 : entry.size;
  if (value.size <= before || before > used || used - before + value.size <= quota->bytes_max) return PD_OK;
  return exceeded(frame, quota, key, value, used, err);
}

static pd_code put(pd_frame *frame, pd_store *store, pd_bytes key, pd_bytes value, uint64_t expect_version, const pd_note *note,
                   pd_ack *out, pd_error *err)
{
  if (!pd_frame_is_hurried(frame)) return pd_put_if(store, key, value, expect_version, note, out, err);
  if (value.size >= LOOK_FIRST_SIZE_MIN) return pd_frame_must_wait(frame, err);
  TRY(pd_put_later(store, key, value, expect_version, note, &frame->later, out, err));
  return out->durability == PD_NOTHING ? pd_frame_must_wait(frame, err) : PD_OK;
}

pd_code pd_quota_put(pd_frame *frame, pd_store *store, const pd_quota *quota, pd_bytes key, pd_bytes value, uint64_t expect_version,
                     pd_ack *out, pd_error *err)
{
  if (value.size >= LOOK_FIRST_SIZE_MIN && !pd_frame_is_hurried(frame)) TRY(look_first(frame, store, quota, key, value, err));
  pd_note note = pd_frame_note(frame);
  note.ref = PD_STATE_REF;
  note.bytes_max = quota->bytes_max;
  pd_code code = put(frame, store, key, value, expect_version, &note, out, err);
  if (code == PD_QUOTA) return exceeded(frame, quota, key, value, err->actual, err);
  if (code) return code;
  pd_frame_commit(frame, out);
  return PD_OK;
}
