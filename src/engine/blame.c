/*
 * blame.c: who last changed each path of a value.
 *
 * Each leaf of the value has a holder: the oldest record known to have written the key with this leaf in it. Newest first, a
 * holder's leaves are passed to the versions before it that have them too: the one before on its own line, and those of the other
 * parents of a merge, in this order. What none of them has was made by the holder. Records only lead to earlier ones, so it ends.
 */
#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/leaves.h"
#include "engine/store.h"

#include <stdlib.h>

/* A commit that is blamed. */
typedef struct source {
  pd_id commit;
  uint64_t seq, version;
  int64_t time_ms;
  size_t author_at, run_at, reason_at; /* in `texts` */
} source;

typedef struct blame {
  pd_store *s;
  pd_bytes key;
  pd_buf head; /* the value that is blamed; the leaves borrow from it */
  pd_leaves leaves;
  bool is_json;
  source *sources;
  size_t source_count, source_capacity;
  pd_buf texts;
  pd_buf record, older; /* scratch */
} blame;

static void blame_done(blame *b)
{
  pd_buf_done(&b->head);
  pd_leaves_done(&b->leaves);
  free(b->sources);
  pd_buf_done(&b->texts);
  pd_buf_done(&b->record);
  pd_buf_done(&b->older);
}

/* ---- one version ---- */

typedef struct version {
  uint64_t seq;
  pd_id value_id;
  uint64_t before[PD_PARENT_COUNT_MAX]; /* records that wrote the key in the versions that this one was made from */
  size_t before_count;
  bool has_lost; /* some of them cannot be known any more */
} version;

static bool is_lost(pd_code code)
{
  return code == PD_RETIRED || code == PD_ERASED;
}

static void add_before(version *v, uint64_t seq)
{
  for (size_t i = 0; i < v->before_count; i++)
    if (v->before[i] == seq) return;
  v->before[v->before_count++] = seq;
}

/* With the lock: where the other parents of a merge had the key from. */
static pd_code look_at_parents(blame *b, const uint64_t *parents, size_t count, version *v, pd_error *err)
{
  for (size_t i = 0; i < count; i++) {
    pd_entry entry;
    pd_error why;
    pd_code code = pd_get_to_read(b->s, parents[i], b->key, NULL, &entry, &why);
    if (code == PD_OK) add_before(v, entry.seq);
    if (is_lost(code)) v->has_lost = true;
    if (code == PD_OK || code == PD_NOT_FOUND || is_lost(code)) continue;
    if (err) *err = why;
    return code;
  }
  return PD_OK;
}

static pd_code copy_text(blame *b, pd_bytes text, size_t *out_at, pd_error *err)
{
  *out_at = b->texts.size;
  TRY(pd_buf_append(&b->texts, text.data, text.size, err));
  return pd_buf_byte(&b->texts, 0, err);
}

/* It becomes the last source; taken back if it turns out that nothing is to be blamed on it. */
static pd_code add_source(blame *b, const pd_rec *rec, const pd_rec_change *ch, pd_error *err)
{
  source made = {.commit = *pd_rec_maker(rec), .seq = rec->seq, .version = ch->version, .time_ms = pd_rec_made_ms(rec)};
  TRY(copy_text(b, rec->author, &made.author_at, err));
  TRY(copy_text(b, rec->run, &made.run_at, err));
  TRY(copy_text(b, rec->reason, &made.reason_at, err));
  TRY(pd_array_grow(&b->sources, b->source_count, &b->source_capacity, sizeof *b->sources, "a blame", err));
  b->sources[b->source_count++] = made;
  return PD_OK;
}

static pd_code open_version_locked(blame *b, uint64_t seq, version *out, pd_error *err)
{
  pd_rec rec;
  pd_rec_change ch;
  TRY(pd_version_step(b->s, b->key, seq, &b->record, &rec, &ch, err));
  version v = {.seq = seq, .value_id = pd_rec_value_id(&ch)};
  uint64_t parents[PD_PARENT_COUNT_MAX];
  size_t parent_count = rec.parent_count;
  memcpy(parents, rec.parent_seqs, sizeof parents);
  if (ch.prev_seq) add_before(&v, ch.prev_seq);
  v.has_lost = ch.is_carried;
  TRY(add_source(b, &rec, &ch, err)); /* what is borrowed from the record ends here */
  if (parent_count > 1) TRY(look_at_parents(b, parents + 1, parent_count - 1, &v, err));
  for (size_t i = 0; i < v.before_count; i++)
    if (v.before[i] >= seq) return pd_error_set(err, PD_CORRUPT, "record %llu follows a later one", (unsigned long long)seq);
  *out = v;
  return PD_OK;
}

static pd_code open_version(blame *b, uint64_t seq, version *out, pd_error *err)
{
  pd_store_lock_to_read(b->s);
  pd_code code = open_version_locked(b, seq, out, err);
  pd_cache_trim(b->s);
  pd_store_unlock(b->s);
  return code;
}

