/* changeset_parse.c: a change set from its JSON form. */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "thread/changeset.h"

typedef struct written {
  pd_changeset set;
  pd_json run_id, parent_run_id, active_run, reason, operation_id, operation_mark;
  pd_json run_meta, messages, patches, state_actions, snapshot, time;
} written;

#define MEMBER(name)                                                                                                                       \
  {                                                                                                                                        \
#name, PD_BIND_JSON, PD_BIND_AT(written, name), .is_optional = true                                                                    \
  }

/* Strings are taken out by themselves: an id that is not one has an error of its own. */
static const pd_bind members[] = {
  MEMBER(active_run), MEMBER(messages), MEMBER(operation_id), MEMBER(operation_mark), MEMBER(parent_run_id), MEMBER(patches),
  MEMBER(reason),     MEMBER(run_id),   MEMBER(run_meta),     MEMBER(snapshot),       MEMBER(state_actions), MEMBER(time),
};

static pd_code wrong(const char *name, const char *why, pd_error *err)
{
  return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "'%s' of the change set %s", name, why);
}

static bool is_given(pd_json value)
{
  return value.kind != PD_JSON_NONE && value.kind != PD_JSON_NULL;
}

/* A string of the change set, and where it goes. */
typedef struct slot {
  const char *name;
  pd_json value;
  const char **out;
} slot;

static pd_code keep_text(const slot *from, pd_buf *texts, pd_error *err)
{
  size_t at = texts->size;
  if (from->value.kind != PD_JSON_STRING) return wrong(from->name, "must be a string", err);
  if (pd_json_append_text(from->value, texts, NULL)) {
    bool is_text = !pd_json_decode(from->value, texts, NULL); /* then it has a NUL */
    return is_text ? pd_error_named(err, PD_INVALID, "InvalidId", "'%s' of the change set has a NUL", from->name)
                   : wrong(from->name, "is not a text", err);
  }
  *from->out = (const char *)texts->data + at;
  return PD_OK;
}

static pd_code keep_texts(written *w, pd_buf *texts, pd_error *err)
{
  const char *reason = NULL;
  const slot slots[] = {
    {"run_id", w->run_id, &w->set.run_id},
    {"parent_run_id", w->parent_run_id, &w->set.parent_run_id},
    {"active_run", w->active_run, &w->set.active_run},
    {"reason", w->reason, &reason},
    {"operation_id", w->operation_id, &w->set.operation_id},
    {"operation_mark", w->operation_mark, &w->set.operation_mark},
  };
  for (size_t i = 0; i < COUNT_OF(slots); i++)
    if (is_given(slots[i].value)) TRY(keep_text(&slots[i], texts, err));
  if (!reason) return wrong("reason", "is missing", err);
  w->set.reason = pd_reason_parse(reason);
  if (!w->set.reason)
    return pd_error_named(err, PD_INVALID, "InvalidChangeSet",
                          "the reason '%.64s' is none of UserMessage, AssistantTurnCommitted, ToolResultsCommitted, RunFinished", reason);
  return w->set.run_id ? PD_OK : wrong("run_id", "is missing", err);
}

static pd_bytes json_of(pd_json value)
{
  return is_given(value) ? value.raw : (pd_bytes){NULL, 0};
}

pd_code pd_changeset_parse(pd_bytes json, pd_changeset *out, pd_buf *texts, pd_error *err)
{
  written w = {.set = {0}};
  pd_error why = {0};
  /* the members have their own limit together; this is for what is around them */
  if (json.size > PD_CHANGESET_SIZE_MAX + 65536)
    return pd_error_set(err, PD_LIMIT, "the change set has %zu bytes, the limit is %zu", json.size, PD_CHANGESET_SIZE_MAX);
  pd_code code = pd_bind_parse(json, members, COUNT_OF(members), PD_BIND_EXACT, &w, &why);
  if (code == PD_INVALID) return pd_error_named(err, PD_INVALID, "InvalidChangeSet", "the change set: %.300s", why.message);
  if (code && err) *err = why;
  TRY(code);
  pd_json strings[] = {w.run_id, w.parent_run_id, w.active_run, w.reason, w.operation_id, w.operation_mark};
  size_t room = 0;
  for (size_t i = 0; i < COUNT_OF(strings); i++) room += strings[i].raw.size;
  TRY(pd_buf_reserve(texts, room, err)); /* for all of them: what was kept does not move */
  TRY(keep_texts(&w, texts, err));
  if (is_given(w.time) && (!pd_json_i64(w.time, &w.set.time_ms) || w.set.time_ms < 0))
    return wrong("time", "must be milliseconds since 1970", err);
  w.set.run_meta = json_of(w.run_meta);
  w.set.messages = json_of(w.messages);
  w.set.patches = json_of(w.patches);
  w.set.state_actions = json_of(w.state_actions);
  w.set.snapshot = json_of(w.snapshot);
  *out = w.set;
  return PD_OK;
}
