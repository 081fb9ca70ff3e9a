/* prove.c: proofs out of a store (dag/proof.h): of a key under a commit, and of descent. What is handed out was checked like any other
 * proof, so a damaged store makes none that others would refuse. */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "dag/proof.h"
#include "engine/retired.h"
#include "engine/segment.h"

#include <stdlib.h>

#define VISIT_MAX 1000000 /* commits that a search for a descent looks at */
#define NO_WAY SIZE_MAX

/* The commit that record `seq` made, as its id is computed from. */
static pd_code add_commit(pd_store *s, uint64_t seq, pd_buf *out, pd_error *err)
{
  pd_id parents[PD_PARENT_COUNT_MAX], tree = pd_tree_empty_id();
  if (!seq) return pd_proof_add_commit(out, &tree, parents, 0, err);
  TRY(pd_retention_ready(s, err));
  const pd_point *point = pd_point_at(s, seq);
  if (point) return pd_proof_add_commit(out, &point->commit.tree, point->parents, point->parent_count, err);
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  pd_rec rec;
  TRY(pd_record_at(s, seq, &scratch, &rec, err));
  for (size_t i = 0; i < rec.parent_count; i++) {
    pd_commit parent = {.id = rec.parent_ids[i]};
    if (!rec.is_grafted) TRY(pd_commit_at(s, rec.parent_seqs[i], &parent, err));
    parents[i] = parent.id;
  }
  pd_id id = pd_commit_id(&rec.tree, parents, rec.parent_count);
  if (!pd_id_equal(&id, &rec.commit))
    return pd_error_set(err, PD_CORRUPT, "record %llu: its commit id does not follow from tree and parent", (unsigned long long)seq);
  return pd_proof_add_commit(out, &rec.tree, parents, rec.parent_count, err);
}

/* Nobody would accept it: then the store it came from is damaged. */
static pd_code finish(pd_buf *out, const pd_proof_expect *expect, pd_error *err)
{
  pd_error why;
  TRY(pd_proof_seal(out, err));
  pd_code code = pd_check_proof(pd_buf_bytes(out), expect, NULL, &why);
  if (code == PD_CORRUPT || code == PD_CONFLICT) return pd_error_set(err, PD_CORRUPT, "the store is damaged: %s", why.message);
  if (code && err) *err = why;
  return code;
}

/* ---- a key ---- */

static pd_code add_value(pd_store *s, pd_node *leaf, size_t index, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  if (leaf->riders[index].size > PD_PROOF_SIZE_MAX) value.size_max = PD_PROOF_SIZE_MAX; /* not worth reading: say so below */
  pd_code code = value.size_max ? PD_LIMIT : pd_value_read(s, leaf, index, &value, err);
  if (code == PD_LIMIT) return pd_proof_add_value(out, (pd_bytes){NULL, leaf->riders[index].size}, err);
  return code ? code : pd_proof_add_value(out, pd_buf_bytes(&value), err);
}

static pd_code prove_under(pd_store *s, const pd_commit *commit, pd_node *root, pd_bytes key, bool with_value, pd_buf *out, pd_error *err)
{
  pd_node *leaf;
  size_t index;
  TRY(pd_tree_find(&s->tree, root, key, &leaf, &index, err));
  pd_proof_kind kind = !leaf ? PD_PROOF_ABSENT : with_value ? PD_PROOF_VALUE : PD_PROOF_VALUE_ID;
  TRY(pd_proof_begin(out, kind, key, err));
  TRY(add_commit(s, commit->seq, out, err));
  TRY(pd_proof_add_path(out, &s->tree, root, key, err));
  if (kind == PD_PROOF_VALUE) TRY(add_value(s, leaf, index, out, err));
  pd_proof_expect expect = {.commit = &commit->id, .key = key};
  return finish(out, &expect, err);
}

static pd_code prove_locked(pd_store *s, const char *at, pd_bytes key, bool with_value, pd_buf *out, pd_error *err)
{
  pd_commit commit;
  pd_node *root;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_resolve_to_read(s, at, &commit, err));
  TRY(pd_tree_to_read(s, commit.seq, &root, err));
  pd_code code = prove_under(s, &commit, root, key, with_value, out, err);
  pd_node_unref(&s->tree.pool, root);
  return code;
}

pd_code pd_prove(pd_store *store, const char *at, pd_bytes key, bool with_value, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf made = {0};
  TRY(pd_key_check(key, err));
  pd_store_lock_to_read(store);
  pd_code code = prove_locked(store, at, key, with_value, &made, err);
  pd_cache_trim(store);
  pd_store_unlock(store);
  if (code) return code;
  pd_buf_clear(out);
  return pd_buf_append(out, made.data, made.size, err);
}

/* ---- descent: breadth first from the younger commit, so the first way that is found is a shortest one ---- */

typedef struct visit {
  uint64_t seq;
  size_t from; /* whose parent it is: index of a visit */
} visit;

typedef struct search {
  visit *visits;
  size_t count, capacity;
  uint8_t *seen; /* a bit a record from `oldest` on */
  uint64_t oldest;
} search;

static void search_done(search *q)
{
  free(q->visits);
  free(q->seen);
}

/* No record before the wanted commit descends from it. */
static pd_code visit_once(search *q, uint64_t seq, size_t from, pd_error *err)
{
  if (seq < q->oldest || seq == PD_SEQ_GONE) return PD_OK;
  uint64_t bit = seq - q->oldest;
  if (q->seen[bit / 8] >> (bit % 8) & 1) return PD_OK;
  q->seen[bit / 8] |= (uint8_t)(1u << (bit % 8));
  if (q->count == VISIT_MAX)
    return pd_error_set(err, PD_LIMIT, "over %d commits were looked at: too far for a proof of descent", VISIT_MAX);
  TRY(pd_array_grow(&q->visits, q->count, &q->capacity, sizeof *q->visits, "a proof of descent", err));
  q->visits[q->count++] = (visit){seq, from};
  return PD_OK;
}

