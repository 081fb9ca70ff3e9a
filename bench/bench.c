/* bench.c: perdure-bench: run the rows, print the table, write bench/RESULTS.md. */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/error.h"
#include "child.h"
#include "folder.h"
#include "report.h"
#include "rows.h"

#define RUN_COUNT 5
#define ROW_COUNT_MAX 32

typedef struct settings {
  bool is_quick, keeps_files, is_chosen[ROW_COUNT_MAX], has_choice;
  uint32_t run_count;
  const char *dir, *results;
} settings;

static const char usage[] =
  "usage: perdure-bench [--quick] [--only ROW]... [--runs N] [--dir PATH [--keep]] [--results FILE]\n"
  "\n"
  "Measures perdure against its peers, ours and theirs in turns, and prints the table of budgets. Takes about ten minutes and 3 GB.\n"
  "\n"
  "  --quick         small sizes: a table in seconds, of numbers that mean little\n"
  "  --only ROW      this row, by number or name; may be repeated\n"
  "  --runs N        runs a row, 1 to 101 (default 5; 1 with --quick)\n"
  "  --dir PATH      where the files go (default: the build folder). A real disk: on tmpfs durable rows mean nothing\n"
  "  --keep          put them into PATH itself and leave them there, so that the next run need not load them again\n"
  "  --results FILE  write the table as Markdown (default: bench/RESULTS.md for a full run, else none)\n"
  "\n"
  "Exit status: 0 if every row ran, met or not; 1 if one could not finish; 2 for wrong usage.\n"
  "example: perdure-bench --only get --only scan --runs 9\n"
  "\n"
  "rows:\n";

static void print_usage(FILE *out)
{
  fputs(usage, out);
  for (size_t i = 0; i < bench_row_count; i++)
    fprintf(out, "  %2d %-9s %s (%s)\n", bench_rows[i].number, bench_rows[i].name, bench_rows[i].what, bench_rows[i].peer);
}

static bool choose_row(settings *s, const char *name)
{
  for (size_t i = 0; i < bench_row_count; i++) {
    char number[16];
    snprintf(number, sizeof(number), "%d", bench_rows[i].number);
    if (strcmp(name, number) != 0 && strcmp(name, bench_rows[i].name) != 0) continue;
    s->is_chosen[i] = s->has_choice = true;
    return true;
  }
  fprintf(stderr, "perdure-bench: there is no row '%s'; --help lists them\n", name);
  return false;
}

static bool parse_runs(settings *s, const char *text)
{
  char *end;
  unsigned long n = strtoul(text, &end, 10);
  if (*text == 0 || *end != 0 || n < 1 || n > BENCH_RUN_COUNT_MAX) {
    fprintf(stderr, "perdure-bench: --runs is 1 to %d, not '%s'\n", BENCH_RUN_COUNT_MAX, text);
    return false;
  }
  s->run_count = (uint32_t)n;
  return true;
}

