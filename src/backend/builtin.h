/* builtin.h: the backends that need no registration. */
#ifndef PD_BACKEND_BUILTIN_H
#define PD_BACKEND_BUILTIN_H

#include <perdure/backend.h>

extern const pd_backend_ops pd_memory_ops;
extern const pd_backend_ops pd_sqlite_ops;

#endif
