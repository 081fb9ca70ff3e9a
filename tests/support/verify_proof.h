/* verify_proof.h: tools/verify-proof.c, the verifier that knows nothing of the library, as a part of a test: `check` and `shown`. */
#ifndef PD_TESTS_SUPPORT_VERIFY_PROOF_H
#define PD_TESTS_SUPPORT_VERIFY_PROOF_H

int verify_proof_main(int argc, char **argv);

#define main verify_proof_main
#include "../../tools/verify-proof.c"
#undef main

#endif
