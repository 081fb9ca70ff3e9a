/* bad_plugin.c: storage plugins that are to be refused; FAULT says which. */
#include <perdure/storage_plugin.h>

#define NO_SYMBOL 1
#define OTHER_VERSION 2
#define NO_LOAD_MARKED 3
#define NO_LOAD_TICK 4
#define UNRESOLVED 5
#define NO_CLAIM 6
#define NO_SAVE_NEXT 7
#define OLD_NO_SAVE 8 /* of interface version 1 */

#if FAULT == NO_SYMBOL
PD_STORAGE_EXPORT const int something_else = 1;
#else
static pd_code open_nothing(const char *argument, void **out_handle, pd_error *err)
{
  (void)argument, (void)out_handle;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static void close_nothing(void *handle)
{
  (void)handle;
}

static pd_code save(void *handle, const char *agent, uint64_t epoch, pd_bytes snapshot, pd_error *err)
{
  (void)handle, (void)agent, (void)epoch, (void)snapshot;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code load(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_error *err)
{
  (void)handle, (void)agent, (void)take, (void)ctx;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code save_next(void *handle, const char *agent, const pd_storage_mark *last, const pd_storage_mark *next, pd_bytes snapshot,
                         pd_error *err)
{
  (void)handle, (void)agent, (void)last, (void)next, (void)snapshot;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code load_marked(void *handle, const char *agent, pd_storage_take take, void *ctx, pd_storage_mark *out_mark, pd_error *err)
{
  (void)handle, (void)agent, (void)take, (void)ctx, (void)out_mark;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code ticks(void *handle, const char *agent, pd_storage_tick_visit visit, void *ctx, pd_error *err)
{
  (void)handle, (void)agent, (void)visit, (void)ctx;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

#if FAULT == UNRESOLVED
pd_code perdure_has_no_such_function(void *handle, const char *agent, pd_error *err);
#define REMOVE perdure_has_no_such_function
#else
static pd_code remove_nothing(void *handle, const char *agent, pd_error *err)
{
  (void)handle, (void)agent;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}
#define REMOVE remove_nothing
#endif

static pd_code list(void *handle, pd_storage_visit visit, void *ctx, pd_error *err)
{
  (void)handle, (void)visit, (void)ctx;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code durability(void *handle, pd_storage_durability *out, pd_error *err)
{
  (void)handle, (void)out;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code epoch(void *handle, const char *agent, uint64_t *out_epoch, pd_error *err)
{
  (void)handle, (void)agent, (void)out_epoch;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

PD_STORAGE_EXPORT const pd_storage_ops pd_storage_plugin = {
  .abi = FAULT == OTHER_VERSION ? PD_STORAGE_ABI + 1
         : FAULT == OLD_NO_SAVE ? 1
                                : PD_STORAGE_ABI,
  .name = "bad",
  .open = open_nothing,
  .close = close_nothing,
  .save = FAULT == OLD_NO_SAVE ? NULL : save,
  .load = load,
  .remove = REMOVE,
  .list = list,
  .durability = durability,
  .claim = FAULT == NO_CLAIM ? NULL : epoch,
  .epoch = epoch,
  .ticks = FAULT == NO_LOAD_TICK ? ticks : NULL,
  .save_next = FAULT == NO_SAVE_NEXT ? NULL : save_next,
  .load_marked = FAULT == NO_LOAD_MARKED ? NULL : load_marked,
};
#endif
