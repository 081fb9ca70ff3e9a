/*
 * row_diff.c: row 9: what changed between two commits that differ in 10 keys.
 *
 * 20 pairs of commits a store, asked for in turn by full id; each answer must name 10 keys. libgit2 is measured on loose objects and
 * on one pack, and the faster is the peer. Our changes go to a ref of their own, because the stores are shared with other rows.
 */
#include <stdio.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "load.h"
#include "peer_git.h"
#include "rows.h"

#define PAIR_COUNT 20
#define CHANGE_COUNT 10
#define GIT_SHARE 10

/* The ten keys that commit `pair` changes: spread over the whole, each key at most once a commit. */
static uint32_t changed_index(uint32_t key_count, uint32_t pair, uint32_t change)
{
  uint64_t random = pair * 1000u + change;
  uint32_t part = key_count / CHANGE_COUNT;
  return change * part + bench_random_below(&random, part);
}

typedef struct ours_pairs {
  bench_side side;
  char ids[PAIR_COUNT + 1][PD_ID_HEX_SIZE]; /* pair i is i, i + 1 */
} ours_pairs;

static void ours_pairs_done(ours_pairs *p)
{
  bench_side_done(&p->side);
}

static pd_code commit_changes(pd_store *store, const char *ref, uint32_t key_count, uint32_t pair, char out_id[PD_ID_HEX_SIZE],
                              pd_error *err)
{
  pd_note note = {.ref = ref};
  pd_edit *edit = NULL;
  pd_ack ack;
  pd_code code = pd_edit_begin(store, &note, &edit, err);
  for (uint32_t i = 0; i < CHANGE_COUNT && code == PD_OK; i++) {
    bench_key key;
    bench_value value;
    uint32_t index = changed_index(key_count, pair, i);
    bench_key_make(index, &key);
    bench_value_make(index, pair + 1, &value);
    code = pd_edit_put(edit, bench_key_bytes(&key), bench_value_bytes(&value), PD_ANY_VERSION, err);
  }
  if (code == PD_OK) code = pd_edit_commit(edit, &ack, err);
  if (code != PD_OK) {
    pd_edit_abort(edit);
    return code;
  }
  pd_id_hex(&ack.commit, out_id);
  return PD_OK;
}

static pd_code ours_pairs_open(const char *dir, uint32_t key_count, ours_pairs *p, pd_error *err)
{
  char ref[PD_REF_SIZE_MAX];
  pd_stats stats;
  pd_ack ack;
  TRY(bench_ours_open(dir, NULL, &p->side, err));
  pd_store *store = bench_ours_store(&p->side);
  TRY(pd_store_stats(store, &stats, err));
  snprintf(ref, sizeof(ref), "diff-work-%llu", (unsigned long long)stats.records);
  TRY(pd_fork(store, ref, "main", NULL, &ack, err));
  pd_id_hex(&ack.commit, p->ids[0]);
  for (uint32_t i = 0; i < PAIR_COUNT; i++) TRY(commit_changes(store, ref, key_count, i, p->ids[i + 1], err));
  return PD_OK;
}

static bool count_difference(void *ctx, const pd_difference *difference)
{
  if (difference->before && difference->after) ++*(size_t *)ctx;
  return true;
}

static pd_code time_ours(ours_pairs *p, uint32_t op_count, double *out_seconds, pd_error *err)
{
  double start = bench_now();
  for (uint32_t i = 0; i < op_count; i++) {
    size_t count = 0;
    TRY(pd_diff(bench_ours_store(&p->side), p->ids[i % PAIR_COUNT], p->ids[i % PAIR_COUNT + 1], count_difference, &count, err));
    if (count != CHANGE_COUNT) return pd_error_set(err, PD_CORRUPT, "our diff found %zu changed keys of %d", count, CHANGE_COUNT);
  }
  *out_seconds = (bench_now() - start) / op_count;
  return PD_OK;
}

typedef struct git_pairs {
  peer_git *loose, *packed;
  peer_git_id ids[PAIR_COUNT + 1];
} git_pairs;

static void git_pairs_done(git_pairs *p)
{
  peer_git_close(p->loose);
  peer_git_close(p->packed);
}

static pd_code stage(peer_git *git, uint32_t index, uint32_t version, pd_error *err)
{
  bench_key key;
  bench_value value;
  bench_key_make(index, &key);
  bench_value_make(index, version, &value);
  return peer_git_stage(git, bench_key_bytes(&key), bench_value_bytes(&value), err);
}

static pd_code git_pairs_open(bench *b, uint32_t key_count, git_pairs *p, pd_error *err)
{
  char dir[BENCH_PATH_SIZE], packed_dir[BENCH_PATH_SIZE];
  TRY(bench_folder_new(b->dir, "row-peer", dir, err));
  TRY(bench_folder_new(b->dir, "row-peer-packed", packed_dir, err));
  TRY(peer_git_open(dir, &p->loose, err));
  for (uint32_t i = 0; i < key_count; i++) TRY(stage(p->loose, i, 0, err));
  TRY(peer_git_commit(p->loose, &p->ids[0], err));
  for (uint32_t pair = 0; pair < PAIR_COUNT; pair++) {
    for (uint32_t i = 0; i < CHANGE_COUNT; i++) TRY(stage(p->loose, changed_index(key_count, pair, i), pair + 1, err));
    TRY(peer_git_commit(p->loose, &p->ids[pair + 1], err));
  }
  TRY(peer_git_pack(p->loose, &p->ids[PAIR_COUNT], packed_dir, err));
  return peer_git_open(packed_dir, &p->packed, err);
}

