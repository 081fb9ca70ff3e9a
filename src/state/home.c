/* home.c: opening a home, its agents and its folders. Invariants H1 to H3 are in home.h. */
#include "state/home.h"

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/names.h"
#include "state/audit.h"
#include "state/backup.h"
#include "state/folder_roots.h"
#include "state/opened.h"
#include "state/threads.h"
#include "state/tiers.h"
#include "state/token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int64_t pd_home_now(pd_home *home)
{
  return home->now_ms(home->now_ctx);
}

/* ---- agents ---- */

static bool is_agent(const char *name)
{
  return strcmp(name, PD_STORE_SHARED) != 0 && strcmp(name, PD_STORE_SYSTEM) != 0;
}

static void add_name(void *ctx, const char *name)
{
  if (is_agent(name)) pd_names_add(ctx, name);
}

pd_code pd_home_each_agent(pd_home *home, pd_code (*visit)(void *ctx, const char *agent, pd_error *err), void *ctx, pd_error *err)
{
  CLEANUP(pd_names_done) pd_names names = {0};
  TRY(pd_home_agents(home->uri, add_name, &names, err));
  TRY(pd_names_check(&names, "names of agents", err));
  for (size_t i = 0; i < names.count; i++) TRY(visit(ctx, names.items[i], err));
  return PD_OK;
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
  TRY(pd_crypto_ready(err)); /* here, where it is an error like any other, and not in the middle of a request */
  TRY(set_folder(home, options, err));
  home->config_file = options->config ? strdup(options->config) : NULL;
  if (options->config && !home->config_file) return pd_error_memory(err, "a home");
  TRY(pd_config_load(&home->config, home->folder, home->config_file, err));
  TRY(pd_folder_roots_new(home, &home->roots, err));
  TRY(pd_opened_new(home, &home->opened, err));
  TRY(pd_policy_new(home, &home->policy, err));
  TRY(pd_tokens_new(&home->tokens, err));
  TRY(pd_thread_cache_new(&home->threads, err));
  TRY(pd_sessions_new(home, &home->sessions, err));
  TRY(pd_owners_new(&home->owners, err));
  TRY(pd_subscriptions_new(home, &home->subscriptions, err));
  TRY(pd_follows_new(home, &home->follows, err));
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

/* The audit first: its lines are in a store. */
pd_code pd_home_flush(pd_home *home, pd_error *err)
{
  pd_code audited = pd_audit_flush(home, err), code = pd_opened_flush(home, audited ? NULL : err);
  return audited ? audited : code;
}

pd_code pd_home_close(pd_home *home, pd_error *err)
{
  if (!home) return PD_OK;
  pd_follows_free(home->follows);
  pd_subscriptions_close(home->subscriptions);
  pd_sessions_free(home->sessions);
  pd_subscriptions_free(home->subscriptions);
  pd_activity_free(home->activity);
  pd_audit_free(home->audit);
  pd_vault_free(home->vault);
  pd_owners_free(home->owners);
  pd_tokens_free(home->tokens);
  pd_policy_free(home->policy);
  pd_code code = pd_opened_free(home->opened, err);
  pd_thread_cache_free(home->threads); /* empty: each store took its own with it */
  pd_folder_roots_free(home->roots);
  pd_config_done(&home->config);
  free(home->config_file);
  free(home->folder);
  free(home->uri);
  free(home);
  return code;
}
