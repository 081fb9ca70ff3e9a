/*
 * last_id.h: ids of a second (snap-20261115T100000Z, -2, -3…) that are never given out twice, though the files that had them are removed.
 *
 * FOLDER/.last has one line: the latest second that an id was made of, and the greatest number that was put behind one. An id of a later
 * second needs no number; any other gets one that is greater than all before, in whatever second: so no id comes again when the clock
 * goes back either. The folder is locked from the look until the id is taken. The file is replaced as a whole: after a crash the old or the
 * new line is there.
 *
 * If it is gone or damaged all the same (somebody edited it), the files that are there say what was given out: ids after the greatest of
 * them follow.
 */
#ifndef PD_STATE_LAST_ID_H
#define PD_STATE_LAST_ID_H

#include <perdure/perdure.h>

#define PD_LAST_STAMP_SIZE 17 /* 20261115T100000Z and its NUL */

typedef struct pd_last_id {
  int fd; /* of the folder, locked */
  char stamp[PD_LAST_STAMP_SIZE];
  unsigned number;
} pd_last_id;

/* Lock and read it; `folder` is a path. To be finished with pd_last_id_done, also after a failure. */
PD_MUST_USE pd_code pd_last_id_open(const char *folder, pd_last_id *out, pd_error *err);
/* The same by the folder's descriptor, which stays the caller's. */
PD_MUST_USE pd_code pd_last_id_open_at(int folder, pd_last_id *out, pd_error *err);
/* The first number that an id of this second may have; 1: none behind it. */
unsigned pd_last_id_next(const pd_last_id *last, const char stamp[PD_LAST_STAMP_SIZE]);
/* The id is taken: write it down, and see to it that it lasts. */
PD_MUST_USE pd_code pd_last_id_keep(pd_last_id *last, const char stamp[PD_LAST_STAMP_SIZE], unsigned number, pd_error *err);
void pd_last_id_done(pd_last_id *last);

#endif
