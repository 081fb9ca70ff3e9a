/*
 * mcp_watch.c: hearing of changes to resources. Each resource that sessions of an agent have subscribed to is one follower of its store
 * (perdure/follow.h). M4 of mcp.h: it remembers the last record that it told of.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_home.h"

#include <perdure/follow.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARED "shared"

/* What an agent watches in a store. */
typedef struct target {
  pd_follower follower; /* first */
  pd_mcp *mcp;
  char store[PD_NAME_SIZE_MAX + 1];
  char agent[PD_NAME_SIZE_MAX + 1];
  char *uri; /* "": the list of keys */
  pd_mcp_topic topic;
  uint64_t seen_seq;      /* told of up to this record; the store's thread's */
  atomic_bool is_counted; /* it is in the list. Before, another target may tell the same */
  unsigned refs;
  struct target *next;
} target;

typedef struct targets {
  pthread_mutex_t lock; /* of the list and of refs. Nothing is called under it */
  target *first;
} targets;

static void free_target(target *t)
{
  if (!t) return;
  pd_follow_close(&t->follower);
  pd_mcp_topic_done(&t->topic);
  free(t->uri);
  free(t);
}

pd_code pd_mcp_home_open(pd_mcp *mcp, pd_error *err)
{
  targets *all = calloc(1, sizeof *all);
  if (!all) return pd_error_memory(err, "the watches");
  pthread_mutex_init(&all->lock, NULL);
  mcp->inside = all;
  return PD_OK;
}

void pd_mcp_home_close(pd_mcp *mcp)
{
  targets *all = mcp->inside;
  if (!all) return;
  for (target *t = all->first, *next; t; t = next) {
    next = t->next;
    free_target(t);
  }
  pthread_mutex_destroy(&all->lock);
  free(all);
  mcp->inside = NULL;
}

/* ---- what happened ---- */

static bool has_key(const target *t, const char *ref, pd_bytes key)
{
  return strcmp(ref, "main") == 0 && pd_bytes_equal(key, pd_buf_bytes(&t->topic.rest));
}

static bool is_thread(const target *t, const char *ref)
{
  return strncmp(ref, "thread/", 7) == 0 && pd_bytes_equal(pd_text(ref + 7), pd_buf_bytes(&t->topic.rest));
}

static bool value_at(pd_store *store, const pd_id *commit, pd_bytes key, pd_id *out)
{
  char hex[PD_ID_HEX_SIZE];
  pd_entry entry;
  if (pd_get(store, pd_id_hex(commit, hex), key, NULL, &entry, NULL)) return false;
  *out = entry.value_id;
  return true;
}

/* A ref that moves changes the keys that differ. */
static bool moved(pd_store *store, const target *t, const pd_watch_event *event)
{
  pd_id zero = {0}, before = {0}, after = {0};
  if (strcmp(event->ref, "main") != 0) return false;
  if (pd_id_equal(&event->before, &zero) || pd_id_equal(&event->commit.id, &zero) || !*t->uri) return true;
  bool had = value_at(store, &event->before, pd_buf_bytes(&t->topic.rest), &before);
  bool has = value_at(store, &event->commit.id, pd_buf_bytes(&t->topic.rest), &after);
  return had != has || !pd_id_equal(&before, &after);
}

static bool concerns(pd_store *store, const target *t, const pd_watch_event *event)
{
  if (event->kind == PD_WATCH_GAP) return true; /* something may have */
  if (*t->uri && t->topic.kind == PD_MCP_THREAD) return is_thread(t, event->ref);
  if (event->kind == PD_WATCH_MOVE) return moved(store, t, event);
  if (!*t->uri) return strcmp(event->ref, "main") == 0 && (event->kind == PD_WATCH_DELETE || event->is_new);
  return has_key(t, event->ref, event->key);
}

static void tell(const target *t)
{
  if (*t->uri)
    pd_mcp_updated(t->mcp, t->agent, t->uri);
  else
    pd_mcp_changed(t->mcp, t->agent, PD_MCP_RESOURCES);
}

static const char *const reads[] = {
  [PD_MCP_PERSISTENT] = "state.persistent.get", [PD_MCP_SHARED] = "state.shared.get", [PD_MCP_THREAD] = "threads.load"};

/* Policy may have been tightened since it was subscribed to. */
static bool may_hear(const target *t)
{
  const char *list = strcmp(t->store, SHARED) == 0 ? "state.shared.list" : "state.persistent.list";
  pd_ctx who = {.home = t->mcp->home, .agent = t->agent};
  if (!*t->uri) return pd_authorise_any(&who, list, false);
  pd_bytes key = t->topic.kind == PD_MCP_THREAD ? (pd_bytes){0} : pd_buf_bytes(&t->topic.rest);
  return pd_authorise_read(&who, reads[t->topic.kind], NULL, key, NULL, NULL) == PD_OK;
}

static void take(pd_follower *follower, pd_follow_batch *batch, size_t first)
{
  target *t = (target *)follower;
  if (!atomic_load(&t->is_counted)) return;
  for (size_t i = first; i < batch->count; i++) {
    const pd_watch_event *event = &batch->events[i];
    if (event->seq <= t->seen_seq || !concerns(batch->store, t, event)) continue;
    t->seen_seq = event->last_seq;
    if (may_hear(t)) tell(t);
  }
}

/* ---- watching ---- */

