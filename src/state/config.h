/*
 * config.h: what may be configured: a table of settings with defaults that need no file. FOLDER/perdure.toml changes them, and
 * environment variables (PERDURE_ and the name in capitals, dots as underscores) change that.
 */
#ifndef PD_STATE_CONFIG_H
#define PD_STATE_CONFIG_H

#include "base/toml.h"

#include <perdure/state.h>

#define PD_CONFIG_COUNT_MAX 96
#define PD_CONFIG_TEXT_SIZE 40
#define PD_CONFIG_TEST "test." /* before a limit's name in perdure.toml, for perdure's own tests */
#define PD_CONFIG_NOWHERE SIZE_MAX
#define PD_CONFIG_WORDS_MAX ((size_t)4095) /* of a setting that is no number, bytes */

typedef enum pd_config_origin_kind { PD_ORIGIN_DEFAULT = 0, PD_ORIGIN_FILE, PD_ORIGIN_ENVIRONMENT } pd_config_origin_kind;

typedef struct pd_config_origin {
  pd_config_origin_kind kind;
  size_t line; /* of the file */
} pd_config_origin;

typedef struct pd_config {
  uint64_t session_quota_bytes, session_agent_quota_bytes, session_idle_ms, session_count_max, session_agent_count_max;
  uint64_t persistent_quota_bytes, persistent_versions; /* versions 0: forever */
  uint64_t shared_quota_bytes;
  uint64_t history_forks_max, history_marks_max; /* of one agent */
  uint64_t flush_ms;                             /* 0: every write is durable before the reply */
  uint64_t cache_bytes;                          /* of each open store */
  uint64_t store_open_max, store_idle_ms;        /* of agents; idle 0: never */
  uint64_t snapshot_keep, backup_keep;
  uint64_t alert_keep, process_keep;               /* of one agent */
  uint64_t alert_bytes_max;                        /* of one agent */
  uint64_t approval_ttl_ms, approval_history_keep; /* ttl 0: never expires */
  uint64_t vault_idle_ms;
  uint64_t audit_flush_ms, audit_keep_days; /* days 0: forever */
  uint64_t agent_quota_bytes;               /* of all that an agent's store holds */
  uint64_t queue_visibility_ms, queue_count_max, queue_bytes_max, queue_sender_bytes_max;
  uint64_t mailbox_count_max;                      /* of one thread */
  uint64_t work_keep, work_keep_ms, work_lease_ms; /* keep_ms 0: forever; lease 0: never ends */
  uint64_t activity_flush_ms;
  uint64_t briefing_files_max;
  /* of a server */
  uint64_t server_body_max_bytes, server_bytes_max, server_bundles_max_bytes, server_connections_max, server_in_flight_max,
    server_agent_in_flight_max;
  uint64_t server_request_ms, server_idle_ms, server_drain_ms, server_heartbeat_ms, server_watchers_max, server_watch_queue_bytes,
    server_rate, server_agent_rate, server_agent_watchers_max, server_insecure_listen;
  uint64_t mcp_approvals; /* of /mcp and of `perdure mcp` */
  /* Texts; NULL: none. Lists have commas in between. */
  char *server_listen, *server_socket, *server_tls_cert, *server_tls_key, *server_allow_host, *server_allow_origin, *server_mcp_tools,
    *server_log_level, *folders_roots;

  char *file;                                    /* that was read; NULL: none */
  pd_config_origin origins[PD_CONFIG_COUNT_MAX]; /* of each item */
  pd_config_origin tested[PD_CONFIG_COUNT_MAX];  /* of each limit: where [test] says it */
  pd_config_origin former[PD_CONFIG_COUNT_MAX];  /* of each limit: where it stands as if it were a setting, and is ignored */
} pd_config;

typedef enum pd_config_unit {
  PD_UNIT_COUNT = 0,
  PD_UNIT_BYTES,
  PD_UNIT_MS,
  PD_UNIT_DAYS,
  PD_UNIT_FLAG, /* 0 or 1 */
  PD_UNIT_TEXT, /* no numbers from here on */
  PD_UNIT_CHOICE,
  PD_UNIT_FILE, /* a relative path in a file is taken from that file's folder */
  PD_UNIT_LIST,
  PD_UNIT_FOLDERS /* a list of absolute paths */
} pd_config_unit;

