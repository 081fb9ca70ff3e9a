/* crypto.c: see crypto.h. */
#include "base/crypto.h"

#include "base/error.h"

#include <openssl/crypto.h>

pd_code pd_crypto_ready(pd_error *err)
{
  if (OSSL_LIB_CTX_get0_global_default()) return PD_OK;
  return pd_error_set(err, PD_NO_MEMORY, "no memory to set up libcrypto: start the program again");
}
