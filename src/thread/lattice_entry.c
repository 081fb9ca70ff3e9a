/* lattice_entry.c: see lattice_entry.h. */
#include "thread/lattice_entry.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"

static const struct {
  const char *name, *mark;
} lattices[PD_LATTICE_COUNT] = {
  [PD_LATTICE_NONE] = {"none", NULL},
  [PD_LATTICE_FLAG] = {"flag", NULL},
  [PD_LATTICE_MAX] = {"max", NULL},
  [PD_LATTICE_MIN] = {"min", NULL},
  [PD_LATTICE_COUNTER] = {"counter", "$counter"},
  [PD_LATTICE_SET] = {"set", "$set"},
  [PD_LATTICE_OR_SET] = {"or_set", "$or_set"},
  [PD_LATTICE_OR_MAP] = {"or_map", "$or_map"},
};

const char *pd_lattice_name(pd_lattice lattice)
{
  return lattices[lattice].name;
}

pd_lattice pd_lattice_named(pd_json name)
{
  for (int i = PD_LATTICE_NONE + 1; i < PD_LATTICE_COUNT; i++)
    if (pd_json_is(name, lattices[i].name)) return (pd_lattice)i;
  return PD_LATTICE_NONE;
}

const char *pd_lattice_mark(pd_lattice lattice)
{
  return lattices[lattice].mark;
}

bool pd_lattice_is_tagged(pd_lattice lattice)
{
  return lattice == PD_LATTICE_OR_SET || lattice == PD_LATTICE_OR_MAP;
}

typedef struct reader {
  pd_lattice lattice;
  pd_lattice_visit visit;
  void *ctx;
  pd_buf key, tag, value;
  pd_error *err;
} reader;

static void reader_done(reader *r)
{
  pd_buf_done(&r->key);
  pd_buf_done(&r->tag);
  pd_buf_done(&r->value);
}

static pd_code refuse(const reader *r, const char *what)
{
  return pd_error_set(r->err, PD_INVALID, "%s: %s", lattices[r->lattice].name, what);
}

/* A replica or tag. */
static pd_code take_tag(reader *r, pd_json text, pd_buf *out)
{
  if (text.kind != PD_JSON_STRING) return refuse(r, "a tag is a string");
  pd_buf_clear(out);
  TRY(pd_json_decode(text, out, r->err));
  if (!out->size || out->size > PD_LATTICE_TAG_SIZE_MAX) return refuse(r, "replicas and tags have 1 to 256 bytes");
  return PD_OK;
}

/* Is it what this lattice keeps under a replica, item or tag? */
static bool fits(pd_lattice lattice, pd_json value)
{
  pd_json_walk walk = pd_json_walk_begin(value);
  pd_json item;
  if (lattice == PD_LATTICE_COUNTER) return pd_json_number_is_natural(value);
  if (lattice == PD_LATTICE_SET) return value.kind == PD_JSON_BOOL && pd_json_true(value);
  if (value.kind == PD_JSON_BOOL) return lattice == PD_LATTICE_OR_SET || !pd_json_true(value);
  if (lattice != PD_LATTICE_OR_MAP || value.kind != PD_JSON_ARRAY) return false;
  return pd_json_walk_next(&walk, NULL, &item) && !pd_json_walk_next(&walk, NULL, &item);
}

static pd_code visit_entry(reader *r, pd_json value)
{
  static const char *const faults[PD_LATTICE_COUNT] = {
    [PD_LATTICE_COUNTER] = "a replica's count is a whole number from 0",
    [PD_LATTICE_SET] = "the state of an item is true",
    [PD_LATTICE_OR_SET] = "the state of a tag is true or false",
    [PD_LATTICE_OR_MAP] = "the state of a tag is [value] or false",
  };
  if (!fits(r->lattice, value)) return refuse(r, faults[r->lattice]);
  if (r->lattice == PD_LATTICE_COUNTER) TRY(pd_json_number_check(value, r->err));
  pd_lattice_entry entry = {pd_buf_bytes(&r->key), pd_buf_bytes(&r->tag), value};
  return r->visit ? r->visit(r->ctx, &entry, r->err) : PD_OK;
}

/* ---- whole states ---- */

/* The key of a set is the canonical text of its item, so that no item has two. */
static pd_code check_item_key(reader *r)
{
  CLEANUP(pd_buf_done) pd_buf canonical = {0};
  pd_json item;
  if (pd_json_parse(pd_buf_bytes(&r->key), &item, NULL)) return refuse(r, "an item's name is no JSON");
  TRY(pd_json_unique(item, r->err));
  TRY(pd_json_canonical(item, &canonical, r->err));
  if (!pd_bytes_equal(pd_buf_bytes(&canonical), pd_buf_bytes(&r->key))) return refuse(r, "an item's name is not its canonical JSON");
  return PD_OK;
}

static pd_code read_tags(reader *r, pd_json tags)
{
  pd_json_walk walk = pd_json_walk_begin(tags);
  pd_json name, value;
  if (tags.kind != PD_JSON_OBJECT) return refuse(r, "under an item or key are its tags");
  while (pd_json_walk_next(&walk, &name, &value)) {
    TRY(take_tag(r, name, &r->tag));
    TRY(visit_entry(r, value));
  }
  return PD_OK;
}

