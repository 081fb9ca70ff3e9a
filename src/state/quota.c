/* quota.c: see quota.h. The engine counts (pd_note.bytes_max); here its answer gets the names that agents know. */
#include "state/quota.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define ROOM_MS 1000                           /* what was counted holds so long */
#define ROOM_SHARE 8                           /* and for this share of what is left: other processes write, too */
#define SMALL_SIZE_MAX 4096                    /* of a call that ends something */
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

pd_code pd_quota_put(pd_frame *frame, pd_store *store, const pd_quota *quota, pd_bytes key, pd_bytes value, uint64_t expect_version,
                     pd_ack *out, pd_error *err)
{
  bool is_large = value.size >= LOOK_FIRST_SIZE_MIN;
  if (is_large && pd_frame_is_hurried(frame)) return pd_frame_must_wait(frame, err);
  if (is_large) TRY(look_first(frame, store, quota, key, value, err));
  pd_note note = pd_frame_last_note(frame);
  note.ref = PD_STATE_REF;
  note.bytes_max = quota->bytes_max;
  pd_code code = pd_put_if(store, key, value, expect_version, &note, out, err);
  if (code == PD_QUOTA) return exceeded(frame, quota, key, value, err->actual, err);
  if (code) return code;
  pd_frame_commit(frame, out);
  return PD_OK;
}

/* ---- all that an agent has ---- */

static uint64_t input_size(const pd_frame *frame)
{
  uint64_t size = 0;
  for (size_t i = 0; i < PD_FIELD_COUNT_MAX; i++) size += frame->input->fields[i].raw.size;
  return size;
}

static uint64_t file_size(const pd_frame *frame, const char *suffix)
{
  char *path = NULL;
  struct stat st;
  if (asprintf(&path, "%s/%s.db%s", frame->home->folder, frame->held->name, suffix) < 0) return 0;
  uint64_t size = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
  free(path);
  return size;
}

/* At least what the store holds, at no cost: the size of its files; UINT64_MAX if that is not known. */
static uint64_t bound_of(const pd_frame *frame)
{
  uint64_t size = frame->home->folder ? file_size(frame, "") : 0;
  return size ? size + file_size(frame, "-wal") : UINT64_MAX;
}

typedef struct names {
  pd_buf text; /* each with a NUL */
  pd_code code;
} names;

static void add_name(void *ctx, const pd_ref *ref)
{
  names *n = ctx;
  if (!n->code) n->code = pd_buf_append(&n->text, ref->name, strlen(ref->name) + 1, NULL);
}

/* What the heads of all refs hold. A ref that cannot be counted does not stop the others: doctor tells of it. */
static pd_code count_all(pd_store *store, uint64_t *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  names n = {0};
  pd_code code = pd_ref_list(store, add_name, &n, err);
  text = n.text;
  TRY(code);
  if (n.code) return pd_error_memory(err, "a list of refs");
  uint64_t total = 0, bytes;
  for (size_t at = 0; at < text.size; at += strlen((const char *)text.data + at) + 1)
    if (!pd_ref_bytes(store, (const char *)text.data + at, &bytes, NULL)) total += bytes;
  *out = total;
  return PD_OK;
}

static pd_code no_room(pd_frame *frame, uint64_t used, uint64_t size, pd_error *err)
{
  uint64_t limit = frame->home->config.agent_quota_bytes;
  pd_frame_detail_number(frame, "used", used);
  pd_frame_detail_number(frame, "limit", limit);
  pd_frame_detail_number(frame, "size", size);
  return pd_error_named(err, PD_QUOTA, "QuotaExceeded",
                        "agent '%s' keeps %llu of %llu bytes in its state, forks, threads, mailboxes and work items; %llu more do not fit:"
                        " delete threads or forks that nobody needs, or ask for a larger agent.quota",
                        frame->held->name, (unsigned long long)used, (unsigned long long)limit, (unsigned long long)size);
}

static pd_code look_for_room(pd_frame *frame, uint64_t size, pd_error *err)
{
  uint64_t limit = frame->home->config.agent_quota_bytes, used = bound_of(frame);
  if (used > limit || size > limit - used) TRY(count_all(frame->held->store, &used, err));
  if (used > limit || size > limit - used) return no_room(frame, used, size, err);
  atomic_store(&frame->held->room_bytes, (int64_t)((limit - used - size) / ROOM_SHARE));
  atomic_store(&frame->held->room_until_ms, pd_clock_monotonic_ms() + ROOM_MS);
  return PD_OK;
}

pd_code pd_quota_room(pd_frame *frame, bool small_is_free, pd_error *err)
{
  uint64_t size = input_size(frame);
  return small_is_free && size <= SMALL_SIZE_MAX ? PD_OK : pd_quota_room_for(frame, size, err);
}

pd_code pd_quota_room_for(pd_frame *frame, uint64_t size, pd_error *err)
{
  pd_held *held = frame->held;
  if (!held) return PD_OK;
  bool is_fresh = pd_clock_monotonic_ms() < atomic_load(&held->room_until_ms);
  if (is_fresh && atomic_fetch_sub(&held->room_bytes, (int64_t)size) >= (int64_t)size) return PD_OK;
  return pd_frame_is_hurried(frame) ? pd_frame_must_wait(frame, err) : look_for_room(frame, size, err);
}

void pd_quota_look_again(pd_frame *frame)
{
  if (frame->held) atomic_store(&frame->held->room_until_ms, 0);
}
