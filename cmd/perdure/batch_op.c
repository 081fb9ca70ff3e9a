/* batch_op.c: see batch_op.h. */
#include "batch_op.h"

#include "base/base.h"
#include "base/base64.h"
#include "base/bind.h"
#include "base/buf.h"
#include "base/error.h"

enum {
  F_OP,
  F_ID,
  F_KEY,
  F_VALUE,
  F_TEXT,
  F_BASE64,
  F_EXPECT,
  F_VERSION,
  F_AT,
  F_REF,
  F_REASON,
  F_RUN,
  F_AUTHOR,
  F_OPS,
  F_CAPABILITY,
  F_INPUT,
  F_SESSION,
  F_COUNT
};

static const char *const field_names[F_COUNT] = {"op",  "id",     "key", "value",  "text", "base64",     "expect", "version", "at",
                                                 "ref", "reason", "run", "author", "ops",  "capability", "input",  "session"};

#define BIT(field) (1u << (field))
#define WHO (BIT(F_REF) | BIT(F_REASON) | BIT(F_RUN) | BIT(F_AUTHOR))
#define ALWAYS (BIT(F_OP) | BIT(F_ID))

typedef struct op_shape {
  const char *name;
  unsigned may; /* fields, by bit */
} op_shape;

static const op_shape shapes[BATCH_KIND_COUNT] = {
  [BATCH_PUT] = {"put", ALWAYS | WHO | BIT(F_KEY) | BIT(F_VALUE) | BIT(F_TEXT) | BIT(F_BASE64) | BIT(F_EXPECT)},
  [BATCH_GET] = {"get", ALWAYS | BIT(F_KEY) | BIT(F_AT) | BIT(F_VERSION)},
  [BATCH_HAS] = {"has", ALWAYS | BIT(F_KEY) | BIT(F_AT)},
  [BATCH_DELETE] = {"delete", ALWAYS | WHO | BIT(F_KEY) | BIT(F_EXPECT)},
  [BATCH_COMMIT] = {"commit", ALWAYS | WHO | BIT(F_OPS)},
  [BATCH_CALL] = {"call", ALWAYS | BIT(F_CAPABILITY) | BIT(F_INPUT) | BIT(F_SESSION)},
};

void batch_op_done(batch_op *op)
{
  pd_buf_done(&op->key);
  pd_buf_done(&op->value);
  for (size_t i = 0; i < BATCH_TEXT_COUNT; i++) pd_buf_done(&op->texts[i]);
}

static pd_code read_kind(batch_op *op, const pd_json_field *fields, bool is_inner, pd_error *err)
{
  pd_json name = fields[F_OP].value;
  if (name.kind == PD_JSON_NONE) return pd_error_set(err, PD_INVALID, "field \"op\" is missing");
  unsigned kind = 0;
  while (kind < BATCH_KIND_COUNT && !pd_json_is(name, shapes[kind].name)) kind++;
  bool is_known = is_inner ? kind == BATCH_PUT || kind == BATCH_DELETE : kind < BATCH_KIND_COUNT;
  if (!is_known)
    return pd_error_set(err, PD_INVALID, "unknown op %.*s: %s", name.raw.size < 40 ? (int)name.raw.size : 40, (const char *)name.raw.data,
                        is_inner ? "a commit takes put and delete" : "put, get, has, delete, commit and call are known");
  op->kind = (batch_kind)kind;
  unsigned may = is_inner ? shapes[kind].may & ~(unsigned)(WHO | BIT(F_ID)) : shapes[kind].may;
  for (unsigned i = 0; i < F_COUNT; i++)
    if (fields[i].value.kind != PD_JSON_NONE && !(may & BIT(i)))
      return pd_error_set(err, PD_INVALID, "field \"%s\" does not belong to %s \"%s\"", field_names[i], is_inner ? "an inner op" : "op",
                          shapes[kind].name);
  return PD_OK;
}

/* A field as a C string: `out_text` points into `buf`, or is NULL if the field is absent. */
static pd_code read_text(const pd_json_field *field, pd_buf *buf, const char **out_text, pd_error *err)
{
  *out_text = NULL;
  pd_buf_clear(buf);
  if (field->value.kind == PD_JSON_NONE) return PD_OK;
  pd_error why = {0};
  pd_code code = pd_json_append_text(field->value, buf, &why);
  if (code == PD_INVALID) return pd_error_set(err, PD_INVALID, "field \"%s\" must be a string without NUL", field->name);
  if (code && err) *err = why;
  TRY(code);
  *out_text = (const char *)buf->data;
  return PD_OK;
}

