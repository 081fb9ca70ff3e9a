/* report.c: see report.h. */
#include "report.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "folder.h"

void bench_table_add(bench_table *table, int number, const bench_line *line)
{
  if (table->count == BENCH_LINE_COUNT_MAX) return;
  table->numbers[table->count] = number;
  table->lines[table->count++] = *line;
}

size_t bench_table_missed(const bench_table *table)
{
  size_t missed = 0;
  for (size_t i = 0; i < table->count; i++) missed += !table->lines[i].is_met;
  return missed;
}

static const char *verdict(const bench_line *line)
{
  return line->is_met ? "met" : "NOT MET";
}

/* Columns on a terminal: µ, × and ≥ have more bytes than columns. */
static size_t text_width(const char *text)
{
  size_t width = 0;
  for (; *text; text++) width += (*text & 0xc0) != 0x80;
  return width;
}

#define COLUMN_COUNT 8

static void line_cells(const bench_table *table, size_t i, char number[16], const char *cells[COLUMN_COUNT])
{
  const bench_line *line = &table->lines[i];
  snprintf(number, 16, "%d", table->numbers[i]);
  cells[0] = number;
  cells[1] = line->what;
  cells[2] = line->peer;
  cells[3] = line->ours_text;
  cells[4] = line->peer_text;
  cells[5] = line->ratio;
  cells[6] = line->budget;
  cells[7] = verdict(line);
}

static const char *const titles[COLUMN_COUNT] = {"#", "what", "peer, same run", "perdure", "peer", "ratio", "budget", ""};

static void print_cells(FILE *out, const char *const cells[COLUMN_COUNT], const size_t widths[COLUMN_COUNT])
{
  for (size_t c = 0; c < COLUMN_COUNT; c++)
    fprintf(out, "%s%*s", cells[c], c + 1 < COLUMN_COUNT ? (int)(widths[c] - text_width(cells[c]) + 2) : 0, "");
  fputc('\n', out);
}

void bench_table_print(const bench_table *table, FILE *out)
{
  const char *cells[COLUMN_COUNT];
  size_t widths[COLUMN_COUNT];
  char number[16];
  for (size_t c = 0; c < COLUMN_COUNT; c++) widths[c] = text_width(titles[c]);
  for (size_t i = 0; i < table->count; i++) {
    line_cells(table, i, number, cells);
    for (size_t c = 0; c < COLUMN_COUNT; c++)
      if (text_width(cells[c]) > widths[c]) widths[c] = text_width(cells[c]);
  }
  print_cells(out, titles, widths);
  for (size_t i = 0; i < table->count; i++) {
    line_cells(table, i, number, cells);
    print_cells(out, cells, widths);
  }
}

static void write_head(const bench_results *r, FILE *out)
{
  const bench_machine *m = r->machine;
  size_t missed = bench_table_missed(r->table);
  fprintf(out, "# Budgets: what was reached\n\n");
  fprintf(out, "Written by `%s` on %s, in %.0f s.\n", r->command, m->date, r->seconds);
  fprintf(out,
          "Medians of %u runs, in which ours and the peer take turns, with the same keys (18 bytes) and values (200 bytes that do not\n",
          r->run_count);
  fprintf(out, "compress). Every value that is read is checked. A ratio is ours over the peer in speed for ≥, in cost for ≤.\n\n");
  fprintf(out, "- Machine: %s, %ld cores, %s\n- Files on: %s\n- Versions: %s\n\n", m->cpu, m->core_count, m->kernel, m->file_system,
          m->versions);
  fprintf(out, "%zu of %zu lines are met.\n\n", r->table->count - missed, r->table->count);
}

static void write_table(const bench_table *table, FILE *out)
{
  const char *cells[COLUMN_COUNT];
  char number[16];
  for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(out, "| %s ", titles[c]);
  fprintf(out, "|\n|--:|---|---|--:|--:|--:|--:|---|\n");
  for (size_t i = 0; i < table->count; i++) {
    line_cells(table, i, number, cells);
    for (size_t c = 0; c < COLUMN_COUNT; c++) fprintf(out, c == 7 && !table->lines[i].is_met ? "| **%s** " : "| %s ", cells[c]);
    fprintf(out, "|\n");
  }
}

static void write_notes(const bench_table *table, FILE *out)
{
  fprintf(out, "\n## Notes\n\n");
  for (size_t i = 0; i < table->count; i++) {
    const bench_line *line = &table->lines[i];
    bool is_repeated = i > 0 && strcmp(line->note, table->lines[i - 1].note) == 0;
    if (line->note[0] && !is_repeated) fprintf(out, "- %d, %s: %s\n", table->numbers[i], line->what, line->note);
  }
}

pd_code bench_results_write(const bench_results *results, const char *path, pd_error *err)
{
  char fresh[BENCH_PATH_SIZE];
  if (snprintf(fresh, sizeof(fresh), "%s.new", path) >= (int)sizeof(fresh))
    return pd_error_set(err, PD_LIMIT, "the path '%s' is too long", path);
  FILE *out = fopen(fresh, "we");
  if (!out) return pd_error_set(err, PD_STORAGE, "cannot write '%s': %s", fresh, strerror(errno));
  write_head(results, out);
  write_table(results->table, out);
  write_notes(results->table, out);
  bool is_written = !ferror(out);
  is_written = fclose(out) == 0 && is_written;
  if (is_written && rename(fresh, path) == 0) return PD_OK;
  pd_code code = pd_error_set(err, PD_STORAGE, "cannot write '%s': %s", path, strerror(errno));
  unlink(fresh);
  return code;
}
