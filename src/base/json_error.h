/* json_error.h: the two shapes of an error as JSON: perdure's own, the same on every way in, and that of JSON-RPC 2.0. */
#ifndef PD_BASE_JSON_ERROR_H
#define PD_BASE_JSON_ERROR_H

#include "base/json.h"

/* The member "error":{"code","message","details":{"class","kind",…},"recovery":[{"action","hint"}…]} of an object that is open. Between
 * the two calls the details are open, for members that only the caller knows. `recovery` ends with {NULL, NULL}; if it is NULL, the
 * error's own hints are written. */
void pd_json_error_begin(pd_json_writer *w, const pd_error *err);
void pd_json_error_end(pd_json_writer *w, const pd_error *err, const pd_recovery *recovery);

/* {"jsonrpc":"2.0","id":ID, with the object left open. `id` is JSON; without bytes it is null. */
void pd_json_rpc_begin(pd_json_writer *w, pd_bytes id);
/* A whole answer {"jsonrpc","id","error":{"code","message","data"}}. `data` is the members of an object, as JSON, or has no bytes. */
void pd_json_rpc_error(pd_json_writer *w, pd_bytes id, int64_t code, const char *message, pd_bytes data);

#endif
