/* leaf_key.c: keys of leaves: paths become keys, and keys paths (L3 of leaf.h). */
#include "thread/leaf_key.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"
#include "thread/leaf.h"

#include <stdlib.h>

#define HASH_MARK "~h"
#define HASH_SEGMENT_SIZE (2 + 2 * PD_ID_SIZE)
#define INDEX_SEGMENT_SIZE 11

/* ---- paths to keys ---- */

static pd_code add_hashed(pd_bytes name, pd_buf *out, pd_error *err)
{
  char hex[PD_ID_HEX_SIZE];
  pd_id id = pd_sha256(name);
  return pd_buf_printf(out, err, "/" HASH_MARK "%s", pd_id_hex(&id, hex));
}

static const char *escape_of(const char *at, size_t index)
{
  return at[index] == '~' ? "~0" : at[index] == '/' ? "~1" : at[index] == 0 ? "~2" : at[index] == '#' && index == 0 ? "~3" : NULL;
}

/* Is there room in a key for the name, escaped? */
static bool has_room(pd_bytes name, const pd_buf *key)
{
  size_t size = key->size + 1 + name.size;
  for (size_t i = 0; i < name.size; i++) size += escape_of(name.data, i) != NULL;
  return size <= PD_KEY_SIZE_MAX;
}

static pd_code add_name(pd_bytes name, pd_buf *out, pd_error *err)
{
  const char *at = name.data;
  size_t run = 0; /* where what needs no escape begins */
  TRY(pd_buf_byte(out, '/', err));
  for (size_t i = 0; i < name.size; i++) {
    const char *escape = escape_of(at, i);
    if (!escape) continue;
    const pd_bytes parts[] = {{at + run, i - run}, {escape, 2}};
    TRY(pd_buf_append_all(out, parts, COUNT_OF(parts), err));
    run = i + 1;
  }
  return pd_buf_append(out, at + run, name.size - run, err);
}

pd_code pd_stateleaf_key_step(const pd_doc_step *step, pd_buf *key, bool *out_is_whole, pd_error *err)
{
  *out_is_whole = step->kind != PD_STEP_INDEX && (step->name.size > PD_LEAF_NAME_MAX || !has_room(step->name, key));
  if (step->kind == PD_STEP_INDEX) return pd_buf_printf(key, err, "/#%010llu", (unsigned long long)step->index);
  return *out_is_whole ? add_hashed(step->name, key, err) : add_name(step->name, key, err);
}

pd_code pd_stateleaf_key(const pd_doc_step *steps, size_t count, pd_buf *out_key, size_t *out_used, pd_error *err)
{
  bool is_whole = false;
  size_t i = 0;
  pd_buf_clear(out_key);
  TRY(pd_buf_append(out_key, PD_LEAF_ROOT, strlen(PD_LEAF_ROOT), err));
  for (; i < count && !is_whole && out_key->size <= PD_LEAF_SPLIT_MAX; i++) TRY(pd_stateleaf_key_step(&steps[i], out_key, &is_whole, err));
  *out_used = i;
  return PD_OK;
}

/* ---- keys to paths ---- */

static pd_code no_leaf(pd_bytes key, pd_error *err)
{
  return pd_error_set(err, PD_CORRUPT, "key '%.*s' is no leaf of a thread's state", (int)(key.size < 200 ? key.size : 200),
                      (const char *)key.data);
}

static bool is_hashed(pd_bytes segment)
{
  return segment.size == HASH_SEGMENT_SIZE && memcmp(segment.data, HASH_MARK, 2) == 0;
}

/* Decode in place; false if an escape is none. */
static bool decode_name(pd_bytes segment, char *out, size_t *out_size)
{
  const char *at = segment.data;
  size_t size = 0;
  for (size_t i = 0; i < segment.size; i++) {
    if (at[i] != '~') {
      out[size++] = at[i];
      continue;
    }
    if (++i == segment.size || at[i] < '0' || at[i] > '3') return false;
    out[size++] = "~/\0#"[at[i] - '0'];
  }
  *out_size = size;
  return true;
}

static bool decode_index(pd_bytes segment, uint64_t *out)
{
  const char *at = segment.data;
  if (segment.size != INDEX_SEGMENT_SIZE) return false;
  *out = 0;
  for (size_t i = 1; i < segment.size; i++) {
    if (at[i] < '0' || at[i] > '9') return false;
    *out = *out * 10 + (uint64_t)(at[i] - '0');
  }
  return true;
}

