/*
 * snapshot_view.c: a system snapshot as an agent may see it (N5 of snapshot.h): every section is there, and of other agents there is what
 * agents.list and system.health would tell: nothing but totals.
 */
#include "base/base.h"
#include "base/buf.h"
#include "state/home.h"
#include "state/snapshot.h"

typedef struct view {
  pd_json_writer *w;
  const char *agent;
  pd_json stores; /* all of them: to know their names */
} view;

static bool is_own(const view *v, pd_json name)
{
  return pd_json_is(name, v->agent);
}

static bool keeps_agent(const view *v, pd_json item)
{
  return is_own(v, pd_json_member(item, "name"));
}

static bool keeps_approval(const view *v, pd_json item)
{
  return is_own(v, pd_json_member(item, "agent"));
}

/* One without an agent was for all. */
static bool keeps_alert(const view *v, pd_json item)
{
  pd_json agent = pd_json_member(item, "agent");
  return agent.kind == PD_JSON_NONE || is_own(v, agent);
}

static bool keeps_store(const view *v, pd_json item)
{
  pd_json name = pd_json_member(item, "name");
  return is_own(v, name) || pd_json_is(name, PD_STORE_SHARED) || pd_json_is(name, PD_STORE_SYSTEM);
}

/* A reason is a sentence: one that has the name of another agent's store in it is about that. */
static bool keeps_reason(const view *v, pd_json item)
{
  pd_json store;
  pd_json_walk walk = pd_json_walk_begin(v->stores);
  while (pd_json_walk_next(&walk, NULL, &store)) {
    pd_json name = pd_json_member(store, "name");
    if (keeps_store(v, store) || name.raw.size <= 2) continue;
    if (memmem(item.raw.data, item.raw.size, (const char *)name.raw.data + 1, name.raw.size - 2)) return false; /* without the quotes */
  }
  return true;
}

/* Returns how many are kept. */
static uint64_t write_list(const view *v, pd_json list, bool (*keeps)(const view *v, pd_json item))
{
  pd_json item;
  uint64_t count = 0;
  pd_json_open(v->w, '[');
  pd_json_walk walk = pd_json_walk_begin(list);
  while (pd_json_walk_next(&walk, NULL, &item)) {
    if (!keeps(v, item)) continue;
    pd_json_value(v->w, item);
    count++;
  }
  pd_json_close(v->w, ']');
  return count;
}

static void write_approvals(const view *v, pd_json section)
{
  pd_json_open(v->w, '{');
  pd_json_key(v->w, "pending");
  uint64_t count = write_list(v, pd_json_member(section, "pending"), keeps_approval);
  pd_json_put_number(v->w, "count", count);
  pd_json_close(v->w, '}');
}

/* All members as they are, but for lists that name agents. */
static void write_section(const view *v, pd_json section)
{
  static const struct {
    const char *name;
    bool (*keeps)(const view *v, pd_json item);
  } lists[] = {{"newest", keeps_alert}, {"stores", keeps_store}, {"reasons", keeps_reason}};
  pd_json key, value;
  pd_json_open(v->w, '{');
  pd_json_walk walk = pd_json_walk_begin(section);
  while (pd_json_walk_next(&walk, &key, &value)) {
    size_t i = 0;
    while (i < COUNT_OF(lists) && !(value.kind == PD_JSON_ARRAY && pd_json_is(key, lists[i].name))) i++;
    pd_json_key_as(v->w, key);
    if (i < COUNT_OF(lists))
      write_list(v, value, lists[i].keeps);
    else
      pd_json_value(v->w, value);
  }
  pd_json_close(v->w, '}');
}

static void write_maker(const view *v, pd_json snapshot, pd_json maker)
{
  pd_json by_operator = pd_json_member(snapshot, "by_operator");
  bool is_operators = by_operator.kind == PD_JSON_BOOL ? pd_json_true(by_operator) : pd_json_is(maker, "operator");
  pd_json_text(v->w, pd_text(is_operators ? "operator" : is_own(v, maker) ? v->agent : "another agent")); /* no agent's name has a blank */
}

pd_code pd_snapshot_write_for(pd_json_writer *w, pd_json snapshot, const char *agent)
{
  view v = {.w = w, .agent = agent, .stores = pd_json_member(pd_json_member(snapshot, "state"), "stores")};
  pd_json key, value;
  pd_json_open(w, '{');
  pd_json_walk walk = pd_json_walk_begin(snapshot);
  while (pd_json_walk_next(&walk, &key, &value)) {
    pd_json_key_as(w, key);
    if (pd_json_is(key, "agents"))
      write_list(&v, value, keeps_agent);
    else if (pd_json_is(key, "approvals"))
      write_approvals(&v, value);
    else if (pd_json_is(key, "created_by"))
      write_maker(&v, snapshot, value);
    else if (value.kind == PD_JSON_OBJECT)
      write_section(&v, value);
    else
      pd_json_value(w, value);
  }
  pd_json_close(w, '}');
  return w->code;
}
