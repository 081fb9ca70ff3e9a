/* json_pick.h: the members of an object by their names, and how many there are: in one walk over it. */
#ifndef PD_BASE_JSON_PICK_H
#define PD_BASE_JSON_PICK_H

#include "base/json.h"

typedef enum pd_json_fit {
  PD_JSON_FITS = 0,
  PD_JSON_UNKNOWN, /* a member has none of the names */
  PD_JSON_TWICE    /* one of them is there twice */
} pd_json_fit;

/* `names`: the first of `count` names, each `stride` bytes behind the one before. out[i] becomes the value of names[i]; where there is none
 * it stays as it is, PD_JSON_NONE. `refuses_unknown`: else unknown members are passed over. Stops at the first member that does not fit,
 * whose key is *out_key, and whose name, if it is there twice, is names[*out_index]. */
PD_MUST_USE pd_json_fit pd_json_pick(pd_json object, const char *const *names, size_t stride, size_t count, bool refuses_unknown,
                                     pd_json *out, pd_json *out_key, size_t *out_index);

/* How many items an array has, or members an object. */
size_t pd_json_count(pd_json container);

#endif
