/*
 * crash.h: what the torture programs share: seeds, how much of it, a scratch folder, values that can be recomputed.
 *
 * Each program runs short within `make test` and in full with PERDURE_TORTURE=full (`make torture`). PERDURE_SEED replays a run.
 */
#ifndef PD_TESTS_CRASH_CRASH_H
#define PD_TESTS_CRASH_CRASH_H

#include <perdure/perdure.h>

/* `small` in make test, `full` in make torture. */
uint64_t crash_count(uint64_t small, uint64_t full);

/* May a test end that wants so many lives, in which something was seen to be done? One whose lives are short for the machine gets more of
 * them, up to ten times as many. */
bool crash_is_enough(uint64_t lives, uint64_t lives_wanted, bool is_tested);

/* Print the seed of this run, from PERDURE_SEED or the system; start the random numbers with it. */
void crash_seed(void);
uint64_t crash_random(uint64_t below);

#define CRASH_PATH_MAX 256
#define CRASH_URI_MAX (CRASH_PATH_MAX + 128)

/* A new folder under TMPDIR or /tmp; removed by crash_scratch_remove. */
void crash_scratch(char out[CRASH_PATH_MAX]);
void crash_scratch_remove(const char *folder);
/* Copy the files of a folder into a new one; false if that failed. */
bool crash_copy(const char *from, const char *to);
/* Remove the files of a folder and itself. */
void crash_remove(const char *folder);

/* The bytes of a value that a writer made with this number; mostly small, sometimes large enough for the bag. `out` is replaced. */
void crash_value(uint64_t number, pd_buf *out);
/* The number of such a value; false if the bytes are not what crash_value makes. */
bool crash_value_number(pd_bytes value, uint64_t *out_number);

/* Verify the store and print its findings; PD_OK if there are none. */
pd_code crash_verify(pd_store *store, pd_error *err);

#endif
