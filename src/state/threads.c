/* threads.c: threads.create|append|delete|fork|rewind: the calls that change threads. Reading them is in threads_read.c. */
#include "state/threads.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/home.h"
#include "state/quota.h"
#include "state/run.h"

/* ---- what they share ---- */

pd_thread_name pd_in_thread(const pd_frame *frame)
{
  pd_thread_name name = {0};
  pd_in_string(frame, "thread_id", name.text, sizeof name.text);
  return name;
}

int64_t pd_threads_now(void *home)
{
  return pd_home_now(home);
}

static pd_code find_store(pd_frame *frame, const char *id, pd_store **out, pd_error *err)
{
  TRY(pd_thread_id_check(id, "thread", err));
  TRY(pd_frame_own_or_none(frame, out, err));
  return *out ? PD_OK : pd_error_named(err, PD_NOT_FOUND, "NotFound", "agent '%s' has no thread '%s'", frame->agent, id);
}

pd_code pd_threads_open(pd_frame *frame, pd_thread **out, pd_error *err)
{
  pd_thread_name id = pd_in_thread(frame);
  pd_store *store;
  TRY(find_store(frame, id.text, &store, err));
  return pd_thread_open(store, id.text, out, err);
}

pd_code pd_threads_hold(pd_frame *frame, pd_thread **out, pd_error *err)
{
  pd_thread_name id = pd_in_thread(frame);
  pd_store *store;
  pd_thread_info info;
  pd_threads_let(frame, true); /* it is run anew, with what was foreseen */
  TRY(find_store(frame, id.text, &store, err));
  frame->thread = pd_thread_cache_take(frame->home->threads, store, id.text);
  if (frame->thread)
    TRY(pd_thread_info_get(frame->thread, &info, err)); /* T2 */
  else
    TRY(pd_thread_open(store, id.text, &frame->thread, err));
  *out = frame->thread;
  return PD_OK;
}

void pd_threads_let(pd_frame *frame, bool is_kept)
{
  if (!frame->thread) return;
  if (is_kept)
    pd_thread_cache_put(frame->home->threads, frame->thread);
  else
    pd_thread_close(frame->thread);
  frame->thread = NULL;
}

void pd_threads_shut(pd_thread **thread)
{
  pd_thread_close(*thread);
}

uint64_t pd_in_version(const pd_frame *frame, const char *name, uint64_t otherwise)
{
  return pd_in(frame, name).kind == PD_JSON_NONE ? otherwise : (uint64_t)pd_in_int(frame, name, 0);
}

void pd_out_id(pd_frame *frame, const char *key, const pd_id *id)
{
  pd_json_put_id(&frame->out, key, id);
}

void pd_out_said(pd_frame *frame, const char *key, const char *text)
{
  pd_json_put_said(&frame->out, key, text);
}

bool pd_out_is_long(const pd_frame *frame)
{
  return frame->out.code || frame->out.out->size > PD_THREADS_ANSWER_SIZE_MAX;
}

void pd_out_commit(pd_frame *frame, const pd_id *commit)
{
  frame->commit = *commit;
  frame->has_commit = true;
  pd_out_id(frame, "commit", commit);
}

/* The JSON of an input; empty if it is absent. */
static pd_bytes in_json(const pd_frame *frame, const char *name)
{
  return pd_in(frame, name).raw;
}

/* ---- create, fork ---- */

/* Texts of the inputs that create and fork have in common. */
typedef struct identity {
  char id[PD_THREAD_ID_SIZE_MAX + 1], parent[PD_THREAD_ID_SIZE_MAX + 1], owner[PD_THREAD_OWNER_SIZE_MAX + 1];
} identity;

static pd_thread_options read_identity(const pd_frame *frame, const char *id_field, identity *out)
{
  return (pd_thread_options){
    .id = pd_in_string(frame, id_field, out->id, sizeof out->id) ? out->id : NULL,
    .owner = pd_in_string(frame, "owner", out->owner, sizeof out->owner) ? out->owner : NULL,
    .parent = pd_in_string(frame, "parent", out->parent, sizeof out->parent) ? out->parent : NULL,
    .meta = in_json(frame, "meta"),
    .time_ms = frame->now_ms,
    .author = *frame->agent ? frame->agent : "operator",
  };
}

static pd_code write_new(pd_frame *frame, pd_thread *thread, pd_error *err)
{
  pd_thread_info info;
  TRY(pd_thread_info_get(thread, &info, err));
  pd_json_put_text(&frame->out, "thread_id", info.id);
  pd_json_put_number(&frame->out, "version", info.version);
  pd_out_commit(frame, &info.commit);
  return PD_OK;
}

pd_code pd_cap_threads_create(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_threads_shut) pd_thread *thread = NULL;
  identity texts;
  pd_store *store;
  pd_thread_options options = read_identity(frame, "thread_id", &texts);
  options.state = in_json(frame, "state");
  TRY(pd_frame_own(frame, true, &store, err));
  TRY(pd_quota_room(frame, false, err));
  TRY(pd_thread_create(store, &options, &thread, err));
  return write_new(frame, thread, err);
}

