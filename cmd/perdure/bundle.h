/* bundle.h: how an import is shown; shared by import, clone, push and pull. */
#ifndef PD_CMD_BUNDLE_H
#define PD_CMD_BUNDLE_H

#include "cli.h"
#include "progress.h"

typedef struct bundle_view {
  cli_session *cli;
  progress_bar bar;
  out_stream lines;    /* of the refs, for people */
  pd_buf json;         /* of the refs, the inside of an array */
  pd_json_writer refs; /* on it */
} bundle_view;

/* Before the store is opened: as large values as there are, and little memory. */
void bundle_prepare(cli_session *cli);
void bundle_view_init(bundle_view *view, cli_session *cli, const char *what, pd_error *err);
void bundle_view_done(bundle_view *view);
/* Open a file to read it from anywhere; what comes from standard input ("-") is kept in one without a name. */
PD_MUST_USE pd_code bundle_open(const char *path, int *out_fd, pd_error *err);
/* For pd_import_options, with the view as ctx. */
void bundle_take_ref(void *view, const pd_import_ref *ref);
bool bundle_progress(void *view, uint64_t done, uint64_t total);
PD_MUST_USE pd_code bundle_print(bundle_view *view, const pd_import_report *report, bool is_dry_run, pd_error *err);

#endif
