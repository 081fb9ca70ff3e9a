/*
 * standing.h: what a client asked its session for once and for all: subscriptions, and the level of the log. A server that was restarted
 * knows the session, but not these, so whoever stands between the two asks for them again. Those of a batch are not kept.
 */
#ifndef PD_REMOTE_STANDING_H
#define PD_REMOTE_STANDING_H

#include "remote/errand.h"

typedef struct pd_standing_wish {
  pd_buf key, line; /* the line, as the client wrote it */
} pd_standing_wish;

/* Zero-initialise. */
typedef struct pd_standing {
  pd_standing_wish *wishes;
  size_t count, capacity;
} pd_standing;

/* An answer came for the errand: keep the wish that was granted, forget the one that was taken back. PD_NO_MEMORY is all that can go
 * wrong. */
PD_MUST_USE pd_code pd_standing_note(pd_standing *standing, const pd_errand *errand, pd_json answer, pd_error *err);
/* The URI that an errand subscribes to; PD_JSON_NONE: it does not. */
pd_json pd_standing_uri(const pd_errand *errand);
void pd_standing_done(pd_standing *standing);

#endif
