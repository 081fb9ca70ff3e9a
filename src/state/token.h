/*
 * token.h: tokens as they are stored: the value at token/ID in the store `system`, a JSON object (docs/formats.md). Its hash is SHA-256 of
 * the token's whole text: 32 random bytes are in it, so there is nothing to guess and nothing to slow down.
 */
#ifndef PD_STATE_TOKEN_H
#define PD_STATE_TOKEN_H

#include "base/json.h"
#include "state/home.h"

#include <perdure/token.h>

typedef struct pd_token {
  pd_token_info info;
  char label[PD_TOKEN_SCOPE_SIZE];
  pd_id hash, old_hash;
  int64_t created_ms, rotated_ms, old_until_ms;
} pd_token;

/* One that requests hold; it does not change. */
typedef struct pd_held_token {
  pd_token token; /* first, and its info first in it: what others see */
  pd_id value_id; /* of what is stored */
  atomic_uint holders;
} pd_held_token;

/* ---- token_cache.c (K1 to K3) ---- */

PD_MUST_USE pd_code pd_tokens_new(pd_tokens **out, pd_error *err);
void pd_tokens_free(pd_tokens *tokens);
/* The store `system`. */
PD_MUST_USE pd_code pd_tokens_store(pd_home *home, pd_store **out, pd_error *err);
/* The token that was good when the store's mark was `*out_mark`; held for the caller. NULL: it has to be read. */
pd_held_token *pd_tokens_find(pd_tokens *tokens, const char *id, const pd_id *given, pd_store_mark *out_mark);
/* It was as it is stored after the store's mark was `mark`. */
void pd_tokens_keep(pd_tokens *tokens, pd_held_token *token, const pd_store_mark *mark);
/* A token with this text is not good any more. */
void pd_tokens_forget(pd_tokens *tokens, const char *id, const pd_id *given);

/* ---- token.c ---- */

#define PD_TOKEN_KEY_SIZE (6 + PD_TOKEN_ID_SIZE)

/* Is it what an id looks like: 16 hex digits? Writes the key. */
bool pd_token_key(pd_bytes id, char out[PD_TOKEN_KEY_SIZE]);
/* PD_CORRUPT if it is not as we write it. */
PD_MUST_USE pd_code pd_token_decode(const char *id, pd_bytes text, pd_token *out, pd_error *err);
PD_MUST_USE pd_code pd_token_encode(const pd_token *token, pd_buf *out, pd_error *err);
/* A member with what a token is limited to; nothing if it is not. */
void pd_token_put_list(pd_json_writer *w, const char *key, const char (*items)[PD_TOKEN_SCOPE_SIZE]);
/* PD_NOT_FOUND named TokenNotFound. `out_version` may be NULL. */
PD_MUST_USE pd_code pd_token_load(pd_home *home, pd_bytes id, pd_token *out, uint64_t *out_version, pd_error *err);

#endif
