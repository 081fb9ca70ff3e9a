/*
 * agents.c: agents.list: which agents there are and how they are: status and tick from the snapshot, the last activity, and what their
 * supervisor has noted. An agent is shown if it has a store in the home, or was ever supervised here.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/activity.h"
#include "state/call.h"
#include "state/home.h"
#include "state/moment.h"
#include "state/run.h"

#include <dirent.h>
#include <limits.h>
#include <perdure/agent.h>
#include <perdure/supervise.h>
#include <stdio.h>
#include <stdlib.h>

#define LIMIT 1000

typedef struct name {
  char text[PD_NAME_SIZE_MAX + 1];
} name;

typedef struct name_list {
  name *items;
  size_t count, capacity;
} name_list;

static void name_list_done(name_list *list)
{
  free(list->items);
}

/* The storage that was opened last: most agents share one. */
typedef struct last_storage {
  pd_grant grant; /* the caller's, on the stores of the home; {0}: none */
  char uri[4097];
  pd_storage *storage; /* NULL: it could not be opened */
  pd_error why;
} last_storage;

static void last_storage_done(last_storage *last)
{
  pd_storage_close(last->storage);
}

/* ---- which ---- */

static pd_code add_name(void *ctx, const char *agent, pd_error *err)
{
  name_list *list = ctx;
  TRY(pd_array_grow(&list->items, list->count, &list->capacity, sizeof list->items[0], "names of agents", err));
  snprintf(list->items[list->count++].text, sizeof list->items[0].text, "%.*s", PD_NAME_SIZE_MAX, agent);
  return PD_OK;
}

/* Those that a supervisor left a note of: supervise/AGENT.json. */
static pd_code add_supervised(pd_home *home, name_list *list, pd_error *err)
{
  char path[PATH_MAX], agent[NAME_MAX + 1];
  pd_code code = PD_OK;
  if (!home->folder || snprintf(path, sizeof path, "%s/supervise", home->folder) >= (int)sizeof path) return PD_OK;
  DIR *folder = opendir(path);
  for (const struct dirent *at; folder && code == PD_OK && (at = readdir(folder));) {
    size_t size = strlen(at->d_name);
    if (size < 6 || strcmp(at->d_name + size - 5, ".json") != 0) continue;
    snprintf(agent, sizeof agent, "%.*s", (int)(size - 5), at->d_name);
    if (pd_agent_check(agent, NULL) == PD_OK) code = add_name(list, agent, err);
  }
  if (folder) closedir(folder);
  return code;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const name *)a)->text, ((const name *)b)->text);
}

static pd_code list_names(pd_frame *frame, name_list *list, pd_error *err)
{
  if (!frame->ctx->is_operator) return add_name(list, frame->agent, err);
  pd_code code = pd_home_each_agent(frame->home, add_name, list, err);
  if (code && code != PD_NOT_FOUND) return code;
  TRY(add_supervised(frame->home, list, err));
  if (list->count > 1) qsort(list->items, list->count, sizeof list->items[0], by_name);
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++)
    if (!kept || by_name(&list->items[kept - 1], &list->items[i]) != 0) list->items[kept++] = list->items[i];
  list->count = kept;
  return PD_OK;
}

/* ---- how ---- */

/* Where the agent's snapshots are: as its agent.toml says now (only that has the password), as its supervisor noted, or in the home. */
static void storage_of(const pd_home *home, const pd_supervised *is, char *out, size_t size)
{
  pd_agent_config config;
  pd_agent_config_init(&config);
  if (*is->config && pd_agent_config_read(is->config, &config, NULL) == PD_OK && config.snapshot_storage)
    snprintf(out, size, "%s", config.snapshot_storage);
  else if (*is->storage)
    snprintf(out, size, "%s", is->storage);
  else
    snprintf(out, size, "perdure:%s", home->uri);
  pd_agent_config_done(&config);
}

/* From the store that the home has open already. *out_is_open is false if it has not: then it is not opened for this either, or a list
 * would close the stores of those who work. */
static pd_code load_open(const pd_home *home, const last_storage *last, const char *uri, const char *agent, pd_buf *out, bool *out_is_open,
                         pd_error *err)
{
  size_t size = strlen("perdure:");
  pd_held *held = NULL;
  if (strncmp(uri, "perdure:", size) == 0 && strcmp(uri + size, home->uri) == 0) held = pd_home_hold_opened(&last->grant, agent);
  *out_is_open = held != NULL;
  if (!held) return PD_OK;
  pd_code code = pd_storage_load_store(held->store, agent, out, err);
  pd_home_let(last->grant.home, held);
  return code;
}

