/* close.h: for CLEANUP of handles. */
#ifndef PD_BASE_CLOSE_H
#define PD_BASE_CLOSE_H

#include <perdure/perdure.h>

static inline void pd_iter_close_at(pd_iter **iter)
{
  pd_iter_close(*iter);
}

#endif
