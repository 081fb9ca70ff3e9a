/* graph.h: `log --graph`: the lanes of history. */
#ifndef PD_CMD_GRAPH_H
#define PD_CMD_GRAPH_H

#include "cli.h"

/* Draw the commits that the refs reach (query->at or ->ref: that one alone; ->whole_store: also what no ref reaches any more). */
PD_MUST_USE pd_code graph_print(cli_session *cli, const pd_log_query *query, pd_error *err);

#endif
