/* agent.c: opening an agent, saving it, and what is read of it. */
#include "agent/inside.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "base/json_pick.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_MS 30000  /* for other processes of the same life */
#define PAUSE_MS_MAX 8 /* not more: who was refused has to read first, and the others do not wait for it */
#define REPLIES_MAX 100000
#define REPLY_BYTES_MAX ((size_t)16 * 1024 * 1024)

size_t pd_agent_replies_max(const pd_agent *agent)
{
  if (agent->reply_count_max) return agent->reply_count_max;
  uint64_t stored = agent->ledger.reply_count_max;
  return stored && stored <= REPLIES_MAX ? (size_t)stored : PD_AGENT_REPLIES;
}

size_t pd_agent_reply_bytes_max(const pd_agent *agent)
{
  if (agent->reply_bytes_max) return agent->reply_bytes_max;
  uint64_t stored = agent->ledger.bytes_max;
  return stored && stored <= REPLY_BYTES_MAX ? (size_t)stored : PD_AGENT_REPLY_BYTES;
}

/* ---- documents ----------------------------------------------------------------------------------------------------- */

static pd_code parse_document(const pd_agent *agent, pd_bytes document, pd_snapshot *facts, pd_ledger *ledger, pd_error *err)
{
  pd_json top;
  TRY(pd_snapshot_check(document, agent->id, facts, err));
  TRY(pd_json_parse(document, &top, err));
  return pd_ledger_parse(top, ledger, err);
}

/* What was loaded or is to be saved, taken apart. */
typedef struct version {
  pd_buf document;
  pd_storage_mark mark;
  pd_snapshot facts;
  pd_ledger ledger;
  bool is_stored;
} version;

static void version_done(version *v)
{
  pd_buf_done(&v->document);
}

/* It is the agent from now on; `v` gets the old document. */
static void adopt(pd_agent *agent, version *v)
{
  pd_buf old = agent->document;
  agent->document = v->document;
  agent->mark = v->mark;
  agent->facts = v->facts;
  agent->ledger = v->ledger;
  v->document = old;
  agent->is_unsure = false;
  size_t kept = 0;
  for (size_t i = 0; i < agent->sent_count; i++) /* what is saved need not be remembered */
    if (pd_ledger_find(agent->ledger.unsent, "event", agent->sent[i].text).kind != PD_JSON_NONE) agent->sent[kept++] = agent->sent[i];
  agent->sent_count = kept;
}

static pd_code write_fresh(const pd_agent *agent, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "agent_id", agent->id);
  pd_json_put_number(&w, "tick_index", 0);
  pd_json_put_number(&w, "timestamp", 0);
  pd_json_put_text(&w, "status", PD_AGENT_STATUS);
  pd_json_key(&w, "memory");
  pd_json_raw(&w, pd_text("{\"short_term_history\":[],\"working_variables\":{}}"));
  pd_json_key(&w, "event_queue_backup");
  pd_json_raw(&w, pd_text("[]"));
  pd_json_close(&w, '}');
  return w.code;
}

/* What is stored, or a fresh document. */
static pd_code load_version(const pd_agent *agent, version *out, pd_error *err)
{
  pd_code code = pd_storage_load_marked(agent->storage, agent->id, &out->document, &out->mark, err);
  out->is_stored = code == PD_OK;
  if (code && code != PD_NOT_FOUND) return code;
  if (code) {
    pd_buf_clear(&out->document);
    TRY(write_fresh(agent, &out->document, err));
  }
  return parse_document(agent, pd_buf_bytes(&out->document), &out->facts, &out->ledger, err);
}

/* ---- other processes of the same life ------------------------------------------------------------------------------ */

static uint64_t saves_of(const pd_agent *agent)
{
  return agent->ledger.epoch == agent->epoch ? agent->ledger.save : 0;
}

static bool is_same_mark(const pd_storage_mark *a, const pd_storage_mark *b)
{
  return a->epoch == b->epoch && a->save == b->save && a->token == b->token;
}

