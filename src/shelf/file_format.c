/* file_format.c: see file_format.h. */
#include "shelf/file_format.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"

/* ---- the checksum ----
 *
 * White space behind the last brace: a newline, 64 blanks and tabs (the first 64 bits of the SHA-256 of all before it; a tab is a 1), a
 * newline. Every reader of JSON passes it over, and programs that write the file anew leave it out: a file without it is taken as it is. */

#define SUM_BITS 64
#define SUM_SIZE (SUM_BITS + 2)
#define PLAIN_SPACE_MAX 8 /* so much white space may be behind a file that has no checksum: editors add some */

static void write_sum(pd_bytes text, char out[SUM_SIZE])
{
  pd_id id = pd_sha256(text);
  out[0] = out[SUM_SIZE - 1] = '\n';
  for (size_t i = 0; i < SUM_BITS; i++) out[1 + i] = id.bytes[i / 8] >> (7 - i % 8) & 1 ? '\t' : ' ';
}

static bool is_space(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static pd_code check_sum(pd_bytes text, pd_error *err)
{
  const char *bytes = text.data;
  char expected[SUM_SIZE];
  size_t end = text.size;
  while (end && is_space(bytes[end - 1])) end--;
  if (text.size - end <= PLAIN_SPACE_MAX) return PD_OK;
  write_sum((pd_bytes){bytes, end}, expected);
  if (text.size - end == SUM_SIZE && memcmp(bytes + end, expected, SUM_SIZE) == 0) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "it does not match its checksum; if it was edited on purpose, remove the white space at its end");
}

/* An entry: an array of two, the first a string. */
static pd_code read_entry(pd_json entry, size_t index, pd_buf *key, pd_json *out_value, pd_error *err)
{
  pd_json name = {.kind = PD_JSON_NONE}, rest;
  *out_value = (pd_json){.kind = PD_JSON_NONE};
  pd_json_walk walk = pd_json_walk_begin(entry);
  if (entry.kind != PD_JSON_ARRAY || !pd_json_walk_next(&walk, NULL, &name) || !pd_json_walk_next(&walk, NULL, out_value) ||
      pd_json_walk_next(&walk, NULL, &rest))
    return pd_error_set(err, PD_FORMAT, "entry %zu is no array of a key and a value", index);
  pd_buf_clear(key);
  if (name.kind != PD_JSON_STRING) return pd_error_set(err, PD_FORMAT, "the key of entry %zu is no string", index);
  if (pd_json_decode(name, key, NULL)) return pd_error_set(err, PD_FORMAT, "the key of entry %zu is no text", index);
  return PD_OK;
}

static pd_code walk_entries(pd_json entries, pd_shelf_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf key = {0};
  pd_json entry, value;
  pd_json_walk walk = pd_json_walk_begin(entries);
  for (size_t index = 0; pd_json_walk_next(&walk, NULL, &entry); index++) {
    TRY(read_entry(entry, index, &key, &value, err));
    if (visit) TRY(visit(ctx, pd_buf_bytes(&key), value.raw, err));
  }
  return PD_OK;
}

pd_code pd_state_file_parse(pd_bytes text, pd_shelf_visit visit, void *ctx, pd_error *err)
{
  pd_json all;
  pd_error why;
  uint64_t version = 0;
  pd_json_field fields[] = {{.name = "version"}, {.name = "entries"}};
  TRY(check_sum(text, err));
  if (pd_json_parse(text, &all, &why)) return pd_error_set(err, PD_CORRUPT, "%s", why.message);
  if (pd_json_fields(all, fields, COUNT_OF(fields), &why)) return pd_error_set(err, PD_FORMAT, "it is no state file: %.400s", why.message);
  if (!pd_json_u64(fields[0].value, &version)) return pd_error_set(err, PD_FORMAT, "it is no state file: it has no version");
  if (version != 1) return pd_error_set(err, PD_FORMAT, "it has version %llu, and 1 is known", (unsigned long long)version);
  if (fields[1].value.kind != PD_JSON_ARRAY) return pd_error_set(err, PD_FORMAT, "it is no state file: it has no array of entries");
  TRY(walk_entries(fields[1].value, NULL, NULL, err)); /* so that a visitor sees all of a file or nothing */
  return visit ? walk_entries(fields[1].value, visit, ctx, err) : PD_OK;
}

pd_code pd_state_file_write(const pd_shelf_item *items, size_t count, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  char sum[SUM_SIZE];
  size_t begin = out->size;
  pd_json_open(&w, '{');
  pd_json_put_number(&w, "version", 1);
  pd_json_key(&w, "entries");
  pd_json_open(&w, '[');
  for (size_t i = 0; i < count; i++) {
    pd_json_open(&w, '[');
    pd_json_text(&w, items[i].key);
    pd_json_raw(&w, items[i].value);
    pd_json_close(&w, ']');
  }
  pd_json_close(&w, ']');
  pd_json_close(&w, '}');
  TRY(w.code);
  write_sum((pd_bytes){out->data + begin, out->size - begin}, sum);
  return pd_buf_append(out, sum, sizeof sum, err);
}
