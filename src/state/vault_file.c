/* vault_file.c: vault.json: the text and what it says. The layout is in docs/formats.md. */
#include "base/base.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "state/vault.h"

#define SUM_START ",\"sum\":\""
#define SUM_END "\"}\n"
#define TAIL_SIZE (sizeof SUM_START - 1 + PD_ID_HEX_SIZE - 1 + sizeof SUM_END - 1)

/* ---- writing ---- */

static void put_raw(pd_json_writer *w, const char *key, const void *data, size_t size)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  if (w->code) return;
  w->code = pd_base64_encode((pd_bytes){data, size}, &text, w->err);
  pd_json_put_bytes(w, key, pd_buf_bytes(&text));
}

static void put_kdf(pd_json_writer *w, const pd_kdf *kdf)
{
  pd_json_key(w, "kdf");
  pd_json_open(w, '{');
  pd_json_put_text(w, "name", "argon2id");
  pd_json_put_number(w, "memory_kib", kdf->memory_kib);
  pd_json_put_number(w, "passes", kdf->passes);
  pd_json_put_number(w, "lanes", kdf->lanes);
  put_raw(w, "salt", kdf->salt, sizeof kdf->salt);
  put_raw(w, "commitment", kdf->commitment, sizeof kdf->commitment);
  pd_json_close(w, '}');
}

static void put_key(pd_json_writer *w, const pd_wrapped *key)
{
  pd_json_open(w, '{');
  put_raw(w, "id", key->id, sizeof key->id);
  pd_json_put_number(w, "made_ms", (uint64_t)key->made_ms);
  put_raw(w, "nonce", key->nonce, sizeof key->nonce);
  put_raw(w, "box", key->box, sizeof key->box);
  pd_json_close(w, '}');
}

pd_code pd_vault_encode(const pd_vault_file *file, pd_buf *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_buf_clear(out);
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "format", PD_VAULT_FORMAT);
  put_kdf(&w, &file->kdf);
  pd_json_put_number(&w, "current", file->current);
  pd_json_key(&w, "keys");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < file->key_count; i++) put_key(&w, &file->keys[i]);
  pd_json_close(&w, ']');
  TRY(w.code);
  pd_id sum = pd_sha256(pd_buf_bytes(out));
  return pd_buf_printf(out, err, SUM_START "%s" SUM_END, pd_id_hex(&sum, hex));
}

/* ---- reading ---- */

static pd_code damaged(pd_error *err, const char *what)
{
  return pd_error_set(err, PD_CORRUPT, "the vault file is damaged: %s", what);
}

/* V4 */
static pd_code check_sum(pd_bytes text, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  if (text.size <= TAIL_SIZE) return damaged(err, "it is cut off");
  pd_id sum = pd_sha256((pd_bytes){text.data, text.size - TAIL_SIZE});
  CLEANUP(pd_buf_done) pd_buf tail = {0};
  TRY(pd_buf_printf(&tail, err, SUM_START "%s" SUM_END, pd_id_hex(&sum, hex)));
  if (memcmp((const char *)text.data + text.size - TAIL_SIZE, tail.data, TAIL_SIZE) == 0) return PD_OK;
  return damaged(err, "it does not match its checksum");
}

static pd_code take_raw(pd_json value, void *out, size_t size, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf bytes = {0};
  if (value.kind != PD_JSON_STRING || pd_base64_decode((pd_bytes){(const char *)value.raw.data + 1, value.raw.size - 2}, &bytes, NULL) ||
      bytes.size != size)
    return damaged(err, "a member is malformed");
  memcpy(out, bytes.data, size);
  return PD_OK;
}

static pd_code take_u32(pd_json value, uint32_t *out, pd_error *err)
{
  uint64_t number;
  if (!pd_json_u64(value, &number) || number > UINT32_MAX) return damaged(err, "a number is malformed");
  *out = (uint32_t)number;
  return PD_OK;
}

static pd_code take_kdf(pd_json object, pd_kdf *out, pd_error *err)
{
  pd_json_field f[] = {{.name = "name"},  {.name = "memory_kib"}, {.name = "passes"},
                       {.name = "lanes"}, {.name = "salt"},       {.name = "commitment"}};
  if (pd_json_fields(object, f, COUNT_OF(f), NULL)) return damaged(err, "kdf is malformed");
  if (!pd_json_is(f[0].value, "argon2id")) return pd_error_set(err, PD_FORMAT, "the vault's key derivation is not argon2id");
  TRY(take_u32(f[1].value, &out->memory_kib, err));
  TRY(take_u32(f[2].value, &out->passes, err));
  TRY(take_u32(f[3].value, &out->lanes, err));
  TRY(take_raw(f[4].value, out->salt, sizeof out->salt, err));
  TRY(take_raw(f[5].value, out->commitment, sizeof out->commitment, err));
  return pd_kdf_check(out, NULL) ? damaged(err, "the cost of its key derivation is out of bounds") : PD_OK;
}

static pd_code take_key(pd_json object, pd_wrapped *out, pd_error *err)
{
  pd_json_field f[] = {{.name = "id"}, {.name = "made_ms"}, {.name = "nonce"}, {.name = "box"}};
  if (pd_json_fields(object, f, COUNT_OF(f), NULL) || !pd_json_i64(f[1].value, &out->made_ms)) return damaged(err, "a key is malformed");
  TRY(take_raw(f[0].value, out->id, sizeof out->id, err));
  TRY(take_raw(f[2].value, out->nonce, sizeof out->nonce, err));
  return take_raw(f[3].value, out->box, sizeof out->box, err);
}

static pd_code take_keys(pd_json array, pd_vault_file *out, pd_error *err)
{
  pd_json item;
  if (array.kind != PD_JSON_ARRAY) return damaged(err, "it has no keys");
  pd_json_walk walk = pd_json_walk_begin(array);
  for (out->key_count = 0; pd_json_walk_next(&walk, NULL, &item); out->key_count++) {
    if (out->key_count == PD_VAULT_KEYS_MAX) return damaged(err, "it has too many keys");
    TRY(take_key(item, &out->keys[out->key_count], err));
  }
  return out->current < out->key_count ? PD_OK : damaged(err, "its current key is missing");
}

pd_code pd_vault_decode(pd_bytes text, pd_vault_file *out, pd_error *err)
{
  pd_json json;
  uint32_t format = 0, current = 0;
  pd_json_field f[] = {{.name = "format"}, {.name = "kdf"}, {.name = "current"}, {.name = "keys"}, {.name = "sum"}};
  TRY(check_sum(text, err));
  if (pd_json_parse(text, &json, NULL)) return damaged(err, "it is no JSON");
  if (take_u32(pd_json_member(json, "format"), &format, NULL) == PD_OK && format > PD_VAULT_FORMAT)
    return pd_error_set(err, PD_FORMAT, "the vault is of format %u, this perdure knows format %d", format, PD_VAULT_FORMAT);
  if (pd_json_fields(json, f, COUNT_OF(f), NULL)) return damaged(err, "it has other members than a vault");
  TRY(take_u32(f[0].value, &format, err));
  if (format != PD_VAULT_FORMAT) return damaged(err, "its format is unknown");
  TRY(take_u32(f[2].value, &current, err));
  out->current = current;
  TRY(take_kdf(f[1].value, &out->kdf, err));
  return take_keys(f[3].value, out, err);
}
