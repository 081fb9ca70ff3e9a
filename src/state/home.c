/* home.c: opening a home, its stores and its folders. Invariants H1 to H3 are in home.h. */
#include "state/home.h"

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/backup.h"
#include "state/tiers.h"
#include "state/window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int64_t pd_home_now(pd_home *home)
{
  return home->now_ms(home->now_ctx);
}

/* ---- stores ---- */

static bool is_agent(const char *name)
{
  return strcmp(name, PD_STORE_SHARED) != 0 && strcmp(name, PD_STORE_SYSTEM) != 0;
}

static pd_home_entry *find_store(pd_home *home, const char *name)
{
  for (size_t i = 0; i < home->entry_count; i++)
    if (strcmp(home->entries[i].name, name) == 0) return &home->entries[i];
  return NULL;
}

static pd_code open_store(pd_home *home, const char *name, bool create, pd_home_entry **out, pd_error *err)
{
  TRY(pd_array_grow(&home->entries, home->entry_count, &home->entry_capacity, sizeof home->entries[0], "a home's stores", err));
  pd_options options = {
    .must_exist = !create,
    .flush_ms = (uint32_t)home->config.flush_ms,
    .value_size_max = PD_CALL_SIZE_MAX,
    .author = "perdure",
    .now_ms = home->now_ms,
    .now_ctx = home->now_ctx,
  };
  pd_home_entry *entry = &home->entries[home->entry_count];
  TRY(pd_store_open(home->uri, name, &options, &entry->store, err));
  snprintf(entry->name, sizeof entry->name, "%s", name);
  home->entry_count++;
  entry->is_kept = !is_agent(name);
  *out = entry;
  return PD_OK;
}

pd_code pd_home_store(pd_home *home, const char *name, bool create, pd_store **out, pd_error *err)
{
  pthread_mutex_lock(&home->lock);
  pd_home_entry *entry = find_store(home, name);
  pd_code code = entry ? PD_OK : open_store(home, name, create, &entry, err);
  if (code == PD_OK && create && !entry->is_kept) { /* once: the lock may be held over it, as over the open */
    code = pd_window_keep(entry->store, home->config.persistent_versions, err);
    entry->is_kept = code == PD_OK;
  }
  if (code == PD_OK) *out = entry->store;
  pthread_mutex_unlock(&home->lock);
  return code;
}

pd_code pd_home_borrow(pd_home *home, const char *name, bool create, pd_store **out, pd_error *err)
{
  TRY(pd_agent_check(name, err));
  return pd_home_store(home, name, create, out, err);
}

void pd_home_each_open(pd_home *home, void (*visit)(void *ctx, const char *name, pd_store *store), void *ctx)
{
  pthread_mutex_lock(&home->lock);
  for (size_t i = 0; i < home->entry_count; i++) visit(ctx, home->entries[i].name, home->entries[i].store);
  pthread_mutex_unlock(&home->lock);
}

pd_store *pd_home_opened(pd_home *home, const char *name)
{
  pthread_mutex_lock(&home->lock);
  pd_home_entry *entry = find_store(home, name);
  pd_store *store = entry ? entry->store : NULL;
  pthread_mutex_unlock(&home->lock);
  return store;
}

pd_store *pd_home_written(pd_home *home, const char *name)
{
  pthread_mutex_lock(&home->lock);
  pd_home_entry *entry = find_store(home, name);
  pd_store *store = entry && entry->is_kept ? entry->store : NULL;
  pthread_mutex_unlock(&home->lock);
  return store;
}

/* ---- agents ---- */

typedef struct name_list {
  char (*names)[PD_NAME_SIZE_MAX + 1];
  size_t count, capacity;
  pd_code code;
} name_list;

static void add_name(void *ctx, const char *name)
{
  name_list *list = ctx;
  if (list->code || !is_agent(name)) return;
  list->code = pd_array_grow(&list->names, list->count, &list->capacity, sizeof list->names[0], "names of agents", NULL);
  if (list->code == PD_OK) snprintf(list->names[list->count++], sizeof list->names[0], "%s", name);
}

pd_code pd_home_each_agent(pd_home *home, pd_code (*visit)(void *ctx, const char *agent, pd_error *err), void *ctx, pd_error *err)
{
  name_list list = {0};
  pd_code code = pd_home_agents(home->uri, add_name, &list, err);
  if (code == PD_OK && list.code) code = pd_error_memory(err, "names of agents");
  for (size_t i = 0; i < list.count && code == PD_OK; i++) code = visit(ctx, list.names[i], err);
  free(list.names);
  return code;
}

typedef struct name_search {
  const char *name;
  bool is_found;
} name_search;

static pd_code match_name(void *ctx, const char *agent, pd_error *err)
{
  (void)err;
  name_search *search = ctx;
  if (strcmp(agent, search->name) == 0) search->is_found = true;
  return PD_OK;
}

