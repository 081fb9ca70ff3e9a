/*
 * merge.h: how the files of a merge share the work. Private to src/engine.
 *
 *   merge.c         the public functions: which trees, what is written, trying again
 *   merge_base.c    common ancestors over the commit graph
 *   merge_tree.c    three trees: which keys both sides changed; bases that have to be merged first
 *   merge_value.c   three values of one key, and the rules
 *   merge_result.c  what is found out, in memory that the caller gets
 *
 *   M1  A merge writes nothing before everything is settled: it ends in one intent, or in none.
 *   M2  What a key becomes depends on base, ours and theirs alone, never on which other keys there are.
 *   M3  Commits are told apart by record number. Parents have smaller numbers than their children.
 */
#ifndef PD_ENGINE_MERGE_H
#define PD_ENGINE_MERGE_H

#include "base/json_merge.h"
#include "engine/store.h"

/* ---- merge_base.c ---- */

#define PD_MERGE_BASE_MAX 64 /* more best common ancestors than this: the newest count */

typedef struct pd_seq_set {
  uint64_t seqs[PD_MERGE_BASE_MAX];
  size_t count;
} pd_seq_set;

/* The best common ancestors of two sets of commits, newest first: those that are no ancestors of another. At least the root commit, 0. */
PD_MUST_USE pd_code pd_merge_bases(pd_store *s, const pd_seq_set *left, const pd_seq_set *right, bool may_yield, pd_seq_set *out,
                                   size_t *out_total, pd_error *err);
/* The parents of the commit that record `seq` made, in order. PD_RETIRED if gc took the record. */
PD_MUST_USE pd_code pd_parents_of(pd_store *s, uint64_t seq, uint64_t out[PD_PARENT_COUNT_MAX], size_t *out_count, pd_error *err);

/* ---- merge_result.c ---- */

/* A value as one side has it. */
typedef struct pd_side_value {
  bool is_present;
  pd_bytes bytes;
} pd_side_value;

typedef struct pd_merge_memory pd_merge_memory;

/* The changes of a merge as an intent wants them. */
typedef struct pd_merge_changes {
  pd_change_in *items;
  size_t count, capacity;
} pd_merge_changes;

PD_MUST_USE pd_code pd_result_begin(pd_merge_result *result, pd_error *err);
/* Add a change, with copies of key and value. `value` is not used for a delete. */
PD_MUST_USE pd_code pd_result_change(pd_merge_result *result, const pd_merge_change *change, pd_bytes value, pd_error *err);
PD_MUST_USE pd_code pd_result_conflict(pd_merge_result *result, pd_bytes key, pd_bytes path, pd_merge_rule rule, const char *why,
                                       const pd_side_value sides[PD_SIDE_COUNT], pd_error *err);
pd_merge_changes *pd_result_changes(const pd_merge_result *result);
/* A copy that lives as long as the result. */
PD_MUST_USE pd_code pd_result_keep(pd_merge_result *result, pd_bytes bytes, pd_bytes *out, pd_error *err);

/* ---- merge_value.c ---- */

typedef enum pd_verdict {
  PD_VERDICT_OURS,
  PD_VERDICT_THEIRS,
  PD_VERDICT_BASE,
  PD_VERDICT_MERGED,  /* *out has the value */
  PD_VERDICT_CONFLICT /* told to `conflict` */
} pd_verdict;

/* Told of each conflict; sets *out_is_settled if it is none after all: with a path, the result has *chosen there (the base's value
 * unless it is set); without one, the whole value is the base's. */
typedef pd_code (*pd_value_conflict)(void *ctx, pd_bytes path, const char *why, const pd_side_value sides[PD_SIDE_COUNT],
                                     bool *out_is_settled, pd_json *chosen, pd_error *err);

/* Merge one value that both sides changed. `out` is cleared first. */
PD_MUST_USE pd_code pd_merge_value(pd_merge_rule rule, const pd_side_value sides[PD_SIDE_COUNT], pd_value_conflict conflict, void *ctx,
                                   pd_buf *out, pd_verdict *out_verdict, pd_error *err);

/* ---- merge_tree.c ---- */

typedef struct pd_prefix_rule {
  char *prefix;
  size_t prefix_size;
  pd_merge_rule rule;
} pd_prefix_rule;

typedef struct pd_rule_book {
  pd_prefix_rule *rules; /* by prefix */
  size_t count, capacity;
  pd_merge_rule policy;
} pd_rule_book;

typedef struct pd_merge_job {
  pd_store *store;
  const pd_rule_book *book;
  const pd_merge_options *options;
  const pd_resolution **resolutions; /* sorted by key, then path */
  bool *used;                        /* of each of them */
  size_t resolution_count;
  pd_merge_result *result;
  bool may_yield;   /* others may have the lock in between (pd_store_yield) */
  size_t key_count; /* that were compared */
} pd_merge_job;

/* The tree of a commit, with a reference. */
PD_MUST_USE pd_code pd_merge_tree_of(pd_merge_job *job, uint64_t seq, pd_node **out_root, pd_error *err);
/* Compare the three trees and put changes against `ours` and conflicts into the job's result. */
PD_MUST_USE pd_code pd_merge_trees(pd_merge_job *job, pd_node *base, pd_node *ours, pd_node *theirs, pd_error *err);
/* The tree that stands for several common ancestors, with a reference. */
PD_MUST_USE pd_code pd_merge_base_tree(pd_merge_job *job, const pd_seq_set *bases, pd_node **out_root, pd_error *err);

#endif
