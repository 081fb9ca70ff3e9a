/*
 * flaky_storage.c: a storage in memory whose answers get lost. The variable FLAKY says what happens to saves: "lost": they are done and the
 * answer does not arrive; "late": they are not done, and none arrives; "stuck": the same, but the last such save is done when the variable
 * is "arrives"; "overtaken": they are done, sent again on a new line, and then refused; anything else: all is well. With OLD it is a plugin
 * of interface version 1.
 */
#include <perdure/storage_plugin.h>
#include <stdlib.h>

#define AGENTS_MAX 16

typedef struct slot {
  char agent[PD_NAME_SIZE_MAX + 1];
  char *document;
  size_t size;
  uint64_t epoch;
  pd_storage_mark mark;
  struct { /* on the way */
    char *document;
    size_t size;
    pd_storage_mark last, next;
  } stuck;
} slot;

static slot slots[AGENTS_MAX];

/* When the last handle is gone, what it kept in memory is: the library is unloaded. */
__attribute__((destructor)) static void forget_all(void)
{
  for (size_t i = 0; i < AGENTS_MAX; i++) {
    free(slots[i].document);
    free(slots[i].stuck.document);
  }
}

static slot *slot_of(const char *agent)
{
  for (size_t i = 0; i < AGENTS_MAX; i++) {
    if (!slots[i].agent[0]) snprintf(slots[i].agent, sizeof slots[i].agent, "%s", agent);
    if (strcmp(slots[i].agent, agent) == 0) return &slots[i];
  }
  abort();
}

static bool is(const char *what)
{
  const char *flaky = getenv("FLAKY");
  return flaky && strcmp(flaky, what) == 0;
}

static pd_code open_memory(const char *argument, void **out_handle, pd_error *err)
{
  (void)argument, (void)err;
  *out_handle = slots;
  return PD_OK;
}

static void close_memory(void *handle)
{
  (void)handle;
}

static bool is_same(const pd_storage_mark *a, const pd_storage_mark *b)
{
  return a->epoch == b->epoch && a->save == b->save && a->token == b->token;
}

static pd_code conflict(const slot *s, pd_error *err)
{
  pd_storage_fail(err, PD_CONFLICT, "fenced");
  err->actual = s->epoch;
  return PD_CONFLICT;
}

static void put(slot *s, pd_bytes snapshot, const pd_storage_mark *mark)
{
  free(s->document);
  s->document = malloc(snapshot.size);
  memcpy(s->document, snapshot.data, snapshot.size);
  s->size = snapshot.size;
  s->mark = *mark;
}

static pd_code no_answer(pd_error *err)
{
  return pd_storage_fail(err, PD_STORAGE, "no answer in time");
}

/* What was stuck is done now, if its conditions still hold. */
static void arrive(slot *s)
{
  if (!s->stuck.document) return;
  bool may_save = s->stuck.next.epoch == s->epoch && is_same(&s->stuck.last, &s->mark);
  if (may_save) put(s, (pd_bytes){s->stuck.document, s->stuck.size}, &s->stuck.next);
  free(s->stuck.document);
  s->stuck.document = NULL;
}

static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  slot *s = slot_of(agent);
  (void)handle;
  if (is("arrives")) arrive(s);
  if (next->epoch && next->epoch != s->epoch) return conflict(s, err);
  if (last && !is_same(last, &s->mark)) return is_same(next, &s->mark) ? PD_OK : conflict(s, err);
  if (is("late")) return no_answer(err);
  if (is("stuck")) {
    free(s->stuck.document);
    s->stuck.document = malloc(snapshot.size);
    memcpy(s->stuck.document, snapshot.data, snapshot.size);
    s->stuck.size = snapshot.size;
    s->stuck.last = last ? *last : (pd_storage_mark){0};
    s->stuck.next = *next;
    return no_answer(err);
  }
  put(s, snapshot, next);
  if (is("overtaken")) return conflict(s, err);
  return is("lost") ? no_answer(err) : PD_OK;
}

static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  slot *s = slot_of(agent);
  (void)handle;
  if (is("away")) return pd_storage_fail(err, PD_STORAGE, "the server is away");
  if (!s->document) return pd_storage_fail(err, PD_NOT_FOUND, "no snapshot of agent '%s'", agent);
  *out_mark = s->mark;
  return take(ctx, (pd_bytes){s->document, s->size}, err);
}

#ifdef OLD
static pd_code save(void *handle, const char *agent, uint64_t epoch, pd_bytes snapshot, pd_error *err)
{
  return save_next(handle, agent, NULL, &(pd_storage_mark){.epoch = epoch}, snapshot, err);
}

static pd_code load(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_error *err)
{
  pd_storage_mark ignored;
  return load_marked(handle, agent, take, ctx, &ignored, err);
}
#endif

static pd_code remove_agent(void *handle, const char *agent, pd_error *err)
{
  slot *s = slot_of(agent);
  (void)handle;
  if (!s->document) return pd_storage_fail(err, PD_NOT_FOUND, "no snapshot of agent '%s'", agent);
  free(s->document);
  s->document = NULL;
  s->mark = (pd_storage_mark){0};
  s->epoch++;
  return PD_OK;
}

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  (void)handle, (void)visit, (void)ctx, (void)err;
  return PD_OK;
}

static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  (void)handle, (void)err;
  out->lasting = PD_LASTS_MEMORY;
  return PD_OK;
}

static pd_code claim(void *handle, const char *agent, uint64_t *out_epoch, pd_error *err)
{
  (void)handle, (void)err;
  *out_epoch = ++slot_of(agent)->epoch;
  return PD_OK;
}

static pd_code epoch_now(void *handle, const char *agent, uint64_t *out_epoch, pd_error *err)
{
  (void)handle, (void)err;
  *out_epoch = slot_of(agent)->epoch;
  return PD_OK;
}

PD_STORAGE_EXPORT const pd_storage_ops pd_storage_plugin = {
#ifdef OLD
  .abi = 1,
  .save = save,
  .load = load,
  .save_next = (void *)8, /* what lies behind the table of an old one is not to be called */
#else
  .abi = PD_STORAGE_ABI,
  .save_next = save_next,
  .load_marked = load_marked,
#endif
  .name = "flaky",
  .open = open_memory,
  .close = close_memory,
  .remove = remove_agent,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
};