/* I4. A document without a mark is judged by its numbers alone: an old storage plugin keeps none. */
static pd_code check_lineage(const pd_agent *agent, const version *v, bool *out_is_newer, pd_error *err)
{
  bool is_same = v->ledger.epoch == agent->ledger.epoch && v->ledger.save == agent->ledger.save &&
                 v->facts.tick_index == agent->facts.tick_index && (!v->mark.token || is_same_mark(&v->mark, &agent->mark));
  *out_is_newer = v->ledger.epoch == agent->epoch && v->ledger.save > saves_of(agent);
  if (is_same || *out_is_newer || agent->is_reader) return PD_OK;
  return pd_error_named(err, PD_CONFLICT, "AgentFenced", "the snapshot of agent '%s' was changed by somebody else; open it again",
                        agent->id);
}

/* Did a step of another process change what the open one may have read? */
static pd_code compare_memory(pd_agent *agent, const version *v, pd_error *err)
{
  pd_json before, after;
  bool is_same;
  if (!agent->is_open || v->facts.tick_index == agent->facts.tick_index) return PD_OK;
  TRY(pd_json_parse(agent->facts.variables, &before, err));
  TRY(pd_json_parse(v->facts.variables, &after, err));
  TRY(pd_json_equal(before, after, &is_same, err));
  if (!is_same || strcmp(agent->facts.status, v->facts.status) != 0) agent->is_outdated = true;
  return PD_OK;
}

pd_code pd_agent_refresh(pd_agent *agent, pd_error *err)
{
  CLEANUP(version_done) version v = {0};
  bool is_newer;
  TRY(load_version(agent, &v, err));
  TRY(check_lineage(agent, &v, &is_newer, err));
  if (is_newer) TRY(compare_memory(agent, &v, err));
  agent->has_company |= is_newer && v.mark.token != agent->tried_token;
  adopt(agent, &v);
  return PD_OK;
}

pd_code pd_agent_settle(pd_agent *agent, pd_error *err)
{
  return agent->is_unsure ? pd_agent_refresh(agent, err) : PD_OK;
}

bool pd_agent_again(const pd_agent *agent, pd_code code, pd_patience *patience)
{
  int64_t now = pd_clock_monotonic_ms();
  if (code != PD_CONFLICT || !agent->has_changed) return false;
  if (!patience->give_up_ms) patience->give_up_ms = now + WAIT_MS;
  if (now >= patience->give_up_ms) return false;
  unsigned most_ms = 1u << (patience->tries < 3 ? patience->tries : 3), pause_us = 0;
  uint64_t random;
  if (most_ms > PAUSE_MS_MAX) most_ms = PAUSE_MS_MAX;
  if (pd_random_u64(&random, NULL) == PD_OK) pause_us = (unsigned)(random % (most_ms * 1000)); /* else they meet again and again */
  patience->tries++;
  nanosleep(&(struct timespec){0, (long)pause_us * 1000}, NULL);
  return true;
}

/* ---- saving -------------------------------------------------------------------------------------------------------- */

/* May a save that failed like this have been done all the same? */
static bool is_uncertain(pd_code code)
{
  return code != PD_INVALID && code != PD_LIMIT && code != PD_CONFLICT && code != PD_DENIED && code != PD_READ_ONLY;
}

/* I3: the error stays what it is, unless there is a better one. */
static pd_code save_refused(pd_agent *agent, pd_code code, const pd_error *why, pd_error *err)
{
  if (is_uncertain(code)) agent->is_unsure = true;
  if (code == PD_CONFLICT && strcmp(pd_error_name(why), "SnapshotChanged") == 0) {
    TRY(pd_agent_refresh(agent, err));
    agent->has_changed = true;
  }
  if (err) *err = *why;
  return code;
}

