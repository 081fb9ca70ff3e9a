/* fault_backend.c: see fault_backend.h. */
#include "support/fault_backend.h"

#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct fault_handle {
  pd_backend base;
  pd_backend *inner;
} fault_handle;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fault_plan plan;
static uint64_t call_count, fired_count;

void fault_backend_plan(fault_plan next)
{
  if (!next.count) next.count = 1;
  if (!next.code) next.code = PD_STORAGE;
  if (!next.ops) next.ops = ~0u;
  pthread_mutex_lock(&lock);
  plan = next;
  call_count = fired_count = 0;
  pthread_mutex_unlock(&lock);
}

static uint64_t read_count(const uint64_t *count)
{
  pthread_mutex_lock(&lock);
  uint64_t n = *count;
  pthread_mutex_unlock(&lock);
  return n;
}

uint64_t fault_backend_calls(void)
{
  return read_count(&call_count);
}

uint64_t fault_backend_fired(void)
{
  return read_count(&fired_count);
}

/* Count a call; whether it is one that fails, and how. */
static bool is_hit(fault_op op, fault_plan *out)
{
  pthread_mutex_lock(&lock);
  bool is_counted = (plan.ops & (unsigned)op) != 0;
  if (is_counted) call_count++;
  bool hit = is_counted && plan.at && call_count >= plan.at && call_count - plan.at < plan.count;
  if (hit) fired_count++;
  *out = plan;
  pthread_mutex_unlock(&lock);
  return hit;
}

static pd_code fault(const fault_plan *p, const char *what, pd_error *err)
{
  if (p->code != PD_CONFLICT || !err) return pd_error_set(err, p->code, "injected fault in %s", what);
  pd_error_set(err, p->code, "injected fault in %s", what);
  err->expected = err->actual = 0;
  return p->code;
}

/* Fail before the call, or do it and fail after it. `call` may use `hit` and `p`. */
#define WITH_FAULT(op, what, call)                                                                                                         \
  do {                                                                                                                                     \
    fault_plan p;                                                                                                                          \
    bool hit = is_hit(op, &p);                                                                                                             \
    if (hit && p.how != FAULT_AFTER) return fault(&p, what, err);                                                                          \
    TRY(call);                                                                                                                             \
    return hit ? fault(&p, what, err) : PD_OK;                                                                                             \
  } while (0)

static pd_backend *inner_of(const pd_backend *b)
{
  return ((const fault_handle *)b)->inner;
}

static const pd_backend_ops fault_ops;

static pd_code open_inner(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  const pd_backend_ops *ops = NULL;
  const char *inner_rest = NULL;
  TRY(pd_backend_find(rest, &ops, &inner_rest, err));
  return ops->open(inner_rest, store, flags, out, err);
}

static pd_code fault_open(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  fault_plan p;
  bool hit = is_hit(FAULT_OPEN, &p);
  if (hit && p.how != FAULT_AFTER) return fault(&p, "open", err);
  fault_handle *h = calloc(1, sizeof *h);
  if (!h) return pd_error_set(err, PD_NO_MEMORY, "no memory for a fault backend");
  h->base.ops = &fault_ops;
  pd_code code = open_inner(rest, store, flags, &h->inner, err);
  if (code == PD_OK && hit) {
    h->inner->ops->close(h->inner);
    code = fault(&p, "open", err);
  }
  if (code != PD_OK)
    free(h);
  else
    *out = &h->base;
  return code;
}

static void fault_close(pd_backend *b)
{
  if (!b) return;
  inner_of(b)->ops->close(inner_of(b));
  free(b);
}

static unsigned fault_flags(const pd_backend *b)
{
  return inner_of(b)->ops->flags(inner_of(b));
}

static pd_code fault_health(pd_backend *b, pd_error *err)
{
  return inner_of(b)->ops->health ? inner_of(b)->ops->health(inner_of(b), err) : PD_OK;
}

/* ---- the gate ---- */

static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool is_gate_shut;
static uint64_t arrived_count;

void fault_backend_gate(bool is_shut)
{
  pthread_mutex_lock(&lock);
  is_gate_shut = is_shut;
  if (is_shut) arrived_count = 0;
  pthread_cond_broadcast(&gate_moved);
  pthread_mutex_unlock(&lock);
}

void fault_backend_await_append(void)
{
  pthread_mutex_lock(&lock);
  while (!arrived_count) pthread_cond_wait(&gate_moved, &lock);
  pthread_mutex_unlock(&lock);
}

