/*
 * merge.c: merge, cherry-pick and revert. All three are one thing: a base, theirs, and the ref as ours. The trees are compared under the
 * lock; the one record that comes of it (M1) is written on the condition that the ref is still where it was, and if others were first,
 * everything is done again with what they wrote.
 */
#include "engine/merge.h"

#include "base/array.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/segment.h"

#include <stdio.h>
#include <stdlib.h>

#define TRY_COUNT_MAX 100
#define YIELD_TRIES 3 /* then no others get the lock while it compares: else one who writes all the time would always be first */
#define RULE_COUNT_MAX 10000

typedef enum merge_kind { KIND_MERGE, KIND_PICK, KIND_REVERT } merge_kind;

typedef struct attempt {
  pd_store *store;
  merge_kind kind;
  const char *at; /* what the caller named */
  pd_merge_options options;
  pd_note note;
  pd_rule_book book;
  const pd_resolution **resolutions;
  bool *used;
  pd_commit target; /* what `at` is; resolved once, so that trying again merges the same */
  bool is_resolved;
  bool may_yield;
  char ref[PD_REF_SIZE_MAX + 1];
  pd_merge_result result;
} attempt;

static void attempt_done(attempt *a)
{
  for (size_t i = 0; i < a->book.count; i++) free(a->book.rules[i].prefix);
  free(a->book.rules);
  free(a->resolutions);
  free(a->used);
  pd_merge_result_done(&a->result);
}

static int shown(pd_bytes text)
{
  return text.size < 100 ? (int)text.size : 100;
}

const char *pd_merge_outcome_name(pd_merge_outcome outcome)
{
  static const char *const names[] = {"up-to-date", "fast-forward", "committed", "conflicts"};
  return (unsigned)outcome < COUNT_OF(names) ? names[outcome] : "unknown";
}

/* ---- rules ---- */

typedef struct rule_reader {
  pd_rule_book *book;
  pd_code code;
  pd_error *err;
} rule_reader;

static pd_code add_rule(pd_rule_book *book, const char *name, pd_bytes value, pd_error *err)
{
  const char *prefix = name + strlen(PD_SETTING_MERGE_RULE);
  char text[32];
  snprintf(text, sizeof text, "%.*s", (int)(value.size < sizeof text ? value.size : sizeof text - 1), (const char *)value.data);
  pd_prefix_rule rule = {.prefix_size = strlen(prefix)};
  if (pd_merge_rule_parse(text, &rule.rule, NULL))
    return pd_error_set(err, PD_INVALID, "setting '%.200s' is '%s', which is no merge rule", name, text);
  if (book->count >= RULE_COUNT_MAX) return pd_error_set(err, PD_LIMIT, "there are more than %d merge rules", RULE_COUNT_MAX);
  TRY(pd_array_grow(&book->rules, book->count, &book->capacity, sizeof rule, "merge rules", err));
  rule.prefix = strdup(prefix);
  if (!rule.prefix) return pd_error_memory(err, "merge rules");
  book->rules[book->count++] = rule;
  return PD_OK;
}

static bool visit_rule(void *ctx, const char *name, pd_bytes value)
{
  rule_reader *r = ctx;
  r->code = add_rule(r->book, name, value, r->err);
  return r->code == PD_OK;
}

static pd_code load_rules(attempt *a, pd_error *err)
{
  a->book.policy = a->options.policy;
  if (!pd_merge_rule_name(a->options.policy)) return pd_error_set(err, PD_INVALID, "the merge policy is %d", (int)a->options.policy);
  if (a->options.ignores_rules) return PD_OK;
  rule_reader reader = {&a->book, PD_OK, err};
  TRY(pd_setting_list(a->store, PD_SETTING_MERGE_RULE, visit_rule, &reader, err));
  return reader.code;
}

/* ---- resolutions ---- */

static int compare_resolutions(const void *a, const void *b)
{
  const pd_resolution *ra = *(const pd_resolution *const *)a, *rb = *(const pd_resolution *const *)b;
  int order = pd_bytes_compare(ra->key, rb->key);
  return order ? order : pd_bytes_compare(ra->path, rb->path);
}

