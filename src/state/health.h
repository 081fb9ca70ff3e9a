/* health.h: how the system is, as system.health, system snapshots and briefings tell it. */
#ifndef PD_STATE_HEALTH_H
#define PD_STATE_HEALTH_H

#include "base/json.h"
#include "state/home.h"

typedef enum pd_health_status { PD_HEALTH_OK = 0, PD_HEALTH_DEGRADED, PD_HEALTH_FAILING } pd_health_status;

/* "ok", "degraded", "failing". Static storage. */
const char *pd_health_status_name(pd_health_status status);

/* What a look at one store says. */
typedef struct pd_store_health {
  char name[PD_NAME_SIZE_MAX + 1];
  bool is_sound;
  pd_stats stats;
  uint64_t used_bytes, quota_bytes; /* of the values at its head; quota 0: none */
} pd_store_health;

typedef struct pd_health_reason {
  pd_health_status status;
  char store[PD_NAME_SIZE_MAX + 1]; /* "" if it concerns the whole home */
  char what[400];
  char why[400]; /* behind it, for the operator: it names files of the host. "": nothing more */
} pd_health_reason;

typedef struct pd_health {
  int64_t time_ms;
  bool has_disk;
  uint64_t disk_total_bytes, disk_free_bytes, disk_free_files;
  uint64_t audit_waiting, audit_lost; /* lines, in this process */
  bool has_vault, is_vault_unlocked;  /* unlocked: in this process */
  pd_store_health *stores;
  size_t store_count, store_capacity;
  pd_health_reason *reasons;
  size_t reason_count, reason_capacity;
} pd_health;

/* Look at everything: free space, and each store's newest records, a sample of each of its refs and its quota. Quick: it does not replace
 * pd_verify. PD_OK if it could look, whatever it found. To be finished with pd_health_done, also after a failure. */
PD_MUST_USE pd_code pd_health_look(pd_home *home, pd_health *out, pd_error *err);
void pd_health_done(pd_health *health);
/* The worst of the reasons. */
pd_health_status pd_health_worst(const pd_health *health);
/* Members status and reasons. `agent` (NULL: the operator): of what concerns the stores of others only that there is something. */
void pd_health_write_status(pd_json_writer *w, const pd_health *health, const char *agent);
/* All members of system.health's answer; for an agent its own store, the shared one and totals. */
void pd_health_write(pd_json_writer *w, pd_home *home, const pd_health *health, const char *agent);

#endif
