/* changeset.c: see changeset.h. */
#include "thread/changeset.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "thread/operation.h"
#include "thread/thread.h"

/* ---- reasons ---- */

static const char *const reason_names[PD_REASON_COUNT] = {[PD_REASON_NONE] = "",
                                                          [PD_REASON_USER_MESSAGE] = "UserMessage",
                                                          [PD_REASON_ASSISTANT_TURN_COMMITTED] = "AssistantTurnCommitted",
                                                          [PD_REASON_TOOL_RESULTS_COMMITTED] = "ToolResultsCommitted",
                                                          [PD_REASON_RUN_FINISHED] = "RunFinished"};

const char *pd_reason_name(pd_reason reason)
{
  return (unsigned)reason < PD_REASON_COUNT ? reason_names[reason] : "";
}

pd_reason pd_reason_parse(const char *name)
{
  for (int i = PD_REASON_NONE + 1; i < PD_REASON_COUNT; i++)
    if (name && strcmp(reason_names[i], name) == 0) return (pd_reason)i;
  return PD_REASON_NONE;
}

/* ---- checks ---- */

#define WRONG(err, ...) pd_error_named(err, PD_INVALID, "InvalidChangeSet", __VA_ARGS__)

/* A member of a change set as JSON of one kind, at most as deep as a state may be. */
static pd_code take_json(pd_bytes text, const char *name, pd_json_kind kind, pd_json *out, pd_error *err)
{
  pd_json_facts facts;
  pd_error why;
  *out = (pd_json){.kind = PD_JSON_NONE};
  if (!text.size) return PD_OK;
  pd_code code = pd_json_parse_facts(text, out, &facts, &why);
  bool is_unique = !code && pd_json_inside_is_unique(&facts) && !facts.is_outer_unordered;
  if (!code && out->kind == kind && !is_unique) code = pd_json_unique(*out, &why);
  if (code == PD_INVALID) return WRONG(err, "'%s': %.300s", name, why.message);
  if (code) return pd_error_set(err, code, "'%s': %.300s", name, why.message);
  if (out->kind != kind) return WRONG(err, "'%s' must be an %s, it is %s", name, pd_json_kind_name(kind), pd_json_kind_name(out->kind));
  if (facts.depth > PD_THREAD_DEPTH_MAX + (kind == PD_JSON_ARRAY))
    return pd_error_set(err, PD_LIMIT, "'%s' nests %u deep, the limit is %d", name, facts.depth, PD_THREAD_DEPTH_MAX);
  return PD_OK;
}

pd_code pd_message_id(pd_json message, pd_buf *out, pd_error *err)
{
  size_t before = out->size;
  pd_json id = pd_json_member(message, "id");
  if (id.kind == PD_JSON_NONE) return WRONG(err, "a message has no id");
  if (id.kind != PD_JSON_STRING) return WRONG(err, "the id of a message is %s, it must be a string", pd_json_kind_name(id.kind));
  pd_error why;
  pd_code code = pd_json_decode(id, out, &why);
  if (code == PD_INVALID) return pd_error_named(err, PD_INVALID, "InvalidId", "the id of a message is no text: %.200s", why.message);
  if (code && err) *err = why;
  TRY(code);
  return pd_message_id_check((pd_bytes){out->data + before, out->size - before}, err);
}

static pd_code check_messages(pd_json messages, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf id = {0};
  pd_json message;
  size_t number = 0;
  pd_json_walk walk = pd_json_walk_begin(messages);
  while (pd_json_walk_next(&walk, NULL, &message)) {
    number++;
    if (message.kind != PD_JSON_OBJECT) return WRONG(err, "message %zu is no object but %s", number, pd_json_kind_name(message.kind));
    pd_buf_clear(&id);
    pd_error why;
    pd_code code = pd_message_id(message, &id, &why);
    if (code) return pd_error_named(err, code, why.name, "message %zu: %.300s", number, why.message);
  }
  return PD_OK;
}

static pd_code check_actions(pd_json actions, pd_error *err)
{
  pd_json action;
  pd_json_walk walk = pd_json_walk_begin(actions);
  while (pd_json_walk_next(&walk, NULL, &action))
    if (action.kind != PD_JSON_OBJECT) return WRONG(err, "a state action is no object but %s", pd_json_kind_name(action.kind));
  return PD_OK;
}

