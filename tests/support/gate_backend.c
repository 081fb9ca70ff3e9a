/* gate_backend.c: see gate_backend.h. */
#include "support/gate_backend.h"

#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct gate_handle {
  pd_backend base;
  pd_backend *inner;
  char *store;
} gate_handle;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned shut_ops, waiting;
static uint64_t turn; /* those that came before it changed go on */
static pd_code fails_with;
static uint64_t counts[16], records_read;
static void (*before_append)(void *ctx, const char *store);
static void *before_ctx;
static void (*before_get)(void *ctx);
static void *get_ctx;

static void let_go(unsigned still_shut, pd_code code)
{
  pthread_mutex_lock(&lock);
  shut_ops = still_shut;
  fails_with = code;
  turn++;
  pthread_cond_broadcast(&changed);
  while (waiting && !still_shut) pthread_cond_wait(&changed, &lock); /* so that a later gate_shut does not stop them again */
  pthread_mutex_unlock(&lock);
}

void gate_shut(unsigned ops)
{
  pthread_mutex_lock(&lock);
  shut_ops = ops;
  pthread_mutex_unlock(&lock);
}

void gate_open(void)
{
  let_go(0, PD_OK);
}

void gate_open_with(pd_code code)
{
  let_go(0, code);
}

void gate_pass(void)
{
  let_go(shut_ops, PD_OK);
}

void gate_await(unsigned count)
{
  pthread_mutex_lock(&lock);
  while (waiting < count) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

void gate_before_append(void (*fn)(void *ctx, const char *store), void *ctx)
{
  pthread_mutex_lock(&lock);
  before_append = fn;
  before_ctx = ctx;
  pthread_mutex_unlock(&lock);
}

void gate_before_get(void (*fn)(void *ctx), void *ctx)
{
  pthread_mutex_lock(&lock);
  before_get = fn;
  get_ctx = ctx;
  pthread_mutex_unlock(&lock);
}

uint64_t gate_calls(unsigned ops)
{
  uint64_t sum = 0;
  pthread_mutex_lock(&lock);
  for (unsigned op = 1; op < COUNT_OF(counts); op <<= 1) sum += ops & op ? counts[op] : 0;
  pthread_mutex_unlock(&lock);
  return sum;
}

uint64_t gate_records_read(void)
{
  return __atomic_load_n(&records_read, __ATOMIC_ACQUIRE);
}

void gate_reset_counts(void)
{
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < COUNT_OF(counts); i++) counts[i] = 0;
  pthread_mutex_unlock(&lock);
  __atomic_store_n(&records_read, 0, __ATOMIC_RELEASE);
}

