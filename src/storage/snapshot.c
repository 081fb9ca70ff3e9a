/* snapshot.c: is a document an AgentSnapshot? The rules are at the head of storage.h. */
#include "storage/snapshot.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>

enum { AGENT_ID, TICK_INDEX, TIMESTAMP, STATUS, MEMORY, EVENTS, LEDGER, TOP_COUNT };
enum { HISTORY, VARIABLES, MEMORY_COUNT };

static const char *const top_names[TOP_COUNT] = {"agent_id", "tick_index",         "timestamp", "status",
                                                 "memory",   "event_queue_backup", "perdure"};
static const char *const memory_names[MEMORY_COUNT] = {"short_term_history", "working_variables"};

/* The first member of each name, or PD_JSON_NONE, in one walk: documents are large. */
static void find_members(pd_json object, const char *const *names, size_t count, pd_json *out)
{
  pd_json key, value;
  pd_json_walk walk = pd_json_walk_begin(object);
  for (size_t i = 0; i < count; i++) out[i] = (pd_json){.kind = PD_JSON_NONE};
  while (pd_json_walk_next(&walk, &key, &value))
    for (size_t i = 0; i < count; i++)
      if (out[i].kind == PD_JSON_NONE && pd_json_is(key, names[i])) out[i] = value;
}

/* Its absence, or another kind, is named by `path`. */
static pd_code check_kind(pd_json value, const char *path, pd_json_kind kind, pd_error *err)
{
  if (value.kind == PD_JSON_NONE) return pd_error_set(err, PD_INVALID, "the snapshot has no '%s'", path);
  if (value.kind == kind) return PD_OK;
  return pd_error_set(err, PD_INVALID, "the snapshot's '%s' is of type %s; it has to be of type %s", path, pd_json_kind_name(value.kind),
                      pd_json_kind_name(kind));
}

static pd_code number(pd_json value, const char *name, uint64_t *out, pd_error *err)
{
  TRY(check_kind(value, name, PD_JSON_NUMBER, err));
  if (!pd_json_u64(value, out) || *out > PD_SNAPSHOT_NUMBER_MAX) {
    return pd_error_set(err, PD_INVALID, "the snapshot's '%s' is %.*s; it has to be an integer from 0 to %llu", name,
                        (int)(value.raw.size < 40 ? value.raw.size : 40), (const char *)value.raw.data,
                        (unsigned long long)PD_SNAPSHOT_NUMBER_MAX);
  }
  return PD_OK;
}

/* A string of 1 to `size_max` bytes without NUL, with a NUL behind it. */
static pd_code text(pd_json value, const char *name, size_t size_max, char *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf decoded = {0};
  TRY(check_kind(value, name, PD_JSON_STRING, err));
  if (pd_json_decode(value, &decoded, NULL)) return pd_error_set(err, PD_INVALID, "the snapshot's '%s' is no sound text", name);
  if (!decoded.size || decoded.size > size_max) {
    return pd_error_set(err, PD_INVALID, "the snapshot's '%s' has %zu bytes; it has to have 1 to %zu", name, decoded.size, size_max);
  }
  if (memchr(decoded.data, 0, decoded.size)) return pd_error_set(err, PD_INVALID, "the snapshot's '%s' has a NUL in it", name);
  memcpy(out, decoded.data, decoded.size);
  out[decoded.size] = '\0';
  return PD_OK;
}

static pd_code count_entries(pd_json container, const char *path, size_t *out, pd_error *err)
{
  pd_json value;
  pd_json_walk walk = pd_json_walk_begin(container);
  size_t count = 0;
  for (; pd_json_walk_next(&walk, NULL, &value); count++) {
    if (count == PD_SNAPSHOT_ITEMS_MAX) {
      return pd_error_set(err, PD_LIMIT, "the snapshot's '%s' has more than %d entries", path, PD_SNAPSHOT_ITEMS_MAX);
    }
    if (container.kind == PD_JSON_ARRAY && value.kind != PD_JSON_OBJECT) {
      return pd_error_set(err, PD_INVALID, "the snapshot's '%s' has an entry (number %zu) of type %s; each has to be an object", path,
                          count, pd_json_kind_name(value.kind));
    }
  }
  *out = count;
  return PD_OK;
}

