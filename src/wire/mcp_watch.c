/*
 * mcp_watch.c: hearing of changes to resources: one thread for each store that somebody watches, which follows the store's log and leaves
 * when nobody watches any more. M4 of mcp.h: what is watched remembers the last record that it told of.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "wire/mcp_home.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOK_MS 200
#define SHARED "shared"

/* Something that is watched in a store. */
typedef struct target {
  char agent[PD_NAME_SIZE_MAX + 1];
  char *uri; /* "": the list of keys */
  pd_mcp_topic topic;
  unsigned refs;
  uint64_t seen_seq; /* told of up to this record */
  struct target *next;
} target;

typedef struct eye {
  pd_mcp *mcp;
  char name[PD_NAME_SIZE_MAX + 1]; /* of the store */
  pd_store *store;                 /* borrowed while it is watched; NULL: it is not there yet, and watching does not make it */
  pd_watch *watch;
  target *targets;
  struct eye *next;
} eye;

typedef struct eyes {
  pthread_mutex_t lock; /* of all that follows, targets included; pd_mcp.lock may be taken under it */
  pthread_cond_t left;
  eye *first;
  bool must_stop;
} eyes;

pd_code pd_mcp_home_open(pd_mcp *mcp, pd_error *err)
{
  eyes *all = calloc(1, sizeof *all);
  if (!all) return pd_error_memory(err, "the watches");
  pthread_mutex_init(&all->lock, NULL);
  pthread_cond_init(&all->left, NULL);
  mcp->inside = all;
  return PD_OK;
}

