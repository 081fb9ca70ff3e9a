/*
 * progress.h: a bar on standard error while something takes long.
 *
 *     progress_bar bar;
 *     progress_init(&bar, cli, "verify");
 *     … progress_show(&bar, done, total) …     fits as the `progress` callback of the library, with &bar as ctx
 *     progress_clear(&bar);                    before anything else is printed, and at the end
 *
 * Nothing is drawn unless a person looks on: not with --json or --quiet, nor if standard error is no terminal.
 */
#ifndef PD_CMD_PROGRESS_H
#define PD_CMD_PROGRESS_H

#include "cli.h"

typedef struct progress_bar {
  const char *what; /* a word: "gc" */
  bool is_on, is_shown;
  int64_t drawn_ms;
} progress_bar;

/* `what` is borrowed for as long as the bar is used. */
void progress_init(progress_bar *bar, const cli_session *cli, const char *what);
/* Draw, at most ten times a second. `total` 0: not known, only `done` is shown. Always true: go on. */
bool progress_show(void *bar, uint64_t done, uint64_t total);
/* Take the bar off the screen; the next progress_show brings it back. */
void progress_clear(progress_bar *bar);

#endif
