/*
 * threads.c: bench-threads: what a conversation costs as it grows, as a thread and by LangGraph's SQLite checkpointer (talk.h): a table as
 * Markdown, and a plot as SVG.
 *
 * Time is that of one checkpoint around that turn, sync on and off; bytes are those of the closed files of a conversation that ended there.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "bench.h"
#include "folder.h"
#include "svg.h"
#include "talk.h"

static const uint32_t turns[] = {10, 20, 50, 100, 200, 500};

#define TURN_COUNT COUNT_OF(turns)

typedef struct costs {
  double synced[TURN_COUNT], unsynced[TURN_COUNT]; /* seconds */
  double bytes[TURN_COUNT];
} costs;

typedef pd_code (*talk_fn)(const char *dir, uint32_t turn_count, bool is_synced, talk_result *out, pd_error *err);

static pd_code measure(const char *parent, talk_fn talk, size_t turn_count, costs *out, pd_error *err)
{
  static talk_result result;
  char dir[BENCH_PATH_SIZE];
  for (size_t i = 0; i < turn_count; i++) {
    TRY(bench_folder_new(parent, "talk", dir, err));
    TRY(talk(dir, turns[i], true, &result, err));
    out->bytes[i] = (double)result.bytes;
  }
  for (size_t i = 0; i < turn_count; i++) out->synced[i] = talk_seconds_at(&result, turns[i]);
  TRY(bench_folder_new(parent, "talk", dir, err));
  TRY(talk(dir, turns[turn_count - 1], false, &result, err));
  for (size_t i = 0; i < turn_count; i++) out->unsynced[i] = talk_seconds_at(&result, turns[i]);
  return bench_folder_remove(dir, err);
}

/* ---- as a table ---------------------------------------------------------------------------------------------------- */

static pd_code write_table(const char *path, const costs *ours, const costs *peer, size_t turn_count, pd_error *err)
{
  CLEANUP(pd_buf_done) pd_buf text = {0};
  TRY(pd_buf_printf(
    &text, err,
    "<!-- Made by bench-threads (make bench-growth). Do not edit. -->\n# What a conversation costs as it grows\n\n"
    "One checkpoint a turn; a turn is 2 messages of %d bytes and 3 of %d fields. LangGraph is `@langchain/langgraph-checkpoint-sqlite`. "
    "Times are medians of the checkpoints around that turn; bytes are those of the closed files.\n\n"
    "| turns | perdure, bytes | LangGraph, bytes | perdure, sync off | LangGraph, sync off | perdure, sync on | LangGraph, sync on |\n"
    "|--:|--:|--:|--:|--:|--:|--:|\n",
    TALK_MESSAGE_SIZE, TALK_FIELD_COUNT));
  for (size_t i = 0; i < turn_count; i++) {
    char t[6][BENCH_TEXT_SIZE];
    TRY(pd_buf_printf(&text, err, "| %u | %s | %s | %s | %s | %s | %s |\n", turns[i], bench_text_bytes(ours->bytes[i], t[0]),
                      bench_text_bytes(peer->bytes[i], t[1]), bench_text_seconds(ours->unsynced[i], t[2]),
                      bench_text_seconds(peer->unsynced[i], t[3]), bench_text_seconds(ours->synced[i], t[4]),
                      bench_text_seconds(peer->synced[i], t[5])));
  }
  TRY(pd_buf_printf(&text, err, "\n![the same as a plot](threads.svg)\n"));
  fwrite(text.data, 1, text.size, stdout);
  return pd_file_write(path, pd_buf_bytes(&text), false, err);
}

/* ---- as a plot ----------------------------------------------------------------------------------------------------- */

static void time_text(double value, char *out, size_t size)
{
  char text[BENCH_TEXT_SIZE];
  char *space = strchr(bench_text_seconds(value * 1.000001, text), ' ');
  snprintf(out, size, "%g%s", strtod(text, NULL), space ? space : "");
}

