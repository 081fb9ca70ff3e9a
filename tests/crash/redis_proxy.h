/*
 * redis_proxy.h: a proxy before a Redis server that mistreats saves (EVAL with a document): lets them pass, cuts the connection before or
 * after them, holds them back until the client has given up and sends them on over another connection, or sends them twice.
 */
#ifndef PD_TESTS_CRASH_REDIS_PROXY_H
#define PD_TESTS_CRASH_REDIS_PROXY_H

#include <sys/types.h>

typedef struct redis_proxy {
  pid_t pid;
  int port;
} redis_proxy;

/* Start one on a free port of the loopback interface. Of 100 saves so many are mistreated. */
redis_proxy redis_proxy_start(const char *socket_path, unsigned percent, unsigned seed);
void redis_proxy_stop(redis_proxy *proxy);

#endif
