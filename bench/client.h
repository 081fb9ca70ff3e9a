/*
 * client.h: many clients of a server in one thread: each has a connection, asks, waits for the whole answer, asks again.
 *
 * Key i of 1,024 is "task.i", i in four digits. Client c of 64 writes the 16 keys from 16 × c on, one after the other, so its t-th write
 * makes version t / 16 + 1 of its key; it reads all keys. All sides have the same keys and values, and answers are checked.
 */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include "bench.h"

#define BENCH_CLIENT_COUNT 64
#define BENCH_KEYS_EACH 16
#define BENCH_WIRE_KEYS (BENCH_CLIENT_COUNT * BENCH_KEYS_EACH)
#define BENCH_WIRE_VALUE "{\"step\":12345,\"plan\":[\"look\",\"think\",\"write\"],\"note\":\"a value of about a hundred bytes in all..\"}"
#define BENCH_ANSWER_SIZE_MAX 8192

typedef struct bench_client {
  int fd;
  uint32_t index;
  uint64_t written, read; /* turns of each kind */
  uint64_t begun_at;      /* as many turns of the run's kind it had when the run began */
  uint32_t round;         /* senders: which queue, mailbox, index, thread or list they send to */
  uint32_t leaves;        /* threads: so many the state has besides its counter */
  uint32_t agents;        /* agents: so many take turns */
  uint32_t stream;        /* HTTP/2: the last one */
  bool has_message;       /* HTTP/2: the answer's message was seen */
  bool is_waiting;
  bool is_writing; /* what it waits for is a write */
  double begun;
  pd_buf out; /* to be sent, from `sent` on */
  size_t sent;
  char in[BENCH_ANSWER_SIZE_MAX];
  size_t in_size;
} bench_client;

/* How to talk to a server. */
typedef struct bench_speech {
  const char *hello; /* bytes that a connection begins with */
  size_t hello_size;
  /* Append the question to `out`. */
  pd_code (*ask)(bench_client *client, uint32_t key, pd_error *err);
  /* Look at `in`; `*out_used` bytes of it are done with. `*out_is_whole`: that was the answer. PD_CORRUPT if it is wrong. */
  pd_code (*hear)(bench_client *client, size_t *out_used, bool *out_is_whole, pd_error *err);
} bench_speech;

extern const bench_speech bench_speech_shared;     /* perdure: state.shared.set and .get */
extern const bench_speech bench_speech_persistent; /* perdure: state.persistent.set and .get */
extern const bench_speech bench_speech_agents;     /* perdure: state.persistent.set, for the next of the client's agents each time */
extern const bench_speech bench_speech_redis;      /* SET and GET */
extern const bench_speech bench_speech_etcd;       /* gRPC: Put and Range (linearizable) */

/* perdure: senders to one thing, that of the client's `round`. A "read" makes what has to be there first. Any answer but 200 is wrong. */
extern const bench_speech bench_speech_queue;
extern const bench_speech bench_speech_mailbox;
extern const bench_speech bench_speech_alerts;
extern const bench_speech bench_speech_threads;
extern const bench_speech bench_speech_work;

/* Zero-initialise; bench_clients_done. */
typedef struct bench_clients {
  const bench_speech *speech;
  bench_client *clients; /* BENCH_CLIENT_COUNT */
  uint32_t asking;       /* so many of them ask; 0: all */
  int epoll;
  float *seconds; /* of each answer of the run */
  size_t count, room;
} bench_clients;

typedef struct bench_pace {
  double rate, mean_s, p99_s;
} bench_pace;

PD_MUST_USE pd_code bench_clients_open(bench_clients *fleet, const bench_speech *speech, int port, pd_error *err);
/* Ask for `duration_s`, or until each client has had `turns_max` answers of this run (0: no maximum). */
PD_MUST_USE pd_code bench_clients_run(bench_clients *fleet, bool is_writing, double duration_s, uint64_t turns_max, bench_pace *out,
                                      pd_error *err);
void bench_clients_done(bench_clients *fleet);

#endif