static void bytes_text(double value, char *out, size_t size)
{
  char text[BENCH_TEXT_SIZE];
  char *space = strchr(bench_text_bytes(value * 1.000001, text), ' ');
  snprintf(out, size, "%g%s", strtod(text, NULL), space ? space : "");
}

static pd_code write_plot(const char *path, const costs *ours, const costs *peer, size_t turn_count, pd_error *err)
{
  static svg_panel panels[2];
  panels[0] = (svg_panel){.title = "Bytes on disk against turns", .x_name = "turns", .y_text = bytes_text};
  panels[1] = (svg_panel){.title = "Time of a checkpoint against turns", .x_name = "turns", .y_text = time_text};
  for (size_t i = 0; i < turn_count; i++) {
    svg_point(&panels[0], "perdure", turns[i], ours->bytes[i]);
    svg_point(&panels[0], "LangGraph", turns[i], peer->bytes[i]);
    svg_point(&panels[1], "perdure", turns[i], ours->unsynced[i]);
    svg_point(&panels[1], "perdure, synced", turns[i], ours->synced[i]);
    svg_point(&panels[1], "LangGraph", turns[i], peer->unsynced[i]);
    svg_point(&panels[1], "LangGraph, synced", turns[i], peer->synced[i]);
  }
  return svg_write(path, "A conversation as it grows: perdure and LangGraph's SQLite checkpointer", panels, COUNT_OF(panels), err);
}

/* ---- the program --------------------------------------------------------------------------------------------------- */

static pd_code run(const char *parent, size_t turn_count, const char *table, const char *plot, pd_error *err)
{
  static costs ours, peer;
  char dir[BENCH_PATH_SIZE];
  pd_error ignored;
  if (!talk_peer_is_there())
    return pd_error_set(err, PD_NOT_FOUND, "the peer is not installed: bench/langgraph/install FOLDER, PERDURE_BENCH_NPM=FOLDER");
  TRY(bench_folder_temp(parent, dir, err));
  pd_code code = measure(dir, talk_ours, turn_count, &ours, err);
  if (!code) code = measure(dir, talk_langgraph, turn_count, &peer, err);
  if (bench_folder_remove(dir, &ignored) != PD_OK) bench_say("%s", ignored.message);
  if (code) return code;
  TRY(write_table(table, &ours, &peer, turn_count, err));
  return write_plot(plot, &ours, &peer, turn_count, err);
}

static const char usage[] =
  "usage: bench-threads [--quick] [--dir PATH] [--table FILE] [--svg FILE]\n"
  "\n"
  "Keeps a conversation of up to 500 turns as a thread and by LangGraph's SQLite checkpointer (bench/langgraph/install), and writes what\n"
  "it costs as it grows: bench/threads.md and bench/threads.svg, unless other files are named. --quick stops at 50 turns.\n";

int main(int argc, char **argv)
{
  static const struct option options[] = {
    {"quick", no_argument, NULL, 'q'},     {"dir", required_argument, NULL, 'd'}, {"table", required_argument, NULL, 't'},
    {"svg", required_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0},
  };
  const char *dir = BENCH_BUILD_DIR, *table = BENCH_SOURCE_DIR "/threads.md", *plot = BENCH_SOURCE_DIR "/threads.svg";
  bool is_quick = false;
  pd_error err = {0};
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case 'q': is_quick = true; break;
    case 'd': dir = optarg; break;
    case 't': table = optarg; break;
    case 's': plot = optarg; break;
    case 'h': fputs(usage, stdout); return 0;
    default: fputs(usage, stderr); return 2;
    }
  }
  if (optind < argc) {
    fputs(usage, stderr);
    return 2;
  }
  if (run(dir, is_quick ? 3 : TURN_COUNT, table, plot, &err) == PD_OK) return 0;
  fprintf(stderr, "bench-threads: %s\n", err.message);
  return 1;
}
