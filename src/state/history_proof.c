/* history_proof.c: history.prove, check_proof, verify: what can be shown to somebody who trusts nobody. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "state/foresee.h"
#include "state/history.h"
#include "state/run.h"
#include "state/threads.h"

#define PROOF_SIZE_MAX ((size_t)8 << 20) /* of one that is handed out here */
#define FINDINGS_SHOWN 100

/* ---- prove ---- */

static const char *kind_name(pd_proof_kind kind)
{
  static const char *const names[] = {
    [PD_PROOF_VALUE] = "value", [PD_PROOF_VALUE_ID] = "value_id", [PD_PROOF_ABSENT] = "absent", [PD_PROOF_DESCENT] = "descent"};
  return (unsigned)kind < COUNT_OF(names) && names[kind] ? names[kind] : "unknown";
}

static void put_proof(pd_frame *frame, const pd_proof *proof)
{
  pd_json_put_text(&frame->out, "kind", kind_name(proof->kind));
  pd_out_id(frame, "commit", &proof->commit);
  if (proof->kind == PD_PROOF_DESCENT) {
    pd_out_id(frame, "ancestor", &proof->ancestor);
    pd_json_put_number(&frame->out, "distance", proof->distance);
    return;
  }
  pd_json_put_bytes(&frame->out, "key", proof->key);
  if (proof->kind == PD_PROOF_ABSENT) return;
  pd_out_id(frame, "value_id", &proof->value_id);
  if (proof->kind != PD_PROOF_VALUE) return;
  pd_json_key(&frame->out, "value");
  pd_out_stored(&frame->out, proof->value);
}

static pd_code make_proof(pd_frame *frame, pd_store *store, pd_buf *out, pd_error *err)
{
  pd_point_in point, ancestor;
  pd_bytes key = pd_in_text(frame, "key");
  bool is_of_key = key.size > 0, is_of_descent = pd_in_text(frame, "ancestor").size > 0;
  if (is_of_key == is_of_descent)
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: what is to be shown? Give one of 'key' and 'ancestor'",
                          frame->capability->name);
  TRY(pd_history_point(frame, store, "at", NULL, &point, err));
  if (is_of_key) TRY(pd_brink(frame, err)); /* F5 */
  if (is_of_key) return pd_prove(store, point.at, key, pd_in_bool(frame, "with_value", false), out, err);
  TRY(pd_history_point(frame, store, "ancestor", NULL, &ancestor, err));
  pd_code code = pd_prove_descent(store, ancestor.at, point.at, out, err);
  if (code == PD_NOT_FOUND) err->name = "NotDescendant";
  return code;
}

pd_code pd_cap_history_prove(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf proof = {0};
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_proof shown;
  pd_store *store;
  TRY(pd_history_may_read(frame, NULL, err)); /* a proof names the keys that lie next to the one it is about */
  TRY(pd_history_open(frame, &store, err));
  if (!store) return pd_history_none(frame, err);
  TRY(make_proof(frame, store, &proof, err));
  if (proof.size > PROOF_SIZE_MAX)
    return pd_error_named(err, PD_LIMIT, "LimitExceeded",
                          "%s: the proof has %zu bytes, at most %zu are handed out; prove the value's id alone", frame->capability->name,
                          proof.size, PROOF_SIZE_MAX);
  TRY(pd_check_proof(pd_buf_bytes(&proof), NULL, &shown, err));
  TRY(pd_base64_encode(pd_buf_bytes(&proof), &text, err));
  put_proof(frame, &shown);
  pd_json_put_bytes(&frame->out, "proof", pd_buf_bytes(&text));
  pd_json_put_number(&frame->out, "size", proof.size);
  return frame->out.code;
}

/* ---- check_proof: needs no store ---- */

static pd_code take_id(const pd_frame *frame, const char *field, pd_id *id, const pd_id **out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  *out = NULL;
  if (!pd_in_text(frame, field).size) return PD_OK;
  if (!pd_in_string(frame, field, hex, sizeof hex) || !pd_id_parse(hex, id))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field '%s' is no commit id: 64 hex digits", frame->capability->name, field);
  *out = id;
  return PD_OK;
}

pd_code pd_cap_history_check_proof(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf proof = {0};
  pd_proof_expect expect = {.key = pd_in_text(frame, "key")};
  pd_proof shown;
  pd_error why = {0};
  pd_id commit, ancestor;
  TRY(take_id(frame, "commit", &commit, &expect.commit, err));
  TRY(take_id(frame, "ancestor", &ancestor, &expect.ancestor, err));
  if (pd_base64_decode(pd_in_text(frame, "proof"), &proof, &why))
    return pd_error_named(err, PD_INVALID, "InvalidInput", "%s: field 'proof' is no base64: %s", frame->capability->name, why.message);
  pd_code code = pd_check_proof(pd_buf_bytes(&proof), &expect, &shown, &why);
  pd_json_put_bool(&frame->out, "valid", code == PD_OK);
  if (code)
    pd_json_put_text(&frame->out, "why", why.message);
  else
    put_proof(frame, &shown);
  return frame->out.code;
}

/* ---- verify ---- */

typedef struct verifying {
  pd_frame *frame;
  pd_error cancelled;
  uint64_t shown;
} verifying;

static bool tell_progress(void *ctx, uint64_t done, uint64_t total)
{
  verifying *v = ctx;
  return pd_frame_progress(v->frame, done, total, &v->cancelled) == PD_OK;
}

static void write_finding(void *ctx, const char *what)
{
  verifying *v = ctx;
  if (v->shown++ < FINDINGS_SHOWN) pd_json_text(&v->frame->out, pd_text(what));
}

pd_code pd_cap_history_verify(pd_frame *frame, pd_error *err)
{
  verifying v = {.frame = frame};
  pd_verify_report report = {0};
  pd_point_in since;
  pd_store *store;
  bool has_since = pd_in_text(frame, "since").size > 0;
  TRY(pd_history_open(frame, &store, err));
  if (!store) return pd_history_none(frame, err);
  if (has_since) TRY(pd_history_point(frame, store, "since", NULL, &since, err));
  pd_verify_options options = {.since = has_since ? since.at : NULL, .progress = tell_progress, .finding = write_finding, .ctx = &v};
  pd_json_key(&frame->out, "findings");
  pd_json_open(&frame->out, '[');
  pd_code code = pd_verify(store, &options, &report, err);
  pd_json_close(&frame->out, ']');
  if (v.cancelled.code) *err = v.cancelled;
  if (v.cancelled.code || (code && code != PD_CORRUPT)) return code ? code : v.cancelled.code;
  pd_json_put_bool(&frame->out, "ok", code == PD_OK);
  pd_json_put_number(&frame->out, "finding_count", report.findings);
  pd_json_put_number(&frame->out, "records", report.records);
  pd_json_put_number(&frame->out, "commits", report.commits);
  pd_json_put_number(&frame->out, "values", report.values);
  pd_json_put_number(&frame->out, "keyframes", report.keyframes);
  return frame->out.code;
}