/* [name, value] */
static pd_code split_named(pd_bytes key, pd_bytes value, pd_json *out_name, pd_json *out_value, pd_error *err)
{
  pd_json pair, more;
  if (pd_json_parse(value, &pair, NULL) || pair.kind != PD_JSON_ARRAY) return no_leaf(key, err);
  pd_json_walk walk = pd_json_walk_begin(pair);
  bool is_pair = pd_json_walk_next(&walk, NULL, out_name) && pd_json_walk_next(&walk, NULL, out_value);
  if (!is_pair || out_name->kind != PD_JSON_STRING || pd_json_walk_next(&walk, NULL, &more)) return no_leaf(key, err);
  return PD_OK;
}

static pd_bytes last_segment(pd_bytes key)
{
  const char *slash = memrchr(key.data, '/', key.size);
  if (!slash) return (pd_bytes){key.data, 0};
  return (pd_bytes){slash + 1, (size_t)((const char *)key.data + key.size - slash - 1)};
}

bool pd_stateleaf_is_hashed(pd_bytes key)
{
  return is_hashed(last_segment(key));
}

pd_code pd_stateleaf_json(pd_bytes key, pd_bytes value, pd_json *out, pd_error *err)
{
  pd_json name;
  if (pd_stateleaf_is_hashed(key)) return split_named(key, value, &name, out, err);
  return pd_json_parse(value, out, NULL) ? no_leaf(key, err) : PD_OK;
}

typedef struct key_parts {
  pd_doc_step steps[PD_LEAF_SPLIT_MAX + 1];
  size_t count;
  char names[PD_KEY_SIZE_MAX];
  size_t used;
  pd_buf long_name;
} key_parts;

static pd_code take_segment(key_parts *p, pd_bytes key, pd_bytes segment, pd_bytes value, pd_error *err)
{
  pd_doc_step *step = &p->steps[p->count++];
  pd_json name, rest;
  size_t size;
  *step = (pd_doc_step){.kind = PD_STEP_NAME};
  if (segment.size && *(const char *)segment.data == '#') {
    step->kind = PD_STEP_INDEX;
    return decode_index(segment, &step->index) ? PD_OK : no_leaf(key, err);
  }
  if (is_hashed(segment)) {
    TRY(split_named(key, value, &name, &rest, err));
    pd_error why;
    pd_code code = pd_json_decode(name, &p->long_name, &why);
    if (code == PD_NO_MEMORY && err) *err = why;
    if (code) return code == PD_NO_MEMORY ? code : no_leaf(key, err);
    step->name = pd_buf_bytes(&p->long_name);
    return PD_OK;
  }
  if (!decode_name(segment, p->names + p->used, &size)) return no_leaf(key, err);
  step->name = (pd_bytes){p->names + p->used, size};
  p->used += size;
  return PD_OK;
}

static pd_code take_segments(key_parts *p, pd_bytes key, pd_bytes value, pd_error *err)
{
  static const char prefix[] = PD_LEAF_ROOT "/";
  const char *at = (const char *)key.data + sizeof prefix - 1, *end = (const char *)key.data + key.size;
  if (key.size > PD_KEY_SIZE_MAX || !pd_bytes_starts(key, pd_text(prefix))) return no_leaf(key, err);
  for (;;) {
    const char *slash = memchr(at, '/', (size_t)(end - at));
    pd_bytes segment = {at, (size_t)((slash ? slash : end) - at)};
    if (p->count == COUNT_OF(p->steps) || (slash && is_hashed(segment))) return no_leaf(key, err);
    TRY(take_segment(p, key, segment, value, err));
    if (!slash) return PD_OK;
    at = slash + 1;
  }
}

static void free_parts(key_parts **parts)
{
  if (!*parts) return;
  pd_buf_done(&(*parts)->long_name);
  free(*parts);
}

pd_code pd_stateleaf_path(pd_bytes key, pd_bytes value, pd_doc_path *out, pd_error *err)
{
  CLEANUP(free_parts) key_parts *parts = malloc(sizeof *parts); /* too large for a small stack */
  if (!parts) return pd_error_memory(err, "a path");
  parts->count = parts->used = 0;
  parts->long_name = (pd_buf){0};
  TRY(take_segments(parts, key, value, err));
  return pd_doc_path_copy(parts->steps, parts->count, NULL, out, err);
}
