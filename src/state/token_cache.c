/*
 * token_cache.c: tokens that were good a moment ago, so that a request is not preceded by a read of the store `system`.
 *
 * K1  What is kept holds as long as the store's mark (pd_store_newest) is the one that was taken before it was read. If it is another, the
 *     id of the token's value is looked up, and the token is read again unless that is the same. So a token that any process revokes or
 *     changes is refused or read by the next request, and nothing has to be invalidated.
 * K2  A token is kept by its id and the hash of the text that was given; a text that is not good is never kept and replaces nothing.
 *     One that is not good any more goes when its text is given: revoked tokens take no memory.
 *     What a connection remembers (pd_token_memory) holds by K1, too, and is not looked up by anything but the text itself.
 * K3  Time is not part of it: expiry is judged at each look-up (token.c).
 */
#include "base/base.h"
#include "base/error.h"
#include "state/token.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#define SLOTS 256 /* a token has one place, by its id: 4 KB each, and ids are random */

typedef struct slot {
  pd_held_token *token; /* NULL: none */
  pd_store_mark mark;
} slot;

struct pd_tokens {
  _Atomic(pd_store *) system; /* once it is open it stays */
  pthread_mutex_t lock;
  slot slots[SLOTS];
};

pd_code pd_tokens_new(pd_tokens **out, pd_error *err)
{
  pd_tokens *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a home");
  pthread_mutex_init(&made->lock, NULL);
  *out = made;
  return PD_OK;
}

void pd_tokens_free(pd_tokens *tokens)
{
  if (!tokens) return;
  for (size_t i = 0; i < SLOTS; i++)
    if (tokens->slots[i].token) pd_token_release(&tokens->slots[i].token->token.info);
  pthread_mutex_destroy(&tokens->lock);
  free(tokens);
}

pd_code pd_tokens_store(pd_home *home, pd_store **out, pd_error *err)
{
  *out = atomic_load_explicit(&home->tokens->system, memory_order_acquire);
  if (*out) return PD_OK;
  TRY(pd_home_store(home, PD_STORE_SYSTEM, true, out, err));
  atomic_store_explicit(&home->tokens->system, *out, memory_order_release);
  return PD_OK;
}

static unsigned digit_of(char c)
{
  return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10) & 15;
}

/* `id` has hex digits. */
static slot *slot_of(pd_tokens *tokens, const char *id)
{
  return &tokens->slots[digit_of(id[0]) << 4 | digit_of(id[1])];
}

/* Does it keep the token that has this text? */
static bool keeps(const slot *at, const char *id, const pd_id *given)
{
  return at->token && memcmp(at->token->token.info.id, id, PD_TOKEN_ID_SIZE - 1) == 0 &&
         CRYPTO_memcmp(at->token->token.info.hash.bytes, given->bytes, sizeof given->bytes) == 0;
}

pd_held_token *pd_tokens_find(pd_tokens *tokens, const char *id, const pd_id *given, pd_store_mark *out_mark)
{
  pd_held_token *found = NULL;
  pthread_mutex_lock(&tokens->lock);
  slot *at = slot_of(tokens, id);
  if (keeps(at, id, given)) {
    found = at->token;
    *out_mark = at->mark;
    atomic_fetch_add(&found->holders, 1);
  }
  pthread_mutex_unlock(&tokens->lock);
  return found;
}

void pd_tokens_keep(pd_tokens *tokens, pd_held_token *token, const pd_store_mark *mark)
{
  atomic_fetch_add(&token->holders, 1);
  pthread_mutex_lock(&tokens->lock);
  slot *at = slot_of(tokens, token->token.info.id);
  pd_held_token *before = at->token;
  *at = (slot){token, *mark};
  pthread_mutex_unlock(&tokens->lock);
  if (before) pd_token_release(&before->token.info);
}

void pd_tokens_forget(pd_tokens *tokens, const char *id, const pd_id *given)
{
  pd_held_token *gone = NULL;
  pthread_mutex_lock(&tokens->lock);
  slot *at = slot_of(tokens, id);
  if (keeps(at, id, given)) {
    gone = at->token;
    *at = (slot){0};
  }
  pthread_mutex_unlock(&tokens->lock);
  if (gone) pd_token_release(&gone->token.info);
}

/* ---- for everybody ---- */

const pd_token_info *pd_token_hold(const pd_token_info *token)
{
  atomic_fetch_add(&((pd_held_token *)token)->holders, 1);
  return token;
}

void pd_token_release(const pd_token_info *token)
{
  pd_held_token *held = (pd_held_token *)token;
  if (held && atomic_fetch_sub(&held->holders, 1) == 1) free(held);
}
