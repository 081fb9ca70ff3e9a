/* lattice.c: joins, made as edits of the doc, entry by entry: a merge costs what it changes. */
#include "thread/lattice.h"

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json_merge.h"
#include "thread/lattice_entry.h"

static pd_code check_plain(pd_lattice lattice, pd_json value, pd_error *err)
{
  if (lattice == PD_LATTICE_FLAG) {
    if (value.kind == PD_JSON_BOOL) return PD_OK;
    return pd_error_set(err, PD_INVALID, "flag: true or false is needed, and this is of the kind %s", pd_json_kind_name(value.kind));
  }
  if (value.kind == PD_JSON_NUMBER) return pd_json_number_check(value, err);
  if (value.kind == PD_JSON_STRING) return PD_OK;
  return pd_error_set(err, PD_INVALID, "%s: a number or a string is needed, and this is of the kind %s", pd_lattice_name(lattice),
                      pd_json_kind_name(value.kind));
}

pd_code pd_lattice_check(pd_lattice lattice, pd_json value, pd_error *err)
{
  if (!pd_lattice_mark(lattice)) return check_plain(lattice, value, err);
  return pd_lattice_entries(lattice, value, NULL, NULL, err);
}

/* ---- which of two ---- */

/* Of equal ones the greater text, so that it is the same one whichever comes first (L2). */
static int compare_plain(pd_json a, pd_json b)
{
  int order = a.kind == PD_JSON_NUMBER ? pd_json_number_compare(a, b) : pd_json_string_compare(a, b);
  return order ? order : pd_bytes_compare(a.raw, b.raw);
}

/* Does `now` win over the leaf that is there? */
static bool plain_wins(pd_lattice lattice, pd_json old, pd_json now)
{
  if (lattice == PD_LATTICE_FLAG) return pd_json_true(now) && !pd_json_true(old);
  int order = compare_plain(now, old);
  return lattice == PD_LATTICE_MAX ? order > 0 : order < 0;
}

static pd_code entry_wins(pd_lattice lattice, const pd_node *old, pd_json now, bool *out, pd_error *err)
{
  pd_json leaf = pd_node_leaf(old);
  CLEANUP(pd_buf_done) pd_buf old_text = {0};
  CLEANUP(pd_buf_done) pd_buf now_text = {0};
  *out = false;
  if (lattice == PD_LATTICE_SET) return PD_OK;
  if (lattice == PD_LATTICE_COUNTER) {
    if (!pd_json_number_is_natural(leaf)) return pd_error_set(err, PD_INVALID, "counter: what a replica has there is no count");
    *out = compare_plain(now, leaf) > 0;
    return PD_OK;
  }
  bool was_removed = leaf.kind == PD_JSON_BOOL && !pd_json_true(leaf);
  if (was_removed) return PD_OK;
  *out = now.kind == PD_JSON_BOOL && !pd_json_true(now);
  if (*out || lattice == PD_LATTICE_OR_SET) return PD_OK;
  TRY(pd_node_write(old, &old_text, err));
  TRY(pd_json_canonical(now, &now_text, err));
  *out = pd_bytes_compare(pd_buf_bytes(&now_text), pd_buf_bytes(&old_text)) > 0;
  return PD_OK;
}

/* ---- joining ---- */

typedef struct join {
  pd_lattice lattice;
  pd_doc *doc;
  pd_doc_place *place;
  pd_node *base; /* the object under the mark */
  pd_lattice_touch touch;
  void *ctx;
  pd_doc_step steps[PD_DOC_DEPTH_MAX + 3];
} join;

static pd_doc_step name_step(pd_bytes name)
{
  return (pd_doc_step){PD_STEP_NAME, name, 0};
}

/* `object`, so many steps deep, gets something under steps[depth]. An empty object is touched itself (P2 of patch.h). */
static pd_code touch_member(join *j, const pd_node *object, size_t depth, pd_error *err)
{
  return j->touch(j->ctx, j->steps, pd_node_count(object) ? depth + 1 : depth, err);
}

