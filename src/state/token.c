/* token.c: reading, writing and checking tokens. What the operator does with them is in token_call.c. */
#include "state/token.h"

#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/capability.h"
#include "state/quota.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_BEGIN "pd_"

static const char *const roles[] = {"agent", "operator", "auditor", NULL};

const char *pd_role_name(pd_role role)
{
  return (unsigned)role < COUNT_OF(roles) - 1 ? roles[role] : "agent";
}

bool pd_token_key(pd_bytes id, char out[PD_TOKEN_KEY_SIZE])
{
  if (id.size != PD_TOKEN_ID_SIZE - 1) return false;
  snprintf(out, PD_TOKEN_KEY_SIZE, "token/%.*s", (int)id.size, (const char *)id.data);
  return strspn(out + 6, "0123456789abcdef") == PD_TOKEN_ID_SIZE - 1;
}

/* ---- as it is stored ---- */

void pd_token_put_list(pd_json_writer *w, const char *key, const char (*items)[PD_TOKEN_SCOPE_SIZE])
{
  if (!items[0][0]) return;
  pd_json_key(w, key);
  pd_json_open(w, '[');
  for (size_t i = 0; i < PD_TOKEN_SCOPES_MAX && items[i][0]; i++) pd_json_text(w, pd_text(items[i]));
  pd_json_close(w, ']');
}

static const pd_bind members[] = {
  {"hash", PD_BIND_ID, PD_BIND_AT(pd_token, hash)},
  {"role", PD_BIND_NAME, PD_BIND_AT(pd_token, info.role), .names = roles},
  {"agent", PD_BIND_TEXT, PD_BIND_AT(pd_token, info.agent), .is_optional = true, .is_always = true},
  {"label", PD_BIND_TEXT, PD_BIND_AT(pd_token, label), .is_optional = true, .is_always = true},
  {"created_ms", PD_BIND_MS, PD_BIND_AT(pd_token, created_ms), .is_optional = true, .is_always = true},
  {"expires_ms", PD_BIND_MS, PD_BIND_AT(pd_token, info.expires_ms), .is_optional = true, .is_always = true},
  {"rate", PD_BIND_NUMBER, PD_BIND_AT(pd_token, info.rate), .is_optional = true, .is_always = true},
  {"capabilities", PD_BIND_TEXTS, PD_BIND_AT(pd_token, info.capabilities), .is_optional = true, .stride = PD_TOKEN_SCOPE_SIZE},
  {"prefixes", PD_BIND_TEXTS, PD_BIND_AT(pd_token, info.prefixes), .is_optional = true, .stride = PD_TOKEN_SCOPE_SIZE},
  {"rotated_ms", PD_BIND_MS, PD_BIND_AT(pd_token, rotated_ms), .is_optional = true},
  {"old_hash", PD_BIND_ID, PD_BIND_AT(pd_token, old_hash), .is_optional = true},
  {"old_until_ms", PD_BIND_MS, PD_BIND_AT(pd_token, old_until_ms), .is_optional = true},
};

pd_code pd_token_encode(const pd_token *token, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  pd_bind_object(&w, members, COUNT_OF(members), token);
  return w.code;
}

pd_code pd_token_decode(const char *id, pd_bytes text, pd_token *out, pd_error *err)
{
  *out = (pd_token){0};
  snprintf(out->info.id, sizeof out->info.id, "%s", id);
  if (pd_bind_parse(text, members, COUNT_OF(members), PD_BIND_LOOSE, out, NULL) == PD_OK &&
      (out->info.role == PD_ROLE_AGENT) == (out->info.agent[0] != 0))
    return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "token %s in the system store is not as perdure writes it", id);
}

/* `out` NULL: only the entry. */
static pd_code load(pd_home *home, pd_bytes id, pd_token *out, pd_entry *out_entry, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_TOKEN_KEY_SIZE];
  pd_store *store;
  pd_code code = PD_NOT_FOUND;
  if (pd_token_key(id, key)) {
    TRY(pd_tokens_store(home, &store, err));
    code = pd_get(store, PD_STATE_REF, pd_text(key), out ? &text : NULL, out_entry, err);
  }
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "TokenNotFound", "there is no token '%.*s'", (int)(id.size < 64 ? id.size : 64),
                          (const char *)id.data);
  TRY(code);
  return out ? pd_token_decode(key + 6, pd_buf_bytes(&text), out, err) : PD_OK;
}

