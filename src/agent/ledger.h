/*
 * ledger.h: the member `perdure` of a snapshot: what an agent knows of its replies and effects (docs/formats.md).
 *
 *  L1  A ledger is slices of the document that it was parsed from. Everything in it has been checked: who walks it need not.
 */
#ifndef PD_AGENT_LEDGER_H
#define PD_AGENT_LEDGER_H

#include "base/json.h"

#include <perdure/agent.h>

#define PD_LEDGER_MEMBER "perdure"
#define PD_LEDGER_VERSION 1

typedef struct pd_ledger {
  uint64_t epoch, save;                /* who saved the document, and its how manieth save that was */
  uint64_t reply_count_max, bytes_max; /* 0: not said */
  pd_json unsent;                      /* [{event, epoch}]: replies that may not have left yet */
  pd_json effects;                     /* [{id, event, state, epoch, what, result}] */
  pd_json replies;                     /* [{event, tick, reply}], oldest first */
} pd_ledger;

/* An id, decoded. */
typedef struct pd_agent_id {
  char text[PD_AGENT_ID_MAX + 1];
} pd_agent_id;

/* The ledger of a snapshot; all zero if it has none. PD_CORRUPT names what is wrong; PD_FORMAT for a newer version. */
PD_MUST_USE pd_code pd_ledger_parse(pd_json snapshot, pd_ledger *out, pd_error *err);
/* The entry of `list` whose member `name` is this text; PD_JSON_NONE if there is none. */
pd_json pd_ledger_find(pd_json list, const char *name, const char *text);
/* A member that is text, decoded; false if it is none, or is empty or too long for an id. */
bool pd_ledger_id(pd_json entry, const char *name, pd_agent_id *out);
uint64_t pd_ledger_number(pd_json entry, const char *name);

#endif
