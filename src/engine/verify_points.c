/*
 * verify_points.c: what verify can say of records before the cut. Their replay is gone; but each kept point's tree is in the bag, and
 * every value that it names must be in the log or the bag, with its id.
 */
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/map64.h"
#include "base/sha256.h"
#include "engine/gc.h"
#include "engine/retired.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct checker {
  pd_store *s;
  const pd_points *points;
  pd_check_visit finding;
  void *ctx;
  pd_id_map nodes; /* seen */
  pd_map64 values; /* named by a leaf: the first bytes of the value's id */
  uint64_t *out_nodes, *out_values;
} checker;

static uint32_t first_bytes(const uint8_t *id)
{
  uint32_t n;
  memcpy(&n, id, sizeof n);
  return n | 1; /* 0 means found */
}

static pd_code note_leaf(void *ctx, const pd_node *leaf, pd_error *err)
{
  checker *c = ctx;
  ++*c->out_nodes;
  for (size_t i = 0; !leaf->level && i < leaf->count; i++) {
    uint32_t *value;
    TRY(pd_map64_add(&c->values, pd_change_print(leaf->riders[i].seq, pd_node_key(leaf, i)), &value, NULL, err));
    *value = first_bytes(pd_node_value_id(leaf, i));
  }
  return PD_OK;
}

static pd_code check_point(checker *c, const pd_point *p, pd_error *err)
{
  pd_id id = pd_commit_id(&p->commit.tree, p->parents, p->parent_count);
  if (!pd_id_equal(&id, &p->commit.id))
    return pd_error_set(err, PD_CORRUPT, "the kept commit of record %llu: its id does not follow from tree and parents",
                        (unsigned long long)p->commit.seq);
  return pd_walk_tree(c->s, &p->root_blob, &p->commit.tree, &c->nodes, note_leaf, c, err);
}

/* A value that a kept point names: is it this, and whole? */
static pd_code check_change(checker *c, const pd_rec *rec, const pd_rec_change *ch, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  uint32_t *expected = pd_map64_find(&c->values, pd_change_print(rec->seq, ch->key));
  if (!expected || ch->is_delete) return PD_OK;
  pd_id id = pd_rec_value_id(ch);
  bool is_same = *expected == first_bytes(id.bytes) || !*expected;
  *expected = 0;
  ++*c->out_values;
  if (!is_same) return pd_error_set(err, PD_CORRUPT, "record %llu: a kept value does not match its id", (unsigned long long)rec->seq);
  if (ch->is_erased || !ch->is_in_bag) return PD_OK;
  if (ch->is_chunked) return pd_pieces_stream(c->s, &ch->list_id, &id, ch->size, pd_piece_ignore, NULL, err);
  return pd_load_blob(c->s, &id, "a kept value", &value, err);
}

/* Records before the cut that are still there: their values, and their audit where the one before is there too. */
static pd_code check_record(checker *c, const pd_rec *rec, const pd_id *audit_before, pd_error *err)
{
  pd_cursor cursor = pd_rec_changes(rec);
  for (size_t i = 0; i < rec->change_count; i++) {
    pd_rec_change ch;
    pd_rec_next(rec, &cursor, &ch);
    TRY(check_change(c, rec, &ch, err));
  }
  if (rec->has_dropped || !audit_before) return PD_OK;
  pd_id audit = pd_rec_audit(rec, audit_before);
  if (pd_id_equal(&audit, &rec->audit)) return PD_OK;
  return pd_error_set(err, PD_CORRUPT, "record %llu does not continue the audit chain", (unsigned long long)rec->seq);
}

static pd_code judge(checker *c, pd_code code, const pd_error *why, pd_error *err)
{
  if (code == PD_CORRUPT || code == PD_NOT_FOUND) {
    c->finding(c->ctx, why->message);
    return PD_OK;
  }
  if (code && err) *err = *why;
  return code;
}

static pd_code check_log(checker *c, pd_error *err)
{
  CLEANUP(pd_taken_done) pd_taken t = {0};
  static const pd_id none;
  pd_id audit = none;
  bool has_audit = true; /* before record 1 */
  for (uint64_t seq = 1; seq < c->points->cut; seq += t.count) {
    TRY(pd_take_records(c->s, seq, c->points->cut - 1, &t, err));
    if (!t.count) return pd_error_set(err, PD_CORRUPT, "record %llu of the log is missing", (unsigned long long)seq);
    for (size_t i = 0; i < t.count; i++) {
      pd_bytes bytes = pd_taken_at(&t, i);
      pd_error why;
      pd_rec rec;
      pd_code code = bytes.size ? pd_rec_decode(seq + i, bytes, &rec, &why) : PD_OK;
      if (!code && bytes.size) code = check_record(c, &rec, has_audit ? &audit : NULL, &why);
      TRY(judge(c, code, &why, err));
      has_audit = bytes.size && !code;
      if (has_audit) audit = rec.audit;
    }
  }
  if (has_audit && !pd_id_equal(&audit, &c->points->audit)) c->finding(c->ctx, "the audit chain does not meet the cut");
  return PD_OK;
}

/* Has another gc retired points since they were copied? */
static bool is_overtaken(checker *c)
{
  pd_store *s = c->s;
  pd_store_lock(s);
  bool is_known = !pd_refresh_to_read(s, NULL) && !pd_retention_ready(s, NULL);
  const pd_points *now = &s->retention.state;
  bool is_same = is_known && now->cut == c->points->cut && pd_id_equal(&now->run, &c->points->run);
  pd_store_unlock(s);
  return !is_same;
}

static pd_code count_missing(checker *c, pd_error *err)
{
  char line[160];
  uint64_t missing = 0;
  for (size_t i = 0; i < c->values.size; i++) missing += c->values.slots[i].key && c->values.slots[i].value;
  if (!missing) return PD_OK;
  if (is_overtaken(c)) return pd_error_set(err, PD_RETIRED, "gc ran while the store was being verified: try again");
  snprintf(line, sizeof line, "%llu values of kept points are not in the log", (unsigned long long)missing);
  c->finding(c->ctx, line);
  return PD_OK;
}

pd_code pd_verify_points(pd_store *s, const pd_points *points, pd_check_visit visit, void *ctx, uint64_t *out_nodes, uint64_t *out_values,
                         pd_error *err)
{
  checker c = {.s = s, .points = points, .finding = visit, .ctx = ctx, .out_nodes = out_nodes, .out_values = out_values};
  pd_code code = PD_OK;
  for (size_t i = 0; !code && i < points->count; i++) {
    pd_error why;
    code = check_point(&c, &points->points[i], &why);
    code = judge(&c, code, &why, err);
  }
  if (!code) {
    pd_error why;
    code = check_log(&c, &why);
    code = judge(&c, code, &why, err);
  }
  if (!code) code = count_missing(&c, err);
  pd_id_map_done(&c.nodes);
  pd_map64_done(&c.values);
  return code;
}
