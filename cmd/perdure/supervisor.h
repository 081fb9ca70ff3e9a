/*
 * supervisor.h: `perdure run`, taken apart: one process of the agent (supervisor_child.c), the end of what it wrote to standard error
 * (supervisor_tail.c), and the loop that starts it again and again (supervisor.c).
 *
 * V1  One thread. No store is open while a process is started: the home is opened for each event and closed again.
 * V2  All signals of interest are blocked and come through a signalfd; children get them back as they were.
 * V3  The process leads a group of its own. When it has ended, or its supervisor has, nothing of the group is left.
 */
#ifndef PD_CMD_SUPERVISOR_H
#define PD_CMD_SUPERVISOR_H

#include "cli.h"

#include <perdure/supervise.h>
#include <signal.h>
#include <sys/types.h>

/* ---- supervisor_tail.c ---- */

#define TAIL_SIZE 4096

/* The last TAIL_SIZE bytes. Zero-initialise. */
typedef struct tail {
  char bytes[TAIL_SIZE];
  size_t start, size;
} tail;

void tail_add(tail *t, const char *data, size_t size);
/* As UTF-8 of at most TAIL_SIZE bytes; what is none becomes U+FFFD, and the oldest goes if it does not fit. Returns its size. */
size_t tail_text(const tail *t, char out[TAIL_SIZE]);

/* ---- supervisor_child.c ---- */

#define TOKEN_SIZE 65 /* 256 random bits in hex, and NUL */

typedef struct child_plan {
  const pd_agent_config *config;
  const char *agent, *store, *storage;
  sigset_t mask; /* that the process gets */
} child_plan;

typedef struct child {
  pid_t pid, guard;
  int guard_fd;  /* a byte here, and the guard leaves in peace */
  int stderr_fd; /* what it writes to standard error; does not block */
  char token_hash[PD_ID_HEX_SIZE];
  int status; /* as of waitpid, once child_look has said that it ended */
} child;

/* Start it. On PD_NOT_FOUND or PD_DENIED the command is not there, or may not be run. */
PD_MUST_USE pd_code child_start(const child_plan *plan, child *out, pd_error *err);
/* To the whole group. */
void child_signal(const child *c, int signal);
/* Has it ended? If so, the rest of its group is ended, too, and c->status says how. */
bool child_look(child *c);
/* Close what is open. */
void child_done(child *c);

/* ---- supervisor.c ---- */

typedef struct supervisor_plan {
  child_plan child;
  const char *name; /* of the command, for people */
} supervisor_plan;

/* The signals of V2. Block them before anything else is done. */
void supervisor_signals(sigset_t *out);
/* Run it until there is no more reason to; cli->exit_code is its last one's, or 128 and its signal. */
PD_MUST_USE pd_code supervise(cli_session *cli, pd_supervisor *lock, const supervisor_plan *plan, pd_error *err);
/* One process event of the agent; what cannot be recorded is told on standard error. `fields` are members of an object, or "". */
void supervise_record(cli_session *cli, const char *agent, const char *event, const char *name, const char *fields);

#endif
