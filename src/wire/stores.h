/*
 * stores.h: the raw log and bag of a store over HTTP: /v1/stores/NAME/…, what `perdure --server URL` stands on (src/remote).
 * docs/formats.md has the bodies, docs/decisions/036-remote.md the reasons.
 *
 * Place: the server opens the backend of its home a second time, as another process would; the home's engine follows the log as it
 * follows other processes'.
 *
 * K1  Raw is past permissions, quotas and audit of the door: an operator's token may write, an auditor's may read, an agent's neither. The
 *     store `system` (tokens, audit, approvals) is read by the operator and written by nobody here.
 * K2  What is appended is looked at before (pd_log_check_append): no client can get into a log what no engine would write.
 * K3  Each write to a log is a line of the audit, with the token that made it.
 * K4  A page of an answer has a maximum; so has a body.
 * K5  Where writes are buffered (store.flush), those of the server's own that wait are written before a store is opened or written to here:
 *     they keep others from appending, and a client reads the log alone.
 */
#ifndef PD_WIRE_STORES_H
#define PD_WIRE_STORES_H

#include "wire/http.h"

#include <perdure/backend.h>

#define PD_RAW_BODY_MAX ((uint64_t)256 << 20) /* of an append, which is all or none */

/* The backends that are open: at most `open_max`. */
typedef struct pd_raw pd_raw;
PD_MUST_USE pd_code pd_raw_new(const char *uri, size_t open_max, pd_raw **out, pd_error *err);
/* Nobody may use one any more. Takes NULL. */
void pd_raw_free(pd_raw *raw);
/* The backend of a store, to be given back. PD_NOT_FOUND if it is not there and not `create`. PD_LIMIT if too many are in use. */
PD_MUST_USE pd_code pd_raw_borrow(pd_raw *raw, const char *store, bool create, pd_backend **out, pd_error *err);
void pd_raw_return(pd_raw *raw, pd_backend *b);
/* The stores of the home. */
PD_MUST_USE pd_code pd_raw_stores(pd_raw *raw, void (*visit)(void *ctx, const char *store), void *ctx, pd_error *err);

/* A request for one store. */
typedef struct pd_raw_call {
  pd_request *request;
  char name[PD_NAME_SIZE_MAX + 1];
  const char *what; /* what follows the verb: an id after "bag/" */
  pd_backend *b;
} pd_raw_call;

/* A number of the query; PD_INVALID if it is missing and must not be, or is none. */
PD_MUST_USE pd_code pd_raw_number(const pd_raw_call *call, const char *name, uint64_t *out, pd_error *err);
/* {"NAME":NUMBER} is the answer. */
PD_MUST_USE pd_code pd_raw_answer(pd_raw_call *call, const char *name, uint64_t number, pd_error *err);
/* K3: `text` is what was done to the store, as "12-14". */
void pd_raw_audit(const pd_raw_call *call, const char *deed, const char *text, pd_code code, const pd_error *err, const pd_id *commit);

/* May the caller use the raw routes of `name`, K1? PD_DENIED. Refusals and reads are lines of the audit, one a minute for all alike. */
PD_MUST_USE pd_code pd_raw_permit(const pd_request *request, const char *name, bool writes, pd_error *err);

/* The table behind /v1/stores/NAME/, by index; false after the last. For those who walk through all of it. */
bool pd_store_verb_at(size_t index, const char **out_method, const char **out_what);

/* raw_log.c */
PD_MUST_USE pd_code pd_raw_log_read(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_log_append(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_log_redact(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_log_swap(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_log_wait(pd_raw_call *call, pd_error *err);
/* raw_bag.c */
PD_MUST_USE pd_code pd_raw_bag_get(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_bag_put(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_bag_mark(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_bag_ids(pd_raw_call *call, pd_error *err);
PD_MUST_USE pd_code pd_raw_bag_sweep(pd_raw_call *call, pd_error *err);

#endif
