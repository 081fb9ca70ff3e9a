/*
 * row_history.c: row 7: read a random key at a random old commit, by its full id.
 *
 * Both sides hold the same history: all keys in one first commit, then single-key commits. libgit2 is measured on loose objects and on
 * one pack, and the faster of the two is the peer. All are opened anew after the writing; each run reads places of its own, after a
 * warm-up at others.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/error.h"
#include "data.h"
#include "load.h"
#include "peer_git.h"
#include "rows.h"

#define GIT_SHARE 10 /* libgit2 does one read where we do ten: a run should not take minutes */

typedef struct history {
  uint32_t key_count, commit_count;
  uint32_t *written; /* by each commit: the key */
  char (*ours_ids)[PD_ID_HEX_SIZE];
  peer_git_id *git_ids;
} history;

static void history_done(history *h)
{
  free(h->written);
  free(h->ours_ids);
  free(h->git_ids);
}

static pd_code history_init(history *h, uint32_t key_count, uint32_t commit_count, pd_error *err)
{
  uint64_t random = 7;
  h->key_count = key_count;
  h->commit_count = commit_count;
  h->written = calloc(commit_count, sizeof(*h->written));
  h->ours_ids = calloc(commit_count, sizeof(*h->ours_ids));
  h->git_ids = calloc(commit_count, sizeof(*h->git_ids));
  if (!h->written || !h->ours_ids || !h->git_ids) return pd_error_memory(err, "a history");
  for (uint32_t c = 0; c < commit_count; c++) h->written[c] = bench_random_below(&random, key_count);
  return PD_OK;
}

/* Commit c writes version c + 1 of its key; the load before wrote version 0 of all. */
static pd_code make_ours(history *h, const char *dir, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  pd_options options = {.flush_ms = 100};
  TRY(bench_ours_open(dir, &options, &side, err));
  TRY(bench_load(&side, h->key_count, 1, 7, err));
  for (uint32_t c = 0; c < h->commit_count; c++) {
    bench_key key;
    bench_value value;
    pd_ack ack;
    bench_key_make(h->written[c], &key);
    bench_value_make(h->written[c], c + 1, &value);
    TRY(pd_put(bench_ours_store(&side), bench_key_bytes(&key), bench_value_bytes(&value), NULL, &ack, err));
    pd_id_hex(&ack.commit, h->ours_ids[c]);
  }
  return bench_side_close(&side, err);
}

static pd_code make_git(history *h, const char *loose_dir, const char *packed_dir, pd_error *err)
{
  CLEANUP(peer_git_done) peer_git *git = NULL;
  bench_key key;
  bench_value value;
  peer_git_id first;
  TRY(peer_git_open(loose_dir, &git, err));
  for (uint32_t i = 0; i < h->key_count; i++) {
    bench_key_make(i, &key);
    bench_value_make(i, 0, &value);
    TRY(peer_git_stage(git, bench_key_bytes(&key), bench_value_bytes(&value), err));
  }
  TRY(peer_git_commit(git, &first, err));
  for (uint32_t c = 0; c < h->commit_count; c++) {
    bench_key_make(h->written[c], &key);
    bench_value_make(h->written[c], c + 1, &value);
    TRY(peer_git_stage(git, bench_key_bytes(&key), bench_value_bytes(&value), err));
    TRY(peer_git_commit(git, &h->git_ids[c], err));
  }
  return peer_git_pack(git, &h->git_ids[h->commit_count - 1], packed_dir, err);
}

/* A place in history and what is there. */
typedef struct sample {
  uint32_t commit, index, version;
} sample;

/* `count` random places: walk the history once, with each key's version at hand, and then shuffle. */
static pd_code samples_new(const history *h, uint32_t count, uint64_t seed, sample **out, pd_error *err)
{
  CLEANUP(bench_free) uint32_t *versions = calloc(h->key_count, sizeof(*versions));
  CLEANUP(bench_free) uint32_t *order = NULL;
  sample *samples = malloc(count * sizeof(*samples));
  if (!versions || !samples || bench_shuffle_new(count, seed, &order, NULL) != PD_OK) {
    free(samples);
    return pd_error_memory(err, "samples of a history");
  }
  uint32_t walked = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t commit = (uint32_t)((uint64_t)i * h->commit_count / count);
    for (; walked <= commit; walked++) versions[h->written[walked]] = walked + 1;
    uint32_t index = bench_random_below(&seed, h->key_count);
    samples[order[i]] = (sample){commit, index, versions[index]};
  }
  *out = samples;
  return PD_OK;
}

typedef pd_code (*history_get)(void *side, const history *h, uint32_t commit, pd_bytes key, pd_buf *out, pd_error *err);

static pd_code get_ours(void *side, const history *h, uint32_t commit, pd_bytes key, pd_buf *out, pd_error *err)
{
  return pd_get(side, h->ours_ids[commit], key, out, NULL, err);
}