static pd_code load(const pd_home *home, last_storage *last, const char *uri, const char *agent, pd_buf *out, pd_error *err)
{
  bool is_open;
  pd_code found = load_open(home, last, uri, agent, out, &is_open, err);
  if (is_open) return found;
  if (strcmp(home->uri, "memory:") == 0 && strcmp(uri, "perdure:memory:") == 0)
    return pd_error_set(err, PD_NOT_FOUND, "a private store in memory has no snapshots that others could have saved");
  if (strcmp(last->uri, uri) != 0) {
    pd_storage_close(last->storage);
    last->storage = NULL;
    snprintf(last->uri, sizeof last->uri, "%s", uri);
    pd_code code = pd_storage_open(uri, &last->storage, &last->why);
    (void)code; /* last->why has it, for all agents of this storage */
  }
  if (last->storage) return pd_storage_load(last->storage, agent, out, err);
  *err = last->why;
  return err->code;
}

/* status, tick and saved_at; and `problem`, if the snapshot cannot be read. Returns when it was saved, or 0. */
static int64_t write_snapshot(pd_frame *frame, last_storage *last, const pd_supervised *is, const char *agent)
{
  CLEANUP(pd_buf_done) pd_buf document = {0};
  pd_json_writer *w = &frame->out;
  char uri[4097];
  pd_snapshot snapshot;
  pd_error why = {0};
  storage_of(frame->home, is, uri, sizeof uri);
  pd_code code = load(frame->home, last, uri, agent, &document, &why);
  if (code == PD_OK) code = pd_snapshot_check(pd_buf_bytes(&document), agent, &snapshot, &why);
  if (code && code != PD_NOT_FOUND)
    pd_json_put_text(w, "problem", frame->ctx->is_operator ? why.message : "the snapshot cannot be read; the operator sees why");
  pd_json_key(w, "status");
  code ? pd_json_null(w) : pd_json_text(w, pd_text(snapshot.status));
  pd_json_key(w, "tick");
  code ? pd_json_null(w) : pd_json_number(w, snapshot.tick_index);
  pd_out_time(frame, "saved_at", code ? 0 : snapshot.timestamp);
  return code ? 0 : snapshot.timestamp;
}

static void write_supervised(pd_frame *frame, const pd_supervised *is, bool is_known)
{
  pd_json_writer *w = &frame->out;
  pd_json_put_number(w, "restarts", is->restarts);
  pd_json_key(w, "process");
  is_known ? pd_json_text(w, pd_text(pd_supervised_name(is->state))) : pd_json_null(w);
  pd_json_put_bool(w, "supervised", is->supervisor_pid != 0);
  if (is->pid) pd_json_put_number(w, "pid", is->pid);
  if (is->supervisor_pid) pd_json_put_number(w, "supervisor_pid", is->supervisor_pid);
  if (is->started_ms) pd_out_time(frame, "started_at", is->started_ms);
}

static void write_agent(pd_frame *frame, last_storage *last, const char *agent)
{
  pd_supervised is = {0};
  char place[PD_PLACE_SIZE];
  bool is_known = pd_supervised_read(frame->home, agent, &is, NULL) == PD_OK;
  pd_json_open(&frame->out, '{');
  pd_json_put_text(&frame->out, "agent", agent);
  int64_t saved_ms = write_snapshot(frame, last, &is, agent), active_ms = pd_activity_latest(frame->home, agent);
  pd_out_time(frame, "last_activity", saved_ms > active_ms ? saved_ms : active_ms);
  write_supervised(frame, &is, is_known);
  if (frame->ctx->is_operator && pd_store_placed(frame->home->uri, agent, place, NULL) == PD_OK)
    pd_json_put_text(&frame->out, "place", place);
  pd_json_close(&frame->out, '}');
}

pd_code pd_cap_agents_list(pd_frame *frame, pd_error *err)
{
  CLEANUP(name_list_done) name_list list = {0};
  CLEANUP(last_storage_done) last_storage last = {.grant = frame->grant};
  size_t limit = (size_t)pd_in_int(frame, "limit", LIMIT), count = 0;
  char after[PD_NAME_SIZE_MAX + 1] = "";
  if (!pd_in_string(frame, "after", after, sizeof after)) *after = 0;
  if (frame->ctx->is_operator) TRY(pd_authorise_operator(frame->ctx, frame->capability->name, false, &last.grant, err));
  TRY(list_names(frame, &list, err));
  pd_json_key(&frame->out, "agents");
  pd_json_open(&frame->out, '[');
  bool has_more = false;
  for (size_t i = 0; i < list.count && !has_more; i++) {
    if (strcmp(list.items[i].text, after) <= 0) continue;
    has_more = count == limit;
    if (!has_more) write_agent(frame, &last, list.items[i].text), count++;
  }
  pd_json_close(&frame->out, ']');
  pd_json_put_number(&frame->out, "count", count);
  pd_json_put_bool(&frame->out, "has_more", has_more);
  return PD_OK;
}