/* ---- from one version to those before it ---- */

static void pass_all(blame *b, uint64_t from, uint64_t to)
{
  for (size_t i = 0; i < b->leaves.count; i++) {
    pd_leaf *leaf = &b->leaves.items[i];
    if (!leaf->is_settled && leaf->holder == from) leaf->holder = to;
  }
}

/* Pass the leaves that `v` holds to the version that record `seq` wrote, where it has them. */
static pd_code pass_to(blame *b, version *v, uint64_t seq, pd_error *err)
{
  pd_id older_id;
  pd_error why;
  pd_store_lock_to_read(b->s);
  pd_code code = pd_version_value(b->s, b->key, seq, &older_id, NULL, &why);
  bool is_same = !code && pd_id_equal(&older_id, &v->value_id);
  if (!code && !is_same && b->is_json) code = pd_version_value(b->s, b->key, seq, &older_id, &b->older, &why);
  pd_cache_trim(b->s);
  pd_store_unlock(b->s);
  if (is_lost(code)) {
    v->has_lost = true;
    return PD_OK;
  }
  if (code) {
    if (err) *err = why;
    return code;
  }
  if (is_same) pass_all(b, v->seq, seq);
  if (is_same || !b->is_json) return PD_OK;
  pd_json json;
  if (pd_json_parse(pd_buf_bytes(&b->older), &json, NULL)) return PD_OK; /* no JSON: it has none of them */
  return pd_leaves_pass(&b->leaves, json, v->seq, seq, err);
}

/* What `v` still holds is its own. */
static void settle(blame *b, const version *v)
{
  size_t settled = 0;
  for (size_t i = 0; i < b->leaves.count; i++) {
    pd_leaf *leaf = &b->leaves.items[i];
    if (leaf->is_settled || leaf->holder != v->seq) continue;
    leaf->is_settled = true;
    leaf->is_known = !v->has_lost;
    leaf->source = (uint32_t)b->source_count - 1;
    settled++;
  }
  if (settled) return;
  b->source_count--;
  b->texts.size = b->sources[b->source_count].author_at;
}

/* The newest record that holds leaves; 0 if each is settled. */
static uint64_t newest_holder(const blame *b)
{
  uint64_t newest = 0;
  for (size_t i = 0; i < b->leaves.count; i++)
    if (!b->leaves.items[i].is_settled && b->leaves.items[i].holder > newest) newest = b->leaves.items[i].holder;
  return newest;
}

static pd_code follow(blame *b, pd_error *err)
{
  for (uint64_t seq; (seq = newest_holder(b));) {
    version v;
    TRY(open_version(b, seq, &v, err));
    for (size_t i = 0; i < v.before_count; i++) TRY(pass_to(b, &v, v.before[i], err));
    settle(b, &v);
  }
  return PD_OK;
}

/* ---- the door ---- */

static pd_code take_head(blame *b, const char *at, pd_error *err)
{
  pd_entry entry;
  pd_store_lock_to_read(b->s);
  pd_code code = pd_get_locked(b->s, at, b->key, &b->head, &entry, err);
  pd_store_unlock(b->s);
  if (code) return code;
  pd_json json;
  b->is_json = !pd_json_parse(pd_buf_bytes(&b->head), &json, NULL);
  TRY(b->is_json ? pd_leaves_take(&b->leaves, json, err) : pd_leaves_take_opaque(&b->leaves, pd_buf_bytes(&b->head), err));
  for (size_t i = 0; i < b->leaves.count; i++) b->leaves.items[i].holder = entry.seq;
  return PD_OK;
}

static bool tell(const blame *b, const pd_leaf *leaf, pd_blame_visit visit, void *ctx)
{
  const source *from = &b->sources[leaf->source];
  const char *texts = (const char *)b->texts.data;
  pd_blame_line line = {.path = pd_leaf_path(&b->leaves, leaf),
                        .value = leaf->value.raw,
                        .is_known = leaf->is_known,
                        .commit = from->commit,
                        .seq = from->seq,
                        .version = from->version,
                        .time_ms = from->time_ms,
                        .author = texts + from->author_at,
                        .run = texts + from->run_at,
                        .reason = texts + from->reason_at};
  return visit(ctx, &line);
}

pd_code pd_blame(pd_store *store, const char *at, pd_bytes key, pd_blame_visit visit, void *ctx, pd_error *err)
{
  CLEANUP(blame_done) blame b = {.s = store, .key = key};
  TRY(pd_key_check(key, err));
  TRY(take_head(&b, at, err));
  TRY(follow(&b, err));
  for (size_t i = 0; i < b.leaves.count; i++)
    if (!tell(&b, &b.leaves.items[i], visit, ctx)) break;
  return PD_OK;
}