pd_code pd_home_has_agent(pd_home *home, const char *name, bool *out, pd_error *err)
{
  name_search search = {.name = name};
  TRY(pd_home_each_agent(home, match_name, &search, err));
  *out = search.is_found;
  return PD_OK;
}

/* ---- folders ---- */

pd_code pd_home_folder(pd_home *home, const char *name, const char *what, char *out, size_t size, pd_error *err)
{
  if (!home->folder) return pd_error_set(err, PD_UNSUPPORTED, "%s need a folder, and the home '%s' has none", what, home->uri);
  int length = snprintf(out, size, "%s%s%s", home->folder, *name ? "/" : "", name);
  if (length < 0 || (size_t)length >= size) return pd_error_set(err, PD_LIMIT, "the path %s/%s is too long", home->folder, name);
  if (mkdir(out, 0700) && errno != EEXIST) return pd_error_set(err, PD_STORAGE, "cannot make the folder %s: %s", out, strerror(errno));
  return PD_OK;
}

/* ---- open, close ---- */

static pd_code set_folder(pd_home *home, const pd_home_options *options, pd_error *err)
{
  const char *folder = options->folder;
  if (!folder && strncmp(home->uri, "sqlite:", 7) == 0) folder = home->uri + 7;
  if (!folder) return PD_OK;
  home->folder = strdup(folder);
  if (!home->folder) return pd_error_memory(err, "a home");
  struct stat is;
  if (stat(folder, &is) == 0) return PD_OK;
  if (options->must_exist) return pd_error_set(err, PD_NOT_FOUND, "there is no home at %s", folder);
  if (mkdir(folder, 0700) && errno != EEXIST)
    return pd_error_set(err, PD_STORAGE, "cannot make the folder %s: %s", folder, strerror(errno));
  return PD_OK;
}

static pd_code set_up(pd_home *home, const pd_home_options *options, pd_error *err)
{
  TRY(set_folder(home, options, err));
  home->config_file = options->config ? strdup(options->config) : NULL;
  if (options->config && !home->config_file) return pd_error_memory(err, "a home");
  TRY(pd_config_load(&home->config, home->folder, home->config_file, err));
  TRY(pd_policy_new(home, &home->policy, err));
  TRY(pd_sessions_new(home, &home->sessions, err));
  TRY(pd_owners_new(&home->owners, err));
  TRY(pd_subscriptions_new(home, &home->subscriptions, err));
  TRY(pd_ear_new(home, &home->ear, err));
  TRY(pd_audit_new(home, &home->audit, err));
  TRY(pd_vault_new(home, &home->vault, err));
  TRY(pd_activity_new(home, &home->activity, err));
  return pd_restore_resume(home, err);
}

pd_code pd_home_open(const char *uri, const pd_home_options *options, pd_home **out, pd_error *err)
{
  static const pd_home_options none = {0};
  if (!options) options = &none;
  pd_home *home = calloc(1, sizeof *home);
  if (!home) return pd_error_memory(err, "a home");
  pthread_mutex_init(&home->lock, NULL);
  home->now_ms = options->now_ms ? options->now_ms : pd_clock_now_ms;
  home->now_ctx = options->now_ctx;
  home->uri = strdup(uri);
  pd_code code = home->uri ? set_up(home, options, err) : pd_error_memory(err, "a home");
  if (code) {
    pd_home_close(home, NULL);
    return code;
  }
  *out = home;
  return PD_OK;
}

/* Processes that write little and often, as the command line does, would never come to it. It is tried again next time. */
static void run_gc(pd_store *store)
{
  if (pd_gc_auto(store, NULL, NULL, NULL)) return;
}

pd_code pd_home_close(pd_home *home, pd_error *err)
{
  if (!home) return PD_OK;
  pd_ear_free(home->ear);
  pd_subscriptions_close(home->subscriptions);
  pd_sessions_free(home->sessions);
  pd_subscriptions_free(home->subscriptions);
  pd_activity_free(home->activity);
  pd_audit_free(home->audit);
  pd_vault_free(home->vault);
  pd_owners_free(home->owners);
  pd_policy_free(home->policy);
  pd_code code = PD_OK;
  for (size_t i = 0; i < home->entry_count; i++) {
    if (home->entries[i].is_kept && is_agent(home->entries[i].name)) run_gc(home->entries[i].store);
    pd_code closed = pd_store_close(home->entries[i].store, code ? NULL : err);
    if (!code) code = closed;
  }
  pthread_mutex_destroy(&home->lock);
  pd_config_done(&home->config);
  free(home->entries);
  free(home->config_file);
  free(home->folder);
  free(home->uri);
  free(home);
  return code;
}
