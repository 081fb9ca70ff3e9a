/*
 * fuzz.h: one fuzz target a file, each for one parser. `make fuzz` links them with libFuzzer; `make test` links them with replay.c, which
 * runs the corpus and some thousand mutations of it.
 *
 * A target aborts when something is wrong (FUZZ_REQUIRE) or leaves it to the sanitizers. It keeps no state between two inputs but what
 * was set up with the first.
 */
#ifndef PD_TESTS_FUZZ_FUZZ_H
#define PD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_REQUIRE(claim)                                                                                                                \
  do {                                                                                                                                     \
    if (!(claim)) {                                                                                                                        \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                                                                  \
      abort();                                                                                                                             \
    }                                                                                                                                      \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
