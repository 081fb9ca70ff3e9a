/*
 * restore_notice.c: what is newer than a backup, for whoever decides about restoring it: commits on `main` of the stores in its scope since
 * it was made, by the times in the records. The backup need not be opened for that, so the vault may be locked.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "state/approval.h"
#include "state/call.h"
#include "state/restore.h"
#include "state/run.h"
#include "state/stores.h"

#include <stdio.h>

#define COUNT_MAX 10000 /* of each store: more is "at least" */
#define NAMED_MAX 3

typedef struct counter {
  int64_t since_ms, last_ms;
  uint64_t count;
} counter;

static bool count_newer(void *ctx, const pd_record *record)
{
  counter *c = ctx;
  if (record->time_ms <= c->since_ms) return false;
  if (!c->count++) c->last_ms = record->time_ms;
  return c->count < COUNT_MAX;
}

static void add_store(const char *name, const counter *c, pd_restore_newer *out)
{
  size_t used = strlen(out->names);
  if (!c->count) return;
  out->commits += c->count;
  out->is_more |= c->count >= COUNT_MAX;
  if (c->last_ms > out->last_ms) out->last_ms = c->last_ms;
  if (out->stores++ < NAMED_MAX)
    snprintf(out->names + used, sizeof out->names - used, "%s%s: %llu", used ? ", " : "", name, (unsigned long long)c->count);
}

pd_code pd_restore_count_newer(pd_home *home, const char *agent, int64_t since_ms, pd_restore_newer *out, pd_error *err)
{
  CLEANUP(pd_leases_done) pd_leases leases = {0};
  *out = (pd_restore_newer){0};
  TRY(pd_leases_list(home, &leases, err));
  for (size_t i = 0; i < leases.count; i++) {
    pd_lease *lease = &leases.items[i];
    counter c = {.since_ms = since_ms};
    pd_log_query query = {.at = "main", .limit = COUNT_MAX};
    if (strcmp(lease->name, PD_STORE_SYSTEM) == 0 || (*agent && strcmp(lease->name, agent) != 0)) continue;
    if (pd_backup_is_outside(home, lease->name)) continue; /* it is left as it is */
    pd_lease_open(home, lease, true);
    if (lease->store && pd_log(lease->store, &query, count_newer, &c, NULL) == PD_OK) add_store(lease->name, &c, out);
    pd_lease_close(lease);
  }
  return PD_OK;
}

/* One line for an approval; nothing is added if it cannot be said. */
pd_code pd_restore_notice(const pd_frame *frame, pd_buf *out, pd_error *err)
{
  char id[128], agent[PD_NAME_SIZE_MAX + 1] = "", made[PD_TIME_TEXT_SIZE], last[PD_TIME_TEXT_SIZE];
  CLEANUP(pd_backup_in_done) pd_backup_in in = {.fd = -1};
  pd_restore_newer newer;
  if (strcmp(frame->capability->name, "state.backup.restore") != 0) return PD_OK;
  if (!pd_in_string(frame, "backup_id", id, sizeof id) || pd_backup_find(frame->home, id, &in, NULL)) return PD_OK;
  if (!pd_in_string(frame, "agent", agent, sizeof agent)) snprintf(agent, sizeof agent, "%s", in.head.agent);
  if (pd_restore_count_newer(frame->home, agent, in.head.created_ms, &newer, NULL)) return PD_OK;
  pd_time_text(in.head.created_ms, made);
  if (!newer.commits) return pd_buf_printf(out, err, "the backup is of %s, and nothing is newer", made);
  return pd_buf_printf(out, err,
                       "the backup is of %s, and older than what is there: %s%llu commits since, in %zu stores (%s%s), the last on %s",
                       made, newer.is_more ? "at least " : "", (unsigned long long)newer.commits, newer.stores, newer.names,
                       newer.stores > NAMED_MAX ? ", …" : "", pd_time_text(newer.last_ms, last));
}
