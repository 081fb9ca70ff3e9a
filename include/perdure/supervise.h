/*
 * supervise.h: for those who start agents and see to it that they run: an agent's configuration (agent.toml), and the note that a
 * supervisor leaves in the home, so that others know of it. `perdure run` is such a supervisor. Included by perdure.h.
 *
 *     pd_agent_config config;
 *     pd_agent_config_init(&config);
 *     if (pd_agent_config_read("agent.toml", &config, &err)) …             // err.message: agent.toml:7: there is no setting 'nmae'…
 *     pd_supervisor *supervisor = NULL;
 *     if (pd_supervisor_open(home, config.name, &supervisor, &err)) …      // PD_CONFLICT: somebody else supervises it
 *     pd_supervisor_note(supervisor, &(pd_supervised){.state = PD_SUPERVISED_RUNNING, .pid = child}, &err);
 *     …
 *     pd_supervisor_close(supervisor);
 *     pd_agent_config_done(&config);
 */
#ifndef PERDURE_SUPERVISE_H
#define PERDURE_SUPERVISE_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- agent.toml ------------------------------------------------------------------------------------------------------- */

#define PD_AGENT_COMMAND_MAX 1024 /* words */
#define PD_AGENT_FOLDERS_MAX 32
#define PD_AGENT_RESTARTS_MAX 1000

typedef enum pd_restart { PD_RESTART_ON_FAILURE = 0, PD_RESTART_ALWAYS = 1, PD_RESTART_NEVER = 2 } pd_restart;

/* What agent.toml says. Texts are owned by it; paths are absolute. */
typedef struct pd_agent_config {
  char name[PD_NAME_SIZE_MAX + 1]; /* "": not given */
  char *object_storage;            /* where its store is: sqlite:DIR; NULL: in the home */
  char *snapshot_storage;          /* where its snapshots are, as pd_storage_open; NULL: in its store */
  bool has_old_storage;            /* object_storage named a storage of snapshots, and was taken as snapshot_storage */
  char **command;                  /* ended by NULL; NULL: not given */
  size_t command_count;
  char **folders; /* to be watched */
  size_t folder_count;
  bool has_hidden; /* names in them that begin with a dot are watched, too */

  uint64_t persistent_quota_bytes, session_quota_bytes; /* 0: as the home has it */
  uint64_t memory_bytes, files_max;                     /* of the process: address space, open files; 0: no limit */

  pd_restart restart;
  uint64_t backoff_min_ms, backoff_max_ms;
  uint64_t restarts_max, restarts_within_ms; /* so many in that time, then it gives up; 0: never */
  uint64_t healthy_ms;                       /* one that ran so long begins with backoff_min_ms again */
  uint64_t grace_ms;                         /* from the asking to the killing */

  char *file; /* that was read, absolute; NULL: none */
} pd_agent_config;

/* The defaults. */
PD_API void pd_agent_config_init(pd_agent_config *config);
/* Read `path` over what `config` holds. PD_NOT_FOUND; PD_INVALID names FILE:LINE and what is wrong there: `config` may then hold a part of
 * it and is to be finished all the same. Relative paths in it are meant from the folder of the file. */
PD_API PD_MUST_USE pd_code pd_agent_config_read(const char *path, pd_agent_config *config, pd_error *err);
/* The same with text; `file` is its name in messages, and `folder` what relative paths are meant from. */
PD_API PD_MUST_USE pd_code pd_agent_config_parse(pd_bytes text, const char *file, const char *folder, pd_agent_config *config,
                                                 pd_error *err);
/* One setting by its name in the file ("restart.backoff"), as text; `where` is for the message ("--backoff"). Not for arrays. */
PD_API PD_MUST_USE pd_code pd_agent_config_set(pd_agent_config *config, const char *name, const char *text, const char *where,
                                               pd_error *err);
PD_API void pd_agent_config_done(pd_agent_config *config);
/* "on-failure", "always", "never". Static storage. */
PD_API const char *pd_restart_name(pd_restart restart);

/* ---- where its store is ------------------------------------------------------------------------------------------------- */

#define PD_PLACE_SIZE 4096

/* Keep the store of `agent` in the home `to` (sqlite:DIR, absolute), under the same name: from now on everybody who opens it by `uri` and
 * its name gets that one. It is made if it is not there. PD_OK if it is placed there already. PD_CONFLICT: it is placed elsewhere, or
 * the home `uri` has a store of the agent already, also one that is made at this moment. PD_INVALID, PD_UNSUPPORTED: not between these.
 * Backups and restores of the home leave a store out that is placed elsewhere, and say so. */
PD_API PD_MUST_USE pd_code pd_store_place(const char *uri, const char *agent, const char *to, pd_error *err);
/* Where it is placed. PD_NOT_FOUND: in the home itself. */
PD_API PD_MUST_USE pd_code pd_store_placed(const char *uri, const char *agent, char out[PD_PLACE_SIZE], pd_error *err);

/* ---- who supervises whom ------------------------------------------------------------------------------------------------ */

typedef enum pd_supervised_state {
  PD_SUPERVISED_RUNNING = 0, /* its process runs */
  PD_SUPERVISED_WAITING = 1, /* for its next start */
  PD_SUPERVISED_ENDED = 2,   /* it exited, and that was that */
  PD_SUPERVISED_STOPPED = 3, /* it was asked to */
  PD_SUPERVISED_GAVE_UP = 4, /* it failed too often */
  PD_SUPERVISED_LOST = 5     /* its supervisor is gone without a word */
} pd_supervised_state;

/* "running", "waiting", "ended", "stopped", "gave_up", "lost". Static storage. */
PD_API const char *pd_supervised_name(pd_supervised_state state);

/* What is known of an agent that is, or was, supervised. */
typedef struct pd_supervised {
  pd_supervised_state state;
  uint64_t supervisor_pid; /* of the one that lives; 0: none does. Not looked at by pd_supervisor_note */
  uint64_t pid;            /* of the agent's process; 0: it does not run */
  uint64_t restarts;       /* since the supervisor was started */
  int64_t started_ms;      /* the process, or the last one */
  char storage[4097];      /* where its snapshots are; "": in the home. Without a password */
  char config[4097];       /* the agent.toml that it was started with; "": none */
} pd_supervised;

/* A lock, and a file, in the home's folder: HOME/supervise/AGENT.lock and AGENT.json. */
typedef struct pd_supervisor pd_supervisor;
typedef struct pd_home pd_home;

/* Become the one supervisor of `agent`. Held until it is closed, or the process and all forks of it that did not exec are gone. PD_CONFLICT
 * named AgentSupervised if there is one, whose process id the message says; PD_UNSUPPORTED for a home without a folder. The home may be
 * closed before the supervisor is. */
PD_API PD_MUST_USE pd_code pd_supervisor_open(pd_home *home, const char *agent, pd_supervisor **out, pd_error *err);
/* Tell others, durably. */
PD_API PD_MUST_USE pd_code pd_supervisor_note(pd_supervisor *supervisor, const pd_supervised *now, pd_error *err);
/* Takes NULL. What was noted last stays. */
PD_API void pd_supervisor_close(pd_supervisor *supervisor);
/* What was noted last. PD_NOT_FOUND if the agent was never supervised; PD_CORRUPT. */
PD_API PD_MUST_USE pd_code pd_supervised_read(pd_home *home, const char *agent, pd_supervised *out, pd_error *err);

#ifdef __cplusplus
}
#endif
#endif
