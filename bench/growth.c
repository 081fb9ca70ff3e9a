/*
 * growth.c: bench-growth: what an operation costs as a store grows, in keys and in commits, printed as a table and plotted as SVG.
 *
 * Against keys: stores of 10^3 … 10^6 keys. Against commits: one store that grows from 10^3 to 10^6 commits, the first 10^4 of which
 * create a key. All durable, all with the default cache; bytes are what the files of the closed store grew by, over single-key
 * commits.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/error.h"
#include "bench.h"
#include "data.h"
#include "folder.h"
#include "load.h"
#include "svg.h"

#define PUT_COUNT 1000 /* at most BENCH_SERIES_COUNT_MAX */
#define GET_COUNT 20000
#define OPEN_COUNT 11
#define OLD_COUNT 1000
#define KEYS_FIXED 10000
#define ID_COUNT 1000 /* commits remembered to read at */

typedef struct growth {
  const char *dir;
  uint32_t size_max; /* the largest number of keys and of commits */
  svg_panel panels[4];
} growth;

enum { TIME_BY_KEYS, TIME_BY_COMMITS, BYTES_BY_KEYS, BYTES_BY_COMMITS };

static void time_text(double value, char *out, size_t size)
{
  char text[BENCH_TEXT_SIZE];
  char *space = strchr(bench_text_seconds(value * 1.000001, text), ' ');
  snprintf(out, size, "%g%s", strtod(text, NULL), space ? space : "");
}

static void bytes_text(double value, char *out, size_t size)
{
  snprintf(out, size, "%g B", value);
}

/* ---- measurements of one open store ------------------------------------------------------------------------------- */

static pd_code put_once(bench_side *side, uint32_t index, uint32_t version, pd_ack *out_ack, pd_error *err)
{
  bench_key key;
  bench_value value;
  bench_key_make(index, &key);
  bench_value_make(index, version, &value);
  return pd_put(bench_ours_store(side), bench_key_bytes(&key), bench_value_bytes(&value), NULL, out_ack, err);
}

static pd_code measure_puts(bench_side *side, uint32_t key_count, double *out_seconds, pd_error *err)
{
  bench_series seconds = {.count = 0};
  uint64_t random = key_count;
  static uint32_t version = 1u << 30; /* never one that a load has put */
  for (uint32_t i = 0; i < PUT_COUNT; i++) {
    double start = bench_now();
    TRY(put_once(side, bench_random_below(&random, key_count), version++, NULL, err));
    bench_series_add(&seconds, bench_now() - start);
  }
  *out_seconds = bench_series_median(&seconds);
  return PD_OK;
}

static pd_code measure_gets(bench_side *side, uint32_t key_count, double *out_seconds, pd_error *err)
{
  uint64_t random = key_count + 1;
  for (uint32_t i = 0; i < GET_COUNT; i++) TRY(bench_side_get(side, bench_random_below(&random, key_count), err)); /* the warm-up */
  double start = bench_now();
  for (uint32_t i = 0; i < GET_COUNT; i++) TRY(bench_side_get(side, bench_random_below(&random, key_count), err));
  *out_seconds = (bench_now() - start) / GET_COUNT;
  return PD_OK;
}

/* Open and first get. The store must be closed. */
static pd_code measure_opens(const char *dir, uint32_t key_count, double *out_seconds, pd_error *err)
{
  bench_series seconds = {.count = 0};
  uint64_t random = key_count + 2;
  for (uint32_t i = 0; i < OPEN_COUNT; i++) {
    CLEANUP(bench_side_done) bench_side side = {0};
    double start = bench_now();
    TRY(bench_ours_open(dir, NULL, &side, err));
    TRY(bench_side_get(&side, bench_random_below(&random, key_count), err));
    bench_series_add(&seconds, bench_now() - start);
    TRY(bench_side_close(&side, err));
  }
  *out_seconds = bench_series_median(&seconds);
  return PD_OK;
}

/* ---- against keys ------------------------------------------------------------------------------------------------- */

static pd_code load_keys(const char *dir, uint32_t key_count, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  pd_options options = {.flush_ms = 100, .cache_size_max = (size_t)1 << 30};
  TRY(bench_ours_open(dir, &options, &side, err));
  TRY(bench_load(&side, key_count, (key_count + 999) / 1000, key_count, err));
  return bench_side_close(&side, err);
}

