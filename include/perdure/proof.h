/* proof.h: proofs of keys and of descent, signed heads. Included by perdure.h; errors, lifetimes and `at` are explained there. */
#ifndef PERDURE_PROOF_H
#define PERDURE_PROOF_H

#include <perdure/perdure.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
