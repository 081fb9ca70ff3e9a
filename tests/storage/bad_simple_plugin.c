/* bad_simple_plugin.c: simple storage plugins that are to be refused; FAULT says which. */
#include <perdure/storage_plugin.h>

#define OTHER_VERSION 1
#define NO_LOAD 2
#define CLOSE_ALONE 3

static pd_code save(void *handle, const char *key, pd_bytes value, pd_error *err)
{
  (void)handle, (void)key, (void)value;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code load(void *handle, const char *key, pd_storage_take take, void *ctx, pd_error *err)
{
  (void)handle, (void)key, (void)take, (void)ctx;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static pd_code remove_key(void *handle, const char *key, pd_error *err)
{
  (void)handle, (void)key;
  return pd_storage_fail(err, PD_STORAGE, "must not be called");
}

static void close_nothing(void *handle)
{
  (void)handle;
}

PD_STORAGE_EXPORT const pd_storage_simple_ops pd_storage_simple_plugin = {
  .abi = FAULT == OTHER_VERSION ? PD_STORAGE_SIMPLE_ABI + 1 : PD_STORAGE_SIMPLE_ABI,
  .name = "bad",
  .save = save,
  .load = FAULT == NO_LOAD ? NULL : load,
  .remove = remove_key,
  .close = FAULT == CLOSE_ALONE ? close_nothing : NULL,
};
