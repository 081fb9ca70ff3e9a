/*
 * shared.c: the tier that all agents see: state.shared.get, set, delete, list. One store, `shared`, at its ref `main`.
 *
 * A write names the version it was made from, so nobody overwrites what they have not seen. Who wrote a value is the author of its
 * record (owners.h). Watching is in subscription.c.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/call.h"
#include "state/history.h"
#include "state/home.h"
#include "state/owners.h"
#include "state/quota.h"
#include "state/run.h"

static pd_code shared_store(pd_frame *frame, pd_store **out, pd_error *err)
{
  return pd_home_store(frame->home, PD_STORE_SHARED, true, out, err);
}

static void put_owner(pd_json_writer *out, const char *owner)
{
  pd_json_key(out, "owner_agent");
  if (*owner)
    pd_json_text(out, pd_text(owner));
  else
    pd_json_null(out);
}

/* ---- get ---- */

static void answer_found(pd_frame *frame, const pd_entry *entry, pd_bytes value, const char *owner)
{
  pd_json_key(&frame->out, "value");
  pd_out_stored(&frame->out, value);
  pd_json_put_number(&frame->out, "version", entry->version);
  pd_json_put_bool(&frame->out, "found", true);
  put_owner(&frame->out, owner);
  pd_out_time(frame, "updated_at", entry->updated_ms);
}

static void answer_missing(pd_frame *frame)
{
  pd_json_key(&frame->out, "value");
  pd_json_null(&frame->out);
  pd_json_put_number(&frame->out, "version", 0);
  pd_json_put_bool(&frame->out, "found", false);
  put_owner(&frame->out, "");
  pd_out_time(frame, "updated_at", 0);
}

pd_code pd_cap_state_shared_get(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  char owner[PD_NAME_SIZE_MAX + 1];
  pd_store *store;
  pd_entry entry;
  TRY(shared_store(frame, &store, err));
  pd_code code = pd_get(store, PD_STATE_REF, pd_in_text(frame, "key"), &value, &entry, err);
  if (code == PD_NOT_FOUND) {
    answer_missing(frame);
    return frame->out.code;
  }
  TRY(code);
  TRY(pd_owner_of(frame->home, store, &entry, owner, err));
  answer_found(frame, &entry, pd_buf_bytes(&value), owner);
  return frame->out.code;
}

/* ---- set, delete ---- */

pd_code pd_cap_state_shared_set(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_store *store;
  pd_ack ack;
  pd_quota quota = {.what = "the shared state", .bytes_max = frame->home->config.shared_quota_bytes};
  TRY(pd_in_value(frame, "value", &value, err));
  TRY(pd_home_store(frame->home, PD_STORE_SHARED, true, &store, err));
  uint64_t expected = (uint64_t)pd_in_int(frame, "expected_version", 0);
  TRY(pd_quota_put(frame, store, &quota, pd_in_text(frame, "key"), pd_buf_bytes(&value), expected, &ack, err));
  pd_json_put_number(&frame->out, "version", ack.version);
  return frame->out.code;
}

/* The key, and the bytes of all its versions but those that another ref, a tag or a pin shows, as state.persistent.delete does. Most keys
 * have nothing to erase but what was never moved: only if history.* moved the state is the log looked through (W4). */
pd_code pd_cap_state_shared_delete(pd_frame *frame, pd_error *err)
{
  pd_store *store;
  pd_note note = pd_frame_note(frame);
  note.ref = PD_STATE_REF;
  pd_erase_options options = {.is_lazy = true, .spares_marks = true, .note = &note};
  pd_erase_report report = {0};
  bool has_left = false;
  options.expect_version = (uint64_t)pd_in_int(frame, "expected_version", 0);
  TRY(shared_store(frame, &store, err));
  TRY(pd_history_has_left(store, &has_left, err));
  if (has_left) options.left_of = PD_HISTORY_LEFT_OF;
  pd_code code = pd_erase(store, pd_in_text(frame, "key"), &options, &report, err);
  if (code && code != PD_NOT_FOUND) return code;
  if (report.has_commit) pd_frame_commit(frame, &(pd_ack){.commit = report.commit});
  pd_json_put_bool(&frame->out, "deleted", report.refs > 0);
  return frame->out.code;
}

/* ---- list ---- */

static void put_entry(pd_frame *frame, const pd_entry *entry, const char *owner)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "key", entry->key);
  pd_json_put_number(&frame->out, "version", entry->version);
  pd_json_put_number(&frame->out, "size_bytes", entry->size);
  put_owner(&frame->out, owner);
  pd_out_time(frame, "updated_at", entry->updated_ms);
  pd_json_close(&frame->out, '}');
}

static pd_code list_entries(pd_frame *frame, pd_store *store, pd_iter *iter, pd_error *err)
{
  uint64_t count = 0, total = 0;
  char owner[PD_NAME_SIZE_MAX + 1];
  pd_entry entry;
  pd_code code;
  pd_json_key(&frame->out, "entries");
  pd_json_open(&frame->out, '[');
  while ((code = pd_iter_next(iter, &entry, NULL, err)) == PD_OK) {
    TRY(pd_owner_of(frame->home, store, &entry, owner, err));
    put_entry(frame, &entry, owner);
    count++;
    total += entry.size;
  }
  if (code != PD_NOT_FOUND) return code;
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", count);
  pd_json_put_number(&frame->out, "total_size_bytes", total);
  return frame->out.code;
}

pd_code pd_cap_state_shared_list(pd_frame *frame, pd_error *err)
{
  pd_store *store;
  pd_iter *iter;
  pd_scan scan = {.prefix = pd_in_text(frame, "prefix"), .keys_only = true};
  TRY(shared_store(frame, &store, err));
  TRY(pd_iter_open(store, PD_STATE_REF, &scan, &iter, err));
  pd_code code = list_entries(frame, store, iter, err);
  pd_iter_close(iter);
  return code;
}
