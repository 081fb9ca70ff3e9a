/* plugin.c: a storage that is a shared object (storage_plugin.h). */
#include "base/array.h"
#include "base/base.h"
#include "base/error.h"
#include "storage/builtin.h"
#include "storage/simple.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define ABI_MIN 1

/* A plugin's table is as large as its version had it. */
static pd_code copy_ops(const char *path, const pd_storage_ops *ops, pd_storage_ops *out, pd_error *err)
{
  if (ops->abi < ABI_MIN || ops->abi > PD_STORAGE_ABI) {
    return pd_error_set(err, PD_INVALID, "the storage plugin %.300s has interface version %u; this perdure knows %d to %d", path, ops->abi,
                        ABI_MIN, PD_STORAGE_ABI);
  }
  *out = (pd_storage_ops){0};
  memcpy(out, ops, ops->abi == 1 ? offsetof(pd_storage_ops, save_next) : sizeof *out);
  return PD_OK;
}

typedef struct required_member {
  const char *name;
  bool is_there;
} required_member;

static pd_code check_members(const char *path, const required_member *required, size_t count, pd_error *err)
{
  for (size_t i = 0; i < count; i++) {
    if (!required[i].is_there) return pd_error_set(err, PD_INVALID, "the storage plugin %.300s lacks '%s'", path, required[i].name);
  }
  return PD_OK;
}

static pd_code check_ops(const char *path, const pd_storage_ops *ops, pd_error *err)
{
  bool is_first = ops->abi == 1;
  const required_member required[] = {
    {"name", ops->name},
    {"open", ops->open},
    {"close", ops->close},
    {"save", ops->save || !is_first},
    {"load", ops->load || !is_first},
    {"save_next", ops->save_next || is_first},
    {"load_marked", ops->load_marked || is_first},
    {"remove", ops->remove},
    {"list", ops->list},
    {"durability", ops->durability},
    {"claim", ops->claim},
    {"epoch", ops->epoch},
    {"load_tick", ops->load_tick || !ops->ticks},
    {"ticks", ops->ticks || !ops->load_tick},
  };
  return check_members(path, required, COUNT_OF(required), err);
}

static pd_code check_simple(const char *path, const pd_storage_simple_ops *simple, pd_error *err)
{
  if (simple->abi != PD_STORAGE_SIMPLE_ABI) {
    return pd_error_set(err, PD_INVALID, "the simple storage plugin %.300s has interface version %u; this perdure knows %d", path,
                        simple->abi, PD_STORAGE_SIMPLE_ABI);
  }
  const required_member required[] = {
    {"name", simple->name},
    {"save", simple->save},
    {"load", simple->load},
    {"remove", simple->remove},
    {"open", simple->open || !simple->close}, /* else close would be given the argument */
  };
  return check_members(path, required, COUNT_OF(required), err);
}

/* The large table, if it has both. */
static pd_code read_table(const char *path, pd_storage_library *out, pd_error *err)
{
  const pd_storage_ops *ops = dlsym(out->library, PD_STORAGE_SYMBOL);
  const pd_storage_simple_ops *simple = dlsym(out->library, PD_STORAGE_SIMPLE_SYMBOL);
  if (ops) {
    TRY(copy_ops(path, ops, &out->ops, err));
    return check_ops(path, &out->ops, err);
  }
  if (!simple) {
    return pd_error_set(err, PD_INVALID,
                        "%.300s is no storage plugin: it has no symbol '" PD_STORAGE_SYMBOL "' or '" PD_STORAGE_SIMPLE_SYMBOL "'", path);
  }
  TRY(check_simple(path, simple, err));
  out->simple = simple;
  out->ops = pd_storage_simple;
  out->ops.name = simple->name;
  return PD_OK;
}

pd_code pd_storage_plugin_load(const char *rest, pd_storage_library *out, const char **out_argument, pd_error *err)
{
  const char *question = strchr(rest, '?');
  CLEANUP(pd_free_at) char *path = strndup(rest, question ? (size_t)(question - rest) : strlen(rest));
  if (!path) return pd_error_memory(err, "a path");
  if (!*path) return pd_error_set(err, PD_INVALID, "the storage names no plugin: write plugin:PATH.so");
  if (!strchr(path, '/')) { /* else the system would look for it in its own folders */
    return pd_error_set(err, PD_INVALID, "the storage plugin '%.200s' needs a path: write plugin:./%.200s", path, path);
  }
  pd_storage_library found = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
  if (!found.library) return pd_error_set(err, PD_INVALID, "the storage plugin cannot be loaded: %.440s", dlerror());
  pd_code code = read_table(path, &found, err);
  if (code) {
    dlclose(found.library);
    return code;
  }
  *out_argument = question ? question + 1 : "";
  *out = found;
  return PD_OK;
}
