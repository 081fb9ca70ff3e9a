/*
 * config.h: what may be configured: a table of settings with defaults that need no file. FOLDER/perdure.toml changes them, and
 * environment variables (PERDURE_ and the name in capitals, dots as underscores) change that.
 */
#ifndef PD_STATE_CONFIG_H
#define PD_STATE_CONFIG_H

#include <perdure/state.h>

typedef struct pd_config {
  uint64_t session_quota_bytes, session_idle_ms, session_count_max;
  uint64_t persistent_quota_bytes, persistent_versions; /* versions 0: forever */
  uint64_t shared_quota_bytes;
  uint64_t flush_ms; /* 0: every write is durable before the reply */
  uint64_t snapshot_keep, backup_keep;
  uint64_t alert_keep, process_keep;               /* of one agent */
  uint64_t approval_ttl_ms, approval_history_keep; /* ttl 0: never expires */
  uint64_t vault_idle_ms;
  uint64_t audit_flush_ms, audit_keep_days; /* days 0: forever */
  uint64_t queue_visibility_ms, queue_count_max;
  uint64_t activity_flush_ms;
  uint64_t briefing_files_max;
} pd_config;

typedef enum pd_config_unit { PD_UNIT_COUNT = 0, PD_UNIT_BYTES, PD_UNIT_MS, PD_UNIT_DAYS } pd_config_unit;

typedef struct pd_config_item {
  const char *name; /* "session.quota": [session] quota = "50 MB" */
  pd_config_unit unit;
  size_t offset; /* in pd_config, of a uint64_t */
  uint64_t otherwise, min, max;
  const char *about;
} pd_config_item;

extern const pd_config_item pd_config_items[];
extern const size_t pd_config_item_count;

void pd_config_defaults(pd_config *config);
/* Defaults, then `file` (must exist) or FOLDER/perdure.toml (need not), then the environment. `folder` and `file` may be NULL.
 * PD_INVALID names the file, the line and what is wrong there. */
PD_MUST_USE pd_code pd_config_load(pd_config *config, const char *folder, const char *file, pd_error *err);

#endif