static const struct option long_options[] = {
  {"quick", no_argument, NULL, 'q'},      {"only", required_argument, NULL, 'o'},
  {"runs", required_argument, NULL, 'n'}, {"dir", required_argument, NULL, 'd'},
  {"keep", no_argument, NULL, 'k'},       {"results", required_argument, NULL, 'r'},
  {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
};

/* False: wrong usage, and said so. */
static bool parse_settings(int argc, char **argv, settings *s)
{
  for (int option; (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
    switch (option) {
    case 'q': s->is_quick = true; break;
    case 'o':
      if (!choose_row(s, optarg)) return false;
      break;
    case 'n':
      if (!parse_runs(s, optarg)) return false;
      break;
    case 'd': s->dir = optarg; break;
    case 'k': s->keeps_files = true; break;
    case 'r': s->results = optarg; break;
    case 'h': print_usage(stdout); exit(0);
    default: return false;
    }
  }
  if (optind < argc) fprintf(stderr, "perdure-bench: what is '%s'?\n", argv[optind]);
  if (s->keeps_files && !s->dir) fprintf(stderr, "perdure-bench: --keep needs --dir\n");
  return optind == argc && !(s->keeps_files && !s->dir);
}

/* ---- running ------------------------------------------------------------------------------------------------------ */

typedef struct row_run {
  bench *b;
  const bench_row *row;
  bench_table *table;
} row_run;

static pd_code run_row_here(void *ctx, int out_fd, pd_error *err)
{
  row_run *r = ctx;
  r->b->out_fd = out_fd;
  return r->row->run(r->b, err);
}

static void take_line(void *ctx, const bench_line *line)
{
  row_run *r = ctx;
  bench_table_add(r->table, r->row->number, line);
  bench_say("  %s: %s against %s, %s, budget %s, %s", line->what, line->ours_text, line->peer_text, line->ratio, line->budget,
            line->is_met ? "met" : "NOT MET");
}

/* A row that fails has a line all the same. */
static bool run_row(bench *b, const bench_row *row, bench_table *table)
{
  row_run r = {b, row, table};
  pd_error err = {0};
  bench_say("row %d, %s", row->number, row->what);
  double start = bench_now();
  pd_code code = bench_child_run(run_row_here, &r, take_line, &r, &err);
  bench_say("  %.1f s", bench_now() - start);
  if (code == PD_OK) return true;
  bench_line line = {.ratio = "failed"};
  snprintf(line.what, sizeof(line.what), "%s", row->what);
  snprintf(line.peer, sizeof(line.peer), "%s", row->peer);
  snprintf(line.budget, sizeof(line.budget), "%s", row->budget);
  snprintf(line.note, sizeof(line.note), "could not finish: %.400s", err.message);
  bench_say("row %d %s", row->number, line.note);
  bench_table_add(table, row->number, &line);
  return false;
}

static pd_code remove_row_files(const bench *b, pd_error *err)
{
  static const char *const names[] = {"row-ours", "row-peer", "row-peer-packed", "fixture-unfinished"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    char path[BENCH_PATH_SIZE];
    TRY(bench_path(b->dir, names[i], path, err));
    TRY(bench_folder_remove(path, err));
  }
  return PD_OK;
}

/* `out_all_ran`: no row failed. */
static pd_code run_rows(bench *b, const settings *s, bench_table *table, bool *out_all_ran, pd_error *err)
{
  bool all_ran = true;
  for (size_t i = 0; i < bench_row_count; i++) {
    if (s->has_choice && !s->is_chosen[i]) continue;
    all_ran = run_row(b, &bench_rows[i], table) && all_ran;
    TRY(remove_row_files(b, err));
    if (bench_child_was_interrupted()) break;
  }
  *out_all_ran = all_ran;
  return PD_OK;
}

static pd_code open_dir(const settings *s, char out[BENCH_PATH_SIZE], pd_error *err)
{
  if (!s->keeps_files) return bench_folder_temp(s->dir ? s->dir : BENCH_BUILD_DIR, out, err);
  if (snprintf(out, BENCH_PATH_SIZE, "%s", s->dir) >= BENCH_PATH_SIZE)
    return pd_error_set(err, PD_LIMIT, "the path '%s' is too long", s->dir);
  if (mkdir(out, 0700) == 0 || errno == EEXIST) return PD_OK;
  return pd_error_set(err, PD_STORAGE, "cannot make the folder '%s': %s", out, strerror(errno));
}

static void join_command(int argc, char **argv, char *out, size_t size)
{
  size_t used = 0;
  out[0] = 0;
  for (int i = 0; i < argc && used < size; i++) used += (size_t)snprintf(out + used, size - used, "%s%s", i ? " " : "", argv[i]);
}

/* Only a full run replaces the results that are checked in. */
static const char *results_path(const settings *s)
{
  if (s->results) return s->results;
  return s->is_quick || s->has_choice || bench_child_was_interrupted() ? NULL : BENCH_SOURCE_DIR "/RESULTS.md";
}

static pd_code run_all(const settings *s, const char *command, bool *out_all_ran, pd_error *err)
{
  static bench_table table;
  char dir[BENCH_PATH_SIZE];
  bench_machine machine;
  double start = bench_now();
  TRY(open_dir(s, dir, err));
  bench b = {.dir = dir, .run_count = s->run_count, .sizes = s->is_quick ? bench_sizes_quick : bench_sizes_full};
  if (b.run_count == 0) b.run_count = s->is_quick ? 1 : RUN_COUNT;
  bench_machine_read(dir, &machine);
  if (machine.is_memory) bench_say("warning: '%s' is %s: durable rows mean nothing here", dir, machine.file_system);
  pd_code code = run_rows(&b, s, &table, out_all_ran, err);
  if (!s->keeps_files) {
    pd_error ignored;
    if (bench_folder_remove(dir, &ignored) != PD_OK) bench_say("%s", ignored.message);
  }
  if (code != PD_OK) return code;
  bench_table_print(&table, stdout);
  printf("\n%zu of %zu lines met\n", table.count - bench_table_missed(&table), table.count);
  bench_results results = {&table, &machine, command, b.run_count, bench_now() - start};
  const char *path = results_path(s);
  if (path) TRY(bench_results_write(&results, path, err));
  if (path) bench_say("wrote %s", path);
  return PD_OK;
}

int main(int argc, char **argv)
{
  settings s = {0};
  char command[512];
  pd_error err = {0};
  bool all_ran = false;
  if (!parse_settings(argc, argv, &s)) {
    fputs("try: perdure-bench --help\n", stderr);
    return 2;
  }
  join_command(argc, argv, command, sizeof(command));
  if (run_all(&s, command, &all_ran, &err) != PD_OK) {
    fprintf(stderr, "perdure-bench: %s\n", err.message);
    return 1;
  }
  return all_ran ? 0 : 1;
}
