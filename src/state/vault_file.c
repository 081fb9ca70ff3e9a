/* vault_file.c: vault.json: the text and what it says. The layout is in docs/formats.md. */
#include "base/base.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "state/vault.h"

#define SUM_START ",\"sum\":\""
#define SUM_END "\"}\n"
#define TAIL_SIZE (sizeof SUM_START - 1 + PD_ID_HEX_SIZE - 1 + sizeof SUM_END - 1)

/* ---- writing ---- */

typedef struct kdf_part {
  int name;
  pd_kdf kdf;
} kdf_part;

static const char *const kdf_names[] = {"argon2id", NULL};

static const pd_bind kdf_members[] = {
  {"name", PD_BIND_NAME, PD_BIND_AT(kdf_part, name), .names = kdf_names},
  {"memory_kib", PD_BIND_NUMBER, PD_BIND_AT(kdf_part, kdf.memory_kib)},
  {"passes", PD_BIND_NUMBER, PD_BIND_AT(kdf_part, kdf.passes)},
  {"lanes", PD_BIND_NUMBER, PD_BIND_AT(kdf_part, kdf.lanes)},
  {"salt", PD_BIND_BYTES, PD_BIND_AT(kdf_part, kdf.salt)},
  {"commitment", PD_BIND_BYTES, PD_BIND_AT(kdf_part, kdf.commitment)},
};

static const pd_bind key_members[] = {
  {"id", PD_BIND_BYTES, PD_BIND_AT(pd_wrapped, id)},
  {"made_ms", PD_BIND_MS, PD_BIND_AT(pd_wrapped, made_ms)},
  {"nonce", PD_BIND_BYTES, PD_BIND_AT(pd_wrapped, nonce)},
  {"box", PD_BIND_BYTES, PD_BIND_AT(pd_wrapped, box)},
};

pd_code pd_vault_encode(const pd_vault_file *file, pd_buf *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_buf_clear(out);
  pd_json_writer w = {.out = out, .err = err};
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "format", PD_VAULT_FORMAT);
  pd_json_key(&w, "kdf");
  pd_bind_object(&w, kdf_members, COUNT_OF(kdf_members), &(kdf_part){.kdf = file->kdf});
  pd_json_put_number(&w, "current", file->current);
  pd_json_key(&w, "keys");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < file->key_count; i++) pd_bind_object(&w, key_members, COUNT_OF(key_members), &file->keys[i]);
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

static pd_code take_u32(pd_json value, uint32_t *out, pd_error *err)
{
  uint64_t number;
  if (!pd_json_u64(value, &number) || number > UINT32_MAX) return damaged(err, "a number is malformed");
  *out = (uint32_t)number;
  return PD_OK;
}

static pd_code take_kdf(pd_json object, pd_kdf *out, pd_error *err)
{
  kdf_part part = {0};
  pd_json name = pd_json_member(object, "name");
  if (name.kind == PD_JSON_STRING && pd_json_name(name, kdf_names) < 0)
    return pd_error_set(err, PD_FORMAT, "the vault's key derivation is not argon2id");
  if (pd_bind_read(object, kdf_members, COUNT_OF(kdf_members), PD_BIND_EXACT, &part, NULL)) return damaged(err, "kdf is malformed");
  *out = part.kdf;
  return pd_kdf_check(out, NULL) ? damaged(err, "the cost of its key derivation is out of bounds") : PD_OK;
}

static pd_code take_keys(pd_json array, pd_vault_file *out, pd_error *err)
{
  pd_json item;
  if (array.kind != PD_JSON_ARRAY) return damaged(err, "it has no keys");
  pd_json_walk walk = pd_json_walk_begin(array);
  for (out->key_count = 0; pd_json_walk_next(&walk, NULL, &item); out->key_count++) {
    if (out->key_count == PD_VAULT_KEYS_MAX) return damaged(err, "it has too many keys");
    if (pd_bind_read(item, key_members, COUNT_OF(key_members), PD_BIND_EXACT, &out->keys[out->key_count], NULL))
      return damaged(err, "a key is malformed");
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
