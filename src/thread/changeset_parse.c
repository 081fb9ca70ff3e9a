/* changeset_parse.c: a change set from its JSON form. */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/changeset.h"

enum {
  FIELD_ACTIVE,
  FIELD_MESSAGES,
  FIELD_OPERATION,
  FIELD_MARK,
  FIELD_PARENT,
  FIELD_PATCHES,
  FIELD_REASON,
  FIELD_RUN,
  FIELD_META,
  FIELD_SNAPSHOT,
  FIELD_ACTIONS,
  FIELD_TIME,
  FIELD_COUNT
};

static pd_code wrong(const char *name, const char *why, pd_error *err)
{
  return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "'%s' of the change set %s", name, why);
}

static bool is_given(pd_json value)
{
  return value.kind != PD_JSON_NONE && value.kind != PD_JSON_NULL;
}

/* A text behind the others; its place, for the pointer that is made when the buffer has stopped growing. */
static pd_code take_text(const pd_json_field *f, pd_buf *texts, size_t *out_at, pd_error *err)
{
  *out_at = texts->size;
  if (f->value.kind != PD_JSON_STRING) return wrong(f->name, "must be a string", err);
  pd_error why;
  pd_code code = pd_json_decode(f->value, texts, &why);
  if (code == PD_INVALID) return wrong(f->name, "is no text", err);
  if (code && err) *err = why;
  TRY(code);
  if (memchr(texts->data + *out_at, 0, texts->size - *out_at))
    return pd_error_named(err, PD_INVALID, "InvalidId", "'%s' of the change set has a NUL", f->name);
  return pd_buf_byte(texts, 0, err);
}

static pd_code take_texts(pd_json_field *f, pd_changeset *set, pd_buf *texts, pd_error *err)
{
  static const int fields[] = {FIELD_RUN, FIELD_PARENT, FIELD_ACTIVE, FIELD_REASON, FIELD_OPERATION, FIELD_MARK};
  const char *reason = NULL;
  const char **slots[] = {&set->run_id, &set->parent_run_id, &set->active_run, &reason, &set->operation_id, &set->operation_mark};
  size_t at[COUNT_OF(fields)];
  for (size_t i = 0; i < COUNT_OF(fields); i++)
    if (is_given(f[fields[i]].value)) TRY(take_text(&f[fields[i]], texts, &at[i], err));
  for (size_t i = 0; i < COUNT_OF(fields); i++)
    if (is_given(f[fields[i]].value)) *slots[i] = (const char *)texts->data + at[i];
  if (!reason) return wrong("reason", "is missing", err);
  set->reason = pd_reason_parse(reason);
  if (!set->reason)
    return pd_error_named(err, PD_INVALID, "InvalidChangeSet",
                          "the reason '%.64s' is none of UserMessage, AssistantTurnCommitted, ToolResultsCommitted, RunFinished", reason);
  return set->run_id ? PD_OK : wrong("run_id", "is missing", err);
}

static pd_bytes json_of(pd_json value)
{
  return is_given(value) ? value.raw : (pd_bytes){NULL, 0};
}

pd_code pd_changeset_parse(pd_bytes json, pd_changeset *out, pd_buf *texts, pd_error *err)
{
  pd_json_field f[FIELD_COUNT] = {{"active_run", {{0}, 0}},     {"messages", {{0}, 0}},      {"operation_id", {{0}, 0}},
                                  {"operation_mark", {{0}, 0}}, {"parent_run_id", {{0}, 0}}, {"patches", {{0}, 0}},
                                  {"reason", {{0}, 0}},         {"run_id", {{0}, 0}},        {"run_meta", {{0}, 0}},
                                  {"snapshot", {{0}, 0}},       {"state_actions", {{0}, 0}}, {"time", {{0}, 0}}};
  pd_changeset set = {0};
  pd_json value;
  pd_error why;
  /* the members have their own limit together; this is for what is around them */
  if (json.size > PD_CHANGESET_SIZE_MAX + 65536)
    return pd_error_set(err, PD_LIMIT, "the change set has %zu bytes, the limit is %zu", json.size, PD_CHANGESET_SIZE_MAX);
  pd_code code = pd_json_parse(json, &value, &why);
  if (!code) code = pd_json_fields(value, f, FIELD_COUNT, &why);
  if (code == PD_INVALID) return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "the change set: %.300s", why.message);
  if (code && err) *err = why;
  TRY(code);
  TRY(take_texts(f, &set, texts, err));
  if (is_given(f[FIELD_TIME].value) && (!pd_json_i64(f[FIELD_TIME].value, &set.time_ms) || set.time_ms < 0))
    return wrong("time", "must be milliseconds since 1970", err);
  set.run_meta = json_of(f[FIELD_META].value);
  set.messages = json_of(f[FIELD_MESSAGES].value);
  set.patches = json_of(f[FIELD_PATCHES].value);
  set.state_actions = json_of(f[FIELD_ACTIONS].value);
  set.snapshot = json_of(f[FIELD_SNAPSHOT].value);
  *out = set;
  return PD_OK;
}