pd_code pd_agent_save(pd_agent *agent, const pd_draft *draft, pd_error *err)
{
  CLEANUP(version_done) version next = {.document.size_max = 2 * PD_SNAPSHOT_SIZE_MAX};
  pd_error why = {0};
  agent->has_changed = false;
  if (agent->is_reader) return pd_error_set(err, PD_READ_ONLY, "agent '%s' was opened only to look at it", agent->id);
  TRY(pd_document_write(agent, draft, &next.document, err));
  TRY(parse_document(agent, pd_buf_bytes(&next.document), &next.facts, &next.ledger, err)); /* before the save: after it nothing may fail */
  next.mark = (pd_storage_mark){.epoch = agent->epoch, .save = next.ledger.save};
  TRY(pd_random_u64(&next.mark.token, err));
  pd_code code = pd_storage_save_next(agent->storage, agent->id, &agent->mark, &next.mark, pd_buf_bytes(&next.document), &why);
  if (code) {
    agent->tried_token = next.mark.token;
    return save_refused(agent, code, &why, err);
  }
  adopt(agent, &next);
  return PD_OK;
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static pd_code check_options(const pd_agent_options *o, pd_error *err)
{
  if (o->reply_count_max > REPLIES_MAX) {
    return pd_error_set(err, PD_LIMIT, "reply_count_max is %zu; it is %d at most", o->reply_count_max, REPLIES_MAX);
  }
  if (o->reply_bytes_max > REPLY_BYTES_MAX) {
    return pd_error_set(err, PD_LIMIT, "reply_bytes_max is %zu; it is %zu at most", o->reply_bytes_max, REPLY_BYTES_MAX);
  }
  return PD_OK;
}

/* Claim before loading: from then on what was loaded is what is there. */
static pd_code take_epoch(pd_agent *agent, uint64_t given, pd_error *err)
{
  uint64_t now;
  if (agent->is_reader) return pd_storage_epoch(agent->storage, agent->id, &agent->epoch, err);
  if (!given) return pd_storage_claim(agent->storage, agent->id, &agent->epoch, err);
  TRY(pd_storage_epoch(agent->storage, agent->id, &now, err));
  if (!now) {
    return pd_error_named(err, PD_CONFLICT, "AgentFenced", "nobody has opened agent '%s' here yet, so epoch %llu is not its own", agent->id,
                          (unsigned long long)given);
  }
  if (now != given) {
    pd_error_named(err, PD_CONFLICT, "AgentFenced", "agent '%s' is held by epoch %llu now, not by %llu", agent->id, (unsigned long long)now,
                   (unsigned long long)given);
    if (err) err->expected = given, err->actual = now;
    return PD_CONFLICT;
  }
  agent->epoch = given;
  return PD_OK;
}

static pd_code hydrate(pd_agent *agent, uint64_t epoch, pd_error *err)
{
  CLEANUP(version_done) version v = {0};
  uint64_t tag;
  TRY(pd_random_u64(&tag, err));
  snprintf(agent->tag, sizeof agent->tag, "%016llx", (unsigned long long)tag);
  agent->is_attached = epoch != 0;
  TRY(take_epoch(agent, epoch, err));
  TRY(load_version(agent, &v, err));
  adopt(agent, &v);
  agent->origin = v.is_stored ? PD_AGENT_RESTORED : PD_AGENT_FRESH;
  return PD_OK;
}

pd_code pd_agent_open_in(pd_storage *storage, const char *id, const pd_agent_options *options, pd_agent **out, pd_error *err)
{
  static const pd_agent_options defaults;
  const pd_agent_options *o = options ? options : &defaults;
  TRY(pd_agent_check(id, err));
  TRY(check_options(o, err));
  pd_agent *agent = calloc(1, sizeof *agent);
  if (!agent) return pd_error_memory(err, "an agent");
  snprintf(agent->id, sizeof agent->id, "%s", id);
  agent->storage = storage;
  agent->is_reader = o->is_reader;
  agent->is_call = o->is_call && o->epoch;
  agent->reply_count_max = o->reply_count_max;
  agent->reply_bytes_max = o->reply_bytes_max;
  agent->now_ms = o->now_ms ? o->now_ms : pd_clock_now_ms;
  agent->now_ctx = o->now_ctx;
  pd_draft_begin(&agent->draft);
  pd_code code = hydrate(agent, o->epoch, err);
  if (code) {
    pd_agent_close(agent);
    return code;
  }
  *out = agent;
  return PD_OK;
}

pd_code pd_agent_open(const char *uri, const char *id, const pd_agent_options *options, pd_agent **out, pd_error *err)
{
  pd_storage *storage = NULL;
  pd_agent *agent = NULL;
  TRY(pd_agent_check(id, err));
  TRY(pd_storage_open(uri, &storage, err));
  pd_code code = pd_agent_open_in(storage, id, options, &agent, err);
  if (code) {
    pd_storage_close(storage);
    return code;
  }
  agent->owns_storage = true;
  *out = agent;
  return PD_OK;
}

void pd_agent_close(pd_agent *agent)
{
  if (!agent) return;
  pd_draft_done(&agent->draft);
  pd_buf_done(&agent->document);
  pd_buf_done(&agent->event);
  pd_buf_done(&agent->reply);
  pd_buf_done(&agent->reply_text);
  free(agent->sent);
  free(agent->owed);
  if (agent->owns_storage) pd_storage_close(agent->storage);
  free(agent);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static void count_ledger(const pd_agent *agent, pd_agent_info *out)
{
  pd_json entry;
  out->reply_count = pd_json_count(agent->ledger.replies);
  pd_json_walk walk = pd_json_walk_begin(agent->ledger.unsent);
  while (pd_json_walk_next(&walk, NULL, &entry)) out->unsent_count += pd_agent_is_due(agent, entry);
  walk = pd_json_walk_begin(agent->ledger.effects);
  while (pd_json_walk_next(&walk, NULL, &entry)) {
    bool is_open = pd_json_is(pd_json_member(entry, "state"), "intended");
    out->unknown_count += is_open && pd_ledger_number(entry, "epoch") != agent->epoch;
  }
}

void pd_agent_info_get(const pd_agent *agent, pd_agent_info *out)
{
  const pd_snapshot *f = &agent->facts;
  *out = (pd_agent_info){
    .id = agent->id,
    .origin = agent->origin,
    .epoch = agent->epoch,
    .tick_index = f->tick_index,
    .timestamp = f->timestamp,
    .history_count = f->history_count,
    .variable_count = f->variable_count,
    .event_count = f->event_count,
  };
  snprintf(out->status, sizeof out->status, "%s", f->status);
  count_ledger(agent, out);
}

pd_bytes pd_agent_snapshot(const pd_agent *agent)
{
  return pd_buf_bytes(&agent->document);
}

/* The JSON of a variable: staged, or saved; empty if there is none. */
static pd_bytes find_variable(const pd_agent *agent, const char *name)
{
  pd_json variables;
  for (size_t i = 0; agent->is_open && i < agent->draft.variable_count; i++) {
    const pd_draft_variable *staged = &agent->draft.variables[i];
    if (strcmp(staged->name, name) == 0) return pd_buf_bytes(&staged->json);
  }
  if (pd_json_parse(agent->facts.variables, &variables, NULL)) return (pd_bytes){NULL, 0};
  return pd_json_member(variables, name).raw;
}

pd_code pd_agent_variable(const pd_agent *agent, const char *name, pd_buf *out, pd_error *err)
{
  pd_bytes json = find_variable(agent, name);
  if (!json.size) return pd_error_set(err, PD_NOT_FOUND, "agent '%s' has no variable '%.200s'", agent->id, name);
  pd_buf_clear(out);
  return pd_buf_append(out, json.data, json.size, err);
}

int64_t pd_agent_number(const pd_agent *agent, const char *name, int64_t otherwise)
{
  pd_json value;
  int64_t number;
  pd_bytes json = find_variable(agent, name);
  return json.size && pd_json_parse(json, &value, NULL) == PD_OK && pd_json_i64(value, &number) ? number : otherwise;
}
