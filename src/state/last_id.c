/* last_id.c: see last_id.h. */
#include "state/last_id.h"

#include "base/base.h"
#include "base/error.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define FILE_NAME ".last"
#define DRAFT_NAME ".last.part" /* one name is enough under the lock, and what a crash left is written over */
#define NUMBER_DIGITS 10
#define NUMBER_MAX 999999999
#define STAMP_LENGTH (PD_LAST_STAMP_SIZE - 1)
#define LINE_SIZE (STAMP_LENGTH + 1 + NUMBER_DIGITS + 1) /* STAMP NUMBER and a newline */

/* Does it begin with a second, 20261115T100000Z? */
static bool is_stamp(const char *text)
{
  return strspn(text, "0123456789") == 8 && text[8] == 'T' && strspn(text + 9, "0123456789") == 6 && text[15] == 'Z';
}

static void take(pd_last_id *last, const char *stamp, unsigned number)
{
  if (strncmp(stamp, last->stamp, STAMP_LENGTH) > 0) snprintf(last->stamp, sizeof last->stamp, "%.*s", STAMP_LENGTH, stamp);
  if (number > last->number) last->number = number;
}

/* False: it is not there, or is no line of ours. */
static bool read_line(pd_last_id *last)
{
  char text[LINE_SIZE + 1] = {0};
  const char *number = text + PD_LAST_STAMP_SIZE;
  CLEANUP(pd_fd_done) int fd = openat(last->fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 || pread(fd, text, LINE_SIZE, 0) != LINE_SIZE || text[LINE_SIZE - 1] != '\n' || text[STAMP_LENGTH] != ' ') return false;
  unsigned long n = strtoul(number, NULL, 10);
  if (!is_stamp(text) || strspn(number, "0123456789") != NUMBER_DIGITS || n > NUMBER_MAX) return false;
  take(last, text, (unsigned)n);
  return true;
}

/* KIND-STAMP or KIND-STAMP-NUMBER, and whatever follows. */
static void take_file(pd_last_id *last, const char *name)
{
  const char *stamp = strchr(name, '-');
  if (!stamp++ || !is_stamp(stamp)) return;
  unsigned long n = stamp[STAMP_LENGTH] == '-' ? strtoul(stamp + PD_LAST_STAMP_SIZE, NULL, 10) : 1;
  if (n <= NUMBER_MAX) take(last, stamp, (unsigned)n);
}

static pd_code read_files(pd_last_id *last, pd_error *err)
{
  int fd = openat(last->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) {
    pd_code code = pd_file_refused(err, "list", "the folder of " FILE_NAME);
    pd_fd_done(&fd);
    return code;
  }
  for (const struct dirent *entry; (entry = readdir(dir));) take_file(last, entry->d_name);
  closedir(dir);
  return PD_OK;
}

pd_code pd_last_id_open_at(int folder, pd_last_id *out, pd_error *err)
{
  *out = (pd_last_id){.fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .number = 1};
  if (out->fd < 0) return pd_file_refused(err, "open", "the folder of " FILE_NAME);
  while (flock(out->fd, LOCK_EX) != 0)
    if (errno != EINTR) return pd_file_refused(err, "lock", "the folder of " FILE_NAME);
  return read_line(out) ? PD_OK : read_files(out, err);
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

static pd_code write_draft(int folder, const char *line, pd_error *err)
{
  unlinkat(folder, DRAFT_NAME, 0);
  CLEANUP(pd_fd_done) int fd = openat(folder, DRAFT_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return pd_file_refused(err, "write", FILE_NAME);
  TRY(pd_fd_write(fd, line, LINE_SIZE, FILE_NAME, err));
  return fsync(fd) ? pd_file_refused(err, "write", FILE_NAME) : PD_OK;
}

pd_code pd_last_id_keep(pd_last_id *last, const char stamp[PD_LAST_STAMP_SIZE], unsigned number, pd_error *err)
{
  char text[LINE_SIZE + 1];
  take(last, stamp, number);
  snprintf(text, sizeof text, "%s %0*u\n", last->stamp, NUMBER_DIGITS, last->number);
  pd_code code = write_draft(last->fd, text, err);
  if (!code && renameat(last->fd, DRAFT_NAME, last->fd, FILE_NAME) != 0) code = pd_file_refused(err, "replace", FILE_NAME);
  if (code) unlinkat(last->fd, DRAFT_NAME, 0);
  if (!code && fsync(last->fd) != 0) code = pd_file_refused(err, "sync", "the folder of " FILE_NAME);
  return code;
}

void pd_last_id_done(pd_last_id *last)
{
  pd_fd_done(&last->fd);
}
