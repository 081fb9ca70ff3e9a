/* notify.c: see notify.h. */
#include "wire/notify.h"

#include "base/base.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_SIZE_MAX 2048

/* A path, or @NAME for one that is in no folder. */
static bool take_address(pd_notify *notify, const char *path)
{
  size_t size = strlen(path);
  if ((*path != '/' && *path != '@') || size < 2 || size >= sizeof notify->to.sun_path) return false;
  notify->to = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(notify->to.sun_path, path, size);
  if (*path == '@') notify->to.sun_path[0] = 0;
  notify->to_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (*path == '/'));
  return true;
}

/* Is it for this process? Without $WATCHDOG_PID it is for whoever reads it. */
static int64_t watchdog_of(const char *us, const char *pid)
{
  if (!us || (pid && strtoll(pid, NULL, 10) != getpid())) return 0;
  int64_t ms = strtoll(us, NULL, 10) / 1000;
  return ms > 0 ? ms : 0;
}

void pd_notify_open(pd_notify *notify)
{
  const char *path = getenv("NOTIFY_SOCKET");
  *notify = (pd_notify){.fd = -1};
  if (path && take_address(notify, path)) notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (notify->fd >= 0) notify->watchdog_ms = watchdog_of(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"));
  unsetenv("NOTIFY_SOCKET");
  unsetenv("WATCHDOG_USEC");
  unsetenv("WATCHDOG_PID");
}

void pd_notify_close(pd_notify *notify)
{
  if (notify->fd >= 0) close(notify->fd);
  notify->fd = -1;
}

void pd_notify_say(const pd_notify *notify, const char *fmt, ...)
{
  char text[MESSAGE_SIZE_MAX];
  va_list args;
  if (notify->fd < 0) return;
  va_start(args, fmt);
  int size = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (size <= 0) return;
  if (size >= (int)sizeof text) size = sizeof text - 1;
  (void)!sendto(notify->fd, text, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&notify->to, notify->to_size);
}