static void pass_gate(void)
{
  pthread_mutex_lock(&lock);
  arrived_count++;
  pthread_cond_broadcast(&gate_moved);
  while (is_gate_shut) pthread_cond_wait(&gate_moved, &lock);
  pthread_mutex_unlock(&lock);
}

static pd_code fault_log_append(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  pass_gate();
  WITH_FAULT(FAULT_LOG_APPEND, "log_append", inner_of(b)->ops->log_append(inner_of(b), seq, records, count, err));
}

static pd_code fault_log_read(pd_backend *b, uint64_t from, uint64_t to, pd_log_visit visit, void *ctx, pd_error *err)
{
  fault_plan p;
  const pd_backend_ops *ops = inner_of(b)->ops;
  bool hit = is_hit(FAULT_LOG_READ, &p);
  if (!hit) return ops->log_read(inner_of(b), from, to, visit, ctx, err);
  uint64_t tail = ops->log_tail_hint(inner_of(b)), last = to < tail ? to : tail;
  uint64_t half = last >= from ? from + (last - from) / 2 : 0;
  if (p.how == FAULT_AFTER) half = to;
  if (p.how != FAULT_BEFORE && half >= from) TRY(ops->log_read(inner_of(b), from, half, visit, ctx, err));
  return fault(&p, "log_read", err);
}

static pd_code fault_log_tail(pd_backend *b, uint64_t *out_seq, pd_error *err)
{
  uint64_t seq = 0;
  fault_plan p;
  bool hit = is_hit(FAULT_LOG_TAIL, &p);
  if (hit) return fault(&p, "log_tail", err);
  TRY(inner_of(b)->ops->log_tail(inner_of(b), &seq, err));
  *out_seq = seq;
  return PD_OK;
}

static uint64_t fault_log_tail_hint(pd_backend *b)
{
  return inner_of(b)->ops->log_tail_hint(inner_of(b));
}

static pd_code fault_bag_put(pd_backend *b, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err)
{
  fault_plan p;
  const pd_backend_ops *ops = inner_of(b)->ops;
  bool hit = is_hit(FAULT_BAG_PUT, &p);
  if (!hit) return ops->bag_put(inner_of(b), ids, blobs, count, err);
  size_t done = p.how == FAULT_AFTER ? count : p.how == FAULT_TEAR ? count / 2 : 0;
  if (done) TRY(ops->bag_put(inner_of(b), ids, blobs, done, err));
  return fault(&p, "bag_put", err);
}

static pd_code fault_bag_get(pd_backend *b, const pd_id *id, pd_buf *out, pd_error *err)
{
  fault_plan p;
  if (is_hit(FAULT_BAG_GET, &p)) return fault(&p, "bag_get", err);
  return inner_of(b)->ops->bag_get(inner_of(b), id, out, err);
}

/* A claim that failed is not held, so there is no way to fail after it. */
static pd_code fault_log_claim(pd_backend *b, pd_error *err)
{
  fault_plan p;
  const pd_backend_ops *ops = inner_of(b)->ops;
  bool hit = is_hit(FAULT_LOG_CLAIM, &p);
  if (hit) return fault(&p, "log_claim", err);
  return ops->log_claim ? ops->log_claim(inner_of(b), err) : pd_error_set(err, PD_UNSUPPORTED, "no log_claim");
}

static void fault_log_release(pd_backend *b)
{
  if (inner_of(b)->ops->log_release) inner_of(b)->ops->log_release(inner_of(b));
}

static pd_code fault_check(pd_backend *b, pd_check_visit visit, void *ctx, pd_error *err)
{
  const pd_backend_ops *ops = inner_of(b)->ops;
  WITH_FAULT(FAULT_CHECK, "check", ops->check ? ops->check(inner_of(b), visit, ctx, err) : PD_OK);
}

static pd_code fault_usage(pd_backend *b, pd_backend_usage *out, pd_error *err)
{
  fault_plan p;
  const pd_backend_ops *ops = inner_of(b)->ops;
  if (is_hit(FAULT_USAGE, &p)) return fault(&p, "usage", err);
  return ops->usage ? ops->usage(inner_of(b), out, err) : pd_error_set(err, PD_UNSUPPORTED, "no usage");
}

