/* sign.h: Ed25519 over bytes, for sign.c. Private to src/engine; the keys themselves are include/perdure/proof.h. */
#ifndef PD_ENGINE_SIGN_H
#define PD_ENGINE_SIGN_H

#include <perdure/perdure.h>

#define PD_SIGNATURE_SIZE 64

PD_MUST_USE pd_code pd_sign_bytes(const pd_sign_key *key, pd_bytes message, uint8_t out[PD_SIGNATURE_SIZE], pd_error *err);
/* Did the owner of `key` sign just these bytes? */
PD_MUST_USE pd_code pd_signature_check(const pd_public_key *key, pd_bytes message, const uint8_t signature[PD_SIGNATURE_SIZE],
                                       bool *out_is_right, pd_error *err);

#endif
