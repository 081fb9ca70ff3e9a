/* runs_store.c: <perdure/runs.h>: runs in a StateStore. Its own_lock is around each operation, so what was read still holds (R3). */
#include "base/base.h"
#include "base/error.h"
#include "state/runs.h"
#include "state/statestore.h"

#include <stdlib.h>

struct pd_runs {
  pd_statestore *store;
  char *owner;
  uint64_t keep_count, keep_ms;
};

static pd_code get(void *ctx, const char *key, pd_buf *out, pd_error *err)
{
  return pd_statestore_get(((pd_runs *)ctx)->store, pd_text(key), out, err);
}

static pd_code write_changes(void *ctx, const pd_statestore_change *changes, size_t count, pd_error *err)
{
  return pd_statestore_apply(((pd_runs *)ctx)->store, changes, count, err);
}

static pd_runs_place place_of(pd_runs *runs)
{
  pd_statestore *s = runs->store;
  return (pd_runs_place){get, write_changes, runs, s->now_ms(s->clock_ctx), runs->keep_count, runs->keep_ms, NULL};
}

static pd_code perform(pd_runs *runs, pd_run_op *op, pd_error *err)
{
  TRY(pd_run_op_check(op, err));
  pthread_mutex_lock(&runs->store->own_lock);
  pd_runs_place place = place_of(runs);
  pd_code code = pd_run_op_do(&place, op, err);
  pthread_mutex_unlock(&runs->store->own_lock);
  return code;
}

/* ---- opening ---- */

pd_runs_options pd_runs_defaults(void)
{
  return (pd_runs_options){.keep_count = PD_RUN_KEEP_COUNT, .keep_ms = PD_RUN_KEEP_MS};
}

static pd_code start(pd_runs *runs, const pd_runs_options *o, pd_error *err)
{
  CLEANUP(pd_run_index_done) pd_run_index index = {0};
  runs->owner = strdup(o->owner ? o->owner : "main");
  if (!runs->owner) return pd_error_memory(err, "the owner of runs");
  pd_run_op check = {.owner = runs->owner};
  TRY(pd_run_op_check(&check, err));
  pd_runs_place place = place_of(runs);
  TRY(pd_run_index_read(&place, &index, err));
  if (o->keeps_claims) return PD_OK;
  TRY(pd_runs_resume(runs, NULL, NULL, err));
  return pd_runs_prune(runs, NULL, NULL, NULL, NULL, err);
}

pd_code pd_runs_open(pd_statestore *store, const pd_runs_options *options, pd_runs **out, pd_error *err)
{
  pd_runs_options o = options ? *options : pd_runs_defaults();
  pd_runs *runs = calloc(1, sizeof *runs);
  if (!runs) return pd_error_memory(err, "a run manager");
  *runs = (pd_runs){.store = store, .keep_count = o.keep_count, .keep_ms = o.keep_ms};
  pd_code code = start(runs, &o, err);
  if (code)
    pd_runs_close(runs);
  else
    *out = runs;
  return code;
}

void pd_runs_close(pd_runs *runs)
{
  if (runs) free(runs->owner);
  free(runs);
}

/* ---- working with them ---- */

pd_code pd_runs_create(pd_runs *runs, const pd_run_request *request, pd_buf *out, pd_error *err)
{
  pd_run_op op = {
    .verb = PD_RUN_DO_CREATE,
    .id = request->id,
    .title = request->title,
    .value = request->input,
    .attempts_max = request->attempts_max,
    .out = out,
  };
  return perform(runs, &op, err);
}

pd_code pd_runs_get(pd_runs *runs, const char *id, pd_buf *out, pd_error *err)
{
  pd_runs_place place = place_of(runs);
  return pd_run_read(&place, id, out, err);
}

pd_code pd_runs_list(pd_runs *runs, const pd_runs_query *query, pd_run_visit visit, void *ctx, uint64_t *out_unreadable, pd_error *err)
{
  pd_runs_place place = place_of(runs);
  return pd_run_each(&place, query, visit, ctx, out_unreadable, err);
}

pd_code pd_runs_claim(pd_runs *runs, const pd_run_claim *claim, pd_buf *out, pd_error *err)
{
  pd_run_claim c = claim ? *claim : (pd_run_claim){0};
  pd_run_op op = {.verb = PD_RUN_DO_CLAIM, .id = c.id, .owner = c.owner ? c.owner : runs->owner, .lease_ms = c.lease_ms, .out = out};
  return perform(runs, &op, err);
}

pd_code pd_runs_update(pd_runs *runs, const char *id, const char *token, pd_bytes progress, uint64_t lease_ms, pd_buf *out, pd_error *err)
{
  pd_run_op op = {.verb = PD_RUN_DO_UPDATE, .id = id, .token = token, .value = progress, .lease_ms = lease_ms, .out = out};
  return perform(runs, &op, err);
}

pd_code pd_runs_give_back(pd_runs *runs, const char *id, const char *token, const char *reason, pd_buf *out, pd_error *err)
{
  pd_run_op op = {.verb = PD_RUN_DO_GIVE_BACK, .id = id, .token = token, .reason = reason, .out = out};
  return perform(runs, &op, err);
}

pd_code pd_runs_complete(pd_runs *runs, const char *id, const char *token, pd_bytes result, pd_buf *out, pd_error *err)
{
  pd_run_op op = {.verb = PD_RUN_DO_COMPLETE, .id = id, .token = token, .value = result, .out = out};
  return perform(runs, &op, err);
}

pd_code pd_runs_fail(pd_runs *runs, const char *id, const char *token, pd_bytes error, pd_buf *out, pd_error *err)
{
  pd_run_op op = {.verb = PD_RUN_DO_FAIL, .id = id, .token = token, .value = error, .out = out};
  return perform(runs, &op, err);
}

pd_code pd_runs_cancel(pd_runs *runs, const char *id, const char *reason, pd_buf *out, pd_error *err)
{
  pd_run_op op = {.verb = PD_RUN_DO_CANCEL, .id = id, .reason = reason, .out = out};
  return perform(runs, &op, err);
}

pd_code pd_runs_resume(pd_runs *runs, const char *owner, uint64_t *out_count, pd_error *err)
{
  pd_run_op op = {.verb = PD_RUN_DO_RESUME, .owner = owner ? owner : runs->owner};
  TRY(perform(runs, &op, err));
  if (out_count) *out_count = op.count;
  return PD_OK;
}

pd_code pd_runs_prune(pd_runs *runs, const pd_runs_prune_options *options, pd_run_visit visit, void *ctx, uint64_t *out_count,
                      pd_error *err)
{
  pd_run_op op = {.verb = PD_RUN_DO_PRUNE, .visit = visit, .visit_ctx = ctx};
  op.prune = options ? *options : (pd_runs_prune_options){.keep_count = runs->keep_count, .keep_ms = runs->keep_ms};
  TRY(perform(runs, &op, err));
  if (out_count) *out_count = op.count;
  return PD_OK;
}
