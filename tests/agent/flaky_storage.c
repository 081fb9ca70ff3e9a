/*
 * flaky_storage.c: a storage in memory whose answers get lost. The variable FLAKY says what happens to saves: "lost": they are done and the
 * answer does not arrive; "late": they are not done, and none arrives; anything else: all is well.
 */
#include <perdure/storage_plugin.h>
#include <stdlib.h>

#define AGENTS_MAX 16

typedef struct slot {
  char agent[PD_NAME_SIZE_MAX + 1];
  char *document;
  size_t size;
  uint64_t epoch;
} slot;

static slot slots[AGENTS_MAX];

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

static pd_code save(void *handle, const char *agent, uint64_t epoch, pd_bytes snapshot, pd_error *err)
{
  slot *s = slot_of(agent);
  (void)handle;
  if (epoch && epoch != s->epoch) {
    pd_storage_fail(err, PD_CONFLICT, "fenced");
    err->actual = s->epoch;
    return PD_CONFLICT;
  }
  if (is("late")) return pd_storage_fail(err, PD_STORAGE, "no answer in time");
  free(s->document);
  s->document = malloc(snapshot.size);
  memcpy(s->document, snapshot.data, snapshot.size);
  s->size = snapshot.size;
  return is("lost") ? pd_storage_fail(err, PD_STORAGE, "no answer in time") : PD_OK;
}

static pd_code load(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_error *err)
{
  slot *s = slot_of(agent);
  (void)handle;
  if (is("away")) return pd_storage_fail(err, PD_STORAGE, "the server is away");
  if (!s->document) return pd_storage_fail(err, PD_NOT_FOUND, "no snapshot of agent '%s'", agent);
  return take(ctx, (pd_bytes){s->document, s->size}, err);
}

static pd_code remove_agent(void *handle, const char *agent, pd_error *err)
{
  slot *s = slot_of(agent);
  (void)handle;
  if (!s->document) return pd_storage_fail(err, PD_NOT_FOUND, "no snapshot of agent '%s'", agent);
  free(s->document);
  s->document = NULL;
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
  .abi = PD_STORAGE_ABI,
  .name = "flaky",
  .open = open_memory,
  .close = close_memory,
  .save = save,
  .load = load,
  .remove = remove_agent,
  .list = list,
  .durability = durability,
  .claim = claim,
  .epoch = epoch_now,
};
