/* work_store.c: <perdure/work.h>: items in a StateStore. Its own_lock is around each operation, so what was read still holds (R3). */
#include "base/base.h"
#include "base/error.h"
#include "state/statestore.h"
#include "state/work.h"

#include <stdlib.h>

struct pd_work {
  pd_statestore *store;
  char *owner;
  uint64_t keep_count, keep_ms;
};

static pd_code get(void *ctx, const char *key, pd_buf *out, pd_error *err)
{
  return pd_statestore_get(((pd_work *)ctx)->store, pd_text(key), out, err);
}

static pd_code write_changes(void *ctx, const pd_statestore_change *changes, size_t count, pd_error *err)
{
  return pd_statestore_apply(((pd_work *)ctx)->store, changes, count, err);
}

static pd_work_place place_of(pd_work *work)
{
  pd_statestore *s = work->store;
  return (pd_work_place){get, write_changes, work, s->now_ms(s->clock_ctx), work->keep_count, work->keep_ms, NULL};
}

static pd_code perform(pd_work *work, pd_work_op *op, pd_error *err)
{
  TRY(pd_work_op_check(op, err));
  pthread_mutex_lock(&work->store->own_lock);
  pd_work_place place = place_of(work);
  pd_code code = pd_work_op_do(&place, op, err);
  pthread_mutex_unlock(&work->store->own_lock);
  return code;
}

/* ---- opening ---- */

pd_work_options pd_work_defaults(void)
{
  return (pd_work_options){.keep_count = PD_WORK_KEEP_COUNT, .keep_ms = PD_WORK_KEEP_MS};
}

static pd_code start(pd_work *work, const pd_work_options *o, pd_error *err)
{
  CLEANUP(pd_work_index_done) pd_work_index index = {0};
  work->owner = strdup(o->owner ? o->owner : "main");
  if (!work->owner) return pd_error_memory(err, "the owner of work items");
  pd_work_op check = {.owner = work->owner};
  TRY(pd_work_op_check(&check, err));
  pd_work_place place = place_of(work);
  TRY(pd_work_index_read(&place, &index, err));
  if (o->keeps_claims) return PD_OK;
  TRY(pd_work_resume(work, NULL, NULL, err));
  return pd_work_prune(work, NULL, NULL, NULL, NULL, err);
}

pd_code pd_work_open(pd_statestore *store, const pd_work_options *options, pd_work **out, pd_error *err)
{
  pd_work_options o = options ? *options : pd_work_defaults();
  pd_work *work = calloc(1, sizeof *work);
  if (!work) return pd_error_memory(err, "the work items");
  *work = (pd_work){.store = store, .keep_count = o.keep_count, .keep_ms = o.keep_ms};
  pd_code code = start(work, &o, err);
  if (code)
    pd_work_close(work);
  else
    *out = work;
  return code;
}

void pd_work_close(pd_work *work)
{
  if (work) free(work->owner);
  free(work);
}

/* ---- working with them ---- */

pd_code pd_work_create(pd_work *work, const pd_work_request *request, pd_buf *out, pd_error *err)
{
  pd_work_op op = {
    .verb = PD_WORK_DO_CREATE,
    .id = request->id,
    .title = request->title,
    .value = request->input,
    .attempts_max = request->attempts_max,
    .out = out,
  };
  return perform(work, &op, err);
}

pd_code pd_work_get(pd_work *work, const char *id, pd_buf *out, pd_error *err)
{
  pd_work_place place = place_of(work);
  return pd_work_read(&place, id, out, err);
}

pd_code pd_work_list(pd_work *work, const pd_work_query *query, pd_work_visit visit, void *ctx, uint64_t *out_unreadable, pd_error *err)
{
  pd_work_place place = place_of(work);
  return pd_work_each(&place, query, visit, ctx, out_unreadable, err);
}

pd_code pd_work_claim(pd_work *work, const pd_work_claim_options *claim, pd_buf *out, pd_error *err)
{
  pd_work_claim_options c = claim ? *claim : (pd_work_claim_options){0};
  pd_work_op op = {.verb = PD_WORK_DO_CLAIM, .id = c.id, .owner = c.owner ? c.owner : work->owner, .lease_ms = c.lease_ms, .out = out};
  return perform(work, &op, err);
}

pd_code pd_work_update(pd_work *work, const char *id, const char *token, pd_bytes progress, uint64_t lease_ms, pd_buf *out, pd_error *err)
{
  pd_work_op op = {.verb = PD_WORK_DO_UPDATE, .id = id, .token = token, .value = progress, .lease_ms = lease_ms, .out = out};
  return perform(work, &op, err);
}

pd_code pd_work_give_back(pd_work *work, const char *id, const char *token, const char *reason, pd_buf *out, pd_error *err)
{
  pd_work_op op = {.verb = PD_WORK_DO_GIVE_BACK, .id = id, .token = token, .reason = reason, .out = out};
  return perform(work, &op, err);
}

pd_code pd_work_complete(pd_work *work, const char *id, const char *token, pd_bytes result, pd_buf *out, pd_error *err)
{
  pd_work_op op = {.verb = PD_WORK_DO_COMPLETE, .id = id, .token = token, .value = result, .out = out};
  return perform(work, &op, err);
}

pd_code pd_work_fail(pd_work *work, const char *id, const char *token, pd_bytes error, pd_buf *out, pd_error *err)
{
  pd_work_op op = {.verb = PD_WORK_DO_FAIL, .id = id, .token = token, .value = error, .out = out};
  return perform(work, &op, err);
}

pd_code pd_work_cancel(pd_work *work, const char *id, const char *reason, pd_buf *out, pd_error *err)
{
  pd_work_op op = {.verb = PD_WORK_DO_CANCEL, .id = id, .reason = reason, .out = out};
  return perform(work, &op, err);
}

pd_code pd_work_resume(pd_work *work, const char *owner, uint64_t *out_count, pd_error *err)
{
  pd_work_op op = {.verb = PD_WORK_DO_RESUME, .owner = owner ? owner : work->owner};
  TRY(perform(work, &op, err));
  if (out_count) *out_count = op.count;
  return PD_OK;
}

pd_code pd_work_prune(pd_work *work, const pd_work_prune_options *options, pd_work_visit visit, void *ctx, uint64_t *out_count,
                      pd_error *err)
{
  pd_work_op op = {.verb = PD_WORK_DO_PRUNE, .visit = visit, .visit_ctx = ctx};
  op.prune = options ? *options : (pd_work_prune_options){.keep_count = work->keep_count, .keep_ms = work->keep_ms};
  TRY(perform(work, &op, err));
  if (out_count) *out_count = op.count;
  return PD_OK;
}
