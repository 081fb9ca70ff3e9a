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
 * F4  Nobody learns by asking what the host's files are (HOST-1 in backup_move.c): facts about them are shown to the operator alone, and a
 *     request that waits is not replaced when they change.
 * F5  Nor whether a key is there, by a call that would read it: history.get, key, blame and prove come to their brink once the points that
 *     they name are found, before they look for the key. Points are told: history.refs and the facts of the request show them anyway.
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

/* F4: are the facts of this capability's calls about files of the host? */
bool pd_foresee_is_of_host(const char *capability);

/* ---- what a capability's function uses ---- */

/* Is nothing approved yet? Then what the caller is answered is told to somebody who may never be allowed to make the call. */
bool pd_foresee_is_asking(const pd_frame *frame);

void pd_fact_text(pd_frame *frame, const char *name, const char *text);
void pd_fact_number(pd_frame *frame, const char *name, uint64_t number);
void pd_fact_id(pd_frame *frame, const char *name, const pd_id *id);
/* What comes next would change something, or tell it (F5): TRY it. PD_OK in the call itself, unless it was approved and a fact is another
 * by now. */
PD_MUST_USE pd_code pd_brink(pd_frame *frame, pd_error *err);

#endif