typedef struct pd_config_item {
  const char *name; /* "session.quota": [session] quota = "50 MiB" */
  pd_config_unit unit;
  size_t offset;                /* in pd_config, of a uint64_t; of a text, of a char * */
  uint64_t otherwise, min, max; /* of a list, max: of items */
  const char *about;            /* "0: never" or "0: forever" at its end makes that word a value; of a choice, it begins with "a|b|c" */
  const char *when;             /* to change it: "…" ends "change it when" */
} pd_config_item;

/* What is not a setting, but was one under the name `item.name`. */
typedef struct pd_config_limit {
  pd_config_item
    item;      /* otherwise: its value, or the least; about: what it is now; "": that value. PD_CONFIG_NOWHERE: only the name is left */
  size_t from; /* in pd_config: the number that it follows, … */
  uint64_t times, by; /* … as number * times / by. by 0: it follows none */
} pd_config_limit;

extern const pd_config_item pd_config_items[];
extern const size_t pd_config_item_count;
extern const pd_config_limit pd_config_limits[];
extern const size_t pd_config_limit_count;

void pd_config_defaults(pd_config *config);
/* Defaults, then `file` (must exist) or FOLDER/perdure.toml (need not), then the environment. `folder` and `file` may be NULL.
 * PD_INVALID names the file, the line and what is wrong there. */
PD_MUST_USE pd_code pd_config_load(pd_config *config, const char *folder, const char *file, pd_error *err);
void pd_config_done(pd_config *config);

/* A value as it stands in a file, or as text, into the struct at `base`; `where` is FILE:LINE or another name of the place. PD_INVALID for
 * one of the wrong form, or out of the item's bounds. Other tables of items may be read so, too. */
PD_MUST_USE pd_code pd_config_take(void *base, const pd_config_item *item, const pd_toml_value *value, const char *where, pd_error *err);
PD_MUST_USE pd_code pd_config_take_text(void *base, const pd_config_item *item, const char *text, const char *where, pd_error *err);

/* ---- config_limits.c ---- */

/* Set the limits from what is in `config`, but for those that [test] says. */
void pd_config_follow(pd_config *config);
/* The limit of that name, with PD_CONFIG_TEST before it or not; NULL: there is none. */
const pd_config_limit *pd_config_limit_find(const char *name, bool *out_is_test);
/* What it is now, as "15s" or "a quarter of server.connections_max". */
const char *pd_config_limit_text(const pd_config_limit *limit, char out[PD_CONFIG_TEXT_SIZE]);

/* ---- config_text.c ---- */

bool pd_config_is_text(const pd_config_item *item);
/* "" if there is none. */
const char *pd_config_text_at(const void *base, const pd_config_item *item);
/* As pd_config_take and pd_config_take_text, for texts; "" takes away what was there. */
PD_MUST_USE pd_code pd_config_take_words(void *base, const pd_config_item *item, const pd_toml_value *value, const char *where,
                                         pd_error *err);
PD_MUST_USE pd_code pd_config_set_words(void *base, const pd_config_item *item, const char *text, const char *where, pd_error *err);
/* A relative path stood in `file`: make it one from that file's folder. */
PD_MUST_USE pd_code pd_config_anchor(void *base, const pd_config_item *item, const char *file, pd_error *err);
void pd_config_forget_texts(pd_config *config);

/* ---- config_value.c ---- */

/* A value as people write it; false if it is none, or too large for 64 bits. The item's bounds are not looked at. */
bool pd_config_parse(const pd_config_item *item, const char *text, uint64_t *out);
/* The shortest exact text, which pd_config_parse reads back; returns `out`. */
const char *pd_config_text(const pd_config_item *item, uint64_t number, char out[PD_CONFIG_TEXT_SIZE]);
/* How values of that unit are written, for messages. Static storage. */
const char *pd_config_form(pd_config_unit unit);

#endif