static pd_code measure_keys(growth *g, uint32_t key_count, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  char dir[BENCH_PATH_SIZE];
  double put_s = 0, get_s = 0, open_s = 0;
  uint64_t bytes_before, bytes_after;
  TRY(bench_folder_new(g->dir, "growth", dir, err));
  TRY(load_keys(dir, key_count, err));
  TRY(bench_folder_size(dir, &bytes_before, err));
  TRY(bench_ours_open(dir, NULL, &side, err));
  TRY(measure_gets(&side, key_count, &get_s, err));
  TRY(measure_puts(&side, key_count, &put_s, err));
  TRY(bench_side_close(&side, err));
  TRY(bench_folder_size(dir, &bytes_after, err));
  TRY(measure_opens(dir, key_count, &open_s, err));
  double bytes = ((double)bytes_after - (double)bytes_before) / PUT_COUNT;
  printf("keys\t%u\t%.2f\t%.3f\t\t%.1f\t%.0f\n", key_count, put_s * 1e6, get_s * 1e6, open_s * 1e6, bytes);
  svg_point(&g->panels[TIME_BY_KEYS], "durable put", key_count, put_s);
  svg_point(&g->panels[TIME_BY_KEYS], "get at head", key_count, get_s);
  svg_point(&g->panels[TIME_BY_KEYS], "open + first get", key_count, open_s);
  svg_point(&g->panels[BYTES_BY_KEYS], "bytes a commit", key_count, bytes);
  return PD_OK;
}

/* ---- against commits ---------------------------------------------------------------------------------------------- */

typedef struct line_of_history {
  char dir[BENCH_PATH_SIZE];
  uint32_t key_count, commit_count;
  char ids[ID_COUNT][PD_ID_HEX_SIZE]; /* commits at random places, at which old values are read */
  uint32_t key_counts[ID_COUNT];      /* keys that each of them has */
  uint64_t random;
} line_of_history;

/* Single-key commits, buffered because only their number matters. Remembers each commit in a place that a later one may take. */
static pd_code add_commits(line_of_history *h, uint32_t until, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  pd_options options = {.flush_ms = 100};
  TRY(bench_ours_open(h->dir, &options, &side, err));
  for (; h->commit_count < until; h->commit_count++) {
    pd_ack ack;
    uint32_t index = h->key_count < KEYS_FIXED ? h->key_count++ : bench_random_below(&h->random, KEYS_FIXED);
    uint32_t place = h->commit_count < ID_COUNT ? h->commit_count : bench_random_below(&h->random, h->commit_count + 1);
    TRY(put_once(&side, index, h->commit_count, &ack, err));
    if (place >= ID_COUNT) continue; /* those that stay are a fair sample of all commits so far */
    pd_id_hex(&ack.commit, h->ids[place]);
    h->key_counts[place] = h->key_count;
  }
  return bench_side_close(&side, err);
}

static pd_code measure_old_gets(line_of_history *h, bench_side *side, double *out_seconds, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf value = {0};
  double start = bench_now();
  for (uint32_t i = 0; i < OLD_COUNT; i++) {
    bench_key key;
    uint32_t place = bench_random_below(&h->random, ID_COUNT);
    uint32_t index = bench_random_below(&h->random, h->key_counts[place]);
    bench_key_make(index, &key);
    TRY(pd_get(bench_ours_store(side), h->ids[place], bench_key_bytes(&key), &value, NULL, err));
    if (!bench_value_belongs((pd_bytes){value.data, value.size}, index, NULL))
      return pd_error_set(err, PD_CORRUPT, "'%s' has another key's value", key.text);
  }
  *out_seconds = (bench_now() - start) / OLD_COUNT;
  return PD_OK;
}

