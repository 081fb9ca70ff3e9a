/* redis.h: a real redis-server for a row, on a socket, with its append-only file in the row's folder. */
#ifndef BENCH_REDIS_H
#define BENCH_REDIS_H

#include <perdure/perdure.h>
#include <sys/types.h>

#include "folder.h"

/* Zero-initialise; bench_redis_stop. */
typedef struct bench_redis {
  pid_t pid;
  char folder[BENCH_PATH_SIZE]; /* of its files */
  char nest[64];                /* of its socket: paths of sockets are short */
  char uri[128];                /* for pd_storage_open */
} bench_redis;

/* Start it and wait until it answers. PD_STORAGE if the program is not there or does not start. */
PD_MUST_USE pd_code bench_redis_start(const char *parent, bench_redis *out, pd_error *err);
/* Kill it and wait for its end. Takes one that did not start. */
void bench_redis_stop(bench_redis *redis);

#endif
