/*
 * persistent.c: state.persistent.*: an agent's own state, which survives sessions and restarts. It is the agent's store at the ref
 * `main`: the keys that `perdure put` writes, with the engine's versions.
 *
 * P1  Of a key its last versions can be seen, as many as persistent.versions says (0: all), from the moment that the newest is written;
 *     gc takes the bytes of the others away later. Their numbers may skip.
 * P2  Reading never makes a store.
 */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/history.h"
#include "state/home.h"
#include "state/quota.h"
#include "state/run.h"

#define ANSWER_SIZE_MAX ((size_t)64 << 20)

/* ---- what they share ---- */

static pd_code no_key(pd_frame *frame, pd_bytes key, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "KeyNotFound", "agent '%s' has no key '%.*s' in its persistent state", frame->agent,
                        (int)(key.size < 200 ? key.size : 200), (const char *)key.data);
}

static pd_code check_answer(const pd_frame *frame, pd_error *err)
{
  if (frame->out.code) return frame->out.code;
  if (frame->out.out->size <= ANSWER_SIZE_MAX) return PD_OK;
  return pd_error_named(err, PD_LIMIT, "LimitExceeded",
                        "%s: the answer is larger than 64 MiB; ask for less: a longer prefix, a lower limit", frame->capability->name);
}

/* ---- get ---- */

/* What is said of a value, found or not. */
typedef struct answer {
  uint64_t version;
  bool is_found;
  int64_t created_ms, updated_ms;
} answer;

static const pd_bind answer_members[] = {
  {"version", PD_BIND_NUMBER, PD_BIND_AT(answer, version)},
  {"found", PD_BIND_BOOL, PD_BIND_AT(answer, is_found)},
  {"created_at", PD_BIND_TIME, PD_BIND_AT(answer, created_ms)},
  {"updated_at", PD_BIND_TIME, PD_BIND_AT(answer, updated_ms)},
};

/* `entry` NULL: there is none. */
static void write_answer(pd_frame *frame, pd_bytes value, const pd_entry *entry)
{
  answer is = {0};
  if (entry) is = (answer){entry->version, true, entry->created_ms, entry->updated_ms};
  pd_json_key(&frame->out, "value");
  if (entry)
    pd_out_stored(&frame->out, value);
  else
    pd_json_null(&frame->out);
  pd_bind_write(&frame->out, answer_members, COUNT_OF(answer_members), &is);
}

/* What can be seen of a key (P1). */
typedef struct version_window {
  uint64_t wanted, oldest;
  bool is_inside;
} version_window;

static bool look_in_window(void *ctx, const pd_version_info *version)
{
  version_window *w = ctx;
  w->oldest = version->entry.version;
  w->is_inside |= w->oldest == w->wanted;
  return !w->is_inside;
}

static pd_code no_version(pd_frame *frame, pd_bytes key, uint64_t version, uint64_t oldest, uint64_t present, pd_error *err)
{
  pd_frame_detail_number(frame, "oldest_version", oldest);
  pd_frame_detail_number(frame, "current_version", present);
  return pd_error_named(err, PD_NOT_FOUND, "KeyNotFound", "key '%.*s' has no version %llu: versions %llu to %llu are retained",
                        (int)(key.size < 200 ? key.size : 200), (const char *)key.data, (unsigned long long)version,
                        (unsigned long long)oldest, (unsigned long long)present);
}

static pd_code get_version(pd_frame *frame, pd_store *store, pd_bytes key, uint64_t version, pd_buf *value, pd_entry *entry, pd_error *err)
{
  pd_entry present;
  pd_code code = store ? pd_get(store, PD_STATE_REF, key, NULL, &present, err) : PD_NOT_FOUND;
  if (code == PD_NOT_FOUND) return no_key(frame, key, err);
  if (code) return code;
  version_window w = {.wanted = version, .oldest = present.version};
  TRY(pd_history(store, PD_STATE_REF, key, frame->home->config.persistent_versions, look_in_window, &w, err));
  if (!w.is_inside) return no_version(frame, key, version, w.oldest, present.version, err);
  code = pd_get_version(store, PD_STATE_REF, key, version, value, entry, err);
  return code == PD_NOT_FOUND || code == PD_RETIRED ? no_version(frame, key, version, w.oldest, present.version, err) : code;
}

