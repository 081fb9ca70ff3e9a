/* token.c: reading, writing and checking tokens. What the operator does with them is in token_call.c. */
#include "state/token.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/capability.h"
#include "state/quota.h"

#include <openssl/crypto.h>
#include <stdio.h>

#define TEXT_BEGIN "pd_"

const char *pd_role_name(pd_role role)
{
  static const char *const names[] = {"agent", "operator", "auditor"};
  return (unsigned)role < COUNT_OF(names) ? names[role] : "agent";
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

pd_code pd_token_encode(const pd_token *token, pd_buf *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_text(&w, "hash", pd_id_hex(&token->hash, hex));
  pd_json_put_text(&w, "role", pd_role_name(token->info.role));
  pd_json_put_text(&w, "agent", token->info.agent);
  pd_json_put_text(&w, "label", token->label);
  pd_json_put_number(&w, "created_ms", (uint64_t)token->created_ms);
  pd_json_put_number(&w, "expires_ms", (uint64_t)token->info.expires_ms);
  pd_json_put_number(&w, "rate", token->info.rate);
  pd_token_put_list(&w, "capabilities", token->info.capabilities);
  pd_token_put_list(&w, "prefixes", token->info.prefixes);
  if (token->rotated_ms) pd_json_put_number(&w, "rotated_ms", (uint64_t)token->rotated_ms);
  if (token->old_until_ms) {
    pd_json_put_text(&w, "old_hash", pd_id_hex(&token->old_hash, hex));
    pd_json_put_number(&w, "old_until_ms", (uint64_t)token->old_until_ms);
  }
  pd_json_close(&w, '}');
  return w.code;
}

static bool take_text(pd_json value, char *out, size_t size)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (value.kind == PD_JSON_NONE) return true;
  if (pd_json_decode(value, &text, NULL) || text.size >= size || (text.size && memchr(text.data, 0, text.size))) return false;
  if (text.size) memcpy(out, text.data, text.size);
  out[text.size] = 0;
  return true;
}

static bool take_hash(pd_json value, pd_id *out)
{
  char hex[PD_ID_HEX_SIZE] = "";
  return take_text(value, hex, sizeof hex) && pd_id_parse(hex, out);
}

static bool take_time(pd_json value, int64_t *out)
{
  return value.kind == PD_JSON_NONE || pd_json_i64(value, out);
}

static bool take_list(pd_json value, char (*out)[PD_TOKEN_SCOPE_SIZE])
{
  pd_json item;
  size_t count = 0;
  pd_json_walk walk = pd_json_walk_begin(value);
  while (pd_json_walk_next(&walk, NULL, &item))
    if (count == PD_TOKEN_SCOPES_MAX || !take_text(item, out[count++], PD_TOKEN_SCOPE_SIZE)) return false;
  return true;
}

static bool take_role(pd_json value, pd_role *out)
{
  for (pd_role role = PD_ROLE_AGENT; role <= PD_ROLE_AUDITOR; role++) {
    if (!pd_json_is(value, pd_role_name(role))) continue;
    *out = role;
    return true;
  }
  return false;
}

static bool take_all(pd_json json, pd_token *t)
{
  uint64_t rate = 0;
  pd_json rate_json = pd_json_member(json, "rate"), old = pd_json_member(json, "old_hash");
  if (rate_json.kind != PD_JSON_NONE && (!pd_json_u64(rate_json, &rate) || rate > UINT32_MAX)) return false;
  t->info.rate = (uint32_t)rate;
  return take_hash(pd_json_member(json, "hash"), &t->hash) && take_role(pd_json_member(json, "role"), &t->info.role) &&
         take_text(pd_json_member(json, "agent"), t->info.agent, sizeof t->info.agent) &&
         take_text(pd_json_member(json, "label"), t->label, sizeof t->label) &&
         take_time(pd_json_member(json, "created_ms"), &t->created_ms) &&
         take_time(pd_json_member(json, "expires_ms"), &t->info.expires_ms) &&
         take_time(pd_json_member(json, "rotated_ms"), &t->rotated_ms) &&
         take_time(pd_json_member(json, "old_until_ms"), &t->old_until_ms) && (old.kind == PD_JSON_NONE || take_hash(old, &t->old_hash)) &&
         take_list(pd_json_member(json, "capabilities"), t->info.capabilities) &&
         take_list(pd_json_member(json, "prefixes"), t->info.prefixes) && (t->info.role == PD_ROLE_AGENT) == (t->info.agent[0] != 0);
}

pd_code pd_token_decode(const char *id, pd_bytes text, pd_token *out, pd_error *err)
{
  pd_json json;
  *out = (pd_token){0};
  snprintf(out->info.id, sizeof out->info.id, "%s", id);
  if (pd_json_parse(text, &json, NULL) == PD_OK && take_all(json, out)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "token %s in the system store is not as perdure writes it", id);
}

pd_code pd_token_load(pd_home *home, pd_bytes id, pd_token *out, uint64_t *out_version, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  char key[PD_TOKEN_KEY_SIZE];
  pd_store *store;
  pd_entry entry;
  pd_code code = PD_NOT_FOUND;
  if (pd_token_key(id, key)) {
    TRY(pd_home_store(home, PD_STORE_SYSTEM, true, &store, err));
    code = pd_get(store, PD_STATE_REF, pd_text(key), &text, &entry, err);
  }
  if (code == PD_NOT_FOUND)
    return pd_error_named(err, PD_NOT_FOUND, "TokenNotFound", "there is no token '%.*s'", (int)(id.size < 64 ? id.size : 64),
                          (const char *)id.data);
  TRY(code);
  if (out_version) *out_version = entry.version;
  return pd_token_decode(key + 6, pd_buf_bytes(&text), out, err);
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

/* The token `id`, if `given` is the hash of a text of it that is good now. */
static pd_code find_good(pd_home *home, const char *id, pd_id given, pd_token_info *out, pd_error *err)
{
  pd_token token = {0};
  pd_code code = pd_token_load(home, (pd_bytes){id, PD_TOKEN_ID_SIZE - 1}, &token, NULL, err);
  if (code && code != PD_NOT_FOUND) return code;
  int64_t now_ms = pd_home_now(home);
  bool is_it = CRYPTO_memcmp(given.bytes, token.hash.bytes, sizeof given.bytes) == 0; /* also of an unknown one: the same time */
  bool is_old = CRYPTO_memcmp(given.bytes, token.old_hash.bytes, sizeof given.bytes) == 0 && now_ms < token.old_until_ms;
  if (code || (!is_it && !is_old) || (token.info.expires_ms && now_ms >= token.info.expires_ms)) return refuse(err);
  *out = token.info;
  out->hash = given;
  return PD_OK;
}

pd_code pd_token_check(pd_home *home, const char *text, pd_token_info *out, pd_error *err)
{
  if (!is_formed(text)) return refuse(err);
  return find_good(home, text + strlen(TEXT_BEGIN), pd_sha256(pd_text(text)), out, err);
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
  pd_token_info info;
  if (strlen(mark->id) != PD_TOKEN_ID_SIZE - 1) return refuse(err);
  return find_good(home, mark->id, mark->hash, &info, err);
}
