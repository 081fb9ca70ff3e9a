/* process.h: process events, as other files of the room see them. */
#ifndef PD_STATE_PROCESS_H
#define PD_STATE_PROCESS_H

#include "state/journal.h"

/* `owners` as in pd_journal_query. `out` is to be finished with pd_journal_done, also after a failure. */
PD_MUST_USE pd_code pd_process_read(pd_home *home, const char *const *owners, int64_t since_ms, size_t limit, pd_journal_list *out,
                                    pd_error *err);
/* One event as an object. */
void pd_process_write(pd_json_writer *w, const pd_journal_item *item);

#endif