static pd_code check_ids(const pd_changeset *set, pd_error *err)
{
  if (!set->run_id) return WRONG(err, "'run_id' is missing");
  TRY(pd_thread_id_check(set->run_id, "run", err));
  if (set->parent_run_id) TRY(pd_thread_id_check(set->parent_run_id, "parent run", err));
  if (set->active_run && *set->active_run) TRY(pd_thread_id_check(set->active_run, "active run", err));
  if (!*pd_reason_name(set->reason))
    return WRONG(err, "the reason is none of UserMessage, AssistantTurnCommitted, ToolResultsCommitted, RunFinished");
  if (set->time_ms < 0) return WRONG(err, "'time' is before 1970");
  return pd_operation_check(set->operation_id, set->operation_mark, err);
}

static pd_code check_size(const pd_changeset *set, pd_error *err)
{
  const pd_bytes texts[] = {set->run_meta, set->messages, set->patches, set->state_actions, set->snapshot};
  size_t size = 0;
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    size += texts[i].size;
    if (texts[i].size > PD_CHANGESET_SIZE_MAX || size > PD_CHANGESET_SIZE_MAX)
      return pd_error_set(err, PD_LIMIT, "the change set has more than %zu bytes, which is the limit", PD_CHANGESET_SIZE_MAX);
  }
  return PD_OK;
}

/* ---- preparing ---- */

void pd_prepared_done(pd_prepared *prepared)
{
  pd_patches_free(prepared->patches);
  pd_buf_done(&prepared->run_meta_text);
  pd_buf_done(&prepared->patches_text);
  pd_buf_done(&prepared->actions_text);
  pd_buf_done(&prepared->snapshot_text);
}

static bool is_empty_list(pd_json list)
{
  pd_json item;
  pd_json_walk walk = pd_json_walk_begin(list);
  return !pd_json_walk_next(&walk, NULL, &item);
}

/* A patch that is wrong has that name, wherever it is found. */
pd_code pd_patch_error(pd_code code, pd_error *err)
{
  if (code == PD_INVALID && err && !err->name) err->name = "InvalidPatch";
  return code;
}

static pd_code prepare_patches(const pd_changeset *set, pd_prepared *out, pd_error *err)
{
  pd_json list;
  TRY(take_json(set->patches, "patches", PD_JSON_ARRAY, &list, err));
  if (is_empty_list(list)) return PD_OK;
  TRY(pd_patch_error(pd_patches_parse(list, &out->patches, err), err));
  return pd_patches_write(out->patches, &out->patches_text, err);
}

pd_code pd_prepare(const pd_changeset *set, pd_prepared *out, pd_error *err)
{
  pd_json meta, actions;
  out->set = set;
  TRY(check_size(set, err));
  TRY(check_ids(set, err));
  TRY(take_json(set->run_meta, "run_meta", PD_JSON_OBJECT, &meta, err));
  TRY(take_json(set->messages, "messages", PD_JSON_ARRAY, &out->messages, err));
  TRY(take_json(set->state_actions, "state_actions", PD_JSON_ARRAY, &actions, err));
  TRY(take_json(set->snapshot, "snapshot", PD_JSON_OBJECT, &out->snapshot, err));
  TRY(check_messages(out->messages, err));
  TRY(check_actions(actions, err));
  TRY(prepare_patches(set, out, err));
  TRY(pd_json_canonical(meta, &out->run_meta_text, err));
  TRY(pd_json_canonical(out->snapshot, &out->snapshot_text, err));
  if (!is_empty_list(actions)) TRY(pd_json_canonical(actions, &out->actions_text, err));
  if (set->operation_mark) strcpy(out->operation_mark, set->operation_mark);
  return set->operation_id && !set->operation_mark ? pd_operation_mark(out, out->operation_mark, err) : PD_OK;
}

/* ---- the record ---- */

static void put_raw(pd_json_writer *w, const char *name, const pd_buf *json)
{
  if (!json->size) return;
  pd_json_key(w, name);
  pd_json_raw(w, pd_buf_bytes(json));
}

static void put_messages(pd_json_writer *w, const pd_change_place *place)
{
  if (!place->message_first) return;
  pd_json_key(w, "messages");
  pd_json_open(w, '{');
  pd_json_put_number(w, "first", place->message_first);
  pd_json_key(w, "ids");
  pd_json_raw(w, place->message_ids);
  pd_json_close(w, '}');
}

