/*
 * backend_contract.h: the contract of include/perdure/backend.h as a test suite, written once for all backends.
 *
 * A backend's own test is a few lines: describe it, add what only it has, call backend_contract_run.
 */
#ifndef CONTRACT_BACKEND_CONTRACT_H
#define CONTRACT_BACKEND_CONTRACT_H

#include <perdure/backend.h>

typedef struct backend_contract_target {
  const char *name; /* begins each test's name */
  /* A URI where no store is yet; freed by the suite. */
  char *(*uri_new)(void);
  /* Remove what the URI named, after every handle is closed. */
  void (*uri_destroy)(const char *uri);
  bool is_lasting;    /* a store survives its last handle, and the process */
  bool is_shareable;  /* several processes can have it open */
  bool has_no_claims; /* log_claim is optional, and it has none: B12 is left out */
  bool has_joint;     /* joint commits are optional: without them B20 is left out, but for their absence */
  bool has_gc_lock;   /* the same with B21 */
} backend_contract_target;

struct CMUnitTest;

/* Run every clause, then the backend's own tests (one TAP plan for all); returns the number of failures. */
int backend_contract_run(const backend_contract_target *target, const struct CMUnitTest *own, size_t own_count);

#endif