static pd_code read_state(reader *r, pd_json state)
{
  pd_json_walk walk = pd_json_walk_begin(state);
  pd_json name, value;
  while (pd_json_walk_next(&walk, &name, &value)) {
    pd_buf_clear(&r->key);
    if (r->lattice == PD_LATTICE_COUNTER)
      TRY(take_tag(r, name, &r->key));
    else
      TRY(pd_json_decode(name, &r->key, r->err));
    if (r->lattice == PD_LATTICE_SET || r->lattice == PD_LATTICE_OR_SET) TRY(check_item_key(r));
    if (pd_lattice_is_tagged(r->lattice))
      TRY(read_tags(r, value));
    else
      TRY(visit_entry(r, value));
  }
  return PD_OK;
}

/* ---- short forms ---- */

static pd_code take_value(reader *r, pd_json removed, pd_json value, pd_json *out)
{
  bool is_removed = removed.kind != PD_JSON_NONE;
  if (is_removed && (removed.kind != PD_JSON_BOOL || !pd_json_true(removed))) return refuse(r, "'removed' is true or absent");
  static const pd_json truth = {{"true", 4}, PD_JSON_BOOL}, untruth = {{"false", 5}, PD_JSON_BOOL};
  *out = is_removed ? untruth : truth;
  if (r->lattice == PD_LATTICE_OR_SET) return PD_OK;
  if (is_removed == (value.kind != PD_JSON_NONE)) return refuse(r, "an entry has either 'value' or 'removed'");
  if (is_removed) return PD_OK;
  pd_buf_clear(&r->value);
  pd_json_writer w = {.out = &r->value, .err = r->err};
  pd_json_open(&w, '[');
  pd_json_value(&w, value);
  pd_json_close(&w, ']');
  TRY(w.code);
  *out = (pd_json){pd_buf_bytes(&r->value), PD_JSON_ARRAY};
  return PD_OK;
}

static pd_code read_tagged(reader *r, pd_json entry)
{
  enum { KEY, TAG, REMOVED, VALUE };
  bool is_map = r->lattice == PD_LATTICE_OR_MAP;
  pd_json_field f[] = {{.name = is_map ? "key" : "item"}, {.name = "tag"}, {.name = "removed"}, {.name = "value"}};
  pd_json value;
  TRY(pd_json_fields(entry, f, is_map ? COUNT_OF(f) : (size_t)VALUE, r->err));
  if (f[KEY].value.kind == PD_JSON_NONE || f[TAG].value.kind == PD_JSON_NONE)
    return refuse(r, is_map ? "an entry has 'key' and 'tag'" : "an entry has 'item' and 'tag'");
  pd_buf_clear(&r->key);
  if (is_map && f[KEY].value.kind != PD_JSON_STRING) return refuse(r, "a key is a string");
  TRY(is_map ? pd_json_decode(f[KEY].value, &r->key, r->err) : pd_json_canonical(f[KEY].value, &r->key, r->err));
  TRY(take_tag(r, f[TAG].value, &r->tag));
  TRY(take_value(r, f[REMOVED].value, f[VALUE].value, &value));
  return visit_entry(r, value);
}

static pd_code read_list(reader *r, pd_json list)
{
  pd_json_walk walk = pd_json_walk_begin(list);
  pd_json item;
  while (pd_json_walk_next(&walk, NULL, &item)) {
    if (r->lattice != PD_LATTICE_SET) {
      TRY(read_tagged(r, item));
      continue;
    }
    pd_buf_clear(&r->key);
    TRY(pd_json_canonical(item, &r->key, r->err));
    TRY(visit_entry(r, (pd_json){{"true", 4}, PD_JSON_BOOL}));
  }
  return PD_OK;
}

/* The inside of a whole state, or PD_JSON_NONE. */
static pd_json inside(pd_lattice lattice, pd_json value)
{
  pd_json_walk walk = pd_json_walk_begin(value);
  pd_json name, inner, rest;
  pd_json none = {{NULL, 0}, PD_JSON_NONE};
  if (value.kind != PD_JSON_OBJECT || !pd_json_walk_next(&walk, &name, &inner)) return none;
  bool is_state = pd_json_is(name, lattices[lattice].mark) && inner.kind == PD_JSON_OBJECT && !pd_json_walk_next(&walk, NULL, &rest);
  return is_state ? inner : none;
}

pd_code pd_lattice_entries(pd_lattice lattice, pd_json value, pd_lattice_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(reader_done) reader r = {.lattice = lattice, .visit = visit, .ctx = ctx, .err = err};
  pd_json inner = inside(lattice, value);
  if (inner.kind != PD_JSON_NONE) return read_state(&r, inner);
  if (lattice == PD_LATTICE_COUNTER && value.kind == PD_JSON_OBJECT) return read_state(&r, value);
  if (lattice != PD_LATTICE_COUNTER && value.kind == PD_JSON_ARRAY) return read_list(&r, value);
  return refuse(&r,
                lattice == PD_LATTICE_COUNTER ? "the value is an object of counts by replica" : "the value is a list, or a whole state");
}