pd_code pd_change_write(const pd_prepared *prepared, const pd_change_place *place, pd_buf *out, pd_error *err)
{
  const pd_changeset *set = prepared->set;
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  if (set->active_run) pd_json_put_text(&w, "active_run", set->active_run);
  put_messages(&w, place);
  if (set->operation_id) pd_json_put_text(&w, "operation_id", set->operation_id);
  if (set->operation_id) pd_json_put_text(&w, "operation_mark", prepared->operation_mark);
  if (set->parent_run_id) pd_json_put_text(&w, "parent_run_id", set->parent_run_id);
  put_raw(&w, "patches", &prepared->patches_text);
  pd_json_put_text(&w, "reason", pd_reason_name(set->reason));
  pd_json_put_text(&w, "run_id", set->run_id);
  put_raw(&w, "run_meta", &prepared->run_meta_text);
  put_raw(&w, "snapshot", &prepared->snapshot_text);
  put_raw(&w, "state_actions", &prepared->actions_text);
  pd_json_put_number(&w, "time", (uint64_t)place->time_ms);
  pd_json_put_number(&w, "version", place->version);
  pd_json_close(&w, '}');
  return w.code;
}

static pd_code parse_places(pd_json value, pd_change_parts *out, pd_error *err)
{
  pd_json_field f[] = {{"first", {{0}, 0}}, {"ids", {{0}, 0}}};
  pd_json id;
  if (value.kind == PD_JSON_NONE) return PD_OK;
  TRY(pd_json_fields(value, f, COUNT_OF(f), err));
  if (!pd_json_u64(f[0].value, &out->message_first) || !out->message_first || f[1].value.kind != PD_JSON_ARRAY)
    return pd_error_set(err, PD_INVALID, "'messages' says no places");
  out->message_ids = f[1].value;
  pd_json_walk walk = pd_json_walk_begin(f[1].value);
  while (pd_json_walk_next(&walk, NULL, &id)) out->message_count++;
  return PD_OK;
}

pd_code pd_change_parse(pd_bytes text, pd_change_parts *out, pd_error *err)
{
  enum { ACTIVE, MESSAGES, OPERATION, MARK, PARENT, PATCHES, REASON, RUN, META, SNAPSHOT, ACTIONS, TIME, VERSION, COUNT };
  pd_json_field f[COUNT] = {{"active_run", {{0}, 0}},    {"messages", {{0}, 0}}, {"operation_id", {{0}, 0}},  {"operation_mark", {{0}, 0}},
                            {"parent_run_id", {{0}, 0}}, {"patches", {{0}, 0}},  {"reason", {{0}, 0}},        {"run_id", {{0}, 0}},
                            {"run_meta", {{0}, 0}},      {"snapshot", {{0}, 0}}, {"state_actions", {{0}, 0}}, {"time", {{0}, 0}},
                            {"version", {{0}, 0}}};
  pd_change_parts parts = {0};
  pd_json json;
  TRY(pd_json_parse(text, &json, err));
  TRY(pd_json_fields(json, f, COUNT, err));
  if (!pd_json_u64(f[VERSION].value, &parts.version)) return pd_error_set(err, PD_INVALID, "'version' is no number");
  if (!pd_json_i64(f[TIME].value, &parts.time_ms)) return pd_error_set(err, PD_INVALID, "'time' is no number");
  TRY(parse_places(f[MESSAGES].value, &parts, err));
  parts.active_run = f[ACTIVE].value;
  parts.operation_id = f[OPERATION].value;
  parts.operation_mark = f[MARK].value;
  parts.parent_run_id = f[PARENT].value;
  parts.patches = f[PATCHES].value;
  parts.reason = f[REASON].value;
  parts.run_id = f[RUN].value;
  parts.run_meta = f[META].value;
  parts.snapshot = f[SNAPSHOT].value;
  parts.actions = f[ACTIONS].value;
  *out = parts;
  return PD_OK;
}

static void put_member(pd_json_writer *w, const char *name, pd_json value)
{
  if (value.kind == PD_JSON_NONE) return;
  pd_json_key(w, name);
  pd_json_raw(w, value.raw);
}

pd_code pd_change_show(const pd_change_parts *parts, pd_bytes messages, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  put_member(&w, "run_id", parts->run_id);
  put_member(&w, "parent_run_id", parts->parent_run_id);
  put_member(&w, "reason", parts->reason);
  pd_json_put_number(&w, "time", (uint64_t)parts->time_ms);
  put_member(&w, "run_meta", parts->run_meta);
  if (messages.size) {
    pd_json_key(&w, "messages");
    pd_json_raw(&w, messages);
  }
  put_member(&w, "patches", parts->patches);
  put_member(&w, "state_actions", parts->actions);
  put_member(&w, "snapshot", parts->snapshot);
  put_member(&w, "active_run", parts->active_run);
  put_member(&w, "operation_id", parts->operation_id);
  put_member(&w, "operation_mark", parts->operation_mark);
  pd_json_close(&w, '}');
  return w.code;
}
