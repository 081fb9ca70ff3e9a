/* contract_world.h: what the clauses of the contract suite share: a store at hand, records that can be told apart, processes. */
#ifndef CONTRACT_CONTRACT_WORLD_H
#define CONTRACT_CONTRACT_WORLD_H

#include "contract/backend_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct contract_world {
  const backend_contract_target *target;
  char *uri;
  const char *rest;
  const pd_backend_ops *ops;
} contract_world;

/* When a clause applies. */
typedef enum clause_needs {
  NEEDS_NOTHING,
  NEEDS_LASTING,
  NEEDS_PROCESSES,
  NEEDS_JOINT,
  NEEDS_JOINT_PROCESSES,
  NEEDS_GC_LOCK,
  NEEDS_GC_LOCK_PROCESSES
} clause_needs;

typedef struct clause {
  const char *name;
  CMUnitTestFunction test;
  clause_needs needs;
} clause;

#define CLAUSE(test)                                                                                                                       \
  {                                                                                                                                        \
#test, test, NEEDS_NOTHING                                                                                                             \
  }
#define CLAUSE_IF(test, needs)                                                                                                             \
  {                                                                                                                                        \
#test, test, needs                                                                                                                     \
  }

extern const clause log_clauses[], bag_clauses[], shared_clauses[], shed_clauses[], gc_lock_clauses[],
  joint_clauses[]; /* each ends with a NULL name */

/* Open `store`, creating it if need be; fails the test if that fails. */
pd_backend *world_open(contract_world *w, const char *store);
/* Close `b` and open the store again; a store that does not last is kept alive meanwhile. */
pd_backend *world_reopen(contract_world *w, pd_backend *b, const char *store);

#define RECORD_SIZE_MAX 512
/* The bytes that record `seq` has in these tests: different for each, of 0 to RECORD_SIZE_MAX - 1 bytes. */
pd_bytes record_of(uint64_t seq, uint8_t out[RECORD_SIZE_MAX]);
/* Append record_of(seq) … record_of(seq+count-1). */
pd_code append_numbered(pd_backend *b, uint64_t seq, size_t count, pd_error *err);
/* Append `count` numbered records one by one wherever the tail is, reading the tail again after each conflict. */
pd_code append_anywhere(pd_backend *b, size_t count, pd_error *err);
/* The log is exactly record_of(1) … record_of(tail), in order, as log_read, log_tail and log_tail_hint tell it. */
void expect_numbered_log(pd_backend *b, uint64_t tail);

/* The numbers visited by a log_read, for tests that want less than all. */
typedef struct seq_list {
  uint64_t seqs[4096];
  size_t count;
} seq_list;
pd_code collect_seq(void *ctx, uint64_t seq, pd_bytes record, pd_error *err);

pd_code put_text(pd_backend *b, const char *text, pd_id *out_id);
void expect_blob(pd_backend *b, const pd_id *id, pd_bytes want);

/* Run `work` in a child process that never returns here; its answer is the exit status. Returns the child's pid. */
int child_start(int (*work)(contract_world *w, int index), contract_world *w, int index);
/* Wait for it; its exit status, or -signal. */
int child_wait(int pid);

#endif