void pd_mcp_home_close(pd_mcp *mcp)
{
  eyes *all = mcp->inside;
  if (!all) return;
  pthread_mutex_lock(&all->lock);
  all->must_stop = true;
  while (all->first) pthread_cond_wait(&all->left, &all->lock);
  pthread_mutex_unlock(&all->lock);
  pthread_cond_destroy(&all->left);
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

static bool value_at(eye *e, const pd_id *commit, pd_bytes key, pd_id *out)
{
  char hex[PD_ID_HEX_SIZE];
  pd_entry entry;
  if (pd_get(e->store, pd_id_hex(commit, hex), key, NULL, &entry, NULL)) return false;
  *out = entry.value_id;
  return true;
}

/* A ref that moves changes the keys that differ. */
static bool moved(eye *e, const target *t, const pd_watch_event *event)
{
  pd_id zero = {0}, before = {0}, after = {0};
  if (strcmp(event->ref, "main") != 0) return false;
  if (pd_id_equal(&event->before, &zero) || pd_id_equal(&event->commit.id, &zero) || !*t->uri) return true;
  bool had = value_at(e, &event->before, pd_buf_bytes(&t->topic.rest), &before);
  bool has = value_at(e, &event->commit.id, pd_buf_bytes(&t->topic.rest), &after);
  return had != has || !pd_id_equal(&before, &after);
}

static bool concerns(eye *e, const target *t, const pd_watch_event *event)
{
  if (event->kind == PD_WATCH_GAP) return true; /* something may have */
  if (*t->uri && t->topic.kind == PD_MCP_THREAD) return is_thread(t, event->ref);
  if (event->kind == PD_WATCH_MOVE) return moved(e, t, event);
  if (!*t->uri) return strcmp(event->ref, "main") == 0 && (event->kind == PD_WATCH_DELETE || event->is_new);
  return has_key(t, event->ref, event->key);
}

static void tell(eye *e, const target *t)
{
  if (*t->uri)
    pd_mcp_updated(e->mcp, t->agent, t->uri);
  else
    pd_mcp_changed(e->mcp, t->agent, PD_MCP_RESOURCES);
}

/* Policy may have been tightened since it was subscribed to. */
static bool may_hear(eye *e, const target *t)
{
  static const char *const reads[] = {
    [PD_MCP_PERSISTENT] = "state.persistent.get", [PD_MCP_SHARED] = "state.shared.get", [PD_MCP_THREAD] = "threads.load"};
  const char *list = strcmp(e->name, SHARED) == 0 ? "state.shared.list" : "state.persistent.list";
  if (!*t->uri) return pd_permission_at_best(e->mcp->home, t->agent, list) <= PD_PERMIT_NOTIFY;
  bool has_key = t->topic.kind != PD_MCP_THREAD;
  return pd_permission_of(e->mcp->home, t->agent, reads[t->topic.kind], has_key ? pd_buf_bytes(&t->topic.rest) : (pd_bytes){0}) <=
         PD_PERMIT_NOTIFY;
}

static void take(eye *e, const pd_watch_event *event)
{
  for (target *t = e->targets; t; t = t->next) {
    if (event->seq <= t->seen_seq || !concerns(e, t, event)) continue;
    t->seen_seq = event->last_seq;
    if (may_hear(e, t)) tell(e, t);
  }
}

/* ---- the thread ---- */

static void free_target(target *t)
{
  pd_mcp_topic_done(&t->topic);
  free(t->uri);
  free(t);
}

static void close_eye(eye *e)
{
  pd_watch_close(e->watch);
  pd_home_return(e->mcp->home, e->store);
  free(e);
}

/* Under the lock. */
static void leave(eyes *all, eye *e)
{
  eye **at = &all->first;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  while (e->targets) {
    target *t = e->targets;
    e->targets = t->next;
    free_target(t);
  }
  close_eye(e);
  pthread_cond_broadcast(&all->left);
}

static void sleep_a_little(void)
{
  nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
}

/* A store that was not there when it was first watched: all that is in it is news. */
static void come(eyes *all, eye *e)
{
  pd_watch_options all_of_it = {.from = {.seq = 2}}; /* the first record makes main */
  pd_store *store = NULL;
  pd_watch *watch = NULL;
  if (pd_home_borrow(e->mcp->home, e->name, false, &store, NULL)) return sleep_a_little();
  if (pd_watch_open(store, &all_of_it, &watch, NULL)) {
    pd_home_return(e->mcp->home, store);
    return sleep_a_little();
  }
  pthread_mutex_lock(&all->lock);
  e->store = store;
  e->watch = watch;
  pthread_mutex_unlock(&all->lock);
}

static void *look(void *ctx)
{
  eye *e = ctx;
  eyes *all = e->mcp->inside;
  for (;;) {
    pd_watch_event event;
    if (!e->watch) come(all, e); /* only this thread sets it */
    pd_code code = e->watch ? pd_watch_next(e->watch, LOOK_MS, &event, NULL) : PD_NOT_FOUND;
    pthread_mutex_lock(&all->lock);
    if (code == PD_OK) take(e, &event);
    bool is_done = all->must_stop || !e->targets;
    if (is_done) leave(all, e);
    pthread_mutex_unlock(&all->lock);
    if (is_done) return NULL;
    if (code && code != PD_NOT_FOUND) sleep_a_little(); /* a disk that fails */
  }
}

/* Under the lock. */
static pd_code open_eye(eyes *all, pd_mcp *mcp, const char *name, eye **out, pd_error *err)
{
  pthread_t thread;
  eye *e = calloc(1, sizeof *e);
  if (!e) return pd_error_memory(err, "a watch");
  e->mcp = mcp;
  snprintf(e->name, sizeof e->name, "%s", name);
  pd_code code = pd_home_borrow(mcp->home, name, false, &e->store, err); /* who only wants to hear makes no store */
  if (!code) code = pd_watch_open(e->store, NULL, &e->watch, err);
  if (code == PD_NOT_FOUND && !e->store) code = PD_OK;
  e->next = all->first;
  if (!code && pthread_create(&thread, NULL, look, e)) code = pd_error_set(err, PD_STORAGE, "cannot start a thread to watch '%s'", name);
  if (code) {
    close_eye(e);
    return code;
  }
  pthread_detach(thread);
  all->first = e; /* the thread waits for the lock before it looks at targets */
  *out = e;
  return PD_OK;
}

/* ---- watching ---- */

/* The last record that is there now: what comes later is news. */
static pd_code newest(eye *e, uint64_t *out, pd_error *err)
{
  pd_watch *now = NULL;
  *out = 0;
  if (!e->store) return PD_OK;
  TRY(pd_watch_open(e->store, NULL, &now, err));
  uint64_t next = pd_watch_where(now).seq;
  *out = next ? next - 1 : 0;
  pd_watch_close(now);
  return PD_OK;
}

static target **place_of(eye *e, const char *agent, const char *uri)
{
  target **at = &e->targets;
  while (*at && (strcmp((*at)->agent, agent) != 0 || strcmp((*at)->uri, uri) != 0)) at = &(*at)->next;
  return at;
}

static pd_code add_target(eye *e, const char *agent, const char *uri, pd_error *err)
{
  target *t = calloc(1, sizeof *t);
  if (!t) return pd_error_memory(err, "a watch");
  snprintf(t->agent, sizeof t->agent, "%s", agent);
  t->refs = 1;
  t->uri = strdup(uri);
  pd_code code = t->uri ? PD_OK : pd_error_memory(err, "a watch");
  if (!code && *uri) code = pd_mcp_topic_parse(uri, &t->topic, err);
  if (!code) code = newest(e, &t->seen_seq, err);
  if (code) {
    free_target(t);
    return code;
  }
  t->next = e->targets;
  e->targets = t;
  return PD_OK;
}

static eye *find_eye(eyes *all, const char *name)
{
  eye *e = all->first;
  while (e && strcmp(e->name, name) != 0) e = e->next;
  return e;
}

static pd_code watch_in(pd_mcp *mcp, const char *store, const char *agent, const char *uri, pd_error *err)
{
  eyes *all = mcp->inside;
  pthread_mutex_lock(&all->lock);
  eye *e = find_eye(all, store);
  pd_code code = e ? PD_OK : open_eye(all, mcp, store, &e, err);
  target *t = code ? NULL : *place_of(e, agent, uri);
  if (t)
    t->refs++;
  else if (!code)
    code = add_target(e, agent, uri, err);
  pthread_mutex_unlock(&all->lock);
  return code;
}

static void unwatch_in(pd_mcp *mcp, const char *store, const char *agent, const char *uri)
{
  eyes *all = mcp->inside;
  pthread_mutex_lock(&all->lock);
  eye *e = find_eye(all, store);
  target **at = e ? place_of(e, agent, uri) : NULL, *t = at ? *at : NULL;
  if (t && --t->refs == 0) {
    *at = t->next;
    free_target(t);
  }
  pthread_mutex_unlock(&all->lock);
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
