/*
 * batch_op.h: one operation of `batch`, checked and decoded, before the store is touched.
 *
 *   put     key, one of value | text | base64, expect?, ref?, reason?, run?, author?
 *   get     key, at?, version?
 *   has     key, at?
 *   delete  key, expect?, ref?, reason?, run?, author?
 *   commit  ops (of put and delete, without who and why), ref?, reason?, run?, author?
 *   call    capability, input?, session?
 *
 * Each may have an "id", any JSON, which is echoed. A field that does not belong to the operation, or is there twice, is refused.
 */
#ifndef PD_CMD_BATCH_OP_H
#define PD_CMD_BATCH_OP_H

#include "base/json.h"

#include <perdure/perdure.h>

typedef enum batch_kind { BATCH_PUT, BATCH_GET, BATCH_HAS, BATCH_DELETE, BATCH_COMMIT, BATCH_CALL, BATCH_KIND_COUNT } batch_kind;

#define BATCH_TEXT_COUNT 7 /* at, ref, reason, run, author, capability, session */

typedef struct batch_op {
  batch_kind kind;
  pd_json id; /* PD_JSON_NONE: none */
  pd_buf key, value;
  pd_bytes raw_value; /* of a put: a slice of the line for "value", else what `value` holds */
  uint64_t expect;    /* PD_ANY_VERSION: none */
  uint64_t version;   /* 0: none */
  pd_json ops;
  pd_buf texts[BATCH_TEXT_COUNT];
  pd_json input;  /* of a call; PD_JSON_NONE: none */
  const char *at; /* these point into `texts`, or are NULL */
  const char *capability, *session;
  pd_note note;
} batch_op;

void batch_op_done(batch_op *op);
/* Read the operation `json`, which must outlive `op`. `op` may be used again: it keeps its memory. `is_inner`: one of the ops of a
 * commit. On failure `id` is set, if there was one. */
PD_MUST_USE pd_code batch_op_read(batch_op *op, pd_json json, bool is_inner, pd_error *err);

#endif