pd_code pd_token_load(pd_home *home, pd_bytes id, pd_token *out, uint64_t *out_version, pd_error *err)
{
  pd_entry entry;
  TRY(load(home, id, out, &entry, err));
  if (out_version) *out_version = entry.version;
  return PD_OK;
}

/* ---- checking ---- */

/* pd_ID_SECRET, nothing else. */
static bool is_formed(const char *text)
{
  size_t begin = strlen(TEXT_BEGIN);
  return strnlen(text, PD_TOKEN_TEXT_SIZE) == PD_TOKEN_TEXT_SIZE - 1 && strncmp(text, TEXT_BEGIN, begin) == 0 &&
         strspn(text + begin, "0123456789abcdef") == PD_TOKEN_ID_SIZE - 1 && text[begin + PD_TOKEN_ID_SIZE - 1] == '_' &&
         strspn(text + begin + PD_TOKEN_ID_SIZE, "0123456789abcdef") == 64;
}

/* One answer for all that is wrong: who guesses learns nothing from it. */
static pd_code refuse(pd_error *err)
{
  return pd_error_named(err, PD_DENIED, "Unauthorized", "the token is not good: unknown, revoked or expired");
}

/* Read from the store; it is the caller's. */
static pd_code read_held(pd_home *home, const char *id, pd_held_token **out, pd_error *err)
{
  pd_held_token *made = calloc(1, sizeof *made);
  if (!made) return pd_error_memory(err, "a token");
  atomic_init(&made->holders, 1);
  pd_entry entry = {0};
  pd_code code = load(home, (pd_bytes){id, PD_TOKEN_ID_SIZE - 1}, &made->token, &entry, err);
  if (code == PD_NOT_FOUND) made->token = (pd_token){0}; /* it is compared all the same: an unknown one takes the same time */
  made->value_id = entry.value_id;
  if (code && code != PD_NOT_FOUND) {
    free(made);
    return code;
  }
  *out = made;
  return PD_OK;
}

/* Is `given` the hash of a text of it that is good now? */
static bool is_good(pd_home *home, const pd_token *token, pd_id given)
{
  int64_t now_ms = pd_home_now(home);
  bool is_it = CRYPTO_memcmp(given.bytes, token->hash.bytes, sizeof given.bytes) == 0;
  bool is_old = CRYPTO_memcmp(given.bytes, token->old_hash.bytes, sizeof given.bytes) == 0 && now_ms < token->old_until_ms;
  return *token->info.id && (is_it || is_old) && (!token->info.expires_ms || now_ms < token->info.expires_ms);
}

static bool is_same_mark(const pd_store_mark *a, const pd_store_mark *b)
{
  return a->published == b->published && a->tail == b->tail;
}

/* What is stored is what was kept when the store's mark was `then`. */
static bool is_as_stored(pd_home *home, const pd_held_token *token, const pd_store_mark *then, const pd_store_mark *now)
{
  pd_entry entry;
  if (is_same_mark(then, now)) return true;
  return load(home, pd_text(token->token.info.id), NULL, &entry, NULL) == PD_OK && pd_id_equal(&entry.value_id, &token->value_id);
}

/* The token `id`, kept or read; to be released. `out_is_newer`: than what is kept. */
static pd_code find_held(pd_home *home, const char *id, pd_id given, const pd_store_mark *now, pd_held_token **out, bool *out_is_newer,
                         pd_error *err)
{
  pd_store_mark then = {0};
  pd_held_token *token = pd_tokens_find(home->tokens, id, &given, &then);
  if (token && !is_as_stored(home, token, &then, now)) {
    pd_token_release(&token->token.info);
    token = NULL;
  }
  *out_is_newer = !token || !is_same_mark(&then, now);
  if (!token) {
    TRY(read_held(home, id, &token, err));
    token->token.info.hash = given;
  }
  *out = token;
  return PD_OK;
}

