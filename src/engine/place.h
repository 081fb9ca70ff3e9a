/* place.h: stores that are kept elsewhere than in their home; what users see of it is in <perdure/supervise.h>. */
#ifndef PD_ENGINE_PLACE_H
#define PD_ENGINE_PLACE_H

#include <perdure/perdure.h>

/* The agents of a home whose stores are elsewhere. */
PD_MUST_USE pd_code pd_places_each(const char *uri, void (*visit)(void *ctx, const char *agent), void *ctx, pd_error *err);

#endif
