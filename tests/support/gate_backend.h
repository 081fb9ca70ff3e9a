/*
 * gate_backend.h: a backend around another, `gate:memory:NAME` or `gate:sqlite:DIR`, whose calls you stop and let go: a disk that is as
 * slow as the test needs it. Handles that are opened without "gate:" go their own way.
 *
 *     gate_backend_install();
 *     gate_shut(GATE_LOG_APPEND);          // appends through the gate wait from now on
 *     … start a thread that puts …
 *     gate_await(1);                       // it is inside log_append
 *     … what must hold meanwhile …
 *     gate_open();                         // or gate_open_with(PD_FULL): what waits fails, and has done nothing
 *
 * There is one gate for the whole process.
 */
#ifndef SUPPORT_GATE_BACKEND_H
#define SUPPORT_GATE_BACKEND_H

#include <perdure/backend.h>

/* LOG_RANGE: a LOG_READ of more than one record. */
typedef enum gate_op { GATE_LOG_APPEND = 1, GATE_LOG_READ = 2, GATE_BAG_GET = 4, GATE_LOG_RANGE = 8 } gate_op;

/* Register the scheme; may be called again. Opens the gate. */
void gate_backend_install(void);
/* Calls of these kinds wait from now on, before they do anything. */
void gate_shut(unsigned ops);
/* All go on. */
void gate_open(void);
/* Those that wait fail with `code`; later ones are let through. */
void gate_open_with(pd_code code);
/* Let those that wait now go on, and keep the gate shut for the next. */
void gate_pass(void);
/* Wait until `count` calls wait at the gate. A test that hangs here is killed by its time limit. */
void gate_await(unsigned count);
/* Before each append through the gate `fn` is called, in the thread that appends: for a rival who always comes first (through a handle that
 * does not go through the gate), or a disk that takes its time. `store` is the store's name. NULL: none. */
void gate_before_append(void (*fn)(void *ctx, const char *store), void *ctx);
/* The same before each bag_get through the gate. */
void gate_before_get(void (*fn)(void *ctx), void *ctx);
/* Calls of these kinds since the last reset; and the records that log_read visited. */
uint64_t gate_calls(unsigned ops);
uint64_t gate_records_read(void);
void gate_reset_counts(void);

#endif