static pd_code check_resolution(const pd_resolution *r, pd_error *err)
{
  TRY(pd_key_check(r->key, err));
  if ((unsigned)r->take > PD_TAKE_THEIRS) return pd_error_set(err, PD_INVALID, "a resolution takes %d, which is nothing", (int)r->take);
  if (r->path.size && *(const char *)r->path.data != '/')
    return pd_error_set(err, PD_INVALID, "the resolution of key '%.*s': path '%.*s' does not begin with '/'", shown(r->key),
                        (const char *)r->key.data, shown(r->path), (const char *)r->path.data);
  return PD_OK;
}

static pd_code sort_resolutions(attempt *a, pd_error *err)
{
  size_t count = a->options.resolution_count;
  if (count > PD_RESOLUTION_COUNT_MAX) return pd_error_set(err, PD_LIMIT, "there are more than %d resolutions", PD_RESOLUTION_COUNT_MAX);
  a->resolutions = calloc(count + 1, sizeof *a->resolutions);
  a->used = calloc(count + 1, sizeof *a->used);
  if (!a->resolutions || !a->used) return pd_error_memory(err, "resolutions");
  for (size_t i = 0; i < count; i++) {
    a->resolutions[i] = &a->options.resolutions[i];
    TRY(check_resolution(a->resolutions[i], err));
  }
  qsort(a->resolutions, count, sizeof *a->resolutions, compare_resolutions);
  for (size_t i = 1; i < count; i++)
    if (compare_resolutions(&a->resolutions[i - 1], &a->resolutions[i]) == 0)
      return pd_error_set(err, PD_INVALID, "key '%.*s' is resolved twice", shown(a->resolutions[i]->key),
                          (const char *)a->resolutions[i]->key.data);
  return PD_OK;
}

/* A resolution that settles nothing is a mistake in its key or path. */
static pd_code check_used(const attempt *a, pd_error *err)
{
  for (size_t i = 0; i < a->options.resolution_count; i++) {
    const pd_resolution *r = a->resolutions[i];
    if (a->used[i]) continue;
    if (r->path.size)
      return pd_error_set(err, PD_INVALID, "there is no conflict at '%.*s' of key '%.*s' to resolve", shown(r->path),
                          (const char *)r->path.data, shown(r->key), (const char *)r->key.data);
    return pd_error_set(err, PD_INVALID, "there is nothing to resolve at key '%.*s': '%.100s' does not change it", shown(r->key),
                        (const char *)r->key.data, a->at);
  }
  return PD_OK;
}

/* ---- under the lock ---- */

static pd_code compare_trees(attempt *a, const pd_seq_set *bases, uint64_t theirs_seq, pd_error *err)
{
  pd_store *s = a->store;
  pd_node_pool *pool = &s->tree.pool;
  pd_node *base = NULL, *ours = NULL, *theirs = NULL;
  pd_merge_job job = {.store = s,
                      .book = &a->book,
                      .options = &a->options,
                      .resolutions = a->resolutions,
                      .used = a->used,
                      .resolution_count = a->options.resolution_count,
                      .result = &a->result,
                      .may_yield = a->may_yield};
  if (a->used) memset(a->used, 0, a->options.resolution_count * sizeof *a->used);
  pd_code code = pd_merge_base_tree(&job, bases, &base, err);
  if (!code) code = pd_merge_tree_of(&job, a->result.ours.seq, &ours, err);
  if (!code) code = pd_merge_tree_of(&job, theirs_seq, &theirs, err);
  if (!code) code = pd_merge_trees(&job, base, ours, theirs, err);
  pd_node_unref(pool, base);
  pd_node_unref(pool, ours);
  pd_node_unref(pool, theirs);
  return code;
}

static pd_code unrelated(const attempt *a, pd_error *err)
{
  return pd_error_set(err, PD_INVALID, "'%.100s' and ref '%s' have nothing in common but the empty root commit: unrelated histories", a->at,
                      a->ref);
}