static pd_code read_key(batch_op *op, const pd_json_field *field, pd_error *err)
{
  pd_buf_clear(&op->key);
  if (op->kind == BATCH_COMMIT || op->kind == BATCH_CALL) return PD_OK;
  if (field->value.kind != PD_JSON_STRING) return pd_error_set(err, PD_INVALID, "field \"key\" must be there and be a string");
  TRY(pd_json_decode(field->value, &op->key, err));
  return pd_key_check(pd_buf_bytes(&op->key), err);
}

static pd_code read_number(const pd_json_field *field, uint64_t least, uint64_t *out, pd_error *err)
{
  uint64_t n;
  if (field->value.kind == PD_JSON_NONE) return PD_OK;
  if (!pd_json_u64(field->value, &n) || n < least || n == UINT64_MAX)
    return pd_error_set(err, PD_INVALID, "field \"%s\" must be a whole number of %llu or more", field->name, (unsigned long long)least);
  *out = n;
  return PD_OK;
}

static pd_code read_base64(batch_op *op, pd_json text, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf letters = {0};
  TRY(pd_json_decode(text, &letters, err));
  return pd_base64_decode(pd_buf_bytes(&letters), &op->value, err);
}

static pd_code read_value(batch_op *op, const pd_json_field *fields, pd_error *err)
{
  if (op->kind != BATCH_PUT) return PD_OK;
  pd_json value = fields[F_VALUE].value, text = fields[F_TEXT].value, base64 = fields[F_BASE64].value;
  int given = (value.kind != PD_JSON_NONE) + (text.kind != PD_JSON_NONE) + (base64.kind != PD_JSON_NONE);
  if (given != 1) return pd_error_set(err, PD_INVALID, "a put has one of \"value\", \"text\" and \"base64\"; %d given", given);
  op->raw_value = value.raw;
  if (value.kind != PD_JSON_NONE) return PD_OK;
  pd_buf_clear(&op->value);
  if (text.kind != PD_JSON_NONE)
    TRY(pd_json_decode(text, &op->value, err));
  else
    TRY(read_base64(op, base64, err));
  op->raw_value = pd_buf_bytes(&op->value);
  return PD_OK;
}

static pd_code read_texts(batch_op *op, const pd_json_field *fields, pd_error *err)
{
  op->note = (pd_note){0};
  TRY(read_text(&fields[F_AT], &op->texts[0], &op->at, err));
  TRY(read_text(&fields[F_REF], &op->texts[1], &op->note.ref, err));
  TRY(read_text(&fields[F_REASON], &op->texts[2], &op->note.reason, err));
  TRY(read_text(&fields[F_RUN], &op->texts[3], &op->note.run, err));
  TRY(read_text(&fields[F_AUTHOR], &op->texts[4], &op->note.author, err));
  TRY(read_text(&fields[F_CAPABILITY], &op->texts[5], &op->capability, err));
  return read_text(&fields[F_SESSION], &op->texts[6], &op->session, err);
}

pd_code batch_op_read(batch_op *op, pd_json json, bool is_inner, pd_error *err)
{
  pd_json_field fields[F_COUNT];
  for (size_t i = 0; i < F_COUNT; i++) fields[i].name = field_names[i];
  op->id = is_inner ? op->id : pd_json_member(json, "id");
  TRY(pd_json_fields(json, fields, F_COUNT, err));
  TRY(read_kind(op, fields, is_inner, err));
  TRY(read_key(op, &fields[F_KEY], err));
  TRY(read_value(op, fields, err));
  TRY(read_texts(op, fields, err));
  op->expect = PD_ANY_VERSION;
  op->version = 0;
  TRY(read_number(&fields[F_EXPECT], 0, &op->expect, err));
  TRY(read_number(&fields[F_VERSION], 1, &op->version, err));
  op->ops = fields[F_OPS].value;
  op->input = fields[F_INPUT].value;
  if (op->kind == BATCH_CALL && !op->capability) return pd_error_set(err, PD_INVALID, "field \"capability\" is missing");
  if (op->kind == BATCH_COMMIT && op->ops.kind != PD_JSON_ARRAY)
    return pd_error_set(err, PD_INVALID, "field \"ops\" must be there and be an array");
  return PD_OK;
}
