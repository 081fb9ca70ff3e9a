/*
 * mcp_seal.c: what a client carries for us between two rounds of a modern request, sealed. M3 of mcp.h.
 *
 * requestState is base64 of: version 1 (1 byte) · nonce (16) · expires, ms since 1970, big-endian (8) · what was kept · HMAC-SHA256 (32)
 * over all of that and the request's binding: SHA-256 of agent, method, name (or uri) and canonical arguments. The key lives as long as the
 * process: after a restart, and for a nonce that was seen, the request has to be made anew.
 */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_merge.h"
#include "base/sha256.h"
#include "wire/mcp_inside.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#define SEAL_VERSION 1
#define SEAL_HEAD 25 /* version, nonce, expires */
#define SEAL_SIZE_MAX 65536

/* ---- keys ---- */

static pd_code fill_random(void *out, size_t size, pd_error *err)
{
  if (getrandom(out, size, 0) == (ssize_t)size) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "no random numbers from the system");
}

/* Another process may write it first: then that one is taken. */
static pd_code key_from_file(uint8_t key[KEY_SIZE], const char *path, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_code code = pd_file_read(path, KEY_SIZE, &text, err);
  if (code == PD_NOT_FOUND) {
    TRY(fill_random(key, KEY_SIZE, err));
    code = pd_file_write(path, (pd_bytes){key, KEY_SIZE}, true, err);
    if (code != PD_EXISTS) return code;
    code = pd_file_read(path, KEY_SIZE, &text, err);
  }
  TRY(code);
  if (text.size != KEY_SIZE)
    return pd_error_set(err, PD_FORMAT, "%s is no key of %d bytes; remove it, and a new one is made", path, KEY_SIZE);
  memcpy(key, text.data, KEY_SIZE);
  explicit_bzero(text.data, text.capacity);
  return PD_OK;
}

pd_code pd_mcp_keys(pd_mcp *mcp, const char *file, pd_error *err)
{
  TRY(fill_random(mcp->state_key, KEY_SIZE, err));
  return file ? key_from_file(mcp->session_key, file, err) : fill_random(mcp->session_key, KEY_SIZE, err);
}

pd_id pd_mcp_mac(const uint8_t key[KEY_SIZE], const pd_bytes *parts, size_t count)
{
  pd_id digest = pd_sha256_parts(parts, count);
  return pd_hmac_sha256((pd_bytes){key, KEY_SIZE}, (pd_bytes){digest.bytes, PD_ID_SIZE});
}

/* ---- requestState ---- */

/* Each part with its size before it, so that no two requests have one text. */
static pd_code bind(const pd_mcp_turn *turn, pd_id *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  pd_json params = turn->message->params;
  static const char *const names[] = {"name", "uri", "arguments"};
  const char *realm = turn->peer->realm ? turn->peer->realm : "";
  TRY(pd_buf_printf(&text, err, "%zu:%s%zu:%s%zu:%s", strlen(turn->peer->agent), turn->peer->agent, strlen(realm), realm,
                    strlen(turn->message->method), turn->message->method));
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    CLEANUP(pd_buf_done) pd_buf canonical = {0};
    pd_json value = pd_json_member(params, names[i]);
    if (value.kind != PD_JSON_NONE) TRY(pd_json_canonical(value, &canonical, err));
    TRY(pd_buf_printf(&text, err, "%zu:", canonical.size));
    TRY(pd_buf_append(&text, canonical.data, canonical.size, err));
  }
  *out = pd_sha256(pd_buf_bytes(&text));
  return PD_OK;
}

pd_code pd_mcp_seal(pd_mcp_turn *turn, pd_bytes state, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = SEAL_SIZE_MAX};
  uint8_t head[SEAL_HEAD] = {SEAL_VERSION};
  pd_id binding;
  TRY(bind(turn, &binding, err));
  TRY(fill_random(head + 1, 16, err));
  uint64_t expires = (uint64_t)(turn->mcp->now_ms(turn->mcp->now_ctx) + ASK_MS);
  for (int i = 0; i < 8; i++) head[17 + i] = (uint8_t)(expires >> (56 - 8 * i));
  TRY(pd_buf_append(&text, head, sizeof head, err));
  TRY(pd_buf_append(&text, state.data, state.size, err));
  pd_id mac = pd_mcp_mac(turn->mcp->state_key, (pd_bytes[]){{binding.bytes, PD_ID_SIZE}, pd_buf_bytes(&text)}, 2);
  TRY(pd_buf_append(&text, mac.bytes, PD_ID_SIZE, err));
  return pd_base64_encode(pd_buf_bytes(&text), out, err);
}

/* True if the nonce is new; it is not from now on. When the table is full the oldest goes: but for a flood of more than USED_MAX within
 * ASK_MS, it has expired by then. */
static bool use_once(pd_mcp *mcp, const uint8_t *nonce, int64_t expires_ms)
{
  bool is_new = true;
  pthread_mutex_lock(&mcp->lock);
  for (size_t i = 0; i < USED_MAX && is_new; i++) is_new = memcmp(mcp->used[i].nonce, nonce, 16) != 0;
  if (is_new) {
    pd_mcp_used *slot = &mcp->used[mcp->used_next];
    mcp->used_next = (mcp->used_next + 1) % USED_MAX;
    memcpy(slot->nonce, nonce, 16);
    slot->expires_ms = expires_ms;
  }
  pthread_mutex_unlock(&mcp->lock);
  return is_new;
}

/* Is there still one in the table that a flood would push out before it expires? */
static bool is_flooded(pd_mcp *mcp, int64_t now_ms)
{
  pthread_mutex_lock(&mcp->lock);
  bool is_full = mcp->used[mcp->used_next].expires_ms > now_ms;
  pthread_mutex_unlock(&mcp->lock);
  return is_full;
}

pd_code pd_mcp_unseal(pd_mcp_turn *turn, pd_json sealed, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf base64 = {.size_max = 2 * SEAL_SIZE_MAX};
  CLEANUP(pd_buf_done) pd_buf text = {.size_max = SEAL_SIZE_MAX};
  pd_id binding;
  if (pd_json_decode(sealed, &base64, NULL) || pd_base64_decode(pd_buf_bytes(&base64), &text, NULL) || text.size < SEAL_HEAD + PD_ID_SIZE)
    return pd_error_set(err, PD_DENIED, "requestState is none that this server gave");
  TRY(bind(turn, &binding, err));
  size_t size = text.size - PD_ID_SIZE;
  pd_id mac = pd_mcp_mac(turn->mcp->state_key, (pd_bytes[]){{binding.bytes, PD_ID_SIZE}, {text.data, size}}, 2);
  if (CRYPTO_memcmp(mac.bytes, text.data + size, PD_ID_SIZE) != 0 || text.data[0] != SEAL_VERSION)
    return pd_error_set(err, PD_DENIED, "requestState is not one for this request");
  uint64_t expires = 0;
  for (int i = 0; i < 8; i++) expires = expires << 8 | text.data[17 + i];
  int64_t now_ms = turn->mcp->now_ms(turn->mcp->now_ctx);
  if ((int64_t)expires <= now_ms) return pd_error_set(err, PD_DENIED, "requestState has expired; make the request again without it");
  if (is_flooded(turn->mcp, now_ms)) return pd_error_set(err, PD_DENIED, "too many requests with a requestState; try again later");
  if (!use_once(turn->mcp, text.data + 1, (int64_t)expires))
    return pd_error_set(err, PD_DENIED, "requestState was used already; make the request again without it");
  return pd_buf_append(out, text.data + SEAL_HEAD, size - SEAL_HEAD, err);
}