pd_code pd_cap_threads_fork(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  CLEANUP(pd_threads_shut) pd_thread *made = NULL;
  identity texts;
  pd_thread_options options = read_identity(frame, "new_thread_id", &texts);
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(pd_quota_room(frame, false, err));
  TRY(pd_thread_fork(thread, pd_in_version(frame, "version", PD_VERSION_HEAD), &options, &made, err));
  return write_new(frame, made, err);
}

/* ---- operations ---- */

pd_code pd_in_operation(const pd_frame *frame, pd_operation_name *out, pd_error *err)
{
  pd_id hash;
  *out = (pd_operation_name){0};
  if (!pd_in_string(frame, "operation_id", out->id, sizeof out->id)) return PD_OK;
  TRY(pd_input_hash(frame->input, &hash, err));
  pd_id_hex(&hash, out->mark);
  return PD_OK;
}

pd_code pd_operation_look(pd_thread *thread, const pd_operation_name *operation, bool *out_is_repeated, pd_thread_ack *out_first,
                          pd_error *err)
{
  pd_error why = {0};
  *out_is_repeated = false;
  if (!*operation->id) return PD_OK;
  pd_code code = pd_thread_operation_get(thread, operation->id, operation->mark, out_first, &why);
  *out_is_repeated = !code;
  if (code && code != PD_NOT_FOUND && err) *err = why;
  return code == PD_NOT_FOUND && strcmp(pd_error_name(&why), "OperationNotFound") == 0 ? PD_OK : code;
}

/* ---- append ---- */

pd_code pd_cap_threads_append(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  char run[PD_THREAD_ID_SIZE_MAX + 1] = "", parent_run[PD_THREAD_ID_SIZE_MAX + 1], reason[32] = "";
  pd_operation_name operation;
  pd_thread_ack ack;
  TRY(pd_in_operation(frame, &operation, err));
  pd_in_string(frame, "run_id", run, sizeof run);
  pd_in_string(frame, "reason", reason, sizeof reason);
  pd_changeset change = {
    .run_id = run,
    .parent_run_id = pd_in_string(frame, "parent_run_id", parent_run, sizeof parent_run) ? parent_run : NULL,
    .run_meta = in_json(frame, "run_meta"),
    .reason = pd_reason_parse(reason),
    .messages = in_json(frame, "messages"),
    .patches = in_json(frame, "patches"),
    .state_actions = in_json(frame, "state_actions"),
    .snapshot = in_json(frame, "snapshot"),
    .time_ms = frame->now_ms,
    .author = *frame->agent ? frame->agent : "operator",
    .operation_id = *operation.id ? operation.id : NULL,
    .operation_mark = *operation.id ? operation.mark : NULL,
    .later = pd_frame_later(frame),
  };
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(pd_quota_room(frame, false, err));
  TRY(pd_thread_append(thread, &change, pd_in_version(frame, "expected_version", PD_ANY_VERSION), &ack, err));
  pd_json_put_number(&frame->out, "version", ack.version);
  if (ack.is_duplicate)
    pd_out_id(frame, "commit", &ack.commit);
  else
    pd_out_commit(frame, &ack.commit);
  pd_json_put_number(&frame->out, "messages_added", ack.message_count);
  pd_json_put_number(&frame->out, "messages_dropped", ack.message_duplicates);
  pd_json_put_text(&frame->out, "durability", ack.durability == PD_BUFFERED ? "buffered" : "synced");
  if (*operation.id) pd_json_put_bool(&frame->out, "is_duplicate", ack.is_duplicate);
  return PD_OK;
}

/* ---- delete, rewind ---- */

/* The version that is left behind is what was approved. */
static pd_code foresee_version(pd_frame *frame, pd_thread *thread, pd_error *err)
{
  uint64_t is = pd_thread_version(thread), expected = pd_in_version(frame, "expected_version", is);
  if (!frame->foresees) return PD_OK;
  pd_fact_number(frame, "expected_version", is);
  if (expected == is) return pd_brink(frame, err);
  return pd_error_named(err, PD_CONFLICT, "VersionConflict", "thread '%s' is at version %llu, expected %llu", pd_thread_id(thread),
                        (unsigned long long)is, (unsigned long long)expected);
}

pd_code pd_cap_threads_delete(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  pd_note note = pd_frame_note(frame);
  TRY(pd_threads_hold(frame, &thread, err));
  TRY(foresee_version(frame, thread, err));
  TRY(
    pd_thread_delete(pd_thread_store(thread), pd_thread_id(thread), pd_in_version(frame, "expected_version", PD_ANY_VERSION), &note, err));
  pd_quota_look_again(frame);
  pd_json_put_bool(&frame->out, "deleted", true);
  return PD_OK;
}

pd_code pd_cap_threads_rewind(pd_frame *frame, pd_error *err)
{
  pd_thread *thread;
  pd_note note = pd_frame_note(frame);
  pd_thread_point point;
  uint64_t expected = pd_in_version(frame, "expected_version", PD_ANY_VERSION);
  TRY(pd_threads_hold(frame, &thread, err));
  if (frame->foresees) TRY(pd_thread_point_get(thread, pd_in_version(frame, "version", 0), &point, err));
  TRY(foresee_version(frame, thread, err));
  TRY(pd_thread_rewind(thread, pd_in_version(frame, "version", 0), expected, &note, &point, err));
  pd_json_put_number(&frame->out, "version", point.version);
  pd_out_commit(frame, &point.commit.id);
  return PD_OK;
}