pd_code pd_cap_state_persistent_get(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_bytes key = pd_in_text(frame, "key");
  int64_t version = pd_in_int(frame, "version", 0);
  pd_store *store;
  pd_entry entry;
  if (version && pd_frame_is_hurried(frame)) return pd_frame_must_wait(frame, err); /* the past is on the disk */
  TRY(pd_frame_own_or_none(frame, &store, err));                                    /* P2 */
  pd_code code = PD_NOT_FOUND;
  if (version)
    TRY(code = get_version(frame, store, key, (uint64_t)version, &value, &entry, err));
  else if (store)
    code = pd_get(store, PD_STATE_REF, key, &value, &entry, err);
  if (code && code != PD_NOT_FOUND) return code;
  write_answer(frame, pd_buf_bytes(&value), code ? NULL : &entry);
  return PD_OK;
}

/* ---- set ---- */

static const pd_bind ack_members[] = {
  {"version", PD_BIND_NUMBER, PD_BIND_AT(pd_ack, version)},
  {"previous_version", PD_BIND_NUMBER, PD_BIND_AT(pd_ack, previous_version)},
};

pd_code pd_cap_state_persistent_set(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  pd_quota quota = {"the persistent state of agent", frame->agent, frame->home->config.persistent_quota_bytes};
  pd_store *store;
  pd_ack ack;
  TRY(pd_in_value(frame, "value", &value, err));
  TRY(pd_frame_own(frame, true, &store, err));
  TRY(pd_quota_room(frame, false, err));
  TRY(pd_quota_put(frame, store, &quota, pd_in_text(frame, "key"), pd_buf_bytes(&value), PD_ANY_VERSION, &ack, err));
  pd_bind_write(&frame->out, ack_members, COUNT_OF(ack_members), &ack);
  return PD_OK;
}

/* ---- delete: the key, and the bytes of all its versions but those that another ref, a tag or a pin shows; if history.* ever moved the
 * state, also of versions that no ref leads to any more (W4) ---- */

pd_code pd_cap_state_persistent_delete(pd_frame *frame, pd_error *err)
{
  pd_store *store;
  pd_note note = pd_frame_note(frame);
  note.ref = PD_STATE_REF;
  pd_erase_options options = {.is_lazy = true, .spares_marks = true, .note = &note};
  pd_erase_report report = {0};
  bool has_left = false;
  TRY(pd_frame_own_or_none(frame, &store, err)); /* P2 */
  if (store) TRY(pd_history_has_left(store, &has_left, err));
  if (has_left) options.left_of = PD_HISTORY_LEFT_OF;
  pd_code code = store ? pd_erase(store, pd_in_text(frame, "key"), &options, &report, err) : PD_NOT_FOUND;
  if (code && code != PD_NOT_FOUND) return code;
  if (report.has_commit) pd_frame_commit(frame, &(pd_ack){.commit = report.commit});
  pd_json_put_bool(&frame->out, "deleted", !code);
  return PD_OK;
}

/* ---- list, query ---- */

typedef struct totals {
  uint64_t count, bytes;
} totals;

static pd_code write_entry(pd_frame *frame, const pd_entry *entry, const pd_bytes *value, pd_error *err)
{
  pd_json_open(&frame->out, '{');
  pd_json_put_bytes(&frame->out, "key", entry->key);
  if (value) {
    pd_json_key(&frame->out, "value");
    pd_out_stored(&frame->out, *value);
  }
  pd_json_put_number(&frame->out, "version", entry->version);
  if (value)
    pd_out_time(frame, "created_at", entry->created_ms);
  else
    pd_json_put_number(&frame->out, "size_bytes", entry->size);
  pd_out_time(frame, "updated_at", entry->updated_ms);
  pd_json_close(&frame->out, '}');
  return check_answer(frame, err);
}

