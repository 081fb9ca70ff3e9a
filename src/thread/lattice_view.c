/* lattice_view.c: lattice states as what they stand for. Declared in lattice.h. */
#include "base/base.h"
#include "base/buf.h"
#include "base/json_merge.h"
#include "thread/lattice.h"
#include "thread/lattice_entry.h"

static pd_code write_view(const pd_node *node, pd_json_writer *w);

static bool is_false(const pd_node *node)
{
  pd_json leaf = pd_node_leaf(node);
  return leaf.kind == PD_JSON_BOOL && !pd_json_true(leaf);
}

/* The live tag that counts, NULL if there is none: the walk is sorted, so the last one. */
static const pd_node *live_tag(const pd_node *tags)
{
  pd_node_walk walk = pd_node_walk_begin(tags);
  pd_node *tag;
  const pd_node *live = NULL;
  while (pd_node_walk_next(&walk, NULL, &tag))
    if (!is_false(tag)) live = tag;
  return live;
}

static pd_code write_counter(const pd_node *base, pd_json_writer *w)
{
  CLEANUP(pd_buf_done) pd_buf sum = {0};
  CLEANUP(pd_buf_done) pd_buf next = {0};
  pd_node_walk walk = pd_node_walk_begin(base);
  pd_node *count;
  TRY(pd_buf_byte(&sum, '0', w->err));
  while (pd_node_walk_next(&walk, NULL, &count)) {
    pd_buf_clear(&next);
    TRY(pd_json_number_add((pd_json){pd_buf_bytes(&sum), PD_JSON_NUMBER}, pd_node_leaf(count), false, &next, w->err));
    pd_buf swap = sum;
    sum = next;
    next = swap;
  }
  pd_json_raw(w, pd_buf_bytes(&sum));
  return w->code;
}

static pd_code write_items(const pd_node *base, bool is_tagged, pd_json_writer *w)
{
  pd_node_walk walk = pd_node_walk_begin(base);
  pd_bytes text;
  pd_node *node;
  pd_json_open(w, '[');
  while (pd_node_walk_next(&walk, &text, &node))
    if (!is_tagged || live_tag(node)) pd_json_raw(w, text); /* an item's name is its canonical JSON */
  pd_json_close(w, ']');
  return w->code;
}

static pd_code write_name(pd_bytes name, pd_json_writer *w)
{
  pd_json_text(w, name);
  TRY(w->code);
  TRY(pd_buf_byte(w->out, ':', w->err));
  w->needs_comma = false;
  return PD_OK;
}

static pd_code write_map(const pd_node *base, pd_json_writer *w)
{
  pd_node_walk walk = pd_node_walk_begin(base);
  pd_bytes key;
  pd_node *tags;
  pd_json_open(w, '{');
  while (pd_node_walk_next(&walk, &key, &tags)) {
    const pd_node *live = live_tag(tags);
    if (!live) continue;
    TRY(write_name(key, w));
    TRY(write_view(pd_node_item(live, 0), w));
  }
  pd_json_close(w, '}');
  return w->code;
}

/* The lattice that this is the state of, by its form and by all that is in it; PD_LATTICE_NONE if it only looks like one. */
static pd_code recognise(const pd_node *node, pd_lattice *out, const pd_node **out_base, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  *out = PD_LATTICE_NONE;
  if (pd_node_kind(node) != PD_JSON_OBJECT || pd_node_count(node) != 1) return PD_OK;
  for (int i = PD_LATTICE_COUNTER; i < PD_LATTICE_COUNT; i++) {
    const pd_node *base = pd_node_member(node, pd_text(pd_lattice_mark((pd_lattice)i)));
    if (!base || pd_node_kind(base) != PD_JSON_OBJECT) continue;
    TRY(pd_node_write(node, &text, err));
    pd_json state = {pd_buf_bytes(&text), PD_JSON_OBJECT};
    pd_error why;
    pd_code code = pd_lattice_check((pd_lattice)i, state, &why);
    if (code == PD_NO_MEMORY && err) *err = why;
    if (code) return code == PD_NO_MEMORY ? code : PD_OK;
    *out = (pd_lattice)i;
    *out_base = base;
    return PD_OK;
  }
  return PD_OK;
}

static pd_code write_plain(const pd_node *node, pd_json_writer *w)
{
  bool is_object = pd_node_kind(node) == PD_JSON_OBJECT;
  pd_node_walk walk = pd_node_walk_begin(node);
  pd_bytes name;
  pd_node *child;
  if (!is_object && pd_node_kind(node) != PD_JSON_ARRAY) {
    pd_json_raw(w, pd_node_leaf(node).raw);
    return w->code;
  }
  pd_json_open(w, is_object ? '{' : '[');
  while (pd_node_walk_next(&walk, &name, &child)) {
    if (is_object) TRY(write_name(name, w));
    TRY(write_view(child, w));
  }
  pd_json_close(w, is_object ? '}' : ']');
  return w->code;
}

static pd_code write_view(const pd_node *node, pd_json_writer *w)
{
  pd_lattice lattice;
  const pd_node *base = NULL;
  TRY(recognise(node, &lattice, &base, w->err));
  switch (lattice) {
  case PD_LATTICE_COUNTER: return write_counter(base, w);
  case PD_LATTICE_SET: return write_items(base, false, w);
  case PD_LATTICE_OR_SET: return write_items(base, true, w);
  case PD_LATTICE_OR_MAP: return write_map(base, w);
  default: return write_plain(node, w);
  }
}

pd_code pd_lattice_view(const pd_node *node, pd_buf *out, pd_error *err)
{
  pd_json_writer w = {.out = out, .err = err};
  return write_view(node, &w);
}
