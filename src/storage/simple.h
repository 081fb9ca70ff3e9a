/* simple.h: the nine functions of a storage, made of the three that a simple plugin has (storage_plugin.h, K1 to K4). */
#ifndef PD_STORAGE_SIMPLE_H
#define PD_STORAGE_SIMPLE_H

#include <perdure/storage.h>

/* All but open, which needs the plugin. */
extern const pd_storage_ops pd_storage_simple;

/* The handle for pd_storage_simple. `plugin` must outlive it. */
PD_MUST_USE pd_code pd_storage_simple_open(const pd_storage_simple_ops *plugin, const char *argument, void **out_handle, pd_error *err);

#endif
