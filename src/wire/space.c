/*
 * space.c: whether the disk is full, as the server's calls found it. It is full from the first call that was refused for want of space
 * until a second went by without such a call and the home's folder takes bytes again.
 */
#include "base/base.h"
#include "base/file.h"
#include "wire/http.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define TRIAL_SIZE ((size_t)64 * 1024) /* more than a commit with a small value needs */

bool pd_space_is_full(const pd_server *server)
{
  return atomic_load(&server->is_full) || pd_metrics_full_count(server->metrics) != atomic_load(&server->full_count_seen);
}

/* Asking the file system how much it has would not tell of quotas and limits. */
static bool takes_bytes(const pd_server *server)
{
  static const char zeros[TRIAL_SIZE];
  char path[4200];
  if (strncmp(server->options->uri, "sqlite:", 7) != 0) return true;
  snprintf(path, sizeof path, "%s/server.trial", server->options->uri + 7);
  CLEANUP(pd_fd_done) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool is_written = fd >= 0 && write(fd, zeros, sizeof zeros) == (ssize_t)sizeof zeros;
  unlink(path);
  return is_written;
}

void pd_space_tick(pd_server *server)
{
  const pd_log_options *log = &server->options->log;
  uint64_t count = pd_metrics_full_count(server->metrics);
  bool was_full = atomic_load(&server->is_full);
  bool is_full = count != atomic_load(&server->full_count_seen) || (was_full && !takes_bytes(server));
  atomic_store(&server->is_full, is_full); /* first: between the two it is full by either */
  atomic_store(&server->full_count_seen, count);
  if (is_full && !was_full) pd_log_say(log, PD_LOG_ERROR, "the disk is full: writes are refused until there is space");
  if (!is_full && was_full) pd_log_say(log, PD_LOG_INFO, "there is space again: writes are taken");
}
