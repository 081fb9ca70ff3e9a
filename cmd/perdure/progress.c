/* progress.c: a bar on standard error while something takes long. */
#include "progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH 30
#define DRAW_EVERY_MS 100

void progress_init(progress_bar *bar, const cli_session *cli, const char *what)
{
  *bar = (progress_bar){.what = what, .is_on = isatty(STDERR_FILENO) && !cli->is_json && !cli->is_quiet};
}

bool progress_show(void *ctx, uint64_t done, uint64_t total)
{
  progress_bar *bar = ctx;
  int64_t now = bar->is_on ? pd_clock_monotonic_ms() : 0;
  if (!bar->is_on || (now - bar->drawn_ms < DRAW_EVERY_MS && (done < total || !total))) return true;
  bar->drawn_ms = now;
  bar->is_shown = true;
  if (!total) {
    fprintf(stderr, "\r%s %" PRIu64 "\33[K", bar->what, done);
    return true;
  }
  unsigned permille = (unsigned)((double)done * 1000.0 / (double)total);
  if (permille > 1000) permille = 1000;
  char line[BAR_WIDTH + 1] = {0};
  for (unsigned i = 0; i < BAR_WIDTH; i++) line[i] = i * 1000 < permille * BAR_WIDTH ? '#' : '.';
  fprintf(stderr, "\r%s [%s] %3u%%  %" PRIu64 " of %" PRIu64 "\33[K", bar->what, line, permille / 10, done, total);
  return true;
}

void progress_clear(progress_bar *bar)
{
  if (bar->is_shown) fputs("\r\33[K", stderr);
  bar->is_shown = false;
}
