/* record.h: a record of the log as a paragraph, a line, or JSON. Used by log, show and graph. */
#ifndef PD_CMD_RECORD_H
#define PD_CMD_RECORD_H

#include "cli.h"
#include "names.h"

/* How many changes a paragraph of `log` shows; `show` has them all. */
#define RECORD_CHANGES_SHOWN 10

/* Like git's log: id, who, when, why, what. `names` may be NULL. */
void record_print(out_stream *o, const pd_record *record, const names_list *names, size_t changes_max);
/* One line: short id, refs, why or what. */
void record_print_line(out_stream *o, const pd_record *record, const names_list *names);
/* The reason, or the changes in a few words. */
void record_print_summary(out_stream *o, const pd_record *record);
void record_print_change(out_stream *o, const pd_change *change);
void record_json(pd_json_writer *w, const pd_record *record);

#endif
