/*
 * notify.h: telling whoever started us how we are, in systemd's way: datagrams of NAME=VALUE lines to $NOTIFY_SOCKET. Nobody has to listen.
 */
#ifndef PD_WIRE_NOTIFY_H
#define PD_WIRE_NOTIFY_H

#include <perdure/perdure.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct pd_notify {
  int fd; /* -1: nobody wants to know */
  struct sockaddr_un to;
  socklen_t to_size;
  int64_t watchdog_ms; /* without a sign of life for so long we are killed; 0: never */
} pd_notify;

/* From $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, which are taken out of the environment. Before there are threads. */
void pd_notify_open(pd_notify *notify);
void pd_notify_close(pd_notify *notify);
/* One datagram; printf. What cannot be sent is dropped: the server is what counts. */
void pd_notify_say(const pd_notify *notify, const char *fmt, ...) PD_PRINTF(2, 3);

#endif