static pd_code get_git(void *side, const history *h, uint32_t commit, pd_bytes key, pd_buf *out, pd_error *err)
{
  return peer_git_get(side, &h->git_ids[commit], key, out, err);
}

/* Seconds a read. */
static pd_code time_samples(const history *h, history_get get, void *side, uint32_t count, uint64_t seed, double *out_seconds,
                            pd_error *err)
{
  CLEANUP(bench_free) sample *samples = NULL;
  CLEANUP(pd_buf_done) pd_buf value = {0};
  TRY(samples_new(h, count, seed, &samples, err));
  double start = bench_now();
  for (uint32_t i = 0; i < count; i++) {
    bench_key key;
    uint32_t version;
    bench_key_make(samples[i].index, &key);
    TRY(get(side, h, samples[i].commit, bench_key_bytes(&key), &value, err));
    if (!bench_value_belongs((pd_bytes){value.data, value.size}, samples[i].index, &version) || version != samples[i].version)
      return pd_error_set(err, PD_CORRUPT, "'%s' at commit %u is not version %u", key.text, samples[i].commit, samples[i].version);
  }
  *out_seconds = (bench_now() - start) / count;
  return PD_OK;
}

typedef struct contender {
  history_get get;
  void *side;
  uint32_t count;
  bench_series seconds;
} contender;

static pd_code compare_reads(bench *b, const history *h, contender *contenders, size_t count, pd_error *err)
{
  for (uint32_t run = 0; run <= b->run_count; run++) {
    for (size_t i = 0; i < count; i++) {
      contender *c = &contenders[i];
      double seconds = 0;
      TRY(time_samples(h, c->get, c->side, c->count, run, &seconds, err));
      if (run > 0) bench_series_add(&c->seconds, seconds); /* run 0 is the warm-up */
    }
  }
  return PD_OK;
}

static pd_code report_reads(bench *b, const history *h, const contender contenders[3], pd_error *err)
{
  char keys[BENCH_TEXT_SIZE], commits[BENCH_TEXT_SIZE], loose[BENCH_TEXT_SIZE], packed[BENCH_TEXT_SIZE];
  double ours_s = bench_series_median(&contenders[0].seconds);
  double loose_s = bench_series_median(&contenders[1].seconds), packed_s = bench_series_median(&contenders[2].seconds);
  double peer_s = loose_s < packed_s ? loose_s : packed_s;
  bench_line line = {.peer = "libgit2, 256-way tree"};
  snprintf(line.what, sizeof(line.what), "get at a random old commit, %s keys, %s commits", bench_text_count(h->key_count, keys),
           bench_text_count(h->commit_count, commits));
  bench_text_seconds(ours_s, line.ours_text);
  bench_text_seconds(peer_s, line.peer_text);
  bench_judge(&line, peer_s / ours_s, BENCH_AT_LEAST, 30.0);
  snprintf(line.note, sizeof(line.note),
           "By full commit id, at places not read before. libgit2 loose %s, packed %s: judged against the faster.",
           bench_text_seconds(loose_s, loose), bench_text_seconds(packed_s, packed));
  return bench_report(b, &line, err);
}

pd_code row_history(bench *b, pd_error *err)
{
  CLEANUP(history_done) history h = {0};
  CLEANUP(bench_side_done) bench_side ours = {0};
  CLEANUP(peer_git_done) peer_git *loose = NULL;
  CLEANUP(peer_git_done) peer_git *packed = NULL;
  char ours_dir[BENCH_PATH_SIZE], loose_dir[BENCH_PATH_SIZE], packed_dir[BENCH_PATH_SIZE];
  TRY(bench_folder_new(b->dir, "row-ours", ours_dir, err));
  TRY(bench_folder_new(b->dir, "row-peer", loose_dir, err));
  TRY(bench_folder_new(b->dir, "row-peer-packed", packed_dir, err));
  TRY(history_init(&h, b->sizes.keys_small, b->sizes.history_commits, err));
  TRY(make_ours(&h, ours_dir, err));
  TRY(make_git(&h, loose_dir, packed_dir, err));
  TRY(bench_ours_open(ours_dir, NULL, &ours, err));
  TRY(peer_git_open(loose_dir, &loose, err));
  TRY(peer_git_open(packed_dir, &packed, err));
  uint32_t count = b->sizes.history_ops;
  contender contenders[3] = {
    {.get = get_ours, .side = bench_ours_store(&ours), .count = count},
    {.get = get_git, .side = loose, .count = count / GIT_SHARE},
    {.get = get_git, .side = packed, .count = count / GIT_SHARE},
  };
  TRY(compare_reads(b, &h, contenders, COUNT_OF(contenders), err));
  TRY(report_reads(b, &h, contenders, err));
  return bench_side_close(&ours, err);
}
