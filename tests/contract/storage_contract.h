/*
 * storage_contract.h: the contract of include/perdure/storage_plugin.h as a test suite, written once for all storages, and what their
 * own tests share: documents, and a storage that has to open.
 */
#ifndef CONTRACT_STORAGE_CONTRACT_H
#define CONTRACT_STORAGE_CONTRACT_H

#include <perdure/storage.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct storage_contract_target {
  const char *name; /* begins each test's name */
  /* A URI where nothing is stored yet; freed by the suite. */
  char *(*uri_new)(void);
  /* Remove what the URI named, after every handle is closed. */
  void (*uri_destroy)(const char *uri);
  bool has_ticks;     /* old snapshots can be loaded */
  pd_lasting lasting; /* what durability says */
} storage_contract_target;

/* Run every clause, then the storage's own tests (one TAP plan for all); returns the number of failures. */
int storage_contract_run(const storage_contract_target *target, const struct CMUnitTest *own, size_t own_count);

/* ---- for own tests too ---- */

pd_storage *storage_open(const char *uri);
/* The open has to fail with this code and a message that has `says` in it. */
void storage_open_refused(const char *uri, pd_code code, const char *says);
/* A snapshot of `agent` at `tick` with so many messages; freed by the caller. */
char *snapshot_new(const char *agent, uint64_t tick, size_t messages);
void storage_save(pd_storage *storage, const char *agent, const char *document);
void storage_save_refused(pd_storage *storage, const char *agent, const char *document, pd_code code, const char *says);
/* What is loaded has to mean the same as `document`; NULL: there must be nothing. */
void storage_expect(pd_storage *storage, const char *agent, const char *document);
void storage_load_refused(pd_storage *storage, const char *agent, pd_code code, const char *says);
void expect_same_meaning(pd_bytes a, pd_bytes b);
/* The agents that are listed, with spaces between; freed by the caller. */
char *storage_names(pd_storage *storage);

#endif