static pd_code put(join *j, pd_node *object, size_t depth, pd_bytes name, pd_json value, pd_node **out, pd_error *err)
{
  TRY(touch_member(j, object, depth, err));
  return pd_doc_member_set(j->doc, object, (unsigned)depth, name, value, out, err);
}

static pd_code join_entry(void *ctx, const pd_lattice_entry *entry, pd_error *err)
{
  join *j = ctx;
  bool is_tagged = pd_lattice_is_tagged(j->lattice), wins;
  size_t depth = j->place->count + 1; /* of base */
  pd_node *object = j->base, *old = pd_node_member(object, entry->key);
  j->steps[depth] = name_step(entry->key);
  j->steps[depth + 1] = name_step(entry->tag);
  if (is_tagged) {
    if (!old) TRY(put(j, object, depth, entry->key, (pd_json){{"{}", 2}, PD_JSON_OBJECT}, &old, err));
    if (pd_node_kind(old) != PD_JSON_OBJECT)
      return pd_error_set(err, PD_INVALID, "%s: what is there under an item or key are no tags", pd_lattice_name(j->lattice));
    object = old;
    old = pd_node_member(object, entry->tag);
    depth++;
  }
  if (old) {
    TRY(entry_wins(j->lattice, old, entry->value, &wins, err));
    if (!wins) return PD_OK;
  }
  return put(j, object, depth, is_tagged ? entry->tag : entry->key, entry->value, NULL, err);
}

static pd_code set_place(join *j, pd_json value, pd_error *err)
{
  TRY(j->touch(j->ctx, j->place->steps, pd_doc_place_changed(j->place), err));
  return pd_doc_place_set(j->doc, j->place, value, err);
}

static pd_code find_base(join *j, pd_error *err)
{
  const char *mark = pd_lattice_mark(j->lattice);
  if (j->place->found < j->place->count) {
    CLEANUP(pd_buf_done) pd_buf empty = {0};
    TRY(pd_buf_printf(&empty, err, "{\"%s\":{}}", mark));
    TRY(set_place(j, (pd_json){pd_buf_bytes(&empty), PD_JSON_OBJECT}, err));
  }
  pd_node *node = j->place->nodes[j->place->count];
  j->base = pd_node_member(node, pd_text(mark));
  if (!j->base || pd_node_kind(j->base) != PD_JSON_OBJECT || pd_node_count(node) != 1)
    return pd_error_set(err, PD_INVALID, "what is there is not the state of a %s: {\"%s\":{…}} and nothing else",
                        pd_lattice_name(j->lattice), mark);
  return PD_OK;
}

static pd_code join_plain(join *j, pd_json value, pd_error *err)
{
  if (j->place->found == j->place->count) {
    pd_json old = pd_node_leaf(j->place->nodes[j->place->count]);
    if (old.kind != value.kind || check_plain(j->lattice, old, NULL))
      return pd_error_set(err, PD_INVALID, "%s: what is there is of the kind %s, and %s is to be merged", pd_lattice_name(j->lattice),
                          pd_json_kind_name(pd_node_kind(j->place->nodes[j->place->count])), pd_json_kind_name(value.kind));
    if (!plain_wins(j->lattice, old, value)) return PD_OK;
  }
  return set_place(j, value, err);
}

pd_code pd_lattice_join(pd_lattice lattice, pd_doc *doc, pd_doc_place *place, pd_json value, pd_lattice_touch touch, void *ctx,
                        pd_error *err)
{
  join j;
  j.lattice = lattice;
  j.doc = doc;
  j.place = place;
  j.touch = touch;
  j.ctx = ctx;
  if (!pd_lattice_mark(lattice)) return join_plain(&j, value, err);
  if (place->count + 3 > PD_DOC_DEPTH_MAX) return pd_error_set(err, PD_LIMIT, "nested more than %d deep", PD_DOC_DEPTH_MAX);
  TRY(find_base(&j, err));
  for (size_t i = 0; i < place->count; i++) j.steps[i] = place->steps[i];
  j.steps[place->count] = name_step(pd_text(pd_lattice_mark(lattice)));
  return pd_lattice_entries(lattice, value, join_entry, &j, err);
}