/* What the backend around which we are lacks, we lack too. */
#define NEEDS(op)                                                                                                                          \
  do {                                                                                                                                     \
    if (!inner_of(b)->ops->op) return pd_error_set(err, PD_UNSUPPORTED, "no " #op);                                                        \
  } while (0)

static pd_code fault_log_redact(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  NEEDS(log_redact);
  WITH_FAULT(FAULT_LOG_REDACT, "log_redact", inner_of(b)->ops->log_redact(inner_of(b), seq, records, count, err));
}

static pd_code fault_log_swap(pd_backend *b, const pd_log_swap *swaps, size_t count, pd_error *err)
{
  NEEDS(log_swap);
  WITH_FAULT(FAULT_LOG_REDACT, "log_swap", inner_of(b)->ops->log_swap(inner_of(b), swaps, count, err));
}

static pd_code fault_bag_mark(pd_backend *b, uint64_t *out_mark, pd_error *err)
{
  fault_plan p;
  NEEDS(bag_mark);
  if (is_hit(FAULT_BAG_MARK, &p)) return fault(&p, "bag_mark", err);
  return inner_of(b)->ops->bag_mark(inner_of(b), out_mark, err);
}

typedef struct half_sweep {
  bool (*keep)(void *ctx, const pd_id *id);
  void *ctx;
} half_sweep;

static bool keep_half(void *ctx, const pd_id *id)
{
  half_sweep *half = ctx;
  return half->keep(half->ctx, id) || id->bytes[PD_ID_SIZE - 1] & 1;
}

static pd_code fault_bag_sweep(pd_backend *b, uint64_t mark, bool (*keep)(void *ctx, const pd_id *id), void *ctx, uint64_t *out_bytes,
                               pd_error *err)
{
  NEEDS(bag_sweep);
  fault_plan p;
  const pd_backend_ops *ops = inner_of(b)->ops;
  half_sweep half = {keep, ctx};
  uint64_t bytes;
  if (!is_hit(FAULT_BAG_SWEEP, &p)) return ops->bag_sweep(inner_of(b), mark, keep, ctx, out_bytes, err);
  if (p.how == FAULT_AFTER) TRY(ops->bag_sweep(inner_of(b), mark, keep, ctx, &bytes, err));
  if (p.how == FAULT_TEAR) TRY(ops->bag_sweep(inner_of(b), mark, keep_half, &half, &bytes, err));
  return fault(&p, "bag_sweep", err);
}

static pd_code fault_compact(pd_backend *b, pd_error *err)
{
  NEEDS(compact);
  WITH_FAULT(FAULT_COMPACT, "compact", inner_of(b)->ops->compact(inner_of(b), err));
}

static pd_code fault_log_wait(pd_backend *b, uint64_t after, uint32_t timeout_ms, pd_error *err)
{
  NEEDS(log_wait);
  WITH_FAULT(FAULT_LOG_WAIT, "log_wait", inner_of(b)->ops->log_wait(inner_of(b), after, timeout_ms, err));
}

static pd_code fault_stores(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err)
{
  fault_plan p;
  const pd_backend_ops *ops = NULL;
  const char *inner_rest = NULL;
  if (is_hit(FAULT_STORES, &p)) return fault(&p, "stores", err);
  TRY(pd_backend_find(rest, &ops, &inner_rest, err));
  return ops->stores ? ops->stores(inner_rest, visit, ctx, err) : pd_error_set(err, PD_UNSUPPORTED, "no stores");
}

static const pd_backend_ops fault_ops = {
  .abi = PD_BACKEND_ABI,
  .scheme = "fault",
  .open = fault_open,
  .close = fault_close,
  .flags = fault_flags,
  .health = fault_health,
  .log_append = fault_log_append,
  .log_read = fault_log_read,
  .log_tail = fault_log_tail,
  .log_tail_hint = fault_log_tail_hint,
  .bag_put = fault_bag_put,
  .bag_get = fault_bag_get,
  .log_claim = fault_log_claim,
  .log_release = fault_log_release,
  .check = fault_check,
  .usage = fault_usage,
  .log_redact = fault_log_redact,
  .log_swap = fault_log_swap,
  .bag_mark = fault_bag_mark,
  .bag_sweep = fault_bag_sweep,
  .compact = fault_compact,
  .log_wait = fault_log_wait,
  .stores = fault_stores,
};

void fault_backend_install(void)
{
  pd_error err;
  pd_code code = pd_backend_register(&fault_ops, &err);
  if (code == PD_OK || code == PD_EXISTS) return;
  fprintf(stderr, "%s\n", err.message);
  abort();
}
