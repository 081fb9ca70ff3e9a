/* last_id.c: see last_id.h. */
#include "state/last_id.h"

#include "base/base.h"
#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define FILE_NAME ".last"
#define NUMBER_DIGITS 10
#define LINE_SIZE (PD_LAST_STAMP_SIZE - 1 + 1 + NUMBER_DIGITS + 1) /* STAMP NUMBER and a newline, always as long: it is written in place */

static void read_line(pd_last_id *last)
{
  char text[LINE_SIZE + 1] = {0};
  const char *number = text + PD_LAST_STAMP_SIZE;
  last->stamp[0] = 0;
  last->number = 1;
  if (pread(last->fd, text, LINE_SIZE, 0) != LINE_SIZE || text[LINE_SIZE - 1] != '\n' || text[PD_LAST_STAMP_SIZE - 1] != ' ') return;
  if (strspn(number, "0123456789") != NUMBER_DIGITS) return;
  memcpy(last->stamp, text, PD_LAST_STAMP_SIZE - 1);
  last->stamp[PD_LAST_STAMP_SIZE - 1] = 0;
  last->number = (unsigned)strtoul(number, NULL, 10);
}

pd_code pd_last_id_open_at(int folder, pd_last_id *out, pd_error *err)
{
  out->fd = openat(folder, FILE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (out->fd < 0) return pd_file_refused(err, "open", FILE_NAME);
  while (flock(out->fd, LOCK_EX) != 0)
    if (errno != EINTR) return pd_file_refused(err, "lock", FILE_NAME);
  read_line(out);
  return PD_OK;
}

pd_code pd_last_id_open(const char *folder, pd_last_id *out, pd_error *err)
{
  out->fd = -1;
  CLEANUP(pd_fd_done) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return pd_file_refused(err, "open", folder);
  return pd_last_id_open_at(fd, out, err);
}

unsigned pd_last_id_next(const pd_last_id *last, const char stamp[PD_LAST_STAMP_SIZE])
{
  return strcmp(stamp, last->stamp) > 0 ? 1 : last->number + 1;
}

pd_code pd_last_id_keep(pd_last_id *last, const char stamp[PD_LAST_STAMP_SIZE], unsigned number, pd_error *err)
{
  char text[LINE_SIZE + 1];
  if (strcmp(stamp, last->stamp) > 0) memcpy(last->stamp, stamp, PD_LAST_STAMP_SIZE);
  if (number > last->number) last->number = number;
  snprintf(text, sizeof text, "%s %0*u\n", last->stamp, NUMBER_DIGITS, last->number);
  errno = 0;
  if (pwrite(last->fd, text, LINE_SIZE, 0) == LINE_SIZE && fdatasync(last->fd) == 0) return PD_OK;
  if (!errno) errno = ENOSPC; /* a part was written */
  return pd_file_refused(err, "write", FILE_NAME);
}

void pd_last_id_done(pd_last_id *last)
{
  pd_fd_done(&last->fd);
}
