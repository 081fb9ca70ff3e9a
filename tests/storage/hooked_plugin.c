/* hooked_plugin.c: examples/simple_storage_plugin.c, with a hook before each save: there another machine, or a crash, comes between. */
#define pd_storage_simple_plugin folder_plugin
#include "../../examples/simple_storage_plugin.c"
#undef pd_storage_simple_plugin

PD_STORAGE_EXPORT bool (*hooked_before)(const char *what, const char *key); /* false: the call fails */
PD_STORAGE_EXPORT bool hooked_is_silent;                                    /* load says PD_OK and gives nothing */

static pd_code hooked_save(void *handle, const char *key, pd_bytes value, pd_error *err)
{
  if (hooked_before && !hooked_before("save", key)) return pd_storage_fail(err, PD_STORAGE, "hooked: save of %s", key);
  return save(handle, key, value, err);
}

static pd_code hooked_load(void *handle, const char *key, pd_storage_take take, void *ctx, pd_error *err)
{
  return hooked_is_silent ? PD_OK : load(handle, key, take, ctx, err);
}

static pd_code hooked_remove(void *handle, const char *key, pd_error *err)
{
  if (hooked_before && !hooked_before("remove", key)) return pd_storage_fail(err, PD_STORAGE, "hooked: remove of %s", key);
  return remove_key(handle, key, err);
}

/* With the two functions that are optional. */
static pd_code hooked_open(const char *argument, void **out_handle, pd_error *err)
{
  *out_handle = strdup(argument);
  return *out_handle ? PD_OK : pd_storage_fail(err, PD_NO_MEMORY, "no memory for a path");
}

PD_STORAGE_EXPORT const pd_storage_simple_ops pd_storage_simple_plugin = {
  .abi = PD_STORAGE_SIMPLE_ABI,
  .name = "hooked",
  .save = hooked_save,
  .load = hooked_load,
  .remove = hooked_remove,
  .open = hooked_open,
  .close = free,
};
