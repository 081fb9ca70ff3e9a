/*
 * load.h: fill a side, and keep filled folders for the rows that share them.
 *
 * Fixtures are made by a child process, so that the row that reads them begins with a clean heap, and stay in the benchmark's
 * folder until it ends. Rows that share one must not change its main ref.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench.h"
#include "folder.h"
#include "side.h"

/* Put version 0 of keys 0…key_count-1, in scattered order, in `commit_count` commits of equal size (at most one a key; one key
 * each if they are as many). */
PD_MUST_USE pd_code bench_load(bench_side *side, uint32_t key_count, uint32_t commit_count, uint64_t seed, pd_error *err);

typedef enum bench_fixture_kind { BENCH_FIXTURE_PERDURE, BENCH_FIXTURE_LMDB, BENCH_FIXTURE_SQLITE } bench_fixture_kind;

/* The folder of a loaded and closed side, made unless it is there. By a fork: call it before anything is opened. `commit_count` 0: a
 * commit for every 1,000 keys. */
PD_MUST_USE pd_code bench_fixture(bench *b, bench_fixture_kind kind, uint32_t key_count, uint32_t commit_count,
                                  char out_path[BENCH_PATH_SIZE], pd_error *err);

#endif