/* Let others in before the walk goes on at `seq`. */
static pd_code rest(pd_store *s, uint64_t seq, pd_error *err)
{
  pd_store_yield(s);
  return pd_segment_bring(s, seq, err);
}

/* *out_last is the visit of the ancestor; NO_WAY if there is none. */
static pd_code find_way(pd_store *s, search *q, const pd_id *ancestor, size_t *out_last, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf scratch = {0};
  *out_last = NO_WAY;
  for (size_t i = 0; i < q->count; i++) {
    pd_rec rec = {.commit = pd_commit_root_id()};
    if (q->visits[i].seq && (i % PD_YIELD_STEPS == 0 || !pd_segment_loaded(s, q->visits[i].seq))) TRY(rest(s, q->visits[i].seq, err));
    if (q->visits[i].seq) TRY(pd_record_walk(s, q->visits[i].seq, &scratch, &rec, err));
    if (pd_id_equal(&rec.commit, ancestor)) {
      *out_last = i;
      return PD_OK;
    }
    for (size_t k = 0; k < rec.parent_count; k++) TRY(visit_once(q, rec.parent_seqs[k], i, err));
  }
  return PD_OK;
}

/* Several records can have made the same commit (same tree, same parents): a way may end at any of them. */
typedef struct oldest_search {
  pd_store *s;
  const pd_id *id;
  uint64_t seq;
} oldest_search;

static pd_code consider_oldest(void *ctx, uint64_t seq, bool *out_stop, pd_error *err)
{
  oldest_search *q = ctx;
  pd_commit commit;
  TRY(pd_commit_at(q->s, seq, &commit, err));
  if (seq < q->seq && pd_id_equal(&commit.id, q->id)) q->seq = seq;
  *out_stop = false;
  return PD_OK;
}

static pd_code oldest_of(pd_store *s, const pd_commit *commit, uint64_t *out_seq, pd_error *err)
{
  oldest_search q = {s, &commit->id, commit->seq};
  uint32_t prefix = pd_id_prefix(&commit->id);
  if (commit->seq) TRY(pd_index_search(s, prefix, prefix, consider_oldest, &q, err));
  *out_seq = q.seq;
  return PD_OK;
}

/* The visits know the way from the ancestor to the younger commit; the proof has it the other way round. */
static pd_code add_way(pd_store *s, const search *q, size_t last, pd_buf *out, pd_error *err)
{
  size_t count = 1;
  for (size_t i = last; i; i = q->visits[i].from) count++;
  if (count - 1 > PD_DESCENT_MAX)
    return pd_error_set(err, PD_LIMIT, "there are %zu commits in between: a proof of descent has at most %d", count - 1, PD_DESCENT_MAX);
  uint64_t *seqs = malloc(count * sizeof *seqs);
  if (!seqs) return pd_error_memory(err, "a proof of descent");
  size_t at = count;
  for (size_t i = last; i; i = q->visits[i].from) seqs[--at] = q->visits[i].seq;
  seqs[0] = q->visits[0].seq;
  pd_code code = PD_OK;
  for (size_t i = 0; !code && i < count; i++) {
    if (i % PD_YIELD_STEPS == 0) pd_store_yield(s);
    code = add_commit(s, seqs[i], out, err);
  }
  free(seqs);
  return code;
}

static pd_code no_descent(const pd_commit *commit, const pd_commit *ancestor, pd_error *err)
{
  char young[PD_ID_HEX_SIZE], old[PD_ID_HEX_SIZE];
  return pd_error_set(err, PD_NOT_FOUND, "commit %.12s does not descend from %.12s", pd_id_hex(&commit->id, young),
                      pd_id_hex(&ancestor->id, old));
}

static pd_code descent_locked(pd_store *s, const char *ancestor_at, const char *at, pd_buf *out, pd_error *err)
{
  CLEANUP(search_done) search q = {0};
  pd_commit commit, ancestor;
  size_t last;
  TRY(pd_refresh_to_read(s, err));
  TRY(pd_resolve_to_read(s, ancestor_at, &ancestor, err));
  TRY(pd_resolve_to_read(s, at, &commit, err));
  TRY(oldest_of(s, &ancestor, &q.oldest, err));
  if (q.oldest > commit.seq) return no_descent(&commit, &ancestor, err);
  q.seen = calloc((commit.seq - q.oldest) / 8 + 1, 1);
  if (!q.seen) return pd_error_memory(err, "a proof of descent");
  TRY(visit_once(&q, commit.seq, 0, err));
  TRY(find_way(s, &q, &ancestor.id, &last, err));
  if (last == NO_WAY) return no_descent(&commit, &ancestor, err);
  TRY(pd_proof_begin(out, PD_PROOF_DESCENT, (pd_bytes){NULL, 0}, err));
  TRY(add_way(s, &q, last, out, err));
  pd_proof_expect expect = {.commit = &commit.id, .ancestor = &ancestor.id};
  return finish(out, &expect, err);
}

pd_code pd_prove_descent(pd_store *store, const char *ancestor, const char *at, pd_buf *out, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf made = {0};
  pd_store_lock_to_read(store);
  pd_code code = descent_locked(store, ancestor, at, &made, err);
  pd_store_unlock(store);
  if (code) return code;
  pd_buf_clear(out);
  return pd_buf_append(out, made.data, made.size, err);
}