static pd_code pass(gate_op op, pd_error *err)
{
  pthread_mutex_lock(&lock);
  counts[op]++;
  pd_code code = PD_OK;
  if (shut_ops & (unsigned)op) {
    uint64_t mine = turn;
    waiting++;
    pthread_cond_broadcast(&changed);
    while (turn == mine) pthread_cond_wait(&changed, &lock);
    waiting--;
    code = fails_with;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return code ? pd_error_set(err, code, "the gate is shut") : PD_OK;
}

/* ---- the backend ---- */

static pd_backend *inner_of(const pd_backend *b)
{
  return ((const gate_handle *)b)->inner;
}

static const pd_backend_ops gate_ops;

static pd_code gate_open_store(const char *rest, const char *store, unsigned flags, pd_backend **out, pd_error *err)
{
  const pd_backend_ops *ops = NULL;
  const char *inner_rest = NULL;
  TRY(pd_backend_find(rest, &ops, &inner_rest, err));
  gate_handle *h = calloc(1, sizeof *h);
  if (!h) return pd_error_set(err, PD_NO_MEMORY, "no memory for a gate");
  h->base.ops = &gate_ops;
  h->store = strdup(store);
  pd_code code = h->store ? ops->open(inner_rest, store, flags, &h->inner, err) : pd_error_set(err, PD_NO_MEMORY, "no memory for a gate");
  if (code) {
    free(h->store);
    free(h);
  } else {
    *out = &h->base;
  }
  return code;
}

static void gate_close(pd_backend *b)
{
  if (!b) return;
  inner_of(b)->ops->close(inner_of(b));
  free(((gate_handle *)b)->store);
  free(b);
}

static unsigned gate_flags(const pd_backend *b)
{
  return inner_of(b)->ops->flags(inner_of(b));
}

static pd_code gate_log_append(pd_backend *b, uint64_t seq, const pd_bytes *records, size_t count, pd_error *err)
{
  TRY(pass(GATE_LOG_APPEND, err));
  pthread_mutex_lock(&lock);
  void (*fn)(void *, const char *) = before_append;
  void *ctx = before_ctx;
  pthread_mutex_unlock(&lock);
  if (fn) fn(ctx, ((const gate_handle *)b)->store);
  return inner_of(b)->ops->log_append(inner_of(b), seq, records, count, err);
}

typedef struct counted {
  pd_log_visit visit;
  void *ctx;
} counted;

static pd_code count_record(void *ctx, uint64_t seq, pd_bytes record, pd_error *err)
{
  counted *c = ctx;
  __atomic_add_fetch(&records_read, 1, __ATOMIC_RELAXED);
  return c->visit(c->ctx, seq, record, err);
}

static pd_code gate_log_read(pd_backend *b, uint64_t from, uint64_t to, pd_log_visit visit, void *ctx, pd_error *err)
{
  counted c = {visit, ctx};
  TRY(pass(GATE_LOG_READ, err));
  if (to > from) TRY(pass(GATE_LOG_RANGE, err));
  return inner_of(b)->ops->log_read(inner_of(b), from, to, count_record, &c, err);
}

static pd_code gate_log_tail(pd_backend *b, uint64_t *out_seq, pd_error *err)
{
  return inner_of(b)->ops->log_tail(inner_of(b), out_seq, err);
}

static uint64_t gate_log_tail_hint(pd_backend *b)
{
  return inner_of(b)->ops->log_tail_hint(inner_of(b));
}

static pd_code gate_bag_put(pd_backend *b, const pd_id *ids, const pd_bytes *blobs, size_t count, pd_error *err)
{
  return inner_of(b)->ops->bag_put(inner_of(b), ids, blobs, count, err);
}

static pd_code gate_bag_get(pd_backend *b, const pd_id *id, pd_buf *out, pd_error *err)
{
  TRY(pass(GATE_BAG_GET, err));
  pthread_mutex_lock(&lock);
  void (*fn)(void *) = before_get;
  void *ctx = get_ctx;
  pthread_mutex_unlock(&lock);
  if (fn) fn(ctx);
  return inner_of(b)->ops->bag_get(inner_of(b), id, out, err);
}

static pd_code gate_log_claim(pd_backend *b, pd_error *err)
{
  return inner_of(b)->ops->log_claim(inner_of(b), err);
}

static void gate_log_release(pd_backend *b)
{
  inner_of(b)->ops->log_release(inner_of(b));
}

static pd_code gate_stores(const char *rest, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err)
{
  const pd_backend_ops *ops = NULL;
  const char *inner_rest = NULL;
  TRY(pd_backend_find(rest, &ops, &inner_rest, err));
  if (!ops->stores) return pd_error_set(err, PD_UNSUPPORTED, "what is behind the gate does not list its stores");
  return ops->stores(inner_rest, visit, ctx, err);
}

static const pd_backend_ops gate_ops = {
  .abi = PD_BACKEND_ABI,
  .scheme = "gate",
  .open = gate_open_store,
  .close = gate_close,
  .flags = gate_flags,
  .log_append = gate_log_append,
  .log_read = gate_log_read,
  .log_tail = gate_log_tail,
  .log_tail_hint = gate_log_tail_hint,
  .bag_put = gate_bag_put,
  .bag_get = gate_bag_get,
  .log_claim = gate_log_claim,
  .log_release = gate_log_release,
  .stores = gate_stores,
};

void gate_backend_install(void)
{
  pd_code code = pd_backend_register(&gate_ops, NULL);
  if (code && code != PD_EXISTS) abort();
  gate_before_append(NULL, NULL);
  gate_before_get(NULL, NULL);
  gate_open();
}