static pd_code find_containers(const pd_json top[TOP_COUNT], pd_snapshot_parts *out, pd_snapshot *facts, pd_error *err)
{
  pd_json inner[MEMORY_COUNT];
  TRY(check_kind(top[MEMORY], "memory", PD_JSON_OBJECT, err));
  find_members(top[MEMORY], memory_names, MEMORY_COUNT, inner);
  TRY(check_kind(inner[HISTORY], "memory.short_term_history", PD_JSON_ARRAY, err));
  TRY(check_kind(inner[VARIABLES], "memory.working_variables", PD_JSON_OBJECT, err));
  TRY(check_kind(top[EVENTS], "event_queue_backup", PD_JSON_ARRAY, err));
  out->memory = top[MEMORY];
  out->history = inner[HISTORY];
  out->variables = inner[VARIABLES];
  out->events = top[EVENTS];
  facts->history = out->history.raw;
  facts->variables = out->variables.raw;
  facts->events = out->events.raw;
  return PD_OK;
}

static pd_code count_all(const pd_snapshot_parts *parts, pd_snapshot *facts, pd_error *err)
{
  TRY(count_entries(parts->history, "memory.short_term_history", &facts->history_count, err));
  TRY(count_entries(parts->variables, "memory.working_variables", &facts->variable_count, err));
  return count_entries(parts->events, "event_queue_backup", &facts->event_count, err);
}

/* They are the agent library's, which checks them. Here they are only lists that grow, if they are that. */
static pd_json ledger_list(pd_json ledger, const char *name)
{
  pd_json list = pd_json_member(ledger, name), value;
  pd_json_walk walk = pd_json_walk_begin(list);
  size_t count = 0;
  while (count <= PD_SNAPSHOT_ITEMS_MAX && pd_json_walk_next(&walk, NULL, &value)) count++;
  return list.kind == PD_JSON_ARRAY && count <= PD_SNAPSHOT_ITEMS_MAX ? list : (pd_json){{NULL, 0}, PD_JSON_NONE};
}

static pd_code check_agent(const pd_snapshot *facts, const char *agent_id, pd_error *err)
{
  TRY(pd_agent_check(facts->agent_id, err));
  if (agent_id && strcmp(agent_id, facts->agent_id) != 0) {
    return pd_error_set(err, PD_INVALID, "the snapshot is of agent '%s', not of '%.80s'", facts->agent_id, agent_id);
  }
  return PD_OK;
}

static pd_code take_apart(pd_json top, const char *agent_id, pd_snapshot_parts *parts, pd_snapshot *facts, pd_error *err)
{
  pd_json members[TOP_COUNT];
  uint64_t timestamp;
  *facts = (pd_snapshot){0};
  parts->top = top;
  find_members(top, top_names, TOP_COUNT, members);
  TRY(text(members[AGENT_ID], "agent_id", PD_NAME_SIZE_MAX, facts->agent_id, err));
  TRY(check_agent(facts, agent_id, err));
  TRY(number(members[TICK_INDEX], "tick_index", &facts->tick_index, err));
  TRY(number(members[TIMESTAMP], "timestamp", &timestamp, err));
  facts->timestamp = (int64_t)timestamp;
  TRY(text(members[STATUS], "status", PD_SNAPSHOT_STATUS_MAX, facts->status, err));
  TRY(find_containers(members, parts, facts, err));
  parts->effects = ledger_list(members[LEDGER], "effects");
  parts->replies = ledger_list(members[LEDGER], "replies");
  return PD_OK;
}

static bool is_space(uint8_t c)
{
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

pd_code pd_snapshot_split(pd_bytes document, const char *agent_id, pd_snapshot_parts *out, pd_snapshot *out_facts, pd_error *err)
{
  const uint8_t *at = document.data, *end = at + document.size;
  while (at < end && is_space(*at)) at++;
  while (end > at && is_space(end[-1])) end--;
  return take_apart((pd_json){{at, (size_t)(end - at)}, PD_JSON_OBJECT}, agent_id, out, out_facts, err);
}

pd_code pd_snapshot_check(pd_bytes document, const char *agent_id, pd_snapshot *out, pd_error *err)
{
  pd_snapshot_parts parts;
  pd_snapshot facts;
  pd_json top;
  if (document.size > PD_SNAPSHOT_SIZE_MAX) {
    return pd_error_set(err, PD_LIMIT, "the snapshot has %zu bytes, which is over the limit of %zu", document.size, PD_SNAPSHOT_SIZE_MAX);
  }
  TRY(pd_json_parse(document, &top, err));
  if (top.kind != PD_JSON_OBJECT) {
    return pd_error_set(err, PD_INVALID, "the snapshot is of type %s; it has to be an object", pd_json_kind_name(top.kind));
  }
  TRY(take_apart(top, agent_id, &parts, &facts, err));
  TRY(count_all(&parts, &facts, err));
  TRY(pd_json_unique(top, err));
  if (out) *out = facts;
  return PD_OK;
}
