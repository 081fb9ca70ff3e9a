/*
 * alert.h: alerts: what agents tell the operator. A journal (journal.h) with the noun "alert":
 * {"severity","title","message","tags"?,"details"?,"session"?,"acknowledged_ms"?,"acknowledged_note"?}.
 */
#ifndef PD_STATE_ALERT_H
#define PD_STATE_ALERT_H

#include "state/journal.h"

typedef enum pd_alert_severity { PD_ALERT_INFO = 0, PD_ALERT_WARNING, PD_ALERT_ERROR, PD_ALERT_CRITICAL, PD_ALERT_COUNT } pd_alert_severity;

/* "info", "warning", "error", "critical". Static storage. */
const char *pd_alert_severity_name(pd_alert_severity severity);
/* Of a stored alert; PD_ALERT_INFO if it does not say. */
pd_alert_severity pd_alert_severity_of(pd_json alert);
bool pd_alert_is_acknowledged(pd_json alert);

typedef struct pd_alert_query {
  const char *const *owners; /* as pd_journal_query */
  int64_t since_ms;
  pd_alert_severity severity; /* or worse */
  bool only_open;             /* leave out what was acknowledged */
  size_t limit;
} pd_alert_query;

/* How many there are, of each severity, besides the list itself. */
typedef struct pd_alert_totals {
  uint64_t all, open, by_severity[PD_ALERT_COUNT];
} pd_alert_totals;

/* `out` is to be finished with pd_journal_done, also after a failure. `totals` may be NULL. */
PD_MUST_USE pd_code pd_alert_read(pd_home *home, const pd_alert_query *query, pd_journal_list *out, pd_alert_totals *totals, pd_error *err);
/* One alert as an object. */
void pd_alert_write(pd_json_writer *w, const pd_journal_item *item);
/* Members info, warning, error, critical. */
void pd_alert_write_totals(pd_json_writer *w, const pd_alert_totals *totals);

#endif