static pd_code compare_merge(attempt *a, pd_error *err)
{
  pd_merge_result *r = &a->result;
  pd_seq_set ours = {.seqs = {r->ours.seq}, .count = 1}, theirs = {.seqs = {r->theirs.seq}, .count = 1}, bases;
  TRY(pd_merge_bases(a->store, &ours, &theirs, a->may_yield, &bases, &r->base_count, err));
  TRY(pd_commit_at(a->store, bases.seqs[0], &r->base, err));
  if (r->base.seq == r->theirs.seq) return PD_OK; /* up to date */
  bool is_behind = r->base.seq == r->ours.seq;
  if (!is_behind && !r->base.seq && !a->options.allows_unrelated) return unrelated(a, err);
  bool is_move = is_behind && !a->options.no_fast_forward && !a->options.resolution_count;
  r->outcome = is_move ? PD_MERGE_FAST_FORWARD : PD_MERGE_COMMITTED;
  return is_move && !a->options.is_dry_run ? PD_OK : compare_trees(a, &bases, r->theirs.seq, err);
}

/* Cherry-pick and revert: the commit and one of its parents are base and theirs, or the other way round. */
static pd_code compare_one(attempt *a, pd_error *err)
{
  pd_merge_result *r = &a->result;
  uint64_t parents[PD_PARENT_COUNT_MAX];
  size_t count, wanted = a->options.parent_number ? a->options.parent_number - 1 : 0;
  pd_commit parent;
  if (!a->target.seq) return pd_error_set(err, PD_INVALID, "the root commit changed nothing");
  if (a->may_yield) TRY(pd_segment_bring(a->store, a->target.seq, err));
  TRY(pd_parents_of(a->store, a->target.seq, parents, &count, err));
  if (wanted >= count)
    return pd_error_set(err, PD_INVALID, "'%.100s' has %zu parent%s, there is no parent %zu", a->at, count, count == 1 ? "" : "s",
                        wanted + 1);
  TRY(pd_commit_at(a->store, parents[wanted], &parent, err));
  r->base = a->kind == KIND_PICK ? parent : a->target;
  r->theirs = a->kind == KIND_PICK ? a->target : parent;
  r->base_count = 1;
  pd_seq_set base = {.seqs = {r->base.seq}, .count = 1};
  TRY(compare_trees(a, &base, r->theirs.seq, err));
  r->outcome = r->change_count ? PD_MERGE_COMMITTED : PD_MERGE_UP_TO_DATE;
  return PD_OK;
}

static pd_code check_head(const attempt *a, pd_error *err)
{
  const pd_id *expect = a->note.expect_head;
  if (!expect || pd_id_equal(expect, &a->result.ours.id)) return PD_OK;
  char is[PD_ID_HEX_SIZE], wanted[PD_ID_HEX_SIZE];
  return pd_error_conflict(err, 0, 0, "ref '%s' is at commit %.12s, expected %.12s", a->ref, pd_id_hex(&a->result.ours.id, is),
                           pd_id_hex(expect, wanted));
}

static pd_code compare_locked(attempt *a, pd_error *err)
{
  pd_store *s = a->store;
  pd_ref_slot *slot;
  TRY(pd_refresh_to_read(s, err));
  if (!a->may_yield) TRY(pd_settle(s, err)); /* else it may always be compared with what others have moved on from */
  TRY(pd_slot_get(s, a->note.ref, &slot, err));
  snprintf(a->ref, sizeof a->ref, "%s", slot->name);
  a->result.ours = slot->seen.commit;
  TRY(check_head(a, err));
  if (!a->is_resolved) TRY(pd_resolve_to_read(s, a->at, &a->target, err));
  a->is_resolved = true;
  a->result.theirs = a->target;
  return a->kind == KIND_MERGE ? compare_merge(a, err) : compare_one(a, err);
}

static pd_code compare(attempt *a, pd_error *err)
{
  pd_merge_result_done(&a->result);
  TRY(pd_result_begin(&a->result, err));
  pd_store_lock_to_read(a->store);
  pd_code code = compare_locked(a, err);
  pd_cache_trim(a->store);
  pd_store_unlock(a->store);
  if (!code && a->result.conflict_total) a->result.outcome = PD_MERGE_CONFLICTS;
  return code;
}

/* ---- writing ---- */

static void default_reason(const attempt *a, char out[160])
{
  char hex[PD_ID_HEX_SIZE];
  pd_id_hex(&a->target.id, hex);
  if (a->kind == KIND_MERGE)
    snprintf(out, 160, "merge %.128s", a->at);
  else
    snprintf(out, 160, "%s %.12s", a->kind == KIND_PICK ? "cherry-pick" : "revert", hex);
}