/* After the last record that is there now: what comes later is news. PD_NOT_FOUND: there is no store yet. */
static pd_code find_end(const target *t, const pd_grant *grant, pd_watch_cursor *out, pd_error *err)
{
  pd_store *store = NULL;
  pd_watch *now = NULL;
  TRY(pd_home_borrow(grant, t->store, false, &store, err)); /* a subscription does not make a store */
  pd_code code = pd_watch_open(store, NULL, &now, err);
  if (!code) *out = pd_watch_where(now);
  pd_watch_close(now);
  pd_home_return(t->mcp->home, store);
  return code;
}

/* A session's token was asked for when it subscribed; the target is the agent's. */
static pd_code permit(const target *t, pd_grant *out, pd_error *err)
{
  pd_ctx who = {.home = t->mcp->home, .agent = t->agent};
  const char *like = *t->uri ? reads[t->topic.kind] : strcmp(t->store, SHARED) == 0 ? "state.shared.list" : "state.persistent.list";
  bool has_key = *t->uri && t->topic.kind != PD_MCP_THREAD;
  return pd_authorise_read(&who, like, t->store, has_key ? pd_buf_bytes(&t->topic.rest) : (pd_bytes){0}, out, err);
}

static pd_code follow(target *t, pd_error *err)
{
  pd_watch_cursor end;
  pd_grant grant;
  TRY(permit(t, &grant, err));
  TRY(pd_follow_open(&grant, t->store, &t->follower, err));
  for (;;) {
    pd_code code = find_end(t, &grant, &end, err);
    if (code && code != PD_NOT_FOUND) return code;
    if (pd_follow_join(&t->follower, code ? NULL : &end)) return PD_OK;
  }
}

static pd_code make_target(pd_mcp *mcp, const char *store, const char *agent, const char *uri, target **out, pd_error *err)
{
  target *t = calloc(1, sizeof *t);
  if (!t) return pd_error_memory(err, "a watch");
  t->follower.take = take;
  t->mcp = mcp;
  t->refs = 1;
  snprintf(t->store, sizeof t->store, "%s", store);
  snprintf(t->agent, sizeof t->agent, "%s", agent);
  t->uri = strdup(uri);
  pd_code code = t->uri ? PD_OK : pd_error_memory(err, "a watch");
  if (!code && *uri) code = pd_mcp_topic_parse(uri, &t->topic, err);
  if (!code) code = follow(t, err);
  if (code)
    free_target(t);
  else
    *out = t;
  return code;
}

/* Where in the list it is, or would be. Under the lock. */
static target **place_of(targets *all, const char *store, const char *agent, const char *uri)
{
  target **at = &all->first;
  while (*at && (strcmp((*at)->store, store) != 0 || strcmp((*at)->agent, agent) != 0 || strcmp((*at)->uri, uri) != 0)) at = &(*at)->next;
  return at;
}

/* Count one more user of the target; without one, `made` (may be NULL) becomes it. False: there is none. */
static bool share(targets *all, const char *store, const char *agent, const char *uri, target **made)
{
  pthread_mutex_lock(&all->lock);
  target **at = place_of(all, store, agent, uri);
  bool is_there = *at != NULL;
  if (is_there) {
    (*at)->refs++;
  } else if (*made) {
    *at = *made;
    atomic_store(&(*made)->is_counted, true);
    *made = NULL;
    is_there = true;
  }
  pthread_mutex_unlock(&all->lock);
  return is_there;
}

static pd_code watch_in(pd_mcp *mcp, const char *store, const char *agent, const char *uri, pd_error *err)
{
  target *made = NULL;
  if (share(mcp->inside, store, agent, uri, &made)) return PD_OK;
  TRY(make_target(mcp, store, agent, uri, &made, err));
  (void)share(mcp->inside, store, agent, uri, &made);
  free_target(made); /* another was quicker */
  return PD_OK;
}

static void unwatch_in(pd_mcp *mcp, const char *store, const char *agent, const char *uri)
{
  targets *all = mcp->inside;
  pthread_mutex_lock(&all->lock);
  target **at = place_of(all, store, agent, uri), *t = *at;
  bool is_last = t && --t->refs == 0;
  if (is_last) *at = t->next;
  pthread_mutex_unlock(&all->lock);
  if (is_last) free_target(t);
}

pd_code pd_mcp_home_watch(pd_mcp *mcp, const char *agent, const char *uri, pd_error *err)
{
  CLEANUP(pd_mcp_topic_done) pd_mcp_topic topic = {0};
  if (!*uri) {
    TRY(watch_in(mcp, agent, agent, uri, err));
    pd_code code = watch_in(mcp, SHARED, agent, uri, err);
    if (code) unwatch_in(mcp, agent, agent, uri);
    return code;
  }
  TRY(pd_mcp_topic_parse(uri, &topic, err));
  if (topic.kind == PD_MCP_COMMIT) return PD_OK; /* it never changes */
  return watch_in(mcp, topic.kind == PD_MCP_SHARED ? SHARED : agent, agent, uri, err);
}

void pd_mcp_home_unwatch(pd_mcp *mcp, const char *agent, const char *uri)
{
  CLEANUP(pd_mcp_topic_done) pd_mcp_topic topic = {0};
  if (!*uri) unwatch_in(mcp, SHARED, agent, uri);
  if (*uri && (pd_mcp_topic_parse(uri, &topic, NULL) || topic.kind == PD_MCP_COMMIT)) return;
  unwatch_in(mcp, *uri && topic.kind == PD_MCP_SHARED ? SHARED : agent, agent, uri);
}
