/* snapshot.h: a snapshot's document, taken apart. */
#ifndef PD_STORAGE_SNAPSHOT_H
#define PD_STORAGE_SNAPSHOT_H

#include "base/json.h"

#include <perdure/storage.h>

typedef struct pd_snapshot_parts {
  pd_json top, memory, history, variables, events; /* slices of the document */
  pd_json effects, replies;                        /* the lists of the member `perdure`; PD_JSON_NONE where there is none */
} pd_snapshot_parts;

/* The parts and the facts (without counts) of a document that pd_snapshot_check took before: it is not checked again, which at a large one
 * costs more than all else of a save. */
PD_MUST_USE pd_code pd_snapshot_split(pd_bytes document, const char *agent_id, pd_snapshot_parts *out, pd_snapshot *out_facts,
                                      pd_error *err);

#endif