static pd_code write_result(attempt *a, pd_error *err)
{
  pd_merge_result *r = &a->result;
  char reason[160], at[32];
  pd_note note = a->note;
  default_reason(a, reason);
  if (!note.reason) note.reason = reason;
  note.expect_head = &r->ours.id;
  const pd_merge_changes *changes = pd_result_changes(r);
  pd_intent intent = {.kind = PD_RECORD_COMMIT, .ref = a->ref, .note = &note, .changes = changes->items, .change_count = changes->count};
  if (a->kind == KIND_MERGE) intent.merged = &r->theirs, intent.merged_count = 1;
  if (r->outcome == PD_MERGE_FAST_FORWARD) {
    snprintf(at, sizeof at, "#%llu", (unsigned long long)r->theirs.seq);
    intent = (pd_intent){.kind = PD_RECORD_RESET, .ref = a->ref, .note = &note, .at = at};
  }
  TRY(pd_write(a->store, &intent, &r->ack, err));
  r->ack.version = 0;
  return PD_OK;
}

static pd_code tell_conflicts(const attempt *a, pd_error *err)
{
  static const char *const verbs[] = {"merging", "cherry-picking", "reverting"};
  const pd_merge_result *r = &a->result;
  const pd_conflict *first = &r->conflicts[0];
  return pd_error_conflict(err, 0, r->conflict_total, "%s '%.64s': %llu conflict%s; the first at key '%.*s'%s%.*s: %s", verbs[a->kind],
                           a->at, (unsigned long long)r->conflict_total, r->conflict_total == 1 ? "" : "s", shown(first->key),
                           (const char *)first->key.data, first->path.size ? ", " : "", shown(first->path), (const char *)first->path.data,
                           first->why);
}

static pd_code run(attempt *a, pd_error *err)
{
  if (a->note.ref && *a->note.ref) TRY(pd_ref_check(a->note.ref, err));
  TRY(sort_resolutions(a, err));
  TRY(load_rules(a, err));
  for (int tries = 1;; tries++) {
    a->may_yield = tries <= YIELD_TRIES;
    TRY(compare(a, err));
    if (a->result.outcome != PD_MERGE_UP_TO_DATE || a->kind != KIND_MERGE) TRY(check_used(a, err));
    if (a->result.outcome == PD_MERGE_CONFLICTS) return tell_conflicts(a, err);
    if (a->result.outcome == PD_MERGE_UP_TO_DATE || a->options.is_dry_run) return PD_OK;
    pd_code code = write_result(a, err);
    bool was_moved = code == PD_CONFLICT && !a->note.expect_head;
    if (!was_moved || tries == TRY_COUNT_MAX) return code;
  }
}

static pd_code start(pd_store *store, merge_kind kind, const char *at, const pd_merge_options *options, const pd_note *note,
                     pd_merge_result *out, pd_error *err)
{
  CLEANUP(attempt_done) attempt a = {.store = store, .kind = kind, .at = at};
  if (out) *out = (pd_merge_result){0};
  if (!at || !*at) return pd_error_set(err, PD_INVALID, "what to merge is not named");
  if (options) a.options = *options;
  if (note) a.note = *note;
  pd_code code = run(&a, err);
  if (out && (!code || (code == PD_CONFLICT && a.result.conflict_total))) {
    *out = a.result;
    a.result = (pd_merge_result){0};
  }
  return code;
}

pd_code pd_merge(pd_store *store, const char *theirs, const pd_merge_options *options, const pd_note *note, pd_merge_result *out,
                 pd_error *err)
{
  return start(store, KIND_MERGE, theirs, options, note, out, err);
}

pd_code pd_cherry_pick(pd_store *store, const char *at, const pd_merge_options *options, const pd_note *note, pd_merge_result *out,
                       pd_error *err)
{
  return start(store, KIND_PICK, at, options, note, out, err);
}

pd_code pd_revert(pd_store *store, const char *at, const pd_merge_options *options, const pd_note *note, pd_merge_result *out,
                  pd_error *err)
{
  return start(store, KIND_REVERT, at, options, note, out, err);
}
