/* daemon.h: a server for a row, ours or a peer, in a process of its own on a free port of loopback, with its files in the row's folder. */
#ifndef BENCH_DAEMON_H
#define BENCH_DAEMON_H

#include <perdure/perdure.h>
#include <sys/types.h>

#include "folder.h"

typedef enum bench_daemon_kind {
  BENCH_DAEMON_PERDURE, /* perdure serve, durable as it ships */
  BENCH_DAEMON_REDIS,   /* appendfsync always */
  BENCH_DAEMON_ETCD     /* one member, as it ships: it syncs before it answers */
} bench_daemon_kind;

/* Zero-initialise; bench_daemon_stop. */
typedef struct bench_daemon {
  pid_t pid;
  int port;
  char folder[BENCH_PATH_SIZE];
} bench_daemon;

/* Start it and wait until it answers. PD_STORAGE if the program is not there or does not start. */
PD_MUST_USE pd_code bench_daemon_start(const char *parent, bench_daemon_kind kind, bench_daemon *out, pd_error *err);
/* Kill it and wait for its end. Takes one that did not start. */
void bench_daemon_stop(bench_daemon *daemon);
/* Bytes of memory that are its own and resident. */
PD_MUST_USE pd_code bench_daemon_memory(const bench_daemon *daemon, uint64_t *out_bytes, pd_error *err);

/* A connection to a port of loopback, blocking, without Nagle's delay; reads give up after 20 s. */
PD_MUST_USE pd_code bench_connect(int port, int *out_fd, pd_error *err);

#endif