/* The token `id`, if `given` is the hash of a text of it that is good now; to be released. `now`: the store's mark, taken before (K1). */
static pd_code find_good(pd_home *home, const char *id, pd_id given, const pd_store_mark *now, const pd_token_info **out, pd_error *err)
{
  pd_held_token *token;
  bool is_newer;
  TRY(find_held(home, id, given, now, &token, &is_newer, err));
  if (!is_good(home, &token->token, given)) {
    pd_token_release(&token->token.info);
    pd_tokens_forget(home->tokens, id, &given);
    return refuse(err);
  }
  if (is_newer) pd_tokens_keep(home->tokens, token, now);
  *out = &token->token.info;
  return PD_OK;
}

static pd_code mark_now(pd_home *home, pd_store_mark *out, pd_error *err)
{
  pd_store *store;
  TRY(pd_tokens_store(home, &store, err));
  *out = pd_store_newest(store);
  return PD_OK;
}

pd_code pd_token_find(pd_home *home, const char *text, const pd_token_info **out, pd_error *err)
{
  pd_store_mark now;
  if (!is_formed(text)) return refuse(err);
  TRY(mark_now(home, &now, err));
  return find_good(home, text + strlen(TEXT_BEGIN), pd_sha256(pd_text(text)), &now, out, err);
}

/* ---- a client that asks again ---- */

/* K1 holds here, too: nothing was written since the token was looked up. */
static bool remembers(pd_home *home, const pd_token_memory *memory, const char *text, const pd_store_mark *now)
{
  return memory->token && is_same_mark(&memory->mark, now) && CRYPTO_memcmp(memory->text, text, PD_TOKEN_TEXT_SIZE) == 0 &&
         is_good(home, (const pd_token *)memory->token, memory->token->hash);
}

pd_code pd_token_find_again(pd_home *home, const char *text, pd_token_memory *memory, const pd_token_info **out, pd_error *err)
{
  pd_store_mark now;
  if (!is_formed(text)) return refuse(err);
  TRY(mark_now(home, &now, err));
  if (!remembers(home, memory, text, &now)) {
    const pd_token_info *found;
    pd_token_forget(memory);
    TRY(find_good(home, text + strlen(TEXT_BEGIN), pd_sha256(pd_text(text)), &now, &found, err));
    *memory = (pd_token_memory){.token = found, .mark = now};
    memcpy(memory->text, text, PD_TOKEN_TEXT_SIZE);
  }
  *out = pd_token_hold(memory->token);
  return PD_OK;
}

void pd_token_forget(pd_token_memory *memory)
{
  pd_token_release(memory->token);
  explicit_bzero(memory, sizeof *memory);
}

pd_code pd_token_check(pd_home *home, const char *text, pd_token_info *out, pd_error *err)
{
  const pd_token_info *found;
  TRY(pd_token_find(home, text, &found, err));
  *out = *found;
  pd_token_release(found);
  return PD_OK;
}

bool pd_token_claimed(pd_home *home, const char *text, char out_id[PD_TOKEN_ID_SIZE])
{
  pd_token token = {0};
  const char *id = text + strlen(TEXT_BEGIN);
  if (!is_formed(text) || pd_token_load(home, (pd_bytes){id, PD_TOKEN_ID_SIZE - 1}, &token, NULL, NULL)) return false;
  memcpy(out_id, token.info.id, PD_TOKEN_ID_SIZE);
  return true;
}

pd_code pd_token_recheck(pd_home *home, const pd_token_mark *mark, pd_error *err)
{
  const pd_token_info *found;
  pd_store_mark now;
  if (strlen(mark->id) != PD_TOKEN_ID_SIZE - 1) return refuse(err);
  TRY(mark_now(home, &now, err));
  TRY(find_good(home, mark->id, mark->hash, &now, &found, err));
  pd_token_release(found);
  return PD_OK;
}
