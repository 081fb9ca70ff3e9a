/*
 * soak.h: a mixed load for hours: clients that do of everything a little, each knowing what has to be answered.
 *
 *  S1  An answer that is not among those that its question may have is a failure, and printed.
 *  S2  What clients keep is bounded: few keys each, threads and tokens that are removed, messages that are taken. So whatever of the server
 *      goes on growing with the number of requests is a leak.
 */
#ifndef PD_TESTS_CRASH_SOAK_H
#define PD_TESTS_CRASH_SOAK_H

#include "wire/server_world.h"

#include <pthread.h>
#include <stdatomic.h>

#define SOAK_CLIENTS 32
#define SOAK_AGENTS 4
#define SOAK_TOKEN_SIZE 160
#define SOAK_KINDS 12

typedef struct soak soak;

typedef struct soak_client {
  soak *soak;
  pthread_t thread;
  unsigned index, agent;
  uint64_t random;
  int fd; /* -1: none */
  char headers[SOAK_TOKEN_SIZE + 64];
  char last_id[64]; /* of the last event that it saw */
  uint64_t turn;
} soak_client;

struct soak {
  served *server;
  unsigned pause_ms; /* of a client between two things that it does */
  uint64_t seed;
  char operator[SOAK_TOKEN_SIZE], agents[SOAK_AGENTS][SOAK_TOKEN_SIZE];
  atomic_bool is_over;
  atomic_ullong requests, done[SOAK_KINDS]; /* done: what they did, by kind */
  atomic_uint failures;
  soak_client clients[SOAK_CLIENTS];
};

/* Make the tokens and let the clients begin. Aborts if the server gives no tokens. */
void soak_start(soak *s);
/* Let them finish what they do. */
void soak_end(soak *s);
/* What the index-th kind is called; NULL after the last. */
const char *soak_kind(unsigned index);

#endif
