/* foresee.c: what a call would do, before anybody is asked to approve it. Invariants F1 to F4 are in foresee.h. */
#include "state/foresee.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

bool pd_foresee_is_of_host(const char *capability)
{
  const pd_capability *found = pd_capability_get(capability);
  return !found || found->handling.is_of_host;
}

bool pd_foresee_is_asking(const pd_frame *frame)
{
  return frame->foresees && !frame->bound;
}

/* ---- facts ---- */

static bool is_noted(const pd_frame *frame, pd_bytes text)
{
  return frame->facts.size && memmem(frame->facts.data, frame->facts.size, text.data, text.size);
}

/* `fact` is a member as JSON text; F3. */
static void note_fact(pd_frame *frame, const char *name, pd_bytes fact)
{
  char quoted[80];
  int size = snprintf(quoted, sizeof quoted, "\"%s\":", name);
  bool is_known = is_noted(frame, (pd_bytes){quoted, (size_t)size});
  if (!frame->foresees) {
    frame->is_stale |= frame->is_approved && is_known && !is_noted(frame, fact);
  } else if (!is_known) {
    pd_json_writer w = {.out = &frame->facts, .needs_comma = frame->facts.size > 0};
    pd_json_raw(&w, fact); /* without memory the facts are others than those of the approval, and the call is refused */
  }
}

void pd_fact_text(pd_frame *frame, const char *name, const char *text)
{
  CLEANUP(pd_buf_done) pd_buf fact = {0};
  pd_json_writer w = {.out = &fact};
  if (!frame->foresees && !frame->is_approved) return;
  pd_json_put_text(&w, name, text);
  note_fact(frame, name, pd_buf_bytes(&fact));
}

void pd_fact_number(pd_frame *frame, const char *name, uint64_t number)
{
  CLEANUP(pd_buf_done) pd_buf fact = {0};
  pd_json_writer w = {.out = &fact};
  if (!frame->foresees && !frame->is_approved) return;
  pd_json_put_number(&w, name, number);
  note_fact(frame, name, pd_buf_bytes(&fact));
}

void pd_fact_id(pd_frame *frame, const char *name, const pd_id *id)
{
  char hex[PD_ID_HEX_SIZE];
  pd_fact_text(frame, name, pd_id_hex(id, hex));
}

pd_code pd_brink(pd_frame *frame, pd_error *err)
{
  if (frame->is_stale)
    return pd_error_named(err, PD_DENIED, "ApprovalStale", "%s was approved for another state than this, and nothing was changed",
                          frame->capability->name);
  if (!frame->foresees) return PD_OK;
  frame->is_foreseen = true;
  return pd_error_set(err, PD_LIMIT, "%s stops here", frame->capability->name); /* for nobody's eyes */
}

pd_code pd_foresee(pd_frame *frame, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf answer = {0};
  pd_json_writer out = frame->out;
  pd_error why = {0};
  pd_buf_clear(&frame->facts);
  if (!frame->capability->handling.is_preflighted) return PD_OK; /* F1 */
  frame->out = (pd_json_writer){.out = &answer, .err = &why};
  pd_json_open(&frame->out, '{');
  frame->foresees = true;
  frame->is_foreseen = false;
  pd_code code = pd_capability_run(frame, &why);
  frame->foresees = false;
  frame->out = out;
  if (!code || frame->is_foreseen) return PD_OK;
  if (err) *err = why;
  return code;
}

/* ---- binding ---- */

static pd_code write_bound(const pd_frame *frame, pd_json facts, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  for (size_t i = 0; i < frame->capability->field_count; i++) {
    const char *name = frame->capability->fields[i].name;
    pd_json fact = pd_json_member(facts, name), value = fact.kind == PD_JSON_NONE ? frame->input->fields[i] : fact;
    if (value.kind == PD_JSON_NONE) continue;
    pd_json_key(&w, name);
    pd_json_raw(&w, value.raw);
  }
  pd_json_close(&w, '}');
  return w.code;
}

pd_code pd_foresee_bind(pd_frame *frame, pd_bytes facts, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json json;
  pd_id hash;
  pd_foresee_unbind(frame);
  TRY(pd_input_hash(frame->input, &hash, err));
  TRY(pd_json_parse(facts, &json, err));
  TRY(write_bound(frame, json, &text, err));
  pd_input *bound = calloc(1, sizeof *bound);
  if (!bound) return pd_error_memory(err, "an approved call");
  pd_code code = pd_input_parse(frame->capability, pd_buf_bytes(&text), bound, err);
  if (code) {
    pd_input_done(bound);
    free(bound);
    return code;
  }
  bound->copy = text; /* the slices point into it */
  text = (pd_buf){0};
  bound->hash = hash; /* the audit tells of the call as it was made */
  bound->has_hash = true;
  frame->named = frame->input;
  frame->input = frame->bound = bound;
  return PD_OK;
}

void pd_foresee_unbind(pd_frame *frame)
{
  if (!frame->bound) return;
  frame->input = frame->named;
  pd_input_free(frame->bound);
  frame->bound = NULL;
}
