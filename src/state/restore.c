/* restore.c: state.backup.restore. Invariants R1 to R6 are in restore.h. */
#include "state/restore.h"

#include "base/base.h"
#include "base/error.h"
#include "base/file.h"
#include "state/foresee.h"
#include "state/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pd_code name_restore(pd_restore_plan *plan, int64_t now_ms, pd_error *err)
{
  struct tm at;
  uint8_t salt[4]; /* two in one second have names of their own */
  time_t seconds = (time_t)(now_ms / 1000);
  gmtime_r(&seconds, &at);
  TRY(pd_random_bytes(salt, sizeof salt, err));
  size_t size = strftime(plan->id, sizeof plan->id, "%Y%m%dT%H%M%SZ", &at);
  snprintf(plan->id + size, sizeof plan->id - size, "-%02x%02x%02x%02x", salt[0], salt[1], salt[2], salt[3]);
  return PD_OK;
}

static bool take_seq(void *ctx, const pd_record *record)
{
  *(uint64_t *)ctx = record->seq;
  return false;
}

/* R1 */
static pd_code stage_store(pd_home *home, pd_backup_in *in, const pd_backup_store *from, pd_restore_store *out, pd_error *err)
{
  CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
  pd_import_options options = {.as = PD_RESTORE_AS};
  pd_log_query newest = {.whole_store = true, .limit = 1};
  pd_backup_range range;
  pd_source source = pd_backup_bundle(in, from, &range);
  TRY(pd_backup_handle_open(home, from->name, true, &handle, err));
  TRY(pd_restore_clean(handle.store, err)); /* what a restore left that died before its decision */
  TRY(pd_import_from(handle.store, &source, &options, NULL, err));
  TRY(pd_store_flush(handle.store, err));
  TRY(pd_store_keyframe(handle.store, err)); /* else who opens it next has all of it to replay */
  snprintf(out->name, sizeof out->name, "%s", from->name);
  out->head = from->head;
  out->queue = from->queue;
  TRY(pd_log(handle.store, &newest, take_seq, &out->seq, err));
  return pd_backup_handle_close(&handle, err);
}

static void unstage(pd_home *home, const pd_restore_plan *plan)
{
  for (size_t i = 0; i < plan->count; i++) {
    CLEANUP(pd_backup_handle_done) pd_backup_handle handle = {0};
    if (pd_backup_handle_open(home, plan->stores[i].name, false, &handle, NULL) == PD_OK) (void)!pd_restore_clean(handle.store, NULL);
  }
}

static bool is_chosen(const pd_backup_store *store, const char *agent)
{
  return !*agent || (pd_backup_is_agent(store) && strcmp(store->name, agent) == 0);
}

static bool has_agent(const pd_backup_in *in, const char *agent)
{
  for (size_t i = 0; i < in->manifest.count; i++)
    if (is_chosen(&in->manifest.stores[i], agent)) return true;
  return false;
}

static pd_code no_agent(const pd_backup_in *in, const char *agent, pd_error *err)
{
  return pd_error_named(err, PD_NOT_FOUND, "BackupNotFound", "the backup %s holds nothing of agent '%s'", in->head.id, agent);
}

static pd_code stage_all(pd_home *home, pd_backup_in *in, const char *agent, pd_restore_plan *plan, pd_error *err)
{
  plan->stores = calloc(in->manifest.count + 1, sizeof plan->stores[0]);
  if (!plan->stores) return pd_error_memory(err, "a restore");
  for (size_t i = 0; i < in->manifest.count; i++) {
    if (!is_chosen(&in->manifest.stores[i], agent) || pd_backup_is_outside(home, in->manifest.stores[i].name)) continue;
    TRY(stage_store(home, in, &in->manifest.stores[i], &plan->stores[plan->count], err));
    plan->count++;
  }
  return plan->count || !*agent ? PD_OK : no_agent(in, agent, err);
}

