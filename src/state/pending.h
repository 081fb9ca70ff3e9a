/* pending.h: approvals as briefings and snapshots tell them: read from approvals:pending and approvals:history, never changed. */
#ifndef PD_STATE_PENDING_H
#define PD_STATE_PENDING_H

#include "base/json.h"
#include "state/home.h"

/* One approval of a list. Borrowed until the visitor returns. */
typedef struct pd_pending {
  pd_json id, agent, capability, status, decided_by, reason;
  int64_t created_ms, expires_ms, decided_ms; /* 0: none */
} pd_pending;

/* Visit the pending approvals of `agent` (NULL: of all) that have not expired by `now_ms`, the oldest first. */
PD_MUST_USE pd_code pd_pending_each(pd_home *home, const char *agent, int64_t now_ms, void (*visit)(void *ctx, const pd_pending *item),
                                    void *ctx, pd_error *err);
/* Visit the decided (or expired) ones of `agent`, the oldest first. */
PD_MUST_USE pd_code pd_decided_each(pd_home *home, const char *agent, int64_t since_ms, void (*visit)(void *ctx, const pd_pending *item),
                                    void *ctx, pd_error *err);
/* An object with id, agent, capability and times; never the inputs. */
void pd_pending_write(pd_json_writer *w, const pd_pending *item);

#endif
