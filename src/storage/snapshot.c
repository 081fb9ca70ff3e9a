/* snapshot.c: is a document an AgentSnapshot? The rules are at the head of storage.h. */
#include "storage/snapshot.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

#include <stdio.h>

/* The first member with this name; its absence, or another kind, is named by `path`. */
static pd_code member(pd_json object, const char *name, const char *path, pd_json_kind kind, pd_json *out, pd_error *err)
{
  pd_json value = pd_json_member(object, name);
  if (value.kind == PD_JSON_NONE) return pd_error_set(err, PD_INVALID, "the snapshot has no '%s'", path);
  if (value.kind != kind) {
    return pd_error_set(err, PD_INVALID, "the snapshot's '%s' is of type %s; it has to be of type %s", path, pd_json_kind_name(value.kind),
                        pd_json_kind_name(kind));
  }
  *out = value;
  return PD_OK;
}

static pd_code number(pd_json top, const char *name, uint64_t *out, pd_error *err)
{
  pd_json value;
  TRY(member(top, name, name, PD_JSON_NUMBER, &value, err));
  if (!pd_json_u64(value, out) || *out > PD_SNAPSHOT_NUMBER_MAX) {
    return pd_error_set(err, PD_INVALID, "the snapshot's '%s' is %.*s; it has to be an integer from 0 to %llu", name,
                        (int)(value.raw.size < 40 ? value.raw.size : 40), (const char *)value.raw.data,
                        (unsigned long long)PD_SNAPSHOT_NUMBER_MAX);
  }
  return PD_OK;
}

/* A string of 1 to `size_max` bytes without NUL, with a NUL behind it. */
static pd_code text(pd_json top, const char *name, size_t size_max, char *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf decoded = {0};
  pd_json value;
  TRY(member(top, name, name, PD_JSON_STRING, &value, err));
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

static pd_code containers(pd_json top, pd_snapshot_parts *out, pd_snapshot *facts, pd_error *err)
{
  TRY(member(top, "memory", "memory", PD_JSON_OBJECT, &out->memory, err));
  TRY(member(out->memory, "short_term_history", "memory.short_term_history", PD_JSON_ARRAY, &out->history, err));
  TRY(member(out->memory, "working_variables", "memory.working_variables", PD_JSON_OBJECT, &out->variables, err));
  TRY(member(top, "event_queue_backup", "event_queue_backup", PD_JSON_ARRAY, &out->events, err));
  TRY(count_entries(out->history, "memory.short_term_history", &facts->history_count, err));
  TRY(count_entries(out->variables, "memory.working_variables", &facts->variable_count, err));
  TRY(count_entries(out->events, "event_queue_backup", &facts->event_count, err));
  facts->history = out->history.raw;
  facts->variables = out->variables.raw;
  facts->events = out->events.raw;
  return PD_OK;
}

/* They are the agent library's, which checks them. Here they are only lists that grow, if they are that. */
static pd_json ledger_list(pd_json top, const char *name)
{
  pd_json list = pd_json_member(pd_json_member(top, "perdure"), name), value;
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

pd_code pd_snapshot_parse(pd_bytes document, const char *agent_id, pd_snapshot_parts *out, pd_snapshot *out_facts, pd_error *err)
{
  pd_snapshot_parts parts;
  pd_snapshot facts = {0};
  uint64_t timestamp;
  if (document.size > PD_SNAPSHOT_SIZE_MAX) {
    return pd_error_set(err, PD_LIMIT, "the snapshot has %zu bytes, which is over the limit of %zu", document.size, PD_SNAPSHOT_SIZE_MAX);
  }
  TRY(pd_json_parse(document, &parts.top, err));
  if (parts.top.kind != PD_JSON_OBJECT) {
    return pd_error_set(err, PD_INVALID, "the snapshot is of type %s; it has to be an object", pd_json_kind_name(parts.top.kind));
  }
  TRY(text(parts.top, "agent_id", PD_NAME_SIZE_MAX, facts.agent_id, err));
  TRY(check_agent(&facts, agent_id, err));
  TRY(number(parts.top, "tick_index", &facts.tick_index, err));
  TRY(number(parts.top, "timestamp", &timestamp, err));
  facts.timestamp = (int64_t)timestamp;
  TRY(text(parts.top, "status", PD_SNAPSHOT_STATUS_MAX, facts.status, err));
  TRY(containers(parts.top, &parts, &facts, err));
  TRY(pd_json_unique(parts.top, err));
  parts.effects = ledger_list(parts.top, "effects");
  parts.replies = ledger_list(parts.top, "replies");
  if (out) *out = parts;
  if (out_facts) *out_facts = facts;
  return PD_OK;
}

pd_code pd_snapshot_check(pd_bytes document, const char *agent_id, pd_snapshot *out, pd_error *err)
{
  return pd_snapshot_parse(document, agent_id, NULL, out, err);
}
