/*
 * home.h: the inside of a home.
 *
 * H1  An agent's store is held while it is used (opened.h); `shared` and `system`, once open, are until the home closes.
 * H2  Lock order: a tier's own lock, then that of the open stores. No lock is held while a store is called, but where a comment says so.
 * H3  Agents' stores are named as the agents; `shared` and `system` are no agents' names at the door.
 */
#ifndef PD_STATE_HOME_H
#define PD_STATE_HOME_H

#include "base/stores.h"
#include "state/config.h"

#include <perdure/state.h>
#include <pthread.h>
#include <stdatomic.h>

/* A store that somebody holds. */
typedef struct pd_held {
  pd_store *store;
  char name[PD_NAME_SIZE_MAX + 1];
  _Atomic(int64_t) room_bytes, room_until_ms; /* so much may still be written without a look at what there is (quota.c), until then */
} pd_held;

/* Each tier keeps what it needs in a struct of its own, made by its _new and freed by its _free (which takes NULL). */
typedef struct pd_sessions pd_sessions;           /* session.c */
typedef struct pd_audit pd_audit;                 /* audit.c */
typedef struct pd_policy pd_policy;               /* policy.c */
typedef struct pd_vault pd_vault;                 /* vault.c */
typedef struct pd_activity pd_activity;           /* activity.c */
typedef struct pd_owners pd_owners;               /* owners.c */
typedef struct pd_subscriptions pd_subscriptions; /* subscription.c */
typedef struct pd_follows pd_follows;             /* follow.c */
typedef struct pd_opened pd_opened;               /* opened.c */
typedef struct pd_folder_roots pd_folder_roots;   /* folder_roots.c */
typedef struct pd_tokens pd_tokens;               /* token_cache.c */
typedef struct pd_thread_cache pd_thread_cache;   /* thread_cache.c */

struct pd_home {
  char *uri;
  char *folder;      /* NULL: none */
  char *config_file; /* instead of FOLDER/perdure.toml; NULL: that */
  pd_config config;
  int64_t (*now_ms)(void *ctx);
  void *now_ctx;
  pd_opened *opened;
  pd_sessions *sessions;
  pd_audit *audit;
  pd_policy *policy;
  pd_vault *vault;
  pd_activity *activity;
  pd_owners *owners;
  pd_subscriptions *subscriptions;
  pd_follows *follows;
  pd_folder_roots *roots;
  pd_tokens *tokens;
  pd_thread_cache *threads;
  _Atomic(uint64_t) decision_count; /* authorise.c */
};

int64_t pd_home_now(pd_home *home);
/* The store of an agent, or PD_STORE_SHARED, PD_STORE_SYSTEM; to be let go. Made if it is not there and `create`; else PD_NOT_FOUND.
 * `create`: it will be written to (window.h). PD_DENIED by AU4; PD_STORAGE also if there are no descriptors left. Between pd_disk_refuse
 * and pd_disk_allow it is refused unless it is open, and was written to before if `create`. */
PD_MUST_USE pd_code pd_home_hold(const pd_grant *grant, const char *name, bool create, pd_held **out, pd_error *err);
/* The same if it is open already; NULL else, and if `grant` is not for it. */
pd_held *pd_home_hold_opened(const pd_grant *grant, const char *name);
/* Takes NULL. */
void pd_home_let(pd_home *home, pd_held *held);
/* PD_STORE_SHARED or PD_STORE_SYSTEM, which need not be held: borrowed until the home closes. Else as pd_home_hold, but without a grant:
 * they are no agent's. */
PD_MUST_USE pd_code pd_home_store(pd_home *home, const char *name, bool create, pd_store **out, pd_error *err);
/* FOLDER/name into `out`, made (mode 0700) if it is not there. PD_UNSUPPORTED if the home has no folder; `what` is for that message. */
PD_MUST_USE pd_code pd_home_folder(pd_home *home, const char *name, const char *what, char *out, size_t size, pd_error *err);
/* Is it an agent that has a store here? Never true for shared and system. */
PD_MUST_USE pd_code pd_home_has_agent(pd_home *home, const char *name, bool *out, pd_error *err);
/* The agents that have a store, sorted, without shared and system. */
PD_MUST_USE pd_code pd_home_each_agent(pd_home *home, pd_code (*visit)(void *ctx, const char *agent, pd_error *err), void *ctx,
                                       pd_error *err);

#endif