static pd_code restore(pd_frame *frame, pd_backup_in *in, const char *agent, pd_restore_plan *plan, pd_error *err)
{
  CLEANUP(pd_fd_done) int lock = -1;
  TRY(pd_restore_lock(frame->home, true, &lock, err));
  TRY(pd_restore_finish(frame->home, err)); /* one that was interrupted comes first */
  TRY(name_restore(plan, frame->now_ms, err));
  snprintf(plan->backup, sizeof plan->backup, "%s", in->head.id);
  pd_code code = stage_all(frame->home, in, agent, plan, err);
  if (code == PD_OK) code = pd_restore_carry_out(frame->home, plan, err);
  if (code) unstage(frame->home, plan);
  return code;
}

/* Who is in the backup and not in the home any more: it was placed since, and cannot change at one moment with the others. */
static void put_outside(pd_frame *frame, const pd_backup_in *in)
{
  pd_json_writer *w = &frame->out;
  bool is_open = false;
  for (size_t i = 0; i < in->manifest.count; i++) {
    if (!pd_backup_is_outside(frame->home, in->manifest.stores[i].name)) continue;
    if (!is_open) pd_json_key(w, "outside"), pd_json_open(w, '[');
    is_open = true;
    pd_json_text(w, pd_text(in->manifest.stores[i].name));
  }
  if (is_open) pd_json_close(w, ']');
}

static void put_outputs(pd_frame *frame, const pd_restore_plan *plan, const pd_backup_in *in, const pd_restore_newer *newer)
{
  char former[PD_RESTORE_ID_SIZE + 24];
  bool has_shared = false;
  pd_json_writer *w = &frame->out;
  pd_json_put_bool(w, "restored", true);
  pd_json_key(w, "agents_restored");
  pd_json_open(w, '[');
  for (size_t i = 0; i < plan->count; i++)
    if (strcmp(plan->stores[i].name, PD_STORE_SHARED) == 0)
      has_shared = true;
    else
      pd_json_text(w, pd_text(plan->stores[i].name));
  pd_json_close(w, ']');
  pd_json_put_bool(w, "shared_state_restored", has_shared);
  snprintf(former, sizeof former, PD_RESTORE_BEFORE "/%s", plan->id);
  pd_json_put_text(w, "former_state", former);
  pd_out_time(frame, "backup_created_at", in->head.created_ms);
  pd_json_put_number(w, "newer_commits", newer->commits);
}

pd_code pd_cap_state_backup_restore(pd_frame *frame, pd_error *err)
{
  char id[128], agent[PD_NAME_SIZE_MAX + 1] = "";
  CLEANUP(pd_backup_in_done) pd_backup_in in = {.fd = -1};
  CLEANUP(pd_restore_plan_done) pd_restore_plan plan = {0};
  pd_restore_newer newer;
  if (!pd_in_string(frame, "backup_id", id, sizeof id)) return pd_error_set(err, PD_INVALID, "backup_id is too long");
  pd_in_string(frame, "agent", agent, sizeof agent);
  TRY(pd_backup_find(frame->home, id, &in, err));
  TRY(pd_backup_in_unlock_by(&in, frame->home, err));
  pd_fact_id(frame, "backup_hash", &in.head.hash);
  if (*agent && !has_agent(&in, agent)) return no_agent(&in, agent, err);
  const char *only = *agent ? agent : in.head.agent;
  if (*only) TRY(pd_backup_check_here(frame->home, only, err));
  TRY(pd_brink(frame, err));
  in.frame = frame;
  TRY(pd_backup_in_verify(&in, err));
  TRY(pd_restore_count_newer(frame->home, only, in.head.created_ms, &newer, err));
  TRY(restore(frame, &in, agent, &plan, err));
  put_outputs(frame, &plan, &in, &newer);
  if (!*only) put_outside(frame, &in);
  return PD_OK;
}
