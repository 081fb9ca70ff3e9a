/* builtin.h: the storages that perdure brings, by scheme (storage.c has their table). */
#ifndef PD_STORAGE_BUILTIN_H
#define PD_STORAGE_BUILTIN_H

#include <perdure/storage.h>

extern const pd_storage_ops pd_storage_file, pd_storage_sqlite, pd_storage_perdure;
extern const pd_storage_ops pd_storage_redis, pd_storage_rediss, pd_storage_redis_unix; /* one storage, three ways to the server */

/* What a plugin brought. */
typedef struct pd_storage_library {
  pd_storage_ops ops;                  /* a copy; what its version does not have is NULL. Of a simple plugin: those of simple.h, no open */
  const pd_storage_simple_ops *simple; /* of a simple plugin, else NULL */
  void *library;                       /* for dlclose, when no handle of it is open any more */
} pd_storage_library;

/* Load the shared object that `rest` (PATH.so[?ARGUMENT]) names. `out_argument` points into `rest`. PD_INVALID says what is wrong with the
 * plugin. */
PD_MUST_USE pd_code pd_storage_plugin_load(const char *rest, pd_storage_library *out, const char **out_argument, pd_error *err);

#endif