static pd_code measure_commits(growth *g, line_of_history *h, uint32_t commit_count, pd_error *err)
{
  CLEANUP(bench_side_done) bench_side side = {0};
  double put_s = 0, get_s = 0, old_s = 0, open_s = 0;
  uint64_t bytes;
  TRY(add_commits(h, commit_count, err));
  TRY(bench_folder_size(h->dir, &bytes, err));
  TRY(measure_opens(h->dir, h->key_count, &open_s, err));
  TRY(bench_ours_open(h->dir, NULL, &side, err));
  TRY(measure_old_gets(h, &side, &old_s, err));
  TRY(measure_gets(&side, h->key_count, &get_s, err));
  TRY(measure_puts(&side, h->key_count, &put_s, err));
  h->commit_count += PUT_COUNT;
  TRY(bench_side_close(&side, err));
  double a_commit = (double)bytes / commit_count;
  printf("commits\t%u\t%.2f\t%.3f\t%.2f\t%.1f\t%.0f\n", commit_count, put_s * 1e6, get_s * 1e6, old_s * 1e6, open_s * 1e6, a_commit);
  svg_point(&g->panels[TIME_BY_COMMITS], "durable put", commit_count, put_s);
  svg_point(&g->panels[TIME_BY_COMMITS], "get at head", commit_count, get_s);
  svg_point(&g->panels[TIME_BY_COMMITS], "get at an old commit", commit_count, old_s);
  svg_point(&g->panels[TIME_BY_COMMITS], "open + first get", commit_count, open_s);
  svg_point(&g->panels[BYTES_BY_COMMITS], "bytes a commit", commit_count, a_commit);
  return PD_OK;
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

static pd_code measure_all(growth *g, pd_error *err)
{
  static line_of_history history;
  printf("against\tcount\tput µs\tget µs\told µs\topen µs\tbytes\n");
  for (uint32_t n = 1000; n <= g->size_max; n *= 10) TRY(measure_keys(g, n, err));
  TRY(bench_folder_new(g->dir, "growth", history.dir, err));
  for (uint32_t n = 1000; n <= g->size_max; n *= 10) TRY(measure_commits(g, &history, n, err));
  return PD_OK;
}

static pd_code run(const char *parent, uint32_t size_max, const char *svg_path, pd_error *err)
{
  static growth g;
  char dir[BENCH_PATH_SIZE];
  g.panels[TIME_BY_KEYS] = (svg_panel){.title = "Time against keys", .x_name = "keys", .y_text = time_text};
  g.panels[TIME_BY_COMMITS] = (svg_panel){.title = "Time against commits (at most 10 k keys)", .x_name = "commits", .y_text = time_text};
  g.panels[BYTES_BY_KEYS] = (svg_panel){.title = "Bytes on disk a commit against keys", .x_name = "keys", .y_text = bytes_text};
  g.panels[BYTES_BY_COMMITS] = (svg_panel){.title = "Bytes on disk a commit against commits", .x_name = "commits", .y_text = bytes_text};
  TRY(bench_folder_temp(parent, dir, err));
  g.dir = dir;
  g.size_max = size_max;
  pd_code code = measure_all(&g, err);
  pd_error ignored;
  if (bench_folder_remove(dir, &ignored) != PD_OK) bench_say("%s", ignored.message);
  if (code != PD_OK) return code;
  return svg_write(svg_path, "perdure: what growth costs (200-byte values, medians)", g.panels, COUNT_OF(g.panels), err);
}

static const char usage[] =
  "usage: bench-growth [--quick] [--dir PATH] [--svg FILE]\n"
  "\n"
  "Measures perdure at 10^3 to 10^6 keys and commits, prints a table, and plots it (default: bench/growth.svg; with\n"
  "--quick, which stops at 10^4, the default is no plot worth keeping: name a FILE).\n";

int main(int argc, char **argv)
{
  static const struct option options[] = {
    {"quick", no_argument, NULL, 'q'},
    {"dir", required_argument, NULL, 'd'},
    {"svg", required_argument, NULL, 's'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
  };
  const char *dir = BENCH_BUILD_DIR, *svg = NULL;
  bool is_quick = false;
  pd_error err = {0};
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case 'q': is_quick = true; break;
    case 'd': dir = optarg; break;
    case 's': svg = optarg; break;
    case 'h': fputs(usage, stdout); return 0;
    default: fputs(usage, stderr); return 2;
    }
  }
  if (optind < argc || (is_quick && !svg)) {
    fputs(usage, stderr);
    return 2;
  }
  if (run(dir, is_quick ? 10000 : 1000000, svg ? svg : BENCH_SOURCE_DIR "/growth.svg", &err) == PD_OK) return 0;
  fprintf(stderr, "bench-growth: %s\n", err.message);
  return 1;
}