static pd_code write_entries(pd_frame *frame, pd_iter *iter, bool has_values, totals *sum, pd_error *err)
{
  pd_entry entry;
  pd_bytes value;
  pd_code code;
  while ((code = pd_iter_next(iter, &entry, &value, err)) == PD_OK) {
    TRY(write_entry(frame, &entry, has_values ? &value : NULL, err));
    sum->count++;
    sum->bytes += entry.size;
  }
  return code == PD_NOT_FOUND ? PD_OK : code;
}

/* "entries" and "count", of one moment. */
static pd_code walk(pd_frame *frame, bool has_values, totals *sum, pd_error *err)
{
  pd_store *store;
  pd_iter *iter = NULL;
  pd_scan scan = {.prefix = pd_in_text(frame, "prefix"), .keys_only = !has_values};
  TRY(pd_frame_own_or_none(frame, &store, err)); /* P2 */
  if (store) TRY(pd_iter_open(store, PD_STATE_REF, &scan, &iter, err));
  pd_json_key(&frame->out, "entries");
  pd_json_open(&frame->out, '[');
  pd_code code = iter ? write_entries(frame, iter, has_values, sum, err) : PD_OK;
  pd_iter_close(iter);
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", sum->count);
  return code;
}

pd_code pd_cap_state_persistent_list(pd_frame *frame, pd_error *err)
{
  totals sum = {0};
  TRY(walk(frame, false, &sum, err));
  pd_json_put_number(&frame->out, "total_size_bytes", sum.bytes);
  return PD_OK;
}

pd_code pd_cap_state_persistent_query(pd_frame *frame, pd_error *err)
{
  totals sum = {0};
  return walk(frame, true, &sum, err);
}

/* ---- history ---- */

typedef struct history {
  pd_frame *frame;
  uint64_t count;
  pd_code code;
  pd_error *err;
} history;

static bool write_version(void *ctx, const pd_version_info *version)
{
  history *h = ctx;
  pd_frame *frame = h->frame;
  pd_json_open(&frame->out, '{');
  pd_json_key(&frame->out, "value");
  if (version->is_erased)
    pd_json_null(&frame->out);
  else
    pd_out_stored(&frame->out, version->value);
  pd_json_put_number(&frame->out, "version", version->entry.version);
  pd_out_time(frame, "created_at", version->entry.created_ms);
  pd_out_time(frame, "updated_at", version->entry.updated_ms);
  if (version->is_erased) pd_json_put_bool(&frame->out, "erased", true);
  pd_json_close(&frame->out, '}');
  h->count++;
  h->code = check_answer(frame, h->err);
  return h->code == PD_OK;
}

pd_code pd_cap_state_persistent_history(pd_frame *frame, pd_error *err)
{
  pd_bytes key = pd_in_text(frame, "key");
  uint64_t limit = (uint64_t)pd_in_int(frame, "limit", 0), window = frame->home->config.persistent_versions;
  if (window && (!limit || limit > window)) limit = window;
  history h = {.frame = frame, .err = err};
  pd_store *store;
  TRY(pd_frame_own_or_none(frame, &store, err)); /* P2 */
  if (!store) return no_key(frame, key, err);
  pd_json_key(&frame->out, "versions");
  pd_json_open(&frame->out, '[');
  pd_code code = pd_history_values(store, PD_STATE_REF, key, limit, write_version, &h, err);
  if (code == PD_NOT_FOUND) return no_key(frame, key, err);
  if (code || h.code) return code ? code : h.code;
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", h.count);
  return PD_OK;
}