static pd_code time_git(const git_pairs *p, peer_git *git, uint32_t op_count, double *out_seconds, pd_error *err)
{
  double start = bench_now();
  for (uint32_t i = 0; i < op_count; i++) {
    size_t count = 0;
    TRY(peer_git_diff(git, &p->ids[i % PAIR_COUNT], &p->ids[i % PAIR_COUNT + 1], &count, err));
    if (count != CHANGE_COUNT) return pd_error_set(err, PD_CORRUPT, "libgit2's diff found %zu changed keys of %d", count, CHANGE_COUNT);
  }
  *out_seconds = (bench_now() - start) / op_count;
  return PD_OK;
}

typedef struct diff_times {
  bench_series small, big, loose, packed;
} diff_times;

static pd_code compare_diffs(bench *b, ours_pairs *small, ours_pairs *big, git_pairs *git, diff_times *out, pd_error *err)
{
  uint32_t git_ops = b->sizes.diff_ops / GIT_SHARE;
  for (uint32_t run = 0; run <= b->run_count; run++) {
    double small_s = 0, big_s = 0, loose_s = 0, packed_s = 0;
    TRY(time_ours(small, b->sizes.diff_ops, &small_s, err));
    TRY(time_ours(big, b->sizes.diff_ops, &big_s, err));
    TRY(time_git(git, git->loose, git_ops, &loose_s, err));
    TRY(time_git(git, git->packed, git_ops, &packed_s, err));
    if (run == 0) continue; /* the warm-up */
    bench_series_add(&out->small, small_s);
    bench_series_add(&out->big, big_s);
    bench_series_add(&out->loose, loose_s);
    bench_series_add(&out->packed, packed_s);
  }
  return PD_OK;
}

/* A line of ours at one size against libgit2. */
static pd_code report_diff(bench *b, uint32_t key_count, double ours_s, const diff_times *times, pd_error *err)
{
  char count[BENCH_TEXT_SIZE], git_count[BENCH_TEXT_SIZE], loose[BENCH_TEXT_SIZE], packed[BENCH_TEXT_SIZE];
  double loose_s = bench_series_median(&times->loose), packed_s = bench_series_median(&times->packed);
  double git_s = loose_s < packed_s ? loose_s : packed_s;
  bench_line line = {.is_met = false};
  snprintf(line.what, sizeof(line.what), "diff of %d changed keys in %s", CHANGE_COUNT, bench_text_count(key_count, count));
  snprintf(line.peer, sizeof(line.peer), "libgit2 at %s", bench_text_count(b->sizes.keys_small, git_count));
  bench_text_seconds(ours_s, line.ours_text);
  bench_text_seconds(git_s, line.peer_text);
  bench_judge(&line, git_s / ours_s, BENCH_AT_LEAST, 20.0);
  snprintf(line.note, sizeof(line.note),
           "By full commit ids. git_diff_tree_to_tree on a 256-way tree: loose %s, packed %s; judged against the faster.",
           bench_text_seconds(loose_s, loose), bench_text_seconds(packed_s, packed));
  return bench_report(b, &line, err);
}

static pd_code report_diffs(bench *b, const diff_times *times, pd_error *err)
{
  char small[BENCH_TEXT_SIZE], big[BENCH_TEXT_SIZE];
  double small_s = bench_series_median(&times->small), big_s = bench_series_median(&times->big);
  TRY(report_diff(b, b->sizes.keys_small, small_s, times, err));
  TRY(report_diff(b, b->sizes.keys_big, big_s, times, err));
  bench_text_count(b->sizes.keys_small, small);
  bench_text_count(b->sizes.keys_big, big);
  bench_line line = {.is_met = false};
  snprintf(line.what, sizeof(line.what), "diff in %s against in %s", big, small);
  snprintf(line.peer, sizeof(line.peer), "ours at %s", small);
  bench_text_seconds(big_s, line.ours_text);
  bench_text_seconds(small_s, line.peer_text);
  bench_judge(&line, big_s / small_s, BENCH_AT_MOST, 4.0);
  return bench_report(b, &line, err);
}

pd_code row_diff(bench *b, pd_error *err)
{
  CLEANUP(ours_pairs_done) ours_pairs small = {0};
  CLEANUP(ours_pairs_done) ours_pairs big = {0};
  CLEANUP(git_pairs_done) git_pairs git = {0};
  diff_times times = {0};
  char small_dir[BENCH_PATH_SIZE], big_dir[BENCH_PATH_SIZE];
  TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, b->sizes.keys_small, 0, small_dir, err));
  TRY(bench_fixture(b, BENCH_FIXTURE_PERDURE, b->sizes.keys_big, 0, big_dir, err));
  TRY(ours_pairs_open(small_dir, b->sizes.keys_small, &small, err));
  TRY(ours_pairs_open(big_dir, b->sizes.keys_big, &big, err));
  TRY(git_pairs_open(b, b->sizes.keys_small, &git, err));
  TRY(compare_diffs(b, &small, &big, &git, &times, err));
  TRY(report_diffs(b, &times, err));
  TRY(bench_side_close(&small.side, err));
  return bench_side_close(&big.side, err);
}
