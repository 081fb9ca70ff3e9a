/*
 * transfer.h: history as bundles, from and to a store here or one on a server: as pd_export, pd_import and pd_transfer, with a session in
 * place of the store. Of a server's store, a bundle is one request (decision 097).
 */
#ifndef PD_CMD_TRANSFER_H
#define PD_CMD_TRANSFER_H

#include "cli.h"

#include <perdure/thread.h>

PD_MUST_USE pd_code transfer_export(cli_session *from, int fd, const pd_export_options *options, pd_export_report *out, pd_error *err);
/* `fd` is read from its beginning. */
PD_MUST_USE pd_code transfer_import(cli_session *to, int fd, const pd_import_options *options, pd_import_report *out, pd_error *err);
PD_MUST_USE pd_code transfer_bring(cli_session *from, cli_session *to, const pd_transfer_options *options, pd_import_report *out,
                                   pd_error *err);

/* pd_remote_get and pd_remote_set. */
PD_MUST_USE pd_code transfer_remote_get(cli_session *cli, const char *name, pd_buf *out_uri, pd_buf *out_agent, pd_error *err);
PD_MUST_USE pd_code transfer_remote_set(cli_session *cli, const char *name, const char *uri, const char *agent, pd_error *err);
/* pd_forward. */
PD_MUST_USE pd_code transfer_forward(cli_session *cli, const char *ref, const char *at, bool *out_moved, pd_error *err);

/* Of a server's store: the lines of pd_thread_export into `fd`; pd_thread_import of what is in `fd`. */
PD_MUST_USE pd_code transfer_thread_export(cli_session *from, const char *id, int fd, pd_error *err);
PD_MUST_USE pd_code transfer_thread_import(cli_session *to, int fd, const pd_thread_import_options *options, pd_thread_replay_report *out,
                                           pd_error *err);

#endif
