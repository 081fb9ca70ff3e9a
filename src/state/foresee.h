/*
 * foresee.h: what a call would do, before anybody is asked to approve it.
 *
 * The capability's own function is run, and stops at the brink: it has checked what it checks, has changed nothing, and has noted what the
 * names in its inputs stand for right now. Those facts are shown to the operator, and what is approved is the call with them.
 *
 * F1  A function that is listed in foresee.c returns pd_brink before it changes anything, if frame->foresees; or it changes nothing at all.
 * F2  A fact that is named as an input takes that input's place in the approved call. Any other has to be the same then, else the call is
 *     refused (ApprovalStale).
 * F3  A fact is noted once; the same state gives the same facts in the same order.
 */
#ifndef PD_STATE_FORESEE_H
#define PD_STATE_FORESEE_H

#include "state/call.h"

/* Run the call as far as its brink. PD_OK: frame->facts has the facts; also for capabilities that are not listed, which have none. */
PD_MUST_USE pd_code pd_foresee(pd_frame *frame, pd_error *err);
/* From here on, frame->input is the input with these facts (a JSON object) in the place of names; F2. */
PD_MUST_USE pd_code pd_foresee_bind(pd_frame *frame, pd_bytes facts, pd_error *err);
/* It is the input of the call again. */
void pd_foresee_unbind(pd_frame *frame);

/* ---- what a capability's function uses ---- */

void pd_fact_text(pd_frame *frame, const char *name, const char *text);
void pd_fact_number(pd_frame *frame, const char *name, uint64_t number);
void pd_fact_id(pd_frame *frame, const char *name, const pd_id *id);
/* What comes next would change something: TRY it. PD_OK in the call itself, unless it was approved and a fact is another by now. */
PD_MUST_USE pd_code pd_brink(pd_frame *frame, pd_error *err);

#endif
