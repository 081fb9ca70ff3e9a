/*
 * crypto.h: libcrypto, made ready before it is used.
 *
 * OpenSSL 3 sets up its default context when it is first needed. If there is no memory for that, the functions that need it crash (3.0:
 * SIGSEGV in EVP_KDF_fetch and its kin) instead of failing. Asked for the context itself, it answers; once it is there, they fail properly.
 */
#ifndef PD_BASE_CRYPTO_H
#define PD_BASE_CRYPTO_H

#include <perdure/perdure.h>

/* To be tried before the first use of libcrypto, other than SHA-256. PD_NO_MEMORY if it could not be set up, which OpenSSL does not try a
 * second time: the process has to be started again. Costs nothing once it succeeded. */
PD_MUST_USE pd_code pd_crypto_ready(pd_error *err);

#endif
