/* glob.h: names with wildcards: * is any text (also none), ? is one byte. Nothing else is special. */
#ifndef PD_BASE_GLOB_H
#define PD_BASE_GLOB_H

#include <perdure/perdure.h>

/* Does the whole of `text` fit `pattern`? Time is bounded by the product of their sizes. */
bool pd_glob_match(pd_bytes pattern, pd_bytes text);

#endif
