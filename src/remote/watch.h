/*
 * watch.h: the changes of a store on a server, one after the other, as pd_watch_open and pd_watch_next tell those of a store here:
 * GET /v1/watch, a stream of events. A stream that breaks is taken up where it ended; if that fails, so does pd_remote_watch_next.
 */
#ifndef PD_REMOTE_WATCH_H
#define PD_REMOTE_WATCH_H

#include <perdure/perdure.h>

typedef struct pd_remote_watch pd_remote_watch;

/* As pd_watch_open, of the store `name` on the server `uri`. */
PD_MUST_USE pd_code pd_remote_watch_open(const char *uri, const char *name, const pd_watch_options *options, pd_remote_watch **out,
                                         pd_error *err);
/* As pd_watch_next. With 0 it waits for the server to say that there is nothing more. A signal ends the wait: PD_NOT_FOUND. */
PD_MUST_USE pd_code pd_remote_watch_next(pd_remote_watch *watch, uint32_t timeout_ms, pd_watch_event *out, pd_error *err);
/* As pd_watch_where. */
pd_watch_cursor pd_remote_watch_where(const pd_remote_watch *watch);
/* Takes NULL. */
void pd_remote_watch_close(pd_remote_watch *watch);

#endif
